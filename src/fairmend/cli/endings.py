"""How a run ends: every failure is one line on standard error, and an exit code."""

from __future__ import annotations

import errno
import functools
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from enum import IntEnum
from inspect import signature
from typing import Any, NoReturn

import typer

from fairmend.cli.arguments import in_options, text_in_options
from fairmend.cli.output import note, say
from fairmend.cli.streams import figures, messages, own_output
from fairmend.config import SettingsError
from fairmend.data.files import system_number
from fairmend.errors import (
    MOST_OF_A_MESSAGE,
    ArtifactError,
    DataError,
    FairmendError,
    FairmendWarning,
    MissingExtra,
    ModelError,
    plain_text,
)


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


_WRONG_FOR_ANY_FILE = frozenset(
    {"metric", "disparity", "method", "level", "confidence", "threshold", "output", "soft",
     "max_edits", "two_sided", "random_state", "unknown_group"}
)  # fmt: skip
"""Arguments whose errors are about what was typed, never about what a file holds."""


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """The command, with every failure turned into one line and an exit code."""
    runs_a_model = "model" in signature(command).parameters

    @functools.wraps(command)
    def run(*arguments: Any, **settings: Any) -> None:
        with own_output() if runs_a_model else nullcontext():
            try:
                with _signals_end_the_run(), _warnings_as_notes():
                    command(*arguments, **settings)
                    figures().flush()
            except (typer.BadParameter, typer.Exit):  # wrong usage: typer says how
                raise
            except (Exception, KeyboardInterrupt, SystemExit) as error:
                message, code = _ending(error, runs_a_model=runs_a_model)
                if message:
                    say(message)
                sys.exit(code)

    return run


def _ending(error: BaseException, *, runs_a_model: bool) -> tuple[str, Any]:
    """What to say about the end of a run, and its exit code."""
    if isinstance(error, SystemExit):
        return _exit(error, runs_a_model=runs_a_model)
    if isinstance(error, FairmendError):
        return in_options(error), _code(error)
    if isinstance(error, KeyboardInterrupt):  # of a model too, or under a handler of its own
        stopped = error if isinstance(error, Stopped) else Stopped(signal.SIGINT)
        return f"{stopped}; no unfinished file is left", Code(stopped.code)
    if isinstance(error, OSError):  # standard output on a full disk, for one
        _forget_output()
        if system_number(error) == errno.EPIPE:
            return "", Code.NO_READER
        return f"the system refused: {error.strerror or error}", Code.BAD_DATA
    if isinstance(error, MemoryError):
        return "the system refused: there is not enough memory for this", Code.BAD_DATA
    traceback.print_exception(error, file=messages())
    return "this is a fault of fairmend; please report it with the lines above", Code.FAULT


def _exit(error: SystemExit, *, runs_a_model: bool) -> tuple[str, Any]:
    """An exit may be ours, typer's about a request to stop, or a model's own."""
    cause = error.__context__
    while cause is not None and not isinstance(cause, Stopped):
        cause = cause.__context__
    if isinstance(error.code, Code):
        return "", error.code
    if cause is not None:
        return _ending(cause, runs_a_model=runs_a_model)
    if runs_a_model:
        message = "model: must answer; it ended the program. Take sys.exit() out of it."
        return message, Code.MODEL
    return "", error.code


def _code(error: FairmendError) -> Code:
    kinds: dict[type[FairmendError], Code] = {
        ArtifactError: Code.ARTIFACT,
        ModelError: Code.MODEL,
        MissingExtra: Code.USAGE,
        SettingsError: Code.USAGE,
    }
    no_label = (error.what, error.got) == ("y", "got None")
    if error.what in _WRONG_FOR_ANY_FILE or error.what.startswith("method=") or no_label:
        return Code.USAGE
    return next((code for kind, code in kinds.items() if isinstance(error, kind)), Code.BAD_DATA)


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
def _warnings_as_notes() -> Iterator[None]:
    """Our warnings as messages, everybody else's as they are but for what a terminal obeys."""

    def show(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
        if issubclass(category, FairmendWarning):
            note(text_in_options(str(message)))
        else:
            text = warnings.formatwarning(message, category, *rest[:2])
            messages().write(plain_text(text, MOST_OF_A_MESSAGE, lines=True))

    usual, warnings.showwarning = warnings.showwarning, show
    try:
        yield
    finally:
        warnings.showwarning = usual
