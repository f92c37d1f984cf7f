"""The data, checked once and tabulated once.

``read`` is the border: it takes what people have (frames, arrays, column names), checks it, and
hands on clean codes. ``tabulate`` asks the model about the distinct rows and counts. Behind it
everything is small read-only arrays, one `Population` a group, whatever the size of the data.
"""

from __future__ import annotations

import unicodedata
import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Annotated, Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from fairmend.data.columns import (
    Distinct,
    Encoded,
    FloatArray,
    Frame,
    IntArray,
    as_array,
    as_column,
    as_frame,
    as_numbers,
    check_order,
    distinct_rows,
    encode,
    is_missing,
    is_number,
    number,
    scalar,
)
from fairmend.data.ids import number_people
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
from fairmend.data.stored import stored
from fairmend.errors import DataError, FairmendWarning, listed, nearest
from fairmend.measure.elsewhere import Gathered, engines, is_elsewhere
from fairmend.measure.inputs import People, find_doubts, find_leak, refuse, warn
from fairmend.model.blackbox import RECORDED, Answers, BlackBox, Labels, warn_of_idle_cut

__all__ = [
    "AuditData",
    "ByPerson",
    "Population",
    "Records",
    "Tally",
    "are_names",
    "as_label",
    "read",
    "read_membership",
    "tabulate",
    "with_predictions",
]

MAX_GROUPS = 500
UNLABELLED = Labels(0, 1)
"""What decisions are called where nobody says what outcomes are."""
RESERVED = ("best", "rest")
"""No group's label: as a reference they mean the best-off group and all others together."""
# Weights are squared and summed; beyond these that would overflow, or vanish.
LIGHTEST, HEAVIEST = 1e-100, 1e100


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


@dataclass(frozen=True, eq=False)
class Counts:
    """How many people entries stand for, the sum of their weights, and of the squares of these."""

    people: FloatArray
    weight: FloatArray
    squared: FloatArray

    def take(self, entries: IntArray) -> Counts:
        """Of some of the entries."""
        return Counts(self.people[entries], self.weight[entries], self.squared[entries])


