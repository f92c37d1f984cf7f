"""Figures, charts and tables about the explanation, the repair, the frontier and its origin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairmend.explain.marginals import Marginal
from fairmend.measure.wording import describe_plan, share
from fairmend.report import plot
from fairmend.report.edits import EditedFeature, value_text
from fairmend.report.findings import (
    LEAST_SHIFT,
    MOST_VALUES,
    Explanation,
    PlanSummary,
)
from fairmend.report.html.page import Chart
from fairmend.report.html.people import NAN, picture
from fairmend.report.report import GroupOutcome, Report
from fairmend.report.table import Column, Table, typeset
from fairmend.status import PlanStatus
from fairmend.tables import counted, number, percent, points

__all__ = ["explanation", "frontier", "groups"]

# -------------------------------------------------------------------- the counterfactual

_INTERVALS = (
    "Low and high are a 95 % interval that holds for all {} at once; everybody's part is "
    "explained by the values of other people."
)
_SCORES = (
    Column("feature"),
    Column("of the gap", "rate", "share_of_gap"),
    Column("of the influence", "rate", "influence_share"),
    Column("low", "rate"),
    Column("high", "rate"),
    Column("shift", "rate"),
)
_PAIRS = (
    Column("first"),
    Column("second"),
    Column("of the gap", "rate", "share_of_gap"),
    Column("of the influence", "rate", "influence_share"),
    Column("more than alone", "rate", "excess"),
    Column("low", "rate"),
    Column("high", "rate"),
)


def explanation(found: Explanation) -> dict[str, Any]:
    """On which inputs the gap rests."""
    return {
        "marginals": _marginals(found),
        "numbers": _marginal_table(
            found,
            "numbers",
            f"Numbers of {found.group_names[0]}",
            [line for line in found.marginals if not line.is_share],
            f"A quantile that fewer than {found.smallest_cell} people have exactly is rounded to 3 "
            "digits.",
        ),
        "scores": _scores(found),
        "proxies": Table.of(
            "proxies",
            "Joint proxies: pairs that carry more together than the better of them alone",
            _PAIRS,
            found.joint_proxies,
            f"{found.pairs_verdict} {_INTERVALS.format('pairs')}",
        ),
        "prototypes": _prototypes(found),
    }


def _marginals(found: Explanation) -> Chart | None:
    """Shares of people; None where no feature has shares to draw."""
    target, baseline = found.group_names
    moving = sorted(
        (line for line in found.marginals if line.is_share), key=lambda line: -abs(line.shift)
    )
    if not moving:
        return None
    caption = f"Inputs of {target}: observed and counterfactual, beside {baseline}"
    table = _marginal_table(
        found,
        "marginals-table",
        caption,
        moving[: plot.MOST_BARS],
        f"The shift is in points. Of a feature with many values at most {MOST_VALUES} are listed, "
        f"those that move most, by {100 * LEAST_SHIFT:g} points or more.",
        *suppressed("value", found.values_not_shown, found.smallest_cell),
    )
    most = moving[0]
    description = f"The share that moves most is {most.feature}, by {points(most.shift)} points."
    return picture(plot.marginals_spec(found)[0], "marginals", caption, description, table)


def _marginal_table(
    found: Explanation, key: str, caption: str, lines: Sequence[Marginal], *notes: str
) -> Table:
    shares = bool(lines) and lines[0].is_share
    kind, shift = ("rate", "points") if shares else ("number", "change")
    target, baseline = found.group_names
    columns = (
        Column("feature"),
        Column("value" if shares else "statistic", read="statistic"),
        Column(f"{baseline}, observed", kind, "baseline"),
        Column(f"{target}, observed", kind, "observed"),
        Column(f"{target}, counterfactual", kind, "counterfactual"),
        Column("shift", shift),
    )
    return Table.of(key, caption, columns, lines, *notes)


def _scores(found: Explanation) -> Chart:
    caption = f"How much of the gap of {found.group_names[0]} each input carries"
    table = Table.of(
        "scores-table",
        caption,
        _SCORES,
        found.feature_scores,
        f"{found.features_verdict} {_INTERVALS.format('features')}",
        "Of the gap: what closes if this feature's distribution alone moves to the "
        "counterfactual's.",
        "Of the influence: how much of each row's part in the gap the feature explains alone.",
        "Shift: the share of people whose value would have to differ.",
    )
    first = found.feature_scores[0]
    alone = f"{first.feature} explains most alone, {percent(first.influence_share)}."
    description = alone if first.more_than_noise else found.features_verdict
    return picture(plot.scores_spec(found)[0], "scores", caption, description, table)


def _prototypes(found: Explanation) -> Table:
    """The rows in a line each: yes-or-no features where they are 1, of others their value."""
    own = ("role", "observed", "counterfactual", "change")
    rows = found.prototypes
    features = [name for name in (rows[0] if rows else ()) if name not in own]
    binary = {name for name in features if all(row[name] in (0, 1) for row in rows)}

    def inputs(row: dict[str, Any]) -> str:
        parts = [
            name if name in binary else f"{name} = {value_text(row[name])}"
            for name in features
            if name not in binary or row[name] == 1
        ]
        return ", ".join(parts) or "all features 0"

    return Table(
        "prototypes",
        "Prototypes: rows that gain and lose most, and rows that represent what gains",
        (Column("role"), Column("observed", "rate"), Column("counterfactual", "rate"),
         Column("inputs")),
        tuple((row["role"], row["observed"], row["counterfactual"], inputs(row)) for row in rows),
        (
            *(("Yes-or-no features are named where they are 1.",) if binary else ()),
            *suppressed("row", found.prototypes_not_shown, found.smallest_cell),
        ),
    )  # fmt: skip


def suppressed(what: str, n: int, smallest_cell: int) -> tuple[str, ...]:
    """What is left out, because it would tell of single people.

    >>> suppressed("row", 1, 5)
    ('1 row that stands for fewer than 5 people is suppressed.',)
    """
    if n == 0:
        return ()
    some = f"1 {what} that stands for" if n == 1 else f"{n:,} {what}s that stand for"
    return (f"{some} fewer than {counted(smallest_cell)} {'is' if n == 1 else 'are'} suppressed.",)


# -------------------------------------------------------------------- the repair


def groups(report: Report) -> list[dict[str, Any]]:
    """What is edited in each repaired group, and what happens to whom."""
    plans = {plan.target: plan for plan in report.plans}
    repaired = [group for group in report.groups_in_order if group.repaired]
    return [
        {
            "name": report.names(group.group),
            "plan": _plan_text(plans[group.group], report),
            "outcome": group,
            "charts": [
                _flow(report, group, place),
                *([_edits(report, group, place)] if group.features else []),
            ],
        }
        for place, group in enumerate(repaired)
    ]


def _plan_text(plan: PlanSummary, report: Report) -> str:
    """The plan's own text about the people it was fitted on."""
    outlook = plan.outlook
    told = describe_plan(
        PlanStatus[plan.status],
        outlook.by_metric,
        interval=(outlook.expected_low, outlook.expected_high),
        tolerance=outlook.tolerance,
    )
    target, baseline = report.names.pair(plan.target, plan.baseline)
    search = f" Destinations are {plan.search}." if plan.search else ""
    return (
        f"{told.status} The gap of {target} against {baseline}, by {plan.method}, on the people it "
        f"was fitted on: {'; '.join(filter(None, (*told.gaps, told.interval)))}.{search}"
    )


