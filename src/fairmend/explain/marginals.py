"""Each feature observed, in the baseline group and under the counterfactual distribution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fairmend.data.columns import Encoded, FloatArray, Frame, as_numbers, is_missing, scalar
from fairmend.errors import DataError

if TYPE_CHECKING:
    from fairmend.explain.counterfactual import Counterfactual

QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)


@dataclass(frozen=True)
class Marginal:
    """One line of the table of marginals: a share of people, or a mean or quantile of a number."""

    feature: str
    statistic: str
    """A value (the line is the share of people with it), or ``mean``, ``10 %``, ... ``90 %``."""
    observed: float
    baseline: float
    counterfactual: float
    is_share: bool
    """Whether the figures are shares of people."""

    @property
    def shift(self) -> float:
        return self.counterfactual - self.observed


def inputs_of(result: Counterfactual) -> Frame:
    """The rows of the target group; an error where only predictions were read."""
    if result.table is None:
        got, fix = "only predictions were tabulated", "Pass X with the model's inputs."
        raise DataError("explanation", "needs the inputs", got, fix)
    return result.table


def marginals(result: Counterfactual) -> list[Marginal]:
    """Each feature observed, in the baseline group, and under Q (the paper's second table).

    Yes-or-no features give the share of yes, categories the share of each value in either group,
    numbers their mean and quantiles, and any of them the share of missing where there are some.
    """
    table, other = inputs_of(result), result.baseline_table
    there = [None] * len(table.names) if other is None else other.encoded
    lines = []
    for name, here, baseline in zip(table.names, table.encoded, there, strict=True):
        sides = (
            (here, result.source.mass),
            (baseline, result.baseline.mass),
            (here, result.mass),
        )
        lines += _marginal(str(name), sides)
    return lines


Sides = tuple[tuple[Encoded | None, FloatArray], ...]
"""A feature and the masses to be put on it: observed, baseline, counterfactual."""


def _marginal(name: str, sides: Sides) -> list[Marginal]:
    """The lines of one feature."""
    values = [value for column, _ in sides if column is not None for value in column.values]
    distinct = dict.fromkeys(scalar(value) for value in values if not is_missing(value))
    numbers = as_numbers(np.array(list(distinct), object))
    shares: list[Any] = list(distinct)
    lines = []
    if numbers is not None and len(numbers) > 2:
        shares = []
        for statistic, q in (("mean", None), *((f"{100 * q:g} %", q) for q in QUANTILES)):
            observed, baseline, shifted = (_statistic(column, mass, q) for column, mass in sides)
            lines.append(Marginal(name, statistic, observed, baseline, shifted, is_share=False))
    elif numbers is not None and set(distinct) <= {0, 1}:
        shares = [1]
    if any(is_missing(value) for value in values):
        shares.append(None)
    of_value = [_shares(column, mass) for column, mass in sides]
    for value in shares:
        observed, baseline, shifted = (
            float("nan") if counts is None else counts.get(value, 0.0) for counts in of_value
        )
        text = "missing" if value is None else str(value)
        lines.append(Marginal(name, text, observed, baseline, shifted, is_share=True))
    return lines


def _shares(column: Encoded | None, mass: FloatArray) -> dict[Any, float] | None:
    """The share of people with each value; None stands for missing."""
    if column is None:
        return None
    shares: dict[Any, float] = {}
    for value, share in zip(
        column.values, np.bincount(column.codes, mass, len(column.values)), strict=True
    ):
        key = None if is_missing(value) else scalar(value)
        shares[key] = shares.get(key, 0.0) + float(share)
    return shares


def _statistic(column: Encoded | None, mass: FloatArray, quantile: float | None) -> float:
    numbers = None if column is None else as_numbers(column.values)
    if column is None or numbers is None:
        return float("nan")
    weight = np.bincount(column.codes, mass, len(numbers))
    present = ~np.isnan(numbers) & (weight > 0)
    at, weight = numbers[present], weight[present]
    if len(at) == 0:
        return float("nan")
    if quantile is None:
        return float(weight @ at / weight.sum())
    # values are sorted: the first whose cumulated share reaches the quantile
    place = int(np.searchsorted(np.cumsum(weight) / weight.sum(), quantile - 1e-12))
    return float(at[min(place, len(at) - 1)])
