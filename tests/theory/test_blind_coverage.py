"""Does what a blind plan expects on new data hold the truth?

The cut of a blind rule, and the models it cuts, are fitted on the people whose gap is then said to
be closed. The models are cross-fitted, so that nobody's own outcome decides about them, and one cut
has little room to adapt. Inputs are cells with known probabilities, so the true gap of each fitted
rule is a sum. FAIRMEND_REPETITIONS=full runs 1,000 repetitions; otherwise there are 20, and bounds
are widened by 3.3 standard deviations. Run with -s to see the figures.
"""

import os
import warnings

import numpy as np
import pytest
from scipy.special import expit

from fairmend import FairmendWarning, RepairedClassifier

pytestmark = pytest.mark.slow
FULL = os.environ.get("FAIRMEND_REPETITIONS") == "full"
REPETITIONS = 1_000 if FULL else 20
N = 2_000


class Cells:
    """4 x 4 x 4 inputs; group b has less of the first and more of the second."""

    def __init__(self):
        grid = np.stack(np.meshgrid(*3 * [np.arange(4.0)], indexing="ij"), axis=-1).reshape(-1, 3)
        self.x = grid - 1.5
        base = np.exp(-0.3 * (self.x**2).sum(axis=1))
        each = np.stack([base, base * np.exp(self.x @ [-0.7, 0.4, 0.0])])
        joint = 0.5 * each / each.sum(axis=1, keepdims=True)
        chance = expit(self.x @ [1.0, 0.5, 0.0])
        self.p = np.stack([joint * (1 - chance), joint * chance], axis=2)  # group, cell, outcome

    def sample(self, rng):
        group, cell, y = np.unravel_index(
            rng.choice(self.p.size, N, p=self.p.ravel()), self.p.shape
        )
        return self.x[cell], y, np.array(["a", "b"])[group]

    def gap(self, metric, decided):
        """Of b against a."""
        over = {"sp": self.p.sum(axis=2), "fnr": self.p[:, :, 1], "fpr": self.p[:, :, 0]}[metric]
        event = decided if metric == "fpr" else 1 - decided
        a, b = over @ event / over.sum(axis=1)
        return b - a


def vendor(rows):
    return expit(np.asarray(rows) @ [1.0, 0.3, 0.4] + 0.01)


def truths(metric, repetitions):
    """Whether each interval holds the truth, the truth, and how wide the interval is."""
    cells = Cells()
    how = (
        {"target": "a", "reference": "b"} if metric == "fpr" else {"target": "b", "reference": "a"}
    )
    held, truth, width = [], [], []
    for seed in range(repetitions):
        X, y, s = cells.sample(np.random.default_rng([3, seed]))
        repaired = RepairedClassifier(vendor, metric, blind=True, random_state=0, **how)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FairmendWarning)
            repaired.fit(X, y, sensitive_features=s)
        outlook = repaired.plans_["b"].outlook
        assert repaired.plans_["b"].status.closed
        truth.append(cells.gap(metric, repaired.predict(cells.x)))
        held.append(outlook.expected_low <= truth[-1] <= outlook.expected_high)
        width.append(outlook.expected_high - outlook.expected_low)
    return np.mean(held), np.array(truth), np.mean(width)


@pytest.mark.parametrize("metric", ["sp", "fnr", "fpr"])
def test_what_is_expected_of_a_blind_rule_covers(metric):
    covered, truth, width = truths(metric, REPETITIONS)
    print(f"\n{metric}: covers {covered:.3f}, truth {truth.mean():+.4f} ({truth.std():.4f}), "
          f"interval of {width:.4f}", end="")  # fmt: skip

    def margin(bound):
        return 0.0 if FULL else 3.3 * np.sqrt(bound * (1 - bound) / REPETITIONS)

    assert 0.92 - margin(0.92) <= covered <= 0.99 + margin(0.99)
    assert abs(truth.mean()) <= 0.005 + 3.3 * truth.std() / np.sqrt(REPETITIONS)
