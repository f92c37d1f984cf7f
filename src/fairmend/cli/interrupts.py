"""Ctrl-C while the command line is still being imported: one line and 130, not a traceback.

The package is imported before any function of ours can run, so this is looked at first of all in
``fairmend/__init__.py``; it does nothing where fairmend is a library of somebody else's program.
"""

from __future__ import annotations

import os
import signal
import sys

INTERRUPTED = 130


def is_the_program(typed: list[str]) -> bool:
    """Whether the interpreter was started for our command line.

    >>> is_the_program(["python", "-m", "fairmend", "audit"])
    True
    >>> is_the_program(["python", "/usr/bin/fairmend"]), is_the_program(["python", "mine.py"])
    (True, False)
    """
    arguments = iter(typed[1:])
    for argument in arguments:
        if argument == "-m":
            return next(arguments, "") == "fairmend"
        if argument in ("-X", "-W"):
            next(arguments, "")
        elif not argument.startswith("-"):
            return os.path.basename(argument) in ("fairmend", "fairmend.exe")
    return False


def watch() -> None:
    """End at once if told to, until a command takes over; nothing has been written by then."""
    if not is_the_program(sys.orig_argv):
        return
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def _end(*_: object) -> None:
    try:
        os.write(2, b"fairmend: interrupted\n")
    finally:
        os._exit(INTERRUPTED)
