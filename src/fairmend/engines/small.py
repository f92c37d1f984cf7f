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
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from fairmend.data.columns import FloatArray, Frame, IntArray
from fairmend.engines.cells import PEOPLE, merge, rows_of
from fairmend.errors import FairmendWarning

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
                warnings.warn(
                    f"{people:,} of {total:,} people ({people / total:.1%}) are in cells too small "
                    f"to leave the engine and {what}.",
                    FairmendWarning,
                    stacklevel=5,
                )


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
        if self.keep is not None:
            return self._merged(native, columns, self.keep)
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

    def _merged(self, native: Any, columns: Sequence[str], keep: tuple[str, ...]) -> Counted:
        cells = merge(native, columns)  # in the order of values, each of them once
        frame = nw.from_native(cells, eager_only=True)
        free = [name for name in columns if name not in keep]
        if len(frame) == 0 or not free:  # cells are kinds
            return Suppression(self.below).of(cells, columns)
        people = frame.get_column(PEOPLE).to_numpy().astype(np.float64)
        kind = _kinds(Frame(cells, tuple(columns)), keep)
        inputs = [
            column.codes.astype(np.min_scalar_type(len(column.values)))  # compared by the billion
            for column in Frame(cells, tuple(columns)).select(free).encoded
        ]
        aim = self._destinations(people, kind, inputs)
        kept = np.flatnonzero(aim >= 0)
        own = rows_of(frame, kept)
        there = rows_of(frame.select(free), aim[kept])
        moved = own.with_columns(*(there.get_column(name) for name in free)).to_native()
        return Counted(
            merge(moved, columns),
            left_out=int(people[aim < 0].sum()),
            moved=int(people[(aim >= 0) & (aim != np.arange(len(aim)))].sum()),
        )

    def _destinations(
        self, people: FloatArray, kind: IntArray, inputs: Sequence[NDArray[Any]]
    ) -> IntArray:
        """For each cell the one whose inputs it takes, itself if it is large; -1: it is dropped."""
        large = people >= self.below
        # Of cells that share as much, the first is taken: that with most people, then by values.
        by_size = np.argsort(-people, kind="stable")
        by_size = by_size[large[by_size]]
        aim = np.where(large, np.arange(len(people)), -1)
        if len(by_size) == 0:
            return aim
        enough = np.bincount(kind, people) >= self.below
        for each in np.unique(kind[~large & enough[kind]]):
            small = np.flatnonzero((kind == each) & ~large)
            own = by_size[kind[by_size] == each]
            aim[small] = (
                _nearest(inputs, small, own)
                if len(own) > 0
                else _nearest_to_all(inputs, small, by_size, people)
            )
        return aim


def _kinds(frame: Frame, keep: Sequence[str]) -> IntArray:
    """A number for each cell that tells kinds apart."""
    if not keep:
        return np.zeros(len(frame), np.int64)
    return frame.select(keep).distinct().inverse


def _nearest(inputs: Sequence[NDArray[Any]], small: IntArray, large: IntArray) -> IntArray:
    """For each small cell the large one that shares most inputs, the first of several."""
    step = max(1, _PAIRS // len(large))
    parts = [small[start : start + step] for start in range(0, len(small), step)]
    return np.concatenate([large[_shared(inputs, part, large).argmax(axis=1)] for part in parts])


def _nearest_to_all(
    inputs: Sequence[NDArray[Any]], small: IntArray, large: IntArray, people: FloatArray
) -> int:
    """The large cell that shares most inputs with the people of the small ones together."""
    step = max(1, _PAIRS // len(large))
    shared = np.zeros(len(large))
    for start in range(0, len(small), step):
        part = small[start : start + step]
        shared += people[part] @ _shared(inputs, part, large)
    return int(large[shared.argmax()])


def _shared(
    inputs: Sequence[NDArray[Any]], some: IntArray, others: IntArray
) -> NDArray[np.unsignedinteger[Any]]:
    """In how many inputs each of some cells agrees with each of others; bytes, to be quick."""
    agree = np.zeros((len(some), len(others)), np.uint8 if len(inputs) < 256 else np.uint32)
    for codes in inputs:
        agree += (codes[some][:, None] == codes[others][None, :]).view(np.uint8)
    return agree
