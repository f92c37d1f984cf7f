"""Tables from files: CSV, Parquet, Arrow, spreadsheets, or standard input, by content and suffix.

`open_rows` gives the rows block by block, `read_table` the whole table; both read alike, with the
same options. How cells are spelt is settled in `fairmend.data.spelling`.
"""

from __future__ import annotations

import codecs
import io
import os
import tempfile
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from fairmend.data.csvbytes import (
    Dialect,
    check_records,
    header,
    header_end,
    line_of,
    record_ends,
)
from fairmend.data.filekind import FileKind, not_of_its_kind, open_by_kind
from fairmend.data.spelling import Findings, Spelling, as_known
from fairmend.errors import DataError, FairmendError, check, listed, nearest, require, unreadable

if TYPE_CHECKING:
    import polars as pl

BLOCK_BYTES = 4 << 20
"""Of a CSV, at a time; a table that is read whole comes in larger blocks."""
WHOLE_BYTES = 1 << 28
BATCH_ROWS = 1 << 16
"""Of a Parquet or Arrow file, at a time."""
LONGEST_RECORD = 64 << 20
"""A record that is longer has a quote that is never closed."""


def in_rows(row: int) -> str:
    """Where a row of a typed file is; a CSV has lines.

    >>> in_rows(0)
    'row 1'
    """
    return f"row {row + 1:,}"


# -------------------------------------------------------------------- rows, block by block


@dataclass(frozen=True, eq=False)
class Block:
    """Some consecutive rows: the columns that are needed, and the raw material to write them."""

    rows: pl.DataFrame
    first: int
    """How many rows came before."""
    read: int
    """How many bytes have been read, this block included; of Parquet, how many rows."""
    raw: Any
    line: int | None = None
    """The line of a CSV in which the block begins."""
    ends: NDArray[np.int64] | None = None
    """Where the cells of a CSV end, a row a record; kept only to write it again."""
    in_percent: Mapping[str, bool] = field(default_factory=dict)
    """Which columns of a CSV are percentages, as far as it was read."""

    def where(self, row: int) -> str:
        """Where a row of the block is in the file: a CSV's line as an editor counts it."""
        if self.line is None:
            return in_rows(self.first + row)
        return f"line {self.line + line_of(self.raw, row):,}"


class Rows(ABC):
    """The rows of a file, read block by block."""

    kind: FileKind
    names: tuple[str, ...]
    """All columns, in order."""
    size: int | None
    """What `Block.read` counts up to; None if that is not known."""

    def check(
        self, columns: Sequence[str], what: str, must: str = "must name a column of the file"
    ) -> None:
        """Refuse columns that are not there, or there twice."""
        for name in columns:
            if name not in self.names:
                raise DataError(what, must, f"there is no {name!r}", nearest(name, self.names))
            count = self.names.count(name)
            check(
                count == 1,
                f"column {name!r}" if name else "columns without a name",
                "must be in the file once",
                f"got {count} of that name" if name else f"got {count}",
                "Rename the others, or leave them out.",
            )

    @abstractmethod
    def blocks(self, types: Mapping[str, Any]) -> Iterator[Block]:
        """Blocks with the named columns; a CSV's are read in these types, None infers the type."""


@contextmanager
def open_rows(
    path: str,
    *,
    spelling: Spelling | None = None,
    block_bytes: int = BLOCK_BYTES,
    unpack: bool = False,
    csv: type[CsvRows] | None = None,
    typed: type[TypedRows] | None = None,
) -> Iterator[Any]:
    """The rows of a file, or of standard input for ``-``: a `CsvRows` or a `TypedRows`.

    With ``unpack`` a CSV may be packed by gzip, if its name ends so. ``csv`` and ``typed`` are
    classes to make instead, which can do more.
    """
    with ExitStack() as stack:
        file, name, kind = open_by_kind(path, stack, unpack=unpack)
        must, got = "must be CSV, Parquet or Arrow, to be written again", "got a spreadsheet"
        check(kind != "excel", f"file {name!r}", must, got, "Save the sheet as CSV UTF-8.")
        require("pyarrow", extra="cli", why=f"streaming {kind}")
        if kind == "csv":
            yield (csv or CsvRows)(file, name, spelling or Spelling(), block_bytes)
            return
        if path == "-" or not file.seekable():  # its table of contents is at the end
            spooled = stack.enter_context(tempfile.TemporaryFile())
            while part := file.read(BLOCK_BYTES):
                spooled.write(part)
            spooled.seek(0)
            file = spooled
        yield (typed or TypedRows)(file, name, kind)


