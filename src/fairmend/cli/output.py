"""How the command line speaks: figures on standard output, the rest on standard error."""

from __future__ import annotations

import errno
import functools
import inspect
import json
import math
import os
import re
import shlex
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from enum import IntEnum
from pathlib import Path
from typing import Any, NoReturn

import typer

from fairmend.cli.streams import figures, messages, own_output
from fairmend.config import SettingsError
from fairmend.data.files import refuse_existing, system_number
from fairmend.errors import (
    MOST_OF_A_MESSAGE,
    ArtifactError,
    DataError,
    FairmendError,
    FairmendWarning,
    InputError,
    MissingExtra,
    ModelError,
    plain_text,
    without_secrets,
)

__all__ = [
    "Code",
    "command_line",
    "guarded",
    "note",
    "print_json",
    "refuse_one_place_for_two",
    "refuse_unwritable",
    "say",
    "show",
]


class Code(IntEnum):
    """How a run ended."""

    OK = 0
    GAP = 1
    """A gap is beyond ``--fail-on``, or was not closed; of ``log verify``, the log was changed."""
    USAGE = 2
    """What was typed can be right for no file."""
    BAD_DATA = 3
    """The file is not what the options say, or such that the repair asked for is refused."""
    MODEL = 4
    """The model cannot be reached or read."""
    ARTIFACT = 5
    """The artifact was refused."""
    FAULT = 70
    """A fault of ours."""
    HUNG_UP = 129
    INTERRUPTED = 130
    TERMINATED = 143
    NO_READER = 141
    """Whoever read our output has gone: what a shell reports of any program then."""


def print_json(schema: str, content: Mapping[str, Any]) -> None:
    """One object with the version of its layout; numbers that do not exist are null."""
    text = json.dumps({"schema": schema, **_plain(dict(content))}, indent=2, allow_nan=False)
    figures().write(f"{text}\n")


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if hasattr(value, "item") and not isinstance(value, str | bytes):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def show(*parts: object, end: str = "\n") -> None:
    """Print figures: to standard output, which has nothing else on it."""
    text = "\n".join(map(str, parts))
    figures().write(f"{plain_text(text, lines=True)}{end}")


def say(text: str) -> None:
    """Tell the person, not the program that reads our output."""
    messages().write(f"fairmend: {plain_text(text, MOST_OF_A_MESSAGE)}\n")
    messages().flush()


def note(text: str) -> None:
    """Tell what a figure does not show."""
    say(f"note: {text}")


def refuse_unwritable(path: str | Path, *, force: bool) -> None:
    """Say before long work, not after it, that its result could not be written."""
    place = Path(path)
    what = f"output {str(path)!r}"
    if str(path) == "-":
        raise DataError(
            what, "must be a file", "standard output takes none here", "Name a file: ./- is one."
        )
    if place.is_dir():
        raise DataError(what, "must be a file", "it is a folder", "Name a file in it.")
    if not place.parent.is_dir():
        raise DataError(
            what,
            "must be in a folder that is there",
            f"there is no folder {str(place.parent)!r}",
            "Make it first, or choose another place.",
        )
    refuse_existing(place, overwrite=force)


def refuse_one_place_for_two(flag: str, one: str, *others: str | None) -> None:
    """An output in the place of another, or of what is read: one of them would be lost."""
    taken = [other for other in others if other not in (None, "-")]
    if one != "-" and Path(one).resolve() in [Path(str(other)).resolve() for other in taken]:
        raise DataError(
            flag, "must be a file of its own", f"got {one!r}, which is another one here too",
            "Choose another name.",
        )  # fmt: skip


def command_line() -> str:
    """The call as it could be typed again; what an address may hold of secrets is left out."""
    return shlex.join(["fairmend", *map(without_secrets, sys.argv[1:])])


# -------------------------------------------------------------------- every end has a code


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """The command, with every failure turned into one line and an exit code."""
    runs_a_model = "model" in inspect.signature(command).parameters

    @functools.wraps(command)
    def run(*arguments: Any, **settings: Any) -> None:
        with own_output() if runs_a_model else nullcontext():
            _run(functools.partial(command, *arguments, **settings), runs_a_model=runs_a_model)

    return run


