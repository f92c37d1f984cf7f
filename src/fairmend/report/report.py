"""What a repair does to people, as data.

The report takes tabulated people and the plans' laws; it draws nothing, so its figures are exact
expectations over the few whose edit is left to chance. Gaps come in two readings: realised, where
everybody keeps their own outcome, and counterfactual, M(Q), where outcomes follow the edited inputs
through the target group's P(Y=1 | x). They agree for sp; people experience the first. Values that
fewer than a smallest number of people have are suppressed. Shares are weighted where weights are in
force; people are counted.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from fairmend import doors
from fairmend.data.columns import (
    Encoded,
    FloatArray,
    Frame,
    IntArray,
    as_numbers,
    is_missing,
    scalar,
)
from fairmend.data.files import refuse_existing, writing
from fairmend.data.naming import GroupNames
from fairmend.data.rows import differing, find_rows
from fairmend.measure.audit import auc, audit_data
from fairmend.measure.disparity import Disparity, RateGap, as_disparity, default_metrics
from fairmend.measure.population import AuditData, Population
from fairmend.measure.result import Audit, Gap
from fairmend.measure.wording import share
from fairmend.repair.outcomes import RowOutcomes
from fairmend.repair.plan import Plan, Route
from fairmend.report.filing import (
    PeopleCell,
    cells_of_data,
    filed_tables,
    group_metrics,
    impact_tables,
)
from fairmend.report.findings import (
    SMALLEST_CELL,
    Explanation,
    FrontierPoint,
    PlanSummary,
    Provenance,
    heads,
    rounded,
)
from fairmend.report.verdict import verdict, whose
from fairmend.tables import UNKNOWN, TextTable, number, percent, points

__all__ = [
    "Edit",
    "EditedFeature",
    "GroupOutcome",
    "NumberChange",
    "Report",
    "frontier_points",
    "make_report",
]

NAN = float("nan")
MOST_EDITS = 5
"""Edits of a feature that are named, those that most people get."""
MANY_VALUES = 10
"""Numbers with more values than this are told by their median change."""
WEIGHTED = "Rates and shares are weighted; people are counted."
SLACK = 1e-9
"""People under a law are sums of chances."""


@dataclass(frozen=True)
class Edit:
    """One value turned into another."""

    old: str
    new: str
    share_of_edited: float


@dataclass(frozen=True)
class NumberChange:
    """How a number of many values is edited: medians over people, rounded so as to name nobody."""

    share_of_edited: float
    median: float
    """Of the changes."""
    old_median: float
    new_median: float
    rises: float
    """The share of them whose number rises."""


@dataclass(frozen=True)
class EditedFeature:
    """How often one feature of a group's people is edited, and how."""

    feature: str
    share_of_edited: float
    how: str
    """The commonest edit, e.g. ``0 -> 1``, or the median change, if enough people have it."""
    edits: tuple[Edit, ...] = ()
    """The commonest few, with their shares of the edited people."""
    change: NumberChange | None = None
    """Instead of edits, for numbers of many values."""
    not_shown: int = 0
    """Edits that fewer people have than may be shown."""


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
    people_favourable_before: float = 0.0
    """People with the favourable decision before the repair; shares above are weighted where
    weights are in force, these are always people counted, as expected over draws."""
    people_edited: float = 0.0
    people_gained: float = 0.0
    people_gained_positive: float = 0.0
    """Of those who gain, people with a positive outcome on record; nan where it is not known."""
    people_gained_negative: float = 0.0
    people_lost: float = 0.0
    people_lost_positive: float = 0.0
    people_lost_negative: float = 0.0
    people_randomised: float = 0.0
    people_unreachable: float = 0.0
    people_unseen: float = 0.0


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
    smallest_cell: int = SMALLEST_CELL
    """What fewer people share is not shown."""

    @property
    def outcome_known(self) -> bool:
        """Whether what really happened was told; without it nothing is said of being right."""
        return not np.isnan(self.accuracy_before)

    def verdict(self) -> tuple[tuple[str, str], ...]:
        """The report in a few questions, each with its answer."""
        return verdict(self)

    @property
    def holdout(self) -> bool | None:
        """Whether its people are a holdout: not those of `fit`; None where that is not known."""
        return None if self.provenance is None else self.provenance.is_holdout

    @property
    def n(self) -> int:
        return sum(group.n for group in self.groups)

    def gap(self, audit: Audit, group: Hashable, metric: str | None = None) -> Gap | None:
        """The gap that is repaired, of one group; None where it was not compared."""
        for gap in audit.gaps:
            if gap.metric == (metric or self.metric) and gap.target == group:
                return gap
        return None

    @property
    def names(self) -> GroupNames:
        """What people read for the groups."""
        return self.before.names

    @property
    def order(self) -> tuple[Hashable, ...]:
        """The groups, the worst-off by the metric of the repair first and the reference last."""
        return self.before.worst_first(self.metric)

    @property
    def groups_in_order(self) -> tuple[GroupOutcome, ...]:
        return tuple(sorted(self.groups, key=lambda one: self.order.index(one.group)))

    @property
    def plans_in_order(self) -> tuple[PlanSummary, ...]:
        return tuple(sorted(self.plans, key=lambda plan: self.order.index(plan.target)))

    @property
    def gaps_in_order(self) -> list[tuple[Gap, Gap]]:
        """Each gap before and after, metric by metric, the worst-off group first."""
        metrics = list(dict.fromkeys(gap.metric for gap in self.before.gaps))
        return sorted(
            zip(self.before.gaps, self.after.gaps, strict=True),
            key=lambda pair: (metrics.index(pair[0].metric), self.order.index(pair[0].target)),
        )

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
            "accuracy_before": _plain(self.accuracy_before),
            "accuracy_after": _plain(self.accuracy_after),
            "smallest_cell": self.smallest_cell,
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
        return doors.report_page(self)

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
                    self.names(old.target),
                    self.names(old.baseline),
                    points(old.gap),
                    _interval(old.low, old.high),
                    points(new.gap),
                    _interval(new.low, new.high),
                )
                for old, new in self.gaps_in_order
            ],
        )
        right = TextTable(
            "",
            ("<group", "people", "accuracy", "after", "AUC", "after"),
            [
                (
                    self.names(group.group),
                    f"{group.n:,}",
                    percent(group.accuracy_before),
                    percent(group.accuracy_after),
                    _decimals(group.auc_before),
                    _decimals(group.auc_after),
                )
                for group in self.groups_in_order
            ],
        )
        people = TextTable(
            "",
            ("<group", "people", "edited", "edits", "gain", "lose", "randomised", "unreachable",
             "unseen"),
            [
                (
                    self.names(group.group),
                    f"{group.n:,}",
                    share(group.edited),
                    f"{group.edits_per_person:.1f}" if group.edited > 0 else UNKNOWN,
                    share(group.gained),
                    share(group.lost),
                    share(group.randomised),
                    share(group.unreachable),
                    share(group.unseen),
                )
                for group in self.groups_in_order
            ],
            [
                "gain, lose: people whose decision flips to or from the favourable one",
                "randomised: people whose edit is decided by a draw",
                "unreachable: people whom the rule would edit, but no allowed edit helps",
                "unseen: people whose inputs the audit did not have; the rule applies to them too",
                *([WEIGHTED] if self.before.weighted else []),
            ],
        )  # fmt: skip
        followed = TextTable(
            "The same if outcomes followed the edited inputs, M(Q)",
            ("<metric", "<group", "before", "after"),
            [
                (metric, self.names(group.group), points(before), points(after))
                for group in self.groups_in_order
                for metric, before, after in group.counterfactual
            ],
        )
        edits = TextTable(
            "Features edited, as a share of the edited people",
            ("<group", "<feature", "edited", "<how"),
            [
                (self.names(group.group), one.feature, share(one.share_of_edited), one.how)
                for group in self.groups_in_order
                for one in group.features
            ],
        )
        return [table for table in (gaps, right, people, followed, edits) if table.cells]

    def __str__(self) -> str:
        tables = "\n\n".join(str(table) for table in self._tables())
        right = (
            f"Accuracy overall {percent(self.accuracy_before)} before, "
            f"{percent(self.accuracy_after)} after. "
            if self.outcome_known
            else ""
        )
        return f"{tables}\n\n{right}{whose(self)}"

    def _repr_html_(self) -> str:
        said = "".join(
            f"<p><strong>{escape(question)}</strong> {escape(answer).replace(chr(10), '<br>')}</p>"
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
    outcomes: Mapping[Hashable, RowOutcomes | None],
    scores_are_probabilities: bool,
    favours_positive: bool = True,
    reference: Hashable = "best",
    smallest_cell: int = SMALLEST_CELL,
) -> Report:
    """Put the plans to new data and compare.

    ``reference`` is that of the audits where there is no plan to name one. ``outcomes`` are the
    groups' own models of P(Y=1 | x), for the counterfactual reading. People
    whose edit is drawn are ranked by their expected probability, as `predict_proba` gives it; other
    scores are not averaged, and those people count with each of theirs.
    """
    applied = _Applied.of(
        data, plans, probabilities=scores_are_probabilities, favours_positive=favours_positive
    )
    usual = default_metrics(outcome_known=data.outcome_known)
    metrics = {d.name: d for d in (*map(as_disparity, usual), *disparities)}
    audits = [
        audit_data(each, metrics=list(metrics.values()), reference=_reference(plans, reference))
        for each in (data, applied.after)
    ]
    groups = []
    for group in data.groups:
        outcome, route = applied.outcome(group), applied.routes.get(group)
        if route is not None:
            rows, old = applied.rows(group), data[group]
            features, edits = _edited_features(rows, old, route, smallest_cell)
            outcome = replace(
                outcome,
                features=tuple(features),
                edits_per_person=edits,
                unseen=_unseen(rows, old.mass, audited, group),
                people_unseen=_unseen(rows, _people(old).sum(axis=1), audited, group),
            )
            known, baseline = outcomes.get(group), plans[group].baseline
            if known is not None:
                other = data.rest(group) if baseline == "rest" else data[baseline]
                followed = _counterfactual(
                    rows, old, route, other, disparities=disparities, known=known
                )
                outcome = replace(outcome, counterfactual=followed)
        groups.append(outcome)
    return Report(
        before=audits[0],
        after=audits[1],
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
    )


