"""What an edit costs, and which edits are not to be had at any price.

A feature's step from one value to another costs, times the feature's weight,

    numbers             |a - b| / (q95 - q5), the spread among the people of the audit data
    yes-or-no, category 1 where the two differ
    missing             1 more than a step from the median; for yes-or-no features just 1

and an edit costs the sum of its steps (``l1``), the root of the sum of their squares (``l2``), or
that without the root. Forbidden edits (immutable features, features that may only rise or fall,
moves a caller rules out, too many edits at once) cost infinity.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Annotated, Any, Literal

import numpy as np

from fairmend.data.columns import (
    BoolArray,
    Encoded,
    FloatArray,
    Frame,
    IntArray,
    Name,
    as_numbers,
    is_missing,
    scalar,
)
from fairmend.data.limits import MOST, Between, Positive, Value
from fairmend.data.stored import stored
from fairmend.errors import DataError, check, check_choice, check_names, check_whole, listed

Kind = Literal["l1", "l2", "squared_l2"]
Direction = Literal["up", "down"]
Callback = Callable[[Any, Any], Any]

_KINDS = ("l1", "l2", "squared_l2")
_PAIRS_AT_ONCE = 500_000
"""Of points compared with each other, so that their costs need not leave the processor's cache."""
_AT_A_TIME = 64  # pairs of rows put to a caller's function, which answers about all combinations


@stored("Cost")
@dataclass(frozen=True)
class Cost:
    """The user's costs and rules for edits; `EditCost` is computed from it on the audit data.

    ``kind`` is ``"l1"`` (default), ``"l2"``, ``"squared_l2"``, or a callable that takes two tables
    of rows (in the container of X) and gives a matrix of costs. A callable compares whole rows, so
    people are then edited into rows that were seen.

    >>> Cost(immutable=("sex",), one_way={"age": "up"}).kind
    'l1'
    """

    kind: Kind | Callback = "l1"
    weights: Mapping[Name, Positive] = field(default_factory=dict)
    """How dear a feature is, relative to 1."""
    immutable: Sequence[Name] = ()
    one_way: Mapping[Name, Direction] = field(default_factory=dict)
    """Features that may only rise (``"up"``) or fall (``"down"``); a missing one may not change."""
    max_edits: Annotated[int, Between(1, 1 << 53)] | None = None
    """At most this many features of a person may be edited."""
    forbidden: Callback | None = None
    """Takes two tables of rows; True where the move from one to the other is ruled out."""


@stored("_Axis")
@dataclass(frozen=True)
class _Axis:
    """One feature's place in space: two coordinates for a number, its code for a category."""

    name: Name
    weight: Positive
    values: tuple[Value, ...] = ()
    """A category's known values; empty for a number."""
    binary: bool = False
    """A number that is 0 or 1."""
    scale: Annotated[float, Between(sys.float_info.min, MOST)] = 1.0
    centre: Annotated[float, Between(-MOST, MOST)] = 0.5
    """Where a missing number stands."""

    def agrees(self) -> bool:
        return len(set(self.values)) == len(self.values)

    @property
    def width(self) -> int:
        return 1 if self.values else 2

    def place(self, column: Encoded) -> FloatArray:
        """Each entry's coordinates: (value, whether missing), already scaled; or (code)."""
        if self.values:
            code = {value: float(j) for j, value in enumerate(self.values)}
            new = float(len(self.values))  # differs from every known value
            by_value = np.array([code.get(_category(value), new) for value in column.values])
            return np.asarray(by_value[column.codes, None], np.float64)
        numbers = as_numbers(column.values)
        if numbers is None:
            raise DataError(
                f"X column {self.name!r}",
                "must hold numbers as in the audit data",
                f"got {listed(scalar(value) for value in column.values)}",
                "Pass X as the model reads it.",
            )
        there = np.isfinite(numbers)
        at = np.where(there, numbers, self.centre) * (self.weight / self.scale)
        missing = np.where(there, 0.0, self.weight * (0.5 if self.binary else 1.0))
        return np.asarray(np.stack([at, missing], axis=1)[column.codes], np.float64)

    def differs(self, a: FloatArray, b: FloatArray) -> BoolArray:
        """Whether entries are not the same; the last axis holds coordinates, others broadcast."""
        return np.asarray((a != b).any(axis=-1))

    def step(self, a: FloatArray, b: FloatArray, squared: bool) -> FloatArray:
        """What a change costs, or its square; the last axis holds coordinates."""
        if self.values:
            price = self.weight**2 if squared else self.weight
            return np.where(self.differs(a, b), price, 0.0)
        change = np.abs(a - b)
        return np.asarray((change**2 if squared else change).sum(axis=-1))


