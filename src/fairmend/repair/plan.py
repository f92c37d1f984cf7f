"""A plan: for any row of its target group, where to, and with which probability.

Every repair method ends in one. The law (probabilities) and the draw are separate: a plan never
draws, it only gives the probabilities.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fairmend import doors
from fairmend.data.columns import BoolArray, FloatArray, Frame, IntArray
from fairmend.data.limits import MOST, Between, Figure, Label, Side
from fairmend.data.naming import shown
from fairmend.data.stored import stored
from fairmend.measure.wording import PlanText, describe_gap, describe_plan, share
from fairmend.model.answers import Answers
from fairmend.repair.destinations import Destinations
from fairmend.status import PlanStatus

Part: TypeAlias = Annotated[float, Between(0, 1 + 1e-9)]
"""Of a group; sums of shares may be above 1 in the last digit."""


@dataclass(frozen=True, eq=False)
class Route:
    """The law of some rows: entries (row, destination, probability), grouped by row.

    A row's probabilities sum to 1; destination -1 is to stay as one is.

    >>> Route.stay(2).destination.tolist()
    [-1, -1]
    """

    n: int
    row: IntArray
    destination: IntArray
    probability: FloatArray
    table: Frame | None
    """The destinations; None if there is none."""
    decision: FloatArray
    """The model's decision at each destination."""
    score: FloatArray | None
    cost: FloatArray
    """What each entry's edit costs."""
    unreachable: BoolArray | None = None
    """Rows that the rule would edit but no allowed edit helps; None if it edits all it wants."""

    @classmethod
    def moves(
        cls,
        n: int,
        row: IntArray,
        probability: FloatArray,
        *,
        place: IntArray,
        cost: FloatArray,
        decision: FloatArray,
        table: Frame | None = None,
        score: FloatArray | None = None,
        blocked: IntArray | None = None,
    ) -> Route:
        """Rows go to ``table[place]``, each with a probability; what is left of a row stays.

        ``blocked`` are rows that no allowed edit helps.
        """
        staying = 1 - np.bincount(row, probability, n)
        stays = np.flatnonzero(staying > 1e-15)
        everyone = np.concatenate([stays, row])
        order = np.argsort(everyone, kind="stable")
        return cls(
            n,
            everyone[order],
            np.concatenate([np.full(len(stays), -1), place])[order],
            np.concatenate([staying[stays], probability])[order],
            table,
            decision,
            score,
            np.concatenate([np.zeros(len(stays)), cost])[order],
            None if blocked is None else np.isin(np.arange(n), blocked),
        )

    @classmethod
    def flips(cls, n: int, row: IntArray, probability: FloatArray, to: Destinations) -> Route:
        """Rows that have a destination go there with a probability; all others stay."""
        at = np.flatnonzero(to.reached)
        there = to.take(at)
        return cls.moves(
            n,
            row[at],
            probability[at],
            place=np.arange(len(at)),
            cost=there.cost,
            decision=there.decision,
            table=there.table,
            score=there.score,
            blocked=row[~to.reached],
        )

    @classmethod
    def decided(
        cls,
        n: int,
        row: IntArray,
        probability: FloatArray,
        turned: NDArray[Any],
        reached: BoolArray,
    ) -> Route:
        """The same where only decisions are wanted: each of these rows' decision is flipped.

        The destinations are the two decisions; what the edits are and cost is left open.
        """
        return cls.moves(
            n,
            row[reached],
            probability[reached],
            place=turned[reached].astype(np.int64),
            cost=np.full(np.count_nonzero(reached), np.nan),
            decision=np.array([1.0, 0.0]),
            blocked=row[~reached],
        )

    @classmethod
    def stay(cls, n: int) -> Route:
        """Nobody moves."""
        nobody, nothing = np.empty(0, np.int64), np.empty(0)
        return cls.moves(n, nobody, nothing, place=nobody, cost=nothing, decision=nothing)

    def of(self, rows: IntArray) -> Route:
        """The law of some of the rows, which must be in increasing order.

        >>> Route.stay(3).of(np.array([0, 2])).row.tolist()
        [0, 1]
        """
        place = np.searchsorted(rows, self.row)
        kept = np.append(rows, -1)[place] == self.row
        return replace(
            self,
            n=len(rows),
            row=place[kept],
            destination=self.destination[kept],
            probability=self.probability[kept],
            cost=self.cost[kept],
            unreachable=None if self.unreachable is None else self.unreachable[rows],
        )

    def keeping(self, own: FloatArray, protected: float) -> Route:
        """The law without the edits that lead away from a decision nobody may lose.

        >>> Route.stay(2).keeping(np.array([0.0, 1.0]), 1.0).destination.tolist()
        [-1, -1]
        """
        away = np.flatnonzero(self.destination >= 0)
        change = self.decision[self.destination[away]] - own[self.row[away]]
        kept = away[change >= 0 if protected == 1 else change <= 0]
        route = Route.moves(
            self.n,
            self.row[kept],
            self.probability[kept],
            place=self.destination[kept],
            cost=self.cost[kept],
            table=self.table,
            decision=self.decision,
            score=self.score,
        )
        return replace(route, unreachable=self.unreachable)

    @property
    def moving(self) -> FloatArray:
        """Each row's probability of being edited."""
        away = self.destination >= 0
        return np.bincount(self.row[away], self.probability[away], self.n).astype(np.float64)

    @property
    def random(self) -> BoolArray:
        """Which rows' fate is drawn: those with more than one entry that has a chance."""
        return np.bincount(self.row, self.probability > 0, self.n) > 1

    def expected(self, own: FloatArray, at_destination: FloatArray) -> FloatArray:
        """Each row's mean of a value that it and every destination have."""
        value = own[self.row]
        away = self.destination >= 0
        value[away] = at_destination[self.destination[away]]
        return np.bincount(self.row, self.probability * value, self.n).astype(np.float64)

    def expected_decision(self, answers: Answers) -> FloatArray:
        return self.expected(answers.decision, self.decision)

    def expected_cost(self) -> FloatArray:
        return np.bincount(self.row, self.probability * self.cost, self.n).astype(np.float64)

    def pick(self, row: IntArray, uniform: FloatArray) -> IntArray:
        """For people on rows, the destination their number in [0, 1) draws; -1 to stay."""
        start = np.searchsorted(self.row, np.arange(self.n + 1))
        entry = start[row]
        several = np.flatnonzero(start[row + 1] - entry > 1)
        if len(several) > 0:
            last = start[row[several] + 1] - 1
            entries = self._entries_up_to(row[several], uniform[several])
            entry[several] = np.minimum(entries, last)  # rounding may leave a hair of the whole
        return np.asarray(self.destination[entry], np.int64)

    def _entries_up_to(self, row: IntArray, uniform: FloatArray) -> IntArray:
        """How many entries come before people's numbers: of earlier rows, and within their own.

        Chances are added up row by row and compared within rows, so that whoever else is in the
        batch makes no difference in the last digit.
        """
        place = np.arange(len(self.row)) - np.searchsorted(self.row, self.row)
        within = self.probability.copy()
        for k in range(1, int(place.max()) + 1):
            at = np.flatnonzero(place == k)
            within[at] += within[at - 1]
        asked = np.r_[np.zeros(len(within), bool), np.ones(len(row), bool)]
        # an entry that ends at the very number comes before it
        order = np.lexsort((asked, np.r_[within, uniform], np.r_[self.row, row]))
        before = np.cumsum(~asked[order])
        count = np.empty(len(asked), np.int64)
        count[order] = before
        return count[asked]


