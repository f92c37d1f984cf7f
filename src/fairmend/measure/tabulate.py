"""The data, checked once and tabulated once.

``read`` is the border: it takes what people have (frames, arrays, column names), checks it, and
hands on clean codes. ``tabulate`` asks the model about the distinct rows and counts. Behind it
everything is small read-only arrays, one `Population` a group, whatever the size of the data.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Annotated, Any

import numpy as np

from fairmend.data.columns import (
    Distinct,
    Encoded,
    FloatArray,
    Frame,
    IntArray,
    number,
)
from fairmend.data.groups import RESERVED
from fairmend.data.limits import (
    Between,
    Chances,
    Label,
    Places,
    Scores,
    alike,
    by_outcome,
    flat,
    inside,
    rising,
    sums_to_one,
)
from fairmend.data.naming import GroupNames
from fairmend.data.outcomes import Labels
from fairmend.data.people import Records, read_records
from fairmend.data.stored import stored
from fairmend.data.weights import HEAVIEST
from fairmend.errors import DataError, listed, nearest
from fairmend.measure.elsewhere import Gathered, engines, is_elsewhere
from fairmend.measure.inputs import People, find_doubts, find_leak, refuse, warn
from fairmend.model.answers import Answers
from fairmend.model.blackbox import BlackBox
from fairmend.model.cut import warn_of_idle_cut

__all__ = [
    "AuditData",
    "ByPerson",
    "Population",
    "Tally",
    "tabulate",
    "with_predictions",
]


@dataclass(frozen=True, eq=False)
class ByPerson:
    """Which rows are the same person's: one entry a row of the data, sorted by person.

    Rows of one person are not independent, so standard errors add up a person's rows before they
    square.
    """

    person: IntArray
    """A number for each person, the same in every group."""
    cell: IntArray
    """Two times the row of the population, plus the outcome."""
    weight: FloatArray

    def __post_init__(self) -> None:
        for array in (self.person, self.cell, self.weight):
            array.setflags(write=False)

    @classmethod
    def of(cls, person: IntArray, cell: IntArray, weight: FloatArray) -> ByPerson:
        """Entries in any order."""
        order = np.argsort(person, kind="stable")
        return cls(person[order], cell[order], weight[order])

    @property
    def _starts(self) -> IntArray:
        return np.flatnonzero(np.r_[True, self.person[1:] != self.person[:-1]])

    @property
    def people(self) -> IntArray:
        """Each person's number, once."""
        return self.person[self._starts]

    def sums(self, values: FloatArray) -> FloatArray:
        """Of a value a cell, each person's weighted sum.

        >>> twice = ByPerson.of(np.array([5, 3, 5]), np.array([0, 0, 1]), np.ones(3))
        >>> twice.people.tolist(), twice.sums(np.array([10.0, 1.0])).tolist()
        ([3, 5], [10.0, 11.0])
        """
        return np.asarray(np.add.reduceat(self.weight * values[self.cell], self._starts))

    def into(self, cells: IntArray) -> ByPerson:
        """The same people in other cells: ``cells`` holds for each cell the new one."""
        return replace(self, cell=cells[self.cell])


@stored("Tally")
@dataclass(frozen=True, eq=False)
class Tally:
    """Who was seen, per distinct row (first axis) and outcome 0 or 1 (second axis)."""

    people: Annotated[FloatArray, by_outcome, Between(0, 1 << 53)]
    """How many people."""
    weight: Annotated[FloatArray, by_outcome, Between(0, HEAVIEST * 1e12)]
    """The sum of their weights."""
    squared: Annotated[FloatArray, by_outcome, Between(0, HEAVIEST**2 * 1e12)]
    """The sum of their squared weights, which the standard errors need."""
    by_person: ByPerson | None = field(default=None, kw_only=True)
    """Where some people have several rows, whose is which; people are then rows above. None where
    everybody has one row."""

    def __post_init__(self) -> None:
        for array in (self.people, self.weight, self.squared):
            array.setflags(write=False)

    def agrees(self) -> bool:
        return alike(self.people, self.weight, self.squared)


