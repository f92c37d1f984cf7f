"""Plans are applied to tabulated people and compared with the model alone: the report's figures.

Nothing is drawn. The figures come from the plans' laws: they are exact expectations over the few
people whose edit is randomised.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairmend.data.columns import FloatArray, Frame
from fairmend.data.rows import find_rows
from fairmend.measure.audit import auc, audit_data
from fairmend.measure.disparity import Disparity, RateGap, as_disparity
from fairmend.measure.metrics import default_metrics
from fairmend.measure.population import AuditData, Population
from fairmend.repair.plan import Plan, Route
from fairmend.repair.probabilities import RowProbabilities
from fairmend.report.edits import edited_features
from fairmend.report.filing import cells_of_data
from fairmend.report.findings import FrontierPoint, PlanSummary
from fairmend.report.report import NAN, GroupOutcome, Report

__all__ = ["frontier_points", "make_report"]


def make_report(
    data: AuditData,
    plans: Mapping[Hashable, Plan],
    audited: AuditData,
    *,
    disparities: Sequence[Disparity],
    outcomes: Mapping[Hashable, RowProbabilities | None],
    scores_are_probabilities: bool,
    favours_positive: bool,
    reference: Hashable,
    smallest_cell: int,
) -> Report:
    """Apply the plans to new data and compare.

    ``reference`` is that of the audits where there is no plan to name one. ``outcomes`` are the
    groups' own models of P(Y=1 | x), for the counterfactual reading. People whose edit is
    randomised are ranked by their expected probability, as `predict_proba` gives it; other scores
    are not averaged, and those people count with each of theirs.
    """
    applied = _Applied.of(
        data, plans, probabilities=scores_are_probabilities, favours_positive=favours_positive
    )
    usual = default_metrics(outcome_known=data.outcome_known)
    metrics = {d.name: d for d in (*map(as_disparity, usual), *disparities)}
    before, after = (
        audit_data(each, metrics=list(metrics.values()), reference=_reference(plans, reference))
        for each in (data, applied.after)
    )
    groups = []
    for group in data.groups:
        outcome = applied.outcome(group)
        if group in applied.routes:
            blind = _rule_for_all(plans) is not None
            seen = audited.table if blind else _rows(audited, group)
            outcome = applied.with_edits(outcome, seen, smallest_cell)
            model = outcomes.get(group)
            if model is not None:
                other = data.against(group, plans[group].baseline)
                followed = applied.counterfactual(group, other, disparities, model)
                outcome = replace(outcome, counterfactual=followed)
        groups.append(outcome)
    return Report(
        before=before,
        after=after,
        groups=tuple(groups),
        metric=disparities[0].name,
        accuracy_before=_overall(data),
        accuracy_after=_overall(applied.after),
        favours_positive=favours_positive,
        favourable=str(data.labels.positive if favours_positive else data.labels.negative),
        cells_before=cells_of_data(data),
        cells_after=cells_of_data(applied.after),
        plans=tuple(
            PlanSummary.of(plan) for group, plan in plans.items() if group in applied.routes
        ),
        smallest_cell=smallest_cell,
        blind=_rule_for_all(plans) is not None,
    )


def frontier_points(
    data: AuditData,
    plans: Mapping[Hashable, Plan],
    level: float,
    *,
    disparity: Disparity,
    scores_are_probabilities: bool,
    favours_positive: bool,
) -> list[FrontierPoint]:
    """What plans of some level do, one point per repaired group."""
    applied = _Applied.of(
        data, plans, probabilities=scores_are_probabilities, favours_positive=favours_positive
    )
    audit = audit_data(applied.after, metrics=[disparity], reference=_reference(plans))
    gaps = {gap.target: (gap.gap, gap.low, gap.high) for gap in audit.gaps}
    ratios = {group.group: group.impact_ratio for group in audit.groups}
    accuracy = _overall(applied.after)
    points = []
    for group in applied.routes:
        outcome, gap = applied.outcome(group), gaps.get(group, (NAN, NAN, NAN))
        shares = ("edited", "gained", "lost", "randomised", "cost")
        figures = {name: getattr(outcome, name) for name in shares} | {"auc": outcome.auc_after}
        points.append(FrontierPoint(level, group, *gap, ratios[group], accuracy, **figures))
    return points


@dataclass(frozen=True, eq=False)
class _Applied:
    """People under the laws of the plans."""

    data: AuditData
    after: AuditData
    routes: dict[Hashable, Route]
    """Of the groups that are repaired and present, in the order of the data."""
    probabilities: bool
    favours_positive: bool

    @classmethod
    def of(
        cls,
        data: AuditData,
        plans: Mapping[Hashable, Plan],
        *,
        probabilities: bool,
        favours_positive: bool,
    ) -> _Applied:
        rule = _rule_for_all(plans)
        routes = {
            group: plan.route(_rows(data, group), data[group].answers)
            for group in data.groups
            for plan in [plans.get(group, rule)]
            if plan is not None
        }
        repaired = (
            _repaired(population, routes[group]) if group in routes else population
            for group, population in zip(data.groups, data.populations, strict=True)
        )
        after = replace(data, populations=tuple(repaired))
        return cls(data, after, routes, probabilities, favours_positive)

    def outcome(self, group: Hashable) -> GroupOutcome:
        """What happens to a group, without its features and unseen rows."""
        old, new, route = self.data[group], self.after[group], self.routes.get(group)
        change = new.decision - old.decision
        favoured = change if self.favours_positive else -change
        had = old.decision if self.favours_positive else 1 - old.decision
        count = _people(old).sum(axis=1)

        def effects(weight: FloatArray, prefix: str = "") -> dict[str, Any]:
            figures = {
                "gained": weight @ np.maximum(favoured, 0.0),
                "lost": weight @ np.maximum(-favoured, 0.0),
                "edited": 0.0 if route is None else weight @ route.moving,
                "randomised": 0.0 if route is None else weight @ route.random,
                "unreachable": 0.0
                if route is None or route.unreachable is None
                else weight @ route.unreachable,
            }
            return {f"{prefix}{name}": float(figure) for name, figure in figures.items()}

        shares, people = effects(old.mass), effects(count, "people_")
        for side, flipped in (("gained", favoured), ("lost", -favoured)):
            by_outcome = np.maximum(flipped, 0.0) @ _people(old)
            people[f"people_{side}"] = float(by_outcome.sum())
            for place, name in enumerate(("negative", "positive")):
                has_outcomes = self.data.outcome_known
                people[f"people_{side}_{name}"] = float(by_outcome[place]) if has_outcomes else NAN
        cost, auc_after = 0.0, auc(new)
        if route is not None:
            edited = shares["edited"]
            cost = float(old.mass @ route.expected_cost()) / edited if edited > 0 else 0.0
            auc_after = auc_after if self.probabilities else _auc_by_law(old, route)
        return GroupOutcome(
            group=group,
            n=old.n,
            repaired=route is not None,
            accuracy_before=_accuracy(old),
            accuracy_after=_accuracy(new),
            auc_before=auc(old),
            auc_after=auc_after,
            selected_before=float(old.mass @ old.decision),
            selected_after=float(old.mass @ new.decision),
            to_positive=shares["gained" if self.favours_positive else "lost"],
            to_negative=shares["lost" if self.favours_positive else "gained"],
            edits_per_person=0.0,
            cost=cost,
            unseen=0.0,
            features=(),
            people_favourable_before=float(count @ had),
            **shares,
            **people,
        )

    def with_edits(self, outcome: GroupOutcome, seen: Frame | None, least: int) -> GroupOutcome:
        """Add which features are edited, and how many people are on rows not seen in the audit."""
        assert seen is not None
        old, route = self.data[outcome.group], self.routes[outcome.group]
        rows = _rows(self.data, outcome.group)
        features, edits = edited_features(rows, old, route, least)
        unseen = find_rows(seen, rows) < 0
        return replace(
            outcome,
            features=tuple(features),
            edits_per_person=edits,
            unseen=float(old.mass[unseen].sum()),
            people_unseen=float(_people(old)[unseen].sum()),
        )

    def counterfactual(
        self,
        group: Hashable,
        baseline: Population,
        disparities: Sequence[Disparity],
        model: RowProbabilities,
    ) -> tuple[tuple[str, float, float], ...]:
        """M before and M(Q) after of each gap of rates, outcomes by the group's own model."""
        old, route = self.data[group], self.routes[group]
        outcome = model.of(_rows(self.data, group))
        modelled = Population.of(old.mass, old.decision, outcome)
        decision, expected = old.decision[route.row], outcome[route.row]
        away = route.destination >= 0
        if route.table is not None and away.any():
            decision[away] = route.decision[route.destination[away]]
            expected[away] = model.of(route.table)[route.destination[away]]
        shifted = Population.of(old.mass[route.row] * route.probability, decision, expected)
        return tuple(
            (one.name, one.value(modelled, baseline), one.value(shifted, baseline))
            for one in disparities
            if isinstance(one, RateGap)
        )


