"""Several gaps closed at once, as equalized odds wants: a linear program with a few constraints.

Each row's decision is turned with probability u_i in [0, 1]. With outcomes expected from
P(Y=1 | x),

    minimise sum w_i C_i u_i   subject to   excess_k + sum_i w_i b_ki u_i = 0 for every gap k.

An optimal u has at most one drawn row per constraint, and the constraints' prices make it a rule
for new rows: turn where the prices outweigh the cost. Where no u meets all constraints the answer
is that, with the cheapest of the points that leave the smallest largest gap. A rate over decisions
(fdr) must keep some people it is over: turning everybody away is no way to close it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairmend.data.columns import FloatArray, Frame, IntArray
from fairmend.data.limits import Chances, Coefficients, alike
from fairmend.data.stored import stored
from fairmend.measure.realised import RealisedGap
from fairmend.model.answers import Answers, find_seen
from fairmend.repair.destinations import Destinations, Donors, join
from fairmend.repair.flip_program import CLOSE, FEW_ROUNDS, FlipProgram, Solution, agreeing
from fairmend.repair.plan import Plan, Route
from fairmend.repair.probabilities import RowProbabilities
from fairmend.repair.problem import RepairProblem
from fairmend.status import PlanStatus

_SHARES = (1.0, 0.75, 0.5, 0.25)
"""Of the gaps, tried where they cannot be closed: the program goes by expected outcomes, and less
may be closer by those on record."""


@stored("JointPlan")
@dataclass(frozen=True, eq=False)
class JointPlan(Plan):
    """Turn decisions where the constraints' prices outweigh the cost of the edit."""

    gaps: tuple[RealisedGap, ...]
    prices: Coefficients
    outcome: RowProbabilities
    donors: tuple[Donors, Donors]
    """Where rows decided 0 go, and where rows decided 1 go."""
    seen: Frame
    answers: Answers
    """The answers of the model at the rows of ``seen``."""
    chance: Chances
    """Of turning, for each row of ``seen``: the program's own answer."""

    def agrees(self) -> bool:
        return (
            super().agrees()
            and alike(self.seen, self.chance, self.answers.decision)
            and alike(self.gaps, self.prices)
            and [donors.answers.decision[0] for donors in self.donors] == [1, 0]
        )

    @property
    def search(self) -> str:
        return "; ".join(dict.fromkeys(donors.words for donors in self.donors))

    @property
    def notes(self) -> tuple[str, ...]:
        """Where a gap is not closed, what was asked of the repair beside closing it."""
        names = [gap.disparity.name for gap in self.gaps if gap.over_decisions]
        if not names or self.status is not PlanStatus.INFEASIBLE:
            return ()
        return (f"at least a tenth of the people that {' and '.join(names)} is over were to stay: "
                "a repair that leaves fewer was not looked for",)  # fmt: skip

    def route(self, rows: Frame, answers: Answers) -> Route:
        """Rows of the audit by the program's answer, new rows by its prices."""
        place = find_seen(self.seen, self.answers, rows, answers)
        chance = np.where(place < 0, 1.0, self.chance[np.maximum(place, 0)])
        parts = []
        for decision, donors in enumerate(self.donors):
            at = np.flatnonzero((answers.decision == decision) & (chance > 0))
            new = np.flatnonzero(place[at] < 0)
            worth = np.full(len(at), np.inf)
            if len(new) > 0:  # find out what turning is worth before asking what it costs
                outcome = self.outcome.of(rows.take(at[new]))
                worth[new] = self.prices @ _turning(self.gaps, outcome, np.full(len(new), decision))
            at, worth = at[worth > 0], worth[worth > 0]
            if len(at) > 0:
                there = donors.nearest(rows.take(at), worth)
                kept = np.flatnonzero((worth > there.cost) | ~there.reached)
                parts.append((at[kept], there.take(kept)))
        if not parts:
            return Route.stay(len(rows))
        return _flips(len(rows), chance, parts)


def _flips(n: int, chance: FloatArray, parts: Sequence[tuple[IntArray, Destinations]]) -> Route:
    """Rows of either decision with where they go."""
    at = np.concatenate([one for one, _ in parts])
    return Route.flips(n, at, chance[at], join([there for _, there in parts]))


