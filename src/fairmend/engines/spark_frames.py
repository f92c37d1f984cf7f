"""The engine of Spark, classic or Connect: counts in the cluster, `mapInArrow` on the workers."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fairmend.engines.cells import HIGH, KNOWN, LOW, PEOPLE, SQUARED, WEIGHT, refuse_words
from fairmend.engines.job import Job, received
from fairmend.engines.small import Counted, PlacedCells, Suppression
from fairmend.engines.source import Engine, Fold, Source
from fairmend.errors import DataError

# Beside merged cells: how many people are in none of them, and how many at inputs of others.
_LEFT_OUT, _MOVED = "__left_out", "__moved"
# Beside cells on their way: whether they wait for a place.
_WAITS = "__waits"
# Parts of a summary that are merged at a time.
_TOGETHER = 8
# Spark sends ten thousand rows at a time; what is paid once a batch is paid for so many.
_BATCH_ROWS = 200_000
_WITHOUT_S3 = ("S3AFileSystem not found", 'No FileSystem for scheme "s3')


class Spark(Engine):
    """A group-by of Spark's own, of which only cells come here; `mapInArrow`."""

    name = "spark"
    reads = ("pyspark.sql",)
    ignores_case = True

    def tabulate(
        self, source: Source, columns: Sequence[str], weight: str | None, small: Suppression
    ) -> Counted:
        from pyspark.sql import functions as f

        keys, kinds = [], dict(source.data.dtypes)
        for name in columns:
            key = f.col(_quoted(name))
            if kinds[name] in ("float", "double"):  # nan is not known, as null is
                key = f.when(~f.isnan(key), key).alias(name)
            keys.append(key)
        people, sums = f.count(f.lit(1)), []
        if weight is not None:
            refuse_words(source.data, weight)
            w = f.col(_quoted(weight)).cast("double")
            w = f.when(~f.isnan(w), w)
            zero = f.lit(0.0)
            some = f.nullif(w, zero)
            people = f.count(f.when(w.isNull() | (w != zero), 1))
            sums = [
                f.coalesce(f.sum(w), zero).alias(WEIGHT),
                f.coalesce(f.sum(w * w), zero).alias(SQUARED),
                f.coalesce(f.min(some), zero).alias(LOW),
                f.coalesce(f.max(w), zero).alias(HIGH),
                f.count(some).alias(KNOWN),
            ]
        counted = source.data.groupBy(*keys).agg(people.alias(PEOPLE), *sums)
        if small.merges(columns):
            return _merged(source, counted, columns, small)
        small = Suppression(small.below)  # without inputs, small cells are dropped
        if small.below > 1:
            counted = counted.where(f.col(PEOPLE) >= small.below)
        return small.left(counted.toArrow(), columns, lambda: source.data.agg(people).first()[0])

    @contextmanager
    def reading(self, source: Source) -> Iterator[None]:
        """Java's names of classes that are not there are what to put on the class path."""
        try:
            yield
        except Exception as error:
            if not any(mark in str(error) for mark in _WITHOUT_S3):
                raise
            java = getattr(source.data.sparkSession, "_jvm", None)  # Connect has none
            version = "VERSION"
            if java is not None:
                version = java.org.apache.hadoop.util.VersionInfo.getVersion()
            raise DataError(
                "X",
                "must be where Spark can read it",
                "this session has no connector to S3",
                f"Start it with spark.jars.packages=org.apache.hadoop:hadoop-aws:{version} (the "
                f"version of Spark's Hadoop), or put hadoop-aws-{version}.jar and the AWS SDK's "
                "bundle.jar that it was made with on the class path of the driver and the "
                "executors. Its addresses begin with s3a://.",
            ) from None

    def distinct(self, source: Source, columns: Sequence[str], most: int) -> tuple[int, float]:
        first = source.data.select(*map(_quoted, columns)).limit(most)
        rows: int = source.data.count()
        return rows, first.distinct().count() / max(1, min(rows, most))

    def fold(self, source: Source, work: Fold) -> Any:
        import pyarrow as pa
        from pyspark.cloudpickle import dumps

        sent: bytes = dumps(work)  # type: ignore[no-untyped-call]
        part = pa.schema([("part", pa.binary())])

        def packed(whole: Any) -> Any:
            return pa.table([[pickle.dumps(whole)]], schema=part)

        def summarised(tables: Iterator[Any]) -> Iterator[Any]:
            here, parts = received(sent), list[Any]()
            for table in _in_large_batches(tables):
                parts.append(here(table))
                if len(parts) == _TOGETHER:
                    parts = [here.merge(parts)]
            if parts:
                yield packed(here.merge(parts))

        def merged(tables: Iterator[Any]) -> Iterator[Any]:
            parts = [pickle.loads(each.as_py()) for table in tables for each in table["part"]]
            if parts:
                yield packed(received(sent).merge(parts))

        rows = source.data.select(*map(_quoted, work.reads))
        parts = _mapped(rows, summarised, part)
        parts = _mapped(parts.repartition(_TOGETHER), merged, part).toArrow()
        return work.merge([pickle.loads(each.as_py()) for each in parts["part"]])

    def map_rows(self, source: Source, job: Job, out: Path | str | None, *, overwrite: bool) -> Any:
        from pyspark.cloudpickle import dumps

        frame, sent = source.data, job.sent(dumps)
        after = job(_arrow_schema(frame).empty_table(), "no partition").schema

        def applied(tables: Iterator[Any]) -> Iterator[Any]:
            from pyspark import TaskContext

            here = received(sent)
            context = TaskContext.get()
            where = "partition" if context is None else f"partition {context.partitionId()}"
            for table in tables:
                yield here(table, where).cast(after)

        return _mapped(frame, applied, after)


