"""One batch of people through a repair: their laws, their draws, their decisions and edited rows.

The estimator applies one batch, the command line many, an engine one for each part of its rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fairmend.apply.laws import FittedRepair, Laws, row_keys
from fairmend.apply.shared_draws import SharedDraws, worst
from fairmend.data.columns import BoolArray, Encoded, FloatArray, Frame, IntArray
from fairmend.data.containers import as_kind, kind_of
from fairmend.data.given import as_column, check_order, container_name
from fairmend.data.groups import Membership
from fairmend.data.ids import BadId, content_ids
from fairmend.data.rows import replaced
from fairmend.errors import DataError, check, check_columns, check_length, listed
from fairmend.measure.tabulate import with_predictions
from fairmend.model.answers import Answers
from fairmend.model.blackbox import RECORDED
from fairmend.repair.plan import Route

_MANY = 10_000
"""From so many distinct rows on, rows that hardly repeat are not remembered."""


@dataclass(frozen=True, eq=False)
class People:
    """New people, as read."""

    inputs: Frame
    """The model's inputs."""
    groups: Membership
    """Whose place among the audited groups is which; who opted out keeps the model's answer."""
    recorded: Encoded | None
    """The model's answers, where it cannot be queried."""
    ids: Any
    cast: bool
    """Whether rows must be put into the container and the types of the fit for the model."""

    def __len__(self) -> int:
        return len(self.inputs)


def read_people(
    repair: FittedRepair, X: Any, groups: Any, ids: Any = None, *, cast: bool = False
) -> People:
    """Read new people; with ``cast`` they may come in another container than those of the fit."""
    frame = Frame.read(X)
    inputs = fitted_inputs(repair, frame, cast=cast)
    recorded_here = None if repair.box.can_query else repair.box.model
    given = {"X": frame.native, "sensitive_features": groups, "ids": ids, RECORDED: recorded_here}
    check_order(given)
    members = Membership.everybody(len(frame))  # under a blind rule nobody's group is read
    if repair.blind:
        refuse_groups(groups)
    else:
        members = repair.groups.read(groups, frame)
    recorded = repair.box.recorded(frame, len(frame))
    return People(inputs, members, recorded, _read_ids(ids, frame), cast)


def refuse_groups(given: Any, what: str = "sensitive_features") -> None:
    """A blind repair takes no groups: it says so, rather than not look at them."""
    check(
        given is None,
        what,
        "must be left out: this repair is blind",
        "got groups",
        "Its rule reads inputs alone, so that equal inputs get equal decisions.",
    )


def fitted_inputs(repair: FittedRepair, frame: Frame, *, cast: bool = False) -> Frame:
    """The model's inputs by name, whatever order they come in."""
    fitted = repair.table
    both_arrays = frame.is_array and fitted.is_array
    if not cast and not both_arrays and type(frame.native) is not type(fitted.native):
        raise DataError(
            "X",
            f"must come as in fit, in a {container_name(fitted.native)}",
            f"got a {container_name(frame.native)}",
            "Convert it first.",
        )
    if both_arrays and len(frame.names) != len(fitted.names):
        raise DataError(
            "X",
            "must have the columns of fit",
            f"X has {len(frame.names)} features, but RepairedClassifier is expecting "
            f"{len(fitted.names)} features as input",
            "Pass the model's inputs alone.",
        )
    fix = "Pass the model's inputs under the same names."
    check_columns("X", frame.names, fitted.names, fix, of="fit")
    return frame.select(fitted.names)


def _read_ids(ids: Any, frame: Frame) -> Any:
    """One id a row, from values or from the name of a column; None where there are none."""
    if ids is None:
        return None
    if isinstance(ids, str):
        return frame.column(ids, "ids")
    column = ids if isinstance(ids, list | tuple) else as_column(ids, "ids")
    check_length("ids", column, len(frame), "X")
    return column


