"""The gap people experience once a repair is in force.

After an edit everybody still has their own outcome y; only the decision changes, from h to some
expected H. A gap of rates is then closed to an aim v exactly when

    sum_i w_i [r(H_i, y_i) - (c + v) t(H_i, y_i)] = 0,

which is linear in H. M(Q), the counterfactual's disparity, lets outcomes follow the edited inputs
instead; the two agree for sp and differ for the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from fairmend.data.columns import FloatArray
from fairmend.data.limits import Between, Chance, by_outcome
from fairmend.data.stored import stored
from fairmend.data.weights import HEAVIEST
from fairmend.measure.disparity import RateGap
from fairmend.measure.population import Population

_OUTCOMES = np.array([0.0, 1.0])


@stored("RealisedGap")
@dataclass(frozen=True, eq=False)
class RealisedGap:
    """One rate gap of a target group as a function of the decisions H its rows get.

    >>> from fairmend.measure.metrics import FNR
    >>> target = Population.of(mass=[1, 1], decision=[0, 1], outcome=[0.5, 0.5])
    >>> baseline = Population.of(mass=[1], decision=[1], outcome=[1])
    >>> realised = RealisedGap.between(FNR, target, baseline)
    >>> realised.gap(np.array([0.0, 1.0])), realised.gap(np.array([1.0, 1.0]))
    (0.5, 0.0)
    """

    disparity: RateGap
    weight: Annotated[FloatArray, by_outcome, Between(0, HEAVIEST * 1e12)]
    """Of the people on each row, by outcome 0 and 1."""
    rate: Chance
    """c, the baseline's rate."""
    aim: Annotated[float, Between(-1, 1)]
    """v, what may remain of the gap."""

    @classmethod
    def between(
        cls, disparity: RateGap, target: Population, baseline: Population, *, level: float = 1.0
    ) -> RealisedGap:
        """The gap of the observed people, to be closed up to (1 - level) of what it is now."""
        weight = target.counts.weight
        now = cls(disparity, weight, disparity.of(baseline), 0.0)
        return cls(disparity, weight, now.rate, (1 - level) * now.gap(target.decision))

    def against(self, baseline: Population) -> RealisedGap:
        """The same aim, with the reference group as it will be."""
        return replace(self, rate=self.disparity.of(baseline))

    def gap(self, decision: FloatArray) -> float:
        """R(H) - c; nan where nobody is left that the rate is over.

        ``decision`` has an entry a row, or one a row and outcome where the two differ.
        """
        r, t = self._sums(decision)
        return r / t - self.rate if t > 0 else float("nan")

    def excess(self, decision: FloatArray) -> float:
        """Sum w [r - (c + v) t]: positive while the gap is above its aim."""
        r, t = self._sums(decision)
        return r - (self.rate + self.aim) * t

    def over(self, decision: FloatArray) -> float:
        """Sum w t, the weight of the people the rate is over."""
        return self._sums(decision)[1]

    @property
    def over_decisions(self) -> bool:
        """Whether decisions change whom the rate is over, as for fdr.

        Then turning a decision helps with some people and harms with others.
        """
        nobody, everybody = (self.disparity.given(h * np.ones(2), _OUTCOMES) for h in _OUTCOMES)
        return not np.array_equal(nobody * np.ones(2), everybody * np.ones(2))

    def slope(self, outcome: FloatArray) -> FloatArray:
        """What turning a decision from 0 to 1 adds to the excess, for people with such an outcome.

        ``outcome`` may hold probabilities.
        """
        y = np.asarray(outcome, np.float64)
        r = self.disparity.rate(np.ones_like(y), y) - self.disparity.rate(np.zeros_like(y), y)
        return np.asarray(r - (self.rate + self.aim) * self.over_slope(y), np.float64)

    def over_slope(self, outcome: FloatArray) -> FloatArray:
        """What turning a decision from 0 to 1 adds to the people the rate is over; mostly 0."""
        y = np.asarray(outcome, np.float64)
        t = self.disparity.given(np.ones_like(y), y) - self.disparity.given(np.zeros_like(y), y)
        return np.asarray(t + np.zeros_like(y), np.float64)

    def row_slope(self) -> FloatArray:
        """The same summed over each row's people, as they turned out."""
        return self.weight @ self.slope(_OUTCOMES)

    def row_over_slope(self) -> FloatArray:
        """`over_slope` summed over each row's people, as they turned out."""
        return self.weight @ self.over_slope(_OUTCOMES)

    def _sums(self, decision: FloatArray) -> tuple[float, float]:
        h = np.asarray(decision, np.float64)
        if h.ndim == 1:
            h = np.repeat(h[:, None], 2, axis=1)
        y = np.broadcast_to(_OUTCOMES, h.shape)
        r, t = self.disparity.rate(h, y), self.disparity.given(h, y)
        return float((self.weight * r).sum()), float((self.weight * t).sum())


def half_a_person(disparity: RateGap, people: Population) -> float:
    """What half a person changes in a rate of theirs; 0 for an exact distribution.

    >>> from fairmend.measure.metrics import SP
    >>> half_a_person(SP, Population.of(mass=[1], decision=[1], outcome=[1]))
    0.0
    """
    if people.tally is None:
        return 0.0
    weight = people.tally.weight
    over = RealisedGap(disparity, weight, 0.0, 0.0).over(people.decision)
    return 0.5 * float(weight.sum()) / people.n / over if over > 0 else 0.0
