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
from pathlib import Path
from typing import IO, NoReturn

from fairmend.errors import DAMAGED, ArtifactError, FairmendError, MissingExtra, in_a_line

MANIFEST = "manifest.json"
RATIO = 100
"""No member is packed by more than this: what would be is stored as it is."""
MOST_BYTES = 1 << 30
"""Of all members together, unpacked."""
MOST_MEMBERS = 10_000
_NAME = re.compile(r"[a-z]+(/[0-9]{4})?\.(json|bin|parquet)", re.ASCII)  # of any format so far
_END = struct.Struct("<4s4H2LH")
_IN_DIRECTORY = struct.Struct("<4s2B26s3H2L")
"""An entry beside its name; most of it is as in the member's own header."""
_VERSION, _UNIX = 20, 3
_FILE = (stat.S_IFREG | 0o644) << 16


def _entry(name: str) -> zipfile.ZipInfo:
    """The marks that every member has."""
    info = zipfile.ZipInfo(name)  # of 1980, as no other date is given
    info.create_system, info.external_attr = _UNIX, _FILE
    return info


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
            info = _entry(name)
            small = len(zlib.compress(content, 6, -zlib.MAX_WBITS)) * RATIO < len(content)
            info.compress_type = zipfile.ZIP_STORED if small else zipfile.ZIP_DEFLATED
            archive.writestr(info, content, compresslevel=6)


# -------------------------------------------------------------------- reading


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[Container]:
    """An artifact whose layout has been checked; contents are checked as they are unpacked."""
    if not isinstance(path, str | os.PathLike):
        got = f"got {type(path).__name__}"
        raise ArtifactError("artifact", "must be the path of a file", got, "Pass its name.")
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
        self._entries = {info.filename: info for info in self._directory()}

    @property
    def sizes(self) -> dict[str, int]:
        """Every member's name and size, in the order of the file."""
        return {name: info.file_size for name, info in self._entries.items()}

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
        info = self._entries[name]
        content = packed = self._bytes(
            info.header_offset + len(info.FileHeader()), info.compress_size
        )
        if info.compress_type == zipfile.ZIP_DEFLATED:
            inflate = zlib.decompressobj(-zlib.MAX_WBITS)
            try:
                content = inflate.decompress(packed, info.file_size + 1)
            except zlib.error:
                self.refuse("must be readable as deflated data", f"member {name!r} is not")
            if len(content) > info.file_size:
                self.refuse("must unpack to the sizes it declares", f"member {name!r} is larger")
            if not inflate.eof or inflate.unused_data or len(content) < info.file_size:
                self.refuse("must unpack to the sizes it declares", f"{name!r} ends elsewhere")
        if zlib.crc32(content) != info.CRC:
            self.refuse("must have the checksums it declares", f"that of {name!r} differs")
        return content

    # ---------------------------------------------------------------- the directory

    def _directory(self) -> list[zipfile.ZipInfo]:
        """The entries, if all that is around the members is what `pack` writes, byte for byte."""
        start, length, count = self._end()
        try:
            with zipfile.ZipFile(self._file) as archive:
                infos = archive.infolist()
        except (zipfile.BadZipFile, NotImplementedError, ValueError, struct.error) as error:
            self.refuse("must have a complete directory", f"it is broken: {in_a_line(error)}")
        if len({info.filename for info in infos}) < len(infos):
            self.refuse("must name every member once", "one is there twice")
        at, directory = 0, b""
        for info in infos:
            self._check(info)
            plain = _entry(info.filename)
            plain.compress_type, plain.CRC = info.compress_type, info.CRC
            plain.compress_size, plain.file_size = info.compress_size, info.file_size
            head = plain.FileHeader()
            if self._bytes(at, len(head)) != head:
                got = f"what stands before {info.filename!r} is something else"
                self.refuse("must hold its members, one behind the other, and nothing else", got)
            directory += _IN_DIRECTORY.pack(
                b"PK\1\2", _VERSION, _UNIX, head[4:30], 0, 0, 0, _FILE, at
            ) + head[30:]  # fmt: skip
            at += len(head) + info.compress_size
        if at != start or len(infos) != count or self._bytes(start, length) != directory:
            got = "its directory has other marks, more or less in it"
            self.refuse("must be a zip as fairmend writes it", got)
        if sum(info.file_size for info in infos) > MOST_BYTES:
            must = f"must unpack to at most {MOST_BYTES >> 20:,} MiB"
            self.refuse(must, "it declares more")
        return infos

    def _end(self) -> tuple[int, int, int]:
        """Where the directory begins, its length, and how many entries it declares."""
        size = self._file.seek(0, os.SEEK_END)
        if size < _END.size or self._bytes(0, 4) != b"PK\3\4":
            self.refuse(
                "must begin as a zip does",
                "it begins with something else" if size else "it is empty",
                "Is it an artifact, written by RepairedClassifier.save or fairmend repair? On the "
                "command line the artifact comes first, then the file.",
            )
        end = self._bytes(size - _END.size, _END.size)
        _, _, _, _, count, length, start, _ = _END.unpack(end)
        plain = end == _END.pack(b"PK\5\6", 0, 0, count, count, length, start, 0)
        if not plain or start + length + _END.size != size:
            got = "there is something behind it, or a part is missing"
            self.refuse("must end with its directory", got)
        if count > MOST_MEMBERS or length > count * (_IN_DIRECTORY.size + 64):
            self.refuse(f"must have at most {MOST_MEMBERS:,} members", f"it declares {count:,}")
        return start, length, count

    def _check(self, info: zipfile.ZipInfo) -> None:
        """Refuse a member with a name that is none of ours, or that is packed in another way."""
        name, size, packed = info.filename, info.file_size, info.compress_size
        if info.orig_filename != name or not _NAME.fullmatch(name):
            self.refuse("must hold only what fairmend writes", f"a member {name!r}")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            self.refuse("must be stored or deflated", f"member {name!r} is packed another way")
        stored = info.compress_type == zipfile.ZIP_STORED
        if size > RATIO * packed or packed > (size if stored else size + size // RATIO + 64):
            got = f"member {name!r} declares {size:,} bytes from {packed:,}"
            self.refuse(f"must not be packed by more than {RATIO} to 1", got)

    def _bytes(self, start: int, length: int) -> bytes:
        self._file.seek(start)
        content = self._file.read(length)
        if len(content) < length:
            self.refuse("must be complete", "it is cut short")
        return content
