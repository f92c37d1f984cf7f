"""Counting Parquet by one small number a row.

Where every column has few values, which the files' own statistics tell for whole numbers and a look
at the column for text, a row is one number,

    key = (...(c_1 s_2 + c_2) s_3 + ...) + c_k,   c_j a column's code, s_j how many codes it has,

and counting is adding one at that place: no hashing, no sorting, and memory that does not grow with
the rows. Codes of up to 256 combinations are put together as bytes first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from fairmend.data.addresses import is_address, is_s3, opened
from fairmend.data.columns import IntArray
from fairmend.engines.cells import PEOPLE
from fairmend.engines.source import Source, damaged
from fairmend.errors import require
from fairmend.progress import progress

MOST_CELLS = 1 << 23
"""Counters are kept for this many combinations at most."""
MOST_TEXTS = 255
_BATCH = 500_000


@dataclass(frozen=True)
class Domain:
    """The values one column can have; the last code is that of missing entries, if any."""

    name: str
    lowest: int
    values: int
    texts: tuple[str, ...] | None
    missing: bool

    @property
    def size(self) -> int:
        return self.values + self.missing

    def code(self) -> Any:
        """The column's codes as a Polars expression of the smallest type."""
        import polars as pl

        narrow = pl.UInt8 if self.size <= 256 else pl.UInt32
        column = pl.col(self.name)
        if self.texts is not None:
            column = column.cast(pl.Enum(self.texts)).to_physical()
        elif self.lowest != 0:
            column = column.cast(pl.Int64) - self.lowest
        column = column.cast(narrow)
        return column.fill_null(pl.lit(self.values, narrow)) if self.missing else column

    def decoded(self, codes: IntArray, dtype: Any) -> Any:
        """The values behind codes, as a Polars series."""
        import polars as pl

        plain = range(self.lowest, self.lowest + self.values) if self.texts is None else self.texts
        values = pl.Series(self.name, [*plain, None], pl.Int64 if self.texts is None else pl.String)
        return values.cast(dtype).gather(codes)


def domains(source: Source, columns: Sequence[str]) -> list[Domain] | None:
    """Each column's domain by the files' statistics; None where one has too many values."""
    files = source.files
    if any(is_address(name) and not is_s3(name) for name in files):
        return None
    schema, metadata = None, list[Any]()
    for name in files:
        file = parquet_file(name)
        if schema is not None and not schema.equals(file.schema_arrow):
            return None
        schema, metadata = file.schema_arrow, [*metadata, file.metadata]
    types = {name: schema.field(name).type for name in columns}  # type: ignore[union-attr]
    if not all(_is_whole(dtype) or _is_text(dtype) for dtype in types.values()):
        return None  # before any column of text is looked at
    all_: list[Domain] = []
    for name, dtype in types.items():
        domain = _domain(name, dtype, metadata, source)
        if domain is None or prod(each.size for each in [*all_, domain]) > MOST_CELLS:
            return None
        all_.append(domain)
    return all_


def parquet_file(name: str) -> Any:
    """A Parquet file that can be read, by PyArrow."""
    parquet = require("pyarrow.parquet", extra="duckdb", why="Parquet files")
    try:
        return parquet.ParquetFile(opened(name) if is_address(name) else name)
    except (OSError, ValueError) as error:
        raise damaged(name, error) from None


def _is_whole(dtype: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(dtype) or pa.types.is_boolean(dtype))


def _is_text(dtype: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(dtype) or pa.types.is_large_string(dtype))


def _domain(name: str, dtype: Any, metadata: list[Any], source: Source) -> Domain | None:
    whole = _is_whole(dtype)
    lowest, highest, missing = [], [], False
    for file in metadata:
        place = file.schema.to_arrow_schema().get_field_index(name)
        for group in range(file.num_row_groups):
            chunk = file.row_group(group).column(place)
            statistics = chunk.statistics
            if statistics is None or not statistics.has_null_count:
                return None
            missing |= statistics.null_count > 0
            if whole and statistics.null_count < chunk.num_values:
                if not statistics.has_min_max:
                    return None
                lowest.append(int(statistics.min))
                highest.append(int(statistics.max))
    if whole:
        low, high = min(lowest, default=0), max(highest, default=0)
        if high - low >= MOST_CELLS or max(abs(low), abs(high)) >> 62:
            return None
        return Domain(name, low, high - low + 1, None, missing)
    from fairmend.engines.duck import quoted, relation

    column = quoted(name)
    texts = relation(source).query(
        "rows", f"SELECT DISTINCT {column} FROM rows WHERE {column} IS NOT NULL "
        f"LIMIT {MOST_TEXTS + 1}"
    ).fetchall()  # fmt: skip
    if len(texts) > MOST_TEXTS:
        return None
    words = tuple(sorted(row[0] for row in texts)) or ("",)  # a column of missing entries alone
    return Domain(name, 0, len(words), words, missing)


def count_packed(files: Sequence[str], domains: Sequence[Domain]) -> Any:
    """The cells of Parquet files as a Polars frame."""
    import polars as pl

    lazy = pl.scan_parquet(list(files), glob=False)
    size = prod(domain.size for domain in domains)
    people = np.zeros(size, np.int64)
    rows = lazy.select(pl.len()).collect(engine="streaming").item()
    batches = lazy.select(_key(domains).alias("key")).collect_batches(
        chunk_size=max(_BATCH, size // 2), maintain_order=False
    )
    with progress("counting rows", rows) as advance:
        for batch in batches:
            people += np.bincount(batch["key"].to_numpy(), minlength=size)
            advance(len(batch))
    cells = np.flatnonzero(people)
    schema = lazy.collect_schema()
    columns, rest = [pl.Series(PEOPLE, people[cells])], cells
    for domain in reversed(domains):
        rest, codes = np.divmod(rest, domain.size)
        columns.insert(0, domain.decoded(codes, schema[domain.name]))
    return pl.DataFrame(columns)


def _key(domains: Sequence[Domain]) -> Any:
    """One number a row: bytes first, then those together."""
    import polars as pl

    words: list[tuple[Any, int]] = []
    for domain in domains:
        if words and domain.size <= 256 and words[-1][1] * domain.size <= 256:
            word, size = words[-1]
            both = word * pl.lit(domain.size, pl.UInt8) + domain.code()
            words[-1] = (both, size * domain.size)
        else:
            words.append((domain.code(), domain.size))
    key = words[0][0].cast(pl.UInt32)
    for word, size in words[1:]:
        key = key * pl.lit(size, pl.UInt32) + word.cast(pl.UInt32)
    return key
