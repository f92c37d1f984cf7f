"""The page of a sidecar's monitor: drawn on the server, refreshed by a small script.

Its charts are templates. The renderer of the report would hold up the process that answers
decisions: we measured 60 ms a chart, during which no other thread ran, and 80 MB.
"""

from __future__ import annotations

import time
from calendar import timegm
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fairmend.measure.late import Interval
from fairmend.measure.windows import GapWindow
from fairmend.report.html import page
from fairmend.report.monitoring import LoggedDecision, Monitored, MonitorFigures, answer
from fairmend.report.templates import day, timestamp
from fairmend.tables import points

__all__ = ["POLICY", "decision_page", "monitor_page"]

SCRIPT, ALLOW = "html/monitor.js", "connect-src 'self'; form-action 'self'"
POLICY = f"{page.policy(SCRIPT, ALLOW)}; frame-ancestors 'none'"
"""For the header of the response; a page cannot forbid frames from within."""
MOST_ALERTS = 8
DAY = 86_400
WIDE, NARROW = 860, 420
NAN = float("nan")
_MODES = {
    "shadow": "Shadow: clients get the vendor's own decisions; the repair is only recorded.",
    "repair": "Repair: clients get the repaired decisions.",
    "off": "Off: requests are passed on as they are.",
}


def monitor_page(figures: MonitorFigures) -> str:
    """The whole page."""
    context = {
        "title": answer(figures),
        "question": "Does the gap stay closed?",
        "subtitle": _MODES[figures.mode],
        "monitor": figures,
        "most_alerts": MOST_ALERTS,
        "edit_time": lambda edit: timestamp(edit.at),
        "failure_time": lambda failure: timestamp(failure.last),
        "periods": list(_periods(figures)),
        "period_from": "" if figures.period is None else _date(figures.period[0]),
        "period_to": "" if figures.period is None else _date(figures.period[1] - DAY),
        "groups": [_group(group, figures.tolerance) for group in figures.monitored],
    }
    return page.render("html/monitor.html.j2", SCRIPT, ALLOW, context)


def decision_page(name: str, decisions: Sequence[LoggedDecision]) -> str:
    """What the log says about one request, or one of its rows."""
    context = {
        "title": f"Decision {name}" if decisions else f"Decision {name} is not in the log",
        "subtitle": "From the decision log",
        "name": name,
        "decisions": [(each.row["decision"], list(_facts(each))) for each in decisions],
    }
    return page.render("html/decision.html.j2", SCRIPT, ALLOW, context)


def _facts(logged: LoggedDecision) -> Iterator[tuple[str, str]]:
    """A row of the log in words; empty where nothing is on record."""
    row = logged.row
    yield "time", timestamp(row["at"])
    yield "status", row["status"]
    for reason in logged.reasons:
        yield "not repaired because of", reason
    for title, name in _FACTS.items():
        if row[name] is not None:
            yield title, str(row[name])
    yield "columns edited", row["edited"] or "none"
    for at, y in logged.outcomes:
        yield "outcome", f"{y}, recorded {timestamp(at)}"
    if not logged.outcomes:
        yield "outcome", "not known yet"


_FACTS = {
    "group": "grp", "person (keyed hash)": "person", "mode": "mode",
    "vendor's decision": "original", "decision with the repair": "repaired",
    "vendor's score": "original_score", "score with the repair": "repaired_score",
    "inputs before and after, by place": "features", "vendor": "vendor", "version": "version",
    "artifact": "artifact", "milliseconds": "latency_ms",
}  # fmt: skip


def _periods(figures: MonitorFigures) -> Iterator[tuple[str, str]]:
    """Links to stretches of time."""
    tomorrow = figures.at + DAY
    for days in (7, 30, 90):
        yield f"{days} days", f"/?from={_date(tomorrow - days * DAY)}&to={_date(figures.at)}"
    yield "everything", "/"


def _date(at: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(at))


def _group(group: Monitored, tolerance: float) -> dict[str, Any]:
    """What the template shows of one repaired group."""
    shares = [(w.start, w.labelled / max(1, w.people), False) for w in group.windows]
    distances = [
        (timegm(time.strptime(w.day, "%Y-%m-%d")), w.moved.distance, w.alert) for w in group.inputs
    ]
    rows = [
        (day(at), w.people, share, *_gap_and_ends(w.original), *_gap_and_ends(w.repaired),
         *_gap_and_ends(w.estimate))
        for w, (at, share, _) in zip(group.windows, shares, strict=True)
    ]  # fmt: skip
    return {
        "group": group,
        "has_estimates": any(w.estimate for w in group.windows),
        "gap": _gap_chart(group.windows, tolerance),
        "rows": rows[::-1],
        "known": _bars(shares),
        "distances": _bars(distances),
        "selected": _rate_chart(group, "selected"),
        "right": _rate_chart(group, "right"),
        "rate_rows": list(_rate_rows(group))[::-1],
    }


