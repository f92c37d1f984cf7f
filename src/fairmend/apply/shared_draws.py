"""What it does to a group's rate that equal rows share one draw, as they do without ids.

With an id everybody has a draw of their own, and the rate of a large group is that of the law.
Without ids a row's people all go one way: the rate is that of as many draws as there are rows.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import numpy as np

from fairmend.data.columns import FloatArray, IntArray

__all__ = ["SharedDraws", "worst"]

LEAST = 0.01
"""What ids would spare is worth a warning from one point on."""


@dataclass(frozen=True)
class SharedDraws:
    """How far a group's rate of positive decisions may be from its law, in standard deviations.

    >>> SharedDraws.of("a", np.array([30.0, 70.0]), np.array([0.25, 0.0])).shared
    0.15
    """

    group: Hashable
    shared: float
    """The standard deviation of the rate where equal rows share one draw."""
    own: float
    """The same where everybody has a draw of their own."""

    @classmethod
    def of(cls, group: Hashable, people: FloatArray, variance: FloatArray) -> SharedDraws:
        """From the number of people on each row of the group, and the variance of a decision."""
        n = max(1.0, float(people.sum()))
        shared, own = np.sqrt([people**2 @ variance, people @ variance]) / n
        return cls(group, float(shared), float(own))

    @classmethod
    def by_row(cls, group: Hashable, row: IntArray, variance: FloatArray) -> SharedDraws:
        """From each person's row, and the variance of their decision."""
        _, first, people = np.unique(row, return_index=True, return_counts=True)
        return cls.of(group, people.astype(np.float64), variance[first])

    @property
    def avoidable(self) -> float:
        """What sharing adds: 0 where no two people have the same row."""
        return float(np.sqrt(max(0.0, self.shared**2 - self.own**2)))

    @property
    def matters(self) -> bool:
        return self.avoidable >= LEAST

    def __str__(self) -> str:
        return (
            "Equal rows share one draw: the rate of positive decisions among "
            f"{self.group} can be off its law by {100 * self.shared:.1f} points (one standard "
            f"deviation; {100 * self.own:.1f} if everybody had an id)."
        )


def worst(found: Iterable[SharedDraws]) -> SharedDraws | None:
    """The group whose rate suffers most from it, where that is a point or more."""
    most = max(found, key=lambda one: one.avoidable, default=None)
    return most if most is not None and most.matters else None
