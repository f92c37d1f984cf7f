"""Least change for soft decisions: h(x) is a probability, and an edit moves it by any amount.

Minimise sum_i w_i C_ij subject to a realised gap that is linear in the decisions reached. By
duality each row goes to the j that minimises C_ij + price * b_i * h_j, with one price for all and
b_i the row's slope in the gap: a rule that speaks for new rows as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fairmend.columns import FloatArray, Frame, IntArray
from fairmend.costs import EditCost
from fairmend.errors import DataError
from fairmend.model import Answers
from fairmend.plan import Outlook, Plan, PlanStatus, Route
from fairmend.realised import RealisedGap
from fairmend.task import KnownOutcome, RepairTask

__all__ = ["SoftPlan", "move_softly"]

MOST_PLACES = 2_000
"""Of more distinct rows than this, so many spread over their decisions can be moved to."""
_BISECTIONS = 100
_DEAREST = 1e9
_CHUNK = 2_000


@dataclass(frozen=True, eq=False)
class SoftPlan(Plan):
    """Each row goes where cost plus price is least; on the edge between two prices, by chance."""

    gap: RealisedGap
    outcome: KnownOutcome | None
    """None where the gap does not depend on the outcome."""
    cost: EditCost
    support: Frame
    support_decision: FloatArray
    low_price: float
    high_price: float
    chance: float
    """Of following the higher price, for rows where the two differ."""

    def route(self, rows: Frame, answers: Answers) -> Route:
        """The two prices' destinations, mixed."""
        slope, parts = self.slope(rows), []
        for start in range(0, len(rows), _CHUNK):
            at = np.arange(start, min(start + _CHUNK, len(rows)))
            choice = Choice(
                self.cost.matrix(rows.take(at), self.support),
                slope[at],
                self.support_decision,
                answers.decision[at],
            )
            for price, share in ((self.low_price, 1 - self.chance), (self.high_price, self.chance)):
                to = choice.at(price)
                moved = np.flatnonzero((to >= 0) & (share > 0))
                parts.append(_Moves(at[moved], to[moved], np.full(len(moved), share),
                                    choice.cost[moved, to[moved]]))  # fmt: skip
        return self._merged(len(rows), parts)

    def _merged(self, n: int, parts: Sequence[_Moves]) -> Route:
        """One route; where both prices lead to the same place its chances are one."""
        row, place = (np.concatenate([part.row for part in parts]),
                      np.concatenate([part.place for part in parts]))  # fmt: skip
        chance, cost = (np.concatenate([part.chance for part in parts]),
                        np.concatenate([part.cost for part in parts]))  # fmt: skip
        pairs, first, entry = np.unique(
            row * len(self.support) + place, return_index=True, return_inverse=True
        )
        together = np.zeros(len(pairs))
        np.add.at(together, entry, chance)
        used, at = np.unique(place[first], return_inverse=True)
        decision = self.support_decision[used]
        return Route.moves(
            n,
            row[first],
            together,
            place=at,
            cost=cost[first],
            table=self.support.take(used) if len(used) > 0 else None,
            decision=decision,
            score=decision,
        )

    def slope(self, rows: Frame) -> FloatArray:
        """What raising a row's decision adds to the gap."""
        outcome = np.zeros(len(rows)) if self.outcome is None else self.outcome.of(rows)
        return self.gap.slope(outcome)


@dataclass(frozen=True, eq=False)
class _Moves:
    row: IntArray
    place: IntArray
    chance: FloatArray
    cost: FloatArray


@dataclass(frozen=True, eq=False)
class Choice:
    """Where rows may go, at which cost."""

    cost: FloatArray
    slope: FloatArray
    decision: FloatArray
    """At each place."""
    own: FloatArray
    """Each row's decision where it is."""

    def at(self, price: float) -> IntArray:
        """For each row the place of least cost + price * slope * decision; -1 to stay."""
        total = self.cost + price * self.slope[:, None] * self.decision[None, :]
        best = np.argmin(total, axis=1)
        stay = price * self.slope * self.own
        gains = total[np.arange(len(best)), best] < stay - 1e-12 * max(1.0, price)
        return np.where(gains, best, -1)


def move_softly(task: RepairTask) -> Plan:
    """Find the price at which the realised gap reaches its aim."""
    if len(task.gaps) > 1:
        raise DataError(
            "disparity",
            "must be a single one where decisions are soft",
            f"got {len(task.gaps)}",
            "Make decisions hard with a threshold, or use method='transport'.",
        )
    gap, source = task.gaps[0], task.source
    needs_outcome = gap.slope(np.zeros(1))[0] != gap.slope(np.ones(1))[0]
    support = spread_out(source.decision, MOST_PLACES)
    plan = SoftPlan(
        **task.common(task.done, Outlook()),
        gap=gap,
        outcome=task.outcome(pooled=False) if needs_outcome else None,
        cost=task.cost,
        support=task.table.take(support),
        support_decision=source.decision[support],
        low_price=0.0,
        high_price=0.0,
        chance=0.0,
    )
    choice = Choice(
        task.cost.matrix(task.table, plan.support),
        plan.slope(task.table),
        plan.support_decision,
        source.decision,
    )

    def excess(price: float) -> float:
        to = choice.at(price)
        moved = plan.support_decision[np.maximum(to, 0)]
        return gap.excess(np.where(to < 0, source.decision, moved))

    low, high = 0.0, 1.0
    while excess(high) > 0:
        low, high = high, 2 * high
        if high > _DEAREST:  # nobody moves any further: the allowed edits do not suffice
            full = _furthest(plan, choice, task, low)
            return task.finished(full, PlanStatus.UNREACHABLE)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    above, below = excess(low), excess(high)
    chance = above / (above - below) if above > below else 1.0
    plan = replace(plan, low_price=low, high_price=high, chance=float(chance))
    return task.finished(plan, task.done)


def _furthest(plan: SoftPlan, choice: Choice, task: RepairTask, price: float) -> SoftPlan:
    """The plan that leaves least of a gap that cannot be closed.

    Of a rate over decisions the least excess is not the least rate: its aim is lowered from where
    the gap is now to where the last one led, for as long as that helps (Dinkelbach).
    """
    own = task.source.decision
    best, left = plan, plan.gap.gap(own)  # at a price of 0 nobody moves
    while True:
        aimed = replace(
            plan, low_price=price, high_price=price,
            gap=replace(plan.gap, aim=left) if plan.gap.over_decisions else plan.gap,
        )  # fmt: skip
        to = replace(choice, slope=aimed.slope(task.table)).at(price)
        reached = plan.gap.gap(np.where(to < 0, own, plan.support_decision[np.maximum(to, 0)]))
        if not reached < left - 1e-9:
            return best
        best, left = aimed, reached


def spread_out(values: FloatArray, most: int) -> IntArray:
    """Places of at most so many values, in their order and spread evenly over it.

    >>> spread_out(np.array([0.3, 0.1, 0.2, 0.4, 0.5]), 3).tolist()
    [1, 0, 4]
    """
    order = np.argsort(values, kind="stable")
    if len(order) <= most:
        return order
    return order[np.linspace(0, len(order) - 1, most).round().astype(np.int64)]
