"""What to do about an error, as buttons: the options that its message names."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from fairmend.studio.settings import Settings

Options = tuple[tuple[str, str], ...]
_WORDS = {
    "--decimal": "“{}” is the decimal mark",
    "--thousands": "“{}” stands between thousands",
    "--currency": "“{}” is the currency",
    "--percent": "Read per cent signs",
    "--missing": "“{}” is a missing value",
    "--words": "“{}” holds words",
    "--positive": "“{}” is the positive outcome",
    "--positive-decision": "“{}” is the positive decision",
    "--ignore": "Leave “{}” out",
    "--id": "“{}” is the person's id",
    "--not-id": "“{}” is an input",
    "--label": "“{}” is the outcome",
    "--group": "“{}” is the group",
    "--predictions": "“{}” is the decision",
    "--answers": "Read the model's answers as “{}”",
    "--forget": "Forget “{}”",
    "--model": "Query “{}”",
}
"""What can be done by a button, and what stands on it."""
FLAGS = frozenset(_WORDS)
_FOR_MESSAGES = FLAGS - {"--forget", "--model"}
"""What the text of a message, in which a file's own words stand, may offer."""
_ABOUT = {
    "--label": "The outcome",
    "--group": "The group",
    "--predictions": "The model's decision or score",
    "--positive": "The positive outcome",
    "--positive-decision": "The positive decision",
    "--id": "The person's id",
    "--weight": "The column of how many people a row stands for",
    "--ignore": "A column that is left out",
    "--immutable": "An input that must stay",
    "--one-way": "An input that may only rise or fall",
    "--metric": "The gap",
    "--model": "The model",
    "--threshold": "The score above which a decision is positive",
    "--level": "How much of the gap to close",
    "--margin": "The margin",
    "--cost": "The cost of an input",
    "--decimal": "The decimal mark",
    "--thousands": "The mark between thousands",
    "--currency": "The currency",
    "--target": "The group of the gap",
}
"""What an option is about, for people who see none."""
_SWITCHES = ("--percent",)
_VALUE = r"(?:'[^']*'|\"[^\"]*\")+|\S+"
_ONE = rf"--percent|--(?!percent)[a-z-]+ (?:{_VALUE})"
_PHRASE = re.compile(rf"(?:{_ONE})(?: (?:{_ONE}))*")
_PART = re.compile(_ONE)
ROLES = {"--ignore": "ignore", "--id": "id", "--label": "outcome", "--predictions": "decision",
         "--group": "group", "--weight": "weight"}  # fmt: skip


@dataclass(frozen=True)
class Fix:
    """Something that can be done by a button."""

    options: Options

    @property
    def words(self) -> str:
        return ", ".join(_WORDS[flag].format(value) for flag, value in self.options)


def fixes_in(message: str) -> list[Fix]:
    """The ways out that a message names, in its order.

    >>> text = "say --decimal ,; if the column holds words, --words 'a b'. Or --missing n/a."
    >>> [fix.words for fix in fixes_in(text)]
    ['“,” is the decimal mark', '“a b” holds words', '“n/a” is a missing value']
    """
    found = [Fix(tuple(map(_read, _PART.findall(one[0])))) for one in _PHRASE.finditer(message)]
    known = [fix for fix in found if all(flag in _FOR_MESSAGES and (value or flag in _SWITCHES)
                                         for flag, value in fix.options)]  # fmt: skip
    return list(dict.fromkeys(known))


def without_options(message: str) -> str:
    """A message without the sentences that name options: buttons stand for these.

    >>> without_options("a: must be a number; got '1,5'. If that is a number, say --decimal ,.")
    "a: must be a number; got '1,5'."
    """
    sentences = re.split(r"(?<=[.;])\s+(?=[A-Z])", message)
    return " ".join(one for one in sentences if not _PART.search(one)) or message


