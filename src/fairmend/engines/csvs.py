"""CSV files as Parquet: read by the rule of single files, so that engines have typed columns.

DuckDB has a reader of its own, whose rules are others: what stands for a missing value, which words
are true, how many cells a row may have. A file must not mean one thing alone and another in a
folder.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairmend.data.spelling import Findings, Spelling
from fairmend.data.tablefile import open_rows
from fairmend.errors import check, check_columns, require

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, eq=False)
class Typed:
    """What CSV files became; the folder goes with it."""

    folder: str
    names: tuple[str, ...]
    parquet: dict[str, str]
    """Each file's copy."""
    findings: Findings

    def __post_init__(self) -> None:
        weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)


def typed(
    files: Sequence[str], spelling: Spelling, texts: Sequence[str], place: str | None
) -> Typed:
    """The files with the columns of the first, in types that hold the cells of all of them.

    ``texts`` are columns that stay text, such as ids. The last results are kept for the next call.
    """
    states = tuple((os.stat(name).st_size, os.stat(name).st_mtime_ns) for name in files)
    return _typed(tuple(files), states, spelling, tuple(texts), place)


@lru_cache(maxsize=2)
def _typed(
    files: tuple[str, ...],
    states: Any,
    spelling: Spelling,
    texts: tuple[str, ...],
    place: str | None,
) -> Typed:
    require("polars", extra="duckdb", why="CSV files")
    folder = tempfile.mkdtemp(prefix="fairmend-", dir=place)
    try:
        return _copied(files, spelling, texts, folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _copied(
    files: tuple[str, ...], spelling: Spelling, texts: tuple[str, ...], folder: str
) -> Typed:
    import polars as pl

    names: tuple[str, ...] = ()
    raw: list[pl.LazyFrame] = []
    for number, file in enumerate(files):
        path = Path(folder) / f"{number}.text"
        names = _as_text(file, path, spelling, names, files[0])
        raw.append(pl.scan_parquet(path, glob=False))

    def where(column: str, row: int) -> str:
        for file, rows in zip(files, raw, strict=True):
            n = rows.select(pl.len()).collect().item()
            if row < n:
                return f"file {file!r}, column {column!r}, {line_in(file, row)}"
            row -= n
        raise IndexError(row)

    others = [name for name in names if name not in texts]
    findings = Findings.of(pl.concat(raw), others, spelling, where)
    parquet = {}
    for number, (file, rows) in enumerate(zip(files, raw, strict=True)):
        path = Path(folder) / f"{number}.parquet"
        rows.with_columns(**findings.expressions).sink_parquet(path)
        parquet[file] = str(path)
    return Typed(folder, names, parquet, findings)


def _as_text(
    file: str, path: Path, spelling: Spelling, names: tuple[str, ...], first: str
) -> tuple[str, ...]:
    """A file's cells as text, in Parquet; the columns, which are those of the first file."""
    import polars as pl
    import pyarrow as pa
    import pyarrow.parquet

    with open_rows(file, spelling=spelling, unpack=True) as stream:
        what, fix = f"file {file!r}", "Give it the suffix of its format."
        check(stream.kind == "csv", what, "must be a CSV, by its suffix", f"got {stream.kind}", fix)
        check_columns(what, stream.names, names, "Name files of one kind.", of=repr(first))
        names = names or stream.names
        stream.check(names, what)
        schema = pa.schema([(name, pa.large_string()) for name in names])
        with pa.parquet.ParquetWriter(path, schema) as writer:
            for block in stream.blocks(dict.fromkeys(names, pl.String)):
                writer.write_table(block.rows.to_arrow().cast(schema))
    return names


def line_in(file: str, row: int) -> str:
    """The line of a row, by reading up to it."""
    import polars as pl

    with open_rows(file, unpack=True) as stream:
        for block in stream.blocks({stream.names[0]: pl.String}):
            if row < block.first + block.rows.height:
                return str(block.where(row - block.first))
    raise IndexError(row)
