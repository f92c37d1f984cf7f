"""What is known about rows before they come: the plans' laws for every row of the audit.

Where inputs have few values, a row and its group are one small number, and what happens to people
on that row is looked up: the model's decision, and the place of the row in a plan's route if it is
edited at all. What the audit has not seen is left to the classifier.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from fairmend.data.columns import Encoded, Frame, IntArray, encode
from fairmend.data.groups import read_membership
from fairmend.data.rows import codes_among
from fairmend.repair.plan import Route
from fairmend.repair.problem import answers_of_all

if TYPE_CHECKING:
    from fairmend.classifier import RepairedClassifier

__all__ = ["Memory"]

MOST_CELLS = 1 << 23
"""Rows and groups that can be told apart by a number below this are remembered."""
_STAYS, _UNSEEN = -1, -2


@dataclass(frozen=True, eq=False)
class Memory:
    """The model's decision and the plan's law per distinct row and group."""

    columns: tuple[_Coder, ...]
    groups: tuple[Any, ...]
    own: NDArray[np.int8]
    """The model's decision for each number of a row."""
    place: NDArray[np.int32]
    """Per group and number of a row: its row of the group's route, or one of the marks above."""
    routes: tuple[Route | None, ...]
    """Per group, for the rows that are edited; the first is for people of no audited group."""

    @classmethod
    def of(cls, classifier: RepairedClassifier) -> Memory | None:
        """None where rows are too various, or the model's answers are no function of them."""
        data, box = classifier.data_, classifier.box_
        assert data.table is not None
        if box.random or not box.can_query:
            return None
        encoded = data.table.encoded
        size = prod(len(column.values) for column in encoded)
        if size * (len(data.groups) + 1) > MOST_CELLS:
            return None
        rows, answers = answers_of_all(data)
        if not np.isin(answers.decision, (0, 1)).all():
            return None
        key = _key([column.codes[rows] for column in encoded], [len(c.values) for c in encoded])
        own = np.zeros(size, np.int8)
        own[key] = answers.decision.astype(np.int8)
        place = np.full((len(data.groups) + 1, size), _UNSEEN, np.int32)
        place[:, key] = _STAYS
        routes: list[Route | None] = [None] * (len(data.groups) + 1)
        for group, plan in classifier.plans_.items():
            route = plan.route(data.table.take(rows), answers)
            if not np.isin(route.decision, (0, 1)).all():
                return None
            moving = np.flatnonzero(route.moving > 0)
            at = data.place(group) + 1
            place[at, key[moving]] = np.arange(len(moving))
            routes[at] = route.of(moving)
        coders = tuple(
            _Coder(name, column.values)
            for name, column in zip(data.table.names, encoded, strict=True)
        )
        return cls(coders, data.groups, own, place, tuple(routes))

    def look_up(self, batch: Any, groups: Any) -> Known | None:
        """What is known of a batch; None if there are people of groups that were not audited."""
        frame = nw.from_native(batch, eager_only=True)
        member, opted_out = read_membership(groups, Frame.read(batch), self.groups)
        if ((member < 0) & ~opted_out).any():
            return None
        codes = [coder.codes(frame.get_column(coder.name)) for coder in self.columns]
        strange = np.zeros(len(frame), bool)
        for code in codes:
            if code.dtype.kind == "i" and int(code.min()) < 0:
                strange |= code < 0
        key = _key(codes, [coder.size for coder in self.columns])
        key[strange] = 0
        place = self.place.ravel()[(member + 1) * len(self.own) + key]
        place[strange] = _UNSEEN
        return Known(self.own[key], place, member + 1, self.routes)


@dataclass(frozen=True, eq=False)
class Known:
    """What is known of the rows of a batch."""

    own: NDArray[np.int8]
    place: NDArray[np.int32]
    group: IntArray
    routes: tuple[Route | None, ...]

    @property
    def unseen(self) -> IntArray:
        """Rows that must be put to the classifier."""
        return np.flatnonzero(self.place == _UNSEEN)

    def edited(self) -> list[tuple[Route, IntArray]]:
        """Each group's route with the rows of the batch that it may edit."""
        moving = self.place >= 0
        return [
            (route, np.flatnonzero(moving & (self.group == group)))
            for group, route in enumerate(self.routes)
            if route is not None
        ]


def _key(codes: list[NDArray[Any]], sizes: list[int]) -> IntArray:
    """One number a row; those below 256 are put together as bytes, which is quick."""
    key = np.zeros(len(codes[0]), np.int64)
    word, bound = np.zeros(len(codes[0]), np.uint8), 1
    for code, size in zip(codes, sizes, strict=True):
        if bound * size > 256:
            key = key * bound + word
            word, bound = np.zeros(len(code), np.uint8), 1
        if size > 256:
            key = key * size + code
            continue
        word = word * np.uint8(size % 256) + code.astype(np.uint8, copy=False)
        bound *= size
    return key * bound + word


class _Coder:
    """The code of each value among those of fit; -1 for others."""

    def __init__(self, name: str, values: NDArray[Any]) -> None:
        self.name, self.values, self.size = name, values, len(values)
        self.lowest: int | None = None
        if values.dtype.kind in "biu" and len(values) == int(values[-1]) - int(values[0]) + 1:
            self.lowest = int(values[0])  # whole numbers in a row, as 0 and 1 are: no search

    def codes(self, column: nw.Series[Any]) -> NDArray[Any]:
        whole = column.dtype.is_integer() or column.dtype == nw.Boolean
        if self.lowest is not None and whole and column.null_count() == 0:
            entries = column.to_numpy()
            entries = entries.view(np.uint8) if entries.dtype.kind == "b" else entries
            low, high = int(entries.min()), int(entries.max())
            if low >= self.lowest and high < self.lowest + self.size:
                narrow = np.uint8 if self.size <= 256 else np.int64
                shifted = entries if self.lowest == 0 else entries.astype(np.int64) - self.lowest
                return shifted.astype(narrow, copy=False)
        return codes_among(Encoded(np.empty(0, np.int64), self.values), encode(column))
