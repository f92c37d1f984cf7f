"""Charts of a counterfactual for notebooks and files; those of pages are in `chart`.

The templates are Vega-Lite. Altair and Jinja are imported where used.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from fairmend.errors import check, require
from fairmend.explain import drivers
from fairmend.explain.marginals import marginals as marginals_of
from fairmend.report.drawing import COLOURS, save
from fairmend.report.findings import Explanation
from fairmend.status import Status
from fairmend.tables import percent

if TYPE_CHECKING:
    import altair as alt

    from fairmend.explain.counterfactual import Counterfactual

    Explained = Counterfactual | Explanation

__all__ = ["feature_scores", "marginals", "save", "trace"]

BLUE, VERMILION, GREY, INK = (COLOURS[name] for name in ("blue", "vermilion", "grey", "ink"))
MOST_BARS = 25
"""Charts of many features show this many, those that move most."""
ROW_HEIGHT = 20
_AXIS = {"labelFontSize": 12, "titleFontSize": 12, "labelColor": INK, "titleColor": INK}
_LEGEND = {"labelFontSize": 12, "labelColor": INK}
Spec = dict[str, Any]
"""A chart in Vega-Lite."""


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
    spec = _spec("trace", rows=rows, curves=list(curves), title=f"{name} gap")
    target, baseline = counterfactual.group_names
    title = f"{name} gap of {target} against {baseline} during the descent"
    return _titled(spec, "plot.trace()", title, counterfactual)


def marginals(explained: Explained) -> alt.LayerChart:
    """Each feature's share of people: observed, counterfactual, and the reference's as a tick.

    Means and quantiles of numbers are no shares; `Counterfactual.marginals` has them.
    """
    lines = explained.marginals if isinstance(explained, Explanation) else marginals_of(explained)
    shares = [line for line in lines if line.is_share]
    check(
        shares,
        "plot.marginals()",
        "needs a yes-or-no feature or a category",
        "got numbers only",
        "Read Counterfactual.marginals() instead.",
    )
    shown = sorted(shares, key=lambda line: -abs(line.shift))[:MOST_BARS]
    names = [
        one.feature if one.statistic == "1" else f"{one.feature} = {one.statistic}" for one in shown
    ]
    target, baseline = explained.group_names
    sides = {
        f"{target}, observed": "observed",
        f"{target}, counterfactual": "counterfactual",
        f"{baseline}, observed": "baseline",
    }
    points = [
        {"feature": name, "share": getattr(line, side), "of": label}
        for name, line in zip(names, shown, strict=True)
        for label, side in sides.items()
    ]
    bars = [
        {"feature": name, "from": line.observed, "to": line.counterfactual}
        for name, line in zip(names, shown, strict=True)
    ]
    height = ROW_HEIGHT * len(shown)
    spec = _spec(
        "marginals", points=points, bars=bars, names=names, sides=list(sides), height=height
    )
    closed = (
        explained.closed
        if isinstance(explained, Explanation)
        else explained.status is Status.CLOSED
    )
    title = (
        f"Inputs of {target} under which the {_names(explained)} gap would be "
        f"{'closed' if closed else 'narrower'}"
    )
    notes = _left_out("values", len(shown), len(shares))
    notes += ["means and quantiles of numbers are not drawn"] if len(shares) < len(lines) else []
    return _titled(spec, "plot.marginals()", title, explained, *notes)


def feature_scores(explained: Explained) -> alt.LayerChart:
    """How much of the change each feature alone brings about, as bars; influence as ticks."""
    scores = (
        explained.feature_scores
        if isinstance(explained, Explanation)
        else drivers.feature_scores(explained)
    )
    shown = scores[:MOST_BARS]
    what = ("change in the gap if only this feature moves", "influence it explains alone")
    rows = [
        {"feature": score.feature, "share": share, "what": name}
        for score in shown
        for name, share in zip(what, (score.share_of_gap, score.influence_share), strict=True)
    ]
    names = [score.feature for score in shown]
    spec = _spec("scores", rows=rows, names=names, what=what, height=ROW_HEIGHT * len(shown))
    title = f"Which inputs carry the {_names(explained)} gap of {explained.group_names[0]}"
    notes = _left_out("features", len(shown), len(scores))
    return _titled(spec, "plot.feature_scores()", title, explained, *notes)


def _names(explained: Explained) -> str:
    names = (
        explained.names
        if isinstance(explained, Explanation)
        else [disparity.name for disparity in explained.disparities]
    )
    return " and ".join(map(str.upper, names))


def _left_out(what: str, shown: int, there_are: int) -> list[str]:
    return [f"the first {shown} of {there_are} {what}"] if shown < there_are else []


def _titled(spec: Spec, why: str, title: str, explained: Explained, *notes: str) -> alt.LayerChart:
    """The chart under its title, the gap before and after, and what it leaves out."""
    altair = require("altair", extra="plot", why=why)
    before, after = (percent(gap, signed=True) for gap in (explained.before, explained.after))
    seen = "modelled" if explained.modelled else "observed"
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
    config = {"axis": _AXIS, "legend": _LEGEND, "view": {"stroke": None}}
    chart: alt.LayerChart = altair.LayerChart.from_dict(spec | {"title": heading, "config": config})
    return chart


def _spec(name: str, **values: Any) -> Spec:
    require("jinja2", extra="plot", why=f"plot.{name}()")
    from fairmend.report.templates import template

    spec: Spec = json.loads(template(f"charts/{name}.json.j2").render(values))
    return spec
