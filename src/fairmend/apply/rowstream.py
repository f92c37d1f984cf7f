"""Rows through a file of any size: read a block, edit a few cells, write the block.

A CSV is handled as the bytes it is. A block of whole records is parsed for the columns that are
needed, and written again as it came, but for the records whose cells are edited: whatever was not
edited comes out byte for byte, ``007``, quotes and line ends included. Parquet and Arrow files pass
in batches of their own types.
"""

from __future__ import annotations

import codecs
import gzip
import os
import tempfile
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import IO, TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from fairmend.data.records import (
    Dialect,
    count_records,
    cut,
    header,
    header_end,
    lengths,
    line_end,
    line_of,
    record_ends,
    refuse_odd_records,
)
from fairmend.data.spelling import Findings, Spelling
from fairmend.data.tablefile import (
    HEAD,
    CsvReader,
    Kind,
    in_rows,
    kind_of,
    not_of_its_kind,
    open_file,
    without_blank_end,
)
from fairmend.errors import DataError, nearest, require

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Block", "Edits", "RowStream", "open_rows"]

BLOCK_BYTES = 4 << 20
"""Of a CSV, at a time."""
BATCH_ROWS = 1 << 16
"""Of a Parquet or Arrow file, at a time."""
LONGEST_RECORD = 64 << 20
"""A record that is longer has a quote that is never closed."""
_NEWLINE, _RETURN = 10, 13
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, eq=False)
class Edits:
    """What becomes of a block's rows."""

    cells: Mapping[str, tuple[NDArray[np.int64], pl.Series]]
    """Per edited column, which rows of the block, and their new values."""
    added: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    """New columns, each with one value a row; all that `RowStream.start` was told of."""

    @property
    def edited(self) -> NDArray[np.int64]:
        """The rows with at least one edited cell, in order."""
        parts = [rows for rows, _ in self.cells.values()]
        return np.unique(np.concatenate([np.empty(0, np.int64), *parts]))


@dataclass(frozen=True, eq=False)
class Block:
    """Some consecutive rows: the columns asked for, and the raw material to write them again."""

    rows: pl.DataFrame
    first: int
    """How many rows came before."""
    read: int
    """How many bytes have been read, this block included; of Parquet, how many rows."""
    raw: Any
    line: int | None = None
    """The line of a CSV in which the block begins."""

    def where(self, row: int) -> str:
        """Where a row of the block is in the file: a CSV's line as an editor counts it."""
        if self.line is None:
            return in_rows(self.first + row)
        return f"line {self.line + line_of(self.raw, row):,}"


class RowStream(ABC):
    """A file that can be read block by block and written again in its own format."""

    kind: Kind
    names: tuple[str, ...]
    """All columns, in order."""
    size: int | None
    """What `Block.read` counts up to; None if that is not known."""

    def check(
        self, columns: Sequence[str], what: str, must: str = "must name a column of the file"
    ) -> None:
        """Complain about columns that are not there, or there twice."""
        for name in columns:
            if name not in self.names:
                raise DataError(what, must, f"{name!r} is not one", nearest(name, self.names))
            if Counter(self.names)[name] > 1:
                raise DataError(
                    f"column {name!r}",
                    "must be in the file once",
                    f"got {Counter(self.names)[name]} of that name",
                    "Rename the others.",
                )

    @abstractmethod
    def blocks(self, types: Mapping[str, Any]) -> Iterator[Block]:
        """Blocks with the named columns; a CSV's are read in these types, None leaves it to it."""

    @abstractmethod
    def start(
        self, out: IO[bytes], added: Sequence[str] = (), kept: Sequence[str] | None = None
    ) -> None:
        """Begin the output: the columns that are kept, ``None`` for all, then those added."""

    @abstractmethod
    def write(self, block: Block, edits: Edits) -> None:
        """Write a block with its edits."""

    @abstractmethod
    def finish(self) -> None:
        """Write what comes after the last block."""


