"""The templates of pages, drawings and charts. Whatever they are given is escaped."""

from __future__ import annotations

import json
import time
from functools import cache
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup

from fairmend.measure.disparity import title_of
from fairmend.measure.wording import share
from fairmend.report.drawing import COLOURS
from fairmend.report.table import typeset
from fairmend.tables import counted, percent, points

__all__ = ["day", "read", "template", "timestamp"]

MOST_OPEN = 2
"""Groups whose parts of the page are open; those of further groups are folded, but printed."""


@cache
def template(name: str) -> jinja2.Template:
    """A template by its path within this folder."""
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=jinja2.FunctionLoader(read),
    )
    environment.filters |= {
        "count": "{:,}".format,
        "day": day,
        "inert": lambda data: Markup(_inert(data)),
        "people": _people,
        "percent": percent,
        "points": points,
        "share": share,
        "time": timestamp,
        "title_of": title_of,
        "typeset": lambda text: type(text)(typeset(text)),  # what is escaped stays escaped
    }
    environment.globals |= {**COLOURS, "most_open": MOST_OPEN}
    return environment.get_template(name)


@cache
def read(name: str) -> str:
    """The text of a file of this folder."""
    return files("fairmend.report").joinpath(name).read_text(encoding="utf-8")


def _inert(data: Any) -> str:
    r"""JSON that cannot end the element it stands in.

    >>> print(_inert("</script>"))
    "\u003c/script\u003e"
    """
    text = json.dumps(data)
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def _people(count: float) -> str:
    """An expected number of people, rounded."""
    few = round(count) == 0 and count > 0
    return "fewer than 1 person" if few else counted(round(count))


def timestamp(at: float) -> str:
    """A moment in UTC, to the second."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at)) if at else "never"


def day(at: float) -> str:
    """A moment in UTC, to the minute; a day alone at its beginning."""
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(at)).removesuffix(" 00:00")
