"""Repairs that change least: whose inputs to edit, and into what.

With hard decisions an edit either turns a decision or does nothing, so the cheapest repair moves
the right number of people each to the nearest row with the other decision. Who goes first is a
ranking; how many is calibrated on the gap people really experience (see `realised`), and the rule
that results applies to rows never seen before as it does to those of the audit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fairmend.data.columns import BoolArray, FloatArray, Frame, IntArray
from fairmend.data.limits import Between, Chance, Side
from fairmend.data.stored import stored
from fairmend.data.threads import one_thread
from fairmend.measure.realised import RealisedGap
from fairmend.model.answers import Answers
from fairmend.repair.destinations import Donors, RememberingDonors, forgetting
from fairmend.repair.joint import close_jointly
from fairmend.repair.methods import repair_method
from fairmend.repair.plan import Plan, Route
from fairmend.repair.probabilities import RowProbabilities
from fairmend.repair.problem import RepairProblem
from fairmend.repair.settings import Rank
from fairmend.repair.soft import move_softly
from fairmend.status import PlanStatus

Key: TypeAlias = Annotated[float, Between(-np.inf, np.inf)]
"""By which people are ranked; beyond all others where it is infinite, but never nan."""
SAME_KEY = 1e-11
"""Keys this close are one: a model's answer may differ in its last bits from batch to batch."""
_FEWEST = 64
"""Rows that are looked at together where few more are needed."""


@repair_method("least_change", help="the fewest, nearest edits that close the gap")
def least_change(problem: RepairProblem) -> Plan:
    """The plan that closes the realised gap by the fewest, nearest edits of the target group.

    Several gaps at once, and soft decisions, are always closed at the least cost.

    >>> from fairmend.datasets import example_one
    >>> from fairmend.repair.settings import RepairSettings
    >>> settings = RepairSettings(disparity="fpr", rank="cost")
    >>> plan = least_change(RepairProblem.read(example_one().tabulated(), settings))
    >>> plan.status.name, round(plan.outlook.gap_before, 4), abs(plan.outlook.gap_after) < 1e-12
    ('CLOSED', 0.2514, True)
    """
    problem.refuse_other_than_decisions()
    # a rate over decisions falls by turning some of either kind: the cheapest way is a program
    cheapest_both_ways = problem.rank == "cost" and problem.gaps[0].over_decisions
    with one_thread():
        if problem.is_soft:
            return move_softly(problem)
        if len(problem.gaps) > 1 or cheapest_both_ways:
            return close_jointly(problem)
        return Turning.read(problem).plan(problem)


# -------------------------------------------------------------------- who goes first


@stored("Ranking")
@dataclass(frozen=True, eq=False)
class Ranking:
    """A key for every row with the decision to be turned; the highest key goes first."""

    rank: Rank
    turned: Side
    """The decision that is turned, 0 or 1."""
    gap: RealisedGap
    outcome: RowProbabilities | None
    """None where the ranking is by score alone."""

    def agrees(self) -> bool:
        return self.rank == "score" or self.outcome is not None

    @property
    def sign(self) -> float:
        return 1.0 if self.turned == 0 else -1.0

    def keys(self, rows: Frame, answers: Answers, cost: FloatArray | None = None) -> FloatArray:
        """Two keys a row, the second for those whose first is the same.

        Ranked by cost the first is the gain for the cost of the edit, -inf where there is none;
        the second then puts those nearest the cut first.
        """
        if self.rank == "score":
            assert answers.score is not None
            first = answers.score
            return self.sign * np.stack([first, np.zeros_like(first)], axis=1)
        assert self.outcome is not None
        outcome = self.outcome.of(rows)
        second = outcome if answers.score is None else answers.score
        if self.rank == "outcome":
            return self.sign * np.stack([outcome, second], axis=1)
        assert cost is not None
        gain = -self.sign * self.gap.slope(outcome)
        worth = np.where(gain > 0, gain, -np.inf) / np.maximum(cost, 1e-12)
        worth = np.where(np.isfinite(cost), worth, -np.inf)
        return np.stack([worth, self.sign * second], axis=1)


