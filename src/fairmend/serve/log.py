"""The decision log: every decision on disk before it is answered, in an order nobody can rewrite.

SQLite with a write-ahead log, synced at every commit. One thread writes; what arrives while it
syncs shares the next commit. Each row of a table carries

    chain = BLAKE2b(chain of the row before, the row as JSON),

so that a changed, missing or inserted row breaks the chain from there on. The last value, the head,
is worth noting elsewhere: with it a log cut short shows as well.
"""

from __future__ import annotations

import fcntl
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

from fairmend.data.files import writing
from fairmend.errors import DataError, require

__all__ = ["DecisionLog", "Entry", "Reply", "Verdict", "export", "verify"]

TABLES: dict[str, dict[str, str]] = {
    "decisions": {
        "decision": "TEXT", "person": "TEXT", "at": "REAL", "grp": "TEXT", "artifact": "TEXT",
        "vendor": "TEXT", "version": "TEXT", "mode": "TEXT", "original": "INTEGER",
        "repaired": "INTEGER", "original_score": "REAL", "repaired_score": "REAL",
        "edited": "TEXT", "latency_ms": "REAL", "status": "TEXT", "features": "TEXT",
    },
    "outcomes": {"decision": "TEXT", "y": "INTEGER", "at": "REAL"},
    "events": {"at": "REAL", "kind": "TEXT", "detail": "TEXT"},
}  # fmt: skip
"""The chained tables and their columns, apart from seq and chain."""
_START = bytes(32)
_AT_ONCE = 512
_REPLIES_KEPT = 86_400.0  # seconds an Idempotency-Key is remembered
_CHECKPOINT_SECONDS = 1.0
_LONG = 4_096  # pages of the write-ahead log, 4 kB each
_MOVE = "PRAGMA wal_checkpoint(PASSIVE)"
_json = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class Reply:
    """What was answered under an Idempotency-Key, to be answered again."""

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
    prune_before: float | None = None
    """Forget decisions older than this."""


class LogUnavailable(Exception):
    """The log cannot be written: nothing may be answered."""


