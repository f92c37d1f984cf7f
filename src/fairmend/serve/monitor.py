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
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairmend.data.columns import Encoded, FloatArray, Frame, IntArray, scalar
from fairmend.data.outcomes import Labels
from fairmend.explain.counterfactual import read_disparities
from fairmend.measure.audit import Gap, audit_data
from fairmend.measure.disparity import SP, RateGap
from fairmend.measure.drift import Moved
from fairmend.measure.tabulate import AuditData, Population, Tally
from fairmend.report.monitoring import (
    GapWindow,
    InputWindow,
    Interval,
    LoggedEdit,
    Monitored,
    MonitorFigures,
    find_alerts,
)
from fairmend.serve.log import rows_of

if TYPE_CHECKING:
    from fairmend.serve.sidecar import Sidecar

__all__ = ["Audited", "look", "mean_gap"]

FALSE_ALERTS = 0.05
"""The chance that a page shows any alert of a gap where there is none beyond the tolerance; and
likewise any alert of drift where nothing drifts. At most, at any one look."""
MOST_DAYS = 45
_WIDTHS = (60, 600, 3_600, 6 * 3_600, 86_400, 7 * 86_400, 28 * 86_400)
_MOST_WINDOWS = 46
"""Of 45 widths, the first and the last begun."""
DRIFT_DISTANCE = 0.1
"""Inputs count as drifted where a change is more than chance and concerns a tenth of people."""
_TENTHS = 10


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


