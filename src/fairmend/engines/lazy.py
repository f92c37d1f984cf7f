"""The engine of lazy Polars frames, streamed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fairmend.apply.outputs import unknown_origin, write_parquet
from fairmend.engines.cells import HIGH, KNOWN, LOW, PEOPLE, SQUARED, WEIGHT, refuse_words
from fairmend.engines.job import Job
from fairmend.engines.small import Counted, Suppression
from fairmend.engines.source import Engine, Source


class LazyPolars(Engine):
    """A streamed group-by; `map_batches`."""

    name = "polars"
    reads = ("polars.lazyframe",)
    kind = "polars"
    writes = True

    def names(self, source: Source) -> list[str]:
        return list(source.data.collect_schema().names())

    def tabulate(
        self, source: Source, columns: Sequence[str], weight: str | None, small: Suppression
    ) -> Counted:
        import polars as pl

        rows = source.data.with_columns(pl.selectors.float().fill_nan(None))
        people, sums = pl.len(), []
        if weight is not None:
            refuse_words(source.data, weight)
            w = pl.col(weight).cast(pl.Float64)
            people, some = w.ne_missing(0).sum(), w.filter(w != 0)
            sums = [
                w.sum().alias(WEIGHT), (w * w).sum().alias(SQUARED),
                some.min().fill_null(0).alias(LOW), w.max().fill_null(0).alias(HIGH),
                some.count().alias(KNOWN),
            ]  # fmt: skip
        counted = rows.group_by(list(columns)).agg(people.alias(PEOPLE), *sums)
        if small.drops and small.below > 1:
            counted = counted.filter(pl.col(PEOPLE) >= small.below)
        native = counted.collect(engine="streaming")
        return small.left(
            native, columns, lambda: rows.select(people).collect(engine="streaming").item()
        )

    def map_rows(self, source: Source, job: Job, out: Path | str | None, *, overwrite: bool) -> Any:
        lazy = mapped(source.data, job, "the lazy frame")
        if out is None:
            return lazy
        stamp = job.stamp | unknown_origin(self.names(source))
        return write_parquet(out, stamp, lambda: lazy, overwrite=overwrite)


def mapped(lazy: Any, job: Job, where: str, advance: Callable[[int], None] = lambda _: None) -> Any:
    """A lazy frame after the job, batch by batch; rows keep their order."""
    after = job(lazy.collect_schema().to_frame(), where).schema
    _ = job.laws  # batches come from several threads: made once, before them

    def step(batch: Any) -> Any:
        done = job(batch, where)
        advance(len(batch))
        return done

    return lazy.map_batches(step, schema=after, streamable=True)
