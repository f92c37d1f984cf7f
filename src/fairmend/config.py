"""Settings from TOML files and the environment; every name and type is checked in one way.

The command line reads two kinds of files, a sidecar reads `fairmend.serve.config.Config`:

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
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from fairmend.data.files import read_small
from fairmend.data.limits import Between, fits
from fairmend.errors import DataError, nearest, unreadable

NAMES = ("fairmend.toml", "pyproject.toml")
PREFIX = "FAIRMEND_"
NAMED_BY_PEOPLE = ("model", "trust", "upstream")
"""Options that run code or send people's data away: not from a file that was merely found."""
WORTH_A_NOTICE = ("key-file", "output", "report", "write", "new", "log")
"""Options that read secrets or write files: who uses them should know where they come from."""
LONGEST = 1 << 20
"""Bytes of a file with settings."""

_SWITCH = {"1": True, "true": True, "yes": True, "on": True,
           "0": False, "false": False, "no": False, "off": False}  # fmt: skip


class SettingsError(DataError):
    """A setting that no command takes, or not so."""


# -------------------------------------------------------------------- one setting


@dataclass(frozen=True)
class Option:
    """One setting: its name, what it may hold, and where a value of it may come from."""

    name: str
    """As in the file: for the command line, the long flag without its dashes."""
    hint: Any
    """The annotation of its values; limits as in `fairmend.data.limits`."""
    check: Callable[[str], object] | None = None
    """Raises a `DataError` about a value that the option does not take."""
    see: str = "See fairmend COMMAND --help for --{name}."
    mark: str = ":"
    """What stands between a name and its value, where a flag takes both."""

    @property
    def variable(self) -> str:
        return PREFIX + self.name.upper().replace("-", "_")

    def read(self, where: str, value: Any) -> Any:
        """A value of a file in the shape the option takes, or an error that says where it is."""
        if _is_list(self.hint):
            if isinstance(value, Mapping):  # one-way = {age = "up"}
                value = [f"{name}{self.mark}{entry}" for name, entry in value.items()]
            value = [_as_text(one) for one in value] if isinstance(value, list) else [value]
        kinds = _kinds(self.hint)
        held = _as_text(value) if str in kinds and not kinds & {int, float} else value
        if not fits(held, self.hint):
            fix = self.see.format(name=self.name)
            raise SettingsError(where, f"must be {_words(self.hint)}", f"got {value!r}", fix)
        return self.checked(where, held)

    def read_variable(self, text: str) -> Any:
        """The text of an environment variable; commas separate several values, as in CSV."""
        if _is_list(self.hint):
            return next(csv.reader([text], skipinitialspace=True), [])
        if bool not in _kinds(self.hint):
            return text
        if text.strip().lower() not in _SWITCH:
            what, got = f"environment variable {self.variable}", f"got {text!r}"
            raise SettingsError(what, "must be true or false", got, "Write 1 or 0.")
        return _SWITCH[text.strip().lower()]

    def checked(self, where: str, held: Any) -> Any:
        """A value that passes the option's own check."""
        for entry in held if isinstance(held, list) else [held]:
            try:
                if self.check is not None:
                    self.check(entry)
            except DataError as error:
                raise SettingsError(where, *error.args[1:]) from None
        return held


def _as_text(value: Any) -> Any:
    """Numbers as text where text is wanted: a year may be a label."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if number else value


def _kinds(hint: Any) -> set[Any]:
    """The types that an annotation allows, without what they hold."""
    if get_origin(hint) in (Union, types.UnionType):
        return {kind for one in get_args(hint) for kind in _kinds(one)}
    if get_origin(hint) is Annotated:
        return _kinds(get_args(hint)[0])
    return {get_origin(hint) or hint}


def _is_list(hint: Any) -> bool:
    return list in _kinds(hint)


def _words(hint: Any) -> str:
    """What a value must be, for people.

    >>> _words(float | None), _words(Annotated[int, Between(0, 9)]), _words(Literal["a", "b"])
    ('a number', 'a whole number from 0 to 9', "'a' or 'b'")
    """
    names = {str: "text", int: "a whole number", float: "a number", bool: "true or false",
             list: "a list", Sequence: "a list"}  # fmt: skip
    if get_origin(hint) is Annotated:
        limits = [one for one in hint.__metadata__ if isinstance(one, Between)]
        return " ".join([_words(get_args(hint)[0]), *map(_range, limits)])
    if get_origin(hint) in (Union, types.UnionType):
        parts = [_words(one) for one in get_args(hint) if one is not types.NoneType]
        return " or ".join(dict.fromkeys(parts))
    if get_origin(hint) is Literal:
        return " or ".join(map(repr, get_args(hint)))
    return names[get_origin(hint) or hint]


def _range(limit: Between) -> str:
    open_ended = limit.high > 1e15
    return f"of at least {limit.low:g}" if open_ended else f"from {limit.low:g} to {limit.high:g}"


def unknown_key(where: str, of_what: str, key: str, options: Iterable[str]) -> SettingsError:
    """The error about a key that is no option, with the nearest that is one."""
    must, got = f"must hold options of {of_what}", f"got the unknown key {key!r}"
    return SettingsError(where, must, got, nearest(key, options))


# -------------------------------------------------------------------- files


def read_toml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The content of a TOML file of a sensible size."""
    what = f"config {os.fspath(path)!r}"
    try:
        return tomllib.loads(read_small(path, LONGEST, what).decode())
    except OSError as error:
        parts = unreadable(what, error, "Check the name after --config.").args
        raise SettingsError(*parts) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        got = f"it is not: {error}"
        raise SettingsError(what, "must be TOML", got, "Correct that place.") from None
    except DataError as error:
        raise SettingsError(*error.args) from None


