"""Rows through a file of any size: read a block, edit a few cells, write the block.

A CSV is handled as the bytes it is. A block of whole records is parsed for the columns that are
needed, and written again as it came, but for the records whose cells are edited: whatever was not
edited comes out byte for byte, ``007``, quotes and line ends included. No library writes that.
Parquet and Arrow files pass in batches of their own types.
"""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fairmend.data import tablefile
from fairmend.data.csvbytes import record_ends
from fairmend.data.spelling import Findings, Spelling
from fairmend.data.tablefile import BLOCK_BYTES, Block, CsvRows, TypedRows
from fairmend.errors import DataError

if TYPE_CHECKING:
    import polars as pl

_NEWLINE, _RETURN = 10, 13


@dataclass(frozen=True, eq=False)
class Edits:
    """What becomes of a block's rows."""

    cells: Mapping[str, tuple[NDArray[np.int64], pl.Series]]
    """Per edited column, which rows of the block, and their new values."""
    added: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    """New columns, each with one value a row; those that `RowStream.start` was given."""

    @property
    def edited(self) -> int:
        """How many rows have at least one edited cell."""
        parts = [rows for rows, _ in self.cells.values()]
        return int(np.count_nonzero(np.bincount(np.concatenate([np.empty(0, np.int64), *parts]))))


def open_rows(
    path: str, *, spelling: Spelling | None = None, block_bytes: int = BLOCK_BYTES
) -> AbstractContextManager[RowStream]:
    """A file, or standard input for ``-``, as a stream of rows that can be written again.

    Edited cells are written in the ``spelling`` in which they are read.
    """
    return tablefile.open_rows(
        path, spelling=spelling, block_bytes=block_bytes, csv=_CsvStream, typed=_TypedStream
    )


# -------------------------------------------------------------------- CSV


class _CsvStream(CsvRows):
    keeps_ends = True

    def start(
        self, out: IO[bytes], added: Sequence[str] = (), kept: Sequence[str] | None = None
    ) -> None:
        self._out, self._kept = out, kept
        self._places = {name: place for place, name in enumerate(self.names)}
        if self.dialect.marked:
            out.write(codecs.BOM_UTF8)
        if kept is None:
            out.write(self._with_cells(self.header, [[name] for name in added]))
        else:
            cells = [self._written(name) for name in (*kept, *added)]
            out.write(self._joined(cells) + self.dialect.newline.encode())

    def write(self, block: Block, edits: Edits) -> None:
        if self._kept is not None:
            self._write_kept(block, edits, self._kept)
            return
        content = self._edited(block, edits)
        columns = [column.tolist() for column in edits.added.values()]
        self._out.write(self._with_cells(content, columns))

    def _with_cells(self, content: bytes, columns: Sequence[list[Any]]) -> bytes:
        """Every record with further cells at its end, one from each column."""
        if not columns:
            return content
        mark = self.dialect.separator.encode()
        ends: list[list[bytes]] = []
        for words in columns:
            cells = {word: mark + self._written(word) for word in set(words)}
            ends.append([cells[word] for word in words])
        return _lengthened(content, [b"".join(parts) for parts in zip(*ends, strict=True)])

    def _edited(self, block: Block, edits: Edits) -> bytes:
        """The block's bytes with the edited cells in place of those that were there."""
        import pyarrow as pa
        import pyarrow.compute as pc

        assert block.ends is not None
        raw: bytes = block.raw
        starts, ends, texts = [], [], list[bytes]()
        for name, (rows, values) in edits.cells.items():
            place = self._places[name]
            end = block.ends[rows, place]
            if place == len(self.names) - 1:
                end = end - (np.frombuffer(raw, np.uint8)[end - 1] == _RETURN)
            before = rows - 1 if place == 0 else rows
            starts.append(np.where(before < 0, 0, block.ends[before, place - 1] + 1))
            ends.append(end)
            texts += self._as_cells(values, percent=block.in_percent.get(name, False))
        if not texts:
            return raw
        start, end = np.concatenate(starts), np.concatenate(ends)
        order = np.argsort(start)
        # every second piece is a cell that is edited
        cuts = np.concatenate([[0], np.stack([start, end], axis=1)[order].ravel(), [len(raw)]])
        is_edited = np.arange(len(cuts) - 1) % 2 == 1
        new = pa.array([texts[edit] for edit in order.tolist()], pa.large_binary())
        return _content(pc.replace_with_mask(_pieces(raw, cuts), pa.array(is_edited), new))

    def _as_cells(self, values: pl.Series, *, percent: bool) -> list[bytes]:
        """Values as cells; each distinct one is written once, where equal values look alike."""
        if values.dtype.is_float():  # 0.0 and -0.0 are equal
            return [self._written(value, percent=percent) for value in values]
        cells = {value: self._written(value, percent=percent) for value in values.unique()}
        return [cells[value] for value in values.to_list()]

    def _write_kept(self, block: Block, edits: Edits, kept: Sequence[str]) -> None:
        import polars as pl

        columns = [block.rows[name] for name in kept]
        columns += [
            self._spelt(pl.Series(name, values.tolist())) for name, values in edits.added.items()
        ]
        pl.DataFrame(columns).write_csv(
            self._out,
            include_header=False,
            separator=self.dialect.separator,
            line_terminator=self.dialect.newline,
        )

    def _spelt(self, words: pl.Series) -> pl.Series:
        import polars as pl

        if words.dtype == pl.String:
            return words.replace("", None)  # which would be written in quotes
        if not words.dtype.is_float():
            return words
        return words.cast(str).str.replace(".", self.spelling.mark, literal=True)

    def finish(self) -> None:
        """Blank lines come last, as they did; a note names what was taken for missing."""
        if self._kept is None:
            self._out.write(self.blank_end)
        findings = Findings()
        findings.note_tokens(self.tokens)
        findings.use(self.names)

    def _written(self, value: Any, *, percent: bool = False) -> bytes:
        """A value as a cell, in quotes where they are needed."""
        if value is None:
            return b""
        text = str(value).lower() if isinstance(value, bool | np.bool_) else str(value)
        if percent:
            text = _in_percent(float(value))
        if isinstance(value, float | np.floating):
            text = text.replace(".", self.spelling.mark)
        if any(mark in text for mark in (self.dialect.separator, '"', "\n", "\r")):
            text = '"' + text.replace('"', '""') + '"'
        return text.encode()

    def _joined(self, cells: Sequence[bytes]) -> bytes:
        return self.dialect.separator.encode().join(cells)


