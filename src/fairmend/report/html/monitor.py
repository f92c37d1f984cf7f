"""The monitor as a page: drawn on the server, refreshed by a small script, nothing foreign."""

from __future__ import annotations

import time
from calendar import timegm
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

from fairmend.measure.drift import InputWindow
from fairmend.measure.windows import GapWindow
from fairmend.report.monitoring import Monitored, MonitorFigures
from fairmend.tables import TextTable, percent, points

__all__ = ["SCRIPT", "STYLE", "monitor_page"]

_WIDE, _HIGH, _LEFT, _BOTTOM, _TOP = 860, 260, 52, 28, 14
_MODES = {
    "shadow": "Shadow: clients get the vendor's own decisions; the repair is only recorded.",
    "repair": "Repair: clients get the repaired decisions.",
    "off": "Off: requests are passed on as they are.",
}

SCRIPT, STYLE = (
    (Path(__file__).parent / name).read_text(encoding="utf-8")
    for name in ("monitor.js", "monitor.css")
)


def monitor_page(figures: MonitorFigures) -> str:
    """The whole page."""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>fairmend monitor</title>
<link rel="stylesheet" href="/monitor.css">
<script src="/monitor.js" defer></script>
</head>
<body>
<a class="skip" href="#alerts">Skip to the alerts</a>
<header>
<h1>Does the gap stay closed?</h1>
<p class="soft">{escape(_MODES[figures.mode])}</p>
<p><button id="pause" aria-pressed="false" hidden>Pause refreshing</button>
<span class="soft" id="state" role="status"></span></p>
</header>
{_main(figures)}
</body>
</html>
"""


def _main(figures: MonitorFigures) -> str:
    labelled = figures.labelled / max(1, figures.decisions - figures.failed)
    tiles = [
        (f"{figures.decisions - figures.failed:,}", "people decided about"),
        (f"{figures.edited:,}", "inputs edited"),
        (percent(labelled), "outcomes known"),
        (f"{figures.failed:,}", "requests failed"),
        (str(figures.probes_changed), "probes answered otherwise"),
        ("yes" if figures.ready else "no", "ready"),
    ]
    shown = "".join(
        f"<li><strong>{value}</strong><span>{name}</span></li>" for value, name in tiles
    )
    parts = "".join(_monitored(one, figures, i) for i, one in enumerate(figures.monitored))
    return f"""<main>
<p class="soft">As of {_time(figures.at)}; artifact {escape(figures.artifact[:16])};
probes last asked {_time(figures.probed_at)}.</p>
<ul class="figures">{shown}</ul>
<section aria-labelledby="alerts"><h2 id="alerts" tabindex="-1">Alerts</h2>
{_alerts(figures)}</section>
{parts or "<p>The artifact repairs no group.</p>"}
<section><h2>Edited lately</h2>{_edits(figures)}</section>
</main>"""


def _alerts(figures: MonitorFigures) -> str:
    if not figures.alerts:
        return '<p role="status">None.</p>'
    latest = "".join(
        f'<li data-kind="{escape(alert.kind)}"><strong>{_day(alert.at)}</strong> '
        f"{escape(alert.text)}</li>"
        for alert in figures.alerts[:8]
    )
    more = len(figures.alerts) - 8
    rest = f'<p class="soft">and {more:,} earlier ones.</p>' if more > 0 else ""
    return f'<ul class="alerts" role="status">{latest}</ul>{rest}'


def _monitored(one: Monitored, figures: MonitorFigures, i: int) -> str:
    table = TextTable(
        "",
        ("<from", "people", "outcomes known", "vendor alone", "interval", "with the repair",
         "interval"),
        [
            (_day(w.start), f"{w.people:,}", percent(w.labelled / max(1, w.people)),
             *_told(w.original), *_told(w.repaired))
            for w in reversed(one.windows)
        ],
    )  # fmt: skip
    inputs = TextTable(
        "",
        ("<day", "people", "distinct rows", "rows not in the audit", "<moved most", "distance",
         "p", "<its value", "share in the audit", "now"),
        [
            (w.day, f"{w.people:,}", f"{w.cells:,}", percent(w.unseen), w.moved.column,
             percent(w.moved.distance), f"{w.moved.p_value:.3g}", w.moved.value,
             percent(w.moved.before), percent(w.moved.now))
            for w in reversed(one.inputs)
        ],
    )  # fmt: skip
    gap, interval = _told(one.overall)
    name = f"{one.metric} of {one.target} against {one.baseline}"
    return f"""<section>
