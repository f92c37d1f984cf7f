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
from fairmend.errors import DataError

__all__ = ["Cells", "count", "merge", "refuse_words", "rows_of"]

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
        if len(frame) == 0:
            raise DataError(
                "X", "must have at least one row", "got none", "Check the filter that made it."
            )
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
    from fairmend.data.weights import HEAVIEST, LIGHTEST

    unknown = people - sums[KNOWN]
    if unknown.any() or not np.isfinite(sums[WEIGHT]).all():
        missing = int(unknown.sum())
        must = "must be finite and known for every person"
        got = f"got {missing:,} missing" if missing else "got infinite ones"
    elif (sums[LOW] < 0).any():
        must, got = "must be finite and not negative", f"got {sums[LOW].min():g}"
    elif (sums[HIGH] > HEAVIEST).any() or ((sums[LOW] > 0) & (sums[LOW] < LIGHTEST)).any():
        must = f"must be 0 or from {LIGHTEST:g} to {HEAVIEST:g}"
        got = f"got {sums[LOW].min():g} to {sums[HIGH].max():g}"
    else:
        return
    raise DataError(
        "sample_weight",
        must,
        got,
        "Somebody who should not count has weight 0; only ratios matter.",
    )


def refuse_words(data: Any, weight: str) -> None:
    """Complain about weights that are no numbers, by the type of their column."""
    kind = nw.from_native(data).collect_schema()[weight]
    if not (kind.is_numeric() or kind == nw.Boolean):
        raise words_for_weights(weight)


def words_for_weights(weight: str) -> DataError:
    return DataError(
        "sample_weight", "must hold numbers", f"column {weight!r} holds something else",
        "Pass one number a person.",
    )  # fmt: skip


# -------------------------------------------------------------------- counting in memory


def count(native: Any, columns: Sequence[str], weight: str | None) -> Any:
    """The cells of rows in memory, as a frame of the same container."""
    frame = nw.from_native(native, eager_only=True)
    sums = {PEOPLE: np.ones(len(frame))}
    if weight is not None:
        numbers = as_numbers(series_array(frame.get_column(weight)))
        if numbers is None:
            raise words_for_weights(weight)
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
    native = frame.select(list(columns)).to_native()
    if len(frame) == 0:
        return (
            frame.select(list(columns))
            .with_columns(
                *(
                    nw.new_series(name, [], nw.Float64, backend=frame.implementation)
                    for name in sums
                )
            )
            .to_native()
        )
    alike = Frame(native, tuple(columns)).distinct()
    size = len(alike.first)
    kept = rows_of(frame.select(list(columns)), alike.first)
    order = np.argsort(alike.inverse, kind="stable")
    starts = np.searchsorted(alike.inverse[order], np.arange(size))
    found = []
    for name, values in sums.items():
        if name in (LOW, HIGH):
            least = np.minimum if name == LOW else np.maximum
            total = least.reduceat(values[order], starts)
        else:
            total = np.bincount(alike.inverse, values, size)
        found.append(nw.new_series(name, total, nw.Float64, backend=frame.implementation))
    return kept.with_columns(*found).to_native()


def rows_of(frame: nw.DataFrame[Any], at: IntArray) -> nw.DataFrame[Any]:
    """Some rows of a frame, numbered anew where the container numbers them."""
    some: nw.DataFrame[Any] = frame[at]
    if frame.implementation.is_pandas_like():
        some = nw.from_native(some.to_native().reset_index(drop=True), eager_only=True)
    return some
