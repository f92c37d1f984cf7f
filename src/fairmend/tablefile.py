"""Tables from files: CSV, Parquet, Arrow, or standard input, by content and suffix.

`read_table` reads a whole table. What a CSV looks like (its separator, its byte-order mark, its
column names) is found out here for `fairmend.rowstream` as well, so that both read alike; and so is
what is wrong with a file that is no table.
"""

from __future__ import annotations

import codecs
import csv
import io
import os
import re
import select
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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
    "no_table",
    "parse_csv",
    "read_table",
    "refuse_blanks",
    "refuse_odd_weights",
    "refuse_other_decimals",
    "refuse_stray_words",
    "standard_input",
    "stray_word",
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
NEARLY = 0.95
"""Text of which so many cells look like numbers is meant as numbers."""
_WITH_COMMA = r"^[-+]?(\d+|[1-9]\d{0,2}([.\s]\d{3})+)(,\d*)?$"
"""Numbers with a decimal comma, and with dots or blanks between thousands."""
_OTHER = {".": (_WITH_COMMA, ","), ",": (r"^[-+]?(\d+|\d*\.\d+)$", ".")}
"""What numbers look like where the decimal mark is not the one that was expected."""
_NAMES = {".": "a decimal point", ",": "a decimal comma"}
_ADVICE = {
    ".": "If that is a number with a decimal comma, say --decimal ','.",
    ",": "If that is a number with a decimal point, write the whole file with one mark.",
}


@dataclass(frozen=True)
class Dialect:
    r"""How a CSV is written, told by its first record.

    >>> Dialect.of(b'\xef\xbb\xbf"a; b";c\r\n1;2\r\n')
    Dialect(separator=';', newline='\r\n', marked=True, decimal='.')
    """

    separator: str
    newline: str
    marked: bool
    """Whether it begins with a byte-order mark."""
    decimal: str = "."
    """The mark before fractions: nothing in a file tells it for certain."""

    @classmethod
    def of(cls, head: bytes, decimal: str = ".") -> Dialect:
        """The separator is the one that cuts the first record into most cells."""
        marked = head.startswith(codecs.BOM_UTF8)
        first = head.removeprefix(codecs.BOM_UTF8).split(b"\n", maxsplit=1)[0]
        text = first.decode("utf-8", errors="replace")
        cells = {mark: len(next(csv.reader([text], delimiter=mark), [])) for mark in ",;\t|"}
        separator = max(cells, key=lambda mark: cells[mark])
        return cls(separator, "\r\n" if first.endswith(b"\r") else "\n", marked, decimal)


def read_table(
    path: str | Path,
    *,
    missing: Sequence[str] = (),
    types: Mapping[str, Any] | None = None,
    decimal: str = ".",
) -> pl.DataFrame:
    """Read a whole table into memory; ``-`` is standard input.

    A CSV may begin with a byte-order mark and be separated by commas, semicolons, tabs or bars:
    its first line tells. Empty cells are missing values, and so are those that read as one of
    ``missing``. ``types`` are those of a CSV's columns where they are known; all
    cells tell the others. Its numbers have a decimal point or, with ``decimal=","``, a comma, and
    then perhaps dots between thousands.
    """
    require("polars", extra="cli", why="reading a file")
    name = "standard input" if str(path) == "-" else str(path)
    try:
        content = standard_input().read() if str(path) == "-" else Path(path).read_bytes()
    except OSError as error:
        raise unreadable(name, error) from None
    if not content.strip():
        raise DataError(
            f"file {name!r}", "must hold a header and rows", "it is empty", "Is it the right file?"
        )
    kind = kind_of(content[:8], name)
    try:
        table = _parse(content, name, kind, missing, types or {}, decimal)
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


def _parse(  # noqa: PLR0917
    content: bytes,
    name: str,
    kind: Kind,
    missing: Sequence[str],
    types: Mapping[str, Any],
    decimal: str,
) -> pl.DataFrame:
    import polars as pl

    source = io.BytesIO(content)
    if kind == "parquet":
        return pl.read_parquet(source)
    if kind == "arrow":
        return pl.read_ipc(source)
    if kind == "arrow stream":
        return pl.read_ipc_stream(source)
    dialect, text = Dialect.of(content, decimal), content.removeprefix(codecs.BOM_UTF8)
    _refuse_twins(header(text, name, dialect))
    return parse_csv(text, name, dialect, missing, types)


def header(content: bytes, name: str, dialect: Dialect) -> tuple[str, ...]:
    r"""The cells of a CSV's first record.

    >>> header(b'a,"b, or\nso"\n1,2\n', "people.csv", Dialect.of(b"a,b"))
    ('a', 'b, or\nso')
    """
    names = tuple(next(_records(content, dialect), ()))
    if any(map(_not_utf8, names)):
        raise _other_text(f"file {name!r}, its first line")
    return names


def _records(content: bytes, dialect: Dialect) -> Iterator[list[str]]:
    """The cells of each record; bytes that are no UTF-8 become characters that no text has."""
    text = io.TextIOWrapper(io.BytesIO(content), "utf-8", errors="surrogateescape", newline="")
    return csv.reader(text, delimiter=dialect.separator)


