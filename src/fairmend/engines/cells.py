"""Cells: the distinct values of some columns, and how many people with which weight have them.

Whatever engine counted, what comes out is in one order (that of the columns' values) and does not
depend on how the rows were cut into parts: people are whole numbers, and weights are sums that
differ between engines by rounding only (relative error below 1e-12).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np

from fairmend.data.columns import FloatArray, Frame, IntArray, as_numbers, series_array
from fairmend.data.containers import Kind, as_kind
from fairmend.data.weights import check_weights
from fairmend.errors import check

# What an engine adds to the columns: how many people a cell has, without those of weight 0; of
# their weights the sum, the sum of squares, the smallest, the largest, and how many are known.
PEOPLE, WEIGHT, SQUARED = "__people", "__weight", "__squared"
LOW, HIGH, KNOWN = "__low", "__high", "__known"
SUMS = (WEIGHT, SQUARED, LOW, HIGH, KNOWN)


@dataclass(frozen=True, eq=False)
class Cells:
    """Counted people, one entry a cell."""

    frame: Frame
    people: FloatArray
    weight: FloatArray
    squared: FloatArray

    @classmethod
    def read(cls, native: Any, columns: Sequence[str], kind: Kind, *, weighted: bool) -> Cells:
        """What an engine returned, checked, with cells of equal values merged, in order."""
        frame = nw.from_native(native, eager_only=True)
        fix = "Check the filter that made it."
        check(len(frame) > 0, "X", "must have at least one row", "got none", fix)
        people = frame.get_column(PEOPLE).to_numpy().astype(np.float64)
        weight = squared = people
        if weighted:
            sums = {name: frame.get_column(name).to_numpy().astype(np.float64) for name in SUMS}
            _check_weights(sums, people)
            weight, squared = sums[WEIGHT], sums[SQUARED]
        keys = Frame(as_kind(frame.select(list(columns)).to_native(), kind), tuple(columns))
        alike = keys.distinct()

        def summed(values: FloatArray) -> FloatArray:
            return np.bincount(alike.inverse, values, len(alike.first)).astype(np.float64)

        total = summed(people)
        return cls(
            keys.take(alike.first),
            total,
            summed(weight) if weighted else total,
            summed(squared) if weighted else total,
        )


def _check_weights(sums: dict[str, FloatArray], people: FloatArray) -> None:
    missing = int((people - sums[KNOWN]).sum())
    must, fix = "must be known for every person", "Somebody who should not count has weight 0."
    check(missing == 0, "sample_weight", must, f"got {missing:,} missing", fix)
    check_weights(np.concatenate([sums[LOW], sums[HIGH]]))


def refuse_words(data: Any, weight: str) -> None:
    """Complain about weights that are no numbers, by the type of their column."""
    kind = nw.from_native(data).collect_schema()[weight]
    _check_numbers(kind.is_numeric() or kind == nw.Boolean, weight)


def _check_numbers(holds: bool, weight: str) -> None:
    got, fix = f"column {weight!r} holds something else", "Pass one number per person."
    check(holds, "sample_weight", "must hold numbers", got, fix)


# -------------------------------------------------------------------- counting in memory


def count(native: Any, columns: Sequence[str], weight: str | None) -> Any:
    """The cells of rows in memory, as a frame of the same container."""
    frame = nw.from_native(native, eager_only=True)
    sums = {PEOPLE: np.ones(len(frame))}
    if weight is not None:
        numbers = as_numbers(series_array(frame.get_column(weight)))
        _check_numbers(numbers is not None, weight)
        assert numbers is not None
        plain = np.nan_to_num(numbers, nan=0.0, posinf=np.inf, neginf=-np.inf)
        sums = {PEOPLE: (numbers != 0).astype(np.float64), WEIGHT: plain, SQUARED: plain**2}
        sums |= {LOW: np.where(plain == 0, np.inf, plain), HIGH: plain}
        sums[KNOWN] = (plain != 0).astype(np.float64)
    return _summed(frame, columns, sums)


def merge(native: Any, columns: Sequence[str]) -> Any:
    """Cells of several parts, one below the other, as one."""
    frame = nw.from_native(native, eager_only=True)
    sums = {
        name: frame.get_column(name).to_numpy().astype(np.float64)
        for name in (PEOPLE, *SUMS)
        if name in frame.columns
    }
    return _summed(frame, columns, sums)


def _summed(frame: nw.DataFrame[Any], columns: Sequence[str], sums: dict[str, FloatArray]) -> Any:
    keys = frame.select(list(columns))
    if len(frame) == 0:
        return keys.with_columns(nw.lit(0.0).alias(name) for name in sums).to_native()
    alike = Frame(keys.to_native(), tuple(columns)).distinct()
    size = len(alike.first)
    totals = []
    if LOW in sums:
        order = np.argsort(alike.inverse, kind="stable")
        starts = np.searchsorted(alike.inverse[order], np.arange(size))
    for name, values in sums.items():
        if name in (LOW, HIGH):
            extreme = np.minimum if name == LOW else np.maximum
            total = extreme.reduceat(values[order], starts)
        else:
            total = np.bincount(alike.inverse, values, size)
        totals.append(nw.new_series(name, total, nw.Float64, backend=frame.implementation))
    return rows_of(keys, alike.first).with_columns(*totals).to_native()


def in_own_text(native: Any) -> Any:
    """A pandas frame with text in the type that pandas itself gives it: Dask chooses another.

    So a repair that was fitted on a cluster is the same to the byte, whichever engine gathered it.
    """
    import pandas as pd

    columns = {
        name: pd.Series(native[name].to_numpy(object, na_value=None), native.index)
        for name in native.columns
        if isinstance(native[name].dtype, pd.StringDtype)
    }
    return native.assign(**columns)


def rows_of(frame: nw.DataFrame[Any], at: IntArray) -> nw.DataFrame[Any]:
    """Some rows of a frame, numbered anew where the container numbers them."""
    some: nw.DataFrame[Any] = frame[at]
    if frame.implementation.is_pandas_like():
        some = nw.from_native(some.to_native().reset_index(drop=True), eager_only=True)
    return some
