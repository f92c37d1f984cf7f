"""The people of a search: those on whom candidates are made and chosen, and those who judge."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from fairmend.data.columns import FloatArray, Frame, IntArray, read_column
from fairmend.data.given import as_column, check_order
from fairmend.data.groups import are_names, group_columns, read_groups
from fairmend.data.ids import held_out, read_people
from fairmend.data.outcomes import read_outcome
from fairmend.data.weights import read_weights
from fairmend.errors import DataError, check, check_between, check_length, listed
from fairmend.measure.elsewhere import is_elsewhere
from fairmend.measure.performance import Outcomes
from fairmend.measure.population import AuditData, ByPerson, Population, Tally
from fairmend.measure.tabulate import tabulate
from fairmend.model.answers import Answers
from fairmend.model.blackbox import BlackBox
from fairmend.repair.problem import answers_of_all

__all__ = ["Given", "Part", "split"]


@dataclass(frozen=True, eq=False)
class Given:
    """People as they came: a table, and for each row an outcome, a group, a weight, an id."""

    X: Any
    y: Any
    sensitive_features: Any
    sample_weight: Any = None
    ids: Any = None
    pos_label: Any = None
    beside: Mapping[str, Any] = field(default_factory=dict)
    """Columns that are no inputs: amounts of a measure, recorded answers of other models."""

    def with_beside(self, columns: Mapping[str, Any]) -> Given:
        """The same with columns set aside, each given by its name in X or by its values."""
        frame = Frame.read(self.X)
        named = [column for column in columns.values() if isinstance(column, str)]
        beside = {
            name: _native(frame.column(column)) if isinstance(column, str) else column
            for name, column in columns.items()
        }
        for name, column in beside.items():
            check_length(name, as_column(column, name), len(frame), "X")
        return replace(self, X=frame.drop(named).native if named else self.X, beside=beside)

    def take(self, rows: IntArray) -> Given:
        """Some of the rows."""
        frame = Frame.read(self.X)

        def taken(values: Any) -> Any:
            if values is None or isinstance(values, str):
                return values
            return _take(values, rows)

        groups = self.sensitive_features
        if isinstance(groups, Mapping):
            groups = {name: taken(column) for name, column in groups.items()}
        elif not (isinstance(groups, str) or are_names(groups, frame)):
            columns = group_columns(groups, frame)
            groups = {name: _take(column, rows) for name, column in columns}
        return replace(
            self,
            X=frame.take(rows).native,
            y=taken(self.y),
            sensitive_features=groups,
            sample_weight=taken(self.sample_weight),
            ids=taken(self.ids),
            beside={name: taken(column) for name, column in self.beside.items()},
        )


def _take(values: Any, rows: IntArray) -> Any:
    return _native(as_column(values, "a column")[rows])


def _native(column: Any) -> Any:
    return column.to_native() if hasattr(column, "to_native") else column


@dataclass(frozen=True, eq=False)
class Part:
    """Some of the people, counted, with the model's answers about them."""

    name: str
    box: BlackBox
    given: Given
    data: AuditData
    kept: IntArray
    """The rows of people who count: those with a weight of 0 do not."""
    outcomes: Outcomes
    """Of the people who count."""

    @classmethod
    def read(cls, name: str, box: BlackBox, given: Given, earlier: Part | None = None) -> Part:
        """Check and count people; ``known`` are those on whom candidates were made."""
        labels = None if earlier is None else earlier.data.labels
        data = tabulate(
            box,
            given.X,
            given.y,
            sensitive_features=given.sensitive_features,
            sample_weight=given.sample_weight,
            ids=given.ids,
            pos_label=given.pos_label if labels is None else labels.positive,
            template=None if earlier is None else earlier.data.table,
        )
        if earlier is not None:
            strange = [group for group in data.groups if group not in earlier.data.groups]
            missing = [group for group in earlier.data.groups if group not in data.groups]
            check(
                not strange and not missing,
                "holdout",
                "must have the same groups as the people candidates are made on",
                f"it has {len(strange)} that these lack and lacks {len(missing)}",
                "Use more people, or leave small groups out.",
            )
        frame = Frame.read(given.X)
        outcome, _ = read_outcome(read_column(given.y, frame, "y"), data.labels.positive)
        weight = np.ones(len(outcome))
        if given.sample_weight is not None:
            column = read_column(given.sample_weight, frame, "sample_weight")
            weight = read_weights(column, len(outcome))
        person = None if given.ids is None else read_people(given.ids, frame, len(outcome))
        assert data.person_row is not None
        kept = np.flatnonzero(data.person_row >= 0)
        return cls(
            name,
            box,
            given,
            data,
            kept,
            Outcomes(
                outcome[kept].astype(np.float64),
                weight[kept],
                None if person is None else person[kept],
            ),
        )

    def __len__(self) -> int:
        return len(self.kept)

    @cached_property
    def row(self) -> IntArray:
        """Each person's row among the distinct rows."""
        assert self.data.person_row is not None
        return self.data.person_row[self.kept]

    @cached_property
    def group(self) -> IntArray:
        """Each person's group, by its place."""
        assert self.data.person_group is not None
        return self.data.person_group[self.kept]

    @property
    def table(self) -> Frame:
        assert self.data.table is not None
        return self.data.table

    @cached_property
    def answers(self) -> Answers:
        """What the model says about each distinct row."""
        rows, answers = answers_of_all(self.data)
        assert len(rows) == len(self.table)
        return answers

    @cached_property
    def current(self) -> Answers:
        """What the model says about each person."""
        return self.answers.take(self.row)

    def decided(self, decision: FloatArray) -> AuditData:
        """The groups by decision and outcome, under other decisions about each person."""
        values, place = np.unique(decision, return_inverse=True)
        populations = []
        for group in range(len(self.data.groups)):
            own = np.flatnonzero(self.group == group)
            cell = 2 * place[own] + self.outcomes.outcome[own].astype(np.int64)
            weight = self.outcomes.weight[own]
            sums = [
                np.bincount(cell, each, 2 * len(values)).astype(np.float64).reshape(-1, 2)
                for each in (np.ones(len(own)), weight, weight**2)
            ]
            whose = None
            if self.outcomes.person is not None and self.data.by_person:
                whose = ByPerson.of(self.outcomes.person[own], cell, weight)
            populations.append(Population.counted(Tally(*sums, by_person=whose), values))
        return replace(
            self.data, populations=tuple(populations), table=None, person_row=None,
            person_group=None,
        )  # fmt: skip


