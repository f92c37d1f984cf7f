"""What a repair does to people it was not fitted on, as data.

The report takes a tabulated holdout and the plans' laws; it draws nothing, so its figures are exact
expectations over the few whose edit is left to chance. Gaps come in two readings: realised, where
everybody keeps their own outcome, and counterfactual, M(Q), where outcomes follow the edited inputs
through the target group's P(Y=1 | x). They agree for sp; people experience the first.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from fairmend.audit import METRICS, Audit, Gap, auc, audit_data
from fairmend.columns import FloatArray, Frame, scalar
from fairmend.data import AuditData, Population
from fairmend.disparity import Disparity, RateGap, as_disparity
from fairmend.files import refuse_existing, writing
from fairmend.filing import (
    PeopleCell,
    cells_of_data,
    filed_tables,
    group_metrics,
    impact_tables,
)
from fairmend.findings import Explanation, FrontierPoint, PlanSummary, Provenance
from fairmend.plan import Plan, Route
from fairmend.rows import differing, find_rows
from fairmend.tables import UNKNOWN, TextTable, percent, points
from fairmend.task import KnownOutcome

__all__ = ["Edit", "EditedFeature", "GroupOutcome", "Report", "make_report"]

NAN = float("nan")
MOST_EDITS = 5
"""Edits of a feature that are named, those that most people get."""


@dataclass(frozen=True)
class Edit:
    """One value turned into another."""

    old: str
    new: str
    share_of_edited: float


@dataclass(frozen=True)
class EditedFeature:
    """How often one feature of a group's people is edited, and its commonest edits."""

    feature: str
    share_of_edited: float
    commonest: str
    """From what to what, e.g. ``0 -> 1``."""
    edits: tuple[Edit, ...] = ()
    """The commonest few, with their shares of the edited people."""


@dataclass(frozen=True)
class GroupOutcome:
    """One group before and after."""

    group: Hashable
    n: int
    repaired: bool
    accuracy_before: float
    accuracy_after: float
    auc_before: float
    auc_after: float
    selected_before: float
    selected_after: float
    to_positive: float
    """Share of the group whose decision turns positive."""
    to_negative: float
    gained: float
    """Share of the group whose decision turns to the favourable one."""
    lost: float
    """Share of the group whose decision turns from the favourable one."""
    edited: float
    edits_per_person: float
    """Mean number of features edited among the edited."""
    cost: float
    """Mean cost of an edit among the edited."""
    randomised: float
    unreachable: float
    """Share of the group that the rule would edit but no allowed edit helps."""
    unseen: float
    """Share of the group on rows that the audit did not see."""
    features: tuple[EditedFeature, ...]
    counterfactual: tuple[tuple[str, float, float], ...] = ()
    """Each metric of the repair with M before and M(Q) after: the gap if outcomes followed the
    edited inputs through the group's P(Y=1 | x). Empty where there is no such model."""


