"""The decision log: every decision is on disk before it is answered, and rows cannot be rewritten.

One thread writes; what arrives while it waits for the disk shares the next commit. Each row carries

    chain = BLAKE2b(chain of the row before, the row as JSON),

so that a changed, missing or inserted row breaks the chain from there on. The last value, the head,
is worth noting elsewhere: with it a log cut short shows as well.

Where rows are kept is a `LogStore`, one file of this folder each.
"""

from __future__ import annotations

import queue
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import astuple, dataclass, field
from functools import lru_cache
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import msgspec

from fairmend.data.files import writing
from fairmend.errors import check, check_choice, require
from fairmend.measure.late import WindowCounts
from fairmend.model.registry import Registry

__all__ = [
    "EVER",
    "TABLES",
    "DecisionLog",
    "Entry",
    "LogStore",
    "LogTotals",
    "LogUnavailable",
    "Period",
    "Reply",
    "Verdict",
    "export",
    "open_store",
    "verify",
]

TABLES: dict[str, dict[str, type]] = {
    "decisions": {
        "decision": str, "person": str, "at": float, "grp": str, "artifact": str, "vendor": str,
        "version": str, "mode": str, "original": int, "repaired": int, "original_score": float,
        "repaired_score": float, "edited": str, "latency_ms": float, "status": str,
        "features": str,
    },
    "outcomes": {"decision": str, "y": int, "at": float},
    "events": {"at": float, "kind": str, "detail": str},
}  # fmt: skip
"""The chained tables and their columns, between the number of a row and its chain."""
_START = bytes(32)
_AT_ONCE = 512
_REPLIES_KEPT = 86_400.0  # seconds for which an Idempotency-Key is remembered
_IDS_AT_ONCE = 500
_INSERT = {
    table: f"INSERT INTO {table} VALUES ({','.join('?' * (len(columns) + 2))})"
    for table, columns in TABLES.items()
}
_COUNT = (
    "INSERT INTO cells VALUES (?, ?, ?, ?, 1) "
    "ON CONFLICT (day, artifact, grp, cell) DO UPDATE SET n = cells.n + 1"
)
_KEEP = (
    "INSERT INTO replies (key, body, status, content, decision, at) VALUES (?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (key) DO UPDATE SET body = excluded.body, status = excluded.status, "
    "content = excluded.content, decision = excluded.decision, at = excluded.at"
)
_json = msgspec.json.Encoder()

Head = tuple[int, bytes]
"""Number and chain of a row."""
Period = tuple[float, float]
"""From a time on until before another."""
EVER: Period = (0.0, 1e18)


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer under an Idempotency-Key, to be given again."""

    key: bytes
    body: bytes
    """A keyed hash of the request."""
    status: int
    content: bytes
    decision: str


@dataclass(slots=True)
class Entry:
    """What one request writes, all of it or nothing."""

    rows: list[tuple[str, tuple[Any, ...]]]
    """Each a table's name and its values, in the order of `TABLES`."""
    cells: list[tuple[str, str, str, int]] = field(default_factory=list)
    """Day, artifact, group and place of the row in the audit, to be counted."""
    reply: Reply | None = None
    done: Callable[[Exception | None], None] | None = None
    """Called from the writer's thread after the commit."""
    prune_before: float | None = None
    """Delete decisions older than this."""


class LogTotals(NamedTuple):
    """Decisions so far: time of the first and the last, how many, how many failed or edited."""

    first: float | None
    last: float | None
    decisions: int
    failed: int
    edited: int


class LogUnavailable(Exception):
    """The log cannot be written: nothing may be answered."""


# -------------------------------------------------------------------- backends


