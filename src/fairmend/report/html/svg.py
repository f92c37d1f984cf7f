"""Drawings for the inside of a page: text stays text, ids are the page's own, no styles."""

from __future__ import annotations

import re
from html import escape
from typing import Any

import vl_convert
from markupsafe import Markup

from fairmend.report.html.table import typeset
from fairmend.report.plot import can_draw

__all__ = ["drawn"]

_ROOT = re.compile(r"^<svg[^>]*viewBox=\"([^\"]*)\"[^>]*>")
_SPOKEN = re.compile(r' (?:role|aria-[a-z]+)="[^"]*"')
"""What Vega says to screen readers about each mark; here title, description and table say it."""
_PAPER = re.compile(r'^<rect width="[^"]*" height="[^"]*" fill="white"/>')
_CLIP = re.compile(r'(id="|url\(#)(clip\d+)')


def drawn(chart: Any, key: str, title: str, description: str, *, wide: bool = False) -> Markup:
    """An Altair chart as an inline picture with a name and a description.

    ``wide``: as wide as the page, whatever its own measure. Where there is too little memory to
    draw, its description: the table beside it has the figures.
    """
    if not can_draw():
        return Markup("<p>{} (Not drawn, for want of memory.)</p>").format(typeset(description))
    text = vl_convert.vegalite_to_svg(
        chart.to_dict(validate=False)
    )  # the converter reads it anyway
    root = _ROOT.match(text)
    assert root is not None
    width = root[1].split()[2]
    inside = _PAPER.sub("", text[root.end() :].removesuffix("</svg>"))
    inside = _CLIP.sub(rf"\g<1>{key}-\2", _SPOKEN.sub("", inside))
    name, more = f"{key}-title", f"{key}-description"
    looks = "drawing wide" if wide else "drawing"
    return Markup(
        f'<svg viewBox="{root[1]}" width="{width}" role="img" aria-labelledby="{name} {more}" '
        f'class="{looks}" id="{key}"><title id="{name}">{escape(title)}</title>'
        f'<desc id="{more}">{escape(typeset(description))}</desc>{inside}</svg>'
    )
