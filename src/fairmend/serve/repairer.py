"""A fitted repair as a server needs it: laws of single rows, kept once found; draws for people.

A request asks the vendor about its rows, and only then is routed: the law of a row is a function of
the row and of the vendor's answer, so that it is looked up where it was found before. Finding one
may ask the vendor about mixtures of rows; that happens in a thread, through the function given.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairmend.apply.draw import Drawer
from fairmend.classifier import RepairedClassifier
from fairmend.data.columns import Frame, encode, is_missing
from fairmend.data.groups import as_label
from fairmend.data.ids import content_ids
from fairmend.errors import DataError, ModelError
from fairmend.model.answers import Answers
from fairmend.model.protocols.wire import BadAnswer, BadRequest
from fairmend.model.remote import cells
from fairmend.repair.plan import Plan, Route
from fairmend.serve.fast import FastReader
from fairmend.serve.schema import Row, Schema

__all__ = ["Law", "Repairer", "Said"]

MOST_LAWS = 200_000
"""Laws kept; beyond this the oldest half is forgotten and found again when asked for."""


@dataclass(frozen=True, slots=True)
class Said:
    """The vendor's answer about a row, as read."""

    decision: float
    score: float | None


@dataclass(frozen=True, slots=True)
class Law:
    """Where one row may go, with the chances added up; None is to stay."""

    destinations: tuple[Row | None, ...]
    cumulative: tuple[float, ...]
    random: bool

    def pick(self, uniform: float) -> Row | None:
        """The destination a number in [0, 1) draws, as `Route.pick` does.

        >>> Law((None, ("x",)), (0.25, 1.0), True).pick(0.25)
        ('x',)
        """
        entry = bisect_right(self.cumulative, uniform)
        return self.destinations[min(entry, len(self.destinations) - 1)]


class Repairer:
    """One loaded artifact, ready to be asked about people."""

    def __init__(
        self, classifier: RepairedClassifier, fingerprint: str, apart: tuple[str, ...]
    ) -> None:
        self.classifier, self.fingerprint = classifier, fingerprint
        data = classifier.data_
        assert data.table is not None
        self.schema = Schema.of(data.table, apart)
        self.fast = FastReader(self.schema, apart)
        self.labels = data.labels
        self._plans: dict[Hashable, Plan] = dict(classifier.plans_)
        self._groups = {str(group): group for group in data.groups}
        self._repair = classifier.drawer("repair")
        self._decision = classifier.drawer("decision")
        self._laws: dict[Any, Law] = {}
        self._read: dict[Any, Said] = {}
        self.cells = self.schema.known_rows()

    # ---------------------------------------------------------------- who is who

    def group(self, labels: Sequence[Any]) -> str | None:
        """The audited group some labels name; None for people who do not say, and so opt out."""
        if any(is_missing(label) or label == "" for label in labels):
            return None
        spelt = (" & ".join(map(str, each)) for each in (labels, map(as_label, labels)))
        name = next((name for name in spelt if name in self._groups), None)
        if name is None:
            if self.classifier.unknown_group == "keep":
                return None
            raise BadRequest("unknown_group", "the group must be among those audited", 422)
        return name

    def mends(self, group: str | None) -> bool:
        return group is not None and self._groups[group] in self._plans

    # ---------------------------------------------------------------- answers

    def read(self, values: Sequence[Any]) -> list[Said]:
        """Answers as decisions and scores, by the settings the model was audited with."""
        known = self._read
        missing = [value for value in values if (type(value), value) not in known]
        if missing:
            if len(known) > MOST_LAWS:
                known.clear()
            for value, said in zip(missing, self._interpret(missing), strict=True):
                known[type(value), value] = said
        return [known[type(value), value] for value in values]

    def _interpret(self, values: list[Any]) -> list[Said]:
        raw = np.array(values)
        if raw.dtype.kind not in "biuf":
            raw = np.empty(len(values), object)
            raw[:] = values
        try:
            said = encode(raw)
            answers = self.classifier.box_.interpret(said, self.labels).take(said.codes)
        except (ModelError, DataError):
            raise BadAnswer("answers that are no decisions as audited") from None
        scores = [None] * len(values) if answers.score is None else answers.score.tolist()
        return [Said(*pair) for pair in zip(answers.decision.tolist(), scores, strict=True)]

    # ---------------------------------------------------------------- laws

    def law(self, group: str, row: Row, said: Said) -> Law | None:
        """A law found before."""
        return self._laws.get((group, row, said))

    def find_laws(self, group: str, rows: Sequence[Row], said: Sequence[Said]) -> list[Law]:
        """Find laws, and keep them for later; may ask the vendor, and so belongs in a thread."""
        plan = self._plans[self._groups[group]]
        scores = [each.score for each in said]
        answers = Answers(
            np.array([each.decision for each in said]),
            None if None in scores else np.array(scores, np.float64),
        )
        found = self._laws_of(plan.route(self.schema.frame(rows), answers))
        if len(self._laws) > MOST_LAWS:
            for key in list(self._laws)[: MOST_LAWS // 2]:
                self._laws.pop(key, None)
        for row, each, law in zip(rows, said, found, strict=True):
            self._laws[group, row, each] = law
        return found

    def _laws_of(self, route: Route) -> list[Law]:
        table = [] if route.table is None else self._rows(route.table)
        starts = np.searchsorted(route.row, np.arange(route.n + 1))
        laws = []
        for i, random in enumerate(route.random.tolist()):
            entries = slice(starts[i], starts[i + 1])
            cumulative = np.minimum(np.cumsum(route.probability[entries]), 1.0)
            there = tuple(None if j < 0 else table[j] for j in route.destination[entries])
            laws.append(Law(there, tuple(cumulative.tolist()), random))
        return laws

    def _rows(self, table: Frame) -> list[Row]:
        """Rows in the types of the columns: an integer column gets integers."""
        return [self.schema.typed(tuple(row)) for row in cells(table)]

    # ---------------------------------------------------------------- draws

    def destination(self, law: Law, row: Row, person: Any) -> Row | None:
        """Where a person goes."""
        return law.pick(self._number(self._repair, row, person) if law.random else 0.0)

    def decide(self, said: Said, row: Row, person: Any) -> int:
        """The decision itself, drawn where the model gives only its chance."""
        if 0 < said.decision < 1:
            return int(self._number(self._decision, row, person) < said.decision)
        return int(said.decision)

    def _number(self, drawer: Drawer, row: Row, person: Any) -> float:
        ids = content_ids(self.schema.frame([row])) if person is None else [person]
        return float(drawer.uniform(ids)[0])

    # ---------------------------------------------------------------- is the model still the same

    def probes(self, most: int) -> tuple[list[Row], list[float]]:
        """Rows of the audit, spread over it, with the decisions the model gave then."""
        decision: dict[int, float] = {}
        for population in self.classifier.data_.populations:
            assert population.rows is not None
            decision |= dict(zip(population.rows.tolist(), population.decision, strict=True))
        chosen = np.unique(np.linspace(0, len(decision) - 1, most).astype(np.int64))
        places = np.array(sorted(decision))[chosen]
        rows = self._rows(self.schema.table.take(places))
        return rows, [float(decision[place]) for place in places.tolist()]