# -------------------------------------------------------------------- CSV


class CsvRows(Rows):
    """The records of a CSV, in pieces of whole records."""

    kind = "csv"
    keeps_ends: ClassVar = False
    """Whether blocks say where their cells end."""

    def __init__(
        self, file: IO[bytes], name: str, spelling: Spelling, block_bytes: int = BLOCK_BYTES
    ) -> None:
        self.name, self.spelling = name, spelling
        plain = isinstance(file, io.BufferedReader) and file.seekable()
        self.size = os.fstat(file.fileno()).st_size if plain else None
        self.tokens: dict[str, Counter[str]] = {}
        """What was taken for missing values in columns of numbers, and how often."""
        self.in_percent: dict[str, bool] = {}
        """Which columns are percentages."""
        self._pieces = _whole_records(file, name, block_bytes)
        first = next(self._pieces, b"")
        self.dialect = Dialect.of(first)
        body = first.removeprefix(codecs.BOM_UTF8)
        if not body.strip():
            raise _empty(name, "a header and rows", "it is empty")
        end = header_end(body)
        self.header, self._rest = body[:end], body[end:]
        self.names = header(self.header, name, self.dialect)
        self.blank_end = b""
        """Blank lines at the end of the file, once it is read."""

    def blocks(self, types: Mapping[str, Any]) -> Iterator[Block]:
        first, read, width = 0, len(self.header), len(self.names)
        line = 1 + self.header.count(b"\n")
        for piece in filter(None, chain([self._rest], self._pieces)):
            records = _without_blank_end(piece, width)
            if self.blank_end and records:  # blank lines that were not the last ones
                check_records(self.blank_end, self.name, self.dialect, width, line)
            block = Block(None, first, read + len(piece), records, line)  # type: ignore[arg-type]
            ends = check_records(records, self.name, self.dialect, width, line)
            count = len(ends)
            if self.keeps_ends:
                block = replace(block, ends=ends)
            del ends  # they are larger than the records
            rows = self._settled(self._read(records, types, block.where), types)
            if rows.height != count:
                raise not_of_its_kind(self.name, "csv", ValueError("records that do not end"))
            if records:
                yield replace(block, rows=rows, in_percent=dict(self.in_percent))
            first, read = first + rows.height, read + len(piece)
            line += records.count(b"\n") if b'"' in records else count
            self.blank_end += piece[len(records) :]

    def _settled(self, rows: pl.DataFrame, types: Mapping[str, Any]) -> pl.DataFrame:
        """Columns of no known type by the cells of the block."""
        texts = [name for name, kind in types.items() if kind is None]
        findings = Findings.of(rows.lazy(), texts, self.spelling, lambda name, _: name)
        return rows.with_columns(**findings.expressions)

    def _read(
        self, records: bytes, columns: Mapping[str, Any], where: Callable[[int], str]
    ) -> pl.DataFrame:
        """Checked records; columns of a known type are read as such, None leaves them text."""
        import polars as pl

        places = {name: str(self.names.index(name)) for name in columns}
        mark = self.dialect.separator
        content = mark.join(map(str, range(len(self.names)))).encode() + b"\n" + records

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

        def is_left_text(kind: Any) -> bool:  # Polars takes points for decimal marks as well
            return kind is None or (kind.is_float() and self.spelling.mark != ".")

        quick = {n: pl.String if is_left_text(kind) else kind for n, kind in columns.items()}
        # a lone quote among numbers ends in a panic
        failures = (pl.exceptions.PolarsError, pl.exceptions.PanicException)
        try:
            table = parsed(quick)
        except failures:  # a cell that is not of its column's type: find out which
            try:
                table = parsed(dict.fromkeys(columns, pl.String))
            except failures as error:
                raise not_of_its_kind(self.name, "csv", error) from None
        return table.with_columns(
            self._converted(table[name], kind, where)
            for name, kind in columns.items()
            if kind is not None and (table.schema[name] != kind or kind.is_float())
        )

    def _converted(self, column: pl.Series, kind: Any, where: Callable[[int], str]) -> pl.Series:
        if column.dtype == kind:
            count = int(column.is_nan().sum())
            if count:
                self.tokens.setdefault(column.name, Counter())["NaN"] += count
            return column.fill_nan(None) if count else column
        values, row = as_known(column, kind, self.spelling, self.tokens, self.in_percent)
        if row is None:
            return values
        fix = "Correct the cell, or name what stands for a missing value with --missing."
        wanted = "true or false" if str(kind) == "Boolean" else str(kind)
        if kind.is_numeric():
            wanted, fix = "a number", self.spelling.advice(column[row])
        what, got = f"column {column.name!r}, {where(row)}", f"got {column[row]!r}"
        raise DataError(what, f"must be {wanted}, as in the audit data", got, fix)


