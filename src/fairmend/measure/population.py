"""People counted: one `Population` a group over distinct rows, and all of them as `AuditData`.

Everything behind the tabulation works on these small read-only arrays, whatever the size of the
data. Weights are summed here, once: per row and outcome, with the squares that errors need.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np

from fairmend.data.columns import FloatArray, Frame, IntArray
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
from fairmend.data.stored import stored
from fairmend.data.weights import HEAVIEST
from fairmend.errors import DataError, check, check_choice, listed
from fairmend.model.answers import Answers


def _freeze(*arrays: Any) -> None:
    for array in arrays:
        if array is not None:
            array.setflags(write=False)


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
        _freeze(self.person, self.cell, self.weight)

    @classmethod
    def of(cls, person: IntArray, cell: IntArray, weight: FloatArray) -> ByPerson:
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
    """People per distinct row (first axis) and outcome 0 or 1 (second axis)."""

    people: Annotated[FloatArray, by_outcome, Between(0, 1 << 53)]
    """How many people."""
    weight: Annotated[FloatArray, by_outcome, Between(0, HEAVIEST * 1e12)]
    """The sum of their weights."""
    squared: Annotated[FloatArray, by_outcome, Between(0, HEAVIEST**2 * 1e12)]
    """The sum of their squared weights, which the standard errors need."""
    by_person: ByPerson | None = field(default=None, kw_only=True)
    """Where some people have several rows: whose is which. ``people`` then counts rows."""

    def __post_init__(self) -> None:
        _freeze(self.people, self.weight, self.squared)

    def agrees(self) -> bool:
        return alike(self.people, self.weight, self.squared)

    @property
    def sums(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        return self.people, self.weight, self.squared

    @property
    def by_row(self) -> FloatArray:
        """The weight of each row, whatever the outcome."""
        return self.weight[:, 0] + self.weight[:, 1]  # sum(axis=1) is slow over just two

    @property
    def squared_by_row(self) -> FloatArray:
        return self.squared[:, 0] + self.squared[:, 1]

    def share(self, nobody: float = 0.0) -> FloatArray:
        """The weighted share of positive outcomes on each row.

        >>> Tally(*3 * [np.array([[3.0, 1.0], [0.0, 0.0]])]).share(nobody=0.5).tolist()
        [0.25, 0.5]
        """
        total = self.by_row
        share: FloatArray = np.full(len(total), nobody)
        return np.divide(self.weight[:, 1], total, out=share, where=total > 0)


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
        _freeze(self.mass, self.decision, self.outcome, self.score, self.rows, self.baseline_mass)

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
        *,
        score: FloatArray | None = None,
        rows: IntArray | None = None,
        baseline_mass: FloatArray | None = None,
        tally: Tally | None = None,
    ) -> Population:
        """Build one from plain numbers; masses are normalised."""
        weight, h, y = (np.array(values, np.float64) for values in (mass, decision, outcome))
        what, must = "Population", "must have one mass, decision and outcome a row"
        got = f"got shapes {weight.shape}, {h.shape} and {y.shape}"
        fix = "Pass three lists of the same length."
        check(weight.ndim == 1 and weight.shape == h.shape == y.shape, what, must, got, fix)
        fine = np.isfinite(weight) & (weight >= 0)
        if not (fine.all() and weight.sum() > 0):
            must = "must have finite masses, none negative, not all 0"
            fix = "They are normalised: counts or weights will do."
            raise DataError(what, must, f"got {listed(weight.tolist())}", fix)
        fix = "They are probabilities of a positive decision and a positive outcome."
        for name, values in (("decisions", h), ("outcomes", y)):
            fine = (values >= 0) & (values <= 1)
            got = f"got {values[np.argmin(fine)]:g}"
            check(fine.all(), what, f"must have {name} between 0 and 1", got, fix)
        return cls(weight / weight.sum(), h, y, score, rows, baseline_mass, tally)

    @classmethod
    def counted(
        cls,
        tally: Tally,
        decision: FloatArray,
        *,
        outcome_known: bool = True,
        score: FloatArray | None = None,
        rows: IntArray | None = None,
    ) -> Population:
        """People counted on rows: masses and outcomes are their shares."""
        total = tally.by_row
        outcome = tally.share() if outcome_known else np.full_like(total, np.nan)
        return cls(total / total.sum(), decision, outcome, score, rows, tally=tally)

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
    def people(self) -> int:
        """How many different people there are; 0 for an exact distribution."""
        return self.n if self.by_person is None else len(self.by_person.people)

    @property
    def by_person(self) -> ByPerson | None:
        """Whose row is which, where some people have several."""
        return None if self.tally is None else self.tally.by_person

    @property
    def counts(self) -> Tally:
        """The people of each row by outcome; masses stand for them in an exact distribution."""
        if self.tally is not None:
            return self.tally
        mass = self.mass[:, None] * np.stack([1 - self.outcome, self.outcome], axis=1)
        return Tally(mass, mass, mass)

    @property
    def observed(self) -> Population:
        """One cell per row and outcome really seen, so that every outcome is 0 or 1.

        A disparity has the same value here; its influence is then that of single people.
        """
        tally = self.counts
        row, outcome = np.nonzero(tally.people)
        cell = np.arange(len(row))
        kept = tally.weight[row, outcome]

        def spread(whole: FloatArray) -> FloatArray:
            cells = np.zeros((len(row), 2))
            cells[cell, outcome] = whole[row, outcome]
            return cells

        by_person = tally.by_person
        if by_person is not None:
            place = np.full(2 * len(self), -1, np.int64)
            place[2 * row + outcome] = 2 * cell + outcome
            by_person = by_person.into(place)

        def pick(array: Any) -> Any:
            return None if array is None else array[row]

        return Population(
            mass=kept / kept.sum(),
            decision=self.decision[row],
            outcome=outcome.astype(np.float64),
            score=pick(self.score),
            rows=pick(self.rows),
            baseline_mass=pick(self.baseline_mass),
            tally=None
            if self.tally is None
            else Tally(*map(spread, tally.sums), by_person=by_person),
        )

    @property
    def by_decision(self) -> Population:
        """The people by decision and outcome, which is all that rates depend on: a few cells."""
        if self.tally is None:
            return self.observed
        h, tally = self.decision, self.tally
        if np.isin(h, (0, 1)).all():
            values, member = np.array([0.0, 1.0]), np.stack([1 - h, h])
            place: IntArray = h.astype(np.int64)
            sums = [member @ part for part in tally.sums]
        else:
            values, place = np.unique(h, return_inverse=True)
            sums = [
                np.stack([np.bincount(place, part[:, y], len(values)) for y in (0, 1)], axis=1)
                for part in tally.sums
            ]
        by_person = tally.by_person
        if by_person is not None:
            by_person = by_person.into((2 * place[:, None] + np.arange(2)).ravel())
        return Population.counted(Tally(*sums, by_person=by_person), values).observed


def ranked_above(place: IntArray, mass: FloatArray) -> FloatArray:
    """How much of a mass each row is ranked above by its place, ties by half."""
    at = np.bincount(place, mass)
    return np.asarray((np.cumsum(at) - at / 2)[place], np.float64)


def pooled(populations: Sequence[Population]) -> Population:
    """Several populations as one, each weighing what its people weigh."""
    if len(populations) == 1:
        return populations[0]
    tallies = [population.tally for population in populations if population.tally is not None]
    must = "must be people counted, to be compared with all others together"
    got, fix = "got an exact distribution, which has no size", "Name one group as the reference."
    check(len(tallies) == len(populations), "groups", must, got, fix)

    def joined(name: str) -> Any:
        parts = [getattr(population, name) for population in populations]
        return None if any(part is None for part in parts) else np.concatenate(parts)

    tally = Tally(
        *map(np.concatenate, zip(*(tally.sums for tally in tallies), strict=True)),
        by_person=_pooled_people(tallies),
    )
    people = Population.counted(tally, joined("decision"), score=joined("score"))
    return replace(people, outcome=joined("outcome"), rows=joined("rows"))


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


@stored("AuditData")
@dataclass(frozen=True, eq=False)
class AuditData:
    """The tabulated audit data: one population per group over one table of distinct rows."""

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
    """Whether outcomes were given; without them only decisions can be compared."""
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
        must = f"must be one of the {len(self.groups)} groups in sensitive_features"
        check_choice(what, group, self.groups, must=must)
        return self.groups.index(group)

    def rows_of_people(self, group: Hashable) -> IntArray | None:
        """For each person read their row among a group's own rows; -1 outside the group."""
        population = self[group]
        if self.person_row is None or self.person_group is None or population.rows is None:
            return None
        place = np.searchsorted(population.rows, self.person_row)
        return np.where(self.person_group == self.place(group), place, -1)

    def table_of(self, population: Population) -> Frame | None:
        """The inputs of a population's rows, where inputs were read."""
        if self.table is None or population.rows is None:
            return None
        return self.table.take(population.rows)

    def against(self, target: Hashable, baseline: Hashable) -> Population:
        """The people a group is compared with: those of another group, or the rest."""
        return self.rest(target) if baseline == "rest" else self[baseline]

    def rest(self, group: Hashable) -> Population:
        """Everybody but one group, as one population."""
        others = [p for g, p in zip(self.groups, self.populations, strict=True) if g != group]
        return pooled(others)

    @property
    def counted(self) -> AuditData:
        """The same without anything that is kept of single people."""
        populations = tuple(
            p if p.tally is None else replace(p, tally=replace(p.tally, by_person=None))
            for p in self.populations
        )
        return replace(self, populations=populations, person_row=None, person_group=None)

    @property
    def without_rows(self) -> AuditData:
        """The groups by decision and outcome alone: on which row somebody of a group is, is gone.

        The table stays: it is everybody's.
        """
        populations = []
        for population in self.counted.populations:
            few = replace(population.by_decision, score=None)
            if not self.outcome_known:
                few = replace(few, outcome=np.full(len(few), np.nan))
            populations.append(few)
        return replace(self.counted, populations=tuple(populations))

    @property
    def by_person(self) -> bool:
        """Whether some people have several rows."""
        return any(population.by_person is not None for population in self.populations)

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
