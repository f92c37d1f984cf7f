"""What the monitor of a sidecar shows, as data, and its alerts in words."""

from __future__ import annotations

import calendar
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from fairmend.measure.drift import InputWindow
from fairmend.measure.windows import GapWindow, Interval

__all__ = [
    "Alert",
    "LoggedEdit",
    "MonitorFigures",
    "Monitored",
    "find_alerts",
]


@dataclass(frozen=True)
class Monitored:
    """One repaired group."""

    target: str
    baseline: str
    metric: str
    title: str
    windows: tuple[GapWindow, ...]
    overall: Interval | None
    """The mean gap with the repair over all windows, judged as they are."""
    overall_alert: bool
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
class Alert:
    """Something to look at."""

    at: float
    kind: str
    text: str


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
            Alert(probed_at, "model", f"The vendor answers {changed} of its probes otherwise than "
                  f"in the audit: the model has changed. {_POLICIES[policy]}Audit it again.")
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
        for at, text in _strays(one):
            alerts.append(Alert(at, "gap", f"{one.metric} of {one.target}: {text}"))
        for days in _drifts(one.inputs):
            last, moved = days[-1], days[-1].moved
            since = f" since {days[0].day}" if len(days) > 1 else ""
            alerts.append(
                Alert(calendar.timegm(time.strptime(last.day, "%Y-%m-%d")), "inputs",
                      f"Inputs of {one.target} have drifted from the audit{since}, most of all "
                      f"{moved.column}, in which {100 * moved.distance:.0f} % of people differ: "
                      f"{moved.value} went from {100 * moved.before:.0f} % to "
                      f"{100 * moved.now:.0f} %.")
            )  # fmt: skip
    return sorted(alerts, key=lambda alert: -alert.at)


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


def _strays(one: Monitored) -> Iterator[tuple[float, str]]:
    """Gaps beyond the tolerance, each with its time."""
    for window in one.windows:
        if window.alert:
            yield window.start, f"the gap under the repair is {_judged(window.judged)}"
    if one.overall_alert:
        text = f"over all {len(one.windows)} windows the gap under the repair is "
        yield one.windows[-1].start, text + _judged(one.overall)


def _judged(interval: Interval | None) -> str:
    assert interval is not None
    gap, low, high = (f"{100 * value:+.1f}" for value in interval)
    return f"{gap} points ({low} to {high}, allowing for all windows), beyond the tolerance."
