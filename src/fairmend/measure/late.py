"""Gaps where outcomes come late, estimated from what is known of people alike.

People of one group, one decision of the vendor and one band of its score are taken to have the same
chance of a positive outcome, those whose outcome is known and those whose is still to come. It is
counted among the people of the audit and those in the log whose outcome is known; in the log alone,
where enough of them had the same decision with the repair too. Where that does not hold, because
people have changed or because outcomes of some are never known, an estimate is wrong, however
narrow its interval.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fairmend.data.columns import FloatArray
from fairmend.measure.disparity import RateGap
from fairmend.measure.intervals import TOO_FEW, normal_quantile
from fairmend.measure.population import AuditData, Population

__all__ = ["CellKey", "Counts", "Interval", "OutcomeChances", "WindowCounts", "score_bands"]

Interval = tuple[float, float, float]
"""Value, low and high as shares."""
CellKey = tuple[str, int, int, int | None, int | None]
"""Group, original and repaired decision, outcome if known, band of the score if there is one."""
Counts = dict[CellKey, int]
WindowCounts = Mapping[tuple[int, str, int, int, int | None, int | None], int]
"""People by start of the window and `CellKey`."""
BANDS = 20
ENOUGH = 30
"""People by whom a chance is counted among those whose repaired decision was the same."""
Alike = tuple[str, int, int | None, int | None]
"""Group, original decision, band of the score, and repaired decision or None for any."""


def score_bands(data: AuditData) -> tuple[float, ...]:
    """Scores at which a new band begins: twentieths of the audited people.

    Nothing where there are no scores.
    """
    if any(population.score is None or population.tally is None for population in data.populations):
        return ()
    scores = np.concatenate([population.score for population in data.populations])
    people = np.concatenate([_people(population).sum(axis=1) for population in data.populations])
    order = np.argsort(scores)
    below = np.cumsum(people[order]) / people.sum()
    ends = np.searchsorted(below, np.arange(1, BANDS) / BANDS)
    return tuple(np.unique(scores[order][ends]).tolist())


def _people(population: Population) -> FloatArray:
    assert population.tally is not None
    return population.tally.people


@dataclass(frozen=True)
class OutcomeChances:
    """How many people who are alike had a positive outcome, and how many there were."""

    known: Mapping[Alike, tuple[float, float]]

    @classmethod
    def of(cls, data: AuditData, bands: tuple[float, ...], counts: WindowCounts) -> OutcomeChances:
        """From the people of the audit, and those of the log whose outcome is known."""
        known: dict[Alike, tuple[float, float]] = {}

        def add(key: Alike, positive: float, people: float) -> None:
            k, n = known.get(key, (0.0, 0.0))
            known[key] = k + positive, n + people

        for (_, name, original, repaired, y, band), n in counts.items():
            if y is not None:
                add((name, original, band, repaired), n * y, n)
                add((name, original, band, None), n * y, n)
        for group, population in zip(data.groups, data.populations, strict=True):
            if not data.outcome_known or population.tally is None:
                continue
            in_band = [None] * len(population)
            if bands and population.score is not None:
                in_band = np.searchsorted(bands, population.score, side="right").tolist()
            people, h = population.tally.people, population.decision
            for i, band in enumerate(in_band):
                for decision, chance in ((1, h[i]), (0, 1 - h[i])):
                    alike = str(group), decision, band, None
                    alike = str(group), decision, band, None
                    add(alike, chance * people[i, 1], chance * people[i].sum())
        return cls(known)

    def alike(self, key: CellKey) -> Alike:
        """By whom the chance of somebody is counted."""
        group, original, repaired, _, band = key
        fine = group, original, band, repaired
        _, n = self.known.get(fine, (0.0, 0.0))
        return fine if n >= ENOUGH else (group, original, band, None)

    def chance(self, alike: Alike) -> tuple[float, float]:
        """The chance of a positive outcome, and its variance (Jeffreys)."""
        k, n = self.known.get(alike, (0.0, 0.0))
        p = (k + 0.5) / (n + 1)
        return p, p * (1 - p) / (n + 2)

    def gap(self, target: Counts, baseline: Counts, rate: RateGap) -> Interval | None:
        """The gap with the repair at 95 %; None where too few people meet its condition.

        A rate N / D is a mean of each person's event over one of each person's condition, outcomes
        that are not known replaced by their chances. Its variance has two parts: which people came,
        and how well the chances are known.
        """
        of_target, of_baseline = self._rate(target, rate), self._rate(baseline, rate)
        if of_target is None or of_baseline is None:
            return None
        (p, var_p), (q, var_q) = of_target, of_baseline
        reach = normal_quantile(0.95) * math.sqrt(var_p + var_q)
        return p - q, p - q - reach, p - q + reach

    def _rate(self, part: Counts, rate: RateGap) -> tuple[float, float] | None:
        """A group's rate and the variance of its estimate."""
        if not part:
            return None
        keys, n = list(part), np.array(list(part.values()), np.float64)
        h = np.array([key[2] for key in keys], np.float64)
        alike = [self.alike(key) for key in keys]
        is_late = np.array([key[3] is None for key in keys])
        chances = np.array([self.chance(each) for each in alike])
        y = np.where(is_late, chances[:, 0], [key[3] or 0 for key in keys])
        event, condition = rate.rate(h, y), rate.given(h, y)
        total = float(n @ condition)
        if total < TOO_FEW:
            return None
        share = float(n @ event) / total
        differs = event - share * condition
        spread = float(n @ differs**2) / total**2
        one, none = np.ones_like(h), np.zeros_like(h)
        slope = (rate.rate(h, one) - rate.rate(h, none)) - share * (
            rate.given(h, one) - rate.given(h, none)
        )
        moved: dict[Alike, float] = {}
        for key, late, each, weight in zip(alike, is_late, slope, n, strict=True):
            if late:
                moved[key] = moved.get(key, 0.0) + weight * each / total
        unsure = sum(by**2 * self.chance(key)[1] for key, by in moved.items())
        return share, spread + unsure
