"""Columns of any container as integer codes, and the distinct rows of a table.

A NumPy array, a pandas, Polars or PyArrow frame all become the same thing here: per column, codes
``0..k-1`` into its sorted distinct values (missing last), and from those one integer key a row.
Nothing else in the package looks inside a container.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cached_property
from numbers import Real
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from fairmend.data.given import as_column, as_frame, as_matrix, check_rows
from fairmend.data.threads import one_thread
from fairmend.errors import DataError, check, check_choice

if TYPE_CHECKING:
    Name = str
else:
    Name = Hashable
"""What a column is called; pandas has columns named by numbers."""

# Written out: annotations are read at run time, and NDArray is no plain alias from NumPy 2.5 on.
IntArray = np.ndarray[tuple[Any, ...], np.dtype[np.int64]]
FloatArray = np.ndarray[tuple[Any, ...], np.dtype[np.float64]]
BoolArray = np.ndarray[tuple[Any, ...], np.dtype[np.bool_]]

# Integers spanning fewer values than this are coded by subtraction instead of by sorting.
_NARROW = 1 << 16
# A float or text column is probed on this many rows: few distinct values there suggest few overall.
_PROBE, _FEW = 1_000, 16
# A product of a matrix with more entries may be split among threads.
_MANY = 5_000
# Rows packed at a time, so that a wide copy of a narrow matrix never exists whole.
_BLOCK = 1 << 16
# Up to which whole numbers add up exactly in a float.
_WHOLE = ((np.float32, 1 << 24), (np.float64, 1 << 53))
# A row of fewer entries than this is too short for the processor to compare entry by entry.
_SHORT = 2_048


@dataclass(frozen=True)
class Encoded:
    """One column: ``values[codes]`` is the column again.

    ``values`` is sorted; a missing entry is one more value, the last, held as ``None`` or ``nan``.
    """

    codes: NDArray[np.integer[Any]]
    values: NDArray[Any]

    @cached_property
    def has_missing(self) -> bool:
        return len(self.values) > 0 and is_missing(self.values[-1])

    @property
    def present(self) -> NDArray[Any]:
        """The values that are not missing."""
        return self.values[:-1] if self.has_missing else self.values

    @cached_property
    def one_spelling(self) -> bool:
        """Whether equal entries look alike: 1 and True are equal, and stand for each other."""
        return self.values.dtype.kind != "O" or all(isinstance(v, str) for v in self.present)

    @property
    def missing(self) -> BoolArray:
        return np.asarray(self.codes == len(self.values) - 1) & self.has_missing


def is_missing(value: object) -> bool:
    """Whether a scalar stands for "not known": None, nan, pandas' NA and NaT.

    >>> [is_missing(v) for v in (None, float("nan"), 0, "")]
    [True, True, False, False]
    """
    if isinstance(value, float | Decimal | np.floating | np.datetime64 | np.timedelta64):
        return bool(value != value)  # noqa: PLR0124  only nan and NaT differ from themselves
    return value is None or type(value).__name__ in {"NAType", "NaTType"}


def is_number(value: object) -> bool:
    """Whether a scalar is a real number; missing counts, text and dates do not.

    >>> [is_number(v) for v in (1, True, None, "1", 1j)]
    [True, True, True, False, False]
    """
    if isinstance(value, np.timedelta64):  # to NumPy an integer
        return False
    return isinstance(value, float | int | Real | Decimal) or is_missing(value)


def as_numbers(array: NDArray[Any]) -> FloatArray | None:
    """Real numbers as floats, missing ones as nan; None where an entry is anything else.

    >>> as_numbers(np.array([1, True, None], object)), as_numbers(np.array(["1"]))
    (array([ 1.,  1., nan]), None)
    """
    if array.dtype.kind in "biuf":
        return array.astype(np.float64, copy=False)
    if array.dtype.kind == "O" and all(map(is_number, array)):
        return np.array([np.nan if is_missing(v) else _as_float(v) for v in array], np.float64)
    return None


def _as_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:  # Python's integers know no bound
        return np.inf if value > 0 else -np.inf


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def as_measure(array: NDArray[Any]) -> FloatArray | None:
    """Numbers, or dates and times as days, missing ones as nan; None where an entry is neither.

    >>> as_measure(np.array(["1970-01-02", "NaT"], "M8[D]"))
    array([ 1., nan])
    """
    numbers = as_numbers(array)
    if numbers is not None or array.dtype.kind not in "MO":
        return numbers
    days = []
    for value in map(scalar, array):
        if not is_missing(value) and not isinstance(value, date):
            return None
        days.append(np.nan if is_missing(value) else _days(value))
    return np.array(days, np.float64)


def _days(value: Any) -> float:
    moment = value if isinstance(value, datetime) else datetime(*value.timetuple()[:3])
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH) / timedelta(days=1)


def scalar(value: Any) -> Hashable:
    """A NumPy scalar as the Python one people wrote.

    >>> scalar(np.int8(3)), scalar(np.datetime64("2024-02-29T00", "ns"))
    (3, datetime.datetime(2024, 2, 29, 0, 0))
    """
    if isinstance(value, np.datetime64 | np.timedelta64) and isinstance(value.item(), int):
        value = value.astype(f"{value.dtype.kind}8[us]")  # Python knows no nanoseconds
    plain: Hashable = value.item() if isinstance(value, np.generic) else value
    return plain


def lookup_key(value: Any) -> Hashable:
    """A value as it is looked up in a dict: every kind of missing is one."""
    return None if is_missing(value) else scalar(value)


# -------------------------------------------------------------------- one column, as codes


def encode(column: Any, what: str = "a column") -> Encoded:
    """Code one column, a 1-D array or a narwhals series, by its sorted distinct values.

    >>> encode(np.array(["b", "a", "b"])).codes.tolist()
    [1, 0, 1]
    >>> encode(np.array([2.0, np.nan, 1.0])).values.tolist()
    [1.0, 2.0, nan]
    """
    if isinstance(column, nw.Series):
        return _encode_series(column, what)
    array = np.asarray(column)
    match array.dtype.kind:
        case "b":
            return _compact(array.view(np.uint8), np.array([False, True]))
        case "i" | "u":
            return _encode_integers(array)
        case "f" | "U" | "S" | "M" | "m":
            return _encode_few(array) or _encode_sorted(array)
        case "c":
            must = "must hold real numbers, text or dates"
            fix = "Complex data not supported: pass real and imaginary parts as two columns."
            raise DataError(what, must, f"got {array.dtype} numbers", fix)
        case _:
            return _encode_objects(array, what)


def _compact(codes: NDArray[np.integer[Any]], values: NDArray[Any]) -> Encoded:
    """Drop values that no code uses."""
    used = np.bincount(codes, minlength=len(values)) > 0
    if used.all():
        return Encoded(codes, values)
    return Encoded((np.cumsum(used) - 1)[codes], values[used])


def _encode_integers(array: NDArray[Any]) -> Encoded:
    if array.size == 0:
        return Encoded(np.empty(0, np.int64), array)
    low, high = int(array.min()), int(array.max())
    if high - low >= _NARROW:
        return _encode_sorted(array)
    least = array.dtype.type(low)
    if array.dtype == np.uint64:  # subtract first: the entries may not fit 64 signed bits
        codes = (array - least).astype(np.int64)
    else:
        codes = array.astype(np.int64, copy=False)
        codes = codes if low == 0 else codes - low
    values = np.arange(high - low + 1).astype(array.dtype) + least
    return _compact(codes, values) if high - low > 1 else Encoded(codes, values)  # both ends occur


def _encode_few(column: Any) -> Encoded | None:
    """Code a column of a handful of values by comparing, an order faster than sorting it.

    None when a probe shows many values, or when the probe missed one.
    """
    probe = column[np.arange(0, len(column), max(1, len(column) // _PROBE))]  # Arrow has no steps
    if isinstance(column, nw.Series):
        values = np.array(sorted(probe.unique().to_list()), object)
    else:
        values = np.unique(probe)
    if len(values) > _FEW:
        return None
    codes, matches = np.zeros(len(column), np.int8), 0
    for code, value in enumerate(values):
        match = np.asarray(np.isnan(column) if is_missing(value) else column == value, bool)
        codes += match.view(np.int8) * np.int8(code)
        matches += int(np.count_nonzero(match))
    return Encoded(codes, values) if matches == len(column) else None


def _encode_sorted(array: NDArray[Any]) -> Encoded:
    values, codes = np.unique(array, return_inverse=True)
    return Encoded(codes, values)


def _encode_objects(array: NDArray[Any], what: str) -> Encoded:
    """Code Python objects by equality; order them by type, then value; all missing are one."""
    entries = array.tolist()
    try:
        values = dict.fromkeys(entries)
    except TypeError:
        row = next(i for i, entry in enumerate(entries) if not _is_hashable(entry))
        got = f"got a {type(entries[row]).__name__} in row {row:,}"
        raise _not_plain(what, got) from None
    missing = [value for value in values if is_missing(value)]
    for value in missing:
        del values[value]
    ordered = _in_order(list(values))
    code = {value: i for i, value in enumerate(ordered)} | dict.fromkeys(missing, len(ordered))
    codes = np.fromiter(map(code.__getitem__, entries), np.int64, len(entries))
    return Encoded(codes, object_array([*ordered, None] if missing else ordered))


def _is_hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _not_plain(what: str, got: str) -> DataError:
    must = "must hold numbers, booleans, text, dates or missing values"
    return DataError(what, must, got, "Turn such entries into text or numbers first.")


def _in_order(values: list[Any]) -> list[Any]:
    """Sorted by type and value, numbers of all types first."""

    def key(value: Any) -> tuple[str, Any]:
        return "" if isinstance(value, Real | Decimal) else type(value).__name__, value

    try:
        return sorted(values, key=key)
    except TypeError:  # values of one type without an order
        return sorted(values, key=repr)


def object_array(values: Sequence[Any]) -> NDArray[Any]:
    """Values as they are in an array: NumPy would make 1 of True, and text of 1."""
    array = np.empty(len(values), object)
    array[:] = values
    return array


def _encode_series(series: nw.Series[Any], what: str) -> Encoded:
    dtype = series.dtype
    if dtype.is_nested():
        raise _not_plain(what, f"got entries of type {dtype}")
    if dtype == nw.Object:
        return _encode_objects(series.to_numpy(), what)
    if dtype.is_float():  # null becomes nan
        return encode(series.to_numpy(), what)
    if series.null_count() == 0:
        return _encode_present(series, what)
    # The others are coded without their nulls: as floats, large integers would run together.
    null = series.is_null()
    present = _encode_present(series.filter(~null), what)
    codes = np.full(len(series), len(present.values), np.int64)
    codes[~null.to_numpy().astype(bool)] = present.codes
    return Encoded(codes, object_array([*present.values, None]))


def _encode_present(series: nw.Series[Any], what: str) -> Encoded:
    if series.dtype in (nw.Categorical, nw.Enum):
        if series.implementation.is_pandas_like():
            categorical = series.to_native().cat
            categories = encode(np.asarray(categorical.categories), what)
            return _compact(categories.codes[categorical.codes.to_numpy()], categories.values)
        series = series.cast(nw.String)
    if series.dtype == nw.String:
        if series.implementation.is_pandas():
            return _encode_words(series)
        return _encode_few(series) or _encode_objects(series.to_numpy(), what)
    return encode(series_array(series), what)


def _encode_words(series: nw.Series[Any]) -> Encoded:
    """Code text that pandas holds, by its own hash table."""
    from pandas import factorize

    codes, distinct = factorize(series.to_native())
    values = np.asarray(distinct, object)
    order = np.argsort(values, kind="stable")
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return Encoded(rank[codes], values[order])


def series_array(series: nw.Series[Any]) -> NDArray[Any]:
    """A series as an array; integers of 128 bits, which NumPy does not have, as Python's."""
    if series.dtype in (nw.Int128, nw.UInt128):
        return object_array(series.to_list())
    array: NDArray[Any] = series.to_numpy()
    return array


