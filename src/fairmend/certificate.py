"""Can any distribution over these inputs close the gap? The paper's Proposition 1, certified."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import chdtrc, ndtri, xlogy

from fairmend.columns import FloatArray, Frame
from fairmend.data import Population
from fairmend.disparity import SP, Alignment, Disparity, RateGap
from fairmend.errors import DataError
from fairmend.features import FeatureMap
from fairmend.outcomes import FittedProbability, logistic_regression

__all__ = ["Certificate", "OutcomeDifference", "certify", "outcome_difference"]

PEOPLE_PER_ROW = 20
"""Groups are compared row by row where both have at least this many people on it."""


@dataclass(frozen=True)
class Certificate:
    """Whether any distribution over these inputs closes the gap (the paper's Proposition 1).

    M attains its extremes on single rows, so the best reachable value is min_i r_i / t_i - c.
    The bounds hold for all rows at once (Bonferroni) and include the error in the baseline's rate.
    """

    irreconcilable: bool
    best_reachable: float
    """The least disparity any Q on these rows can have; below 0 the gap can be closed."""
    low: float
    high: float
    confidence: float

    @property
    def certain(self) -> bool:
        """Whether the answer would be the same at both ends of the interval."""
        return (self.low > 0) == (self.high > 0)

    def __str__(self) -> str:
        sure = "" if self.certain else " The data leave room for the other answer."
        bounds = f"{100 * self.best_reachable:+.1f} [{100 * self.low:+.1f}, {100 * self.high:+.1f}]"
        if self.irreconcilable:
            return (
                "No distribution over these inputs closes this gap; the best reachable is "
                f"{bounds} points, because P(Y|X) differs between the groups.{sure}"
            )
        return f"The gap can be closed: disparities down to {bounds} points are reachable.{sure}"


def certify(
    disparity: Disparity,
    target: Population,
    baseline: Population,
    outcome: FittedProbability | None,
    confidence: float,
) -> Certificate | None:
    """min_i r_i / t_i - c with bounds; None for a disparity that is no single rate gap."""
    if isinstance(disparity, Alignment) and disparity.weight == 0:
        disparity = SP
    if not isinstance(disparity, RateGap):
        return None
    sign = 1.0 if disparity.value(target, baseline) >= 0 else -1.0
    kept = target.mass > 0
    r, t = (term[kept] for term in disparity.terms(target))
    given = t > 0
    ratio = r[given] / t[given]
    error = _ratio_error(disparity, target, outcome)[kept][given]
    rate, rate_error = disparity.of(baseline), _rate_error(disparity, baseline)
    each = float(ndtri(1 - (1 - confidence) / (2 * max(1, int((error > 0).sum())))))
    once = float(ndtri(0.5 + confidence / 2))
    best = float((sign * ratio).min() - sign * rate)
    low = float((sign * ratio - each * error).min() - sign * rate - once * rate_error)
    high = float((sign * ratio + each * error).min() - sign * rate + once * rate_error)
    return Certificate(best > 0, best, low, high, confidence)


def _ratio_error(
    disparity: RateGap, target: Population, outcome: FittedProbability | None
) -> FloatArray:
    """Standard error of r/t at each row through the modelled outcome, by its slope in y."""
    if outcome is None or outcome.standard_error is None:
        return np.zeros(len(target))

    def ratio(y: FloatArray) -> FloatArray:
        r, t = disparity.terms(target.with_outcome(y))
        return np.divide(r, t, out=np.zeros_like(r), where=t > 0)

    nudge = 1e-6
    slope = (ratio(target.outcome + nudge) - ratio(target.outcome - nudge)) / (2 * nudge)
    return np.abs(slope) * outcome.standard_error


def _rate_error(disparity: RateGap, population: Population) -> float:
    observed = population.observed
    if observed.tally is None:
        return 0.0
    psi = disparity.influence(observed, observed)
    squared, weight = observed.tally.squared.sum(axis=1), float(observed.tally.weight.sum())
    return float(np.sqrt(squared @ psi**2)) / weight


# -------------------------------------------------------------------- P(Y | X), tested


@dataclass(frozen=True)
class OutcomeDifference:
    """A likelihood-ratio test of P(Y | X, target) = P(Y | X, baseline)."""

    statistic: float
    degrees_of_freedom: int
    p_value: float
    compared: str
    """``row by row``: without a model. ``logistic``: as far as a logistic model can tell."""

    def __str__(self) -> str:
        word = "differs" if self.p_value < 0.05 else "is not shown to differ"
        return (
            f"P(Y|X) {word} between the groups (likelihood ratio {self.statistic:.1f} on "
            f"{self.degrees_of_freedom} degrees of freedom, p = {self.p_value:.3g}, "
            f"{self.compared})"
        )


def outcome_difference(
    target: Population, target_table: Frame, baseline: Population, baseline_table: Frame
) -> OutcomeDifference:
    """Test whether the same inputs mean the same outcomes in both groups.

    Where most people stand on rows that both groups share with enough people each, the outcomes
    are compared row by row, sum of 2 n KL; otherwise one logistic regression for both groups is
    held against one for each. The logistic test may also find that neither is logistic.
    """
    if target.tally is None or baseline.tally is None:
        raise DataError(
            "outcome_difference",
            "needs people to test",
            "got an exact distribution",
            "Compare its conditional probabilities directly.",
        )
    here, there = target.tally.weight, baseline.tally.weight
    if target.rows is not None and baseline.rows is not None:
        _, at_here, at_there = np.intersect1d(target.rows, baseline.rows, return_indices=True)
        full = (here[at_here].sum(axis=1) >= PEOPLE_PER_ROW) & (
            there[at_there].sum(axis=1) >= PEOPLE_PER_ROW
        )
        shared_here, shared_there = here[at_here[full]], there[at_there[full]]
        if min(shared_here.sum() / here.sum(), shared_there.sum() / there.sum()) >= 0.8:
            statistic = 2 * (
                _likelihood(shared_here)
                + _likelihood(shared_there)
                - _likelihood(shared_here + shared_there)
            )
            count = int(full.sum())
            return OutcomeDifference(
                statistic, count, float(chdtrc(count, max(0.0, statistic))), "row by row"
            )
    features = FeatureMap.learn(baseline_table, there.sum(axis=1))
    x_here, x_there = features.apply(target_table), features.apply(baseline_table)
    both, weight = np.concatenate([x_here, x_there]), np.concatenate([here, there])
    statistic = 2 * (
        _fitted_likelihood(x_here, here)
        + _fitted_likelihood(x_there, there)
        - _fitted_likelihood(both, weight)
    )
    ranks = [
        int(np.linalg.matrix_rank(np.column_stack([np.ones(len(x)), x])))
        for x in (x_here, x_there, both)
    ]
    count = max(1, ranks[0] + ranks[1] - ranks[2])
    return OutcomeDifference(
        statistic, count, float(chdtrc(count, max(0.0, statistic))), "logistic"
    )


def _likelihood(counts: FloatArray) -> float:
    """Log likelihood of outcomes at each row's own share."""
    total = counts.sum(axis=1, keepdims=True)
    return float(
        xlogy(counts, np.divide(counts, total, out=np.ones_like(counts), where=total > 0)).sum()
    )


def _fitted_likelihood(matrix: FloatArray, counts: FloatArray) -> float:
    """Log likelihood at an all but unpenalised logistic regression."""
    p = logistic_regression(1e6, matrix, counts).predict_proba(matrix)[:, 1]
    p = np.clip(p, 1e-12, 1 - 1e-12)
    return float((xlogy(counts[:, 1], p) + xlogy(counts[:, 0], 1 - p)).sum())