def _flow(report: Report, group: GroupOutcome, place: int) -> Chart:
    name = report.names(group.group)
    caption = (
        f"Decisions about {name} before (left) and after (right); favourable is {report.favourable}"
    )
    start = group.selected_before if report.favours_positive else 1 - group.selected_before
    had, gained, lost = group.people_favourable_before, group.people_gained, group.people_lost
    rows = (
        ("favourable", "favourable", start - group.lost, round(had - lost)),
        ("unfavourable", "favourable", group.gained, round(gained)),
        ("favourable", "unfavourable", group.lost, round(lost)),
        ("unfavourable", "unfavourable", 1 - start - group.gained, round(group.n - had - gained)),
    )
    columns = (
        Column("before"),
        Column("after"),
        Column(f"share of the group{', weighted' if report.before.weighted else ''}", "rate"),
        Column("people, expected", "count"),
    )
    key = f"flow-{place}"
    description = (
        f"{share(group.gained)} gain the favourable decision and {share(group.lost)} lose it."
    )
    chart = plot.flow(group, favours_positive=report.favours_positive)
    return picture(chart, key, caption, description, Table(f"{key}-table", caption, columns, rows))


def _edits(report: Report, group: GroupOutcome, place: int) -> Chart:
    key, first = f"edits-{place}", group.features[0]
    caption = f"Features edited, as a share of the edited people of {report.names(group.group)}"
    numbers = any(one.change is not None for one in group.features)
    columns = [
        Column("feature"),
        Column("edited", "rate"),
        Column("from"),
        Column("to"),
        Column("this edit", "rate"),
        *([Column("median change")] if numbers else []),
    ]
    rows = [
        (one.feature, one.share_of_edited, *line)[: len(columns)]
        for one in group.features
        for line in _edit_lines(one)
    ]
    medians = (
        ", of numbers with many values medians, rounded; the median change is not the change of "
        "the medians"
    )
    notes = (
        "Shares of the edited people; of a feature with many edits the commonest are listed"
        f"{medians if numbers else ''}.",
        *suppressed("edit", sum(one.not_shown for one in group.features), report.smallest_cell),
    )
    table = Table(f"{key}-table", caption, tuple(columns), tuple(rows), notes)
    description = f"{first.feature} is edited most, for {share(first.share_of_edited)} of them."
    return picture(plot.edits(group.features), key, caption, description, table)


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
    metric, found = report.metric, sorted(report.frontier, key=lambda point: point.level)
    levels = sorted({point.level for point in found})
    in_force = 1.0 if report.provenance is None else report.provenance.level
    start = min(range(len(levels)), key=lambda place: abs(levels[place] - in_force))
    present = {point.group for point in found}
    parts: list[dict[str, Any]] = []
    for place, group in enumerate(one for one in report.order if one in present):
        its, name = [point for point in found if point.group == group], report.names(group)
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
