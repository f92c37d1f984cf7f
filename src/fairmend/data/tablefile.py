"""Tables from files: CSV, Parquet, Arrow, spreadsheets, or standard input, by content and suffix.

`read_table` reads a whole table. How a CSV is read is settled here for `fairmend.apply.rowstream`
too, so that both read alike; and so is what is wrong with a file that is no table.
"""

from __future__ import annotations

import codecs
import io
import os
import re
import select
import stat
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

from fairmend.data.records import Dialect, header, header_end, line_of, refuse_odd_records
from fairmend.data.spelling import Findings, Spelling, as_known
from fairmend.errors import DataError, FairmendError, listed, require

if TYPE_CHECKING:
    import polars as pl

__all__ = [
    "HEAD",
    "CsvReader",
    "Kind",
    "Table",
    "in_rows",
    "kind_of",
    "open_file",
    "read_table",
    "refuse_blanks",
    "refuse_odd_weights",
    "standard_input",
    "unreadable",
    "without_blank_end",
]

Kind = Literal["csv", "parquet", "arrow", "arrow stream", "excel"]
HEAD = 4096
"""Bytes that tell what a file is."""

_SUFFIXES: dict[str, Kind] = {
    ".csv": "csv", ".tsv": "csv", ".txt": "csv",
    ".parquet": "parquet", ".pq": "parquet",
    ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow", ".arrows": "arrow stream",
}  # fmt: skip
_MAGIC: dict[bytes, Kind] = {
    b"PAR1": "parquet",
    b"ARROW1": "arrow",
    b"\xff\xff\xff\xff": "arrow stream",
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": "excel",
}
_UNPACK = "Unpack it on the way: {} FILE | fairmend COMMAND - ..."
_EXPORT = "Export the table as CSV UTF-8 or Parquet."
_PACKED: dict[bytes, tuple[str, str]] = {
    b"\x1f\x8b": ("gzip", _UNPACK.format("gunzip -c")),
    b"\x28\xb5\x2f\xfd": ("zstd", _UNPACK.format("zstdcat")),
    b"BZh": ("bzip2", _UNPACK.format("bunzip2 -c")),
    b"\xfd7zXZ\x00": ("xz", _UNPACK.format("xzcat")),
    b"7z\xbc\xaf\x27\x1c": ("a 7z archive", "Unpack it first."),
    b"PK\x03\x04": ("a zip archive", "Unpack it first."),
    b"\x89PNG": ("a picture (PNG)", _EXPORT),
    b"\xff\xd8\xff": ("a picture (JPEG)", _EXPORT),
    b"%PDF": ("a PDF", _EXPORT),
    b"SQLite format 3\x00": ("an SQLite database", _EXPORT),
    b"\x93NUMPY": ("a NumPy array", _EXPORT),
    b"\x80\x04\x95": ("a Python pickle", _EXPORT),
    b"\x80\x05\x95": ("a Python pickle", _EXPORT),
    b"ORC": ("ORC", _EXPORT),
    b"Obj\x01": ("Avro", _EXPORT),
    b"\x89HDF": ("HDF5", _EXPORT),
    b"\x7fELF": ("a program", "Is it the right file?"),
}
"""What other files begin with, what they are, and what to do about it."""
_SHEETS = (b"xl/", b"[Content_Types].xml", b"opendocument.spreadsheet")
"""In the head of a zip that is a spreadsheet."""
_JSON = re.compile(rb'\s*(\{\s*["}]|\[\s*([\[{"\]]|-?\d))')
_LINES = re.compile(rb"\s*\{.*\}\s*\n\s*\{")
_OTHER_TEXT = {
    codecs.BOM_UTF32_LE: "UTF-32", codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16", codecs.BOM_UTF16_BE: "UTF-16",
}  # fmt: skip
PATIENCE_S = 0.25
"""Of one wait for standard input."""
_CHUNK = 1 << 24
LONGEST_LINE = 64 << 20
"""A file without any newline in so many bytes is no CSV."""


