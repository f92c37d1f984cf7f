"""The engine of Spark, classic or Connect: counts in the cluster, `mapInArrow` on the workers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fairmend.engines.cells import HIGH, KNOWN, LOW, PEOPLE, SQUARED, WEIGHING, WEIGHT
from fairmend.engines.job import Job, unshipped
from fairmend.engines.local import no_out
from fairmend.engines.small import Counted, Suppression
from fairmend.engines.source import Source


def names(source: Source) -> list[str]:
    """The columns of the frame."""
    return list(source.data.columns)


# Beside merged cells: how many people are in none of them, and how many at inputs of others.
_LEFT_OUT, _MOVED = "__left_out", "__moved"


def tabulate(
    source: Source, columns: Sequence[str], weight: str | None, small: Suppression
) -> Counted:
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
            f.count(f.nullif(w, zero)).alias(WEIGHING),
        ]
    counted = source.data.groupBy(*keys).agg(*sums)
    if not small.drops:
        return _merged(source, counted, columns, small)
    if small.below == 1:
        return Counted(counted.toArrow())
    native = counted.where(f.col(PEOPLE) >= small.below).toArrow()
    return Counted(native, source.data.count() - sum(native.column(PEOPLE).to_pylist()))


def _merged(source: Source, counted: Any, columns: Sequence[str], small: Suppression) -> Counted:
    """Small cells are merged on one worker, and only what that leaves comes here."""
    from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

    before = to_arrow_schema(counted.schema)

    def merged(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        leaving = small.of(pa.Table.from_batches(batches, before), columns)
        totals = {_LEFT_OUT: leaving.left_out, _MOVED: leaving.moved}
        table = leaving.native.cast(before)
        for name, total in totals.items():  # the same in every row: nothing is said of one cell
            table = table.append_column(name, pa.array([total] * len(table), pa.int64()))
        yield from table.to_batches()

    after = from_arrow_schema(before).add(_LEFT_OUT, "long").add(_MOVED, "long")
    native = counted.repartition(1).mapInArrow(merged, after).toArrow()
    if len(native) == 0:
        return Counted(native, left_out=source.data.count())
    left_out, moved = (native.column(name)[0].as_py() for name in (_LEFT_OUT, _MOVED))
    return Counted(native.drop_columns([_LEFT_OUT, _MOVED]), left_out, moved)


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
