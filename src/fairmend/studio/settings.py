"""The settings of a project: which column is what, and what to do; stored as TOML.

Each setting is an option of the command line, so that a step of the studio is a command that
anybody can type.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from typing import Any

from fairmend.data.spelling import Spelling
from fairmend.errors import DataError, check

STEPS = ("audit", "explain", "repair", "alternatives")
LOOKING, EDITING = ("audit", "explain"), ("repair", "alternatives")
_ALL = (*STEPS, "columns")


def option(
    section: str, flag: str, steps: tuple[str, ...], default: Any = None, mark: str = ""
) -> Any:
    """A setting: its section of the file, its option, and the steps that take it.

    ``mark`` stands between name and value where the option takes pairs.
    """
    about = {"section": section, "flag": flag, "steps": steps, "mark": mark}
    if isinstance(default, list | dict):
        return field(default_factory=type(default), metadata=about)
    return field(default=default, metadata=about)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a project has decided so far."""

    file: str | None = option("data", "", ())
    label: str | None = option("data", "--label", STEPS)
    groups: list[str] = option("data", "", (), [])
    """Columns with a group."""
    group: list[str] = option("data", "--group", STEPS, [])
    """Those that are looked at, together."""
    predictions: str | None = option("data", "--predictions", STEPS)
    model: str | None = option("data", "--model", STEPS)
    threshold: str | None = option("data", "--threshold", STEPS)
    positive: str | None = option("data", "--positive", STEPS)
    positive_decision: str | None = option("data", "--positive-decision", STEPS)
    id: str | None = option("data", "--id", STEPS)
    weight: str | None = option("data", "--weight", STEPS)
    ignore: list[str] = option("data", "--ignore", STEPS, [])
    not_id: list[str] = option("data", "--not-id", ("explain", *EDITING), [])
    missing: list[str] = option("cells", "--missing", _ALL, [])
    decimal: str | None = option("cells", "--decimal", _ALL)
    thousands: str | None = option("cells", "--thousands", _ALL)
    currency: str | None = option("cells", "--currency", _ALL)
    percent: bool = option("cells", "--percent", _ALL, False)
    words: list[str] = option("cells", "--words", _ALL, [])
    reference: str | None = option("measure", "--reference", ("audit", *EDITING))
    attention: float = option("measure", "", (), 0.05)
    """A gap beyond this is marked."""
    metric: list[str] = option("repair", "--metric", ("explain", *EDITING), [])
    target: str | None = option("repair", "--target", ("explain",))
    blind: bool = option("repair", "--blind", ("repair",), False)
    in_words: bool = option("repair", "--in-words", ("repair",), False)
    two_sided: bool = option("repair", "--two-sided", ("repair",), False)
    do_no_harm: bool = option("repair", "--do-no-harm", ("repair",), False)
    immutable: list[str] = option("repair", "--immutable", EDITING, [])
    one_way: dict[str, str] = option("repair", "--one-way", ("repair",), {}, ":")
    cost: dict[str, float] = option("repair", "--cost", ("repair",), {}, "=")
    level: float = option("repair", "--level", ("repair",), 1.0)
    margin: float = option("alternatives", "--margin", ("alternatives",), 0.005)
    seed: int = option("repair", "--seed", EDITING, 0)

    @property
    def lacks(self) -> str | None:
        """What an audit still needs to know; None where nothing is missing."""
        if self.file is None:
            return "Open a file first."
        if self.predictions is None and self.model is None:
            return "Say which column holds the model's decisions or scores."
        if not self.group:
            return "Say which column holds people's group."
        return None

    def arguments(self, step: str) -> list[str]:
        """A step as it is typed, without outputs."""
        chosen = self.seen_by(step)
        values = [step, self.file or "FILE"]
        for one in fields(chosen):
            if step in one.metadata["steps"]:
                values += _typed(one, getattr(chosen, one.name))
        return values

    def seen_by(self, step: str) -> Settings:
        """The settings a step sees: of the groups that are not looked at, it sees no column."""
        apart = [name for name in self.groups if name not in self.group]
        chosen = replace(self, ignore=[*self.ignore, *apart])
        if self.label is None and self.positive_decision is not None and self.positive is None:
            chosen = replace(chosen, positive=self.positive_decision, positive_decision=None)
        return replace(chosen, metric=self.metric[:1]) if step == "explain" else chosen

    @property
    def spelling(self) -> Spelling:
        """How cells are read."""
        return Spelling(
            tuple(self.missing), self.decimal, self.thousands, self.currency, self.percent,
            tuple(self.words),
        )  # fmt: skip

    def to_toml(self) -> str:
        """The settings that are not the default, by section."""
        by_section: dict[str, list[str]] = {}
        for one in fields(self):
            value = getattr(self, one.name)
            if value != _default(one):
                line = f"{one.name} = {_toml(value)}"
                by_section.setdefault(one.metadata["section"], []).append(line)
        parts = ["\n".join([f"[{name}]", *lines]) for name, lines in by_section.items()]
        return "\n\n".join(["# Made by fairmend studio.", *parts]) + "\n"

    @classmethod
    def from_toml(cls, text: str, name: str) -> Settings:
        """Read the settings; what is not one is an error with its place."""
        fix = "Correct it, or remove the file to begin anew."
        try:
            content = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise DataError(name, "must be TOML", f"it is not: {error}", fix) from None
        known = {one.name: one for one in fields(cls)}
        values: dict[str, Any] = {}
        for section, entries in content.items():
            for key, value in entries.items() if isinstance(entries, Mapping) else [("", None)]:
                one = known.get(key)
                there = one is not None and one.metadata["section"] == section
                must, got = "must be a setting of the studio", "there is none of that name"
                check(there, f"{name}: [{section}] {key}", must, got, fix)
                assert one is not None
                wanted = _kind(one)
                must = f"must be {wanted[1]}"
                what = f"{name}: {key}"
                check(isinstance(value, wanted[0]), what, must, f"got {value!r}", fix)
                values[key] = value
        return cls(**values)


def _default(one: Field[Any]) -> Any:
    return one.default if one.default_factory is MISSING else one.default_factory()


def _kind(one: Field[Any]) -> tuple[Any, str]:
    """What a setting is, for checks and for messages."""
    default = _default(one)
    if isinstance(default, bool):
        return bool, "true or false"
    if isinstance(default, int | float):
        return (int, float), "a number"
    if isinstance(default, list):
        return list, "a list"
    return (dict, "a table") if isinstance(default, dict) else (str, "a text")


def _typed(one: Field[Any], value: Any) -> Iterator[str]:
    """An option as it is typed; nothing where it is the default."""
    flag, mark = one.metadata["flag"], one.metadata["mark"]
    if value == _default(one):
        return
    if isinstance(value, bool):
        yield flag
    elif isinstance(value, dict):
        for name, entry in value.items():
            yield from (flag, f"{name}{mark}{entry if isinstance(entry, str) else f'{entry:g}'}")
    else:
        for entry in value if isinstance(value, list) else [value]:
            yield from (flag, f"{entry:g}" if isinstance(entry, float) else str(entry))


def _toml(value: Any) -> str:
    """A value of TOML: strings of JSON are strings of TOML too.

    >>> _toml({"a b": 1.5}), _toml(["é", True])
    ('{"a b" = 1.5}', '["é", true]')
    """
    if isinstance(value, dict):
        pairs = (f"{json.dumps(name)} = {_toml(entry)}" for name, entry in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
