"""Which donors are near a row, where there are too many to compare it with all of them.

A k-d tree over the features that may be edited, where all of them are numbers. Its search passes by
whatever could be nearer than the best found by less than a factor of 1 + slack. How many of the
nearest donors it then misses is measured, on people of the audit data against a search through all
donors, and the largest slack is taken that finds `WANTED_RECALL` of them. A donor missed costs
somebody a longer edit, never a wrong decision: the model confirms every edit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from fairmend.data.columns import FloatArray, IntArray
from fairmend.data.limits import Between, Chance, Count
from fairmend.data.stored import stored
from fairmend.repair.costs import EditCost

WANTED_RECALL = 0.98
_SLACKS = (2.0, 1.4, 1.0, 0.7, 0.5, 0.35, 0.2, 0.1, 0.0)
_PROBES = 500
_PAIRS_AT_ONCE = 4_000_000
_SAME = 1e-9
"""Distances are the same up to this share of them: the tree adds them up in another order."""


@stored("Search")
@dataclass(frozen=True)
class Search:
    """How near donors are found, and how many of the nearest that finds.

    >>> Search(donors=40_000, slack=0.5, recall=0.991, asked=500).words
    'searched among 40,000 rows nearest the cut; of the nearest, 99.1 % are found (of 500 people)'
    """

    donors: Count
    slack: Annotated[float, Between(0, 10)]
    recall: Chance
    """Of the nearest donors of the people asked, the share that is found."""
    asked: Annotated[Count, Between(1, 1 << 53)]

    @property
    def words(self) -> str:
        return (
            f"searched among {self.donors:,} rows nearest the cut; of the nearest, "
            f"{100 * self.recall:.1f} % are found (of {self.asked:,} people)"
        )

    @staticmethod
    def serves(cost: EditCost) -> bool:
        """Whether a tree knows these costs: sums over numbers that may go either way.

        Not where all answers are yes or no: ties are many there, and go to whom the tree likes.
        """
        rules = cost.cost.one_way or cost.cost.max_edits or cost.cost.forbidden is not None
        free = [axis for axis, editable in zip(cost.axes, cost.editable, strict=True) if editable]
        numbers = all(not axis.values for axis in free) and not all(axis.binary for axis in free)
        return numbers and not rules and not cost.compares_whole_rows

    @classmethod
    def tune(cls, neighbours: Neighbours, people: FloatArray, k: int) -> Search:
        """The quickest search that finds enough of the ``k`` nearest donors of these people."""
        at = np.linspace(0, len(people) - 1, min(_PROBES, len(people))).round().astype(np.int64)
        people = neighbours.free(people[at])
        limit = neighbours.reach_of(people, k)
        for slack in _SLACKS:
            near = neighbours.nearest(people, k, slack)
            recall = float(
                (neighbours.distances(people, near) <= (1 + _SAME) * limit[:, None]).mean()
            )
            if recall >= WANTED_RECALL:
                break
        return cls(len(neighbours), slack, recall, len(people))


class Neighbours:
    """Donors as points among which the nearest are sought."""

    def __init__(self, points: FloatArray, cost: EditCost) -> None:
        from scipy.spatial import KDTree

        editable = np.repeat(cost.editable, [axis.width for axis in cost.axes])
        # what all donors have in common, such as that nothing is missing, makes none of them nearer
        used = np.flatnonzero(editable & (points != points[0]).any(axis=0))
        self._used = used if len(used) > 0 else np.flatnonzero(editable)[:1]
        self._squared = cost.squared
        self._points = self.free(points)
        self._tree = KDTree(self._points)

    def __len__(self) -> int:
        return len(self._points)

    def free(self, points: FloatArray) -> FloatArray:
        """The coordinates of what may be edited, of rows as the cost places them."""
        return np.ascontiguousarray(points[:, self._used])

    def nearest(self, people: FloatArray, k: int, slack: float) -> IntArray:
        """The donors near each person, shape (people, k); people are `free` points."""
        _, near = self._tree.query(people, k=k, p=2 if self._squared else 1, eps=slack)
        return np.asarray(near, np.int64).reshape(len(people), k)

    def distances(self, people: FloatArray, donors: IntArray) -> FloatArray:
        """How far each of a person's donors is; squared where the cost squares its steps."""
        steps = np.abs(people[:, None, :] - self._points[donors])
        return np.asarray((steps**2 if self._squared else steps).sum(axis=-1))

    def reach_of(self, people: FloatArray, k: int) -> FloatArray:
        """How far each person's k-th nearest donor is, found by comparing with all of them."""
        from scipy.spatial.distance import cdist

        reach = np.empty(len(people))
        step = max(1, _PAIRS_AT_ONCE // len(self))
        for start in range(0, len(people), step):
            part = people[start : start + step]
            metric: Literal["sqeuclidean", "cityblock"]
            metric = "sqeuclidean" if self._squared else "cityblock"
            distance = cdist(part, self._points, metric)
            reach[start : start + step] = np.partition(distance, k - 1, axis=1)[:, k - 1]
        return reach
