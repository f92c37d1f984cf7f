"""Settings of the command line from a file and the environment.

    fairmend.toml                        [tool.fairmend] of pyproject.toml

    label = "approved"                   [tool.fairmend]
    group = ["sex"]                      label = "approved"

    [audit]                              [tool.fairmend.audit]
    fail-on = ["fnr>0.05"]               fail-on = ["fnr>0.05"]

A key is the long name of an option. At the top it holds for every command that has the option, in a
table of a command's name for that command alone. ``FAIRMEND_LABEL`` in the environment goes before
the file, a flag before both. A key that no command knows is an error, not a surprise.

A file that nobody named, because it lies in the current folder, may not say which model to run: see
`NAMED_BY_PEOPLE`.
"""

from __future__ import annotations

import csv
import os
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from fairmend.data.files import read_small
from fairmend.errors import DataError, nearest

__all__ = [
    "NAMED_BY_PEOPLE",
    "WORTH_A_NOTICE",
    "Option",
    "SettingsError",
    "find_settings",
    "settle",
]

Holds = Literal["text", "number", "switch", "list"]
NAMES = ("fairmend.toml", "pyproject.toml")
PREFIX = "FAIRMEND_"
NAMED_BY_PEOPLE = ("model", "trust", "upstream")
"""Options that run code or send people's data away: not from a file that was merely found."""
WORTH_A_NOTICE = ("key-file", "output", "report", "write", "new", "log")
"""Options that read secrets or write files: who uses them should know where they come from."""
LONGEST = 1 << 20
"""Bytes of a file with settings."""

_WORDS = {"1": True, "true": True, "yes": True, "on": True,
          "0": False, "false": False, "no": False, "off": False}  # fmt: skip


class SettingsError(DataError):
    """A setting that no command takes, or not so."""


@dataclass(frozen=True)
class Option:
    """What the command line knows of one of its options."""

    name: str
    """As in the file: the long flag without its dashes."""
    holds: Holds
    check: Callable[[str], object] | None = None
    """Raises a `DataError` about a value that the option does not take."""

    @property
    def variable(self) -> str:
        return PREFIX + self.name.upper().replace("-", "_")


def find_settings(named: str | None = None, folder: Path | None = None) -> tuple[str, Any]:
    """The settings in a file and its name; without a name those of the current folder, if any."""
    if named is not None:
        return named, _section(Path(named), _parsed(Path(named)))
    for name in NAMES:
        path = (folder or Path.cwd()) / name
        if path.is_file():
            section = _section(path, _parsed(path))
            if section:
                return name, section
    return "", {}


def _parsed(path: Path) -> Mapping[str, Any]:
    try:
        content = read_small(path, LONGEST, f"config {str(path)!r}")
        return tomllib.loads(content.decode())
    except OSError as error:
        raise SettingsError(
            f"config {str(path)!r}",
            "must be readable",
            f"it is not: {error.strerror}",
            "Check the name after --config.",
        ) from None
    except DataError as error:
        raise SettingsError(error.what, error.must, error.got, error.fix) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(
            f"config {str(path)!r}", "must be TOML", f"it is not: {error}", "Mend that place."
        ) from None


def _section(path: Path, content: Mapping[str, Any]) -> Any:
    if path.name != "pyproject.toml":
        return content
    tool = content.get("tool", {})
    return tool.get("fairmend", {}) if isinstance(tool, Mapping) else {}