@contextmanager
def open_rows(
    path: str,
    *,
    spelling: Spelling | None = None,
    block_bytes: int = BLOCK_BYTES,
    unpack: bool = False,
) -> Iterator[RowStream]:
    """A file, or standard input for ``-``, as a stream of rows.

    Edited cells are written as ``spelling`` says they are read. With ``unpack`` a CSV may be packed
    by gzip, if its name ends so.
    """
    with ExitStack() as stack:
        name = "standard input" if path == "-" else path
        file = stack.enter_context(open_file(path))
        if unpack and path.lower().endswith(".gz") and file.peek(2)[:2] == _GZIP:  # type: ignore[attr-defined]
            file = cast(IO[bytes], stack.enter_context(gzip.open(file)))
        try:
            head = _peeked(file)
        except (OSError, EOFError) as error:
            raise not_of_its_kind(name, "csv", error) from None
        kind = kind_of(head, name)
        if kind == "excel":
            raise DataError(
                f"file {name!r}", "must be CSV, Parquet or Arrow, to be written again",
                "got a spreadsheet", "Save the sheet as CSV UTF-8.",
            )  # fmt: skip
        require("pyarrow", extra="cli", why=f"streaming {kind}")
        seekable = file.seekable() and path != "-"
        if kind == "csv":
            size = os.fstat(file.fileno()).st_size if seekable and not unpack else None
            yield _CsvStream(file, name, size, spelling or Spelling(), block_bytes)
            return
        if not seekable:  # its table of contents is at the end
            spooled = stack.enter_context(tempfile.TemporaryFile())
            while part := file.read(BLOCK_BYTES):
                spooled.write(part)
            spooled.seek(0)
            file = spooled
        yield _ArrowStream(file, name, kind)


def _peeked(file: Any) -> bytes:
    """The first bytes; a pipe may give them drop by drop."""
    head = b""
    while len(head) < HEAD:
        more = file.peek(HEAD)
        if len(more) <= len(head) or len(more) >= HEAD:
            return bytes(more[:HEAD])
        head = more
    return head


# -------------------------------------------------------------------- CSV


