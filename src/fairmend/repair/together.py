"""Plans for several groups that hold once all of them are in force.

Compared with the rest, every group is part of the others' reference: a plan that brings one group
to the others' rate of today misses it as soon as the others are repaired too. So the rates that all
of them must meet are solved for together, the plans are made for these, and what the finished plans
do to everybody is counted again; as long as a gap is not closed, each plan is made anew against the
others as they are now.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from fairmend.data.columns import FloatArray
from fairmend.errors import FairmendWarning, warn
from fairmend.measure.disparity import RateGap
from fairmend.measure.population import AuditData, Population, pooled
from fairmend.measure.realised import half_a_person
from fairmend.repair.plan import Plan
from fairmend.repair.problem import RepairProblem

_SWEEPS = 30
_SETTLED = 1e-7
"""Rates of the others that change by less are settled."""

MakePlan = Callable[[RepairProblem], Plan]
ReadProblem = Callable[[Hashable, Population], RepairProblem]


def repaired_population(data: AuditData, group: Hashable, plan: Plan) -> Population:
    """A group as it is decided under a plan, in expectation over draws."""
    assert data.table is not None
    people = data[group]
    route = plan.route(data.table.take(np.asarray(people.rows)), people.answers)
    return replace(people, decision=route.expected_decision(people.answers))


def plans_against_the_rest(
    data: AuditData, targets: Sequence[Hashable], read: ReadProblem, make: MakePlan
) -> dict[Hashable, Plan]:
    """A plan for each target against all others, as they are under their own plans.

    ``read`` gives the problem of a group against a given population, ``make`` its plan.
    """
    now = _at_common_rates(data, [read(target, data.rest(target)) for target in targets])
    plans: dict[Hashable, Plan] = {}
    for sweep in range(_SWEEPS):
        met: list[float] = []
        for target in targets:
            problem = read(target, _others(data, target, now))
            with warnings.catch_warnings():
                if sweep > 0:  # the same warning as in the first sweep
                    warnings.simplefilter("ignore", FairmendWarning)
                plans[target] = make(problem)
            met += _rates(problem)
            now[target] = repaired_population(data, target, plans[target])
        problems = {target: read(target, _others(data, target, now)) for target in targets}
        plans = {target: problems[target].again(plan) for target, plan in plans.items()}
        moved = np.abs(np.subtract(met, [rate for t in targets for rate in _rates(problems[t])]))
        if all(plan.status.closed for plan in plans.values()) or moved.max() <= _SETTLED:
            break
    _warn_of_the_new_last(data, now, problems[targets[0]])
    return plans


def _others(data: AuditData, group: Hashable, now: Mapping[Hashable, Population]) -> Population:
    return pooled([now.get(other, data[other]) for other in data.groups if other != group])


def _rates(problem: RepairProblem) -> list[float]:
    return [gap.rate for gap in problem.gaps]


# -------------------------------------------------------------------- a first guess


def _at_common_rates(
    data: AuditData, problems: Sequence[RepairProblem]
) -> dict[Hashable, Population]:
    """The targets at the rates at which the (first) gap of each is what it is to be.

    R_g minus the mean of the others, by the people the rates are over, is the aim of g: as many
    linear equations as targets. A rate over decisions has other people then, and no such guess.
    """
    gaps = {problem.target: problem.gaps[0] for problem in problems}
    rate = problems[0].gaps[0].disparity
    if problems[0].gaps[0].over_decisions:
        return {}
    over = {group: _over(rate, data[group]) for group in data.groups}
    everybody = sum(over.values())
    left, right = np.zeros((len(problems), len(problems))), np.zeros(len(problems))
    for i, problem in enumerate(problems):
        right[i] = gaps[problem.target].aim
        others = everybody - over[problem.target]
        for group in data.groups:
            share = -over[group] / others if group != problem.target else 1.0
            if group in gaps:
                left[i, [one.target for one in problems].index(group)] = share
            else:
                right[i] -= share * rate.of(data[group])
    wanted = np.linalg.lstsq(left, right, rcond=None)[0]
    return {
        problem.target: _moved_to(rate, problem.source, float(aim))
        for problem, aim in zip(problems, wanted, strict=True)
    }


def _over(rate: RateGap, people: Population) -> float:
    _, t = rate.terms(people)
    weight = 1.0 if people.tally is None else float(people.tally.weight.sum())
    return float(people.mass @ t) * weight


def _moved_to(rate: RateGap, people: Population, wanted: float) -> Population:
    """The people with all decisions moved evenly towards 0 or 1, so that the rate is as wanted."""
    now = rate.of(people)
    for end in (0.0, 1.0):
        there: FloatArray = np.full(len(people), end)
        furthest = rate.of(replace(people, decision=there))
        if (furthest - now) * (wanted - now) > 0:
            share = min(1.0, (wanted - now) / (furthest - now))
            return replace(people, decision=people.decision + share * (there - people.decision))
    return people


# -------------------------------------------------------------------- what else changes


def _warn_of_the_new_last(
    data: AuditData, now: Mapping[Hashable, Population], problem: RepairProblem
) -> None:
    """Groups that fare worse than the rest only since the others are repaired."""
    rate = problem.gaps[0].disparity
    worse = []
    for group in data.groups:
        if group not in now:
            before = rate.value(data[group], data.rest(group))
            after = rate.value(data[group], _others(data, group, now))
            if before <= 0 < after - half_a_person(rate, data[group]):
                worse.append(f"{group} ({100 * before:+.1f} to {100 * after:+.1f} points)")
    if worse:
        warn(
            f"Once these plans are in force, {', '.join(worse)} fares worse in {rate.name} than "
            "the rest, as the others are repaired and it is not. Name a reference group, or use "
            "reference='best', to bring every group to one rate.",
        )
