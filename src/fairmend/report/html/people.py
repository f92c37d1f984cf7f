"""Figures, charts and tables about people as they are treated: groups, gaps, tables to file."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import isnan
from typing import Any, NamedTuple

from markupsafe import Markup

from fairmend.data.naming import JOINER
from fairmend.measure.disparity import words_of
from fairmend.measure.result import FOUR_FIFTHS, Audit, Gap, GroupSummary, is_below_four_fifths
from fairmend.measure.wording import share
from fairmend.report import plot
from fairmend.report.drawing import inline
from fairmend.report.filing import (
    ImpactLine,
    ImpactTable,
    PeopleCell,
    filed_tables,
    group_metrics,
    impact_tables,
)
from fairmend.report.html.page import Chart
from fairmend.report.report import Report
from fairmend.report.table import Column, Table
from fairmend.report.verdict import after, metrics_of, size, unit
from fairmend.tables import percent

__all__ = ["filed", "gap_chart", "headline", "performance", "picture"]

Cells = Sequence[PeopleCell]
NAN = float("nan")
_NOT_KNOWN = (
    "Not known: people labelled “unknown” or the like. The rule asks for their number and leaves "
    "them out of rates and ratios; elsewhere in this report they are a group like any other."
)
_WHOSE = {
    True: "on people it was not fitted on",
    False: "on the people it was fitted on",
    None: "on the people of this report",
}


def picture(
    chart: Any, key: str, caption: str, description: str, table: Table, *, wide: bool = False
) -> Chart:
    """A chart drawn for the page, above its table."""
    drawn = inline(plot.for_page(chart), key, caption, description, wide=wide)
    return Chart(key, caption, Markup(drawn), table)


class Sides(NamedTuple):
    """What a row of a table shows before and after the repair."""

    name: str
    before: Any
    after: Any = None


# -------------------------------------------------------------------- the verdict and gaps


def headline(report: Report) -> list[tuple[str, str, str]]:
    """The few figures to remember."""
    figures = []
    for plan in report.plans_in_order:
        for metric in metrics_of(report, plan):
            old, new = (
                report.gap(audit, plan.target, metric) for audit in (report.before, report.after)
            )
            if old is not None and new is not None:
                label = f"{metric} gap of {report.names(plan.target)}"
                figures.append(_gap_figure(label, old, new))
    weighted = ", weighted" if report.before.weighted else ""
    figures += [
        (
            f"{report.names(group.group)} whose inputs are edited{weighted}",
            share(group.edited),
            f"{share(group.gained)} gain, {share(group.lost)} lose",
        )
        for group in report.groups_in_order
        if group.repaired
    ]
    accuracy = f"{percent(report.accuracy_before)} → {percent(report.accuracy_after)}"
    known = accuracy if report.outcome_known else "not known"
    return [*figures, (f"accuracy of everybody{weighted}", known, _WHOSE[report.holdout])]


def _gap_figure(label: str, old: Gap, new: Gap) -> tuple[str, str, str]:
    if not (old.judged and new.judged):
        return label, "not judged", old.note or new.note
    return (
        f"{label}, in points" if unit(new) else label,
        f"{size(old, old.gap)} → {after(old, new)}",
        f"interval now {size(new, new.low)} to {size(new, new.high)}",
    )


def gap_chart(before: Sequence[Gap], after: Sequence[Gap], audit: Audit) -> Chart:
    """Every gap, with its table."""
    span, names = f"{100 * audit.confidence:g} % interval", audit.names
    columns = [
        Column("metric", read="before.metric"),
        Column("group", read="name"),
        Column("against", read=lambda sides: names(sides.before.baseline)),
        Column("its rate", "rate", "before.target_rate"),
        Column("other's rate", "rate", "before.baseline_rate"),
        Column("gap, points", "points", "before.gap"),
        Column(span, "spans", "before.low before.high"),
        Column("p, Holm", "p", "before.p_adjusted"),
    ]
    if after:
        columns += [
            Column("its rate, repaired", "rate", "after.target_rate"),
            Column("gap, repaired", "points", "after.gap"),
            Column(f"{span}, repaired", "spans", "after.low after.high"),
        ]
    if any(gap.note for gap in before):
        columns.append(Column("note", read="before.note"))
    rows = [
        Sides(names(old.target), old, new)
        for old, new in zip(before, after or (None,) * len(before), strict=True)
    ]
    caption = "Gaps before and after the repair" if after else "Gaps of every group"
    titles = (f"{name}: {title}." for name, title in audit.titles.items() if title)
    table = Table.of("gaps-table", caption, columns, rows, *titles)
    sure = [f"{gap.metric} of {names(gap.target)}" for gap in before if gap.low > 0 or gap.high < 0]
    description = f"Intervals that exclude 0 before the repair: {', '.join(sure) or 'none'}."
    chart = plot.gaps(before, after, names)
    return picture(chart, "gaps", caption, description, table, wide=True)


def performance(report: Report) -> Table:
    """Accuracy and AUC by group."""
    columns = [Column("group", read=lambda one: report.names(one.group))]
    columns.append(Column("people", "count", "n"))
    for name, kind, field in (
        ("accuracy", "rate", "accuracy"),
        ("AUC", "decimal", "auc"),
        ("positive decisions", "rate", "selected"),
    ):
        columns.append(Column(name, kind, f"{field}_before"))
        columns.append(Column(f"{name}, repaired", kind, f"{field}_after"))
    overall = (
        f"Accuracy of everybody: {percent(report.accuracy_before)} before, "
        f"{percent(report.accuracy_after)} after."
        if report.outcome_known
        else "Outcomes are not known, so accuracy is not either."
    )
    caption = "Accuracy and AUC by group, before and after"
    return Table.of("performance", caption, columns, report.groups_in_order, overall)


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
    return {
        "impact": [_impact_chart(place, *pair) for place, pair in enumerate(_paired(*shown))],
        "local_law_144": [_law_table(place, *pair) for place, pair in enumerate(_paired(*to_file))],
        "four_fifths_table": _four_fifths(before, after),
        "annex_four": _annex_four(before, after),
    }


def _paired(
    old: Sequence[ImpactTable], new: Sequence[ImpactTable]
) -> list[tuple[ImpactTable, ImpactTable | None]]:
    return list(zip(old, new or (None,) * len(old), strict=True))


def _impact_chart(place: int, old: ImpactTable, new: ImpactTable | None) -> Chart:
    key, caption = f"impact-{place}", f"Impact ratios by {old.by}"
    low, still = (
        ", ".join(table.names(line.category) for line in table.lines if line.below_four_fifths)
        for table in (old, new or old)
    )
    description = f"Below {FOUR_FIFTHS:g} before: {low or 'nobody'}."
    if new is not None:
        description += f" After: {still or 'nobody'}."
    table = _impact_table(f"{key}-table", caption, old, new)
    return picture(plot.impact(old, new), key, caption, description, table, wide=True)


def _law_table(place: int, old: ImpactTable, new: ImpactTable | None) -> Table:
    what = "Selection rates" if old.kind == "selection" else "Scoring rates (above the median)"
    caption = f"{what} and impact ratios by {old.by}"
    nobody = ImpactLine(
        "", old.unknown, NAN, NAN, NAN, NAN, NAN, NAN, "left out of rates and ratios"
    )
    notes = (_NOT_KNOWN,) if old.unknown else ()
    last = Sides("not known", nobody, nobody)
    return _impact_table(f"ll144-{old.kind}-{place}-table", caption, old, new, last, notes=notes)


def _impact_table(
    key: str,
    caption: str,
    old: ImpactTable,
    new: ImpactTable | None,
    *more: Sides,
    notes: Sequence[str] = (),
) -> Table:
    rate = "selection rate" if old.kind == "selection" else "scoring rate"
    columns = [
        Column(old.by, read="name"),
        Column("people", "count", "before.people"),
        Column(rate, "rate", "before.rate"),
        Column(f"{100 * old.confidence:g} % interval", "rates", "before.low before.high"),
        Column("impact ratio", "ratio", "before.ratio"),
        Column("interval of the ratio", "ratios", "before.ratio_low before.ratio_high"),
    ]
    if new is not None:
        columns += [
            Column(f"{rate}, repaired", "rate", "after.rate"),
            Column("impact ratio, repaired", "ratio", "after.ratio"),
            Column("its interval", "ratios", "after.ratio_low after.ratio_high"),
        ]
    columns.append(Column("note", read=_impact_note))
    repaired = {line.category: line for line in new.lines} if new is not None else {}
    rows = [
        Sides(old.names(line.category), line, repaired.get(line.category)) for line in old.lines
    ]
    return Table.of(key, caption, columns, (*rows, *more), *notes)


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


def _four_fifths(before: Audit, after: Audit | None) -> Table:
    sides = {"before": before} if after is None else {"before": before, "after": after}
    groups = [{one.group: one for one in audit.groups} for audit in sides.values()]

    def reads(sides: Sides, side: str) -> str:
        group: GroupSummary = getattr(sides, side)
        if isnan(group.impact_ratio):
            return "not judged"
        below = is_below_four_fifths(group.impact_ratio)
        return f"below {FOUR_FIFTHS:g}" if below else f"{FOUR_FIFTHS:g} or above"

    columns = [Column("group", read="name")]
    for side in sides:
        end = ", repaired" if side == "after" else ""
        columns += [
            Column(f"selection rate{end}", "rate", f"{side}.selection_rate"),
            Column(f"ratio to the highest{end}", "ratio", f"{side}.impact_ratio"),
            Column(f"reads{end}", read=partial(reads, side=side)),
        ]
    rows = [
        Sides(before.names(group), *(each[group] for each in groups))
        for group in before.worst_first()
    ]
    caption = "Selection rates over the highest, against four fifths"
    return Table.of("four-fifths", caption, columns, rows)


def _annex_four(before: Audit, after: Audit | None) -> Table:
    rows = []
    for system, audit in (("model alone", before), ("repaired", after)):
        if audit is not None:
            labels = [group.group for group in audit.groups]
            lines = dict(zip(labels, group_metrics(audit), strict=True))
            rows += [(before.names(one), system, lines[one]) for one in before.worst_first()]
    span = f"{100 * before.confidence:g} % interval of accuracy"
    columns = [
        Column("people", "count"),
        Column("accuracy", "rate"),
        Column(span, "rates", "accuracy_low accuracy_high"),
        Column("AUC", "decimal", "auc"),
        Column("positive decisions", "rate", "selection"),
        *(Column(words_of(name).title, "rate", name) for name in ("fnr", "fpr", "fdr")),
    ]
    return Table(
        "annex-iv",
        "Accuracy and error rates by group",
        (Column("group"), Column("system"), *columns),
        tuple(
            (name, system, *(column.value(line) for column in columns))
            for name, system, line in rows
        ),
    )
