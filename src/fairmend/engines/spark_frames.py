"""The engine of Spark, classic or Connect: counts in the cluster, `mapInArrow` on the workers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fairmend.engines.cells import HIGH, KNOWN, LOW, PEOPLE, SQUARED, WEIGHT
from fairmend.engines.job import Job, unshipped
from fairmend.engines.local import no_out
from fairmend.engines.source import Source


def names(source: Source) -> list[str]:
    """The columns of the frame."""
    return list(source.data.columns)


def tabulate(source: Source, columns: Sequence[str], weight: str | None) -> tuple[Any, int]:
    """A group-by of Spark's own; what comes here are cells."""
    from pyspark.sql import functions as f

    keys = [f.col(_quoted(name)) for name in columns]
    sums = [f.count(f.lit(1)).alias(PEOPLE)]
    if weight is not None:
        w = f.col(_quoted(weight)).cast("double")
        zero = f.lit(0.0)
        sums += [
            f.coalesce(f.sum(w), zero).alias(WEIGHT),
            f.coalesce(f.sum(w * w), zero).alias(SQUARED),
            f.coalesce(f.min(w), zero).alias(LOW),
            f.coalesce(f.max(w), zero).alias(HIGH),
            f.count(w).alias(KNOWN),
        ]
    counted = source.data.groupBy(*keys).agg(*sums)
    if source.suppress_below == 1:
        return counted.toArrow(), 0
    native = counted.where(f.col(PEOPLE) >= source.suppress_below).toArrow()
    return native, source.data.count() - sum(native.column(PEOPLE).to_pylist())


def map_rows(source: Source, job: Job, out: Path | None, *, overwrite: bool) -> Any:
    """The frame after the job; nothing happens until Spark is asked for rows."""
    if out is not None:
        raise no_out("Spark frames")
    from pyspark.cloudpickle import dumps
    from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

    frame, shipped = source.data, job.shipped(dumps)
    before = to_arrow_schema(frame.schema)
    after = job(before.empty_table(), "no partition").schema

    def mapped(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa
        from pyspark import TaskContext

        here = unshipped(shipped)
        context = TaskContext.get()
        where = "partition" if context is None else f"partition {context.partitionId()}"
        for batch in batches:
            table = here(pa.Table.from_batches([batch]), where)
            yield from table.cast(after).to_batches()

    return frame.mapInArrow(mapped, from_arrow_schema(after))


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
