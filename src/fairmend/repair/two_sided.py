"""Least change from both sides: all groups move to one rate, the one that costs least accuracy.

One-sided repair leaves the reference alone and brings everybody else to its rate. Where people of
the reference may lose as well, any rate c between the lowest and the highest can be the common one:
groups above it turn decisions until R = c, groups below it until the mirrored rate 1 - R is 1 - c.
Accuracy is a sum over groups, so c is found by trying a fine grid. It is what peers do by setting
a threshold per group; here it is an option, because it takes from people whom the gap did not harm.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any

import numpy as np

from fairmend.errors import DataError
from fairmend.explain.counterfactual import read_disparities
from fairmend.measure.audit import audit_data
from fairmend.measure.disparity import RateGap
from fairmend.measure.population import AuditData, Population
from fairmend.repair.least_change import Turning
from fairmend.repair.plan import Plan
from fairmend.repair.problem import RepairTask, allow_for_rivals, judged

__all__ = ["meet"]

_STEPS = 200


def meet(
    data: AuditData, *, disparity: Any, reference: Hashable, level: float = 1.0, **settings: Any
) -> dict[Hashable, Plan]:
    """A plan for every group, so that all have one rate; settings as in `least_change`.

    >>> from fairmend.datasets import load_compas
    >>> from fairmend import BlackBox, tabulate
    >>> compas = load_compas(backend="numpy")
    >>> vendor = BlackBox(lambda rows: rows @ np.linspace(0.01, 0.05, 17), threshold=0.2)
    >>> data = tabulate(vendor, compas.X, compas.y, sensitive_features=compas.sensitive_features)
    >>> plans = meet(data, disparity="fpr", reference="best")
    >>> [abs(round(plan.outlook.gap_after, 3)) for plan in plans.values()]
    [0.0, 0.0]
    """
    metric = _read_metric(disparity)
    if reference == "rest":
        raise DataError(
            "reference", "must be a group, or 'best', for two_sided", "got 'rest'",
            "All groups come to one rate: name the one to compare with.",
        )  # fmt: skip
    if not data.outcome_known:
        raise DataError(
            "y",
            "must hold what really happened for two_sided",
            "got None",
            "The common rate is the one that keeps most decisions right: pass y, or leave "
            "two_sided out.",
        )
    gaps = judged(audit_data(data, metrics=[metric], reference=reference).gaps)
    if not gaps:
        return {}
    worst = max(gaps, key=lambda gap: gap.gap)
    against = {gap.target: gap.baseline for gap in gaps} | {worst.baseline: worst.target}
    sides = [
        _Side(data, group, against[group], metric, {"level": level, **settings})
        for group in data.groups
        if group in against
    ]
    for side in sides:
        if side.group != worst.baseline and level > 0:
            side.warn_if_not_significant()
    rates = [side.rate for side in sides]
    grid = np.linspace(min(rates), max(rates), _STEPS + 1)
    accuracy = np.sum([[side.correct(c) for c in grid] for side in sides], axis=0)
    common = float(grid[int(np.argmax(accuracy))])
    plans = {side.group: side.plan(side.rate + level * (common - side.rate)) for side in sides}
    after = {side.group: side.repaired(plans[side.group]) for side in sides}
    rivals = {gap.target: gap.rivals for gap in gaps}
    return {
        side.group: allow_for_rivals(
            side.told(plans[side.group], after[against[side.group]]), rivals.get(side.group, 1)
        )
        for side in sides
    }


def _read_metric(disparity: Any) -> RateGap:
    disparities = read_disparities(disparity)
    metric = disparities[0]
    if len(disparities) > 1 or not isinstance(metric, RateGap):
        raise DataError(
            "two_sided",
            "must be False unless one gap of rates is to be closed",
            f"got {', '.join(one.name for one in disparities)}",
            "Name one of sp, fnr, fpr.",
        )
    return metric


class _Side:
    """One group on its way to a common rate, from whichever side it is on."""

    def __init__(
        self, data: AuditData, group: Hashable, other: Hashable, metric: RateGap, settings: Any
    ) -> None:
        self.group = group
        self._metric = metric
        self._tasks = {
            rises: RepairTask.read(
                data, method="least_change", disparity=metric.mirror if rises else metric,
                target=group, baseline=other, **settings,
            )
            for rises in (False, True)
        }  # fmt: skip
        task = self._tasks[False]
        if task.is_soft or task.gaps[0].over_decisions:
            raise DataError(
                "two_sided",
                "must be False for soft decisions and for rates over decisions",
                f"got {metric.name!r} {'with soft decisions' if task.is_soft else ''}".rstrip(),
                "Set a threshold, or choose sp, fnr or fpr.",
            )
        self.rate = metric.of(task.source)
        self._turnings: dict[bool, Turning] = {}

    def _to(self, common: float) -> tuple[RepairTask, Turning]:
        """The task of going there, and the people in the order they are turned."""
        rises = common > self.rate
        task = self._tasks[rises]
        if rises not in self._turnings:
            self._turnings[rises] = Turning.read(task)
        gap = replace(task.gaps[0], rate=1 - common if rises else common, aim=0.0)
        return replace(task, gaps=(gap,)), self._turnings[rises]

    def correct(self, common: float) -> float:
        """How much weight of right decisions going there adds."""
        task, turning = self._to(common)
        wrong, right = task.gaps[0].weight[turning.eligible].T
        added = turning.ranking.sign * (right - wrong)
        return float((turning.chances(task)[1] * added).sum())

    def warn_if_not_significant(self) -> None:
        """As for one side: a rate above the reference's or below it may be so by chance."""
        task = self._tasks[False]
        if task.gaps[0].gap(task.source.decision) != 0:
            task.warn_if_not_significant()

    def plan(self, common: float) -> Plan:
        if common == self.rate:  # the correction for small samples would turn a few
            return self._tasks[False].identity()
        task, turning = self._to(common)
        return turning.plan(task)

    def repaired(self, plan: Plan) -> Population:
        task = self._tasks[False]
        route = plan.route(task.table, task.source.answers)
        return replace(task.source, decision=route.expected_decision(task.source.answers))

    def told(self, plan: Plan, other: Population) -> Plan:
        """The plan with what it does beside the other group as it will be."""
        task = self._tasks[False]
        task = replace(task, other=other, gaps=(task.gaps[0].against(other),))
        return replace(task.again(plan), metric=self._metric.name)
