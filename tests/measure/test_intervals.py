"""Intervals against SciPy's, and people who have several rows."""

import numpy as np
import pytest
from scipy.stats import binomtest

from fairmend import SP, tabulate
from fairmend.explain.certificate import certify
from fairmend.measure.intervals import SamplingError, clopper_pearson, wilson


def test_clopper_pearson_is_scipys():
    k, n = np.array([0.0, 3.0, 7.0]), np.array([5.0, 9.0, 7.0])
    low, high = clopper_pearson(k, n, 0.05)
    for i in range(3):
        interval = binomtest(int(k[i]), int(n[i])).proportion_ci(0.95, "exact")
        assert (low[i], high[i]) == pytest.approx((interval.low, interval.high))


@pytest.mark.parametrize(("k", "n"), [(0, 8), (3, 8), (8, 8), (40, 90)])
def test_wilson_is_scipys(k, n):
    truth = binomtest(k, n).proportion_ci(0.95, method="wilson")
    assert wilson(k / n, n, 0.95) == pytest.approx((truth.low, truth.high), abs=1e-9)


@pytest.fixture
def twice():
    """Everybody has two equal rows; with ids that is known, without it is not."""
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 4, 200), rng.integers(0, 2, 200)
    group = np.where(np.arange(200) < 100, "a", "b")
    X, y, group, ids = (np.repeat(part, 2) for part in (x, y, group, np.arange(200)))

    def counted(**more):
        return tabulate(
            lambda rows: rows[:, 0] > 1, X[:, None], y, sensitive_features=group, **more
        )

    return counted(ids=ids), counted()


def test_rows_of_one_person_are_summed_before_they_are_squared(twice):
    by_person, by_row = (
        SamplingError.of_mean(data["a"].observed, SP.influence(*[data["a"].observed] * 2))
        for data in twice
    )
    assert by_person.variance == pytest.approx(2 * by_row.variance)


def test_a_certificate_counts_people_and_not_their_rows(twice):
    widths = [
        (found.high - found.low)
        for data in twice
        for found in [certify(SP, data["a"], data["b"], None, 0.95)]
    ]
    assert widths[0] == pytest.approx(np.sqrt(2) * widths[1])