class LogStore(ABC):
    """A database that keeps logs; its name is the scheme of its addresses.

    It makes the `TABLES` with a number before and a chain behind their columns, and two more:
    ``cells`` (day, artifact, grp, cell, n; unique but for n), and ``replies`` (key, body, at,
    status, content, decision; unique by key).
    """

    scheme: ClassVar[str]

    def __init_subclass__(cls) -> None:
        LOGS.add(cls.scheme, cls)

    @abstractmethod
    def __init__(self, where: str, *, read_only: bool) -> None:
        """Open a log as its only writer, or to read; a `DataError` says why that is impossible."""

    @abstractmethod
    def execute(self, query: str, *given: Any) -> Iterable[tuple[Any, ...]]:
        """The rows of a statement in the SQL that databases share; ``?`` stands for a value."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[None]:
        """What is written inside is on disk at its end, or not at all; reads see one state."""

    @abstractmethod
    def close(self) -> None: ...

    def tidy(self) -> None:  # noqa: B027  most need nothing
        """Whatever may be done between commits."""

    # ---------------------------------------------------------------- what is read

    def rows(self, table: str) -> Iterator[tuple[Any, ...]]:
        """All rows in order, each with its number first and its chain last."""
        return iter(self.execute(f"SELECT * FROM {table} ORDER BY seq"))

    def head(self, table: str) -> Head:
        """The last row, or the last that was deleted."""
        last = self.execute(f"SELECT seq, chain FROM {table} ORDER BY seq DESC LIMIT 1")
        return next(iter(last), None) or self.begins(table)

    def begins(self, table: str) -> Head:
        """The last row that was deleted: where the chain of those kept begins."""
        for (detail,) in self.execute(
            "SELECT detail FROM events WHERE kind = 'retention' ORDER BY seq DESC"
        ):
            deleted = msgspec.json.decode(detail)
            if deleted["table"] == table:
                return deleted["through"], bytes.fromhex(deleted["chain"])
        return 0, _START

    def totals(self, period: Period = EVER) -> LogTotals:
        [totals] = self.execute(
            "SELECT min(at), max(at), count(*), count(*) - count(original), "
            "count(CASE WHEN edited <> '' THEN 1 END) FROM decisions WHERE at >= ? AND at < ?",
            *period,
        )
        return LogTotals(*totals)

    def counts(
        self, width: int, bands: Sequence[float] = (), period: Period = EVER
    ) -> WindowCounts:
        """People in windows of so many seconds; the last outcome of a decision counts.

        ``bands`` are the scores at which a new band of scores begins.
        """
        cases = "".join(f" WHEN d.original_score < ? THEN {i}" for i in range(len(bands)))
        band = f"CASE WHEN d.original_score IS NULL THEN NULL{cases} ELSE {len(bands)} END"
        rows = self.execute(
            "SELECT CAST(d.at / ? AS INTEGER) AS part, d.grp, d.original, "
            f"coalesce(d.repaired, d.original), o.y, {band}, count(*) FROM decisions d LEFT JOIN "
            "(SELECT decision, y, max(seq) FROM outcomes GROUP BY decision) o "
            "ON o.decision = d.decision WHERE d.original IS NOT NULL AND d.grp IS NOT NULL "
            "AND d.at >= ? AND d.at < ? GROUP BY 1, 2, 3, 4, 5, 6",
            float(width),
            *bands,
            *period,
        )
        return {(part * width, *key): n for part, *key, n in rows}

    def last_edits(self, most: int, period: Period = EVER) -> Iterable[tuple[Any, ...]]:
        """Time, decision, group, columns, original and repaired decision; the last one first."""
        return self.execute(
            "SELECT at, decision, coalesce(grp, ''), edited, original, repaired FROM decisions "
            "WHERE edited <> '' AND at >= ? AND at < ? ORDER BY seq DESC LIMIT ?",
            *period,
            most,
        )

    def failures(self, period: Period = EVER) -> Iterable[tuple[str, int, float, str]]:
        """What happened to decisions that are not ok: how often, when and to which one last."""
        return self.execute(
            "SELECT status, count(*), max(at), max(decision) FROM decisions "
            "WHERE status <> 'ok' AND at >= ? AND at < ? GROUP BY status ORDER BY count(*) DESC",
            *period,
        )

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
        columns, marks = TABLES["decisions"], ",".join("?" * len(names))
        rows = self.execute(
            f"SELECT {', '.join(columns)} FROM decisions WHERE decision IN ({marks}) ORDER BY seq",
            *names,
        )
        return [dict(zip(columns, row, strict=True)) for row in rows]

    def outcomes_named(self, decision: str) -> Iterable[tuple[float, int]]:
        """Time and value of every outcome of a decision; the last one counts."""
        query = "SELECT at, y FROM outcomes WHERE decision = ? ORDER BY seq"
        return self.execute(query, decision)

    def inputs(self, artifact: str, group: str) -> Iterable[tuple[str, int, int]]:
        """Day, cell and count of a group's rows, by day."""
        query = "SELECT day, cell, n FROM cells WHERE artifact = ? AND grp = ? ORDER BY day"
        return self.execute(query, artifact, group)


