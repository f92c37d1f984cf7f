"""Repairs that change least: whose inputs to edit, and into what.

With hard decisions an edit either turns a decision or does nothing, so the cheapest repair moves
the right number of people each to the nearest row with the other decision. Who goes first is a
ranking; how many is calibrated on the gap people really experience (see `realised`), and the rule
that results applies to rows never seen before as it does to those of the audit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmend.columns import FloatArray, Frame, IntArray
from fairmend.data import AuditData
from fairmend.destinations import Donors
from fairmend.joint import close_jointly
from fairmend.model import Answers
from fairmend.plan import Outlook, Plan, PlanStatus, Route
from fairmend.realised import RealisedGap
from fairmend.soft import move_softly
from fairmend.task import KnownOutcome, Rank, RepairTask

__all__ = ["Cut", "FlipPlan", "Ranking", "Turning", "calibrate", "least_change"]

SAME_KEY = 1e-11
"""Keys this close are one: a model's answer may differ in its last bits from batch to batch."""
_BATCH = 512


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


@dataclass(frozen=True, eq=False)
class Ranking:
    """A key for every row with the decision to be turned; the highest key goes first."""

    rank: Rank
    turned: float
    """The decision that is turned, 0 or 1."""
    gap: RealisedGap
    outcome: KnownOutcome | None
    """None where the ranking is by score alone."""

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


@dataclass(frozen=True)
class Cut:
    """Where a ranking is cut off."""

    first: float
    second: float
    chance: float
    """Of those whose keys are just these."""
    enough: bool = True
    """Whether that closes the gap; if not, it is the most that helps."""

    def chances(self, keys: FloatArray) -> FloatArray:
        """The chance of each pair of keys to pass: 1 above the cut, 0 below."""
        first = _compared(keys[:, 0], self.first)
        side = np.where(first == 0, _compared(keys[:, 1], self.second), first)
        return np.where(side == 0, self.chance, side > 0).astype(np.float64)


def _compared(keys: FloatArray, to: float) -> FloatArray:
    """-1, 0 or 1 for keys below, at or above a value."""
    if not np.isfinite(to):
        return np.where(keys == to, 0.0, -np.sign(to))
    slack = SAME_KEY * max(1.0, abs(to))
    return np.where(keys > to + slack, 1.0, np.where(keys < to - slack, -1.0, 0.0))


@dataclass(frozen=True, eq=False)
class Over:
    """How many people a rate is over, where turning decisions changes that."""

    now: float
    change: FloatArray
    """By turning each row's decision."""
    least: float
    """A rate over fewer is not known."""


def calibrate(keys: FloatArray, gain: FloatArray, need: float, over: Over | None = None) -> Cut:
    """Cut the ranking where the gains of those above add up to what is needed.

    Where they never do, the cut is where they add up to most, or for a rate over decisions where
    it is lowest.

    >>> keys = np.array([[3.0, 0.0], [2.0, 0.0], [1.0, 0.0]])
    >>> calibrate(keys, np.array([1.0, 1.0, 1.0]), 1.5)
    Cut(first=2.0, second=0.0, chance=0.5, enough=True)
    """
    if need <= 0:
        return Cut(np.inf, np.inf, 0.0)
    kept = np.flatnonzero(keys[:, 0] > -np.inf)
    alike = _numbered(keys[kept, 0])
    order = np.lexsort((-keys[kept, 1], alike))
    at, alike = kept[order], alike[order]
    step = (np.diff(alike) > 0) | (np.diff(_numbered(keys[at, 1])) != 0)
    ends = np.flatnonzero(np.r_[step, True][: len(at)])
    total = np.cumsum(gain[at])[ends]
    left = np.full(len(ends), 1.0) if over is None else over.now + np.cumsum(over.change[at])[ends]
    known = left >= (0.0 if over is None else over.least)
    passing = np.flatnonzero((total >= need) & known)
    if len(passing) > 0:
        k, enough = int(passing[0]), True
        before = float(total[k - 1]) if k > 0 else 0.0
        chance = (need - before) / float(total[k] - before)
    else:
        now = 1.0 if over is None else over.now
        remains = np.r_[
            need / now, np.where(known, (need - total) / np.maximum(left, 1e-300), np.inf)
        ]
        k, chance, enough = int(np.argmin(remains)) - 1, 1.0, False
    if k < 0:
        return Cut(np.inf, np.inf, 0.0, enough=False)
    return Cut(float(keys[at[ends[k]], 0]), float(keys[at[ends[k]], 1]), chance, enough)


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


