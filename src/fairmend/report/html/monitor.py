"""The page of a sidecar's monitor: drawn on the server, refreshed by a small script.

Its charts are templates. The renderer of the report would hold up the process that answers
decisions: we measured 60 ms a chart, during which no other thread ran, and 80 MB.
"""

from __future__ import annotations

import time
from calendar import timegm
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fairmend.measure.windows import GapWindow, Interval
from fairmend.report.html import page
from fairmend.report.monitoring import Monitored, MonitorFigures
from fairmend.report.templates import day, timestamp
from fairmend.tables import points

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


def monitor_page(figures: MonitorFigures) -> str:
    """The whole page."""
    context = {
        "title": "Does the gap stay closed?",
        "subtitle": _MODES[figures.mode],
        "monitor": figures,
        "most_alerts": MOST_ALERTS,
        "edit_time": lambda edit: timestamp(edit.at),
        "groups": [_group(group, figures.tolerance) for group in figures.monitored],
    }
    return page.render("html/monitor.html.j2", SCRIPT, ALLOW, context)


def _group(group: Monitored, tolerance: float) -> dict[str, Any]:
    """What the template shows of one repaired group."""
    shares = [(w.start, w.labelled / max(1, w.people), False) for w in group.windows]
    distances = [
        (timegm(time.strptime(w.day, "%Y-%m-%d")), w.moved.distance, w.alert) for w in group.inputs
    ]
    rows = [
        (day(at), w.people, share, *_gap_and_ends(w.original), *_gap_and_ends(w.repaired))
        for w, (at, share, _) in zip(group.windows, shares, strict=True)
    ]
    return {
        "group": group,
        "gap": _gap_chart(group.windows, tolerance),
        "rows": rows[::-1],
        "known": _bars(shares),
        "distances": _bars(distances),
    }


def _gap_and_ends(interval: Interval | None) -> tuple[float, tuple[float, float]]:
    gap, low, high = interval or (NAN, NAN, NAN)
    return gap, (low, high)


@dataclass(frozen=True)
class TimeChart:
    """Values over time and their places; the template draws them."""

    starts: Sequence[float]
    steps: Sequence[tuple[float, str]]
    """The values with a line across, and their labels."""
    reach: tuple[float, float]
    """The lowest and the highest value."""
    latest: float
    bars: Sequence[tuple[float, float, bool]] = ()
    """Time, value, and whether it is an alert."""
    curves: Mapping[str, Sequence[tuple[float, float, float, float]]] = field(default_factory=dict)
    """By name, of each time the value and the ends of its interval."""
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


def _gap_chart(windows: Sequence[GapWindow], tolerance: float) -> TimeChart | None:
    """The gap of the vendor alone and with the repair; None where neither is known yet."""
    curves = {
        name: [(w.start, *getattr(w, name)) for w in windows if w.original and w.repaired]
        for name in ("original", "repaired")
    }
    values = [value for curve in curves.values() for _, *ends in curve for value in ends]
    if not values:
        return None
    low, high = min(*values, -tolerance), max(*values, tolerance)
    step = next((w for w in (0.01, 0.02, 0.05, 0.1, 0.2) if (high - low) / w <= 8), 0.5)
    marks = [step * k for k in range(int(low / step) - 1, int(high / step) + 2)]
    return TimeChart(
        [w.start for w in windows],
        [(value, points(value)) for value in marks if low <= value <= high],
        (low, high),
        curves["repaired"][-1][1],
        curves=curves,
        alerts=[w.start for w in windows if w.alert],
        tolerance=tolerance,
        high=280,
        top=34,
    )


def _bars(bars: Sequence[tuple[float, float, bool]]) -> TimeChart | None:
    """Shares from 0 to 100 %; None where there are none yet."""
    steps = [(value, f"{100 * value:.0f} %") for value in (0, 0.5, 1)]
    return TimeChart([at for at, *_ in bars], steps, (0, 1), bars[-1][1], bars) if bars else None
