"""A fitted repair as a server needs it: laws of single rows, remembered; draws for people.

A request queries the vendor about its rows, and only then are laws looked up: the law of a row
depends on the row and on the vendor's answer. Finding a new one may query the vendor about
mixtures of rows; that happens in a thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairmend.apply.draw import Drawer
from fairmend.apply.laws import Bounded, Law, Laws, laws_of
from fairmend.classifier import RepairedClassifier
from fairmend.data.columns import Frame, encode
from fairmend.data.groups import UNKNOWN
from fairmend.data.ids import content_ids
from fairmend.data.rows import spread
from fairmend.errors import DataError, ModelError
from fairmend.model.answers import Answers
from fairmend.model.probe import Probe
from fairmend.model.protocols.v2 import DATATYPES
from fairmend.model.remote import as_answers, cells
from fairmend.model.wire import BadAnswer, BadRequest
from fairmend.serve.schema import Row, Schema

__all__ = ["Answer", "Law", "Repairer", "as_arrays"]

PROBES = 64
"""Rows of the audit that the vendor is queried about now and then."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The vendor's answer about one row, as read."""

    decision: float
    score: float | None


def as_arrays(answers: Sequence[Answer]) -> Answers:
    """Single answers together."""
    scores = [answer.score for answer in answers]
    decisions = np.array([answer.decision for answer in answers])
    return Answers(decisions, None if None in scores else np.array(scores, np.float64))


