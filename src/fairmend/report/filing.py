"""The tables auditors file: rates by category with impact ratios, and metrics by group.

New York's Local Law 144 (6 RCNY 5-301) asks for the rate of each category of sex, of race, and of
both together, over the highest such rate: the share selected, or where a tool scores people the
share above the sample's median score. The four-fifths rule (29 CFR 1607.4 D) looks at the same
ratio. Annex IV of the EU AI Act asks for accuracy by group and for discriminatory impacts. What
follows from these figures in law is for lawyers to say.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from fairmend.data.columns import as_numbers, is_missing
from fairmend.data.naming import JOINER, GroupNames
from fairmend.errors import check
from fairmend.measure.intervals import TOO_FEW, ratio_interval, wilson
from fairmend.measure.population import AuditData
from fairmend.measure.result import Audit, is_below_four_fifths

__all__ = [
    "GroupMetrics",
    "ImpactLine",
    "ImpactTable",
    "PeopleCell",
    "cells_of_audit",
    "cells_of_data",
    "counts_equally",
    "filed_tables",
    "group_metrics",
    "impact_tables",
    "local_law_144",
]

Kind = Literal["selection", "scoring"]
NAN = float("nan")
HIGHEST = "highest rate, the reference for the others"
SMALL = 0.02
"""A category with a smaller share of the data may be left out of the ratios (6 RCNY 5-301 d)."""
UNKNOWN_LABELS = frozenset(
    {"", "unknown", "not known", "not stated", "not disclosed", "missing", "nan", "n/a"}
)
"""Labels, in lower case, that say that the category of a person is not known. Not "none", which is
a category of its own where people are asked for a disability or a religion."""


@dataclass(frozen=True)
class PeopleCell:
    """People who share every label: how many, what they weigh, and what they got."""

    labels: tuple[str, ...]
    people: int
    weight: float
    squared: float
    """The sum of squared weights; nan where it is not known, and intervals with it."""
    selected: float
    """The weight of those with the positive decision."""
    above: float = NAN
    """The weight of those above the sample's median score; nan without scores."""


@dataclass(frozen=True)
class ImpactLine:
    """One category: its rate, and that over the highest rate."""

    category: str
    people: int
    rate: float
    low: float
    high: float
    ratio: float
    ratio_low: float
    ratio_high: float
    note: str = ""

    @property
    def below_four_fifths(self) -> bool:
        return is_below_four_fifths(self.ratio)


@dataclass(frozen=True)
class ImpactTable:
    """The categories of one attribute, or of an intersection."""

    by: str
    kind: Kind
    lines: tuple[ImpactLine, ...]
    people: int
    """Those whose category is known."""
    unknown: int
    """Those who are in no category because their label says that it is not known."""
    confidence: float = 0.95

    @property
    def names(self) -> GroupNames:
        """What people read for the categories."""
        return GroupNames(self.by, tuple(line.category for line in self.lines))


# -------------------------------------------------------------------- people by label


def cells_of_data(data: AuditData) -> tuple[PeopleCell, ...]:
    """Each group's people; none where distributions are exact and nobody was counted."""
    if any(people.tally is None for people in data.populations):
        return ()
    parts = len(data.attribute.split(JOINER))
    scored = all(people.score is not None for people in data.populations)
    median = _median(data) if scored else NAN
    cells = []
    for group, people in zip(data.groups, data.populations, strict=True):
        assert people.tally is not None
        weight = people.tally.by_row
        cells.append(
            PeopleCell(
                labels=_labels(group, parts),
                people=people.n,
                weight=float(weight.sum()),
                squared=float(people.tally.squared.sum()),
                selected=float(weight @ people.decision),
                above=float(weight @ (np.asarray(people.score) > median)) if scored else NAN,
            )
        )
    return tuple(cells)


def _median(data: AuditData) -> float:
    """The median score of all people; between the two middle ones where their number is even."""
    score = np.concatenate([np.asarray(people.score) for people in data.populations])
    counts = np.concatenate([p.tally.people.sum(axis=1) for p in data.populations if p.tally])
    order = np.argsort(score, kind="stable")
    reached = np.cumsum(counts[order])
    middle = [np.searchsorted(reached, reached[-1] / 2, side) for side in ("left", "right")]
    return float(score[order][middle].sum()) / 2


def cells_of_audit(audit: Audit) -> tuple[PeopleCell, ...]:
    """Each group's people as an audit knows them; no intervals where people are not equal shares.

    Where the audit has no impact ratios, because all decisions are the same, nor have these.
    """
    parts = len(audit.attribute.split(JOINER))
    cells = []
    for group in audit.groups:
        if group.n > 0:
            weight = float(group.n) if np.isnan(group.weight) else group.weight
            selected = NAN if np.isnan(group.impact_ratio) else weight * group.selection_rate
            squared = float(group.n) if counts_equally(audit) else NAN
            labels = _labels(group.group, parts)
            cells.append(PeopleCell(labels, group.n, weight, squared, selected))
    return tuple(cells)