def _rule_for_all(plans: Mapping[Hashable, Plan]) -> Plan | None:
    """A plan that reads no group, which holds for people of groups without a plan as well."""
    return next((plan for plan in plans.values() if not plan.reads_group), None)


def _rows(data: AuditData, group: Hashable) -> Frame:
    assert data.table is not None
    return data.table.take(np.asarray(data[group].rows))


def _people(population: Population) -> FloatArray:
    """People per row and outcome, whatever they weigh; none behind an exact distribution."""
    if population.tally is None:
        return np.zeros((len(population), 2))
    return population.tally.people


def _reference(plans: Mapping[Hashable, Plan], otherwise: Hashable = "best") -> Hashable:
    """One reference for both audits, or before and after would compare different groups.

    Where all groups meet at one rate the reference has a plan too, against the worst-off.
    """
    worst = max(plans.values(), key=lambda plan: plan.outlook.gap_before, default=None)
    return otherwise if worst is None else worst.baseline


def _repaired(population: Population, route: Route) -> Population:
    decision, score = route.expected_decision(population.answers), population.score
    if score is not None and route.score is not None:
        score = route.expected(score, route.score)
    return replace(population, decision=decision, score=score)


def _auc_by_law(population: Population, route: Route) -> float:
    """The AUC of the scores people draw: each chance counts as so much of a person."""
    if population.score is None:
        return NAN
    score = population.score[route.row]
    away = route.destination >= 0
    if route.score is not None:
        score[away] = route.score[route.destination[away]]
    mass = population.mass[route.row] * route.probability
    outcome = population.outcome[route.row]
    return auc(Population.of(mass, population.decision[route.row], outcome, score=score))


def _overall(data: AuditData) -> float:
    """Accuracy over everybody, each weighing what they weigh."""
    total = np.array([p.tally.weight.sum() for p in data.populations if p.tally is not None])
    return float(total @ [_accuracy(p) for p in data.populations] / total.sum())


def _accuracy(population: Population) -> float:
    y, h = population.outcome, population.decision
    return float(population.mass @ (y * h + (1 - y) * (1 - h)))