def _turning(gaps: Sequence[RealisedGap], outcome: FloatArray, decision: FloatArray) -> FloatArray:
    """What turning each decision adds to each gap's excess, shape (gaps, rows)."""
    return np.stack([gap.slope(outcome) for gap in gaps]) * (1 - 2 * decision)


def close_jointly(problem: RepairProblem) -> Plan:
    """Solve the program, and move its right-hand side until the observed outcomes agree."""
    source, outcome = problem.source, problem.outcome(pooled=False)
    donors = (problem.donors(1.0), problem.donors(0.0))
    cost = np.empty(len(source))
    places = [np.flatnonzero(source.decision == decision) for decision in (0, 1)]
    parts = [
        (at, donors[decision].nearest(problem.table.take(at)))
        for decision, at in enumerate(places)
        if len(at) > 0
    ]
    for at, there in parts:
        cost[at] = there.cost
    cost[source.decision == problem.protected] = np.inf
    chance, prices, feasible = _solved(problem, outcome.of(problem.table), cost)
    plan = JointPlan(
        **problem.common(PlanStatus.REMAINS if feasible else PlanStatus.INFEASIBLE),
        gaps=problem.gaps,
        prices=prices,
        outcome=outcome,
        donors=donors,
        seen=problem.table,
        answers=source.answers,
        chance=chance,
    )
    moving = [
        (at[kept], there.take(kept))
        for at, there in parts
        for kept in [np.flatnonzero(chance[at] > 0)]
    ]
    return problem.finished(plan, route=_flips(len(source), chance, moving))


def _solved(
    problem: RepairProblem, outcome: FloatArray, cost: FloatArray
) -> tuple[FloatArray, FloatArray, bool]:
    """Chances that close the gaps as people turned out, or come as close as was found; prices.

    Last whether the program has a solution by the outcomes expected of people.
    """
    own, gaps = problem.source.decision, problem.gaps
    weight = gaps[0].weight.sum(axis=1)
    # in points of each rate, so that the largest of several means something
    scale = np.array([gap.over(own) for gap in gaps])
    effect = weight * _turning(gaps, outcome, own) / scale[:, None]
    program = FlipProgram(weight / weight.sum(), cost, effect, *_to_be_kept(problem, outcome))

    def excess(chance: FloatArray) -> FloatArray:
        decided = own + chance * (1 - 2 * own)
        return np.asarray([gap.excess(decided) for gap in gaps] / scale, np.float64)

    def left(solved: Solution) -> float:
        decided = own + solved[0] * (1 - 2 * own)
        return float(np.nan_to_num([abs(gap.gap(decided) - gap.aim) for gap in gaps], nan=1).max())

    nobody = np.zeros(len(own)), np.zeros(len(gaps))
    start = excess(nobody[0])
    best = program.cheapest(start)
    feasible = best is not None
    if best is None:
        solutions = [program.nearest(share * start) for share in _SHARES]
    else:
        solutions = [agreeing(program.cheapest, best, start, excess)]
        observed = np.stack([gap.row_slope() for gap in gaps]) * (1 - 2 * own) / scale[:, None]
        if np.abs(excess(solutions[0][0])).max() > CLOSE:
            solutions = [program.settled(solutions[0], start, observed) or solutions[0]]
    solutions = [
        *solutions,
        agreeing(program.nearest, solutions[0], start, excess, rounds=FEW_ROUNDS),
        nobody,
    ]
    chance, prices = min(solutions, key=left)  # the first of equals
    return chance, prices * weight.sum() / scale, feasible


def _to_be_kept(problem: RepairProblem, outcome: FloatArray) -> tuple[FloatArray, FloatArray]:
    """For each rate over decisions, what turning a row takes from it, and how much it may lose."""
    gaps = [gap for gap in problem.gaps if gap.over_decisions]
    own, weight = problem.source.decision, problem.gaps[0].weight.sum(axis=1)
    now = np.array([gap.over(own) for gap in gaps])
    lost = [-weight * gap.over_slope(outcome) * (1 - 2 * own) for gap in gaps]
    least = [problem.fewest(gap) for gap in gaps]
    return np.reshape(lost, (len(gaps), len(own))) / (
        now[:, None] if gaps else 1.0
    ), 1 - least / now