def _empty(name: str, hold: str, got: str) -> DataError:
    return DataError(f"file {name!r}", f"must hold {hold}", got, "Is it the right file?")


def _without_blank_end(records: bytes, width: int) -> bytes:
    r"""Records without blank lines at the end; of one column, these are missing values.

    >>> _without_blank_end(b"1,2\r\n\r\n\n", 2)
    b'1,2\r\n'
    """
    if width == 1:
        return records
    body = records.rstrip(b"\r\n")
    if not body:
        return b""
    rest = records[len(body) :]
    return body + (b"\r\n" if rest.startswith(b"\r\n") else rest[:1])


def _whole_records(file: IO[bytes], name: str, block_bytes: int) -> Iterator[bytes]:
    """The file in pieces that end where a record ends."""
    rest = b""
    while new := _next_bytes(file, name, block_bytes):
        piece = rest + new
        end = _last_end(piece)
        rest = piece[end:]
        must = f"must have records of at most {LONGEST_RECORD >> 20} MB"
        fix = "Look for a quote that is never closed, or for line ends that are none."
        check(len(rest) <= LONGEST_RECORD, f"file {name!r}", must, "got a longer one", fix)
        if end:
            yield piece[:end]
    if rest:
        yield rest


def _next_bytes(file: IO[bytes], name: str, most: int) -> bytes:
    try:
        return file.read(most)
    except EOFError as error:  # a packed file that was cut short
        raise not_of_its_kind(name, "csv", error) from None
    except OSError as error:
        raise unreadable(f"file {name!r}", error) from None


def _last_end(piece: bytes) -> int:
    """The place after the last record that is certain to be whole; 0 if there is none."""
    if b'"' not in piece:
        return piece.rfind(b"\n") + 1
    ends = record_ends(piece)
    closed = piece.endswith(b"\n") and piece.count(b'"') % 2 == 0
    whole = ends if closed else ends[:-1]
    return int(whole[-1]) if len(whole) else 0


# -------------------------------------------------------------------- Parquet and Arrow