class _CsvStream(RowStream):
    kind = "csv"

    def __init__(
        self,
        file: IO[bytes],
        name: str,
        size: int | None,
        spelling: Spelling,
        block_bytes: int,
    ) -> None:
        self._file, self._name, self._spelling = file, name, spelling
        self.size = size
        self._pieces = _whole_records(file, name, block_bytes)
        first = next(self._pieces, b"")
        self._dialect = Dialect.of(first)
        body = first.removeprefix(codecs.BOM_UTF8)
        if not body.strip():
            raise DataError(f"file {name!r}", "must hold a header and rows", "it is empty",
                            "Is it the right file?")  # fmt: skip
        end = header_end(body)
        self._header, self._rest = body[:end], body[end:]
        self.names = header(self._header, name, self._dialect)
        self._reader = CsvReader(name, self._dialect, self.names, spelling)
        self._blank_end = b""

    def blocks(self, types: Mapping[str, Any]) -> Iterator[Block]:
        first, read, width = 0, len(self._header), len(self.names)
        line = 1 + self._header.count(b"\n")
        for piece in _with_first(self._rest, self._pieces):
            records = without_blank_end(piece, width)
            if self._blank_end and records:  # blank lines that were not the last ones
                refuse_odd_records(self._blank_end, self._name, self._dialect, width, line)
            block = Block(None, first, read + len(piece), records, line)  # type: ignore[arg-type]
            refuse_odd_records(records, self._name, self._dialect, width, line)
            rows = self._settled(self._reader.read(records, types, block.where), types)
            if rows.height != count_records(records):
                raise not_of_its_kind(self._name, "csv", ValueError("records that do not end"))
            if records:
                yield replace(block, rows=rows)
            first, read = first + rows.height, read + len(piece)
            line += records.count(b"\n")
            self._blank_end += piece[len(records) :]

    def _settled(self, rows: pl.DataFrame, types: Mapping[str, Any]) -> pl.DataFrame:
        """Columns of no known type by the cells of the block."""
        texts = [name for name, kind in types.items() if kind is None]
        found = Findings.of(rows.lazy(), texts, self._spelling, lambda name, _: name)
        return rows.with_columns(**found.expressions)

    def start(
        self, out: IO[bytes], added: Sequence[str] = (), kept: Sequence[str] | None = None
    ) -> None:
        self._out, self._kept = out, kept
        self._places = {name: place for place, name in enumerate(self.names)}
        if self._dialect.marked:
            out.write(codecs.BOM_UTF8)
        if kept is None:
            out.write(self._with_cells(self._header, [[name] for name in added]))
        else:
            cells = [self._written(name) for name in (*kept, *added)]
            out.write(self._joined(cells) + self._dialect.newline.encode())

    def write(self, block: Block, edits: Edits) -> None:
        if self._kept is not None:
            self._write_apart(block, edits, self._kept)
            return
        content = b"".join(self._edited(block, edits))
        columns = [column.tolist() for column in edits.added.values()]
        self._out.write(self._with_cells(content, columns))

    def _with_cells(self, content: bytes, columns: Sequence[list[Any]]) -> bytes:
        """Every record with further cells at its end, one from each column."""
        if columns:
            content = self._filled(content)
        mark = self._dialect.separator.encode()
        for words in columns:
            cells = {word: mark + self._written(word) for word in set(words)}
            content = _lengthened(content, [cells[word] for word in words])
        return content

    def _filled(self, content: bytes) -> bytes:
        """With empty cells where a record left out its last ones; none has too many."""
        mark, whole = self._dialect.separator, len(self.names)
        if b'"' not in content and content.count(mark.encode()) == (whole - 1) * count_records(
            content
        ):
            return content
        lacking = whole - lengths(content, mark)
        return _lengthened(content, [mark.encode() * n for n in lacking.tolist()])

    def _edited(self, block: Block, edits: Edits) -> list[bytes]:
        """The block's bytes in pieces, the edited records among them."""
        changes: dict[int, list[tuple[int, bytes]]] = {}
        for name, (rows, values) in edits.cells.items():
            percent = self._reader.in_percent.get(name, False)
            texts = [self._written(value, percent=percent) for value in values]
            for row, text in zip(rows.tolist(), texts, strict=True):
                changes.setdefault(row, []).append((self._places[name], text))
        if not changes:
            return [block.raw]
        ends = record_ends(block.raw)
        pieces, copied = [], 0
        for row in sorted(changes):
            start, end = int(ends[row - 1]) if row else 0, int(ends[row])
            record = block.raw[start:end]
            end_of_line = line_end(record)
            cells = cut(record.removesuffix(end_of_line), self._dialect.separator)
            cells += [b""] * (len(self.names) - len(cells))  # its last ones may have been left out
            for place, text in changes[row]:
                cells[place] = text
            pieces += [block.raw[copied:start], self._joined(cells), end_of_line]
            copied = end
        return [*pieces, block.raw[copied:]]

    def _write_apart(self, block: Block, edits: Edits, kept: Sequence[str]) -> None:
        import polars as pl

        columns = [block.rows[name] for name in kept]
        columns += [
            self._spelt(pl.Series(name, values.tolist())) for name, values in edits.added.items()
        ]
        pl.DataFrame(columns).write_csv(
            self._out,
            include_header=False,
            separator=self._dialect.separator,
            line_terminator=self._dialect.newline,
        )

    def _spelt(self, words: pl.Series) -> pl.Series:
        import polars as pl

        if words.dtype == pl.String:
            return words.replace("", None)  # which would be written in quotes
        if not words.dtype.is_float():
            return words
        return words.cast(str).str.replace(".", self._spelling.mark, literal=True)

    def finish(self) -> None:
        """Blank lines come last, as they did; what was taken for missing is told."""
        if self._kept is None:
            self._out.write(self._blank_end)
        self.tell()

    def tell(self) -> None:
        found = Findings()
        found.note_tokens(self._reader.tokens)
        found.use(self.names)

    def _written(self, value: Any, *, percent: bool = False) -> bytes:
        """A value as a cell, in quotes where they are needed."""
        if value is None:
            return b""
        text = str(value).lower() if isinstance(value, bool | np.bool_) else str(value)
        if percent:
            text = _in_percent(float(value))
        if isinstance(value, float | np.floating):
            text = text.replace(".", self._spelling.mark)
        if any(mark in text for mark in (self._dialect.separator, '"', "\n", "\r")):
            text = '"' + text.replace('"', '""') + '"'
        return text.encode()

    def _joined(self, cells: Sequence[bytes]) -> bytes:
        return self._dialect.separator.encode().join(cells)


