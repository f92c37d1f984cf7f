"""Charts of a report. They draw what they are handed and compute nothing but places.

Colours are Okabe and Ito's; shapes, dashes and positions say the same again without colour.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import Any

import altair

from fairmend.data.naming import GroupNames
from fairmend.errors import DataError
from fairmend.measure.result import FOUR_FIFTHS, Gap
from fairmend.measure.wording import share as share_text
from fairmend.report import plot
from fairmend.report.filing import ImpactTable
from fairmend.report.findings import Explanation, FrontierPoint
from fairmend.report.html.table import typeset
from fairmend.report.plot import BLUE, GREY, INK, MOST_BARS, VERMILION
from fairmend.report.report import EditedFeature, GroupOutcome

__all__ = ["edits", "feature_scores", "flow", "frontier", "gaps", "impact", "marginals"]

alt: Any = altair  # its annotations do not know lists of names
WIDTH, WIDE, ROW = 420, 880, 26
SIDES = {"left": 24, "right": 24, "top": 2, "bottom": 2}
GREEN, PALE = "#009E73", "#DADADA"
BEFORE, AFTER = "the model alone", "with the repair"
SIGNED = "datum.value === 0 ? '0' : format(datum.value, '+~f')"
"""Ticks of gaps, by which side of none they are on."""
CURSOR = "cursor"
"""The name of the marks that the slider moves, one per level."""


def impact(before: ImpactTable, after: ImpactTable | None) -> Any:
    """Impact ratios with intervals and the line at 0.8; one row a category."""
    sides = [(BEFORE, before), *([(AFTER, after)] if after is not None else [])]
    rows = [
        {
            "name": before.names(line.category),
            "side": side,
            "value": line.ratio,
            "low": _known(line.ratio_low),
            "high": _known(line.ratio_high),
        }
        for side, table in sides
        for line in table.lines
        if not isnan(line.ratio)
    ]
    names = [before.names(line.category) for line in before.lines]
    ticks = alt.Axis(format=".2f", grid=True, tickCount=7)
    return _intervals(rows, names, "impact ratio: rate over the highest rate", ticks, FOUR_FIFTHS)


def gaps(before: Sequence[Gap], after: Sequence[Gap] = (), names: GroupNames | None = None) -> Any:
    """Gaps with intervals and the line at 0, before and after."""
    named = names or GroupNames()

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


def _known(value: float) -> float | None:
    return None if isnan(value) else value


def _intervals(
    rows: list[dict[str, Any]], names: list[str], title: str, ticks: Any, line: float
) -> Any:
    sides = list(dict.fromkeys(row["side"] for row in rows))
    legend = alt.Legend(title=None, orient="top", symbolSize=90) if len(sides) > 1 else None
    tint = alt.Scale(domain=[BEFORE, AFTER], range=[VERMILION, BLUE])
    form_of = alt.Scale(domain=[BEFORE, AFTER], range=["square", "circle"])
    placed = {
        "y": alt.Y("name:N", sort=names, title=None, axis=_labels()),
        "yOffset": alt.YOffset("side:N", sort=[BEFORE, AFTER]),
        "color": alt.Color("side:N", scale=tint, legend=legend),
    }
    judged = [row for row in rows if row["low"] is not None]
    along = alt.X("low:Q", title=title, axis=ticks, scale=alt.Scale(zero=True))
    spans = (
        alt.Chart(alt.Data(values=judged))
        .mark_rule(strokeWidth=2)
        .encode(x=along, x2="high:Q", **placed)
    )
    marks = (
        alt.Chart(alt.Data(values=rows))
        .mark_point(filled=True, size=70, opacity=1)
        .encode(
            x=alt.X("value:Q", title=title, axis=ticks),
            **placed,
            shape=alt.Shape("side:N", scale=form_of, legend=legend),
        )
    )
    rule = (
        alt.Chart(alt.Data(values=[{"at": line}]))
        .mark_rule(color=INK, strokeDash=[5, 3])
        .encode(x="at:Q")
    )
    step = ROW * (1.4 if len(sides) > 1 else 1)
    return _plain(
        (rule + spans + marks).properties(
            width=WIDE,
            height=max(2, len(names)) * step,
            autosize=alt.AutoSizeParams(type="fit-x", contains="padding"),
        )
    )


# -------------------------------------------------------------------- the explanation


def marginals(found: Explanation) -> Any | None:
    """The dumbbell; None where no feature has shares to draw."""
    try:
        return _untitled(plot.marginals(found))
    except DataError:
        return None


def feature_scores(found: Explanation) -> Any:
    """Bars of what each feature carries."""
    return _untitled(plot.feature_scores(found))


# -------------------------------------------------------------------- the repair


def edits(features: Sequence[EditedFeature]) -> Any:
    """How often each feature is edited among the edited."""
    rows = [
        {
            "name": one.feature,
            "share": one.share_of_edited,
            "edit": typeset(one.how) if one.change else one.how,
        }
        for one in features[:MOST_BARS]
    ]
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X(
            "share:Q",
            title="share of the edited people",
            axis=alt.Axis(format="~%", tickCount=6),
        ),
        y=alt.Y("name:N", sort=[row["name"] for row in rows], title=None, axis=_labels()),
    )
    said = base.mark_text(align="left", dx=5, color=INK, fontSize=12, limit=260).encode(
        text="edit:N"
    )
    return _plain(
        (base.mark_bar(color=BLUE, height=12) + said).properties(
            width=WIDTH, height=max(2, len(rows)) * 22
        )
    )


def flow(group: GroupOutcome, *, favours_positive: bool) -> Any:
    """Decisions before on the left, after on the right, and who goes from which to which."""
    start, end = group.selected_before, group.selected_after
    if not favours_positive:
        start, end = 1 - start, 1 - end
    kept, apart = start - group.lost, 0.12
    # (name, share, top edge on the left, top edge on the right), favourable on top; the gap between
    # the two decisions is what those whose decision turns have to cross
    bands = [
        ("favourable before and after", kept, 0.0, 0.0),
        ("gains the favourable decision", group.gained, start + apart, kept),
        ("loses the favourable decision", group.lost, kept, end + apart),
        ("unfavourable before and after", 1 - start - group.gained,
         start + group.gained + apart, end + group.lost + apart),
    ]  # fmt: skip
    order = [name for name, *_ in bands]
    rows = [
        {"band": name, "x": x, "top": top, "foot": top + share}
        for name, share, left, right in bands
        if share > 0
        for x, top in ((0.0, left), (0.2, left), (0.8, right), (1.0, right))
    ]
    ends = [
        {"x": x, "y": y, "text": f"{said} {share_text(share)}"}
        for x, favourable in ((0.0, start), (1.0, end))
        for said, share, y in (
            ("favourable", favourable, favourable / 2),
            ("unfavourable", 1 - favourable, apart + (1 + favourable) / 2),
        )
    ]
    depth = alt.Scale(domain=[1 + apart, 0])
    hidden = alt.Axis(labels=False, ticks=False, domain=False, grid=False, title=None)
    ribbons = (
        alt.Chart(alt.Data(values=rows))
        .mark_area(interpolate="monotone", opacity=1, stroke="white", strokeWidth=1)
        .encode(
            x=alt.X("x:Q", axis=hidden, scale=alt.Scale(domain=[0, 1])),
            y=alt.Y("top:Q", axis=hidden, scale=depth),
            y2="foot:Q",
            color=alt.Color(
                "band:N",
                scale=alt.Scale(domain=order, range=["#56B4E9", GREEN, VERMILION, PALE]),
                legend=alt.Legend(title=None, orient="bottom", columns=2, labelLimit=300),
            ),
        )
    )
    texts = [
        alt.Chart(alt.Data(values=[row for row in ends if row["x"] == x]))
        .mark_text(align=align, dx=dx, color=INK, fontSize=12)
        .encode(x="x:Q", y=alt.Y("y:Q", scale=depth), text="text:N")
        for x, align, dx in ((0.0, "right", -8), (1.0, "left", 8))
    ]
    return _plain(alt.layer(ribbons, *texts).properties(width=320, height=220))


def frontier(points: Sequence[FrontierPoint], metric: str, start: float) -> Any:
    """The gap with its interval, people edited, and accuracy as the level grows.

    A line for each level waits for the slider; only that of ``start`` can be seen.
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
    data = alt.Data(values=rows)
    along = alt.X(
        "level:Q", title="level", axis=alt.Axis(format=".1f", values=[0, 0.2, 0.4, 0.6, 0.8, 1])
    )
    zero = alt.Chart(alt.Data(values=[{"at": 0}])).mark_rule(color=INK, strokeDash=[5, 3])
    opacity = alt.Opacity("at_start:Q", scale=None, legend=None)

    def cursor(name: str) -> Any:
        rule = alt.Chart(data, name=name).mark_rule(color=VERMILION, strokeWidth=2)
        return rule.encode(x=along, opacity=opacity)

    def line(field: str, title: str, ticks: Any, colour: str, **scale: Any) -> Any:
        return (
            alt.Chart(data)
            .mark_line(color=colour, point={"filled": True, "size": 40, "color": colour})
            .encode(
                x=along,
                y=alt.Y(f"{field}:Q", title=title, axis=ticks, scale=alt.Scale(**scale)),
            )
        )

    band = (
        alt.Chart(data).mark_area(color=BLUE, opacity=0.18).encode(x=along, y="low:Q", y2="high:Q")
    )
    signed, share = alt.Axis(labelExpr=SIGNED), alt.Axis(format="~%")
    panels = [
        zero.encode(y="at:Q") + band + line("gap", f"{metric} gap, points", signed, BLUE),
        line("edited", "share of the group edited", share, GREEN),
    ]
    accuracies = [point.accuracy for point in points]
    if not any(map(isnan, accuracies)):
        window = [min(accuracies) - 0.01, max(accuracies) + 0.01]  # noise must not fill the panel
        panels.append(line("accuracy", "accuracy of everybody", share, GREY, domain=window))
    sized = [
        (panel + cursor(f"{CURSOR}{i}")).properties(width=200, height=190)
        for i, panel in enumerate(panels)
    ]
    return _plain(alt.hconcat(*sized, spacing=28))


# -------------------------------------------------------------------- how they look


def _labels() -> Any:
    return alt.Axis(labelLimit=240, ticks=False, domain=False)


def _plain(chart: Any) -> Any:
    return (
        # room at the sides, because the reader's font may be wider than the one measured here
        chart.configure(font="Arial, Liberation Sans, Helvetica, sans-serif", padding=SIDES)
        .configure_axis(
            labelFontSize=12,
            titleFontSize=12,
            titleFontWeight="normal",
            labelColor=INK,
            titleColor=INK,
            gridColor="#E6E6E6",
        )
        .configure_legend(labelFontSize=12, labelColor=INK, columnPadding=24)
        .configure_view(stroke=None)
    )


def _untitled(chart: Any) -> Any:
    """A chart of `fairmend.report.plot` without its title: the page has it as text."""
    bare = chart.copy(deep=False)
    bare.title = bare.config = alt.Undefined
    return _plain(bare)
