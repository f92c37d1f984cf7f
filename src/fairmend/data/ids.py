"""Whose row is this: ids of people, and ids made of their values for people without one.

Which ids are the same person:

- integers, whole floats up to 2^53 and both as Python writes them in text: 7, 7.0, ``"7"`` and
  ``"7.0"`` are one person, but ``"007"``, ``"+7"`` and ``"7e0"`` are others;
- any other text, by its Unicode NFC form, case and blanks kept;
- nothing else: missing values, booleans, fractions, bytes and dates are errors.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from fairmend.data.columns import (
    BoolArray,
    Frame,
    IntArray,
    is_missing,
    object_array,
    read_column,
    scalar,
    series_array,
)
from fairmend.data.given import as_column
from fairmend.errors import DataError, check_length

if TYPE_CHECKING:
    import polars as pl

_WHOLE_NUMBER = re.compile(r"(0|-?[1-9][0-9]*)(?:\.0+)?", re.ASCII)
# Beyond this, neighbouring integers are the same float.
_EXACT_FLOAT = 2.0**53
_LOW, _HIGH = -(2**63), 2**63 - 1


def number_people(ids: Any) -> IntArray:
    """A number from 0 on for each person: the same for ids that are the same person.

    >>> number_people(["x", "7", 7, "007", "x"]).tolist()
    [0, 1, 1, 2, 0]
    """
    numbers = _texts_of_numbers(ids)
    if numbers is not None:  # as text they are numbered in the order in which they come
        _, first, person = np.unique(numbers, return_index=True, return_inverse=True)
        order: IntArray = np.argsort(np.argsort(first))[person]
        return order
    column = read_ids(ids)
    if column.dtype.kind == "i":
        return np.unique(column, return_inverse=True)[1].astype(np.int64, copy=False)
    place: dict[int | str, int] = {}
    each = (place.setdefault(canonical(value), len(place)) for value in column)
    return np.fromiter(each, np.int64, len(column))


def _texts_of_numbers(ids: Any) -> IntArray | None:
    """A Polars column of text as integers, if each is one as Python writes it; else None."""
    column = ids.to_native() if isinstance(ids, nw.Series) else ids
    if not nw.dependencies.is_polars_series(column) or str(column.dtype) != "String":
        return None
    plain = column.null_count() == 0 and column.str.contains(r"^(0|-?[1-9][0-9]{0,17})$").all()
    return column.str.to_integer().to_numpy() if plain else None


def read_people(ids: Any, frame: Frame | None, n: int) -> IntArray:
    """A number for each of n people; ``ids`` may name a column of X."""
    given = read_column(ids, frame, "ids") if isinstance(ids, str) else ids
    person = number_people(given.to_native() if isinstance(given, nw.Series) else given)
    check_length("ids", person, n)
    return person


def held_out(cell: IntArray, share: float, seed: int, person: IntArray | None = None) -> BoolArray:
    """Whose rows are held out: a share of the people of each cell, all rows of a person together.

    A person is of the cell of their first row.

    >>> held_out(np.array([0, 0, 0, 0, 1, 1]), 0.5, seed=0).tolist()
    [False, False, True, True, False, True]
    """
    first = row = np.arange(len(cell))
    if person is not None and len(numbers := np.unique(person, return_index=True)[1]) < len(cell):
        first, row = numbers, person
    cell = cell[first]
    order = np.random.default_rng(seed).permutation(len(cell))
    by_cell = order[np.argsort(cell[order], kind="stable")]
    sizes = np.bincount(cell)
    place = np.empty(len(cell), np.int64)  # each person's place within their cell
    place[by_cell] = np.concatenate([np.arange(size) for size in sizes])
    mask: BoolArray = (place < np.round(share * sizes)[cell])[row]
    return mask


def hold_out_people(
    columns: Iterable[pl.Series], share: float, seed: int, ids: Any = None
) -> BoolArray:
    """Whose rows are held out: a share of the people of each combination of these columns."""
    import polars as pl

    values = pl.DataFrame([one.alias(str(j)) for j, one in enumerate(columns)])
    cell = values.select((pl.struct(pl.all()).rank("dense") - 1).cast(pl.Int64)).to_series()
    person = None if ids is None else number_people(ids)
    return held_out(cell.to_numpy(), share, seed, person)


def read_ids(ids: Any) -> NDArray[Any]:
    """Ids as an array of integers, or of Python objects."""
    column = object_array(ids) if isinstance(ids, list | tuple) else as_column(ids, "ids")
    if isinstance(column, nw.Series):
        if column.null_count():
            raise no_id(None, int(column.is_null().arg_true()[0]))
        column = series_array(column)
    kind = column.dtype.kind
    if kind == "i" or (kind == "u" and (column.size == 0 or column.max() <= _HIGH)):
        return np.asarray(column, np.int64)
    if kind == "f":
        whole = (np.abs(column) <= _EXACT_FLOAT) & (column == np.floor(column))
        if not whole.all():
            row = int(np.argmin(whole))
            raise no_id(column[row].item(), row)
        return np.asarray(column, np.int64)
    entries = column.tolist() if kind in "uUO" else list(column)
    if set(map(type, entries)) == {int}:
        with suppress(OverflowError):
            return np.array(entries, np.int64)
    for row, value in enumerate(entries):
        if not is_id(value):
            raise no_id(value, row)
    return object_array(entries)


def is_id(value: Any) -> bool:
    """Whether a value can stand for a person: a whole number, or text that is not empty.

    >>> [is_id(value) for value in (7, "x", 7.0, 7.5, "", True, None)]
    [True, True, True, False, False, False, False]
    """
    if isinstance(value, str):
        return value != "" and not any("\ud800" <= letter <= "\udfff" for letter in value)
    if isinstance(value, bool | np.bool_ | np.timedelta64):
        return False
    if isinstance(value, float | np.floating):
        return abs(float(value)) <= _EXACT_FLOAT and float(value).is_integer()
    return isinstance(value, int | np.integer)


def canonical(value: Any) -> int | str:
    """An id's canonical form: an integer of 64 bits, or text."""
    if isinstance(value, str):
        text = unicodedata.normalize("NFC", value)
        whole = _WHOLE_NUMBER.fullmatch(text)
        if whole is None:
            return text
        value = whole[1]
    number = int(value)
    return number if _LOW <= number <= _HIGH else str(number)


