"""Can any distribution over these inputs close the gap? The paper's Proposition 1, certified."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairmend import special
from fairmend.columns import FloatArray, Frame, IntArray
from fairmend.data import Population
from fairmend.disparity import SP, Alignment, Disparity, RateGap
from fairmend.equal_inputs import have_several
from fairmend.errors import DataError
from fairmend.features import FeatureMap
from fairmend.outcomes import FittedProbability, logistic_regression
from fairmend.projection import NO_GAP
from fairmend.rows import numbered
from fairmend.tables import p_said

__all__ = [
    "Certificate",
    "OutcomeDifference",
    "certify",
    "counts_by_row",
    "outcome_difference",
]

PEOPLE_PER_ROW = 20
"""Groups are compared row by row where both have at least this many people on it."""
MOSTLY_SHARED = 0.8
"""... and where this share of both groups stands on such rows."""


@dataclass(frozen=True)
class Certificate:
    """Whether any distribution over these inputs closes the gap (the paper's Proposition 1).

    M attains its extremes on single rows, so a gap M(P0) > 0 can be brought down to
    min_i r_i / t_i - c and no further, and a gap below 0 up to the maximum. The bounds hold for all
    rows at once (Bonferroni) and include the error in the baseline's rate.
    """

    best_reachable: float
    """The furthest M can be moved towards 0 and past it; on this side of 0 the gap stays open."""
    low: float
    high: float
    confidence: float
    downwards: bool = True
    """Whether the gap is positive, so that closing it means bringing M down."""
    baseline_covered: float = 1.0
    """The share of the baseline's people whose inputs somebody in the target group has too."""
    by_outcome: bool = True
    """Whether the rate of a single row depends on its outcome, as that of fdr does."""
    several_decisions: bool = False
    """Whether equal inputs got different decisions, as those on record may have."""

    @property
    def irreconcilable(self) -> bool:
        return self.out_of_reach(0.0)

    def out_of_reach(self, gap: float) -> bool:
        """Whether no distribution over these inputs brings the disparity as far as this."""
        short = self.best_reachable - gap if self.downwards else gap - self.best_reachable
        return short > NO_GAP

    @property
    def certain(self) -> bool:
        """Whether the answer would be the same at both ends of the interval."""
        return (self.low > 0) == (self.high > 0)

    def __str__(self) -> str:
        sure = "" if self.certain else " The data leave room for the other answer."
        bounds = f"{100 * self.best_reachable:+.1f} [{100 * self.low:+.1f}, {100 * self.high:+.1f}]"
        if not self.irreconcilable:
            way = "down" if self.downwards else "up"
            apart = " Equal inputs with different decisions count as different inputs."
            return (
                f"The gap can be closed: it can be brought {way} to {bounds} points."
                f"{apart if self.several_decisions else ''}{sure}"
            )
        reasons = [
            *(["P(Y|X) differs between the groups"] if self.by_outcome else []),
            *(["equal inputs get different decisions"] if self.several_decisions else []),
        ]
        if self.baseline_covered < 1 - 1e-9:
            reasons.append(
                "nobody in the target group has the inputs of "
                f"{100 * (1 - self.baseline_covered):.1f} % of the baseline"
            )
        because = f", because {', or '.join(reasons)}" if reasons else ""
        return (
            "No distribution over these inputs closes this gap; the best reachable is "
            f"{bounds} points{because}.{sure}"
        )


def certify(
    disparity: Disparity,
    target: Population,
    baseline: Population,
    outcome: FittedProbability | None,
    confidence: float,
    *,
    tables: tuple[Frame | None, Frame | None] = (None, None),
) -> Certificate | None:
    """How far single rows can take a rate, with bounds; None for what is no single rate gap."""
    if isinstance(disparity, Alignment) and disparity.weight == 0:
        disparity = SP
    if not isinstance(disparity, RateGap):
        return None
    downwards = disparity.value(target, baseline) >= 0
    r, t = disparity.terms(target)
    usable = (target.mass > 0) & (t > 0)
    ratio = r[usable] / t[usable]
    slope = np.abs(_slope(disparity, target)[usable])
    error = np.zeros(len(slope))
    if outcome is not None and outcome.standard_error is not None:
        error = slope * outcome.standard_error[usable]
    rate, rate_error = disparity.of(baseline), _rate_error(disparity, baseline)
    uncertain = int((error > 0).sum())
    risk = (1 - confidence) / max(1, (uncertain > 0) + (rate_error > 0))
    margin = float(special.ndtri(1 - risk / (2 * max(1, uncertain)))) * error
    rate_margin = float(special.ndtri(1 - risk / 2)) * rate_error
    extreme = np.min if downwards else np.max
    best, low, high = (
        float(extreme(ratio + sign * margin)) - rate + sign * rate_margin for sign in (0, -1, 1)
    )
    covered, several = _inputs_compared(target, baseline, *tables)
    return Certificate(
        best_reachable=best,
        low=low,
        high=high,
        confidence=confidence,
        downwards=downwards,
        baseline_covered=covered,
        by_outcome=bool((slope > 1e-12).any()),
        several_decisions=several,
    )


def _inputs_compared(
    target: Population, baseline: Population, here: Frame | None, there: Frame | None
) -> tuple[float, bool]:
    """Which share of the baseline has inputs of the target, and whether any got two decisions."""
    if here is None or there is None:
        return 1.0, False
    inputs, others = numbered(here.encoded, there.encoded)
    covered = float(baseline.mass[np.isin(others, inputs[target.mass > 0])].sum())
    several = have_several((inputs, others), (target.decision, baseline.decision))
    return covered, bool(several.any())


def _slope(disparity: RateGap, target: Population) -> FloatArray:
    """How r/t changes with the outcome y at each row, so that an error in y is one in r/t.

    r and t are linear in y, so their slopes are their differences between y = 1 and y = 0.
    """
    r, t = disparity.terms(target)
    ends = [disparity.terms(target.with_outcome(np.full(len(target), y))) for y in (0.0, 1.0)]
    r_slope, t_slope = ends[1][0] - ends[0][0], ends[1][1] - ends[0][1]
    return np.divide(r_slope * t - r * t_slope, t**2, out=np.zeros(len(target)), where=t > 0)


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
            f"{self.degrees_of_freedom} degrees of freedom, {p_said(self.p_value)}, "
            f"{self.compared})"
        )


