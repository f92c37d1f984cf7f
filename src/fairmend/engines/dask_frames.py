"""The engine of Dask: partitions are counted where they are, then their counts are merged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from fairmend.data.columns import Frame
from fairmend.engines.cells import count, in_own_text, merge
from fairmend.engines.job import Job, received
from fairmend.engines.small import Counted, Suppression
from fairmend.engines.source import Engine, Fold, Source
from fairmend.engines.summary import hashes

# Counts of this many partitions are merged at a time: a tree, so that none grows large early.
_TOGETHER = 8
# Small cells are cut into so many buckets at most, to be merged bucket by bucket.
_MOST_BUCKETS = 32


class Dask(Engine):
    """Counts merged eight at a time; `map_partitions`."""

    name = "dask"
    reads = ("dask.dataframe",)

    def tabulate(
        self, source: Source, columns: Sequence[str], weight: str | None, small: Suppression
    ) -> Counted:
        from dask.delayed import delayed

        wanted = list(dict.fromkeys([*columns, *([] if weight is None else [weight])]))
        together = delayed(_together, pure=True)
        parts = _worked(source.data[wanted], count, list(columns), weight)
        if small.merges(columns):
            leaving = _merged_in_parts(parts, list(columns), small)
        else:
            whole = _tree(parts, lambda some: together(some, list(columns)))
            leaving = delayed(small.of, pure=True)(whole, list(columns))
        counted: Counted = leaving.compute()
        return replace(counted, native=in_own_text(counted.native))

    def distinct(self, source: Source, columns: Sequence[str], most: int) -> tuple[int, float]:
        from dask.delayed import delayed

        head, different = delayed(_head, pure=True), delayed(_different, pure=True)
        parts = [head(part, most) for part in source.data[list(columns)].to_delayed()]
        wanted, seen, distinct = 1, 0, 0
        while True:  # no more partitions than it takes
            seen, distinct = different(parts[:wanted], most).compute()
            if seen == most or wanted >= len(parts):
                return len(source.data), distinct / max(1, seen)
            wanted *= 4

    def fold(self, source: Source, work: Fold) -> Any:
        from cloudpickle import dumps
        from dask.delayed import delayed

        sent = delayed(dumps(work), pure=True)  # once, not with every partition
        merge = delayed(_merged, pure=True)
        parts = _worked(source.data[work.reads], _folded, sent)
        return _tree(parts, lambda some: merge(some, sent)).compute()

    def map_rows(self, source: Source, job: Job, out: Path | str | None, *, overwrite: bool) -> Any:
        from cloudpickle import dumps
        from dask.delayed import delayed

        frame = source.data
        meta = job(frame._meta, "no partition")
        sent = delayed(job.sent(dumps), pure=True)  # once, not with every partition
        return frame.map_partitions(_mapped, sent, meta=meta)


def _worked(frame: Any, work: Callable[..., Any], *more: Any) -> list[Any]:
    """What comes of each partition, in one task with what reads it: no rows wait or travel."""
    done = frame.map_partitions(work, *more, meta=(None, object), enforce_metadata=False)
    parts: list[Any] = done.to_delayed()
    return parts


def _tree(parts: list[Any], merge: Callable[[list[Any]], Any]) -> Any:
    while len(parts) > 1:
        parts = [merge(parts[k : k + _TOGETHER]) for k in range(0, len(parts), _TOGETHER)]
    return parts[0]


def _merged_in_parts(counted: list[Any], columns: list[str], small: Suppression) -> Any:
    """Small cells are merged where they are, each worker with some of them and all large ones."""
    from dask.delayed import delayed

    together, split = delayed(_together, pure=True), delayed(_split, pure=True)
    buckets = max(1, min(_MOST_BUCKETS, len(counted) // _TOGETHER))
    cut = [split(part, columns, buckets) for part in counted]
    whole = [
        _tree([part[k] for part in cut], lambda some: together(some, columns))
        for k in range(buckets)
    ]
    large = _tree([delayed(small.large, pure=True)(each, columns) for each in whole],
                  lambda some: together(some, columns))  # fmt: skip
    parts = [delayed(small.part, pure=True)(each, large, columns) for each in whole]
    joined = _tree(parts, lambda some: delayed(small.joined, pure=True)(some, columns))
    return delayed(small.finished, pure=True)(joined, large, columns)


def _split(cells: Any, columns: list[str], buckets: int) -> list[Any]:
    """Cells in buckets by their values: equal ones of all partitions meet in one."""
    rank = hashes(Frame(cells[columns], tuple(columns)))
    return [cells[(rank * buckets).astype(int) == k] for k in range(buckets)]


def _head(part: Any, most: int) -> Any:
    return part.iloc[:most]


def _different(parts: list[Any], most: int) -> tuple[int, int]:
    """How many rows there are, at most so many, and how many of these are distinct."""
    import pandas as pd

    rows = pd.concat(parts).iloc[:most]
    return len(rows), len(rows.drop_duplicates())


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