class DecisionLog:
    """The one writer of a log, and a reader of it."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock = _locked(self.path)
        try:
            self._db = _opened(self.path)
        except DataError:
            self._lock.close()
            raise
        self._heads = {table: _head(self._db, table) for table in TABLES}
        self._queue: queue.SimpleQueue[Entry | None] = queue.SimpleQueue()
        self.healthy = True
        """Whether the last commit went well."""
        self._reader = sqlite3.connect(_read_only(self.path), uri=True, check_same_thread=False)
        self._long = False
        """Whether the write-ahead log should begin anew."""
        self._closing = threading.Event()
        self._threads = [
            threading.Thread(target=work, name=name, daemon=True)
            for work, name in ((self._write, "decision log"), (self._checkpoint, "checkpoints"))
        ]
        for thread in self._threads:
            thread.start()

    # ---------------------------------------------------------------- writing

    def put(self, entry: Entry) -> None:
        """Queue an entry; its ``done`` is called from the writer's thread after the commit."""
        self._queue.put(entry)

    def put_and_wait(self, entry: Entry) -> None:
        """Write from a thread that may block."""
        finished = threading.Event()
        failed: list[Exception] = []

        def done(error: Exception | None) -> None:
            if error is not None:
                failed.append(error)
            finished.set()

        entry.done = done
        self.put(entry)
        finished.wait()
        if failed:
            raise failed[0]

    def event(self, kind: str, **detail: Any) -> Entry:
        """Something worth recording that is no decision."""
        return Entry([("events", (time.time(), kind, _json.encode(detail).decode()))])

    def close(self) -> None:
        """Write what is queued, and let go of the file."""
        self._queue.put(None)
        self._closing.set()
        for thread in self._threads:
            thread.join()
        self._reader.close()
        self._db.close()
        self._lock.close()

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
            if self._long:
                self._begin_anew()

    def _checkpoint(self) -> None:
        """Move what is in the write-ahead log into the file, beside the writer, not in its way."""
        db = sqlite3.connect(self.path, isolation_level=None)
        while not self._closing.wait(_CHECKPOINT_SECONDS):
            with suppress(sqlite3.Error):  # the writer will notice a full disk itself
                _, pages, _ = db.execute(_MOVE).fetchone()
                self._long = pages > _LONG
        db.close()

    def _begin_anew(self) -> None:
        """Move the little that was written meanwhile; without it the write-ahead log only grows.

        SQLite begins that log anew once all of it is moved, which the other thread never gets done
        while this one writes.
        """
        self._long = False
        with suppress(sqlite3.Error):
            self._db.execute(_MOVE).fetchone()

    def _commit(self, batch: list[Entry]) -> None:
        heads = dict(self._heads)
        error: Exception | None = None
        try:
            self._db.execute("BEGIN IMMEDIATE")
            for entry in batch:
                self._insert(entry, heads)
            self._db.execute("COMMIT")
            self._heads, self.healthy = heads, True
        except Exception as why:  # whatever it was: those who wait must hear of it
            self.healthy = False
            error = LogUnavailable(type(why).__name__)
            if self._db.in_transaction:
                with suppress(sqlite3.Error):  # a full disk may have rolled back by itself
                    self._db.execute("ROLLBACK")
        for entry in batch:
            if entry.done is not None:
                entry.done(error)

    def _insert(self, entry: Entry, heads: dict[str, tuple[int, bytes]]) -> None:
        for table, values in entry.rows:
            seq, chain = heads[table]
            seq, chain = seq + 1, _link(chain, seq + 1, values)
            self._db.execute(_INSERT[table], (seq, *values, chain))
            heads[table] = seq, chain
        if entry.cells:
            self._db.executemany(_COUNT, entry.cells)
        if entry.reply is not None:
            reply = entry.reply
            self._db.execute(
                "INSERT OR REPLACE INTO replies VALUES (?, ?, ?, ?, ?, ?)",
                (reply.key, reply.body, time.time(), reply.status, reply.content, reply.decision),
            )
        if entry.prune_before is not None:
            self._prune(entry.prune_before, heads)

    def _prune(self, before: float, heads: dict[str, tuple[int, bytes]]) -> None:
        """Forget old rows, and note in the events where each chain now begins."""
        self._db.execute("DELETE FROM replies WHERE at < ?", (time.time() - _REPLIES_KEPT,))
        self._db.execute("DELETE FROM cells WHERE day < date(?, 'unixepoch')", (before,))
        for table in ("decisions", "outcomes"):
            found = self._db.execute(
                f"SELECT seq, chain FROM {table} WHERE seq < coalesce("
                f"(SELECT min(seq) FROM {table} WHERE at >= ?), 1 << 62) ORDER BY seq DESC LIMIT 1",
                (before,),
            ).fetchone()
            if found is None:
                continue
            seq, chain = found
            detail = _json.encode({"table": table, "through": seq, "chain": chain.hex()}).decode()
            number, head = heads["events"]
            values = (time.time(), "retention", detail)
            number, head = number + 1, _link(head, number + 1, values)
            self._db.execute(_INSERT["events"], (number, *values, head))
            heads["events"] = number, head
            self._db.execute(f"DELETE FROM {table} WHERE seq <= ?", (seq,))

    # ---------------------------------------------------------------- reading

    def reply(self, key: bytes) -> Reply | None:
        """What was answered under a key, by this process or an earlier one."""
        found = self._reader.execute(
            "SELECT key, body, status, content, decision FROM replies WHERE key = ? AND at > ?",
            (key, time.time() - _REPLIES_KEPT),
        ).fetchone()
        return None if found is None else Reply(*found)

    def knows(self, decisions: Sequence[str]) -> set[str]:
        """Which of some decision ids are in the log."""
        marks = ",".join("?" * len(decisions))
        return {
            found
            for (found,) in self._reader.execute(
                f"SELECT decision FROM decisions WHERE decision IN ({marks})", decisions
            )
        }


def _locked(path: Path) -> Any:
    """Two writers would tear the chain apart: the second is turned away."""
    try:
        lock = Path(f"{path}.lock").open("w")  # noqa: SIM115  held as long as the log is open
    except OSError as error:
        raise DataError(f"log {str(path)!r}", "must be writable", f"it is not: {error.strerror}",
                        "Choose another place.") from None  # fmt: skip
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise DataError(
            f"log {str(path)!r}",
            "must have one writer",
            "another process has it open",
            "Give every replica a log of its own.",
        ) from None
    return lock


