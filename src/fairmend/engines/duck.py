"""The engine of DuckDB: relations, tables, and files that must be counted beyond memory.

DuckDB spills what exceeds its memory limit to disk, so that any number of distinct rows is counted.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fairmend.engines.cells import HIGH, KNOWN, LOW, PEOPLE, SQUARED, WEIGHING, WEIGHT
from fairmend.engines.job import Job
from fairmend.engines.small import Counted, Suppression
from fairmend.engines.source import Source, is_csv
from fairmend.errors import require

BATCH_ROWS = 200_000


def names(source: Source) -> list[str]:
    """The columns of the relation."""
    return list(source.data.columns)


def tabulate(
    source: Source, columns: Sequence[str], weight: str | None, small: Suppression
) -> Counted:
    """A group-by of DuckDB's own, which spills to disk."""
    relation = source.data
    query = cells_sql(columns, weight, small.below if small.drops else 1)
    native = relation.query("fairmend_rows", query).to_arrow_table()
    if not small.drops:
        return small.of(native, columns)
    if small.below == 1:
        return Counted(native)
    total = relation.aggregate("count(*) AS n").fetchall()[0][0]
    return Counted(native, left_out=total - sum(native.column(PEOPLE).to_pylist()))


def cells_sql(columns: Sequence[str], weight: str | None, suppress_below: int = 1) -> str:
    """The query that counts the cells of a view ``fairmend_rows``."""
    keys = ", ".join(map(quoted, columns))
    sums = f"count(*) AS {PEOPLE}"
    if weight is not None:
        w = f"{quoted(weight)}::DOUBLE"
        sums += (
            f", coalesce(fsum({w}), 0) AS {WEIGHT}, coalesce(fsum({w} * {w}), 0) AS {SQUARED}, "
            f"coalesce(min({w}), 0) AS {LOW}, coalesce(max({w}), 0) AS {HIGH}, "
            f"count({w}) AS {KNOWN}, count(nullif({w}, 0)) AS {WEIGHING}"
        )
    having = f" HAVING count(*) >= {suppress_below}" if suppress_below > 1 else ""
    return f"SELECT {keys}, {sums} FROM fairmend_rows GROUP BY ALL{having}"


def quoted(name: str) -> str:
    """A name as SQL writes it.

    >>> quoted("my column")
    '"my column"'
    """
    return '"' + name.replace('"', '""') + '"'


def map_rows(source: Source, job: Job, out: Path | None, *, overwrite: bool) -> Any:
    """The rows after the job as a reader, or written to a file."""
    from fairmend.engines.writing import written

    reader = source.data.to_arrow_reader(BATCH_ROWS)
    if out is None:
        return mapped(reader, job, "the relation")
    return written(out, job, {"relation": " ".join(source.data.columns)},
                   lambda: mapped(reader, job, "the relation"), overwrite=overwrite)  # fmt: skip


def mapped(reader: Any, job: Job, where: str) -> Any:
    """The batches of a reader after the job, as a reader of the same kind."""
    pyarrow = require("pyarrow", extra="duckdb", why="rows in batches")
    done = job(pyarrow.Table.from_batches([], reader.schema), where)

    def batches() -> Iterator[Any]:
        first = 0
        for batch in reader:
            at = f"{where}, rows {first:,} to {first + len(batch):,}"
            table = job(pyarrow.Table.from_batches([batch]), at)
            first += len(batch)
            yield from table.cast(done.schema).to_batches()

    return pyarrow.RecordBatchReader.from_batches(done.schema, batches())


def connected(source: Source) -> Any:
    """A connection that keeps to the source's memory limit and spills beyond it."""
    duckdb = require("duckdb", extra="duckdb", why="files larger than memory")
    settings = {"memory_limit": source.memory_limit, "threads": len(os.sched_getaffinity(0))}
    if source.temp_directory is not None:
        settings["temp_directory"] = source.temp_directory
    return duckdb.connect(config=settings)


def opened(connection: Any, files: Sequence[str]) -> Any:
    """Files of one format as a relation; types of a CSV are told by all of its rows."""
    if not is_csv(files[0]):
        return connection.read_parquet(list(files))
    found = connection.read_csv(list(files), sample_size=-1)
    words = _taken_for_truth(connection, files, found)
    if not words:
        return found
    return connection.read_csv(list(files), sample_size=-1, dtype=dict.fromkeys(words, "VARCHAR"))


def _taken_for_truth(connection: Any, files: Sequence[str], found: Any) -> list[str]:
    """Columns of words such as yes and no, which DuckDB reads as true and false."""
    kinds = zip(found.columns, map(str, found.types), strict=True)
    truths = [name for name, kind in kinds if kind == "BOOLEAN"]
    if not truths:
        return []
    raw = connection.read_csv(list(files), all_varchar=True)
    odd = ", ".join(
        f"count(*) FILTER (lower(trim({quoted(name)})) NOT IN ('true', 'false'))" for name in truths
    )
    counts = raw.aggregate(odd).fetchall()[0]
    return [name for name, count in zip(truths, counts, strict=True) if count > 0]
