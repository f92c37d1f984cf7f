"""Charts for notebooks and files, in Altair; those of pages are in `chart`.

Altair and Jinja are imported where used.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fairmend.errors import check, require
from fairmend.report.chart import Plane, RowChart
from fairmend.report.drawing import COLOURS, save
from fairmend.report.findings import Explanation
from fairmend.report.html import repair
from fairmend.report.vega import chart_spec, title_spec
from fairmend.tables import percent

if TYPE_CHECKING:
    import altair as alt

    from fairmend.explain.counterfactual import Counterfactual

    Explained = Counterfactual | Explanation

__all__ = ["drawn", "feature_scores", "marginals", "save", "trace"]

BLUE, VERMILION, GREY, INK = (COLOURS[name] for name in ("blue", "vermilion", "grey", "ink"))
_CONFIG = {
    "axis": {"labelFontSize": 12, "titleFontSize": 12, "labelColor": INK, "titleColor": INK},
    "legend": {"labelFontSize": 12, "labelColor": INK},
    "view": {"stroke": None},
}


# -------------------------------------------------------------------- a counterfactual


def trace(counterfactual: Counterfactual) -> alt.LayerChart:
    """The disparity at each iteration of a descent, on audit and holdout data (Figure 2).

    >>> from fairmend import counterfactual_data, datasets
    >>> data = datasets.toy_descent().tabulated()
    >>> found = counterfactual_data(data, disparity="fpr", method="descent")
    >>> type(trace(found)).__name__
    'LayerChart'
    """
    check(
        counterfactual.trace is not None,
        "plot.trace()",
        "needs the course of a descent",
        "got a projection, which has none",
        "Use method='descent'.",
    )
    assert counterfactual.trace is not None
    curves = {"audit data": counterfactual.trace.value}
    if counterfactual.trace.holdout_value is not None:
        curves["holdout data"] = counterfactual.trace.holdout_value
    rows = [
        {"iteration": i, "disparity": float(value), "data": name}
        for name, values in curves.items()
        for i, value in enumerate(values)
    ]
    name = counterfactual.disparities[0].name.upper()
    altair = require("altair", extra="plot", why="plot.trace()")
    require("jinja2", extra="plot", why="plot.trace()")
    from fairmend.report.templates import template

    target, baseline = counterfactual.group_names
    before, after = (
        percent(gap, signed=True) for gap in (counterfactual.before, counterfactual.after)
    )
    seen = "modelled" if counterfactual.modelled else "observed"
    heading = title_spec(
        f"{name} gap of {target} against {baseline} during the descent",
        f"{before} {seen}, {after} under the counterfactual",
    )
    filled = template("charts/trace.json.j2").render(
        rows=rows, curves=list(curves), title=f"{name} gap"
    )
    spec = json.loads(filled) | {"title": heading, "config": _CONFIG}
    chart: alt.LayerChart = altair.LayerChart.from_dict(spec)
    return chart


def marginals(explained: Explained) -> alt.TopLevelMixin:
    """Each input observed, under the counterfactual, and in the reference group.

    Shares of people in one chart, those that move most first; each number in a chart of its own,
    by its median, the middle half and the middle four fifths of the people.
    """
    return drawn(repair.moves(_explanation(explained)), "plot.marginals()")


def feature_scores(explained: Explained) -> alt.TopLevelMixin:
    """How much of the gap closes if a feature moves alone, and of the influence it explains."""
    return drawn([repair.scores(_explanation(explained))], "plot.feature_scores()")


def _explanation(explained: Explained) -> Explanation:
    """Of a counterfactual all of it: whoever has that has the people too."""
    if isinstance(explained, Explanation):
        return explained
    return Explanation.of(explained, smallest_cell=1)


def drawn(charts: Sequence[RowChart | Plane], why: str) -> alt.TopLevelMixin:
    """Charts of a page or a card for Altair, one beneath the other."""
    altair = require("altair", extra="plot", why=why)
    check(charts, why, "needs something to draw", "there is nothing", "print() has it in words.")
    first, *others = map(chart_spec, charts)
    if not others:
        chart: alt.TopLevelMixin = altair.LayerChart.from_dict(first | {"config": _CONFIG})
        return chart
    below = {"vconcat": [first, *others], "resolve": {"scale": {"color": "independent"}}}
    charts_below: alt.TopLevelMixin = altair.VConcatChart.from_dict(below | {"config": _CONFIG})
    return charts_below
