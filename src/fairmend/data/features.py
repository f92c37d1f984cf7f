"""Mixed-type rows as numbers for the outcome and group models.

Numbers and dates are centred and scaled, with a flag where they may be missing; yes-or-no columns
stay 0 and 1; categories become one column a value. A value never seen in the audit data gets no
column, so it counts as none of the known ones; so do rare values.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from fairmend.data.columns import Encoded, FloatArray, Frame, as_measure, lookup_key
from fairmend.data.limits import MOST, Between, Value
from fairmend.data.stored import stored

MOST_VALUES = 100
"""A category keeps its most common values: a column of names must not fill the memory."""
RAREST = 0.005
"""Values of a smaller share of the people are noise to a model."""


@stored("Feature")
@dataclass(frozen=True)
class Feature:
    """How one column becomes numbers."""

    name: str
    values: tuple[Value, ...]
    """The values of a category that have a column; empty for a number."""
    centre: Annotated[float, Between(-MOST, MOST)] = 0.0
    scale: Annotated[float, Between(sys.float_info.min, MOST)] = 1.0
    may_be_missing: bool = False

    @property
    def width(self) -> int:
        return len(self.values) or 1 + self.may_be_missing

    @property
    def is_number(self) -> bool:
        return not self.values


@stored("FeatureMap")
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

    def apply(self, table: Frame) -> FloatArray:
        """The numbers of every row, shape (rows, width)."""
        columns = zip(self.features, table.encoded, strict=True)
        return np.concatenate([_apply(feature, column) for feature, column in columns], axis=1)


def _learn(name: str, column: Encoded, mass: FloatArray) -> Feature:
    numbers = as_measure(column.values)
    weight = np.bincount(column.codes, mass, len(column.values))
    if numbers is None:
        common = np.argsort(-weight, kind="stable")[:MOST_VALUES]
        frequent = common[weight[common] >= RAREST * weight.sum()]
        common = np.sort(frequent if len(frequent) > 0 else common[:1])
        return Feature(name, tuple(lookup_key(value) for value in column.values[common]))
    filled = np.isfinite(numbers)
    missing = not filled.all()
    if set(numbers[filled].tolist()) <= {0.0, 1.0}:
        return Feature(name, (), may_be_missing=missing)
    at, share = numbers[filled], weight[filled] / (weight[filled].sum() or 1.0)
    centre = float(share @ at)
    spread = float(np.sqrt(share @ (at - centre) ** 2))
    return Feature(name, (), centre, spread or 1.0, missing)


def _apply(feature: Feature, column: Encoded) -> FloatArray:
    if feature.is_number:
        numbers = as_measure(column.values)
        if numbers is None:  # text where the audit data had numbers: none of it is known
            numbers = np.full(len(column.values), np.nan)
        filled = np.isfinite(numbers)
        scaled = (np.where(filled, numbers, feature.centre) - feature.centre) / feature.scale
        parts = [scaled, ~filled] if feature.may_be_missing else [scaled]
        by_value = np.stack(parts, axis=1).astype(np.float64)
    else:
        place = {value: j for j, value in enumerate(feature.values)}
        by_value = np.zeros((len(column.values), len(feature.values)))
        for i, value in enumerate(column.values):
            if lookup_key(value) in place:
                by_value[i, place[lookup_key(value)]] = 1.0
    return np.asarray(by_value[column.codes], np.float64)
