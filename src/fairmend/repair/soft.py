"""Least change for soft decisions: h(x) is a probability, and an edit moves it by any amount.

Minimise sum_i w_i C_ij subject to a realised gap that is linear in the decisions reached. By
duality each row goes to the j that minimises C_ij + price * b_i * h_j, with one price for all and
b_i the row's slope in the gap: a rule that speaks for new rows as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, TypeAlias

import numpy as np

from fairmend.data.columns import FloatArray, Frame, IntArray
from fairmend.data.limits import Between, Chance, Chances, alike
from fairmend.data.stored import stored
from fairmend.errors import check
from fairmend.measure.realised import RealisedGap
from fairmend.model.answers import Answers
from fairmend.repair.costs import EditCost
from fairmend.repair.plan import Plan, Route
from fairmend.repair.probabilities import RowProbabilities
from fairmend.repair.problem import RepairProblem
from fairmend.status import PlanStatus

MOST_PLACES = 2_000
"""Of more distinct rows than this, so many spread over their decisions can be moved to."""
_BISECTIONS = 100
_DEAREST = 1e9
Price: TypeAlias = Annotated[float, Between(0, 2 * _DEAREST)]
_CHUNK = 2_000


@stored("SoftPlan")
@dataclass(frozen=True, eq=False)
class SoftPlan(Plan):
    """Each row goes where cost plus price is least; on the edge between two prices, by chance."""

    gap: RealisedGap
    outcome: RowProbabilities | None
    """None where the gap does not depend on the outcome."""
    cost: EditCost
    support: Frame
    support_decision: Chances
    low_price: Price
    high_price: Price
    chance: Chance
    """Of following the higher price, for rows where the two differ."""

    def agrees(self) -> bool:
        ordered = self.low_price <= self.high_price and super().agrees()
        return ordered and len(self.support) > 0 and alike(self.support, self.support_decision)

    def route(self, rows: Frame, answers: Answers) -> Route:
        """The two prices' destinations, mixed; where both lead to one place its chances are one."""
        parts = []
        for at, choice in self.choices(rows, answers.decision):
            for price, share in ((self.low_price, 1 - self.chance), (self.high_price, self.chance)):
                to = choice.at(price)
                moved = np.flatnonzero((to >= 0) & (share > 0))
                cost = choice.cost[moved, to[moved]]
                parts.append((at[moved], to[moved], np.full(len(moved), share), cost))
        row, place, chance, cost = (np.concatenate(column) for column in zip(*parts, strict=True))
        pairs, first, entry = np.unique(
            row * len(self.support) + place, return_index=True, return_inverse=True
        )
        together = np.zeros(len(pairs))
        np.add.at(together, entry, chance)
        used, at = np.unique(place[first], return_inverse=True)
        decision = self.support_decision[used]
        return Route.moves(
            len(rows),
            row[first],
            together,
            place=at,
            cost=cost[first],
            decision=decision,
            table=self.support.take(used) if len(used) > 0 else None,
            score=decision,
        )

    def choices(self, rows: Frame, decision: FloatArray) -> Iterator[tuple[IntArray, Choice]]:
        """Where rows may go, some rows at a time: all of them by all places may be gigabytes."""
        slope = self.slope(rows)
        for start in range(0, len(rows), _CHUNK):
            at = np.arange(start, min(start + _CHUNK, len(rows)))
            cost = self.cost.matrix(rows.take(at), self.support)
            yield at, Choice(cost, slope[at], self.support_decision, decision[at])

    def places(self, rows: Frame, decision: FloatArray, price: float) -> IntArray:
        """The place each row goes to at a price; -1 to stay."""
        places = [choice.at(price) for _, choice in self.choices(rows, decision)]
        return np.concatenate([np.zeros(0, np.int64), *places])

    def reached(self, decision: FloatArray, to: IntArray) -> FloatArray:
        """The decisions of rows that went to these places."""
        return np.where(to < 0, decision, self.support_decision[np.maximum(to, 0)])

    def slope(self, rows: Frame) -> FloatArray:
        """What raising a row's decision adds to the gap."""
        outcome = np.zeros(len(rows)) if self.outcome is None else self.outcome.of(rows)
        return self.gap.slope(outcome)


