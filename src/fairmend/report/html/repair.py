"""Figures, charts and tables about the explanation, the repair, the frontier and its origin."""

from __future__ import annotations

from typing import Any

from fairmend.measure.wording import describe_plan, share
from fairmend.repair.price_of_blindness import PriceOfBlindness
from fairmend.report import plot
from fairmend.report.edits import EditedFeature
from fairmend.report.findings import PlanSummary
from fairmend.report.html.people import NAN, picture
from fairmend.report.report import GroupOutcome, Report
from fairmend.report.table import Column, Table, typeset
from fairmend.status import PlanStatus
from fairmend.tables import counted, number, percent, points

__all__ = ["blindness", "frontier", "groups", "suppressed"]


def suppressed(what: str, n: int, smallest_cell: int) -> list[str]:
    """What is left out, because it would tell of single people.

    >>> suppressed("row", 1, 5)
    ['1 row that stands for fewer than 5 people is suppressed.']
    """
    if n == 0:
        return []
    some = f"1 {what} that stands for" if n == 1 else f"{n:,} {what}s that stand for"
    return [f"{some} fewer than {counted(smallest_cell)} {'is' if n == 1 else 'are'} suppressed."]


# -------------------------------------------------------------------- the repair


def groups(report: Report) -> list[dict[str, Any]]:
    """What is edited in each repaired group, and what happens to whom."""
    plans = {plan.target: plan for plan in report.plans}
    return [
        {
            "name": report.names(group.group),
            "plan": _plan_text(plans[group.group], report),
            "notes": plans[group.group].notes,
            "outcome": group,
            "flow": _flow(report, group),
            "edits": [
                (one.feature, one.share_of_edited, *line)
                for one in group.features
                for line in _edit_lines(one)
            ],
            "numbers": any(one.change is not None for one in group.features),
            "suppressed": suppressed(
                "edit", sum(one.not_shown for one in group.features), report.smallest_cell
            ),
        }
        for group in report.groups_in_order
        if group.repaired
    ]


def _plan_text(plan: PlanSummary, report: Report) -> str:
    """The plan's own text about the people it was fitted on."""
    outlook = plan.outlook
    text = describe_plan(
        PlanStatus[plan.status],
        outlook.by_metric,
        interval=(outlook.expected_low, outlook.expected_high),
        tolerance=outlook.tolerance,
    )
    target, baseline = report.names.pair(plan.target, plan.baseline)
    search = f" Destinations are {plan.search}." if plan.search else ""
    return (
        f"{text.status} The gap of {target} against {baseline}, by {plan.method}, on the people it "
        f"was fitted on: {'; '.join(filter(None, (*text.gaps, text.interval)))}.{search}"
    )


def _flow(report: Report, group: GroupOutcome) -> tuple[tuple[str, str, float, int], ...]:
    """From which decision to which, for what share of the group and how many people."""
    start = group.selected_before if report.favours_positive else 1 - group.selected_before
    had, gained, lost = group.people_favourable_before, group.people_gained, group.people_lost
    return (
        ("favourable", "favourable", start - group.lost, round(had - lost)),
        ("unfavourable", "favourable", group.gained, round(gained)),
        ("favourable", "unfavourable", group.lost, round(lost)),
        ("unfavourable", "unfavourable", 1 - start - group.gained, round(group.n - had - gained)),
    )


def _edit_lines(one: EditedFeature) -> list[tuple[str, str, float, str | None]]:
    """From what, to what, for how many, and the change of a number."""
    lines: list[tuple[str, str, float, str | None]] = [
        (edit.old, edit.new, edit.share_of_edited, None) for edit in one.edits
    ]
    change = one.change
    if change is not None:
        old, new = (f"median {number(at)}" for at in (change.old_median, change.new_median))
        always = {0.0: "always down", 1.0: "always up"}
        direction = always.get(change.rises, f"up for {share(change.rises)}")
        text = typeset(f"{number(change.median, signed=True)}, {direction}")
        lines.insert(0, (old, new, change.share_of_edited, text))
    return lines or [("suppressed", "suppressed", NAN, None)]


# -------------------------------------------------------------------- the frontier

_FRONTIER = (
    Column("level", "ratio"),
    Column("gap, points", "points", "gap"),
    Column("interval", "spans", "low high"),
    Column("impact ratio", "ratio", "impact_ratio"),
    Column("accuracy of everybody", "rate", "accuracy"),
    Column("AUC in the group", "decimal", "auc"),
    Column("edited", "rate"),
    Column("gain", "rate", "gained"),
    Column("lose", "rate", "lost"),
    Column("randomised", "rate"),
)


def frontier(report: Report) -> dict[str, Any]:
    """How much of the gap to close: a choice, with what each level does."""
    metric, points_by_level = report.metric, sorted(report.frontier, key=lambda point: point.level)
    levels = sorted({point.level for point in points_by_level})
    in_force = 1.0 if report.provenance is None else report.provenance.level
    start = min(range(len(levels)), key=lambda place: abs(levels[place] - in_force))
    present = {point.group for point in points_by_level if point.gap == point.gap}  # not nan
    parts: list[dict[str, Any]] = []
    for place, group in enumerate(one for one in report.order if one in present):
        its, name = (
            [point for point in points_by_level if point.group == group],
            report.names(group),
        )
        key, caption = f"frontier-{place}", f"{name}: what closing more of the {metric} gap does"
        first, last = its[0], its[-1]
        description = (
            f"From level {first.level:g} to {last.level:g} the gap goes from {points(first.gap)} "
            f"to {points(last.gap)} points, the edited from {share(first.edited)} to "
            f"{share(last.edited)}"
        )
        if report.outcome_known:
            description += (
                f" and accuracy from {percent(first.accuracy)} to {percent(last.accuracy)}"
            )
        table = Table.of(f"{key}-table", f"{name}: figures at each level", _FRONTIER, its)
        figures = [[cell.text for cell in row[1:]] for row in table.cells()]
        chart = plot.frontier(its, metric, levels[start])
        drawn = picture(chart, key, caption, f"{description}.", table)
        parts.append({"name": name, "place": place, "figures": figures, "chart": drawn})
    labels = [column.header for column in _FRONTIER[1:]]
    texts = [f"{level:g}" for level in levels]
    script = {"levels": texts, "labels": labels,
              "groups": [(part["name"], part["figures"]) for part in parts]}  # fmt: skip
    return {
        "data": {"level": script},
        "level": {"levels": texts, "labels": labels, "start": start, "groups": parts},
    }


# -------------------------------------------------------------------- the price of blindness

_PRICE = (
    Column("repair", read=lambda one: "reads the group" if one.reads_group else "blind"),
    Column("level", "ratio"),
    Column("reached", read=lambda one: "yes" if one.closed else "no"),
    Column("gap, points", "points", "gap"),
    Column("interval", "spans", "low high"),
    Column("accuracy", "rate"),
    Column("interval of accuracy", "rates", "accuracy_low accuracy_high"),
    Column("worth", "decimal"),
    Column("decisions turned", "rate", "turned"),
)


def blindness(price: PriceOfBlindness) -> dict[str, Any]:
    """What closing the gap costs without the group, and what with it."""
    caption = f"What closing the {price.metric} gap costs, without the group and with it"
    table = Table.of("blindness-table", f"{caption}: the people of the audit", _PRICE, price.points)
    drawn = picture(plot.blindness(price), "blindness", caption, " ".join(price.sentences), table)
    return {
        "blindness": {
            "chart": drawn,
            "sentences": price.sentences,
            "trade_off": str(price.trade_off),
        }
    }
