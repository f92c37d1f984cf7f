"""What the monitor of a sidecar shows, as data, and its alerts in words."""

from __future__ import annotations

import time
from calendar import timegm
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any

from fairmend.measure.drift import InputWindow
from fairmend.measure.late import Interval
from fairmend.measure.windows import GapWindow, RateWindow

__all__ = [
    "ALERT_KINDS",
    "Alert",
    "Failure",
    "LoggedDecision",
    "LoggedEdit",
    "MonitorFigures",
    "Monitored",
    "answer",
    "find_alerts",
]

ALERT_KINDS = ("gap", "inputs", "model", "probe", "retention")


@dataclass(frozen=True)
class Monitored:
    """One repaired group."""

    target: str
    baseline: str
    metric: str
    title: str
    windows: tuple[GapWindow, ...]
    overall: GapWindow | None
    """All windows together, judged as they are."""
    rates: dict[str, tuple[RateWindow, ...]]
    """Selection rates and accuracy of the target group and of the reference."""
    overall_rates: dict[str, RateWindow]
    inputs: tuple[InputWindow, ...]
    unseen_expected: float
    """Share of unseen rows to expect if nothing changes: see `AuditedInputs`."""


@dataclass(frozen=True)
class LoggedEdit:
    """One edited person, without their data."""

    at: float
    decision: str
    group: str
    columns: str
    original: int
    repaired: int


@dataclass(frozen=True)
class Failure:
    """Why some decisions failed, or were not repaired."""

    reason: str
    count: int
    last: float
    decision: str
    """The last of them."""


@dataclass(frozen=True)
class LoggedDecision:
    """One row of the log with what became of it."""

    row: dict[str, Any]
    outcomes: tuple[tuple[float, int], ...]
    """Times and values; the last one counts."""
    reasons: tuple[str, ...]
    """Why the request was not repaired."""


@dataclass(frozen=True)
class Alert:
    """Something to look at."""

    at: float
    kind: str
    text: str
    about: str = ""
    """What it is about, the same from look to look."""
    since: float = 0.0
    """When it began, where that is known: later about the same thing is another alert."""


@dataclass(frozen=True)
class MonitorFigures:
    """Everything on the monitor page."""

    at: float
    mode: str
    ready: bool
    artifact: str
    tolerance: float
    width: float
    """Seconds of a window."""
    decisions: int
    failed: int
    edited: int
    labelled: int
    probes_changed: int
    probed_at: float
    monitored: tuple[Monitored, ...]
    edits: tuple[LoggedEdit, ...]
    alerts: tuple[Alert, ...]
    blind: bool = False
    """Whether the repair reads no group."""
    failures: tuple[Failure, ...] = ()
    period: tuple[float, float] | None = None
    """From when on, and until before when; None for everything."""
    vendor: str = ""
    version: str = ""
    basis: str = ""
    repair: str = ""
    """The plans in a line."""


# -------------------------------------------------------------------- the answer


def answer(figures: MonitorFigures) -> str:
    """Whether the gap stays closed, in a sentence or two; of several groups the worst decides."""
    if not figures.monitored:
        if figures.blind:
            return (
                "Not watched: the repair is blind and nobody's group is logged; log_groups = true "
                "would watch the gap."
            )
        return "Nothing to watch: the artifact repairs no group."
    answers = [_answer_about(one, figures) for one in figures.monitored]
    worst, text = max(answers, key=itemgetter(0))
    others = Counter(rank for rank, _ in answers)
    others[worst] -= 1
    said = ", ".join(f"{others[rank]} {words}" for rank, words in _RANKS.items() if others[rank])
    return f"{text} Other groups: {said}." if said else text


_RANKS = {
    3: "beyond the tolerance",
    2: "not to be told yet",
    1: "not known yet",
    0: "within the tolerance",
}
"""How bad it is, as of other groups."""


