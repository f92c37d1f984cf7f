"""The charts of pages and cards as Vega-Lite, for Altair: the same marks over the same axes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from math import isfinite
from textwrap import wrap
from typing import Any

from fairmend.report.chart import NAN, Axis, Mark, Plane, Point, Row, RowChart
from fairmend.report.drawing import COLOURS

__all__ = ["Spec", "chart_spec", "title_spec"]

Spec = dict[str, Any]
"""A chart in Vega-Lite."""
WIDTH, LANE_HEIGHT, PLANE_HEIGHT = 460, 24, 320
TWO_LINES = 38
"""Of a row with something beneath its name."""
_COLOURS = {
    "before": "vermilion", "after": "blue", "third": "green", "fourth": "purple", "fifth": "grey",
    "bar": "grey", "reference": "ink", "plain": "ink", "bar after": "blue",
    "bar before": "vermilion",
}  # fmt: skip
"""Of each side, as the style sheet has them."""


def chart_spec(chart: RowChart | Plane) -> Spec:
    """One chart; a spec that stands alone or beneath another."""
    layers = _row_layers(chart) if isinstance(chart, RowChart) else _plane_layers(chart)
    height = _height(chart) if isinstance(chart, RowChart) else PLANE_HEIGHT
    return {
        "title": title_spec(chart.caption, *wrap(chart.beneath, 90)),
        "width": WIDTH,
        "height": height,
        "layer": layers,
    }


def _height(chart: RowChart) -> int:
    least = TWO_LINES if any(row.beneath for row in chart.rows) else LANE_HEIGHT
    return max(least, LANE_HEIGHT * len(chart.lines)) * len(chart.rows)


def title_spec(text: str, *beneath: str) -> Spec:
    """What stands above a chart."""
    return {
        "text": text, "subtitle": list(beneath), "anchor": "start", "frame": "group",
        "fontSize": 14, "subtitleFontSize": 12, "subtitleColor": COLOURS["grey"], "offset": 8,
    }  # fmt: skip


def _layer(values: Iterable[Spec], mark: Spec, **encoding: Any) -> list[Spec]:
    """A layer, or none where it has nothing to show."""
    rows = list(values)
    return [{"data": {"values": rows}, "mark": mark, "encoding": encoding}] if rows else []


def _axis(axis: Axis, field: str) -> Spec:
    """The axis of a page: its ends, its ticks and their texts."""
    ticks, texts = [tick for tick, _ in axis.ticks], [text for _, text in axis.ticks]
    step = (axis.high - axis.low) / max(1, len(ticks) - 1)
    place = f"round((datum.value - {axis.low!r}) / {step!r})"
    return {
        "field": field,
        "type": "quantitative",
        "title": axis.title or None,
        "scale": {"domain": [axis.low, axis.high], "nice": False, "zero": False},
        "axis": {"values": ticks, "labelExpr": f"{json.dumps(texts)}[{place}]"},
    }


def _colour(legend: tuple[tuple[str, str], ...], sides: Iterable[str]) -> Spec:
    """The colour of each side, named as the legend has it."""
    words = dict(legend)
    used = list(dict.fromkeys([*words, *sides]))
    return {
        "field": "of",
        "type": "nominal",
        "scale": {
            "domain": [words.get(side, side) for side in used],
            "range": [COLOURS[_COLOURS[side]] for side in used],
        },
        "legend": {
            "title": None,
            "orient": "top",
            "labelLimit": 300,
            "values": list(words.values()),
            "symbolType": "circle",
            "symbolOpacity": 1,
            "columns": 3,
        }
        if words
        else None,
    }


def _point(side: str) -> Spec:
    """The model alone is a ring, the reference a line, all else a dot."""
    if side == "reference":
        return {"type": "tick", "orient": "vertical", "thickness": 3, "size": 16}
    fill = {"fill": "white"} if side == "before" else {"filled": True}
    return {"type": "point", "size": 80, "strokeWidth": 2, "opacity": 1, **fill}


# -------------------------------------------------------------------- rows of marks


def _row_layers(chart: RowChart) -> list[Spec]:
    """From the back: the guide, bands, intervals, the middle half, points."""
    marks = [(at, row, mark) for at, row in enumerate(chart.rows) for mark in row.marks
             if mark.is_known]  # fmt: skip
    sides = list(dict.fromkeys(mark.side for _, _, mark in marks))
    common = _row_places(chart) | {"color": _colour(chart.legend, sides)}
    x, words = _axis(chart.axis, "value"), dict(chart.legend)

    def entry(at: int, row: Row, mark: Mark, value: float, **end: float) -> Spec:
        on_lane = mark.side in chart.lines
        lane = chart.lines.index(mark.side) if on_lane else max(0, len(chart.lines) - 1) / 2
        texts = {"name": row.name, "of": words.get(mark.side, mark.side),
                 "figures": mark.text or row.says}  # fmt: skip
        return {"row": at, "lane": lane, **texts, "value": value, **end}

    def lines(ends: Callable[[Mark], tuple[float, float]], **look: Any) -> list[Spec]:
        shown = [
            entry(*one, low, end=high)
            for one in marks
            for low, high in [ends(one[2])]
            if isfinite(low) and isfinite(high)
        ]
        return _layer(shown, {"type": "rule", **look}, **common, x=x, x2={"field": "end"})

    bars = any(side.startswith("bar") for side in sides)
    layers = _guides(chart.guide, None)
    layers += lines(lambda one: (one.base, one.value), strokeWidth=11,
                    opacity=0.8 if bars else 0.25)  # fmt: skip
    layers += lines(lambda one: (one.low, one.high), strokeWidth=2.5)
    layers += lines(lambda one: one.middle or (NAN, NAN), strokeWidth=8, opacity=0.35)
    tips = [{"field": name, "type": "nominal"} for name in ("name", "of", "figures")]
    for side in sides:
        if not side.startswith("bar"):
            shown = [entry(*one, one[2].value) for one in marks if one[2].side == side]
            layers += _layer(shown, _point(side), **common, x=x, tooltip=tips)
    return layers


def _row_places(chart: RowChart) -> Spec:
    """A row's name over what stands beneath it; each side on its line."""
    labels = [[row.name, row.beneath] if row.beneath else [row.name] for row in chart.rows]
    two_lines = any(row.beneath for row in chart.rows)
    axis = {"labelExpr": f"{json.dumps(labels)}[datum.value]", "labelLimit": 280, "ticks": False,
            "domain": False, "labelOffset": -7 if two_lines else 0}  # fmt: skip
    scale = {"domain": list(range(len(labels)))}
    places: Spec = {
        "y": {"field": "row", "type": "ordinal", "title": None, "scale": scale, "axis": axis}
    }
    if len(chart.lines) > 1:
        domain = [-0.5, len(chart.lines) - 0.5]
        places["yOffset"] = {"field": "lane", "type": "quantitative", "scale": {"domain": domain}}
    return places


