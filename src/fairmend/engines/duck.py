"""The engine of DuckDB: relations, tables, and files that must be counted beyond memory.

DuckDB spills what exceeds its memory limit to disk, so that any number of distinct rows is counted.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fairmend.apply.outputs import unknown_origin, write_parquet
from fairmend.data.addresses import filesystem, is_address
from fairmend.engines.cells import HIGH, KNOWN, LOW, PEOPLE, SQUARED, WEIGHT, refuse_words
from fairmend.engines.job import Job
from fairmend.engines.small import Counted, Suppression
from fairmend.engines.source import Engine, Source, damaged, is_csv
from fairmend.errors import check_columns, require

BATCH_ROWS = 200_000
MOSTLY = 0.9
"""A column of which a rough count finds so many different values is counted exactly."""


class DuckDB(Engine):
    """A group-by of DuckDB's own, which spills to disk."""

    name = "duckdb"
    reads = ("duckdb", "_duckdb")
    writes = True

    def tabulate(
        self, source: Source, columns: Sequence[str], weight: str | None, small: Suppression
    ) -> Counted:
        return counted(source.data, columns, weight, small)

    def map_rows(self, source: Source, job: Job, out: Path | str | None, *, overwrite: bool) -> Any:
        reader = source.data.to_arrow_reader(BATCH_ROWS)
        rows = mapped(reader, job, "the relation")
        if out is None:
            return rows
        stamp = job.stamp | unknown_origin(source.data.columns)
        return write_parquet(out, stamp, lambda: rows, overwrite=overwrite)


def counted(
    relation: Any, columns: Sequence[str], weight: str | None, small: Suppression
) -> Counted:
    """The cells of a relation that may leave."""
    native = cells(relation, columns, weight, small.below if small.drops else 1).to_arrow_table()
    return small.left(native, columns, lambda: relation.aggregate(_people(weight)).fetchall()[0][0])


def cells(relation: Any, columns: Sequence[str], weight: str | None, suppress_below: int) -> Any:
    """The cells of a relation as a relation."""
    kinds = dict(zip(relation.columns, map(str, relation.types), strict=True))
    keys = ", ".join(f"{_known(name, kinds[name])} AS {quoted(name)}" for name in columns)
    sums = f"{_people(weight)} AS {PEOPLE}"
    if weight is not None:
        refuse_words(relation, weight)
        w = f"nullif({quoted(weight)}::DOUBLE, 'nan')"
        sums += (
            f", coalesce(fsum({w}), 0) AS {WEIGHT}, coalesce(fsum({w} * {w}), 0) AS {SQUARED}, "
            f"coalesce(min(nullif({w}, 0)), 0) AS {LOW}, coalesce(max({w}), 0) AS {HIGH}, "
            f"count(nullif({w}, 0)) AS {KNOWN}"
        )
    having = f" HAVING {_people(weight)} >= {suppress_below}" if suppress_below > 1 else ""
    query = f"SELECT {keys}, {sums} FROM fairmend_rows GROUP BY ALL{having}"
    return relation.query("fairmend_rows", query)


def all_different(relation: Any, columns: Sequence[str], people: int) -> Iterator[str]:
    """The columns of whole numbers or text of which no two people share a value."""
    kinds = dict(zip(relation.columns, map(str, relation.types), strict=True))
    asked = [name for name in columns if "INT" in kinds[name] or kinds[name] == "VARCHAR"]
    if not asked:
        return
    counted = ", ".join(f"approx_count_distinct({quoted(name)})" for name in asked)
    rough = relation.aggregate(counted).fetchall()[0]
    for name, distinct in zip(asked, rough, strict=True):
        if distinct < MOSTLY * people:
            continue
        exact = relation.aggregate(f"count(DISTINCT {quoted(name)})").fetchall()[0][0]
        if exact == people:
            yield name


def _people(weight: str | None) -> str:
    """How many there are, without those of weight 0."""
    if weight is None:
        return "count(*)"
    return f"count(*) FILTER ({quoted(weight)}::DOUBLE IS DISTINCT FROM 0)"


def _known(name: str, kind: str) -> str:
    """A column in which nan is not known, as null is."""
    column = quoted(name)
    return f"if(isnan({column}), NULL, {column})" if kind in ("FLOAT", "DOUBLE") else column


