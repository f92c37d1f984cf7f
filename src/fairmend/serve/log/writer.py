"""The writer of a log: every decision is on disk before it is answered.

One thread writes; what arrives while it waits for the disk shares the next commit. Other processes
may write the same log: each commit goes on from the state that it finds, which it locks.
"""

from __future__ import annotations

import queue
import threading
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairmend.errors import DataError, FairmendError, in_a_line
from fairmend.serve.log.chain import TABLES, LogBroken, LogKey, State, day_of, event
from fairmend.serve.log.store import (
    CONTRADICTED,
    DAY,
    HOUR,
    MINUTE,
    TALLIED,
    LogStore,
    open_store,
    store_at,
)

__all__ = ["Amending", "DecisionLog", "Entry", "LogUnavailable", "Reply", "amended"]

_AT_ONCE = 512
_REPLIES_KEPT = 86_400.0  # seconds for which an Idempotency-Key is remembered
_PATIENCE = 5.0
"""Seconds that a database may take for a commit, or to find a reply."""
_BY_MINUTE, _BY_HOUR = 2 * DAY, 12 * DAY
"""How long tallies are kept by the minute, and by the hour: longer than pages show such windows."""
_AT, _GROUP, _STATUS, _EDITED, _ORIGINAL, _REPAIRED, _SCORE = (
    list(TABLES["decisions"]).index(name)
    for name in ("at", "grp", "status", "edited", "original", "repaired", "original_score")
)
_REPLY = "key, body, status, content, decision"


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
    earlier: Reply | None = None
    """The reply that was there already under this key: then nothing of the entry was written."""


class LogUnavailable(Exception):
    """The log cannot be written: nothing may be answered."""


# -------------------------------------------------------------------- one commit


