"""The linear program behind a repair of several gaps: which rows to turn, each with a chance.

    minimise    sum_i mass_i cost_i u_i
    subject to  effect u = -excess,   lost u <= room,   0 <= u <= 1

Effects are those expected of people, from a model of their outcomes. What people experience may
differ, so the right-hand side is then moved until that is closed (`agreeing`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from fairmend.data.columns import FloatArray, IntArray
from fairmend.progress import progress

ROUNDS, FEW_ROUNDS = 150, 20
CLOSE = 1e-10
"""When to stop, in points of the rates."""
_SHORTEST = 1e-4
"""A step shorter than this does not help any more."""
_SETTLED_BY, _SETTLED_SHARE = (16, 32, 64, 128), 0.02
"""Rows nearest to indifference that close what the steps leave, at most this share of all."""
_TROUBLE = 4
"""The solver's status where numbers are too far apart for it."""
_IN_DOUBT = 400
"""Rows that the program is solved over where prices are known from before."""
_ROUNDING = 1e-12
"""By how much sums may fall short of a whole."""
_SLACKS = (1e-9, 1e-7, 1e-6, 1e-5)
"""Added to the smallest excess, which is known to the solver's tolerance only: as little as works.
"""

Solution = tuple[FloatArray, FloatArray]
"""Chances and prices."""
Solve = Callable[[FloatArray], Solution | None]


def agreeing(
    solve: Solve,
    solved: tuple[FloatArray, FloatArray],
    start: FloatArray,
    excess: Callable[[FloatArray], FloatArray],
    *,
    rounds: int = ROUNDS,
    close: float = CLOSE,
) -> tuple[FloatArray, FloatArray]:
    """Move the program's right-hand side until what people experience is closed, not its model.

    The solution moves with the right-hand side without jumps, but not always by the same amount:
    a step that does not help is halved. What is less than ``close`` counts as closed.
    """
    best, aimed_at, missed, step = solved, start, excess(solved[0]), 1.0
    with progress("closing the gaps", rounds) as advance:
        for _ in range(rounds):
            if np.abs(missed).max() <= close or step < _SHORTEST:
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


