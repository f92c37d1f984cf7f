"""Charts of a counterfactual and of a report: what they show is here, how they look in ``charts/``.

The templates are Vega-Lite. Altair and Jinja are imported where used.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import isnan
from typing import TYPE_CHECKING, Any

from fairmend.data.naming import GroupNames
from fairmend.errors import check, require
from fairmend.explain import drivers
from fairmend.explain.marginals import marginals as marginals_of
from fairmend.measure.result import FOUR_FIFTHS, Gap
from fairmend.measure.wording import share as share_text
from fairmend.report.drawing import COLOURS, save
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
    from fairmend.repair.price_of_blindness import PriceOfBlindness

    Explained = Counterfactual | Explanation

__all__ = ["feature_scores", "marginals", "save", "trace"]

BLUE, VERMILION, GREY, INK = (COLOURS[name] for name in ("blue", "vermilion", "grey", "ink"))
MOST_BARS = 25
"""Charts of many features show this many, those that move most."""
ROW_HEIGHT = 20
BEFORE, AFTER = "the model alone", "with the repair"
SIGNED = "datum.value === 0 ? '0' : format(datum.value, '+~f')"
"""Labels of ticks along gaps."""
_AXIS = {"labelFontSize": 12, "titleFontSize": 12, "labelColor": INK, "titleColor": INK}
_LEGEND = {"labelFontSize": 12, "labelColor": INK}
Spec = dict[str, Any]
"""A chart in Vega-Lite, for a page."""


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
    spec, title, notes = marginals_spec(explained)
    return _titled(spec, "plot.marginals()", title, explained, *notes)


def marginals_spec(explained: Explained) -> tuple[Spec, str, list[str]]:
    """The chart of shares, its title, and what it leaves out."""
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
    numbers = ["means and quantiles of numbers are not drawn"] if len(shares) < len(lines) else []
    return spec, title, [*_left_out("values", len(shown), len(shares)), *numbers]


def feature_scores(explained: Explained) -> alt.LayerChart:
    """How much of the change each feature alone brings about, as bars; influence as ticks."""
    spec, title, notes = scores_spec(explained)
    return _titled(spec, "plot.feature_scores()", title, explained, *notes)


def scores_spec(explained: Explained) -> tuple[Spec, str, list[str]]:
    """The chart of scores, its title, and what it leaves out."""
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
    return spec, title, _left_out("features", len(shown), len(scores))


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


# -------------------------------------------------------------------- gaps and groups


def impact(before: ImpactTable, after: ImpactTable | None) -> Spec:
    """Impact ratios with intervals and the line at 0.8; one row a category."""
    rows = [
        _interval(before.names(line.category), side, line.ratio, line.ratio_low, line.ratio_high)
        for side, table in ((BEFORE, before), (AFTER, after))
        for line in (() if table is None else table.lines)
        if not isnan(line.ratio)
    ]
    names = [before.names(line.category) for line in before.lines]
    ticks = {"format": ".2f", "grid": True, "tickCount": 7}
    return _intervals(rows, names, "impact ratio: rate over the highest rate", ticks, FOUR_FIFTHS)


def gaps(before: Sequence[Gap], after: Sequence[Gap], names: GroupNames) -> Spec:
    """Gaps with intervals and the line at 0, before and after."""

    def title(gap: Gap) -> str:
        return f"{gap.metric}: {names(gap.target)} against {names(gap.baseline)}"

    rows = [
        _interval(title(gap), side, 100 * gap.gap, 100 * gap.low, 100 * gap.high)
        for side, gaps_ in ((BEFORE, before), (AFTER, after))
        for gap in gaps_
        if gap.judged
    ]
    ticks = {"labelExpr": SIGNED, "grid": True, "tickCount": 7}
    return _intervals(rows, [title(gap) for gap in before], "gap in percentage points", ticks, 0.0)


def _interval(name: str, side: str, value: float, low: float, high: float) -> dict[str, Any]:
    return {"name": name, "side": side, "value": value, "low": _known(low), "high": _known(high)}


def _intervals(
    rows: list[dict[str, Any]], names: list[str], title: str, ticks: Spec, line: float
) -> Spec:
    both = len({row["side"] for row in rows}) > 1
    return _spec(
        "intervals",
        rows=rows,
        spans=[row for row in rows if row["low"] is not None],
        names=names,
        title=title,
        ticks=ticks,
        line=line,
        both=both,
        height=max(2, len(names)) * 26 * (1.4 if both else 1),
    )


# -------------------------------------------------------------------- the repair


def edits(features: Sequence[EditedFeature]) -> Spec:
    """How often each feature is edited among the edited."""
    rows = [
        {
            "name": one.feature,
            "share": one.share_of_edited,
            "edit": typeset(one.how) if one.change else one.how,
        }
        for one in features[:MOST_BARS]
    ]
    names = [row["name"] for row in rows]
    return _spec("edits", rows=rows, names=names, height=max(2, len(rows)) * 22)


def flow(group: GroupOutcome, *, favours_positive: bool) -> Spec:
    """Decisions before on the left, after on the right, and who goes from which to which."""
    start, end = group.selected_before, group.selected_after
    if not favours_positive:
        start, end = 1 - start, 1 - end
    kept, between = start - group.lost, 0.12
    # (name, share, top edge on the left, top edge on the right), favourable on top; flipped
    # decisions cross the space between the two
    bands = [
        ("favourable before and after", kept, 0.0, 0.0),
        ("gains the favourable decision", group.gained, start + between, kept),
        ("loses the favourable decision", group.lost, kept, end + between),
        ("unfavourable before and after", 1 - start - group.gained,
         start + group.gained + between, end + group.lost + between),
    ]  # fmt: skip
    rows = [
        {"band": name, "x": x, "top": top, "foot": top + share}
        for name, share, left, right in bands
        if share > 0
        for x, top in ((0.0, left), (0.2, left), (0.8, right), (1.0, right))
    ]
    left, right = (
        [
            {"x": x, "y": y, "text": f"{name} {share_text(share)}"}
            for name, share, y in (
                ("favourable", favourable, favourable / 2),
                ("unfavourable", 1 - favourable, between + (1 + favourable) / 2),
            )
        ]
        for x, favourable in ((0.0, start), (1.0, end))
    )
    names = [name for name, *_ in bands]
    return _spec("flow", rows=rows, left=left, right=right, bands=names, between=between)


def frontier(points: Sequence[FrontierPoint], metric: str, start: float) -> Spec:
    """The gap with its interval, people edited, and accuracy as the level grows.

    The slider moves a line of its own for each level; only that of ``start`` is visible.
    """
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
    known = [point.accuracy for point in points if not isnan(point.accuracy)]
    window = [min(known) - 0.01, max(known) + 0.01] if known else []  # noise must not fill it
    return _spec("frontier", rows=rows, metric=metric, accuracies=window, signed=SIGNED)


def blindness(price: PriceOfBlindness) -> Spec:
    """Accuracy against the gap that is left, for repairs without the group and with it."""
    repairs = ["without the group", "reads the group"]
    start = {"level": 0.0, "gap": 100 * price.gap, "accuracy": price.accuracy,
             "low": price.accuracy, "high": price.accuracy}  # fmt: skip
    rows: list[dict[str, Any]] = [{**start, "repair": repair} for repair in repairs]
    rows += [
        {
            "repair": repairs[one.reads_group],
            "level": one.level,
            "gap": 100 * one.gap,
            "accuracy": one.accuracy,
            "low": one.accuracy_low,
            "high": one.accuracy_high,
        }
        for one in price.points
    ]
    ends = [min(row["low"] for row in rows) - 0.01, max(row["high"] for row in rows) + 0.01]
    return _spec(
        "blindness",
        rows=rows,
        metric=price.metric,
        repairs=repairs,
        accuracies=ends,
        signed=SIGNED,
    )


# -------------------------------------------------------------------- alternatives

_KINDS = {
    "current": VERMILION, "model": COLOURS["green"], "cut": GREY, "input held": COLOURS["sky"],
    "blind": BLUE, "reads the group": COLOURS["purple"],
}  # fmt: skip


def drawn_alternatives(found: Any) -> list[Any]:
    """The candidates to draw: not those that are worse than the model in gap and measure."""
    now = found.current
    return [
        one
        for one in found.candidates
        if one.judging.gap.judged
        and (
            one is now
            or abs(one.gap) < abs(now.gap)
            or one.judging.performance.value >= now.judging.performance.value
        )
    ]


def alternatives(found: Any) -> Spec:
    """Measure against gap, every candidate with its intervals, the margin as a band."""
    scale = 1.0 if found.relative_margin else 100.0
    best, now = found.best, found.current.judging.performance
    rows = [
        {
            "name": one.name,
            "kind": one.kind,
            "gap": 100 * one.judging.gap.gap,
            "low": 100 * one.judging.gap.low,
            "high": 100 * one.judging.gap.high,
            "measure": scale * one.judging.performance.value,
            "measure_low": scale * (now.value + one.judging.performance.difference_low),
            "measure_high": scale * (now.value + one.judging.performance.difference_high),
            "size": 200 if one in (best, found.current) else 55,
            "shape": "diamond" if one is best else "circle",
        }
        for one in drawn_alternatives(found)
    ]
    labels = [
        {"gap": 100 * one.gap, "measure": scale * one.judging.performance.value, "label": label}
        for one, label in ((found.current, "the model as it is"), (best, "best"))
        if one is not None
    ]
    kinds = [kind for kind in _KINDS if any(row["kind"] == kind for row in rows)]
    return _spec(
        "alternatives",
        rows=rows,
        labels=labels,
        metric=found.metric,
        title=found.measure if found.relative_margin else f"{found.measure}, per cent",
        ticks="format(datum.value, '~f')",
        signed=SIGNED,
        band=[scale * (now.value - now.margin), scale * (now.value + now.margin)],
        kinds=kinds,
        colours=[_KINDS[kind] for kind in kinds],
    )


# -------------------------------------------------------------------- how they look


def for_page(spec: Spec) -> Spec:
    """The chart in the page's fonts; space at the sides, as the reader's may be wider than ours."""
    config = {
        "font": "Arial, Liberation Sans, Helvetica, sans-serif",
        "padding": {"left": 24, "right": 24, "top": 2, "bottom": 2},
        "axis": _AXIS | {"titleFontWeight": "normal", "gridColor": "#E6E6E6"},
        "legend": _LEGEND | {"columnPadding": 24},
        "view": {"stroke": None},
    }
    return spec | {"config": config}


def _spec(name: str, **values: Any) -> Spec:
    require("jinja2", extra="plot", why=f"plot.{name}()")
    from fairmend.report.templates import template

    spec: Spec = json.loads(template(f"charts/{name}.json.j2").render(values))
    return spec


def _known(value: float) -> float | None:
    return None if isnan(value) else value
