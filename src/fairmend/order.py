"""Order-preserving repair: for those who rank people by the score, not only decide by it.

The same people change sides as under least change ranked by score, but everybody on the new side
is placed so that no two people swap ranks: a monotone map from the group's scores to scores on that
side, the cheapest one, by dynamic programming over the rows in the order of their scores. With soft
decisions scores are shifted by a constant on the logit scale instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, logit

from fairmend.columns import FloatArray, Frame, IntArray
from fairmend.costs import EditCost
from fairmend.data import AuditData
from fairmend.errors import DataError
from fairmend.model import Answers
from fairmend.plan import Outlook, Plan, PlanStatus, Route
from fairmend.task import RepairTask

__all__ = ["OrderPlan", "ShiftPlan", "order_preserving"]


def order_preserving(data: AuditData, **settings: Any) -> Plan:
    """The plan that closes the realised gap without changing who ranks above whom.

    Settings as in `least_change`; the model must give scores, and everybody may be moved, those
    included whose decision stays.
    """
    from fairmend.repair import calibrate, one_more_person, row_gains, turned_decision

    task = RepairTask.read(data, method="order", **{**settings, "rank": None})
    source = task.source
    if source.score is None:
        raise DataError(
            "method",
            "must not be 'order' for a model of labels only",
            "it gives no scores to keep in order",
            "Use method='least_change'.",
        )
    if task.cost.has_rules:
        raise DataError(
            "method='order'",
            "must be free to place everybody",
            "got forbidden edits",
            "Use method='least_change', which respects them.",
        )
    if len(task.gaps) > 1:
        raise DataError("disparity", "must be a single one for method='order'",
                        f"got {len(task.gaps)}", "Use method='least_change'.")  # fmt: skip
    if task.nothing_to_close:
        return task.identity()
    task.warn_if_not_significant()
    if task.is_soft:
        return _shift(task)
    turned = turned_decision(task)
    sign = 1.0 if turned == 0 else -1.0
    eligible = np.flatnonzero(source.decision == turned)
    gain = -sign * row_gains(task)[eligible]
    need = task.gaps[0].excess(source.decision) - one_more_person(task)
    threshold, chance, enough = calibrate(sign * source.score[eligible], gain, need)
    rank = sign * source.score
    moved = np.flatnonzero((source.decision != turned) | (rank >= threshold - 1e-11))
    moved = moved[np.argsort(rank[moved], kind="stable")]
    there = np.flatnonzero(source.decision != turned)
    there = there[np.argsort(rank[there], kind="stable")]
    cost = task.cost.matrix(task.table.take(moved), task.table.take(there))
    place = monotone_map(cost * source.mass[moved][:, None])
    plan = OrderPlan(
        **task.common(task.done, Outlook()),
        turned=turned,
        threshold=threshold,
        tie_probability=chance,
        score=rank[moved],
        place=place,
        support=task.table.take(there),
        support_score=source.score[there],
        cost=task.cost,
    )
    return task.finished(plan, task.done if enough else PlanStatus.UNREACHABLE)


def monotone_map(cost: FloatArray) -> IntArray:
    """The cheapest j(i) that never falls as i rises, by dynamic programming.

    >>> monotone_map(np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 5.0]])).tolist()
    [0, 0, 0]
    """
    rows, columns = cost.shape
    total = np.empty_like(cost)
    total[0] = cost[0]
    best = np.empty((rows, columns), np.int64)
    for i in range(1, rows):
        best[i] = _running_argmin(total[i - 1])
        total[i] = cost[i] + total[i - 1][best[i]]
    place = np.empty(rows, np.int64)
    place[-1] = int(np.argmin(total[-1]))
    for i in range(rows - 1, 0, -1):
        place[i - 1] = best[i, place[i]]
    return place


def _running_argmin(values: FloatArray) -> IntArray:
    """For each j the place of the least value up to j."""
    lowest = np.minimum.accumulate(values)
    fresh = np.r_[True, values[1:] < lowest[:-1]]
    return np.maximum.accumulate(np.where(fresh, np.arange(len(values)), 0))


@dataclass(frozen=True, eq=False)
class OrderPlan(Plan):
    """A monotone step function from scores to rows on the side of the wanted decision."""

    turned: float
    threshold: float
    tie_probability: float
    score: FloatArray
    """Scores of the audit's placed rows, sorted (negated where decisions turn negative)."""
    place: IntArray
    """Where in ``support`` each of them goes."""
    support: Frame
    support_score: FloatArray
    cost: EditCost

    def route(self, rows: Frame, answers: Answers) -> Route:
        """New scores go where the next lower score of the audit goes, so the order holds."""
        assert answers.score is not None
        sign = 1.0 if self.turned == 0 else -1.0
        rank = sign * answers.score
        turns = answers.decision == self.turned
        chance = np.where(rank > self.threshold + 1e-11, 1.0, self.tie_probability)
        chance = np.where(
            turns & (rank < self.threshold - 1e-11), 0.0, np.where(turns, chance, 1.0)
        )
        moving = np.flatnonzero(chance > 0)
        at = np.searchsorted(self.score, rank[moving] + 1e-11, side="right") - 1
        to = self.place[np.maximum(at, 0)]
        used, place = np.unique(to, return_inverse=True)
        table = self.support.take(used)
        price = self.cost.matrix(rows.take(moving), table)[np.arange(len(moving)), place]
        stays = price == 0  # already there
        return Route.to_shared(
            len(rows),
            moving[~stays],
            chance[moving][~stays],
            cost=price[~stays],
            place=place[~stays],
            table=table,
            decision=np.full(len(used), 1.0 - self.turned),
            score=self.support_score[used],
        )