@stored("EditCost")
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
        """Scale numbers by the spread among people with these masses on the table's rows."""
        check_rules(cost, table.names)
        columns = zip(table.names, table.encoded, strict=True)
        axes = tuple(
            _axis(name, column, mass, float(cost.weights.get(name, 1.0)), cost)
            for name, column in columns
        )
        for axis in axes:
            if axis.name in cost.one_way and axis.values:
                raise DataError(
                    "one_way",
                    "must name numbers or yes-or-no features",
                    f"{axis.name!r} is a category"
                    if as_numbers(table.encoded[table.names.index(axis.name)].values) is None
                    else f"{axis.name!r} holds numbers that 64 bits cannot tell apart",
                    "Make it immutable, or forbid single moves.",
                )
        return cls(axes, cost)

    def agrees(self) -> bool:
        """Whether the rules are about its features, and those that go one way are numbers."""
        check_rules(self.cost, [axis.name for axis in self.axes])
        return not any(axis.name in self.cost.one_way and axis.values for axis in self.axes)

    @property
    def has_rules(self) -> bool:
        """Whether some edits are forbidden."""
        rules = self.cost.immutable or self.cost.one_way or self.cost.max_edits
        return bool(rules) or self.cost.forbidden is not None

    @property
    def compares_whole_rows(self) -> bool:
        """Whether the cost is a caller's function, which has no price for a single feature."""
        return callable(self.cost.kind)

    @property
    def all_binary(self) -> bool:
        """Whether every feature is yes-or-no."""
        return all(axis.binary for axis in self.axes)

    @property
    def editable(self) -> BoolArray:
        """Which features are not immutable."""
        return np.array([axis.name not in self.cost.immutable for axis in self.axes])

    def place(self, table: Frame) -> FloatArray:
        """Rows as points, a few coordinates a feature."""
        if table.is_whole and not any(axis.values for axis in self.axes):
            points = np.zeros((len(table), 2 * len(self.axes)))
            points[:, ::2] = table.native
            points[:, ::2] *= [axis.weight / axis.scale for axis in self.axes]
            return points
        columns = zip(self.axes, table.encoded, strict=True)
        return np.concatenate([axis.place(column) for axis, column in columns], axis=1)

    def matrix(self, source: Frame, destination: Frame) -> FloatArray:
        """cost[i, j] of editing source row i into destination row j; inf where forbidden."""
        here, there = self.place(source), self.place(destination)
        if self.compares_whole_rows:
            cost = self._asked(source, destination)
        else:
            cost = self._rooted(self._between(here, there, self.axes))
        if self.has_rules:
            cost = np.where(self._allowed(here, there), cost, np.inf)
        if self.cost.forbidden is not None:
            ruled_out = np.asarray(self.cost.forbidden(source.native, destination.native), bool)
            cost = np.where(ruled_out, np.inf, cost)
        return cost

    def nearest(self, here: FloatArray, there: FloatArray) -> tuple[IntArray, FloatArray]:
        """The cheapest counterpart of each point by features alone, the first of equals; its cost.

        A few rows at a time: all pairs would have to go through memory twice.
        """
        place, cost = np.empty(len(here), np.int64), np.empty(len(here))
        sides = None if any(axis.values for axis in self.axes) else _product(here, there)
        rows = max(1, _PAIRS_AT_ONCE // len(there))
        for start in range(0, len(here), rows):
            part = slice(start, start + rows)
            if sides is None:
                total = self._rooted(self._between(here[part], there, self.axes))
            else:
                total = sides[0][part] @ sides[1].T
            place[part] = best = np.argmin(total, axis=1)
            cost[part] = total[np.arange(len(best)), best]
        return place, cost if sides is None else self._rooted(cost)

    def _asked(self, source: Frame, destination: Frame) -> FloatArray:
        assert callable(self.cost.kind)
        cost = np.asarray(self.cost.kind(source.native, destination.native), np.float64)
        shape = (len(source), len(destination))
        if cost.shape != shape:
            got = f"got shape {cost.shape} for {shape[0]} and {shape[1]} rows"
        elif not (cost >= 0).all():
            got = f"got {cost[~(cost >= 0)][0]:g}"
        else:
            return cost
        raise DataError(
            "cost",
            "must give a matrix of costs, none negative, one row per source row",
            got,
            "A callable cost takes two tables and compares all their rows.",
        )

    # ---------------------------------------------------------------- all pairs of rows

    def _blocks(self) -> Iterator[tuple[_Axis, slice]]:
        """Each feature with its coordinates."""
        start = 0
        for axis in self.axes:
            yield axis, slice(start, start + axis.width)
            start += axis.width

    def _between(self, here: FloatArray, there: FloatArray, axes: Sequence[_Axis]) -> FloatArray:
        """The steps of some features added up, for all pairs of rows; squares for l2."""
        from scipy.spatial.distance import cdist

        wanted = {axis.name for axis in axes}
        blocks = [(axis, at) for axis, at in self._blocks() if axis.name in wanted]
        numbers = [j for axis, at in blocks if not axis.values for j in range(at.start, at.stop)]
        total = _between_numbers(here[:, numbers], there[:, numbers], squared=self.squared)
        words = [(axis, at) for axis, at in blocks if axis.values]
        if len({axis.weight for axis, _ in words}) == 1:  # then they need only be counted
            where, weight = [at.start for _, at in words], words[0][0].weight
            count = cdist(here[:, where], there[:, where], "hamming")
            count *= len(where)
            np.rint(count, out=count)
            count *= weight**2 if self.squared else weight
            total += count
            return total
        for axis, at in words:
            total += axis.step(here[:, None, at], there[None, :, at], self.squared)
        return total

    def _allowed(self, here: FloatArray, there: FloatArray) -> BoolArray:
        """Which pairs break no rule about features."""
        allowed = np.ones((len(here), len(there)), bool)
        edits = np.zeros((len(here), len(there)), np.int64)
        for axis, at in self._blocks():
            a, b = here[:, None, at], there[None, :, at]
            if self.cost.max_edits is not None:
                edits += axis.differs(a, b)
            if self._ruled(axis):
                allowed &= self._may_change(axis, a, b) | ~axis.differs(a, b)
        return allowed if self.cost.max_edits is None else allowed & (edits <= self.cost.max_edits)

    def mixture(self, here: FloatArray, there: FloatArray) -> FloatArray:
        """What it costs each row to take from each other all that it may take.

        That is every feature but immutable ones and those that may not go that way; inf where
        nothing is left to take.
        """
        free = [axis for axis in self.axes if not self._ruled(axis)]
        total = self._between(here, there, free)
        for axis, at in self._blocks():
            if axis.name in self.cost.one_way and axis.name not in self.cost.immutable:
                a, b = here[:, None, at], there[None, :, at]
                total += axis.step(a, b, self.squared) * self._may_change(axis, a, b)
        total = self._rooted(total)
        total[total == 0] = np.inf
        return total

    # ---------------------------------------------------------------- row by row

    def may_take(self, here: FloatArray, there: FloatArray) -> BoolArray:
        """Which features each row may take from its counterpart, shape (rows, features)."""
        taken = [
            self._may_change(axis, here[:, at], there[:, at])
            if self._ruled(axis)
            else np.ones(len(here), bool)
            for axis, at in self._blocks()
        ]
        return np.stack(taken, axis=1)

    def steps(self, here: FloatArray, there: FloatArray) -> FloatArray:
        """What each feature's change costs from each row to its counterpart; squares for l2."""
        return np.stack(
            [axis.step(here[:, at], there[:, at], self.squared) for axis, at in self._blocks()],
            axis=1,
        )

    def total(self, steps: FloatArray) -> FloatArray:
        """What edits cost that are made of such steps, shape (rows, features)."""
        return self._rooted(steps.sum(axis=1))

    def mixtures(self, here: FloatArray, there: FloatArray) -> FloatArray:
        """What it costs each row to take all that it may from its counterpart; see `mixture`."""
        total = (self.steps(here, there) * self.may_take(here, there)).sum(axis=1)
        return np.where(total > 0, self._rooted(total), np.inf)

    def forbids(self, source: Frame, destination: Frame) -> BoolArray:
        """Whether a caller rules out the move from each row to its counterpart."""
        if self.cost.forbidden is None:
            return np.zeros(len(source), bool)
        parts = []
        for start in range(0, len(source), _AT_A_TIME):
            a, b = (table.slice(start, start + _AT_A_TIME) for table in (source, destination))
            parts.append(np.diagonal(np.asarray(self.cost.forbidden(a.native, b.native), bool)))
        return np.concatenate(parts)

    # ---------------------------------------------------------------- rules of one feature

    @property
    def squared(self) -> bool:
        """Whether steps are squared before they are added up."""
        return self.cost.kind in ("l2", "squared_l2")

    def _rooted(self, total: FloatArray) -> FloatArray:
        return np.sqrt(total) if self.cost.kind == "l2" else total

    def _ruled(self, axis: _Axis) -> bool:
        return axis.name in self.cost.immutable or axis.name in self.cost.one_way

    def _may_change(self, axis: _Axis, a: FloatArray, b: FloatArray) -> BoolArray:
        """Whether a feature that is ruled may go from a to b; the last axis holds coordinates."""
        if axis.name in self.cost.immutable:
            return np.zeros(np.broadcast_shapes(a.shape, b.shape)[:-1], bool)
        rises = self.cost.one_way[axis.name] == "up"
        right_way = a[..., 0] < b[..., 0] if rises else a[..., 0] > b[..., 0]
        return np.asarray(right_way & (a[..., 1] == 0) & (b[..., 1] == 0))


def _between_numbers(here: FloatArray, there: FloatArray, *, squared: bool) -> FloatArray:
    """Distances of all pairs of points."""
    from scipy.spatial.distance import cdist

    if len(there) == 0:
        return np.zeros((len(here), 0))
    sides = _product(here, there)
    if sides is not None:
        left, right = sides
        return np.asarray(left @ right.T, np.float64)
    varied = _varied(here, there)
    here, there = here[:, varied], there[:, varied]
    return np.asarray(cdist(here, there, "sqeuclidean" if squared else "cityblock"))


def _product(here: FloatArray, there: FloatArray) -> tuple[Any, Any] | None:
    """Two matrices whose product is all distances, a + b - 2ab; None unless points are 0 or 1."""
    varied = _varied(here, there)
    here, there = here[:, varied], there[:, varied]
    if not all(((part == 0) | (part == 1)).all() for part in (here, there)):
        return None
    here, there = here.astype(np.float32), there.astype(np.float32)  # exact, as these are counts
    left = np.column_stack([-2 * here, here.sum(axis=1), np.ones(len(here), np.float32)])
    right = np.column_stack([there, np.ones(len(there), np.float32), there.sum(axis=1)])
    return left, right


def _varied(here: FloatArray, there: FloatArray) -> BoolArray:
    """Coordinates in which not all points are the same."""
    return np.asarray((here != there[0]).any(axis=0) | (there != there[0]).any(axis=0))


def check_rules(cost: Cost, names: Sequence[str]) -> None:
    """Refuse what cannot be meant, or is about features that are not among these."""
    for what, given in (
        ("immutable", cost.immutable),
        ("one_way", cost.one_way),
        ("cost weights", cost.weights),
    ):
        check_names(what, given)
        check(
            what == "immutable" or isinstance(given, Mapping),
            what,
            "must have a value for each feature it names",
            f"got {given!r}",
            "Pass a dict, e.g. {'age': ...}.",
        )
        for name in given:
            check_choice(what, name, names, must="must name inputs of the model")
    something = not set(cost.immutable) >= set(names)
    must, fix = "must leave something to edit", "Leave out what may change."
    check(something, "immutable", must, "got every feature", fix)
    for name, direction in cost.one_way.items():
        got, fix = f"got {direction!r} for {name!r}", "For example {'age': 'up'}."
        check(direction in ("up", "down"), "one_way", "must say 'up' or 'down'", got, fix)
    for name, weight in cost.weights.items():
        positive = isinstance(weight, Real) and np.isfinite(weight) and weight > 0
        got, fix = f"got {weight!r} for {name!r}", "What must not change is immutable."
        check(positive, "cost weights", "must be positive", got, fix)
    if cost.max_edits is not None:
        check_whole("max_edits", cost.max_edits, 1, "Leave it out to allow any number.")
    if cost.forbidden is not None:
        got, must = f"got {cost.forbidden!r}", "must be a function of two tables of rows"
        check(callable(cost.forbidden), "forbidden", must, got, "True forbids an edit.")
    if not callable(cost.kind):
        must = f"must be {', '.join(map(repr, _KINDS))} or a callable"
        check_choice("cost", cost.kind, _KINDS, "l1 is the default.", must=must)


def _axis(name: str, column: Encoded, mass: FloatArray, weight: float, cost: Cost) -> _Axis:
    numbers = as_numbers(column.values)
    ruled = name in cost.immutable or name in cost.one_way
    if numbers is None or (ruled and not _distinct(numbers)):
        return _Axis(name, weight, values=tuple(_category(value) for value in column.values))
    there = np.isfinite(numbers)
    if set(numbers[there].tolist()) <= {0.0, 1.0}:
        return _Axis(name, weight, binary=True)
    at, weight_at = numbers[there], np.bincount(column.codes, mass, len(numbers))[there]
    everybody = float(weight_at.sum())  # 0 where nobody has it: all values then count alike
    share = weight_at / everybody if everybody > 0 else np.full(len(at), 1 / len(at))
    low, centre, high = (_quantile(at, share, q) for q in (0.05, 0.5, 0.95))
    scale = high - low
    if scale <= 0:
        scale = float(np.sqrt(share @ (at - share @ at) ** 2)) or 1.0
    return _Axis(name, weight, scale=scale, centre=centre)


def _distinct(numbers: FloatArray) -> bool:
    """Whether different values have different coordinates: not integers beyond 2**53, nor inf."""
    places = np.where(np.isfinite(numbers), numbers, np.nan)
    return len(np.unique(places)) == len(numbers)


def _quantile(at: FloatArray, share: FloatArray, q: float) -> float:
    """The lowest value that a share q of the people do not exceed; ``at`` is sorted."""
    place = int(np.searchsorted(np.cumsum(share), q - 1e-12))
    return float(at[min(place, len(at) - 1)])


def _category(value: Any) -> Any:
    """A category's value to be looked up by; every kind of missing is one."""
    return None if is_missing(value) else scalar(value)
