"""Whether the gap stays closed: figures of the log, window by window, as data.

Gaps and their intervals are the audit's own, computed from counts of decisions and outcomes. Drift
compares how often the target group's rows come with how often they came in the audit: counts of
distinct rows suffice, so that nobody's inputs need be kept.
"""

from __future__ import annotations

import calendar
import time
from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fairmend.audit import audit_data
from fairmend.columns import FloatArray, Frame, IntArray
from fairmend.counterfactual import read_disparities
from fairmend.data import AuditData, Population, Tally
from fairmend.disparity import RateGap
from fairmend.model import Labels
from fairmend.serve.log import rows_of

if TYPE_CHECKING:
    from fairmend.serve.sidecar import Sidecar

__all__ = ["Alert", "Edit", "Figures", "GapWindow", "InputWindow", "Monitored", "look"]

MOST_WINDOWS = 45
_WIDTHS = (60, 600, 3_600, 6 * 3_600, 86_400, 7 * 86_400, 28 * 86_400)
DRIFT_P = 0.001
DRIFT_DISTANCE = 0.1
"""Inputs count as drifted where a change is more than chance and concerns a tenth of people."""
_TENTHS = 10


@dataclass(frozen=True)
class GapWindow:
    """One stretch of time: the gap the vendor alone leaves, and the gap with the repair."""

    start: float
    people: int
    labelled: int
    """People whose outcome is known."""
    original: tuple[float, float, float] | None
    """Gap, low and high as shares; None where nobody can tell yet."""
    repaired: tuple[float, float, float] | None
    alert: bool
    """Whether the interval under the repair lies beyond the tolerance."""


@dataclass(frozen=True)
class InputWindow:
    """The target group's inputs on one day, against the audit."""

    day: str
    people: int
    cells: int
    """Distinct rows of the audit that came."""
    unseen: float
    """Share of people whose row was not in the audit."""
    distance: float
    """Of the column that moved most, the total variation from the audit: the share of people who
    would have to have another value."""
    p_value: float
    alert: bool


@dataclass(frozen=True)
class Monitored:
    """One mended group."""

    target: str
    baseline: str
    metric: str
    title: str
    windows: tuple[GapWindow, ...]
    inputs: tuple[InputWindow, ...]
    unseen_expected: float
    """Share of unseen rows to expect if nothing changes: of the audit's people, those alone on
    their row (Good and Turing)."""


@dataclass(frozen=True)
class Edit:
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
class Figures:
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
    edits: tuple[Edit, ...]
    alerts: tuple[Alert, ...]


def look(sidecar: Sidecar) -> Figures:
    """Read the log as it is now."""
    serving, config, path = sidecar.serving, sidecar.config, sidecar.log.path
    [(first, last, total, failed, edited)] = rows_of(
        path,
        "SELECT min(at), max(at), count(*), coalesce(sum(original IS NULL), 0), "
        "coalesce(sum(edited IS NOT NULL AND edited <> ''), 0) FROM decisions",
    )
    width = _width(0.0 if first is None else last - first)
    counts = _counts(path, width)
    classifier = serving.classifier
    disparity = read_disparities(classifier.disparity)[0]
    monitored = []
    for group, plan in classifier.plans_.items():
        rate = disparity if isinstance(disparity, RateGap) else "sp"
        shown = audit_data(classifier.data_, metrics=[rate]).gaps[0].metric
        unseen, inputs = _inputs(path, serving, group)
        compared = _Compared(str(group), str(plan.baseline), rate)
        windows = _windows(counts, compared, config.tolerance)
        title = rate.title if isinstance(rate, RateGap) else "statistical parity"
        monitored.append(
            Monitored(str(group), str(plan.baseline), shown, title, windows, inputs, unseen)
        )
    edits = tuple(
        Edit(*found)
        for found in rows_of(
            path,
            "SELECT at, decision, coalesce(grp, ''), edited, original, repaired FROM decisions "
            "WHERE edited IS NOT NULL AND edited <> '' ORDER BY seq DESC LIMIT 12",
        )
    )
    labelled = sum(n for (_, _, _, _, y), n in counts.items() if y is not None)
    changed = len(sidecar.changed_probes)
    return Figures(
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
        alerts=tuple(_alerts(monitored, changed, sidecar.probed_at)),
    )


