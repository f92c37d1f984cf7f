"""One table, four containers: pandas, Polars, PyArrow, NumPy; rows as they were in fit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Literal

import narwhals as nw
import numpy as np

from fairmend.data.columns import Frame
from fairmend.errors import check_columns, require

Kind = Literal["pandas", "polars", "pyarrow", "numpy"]


def kind_of(native: Any) -> Kind:
    """Which container a table in memory is.

    >>> kind_of(np.zeros((1, 2)))
    'numpy'
    """
    if isinstance(native, np.ndarray):
        return "numpy"
    implementation = nw.from_native(native, eager_only=True).implementation
    if implementation.is_polars():
        return "polars"
    return "pyarrow" if implementation.is_pyarrow() else "pandas"


def as_kind(native: Any, kind: Kind) -> Any:
    """The same table in another container; the columns of an array are called x0, x1, ..."""
    if kind_of(native) == kind:
        return native
    if isinstance(native, np.ndarray):
        library = require(kind, extra=kind, why=f"a table of {kind}")
        columns = {f"x{j}": column for j, column in enumerate(native.T)}
        if kind != "polars":
            return library.table(columns) if kind == "pyarrow" else library.DataFrame(columns)
        if native.dtype == object:  # which Polars would keep as they are
            columns = {name: column.tolist() for name, column in columns.items()}
        return library.DataFrame(columns, strict=False)
    frame = nw.from_native(native, eager_only=True)
    if kind != "pandas":
        ways = {"numpy": frame.to_numpy, "pyarrow": frame.to_arrow, "polars": frame.to_polars}
        return ways[kind]()
    pandas = require("pandas", extra="pandas", why="a model that is shown pandas frames")
    native = frame.to_pandas()
    for name in frame.columns:
        column = frame.get_column(name)
        if _outgrows_floats(column):  # pandas would make them floats, and run some together
            native[name] = pandas.array(column.to_list(), dtype=str(column.dtype))
    return native


def _outgrows_floats(column: nw.Series[Any]) -> bool:
    """Whether whole numbers, with missing ones among them, are too large for floats."""
    if not column.dtype.is_integer() or column.null_count() in (0, len(column)):
        return False
    return bool(max(abs(column.min()), abs(column.max())) > 1 << 53)


def as_fitted(rows: Any, fitted: Frame, keep: Sequence[str] = ()) -> Any:
    """The inputs among some rows as they were in fit: the same container and types of columns.

    Rows without missing values may hold whole numbers where the table of fit held floats, and only
    some of a column's categories. ``keep`` names further columns to keep beside the inputs.
    """
    frame = nw.from_native(rows, eager_only=True)
    fix = "Pass the model's inputs under the same names."
    check_columns("X", frame.columns, fitted.names, fix, of="fit")
    names = [*fitted.names, *(name for name in keep if name not in fitted.names)]
    frame = frame.select(nw.col(*names))  # a name may be a number
    kind = kind_of(fitted.native)
    native = as_kind(frame.to_native(), kind)
    if kind == "numpy":
        return _as_fitted_array(native, fitted.native.dtype)
    if kind == "pandas":
        return _as_fitted_pandas(native, fitted.native)
    frame = nw.from_native(native, eager_only=True)
    return frame.with_columns(
        nw.col(name).cast(aim)
        for name, aim in fitted.eager.schema.items()
        if frame.schema[name] != aim
        and (
            (aim.is_float() and frame.schema[name].is_numeric())
            or frame.get_column(name).null_count() == len(frame)
        )
    ).to_native()


def _as_fitted_array(native: Any, aim: Any) -> Any:
    """An array in its type of fit, unless that has no room for its values."""
    if native.dtype == aim or aim.kind not in "biufO" or native.dtype.kind not in "biuf":
        return native
    cast = native.astype(aim)
    return cast if aim.kind in "fO" or (cast == native).all() else native


def _as_fitted_pandas(native: Any, fitted: Any) -> Any:
    """Columns in their type of fit, unless that has no room for their values."""
    changed = {}
    for name, aim in fitted.dtypes.items():
        column = native[name]
        if aim == "category":
            changed[name] = widened(column, fitted[name])
        elif column.dtype != aim and (_family(column.dtype) == _family(aim) or column.isna().all()):
            with suppress(TypeError, ValueError):
                cast = column.astype(aim)
                if _holds(cast, column):
                    changed[name] = cast
    if not changed:
        return native
    native = native.copy(deep=False)
    for name, column in changed.items():
        native[name] = column
    return native


def _family(dtype: Any) -> str:
    return "number" if dtype.kind in "biuf" else str(dtype.kind)


def _holds(cast: Any, column: Any) -> bool:
    """Whether the values of a column are the same in another type: none cut short, none spelt."""
    kind = cast.dtype.kind if isinstance(cast.dtype, np.dtype) else ""
    if kind and kind in "biu":
        return bool((cast == column).all())
    if column.dtype == object and cast.dtype != object:
        return bool(nw.from_native(column, series_only=True).dtype == nw.String)
    return True


def widened(column: Any, other: Any) -> Any:
    """A pandas column with the categories of another one; values new to it come last."""
    categories, ordered = other.cat.categories, other.cat.ordered
    column = column.astype(object)
    fresh = [value for value in column.dropna().unique() if value not in categories]
    if fresh:
        categories = categories.append(type(categories)(fresh))
    pandas = require("pandas", extra="pandas", why="a column of categories")
    return column.astype(pandas.CategoricalDtype(categories, ordered))


def from_cells(rows: Sequence[Iterable[Any]], table: Frame) -> Frame:
    """Rows of plain Python values in the container and the types of a table."""
    if table.is_array:
        cells = [list(row) for row in rows]
        dtype = _holding(table.native.dtype, [cell for row in cells for cell in row])
        return Frame(np.array(cells, dtype), table.names)
    columns = {
        name: _series(table.column(name), list(cells))
        for name, cells in zip(table.names, zip(*rows, strict=True), strict=True)
    }
    first = next(iter(columns.values()))
    made = first.to_frame() if len(columns) == 1 else nw.from_dict(columns)
    return Frame(made.to_native(), table.names)


def _series(like: Any, values: list[Any]) -> Any:
    """Values as a column of the same library and type as another one."""
    if not like.implementation.is_pandas_like():
        return nw.new_series(like.name, values, like.dtype, backend=like.implementation)
    native = like.to_native()
    make = type(native)
    if native.dtype == "category":
        column = widened(make(values, dtype=object, name=like.name), native)
    else:
        column = make(values, dtype=_holding(native.dtype, values), name=like.name)
    return nw.from_native(column, series_only=True)


def _holding(dtype: Any, values: Sequence[Any]) -> Any:
    """A type; or objects, where NumPy cannot mark a value of it as missing."""
    cannot = isinstance(dtype, np.dtype) and dtype.kind in "biu"
    return object if cannot and None in values else dtype