@stored("Cut")
@dataclass(frozen=True)
class Cut:
    """Where a ranking is cut off."""

    first: Key
    second: Key
    chance: Chance
    """Of those whose keys are just these."""
    enough: bool = True
    """Whether that closes the gap; if not, it is the most that helps."""

    def chances(self, keys: FloatArray) -> FloatArray:
        """The chance of each pair of keys to pass: 1 above the cut, 0 below."""
        first = _compared(keys[:, 0], self.first)
        side = np.where(first == 0, _compared(keys[:, 1], self.second), first)
        return np.where(side == 0, self.chance, side > 0).astype(np.float64)


NOBODY = Cut(np.inf, np.inf, 0.0)
"""The cut that nobody passes."""


def _compared(keys: FloatArray, to: float) -> FloatArray:
    """-1, 0 or 1 for keys below, at or above a value."""
    if not np.isfinite(to):
        return np.where(keys == to, 0.0, -np.sign(to))
    slack = SAME_KEY * max(1.0, abs(to))
    return np.where(keys > to + slack, 1.0, np.where(keys < to - slack, -1.0, 0.0))


def calibrate(keys: FloatArray, gain: FloatArray, need: float) -> Cut:
    """Cut the ranking where the gains of those above add up to what is needed.

    Where they never do, the cut is where they add up to most.

    >>> keys = np.array([[3.0, 0.0], [2.0, 0.0], [1.0, 0.0]])
    >>> calibrate(keys, np.array([1.0, 1.0, 1.0]), 1.5)
    Cut(first=2.0, second=0.0, chance=0.5, enough=True)
    """
    if need <= 0:
        return NOBODY
    steps = _Steps.of(keys)
    total = steps.sums(gain)
    passing = np.flatnonzero(total >= need)
    if len(passing) == 0:
        return steps.cut(int(np.argmax(total)), 1.0, enough=False)
    k = int(passing[0])
    return steps.cut(k, (need - total[k - 1]) / (total[k] - total[k - 1]))


@dataclass(frozen=True, eq=False)
class Flipping:
    """What flipping rows' decisions does to a rate over decisions, as fdr is."""

    need: float
    """The excess to take off."""
    gain: FloatArray
    """What flipping each row takes off the excess."""
    over: float
    """The weight of the people the rate is over now."""
    change: FloatArray
    """What flipping each row adds to them."""

    def left(self, steps: _Steps, fewest: float) -> FloatArray:
        """What is left of the gap at each step; nan where the rate is over fewer than that."""
        over = self.over + steps.sums(self.change)
        enough = over >= fewest
        left = (self.need - steps.sums(self.gain)) / np.where(enough, over, 1.0)
        return np.where(enough, left, np.nan)


def calibrate_over_decisions(
    keys: FloatArray, observed: Flipping, expected: Flipping, fewest: float
) -> tuple[Cut, float]:
    """Cut the ranking where a rate over decisions meets its aim, and what is left of the gap.

    Flipping a decision helps with some people and harms with others, so that what is left goes up
    and down on the way and may be 0 at several places. Most are luck: of these the one nearest to
    where expected outcomes would put it is taken. Where there is none, the cut is where least is
    left on either side of 0; that may be where nobody is flipped.
    """
    if observed.need <= 0:
        return NOBODY, 0.0
    steps = _Steps.of(keys)
    left, modelled = (one.left(steps, fewest) for one in (observed, expected))
    side = np.sign(left)
    crossings = np.flatnonzero(side[1:] * side[:-1] <= 0) + 1  # nan is no crossing
    if len(crossings) > 0:
        closing = np.flatnonzero(modelled <= 0)
        size = np.nan_to_num(np.abs(modelled), nan=np.inf)
        wanted = int(closing[0]) if len(closing) > 0 else int(np.argmin(size))
        k = int(crossings[np.argmin(np.abs(crossings - wanted))])
        total = steps.sums(observed.gain)
        gained = float(total[k] - total[k - 1])
        chance = (observed.need - float(total[k - 1])) / gained if gained != 0 else 1.0
        return steps.cut(k, chance), 0.0
    k = int(np.argmin(np.nan_to_num(np.abs(left), nan=np.inf)))
    return steps.cut(k, 1.0, enough=False), float(abs(left[k]))


