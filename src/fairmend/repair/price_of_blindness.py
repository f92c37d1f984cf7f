"""The price of blindness: what closing a gap costs without the group, and what with it.

Before anybody decides for a rule: how far any rule on these inputs can go at all, what each step
costs, and what the same step costs where the group may be read. All of it is on the people of the
audit. Who is turned is decided by probabilities from a model that did not see them, so that a rule
is not judged on what it was made from; one price for each gap is fitted on everybody.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairmend.data.columns import FloatArray
from fairmend.errors import FairmendWarning
from fairmend.measure.audit import audit_data
from fairmend.measure.intervals import normal_quantile
from fairmend.measure.population import AuditData, Tally
from fairmend.measure.result import Gap
from fairmend.model.blackbox import BlackBox
from fairmend.repair.blind.reach import furthest
from fairmend.repair.blind.rule import BlindPlan
from fairmend.repair.frontier import PlansAt, plans_by_level
from fairmend.repair.plan import Plan
from fairmend.repair.plans import make_plans
from fairmend.repair.problem import judged
from fairmend.repair.settings import RepairSettings
from fairmend.repair.telling import inputs_to_keep_out
from fairmend.repair.together import repaired_population
from fairmend.repair.trade_off import TradeOff
from fairmend.tables import TextTable, percent, points

LEVELS = (0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class PricePoint:
    """A repair at one level, on the people of the audit."""

    level: float
    reads_group: bool
    closed: bool
    """Whether it reaches its level."""
    gap: float
    low: float
    high: float
    """The widest gap that is left, with its 95 % interval."""
    accuracy: float
    accuracy_low: float
    accuracy_high: float
    """With the 95 % interval of its difference from the model's."""
    worth: float
    """1 - 2 (k FP + (1-k) FN) at the model's own trade-off k."""
    turned: float
    """The share of all people whose decision is another."""


@dataclass(frozen=True)
class PriceOfBlindness:
    """What closing a gap costs without the group, beside what it costs with it."""

    metric: str
    gap: float
    """The widest gap of the model."""
    accuracy: float
    worth: float
    trade_off: TradeOff
    furthest: tuple[float, float, float] | None
    """The gap under the rule that does all it can, with its interval; None for several gaps."""
    proxy_auc: float
    """How well the inputs tell the groups, cross-fitted."""
    points: tuple[PricePoint, ...]

    @property
    def reachable(self) -> bool:
        """Whether a blind rule closes the gap of the people audited."""
        if self.furthest is not None:
            return self.furthest[0] <= 0
        return any(one.closed for one in self.points if not one.reads_group and one.level == 1)

    def to_frame(self) -> Any:
        """One line a level and kind of repair, as a pandas frame."""
        import pandas as pd

        return pd.DataFrame([vars(one) for one in self.points])

    @property
    def sentences(self) -> tuple[str, ...]:
        """What it comes to."""
        sentences = [f"The inputs tell the groups with an AUC of {self.proxy_auc:.2f}."]
        if self.furthest is not None:
            gap, low, high = self.furthest
            can = "can close the gap" if self.reachable else "cannot close the gap"
            sentences.append(
                f"A rule on these inputs {can}: the furthest that one goes is {points(gap)} points "
                f"(95 % interval {points(low)} to {points(high)})."
            )
        pairs = [[one for one in self.points if (one.level, one.reads_group) == (1.0, reads)]
                 for reads in (False, True)]  # fmt: skip
        if all(pairs):
            (blind,), (aware,) = pairs
            change = [points(one.accuracy - self.accuracy) for one in (blind, aware)]
            sentences.append(
                f"Closing all of it changes accuracy by {change[0]} points without the group and "
                f"by {change[1]} with it."
            )
        return tuple(sentences)

    def __str__(self) -> str:
        table = TextTable(
            f"The price of blindness: {self.metric}, on the people of the audit",
            ("<closed", "<repair", "gap", "interval", "accuracy", "interval", "worth", "flipped"),
            [
                ("", "the model as it is", points(self.gap), "", percent(self.accuracy), "",
                 f"{self.worth:.3f}", ""),
                *(_line(one) for one in self.points),
            ],
        )  # fmt: skip
        return f"{table}\n{' '.join(self.sentences)}"


def _line(one: PricePoint) -> tuple[str, ...]:
    return (
        f"{100 * one.level:.0f} %{'' if one.closed else ', not reached'}",
        "reads the group" if one.reads_group else "blind",
        points(one.gap),
        f"[{points(one.low)}, {points(one.high)}]",
        percent(one.accuracy),
        f"[{percent(one.accuracy_low)}, {percent(one.accuracy_high)}]",
        f"{one.worth:.3f}",
        percent(one.turned),
    )


