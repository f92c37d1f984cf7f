"""Whether the gap stays closed: figures of the log, window by window, as data.

Gaps and their intervals are the audit's own, computed from counts of decisions and outcomes. Drift
compares how often the target group's rows come with how often they came in the audit: counts of
distinct rows suffice, so that nobody's inputs need be kept.

A page shows many figures, and of many one strays by chance. So alerts are judged more strictly than
the intervals drawn: each has its share of `FALSE_ALERTS`, as if the page were full (Bonferroni).
What an alert says of a window then does not change with the windows that come after it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Hashable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from fairmend.classifier import RepairedClassifier
from fairmend.measure.disparity import RateGap, read_disparities
from fairmend.measure.drift import AuditedInputs, InputWindow
from fairmend.measure.late import OutcomeChances, WindowCounts
from fairmend.measure.metrics import SP
from fairmend.measure.windows import MOST_WINDOWS, WindowedGap
from fairmend.report.monitoring import (
    Failure,
    LoggedDecision,
    LoggedEdit,
    Monitored,
    MonitorFigures,
    find_alerts,
)
from fairmend.serve.log import EVER, LogStore, Period, open_store
from fairmend.serve.log.store import CONTRADICTED
from fairmend.serve.repairer import Repairer

if TYPE_CHECKING:
    from fairmend.serve.sidecar import Sidecar

__all__ = ["look", "look_up"]

FALSE_ALERTS = 0.05
"""The chance that a page shows any alert of a gap where there is none beyond the tolerance; and
likewise any alert of drift where nothing drifts. At most, at any one look."""
MOST_DAYS = 45
MOST_EVENTS = 5_000
MOST_ROWS = 50
"""Rows of one request that are shown together."""
NOT_REPAIRED = ("shadow_failed", "not_read")
"""Statuses whose reason is in an event."""
_WIDTHS = (60, 600, 3_600, 6 * 3_600, 86_400, 7 * 86_400, 28 * 86_400)


def look(sidecar: Sidecar, period: Period = EVER) -> MonitorFigures:
    """Read the log as it is now; alerts are found in the period too."""
    with open_store(sidecar.log.where) as store, store.transaction():
        return _look(sidecar, store, period)


def _look(sidecar: Sidecar, store: LogStore, period: Period) -> MonitorFigures:
    serving, config = sidecar.serving, sidecar.config
    totals = store.totals(period)
    width = _width(0.0 if totals.first is None else (totals.last or 0.0) - totals.first)
    data = serving.repair.data
    bands = store.state(sidecar.log.key).bands
    counts = store.counts(width, period)
    monitored = _monitored(sidecar, store, counts, OutcomeChances.of(data, bands, counts), period)
    probes = sidecar.probes
    changed, repairs = probes.changed, config.mode == "repair"
    return MonitorFigures(
        at=time.time(),
        mode=sidecar.mode,
        ready=sidecar.ready,
        artifact=serving.fingerprint,
        tolerance=config.tolerance,
        width=width,
        decisions=totals.decisions,
        failed=totals.failed,
        edited=totals.edited,
        labelled=sum(n for (*_, y, _), n in counts.items() if y is not None),
        probes_changed=changed,
        probed_at=probes.at,
        monitored=tuple(monitored),
        blind=serving.classifier.blind,
        edits=tuple(LoggedEdit(*edit) for edit in store.last_edits(12, period)),
        failures=tuple(_failures(store, period)),
        period=None if period == EVER else period,
        vendor=config.vendor,
        version=config.version,
        basis=config.basis,
        repair=_in_a_line(serving.classifier),
        alerts=tuple(
            find_alerts(
                monitored,
                changed,
                probes.at,
                probe_failed=probes.failed,
                policy=config.vendor_changed if repairs and probes.are_changed else "",
                retention_paused=sidecar.retention.is_paused,
            )
        ),
    )


def _monitored(
    sidecar: Sidecar,
    store: LogStore,
    counts: WindowCounts,
    chances: OutcomeChances,
    period: Period,
) -> list[Monitored]:
    serving, tolerance = sidecar.serving, sidecar.config.tolerance
    if serving.classifier.blind and not sidecar.config.log_groups:
        return []  # nobody's group is on record
    plans = serving.classifier.plans_
    disparity = read_disparities(serving.classifier.disparity)[0]
    rate = disparity if isinstance(disparity, RateGap) else SP
    risk = FALSE_ALERTS / max(1, len(plans))
    monitored = []
    for group, plan in plans.items():
        compared = WindowedGap(str(group), str(plan.baseline), rate, tolerance, risk)
        seen = compared.over_time(counts, chances)
        unseen, inputs = _inputs(store, serving, group, risk / MOST_DAYS, period)
        monitored.append(
            Monitored(
                target=compared.target,
                baseline=compared.baseline,
                metric=rate.name,
                title=rate.title,
                windows=seen.windows,
                overall=seen.overall,
                rates=seen.rates,
                overall_rates=seen.overall_rates,
                inputs=inputs,
                unseen_expected=unseen,
            )
        )
    return monitored


def _in_a_line(classifier: RepairedClassifier) -> str:
    """What the repair is for: its metric, method and groups."""
    names = " and ".join(each.name for each in read_disparities(classifier.disparity))
    groups = ", ".join(
        f"{group} against {plan.baseline}" for group, plan in classifier.plans_.items()
    )
    return f"{names} by {classifier.method}: {groups}" if groups else names


def _failures(store: LogStore, period: Period) -> Iterator[Failure]:
    """Why decisions failed, the most frequent first; where an event says more, its reason."""
    for status, count, last, decision in store.failures(period):
        if status not in NOT_REPAIRED:
            yield Failure(status, count, last, decision)
    reasons: dict[str, Failure] = {}
    kinds = (*NOT_REPAIRED, CONTRADICTED)
    for at, kind, detail in store.events_of(kinds, MOST_EVENTS, period):
        said = msgspec.json.decode(detail)
        name = kind if kind == CONTRADICTED else f"{kind}: {said['reason']}"
        latest = reasons.setdefault(name, Failure(name, 0, at, said["decision"]))
        reasons[name] = replace(latest, count=latest.count + 1)
    yield from reasons.values()


def look_up(sidecar: Sidecar, name: str) -> list[LoggedDecision]:
    """The decisions of a request, or the one of that id."""
    names = [name] if "/" in name else [name, *(f"{name}/{i}" for i in range(MOST_ROWS))]
    with open_store(sidecar.log.where) as store, store.transaction():
        rows = store.decisions_named(names)
        if not rows:
            return []
        at, request = rows[0]["at"], rows[0]["decision"].partition("/")[0]
        details = [
            msgspec.json.decode(detail)
            for _, _, detail in store.events_of(NOT_REPAIRED, MOST_EVENTS, (at - 60, at + 60))
        ]
        reasons = tuple(said["reason"] for said in details if said["decision"] == request)
        return [
            LoggedDecision(row, tuple(store.outcomes_named(row["decision"])), reasons)
            for row in rows
        ]


def _width(span: float) -> int:
    """The shortest width that makes few windows.

    >>> _width(3_600), _width(30 * 86_400)
    (600, 86400)
    """
    most, longest = MOST_WINDOWS - 1, _WIDTHS[-1]
    few = (width for width in _WIDTHS if span / width <= most)
    return next(few, longest * math.ceil(span / (most * longest)))


def _inputs(
    store: LogStore, serving: Repairer, group: Hashable, risk: float, period: Period
) -> tuple[float, tuple[InputWindow, ...]]:
    """The share of unseen rows to expect, and each day's inputs of a group against the audit's."""
    if serving.classifier.blind:  # its artifact does not say who of a group had which inputs
        return 0.0, ()
    audited = AuditedInputs.of(serving.classifier.data_, serving.schema.table, group)
    by_day: dict[str, list[tuple[int, int]]] = {}
    for day, cell, n in store.inputs(serving.fingerprint, str(group), MOST_DAYS, period):
        by_day.setdefault(day, []).append((cell, n))
    windows = (audited.window(day, cells, risk) for day, cells in by_day.items())
    return audited.alone, tuple(windows)
