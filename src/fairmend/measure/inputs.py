"""Columns that must not become inputs: a repair would edit them.

Without named inputs, every column of X that has no other role is one. Whole tables also hold case
numbers, outcomes, groups and further answers of the vendor. These are refused, by the same rule in
the library and on the command line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fairmend.data.columns import Encoded, Frame, IntArray
from fairmend.data.outcomes import Labels
from fairmend.data.rows import mixed, spread
from fairmend.errors import InputError, ModelError, warn
from fairmend.model.answers import Answers, is_same
from fairmend.model.blackbox import BlackBox

FEW = 20
"""Among fewer people than this no two need share a value of anything."""
SURE = 10_000
"""Two columns that agree are one thing if chance makes them agree once in so many times."""
RARE = 0.02
"""A column in which fewer people than this share differ from all others is no answer."""
EXCHANGED = 256
"""Rows put to the model again with the values of a column exchanged."""
_GLANCE = 1_000  # rows that tell of nearly every column that it is innocent

Reason = Literal["label", "identifier", "group", "answer"]
_MUST = {
    "label": "must not be an input if it is the outcome itself",
    "identifier": "must not be an input if it only tells who somebody is",
    "group": "must not be an input if it is the group itself",
    "answer": "must not be an input if it is another answer of the model",
}


@dataclass(frozen=True)
class Doubt:
    """A column that looks like something other than an input, and why."""

    column: str
    reason: Reason
    got: str


@dataclass(frozen=True, eq=False)
class PeopleOnRows:
    """What is known of the people behind a table of distinct rows."""

    n: int
    """How many there are."""
    row: IntArray
    """The row of each entry; an entry stands for one person, or for a cell of them."""
    outcome: IntArray | None
    """0 or 1; None where outcomes are not known."""
    group: IntArray


def find_doubts(
    table: Frame, people: PeopleOnRows, answers: Answers, box: BlackBox, labels: Labels
) -> Iterator[Doubt]:
    """The columns of a table of distinct rows that should not be edited.

    A model that can be queried may read the group, and whatever its answers rest on: only what it
    does not read is another answer of it. An array has no names, and is no whole table: of its
    columns only copies of the outcome are found.
    """
    ranked = answers.decision if answers.score is None else answers.score
    ranks = np.unique(ranked, return_inverse=True)[1].reshape(-1)
    for place, (name, column) in enumerate(zip(table.names, table.encoded, strict=True)):
        if name in box.vouched:
            continue
        if _is_copy(column, people.row, people.outcome):
            yield Doubt(name, "label", "it tells people apart just where y does")
        elif table.is_array:
            continue
        elif len(table) == people.n and is_identifier(column):
            yield identifier(name, people.n)
        elif not box.can_query:
            if _is_copy(column, people.row, people.group):
                got = "it tells people apart just where sensitive_features does"
                yield Doubt(name, "group", got)
            elif ranks_alike(column, ranks):
                yield answer(name, column, "the recorded prediction" if box.column is None
                             else repr(box.column))  # fmt: skip
        elif (
            not box.random
            and ranks_alike(column, ranks)
            and not is_read(box, table, place, answers, labels)
        ):
            unread = f", whose answers on {min(len(table), EXCHANGED):,} rows do not depend on it"
            yield answer(name, column, "the model", unread)


def find_leak(
    table: Frame, people: PeopleOnRows, answers: Answers, box: BlackBox, labels: Labels
) -> Iterator[Doubt]:
    """The columns that tell the outcome to a model that reads them, or that a repair may edit."""
    for place, (name, column) in enumerate(zip(table.names, table.encoded, strict=True)):
        if _is_copy(column, people.row, people.outcome) and (
            not box.can_query or box.random or is_read(box, table, place, answers, labels)
        ):
            yield Doubt(name, "label", "it tells people apart just where y does")


def identifier(name: str, n: int) -> Doubt:
    """The doubt about a column in which everybody has another value."""
    return Doubt(name, "identifier", f"all its {n:,} values differ")


def answer(name: str, column: Encoded, model: str, more: str = "") -> Doubt:
    """The doubt about a column that agrees with the model's answers."""
    alike = "it tells people apart just where"
    if len(column.values) > 2:
        alike = "it ranks no two people otherwise than"
    return Doubt(name, "answer", f"{alike} {model} does{more}")