def in_rows(row: int) -> str:
    """Where a row of a typed file is; a CSV has lines.

    >>> in_rows(0)
    'row 1'
    """
    return f"row {row + 1:,}"


@dataclass(frozen=True, eq=False)
class Table:
    """A whole file."""

    frame: pl.DataFrame
    where: Callable[[int], str] = in_rows
    """Where a row is: the line of a CSV as an editor counts it, or the number of the row."""
    findings: Findings = field(default_factory=Findings)


def read_table(
    path: str | Path,
    *,
    spelling: Spelling | None = None,
    types: Mapping[str, Any] | None = None,
) -> Table:
    """Read a whole table into memory; ``-`` is standard input.

    A CSV may begin with a byte-order mark and be separated by commas, semicolons, tabs or bars:
    its first line tells. Empty cells are missing values. ``types`` are those of a CSV's columns
    where they are known; all cells tell the others, as ``spelling`` says.
    """
    require("polars", extra="cli", why="reading a file")
    name = "standard input" if str(path) == "-" else str(path)
    with open_file(str(path)) as file, reading(name):
        content = file.read(HEAD)
        kind = kind_of(content, name)
        parts = [content]
        while content := file.read(_CHUNK):
            parts.append(content)
            if kind == "csv" and len(parts) << 24 > LONGEST_LINE and not any(
                b"\n" in part for part in parts
            ):  # fmt: skip
                raise DataError(
                    f"file {name!r}", "must be a table in CSV",
                    f"got no line end in {LONGEST_LINE >> 20} MB", "Is it the right file?",
                )  # fmt: skip
    content = b"".join(parts)
    if not content.strip():
        raise DataError(
            f"file {name!r}", "must hold a header and rows", "it is empty", "Is it the right file?"
        )
    if kind == "csv":
        table = _read_csv(content, name, types or {}, spelling or Spelling())
    else:
        try:
            table = Table(_read_typed(content, name, kind))
        except FairmendError:
            raise
        except Exception as error:
            raise not_of_its_kind(name, kind, error) from None
    if table.frame.width == 0 or table.frame.height == 0:
        raise DataError(
            f"file {name!r}", "must hold at least one row", "got none", "Is it the right file?"
        )
    return table


def not_of_its_kind(name: str, kind: Kind, error: Exception) -> DataError:
    """A file that cannot be read as what it seems to be."""
    first = " ".join(str(error).split())[:200].removesuffix(".")
    return DataError(
        f"file {name!r}",
        f"must be a table in {kind.upper()}",
        f"it cannot be read as one: {first}",
        "Check that it is complete, and that its suffix tells its format.",
    )


@contextmanager
def reading(name: str) -> Iterator[None]:
    """What the system refuses in the middle of a file is an error in that file."""
    try:
        yield
    except OSError as error:
        raise unreadable(name, error) from None


def open_file(path: str) -> IO[bytes]:
    """A file to read, a pipe, or standard input for ``-``; devices have no end."""
    if path == "-":
        return standard_input()
    try:
        mode = Path(path).stat().st_mode
        if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
            raise DataError(
                f"file {path!r}", "must be a file or a pipe", "it is a device",
                "Name the file itself; - reads standard input.",
            )  # fmt: skip
        return Path(path).open("rb")
    except OSError as error:
        raise unreadable(path, error) from None


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
    if head.startswith(b"PK\x03\x04") and any(mark in head for mark in _SHEETS):
        return "excel"
    for magic, (what, fix) in _PACKED.items():
        if head.startswith(magic):
            raise _other_kind(name, what, fix)
    _refuse_other_text(head, name)
    body = head.removeprefix(codecs.BOM_UTF8)
    if _JSON.match(body):
        lines = _LINES.match(body) is not None
        raise _other_kind(name, "JSON, an object a line" if lines else "JSON", "Convert it, e.g. "
                          f"with pandas.read_json(FILE{', lines=True' * lines}).to_csv(NEW, "
                          "index=False).")  # fmt: skip
    if body.lstrip()[:5].lower() in (b"<!doc", b"<html", b"<?xml"):
        raise _other_kind(name, "a page in HTML or XML", _EXPORT)
    return _SUFFIXES.get(Path(name).suffix.lower(), "csv")