def frontier_points(
    data: AuditData,
    plans: Mapping[Hashable, Plan],
    level: float,
    *,
    disparity: Disparity,
    scores_are_probabilities: bool,
    favours_positive: bool = True,
) -> list[FrontierPoint]:
    """What plans of some level do, one point per repaired group."""
    applied = _Applied.of(
        data, plans, probabilities=scores_are_probabilities, favours_positive=favours_positive
    )
    audit = audit_data(applied.after, metrics=[disparity], reference=_reference(plans))
    gaps = {gap.target: gap for gap in audit.gaps}
    ratios = {group.group: group.impact_ratio for group in audit.groups}
    accuracy = _overall(applied.after)
    points = []
    for group in applied.routes:
        outcome, gap = applied.outcome(group), gaps.get(group)
        points.append(
            FrontierPoint(
                level=level,
                group=group,
                gap=NAN if gap is None else gap.gap,
                low=NAN if gap is None else gap.low,
                high=NAN if gap is None else gap.high,
                impact_ratio=ratios[group],
                accuracy=accuracy,
                auc=outcome.auc_after,
                edited=outcome.edited,
                gained=outcome.gained,
                lost=outcome.lost,
                randomised=outcome.randomised,
                cost=outcome.cost,
            )
        )
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
        assert data.table is not None
        routes = {
            group: plans[group].route(
                data.table.take(np.asarray(data[group].rows)), data[group].answers
            )
            for group in data.groups
            if group in plans
        }
        after = replace(
            data,
            populations=tuple(
                _repaired(population, routes.get(group))
                for group, population in zip(data.groups, data.populations, strict=True)
            ),
        )
        return cls(data, after, routes, probabilities, favours_positive)

    def rows(self, group: Hashable) -> Frame:
        assert self.data.table is not None
        return self.data.table.take(np.asarray(self.data[group].rows))

    def outcome(self, group: Hashable) -> GroupOutcome:
        """What happens to a group, but for what is told of features and rows."""
        old, new, route = self.data[group], self.after[group], self.routes.get(group)
        p, change = old.mass, new.decision - old.decision
        people, favoured = _people(old), change if self.favours_positive else -change
        gains, loses = np.maximum(favoured, 0.0) @ people, np.maximum(-favoured, 0.0) @ people
        count, known = people.sum(axis=1), self.data.outcome_known
        to_positive, to_negative = (float(p @ np.maximum(side * change, 0.0)) for side in (1, -1))
        gained, lost = to_positive, to_negative
        if not self.favours_positive:
            gained, lost = lost, gained
        unreachable = edited = cost = drawn = 0.0
        moving = random = blocked = 0.0
        auc_after = auc(new)
        if route is not None:
            edited, drawn = float(p @ route.moving), float(p @ route.random)
            unreachable = 0.0 if route.unreachable is None else float(p @ route.unreachable)
            cost = float(p @ route.expected_cost()) / edited if edited > 0 else 0.0
            auc_after = auc_after if self.probabilities else _auc_by_law(old, route)
            moving, random = float(count @ route.moving), float(count @ route.random)
            blocked = 0.0 if route.unreachable is None else float(count @ route.unreachable)
        return GroupOutcome(
            group=group,
            n=old.n,
            repaired=route is not None,
            accuracy_before=_accuracy(old),
            accuracy_after=_accuracy(new),
            auc_before=auc(old),
            auc_after=auc_after,
            selected_before=float(p @ old.decision),
            selected_after=float(p @ new.decision),
            to_positive=to_positive,
            to_negative=to_negative,
            gained=gained,
            lost=lost,
            edited=edited,
            edits_per_person=0.0,
            cost=cost,
            randomised=drawn,
            unreachable=unreachable,
            unseen=0.0,
            features=(),
            people_favourable_before=float(
                count @ (old.decision if self.favours_positive else 1 - old.decision)
            ),
            people_gained=float(gains.sum()),
            people_gained_positive=float(gains[1]) if known else NAN,
            people_gained_negative=float(gains[0]) if known else NAN,
            people_lost=float(loses.sum()),
            people_lost_positive=float(loses[1]) if known else NAN,
            people_lost_negative=float(loses[0]) if known else NAN,
            people_edited=moving,
            people_randomised=random,
            people_unreachable=blocked,
        )


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
    known: RowOutcomes,
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


