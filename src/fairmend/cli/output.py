"""How the command line speaks: figures on standard output, the rest on standard error."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairmend.cli.streams import figures, messages
from fairmend.data.files import refuse_existing
from fairmend.data.plain import as_plain
from fairmend.errors import MOST_OF_A_MESSAGE, check, plain_text, without_secrets


def print_json(schema: str, content: Mapping[str, Any]) -> None:
    """One object with the version of its layout; numbers that do not exist are null."""
    text = json.dumps({"schema": schema, **as_plain(content)}, indent=2, allow_nan=False)
    figures().write(f"{text}\n")


def print_result(result: Any, more: Mapping[str, Any], *, as_json: bool) -> None:
    """A result to read, or with ``more`` as one object with its schema."""
    if as_json:
        content = result.to_dict() | more
        print_json(content.pop("schema"), content)
    else:
        show(result)


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


def check_output(flag: str, path: str, *others: str | None, force: bool) -> None:
    """Say before long work, not after it, that its result could not be written.

    ``others`` are further outputs, and what is read: one of them would be lost in the same place.
    """
    # not Path.resolve, which raises where a link leads to itself
    taken = [os.path.realpath(other) for other in others if other not in (None, "-")]
    check(
        path == "-" or os.path.realpath(path) not in taken,
        flag,
        "must be a file of its own",
        f"got {path!r}, which is another one here too",
        "Choose another name.",
    )
    place, what = Path(path), f"output {path!r}"
    closed = "standard output takes none here"
    check(path != "-", what, "must be a file", closed, "Name a file: ./- is one.")
    check(not place.is_dir(), what, "must be a file", "it is a folder", "Name a file in it.")
    check(
        place.parent.is_dir(),
        what,
        "must be in a folder that is there",
        f"there is no folder {str(place.parent)!r}",
        "Make it first, or choose another place.",
    )
    refuse_existing(place, overwrite=force)


def command_line() -> str:
    """The call as it could be typed again; what an address may hold of secrets is left out."""
    return shlex.join(["fairmend", *map(without_secrets, sys.argv[1:])])
