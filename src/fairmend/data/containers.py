"""One table, four containers: pandas, Polars, PyArrow, NumPy."""

from __future__ import annotations

from typing import Any, Literal

import narwhals as nw
import numpy as np

from fairmend.data.columns import Frame
from fairmend.errors import DataError, listed, require

__all__ = ["Kind", "as_kind", "kind_of", "like"]

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
    """The same table in another container."""
    if kind_of(native) == kind:
        return native
    frame = nw.from_native(native, eager_only=True)
    if kind == "numpy":
        return frame.to_numpy()
    if kind == "pyarrow":
        return frame.to_arrow()
    if kind == "polars":
        return frame.to_polars()
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


def like(native: Any, known: Frame, more: tuple[str, ...] = ()) -> Any:
    """The inputs of a batch as they were in fit: the same container, the same types of columns.

    A batch without missing values may hold whole numbers where the table of fit held floats, and
    only some of a column's categories. ``more`` are further columns to keep beside the inputs.
    """
    present = nw.from_native(native, eager_only=True).columns
    missing = [name for name in known.names if name not in present]
    if missing:
        raise DataError(
            "X",
            f"must have the {len(known.names)} columns of fit",
            f"{listed(missing)} {'is' if len(missing) == 1 else 'are'} missing",
            "Pass the model's inputs under the same names.",
        )
    kind = kind_of(known.native)
    if kind == "numpy":
        frame = nw.from_native(native, eager_only=True).select(list(known.names))
        floats = known.native.dtype.kind == "f"
        return frame.to_numpy().astype(known.native.dtype if floats else None, copy=False)
    frame = nw.from_native(as_kind(native, kind), eager_only=True)
    frame = frame.select([*known.names, *(name for name in more if name not in known.names)])
    return _cast(frame, nw.from_native(known.native, eager_only=True)).to_native()


def _cast(frame: nw.DataFrame[Any], known: nw.DataFrame[Any]) -> nw.DataFrame[Any]:
    changed = []
    for name in known.columns:
        column, aim = frame.get_column(name), known.schema[name]
        if column.dtype == aim and aim != nw.Categorical:
            continue
        if aim.is_float() and column.dtype.is_numeric():
            changed.append(column.cast(aim))
        elif aim == nw.Categorical and frame.implementation.is_pandas_like():
            changed.append(_category(column, known.get_column(name)))
    return frame.with_columns(changed) if changed else frame


def _category(column: nw.Series[Any], known: nw.Series[Any]) -> nw.Series[Any]:
    """A column of text with the categories of fit; values it did not know come last."""
    native = column.to_native().astype("object")
    values = known.to_native().cat.categories
    fresh = [value for value in native.dropna().unique() if value not in values]
    categories = values.append(type(values)(fresh)) if fresh else values
    pandas = require("pandas", extra="pandas", why="a column of categories")
    told = pandas.Series(
        pandas.Categorical(native, categories=categories), index=native.index, name=column.name
    )
    return nw.from_native(told, series_only=True)
