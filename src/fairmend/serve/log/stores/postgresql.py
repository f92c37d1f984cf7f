"""A decision log in PostgreSQL, shared by replicas.

Whoever writes locks the row of the state, goes on with the chains from there, and commits: that
takes two round trips and one sync to disk, and until it is over the others wait. A replica that
dies lets go of the lock at once; one that hangs, after some seconds.
"""

from __future__ import annotations

import logging
import select
import threading
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import lru_cache
from typing import Any

from fairmend.errors import DataError, in_a_line, require
from fairmend.serve.log.store import LogStore

__all__ = ["PostgreSQLLog"]

_CONNECT_SECONDS = 5
_LOOK_SECONDS = 0.1
"""How often a wait for the database looks at the time."""
_CREATE_LOCK = 0x6661_6972
_SESSION = (
    "SELECT set_config('idle_in_transaction_session_timeout', '10s', false), "
    "set_config('synchronous_commit', CASE current_setting('synchronous_commit') "
    "WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, false)"
)
"""Nobody holds the lock for long, and a commit is on disk whatever the server's default is."""


class PostgreSQLLog(LogStore):
    """A log in the tables of a schema: that which the connection's search path begins with."""

    scheme = "postgresql"
    types = {str: "TEXT", float: "DOUBLE PRECISION", int: "BIGINT", bytes: "BYTEA"}  # noqa: RUF012
    locking = " FOR UPDATE"

    def __init__(self, where: str, *, read_only: bool) -> None:
        psycopg = require("psycopg", extra="postgres", why="a log in PostgreSQL")
        logging.getLogger("psycopg").setLevel(logging.CRITICAL)  # errors are raised, and noted
        self.where, self._read_only = where, read_only
        self._db: Any = None
        self._deadline: float | None = None
        self._using = threading.RLock()
        try:
            self._connected()
            missing = next(iter(self.execute("SELECT to_regclass('state') IS NULL")))[0]
            if missing and not read_only:
                with self.transaction():
                    self.execute("SELECT pg_advisory_xact_lock(?)", _CREATE_LOCK)
                    for statement in self.schema():
                        self.execute(statement)
        except psycopg.Error as error:
            self.close()
            raise DataError(
                f"log {where!r}", "must be a database that answers", in_a_line(error),
                "See whether it runs; a password belongs into PGPASSWORD or ~/.pgpass.",
            ) from None  # fmt: skip
        if missing and read_only:
            self.close()
            raise DataError(f"log {where!r}", "must be a decision log", "it has no such tables",
                            "Name the database that `fairmend serve` writes to.")  # fmt: skip

    def floor(self, number: str) -> str:
        return f"CAST(floor({number}) AS BIGINT)"

    # ---------------------------------------------------------------- statements

    def execute(self, query: str, *given: Any) -> Iterable[tuple[Any, ...]]:
        with self._using, self._in_time():
            cursor = self._connected().execute(_translated(query), given)
            if self._db.info.pipeline_status:
                return _Rows(cursor)
            return cursor.fetchall() if cursor.description is not None else []

    def execute_many(self, query: str, given: Iterable[Sequence[Any]]) -> None:
        with self._using, self._in_time():
            self._connected().cursor().executemany(_translated(query), given)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        from psycopg import IsolationLevel

        with self._using, self._in_time():
            db = self._connected()
            level = IsolationLevel.REPEATABLE_READ if self._read_only else None
            try:
                db.isolation_level = level
                with nullcontext() if self._read_only else db.pipeline(), db.transaction():
                    yield
            except BaseException:
                self._drop()  # whatever state it is in
                raise

    def purge(self) -> None:
        self.execute("VACUUM decisions, outcomes, replies")

    def close(self) -> None:
        self._drop()

    # ---------------------------------------------------------------- the connection

    def _connected(self) -> Any:
        """The connection; a new one where the server has closed it, or it was dropped."""
        if self._db is not None and _is_over(self._db):
            self._drop()
        if self._db is None:
            self._db = _patient(self).connect(
                self.where, autocommit=True, connect_timeout=_CONNECT_SECONDS,
                application_name="fairmend", options="-c client_min_messages=warning",
            )  # fmt: skip
            if not self._read_only:
                self._db.execute(_SESSION)
        return self._db

    def _drop(self) -> None:
        if self._db is not None:
            with suppress(Exception):
                self._db.close()
            self._db = None

    @contextmanager
    def _in_time(self) -> Iterator[None]:
        """Bound what the database may take for what is done inside, as a whole."""
        outer = self._deadline
        if outer is None and self.patience is not None:
            self._deadline = time.monotonic() + self.patience
        try:
            yield
        finally:
            self._deadline = outer

    def bounded(self, waiting: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """What a connection waits for; an error once that takes too long."""
        from psycopg import OperationalError

        ready = None
        while True:
            try:
                wanted = waiting.send(ready)
            except StopIteration as done:
                return done.value
            ready = yield wanted
            if not ready and self._deadline is not None and time.monotonic() > self._deadline:
                waiting.close()
                self._drop()
                raise OperationalError("the database takes too long to answer")


class _Rows:
    """The rows of a statement in a pipeline: they are waited for when they are looked at."""

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self._cursor.fetchall())


@lru_cache(maxsize=1_000)
def _translated(query: str) -> str:
    """A statement as psycopg takes it."""
    return query.replace("%", "%%").replace("?", "%s")


def _is_over(db: Any) -> bool:
    """Whether it is closed, or the server says something unasked: that it ends."""
    if db.closed:
        return True
    is_idle = db.info.transaction_status == 0 and not db.info.pipeline_status
    return is_idle and bool(select.select([db.fileno()], [], [], 0)[0])


def _patient(store: PostgreSQLLog) -> Any:
    """The class of connections that wait no longer than the store may."""
    from psycopg import Connection

    class Patient(Connection[Any]):
        def wait(self, gen: Any, interval: float = _LOOK_SECONDS, timeout: Any = None) -> Any:
            return super().wait(store.bounded(gen), _LOOK_SECONDS)

    return Patient
