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

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairmend.data.columns import FloatArray, Frame, IntArray, encode
from fairmend.data.containers import as_kind
from fairmend.data.rows import find_rows
from fairmend.engines import duck
from fairmend.engines.cells import Cells
from fairmend.engines.packed import domains
from fairmend.engines.source import Source, is_csv
from fairmend.errors import FairmendWarning
from fairmend.progress import progress

if TYPE_CHECKING:
    from fairmend.data.people import Records
    from fairmend.measure.population import AuditData
    from fairmend.model.blackbox import BlackBox

__all__ = [
    "Scored",
    "Thinned",
    "are_mostly_distinct",
    "audit_scored",
    "reference_cells",
    "score_people",
    "thin",
]

EXACT_ROWS = 1_000_000
"""Up to this many rows every distinct row is kept, whatever there is in it."""
NEAR = 20_000
"""Rows nearest the cut that are kept one by one, of each group, outcome and decision."""
FAR = 400_000
"""Of all others together, about this many."""
_PROBE = 100_000
_ABSENT = -2  # the kind of those who do not count: of no group


def are_mostly_distinct(place: Source, columns: Sequence[str]) -> bool:
    """Whether files have more rows than are kept one by one, and most of them distinct."""
    if not place.are_files or place.suppress_below > 1:
        return False
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
    """Each person's group and outcome: 2 * group + outcome; `_ABSENT` for whoever has weight 0."""
    decision: NDArray[Any]
    score: FloatArray | None
    weight: FloatArray | None
    records: Records
    """The groups and the labels of y."""


def score_people(
    place: Source,
    box: BlackBox,
    *,
    inputs: Sequence[str],
    small: Cells,
    records: Records,
    weight: str | None,
) -> Scored:
    """Query the model about every row, or read its recorded answers, in batches.

    ``small`` are the cells of groups and outcome alone, ``records`` their reading.
    """
    kinds = records.group * 2 + records.outcome
    wanted = [*small.frame.names, *([] if weight is None else [weight])]
    wanted += [box.column] if box.column is not None else list(inputs)
    parts: dict[str, list[Any]] = {"kind": [], "decision": [], "score": [], "weight": []}
    total = int(small.people.sum())
    with progress("querying every row", total) as advance:
        for number, table in enumerate(_batches(place, list(dict.fromkeys(wanted)))):
            frame = Frame(table, tuple(table.column_names))
            at = find_rows(small.frame, _as(frame.select(small.frame.names), place))
            kind = kinds[at].astype(np.int16)
            if box.column is not None:
                recorded = encode(frame.column(box.column), "model")
                answers = box.interpret(recorded, records.labels).take(recorded.codes)
            else:
                rows = _as(frame.select(inputs), place)
                answers = box.query(rows, records.labels, trusted=number > 0)
            exactly = np.float64 if box.soft else np.int8
            parts["decision"].append(answers.decision.astype(exactly))
            if answers.score is not None:
                parts["score"].append(answers.score)
            if weight is not None:
                numbers = frame.column(weight).to_numpy()
                parts["weight"].append(numbers.astype(np.float64))
                kind[numbers == 0] = _ABSENT
            parts["kind"].append(kind)
            advance(len(frame))
    whole = {name: np.concatenate(list_) if list_ else None for name, list_ in parts.items()}
    return Scored(records=records, **whole)  # type: ignore[arg-type]


def _batches(place: Source, columns: Sequence[str]) -> Iterator[Any]:
    """The rows in their order, as PyArrow tables."""
    import pyarrow as pa

    relation = duck.relation(place)
    chosen = relation.project(", ".join(map(duck.quoted, columns)))
    for batch in chosen.to_arrow_reader(duck.BATCH_ROWS):
        yield pa.Table.from_batches([batch])


def _as(frame: Frame, place: Source) -> Frame:
    return Frame(as_kind(frame.native, place.engine.kind), frame.names)


def audit_scored(scored: Scored) -> AuditData:
    """One population a group over the distinct answers, without inputs: exact."""
    from fairmend.measure.population import AuditData, Population, Tally

    populations = []
    for group in range(len(scored.records.groups)):
        at = np.flatnonzero(scored.kind // 2 == group)
        answer = (scored.decision if scored.score is None else scored.score)[at]
        values, first, place = np.unique(answer, return_index=True, return_inverse=True)
        cell = place * 2 + scored.kind[at] % 2

        def summed(weights: FloatArray | None, cell: IntArray = cell, n: int = len(values)) -> Any:
            return np.bincount(cell, weights, 2 * n).astype(np.float64).reshape(n, 2)

        people = weight = squared = summed(None)
        if scored.weight is not None:
            weight, squared = summed(scored.weight[at]), summed(scored.weight[at] ** 2)
        total = weight[:, 0] + weight[:, 1]
        share = np.divide(weight[:, 1], total, out=np.zeros_like(total), where=total > 0)
        populations.append(
            Population(
                mass=total / total.sum(),
                decision=scored.decision[at][first].astype(np.float64),
                outcome=share,
                score=None if scored.score is None else values,
                tally=Tally(people, weight, squared),
            )
        )
    records = scored.records
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
    warnings.warn(
        f"X has {start:,} rows, most of them distinct. Gaps are exact; inputs are represented by "
        f"{len(thinned.rows):,} of the rows, those nearest the model's cut among them, and a rate "
        f"at another cut is off by at most {100 * thinned.error:.2g} points.",
        FairmendWarning,
        stacklevel=6,
    )
    return Cells(Frame(native, tuple(columns)), thinned.people, thinned.weight, thinned.squared)
