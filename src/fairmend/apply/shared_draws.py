"""What it does to a group's rate that equal rows share one draw, as they do without ids.

With an id everybody has a draw of their own, and the rate of a large group is that of the law.
Without ids a row's people all go one way: the rate is that of as many draws as there are rows.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from fairmend.apply.laws import FittedRepair, row_keys
from fairmend.data.columns import FloatArray, Frame, IntArray

MOST_ROWS = 100_000
"""Randomised rows of a stream that are counted one by one."""
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


def worst(groups: Iterable[SharedDraws]) -> SharedDraws | None:
    """The group whose rate suffers most from it, where that is a point or more."""
    most = max(groups, key=lambda one: one.avoidable, default=None)
    return most if most is not None and most.matters else None


def shared_draws_as_audited(repair: FittedRepair) -> SharedDraws | None:
    """What sharing would do among people like those of the audit, where that is much."""
    return worst(_as_audited(repair, group) for group in repair.data.groups)


def _as_audited(repair: FittedRepair, group: Hashable) -> SharedDraws:
    """Of one group; no law is followed where too few share a row for it to matter."""
    audited, plan = repair.data[group], repair.plans.get(group)
    people = np.full(len(audited), 1.0) if audited.tally is None else audited.tally.people.sum(1)
    chance = audited.decision
    most = SharedDraws.of(group, people, np.full(len(people), 0.25))
    if plan is not None and plan.outlook.randomised > 0 and most.matters:
        rows = repair.table.take(np.asarray(audited.rows))
        chance = plan.route(rows, audited.answers).expected_decision(audited.answers)
    return SharedDraws.of(group, people, chance * (1 - chance))


class SharedDrawsOfStream:
    """The same over the batches of a stream; randomised rows are counted one by one, up to a bound.

    Beyond the bound, what was counted is added up: rows that come again then count as others.
    """

    def __init__(self, groups: Sequence[Hashable]) -> None:
        self.groups = groups
        self._added = np.zeros((3, len(groups)))
        self._rows: dict[Hashable, tuple[int, float, int]] = {}

    def add(
        self,
        rows: Frame,
        row: IntArray,
        place: IntArray,
        decision: FloatArray,
        variance: FloatArray,
    ) -> None:
        """Count a batch: each person's distinct row, group and variance of the decision.

        ``decision`` is the model's own, of the distinct rows.
        """
        self._added[0] += np.bincount(place[place >= 0], minlength=len(self.groups))
        who = np.flatnonzero((variance > 0) & (place >= 0))
        if len(who) == 0:
            return
        cell = row[who] * len(self.groups) + place[who]
        _, first, people = np.unique(cell, return_index=True, return_counts=True)
        some = who[first]
        group = place[some].tolist()
        keys = row_keys(rows.take(row[some]), group, decision[row[some]].tolist())
        for key, at, spread, n in zip(keys, group, variance[some].tolist(), people, strict=True):
            before = self._rows.get(key, (at, spread, 0))[2]
            self._rows[key] = at, spread, before + int(n)
        if len(self._rows) > MOST_ROWS:
            self._added, self._rows = self._totals(), {}

    def _totals(self) -> FloatArray:
        """Per group: people; the spread of decisions if equal rows share a draw; else the variance.

        Spreads are added up over rows that were forgotten: the same rows may have come again.
        """
        squared, own = np.zeros(len(self.groups)), np.zeros(len(self.groups))
        for at, spread, n in self._rows.values():
            squared[at] += n**2 * spread
            own[at] += n * spread
        more = np.stack([np.zeros(len(self.groups)), np.sqrt(squared), own])
        return np.asarray(self._added + more, np.float64)

    @property
    def worst(self) -> SharedDraws | None:
        """The group whose rate suffers most, where that is a point or more."""
        people, shared, own = self._totals()
        n = np.maximum(1.0, people)
        return worst(map(SharedDraws, self.groups, shared / n, np.sqrt(own) / n))
