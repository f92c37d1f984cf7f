"""Order-preserving repair: for those who rank people by the score, not only decide by it.

The same people change sides as under least change ranked by score, but everybody on the new side
is placed so that no two people swap ranks: a monotone map from the group's scores to scores on that
side, the cheapest one, by dynamic programming over the rows in the order of their scores. Rows of
all groups are places to go to, because the fewer places, the more people come to share a rank. With
soft decisions scores are shifted by a constant on the logit scale instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, TypeAlias

import numpy as np

from fairmend.data.columns import BoolArray, FloatArray, Frame, IntArray
from fairmend.data.limits import Between, Chance, Chances, Places, Scores, alike, inside, rising
from fairmend.data.stored import stored
from fairmend.errors import check
from fairmend.measure import special
from fairmend.measure.population import pooled
from fairmend.model.answers import Answers
from fairmend.repair.costs import EditCost
from fairmend.repair.destinations import Destinations
from fairmend.repair.least_change import SAME_KEY, Cut, Ranking, find_cut, turned_decisions
from fairmend.repair.methods import repair_method
from fairmend.repair.plan import IdentityPlan, Plan, Route
from fairmend.repair.problem import RepairProblem
from fairmend.repair.soft import MOST_PLACES, spread_out
from fairmend.status import PlanStatus

_BISECTIONS = 100
_SHIFTS = np.r_[0.0, 2.0 ** np.arange(-4, 8)]
"""Tried on the logit scale; the last takes any score to the end of the scale."""
Shift: TypeAlias = Annotated[float, Between(-_SHIFTS[-1], _SHIFTS[-1])]


@repair_method("order", help="edits that keep the order of people by score", uses=("level", "cost"))
def order_preserving(problem: RepairProblem) -> Plan:
    """The plan that closes the realised gap without changing who ranks above whom.

    The model must give scores, and everybody may be edited, those included whose decision stays.

    >>> from fairmend.datasets import load_compas
    >>> from fairmend import BlackBox, tabulate
    >>> from fairmend.repair.settings import RepairSettings
    >>> compas = load_compas(backend="numpy")
    >>> vendor = BlackBox(lambda rows: rows @ np.linspace(0.01, 0.05, 17), threshold=0.2)
    >>> data = tabulate(vendor, compas.X, compas.y, sensitive_features=compas.sensitive_features)
    >>> problem = RepairProblem.read(data, RepairSettings(disparity="fpr", method="order"))
    >>> order_preserving(problem).status.name
    'CLOSED'
    """
    problem.refuse_other_than_decisions()
    _check(problem)
    if problem.is_soft:
        return _shift(problem)
    source = problem.source
    ranking, cut = _best_cut(problem)
    keys = ranking.keys(problem.table, source.answers)
    placed = np.flatnonzero((source.decision != ranking.turned) | (cut.chances(keys) > 0))
    support, score = _places(problem, ranking)
    if len(support) == 0:  # all who are decided so have some value that nobody of the group has
        nobody = IdentityPlan(**problem.common(PlanStatus.UNREACHABLE))
        return problem.finished(nobody, unreachable=float(source.mass[placed].sum()))
    knots, place = _placed(problem, placed, keys[placed, 0], support)
    plan = OrderPlan(
        **problem.common(problem.done if cut.enough else PlanStatus.UNREACHABLE),
        ranking=ranking,
        cut=cut,
        knots=knots,
        place=place,
        support=support,
        support_score=score,
        cost=problem.cost,
    )
    return problem.finished(plan)


def _best_cut(problem: RepairProblem) -> tuple[Ranking, Cut]:
    """The ranking by score, cut where the gap is closed, or where least of it is left."""
    cuts = []
    for turned in turned_decisions(problem):
        ranking = Ranking("score", turned, problem.gaps[0], None)
        eligible = np.flatnonzero(problem.source.decision == turned)
        keys = ranking.keys(problem.table.take(eligible), problem.source.answers.take(eligible))
        everybody = np.ones(len(eligible), bool)
        cut, left = find_cut(problem, turned, eligible, keys, everybody)
        cuts.append((left, ranking, cut))
    _, ranking, cut = min(cuts, key=lambda one: one[0])
    return ranking, cut


def _check(problem: RepairProblem) -> None:
    other = "Use method='least_change'."
    must = "must not be 'order' for a model of labels only"
    scored = problem.source.score is not None
    check(scored, "method", must, "it gives no scores to keep in order", other)
    check(
        not problem.cost.has_rules,
        "method='order'",
        "must be free to place everybody",
        "got forbidden edits",
        "Use method='least_change', which respects them.",
    )
    must, gaps = "must be a single one for method='order'", len(problem.gaps)
    check(gaps == 1, "disparity", must, f"got {gaps}", other)


def _places(problem: RepairProblem, ranking: Ranking) -> tuple[Frame, FloatArray]:
    """Rows of anybody on the side of the wanted decision, from the lowest key up; their scores.

    Of other groups' rows only those that a member of the target group could have, value by value:
    nobody is edited into another group.
    """
    table = problem.data.table
    assert table is not None
    everyone = pooled(problem.data.populations)
    rows, first = np.unique(np.asarray(everyone.rows), return_index=True)
    own = np.asarray(problem.source.rows)
    fits = (everyone.decision[first] != ranking.turned) & _familiar(table, own)[rows]
    answers, rows = everyone.answers.take(first[fits]), rows[fits]
    key = ranking.keys(table.take(rows), answers)[:, 0]
    at = spread_out(key, MOST_PLACES)
    return table.take(rows[at]), np.asarray(answers.score)[at]


def _familiar(table: Frame, rows: IntArray) -> BoolArray:
    """Which rows of a table hold nothing but values that the given rows hold too."""
    familiar = np.ones(len(table), bool)
    for column in table.encoded:
        familiar &= np.isin(column.codes, column.codes[rows])
    return familiar


def _placed(
    problem: RepairProblem, rows: IntArray, key: FloatArray, support: Frame
) -> tuple[FloatArray, IntArray]:
    """Keys of rows to be placed, and where in the support each goes, both from the lowest up."""
    knots, knot = _knots(key, MOST_PLACES)
    cost = np.zeros((len(knots), len(support)))
    for start in range(0, len(rows), MOST_PLACES):
        at = slice(start, start + MOST_PLACES)
        price = problem.cost.matrix(problem.table.take(rows[at]), support)
        np.add.at(cost, knot[at], price * problem.source.mass[rows[at], None])
    return knots, monotone_map(cost)


def _knots(key: FloatArray, most: int) -> tuple[FloatArray, IntArray]:
    """At most so many distinct keys, lowest first, and for each key the last one not above it."""
    knots = np.unique(key)
    knots = knots[np.r_[True, np.diff(knots) > SAME_KEY * np.maximum(1.0, np.abs(knots[1:]))]]
    if len(knots) > most:
        knots = knots[np.linspace(0, len(knots) - 1, most).round().astype(np.int64)]
    return knots, _at_knot(knots, key)


def _at_knot(knots: FloatArray, key: FloatArray) -> IntArray:
    slack = SAME_KEY * np.maximum(1.0, np.abs(key))
    return np.maximum(np.searchsorted(knots, key + slack, side="right") - 1, 0)


def monotone_map(cost: FloatArray) -> IntArray:
    """The cheapest j(i) that never falls as i rises, by dynamic programming.

    >>> monotone_map(np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 5.0]])).tolist()
    [0, 0, 0]
    """
    rows, columns = cost.shape
    total = cost[0]
    best = np.empty((rows, columns), np.int32)
    for i in range(1, rows):
        best[i] = _running_argmin(total)
        total = cost[i] + total[best[i]]
    place = np.empty(rows, np.int64)
    place[-1] = int(np.argmin(total))
    for i in range(rows - 1, 0, -1):
        place[i - 1] = best[i, place[i]]
    return place


def _running_argmin(values: FloatArray) -> IntArray:
    """For each j the place of the least value up to j."""
    lowest = np.minimum.accumulate(values)
    fresh = np.r_[True, values[1:] < lowest[:-1]]
    return np.maximum.accumulate(np.where(fresh, np.arange(len(values)), 0))


@stored("OrderPlan")
@dataclass(frozen=True, eq=False)
class OrderPlan(Plan):
    """A monotone step function from scores to rows on the side of the wanted decision."""

    ranking: Ranking
    cut: Cut
    knots: Annotated[Scores, rising]
    """Keys at which the step function rises."""
    place: Places
    """Where in ``support`` each of them goes."""
    support: Frame
    support_score: Scores
    cost: EditCost

    def agrees(self) -> bool:
        return (
            super().agrees()
            and self.ranking.rank == "score"
            and len(self.knots) > 0
            and alike(self.knots, self.place)
            and alike(self.support, self.support_score)
            and inside(self.place, len(self.support))
        )

    def route(self, rows: Frame, answers: Answers) -> Route:
        """New scores go where the next lower score of the audit goes, so the order holds."""
        keys = self.ranking.keys(rows, answers)
        turns = answers.decision == self.ranking.turned
        chance = np.where(turns, self.cut.chances(keys), 1.0)
        moving = np.flatnonzero(chance > 0)
        to = self.place[_at_knot(self.knots, keys[moving, 0])]
        decision = np.full(len(self.support), 1.0 - self.ranking.turned)
        there = Destinations(self.support, np.zeros(len(decision)), decision, self.support_score)
        return _to_support(rows, answers, moving, to, chance[moving], there=there, cost=self.cost)


def _to_support(
    rows: Frame,
    answers: Answers,
    moving: IntArray,
    to: IntArray,
    chance: FloatArray,
    *,
    there: Destinations,
    cost: EditCost,
) -> Route:
    """Rows go to places of a support; those that have its score already stay."""
    assert answers.score is not None
    assert there.score is not None
    away = np.flatnonzero(np.abs(answers.score[moving] - there.score[to]) > SAME_KEY)
    if len(away) == 0:
        return Route.stay(len(rows))
    moving, to, chance = moving[away], to[away], chance[away]
    used, place = np.unique(to, return_inverse=True)
    table, price = there.table.take(used), np.empty(len(moving))
    for start in range(0, len(moving), MOST_PLACES):
        at = np.arange(start, min(start + MOST_PLACES, len(moving)))
        price[at] = cost.matrix(rows.take(moving[at]), table)[np.arange(len(at)), place[at]]
    return Route.moves(
        len(rows), moving, chance, place=place, cost=price,
        table=table, decision=there.decision[used], score=there.score[used],
    )  # fmt: skip


# -------------------------------------------------------------------- soft decisions


@stored("ShiftPlan")
@dataclass(frozen=True, eq=False)
class ShiftPlan(Plan):
    """Every score is raised by a constant on the logit scale, to the nearest score there is."""

    low_shift: Shift
    high_shift: Shift
    chance: Chance
    """Of the higher shift, where the two lead to different rows."""
    support: Frame
    support_score: Annotated[Chances, rising]
    cost: EditCost

    def agrees(self) -> bool:
        there = len(self.support) > 0 and alike(self.support, self.support_score)
        return there and super().agrees()

    def route(self, rows: Frame, answers: Answers) -> Route:
        """The two shifts' destinations, mixed."""
        low, high = (shifted(answers.decision, self.support_score, by)
                     for by in (self.low_shift, self.high_shift))  # fmt: skip
        split = np.flatnonzero((low != high) & (self.chance > 0))
        chance = np.ones(len(rows))
        chance[split] = 1 - self.chance
        chance = np.r_[chance, np.full(len(split), self.chance)]
        moving, to = np.r_[np.arange(len(rows)), split], np.r_[low, high[split]]
        at = np.flatnonzero(chance > 0)
        scores = self.support_score
        there = Destinations(self.support, np.zeros(len(scores)), scores, scores)
        return _to_support(
            rows, answers, moving[at], to[at], chance[at], there=there, cost=self.cost
        )


