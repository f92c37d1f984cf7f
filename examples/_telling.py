"""How the examples print and draw what they find; what they find is fairmend's."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import altair as alt

from fairmend.measure.result import Gap
from fairmend.report.plot import BLUE, GREY, INK, VERMILION
from fairmend.tables import TextTable

WIDTH = 100
CHARTS = Path(__file__).resolve().parent.parent / "results" / "examples"


def options(description: str | None) -> argparse.ArgumentParser:
    """What every example may be told on the command line."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, default=CHARTS, help="where the charts go")
    return parser


def title(text: str) -> None:
    print(f"{text}\n{'-' * len(text)}\n")


def say(text: str) -> None:
    tied = text.replace(" %", "\N{NO-BREAK SPACE}%")  # a number and its sign share a line
    print(fill(tied, WIDTH).replace("\N{NO-BREAK SPACE}", " "), end="\n\n")


def show(result: object) -> None:
    """Something of fairmend's that prints itself."""
    print(result, end="\n\n")


def table(heading: str, headers: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    show(TextTable(heading, headers, cells))


def gaps_chart(gaps: Mapping[str, Gap], heading: str, reading: str) -> Any:
    """A gap with its interval on each line, from top to bottom, and where there is none."""
    lines = [
        {"when": when, "gap": gap.gap, "low": gap.low, "high": gap.high,
         "open": gap.low <= 0 <= gap.high}
        for when, gap in gaps.items()
    ]  # fmt: skip
    rows = alt.Y("when:N", sort=list(gaps), title=None, axis=alt.Axis(labelLimit=340))
    colour = alt.condition("datum.open", alt.value(BLUE), alt.value(VERMILION))
    chart = alt.Chart(alt.Data(values=lines)).encode(y=rows, color=colour)
    axis = alt.Axis(format="+~%", grid=False, tickCount=6)
    gap = {"title": "gap, with its 95 % interval", "axis": axis}
    bars = chart.mark_rule(strokeWidth=3).encode(x=alt.X("low:Q", **gap), x2="high:Q")
    dots = chart.mark_point(filled=True, size=90, opacity=1).encode(x=alt.X("gap:Q", **gap))
    none = alt.Chart(alt.Data(values=[{"none": 0}])).mark_rule(color=GREY).encode(x="none:Q")
    return dressed((none + bars + dots).properties(width=420, height=34 * len(gaps)), heading,
                   reading, "red: more than chance; blue: cannot be told from none")  # fmt: skip


def dressed(chart: Any, heading: str, *below: str) -> Any:
    """The chart under its heading, in the letters of fairmend's own charts."""
    return (
        chart.properties(
            title={
                "text": heading,
                "subtitle": list(below),
                "anchor": "start",
                "frame": "group",
                "fontSize": 14,
                "subtitleFontSize": 12,
                "subtitleColor": GREY,
                "offset": 8,
            }
        )
        .configure_axis(labelFontSize=12, titleFontSize=12, labelColor=INK, titleColor=INK)
        .configure_legend(labelFontSize=12, labelColor=INK)
        .configure_view(stroke=None)
    )
