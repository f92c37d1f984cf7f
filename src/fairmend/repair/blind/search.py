"""The search for a blind rule: the cheapest decisions to turn so that all gaps close."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmend.data.columns import FloatArray, IntArray
from fairmend.repair.blind.gaps import Audited, Constraint
from fairmend.repair.flip_program import (
    FEW_ROUNDS,
    ROUNDS,
    FlipProgram,
    Solution,
    Solve,
    agreeing,
)

__all__ = ["FlipSearch", "Solved"]

_NEAR = (16, 32, 64)
"""Rows nearest to indifference, among which the last step is settled: as few as are enough."""
_CLOSE_SHARE = 0.1
"""How near to closed the prices bring the gaps, in tolerances."""
_KEPT = 0.5
"""The share of the people that a rate over decisions must keep: fewer can be anything by luck."""
_SECONDS = 5.0
"""For the last step, which is a program over whole numbers."""


# -------------------------------------------------------------------- the program


@dataclass(frozen=True, eq=False)
class Solved:
    """Prices, and rows that are decided otherwise than by them."""

    prices: FloatArray
    turned: NDArray[np.bool_]
    exceptions: IntArray
    """One row of each kind that is decided otherwise."""
    feasible: bool
    left: float
    """The largest of the gaps, in tolerances."""
    cost: float

    @property
    def order(self) -> tuple[float, float]:
        """The best comes first: least left, then cheapest."""
        return (max(1.0, self.left), self.cost)


class FlipSearch:
    """The cheapest rows to turn so that all constraints hold, as people turned out."""

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
        if best is None:
            solutions = [self._program.nearest(self._start)]
        else:
            solutions = [self._agreeing(self._program.cheapest, best, ROUNDS)]
        if np.abs(self._excess(solutions[0][0])).max() > self._close:
            solutions.append(self._agreeing(self._program.nearest, solutions[0], FEW_ROUNDS))
        _, prices = min(solutions, key=self._left)
        prices = prices * self._total
        by_prices = self._margin(prices) > 0
        turned = self._settled(prices, by_prices)
        return Solved(
            prices,
            turned,
            self._one_a_kind(np.flatnonzero(turned != by_prices)),
            best is not None,
            self._in_tolerances(turned),
            float(self._mass[turned] @ self._price[turned]),
        )

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

    def _settled(self, prices: FloatArray, turned: NDArray[np.bool_]) -> NDArray[np.bool_]:
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
        return rows[np.sort(np.unique(self._kind[rows], return_index=True)[1])]

    def _in_tolerances(self, turned: NDArray[np.bool_]) -> float:
        """The largest of the gaps that is left, in its tolerance."""
        return float((np.abs(self._excess(turned)) / self._tolerance).max())

    def _decided_singly(
        self, near: IntArray, turned: NDArray[np.bool_], against: FloatArray, member: FloatArray
    ) -> NDArray[np.bool_]:
        """Which of a few kinds to turn: the gaps within tolerances first, then the least cost.

        ``against`` is what turning each costs, ``member`` tells whose rows are which.
        """
        from scipy.optimize import Bounds, LinearConstraint, milp

        others = turned.copy()
        others[near] = False
        offset, effect = self._excess(others), self._observed[:, near] @ member
        beyond = -self._tolerance[:, None]  # times the last variable
        answer = milp(
            np.r_[against, 1.0],
            integrality=np.r_[np.ones(len(against)), 0.0],
            bounds=Bounds(0.0, np.r_[np.ones(len(against)), np.inf]),
            constraints=LinearConstraint(
                np.r_[np.c_[effect, beyond], np.c_[-effect, beyond]],
                -np.inf,
                np.r_[-offset, offset] + 0.999 * np.tile(self._tolerance, 2),
            ),
            options={"time_limit": _SECONDS},
        )
        if answer.x is None:
            return turned[near] @ member > 0
        return np.asarray(np.round(answer.x[:-1]) > 0)
