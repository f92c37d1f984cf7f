"""What fairmend says about a repair, each statement against a recount or the simulated truth."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from _cells import Cell
from _recount import EXACT, Count, parts_of
from _worlds import People

from fairmend import FDR, FNR, FPR, SP, RepairedClassifier

LEVELS = tuple(np.round(np.arange(0.1, 1.01, 0.1), 1))
Record = dict[str, Any]
Plan = Any
_SETTINGS = ("do_no_harm", "favorable_label", "immutable")
"""Options that are settings of the repair; the others are the method's."""
_BY_NAME = {metric.name: metric for metric in (SP, FNR, FPR, FDR)}


# -------------------------------------------------------------------- people and repairs


def people_of(cell: Cell, n: int, seed: int) -> People:
    """The audited people of one repetition."""
    people = cell.world.audit(n, seed)
    rng = np.random.default_rng([seed, n, 1])
    if cell.twist == "missing":
        groups = people.groups.astype(object)
        groups[rng.random(n) < 0.1] = None
        return people._replace(groups=groups)
    if cell.twist == "zero":
        return people._replace(w=np.where(rng.random(n) < 0.2, 0.0, people.w))
    return people


def fit(cell: Cell, people: People, **changed: Any) -> RepairedClassifier:
    """The cell's repair of these people; ``changed`` are other settings."""
    method, _, rank = cell.method.partition(" ")
    disparity: Any = cell.metric.split(", ")
    if "+" in cell.metric:
        (parts,) = cell.gaps
        disparity = [sum_of(parts)]
    options = dict(cell.options)
    named = {name: options.pop(name) for name in _SETTINGS if name in options}
    settings: dict[str, Any] = {
        "method": "least_change" if method in ("two_sided", "blind") else method,
        "rank": rank or None,
        "blind": method == "blind",
        "two_sided": method == "two_sided",
        "reference": cell.named_reference if cell.reference == "named" else cell.reference,
        "target": cell.target,
        "level": cell.level,
        "method_options": options or None,
        "random_state": 0,
        **named,
        **changed,
    }
    if rank == "cost" and len(disparity) > 1:
        settings["rank"] = None  # several gaps are always closed at the least cost
    repair = RepairedClassifier(
        cell.world.model, disparity[0] if len(disparity) == 1 else disparity, **settings
    )
    weighted = cell.world.weighted or cell.twist == "zero"
    if cell.twist == "missing":  # people without a group come later, to be decided about
        people = with_a_group(people)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return repair.fit(
            people.X,
            None if cell.twist == "no y" else people.y,
            sensitive_features=people.groups,
            sample_weight=people.w if weighted else None,
        )


def with_a_group(people: People) -> People:
    """Those whose group is known."""
    known = np.array([name is not None for name in people.groups])
    return People(*(part[known] for part in people))


def sum_of(parts: dict[str, float]) -> Any:
    """A weighted sum of disparities."""
    terms = [weight * _BY_NAME[name] for name, weight in parts.items()]
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def chances(repair: RepairedClassifier, people: People) -> np.ndarray:
    """Everybody's chance of a positive decision with all plans in force."""
    groups = None if repair.blind else people.groups
    return np.asarray(repair.positive_chance(people.X, sensitive_features=groups))


# -------------------------------------------------------------------- statements about a plan


