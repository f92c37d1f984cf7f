"""The engine of frames in memory: the reference for the others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import narwhals as nw

from fairmend.engines.cells import count
from fairmend.engines.job import Job
from fairmend.engines.small import Counted, Suppression
from fairmend.engines.source import Source
from fairmend.errors import DataError


def names(source: Source) -> list[str]:
    """The columns of the frame."""
    return list(nw.from_native(source.data, eager_only=True).columns)


def tabulate(
    source: Source, columns: Sequence[str], weight: str | None, small: Suppression
) -> Counted:
    """By packed keys, in one go."""
    return small.of(count(source.data, columns, weight), columns)


def map_rows(source: Source, job: Job, out: Path | None, *, overwrite: bool) -> Any:
    """The frame after the job, in one go."""
    if out is not None:
        raise no_out("frames in memory")
    return job(source.data, "the frame")


def no_out(what: str) -> DataError:
    """The error of an engine that writes by its own means."""
    return DataError(
        "out",
        f"must be left out for {what}",
        "got a path",
        "Write what is returned with the engine's own writer.",
    )
