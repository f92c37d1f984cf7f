"""Gaps of two groups over windows of time, from counts of decisions and outcomes alone.

Many windows are looked at, and of many one strays by chance. So alerts are judged more strictly
than the intervals shown: each has its share of the accepted risk, as if there were as many windows
as there can be (Bonferroni). What an alert says of a window does not change with later windows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fairmend.data.outcomes import UNLABELLED
from fairmend.measure.audit import audit_data
from fairmend.measure.disparity import RateGap
from fairmend.measure.intervals import mean_gap
from fairmend.measure.population import AuditData, Population, Tally
from fairmend.measure.result import Gap

MOST_WINDOWS = 46
"""Of 45 widths, the first and the last begun."""

Interval = tuple[float, float, float]
"""Gap, low and high as shares."""
WindowCounts = Mapping[tuple[int, str, int, int, int | None], int]
"""People by start of the window, group, original and repaired decision, and outcome if known."""


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


@dataclass(frozen=True)
class WindowedGap:
    """Two groups, the rate they are compared by, and how strictly."""

    target: str
    baseline: str
    rate: RateGap
    tolerance: float
    risk: float
    """The chance that any of the alerts about these two is false."""

    def windows(self, counts: WindowCounts) -> tuple[tuple[GapWindow, ...], Interval | None]:
        """Every window, and the mean gap of them all."""
        risk = self.risk / (MOST_WINDOWS + 1)  # the mean is judged too
        windows, gaps = [], []
        for start in sorted({key[0] for key in counts}):
            here = {key[1:]: n for key, n in counts.items() if key[0] == start}
            original, repaired = (self._gap(here, decision) for decision in (1, 2))
            judged = None
            if repaired is not None:
                gaps.append(repaired)
                judged = mean_gap([repaired], risk)
            windows.append(
                GapWindow(
                    start=start,
                    people=sum(here.values()),
                    labelled=sum(n for (*_, y), n in here.items() if y is not None),
                    original=_interval(original),
                    repaired=_interval(repaired),
                    judged=judged,
                    alert=self.is_beyond(judged),
                )
            )
        return tuple(windows), mean_gap(gaps, risk) if gaps else None

    def is_beyond(self, judged: Interval | None) -> bool:
        return judged is not None and (judged[1] > self.tolerance or judged[2] < -self.tolerance)

    def _gap(
        self, here: Mapping[tuple[str, int, int, int | None], int], decision: int
    ) -> Gap | None:
        """The audit's gap of one window; None where it cannot be judged yet.

        ``decision`` is the place of the decision in the keys: the original or the repaired one.
        """
        people = {name: np.zeros((2, 2)) for name in (self.target, self.baseline)}
        needs_outcome = self.rate.uses_outcome
        for key, n in here.items():
            group, y = key[0], key[3]
            side = self.baseline if self.baseline == "rest" and group != self.target else group
            if side in people and not (y is None and needs_outcome):
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


def _interval(gap: Gap | None) -> Interval | None:
    return None if gap is None else (gap.gap, gap.low, gap.high)
