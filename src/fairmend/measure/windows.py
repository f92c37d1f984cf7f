"""Gaps of two groups over windows of time, from counts of decisions and outcomes alone.

Many windows are looked at, and of many one strays by chance. So alerts are judged more strictly
than the intervals shown: each has its share of the accepted risk, as if there were as many windows
as there can be (Bonferroni). What an alert says of a window does not change with later windows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from fairmend.data.outcomes import UNLABELLED
from fairmend.measure.audit import audit_data
from fairmend.measure.disparity import RateGap
from fairmend.measure.intervals import mean_gap, wilson
from fairmend.measure.late import CellKey, Counts, Interval, OutcomeChances, WindowCounts
from fairmend.measure.population import AuditData, Population, Tally
from fairmend.measure.result import Gap

MOST_WINDOWS = 46
"""Of 45 widths, the first and the last begun."""

MOSTLY_KNOWN = 0.95
"""A window with a smaller share of known outcomes has its gap estimated beside."""
Sides = dict[str, Counts]
"""People of the target group and of the reference."""


@dataclass(frozen=True)
class GapWindow:
    """One stretch of time: the gap the vendor alone leaves, and the gap with the repair."""

    start: float
    people: int
    labelled: int
    """People whose outcome is known."""
    original: Interval | None
    """At 95 % confidence, as in an audit; None where it is not known yet."""
    repaired: Interval | None
    judged: Interval | None
    """The same gap with the wider interval that alerts rest on."""
    alert: bool
    """Whether that interval lies beyond the tolerance."""
    estimate: Interval | None = None
    """With the repair, where many outcomes are still to come: see `OutcomeChances`."""


@dataclass(frozen=True)
class RateWindow:
    """One group in one stretch of time: how many are selected, and how many decisions are right."""

    start: float
    people: int
    labelled: int
    selected: Interval
    """The share of positive decisions with the repair, at 95 % confidence."""
    selected_alone: Interval
    """By the vendor alone."""
    right: Interval | None
    """The share of decisions with the repair that agree with the outcome, where outcomes are."""
    right_alone: Interval | None


@dataclass(frozen=True)
class GapOverTime:
    """Two groups in every window, and over all of them."""

    windows: tuple[GapWindow, ...]
    overall: GapWindow | None
    """Over all windows; ``judged`` is their mean gap. None where nobody came."""
    rates: dict[str, tuple[RateWindow, ...]]
    """Of the target group and of the reference."""
    overall_rates: dict[str, RateWindow]
    """The same over all windows."""


@dataclass(frozen=True)
class WindowedGap:
    """Two groups, the rate they are compared by, and how strictly."""

    target: str
    baseline: str
    rate: RateGap
    tolerance: float
    risk: float
    """The chance that any of the alerts about these two is false."""

    def over_time(self, counts: WindowCounts, chances: OutcomeChances) -> GapOverTime:
        """Every window, and all of them together."""
        risk = self.risk / (MOST_WINDOWS + 1)  # the mean is judged too
        windows, gaps = [], []
        here: dict[int, Sides] = {}
        total: Sides = {self.target: {}, self.baseline: {}}
        for (start, *rest), n in counts.items():
            key: CellKey = (*rest,)  # type: ignore[assignment]
            side = self._side(key[0])
            if side is not None:
                part = here.setdefault(start, {self.target: {}, self.baseline: {}})[side]
                part[key] = part.get(key, 0) + n
                total[side][key] = total[side].get(key, 0) + n
        for start, sides in sorted(here.items()):
            window, gap = self._window(start, sides, chances)
            if gap is not None:
                gaps.append(gap)
                judged = mean_gap([gap], risk)
                window = replace(window, judged=judged, alert=self._is_beyond(judged))
            windows.append(window)
        overall = None
        if windows:
            overall, _ = self._window(windows[0].start, total, chances)
            mean = mean_gap(gaps, risk) if gaps else None
            overall = replace(overall, judged=mean, alert=self._is_beyond(mean))
        rates = {
            side: tuple(
                _rates(start, sides[side]) for start, sides in sorted(here.items()) if sides[side]
            )
            for side in (self.target, self.baseline)
        }
        overall_rates = {side: _rates(windows[0].start, part)
                         for side, part in total.items() if part}  # fmt: skip
        return GapOverTime(tuple(windows), overall, rates, overall_rates)

    def _side(self, group: str) -> str | None:
        if group in (self.target, self.baseline):
            return group
        return self.baseline if self.baseline == "rest" else None

    def _is_beyond(self, judged: Interval | None) -> bool:
        return judged is not None and (judged[1] > self.tolerance or judged[2] < -self.tolerance)

    def _window(
        self, start: float, part: Sides, chances: OutcomeChances
    ) -> tuple[GapWindow, Gap | None]:
        """One stretch of time, before it is judged, and its gap with the repair."""
        original, repaired = (self._gap(part, decision) for decision in (1, 2))
        people = sum(sum(side.values()) for side in part.values())
        labelled = sum(map(_labelled, part.values()))
        estimate = None
        if self.rate.uses_outcome and labelled < MOSTLY_KNOWN * people:
            estimate = chances.gap(part[self.target], part[self.baseline], self.rate)
        window = GapWindow(start, people, labelled, _interval(original), _interval(repaired),
                           None, False, estimate)  # fmt: skip
        return window, repaired

    def _gap(self, part: Sides, decision: int) -> Gap | None:
        """The audit's gap of one window; None where it cannot be judged yet.

        ``decision`` is the place of the decision in the keys: the original or the repaired one.
        """
        people = {side: np.zeros((2, 2)) for side in part}
        for side, cells in part.items():
            for key, n in cells.items():
                y = key[3]
                if not (y is None and self.rate.uses_outcome):
                    people[side][int(key[decision] or 0), y or 0] += n
        if any(table.sum() == 0 for table in people.values()):
            return None
        decisions = np.array([0.0, 1.0])
        populations = tuple(
            Population.counted(Tally(table, table, table), decisions) for table in people.values()
        )
        data = AuditData((self.target, self.baseline), populations, UNLABELLED, "group")
        gaps = audit_data(data, metrics=[self.rate], reference=self.baseline).gaps
        return next((gap for gap in gaps if gap.target == self.target and gap.judged), None)


def _rates(start: float, part: Counts) -> RateWindow:
    """One group's rates, from its people alone."""
    people, labelled = sum(part.values()), _labelled(part)

    def share(of: int, counted: Callable[[CellKey], bool]) -> Interval | None:
        k = sum(n for key, n in part.items() if counted(key))
        return (k / of, *wilson(k / of, of, 0.95)) if of else None

    selected, selected_alone = (
        share(people, lambda key, d=decision: key[d] == 1)  # type: ignore[misc]
        for decision in (2, 1)
    )
    right, right_alone = (
        share(labelled, lambda key, d=decision: key[d] == key[3])  # type: ignore[misc]
        for decision in (2, 1)
    )
    assert selected is not None
    assert selected_alone is not None
    return RateWindow(start, people, labelled, selected, selected_alone, right, right_alone)


def _labelled(part: Counts) -> int:
    return sum(n for key, n in part.items() if key[3] is not None)


def _interval(gap: Gap | None) -> Interval | None:
    return None if gap is None else (gap.gap, gap.low, gap.high)
