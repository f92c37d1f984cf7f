"""How the command line speaks: figures on standard output, the rest on standard error."""

from __future__ import annotations

import json
import math
import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairmend.cli.streams import figures, messages
from fairmend.data.files import refuse_existing
from fairmend.errors import MOST_OF_A_MESSAGE, check, plain_text, without_secrets


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
    place, what = Path(path), f"output {str(path)!r}"
    closed = "standard output takes none here"
    check(str(path) != "-", what, "must be a file", closed, "Name a file: ./- is one.")
    check(not place.is_dir(), what, "must be a file", "it is a folder", "Name a file in it.")
    check(
        place.parent.is_dir(),
        what,
        "must be in a folder that is there",
        f"there is no folder {str(place.parent)!r}",
        "Make it first, or choose another place.",
    )
    refuse_existing(place, overwrite=force)


def refuse_one_place_for_two(flag: str, one: str, *others: str | None) -> None:
    """An output in the place of another, or of what is read: one of them would be lost."""
    # not Path.resolve, which raises where a link leads to itself
    taken = [os.path.realpath(other) for other in others if other not in (None, "-")]
    check(
        one == "-" or os.path.realpath(one) not in taken,
        flag,
        "must be a file of its own",
        f"got {one!r}, which is another one here too",
        "Choose another name.",
    )


def command_line() -> str:
    """The call as it could be typed again; what an address may hold of secrets is left out."""
    return shlex.join(["fairmend", *map(without_secrets, sys.argv[1:])])
