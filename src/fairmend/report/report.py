"""What a repair does to people, as data.

Gaps come in two readings: realised, where everybody keeps their own outcome, and counterfactual,
M(Q), where outcomes follow the edited inputs through the target group's P(Y=1 | x). They agree for
sp; people experience the first. Values that fewer than a smallest number of people have are
suppressed. Shares are weighted where weights are in force; people are counted.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fairmend import doors
from fairmend.data.files import refuse_existing, writing
from fairmend.data.naming import GroupNames
from fairmend.data.plain import as_plain, from_plain
from fairmend.measure.result import Audit, Gap
from fairmend.measure.wording import figures
from fairmend.repair.price_of_blindness import PriceOfBlindness
from fairmend.report.edits import EditedFeature
from fairmend.report.filing import PeopleCell, filed_tables, group_metrics, impact_tables
from fairmend.report.findings import (
    SMALLEST_CELL,
    Explanation,
    FrontierPoint,
    PlanSummary,
    Provenance,
)
from fairmend.report.persons import EditedPerson
from fairmend.report.table import Column, Table
from fairmend.report.verdict import verdict, whose
from fairmend.tables import TextTable, percent

__all__ = ["GroupOutcome", "Report"]

NAN = float("nan")


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
    """Share of the group whose decision flips to the positive one."""
    to_negative: float
    gained: float
    """Share of the group whose decision flips to the favourable one."""
    lost: float
    """Share of the group whose decision flips from the favourable one."""
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


@dataclass(frozen=True, repr=False)
class Report(doors.Shown):
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
    blind: bool = False
    """Whether the repair reads no group when it decides."""
    blindness: PriceOfBlindness | None = None
    """Of a blind repair: what closing the gap costs without the group, and what with it."""
    provenance: Provenance | None = None
    smallest_cell: int = SMALLEST_CELL
    """What fewer people share is suppressed."""
    people: tuple[EditedPerson, ...] = ()
    """Single people who are edited; none unless the maker of the report gave ids."""
    people_not_shown: int = 0
    """Edited people beyond those."""

    @property
    def outcome_known(self) -> bool:
        """Whether outcomes were given; without them accuracy is not judged."""
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
        wanted = metric or self.metric, group
        return next((gap for gap in audit.gaps if (gap.metric, gap.target) == wanted), None)

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
        sides = {
            "before": (self.before, self.cells_before),
            "after": (self.after, self.cells_after),
        }
        filing: dict[str, dict[str, Any]] = {"impact": {}, "local_law_144": {}, "metrics": {}}
        for side, (audit, cells) in sides.items():
            filing["impact"][side] = as_plain(impact_tables(attribute, cells))
            filing["local_law_144"][side] = as_plain(filed_tables(attribute, cells))
            filing["metrics"][side] = as_plain(group_metrics(audit))
        derived = {
            "schema": "fairmend.report/1",
            "verdict": [{"question": q, "answer": a} for q, a in self.verdict()],
            "before": self.before.to_dict(),
            "after": self.after.to_dict(),
            "filing": filing,
        }
        return {
            key: derived[key] if key in derived else as_plain(getattr(self, key)) for key in _KEYS
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Report:
        """What `to_dict` has made; the cells behind the tables to file are not in it."""
        report: Report = from_plain(cls, content)
        before, after = (Audit.from_dict(content[side]) for side in ("before", "after"))
        return replace(report, before=before, after=after)

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

    def counterfactual_gaps(self) -> Table:
        """Gaps if outcomes followed the edited inputs."""
        rows = [
            (metric, self.names(group.group), *ends)
            for group in self.groups_in_order
            for metric, *ends in group.counterfactual
        ]
        columns = (*map(Column, ("metric", "group")), *_BEFORE_AFTER[::2])
        caption = "Gaps if outcomes followed the edited inputs, M(Q), in points"
        return Table("followed", caption, columns, tuple(rows))

    def _tables(self) -> list[TextTable]:
        name = Column("group", read=lambda one: self.names(one.group))
        people = Column("people", "count", "n")
        weighted = ["Rates and shares are weighted; people are counted."]
        gaps = Table(
            "",
            "Gaps before and after the repair, in points",
            (*map(Column, ("metric", "group", "against")), *_BEFORE_AFTER),
            tuple(
                (old.metric, *self.names.pair(old.target, old.baseline), old.gap,
                 (old.low, old.high), new.gap, (new.low, new.high))
                for old, new in self.gaps_in_order
            ),
        )  # fmt: skip
        edits = Table(
            "",
            "Features edited, as a share of the edited people",
            (Column("group"), Column("feature"), Column("edited", "share"), Column("how")),
            tuple(
                (self.names(group.group), one.feature, one.share_of_edited, one.how)
                for group in self.groups_in_order
                for one in group.features
            ),
        )
        accuracy = Table.of("", "", (name, people, *_ACCURACY), self.groups_in_order)
        notes = (*_EFFECT_NOTES, *(weighted if self.before.weighted else ()))
        effects = Table.of("", "", (name, people, *_EFFECTS), self.groups_in_order, *notes)
        tables = (gaps, accuracy, effects, self.counterfactual_gaps(), edits)
        return [table.text() for table in tables if table.rows]

    def __str__(self) -> str:
        tables = "\n\n".join(str(table) for table in self._tables())
        accuracy = (
            f"Accuracy overall {percent(self.accuracy_before)} before, "
            f"{percent(self.accuracy_after)} after. "
            if self.outcome_known
            else ""
        )
        notes = dict.fromkeys("\n".join(plan.notes) for plan in self.plans_in_order if plan.notes)
        price = [] if self.blindness is None else [str(self.blindness)]
        return "\n\n".join([tables, *notes, f"{accuracy}{whose(self)}", *price])

    def __repr__(self) -> str:
        gaps = [
            f"{self.names(plan.target)} {figures(old.gap)[0]} to {figures(new.gap)[0]}"
            for plan in self.plans_in_order
            for old, new in [[self.gap(each, plan.target) for each in (self.before, self.after)]]
            if old and new
        ]
        what = f"{self.metric} by {self.before.attribute}"
        return f"<Report: {what}, {self.n:,} people; {'; '.join(gaps) or 'nobody is edited'}>"


_KEYS = (
    "schema", "metric", "favourable", "favours_positive", "verdict", "accuracy_before",
    "accuracy_after", "smallest_cell", "before", "after", "groups", "plans", "explanation",
    "frontier", "blind", "blindness", "filing", "people", "people_not_shown", "provenance",
)  # fmt: skip
"""Of `Report.to_dict`."""
_BEFORE_AFTER = (
    Column("before", "points"),
    Column("interval", "bracket"),
    Column("after", "points"),
    Column("interval", "bracket"),
)
_ACCURACY = (
    Column("accuracy", "rate", "accuracy_before"),
    Column("after", "rate", "accuracy_after"),
    Column("AUC", "decimal", "auc_before"),
    Column("after", "decimal", "auc_after"),
)
_EFFECTS = (
    Column("edited", "share"),
    Column("edits", "mean", lambda one: one.edits_per_person if one.edited > 0 else NAN),
    Column("gain", "share", "gained"),
    Column("lose", "share", "lost"),
    Column("randomised", "share"),
    Column("unreachable", "share"),
    Column("unseen", "share"),
)
_EFFECT_NOTES = (
    "gain, lose: people whose decision flips to or from the favourable one",
    "randomised: people whose edit is decided by a draw",
    "unreachable: people whom the rule would edit, but no allowed edit helps",
    "unseen: people whose inputs the audit did not have; the rule applies to them too",
)
