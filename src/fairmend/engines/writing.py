"""Results of a map as Parquet files that are whole or not there, and that say what made them.

Each carries a stamp: the repair, and the size and time of its input. A file whose stamp is that of
the work to be done is finished; that is how an interrupted run goes on.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairmend.data.files import writing
from fairmend.engines.job import Job
from fairmend.errors import DataError, require

__all__ = ["Applied", "is_finished", "saved", "stamp", "sunk", "unknown_origin", "written"]

_KEY = "fairmend.apply"


@dataclass(frozen=True)
class Applied:
    """What a map has written, and what it found finished."""

    written: tuple[str, ...]
    skipped: tuple[str, ...]
    rows: int
    """In all of them."""

    @classmethod
    def joined(cls, parts: Sequence[Applied]) -> Applied:
        """Several as one."""
        return cls(
            tuple(name for part in parts for name in part.written),
            tuple(name for part in parts for name in part.skipped),
            sum(part.rows for part in parts),
        )


def stamp(job: Job, origin: Mapping[str, Any]) -> str:
    """What a file was made from and by, as text."""
    return json.dumps({"repair": job.fingerprint, "what": job.what, **origin}, sort_keys=True)


def unknown_origin(columns: Sequence[str]) -> dict[str, Any]:
    """The origin of rows whose changes cannot be told: no result counts as finished."""
    return {"columns": list(columns), "run": secrets.token_hex(8)}


def is_finished(out: Path, mark: str, *, overwrite: bool) -> bool:
    """Whether the file is there and made by this work; a file of other work is an error."""
    if not out.exists():
        return False
    parquet = require("pyarrow.parquet", extra="duckdb", why="Parquet files")
    try:
        found = (parquet.read_metadata(out).metadata or {}).get(_KEY.encode(), b"").decode()
    except (OSError, ValueError):  # no Parquet file
        found = ""
    if found != mark and not overwrite:
        raise DataError(
            f"output {str(out)!r}",
            "must not exist yet, or be a result of the same repair on the same input",
            "there is such a file, made otherwise",
            "Choose another place, or allow it to be overwritten (--force, overwrite=True).",
        )
    return bool(found == mark)


def sunk(
    out: Path, job: Job, origin: Mapping[str, Any], lazy: Callable[[], Any], *, overwrite: bool
) -> Applied:
    """Write a lazy Polars frame, streamed."""
    mark = stamp(job, origin)
    if is_finished(out, mark, overwrite=overwrite):
        return Applied((), (str(out),), _rows(out))
    with writing(out, overwrite=overwrite) as file:
        lazy().sink_parquet(file, metadata={_KEY: mark}, maintain_order=True)
    return Applied((str(out),), (), _rows(out))


def written(
    out: Path, job: Job, origin: Mapping[str, Any], reader: Callable[[], Any], *, overwrite: bool
) -> Applied:
    """Write the batches of an Arrow reader."""
    mark = stamp(job, origin)
    if is_finished(out, mark, overwrite=overwrite):
        return Applied((), (str(out),), _rows(out))
    return Applied((str(out),), (), saved(out, reader(), {_KEY: mark}, overwrite=overwrite))


def saved(
    out: Path, reader: Any, metadata: Mapping[str, str] | None = None, *, overwrite: bool = False
) -> int:
    """Write an Arrow reader's batches as they come; how many rows they had."""
    parquet = require("pyarrow.parquet", extra="duckdb", why="Parquet files")
    rows = 0
    with (
        writing(out, overwrite=overwrite) as file,
        parquet.ParquetWriter(file, reader.schema, compression="zstd") as writer,
    ):
        for batch in reader:
            writer.write_batch(batch)
            rows += len(batch)
        writer.add_key_value_metadata(dict(metadata or {}))
    return rows


def _rows(out: Path) -> int:
    parquet = require("pyarrow.parquet", extra="duckdb", why="Parquet files")
    return int(parquet.read_metadata(out).num_rows)