def _not_utf8(cell: str) -> bool:
    return any("\udc80" <= letter <= "\udcff" for letter in cell)


def _other_text(what: str) -> DataError:
    return DataError(
        what,
        "must be text in UTF-8",
        "got bytes of another encoding",
        "Save it as CSV UTF-8; if it comes from Windows, iconv -f WINDOWS-1252 -t UTF-8 makes it "
        "so.",
    )


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


# -------------------------------------------------------------------- CSV


def parse_csv(
    content: bytes,
    name: str,
    dialect: Dialect,
    missing: Sequence[str],
    types: Mapping[str, Any],
    *,
    columns: Sequence[str] | None = None,
    first: int = 0,
) -> pl.DataFrame:
    """Text as a table: columns of a known type are read as such, of the others all cells tell.

    ``first`` is how many rows came before, for messages that say where something is wrong.
    """
    import polars as pl

    guess = columns is None or not set(columns) <= set(types)
    # a lone quote among numbers ends in a panic
    failures = (pl.exceptions.PolarsError, pl.exceptions.PanicException)

    theirs = _names_in_polars(content, name, dialect)

    def parsed(kinds: dict[str, Any]) -> pl.DataFrame:
        found = pl.read_csv(
            content,
            separator=dialect.separator,
            columns=None if columns is None else [theirs.get(each, each) for each in columns],
            schema_overrides={theirs.get(each, each): kind for each, kind in kinds.items()},
            infer_schema=guess,
            infer_schema_length=None if guess else 0,
            null_values=["", *missing],  # in quotes as well
            encoding="utf8",
            decimal_comma=dialect.decimal == ",",
        )
        return found.rename({other: own for own, other in theirs.items()}, strict=False)

    try:
        table = parsed(dict(types))
    except failures:
        # a cell that is not of its column's type, or text that is no CSV: find out which
        try:
            texts = parsed(dict.fromkeys(types, pl.String))
        except failures:
            raise no_table(content, name, dialect, first) from None
        known = {each: types[each] for each in texts.columns if each in types}
        table = texts.with_columns(
            _converted(texts[each], kind, dialect, first) for each, kind in known.items()
        )
    if dialect.decimal != ",":
        return table
    return table.with_columns(
        _plain(column).cast(pl.Float64)
        for column in table
        if column.name not in types and _is_grouped(column)
    )


def _names_in_polars(content: bytes, name: str, dialect: Dialect) -> dict[str, str]:
    """How Polars calls the columns it calls otherwise: it leaves quotes in names doubled."""
    import polars as pl

    end = content.find(b"\n")
    while end >= 0 and content.count(b'"', 0, end) % 2:  # a line break inside quotes
        end = content.find(b"\n", end + 1)
    record = content[: end + 1] or content
    if b'"' not in record:
        return {}
    empty_table = pl.read_csv(record, separator=dialect.separator, n_rows=0, infer_schema=False)
    pairs = zip(header(record, name, dialect), empty_table.columns, strict=False)
    return {own: other for own, other in pairs if own != other}


def _converted(column: pl.Series, kind: Any, dialect: Dialect, first: int) -> pl.Series:
    """Text in the type it is known to have; whole numbers may have become others."""
    import polars as pl

    text = _plain(column) if kind.is_numeric() and dialect.decimal == "," else column
    for each in [kind, pl.Float64] if kind.is_integer() else [kind]:
        if each == pl.Boolean:
            found = text.str.to_lowercase().replace_strict(
                {"true": True, "false": False}, default=None, return_dtype=pl.Boolean
            )
        else:
            found = text.cast(each, strict=False)
        lost = found.is_null() & column.is_not_null()
        if not lost.any():
            return found.alias(column.name)
    row = int(lost.arg_max() or 0)
    fix = "Mend the cell, or name what stands for a missing value with --missing."
    if kind.is_numeric() and re.match(_OTHER[dialect.decimal][0], column[row]):
        fix = _ADVICE[dialect.decimal]
    raise DataError(
        f"column {column.name!r}, row {first + row + 1:,}",
        f"must be {_said(kind)}, as in the audit data",
        f"got {column[row]!r}",
        fix,
    )


def _said(kind: Any) -> str:
    if kind.is_numeric():
        return "a number"
    return "true or false" if str(kind) == "Boolean" else str(kind)


def _is_grouped(column: pl.Series) -> bool:
    """Whether text is numbers with a decimal comma and dots between thousands."""
    cells = column.drop_nulls()
    return (
        str(column.dtype) == "String"
        and bool(cells.str.contains(_WITH_COMMA).all())
        and bool(cells.str.contains(",", literal=True).any())
    )


def _plain(column: pl.Series) -> pl.Series:
    """Numbers with a decimal comma as programs write them; nothing with a point is one."""
    import polars as pl

    plain = column.str.replace_all(r"[.\s]", "").str.replace(",", ".", literal=True)
    either = pl.when(column.str.contains(_WITH_COMMA)).then(plain)
    pointed = column.str.contains(".", literal=True)
    return pl.select(either.when(pointed).then(None).otherwise(column)).to_series()