def check_known(column: Encoded, what: str, fix: str) -> None:
    """Refuse a column with missing entries."""
    if column.has_missing:
        raise DataError(what, *missing_parts(column), fix)


def missing_parts(column: Encoded) -> tuple[str, str]:
    """What a column with missing entries must be, and what it is, for an error."""
    n, first = int(column.missing.sum()), int(np.argmax(column.missing))
    return "must be known for every person", f"got {n:,} missing, first in row {first:,}"


# -------------------------------------------------------------------- a table


@dataclass(frozen=True)
class Frame:
    """A table of inputs in its own container, read by name, cut by row.

    >>> Frame.read(np.array([[1, 0], [1, 1]])).names
    ('x0', 'x1')
    """

    native: Any
    names: tuple[Name, ...]

    @classmethod
    def read(cls, X: Any, what: str = "X") -> Frame:
        """Take a 2-D NumPy array, a list of rows, or any frame narwhals reads."""
        frame = as_frame(X, what)
        if frame is None:
            matrix = as_matrix(X, what)
            table = cls(matrix, tuple(f"x{j}" for j in range(matrix.shape[1])))
        else:
            table = cls(frame.to_native(), tuple(frame.columns))
        got = f"got 0 feature(s) (shape=({len(table)}, 0)) while a minimum of 1 is required"
        fix = "Pass the model's inputs."
        check(table.names, what, "must have at least one column", got, fix)
        check_rows(len(table), what)
        return table

    @property
    def is_array(self) -> bool:
        return isinstance(self.native, np.ndarray)

    @property
    def is_pandas(self) -> bool:
        """By the type alone: narwhals looks at every column's name, which takes time."""
        return type(self.native).__module__.partition(".")[0] == "pandas"

    @property
    def eager(self) -> nw.DataFrame[Any]:
        """The same through narwhals; an array has no such view."""
        return nw.from_native(self.native, eager_only=True)

    def __len__(self) -> int:
        return len(self.native)

    def column(self, name: str, what: str = "X") -> Any:
        """One column as a 1-D array or a narwhals series."""
        check_choice(what, name, self.names, must="must name a column of X")
        if self.is_array:
            return self.native[:, self.names.index(name)]
        return self.eager.get_column(name)

    def take(self, rows: IntArray) -> Frame:
        """The given rows, in the same container with the same types."""
        if self.is_array:
            taken = Frame(self.native[rows], self.names)
        elif self.is_pandas:
            taken = Frame(self.native.iloc[rows], self.names)
        else:
            taken = Frame(self.eager[rows].to_native(), self.names)
        if "encoded" in self.__dict__:
            taken.__dict__["_taken_from"] = self.encoded, rows
        elif "_taken_from" in self.__dict__:
            columns, mine = self.__dict__["_taken_from"]
            taken.__dict__["_taken_from"] = columns, mine[rows]
        return taken

    def __getstate__(self) -> dict[str, Any]:
        """Cached values are left out."""
        return {"native": self.native, "names": self.names}

    def slice(self, start: int, stop: int) -> Frame:
        if self.is_pandas and not self.__dict__.keys() & {"encoded", "_taken_from"}:
            return Frame(self.native.iloc[start:stop].copy(), self.names)  # three times as fast
        return self.take(np.arange(start, min(stop, len(self))))

    def drop(self, names: Sequence[str]) -> Frame:
        return self.select([name for name in self.names if name not in names])

    def select(self, names: Sequence[str]) -> Frame:
        kept = tuple(names)
        if kept == self.names:
            return self
        if self.is_array:
            native = self.native[:, [self.names.index(name) for name in kept]]
        else:
            native = self.eager.select(nw.col(*kept)).to_native()  # a name may be a number
        selected, places = Frame(native, kept), [self.names.index(name) for name in kept]
        if "encoded" in self.__dict__:
            selected.__dict__["encoded"] = tuple(self.encoded[place] for place in places)
        elif "_taken_from" in self.__dict__:
            columns, rows = self.__dict__["_taken_from"]
            selected.__dict__["_taken_from"] = tuple(columns[place] for place in places), rows
        return selected

    @cached_property
    def encoded(self) -> tuple[Encoded, ...]:
        source = self.__dict__.pop("_taken_from", None)
        if source is not None:  # rows taken from a table that was coded before
            whole, rows = source
            return tuple(
                _compact(column.codes[rows], column.values)
                if column.one_spelling
                else encode(self.column(name), f"X column {name!r}")
                for name, column in zip(self.names, whole, strict=True)
            )
        if self.is_array:  # column after column is read several times: make it contiguous once
            columns: Iterator[Any] = iter(np.asfortranarray(self.native).T)
        else:
            columns = map(self.eager.get_column, self.names)
        named = zip(self.names, columns, strict=True)
        return tuple(encode(column, f"X column {name!r}") for name, column in named)

    @property
    def is_whole(self) -> bool:
        """Whether it is an array of whole numbers that 64-bit floats can tell apart."""
        return self.is_array and self.native.dtype.kind in "biu" and self.native.dtype.itemsize < 8

    def distinct(self) -> Distinct:
        if self.is_array and self.native.dtype.kind in "biu":
            narrow = _distinct_integers(self.native)
            if narrow is not None:
                return narrow
        return distinct_rows(self.encoded)