def _with_first(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    if first:
        yield first
    yield from rest


def _whole_records(file: IO[bytes], name: str, block_bytes: int) -> Iterator[bytes]:
    """The file in pieces that end where a record ends."""
    rest = b""
    while new := file.read(block_bytes):
        piece = rest + new
        end = _last_end(piece)
        rest = piece[end:]
        if len(rest) > LONGEST_RECORD:
            raise DataError(
                f"file {name!r}",
                f"must have records of at most {LONGEST_RECORD >> 20} MB",
                "got a longer one",
                "Look for a quote that is never closed, or for line ends that are none.",
            )
        if end:
            yield piece[:end]
    if rest:
        yield rest


def _last_end(piece: bytes) -> int:
    """The place after the last record that is certain to be whole; 0 if there is none."""
    if b'"' not in piece:
        return piece.rfind(b"\n") + 1
    ends = record_ends(piece)
    whole = ends if piece.endswith(b"\n") and _closed(piece) else ends[:-1]
    return int(whole[-1]) if len(whole) else 0


def _closed(piece: bytes) -> bool:
    return piece.count(b'"') % 2 == 0


def _lengthened(content: bytes, texts: Sequence[bytes]) -> bytes:
    """Every record with some text at its end, before its newline."""
    import pyarrow as pa
    import pyarrow.compute as pc

    ends = record_ends(content)
    letters = np.frombuffer(content, np.uint8)
    broken = letters[ends - 1] == _NEWLINE
    returned = broken & (ends > 1) & (letters[np.maximum(ends - 2, 0)] == _RETURN)
    places = ends - broken - returned
    # cut where the texts go, so that a piece begins with the newline before it; nothing is copied
    kind, cuts = pa.large_binary(), np.append(0, places)
    pieces = pa.Array.from_buffers(
        kind, len(places), [None, pa.py_buffer(cuts), pa.py_buffer(content)]
    )
    joined = pc.binary_join_element_wise(pieces, pa.array(texts, kind), pa.scalar(b"", kind))
    return memoryview(joined.buffers()[2]).tobytes() + content[places[-1] :]


def _in_percent(value: float) -> str:
    """A number with a percent sign, which is read as that very number again.

    >>> _in_percent(0.07)
    '7.00%'
    """
    return f"{Decimal(repr(value)) * 100:f}".removesuffix(".0") + "%"


# -------------------------------------------------------------------- Parquet and Arrow


class _ArrowStream(RowStream):
    def __init__(self, file: IO[bytes], name: str, kind: Kind) -> None:
        import pyarrow as pa
        import pyarrow.ipc
        import pyarrow.parquet

        self.kind, self._name = kind, name
        try:
            if kind == "parquet":
                self._source = pa.parquet.ParquetFile(file)
                self._schema = self._source.schema_arrow
                self.size = self._source.metadata.num_rows
            else:
                opened = pa.ipc.open_file if kind == "arrow" else pa.ipc.open_stream
                self._source = opened(file)
                self._schema, self.size = self._source.schema, None
        except (pa.ArrowException, OSError) as error:
            raise not_of_its_kind(name, kind, error) from None
        self.names = tuple(self._schema.names)

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

        batches, some = self._batches(), False
        while True:
            try:
                batch = next(batches, None)
                if batch is not None and self.kind != "parquet":  # Arrow has no checksums
                    batch.validate(full=True)
            except (pa.ArrowException, OSError) as error:
                raise not_of_its_kind(self._name, self.kind, error) from None
            if batch is None:
                break
            some = True
            yield batch
        if not some:
            yield pa.RecordBatch.from_pylist([], self._schema)

    def _batches(self) -> Iterator[Any]:
        if self.kind == "parquet":
            yield from self._source.iter_batches(BATCH_ROWS)
            return
        parts = (
            (self._source.get_batch(i) for i in range(self._source.num_record_batches))
            if self.kind == "arrow"
            else self._source
        )
        for part in parts:
            for start in range(0, part.num_rows, BATCH_ROWS):
                yield part.slice(start, BATCH_ROWS)

    def start(
        self, out: IO[bytes], added: Sequence[str] = (), kept: Sequence[str] | None = None
    ) -> None:
        self._out, self._kept = out, kept
        self._writer: Any = None
        self._words: dict[str, dict[Any, int]] = {}

    def write(self, block: Block, edits: Edits) -> None:
        import pyarrow as pa

        batch = block.raw
        kept = batch.schema.names if self._kept is None else self._kept
        columns = {name: batch.column(name) for name in kept}
        fields = [batch.schema.field(name) for name in kept]
        if self._kept is None:
            for name, (rows, values) in edits.cells.items():
                series = block.rows[name].clone()
                if values.dtype != series.dtype:
                    raise DataError(
                        f"column {name!r}",
                        f"must hold {values.dtype}, as in the audit data",
                        f"it holds {series.dtype}, which has no room for an edit",
                        "Write the file with the types of the audit data.",
                    )
                changed = series.scatter(rows.tolist(), values)
                columns[name] = changed.to_arrow().cast(batch.schema.field(name).type)
            for name in block.rows.columns:
                if pa.types.is_dictionary(columns[name].type):
                    columns[name] = self._in_one_dictionary(name, columns[name])
        for name, new in edits.added.items():
            columns[name] = pa.array(new.tolist() if len(new) else new)
            fields.append(pa.field(name, columns[name].type))
        schema = pa.schema(fields, metadata=batch.schema.metadata)
        table = pa.Table.from_arrays(list(columns.values()), schema=schema)
        self._open(schema).write_table(table)

    def _in_one_dictionary(self, name: str, column: Any) -> Any:
        """Words under the numbers of earlier batches: an Arrow file has one list of words."""
        import pyarrow as pa

        numbers = self._words.setdefault(name, {})
        for word in column.dictionary.to_pylist():
            numbers.setdefault(word, len(numbers))
        kind = column.type
        indices = [None if word is None else numbers[word] for word in column.to_pylist()]
        return pa.DictionaryArray.from_arrays(
            pa.array(indices, kind.index_type),
            pa.array(list(numbers), kind.value_type),
            ordered=kind.ordered,
        )

    def _open(self, schema: Any) -> Any:
        import pyarrow as pa
        import pyarrow.parquet

        if self._writer is None:
            if self.kind == "parquet":
                self._writer = pa.parquet.ParquetWriter(self._out, schema)
            else:
                opened = pa.ipc.new_file if self.kind == "arrow" else pa.ipc.new_stream
                options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
                self._writer = opened(self._out, schema, options=options)
        return self._writer

    def finish(self) -> None:
        self._writer.close()
