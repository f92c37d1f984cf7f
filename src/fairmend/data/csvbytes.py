"""A CSV as the bytes it is: where its records end, and what is wrong with them.

Polars reads the cells. It reports neither the line of an odd record, nor where a record begins,
which is needed to write it again byte for byte; that is done here. Regular records are recognised
by counting bytes; Python's csv module looks at the others one by one.
"""

from __future__ import annotations

import codecs
import csv
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fairmend.data.columns import BoolArray
from fairmend.errors import DataError, check

LONGEST_NAME = 100_000
"""Characters of a column's name; a file with a longer one is no table."""
_NEWLINE, _RETURN, _QUOTE = 10, 13, 34
_SEPARATORS = ",;\t|"

Problem = tuple[str, str, str]
"""What a record must be, what it is, and what to do about it."""
_BINARY: Problem = (
    "must be text", "got a NUL byte", "Save it as CSV UTF-8. Or is the file no table?",
)  # fmt: skip
_OTHER_ENCODING: Problem = (
    "must be text in UTF-8", "got bytes of another encoding",
    "Save it as CSV UTF-8; if it comes from Windows, iconv -f WINDOWS-1252 -t UTF-8 makes it so.",
)  # fmt: skip
_LONE_RETURN: Problem = (
    "must end with a line feed", "got a carriage return alone",
    "Write it with the line ends of today: tr '\\r' '\\n' < FILE > NEW.",
)  # fmt: skip
_NEVER_CLOSED: Problem = (
    "must be part of a table in CSV", "a quote is never closed",
    "Look for a stray quote in or before that line. Or is the file no table?",
)  # fmt: skip
_QUOTE_INSIDE: Problem = (
    "must have quotes around whole cells, and double those inside", "got a quote inside a cell",
    'Write a cell such as 5" pipe as "5"" pipe".',
)  # fmt: skip
_BLANK: Problem = (
    "must hold a person", "the line is blank",
    "Delete it; blank lines may be at the end of the file alone.",
)  # fmt: skip