@dataclass(frozen=True)
class Report:
    """Gaps before and after with intervals, and what happened to whom."""

    before: Audit
    after: Audit
    groups: tuple[GroupOutcome, ...]
    metric: str
    accuracy_before: float
    accuracy_after: float
    favourable: str = ""
    """The decision people want, as it is called in the data."""
    favours_positive: bool = True
    cells_before: tuple[PeopleCell, ...] = ()
    """People by label and decision, for the tables to file; empty where nobody is counted."""
    cells_after: tuple[PeopleCell, ...] = ()
    plans: tuple[PlanSummary, ...] = ()
    explanation: Explanation | None = None
    frontier: tuple[FrontierPoint, ...] = ()
    provenance: Provenance | None = None

    def verdict(self) -> tuple[tuple[str, str], ...]:
        """The report in a few questions, each with its answer."""
        from fairmend.verdict import verdict

        return verdict(self)

    @property
    def on_its_own_data(self) -> bool:
        """Whether it is about the very people the repair was fitted on."""
        made = self.provenance
        return made is not None and made.audit_data == made.report_data

    def at_level(self, level: float) -> tuple[FrontierPoint, ...]:
        """What the repair does as points of a frontier, one per repaired group."""
        found = []
        ratios = {group.group: group.impact_ratio for group in self.after.groups}
        for group in self.groups:
            if group.repaired:
                gap = self.gap(self.after, group.group)
                low, high = (gap.low, gap.high) if gap is not None else (NAN, NAN)
                found.append(
                    FrontierPoint(
                        level=level,
                        group=group.group,
                        gap=NAN if gap is None else gap.gap,
                        low=low,
                        high=high,
                        impact_ratio=ratios[group.group],
                        accuracy=self.accuracy_after,
                        auc=group.auc_after,
                        edited=group.edited,
                        gained=group.gained,
                        lost=group.lost,
                        randomised=group.randomised,
                        cost=group.cost,
                    )
                )
        return tuple(found)

    def gap(self, audit: Audit, group: Hashable) -> Gap | None:
        """The gap that is repaired, of one group; None where it was not compared."""
        for gap in audit.gaps:
            if gap.metric == self.metric and gap.target == group:
                return gap
        return None

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, ready for JSON."""
        attribute = self.before.attribute
        sides = {"before": self.cells_before, "after": self.cells_after}
        return {
            "schema": "fairmend.report/1",
            "metric": self.metric,
            "favourable": self.favourable,
            "favours_positive": self.favours_positive,
            "verdict": [{"question": q, "answer": a} for q, a in self.verdict()],
            "accuracy_before": self.accuracy_before,
            "accuracy_after": self.accuracy_after,
            "before": self.before.to_dict(),
            "after": self.after.to_dict(),
            "groups": _plain([asdict(group) for group in self.groups]),
            "plans": _plain([asdict(plan) for plan in self.plans]),
            "explanation": None if self.explanation is None else _plain(asdict(self.explanation)),
            "frontier": _plain([asdict(point) for point in self.frontier]),
            "filing": {
                "impact": {
                    side: _plain([asdict(table) for table in impact_tables(attribute, cells)])
                    for side, cells in sides.items()
                },
                "local_law_144": {
                    side: _plain([asdict(table) for table in filed_tables(attribute, cells)])
                    for side, cells in sides.items()
                },
                "metrics": {
                    side: _plain([asdict(line) for line in group_metrics(audit)])
                    for side, audit in (("before", self.before), ("after", self.after))
                },
            },
            "provenance": None if self.provenance is None else _plain(asdict(self.provenance)),
        }

    def to_html(self) -> str:
        """The whole report as one page that needs no network; write it with `save_html`."""
        from fairmend.page import report_page

        return report_page(self)

    def save_html(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the page, whole or not at all."""
        refuse_existing(Path(path), overwrite=overwrite)
        page = self.to_html().encode()
        with writing(path, overwrite=overwrite) as file:
            file.write(page)
        return Path(path)

    def _tables(self) -> list[TextTable]:
        gaps = TextTable(
            "Gaps before and after the repair, in points",
            ("<metric", "<group", "<against", "before", "interval", "after", "interval"),
            [
                (
                    old.metric,
                    str(old.target),
                    str(old.baseline),
                    points(old.gap),
                    _interval(old.low, old.high),
                    points(new.gap),
                    _interval(new.low, new.high),
                )
                for old, new in zip(self.before.gaps, self.after.gaps, strict=True)
            ],
        )
        people = TextTable(
            "",
            ("<group", "people", "accuracy", "after", "AUC", "after", "edited", "edits",
             "gain", "lose", "drawn", "blocked", "unseen"),
            [
                (
                    str(group.group),
                    f"{group.n:,}",
                    percent(group.accuracy_before),
                    percent(group.accuracy_after),
                    _decimals(group.auc_before),
                    _decimals(group.auc_after),
                    percent(group.edited),
                    f"{group.edits_per_person:.1f}" if group.edited > 0 else UNKNOWN,
                    percent(group.gained),
                    percent(group.lost),
                    percent(group.randomised),
                    percent(group.unreachable),
                    percent(group.unseen),
                )
                for group in self.groups
            ],
            ["gain, lose: people whose decision turns to or from the favourable one"],
        )  # fmt: skip
        followed = TextTable(
            "The same if outcomes followed the edited inputs, M(Q)",
            ("<metric", "<group", "before", "after"),
            [
                (metric, str(group.group), points(before), points(after))
                for group in self.groups
                for metric, before, after in group.counterfactual
            ],
        )
        edits = TextTable(
            "Features edited, as a share of the edited people",
            ("<group", "<feature", "edited", "<mostly"),
            [
                (str(group.group), one.feature, percent(one.share_of_edited), one.commonest)
                for group in self.groups
                for one in group.features
            ],
        )
        return [table for table in (gaps, people, followed, edits) if table.cells]

    def __str__(self) -> str:
        tables = "\n\n".join(str(table) for table in self._tables())
        return (
            f"{tables}\n\nAccuracy overall {percent(self.accuracy_before)} before, "
            f"{percent(self.accuracy_after)} after."
        )

    def _repr_html_(self) -> str:
        said = "".join(
            f"<p><strong>{escape(question)}</strong> {escape(answer)}</p>"
            for question, answer in self.verdict()
        )
        return said + "".join(table.html() for table in self._tables())


