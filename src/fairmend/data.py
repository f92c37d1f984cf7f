"""The data, checked once and tabulated once.

``read`` is the border: it takes what people have (frames, arrays, column names), checks it, and
hands on clean codes. ``tabulate`` asks the model about the distinct rows and counts. Behind it
everything is small read-only arrays, one `Population` a group, whatever the size of the data.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import narwhals as nw
import numpy as np

from fairmend.columns import (
    Distinct,
    Encoded,
    FloatArray,
    Frame,
    IntArray,
    distinct_rows,
    encode,
    number,
    scalar,
)
from fairmend.errors import DataError, listed, nearest
from fairmend.model import BlackBox, Labels

__all__ = ["AuditData", "Population", "Records", "Tally", "read", "tabulate"]

MAX_GROUPS = 500


@dataclass(frozen=True, eq=False)
class Tally:
    """Who was seen, per distinct row (first axis) and outcome 0 or 1 (second axis)."""

    people: FloatArray
    """How many people."""
    weight: FloatArray
    """The sum of their weights."""
    squared: FloatArray
    """The sum of their squared weights, which the standard errors need."""


@dataclass(frozen=True, eq=False)
class Population:
    """The inputs of one group as a distribution over m distinct rows.

    ``mass`` is P(x), ``decision`` the model's h(x) in [0, 1] (0 or 1 for hard decisions), and
    ``outcome`` P(Y=1 | x) in this group: observed shares, or a model of them.

    >>> women = Population.of(mass=[3, 1], decision=[0, 1], outcome=[0.2, 0.9])
    >>> women.mass.tolist()
    [0.75, 0.25]
    """

    mass: FloatArray
    decision: FloatArray
    outcome: FloatArray
    score: FloatArray | None = None
    """What the model ranks by, where it gives more than decisions."""
    rows: IntArray | None = None
    """Where each row stands in `AuditData.table`."""
    baseline_mass: FloatArray | None = None
    """The other group's P1(x) at these rows, where it is known; alignment needs it."""
    tally: Tally | None = None
    """The people behind the masses; None for an exact distribution."""

    def __post_init__(self) -> None:
        for array in (self.mass, self.decision, self.outcome, self.score, self.baseline_mass):
            if array is not None:
                array.setflags(write=False)

    @classmethod
    def of(
        cls,
        mass: Sequence[float] | FloatArray,
        decision: Sequence[float] | FloatArray,
        outcome: Sequence[float] | FloatArray,
        **more: Any,
    ) -> Population:
        """Build one from plain numbers; masses are normalised."""
        weights = np.array(mass, np.float64)
        return cls(
            weights / weights.sum(),
            np.array(decision, np.float64),
            np.array(outcome, np.float64),
            **more,
        )

    def __len__(self) -> int:
        return len(self.mass)

    def reweighted(self, mass: FloatArray) -> Population:
        """The same rows under other masses: a candidate counterfactual distribution."""
        return replace(self, mass=np.array(mass, np.float64), tally=None)

    def with_outcome(self, outcome: FloatArray) -> Population:
        """The same rows with a model of the outcome in place of the observed shares."""
        return replace(self, outcome=np.array(outcome, np.float64))

    @property
    def n(self) -> int:
        """How many people stand behind it; 0 for an exact distribution."""
        return 0 if self.tally is None else round(float(self.tally.people.sum()))

    @property
    def observed(self) -> Population:
        """One cell per row and outcome really seen, so that every outcome is 0 or 1.

        A disparity has the same value here; its influence is then that of single people.
        """
        if self.tally is None:
            weight = np.stack([self.mass * (1 - self.outcome), self.mass * self.outcome], axis=1)
            people = squared = weight
        else:
            weight, people, squared = self.tally.weight, self.tally.people, self.tally.squared
        row, outcome = np.nonzero(people)
        kept = weight[row, outcome]

        def pick(array: Any) -> Any:
            return None if array is None else array[row]

        def spread(whole: FloatArray) -> FloatArray:
            cells = np.zeros((len(row), 2))
            cells[np.arange(len(row)), outcome] = whole[row, outcome]
            return cells

        return Population(
            mass=kept / kept.sum(),
            decision=self.decision[row],
            outcome=outcome.astype(np.float64),
            score=pick(self.score),
            rows=pick(self.rows),
            baseline_mass=pick(self.baseline_mass),
            tally=None if self.tally is None else Tally(*map(spread, (people, weight, squared))),
        )


