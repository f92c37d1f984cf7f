"""Cells of few people, which do not leave the engine: they are dropped, or merged into larger ones.

A cell that one person alone has is that person's row. Dropped, such people are missing from every
total. Merged, they stay what they are in the columns that must stay true (groups, outcome,
prediction: together a person's kind), and are counted at inputs that enough others have:

- where their kind has a large cell, at the large cell of the kind that shares most inputs with
  them; of several, at the one with most people, then at the first in the order of values;
- where it has none but enough people, all of them at one row of inputs that leaves anyway: the
  one with which they share most, counted over all of them;
- where a whole kind has too few people, they are dropped all the same.

So every cell that leaves has enough people, and figures of kinds are about everybody but those of
kinds too small to leave. Only equality of values and counts matter: the result is the same whatever
engine counted.

Nobody needs all cells at once for this. A worker that has some of the small cells needs the large
ones beside them, which leave anyway; what it makes of its own are sums at large cells, and these
are added up in a tree. Only small cells of kinds without a large one wait for the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from fairmend.data.columns import FloatArray, Frame, IntArray
from fairmend.data.rows import codes_among, find_rows
from fairmend.engines.cells import PEOPLE, merge, rows_of
from fairmend.errors import warn

Codes = tuple[NDArray[Any], NDArray[Any]]
# Pairs of a small and a large cell that are compared at a time.
_PAIRS = 1 << 20


@dataclass(frozen=True, eq=False)
class Counted:
    """What an engine counted: the cells that may leave, and what became of people in the others."""

    native: Any
    left_out: int = 0
    """How many people are in none of the cells."""
    moved: int = 0
    """How many are counted at inputs that are not theirs."""

    def warn(self, total: int) -> None:
        """Say how many people are not part of the result, or not with inputs of their own."""
        for people, what in (
            (self.left_out, "are not part of the result"),
            (self.moved, "are counted with the inputs of a larger cell"),
        ):
            if people > 0:
                warn(
                    f"{people:,} of {total:,} people ({people / total:.1%}) are in cells too small "
                    f"to leave the engine and {what}."
                )


@dataclass(frozen=True, eq=False)
class PlacedCells:
    """What became of some small cells: a tree of parts is joined to that of all."""

    placed: Any
    """Those at the inputs of a large cell of their kind, counted together."""
    waiting: Any
    """Those of kinds that have no large cell."""
    left_out: int = 0
    """How many people have no place, because no cell at all is large."""


@dataclass(frozen=True)
class Suppression:
    """From how many people on a cell may leave the engine, and what becomes of the others."""

    below: int = 1
    keep: tuple[str, ...] | None = None
    """The columns that merging leaves alone; None to drop."""

    @property
    def drops(self) -> bool:
        """Whether small cells are filtered out, which engines do by their own means."""
        return self.keep is None

    def of(self, native: Any, columns: Sequence[str]) -> Counted:
        """The cells that may leave, in the container in which they came.

        >>> import pandas as pd
        >>> cells = pd.DataFrame({"x": [0, 1, 2], "sex": list("ffm"), PEOPLE: [20.0, 3.0, 9.0]})
        >>> dropped = Suppression(5).of(cells, ["x", "sex"])
        >>> dropped.native[PEOPLE].tolist(), dropped.left_out
        ([20.0, 9.0], 3)
        >>> merged = Suppression(5, keep=("sex",)).of(cells, ["x", "sex"])
        >>> merged.native[PEOPLE].tolist(), merged.moved
        ([23.0, 9.0], 3)
        """
        if self.merges(columns) and len(native) > 0:
            return self._merged(native, columns)
        if self.below == 1:
            return Counted(native)
        frame = nw.from_native(native, eager_only=True)
        people = frame.get_column(PEOPLE).to_numpy()
        small = people < self.below
        kept = rows_of(frame, np.flatnonzero(~small))
        return Counted(kept.to_native(), left_out=int(people[small].sum()))

    def left(self, native: Any, columns: Sequence[str], people: Callable[[], int]) -> Counted:
        """The same for cells of which the engine has dropped the small ones, if they are dropped.

        ``people`` counts everybody.
        """
        if not self.drops:
            return self.of(native, columns)
        if self.below == 1:
            return Counted(native)
        kept = nw.from_native(native, eager_only=True).get_column(PEOPLE).sum()
        return Counted(native, left_out=int(people() - kept))

    def merges(self, columns: Sequence[str]) -> bool:
        """Whether small cells take the inputs of others; without inputs cells are kinds."""
        return self.keep is not None and any(name not in self.keep for name in columns)

    # ---------------------------------------------------------------- merging, in parts

    def large(self, native: Any, columns: Sequence[str]) -> Any:
        """The cells that may leave as they are, in the order of values."""
        frame = nw.from_native(merge(native, columns), eager_only=True)
        return rows_of(frame, np.flatnonzero(_people(frame) >= self.below)).to_native()

    def part(self, native: Any, large: Any, columns: Sequence[str]) -> PlacedCells:
        """What becomes of some of the small cells; each is whole, ``large`` are all large ones."""
        assert self.keep is not None
        frame = nw.from_native(native, eager_only=True)
        small = rows_of(frame, np.flatnonzero(_people(frame) < self.below))
        there = _by_size(large, columns)
        none = rows_of(small, np.arange(0)).to_native()
        if len(there) == 0:
            return PlacedCells(none, none, int(_people(small).sum()))
        if len(small) == 0:
            return PlacedCells(none, none)
        own = Frame(small.select(list(columns)).to_native(), tuple(columns))
        kind, kinds = _kinds(own, there, self.keep)
        inputs = _inputs(own, there, self.keep)
        aim = np.full(len(own), -1)
        for each in np.unique(kind[kind >= 0]):
            at = np.flatnonzero(kind == each)
            aim[at] = _nearest(inputs, at, np.flatnonzero(kinds == each))
        placed = self._placed(small, np.flatnonzero(aim >= 0), there, aim[aim >= 0])
        waiting = rows_of(small, np.flatnonzero(aim < 0)).to_native()
        return PlacedCells(merge(placed.to_native(), columns), waiting)

    def joined(self, parts: Sequence[PlacedCells], columns: Sequence[str]) -> PlacedCells:
        """Parts as one."""
        return PlacedCells(
            merge(_stacked([part.placed for part in parts]), columns),
            _stacked([part.waiting for part in parts]),
            sum(part.left_out for part in parts),
        )

    def finished(self, whole: PlacedCells, large: Any, columns: Sequence[str]) -> Counted:
        """The cells that leave, once all small ones have a place or none."""
        assert self.keep is not None
        waiting, there = nw.from_native(whole.waiting, eager_only=True), _by_size(large, columns)
        people, left_out, rows = _people(waiting), whole.left_out, [large, whole.placed]
        moved = _people(nw.from_native(whole.placed, eager_only=True)).sum()
        if len(waiting) > 0:
            own = Frame(waiting.select(list(columns)).to_native(), tuple(columns))
            kept = [name for name in columns if name in self.keep]
            kind = own.select(kept).distinct().inverse if kept else np.zeros(len(own), np.int64)
            inputs, aim = _inputs(own, there, self.keep), np.full(len(own), -1)
            for each in np.flatnonzero(np.bincount(kind, people) >= self.below):
                at = np.flatnonzero(kind == each)
                aim[at] = _nearest_to_all(inputs, at, np.arange(len(there)), people)
            at = np.flatnonzero(aim >= 0)
            rows.append(self._placed(waiting, at, there, aim[at]).to_native())
            moved += people[at].sum()
            left_out += int(people[aim < 0].sum())
        return Counted(merge(_stacked(rows), columns), left_out, int(moved))

    def _merged(self, native: Any, columns: Sequence[str]) -> Counted:
        cells = merge(native, columns)  # each of them once
        large = self.large(cells, columns)
        return self.finished(self.part(cells, large, columns), large, columns)

    def _placed(
        self, small: nw.DataFrame[Any], at: IntArray, there: Frame, aim: IntArray
    ) -> nw.DataFrame[Any]:
        """Some small cells, each with the inputs of a large one."""
        assert self.keep is not None
        free = [name for name in there.names if name not in self.keep]
        inputs = rows_of(there.eager.select(free), aim)
        return rows_of(small, at).with_columns(*(inputs.get_column(name) for name in free))


def _people(cells: nw.DataFrame[Any]) -> FloatArray:
    return cells.get_column(PEOPLE).to_numpy().astype(np.float64)


def _stacked(natives: Sequence[Any]) -> Any:
    frames = [nw.from_native(native, eager_only=True) for native in natives]
    full = [frame for frame in frames if len(frame) > 0] or frames[:1]
    return nw.concat(full).to_native()


def _by_size(large: Any, columns: Sequence[str]) -> Frame:
    """Of cells that share as much, the first is taken: that with most people, then by values."""
    frame = nw.from_native(large, eager_only=True)
    order = np.argsort(-_people(frame), kind="stable")
    return Frame(rows_of(frame.select(list(columns)), order).to_native(), tuple(columns))


def _kinds(small: Frame, large: Frame, keep: Sequence[str]) -> tuple[IntArray, IntArray]:
    """The kind of each small cell, -1 where no large one is of it, and of each large one."""
    kept = [name for name in large.names if name in keep]
    if not kept:
        return np.zeros(len(small), np.int64), np.zeros(len(large), np.int64)
    kinds = large.select(kept)
    distinct = kinds.distinct()
    return find_rows(kinds.take(distinct.first), small.select(kept)), distinct.inverse


def _inputs(small: Frame, large: Frame, keep: Sequence[str]) -> list[Codes]:
    """Each input of small and of large cells by common codes, as small as they go."""
    free = [name for name in large.names if name not in keep]
    inputs = []
    for own, there in zip(small.select(free).encoded, large.select(free).encoded, strict=True):
        code, few = codes_among(there, own), np.min_scalar_type(len(there.values))
        code[code < 0] = len(there.values)  # a value that no large cell has
        inputs.append((code.astype(few), there.codes.astype(few)))  # compared by the billion
    return inputs


def _nearest(inputs: Sequence[Codes], small: IntArray, large: IntArray) -> IntArray:
    """For each small cell the large one that shares most inputs, the first of several."""
    step = max(1, _PAIRS // len(large))
    parts = [small[start : start + step] for start in range(0, len(small), step)]
    return np.concatenate([large[_shared(inputs, part, large).argmax(axis=1)] for part in parts])


def _nearest_to_all(
    inputs: Sequence[Codes], small: IntArray, large: IntArray, people: FloatArray
) -> int:
    """The large cell that shares most inputs with the people of the small ones together."""
    step = max(1, _PAIRS // len(large))
    shared = np.zeros(len(large))
    for start in range(0, len(small), step):
        part = small[start : start + step]
        shared += people[part] @ _shared(inputs, part, large)
    return int(large[shared.argmax()])


def _shared(
    inputs: Sequence[Codes], some: IntArray, others: IntArray
) -> NDArray[np.unsignedinteger[Any]]:
    """In how many inputs each of some cells agrees with each of others; bytes, to be quick."""
    agree = np.zeros((len(some), len(others)), np.uint8 if len(inputs) < 256 else np.uint32)
    for own, there in inputs:
        agree += (own[some][:, None] == there[others][None, :]).view(np.uint8)
    return agree
