"""Is P(Y | X) the same in both groups? Against tests of SciPy and by simulation.

The size and the power where P(Y | X) is not logistic are in tests/theory/test_same_outcomes.py.
"""

import numpy as np
import pytest
from scipy.stats import fisher_exact, norm

from fairmend import DataError, counterfactual, counterfactual_data
from fairmend.explain.equal_outcomes import OutcomeDifference


def same_law(n, seed, difference=0.0, groups=2, values=4):
    rng = np.random.default_rng(seed)
    x, s = rng.integers(0, values, n), rng.integers(0, groups, n)
    p = 0.2 + 0.5 * x / values + difference * (s == 0)
    return x[:, None], (rng.random(n) < p).astype(int), np.array(list("abc"))[s]


def difference(X, y, s, **settings):
    found = counterfactual(
        lambda rows: (rows[:, 0] > 1).astype(int), X, y, sensitive_features=s, disparity="sp",
        **settings,
    )  # fmt: skip
    return found.outcome_difference


def test_equal_laws_are_rejected_as_often_as_the_level_says():
    """Row by row, no model: 200 tests at 5 %, so 10 +- 3 rejections are expected."""
    p = [difference(*same_law(2_000, seed)).p_value for seed in range(200)]
    assert 2 <= np.sum(np.array(p) < 0.05) <= 20
    assert difference(*same_law(2_000, 0)).compared == "row by row"


def test_unequal_laws_are_found():
    test = difference(*same_law(2_000, 0, difference=0.2))
    assert test.p_value < 1e-6
    assert test.difference == pytest.approx(0.2, abs=0.06)
    assert str(test).startswith(
        "Evidence that P(Y|X) differs between the groups: at equal inputs a positive outcome is "
    )
    assert str(test).endswith(" points more frequent in the target group (p < .001, row by row)")


def test_no_evidence_is_not_said_to_be_equality():
    assert str(OutcomeDifference(-0.01, 0.4, "row by row")) == (
        "No evidence that P(Y|X) differs between the groups: at equal inputs a positive outcome is "
        "1.0 points less frequent in the target group (p = .400, row by row)"
    )


def test_row_by_row_is_fishers_exact_test_on_one_row():
    rng = np.random.default_rng(0)
    for _ in range(20):
        y, s = rng.integers(0, 2, 40), np.array(["a", "b"])[rng.integers(0, 2, 40)]
        counts = [[np.sum((s == g) & (y == k)) for k in (0, 1)] for g in "ab"]
        test = difference(np.zeros((40, 1), int), y, s)
        assert test.p_value == pytest.approx(fisher_exact(counts).pvalue)


def test_many_rows_are_compared_by_residuals():
    rng = np.random.default_rng(0)

    def tested(shift):
        X = rng.normal(size=(800, 2)).round(3)
        s = rng.integers(0, 2, 800)
        p = 1 / (1 + np.exp(-(X[:, 0] + shift * s)))
        y = (rng.random(800) < p).astype(int)
        return difference(X, y, np.array(["b", "a"])[s], target="a")

    test = tested(1.5)
    assert test.p_value < 1e-6
    assert test.compared == "generalised covariance measure"
    assert test.difference == pytest.approx(0.3, abs=0.1)  # 1.5 times the mean of p (1-p)


def test_the_measure_is_that_of_the_known_probabilities(monkeypatch):
    """With P(Y | x) and the group's as known, the statistic is the mean of products over its error.

    The difference is then the mean of (y - f)(a - g) over that of (a - g)^2.
    """
    rng = np.random.default_rng(0)
    n = 500
    x = rng.normal(size=n)
    f, g = 1 / (1 + np.exp(-x)), 1 / (1 + np.exp(0.5 - x))
    a, y = (rng.random(n) < g).astype(int), (rng.random(n) < f).astype(int)

    def known(table, tally, *, what, **_):
        at = table.native[:, 0]
        return [1 / (1 + np.exp(-at if what == "P(Y=1 | x)" else at - 0.5))]

    monkeypatch.setattr("fairmend.explain.equal_outcomes.cross_fitted", known)
    test = difference(x[:, None], y, np.where(a == 1, "a", "b"), target="a")
    product = (y - f) * (a - g)
    z = product.mean() / product.std() * np.sqrt(n)
    assert test.p_value == pytest.approx(2 * norm.sf(abs(z)))
    assert test.difference == pytest.approx(product.sum() / ((a - g) ** 2).sum())


def test_what_decisions_were_recorded_is_no_part_of_the_inputs():
    """Y follows Z, whose law given X is the same in both groups; the cut on Z is not."""

    def tested(seed, n=1_500):
        rng = np.random.default_rng(seed)
        x, z, s = rng.integers(0, 3, n), rng.random(n), rng.integers(0, 2, n)
        y, decision = rng.random(n) < z, z > np.where(s == 0, 0.3, 0.6)
        found = counterfactual(
            decision.astype(int), x[:, None], y.astype(int), sensitive_features=s, disparity="sp"
        )
        return found.outcome_difference

    tests = [tested(seed) for seed in range(200)]
    assert {test.compared for test in tests} == {"row by row"}
    assert 2 <= sum(test.p_value < 0.05 for test in tests) <= 20  # 10 +- 3 are expected


def test_everybody_else_together_counts_each_row_once():
    """The rest is two groups, whose rows come twice: all of their people must count."""
    X, y, s = same_law(3_000, 0, groups=3)
    together = difference(X, y, s, target="a", baseline="rest")
    merged = difference(X, y, np.where(s == "a", "a", "rest of them"), target="a")
    assert together == merged


def test_weights_of_people_do_not_make_more_people():
    X, y, s = same_law(1_000, 0)
    light, heavy = (
        difference(X, y, s, sample_weight=np.full(1_000, weight)) for weight in (1.0, 50.0)
    )
    assert light == heavy


def test_a_group_with_one_outcome_can_be_tested():
    X = np.tile(np.arange(5), 40)[:, None]
    y = np.r_[np.zeros(100, int), np.arange(100) % 2]
    assert difference(X, y, np.repeat(["a", "b"], 100)).p_value < 1e-6


def test_groups_without_inputs_in_common_are_not_compared():
    """Everybody of "a" is below everybody of "b": nothing is known about equal inputs."""
    X = np.arange(200.0)[:, None]
    y = np.r_[np.zeros(100, int), np.arange(100) % 2]
    test = difference(X, y, np.repeat(["a", "b"], 100))
    assert np.isnan(test.p_value)
    assert str(test) == (
        "Whether P(Y|X) differs between the groups cannot be tested: too few people of one group "
        "have inputs like those of the other"
    )


def test_of_very_many_rows_a_sample_is_tested(monkeypatch):
    monkeypatch.setattr("fairmend.explain.equal_outcomes.MOST_TESTED", 300)
    rng = np.random.default_rng(0)
    X, s = rng.normal(size=(900, 1)), np.array(["a", "b"])[rng.integers(0, 2, 900)]
    y = (rng.random(900) < np.where(s == "a", 0.8, 0.2)).astype(int)
    assert difference(X, y, s).p_value < 1e-6


def test_exact_distributions_are_not_tested():
    from fairmend.datasets import example_one

    found = counterfactual_data(example_one().tabulated(), disparity="fpr")
    with pytest.raises(DataError) as error:
        _ = found.outcome_difference
    assert str(error.value) == (
        "outcome_difference: needs people to test; got an exact distribution. "
        "Compare its conditional probabilities directly."
    )