@dataclass(frozen=True, eq=False)
class AuditData:
    """The tabulated audit data: one population a group over one table of distinct rows."""

    groups: tuple[Hashable, ...]
    populations: tuple[Population, ...]
    labels: Labels
    attribute: str
    """What the groups are groups of, for people to read: ``sex``, ``sex & age``."""
    table: Frame | None = None
    """The distinct rows, in the container they came in; None if only predictions were read."""

    def __getitem__(self, group: Hashable) -> Population:
        return self.populations[self.place(group)]

    def place(self, group: Hashable, what: str = "group") -> int:
        """Where a group stands among ``groups``."""
        if group not in self.groups:
            raise DataError(
                what,
                f"must be one of the {len(self.groups)} groups in sensitive_features",
                f"got {group!r}",
                nearest(group, self.groups),
            )
        return self.groups.index(group)

    def rest(self, group: Hashable) -> Population:
        """Everybody but one group, as one population."""
        others = [p for g, p in zip(self.groups, self.populations, strict=True) if g != group]
        return pooled(others)

    @property
    def n(self) -> int:
        return sum(population.n for population in self.populations)


def pooled(populations: Sequence[Population]) -> Population:
    """Several populations as one, each weighing what its people weigh."""
    if len(populations) == 1:
        return populations[0]

    def joined(field: str) -> Any:
        parts = [getattr(population, field) for population in populations]
        return None if any(part is None for part in parts) else np.concatenate(parts)

    tallies = [population.tally for population in populations]
    assert all(tallies), "exact distributions have no sizes to pool by"
    tally = Tally(*(np.concatenate([getattr(t, f) for t in tallies]) for f in _TALLY_FIELDS))
    total = tally.weight.sum(axis=1)
    return Population(
        mass=total / total.sum(),
        decision=joined("decision"),
        outcome=joined("outcome"),
        score=joined("score"),
        rows=joined("rows"),
        tally=tally,
    )


_TALLY_FIELDS = ("people", "weight", "squared")


@dataclass(frozen=True, eq=False)
class Records:
    """Checked data, one entry a person: the border's word that nothing behind it need doubt."""

    inputs: Frame | None
    """The model's inputs; None when they are not needed because predictions were recorded."""
    outcome: IntArray
    group: IntArray
    groups: tuple[Hashable, ...]
    weight: FloatArray | None
    labels: Labels
    attribute: str

    def __len__(self) -> int:
        return len(self.outcome)


def tabulate(
    model: Any,
    X: Any,
    y: Any,
    *,
    sensitive_features: Any,
    sample_weight: Any = None,
    pos_label: Hashable = None,
    inputs: bool = True,
) -> AuditData:
    """Check the data, ask the model once per distinct row, and count.

    ``inputs=False`` leaves the inputs untabulated when predictions were recorded: an audit needs
    only decisions, outcomes and groups.

    >>> import numpy as np
    >>> X = np.array([[0], [1], [1], [0]])
    >>> data = tabulate(lambda rows: rows[:, 0], X, [0, 1, 0, 0], sensitive_features=list("aabb"))
    >>> data.groups, data["b"].decision.tolist(), data["b"].mass.tolist()
    (('a', 'b'), [0.0, 1.0], [0.5, 0.5])
    """
    box = BlackBox.of(model)
    frame = None if X is None else Frame.read(X)
    records = read(
        frame,
        y,
        sensitive_features=sensitive_features,
        sample_weight=sample_weight,
        pos_label=pos_label,
        apart=box.column,
    )
    recorded = box.recorded(frame, len(records))
    if recorded is None:
        if records.inputs is None:
            raise DataError(
                "X", "must hold the model's inputs", "got None", "Pass the table the model reads."
            )
        alike = records.inputs.distinct()
        table = records.inputs.take(alike.first)
        answers = box.ask(table, records.labels)
        row, size = alike.inverse, len(alike.first)
    else:
        table = None
        predictions = encode(recorded)
        row, size = predictions.codes.astype(np.int64, copy=False), len(predictions.values)
        answers = box.interpret(predictions.values, records.labels)
        if inputs and records.inputs is not None:
            alike = _with_predictions(records.inputs, predictions)
            table = records.inputs.take(alike.first)
            answers = answers.take(predictions.codes[alike.first])
            row, size = alike.inverse, len(alike.first)
    populations = []
    for tally, rows in _tallies(records, row, size):
        total = tally.weight.sum(axis=1)
        populations.append(
            Population(
                mass=total / total.sum(),
                decision=answers.decision[rows],
                outcome=np.divide(
                    tally.weight[:, 1], total, out=np.zeros_like(total), where=total > 0
                ),
                score=None if answers.score is None else answers.score[rows],
                rows=rows,
                tally=tally,
            )
        )
    return AuditData(
        groups=records.groups,
        populations=tuple(populations),
        labels=records.labels,
        attribute=records.attribute,
        table=table,
    )