class BadId(DataError):
    """A value that cannot be an id; ``row`` counts from 0 among the ids that were given."""

    row, value = 0, None

    def at(self, place: str) -> BadId:
        """The same error with its place in a file."""
        return self.but(got=f"got {self.value!r} in {place}")


def no_id(value: Any, row: int) -> BadId:
    """The error for a value that cannot be an id."""
    must, got = "must be whole numbers or text that is not empty", f"got {value!r} in row {row:,}"
    fix = "Give everybody the id of your own records, e.g. as text with str(id)."
    error = BadId("ids", must, got, fix)
    error.row, error.value = row, value
    return error


def content_ids(frame: Frame) -> NDArray[Any]:
    """Stand-in ids made of the rows' values, for people who have none.

    Weaker than ids: equal rows get equal draws, so that a row's whole share goes one way, and
    somebody can roll again by changing a feature. Names and containers do not matter, values and
    their order do: 1, 1.0 and True are one value, every kind of missing is one, and a date is its
    midnight.

    >>> a = content_ids(Frame.read(np.array([[1, 0], [1, 1], [1.0, 0]])))
    >>> bool(a[0] == a[2]), bool(a[0] == a[1])
    (True, False)
    """
    alike = frame.distinct()
    columns = []
    for name, column in zip(frame.names, frame.encoded, strict=True):
        spelt = object_array([_spelt(value, name) for value in column.values])
        columns.append(spelt[column.codes[alike.first]])
    joined = map(b"".join, zip(*columns, strict=True))
    ids = object_array([f"row:{blake2b(one, digest_size=16).hexdigest()}" for one in joined])
    return np.asarray(ids[alike.inverse])


def _spelt(value: Any, name: str) -> bytes:
    """A value as bytes that no other value has, its length first."""
    if is_missing(value):
        text = "missing"
    else:
        plain: Any = scalar(value)
        if isinstance(plain, Decimal) and plain != plain.to_integral_value():
            plain = float(plain)
        match plain:
            case str():
                text = f"text {plain}"
            case bytes():
                text = f"bytes {plain.hex()}"
            case float() if not plain.is_integer():
                text = f"float {plain.hex()}"
            case bool() | int() | float() | Decimal():
                text = f"whole {int(plain)}"
            case datetime():
                moment = plain if plain.tzinfo is None else plain.astimezone(UTC)
                text = f"time {moment.replace(tzinfo=None).isoformat()}"
            case date():
                text = f"time {plain.isoformat()}T00:00:00"
            case timedelta():
                text = f"span {plain // timedelta(microseconds=1)}"
            case time():
                text = f"hour {plain.isoformat()}"
            case _:
                must = "must hold numbers, text or dates to stand in for an id"
                fix = "Pass ids, or turn such entries into text first."
                raise DataError(f"X column {name!r}", must, f"got a {type(plain).__name__}", fix)
    spelt = text.encode("utf-8", errors="surrogatepass")
    return len(spelt).to_bytes(8, "little") + spelt
