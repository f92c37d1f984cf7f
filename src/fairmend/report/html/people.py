"""Figures, charts and tables about people as they are treated: groups, gaps, tables to file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from math import isnan
from typing import Any, NamedTuple

from fairmend.data.naming import JOINER
from fairmend.measure.disparity import title_of, words_of
from fairmend.measure.intervals import wilson
from fairmend.measure.result import FOUR_FIFTHS, Audit, Gap, GroupSummary, is_below_four_fifths
from fairmend.measure.wording import capital, share
from fairmend.report.chart import (
    NAN,
    SIDES,
    Mark,
    Row,
    RowChart,
    as_percent,
    as_points,
)
from fairmend.report.filing import (
    HIGHEST,
    ImpactLine,
    ImpactTable,
    PeopleCell,
    counts_equally,
    filed_tables,
    group_metrics,
    impact_tables,
)
from fairmend.report.table import Column, Table
from fairmend.report.verdict import size, unit
from fairmend.tables import counted

__all__ = ["LEGEND", "filed", "gaps", "rates"]

LEGEND = ((SIDES[0], "the model alone"), (SIDES[1], "with the repair"))
Cells = Sequence[PeopleCell]


class Sides(NamedTuple):
    """What a row of a table shows before and after the repair."""

    name: str
    before: Any
    after: Any = None
    against: str = ""


# -------------------------------------------------------------------- gaps and rates


def gaps(before: Sequence[Gap], after: Sequence[Gap], audit: Audit, key: str = "gaps") -> RowChart:
    """Every gap with its interval."""
    names, both = audit.names, bool(after)
    pairs = list(zip(before, after or (None,) * len(before), strict=True))

    def mark(side: str, gap: Gap | None) -> Iterator[Mark]:
        if gap is not None and gap.judged:
            interval = "" if isnan(gap.low) else f" ({size(gap, gap.low)} to {size(gap, gap.high)})"
            values = (gap.gap, gap.low, gap.high) if unit(gap) else (NAN, NAN, NAN)
            yield Mark(side, *values, 0.0, text=f"{size(gap, gap.gap)}{interval}")

    def compared(gap: Gap) -> str:
        rates = [gap.target_rate, gap.baseline_rate]
        shown = [f" {share(rate)}" if gap.judged and not both and not isnan(rate) else ""
                 for rate in rates]  # fmt: skip
        between = " against " if not any(shown) else ", "
        return f"{names(gap.target)}{shown[0]}{between}{names(gap.baseline)}{shown[1]}"

    rows = [
        Row(
            title_of(old.metric),
            (*mark(SIDES[0], old), *mark(SIDES[1], new)),
            compared(old),
            old.note,
        )
        for old, new in pairs
    ]
    records = [Sides(names(old.target), old, new, names(old.baseline)) for old, new in pairs]
    percent_of = f"{100 * audit.confidence:g} % interval"
    columns = [
        Column("metric", read="before.metric"), Column("group", read="name"), Column("against"),
        Column("its rate", "rate", "before.target_rate"),
        Column("other's rate", "rate", "before.baseline_rate"),
        Column("gap, points", "points", "before.gap"),
        Column(percent_of, "spans", "before.low before.high"),
        Column("p, Holm", "p", "before.p_adjusted"),
    ]  # fmt: skip
    if both:
        columns += [
            Column("its rate, repaired", "rate", "after.target_rate"),
            Column("gap, repaired", "points", "after.gap"),
            Column(f"{percent_of}, repaired", "spans", "after.low after.high"),
        ]
    if any(gap.note for gap in before):
        columns.append(Column("note", read="before.note"))
    caption = "Gaps before and after the repair" if both else "Gaps of every group"
    notes = [f"{name}: {title}." for name, title in audit.titles.items() if title]
    return RowChart.of(
        key,
        caption,
        rows,
        as_points,
        "gap in percentage points",
        at=[0.0],
        legend=LEGEND if both else (),
        lines=SIDES if both else (),
        guide=0.0,
        beneath="Right of the line the group has the higher rate. "
        f"Lines are {100 * audit.confidence:g} % intervals.",
        table=Table.of(f"{key}-table", caption, columns, records, *notes),
    )


def rates(before: Audit, after: Audit | None, metric: str, key: str) -> RowChart | None:
    """The rate of each group and its distance from the reference; None where there are no rates."""
    old = [gap for gap in before.in_order() if gap.metric == metric]
    new = {gap.target: gap for gap in (after.gaps if after else ()) if gap.metric == metric}
    order = before.worst_first(metric)
    old.sort(key=lambda gap: order.index(gap.target))
    if all(isnan(gap.target_rate) for gap in old):
        return None
    words, names = words_of(metric), before.names
    given = "with " + words.among if words.among else ""
    rows = []
    for gap in old:
        marks = _rate_marks(before, gap, after, new.get(gap.target))
        who = counted(gap.given_target) if gap.given_target else ""
        rows.append(Row(names(gap.target), marks, f"{who} {given}".strip(), gap.note))
    [reference] = {gap.baseline for gap in old} if len({gap.baseline for gap in old}) == 1 else [""]
    judged = next((gap for gap in old if gap.judged), old[0])
    if reference not in ("", "rest"):
        later = next((gap for gap in new.values() if gap.judged), None)
        marks = _rate_marks(before, _mirrored(judged), after, later and _mirrored(later))
        who = counted(judged.given_baseline) if judged.given_baseline else ""
        rows.append(Row(names(reference), marks, f"{who} {given}".strip()))
    shares = f"{words.condition}share of people who {words.event}"
    caption = capital(shares if words.event else f"{title_of(metric)} of each group")
    return RowChart.of(
        key,
        caption,
        rows,
        as_percent,
        "per cent",
        legend=LEGEND if after is not None else (),
        lines=SIDES if after else (),
        guide=judged.baseline_rate if reference not in ("", "rest") else None,
        beneath="The bands are the gaps. " + (
            f"Lines are {100 * before.confidence:g} % intervals of the rates."
            if any(one.spans for row in rows for one in row.marks) else ""),
    )  # fmt: skip


def _rate_marks(before: Audit, old: Gap, after: Audit | None, new: Gap | None) -> tuple[Mark, ...]:
    """A group's rate before and after, each with its distance from the rate compared with."""

    def mark(side: str, audit: Audit, gap: Gap, text: str) -> Mark:
        n = float(gap.given_target) if counts_equally(audit) else NAN
        low, high = wilson(gap.target_rate, n, audit.confidence) if n > 0 else (NAN, NAN)
        base = gap.baseline_rate
        return Mark(side, gap.target_rate, low, high, base, text=f"{share(gap.target_rate)}{text}")

    if not old.judged:
        return ()
    if after is None or new is None or not new.judged:
        return (mark(SIDES[0], before, old, ""),)
    if new.target_rate == old.target_rate:
        return (mark("plain", before, old, ", unchanged"),)
    return (mark(SIDES[0], before, old, " before"), mark(SIDES[1], after, new, " with the repair"))


