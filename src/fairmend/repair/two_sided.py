"""Least change from both sides: all groups move to one rate, the one that costs least worth.

One-sided repair leaves the reference alone and brings everybody else to its rate. Where people of
the reference may lose as well, any rate c between the lowest and the highest can be the common one:
groups above it turn decisions until R = c, groups below it until the mirrored rate 1 - R is 1 - c.
What decisions are worth (see `trade_off`) is a sum over groups, so c is found by trying a fine
grid. It is what peers do by setting a threshold per group, with accuracy for worth; here it is an
option, because it takes from people whom the gap did not harm.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

import numpy as np

from fairmend.errors import DataError, check
from fairmend.measure.audit import audit_data
from fairmend.measure.disparity import RateGap
from fairmend.measure.population import AuditData, Population
from fairmend.model.blackbox import BlackBox
from fairmend.repair.least_change import Turning
from fairmend.repair.plan import Plan
from fairmend.repair.probabilities import RowProbabilities, pooled_tally
from fairmend.repair.problem import RepairProblem, allow_for_rivals, answers_of_all, judged
from fairmend.repair.settings import RepairSettings
from fairmend.repair.together import repaired_population
from fairmend.repair.trade_off import TradeOff

_STEPS = 200


def meet(
    data: AuditData, settings: RepairSettings, box: BlackBox | None = None
) -> dict[Hashable, Plan]:
    """A plan for every group, so that all have one rate.

    >>> from fairmend.datasets import load_compas
    >>> from fairmend import BlackBox, tabulate
    >>> compas = load_compas(backend="numpy")
    >>> vendor = BlackBox(lambda rows: rows @ np.linspace(0.01, 0.05, 17), threshold=0.2)
    >>> data = tabulate(vendor, compas.X, compas.y, sensitive_features=compas.sensitive_features)
    >>> plans = meet(data, RepairSettings(disparity="fpr"))
    >>> [abs(round(plan.outlook.gap_after, 3)) for plan in plans.values()]
    [0.0, 0.0]
    """
    metric = _read_metric(data, settings)
    gaps = judged(audit_data(data, metrics=[metric], reference=settings.reference).gaps)
    if not gaps:
        return {}
    worst = max(gaps, key=lambda gap: gap.gap)
    against = {gap.target: gap.baseline for gap in gaps} | {worst.baseline: worst.target}

    def read(group: Hashable, disparity: RateGap) -> RepairProblem:
        towards = replace(settings, disparity=disparity)
        return RepairProblem.read(data, towards, box, target=group, baseline=against[group])

    sides = {
        group: _Side(read(group, metric), read(group, metric.mirror))
        for group in data.groups
        if group in against
    }
    for group, side in sides.items():
        if group != worst.baseline and settings.level > 0:
            side.warn_if_not_significant()
    common = _common_rate(list(sides.values()), data, settings)
    plans = {
        group: side.plan(side.rate + settings.level * (common - side.rate))
        for group, side in sides.items()
    }
    after = {group: repaired_population(data, group, plan) for group, plan in plans.items()}
    rivals = {gap.target: gap.rivals for gap in gaps}
    return {
        group: allow_for_rivals(
            side.finished(plans[group], after[against[group]]), rivals.get(group, 1)
        )
        for group, side in sides.items()
    }


def _common_rate(sides: Sequence[_Side], data: AuditData, settings: RepairSettings) -> float:
    """The rate at which decisions are worth most."""
    rates = [side.rate for side in sides]
    if max(rates) == min(rates):
        return rates[0]
    grid, implied = np.linspace(min(rates), max(rates), _STEPS + 1), _implied(data, settings)
    worth = np.sum([[side.added(c, implied) for c in grid] for side in sides], axis=0)
    return float(grid[int(np.argmax(worth))])


def _implied(data: AuditData, settings: RepairSettings) -> TradeOff:
    """The trade-off that the model's own decisions imply."""
    people = data.populations
    if any(one.tally is None for one in people):  # the outcomes are known exactly
        return TradeOff.implied(
            *(np.concatenate([getattr(one, name) for one in people])
              for name in ("outcome", "decision", "mass"))
        )  # fmt: skip
    rows, answers = answers_of_all(data)
    tally = pooled_tally(data)
    assert data.table is not None
    outcome = RowProbabilities.fit_event(data.table, tally, settings, "P(Y=1 | x)")
    return TradeOff.implied(outcome.probability[rows], answers.decision, tally.by_row[rows])


def _read_metric(data: AuditData, settings: RepairSettings) -> RateGap:
    """The one rate that all groups are to share."""
    metric = settings.disparities[0]
    if len(settings.disparities) > 1 or not isinstance(metric, RateGap):
        raise DataError(
            "two_sided",
            "must be left out unless one gap of rates is to be closed",
            f"got {', '.join(one.name for one in settings.disparities)}",
            "Name one of sp, fnr, fpr.",
        )
    check(
        settings.reference != "rest",
        "reference",
        "must be a group, or 'best', for two_sided",
        "got 'rest'",
        "All groups come to one rate: name the one to compare with.",
    )
    check(
        data.outcome_known,
        "y",
        "must hold what really happened for two_sided",
        "got None",
        "The common rate is the one at which decisions are worth most: pass y, or leave two_sided "
        "out.",
    )
    return metric


class _Side:
    """One group on its way to a common rate, from whichever side it is on."""

    def __init__(self, down: RepairProblem, up: RepairProblem) -> None:
        """Take the problem of lowering the rate, and that of raising it: lowering its mirror."""
        check(
            not down.is_soft and not down.gaps[0].over_decisions,
            "two_sided",
            "must be False for soft decisions and for rates over decisions",
            f"got {down.metric!r} {'with soft decisions' if down.is_soft else ''}".rstrip(),
            "Set a threshold, or choose sp, fnr or fpr.",
        )
        self._problems = {False: down, True: up}
        self.rate = down.gaps[0].disparity.of(down.source)
        self._turnings: dict[bool, Turning] = {}

    def _to(self, common: float) -> tuple[RepairProblem, Turning]:
        """The problem of going there, and the people in the order they are turned."""
        rises = common > self.rate
        problem = self._problems[rises]
        if rises not in self._turnings:
            self._turnings[rises] = Turning.read(problem)
        gap = replace(problem.gaps[0], rate=1 - common if rises else common, aim=0.0)
        return replace(problem, gaps=(gap,)), self._turnings[rises]

    def added(self, common: float, trade_off: TradeOff) -> float:
        """What going there adds to the worth of the decisions."""
        problem, turning = self._to(common)
        negative, positive = problem.gaps[0].weight[turning.eligible].T
        gained = (1 - trade_off.cut) * positive - trade_off.cut * negative
        return float((turning.chances(problem)[1] * turning.ranking.sign * gained).sum())

    def warn_if_not_significant(self) -> None:
        """As for one side: a rate above the reference's or below it may be so by chance."""
        problem = self._problems[False]
        if problem.gaps[0].gap(problem.source.decision) != 0:
            problem.warn_if_not_significant()

    def plan(self, common: float) -> Plan:
        if common == self.rate:  # the correction for small samples would turn a few
            return self._problems[False].identity()
        problem, turning = self._to(common)
        return turning.plan(problem)

    def finished(self, plan: Plan, other: Population) -> Plan:
        """The plan with what it does beside the other group as it will be."""
        problem = self._problems[False]
        problem = replace(problem, other=other, gaps=(problem.gaps[0].against(other),))
        return replace(problem.again(plan), metric=problem.metric)