def _refuse_other_text(head: bytes, name: str) -> None:
    """Complain about text in units of two bytes or four, marked as such or not."""
    what = next((name for mark, name in _OTHER_TEXT.items() if head.startswith(mark)), None)
    if what is None:  # of plain letters in UTF-16 every second byte is zero
        halves = [half for half in (head[0::2], head[1::2]) if half]
        if sum(half.count(0) > 0.4 * len(half) for half in halves) != 1:
            return
        what = "UTF-16"
    raise DataError(
        f"file {name!r}", "must be text in UTF-8", f"got {what}",
        f"Save it as CSV UTF-8, or iconv -f {what} -t UTF-8 FILE > NEW.",
    )  # fmt: skip


def _other_kind(name: str, what: str, fix: str) -> DataError:
    return DataError(f"file {name!r}", "must be CSV, Parquet or Arrow as it is", f"got {what}", fix)


def _read_typed(content: bytes, name: str, kind: Kind) -> pl.DataFrame:
    import polars as pl

    source = io.BytesIO(content)
    if kind == "parquet":
        return pl.read_parquet(source)
    if kind == "arrow":
        return pl.read_ipc(source)
    if kind == "arrow stream":
        return pl.read_ipc_stream(source)
    require("fastexcel", extra="excel", why=f"reading the spreadsheet {name!r}")
    sheets = pl.read_excel(source, sheet_id=0, raise_if_empty=False)
    filled = [sheet for sheet, rows in sheets.items() if rows.width]
    if len(filled) > 1:
        raise DataError(
            f"file {name!r}", "must have one sheet", f"got {listed(filled)}",
            "Save the one that is meant as a file of its own, or as CSV UTF-8.",
        )  # fmt: skip
    return sheets[filled[0]] if filled else pl.DataFrame()


# -------------------------------------------------------------------- CSV


@dataclass
class CsvReader:
    """The records of a CSV as columns: one for the whole file, or for each block of it."""

    name: str
    dialect: Dialect
    names: tuple[str, ...]
    spelling: Spelling
    tokens: dict[str, dict[str, int]] = field(default_factory=dict)
    """What was taken for missing values in columns of numbers, and how often."""
    in_percent: dict[str, bool] = field(default_factory=dict)
    """Which columns are percentages."""

    def read(
        self, records: bytes, columns: Mapping[str, Any], where: Callable[[int], str]
    ) -> pl.DataFrame:
        """Checked records; columns of a known type are read as such, None leaves them text."""
        import polars as pl

        places = {name: str(self.names.index(name)) for name in columns}
        mark = self.dialect.separator
        begin = mark.join(map(str, range(len(self.names)))).encode() + b"\n"
        content, texts = begin + records, dict.fromkeys(columns, pl.String)
        quick = {
            name: pl.String if kind is None or self._needs_care(kind) else kind
            for name, kind in columns.items()
        }

        def parsed(kinds: Mapping[str, Any]) -> pl.DataFrame:
            return pl.read_csv(
                content,
                separator=mark,
                columns=list(places.values()),
                schema_overrides={places[name]: kind for name, kind in kinds.items()},
                infer_schema=False,
                null_values=["", *self.spelling.missing],  # in quotes as well
                encoding="utf8",
            ).select(pl.col(place).alias(name) for name, place in places.items())

        # a lone quote among numbers ends in a panic
        failures = (pl.exceptions.PolarsError, pl.exceptions.PanicException)
        try:
            table = parsed(quick)
        except failures:  # a cell that is not of its column's type: find out which
            try:
                table = parsed(texts)
            except failures as error:
                raise not_of_its_kind(self.name, "csv", error) from None
        return table.with_columns(
            self._converted(table[name], kind, where)
            for name, kind in columns.items()
            if kind is not None and (table.schema[name] != kind or kind.is_float())
        )

    def _needs_care(self, kind: Any) -> bool:
        """Whether Polars would misread numbers: with a decimal comma it takes points as well."""
        return bool(kind.is_float()) and self.spelling.mark != "."

    def _converted(self, column: pl.Series, kind: Any, where: Callable[[int], str]) -> pl.Series:
        if column.dtype == kind:
            odd = int(column.is_nan().sum())
            if odd:
                own = self.tokens.setdefault(column.name, {})
                own["NaN"] = own.get("NaN", 0) + odd
            return column.fill_nan(None) if odd else column
        found, row = as_known(column, kind, self.spelling, self.tokens, self.in_percent)
        if row is None:
            return found
        fix = "Mend the cell, or name what stands for a missing value with --missing."
        if kind.is_numeric():
            fix = self.spelling.advice(column[row])
        raise DataError(
            f"column {column.name!r}, {where(row)}",
            f"must be {_said(kind)}, as in the audit data",
            f"got {column[row]!r}",
            fix,
        )


