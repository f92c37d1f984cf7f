"""What can go wrong, said once.

    FairmendError
    ├── DataError      (also a ValueError)    the data or an argument is not what it must be
    │   └── InputError                        a column of X that must not be an input
    ├── ModelError     (also a RuntimeError)  the black box failed, or its answers make no sense
    ├── ArtifactError  (also a ValueError)    a stored repair is damaged, or cannot be stored
    ├── RepairRefused  (also a RuntimeError)  the repair would do what it was told not to do
    └── MissingExtra   (also an ImportError)  an optional package is not installed

Every message answers four questions in one order: what is wrong and where, what it must be,
what came, and what to do next.
"""

from __future__ import annotations

import difflib
import importlib
import os
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import ModuleType
from typing import Literal

__all__ = [
    "ArtifactError",
    "DataError",
    "FairmendError",
    "FairmendWarning",
    "InputError",
    "MissingExtra",
    "ModelError",
    "RepairRefused",
    "foreign_code",
    "in_a_line",
    "plain_text",
    "require",
    "without_secrets",
]


class FairmendError(Exception):
    """Base of every error fairmend raises on purpose.

    >>> print(FairmendError("y", "must hold 0 or 1", "got 'maybe' in row 3", "Give pos_label."))
    y: must hold 0 or 1; got 'maybe' in row 3. Give pos_label.
    """

    def __init__(self, what: str, must: str, got: str, fix: str) -> None:
        """Keep the four parts apart, so that the command line can lay them out."""
        super().__init__(what, must, got, fix)
        self.what, self.must, self.got, self.fix = what, must, got, fix

    def __str__(self) -> str:
        text = f"{self.what}: {self.must}; {self.got}. {self.fix}"
        return plain_text(text, MOST_OF_A_MESSAGE, lines=True)


class DataError(FairmendError, ValueError):
    """The data, or an argument that describes it, is not what it must be."""


class InputError(DataError):
    """A column that nobody named as an input, and that looks like something else."""

    def __init__(self, *parts: str, column: str = "", reason: str = "") -> None:
        """Keep the column and the reason, so that the command line can say what to type."""
        super().__init__(*parts)
        self.column, self.reason = column, reason


class ModelError(FairmendError, RuntimeError):
    """The black box raised, or answered something that cannot be read as a decision."""


class RepairRefused(FairmendError, RuntimeError):
    """The repair would harm people, or mend what may be chance, and was told to refuse that."""


class ArtifactError(FairmendError, ValueError):
    """A stored repair is damaged, made by others or for others, or a repair cannot be stored."""


class MissingExtra(FairmendError, ImportError):
    """An optional package is needed and not installed."""


class FairmendWarning(UserWarning):
    """Something is right but easily misread; the message says what to look at."""


DAMAGED = "It is damaged, or was made by something else: get it again from its maker."
"""What to do about an artifact that fairmend would not have written."""


def require(module: str, *, extra: str, why: str) -> ModuleType:
    """Import an optional package, or answer with the pip line that installs it.

    >>> require("json", extra="none", why="this example").__name__
    'json'
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != module.split(".", maxsplit=1)[0]:
            raise  # the package is there but itself broken: its own error says more
        raise MissingExtra(
            why,
            f"needs the optional package {module.split('.', maxsplit=1)[0]!r}",
            "it is not installed",
            f"Run: pip install 'fairmend[{extra}]'",
        ) from None


def nearest(name: object, known: Iterable[object]) -> str:
    """Suggest the closest known name, or list a few, for the end of a message.

    >>> nearest("Femal", ["Female", "Male"])
    "Did you mean 'Female'?"
    >>> nearest("x", ["Female", "Male"])
    "Known: 'Female', 'Male'."
    """
    known = list(known)
    by_text = {str(value).casefold(): value for value in reversed(known)}
    close = difflib.get_close_matches(str(name).casefold(), by_text, n=1)
    return f"Did you mean {by_text[close[0]]!r}?" if close else f"Known: {listed(known)}."


def listed(values: Iterable[object], limit: int = 6) -> str:
    """Write a few values out and count the rest.

    >>> listed([1, 2, 3], limit=2)
    '1, 2 and 1 more'
    """
    values = list(values)
    shown = ", ".join(plain_text(repr(value), MOST_OF_A_VALUE) for value in values[:limit])
    return shown if len(values) <= limit else f"{shown} and {len(values) - limit:,} more"


MOST_OF_A_VALUE, MOST_OF_AN_ERROR, MOST_OF_A_MESSAGE = 80, 300, 2_000
"""Characters of somebody else's text that a message of ours repeats."""
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What moves a terminal's cursor, changes its colours or the order of its letters."""


def plain_text(text: str, most: int | None = None, *, lines: bool = False) -> str:
    r"""Text of a vendor, a file or an artifact, safe to show: escaped, and not too long.

    Of addresses the parts that may hold secrets are left out. ``lines`` keeps line breaks and tabs.

    >>> plain_text("a\x1b[31m b\n"), plain_text("0123456789", most=5)
    ('a\\x1b[31m b\\n', '01 [5 characters left out] 789')
    """
    text = without_secrets(text)
    if most is not None and len(text) > most:
        end = (most + 1) // 2
        text = f"{text[: most - end]} [{len(text) - most:,} characters left out] {text[-end:]}"

    def escaped(found: re.Match[str]) -> str:
        return found[0] if lines and found[0] in "\n\t" else ascii(found[0])[1:-1]

    return _UNSAFE.sub(escaped, text)


_ADDRESS = re.compile(r"\b([a-z][a-z0-9+.-]*://)(?:[^\s/]*@)?([^\s?#]*)(?:[?#]\S*)?", re.IGNORECASE)


def without_secrets(text: str) -> str:
    """Addresses in a text without user, password, query and fragment: tokens stand in these.

    >>> without_secrets("--model=https://me:pass@vendor.example/score?token=abc")
    '--model=https://vendor.example/score'
    """
    return _ADDRESS.sub(r"\1\2", text) if "://" in text else text


class foreign_code:  # noqa: N801 - used as contextlib's are; its generators mind StopIteration
    """Run code of a model: whatever it raises, sys.exit() too, becomes the error we make of it.

    Our own word about a model, and a request to stop, pass as they are. The current folder stays
    the same: files are written by names that are relative to it.
    """

    def __init__(self, complain: Callable[[BaseException], FairmendError]) -> None:
        self._complain = complain
        self._folder = "."

    def __enter__(self) -> None:
        """Remember the current folder."""
        with suppress(OSError):  # it may have been removed
            self._folder = os.getcwd()

    def __exit__(self, _: object, error: BaseException | None, __: object) -> Literal[False]:
        with suppress(OSError):
            if os.getcwd() != self._folder:
                os.chdir(self._folder)
        if error is None or isinstance(error, KeyboardInterrupt | ModelError):
            return False
        raise self._complain(error) from error


def in_a_line(error: BaseException) -> str:
    """Somebody else's error as part of a message of ours.

    >>> in_a_line(ValueError("no  such column."))
    'ValueError: no such column'
    """
    try:
        text = " ".join(str(error).split()).removesuffix(".")
    except Exception:  # its own code makes the text
        text = ""
    return f"{type(error).__name__}: {plain_text(text, MOST_OF_AN_ERROR) or 'no message'}"