def _mirrored(gap: Gap) -> Gap:
    """The reference group's own side of a gap, which it is at no distance from."""
    rate = gap.baseline_rate
    return replace(gap, target=gap.baseline, target_rate=rate, given_target=gap.given_baseline)


# -------------------------------------------------------------------- groups and tables to file


def filed(before: Audit, cells: Cells, after: Audit | None, cells_after: Cells) -> dict[str, Any]:
    """Every category and intersection as charts, and the tables auditors file."""
    order = [str(group) for group in before.worst_first()]
    old, new = (
        sorted(each, key=lambda cell: order.index(JOINER.join(cell.labels)))
        for each in (cells, cells_after)
    )
    attribute, confidence = before.attribute, before.confidence
    shown = [impact_tables(attribute, each, confidence=confidence) for each in (old, new)]
    to_file = [filed_tables(attribute, each) for each in (old, new)]
    metrics = _metrics(before, after)
    return {
        "impact_pairs": _paired(*shown),
        "filed_pairs": _paired(*to_file),
        "impact_note": _impact_note,
        "groups": _groups(before, after),
        "metrics": metrics,
        "decisions_counted": any(not isnan(one.before.true_positives) for one in metrics),
        "reading": lambda side: partial(_reading, side=side),
        "error_columns": [
            (words_of(name).title, "rate", f"before.{name}") for name in ("fnr", "fpr", "fdr")
        ],
    }


