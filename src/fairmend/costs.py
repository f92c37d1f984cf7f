"""What an edit costs, and which edits are not to be had at any price.

Rows are laid out in space so that the usual distances are the cost: numbers divided by a robust
spread (the distance from the 5th to the 95th percentile), yes-or-no values and categories so that a
mismatch costs 1, each feature times its weight. Forbidden edits (immutable features, features that
may only rise or fall, moves a caller rules out, too many edits at once) cost infinity.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from fairmend.columns import Encoded, FloatArray, Frame, as_numbers, is_missing, scalar
from fairmend.errors import DataError, listed, nearest

__all__ = ["Cost", "EditCost"]

Kind = Literal["l1", "l2", "squared_l2"]
Direction = Literal["up", "down"]
Callback = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Cost:
    """What the user says about edits; `EditCost` is what is learnt from it on the audit data.

    ``kind`` is ``"l1"`` (default), ``"l2"``, ``"squared_l2"``, or a callable that takes two tables
    of rows (in the container of X) and gives a matrix of costs.

    >>> Cost(immutable=("sex",), one_way={"age": "up"}).kind
    'l1'
    """

    kind: Kind | Callback = "l1"
    weights: Mapping[str, float] = field(default_factory=dict)
    """How dear a feature is, relative to 1."""
    immutable: tuple[str, ...] = ()
    one_way: Mapping[str, Direction] = field(default_factory=dict)
    """Features that may only rise (``"up"``) or fall (``"down"``)."""
    max_edits: int | None = None
    """At most this many features of a person may be edited."""
    forbidden: Callback | None = None
    """Takes two tables of rows; True where the move from one to the other is ruled out."""


@dataclass(frozen=True)
class _Axis:
    """One feature's place in space."""

    name: str
    values: tuple[Any, ...]
    """A category's known values; empty for a number."""
    scale: float
    weight: float

    @property
    def width(self) -> int:
        return 2 if not self.values else len(self.values) + 1


@dataclass(frozen=True)
class EditCost:
    """The cost of turning one row into another, learnt on the audit data.

    >>> table = Frame.read(np.array([[0, 10.0], [1, 20.0], [1, 30.0]]))
    >>> EditCost.learn(table, np.full(3, 1 / 3), Cost()).matrix(table, table).round(2).tolist()
    [[0.0, 1.5, 2.0], [1.5, 0.0, 0.5], [2.0, 0.5, 0.0]]
    """

    axes: tuple[_Axis, ...]
    cost: Cost

    @classmethod
    def learn(cls, table: Frame, mass: FloatArray, cost: Cost) -> EditCost:
        """Scale numbers by the spread among the people of the audit data."""
        names = [str(name) for name in table.names]
        _check(cost, names)
        axes = tuple(
            _axis(name, column, mass, float(cost.weights.get(name, 1.0)))
            for name, column in zip(names, table.encoded, strict=True)
        )
        for name in cost.one_way:
            if axes[names.index(name)].values:
                raise DataError(
                    "one_way",
                    "must name numbers or yes-or-no features",
                    f"{name!r} is a category",
                    "Make it immutable, or forbid single moves.",
                )
        return cls(axes, cost)

    @property
    def has_rules(self) -> bool:
        """Whether some edits are forbidden."""
        rules = self.cost.immutable or self.cost.one_way or self.cost.max_edits
        return bool(rules) or self.cost.forbidden is not None

    @property
    def is_metric(self) -> bool:
        """Whether the triangle holds and every move is allowed: then common mass may stay put."""
        return self.cost.kind in ("l1", "l2") and not self.has_rules

    @property
    def editable(self) -> tuple[str, ...]:
        return tuple(axis.name for axis in self.axes if axis.name not in self.cost.immutable)

    def place(self, table: Frame) -> FloatArray:
        """Rows as points; the L1 distance between two is their cost."""
        return np.concatenate(
            [_place(axis, column) for axis, column in zip(self.axes, table.encoded, strict=True)],
            axis=1,
        )

    def matrix(self, source: Frame, destination: Frame) -> FloatArray:
        """cost[i, j] of editing source row i into destination row j; inf where forbidden."""
        here, there = self.place(source), self.place(destination)
        cost = self.between(here, there)
        if callable(self.cost.kind):
            cost = np.asarray(self.cost.kind(source.native, destination.native), np.float64)
            if cost.shape != (len(source), len(destination)) or not (cost >= 0).all():
                raise DataError(
                    "cost",
                    "must give a matrix of costs, none negative, one row per source row",
                    f"got shape {cost.shape} for {len(source)} and {len(destination)} rows",
                    "A callable cost takes two tables and compares all their rows.",
                )
        cost = np.where(self.allowed(here, there), cost, np.inf)
        if self.cost.forbidden is not None:
            ruled_out = np.asarray(self.cost.forbidden(source.native, destination.native), bool)
            cost = np.where(ruled_out, np.inf, cost)
        return cost

    def between(self, here: FloatArray, there: FloatArray) -> FloatArray:
        """Distances between points, by the kind of cost."""
        from scipy.spatial.distance import cdist

        if self.cost.kind in ("l2", "squared_l2"):
            # a category's mismatch is two steps of weight/2 in L1; in L2 it must be one of weight
            stretch = np.concatenate(
                [np.full(axis.width, np.sqrt(2.0) if axis.values else 1.0) for axis in self.axes]
            )
            squared = np.asarray(cdist(here * stretch, there * stretch, "sqeuclidean"))
            return np.sqrt(squared) if self.cost.kind == "l2" else squared
        return np.asarray(cdist(here, there, "cityblock"))

    def allowed(self, here: FloatArray, there: FloatArray) -> Any:
        """Which moves break no rule about features."""
        allowed = np.ones((len(here), len(there)), bool)
        edits = np.zeros((len(here), len(there)), np.int64)
        start = 0
        for axis in self.axes:
            at = slice(start, start + axis.width)
            start += axis.width
            ruled = axis.name in self.cost.immutable or axis.name in self.cost.one_way
            if not ruled and self.cost.max_edits is None:
                continue
            a, b = here[:, at], there[:, at]
            differs = (a[:, None, :] != b[None, :, :]).any(axis=2)
            edits += differs
            if axis.name in self.cost.immutable:
                allowed &= ~differs
            direction = self.cost.one_way.get(axis.name)
            if direction == "up":
                allowed &= a[:, None, 0] <= b[None, :, 0]
            elif direction == "down":
                allowed &= a[:, None, 0] >= b[None, :, 0]
        if self.cost.max_edits is not None:
            allowed &= edits <= self.cost.max_edits
        return allowed