def counts_equally(audit: Audit) -> bool:
    """Whether everybody is one row of weight 1."""
    return not audit.weighted and audit.rows is None


def _labels(group: Hashable, parts: int) -> tuple[str, ...]:
    """The labels of an intersection; one label where it cannot be split."""
    labels = tuple(str(group).split(JOINER)) if parts > 1 else (str(group),)
    return labels if len(labels) == parts else (str(group),)


# -------------------------------------------------------------------- impact ratios


def impact_tables(
    attribute: str,
    cells: Sequence[PeopleCell],
    *,
    kind: Kind = "selection",
    filed: bool = False,
    confidence: float = 0.95,
) -> tuple[ImpactTable, ...]:
    """A table per attribute and one of all together, as far as the labels can be split.

    ``filed``: as 6 RCNY 5-301 asks. Categories with less than `SMALL` of the people are listed
    without a ratio, and nobody is compared with them; people whose label says that their category
    is not known are counted and in no category. Otherwise they are a group, as in an audit.

    >>> cells = [PeopleCell(("Male",), 92, 92, 92, 50), PeopleCell(("Female",), 76, 76, 76, 34)]
    >>> [table] = impact_tables("sex", cells)
    >>> [(line.category, f"{line.rate:.1%}", f"{line.ratio:.2f}") for line in table.lines]
    [('Male', '54.3%', '1.00'), ('Female', '44.7%', '0.82')]
    """
    if not cells:
        return ()
    attributes = attribute.split(JOINER)
    if any(len(cell.labels) != len(attributes) for cell in cells):
        attributes = [attribute]
        cells = [replace(cell, labels=(JOINER.join(cell.labels),)) for cell in cells]
    places: list[tuple[int, ...]] = [(j,) for j in range(len(attributes))]
    if len(attributes) > 1:
        places.append(tuple(range(len(attributes))))
    return tuple(
        _table(
            JOINER.join(attributes[j] for j in place),
            [replace(cell, labels=tuple(cell.labels[j] for j in place)) for cell in cells],
            kind,
            confidence,
            filed=filed,
        )
        for place in places
    )


def _table(
    by: str, cells: Sequence[PeopleCell], kind: Kind, confidence: float, *, filed: bool
) -> ImpactTable:
    merged: dict[str, list[PeopleCell]] = {}
    for cell in cells:
        if not (filed and any(label.strip().lower() in UNKNOWN_LABELS for label in cell.labels)):
            merged.setdefault(JOINER.join(cell.labels), []).append(cell)
    rates = {name: _Rate.of(parts, kind) for name, parts in merged.items()}
    total = sum(rate.people for rate in rates.values())
    least = max(TOO_FEW, SMALL * total) if filed else TOO_FEW
    judged = [rate for rate in rates.values() if rate.people >= least]
    top = max(judged, key=lambda rate: rate.value, default=None)
    lines = []
    for name, rate in rates.items():
        ratio, ends, note = NAN, (NAN, NAN), ""
        if rate.people < TOO_FEW:
            note = f"fewer than {TOO_FEW} people: not judged"
        elif rate.people < least:
            note = f"under {100 * SMALL:g} % of the people: left out of the ratios"
        elif top is None or not top.value > 0:
            note = "nobody has the rate to compare with"
        elif rate is top:
            ratio, note = 1.0, HIGHEST
        else:
            ratio, worth = rate.value / top.value, (rate.effective, top.effective)
            ends = ratio_interval((rate.value, top.value), worth, confidence)
        span = wilson(rate.value, rate.effective, confidence)
        lines.append(ImpactLine(name, rate.people, rate.value, *span, ratio, *ends, note))
    unknown = sum(cell.people for cell in cells) - total
    return ImpactTable(by, kind, tuple(lines), total, unknown, confidence)


@dataclass(frozen=True, eq=False)
class _Rate:
    """A rate over some people, and how many equally weighted people it is worth."""

    value: float
    people: int
    effective: float

    @classmethod
    def of(cls, cells: Sequence[PeopleCell], kind: Kind) -> _Rate:
        weight, squared = (sum(getattr(c, name) for c in cells) for name in ("weight", "squared"))
        had = sum(cell.selected if kind == "selection" else cell.above for cell in cells)
        return cls(had / weight, sum(cell.people for cell in cells), weight**2 / squared)


