"""A template becomes one page, with its style and script inside and a policy that allows no more.

The page may run its own script and style, known by their hashes, and nothing else: no frames, no
forms, and no network unless its maker allows it.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from functools import cache
from hashlib import sha256
from operator import itemgetter
from typing import Any

from markupsafe import Markup

from fairmend._version import __version__
from fairmend.report.table import Column, Table
from fairmend.report.templates import read, template

__all__ = ["policy", "render", "style"]


def render(layout: str, script: str, allow: str, context: dict[str, Any]) -> str:
    """The whole page; ``allow`` is what its policy allows beside its own style and script."""
    return template(layout).render(
        context,
        version=__version__,
        policy=policy(script, allow),
        style=Markup(style()),
        script=Markup(read(script)),
        table=_table,
        item=itemgetter,
    )


def _table(
    key: str,
    caption: str,
    columns: Sequence[Sequence[Any]],
    records: Iterable[Any],
    notes: Sequence[str] = (),
) -> Table:
    """A table as templates declare it: columns are a header, a kind and what to read."""
    return Table.of(key, caption, (Column(*column) for column in columns), records, *notes)


@cache
def style() -> str:
    """The style of every page."""
    return template("html/page.css.j2").render()


def policy(script: str, allow: str) -> str:
    """The content security policy of a page with this script."""
    dress, code = (
        base64.b64encode(sha256(text.encode()).digest()).decode()
        for text in (style(), read(script))
    )
    forms = "" if "form-action" in allow else "; form-action 'none'"
    return (
        f"default-src 'none'; style-src 'sha256-{dress}'; script-src 'sha256-{code}'; {allow}; "
        f"base-uri 'none'{forms}"
    )