@stored("Outlook", dropped=["parts"])
@dataclass(frozen=True)
class Outlook:
    """What a plan does to its target group's people in the audit data, and is expected to do."""

    gap_before: Figure = 0.0
    """The realised gap as audited; the largest of several."""
    gap_after: Figure = 0.0
    """The realised gap under the plan's law; the largest of several."""
    expected_low: Figure = 0.0
    expected_high: Figure = 0.0
    """The 95 % interval of the gap that remains among people like those audited: where a large new
    sample is expected. A small one shows its own noise on top. Of several metrics it is that of
    the one named in ``metric``, and holds for all of them at once (Bonferroni)."""
    edited: Part = 0.0
    """Share of the group that is edited."""
    randomised: Part = 0.0
    """Share of the group whose edit is drawn."""
    unreachable: Part = 0.0
    """Share of the group that the rule would edit but no allowed edit helps."""
    cost: Annotated[float, Between(0, MOST)] = 0.0
    """Mean cost of an edit among the edited."""
    to_positive: Part = 0.0
    """Share of the group whose decision turns from negative to positive."""
    to_negative: Part = 0.0
    by_metric: tuple[tuple[str, Figure, Figure], ...] = ()
    """Each metric with its realised gap before and after; for a sum of metrics also its parts."""
    metric: str = ""
    """The metric of the gap and interval above, where there are several: most of it is left."""
    optimism: Figure = 0.0
    """How much larger the gap is on people the plan was not fitted on: cross-fitted where outcomes
    or rows that were seen decide how far the plan goes, else 0. The interval includes it."""
    tolerance: Annotated[float, Between(0, 1)] = 1e-9
    """A gap within this of its aim counts as closed: half a person of the smaller denominator, or
    1e-9."""
    unseen: Part = 0.0
    """Share of new people expected on rows the audit did not have, where the plan has no rule for
    them but borrows that of another row or leaves them as they are; estimated by the share of
    people who are alone on their row."""