def impact(pair: dict[str, Any], table: Table, key: str) -> RowChart:
    """Impact ratios with intervals and the line at four fifths; one row a category."""
    old, new = pair["old"], pair["new"]

    def mark(side: str, line: ImpactLine | None) -> Iterator[Mark]:
        if line is not None and not isnan(line.ratio):
            interval = "" if isnan(line.ratio_low) else (
                f" ({line.ratio_low:.2f} to {line.ratio_high:.2f})")  # fmt: skip
            text = f"{line.ratio:.2f}{interval}"
            yield Mark(side, line.ratio, line.ratio_low, line.ratio_high, text=text)

    rows = tuple(
        Row(
            sides.name,
            (*mark(SIDES[0], sides.before), *mark(SIDES[1], sides.after)),
            counted(sides.before.people),
            "" if sides.before.note == HIGHEST else sides.before.note,
        )
        for sides in pair["rows"]
    )
    return RowChart.of(
        key,
        table.caption,
        rows,
        "{:.2g}".format,
        f"{old.kind} rate over the highest",
        at=[0.0, 1.0],
        legend=LEGEND if new is not None else (),
        lines=SIDES if new is not None else (),
        guide=FOUR_FIFTHS,
        table=table,
    )


def _paired(old: Sequence[ImpactTable], new: Sequence[ImpactTable]) -> list[dict[str, Any]]:
    """Tables before and after, with their rows side by side."""
    pairs = []
    for before, after in zip(old, new or (None,) * len(old), strict=True):
        repaired = {line.category: line for line in after.lines} if after is not None else {}
        nobody = ImpactLine("", before.unknown, *(NAN,) * 6, "left out of rates and ratios")
        pairs.append(
            {
                "old": before,
                "new": after,
                "rows": [
                    Sides(before.names(line.category), line, repaired.get(line.category))
                    for line in before.lines
                ],
                "unknown": Sides("not known", nobody, nobody),
                "below": [
                    [one.names(line.category) for line in one.lines if line.below_four_fifths]
                    for one in (before, after or before)
                ],
            }
        )
    return pairs


def _impact_note(sides: Sides) -> str:
    """Notes, and on which side they hold where not on both: the highest rate may be another's."""
    before, after = sides.before, sides.after
    if after is None:
        notes = [before.note, f"below {FOUR_FIFTHS:g}" if before.below_four_fifths else ""]
        return "; ".join(filter(None, notes))
    if after.note == before.note:
        notes = [before.note]
    else:
        notes = [f"{when}: {one.note}" for when, one in (("before", before), ("after", after))
                 if one.note]  # fmt: skip
    low = [when for when, one in (("before", before), ("after", after)) if one.below_four_fifths]
    notes += [f"below {FOUR_FIFTHS:g} {' and '.join(low)}"] if low else []
    return "; ".join(filter(None, notes))


def _groups(before: Audit, after: Audit | None) -> list[Sides]:
    """What is known of each group, the worst-off first."""
    old = {one.group: one for one in before.groups}
    new = {} if after is None else {one.group: one for one in after.groups}
    return [
        Sides(before.names(group), old[group], new.get(group)) for group in before.worst_first()
    ]


def _reading(sides: Sides, side: str) -> str:
    """How a ratio reads by the four-fifths rule."""
    group: GroupSummary = getattr(sides, side)
    if isnan(group.impact_ratio):
        return "not judged"
    below = is_below_four_fifths(group.impact_ratio)
    return f"below {FOUR_FIFTHS:g}" if below else f"{FOUR_FIFTHS:g} or above"


def _metrics(before: Audit, after: Audit | None) -> list[Sides]:
    """The metrics of each group, for the model alone and with the repair."""
    rows = []
    for system, audit in (("model", before), ("repaired", after)):
        if audit is not None:
            labels = [group.group for group in audit.groups]
            lines = dict(zip(labels, group_metrics(audit), strict=True))
            rows += [Sides(before.names(one), lines[one], system) for one in before.worst_first()]
    return rows
