"""Templates become one page, with its style and script inside and a policy that allows no more.

The page may run its own script and style, known by their hashes, and nothing else: no frames, no
forms, and no network unless its maker allows it.
"""

from __future__ import annotations

import base64
import json
import time
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup

from fairmend._version import __version__
from fairmend.report.table import Table, typeset
from fairmend.tables import percent, points

__all__ = ["Chart", "day", "policy", "render", "template", "timestamp"]

MOST_OPEN = 2
"""Groups whose parts of the page are open; those of further groups are folded, but printed."""


@dataclass(frozen=True)
class Chart:
    """A drawing with its description and, below it, its table."""

    key: str
    caption: str
    svg: Markup
    table: Table | None = None


def render(layout: str, script: str, allow: str, context: dict[str, Any]) -> str:
    """The whole page; ``allow`` is what its policy allows beside its own style and script."""
    return template(layout).render(
        context,
        version=__version__,
        policy=policy(script, allow),
        style=Markup(_file("page.css")),
        script=Markup(_file(script)),
    )


def policy(script: str, allow: str) -> str:
    """The content security policy of a page with this script."""
    style, code = (
        base64.b64encode(sha256(_file(name).encode()).digest()).decode()
        for name in ("page.css", script)
    )
    return (
        f"default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{code}'; {allow}; "
        "base-uri 'none'; form-action 'none'"
    )


def template(name: str) -> jinja2.Template:
    """A template of this folder; whatever it is given is escaped."""
    return _environment().get_template(name)


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=jinja2.FunctionLoader(_file),
    )
    environment.filters |= {
        "day": day,
        "inert": lambda data: Markup(_inert(data)),
        "percent": percent,
        "points": points,
        "time": timestamp,
        "typeset": lambda text: type(text)(typeset(text)),  # what is escaped stays escaped
    }
    environment.globals["most_open"] = MOST_OPEN
    return environment


@cache
def _file(name: str) -> str:
    return files("fairmend.report.html").joinpath(name).read_text(encoding="utf-8")


def _inert(data: Any) -> str:
    r"""JSON that cannot end the element it stands in.

    >>> print(_inert("</script>"))
    "\u003c/script\u003e"
    """
    text = json.dumps(data)
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def timestamp(at: float) -> str:
    """A moment in UTC, to the second."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at)) if at else "never"


def day(at: float) -> str:
    """A moment in UTC, to the minute; a day alone at its beginning."""
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(at)).removesuffix(" 00:00")
