"""Files behind addresses such as ``s3://``: listed, read and told apart by fsspec.

Credentials are those of the environment (`AWS_ACCESS_KEY_ID`, a profile, a role). None is taken
from an address, so that none gets into plans, logs or reports.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from fairmend.errors import check, require

_PACKAGES = {"s3": ("s3fs", "s3"), "s3a": ("s3fs", "s3")}


def is_address(name: str) -> bool:
    """Whether a name is that of a file elsewhere."""
    return "://" in name


def filesystem(name: str) -> Any:
    """The file system of an address; what it remembers of listings is not trusted."""
    parts = urlsplit(name)
    check(
        "@" not in parts.netloc,
        "X",
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
    if not any(mark in name for mark in "*?["):
        return [name]
    scheme = urlsplit(name).scheme
    return sorted(f"{scheme}://{found}" for found in filesystem(name).glob(name))


def state(name: str) -> dict[str, Any]:
    """What tells whether the file at an address is still the same: its ETag, or its date."""
    told = filesystem(name).info(name)
    tag = told.get("ETag") or told.get("etag") or str(told.get("LastModified", ""))
    return {"size": int(told.get("size") or 0), "changed": 0, "etag": tag.strip('"')}