def _monitored(sidecar: Sidecar, counts: Counts) -> list[Monitored]:
    serving, tolerance = sidecar.serving, sidecar.config.tolerance
    plans = serving.classifier.plans_
    disparity = read_disparities(serving.classifier.disparity)[0]
    rate = disparity if isinstance(disparity, RateGap) else SP
    chance = FALSE_ALERTS / max(1, len(plans))
    monitored = []
    for group, plan in plans.items():
        compared = _Compared(str(group), str(plan.baseline), rate, tolerance, chance)
        windows, overall = compared.windows(counts)
        unseen, inputs = _inputs(sidecar.log.path, serving, group, chance / MOST_DAYS)
        monitored.append(
            Monitored(
                target=compared.target,
                baseline=compared.baseline,
                metric=rate.name,
                title=rate.title,
                windows=windows,
                overall=overall,
                overall_alert=compared.beyond(overall),
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
    most, longest = _MOST_WINDOWS - 1, _WIDTHS[-1]
    found = next((width for width in _WIDTHS if span / width <= most), None)
    return found or longest * math.ceil(span / (most * longest))


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
    """Two groups, the rate they are compared by, and how strictly."""

    target: str
    baseline: str
    rate: RateGap
    tolerance: float
    chance: float
    """That any of the alerts about these two is false."""

    def side(self, group: str) -> str | None:
        """Which of the two somebody belongs to."""
        if group in (self.target, self.baseline):
            return group
        return self.baseline if self.baseline == "rest" else None

    def windows(self, counts: Counts) -> tuple[tuple[GapWindow, ...], Interval | None]:
        """Every window, and the mean gap of them all."""
        chance = self.chance / (_MOST_WINDOWS + 1)  # the mean is judged too
        windows, gaps = [], []
        for start in sorted({key[0] for key in counts}):
            here = {key[1:]: n for key, n in counts.items() if key[0] == start}
            original, repaired = (_gap(_summed(here, which), self) for which in (1, 2))
            judged = None
            if repaired is not None:
                gaps.append(repaired)
                judged = mean_gap([repaired], chance)
            windows.append(
                GapWindow(
                    start=start,
                    people=sum(here.values()),
                    labelled=sum(n for (_, _, _, y), n in here.items() if y is not None),
                    original=_interval(original),
                    repaired=_interval(repaired),
                    judged=judged,
                    alert=self.beyond(judged),
                )
            )
        return tuple(windows), mean_gap(gaps, chance) if gaps else None

    def beyond(self, judged: Interval | None) -> bool:
        """Whether a gap is beyond the tolerance, and not by chance."""
        if judged is None:
            return False
        _, low, high = judged
        return low > self.tolerance or high < -self.tolerance


def _interval(gap: Gap | None) -> Interval | None:
    return None if gap is None else (gap.gap, gap.low, gap.high)


def mean_gap(gaps: Sequence[Gap], chance: float) -> Interval:
    """The mean gap of some windows, with limits to hold against a tolerance.

    Where the gap is within the tolerance, all between them lies beyond it with at most this chance.
    The audit's intervals are made for 95 %, and fail several times too often at 99.9 %. Here each
    group's rate has its exact limits (Clopper and Pearson), and those of the gap p - q are made of
    them (Zou and Donner, 2008):

        low  = p - q - sqrt((p - low_p)^2 + (high_q - q)^2),
        high = p - q + sqrt((high_p - p)^2 + (q - low_q)^2).

    Windows with n and m people weigh w = n m / (n + m) (Mantel and Haenszel): a mean of gaps within
    the tolerance lies within it, whatever the groups' sizes do. As p (1 - p) is concave, a mean
    rate varies about as much as one over (sum w)^2 / sum (w^2 / n) people, or less.
    """
    n, m = (
        np.array(people, np.float64)
        for people in zip(*((gap.given_target, gap.given_baseline) for gap in gaps), strict=True)
    )
    rates = np.array([(gap.target_rate, gap.baseline_rate) for gap in gaps])
    weight = n * m / (n + m)
    weight /= weight.sum()
    p, q = (float(rate) for rate in weight @ rates)
    low_p, high_p = _limits(p, 1 / float(weight**2 @ (1 / n)), chance)
    low_q, high_q = _limits(q, 1 / float(weight**2 @ (1 / m)), chance)
    gap = p - q
    return gap, gap - math.hypot(p - low_p, high_q - q), gap + math.hypot(high_p - p, q - low_q)


def _limits(rate: float, n: float, chance: float) -> tuple[float, float]:
    """Clopper and Pearson's limits of a rate seen among n people."""
    from scipy.special import betaincinv

    seen, rest = rate * n, (1 - rate) * n
    low = float(betaincinv(seen, rest + 1, chance / 2)) if seen > 0 else 0.0
    high = float(betaincinv(seen + 1, rest, 1 - chance / 2)) if rest > 0 else 1.0
    return low, high


Cell = tuple[str, int, int | None]


def _summed(here: dict[tuple[str, int, int, int | None], int], decided: int) -> dict[Cell, int]:
    """People by group, one of the two decisions, and outcome."""
    summed: dict[Cell, int] = {}
    for (group, original, repaired, y), n in here.items():
        key = group, repaired if decided == 2 else original, y
        summed[key] = summed.get(key, 0) + n
    return summed


def _gap(cells: dict[Cell, int], compared: _Compared) -> Gap | None:
    """The audit's gap of one window, from counts alone; None where nobody can tell yet."""
    target, baseline = compared.target, compared.baseline
    people = {name: np.zeros((2, 2)) for name in (target, baseline)}
    for (group, decision, y), n in cells.items():
        side = compared.side(group)
        if side is not None and not (y is None and compared.rate != SP):
            people[side][decision, y or 0] += n
    if any(table.sum() == 0 for table in people.values()):
        return None
    populations = (_population(people[target]), _population(people[baseline]))
    data = AuditData((target, baseline), populations, Labels(0, 1), "group")
    for gap in audit_data(data, metrics=[compared.rate], reference=baseline).gaps:
        if gap.target == target and gap.judged:
            return gap
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


def _inputs(
    path: Any, serving: Any, group: Hashable, chance: float
) -> tuple[float, tuple[InputWindow, ...]]:
    """Each day's rows of a group against the audit's; ``chance`` is that of a false alert a day."""
    data, table = serving.classifier.data_, serving.schema.table
    audited = _on_rows(data[group], len(table))
    everybody = np.sum([_on_rows(each, len(table)) for each in data.populations], axis=0)
    audit = Audited(table, audited, everybody)
    by_day: dict[str, list[tuple[int, int]]] = {}
    for day, cell, n in rows_of(
        path,
        "SELECT day, cell, n FROM cells WHERE artifact = ? AND grp = ? ORDER BY day",
        serving.fingerprint,
        str(group),
    ):
        by_day.setdefault(day, []).append((cell, n))
    windows = []
    for day, cells in list(by_day.items())[-MOST_DAYS:]:
        here = np.zeros(len(audited))
        unseen = 0
        for cell, n in cells:
            if cell < 0:
                unseen += n
            else:
                here[cell] += n
        people = int(here.sum()) + unseen
        moved, alert = audit.most_moved(here, unseen, chance)
        seen = int((here > 0).sum())
        windows.append(InputWindow(day, people, seen, unseen / people, moved, alert))
    return audit.alone, tuple(windows)


def _on_rows(population: Population, rows: int) -> FloatArray:
    """How many people of a group the audit saw on each row of the table."""
    assert population.tally is not None
    found = np.zeros(rows)
    found[population.rows] = np.rint(population.tally.people.sum(axis=1))
    return found


class Audited:
    """The audited inputs of a group, column by column in few bins, to compare a day's with.

    Only rows of the audit are counted one by one, and whoever is alone on theirs, of all groups,
    would have come on a row not in it, had they not been audited (Good and Turing). So a day's
    people on rows of the audit are compared with those audited who were not alone, and the share of
    people on other rows with the share of the alone.
    """

    def __init__(self, table: Frame, people: FloatArray, everybody: FloatArray) -> None:
        binned = [_binned(column, people) for column in table.encoded]
        labels = [*(labels for _, labels in binned), ["in the audit", "not in the audit"]]
        sizes = np.array(list(map(len, labels)))
        self._names = (*table.names, "row")
        self._labels = [label for each in labels for label in each]
        self._column = np.repeat(np.arange(len(sizes)), sizes)
        """The column of each bin; bins of all columns stand in one line."""
        first = np.cumsum(sizes) - sizes
        self._bins = [bins + start for (bins, _), start in zip(binned, first[:-1], strict=True)]
        alone = (people == 1) & (everybody == 1)
        self.alone = float(alone.sum() / people.sum())
        """The share of people on rows not in the audit to expect if nothing changes."""
        self._before = self._counts(np.where(alone, 0.0, people), int(alone.sum()))

    def _counts(self, people: FloatArray, unseen: int) -> FloatArray:
        """How many there are in each bin, from those on each row and those on others."""
        counts = np.zeros(len(self._labels))
        for bins in self._bins:
            counts += np.bincount(bins, people, len(counts))
        counts[-2:] = people.sum(), unseen
        return counts

    def most_moved(self, here: FloatArray, unseen: int, chance: float) -> tuple[Moved, bool]:
        """The column that moved most, and whether that is drift; columns that drifted come first.

        ``here`` counts a day's people on each row. Each bin's share is tested exactly (Fisher); a
        column's p value is the smallest of its bins', times the number of bins and of columns
        (Bonferroni).
        """
        from scipy.stats import hypergeom

        before, now, column = self._before, self._counts(here, unseen), self._column
        all_before, all_now = (np.bincount(column, counts)[column] for counts in (before, now))
        law = all_before + all_now, before + now, all_now
        p_values = 2 * np.minimum(hypergeom.cdf(now, *law), hypergeom.sf(now - 1, *law))
        least = np.ones(len(self._names))
        np.minimum.at(least, column, p_values)
        p_value = np.minimum(1.0, least * np.bincount(column) * len(self._names))

        was, is_now = before / np.maximum(all_before, 1), now / np.maximum(all_now, 1)
        change = np.where((all_before > 0) & (all_now > 0), np.abs(is_now - was), 0.0)
        distance = np.bincount(column, change) / 2
        drifted = (p_value < chance) & (distance > DRIFT_DISTANCE)
        most = int(np.lexsort((distance, drifted))[-1])
        bin_ = int(np.argmax(np.where(column == most, change, -1.0)))
        moved = Moved(
            column=self._names[most],
            value=self._labels[bin_],
            before=float(was[bin_]),
            now=float(is_now[bin_]),
            distance=float(distance[most]),
            p_value=float(p_value[most]),
        )
        return moved, bool(drifted[most])


def _binned(column: Encoded, people: FloatArray) -> tuple[IntArray, list[str]]:
    """The bin of each row, and what bins are called: values, or tenths of the audited people.

    What is missing has a bin of its own, and a value that many have begins one.
    """
    codes, known = np.asarray(column.codes, np.int64), column.values
    if column.has_missing:
        known = known[:-1]
    starts = list(range(len(known)))
    if len(known) > _TENTHS:
        having = np.bincount(codes, people, len(column.values))[: len(known)]
        below = np.cumsum(having) - having
        tenth = _TENTHS * below // max(1.0, having.sum())
        starts = np.unique(tenth, return_index=True)[1].tolist()
    bin_of = np.searchsorted(starts, np.arange(len(column.values)), side="right") - 1
    labels = [_range(known, *ends) for ends in zip(starts, [*starts[1:], len(known)], strict=True)]
    if column.has_missing:
        bin_of[-1] = len(labels)
        labels.append("missing")
    return bin_of[codes], labels


def _range(values: NDArray[Any], start: int, stop: int) -> str:
    """Some of a column's values in words; its least and its greatest may be one person's alone."""
    first, last = (
        f"{value:.6g}" if isinstance(value, float) else str(value)
        for value in (scalar(values[start]), scalar(values[stop - 1]))
    )
    if stop - start == 1:
        return first
    if start == 0:
        return f"up to {last}"
    return f"from {first}" if stop == len(values) else f"{first} to {last}"
