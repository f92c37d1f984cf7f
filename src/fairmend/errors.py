"""The errors of the package, and the checks that raise the common ones.

    FairmendError
    ├── DataError      (also a ValueError)    the data or an argument is not what it must be
    │   └── InputError                        a column of X that must not be an input
    ├── ModelError     (also a RuntimeError)  the black box failed, or its answers make no sense
    ├── ArtifactError  (also a ValueError)    a stored repair is damaged, or cannot be stored
    ├── RepairRefused  (also a RuntimeError)  the repair would do what its settings forbid
    └── MissingExtra   (also an ImportError)  an optional package is not installed

Every message answers four questions in one order: what is wrong and where, what it must be,
what came, and what to do next. The ``check_*`` functions raise the common ones.
"""

from __future__ import annotations

import difflib
import importlib
import math
import os
import re
import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Sequence, Sized
from contextlib import suppress
from numbers import Integral, Real
from types import ModuleType
from typing import Any, Literal, Self


class FairmendError(Exception):
    """Base of every error fairmend raises on purpose.

    >>> print(FairmendError("y", "must hold 0 or 1", "got 'maybe' in row 3", "Give pos_label."))
    y: must hold 0 or 1; got 'maybe' in row 3. Give pos_label.
    """

    def __init__(self, what: str, must: str, got: str, fix: str) -> None:
        super().__init__(what, must, got, fix)
        self.what, self.must, self.got, self.fix = what, must, got, fix

    def __str__(self) -> str:
        text = f"{self.what}: {self.must}; {self.got}. {self.fix}".rstrip()
        return plain_text(text, MOST_OF_A_MESSAGE, lines=True)

    def but(self, *, what: str = "", must: str = "", got: str = "", fix: str | None = None) -> Self:
        """The same error with other parts: an option's name in place of an argument's, a file.

        >>> str(DataError("level", "must be a number", "got 'x'", "").but(what="--level"))
        "--level: must be a number; got 'x'."
        """
        # not copy.copy: Dask registers a reducer of exceptions that shares their attributes
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.what, other.must, other.got = what or self.what, must or self.must, got or self.got
        other.fix = self.fix if fix is None else fix
        other.args = (other.what, other.must, other.got, other.fix)
        return other


class DataError(FairmendError, ValueError):
    """The data, or an argument that describes it, is not what it must be."""


class InputError(DataError):
    """A column that nobody named as an input, and that looks like something else."""

    def __init__(self, *parts: str, column: str = "", reason: str = "") -> None:
        super().__init__(*parts)
        self.column, self.reason = column, reason


class ModelError(FairmendError, RuntimeError):
    """The black box raised, or answered something that cannot be read as a decision."""


class RepairRefused(FairmendError, RuntimeError):
    """The repair would do something forbidden: harm people, or close a gap that may be chance."""


class ArtifactError(FairmendError, ValueError):
    """A stored repair is damaged or belongs to another model, or a repair cannot be stored."""


class MissingExtra(FairmendError, ImportError):
    """An optional package is needed and not installed."""


class FairmendWarning(UserWarning):
    """A result that is correct but easily misread."""


DAMAGED = "It is damaged, or was made by something else: get it again from its maker."
"""What to do about an artifact that fairmend would not have written."""


def warn(message: str) -> None:
    """Give a `FairmendWarning` that points at the caller's line: the first outside this package."""
    frame, level = sys._getframe(1), 2
    inside = ("fairmend.", "functools")  # a cached property is computed through functools
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith(inside):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, FairmendWarning, stacklevel=level)