def _answer_about(one: Monitored, figures: MonitorFigures) -> tuple[int, str]:
    """How bad it is, from 0, and the sentence."""
    seen, tolerance = one.overall, f"{100 * figures.tolerance:g} points"
    title = one.title.partition(",")[0] or one.metric
    gap = f"the gap in {title} of {one.target} against {one.baseline}"
    if figures.mode == "repair":
        verb = f"with the repair {gap} is"
    elif figures.mode == "off":
        verb = f"nothing is repaired, and {gap} is"
    else:
        verb = f"in shadow nothing is repaired; with the repair {gap} would be"
    if seen is None:
        return 1, f"Not known yet: there is no decision about {one.target} or about {one.baseline}."
    if seen.repaired is None:
        known = f"outcomes are known of {seen.labelled:,} of {seen.people:,} people"
        if seen.estimate is None:
            return 1, f"Not known yet: {known}."
        return (
            1,
            f"Not known yet: {known}; estimated from people alike, {verb} {_span(seen.estimate)}.",
        )
    beyond = [window for window in one.windows if window.alert]
    said = f"{verb} {_span(seen.repaired)}"
    if seen.alert or beyond:
        where = ["over all windows together"] if seen.alert else []
        if beyond:
            last = time.strftime("%d %B %Y", time.gmtime(beyond[-1].start))
            where.append(
                f"in {len(beyond)} of {len(one.windows)} single windows, the last on {last}"
            )
        return 3, (f"No: {said}. It is shown to be beyond the tolerance of {tolerance} "
                   f"{' and '.join(where)}.")  # fmt: skip
    _, low, high = seen.repaired
    if max(-low, high) <= figures.tolerance:
        return 0, f"Yes: {said}, within the tolerance of {tolerance}."
    return 2, f"Not yet clear: {said}; the tolerance is {tolerance}."


def _span(interval: Interval) -> str:
    gap, low, high = (f"{100 * value:+.1f}" for value in interval)
    return f"{gap} points ({low} to {high})"


# -------------------------------------------------------------------- alerts


def find_alerts(
    monitored: Sequence[Monitored],
    changed: int,
    probed_at: float,
    *,
    probe_failed: str = "",
    policy: str = "",
    retention_paused: bool = False,
) -> list[Alert]:
    """What an operator should look at, the latest first.

    ``policy`` is what is done now because the model has changed: shadow, refuse, or nothing.
    """
    alerts = []
    if changed:
        alerts.append(
            Alert(probed_at, "model", f"The vendor answers {changed} of its probes differently "
                  f"than in the audit: the model has changed. {_POLICIES[policy]}Audit it again.")
        )  # fmt: skip
    if probe_failed:
        alerts.append(
            Alert(time.time(), "probe", "The vendor could not be queried about rows of the audit "
                  f"({probe_failed}): whether the model has changed is not known.")
        )  # fmt: skip
    if retention_paused:
        alerts.append(
            Alert(time.time(), "retention", "The clock jumped: no decisions are deleted for a day. "
                  "Check the clock.")
        )  # fmt: skip
    for one in monitored:
        alerts += _strays(one)
        for days in _drifts(one.inputs):
            last, moved = days[-1], days[-1].moved
            since = f" since {days[0].day}" if len(days) > 1 else ""
            alerts.append(
                Alert(_midnight(last.day), "inputs",
                      f"Inputs of {one.target} have drifted from the audit{since}, most of all "
                      f"{moved.column}, in which {100 * moved.distance:.0f} % of people differ: "
                      f"the value {moved.value} went from {100 * moved.before:.0f} % of them to "
                      f"{100 * moved.now:.0f} %.",
                      f"{moved.column} of {one.target}", _midnight(days[0].day))
            )  # fmt: skip
    return sorted(alerts, key=lambda alert: -alert.at)


def _midnight(day: str) -> float:
    return timegm(time.strptime(day, "%Y-%m-%d"))


_POLICIES = {
    "": "",
    "alert": "Decisions are repaired all the same. ",
    "shadow": "Nobody is repaired: clients get its own answers. ",
    "refuse": "Requests are refused. ",
}


def _drifts(inputs: Sequence[InputWindow]) -> Iterator[list[InputWindow]]:
    """Days of drift, those in a row with the same column together: one thing to look at."""
    for alert, days in groupby(inputs, lambda day: day.moved.column if day.alert else None):
        if alert is not None:
            yield list(days)


def _strays(one: Monitored) -> Iterator[Alert]:
    """Gaps beyond the tolerance."""
    about = f"{one.metric} of {one.target}"
    for window in one.windows:
        if window.alert:
            text = f"{about}: the gap under the repair is {_judged(window.judged)}"
            yield Alert(window.start, "gap", text, about, window.start)
    if one.overall is not None and one.overall.alert:
        text = f"{about}: over all {len(one.windows)} windows the gap under the repair is "
        text += _judged(one.overall.judged)
        yield Alert(one.windows[-1].start, "gap", text, f"{about} over all windows")


def _judged(interval: Interval | None) -> str:
    assert interval is not None
    gap, low, high = (f"{100 * value:+.1f}" for value in interval)
    return f"{gap} points ({low} to {high}, allowing for all windows), beyond the tolerance."