class TypedRows(Rows):
    """The rows of a Parquet or Arrow file, in batches."""

    def __init__(self, file: IO[bytes], name: str, kind: FileKind) -> None:
        import pyarrow as pa
        import pyarrow.ipc
        import pyarrow.parquet

        self.kind, self.name = kind, name
        try:
            if kind == "parquet":
                self._source = pa.parquet.ParquetFile(file)
                self.schema = self._source.schema_arrow
                self.size = self._source.metadata.num_rows
            else:
                opened = pa.ipc.open_file if kind == "arrow" else pa.ipc.open_stream
                self._source = opened(file)
                self.schema, self.size = self._source.schema, None
        except (pa.ArrowException, OSError) as error:
            raise not_of_its_kind(name, kind, error) from None
        self.names = tuple(self.schema.names)

    def blocks(self, types: Mapping[str, Any]) -> Iterator[Block]:
        import polars as pl

        first = 0
        for batch in self._readable_batches():
            rows = pl.DataFrame(pl.from_arrow(batch.select([*types])))
            # batches have their own categories
            rows = rows.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String))
            yield Block(rows, first, first + batch.num_rows, batch)
            first += batch.num_rows

    def _readable_batches(self) -> Iterator[Any]:
        """At least one, without rows where the file has none."""
        import pyarrow as pa

        empty = True
        try:
            for batch in self._batches():
                if self.kind != "parquet":  # Arrow has no checksums
                    batch.validate(full=True)
                empty = False
                yield batch
        except (pa.ArrowException, OSError) as error:
            raise not_of_its_kind(self.name, self.kind, error) from None
        if empty:
            yield pa.RecordBatch.from_pylist([], self.schema)

    def _batches(self) -> Iterator[Any]:
        if self.kind == "parquet":
            yield from self._source.iter_batches(BATCH_ROWS)
            return
        parts: Any = self._source
        if self.kind == "arrow":
            parts = map(self._source.get_batch, range(self._source.num_record_batches))
        for part in parts:
            for start in range(0, part.num_rows, BATCH_ROWS):
                yield part.slice(start, BATCH_ROWS)


# -------------------------------------------------------------------- a whole table


@dataclass(frozen=True, eq=False)
class FileTable:
    """A whole file."""

    frame: pl.DataFrame
    where: Callable[[int], str] = in_rows
    """Where a row is: the line of a CSV as an editor counts it, or the number of the row."""
    findings: Findings = field(default_factory=Findings)


def read_table(
    path: str | Path, *, spelling: Spelling | None = None, types: Mapping[str, Any] | None = None
) -> FileTable:
    """Read a whole table into memory; ``-`` is standard input.

    A CSV may begin with a byte-order mark and be separated by commas, semicolons, tabs or bars:
    its first line tells. Empty cells are missing values. ``types`` are those of a CSV's columns
    where they are known; the others follow from all cells, by the options of ``spelling``.
    """
    require("polars", extra="cli", why="reading a file")
    with ExitStack() as stack:
        file, name, kind = open_by_kind(str(path), stack)
        if kind == "csv":
            rows = CsvRows(file, name, spelling or Spelling(), WHOLE_BYTES)
            table = _whole_csv(rows, types or {})
        else:
            table = FileTable(_whole_typed(_next_bytes(file, name, -1), name, kind))
            if kind == "excel":
                table = _with_texts_read(table.frame, spelling or Spelling(), types or {})
    if table.frame.width == 0 or table.frame.height == 0:
        raise _empty(name, "at least one row", "got none")
    return table


def _whole_csv(rows: CsvRows, types: Mapping[str, Any]) -> FileTable:
    import polars as pl

    rows.check(rows.names, f"file {rows.name!r}")
    kinds = {name: types.get(name, pl.String) for name in rows.names}
    blocks = list(rows.blocks(kinds))

    def where(row: int) -> str:
        block = next(b for b in reversed(blocks) if b.first <= row)
        return block.where(row - block.first)

    if not blocks:
        return FileTable(pl.DataFrame())
    table = pl.concat([block.rows for block in blocks], how="vertical_relaxed")
    findings = Findings.of(
        table.lazy(),
        [name for name in rows.names if name not in types],
        rows.spelling,
        lambda column, row: f"column {column!r}, {where(row)}",
    )
    findings.note_tokens(rows.tokens)
    return FileTable(table.with_columns(**findings.expressions), where, findings)


