"""The engine of Dask: partitions are counted where they are, then their counts are merged."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairmend.engines.cells import count, merge
from fairmend.engines.job import Job, received
from fairmend.engines.local import no_out
from fairmend.engines.small import Counted, Suppression
from fairmend.engines.source import Source

# Counts of this many partitions are merged at a time: a tree, so that none grows large early.
_TOGETHER = 8


def names(source: Source) -> list[str]:
    """The columns of the frame."""
    return list(source.data.columns)


def tabulate(
    source: Source, columns: Sequence[str], weight: str | None, small: Suppression
) -> Counted:
    """Each partition's cells, merged eight at a time; a lost worker's are counted again."""
    from dask.delayed import delayed

    wanted = list(dict.fromkeys([*columns, *([] if weight is None else [weight])]))
    counted = delayed(count, pure=True)
    together = delayed(_together, pure=True)
    parts = [counted(part, list(columns), weight) for part in source.data[wanted].to_delayed()]
    while len(parts) > 1:
        parts = [
            together(parts[start : start + _TOGETHER], list(columns))
            for start in range(0, len(parts), _TOGETHER)
        ]
    leaving: Counted = delayed(small.of, pure=True)(parts[0], list(columns)).compute()
    return leaving


def _together(parts: list[Any], columns: list[str]) -> Any:
    import pandas as pd

    full = [part for part in parts if len(part) > 0] or parts[:1]
    return merge(pd.concat(full, ignore_index=True), columns)


def map_rows(source: Source, job: Job, out: Path | None, *, overwrite: bool) -> Any:
    """The frame after the job; nothing happens until it is computed."""
    if out is not None:
        raise no_out("Dask frames")
    from cloudpickle import dumps
    from dask.delayed import delayed

    frame = source.data
    meta = job(frame._meta, "no partition")
    sent = delayed(job.sent(dumps), pure=True)  # once, not with every partition
    return frame.map_partitions(_mapped, sent, meta=meta)


def _mapped(part: Any, sent: bytes, partition_info: Any = None) -> Any:
    number = "" if partition_info is None else f" {partition_info['number']}"
    return received(sent)(part, f"partition{number}")