def _opened(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA wal_autocheckpoint = 0")
        db.execute("PRAGMA secure_delete = ON")  # what is forgotten is gone from the file too
        for table, columns in TABLES.items():
            typed = ", ".join(f"{name} {kind}" for name, kind in columns.items())
            db.execute(
                f"CREATE TABLE IF NOT EXISTS {table} "
                f"(seq INTEGER PRIMARY KEY, {typed}, chain BLOB NOT NULL)"
            )
        db.execute("CREATE INDEX IF NOT EXISTS decided ON decisions (decision)")
        db.execute("CREATE INDEX IF NOT EXISTS became ON outcomes (decision)")
        db.execute(
            "CREATE TABLE IF NOT EXISTS cells (day TEXT, artifact TEXT, grp TEXT, cell INTEGER, "
            "n INTEGER, PRIMARY KEY (day, artifact, grp, cell)) WITHOUT ROWID"
        )
        db.execute(
            "CREATE TABLE IF NOT EXISTS replies (key BLOB PRIMARY KEY, body BLOB, at REAL, "
            "status INTEGER, content BLOB, decision TEXT) WITHOUT ROWID"
        )
    except sqlite3.Error as error:
        db.close()
        raise DataError(f"log {str(path)!r}", "must be a log that can be written",
                        f"SQLite says: {error}", "Choose another place.") from None  # fmt: skip
    return db


def _insert_into(table: str) -> str:
    return f"INSERT INTO {table} VALUES ({','.join('?' * (len(TABLES[table]) + 2))})"


_INSERT = {table: _insert_into(table) for table in TABLES}
_COUNT = (
    "INSERT INTO cells VALUES (?, ?, ?, ?, 1) "
    "ON CONFLICT (day, artifact, grp, cell) DO UPDATE SET n = n + 1"
)


def _link(before: bytes, seq: int, values: Sequence[Any]) -> bytes:
    return blake2b(before + _json.encode([seq, *values]), digest_size=32).digest()


def _head(db: sqlite3.Connection, table: str) -> tuple[int, bytes]:
    last = db.execute(f"SELECT seq, chain FROM {table} ORDER BY seq DESC LIMIT 1").fetchone()
    return last or _begins(db, table)


def _begins(db: sqlite3.Connection, table: str) -> tuple[int, bytes]:
    """Number and chain of the last row forgotten: where the chain of those kept begins."""
    told = db.execute("SELECT detail FROM events WHERE kind = 'retention' ORDER BY seq DESC")
    for (detail,) in told:
        forgotten = msgspec.json.decode(detail)
        if forgotten["table"] == table:
            return forgotten["through"], bytes.fromhex(forgotten["chain"])
    return 0, _START


# -------------------------------------------------------------------- for auditors


@dataclass(frozen=True)
class Verdict:
    """What a look through a log found."""

    rows: dict[str, int]
    heads: dict[str, str]
    broken: str = ""
    """Where the chain breaks first; empty if it holds."""

    @property
    def holds(self) -> bool:
        return not self.broken


def verify(path: str | Path, *, head: str | None = None) -> Verdict:
    """Follow every chain of a log from its beginning; ``head`` must be a value on one of them."""
    rows: dict[str, int] = {}
    heads: dict[str, str] = {}
    seen = head is None
    with _reading(path) as db:
        db.execute("BEGIN")  # one state of it, even while somebody writes
        for table in TABLES:
            seq, chain = _begins(db, table)
            count = 0
            for found in db.execute(f"SELECT * FROM {table} ORDER BY seq"):
                number, *values, kept = found
                if number != seq + 1:
                    return Verdict(rows, heads, f"{table}: row {seq + 1} is missing")
                seq, chain = number, _link(chain, number, values)
                if chain != kept:
                    return Verdict(rows, heads, f"{table}: row {number} was changed")
                seen = seen or chain.hex() == head
                count += 1
            rows[table], heads[table] = count, chain.hex()
    return Verdict(rows, heads, "" if seen else "the head given is not in the log: it was cut")


def export(
    path: str | Path, to: str | Path, *, table: str = "decisions", overwrite: bool = False
) -> int:
    """Write a table to a Parquet file; how many rows it has."""
    if table not in TABLES:
        raise DataError("table", f"must be one of {', '.join(TABLES)}", f"got {table!r}",
                        "Leave it out for the decisions.")  # fmt: skip
    if Path(to).suffix.lower() != ".parquet":
        raise DataError(f"output {str(to)!r}", "must be a name that ends in .parquet",
                        "it does not", "Name it so: only Parquet is written.")  # fmt: skip
    require("pyarrow", extra="serve", why="exporting a log to Parquet")
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {"TEXT": pa.string(), "REAL": pa.float64(), "INTEGER": pa.int64()}
    columns = {"seq": pa.int64()} | {name: kinds[kind] for name, kind in TABLES[table].items()}
    schema = pa.schema([*columns.items(), ("chain", pa.binary())])
    count = 0
    with (
        _reading(path) as db,
        writing(to, overwrite=overwrite) as file,
        pq.ParquetWriter(file, schema) as parquet,
    ):
        found = db.execute(f"SELECT * FROM {table} ORDER BY seq")
        while part := found.fetchmany(50_000):
            arrays = [
                pa.array(column, kind)
                for column, kind in zip(zip(*part, strict=True), schema.types, strict=True)
            ]
            parquet.write_table(pa.Table.from_arrays(arrays, schema=schema))
            count += len(part)
    return count


def _read_only(path: str | Path) -> str:
    """The address of a file that is only looked at; a path may hold what an address may not."""
    return f"{Path(path).absolute().as_uri()}?mode=ro"


@contextmanager
def _reading(path: str | Path) -> Iterator[sqlite3.Connection]:
    """A connection that can only read, or word that there is nothing to read."""
    refusal = DataError(
        f"log {str(path)!r}",
        "must be a decision log",
        "it is not one",
        "Name the file that `fairmend serve` writes.",
    )
    try:
        db = sqlite3.connect(_read_only(path), uri=True, isolation_level=None)
    except sqlite3.Error:
        raise refusal from None
    with closing(db):
        try:
            db.execute("SELECT count(*) FROM events")
        except sqlite3.Error:
            raise refusal from None
        yield db


def rows_of(path: str | Path, query: str, *given: Any) -> Iterator[tuple[Any, ...]]:
    """What a question to a log finds, for those who only look."""
    with _reading(path) as db:
        yield from db.execute(query, given)
