"""The records of a CSV as the bytes they are: where they end, and what is wrong with them.

Everything that reads a CSV goes through `refuse_odd_records` first, whole files and blocks of them
alike: what one command refuses, all refuse, with the line as an editor counts it.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fairmend.errors import DataError

__all__ = [
    "Dialect",
    "count_records",
    "cut",
    "header",
    "header_end",
    "lengths",
    "line_end",
    "line_of",
    "record_ends",
    "refuse_odd_records",
    "separators",
]

LONGEST_NAME = 100_000
"""Characters of a column's name; a file with a longer one is no table."""
_NEWLINE, _RETURN, _QUOTE = 10, 13, 34
_OLD_MAC = "Write it with the line ends of today: tr '\\r' '\\n' < FILE > NEW."


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
        body = head.removeprefix(codecs.BOM_UTF8)
        first = body[: header_end(body)]
        counts = {mark: len(separators(first, mark)) for mark in ",;\t|"}
        separator = max(counts, key=lambda mark: counts[mark])
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


def header(content: bytes, name: str, dialect: Dialect) -> tuple[str, ...]:
    r"""The cells of a CSV's first record.

    >>> header(b'a,"b, or\nso"\n1,2\n', "people.csv", Dialect.of(b"a,b"))
    ('a', 'b, or\nso')
    """
    record = content[: header_end(content)]
    what = f"file {name!r}, line 1"
    if not record.strip():
        raise DataError(
            what, "must hold the names of the columns", "the line is blank", "Delete it."
        )
    if b"\0" in record:
        raise _binary(what)
    if b"\r" in record.removesuffix(b"\r\n").replace(b"\r\n", b""):
        raise DataError(what, "must end with a line feed", "got a carriage return alone", _OLD_MAC)
    if record.count(b'"') % 2:
        raise _never_closed(what)
    if any(len(cell) > LONGEST_NAME for cell in cut(record, dialect.separator)):
        raise DataError(
            what,
            f"must hold names of columns, of at most {LONGEST_NAME:,} characters",
            "got a longer one",
            "Is the file no table?",
        )
    try:
        text = record.decode()
    except UnicodeDecodeError:
        raise _other_text(what) from None
    return tuple(next(csv.reader(io.StringIO(text, newline=""), delimiter=dialect.separator), ()))


# -------------------------------------------------------------------- where records end


def _outside(piece: bytes, *marks: int) -> NDArray[np.bool_]:
    """Where one of some bytes is, outside quotes."""
    letters = np.frombuffer(piece, np.uint8)
    found: NDArray[np.bool_] = letters == marks[0]
    for mark in marks[1:]:
        found |= letters == mark
    if b'"' in piece:
        found &= (np.cumsum(letters == _QUOTE, dtype=np.uint8) & 1) == 0
    return found


def record_ends(piece: bytes) -> NDArray[np.int64]:
    """The place after each record: after newlines outside quotes, and at the very end."""
    ends = np.flatnonzero(_outside(piece, _NEWLINE)) + 1
    if len(ends) == 0 or ends[-1] < len(piece):
        ends = np.append(ends, len(piece))
    return ends


def count_records(piece: bytes) -> int:
    """How many records there are."""
    if not piece:
        return 0
    if b'"' in piece:
        return len(record_ends(piece))
    return piece.count(b"\n") + (not piece.endswith(b"\n"))


def line_of(piece: bytes, record: int) -> int:
    """How many lines of the piece come before a record, as an editor counts them."""
    if b'"' not in piece:
        return record
    start = int(record_ends(piece)[record - 1]) if record else 0
    return piece.count(b"\n", 0, start)


def separators(content: bytes, mark: str) -> NDArray[np.int64]:
    """Where separators are, but for those in quotes."""
    return np.flatnonzero(_outside(content, ord(mark)))


def lengths(piece: bytes, mark: str) -> NDArray[np.int64]:
    """How many cells each record has."""
    there = np.searchsorted(separators(piece, mark), record_ends(piece))
    return np.diff(there, prepend=0) + 1


def cut(line: bytes, mark: str) -> list[bytes]:
    """The cells of a record as they are written: split at separators outside quotes."""
    if b'"' not in line:
        return line.split(mark.encode())
    places = separators(line, mark).tolist()
    return [line[a + 1 : b] for a, b in pairwise([-1, *places, len(line)])]


def line_end(record: bytes) -> bytes:
    """The newline a record ends with."""
    for end in (b"\r\n", b"\n"):
        if record.endswith(end):
            return end
    return b""


# -------------------------------------------------------------------- what is wrong with them


def refuse_odd_records(piece: bytes, name: str, dialect: Dialect, width: int, line: int) -> None:
    """Complain about records that are not part of a table of that many columns.

    ``line`` is where the piece begins. A record may leave out its last cells, never add any.
    """
    if not piece:
        return
    where = _Where(piece, name, line)
    if b"\0" in piece:
        raise _binary(where.at(piece.index(b"\0")))
    if not piece.isascii():
        try:
            piece.decode()
        except UnicodeDecodeError as error:
            raise _other_text(where.at(error.start)) from None
    if piece.count(b'"') % 2:
        raise _never_closed(where.at(next(_odd_quotes(piece), piece.rfind(b'"'))))
    _refuse_lone_returns(piece, where)
    _refuse_odd_quotes(piece, dialect, where)
    if _is_regular(piece, dialect.separator, width):
        return
    cells = lengths(piece, dialect.separator)
    long = np.flatnonzero(cells > width)
    if len(long):
        raise DataError(
            where.record(int(long[0])),
            f"must have no more cells than the first line, {width}",
            f"got {int(cells[long[0]])}",
            f"Put cells that hold {dialect.separator!r} in quotes. Or is the file no table?",
        )
    if width > 1 and (b"\n\n" in piece or b"\n\r\n" in piece or piece[:1] in b"\r\n"):
        _refuse_blank_records(piece, where)


