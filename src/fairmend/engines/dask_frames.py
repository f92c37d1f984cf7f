"""The engine of Dask: partitions are counted where they are, then their counts are merged."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairmend.engines.cells import count, merge
from fairmend.engines.job import Job, received
from fairmend.engines.small import Counted, Suppression
from fairmend.engines.source import Engine, Source

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
        while len(parts) > 1:
            parts = [
                together(parts[start : start + _TOGETHER], list(columns))
                for start in range(0, len(parts), _TOGETHER)
            ]
        leaving: Counted = delayed(small.of, pure=True)(parts[0], list(columns)).compute()
        return leaving

    def map_rows(self, source: Source, job: Job, out: Path | None, *, overwrite: bool) -> Any:
        from cloudpickle import dumps
        from dask.delayed import delayed

        frame = source.data
        meta = job(frame._meta, "no partition")
        sent = delayed(job.sent(dumps), pure=True)  # once, not with every partition
        return frame.map_partitions(_mapped, sent, meta=meta)


def _together(parts: list[Any], columns: list[str]) -> Any:
    import pandas as pd

    full = [part for part in parts if len(part) > 0] or parts[:1]
    return merge(pd.concat(full, ignore_index=True), columns)


def _mapped(part: Any, sent: bytes, partition_info: Any = None) -> Any:
    number = "" if partition_info is None else f" {partition_info['number']}"
    return received(sent)(part, f"partition{number}")