def filed_tables(attribute: str, cells: Sequence[PeopleCell]) -> tuple[ImpactTable, ...]:
    """Selection rates and, where everybody has a score, scoring rates, as the rule asks."""
    scored = bool(cells) and not any(np.isnan(cell.above) for cell in cells)
    kinds: tuple[Kind, ...] = ("selection", "scoring") if scored else ("selection",)
    return tuple(
        table for kind in kinds for table in impact_tables(attribute, cells, kind=kind, filed=True)
    )


# -------------------------------------------------------------------- people one by one


def local_law_144(
    *, sex: Any, race: Any, selected: Any = None, score: Any = None
) -> tuple[ImpactTable, ...]:
    """Tables by sex, by race and by both, from one entry a person.

    Give ``selected`` (0 or 1) for a tool that selects, or ``score`` for one that scores. A missing
    label, or one such as "unknown", is counted as unknown and left out of the rates.

    >>> tables = local_law_144(sex=["F"] * 50 + ["M"] * 50, race=["A", "B"] * 50,
    ...                        selected=[1, 0, 0, 0] * 25)
    >>> [(table.by, len(table.lines), table.unknown) for table in tables]
    [('sex', 2, 0), ('race', 2, 0), ('sex & race', 4, 0)]
    """
    check(
        (selected is None) != (score is None),
        "selected, score",
        "must be one of the two",
        "got both" if score is not None else "got neither",
        "Pass selected for a tool that selects, score for one that scores.",
    )
    kind: Kind = "selection" if score is None else "scoring"
    numbers = as_numbers(np.asarray(selected if score is None else score))
    value = np.full(1, NAN) if numbers is None else numbers
    known = np.isin(value, (0, 1)) if kind == "selection" else np.isfinite(value)
    check(
        known.all(),
        "selected" if kind == "selection" else "score",
        f"must be {'0 or 1' if kind == 'selection' else 'a number'} for every person",
        "something else is among them, or somebody's is missing",
        "Leave out people of whom it is not known.",
    )
    labels = [[_label(entry) for entry in column] for column in (sex, race)]
    check(
        {len(column) for column in labels} == {len(value)},
        "sex, race",
        "must have one label per person",
        f"got {len(labels[0]):,} and {len(labels[1]):,} for {len(value):,} people",
        "Check that all come from the same filter.",
    )
    had = value if kind == "selection" else (value > np.median(value)).astype(np.float64)
    counts: dict[tuple[str, ...], list[float]] = {}
    for pair, got in zip(zip(*labels, strict=True), had.tolist(), strict=True):
        counts.setdefault(pair, []).append(got)
    cells = [
        PeopleCell(pair, n := len(got), n, n, sum(got), sum(got)) for pair, got in counts.items()
    ]
    return impact_tables(JOINER.join(("sex", "race")), cells, kind=kind, filed=True)


def _label(entry: Any) -> str:
    """A label of its own; what joins labels may not stand in it."""
    return "unknown" if is_missing(entry) else str(entry).replace(JOINER, " and ")


# -------------------------------------------------------------------- metrics by group


@dataclass(frozen=True)
class GroupMetrics:
    """One group's rates, as Annex IV's points 2 (g) and 3 ask for them; nan where not known."""

    group: str
    people: int
    accuracy: float
    accuracy_low: float
    accuracy_high: float
    auc: float
    selection: float
    fnr: float
    fpr: float
    fdr: float
    true_positives: float
    """People with a positive decision and a positive outcome, as expected over draws; nan where
    people have weights."""
    false_positives: float
    false_negatives: float
    true_negatives: float


def group_metrics(audit: Audit) -> tuple[GroupMetrics, ...]:
    """What an audit knows of each group, whichever side of a comparison it stood on."""
    rates: dict[tuple[str, Hashable], float] = {}
    for gap in audit.gaps:  # one that is not judged has neither rate, another may
        if gap.judged:
            rates[gap.metric, gap.target] = gap.target_rate
            rates[gap.metric, gap.baseline] = gap.baseline_rate
    lines = []
    for group in audit.groups:
        n = float(group.n) if counts_equally(audit) and group.n > 0 else NAN
        span = wilson(group.accuracy, n, audit.confidence)
        errors = [rates.get((name, group.group), NAN) for name in ("fnr", "fpr", "fdr")]
        # a decision is right where it is as the outcome, so three shares give all four
        right = (group.base_rate + group.selection_rate + group.accuracy - 1) / 2
        counts = [
            n * share
            for share in (
                right,
                group.selection_rate - right,
                group.base_rate - right,
                group.accuracy - right,
            )
        ]
        figures = (*span, group.auc, group.selection_rate, *errors, *counts)
        lines.append(GroupMetrics(str(group.group), group.n, group.accuracy, *figures))
    return tuple(lines)