@dataclass(frozen=True, eq=False)
class _Steps:
    """A ranking from the highest key down, people of the same keys together; step 0 is nobody."""

    keys: FloatArray
    at: IntArray
    """Rows in that order; those that are never taken are left out."""
    ends: IntArray
    """The last of each step in ``at``."""

    @classmethod
    def of(cls, keys: FloatArray) -> _Steps:
        kept = np.flatnonzero(keys[:, 0] > -np.inf)
        alike = _numbered(keys[kept, 0])
        order = np.lexsort((-keys[kept, 1], alike))
        at, alike = kept[order], alike[order]
        step = (np.diff(alike) > 0) | (np.diff(_numbered(keys[at, 1])) != 0)
        return cls(keys, at, np.flatnonzero(np.r_[step, True][: len(at)]))

    def sums(self, values: FloatArray) -> FloatArray:
        """The sum over everybody up to each step."""
        return np.concatenate([np.zeros(1), np.cumsum(values[self.at])[self.ends]])

    def cut(self, step: int, chance: float, *, enough: bool = True) -> Cut:
        """Everybody before a step passes, and those of it with a chance."""
        if step == 0:
            return replace(NOBODY, enough=enough)
        first, second = self.keys[self.at[self.ends[step - 1]]]
        return Cut(float(first), float(second), float(chance), enough)


def _numbered(keys: FloatArray) -> NDArray[np.int64]:
    """Ranks from the highest down; keys that are one have the same."""
    order = np.argsort(-keys, kind="stable")
    fall = -np.diff(keys[order])
    rank = np.empty(len(keys), np.int64)
    rank[order] = np.r_[0, np.cumsum(fall > SAME_KEY * np.maximum(1.0, np.abs(keys[order][1:])))][
        : len(keys)
    ]
    return rank


# -------------------------------------------------------------------- how many


@stored("FlipPlan")
@dataclass(frozen=True, eq=False)
class FlipPlan(Plan):
    """Move people whose key passes a cut to the nearest row with the other decision."""

    ranking: Ranking
    cut: Cut
    donors: Donors

    def agrees(self) -> bool:
        turned = self.donors.answers.decision[0] == 1 - self.ranking.turned
        return bool(turned) and super().agrees()

    def may_take(self, decision: float) -> bool:
        return self.ranking.turned == decision

    @property
    def search(self) -> str:
        return self.donors.words

    @property
    def order(self) -> str:
        outcome = "negative" if self.ranking.turned else "positive"
        return {
            "score": "those nearest to the model's cut first",
            "outcome": f"those most likely to have a {outcome} outcome first",
            "cost": "those first for whom an edit does most for its cost",
        }[self.ranking.rank]

    def route(self, rows: Frame, answers: Answers) -> Route:
        """One rule for rows seen and unseen: turn decisions from the highest key down."""
        eligible = np.flatnonzero(answers.decision == self.ranking.turned)
        if len(eligible) == 0:
            return Route.stay(len(rows))
        asked = rows.take(eligible)
        there = self.donors.nearest(asked) if self.ranking.rank == "cost" else None
        cost = None if there is None else there.cost
        keys = self.ranking.keys(asked, answers.take(eligible), cost)
        chance = self.cut.chances(keys)
        if there is not None:  # ranked by cost, those without an edit have no key
            chance[~there.reached] = 1.0
        moving = np.flatnonzero(chance > 0)
        if len(moving) == 0:
            return Route.stay(len(rows))
        there = self.donors.nearest(asked.take(moving)) if there is None else there.take(moving)
        return Route.flips(len(rows), eligible[moving], chance[moving], there)

    def decisions(self, rows: Frame, answers: Answers) -> Route:
        """Ranked by anything but cost, whoever has an edit need not find the cheapest."""
        if self.ranking.rank == "cost":
            return self.route(rows, answers)
        eligible = np.flatnonzero(answers.decision == self.ranking.turned)
        keys = self.ranking.keys(rows.take(eligible), answers.take(eligible))
        chance = self.cut.chances(keys)
        at, chance = eligible[chance > 0], chance[chance > 0]
        reached = self.donors.reach(rows.take(at)) if len(at) > 0 else np.empty(0, bool)
        return Route.decided(len(rows), at, chance, answers.decision[at], reached)


