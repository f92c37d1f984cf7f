"""What an artifact says about itself, readable without loading it."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from importlib.metadata import version
from typing import Annotated, Any, TypeAlias

from fairmend.artifact.codec import Decoder, Encoder, parse, unknown, write
from fairmend.artifact.container import MANIFEST, Container, opened
from fairmend.data.limits import MOST, Between, Count, Label, Value, fits
from fairmend.data.naming import GroupNames
from fairmend.data.plain import as_plain
from fairmend.data.spelling import Spelling
from fairmend.data.stored import stored, stored_by_tag
from fairmend.measure.wording import figures, share
from fairmend.model.blackbox import Output
from fairmend.repair.blind.words import WordRule
from fairmend.repair.plan import Outlook
from fairmend.status import PlanStatus
from fairmend.tables import TextTable

FORMAT = 2
"""Raised only when old files cannot be read any more. A class, or a field with a default, may be
added without that: older files load, and older versions name the version to install."""
_ENTRIES = {"about", "created", "libraries", "members"}


def is_moment(text: str) -> bool:
    """Whether it is a time as `save` writes it."""
    try:
        return datetime.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


Digest: TypeAlias = Annotated[str, re.compile(r"[0-9a-f]{64}", re.ASCII).fullmatch]
Fingerprint: TypeAlias = Annotated[str, re.compile(r"[0-9a-f]{16}", re.ASCII).fullmatch]
Version: TypeAlias = Annotated[str, re.compile(r"[\w.+!-]{1,40}", re.ASCII).fullmatch]


@stored("Member")
@dataclass(frozen=True)
class Member:
    """One file inside."""

    name: str
    size: Count
    sha256: Digest


@stored("ColumnSchema")
@dataclass(frozen=True)
class ColumnSchema:
    """One input of the model."""

    name: Value
    dtype: str


@stored("ModelSettings")
@dataclass(frozen=True)
class ModelSettings:
    """How the model was read when the repair was fitted."""

    asked_by: str
    """The method that was called, or where recorded predictions were found."""
    output: Output
    threshold: Annotated[float, Between(-MOST, MOST)] | None
    soft: bool
    random: bool
    batch_size: Annotated[Count, Between(1, 1 << 53)]
    recorded: bool
    """Whether its answers were recorded predictions."""
    column: str | None
    """The column they were in."""
    words: tuple[Label, Label] | None
    """Its own words for the two answers, negative and positive."""


@stored("PlanSummary")
@dataclass(frozen=True)
class StoredPlan:
    """One plan and its outlook."""

    target: Label
    baseline: Label
    metric: str
    method: str
    status: PlanStatus
    outlook: Outlook


@stored("Description")
@dataclass(frozen=True)
class Description:
    """What is inside, as it follows from what is inside."""

    metric: str
    method: str
    settings: dict[str, Any]
    container: str
    columns: tuple[ColumnSchema, ...]
    attribute: str
    groups: tuple[Label, ...]
    people: Count
    rows: Count
    model: ModelSettings
    plans: tuple[StoredPlan, ...]
    audit_sha256: Digest
    """Of the audit data and the model's answers, as reports on the repair state it."""
    probe_rows: Count
    answers_sha256: Digest
    """Of the model's answers about the probe's rows."""
    key_fingerprint: Fingerprint | None
    """Tells keys apart; None where the key came from a random_state, which could be guessed."""
    words: WordRule | None = None
    """The rule of a blind repair, where it is one in words."""
    spelling: Spelling = field(default_factory=Spelling)
    """How the cells of the audit's file were written."""


