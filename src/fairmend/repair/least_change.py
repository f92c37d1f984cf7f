"""Repairs that change least: whose inputs to edit, and into what.

With hard decisions an edit either turns a decision or does nothing, so the cheapest repair moves
the right number of people each to the nearest row with the other decision. Who goes first is a
ranking; how many is calibrated on the gap people really experience (see `realised`), and the rule
that results applies to rows never seen before as it does to those of the audit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fairmend.data.columns import FloatArray, Frame, IntArray
from fairmend.data.limits import Between, Chance, Side
from fairmend.data.stored import stored
from fairmend.measure.population import AuditData
from fairmend.measure.realised import RealisedGap
from fairmend.model.answers import Answers
from fairmend.repair.destinations import Destinations, Donors, join
from fairmend.repair.joint import close_jointly
from fairmend.repair.methods import repair_method
from fairmend.repair.plan import Outlook, Plan, Route
from fairmend.repair.problem import KnownOutcome, Rank, RepairTask
from fairmend.repair.soft import move_softly
from fairmend.status import PlanStatus

__all__ = ["Calibration", "Cut", "FlipPlan", "Ranking", "Turning", "calibrate", "least_change"]

Key: TypeAlias = Annotated[float, Between(-np.inf, np.inf)]
"""By which people are ranked; beyond all others where it is infinite, but never nan."""
SAME_KEY = 1e-11
"""Keys this close are one: a model's answer may differ in its last bits from batch to batch."""
_FEWEST = 64
"""Rows that are looked at together where few more are needed."""


@repair_method("least_change", help="the fewest, nearest edits that close the gap")
def least_change(data: AuditData, **settings: Any) -> Plan:
    """The plan that closes the realised gap by the fewest, nearest edits of the target group.

    The settings:

    disparity
        What to close: a name, a `Disparity`, or several to be closed together.
    box
        The model, to verify edits that nobody in the data has; None where only its recorded
        predictions exist, and people then move to rows that were seen.
    target, baseline
        The group to repair and the one to compare it with; by default worst-off and best-off.
    level
        How much of the gap to close, from 0 to 1.
    cost
        What edits cost and which are forbidden, a `Cost`.
    rank
        Who goes first: ``"score"`` (nearest the model's cut; the default where it gives scores),
        ``"outcome"`` (by P(Y=1 | x), or where outcomes are not known by that of a positive
        decision; the default for labels only) or ``"cost"`` (most gain for
        the cost: the cheapest repair overall). Several gaps at once, and soft decisions, are
        always closed at the least cost.
    outcome_model
        How to estimate P(Y=1 | x), as in `fairmend.counterfactual`.
    random_state
        Seeds the folds of its cross-fitting.
    require_significant
        Refuse to repair a gap that may be chance, instead of warning.

    >>> from fairmend.datasets import example_one
    >>> plan = least_change(example_one().tabulated(), disparity="fpr", rank="cost")
    >>> plan.status.name, round(plan.outlook.gap_before, 4), abs(plan.outlook.gap_after) < 1e-12
    ('CLOSED', 0.2514, True)
    """
    task = RepairTask.read(data, method="least_change", **settings)
    task.refuse_alignment_of_inputs()
    if task.nothing_to_close:
        return task.identity()
    task.warn_if_not_significant()
    if task.is_soft:
        return move_softly(task)
    # a rate over decisions falls by turning some of either kind: the cheapest way is a program
    cheapest_both_ways = task.rank == "cost" and task.gaps[0].over_decisions
    if len(task.gaps) > 1 or cheapest_both_ways:
        return close_jointly(task)
    return Turning.read(task).plan(task)


# -------------------------------------------------------------------- who goes first