def in_words(message: str) -> str:
    """A message with what an option is about in place of the option that it begins with.

    >>> in_words("Invalid value for --label: must have two values")
    'The outcome: must have two values'
    """
    found = re.match(r"(?:Invalid value for )?(--[a-z-]+): ", message)
    named = _ABOUT.get(found[1]) if found else None
    return message if found is None or named is None else f"{named}: {message[found.end() :]}"


def _read(text: str) -> tuple[str, str]:
    """An option with its value, without the mark that ends a sentence."""
    flag, _, value = text.partition(" ")
    if value[:1] in ("'", '"'):
        return flag, shlex.split(value)[0]
    return flag, value[:-1] if len(value) > 1 and value[-1] in ".,;:" else value


def apply_fix(settings: Settings, options: Options) -> Settings:
    """The settings with these options; nothing else of the settings changes."""
    for flag, value in options:
        name = flag.removeprefix("--").replace("-", "_")
        if flag in ROLES:
            settings = with_role(settings, value, ROLES[flag])
        elif flag == "--forget":
            words = [one for one in settings.words if one != value]
            settings = replace(settings, **dict(_without(settings, value)), words=words)
        else:
            before = getattr(settings, name)
            several = isinstance(before, list)
            change: dict[str, Any] = {name: True if flag in _SWITCHES else value}
            if several:
                change[name] = list(dict.fromkeys([*before, value]))
            settings = replace(settings, **change)
    return settings


# -------------------------------------------------------------------- roles

_OF_A_MODEL = {"model": None, "answers": None}
SINGLE = {"outcome": "label", "decision": "predictions", "id": "id", "weight": "weight"}
"""Roles of one column each, and the settings that hold them."""
LISTS, PAIRS = ("groups", "group", "ignore", "not_id", "immutable"), ("one_way", "cost")
"""Settings that name several columns."""


def names_in(settings: Settings) -> set[str]:
    """The columns that the settings name."""
    single = {getattr(settings, attribute) for attribute in SINGLE.values()} - {None}
    return single.union(*(getattr(settings, attribute) for attribute in (*LISTS, *PAIRS, "words")))


def role_of(settings: Settings, name: str) -> str:
    """What a column is."""
    for role, attribute in SINGLE.items():
        if getattr(settings, attribute) == name:
            return role
    if name in settings.groups:
        return "group"
    return "ignore" if name in settings.ignore else "input"


def with_role(settings: Settings, name: str, role: str) -> Settings:
    """The settings with a column in a role; the column that had a single role is left out."""
    if role_of(settings, name) == role:
        return settings
    changes: dict[str, Any] = dict(_without(settings, name))
    if role in SINGLE:
        before = getattr(settings, SINGLE[role])
        changes |= {SINGLE[role]: name} | (_OF_A_MODEL if role == "decision" else {})
        if before is not None:
            changes["ignore"] = [*changes.get("ignore", settings.ignore), before]
        changes |= {"positive": None} if role == "outcome" else {}
        changes |= {"positive_decision": None, "threshold": None} if role == "decision" else {}
    elif role == "group":
        changes["groups"] = [*settings.groups, name]
        changes["group"] = changes.get("group", settings.group) or [name]
    elif role == "ignore":
        changes["ignore"] = [*changes.get("ignore", settings.ignore), name]
    return replace(settings, **changes)


def _without(settings: Settings, name: str) -> Iterator[tuple[str, Any]]:
    """The changes that take a column out of every role."""
    for attribute in SINGLE.values():
        if getattr(settings, attribute) == name:
            yield attribute, None
    if settings.label == name:
        yield "positive", None
    if settings.predictions == name:
        yield "positive_decision", None
    for attribute in LISTS:
        entries: list[str] = getattr(settings, attribute)
        if name in entries:
            kept = [one for one in entries if one != name]
            if attribute == "group" and not kept:
                kept = [one for one in settings.groups if one != name][:1]
            yield attribute, kept
    for attribute in PAIRS:
        pairs: dict[str, Any] = getattr(settings, attribute)
        if name in pairs:
            yield attribute, {key: value for key, value in pairs.items() if key != name}