def quoted(name: str) -> str:
    """A name as SQL writes it.

    >>> quoted("my column")
    '"my column"'
    """
    return '"' + name.replace('"', '""') + '"'


def mapped(reader: Any, job: Job, where: str, keep: Any = None) -> Any:
    """The batches of a reader after the job, as a reader of the same kind.

    ``keep`` must live as long as that reader: copies of files, say.
    """
    pyarrow = require("pyarrow", extra="duckdb", why="rows in batches")
    done = job(pyarrow.Table.from_batches([], reader.schema), where)

    def batches() -> Iterator[Any]:
        first, _ = 0, keep
        for batch in reader:
            at = f"{where}, rows {first:,} to {first + len(batch):,}"
            table = job(pyarrow.Table.from_batches([batch]), at)
            first += len(batch)
            yield from table.cast(done.schema).to_batches()

    return pyarrow.RecordBatchReader.from_batches(done.schema, batches())


def connected(source: Source) -> Any:
    """A connection that reaches a source's files, and spills beyond its memory limit."""
    duckdb = require("duckdb", extra="duckdb", why="files larger than memory")
    settings: dict[str, Any] = {"memory_limit": source.memory_limit}
    if hasattr(os, "sched_getaffinity"):  # the cores this process may use, where the system says so
        settings["threads"] = len(os.sched_getaffinity(0))
    if source.temp_directory is not None:
        settings["temp_directory"] = source.temp_directory
    connection = duckdb.connect(config=settings)
    if is_address(source.files[0]):
        connection.register_filesystem(filesystem(source.files[0]))
    return connection


def relation(source: Source) -> Any:
    """The files of a source as one relation, on a connection of its own."""
    return opened(connected(source), source.files)


@contextmanager
def reading(files: Sequence[str]) -> Iterator[None]:
    """Damage that is found while files are read is an error in the data, with the file's name.

    Whoever reads them finds it: DuckDB, Polars or PyArrow.
    """
    import polars as pl
    import pyarrow as pa

    duckdb = require("duckdb", extra="duckdb", why="files larger than memory")
    try:
        yield
    except (duckdb.OutOfMemoryException, duckdb.InterruptException):
        raise
    except (duckdb.Error, pl.exceptions.ComputeError, pa.ArrowException) as error:
        reason = " ".join(str(error).split())
        file = next((name for name in files if name in reason), None) or _damaged(files)
        if file is None:  # the fault is not in the files
            raise
        raise damaged(file, error) from None


def _damaged(files: Sequence[str]) -> str | None:
    """The first Parquet file on this machine that cannot be read to its end."""
    import pyarrow as pa
    import pyarrow.parquet

    for name in files:
        if is_address(name) or is_csv(name):
            continue
        try:
            for _ in pa.parquet.ParquetFile(name).iter_batches(BATCH_ROWS):
                pass
        except (pa.ArrowException, OSError):
            return name
    return None


def opened(connection: Any, files: Sequence[str]) -> Any:
    """Files of one format as a relation; CSV only from elsewhere, as DuckDB reads it."""
    # By name: columns may come in another order, and a type must hold the values of all files.
    settings: dict[str, Any] = {"union_by_name": True, "hive_partitioning": False}
    names = [name if is_address(name) else glob.escape(name) for name in files]
    with reading(files):
        if not is_csv(files[0]):
            return _columns_of_the_first(connection.read_parquet, files, names, settings)
        settings["sample_size"] = -1
        return _columns_of_the_first(connection.read_csv, files, names, settings)


def _columns_of_the_first(
    read: Callable[..., Any], files: Sequence[str], names: list[str], settings: dict[str, Any]
) -> Any:
    """All files with the columns of the first, in its order; one that lacks any is an error."""
    if len(files) == 1:
        return read(names, **settings)
    first = read(names[0]).columns
    for file, name in zip(files[1:], names[1:], strict=True):
        fix = "Name files of one kind."
        check_columns(f"file {file!r}", read(name).columns, first, fix, of=repr(files[0]))
    return read(names, **settings).project(", ".join(map(quoted, first)))