def _is_regular(piece: bytes, mark: str, width: int) -> bool:
    """Whether every record has all its cells, which is quickly told."""
    cuts = np.flatnonzero(_outside(piece, ord(mark), _NEWLINE))
    ends = np.frombuffer(piece, np.uint8)[cuts] == _NEWLINE
    regular = len(cuts) > 0 and len(cuts) % width == 0 and piece.endswith(b"\n")
    return bool(regular and ends[width - 1 :: width].all() and ends.sum() * width == len(cuts))


@dataclass(frozen=True)
class _Where:
    piece: bytes
    name: str
    line: int

    def at(self, place: int) -> str:
        line = self.line + self.piece.count(b"\n", 0, place)
        return f"file {self.name!r}, line {line:,}"

    def record(self, number: int) -> str:
        return self.at(int(record_ends(self.piece)[number - 1]) if number else 0)


def _odd_quotes(piece: bytes, mark: str | None = None) -> Iterator[int]:
    """Quotes that neither begin a cell, nor end one, nor are doubled."""
    letters = np.frombuffer(piece, np.uint8)
    quotes = np.flatnonzero(letters == _QUOTE)
    bounds = [ord(each) for each in (mark or ",;\t|")] + [_NEWLINE, _RETURN, _QUOTE]
    before = np.where(quotes > 0, letters[np.maximum(quotes - 1, 0)], _NEWLINE)
    after = np.where(quotes < len(piece) - 1, letters[np.minimum(quotes + 1, len(piece) - 1)], 10)
    opens = np.arange(len(quotes)) % 2 == 0
    fine = np.where(opens, np.isin(before, bounds), np.isin(after, bounds))
    yield from quotes[~fine].tolist()


def _refuse_odd_quotes(piece: bytes, dialect: Dialect, where: _Where) -> None:
    """Complain about quotes inside cells, where they hide separators from some readers."""
    if b'"' not in piece:
        return
    ends = None
    for place in _odd_quotes(piece, dialect.separator):
        ends = record_ends(piece) if ends is None else ends
        number = int(np.searchsorted(ends, place, side="right"))
        record = piece[int(ends[number - 1]) if number else 0 : int(ends[number])]
        text = io.StringIO(record.decode(), newline="")
        others = list(csv.reader(text, delimiter=dialect.separator))
        plain = record.count(b"\n", 0, len(record) - 1) == 0
        alike = len(others) == 1 and len(others[0]) == len(cut(record, dialect.separator))
        # a cell that begins with a quote ends with one
        begun = any(cell[:1] == b'"' for cell in cut(record, dialect.separator))
        if begun or not (plain and alike):
            raise DataError(
                where.at(place),
                "must have quotes around whole cells, and double those inside",
                "got a quote inside a cell",
                'Write a cell such as 5" pipe as "5"" pipe".',
            )


def _refuse_lone_returns(piece: bytes, where: _Where) -> None:
    """Complain about carriage returns outside quotes: they end a line for some readers alone."""
    if piece.count(b"\r") == piece.count(b"\r\n"):
        return
    letters = np.frombuffer(piece, np.uint8)
    returns = np.flatnonzero(letters == _RETURN)
    followed = letters[np.minimum(returns + 1, len(piece) - 1)] == _NEWLINE
    quotes = np.flatnonzero(letters == _QUOTE)
    alone = returns[~followed & (np.searchsorted(quotes, returns) % 2 == 0)]
    if len(alone):
        raise DataError(
            where.at(int(alone[0])),
            "must end with a line feed",
            "got a carriage return alone",
            _OLD_MAC,
        )


def _refuse_blank_records(piece: bytes, where: _Where) -> None:
    """Complain about blank lines: they are nobody."""
    ends = record_ends(piece)
    sizes = np.diff(ends, prepend=0)
    for number in np.flatnonzero(sizes <= 2).tolist():
        record = piece[int(ends[number]) - int(sizes[number]) : int(ends[number])]
        if not record.strip(b"\r\n"):
            raise DataError(
                where.record(number),
                "must hold a person",
                "the line is blank",
                "Delete it; blank lines may be at the end of the file alone.",
            )


def _binary(what: str) -> DataError:
    return DataError(
        what, "must be text", "got a NUL byte", "Save it as CSV UTF-8. Or is the file no table?"
    )


def _never_closed(what: str) -> DataError:
    return DataError(
        what,
        "must be part of a table in CSV",
        "a quote is never closed",
        "Look for a stray quote in or before that line. Or is the file no table?",
    )


def _other_text(what: str) -> DataError:
    return DataError(
        what,
        "must be text in UTF-8",
        "got bytes of another encoding",
        "Save it as CSV UTF-8; if it comes from Windows, iconv -f WINDOWS-1252 -t UTF-8 makes it "
        "so.",
    )