@dataclass(frozen=True, eq=False)
class Turning:
    """People of a group whose decisions can be turned, in the order of the ranking."""

    ranking: Ranking
    donors: Donors
    eligible: IntArray
    """Rows of the group with the decision to be turned."""
    keys: FloatArray
    reached: BoolArray | None
    """Which of them have an allowed edit; None where that is found out as far as needed."""

    @classmethod
    def read(cls, problem: RepairProblem, turned: float | None = None) -> Turning:
        """The decisions of one kind; by default those whose flipping closes the gap best."""
        if turned is None:
            turnings = [cls.read(problem, kind) for kind in turned_decisions(problem)]
            if len(turnings) == 1:
                return turnings[0]
            return min(turnings, key=lambda one: one._cut(problem)[1])
        donors, rank = RememberingDonors.of(problem.donors(1.0 - turned)), problem.rank
        outcome = None if rank == "score" else problem.outcome()
        return cls.of(problem, Ranking(rank, turned, problem.gaps[0], outcome), donors)

    @classmethod
    def of(cls, problem: RepairProblem, ranking: Ranking, donors: Donors) -> Turning:
        """The people of a ranking, with what it needs to know of them."""
        eligible = np.flatnonzero(problem.source.decision == ranking.turned)
        rows, answers = problem.table.take(eligible), problem.source.answers.take(eligible)
        cost = donors.nearest(rows).cost if ranking.rank == "cost" else None
        keys, reached = ranking.keys(rows, answers, cost), None
        if cost is not None:
            reached = np.isfinite(cost)
        elif problem.gaps[0].over_decisions:  # any cut may be the closest
            reached = donors.reach(rows)
        return cls(ranking, donors, eligible, keys, reached)

    def chances(self, problem: RepairProblem) -> tuple[Cut, FloatArray]:
        """Where the gap is closed, and each eligible row's chance of being flipped."""
        cut, _, reached = self._cut(problem)
        return cut, cut.chances(self.keys) * reached

    def plan(self, problem: RepairProblem) -> Plan:
        """The plan that closes the gap."""
        cut = self._cut(problem)[0]
        status = problem.done if cut.enough else PlanStatus.UNREACHABLE
        plan = FlipPlan(**problem.common(status), ranking=self.ranking, cut=cut, donors=self.donors)
        route = plan.route(problem.table, problem.source.answers)
        return problem.finished(replace(plan, donors=forgetting(self.donors)), route=route)

    def _cut(self, problem: RepairProblem) -> tuple[Cut, float, BoolArray]:
        """The cut, what it leaves of a rate over decisions, and who has an edit."""
        reached = self.reached
        if reached is None:
            rows = problem.table.take(self.eligible)
            gain = _gain(problem, self.ranking.turned, self.eligible)
            reached = _reached(needed(problem), self.donors, rows, keys=self.keys, gain=gain)
        cut, left = find_cut(problem, self.ranking.turned, self.eligible, self.keys, reached)
        if not cut.enough and not problem.gaps[0].over_decisions:  # everybody is wanted
            cut = Cut(-np.inf, -np.inf, 0.0, enough=False)
        return cut, left, reached