def settle(
    where: str,
    settings: Mapping[str, Any],
    commands: Mapping[str, Mapping[str, Option]],
    environment: Mapping[str, str] = os.environ,
) -> dict[str, dict[str, Any]]:
    """Each command's settings from file and environment, checked.

    >>> known = {"audit": {"label": Option("label", "text")}}
    >>> settle("fairmend.toml", {"label": "y"}, known, {})
    {'audit': {'label': 'y'}}
    >>> settle("fairmend.toml", {"label": "y"}, known, {"FAIRMEND_LABEL": "z"})
    {'audit': {'label': 'z'}}
    """
    settled: dict[str, dict[str, Any]] = {command: {} for command in commands}
    tables = {key: value for key, value in settings.items() if key in commands}
    for key, value in settings.items():
        if key not in tables:
            name = key.replace("_", "-")
            concerned = {c: options[name] for c, options in commands.items() if name in options}
            if not concerned:
                known = {flag for options in commands.values() for flag in options}
                raise _unknown(where, "any command", key, [*sorted(known), *commands])
            for command, held in _as_held_by(where, concerned, value).items():
                settled[command][name] = held
    for command, table in tables.items():
        place = f"{where} [{command}]"
        if not isinstance(table, Mapping):
            raise SettingsError(place, "must be a table", f"got {table!r}", f"Write [{command}].")
        for key, value in table.items():
            name = key.replace("_", "-")
            if name not in commands[command]:
                raise _unknown(place, f"fairmend {command}", key, commands[command])
            held = _as_held(place, commands[command][name], value)
            settled[command][name] = _checked(f"{place}: {name}", commands[command][name], held)
    for name in dict.fromkeys(name for options in commands.values() for name in options):
        concerned = {c: options[name] for c, options in commands.items() if name in options}
        variable = next(iter(concerned.values())).variable
        if variable in environment:
            for command, held in _from_variable(variable, concerned, environment[variable]).items():
                settled[command][name] = held
    return settled


def _from_variable(variable: str, concerned: Mapping[str, Option], text: str) -> dict[str, Any]:
    """A variable for every command that has the option; an error if none of them takes it.

    A command that does not, where another does, complains when it is run.
    """
    held = {command: _from_text(option, text) for command, option in concerned.items()}
    refused = None
    for command, option in concerned.items():
        try:
            _checked(f"environment variable {variable}", option, held[command])
        except SettingsError as error:
            refused = error
        else:
            return held
    assert refused is not None
    raise refused


def _unknown(where: str, of_what: str, key: str, known: Iterable[str]) -> SettingsError:
    return SettingsError(
        where,
        f"must hold options of {of_what}",
        f"got the unknown key {key!r}",
        nearest(key.replace("_", "-"), known),
    )


def _as_held_by(where: str, concerned: Mapping[str, Option], value: Any) -> dict[str, Any]:
    """A shared setting for every command whose option of that name can hold it."""
    held, refused = {}, None
    for command, option in concerned.items():
        try:
            held[command] = _checked(
                f"{where}: {option.name}", option, _as_held(where, option, value)
            )
        except SettingsError as error:
            refused = error
    if not held and refused is not None:
        raise refused
    return held


def _as_held(where: str, option: Option, value: Any) -> Any:
    """A value from TOML in the shape the option takes."""
    if option.holds == "list":
        if isinstance(value, Mapping):  # one-way = {age = "up"}
            value = [f"{name}:{entry}" for name, entry in value.items()]
        entries = value if isinstance(value, list) else [value]
        if all(isinstance(entry, str | int | float) for entry in entries):
            return [str(entry) for entry in entries]
    elif option.holds == "switch":
        if isinstance(value, bool):
            return value
    elif option.holds == "number":
        if isinstance(value, int | float) and not isinstance(value, bool):
            return value
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        return str(value)
    wanted = {"text": "text", "number": "a number", "switch": "true or false", "list": "a list"}
    raise SettingsError(
        f"{where}: {option.name}",
        f"must be {wanted[option.holds]}",
        f"got {value!r}",
        f"See fairmend COMMAND --help for --{option.name}.",
    )


def _checked(where: str, option: Option, held: Any) -> Any:
    """A value that the option takes, or an error that says where it stands."""
    for entry in held if isinstance(held, list) else [held]:
        try:
            if option.check is not None:
                option.check(entry)
        except DataError as error:
            raise SettingsError(where, error.must, error.got, error.fix) from None
    return held


def _from_text(option: Option, text: str) -> Any:
    """A variable's text; several values are separated by commas, and quoted as in CSV."""
    if option.holds == "list":
        return next(csv.reader([text], skipinitialspace=True), [])
    if option.holds == "switch":
        if text.strip().lower() not in _WORDS:
            raise SettingsError(
                f"environment variable {option.variable}",
                "must be true or false",
                f"got {text!r}",
                "Write 1 or 0.",
            )
        return _WORDS[text.strip().lower()]
    return text