def read_column(values: Any, frame: Frame | None, what: str) -> Any:
    """A 1-D array or narwhals series, from values or from the name of a column of X."""
    if not isinstance(values, str):
        return as_column(values, what)
    if frame is None:
        got = f"got the name {values!r} without an X to look in"
        fix = "Pass X, or the values themselves."
        raise DataError(what, "must hold one value per person", got, fix)
    return frame.column(values, what)


@dataclass(frozen=True)
class Distinct:
    """Which rows are alike: ``first[inverse]`` stands for every row."""

    first: IntArray
    inverse: IntArray


def distinct_rows(columns: Sequence[Encoded]) -> Distinct:
    """Group equal rows, ordered by their columns' values.

    The columns' codes are packed into one integer a row, so that a million rows of binary columns
    are counted rather than sorted.

    >>> rows = np.array([[1, 0], [0, 1], [1, 0]])
    >>> distinct_rows([encode(rows[:, 0]), encode(rows[:, 1])]).inverse.tolist()
    [1, 0, 1]
    """
    key, bound = np.zeros(len(columns[0].codes), np.int64), 1
    for column in columns:
        size = max(1, len(column.values))
        if bound > (1 << 62) // size:  # would overflow: number the keys seen so far
            packed = number(key, bound)
            key, bound = packed.inverse, len(packed.first)
        key = key * size + column.codes if bound > 1 else column.codes.astype(np.int64)
        bound *= size
    return number(key, bound)