@stored("Population")
@dataclass(frozen=True, eq=False)
class Population:
    """The inputs of one group as a distribution over m distinct rows.

    ``mass`` is P(x), ``decision`` the model's h(x) in [0, 1] (0 or 1 for hard decisions), and
    ``outcome`` P(Y=1 | x) in this group: observed shares, or a model of them.

    >>> women = Population.of(mass=[3, 1], decision=[0, 1], outcome=[0.2, 0.9])
    >>> women.mass.tolist()
    [0.75, 0.25]
    """

    mass: Annotated[FloatArray, flat, Between(0, 1 + 1e-9), sums_to_one]
    decision: Chances
    outcome: Annotated[FloatArray, flat, Between(0, 1, nan=True)]
    score: Scores | None = None
    """What the model ranks by, where it gives more than decisions."""
    rows: Annotated[Places, rising] | None = None
    """Where each row stands in `AuditData.table`."""
    baseline_mass: Chances | None = None
    """The other group's P1(x) at these rows, where it is known; alignment needs it."""
    tally: Tally | None = None
    """The people behind the masses; None for an exact distribution."""

    def __post_init__(self) -> None:
        for array in (
            self.mass, self.decision, self.outcome, self.score, self.rows, self.baseline_mass,
        ):  # fmt: skip
            if array is not None:
                array.setflags(write=False)

    def agrees(self) -> bool:
        people = None if self.tally is None else self.tally.people
        of_rows = (self.decision, self.outcome, self.score, self.rows, self.baseline_mass)
        return alike(self.mass, *of_rows, people)

    @classmethod
    def of(
        cls,
        mass: Sequence[float] | FloatArray,
        decision: Sequence[float] | FloatArray,
        outcome: Sequence[float] | FloatArray,
        **more: Any,
    ) -> Population:
        """Build one from plain numbers; masses are normalised."""
        weight, h, y = (np.array(values, np.float64) for values in (mass, decision, outcome))
        if weight.ndim != 1 or not weight.shape == h.shape == y.shape:
            raise DataError(
                "Population",
                "must have one mass, decision and outcome a row",
                f"got shapes {weight.shape}, {h.shape} and {y.shape}",
                "Pass three lists of the same length.",
            )
        if not (np.isfinite(weight).all() and (weight >= 0).all() and weight.sum() > 0):
            raise DataError(
                "Population",
                "must have finite masses, none negative, not all 0",
                f"got {listed(weight.tolist())}",
                "They are normalised: counts or weights will do.",
            )
        for name, values in (("decisions", h), ("outcomes", y)):
            inside = (values >= 0) & (values <= 1)
            if not inside.all():
                raise DataError(
                    "Population",
                    f"must have {name} between 0 and 1",
                    f"got {values[np.argmin(inside)]:g}",
                    "They are probabilities of a positive decision and a positive outcome.",
                )
        return cls(weight / weight.sum(), h, y, **more)

    def __len__(self) -> int:
        return len(self.mass)

    def reweighted(self, mass: FloatArray) -> Population:
        """The same rows under other masses: a candidate counterfactual distribution."""
        return replace(self, mass=np.array(mass, np.float64), tally=None)

    def with_outcome(self, outcome: FloatArray) -> Population:
        """The same rows with a model of the outcome in place of the observed shares."""
        return replace(self, outcome=np.array(outcome, np.float64))

    @property
    def answers(self) -> Answers:
        """What the model says about each row."""
        return Answers(self.decision, self.score)

    @property
    def n(self) -> int:
        """How many people stand behind it, each row counted as one; 0 for an exact distribution."""
        return 0 if self.tally is None else round(float(self.tally.people.sum()))

    @property
    def by_person(self) -> ByPerson | None:
        """Whose row is which, where some people have several."""
        return None if self.tally is None else self.tally.by_person

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

        by_person = self.by_person
        if by_person is not None:
            place = np.full(2 * len(self), -1, np.int64)
            place[2 * row + outcome] = 2 * np.arange(len(row)) + outcome
            by_person = by_person.into(place)
        return Population(
            mass=kept / kept.sum(),
            decision=self.decision[row],
            outcome=outcome.astype(np.float64),
            score=pick(self.score),
            rows=pick(self.rows),
            baseline_mass=pick(self.baseline_mass),
            tally=None
            if self.tally is None
            else Tally(*map(spread, (people, weight, squared)), by_person=by_person),
        )