def object_to(
    doubts: Iterable[Doubt],
    names: Sequence[str],
    box: BlackBox,
    *,
    named: bool = False,
    only_warn: bool = False,
) -> None:
    """Raise an error about the first of some doubtful columns, if there is one, or only warn of it.

    ``named``: the columns were named as inputs.
    """
    doubts = list(doubts)
    if not doubts:
        return
    first, doubtful = doubts[0], {doubt.column for doubt in doubts}
    kept = [name for name in names if name not in doubtful]
    model = "model" if box.column is None else repr(box.column)
    inputs = repr(kept) if 0 < len(kept) <= 6 else "[...]"
    fix = f"Leave it out of X, or name what the model reads: BlackBox({model}, inputs={inputs})."
    if named:
        fix = (
            "A model that reads it is told the outcome: what is found here will not hold for "
            "people whose outcome is still to come."
        )
    what, about = f"X column {first.column!r}", {"column": first.column, "reason": first.reason}
    error = InputError(what, _MUST[first.reason], first.got, fix, **about)
    if not only_warn:
        raise error
    warn(str(error))


# -------------------------------------------------------------------- what columns look like


def is_identifier(column: Encoded) -> bool:
    """Whether a column of whole numbers or text has another value for everybody.

    Measured numbers hardly ever repeat either, so floats are no identifiers.
    """
    n = len(column.codes)
    if n < FEW or len(column.values) < n or column.has_missing:
        return False
    if column.values.dtype.kind != "O":
        return column.values.dtype.kind in "iuSU"
    return all(isinstance(v, str | int) and not isinstance(v, bool) for v in column.values)


def ranks_alike(column: Encoded, answers: NDArray[np.integer[Any]]) -> bool:
    """Whether no two people are in one order by a column and in the other by the answers.

    A column of two values may be words: approved and declined beside a score. One that is the same
    for nearly everybody does not count: a model that reads it may well answer all others alike.
    """
    if len(column.values) < 2 or column.has_missing:
        return False
    if len(column.values) > 2 and column.values.dtype.kind not in "iuf":
        return False
    codes, ranks = column.codes.astype(np.int64), answers.astype(np.int64)
    if len(codes) - np.bincount(codes).max() < RARE * len(codes):
        return False
    few = spread(len(ranks), _GLANCE)
    return any(
        _agree(codes[few], way[few]) and _agree(codes, way) for way in (ranks, -ranks)
    ) and _is_sure(codes, ranks)


def _agree(one: IntArray, other: IntArray) -> bool:
    """Whether no pair is ordered otherwise: then sorting by one, ties by the other, sorts both."""
    ordered = other[np.lexsort((other, one))]
    return bool((ordered[1:] >= ordered[:-1]).all())


def _is_copy(column: Encoded, row: IntArray, kinds: IntArray | None) -> bool:
    """Whether a column and something known of people are the same but for their words."""
    if kinds is None or column.has_missing:
        return False
    size = int(kinds.max()) + 1
    if len(column.values) != size:
        return False
    for part in (spread(len(row), _GLANCE), slice(None)):
        pairs = np.unique(column.codes[row[part]].astype(np.int64) * size + kinds[part])
        if len(pairs) > size:
            return False
    return len(pairs) == size and _is_sure(column.codes[row].astype(np.int64), kinds)


def _is_sure(one: IntArray, other: IntArray) -> bool:
    """Whether two columns that agree would hardly ever do so by chance.

    Both are held to be in one order but for ties. Of all ways to deal out the values of one among
    people, those that keep to the order of the other are a share

        prod_a [n_a! / prod_b n_ab!]  /  [n! / prod_b n_b!]

    where n_ab people have value a of the other and b of the one.
    """
    from scipy.special import gammaln

    n = len(one)
    if n < FEW:
        return False
    pairs, together = np.unique(np.stack([other, one]), axis=1, return_counts=True)
    by_other = np.bincount(np.unique(pairs[0], return_inverse=True)[1], together)
    by_one = np.bincount(np.unique(pairs[1], return_inverse=True)[1], together)
    kept = gammaln(by_other + 1).sum() - gammaln(together + 1).sum()
    every = gammaln(n + 1) - gammaln(by_one + 1).sum()
    return bool(every - kept >= np.log(SURE))


def is_read(box: BlackBox, table: Frame, place: int, answers: Answers, labels: Labels) -> bool:
    """Whether the model answers otherwise when rows exchange their values of a column."""
    order = np.argsort(table.encoded[place].codes, kind="stable")
    chosen = order[spread(len(order), EXCHANGED)]
    rows, before = table.take(chosen), answers.take(chosen)
    others = rows.take(np.roll(np.arange(len(chosen)), len(chosen) // 2))
    column = np.zeros((len(chosen), len(table.names)), bool)
    column[:, place] = True
    try:
        after = box.query(mixed(rows, others, column), labels, trusted=True)
    except ModelError:  # it minds, so it reads it
        return True
    return not is_same(before, after).all()