def outcome_difference(
    target: Population, target_table: Frame, baseline: Population, baseline_table: Frame
) -> OutcomeDifference:
    """Test whether the same inputs mean the same outcomes in both groups.

    Where most people stand on rows that both groups share with enough people each, the outcomes
    are compared row by row, sum of 2 n KL; otherwise one logistic regression for both groups is
    held against one for each. The logistic test may also find that neither is logistic. People
    count alike whatever their weight, which is right where weights depend on the inputs only.
    """
    if target.tally is None or baseline.tally is None:
        raise DataError(
            "outcome_difference",
            "needs people to test",
            "got an exact distribution",
            "Compare its conditional probabilities directly.",
        )
    here, there = target.tally.people, baseline.tally.people
    # by inputs: with recorded decisions a row of the table is inputs and a decision
    inputs, others = numbered(target_table.encoded, baseline_table.encoded)
    seen = np.unique(inputs)
    known = np.isin(others, seen)
    on_row = (
        counts_by_row(inputs, here, seen),
        counts_by_row(others[known], there[known], seen),
    )
    full = np.all([counts.sum(axis=1) >= PEOPLE_PER_ROW for counts in on_row], axis=0)
    shared_here, shared_there = (counts[full] for counts in on_row)
    if min(shared_here.sum() / here.sum(), shared_there.sum() / there.sum()) >= MOSTLY_SHARED:
        statistic = 2 * (
            _likelihood(shared_here)
            + _likelihood(shared_there)
            - _likelihood(shared_here + shared_there)
        )
        return _tested(statistic, int(full.sum()), "row by row")
    features = FeatureMap.learn(baseline_table, there.sum(axis=1))
    x_here, x_there = features.apply(target_table), features.apply(baseline_table)
    both = np.concatenate([x_here, x_there])
    statistic = 2 * (
        _fitted_likelihood(x_here, here)
        + _fitted_likelihood(x_there, there)
        - _fitted_likelihood(both, np.concatenate([here, there]))
    )
    ranks = [
        int(np.linalg.matrix_rank(np.column_stack([np.ones(len(x)), x])))
        for x in (x_here, x_there, both)
    ]
    return _tested(statistic, max(1, ranks[0] + ranks[1] - ranks[2]), "logistic")


def _tested(statistic: float, degrees_of_freedom: int, compared: str) -> OutcomeDifference:
    statistic = max(0.0, statistic)  # below 0 is rounding
    p_value = float(special.chdtrc(degrees_of_freedom, statistic))
    return OutcomeDifference(statistic, degrees_of_freedom, p_value, compared)


def counts_by_row(rows: IntArray, counts: FloatArray, seen: IntArray) -> FloatArray:
    """Counts of a population at each row of ``seen``, which is sorted; a row may come repeatedly.

    >>> counts_by_row(np.array([2, 2]), np.array([[1.0, 0.0], [0.0, 3.0]]), np.array([1, 2]))
    array([[0., 0.],
           [1., 3.]])
    """
    summed = np.zeros((len(seen), counts.shape[1]))
    np.add.at(summed, np.searchsorted(seen, rows), counts)
    return summed


def _likelihood(counts: FloatArray) -> float:
    """Log likelihood of outcomes at each row's own share."""
    total = counts.sum(axis=1, keepdims=True)
    return float(
        special.xlogy(
            counts, np.divide(counts, total, out=np.ones_like(counts), where=total > 0)
        ).sum()
    )


def _fitted_likelihood(matrix: FloatArray, counts: FloatArray) -> float:
    """Log likelihood at an all but unpenalised logistic regression."""
    if not counts.sum(axis=0).all():
        return 0.0  # everybody had the same outcome: it is certain
    p = logistic_regression(1e6, matrix, counts).predict_proba(matrix)[:, 1]
    p = np.clip(p, 1e-12, 1 - 1e-12)
    return float((special.xlogy(counts[:, 1], p) + special.xlogy(counts[:, 0], 1 - p)).sum())
