"""Tables of any container as plain columns, and back in the same container with the same types.

A column is stored as plain values of its Arrow type, with a second column that marks the missing
ones where there are some. Categories, and columns of Python objects, are stored as codes and a
table of their values. What does not come back as it went is refused when it is stored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Literal

import numpy as np

from fairmend.artifact.buffers import arrow
from fairmend.artifact.container import MOST_BYTES
from fairmend.data.columns import Frame, object_array
from fairmend.data.containers import Kind
from fairmend.data.stored import stored
from fairmend.errors import DAMAGED, ArtifactError, in_a_line

_OBJECTS = "objects"
_TEMPORAL = re.compile(r"(date32\[day\]|date64\[ms\]|(time32|time64|timestamp|duration)\[.*\])")
_STAMP = re.compile(r"timestamp\[(s|ms|us|ns)(?:, tz=([A-Za-z0-9_+\-/:]{1,64}))?\]", re.ASCII)
_DECIMAL = re.compile(r"decimal128\((\d{1,2}), (-?\d{1,2})\)", re.ASCII)
_NUMPY = re.compile(r"[<>|=]?[biufUSMmO]\d{0,5}(\[(s|ms|us|ns)\])?", re.ASCII)


@stored("StoredValues")
@dataclass(frozen=True)
class StoredValues:
    """The values that codes stand for: a column in a table of its own."""

    table: int
    rows: int
    column: StoredColumn


@stored("StoredColumn")
@dataclass(frozen=True)
class StoredColumn:
    """How to read one column back."""

    type: str
    """Its Arrow type, or ``objects`` for entries of any plain Python type."""
    dtype: str = ""
    """What its container calls the type, where Arrow's name does not settle it."""
    missing: bool = False
    """Whether a second column marks entries that are missing."""
    values: StoredValues | None = None
    ordered: bool = False


@stored("StoredFrame")
@dataclass(frozen=True)
class StoredFrame:
    """How to read a table back."""

    kind: Kind
    names: tuple[Hashable, ...]
    columns: tuple[StoredColumn, ...]
    rows: int
    table: int
    layout: Literal["C", "F"] = "C"
    """Of a NumPy array: models may differ in the last bits between the two."""


@dataclass(frozen=True)
class Tables:
    """Where tables are put and found again, and how entries of any type are spelt and read."""

    put: Callable[[dict[str, Any]], int]
    get: Callable[[int, dict[str, Any], int], Any]
    spell: Callable[[Any], str]
    read: Callable[[str], Any]


# -------------------------------------------------------------------- whole tables


def store_frame(frame: Frame, tables: Tables) -> StoredFrame:
    """Put a table away, column by column, and see that it comes back the same."""
    kind, layout = container_kind(frame.native), "C"
    if kind == "numpy" and frame.native.flags.f_contiguous and not frame.native.flags.c_contiguous:
        layout = "F"
    plain: dict[str, Any] = {}
    columns = []
    for place, name in enumerate(frame.names):
        try:
            native = _native_column(frame, kind, place)
            column, parts = _lower(native, kind, tables)
        except ArtifactError as error:
            what = f"X column {name!r}"
            raise ArtifactError(what, error.must, error.got, error.fix) from None
        except Exception as error:
            raise _cannot(name, native, in_a_line(error)) from None
        plain |= {f"c{place}{suffix}": array for suffix, array in parts.items()}
        columns.append(column)
    stored = StoredFrame(
        kind, frame.names, tuple(columns), len(frame), tables.put(plain), layout,  # type: ignore[arg-type]
    )  # fmt: skip
    again = load_frame(stored, tables)
    for place, name in enumerate(frame.names):
        native, back = (_native_column(one, kind, place) for one in (frame, again))
        if (
            _type_name(back) != _type_name(native)
            or _lower(back, kind, tables)[0] != columns[place]
        ):
            raise _cannot(name, native, "it would come back as another type")
    return stored


