"""Files behind addresses such as ``s3://``: listed, read, written and told apart by fsspec.

Credentials are those of the environment (`AWS_ACCESS_KEY_ID`, a profile, a role). None is taken
from an address, so that none gets into plans, logs or reports.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any
from urllib.parse import urlsplit

from fairmend.errors import DataError, check, in_a_line, require

_PACKAGES = {"s3": ("s3fs", "s3"), "s3a": ("s3fs", "s3")}


def is_address(name: object) -> bool:
    """Whether a name is that of a file elsewhere.

    >>> is_address("s3://lake/people.parquet"), is_address("people.parquet")
    (True, False)
    """
    return isinstance(name, str) and "://" in name


def is_s3(name: str) -> bool:
    """Whether an address is one that Polars reads itself, with the credentials fsspec has."""
    return urlsplit(name).scheme in _PACKAGES


def filesystem(name: str, what: str = "X") -> Any:
    """The file system of an address; what it remembers of listings is not trusted."""
    parts = urlsplit(name)
    check(
        "@" not in parts.netloc and not (parts.scheme.startswith("http") and parts.query),
        what,
        "must be an address without credentials",
        f"got some in an address of {parts.scheme}://",
        "Leave them to the environment, e.g. AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.",
    )
    package, extra = _PACKAGES.get(parts.scheme, ("fsspec", "s3"))
    require(package, extra=extra, why=f"{parts.scheme}:// addresses")
    fsspec = require("fsspec", extra="s3", why="addresses")
    return fsspec.filesystem(parts.scheme, use_listings_cache=False)


def matching(name: str) -> list[str]:
    """The addresses that a pattern stands for, in order; a name without a pattern is itself."""
    files = filesystem(name)
    if not any(mark in name for mark in "*?["):
        return [name]
    scheme = urlsplit(name).scheme
    with _reaching(name, "X"):
        return sorted(f"{scheme}://{found}" for found in files.glob(name))


def state(name: str) -> dict[str, Any]:
    """What tells whether the file at an address is still the same: its ETag, or else its date."""
    files = filesystem(name)
    with _reaching(name, "X"):
        told = files.info(name)
        tag = told.get("ETag") or told.get("etag") or str(told.get("LastModified", ""))
        tag = tag or files.ukey(name)
    return {"size": int(told.get("size") or 0), "changed": 0, "etag": tag.strip('"')}


def opened(name: str) -> IO[bytes]:
    """The file at an address, to be read."""
    files = filesystem(name)
    with _reaching(name, "X"):
        file: IO[bytes] = files.open(name, "rb")
    return file


def exists(name: str) -> bool:
    """Whether there is a file at an address."""
    files = filesystem(name, "out")
    with _reaching(name, "out"):
        return bool(files.exists(name))


@contextmanager
def uploading(name: str) -> Iterator[IO[bytes]]:
    """A binary file that appears at an address once it is complete; after an error nothing does.

    What is uploaded so far is no file until it is committed, and is given up on an error. Where
    the process dies the store keeps these parts, out of sight, until its rules for them.
    """
    files = filesystem(name, "out")
    with _reaching(name, "out"):
        file = files.open(name, "wb", autocommit=False)
    try:
        yield file
        with _reaching(name, "out"):
            file.close()
            file.commit()
    except BaseException:
        for give_up in (file.close, file.discard):
            with suppress(Exception):  # what went wrong first is what is told
                give_up()
        raise


@contextmanager
def _reaching(name: str, what: str) -> Iterator[None]:
    """A store that cannot be asked, or says no, is an error in words, of whichever package."""
    try:
        yield
    except Exception as error:
        raise DataError(
            f"{what} {name!r}",
            "must be an address that can be reached",
            f"it is not: {in_a_line(error)}",
            "Check that the bucket is there, that the environment has credentials, and what they "
            "allow.",
        ) from None
