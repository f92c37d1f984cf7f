"""The engine of frames in memory: the reference for the others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import narwhals as nw

from fairmend.engines.cells import count
from fairmend.engines.job import Job
from fairmend.engines.small import Counted, Suppression
from fairmend.engines.source import Engine, Source


class Local(Engine):
    """In one go."""

    name = "local"

    def names(self, source: Source) -> list[str]:
        return list(nw.from_native(source.data, eager_only=True).columns)

    def tabulate(
        self, source: Source, columns: Sequence[str], weight: str | None, small: Suppression
    ) -> Counted:
        return small.of(count(source.data, columns, weight), columns)

    def map_rows(self, source: Source, job: Job, out: Path | str | None, *, overwrite: bool) -> Any:
        return job(source.data, "the frame")
