"""Tables as plain buffers: values one behind the other, and nothing that takes a reader.

Columns follow each other in the order that the JSON declares, with its types and number of rows. A
number takes its bytes, little-endian; a truth value is a byte, 0 or 1; a column of text, or of
bytes, is every entry's length (four bytes each) and then all entries. So the length of the whole is
known before anything is made of it, and there is no header that could lie.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np

from fairmend.errors import DAMAGED, ArtifactError, require

_LENGTH = np.dtype("<u4")


def arrow() -> Any:
    """Arrow, or the pip line."""
    return require("pyarrow", extra="artifact", why="an artifact")


def write_table(columns: Mapping[str, Any]) -> bytes:
    """Arrow arrays of one length, none of them with nulls, as bytes."""
    parts: list[bytes] = []
    for array in columns.values():
        if (dtype := _dtype(array.type)) is None:
            entries = [one.encode() if isinstance(one, str) else one for one in array.to_pylist()]
            parts += [np.array([*map(len, entries)], _LENGTH).tobytes(), *entries]
        else:
            parts.append(array.to_numpy(zero_copy_only=False).astype(dtype).tobytes())
    return b"".join(parts)


def read_table(what: str, content: bytes, types: Mapping[str, Any], rows: int) -> dict[str, Any]:
    """Arrow arrays of these types and so many rows, if that is just what the bytes are."""
    pa = arrow()
    at = 0

    def refuse(got: str) -> NoReturn:
        must = f"must hold {rows:,} rows of its {len(types):,} columns"
        raise ArtifactError(what, must, got, DAMAGED)

    def taken(dtype: Any, count: int) -> Any:
        nonlocal at
        start, at = at, at + count * dtype.itemsize
        if at > len(content):
            refuse(f"it ends after {len(content):,} bytes")
        return np.frombuffer(content, dtype, count, start)

    columns = {}
    for name, kind in types.items():
        if (dtype := _dtype(kind)) is None:
            ends = np.cumsum(taken(_LENGTH, rows), dtype=np.int64)
            text = taken(np.dtype("u1"), int(ends[-1]) if rows else 0)
            starts = pa.py_buffer(np.concatenate([[0], ends]).astype(np.int32))
            columns[name] = pa.Array.from_buffers(kind, rows, [None, starts, pa.py_buffer(text)])
            try:
                columns[name].validate(full=True)
            except pa.ArrowInvalid:
                refuse("a text in it is not UTF-8")
        elif pa.types.is_boolean(kind):
            marks = taken(dtype, rows)
            if (marks > 1).any():
                refuse("a truth value in it is neither")
            columns[name] = pa.array(marks.astype(bool))
        else:
            columns[name] = pa.array(taken(dtype, rows), kind, from_pandas=False)
    if at != len(content):
        refuse(f"it goes on for {len(content) - at:,} bytes")
    return columns


def _dtype(kind: Any) -> Any:
    """The type of the values in the file; None where entries have lengths of their own."""
    pa = arrow()
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return None
    if pa.types.is_boolean(kind):
        return np.dtype("u1")
    return np.dtype(kind.to_pandas_dtype()).newbyteorder("<")
