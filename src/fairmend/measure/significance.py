"""Every test there is beside those of single gaps: exact laws of counts, and corrections."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairmend.data.columns import FloatArray, IntArray
from fairmend.measure import special


def two_sided(z: float) -> float:
    """The chance of a normal value as far from 0 as this, or farther."""
    return float(2 * special.ndtr(-abs(z)))


def holm(p_values: Sequence[float], family: int) -> list[float]:
    """Holm's step-down correction: the k-th smallest p times the number not yet rejected.

    ``family`` counts the comparisons the tests were chosen from, these themselves or more. Among
    all of them the k-th smallest p stands k-th or later, so the factor errs on the safe side. What
    has no test, nan, is none.

    >>> holm([0.04, 0.01, float("nan")], family=2)
    [0.04, 0.02, nan]
    """
    adjusted = [float("nan")] * len(p_values)
    highest = 0.0
    tested = [i for i, p in enumerate(p_values) if not np.isnan(p)]
    for rank, i in enumerate(sorted(tested, key=lambda i: p_values[i])):
        highest = max(highest, min(1.0, p_values[i] * (family - rank)))
        adjusted[i] = highest
    return adjusted


def hypergeometric_sum_test(
    observed: float, draws: FloatArray, marked: FloatArray, everybody: FloatArray
) -> float:
    """P(as improbable as what was observed, or more) for a sum of hypergeometric counts.

    Each counts the marked among so many drawn of everybody.

    >>> round(hypergeometric_sum_test(4, *(np.array([n]) for n in (4.0, 4.0, 8.0))), 6)
    0.028571
    """
    least = np.maximum(0, draws + marked - everybody)
    law = np.ones(1)
    for low, high, n, k, total in zip(
        least, np.minimum(draws, marked), draws, marked, everybody, strict=True
    ):
        count = np.arange(low, high + 1)
        ways = _log_choose(k, count) + _log_choose(total - k, n - count) - _log_choose(total, n)
        law = np.convolve(law, np.exp(ways))
    seen = law[round(observed - least.sum())]
    return float(min(1.0, law[law <= seen * (1 + 1e-7)].sum()))


def _log_choose(n: Any, k: Any) -> Any:
    return special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)


def fisher_by_bin(before: FloatArray, now: FloatArray, column: IntArray) -> FloatArray:
    """Fisher's exact two-sided p value of each bin's share, of all in the same column."""
    from scipy.stats import hypergeom

    all_before, all_now = (np.bincount(column, counts)[column] for counts in (before, now))
    law = all_before + all_now, before + now, all_now
    return np.asarray(2 * np.minimum(hypergeom.cdf(now, *law), hypergeom.sf(now - 1, *law)))


def covariance_test(
    counts: FloatArray, outcome: FloatArray, target: FloatArray
) -> tuple[float, float]:
    """The generalised covariance measure (Shah and Peters, 2020): difference and p value.

    ``counts`` are by row, group (target first) and outcome; ``outcome`` and ``target`` are the
    modelled probabilities of each row. Without a difference the product of both residuals has
    mean 0.
    """
    of_group = np.array([1.0, 0.0]) - target[:, None]
    of_outcome = np.array([0.0, 1.0]) - outcome[:, None]
    both = of_group[:, :, None] * of_outcome[:, None, :]
    n, total = float(counts.sum()), float((counts * both).sum())
    variance = float((counts * (both - total / n) ** 2).sum())
    spread = float((counts.sum(axis=2) * of_group**2).sum())
    return total / spread, two_sided(total / np.sqrt(variance) if variance > 0 else 0.0)
