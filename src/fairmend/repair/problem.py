"""Everything a repair method needs to know, read and checked once."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from fairmend.data.columns import FloatArray, Frame, IntArray
from fairmend.data.features import FeatureMap
from fairmend.errors import DataError, RepairRefused, check, listed, warn
from fairmend.explain.counterfactual import check_level, choose_groups
from fairmend.explain.logistic import ROUGHLY, LogisticFits, solving
from fairmend.measure.audit import audit_data
from fairmend.measure.disparity import Combination, Disparity, RateGap
from fairmend.measure.intervals import TOO_FEW, normal_quantile
from fairmend.measure.metrics import SELECTION, SP, Alignment, check_outcomes_are_known
from fairmend.measure.population import AuditData, Population
from fairmend.measure.realised import RealisedGap, half_a_person
from fairmend.measure.result import Gap
from fairmend.model.answers import Answers
from fairmend.model.blackbox import BlackBox
from fairmend.repair.costs import Cost, EditCost
from fairmend.repair.destinations import Donors
from fairmend.repair.plan import IdentityPlan, Outlook, Plan, Route
from fairmend.repair.probabilities import RowProbabilities
from fairmend.repair.settings import Rank, RepairSettings
from fairmend.status import PlanStatus
from fairmend.tables import p_text

Options = TypeVar("Options")

EXACT = 1e-9
"""Figures of exact distributions closer than this are equal."""
CONFIDENCE = 0.95
"""Of what is expected on new data."""
SIGNIFICANT = 0.0455
"""Two standard errors: a gap with a larger p-value may be chance, and its sign wrong."""


@dataclass(frozen=True)
class _Measure:
    """One gap, or a sum of gaps, before and after a repair."""

    disparity: Disparity
    before: float
    after: float
    aim: float
    tolerance: float

    @property
    def closed(self) -> bool:
        return abs(self.after - self.aim) <= self.tolerance  # False if it is nan

    @property
    def left(self) -> tuple[float, float]:
        """How much of it is left; where nothing is, how wide it was."""
        left = 0.0 if self.closed else abs(self.after - self.aim)
        return (np.inf if np.isnan(left) else left, abs(self.before))


def _wider(measures: Sequence[_Measure]) -> bool:
    """Whether the widest gap is wider than before, by more than the tolerance."""
    after, before = (
        np.nan_to_num(np.abs([getattr(one, name) for one in measures]), nan=np.inf).max()
        for name in ("after", "before")
    )
    return bool(after > before + max(one.tolerance for one in measures))


@dataclass(frozen=True, eq=False)
class RepairProblem:
    """The gap of one group, and everything that a method needs to close it: read once."""

    settings: RepairSettings
    data: AuditData
    box: BlackBox | None
    """The model, to verify edits; None where only its recorded predictions exist, so that people
    can be edited only into rows that were seen."""
    target: Hashable
    baseline: Hashable
    """The reference group."""
    source: Population
    """The target group."""
    other: Population
    """The reference group as it is once all plans are in force."""
    audited: Population
    """The reference group as audited."""
    table: Frame
    """The target group's distinct rows."""
    disparities: tuple[Disparity, ...]
    sum_of: Combination | None
    """The sum to close, where the gaps are only its parts."""
    gaps: tuple[RealisedGap, ...]
    """The gaps to close, as people will experience them."""
    gaps_before: tuple[float, ...]
    """The same as audited."""
    cost: EditCost
    rank: Rank
    outcomes: dict[bool, RowProbabilities] = field(default_factory=dict, repr=False)
    """Models of the outcome, once fitted: of everybody (True), of the target group (False)."""

    @classmethod
    def read(
        cls,
        data: AuditData,
        settings: RepairSettings,
        box: BlackBox | None = None,
        *,
        target: Hashable = None,
        baseline: Hashable = None,
        other: Population | None = None,
    ) -> RepairProblem:
        """Check settings against the data.

        ``target`` and ``baseline`` are by default those of the settings, and without these the
        worst-off and the best-off group. ``other`` is the reference group as other plans change it.
        """
        disparities = settings.disparities
        check_outcomes_are_known(data, disparities)
        if baseline is None and settings.reference != "best":
            baseline = settings.reference
        target, baseline = choose_groups(
            data, disparities[0], settings.target if target is None else target, baseline
        )
        check_level(settings.level)
        source = data[target]
        audited = data.rest(target) if baseline == "rest" else data[baseline]
        if data.table is None or source.rows is None:
            raise DataError(
                "X",
                "must hold the model's inputs",
                "only predictions were tabulated",
                "A repair edits inputs: pass them.",
            )
        whole = None
        if len(disparities) == 1 and isinstance(disparities[0], Combination):
            whole = disparities[0]
            disparities = tuple(part for _, part in whole.parts)
        gaps = tuple(
            RealisedGap.between(
                _as_rate_gap(one, source, audited), source, audited, level=settings.level
            )
            for one in disparities
        )
        gaps_before = tuple(gap.gap(source.decision) for gap in gaps)
        for gap, before in zip(gaps, gaps_before, strict=True):
            check(
                not np.isnan(before),
                "disparity",
                "must be a gap between rates that are over somebody in both groups",
                f"{gap.disparity.name} is over nobody of "
                f"{baseline if np.isnan(gap.rate) else target!r}",
                "Leave it out, name another target, or audit more people.",
            )
        return cls(
            settings=settings,
            data=data,
            box=box if box is not None and box.can_query else None,
            target=target,
            baseline=baseline,
            source=source,
            other=audited if other is None else other,
            audited=audited,
            table=data.table.take(source.rows),
            disparities=disparities,
            sum_of=whole,
            gaps=gaps if other is None else tuple(gap.against(other) for gap in gaps),
            gaps_before=gaps_before,
            cost=edit_cost(data.table, source, settings.edit_cost),
            rank=_rank(settings, source),
        )

    def options(self, kind: type[Options]) -> Options:
        """The ``method_options`` as the dataclass that the method declares for them."""
        return kind(**dict(self.settings.method_options or {}))

    @property
    def level(self) -> float:
        return float(self.settings.level)

    @property
    def protected(self) -> float | None:
        """The decision nobody may lose, 0 or 1; None if either may be flipped."""
        return self.settings.protected(self.data.labels)

    @property
    def metric(self) -> str:
        wanted = self.disparities if self.sum_of is None else (self.sum_of,)
        return ", ".join(one.name for one in wanted)

    @property
    def target_name(self) -> str:
        """What people read for the target group."""
        return self.data.names(self.target)

    @property
    def is_soft(self) -> bool:
        """Whether some decisions are neither 0 nor 1."""
        return not np.isin(self.source.decision, (0.0, 1.0)).all()

    @property
    def done(self) -> PlanStatus:
        return PlanStatus.CLOSED if self.level == 1 else PlanStatus.PARTLY

    @property
    def nothing_to_close(self) -> bool:
        """Whether the target group is no worse off than the reference, or is to stay as it is."""
        return self.level == 0 or not self._worse_off

    @property
    def _worse_off(self) -> bool:
        return len(self.gaps) > 1 or self.gaps_before[0] > 0

    def fewest(self, gap: RealisedGap) -> float:
        """The weight of people a rate over decisions must keep: a tenth of them, and not too few.

        A rate over hardly anybody can be anything by luck, and to refuse all others is no repair.
        """
        tenth = 0.1 * gap.over(self.source.decision)
        tally = self.source.tally
        if tally is None:
            return tenth
        return max(tenth, TOO_FEW * float(tally.weight.sum()) / self.source.n)

    def refuse_other_than_decisions(self) -> None:
        """Flipping decisions closes gaps of rates, and no sums of them."""
        check(
            self.sum_of is None,
            "disparity",
            "must be a rate gap or Alignment to be repaired this way",
            f"got {self.metric!r}",
            "Give the parts of a sum as a list, or use method='transport'.",
        )
        check(
            not any(isinstance(one, Alignment) and one.weight > 0 for one in self.disparities),
            "disparity",
            f"must be Alignment of decisions for method={self.settings.method_name!r}",
            f"got {self.metric!r}, which aligns inputs too",
            "Use Alignment(), or method='transport'.",
        )

    # ---------------------------------------------------------------- a plan, finished

    def common(
        self, status: PlanStatus | None = None, outlook: Outlook | None = None
    ) -> dict[str, Any]:
        """The fields that every plan has; ``status`` is that of a plan that leaves a gap."""
        return {
            "target": self.target,
            "baseline": self.baseline,
            "metric": self.metric,
            "method": self.settings.method_name,
            "status": self.done if status is None else status,
            "outlook": outlook or Outlook(),
            "known_as": self.data.names.pair(self.target, self.baseline),
        }

    def finished(
        self,
        plan: Plan,
        *,
        route: Route | None = None,
        unreachable: float | None = None,
        optimism: float = 0.0,
        unseen: float = 0.0,
    ) -> Plan:
        """The plan with its status, and with what it does to the audit data as its outlook.

        The status is read off the realised gaps; that of ``plan`` stays where they are not closed.
        ``route`` is the plan's law for the group, where it is known already; the last three are
        figures of the outlook that the law does not tell.
        """
        if route is None:
            route = plan.route(self.table, self.source.answers)
        status = plan.status
        if status is not PlanStatus.IDENTITY:
            measures = self._measures(route.expected_decision(self.source.answers))
            if all(one.closed for one in measures):
                status = self.done
            elif _wider(measures):
                status = PlanStatus.WIDER
            elif status.closed or status is PlanStatus.WIDER:
                status = PlanStatus.REMAINS
        outlook = self.outlook(route, unreachable, optimism, unseen)
        return replace(plan, status=status, outlook=outlook)

    def again(self, plan: Plan) -> Plan:
        """A finished plan with its gap anew, for a reference group that has changed since."""
        old = plan.outlook
        return self.finished(
            plan, unreachable=old.unreachable or None, optimism=old.optimism, unseen=old.unseen
        )

    def optimism(self, route: Route, held_out: FloatArray) -> float:
        """How much more of the gap shown is left among people who were held out.

        ``held_out`` are the decisions people would get if the plan had been fitted without them, by
        row and outcome.
        """
        measures = self._measures(route.expected_decision(self.source.answers))
        place = max(range(len(measures)), key=lambda k: measures[k].left)
        more = self._measures(held_out)[place].after - measures[place].after
        return 0.0 if np.isnan(more) else more

    def _measures(self, decided: FloatArray) -> tuple[_Measure, ...]:
        """What is to be closed, under some decisions: each gap, or the sum they are parts of."""
        parts = self._parts(decided)
        if self.sum_of is None:
            return parts
        weights = [weight for weight, _ in self.sum_of.parts]

        def summed(name: str, factors: Any = weights) -> float:
            return float(np.dot(factors, [getattr(part, name) for part in parts]))

        tolerance = summed("tolerance", np.abs(weights))
        return (_Measure(self.sum_of, summed("before"), summed("after"), summed("aim"), tolerance),)

    def _parts(self, decided: FloatArray) -> tuple[_Measure, ...]:
        """Each gap; its tolerance is half a person of the smaller of the two denominators."""
        sides = (replace(self.source, decision=decided), self.other)
        return tuple(
            _Measure(
                gap.disparity,
                before,
                gap.gap(decided),
                gap.aim,
                max(EXACT, *(half_a_person(gap.disparity, people) for people in sides)),
            )
            for gap, before in zip(self.gaps, self.gaps_before, strict=True)
        )

    def outlook(
        self,
        route: Route,
        unreachable: float | None = None,
        optimism: float = 0.0,
        unseen: float = 0.0,
    ) -> Outlook:
        """What a law does to the target group's people in the audit data."""
        p, own = self.source.mass, self.source.decision
        decided = route.expected_decision(self.source.answers)
        measures = self._measures(decided)
        shown = max(measures, key=lambda one: one.left)
        repaired = replace(self.source, decision=decided)
        # one of several, chosen for what is left of it: an interval for all of them at once
        confidence = 1 - (1 - CONFIDENCE) / len(measures)
        expected = self._compared(shown.disparity, repaired, self.other, confidence)
        edited, change = float(p @ route.moving), decided - own
        if unreachable is None:
            unreachable = 0.0 if route.unreachable is None else float(p @ route.unreachable)
        parts = () if self.sum_of is None else self._parts(decided)
        return Outlook(
            gap_before=shown.before,
            gap_after=shown.after,
            expected_low=max(-1.0, expected.low + optimism),
            expected_high=min(1.0, expected.high + optimism),
            edited=edited,
            randomised=float(p @ route.random),
            unreachable=unreachable,
            cost=float(p @ route.expected_cost()) / edited if edited > 0 else 0.0,
            to_positive=float(p @ np.maximum(change, 0.0)),
            to_negative=float(p @ np.maximum(-change, 0.0)),
            by_metric=tuple(
                (one.disparity.name, one.before, one.after) for one in measures + parts
            ),
            metric=shown.disparity.name,
            optimism=optimism,
            tolerance=shown.tolerance,
            unseen=unseen,
        )

    def identity(self) -> IdentityPlan:
        """The plan that edits nobody."""
        outlook = self.outlook(Route.stay(len(self.table)))
        if self._worse_off:
            return IdentityPlan(**self.common(outlook=outlook))
        judged([self._compared(self.gaps[0].disparity, self.source, self.audited)])
        return IdentityPlan(**self.common(PlanStatus.IDENTITY, outlook))

    def warn_if_not_significant(self) -> None:
        """Warn, or refuse with ``require_significant``, where the first gap is not significant."""
        if self.source.tally is None or self.other.tally is None:
            return
        judged = self._compared(self.gaps[0].disparity, self.source, self.audited)
        if judged.p_value <= SIGNIFICANT:
            return
        name, value = judged.metric, 100 * self.gaps_before[0]
        chance = "too few people to judge" if np.isnan(judged.p_value) else p_text(judged.p_value)
        if self.settings.require_significant:
            raise RepairRefused(
                f"the gap in {name} of {self.target_name}",
                "must be significant to be repaired",
                f"got {value:+.1f} points, {chance}",
                "Audit more people, or leave require_significant out.",
            )
        warn(
            f"The gap in {name} of {self.target_name}, {value:+.1f} points, is within 2 "
            f"standard errors of 0 ({chance}): it may be chance, and its sign wrong. Repairing it "
            "changes decisions for no proven reason.",
        )

    def _compared(
        self,
        disparity: Disparity,
        source: Population,
        other: Population,
        confidence: float = CONFIDENCE,
    ) -> Gap:
        """One gap between two populations with its interval and test."""
        both = replace(self.data, groups=(self.target, self.baseline), populations=(source, other))
        return audit_data(
            both, metrics=[disparity], reference=self.baseline, confidence=confidence
        ).gaps[0]

    def outcome(self, *, pooled: bool = True) -> RowProbabilities:
        """P(Y=1 | x), cross-fitted: of everybody, or of the target group alone."""
        if pooled not in self.outcomes:
            self.outcomes[pooled] = RowProbabilities.fit(
                self.data, self.target, self.settings, pooled=pooled
            )
        return self.outcomes[pooled]

    def donors(self, wanted: float) -> Donors:
        """Rows of the target group that get the wanted decision; of all groups if it has none.

        Nobody is edited into another group: of others' rows no value is taken that says which
        group somebody is of.
        """
        assert self.data.table is not None
        source, cost = self.source, self.cost
        at = np.flatnonzero(source.decision == wanted)
        rows, answers = np.asarray(source.rows)[at], self.source.answers.take(at)
        if len(at) == 0:
            rows, answers = answers_of_all(self.data)
            kept = np.flatnonzero(answers.decision == wanted)
            rows, answers, cost = rows[kept], answers.take(kept), self._within_the_group()
        check(
            len(rows) > 0,
            "model",
            f"must decide {wanted:g} for somebody in the audit data",
            "it decides the same for everybody",
            "There is nobody to resemble: audit more people.",
        )
        return Donors.choose(
            self.data.table.take(rows),
            answers,
            self._closeness(rows, answers),
            cost,
            box=self.box,
            labels=self.data.labels,
            asking=self.table.take(np.flatnonzero(source.decision != wanted)),
        )

    def _within_the_group(self) -> EditCost:
        """The cost, with features that have one value in each group left as they are."""
        rules = self.cost.cost
        telling = [name for name in _telling(self.data) if name not in rules.immutable]
        if not telling:
            return self.cost
        kept = (*rules.immutable, *telling)
        check(
            len(kept) < len(self.cost.axes),
            "X",
            f"must hold something that members of {self.target!r} can take from other groups",
            f"what may change, {listed(telling)}, has one value in each group",
            "Nobody is edited into another group: allow edits of other features.",
        )
        warn(
            f"No member of {self.target_name} is decided as wanted. They are edited to "
            f"resemble people of other groups, except in {listed(telling)}: it has one value in "
            "each group, and nobody is edited into another group.",
        )
        return replace(self.cost, cost=replace(rules, immutable=kept))

    def _closeness(self, rows: IntArray, answers: Answers) -> FloatArray:
        """Distance from the model's cut, by its score or by a stand-in fitted to its labels."""
        if answers.score is not None:
            cut = 0.5 if self.box is None else self.box.cut
            return np.abs(answers.score - cut)
        every, margin = self._margins
        return np.abs(margin[np.searchsorted(every, rows)])

    @cached_property
    def _margins(self) -> tuple[IntArray, FloatArray]:
        """All rows, and the log odds that a model of the model's labels gives them."""
        assert self.data.table is not None
        every, answers = answers_of_all(self.data)
        table, decision = self.data.table.take(every), answers.decision
        matrix = FeatureMap.learn(table, np.ones(len(every))).apply(table)
        weight = np.stack([1 - decision, decision], axis=1)
        with solving():
            stand_in = LogisticFits(matrix).fit(100.0, weight, flat=ROUGHLY)
        return every, stand_in.decision_function(matrix)