# -------------------------------------------------------------------- soft decisions


@dataclass(frozen=True, eq=False)
class ShiftPlan(Plan):
    """Every score is raised by a constant on the logit scale, to the nearest score there is."""

    low_shift: float
    high_shift: float
    chance: float
    """Of the higher shift, where the two lead to different rows."""
    support: Frame
    support_score: FloatArray
    cost: EditCost

    def route(self, rows: Frame, answers: Answers) -> Route:
        low, high = (shifted(answers.decision, self.support_score, by)
                     for by in (self.low_shift, self.high_shift))  # fmt: skip
        n = len(rows)
        same = low == high
        row = np.concatenate([np.arange(n), np.flatnonzero(~same)])
        column = np.concatenate([low, high[~same]])
        chance = np.concatenate(
            [np.where(same, 1.0, 1 - self.chance), np.full((~same).sum(), self.chance)]
        )
        order = np.argsort(row, kind="stable")
        row, column, chance = row[order], column[order], chance[order]
        used, place = np.unique(column, return_inverse=True)
        table = self.support.take(used)
        price = self.cost.matrix(rows, table)[row, place]
        score = self.support_score[used]
        return Route(n, row, np.where(price == 0, -1, place), chance, table, score, score, price)


def shifted(decision: FloatArray, support: FloatArray, by: float) -> IntArray:
    """The place of the supported score nearest to expit(logit(h) + by); ``support`` is sorted."""
    wanted = expit(logit(np.clip(decision, 1e-12, 1 - 1e-12)) + by)
    right = np.clip(np.searchsorted(support, wanted), 1, len(support) - 1)
    return np.where(wanted - support[right - 1] <= support[right] - wanted, right - 1, right)


def _shift(task: RepairTask) -> Plan:
    source, gap = task.source, task.gaps[0]
    order = np.argsort(source.decision, kind="stable")
    support, scores = task.table.take(order), source.decision[order]
    rising = gap.slope(source.outcome).sum() < 0
    side = 1.0 if rising else -1.0

    def excess(by: float) -> float:
        return gap.excess(scores[shifted(source.decision, scores, side * by)])

    low, high = 0.0, 1.0
    while excess(high) > 0:
        low, high = high, 2 * high
        if high > 100:
            break
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    above, below = excess(low), excess(high)
    plan = ShiftPlan(
        **task.common(task.done, Outlook()),
        low_shift=side * low,
        high_shift=side * high,
        chance=float(above / (above - below)) if above > below else 1.0,
        support=support,
        support_score=scores,
        cost=task.cost,
    )
    return task.finished(plan, task.done if below <= 0 else PlanStatus.UNREACHABLE)
