"""The law of a row: (group, row, the model's answer) -> where to, and with which chances.

Every way in looks laws up here: a prediction, a file, an engine's partition, a request. The law of
a row is remembered, up to a bound: the model is queried and a plan is followed once for each
distinct row.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import repeat
from threading import Lock
from typing import Any, Generic, Literal, TypeVar

import numpy as np

from fairmend.apply.draw import Drawer
from fairmend.data.columns import Frame, IntArray, is_missing, object_array, scalar
from fairmend.data.containers import as_fitted
from fairmend.data.groups import GroupReader
from fairmend.data.rows import replaced
from fairmend.errors import DataError
from fairmend.measure.population import AuditData
from fairmend.model.answers import Answers
from fairmend.model.blackbox import BlackBox
from fairmend.repair.plan import Plan, Route

MOST_LAWS = 100_000
"""Laws remembered of each group; beyond this memory starts again, so that it stays bounded."""
_EXACT = 2**53
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class FittedRepair:
    """What applying needs of a fitted repair."""

    plans: Mapping[Hashable, Plan]
    box: BlackBox
    data: AuditData
    """The audit: its groups, its labels and the table of inputs."""
    key: bytes | None
    """The secret for draws; None if the repair was loaded without it."""
    fingerprint: Callable[[], str]
    """Identifies the repair; draws depend on it. It is computed when first needed."""
    unknown_group: Literal["error", "keep"] = "error"
    blind: bool = False
    """Whether one rule holds for everybody: nobody's group is read."""

    @property
    def table(self) -> Frame:
        assert self.data.table is not None
        return self.data.table

    @cached_property
    def groups(self) -> GroupReader:
        """Finds people's places among the audited groups."""
        return GroupReader(self.data.groups)

    @cached_property
    def plan_of(self) -> dict[int, Plan]:
        """The plan of each repaired group, by the group's place among those audited.

        A blind rule is the same in every plan, and holds for people of place 0: everybody.
        """
        if self.blind:
            return dict(enumerate(list(self.plans.values())[:1]))
        return {self.data.place(group): plan for group, plan in self.plans.items()}

    @cached_property
    def classes(self) -> Any:
        """The negative and the positive label of y."""
        return np.array([self.data.labels.negative, self.data.labels.positive])

    @property
    def answers_stand(self) -> bool:
        """Whether the audit's answers are those the model would give now; some have none."""
        has_rows = self.data.populations[0].rows is not None  # not of a blind repair, loaded
        return self.box.can_query and not self.box.random and has_rows

    def drawer(self, purpose: str) -> Drawer:
        """Draws for people: for ``"repair"`` or ``"decision"``.

        The domain has the fingerprint of the repair in it: another repair with the same key draws
        independently.
        """
        if self.key is None:
            raise DataError(
                "key",
                "must be given to draw for people whose edit is randomised",
                "this repair was loaded without it",
                "Use fairmend.load(path, model, key=...), with the key_ of the saved repair.",
            )
        return Drawer(self.key, f"{purpose} {self.fingerprint()}")


# -------------------------------------------------------------------- remembered laws


class Remembered(Generic[T]):
    """What was found for some keys, bounded; several threads may ask at once.

    ``T`` holds one entry a key, in order; ``joined`` puts two of them together.
    """

    def __init__(self, most: int, joined: Callable[[T, T], T]) -> None:
        self.most, self._joined, self._lock = most, joined, Lock()
        self._place: dict[Hashable, int] = {}
        self._value: T | None = None

    def find(self, keys: Sequence[Hashable], work: Callable[[IntArray], T]) -> tuple[T, IntArray]:
        """Entries, and the place of each key among them; ``work`` finds those of new keys."""
        with self._lock:
            value = self._value
            place = np.fromiter(map(self._place.get, keys, repeat(-1)), np.int64, len(keys))
            size = len(self._place)
        new = np.flatnonzero(place < 0)
        if value is not None and len(new) == 0:
            return value, place
        fresh = work(new)
        place[new] = size + np.arange(len(new))
        both = fresh if value is None else self._joined(value, fresh)
        with self._lock:
            if self._value is value:  # else another thread was first, and this is found again
                full = size + len(new) > self.most
                self._value, start = (fresh, 0) if full else (both, size)
                self._place = {} if full else self._place
                self._place.update((keys[i], start + j) for j, i in enumerate(new.tolist()))
        return both, place


class Laws:
    """The model's answers and the plans' laws for rows; ``most=0`` remembers nothing."""

    def __init__(
        self, repair: FittedRepair, *, edits: bool = True, most: int | None = None
    ) -> None:
        most = MOST_LAWS if most is None else most
        self.repair, self.edits, self.most = repair, edits, most
        self._answers = Remembered[Answers](most, _joined_answers)
        self._routes = {place: Remembered[Route](most, _joined) for place in repair.plan_of}

    def remember(self, rows: IntArray, answers: Answers) -> None:
        """The model's answers about rows of the audit, beside those it will be asked for."""
        self._answers.most = self.most + len(rows)
        self._answers.find(row_keys(self.repair.table.take(rows)), answers.take)

    def answers(self, keys: Sequence[Hashable] | None, rows: Frame, *, cast: bool) -> Answers:
        """The model's answers about distinct rows."""

        def query(new: IntArray) -> Answers:
            return self.repair.box.query(
                self._rows(rows, new, cast=cast), self.repair.data.labels, trusted=True
            )

        if keys is None:
            return query(np.arange(len(rows)))
        answers, place = self._answers.find(keys, query)
        return answers.take(place)

    def route(
        self,
        group: int,
        keys: Sequence[Hashable] | None,
        rows: Frame,
        answers: Answers,
        *,
        cast: bool,
    ) -> Route:
        """The law of a group's distinct rows, in their order."""
        plan = self.repair.plan_of[group]
        follow = plan.route if self.edits else plan.decisions

        def work(new: IntArray) -> Route:
            return follow(self._rows(rows, new, cast=cast), answers.take(new))

        if keys is None:
            return work(np.arange(len(rows)))
        route, place = self._routes[group].find(keys, work)
        return _of(route, place)

    def _rows(self, rows: Frame, some: IntArray, *, cast: bool) -> Frame:
        """Some of the rows; with ``cast`` in the container and the types of the fit."""
        taken, table = rows.take(some), self.repair.table
        return Frame(as_fitted(taken.native, table), table.names) if cast else taken


