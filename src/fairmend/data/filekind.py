"""Files opened for reading, and what they are: by their first bytes, else by their suffix."""

from __future__ import annotations

import codecs
import gzip
import io
import os
import re
import select
import stat
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, Literal, cast

from fairmend.errors import DataError, check, unreadable

FileKind = Literal["csv", "parquet", "arrow", "arrow stream", "excel"]
HEAD = 4096
"""How many bytes are looked at."""
PATIENCE_S = 0.25
"""Of one wait for standard input."""

SUFFIXES: dict[str, FileKind] = {
    ".csv": "csv", ".tsv": "csv", ".txt": "csv",
    ".parquet": "parquet", ".pq": "parquet",
    ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow", ".arrows": "arrow stream",
}  # fmt: skip
_MAGIC: dict[bytes, FileKind] = {
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


def open_by_kind(
    path: str, stack: ExitStack, *, unpack: bool = False
) -> tuple[IO[bytes], str, FileKind]:
    """A file, what it is called, and what it is."""
    name = "standard input" if path == "-" else path
    file = stack.enter_context(open_file(path))
    if unpack and path.lower().endswith(".gz") and file.peek(2)[:2] == b"\x1f\x8b":  # type: ignore[attr-defined]
        file = cast(IO[bytes], stack.enter_context(gzip.GzipFile(fileobj=file)))
    try:
        head = _peeked(file)
    except (OSError, EOFError) as error:
        raise not_of_its_kind(name, "csv", error) from None
    return file, name, file_kind(head, name)


def _peeked(file: Any) -> bytes:
    """The first bytes; a pipe may give them drop by drop."""
    head = b""
    while len(head) < HEAD:
        more = file.peek(HEAD)
        if len(more) <= len(head) or len(more) >= HEAD:
            return bytes(more[:HEAD])
        head = more
    return head


def open_file(path: str) -> IO[bytes]:
    """A file to read, a pipe, or standard input for ``-``; devices have no end."""
    if path == "-":
        return io.BufferedReader(_StandardInput(sys.stdin.fileno()), 1 << 20)
    try:
        mode = Path(path).stat().st_mode
        is_device = stat.S_ISCHR(mode) or stat.S_ISBLK(mode)
        must, fix = "must be a file or a pipe", "Name the file itself; - reads standard input."
        check(not is_device, f"file {path!r}", must, "it is a device", fix)
        return Path(path).open("rb")
    except OSError as error:
        raise unreadable(f"file {path!r}", error) from None


class _StandardInput(io.RawIOBase):
    """Standard input that can be interrupted while it waits for more.

    Polars has its own handler of Ctrl-C, under which a read is resumed before Python sees the
    signal: so the wait is cut into short ones.
    """

    def __init__(self, number: int) -> None:
        self._number = number

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not select.select([self._number], [], [], PATIENCE_S)[0]:
            pass  # signals are seen to here
        return os.readv(self._number, [buffer])


# -------------------------------------------------------------------- what a file is


def file_kind(head: bytes, name: str) -> FileKind:
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
        read = f"pandas.read_json(FILE{', lines=True' * lines})"
        fix = f"Convert it, e.g. with {read}.to_csv(NEW, index=False)."
        raise _other_kind(name, "JSON, an object a line" if lines else "JSON", fix)
    if body.lstrip()[:5].lower() in (b"<!doc", b"<html", b"<?xml"):
        raise _other_kind(name, "a page in HTML or XML", _EXPORT)
    return SUFFIXES.get(Path(name).suffix.lower(), "csv")


def _refuse_other_text(head: bytes, name: str) -> None:
    """Refuse text in units of two bytes or four, marked as such or not."""
    what = next((name for mark, name in _OTHER_TEXT.items() if head.startswith(mark)), None)
    if what is None:  # of plain letters in UTF-16 every second byte is zero
        halves = [half for half in (head[0::2], head[1::2]) if half]
        if sum(half.count(0) > 0.4 * len(half) for half in halves) != 1:
            return
        what = "UTF-16"
    fix = f"Save it as CSV UTF-8, or iconv -f {what} -t UTF-8 FILE > NEW."
    raise DataError(f"file {name!r}", "must be text in UTF-8", f"got {what}", fix)


def _other_kind(name: str, what: str, fix: str) -> DataError:
    return DataError(f"file {name!r}", "must be CSV, Parquet or Arrow as it is", f"got {what}", fix)


def not_of_its_kind(name: str, kind: FileKind, error: Exception) -> DataError:
    """A file that cannot be read as what it seems to be."""
    got = f"it cannot be read as one: {' '.join(str(error).split())[:200].removesuffix('.')}"
    fix = "Check that it is complete, and that its suffix tells its format."
    return DataError(f"file {name!r}", f"must be a table in {kind.upper()}", got, fix)