@stored("AuditData")
@dataclass(frozen=True, eq=False)
class AuditData:
    """The tabulated audit data: one population a group over one table of distinct rows."""

    groups: tuple[Label, ...]
    populations: tuple[Population, ...]
    labels: Labels
    attribute: str
    """What the groups are groups of, for people to read: ``sex``, ``sex & age``."""
    table: Frame | None = None
    """The distinct rows, in the container they came in; None if only predictions were read."""
    person_row: IntArray | None = None
    """For each person read, their row of the table; -1 for whoever has weight 0."""
    person_group: IntArray | None = None
    """For each person read, the place of their group in ``groups``; -1 likewise."""
    outcome_known: bool = True
    """Whether what really happened was told; without it only decisions can be compared."""
    recorded: bool = False
    """Whether people came with the model's answers. A row of the table is then inputs together with
    an answer to them: equal inputs come repeatedly where they got several."""

    def agrees(self) -> bool:
        """Whether every group has one name, and people on rows of the table."""
        names = {str(group) for group in self.groups}
        scored = {population.score is not None for population in self.populations}
        return (
            2 <= len(self.groups) == len(names) == len(self.populations)
            and len(scored) == 1
            and names.isdisjoint(RESERVED)
            and all(np.isnan(p.outcome).any() != self.outcome_known for p in self.populations)
            and all(
                self.table is None or p.rows is None or inside(p.rows, len(self.table))
                for p in self.populations
            )
        )

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

    def rows_of_people(self, group: Hashable) -> IntArray | None:
        """For each person read their row among a group's own rows; -1 outside the group."""
        population = self[group]
        if self.person_row is None or self.person_group is None or population.rows is None:
            return None
        place = np.searchsorted(population.rows, self.person_row)
        return np.where(self.person_group == self.place(group), place, -1)

    def rest(self, group: Hashable) -> Population:
        """Everybody but one group, as one population."""
        others = [p for g, p in zip(self.groups, self.populations, strict=True) if g != group]
        return pooled(others)

    @property
    def counted(self) -> AuditData:
        """The same without anything that is kept of single people."""
        populations = tuple(
            population
            if population.by_person is None
            else replace(population, tally=replace(population.tally, by_person=None))  # type: ignore[type-var]
            for population in self.populations
        )
        return replace(self, populations=populations, person_row=None, person_group=None)

    @property
    def people(self) -> int:
        """How many different people there are; somebody with rows in two groups is one."""
        persons = [p.by_person.people for p in self.populations if p.by_person is not None]
        return len(np.unique(np.concatenate(persons))) if persons else self.n

    @property
    def n(self) -> int:
        return sum(population.n for population in self.populations)

    @property
    def names(self) -> GroupNames:
        """What people read for the groups."""
        return GroupNames(self.attribute, self.groups)


def pooled(populations: Sequence[Population]) -> Population:
    """Several populations as one, each weighing what its people weigh."""
    if len(populations) == 1:
        return populations[0]

    def joined(name: str) -> Any:
        parts = [getattr(population, name) for population in populations]
        return None if any(part is None for part in parts) else np.concatenate(parts)

    tallies = [population.tally for population in populations if population.tally is not None]
    if len(tallies) < len(populations):
        raise DataError(
            "groups",
            "must be people counted, to be compared with all others together",
            "got an exact distribution, which has no size",
            "Name one group as the reference.",
        )
    names = ("people", "weight", "squared")
    tally = Tally(
        *(np.concatenate([getattr(t, name) for t in tallies]) for name in names),
        by_person=_pooled_people(tallies),
    )
    total = tally.weight.sum(axis=1)
    return Population(
        mass=total / total.sum(),
        decision=joined("decision"),
        outcome=joined("outcome"),
        score=joined("score"),
        rows=joined("rows"),
        tally=tally,
    )


def _pooled_people(tallies: Sequence[Tally]) -> ByPerson | None:
    """Whose row is which in the tallies one after the other."""
    parts = [tally.by_person for tally in tallies if tally.by_person is not None]
    if len(parts) < len(tallies):
        return None
    start = 2 * np.cumsum([0, *(len(tally.people) for tally in tallies[:-1])])
    return ByPerson.of(
        np.concatenate([part.person for part in parts]),
        np.concatenate([part.cell + first for part, first in zip(parts, start, strict=True)]),
        np.concatenate([part.weight for part in parts]),
    )


