"""The page of a sidecar's monitor: drawn on the server, refreshed by a small script.

Its charts are templates. The renderer of the report would hold up the process that answers
decisions: we measured 60 ms a chart, during which no other thread ran, and 80 MB.
"""

from __future__ import annotations

import time
from calendar import timegm
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from fairmend.measure.drift import InputWindow
from fairmend.measure.windows import GapWindow
from fairmend.report.html import page
from fairmend.report.html.page import Chart
from fairmend.report.monitoring import Monitored, MonitorFigures
from fairmend.report.table import Column, Table
from fairmend.report.templates import day, template, timestamp
from fairmend.tables import percent, points

__all__ = ["POLICY", "monitor_page"]

SCRIPT, ALLOW = "html/monitor.js", "connect-src 'self'"
POLICY = f"{page.policy(SCRIPT, ALLOW)}; frame-ancestors 'none'"
"""For the header of the response; a page cannot forbid frames from within."""
MOST_ALERTS = 8
NAN = float("nan")
_MODES = {
    "shadow": "Shadow: clients get the vendor's own decisions; the repair is only recorded.",
    "repair": "Repair: clients get the repaired decisions.",
    "off": "Off: requests are passed on as they are.",
}


def _labelled(window: GapWindow) -> float:
    return window.labelled / max(1, window.people)


_GAPS = (
    Column("from", read=lambda window: day(window.start)),
    Column("people", "count"),
    Column("outcomes known", "rate", _labelled),
    Column("vendor alone", "points", lambda window: (window.original or (NAN,))[0]),
    Column("interval", "spans", lambda window: (window.original or (NAN,) * 3)[1:]),
    Column("with the repair", "points", lambda window: (window.repaired or (NAN,))[0]),
    Column("interval", "spans", lambda window: (window.repaired or (NAN,) * 3)[1:]),
)
_INPUTS = (
    Column("day"),
    Column("people", "count"),
    Column("distinct rows", "count", "cells"),
    Column("rows not in the audit", "rate", "unseen"),
    Column("moved most", read="moved.column"),
    Column("distance", "rate", "moved.distance"),
    Column("p", "p", "moved.p_value"),
    Column("its value", read="moved.value"),
    Column("share in the audit", "rate", "moved.before"),
    Column("now", "rate", "moved.now"),
)
_EDITS = (
    Column("time", read=lambda edit: timestamp(edit.at)),
    Column("decision"),
    Column("group"),
    Column("columns edited", read="columns"),
    Column("vendor's decision", "count", "original"),
    Column("repaired", "count"),
)


def monitor_page(figures: MonitorFigures) -> str:
    """The whole page."""
    decided = figures.decisions - figures.failed
    counts = (
        ("decisions", f"{decided:,}", "about people"),
        ("inputs edited", f"{figures.edited:,}", "of people"),
        ("outcomes known", percent(figures.labelled / max(1, decided)), "of decisions"),
        ("failed", f"{figures.failed:,}", "requests"),
        ("probes changed", str(figures.probes_changed), "answers other than in the audit"),
        ("ready", "yes" if figures.ready else "no", "for requests"),
    )
    context = {
        "title": "Does the gap stay closed?",
        "subtitle": _MODES[figures.mode],
        "monitor": figures,
        "counts": counts,
        "most_alerts": MOST_ALERTS,
        "monitored": [
            (group, *_charts(group, figures.tolerance, place))
            for place, group in enumerate(figures.monitored)
        ],
        "edits": Table.of("edits-table", "People whose inputs were edited", _EDITS, figures.edits),
    }
    return page.render("html/monitor.html.j2", SCRIPT, ALLOW, context)


def _charts(group: Monitored, tolerance: float, place: int) -> tuple[Chart, Chart, Chart]:
    key = f"gap-{place}"
    caption = f"Gap in {group.metric} of {group.target} against {group.baseline}, by window"
    gaps = Table.of(f"{key}-table", caption, _GAPS, group.windows[::-1])
    gap = Chart(key, caption, _gap_chart(key, caption, group.windows, tolerance), gaps)
    key, caption = f"known-{place}", "Share of decisions whose outcome is known, by window"
    shares = [(window.start, _labelled(window), False) for window in group.windows]
    known = Chart(key, caption, _bars(key, caption, shares))
    key, caption = f"inputs-{place}", "Distance of the inputs from the audit, by day"
    table = Table.of(f"{key}-table", caption, _INPUTS, group.inputs[::-1])
    inputs = Chart(key, caption, _bars(key, caption, _distances(group.inputs)), table)
    return gap, known, inputs


