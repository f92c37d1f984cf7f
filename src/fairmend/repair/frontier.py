"""A repair at other levels: the same rule, cut elsewhere.

Of the least change that closes one gap only the cut depends on the level. Who goes first, where an
edited row goes, and what is expected of people do not: they are found once and remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from fairmend.measure.population import AuditData
from fairmend.model.blackbox import BlackBox
from fairmend.repair.blind.fit import BlindLevels
from fairmend.repair.destinations import RememberingDonors
from fairmend.repair.least_change import FlipPlan, Turning
from fairmend.repair.plan import Plan
from fairmend.repair.plans import make_plans
from fairmend.repair.problem import RepairProblem
from fairmend.repair.settings import RepairSettings

PlansAt: TypeAlias = Callable[[float], Mapping[Hashable, Plan]]


@dataclass(frozen=True, eq=False)
class _Levels:
    """One fitted plan at any level; its outlook stays that of the level it was fitted for."""

    plan: FlipPlan
    data: AuditData
    settings: RepairSettings
    box: BlackBox

    def at(self, level: float) -> Plan:
        """The plan that closes so much of the gap."""
        settings, ranking = replace(self.settings, level=level), self.plan.ranking
        target, baseline = self.plan.target, self.plan.baseline
        problem = RepairProblem.read(
            self.data, settings, self.box, target=target, baseline=baseline
        )
        if ranking.outcome is not None:
            problem.outcomes[True] = ranking.outcome
        if problem.nothing_to_close:
            return problem.identity()
        if problem.gaps[0].over_decisions:  # it may flip the other decisions at another level
            return Turning.read(problem).plan(problem)
        ranking = replace(ranking, gap=problem.gaps[0])
        cut, _ = Turning.of(problem, ranking, self.plan.donors).chances(problem)
        return replace(self.plan, ranking=ranking, cut=cut)


def plans_by_level(
    plans: Mapping[Hashable, Plan], data: AuditData, settings: RepairSettings, box: BlackBox
) -> PlansAt:
    """The plans of any level: fitted ones with another cut, or made anew if that cannot be."""
    if settings.blind:
        return BlindLevels(data, settings, box).at
    flips = [plan for plan in plans.values() if isinstance(plan, FlipPlan)]
    together = settings.reference == "rest" and len(flips) > 1
    other_rule = settings.two_sided or settings.method != "least_change" or together
    if other_rule or len(flips) < len(plans):
        return lambda level: make_plans(data, replace(settings, level=level), box)
    levels = {}
    for plan in flips:
        donors = RememberingDonors.of(plan.donors)
        levels[plan.target] = _Levels(replace(plan, donors=donors), data, settings, box)
    return lambda level: {target: one.at(level) for target, one in levels.items()}