class Judge:
    """The audited people counted again under a fitted repair."""

    def __init__(self, cell: Cell, people: People, repair: RepairedClassifier) -> None:
        self.cell, self.people, self.repair = cell, people, repair
        self.count = Count(people.y.astype(float), people.groups, people.w)
        self.after = chances(repair, people)

    def false_statements(self, plan: Plan, *, other_levels: bool = True) -> list[str]:
        """The statements of one plan that do not hold, by name."""
        return [
            *self._status(plan, other_levels=other_levels),
            *self._figures(plan),
        ]

    def widest(self, h: np.ndarray, plan: Plan) -> float:
        """The largest of the plan's gaps under some decisions."""
        gaps = [abs(self.gap(one, h, plan)) for one in self.cell.gaps]
        return float(np.max(np.nan_to_num(gaps, nan=np.inf)))

    def gap(self, one: dict[str, float], h: np.ndarray, plan: Plan) -> float:
        return self.count.summed(one, h, plan.target, plan.baseline)

    def tolerance(self, one: dict[str, float], plan: Plan, h: np.ndarray | None = None) -> float:
        """Half a person of the smaller denominator, for sums the weighted sum."""
        h = self.after if h is None else h
        return sum(
            abs(weight) * self.count.half_a_person(metric, h, plan.target, plan.baseline)
            for metric, weight in one.items()
        )

    def missed(self, plan: Plan, over: np.ndarray) -> list[bool]:
        """Whether each gap is further from its aim than half a person under some decisions."""
        found = []
        for one in self.cell.gaps:
            before, after = (self.gap(one, h, plan) for h in (self.people.own, self.after))
            aim = (1 - self.cell.level) * before
            found.append(not abs(after - aim) <= self.tolerance(one, plan, over) + EXACT)
        return found

    def wider(self, plan: Plan) -> bool | None:
        """Whether the widest gap is wider than before; None where it is by just the tolerance."""
        slack = max(self.tolerance(one, plan) for one in self.cell.gaps)
        more = self.widest(self.after, plan) - self.widest(self.people.own, plan) - slack
        return None if abs(more) <= EXACT else more > 0

    def _status(self, plan: Plan, *, other_levels: bool) -> Iterator[str]:
        status, missed = plan.status.name, self.missed(plan, self.after)
        if status in ("CLOSED", "PARTLY") and any(missed):
            yield f"{status}, but the gap is not at its aim"
        if status == "PARTLY" and self.cell.level == 1:
            yield "PARTLY, but the whole gap was asked for"
        # a repair may leave a rate over hardly anybody: half a person of those it was over
        open_ = status in ("REMAINS", "WIDER", "UNREACHABLE", "INFEASIBLE")
        if open_ and not any(self.missed(plan, self.people.own)):
            yield f"{status}, but every gap is at its aim"
        if status == "IDENTITY":
            here = self.people.groups == plan.target
            if np.abs(self.after - self.people.own)[here].max() > EXACT:
                yield "IDENTITY, but people are edited"
            worse = [self.gap(one, self.people.own, plan) > EXACT for one in self.cell.gaps]
            if any(worse):
                yield "IDENTITY, but the group is worse off"
        wider = self.wider(plan)
        if wider is not None and wider != (status == "WIDER"):
            yield f"{status}, but the gap is {'' if wider else 'not '}wider than before"
        if status in ("UNREACHABLE", "INFEASIBLE") and self.widest(
            self.people.own, plan
        ) < self._clearly_less(plan):
            yield f"{status}, but to edit nobody leaves less"
        if status == "UNREACHABLE" and other_levels and self.another_level_leaves_less(plan):
            yield "UNREACHABLE, but another level leaves less"

    def _clearly_less(self, plan: Plan) -> float:
        """What the plan leaves, less its tolerance."""
        slack = max(self.tolerance(one, plan) for one in self.cell.gaps)
        return self.widest(self.after, plan) - slack

    def another_level_leaves_less(self, plan: Plan) -> bool:
        """Whether the same repair at another level leaves less of the gaps."""
        left = self._clearly_less(plan)
        for level in LEVELS if self.cell.method != "paper" else ():
            other = fit(self.cell, self.people, level=float(level))
            if self.widest(chances(other, self.people), plan) < left:
                return True
        return False

    def _figures(self, plan: Plan) -> Iterator[str]:
        """The outlook against the recount."""
        outlook, own = plan.outlook, self.people.own
        for name, before, after in outlook.by_metric:
            if name.startswith("da"):
                continue  # a divergence, not a gap of rates
            for when, said, h in (("before", before, own), ("after", after, self.after)):
                counted = self.count.summed(parts_of(name), h, plan.target, plan.baseline)
                if not (abs(said - counted) <= EXACT or (np.isnan(said) and np.isnan(counted))):
                    yield f"outlook, {when}: not the counted gap"
        here = self.people.groups == plan.target
        w, change = self.count.w[here], (self.after - own)[here]
        for name, counted in (
            ("to_positive", w @ np.maximum(change, 0) / w.sum()),
            ("to_negative", w @ np.maximum(-change, 0) / w.sum()),
        ):
            if abs(getattr(outlook, name) - counted) > EXACT:
                yield f"outlook, {name}: not the counted share"


def harmed(cell: Cell, before: np.ndarray, after: np.ndarray) -> bool:
    """Whether somebody loses a favourable decision."""
    favourable = dict(cell.options).get("favorable_label", 1)
    change = after - before if favourable else before - after
    return bool(change.min() < -EXACT)


# -------------------------------------------------------------------- statements about the repair


