"""Charts of a counterfactual and of a report. They draw what they get and compute only positions.

Altair is imported where used. Colours are Okabe and Ito's, which people with any kind of colour
vision can distinguish; shapes, dashes and positions say the same again.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import TYPE_CHECKING, Any

from fairmend.data.naming import GroupNames
from fairmend.errors import check, require
from fairmend.explain import drivers
from fairmend.measure.result import FOUR_FIFTHS, Gap
from fairmend.measure.wording import share as share_text
from fairmend.report.drawing import save
from fairmend.report.edits import EditedFeature
from fairmend.report.filing import ImpactTable
from fairmend.report.findings import Explanation, FrontierPoint
from fairmend.report.report import GroupOutcome
from fairmend.report.table import typeset
from fairmend.status import Status
from fairmend.tables import percent

if TYPE_CHECKING:
    import altair as alt

    from fairmend.explain.counterfactual import Counterfactual

    Explained = Counterfactual | Explanation

__all__ = [
    "edits",
    "feature_scores",
    "flow",
    "for_page",
    "frontier",
    "gaps",
    "impact",
    "marginals",
    "save",
    "trace",
]

BLUE, VERMILION, GREY, INK = "#0072B2", "#D55E00", "#767676", "#333333"
GREEN, SKY, PALE = "#009E73", "#56B4E9", "#DADADA"
MOST_BARS = 25
"""Charts of many features show this many, those that move most."""
WIDTH, ROW_HEIGHT = 460, 20
PAGE_WIDTH, PAGE_ROW = 880, 26
BEFORE, AFTER = "the model alone", "with the repair"
SIGNED = "datum.value === 0 ? '0' : format(datum.value, '+~f')"
"""Labels of ticks along gaps."""
CURSOR = "cursor"
"""The name of the marks that the slider moves, one per level."""
_AXIS = {"labelFontSize": 12, "titleFontSize": 12, "labelColor": INK, "titleColor": INK}
_LEGEND = {"labelFontSize": 12, "labelColor": INK}


# -------------------------------------------------------------------- a counterfactual


def trace(found: Counterfactual) -> alt.LayerChart:
    """The disparity at each iteration of a descent, on audit and holdout data (Figure 2).

    >>> from fairmend import counterfactual_data, datasets
    >>> data = datasets.toy_descent().tabulated()
    >>> found = counterfactual_data(data, disparity="fpr", method="descent")
    >>> type(trace(found)).__name__
    'LayerChart'
    """
    alt = _altair("plot.trace()")
    check(
        found.trace is not None,
        "plot.trace()",
        "needs the course of a descent",
        "got a projection, which has none",
        "Use method='descent'.",
    )
    assert found.trace is not None
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
        _chart(points)
        .mark_line(strokeWidth=2)
        .encode(
            x=alt.X("iteration:Q", axis=alt.Axis(tickMinStep=1, format="d", grid=False)),
            y=alt.Y("disparity:Q", title=f"{name} gap", axis=alt.Axis(format="~%")),
            color=alt.Color("data:N", scale=scale, legend=legend),
            strokeDash=alt.StrokeDash("data:N", scale=dash, legend=legend),
        )
    )
    zero = _chart([{"zero": 0}]).mark_rule(color=GREY).encode(y="zero:Q")
    return _titled(
        (zero + lines).properties(width=WIDTH, height=260),
        f"{name} gap of {found.group_names[0]} against {found.group_names[1]} during the descent",
        found,
    )


def marginals(found: Explained) -> alt.LayerChart:
    """Each feature's share of people: observed, counterfactual, and the reference's as a tick.

    Means and quantiles of numbers are no shares; `Counterfactual.marginals` has them.
    """
    alt = _altair("plot.marginals()")
    lines = _explained(found, "marginals")
    shares = [line for line in lines if line.is_share]
    check(
        shares,
        "plot.marginals()",
        "needs a yes-or-no feature or a category",
        "got numbers only",
        "Read Counterfactual.marginals() instead.",
    )
    shown = sorted(shares, key=lambda line: -abs(line.shift))[:MOST_BARS]
    labels = [
        one.feature if one.statistic == "1" else f"{one.feature} = {one.statistic}" for one in shown
    ]
    target, baseline = found.group_names
    sides = {
        f"{target}, observed": "observed",
        f"{target}, counterfactual": "counterfactual",
        f"{baseline}, observed": "baseline",
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
    rows = alt.Y("feature:N", sort=labels, title=None, axis=alt.Axis(labelLimit=260, grid=True))
    share = {"title": "share of people", "axis": alt.Axis(format="~%", grid=False, tickCount=6)}
    legend = alt.Legend(title=None, orient="top", labelLimit=300, symbolSize=110)

    def by_side(channel: Any, *values: str) -> Any:
        return channel("of:N", scale=alt.Scale(domain=list(sides), range=values), legend=legend)

    moved = (
        _chart(bars)
        .mark_rule(color=BLUE, opacity=0.45, strokeWidth=3)
        .encode(x=alt.X("from:Q", **share), x2="to:Q", y=rows)
    )
    marks = (
        _chart(points)
        .mark_point(size=80, strokeWidth=2, opacity=1)
        .encode(
            x=alt.X("share:Q", **share),
            y=rows,
            shape=by_side(alt.Shape, "circle", "circle", "M0,-1L0,1"),
            fill=by_side(alt.Fill, "white", BLUE, "transparent"),
            stroke=by_side(alt.Stroke, GREY, BLUE, VERMILION),
        )
    )
    closed = found.closed if isinstance(found, Explanation) else found.status is Status.CLOSED
    return _titled(
        (moved + marks).properties(width=WIDTH, height=ROW_HEIGHT * len(shown)),
        f"Inputs of {target} under which the {_names(found)} gap would be "
        f"{'closed' if closed else 'narrower'}",
        found,
        *_left_out("values", len(shown), len(shares)),
        *(["means and quantiles of numbers are not drawn"] if len(shares) < len(lines) else []),
    )


def feature_scores(found: Explained) -> alt.LayerChart:
    """How much of the change each feature alone brings about, as bars; influence as ticks."""
    alt = _altair("plot.feature_scores()")
    scores = _explained(found, "feature_scores")
    shown = scores[:MOST_BARS]
    what = ("change in the gap if only this feature moves", "influence it explains alone")
    points = [
        {"feature": score.feature, "share": share, "what": name}
        for score in shown
        for name, share in zip(what, (score.share_of_gap, score.influence_share), strict=True)
    ]
    order = [score.feature for score in shown]
    legend = alt.Legend(
        title=None, orient="top", labelLimit=300, symbolType="square", symbolOpacity=1
    )
    tint = alt.Scale(domain=list(what), range=[BLUE, VERMILION])
    chart = _chart(points).encode(
        x=alt.X("share:Q", title="share of the whole", axis=alt.Axis(format="~%", tickCount=7)),
        y=alt.Y("feature:N", sort=order, title=None, axis=alt.Axis(labelLimit=260)),
        color=alt.Color("what:N", scale=tint, legend=legend),
    )
    bars = chart.mark_bar(height=9, opacity=1).transform_filter(alt.datum.what == what[0])
    ticks = chart.mark_tick(thickness=3, height=15, opacity=1)
    return _titled(
        (bars + ticks.transform_filter(alt.datum.what == what[1])).properties(
            width=WIDTH, height=ROW_HEIGHT * len(shown)
        ),
        f"Which inputs carry the {_names(found)} gap of {found.group_names[0]}",
        found,
        *_left_out("features", len(shown), len(scores)),
    )


def _explained(found: Explained, what: str) -> Sequence[Any]:
    lines: Sequence[Any] = (
        getattr(found, what) if isinstance(found, Explanation) else getattr(drivers, what)(found)
    )
    return lines


def _names(found: Explained) -> str:
    names = (
        found.names
        if isinstance(found, Explanation)
        else [disparity.name for disparity in found.disparities]
    )
    return " and ".join(map(str.upper, names))


def _left_out(what: str, shown: int, there_are: int) -> list[str]:
    return [f"the first {shown} of {there_are} {what}"] if shown < there_are else []


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
    themed: alt.LayerChart = (
        chart.properties(title=heading)
        .configure_axis(**_AXIS)
        .configure_legend(**_LEGEND)
        .configure_view(stroke=None)
    )
    return themed


# -------------------------------------------------------------------- gaps and groups


def impact(before: ImpactTable, after: ImpactTable | None) -> Any:
    """Impact ratios with intervals and the line at 0.8; one row a category."""
    alt = _altair("plot.impact()")
    rows = [
        {
            "name": before.names(line.category),
            "side": side,
            "value": line.ratio,
            "low": _known(line.ratio_low),
            "high": _known(line.ratio_high),
        }
        for side, table in ((BEFORE, before), (AFTER, after))
        for line in (() if table is None else table.lines)
        if not isnan(line.ratio)
    ]
    names = [before.names(line.category) for line in before.lines]
    ticks = alt.Axis(format=".2f", grid=True, tickCount=7)
    return _intervals(rows, names, "impact ratio: rate over the highest rate", ticks, FOUR_FIFTHS)


def gaps(before: Sequence[Gap], after: Sequence[Gap] = (), names: GroupNames | None = None) -> Any:
    """Gaps with intervals and the line at 0, before and after."""
    alt, named = _altair("plot.gaps()"), names or GroupNames()

    def title(gap: Gap) -> str:
        return f"{gap.metric}: {named(gap.target)} against {named(gap.baseline)}"

    rows = [
        {
            "name": title(gap),
            "side": side,
            "value": 100 * gap.gap,
            "low": 100 * gap.low,
            "high": 100 * gap.high,
        }
        for side, found in ((BEFORE, before), (AFTER, after))
        for gap in found
        if gap.judged
    ]
    ticks = alt.Axis(labelExpr=SIGNED, grid=True, tickCount=7)
    return _intervals(rows, [title(gap) for gap in before], "gap in percentage points", ticks, 0.0)


def _intervals(
    rows: list[dict[str, Any]], names: list[str], title: str, ticks: Any, line: float
) -> Any:
    alt = _altair("plot")
    sides = list(dict.fromkeys(row["side"] for row in rows))
    legend = alt.Legend(title=None, orient="top", symbolSize=90) if len(sides) > 1 else None
    tint = alt.Scale(domain=[BEFORE, AFTER], range=[VERMILION, BLUE])
    shapes = alt.Scale(domain=[BEFORE, AFTER], range=["square", "circle"])
    placed = {
        "y": alt.Y("name:N", sort=names, title=None, axis=_labels(alt)),
        "yOffset": alt.YOffset("side:N", sort=[BEFORE, AFTER]),
        "color": alt.Color("side:N", scale=tint, legend=legend),
    }
    along = alt.X("low:Q", title=title, axis=ticks, scale=alt.Scale(zero=True))
    spans = (
        _chart([row for row in rows if row["low"] is not None])
        .mark_rule(strokeWidth=2)
        .encode(x=along, x2="high:Q", **placed)
    )
    marks = (
        _chart(rows)
        .mark_point(filled=True, size=70, opacity=1)
        .encode(
            x=alt.X("value:Q", title=title, axis=ticks),
            **placed,
            shape=alt.Shape("side:N", scale=shapes, legend=legend),
        )
    )
    rule = _chart([{"at": line}]).mark_rule(color=INK, strokeDash=[5, 3]).encode(x="at:Q")
    step = PAGE_ROW * (1.4 if len(sides) > 1 else 1)
    return (rule + spans + marks).properties(
        width=PAGE_WIDTH,
        height=max(2, len(names)) * step,
        autosize=alt.AutoSizeParams(type="fit-x", contains="padding"),
    )


# -------------------------------------------------------------------- the repair


def edits(features: Sequence[EditedFeature]) -> Any:
    """How often each feature is edited among the edited."""
    alt = _altair("plot.edits()")
    rows = [
        {
            "name": one.feature,
            "share": one.share_of_edited,
            "edit": typeset(one.how) if one.change else one.how,
        }
        for one in features[:MOST_BARS]
    ]
    shares = alt.Axis(format="~%", tickCount=6)
    base = _chart(rows).encode(
        x=alt.X("share:Q", title="share of the edited people", axis=shares),
        y=alt.Y("name:N", sort=[row["name"] for row in rows], title=None, axis=_labels(alt)),
    )
    texts = base.mark_text(align="left", dx=5, color=INK, fontSize=12, limit=260)
    return (base.mark_bar(color=BLUE, height=12) + texts.encode(text="edit:N")).properties(
        width=420, height=max(2, len(rows)) * 22
    )


def flow(group: GroupOutcome, *, favours_positive: bool) -> Any:
    """Decisions before on the left, after on the right, and who goes from which to which."""
    alt = _altair("plot.flow()")
    start, end = group.selected_before, group.selected_after
    if not favours_positive:
        start, end = 1 - start, 1 - end
    kept, between = start - group.lost, 0.12
    # (name, colour, share, top edge on the left, on the right), favourable on top; flipped
    # decisions cross the space between the two
    bands = [
        ("favourable before and after", SKY, kept, 0.0, 0.0),
        ("gains the favourable decision", GREEN, group.gained, start + between, kept),
        ("loses the favourable decision", VERMILION, group.lost, kept, end + between),
        ("unfavourable before and after", PALE, 1 - start - group.gained,
         start + group.gained + between, end + group.lost + between),
    ]  # fmt: skip
    rows = [
        {"band": name, "x": x, "top": top, "foot": top + share}
        for name, _, share, left, right in bands
        if share > 0
        for x, top in ((0.0, left), (0.2, left), (0.8, right), (1.0, right))
    ]
    depth = alt.Scale(domain=[1 + between, 0])
    hidden = alt.Axis(labels=False, ticks=False, domain=False, grid=False, title=None)
    names, colours = ([band[i] for band in bands] for i in (0, 1))
    ribbons = (
        _chart(rows)
        .mark_area(interpolate="monotone", opacity=1, stroke="white", strokeWidth=1)
        .encode(
            x=alt.X("x:Q", axis=hidden, scale=alt.Scale(domain=[0, 1])),
            y=alt.Y("top:Q", axis=hidden, scale=depth),
            y2="foot:Q",
            color=alt.Color(
                "band:N",
                scale=alt.Scale(domain=names, range=colours),
                legend=alt.Legend(title=None, orient="bottom", columns=2, labelLimit=300),
            ),
        )
    )

    def ends(x: float, favourable: float, align: str, dx: int) -> Any:
        texts = [
            {"x": x, "y": y, "text": f"{name} {share_text(share)}"}
            for name, share, y in (
                ("favourable", favourable, favourable / 2),
                ("unfavourable", 1 - favourable, between + (1 + favourable) / 2),
            )
        ]
        marks = _chart(texts).mark_text(align=align, dx=dx, color=INK, fontSize=12)
        return marks.encode(x="x:Q", y=alt.Y("y:Q", scale=depth), text="text:N")

    layers = (ribbons, ends(0.0, start, "right", -8), ends(1.0, end, "left", 8))
    return alt.layer(*layers).properties(width=320, height=220)


def frontier(points: Sequence[FrontierPoint], metric: str, start: float) -> Any:
    """The gap with its interval, people edited, and accuracy as the level grows.

    The slider moves a line of its own for each level; only that of ``start`` is visible.
    """
    alt = _altair("plot.frontier()")
    rows = [
        {
            "level": point.level,
            "gap": _known(100 * point.gap),
            "low": _known(100 * point.low),
            "high": _known(100 * point.high),
            "edited": point.edited,
            "accuracy": _known(point.accuracy),
            "at_start": 1.0 if point.level == start else 0.0,
        }
        for point in points
    ]
    levels = alt.Axis(format=".1f", values=[0, 0.2, 0.4, 0.6, 0.8, 1])
    along = alt.X("level:Q", title="level", axis=levels)

    def panel(field: str, title: str, ticks: Any, colour: str, **scale: Any) -> Any:
        mark = {"filled": True, "size": 40, "color": colour}
        line = _chart(rows).mark_line(color=colour, point=mark)
        upright = alt.Y(f"{field}:Q", title=title, axis=ticks, scale=alt.Scale(**scale))
        return line.encode(x=along, y=upright)

    zero = _chart([{"at": 0}]).mark_rule(color=INK, strokeDash=[5, 3]).encode(y="at:Q")
    band = _chart(rows).mark_area(color=BLUE, opacity=0.18)
    band = band.encode(x=along, y="low:Q", y2="high:Q")
    signed, share = alt.Axis(labelExpr=SIGNED), alt.Axis(format="~%")
    panels = [
        zero + band + panel("gap", f"{metric} gap, points", signed, BLUE),
        panel("edited", "share of the group edited", share, GREEN),
    ]
    accuracies = [point.accuracy for point in points]
    if not any(map(isnan, accuracies)):
        window = [min(accuracies) - 0.01, max(accuracies) + 0.01]  # noise must not fill the panel
        panels.append(panel("accuracy", "accuracy of everybody", share, GREY, domain=window))
    cursor = (
        _chart(rows)
        .mark_rule(color=VERMILION, strokeWidth=2)
        .encode(x=along, opacity=alt.Opacity("at_start:Q", scale=None, legend=None))
    )
    sized = [
        (each + cursor.properties(name=f"{CURSOR}{i}")).properties(width=200, height=190)
        for i, each in enumerate(panels)
    ]
    return alt.hconcat(*sized, spacing=28)


# -------------------------------------------------------------------- how they look


def for_page(chart: Any) -> Any:
    """The chart as a page shows it: without its title, which the page has as text."""
    alt = _altair("to_html()")
    bare = chart.copy(deep=False)
    if "title" in bare._kwds:
        bare.title = alt.Undefined
    bare.config = alt.Undefined
    # space at the sides, because the reader's font may be wider than the one measured here
    padding = {"left": 24, "right": 24, "top": 2, "bottom": 2}
    return (
        bare.configure(font="Arial, Liberation Sans, Helvetica, sans-serif", padding=padding)
        .configure_axis(**_AXIS, titleFontWeight="normal", gridColor="#E6E6E6")
        .configure_legend(**_LEGEND, columnPadding=24)
        .configure_view(stroke=None)
    )


def _altair(why: str) -> Any:
    return require("altair", extra="plot", why=why)


def _chart(rows: Sequence[dict[str, Any]]) -> Any:
    alt = _altair("plot")
    return alt.Chart(alt.Data(values=rows))


def _labels(alt: Any) -> Any:
    return alt.Axis(labelLimit=240, ticks=False, domain=False)


def _known(value: float) -> float | None:
    return None if isnan(value) else value