def split(
    box: BlackBox, given: Given, beside: Mapping[str, Any], holdout: Any, seed: int
) -> tuple[Part, Part]:
    """The people to make and choose candidates on, and those to judge them on.

    ``holdout`` is the share of people who judge, or other people who do.
    """
    check(
        not is_elsewhere(given.X),
        "X",
        "must be in memory",
        f"got {type(given.X).__name__}",
        "Read a sample of the people: a few hundred thousand are enough for any search.",
    )
    check(
        given.y is not None,
        "y",
        "must hold what really happened",
        "got None",
        "Whether an alternative performs as well can be seen from outcomes alone.",
    )
    if isinstance(holdout, Mapping):
        names = {"X", "y", "sensitive_features", "sample_weight", "ids"}
        check(
            {"X", "y", "sensitive_features"} <= set(holdout) <= names,
            "holdout",
            "must hold X, y and sensitive_features of other people",
            f"got {sorted(map(str, holdout))}",
            "sample_weight and ids may be there too.",
        )
        other = replace(given, **{"sample_weight": None, "ids": None, **holdout})
        values = [name for name, column in beside.items() if not isinstance(column, str)]
        check(
            not values,
            listed(values),
            "must be a column of both tables where other people judge",
            "got values",
            "Put them into a column of X of the same name in both.",
        )
        given, other = given.with_beside(beside), other.with_beside(beside)
        choosing = Part.read("choosing", box, given)
        return choosing, Part.read("judging", box, other, choosing)
    share = 0.5 if holdout is None else holdout
    fix = "It is the share of the people who judge; or give a dict with X, y, sensitive_features."
    check_between("holdout", share, 0, 1, fix, open_ended=True)
    given = given.with_beside(beside)
    judging = _drawn(given, float(share), seed)
    parts = [given.take(np.flatnonzero(judging == side)) for side in (False, True)]
    boxes = [box, box]
    if not box.can_query and box.column is None:
        for k, side in enumerate((False, True)):
            boxes[k] = copy(box)
            boxes[k].model = _take(box.model, np.flatnonzero(judging == side))
    choosing = Part.read("choosing", boxes[0], parts[0])
    return choosing, Part.read("judging", boxes[1], parts[1], choosing)


def _drawn(given: Given, share: float, seed: int) -> Any:
    """Who judges: the share of each group and outcome, all rows of a person together."""
    frame = Frame.read(given.X)
    column = read_column(given.y, frame, "y")
    check_length("y", column, len(frame), "X")
    check_order({"X": frame.native, "y": given.y, "sensitive_features": given.sensitive_features})
    outcome, _ = read_outcome(column, given.pos_label)
    group, *_ = read_groups(given.sensitive_features, frame, len(outcome))
    person = None if given.ids is None else read_people(given.ids, frame, len(group))
    judging = held_out(2 * group + outcome, share, seed, person)
    if judging.all() or not judging.any():
        raise DataError("holdout", "must leave people on both sides", "one side has nobody",
                        "Use more people.")  # fmt: skip
    return judging
