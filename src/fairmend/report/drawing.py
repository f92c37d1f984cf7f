"""Charts become files, or pictures inside a page.

vl-convert draws them, without a browser or a network. Inside a page text stays text, and ids are
the page's own.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cache
from html import escape
from io import BytesIO, StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairmend.data.files import writing
from fairmend.errors import check, require
from fairmend.report.table import typeset

if TYPE_CHECKING:
    import altair as alt

__all__ = ["COLOURS", "can_draw", "inline", "save"]

COLOURS = {
    "blue": "#0072B2",
    "vermilion": "#D55E00",
    "grey": "#767676",
    "ink": "#333333",
    "green": "#009E73",
    "sky": "#56B4E9",
    "purple": "#CC79A7",
    "pale": "#DADADA",
}
"""Okabe and Ito's, which people with any kind of colour vision can distinguish, and greys."""
SUFFIXES = (".png", ".svg", ".html")
PIXELS_PER_UNIT = 2
"""So that a PNG is sharp on a fine screen and in print."""
_ROOT = re.compile(r"^<svg[^>]*viewBox=\"([^\"]*)\"[^>]*>")
_SPOKEN = re.compile(r' (?:role|aria-[a-z]+)="[^"]*"')
"""What Vega says to screen readers about each mark; here title, description and table say it."""
_PAPER = re.compile(r'^<rect width="[^"]*" height="[^"]*" fill="white"/>')
_CLIP = re.compile(r'(id="|url\(#)(clip\d+)')


def save(chart: alt.TopLevelMixin, path: str | os.PathLike[str]) -> Path:
    """Write a chart as PNG, SVG or HTML, by the path's ending, whole or not at all.

    The HTML carries its own JavaScript, so that it opens without a network.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    check(
        suffix in SUFFIXES,
        "path",
        f"must end in {', '.join(SUFFIXES)}",
        f"got {path.name!r}",
        "The ending says which kind of file it is.",
    )
    require("vl_convert", extra="plot", why="plot.save()")
    check(
        can_draw(),
        "plot.save()",
        "needs more memory to draw a picture",
        "this process may not have it (ulimit -v)",
        "Raise the limit.",
    )
    picture, text = BytesIO(), StringIO()
    if suffix == ".png":
        chart.save(picture, format="png", scale_factor=PIXELS_PER_UNIT)
    elif suffix == ".svg":
        chart.save(text, format="svg")
    else:
        chart.save(text, format="html", inline=True)
    with writing(path, overwrite=True) as file:
        file.write(picture.getvalue() or text.getvalue().encode())
    return path


def inline(
    spec: dict[str, Any], key: str, title: str, description: str, *, wide: bool = False
) -> str:
    """A Vega-Lite chart as an inline picture with a name and a description.

    ``wide``: as wide as the page. Where there is too little memory to draw, the description alone:
    the table below it has the figures.
    """
    if not can_draw():
        return f"<p>{escape(typeset(description))} (Not drawn: too little memory.)</p>"
    import vl_convert

    text = vl_convert.vegalite_to_svg(spec)
    root = _ROOT.match(text)
    assert root is not None
    inside = _PAPER.sub("", text[root.end() :].removesuffix("</svg>"))
    inside = _CLIP.sub(rf"\g<1>{key}-\2", _SPOKEN.sub("", inside))
    name, more = f"{key}-title", f"{key}-description"
    return (
        f'<svg viewBox="{root[1]}" width="{root[1].split()[2]}" role="img" '
        f'aria-labelledby="{name} {more}" class="drawing{" wide" if wide else ""}" id="{key}">'
        f'<title id="{name}">{escape(title)}</title>'
        f'<desc id="{more}">{escape(typeset(description))}</desc>{inside}</svg>'
    )


_TRY = """
import resource, sys
room, limit = int(sys.argv[1]), resource.RLIMIT_AS
own = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(limit, (min(own + room, resource.getrlimit(limit)[1]),) * 2)
import vl_convert
vl_convert.vegalite_to_svg({"data": {"values": []}, "mark": "bar"})
"""


@cache
def can_draw() -> bool:
    """Whether the renderer gets the memory it asks for; without it, it would end the process.

    It reserves gigabytes of addresses. Where these are limited, as by ``ulimit -v``, another
    process tries it first, with as much room as is left in this one.
    """
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit == resource.RLIM_INFINITY:
            return True
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        room = max(limit - pages * resource.getpagesize(), 0)
        tried = subprocess.run(
            [sys.executable, "-c", _TRY, str(room)], capture_output=True, check=False, timeout=60
        )
    except (ImportError, OSError, ValueError, subprocess.TimeoutExpired, MemoryError):
        return sys.platform != "linux"  # no other system limits addresses
    return tried.returncode == 0
