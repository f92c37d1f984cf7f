"""``fairmend inspect``: what is in an artifact."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairmend.cli import options as o
from fairmend.cli.output import print_json, show

RULES = ("immutable", "one_way", "do_no_harm")
"""Settings that say which edits are allowed."""


def inspect(artifact: o.Artifact, as_json: o.AsJson = False) -> None:
    """Print what is in an artifact: what it repairs, for whom, how, and where it comes from."""
    from fairmend.artifact import inspect as look
    from fairmend.tables import TextTable

    manifest = look(artifact)
    content = manifest.to_dict()
    if as_json:
        print_json(content.pop("schema", "fairmend.manifest/1"), content)
        return
    show(manifest, end="\n\n")
    settings = content["settings"]
    names = [*RULES, *(["cost"] if settings.get("cost") else [])]
    lines = [(name.replace("_", " "), _in_words(settings.get(name))) for name in names]
    show(TextTable("Rules for edits", ("<rule", "<is"), lines))


def _in_words(value: Any) -> str:
    """A setting as people say it.

    >>> _in_words(["age", "sex"]), _in_words({"income": "up"}), _in_words(True), _in_words(None)
    ('age, sex', 'income up', 'yes', 'none')
    """
    if isinstance(value, Mapping):
        value = [f"{name} {entry}" for name, entry in value.items()]
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)
