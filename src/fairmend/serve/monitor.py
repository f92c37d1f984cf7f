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

from fairmend.explain.counterfactual import read_disparities
from fairmend.measure.disparity import SP, RateGap
from fairmend.measure.drift import AuditedInputs, InputWindow
from fairmend.measure.windows import MOST_WINDOWS, WindowCounts, WindowedGap
from fairmend.report.monitoring import (
    LoggedEdit,
    Monitored,
    MonitorFigures,
    find_alerts,
)
from fairmend.serve.log import rows_of

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
    serving, config, path = sidecar.serving, sidecar.config, sidecar.log.path
    [(first, last, total, failed, edited)] = rows_of(
        path,
        "SELECT min(at), max(at), count(*), coalesce(sum(original IS NULL), 0), "
        "coalesce(sum(edited IS NOT NULL AND edited <> ''), 0) FROM decisions",
    )
    width = _width(0.0 if first is None else last - first)
    counts = _counts(path, width)
    monitored = _monitored(sidecar, counts)
    edits = tuple(
        LoggedEdit(*found)
        for found in rows_of(
            path,
            "SELECT at, decision, coalesce(grp, ''), edited, original, repaired FROM decisions "
            "WHERE edited IS NOT NULL AND edited <> '' ORDER BY seq DESC LIMIT 12",
        )
    )
    labelled = sum(n for (_, _, _, _, y), n in counts.items() if y is not None)
    changed = len(sidecar.changed_probes)
    return MonitorFigures(
        at=time.time(),
        mode=config.mode,
        ready=sidecar.ready,
        artifact=serving.fingerprint,
        tolerance=config.tolerance,
        width=width,
        decisions=total,
        failed=failed,
        edited=edited,
        labelled=labelled,
        probes_changed=changed,
        probed_at=sidecar.probed_at,
        monitored=tuple(monitored),
        edits=edits,
        alerts=tuple(find_alerts(monitored, changed, sidecar.probed_at)),
    )


def _monitored(sidecar: Sidecar, counts: WindowCounts) -> list[Monitored]:
    serving, tolerance = sidecar.serving, sidecar.config.tolerance
    plans = serving.classifier.plans_
    disparity = read_disparities(serving.classifier.disparity)[0]
    rate = disparity if isinstance(disparity, RateGap) else SP
    risk = FALSE_ALERTS / max(1, len(plans))
    monitored = []
    for group, plan in plans.items():
        compared = WindowedGap(str(group), str(plan.baseline), rate, tolerance, risk)
        windows, overall = compared.windows(counts)
        unseen, inputs = _inputs(sidecar.log.path, serving, group, risk / MOST_DAYS)
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


def _width(span: float) -> float:
    """The shortest width that makes few windows.

    >>> _width(3_600), _width(30 * 86_400)
    (600, 86400)
    """
    most, longest = MOST_WINDOWS - 1, _WIDTHS[-1]
    found = next((width for width in _WIDTHS if span / width <= most), None)
    return found or longest * math.ceil(span / (most * longest))


def _counts(path: Any, width: float) -> WindowCounts:
    """How many people by window, group, original and repaired decision, and outcome."""
    found = rows_of(
        path,
        "SELECT CAST(d.at / ? AS INTEGER) AS part, d.grp, d.original, "
        "coalesce(d.repaired, d.original), o.y, count(*) FROM decisions d LEFT JOIN "
        "(SELECT decision, y, max(seq) FROM outcomes GROUP BY decision) o "
        "ON o.decision = d.decision WHERE d.original IS NOT NULL AND d.grp IS NOT NULL "
        "GROUP BY 1, 2, 3, 4, 5",
        width,
    )
    return {
        (part * int(width), group, original, repaired, y): n
        for part, group, original, repaired, y, n in found
    }


def _inputs(
    path: Any, serving: Any, group: Hashable, risk: float
) -> tuple[float, tuple[InputWindow, ...]]:
    """The share of unseen rows to expect, and each day's inputs of a group against the audit's."""
    audited = AuditedInputs.of(serving.classifier.data_, serving.schema.table, group)
    by_day: dict[str, list[tuple[int, int]]] = {}
    for day, cell, n in rows_of(
        path,
        "SELECT day, cell, n FROM cells WHERE artifact = ? AND grp = ? ORDER BY day",
        serving.fingerprint,
        str(group),
    ):
        by_day.setdefault(day, []).append((cell, n))
    days = list(by_day.items())[-MOST_DAYS:]
    return audited.alone, tuple(audited.window(day, cells, risk) for day, cells in days)
