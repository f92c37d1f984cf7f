"""The settings of a project: which column is what, and what to do; stored as TOML.

Each setting is an option of the command line, so that a step of the studio is a command that
anybody can type.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Annotated, Any, get_args, get_type_hints

from fairmend.data.limits import fits
from fairmend.data.spelling import Spelling
from fairmend.errors import DataError, check

STEPS = ("audit", "explain", "repair", "alternatives")
EDITING = ("repair", "alternatives")
_ALL = (*STEPS, "columns")


@dataclass(frozen=True)
class Setting:
    """Where a setting stands in the file, and what it is on the command line."""

    section: str
    flag: str = ""
    steps: tuple[str, ...] = ()
    """The steps that take it."""
    mark: str = ""
    """Between name and value, where it takes pairs."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What a project has decided so far."""

    file: Annotated[str | None, Setting("data")] = None
    proposed: Annotated[bool, Setting("data")] = False
    """Whether roles were proposed: what people say of the columns since is not replaced."""
    label: Annotated[str | None, Setting("data", "--label", STEPS)] = None
    groups: Annotated[list[str], Setting("data")] = field(default_factory=list)
    """Columns with a group."""
    group: Annotated[list[str], Setting("data", "--group", STEPS)] = field(default_factory=list)
    """Those that are looked at, together."""
    predictions: Annotated[str | None, Setting("data", "--predictions", STEPS)] = None
    model: Annotated[str | None, Setting("data", "--model", STEPS)] = None
    answers: Annotated[str | None, Setting("data", "--answers", STEPS)] = None
    """What they are, where a model's are not those of the outcome."""
    threshold: Annotated[str | None, Setting("data", "--threshold", STEPS)] = None
    positive: Annotated[str | None, Setting("data", "--positive", STEPS)] = None
    positive_decision: Annotated[str | None, Setting("data", "--positive-decision", STEPS)] = None
    id: Annotated[str | None, Setting("data", "--id", STEPS)] = None
    weight: Annotated[str | None, Setting("data", "--weight", STEPS)] = None
    ignore: Annotated[list[str], Setting("data", "--ignore", STEPS)] = field(default_factory=list)
    not_id: Annotated[list[str], Setting("data", "--not-id", ("explain", *EDITING))] = field(
        default_factory=list
    )
    missing: Annotated[list[str], Setting("cells", "--missing", _ALL)] = field(default_factory=list)
    decimal: Annotated[str | None, Setting("cells", "--decimal", _ALL)] = None
    thousands: Annotated[str | None, Setting("cells", "--thousands", _ALL)] = None
    currency: Annotated[str | None, Setting("cells", "--currency", _ALL)] = None
    percent: Annotated[bool, Setting("cells", "--percent", _ALL)] = False
    words: Annotated[list[str], Setting("cells", "--words", _ALL)] = field(default_factory=list)
    attention: Annotated[float, Setting("measure")] = 0.05
    """A gap beyond this is marked."""
    metric: Annotated[list[str], Setting("repair", "--metric", ("explain", *EDITING))] = field(
        default_factory=list
    )
    target: Annotated[str | None, Setting("repair", "--target", ("explain",))] = None
    reference: Annotated[str | None, Setting("repair", "--reference", ("explain",))] = None
    """Of the gap that was chosen: the best-off group of one metric may not be that of another."""
    blind: Annotated[bool, Setting("repair", "--blind", ("repair",))] = False
    in_words: Annotated[bool, Setting("repair", "--in-words", ("repair",))] = False
    two_sided: Annotated[bool, Setting("repair", "--two-sided", ("repair",))] = False
    do_no_harm: Annotated[bool, Setting("repair", "--do-no-harm", ("repair",))] = False
    immutable: Annotated[list[str], Setting("repair", "--immutable", EDITING)] = field(
        default_factory=list
    )
    one_way: Annotated[dict[str, str], Setting("repair", "--one-way", ("repair",), ":")] = field(
        default_factory=dict
    )
    cost: Annotated[dict[str, float], Setting("repair", "--cost", ("repair",), "=")] = field(
        default_factory=dict
    )
    level: Annotated[float, Setting("repair", "--level", ("repair",))] = 1.0
    margin: Annotated[float, Setting("alternatives", "--margin", ("alternatives",))] = 0.005
    seed: Annotated[int, Setting("repair", "--seed", EDITING)] = 0

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
        for name, (_, option) in options().items():
            if step in option.steps and (value := getattr(chosen, name)) != _default(name):
                values += _typed(option, value)
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
        for name, (_, option) in options().items():
            if (value := getattr(self, name)) != _default(name):
                by_section.setdefault(option.section, []).append(f"{name} = {_toml(value)}")
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
        values: dict[str, Any] = {}
        for section, entries in content.items():
            for key, value in entries.items() if isinstance(entries, Mapping) else [("", None)]:
                kind, option = options().get(key, (None, Setting("")))
                must, got = "must be a setting of the studio", "there is none of that name"
                check(option.section == section, f"{name}: [{section}] {key}", must, got, fix)
                what, must = f"{name}: {key}", f"must be {_WORDS[kind]}"
                check(fits(value, kind), what, must, f"got {value!r}", fix)
                values[key] = value
        return cls(**values)


@cache
def options() -> dict[str, tuple[Any, Setting]]:
    """Each setting with its type and its option."""
    hints = get_type_hints(Settings, include_extras=True)
    return {name: get_args(hint)[:2] for name, hint in hints.items()}


@cache
def _defaults() -> Settings:
    return Settings()


def _default(name: str) -> Any:
    return getattr(_defaults(), name)


_WORDS = {
    str | None: "a text",
    bool: "true or false",
    float: "a number",
    int: "a whole number",
    list[str]: "a list of texts",
    dict[str, str]: "a table of texts",
    dict[str, float]: "a table of numbers",
}
"""What each type is called."""


def _typed(option: Setting, value: Any) -> Iterator[str]:
    """An option as it is typed."""
    if isinstance(value, bool):
        yield option.flag
        return
    if isinstance(value, dict):
        value = [f"{name}{option.mark}{_text(entry)}" for name, entry in value.items()]
    for entry in value if isinstance(value, list) else [value]:
        yield from (option.flag, _text(entry))


def _text(value: Any) -> str:
    """A value as it is typed; of a number every digit.

    >>> _text(2.0), _text(0.123456789), _text("a")
    ('2', '0.123456789', 'a')
    """
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


def _toml(value: Any) -> str:
    """A value of TOML: strings of JSON are strings of TOML too.

    >>> _toml({"a b": 1.5}), _toml(["é", True])
    ('{"a b" = 1.5}', '["é", true]')
    """
    if isinstance(value, dict):
        pairs = (f"{_toml(name)} = {_toml(entry)}" for name, entry in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