def load_frame(stored: StoredFrame, tables: Tables) -> Frame:
    """The table again."""
    types: dict[str, Any] = {}
    for place, column in enumerate(stored.columns):
        types |= {f"c{place}{suffix}": kind for suffix, kind in _plain_types(column).items()}
    table = tables.get(stored.table, types, stored.rows)
    natives = [
        _raise(
            column,
            {suffix: table[f"c{place}{suffix}"] for suffix in _plain_types(column)},
            stored.kind,
            tables,
        )
        for place, column in enumerate(stored.columns)
    ]  # fmt: skip
    return Frame(_container(stored, natives), tuple(stored.names))  # type: ignore[arg-type]


def container_kind(native: Any) -> Kind:
    """The container; a subclass is another one, and may hold what we do not know of."""
    by_type: dict[tuple[str, str], Kind] = {
        ("numpy", "ndarray"): "numpy",
        ("pandas", "DataFrame"): "pandas",
        ("polars", "DataFrame"): "polars",
        ("pyarrow", "Table"): "pyarrow",
    }
    kind = by_type.get((type(native).__module__.partition(".")[0], type(native).__name__))
    if kind is None:
        raise ArtifactError(
            "X",
            "must come as a NumPy array or a pandas, Polars or PyArrow frame to be stored",
            f"got a {type(native).__name__}",
            "Convert it before fit.",
        )
    return kind


def _native_column(frame: Frame, kind: Kind, place: int) -> Any:
    if kind == "numpy":
        return frame.native[:, place]
    if kind == "pandas":
        return frame.native.iloc[:, place]
    return frame.native[frame.names[place]]


def column_types(frame: Frame) -> list[str]:
    """What the container calls the type of each column."""
    kind = container_kind(frame.native)
    return [_type_name(_native_column(frame, kind, place)) for place in range(len(frame.names))]


def _type_name(column: Any) -> str:
    return str(column.type if hasattr(column, "type") else column.dtype)


def _container(stored: StoredFrame, columns: list[Any]) -> Any:
    match stored.kind:
        case "numpy":
            matrix = np.empty((stored.rows, len(columns)), columns[0].dtype, order=stored.layout)
            for place, column in enumerate(columns):
                matrix[:, place] = column
            matrix.setflags(write=False)
            return matrix
        case "pandas":
            import pandas as pd

            frame = pd.concat([pd.Series(column) for column in columns], axis=1)
            frame.columns = list(stored.names)
            return frame
        case "polars":
            import polars as pl

            pairs = zip(stored.names, columns, strict=True)
            return pl.DataFrame([column.alias(name) for name, column in pairs])
        case "pyarrow":
            return arrow().table(columns, names=list(stored.names))


def _cannot(name: Hashable, column: Any, why: str) -> ArtifactError:
    return ArtifactError(
        f"X column {name!r}",
        "must be numbers, booleans, text, dates or categories to be stored",
        f"got {_type_name(column)} ({why})",
        "Turn it into one of these before fit.",
    )


# -------------------------------------------------------------------- one column to plain arrays


def _lower(column: Any, kind: Kind, tables: Tables) -> tuple[StoredColumn, dict[str, Any]]:
    """A column as plain Arrow arrays by suffix, and how to make it of them again."""
    pa = arrow()
    dtype = _type_name(column)
    if kind in ("numpy", "pandas") and dtype == "object":
        return _lower_objects(np.asarray(column, object), tables)
    if kind == "pandas" and dtype == "category":
        return _lower_category(column, tables)
    array = _to_arrow(column, kind)
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_dictionary(array.type):
        values = _stored_values(array.dictionary, tables)
        stored, parts = _lower_arrow(array.indices)
        name = dtype if kind != "polars" else dtype.partition("(")[0]
        return StoredColumn(
            stored.type, name, stored.missing, values, bool(array.type.ordered)
        ), parts
    stored, parts = _lower_arrow(array)
    name = column.dtype.str if kind == "numpy" else dtype
    return StoredColumn(stored.type, name, stored.missing), parts


def _lower_objects(entries: Any, tables: Tables) -> tuple[StoredColumn, dict[str, Any]]:
    """Each entry as JSON, codes into the distinct ones."""
    pa = arrow()
    place: dict[str, int] = {}
    codes = [place.setdefault(tables.spell(entry), len(place)) for entry in entries.tolist()]
    values = _stored_values(pa.array(list(place), pa.string()), tables)
    return StoredColumn("int32", _OBJECTS, values=values), {"": pa.array(codes, pa.int32())}


