"""Rows put together from others, and rows found again."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from fairmend.columns import Frame, IntArray, is_missing, scalar

__all__ = ["differing", "find_rows", "mixed", "replaced", "stacked"]


def mixed(mine: Frame, theirs: Frame, take_theirs: NDArray[np.bool_]) -> Frame:
    """Row by row and feature by feature, their value where told, else mine; types stay.

    >>> a, b = Frame.read(np.array([[1, 2]])), Frame.read(np.array([[8, 9]]))
    >>> mixed(a, b, np.array([[True, False]])).native.tolist()
    [[8, 2]]
    """
    if mine.is_array:
        return Frame(np.where(take_theirs, theirs.native, mine.native), mine.names)
    frame = nw.from_native(mine.native, eager_only=True)
    other = nw.from_native(theirs.native, eager_only=True)
    columns = []
    for j, name in enumerate(mine.names):
        own = frame.get_column(name)
        if take_theirs[:, j].any():
            mask = nw.new_series("mask", take_theirs[:, j], backend=nw.get_native_namespace(own))
            own = other.get_column(name).zip_with(mask, own)
        columns.append(own)
    return Frame(frame.with_columns(columns).to_native(), mine.names)


def replaced(table: Frame, at: IntArray, rows: Frame) -> Frame:
    """The table with some of its rows replaced.

    >>> table = Frame.read(np.array([[1, 2], [3, 4]]))
    >>> replaced(table, np.array([1]), Frame.read(np.array([[8, 9]]))).native.tolist()
    [[1, 2], [8, 9]]
    """
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
    frames = [nw.from_native(part.native, eager_only=True) for part in parts]
    return Frame(nw.concat(frames, how="vertical").to_native(), parts[0].names)


def differing(a: Frame, b: Frame) -> NDArray[np.bool_]:
    """Where two tables of the same rows and features differ, shape (rows, features)."""
    both = stacked([a, b])
    n = len(a)
    return np.stack([column.codes[:n] != column.codes[n:] for column in both.encoded], axis=1)


def find_rows(table: Frame, rows: Frame) -> IntArray:
    """For each row its place in a table of distinct rows; -1 where it is not there.

    >>> table = Frame.read(np.array([[0, 1], [1, 1]]))
    >>> find_rows(table, Frame.read(np.array([[1, 1], [5, 1]]))).tolist()
    [1, -1]
    """
    known = np.empty((len(table), len(table.names)), np.int64)
    asked = np.empty((len(rows), len(table.names)), np.int64)
    for j, (here, there) in enumerate(zip(table.encoded, rows.encoded, strict=True)):
        spot = {_key(value): code for code, value in enumerate(here.values)}
        known[:, j] = here.codes
        asked[:, j] = np.array([spot.get(_key(value), -1) for value in there.values])[there.codes]
    order = np.lexsort(known.T[::-1])
    joined = np.concatenate([known[order], asked])
    _, first, inverse = np.unique(joined, axis=0, return_index=True, return_inverse=True)
    place = first[inverse.ravel()[len(known) :]]
    return np.where(place < len(known), order[np.minimum(place, len(known) - 1)], -1)


def _key(value: Any) -> Any:
    return None if is_missing(value) else scalar(value)
