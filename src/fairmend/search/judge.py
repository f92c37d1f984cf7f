"""What a candidate does to people: its gap, its performance, and whose decisions change."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairmend.data.columns import FloatArray
from fairmend.measure import special
from fairmend.measure.audit import audit_data
from fairmend.measure.disparity import Disparity, RateGap, parts_of
from fairmend.measure.intervals import normal_quantile
from fairmend.measure.performance import Equivalence, Performance, compare
from fairmend.measure.result import Gap
from fairmend.model.answers import Answers
from fairmend.repair.problem import judged
from fairmend.search.people import Part


@dataclass(frozen=True, eq=False)
class Pair:
    """A gap that is looked at: a metric, a group, and the one it is compared with."""

    disparity: Disparity
    target: Hashable
    baseline: Hashable


@dataclass(frozen=True)
class GroupChange:
    """What becomes of one group's decisions, as shares of the group."""

    group: Hashable
    selected: float
    """Positive decisions."""
    gain: float
    """People who gain the decision they want."""
    lose: float


@dataclass(frozen=True)
class Figures:
    """A candidate on one part of the people."""

    part: str
    gap: Gap
    """The widest of the gaps looked at; its interval holds for all of them at once."""
    reduction: float
    """How much narrower the widest gap is than that of the current decisions."""
    reduction_error: float
    p_wider: float
    """Of the one-sided test that it is not narrower."""
    performance: Equivalence
    changed: float
    """The share of all people whose decision is another."""
    gain: float
    lose: float
    groups: tuple[GroupChange, ...]


class Judge:
    """Judges decisions about the people of one part, beside the current ones."""

    def __init__(
        self,
        part: Part,
        pairs: Sequence[Pair],
        measure: Performance,
        margin: float,
        *,
        favours_positive: bool,
    ) -> None:
        self.part, self.pairs, self.measure, self.margin = part, pairs, measure, margin
        self._favours_positive = favours_positive
        self._before = self._gaps(part.current.decision)

    def figures(self, answers: Answers) -> Figures:
        """All figures of some decisions, one entry a person."""
        part, decision = self.part, answers.decision
        after = self._gaps(decision)
        now, then = (
            max(zip(self.pairs, gaps, strict=True), key=lambda one: width(one[1]))
            for gaps in (self._before, after)
        )
        reduction, error = self._reduction(now, then, decision)
        change = decision - part.current.decision
        wanted = change if self._favours_positive else -change
        share = part.outcomes.share
        up, down = np.maximum(wanted, 0.0), np.maximum(-wanted, 0.0)
        return Figures(
            part=part.name,
            gap=then[1],
            reduction=reduction,
            reduction_error=error,
            p_wider=float(special.ndtr(-reduction / error)) if error > 0 else float(reduction <= 0),
            performance=compare(self.measure, part.outcomes, part.current, answers,
                                margin=self.margin),
            changed=float(share @ np.abs(change)),
            gain=float(share @ up),
            lose=float(share @ down),
            groups=tuple(self._group(place, decision, up, down)
                         for place in range(len(part.data.groups))),
        )  # fmt: skip

    def _group(self, place: int, decision: FloatArray, up: FloatArray, down: FloatArray) -> Any:
        own = self.part.group == place
        weight = self.part.outcomes.weight[own]
        selected, gain, lose = (
            float(weight @ each[own] / weight.sum()) for each in (decision, up, down)
        )
        return GroupChange(self.part.data.groups[place], selected, gain, lose)

    def _gaps(self, decision: FloatArray) -> list[Gap]:
        """Each gap that is looked at, under these decisions."""
        data = self.part.decided(decision)
        confidence = 1 - 0.05 / len(self.pairs)
        found = []
        for pair in self.pairs:
            audit = audit_data(
                data, metrics=[pair.disparity], reference=pair.baseline, confidence=confidence
            )
            found += [gap for gap in audit.gaps if gap.target == pair.target]
        return found

    # ---------------------------------------------------------------- narrower than now

    def _reduction(
        self, now: tuple[Pair, Gap], then: tuple[Pair, Gap], decision: FloatArray
    ) -> tuple[float, float]:
        """How much narrower the gap is, and the standard error of that on the same people."""
        current = self.part.current.decision
        before = np.sign(now[1].gap) * self._influence(now[0], current)
        after = np.sign(then[1].gap) * self._influence(then[0], decision)
        each = before - after
        if self.part.outcomes.person is not None:
            each = np.bincount(self.part.outcomes.person, each)
        return abs(now[1].gap) - abs(then[1].gap), float(np.sqrt(each @ each))

    def _influence(self, pair: Pair, decision: FloatArray) -> FloatArray:
        """What each person adds to the error of a gap: a rate is a ratio of two sums."""
        part, places = self.part, self.part.data.groups
        target = part.group == places.index(pair.target)
        other = ~target if pair.baseline == "rest" else part.group == places.index(pair.baseline)
        influence = np.zeros(len(part))
        for factor, rate in parts_of(pair.disparity):
            assert isinstance(rate, RateGap)
            y, weight = part.outcomes.outcome, part.outcomes.weight
            r, t = rate.rate(decision, y) * weight, rate.given(decision, y) * weight
            for sign, members in ((1.0, target), (-1.0, other)):
                over = float(t[members].sum())
                if over > 0:
                    value = float(r[members].sum()) / over
                    influence[members] += sign * factor * (r - value * t)[members] / over
        return influence


def width(gap: Gap) -> float:
    """How wide a gap is, in either direction; one that cannot be judged is as wide as can be."""
    return abs(gap.gap) if gap.judged else float("inf")


def pairs_to_judge(part: Part, disparities: Sequence[Disparity], reference: Hashable) -> list[Pair]:
    """The gaps that are to be narrowed: of every group that is worse off than its reference."""
    pairs = []
    for disparity in disparities:
        gaps = audit_data(part.data, metrics=[disparity], reference=reference).gaps
        pairs += [Pair(disparity, gap.target, gap.baseline) for gap in judged(gaps) if gap.gap > 0]
    return pairs


def passing_chance(figures: Figures, people: int, judges: int) -> float:
    """The chance that a candidate passes both tests on other people, from figures on some.

    The estimates themselves are uncertain, and so are those to come.
    """
    z = normal_quantile(0.9)  # one-sided at 5 %
    scale = np.sqrt(people / judges)
    chance = 1.0
    for estimate, error in (
        (figures.performance.difference + figures.performance.margin, figures.performance.error),
        (figures.reduction, figures.reduction_error),
    ):
        there = error * scale
        spread = float(np.hypot(error, there)) or 1e-12
        chance *= float(special.ndtr((estimate - z * there) / spread))
    return chance