def _plain(value: Any) -> Any:
    """Values as JSON knows them: what is not known is None, labels of other kinds are text."""
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, float):
        return float(value) if np.isfinite(value) else None
    return value if isinstance(value, str | int | None) else str(value)


def _interval(low: float, high: float) -> str:
    return UNKNOWN if np.isnan(low) else f"[{100 * low:+.1f}, {100 * high:+.1f}]"


def _decimals(value: float) -> str:
    return UNKNOWN if np.isnan(value) else f"{value:.3f}"


# -------------------------------------------------------------------- making it


def make_report(
    data: AuditData,
    plans: Mapping[Hashable, Plan],
    audited: AuditData,
    *,
    disparities: Sequence[Disparity],
    outcomes: Mapping[Hashable, KnownOutcome | None],
    scores_are_probabilities: bool,
    favours_positive: bool = True,
) -> Report:
    """Put the plans to new data and compare.

    ``outcomes`` are the groups' own models of P(Y=1 | x), for the counterfactual reading. People
    whose edit is drawn are ranked by their expected probability, as `predict_proba` gives it; other
    scores are not averaged, and those people count with each of theirs.
    """
    assert data.table is not None
    routes = {
        group: plan.route(data.table.take(np.asarray(data[group].rows)), data[group].answers)
        for group, plan in plans.items()
        if group in data.groups
    }
    after = replace(
        data,
        populations=tuple(
            _repaired(population, routes.get(group))
            for group, population in zip(data.groups, data.populations, strict=True)
        ),
    )
    metrics = {d.name: d for d in (*map(as_disparity, METRICS), *disparities)}
    audits = [
        audit_data(each, metrics=list(metrics.values()), reference=_reference(plans))
        for each in (data, after)
    ]
    groups = []
    for group in data.groups:
        outcome = _outcome(data, after, group, routes.get(group), audited)
        if group in routes and not scores_are_probabilities:
            outcome = replace(outcome, auc_after=_auc_by_law(data[group], routes[group]))
        if not favours_positive:
            outcome = replace(outcome, gained=outcome.lost, lost=outcome.gained)
        known = outcomes.get(group)
        if group in routes and known is not None:
            baseline = plans[group].baseline
            other = data.rest(group) if baseline == "rest" else data[baseline]
            rows = data.table.take(np.asarray(data[group].rows))
            followed = _counterfactual(
                rows, data[group], routes[group], other, disparities=disparities, known=known
            )
            outcome = replace(outcome, counterfactual=followed)
        groups.append(outcome)
    return Report(
        before=audits[0],
        after=audits[1],
        groups=tuple(groups),
        metric=disparities[0].name,
        accuracy_before=_overall(data),
        accuracy_after=_overall(after),
        favours_positive=favours_positive,
        favourable=str(data.labels.positive if favours_positive else data.labels.negative),
        cells_before=cells_of_data(data),
        cells_after=cells_of_data(after),
        plans=tuple(PlanSummary.of(plan) for group, plan in plans.items() if group in routes),
    )


def _reference(plans: Mapping[Hashable, Plan]) -> Hashable:
    """One reference for both audits, or before and after would compare different groups."""
    named = {plan.baseline for plan in plans.values()}
    return named.pop() if len(named) == 1 else "rest"


def _repaired(population: Population, route: Route | None) -> Population:
    if route is None:
        return population
    decision, score = route.expected_decision(population.answers), population.score
    if score is not None and route.score is not None:
        score = route.expected(score, route.score)
    return replace(population, decision=decision, score=score)


def _auc_by_law(population: Population, route: Route) -> float:
    """The AUC of the scores people draw: each chance counts as so much of a person."""
    if population.score is None:
        return float("nan")
    score = population.score[route.row]
    away = route.destination >= 0
    if route.score is not None:
        score[away] = route.score[route.destination[away]]
    mass = population.mass[route.row] * route.probability
    outcome = population.outcome[route.row]
    return auc(Population.of(mass, population.decision[route.row], outcome, score=score))


