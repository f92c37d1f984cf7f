"""What a plan by transport expects of people whose rows the audit did not have."""

import warnings

import numpy as np
import pytest
from scipy.special import expit

from fairmend import FairmendWarning, RepairedClassifier


def vendor(rows):
    return expit(np.asarray(rows)[:, 0])


def people(seed, n):
    """Groups a and b, whose first input is shifted; the outcome is what the score says."""
    rng = np.random.default_rng(seed)
    s = rng.choice(["a", "b"], n)
    X = rng.normal(size=(n, 2))
    X[:, 0] -= 0.8 * (s == "a")
    return X, (rng.random(n) < expit(X[:, 0])).astype(int), s


@pytest.mark.slow
@pytest.mark.parametrize(("method", "unseen_stay"), [("paper", True), ("transport", False)])
def test_what_is_expected_counts_rows_that_were_never_seen(method, unseen_stay):
    """Truth: 20,000 new people, none of whom has a row of the audit."""
    inside, repetitions = 0, 12
    for seed in range(repetitions):
        X, y, s = people(seed, 600)
        repaired = RepairedClassifier(
            vendor, "sp", method=method, target="a", reference="b", random_state=0
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FairmendWarning)
            repaired.fit(X, y, sensitive_features=s)
        Xn, _, sn = people(1_000 + seed, 20_000)
        h = repaired.positive_chance(Xn, sensitive_features=sn)
        truth = h[sn == "b"].mean() - h[sn == "a"].mean()
        outlook = repaired.plan_.outlook
        assert outlook.unseen == pytest.approx(1.0)
        inside += outlook.expected_low <= truth <= outlook.expected_high
        if unseen_stay:  # a method without a rule for new people does nothing for them
            assert truth > 0.2
            assert "100.0 % of new people have inputs that were not seen" in str(repaired.plan_)
    assert inside >= repetitions - 2  # below that one run in a hundred of a 95 % interval
