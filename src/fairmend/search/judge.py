"""What a candidate does to people: its gap, its performance, and whose decisions change."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from fairmend.data.columns import FloatArray
from fairmend.measure import special
from fairmend.measure.audit import audit_data
from fairmend.measure.disparity import Disparity, RateGap, parts_of
from fairmend.measure.intervals import normal_quantile
from fairmend.measure.performance import (
    PSEUDO_PEOPLE,
    AreaUnderCurve,
    Equivalence,
    Performance,
    compare,
)
from fairmend.measure.result import Gap
from fairmend.model.answers import Answers
from fairmend.repair.problem import judged
from fairmend.search.people import Part

RISK = 0.05
"""Of a test; of all intervals of a kind at once."""


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
    """How much narrower the widest gap is than the gap that was the widest on the people who
    choose, by the comparison that is least sure."""
    reduction_error: float
    p_wider: float
    """Of the one-sided test that it is not narrower: the largest over all gaps looked at."""
    performance: Equivalence
    changed: float
    """The share of all people whose decision is another."""
    gain: float
    lose: float
    groups: tuple[GroupChange, ...]


class Decides(Protocol):
    """What says how people are decided."""

    def answers(self, part: Part, *, scores: bool = False) -> Answers: ...


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
        self._figures: dict[Decides, Figures] = {}
        self._now = self._rates(pairs[0], part.current.decision)

    def figures_of(self, candidate: Decides) -> Figures:
        """All figures of a candidate, which is queried once."""
        if candidate not in self._figures:
            scores = isinstance(self.measure, AreaUnderCurve)
            self._figures[candidate] = self.figures(candidate.answers(self.part, scores=scores))
        return self._figures[candidate]

    def figures(self, answers: Answers) -> Figures:
        """All figures of some decisions, one entry a person."""
        part, decision = self.part, answers.decision
        reduction, error, p_wider = self._narrower(decision)
        change = decision - part.current.decision
        wanted = change if self._favours_positive else -change
        share = part.outcomes.share
        up, down = np.maximum(wanted, 0.0), np.maximum(-wanted, 0.0)
        return Figures(
            part=part.name,
            gap=max(self._gaps(decision), key=width),
            reduction=reduction,
            reduction_error=error,
            p_wider=p_wider,
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
        confidence = 1 - RISK / len(self.pairs)
        audits = {
            (pair.disparity, pair.baseline): audit_data(
                data, metrics=[pair.disparity], reference=pair.baseline, confidence=confidence
            )
            for pair in self.pairs
        }
        return [
            gap
            for pair in self.pairs
            for gap in audits[pair.disparity, pair.baseline].gaps
            if gap.target == pair.target
        ]

    # ---------------------------------------------------------------- narrower than now

    def _narrower(self, decision: FloatArray) -> tuple[float, float, float]:
        """How much narrower the widest gap is, the error of that, and the one-sided p-value.

        It is narrower if each gap, in either direction, is now narrower than the one that was the
        widest on the people who choose. So all of these tests must reject, and none needs a
        correction (an intersection-union test; Berger, 1982).
        """
        tests = []
        for pair in self.pairs:
            then = self._rates(pair, decision)
            for sign in (1, -1):
                narrower = self._now.gap - sign * then.gap
                psi = self._now.psi - sign * then.psi
                spread = float(np.hypot(np.sqrt(self.part.outcomes.squared(psi)), then.floor))
                tests.append((narrower * then.shrunk / spread, narrower, spread))
        z, narrower, spread = min(tests)
        return narrower, spread, float(special.ndtr(-z))

    def _rates(self, pair: Pair, decision: FloatArray) -> _Rates:
        """A gap with what each person adds to its error: a rate is a ratio of two sums."""
        part, places = self.part, self.part.data.groups
        target = part.group == places.index(pair.target)
        other = ~target if pair.baseline == "rest" else part.group == places.index(pair.baseline)
        y, weight = part.outcomes.outcome, part.outcomes.weight
        gap, psi, floor, fewest = 0.0, np.zeros(len(part)), 0.0, np.inf
        for factor, rate in parts_of(pair.disparity):
            assert isinstance(rate, RateGap)
            r, t = rate.rate(decision, y) * weight, rate.given(decision, y) * weight
            for sign, members in ((1.0, target), (-1.0, other)):
                over = float(t[members].sum())
                if over == 0:
                    return _Rates(np.inf, psi, 1.0, 1.0)
                value = float(r[members].sum()) / over
                gap += sign * factor * value
                psi[members] += sign * factor * (r - value * t)[members] / over
                people = 1 / part.outcomes.squared(t * members / over)
                floor += (factor / (people + PSEUDO_PEOPLE)) ** 2
                fewest = min(fewest, people)
        return _Rates(gap, psi, float(np.sqrt(floor)), fewest / (fewest + PSEUDO_PEOPLE))


@dataclass(frozen=True, eq=False)
class _Rates:
    """A gap, and how each person adds to its error."""

    gap: float
    psi: FloatArray
    floor: float
    """The error that is left where hardly anybody's decision changes (Agresti and Min, 2005)."""
    shrunk: float
    """By what a difference is to be reduced, for the same reason."""


def width(gap: Gap) -> float:
    """How wide a gap is, in either direction; one that cannot be judged is as wide as can be."""
    return abs(gap.gap) if gap.judged else float("inf")


def pairs_to_judge(part: Part, disparities: Sequence[Disparity], reference: Hashable) -> list[Pair]:
    """The gaps to narrow, the widest first: of every group worse off than its reference."""
    worse_off = []
    for disparity in disparities:
        gaps = audit_data(part.data, metrics=[disparity], reference=reference).gaps
        worse_off += [(gap.gap, Pair(disparity, gap.target, gap.baseline))
                  for gap in judged(gaps) if gap.gap > 0]  # fmt: skip
    return [pair for _, pair in sorted(worse_off, key=lambda one: -one[0])]


def any_judged(part: Part, disparities: Sequence[Disparity], reference: Hashable) -> bool:
    """Whether any gap is over enough people to say how wide it is."""
    gaps = audit_data(part.data, metrics=disparities, reference=reference).gaps
    return any(gap.judged for gap in gaps)


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
