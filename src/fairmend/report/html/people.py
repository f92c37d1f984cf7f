"""The sections about people as they are treated: verdict, groups, gaps, and tables to file."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from math import isnan

from fairmend.data.naming import JOINER
from fairmend.measure.result import BY_PERSON, FOUR_FIFTHS, Audit, Gap, is_below_four_fifths
from fairmend.measure.wording import share
from fairmend.report.filing import (
    SMALL,
    GroupMetrics,
    ImpactLine,
    ImpactTable,
    PeopleCell,
    cells_of_audit,
    filed_tables,
    group_metrics,
    impact_tables,
)
from fairmend.report.html import charts
from fairmend.report.html.blocks import (
    Answers,
    Block,
    Chart,
    Figures,
    Heading,
    Section,
    TableBlock,
    Text,
)
from fairmend.report.html.svg import drawn
from fairmend.report.html.table import Column, Table
from fairmend.report.report import Report
from fairmend.report.verdict import after, audit_verdict, metrics_of, size, unit, whose
from fairmend.tables import percent

__all__ = ["audit_filing", "audit_groups", "audit_words", "filing", "groups", "holdout", "words"]

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

# -------------------------------------------------------------------- the verdict


def words(report: Report) -> Section:
    """The report in words, and the few figures to remember."""
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
    figures.append(
        (
            f"accuracy of everybody{weighted}",
            f"{percent(report.accuracy_before)} → {percent(report.accuracy_after)}"
            if report.outcome_known
            else "not known",
            _WHOSE[report.holdout],
        )
    )
    return Section("verdict", "Verdict", (Figures(tuple(figures)), Answers(report.verdict())))


def _gap_figure(label: str, old: Gap, new: Gap) -> tuple[str, str, str]:
    if not (old.judged and new.judged):
        return label, "not judged", old.note or new.note
    return (
        f"{label}, in points" if unit(new) else label,
        f"{size(old, old.gap)} → {after(old, new)}",
        f"interval now {size(new, new.low)} to {size(new, new.high)}",
    )


def audit_words(audit: Audit) -> Section:
    """The same of an audit."""
    return Section("verdict", "Verdict", (Answers(audit_verdict(audit)),))


# -------------------------------------------------------------------- groups


def groups(report: Report) -> Section:
    """Every category and intersection, with intervals and the line at 0.8."""
    return _groups(report.before, report.cells_before, report.cells_after)


def audit_groups(audit: Audit) -> Section:
    """The same of an audit, with its gaps."""
    return _groups(audit, cells_of_audit(audit), (), gaps=True)


def _groups(audit: Audit, before: Cells, after: Cells, *, gaps: bool = False) -> Section:
    blocks: list[Block] = [
        Text(
            "The impact ratio is a group's share of positive decisions over that of the group "
            f"which has the highest. The dashed line is at {FOUR_FIFTHS:g}, the four-fifths rule. "
            f"Bars are {100 * audit.confidence:g} % intervals; the group with the highest share "
            "has none, because it is the measure."
        )
    ]
    if audit.weighted:
        blocks.append(Text("Rates are weighted; people are counted."))
    if audit.rows is not None:
        blocks.append(Text(BY_PERSON))
    tables = [
        impact_tables(audit.attribute, _sorted(cells, audit), confidence=audit.confidence)
        for cells in (before, after)
    ]
    repaired = tables[1] or (None,) * len(tables[0])
    for place, (old, new) in enumerate(zip(tables[0], repaired, strict=True)):
        key = f"impact-{place}"
        caption = f"Impact ratios by {old.by}"
        picture = drawn(charts.impact(old, new), key, caption, _impact_words(old, new), wide=True)
        blocks.append(Chart(key, caption, picture, _impact_table(key, caption, old, new)))
    if gaps:
        blocks.append(_gap_chart("gaps", audit.in_order(), (), audit))
    return Section("groups", "Groups and intersections", tuple(blocks))


def _sorted(cells: Cells, audit: Audit) -> list[PeopleCell]:
    """The worst-off group first."""
    order = [str(group) for group in audit.worst_first()]
    return sorted(cells, key=lambda cell: order.index(JOINER.join(cell.labels)))


def _impact_words(old: ImpactTable, new: ImpactTable | None) -> str:
    low = [old.names(line.category) for line in old.lines if line.below_four_fifths]
    still = (
        [new.names(line.category) for line in new.lines if line.below_four_fifths] if new else []
    )
    text = f"Below {FOUR_FIFTHS:g} before: {', '.join(low) or 'nobody'}."
    return f"{text} After: {', '.join(still) or 'nobody'}." if new else text


def _impact_table(
    key: str, caption: str, old: ImpactTable, new: ImpactTable | None, *, filed: bool = False
) -> Table:
    rate = "selection rate" if old.kind == "selection" else "scoring rate"
    columns = [
        Column(old.by),
        Column("people", "count"),
        Column(rate, "rate"),
        Column(f"{100 * old.confidence:g} % interval", "rates"),
        Column("impact ratio", "ratio"),
        Column("interval of the ratio", "ratios"),
    ]
    if new is not None:
        columns += [
            Column(f"{rate}, repaired", "rate"),
            Column("impact ratio, repaired", "ratio"),
            Column("its interval", "ratios"),
        ]
    columns.append(Column("note"))
    after = {line.category: line for line in new.lines} if new is not None else {}
    rows = []
    for line in old.lines:
        row = [
            old.names(line.category),
            line.people,
            line.rate,
            (line.low, line.high),
            line.ratio,
            (line.ratio_low, line.ratio_high),
        ]
        other = after.get(line.category)
        if other is not None:
            row += [other.rate, other.ratio, (other.ratio_low, other.ratio_high)]
        still = None if other is None else other.below_four_fifths
        notes = [_noted(line.note, other), _below(line.below_four_fifths, still)]
        rows.append((*row, "; ".join(note for note in notes if note)))
    if filed:
        nothing = {"rate": NAN, "ratio": NAN, "rates": (NAN, NAN), "ratios": (NAN, NAN)}
        blank = [nothing[column.kind] for column in columns[2:-1]]
        rows.append(("not known", old.unknown, *blank, "left out of rates and ratios"))
    said = (_NOT_KNOWN,) if filed and old.unknown else ()
    return Table(f"{key}-table", caption, tuple(columns), tuple(rows), said)


def _noted(before: str, after: ImpactLine | None) -> str:
    """A note, and on which side it holds where not on both: another may be highest once mended."""
    if after is None or after.note == before:
        return before
    sides = (("before", before), ("after", after.note))
    return "; ".join(f"{side}: {note}" for side, note in sides if note)


def _below(before: bool, after: bool | None) -> str:
    if not before and not after:
        return ""
    if after is None:
        return f"below {FOUR_FIFTHS:g}"
    when = {(True, True): "before and after", (True, False): "before", (False, True): "after"}
    return f"below {FOUR_FIFTHS:g} {when[before, after]}"


# -------------------------------------------------------------------- before and after


def holdout(report: Report) -> Section:
    """Gaps, accuracy and AUC of the people of the report."""
    performance = Table(
        "performance",
        "Accuracy and AUC by group, before and after",
        (
            Column("group"),
            Column("people", "count"),
            Column("accuracy", "rate"),
            Column("accuracy, repaired", "rate"),
            Column("AUC", "decimal"),
            Column("AUC, repaired", "decimal"),
            Column("positive decisions", "rate"),
            Column("positive decisions, repaired", "rate"),
        ),
        tuple(
            (
                report.names(group.group),
                group.n,
                group.accuracy_before,
                group.accuracy_after,
                group.auc_before,
                group.auc_after,
                group.selected_before,
                group.selected_after,
            )
            for group in report.groups_in_order
        ),
        (
            f"Accuracy of everybody: {percent(report.accuracy_before)} before, "
            f"{percent(report.accuracy_after)} after."
            if report.outcome_known
            else "What really happened is not known, so that nothing is said of accuracy.",
        ),
    )
    followed = Table(
        "followed",
        "If outcomes followed the edited inputs, M(Q), in points",
        (Column("group"), Column("metric"), Column("before", "points"), Column("after", "points")),
        tuple(
            (report.names(group.group), metric, before, after)
            for group in report.groups_in_order
            for metric, before, after in group.counterfactual
        ),
        ("People keep their own outcomes: this reading is shown beside the gap they live with.",),
    )
    blocks: list[Block] = [
        Text(
            f"{whose(report)} Figures after the repair are exact expectations over what is drawn."
        ),
        _gap_chart(
            "gaps",
            [old for old, _ in report.gaps_in_order],
            [new for _, new in report.gaps_in_order],
            report.before,
        ),
        TableBlock(performance),
    ]
    if followed.rows:
        blocks.append(TableBlock(followed))
    return Section("holdout", "Before and after", tuple(blocks))


def _gap_chart(key: str, before: Sequence[Gap], after: Sequence[Gap], audit: Audit) -> Chart:
    span = f"{100 * audit.confidence:g} % interval"
    columns = [
        Column("metric"),
        Column("group"),
        Column("against"),
        Column("its rate", "rate"),
        Column("other's rate", "rate"),
        Column("gap, points", "points"),
        Column(span, "spans"),
        Column("p, Holm", "p"),
    ]
    if after:
        columns += [
            Column("its rate, repaired", "rate"),
            Column("gap, repaired", "points"),
            Column(f"{span}, repaired", "spans"),
        ]
    noted = any(gap.note for gap in before)
    if noted:
        columns.append(Column("note"))
    names = audit.names
    rows = []
    for place, gap in enumerate(before):
        row = [
            gap.metric, names(gap.target), names(gap.baseline), gap.target_rate,
            gap.baseline_rate, gap.gap, (gap.low, gap.high), gap.p_adjusted,
        ]  # fmt: skip
        if after:
            new = after[place]
            row += [new.target_rate, new.gap, (new.low, new.high)]
        rows.append((*row, gap.note) if noted else tuple(row))
    titles = tuple(f"{name}: {title}." for name, title in audit.titles.items() if title)
    caption = "Gaps before and after the repair" if after else "Gaps of every group"
    sure = [f"{gap.metric} of {names(gap.target)}" for gap in before if gap.low > 0 or gap.high < 0]
    told = f"Intervals that exclude 0 before the repair: {', '.join(sure) or 'none'}."
    picture = drawn(charts.gaps(before, after, names), key, caption, told, wide=True)
    return Chart(
        key, caption, picture, Table(f"{key}-table", caption, tuple(columns), tuple(rows), titles)
    )


# -------------------------------------------------------------------- tables to file


def filing(report: Report) -> Section:
    """The tables auditors file, before and after the repair."""
    return _filing(report.before, report.cells_before, report.after, report.cells_after)


def audit_filing(audit: Audit) -> Section:
    """The same of an audit."""
    return _filing(audit, cells_of_audit(audit), None, ())


def _filing(before: Audit, cells: Cells, after: Audit | None, cells_after: Cells) -> Section:
    blocks: list[Block] = [
        Text(
            "Figures in the form that auditors are asked for. Whether a law applies, and what "
            "follows from them, is not for this report to say."
        ),
        Heading("New York City Local Law 144"),
        Text(
            "Rates and impact ratios by category and intersection (6 RCNY 5-301). Categories with "
            f"under {100 * SMALL:g} % of the people are listed but left out of the ratios. The "
            "law asks for sex, for race and ethnicity, and for both together: pass both as "
            f"sensitive features. These people are grouped by {before.attribute}."
        ),
    ]
    old, new = (
        filed_tables(before.attribute, _sorted(each, before)) for each in (cells, cells_after)
    )
    for place, (one, other) in enumerate(zip(old, new or (None,) * len(old), strict=True)):
        what = "Selection rates" if one.kind == "selection" else "Scoring rates (above the median)"
        caption = f"{what} and impact ratios by {one.by}"
        table = _impact_table(f"ll144-{one.kind}-{place}", caption, one, other, filed=True)
        blocks.append(TableBlock(table, download=True))
    blocks += [Heading("The four-fifths rule"), *_four_fifths(before, after)]
    blocks += [
        Heading("EU AI Act, Annex IV"),
        Text(
            "Metrics for points 2 (g) and 3: accuracy for everybody and for each group, error "
            "rates, and measures of discriminatory impact. The rest of the technical documentation "
            "is the provider's to write."
        ),
        TableBlock(_annex_four(before, after), download=True),
    ]
    return Section("filing", "Tables to file", tuple(blocks))


def _four_fifths(before: Audit, after: Audit | None) -> list[Block]:
    def lines(audit: Audit) -> dict[str, tuple[float, float]]:
        found = {g.group: (g.selection_rate, g.impact_ratio) for g in audit.groups}
        return {audit.names(group): found[group] for group in before.worst_first()}

    def said(ratio: float) -> str:
        if isnan(ratio):
            return "not judged"
        return _below(is_below_four_fifths(ratio), None) or f"{FOUR_FIFTHS:g} or above"

    columns = [Column("group")]
    for side in ("", ", repaired") if after is not None else ("",):
        columns += [
            Column(f"selection rate{side}", "rate"),
            Column(f"ratio to the highest{side}", "ratio"),
            Column(f"reads{side}"),
        ]
    new = lines(after) if after is not None else {}
    rows = [
        (name, rate, ratio, said(ratio), *((*new[name], said(new[name][1])) if new else ()))
        for name, (rate, ratio) in lines(before).items()
    ]
    caption = "Selection rates over the highest, against four fifths"
    table = Table("four-fifths", caption, tuple(columns), tuple(rows))
    return [TableBlock(table, download=True)]


def _annex_four(before: Audit, after: Audit | None) -> Table:
    sides = [("model alone", before), *([("repaired", after)] if after is not None else [])]
    span = f"{100 * before.confidence:g} % interval of accuracy"
    return Table(
        "annex-iv",
        "Accuracy and error rates by group",
        (
            Column("group"),
            Column("system"),
            Column("people", "count"),
            Column("accuracy", "rate"),
            Column(span, "rates"),
            Column("AUC", "decimal"),
            Column("positive decisions", "rate"),
            Column("false negative rate", "rate"),
            Column("false positive rate", "rate"),
            Column("false discovery rate", "rate"),
        ),
        tuple(
            (
                before.names(label), side, line.people, line.accuracy,
                (line.accuracy_low, line.accuracy_high), line.auc, line.selection, line.fnr,
                line.fpr, line.fdr,
            )
            for side, audit in sides
            for label, line in _metrics_in_order(audit, before.worst_first())
        ),
    )  # fmt: skip


def _metrics_in_order(
    audit: Audit, order: Sequence[Hashable]
) -> list[tuple[Hashable, GroupMetrics]]:
    lines = dict(zip((group.group for group in audit.groups), group_metrics(audit), strict=True))
    return [(label, lines[label]) for label in order]