def _unseen(rows: Frame, mass: FloatArray, audited: AuditData, group: Hashable) -> float:
    """How much of a group is on rows that its audit did not have."""
    assert audited.table is not None
    known = audited.table.take(np.asarray(audited[group].rows))
    return float(mass[find_rows(known, rows) < 0].sum())


def _overall(data: AuditData) -> float:
    """Accuracy over everybody, each weighing what they weigh."""
    total = np.array([p.tally.weight.sum() for p in data.populations if p.tally is not None])
    return float(total @ [_accuracy(p) for p in data.populations] / total.sum())


def _accuracy(population: Population) -> float:
    y, h = population.outcome, population.decision
    return float(population.mass @ (y * h + (1 - y) * (1 - h)))


# -------------------------------------------------------------------- which features, and how


def _edited_features(
    rows: Frame, population: Population, route: Route, smallest_cell: int
) -> tuple[list[EditedFeature], float]:
    """Which features change for the edited, most often first; and how many a person."""
    away = np.flatnonzero((route.destination >= 0) & (route.probability > 0))
    if len(away) == 0 or route.table is None:
        return [], 0.0
    here, there = rows.take(route.row[away]), route.table.take(route.destination[away])
    weight = population.mass[route.row[away]] * route.probability[away]
    people = heads(population)[route.row[away]] * route.probability[away]
    changed = differing(here, there)
    total = float(weight.sum())
    lines = []
    for j, name in enumerate(rows.names):
        at = np.flatnonzero(changed[:, j])
        if len(at) > 0:
            edits = _Edits(here.encoded[j], there.encoded[j], at, weight[at] / total, people[at])
            many = len(rows.encoded[j].values) > MANY_VALUES
            lines.append(edits.told(str(name), smallest_cell, many=many))
    lines.sort(key=lambda line: -round(line.share_of_edited, 12))  # equal sums stay in order
    return lines, float(weight @ changed.sum(axis=1)) / total


