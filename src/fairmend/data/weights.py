"""What people weigh: finite numbers, none negative."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import narwhals as nw
import numpy as np

from fairmend.data.columns import FloatArray, IntArray, as_numbers, is_number, scalar
from fairmend.errors import DataError, check, check_length

WHAT = "sample_weight"
# Weights are squared and summed; beyond these that would overflow, or vanish.
LIGHTEST, HEAVIEST = 1e-100, 1e100


def read_weights(column: Any, n: int) -> FloatArray:
    """The weights of n people, from a 1-D array or a narwhals series."""
    check_length(WHAT, column, n)
    entries = column.to_numpy() if isinstance(column, nw.Series) else column
    weight = as_numbers(entries)
    if weight is None:
        row = next(i for i, entry in enumerate(entries) if not is_number(entry))
        got = f"got {scalar(entries[row])!r} in row {row:,}"
        raise DataError(WHAT, "must hold numbers", got, "Pass one number per person.")
    check_weights(weight, lambda row: f" in row {row:,}")
    return weight


def check_weights(weight: FloatArray, where: Callable[[int], str] = lambda row: "") -> None:
    """Refuse weights that are negative, missing, infinite, or so extreme that sums overflow."""
    fine = (weight == 0) | (weight >= LIGHTEST) & (weight <= HEAVIEST)
    if fine.all():
        return
    row = int(np.argmin(fine))
    must, fix = "must be finite and not negative", "Somebody who should not count has weight 0."
    if np.isfinite(weight[row]) and weight[row] > 0:
        must = f"must be 0 or from {LIGHTEST:g} to {HEAVIEST:g}"
        fix = "Only ratios matter: divide all by the same number."
    raise DataError(WHAT, must, f"got {weight[row]:g}{where(row)}", fix)


def check_weights_of_people(
    weight: FloatArray, outcome: IntArray | None, group: IntArray, groups: Sequence[Hashable]
) -> None:
    """Refuse weights that are all 0 in a group, or for one of the outcomes."""
    both = outcome is None or not weight.any() or np.bincount(outcome, weight, 2).all()
    must, got = "must be positive for people of both outcomes", "one class of y has zero weight"
    check(both, WHAT, must, got, "Error rates need both outcomes in the data.")
    totals = np.bincount(group, weight, len(groups))
    whose = f" of group {groups[int(np.argmin(totals))]!r}" if totals.any() else ""
    must, got = "must be positive for somebody in every group", f"all weights{whose} are zero"
    check(totals.all(), WHAT, must, got, "Give them weight, or leave the group out.")