LOGS: Registry[LogStore] = Registry("log", __name__, "fairmend.logs")


def _store(where: str | Path, *, read_only: bool) -> LogStore:
    scheme, separator, _ = str(where).partition("://")
    return LOGS[scheme if separator else "sqlite"](str(where), read_only=read_only)


def open_store(where: str | Path) -> closing[LogStore]:
    """A log to read, whoever writes it."""
    return closing(_store(where, read_only=True))


# -------------------------------------------------------------------- the writer


class DecisionLog:
    """The one writer of a log, and a reader of it."""

    def __init__(self, where: str | Path) -> None:
        self.where = where
        self._store = _store(where, read_only=False)
        self._reader = _store(where, read_only=True)
        self._heads = {table: self._store.head(table) for table in TABLES}
        self._queue: queue.SimpleQueue[Entry | None] = queue.SimpleQueue()
        self.healthy = True
        """Whether the last commit succeeded."""
        self._thread = threading.Thread(target=self._write, name="decision log", daemon=True)
        self._thread.start()

    def put(self, entry: Entry) -> None:
        """Queue an entry."""
        self._queue.put(entry)

    def put_and_wait(self, entry: Entry) -> None:
        """Write from a thread that may block."""
        finished: queue.SimpleQueue[Exception | None] = queue.SimpleQueue()
        entry.done = finished.put
        self.put(entry)
        error = finished.get()
        if error is not None:
            raise error

    def reply(self, key: bytes) -> Reply | None:
        """The answer under a key, by this process or an earlier one."""
        query = "SELECT key, body, status, content, decision FROM replies WHERE key = ? AND at > ?"
        rows = list(self._reader.execute(query, key, time.time() - _REPLIES_KEPT))
        return Reply(*rows[0]) if rows else None

    def last(self) -> float | None:
        """The time of the last row of all."""
        times = [
            at
            for table in TABLES
            for (at,) in self._reader.execute(f"SELECT at FROM {table} ORDER BY seq DESC LIMIT 1")
        ]
        return max(times, default=None)

    def oldest(self) -> float | None:
        """The time of the first decision that is kept."""
        rows = self._reader.execute("SELECT at FROM decisions ORDER BY seq LIMIT 1")
        return next((at for (at,) in rows), None)

    def logged_of(self, decisions: Sequence[str]) -> set[str]:
        """Which of some ids of decisions are in the log."""
        logged: set[str] = set()
        for start in range(0, len(decisions), _IDS_AT_ONCE):
            part = decisions[start : start + _IDS_AT_ONCE]
            marks = ",".join("?" * len(part))
            query = f"SELECT decision FROM decisions WHERE decision IN ({marks})"
            logged.update(decision for (decision,) in self._reader.execute(query, *part))
        return logged

    def close(self) -> None:
        """Write what is queued, and let go of the log."""
        self._queue.put(None)
        self._thread.join()
        self._reader.close()
        self._store.close()

    def _write(self) -> None:
        last = False
        while not last:
            batch: list[Entry] = []
            entry = self._queue.get()
            while entry is not None:
                batch.append(entry)
                if len(batch) == _AT_ONCE or self._queue.empty():
                    break
                entry = self._queue.get()
            last = entry is None
            if batch:
                self._commit(batch)
            self._store.tidy()

    def _commit(self, batch: list[Entry]) -> None:
        heads = dict(self._heads)
        error: Exception | None = None
        try:
            with self._store.transaction():
                for entry in batch:
                    self._insert(entry, heads)
            self._heads, self.healthy = heads, True
        except Exception as why:  # whatever it was: those who wait must hear of it
            self.healthy = False
            error = LogUnavailable(type(why).__name__)
        for entry in batch:
            if entry.done is not None:
                entry.done(error)

    def _insert(self, entry: Entry, heads: dict[str, Head]) -> None:
        for table, values in entry.rows:
            self._append(table, values, heads)
        for cell in entry.cells:
            self._store.execute(_COUNT, *cell)
        if entry.reply is not None:
            self._store.execute(_KEEP, *astuple(entry.reply), time.time())
        if entry.prune_before is not None:
            self._prune(entry.prune_before, heads)

    def _append(self, table: str, values: tuple[Any, ...], heads: dict[str, Head]) -> None:
        seq, chain = heads[table]
        heads[table] = seq + 1, _link(chain, seq + 1, values)
        self._store.execute(_INSERT[table], seq + 1, *values, heads[table][1])

    def _prune(self, before: float, heads: dict[str, Head]) -> None:
        """Delete old rows, and record in the events where each chain now begins."""
        execute = self._store.execute
        execute("DELETE FROM replies WHERE at < ?", time.time() - _REPLIES_KEPT)
        execute("DELETE FROM cells WHERE day < ?", day_of(before))
        for table in ("decisions", "outcomes"):
            newer = f"(SELECT min(seq) FROM {table} WHERE at >= ?)"
            old = f"SELECT seq, chain FROM {table} WHERE seq < coalesce({newer}, {1 << 62})"
            for seq, chain in list(execute(f"{old} ORDER BY seq DESC LIMIT 1", before)):
                detail = {"table": table, "through": seq, "chain": chain.hex()}
                self._append("events", event("retention", detail), heads)
                execute(f"DELETE FROM {table} WHERE seq <= ?", seq)


