"""Rows put together from others, and rows found again."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import narwhals as nw
import numpy as np

from fairmend.data.columns import BoolArray, Encoded, Frame, IntArray, distinct_rows, lookup_key
from fairmend.data.containers import widened

_FEW = 1 << 16
"""Up to so many combinations of values are looked up in a table of all of them."""


def mixed(mine: Frame, theirs: Frame, take_theirs: BoolArray) -> Frame:
    """Row by row and feature by feature, their value where ``take_theirs``, else mine; types stay.

    >>> a, b = Frame.read(np.array([[1, 2]])), Frame.read(np.array([[8, 9]]))
    >>> mixed(a, b, np.array([[True, False]])).native.tolist()
    [[8, 2]]
    """
    if mine.is_array:
        return Frame(np.where(take_theirs, theirs.native, mine.native), mine.names)
    if mine.is_pandas:
        return Frame(_mixed_pandas(mine.native, theirs.native, take_theirs), mine.names)
    columns = [
        _chosen(mine.column(name), theirs.column(name), take)
        for name, take in zip(mine.names, take_theirs.T, strict=True)
        if take.any()
    ]
    return Frame(mine.eager.with_columns(columns).to_native(), mine.names)


def _mixed_pandas(mine: Any, theirs: Any, take: BoolArray) -> Any:
    """The same for pandas, all columns of a type at once.

    Thousands of columns are as quick this way as a matrix, and a dozen an order quicker than one
    after the other.
    """
    alike: dict[Any, list[int]] = {}
    columns: dict[int, Any] = {}
    for j, (dtype, other) in enumerate(zip(mine.dtypes, theirs.dtypes, strict=True)):
        if isinstance(dtype, np.dtype) and dtype == other:
            alike.setdefault(dtype, []).append(j)
            continue
        columns[j] = mine.iloc[:, j].array
        if take[:, j].any():
            own, new = _of_one_pandas_type(mine.iloc[:, j], theirs.iloc[:, j])
            columns[j] = own.array.copy()
            columns[j][take[:, j]] = new.array[take[:, j]]
    for at in alike.values():
        if len(at) == mine.shape[1]:
            values = np.where(take, theirs.to_numpy(), mine.to_numpy())
            return type(mine)(values, index=mine.index, columns=mine.columns)
        values = np.where(take[:, at], theirs.iloc[:, at].to_numpy(), mine.iloc[:, at].to_numpy())
        columns |= dict(zip(at, values.T, strict=True))
    made = type(mine)({j: columns[j] for j in range(mine.shape[1])}, index=mine.index, copy=False)
    made.columns = mine.columns
    return made


def _of_one_pandas_type(own: Any, other: Any) -> tuple[Any, Any]:
    """Two pandas columns that mean the same, in a type that holds both."""
    if own.dtype == "category":  # known categories keep their codes
        other = widened(other, own)
        return own.astype(other.dtype), other
    if own.dtype in (other.dtype, object):
        return own, other
    if own.dtype.kind in "biuf" and other.dtype.kind in "biuf":
        shared = "int64" if {own.dtype.kind, other.dtype.kind} <= set("iu") else "float64"
        return own.astype(shared), other.astype(shared)
    return own, other.astype(own.dtype)


def _chosen(own: nw.Series[Any], other: nw.Series[Any], take: BoolArray) -> nw.Series[Any]:
    """One column of Polars or Arrow, the other's entries where ``take``."""
    own, other = _of_one_type(own, other)
    words = own.implementation.is_pyarrow() and own.dtype in (nw.Categorical, nw.Enum)
    if words:  # Arrow cannot choose between dictionaries
        own, other = own.cast(nw.String), other.cast(nw.String)
    mask = nw.new_series("mask", take, backend=own.implementation)
    chosen = other.zip_with(mask, own)
    return (chosen.cast(nw.Categorical) if words else chosen).alias(own.name)


def _of_one_type(
    own: nw.Series[Any], other: nw.Series[Any]
) -> tuple[nw.Series[Any], nw.Series[Any]]:
    """Two columns that mean the same, in a type that holds both."""
    if isinstance(own.dtype, nw.Enum):  # a fixed list of words: known ones keep their places
        words = other.cast(nw.String)
        fresh = (
            other.dtype.categories
            if isinstance(other.dtype, nw.Enum)
            else words.drop_nulls().unique(maintain_order=True).to_list()
        )
        shared: Any = nw.Enum(dict.fromkeys([*own.dtype.categories, *fresh]))
        return own.cast(nw.String).cast(shared), words.cast(shared)
    if own.dtype == other.dtype and own.dtype != nw.Categorical:
        return own, other
    if own.dtype.is_numeric() and other.dtype.is_numeric():
        whole = own.dtype.is_integer() and other.dtype.is_integer()
        shared = nw.Int64 if whole else nw.Float64
        return own.cast(shared), other.cast(shared)
    return own, other.cast(own.dtype)


