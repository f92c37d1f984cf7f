"""A template becomes one page, with its style and script inside and a policy that allows no more.

The page may run its own script and style, known by their hashes, and nothing else: no frames, no
forms, and no network unless its maker allows it.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from hashlib import sha256
from operator import itemgetter
from typing import Any

from markupsafe import Markup

from fairmend._version import __version__
from fairmend.report.table import Column, Table
from fairmend.report.templates import read, template

__all__ = ["policy", "render"]

STYLE = "html/page.css"


def render(layout: str, script: str, allow: str, context: dict[str, Any]) -> str:
    """The whole page; ``allow`` is what its policy allows beside its own style and script."""
    return template(layout).render(
        context,
        version=__version__,
        policy=policy(script, allow),
        style=Markup(read(STYLE)),
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


def policy(script: str, allow: str) -> str:
    """The content security policy of a page with this script."""
    style, code = (
        base64.b64encode(sha256(read(name).encode()).digest()).decode() for name in (STYLE, script)
    )
    return (
        f"default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{code}'; {allow}; "
        "base-uri 'none'; form-action 'none'"
    )
