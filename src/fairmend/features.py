"""Mixed-type rows as numbers for the outcome and group models.

Numbers are centred and scaled, with a flag where they may be missing; yes-or-no columns stay 0 and
1; categories become one column a value. A value never seen in the audit data gets no column, so it
counts as none of the known ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmend.columns import Encoded, FloatArray, Frame, is_missing, scalar

__all__ = ["Feature", "FeatureMap"]


@dataclass(frozen=True)
class Feature:
    """How one column becomes numbers."""

    name: str
    values: tuple[Any, ...]
    """The distinct values of a category; empty for a number."""
    centre: float = 0.0
    scale: float = 1.0
    may_be_missing: bool = False

    @property
    def is_number(self) -> bool:
        return not self.values

    @property
    def width(self) -> int:
        """How many columns of numbers it takes."""
        return 1 + self.may_be_missing if self.is_number else len(self.values)


@dataclass(frozen=True)
class FeatureMap:
    """Rows of a table to rows of numbers, learnt on the audit data.

    >>> table = Frame.read(np.array([[1, 0], [3, 1], [5, 1]]))
    >>> FeatureMap.learn(table, np.ones(3)).apply(table).round(2).tolist()
    [[-1.22, 0.0], [0.0, 1.0], [1.22, 1.0]]
    """

    features: tuple[Feature, ...]

    @classmethod
    def learn(cls, table: Frame, mass: FloatArray) -> FeatureMap:
        """Centre and scale by the weighted mean and standard deviation of the people."""
        columns = zip(table.names, table.encoded, strict=True)
        return cls(tuple(_learn(str(name), column, mass) for name, column in columns))

    @property
    def width(self) -> int:
        return sum(feature.width for feature in self.features)

    def apply(self, table: Frame) -> FloatArray:
        """The numbers of every row, shape (rows, width)."""
        columns = zip(self.features, table.encoded, strict=True)
        return np.concatenate([_apply(feature, column) for feature, column in columns], axis=1)


def as_numbers(values: Sequence[Any] | NDArray[Any]) -> FloatArray | None:
    """Distinct values as floats, missing as nan; None if they are not numbers."""
    plain = [scalar(value) for value in values]
    if not all(is_missing(v) or isinstance(v, bool | int | float) for v in plain):
        return None
    return np.array([np.nan if is_missing(v) else float(v) for v in plain], np.float64)  # type: ignore[arg-type]


def _learn(name: str, column: Encoded, mass: FloatArray) -> Feature:
    numbers = as_numbers(column.values)
    if numbers is None:
        values = tuple(None if is_missing(v) else scalar(v) for v in column.values)
        return Feature(name, values)
    known = np.isfinite(numbers)
    missing = not known.all()
    if set(numbers[known].tolist()) <= {0.0, 1.0}:
        return Feature(name, (), may_be_missing=missing)
    weight = np.bincount(column.codes, mass, len(numbers)) * known
    at = np.where(known, numbers, 0.0)
    centre = float(weight @ at / weight.sum()) if weight.sum() > 0 else 0.0
    spread = float(np.sqrt(weight @ (at - centre) ** 2 / weight.sum())) if weight.sum() > 0 else 0.0
    return Feature(name, (), centre, spread or 1.0, missing)


def _apply(feature: Feature, column: Encoded) -> FloatArray:
    if feature.is_number:
        numbers = as_numbers(column.values)
        if numbers is None:  # text where the audit data had numbers: none of it is known
            numbers = np.full(len(column.values), np.nan)
        scaled = (np.where(np.isfinite(numbers), numbers, feature.centre) - feature.centre) / (
            feature.scale
        )
        parts = [scaled, ~np.isfinite(numbers)] if feature.may_be_missing else [scaled]
        by_value = np.stack(parts, axis=1).astype(np.float64)
    else:
        place = {value: j for j, value in enumerate(feature.values)}
        by_value = np.zeros((len(column.values), len(feature.values)))
        for i, value in enumerate(column.values):
            j = place.get(None if is_missing(value) else scalar(value))
            if j is not None:
                by_value[i, j] = 1.0
    return np.asarray(by_value[column.codes], np.float64)