@dataclass(frozen=True)
class Manifest:
    """What an artifact says about itself; `inspect` has compared the members with their hashes."""

    format: int
    fairmend: str
    """The version that wrote it."""
    created: str | None
    libraries: Mapping[str, str]
    about: Description
    members: tuple[Member, ...]
    written: Any = field(default=None, repr=False, compare=False)
    """``about`` as the file has it: an older one has fewer fields."""

    def describes(self, content: Description) -> bool:
        """Whether everything that the file says about itself is true of its content."""
        return _is_part(self.written, Encoder().encode(content, "about"))

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, ready for JSON."""
        return {
            "schema": "fairmend.artifact/1",
            "format": self.format,
            "fairmend": self.fairmend,
            "created": self.created,
            "libraries": dict(self.libraries),
            **as_plain(self.about),
            "members": as_plain(self.members),
        }

    def __str__(self) -> str:
        about = self.about
        names = GroupNames(about.attribute, about.groups)
        blind = about.settings.get("blind") is True
        how = "one rule for everybody, without the group" if blind else about.method
        lines = [
            f"Repair of {about.metric} by {how}, for groups of {about.attribute}",
            f"fitted on {about.people:,} people, {about.rows:,} distinct rows in {about.container}",
            f"audit data   sha256 {about.audit_sha256}",
            f"answers      sha256 {about.answers_sha256} about {about.probe_rows:,} probe rows",
            f"model        {about.model.asked_by}, read as {about.model.output}",
            f"key          {_key_line(about.key_fingerprint)}",
            f"created      {self.created or 'unknown'}, by fairmend {self.fairmend}, "
            f"format {self.format}",
        ]
        if typed := " ".join(option for option, _ in about.spelling.options()):
            lines.append(f"files        read with {typed}")
        plans = TextTable(
            "Plans, gaps in points as expected from the audit data",
            ("<group", "<against", "<metric", "before", "after", "edited", "randomised", "<status"),
            [
                (
                    names(plan.target),
                    names(plan.baseline),
                    metric,
                    *figures(before, after, tolerance=plan.outlook.tolerance),
                    share(plan.outlook.edited),
                    share(plan.outlook.randomised),
                    plan.status.name.lower(),
                )
                for plan in about.plans
                for metric, before, after in plan.outlook.by_metric
            ],
        )
        columns = TextTable(
            "Columns",
            ("<name", "<type"),
            [(str(column.name), column.dtype) for column in about.columns],
        )
        rule = "" if about.words is None else "\n".join(about.words.lines)
        shown = [str(plans) if plans.cells else "", rule, str(columns) if columns.cells else ""]
        return "\n\n".join(filter(None, ["\n".join(lines), *shown]))


def _is_part(one: Any, whole: Any) -> bool:
    """Whether JSON values are equal, but for fields that are younger, or that were dropped."""
    if isinstance(one, dict) and isinstance(whole, dict):
        about = stored_by_tag(str(one.get("$")))
        names = one.keys() - (about.dropped if about else set())
        return all(name in whole and _is_part(one[name], whole[name]) for name in names)
    if isinstance(one, list) and isinstance(whole, list | tuple):
        return len(one) == len(whole) and all(map(_is_part, one, whole))
    return type(one) is type(whole) and bool(one == whole)


def _key_line(fingerprint: str | None) -> str:
    if fingerprint is None:
        return "not inside, no fingerprint: it was made from a random_state"
    return f"not inside, fingerprint {fingerprint}"


def library_versions(container: str) -> dict[str, str]:
    """What an artifact is made with, the data's container among it."""
    names = sorted({"narwhals", "numpy", "pyarrow", "scikit-learn", "scipy", container})
    return {"python": platform.python_version()} | {name: version(name) for name in names}


# -------------------------------------------------------------------- to a member and back


def write_manifest(manifest: Manifest) -> bytes:
    """The manifest as a member; its first words are for readers of any version."""
    head = {"format": manifest.format, "fairmend": manifest.fairmend}
    rest = Encoder()
    body = {
        name: rest.encode(getattr(manifest, name), name)
        for name in ("created", "libraries", "about", "members")
    }
    assert not rest.members, "a manifest is a text, and needs no tables"
    return write(head | body)


def read_manifest(box: Container) -> Manifest:
    """The manifest, if this version can read what it describes, and the members are those."""
    names = list(box.sizes)
    if names[:1] != [MANIFEST]:
        box.refuse("must begin with its manifest", "it does not")
    head = parse(f"{box.what}, {MANIFEST}", box.unpack(MANIFEST))
    if not isinstance(head, dict) or type(head.get("format")) is not int:
        box.refuse("must have a manifest that says its format", "it has none")
    writer: Any = head.get("fairmend")
    if head["format"] != FORMAT:
        newer = head["format"] > FORMAT
        box.refuse(
            f"must be of format {FORMAT} to be read by this fairmend",
            f"it is of format {head['format']}",
            f"Install fairmend {str(writer)[:40]} or newer, which wrote it."
            if newer
            else "It was made by an older fairmend: fit the repair anew and save it.",
        )
    if not fits(writer, Version):
        box.refuse("must have a manifest that says its writer", "it has none")
    read = Decoder(lambda _: b"", writer=writer)
    fields = {name: one for name, one in head.items() if name not in ("format", "fairmend")}
    if more := fields.keys() - _ENTRIES:
        raise unknown(f"manifest entries {', '.join(sorted(more))!r:.60}", writer)
    if fields.keys() < _ENTRIES:
        box.refuse("must have a complete manifest", "entries are missing")
    with box.reading():
        parts: dict[str, Any] = {name: read.decode(one) for name, one in fields.items()}
    right = (
        fits(parts["created"], Annotated[str, is_moment] | None)
        and fits(parts["libraries"], dict[str, Version])
        and isinstance(parts["about"], Description)
        and fits(parts["members"], tuple[Member, ...])
    )
    if not right:
        box.refuse("must have a manifest of the right types", "it has not")
    manifest = Manifest(head["format"], writer, **parts, written=fields["about"])
    announced = {member.name: member.size for member in manifest.members}
    if list(announced.items()) != list(box.sizes.items())[1:]:
        box.refuse(
            "must hold the members that its manifest lists, in this order and of these sizes",
            "it holds others",
        )
    return manifest


def checked(box: Container, member: Member) -> bytes:
    """A member whose hash is the manifest's."""
    content = box.unpack(member.name)
    if sha256(content).hexdigest() != member.sha256:
        box.refuse(
            "must hold members as its manifest lists them",
            f"the sha256 of {member.name!r} is another",
        )
    return content


def inspect(path: str | os.PathLike[str]) -> Manifest:
    """What an artifact says about itself; every member is compared with its hash."""
    with opened(path) as box:
        manifest = read_manifest(box)
        for member in manifest.members:
            checked(box, member)
    return manifest