def _lower_category(column: Any, tables: Tables) -> tuple[StoredColumn, dict[str, Any]]:
    pa = arrow()
    codes, categories = column.cat.codes.to_numpy(), column.cat.categories.to_series()
    inner, parts = _lower(categories, "pandas", tables)
    values = StoredValues(
        tables.put({f"c0{k}": v for k, v in parts.items()}), len(categories), inner
    )
    stored = StoredColumn("int32", "category", values=values, ordered=bool(column.cat.ordered))
    return stored, {"": pa.array(codes.astype(np.int32), pa.int32())}


def _stored_values(array: Any, tables: Tables) -> StoredValues:
    column, parts = _lower_arrow(array)
    return StoredValues(tables.put({f"c0{k}": v for k, v in parts.items()}), len(array), column)


def _to_arrow(column: Any, kind: Kind) -> Any:
    pa = arrow()
    if kind == "pyarrow":
        return column
    if kind == "polars":
        return column.to_arrow()
    if kind == "numpy":
        return pa.array(column, from_pandas=False)
    if isinstance(column.dtype, np.dtype):
        return pa.array(column.to_numpy(), from_pandas=False)
    return pa.array(column.array)


def _lower_arrow(array: Any) -> tuple[StoredColumn, dict[str, Any]]:
    pa = arrow()
    import pyarrow.compute as pc

    kind = array.type
    stored = StoredColumn(str(kind), missing=array.null_count > 0)
    plain = _plain_type(stored.type)
    if pa.types.is_null(kind):
        values = pa.array(np.zeros(len(array), bool))
    elif _TEMPORAL.fullmatch(stored.type):
        values = array.view(plain)
    else:
        values = array.cast(plain)
    parts = {}
    if stored.missing:
        parts["m"] = pc.is_null(array)
        values = values.fill_null(pa.scalar("" if pa.types.is_string(plain) else 0).cast(plain)
                                  if not pa.types.is_binary(plain) else b"")  # fmt: skip
    return stored, {"": values, **parts}


# -------------------------------------------------------------------- plain arrays to a column