def _with_texts_read(
    table: pl.DataFrame, spelling: Spelling, types: Mapping[str, Any]
) -> FileTable:
    """The text cells of a spreadsheet as those of a CSV: exports often hold amounts as text."""
    import polars as pl

    texts = [name for name, kind in table.schema.items() if kind == pl.String]
    marks = ["", *spelling.missing]
    table = table.with_columns(pl.when(~pl.col(name).is_in(marks)).then(name) for name in texts)
    findings = Findings.of(
        table.lazy(),
        [name for name in texts if name not in types],
        spelling,
        lambda column, row: f"column {column!r}, {in_rows(row)}",
    )
    return FileTable(table.with_columns(**findings.expressions), findings=findings)


def _whole_typed(content: bytes, name: str, kind: FileKind) -> pl.DataFrame:
    import polars as pl

    source = io.BytesIO(content)
    try:
        if kind == "parquet":
            return pl.read_parquet(source)
        if kind == "arrow":
            return pl.read_ipc(source)
        if kind == "arrow stream":
            return pl.read_ipc_stream(source)
        require("fastexcel", extra="excel", why=f"reading the spreadsheet {name!r}")
        sheets = pl.read_excel(source, sheet_id=0, raise_if_empty=False)
    except FairmendError:
        raise
    except Exception as error:
        raise not_of_its_kind(name, kind, error) from None
    filled = [sheet for sheet, rows in sheets.items() if rows.width]
    fix = "Save the one that is meant as a file of its own, or as CSV UTF-8."
    check(len(filled) <= 1, f"file {name!r}", "must have one sheet", f"got {listed(filled)}", fix)
    return sheets[filled[0]] if filled else pl.DataFrame()


# -------------------------------------------------------------------- cells that mislead


def refuse_odd_weights(
    table: pl.DataFrame, name: str, among: Sequence[str], where: Callable[[int], str] = in_rows
) -> None:
    """Refuse weights that are none, of people who have a value in each of ``among``."""
    import polars as pl

    number = pl.col(name).cast(pl.Float64, strict=False).fill_nan(None)
    rows = _odd_rows(table, number.is_null() | (number < 0) | number.is_infinite(), among)
    if rows:
        cell = table[name][rows[0]]
        what, must = f"column {name!r}, {where(rows[0])}", "must be a weight: a number, 0 or more"
        got = "it is empty" if cell is None else f"got {cell!r}"
        raise DataError(what, must, got, "Somebody who should not count has weight 0.")


def refuse_blanks(
    table: pl.DataFrame,
    name: str,
    *,
    among: Sequence[str] = (),
    where: Callable[[int], str] = in_rows,
    hold: str = "a prediction",
    fix: str = "Is the row cut short? Complete it, or leave out people without a prediction.",
) -> None:
    """Refuse people without a recorded prediction, or an id, with the first one's place.

    Only those count who have a value in each of ``among``.
    """
    import polars as pl

    blank = pl.col(name).is_null()
    if table.schema[name].is_float():
        blank |= pl.col(name).is_nan()
    rows = _odd_rows(table, blank, among)
    if rows:
        more = f", and in {len(rows) - 1:,} more" if len(rows) > 1 else ""
        got = f"it is empty in {where(rows[0])}{more}"
        raise DataError(f"column {name!r}", f"must hold {hold} for everybody", got, fix)


def _odd_rows(table: pl.DataFrame, odd: pl.Expr, among: Sequence[str]) -> list[int]:
    """The odd rows of people who have a value in each of ``among``."""
    import polars as pl

    filled = [pl.col(each).is_not_null() for each in among]
    return table.select(pl.all_horizontal(odd, *filled).arg_true()).to_series().to_list()
