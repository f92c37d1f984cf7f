"""Files that are whole or not there: written beside their place, synced, then renamed into it."""

from __future__ import annotations

import errno
import os
import re
import secrets
import select
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from fairmend.data.addresses import exists, is_address, uploading
from fairmend.errors import DataError, check

PATIENCE = 20.0
"""Seconds that a pipe of settings may take to begin."""
_OF_THE_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)


@contextmanager
def writing(path: str | os.PathLike[str], *, overwrite: bool = False) -> Iterator[IO[bytes]]:
    """A binary file that appears at ``path`` once it is complete; after an error nothing is there.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> with writing(folder / "one") as file:
    ...     _ = file.write(b"whole")
    >>> (folder / "one").read_bytes()
    b'whole'

    A link is followed. A device or a pipe is written through: nothing can take its place. What
    is written to an address (``s3://...``) appears there at once and whole as well.
    """
    if isinstance(path, str) and is_address(path):
        refuse_existing(path, overwrite=overwrite)
        with uploading(path) as file:
            yield file
        return
    refuse_existing(Path(path), overwrite=overwrite)
    place = Path(os.path.realpath(path))
    if is_special(place):
        with _through(place) as file:
            yield file
        return
    try:
        handle, part = _begin(place)
    except OSError as error:
        raise unwritable(place, error) from None
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(handle)
            if part is None:  # it gets a name now, or goes with the process
                whole = f"/proc/self/fd/{handle}"
                part = _beside(place) if overwrite else None
                os.link(whole, part or place, src_dir_fd=handle)  # so that the link is followed
        if part is not None:
            _rename(part, place, overwrite=overwrite)
    except OSError as error:
        if isinstance(error, FileExistsError):
            refuse_existing(place, overwrite=False)
        if system_number(error) not in _OF_THE_DISK:  # what the caller does is its own affair
            raise
        raise unwritable(place, error) from None
    finally:
        if part is not None:
            part.unlink(missing_ok=True)
    _sync_folder(place.parent)


def is_there(path: Path | str) -> bool:
    """Whether there is something at a path, or at an address."""
    return path.exists() if isinstance(path, Path) else exists(path)


def is_special(place: Path) -> bool:
    """Whether there is something that is no file: a device, a pipe, a socket.

    >>> is_special(Path(os.devnull))
    True
    """
    try:
        mode = place.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


@contextmanager
def _through(place: Path) -> Iterator[IO[bytes]]:
    """A device or a pipe; what was written before an error cannot be taken back."""
    mode = place.stat().st_mode
    must = "must be a file, a pipe or a device of characters"
    got = "it is a socket" if stat.S_ISSOCK(mode) else "it is a disk"
    plain = stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)
    check(plain, f"output {str(place)!r}", must, got, "Choose another place.")
    try:
        file = place.open("wb")
    except OSError as error:
        raise unwritable(place, error) from None
    with file:
        yield file


def read_small(path: str | os.PathLike[str], most: int, what: str) -> bytes:
    """A file of settings or a key, from a pipe as well; a longer one is the wrong file."""
    if Path(path).is_fifo():
        content = _read_pipe(Path(path), most + 1, what)
    else:
        with Path(path).open("rb") as file:
            content = file.read(most + 1)
    must, fix = f"must be at most {most:,} bytes", "Is it the right file?"
    check(len(content) <= most, what, must, "it is longer", fix)
    return content


def _read_pipe(path: Path, most: int, what: str) -> bytes:
    """What comes through a pipe; to open it in the usual way would wait for a writer for ever."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(handle, "rb") as file:
        begun = select.select([handle], [], [], PATIENCE)[0]
        got = f"got nothing in {PATIENCE:g} seconds"
        fix = "It is a pipe: start the program that writes to it, or name a file."
        check(begun, what, "must be written by somebody", got, fix)
        os.set_blocking(handle, True)
        return file.read(most)


def _begin(place: Path) -> tuple[int, Path | None]:
    """A file without a name, where the system has such; else a hidden one beside its place."""
    if hasattr(os, "O_TMPFILE") and Path("/proc/self/fd").exists():
        try:
            return os.open(place.parent, os.O_TMPFILE | os.O_WRONLY, 0o666), None
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL):
                raise
    part = _beside(place)
    return os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666), part


def _beside(place: Path) -> Path:
    return place.with_name(f".{place.name}.{secrets.token_hex(8)}.part")


def _rename(part: Path, place: Path, *, overwrite: bool) -> None:
    """Into its place, unless somebody made the file in the meantime."""
    if not overwrite:
        try:
            os.link(part, place)
            return
        except FileExistsError:
            raise
        except OSError:  # a file system without links
            refuse_existing(place, overwrite=False)
    part.replace(place)


def refuse_existing(path: Path | str, *, overwrite: bool) -> None:
    """Say so before long work, not after it."""
    free = overwrite or not is_there(path) or (isinstance(path, Path) and is_special(path))
    fix = "Choose another name, or allow it to be overwritten (overwrite=True)."
    check(free, f"output {str(path)!r}", "must not exist yet", "there is such a file", fix)


def system_number(error: OSError) -> int | None:
    """The system's number of an error; what Polars raises has it in its text alone.

    >>> system_number(OSError("Broken pipe (os error 32)")) == errno.EPIPE
    True
    """
    number = re.search(r"\(os error (\d+)\)", str(error))
    return int(number[1]) if error.errno is None and number else error.errno


def unwritable(path: Path, error: OSError) -> DataError:
    """A place that takes no file, or not all of it."""
    number = system_number(error)
    got = f"it is not: {error if number is None else os.strerror(number)}"
    fix = "Nothing was written to it. Make room, or choose another place."
    return DataError(f"output {str(path)!r}", "must be writable", got, fix)


def _sync_folder(folder: Path) -> None:
    """The new name must survive a crash as well."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # not every system opens folders
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