def about_the_repair(judge: Judge) -> list[str]:
    """Statements that are not about one plan."""
    found = []
    plans = judge.repair.plans_
    if len(plans) > 1:
        gaps = {
            target: max(judge.gap(one, judge.people.own, plan) for one in judge.cell.gaps)
            for target, plan in plans.items()
        }  # fmt: skip
        if gaps[judge.repair.plan_.target] < max(gaps.values()) - EXACT:
            found.append("plan_: not the group with the largest gap")
    missing = np.array([name is None for name in judge.people.groups])
    if np.abs(judge.after - judge.people.own)[missing].max(initial=0) > EXACT:
        found.append("no group, but another decision")
    for check in judge.cell.checks:
        found += {"report": _report, "frontier": _frontier}[check](judge)
    return found


def _report(judge: Judge) -> list[str]:
    """The report of the audited people: every gap in it, and the gap of every plan."""
    people, repair, cell = judge.people, judge.repair, judge.cell
    weighted = cell.world.weighted or cell.twist == "zero"
    some = with_a_group(people)
    count = Count(some.y.astype(float), some.groups, some.w)
    after = chances(repair, some)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = repair.report(
            some.X,
            None if cell.twist == "no y" else some.y,
            sensitive_features=some.groups,
            sample_weight=some.w if weighted else None,
            explanation=False,
        )
    found = []
    for when, audit, h in (("before", report.before, some.own), ("after", report.after, after)):
        for gap in audit.gaps:
            if gap.judged and gap.metric in ("sp", "fnr", "fpr", "fdr"):
                counted = count.gap(gap.metric, h, gap.target, gap.baseline)
                if abs(gap.gap - counted) > EXACT:
                    found.append(f"report, {when}: not the counted gap")
        pairs = {(gap.metric, gap.target, gap.baseline) for gap in audit.gaps}
        compared = pairs | {(metric, there, here) for metric, here, there in pairs}
        for plan in repair.plans_.values():
            for name, _, _ in plan.outlook.by_metric:
                if name in ("sp", "fnr", "fpr", "fdr") and (
                    (name, plan.target, plan.baseline) not in compared
                ):
                    found.append(f"report, {when}: a plan's comparison is missing")
    for group in report.groups:
        here = some.groups == group.group
        w, change = some.w[here], (after - some.own)[here]
        for name, counted in (
            ("selected_before", w @ some.own[here] / w.sum()),
            ("selected_after", w @ after[here] / w.sum()),
            ("to_positive", w @ np.maximum(change, 0) / w.sum()),
            ("to_negative", w @ np.maximum(-change, 0) / w.sum()),
            ("n", float((w > 0).sum())),
        ):
            if abs(getattr(group, name) - counted) > EXACT:
                found.append(f"report, {name}: not the counted figure")
    return sorted({*found, *_people_in_words(report, some, after - some.own)})


_MORE = re.compile(
    r"In all ([\d,]+) more (?:person|people) gets? the favourable decision[^:]*: [\d,]+ had a "
    r"(?:positive|negative) outcome on record, ([\d,]+) a (positive|negative) one"
)


def _people_in_words(report: Any, people: People, change: np.ndarray) -> Iterator[str]:
    """The number of people in the sentence on favourable decisions; people are counted, once."""
    favoured = change if report.favours_positive else -change
    counted = np.where(people.w > 0, favoured, 0.0)
    said = _MORE.search(" ".join(answer for _, answer in report.verdict()))
    if said is None:
        if report.outcome_known and counted.min() >= 0 and round(counted.sum()) > 0:
            yield "report, verdict: nothing on the people who gain"
        return
    more, some = (float(said[k].replace(",", "")) for k in (1, 2))
    with_outcome = counted[people.y == (said[3] == "positive")].sum()
    if abs(more - counted.sum()) > 0.51 or abs(some - with_outcome) > 0.51:
        yield "report, verdict: not the counted people"


def _frontier(judge: Judge) -> list[str]:
    """The frontier's gap at some levels against a repair fitted for that level."""
    people, cell, repair = judge.people, judge.cell, judge.repair
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        weight = people.w if cell.world.weighted else None
        points = repair.frontier(people.X, people.y, sensitive_features=people.groups,
                                 sample_weight=weight, levels=(0.0, 0.3, 1.0))  # fmt: skip
    (one,) = cell.gaps
    refits = {level: fit(cell, people, level=level) for level in (0.0, 0.3, 1.0)}
    found = []
    for point in points:
        refit, target = refits[point["level"]], point["group"]
        plan = refit.plans_.get(target) or repair.plans_[target]
        counted = judge.gap(one, chances(refit, people), plan)
        if not (np.isnan(point["gap"]) or abs(point["gap"] - counted) <= EXACT):
            found.append("frontier: not the gap of a repair fitted for that level")
    return found