@dataclass(frozen=True, eq=False, repr=False)
class Plan(doors.Shown, ABC):
    """What to do with the inputs of one group."""

    target: Label
    baseline: Label
    metric: str
    method: str
    status: PlanStatus
    outlook: Outlook
    known_as: tuple[str, str] = field(default=("", ""), kw_only=True)
    """What people read for the target and the reference group; empty: their labels."""

    def __init_subclass__(cls, **settings: Any) -> None:
        """A plan's data class would print all of its law."""
        super().__init_subclass__(**settings)
        cls.__repr__ = Plan.__repr__  # type: ignore[method-assign]

    def __repr__(self) -> str:
        gaps = "; ".join(describe_gap(*gap, self.outlook.tolerance) for gap in self.by_metric)
        target, baseline = self.group_names
        return f"<Plan for {target} against {baseline} by {self.method}; {gaps}>"

    def agrees(self) -> bool:
        """Whether the gap of a closed plan is closed; of several each has its own tolerance."""
        left = [after for _, _, after in self.by_metric]
        whole = self.status is PlanStatus.CLOSED and len(left) == 1
        most = self.outlook.tolerance + 1e-12 if whole else np.inf
        return not self.status.closed or all(abs(gap) <= most for gap in left)

    @abstractmethod
    def route(self, rows: Frame, answers: Answers) -> Route:
        """The law for any rows of the target group, given the model's answers about them."""

    def decisions(self, rows: Frame, answers: Answers) -> Route:
        """The same law as far as decisions go; edits and costs may be left out to save time."""
        return self.route(rows, answers)

    @property
    def reads_group(self) -> bool:
        """Whether it holds for its group alone; otherwise each group's plan has the same law."""
        return True

    def may_take(self, decision: float) -> bool:
        """Whether somebody with this decision, 0 or 1, may lose it."""
        return True

    @property
    def search(self) -> str:
        """Where destinations are sought and how many of the nearest are found; may be empty."""
        return ""

    @property
    def order(self) -> str:
        """Who is edited first, as the end of a sentence; empty where there is no such order."""
        return ""

    @property
    def way(self) -> str:
        """How the edits were found, for people to read."""
        return self.method

    @property
    def notes(self) -> tuple[str, ...]:
        """Further sentences about the plan."""
        return ()

    @property
    def in_words(self) -> PlanText:
        """What it does on the audit data, in sentences."""
        o = self.outlook
        return describe_plan(
            self.status,
            self.by_metric,
            interval=(o.expected_low, o.expected_high),
            interval_of=o.metric,
            tolerance=o.tolerance,
        )

    @property
    def by_metric(self) -> tuple[tuple[str, float, float], ...]:
        """Each metric with its realised gap before and after."""
        o = self.outlook
        return o.by_metric or ((self.metric, o.gap_before, o.gap_after),)

    @property
    def widest_before(self) -> float:
        """The gap as audited: of several the widest, of a sum that of the sum."""
        summed = [before for name, before, _ in self.by_metric if name == self.metric]
        return max(summed or [before for _, before, _ in self.by_metric])

    @property
    def group_names(self) -> tuple[str, str]:
        """The target and the reference group as people read them."""
        return shown(self.known_as, self.target, self.baseline)

    def described(self, *, notes: bool = True) -> str:
        """All of it in sentences; the notes are the same for all groups of a blind repair."""
        o, (target, baseline) = self.outlook, self.group_names
        lines = [
            f"Plan for {target} against {baseline}: {self.metric} by {self.way}",
            str(self.in_words),
            f"{share(o.edited)} of the group edited (mean cost {o.cost:.2f}), "
            f"{share(o.randomised)} randomised, {share(o.unreachable)} unreachable",
            f"decisions flipped to positive for {share(o.to_positive)}, "
            f"to negative for {share(o.to_negative)}",
            *([f"destinations {self.search}"] if self.search else []),
            *(self.notes if notes else ()),
        ]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.described()


@stored("IdentityPlan")
@dataclass(frozen=True, eq=False)
class IdentityPlan(Plan):
    """Nobody is edited."""

    def route(self, rows: Frame, answers: Answers) -> Route:
        return Route.stay(len(rows))

    def may_take(self, decision: float) -> bool:
        return False


@stored("HarmlessPlan")
@dataclass(frozen=True, eq=False)
class HarmlessPlan(Plan):
    """Another plan without the edits that cost somebody a decision nobody may lose.

    A method keeps to that for the people of the audit. This binds the law for rows it never saw.
    """

    plan: Plan
    protected: Side
    """The decision nobody may lose, 0 or 1."""

    def agrees(self) -> bool:
        same = (self.plan.target, self.plan.status) == (self.target, self.status)
        return same and super().agrees()

    @property
    def search(self) -> str:
        return self.plan.search

    @property
    def order(self) -> str:
        return self.plan.order

    def route(self, rows: Frame, answers: Answers) -> Route:
        return self.plan.route(rows, answers).keeping(answers.decision, self.protected)

    def decisions(self, rows: Frame, answers: Answers) -> Route:
        return self.plan.decisions(rows, answers).keeping(answers.decision, self.protected)
