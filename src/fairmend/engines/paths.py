"""The engine of files: Parquet and CSV, of any number and size.

Few distinct rows in Parquet are counted by Polars with packed keys, everything else by DuckDB,
which spills. Applying streams file by file; finished files are not done again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from fairmend.apply.outputs import WrittenFiles, file_state, is_finished, write_parquet
from fairmend.data.addresses import is_address, is_s3, state
from fairmend.data.files import is_there
from fairmend.engines import duck, lazy
from fairmend.engines.job import Job
from fairmend.engines.packed import count_packed, domains, parquet_file
from fairmend.engines.small import Counted, Suppression
from fairmend.engines.source import Engine, Source, is_csv
from fairmend.errors import check
from fairmend.progress import progress


class Files(Engine):
    """Packed counting where it fits, else DuckDB; applying streams file by file."""

    name = "files"
    writes = True
    ignores_case = True

    def names(self, source: Source) -> list[str]:
        if source.typed is not None:
            return list(source.typed.names)
        if is_csv(source.data[0]):  # elsewhere
            return list(duck.relation(source).columns)
        return list(parquet_file(source.data[0]).schema_arrow.names)

    def tabulate(
        self, source: Source, columns: Sequence[str], weight: str | None, small: Suppression
    ) -> Counted:
        packed = None
        if weight is None and not is_csv(source.files[0]):
            packed = domains(source, columns)
        if packed is not None:
            return small.of(count_packed(source.files, packed), columns)
        return duck.counted(duck.relation(source), columns, weight, small)

    def reading(self, source: Source) -> AbstractContextManager[None]:
        return duck.reading(source.data)

    def map_rows(self, source: Source, job: Job, out: Path | str | None, *, overwrite: bool) -> Any:
        if out is None:
            reader = duck.relation(source).to_arrow_reader(duck.BATCH_ROWS)
            where = source.data[0] if len(source.data) == 1 else f"{len(source.data)} files"
            return duck.mapped(reader, job, where, keep=source)
        places = _places(source.data, out)
        _refuse_shared(source.data, places)
        stamps = [job.stamp | _origin(name) for name in source.data]
        for place, stamp in zip(places, stamps, strict=True):  # say so before long work
            is_finished(place, stamp, overwrite=overwrite)
        parts = []
        with progress("applying the repair", sum(stamp["size"] for stamp in stamps)) as advance:
            for name, file, place, stamp in zip(
                source.data, source.files, places, stamps, strict=True
            ):
                if isinstance(place, Path):
                    place.parent.mkdir(parents=True, exist_ok=True)
                if is_address(name) and (is_csv(name) or not is_s3(name)):
                    rows = partial(_read, replace(source, data=(name,)), job)
                else:
                    rows = partial(_scan, name, file, job, stamp["size"], advance)
                parts.append(write_parquet(place, stamp, rows, overwrite=overwrite))
        return WrittenFiles.joined(parts)


def _scan(name: str, file: str, job: Job, size: int, advance: Callable[[int], None]) -> Any:
    """A Parquet file after the job, streamed; progress is in bytes of the original."""
    import polars as pl

    scanned = pl.scan_parquet(file, glob=False)
    rows = max(1, scanned.select(pl.len()).collect().item())
    return lazy.mapped(scanned, job, f"file {name!r}", lambda done: advance(size * done // rows))


def _read(source: Source, job: Job) -> Any:
    """A file after the job, read by DuckDB."""
    rows = duck.relation(source).to_arrow_reader(duck.BATCH_ROWS)
    return duck.mapped(rows, job, f"file {source.data[0]!r}")


def _origin(name: str) -> dict[str, Any]:
    """What tells whether an input is still the same."""
    if is_address(name):
        return {"input": name, **state(name)}
    return {"input": Path(name).name, **file_state(name)}


def _places(files: Sequence[str], out: Path | str) -> list[Path | str]:
    """Where each file's result goes: ``out`` itself, or the same name in that folder."""
    is_folder = isinstance(out, Path) and out.is_dir()
    if str(out).lower().endswith((".parquet", ".pq")) and not is_folder:
        must, fix = f"must be a folder for {len(files)} files", "Leave the suffix out."
        check(len(files) == 1, "out", must, f"got {str(out)!r}", fix)
        return [out]
    parents = {os.path.dirname(os.path.abspath(name)) for name in files if not is_address(name)}
    root = os.path.commonpath(parents) if parents else ""
    places = list[Path | str]()
    for name in files:
        inside = Path(name).name if is_address(name) else os.path.relpath(name, root)
        result = Path(inside.removesuffix(".gz")).with_suffix(".parquet")
        if isinstance(out, Path):
            places.append(out / result)
        else:
            places.append(f"{out.rstrip('/')}/{result.as_posix()}")
    return places


def _refuse_shared(files: Sequence[str], places: Sequence[Path | str]) -> None:
    """Complain about results that would replace each other, or the rows they are made from."""
    taken = {_one_name(name): name for name in files}
    for name, place in zip(files, places, strict=True):
        other = taken.setdefault(_one_name(str(place)), name)
        check(
            other == name and _one_name(str(place)) != _one_name(name),
            f"output {str(place)!r}",
            f"must be a place for the result of {name!r} alone",
            f"{other!r} is there" if is_there(place) else f"that of {other!r} goes there too",
            "Choose another folder, or apply the repair to the files one by one.",
        )


def _one_name(name: str) -> str:
    """The name of a file, however it is reached."""
    return name.replace("s3a://", "s3://") if is_address(name) else os.path.realpath(name)