def turned_decisions(problem: RepairProblem) -> list[float]:
    """The decisions that may be flipped to close the gap.

    Of a rate over fixed people the one whose flipping takes most of the excess away; a rate over
    decisions may fall by either, the more promising first.
    """
    gap, decision = problem.gaps[0], problem.source.decision
    slope = gap.row_slope()
    kinds = [float(np.argmax([-slope[decision == 0].sum(), slope[decision == 1].sum()]))]
    if not gap.over_decisions:
        return kinds
    other = 1.0 - kinds[0]
    if (decision == other).any() and (decision == kinds[0]).any():
        kinds.append(other)
    return [kind for kind in kinds if kind != problem.protected] or kinds[:1]


def _gain(problem: RepairProblem, turned: float, eligible: IntArray) -> FloatArray:
    """What flipping each eligible row takes off the excess, as its people turned out."""
    slope = problem.gaps[0].row_slope()[eligible]
    return slope if turned == 1 else -slope


def find_cut(
    problem: RepairProblem,
    turned: float,
    eligible: IntArray,
    keys: FloatArray,
    reached: BoolArray,
) -> tuple[Cut, float]:
    """The cut of a ranking that closes the gap, and what it leaves of a rate over decisions.

    ``eligible`` are the group's rows with the decision ``turned``, and ``reached`` says which of
    them have an allowed edit.
    """
    gap, decision = problem.gaps[0], problem.source.decision
    gain = np.where(reached, _gain(problem, turned, eligible), 0.0)
    if not gap.over_decisions:
        return calibrate(keys, gain, needed(problem)), 0.0
    need, over, sign = gap.excess(decision), gap.over(decision), 1 - 2 * turned
    change = np.where(reached, sign * gap.row_over_slope()[eligible], 0.0)
    weight = sign * np.where(reached, gap.weight[eligible].sum(axis=1), 0.0)
    outcome = problem.outcome(pooled=False).of(problem.table.take(eligible))
    return calibrate_over_decisions(
        keys,
        Flipping(need, gain, over, change),
        Flipping(need, -weight * gap.slope(outcome), over, weight * gap.over_slope(outcome)),
        problem.fewest(gap),
    )


def needed(problem: RepairProblem) -> float:
    """The excess to take off, less a correction for small samples.

    Of n people under the rate, all with different keys, let the cut be at the k-th from the top,
    who passes with some chance. A new person stays behind with chance (n + 1 - k) / (n + 1), where
    the audit counts (n + 1 - k - chance) / n. On average over that chance the two agree if the
    audit's rate is to be c + (c - 1/2) / n where c is wanted: the rank c (n + 1), not c n. Where
    people share keys there is nothing to correct; rows and people are counted to tell.
    """
    gap, source = problem.gaps[0], problem.source
    excess = gap.excess(source.decision)
    if source.tally is None or gap.over_decisions:
        return excess
    a_person, alone = float(source.tally.weight.sum()) / source.n, len(source) / source.n
    return excess - (gap.rate + gap.aim - 0.5) * a_person * alone


def _reached(
    need: float, donors: Donors, rows: Frame, *, keys: FloatArray, gain: FloatArray
) -> BoolArray:
    """Which rows have an allowed edit, from the highest key down until their gain suffices.

    False too where that was not asked any more.
    """
    if not donors.cost.has_rules and donors.box is not None:
        return np.ones(len(keys), bool)
    reached = np.zeros(len(keys), bool)
    order = np.lexsort((-keys[:, 1], -keys[:, 0]))
    start = 0
    while start < len(order):
        # as many as would do if all of them had an edit
        total = np.cumsum(gain[order[start:]])
        enough = np.flatnonzero(total >= need - (gain * reached).sum())
        count = int(enough[0]) + 1 if len(enough) > 0 else len(total)
        stop = min(start + max(_FEWEST, count), len(order))
        last = keys[order[stop - 1], 0] - SAME_KEY
        stop += int(np.count_nonzero(keys[order[stop:], 0] >= last))  # ties are one
        at = order[start:stop]
        reached[at] = donors.nearest(rows.take(at)).reached
        start = stop
        if (gain * reached).sum() >= need:
            break
    return reached