def _rank(settings: RepairSettings, source: Population) -> Rank:
    """Who goes first; a model of labels only gives no score to rank by."""
    rank = settings.rank
    if rank is None or isinstance(rank, Mapping) or settings.blind:
        return "outcome" if source.score is None else "score"
    check(
        rank != "score" or source.score is not None,
        "rank",
        "must be 'outcome' or 'cost' for a model of labels only",
        "got 'score'",
        "It gives no scores to rank by.",
    )
    return rank


def edit_cost(table: Frame, source: Population, cost: Cost) -> EditCost:
    """Costs that know every value in the data, scaled by the spread in the target group."""
    mass = np.zeros(len(table))
    np.add.at(mass, np.asarray(source.rows), source.mass)
    return EditCost.learn(table, mass, cost)


def _as_rate_gap(disparity: Disparity, target: Population, baseline: Population) -> RateGap:
    """Alignment of decisions is statistical parity, towards whichever side is short."""
    if isinstance(disparity, Alignment):
        return SP if SP.of(target) >= SP.of(baseline) else SELECTION
    if not isinstance(disparity, RateGap):
        raise DataError(
            "disparity",
            "must be a rate gap or Alignment to be repaired this way",
            f"got {disparity.name!r}",
            "Give the parts of a sum as a list, or use method='transport'.",
        )
    y = np.array([0.0, 1.0])
    for term in (disparity.rate, disparity.given):
        none, half, all_ = (term(np.full(2, h), y) * np.ones(2) for h in (0.0, 0.5, 1.0))
        check(
            np.allclose(half, (none + all_) / 2),
            f"RateGap {disparity.name!r}",
            "must be linear in the decision to be repaired",
            "at h = 0.5 it is not half-way between h = 0 and h = 1",
            "A randomised decision has the mean of its two rates.",
        )
    return disparity


