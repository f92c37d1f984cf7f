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

from fairmend.columns import FloatArray, Frame
from fairmend.data import AuditData
from fairmend.destinations import Donors
from fairmend.joint import close_jointly
from fairmend.model import Answers
from fairmend.plan import Outlook, Plan, PlanStatus, Route
from fairmend.realised import RealisedGap
from fairmend.soft import move_softly
from fairmend.task import KnownOutcome, Rank, RepairTask

__all__ = ["FlipPlan", "Ranking", "calibrate", "least_change"]

SAME_KEY = 1e-11
"""Keys this close are one: a model's answer may differ in its last bits from batch to batch."""
_TIE_BREAK = 1e-6
"""Among edits of the same gain for their cost, those nearest the cut go first, by this much."""
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
        ``"outcome"`` (by P(Y=1 | x); the default for labels only) or ``"cost"`` (most gain for
        the cost: the cheapest repair overall).
    outcome_model
        How to estimate P(Y=1 | x), as in `fairmend.counterfactual`.
    random_state
        Seeds the folds of its cross-fitting.

    >>> from fairmend.datasets import example_one
    >>> plan = least_change(example_one().tabulated(), disparity="fpr", rank="cost")
    >>> plan.status.name, round(plan.outlook.gap_before, 4), abs(plan.outlook.gap_after) < 1e-12
    ('CLOSED', 0.2514, True)
    """
    task = RepairTask.read(data, method="least_change", **settings)
    if task.nothing_to_close:
        return task.identity()
    task.warn_if_not_significant()
    if len(task.gaps) > 1:
        return close_jointly(task)
    return move_softly(task) if task.is_soft else _turn_decisions(task)


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
        """The keys of some rows; ranked by cost they need what their edit costs."""
        if self.rank == "score":
            assert answers.score is not None
            return self.sign * answers.score
        assert self.outcome is not None
        outcome = self.outcome.of(rows)
        if self.rank == "outcome":
            return self.sign * outcome
        assert cost is not None
        gain = -self.sign * self.gap.slope(outcome)
        worth = (gain > 0) & (cost > 0)
        value = np.divide(gain, cost, out=np.full(len(gain), -np.inf), where=worth)
        nearest_cut = outcome if answers.score is None else answers.score
        return np.asarray(value + _TIE_BREAK * self.sign * nearest_cut, np.float64)


@dataclass(frozen=True, eq=False)
class FlipPlan(Plan):
    """Move people whose key passes a threshold to the nearest row with the other decision."""

    ranking: Ranking
    threshold: float
    tie_probability: float
    """Of moving, for people whose key is the threshold itself."""
    donors: Donors

    def route(self, rows: Frame, answers: Answers) -> Route:
        """One rule for rows seen and unseen: turn decisions from the highest key down."""
        eligible = np.flatnonzero(answers.decision == self.ranking.turned)
        asked, said = rows.take(eligible), answers.take(eligible)
        if len(eligible) == 0:
            return Route.stay(len(rows))
        found = self.donors.nearest(asked) if self.ranking.rank == "cost" else None
        keys = self.ranking.keys(asked, said, None if found is None else found.cost)
        chance = self.chance(keys)
        moving = np.flatnonzero(chance > 0)
        if len(moving) == 0:
            return Route.stay(len(rows))
        found = self.donors.nearest(asked.take(moving)) if found is None else found.take(moving)
        reached = np.flatnonzero(found.reached)
        moving, found = moving[reached], found.take(reached)
        return Route.flips(len(rows), eligible[moving], chance[moving], found)

    def chance(self, keys: FloatArray) -> FloatArray:
        """The chance of being edited, by key."""
        at_least = np.where(keys >= self.threshold - SAME_KEY, self.tie_probability, 0.0)
        return np.where(keys > self.threshold + SAME_KEY, 1.0, at_least)


def _turn_decisions(task: RepairTask) -> Plan:
    gap, source = task.gaps[0], task.source
    turned = turned_decision(task)
    sign = 1.0 if turned == 0 else -1.0
    donors = task.donors(1.0 - turned)
    outcome = None if task.rank == "score" else task.outcome()
    ranking = Ranking(task.rank, turned, gap, outcome)
    eligible = np.flatnonzero(source.decision == turned)
    rows, answers = task.table.take(eligible), task.source.answers.take(eligible)
    gain = -sign * row_gains(task)[eligible]
    need = gap.excess(source.decision) - one_more_person(task)
    cost = donors.nearest(rows).cost if task.rank == "cost" else None
    keys = ranking.keys(rows, answers, cost)
    reached = (
        _reached(task, donors, rows, keys=keys, gain=gain, need=need)
        if cost is None
        else np.isfinite(cost)
    )
    threshold, chance, enough = calibrate(keys, np.where(reached, gain, 0.0), need)
    blocked = eligible[(keys > threshold) & ~reached]
    nothing = Outlook()
    plan = FlipPlan(
        **task.common(task.done, nothing),
        ranking=ranking,
        threshold=threshold,
        tie_probability=chance,
        donors=donors,
    )
    status = task.done if enough else PlanStatus.UNREACHABLE
    return task.finished(plan, status, float(source.mass[blocked].sum()))


def turned_decision(task: RepairTask) -> float:
    """The decision whose turning takes most of the excess away."""
    slope, decision = task.gaps[0].row_slope(), task.source.decision
    return float(np.argmax([-slope[decision == 0].sum(), slope[decision == 1].sum()]))


def row_gains(task: RepairTask) -> FloatArray:
    """What turning a row's decisions from 0 to 1 adds to the excess, over its people.

    As they turned out, where every turned decision helps or does nothing. Where some help and some
    harm (rates over decisions, as fdr), the running sum would stop at the first lucky streak: there
    the expected outcome stands in for the observed one.
    """
    gap = task.gaps[0]
    if gap.given > 0:
        return gap.row_slope()
    expected = task.outcome(pooled=False).of(task.table)
    return np.asarray(gap.weight.sum(axis=1) * gap.slope(expected), np.float64)


def one_more_person(task: RepairTask) -> float:
    """Count one more person under the rate: rank c (n+1), not c n.

    A threshold at an order statistic of n people is passed by a new person with chance k / (n+1),
    so aiming at c n of n would leave new data short by about c / n.
    """
    gap = task.gaps[0]
    if task.source.tally is None or gap.given <= 0:
        return 0.0
    return (gap.rate + gap.aim) * float(task.source.tally.weight.sum()) / task.source.n


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
    if not task.cost.has_rules:
        return np.ones(len(keys), bool)
    reached = np.zeros(len(keys), bool)
    order = np.argsort(-keys, kind="stable")
    for start in range(0, len(order), _BATCH):
        at = order[start : start + _BATCH]
        reached[at] = donors.nearest(rows.take(at)).reached
        following = order[start + _BATCH : start + _BATCH + 1]
        clear = len(following) == 0 or keys[following[0]] < keys[at[-1]] - SAME_KEY
        if clear and (gain * reached).sum() >= need:
            break
    return reached


def calibrate(keys: FloatArray, gain: FloatArray, need: float) -> tuple[float, float, bool]:
    """The threshold on the key, the chance of those exactly on it, and whether that suffices.

    >>> calibrate(np.array([3.0, 2.0, 1.0]), np.array([1.0, 1.0, 1.0]), 1.5)
    (2.0, 0.5, True)
    """
    if need <= 0:
        return float("inf"), 0.0, True
    order = np.argsort(-keys, kind="stable")
    order = order[keys[order] > -np.inf]
    ranked, gains = keys[order], gain[order]
    ends = np.flatnonzero(np.r_[ranked[:-1] - ranked[1:] > SAME_KEY, True])[: len(ranked)]
    total = np.cumsum(gains)[ends]
    passing = np.flatnonzero(total >= need)
    if len(passing) == 0:
        return -float("inf"), 0.0, False
    k = int(passing[0])
    before = float(total[k - 1]) if k > 0 else 0.0
    return float(ranked[ends[k]]), (need - before) / float(total[k] - before), True