def price_of_blindness(
    data: AuditData,
    settings: RepairSettings,
    box: BlackBox,
    levels: Sequence[float] = LEVELS,
    *,
    blind_at: PlansAt | None = None,
) -> PriceOfBlindness | None:
    """Both kinds of repair at each level; None where no group is worse off.

    ``blind_at`` are the plans of a blind repair by level, where they are at hand.
    """
    blind, aware = replace(settings, blind=True), replace(settings, blind=False, rank=None)
    if blind_at is None:
        inputs_to_keep_out(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairmendWarning)  # of single repairs, for single repairs
        blind_at = blind_at or plans_by_level({}, data, blind, box)
        whole = blind_at(1.0)
        some = next(iter(whole.values()), None)
        if not isinstance(some, BlindPlan):
            return None
        judge = _Judge(data, settings, some.rule.trade_off)
        reading = plans_by_level(make_plans(data, aware, box), data, aware, box)
        points_by_level = []
        for level in levels:
            plans = whole if level == 1 else blind_at(level)
            points_by_level.append(judge.point(plans, level, reads_group=False))
            points_by_level.append(judge.point(reading(level), level, reads_group=True))
    now = judge.point({}, 0.0, reads_group=False)
    one_gap = len(some.rule.prices) == 1
    return PriceOfBlindness(
        metric=some.metric,
        gap=now.gap,
        accuracy=now.accuracy,
        worth=now.worth,
        trade_off=some.rule.trade_off,
        furthest=furthest(data, settings, whole, judge.target, judge.gap) if one_gap else None,
        proxy_auc=some.rule.proxy_auc,
        points=tuple(points_by_level),
    )


class _Judge:
    """Counts what plans do to the people of the audit."""

    def __init__(self, data: AuditData, settings: RepairSettings, trade_off: TradeOff) -> None:
        self.data, self.settings, self.trade_off = data, settings, trade_off
        self._gaps = audit_data(
            data, metrics=settings.disparities[:1], reference=settings.reference
        ).gaps
        self._against = {gap.baseline for gap in self._gaps}
        self.target = max(judged(self._gaps_of(data)), key=lambda gap: gap.gap).target

    def point(self, plans: Mapping[Hashable, Plan], level: float, *, reads_group: bool) -> Any:
        """The widest gap, accuracy and worth under some plans."""
        after = self._decided(plans)
        gap = self._widest(after)
        right, error, turned = self._accuracy(after)
        before, _, _ = self._accuracy(self.data)
        sides = normal_quantile(0.95, 1) * error
        return PricePoint(
            level=float(level),
            reads_group=reads_group,
            closed=all(plan.status.closed for plan in plans.values()),
            gap=gap.gap,
            low=gap.low,
            high=gap.high,
            accuracy=right,
            accuracy_low=right - sides if plans else before,
            accuracy_high=right + sides if plans else before,
            worth=self._worth(after),
            turned=turned,
        )

    def _decided(self, plans: Mapping[Hashable, Plan]) -> AuditData:
        people = tuple(
            repaired_population(self.data, group, plans[group]) if group in plans else population
            for group, population in zip(self.data.groups, self.data.populations, strict=True)
        )
        return replace(self.data, populations=people)

    def gap(self, data: AuditData) -> Gap:
        """That of the group that is worst off."""
        return next(gap for gap in self._gaps_of(data) if gap.target == self.target)

    def _widest(self, data: AuditData) -> Gap:
        return max(self._gaps_of(data), key=lambda gap: abs(np.nan_to_num(gap.gap)))

    def _gaps_of(self, data: AuditData) -> list[Gap]:
        reference = self.settings.reference
        if len(self._against) == 1:
            [reference] = self._against  # of the model as it is, whoever is best off since
        gaps = audit_data(data, metrics=self.settings.disparities[:1], reference=reference).gaps
        return [gap for gap in gaps if self.settings.target in (None, gap.target)]

    def _accuracy(self, after: AuditData) -> tuple[float, float, float]:
        """Accuracy, the standard error of its difference from the model's, and who is turned."""
        right = total = turned = 0.0
        sums: list[tuple[FloatArray, Tally]] = []
        for old, new in zip(self.data.populations, after.populations, strict=True):
            tally = old.tally
            assert tally is not None
            y, change = np.array([0.0, 1.0]), (new.decision - old.decision)[:, None]
            hit = new.decision[:, None] * y + (1 - new.decision[:, None]) * (1 - y)
            right += float((tally.weight * hit).sum())
            total += float(tally.weight.sum())
            turned += float(tally.by_row @ np.abs(change[:, 0]))
            sums.append((change * (2 * y - 1), tally))
        mean = sum(float((tally.weight * change).sum()) for change, tally in sums) / total
        spread = sum(float((tally.squared * (change - mean) ** 2).sum()) for change, tally in sums)
        return right / total, float(np.sqrt(spread)) / total, turned / total

    def _worth(self, after: AuditData) -> float:
        tallies = [people.tally.weight for people in after.populations if people.tally is not None]
        decided = np.concatenate([people.decision for people in after.populations])
        return self.trade_off.worth(np.concatenate(tallies), decided)