@dataclass(frozen=True)
class Dialect:
    r"""How a CSV is written, by its first record.

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
        body = head.removeprefix(codecs.BOM_UTF8)
        first = body[: header_end(body)]
        separator = max(_SEPARATORS, key=lambda mark: len(_separators(first, mark)))
        return cls(separator, "\r\n" if first.endswith(b"\r\n") else "\n", marked)


def header_end(body: bytes) -> int:
    """The place after the first record; that after the first line where a quote is not closed."""
    end = body.find(b"\n") + 1 or len(body)
    first = end
    while body.count(b'"', 0, end) % 2:
        if end == len(body):
            return first
        end = body.find(b"\n", end) + 1 or len(body)
    return end


def header(record: bytes, name: str, dialect: Dialect) -> tuple[str, ...]:
    r"""The names of the columns, from a CSV's first record.

    >>> header(b'a,"b, or\nso"\n', "people.csv", Dialect.of(b"a,b"))
    ('a', 'b, or\nso')
    """
    what, must = f"file {name!r}, line 1", "must hold the names of the columns"
    check(record.strip(), what, must, "the line is blank", "Delete it.")
    cells = cut(record, dialect.separator)
    must = f"must hold names of columns, of at most {LONGEST_NAME:,} characters"
    short = all(len(cell) <= LONGEST_NAME for cell in cells)
    check(short, what, must, "got a longer one", "Is the file no table?")
    check_records(record, name, dialect, len(cells), 1)
    return tuple(_parsed(record, dialect)[0])


# -------------------------------------------------------------------- where records end


def _outside(piece: bytes, *marks: int) -> BoolArray:
    """Where one of some bytes is, outside quotes."""
    letters = np.frombuffer(piece, np.uint8)
    there: BoolArray = letters == marks[0]
    for mark in marks[1:]:
        there |= letters == mark
    if b'"' in piece:
        there &= (np.cumsum(letters == _QUOTE, dtype=np.uint8) & 1) == 0
    return there


def record_ends(piece: bytes) -> NDArray[np.int64]:
    """The place after each record: after newlines outside quotes, and at the very end."""
    ends = np.flatnonzero(_outside(piece, _NEWLINE)) + 1
    if len(ends) == 0 or ends[-1] < len(piece):
        ends = np.append(ends, len(piece))
    return ends


def line_of(piece: bytes, record: int) -> int:
    """How many lines of the piece come before a record, as an editor counts them."""
    if b'"' not in piece:
        return record
    start = int(record_ends(piece)[record - 1]) if record else 0
    return piece.count(b"\n", 0, start)


def _separators(piece: bytes, mark: str) -> NDArray[np.int64]:
    return np.flatnonzero(_outside(piece, ord(mark)))


def cut(record: bytes, mark: str) -> list[bytes]:
    """The cells of a record as they are written: split at separators outside quotes."""
    if b'"' not in record:
        return record.split(mark.encode())
    places = _separators(record, mark).tolist()
    return [record[a + 1 : b] for a, b in pairwise([-1, *places, len(record)])]


# -------------------------------------------------------------------- what is wrong with them


def check_records(
    piece: bytes, name: str, dialect: Dialect, width: int, line: int
) -> NDArray[np.int64]:
    r"""Where each cell ends, a row a record; refuses what is no table of that many columns.

    ``line`` is where the piece begins. A record must have a cell for every column: one that lacks
    its last cells may have been cut off anywhere. A cell ends at its separator or newline; a
    carriage return before that newline is no part of it.

    >>> check_records(b"1,2\n3,\n", "people.csv", Dialect.of(b"a,b\n"), 2, 1).tolist()
    [[1, 3], [5, 6]]
    """

    def refuse(place: int, problem: Problem) -> None:
        at = line + piece.count(b"\n", 0, place)
        raise DataError(f"file {name!r}, line {at:,}", *problem)

    if b"\0" in piece:
        refuse(piece.index(b"\0"), _BINARY)
    try:
        piece.isascii() or piece.decode()
    except UnicodeDecodeError as error:
        refuse(error.start, _OTHER_ENCODING)
    if not piece:
        return np.empty((0, width), np.int64)
    mark = dialect.separator
    ends = np.flatnonzero(_outside(piece, ord(mark), _NEWLINE))
    if not piece.endswith(b"\n") or len(piece) - 1 not in ends[-1:]:
        ends = np.append(ends, len(piece))
    if not _is_regular(piece, mark, width, ends):
        start = 0
        for end in record_ends(piece).tolist():
            problem = _problem(piece[start:end], dialect, width)
            if problem is not None:
                refuse(start, problem)
            start = end
    return ends.reshape(-1, width)


def _is_regular(piece: bytes, mark: str, width: int, ends: NDArray[np.int64]) -> bool:
    """Whether every record has cells for its columns, and plain quotes; quick to check."""
    letters = np.frombuffer(piece, np.uint8)
    if b"\r" in piece:
        returns = np.flatnonzero(letters == _RETURN)
        if returns[-1] == len(piece) - 1 or (letters[returns + 1] != _NEWLINE).any():
            return False
    if b'"' in piece and not _quotes_are_plain(piece, mark):
        return False
    last = ends[width - 1 :: width]
    last = last[last < len(piece)]  # the last record may have no newline
    whole = len(ends) % width == 0 and bool((letters[last] == _NEWLINE).all())
    return whole and np.count_nonzero(_outside(piece, _NEWLINE)) == len(last)


def _quotes_are_plain(piece: bytes, mark: str) -> bool:
    """Whether every quote begins a cell, ends one, or is doubled."""
    letters = np.frombuffer(b"\n" + piece + b"\n", np.uint8)
    quotes = np.flatnonzero(letters == _QUOTE)
    bounds = [ord(mark), _NEWLINE, _RETURN, _QUOTE]
    opening, closing = quotes[0::2], quotes[1::2]
    return len(opening) == len(closing) and bool(
        np.isin(letters[opening - 1], bounds).all() and np.isin(letters[closing + 1], bounds).all()
    )


def _parsed(record: bytes, dialect: Dialect) -> list[list[str]]:
    return list(csv.reader([record.decode()], delimiter=dialect.separator, strict=True))


def _problem(record: bytes, dialect: Dialect, width: int) -> Problem | None:
    if not record.strip(b"\r\n"):
        return _BLANK if width > 1 else None  # of one column, it is a missing value
    if record.count(b'"') % 2:
        return _NEVER_CLOSED
    try:
        [cells] = _parsed(record, dialect)
    except csv.Error:
        return _QUOTE_INSIDE if b'"' in record else _LONE_RETURN
    if len(cells) != len(cut(record, dialect.separator)):
        return _QUOTE_INSIDE
    if len(cells) != width:
        mark = repr(dialect.separator)
        return (
            f"must have as many cells as the first line, {width}",
            f"got {len(cells)}",
            f"Put cells that hold {mark} in quotes. Or is the file no table?"
            if len(cells) > width
            else f"Is the file cut off? Missing cells at the end need their {mark} too.",
        )
    return None