@lru_cache(maxsize=4)
def _day(number: int) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(86_400 * number))


def day_of(at: float) -> str:
    """The day of a time, in UTC."""
    return _day(int(at // 86_400))


def event(kind: str, detail: dict[str, Any]) -> tuple[float, str, str]:
    """The values of an event that happens now."""
    return time.time(), kind, _json.encode(detail).decode()


def _link(before: bytes, seq: int, values: Sequence[Any]) -> bytes:
    return blake2b(before + _json.encode([seq, *values]), digest_size=32).digest()


# -------------------------------------------------------------------- for auditors


@dataclass(frozen=True)
class Verdict:
    """What following the chains of a log found."""

    rows: dict[str, int]
    heads: dict[str, str]
    broken: str = ""
    """Where the chain breaks first; empty if it holds."""

    @property
    def holds(self) -> bool:
        return not self.broken


def verify(where: str | Path, *, head: str | None = None) -> Verdict:
    """Follow every chain of a log from its beginning; ``head`` must be a value on one of them."""
    rows: dict[str, int] = {}
    heads: dict[str, str] = {}
    seen = head is None
    with open_store(where) as store, store.transaction():
        for table in TABLES:
            seq, chain = store.begins(table)
            first = seq
            for number, *values, kept in store.rows(table):
                if number != seq + 1:
                    return Verdict(rows, heads, f"{table}: row {seq + 1} is missing")
                seq, chain = number, _link(chain, number, values)
                if chain != kept:
                    return Verdict(rows, heads, f"{table}: row {number} was changed")
                seen = seen or chain.hex() == head
            rows[table], heads[table] = seq - first, chain.hex()
    return Verdict(rows, heads, "" if seen else "the head given is not in the log: it was cut")


def export(
    where: str | Path, to: str | Path, *, table: str = "decisions", overwrite: bool = False
) -> int:
    """Write a table to a Parquet file, and return the number of its rows."""
    check_choice("table", table, TABLES, "Leave it out for the decisions.")
    check(Path(to).suffix.lower() == ".parquet", f"output {str(to)!r}",
          "must be a name that ends in .parquet", "it does not",
          "Only Parquet is written.")  # fmt: skip
    require("pyarrow", extra="serve", why="exporting a log to Parquet")
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {str: pa.string(), float: pa.float64(), int: pa.int64()}
    columns = {"seq": pa.int64()} | {name: kinds[kind] for name, kind in TABLES[table].items()}
    schema = pa.schema([*columns.items(), ("chain", pa.binary())])
    count = 0
    with (
        open_store(where) as store,
        writing(to, overwrite=overwrite) as file,
        pq.ParquetWriter(file, schema) as parquet,
    ):
        rows = store.rows(table)
        while part := list(islice(rows, 50_000)):
            arrays = [
                pa.array(column, kind)
                for column, kind in zip(zip(*part, strict=True), schema.types, strict=True)
            ]
            parquet.write_table(pa.Table.from_arrays(arrays, schema=schema))
            count += len(part)
    return count
