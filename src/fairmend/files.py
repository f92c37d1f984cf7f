"""Files that are whole or not there: written beside their place, synced, then renamed into it."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from fairmend.errors import DataError

__all__ = ["refuse_existing", "writing"]

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
        handle, name = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.", suffix=".part")
    except OSError as error:
        raise _unwritable(place, error) from None
    part = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.chmod(0o666 & ~_umask())  # a temporary file is the owner's alone
        if overwrite:
            part.replace(place)
        else:
            _link(part, place)
    except OSError as error:
        if error.errno not in _OF_THE_DISK:  # what the caller does meanwhile is its own affair
            raise
        raise _unwritable(place, error) from None
    finally:
        part.unlink(missing_ok=True)
    _sync_folder(place.parent)


def refuse_existing(path: Path, *, overwrite: bool) -> None:
    """Say so before long work, not after it."""
    if path.exists() and not overwrite:
        raise DataError(
            f"output {str(path)!r}",
            "must not exist yet",
            "there is such a file",
            "Choose another name, or allow it to be overwritten (--force, overwrite=True).",
        )


def _link(part: Path, place: Path) -> None:
    """Rename, unless somebody made the file in the meantime."""
    try:
        os.link(part, place)
    except FileExistsError:
        refuse_existing(place, overwrite=False)
        raise
    except OSError:  # a file system without links
        refuse_existing(place, overwrite=False)
        part.replace(place)


def _unwritable(path: Path, error: OSError) -> DataError:
    return DataError(
        f"output {str(path)!r}",
        "must be writable",
        f"it is not: {error.strerror or error}",
        "Nothing was written. Make room, or choose another place.",
    )


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


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
