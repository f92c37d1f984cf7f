"""Charts become files. vl-convert draws them, without a browser or a network."""

from __future__ import annotations

import os
from io import BytesIO, StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from fairmend.data.files import writing
from fairmend.errors import check, require

if TYPE_CHECKING:
    import altair as alt

__all__ = ["COLOURS", "save"]

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
