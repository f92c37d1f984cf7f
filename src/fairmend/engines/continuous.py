"""Rows that are nearly all distinct: counted by the model's answer, and thinned by its score.

An audit needs of each person the answer, the outcome and the group. These are read in one pass and
counted exactly. What speaks of inputs (a counterfactual, a repair) gets a reference set: of each
group, outcome and decision the rows nearest the model's cut one by one, and of the others, in the
order of their scores, one row for every k, standing for k people. So

- how many people there are of each group, outcome and decision is exact;
- how many of them lie beyond any score is off by less than k people of each kind, so a rate is off
  by less than ``Thinned.error`` wherever a repair puts its threshold;
- donors, which are the rows nearest the cut, are those of all rows.

Without scores the order is that of the rows, and k rows are a sample like any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairmend.data.columns import FloatArray, Frame, IntArray, encode
from fairmend.data.containers import Kind, as_kind
from fairmend.data.rows import find_rows
from fairmend.engines import duck
from fairmend.engines.cells import Cells
from fairmend.engines.packed import domains
from fairmend.engines.source import Source, is_csv
from fairmend.errors import warn
from fairmend.progress import progress

if TYPE_CHECKING:
    from fairmend.data.outcomes import Labels
    from fairmend.data.people import Records
    from fairmend.measure.population import AuditData
    from fairmend.model.answers import Answers
    from fairmend.model.blackbox import BlackBox

EXACT_ROWS = 1_000_000
"""Up to this many rows every distinct row is kept, whatever there is in it."""
NEAR = 20_000
"""Rows nearest the cut that are kept one by one, of each group, outcome and decision."""
FAR = 400_000
"""Of all others together, about this many."""
_PROBE = 100_000
ABSENT = -2  # the kind of those who do not count: of no group


def are_mostly_distinct(place: Source, columns: Sequence[str]) -> bool:
    """Whether there are more rows than are kept one by one, and most of them distinct."""
    if place.suppress_below > 1:
        return False
    if not place.are_files:
        rows, share = place.engine.distinct(place, columns, _PROBE)
        return rows > EXACT_ROWS and share > 0.5
    if not is_csv(place.files[0]) and domains(place, columns) is not None:
        return False
    relation = duck.relation(place)
    if relation.aggregate("count(*) AS n").fetchall()[0][0] <= EXACT_ROWS:
        return False
    keys = ", ".join(map(duck.quoted, columns))
    probe = f"SELECT count(*) FROM (SELECT DISTINCT {keys} FROM (FROM rows LIMIT {_PROBE}))"
    return bool(relation.query("rows", probe).fetchall()[0][0] > _PROBE // 2)


# -------------------------------------------------------------------- first pass: answers


@dataclass(frozen=True, eq=False)
class Scored:
    """What an audit needs of each person, in the order of the rows."""

    kind: NDArray[Any]
    """Each person's group and outcome: 2 * group + outcome; `ABSENT` for whoever has weight 0."""
    decision: NDArray[Any]
    score: FloatArray | None
    weight: FloatArray | None
    records: Records
    """The groups and the labels of y."""


@dataclass(frozen=True, eq=False)
class Batch:
    """What a batch of rows says of its people."""

    kind: NDArray[Any]
    answers: Answers
    weight: FloatArray | None


@dataclass(frozen=True, eq=False)
class Reader:
    """Reads batches of rows, here or on a worker: who is of which kind, and what the model says."""

    box: BlackBox
    labels: Labels
    about: Frame
    """The cells of groups and outcome that there are,"""
    kinds: NDArray[Any]
    """and the kind of each: 2 * group + outcome."""
    inputs: tuple[str, ...]
    weight: str | None
    container: Kind
    """In which the model sees rows."""

    @classmethod
    def of(
        cls,
        place: Source,
        box: BlackBox,
        *,
        inputs: Sequence[str],
        small: Cells,
        records: Records,
        weight: str | None,
    ) -> Reader:
        """``small`` are the cells of groups and outcome alone, ``records`` their reading."""
        kinds = (records.group * 2 + records.outcome).astype(np.int16)
        return cls(
            box, records.labels, small.frame, kinds, tuple(inputs), weight, place.engine.kind
        )

    @property
    def columns(self) -> list[str]:
        """What it reads."""
        wanted = [*self.about.names, *([] if self.weight is None else [self.weight])]
        wanted += self.inputs if self.box.column is None else [self.box.column]
        return list(dict.fromkeys(wanted))

    def read(self, table: Any, *, trusted: bool = False) -> Batch:
        """A batch; ``trusted``: the model has answered alike before."""
        frame = Frame.read(table)
        about = frame.select(self.about.names)
        kind = self.kinds[find_rows(self.about, self._as(about))]
        if self.box.column is not None:
            recorded = encode(frame.column(self.box.column), "model")
            answers = self.box.interpret(recorded, self.labels).take(recorded.codes)
        else:
            rows = self._as(frame.select(self.inputs))
            answers = self.box.query(rows, self.labels, trusted=trusted)
        weight = None
        if self.weight is not None:
            weight = frame.column(self.weight).to_numpy().astype(np.float64)
            kind[weight == 0] = ABSENT
        return Batch(kind, answers, weight)

    def _as(self, frame: Frame) -> Frame:
        return Frame(as_kind(frame.native, self.container), frame.names)


