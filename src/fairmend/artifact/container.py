"""The outer file: a zip of the one strict kind that we write, and nothing else unzip would forgive.

Members lie one behind the other without a gap, each with a plain name, a fixed date, no extra
fields, no encryption, stored or deflated; the directory follows and ends the file. Nothing is
unpacked beyond the size the directory declares, and nothing may shrink by more than `RATIO`.
"""

from __future__ import annotations

import os
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NoReturn

from fairmend.errors import DAMAGED, ArtifactError, FairmendError, MissingExtra, in_a_line

__all__ = ["MANIFEST", "Container", "opened", "pack"]

MANIFEST = "manifest.json"
RATIO = 100
"""No member is packed by more than this: what would be is stored as it is."""
MOST_BYTES = 1 << 30
"""Of all members together, unpacked."""
MOST_MEMBERS = 10_000
_NAME = re.compile(r"[a-z]+(/[0-9]{4})?\.(json|bin|parquet)", re.ASCII)  # of any format so far
_LOCAL = struct.Struct("<4s5H3L2H")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_END = struct.Struct("<4s4H2LH")
_DATE = (1980, 1, 1, 0, 0, 0)
_DOS_DATE = 33  # the same, as a zip spells it
_VERSION, _UNIX = 20, 3
_FILE = (stat.S_IFREG | 0o644) << 16
_CHUNK = 1 << 16


# -------------------------------------------------------------------- writing


def pack(file: IO[bytes], members: Mapping[str, bytes]) -> None:
    """Write the members in their order: the same members give the same bytes."""
    total = sum(map(len, members.values()))
    if total > MOST_BYTES or len(members) > MOST_MEMBERS:
        raise ArtifactError(
            "the repair",
            f"must fit into {MOST_BYTES >> 20:,} MiB and {MOST_MEMBERS:,} tables",
            f"got {total >> 20:,} MiB and {len(members):,}",
            "Round or bin numbers so that fewer rows are distinct.",
        )
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            info = zipfile.ZipInfo(name, _DATE)
            info.create_system, info.external_attr = _UNIX, _FILE
            small = len(zlib.compress(content, 6, -zlib.MAX_WBITS)) * RATIO < len(content)
            info.compress_type = zipfile.ZIP_STORED if small else zipfile.ZIP_DEFLATED
            archive.writestr(info, content, compresslevel=6)


# -------------------------------------------------------------------- reading


@dataclass(frozen=True)
class _Entry:
    deflated: bool
    crc: int
    packed: int
    size: int
    start: int
    """Where its content begins in the file."""


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[Container]:
    """An artifact whose layout has been checked; contents are checked as they are unpacked."""
    what = f"artifact {os.fspath(path)!r}"
    try:
        if not stat.S_ISREG(Path(path).stat().st_mode):
            raise ArtifactError(what, "must be a file", "it is not one", "Check the name.")
        with Path(path).open("rb") as file:
            yield Container(what, file)
    except OSError as error:
        raise ArtifactError(
            what, "must be readable", f"it is not: {error.strerror or error}", "Check the name."
        ) from None