# -------------------------------------------------------------------- what becomes of them


def in_row(row: int) -> str:
    """Where somebody is in a batch, in words."""
    return f"row {row:,}"


def apply_batch(
    repair: FittedRepair,
    people: People,
    *,
    edits: bool = True,
    laws: Laws | None = None,
    where: Callable[[int], str] = in_row,
) -> Applied:
    """Look up everybody's law; without ``edits`` as far as decisions go.

    ``laws`` remembers them for the next batch. ``where`` says where a row is, for errors.
    """
    if people.groups.unknown.any() and repair.unknown_group == "error":
        raise DataError(
            "sensitive_features",
            f"must be among the audited groups, {listed(repair.data.groups)}, or missing",
            f"got {people.groups.first_unknown!r} in "
            f"{where(int(np.argmax(people.groups.unknown)))}",
            "Audit that group too, or use unknown_group='keep'.",
        )
    laws = Laws(repair, edits=edits, most=0) if laws is None else laws
    recorded = people.recorded
    if recorded is None:
        alike = people.inputs.distinct()
    else:
        alike = with_predictions(people.inputs, recorded)
    rows = people.inputs.take(alike.first)
    keys = None
    if laws.most > 0 and not (len(rows) > _MANY and 2 * len(rows) > len(people)):
        more = [] if recorded is None else [recorded.values[recorded.codes[alike.first]].tolist()]
        keys = row_keys(rows, *more)
    if recorded is None:
        answers = laws.answers(None if repair.box.random else keys, rows, cast=people.cast)
    else:
        answers = repair.box.interpret(recorded, repair.data.labels)
        answers = answers.take(recorded.codes[alike.first])
    if repair.box.random and keys is not None:  # the law belongs to a row and its answer
        score = answers.decision if answers.score is None else answers.score
        keys = list(zip(keys, answers.decision.tolist(), score.tolist(), strict=True))
    of_groups = []
    for group in repair.plan_of:
        members = np.flatnonzero(people.groups.place == group)
        if len(members) > 0:
            used, place = _used(alike.inverse[members], len(rows))
            some = None if keys is None else [keys[i] for i in used.tolist()]
            route = laws.route(group, some, rows.take(used), answers.take(used), cast=people.cast)
            of_groups.append(GroupLaw(route, members, place, used))
    return Applied(repair, people, rows, alike.inverse, answers, tuple(of_groups), where)


def _used(row: IntArray, size: int) -> tuple[IntArray, IntArray]:
    """The rows that are used at all, in order, and the place of each person's among them."""
    is_used = np.zeros(size, bool)
    is_used[row] = True
    return np.flatnonzero(is_used), (np.cumsum(is_used) - 1)[row]


@dataclass(frozen=True, eq=False)
class GroupLaw:
    """One plan's law for the people it is about."""

    route: Route
    members: IntArray
    """Their places among all people."""
    place: IntArray
    """Each member's row of the route."""
    used: IntArray
    """The route's rows among all distinct rows."""


