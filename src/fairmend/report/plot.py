"""Charts of a counterfactual, or of its explanation. They draw what it holds, computing nothing.

Altair is imported where used; pictures are made by vl-convert, without a browser or a network.
Colours are Okabe and Ito's, which people with any kind of colour vision can tell apart.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from io import BytesIO, StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairmend.data.files import writing
from fairmend.errors import DataError, require
from fairmend.explain import drivers
from fairmend.report.findings import Explanation
from fairmend.status import Status
from fairmend.tables import percent

if TYPE_CHECKING:
    import altair as alt

    from fairmend.explain.counterfactual import Counterfactual

    Explained = Counterfactual | Explanation

__all__ = ["feature_scores", "marginals", "save", "trace"]

BLUE, VERMILION, GREY, INK = "#0072B2", "#D55E00", "#767676", "#333333"
MOST_BARS = 25
"""Charts of many features show this many, those that move most."""
SUFFIXES = (".png", ".svg", ".html")
WIDTH, ROW_HEIGHT = 460, 20
PIXELS_PER_UNIT = 2
"""So that a PNG is sharp on a fine screen and in print."""


def trace(found: Counterfactual) -> alt.LayerChart:
    """The disparity at each iteration of a descent, on audit and holdout data (Figure 2).

    >>> from fairmend import counterfactual_data, datasets
    >>> data = datasets.toy_descent().tabulated()
    >>> found = counterfactual_data(data, disparity="fpr", method="descent")
    >>> type(trace(found)).__name__
    'LayerChart'
    """
    alt = _altair("plot.trace()")
    if found.trace is None:
        raise DataError(
            "plot.trace()",
            "needs the course of a descent",
            "got a projection, which has none",
            "Use method='descent'.",
        )
    curves = {"audit data": found.trace.value}
    if found.trace.holdout_value is not None:
        curves["holdout data"] = found.trace.holdout_value
    points = [
        {"iteration": i, "disparity": float(value), "data": name}
        for name, values in curves.items()
        for i, value in enumerate(values)
    ]
    name = found.disparities[0].name.upper()
    scale = alt.Scale(domain=list(curves), range=[BLUE, VERMILION][: len(curves)])
    dash = alt.Scale(domain=list(curves), range=[[1, 0], [5, 3]][: len(curves)])
    legend = alt.Legend(title=None, orient="top-right") if len(curves) > 1 else None
    lines = (
        alt.Chart(alt.Data(values=points))
        .mark_line(strokeWidth=2)
        .encode(
            x=alt.X("iteration:Q", axis=alt.Axis(tickMinStep=1, format="d", grid=False)),
            y=alt.Y("disparity:Q", title=f"{name} gap", axis=alt.Axis(format="~%")),
            color=alt.Color("data:N", scale=scale, legend=legend),
            strokeDash=alt.StrokeDash("data:N", scale=dash, legend=legend),
        )
    )
    zero = alt.Chart(alt.Data(values=[{"zero": 0}])).mark_rule(color=GREY).encode(y="zero:Q")
    return _titled(
        (zero + lines).properties(width=WIDTH, height=260),
        f"{name} gap of {found.group_names[0]} against {found.group_names[1]} during the descent",
        found,
    )


def marginals(found: Explained) -> alt.LayerChart:
    """Each feature's share of people: observed, counterfactual, and the baseline's as a tick.

    Means and quantiles of numbers are no shares and are left to `Counterfactual.marginals`.
    """
    alt = _altair("plot.marginals()")
    lines = found.marginals if isinstance(found, Explanation) else drivers.marginals(found)
    shares = [line for line in lines if line.is_share]
    if not shares:
        raise DataError(
            "plot.marginals()",
            "needs a yes-or-no feature or a category",
            "got numbers only",
            "Read Counterfactual.marginals() instead.",
        )
    shown = sorted(shares, key=lambda line: -abs(line.shift))[:MOST_BARS]
    labels = [_label(line) for line in shown]
    sides = {
        f"{found.group_names[0]}, observed": "observed",
        f"{found.group_names[0]}, counterfactual": "counterfactual",
        f"{found.group_names[1]}, observed": "baseline",
    }
    points = [
        {"feature": label, "share": getattr(line, side), "of": name}
        for label, line in zip(labels, shown, strict=True)
        for name, side in sides.items()
    ]
    bars = [
        {"feature": label, "from": line.observed, "to": line.counterfactual}
        for label, line in zip(labels, shown, strict=True)
    ]
    names = list(sides)
    rows = alt.Y("feature:N", sort=labels, title=None, axis=alt.Axis(labelLimit=260, grid=True))
    share = {"title": "share of people", "axis": alt.Axis(format="~%", grid=False, tickCount=6)}
    legend = alt.Legend(title=None, orient="top", labelLimit=300, symbolSize=110)

    def scale(*values: str) -> Any:
        return alt.Scale(domain=names, range=list(values))

    moved = (
        alt.Chart(alt.Data(values=bars))
        .mark_rule(color=BLUE, opacity=0.45, strokeWidth=3)
        .encode(x=alt.X("from:Q", **share), x2="to:Q", y=rows)
    )
    marks = (
        alt.Chart(alt.Data(values=points))
        .mark_point(size=80, strokeWidth=2, opacity=1)
        .encode(
            x=alt.X("share:Q", **share),
            y=rows,
            shape=alt.Shape("of:N", scale=scale("circle", "circle", "M0,-1L0,1"), legend=legend),
            fill=alt.Fill("of:N", scale=scale("white", BLUE, "transparent"), legend=legend),
            stroke=alt.Stroke("of:N", scale=scale(GREY, BLUE, VERMILION), legend=legend),
        )
    )
    return _titled(
        (moved + marks).properties(width=WIDTH, height=ROW_HEIGHT * len(shown)),
        f"Inputs of {found.group_names[0]} under which the {_names(found)} gap would be "
        f"{'closed' if _closed(found) else 'narrower'}",
        found,
        *_left_out("values", len(shown), len(shares)),
        *(["means and quantiles of numbers are not drawn"] if len(shares) < len(lines) else []),
    )


def feature_scores(found: Explained) -> alt.LayerChart:
    """How much of the change each feature alone brings about, as bars; influence as ticks."""
    alt = _altair("plot.feature_scores()")
    scores = (
        found.feature_scores if isinstance(found, Explanation) else drivers.feature_scores(found)
    )
    shown = scores[:MOST_BARS]
    order = [score.feature for score in shown]
    what = ("change in the gap if only this feature moves", "influence it explains alone")
    points = [
        {"feature": score.feature, "share": share, "what": name}
        for score in shown
        for name, share in zip(what, (score.share_of_gap, score.influence_share), strict=True)
    ]
    rows = alt.Y("feature:N", sort=order, title=None, axis=alt.Axis(labelLimit=260))
    share = alt.X("share:Q", title="share of the whole", axis=alt.Axis(format="~%", tickCount=7))
    colour = alt.Color(
        "what:N",
        scale=alt.Scale(domain=list(what), range=[BLUE, VERMILION]),
        legend=alt.Legend(
            title=None, orient="top", labelLimit=300, symbolType="square", symbolOpacity=1
        ),
    )
    chart = alt.Chart(alt.Data(values=points)).encode(x=share, y=rows, color=colour)
    bars = chart.mark_bar(height=9, opacity=1).transform_filter(alt.datum.what == what[0])
    ticks = chart.mark_tick(thickness=3, height=15, opacity=1).transform_filter(
        alt.datum.what == what[1]
    )
    return _titled(
        (bars + ticks).properties(width=WIDTH, height=ROW_HEIGHT * len(shown)),
        f"Which inputs carry the {_names(found)} gap of {found.group_names[0]}",
        found,
        *_left_out("features", len(shown), len(scores)),
    )


def save(chart: alt.TopLevelMixin, path: str | os.PathLike[str]) -> Path:
    """Write a chart as PNG, SVG or HTML, by the path's ending, whole or not at all.

    The HTML carries its own JavaScript, so that it opens without a network.
    """
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise DataError(
            "path",
            f"must end in {', '.join(SUFFIXES)}",
            f"got {path.name!r}",
            "The ending says which kind of file it is.",
        )
    require("vl_convert", extra="plot", why="plot.save()")
    if not can_draw():
        raise DataError(
            "plot.save()",
            "needs more memory to draw a picture",
            "this process may not have it (ulimit -v)",
            "Raise the limit.",
        )
    picture, text = BytesIO(), StringIO()
    match path.suffix.lower():
        case ".png":
            chart.save(picture, format="png", scale_factor=PIXELS_PER_UNIT)
        case ".svg":
            chart.save(text, format="svg")
        case _:
            chart.save(text, format="html", inline=True)
    with writing(path, overwrite=True) as file:
        file.write(picture.getvalue() or text.getvalue().encode())
    return path


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
    """Whether the renderer gets the memory it asks for; else it would end the whole process.

    It reserves gigabytes of addresses. Where these are limited, as by ``ulimit -v``, a process of
    its own tries it, with as much room as is left in this one.
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
        return sys.platform != "linux"  # nobody else limits addresses
    return tried.returncode == 0