def _counterfactual(
    rows: Frame,
    old: Population,
    route: Route,
    baseline: Population,
    *,
    disparities: Sequence[Disparity],
    known: KnownOutcome,
) -> tuple[tuple[str, float, float], ...]:
    """M before and M(Q) after of each gap of rates, outcomes by the group's own model."""
    outcome = known.of(rows)
    modelled = Population.of(old.mass, old.decision, outcome)
    decision, expected = old.decision[route.row], outcome[route.row]
    away = route.destination >= 0
    if route.table is not None and away.any():
        decision[away] = route.decision[route.destination[away]]
        expected[away] = known.of(route.table)[route.destination[away]]
    shifted = Population.of(old.mass[route.row] * route.probability, decision, expected)
    return tuple(
        (one.name, one.value(modelled, baseline), one.value(shifted, baseline))
        for one in disparities
        if isinstance(one, RateGap)
    )


def _outcome(
    data: AuditData, after: AuditData, group: Hashable, route: Route | None, audited: AuditData
) -> GroupOutcome:
    assert data.table is not None
    old, new = data[group], after[group]
    p = old.mass
    change = new.decision - old.decision
    to_positive, to_negative = (float(p @ np.maximum(side * change, 0.0)) for side in (1, -1))
    rows = data.table.take(np.asarray(old.rows))
    unseen = unreachable = edited = edits = cost = drawn = 0.0
    features: list[EditedFeature] = []
    if route is not None:
        assert audited.table is not None
        known = audited.table.take(np.asarray(audited[group].rows))
        unseen = float(p[find_rows(known, rows) < 0].sum())
        edited, drawn = float(p @ route.moving), float(p @ route.random)
        unreachable = 0.0 if route.unreachable is None else float(p @ route.unreachable)
        cost = float(p @ route.expected_cost()) / edited if edited > 0 else 0.0
        features, edits = _edited_features(rows, p, route)
    return GroupOutcome(
        group=group,
        n=old.n,
        repaired=route is not None,
        accuracy_before=_accuracy(old),
        accuracy_after=_accuracy(new),
        auc_before=auc(old),
        auc_after=auc(new),
        selected_before=float(p @ old.decision),
        selected_after=float(p @ new.decision),
        to_positive=to_positive,
        to_negative=to_negative,
        gained=to_positive,
        lost=to_negative,
        edited=edited,
        edits_per_person=edits,
        cost=cost,
        randomised=drawn,
        unreachable=unreachable,
        unseen=unseen,
        features=tuple(features),
    )


def _overall(data: AuditData) -> float:
    """Accuracy over everybody, each weighing what they weigh."""
    total = np.array([p.tally.weight.sum() for p in data.populations if p.tally is not None])
    return float(total @ [_accuracy(p) for p in data.populations] / total.sum())


def _accuracy(population: Population) -> float:
    y, h = population.outcome, population.decision
    return float(population.mass @ (y * h + (1 - y) * (1 - h)))


def _edited_features(
    rows: Frame, mass: FloatArray, route: Route
) -> tuple[list[EditedFeature], float]:
    """Which features change for the edited, most often first; and how many a person."""
    away = np.flatnonzero(route.destination >= 0)
    if len(away) == 0 or route.table is None:
        return [], 0.0
    here, there = rows.take(route.row[away]), route.table.take(route.destination[away])
    weight = mass[route.row[away]] * route.probability[away]
    changed = differing(here, there)
    total = float(weight.sum())
    shares = weight @ changed / total
    lines = []
    for j, name in enumerate(rows.names):
        if shares[j] > 0:
            edits = _commonest(here, there, j, weight * changed[:, j] / total)
            commonest = f"{edits[0].old} -> {edits[0].new}"
            lines.append(EditedFeature(str(name), float(shares[j]), commonest, edits))
    lines.sort(key=lambda line: -line.share_of_edited)
    return lines, float(weight @ changed.sum(axis=1)) / total


def _commonest(rows: Frame, there: Frame, j: int, weight: FloatArray) -> tuple[Edit, ...]:
    """The edits of one feature that most people get, most first."""
    here, to = rows.encoded[j], there.encoded[j]
    code = here.codes.astype(np.int64) * len(to.values) + to.codes
    pairs, place = np.unique(code, return_inverse=True)
    share = np.bincount(place, weight)
    top = [i for i in np.argsort(-share, kind="stable")[:MOST_EDITS] if share[i] > 0]
    return tuple(
        Edit(
            _short(here.values[pairs[i] // len(to.values)]),
            _short(to.values[pairs[i] % len(to.values)]),
            float(share[i]),
        )
        for i in top
    )


def _short(value: Any) -> str:
    plain = scalar(value)
    return f"{plain:g}" if isinstance(plain, float) else str(plain)
