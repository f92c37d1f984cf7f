"""A decision log in a SQLite file, with a write-ahead log that is synced at every commit."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

from fairmend.errors import DataError, check
from fairmend.serve.log.store import LogStore

__all__ = ["SQLiteLog"]

_CHECKPOINT_SECONDS = 1.0
_LONG = 4_096  # pages of the write-ahead log, 4 kB each
_SETTINGS = [
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA wal_autocheckpoint = 0",
    "PRAGMA secure_delete = ON",  # what is deleted is gone from the file too
]


class SQLiteLog(LogStore):
    """A log in one file."""

    scheme = "sqlite"
    small = " WITHOUT ROWID"
    types = {str: "TEXT", float: "REAL", int: "INTEGER", bytes: "BLOB"}  # noqa: RUF012

    def __init__(self, where: str, *, read_only: bool) -> None:
        self.path = Path(where.removeprefix("sqlite://"))
        self._long = False
        """Whether the write-ahead log should begin anew."""
        self._closing = threading.Event()
        self._lock: TextIO | None = None
        self._checkpoints: threading.Thread | None = None
        self._read_only = read_only
        self._db = _opened(self.path) if read_only else self._made()

    def _made(self) -> sqlite3.Connection:
        try:  # only its owner may read it; SQLite gives the files beside it the same rights
            with suppress(FileExistsError):
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        except (OSError, sqlite3.Error) as error:
            got = f"it is not: {getattr(error, 'strerror', error)}"
            raise _refusal(self.path, "must be writable", got) from None
        try:
            for statement in _SETTINGS:
                db.execute(statement)
            old = "SELECT count(*) FROM pragma_table_info('decisions') WHERE name = 'chain'"
            new = "SELECT count(*) FROM sqlite_master WHERE name = 'state'"
            is_old = db.execute(old).fetchone() > db.execute(new).fetchone()
            for statement in () if is_old else ("BEGIN IMMEDIATE", *self.schema(), "COMMIT"):
                db.execute(statement)
        except sqlite3.Error as error:
            db.close()
            raise _refusal(self.path, "must be a log that can be written", str(error)) from None
        if is_old:
            db.close()
            raise _refusal(
                self.path, "must be a log with a key", "an earlier version wrote it without one",
                "Keep it as it is, and choose another place.",
            )  # fmt: skip
        return db

    def claim(self) -> None:
        """Serve alone: a second server is turned away, those who amend the log are not."""
        self._lock = _locked(self.path)
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

    def execute_many(self, query: str, given: Iterable[Sequence[Any]]) -> None:
        self._db.executemany(query, given)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        try:
            self._db.execute("BEGIN" if self._read_only else "BEGIN IMMEDIATE")
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
                _, pages, _ = _moved(db)
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
                _moved(self._db)

    def purge(self) -> None:
        busy, _, _ = _moved(self._db, "TRUNCATE")
        check(not busy, f"log {str(self.path)!r}", "must be read by nobody for a moment",
              "somebody reads it: what was erased is still in the file beside it",
              "Do it again, or restart the sidecar.")  # fmt: skip


def _moved(db: sqlite3.Connection, how: str = "PASSIVE") -> tuple[int, int, int]:
    """Move the write-ahead log into the file; whether somebody was in the way, and its pages."""
    busy, pages, moved = db.execute(f"PRAGMA wal_checkpoint({how})").fetchone()
    return busy, pages, moved


def _locked(path: Path) -> TextIO:
    """Two servers would each think themselves alone with what they have begun."""
    try:
        handle = os.open(f"{path}.lock", os.O_CREAT | os.O_RDWR, 0o600)
        lock = os.fdopen(handle, "w")
    except OSError as error:
        raise _refusal(path, "must be writable", f"it is not: {error.strerror}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        got = "another process has it open"
        fix = "Give every replica a log of its own, or all of them one in PostgreSQL."
        raise _refusal(path, "must have one writer", got, fix) from None
    return lock


def _opened(path: Path) -> sqlite3.Connection:
    """A connection that can only read; a path may hold what an address may not."""
    address = f"{path.absolute().as_uri()}?mode=ro"
    try:
        db = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
        try:
            db.execute("SELECT count(*) FROM state")
        except sqlite3.Error:
            db.close()
            raise
    except sqlite3.Error:
        fix = "Name the file that `fairmend serve` writes."
        got = "it is not one" if path.exists() else "there is no such file"
        raise _refusal(path, "must be a decision log", got, fix) from None
    return db


def _refusal(path: Path, must: str, got: str, fix: str = "Choose another place.") -> DataError:
    return DataError(f"log {str(path)!r}", must, got, fix)
