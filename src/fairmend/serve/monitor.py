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
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from fairmend.measure.disparity import RateGap, read_disparities
from fairmend.measure.drift import AuditedInputs, InputWindow
from fairmend.measure.metrics import SP
from fairmend.measure.windows import MOST_WINDOWS, WindowCounts, WindowedGap
from fairmend.report.monitoring import (
    LoggedEdit,
    Monitored,
    MonitorFigures,
    find_alerts,
)
from fairmend.serve.log import LogStore, open_store

if TYPE_CHECKING:
    from fairmend.serve.sidecar import Sidecar

__all__ = ["look"]

FALSE_ALERTS = 0.05
"""The chance that a page shows any alert of a gap where there is none beyond the tolerance; and
likewise any alert of drift where nothing drifts. At most, at any one look."""
MOST_DAYS = 45
_WIDTHS = (60, 600, 3_600, 6 * 3_600, 86_400, 7 * 86_400, 28 * 86_400)


def look(sidecar: Sidecar) -> MonitorFigures:
    """Read the log as it is now."""
    with open_store(sidecar.log.where) as store:
        return _look(sidecar, store)


def _look(sidecar: Sidecar, store: LogStore) -> MonitorFigures:
    serving, config = sidecar.serving, sidecar.config
    totals = store.totals()
    width = _width(0.0 if totals.first is None else (totals.last or 0.0) - totals.first)
    counts = store.counts(width)
    monitored = _monitored(sidecar, store, counts)
    labelled = sum(n for (_, _, _, _, y), n in counts.items() if y is not None)
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
        labelled=labelled,
        probes_changed=changed,
        probed_at=probes.at,
        monitored=tuple(monitored),
        blind=serving.classifier.blind,
        edits=tuple(LoggedEdit(*edit) for edit in store.last_edits(12)),
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


def _monitored(sidecar: Sidecar, store: LogStore, counts: WindowCounts) -> list[Monitored]:
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
        windows, overall = compared.windows(counts)
        unseen, inputs = _inputs(store, serving, group, risk / MOST_DAYS)
        monitored.append(
            Monitored(
                target=compared.target,
                baseline=compared.baseline,
                metric=rate.name,
                title=rate.title,
                windows=windows,
                overall=overall,
                overall_alert=compared.is_beyond(overall),
                inputs=inputs,
                unseen_expected=unseen,
            )
        )
    return monitored


def _width(span: float) -> int:
    """The shortest width that makes few windows.

    >>> _width(3_600), _width(30 * 86_400)
    (600, 86400)
    """
    most, longest = MOST_WINDOWS - 1, _WIDTHS[-1]
    few = (width for width in _WIDTHS if span / width <= most)
    return next(few, longest * math.ceil(span / (most * longest)))


def _inputs(
    store: LogStore, serving: Any, group: Hashable, risk: float
) -> tuple[float, tuple[InputWindow, ...]]:
    """The share of unseen rows to expect, and each day's inputs of a group against the audit's."""
    if serving.classifier.blind:  # its artifact does not say who of a group had which inputs
        return 0.0, ()
    audited = AuditedInputs.of(serving.classifier.data_, serving.schema.table, group)
    by_day: dict[str, list[tuple[int, int]]] = {}
    for day, cell, n in store.inputs(serving.fingerprint, str(group)):
        by_day.setdefault(day, []).append((cell, n))
    days = list(by_day.items())[-MOST_DAYS:]
    return audited.alone, tuple(audited.window(day, cells, risk) for day, cells in days)
