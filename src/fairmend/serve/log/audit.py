"""A log for auditors: was anything changed, and its tables as files."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from fairmend.data.files import is_special, writing
from fairmend.errors import check, check_choice, require
from fairmend.serve.log.chain import TABLES, Head, LogBroken, LogKey, State
from fairmend.serve.log.store import LogStore, open_store

__all__ = ["ERASED", "Verdict", "export", "verify"]

ERASED = "erased"
"""The kind of events about rows whose content was erased."""


@dataclass(frozen=True)
class Verdict:
    """What following the chains of a log found."""

    rows: dict[str, int]
    heads: dict[str, str]
    broken: str = ""
    """Where the chain breaks first; empty if it holds."""
    erased: int = 0
    """Rows without content, because somebody had it erased."""

    @property
    def holds(self) -> bool:
        return not self.broken


class _Broken(Exception):
    pass


def verify(
    where: str | Path,
    key: LogKey,
    *,
    head: str | None = None,
    checkpoints: Sequence[dict[str, Any]] = (),
) -> Verdict:
    """Follow every chain of a log from its beginning, and count again what is counted.

    ``head`` must be a value on one of the chains, and so must those of ``checkpoints``.
    """
    noted = [key.check_signed(each, f"checkpoint {i + 1}") for i, each in enumerate(checkpoints)]
    broken = ""
    with open_store(where) as store, store.transaction():
        following = _Following(store, key, noted, head)
        try:
            state = store.state(key)
            for table in ("events", "decisions", "outcomes"):  # events say what was erased
                following.follow(table, state)
            following.count(state)
            if head is not None and not following.seen:
                raise _Broken("the head given is not in the log: it was cut")
        except (_Broken, LogBroken) as why:
            broken = str(why)
        except (TypeError, ValueError, OverflowError):  # SQLite keeps anything in any column
            broken = "a value is of another type than a log's"
    rows = {table: following.rows[table] for table in TABLES if table in following.rows}
    heads = {table: following.heads[table] for table in rows}
    return Verdict(rows, heads, broken, following.erased)


class _Following:
    """The chains of a log, row by row."""

    def __init__(
        self, store: LogStore, key: LogKey, noted: Sequence[Mapping[str, Head]], head: str | None
    ) -> None:
        self._store, self._key, self._noted, self._head = store, key, noted, head
        self._may_be_erased: dict[str, set[int]] = {table: set() for table in TABLES}
        self.rows: dict[str, int] = {}
        self.heads: dict[str, str] = {}
        self.erased, self.seen = 0, False

    def follow(self, table: str, state: State) -> None:
        """Every row must follow from the one before; `_Broken` where one does not."""
        noted: dict[int, list[tuple[int, bytes]]] = {}
        for i, heads in enumerate(self._noted):
            noted.setdefault(heads[table][0], []).append((i + 1, heads[table][1]))
        first, _ = seq, chain = state.begins[table]
        self._compare(table, seq, chain, noted)
        for number, *values, erased, kept in self._store.rows(table):
            if number != seq + 1:
                raise _Broken(f"{table}: row {seq + 1} is missing")
            digest = erased and bytes(erased)
            if digest is None:
                digest = self._key.digest(table, number, values)
            elif number not in self._may_be_erased[table]:
                raise _Broken(f"{table}: row {number} was emptied, and no event says so")
            elif any(value is not None for name, value in zip(TABLES[table], values, strict=True)
                     if name != "at"):  # fmt: skip
                raise _Broken(f"{table}: row {number} was erased, and has content again")
            else:
                self.erased += 1
            seq, chain = number, self._key.link(chain, digest)
            if chain != bytes(kept):
                raise _Broken(f"{table}: row {number} was changed")
            self.seen = self.seen or chain.hex() == self._head
            self._compare(table, seq, chain, noted)
            if table == "events" and values[1] == ERASED:
                for name, rows in json.loads(values[2])["rows"].items():
                    self._may_be_erased[name].update(rows)
        later = [(number, i) for number, those in noted.items() for i, _ in those if number > seq]
        for number, i in later[:1]:
            raise _Broken(f"{table}: it was cut after row {seq}; checkpoint {i} has row {number}")
        if (seq, chain) != state.heads[table]:
            raise _Broken(f"{table}: it was cut after row {seq}")
        self.rows[table], self.heads[table] = seq - first, chain.hex()

    @staticmethod
    def _compare(
        table: str, seq: int, chain: bytes, noted: Mapping[int, list[tuple[int, bytes]]]
    ) -> None:
        for i, there in noted.get(seq, ()):
            if there != chain:
                raise _Broken(f"{table}: row {seq} is not that of checkpoint {i}")

    def count(self, state: State) -> None:
        """Counts of inputs by their sum, tallies by the decisions."""
        total = 0
        for *cell, n in self._store.execute("SELECT artifact, grp, day, cell, n FROM cells"):
            total = self._key.counted(total, cell, n)
        if total != state.counts:
            raise _Broken("cells: the counts of inputs, which drift is told by, were changed")
        tallied: Counter[tuple[Any, ...]] = Counter()
        for start, *more, n in self._store.execute("SELECT * FROM tallies"):
            tallied[(start, *more)] += n
        for start, *more, n in self._store.tallied(state):
            tallied[(start, *more)] -= n
        if any(tallied.values()):
            raise _Broken("tallies: they are not those of the decisions")


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
    schema = pa.schema([*columns.items(), ("erased", pa.binary()), ("chain", pa.binary())])
    count = 0
    with (
        open_store(where) as store,
        store.transaction(),
        writing(to, overwrite=overwrite) as file,
        pq.ParquetWriter(file, schema) as parquet,
    ):
        if not is_special(Path(to)):
            os.fchmod(file.fileno(), 0o600)  # as the log itself
        rows = store.rows(table)
        while part := list(islice(rows, 50_000)):
            arrays = [
                pa.array(column, kind)
                for column, kind in zip(zip(*part, strict=True), schema.types, strict=True)
            ]
            parquet.write_table(pa.Table.from_arrays(arrays, schema=schema))
            count += len(part)
    return count