def spread(n: int, most: int) -> IntArray:
    """At most so many of n rows, spread over all of them.

    >>> spread(10, 4).tolist(), spread(2, 4).tolist()
    ([0, 3, 6, 9], [0, 1])
    """
    return np.unique(np.linspace(0, n - 1, most).astype(np.int64))


def replaced(table: Frame, at: IntArray, rows: Frame) -> Frame:
    """The table with some of its rows replaced.

    >>> table = Frame.read(np.array([[1, 2], [3, 4]]))
    >>> replaced(table, np.array([1]), Frame.read(np.array([[8, 9]]))).native.tolist()
    [[1, 2], [8, 9]]
    """
    if len(at) == 0:
        return table
    changed = np.zeros((len(table), len(table.names)), bool)
    changed[at] = True
    padded = np.zeros(len(table), np.int64)
    padded[at] = np.arange(len(at))
    return mixed(table, rows.take(padded), changed)


def stacked(parts: list[Frame]) -> Frame:
    """Rows of several tables of one schema, one below the other."""
    if len(parts) == 1:
        return parts[0]
    if parts[0].is_array:
        return Frame(np.concatenate([part.native for part in parts]), parts[0].names)
    frames = [part.eager for part in parts]
    return Frame(nw.concat(frames, how="vertical").to_native(), parts[0].names)


def differing(a: Frame, b: Frame) -> BoolArray:
    """Where two tables of the same rows and features differ, shape (rows, features)."""
    columns = zip(a.encoded, b.encoded, strict=True)
    return np.stack([here.codes != codes_among(here, there) for here, there in columns], axis=1)


def find_rows(table: Frame, rows: Frame) -> IntArray:
    """For each row its place in a table of distinct rows; -1 where it is not there.

    >>> table = Frame.read(np.array([[0, 1], [1, 1]]))
    >>> find_rows(table, Frame.read(np.array([[1, 1], [5, 1]]))).tolist()
    [1, -1]
    """
    sizes = [len(column.values) + 1 for column in table.encoded]
    if prod(sizes) <= _FEW:
        return _looked_up(table.encoded, rows.encoded, sizes)
    there, wanted = numbered(table.encoded, rows.encoded)
    place = np.full(1 + max(there.max(initial=0), wanted.max(initial=0)), -1)
    place[there] = np.arange(len(table))
    return np.where(wanted < 0, -1, place[wanted])


def _looked_up(here: Sequence[Encoded], there: Sequence[Encoded], sizes: list[int]) -> IntArray:
    """The same by one small number a row, where there are few combinations of values."""
    place = np.full(prod(sizes), -1)
    place[np.ravel_multi_index([one.codes for one in here], sizes)] = np.arange(len(here[0].codes))
    key = np.zeros(len(there[0].codes), np.int32)
    for one, other, size in zip(here, there, sizes, strict=True):
        code = codes_among(one, Encoded(np.arange(len(other.values)), other.values))
        key *= size
        key += np.where(code < 0, size - 1, code).astype(np.int32)[other.codes]
    return place[key]


def numbered(here: Sequence[Encoded], there: Sequence[Encoded]) -> tuple[IntArray, IntArray]:
    """Numbers for the rows of two tables, the same for equal rows, given by their columns.

    -1 stands for rows of the second with a value that the first lacks.
    """
    columns = []
    strange = np.zeros(len(there[0].codes), bool)
    for one, other in zip(here, there, strict=True):
        codes = codes_among(one, other)
        strange |= codes < 0
        columns.append(Encoded(np.concatenate([one.codes, np.maximum(codes, 0)]), one.values))
    number = distinct_rows(columns).inverse
    n = len(here[0].codes)
    return number[:n], np.where(strange, -1, number[n:])


def codes_among(here: Encoded, there: Encoded) -> IntArray:
    """The codes of one column in those of another; -1 for values that the other lacks."""
    own, values = here.values, there.values
    numbers = own.dtype.kind in "biuf" and values.dtype.kind in "biuf"
    if numbers and len(own) > 0:
        at = np.minimum(np.searchsorted(own, values), len(own) - 1)
        same = own[at] == values
        if here.has_missing and there.has_missing:  # nan is the last of both, and unlike itself
            at[-1], same[-1] = len(own) - 1, True
        code = np.where(same, at, -1)
    else:
        place = {lookup_key(value): j for j, value in enumerate(own)}
        code = np.array([place.get(lookup_key(value), -1) for value in values], np.int64)
    return np.asarray(code[there.codes], np.int64)