def _width(span: float) -> float:
    """The shortest width that makes few windows.

    >>> _width(3_600), _width(30 * 86_400)
    (600, 86400)
    """
    return next((w for w in _WIDTHS if span / w <= MOST_WINDOWS), _WIDTHS[-1])


Counts = dict[tuple[int, str, int, int, int | None], int]


def _counts(path: Any, width: float) -> Counts:
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


@dataclass(frozen=True)
class _Compared:
    """Two groups and the rate they are compared by."""

    target: str
    baseline: str
    rate: RateGap | str

    @property
    def needs_outcomes(self) -> bool:
        return (self.rate if isinstance(self.rate, str) else self.rate.name) != "sp"

    def side(self, group: str) -> str | None:
        """Which of the two somebody belongs to."""
        if group in (self.target, self.baseline):
            return group
        return self.baseline if self.baseline == "rest" else None


def _windows(counts: Counts, compared: _Compared, tolerance: float) -> tuple[GapWindow, ...]:
    windows = []
    for start in sorted({key[0] for key in counts}):
        here = {key[1:]: n for key, n in counts.items() if key[0] == start}
        original = _gap(_summed(here, 1), compared)
        repaired = _gap(_summed(here, 2), compared)
        alert = repaired is not None and (repaired[1] > tolerance or repaired[2] < -tolerance)
        labelled = sum(n for (_, _, _, y), n in here.items() if y is not None)
        windows.append(GapWindow(start, sum(here.values()), labelled, original, repaired, alert))
    return tuple(windows)


Cell = tuple[str, int, int | None]


def _summed(here: dict[tuple[str, int, int, int | None], int], decided: int) -> dict[Cell, int]:
    """People by group, one of the two decisions, and outcome."""
    summed: dict[Cell, int] = {}
    for (group, original, repaired, y), n in here.items():
        key = group, repaired if decided == 2 else original, y
        summed[key] = summed.get(key, 0) + n
    return summed


def _gap(cells: dict[Cell, int], compared: _Compared) -> tuple[float, float, float] | None:
    """The audit's gap of one window with its interval, from counts alone."""
    target, baseline = compared.target, compared.baseline
    people = {name: np.zeros((2, 2)) for name in (target, baseline)}
    for (group, decision, y), n in cells.items():
        side = compared.side(group)
        if side is not None and not (y is None and compared.needs_outcomes):
            people[side][decision, y or 0] += n
    if any(table.sum() == 0 for table in people.values()):
        return None
    populations = (_population(people[target]), _population(people[baseline]))
    data = AuditData((target, baseline), populations, Labels(0, 1), "group")
    for gap in audit_data(data, metrics=[compared.rate], reference=baseline).gaps:
        if gap.target == target and gap.judged:
            return gap.gap, gap.low, gap.high
    return None


def _population(people: FloatArray) -> Population:
    total = people.sum(axis=1)
    share = np.divide(people[:, 1], total, out=np.zeros(2), where=total > 0)
    return Population(
        mass=total / total.sum(),
        decision=np.array([0.0, 1.0]),
        outcome=share,
        tally=Tally(people.copy(), people.copy(), people.copy()),
    )


