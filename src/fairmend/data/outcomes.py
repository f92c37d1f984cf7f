"""What really happened to people: outcomes of two values, and which of them is positive."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairmend.data.columns import (
    BoolArray,
    Encoded,
    IntArray,
    encode,
    is_missing,
    missing_parts,
    scalar,
)
from fairmend.data.limits import Label
from fairmend.data.stored import stored
from fairmend.errors import DataError, check, listed, nearest

# Pairs of numbers that need no explanation: 1 is yes, the other is no.
_PLAIN_PAIRS: tuple[tuple[int, int], ...] = ((0, 1), (-1, 1))


@stored("Labels")
@dataclass(frozen=True)
class Labels:
    """The two values of the outcome; ``positive`` is the one the rates are about."""

    negative: Label
    positive: Label

    def agrees(self) -> bool:
        return self.negative != self.positive

    @classmethod
    def of(cls, values: Sequence[Hashable], pos_label: Hashable = None) -> Labels:
        """The labels among two values; ``pos_label`` may be left out for 0/1 and -1/1.

        >>> Labels.of([-1, 1]).positive
        1
        >>> Labels.of(["good", "bad"], pos_label="good").negative
        'bad'
        """
        if len(values) != 2:
            got = f"got one class: everybody has {values[0]!r}" if values else "nobody has one"
            fix = "Error rates need both outcomes in the data."
            if len(values) > 2:
                measured = any(isinstance(v, float) and not v.is_integer() for v in values)
                kind = " continuous values" if measured else ""
                got = f"got {len(values):,}{kind}: {listed(values)}"
                fix = (
                    "Only binary classification is supported. "
                    f"Make it binary first, e.g. y == {values[-1]!r}."
                )
            raise DataError("y", "must have two values", got, fix)
        if pos_label is None:
            must = "must say which value of y counts as positive when they are not 0/1 or -1/1"
            fix = f"Pass pos_label={values[-1]!r} or pos_label={values[0]!r}."
            check(_is_plain(set(values)), "pos_label", must, f"y holds {listed(values)}", fix)
            pos_label = 1
        if not isinstance(pos_label, Hashable) or pos_label not in values:
            must = "must be the value of y that counts as positive"
            got = f"got {pos_label!r} where y holds {listed(values)}"
            raise DataError("pos_label", must, got, nearest(pos_label, values))
        place = values.index(pos_label)
        return cls(values[1 - place], values[place])

    def positive_among(self, words: set[Hashable]) -> Hashable:
        """Which of a model's words for its two answers means positive; None if that is unknown.

        They may be the labels of y. Where y is 0/1 or -1/1, so may the words: 1 is 1, the other
        number is the other. Where y is anything else and 0/1 or -1/1 cannot be mistaken for it,
        1 means positive.

        >>> Labels("no", "yes").positive_among({0, 1}), Labels(1, -1).positive_among({0, 1})
        (1, 0)
        >>> Labels(1, 2).positive_among({0, 1}) is None
        True
        """
        own = {self.negative, self.positive}
        if words <= own:
            return self.positive
        for low, high in _PLAIN_PAIRS:
            if words <= {low, high}:
                if _is_plain(own):
                    return high if self.positive == 1 else low
                if own.isdisjoint((low, high)):
                    return high
        return None


def _is_plain(labels: set[Hashable]) -> bool:
    return any(labels == set(pair) for pair in _PLAIN_PAIRS)


UNLABELLED = Labels(0, 1)
"""What decisions are called where there are no outcomes."""


class MissingOutcomes(DataError):
    """What really happened is not known of everybody."""

    outcome_known: BoolArray
    """Of whom it is known."""
    values: list[Hashable]
    """The outcomes there are."""

    @classmethod
    def of(cls, column: Encoded) -> MissingOutcomes:
        error = cls(
            "y",
            *missing_parts(column),
            "For sp pass y=None, which compares the decisions of everybody; for error rates leave "
            "these people out: the rates are then over people whose outcome is known.",
        )
        error.outcome_known = ~column.missing
        error.values = [scalar(value) for value in column.values if not is_missing(value)]
        return error


def read_outcome(column: Any, pos_label: Hashable) -> tuple[IntArray, Labels]:
    """Outcomes as 0 and 1, and the labels these stand for."""
    fix = "Check the filter that made it."
    check(len(column) > 0, "y", "must have at least one entry", "got none", fix)
    encoded = encode(column, "y")
    if encoded.has_missing:
        raise MissingOutcomes.of(encoded)
    values = [scalar(value) for value in encoded.values]
    labels = Labels.of(values, pos_label)
    positive = np.array([value == labels.positive for value in values], np.int64)
    return positive[encoded.codes], labels