def allow_for_rivals(plan: Plan, rivals: int) -> Plan:
    """The plan's expectation for a reference chosen from so many groups as the best off.

    Its rate is likely lower in the audit than among new people (see `Gap.rivals`): the lower end
    of the interval is that of so many comparisons.
    """
    if rivals == 1:
        return plan
    outlook = plan.outlook
    centre = (outlook.expected_low + outlook.expected_high) / 2
    wider = normal_quantile(CONFIDENCE, rivals) / normal_quantile(CONFIDENCE, 1)
    low = max(-1.0, centre - wider * (centre - outlook.expected_low))
    return replace(plan, outlook=replace(outlook, expected_low=low))


def judged(gaps: Sequence[Gap]) -> tuple[Gap, ...]:
    """Those of one metric's gaps that can be judged; a warning where none can."""
    measured = tuple(gap for gap in gaps if gap.judged)
    if not measured:
        one = gaps[0]
        whose = f" of {one.target}" if len(gaps) == 1 else ""
        warn(
            f"No gap in {one.metric}{whose} against {one.baseline} can be judged ({one.note}): "
            "nobody is edited. Audit more people, or compare larger groups.",
        )
    return measured


def _telling(data: AuditData) -> list[str]:
    """Features that say which group somebody is of: one value in each group, not one in all."""
    assert data.table is not None
    names = []
    for name, column in zip(data.table.names, data.table.encoded, strict=True):
        values = [np.unique(column.codes[p.rows]) for p in data.populations]
        if all(len(own) == 1 for own in values) and len(np.unique(values)) > 1:
            names.append(name)
    return names


def answers_of_all(data: AuditData) -> tuple[IntArray, Answers]:
    """Each row of the table that anybody has, with the model's answer."""
    rows = np.concatenate([np.asarray(p.rows) for p in data.populations])
    rows, first = np.unique(rows, return_index=True)
    decision = np.concatenate([p.decision for p in data.populations])[first]
    scores = [p.score for p in data.populations if p.score is not None]
    score = np.concatenate(scores)[first] if len(scores) == len(data.populations) else None
    return rows, Answers(decision, score)
