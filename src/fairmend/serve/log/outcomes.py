"""Outcomes from a file, of decisions or of people."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairmend.apply.draw import Drawer
from fairmend.data.tablefile import FileTable, read_table
from fairmend.errors import check, listed, nearest
from fairmend.serve.log.chain import LogKey
from fairmend.serve.log.store import LogStore
from fairmend.serve.log.writer import Amending, Entry, amended

__all__ = ["Recorded", "read_outcomes", "record"]

_AT_ONCE = 1_000
"""Rows in one transaction: those who decide meanwhile wait for it."""
_USUAL = {"1": 1, "0": 0, "true": 1, "false": 0}


@dataclass(frozen=True)
class ToldOutcome:
    """One row of a file."""

    who: str
    """The id of a decision, or the pseudonym of a person."""
    y: int
    where: str


@dataclass(slots=True)
class Recorded:
    """What became of the rows of a file."""

    recorded: int = 0
    known: int = 0
    """Rows that say what the log said already."""
    contradicting: int = 0
    """Rows recorded that contradict an earlier outcome, which is kept: the later one counts."""
    unknown: int = 0
    """Rows about nobody in the log."""
    first_unknown: str = ""


def read_outcomes(
    path: str | Path,
    *,
    decision: str,
    person: str | None,
    outcome: str,
    positive: str | None,
    drawer: Drawer | None,
) -> list[ToldOutcome]:
    """The rows of a file: ids of decisions, or with a ``drawer`` those of people, and outcomes.

    An outcome is 1 or 0, true or false, or, where ``positive`` is given, that label or another one.
    """
    import polars as pl

    column = decision if person is None else person
    table = read_table(path, types=dict.fromkeys((column, outcome), pl.String))
    for name in (column, outcome):
        check(name in table.frame.columns, f"file {str(path)!r}", f"must have a column {name!r}",
              f"there is no {name!r}", nearest(name, table.frame.columns))  # fmt: skip
    values = _outcomes(table, outcome, positive)
    told = []
    for row, (who, y) in enumerate(zip(table.frame[column].to_list(), values, strict=True)):
        where = table.where(row)
        check(who is not None, f"column {column!r}, {where}", "must not be empty", "it is",
              "Complete the row, or leave it out.")  # fmt: skip
        name = str(who) if drawer is None else drawer.pseudonym(who)
        told.append(ToldOutcome(name, y, where))
    return told


def _outcomes(table: FileTable, outcome: str, positive: str | None) -> list[int]:
    cells = [None if cell is None else str(cell) for cell in table.frame[outcome].to_list()]
    meanings: Mapping[str, int] = _USUAL
    must = "must be 1 or 0, or true or false"
    if positive is not None:
        labels = sorted({cell for cell in cells if cell is not None})
        must = f"must be {positive!r} or one other label"
        check(positive in labels and len(labels) <= 2, f"column {outcome!r}", must,
              f"got {listed(labels)}")  # fmt: skip
        meanings = {label: int(label == positive) for label in labels}
    for row, cell in enumerate(cells):
        check(cell is not None and (cell in meanings or cell.lower() in meanings),
              f"column {outcome!r}, {table.where(row)}", must, f"got {cell!r}",
              "Name the label of a positive outcome with --positive.")  # fmt: skip
    return [meanings[cell] if cell in meanings else meanings[str(cell).lower()] for cell in cells
            if cell is not None]  # fmt: skip


def record(
    where: str | Path, key: LogKey, told: Sequence[ToldOutcome], *, by_person: bool
) -> Recorded:
    """Write outcomes to a log, beside those who serve it; again, nothing is written twice.

    The outcome of a person is that of the last decision about them.
    """
    done = Recorded()
    with amended(where, key) as store:
        for start in range(0, len(told), _AT_ONCE):
            with store.transaction():
                _record(store, key, told[start : start + _AT_ONCE], done, by_person)
    return done


def _record(
    store: LogStore, key: LogKey, told: Sequence[ToldOutcome], done: Recorded, by_person: bool
) -> None:
    amending = Amending(store, key)
    names = [each.who for each in told]
    meant = store.last_decisions_of(names) if by_person else store.logged_of(names)
    known: dict[str, int] = {}
    for decision in set(meant.values()):
        for _, y in store.outcomes_named(decision):
            known[decision] = y
    rows: list[tuple[str, tuple[Any, ...]]] = []
    for each in told:
        decision = meant.get(each.who, "")
        if not decision:
            done.unknown += 1
            done.first_unknown = done.first_unknown or each.where
        elif known.get(decision) == each.y:
            done.known += 1
        else:
            done.contradicting += decision in known
            done.recorded += 1
            rows.append(("outcomes", (decision, each.y, time.time())))
            known[decision] = each.y
    if rows:
        amending.write([Entry(rows)])
        amending.end()