<h2>Gap: {escape(name)}</h2>
<p class="soft">{escape(one.title)}; in percentage points, with 95 % intervals.
Shaded: the tolerance of {100 * figures.tolerance:g} points either way.
Alerts rest on wider intervals: where no gap is beyond the tolerance, at most one page in twenty
shows any. Over all windows the gap with the repair is {gap}, its interval of that kind
{interval}.</p>
<ul class="key">
<li>{_sample("#d55e00", "6 4")}the vendor alone</li>
<li>{_sample("#00598a", "")}with the repair</li></ul>
<div class="scroller">{_gap_chart(one.windows, figures, f"Gap in {name}, by window")}</div>
<details id="gap-{i}"><summary>The same as a table</summary>
<div class="scroller">{_html(table)}</div></details>
<h2>Outcomes known</h2>
<div class="scroller">{
        _bars(
            [(w.start, w.labelled / max(1, w.people), False) for w in one.windows],
            "Share of decisions whose outcome is known, by window",
        )
    }</div>
<h2>Inputs of {escape(one.target)}</h2>
<p class="soft">How far each day's rows are from the audit's: the share of people who would have to
differ, in the column that moved most. Dark bars are alerts: at most one page in twenty shows any
where nothing drifts. Rows not in the audit: {percent(one.unseen_expected)} to be expected.</p>
<div class="scroller">{
        _bars(_distances(one.inputs), "Distance of the inputs from the audit, by day")
    }</div>