def require(module: str, *, extra: str, why: str) -> ModuleType:
    """Import an optional package, or answer with the pip line that installs it.

    >>> require("json", extra="none", why="this example").__name__
    'json'
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != module.split(".", maxsplit=1)[0]:
            raise  # the package is there but itself broken: its own error is clearer
        raise MissingExtra(
            why,
            f"needs the optional package {module.split('.', maxsplit=1)[0]!r}",
            "it is not installed",
            f"Run: pip install 'fairmend[{extra}]'",
        ) from None


# -------------------------------------------------------------------- common checks


def check(holds: Any, what: str, must: str, got: str, fix: str = "") -> None:
    """Raise a `DataError` of these parts unless something holds.

    >>> check(2 > 1, "order", "must be that of numbers", "got another")
    """
    if not holds:
        raise DataError(what, must, got, fix)


def check_given(what: str, value: object, fix: str) -> None:
    """Refuse None."""
    check(value is not None, what, "must be given", "got None", fix)


def check_choice(
    what: str, value: object, allowed: Collection[Any], fix: str = "", *, must: str = ""
) -> None:
    """Refuse what is not in a list; without a ``fix``, the nearest entry is suggested.

    >>> check_choice("rank", "scor", ("score", "cost"))
    Traceback (most recent call last):
    fairmend.errors.DataError: rank: must be 'score' or 'cost'; got 'scor'. Did you mean 'score'?
    """
    with suppress(TypeError, ValueError):  # unhashable, or an array: neither is a choice
        if value in allowed:
            return
    if not must:
        *most, last = map(repr, allowed)
        must = f"must be {', '.join(most)} or {last}" if most else f"must be {last}"
    raise DataError(what, must, f"got {value!r}", fix or nearest(value, allowed))


def check_between(
    what: str,
    value: object,
    low: float = -math.inf,
    high: float = math.inf,
    fix: str = "",
    *,
    open_ended: bool = False,
) -> None:
    """Refuse what is not a finite number from ``low`` to ``high``.

    ``open_ended`` leaves out the ends themselves.

    >>> check_between("level", 1.5, 0, 1, "1 closes the whole gap.")
    Traceback (most recent call last):
    fairmend.errors.DataError: level: must lie between 0 and 1; got 1.5. 1 closes the whole gap.
    """
    if isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value):
        number = float(value)
        if (low < number < high) if open_ended else (low <= number <= high):
            return
    if high < math.inf:
        must = f"must lie between {low:g} and {high:g}"
    elif low == -math.inf:
        must = "must be a finite number"
    else:
        must = f"must be a finite number {'above' if open_ended else 'of at least'} {low:g}"
    raise DataError(what, must, f"got {value!r}", fix)


def check_whole(what: str, value: object, least: int, fix: str = "", *, of: str = "") -> None:
    """Refuse what is not a whole number of at least ``least``; ``of`` is what it counts.

    >>> check_whole("n", 0, 1, of="rows")
    Traceback (most recent call last):
    fairmend.errors.DataError: n: must be a whole number of rows, at least 1; got 0.
    """
    of = of and f" of {of}"
    whole = isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least
    check(whole, what, f"must be a whole number{of}, at least {least}", f"got {value!r}", fix)


def check_length(what: str, given: Sized, n: int, as_in: str = "y") -> None:
    """Refuse a column that is not as long as another.

    >>> check_length("ids", [1, 2], 3, "X")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    fairmend.errors.DataError: ids: must have the same length as X; got 2 entries, expected 3. ...
    """
    got = f"got {len(given):,} entries, expected {n:,}"
    fix = "Check that both come from the same filter."
    check(len(given) == n, what, f"must have the same length as {as_in}", got, fix)


def check_names(what: str, given: object) -> None:
    """Refuse a text where a list of names is meant: its letters would be taken for names."""
    if isinstance(given, str):
        got, fix = f"got the text {given!r}", f"Write [{given!r}]."
        raise DataError(what, "must be a list of names", got, fix)


def check_columns(
    what: str, names: Iterable[Any], needed: Sequence[Any], fix: str, of: str
) -> None:
    """Refuse a table that lacks some of the columns ``of`` something has.

    >>> check_columns("X", ["age"], ["age", "sex"], "Pass all inputs.", of="fit")
    Traceback (most recent call last):
    fairmend.errors.DataError: X: must have the 2 columns of fit; 'sex' is missing. Pass all inputs.
    """
    there = set(names)
    missing = [name for name in needed if name not in there]
    are = "is" if len(missing) == 1 else "are"
    must = f"must have the {len(needed)} columns of {of}"
    check(not missing, what, must, f"{listed(missing)} {are} missing", fix)


def unreadable(
    what: str, error: OSError, fix: str = "Check the name and the permissions."
) -> DataError:
    """The error about a file that the system does not let us read."""
    return DataError(what, "must be readable", f"it is not: {error.strerror}", fix)


# -------------------------------------------------------------------- what a message shows


def nearest(name: object, names: Iterable[object]) -> str:
    """Suggest the closest of the names there are, or list a few, for the end of a message.

    >>> nearest("Femal", ["Female", "Male"])
    "Did you mean 'Female'?"
    >>> nearest("x", ["Female", "Male"])
    "Known: 'Female', 'Male'."
    """
    names = list(names)
    by_text = {str(value).casefold(): value for value in reversed(names)}
    close = difflib.get_close_matches(str(name).casefold(), by_text, n=1)
    return f"Did you mean {by_text[close[0]]!r}?" if close else f"Known: {listed(names)}."


def listed(values: Iterable[object], limit: int = 6) -> str:
    """Write a few values out and count the rest.

    >>> listed([1, 2, 3], limit=2)
    '1, 2 and 1 more'
    """
    values = list(values)
    shown = ", ".join(plain_text(repr(value), MOST_OF_A_VALUE) for value in values[:limit])
    return shown if len(values) <= limit else f"{shown} and {len(values) - limit:,} more"


MOST_OF_A_VALUE, MOST_OF_AN_ERROR, MOST_OF_A_MESSAGE = 80, 300, 2_000
"""How many characters of foreign text a message repeats."""
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

    def escaped(match: re.Match[str]) -> str:
        return match[0] if lines and match[0] in "\n\t" else ascii(match[0])[1:-1]

    return _UNSAFE.sub(escaped, text)


_ADDRESS = re.compile(r"\b([a-z][a-z0-9+.-]*://)(?:[^\s/]*@)?([^\s?#]*)(?:[?#]\S*)?", re.IGNORECASE)


def without_secrets(text: str) -> str:
    """Addresses in a text without user, password, query and fragment: tokens stand in these.

    >>> without_secrets("--model=https://me:pass@vendor.example/score?token=abc")
    '--model=https://vendor.example/score'
    """
    return _ADDRESS.sub(r"\1\2", text) if "://" in text else text


class foreign_code:  # noqa: N801 - used as contextlib's are; its generators mind StopIteration
    """Run code of a model: whatever it raises, sys.exit() too, becomes an error of ours.

    A `ModelError` and a `KeyboardInterrupt` pass unchanged. The current folder stays the same:
    files are written by names that are relative to it.
    """

    def __init__(self, make_error: Callable[[BaseException], FairmendError]) -> None:
        self._make_error = make_error
        self._folder = "."

    def __enter__(self) -> None:
        with suppress(OSError):  # it may have been removed
            self._folder = os.getcwd()

    def __exit__(self, _: object, error: BaseException | None, __: object) -> Literal[False]:
        with suppress(OSError):
            if os.getcwd() != self._folder:
                os.chdir(self._folder)
        if error is None or isinstance(error, KeyboardInterrupt | ModelError):
            return False
        raise self._make_error(error) from error


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