def _check(cost: Cost, names: Sequence[str]) -> None:
    for what, given in (
        ("immutable", cost.immutable),
        ("one_way", cost.one_way),
        ("cost weights", cost.weights),
    ):
        if isinstance(given, str):
            raise DataError(what, "must be a list of names", f"got the text {given!r}",
                            f"Write [{given!r}].")  # fmt: skip
        for name in given:
            if name not in names:
                raise DataError(what, "must name features of X", f"got {name!r}",
                                nearest(name, names))  # fmt: skip
    if set(cost.immutable) >= set(names):
        raise DataError("immutable", "must leave something to edit", "got every feature",
                        "Leave out what may change.")  # fmt: skip
    for name, direction in cost.one_way.items():
        if direction not in ("up", "down"):
            raise DataError("one_way", "must say 'up' or 'down'", f"got {direction!r} for {name!r}",
                            "For example {'age': 'up'}.")  # fmt: skip
    for name, weight in cost.weights.items():
        if not (np.isfinite(weight) and weight > 0):
            raise DataError("cost weights", "must be positive", f"got {weight!r} for {name!r}",
                            "What must not change is immutable.")  # fmt: skip
    if cost.max_edits is not None and cost.max_edits < 1:
        raise DataError("max_edits", "must be at least 1", f"got {cost.max_edits!r}",
                        "Leave it out to allow any number.")  # fmt: skip
    if not callable(cost.kind) and cost.kind not in ("l1", "l2", "squared_l2"):
        raise DataError("cost", "must be 'l1', 'l2', 'squared_l2' or a callable",
                        f"got {cost.kind!r}", "l1 is the default.")  # fmt: skip


def _axis(name: str, column: Encoded, mass: FloatArray, weight: float) -> _Axis:
    numbers = as_numbers(column.values)
    if numbers is None:
        values = tuple(None if is_missing(v) else scalar(v) for v in column.values)
        return _Axis(name, values, 1.0, weight)
    known = np.isfinite(numbers)
    if set(numbers[known].tolist()) <= {0.0, 1.0}:
        return _Axis(name, (), 1.0, weight)
    share = np.bincount(column.codes, mass, len(numbers))[known]
    at, share = numbers[known], share / share.sum()
    place = np.cumsum(share)
    low, high = (at[min(int(np.searchsorted(place, q - 1e-12)), len(at) - 1)] for q in (0.05, 0.95))
    scale = float(high - low)
    if scale <= 0:
        centre = float(share @ at)
        scale = float(np.sqrt(share @ (at - centre) ** 2)) or 1.0
    return _Axis(name, (), scale, weight)


def _place(axis: _Axis, column: Encoded) -> FloatArray:
    if not axis.values:
        numbers = as_numbers(column.values)
        if numbers is None:
            raise DataError(
                axis.name, "must hold numbers as in the audit data", "got text",
                f"Values: {listed(scalar(v) for v in column.values)}.",
            )  # fmt: skip
        known = np.isfinite(numbers)
        scaled = np.where(known, numbers, 0.0) * (axis.weight / axis.scale)
        by_value = np.stack([scaled, np.where(known, 0.0, axis.weight)], axis=1)
    else:
        # an unknown value gets an axis of its own: it differs from every known one
        spot = {value: j for j, value in enumerate(axis.values)}
        by_value = np.zeros((len(column.values), axis.width))
        for i, value in enumerate(column.values):
            j = spot.get(None if is_missing(value) else scalar(value), len(axis.values))
            by_value[i, j] = axis.weight / 2
    return np.asarray(by_value[column.codes], np.float64)
