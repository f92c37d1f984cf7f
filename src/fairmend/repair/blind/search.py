"""The search for a blind rule: the cheapest decisions to turn so that all gaps close."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fairmend.data.columns import BoolArray, FloatArray, IntArray
from fairmend.repair.blind.gaps import Audited, Constraint
from fairmend.repair.flip_program import (
    FEW_ROUNDS,
    ROUNDS,
    FlipProgram,
    Solution,
    Solve,
    agreeing,
)

__all__ = ["FlipSearch", "Solved", "best_of_all"]

_NEAR = (16, 32, 64)
"""Rows nearest to indifference, among which the last step is settled: as few as are enough."""
_CLOSE_SHARE = 0.1
"""How near to closed the prices bring the gaps, in tolerances."""
_KEPT = 0.5
"""The share of the people that a rate over decisions must keep: fewer can be anything by luck."""
_HALVINGS, _CAPPED_ROUNDS = 5, 8
"""How finely the gaps that a rule may leave are sought where closing all costs too much."""
_IN_VAIN = 0.5
"""The share of the cost of one decision for everybody that is spent where gaps are left anyway."""
_NEARLY_ALL = 0.9
_SECONDS = 5.0
"""For the last step, which is a program over whole numbers."""
_INSIDE = 0.999
"""How far into their tolerances gaps are brought by it."""


# -------------------------------------------------------------------- the program


@dataclass(frozen=True, eq=False)
class Solved:
    """Prices, and rows that are decided otherwise than by them."""

    prices: FloatArray
    turned: BoolArray
    exceptions: IntArray
    """One row of each kind that is decided otherwise."""
    feasible: bool
    left: float
    """The largest of the gaps, in tolerances."""
    cost: float
    capped: bool = False
    """Whether closing all would cost more than it is worth; see `FlipSearch`."""

    @property
    def order(self) -> tuple[float, float]:
        """The best comes first: least left, then cheapest."""
        return (max(1.0, self.left), self.cost)


class FlipSearch:
    """The cheapest rows to turn so that all constraints hold, as people turned out.

    One decision for everybody has no gap either. So no rule for several gaps may cost more than the
    cheaper of these two, nor half of that where several gaps cannot all be closed anyway, as the
    people of a small group cannot be told from others. The rule then leaves the least that this
    price allows, each gap measured in its own sampling error and none wider than it was: a small
    group's error is the largest, and its gap does not drive the rule for all.
    """

    def __init__(
        self,
        audited: Audited,
        constraints: Sequence[Constraint],
        effect: FloatArray,
        price: FloatArray,
        kind: IntArray,
    ) -> None:
        """``effect`` is that of a positive decision at each row, by constraint, as expected.

        Rows of one ``kind`` are one to the rule, whatever else they hold.
        """
        weight = audited.weight.sum(axis=(0, 2))
        self._way = 1 - 2 * audited.answers.decision
        self._total, self._price = float(weight.sum()), price
        self._effect, self._kind = effect, kind
        self._all_differ = int(kind.max(initial=0)) + 1 == len(kind)
        self._start = np.array([one.start for one in constraints])
        self._tolerance = np.array([one.tolerance for one in constraints])
        each = np.stack([one.weights for one in constraints])
        self._observed = np.einsum("ksy,sry->kr", each, audited.weight) * self._way
        self._mass = weight / self._total
        over = [one.over for one in constraints if one.over is not None]
        lost = [-np.einsum("sy,sry->r", one, audited.weight) * self._way for one in over]
        self._program = FlipProgram(
            self._mass,
            price,
            effect * weight * self._way,
            np.reshape(lost, (len(over), len(weight))),
            np.full(len(over), 1 - _KEPT),
            scaled_first=True,
        )

    def solved(self) -> Solved:
        """Prices by the program, moved until people's own outcomes agree; then the last step."""
        best = self._program.cheapest(self._start)
        solved = self._rule(self._closest(best), feasible=best is not None)
        if len(self._start) == 1 or np.isinf(self._most):
            return solved
        most = self._most * (_IN_VAIN if best is None else 1.0)
        return solved if self._sensible(solved, most) else self._capped(most)

    def _closest(self, best: Solution | None) -> Solution:
        """Prices that leave least, whatever the cost."""
        if best is None:
            solutions = [self._program.nearest(self._start)]
        else:
            solutions = [self._agreeing(self._program.cheapest, best, ROUNDS)]
        if np.abs(self._excess(solutions[0][0])).max() > self._close:
            solutions.append(self._agreeing(self._program.nearest, solutions[0], FEW_ROUNDS))
        return min(solutions, key=self._left)

    def _rule(self, solution: Solution, *, feasible: bool) -> Solved:
        """The rule by these prices, after the last step."""
        prices = solution[1] * self._total
        return self._solved(prices, self._settled(prices, self._margin(prices) > 0), feasible)

    def _solved(
        self, prices: FloatArray, turned: BoolArray, feasible: bool, capped: bool = False
    ) -> Solved:
        by_prices = self._margin(prices) > 0
        return Solved(
            prices,
            turned,
            self._one_a_kind(np.flatnonzero(turned != by_prices)),
            feasible,
            self._in_tolerances(turned),
            float(self._mass[turned] @ self._price[turned]),
            capped,
        )

    @cached_property
    def _most(self) -> float:
        """What the cheaper decision for everybody costs, where nearly everybody can be given it.

        Of rates over decisions that has gaps: there is no limit.
        """
        costs = [float("inf")]
        for way in (1.0, -1.0) if len(self._program.lost) == 0 else ():
            side = self._way == way
            there = side & np.isfinite(self._price)
            if self._mass[there].sum() >= _NEARLY_ALL * self._mass[side].sum() > 0:
                costs.append(float(self._mass[there] @ self._price[there]))
        return min(costs)

    def _sensible(self, solved: Solved, most: float) -> bool:
        """Whether a rule is worth its price, and no gap is wider than it was."""
        wider = np.abs(self._excess(solved.turned)) > np.abs(self._start) + self._tolerance
        return bool(solved.cost <= most and not wider.any())

    def _capped(self, most: float) -> Solved:
        """The rule that leaves least, in sampling errors, among the sensible ones.

        To flip nobody is one of them.
        """
        # half a person is 1/2n, the sampling error of a rate over n people at most 1/(2 sqrt n)
        noise = np.sqrt(self._tolerance / 2)
        low, high = 0.0, float((np.abs(self._start) / noise).max())
        best = self._by_prices(np.zeros(len(self._start)))
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            solved = self._leaving(np.minimum(np.abs(self._start), middle * noise))
            if solved is not None and self._sensible(solved, most):
                best, high = solved, middle
            else:
                low = middle
        closed = self._solved(best.prices, self._settled(best.prices, best.turned), True)
        return closed if closed.left <= 1 and self._sensible(closed, most) else best

    def _by_prices(self, prices: FloatArray) -> Solved:
        """Without the last step, as gaps are left on purpose."""
        return self._solved(prices, self._margin(prices) > 0, False, capped=True)

    def _leaving(self, limits: FloatArray) -> Solved | None:
        """The cheapest rule that leaves gaps up to these, as people turned out."""

        def beyond(chance: Any) -> FloatArray:
            left = self._excess(chance)
            return np.asarray(np.sign(left) * np.maximum(0.0, np.abs(left) - limits), np.float64)

        def solve(excess: FloatArray) -> Solution | None:
            return self._program.within(excess, limits)

        first = solve(self._start)
        if first is None:
            return None
        best = agreeing(solve, first, self._start, beyond, rounds=_CAPPED_ROUNDS, close=self._close)
        return self._by_prices(best[1] * self._total)

    @property
    def _close(self) -> float:
        """Closer than this is no use: a rule does not split the people of a row."""
        return float(_CLOSE_SHARE * self._tolerance.min())

    def _agreeing(self, solve: Solve, solved: Solution, rounds: int) -> Solution:
        return agreeing(solve, solved, self._start, self._excess, rounds=rounds, close=self._close)

    def _excess(self, chance: Any) -> FloatArray:
        return np.asarray(self._start + self._observed @ chance, np.float64)

    def _left(self, solved: Solution) -> float:
        return float(np.abs(self._excess(solved[0])).max())

    def _margin(self, prices: FloatArray) -> FloatArray:
        """By how much the prices outweigh what turning each row costs."""
        gain = prices @ self._effect * self._way
        return np.where(np.isfinite(self._price), gain - self._price, -np.inf)

    def _settled(self, prices: FloatArray, turned: BoolArray) -> BoolArray:
        """Decide rows nearest to indifference otherwise than by the prices, so that least is left.

        A rule that is 0 or 1 at every row cannot split the people of one row, nor rows of one kind.
        Which of the rows at the margin to decide otherwise is a small program over whole numbers:
        as little as possible against the prices, as people's own outcomes are partly luck.
        """
        margin = self._margin(prices)
        free = np.flatnonzero(np.isfinite(margin))
        order = self._one_a_kind(free[np.argsort(np.abs(margin[free]), kind="stable")])
        best = turned
        for count in _NEAR:
            if self._in_tolerances(best) <= 1 or len(order) == 0:
                break
            kinds = self._kind[order[:count]]
            near = free[np.isin(self._kind[free], kinds)]
            place = np.argsort(kinds)[np.searchsorted(np.sort(kinds), self._kind[near])]
            member = np.zeros((len(near), len(kinds)))
            member[np.arange(len(near)), place] = 1.0
            against = -(self._mass[near] * margin[near]) @ member
            settled = turned.copy()
            settled[near] = self._decided_singly(near, turned, against, member)[place]
            best = min(best, settled, key=self._in_tolerances)
        return best

    def _one_a_kind(self, rows: IntArray) -> IntArray:
        """The first row of each kind, in their order."""
        if self._all_differ:
            return rows
        return rows[np.sort(np.unique(self._kind[rows], return_index=True)[1])]

    def _in_tolerances(self, turned: BoolArray) -> float:
        """The largest of the gaps that is left, in its tolerance."""
        return float((np.abs(self._excess(turned)) / self._tolerance).max())

    def _decided_singly(
        self, near: IntArray, turned: BoolArray, against: FloatArray, member: FloatArray
    ) -> BoolArray:
        """Which of a few kinds to turn: the gaps within tolerances first, then the least cost.

        ``against`` is what turning each costs, ``member`` tells whose rows are which.
        """
        from scipy.optimize import Bounds, LinearConstraint, milp

        others = turned.copy()
        others[near] = False
        offset, effect = self._excess(others), self._observed[:, near] @ member
        if len(against) <= _NEAR[0]:
            return best_of_all(against, effect, offset, self._tolerance)
        beyond = -self._tolerance[:, None]  # times the last variable
        answer = milp(
            np.r_[against, 1.0],
            integrality=np.r_[np.ones(len(against)), 0.0],
            bounds=Bounds(0.0, np.r_[np.ones(len(against)), np.inf]),
            constraints=LinearConstraint(
                np.r_[np.c_[effect, beyond], np.c_[-effect, beyond]],
                -np.inf,
                np.r_[-offset, offset] + _INSIDE * np.tile(self._tolerance, 2),
            ),
            options={"time_limit": _SECONDS},
        )
        if answer.x is None:
            return turned[near] @ member > 0
        return np.asarray(np.round(answer.x[:-1]) > 0)


def best_of_all(
    against: FloatArray, effect: FloatArray, offset: FloatArray, tolerance: FloatArray
) -> BoolArray:
    """The same program where the choices are few enough to try them all, half by half."""
    halves = np.array_split(np.arange(len(against)), 2)
    first, second = (
        np.arange(2 ** len(half))[:, None] >> np.arange(len(half)) & 1 for half in halves
    )

    def summed(each: FloatArray) -> FloatArray:
        one, other = (sums @ each[at] for sums, at in zip((first, second), halves, strict=True))
        return np.asarray(np.add.outer(one, other), np.float64)

    beyond = np.zeros((len(first), len(second)))
    for gap, start, most in zip(effect, offset, tolerance, strict=True):
        beyond = np.maximum(beyond, np.abs(start + summed(gap)) / most - _INSIDE)
    place = np.unravel_index(np.argmin(summed(against) + beyond), beyond.shape)
    return np.asarray(np.r_[first[place[0]], second[place[1]]] > 0)
