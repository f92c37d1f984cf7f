"""A coupling in use: the plan that follows it, for rows seen and unseen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from fairmend.columns import FloatArray, Frame, IntArray
from fairmend.costs import EditCost
from fairmend.model import Answers
from fairmend.plan import Plan, Route
from fairmend.seen import find_seen, signal

__all__ = ["CouplingPlan"]

# Entries of the cost matrix that are in memory at once: 40 MB.
_AT_ONCE = 5_000_000


@dataclass(frozen=True, eq=False)
class CouplingPlan(Plan):
    """A coupling in use: each row goes to other rows of the audit data by its law.

    Rows of the audit data follow their own law. A row never seen takes the law of the nearest seen
    row, by cost, among those it may be turned into and that get its decision (or, if there is none,
    any decision); ties go to the nearest score. Where that row would stay, so does this one, as it
    is; a move that would be forbidden for it is not made. ``unseen="stay"`` leaves unseen rows as
    they are, as the paper does. What the model says at a destination is what it said in the audit.
    """

    table: Frame
    """The distinct rows of the audit data: where people come from and where they go."""
    cost: EditCost
    decision: FloatArray
    score: FloatArray | None
    start: IntArray
    """Row i's entries are ``start[i]:start[i + 1]`` of the next three."""
    place: IntArray
    probability: FloatArray
    price: FloatArray
    unseen: Literal["nearest", "stay"] = "nearest"
    solver: str = ""
    """How the coupling was found; empty where nobody had to move."""
    guarantee: str = ""
    """What is known of its cost."""

    def __str__(self) -> str:
        solved = f"\nsolved by {self.solver}. {self.guarantee}" if self.solver else ""
        return super().__str__() + solved

    def route(self, rows: Frame, answers: Answers) -> Route:
        """Every row's law, its own or that of the nearest row seen."""
        place = find_seen(self.table, self._answers, rows, answers)
        new = np.flatnonzero(place < 0)
        seen = place.copy()
        if self.unseen == "nearest" and len(new) > 0:
            place[new] = self._nearest(rows.take(new), answers.take(new))
        followed = np.flatnonzero(place >= 0)
        length = np.diff(self.start)[place[followed]]
        row = np.repeat(followed, length)
        offset = np.arange(len(row)) - np.repeat(np.cumsum(length) - length, length)
        entry = self.start[place[row]] + offset
        there, chance, price = self.place[entry], self.probability[entry], self.price[entry].copy()
        away = there != place[row]
        borrowed = np.flatnonzero(away & (seen[row] < 0))
        for at in np.array_split(borrowed, max(1, -(-len(borrowed) // 2_000))):
            price[at] = self._prices(rows, row[at], there[at])
        away &= np.isfinite(price)
        row, chance = row[away], chance[away]
        leaving = np.bincount(row, chance, len(rows))
        whole = np.where(leaving > 1 - 1e-12, leaving, 1.0)  # nobody stays by a rounding error
        return Route.moves(
            len(rows),
            row,
            chance / whole[row],
            place=there[away],
            cost=price[away],
            table=self.table,
            decision=self.decision,
            score=self.score,
        )

    def _prices(self, rows: Frame, row: IntArray, there: IntArray) -> FloatArray:
        """What single moves cost, row by row."""
        mine, at = np.unique(row, return_inverse=True)
        theirs, to = np.unique(there, return_inverse=True)
        return self.cost.matrix(rows.take(mine), self.table.take(theirs))[at, to]

    @property
    def _answers(self) -> Answers:
        return Answers(self.decision, self.score)

    def _nearest(self, rows: Frame, answers: Answers) -> IntArray:
        found = []
        height = max(1, _AT_ONCE // len(self.table))
        for start in range(0, len(rows), height):
            at = np.arange(start, min(start + height, len(rows)))
            cost = self.cost.matrix(rows.take(at), self.table)
            said = answers.take(at)
            same = (said.decision > 0.5)[:, None] == (self.decision > 0.5)[None, :]
            possible = np.isfinite(cost)
            preferred = possible & same
            among = np.where(preferred.any(axis=1)[:, None], preferred, possible)
            cost = np.where(among, cost, np.inf)
            tied = cost <= cost.min(axis=1, keepdims=True) + 1e-12
            mine, theirs = signal(said, self._answers), signal(self._answers, self._answers)
            apart = np.abs(mine[:, None] - theirs[None, :])
            best = np.argmin(np.where(tied, apart, np.inf), axis=1)
            found.append(np.where(possible.any(axis=1), best, -1))
        return np.concatenate(found)
