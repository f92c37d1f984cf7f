"""Odd artifacts: damaged, forged, or something else altogether."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Iterator
from typing import Any

from _odd_files import PLAIN
from _odd_people import Case


def contents(artifact: bytes) -> Iterator[tuple[str, Any]]:
    """What may be called an artifact."""
    yield "empty", b""
    yield "text", "not an artifact"
    yield "a table", PLAIN
    yield "random bytes", os.urandom(5_000)
    yield "zeros", b"\0" * 5_000
    yield "a pickle", b"\x80\x04\x95\x1f\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94."
    yield "a folder", lambda place: place.mkdir()
    yield "endless zeros", lambda place: place.symlink_to("/dev/zero")
    yield "endless noise", lambda place: place.symlink_to("/dev/urandom")
    yield "a link to nothing", lambda place: place.symlink_to("nowhere")
    yield "twice in a row", artifact + artifact
    yield "bytes before it", b"MZ" + artifact
    yield "bytes behind it", artifact + b"more"
    yield "without its last byte", artifact[:-1]
    for tenth in range(1, 10):
        yield f"its first {tenth * 10} %", artifact[: len(artifact) * tenth // 10]
    for place in range(0, len(artifact), max(1, len(artifact) // 24)):
        changed = bytes([artifact[place] ^ 0x55])
        yield f"one byte changed at {place}", artifact[:place] + changed + artifact[place + 1 :]
    yield from _repacked(artifact)


def _repacked(artifact: bytes) -> Iterator[tuple[str, bytes]]:
    """Archives made anew, whose checksums are right."""
    with zipfile.ZipFile(io.BytesIO(artifact)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}

    def packed(changed: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", method) as archive:
            for name, content in changed.items():
                archive.writestr(name, content)
        return out.getvalue()

    for name, content in members.items():
        yield f"without {name}", packed({k: v for k, v in members.items() if k != name})
        yield f"{name} emptied", packed({**members, name: b""})
        yield f"{name} is text", packed({**members, name: b"{}"})
        yield f"{name} is JSON null", packed({**members, name: b"null"})
        yield f"{name} cut in half", packed({**members, name: content[: len(content) // 2]})
        yield f"{name} doubled", packed({**members, name: content * 2})
    yield "an archive without members", packed({})
    yield "another member", packed({**members, "more.txt": b"more"})
    yield "a member above the folder", packed({**members, "../more.txt": b"more"})
    yield "a member of the system", packed({**members, "/etc/passwd": b"more"})
    yield "a bomb", packed({**members, "bomb": b"\0" * 50_000_000}, zipfile.ZIP_DEFLATED)
    yield "packed by another method", packed(members, zipfile.ZIP_BZIP2)


def cases(base: dict[str, bytes]) -> Iterator[Case]:
    """Each inspected and applied; none may be taken for the repair that it is not."""
    plain = base["base.fairmend"]
    for name, content in contents(plain):
        must, means = ("either", ()) if "bytes behind" in name else ("refused", None)
        files = {"odd.fairmend": content, "people.csv": PLAIN, **base}
        yield Case("artifacts", f"inspect: {name}", ("inspect", "odd.fairmend", "--json"), files,
                   means, must, (5,))  # fmt: skip
        yield Case("artifacts", f"apply: {name}",
                   ("apply", "odd.fairmend", "people.csv", "-o", "out", "--id", "no", "--key-file",
                    "base.key"), files, means, must, (5,), output="out")  # fmt: skip
