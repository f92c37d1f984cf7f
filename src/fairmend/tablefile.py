"""Tables from files: CSV, Parquet, Arrow, or standard input, by content and suffix.

`read_table` reads a whole table. What a CSV looks like (its separator, its byte-order mark, its
column names) is found out here for `fairmend.rowstream` as well, so that both read alike.
"""

from __future__ import annotations

import codecs
import csv
import io
import os
import select
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fairmend.errors import DataError, require

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "Dialect",
    "Kind",
    "header",
    "kind_of",
    "parse_csv",
    "read_table",
    "standard_input",
    "unreadable",
]

Kind = Literal["csv", "parquet", "arrow", "arrow stream"]

_SUFFIXES: dict[str, Kind] = {
    ".csv": "csv", ".tsv": "csv", ".txt": "csv",
    ".parquet": "parquet", ".pq": "parquet",
    ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow", ".arrows": "arrow stream",
}  # fmt: skip
_MAGIC: dict[bytes, Kind] = {
    b"PAR1": "parquet",
    b"ARROW1": "arrow",
    b"\xff\xff\xff\xff": "arrow stream",
}
_PACKED: dict[bytes, tuple[str, str]] = {
    b"\x1f\x8b": ("gzip", "Unpack it on the way: gunzip -c FILE | fairmend COMMAND - ..."),
    b"\x28\xb5\x2f\xfd": ("zstd", "Unpack it on the way: zstdcat FILE | fairmend COMMAND - ..."),
    b"PK\x03\x04": ("a zip, as spreadsheets are", "Unpack it, or save the sheet as CSV UTF-8."),
}
"""What files that hold others begin with, what they are, and what to do about it."""
PATIENCE_S = 0.25
"""Of one wait for standard input."""
_OTHER_TEXT = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@dataclass(frozen=True)
class Dialect:
    r"""How a CSV is written, told by its first record.

    >>> Dialect.of(b'\xef\xbb\xbf"a; b";c\r\n1;2\r\n')
    Dialect(separator=';', newline='\r\n', marked=True)
    """

    separator: str
    newline: str
    marked: bool
    """Whether it begins with a byte-order mark."""

    @classmethod
    def of(cls, head: bytes) -> Dialect:
        """The separator is the one that cuts the first record into most cells."""
        marked = head.startswith(codecs.BOM_UTF8)
        first = head.removeprefix(codecs.BOM_UTF8).split(b"\n", maxsplit=1)[0]
        text = first.decode("utf-8", errors="replace")
        cells = {mark: len(next(csv.reader([text], delimiter=mark), [])) for mark in ",;\t|"}
        separator = max(cells, key=lambda mark: cells[mark])
        return cls(separator, "\r\n" if first.endswith(b"\r") else "\n", marked)


def read_table(
    path: str | Path, *, missing: Sequence[str] = (), types: Mapping[str, Any] | None = None
) -> pl.DataFrame:
    """Read a whole table into memory; ``-`` is standard input.

    A CSV may begin with a byte-order mark and be separated by commas, semicolons, tabs or bars:
    its first line tells. Empty cells are missing values, and so are those that read as one of
    ``missing``. ``types`` are those of a CSV's columns where they are known; all
    cells tell the others.
    """
    require("polars", extra="cli", why="reading a file")
    name = "standard input" if str(path) == "-" else str(path)
    try:
        content = standard_input().read() if str(path) == "-" else Path(path).read_bytes()
    except OSError as error:
        raise unreadable(name, error) from None
    kind = kind_of(content[:8], name)
    try:
        table = _parse(content, kind, missing, types or {})
    except DataError:
        raise
    except Exception as error:
        first = " ".join(str(error).split())[:200].removesuffix(".")
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


def standard_input() -> io.BufferedReader:
    """Standard input that can be interrupted while it waits for more.

    Polars has its own handler of Ctrl-C, under which a read is resumed before Python sees the
    signal: so the wait is cut into short ones.
    """
    return io.BufferedReader(_Waiting(sys.stdin.fileno()), 1 << 20)


class _Waiting(io.RawIOBase):
    def __init__(self, number: int) -> None:
        self._number = number

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not select.select([self._number], [], [], PATIENCE_S)[0]:
            pass  # signals are seen to here
        return os.readv(self._number, [buffer])


def unreadable(name: str, error: OSError) -> DataError:
    """A file that is not there, or not for us."""
    return DataError(
        f"file {name!r}",
        "must be readable",
        f"it is not: {error.strerror}",
        "Check the name and the permissions.",
    )


def kind_of(head: bytes, name: str) -> Kind:
    """What a file is: by its first bytes, else by its suffix, else CSV."""
    for magic, kind in _MAGIC.items():
        if head.startswith(magic):
            return kind
    if head.startswith(_OTHER_TEXT):
        raise DataError(
            f"file {name!r}", "must be text in UTF-8", "got UTF-16", "Save it as CSV UTF-8."
        )
    for magic, (what, fix) in _PACKED.items():
        if head.startswith(magic):
            raise DataError(
                f"file {name!r}", "must be CSV, Parquet or Arrow as it is", f"got {what}", fix
            )
    return _SUFFIXES.get(Path(name).suffix.lower(), "csv")


def _parse(
    content: bytes, kind: Kind, missing: Sequence[str], types: Mapping[str, Any]
) -> pl.DataFrame:
    import polars as pl

    source = io.BytesIO(content)
    if kind == "parquet":
        return pl.read_parquet(source)
    if kind == "arrow":
        return pl.read_ipc(source)
    if kind == "arrow stream":
        return pl.read_ipc_stream(source)
    dialect, text = Dialect.of(content), content.removeprefix(codecs.BOM_UTF8)
    _refuse_twins(header(text, dialect))
    return parse_csv(text, dialect, missing, types)


def header(content: bytes, dialect: Dialect) -> tuple[str, ...]:
    r"""The cells of a CSV's first record.

    >>> header(b'a,"b, or\nso"\n1,2\n', Dialect.of(b"a,b"))
    ('a', 'b, or\nso')
    """
    text = io.TextIOWrapper(io.BytesIO(content), "utf-8", errors="replace", newline="")
    return tuple(next(csv.reader(text, delimiter=dialect.separator), ()))


def _refuse_twins(names: Sequence[str]) -> None:
    """Of two columns with one name, nobody could say which is meant."""
    for name, count in Counter(names).items():
        if count > 1:
            raise DataError(
                f"column {name!r}" if name else "columns without a name",
                "must be in the file once",
                f"got {count} of that name" if name else f"got {count}",
                "Rename the others, or leave them out.",
            )


def parse_csv(
    content: bytes,
    dialect: Dialect,
    missing: Sequence[str],
    types: Mapping[str, Any],
    *,
    columns: Sequence[str] | None = None,
) -> pl.DataFrame:
    """Text as a table: columns of a known type are read as such, of the others all cells tell."""
    import polars as pl

    guess = columns is None or not set(columns) <= set(types)

    return pl.read_csv(
        content,
        separator=dialect.separator,
        columns=None if columns is None else list(columns),
        schema_overrides=dict(types),
        infer_schema=guess,
        infer_schema_length=None if guess else 0,
        null_values=["", *missing],  # in quotes as well
        encoding="utf8",
    )
