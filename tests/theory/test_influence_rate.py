"""Proposition 4 in numbers: the estimated influence function errs as n^(-1/2).

The conditional distribution is estimated by shares observed in a finite support, as in the paper's
proof. Counts are drawn as multinomials, so that ten million people cost no more than ten.
"""

import numpy as np
import pytest

from fairmend import FDR, FNR, FPR, Population
from fairmend.datasets import example_one

SIZES = np.array([1_000, 10_000, 100_000, 1_000_000, 10_000_000])
REPETITIONS = 200


def error(disparity, target, baseline, n, rng):
    """Sum_x P0(x) |psi_hat(x) - psi(x)|, P0 and P(Y | x) both estimated from n people."""
    joint = np.stack([target.mass * (1 - target.outcome), target.mass * target.outcome], axis=1)
    counts = rng.multinomial(n, joint.ravel()).reshape(joint.shape)
    total = counts.sum(axis=1)
    share = np.divide(counts[:, 1], total, out=np.full(len(total), 0.5), where=total > 0)
    estimated = Population.of(total, target.decision, share)
    psi = disparity.influence(target, baseline)
    return float(target.mass @ np.abs(disparity.influence(estimated, baseline) - psi))


@pytest.mark.parametrize("disparity", [FPR, FNR, FDR], ids=lambda d: d.name)
def test_the_error_falls_with_the_square_root_of_n(disparity):
    """The slope of log error over log n, over four decades; 200 repetitions settle it to 0.02."""
    rng = np.random.default_rng(0)
    target, baseline = example_one().tabulated().populations
    errors = [
        np.mean([error(disparity, target, baseline, n, rng) for _ in range(REPETITIONS)])
        for n in SIZES
    ]
    slope, _ = np.polyfit(np.log10(SIZES), np.log10(errors), 1)
    assert -0.6 < slope < -0.4