def _run(command: Callable[[], None], *, runs_a_model: bool) -> None:
    try:
        with _signals_end_the_run(), _warnings_said():
            command()
            figures().flush()
    except FairmendError as error:
        say(in_flags(error))
        sys.exit(_code(error))
    except Stopped as signalled:
        say(f"{signalled}; no unfinished file is left")
        sys.exit(Code(signalled.code))
    except KeyboardInterrupt:  # raised by a model, or under a handler of somebody else
        say("interrupted; no unfinished file is left")
        sys.exit(Code.INTERRUPTED)
    except OSError as error:  # standard output on a full disk, for one
        _forget_output()
        if system_number(error) == errno.EPIPE:
            sys.exit(Code.NO_READER)
        say(f"the system refused: {error.strerror or error}")
        sys.exit(Code.BAD_DATA)
    except (typer.BadParameter, typer.Exit):  # wrong usage: typer says how
        raise
    except SystemExit as end:
        cause = end.__context__
        while cause is not None and not isinstance(cause, Stopped):
            cause = cause.__context__
        if cause is not None and not isinstance(end.code, Code):  # typer made it an exit of its own
            say(f"{cause}; no unfinished file is left")
            sys.exit(Code(cause.code))
        if isinstance(end.code, Code) or not runs_a_model:
            raise
        say("model: must answer; it ended the program. Take sys.exit() out of it.")
        sys.exit(Code.MODEL)
    except MemoryError:
        say("the system refused: there is not enough memory for this")
        sys.exit(Code.BAD_DATA)
    except Exception:
        traceback.print_exc(file=messages())
        say("this is a fault of fairmend; please report it with the lines above")
        sys.exit(Code.FAULT)


def _code(error: FairmendError) -> Code:
    kinds: tuple[tuple[type[FairmendError], Code], ...] = (
        (ArtifactError, Code.ARTIFACT),
        (ModelError, Code.MODEL),
        (MissingExtra, Code.USAGE),
        (SettingsError, Code.USAGE),
    )
    not_named = (error.what, error.got) == ("y", "got None")
    if error.what in _WRONG_FOR_ANY_FILE or error.what.startswith("method=") or not_named:
        return Code.USAGE
    return next((code for kind, code in kinds if isinstance(error, kind)), Code.BAD_DATA)


def _forget_output() -> None:
    """What is still buffered has nowhere to go, and must not fail again at the very end."""
    with suppress(OSError, ValueError, DataError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), figures().fileno())