@dataclass(frozen=True, eq=False)
class FlipProgram:
    """Turn row i with chance u_i."""

    mass: FloatArray
    cost: FloatArray
    effect: FloatArray
    """A line per constraint."""
    lost: FloatArray
    room: FloatArray
    """lost u <= room, besides."""
    scaled_first: bool = False
    """Whether lines are scaled before the solver sees them; otherwise where it fails alone."""
    last: list[FloatArray] = field(default_factory=list)
    """The prices of the last solution, where there is one."""

    def cheapest(self, excess: FloatArray) -> Solution | None:
        """The cheapest u with effect u = -excess, and the constraints' prices; None without one.

        The rows that the last prices leave in no doubt stay as they were, as long as the new
        prices agree: the answer is then that of the whole program.
        """
        if self._one_gap:
            return self._of_one_gap(float(excess[0]))
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

    def _of_one_gap(self, excess: float) -> Solution | None:
        """For one gap a knapsack: rows in the order of what they cost a unit, one in part."""
        order, ratio, total = self._by_ratio[excess < 0]
        wanted = abs(excess)
        chance = np.zeros(len(self.mass))
        if wanted == 0:
            return chance, np.zeros(1)
        last = int(np.searchsorted(total, wanted))
        if last == len(total):
            if len(total) == 0 or wanted > total[-1] * (1 + _ROUNDING):
                return None
            last -= 1
        before = float(total[last - 1]) if last > 0 else 0.0
        chance[order[:last]] = 1.0
        chance[order[last]] = min(1.0, (wanted - before) / (float(total[last]) - before))
        return chance, np.array([-np.sign(excess) * ratio[last]])

    @property
    def _one_gap(self) -> bool:
        """Whether the program is a knapsack."""
        return len(self.effect) == 1 and len(self.room) == 0

    def _as_far_as_it_goes(self, excess: float) -> Solution:
        """Every row that takes off an excess which all together cannot take off."""
        order, ratio, _ = self._by_ratio[excess < 0]
        chance = np.zeros(len(self.mass))
        chance[order] = 1.0
        return chance, -np.sign(excess) * ratio[-1:] if len(ratio) > 0 else np.zeros(1)

    @cached_property
    def _by_ratio(self) -> tuple[tuple[IntArray, FloatArray, FloatArray], ...]:
        """Rows that take off an excess, and those that take off a shortfall.

        In the order of what that costs a unit; what it costs; and what all up to each take off.
        """
        sides = []
        for sign in (-1, 1):
            gain = sign * self.effect[0]
            at = np.flatnonzero((gain > 0) & np.isfinite(self.cost))
            ratio = self._price[at] / gain[at]
            order = np.argsort(ratio, kind="stable")
            sides.append((at[order], ratio[order], np.cumsum(gain[at[order]])))
        return tuple(sides)

    def settled(self, solved: Solution, excess: FloatArray, effect: FloatArray) -> Solution | None:
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

    def _sifted(self, excess: FloatArray, prices: FloatArray) -> Solution | None:
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
        if (wrong > CLOSE * self.mass).any():
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
    ) -> Solution | None:
        """The program over some rows, the others as they are: chances, and all prices."""
        answer = _simplex(
            self._price[rows],
            self._bounds[rows],
            scaled_first=self.scaled_first,
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

    def nearest(self, excess: FloatArray) -> Solution:
        """Of the u with the smallest largest |excess_k + effect_k u| the cheapest; its prices."""
        if self._one_gap:
            solved = self._of_one_gap(float(excess[0]))
            return self._as_far_as_it_goes(float(excess[0])) if solved is None else solved
        rows, count = self.effect.shape[1], len(excess)
        both_sides = np.concatenate([self.effect, -self.effect])
        smallest = _simplex(
            np.r_[np.zeros(rows), 1.0],
            np.r_[self._bounds, [(0.0, np.inf)]],
            scaled_first=self.scaled_first,
            A_ub=np.r_[
                np.c_[both_sides, -np.ones(2 * count)], np.c_[self.lost, np.zeros(len(self.room))]
            ],
            b_ub=np.r_[-excess, excess, self.room],
        )
        for slack in _SLACKS:
            limit = float(np.asarray(smallest.x)[-1]) + slack
            solved = self.within(excess, np.full(count, limit))
            if solved is not None:
                return solved
        return np.clip(np.asarray(smallest.x)[:-1], 0.0, 1.0), np.zeros(count)

    def within(self, excess: FloatArray, limits: FloatArray) -> Solution | None:
        """The cheapest u with |excess_k + effect_k u| <= limits_k, and its prices; None without."""
        answer = _simplex(
            self._price,
            self._bounds,
            scaled_first=self.scaled_first,
            A_ub=np.concatenate([self.effect, -self.effect, self.lost]),
            b_ub=np.concatenate([limits - excess, limits + excess, self.room]),
        )
        if answer.status != 0:
            return None
        over, under, _ = np.split(
            np.asarray(answer.ineqlin.marginals), [len(excess), 2 * len(excess)]
        )
        return np.clip(np.asarray(answer.x), 0.0, 1.0), np.asarray(over - under, np.float64)

    @cached_property
    def _bounds(self) -> FloatArray:
        return np.stack([np.zeros(len(self.cost)), np.isfinite(self.cost).astype(float)], axis=1)

    @cached_property
    def _price(self) -> FloatArray:
        return self.mass * np.where(np.isfinite(self.cost), self.cost, 0.0)


def _simplex(price: FloatArray, bounds: Any, *, scaled_first: bool, **constraints: Any) -> Any:
    """Solve a program; its answer is a vertex, with at most one drawn row per constraint.

    The solver's tolerances are absolute, and masses of many people are smaller. With
    ``scaled_first``, or where it fails, the largest number of each line is made 1.
    """
    from scipy.optimize import linprog

    if not scaled_first:
        answer = linprog(price, bounds=bounds, method="highs-ds", **constraints)
        if answer.status != _TROUBLE:
            return answer
    unit = float(np.abs(price).max(initial=0.0)) or 1.0
    lines = {kind: _largest(constraints[f"A_{kind}"]) for kind in ("eq", "ub")
             if f"A_{kind}" in constraints}  # fmt: skip
    scaled: dict[str, Any] = dict(constraints)
    for kind, line in lines.items():
        scaled[f"A_{kind}"] = constraints[f"A_{kind}"] / line[:, None]
        scaled[f"b_{kind}"] = constraints[f"b_{kind}"] / line
    answer = linprog(price / unit, bounds=bounds, method="highs-ds", **scaled)
    if answer.status == _TROUBLE:
        scaled["options"] = {"presolve": False}
        answer = linprog(price / unit, bounds=bounds, method="highs-ds", **scaled)
    if answer.status == 0:
        for kind, line in lines.items():
            part = answer[{"eq": "eqlin", "ub": "ineqlin"}[kind]]
            part["marginals"] = np.asarray(part["marginals"]) * unit / line
    return answer


def _largest(matrix: FloatArray) -> FloatArray:
    """The largest number of each line; 1 where all are 0."""
    largest = np.abs(matrix).max(axis=1, initial=0.0)
    return np.where(largest > 0, largest, 1.0)
