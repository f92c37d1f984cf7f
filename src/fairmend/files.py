"""Files that are whole or not there: written beside their place, synced, then renamed into it."""

from __future__ import annotations

import errno
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from fairmend.errors import DataError

__all__ = ["refuse_existing", "system_number", "unwritable", "writing"]

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
    """
    place = Path(path)
    refuse_existing(place, overwrite=overwrite)
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


def refuse_existing(path: Path, *, overwrite: bool) -> None:
    """Say so before long work, not after it."""
    if path.exists() and not overwrite:
        raise DataError(
            f"output {str(path)!r}",
            "must not exist yet",
            "there is such a file",
            "Choose another name, or allow it to be overwritten (--force, overwrite=True).",
        )


def system_number(error: OSError) -> int | None:
    """The system's number of an error; what Polars raises has it in its text alone.

    >>> system_number(OSError("Broken pipe (os error 32)")) == errno.EPIPE
    True
    """
    said = re.search(r"\(os error (\d+)\)", str(error))
    return int(said[1]) if error.errno is None and said else error.errno


def unwritable(path: Path, error: OSError) -> DataError:
    """A place that takes no file, or not all of it."""
    number = system_number(error)
    return DataError(
        f"output {str(path)!r}",
        "must be writable",
        f"it is not: {error if number is None else os.strerror(number)}",
        "Nothing was written to it. Make room, or choose another place.",
    )


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