def _merged(source: Source, counted: Any, columns: Sequence[str], small: Suppression) -> Counted:
    """Small cells are merged in parts, each with all large ones, and joined in a tree.

    Large cells come here, which leave anyway; of small ones only what all of them add up to.
    """
    import pyarrow as pa
    from pyspark.sql import functions as f

    before = _arrow_schema(counted)
    counted = counted.persist()  # counted once, read twice
    try:
        large = small.large(counted.where(f.col(PEOPLE) >= small.below).toArrow(), columns)
        if len(large) == 0:
            return Counted(large, left_out=source.data.count())
        flagged = before.append(pa.field(_WAITS, pa.bool_()))

        def parted(tables: Iterator[Any]) -> Iterator[Any]:
            yield _as_rows(small.part(_whole(tables, before), large, columns), before)

        def joined(tables: Iterator[Any]) -> Iterator[Any]:
            some = [_as_part(table, before) for table in tables]
            if some:
                yield _as_rows(small.joined(some, columns), before)

        after = before
        for name in (_LEFT_OUT, _MOVED):
            after = after.append(pa.field(name, pa.int64()))

        def finished(tables: Iterator[Any]) -> Iterator[Any]:
            whole = small.joined([_as_part(_whole(tables, flagged), before)], columns)
            leaving = small.finished(whole, large, columns)
            table = leaving.native.cast(before)
            for total in (leaving.left_out, leaving.moved):  # in every row: nothing of one cell
                table = table.append_column("", pa.array([total] * len(table), pa.int64()))
            yield table.rename_columns(after.names)

        parts = _mapped(counted, parted, flagged)
        parts = _mapped(parts.repartition(_TOGETHER), joined, flagged)
        native = _mapped(parts.repartition(1), finished, after).toArrow()
    finally:
        counted.unpersist()
    left_out, moved = (native.column(name)[0].as_py() for name in (_LEFT_OUT, _MOVED))
    return Counted(native.drop_columns([_LEFT_OUT, _MOVED]), left_out, moved)


def _whole(tables: Iterator[Any], schema: Any) -> Any:
    import pyarrow as pa

    return pa.concat_tables([schema.empty_table(), *tables])


def _as_rows(part: PlacedCells, schema: Any) -> Any:
    """Both kinds of cells of a part, told apart by a column."""
    import pyarrow as pa

    return pa.concat_tables([
        cells.cast(schema).append_column(_WAITS, pa.array([waits] * len(cells), pa.bool_()))
        for cells, waits in ((part.placed, False), (part.waiting, True))
    ])  # fmt: skip


def _as_part(rows: Any, schema: Any) -> PlacedCells:
    import pyarrow.compute as pc

    waits = rows.column(_WAITS)
    cells = rows.select(schema.names)
    return PlacedCells(cells.filter(pc.invert(waits)), cells.filter(waits))


def _in_large_batches(tables: Iterator[Any]) -> Iterator[Any]:
    """Tables put together to so many rows; the last has fewer."""
    import pyarrow as pa

    waiting, rows = list[Any](), 0
    for table in tables:
        waiting.append(table)
        rows += len(table)
        if rows >= _BATCH_ROWS:
            yield pa.concat_tables(waiting).combine_chunks()
            waiting, rows = [], 0
    if waiting:
        yield pa.concat_tables(waiting).combine_chunks()


def _mapped(frame: Any, work: Callable[[Iterator[Any]], Iterator[Any]], after: Any) -> Any:
    """`mapInArrow` of tables, whatever their columns are called."""
    from pyspark.sql.pandas.types import from_arrow_schema

    names = frame.columns

    def step(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        tables = (pa.Table.from_batches([batch]).rename_columns(names) for batch in batches)
        for table in work(tables):
            yield from table.to_batches()

    numbered = frame.toDF(*(f"c{j}" for j in range(len(names))))  # PySpark trips over dots in names
    return numbered.mapInArrow(step, from_arrow_schema(after))


def _arrow_schema(frame: Any) -> Any:
    """The types in which Spark sends a frame."""
    from pyspark.sql.pandas.types import to_arrow_schema

    zone = frame.sparkSession.conf.get("spark.sql.session.timeZone")
    return to_arrow_schema(frame.schema, timezone=zone)


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
