"""Columns of any container as integer codes, and the distinct rows of a table.

A NumPy array, a pandas, Polars or PyArrow frame all become the same thing here: per column, codes
``0..k-1`` into its sorted distinct values (missing last), and from those one integer key a row.
Nothing else in the package looks inside a container.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairmend.errors import DataError, listed, nearest

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

# Integers spanning fewer values than this are coded by subtraction instead of by sorting.
_NARROW = 1 << 16
# A float or text column is probed on this many rows: few distinct values there suggest few overall.
_PROBE, _FEW = 1_000, 16
# Rows packed at a time, so that a wide copy of a narrow matrix never exists whole.
_BLOCK = 1 << 16


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


def is_missing(value: object) -> bool:
    """Whether a scalar stands for "not known": None, nan, pandas' NA and NaT.

    >>> [is_missing(v) for v in (None, float("nan"), 0, "")]
    [True, True, False, False]
    """
    if value is None or type(value).__name__ in {"NAType", "NaTType"}:
        return True
    return isinstance(value, float | np.floating | np.datetime64 | np.timedelta64) and bool(
        value != value  # noqa: PLR0124  only nan and NaT differ from themselves
    )


def encode(column: Any) -> Encoded:
    """Code one column, a 1-D array or a frame's series, by its sorted distinct values.

    >>> encode(np.array(["b", "a", "b"])).codes.tolist()
    [1, 0, 1]
    >>> encode(np.array([2.0, np.nan, 1.0])).values.tolist()
    [1.0, 2.0, nan]
    """
    if isinstance(column, nw.Series):
        return _encode_series(column)
    array = np.asarray(column)
    match array.dtype.kind:
        case "b":
            return _compact(array.view(np.uint8), np.array([False, True]))
        case "i" | "u":
            return _encode_integers(array)
        case "f" | "U" | "S" | "M" | "m":
            return _encode_few(array) or _encode_sorted(array)
        case _:
            return _encode_objects(array)


def _compact(codes: NDArray[np.integer[Any]], values: NDArray[Any]) -> Encoded:
    """Drop values that no code uses."""
    used = np.bincount(codes, minlength=len(values)) > 0
    if used.all():
        return Encoded(codes, values)
    return Encoded((np.cumsum(used) - 1)[codes], values[used])


def _encode_integers(array: NDArray[Any]) -> Encoded:
    if array.size == 0:
        return Encoded(np.empty(0, np.int64), array[:0])
    low, high = int(array.min()), int(array.max())
    if high - low >= _NARROW:
        return _encode_sorted(array)
    codes = array.astype(np.int64, copy=False) if low == 0 else array.astype(np.int64) - low
    return _compact(codes, np.arange(low, high + 1).astype(array.dtype))


def _encode_few(column: Any) -> Encoded | None:
    """Code a column of a handful of values by comparing, an order faster than sorting it.

    None when a probe shows many values, or when the probe missed one.
    """
    probe = column[:: max(1, len(column) // _PROBE)]
    if isinstance(column, nw.Series):
        values = np.array(sorted(probe.drop_nulls().unique().to_list()), object)
    else:
        values = np.unique(probe)
    if len(values) > _FEW:
        return None
    codes, found = np.zeros(len(column), np.int8), 0
    for code, value in enumerate(values):
        match = np.asarray(np.isnan(column) if is_missing(value) else column == value, bool)
        codes += match.view(np.int8) * np.int8(code)
        found += int(np.count_nonzero(match))
    return Encoded(codes, values) if found == len(column) else None


def _encode_sorted(array: NDArray[Any]) -> Encoded:
    values, codes = np.unique(array, return_inverse=True)
    return Encoded(codes, values)


def _encode_objects(array: NDArray[Any]) -> Encoded:
    """Code Python objects by equality; order them by type, then value."""
    place: dict[Any, int] = {}
    try:
        codes = np.fromiter(
            (place.setdefault(None if is_missing(v) else v, len(place)) for v in array),
            np.int64,
            len(array),
        )
    except TypeError as error:  # unhashable
        raise DataError(
            "a column",
            "must hold numbers, booleans, text or missing values",
            f"got an entry that cannot be compared ({error})",
            "Turn such entries into text or numbers first.",
        ) from None
    return _sort_values(codes, list(place))


def _sort_values(codes: NDArray[np.integer[Any]], values: Sequence[Any]) -> Encoded:
    """Re-code so that values are sorted by type and value, the missing one last."""

    def key(i: int) -> tuple[bool, str, Any]:
        value = values[i]
        number = isinstance(value, int | float | np.number)
        return value is None, "" if number else type(value).__name__, value

    try:
        order = sorted(range(len(values)), key=key)
    except TypeError:  # values of one type without an order
        order = sorted(range(len(values)), key=lambda i: (values[i] is None, repr(values[i])))
    rank = np.empty(len(values), np.int64)
    rank[order] = np.arange(len(values))
    sorted_values = np.empty(len(values), object)
    sorted_values[:] = [values[i] for i in order]
    return Encoded(rank[codes], sorted_values)


def _encode_series(series: nw.Series[Any]) -> Encoded:
    if series.implementation.is_pyarrow() and series.dtype == nw.Categorical:
        series = series.cast(
            nw.String
        )  # narwhals reads a null in a dictionary array as its last word
    if series.dtype == nw.String:
        return _encode_few(series) or _encode_objects(series.to_numpy())
    array = series.to_numpy()
    if array.dtype.kind == "O" and series.dtype.is_numeric():  # nullable numbers
        array = np.array([np.nan if is_missing(value) else value for value in array], np.float64)
    return encode(array)


@dataclass(frozen=True)
class Frame:
    """A table of inputs in its own container, read by name, cut by row.

    >>> Frame.read(np.array([[1, 0], [1, 1]])).names
    ('x0', 'x1')
    """

    native: Any
    names: tuple[str, ...]

    @classmethod
    def read(cls, X: Any, what: str = "X") -> Frame:
        """Take a 2-D NumPy array, a list of rows, or any frame narwhals reads."""
        if hasattr(X, "toarray") and hasattr(X, "nnz"):
            raise DataError(
                what, "must be a dense table", "got a sparse matrix", "Pass X.toarray()."
            )
        native: Any = X
        frame = nw.from_native(X, eager_only=True, pass_through=True)
        if isinstance(frame, nw.DataFrame):
            names = tuple(frame.columns)
        else:
            native = _as_matrix(X, what)
            names = tuple(f"x{j}" for j in range(native.shape[1]))
        table = cls(native, names)
        table._check(what)
        return table

    def _check(self, what: str) -> None:
        if not self.names:
            raise DataError(
                what, "must have at least one column", "got none", "Pass the model's inputs."
            )
        repeated = sorted({name for name in self.names if self.names.count(name) > 1}, key=str)
        if repeated:
            raise DataError(
                what,
                "must have distinct column names",
                f"{listed(repeated)} stands more than once",
                "Rename or drop the copies.",
            )
        if len(self) == 0:
            raise DataError(
                what, "must have at least one row", "got none", "Check the filter that made it."
            )

    @property
    def is_array(self) -> bool:
        return isinstance(self.native, np.ndarray)

    def __len__(self) -> int:
        return len(self.native)

    def column(self, name: str, what: str = "X") -> Any:
        """One column as a 1-D array or a narwhals series."""
        if name not in self.names:
            raise DataError(
                what,
                "must name a column of X",
                f"{name!r} is not one",
                nearest(name, self.names),
            )
        if self.is_array:
            return self.native[:, self.names.index(name)]
        return nw.from_native(self.native, eager_only=True).get_column(name)

    def take(self, rows: IntArray) -> Frame:
        """The given rows, in the same container with the same types."""
        if self.is_array:
            return Frame(self.native[rows], self.names)
        frame = nw.from_native(self.native, eager_only=True)
        return Frame(frame[rows].to_native(), self.names)

    def slice(self, start: int, stop: int) -> Frame:
        """Rows ``start`` to ``stop``, in the same container."""
        return self.take(np.arange(start, min(stop, len(self))))

    def drop(self, names: Sequence[str]) -> Frame:
        """All columns but the named ones."""
        if not names:
            return self
        kept = tuple(name for name in self.names if name not in names)
        if self.is_array:
            native = self.native[:, [self.names.index(name) for name in kept]]
        else:
            native = nw.from_native(self.native, eager_only=True).select(kept).to_native()
        frame = Frame(native, kept)
        frame._check("X")
        return frame

    @cached_property
    def encoded(self) -> tuple[Encoded, ...]:
        """Every column as codes."""
        if self.is_array:  # column after column is read several times: make it contiguous once
            return tuple(encode(column) for column in np.asfortranarray(self.native).T)
        return tuple(encode(self.column(name)) for name in self.names)

    def distinct(self) -> Distinct:
        """Which rows are alike."""
        if self.is_array and self.native.dtype.kind in "biu":
            narrow = _distinct_integers(self.native)
            if narrow is not None:
                return narrow
        return distinct_rows(self.encoded)


def _as_matrix(X: ArrayLike, what: str) -> NDArray[Any]:
    try:
        matrix = np.asarray(X)
    except ValueError:
        matrix = np.empty(0)
    if matrix.ndim != 2:
        shape = "a ragged list" if matrix.size == 0 else f"{matrix.ndim} dimension(s)"
        raise DataError(
            what,
            "must be a table: a 2-D array, or a pandas, Polars or PyArrow frame",
            f"got {type(X).__name__} with {shape}",
            "One column? Pass X.reshape(-1, 1).",
        )
    return matrix


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
    low = matrix.min(axis=0).astype(object)  # Python integers: ranges may not fit the dtype
    sizes = [int(size) for size in matrix.max(axis=0).astype(object) - low + 1]
    radix, bound = [0] * len(sizes), 1
    for j in reversed(range(len(sizes))):
        radix[j], bound = bound, bound * sizes[j]
    if bound > 1 << 62 or any(abs(int(value)) > 1 << 62 for value in low):
        return None
    key = np.empty(len(matrix), np.int64)
    shift, weights = low.astype(np.int64), np.array(radix)
    for start in range(0, len(matrix), _BLOCK):
        block = matrix[start : start + _BLOCK].astype(np.int64, copy=False)
        key[start : start + _BLOCK] = (block - shift if shift.any() else block) @ weights
    return number(key, bound)


def number(key: IntArray, bound: int) -> Distinct:
    """Number the distinct keys in ``0..bound-1`` in increasing order."""
    if bound > max(4 * len(key), 1 << 20):
        _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
        return Distinct(first, inverse)
    first_at = np.full(bound, -1, np.int64)
    first_at[key[::-1]] = np.arange(len(key) - 1, -1, -1)  # the last write is the first row
    present = first_at >= 0
    return Distinct(first_at[present], (np.cumsum(present) - 1)[key])


def scalar(value: Any) -> Hashable:
    """A NumPy scalar as the Python one people wrote."""
    plain: Hashable = value.item() if isinstance(value, np.generic) else value
    return plain