@stored("Ranking")
@dataclass(frozen=True, eq=False)
class Ranking:
    """A key for every row with the decision to be turned; the highest key goes first."""

    rank: Rank
    turned: Side
    """The decision that is turned, 0 or 1."""
    gap: RealisedGap
    outcome: KnownOutcome | None
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
        known = over >= fewest
        left = (self.need - steps.sums(self.gain)) / np.where(known, over, 1.0)
        return np.where(known, left, np.nan)


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

    @property
    def search(self) -> str:
        return self.donors.words

    def route(self, rows: Frame, answers: Answers) -> Route:
        """One rule for rows seen and unseen: turn decisions from the highest key down."""
        eligible = np.flatnonzero(answers.decision == self.ranking.turned)
        if len(eligible) == 0:
            return Route.stay(len(rows))
        asked, said = rows.take(eligible), answers.take(eligible)
        found = self.donors.nearest(asked) if self.ranking.rank == "cost" else None
        keys = self.ranking.keys(asked, said, None if found is None else found.cost)
        chance = self.cut.chances(keys)
        if found is not None:  # ranked by cost, those without an edit have no key
            chance[~found.reached] = 1.0
        moving = np.flatnonzero(chance > 0)
        if len(moving) == 0:
            return Route.stay(len(rows))
        found = self.donors.nearest(asked.take(moving)) if found is None else found.take(moving)
        return Route.flips(len(rows), eligible[moving], chance[moving], found)

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
    reached: NDArray[np.bool_] | None
    """Which of them have an allowed edit; None where that is found out as far as needed."""

    @classmethod
    def read(cls, task: RepairTask, turned: float | None = None) -> Turning:
        """The decisions of one kind; by default those whose flipping closes the gap best."""
        if turned is None:
            kinds = turned_decisions(task)
            if len(kinds) > 1:
                return min((cls.read(task, kind) for kind in kinds), key=lambda one: one.left(task))
            turned = kinds[0]
        source = task.source
        donors = task.donors(1.0 - turned)
        ranking = Ranking(
            task.rank, turned, task.gaps[0], None if task.rank == "score" else task.outcome()
        )
        eligible = np.flatnonzero(source.decision == turned)
        rows, answers = task.table.take(eligible), source.answers.take(eligible)
        cost = donors.nearest(rows).cost if task.rank == "cost" else None
        keys, reached = ranking.keys(rows, answers, cost), None
        if cost is not None:
            reached = np.isfinite(cost)
        elif task.gaps[0].over_decisions:  # any cut may be the closest: all of them are asked for
            reached = donors.reach(rows)
        return cls(ranking, donors, eligible, keys, reached)

    def chances(self, task: RepairTask) -> tuple[Cut, FloatArray]:
        """Where the task's gap is closed, and each eligible row's chance of being turned."""
        cut, reach = self._cut(task)
        return cut, cut.chances(self.keys) * reach.reached

    def _cut(self, task: RepairTask) -> tuple[Cut, _Reach]:
        calibration = Calibration(task, self.ranking.turned, self.eligible, self.keys)
        reach = self._reach(task, calibration)
        cut, _ = calibration.cut(reach.reached)
        if not cut.enough and not task.gaps[0].over_decisions:  # everybody is wanted
            cut = Cut(-np.inf, -np.inf, 0.0, enough=False)
        return cut, reach

    def left(self, task: RepairTask) -> float:
        """What would be left of the gap."""
        calibration = Calibration(task, self.ranking.turned, self.eligible, self.keys)
        return calibration.cut(self._reach(task, calibration).reached)[1]

    def _reach(self, task: RepairTask, calibration: Calibration) -> _Reach:
        if self.reached is not None:
            return _Reach(self.reached)
        rows, gain = task.table.take(self.eligible), calibration.gain
        return _Reach.until(needed(task), self.donors, rows, keys=self.keys, gain=gain)

    def plan(self, task: RepairTask) -> Plan:
        """The plan that closes the task's gap."""
        cut, reach = self._cut(task)
        plan = FlipPlan(
            **task.common(task.done, Outlook()), ranking=self.ranking, cut=cut, donors=self.donors
        )
        status = task.done if cut.enough else PlanStatus.UNREACHABLE
        route = reach.route(len(task.table), self.eligible, cut.chances(self.keys))
        return task.finished(plan, status, route=route)


def turned_decisions(task: RepairTask) -> list[float]:
    """The decisions that may be flipped to close the gap.

    Of a rate over fixed people the one whose flipping takes most of the excess away; a rate over
    decisions may fall by either, the more promising first.
    """
    gap, decision = task.gaps[0], task.source.decision
    slope = gap.row_slope()
    kinds = [float(np.argmax([-slope[decision == 0].sum(), slope[decision == 1].sum()]))]
    if not gap.over_decisions:
        return kinds
    other = 1.0 - kinds[0]
    if (decision == other).any() and (decision == kinds[0]).any():
        kinds.append(other)
    return [kind for kind in kinds if kind != task.protected] or kinds[:1]


