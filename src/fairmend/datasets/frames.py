"""Columns to a frame of the kind the caller works with. The only place that knows the kinds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from fairmend.errors import DataError, require

__all__ = [
    "Backend",
    "Column",
    "check_backend",
    "frame_of_bits",
    "frame_of_columns",
    "series",
    "typed",
]

Backend = Literal["pandas", "polars", "pyarrow", "numpy"]
Column = list[int] | list[float | None] | list[str | None]

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)")


def check_backend(backend: Backend, caller: str) -> None:
    """Refuse an unknown backend, or one whose package is missing, before any work is done.

    >>> check_backend("numpy", "load_adult")
    """
    known = get_args(Backend)
    if backend not in known:
        raise DataError(
            f"{caller}(backend=...)",
            "must be one of " + ", ".join(map(repr, known)),
            f"got {backend!r}",
            "Use 'numpy' when no frame package is installed.",
        )
    if backend != "numpy":
        require(backend, extra=backend, why=f"{caller}(backend={backend!r})")


def frame_of_bits(bits: NDArray[np.uint8], names: Sequence[str], backend: Backend) -> Any:
    """Turn an (n, d) table of 0 and 1 into a frame of int8 columns.

    >>> frame_of_bits(np.eye(2, dtype=np.uint8), ["a", "b"], "numpy").dtype
    dtype('int8')
    """
    table = bits.astype(np.int8)
    if backend == "numpy":
        return table
    import narwhals as nw

    # Column by column: every backend then owns contiguous memory of its own.
    columns = {name: np.ascontiguousarray(table[:, j]) for j, name in enumerate(names)}
    return nw.from_dict(columns, backend=backend).to_native()


def frame_of_columns(columns: Mapping[str, Column], backend: Backend) -> Any:
    """Turn typed columns (see `typed`) into a frame; ``None`` becomes the backend's missing value.

    >>> frame_of_columns({"age": [39, 50], "job": ["Sales", None]}, "numpy")
    array([[39, 'Sales'],
           [50, None]], dtype=object)
    """
    if backend == "numpy":
        return np.array(list(zip(*columns.values(), strict=True)), dtype=object)
    import narwhals as nw

    # Without a schema a column that is missing throughout would have no type at all.
    dtypes = {frozenset({int}): nw.Int64, frozenset({float}): nw.Float64}
    schema = {
        name: dtypes.get(frozenset(map(type, values)) - {type(None)}, nw.String)
        for name, values in columns.items()
    }
    return nw.from_dict(columns, schema=schema, backend=backend).to_native()


def series(name: str, values: Sequence[str | None] | NDArray[np.str_], backend: Backend) -> Any:
    """Turn group labels into a series of strings called ``name``.

    >>> series("Sex", ["Female", "Male"], "numpy").tolist()
    ['Female', 'Male']
    """
    if backend == "numpy":
        return np.asarray(values)
    import narwhals as nw

    return nw.new_series(name, list(values), nw.String, backend=backend).to_native()


def typed(values: Sequence[str | None]) -> Column:
    """Read a column of text as whole numbers, numbers or strings, the first that fits them all.

    Whole numbers with gaps among them become floats, because pandas' plain integers have no
    missing value. A column without any value stays a column of strings.

    >>> typed(["1", "2.0"]), typed(["1", None]), typed(["1", "x", None])
    ([1, 2], [1.0, None], ['1', 'x', None])
    """
    present = [value for value in values if value is not None]
    if not present or not all(_NUMBER.fullmatch(value) for value in present):
        return list(values)
    numbers = [None if value is None else float(value) for value in values]
    whole = [int(number) for number in numbers if number is not None and number.is_integer()]
    return whole if len(whole) == len(values) else numbers