class Repairer:
    """One loaded artifact, ready for requests."""

    def __init__(
        self,
        classifier: RepairedClassifier,
        fingerprint: str,
        person: tuple[str, ...],
        *,
        log_groups: bool = False,
    ) -> None:
        """``person`` are columns that say who somebody is; ``log_groups`` as in `Config`."""
        self.classifier, self.fingerprint = classifier, fingerprint
        self.reads_groups = log_groups or not classifier.blind
        self.repair = classifier.fitted_repair
        self.schema = Schema.of(self.repair.table, person, classifier.spelling_.missing)
        self.labels = self.repair.data.labels
        self._places = {str(group): i for i, group in enumerate(self.repair.data.groups)}
        self._names = list(self._places)
        self._edits = self.repair.drawer("repair")
        self._decisions = self.repair.drawer("decision")
        self._plans = Laws(self.repair, most=0)
        self._laws: Bounded[Law] = Bounded()
        self._read: Bounded[Answer] = Bounded()
        self._groups: Bounded[str] = Bounded()
        self.cells = self.schema.known_rows()
        self.probe = self._find_probe()

    def _find_probe(self) -> Probe | None:
        """Rows of the audit with the model's answers; None where it does not stand by them."""
        classifier, data = self.classifier, self.repair.data
        if self.repair.box.random:
            return None
        if classifier._probe is None:
            return Probe.choose(self.schema.table, data.populations, PROBES)
        return classifier._probe.take(spread(len(classifier._probe.rows), PROBES))

    def metadata(self, model: str, output: str, version: str) -> dict[str, Any]:
        """The model as the Open Inference Protocol describes one."""
        schema, label = self.schema, self.labels.positive
        tensors = list(zip(schema.names, schema.kinds, [1] * len(schema.kinds), strict=True))
        if schema.sent_names is None:
            wide = next((k for k in ("str", "float") if k in schema.kinds), schema.kinds[0])
            tensors = [("input-0", wide, len(schema.kinds))]
        kind = "float" if self.repair.box.output != "label" else type(label).__name__
        outputs = {"name": output, "datatype": DATATYPES.get(kind, "BYTES"), "shape": [-1, 1]}
        return {
            "name": model,
            "versions": [version],
            "platform": "fairmend",
            "inputs": [
                {"name": name, "datatype": DATATYPES[of_kind], "shape": [-1, width]}
                for name, of_kind, width in tensors
            ],
            "outputs": [outputs],
        }

    # ---------------------------------------------------------------- who is who

    def group(self, labels: Sequence[Any]) -> str | None:
        """The audited group some labels name; None for people who do not say, and so opt out.

        A blind repair needs no group: it is read for the log alone, if the log is to have it.
        """
        if not self.reads_groups:
            return None
        labels = self.schema.unmarked(labels)
        key = tuple((type(label), label) for label in labels)
        try:
            if key in self._groups:
                return self._groups[key]
        except TypeError:  # a label is no label
            pass
        place = self.repair.groups.place(labels)
        if place >= 0:
            self._groups[key] = self._names[place]
            return self._names[place]
        strict = self.repair.unknown_group == "error" and not self.repair.blind
        if place == UNKNOWN and strict:
            raise BadRequest("unknown_group", "the group must be among those audited", 422)
        return None

    def is_same_group(self, one: Sequence[Any], other: Sequence[Any]) -> bool:
        """Whether two ways to say a group mean the same one."""
        return self.repair.groups.place(one) == self.repair.groups.place(other)

    def plan_place(self, group: str | None) -> int | None:
        """The place of the plan for somebody of a group; None for people who are not repaired."""
        place = 0 if self.repair.blind else self._places.get(group or "")
        return place if place in self.repair.plan_of else None

    # ---------------------------------------------------------------- answers

    def read(self, values: Sequence[Any]) -> list[Answer]:
        """Answers as decisions and scores, by the settings the model was audited with."""
        keys = [(type(value), value) for value in values]
        try:
            answers = [self._read.get(key) for key in keys]
        except TypeError:
            raise BadAnswer("answers that are lists or objects") from None
        missing = [i for i, answer in enumerate(answers) if answer is None]
        if missing:
            fresh = self._interpret([values[i] for i in missing])
            for i, answer in zip(missing, fresh, strict=True):
                answers[i] = self._read[keys[i]] = answer
        return answers  # type: ignore[return-value]

    def read_each(self, values: Sequence[Any]) -> list[Answer | None]:
        """As `read`; None for an answer that cannot be read, which is that row's matter alone."""
        try:
            return list(self.read(values))
        except BadAnswer:
            return [self._read_one(value) for value in values]

    def _read_one(self, value: Any) -> Answer | None:
        try:
            return self.read([value])[0]
        except BadAnswer:
            return None

    def _interpret(self, values: list[Any]) -> list[Answer]:
        try:
            column = encode(as_answers(values))
            answers = self.repair.box.interpret(column, self.labels).take(column.codes)
        except (ModelError, DataError, TypeError):  # an answer may be of any JSON type
            raise BadAnswer("answers that are no decisions as audited") from None
        scores = [None] * len(values) if answers.score is None else answers.score.tolist()
        return [Answer(*pair) for pair in zip(answers.decision.tolist(), scores, strict=True)]

    # ---------------------------------------------------------------- laws

    def law(self, place: int, row: Row, answer: Answer) -> Law | None:
        """A law found before."""
        return self._laws.get((place, row, answer))

    def find_laws(self, place: int, rows: Sequence[Row], given: Sequence[Answer]) -> list[Law]:
        """Find a plan's laws, and remember them; may query the vendor, so belongs in a thread."""
        answers = as_arrays(given)
        frame = self._frame(rows)
        route = self._plans.route(place, None, frame, answers, cast=False)
        laws = laws_of(route, self._rows)
        for row, each, law in zip(rows, given, laws, strict=True):
            self._laws[place, row, each] = law
        return laws

    def _frame(self, rows: Sequence[Row]) -> Frame:
        """Rows as a frame; text that is no date where the audit had dates is a `BadRequest`."""
        try:
            return self.schema.frame(rows)
        except Exception:  # whatever the container says
            message = "a column must hold values of the audit's own type"
            raise BadRequest("bad_type", message, 422) from None

    def _rows(self, table: Frame) -> list[Row]:
        """Rows in the types of the columns: an integer column gets integers."""
        return [self.schema.typed(tuple(row)) for row in cells(table)]

    # ---------------------------------------------------------------- draws

    def destination(self, law: Law, row: Row, person: Any) -> Row | None:
        """Where a person goes."""
        return law.pick(self._number(self._edits, row, person) if law.random else 0.0)

    def decide(self, answer: Answer, row: Row, person: Any) -> int:
        """The decision itself, drawn where the model gives only its chance."""
        if 0 < answer.decision < 1:
            return int(self._number(self._decisions, row, person) < answer.decision)
        return int(answer.decision)

    def _number(self, drawer: Drawer, row: Row, person: Any) -> float:
        ids = content_ids(self.schema.frame([row])) if person is None else [person]
        return float(drawer.uniform(ids)[0])
