"""Every interval there is: of rates, of gaps between two groups, of ratios and of means of gaps.

The influence function gives the standard error of a gap directly, Var(psi)/n per group, for hard
and soft decisions and for weighted people alike. Plain intervals of this kind are too short in
small groups; one pseudo-success and one pseudo-failure per group and rate corrects that (Agresti
and Caffo, 2000).

Where people have several rows, as ids say, these are not independent: the influence is summed over
a person's rows before it is squared, and people are counted instead of rows. Somebody with rows in
both groups of a comparison counts with the sum of both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fairmend.data.columns import BoolArray, FloatArray, IntArray
from fairmend.measure import special
from fairmend.measure.disparity import Disparity, RateGap
from fairmend.measure.metrics import Alignment
from fairmend.measure.population import Population
from fairmend.measure.result import Gap

PSEUDO = 1.0
"""Pseudo-successes and pseudo-failures added to each rate."""
TOO_FEW = 5
"""A rate over fewer people than this (effectively, if weighted) is not judged."""
NAN = float("nan")


def normal_quantile(confidence: float, comparisons: int = 1) -> float:
    """How many standard errors an end of a two-sided interval is away (Bonferroni).

    >>> round(normal_quantile(0.95), 3), round(normal_quantile(0.95, comparisons=10), 3)
    (1.96, 2.807)
    """
    return -float(special.ndtri((1 - confidence) / 2 / comparisons))


class Reach(NamedTuple):
    """How many standard errors the ends of a gap's interval are away.

    Where the baseline was the lowest of several rates its own is likely too low, and the gap too
    large: the lower end holds for each of these rivals at once.
    """

    below: float
    above: float

    @classmethod
    def of(cls, confidence: float, rivals: int = 1) -> Reach:
        return cls(normal_quantile(confidence, rivals), normal_quantile(confidence))


# -------------------------------------------------------------------- one rate


def clopper_pearson(k: FloatArray, n: FloatArray, risk: float) -> tuple[FloatArray, FloatArray]:
    """Exact intervals of shares k / n; 0 to 1 where there is nobody.

    >>> low, high = clopper_pearson(np.array([0.0, 5.0]), np.array([0.0, 5.0]), 0.05)
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.0, 0.478], [1.0, 1.0])
    """
    low, high = np.zeros(len(k)), np.ones(len(k))
    some, rest = k > 0, n - k > 1e-9
    low[some] = special.betaincinv(k[some], n[some] - k[some] + 1, risk / 2)
    high[rest] = special.betaincinv(k[rest] + 1, n[rest] - k[rest], 1 - risk / 2)
    return low, high


def wilson(rate: float, n: float, confidence: float) -> tuple[float, float]:
    """Those rates p with abs(rate - p) <= z sqrt(p (1 - p) / n).

    >>> [round(end, 3) for end in wilson(0.0, 10, 0.95)]
    [0.0, 0.278]
    """
    z = normal_quantile(confidence)
    middle = (rate + z**2 / (2 * n)) / (1 + z**2 / n)
    spread = np.maximum(rate * (1 - rate), 0) / n + z**2 / (4 * n**2)
    reach = z / (1 + z**2 / n) * np.sqrt(spread)
    low, high = np.clip([middle - reach, middle + reach], 0.0, 1.0)  # nan stays nan
    return float(low), float(high)


def ratio_interval(
    rates: tuple[float, float], n: tuple[float, float], confidence: float
) -> tuple[float, float]:
    """Katz's interval for log(p / q), half a person added to each count (Walter)."""
    (x, m), (x_top, m_top) = (
        (p * people + 0.5, people + 0.5) for p, people in zip(rates, n, strict=True)
    )
    log_ratio = float(np.log(x / m) - np.log(x_top / m_top))
    spread = np.maximum(1 / x - 1 / m + 1 / x_top - 1 / m_top, 0.0)
    reach = normal_quantile(confidence) * float(np.sqrt(spread))
    return float(np.exp(log_ratio - reach)), float(np.exp(log_ratio + reach))


def rate_interval(disparity: RateGap, population: Population, risk: float) -> tuple[float, float]:
    """Clopper and Pearson's, of a rate of counted people; the rate itself where it is exact."""
    rate, observed = disparity.of(population), population.observed
    if observed.tally is None:
        return rate, rate
    people = np.array([effective_people(observed, disparity.terms(observed)[1])])
    low, high = clopper_pearson(rate * people, people, risk)
    return float(low[0]), float(high[0])


# -------------------------------------------------------------------- the error of a mean


