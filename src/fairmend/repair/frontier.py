"""A repair at other levels: the same rule, cut elsewhere.

Of the least change that closes one gap only the cut depends on the level. Who goes first, where an
edited row goes, and what is expected of people do not: they are found once and remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from fairmend.data.columns import FloatArray, Frame
from fairmend.data.rows import find_rows, stacked
from fairmend.measure.population import AuditData
from fairmend.model.blackbox import BlackBox
from fairmend.repair.destinations import Destinations, Donors, join
from fairmend.repair.least_change import FlipPlan, Turning
from fairmend.repair.outcomes import RowOutcomes
from fairmend.repair.plan import Plan
from fairmend.repair.plans import make_plans
from fairmend.repair.problem import RepairProblem
from fairmend.repair.settings import RepairSettings

__all__ = ["plans_by_level"]

Found = TypeVar("Found", Destinations, NDArray[np.bool_])


@dataclass(eq=False)
class _Memory(Generic[Found]):
    """What was found out about rows, one entry a row."""

    join: Callable[[Sequence[Found]], Found]
    rows: Frame | None = None
    found: Found | None = None

    def of(self, rows: Frame, find: Callable[[Frame], Found]) -> Found:
        """Look up what is known, and find out the rest."""
        if self.rows is None or self.found is None:
            self.rows, self.found = rows, find(rows)
            return self.found
        new = np.flatnonzero(find_rows(self.rows, rows) < 0)
        if len(new) > 0:
            unknown = rows.take(new)
            self.found = self.join([self.found, find(unknown)])
            self.rows = stacked([self.rows, unknown])
        place = find_rows(self.rows, rows)
        if isinstance(self.found, Destinations):
            return self.found.take(place)
        return self.found[place]


def _joined(parts: Sequence[NDArray[np.bool_]]) -> NDArray[np.bool_]:
    return np.concatenate(parts)


@dataclass(frozen=True, eq=False)
class _Donors(Donors):
    """Donors who are asked about a row once."""

    nearest_known: _Memory[Destinations] = field(default_factory=lambda: _Memory(join))
    reached_known: _Memory[NDArray[np.bool_]] = field(default_factory=lambda: _Memory(_joined))

    def nearest(self, rows: Frame, below: FloatArray | None = None) -> Destinations:
        if below is not None:
            return super().nearest(rows, below)
        return self.nearest_known.of(rows, super().nearest)

    def reach(self, rows: Frame) -> NDArray[np.bool_]:
        return self.reached_known.of(rows, super().reach)


@dataclass(frozen=True, eq=False)
class Levels:
    """One fitted plan at any level; its outlook stays that of the level it was fitted for."""

    plan: FlipPlan
    data: AuditData
    settings: RepairSettings
    box: BlackBox
    outcomes: dict[bool, RowOutcomes]

    @classmethod
    def of(cls, plan: FlipPlan, data: AuditData, settings: RepairSettings, box: BlackBox) -> Levels:
        """``settings`` are those the plan was made with."""
        donors = _Donors(**{one.name: getattr(plan.donors, one.name) for one in fields(Donors)})
        outcome = plan.ranking.outcome
        outcomes = {} if outcome is None else {True: outcome}
        return cls(replace(plan, donors=donors), data, settings, box, outcomes)

    def at(self, level: float) -> Plan:
        """The plan that closes so much of the gap."""
        problem = RepairProblem.read(
            self.data,
            replace(self.settings, level=level),
            self.box,
            target=self.plan.target,
            baseline=self.plan.baseline,
        )
        problem = replace(problem, outcomes=self.outcomes)
        if problem.nothing_to_close:
            return problem.identity()
        source, ranking = problem.source, replace(self.plan.ranking, gap=problem.gaps[0])
        if problem.gaps[0].over_decisions:  # it may flip the other decisions at another level
            return Turning.read(problem).plan(problem)
        eligible = np.flatnonzero(source.decision == ranking.turned)
        rows, answers = problem.table.take(eligible), source.answers.take(eligible)
        donors = self.plan.donors
        cost = donors.nearest(rows).cost if ranking.rank == "cost" else None
        keys = ranking.keys(rows, answers, cost)
        reached = None if cost is None else np.isfinite(cost)
        cut, _ = Turning(ranking, donors, eligible, keys, reached).chances(problem)
        return replace(self.plan, ranking=ranking, cut=cut)


def plans_by_level(
    plans: Mapping[Hashable, Plan], data: AuditData, settings: RepairSettings, box: BlackBox
) -> Callable[[float], Mapping[Hashable, Plan]]:
    """The plans of any level: fitted ones with another cut, or made anew if that cannot be."""
    flips = [plan for plan in plans.values() if isinstance(plan, FlipPlan)]
    together = settings.reference == "rest" and len(flips) > 1
    other_rule = settings.two_sided or settings.method != "least_change" or together
    if other_rule or len(flips) < len(plans):
        return lambda level: make_plans(data, replace(settings, level=level), box)
    cuts = {plan.target: Levels.of(plan, data, settings, box) for plan in flips}
    return lambda level: {target: one.at(level) for target, one in cuts.items()}