def tabulate(
    model: Any,
    X: Any,
    y: Any,
    *,
    sensitive_features: Any,
    sample_weight: Any = None,
    ids: Any = None,
    pos_label: Hashable = None,
    inputs: bool = True,
    known: Frame | None = None,
    unlabelled: Labels | None = None,
) -> AuditData:
    """Check the data, ask the model once per distinct row, and count.

    ``inputs=False`` leaves the inputs untabulated when predictions were recorded: an audit needs
    only decisions, outcomes and groups. With ``unlabelled`` y may be None as well: decisions are
    then read by these labels. ``ids`` say which rows are the same person's. X may be elsewhere: a
    path, a lazy, Dask or Spark frame (see `fairmend.engines`), with columns given by name.
    ``known`` is a table of inputs seen before: the new ones are its columns and, from elsewhere,
    come in its container and types.

    Inputs that nobody names are every column that is nothing else; those that look like something
    else are refused (see `fairmend.measure.inputs`).

    >>> import numpy as np
    >>> X = np.array([[0], [1], [1], [0]])
    >>> data = tabulate(lambda rows: rows[:, 0], X, [0, 1, 0, 0], sensitive_features=list("aabb"))
    >>> data.groups, data["b"].decision.tolist(), data["b"].mass.tolist()
    (('a', 'b'), [0.0, 1.0], [0.5, 0.5])
    """
    box = BlackBox.of(model)
    frame: Frame | None
    if is_elsewhere(X):
        if ids is not None:
            raise DataError(
                "ids",
                "must be left out where X is not in memory",
                f"got {type(X).__name__} as X",
                "Rows elsewhere are counted one person each: read them into a frame to audit "
                "people who have several.",
            )
        with engines().reading_files(X):
            gathered = engines().gather(
                box,
                X,
                y,
                sensitive_features=sensitive_features,
                sample_weight=sample_weight,
                pos_label=pos_label,
                inputs=inputs,
                known=known,
            )
        if gathered.audited is not None:
            return gathered.audited
        frame, told = gathered.frame, gathered.told
        records = _read_cells(gathered, y, pos_label, box.column)
    else:
        frame = None if X is None else Frame.read(X)
        named = _named_inputs(frame, box, known, y)
        told = named is not None
        records = read_records(
            frame,
            y,
            sensitive_features=sensitive_features,
            sample_weight=sample_weight,
            ids=ids,
            pos_label=pos_label,
            predicted=box.column,
            unlabelled=unlabelled,
            predictions=None if box.can_query else box.model,
            input_names=named,
        )
    predictions = box.recorded(frame, len(records))
    everybody, kept = len(records), records.weighing
    if kept is not None:  # as if the others had been left out
        records = records.take(kept)
        if predictions is not None:
            predictions = replace(predictions, codes=predictions.codes[kept])
    table, answers, row, size = _answered(box, frame, records, predictions, inputs=inputs)
    warn_of_idle_cut(box.threshold, answers)
    if table is not None and known is None:
        people = People(
            n=len(records) if records.counts is None else round(records.counts.people.sum()),
            row=row,
            outcome=records.outcome if records.outcome_known else None,
            group=records.group,
        )
        find = find_doubts if inputs and not told else find_leak
        complain = warn if told or table.is_array else refuse
        doubts = find(table, people, answers, box, records.labels)
        complain(doubts, table.names, box, told=told)
    populations = []
    for tally, rows in _tallies(records, row, size):
        total = tally.weight.sum(axis=1)
        populations.append(
            Population(
                mass=total / total.sum(),
                decision=answers.decision[rows],
                outcome=np.divide(
                    tally.weight[:, 1], total, out=np.zeros_like(total), where=total > 0
                )
                if records.outcome_known
                else np.full_like(total, np.nan),
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
        person_row=_spread(row, kept, everybody) if records.counts is None else None,
        person_group=_spread(records.group, kept, everybody) if records.counts is None else None,
        outcome_known=records.outcome_known,
        recorded=predictions is not None,
    )


def _answered(
    box: BlackBox,
    frame: Frame | None,
    records: Records,
    predictions: Encoded | None,
    *,
    inputs: bool,
) -> tuple[Frame | None, Answers, IntArray, int]:
    """The distinct rows, what the model says about each, each entry's row, and how many there are.

    Without ``inputs``, distinct predictions are the rows where there are recorded ones.
    """
    if predictions is None:
        if records.inputs is None:
            raise DataError(
                "X",
                "must hold the model's inputs",
                "got None" if frame is None else f"got no columns but {listed(frame.names)}",
                "Pass the table the model reads.",
            )
        alike = records.inputs.distinct()
        table = records.inputs.take(alike.first)
        answers = box.query(table, records.labels)
        row, size = alike.inverse, len(alike.first)
    else:
        table = None
        row, size = predictions.codes.astype(np.int64, copy=False), len(predictions.values)
        answers = box.interpret(predictions, records.labels)
        if inputs and records.inputs is not None:
            alike = with_predictions(records.inputs, predictions)
            table = records.inputs.take(alike.first)
            answers = answers.take(predictions.codes[alike.first])
            row, size = alike.inverse, len(alike.first)
    return table, answers, row, size


def _named_inputs(
    frame: Frame | None, box: BlackBox, known: Frame | None, y: Any
) -> Sequence[str] | None:
    """The inputs as in fit, as told, or as the model says; None if nobody names them."""
    if frame is None:
        return None
    if known is not None:
        return known.names
    named = box.inputs_among(frame.names, named=not frame.is_array)
    if named is not None and isinstance(y, str) and y in named:
        raise DataError(
            "y",
            "must not be an input of the model",
            f"{y!r} is one",
            "Name another column; if the model does read what really happened, pass y as values.",
        )
    return named


def _spread(values: IntArray, kept: IntArray | None, n: int) -> IntArray:
    """Values of those kept among all n; -1 for the others."""
    if kept is None:
        return values
    spread = np.full(n, -1, np.int64)
    spread[kept] = values
    return spread


def _read_cells(gathered: Gathered, y: Any, pos_label: Hashable, predicted: str | None) -> Records:
    """Cells counted where the rows are, as entries that stand for many people."""
    records = read_records(
        gathered.frame,
        y,
        sensitive_features=gathered.groups,
        pos_label=pos_label,
        predicted=predicted,
        counts=gathered.counts,
    )
    return replace(records, inputs=gathered.inputs)


def with_predictions(inputs: Frame, predictions: Encoded) -> Distinct:
    """Distinct pairs of inputs and recorded prediction."""
    alike = inputs.distinct()
    key = alike.inverse * len(predictions.values) + predictions.codes
    return number(key, len(alike.first) * len(predictions.values))


def _tallies(records: Records, row: IntArray, size: int) -> list[tuple[Tally, IntArray]]:
    """Count people and weights by group, distinct row and outcome."""
    groups = len(records.groups)
    cell = (records.group * size + row) * 2 + records.outcome
    if groups * size * 2 > max(4 * len(cell), 1 << 20):  # most are empty: number the full ones
        full = number(cell // 2, groups * size)
        pairs = cell[full.first] // 2
        cell, shape = full.inverse * 2 + records.outcome, (len(pairs), 2)
    else:
        pairs, shape = None, (groups * size, 2)
    cells = shape[0] * 2

    def summed(weight: FloatArray | None) -> FloatArray:
        return np.bincount(cell, weight, cells).astype(np.float64).reshape(shape)

    counts = records.counts
    people = weight = squared = summed(None if counts is None else counts.people)
    if counts is not None:
        if counts.weight is not counts.people:
            weight, squared = summed(counts.weight), summed(counts.squared)
    elif records.weight is not None:
        weight, squared = summed(records.weight), summed(records.weight**2)
    if pairs is None:
        pairs = np.flatnonzero(people.any(axis=1))
        people, weight, squared = people[pairs], weight[pairs], squared[pairs]
    ends = np.searchsorted(pairs, np.arange(groups + 1) * size)
    by_person = _persons(records, row, size, pairs, ends)
    return [
        (Tally(people[a:b], weight[a:b], squared[a:b], by_person=whose), pairs[a:b] - group * size)
        for group, ((a, b), whose) in enumerate(zip(pairwise(ends), by_person, strict=True))
    ]


def _persons(
    records: Records, row: IntArray, size: int, pairs: IntArray, ends: IntArray
) -> list[ByPerson | None]:
    """For each group whose rows are whose; None if nobody has several.

    ``pairs`` are those of group and row that occur, sorted; a group's lie between two of ``ends``.
    """
    groups = range(len(records.groups))
    person = records.person
    if person is None or np.bincount(person).max() < 2:
        return [None for _ in groups]
    weight = np.ones(len(person)) if records.weight is None else records.weight
    place = np.searchsorted(pairs, records.group * size + row) - ends[records.group]
    cell = 2 * place + records.outcome
    own = (np.flatnonzero(records.group == group) for group in groups)
    return [ByPerson.of(person[rows], cell[rows], weight[rows]) for rows in own]