def find_settings(named: str | None = None, folder: Path | None = None) -> tuple[str, Any]:
    """The settings in a file and its name; without a name those of the current folder, if any."""
    if named is not None:
        return named, _section(Path(named))
    for name in NAMES:
        path = (folder or Path.cwd()) / name
        if path.is_file() and (section := _section(path)):
            return name, section
    return "", {}


def _section(path: Path) -> Any:
    content = read_toml(path)
    if path.name != "pyproject.toml":
        return content
    tool = content.get("tool", {})
    return tool.get("fairmend", {}) if isinstance(tool, Mapping) else {}


# -------------------------------------------------------------------- for every command


def settle(
    where: str,
    settings: Mapping[str, Any],
    commands: Mapping[str, Mapping[str, Option]],
    environment: Mapping[str, str] = os.environ,
) -> dict[str, dict[str, Any]]:
    """Each command's settings from file and environment, checked.

    >>> commands = {"audit": {"label": Option("label", str)}}
    >>> settle("fairmend.toml", {"label": "y"}, commands, {})
    {'audit': {'label': 'y'}}
    >>> settle("fairmend.toml", {"label": "y"}, commands, {"FAIRMEND_LABEL": "z"})
    {'audit': {'label': 'z'}}
    """
    by_name: dict[str, dict[str, Option]] = {}
    for command, options in commands.items():
        for name, option in options.items():
            by_name.setdefault(name, {})[command] = option
    settled: dict[str, dict[str, Any]] = {command: {} for command in commands}
    for key in (key for key in settings if key not in commands):
        name = key.replace("_", "-")
        if name not in by_name:
            raise unknown_key(where, "any command", key, [*sorted(by_name), *commands])
        reads = {command: partial(option.read, f"{where}: {name}", settings[key])
                 for command, option in by_name[name].items()}  # fmt: skip
        for command, held in _taken(reads).items():
            settled[command][name] = held
    for command in (key for key in settings if key in commands):
        settled[command] |= _read_table(where, command, settings[command], commands[command])
    for name, options in by_name.items():
        variable = next(iter(options.values())).variable
        if variable in environment:
            held = {c: one.read_variable(environment[variable]) for c, one in options.items()}
            place = f"environment variable {variable}"
            _taken({c: partial(one.checked, place, held[c]) for c, one in options.items()})
            for command in options:  # one that refuses it does so when it is run
                settled[command][name] = held[command]
    return settled


def _read_table(
    where: str, command: str, table: Any, options: Mapping[str, Option]
) -> dict[str, Any]:
    place = f"{where} [{command}]"
    if not isinstance(table, Mapping):
        raise SettingsError(place, "must be a table", f"got {table!r}", f"Write [{command}].")
    held = {}
    for key, value in table.items():
        name = key.replace("_", "-")
        if name not in options:
            raise unknown_key(place, f"fairmend {command}", key, options)
        held[name] = options[name].read(f"{place}: {name}", value)
    return held


def _taken(reads: Mapping[str, Callable[[], Any]]) -> dict[str, Any]:
    """The value for each command whose option can hold it; an error if none can."""
    held, refused = {}, None
    for command, read in reads.items():
        try:
            held[command] = read()
        except SettingsError as error:
            refused = error
    if refused is not None and not held:
        raise refused
    return held