# -------------------------------------------------------------------- points over two axes


def _plane_layers(chart: Plane) -> list[Spec]:
    """From the back: the band, guides, intervals, points and their labels."""
    x, y = _axis(chart.x, "x"), _axis(chart.y, "y")
    words, sides = dict(chart.legend), [point.side for point in chart.points]
    colour = _colour(chart.legend, sides)

    def entry(point: Point, **ends: float) -> Spec:
        of = words.get(point.side, point.side)
        return {"x": point.x, "y": point.y, "of": of, "label": point.label, **ends}

    layers: list[Spec] = []
    if chart.band is not None:
        low, high = chart.band
        layers += _layer(
            [{"y": low, "end": high}],
            {"type": "rect", "color": COLOURS["blue"], "opacity": 0.1},
            y=y, y2={"field": "end"},
        )  # fmt: skip
    layers += _guides(*chart.guides)
    for field, ends in (("x", "across"), ("y", "along")):
        shown = [
            entry(point, **{"end": getattr(point, ends)[1]}) | {field: getattr(point, ends)[0]}
            for point in chart.points
            if isfinite(sum(getattr(point, ends)))
        ]
        where = {"x": x, "y": y, f"{field}2": {"field": "end"}}
        layers += _layer(shown, {"type": "rule", "opacity": 0.4}, **where, color=colour)
    for side in dict.fromkeys(sides):
        shown = [entry(point) for point in chart.points if point.side == side]
        tips = [{"field": name, "type": "nominal"} for name in ("of", "label")]
        layers += _layer(shown, _point(side), x=x, y=y, color=colour, tooltip=tips)
    labels = [entry(point) for point in chart.points if point.label]
    text = {"type": "text", "dy": -14, "fontWeight": "bold"}
    return layers + _layer(labels, text, x=x, y=y, text={"field": "label"})


def _guides(x: float | None, y: float | None) -> list[Spec]:
    """Dashed lines at a value of either axis."""
    rule = {"type": "rule", "strokeDash": [4, 4], "color": COLOURS["grey"]}
    return [
        layer
        for axis, at in (("x", x), ("y", y))
        if at is not None
        for layer in _layer([{"at": at}], rule, **{axis: {"field": "at", "type": "quantitative"}})
    ]