@dataclass(frozen=True, eq=False)
class SamplingError:
    """The sampling error of a weighted sum of psi over one group's people."""

    variance: float
    people: IntArray | None = None
    """Where some people have several rows: everybody's number, sorted."""
    shares: FloatArray | None = None
    """What each of these people adds to the error."""

    @classmethod
    def of(cls, people: Population, psi: FloatArray) -> SamplingError:
        """Of observed people: sum w^2 psi^2, over people with several rows sum (sum w psi)^2."""
        if people.tally is None:  # an exact distribution
            return cls(0.0)
        if people.by_person is None:
            return cls(float(people.tally.squared_by_row @ psi**2))
        shares = people.by_person.sums(np.repeat(psi, 2))
        return cls(float(shares @ shares), people.by_person.people, shares)

    @classmethod
    def of_mean(cls, people: Population, psi: FloatArray) -> SamplingError:
        return cls.of(
            people, psi if people.tally is None else psi / float(people.tally.by_row.sum())
        )

    def covariance(self, other: SamplingError) -> float:
        """From people of one group who are in the other too."""
        if self.people is None or other.people is None:
            return 0.0
        both, here, there = np.intersect1d(
            self.people, other.people, assume_unique=True, return_indices=True
        )
        return float(self.shares[here] @ other.shares[there]) if len(both) else 0.0  # type: ignore[index]


def effective_people(people: Population, condition: FloatArray) -> float:
    """How many equally weighted people a condition is met by, (sum w t)^2 / sum (w t)^2."""
    assert people.tally is not None
    total = float(people.tally.by_row @ condition)
    return total**2 / SamplingError.of(people, condition).variance if total > 0 else 0.0


def _people_with(people: Population, wanted: BoolArray) -> float:
    """How many of the observed people are in one of the wanted cells."""
    assert people.tally is not None
    if people.by_person is not None:
        return float(np.count_nonzero(people.by_person.sums(np.repeat(wanted, 2).astype(float))))
    return float((people.tally.people[:, 0] + people.tally.people[:, 1])[wanted].sum())


# -------------------------------------------------------------------- a gap of rates


@dataclass(frozen=True, eq=False)
class RateEstimate:
    """A weighted sum of rates within one group, ready to be compared."""

    rate: float
    steadied: float
    """The rate with pseudo-counts."""
    error: SamplingError
    """Of the people; that of the pseudo-people comes on top."""
    variance: float
    people: int
    effective: float

    @classmethod
    def of(cls, parts: Sequence[tuple[float, RateGap]], people: Population) -> RateEstimate:
        """Estimate a weighted sum of rates within one group of observed people.

        Per rate with event r and condition t, W = sum w t and n = W^2 / sum w^2 t^2 effective
        people:

            steadied = (n R + k) / (n + 2k)
            variance = [n^2 sum w^2 (r - steadied t)^2 / W^2 + k (1-steadied)^2 + k steadied^2]
                       / (n + 2k)^2

        which for hard decisions and equal weights is steadied (1 - steadied) / (n + 2k). In a sum
        the rates' errors add person by person, and those of the pseudo-people at their worst. Where
        people have several rows, w t and w (r - steadied t) are summed over a person's rows before
        they are squared, so that n is a number of people.
        """
        tally = people.tally
        if tally is None:  # an exact distribution: no people, no error
            rate = sum(factor * part.of(people) for factor, part in parts)
            effective = NAN if np.isnan(rate) else float("inf")
            return cls(rate, rate, SamplingError(0.0), 0.0, 0, effective)
        weight = tally.by_row
        rate = steadied = pseudo_error = 0.0
        fewest, effective = float("inf"), float("inf")
        psi: FloatArray = np.zeros_like(weight)
        for factor, part in parts:
            r, t = part.terms(people)
            fewest = min(fewest, _people_with(people, t > 0))
            n = effective_people(people, t)
            effective = min(effective, n)
            if n == 0:
                continue
            total = float(weight @ t)
            one_rate = float(weight @ r) / total
            one_steadied = (n * one_rate + PSEUDO) / (n + 2 * PSEUDO)
            rate += factor * one_rate
            steadied += factor * one_steadied
            psi = psi + factor * n / (n + 2 * PSEUDO) * (r - one_steadied * t) / total
            spread = PSEUDO * ((1 - one_steadied) ** 2 + one_steadied**2)
            pseudo_error += abs(factor) * float(np.sqrt(spread)) / (n + 2 * PSEUDO)
        error = SamplingError.of(people, psi)
        return cls(
            rate, steadied, error, error.variance + pseudo_error**2, round(fewest), effective
        )

    @property
    def enough(self) -> bool:
        return self.effective >= TOO_FEW - 1e-9  # five people of weight 0.1 are five people

    def variance_of(self, other: RateEstimate, here: float = 1.0, there: float = -1.0) -> float:
        """Of ``here`` times this plus ``there`` times the other; by default of the difference."""
        covariance = 2 * here * there * self.error.covariance(other.error)
        return here**2 * self.variance + there**2 * other.variance + covariance