@dataclass(frozen=True)
class TimeChart:
    """Values over time and their places; the template draws them."""

    key: str
    title: str
    description: str
    starts: Sequence[float]
    steps: Sequence[tuple[float, str]]
    """The values with a line across, and their labels."""
    reach: tuple[float, float]
    """The lowest and the highest value."""
    bars: Sequence[tuple[float, float, bool]] = ()
    """Time, value, and whether it is an alert."""
    curves: Mapping[str, Sequence[tuple[float, float, float, float]]] = field(default_factory=dict)
    """By name, of each time the value and the ends of its interval."""
    legend: Mapping[str, str] = field(default_factory=dict)
    alerts: Sequence[float] = ()
    tolerance: float = 0.0
    high: int = 130
    top: int = 14
    wide: int = 860
    left: int = 52
    foot: int = 28

    def x(self, at: float) -> float:
        first, last = min(self.starts), max(self.starts)
        inner = self.wide - self.left - 40
        return round(self.left + 20 + inner * (at - first) / ((last - first) or 1.0), 1)

    def y(self, value: float) -> float:
        low, high = self.reach
        inner = self.high - self.foot - self.top
        return round(self.top + inner * (high - value) / (high - low), 1)

    @property
    def bar(self) -> float:
        """How wide a bar is."""
        return round(max(2.0, 0.7 * (self.wide - self.left) / max(len(self.bars), 12)), 1)

    @property
    def dates(self) -> list[tuple[float, str]]:
        """At most eight times with their labels."""
        form = "%d %b" if max(self.starts) - min(self.starts) > 2 * 86_400 else "%H:%M"
        chosen = self.starts[:: max(1, -(-len(self.starts) // 8))]
        return [(at, time.strftime(form, time.gmtime(at))) for at in chosen]

    def drawn(self) -> Markup:
        return Markup(template("html/timechart.svg.j2").render(chart=self))


def _gap_chart(key: str, title: str, windows: Sequence[GapWindow], tolerance: float) -> Markup:
    curves = {
        name: [(w.start, *getattr(w, name)) for w in windows if w.original and w.repaired]
        for name in ("original", "repaired")
    }
    values = [value for curve in curves.values() for _, *ends in curve for value in ends]
    if not values:
        return Markup("<p>The gap is not known yet: outcomes are missing, or a group is.</p>")
    low, high = min(*values, -tolerance), max(*values, tolerance)
    step = next((w for w in (0.01, 0.02, 0.05, 0.1, 0.2) if (high - low) / w <= 8), 0.5)
    marks = [step * k for k in range(int(low / step) - 1, int(high / step) + 2)]
    return TimeChart(
        key,
        title,
        f"The latest gap with the repair is {points(curves['repaired'][-1][1])} points.",
        [w.start for w in windows],
        [(value, points(value)) for value in marks if low <= value <= high],
        (low, high),
        curves=curves,
        legend={"original": "the vendor alone", "repaired": "with the repair"},
        alerts=[w.start for w in windows if w.alert],
        tolerance=tolerance,
        high=280,
        top=34,
    ).drawn()


def _bars(key: str, title: str, bars: Sequence[tuple[float, float, bool]]) -> Markup:
    """Shares from 0 to 100 %, alerts dark."""
    if not bars:
        return Markup("<p>Nothing yet.</p>")
    steps = [(value, f"{100 * value:.0f} %") for value in (0, 0.5, 1)]
    latest = f"The latest is {percent(bars[-1][1])}."
    return TimeChart(key, title, latest, [at for at, *_ in bars], steps, (0, 1), bars).drawn()


def _distances(inputs: Sequence[InputWindow]) -> list[tuple[float, float, bool]]:
    return [(timegm(time.strptime(w.day, "%Y-%m-%d")), w.moved.distance, w.alert) for w in inputs]