<details id="inputs-{i}"><summary>The same as a table</summary>
<div class="scroller">{_html(inputs)}</div></details>
</section>"""


def _edits(figures: MonitorFigures) -> str:
    if not figures.edits:
        return "<p>Nobody yet.</p>"
    table = TextTable(
        "",
        ("<time", "<decision", "<group", "<columns edited", "vendor said", "repaired"),
        [
            (_time(e.at), e.decision, e.group, e.columns, str(e.original), str(e.repaired))
            for e in figures.edits
        ],
    )
    return f'<div class="scroller">{_html(table)}</div>'


# -------------------------------------------------------------------- drawings


def _gap_chart(windows: Sequence[GapWindow], figures: MonitorFigures, title: str) -> str:
    known = [w for w in windows if w.original is not None and w.repaired is not None]
    if not known:
        return "<p>No gap can be told yet: outcomes are missing, or one of the groups is.</p>"
    reach = [v for w in known for v in (*(w.original or ()), *(w.repaired or ()))]
    low: float = min(*reach, -figures.tolerance)
    high: float = max(*reach, figures.tolerance)
    x = _across([w.start for w in windows])

    def y(value: float) -> float:
        inner = _HIGH - _BOTTOM - _TOP
        return _TOP + inner * (high - value) / (high - low)

    tolerance = figures.tolerance
    marks = [
        f'<rect x="{_LEFT}" y="{y(tolerance):.1f}" width="{_WIDE - _LEFT}" '
        f'height="{y(-tolerance) - y(tolerance):.1f}" fill="#eef3f6"/>',
        f'<line x1="{_LEFT}" x2="{_WIDE}" y1="{y(0):.1f}" y2="{y(0):.1f}" stroke="#4d5866"/>',
    ]
    for step in _steps(low, high):
        marks.append(
            f'<text x="{_LEFT - 8}" y="{y(step) + 4:.1f}" text-anchor="end">{points(step)}</text>'
            f'<line x1="{_LEFT}" x2="{_WIDE}" y1="{y(step):.1f}" y2="{y(step):.1f}" '
            f'stroke="#d5dae1" stroke-width="0.5"/>'
        )
    for curve, colour, dash in (("original", "#d55e00", "6 4"), ("repaired", "#00598a", "")):
        told = [(x(w.start), *getattr(w, curve)) for w in known]
        band = [f"{at:.1f},{y(top):.1f}" for at, _, _, top in told]
        band += [f"{at:.1f},{y(bottom):.1f}" for at, _, bottom, _ in reversed(told)]
        line = " ".join(f"{at:.1f},{y(value):.1f}" for at, value, _, _ in told)
        dots = "".join(
            f'<circle cx="{at:.1f}" cy="{y(value):.1f}" r="2.5" fill="{colour}"/>'
            for at, value, _, _ in told
        )
        marks.append(
            f'<polygon points="{" ".join(band)}" fill="{colour}" fill-opacity="0.15"/>'
            f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2" '
            f'stroke-dasharray="{dash}" data-curve="{curve}"/>{dots}'
        )
    marks += [
        f'<path d="M{x(w.start) - 6:.1f} {_TOP - 12} h12 l-6 10 z" fill="#b34700"/>'
        for w in windows
        if w.alert
    ]
    return _drawing(title, "".join(marks) + _dates([w.start for w in windows], x), _HIGH)


def _bars(bars: Sequence[tuple[float, float, bool]], title: str) -> str:
    """Shares from 0 to 100 %, those to look at dark."""
    if not bars:
        return "<p>Nothing yet.</p>"
    high = 130
    x = _across([at for at, _, _ in bars])
    wide = max(2.0, 0.7 * (_WIDE - _LEFT) / max(len(bars), 12))
    inner = high - _BOTTOM - _TOP
    marks = [
        f'<text x="{_LEFT - 8}" y="{_TOP + inner * (1 - s) + 4:.1f}" text-anchor="end">'
        f"{100 * s:.0f} %</text>"
        f'<line x1="{_LEFT}" x2="{_WIDE}" y1="{_TOP + inner * (1 - s):.1f}" '
        f'y2="{_TOP + inner * (1 - s):.1f}" stroke="#d5dae1" stroke-width="0.5"/>'
        for s in (0, 0.5, 1)
    ]
    marks += [
        f'<rect x="{x(at) - wide / 2:.1f}" y="{_TOP + inner * (1 - share):.1f}" width="{wide:.1f}" '
        f'height="{inner * share:.1f}" fill="{"#b34700" if look else "#7fa9c2"}"/>'
        for at, share, look in bars
    ]
    return _drawing(title, "".join(marks) + _dates([at for at, _, _ in bars], x, high), high)


def _distances(inputs: Sequence[InputWindow]) -> list[tuple[float, float, bool]]:
    return [(timegm(time.strptime(w.day, "%Y-%m-%d")), w.moved.distance, w.alert) for w in inputs]


def _across(starts: Sequence[float]) -> Callable[[float], float]:
    """Where a moment stands on the drawing."""
    first, last = min(starts), max(starts)
    span = (last - first) or 1.0

    def x(at: float) -> float:
        inner = _WIDE - _LEFT - 40
        return _LEFT + 20 + inner * (at - first) / span

    return x


def _dates(starts: Sequence[float], x: Callable[[float], float], high: int = _HIGH) -> str:
    chosen = list(starts)[:: max(1, -(-len(starts) // 8))]
    return "".join(
        f'<text x="{x(at):.1f}" y="{high - 8}" text-anchor="middle">{_short(at, starts)}</text>'
        for at in chosen
    )


def _steps(low: float, high: float) -> list[float]:
    width = next((w for w in (0.01, 0.02, 0.05, 0.1, 0.2) if (high - low) / w <= 8), 0.5)
    first = int(low / width) - 1
    steps = [width * k for k in range(first, first + 14)]
    return [step for step in steps if low <= step <= high]


def _drawing(title: str, inside: str, high: int) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDE} {high}" width="{_WIDE}" role="img" '
        f'aria-label="{escape(title)}">{inside}</svg>'
    )


def _sample(colour: str, dash: str) -> str:
    return (
        f'<svg width="34" height="10" viewBox="0 0 34 10" aria-hidden="true"><line x1="0" x2="34" '
        f'y1="5" y2="5" stroke="{colour}" stroke-width="3" stroke-dasharray="{dash}"/></svg>'
    )


def _html(table: TextTable) -> str:
    """A table without styles of its own, which the page's policy forbids."""
    plain = table.html().replace(' style="text-align:left"', "")
    return plain.replace(' style="text-align:right"', ' class="number"')


def _told(gap: tuple[float, float, float] | None) -> tuple[str, str]:
    if gap is None:
        return "–", "–"
    return points(gap[0]), f"{points(gap[1])} to {points(gap[2])}"


def _time(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at)) if at else "never"


def _day(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(at)).removesuffix(" 00:00")


def _short(at: float, starts: Sequence[float]) -> str:
    long = max(starts) - min(starts) > 2 * 86_400
    return time.strftime("%d %b" if long else "%H:%M", time.gmtime(at))
