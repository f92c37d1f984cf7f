"""Least change for soft decisions: h(x) is a probability, and an edit moves it by any amount.

Minimise sum_i w_i C_ij subject to a realised gap that is linear in the decisions reached. By
duality each row goes to the j that minimises C_ij + price * b_i * h_j, with one price for all and
b_i the row's slope in the gap: a rule that speaks for new rows as well.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fairmend.columns import FloatArray, Frame, IntArray
from fairmend.costs import EditCost
from fairmend.model import Answers
from fairmend.plan import Outlook, Plan, PlanStatus, Route
from fairmend.realised import RealisedGap
from fairmend.task import KnownOutcome, RepairTask

__all__ = ["SoftPlan", "move_softly"]

_BISECTIONS = 100


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
        slope = self.slope(rows)
        cost = self.cost.matrix(rows, self.support)
        low = cheapest(cost, slope, self.support_decision, answers.decision, self.low_price)
        high = cheapest(cost, slope, self.support_decision, answers.decision, self.high_price)
        n = len(rows)
        row = np.repeat(np.arange(n), 2)
        column = np.stack([low, high], axis=1).ravel()
        chance = np.tile([1 - self.chance, self.chance], n)
        same = np.repeat(low == high, 2)
        chance = np.where(same, np.tile([1.0, 0.0], n), chance)
        kept = chance > 0
        row, column, chance = row[kept], column[kept], chance[kept]
        price = np.where(column < 0, 0.0, cost[row, np.maximum(column, 0)])
        used, place = np.unique(column[column >= 0], return_inverse=True)
        destination = np.full(len(column), -1)
        destination[column >= 0] = place
        return Route(
            n, row, destination, chance, self.support.take(used),
            self.support_decision[used], self.support_decision[used], price,
        )  # fmt: skip

    def slope(self, rows: Frame) -> FloatArray:
        """What raising a row's decision adds to the gap."""
        outcome = np.zeros(len(rows)) if self.outcome is None else self.outcome.of(rows)
        return self.gap.slope(outcome)


def cheapest(
    cost: FloatArray,
    slope: FloatArray,
    decision: FloatArray,
    own: FloatArray,
    price: float,
) -> IntArray:
    """For each row the column that minimises cost + price * slope * decision; -1 to stay."""
    total = cost + price * slope[:, None] * decision[None, :]
    best = np.argmin(total, axis=1)
    stay = price * slope * own
    return np.where(total[np.arange(len(best)), best] < stay - 1e-12, best, -1)


def move_softly(task: RepairTask) -> Plan:
    """Find the price at which the realised gap reaches its aim."""
    gap, source = task.gaps[0], task.source
    needs_outcome = gap.slope(np.zeros(1))[0] != gap.slope(np.ones(1))[0]
    plan = SoftPlan(
        **task.common(task.done, Outlook()),
        gap=gap,
        outcome=task.outcome(pooled=False) if needs_outcome else None,
        cost=task.cost,
        support=task.table,
        support_decision=source.decision,
        low_price=0.0,
        high_price=0.0,
        chance=0.0,
    )
    slope = plan.slope(task.table)
    cost = task.cost.matrix(task.table, task.table)

    def decided(price: float) -> FloatArray:
        to = cheapest(cost, slope, source.decision, source.decision, price)
        return np.where(to < 0, source.decision, source.decision[np.maximum(to, 0)])

    low, high = 0.0, 1.0
    while gap.excess(decided(high)) > 0:
        low, high = high, 2 * high
        if high > 1e9:  # nobody moves any further: the allowed edits do not suffice
            full = replace(plan, low_price=low, high_price=low)
            return task.finished(full, PlanStatus.UNREACHABLE)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if gap.excess(decided(middle)) > 0:
            low = middle
        else:
            high = middle
    above, below = gap.excess(decided(low)), gap.excess(decided(high))
    chance = above / (above - below) if above > below else 1.0
    plan = replace(plan, low_price=low, high_price=high, chance=float(chance))
    return task.finished(plan, task.done)
