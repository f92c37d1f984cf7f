"""The event log: one line of JSON each on standard error."""

from __future__ import annotations

import sys
import time
from typing import Any

import msgspec

__all__ = ["flush", "note", "where"]

_json = msgspec.json.Encoder()
_unwritten: list[bytes] = []
"""Lines about requests are written together: one system call per line would cost too much."""


def note(event: str, level: str = "info", **detail: Any) -> None:
    """One line of JSON on standard error; never any applicant's data."""
    line = {"at": round(time.time(), 3), "level": level, "event": event, **detail}
    _unwritten.append(_json.encode(line) + b"\n")
    if event != "request":
        flush()


def flush() -> None:
    """Write the lines noted so far."""
    lines = b"".join(_unwritten)
    _unwritten.clear()
    sys.stderr.buffer.write(lines)
    sys.stderr.buffer.flush()


def where(error: BaseException) -> str:
    """Type and place of an unforeseen error, without its message, which may hold data."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = "" if trace is None else f" at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
    return f"{type(error).__name__}{place}"
