"""People as an audit reads them: inputs, outcome, group, weight and person, checked once."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairmend.data.columns import FloatArray, Frame, IntArray, read_column
from fairmend.data.given import check_order
from fairmend.data.groups import group_columns, named_groups, read_groups
from fairmend.data.ids import read_people
from fairmend.data.outcomes import Labels, read_outcome
from fairmend.data.weights import check_weights_of_people, read_weights
from fairmend.errors import check, check_length


@dataclass(frozen=True, eq=False)
class Counts:
    """How many people entries stand for, the sum of their weights, and of the squares of these."""

    people: FloatArray
    weight: FloatArray
    squared: FloatArray

    def take(self, entries: IntArray) -> Counts:
        return Counts(self.people[entries], self.weight[entries], self.squared[entries])


@dataclass(frozen=True, eq=False)
class Records:
    """Checked data, one entry a row; no later step validates it again."""

    inputs: Frame | None
    """The model's inputs; None when they are not needed because predictions were recorded."""
    outcome: IntArray
    group: IntArray
    groups: tuple[Hashable, ...]
    weight: FloatArray | None
    labels: Labels
    attribute: str
    counts: Counts | None = None
    """Where an entry stands for many people; otherwise for one."""
    outcome_known: bool = True
    person: IntArray | None = None
    """Whose row it is, where ids were given."""

    def __len__(self) -> int:
        return len(self.outcome)

    @property
    def weighing(self) -> IntArray | None:
        """The entries that count, as those of weight 0 do not; None if all of them do."""
        weight = self.weight if self.counts is None else self.counts.weight
        return None if weight is None or weight.all() else np.flatnonzero(weight)

    def take(self, entries: IntArray) -> Records:
        return replace(
            self,
            inputs=None if self.inputs is None else self.inputs.take(entries),
            outcome=self.outcome[entries],
            group=self.group[entries],
            weight=None if self.weight is None else self.weight[entries],
            counts=None if self.counts is None else self.counts.take(entries),
            person=None if self.person is None else self.person[entries],
        )


def read_records(
    frame: Frame | None,
    y: Any,
    *,
    sensitive_features: Any,
    sample_weight: Any = None,
    ids: Any = None,
    pos_label: Hashable = None,
    predicted: str | None = None,
    counts: Counts | None = None,
    unlabelled: Labels | None = None,
    predictions: Any = None,
    input_names: Sequence[str] | None = None,
) -> Records:
    """Check everything that comes in, in this order: y, groups, weights, X.

    ``y``, ``sensitive_features``, ``sample_weight`` and ``ids`` may name columns of X. The inputs
    are the columns ``input_names``. Without these they are all columns but y, sample_weight, ids,
    ``predicted`` (a column of predictions) and, where there are recorded ``predictions``, the
    groups. ``counts`` is how many people each entry stands for, where that is not one.
    """
    column = None if y is None and unlabelled is not None else read_column(y, frame, "y")
    if frame is not None and column is not None:
        check_length("y", column, len(frame), "X")
    check_order(
        {"X": None if frame is None else frame.native, "y": y,
         "sensitive_features": sensitive_features, "sample_weight": sample_weight, "ids": ids,
         "model (recorded predictions)": predictions},
    )  # fmt: skip
    if column is not None:
        outcome, labels = read_outcome(column, pos_label)
    else:
        assert unlabelled is not None
        plain, must = pos_label in (None, unlabelled.positive), "must be left out where y is None"
        fix = "Name the model's own words: BlackBox(model, words=(negative, positive))."
        check(plain, "pos_label", must, f"got {pos_label!r}", fix)
        n = len(group_columns(sensitive_features, None)[0][1]) if frame is None else len(frame)
        outcome, labels = np.zeros(n, np.int64), unlabelled  # no rate is computed from these zeros
    n = len(outcome)
    group, groups, attribute = read_groups(sensitive_features, frame, n)
    weight = None
    if sample_weight is not None:
        weight = read_weights(read_column(sample_weight, frame, "sample_weight"), n)
    weighed = weight if counts is None else counts.weight
    if weighed is not None:
        check_weights_of_people(weighed, None if column is None else outcome, group, groups)
    person = None if ids is None else read_people(ids, frame, n)
    inputs = frame
    if frame is not None:
        named = {name for name in (y, sample_weight, ids, predicted) if isinstance(name, str)}
        if predictions is not None:  # a recorded answer does not depend on the group
            named |= set(named_groups(sensitive_features, frame))
        left = [name for name in frame.names if name not in named]
        if input_names is not None:
            left = [name for name in input_names if name != predicted]
        inputs = frame.select(left) if left else None  # none: predictions and outcomes alone
    return Records(
        inputs, outcome, group, groups, weight, labels, attribute, counts, column is not None,
        person,
    )  # fmt: skip