def _lengthened(content: bytes, texts: Sequence[bytes]) -> bytes:
    """Every record with some text at its end, before its newline."""
    import pyarrow as pa
    import pyarrow.compute as pc

    ends = record_ends(content)
    letters = np.frombuffer(content, np.uint8)
    broken = letters[ends - 1] == _NEWLINE
    returned = broken & (ends > 1) & (letters[np.maximum(ends - 2, 0)] == _RETURN)
    places = ends - broken - returned
    # cut where the texts go, so that a piece begins with the newline before it
    kind, pieces = pa.large_binary(), _pieces(content, np.append(0, places))
    joined = pc.binary_join_element_wise(pieces, pa.array(texts, kind), pa.scalar(b"", kind))
    return _content(joined) + content[places[-1] :]


def _pieces(content: bytes, cuts: NDArray[np.int64]) -> Any:
    """What is between the cuts, as an array of Arrow; nothing is copied."""
    import pyarrow as pa

    buffers = [None, pa.py_buffer(cuts), pa.py_buffer(content)]
    return pa.Array.from_buffers(pa.large_binary(), len(cuts) - 1, buffers)


def _content(pieces: Any) -> bytes:
    """All pieces of a new array, one after the other."""
    return memoryview(pieces.buffers()[2]).tobytes()


def _in_percent(value: float) -> str:
    """A number with a percent sign, which is read as that very number again.

    >>> _in_percent(0.07)
    '7.00%'
    """
    return f"{Decimal(repr(value)) * 100:f}".removesuffix(".0") + "%"


# -------------------------------------------------------------------- Parquet and Arrow


class _TypedStream(TypedRows):
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
        """A column with the codes of earlier batches: an Arrow file has one dictionary a column."""
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


RowStream: TypeAlias = _CsvStream | _TypedStream
"""Begin with ``start``, ``write`` each of the ``blocks`` with its `Edits`, end with ``finish``."""