@dataclass(frozen=True, eq=False)
class Records:
    """Checked data, one entry a row: the border's word that nothing behind it need doubt."""

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
        """Some of the entries."""
        return replace(
            self,
            inputs=None if self.inputs is None else self.inputs.take(entries),
            outcome=self.outcome[entries],
            group=self.group[entries],
            weight=None if self.weight is None else self.weight[entries],
            counts=None if self.counts is None else self.counts.take(entries),
            person=None if self.person is None else self.person[entries],
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
        records = read(
            frame,
            y,
            sensitive_features=sensitive_features,
            sample_weight=sample_weight,
            ids=ids,
            pos_label=pos_label,
            apart=box.column,
            unlabelled=unlabelled,
            recorded=not box.can_be_asked,
            predictions=None if box.can_be_asked else box.model,
            told=named,
        )
    predictions = box.recorded(frame, len(records))
    everybody, kept = len(records), records.weighing
    if kept is not None:  # as if the others had been left out
        records = records.take(kept)
        if predictions is not None:
            predictions = replace(predictions, codes=predictions.codes[kept])
    table, answers, row, size = _answered(box, frame, records, predictions, inputs=inputs)
    warn_of_idle_cut(box, answers)
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
        answers = box.ask(table, records.labels)
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
    records = read(
        gathered.frame,
        y,
        sensitive_features=gathered.groups,
        pos_label=pos_label,
        apart=predicted,
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


def read(
    frame: Frame | None,
    y: Any,
    *,
    sensitive_features: Any,
    sample_weight: Any = None,
    ids: Any = None,
    pos_label: Hashable = None,
    apart: str | None = None,
    counts: Counts | None = None,
    unlabelled: Labels | None = None,
    recorded: bool = False,
    predictions: Any = None,
    told: Sequence[str] | None = None,
) -> Records:
    """Check everything that comes in, in the order people think of it: y, groups, weights, X.

    ``y``, ``sensitive_features``, ``sample_weight`` and ``ids`` may name columns of X. The inputs
    are the columns ``told``, else all but those named by y, sample_weight and ids, ``apart`` (a
    column of predictions) and, beside ``recorded`` predictions, the groups. ``counts`` says how
    many people each entry stands for, where that is not one. Of ``predictions`` only the order is
    looked at.
    """
    column = None if y is None and unlabelled is not None else _column(y, frame, "y")
    if frame is not None and column is not None and len(frame) != len(column):
        raise DataError(
            "y",
            "must have one entry a row of X",
            f"got {len(column):,} entries for {len(frame):,} rows",
            "Check that both come from the same filter.",
        )
    check_order(
        {"X": None if frame is None else frame.native, "y": y,
         "sensitive_features": sensitive_features, "sample_weight": sample_weight, "ids": ids,
         RECORDED: predictions},
    )  # fmt: skip
    if column is not None:
        outcome, labels = _read_outcome(column, pos_label)
    else:
        assert unlabelled is not None
        _refuse_pos_label(pos_label, unlabelled)
        n = _people(sensitive_features, frame) if frame is None else len(frame)
        outcome, labels = np.zeros(n, np.int64), unlabelled  # no rate is asked of these zeros
    n = len(outcome)
    group, groups, attribute = _read_groups(sensitive_features, frame, n)
    weight = None
    if sample_weight is not None:
        weight = _read_weight(_column(sample_weight, frame, "sample_weight"), n)
    weighed = weight if counts is None else counts.weight
    if weighed is not None:
        if column is not None:
            _check_outcomes_weigh(weighed, outcome)
        _check_groups_weigh(weighed, group, groups)
    person = None if ids is None else _read_ids(ids, frame, n)
    inputs = frame
    if frame is not None:
        named = {name for name in (y, sample_weight, ids, apart) if isinstance(name, str)}
        if recorded:  # a model may read the group; beside answers it only says who is who
            named |= set(_named_groups(sensitive_features, frame))
        left = [name for name in frame.names if name not in named]
        if told is not None:
            left = [name for name in told if name != apart]
        inputs = frame.select(left) if left else None  # none: predictions and outcomes alone
    return Records(
        inputs, outcome, group, groups, weight, labels, attribute, counts, column is not None,
        person,
    )  # fmt: skip


def _refuse_pos_label(pos_label: Hashable, labels: Labels) -> None:
    """Without outcomes there is nothing it could be a value of."""
    if pos_label not in (None, labels.positive):
        raise DataError(
            "pos_label",
            "must be left out where y is None",
            f"got {pos_label!r}",
            "Name the model's own words: BlackBox(model, words=(negative, positive)).",
        )


def _people(sensitive_features: Any, frame: Frame | None) -> int:
    return len(_sensitive_columns(sensitive_features, frame)[0][1])


def _column(values: Any, frame: Frame | None, what: str) -> Any:
    """A 1-D array or narwhals series, from values or from the name of a column of X."""
    if not isinstance(values, str):
        return as_column(values, what)
    if frame is None:
        raise DataError(
            what,
            "must hold one value a person",
            f"got the name {values!r} without an X to look in",
            "Pass X, or the values themselves.",
        )
    return frame.column(values, what)


def _read_outcome(column: Any, pos_label: Hashable) -> tuple[IntArray, Labels]:
    if len(column) == 0:
        raise DataError(
            "y", "must have at least one entry", "got none", "Check the filter that made it."
        )
    encoded = encode(column, "y")
    if encoded.has_missing:
        raise MissingOutcomes.of(encoded)
    values = [scalar(value) for value in encoded.values]
    labels = Labels.of(values, pos_label)
    positive = np.array([value == labels.positive for value in values], np.int64)
    return positive[encoded.codes], labels


class MissingOutcomes(DataError):
    """What really happened is not known of everybody; ``known`` says of whom it is."""

    known: NDArray[np.bool_]
    values: list[Hashable]
    """The outcomes there are."""

    @classmethod
    def of(cls, column: Encoded) -> MissingOutcomes:
        """The error about a column of outcomes."""
        error = cls(
            "y",
            *_missing(column),
            "For sp pass y=None, which compares the decisions of everybody; for error rates leave "
            "these people out: the rates are then over people whose outcome is known.",
        )
        error.known = ~column.missing
        error.values = [scalar(value) for value in column.values if not is_missing(value)]
        return error


def _missing(column: Encoded) -> tuple[str, str]:
    """What a column must be whose entries are not all there, and what it is."""
    missing = column.missing
    return (
        "must be known for every person",
        f"got {int(missing.sum()):,} missing, first in row {int(np.argmax(missing)):,}",
    )


def _check_known(column: Encoded, what: str, fix: str) -> None:
    if column.has_missing:
        raise DataError(what, *_missing(column), fix)


def _check_length(column: Any, n: int, what: str) -> None:
    if len(column) != n:
        raise DataError(
            what,
            "must have one entry a person, as y has",
            f"got {len(column):,} entries for {n:,} people",
            "Check that both come from the same filter.",
        )


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
            _intersection(scalar(part.values[part.codes[row]]) for part in encoded)
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
            "Use one type for all labels, or rename them.",
        )
    for taken in RESERVED:
        if taken in groups:
            raise DataError(
                "sensitive_features",
                "must not call a group 'best' or 'rest'",
                f"got {taken!r}",
                "These mean the best-off group and all others together: rename it.",
            )
    return member.astype(np.int64, copy=False), groups, " & ".join(name for name, _ in parts)


def _intersection(labels: Iterable[Hashable]) -> str:
    """The label of people who share several; numbers that are equal are spelt alike.

    A column of whole numbers comes as floats as soon as one entry is missing.

    >>> [_intersection(labels) for labels in (("F", 1), ("F", 1.0), ("F", True), ("F", 1.5))]
    ['F & 1', 'F & 1', 'F & 1', 'F & 1.5']
    """
    return " & ".join(
        str(int(label)) if isinstance(label, int | float) and label % 1 == 0 else str(label)
        for label in labels
    )


def group_of(labels: Iterable[Hashable]) -> Hashable:
    """The group of people with these labels, one an attribute."""
    labels = list(labels)
    return labels[0] if len(labels) == 1 else _intersection(labels)


def read_membership(
    given: Any, frame: Frame, groups: tuple[Hashable, ...]
) -> tuple[IntArray, NDArray[np.bool_]]:
    """Each person's place among audited groups, -1 for none of them, and who opted out.

    A missing label is an opt-out: that person wants the model's own answer.
    """
    n = len(frame)
    check_order({"X": frame.native, "sensitive_features": given})
    encoded = []
    for name, column in _sensitive_columns(given, frame):
        what = f"sensitive_features {name!r}"
        _check_length(column, n, what)
        encoded.append(encode(column, what))
    alike = distinct_rows(encoded)
    known = {as_label(group): place for place, group in enumerate(groups)}
    known |= {group: place for place, group in enumerate(groups)}
    place, missing = [], []
    for row in alike.first:
        labels = [scalar(part.values[part.codes[row]]) for part in encoded]
        missing.append(any(is_missing(label) for label in labels))
        spelt = [group_of(labels), group_of(map(as_label, labels))]
        place.append(-1 if missing[-1] else next((known[s] for s in spelt if s in known), -1))
    return np.array(place, np.int64)[alike.inverse], np.array(missing, bool)[alike.inverse]


def _sensitive_columns(given: Any, frame: Frame | None) -> list[tuple[str, Any]]:
    """Each attribute's name and its column."""
    what = "sensitive_features"
    if isinstance(given, str):
        return [(given, _column(given, frame, what))]
    if isinstance(given, Mapping):
        columns = [
            (str(name), _column(values, frame, f"{what} {str(name)!r}"))
            for name, values in given.items()
        ]
    elif isinstance(given, list | tuple) and frame is not None and are_names(given, frame):
        columns = [(name, frame.column(name, what)) for name in given]
    elif (table := as_frame(given, what)) is not None:
        columns = [(str(name), table.get_column(name)) for name in table.columns]
    else:
        array = as_array(given, what)
        if getattr(array, "ndim", 1) == 2:
            columns = [(f"s{j}", array[:, j]) for j in range(array.shape[1])]
        else:
            name = getattr(given, "name", None)
            columns = [("group" if name in (None, "") else str(name), as_column(array, what))]
    if not columns:
        raise DataError(
            what, "must have at least one column", "got none", "Pass one label a person."
        )
    return columns


def _named_groups(given: Any, frame: Frame) -> list[str]:
    """The columns of X that are named as groups."""
    if isinstance(given, str):
        return [given]
    if isinstance(given, Mapping):
        return [name for name in given.values() if isinstance(name, str)]
    return list(given) if isinstance(given, list | tuple) and are_names(given, frame) else []


def are_names(given: Sequence[Any], frame: Frame) -> bool:
    """Whether a list of texts names columns of X; a list as long as X holds people's labels."""
    texts = len(given) != len(frame) and all(isinstance(name, str) for name in given)
    return texts and not set(given).isdisjoint(frame.names)


def _read_attribute(name: str, column: Any, n: int) -> Encoded:
    what = f"sensitive_features {name!r}"
    _check_length(column, n, what)
    encoded = encode(column, what)
    _check_known(
        encoded, what, "Leave these people out, or name them, e.g. with .fillna('unknown')."
    )
    return _one_spelling(encoded, what)


def as_label(value: Hashable) -> Hashable:
    """A group's label as it is known: text without blanks around it, in Unicode's NFC form.

    Otherwise two groups could print alike. Text of blanks alone stays what it is.

    >>> as_label("F "), as_label(1), as_label(" ")
    ('F', 1, ' ')
    """
    if not isinstance(value, str):
        return value
    return unicodedata.normalize("NFC", value.strip()) or value


def _one_spelling(encoded: Encoded, what: str) -> Encoded:
    """Labels as they are known, with a warning where that changes any."""
    labels = [scalar(value) for value in encoded.values]
    odd = [label for label in labels if as_label(label) != label]
    if not odd:
        return encoded
    spelt = np.empty(len(labels), object)
    spelt[:] = [as_label(label) for label in labels]
    alike = encode(spelt, what)
    warnings.warn(
        f"{what}: {listed(odd)} {'is' if len(odd) == 1 else 'are'} read as "
        f"{listed(dict.fromkeys(map(as_label, odd)))}: blanks around a label and the two ways to "
        "write an accent do not make another group",
        FairmendWarning,
        stacklevel=2,
    )
    return Encoded(alike.codes[encoded.codes], alike.values)


def _read_weight(column: Any, n: int) -> FloatArray:
    what = "sample_weight"
    _check_length(column, n, what)
    entries = column.to_numpy() if isinstance(column, nw.Series) else column
    weight = as_numbers(entries)
    if weight is None:
        row = next(i for i, entry in enumerate(entries) if not is_number(entry))
        raise DataError(
            what,
            "must hold numbers",
            f"got {scalar(entries[row])!r} in row {row:,}",
            "Pass one number a person.",
        )
    fine = (weight == 0) | (weight >= LIGHTEST) & (weight <= HEAVIEST)
    if not fine.all():
        row = int(np.argmin(fine))
        extreme = np.isfinite(weight[row]) and weight[row] > 0
        raise DataError(
            what,
            f"must be 0 or from {LIGHTEST:g} to {HEAVIEST:g}"
            if extreme
            else "must be finite and not negative",
            f"got {weight[row]:g} in row {row:,}",
            "Only ratios matter: divide all by the same number."
            if extreme
            else "Somebody who should not count has weight 0.",
        )
    return weight


def _read_ids(ids: Any, frame: Frame | None, n: int) -> IntArray:
    """A number for each person."""
    given = _column(ids, frame, "ids") if isinstance(ids, str) else ids
    person = number_people(given.to_native() if isinstance(given, nw.Series) else given)
    _check_length(person, n, "ids")
    return person


def _check_outcomes_weigh(weight: FloatArray, outcome: IntArray) -> None:
    if weight.any() and not np.bincount(outcome, weight, 2).all():
        raise DataError(
            "sample_weight",
            "must be positive for people of both outcomes",
            "one class of y has zero weight",
            "Error rates need both outcomes in the data.",
        )


def _check_groups_weigh(weight: FloatArray, group: IntArray, groups: tuple[Hashable, ...]) -> None:
    totals = np.bincount(group, weight, len(groups))
    if not totals.all():
        whose = f" of group {groups[int(np.argmin(totals))]!r}" if totals.any() else ""
        raise DataError(
            "sample_weight",
            "must be positive for somebody in every group",
            f"all weights{whose} are zero",
            "Give them weight, or leave the group out.",
        )