def _of(route: Route, rows: IntArray) -> Route:
    """The law of some rows of a route, in the order in which they are given."""
    order = np.argsort(rows)
    some = route.of(rows[order])
    entries = np.argsort(order[some.row], kind="stable")
    return replace(
        some,
        row=order[some.row][entries],
        destination=some.destination[entries],
        probability=some.probability[entries],
        cost=some.cost[entries],
    )


def _joined_answers(one: Answers, more: Answers) -> Answers:
    score = None
    if one.score is not None and more.score is not None:
        score = np.concatenate([one.score, more.score])
    return Answers(np.concatenate([one.decision, more.decision]), score)


def _joined(one: Route, more: Route) -> Route:
    """The laws of some rows, followed by those of others."""
    shift, table = len(one.decision), one.table or more.table
    if one.table is not None and more.table is not None:
        n, m = len(one.table), len(more.table)
        room = one.table.take(np.r_[np.arange(n), np.zeros(m, np.int64)])
        table = replaced(room, np.arange(n, n + m), more.table)  # in types that hold both
    score = one.score if more.score is None else more.score
    if one.score is not None and more.score is not None:
        score = np.concatenate([one.score, more.score])
    return replace(
        one,
        n=one.n + more.n,
        row=np.concatenate([one.row, more.row + one.n]),
        destination=np.concatenate(
            [one.destination, np.where(more.destination < 0, -1, more.destination + shift)]
        ),
        probability=np.concatenate([one.probability, more.probability]),
        table=table,
        decision=np.concatenate([one.decision, more.decision]),
        score=score,
        cost=np.concatenate([one.cost, more.cost]),
        unreachable=None,
    )


def row_keys(rows: Frame, *more: Sequence[Any]) -> list[Hashable]:
    """One key a row, the same for equal values in any container; ``more`` are further columns.

    >>> a, b = row_keys(Frame.read(np.array([[1, 2], [1, 3]])))
    >>> a == row_keys(Frame.read(np.array([[1.0, 2.0]])))[0] != b
    True
    """
    numbers: list[Any] = []
    others = list(more)
    for column in rows.encoded:
        values = column.values
        kind = values.dtype.kind
        if kind in "bf" or (kind in "iu" and (len(values) == 0 or _is_exact(values))):
            exact = values.astype(np.float64) + 0.0  # -0.0 is 0.0
            exact[np.isnan(exact)] = np.nan
            numbers.append(exact[column.codes])
        else:
            plain = object_array([None if is_missing(v) else scalar(v) for v in values])
            others.append(plain[column.codes].tolist())
    if not numbers:
        return list(zip(*others, strict=True))
    packed = np.stack(numbers, axis=1).view(f"V{8 * len(numbers)}").ravel().tolist()
    return list(zip(packed, *others, strict=True)) if others else packed


def _is_exact(values: Any) -> bool:
    return int(values[0]) >= -_EXACT and int(values[-1]) <= _EXACT


# -------------------------------------------------------------------- the law of one row

Row = tuple[Any, ...]


class Bounded(dict[Any, T]):
    """A cache of single things: beyond its bound the older half is dropped.

    >>> cache = Bounded(2)
    >>> for key in "abc":
    ...     cache[key] = key
    >>> list(cache)
    ['b', 'c']
    """

    def __init__(self, most: int = MOST_LAWS) -> None:
        super().__init__()
        self.most = most

    def __setitem__(self, key: Any, value: T) -> None:
        if len(self) >= self.most:
            for old in list(self)[: max(1, self.most // 2)]:
                self.pop(old, None)
        super().__setitem__(key, value)


@dataclass(frozen=True, slots=True)
class Law:
    """Where one row may go, with cumulated chances; None is to stay."""

    destinations: tuple[Row | None, ...]
    cumulative: tuple[float, ...]
    random: bool

    def pick(self, uniform: float) -> Row | None:
        """The destination that a number in [0, 1) draws, as `Route.pick` does.

        >>> Law((None, ("x",)), (0.25, 1.0), True).pick(0.25)
        ('x',)
        """
        entry = bisect_right(self.cumulative, uniform)
        return self.destinations[min(entry, len(self.destinations) - 1)]


def laws_of(route: Route, as_rows: Callable[[Frame], list[Row]]) -> list[Law]:
    """A route's laws row by row; ``as_rows`` makes rows of a table."""
    table = [] if route.table is None else as_rows(route.table)
    starts = np.searchsorted(route.row, np.arange(route.n + 1))
    laws = []
    for i, random in enumerate(route.random.tolist()):
        entries = slice(starts[i], starts[i + 1])
        cumulative = np.minimum(np.cumsum(route.probability[entries]), 1.0)
        there = tuple(None if j < 0 else table[j] for j in route.destination[entries])
        laws.append(Law(there, tuple(cumulative.tolist()), random))
    return laws