@dataclass(frozen=True, eq=False)
class _Edits:
    """The edits of one feature."""

    here: Encoded
    there: Encoded
    at: IntArray
    """Where the two differ."""
    share: FloatArray
    """Of the edited people, for each of these places."""
    people: FloatArray
    """How many stand behind each, as far as draws go in expectation."""

    def told(self, name: str, smallest_cell: int, *, many: bool) -> EditedFeature:
        """What may be said about them; of numbers with many values their change."""
        numbers = [as_numbers(column.values) for column in (self.here, self.there)]
        codes = [column.codes[self.at] for column in (self.here, self.there)]
        old, new = (
            None if known is None else known[code]
            for known, code in zip(numbers, codes, strict=True)
        )
        change = None
        if old is not None and new is not None and many:
            change = self._change(old, new, smallest_cell)
            texts = [np.array(["a number", "missing"])] * 2
            codes = [np.isnan(old).astype(np.int64), np.isnan(new).astype(np.int64)]
        else:
            texts = [np.array([_short(v) for v in c.values]) for c in (self.here, self.there)]
        edits, not_shown = self._pairs(texts, codes, smallest_cell)
        if change is not None:
            edits = tuple(edit for edit in edits if (edit.old, edit.new) != ("a number",) * 2)
        how = _how(edits, change, not_shown, smallest_cell)
        return EditedFeature(name, float(self.share.sum()), how, edits, change, not_shown)

    def _change(self, old: FloatArray, new: FloatArray, smallest_cell: int) -> NumberChange | None:
        known = np.isfinite(old) & np.isfinite(new)
        if self.people[known].sum() < smallest_cell - SLACK:
            return None
        share, old, new = self.share[known], old[known], new[known]
        return NumberChange(
            share_of_edited=float(share.sum()),
            median=rounded(_median(new - old, share), 2),
            old_median=rounded(_median(old, share), 3),
            new_median=rounded(_median(new, share), 3),
            rises=float(share[new > old].sum() / share.sum()),
        )

    def _pairs(
        self, texts: Sequence[Any], codes: Sequence[Any], smallest_cell: int
    ) -> tuple[tuple[Edit, ...], int]:
        """From what to what, those that most people get first; and how many are not shown."""
        width = len(texts[1])
        pairs, place = np.unique(codes[0].astype(np.int64) * width + codes[1], return_inverse=True)
        share, people = (np.bincount(place, each) for each in (self.share, self.people))
        shown = people >= smallest_cell - SLACK
        top = [i for i in np.argsort(-share, kind="stable") if shown[i]][:MOST_EDITS]
        edits = tuple(
            Edit(str(texts[0][pairs[i] // width]), str(texts[1][pairs[i] % width]), float(share[i]))
            for i in top
        )
        return edits, int((~shown).sum())


def _median(values: FloatArray, weight: FloatArray) -> float:
    order = np.argsort(values, kind="stable")
    cumulated = np.cumsum(weight[order])
    return float(values[order][np.searchsorted(cumulated, cumulated[-1] / 2)])


def _how(
    edits: Sequence[Edit], change: NumberChange | None, not_shown: int, smallest_cell: int
) -> str:
    if change is not None:
        way = "rise" if change.median > 0 else "fall"
        return (
            f"half {way} by about {number(abs(change.median))} or more; "
            f"the median was {number(change.old_median)} and is {number(change.new_median)}"
        )
    if not edits:
        return f"by fewer than {smallest_cell} people each"
    first = f"{edits[0].old} -> {edits[0].new}"
    if len(edits) == 1 and not_shown == 0:
        return first
    return f"most often {first} ({percent(edits[0].share_of_edited)})"


def _short(value: Any) -> str:
    plain = scalar(value)
    if is_missing(plain):
        return "missing"
    return number(plain) if isinstance(plain, float) else str(plain)