def shifted(decision: FloatArray, support: FloatArray, by: float) -> IntArray:
    """The place of the supported score nearest to expit(logit(h) + by); ``support`` is sorted."""
    wanted = special.expit(special.logit(np.clip(decision, 1e-12, 1 - 1e-12)) + by)
    right = np.clip(np.searchsorted(support, wanted), 1, len(support) - 1)
    return np.where(wanted - support[right - 1] <= support[right] - wanted, right - 1, right)


def _shift(problem: RepairProblem) -> Plan:
    source, gap = problem.source, problem.gaps[0]
    support = np.unique(source.decision, return_index=True)[1]  # one row a score: order is by score
    support = support[spread_out(source.decision[support], MOST_PLACES)]
    scores = source.decision[support]
    side = 1.0 if gap.row_slope().sum() < 0 else -1.0

    def there(by: float) -> FloatArray:
        return scores[shifted(source.decision, scores, side * by)]

    def excess(by: float) -> float:
        return gap.excess(there(by))

    closing = [k for k, by in enumerate(_SHIFTS) if k > 0 and excess(by) <= 0]
    if closing:
        low, high = map(float, _SHIFTS[closing[0] - 1 : closing[0] + 1])
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    else:  # further is not closer where the rate is over decisions
        left = [gap.gap(there(by)) for by in _SHIFTS]
        low = high = float(_SHIFTS[int(np.argmin(np.nan_to_num(left, nan=np.inf)))])
    above, below = excess(low), excess(high)
    plan = ShiftPlan(
        **problem.common(PlanStatus.UNREACHABLE),
        low_shift=side * low,
        high_shift=side * high,
        chance=float(above / (above - below)) if above > below else 1.0,
        support=problem.table.take(support),
        support_score=scores,
        cost=problem.cost,
    )
    return problem.finished(plan)