def _distinct_integers(matrix: NDArray[Any]) -> Distinct | None:
    """Group equal rows of an integer matrix by one product, key = (x - low) . radix.

    None when the columns' ranges do not fit into 62 bits together.
    """
    low, high = (ends.astype(object) for ends in _extremes(matrix))
    # Python integers: ranges may not fit the dtype
    sizes = [int(size) for size in high - low + 1]
    radix, bound = [0] * len(sizes), 1
    for j in reversed(range(len(sizes))):
        radix[j], bound = bound, bound * sizes[j]
    if bound > 1 << 62 or any(abs(int(value)) > 1 << 62 for value in low):
        return None
    key = np.empty(len(matrix), np.int64)
    # BLAS multiplies floats alone, and small whole numbers exactly
    kind: Any = next((kind for kind, most in _WHOLE if bound <= most), np.int64)
    shift, weights = low.astype(np.int64), np.array(radix).astype(kind)
    with one_thread() if matrix.size > _MANY else nullcontext():
        for start in range(0, len(matrix), _BLOCK):
            block = matrix[start : start + _BLOCK]
            if shift.any():
                block = block.astype(np.int64, copy=False) - shift
            key[start : start + _BLOCK] = block.astype(kind, copy=False) @ weights
    return number(key, bound)


def _extremes(matrix: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The least and the largest value of each column; of short rows many are compared at once.

    >>> [ends.tolist() for ends in _extremes(np.array([[1, 2], [0, 5], [3, 4]]))]
    [[0, 2], [3, 5]]
    """
    rows, columns = matrix.shape
    many = max(1, _SHORT // columns) if matrix.flags.c_contiguous else 1
    whole = rows // many * many
    ends = []
    for extreme in (np.min, np.max):
        parts = [matrix[whole:]]
        if whole > 0:
            wide = matrix[:whole].reshape(-1, many * columns)
            parts.append(extreme(wide, axis=0).reshape(many, columns))
        ends.append(extreme(np.concatenate(parts), axis=0))
    return ends[0], ends[1]


def number(key: IntArray, bound: int) -> Distinct:
    """Number the distinct keys in ``0..bound-1`` in increasing order."""
    if bound > max(4 * len(key), 1 << 20):
        _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
        return Distinct(first, inverse)
    first_at = np.full(bound, -1, np.int64)
    first_at[key[::-1]] = np.arange(len(key) - 1, -1, -1)  # the last write is the first row
    present = first_at >= 0
    return Distinct(first_at[present], (np.cumsum(present) - 1)[key])