def _rate_rows(group: Monitored) -> Iterator[tuple[Any, ...]]:
    nothing = (NAN, NAN, NAN)
    by_start = sorted(
        (window.start, name, window) for name, rates in group.rates.items() for window in rates
    )
    for start, name, window in by_start:
        right = [(each or nothing)[0] for each in (window.right_alone, window.right)]
        yield (day(start), name, window.people, window.selected_alone[0], window.selected[0],
               window.labelled, *right)  # fmt: skip


def _gap_and_ends(interval: Interval | None) -> tuple[float, tuple[float, float]]:
    gap, low, high = interval or (NAN, NAN, NAN)
    return gap, (low, high)


@dataclass(frozen=True)
class Curve:
    """One line over time."""

    name: str
    """Which is its class in the style sheet too."""
    label: str
    points: Sequence[tuple[float, float, float, float]]
    """Of each time the value and the ends of its interval."""


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
    curves: Sequence[Curve] = ()
    alerts: Sequence[float] = ()
    tolerance: float = 0.0
    high: int = 130
    top: int = 18
    wide: int = WIDE
    left: int = 52
    foot: int = 28

    @property
    def narrow(self) -> TimeChart:
        """The same for a phone, so that its text stays as large."""
        return replace(self, wide=NARROW)

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
        """At most eight times with their labels, fewer where it is narrow."""
        most = 8 * self.wide // WIDE
        form = "%d %b" if max(self.starts) - min(self.starts) > 2 * 86_400 else "%H:%M"
        chosen = self.starts[:: max(1, -(-len(self.starts) // most))]
        return [(at, time.strftime(form, time.gmtime(at))) for at in chosen]


def _gap_chart(windows: Sequence[GapWindow], tolerance: float) -> TimeChart | None:
    """The gap of the vendor alone and with the repair; None where neither is known yet."""
    labels = {
        "original": "the vendor alone",
        "repaired": "with the repair",
        "estimate": "with the repair, estimated",
    }
    curves = [
        Curve(name, label, [(w.start, *gap) for w in windows if (gap := getattr(w, name))])
        for name, label in labels.items()
    ]
    curves = [curve for curve in curves if curve.points]
    values = [value for curve in curves for _, *ends in curve.points for value in ends]
    if not values:
        return None
    low, high = min(*values, -tolerance), max(*values, tolerance)
    step = next((w for w in (0.01, 0.02, 0.05, 0.1, 0.2) if (high - low) / w <= 8), 0.5)
    marks = [step * k for k in range(int(low / step) - 1, int(high / step) + 2)]
    return TimeChart(
        [w.start for w in windows],
        [(value, points(value)) for value in marks if low <= value <= high],
        (low, high),
        curves[-1].points[-1][1],
        curves=curves,
        alerts=[w.start for w in windows if w.alert],
        tolerance=tolerance,
        high=260,
    )


def _rate_chart(group: Monitored, name: str) -> TimeChart | None:
    """A rate of the target group, by the vendor alone and with the repair, beside the reference's.

    None where it is not known.
    """
    target, reference = group.rates.get(group.target, ()), group.rates.get(group.baseline, ())
    curves = [
        Curve(of, label, [(w.start, *value) for w in windows if (value := getattr(w, attribute))])
        for of, label, windows, attribute in (
            ("original", f"{group.target}, the vendor alone", target, f"{name}_alone"),
            ("repaired", f"{group.target}, with the repair", target, name),
            ("reference", f"{group.baseline}, with the repair", reference, name),
        )
    ]
    curves = [curve for curve in curves if curve.points]
    if not curves:
        return None
    starts = sorted({at for curve in curves for at, *_ in curve.points})
    steps = [(value, f"{100 * value:.0f} %") for value in (0, 0.25, 0.5, 0.75, 1)]
    return TimeChart(starts, steps, (0, 1), curves[-1].points[-1][1], curves=curves, high=200)


def _bars(bars: Sequence[tuple[float, float, bool]]) -> TimeChart | None:
    """Shares from 0 to 100 %; None where there are none yet."""
    steps = [(value, f"{100 * value:.0f} %") for value in (0, 0.5, 1)]
    return TimeChart([at for at, *_ in bars], steps, (0, 1), bars[-1][1], bars) if bars else None