@dataclass(frozen=True, eq=False)
class Choice:
    """Where rows may go, at which cost."""

    cost: FloatArray
    slope: FloatArray
    decision: FloatArray
    """At each place."""
    own: FloatArray
    """Each row's decision where it is."""

    def take(self, rows: IntArray) -> Choice:
        """Of some of the rows."""
        return replace(self, cost=self.cost[rows], slope=self.slope[rows], own=self.own[rows])

    def at(self, price: float) -> IntArray:
        """For each row the place of least cost + price * slope * decision; -1 to stay."""
        total = self.cost + price * self.slope[:, None] * self.decision[None, :]
        best = np.argmin(total, axis=1)
        stay = price * self.slope * self.own
        gains = total[np.arange(len(best)), best] < stay - 1e-12 * max(1.0, price)
        return np.where(gains, best, -1)


def move_softly(problem: RepairProblem) -> Plan:
    """Find the price at which the realised gap reaches its aim."""
    fix = "Make decisions hard with a threshold, or use method='transport'."
    must, gaps = "must be a single one where decisions are soft", len(problem.gaps)
    check(gaps == 1, "disparity", must, f"got {gaps}", fix)
    gap, source = problem.gaps[0], problem.source
    needs_outcome = gap.slope(np.zeros(1))[0] != gap.slope(np.ones(1))[0]
    support = spread_out(source.decision, MOST_PLACES)
    plan = SoftPlan(
        **problem.common(),
        gap=gap,
        outcome=problem.outcome(pooled=False) if needs_outcome else None,
        cost=problem.cost,
        support=problem.table.take(support),
        support_decision=source.decision[support],
        low_price=0.0,
        high_price=0.0,
        chance=0.0,
    )
    own = source.decision
    # priced once where that fits into memory, and anew for every price where it does not
    all_at_once = next(plan.choices(problem.table, own))[1] if len(own) <= _CHUNK else None

    def excess(to: IntArray) -> float:
        return gap.excess(plan.reached(own, to))

    def between(price: float, below: IntArray, above: IntArray) -> IntArray:
        """Where rows go at a price; those with one place below and above it go there too."""
        to, open_ = below.copy(), np.flatnonzero(below != above)
        if all_at_once is not None:
            to[open_] = all_at_once.take(open_).at(price)
        else:
            to[open_] = plan.places(problem.table.take(open_), own[open_], price)
        return to

    furthest = plan.places(problem.table, own, _DEAREST)
    low, below = 0.0, np.full(len(own), -1)
    high, above = 1.0, between(1.0, below, furthest)
    # outcomes on record may turn the excess up again, so that the dearest price tells nothing
    while excess(above) > 0:
        low, below, high = high, above, 2 * high
        if high > _DEAREST:  # nobody moves any further: the allowed edits do not suffice
            return problem.finished(_furthest(plan, problem, furthest))
        above = between(high, below, furthest)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        to = between(middle, below, above)
        if excess(to) > 0:
            low, below = middle, to
        else:
            high, above = middle, to
    left, passed = excess(below), excess(above)
    chance = left / (left - passed) if left > passed else 1.0
    plan = replace(plan, low_price=low, high_price=high, chance=float(chance))
    return problem.finished(plan)


def _furthest(plan: SoftPlan, problem: RepairProblem, to: IntArray) -> SoftPlan:
    """The plan that leaves least of a gap that cannot be closed; ``to`` leaves the least excess.

    Of a rate over decisions the least excess is not the least rate: its aim is lowered from where
    the gap is now to where the last one led, for as long as that helps (Dinkelbach).
    """
    own = problem.source.decision
    plan = replace(plan, status=PlanStatus.UNREACHABLE)
    best, left = plan, plan.gap.gap(own)  # at a price of 0 nobody moves
    while True:
        aimed = replace(plan, low_price=_DEAREST, high_price=_DEAREST)
        if plan.gap.over_decisions:
            aimed = replace(aimed, gap=replace(plan.gap, aim=left))
            to = aimed.places(problem.table, own, _DEAREST)
        reached = plan.gap.gap(plan.reached(own, to))
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
