"""The standard streams of the command line: always there, never failing on a character.

While a model runs, standard output is for our figures alone: whatever the model prints, from Python
or from C, goes to standard error.
"""

from __future__ import annotations

import codecs
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any, NoReturn, TextIO

from fairmend.errors import DataError

_IN_ASCII = {"—": "-", "–": "-", "−": "-", "─": "-", "’": "'", "…": "...", "×": "x", "≤": "<=",
             "≥": ">=", "·": ".", "\N{NO-BREAK SPACE}": " "}  # fmt: skip
"""Signs of ours that a terminal may not know."""
_ANY_CHARACTER = "fairmend.any_character"
_own: dict[str, TextIO] = {}
"""The streams of ours alone, while there are some."""
_program: list[bool] = []
"""Whether this process is the command line's own: what a model prints late is no figure either."""


def figures() -> TextIO:
    """Where results go."""
    return _own.get("figures", sys.stdout)


def messages() -> TextIO:
    """Where everything goes that is said about results."""
    return _own.get("messages", sys.stderr)


def is_open(stream: TextIO) -> bool:
    """Whether anybody could read what is written there."""
    return not isinstance(stream, _Closed)


def prepare() -> None:
    """Take the standard streams as they are: closed by the caller, or of a narrow encoding."""
    _program.append(True)
    codecs.register_error(_ANY_CHARACTER, _any_character)
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:  # else the next file opened takes its place, and gets what is printed
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
        stream = getattr(sys, name)
        if stream is None:
            stream = open(os.devnull, mode) if name == "stderr" else _Closed(name)  # noqa: SIM115
            setattr(sys, name, stream)
        if mode == "w" and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=_ANY_CHARACTER)


def _any_character(error: UnicodeError) -> tuple[str | bytes, int]:
    """Our own signs in ASCII, everybody else's as escapes."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    sign = error.object[error.start]
    if sign in _IN_ASCII:
        return _IN_ASCII[sign], error.start + 1
    error.end = error.start + 1
    return codecs.backslashreplace_errors(error)


class _Closed(io.TextIOBase):
    """A standard stream that the caller has closed: an error once it is needed."""

    def __init__(self, name: str) -> None:
        self._name = "standard input" if name == "stdin" else "standard output"

    def _refuse(self) -> NoReturn:
        raise DataError(
            self._name,
            "must be open",
            "it is closed",
            "Name a file instead of -."
            if self._name == "standard input"
            else "Send it to a file, or to /dev/null if nobody reads it.",
        )

    @property
    def buffer(self) -> NoReturn:
        self._refuse()

    def fileno(self) -> NoReturn:
        self._refuse()

    def read(self, _: int | None = -1, /) -> NoReturn:
        self._refuse()

    def write(self, _: str, /) -> NoReturn:
        self._refuse()


@contextmanager
def own_output() -> Iterator[None]:
    """Standard output for our figures alone; all else that is written there becomes a message."""
    before = sys.stdout, sys.stderr
    if not (_is_number(sys.stdout, 1) and _is_number(sys.stderr, 2)):  # captured, or closed
        _own.update(figures=sys.stdout, messages=sys.stderr)
        sys.stdout = sys.stderr
        try:
            yield
        finally:
            _own.clear()
            sys.stdout, sys.stderr = before
        return
    for stream in before:
        stream.flush()
    kept = os.dup(1), os.dup(2)
    os.dup2(2, 1)
    _own.update(figures=_text(kept[0], before[0]), messages=_text(kept[1], before[1], now=True))
    foreign = [_text(number, before[1], now=True, closefd=False) for number in (1, 2)]
    sys.stdout, sys.stderr = foreign
    try:
        yield
    finally:
        for stream in (*foreign, *_own.values()):
            with suppress(OSError, ValueError):  # a model may have closed them
                stream.flush()
        os.dup2(kept[1], 2)
        if not _program:
            os.dup2(kept[0], 1)
        for stream in _own.values():
            with suppress(OSError):
                stream.close()
        _own.clear()
        sys.stdout, sys.stderr = foreign[0] if _program else before[0], before[1]


def _is_number(stream: Any, number: int) -> bool:
    try:
        return bool(stream.fileno() == number)
    except (OSError, ValueError, AttributeError):
        return False


def _text(number: int, like: TextIO, *, now: bool = False, closefd: bool = True) -> TextIO:
    """A stream of its own to a descriptor; ``now``: every line is sent at once."""
    raw: IO[bytes] = open(number, "wb", closefd=closefd)  # noqa: SIM115
    return io.TextIOWrapper(
        raw,
        encoding=like.encoding,
        errors=like.errors,
        line_buffering=now or getattr(like, "line_buffering", False),
    )
