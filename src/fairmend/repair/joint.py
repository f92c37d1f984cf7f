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

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from fairmend.data.columns import FloatArray, Frame, IntArray
from fairmend.data.limits import Chances, Coefficients, alike
from fairmend.data.stored import stored
from fairmend.measure.realised import RealisedGap
from fairmend.model.answers import Answers, find_seen
from fairmend.progress import progress
from fairmend.repair.destinations import Destinations, Donors, join
from fairmend.repair.outcomes import RowOutcomes
from fairmend.repair.plan import Plan, Route
from fairmend.repair.problem import RepairProblem
from fairmend.status import PlanStatus

__all__ = ["JointPlan", "close_jointly"]

_ROUNDS, _FEW_ROUNDS = 150, 20
_CLOSE = 1e-10
"""When to stop, in points of the rates."""
_SHARES = (1.0, 0.75, 0.5, 0.25)
"""Of the gaps, tried where they cannot be closed: the program goes by expected outcomes, and less
may be closer by those on record."""
_SHORTEST = 1e-4
"""A step shorter than this does not help any more."""
_SETTLED_BY, _SETTLED_SHARE = (16, 32, 64, 128), 0.02
"""Rows nearest to indifference that close what the steps leave, at most this share of all."""
_IN_DOUBT = 400
"""Rows that the program is solved over where prices are known from before."""


@stored("JointPlan")
@dataclass(frozen=True, eq=False)
class JointPlan(Plan):
    """Turn decisions where the constraints' prices outweigh the cost of the edit."""

    gaps: tuple[RealisedGap, ...]
    prices: Coefficients
    outcome: RowOutcomes
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
    program = _Program(weight / weight.sum(), cost, effect, *_to_be_kept(problem, outcome))

    def excess(chance: FloatArray) -> FloatArray:
        decided = own + chance * (1 - 2 * own)
        return np.asarray([gap.excess(decided) for gap in gaps] / scale, np.float64)

    def left(solved: _Solution) -> float:
        decided = own + solved[0] * (1 - 2 * own)
        return float(np.nan_to_num([abs(gap.gap(decided) - gap.aim) for gap in gaps], nan=1).max())

    nobody = np.zeros(len(own)), np.zeros(len(gaps))
    start = excess(nobody[0])
    best = program.cheapest(start)
    feasible = best is not None
    if best is None:
        solutions = [program.nearest(share * start) for share in _SHARES]
    else:
        solutions = [_agreeing(program.cheapest, best, start, excess)]
        observed = np.stack([gap.row_slope() for gap in gaps]) * (1 - 2 * own) / scale[:, None]
        if np.abs(excess(solutions[0][0])).max() > _CLOSE:
            solutions = [program.settled(solutions[0], start, observed) or solutions[0]]
    solutions = [
        *solutions,
        _agreeing(program.nearest, solutions[0], start, excess, _FEW_ROUNDS),
        nobody,
    ]
    chance, prices = min(solutions, key=left)  # the first of equals
    return chance, prices * weight.sum() / scale, feasible


_Solution = tuple[FloatArray, FloatArray]
"""Chances and prices."""
_Solve = Callable[[FloatArray], _Solution | None]


def _agreeing(
    solve: _Solve,
    solved: tuple[FloatArray, FloatArray],
    start: FloatArray,
    excess: Callable[[FloatArray], FloatArray],
    rounds: int = _ROUNDS,
) -> tuple[FloatArray, FloatArray]:
    """Move the program's right-hand side until what people experience is closed, not its model.

    The solution moves with the right-hand side without jumps, but not always by the same amount:
    a step that does not help is halved.
    """
    best, aimed_at, missed, step = solved, start, excess(solved[0]), 1.0
    with progress("closing the gaps", rounds) as advance:
        for _ in range(rounds):
            if np.abs(missed).max() <= _CLOSE or step < _SHORTEST:
                break
            trial = solve(aimed_at + step * missed)
            left = missed if trial is None else excess(trial[0])
            if trial is not None and np.abs(left).max() < np.abs(missed).max():
                best, aimed_at, missed = trial, aimed_at + step * missed, left
                step = min(1.0, 2 * step)
            else:
                step /= 2
            advance(1)
    return best


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


