"""Tables from files: CSV, Parquet, Arrow, or standard input, by suffix and content."""

from __future__ import annotations

import csv
import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairmend.errors import DataError, require

if TYPE_CHECKING:
    import polars as pl

__all__ = ["read_table"]

_SUFFIXES = {
    ".csv": "csv", ".tsv": "csv", ".txt": "csv",
    ".parquet": "parquet", ".pq": "parquet",
    ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow",
}  # fmt: skip
_PARQUET, _ARROW = b"PAR1", b"ARROW1"


def read_table(path: str | Path) -> pl.DataFrame:
    """Read a whole table into memory; ``-`` is standard input.

    A CSV may begin with a byte-order mark and be separated by commas, semicolons, tabs or bars:
    its first line tells. Empty cells are missing values.
    """
    polars = require("polars", extra="cli", why="reading a file")
    name, content = str(path), None
    if name == "-":
        name, content = "standard input", sys.stdin.buffer.read()
    else:
        try:
            content = Path(path).read_bytes()
        except OSError as error:
            raise DataError(
                f"file {name!r}",
                "must be readable",
                f"it is not: {error.strerror}",
                "Check the name and the permissions.",
            ) from None
    kind = _kind(name, content)
    try:
        table = _parse(polars, content, kind)
    except DataError:
        raise
    except Exception as error:
        first = " ".join(str(error).split())[:200]
        raise DataError(
            f"file {name!r}",
            f"must be a table in {kind.upper()}",
            f"it cannot be read as one: {first}",
            "Check that it is complete, and that its suffix tells its format.",
        ) from None
    if table.width == 0 or table.height == 0:
        raise DataError(
            f"file {name!r}", "must hold at least one row", "got none", "Is it the right file?"
        )
    return table


def _kind(name: str, content: bytes) -> str:
    if content[:4] == _PARQUET:
        return "parquet"
    if content[:6] == _ARROW:
        return "arrow"
    return _SUFFIXES.get(Path(name).suffix.lower(), "csv") if name != "standard input" else "csv"


def _parse(polars: Any, content: bytes, kind: str) -> pl.DataFrame:
    source = io.BytesIO(content)
    if kind == "parquet":
        table: pl.DataFrame = polars.read_parquet(source)
        return table
    if kind == "arrow":
        arrow: pl.DataFrame = polars.read_ipc(source)
        return arrow
    head = content[:65_536].decode("utf-8-sig", errors="replace").splitlines()[:1]
    parsed: pl.DataFrame = polars.read_csv(
        source,
        separator=_separator(head[0] if head else ""),
        infer_schema_length=None,
        encoding="utf8",
    )
    return parsed.rename({name: name.removeprefix("\ufeff") for name in parsed.columns})


def _separator(first_line: str) -> str:
    """The separator that cuts the first line into most cells, quotes respected."""
    cells = {mark: len(next(csv.reader([first_line], delimiter=mark), [])) for mark in ",;\t|"}
    return max(cells, key=lambda mark: cells[mark])