class Stopped(KeyboardInterrupt):
    """A request to stop; no ``except Exception`` of a model swallows it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.code = 128 + number

    def __str__(self) -> str:
        if self.code == Code.INTERRUPTED:
            return "interrupted"
        return f"stopped by {signal.Signals(self.code - 128).name}"


@contextmanager
def _signals_end_the_run() -> Iterator[None]:
    """A request to stop unwinds like any error, so that half-written files are removed."""

    def stop(number: int, _: object) -> NoReturn:
        raise Stopped(number)

    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread hears of signals
        return
    names = ("SIGINT", "SIGTERM", "SIGHUP")
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    before = {
        number: signal.signal(number, stop)
        for number in numbers
        if signal.getsignal(number) is not signal.SIG_IGN  # as nohup asks
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _warnings_said() -> Iterator[None]:
    """Our warnings as messages, everybody else's as they are but for what a terminal obeys."""

    def told(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
        if issubclass(category, FairmendWarning):
            say(f"note: {_translated(str(message))}")
        else:
            text = warnings.formatwarning(message, category, *rest[:2])
            messages().write(plain_text(text, MOST_OF_A_MESSAGE, lines=True))

    usual, warnings.showwarning = warnings.showwarning, told
    try:
        yield
    finally:
        warnings.showwarning = usual


# -------------------------------------------------------------------- flags instead of arguments

_SPOKEN = {
    "y": "--label",
    "pos_label": "--positive",
    "sensitive_features": "--group",
    "sample_weight": "--weight",
    "ids": "--id",
    "X": "the file",
    "target": "--target",
    "one_way": "--one-way",
    "immutable": "--immutable",
    "max_edits": "--max-edits",
    "level": "--level",
    "method": "--method",
    "metric": "--metric",
    "disparity": "--metric",
    "reference": "--reference",
    "confidence": "--confidence",
    "favorable_label": "--favourable",
    "threshold": "--threshold",
    "output": "--answers",
    "soft": "--soft",
    "two_sided": "--two-sided",
    "do_no_harm": "--do-no-harm",
    "require_significant": "--require-significant",
    "random_state": "--seed",
    "unknown_group": "--unknown-group",
}
_WRONG_FOR_ANY_FILE = frozenset(
    {"metric", "disparity", "method", "level", "confidence", "threshold", "output", "soft",
     "max_edits", "two_sided", "random_state", "unknown_group"}
)  # fmt: skip
"""Arguments whose errors are about what was typed, never about what a file holds."""
_NAMED = ("sensitive_features '", "X column '")
_WRITTEN = {
    "got None. Pass it, or ask for 'sp'": "it was not given. Name its column, or ask for "
    "--metric sp",
    "BlackBox(model, output='score', threshold=...)": "--answers score --threshold NUMBER",
    "BlackBox(model, threshold=...)": "--threshold NUMBER",
    "BlackBox(model, output='probability')": "--answers probability",
    "BlackBox(model, words=(negative, positive))": "--positive-decision WORD",
    "output='label'": "--answers label",
    "output='score'": "--answers score",
    "leave output and threshold out": "leave --answers and --threshold out",
    " and threshold=": " and --threshold ",
    "must be False": "must be left out",
    "soft=True": "--soft",
    "Leave soft out": "Leave --soft out",
    "unknown_group='keep'": "--unknown-group keep",
    "require_significant=True": "--require-significant",
    "immutable, one_way and cost": "--immutable, --one-way and --max-edits",
    " (--force, overwrite=True)": " (--force)",
    "Pass pos_label=": "Add --positive ",
    "e.g. with .fillna('unknown')": "e.g. 'unknown'",
    "fairmend.apply.draw.random_key().hex()": "fairmend key FILE",
    "written by RepairedClassifier.save?": "written by fairmend repair? apply and report take the "
    "artifact first, then the file.",
    ", or a Disparity": "",
    "Say fairmend.load(path, model, key=...), with the key_ of the saved one.": "Give --key-file.",
    "Say fairmend.load(path, model).": "Give --model.",
    ", or say check_model=False": "",
    "groups in sensitive_features": "groups of --group",
    "name features of X": "name inputs of the model",
    "column of X": "column of the file",
    "X column '": "column '",
    "a few rows of X by hand: it must take X as it is passed here": "a few rows by hand",
    "Pass X with the model's inputs": "Name the columns of the model's inputs",
    "value of y": "value of --label",
    "values of y": "values of --label",
    "labels of y": "values of --label",
    "class of y": "class of --label",
    "y holds": "--label holds",
    "where y does": "where --label does",
    "as y has": "as --label has",
    "e.g. y == ": "e.g. whether it is ",
    "ive y and": "ive --label and",
    "Give y in": "Give --label in",
    "pass a function": "name a function",
    "For sp pass y=None, which": "For sp leave --label out, which",
}
_ASKED = {
    "If these are its words, say BlackBox(model, words=(negative, positive)).": "Name a function "
    "that turns its words into these.",
    "If it is random on purpose, say BlackBox(model, random=True).": "If it is random on purpose, "
    "record its answers once, and name their column with --predictions.",
}
"""What to do about a model that is asked, where Python has an argument and we have no option."""
_METHOD = re.compile(r"method='(\w+)'")
_ARGUMENT = re.compile(rf"(?<!['\w-])({'|'.join(n for n in _SPOKEN if '_' in n)})(?!['\w])(=?)")
"""An argument's name in a sentence; in quotes it is somebody's column."""


def in_flags(error: FairmendError) -> str:
    """An error of the library in the words of the command line.

    >>> error = FairmendError("y", "must have two values", "got 3", "Make it binary first.")
    >>> print(in_flags(error))
    --label: must have two values; got 3. Make it binary first.
    """
    spoken = _SPOKEN.get(error.what, error.what)
    if spoken.startswith(_NAMED):  # sensitive_features 'sex', X column 'age'
        spoken = f"column {spoken[spoken.index(chr(39)) :]}"
    elif spoken.startswith("X '"):  # files that are not there
        spoken = f"files {spoken.removeprefix('X ')}"
    fix = _what_to_type(error) if isinstance(error, InputError) else error.fix
    if isinstance(error, ModelError):  # options are for recorded answers alone
        for python, instead in _ASKED.items():
            fix = fix.replace(python, instead)
    return _translated(f"{spoken}: {error.must}; {error.got}. {fix}")


def _what_to_type(error: InputError) -> str:
    """The options that say what a doubtful column is."""
    typed = shlex.quote(error.column)
    if error.reason == "identifier":
        return f"Say --id {typed} or --ignore {typed}; if the model does read it, --not-id {typed}."
    return f"Say --ignore {typed}; if the model does read it, name all inputs with --input."


def _translated(text: str) -> str:
    for python, flag in _WRITTEN.items():
        text = text.replace(python, flag)
    text = _METHOD.sub(r"--method \1", text)
    return _ARGUMENT.sub(lambda said: _SPOKEN[said[1]] + (" " if said[2] else ""), text)