def no_table(content: bytes, name: str, dialect: Dialect, first: int) -> DataError:
    """Why text is no table in CSV, with the row; ``first`` rows came before its header."""
    width, row, got = 0, first, "it cannot be read as one"
    try:
        for place, cells in enumerate(_records(content, dialect)):
            width, row = width or len(cells), first + place
            what = f"file {name!r}, row {row:,}"
            if any(map(_not_utf8, cells)):
                return _other_text(what)
            if len(cells) > width:
                return DataError(
                    what,
                    f"must have no more cells than the first line, {width}",
                    f"got {len(cells)}",
                    f"Put cells that hold {dialect.separator!r} in quotes. "
                    "Or is the file no table?",
                )
    except csv.Error:
        got = "a cell is far too long"
    if content.count(b'"') % 2:
        got = "a quote is never closed"
    return DataError(
        f"file {name!r}, row {row:,}",
        "must be part of a table in CSV",
        got,
        "Look for a stray quote in or before that row. Or is the file no table?",
    )


# -------------------------------------------------------------------- cells that mislead


def refuse_other_decimals(
    table: pl.DataFrame, names: Sequence[str], decimal: str | None = None
) -> None:
    """Complain about numbers that were read as words, for their decimal mark is another.

    Every amount would count as a category of its own. ``decimal`` is the mark that was asked for:
    who asked for a point has seen the commas.
    """
    if decimal == ".":
        return
    expected = decimal or "."
    pattern, mark = _OTHER[expected]
    for name in names:
        if str(table.schema[name]) != "String":
            continue
        cells = table[name].drop_nulls()
        numbers = cells.str.contains(pattern)
        fractions = numbers & cells.str.contains(mark, literal=True)
        if fractions.any() and numbers.sum() >= NEARLY * len(cells):
            raise DataError(
                f"column {name!r}",
                f"must hold numbers with {_NAMES[expected]}, or words",
                f"got {cells.filter(fractions)[0]!r} and the like",
                _ADVICE[expected] + (" For words say --decimal '.'." if decimal is None else ""),
            )


def stray_word(cells: pl.Series) -> int | None:
    """The first row without a number in text that is nearly all numbers; None in any other.

    >>> import polars as pl
    >>> stray_word(pl.Series(["1"] * 98 + ["unknown", None])), stray_word(pl.Series(["a", "1"]))
    (98, None)
    """
    import polars as pl

    if cells.dtype != pl.String:
        return None
    stray = cells.is_not_null() & cells.cast(pl.Float64, strict=False).is_null()
    few = 0 < stray.sum() <= (1 - NEARLY) * (len(cells) - cells.null_count())
    return stray.arg_max() if few else None


def refuse_stray_words(table: pl.DataFrame, name: str) -> None:
    """Complain about a word among predictions that are numbers."""
    row = stray_word(table[name])
    if row is not None:
        raise DataError(
            f"column {name!r}, row {row + 1:,}",
            "must be a number, as nearly all of its cells are",
            f"got {table[name][row]!r}",
            "Mend the cell, or name what stands for a missing value with --missing.",
        )


def refuse_odd_weights(table: pl.DataFrame, name: str, among: Sequence[str]) -> None:
    """Complain about weights of people who have a value in each of ``among``."""
    import polars as pl

    number = pl.col(name).cast(pl.Float64, strict=False).fill_nan(None)
    odd = number.is_null() | (number < 0) | number.is_infinite()
    known = [pl.col(each).is_not_null() for each in among]
    rows = table.select(pl.all_horizontal(odd, *known).arg_true()).to_series()
    if len(rows):
        cell = table[name][int(rows[0])]
        raise DataError(
            f"column {name!r}, row {int(rows[0]) + 1:,}",
            "must be a weight: a number, 0 or more",
            "it is empty" if cell is None else f"got {cell!r}",
            "Somebody who should not count has weight 0.",
        )


def refuse_blanks(
    table: pl.DataFrame,
    name: str,
    *,
    among: Sequence[str] = (),
    first: int = 0,
    hold: str = "a prediction",
    fix: str = "Is the row cut short? Mend it, or leave out people whom the model did not answer.",
) -> None:
    """Complain about people without a recorded prediction, or an id, with the first one's row.

    Only those count who have a value in each of ``among``; ``first`` rows came before.
    """
    import polars as pl

    blank = pl.col(name).is_null()
    if table.schema[name].is_float():
        blank |= pl.col(name).is_nan()
    known = [pl.col(each).is_not_null() for each in among]
    rows = table.select(pl.all_horizontal(blank, *known).arg_true()).to_series()
    if len(rows):
        more = f", and in {len(rows) - 1:,} more" if len(rows) > 1 else ""
        raise DataError(
            f"column {name!r}",
            f"must hold {hold} for everybody",
            f"it is empty in row {first + int(rows[0]) + 1:,}{more}",
            fix,
        )
