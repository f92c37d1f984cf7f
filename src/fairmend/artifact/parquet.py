"""Tables as Parquet of the plainest kind, so that a reader can check them before it reads.

Every column is required, PLAIN and not compressed (the zip does that), in one row group and without
statistics: the size of a column follows from its type and the number of rows. A header that asks
for more memory than there are bytes cannot then pass.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from typing import Any

from fairmend.errors import DAMAGED, ArtifactError, in_a_line, require

__all__ = ["arrow", "checked_table", "write_table"]

_MOST_COLUMNS = 20_000
_VARINT = rb"([\x80-\xff]{0,4}[\x00-\x7f])"
# A page's header as Thrift's compact protocol spells it: a data page, its size, the same size
# packed, its number of values, PLAIN; perhaps an empty struct of statistics.
_PAGE = re.compile(
    rb"\x15\x00\x15" + _VARINT + rb"\x15" + _VARINT + rb"\x2c\x15" + _VARINT
    + rb"\x15\x00\x15\x06\x15\x06(?:\x1c\x00)?\x00\x00",
    re.DOTALL,
)  # fmt: skip


def arrow() -> Any:
    """Arrow, or the pip line."""
    return require("pyarrow", extra="artifact", why="an artifact")


def write_table(columns: Mapping[str, Any]) -> bytes:
    """Arrow arrays of one length as a Parquet file; the same arrays give the same bytes."""
    import pyarrow.parquet as pq

    pa = arrow()
    fields = [pa.field(name, array.type, nullable=False) for name, array in columns.items()]
    table = pa.Table.from_arrays(list(columns.values()), schema=pa.schema(fields))
    file = io.BytesIO()
    pq.write_table(
        table, file, row_group_size=max(1, len(table)), compression="NONE", use_dictionary=False,
        column_encoding="PLAIN", write_statistics=False, store_schema=False,
        data_page_version="1.0", version="2.6",
    )  # fmt: skip
    return file.getvalue()


def checked_table(what: str, content: bytes, types: Mapping[str, Any], rows: int) -> Any:
    """Read such a file as an Arrow table, once its header says what is expected of it."""
    import pyarrow.parquet as pq

    pa = arrow()

    def refuse(must: str, got: str) -> ArtifactError:
        return ArtifactError(what, must, got, DAMAGED)

    try:
        file = pq.ParquetFile(
            pa.BufferReader(content),
            thrift_string_size_limit=1 << 20,
            thrift_container_size_limit=_MOST_COLUMNS,
        )
        meta = file.metadata
        declared = {field.name: (field.type, field.nullable) for field in file.schema_arrow}
        if declared != {name: (kind, False) for name, kind in types.items()}:
            raise refuse("must have the columns that were announced", "it has others")
        if meta.num_rows != rows or meta.num_row_groups != 1 or meta.row_group(0).num_rows != rows:
            raise refuse(f"must have {rows:,} rows", f"its header says {meta.num_rows:,}")
        for place, kind in enumerate(types.values()):
            _check_chunk(content, meta.row_group(0).column(place), kind, rows, refuse)
        table = file.read(use_threads=False)
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, MemoryError, UnicodeError) as error:
        if isinstance(error, ArtifactError):
            raise
        raise refuse(
            "must be readable as Parquet", f"it is not: {in_a_line(error)[:200]}"
        ) from None
    return table


def _check_chunk(content: bytes, chunk: Any, kind: Any, rows: int, refuse: Any) -> None:
    """Walk a column's pages: plain values, no dictionary, as many bytes as the rows need."""
    if chunk.compression != "UNCOMPRESSED" or not set(chunk.encodings) <= {"PLAIN", "RLE"}:
        raise refuse("must hold plain values", f"column {chunk.path_in_schema!r} does not")
    at, end = chunk.data_page_offset, chunk.data_page_offset + chunk.total_compressed_size
    if chunk.num_values != rows or not 4 <= at <= end <= len(content):
        raise refuse("must hold its columns", f"{chunk.path_in_schema!r} lies outside")
    values = size = 0
    while at < end:
        head = _PAGE.match(content, at, end)
        if head is None:
            raise refuse("must hold plain pages", f"column {chunk.path_in_schema!r} does not")
        unpacked, packed, count = map(_number, head.groups())
        values, size, at = values + count, size + packed, head.end() + packed
        if unpacked != packed or not _fits(kind, count, packed):
            raise refuse("must hold as much as it declares", f"{chunk.path_in_schema!r} does not")
    if values != rows or at != end:
        raise refuse("must hold as much as it declares", f"{chunk.path_in_schema!r} does not")


def _number(varint: bytes) -> int:
    """A zigzag number of Thrift's."""
    raw = sum((byte & 0x7F) << 7 * place for place, byte in enumerate(varint))
    return (raw >> 1) ^ -(raw & 1)


def _fits(kind: Any, count: int, size: int) -> bool:
    """Whether so many plain values can take so many bytes."""
    types = arrow().types
    if count < 0 or size < 0:
        return False
    if types.is_string(kind) or types.is_binary(kind):
        return size >= 4 * count  # each has its length before it
    if types.is_boolean(kind):
        return bool(size == -(-count // 8))
    # Parquet knows no integers of fewer than 32 bits
    return bool(size == count * max(4, kind.bit_width // 8))