@dataclass(frozen=True, eq=False)
class Applied:
    """What a repair does to a batch of people; nothing is drawn before it is asked for."""

    repair: FittedRepair
    people: People
    rows: Frame
    """The distinct ones."""
    row: IntArray
    """Each person's distinct row."""
    answers: Answers
    """The model's, per distinct row."""
    laws: tuple[GroupLaw, ...]
    where: Callable[[int], str]

    # ---------------------------------------------------------------- the exact law

    @property
    def chance(self) -> FloatArray:
        """Each person's chance of a positive decision."""
        return self._expected(self.answers.decision, lambda route: route.decision)

    @property
    def expected_score(self) -> FloatArray | None:
        """The model's score at the edited row, averaged over the law; None if it has none."""
        if self.answers.score is None:
            return None
        return self._expected(
            self.answers.score, lambda route: np.empty(0) if route.score is None else route.score
        )

    def _expected(self, own: FloatArray, there: Callable[[Route], FloatArray]) -> FloatArray:
        value = own[self.row]
        for law in self.laws:
            value[law.members] = law.route.expected(own[law.used], there(law.route))[law.place]
        return value

    @property
    def variance_decided(self) -> FloatArray:
        """Of each person's decision, 0 or 1, as it is drawn."""
        chance = self.chance
        return chance * (1 - chance)

    @property
    def variance_edited(self) -> FloatArray:
        """Of the model's decision about each person's edited row, as the edit is drawn."""
        squared = self._expected(self.answers.decision**2, lambda route: route.decision**2)
        return np.maximum(0.0, squared - self.chance**2)

    def shared_draws(self, variance: FloatArray) -> SharedDraws | None:
        """What it does to a rate that equal rows share one draw, where that is much."""
        groups = self.repair.data.groups
        members = (
            np.flatnonzero(self.people.groups.place == place) for place in range(len(groups))
        )
        return worst(
            SharedDraws.by_row(group, self.row[who], variance[who])
            for group, who in zip(groups, members, strict=True)
        )

    # ---------------------------------------------------------------- the draw

    @cached_property
    def randomised(self) -> BoolArray:
        """Whose edit is drawn."""
        random = np.zeros(len(self.row), bool)
        for law in self.laws:
            random[law.members] = law.route.random[law.place]
        return random

    @cached_property
    def picked(self) -> tuple[IntArray, ...]:
        """For each plan where its members go, by their own draws; -1 to stay."""
        uniform = self._uniform(np.flatnonzero(self.randomised), "repair")
        return tuple(law.route.pick(law.place, uniform[law.members]) for law in self.laws)

    @cached_property
    def chance_after_edits(self) -> FloatArray:
        """The model's decision about each person's edited row; a chance where it is soft."""
        value = self.answers.decision[self.row]
        for law, picked in zip(self.laws, self.picked, strict=True):
            moved = picked >= 0
            value[law.members[moved]] = law.route.decision[picked[moved]]
        return value

    @cached_property
    def decision(self) -> IntArray:
        """0 or 1; where the model gives only its chance, drawn by another number of the person."""
        decision = self.chance_after_edits.copy()
        soft = np.flatnonzero((decision > 0) & (decision < 1))
        decision[soft] = self._uniform(soft, "decision")[soft] < decision[soft]
        return decision.astype(np.int64)

    @cached_property
    def moved(self) -> list[tuple[IntArray, Frame]]:
        """For each plan who is edited, and their edited rows, in the container of the batch."""
        kind = kind_of(self.people.inputs.native)
        edited = []
        for law, picked in zip(self.laws, self.picked, strict=True):
            who = np.flatnonzero(picked >= 0)
            if len(who) > 0:
                assert law.route.table is not None
                there = law.route.table.take(picked[who])
                edited.append((law.members[who], Frame(as_kind(there.native, kind), there.names)))
        return edited

    @property
    def edited(self) -> Frame:
        """Everybody's inputs after the edits."""
        edited = self.people.inputs
        for who, there in self.moved:
            edited = replaced(edited, who, there)
        return edited

    def _uniform(self, who: IntArray, purpose: str) -> FloatArray:
        """The numbers of some people, 0 for the others; ids are read for these only."""
        uniform = np.zeros(len(self.row))
        if len(who) == 0:
            return uniform
        drawer, ids = self.repair.drawer(purpose), self.people.ids
        if ids is None:
            used, place = np.unique(self.row[who], return_inverse=True)
            uniform[who] = drawer.uniform(content_ids(self.rows.take(used)))[place]
            return uniform
        try:
            entries = [ids[i] for i in who] if isinstance(ids, list | tuple) else ids[who]
            uniform[who] = drawer.uniform(entries)
        except BadId as error:
            raise error.at(self.where(int(who[error.row]))) from None
        return uniform