def _inputs(path: Any, serving: Any, group: Hashable) -> tuple[float, tuple[InputWindow, ...]]:
    """Each day's rows of a group against the audit's."""
    population = serving.classifier.data_[group]
    audited = np.zeros(len(serving.schema.table))
    audited[population.rows] = population.tally.people.sum(axis=1)
    alone = float((audited == 1).sum() / audited.sum())
    bins = _bins(serving.schema.table, audited)
    by_day: dict[str, list[tuple[int, int]]] = {}
    for day, cell, n in rows_of(
        path,
        "SELECT day, cell, n FROM cells WHERE artifact = ? AND grp = ? ORDER BY day",
        serving.fingerprint,
        str(group),
    ):
        by_day.setdefault(day, []).append((cell, n))
    windows = []
    for day, cells in list(by_day.items())[-MOST_WINDOWS:]:
        here = np.zeros(len(audited))
        unseen = 0
        for cell, n in cells:
            if cell < 0:
                unseen += n
            else:
                here[cell] += n
        people = int(here.sum()) + unseen
        distance, p_value = _drift(bins, audited, here)
        moved = p_value < DRIFT_P and distance > DRIFT_DISTANCE
        alert = moved or _more_than(unseen, people, alone + DRIFT_DISTANCE)
        seen = int((here > 0).sum())
        windows.append(InputWindow(day, people, seen, unseen / people, distance, p_value, alert))
    return alone, tuple(windows)


def _bins(table: Frame, audited: FloatArray) -> list[IntArray]:
    """Each column's values as few bins: themselves, or tenths of the audited people."""
    bins = []
    for column in table.encoded:
        codes = np.asarray(column.codes, np.int64)
        if len(column.values) > _TENTHS:
            below = np.cumsum(np.bincount(codes, audited, len(column.values)))
            codes = np.minimum((_TENTHS * below / below[-1]).astype(np.int64), _TENTHS - 1)[codes]
        bins.append(codes)
    return bins


def _drift(bins: list[IntArray], audited: FloatArray, here: FloatArray) -> tuple[float, float]:
    """The column that moved most: its distance, and chi-square tests of all, Bonferroni's way."""
    from scipy.stats import chi2_contingency

    distance, p_value = 0.0, 1.0
    for codes in bins:
        table = np.stack([np.bincount(codes, audited), np.bincount(codes, here)])
        table = table[:, table.sum(axis=0) > 0]
        if table.shape[1] < 2 or here.sum() == 0:
            continue
        shares = table / table.sum(axis=1, keepdims=True)
        distance = max(distance, float(np.abs(shares[0] - shares[1]).sum() / 2))
        p_value = min(p_value, float(chi2_contingency(table, correction=False).pvalue))
    return distance, min(1.0, len(bins) * p_value)


def _more_than(count: int, n: int, share: float) -> bool:
    """Whether a count speaks for a larger share beyond chance (exact, one-sided)."""
    from scipy.stats import binomtest

    return bool(binomtest(count, n, min(share, 1.0), alternative="greater").pvalue < DRIFT_P)


def _alerts(monitored: list[Monitored], changed: int, probed_at: float) -> list[Alert]:
    alerts = []
    if changed:
        alerts.append(
            Alert(probed_at, "model", f"The vendor decides {changed} of its probes otherwise than "
                  "in the audit: the model has changed. Audit it again.")
        )  # fmt: skip
    for one in monitored:
        for window in one.windows:
            if window.alert and window.repaired is not None:
                gap, low, high = (f"{100 * value:+.1f}" for value in window.repaired)
                alerts.append(
                    Alert(window.start, "gap", f"{one.metric} of {one.target}: the gap under the "
                          f"repair is {gap} points, {low} to {high} at 95 % confidence, beyond the "
                          "tolerance.")
                )  # fmt: skip
        for inputs in one.inputs:
            if inputs.alert:
                at = calendar.timegm(time.strptime(inputs.day, "%Y-%m-%d"))
                alerts.append(
                    Alert(at, "inputs", f"Inputs of {one.target} have drifted from the audit: "
                          f"{100 * inputs.distance:.0f} % of people differ in one column, "
                          f"{100 * inputs.unseen:.0f} % have rows not seen in it.")
                )  # fmt: skip
    return sorted(alerts, key=lambda alert: -alert.at)