def _arrow_type(text: str) -> Any:
    """An Arrow type by its name; ArtifactError for what we do not write."""
    pa = arrow()
    simple = (
        pa.null(), pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(),
        pa.uint16(), pa.uint32(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(),
        pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(),
        pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us"),
        pa.time64("ns"), *map(pa.duration, ("s", "ms", "us", "ns")),
    )  # fmt: skip
    for kind in simple:
        if str(kind) == text:
            return kind
    if stamp := _STAMP.fullmatch(text):
        return pa.timestamp(*stamp.groups())
    if decimal := _DECIMAL.fullmatch(text):
        return pa.decimal128(*map(int, decimal.groups()))
    raise ArtifactError("a column", "must be of a type that can be stored", f"got {text!r}",
                        "Turn it into numbers, text or dates first.")  # fmt: skip


def _plain_type(text: str) -> Any:
    """The type whose plain values such a column is stored as."""
    pa = arrow()
    kind = _arrow_type(text)
    if pa.types.is_null(kind):
        return pa.bool_()
    if _TEMPORAL.fullmatch(text):
        return pa.int32() if text.startswith(("date32", "time32")) else pa.int64()
    if pa.types.is_decimal(kind) or text in ("large_string", "string_view"):
        return pa.string()
    return {"halffloat": pa.float32(), "large_binary": pa.binary()}.get(text, kind)


def _plain_types(column: StoredColumn) -> dict[str, Any]:
    marks = {"m": arrow().bool_()} if column.missing else {}
    return {"": _plain_type(column.type), **marks}


def _raise(column: StoredColumn, parts: dict[str, Any], kind: Kind, tables: Tables) -> Any:
    """A native column of plain Arrow arrays."""
    pa = arrow()
    array = _raise_arrow(column, parts)
    if column.values is not None:
        return _raise_codes(column, array, kind, tables)
    match kind:
        case "pyarrow":
            return array
        case "polars":
            import polars as pl

            return pl.Series(values=array)
        case "numpy":
            return _as_numpy(array, column.dtype)
    import pandas as pd

    if column.dtype.endswith("[pyarrow]"):
        return pd.arrays.ArrowExtensionArray(pa.chunked_array([array]))
    dtype: Any = pd.api.types.pandas_dtype(column.dtype)
    if isinstance(dtype, np.dtype):
        return _as_numpy(array, column.dtype)
    return dtype.__from_arrow__(array)


def _as_numpy(array: Any, text: str) -> Any:
    dtype = np.dtype(text)
    if not _NUMPY.fullmatch(dtype.str) or dtype.itemsize * len(array) > MOST_BYTES:
        raise ArtifactError("a column", "must be of a type that can be stored", f"got {text!r}",
                            "Turn it into numbers, text or dates first.")  # fmt: skip
    return array.to_numpy(zero_copy_only=False).astype(dtype, copy=False)


def _raise_arrow(column: StoredColumn, parts: dict[str, Any]) -> Any:
    pa = arrow()
    import pyarrow.compute as pc

    kind, values = _arrow_type(column.type), parts[""]
    if column.missing:
        values = pc.if_else(parts["m"], pa.scalar(None, values.type), values)
    if pa.types.is_null(kind):
        return pa.nulls(len(values))
    if not _TEMPORAL.fullmatch(column.type):
        return values.cast(kind)
    _check_dates(column.type, parts[""].to_numpy())
    array = values.view(kind)
    array.validate(full=True)  # that times are within a day
    return array


def _check_dates(text: str, values: Any) -> None:
    """Dates are those that Python knows too: Polars ends the program at others."""
    unit = re.split(r"[\[,\]]", text)[1]
    day = {"day": 1, "s": 86_400, "ms": 86_400_000}.get(unit, 86_400 * 10**6)
    low, high = (limit.toordinal() - date(1970, 1, 1).toordinal() for limit in (date.min, date.max))
    if text.startswith("duration"):
        low, high = timedelta.min.days, timedelta.max.days
    elif "tz=" in text:
        low, high = low + 1, high - 1  # it may be another day there
    days = values // (1000 * day if unit == "ns" else day)
    if len(days) and not (days.min() >= low and days.max() <= high):
        raise ArtifactError("a column of dates", "must be of the years 1 to 9999",
                            "it is of others", "Bin it, or mark them as missing.")  # fmt: skip


def _raise_codes(column: StoredColumn, codes: Any, kind: Kind, tables: Tables) -> Any:
    pa = arrow()
    values = column.values
    assert values is not None
    types = {f"c0{suffix}": plain for suffix, plain in _plain_types(values.column).items()}
    table = tables.get(values.table, types, values.rows)
    inner = {name[2:]: array for name, array in table.items()}
    at = codes.to_numpy(zero_copy_only=False)
    there = at[np.isfinite(at)] if at.dtype.kind == "f" else at
    if len(there) and not (there.min() >= -(column.dtype == "category" and kind == "pandas")
                           and there.max() < values.rows):  # fmt: skip
        raise ArtifactError("a column of codes", "must point at its values", "it points elsewhere",
                            DAMAGED)  # fmt: skip
    if column.dtype == _OBJECTS:
        return object_array([tables.read(text) for text in inner[""].to_pylist()])[at]
    if kind == "pandas":
        import pandas as pd

        categories = pd.Index(_raise(values.column, inner, kind, tables))
        return pd.Categorical.from_codes(at, categories=categories, ordered=column.ordered)
    dictionary = pa.DictionaryArray.from_arrays(
        codes, _raise_arrow(values.column, inner), ordered=column.ordered
    )
    if kind == "pyarrow":
        return dictionary
    import polars as pl

    if column.dtype == "Enum":
        words = _raise_arrow(values.column, inner).to_pylist()
        return pl.Series(values=dictionary.cast(pa.large_string())).cast(pl.Enum(words))
    return pl.Series(values=dictionary)