@dataclass(frozen=True, eq=False)
class FlipPlan(Plan):
    """Move people whose key passes a cut to the nearest row with the other decision."""

    ranking: Ranking
    cut: Cut
    donors: Donors

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
    def read(cls, task: RepairTask) -> Turning:
        source, turned = task.source, turned_decision(task)
        donors = task.donors(1.0 - turned)
        ranking = Ranking(
            task.rank, turned, task.gaps[0], None if task.rank == "score" else task.outcome()
        )
        eligible = np.flatnonzero(source.decision == turned)
        rows, answers = task.table.take(eligible), source.answers.take(eligible)
        if task.rank == "cost":
            cost = donors.nearest(rows).cost
            return cls(
                ranking, donors, eligible, ranking.keys(rows, answers, cost), np.isfinite(cost)
            )
        return cls(ranking, donors, eligible, ranking.keys(rows, answers), None)

    def chances(self, task: RepairTask) -> tuple[Cut, FloatArray]:
        """Where the task's gap is closed, and each eligible row's chance of being turned."""
        turned, need = self.ranking.turned, needed(task)
        gain, reached = gains(task, turned)[self.eligible], self.reached
        if reached is None:
            rows = task.table.take(self.eligible)
            reached = _reached(task, self.donors, rows, keys=self.keys, gain=gain, need=need)
        over = over_decisions(task, turned, self.eligible)
        cut = calibrate(self.keys, np.where(reached, gain, 0.0), need, over)
        if not cut.enough and over is None:  # everybody is wanted, of new people too
            cut = Cut(-np.inf, -np.inf, 0.0, enough=False)
        return cut, cut.chances(self.keys) * reached

    def plan(self, task: RepairTask) -> Plan:
        """The plan that closes the task's gap."""
        cut, _ = self.chances(task)
        plan = FlipPlan(
            **task.common(task.done, Outlook()), ranking=self.ranking, cut=cut, donors=self.donors
        )
        return task.finished(plan, task.done if cut.enough else PlanStatus.UNREACHABLE)


def turned_decision(task: RepairTask) -> float:
    """The decision whose turning takes most of the excess away."""
    slope, decision = task.gaps[0].row_slope(), task.source.decision
    return float(np.argmax([-slope[decision == 0].sum(), slope[decision == 1].sum()]))


def gains(task: RepairTask, turned: float) -> FloatArray:
    """What turning a row's decisions takes off the excess, over its people.

    As they turned out, where every turned decision helps or does nothing. Where some help and some
    harm (rates over decisions, as fdr), the running sum would stop at the first lucky streak: there
    the expected outcome stands in for the observed one.
    """
    gap, sign = task.gaps[0], 1.0 if turned == 0 else -1.0
    if not gap.over_decisions:
        return -sign * gap.row_slope()
    expected = task.outcome(pooled=False).of(task.table)
    return np.asarray(-sign * gap.weight.sum(axis=1) * gap.slope(expected), np.float64)


def over_decisions(task: RepairTask, turned: float, rows: IntArray) -> Over | None:
    """Whom the rate is over, where that changes: enough of them must be left to speak of a rate."""
    gap, source = task.gaps[0], task.source
    if not gap.over_decisions:
        return None
    expected = task.outcome(pooled=False).of(task.table.take(rows))
    change = gap.weight[rows].sum(axis=1) * gap.over_slope(expected)
    return Over(gap.over(source.decision), change if turned == 0 else -change, task.fewest(gap))


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


def _reached(
    task: RepairTask,
    donors: Donors,
    rows: Frame,
    *,
    keys: FloatArray,
    gain: FloatArray,
    need: float,
) -> NDArray[np.bool_]:
    """Which rows have an allowed edit, found out from the highest key down until it suffices."""
    if not donors.cost.has_rules and task.box is not None:
        return np.ones(len(keys), bool)
    reached = np.zeros(len(keys), bool)
    order = np.lexsort((-keys[:, 1], -keys[:, 0]))
    for start in range(0, len(order), _BATCH):
        at = order[start : start + _BATCH]
        reached[at] = donors.reach(rows.take(at))
        following = order[start + _BATCH : start + _BATCH + 1]
        clear = len(following) == 0 or keys[following[0], 0] < keys[at[-1], 0] - SAME_KEY
        if clear and (gain * reached).sum() >= need:
            break
    return reached
