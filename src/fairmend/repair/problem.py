"""Everything a repair method needs to know, read and checked once."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np

from fairmend.data.columns import FloatArray, Frame, IntArray
from fairmend.data.features import FeatureMap
from fairmend.data.limits import Chances, alike
from fairmend.data.naming import GroupNames
from fairmend.data.rows import find_rows
from fairmend.data.stored import stored
from fairmend.errors import DataError, FairmendWarning, RepairRefused, listed
from fairmend.explain.counterfactual import check_level, choose_groups, read_disparities
from fairmend.explain.outcomes import (
    FittedProbability,
    fit_probability,
    logistic_regression,
    one_thread,
)
from fairmend.measure.audit import audit_data
from fairmend.measure.disparity import (
    SELECTION,
    SP,
    Alignment,
    Combination,
    Disparity,
    RateGap,
    check_outcomes_are_known,
    parts_of,
)
from fairmend.measure.intervals import TOO_FEW, lower_reach
from fairmend.measure.population import AuditData, Population, Tally
from fairmend.measure.realised import RealisedGap, half_a_person
from fairmend.measure.result import Gap
from fairmend.model.answers import Answers
from fairmend.model.blackbox import BlackBox
from fairmend.repair.costs import Cost, EditCost
from fairmend.repair.destinations import Donors
from fairmend.repair.plan import Outlook, Plan, Route
from fairmend.status import PlanStatus
from fairmend.tables import p_said

__all__ = ["IdentityPlan", "RepairTask", "answers_of_all", "judged", "pooled_tally"]

Rank = Literal["score", "outcome", "cost"]

EXACT = 1e-9
"""Figures of exact distributions closer than this are equal."""
CONFIDENCE = 0.95
"""Of what is expected on new data."""
SIGNIFICANT = 0.0455
"""Two standard errors: a gap with a larger p-value may be chance, and its sign wrong."""


def check_rank(rank: Any) -> None:
    """Refuse what is no order of people."""
    if rank not in get_args(Rank):
        raise DataError(
            "rank",
            "must be 'score', 'outcome' or 'cost'",
            f"got {rank!r}",
            "It says who is edited first.",
        )


@stored("KnownOutcome")
@dataclass(frozen=True, eq=False)
class KnownOutcome:
    """P(Y=1 | x) for any row: as cross-fitted for rows of the audit, as predicted for new ones.

    Keeping the cross-fitted figure puts the fit and the use of a threshold on one scale.
    """

    table: Frame
    probability: Chances
    fitted: FittedProbability | None
    """None where the outcomes are known exactly."""

    def agrees(self) -> bool:
        return len(self.table) > 0 and alike(self.table, self.probability)

    def of(self, rows: Frame) -> FloatArray:
        """One probability per row."""
        place = find_rows(self.table, rows)
        known = self.probability[np.maximum(place, 0)]
        new = np.flatnonzero(place < 0)
        if len(new) > 0:
            if self.fitted is None:
                raise DataError(
                    "rows",
                    "must be among those of the exact distribution",
                    f"{len(new):,} are not",
                    "Nothing is known about the outcome there.",
                )
            known[new] = self.fitted.predict(rows.take(new))
        return known


@stored("IdentityPlan")
@dataclass(frozen=True, eq=False)
class IdentityPlan(Plan):
    """Nobody is edited."""

    def route(self, rows: Frame, answers: Answers) -> Route:
        return Route.stay(len(rows))


@dataclass(frozen=True)
class _Measure:
    """One gap, or a sum of gaps, before and after a repair."""

    disparity: Disparity
    before: float
    after: float
    aim: float
    tolerance: float

    @property
    def told(self) -> tuple[str, float, float]:
        return self.disparity.name, self.before, self.after

    @property
    def closed(self) -> bool:
        return abs(self.after - self.aim) <= self.tolerance  # never so where it is not known


@dataclass(frozen=True, eq=False)
class RepairTask:
    """Everything a method needs, read once."""

    method: str
    data: AuditData
    source: Population
    """The target group."""
    other: Population
    """The reference group, as it is once all plans are in force."""
    table: Frame
    """The target group's distinct rows."""
    disparities: tuple[Disparity, ...]
    gaps: tuple[RealisedGap, ...]
    """The gaps to close, as people will experience them."""
    gaps_before: tuple[float, ...]
    """The same as audited."""
    audited: Population
    """The reference group as audited."""
    target: Hashable
    baseline: Hashable
    level: float
    cost: EditCost
    box: BlackBox | None
    rank: Rank
    outcome_model: Any
    random_state: int
    require_significant: bool
    protected: float | None = None
    """The decision nobody may lose, 0 or 1; None if either may be flipped."""
    sum_of: Combination | None = None
    """Where the gaps are parts of one sum, which alone is to be closed."""
    outcomes: dict[bool, KnownOutcome] = field(default_factory=dict, repr=False)
    """Models of the outcome, once fitted: of everybody (True), of the target group (False)."""

    @classmethod
    def read(
        cls,
        data: AuditData,
        *,
        method: str,
        disparity: str | Disparity | Sequence[str | Disparity],
        box: BlackBox | None = None,
        target: Hashable = None,
        baseline: Hashable = None,
        level: float = 1.0,
        cost: Cost | None = None,
        rank: Rank | None = None,
        outcome_model: Any = "auto",
        random_state: int = 0,
        require_significant: bool = False,
        protected: float | None = None,
        other: Population | None = None,
    ) -> RepairTask:
        """Check the settings of `least_change` against the data."""
        disparities = read_disparities(disparity)
        check_outcomes_are_known(data, disparities)
        target, baseline = choose_groups(data, disparities[0], target, baseline)
        check_level(level)
        source = data[target]
        audited = data.rest(target) if baseline == "rest" else data[baseline]
        if data.table is None or source.rows is None:
            raise DataError(
                "X",
                "must hold the model's inputs",
                "only predictions were tabulated",
                "A repair edits inputs: pass them.",
            )
        if rank is None:
            rank = "outcome" if source.score is None else "score"
        check_rank(rank)
        if rank == "score" and source.score is None:
            raise DataError(
                "rank",
                "must be 'outcome' or 'cost' for a model of labels only",
                "got 'score'",
                "It gives no scores to rank by.",
            )
        table = data.table.take(source.rows)
        gaps = tuple(
            RealisedGap.between(_as_rate_gap(d, source, audited), source, audited, level=level)
            for d in disparities
        )
        gaps_before = tuple(gap.gap(source.decision) for gap in gaps)
        for gap, before in zip(gaps, gaps_before, strict=True):
            if np.isnan(before):
                raise DataError(
                    "disparity",
                    "must be a gap between rates that are over somebody in both groups",
                    f"{gap.disparity.name} is over nobody of "
                    f"{baseline if np.isnan(gap.rate) else target!r}",
                    "Leave it out, name another target, or audit more people.",
                )
        return cls(
            method=method,
            data=data,
            source=source,
            other=audited if other is None else other,
            table=table,
            gaps=gaps if other is None else tuple(gap.against(other) for gap in gaps),
            gaps_before=gaps_before,
            audited=audited,
            disparities=disparities,
            target=target,
            baseline=baseline,
            level=float(level),
            cost=_edit_cost(data.table, source, cost or Cost()),
            box=box,
            rank=rank,
            outcome_model=outcome_model,
            random_state=random_state,
            require_significant=require_significant,
            protected=protected,
        )

    @classmethod
    def read_sum(cls, data: AuditData, wanted: Disparity, **settings: Any) -> RepairTask:
        """The same for what may be a sum of gaps: reported part by part, closed as a whole."""
        task = cls.read(data, disparity=[part for _, part in parts_of(wanted)], **settings)
        return replace(task, sum_of=wanted) if isinstance(wanted, Combination) else task

    @property
    def metric(self) -> str:
        if self.sum_of is not None:
            return self.sum_of.name
        return ", ".join(one.name for one in self.disparities)

    @property
    def is_soft(self) -> bool:
        """Whether some decisions are neither 0 nor 1."""
        return not np.isin(self.source.decision, (0.0, 1.0)).all()

    @property
    def done(self) -> PlanStatus:
        return PlanStatus.CLOSED if self.level == 1 else PlanStatus.PARTLY

    @property
    def nothing_to_close(self) -> bool:
        """Whether the target group is no worse off than the baseline, or is to stay as it is."""
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

    def refuse_alignment_of_inputs(self) -> None:
        """Turning decisions aligns decisions alone."""
        if any(isinstance(d, Alignment) and d.weight > 0 for d in self.disparities):
            raise DataError(
                "disparity",
                f"must be Alignment of decisions for method={self.method!r}",
                f"got {self.metric!r}, which aligns inputs too",
                "Use Alignment(), or method='transport'.",
            )

    def common(self, status: PlanStatus, outlook: Outlook) -> dict[str, Any]:
        """The fields that every plan has."""
        return {
            "target": self.target,
            "baseline": self.baseline,
            "metric": self.metric,
            "method": self.method,
            "status": status,
            "outlook": outlook,
            "known_as": self.names.pair(self.target, self.baseline),
        }

    @property
    def names(self) -> GroupNames:
        """What people read for the groups."""
        return self.data.names

    def finished(
        self,
        plan: Plan,
        otherwise: PlanStatus,
        unreachable: float | None = None,
        *,
        held_out: FloatArray | None = None,
        route: Route | None = None,
    ) -> Plan:
        """The plan with what it does to the audit data written into it.

        The status is read off the realised gaps of the finished plan; ``otherwise`` is what to say
        where they are not closed. ``held_out`` are the decisions people would get if the plan had
        been fitted without them, by row and outcome. ``route`` is the plan's law for the group,
        where it is known already.
        """
        if route is None:
            route = plan.route(self.table, self.source.answers)
        optimism = 0.0 if held_out is None else self._optimism(route, held_out)
        outlook = self.outlook(route, unreachable, optimism=optimism)
        return replace(plan, status=self._status(route, otherwise), outlook=outlook)

    def again(self, plan: Plan) -> Plan:
        """A finished plan with its gap anew, for a reference group that has changed since."""
        route, old = plan.route(self.table, self.source.answers), plan.outlook
        outlook = self.outlook(route, old.unreachable, optimism=old.optimism)
        outlook = replace(outlook, unseen=old.unseen)
        return replace(plan, status=self._status(route, plan.status), outlook=outlook)

    def _optimism(self, route: Route, held_out: FloatArray) -> float:
        """How much more of the gap shown is left among people who were held out."""
        measures = self._measures(route.expected_decision(self.source.answers))
        place = max(range(len(measures)), key=lambda k: _furthest_from_its_aim(measures[k]))
        more = self._measures(held_out)[place].after - measures[place].after
        return 0.0 if np.isnan(more) else more

    def _status(self, route: Route, otherwise: PlanStatus) -> PlanStatus:
        """Closed exactly if every realised gap is within its tolerance of what it was to be."""
        if otherwise is PlanStatus.IDENTITY:
            return otherwise
        measures = self._measures(route.expected_decision(self.source.answers))
        if all(one.closed for one in measures):
            return self.done
        return PlanStatus.REMAINS if otherwise.closed else otherwise

    def _measures(self, decided: FloatArray) -> tuple[_Measure, ...]:
        """What is to be closed, under some decisions: each gap, or the sum they are parts of."""
        parts = tuple(
            _Measure(
                gap.disparity, before, gap.gap(decided), gap.aim, self._tolerance(gap, decided)
            )
            for gap, before in zip(self.gaps, self.gaps_before, strict=True)
        )
        if self.sum_of is None:
            return parts
        weights = [weight for weight, _ in self.sum_of.parts]
        before, after, aim, tolerance = (
            float(np.dot(factors, [getattr(part, name) for part in parts]))
            for name, factors in (
                ("before", weights),
                ("after", weights),
                ("aim", weights),
                ("tolerance", np.abs(weights)),
            )
        )
        return (_Measure(self.sum_of, before, after, aim, tolerance),)

    def _tolerance(self, gap: RealisedGap, decided: FloatArray) -> float:
        """Half a person of the smaller of the two denominators, or 1e-9 if that is larger."""
        sides = (replace(self.source, decision=decided), self.other)
        return max(EXACT, *(half_a_person(gap.disparity, people) for people in sides))

    def identity(self) -> IdentityPlan:
        """The plan that edits nobody."""
        stay = Route.stay(len(self.table))
        if self._worse_off:
            return IdentityPlan(**self.common(self.done, self.outlook(stay)))
        judged([self._compared(self.gaps[0].disparity, self.source, self.audited)])
        return IdentityPlan(**self.common(PlanStatus.IDENTITY, self.outlook(stay)))

    def warn_if_not_significant(self) -> None:
        """Say, or refuse if so told, that the (first) gap may be chance."""
        if self.source.tally is None or self.other.tally is None:
            return
        judged = self._compared(self.gaps[0].disparity, self.source, self.audited)
        if judged.p_value <= SIGNIFICANT:
            return
        name, value = judged.metric, 100 * self.gaps_before[0]
        chance = "too few people to judge" if np.isnan(judged.p_value) else p_said(judged.p_value)
        if self.require_significant:
            raise RepairRefused(
                f"the gap in {name} of {self.names(self.target)}",
                "must be more than chance to be mended",
                f"got {value:+.1f} points, {chance}",
                "Audit more people, or leave require_significant out.",
            )
        warnings.warn(
            f"The gap in {name} of {self.names(self.target)}, {value:+.1f} points, is within 2 "
            f"standard errors of 0 ({chance}): it may be chance, and its sign wrong. Repairing it "
            "changes decisions for no proven reason.",
            FairmendWarning,
            stacklevel=3,
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

    def outcome(self, *, pooled: bool = True) -> KnownOutcome:
        """P(Y=1 | x), cross-fitted: of everybody, or of the target group alone.

        Where outcomes are not known the model's decisions stand in for them: as a ranking it is
        then the nearest thing to the score that the model does not give.
        """
        if pooled not in self.outcomes:
            self.outcomes[pooled] = self._fitted_outcome(pooled=pooled)
        return self.outcomes[pooled]

    def _fitted_outcome(self, *, pooled: bool) -> KnownOutcome:
        if self.source.tally is None:
            return KnownOutcome(self.table, self.source.outcome, None)
        assert self.data.table is not None
        table = self.data.table if pooled else self.table
        data, source = self.data, self.source
        if not data.outcome_known:
            data = replace(data, populations=tuple(map(_by_decision, data.populations)))
            source = _by_decision(source)
        assert source.tally is not None
        fitted = fit_probability(
            table,
            pooled_tally(data) if pooled else source.tally,
            what="P(Y=1 | x)" if pooled else f"P(Y=1 | x, {self.target})",
            estimator=self.outcome_model,
            boosting=False,  # a repair is stored as numbers
            random_state=self.random_state,
        )
        return KnownOutcome(table, fitted.probability, fitted)

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
        if len(rows) == 0:
            raise DataError(
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
        if len(kept) == len(self.cost.axes):
            raise DataError(
                "X",
                f"must hold something that members of {self.target!r} can take from other groups",
                f"what may change, {listed(telling)}, has one value in each group",
                "Nobody is edited into another group: allow edits of other features.",
            )
        warnings.warn(
            f"No member of {self.names(self.target)} is decided as wanted. They are edited to "
            f"resemble people of other groups, except in {listed(telling)}: it has one value in "
            "each group, and nobody is edited into another group.",
            FairmendWarning,
            stacklevel=5,
        )
        return replace(self.cost, cost=replace(rules, immutable=kept))

    def _closeness(self, rows: IntArray, answers: Answers) -> FloatArray:
        """Distance from the model's cut, by its score or by a stand-in fitted to its labels."""
        if answers.score is not None:
            cut = 0.5 if self.box is None else self.box.cut
            return np.abs(answers.score - cut)
        assert self.data.table is not None
        every, said = answers_of_all(self.data)
        table = self.data.table.take(every)
        features = FeatureMap.learn(table, np.ones(len(every)))
        weight = np.stack([1 - said.decision, said.decision], axis=1)
        with one_thread():
            stand_in = logistic_regression(100.0, features.apply(table), weight, flat=1e-6)
        margin = stand_in.decision_function(features.apply(self.data.table.take(rows)))
        return np.abs(np.asarray(margin, np.float64))

    def outlook(
        self,
        route: Route,
        unreachable: float | None = None,
        *,
        optimism: float = 0.0,
    ) -> Outlook:
        """What a law does to the target group's people in the audit data."""
        p, own = self.source.mass, self.source.decision
        decided = route.expected_decision(self.source.answers)
        measures = self._measures(decided)
        shown = max(measures, key=_furthest_from_its_aim)
        repaired = replace(self.source, decision=decided)
        # one of several, chosen for what is left of it: an interval for all of them at once
        confidence = 1 - (1 - CONFIDENCE) / len(measures)
        expected = self._compared(shown.disparity, repaired, self.other, confidence)
        edited, change = float(p @ route.moving), decided - own
        if unreachable is None:
            unreachable = 0.0 if route.unreachable is None else float(p @ route.unreachable)
        parts = () if self.sum_of is None else replace(self, sum_of=None)._measures(decided)
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
            optimism=optimism,
            tolerance=shown.tolerance,
        )


def _furthest_from_its_aim(measure: _Measure) -> tuple[float, float]:
    """Of several gaps the one to show: that which is most open, or else the widest before."""
    left = 0.0 if measure.closed else abs(measure.after - measure.aim)
    return (np.inf if np.isnan(left) else left, abs(measure.before))


def _edit_cost(table: Frame, source: Population, cost: Cost) -> EditCost:
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
        if not np.allclose(half, (none + all_) / 2):
            raise DataError(
                f"RateGap {disparity.name!r}",
                "must be linear in the decision to be repaired",
                "at h = 0.5 it is not half-way between h = 0 and h = 1",
                "A decision that is drawn has the mean of its two rates.",
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
    wider = lower_reach(CONFIDENCE, rivals) / lower_reach(CONFIDENCE, 1)
    low = max(-1.0, centre - wider * (centre - outlook.expected_low))
    return replace(plan, outlook=replace(outlook, expected_low=low))


def judged(gaps: Sequence[Gap]) -> tuple[Gap, ...]:
    """Those of one metric's gaps that can be judged; where none can, it is said."""
    found = tuple(gap for gap in gaps if gap.judged)
    if not found:
        one = gaps[0]
        whose = f" of {one.target}" if len(gaps) == 1 else ""
        warnings.warn(
            f"No gap in {one.metric}{whose} against {one.baseline} can be judged ({one.note}): "
            "nobody is edited. Audit more people, or compare larger groups.",
            FairmendWarning,
            stacklevel=4,
        )
    return found


def _telling(data: AuditData) -> list[str]:
    """Features that say which group somebody is of: one value in each group, not one in all."""
    assert data.table is not None
    names = []
    for name, column in zip(data.table.names, data.table.encoded, strict=True):
        values = [np.unique(column.codes[p.rows]) for p in data.populations]
        if all(len(own) == 1 for own in values) and len(np.unique(values)) > 1:
            names.append(name)
    return names


def _by_decision(population: Population) -> Population:
    """The people counted by decision instead of outcome.

    A decision counts for nine tenths of its kind: were it certain, all who are far from the cut
    would have the same probability, 0 or 1.
    """
    h, tally = 0.1 + 0.8 * population.decision, population.tally
    assert tally is not None
    fields = (tally.people, tally.weight, tally.squared)
    counts = (part.sum(axis=1) for part in fields)
    return replace(population, tally=Tally(*(np.stack([n * (1 - h), n * h], 1) for n in counts)))


def pooled_tally(data: AuditData) -> Tally:
    """Everybody, whatever the group, by row of the table and outcome."""
    assert data.table is not None

    def summed(field: str) -> FloatArray:
        total = np.zeros((len(data.table), 2))  # type: ignore[arg-type]
        for population in data.populations:
            np.add.at(total, np.asarray(population.rows), getattr(population.tally, field))
        return total

    return Tally(summed("people"), summed("weight"), summed("squared"))


def answers_of_all(data: AuditData) -> tuple[IntArray, Answers]:
    """Each row of the table that anybody has, with the model's answer."""
    rows = np.concatenate([np.asarray(p.rows) for p in data.populations])
    rows, first = np.unique(rows, return_index=True)
    decision = np.concatenate([p.decision for p in data.populations])[first]
    scores = [p.score for p in data.populations if p.score is not None]
    score = np.concatenate(scores)[first] if len(scores) == len(data.populations) else None
    return rows, Answers(decision, score)
