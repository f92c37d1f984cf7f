"""The realised gap, held against counting people one by one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmend import FDR, FNR, FPR, SP, DataError, Population, RateGap, tabulate
from fairmend.measure.realised import RealisedGap
from planning import problem_of

OMISSION = RateGap("for", rate=lambda h, y: (1 - h) * y, given=lambda h, y: 1 - h)
METRICS = [SP, FNR, FPR, FDR, OMISSION]


def rate(metric, decision, outcome, weight):
    """The definition, over single people with hard decisions and outcomes."""
    of = {
        "sp": (decision == 0, np.ones_like(decision, bool)),
        "fnr": ((decision == 0) & (outcome == 1), outcome == 1),
        "fpr": ((decision == 1) & (outcome == 0), outcome == 0),
        "fdr": ((decision == 1) & (outcome == 0), decision == 1),
        "for": ((decision == 0) & (outcome == 1), decision == 0),
    }[metric.name]
    return weight[of[0]].sum() / weight[of[1]].sum() if weight[of[1]].sum() else float("nan")


def audit(seed, weighted):
    rng = np.random.default_rng(seed)
    n = 60
    X, y = rng.integers(0, 4, (n, 1)), rng.integers(0, 2, n)
    s = np.where(rng.random(n) < 0.5, "a", "b")
    weight = rng.integers(1, 4, n).astype(float) if weighted else np.ones(n)
    decide = lambda rows: (rows[:, 0] > 1).astype(int)  # noqa: E731
    data = tabulate(decide, X, y, sensitive_features=s, sample_weight=weight if weighted else None)
    return data, X[:, 0], y, s, weight


@given(st.integers(0, 10**6), st.sampled_from(METRICS), st.booleans(), st.data())
@settings(max_examples=120, deadline=None)
def test_gap_and_excess_are_counts_of_people(seed, metric, weighted, drawn):
    data, x, y, s, weight = audit(seed, weighted)
    level = drawn.draw(st.sampled_from([1.0, 0.4, 0.0]))
    gap = RealisedGap.between(metric, data["a"], data["b"], level=level)
    rows = data.table.native[data["a"].rows, 0]
    turned = np.array(drawn.draw(st.lists(st.integers(0, 1), min_size=4, max_size=4)), float)
    mine = s == "a"
    baseline = rate(metric, (x > 1)[~mine], y[~mine], weight[~mine])
    now = rate(metric, (x > 1)[mine], y[mine], weight[mine]) - baseline
    then = rate(metric, turned[x[mine]], y[mine], weight[mine]) - baseline
    if np.isnan(baseline):
        return
    assert gap.aim == pytest.approx((1 - level) * now, abs=1e-12, nan_ok=True)
    assert gap.gap(turned[rows]) == pytest.approx(then, abs=1e-12, nan_ok=True)
    if not np.isnan(then) and not np.isnan(now):
        excess = gap.excess(turned[rows])
        assert excess == pytest.approx(
            (then - (1 - level) * now) * gap.over(turned[rows]), abs=1e-9
        )


@given(st.integers(0, 10**6), st.sampled_from(METRICS), st.floats(0, 1))
@settings(max_examples=80, deadline=None)
def test_the_excess_is_linear_in_the_decisions(seed, metric, share):
    data, *_ = audit(seed, weighted=True)
    gap = RealisedGap.between(metric, data["a"], data["b"], level=0.5)
    if np.isnan(gap.aim + gap.rate):
        return
    rng = np.random.default_rng(seed)
    one, two = rng.random((2, len(data["a"])))
    mixed = gap.excess(share * one + (1 - share) * two)
    assert mixed == pytest.approx(share * gap.excess(one) + (1 - share) * gap.excess(two), abs=1e-9)
    # and its slope is what turning one row's decisions adds
    flat = np.zeros(len(one))
    for i, slope in enumerate(gap.row_slope()):
        up = flat.copy()
        up[i] = 1.0
        assert gap.excess(up) - gap.excess(flat) == pytest.approx(slope, abs=1e-9)


@pytest.mark.parametrize("metric", METRICS, ids=lambda m: m.name)
def test_slope_with_probabilities_is_the_mean_slope(metric):
    target = Population.of([1, 2], [0, 1], [0.3, 0.8])
    gap = RealisedGap.between(metric, target, Population.of([1, 1], [0, 1], [0.5, 0.5]))
    ends = gap.slope(np.array([0.0, 1.0]))
    np.testing.assert_allclose(gap.slope(np.array([0.25])), [0.75 * ends[0] + 0.25 * ends[1]])
    np.testing.assert_allclose(gap.row_slope(), target.mass * gap.slope(target.outcome), atol=1e-15)


@pytest.mark.parametrize(("metric", "changes"), [
    (SP, False), (FNR, False), (FPR, False), (FDR, True), (OMISSION, True),
])  # fmt: skip
def test_whose_rate_it_is(metric, changes):
    target = Population.of([1], [0], [0.5])
    assert RealisedGap.between(metric, target, target).over_decisions is changes


def test_a_rate_over_nobody_is_not_known():
    target = Population.of([1], [1], [0.5])
    gap = RealisedGap.between(FDR, target, target)
    assert np.isnan(gap.gap(np.zeros(1)))
    assert gap.excess(np.zeros(1)) == 0


def test_a_rate_that_is_not_linear_in_the_decision_cannot_be_repaired():
    squared = RateGap("sq", rate=lambda h, y: h**2 * y, given=lambda h, y: y)
    data, *_ = audit(0, weighted=False)
    with pytest.raises(DataError) as error:
        problem_of(data, disparity=squared, target="a")
    assert str(error.value) == (
        "RateGap 'sq': must be linear in the decision to be repaired; at h = 0.5 it is not "
        "half-way between h = 0 and h = 1. A randomised decision has the mean of its two rates."
    )