@dataclass(frozen=True, eq=False)
class Calibration:
    """Finds the cut of a ranking that closes the gap of a task."""

    task: RepairTask
    turned: float
    """The decision that is flipped."""
    eligible: IntArray
    """Rows of the group with that decision."""
    keys: FloatArray
    """Of these."""

    @property
    def gain(self) -> FloatArray:
        """What flipping each eligible row takes off the excess, as its people turned out."""
        return -self._sign * self.task.gaps[0].row_slope()[self.eligible]

    @property
    def _sign(self) -> float:
        return 1.0 if self.turned == 0 else -1.0

    def cut(self, reached: NDArray[np.bool_]) -> tuple[Cut, float]:
        """Where the ranking is cut, and what that leaves of a rate over decisions."""
        task, gap, at, sign = self.task, self.task.gaps[0], self.eligible, self._sign
        if not gap.over_decisions:
            return calibrate(self.keys, np.where(reached, self.gain, 0.0), needed(task)), 0.0
        need, over = gap.excess(task.source.decision), gap.over(task.source.decision)
        weight = np.where(reached, gap.weight[at].sum(axis=1), 0.0)
        expected = task.outcome(pooled=False).of(task.table.take(at))
        return calibrate_over_decisions(
            self.keys,
            Flipping(
                need,
                np.where(reached, self.gain, 0.0),
                over,
                np.where(reached, sign * gap.row_over_slope()[at], 0.0),
            ),
            Flipping(
                need,
                -sign * weight * gap.slope(expected),
                over,
                sign * weight * gap.over_slope(expected),
            ),
            task.fewest(gap),
        )


def needed(task: RepairTask) -> float:
    """The excess to take off, less a correction for small samples.

    Of n people under the rate, all with different keys, let the cut be at the k-th from the top,
    who passes with some chance. A new person stays behind with chance (n + 1 - k) / (n + 1), where
    the audit counts (n + 1 - k - chance) / n. On average over that chance the two agree if the
    audit's rate is to be c + (c - 1/2) / n where c is wanted: the rank c (n + 1), not c n. Where
    people share keys there is nothing to correct; rows and people are counted to tell.
    """
    gap, source = task.gaps[0], task.source
    excess = gap.excess(source.decision)
    if source.tally is None or gap.over_decisions:
        return excess
    a_person, alone = float(source.tally.weight.sum()) / source.n, len(source) / source.n
    return excess - (gap.rate + gap.aim - 0.5) * a_person * alone


@dataclass(frozen=True, eq=False)
class _Reach:
    """Which rows have an allowed edit, and the edits that were found on the way."""

    reached: NDArray[np.bool_]
    """False too where nobody asked."""
    asked: IntArray | None = None
    found: Destinations | None = None
    """Of the rows asked about."""

    @classmethod
    def until(
        cls, need: float, donors: Donors, rows: Frame, *, keys: FloatArray, gain: FloatArray
    ) -> _Reach:
        """Found out from the highest key down until the gain suffices."""
        if not donors.cost.has_rules and donors.box is not None:
            return cls(np.ones(len(keys), bool))
        reached = np.zeros(len(keys), bool)
        order = np.lexsort((-keys[:, 1], -keys[:, 0]))
        parts: list[Destinations] = []
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
            parts.append(donors.nearest(rows.take(at)))
            reached[at] = parts[-1].reached
            start = stop
            if (gain * reached).sum() >= need:
                break
        return cls(reached, order[:start], join(parts) if parts else None)

    def route(self, n: int, eligible: IntArray, chance: FloatArray) -> Route | None:
        """The law of eligible rows among n with these chances; None where not all were asked."""
        moving = np.flatnonzero(chance > 0)
        if self.found is None or self.asked is None:
            return None
        place = np.full(len(chance), -1)
        place[self.asked] = np.arange(len(self.asked))
        if (place[moving] < 0).any():
            return None
        return Route.flips(n, eligible[moving], chance[moving], self.found.take(place[moving]))
