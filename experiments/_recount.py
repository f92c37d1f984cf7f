"""Rates and gaps counted again, by sums over people and by nothing of the package.

The same sums count people (y is 0 or 1, w their weight) and a population (y is a probability, w the
mass of a row): every rate is linear in y.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

EXACT = 1e-9
"""Sums of thousands of numbers agree to this."""


def parts_of(name: str) -> dict[str, float]:
    """A metric by its name, or a sum such as ``0.5 fnr + 0.5 fpr``: rates with their weights."""
    if "+" not in name:
        return {name: 1.0}
    return {rate: float(weight) for weight, rate in (part.split() for part in name.split("+"))}


def _parts(metric: str, h: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Whom a rate counts, and whom it is over."""
    if metric.startswith("1-"):
        event, over = _parts(metric.removeprefix("1-"), h, y)
        return over - event, over
    ones = np.ones_like(h)
    return {
        "sp": (1 - h, ones),
        "selection": (h, ones),
        "fnr": ((1 - h) * y, y * ones),
        "fpr": (h * (1 - y), (1 - y) * ones),
        "fdr": (h * (1 - y), h),
    }[metric]


@dataclass(frozen=True)
class Count:
    """People with their outcomes, groups and weights, to be counted under some decisions."""

    y: np.ndarray
    groups: np.ndarray
    w: np.ndarray

    def members(self, group: str, target: str) -> np.ndarray:
        """Who is of a group; ``rest``: of any group but the target. Nobody without a group."""
        known = np.array([name is not None for name in self.groups])
        return known & (self.groups != target if group == "rest" else self.groups == group)

    def rate(self, metric: str, h: np.ndarray, who: np.ndarray) -> float:
        event, over = _parts(metric, h[who], self.y[who])
        total = float(self.w[who] @ over)
        return float(self.w[who] @ event) / total if total > 0 else float("nan")

    def gap(self, metric: str, h: np.ndarray, target: str, reference: str) -> float:
        """The target's rate less the reference's."""
        there = self.members(reference, target)
        return self.rate(metric, h, self.groups == target) - self.rate(metric, h, there)

    def summed(self, sum_: Mapping[str, float], h: np.ndarray, target: str, ref: str) -> float:
        """A weighted sum of gaps; of one alone, that gap."""
        return sum(weight * self.gap(metric, h, target, ref) for metric, weight in sum_.items())

    def half_a_person(self, metric: str, h: np.ndarray, target: str, reference: str) -> float:
        """Half a person of mean weight among those the rate is over, in the smaller group."""
        shares = []
        for who in (self.groups == target, self.members(reference, target)):
            over = float(self.w[who] @ _parts(metric, h[who], self.y[who])[1])
            people = who & (self.w > 0)
            shares.append(0.5 * float(self.w[people].mean()) / over if over > 0 else np.inf)
        return max(EXACT, *shares)