class Container:
    """The members of an open artifact."""

    def __init__(self, what: str, file: IO[bytes]) -> None:
        self.what = what
        self._file = file
        self._entries = self._directory()

    @property
    def sizes(self) -> dict[str, int]:
        """Every member's name and size, in the order of the file."""
        return {name: entry.size for name, entry in self._entries.items()}

    def refuse(self, must: str, got: str, fix: str = "") -> NoReturn:
        """Say what is wrong with the file."""
        raise ArtifactError(self.what, must, got, fix or DAMAGED)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Whatever is said against damaged values, by our classes or others, is about the file."""
        try:
            yield
        except (ArtifactError, MissingExtra):
            raise
        except FairmendError as error:
            self.refuse("must hold what fairmend writes", f"{error.what} {error.must}")
        except Exception as error:
            self.refuse("must hold what fairmend writes", f"reading it raised {in_a_line(error)}")

    def unpack(self, name: str) -> bytes:
        """A member's content: as long as declared, to the byte, and with the right checksum."""
        entry = self._entries[name]
        self._file.seek(entry.start)
        left, parts, room = entry.packed, [], entry.size
        inflate = zlib.decompressobj(-zlib.MAX_WBITS) if entry.deflated else None
        while left > 0:
            chunk = self._file.read(min(_CHUNK, left))
            if not chunk:
                self.refuse("must be complete", f"member {name!r} is cut short")
            left -= len(chunk)
            if inflate is not None:
                chunk = self._inflated(inflate, chunk, room, name)
            room -= len(chunk)
            parts.append(chunk)
            if room < 0:
                self.refuse(
                    "must unpack to the sizes it declares", f"member {name!r} is larger than that"
                )
        done = inflate is None or (inflate.eof and not inflate.unused_data)
        if room > 0 or not done:
            self.refuse("must unpack to the sizes it declares", f"member {name!r} ends elsewhere")
        content = b"".join(parts)
        if zlib.crc32(content) != entry.crc:
            self.refuse("must have the checksums it declares", f"that of {name!r} differs")
        return content

    def _inflated(self, inflate: zlib._Decompress, chunk: bytes, room: int, name: str) -> bytes:
        try:
            out = inflate.decompress(chunk, room + 1)
        except zlib.error:
            self.refuse("must be readable as deflated data", f"member {name!r} is not")
        if inflate.unconsumed_tail:  # more would come than there is room for
            out += b"\0"
        return out

    # ---------------------------------------------------------------- the directory

    def _directory(self) -> dict[str, _Entry]:
        size = self._file.seek(0, os.SEEK_END)
        if size < _END.size or self._bytes(0, 4) != b"PK\3\4":
            self.refuse(
                "must begin as a zip does", "it begins with something else",
                "Is it an artifact, written by RepairedClassifier.save or fairmend repair?",
            )  # fmt: skip
        sign, disk, first, here, count, length, start, comment = _END.unpack(
            self._bytes(size - _END.size, _END.size)
        )
        plain = sign == b"PK\5\6" and not (disk or first or comment) and here == count
        if not plain or start + length + _END.size != size:
            self.refuse(
                "must end with its directory",
                "there is something behind it, or a part is missing",
            )
        if count > MOST_MEMBERS or length > count * (_CENTRAL.size + 64):
            self.refuse(f"must have at most {MOST_MEMBERS:,} members", f"it declares {count:,}")
        directory, at, end, total = self._bytes(start, length), 0, 0, 0
        entries: dict[str, _Entry] = {}
        for _ in range(count):
            if at + _CENTRAL.size > length:
                self.refuse("must have a complete directory", "it is cut short")
            name, entry, at = self._entry(directory, at, end)
            if name in entries:
                self.refuse("must name every member once", f"{name!r} is there twice")
            entries[name] = entry
            end, total = entry.start + entry.packed, total + entry.size
            if total > MOST_BYTES:
                self.refuse(
                    f"must unpack to at most {MOST_BYTES >> 20:,} MiB", "it declares more",
                    "Load artifacts only from people you know.",
                )  # fmt: skip
        if at != length or end != start:
            self.refuse("must hold its members and nothing else", "there is something between them")
        return entries

    def _entry(self, directory: bytes, at: int, expected: int) -> tuple[str, _Entry, int]:
        (
            sign, made, needed, flags, method, time, date, crc, packed, size,
            letters, extra, comment, disk, inner, outer, start,
        ) = _CENTRAL.unpack_from(directory, at)  # fmt: skip
        at += _CENTRAL.size
        name = directory[at : at + letters].decode("ascii", errors="replace")
        if sign != b"PK\1\2" or len(name) != letters:
            self.refuse("must have a complete directory", "it is broken")
        self._check_name(name)
        if flags & 1:
            self.refuse("must not be encrypted", f"member {name!r} is")
        if stat.S_ISLNK(outer >> 16):
            self.refuse("must hold plain files", f"member {name!r} is a symbolic link")
        if method not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            self.refuse("must be stored or deflated", f"member {name!r} is packed another way")
        rest = (made, needed, flags, time, date, extra, comment, disk, inner, outer)
        if rest != (_UNIX << 8 | _VERSION, _VERSION, 0, 0, _DOS_DATE, 0, 0, 0, 0, _FILE):
            self.refuse("must be a zip as fairmend writes it", f"member {name!r} has other marks")
        if start != expected:
            self.refuse(
                "must hold its members and nothing else",
                f"there is something before {name!r}" if start > expected
                else f"{name!r} overlaps what is before it",
            )  # fmt: skip
        stored = method == zipfile.ZIP_STORED
        if size > RATIO * packed or (stored and size != packed):
            self.refuse(
                f"must not be packed by more than {RATIO} to 1",
                f"member {name!r} declares {size:,} bytes from {packed:,}",
                "Load artifacts only from people you know.",
            )
        head = (
            _LOCAL.pack(b"PK\3\4", _VERSION, 0, method, 0, _DOS_DATE, crc, packed, size, letters, 0)
            + name.encode()
        )
        if self._bytes(start, len(head)) != head:
            self.refuse("must say the same in both its directories", f"they differ about {name!r}")
        return name, _Entry(not stored, crc, packed, size, start + len(head)), at + letters

    def _check_name(self, name: str) -> None:
        if name.startswith(("/", "\\")) or ".." in name or "\\" in name or ":" in name:
            self.refuse("must not lead out of itself", f"a member is named {name!r}")
        if not _NAME.fullmatch(name):
            self.refuse("must hold only what fairmend writes", f"a member is named {name!r}")

    def _bytes(self, start: int, length: int) -> bytes:
        self._file.seek(start)
        content = self._file.read(length)
        if len(content) < length:  # it shrank since its size was read
            self.refuse("must be complete", "it is cut short")
        return content
