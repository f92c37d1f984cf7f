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
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairmend.columns import FloatArray, Frame
from fairmend.destinations import Donors, join
from fairmend.limits import Chances, Coefficients, alike
from fairmend.model import Answers
from fairmend.plan import Outlook, Plan, PlanStatus, Route
from fairmend.realised import RealisedGap
from fairmend.seen import find_seen
from fairmend.task import KnownOutcome, RepairTask

__all__ = ["JointPlan", "close_jointly"]

_ROUNDS, _FEW_ROUNDS = 150, 20
_CLOSE = 1e-10
"""When to stop, in points of the rates."""
_SHARES = (1.0, 0.75, 0.5, 0.25)
"""Of the gaps, tried where they cannot be closed: the program goes by expected outcomes, and less
may be closer by those on record."""
_SHORTEST = 1e-4
"""A step shorter than this does not help any more."""


@dataclass(frozen=True, eq=False)
class JointPlan(Plan):
    """Turn decisions where the constraints' prices outweigh the cost of the edit."""

    gaps: tuple[RealisedGap, ...]
    prices: Coefficients
    outcome: KnownOutcome
    donors: tuple[Donors, Donors]
    """Where rows decided 0 go, and where rows decided 1 go."""
    seen: Frame
    answers: Answers
    """What the model said at the rows of ``seen``."""
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
                found = donors.nearest(rows.take(at))
                kept = np.flatnonzero((worth > found.cost) | ~found.reached)
                parts.append((at[kept], found.take(kept)))
        if not parts:
            return Route.stay(len(rows))
        at = np.concatenate([one for one, _ in parts])
        return Route.flips(len(rows), at, chance[at], join([found for _, found in parts]))


def _turning(gaps: Sequence[RealisedGap], outcome: FloatArray, decision: FloatArray) -> FloatArray:
    """What turning each decision adds to each gap's excess, shape (gaps, rows)."""
    return np.stack([gap.slope(outcome) for gap in gaps]) * (1 - 2 * decision)


def close_jointly(task: RepairTask) -> Plan:
    """Solve the program, and move its right-hand side until the observed outcomes agree."""
    source, outcome = task.source, task.outcome(pooled=False)
    donors = (task.donors(1.0), task.donors(0.0))
    cost = np.empty(len(source))
    for decision in (0, 1):
        at = np.flatnonzero(source.decision == decision)
        if len(at) > 0:
            cost[at] = donors[decision].nearest(task.table.take(at)).cost
    cost[source.decision == task.protected] = np.inf
    chance, prices, feasible = _solved(task, outcome.of(task.table), cost)
    plan = JointPlan(
        **task.common(task.done, Outlook()),
        gaps=task.gaps,
        prices=prices,
        outcome=outcome,
        donors=donors,
        seen=task.table,
        answers=source.answers,
        chance=chance,
    )
    return task.finished(plan, PlanStatus.REMAINS if feasible else PlanStatus.INFEASIBLE)


def _solved(
    task: RepairTask, outcome: FloatArray, cost: FloatArray
) -> tuple[FloatArray, FloatArray, bool]:
    """Chances that close the gaps as people turned out, or come as close as was found; prices.

    Last whether the program has a solution by the outcomes expected of people.
    """
    own, gaps = task.source.decision, task.gaps
    weight = gaps[0].weight.sum(axis=1)
    # in points of each rate, so that the largest of several means something
    scale = np.array([gap.over(own) for gap in gaps])
    effect = weight * _turning(gaps, outcome, own) / scale[:, None]
    program = _Program(weight / weight.sum(), cost, effect, *_to_be_kept(task, outcome))

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
        found = [program.nearest(share * start) for share in _SHARES]
    else:
        found = [_agreeing(program.cheapest, best, start, excess)]
    found = [*found, _agreeing(program.nearest, found[0], start, excess, _FEW_ROUNDS), nobody]
    chance, prices = min(found, key=left)  # the first of equals
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
    return best


def _to_be_kept(task: RepairTask, outcome: FloatArray) -> tuple[FloatArray, FloatArray]:
    """For each rate over decisions, what turning a row takes from it, and how much it may lose."""
    gaps = [gap for gap in task.gaps if gap.over_decisions]
    own, weight = task.source.decision, task.gaps[0].weight.sum(axis=1)
    now = np.array([gap.over(own) for gap in gaps])
    lost = [-weight * gap.over_slope(outcome) * (1 - 2 * own) for gap in gaps]
    least = [task.fewest(gap) for gap in gaps]
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

    def cheapest(self, excess: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """The cheapest u with effect u = -excess, and the constraints' prices; None without one."""
        answer = self._solve(A_eq=self.effect, b_eq=-excess, A_ub=self.lost, b_ub=self.room)
        return None if answer.status != 0 else self._read(answer, answer.eqlin.marginals)

    def nearest(self, excess: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Of the u with the smallest largest |excess_k + effect_k u| the cheapest; its prices."""
        from scipy.optimize import linprog

        rows, count = self.effect.shape[1], len(excess)
        both_sides = np.concatenate([self.effect, -self.effect])
        smallest = linprog(
            np.r_[np.zeros(rows), 1.0],
            A_ub=np.r_[
                np.c_[both_sides, -np.ones(2 * count)], np.c_[self.lost, np.zeros(len(self.room))]
            ],
            b_ub=np.r_[-excess, excess, self.room],
            bounds=[*self._bounds(), (0.0, None)],
            method="highs-ds",
        )
        slack = 1e-9  # the smallest is known to the solver's tolerance only
        limit = float(np.asarray(smallest.x)[-1]) + slack
        answer = self._solve(
            A_ub=np.r_[both_sides, self.lost],
            b_ub=np.r_[np.r_[-excess, excess] + limit, self.room],
        )
        marginals = np.asarray(answer.ineqlin.marginals)
        return self._read(answer, marginals[:count] - marginals[count : 2 * count])

    def _bounds(self) -> list[tuple[float, float]]:
        return [(0.0, 1.0 if reached else 0.0) for reached in np.isfinite(self.cost)]

    def _solve(self, **constraints: Any) -> Any:
        from scipy.optimize import linprog

        price = self.mass * np.where(np.isfinite(self.cost), self.cost, 0.0)
        # the simplex ends on a vertex: at most one drawn row per constraint
        return linprog(price, bounds=self._bounds(), method="highs-ds", **constraints)

    def _read(self, answer: Any, prices: Any) -> tuple[FloatArray, FloatArray]:
        """Chances, and prices a unit of mass."""
        return np.clip(np.asarray(answer.x), 0.0, 1.0), np.asarray(prices, np.float64)