def _altair(why: str) -> Any:
    return require("altair", extra="plot", why=why)


def _titled(chart: Any, title: str, found: Explained, *notes: str) -> alt.LayerChart:
    """The chart under its title, the gap before and after, and what it leaves out."""
    before, after = (percent(gap, signed=True) for gap in (found.before, found.after))
    seen = "modelled" if found.modelled else "observed"
    heading = {
        "text": title,
        "subtitle": [f"{before} {seen}, {after} under the counterfactual", *notes],
        "anchor": "start",
        "frame": "group",
        "fontSize": 14,
        "subtitleFontSize": 12,
        "subtitleColor": GREY,
        "offset": 8,
    }
    drawn: alt.LayerChart = (
        chart.properties(title=heading)
        .configure_axis(labelFontSize=12, titleFontSize=12, labelColor=INK, titleColor=INK)
        .configure_legend(labelFontSize=12, labelColor=INK)
        .configure_view(stroke=None)
    )
    return drawn


def _names(found: Explained) -> str:
    names = (
        found.names
        if isinstance(found, Explanation)
        else [disparity.name for disparity in found.disparities]
    )
    return " and ".join(name.upper() for name in names)


def _closed(found: Explained) -> bool:
    return found.closed if isinstance(found, Explanation) else found.status is Status.CLOSED


def _label(line: drivers.Marginal) -> str:
    return line.feature if line.statistic == "1" else f"{line.feature} = {line.statistic}"


def _left_out(what: str, shown: int, there_are: int) -> list[str]:
    return [f"the first {shown} of {there_are} {what}"] if shown < there_are else []
