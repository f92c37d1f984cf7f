"""The engine of Dask: partitions are counted where they are, then their counts are merged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fairmend.engines.cells import count, merge
from fairmend.engines.job import Job, received
from fairmend.engines.small import Counted, Suppression
from fairmend.engines.source import Engine, Fold, Source

# Counts of this many partitions are merged at a time: a tree, so that none grows large early.
_TOGETHER = 8


class Dask(Engine):
    """Counts merged eight at a time; `map_partitions`."""

    name = "dask"
    reads = ("dask.dataframe",)

    def tabulate(
        self, source: Source, columns: Sequence[str], weight: str | None, small: Suppression
    ) -> Counted:
        from dask.delayed import delayed

        wanted = list(dict.fromkeys([*columns, *([] if weight is None else [weight])]))
        counted = delayed(count, pure=True)
        together = delayed(_together, pure=True)
        parts = [counted(part, list(columns), weight) for part in source.data[wanted].to_delayed()]
        whole = _tree(parts, lambda some: together(some, list(columns)))
        leaving: Counted = delayed(small.of, pure=True)(whole, list(columns)).compute()
        return leaving

    def distinct(self, source: Source, columns: Sequence[str], most: int) -> tuple[int, float]:
        first = source.data[list(columns)].head(most, npartitions=-1, compute=True)
        share = len(first.drop_duplicates()) / max(1, len(first))
        return len(source.data), share

    def fold(self, source: Source, work: Fold) -> Any:
        from cloudpickle import dumps
        from dask.delayed import delayed

        sent = delayed(dumps(work), pure=True)  # once, not with every partition
        step, merge = delayed(_folded, pure=True), delayed(_merged, pure=True)
        parts = [step(part, sent) for part in source.data[work.reads].to_delayed()]
        return _tree(parts, lambda some: merge(some, sent)).compute()

    def map_rows(self, source: Source, job: Job, out: Path | None, *, overwrite: bool) -> Any:
        from cloudpickle import dumps
        from dask.delayed import delayed

        frame = source.data
        meta = job(frame._meta, "no partition")
        sent = delayed(job.sent(dumps), pure=True)  # once, not with every partition
        return frame.map_partitions(_mapped, sent, meta=meta)


def _tree(parts: list[Any], merge: Callable[[list[Any]], Any]) -> Any:
    while len(parts) > 1:
        parts = [merge(parts[k : k + _TOGETHER]) for k in range(0, len(parts), _TOGETHER)]
    return parts[0]


def _folded(part: Any, sent: bytes) -> Any:
    return received(sent)(part)


def _merged(parts: list[Any], sent: bytes) -> Any:
    return received(sent).merge(parts)


def _together(parts: list[Any], columns: list[str]) -> Any:
    import pandas as pd

    full = [part for part in parts if len(part) > 0] or parts[:1]
    return merge(pd.concat(full, ignore_index=True), columns)


def _mapped(part: Any, sent: bytes, partition_info: Any = None) -> Any:
    number = "" if partition_info is None else f" {partition_info['number']}"
    return received(sent)(part, f"partition{number}")
