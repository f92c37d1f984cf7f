"""What a grouping of people explains of a value, estimated without bias, with interval and test.

A person's group is described by the mean of the others in it (leave-one-out cross-fitting), so that
noise explains nothing on average.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairmend.data.columns import FloatArray, IntArray
from fairmend.measure.intervals import normal_quantile
from fairmend.measure.population import Population

CONFIDENCE = 0.95
"""That no interval of all that are looked at misses the truth."""


@dataclass(frozen=True)
class Explained:
    """A share of a variance with its interval, which is nan for an exact distribution."""

    value: float
    low: float
    high: float
    more_than_noise: bool

    @classmethod
    def least(cls, estimates: Sequence[Explained]) -> Explained:
        """The least of several figures: it is sure where all are."""
        return cls(
            min(one.value for one in estimates),
            min(one.low for one in estimates),
            min(one.high for one in estimates),
            all(one.more_than_noise for one in estimates),
        )


@dataclass(frozen=True, eq=False)
class OtherPeople:
    """The people of a group, row by row, and what is estimated from all of them but one."""

    mass: FloatArray
    one: FloatArray
    """The mass of a single person of the row; 0 where there are no people."""
    squared: FloatArray
    """The sum of the squared masses of the row's people."""

    @classmethod
    def of(cls, source: Population) -> OtherPeople:
        nobody = np.zeros(len(source))
        if source.tally is None:
            return cls(source.mass, nobody, nobody)
        people = source.tally.people.sum(axis=1)
        one = np.divide(source.mass, people, out=nobody, where=people > 0)
        squared = source.tally.squared_by_row / float(source.tally.weight.sum()) ** 2
        return cls(source.mass, one, squared)

    def mean(self, code: IntArray, value: FloatArray, otherwise: FloatArray) -> FloatArray:
        """For a person of each row, the mean over everybody else with the same code.

        Whoever has a code alone gets what is given ``otherwise``.
        """
        weight, total = np.bincount(code, self.mass), np.bincount(code, self.mass * value)
        others = weight[code] - self.one
        there = others > 1e-9 * weight[code]
        rest = total[code] - self.one * value
        return np.divide(rest, others, out=otherwise.astype(np.float64), where=there)

    def explained(
        self, psi: FloatArray, mean: FloatArray, rival: FloatArray, comparisons: int
    ) -> Explained:
        """What conditional means explain of psi, of variance 1, beyond rival means.

        Where means are those of others, the mean of psi * mean estimates the variance they explain
        without bias. The test is of that mean; its variance is doubled, as two people who speak for
        each other make one observation. The interval is from the influence function, 2 psi mean -
        mean^2, and a little wider for what none of n people showed. Both are Bonferroni-corrected.
        """
        gains = psi * (mean - rival)
        value = float(self.mass @ gains)
        if not self.squared.any():  # an exact distribution
            return Explained(max(0.0, value), float("nan"), float("nan"), value > 1e-12)
        quantile = normal_quantile(CONFIDENCE, comparisons)
        terms = (mean - rival) * (2 * psi - mean - rival) - value * psi**2
        unseen = -np.log((1 - CONFIDENCE) / (2 * comparisons)) * self.squared.sum()
        margin = quantile * self._error(terms - self.mass @ terms) + unseen
        low, estimate, high = np.clip([value - margin, value, value + margin], 0, 1).tolist()
        sure = value > quantile * np.sqrt(2) * self._error(gains)
        return Explained(estimate, low, high, bool(sure))

    def _error(self, terms: FloatArray) -> float:
        """The standard error of a mean of terms around 0."""
        return float(np.sqrt(self.squared @ terms**2))