def _with_predictions(inputs: Frame, predictions: Encoded) -> Distinct:
    """Distinct pairs of inputs and recorded prediction."""
    alike = inputs.distinct()
    key = alike.inverse * len(predictions.values) + predictions.codes
    return number(key, len(alike.first) * len(predictions.values))


def _tallies(records: Records, row: IntArray, size: int) -> list[tuple[Tally, IntArray]]:
    """Count people and weights by group, distinct row and outcome."""
    groups = len(records.groups)
    cell = (records.group * size + row) * 2 + records.outcome
    if groups * size * 2 > max(
        4 * len(cell), 1 << 20
    ):  # most cells are empty: number the full ones
        full = number(cell // 2, groups * size)
        pairs = cell[full.first] // 2
        cell, shape = full.inverse * 2 + records.outcome, (len(pairs), 2)
    else:
        pairs, shape = None, (groups * size, 2)
    cells = shape[0] * 2

    def summed(weight: FloatArray | None) -> FloatArray:
        return np.bincount(cell, weight, cells).astype(np.float64).reshape(shape)

    people = weight = squared = summed(None)
    if records.weight is not None:
        weight, squared = summed(records.weight), summed(records.weight**2)
    if pairs is None:
        pairs = np.flatnonzero(people.any(axis=1))
        people, weight, squared = people[pairs], weight[pairs], squared[pairs]
    ends = np.searchsorted(pairs, np.arange(groups + 1) * size)
    return [
        (Tally(people[a:b], weight[a:b], squared[a:b]), pairs[a:b] - group * size)
        for group, (a, b) in enumerate(pairwise(ends))
    ]


def read(
    frame: Frame | None,
    y: Any,
    *,
    sensitive_features: Any,
    sample_weight: Any = None,
    pos_label: Hashable = None,
    apart: str | None = None,
) -> Records:
    """Check everything that comes in, in the order people think of it: y, groups, weights, X.

    ``y``, ``sensitive_features`` and ``sample_weight`` may name columns of X; those named by y and
    sample_weight, and ``apart`` (a column of predictions), are no inputs of the model.
    """
    outcome, labels = _read_outcome(_column(y, frame, "y"), pos_label)
    n = len(outcome)
    if frame is not None and len(frame) != n:
        raise DataError(
            "y",
            "must have one entry a row of X",
            f"got {n:,} entries for {len(frame):,} rows",
            "Check that both come from the same filter.",
        )
    group, groups, attribute = _read_groups(sensitive_features, frame, n)
    weight = None
    if sample_weight is not None:
        weight = _read_weight(_column(sample_weight, frame, "sample_weight"), n)
        _check_every_group_weighs(weight, group, groups)
    inputs = frame
    if frame is not None:
        named = [name for name in (y, sample_weight, apart) if isinstance(name, str)]
        if len([name for name in frame.names if name not in named]) == 0:
            inputs = None  # a file of predictions and outcomes alone
        else:
            inputs = frame.drop(named)
    return Records(inputs, outcome, group, groups, weight, labels, attribute)


def _column(values: Any, frame: Frame | None, what: str) -> Any:
    """A 1-D array or narwhals series, from values or from the name of a column of X."""
    if isinstance(values, str):
        if frame is None:
            raise DataError(
                what,
                "must hold values",
                f"got the name {values!r} without an X to look in",
                "Pass X, or the values themselves.",
            )
        return frame.column(values, what)
    series = nw.from_native(values, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        return series
    inner = nw.from_native(values, eager_only=True, pass_through=True)
    if isinstance(inner, nw.DataFrame):
        if len(inner.columns) != 1:
            raise DataError(
                what,
                "must be one column",
                f"got a frame with {len(inner.columns)} columns",
                "Select one.",
            )
        return inner.get_column(inner.columns[0])
    try:
        array = np.asarray(values)
    except ValueError:
        array = np.empty((0, 0))
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise DataError(
            what,
            "must be one-dimensional",
            f"got {type(values).__name__} of shape {array.shape}",
            "Pass one value a person.",
        )
    return array


def _read_outcome(column: Any, pos_label: Hashable) -> tuple[IntArray, Labels]:
    if len(column) == 0:
        raise DataError(
            "y", "must have at least one entry", "got none", "Check the filter that made it."
        )
    encoded = encode(column)
    values = [scalar(value) for value in encoded.values]
    if encoded.has_missing:
        where = int(np.argmax(encoded.codes == len(values) - 1))
        raise DataError(
            "y",
            "must be known for every person",
            f"got a missing value in row {where:,}",
            "Audit only people whose outcome is known.",
        )
    labels = Labels.of(values, pos_label)
    positive = np.array([value == labels.positive for value in values], np.int64)
    return positive[encoded.codes], labels


def _read_groups(
    given: Any, frame: Frame | None, n: int
) -> tuple[IntArray, tuple[Hashable, ...], str]:
    parts = _sensitive_columns(given, frame)
    encoded = [_read_attribute(name, column, n) for name, column in parts]
    if len(encoded) == 1:
        member, groups = encoded[0].codes, tuple(scalar(value) for value in encoded[0].values)
    else:
        alike = distinct_rows(encoded)
        member = alike.inverse
        groups = tuple(
            " & ".join(str(scalar(part.values[part.codes[row]])) for part in encoded)
            for row in alike.first
        )
    if len(groups) > MAX_GROUPS:
        raise DataError(
            "sensitive_features",
            f"must name 2 to {MAX_GROUPS} groups",
            f"got {len(groups):,} distinct values",
            "Is it an id or a number? Bin it, or merge small groups.",
        )
    if len(groups) < 2:
        raise DataError(
            "sensitive_features",
            "must name at least two groups",
            f"everybody is {groups[0]!r}",
            "A gap needs two groups: audit both together.",
        )
    if len({str(group) for group in groups}) < len(groups):
        raise DataError(
            "sensitive_features",
            "must have labels that read differently",
            f"among {listed(groups)} two print the same",
            "Use one type for all labels.",
        )
    return member.astype(np.int64, copy=False), groups, " & ".join(name for name, _ in parts)


def _sensitive_columns(given: Any, frame: Frame | None) -> list[tuple[str, Any]]:
    what = "sensitive_features"
    if given is None:
        raise DataError(
            what, "must be given", "got None", "Pass one label a person, e.g. X['sex']."
        )
    if isinstance(given, str):
        return [(given, _column(given, frame, what))]
    if isinstance(given, Mapping):
        columns = [(str(name), _column(values, frame, what)) for name, values in given.items()]
    elif isinstance(given, list | tuple) and frame is not None and _are_names(given, frame):
        columns = [(name, frame.column(name, what)) for name in given]
    else:
        native = nw.from_native(given, eager_only=True, pass_through=True)
        if isinstance(native, nw.DataFrame):
            columns = [(str(name), native.get_column(name)) for name in native.columns]
        else:
            array = given if hasattr(given, "dtype") else np.asarray(given, _label_type(given))
            if getattr(array, "ndim", 1) == 2 and not hasattr(given, "columns"):
                columns = [(f"s{j}", array[:, j]) for j in range(array.shape[1])]
            else:
                name = getattr(given, "name", None)
                columns = [(str(name) if name else "group", _column(array, frame, what))]
    if not columns:
        raise DataError(
            what, "must have at least one column", "got none", "Pass one label a person."
        )
    return columns


def _are_names(given: Sequence[Any], frame: Frame) -> bool:
    """A short list of texts that all name columns names columns; labels of people do not."""
    return len(given) != len(frame) and all(isinstance(name, str) for name in given)


def _label_type(given: Any) -> Any:
    """Keep mixed Python labels apart: NumPy would turn [1, 'a'] into text."""
    return object if len({type(value) for value in given}) > 1 else None


def _read_attribute(name: str, column: Any, n: int) -> Encoded:
    if len(column) != n:
        raise DataError(
            f"sensitive_features {name!r}",
            "must have one label a person",
            f"got {len(column):,} labels for {n:,} people",
            "Check that they come from the same filter as y.",
        )
    encoded = encode(column)
    if encoded.has_missing:
        missing = encoded.codes == len(encoded.values) - 1
        raise DataError(
            f"sensitive_features {name!r}",
            "must be known for every person",
            f"got {int(missing.sum()):,} missing, first in row {int(np.argmax(missing)):,}",
            "Leave these people out, or name them, e.g. .fillna('unknown').",
        )
    return encoded


def _read_weight(column: Any, n: int) -> FloatArray:
    what = "sample_weight"
    try:
        weight = np.asarray(column, np.float64)
    except (TypeError, ValueError):
        raise DataError(
            what, "must be numbers", "got something else", "Pass one number a person."
        ) from None
    if len(weight) != n:
        raise DataError(
            what,
            "must have one number a person",
            f"got {len(weight):,} for {n:,} people",
            "Check that they come from the same filter as y.",
        )
    wrong = ~np.isfinite(weight) | (weight < 0)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            what,
            "must be finite and not negative",
            f"got {weight[row]} in row {row:,}",
            "A person who should not count has weight 0.",
        )
    return weight


def _check_every_group_weighs(
    weight: FloatArray, group: IntArray, groups: tuple[Hashable, ...]
) -> None:
    totals = np.bincount(group, weight, len(groups))
    if (totals == 0).any():
        empty = groups[int(np.argmin(totals))]
        raise DataError(
            "sample_weight",
            "must be positive for somebody in every group",
            f"everybody in group {empty!r} has weight 0",
            "Leave the group out instead.",
        )