def score_people(place: Source, reader: Reader, records: Records, total: int) -> Scored:
    """Query the model about every row, or read its recorded answers, in batches."""
    parts: dict[str, list[Any]] = {"kind": [], "decision": [], "score": [], "weight": []}
    exactly = np.float64 if reader.box.soft else np.int8
    with progress("querying every row", total) as advance:
        for number, table in enumerate(_batches(place, reader.columns)):
            batch = reader.read(table, trusted=number > 0)
            parts["kind"].append(batch.kind)
            parts["decision"].append(batch.answers.decision.astype(exactly))
            if batch.answers.score is not None:
                parts["score"].append(batch.answers.score)
            if batch.weight is not None:
                parts["weight"].append(batch.weight)
            advance(len(table))
    whole = {name: np.concatenate(list_) if list_ else None for name, list_ in parts.items()}
    return Scored(records=records, **whole)  # type: ignore[arg-type]


def _batches(place: Source, columns: Sequence[str]) -> Iterator[Any]:
    """The rows in their order, as PyArrow tables."""
    import pyarrow as pa

    relation = duck.relation(place)
    chosen = relation.project(", ".join(map(duck.quoted, columns)))
    for batch in chosen.to_arrow_reader(duck.BATCH_ROWS):
        yield pa.Table.from_batches([batch])


def audit_scored(scored: Scored) -> AuditData:
    """One population a group over the distinct answers, without inputs: exact."""
    return audit_answers(
        scored.records,
        scored.kind,
        scored.decision,
        scored.score,
        weight=scored.weight,
        squared=None if scored.weight is None else scored.weight**2,
    )


def audit_answers(
    records: Records,
    kind: NDArray[Any],
    decision: NDArray[Any],
    score: FloatArray | None,
    *,
    people: FloatArray | None = None,
    weight: FloatArray | None = None,
    squared: FloatArray | None = None,
) -> AuditData:
    """Groups over the distinct answers; ``people`` and their weights are 1 where not given."""
    from fairmend.measure.population import AuditData, Population, Tally

    populations = []
    for group in range(len(records.groups)):
        at = np.flatnonzero(kind // 2 == group)
        answer = (decision if score is None else score)[at]
        values, first, place = np.unique(answer, return_index=True, return_inverse=True)
        cell = place * 2 + kind[at] % 2

        def summed(each: FloatArray | None, at: IntArray = at, cell: IntArray = cell,
                   n: int = len(values)) -> FloatArray:  # fmt: skip
            weights = None if each is None else each[at]
            return np.bincount(cell, weights, 2 * n).astype(np.float64).reshape(n, 2)

        counted = summed(people)
        tally = Tally(counted, counted, counted)
        if weight is not None:
            tally = Tally(counted, summed(weight), summed(squared))
        total = tally.weight.sum(axis=1)
        share = np.divide(tally.weight[:, 1], total, out=np.zeros_like(total), where=total > 0)
        populations.append(
            Population(
                mass=total / total.sum(),
                decision=decision[at][first].astype(np.float64),
                outcome=share,
                score=None if score is None else values,
                tally=tally,
            )
        )
    return AuditData(records.groups, tuple(populations), records.labels, records.attribute)


# -------------------------------------------------------------------- second pass: rows


@dataclass(frozen=True, eq=False)
class Thinned:
    """Which rows stand for all, for how many people, and how far off a rate may be."""

    rows: IntArray
    people: FloatArray
    weight: FloatArray
    squared: FloatArray
    error: float
    """In points of a rate of the smallest kind: group, outcome and decision."""


def thin(scored: Scored, cut: float) -> Thinned:
    """Choose the reference set.

    >>> from types import SimpleNamespace
    >>> few = Scored(np.zeros(5, np.int64), np.zeros(5), np.arange(5.0), None, SimpleNamespace())
    >>> thin(few, 0.5).rows.tolist()
    [0, 1, 2, 3, 4]
    """
    strata, member = np.unique(
        scored.kind.astype(np.int64) * 2 + (scored.decision > 0.5), return_inverse=True
    )
    far = max(1_000, FAR // len(strata))
    chosen, starts, ordered, error = [], [], [], 0.0
    offset = 0
    for stratum in np.flatnonzero(strata >= 0):
        rows = np.flatnonzero(member == stratum)
        if scored.score is not None:
            rows = rows[np.argsort(np.abs(scored.score[rows] - cut), kind="stable")]
        one_by_one = min(NEAR, len(rows))
        step = max(1, -(-(len(rows) - one_by_one) // far))
        first = np.r_[np.arange(one_by_one), np.arange(one_by_one, len(rows), step)]
        last = np.r_[first[1:], len(rows)]
        chosen.append(rows[(first + last - 1) // 2])
        starts.append(first + offset)
        ordered.append(rows)
        offset += len(rows)
        error = max(error, (step - 1) / len(rows))
    rows, begin, everyone = (np.concatenate(parts) for parts in (chosen, starts, ordered))
    people = np.diff(np.r_[begin, len(everyone)]).astype(np.float64)
    weight = squared = people
    if scored.weight is not None:
        weights = scored.weight[everyone]
        weight = np.add.reduceat(weights, begin)
        squared = np.add.reduceat(weights**2, begin)
    order = np.argsort(rows)
    return Thinned(rows[order], people[order], weight[order], squared[order], error)


def reference_cells(place: Source, columns: Sequence[str], thinned: Thinned) -> Cells:
    """The chosen rows, read in a second pass, each with the people it stands for."""
    import pyarrow as pa

    parts, start = [], 0
    for table in _batches(place, columns):
        first, last = np.searchsorted(thinned.rows, (start, start + len(table)))
        if last > first:
            parts.append(table.take(thinned.rows[first:last] - start))
        start += len(table)
    native = as_kind(pa.concat_tables(parts), place.engine.kind)
    warn(
        f"X has {start:,} rows, most of them distinct. Gaps are exact; inputs are represented by "
        f"{len(thinned.rows):,} of the rows, those nearest the model's cut among them, and a rate "
        f"at another cut is off by at most {100 * thinned.error:.2g} points."
    )
    return Cells(Frame(native, tuple(columns)), thinned.people, thinned.weight, thinned.squared)
