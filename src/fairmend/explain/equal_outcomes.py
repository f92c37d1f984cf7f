"""Do equal inputs mean equal outcomes, whatever the group? A test of P(Y | X).

Where both groups share most rows of inputs, outcomes are compared row by row, exactly. Elsewhere
the generalised covariance measure (Shah and Peters, 2020) compares what is left of the outcome and
of the group once flexible models of the inputs have explained what they can.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from fairmend.data.columns import FloatArray, Frame, IntArray, distinct_rows
from fairmend.data.rows import stacked
from fairmend.errors import DataError
from fairmend.explain.outcomes import cross_fitted
from fairmend.measure.equal_inputs import SharedRows
from fairmend.measure.population import Population, Tally
from fairmend.measure.significance import covariance_test
from fairmend.tables import p_text

MOSTLY_SHARED = 0.8
"""Groups are compared row by row where this share of both has inputs that both have."""
SIGNIFICANT = 0.05
COMPARABLE = 20
"""Fewer people than this who could be of either group, given their inputs, are not tested."""
MOST_TESTED = 20_000
"""Of more distinct rows than this a sample is tested: it finds any difference that matters."""
ROW_BY_ROW = "row by row"
COVARIANCE = "generalised covariance measure"


@dataclass(frozen=True)
class OutcomeDifference:
    """A test of P(Y | X, target) = P(Y | X, baseline), against a difference in one direction."""

    difference: float
    """The mean difference of P(Y=1) at equal inputs, target less baseline, weighted towards inputs
    that both groups have."""
    p_value: float
    """nan where nothing can be tested."""
    compared: str
    """``row by row``: exactly, without a model. ``generalised covariance measure``: by what models
    of the outcome and of the group leave unexplained."""

    def __str__(self) -> str:
        if np.isnan(self.p_value):
            return (
                "Whether P(Y|X) differs between the groups cannot be tested: too few people of "
                "one group have inputs like those of the other"
            )
        evidence = "Evidence" if self.p_value < SIGNIFICANT else "No evidence"
        way = "more" if self.difference > 0 else "less"
        return (
            f"{evidence} that P(Y|X) differs between the groups: at equal inputs a positive "
            f"outcome is {100 * abs(self.difference):.1f} points {way} frequent in the target "
            f"group ({p_text(self.p_value)}, {self.compared})"
        )


def outcome_difference(
    target: Population, target_table: Frame, baseline: Population, baseline_table: Frame
) -> OutcomeDifference:
    """Test whether the same inputs mean the same outcomes in both groups.

    Where most people of both groups have inputs that both groups have, outcomes are compared row by
    row as decisions are in `decision_difference`: exactly, whatever P(Y | X) looks like. Otherwise
    the residuals of the outcome and of the group, each given the inputs, are multiplied: without a
    difference their mean is 0. The models behind them are chosen and cross-fitted.

    Differences of opposite sign at different inputs cancel. People count alike whatever their
    weight, which is right where weights depend on the inputs only.
    """
    if target.tally is None or baseline.tally is None:
        raise DataError(
            "outcome_difference",
            "needs people to test",
            "got an exact distribution",
            "Compare its conditional probabilities directly.",
        )
    # by inputs: with recorded decisions a row of the table is inputs and a decision
    both = stacked([target_table, baseline_table])
    distinct = distinct_rows(both.encoded)
    people = target.tally.people, baseline.tally.people
    rows = np.split(distinct.inverse, [len(target)])
    shared = SharedRows.of(
        [np.repeat(row, 2) for row in rows],
        [counts.ravel() for counts in people],
        [np.tile([0.0, 1.0], len(row)) for row in rows],
    )
    share = shared.n.sum(axis=0) / [counts.sum() for counts in people]
    if share.min() >= MOSTLY_SHARED:
        return OutcomeDifference(shared.difference, shared.p_value(), ROW_BY_ROW)
    counts = np.stack([
        _summed(row, seen, len(distinct.first)) for row, seen in zip(rows, people, strict=True)
    ], axis=1)  # fmt: skip
    rows_tested = np.arange(len(counts))
    if len(counts) > MOST_TESTED:
        rng = np.random.default_rng(0)
        rows_tested = np.sort(rng.choice(len(counts), MOST_TESTED, replace=False))
    return _by_residuals(both.take(distinct.first[rows_tested]), counts[rows_tested])


def _summed(row: IntArray, counts: FloatArray, size: int) -> FloatArray:
    return np.stack([np.bincount(row, column, size) for column in counts.T], axis=1)


def _by_residuals(table: Frame, counts: FloatArray) -> OutcomeDifference:
    """The generalised covariance measure; ``counts`` are by row, group (target first), outcome.

    Where several models predict as well as the best, a difference must show with all of them: the
    largest p-value is the test's. With one of them right its size is kept.
    """
    unknown = OutcomeDifference(float("nan"), float("nan"), COVARIANCE)
    try:
        outcomes = cross_fitted(table, _tally(counts.sum(axis=1)), what="P(Y=1 | x)")
        baselines = cross_fitted(table, _tally(counts.sum(axis=2)), what="P(baseline | x)")
    except DataError:  # hardly anybody of one outcome, or of one group
        return unknown
    people = counts.sum(axis=(1, 2))
    if any(4 * float(people @ (s * (1 - s))) < COMPARABLE for s in baselines):
        return unknown
    tests = [
        covariance_test(counts, outcome, 1 - baseline)
        for outcome, baseline in product(outcomes, baselines)
    ]
    return OutcomeDifference(*max(tests, key=lambda test: test[1]), COVARIANCE)


def _tally(counts: FloatArray) -> Tally:
    return Tally(counts, counts, counts)
