"""Columns as a frame of the kind the caller works with."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, get_args

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from fairmend.data.containers import Kind
from fairmend.errors import check_choice, require

Column = list[int] | list[float | None] | list[str | None]

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)")


def check_backend(backend: Kind, caller: str) -> None:
    """Refuse an unknown backend, or one whose package is missing, before any work is done."""
    fix = "Use 'numpy' when no frame package is installed."
    check_choice(f"{caller}(backend=...)", backend, get_args(Kind), fix)
    if backend != "numpy":
        require(backend, extra=backend, why=f"{caller}(backend={backend!r})")


def frame_of_bits(bits: NDArray[np.uint8], names: Sequence[str], backend: Kind) -> Any:
    """An (n, d) table of 0 and 1 as a frame of int8 columns."""
    table = bits.astype(np.int8)
    if backend == "numpy":
        return table
    # Column by column: every backend then owns contiguous memory of its own.
    columns = {name: np.ascontiguousarray(table[:, j]) for j, name in enumerate(names)}
    return nw.from_dict(columns, backend=backend).to_native()


def frame_of_columns(columns: Mapping[str, Column], backend: Kind) -> Any:
    """Columns of `typed` values as a frame; ``None`` becomes the backend's missing value."""
    if backend == "numpy":
        return np.array(list(zip(*columns.values(), strict=True)), dtype=object)
    # Without a schema a column that is missing throughout would have no type at all.
    dtypes = {frozenset({int}): nw.Int64, frozenset({float}): nw.Float64}
    schema = {
        name: dtypes.get(frozenset(map(type, values)) - {type(None)}, nw.String)
        for name, values in columns.items()
    }
    return nw.from_dict(columns, schema=schema, backend=backend).to_native()


def series(name: str, values: Sequence[str | None] | NDArray[np.str_], backend: Kind) -> Any:
    """Group labels as a series of strings called ``name``."""
    if backend == "numpy":
        return np.asarray(values)
    return nw.new_series(name, list(values), nw.String, backend=backend).to_native()


def typed(values: Sequence[str | None]) -> Column:
    """A column of text as whole numbers, numbers or strings, the first that fits them all.

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
