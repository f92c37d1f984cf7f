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
_ENTRY = 46  # bytes of an entry of the directory beside its name
_DATE = (1980, 1, 1, 0, 0, 0)
_VERSION, _UNIX = 20, 3
_FILE = (stat.S_IFREG | 0o644) << 16


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
        """The entries, if the file is what `pack` writes and nothing else."""
        start, length, count = self._end()
        try:
            with zipfile.ZipFile(self._file) as archive:
                infos = archive.infolist()
        except (
            zipfile.BadZipFile,
            NotImplementedError,
            ValueError,
            struct.error,
            OSError,
        ) as error:
            self.refuse("must have a complete directory", f"it is broken: {in_a_line(error)}")
        if len(infos) != count or length != sum(_ENTRY + len(info.filename) for info in infos):
            self.refuse("must have a complete directory", "it is cut short, or has more")
        at, seen = 0, set[str]()
        for info in infos:
            if info.filename in seen:
                self.refuse("must name every member once", f"{info.filename!r} is there twice")
            seen.add(info.filename)
            self._check(info, at)
            at += len(info.FileHeader()) + info.compress_size
        if at != start:
            self.refuse("must hold its members and nothing else", "there is something between them")
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
                "it begins with something else",
                "Is it an artifact, written by RepairedClassifier.save or fairmend repair? On the "
                "command line the artifact comes first, then the file.",
            )
        sign, disk, first, here, count, length, start, comment = _END.unpack(
            self._bytes(size - _END.size, _END.size)
        )
        plain = sign == b"PK\5\6" and not (disk or first or comment) and here == count
        if not plain or start + length + _END.size != size:
            got = "there is something behind it, or a part is missing"
            self.refuse("must end with its directory", got)
        if count > MOST_MEMBERS or length > count * (_ENTRY + 64):
            self.refuse(f"must have at most {MOST_MEMBERS:,} members", f"it declares {count:,}")
        return start, length, count

    def _check(self, info: zipfile.ZipInfo, expected: int) -> None:
        """Refuse an entry that `pack` would not have written, or not at this place."""
        name, size, packed = info.filename, info.file_size, info.compress_size
        marks = (
            info.create_system, info.create_version, info.extract_version, info.flag_bits,
            info.date_time, info.extra, info.comment, info.volume, info.internal_attr,
            info.external_attr,
        )  # fmt: skip
        ours = (_UNIX, _VERSION, _VERSION, 0, _DATE, b"", b"", 0, 0, _FILE)
        stored = info.compress_type == zipfile.ZIP_STORED
        most = size if stored else size + size // RATIO + 64
        outside = info.orig_filename != name or re.search(r"^[/\\]|\.\.|[\\:]", name)
        head = info.FileHeader()
        alone, member = "must hold its members and nothing else", f"member {name!r}"
        for wrong, must, got in (
            (outside, "must not lead out of itself", f"a {member}"),
            (not _NAME.fullmatch(name), "must hold only what fairmend writes", f"a {member}"),
            (info.flag_bits & 1, "must not be encrypted", f"{member} is"),
            (stat.S_ISLNK(info.external_attr >> 16), "must hold plain files",
             f"{member} is a symbolic link"),
            (info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED),
             "must be stored or deflated", f"{member} is packed another way"),
            (marks != ours, "must be a zip as fairmend writes it", f"{member} has other marks"),
            (info.header_offset > expected, alone, f"there is something before {name!r}"),
            (info.header_offset < expected, alone, f"{name!r} overlaps what is before it"),
            (size > RATIO * packed or packed > most,
             f"must not be packed by more than {RATIO} to 1",
             f"{member} declares {size:,} bytes from {packed:,}"),
            (self._bytes(expected, len(head)) != head,
             "must say the same in both its directories", f"they differ about {name!r}"),
        ):  # fmt: skip
            if wrong:
                self.refuse(must, got)

    def _bytes(self, start: int, length: int) -> bytes:
        self._file.seek(start)
        content = self._file.read(length)
        if len(content) < length:
            self.refuse("must be complete", "it is cut short")
        return content