@dataclass(frozen=True, eq=False)
class _Program:
    """Turn row i with chance u_i."""

    mass: FloatArray
    cost: FloatArray
    effect: FloatArray
    """A line per constraint."""
    lost: FloatArray
    room: FloatArray
    """lost u <= room, besides."""
    last: list[FloatArray] = field(default_factory=list)
    """The prices of the last solution, where there is one."""

    def cheapest(self, excess: FloatArray) -> _Solution | None:
        """The cheapest u with effect u = -excess, and the constraints' prices; None without one.

        The rows that the last prices leave in no doubt stay as they were, as long as the new
        prices agree: the answer is then that of the whole program.
        """
        if len(self.last) > 0 and self.effect.shape[1] > 2 * _IN_DOUBT:
            solved = self._sifted(excess, self.last[-1])
            if solved is not None:
                return solved
        everybody = np.arange(len(self.mass))
        solved = self._over(everybody, np.zeros(len(self.mass)), excess, self.effect)
        if solved is None:
            return None
        chance, every = solved
        self.last[:] = [every]
        return chance, every[: len(excess)]

    def settled(
        self, solved: _Solution, excess: FloatArray, effect: FloatArray
    ) -> _Solution | None:
        """A solution with other chances for a few rows, by other effects; None without one.

        They are the rows that its prices decide by least.
        """
        chance, prices = solved
        order = np.argsort(self._doubt(np.r_[prices, np.zeros(len(self.room))]), kind="stable")
        for count in _SETTLED_BY:
            if count > _SETTLED_SHARE * len(order):
                break
            others = chance.copy()
            others[order[:count]] = 0.0
            again = self._over(order[:count], others, excess, effect)
            if again is not None:
                return again[0], prices
        return None

    def _sifted(self, excess: FloatArray, prices: FloatArray) -> _Solution | None:
        """The same with few rows in doubt; None where that is not enough."""
        saved = self._saved(prices)
        doubt = np.argpartition(self._doubt(prices), _IN_DOUBT)[:_IN_DOUBT]
        sure = np.where(saved > 0, 1.0, 0.0)
        sure[doubt] = 0.0
        solved = self._over(doubt, sure, excess, self.effect)
        if solved is None:
            return None
        chance, every = solved
        wrong = self._saved(every) * np.where(sure > 0, -1.0, 1.0)
        wrong[doubt] = 0.0
        if (wrong > _CLOSE * self.mass).any():
            return None
        self.last[:] = [every]
        return chance, every[: len(excess)]

    def _saved(self, prices: FloatArray) -> FloatArray:
        """What turning each row saves at the constraints' prices, those of the room included."""
        worth = prices @ np.concatenate([self.effect, self.lost])
        return np.where(np.isfinite(self.cost), worth - self._price, -np.inf)

    def _doubt(self, prices: FloatArray) -> FloatArray:
        """How clear it is which rows to turn, a unit of mass; the least are in doubt."""
        mass = np.where(self.mass > 0, self.mass, np.inf)
        return np.where(np.isfinite(self.cost), np.abs(self._saved(prices)) / mass, np.inf)

    def _over(
        self, rows: IntArray, sure: FloatArray, excess: FloatArray, effect: FloatArray
    ) -> _Solution | None:
        """The program over some rows, the others as they are: chances, and all prices."""
        answer = _simplex(
            self._price[rows],
            self._bounds[rows],
            A_eq=effect[:, rows],
            b_eq=-excess - effect @ sure,
            A_ub=self.lost[:, rows],
            b_ub=self.room - self.lost @ sure,
        )
        if answer.status != 0:
            return None
        chance = sure.copy()
        chance[rows] = np.clip(np.asarray(answer.x), 0.0, 1.0)
        prices = np.r_[answer.eqlin.marginals, answer.ineqlin.marginals]
        return chance, np.asarray(prices, np.float64)

    def nearest(self, excess: FloatArray) -> _Solution:
        """Of the u with the smallest largest |excess_k + effect_k u| the cheapest; its prices."""
        rows, count = self.effect.shape[1], len(excess)
        both_sides = np.concatenate([self.effect, -self.effect])
        smallest = _simplex(
            np.r_[np.zeros(rows), 1.0],
            np.r_[self._bounds, [(0.0, np.inf)]],
            A_ub=np.r_[
                np.c_[both_sides, -np.ones(2 * count)], np.c_[self.lost, np.zeros(len(self.room))]
            ],
            b_ub=np.r_[-excess, excess, self.room],
        )
        slack = 1e-9  # the smallest is known to the solver's tolerance only
        limit = float(np.asarray(smallest.x)[-1]) + slack
        answer = _simplex(
            self._price,
            self._bounds,
            A_ub=np.r_[both_sides, self.lost],
            b_ub=np.r_[np.r_[-excess, excess] + limit, self.room],
        )
        marginals = np.asarray(answer.ineqlin.marginals)
        prices = marginals[:count] - marginals[count : 2 * count]
        return np.clip(np.asarray(answer.x), 0.0, 1.0), np.asarray(prices, np.float64)

    @cached_property
    def _bounds(self) -> FloatArray:
        return np.stack([np.zeros(len(self.cost)), np.isfinite(self.cost).astype(float)], axis=1)

    @cached_property
    def _price(self) -> FloatArray:
        return self.mass * np.where(np.isfinite(self.cost), self.cost, 0.0)


def _simplex(price: FloatArray, bounds: Any, **constraints: Any) -> Any:
    """Solve a program; its answer is a vertex, with at most one drawn row per constraint."""
    from scipy.optimize import linprog

    return linprog(price, bounds=bounds, method="highs-ds", **constraints)
