"""What moves cost, a slab of rows at a time: no solver needs the whole matrix in memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fairmend.data.columns import FloatArray, Frame, IntArray
from fairmend.repair.costs import EditCost

SLAB = 150_000
"""Entries of the cost matrix that are in memory at once: 1.2 MB, which fits into caches."""
# One coordinate a category: with more than this, comparing codes is quicker than points.
_MOST_COORDINATES = 200
# Of different lengths of steps between two values, each takes a pass of its own.
_MOST_STEPS = 4
_METRICS: dict[str, Literal["cityblock", "euclidean", "sqeuclidean"]] = {
    "l1": "cityblock",
    "l2": "euclidean",
    "squared_l2": "sqeuclidean",
}


class Prices(ABC):
    """The cost of turning source row i into destination row j, inf where that is forbidden."""

    shape: tuple[int, int]
    forbids: bool
    """Whether some moves may be forbidden."""

    @abstractmethod
    def slab(self, rows: slice | IntArray) -> FloatArray:
        """What some sources' moves to all destinations cost, as an array of one's own."""

    @abstractmethod
    def take(self, rows: IntArray, columns: IntArray) -> Prices:
        """The prices between some of the rows."""

    def at(self, row: IntArray, column: IntArray) -> FloatArray:
        """What single moves cost."""
        price = np.empty(len(row))
        order = np.argsort(row, kind="stable")
        ranked = row[order]
        for rows in self._slices():
            some = order[np.searchsorted(ranked, rows.start) : np.searchsorted(ranked, rows.stop)]
            if len(some) > 0:
                own, place = np.unique(row[some], return_inverse=True)
                price[some] = self.slab(own)[place, column[some]]
        return price

    def slabs(self) -> Iterator[tuple[slice, FloatArray]]:
        """All prices, slab by slab."""
        for rows in self._slices():
            yield rows, self.slab(rows)

    def matrix(self) -> FloatArray:
        """All prices at once."""
        return self.slab(slice(0, self.shape[0]))

    def dearest(self) -> float:
        """The highest price of an allowed move."""
        return max(
            (float(price[np.isfinite(price)].max(initial=0.0)) for _, price in self.slabs()),
            default=0.0,
        )

    def _slices(self) -> Iterator[slice]:
        height = max(1, SLAB // max(self.shape[1], 1))
        for start in range(0, self.shape[0], height):
            yield slice(start, min(start + height, self.shape[0]))


class MatrixPrices(Prices):
    """Prices that are in memory anyway."""

    def __init__(self, matrix: FloatArray) -> None:
        self._matrix = matrix
        self.shape = (matrix.shape[0], matrix.shape[1])
        self.forbids = not bool(np.isfinite(matrix).all())

    def slab(self, rows: slice | IntArray) -> FloatArray:
        return np.array(self._matrix[rows])

    def take(self, rows: IntArray, columns: IntArray) -> MatrixPrices:
        return MatrixPrices(self._matrix[np.ix_(rows, columns)])

    def at(self, row: IntArray, column: IntArray) -> FloatArray:
        return np.asarray(self._matrix[row, column], np.float64)

    def matrix(self) -> FloatArray:
        return self._matrix


class PointPrices(Prices):
    """Distances between points: ``"l1"``, ``"l2"`` or ``"squared_l2"``.

    >>> line = np.array([[0.0], [1.0], [3.0]])
    >>> PointPrices(line, line, "l1").matrix().tolist()
    [[0.0, 1.0, 3.0], [1.0, 0.0, 2.0], [3.0, 2.0, 0.0]]
    """

    forbids = False

    def __init__(self, here: FloatArray, there: FloatArray, kind: str) -> None:
        everything = np.concatenate([here, there])
        varies = (everything != everything[:1]).any(axis=0)
        self.here, self.there, self.kind = here[:, varies], there[:, varies], kind
        self.shape = (len(here), len(there))
        self._words, rest = _words(self.here, self.there, squared=kind != "l1")
        self._rest = np.ascontiguousarray(self.here[:, rest]), self.there[:, rest]

    def slab(self, rows: slice | IntArray) -> FloatArray:
        from scipy.spatial.distance import cdist

        here, there = self._rest[0][rows], self._rest[1]
        if not self._words:
            return np.asarray(cdist(here, there, _METRICS[self.kind]), np.float64)
        if here.shape[1] > 0:
            total = cdist(here, there, "cityblock" if self.kind == "l1" else "sqeuclidean")
        else:
            total = np.zeros((len(here), self.shape[1]))
        for step, a, b in self._words:
            total += step * np.bitwise_count(a[rows, None] ^ b)
        return np.sqrt(total) if self.kind == "l2" else total

    def take(self, rows: IntArray, columns: IntArray) -> PointPrices:
        return PointPrices(self.here[rows], self.there[columns], self.kind)

    def at(self, row: IntArray, column: IntArray) -> FloatArray:
        price = np.empty(len(row))
        length = max(1, SLAB // max(self.here.shape[1], 1))
        for start in range(0, len(row), length):
            some = slice(start, start + length)
            change = self.here[row[some]] - self.there[column[some]]
            price[some] = (np.abs(change) if self.kind == "l1" else change**2).sum(axis=1)
        return np.sqrt(price) if self.kind == "l2" else price


_Bits = NDArray[np.uint32]


def _words(
    here: FloatArray, there: FloatArray, *, squared: bool
) -> tuple[list[tuple[float, _Bits, _Bits]], IntArray]:
    """Coordinates of two values as bits, and what a differing bit adds to the price; the others.

    Comparing them is several times as quick as adding up distances. There are no such words if
    there are more different steps than pay.
    """
    everything = np.concatenate([here, there])
    low = everything.min(axis=0, initial=np.inf)
    high = everything.max(axis=0, initial=-np.inf)
    two = ((everything == low) | (everything == high)).all(axis=0)
    steps, kind = np.unique((high - low)[two] ** (2 if squared else 1), return_inverse=True)
    if len(steps) > _MOST_STEPS or not hasattr(np, "bitwise_count"):  # NumPy 1 has none
        return [], np.arange(here.shape[1])
    binary = np.flatnonzero(two)
    words = []
    for number, step in enumerate(steps):
        same = binary[kind == number]
        for start in range(0, len(same), 32):
            bits = same[start : start + 32]
            a, b = (
                ((side[:, bits] > low[bits]) @ (1 << np.arange(len(bits)))).astype(np.uint32)
                for side in (here, there)
            )
            words.append((float(step), a, b))
    return words, np.flatnonzero(~two)


@dataclass(frozen=True, eq=False)
class _EditPrices(Prices):
    """Whatever an `EditCost` says, asked again for every slab."""

    cost: EditCost
    here: Frame
    there: Frame
    alike_here: IntArray
    """Equal inputs have one number."""
    alike_there: IntArray
    place_here: IntArray
    """Where the rows stand in the table they come from."""
    place_there: IntArray
    forbids = True

    @property
    def shape(self) -> tuple[int, int]:  # type: ignore[override]
        return len(self.here), len(self.there)

    def slab(self, rows: slice | IntArray) -> FloatArray:
        at = np.arange(len(self.here))[rows]
        price = self.cost.matrix(self.here.take(at), self.there)
        # another prediction for the same inputs is no edit
        equal = self.alike_here[at][:, None] == self.alike_there
        price[equal & (self.place_here[at][:, None] != self.place_there)] = np.inf
        return price

    def take(self, rows: IntArray, columns: IntArray) -> _EditPrices:
        return _EditPrices(
            self.cost, self.here.take(rows), self.there.take(columns),
            self.alike_here[rows], self.alike_there[columns],
            self.place_here[rows], self.place_there[columns],
        )  # fmt: skip


class ScorePrices(Prices):
    """Prices and, on top, a little for every change of score: ``scale * (s_i - s_j)^2``."""

    def __init__(
        self, prices: Prices, score_from: FloatArray, score_to: FloatArray, scale: float
    ) -> None:
        self._prices, self._from, self._to, self._scale = prices, score_from, score_to, scale
        self.shape, self.forbids = prices.shape, prices.forbids

    def slab(self, rows: slice | IntArray) -> FloatArray:
        change = np.subtract.outer(self._from[rows], self._to)
        return np.asarray(self._prices.slab(rows) + self._scale * change**2, np.float64)

    def take(self, rows: IntArray, columns: IntArray) -> ScorePrices:
        fewer = self._prices.take(rows, columns)
        return ScorePrices(fewer, self._from[rows], self._to[columns], self._scale)

    def at(self, row: IntArray, column: IntArray) -> FloatArray:
        change = self._from[row] - self._to[column]
        return np.asarray(self._prices.at(row, column) + self._scale * change**2, np.float64)


def edit_prices(cost: EditCost, table: Frame) -> Prices:
    """What edits between the rows of a table cost.

    Where no edit is forbidden and no rows are equal they are distances between points, each
    category a coordinate of its own. All else is asked of the cost.
    """
    alike = np.asarray(table.distinct().inverse, np.int64)
    points = None
    if len(np.unique(alike)) == len(table) and not (cost.has_rules or cost.compares_whole_rows):
        points = _points(cost, table)
    if points is not None:
        return PointPrices(points, points, str(cost.cost.kind))
    place = np.arange(len(table))
    return _EditPrices(cost, table, table, alike, alike, place, place)


def _points(cost: EditCost, table: Frame) -> FloatArray | None:
    """Rows as points whose distances are the costs; None if that takes too many coordinates."""
    squared = cost.cost.kind != "l1"
    places, parts, start = cost.place(table), list[FloatArray](), 0
    for axis in cost.axes:
        own = places[:, start : start + axis.width]
        start += axis.width
        if axis.values:
            codes = np.unique(own)
            if len(codes) > _MOST_COORDINATES:
                return None
            # rows that differ do so in two coordinates
            own = (own == codes) * (axis.weight / (np.sqrt(2) if squared else 2))
        parts.append(own)
    points = np.concatenate(parts, axis=1)
    varies = (points != points[:1]).any(axis=0)
    return np.ascontiguousarray(points[:, varies]) if varies.sum() <= _MOST_COORDINATES else None