class GapEstimate(NamedTuple):
    """A gap with its interval and its test; nan where it is not judged, and why."""

    target_rate: float = NAN
    baseline_rate: float = NAN
    gap: float = NAN
    low: float = NAN
    high: float = NAN
    p_value: float = NAN
    note: str = ""

    @classmethod
    def too_few(cls, target: RateEstimate, baseline: RateEstimate) -> GapEstimate:
        """Not judged, because one of the rates is over too few people."""
        side = baseline if target.enough else target
        worth = f": {side.people:,} people worth {side.effective:.1f}"
        counts_less = round(side.effective, 1) < side.people
        return cls(note=f"too few to say{worth if counts_less else ''}")

    @classmethod
    def agresti_caffo(
        cls, target: RateEstimate, baseline: RateEstimate, reach: Reach, bound: float = 1.0
    ) -> GapEstimate:
        """The gap of two sums of rates, which cannot leave [-bound, bound]."""
        centre = target.steadied - baseline.steadied
        error = float(np.sqrt(target.variance_of(baseline)))
        return cls(
            target.rate,
            baseline.rate,
            gap=target.rate - baseline.rate,
            low=max(-bound, centre - reach.below * error),
            high=min(bound, centre + reach.above * error),
            p_value=float(2 * special.ndtr(-abs(centre) / error)) if error > 0 else NAN,
            note="" if error > 0 else "exact",
        )

    @classmethod
    def signed_root(
        cls, value: float, target: RateEstimate, baseline: RateEstimate, reach: Reach
    ) -> GapEstimate:
        """Alignment of decisions, from the two groups' shares of negative decisions.

        KL(a || b) has slope 0 where a = b, so an interval of its own would fail there. Its signed
        root g = sign(a - b) sqrt(2 KL(a || b)) has a slope everywhere: the interval is g's,
        squared. The test of no gap is that of sp.
        """
        if not np.isfinite(value):
            return cls(note="not finite: only one group ever gets one of the decisions")
        test = cls.agresti_caffo(target, baseline, reach)
        low = high = value
        if target.variance + baseline.variance > 0:
            a, b = target.steadied, baseline.steadied
            divergence = max(0.0, a * np.log(a / b) + (1 - a) * np.log((1 - a) / (1 - b)))
            root = float(np.sign(a - b) * np.sqrt(2 * divergence))
            if abs(a - b) < 1e-6 * b * (1 - b):  # the limit, where both slopes read 0 / 0
                by_target = 1 / np.sqrt(b * (1 - b))
                by_baseline = -by_target
            else:
                by_target = (special.logit(a) - special.logit(b)) / root
                by_baseline = -(a - b) / (b * (1 - b)) / root
            error = float(np.sqrt(target.variance_of(baseline, by_target, by_baseline)))
            low = max(0.0, abs(root) - reach.below * error) ** 2 / 2
            high = (abs(root) + reach.above * error) ** 2 / 2
        return cls(gap=value, low=low, high=high, p_value=test.p_value, note=test.note)

    @classmethod
    def delta_method(
        cls, disparity: Disparity, target: Population, baseline: Population, reach: Reach
    ) -> GapEstimate:
        """For any other disparity: the plain influence-function interval, and no test.

        Whether its slope vanishes where there is no gap, as that of alignment does, is not known.
        """
        value = disparity.value(target, baseline)
        if not np.isfinite(value):
            return cls(note="not finite")
        here = SamplingError.of_mean(target, disparity.influence(target, baseline))
        there = SamplingError.of_mean(baseline, disparity.baseline_influence(target, baseline))
        variance = here.variance + there.variance + 2 * here.covariance(there)
        error = float(np.sqrt(variance))
        least = 0.0 if isinstance(disparity, Alignment) else -np.inf
        return cls(
            gap=value,
            low=max(least, value - reach.below * error),
            high=value + reach.above * error,
            note="delta method, no test" if variance > 0 else "exact",
        )


# -------------------------------------------------------------------- many gaps


def mean_gap(gaps: Sequence[Gap], risk: float) -> tuple[float, float, float]:
    """The mean gap of some windows, with limits to hold against a tolerance.

    Where the gap is within the tolerance, all between the limits lies beyond it with at most this
    ``risk``. The audit's intervals are made for 95 %, and fail several times too often at 99.9 %.
    Here each group's rate has its exact limits (Clopper and Pearson), and those of the gap p - q
    are made of them (Zou and Donner, 2008):

        low  = p - q - sqrt((p - low_p)^2 + (high_q - q)^2),
        high = p - q + sqrt((high_p - p)^2 + (q - low_q)^2).

    Windows with n and m people weigh w = n m / (n + m) (Mantel and Haenszel): a mean of gaps within
    the tolerance lies within it, whatever the groups' sizes do. As p (1 - p) is concave, a mean
    rate varies about as much as one over (sum w)^2 / sum (w^2 / n) people, or less.
    """
    n = np.array([(gap.given_target, gap.given_baseline) for gap in gaps], np.float64)
    weight = n.prod(axis=1) / n.sum(axis=1)
    weight /= weight.sum()
    mean = weight @ np.array([(gap.target_rate, gap.baseline_rate) for gap in gaps])
    worth = 1 / (weight**2 @ (1 / n))
    (low_p, low_q), (high_p, high_q) = clopper_pearson(mean * worth, worth, risk)
    p, q = mean
    gap = float(p - q)
    return gap, gap - math.hypot(p - low_p, high_q - q), gap + math.hypot(high_p - p, q - low_q)