def _said(kind: Any) -> str:
    if kind.is_numeric():
        return "a number"
    return "true or false" if str(kind) == "Boolean" else str(kind)


def without_blank_end(records: bytes, width: int) -> bytes:
    r"""Records without blank lines at the end; of one column, these are missing values.

    >>> without_blank_end(b"1,2\r\n\r\n\n", 2)
    b'1,2\r\n'
    """
    body = records.rstrip(b"\r\n")
    if width == 1 or not body:
        return records if width == 1 else b""
    rest = records[len(body) :]
    return body + (b"\r\n" if rest.startswith(b"\r\n") else rest[:1])


def _read_csv(content: bytes, name: str, types: Mapping[str, Any], spelling: Spelling) -> Table:
    dialect, body = Dialect.of(content), content.removeprefix(codecs.BOM_UTF8)
    end = header_end(body)
    names = header(body, name, dialect)
    _refuse_twins(names)
    records = without_blank_end(body[end:], len(names))
    line = 1 + body.count(b"\n", 0, end)
    refuse_odd_records(records, name, dialect, len(names), line)

    def where(row: int) -> str:
        return f"line {line + line_of(records, row):,}"

    reader = CsvReader(name, dialect, names, spelling)
    table = reader.read(records, {each: types.get(each) for each in names}, where)
    texts = [each for each in names if types.get(each) is None]
    findings = Findings.of(
        table.lazy(), texts, spelling, lambda column, row: f"column {column!r}, {where(row)}"
    )
    findings.note_tokens(reader.tokens)
    return Table(table.with_columns(**findings.expressions), where, findings)


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


# -------------------------------------------------------------------- cells that mislead


def refuse_odd_weights(
    table: pl.DataFrame, name: str, among: Sequence[str], where: Callable[[int], str] = in_rows
) -> None:
    """Complain about weights of people who have a value in each of ``among``."""
    import polars as pl

    number = pl.col(name).cast(pl.Float64, strict=False).fill_nan(None)
    odd = number.is_null() | (number < 0) | number.is_infinite()
    known = [pl.col(each).is_not_null() for each in among]
    rows = table.select(pl.all_horizontal(odd, *known).arg_true()).to_series()
    if len(rows):
        cell = table[name][int(rows[0])]
        raise DataError(
            f"column {name!r}, {where(int(rows[0]))}",
            "must be a weight: a number, 0 or more",
            "it is empty" if cell is None else f"got {cell!r}",
            "Somebody who should not count has weight 0.",
        )


def refuse_blanks(
    table: pl.DataFrame,
    name: str,
    *,
    among: Sequence[str] = (),
    where: Callable[[int], str] = in_rows,
    hold: str = "a prediction",
    fix: str = "Is the row cut short? Mend it, or leave out people whom the model did not answer.",
) -> None:
    """Complain about people without a recorded prediction, or an id, with the first one's place.

    Only those count who have a value in each of ``among``.
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
            f"it is empty in {where(int(rows[0]))}{more}",
            fix,
        )
