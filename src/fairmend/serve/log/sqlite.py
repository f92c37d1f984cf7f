"""A decision log in a SQLite file, with a write-ahead log that is synced at every commit."""

from __future__ import annotations

import fcntl
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

from fairmend.errors import DataError
from fairmend.serve.log import TABLES, LogStore

__all__ = ["SQLiteLog"]

_TYPES = {str: "TEXT", float: "REAL", int: "INTEGER"}
_CHECKPOINT = "PRAGMA wal_checkpoint(PASSIVE)"
_CHECKPOINT_SECONDS = 1.0
_LONG = 4_096  # pages of the write-ahead log, 4 kB each
_SCHEMA = [
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA wal_autocheckpoint = 0",
    "PRAGMA secure_delete = ON",  # what is deleted is gone from the file too
    *(
        f"CREATE TABLE IF NOT EXISTS {table} (seq INTEGER PRIMARY KEY, "
        + ", ".join(f"{name} {_TYPES[kind]}" for name, kind in columns.items())
        + ", chain BLOB NOT NULL)"
        for table, columns in TABLES.items()
    ),
    "CREATE INDEX IF NOT EXISTS decided ON decisions (decision)",
    "CREATE INDEX IF NOT EXISTS became ON outcomes (decision)",
    "CREATE TABLE IF NOT EXISTS cells (day TEXT, artifact TEXT, grp TEXT, cell INTEGER, "
    "n INTEGER, PRIMARY KEY (day, artifact, grp, cell)) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS replies (key BLOB PRIMARY KEY, body BLOB, at REAL, "
    "status INTEGER, content BLOB, decision TEXT) WITHOUT ROWID",
]


class SQLiteLog(LogStore):
    """A log in one file."""

    scheme = "sqlite"

    def __init__(self, where: str, *, read_only: bool) -> None:
        self.path = Path(where.removeprefix("sqlite://"))
        self._long = False
        """Whether the write-ahead log should begin anew."""
        self._closing = threading.Event()
        self._lock: TextIO | None = None
        self._checkpoints: threading.Thread | None = None
        if read_only:
            self._db = _opened(self.path)
            return
        self._lock = _locked(self.path)
        self._db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        try:
            for statement in _SCHEMA:
                self._db.execute(statement)
        except sqlite3.Error as error:
            self._db.close()
            self._lock.close()
            raise _refusal(self.path, "must be a log that can be written", str(error)) from None
        self._checkpoints = threading.Thread(target=self._checkpoint, name="checkpoints")
        self._checkpoints.daemon = True
        self._checkpoints.start()

    def close(self) -> None:
        self._closing.set()
        if self._checkpoints is not None:
            self._checkpoints.join()
        self._db.close()
        if self._lock is not None:
            self._lock.close()

    def execute(self, query: str, *given: Any) -> sqlite3.Cursor:
        return self._db.execute(query, given)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        try:
            self._db.execute("BEGIN" if self._lock is None else "BEGIN IMMEDIATE")
            yield
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:
                with suppress(sqlite3.Error):  # a full disk may have rolled back by itself
                    self._db.execute("ROLLBACK")
            raise

    def _checkpoint(self) -> None:
        """Move the write-ahead log into the file, beside the writer, not in its way."""
        db = sqlite3.connect(self.path, isolation_level=None)
        while not self._closing.wait(_CHECKPOINT_SECONDS):
            with suppress(sqlite3.Error):  # the writer will notice a full disk itself
                _, pages, _ = db.execute(_CHECKPOINT).fetchone()
                self._long = pages > _LONG
        db.close()

    def tidy(self) -> None:
        """Move the little that was written meanwhile; without it the write-ahead log only grows.

        SQLite begins that log anew once all of it is moved, which the other thread never gets done
        while this one writes.
        """
        if self._long:
            self._long = False
            with suppress(sqlite3.Error):
                self._db.execute(_CHECKPOINT).fetchone()


def _locked(path: Path) -> TextIO:
    """Two writers would tear the chain apart: the second is turned away."""
    try:
        lock = Path(f"{path}.lock").open("w")  # noqa: SIM115  held as long as the log is open
    except OSError as error:
        raise _refusal(path, "must be writable", f"it is not: {error.strerror}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        got, fix = "another process has it open", "Give every replica a log of its own."
        raise _refusal(path, "must have one writer", got, fix) from None
    return lock


def _opened(path: Path) -> sqlite3.Connection:
    """A connection that can only read; a path may hold what an address may not."""
    address = f"{path.absolute().as_uri()}?mode=ro"
    try:
        db = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
        try:
            db.execute("SELECT count(*) FROM events")
        except sqlite3.Error:
            db.close()
            raise
    except sqlite3.Error:
        fix = "Name the file that `fairmend serve` writes."
        raise _refusal(path, "must be a decision log", "it is not one", fix) from None
    return db


def _refusal(path: Path, must: str, got: str, fix: str = "Choose another place.") -> DataError:
    return DataError(f"log {str(path)!r}", must, got, fix)
