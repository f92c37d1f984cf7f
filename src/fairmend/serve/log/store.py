"""Where a log is kept: what every database does alike, and what is read of a log.

Tables beside the chained ones: ``state`` (one row), ``cells`` (how often each row of the audit
came, by day), ``tallies`` (decisions by time, group, status, decision and outcome, so that pages
need not read every decision), and ``replies`` (answers by Idempotency-Key).
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from fairmend.measure.late import WindowCounts
from fairmend.model.registry import Registry
from fairmend.serve.log.chain import TABLES, LogBroken, LogKey, State, day_of

__all__ = ["LOGS", "LogStore", "LogTotals", "open_store", "store_at"]

_ROWS_AT_ONCE = 5_000
_IDS_AT_ONCE = 500
_NAMES = {table: ("seq", *columns, "erased", "chain") for table, columns in TABLES.items()}
_CELLS = ("artifact", "grp", "day", "cell", "n")
TALLIED = ("start", "grp", "status", "edited", "original", "repaired", "y", "band", "n")
"""Of tallies: a missing group is '', a missing number -1."""
_KEPT: dict[str, tuple[dict[str, type], str]] = {
    "cells": ({"artifact": str, "grp": str, "day": str, "cell": int, "n": int},
              "artifact, grp, day, cell"),
    "tallies": ({**dict.fromkeys(TALLIED, int), "grp": str, "status": str},
                ", ".join(TALLIED[:-1])),
    "replies": ({"key": bytes, "body": bytes, "status": int, "content": bytes, "decision": str,
                 "at": float}, "key"),
    "state": ({"id": int, "content": bytes, "seal": bytes}, "id"),
}  # fmt: skip
"""Other tables, with what makes a row of each unique."""
_INDEXES = {
    "decided": "decisions (decision)",
    "decided_on": "decisions (person) WHERE person IS NOT NULL",
    "edited_rows": "decisions (seq) WHERE edited <> ''",
    "failed_rows": "decisions (status, seq) WHERE status <> 'ok'",
    "became": "outcomes (decision, seq)",
    "happened": "events (kind, at)",
}


Period = tuple[float, float]
"""From a time on until before another."""
EVER: Period = (0.0, 1e18)
MINUTE, HOUR, DAY = 60, 3_600, 86_400
"""Widths of tallies."""


class LogTotals(NamedTuple):
    """Decisions so far: time of the first and the last, how many, how many failed or edited."""

    first: float | None
    last: float | None
    decisions: int
    failed: int
    edited: int


class LogStore(ABC):
    """A database that keeps logs; its name is the scheme of its addresses.

    `create` makes the tables, by statements of `schema`.
    """

    scheme: ClassVar[str]
    types: ClassVar[dict[type, str]]
    """What the database calls text, floats, whole numbers of 64 bits and bytes."""
    locking: ClassVar[str] = ""
    """What a SELECT ends with that others who write must wait for."""
    small: ClassVar[str] = ""
    """What the statement for a table that is found by its key alone ends with."""
    patience: float | None = None
    """Seconds that the database may take to answer; None where nobody waits."""

    def __init_subclass__(cls) -> None:
        LOGS.add(cls.scheme, cls)

    @abstractmethod
    def __init__(self, where: str, *, read_only: bool) -> None:
        """Open a log to write or to read; a `DataError` says why that is impossible."""

    @abstractmethod
    def execute(self, query: str, *given: Any) -> Iterable[tuple[Any, ...]]:
        """The rows of a statement in the SQL that databases share; ``?`` stands for a value."""

    @abstractmethod
    def execute_many(self, query: str, given: Iterable[Sequence[Any]]) -> None:
        """One statement for each of many rows."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[None]:
        """What is written inside is on disk at its end, or not at all; reads see one state."""

    @abstractmethod
    def close(self) -> None: ...

    def claim(self) -> None:  # noqa: B027  most may have many
        """Become the only server of this log, where there may be one only."""

    def tidy(self) -> None:  # noqa: B027  most need nothing
        """Whatever may be done between commits."""

    def purge(self) -> None:  # noqa: B027
        """Let nothing of what was deleted stay in the files."""

    def floor(self, number: str) -> str:
        """SQL for a number that is not negative, rounded down."""
        return f"CAST({number} AS INTEGER)"

    # ---------------------------------------------------------------- the tables

    def schema(self) -> Iterator[str]:
        """The statements that make what is not there yet."""
        whole, blob = self.types[int], self.types[bytes]
        for table, columns in TABLES.items():
            named = ", ".join(f"{name} {self.types[kind]}" for name, kind in columns.items())
            yield (f"CREATE TABLE IF NOT EXISTS {table} (seq {whole} PRIMARY KEY, {named}, "
                   f"erased {blob}, chain {blob} NOT NULL)")  # fmt: skip
        for table, (columns, unique) in _KEPT.items():
            named = ", ".join(f"{name} {self.types[kind]}" for name, kind in columns.items())
            yield (
                f"CREATE TABLE IF NOT EXISTS {table} ({named}, PRIMARY KEY ({unique}))" + self.small
            )
        for name, what in _INDEXES.items():
            yield f"CREATE INDEX IF NOT EXISTS {name} ON {what}"

    def insert(self, table: str, rows: Sequence[Sequence[Any]]) -> None:
        """New rows of a table."""
        if rows:
            marks = ",".join("?" * len(rows[0]))
            self.execute_many(f"INSERT INTO {table} VALUES ({marks})", rows)

    def add(self, table: str, counts: Iterable[Sequence[Any]]) -> None:
        """Add to the counts of cells or tallies."""
        columns, unique = _KEPT[table]
        marks = ",".join("?" * len(columns))
        self.execute_many(
            f"INSERT INTO {table} VALUES ({marks}) ON CONFLICT ({unique}) "
            f"DO UPDATE SET n = {table}.n + excluded.n",
            counts,
        )

    def selected(self, query: str, values: Sequence[Any], *given: Any) -> Iterator[tuple[Any, ...]]:
        """The rows of a query that ends with ``IN (??)``, whatever the number of values."""
        for start in range(0, len(values), _IDS_AT_ONCE):
            part = values[start : start + _IDS_AT_ONCE]
            yield from self.execute(query.replace("??", ",".join("?" * len(part))), *given, *part)

    # ---------------------------------------------------------------- the chains

    def state(self, key: LogKey, *, locked: bool = False) -> State:
        """Where the chains stand; ``locked``, nobody else can go on from there before us."""
        query = "SELECT content, seal FROM state WHERE id = 1" + (self.locking if locked else "")
        kept = list(self.execute(query))
        if not kept:
            raise LogBroken("the state of the log is gone")
        [(content, seal)] = kept
        return key.opened(bytes(content), bytes(seal))

    def keep(self, state: State, key: LogKey) -> None:
        content, seal = key.sealed(state)
        self.execute("UPDATE state SET content = ?, seal = ? WHERE id = 1", content, seal)

    def begin(self, key: LogKey, bands: Sequence[float]) -> None:
        """Write the first state of a log that has none."""
        content, seal = key.sealed(State(bands=tuple(bands)))
        self.execute(
            "INSERT INTO state VALUES (1, ?, ?) ON CONFLICT (id) DO NOTHING", content, seal
        )

    def rows(self, table: str) -> Iterator[tuple[Any, ...]]:
        """All rows in order: number, values, what stands for an erased row, and chain."""
        query = f"SELECT {', '.join(_NAMES[table])} FROM {table} WHERE seq > ? ORDER BY seq LIMIT ?"
        last = -1
        while part := list(self.execute(query, last, _ROWS_AT_ONCE)):
            yield from part
            last = part[-1][0]

    # ---------------------------------------------------------------- what is counted

    def tallied(self, state: State, where: str = "", *given: Any) -> Iterable[tuple[Any, ...]]:
        """Tallies by the decisions themselves; the last outcome of a decision counts."""
        by_day, by_hour = state.rolled
        day, hour, minute = (f"{self.floor(f'd.at / {width}')} * {width}"
                             for width in (DAY, HOUR, MINUTE))  # fmt: skip
        start = f"CASE WHEN d.at < {by_day} THEN {day} WHEN d.at < {by_hour} THEN {hour} "
        edges = "".join(f" WHEN d.original_score < ? THEN {i}" for i in range(len(state.bands)))
        band = f"CASE WHEN d.original_score IS NULL THEN -1{edges} ELSE {len(state.bands)} END"
        return self.execute(
            f"SELECT {', '.join(TALLIED[:-1])}, count(*) FROM (SELECT {start}ELSE {minute} END "
            "AS start, coalesce(d.grp, '') AS grp, coalesce(d.status, '') AS status, "
            "CASE WHEN d.edited <> '' THEN 1 ELSE 0 END AS edited, "
            "coalesce(d.original, -1) AS original, coalesce(d.repaired, -1) AS repaired, "
            "coalesce((SELECT o.y FROM outcomes o WHERE o.decision = d.decision "
            f"ORDER BY o.seq DESC LIMIT 1), -1) AS y, {band if state.bands else -1} AS band "
            f"FROM decisions d WHERE d.erased IS NULL {where}) each_of "
            f"GROUP BY {', '.join(TALLIED[:-1])}",
            *state.bands, *given,
        )  # fmt: skip

    def totals(self, period: Period = EVER) -> LogTotals:
        [(first, last, decisions, failed, edited)] = self.execute(
            "SELECT min(start), max(start), coalesce(sum(n), 0), "
            "coalesce(sum(CASE WHEN original < 0 THEN n END), 0), "
            "coalesce(sum(CASE WHEN edited > 0 THEN n END), 0) "
            "FROM tallies WHERE n > 0 AND start >= ? AND start < ?",
            *_whole(period),
        )
        return LogTotals(first, last, int(decisions), int(failed), int(edited))

    def counts(self, width: int, period: Period = EVER) -> WindowCounts:
        """People in windows of so many seconds; the last outcome of a decision counts."""
        rows = self.execute(
            f"SELECT {self.floor('start / ?')} AS part, grp, original, "
            "CASE WHEN repaired < 0 THEN original ELSE repaired END, y, band, sum(n) FROM tallies "
            "WHERE n > 0 AND original >= 0 AND grp <> '' AND start >= ? AND start < ? "
            "GROUP BY 1, 2, 3, 4, 5, 6",
            float(width), *_whole(period),
        )  # fmt: skip
        return {
            (part * width, group, original, repaired, _known(y), _known(band)): int(n)
            for part, group, original, repaired, y, band, n in rows
        }

    def last_edits(self, most: int, period: Period) -> Iterable[tuple[Any, ...]]:
        """Time, decision, group, columns, original and repaired decision; the last one first."""
        return self.execute(
            "SELECT at, decision, coalesce(grp, ''), edited, original, repaired FROM decisions "
            "WHERE edited <> '' AND at >= ? AND at < ? ORDER BY seq DESC LIMIT ?",
            *period,
            most,
        )

    def failures(self, period: Period) -> Iterator[tuple[str, int, float, str]]:
        """What happened to decisions that are not ok: how often, when and to which one last."""
        counted = self.execute(
            "SELECT status, sum(n) FROM tallies WHERE status <> 'ok' AND n > 0 "
            "AND start >= ? AND start < ? GROUP BY status ORDER BY sum(n) DESC",
            *_whole(period),
        )
        last = ("SELECT at, decision FROM decisions WHERE status <> 'ok' AND status = ? "
                "AND at >= ? AND at < ? ORDER BY seq DESC LIMIT 1")  # fmt: skip
        for status, n in list(counted):
            for at, decision in self.execute(last, status, *period):
                yield status, int(n), at, decision

    def inputs(
        self, artifact: str, group: str, days: int, period: Period = EVER
    ) -> Iterable[tuple[str, int, int]]:
        """Day, cell and count of a group's rows on the last days that have any, by day."""
        until = min(period[1] - 1, time.time() + DAY)
        mine = "artifact = ? AND grp = ? AND day >= ?"
        last = [day for (day,) in self.execute(
            f"SELECT DISTINCT day FROM cells WHERE {mine} AND day <= ? ORDER BY day DESC LIMIT ?",
            artifact, group, day_of(period[0]), day_of(until), days)]  # fmt: skip
        if not last:
            return ()
        return self.execute(
            f"SELECT day, cell, n FROM cells WHERE {mine} AND day <= ? ORDER BY day",
            artifact, group, last[-1], last[0],
        )  # fmt: skip

    # ---------------------------------------------------------------- what happened

    def events_of(
        self, kinds: Sequence[str], most: int, period: Period = EVER
    ) -> Iterable[tuple[float, str, str]]:
        """Time, kind and detail of events, the last one first."""
        marks = ",".join("?" * len(kinds))
        return self.execute(
            f"SELECT at, kind, detail FROM events WHERE kind IN ({marks}) "
            "AND at >= ? AND at < ? ORDER BY seq DESC LIMIT ?",
            *kinds,
            *period,
            most,
        )

    def decisions_named(self, names: Sequence[str]) -> list[dict[str, Any]]:
        """Rows of decisions by their ids, in the order of the log."""
        return self._decisions(f"decision IN ({','.join('?' * len(names))})", *names)

    def decisions_of(self, person: str) -> list[dict[str, Any]]:
        """Rows of decisions about a person, by the pseudonym, in the order of the log."""
        return self._decisions("person = ?", person)

    def _decisions(self, where: str, *given: Any) -> list[dict[str, Any]]:
        columns = TABLES["decisions"]
        query = f"SELECT {', '.join(columns)} FROM decisions WHERE {where} ORDER BY seq"
        return [dict(zip(columns, row, strict=True)) for row in self.execute(query, *given)]

    def logged_of(self, decisions: Sequence[str]) -> dict[str, str]:
        """Those of some ids of decisions that are in the log, each by itself."""
        query = "SELECT decision, decision FROM decisions WHERE decision IN (??)"
        return dict(self.selected(query, decisions))

    def last_decisions_of(self, people: Sequence[str]) -> dict[str, str]:
        """The last decision about each of some people, by their pseudonyms."""
        query = ("SELECT seq, person, decision FROM decisions WHERE original IS NOT NULL "
                 "AND person IN (??)")  # fmt: skip
        rows = sorted(self.selected(query, people))
        return {person: decision for _, person, decision in rows}

    def outcomes_named(self, decision: str) -> Iterable[tuple[float, int]]:
        """Time and value of every outcome of a decision; the last one counts."""
        query = "SELECT at, y FROM outcomes WHERE decision = ? ORDER BY seq"
        return self.execute(query, decision)


def _whole(period: Period) -> tuple[int, int]:
    """A period as tallies know it: their starts are whole."""
    return math.floor(period[0]), math.ceil(period[1])


def _known(number: int) -> int | None:
    return None if number < 0 else number


CONTRADICTED = "outcome contradicted"
"""The kind of events about outcomes unlike those known before."""
LOGS: Registry[LogStore] = Registry("log", "fairmend.serve.log.stores", "fairmend.logs")


def store_at(where: str | Path, *, read_only: bool) -> LogStore:
    """A log in the database that its address names; a path is SQLite's."""
    scheme, separator, _ = str(where).partition("://")
    return LOGS[scheme if separator else "sqlite"](str(where), read_only=read_only)


def open_store(where: str | Path) -> closing[LogStore]:
    """A log to read, whoever writes it."""
    return closing(store_at(where, read_only=True))
