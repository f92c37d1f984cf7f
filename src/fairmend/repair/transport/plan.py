"""A coupling in use: the plan that follows it, for rows seen and unseen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from fairmend.data.columns import FloatArray, Frame, IntArray
from fairmend.data.limits import Between, Chances, Places, Scores, alike, flat, inside
from fairmend.data.stored import stored
from fairmend.model.answers import Answers, find_seen, signal
from fairmend.repair.costs import EditCost
from fairmend.repair.plan import Plan, Route
from fairmend.tables import percent

# Entries of the cost matrix that are in memory at once: 40 MB.
_AT_ONCE = 5_000_000


@stored("CouplingPlan")
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
    decision: Chances
    score: Scores | None
    start: Places
    """Row i's entries are ``start[i]:start[i + 1]`` of the next three."""
    place: Places
    probability: Chances
    price: Annotated[FloatArray, flat, Between(0, np.inf)]
    unseen: Literal["nearest", "stay"] = "nearest"
    solver: str = ""
    """How the coupling was found; empty where nobody had to move."""
    guarantee: str = ""
    """What is known of its cost."""

    def agrees(self) -> bool:
        """Whether the laws are of the rows of the table, and each row has a whole one."""
        n, first = len(self.table), self.start
        return (
            super().agrees()
            and alike(self.place, self.probability, self.price)
            and alike(self.table, self.decision, self.score)
            and len(first) == n + 1
            and first[0] == 0
            and first[-1] == len(self.place)
            and bool((np.diff(first) >= 0).all())
            and inside(self.place, n)
            and np.allclose(np.bincount(self._rows, self.probability, n), 1, atol=1e-6)
        )

    @property
    def _rows(self) -> IntArray:
        """Whose entry each is."""
        return np.repeat(np.arange(len(self.table)), np.diff(self.start))

    def __str__(self) -> str:
        new = ""
        if self.outlook.unseen > 0:
            done = "stay as they are" if self.unseen == "stay" else "take the law of a row near"
            new = (
                f"\nabout {percent(self.outlook.unseen)} of new people have inputs that were not "
                f"seen and {done}; what is expected on new data includes that"
            )
        solved = f"\nsolved by {self.solver}. {self.guarantee}" if self.solver else ""
        return super().__str__() + new + solved

    def route(self, rows: Frame, answers: Answers) -> Route:
        """Every row's law, its own or that of the nearest row seen."""
        place = find_seen(self.table, self._answers, rows, answers)
        new = np.flatnonzero(place < 0)
        if self.unseen == "nearest" and len(new) > 0:
            place[new] = self._nearest(rows.take(new), answers.take(new))
        return self._following(rows, place, new)

    def route_without(self, alone: IntArray) -> Route:
        """The law of the plan's own rows, had some of them not been in the audit data."""
        place = np.arange(len(self.table))
        place[alone] = -1
        if self.unseen == "nearest" and len(alone) > 0:
            rows, answers = self.table.take(alone), self._answers.take(alone)
            place[alone] = self._nearest(rows, answers, but=alone)
        return self._following(self.table, place, alone)

    def _following(self, rows: Frame, place: IntArray, new: IntArray) -> Route:
        """Rows that follow the laws of places in the table; -1 to stay. Of new ones it is lent."""
        lent = np.zeros(len(rows), bool)
        lent[new] = True
        followed = np.flatnonzero(place >= 0)
        length = np.diff(self.start)[place[followed]]
        row = np.repeat(followed, length)
        offset = np.arange(len(row)) - np.repeat(np.cumsum(length) - length, length)
        entry = self.start[place[row]] + offset
        there, chance, price = self.place[entry], self.probability[entry], self.price[entry].copy()
        away = there != place[row]
        borrowed = np.flatnonzero(away & lent[row])
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

    def _nearest(self, rows: Frame, answers: Answers, *, but: IntArray | None = None) -> IntArray:
        """The place whose law each row takes over; ``but`` is one each may not take."""
        places = []
        height = max(1, _AT_ONCE // len(self.table))
        for start in range(0, len(rows), height):
            at = np.arange(start, min(start + height, len(rows)))
            cost = self.cost.matrix(rows.take(at), self.table)
            if but is not None:
                cost[np.arange(len(at)), but[at]] = np.inf
            own = answers.take(at)
            same = (own.decision > 0.5)[:, None] == (self.decision > 0.5)[None, :]
            possible = np.isfinite(cost)
            preferred = possible & same
            among = np.where(preferred.any(axis=1)[:, None], preferred, possible)
            cost = np.where(among, cost, np.inf)
            tied = cost <= cost.min(axis=1, keepdims=True) + 1e-12
            mine, theirs = signal(own, self._answers), signal(self._answers, self._answers)
            distance = np.abs(mine[:, None] - theirs[None, :])
            best = np.argmin(np.where(tied, distance, np.inf), axis=1)
            places.append(np.where(possible.any(axis=1), best, -1))
        return np.concatenate(places)