class Amending:
    """What is changed in one transaction, from the state that was found."""

    def __init__(self, store: LogStore, key: LogKey) -> None:
        self.store, self._key = store, key
        self._state = store.state(key, locked=True)
        self.heads, self.begins = dict(self._state.heads), dict(self._state.begins)
        self._counts, self._rolled = self._state.counts, self._state.rolled
        self._rows: dict[str, list[tuple[Any, ...]]] = {table: [] for table in TABLES}
        self._tallies: Counter[tuple[Any, ...]] = Counter()
        self._cells: Counter[tuple[Any, ...]] = Counter()

    def append(self, table: str, values: tuple[Any, ...]) -> None:
        """One more row of a chain."""
        seq, before = self.heads[table]
        chain = self._key.link(before, self._key.digest(table, seq + 1, values))
        self.heads[table] = seq + 1, chain
        self._rows[table].append((seq + 1, *values, None, chain))
        if table == "decisions":
            self._tallies[self._tally(values)] += 1

    def write(self, entries: Sequence[Entry]) -> None:
        """Everything but what was answered before, by whichever replica."""
        given: dict[bytes, Entry] = {}
        for entry in entries:
            if entry.reply is not None:
                first = given.setdefault(entry.reply.key, entry)
                entry.earlier = None if first is entry else first.reply
        query = f"SELECT {_REPLY} FROM replies WHERE at > ? AND key IN (??)"
        for row in self.store.selected(query, list(given), time.time() - _REPLIES_KEPT):
            given[bytes(row[0])].earlier = _reply(row)
        written = [entry for entry in entries if entry.earlier is None]
        for entry in written:
            for table, values in entry.rows:
                self.append(table, values)
            for day, artifact, group, cell in entry.cells:
                self._cells[artifact, group, day, cell] += 1
        self._flush()
        self._weigh([values for entry in written for table, values in entry.rows
                     if table == "outcomes"])  # fmt: skip
        self._remember([entry.reply for entry in written if entry.reply is not None])
        for entry in written:
            if entry.prune_before is not None:
                self._prune(entry.prune_before)

    def end(self) -> None:
        """Write what is left, and the new state."""
        self._flush()
        state = self.state
        if state != self._state:
            self.store.keep(state, self._key)

    @property
    def state(self) -> State:
        """Where the chains will stand."""
        return State(self.heads, self.begins, self._counts, self._rolled, self._state.bands)

    def _flush(self) -> None:
        for table, rows in self._rows.items():
            self.store.insert(table, rows)
            rows.clear()
        for cell, n in self._cells.items():
            self._counts = self._key.counted(self._counts, cell, n)
        for name, counts in (("cells", self._cells), ("tallies", self._tallies)):
            added = [(*key, n) for key, n in counts.items() if n]
            if added:
                self.store.add(name, added)
            counts.clear()

    def _remember(self, replies: Sequence[Reply]) -> None:
        now = time.time()
        old = [(reply.key,) for reply in replies]
        if old:  # what is there under these keys is older than a day
            self.store.execute_many("DELETE FROM replies WHERE key = ?", old)
            self.store.insert("replies", [(each.key, each.body, each.status, each.content,
                                           each.decision, now) for each in replies])  # fmt: skip

    # ---------------------------------------------------------------- tallies

    def _start(self, at: float) -> int:
        by_day, by_hour = self._rolled
        width = DAY if at < by_day else HOUR if at < by_hour else MINUTE
        return int(at / width) * width

    def _tally(self, values: Sequence[Any], y: int | None = None) -> tuple[Any, ...]:
        """The key that a decision is counted under."""
        numbers = (-1 if each is None else each
                   for each in (values[_ORIGINAL], values[_REPAIRED], y))  # fmt: skip
        return (self._start(values[_AT]), values[_GROUP] or "", values[_STATUS] or "",
                int(bool(values[_EDITED])), *numbers, self._band(values[_SCORE]))  # fmt: skip

    def _band(self, score: float | None) -> int:
        bands = self._state.bands
        return bisect_right(bands, score) if bands and score is not None else -1

    def _weigh(self, outcomes: Sequence[tuple[Any, ...]]) -> None:
        """Count decisions by outcomes that were just written, and record contradictions."""
        before_these = self.heads["outcomes"][0] - len(outcomes)
        decisions = list({decision for decision, _, _ in outcomes})
        decided = {row[0]: row for row in self.store.selected(
            f"SELECT {', '.join(TABLES['decisions'])} FROM decisions WHERE decision IN (??)",
            decisions)}  # fmt: skip
        known = dict(self.store.selected(
            "SELECT decision, y FROM outcomes WHERE seq <= ? AND decision IN (??) ORDER BY seq",
            decisions, before_these))  # fmt: skip
        for decision, y, _ in outcomes:
            before = known.get(decision)
            if before is not None and before != y:
                self.append("events", event(CONTRADICTED, {"decision": decision}))
            if decision in decided:
                self._tallies[self._tally(decided[decision], before)] -= 1
                self._tallies[self._tally(decided[decision], y)] += 1
            known[decision] = y

    def untally(self, where: str, *given: Any) -> None:
        """Take decisions out of the tallies, before they go."""
        for *key, n in list(self.store.tallied(self.state, where, *given)):
            self._tallies[tuple(key)] -= n

    def _roll(self, now: float) -> None:
        """Keep old tallies by the hour from now on, and older ones by the day."""
        rolled = tuple(
            max(before, int((now - kept) // width) * width)
            for before, kept, width in zip(
                self._rolled, (_BY_HOUR, _BY_MINUTE), (DAY, HOUR), strict=True
            )
        )
        by_day, by_hour = rolled
        if (by_day, by_hour) == self._rolled:
            return
        between = "start >= ? AND start < ?"
        self._flush()
        old = list(self.store.execute(f"SELECT {', '.join(TALLIED)} FROM tallies WHERE {between}",
                                      self._rolled[0], by_hour))  # fmt: skip
        self.store.execute(f"DELETE FROM tallies WHERE {between}", self._rolled[0], by_hour)
        self._rolled = by_day, by_hour
        for start, *key, n in old:
            self._tallies[(self._start(start), *key)] += n
        self._flush()
        self.store.execute("DELETE FROM tallies WHERE n = 0")

    # ---------------------------------------------------------------- retention

    def _prune(self, before: float) -> None:
        """Delete old rows, and record in the events where each chain now begins."""
        execute = self.store.execute
        execute("DELETE FROM replies WHERE at < ?", time.time() - _REPLIES_KEPT)
        old = list(execute("SELECT artifact, grp, day, cell, n FROM cells WHERE day < ?",
                           day_of(before)))  # fmt: skip
        for *cell, n in old:
            self._counts = self._key.counted(self._counts, cell, -n)
        if old:
            execute("DELETE FROM cells WHERE day < ?", day_of(before))
        kept = "at >= ?"
        for table in ("decisions", "outcomes"):
            query = f"SELECT seq FROM {table} WHERE {kept} ORDER BY seq LIMIT 1"
            first = [seq for (seq,) in execute(query, before)]
            through = first[0] - 1 if first else self.heads[table][0]
            if through > self.begins[table][0]:
                self._delete(table, through)
            # an outcome goes with its decision, whatever a replica's clock says
            kept = ("(at >= ? OR EXISTS (SELECT 1 FROM decisions d "
                    "WHERE d.decision = outcomes.decision))")  # fmt: skip
        last = [at for (at,) in execute("SELECT at FROM decisions ORDER BY seq DESC LIMIT 1")]
        if last:
            self._roll(min(time.time(), *last))

    def _delete(self, table: str, through: int) -> None:
        [(chain,)] = self.store.execute(f"SELECT chain FROM {table} WHERE seq = ?", through)
        self.begins[table] = through, bytes(chain)
        detail = {"table": table, "through": through, "chain": bytes(chain).hex()}
        self.append("events", event("retention", detail))
        if table == "decisions":
            self.untally("AND d.seq <= ?", through)
        self.store.execute(f"DELETE FROM {table} WHERE seq <= ?", through)


def _reply(row: Sequence[Any]) -> Reply:
    key, body, status, content, decision = row
    return Reply(bytes(key), bytes(body), status, bytes(content), decision)


@contextmanager
def refusing(where: str | Path) -> Iterator[None]:
    """A log that cannot be gone on with is an error of ours."""
    try:
        yield
    except FairmendError:
        raise
    except LogBroken as error:
        raise DataError(f"log {str(where)!r}", "must be as it was written, with this key",
                        str(error), "Name its key; `fairmend log verify` looks further."
                        ) from None  # fmt: skip
    except Exception as error:  # each database has its own
        raise DataError(f"log {str(where)!r}", "must be writable", in_a_line(error),
                        "Make room on its disk, see whether its database runs, or choose another "
                        "place.") from None  # fmt: skip


@contextmanager
def amended(where: str | Path, key: LogKey) -> Iterator[LogStore]:
    """A log to be amended beside those who serve it; one that is not there is not made."""
    with open_store(where) as store, refusing(where):
        store.state(key)
    store = store_at(where, read_only=False)
    with closing(store), refusing(where):
        yield store


# -------------------------------------------------------------------- the thread


@contextmanager
def _reading() -> Iterator[None]:
    try:
        yield
    except Exception as why:  # each database has its own
        raise LogUnavailable(type(why).__name__) from why


class DecisionLog:
    """What a server writes to a log and reads of it."""

    def __init__(self, where: str | Path, key: LogKey, bands: Sequence[float] = ()) -> None:
        """``bands`` of scores are those of the log if it is new."""
        self.where, self.key = where, key
        self._store = store_at(where, read_only=False)
        try:
            self._store.claim()
            with refusing(where):
                self._store.begin(key, bands)
                self._store.state(key)
            self._reader = store_at(where, read_only=True)
        except BaseException:
            self._store.close()
            raise
        self._store.patience = self._reader.patience = _PATIENCE
        self._queue: queue.SimpleQueue[Entry | None] = queue.SimpleQueue()
        self.healthy = True
        """Whether the last commit succeeded."""
        self.trouble = ""
        """Why one failed last."""
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
        """The answer under a key, by whichever process."""
        query = f"SELECT {_REPLY} FROM replies WHERE key = ? AND at > ?"
        rows = self._read(query, key, time.time() - _REPLIES_KEPT)
        return _reply(rows[0]) if rows else None

    def last(self) -> float | None:
        """The time of the last row of all."""
        times = [
            at
            for table in TABLES
            for (at,) in self._read(f"SELECT at FROM {table} ORDER BY seq DESC LIMIT 1")
        ]
        return max(times, default=None)

    def oldest(self) -> float | None:
        """The time of the first decision that is kept."""
        rows = self._read("SELECT at FROM decisions ORDER BY seq LIMIT 1")
        return next((at for (at,) in rows), None)

    def pruned(self) -> float | None:
        """When decisions were last deleted, by whichever process."""
        query = "SELECT at FROM events WHERE kind = 'retention' ORDER BY seq DESC LIMIT 1"
        return next((at for (at,) in self._read(query)), None)

    def checkpoint(self) -> dict[str, Any]:
        """Where the chains stand now, signed."""
        with _reading():
            return self.key.checkpoint(self._reader.state(self.key))

    def logged_of(self, decisions: Sequence[str]) -> dict[str, str]:
        """Those of some ids of decisions that are in the log, each by itself."""
        with _reading():
            return self._reader.logged_of(decisions)

    def last_decisions_of(self, people: Sequence[str]) -> dict[str, str]:
        """The last decision about each of some people, by their pseudonyms."""
        with _reading():
            return self._reader.last_decisions_of(people)

    def close(self) -> None:
        """Write what is queued, and let go of the log."""
        self._queue.put(None)
        self._thread.join()
        self._reader.close()
        self._store.close()

    def _read(self, query: str, *given: Any) -> list[tuple[Any, ...]]:
        with _reading():
            return list(self._reader.execute(query, *given))

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
        error: Exception | None = None
        try:
            with self._store.transaction():
                amending = Amending(self._store, self.key)
                amending.write(batch)
                amending.end()
            self.healthy = True
        except Exception as why:  # whatever it was: those who wait must hear of it
            self.healthy, self.trouble = False, in_a_line(why)
            error = LogUnavailable(type(why).__name__)
        for entry in batch:
            if entry.done is not None:
                entry.done(error)
