"""Figures, charts and tables about the explanation, the repair, the frontier and its origin."""

from __future__ import annotations

from math import isnan
from typing import Any

from fairmend.explain.marginals import Marginal
from fairmend.measure.disparity import title_of
from fairmend.measure.wording import EXACT, share
from fairmend.repair.price_of_blindness import PriceOfBlindness
from fairmend.report import verdict
from fairmend.report.chart import (
    NAN,
    SIDES,
    Axis,
    Mark,
    Plane,
    Point,
    Row,
    RowChart,
    as_percent,
    as_points,
    finite_values,
)
from fairmend.report.edits import EditedFeature
from fairmend.report.findings import (
    LEAST_SHIFT,
    MOST_VALUES,
    Explanation,
    FrontierPoint,
    PlanSummary,
)
from fairmend.report.report import GroupOutcome, Report
from fairmend.report.table import Column, Table, typeset
from fairmend.tables import counted, number, percent, points

__all__ = [
    "blindness", "explained", "frontier", "groups", "moves", "persons", "scores", "suppressed",
    "who",
]  # fmt: skip

MOST_ROWS = 12
"""Rows of a chart; the table has the others."""
MANY_GROUPS, FEWER_ROWS = 4, 6
"""Where so many groups are repaired, the chart of each has fewer rows, or paper runs out."""
SMALL_SHIFT = 0.01
"""Values whose share moves by less are in the table only."""


def suppressed(what: str, n: int, smallest_cell: int) -> list[str]:
    """What is left out, because it would tell of single people.

    >>> suppressed("row", 1, 5)
    ['1 row that stands for fewer than 5 people is suppressed.']
    """
    if n == 0:
        return []
    some = f"1 {what} that stands for" if n == 1 else f"{n:,} {what}s that stand for"
    return [f"{some} fewer than {counted(smallest_cell)} {'is' if n == 1 else 'are'} suppressed."]


# -------------------------------------------------------------------- the explanation


def explained(explanation: Explanation) -> dict[str, Any]:
    """What moves under the counterfactual, and how much of the gap each input carries."""
    return {
        "shares": _shares(explanation) if explanation.shares else None,
        "numbers": _numbers(explanation),
        "scores": scores(explanation),
    }


def moves(explanation: Explanation) -> tuple[RowChart, ...]:
    """What moves under the counterfactual: shares of people, then numbers."""
    numbers = _numbers(explanation)
    shares = (_shares(explanation),) if explanation.shares else ()
    return (*shares, *(numbers["charts"] if numbers else ()))


def _shares(explanation: Explanation) -> RowChart:
    """Shares of people with a value: observed, counterfactual, and in the reference group."""
    target, baseline = explanation.group_names
    moving = [one for one in explanation.shares if abs(one.shift) >= SMALL_SHIFT][:MOST_ROWS]
    shown = moving or explanation.shares[:3]
    rows = tuple(
        Row(
            one.feature if one.statistic == "1" else f"{one.feature} = {one.statistic}",
            (
                Mark("reference", one.baseline),
                Mark(SIDES[0], one.observed),
                Mark(SIDES[1], one.counterfactual, base=one.observed),
            ),
            says=f"{percent(one.observed)} → {percent(one.counterfactual)}",
        )
        for one in shown
    )
    hidden = len(explanation.shares) - len(shown)
    caption = f"Inputs of {target}: observed and counterfactual, beside {baseline}"
    table = Table.of(
        "marginals-table",
        caption,
        (
            Column("feature"),
            Column("value", read="statistic"),
            Column(f"{baseline}, observed", "rate", "baseline"),
            Column(f"{target}, observed", "rate", "observed"),
            Column(f"{target}, counterfactual", "rate", "counterfactual"),
            Column("shift", "points"),
        ),
        explanation.shares,
        f"The shift is in points. Of a feature with many values at most {MOST_VALUES} are listed, "
        f"those that move most, by {100 * LEAST_SHIFT:g} points or more.",
        *suppressed("value", explanation.values_not_shown, explanation.smallest_cell),
    )
    folded = f" {hidden} more move less." if hidden else ""
    return RowChart.of(
        "marginals",
        caption,
        rows,
        as_percent,
        "per cent of people",
        legend=((SIDES[0], f"{target}, observed"), (SIDES[1], f"{target}, counterfactual"),
                ("reference", f"{baseline}, observed")),
        beneath=f"Those that move most come first.{folded}",
        table=table,
    )  # fmt: skip


def _numbers(explanation: Explanation) -> dict[str, Any] | None:
    """Numbers: median, middle half and middle four fifths of each side; those that move first."""
    if not explanation.numbers:
        return None
    by_feature: dict[str, dict[str, Marginal]] = {}
    for line in explanation.numbers:
        by_feature.setdefault(line.feature, {})[line.statistic] = line
    first = sorted(by_feature, key=lambda name: -_moves(by_feature[name]))
    moving = {name: by_feature[name] for name in first if _moves(by_feature[name]) > 0}
    charts = [
        _number(explanation, place, name, lines)
        for place, (name, lines) in enumerate(moving.items())
    ]
    still = [name for name in by_feature if name not in moving]
    target, baseline = explanation.group_names
    table = Table.of(
        "numbers",
        f"Numbers of {target}",
        (
            Column("feature"),
            Column("statistic"),
            Column(f"{baseline}, observed", "number", "baseline"),
            Column(f"{target}, observed", "number", "observed"),
            Column(f"{target}, counterfactual", "number", "counterfactual"),
            Column("shift", "change"),
        ),
        explanation.numbers,
        f"A quantile that fewer than {explanation.smallest_cell} people have exactly is rounded "
        "to 3 digits.",
    )
    return {"charts": charts[:MOST_ROWS], "still": still, "table": table}


def _moves(lines: dict[str, Marginal]) -> float:
    """How far the quantiles of a number move, as a share of its spread."""
    spread = abs(lines["90 %"].observed - lines["10 %"].observed) or 1.0
    return max(abs(line.shift) for name, line in lines.items() if name != "mean") / spread


def _number(
    explanation: Explanation, place: int, name: str, lines: dict[str, Marginal]
) -> RowChart:
    target, baseline = explanation.group_names
    rows = []
    for side, who, read in (
        (SIDES[0], f"{target}, observed", "observed"),
        (SIDES[1], f"{target}, counterfactual", "counterfactual"),
        ("fifth", f"{baseline}, observed", "baseline"),
    ):
        low, quarter, half, most, high = (
            getattr(lines[f"{place} %"], read) for place in (10, 25, 50, 75, 90)
        )
        mark = Mark(side, half, low, high, middle=(quarter, most), text=number(half))
        rows.append(Row(who, (mark,)))
    return RowChart.of(f"number-{place}", name, rows, number)


def scores(explanation: Explanation) -> RowChart:
    """How much of the gap each input carries alone."""
    sure = [one for one in explanation.feature_scores if one.more_than_noise]
    shown = (sure or explanation.feature_scores[:3])[:MOST_ROWS]
    rows = tuple(
        Row(
            one.feature,
            (
                Mark("bar", one.share_of_gap, base=0.0),
                Mark("after", one.influence_share, one.low, one.high),
            ),
            says=percent(one.share_of_gap),
        )
        for one in shown
    )
    caption = f"How much of the gap of {explanation.group_names[0]} each input carries"
    interval = "Low and high are a 95 % interval that holds for all features at once; everybody's "
    table = Table.of(
        "scores-table",
        caption,
        (
            Column("feature"),
            Column("of the gap", "rate", "share_of_gap"),
            Column("of the influence", "rate", "influence_share"),
            Column("low", "rate"),
            Column("high", "rate"),
            Column("shift", "rate"),
        ),
        explanation.feature_scores,
        f"{explanation.features_verdict} {interval}part is explained by the values of other "
        "people.",
        "Of the gap: what closes if this feature's distribution alone moves to the "
        "counterfactual's.",
        "Of the influence: how much of each row's part in the gap the feature explains alone.",
        "Shift: the share of people whose value would have to differ.",
    )
    drawn = f" The first {len(shown)} are shown in the chart." if 0 < len(shown) < len(sure) else ""
    return RowChart.of(
        "scores",
        caption,
        rows,
        as_percent,
        "per cent",
        at=[0.0],
        legend=(("bar", "of the gap, if it moves alone"),
                ("after", "of the influence, with 95 % interval")),
        guide=0.0,
        beneath=f"{explanation.features_verdict}{drawn}",
        table=table,
    )  # fmt: skip


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
            "edits": _edits(report, group, f"edits-{place}") if group.features else None,
        }
        for place, group in enumerate(one for one in report.groups_in_order if one.repaired)
    ]


def _plan_text(plan: PlanSummary, report: Report) -> str:
    """The plan's own text about the people it was fitted on."""
    text = plan.in_words
    target, baseline = report.names.pair(plan.target, plan.baseline)
    search = f" Destinations are {plan.search}." if plan.search else ""
    how = "one rule for everybody, without the group" if report.blind else plan.method
    return (
        f"{text.status} The gap of {target} against {baseline}, by {how}, on the people it "
        f"was fitted on: {'; '.join(filter(None, (*text.gaps, text.interval)))}.{search}"
    )


def who(report: Report) -> RowChart:
    """Who gains the favourable decision and who loses it, in each group."""
    weighted = ", weighted" if report.before.weighted else ""
    rows, flows = [], []
    for group in report.groups_in_order:
        name = report.names(group.group)
        if group.repaired:
            flows += [(name, *flow) for flow in _flows(report, group)]
        gains, loses = (
            _so_many(getattr(group, side), getattr(group, f"people_{side}"), verb)
            for side, verb in (("gained", "gain"), ("lost", "lose"))
        )
        marks = (Mark("bar after", group.gained, base=0.0, text=gains),
                 Mark("bar before", group.lost, base=0.0, text=loses))  # fmt: skip
        rows.append(Row(name, marks, counted(group.n)))
    caption = "Who gains the favourable decision, and who loses it"
    table = Table(
        "flow-table",
        "Decisions before and after",
        (Column("group"), Column("before"), Column("after"),
         Column(f"share of the group{weighted}", "rate"), Column("people, expected", "count")),
        tuple(flows),
    )  # fmt: skip
    beneath = f"The favourable decision is {report.favourable}." if report.favourable else ""
    return RowChart.of(
        "flow",
        caption,
        rows,
        as_percent,
        f"per cent of the group{weighted}",
        lines=("bar after", "bar before"),
        guide=0.0,
        beneath=beneath,
        table=table,
    )


def _so_many(part: float, people: float, verb: str) -> str:
    return f"{share(part)} {verb} ({counted(round(people))})" if people > EXACT else (
        f"nobody {verb}s")  # fmt: skip


def _flows(report: Report, group: GroupOutcome) -> tuple[tuple[str, str, float, int], ...]:
    """From which decision to which, for what share of the group and how many people."""
    start = group.selected_before if report.favours_positive else 1 - group.selected_before
    had, gained, lost = group.people_favourable_before, group.people_gained, group.people_lost
    return (
        ("favourable", "favourable", start - group.lost, round(had - lost)),
        ("unfavourable", "favourable", group.gained, round(gained)),
        ("favourable", "unfavourable", group.lost, round(lost)),
        ("unfavourable", "unfavourable", 1 - start - group.gained, round(group.n - had - gained)),
    )


def _edits(report: Report, group: GroupOutcome, key: str) -> RowChart:
    """How often each feature is edited among the edited, and how."""
    caption = f"Features edited, as a share of the edited people of {report.names(group.group)}"
    lines = [
        (one.feature, one.share_of_edited, *line)
        for one in group.features
        for line in _edit_lines(one)
    ]
    columns = [Column("feature"), Column("edited", "rate"), Column("from"), Column("to"),
               Column("this edit", "rate")]  # fmt: skip
    numbers = any(one.change is not None for one in group.features)
    columns += [Column("median change")] if numbers else []
    more = (", of numbers with many values medians, rounded; the median change is not the change "
            "of the medians") if numbers else ""  # fmt: skip
    table = Table(
        f"{key}-table",
        caption,
        tuple(columns),
        tuple(line[: len(columns)] for line in lines),
        (
            "Shares of the edited people; of a feature with many edits the commonest are listed"
            f"{more}.",
            *suppressed("edit", sum(one.not_shown for one in group.features), report.smallest_cell),
        ),
    )
    rows = tuple(
        Row(one.feature, (Mark("bar", one.share_of_edited, base=0.0),),
            (typeset(one.how) if one.change else one.how).replace(" -> ", " → "),
            share(one.share_of_edited))
        for one in group.features[: FEWER_ROWS if len(report.plans) >= MANY_GROUPS else MOST_ROWS]
    )  # fmt: skip
    hidden = len(group.features) - len(rows)
    beneath = f"{hidden} more, edited less often, are in the table." if hidden else ""
    return RowChart.of(key, caption, rows, as_percent, "per cent of the edited people", guide=0.0,
                       beneath=beneath, table=table)  # fmt: skip


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


# -------------------------------------------------------------------- single people


def persons(report: Report) -> dict[str, Any]:
    """The people to choose from, the first of them as drawn, and all of them as a file."""
    people = [
        {
            "id": one.id,
            "group": "" if one.group is None else report.names(one.group),
            "why": [typeset(line) for line in verdict.why_edited(report, one)],
            "changes": [(change.feature, change.old, change.new) for change in one.changes],
        }
        for one in report.people
    ]
    table = Table(
        "people",
        "Edited inputs of single people: no facts about them",
        tuple(map(Column, ("id", "input", "as it is", "as the model sees it"))),
        tuple(
            (one.id, change.feature, change.old, change.new)
            for one in report.people
            for change in one.changes
        ),
    )
    others = report.people_not_shown
    left_out = f"{counted(others)} more {'is' if others == 1 else 'are'} edited." if others else ""
    return {"people": people, "first": people[0], "table": table, "left_out": left_out,
            "warning": verdict.NO_FACTS}  # fmt: skip


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


_SHOWN = ("gap, points", "interval", "accuracy of everybody", "edited", "gain", "lose")
"""What is beside the slider; the table has all."""


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
        table = Table.of(f"{key}-table", f"{name}: figures at each level", _FRONTIER, its)
        figures = [[cell.text for cell in row[1:]] for row in table.cells()]
        charts = _curves(report, its, levels, start, key)
        parts.append({"name": name, "place": place, "figures": figures, "caption": caption,
                      "key": key, "charts": charts, "table": table})  # fmt: skip
    labels = [column.header for column in _FRONTIER[1:]]
    shown = [labels.index(name) for name in _SHOWN]
    texts = [f"{level:g}" for level in levels]
    script = {"levels": texts, "labels": labels,
              "groups": [(part["name"], part["figures"]) for part in parts]}  # fmt: skip
    return {
        "data": {"level": script},
        "level": {
            "levels": texts,
            "labels": labels,
            "start": start,
            "groups": parts,
            "shown": shown,
        },
        "frontier_found": _in_force(report, points_by_level, levels, levels[start]),
    }


def _in_force(
    report: Report, at_level: list[FrontierPoint], levels: list[float], level: float
) -> str:
    """What the level in force does for the worst-off group, and what half of it would do."""
    first = next(group for group in report.order if any(one.group == group for one in at_level))
    half = min(levels, key=lambda one: abs(one - level / 2))
    parts = []
    for one in at_level:
        if one.group == first and one.level in (level, half) and not isnan(one.gap):
            which = "in force" if one.level == level else "for comparison"
            parts.append(
                f"at level {one.level:g}, {which}, the gap of {report.names(first)} is "
                f"{points(one.gap)} points and {share(one.edited)} of them are edited"
            )
    text = "; ".join(reversed(parts))
    return f"{text[:1].upper()}{text[1:]}." if text else ""


def _curves(
    report: Report, its: list[FrontierPoint], levels: list[float], start: int, key: str
) -> list[Plane]:
    """The gap with its interval, people edited, and accuracy as the level grows."""
    x = Axis.of([0.0, 1.0], "{:.1f}".format, "level", most=5)

    def plane(name: str, y: Axis, read: str, side: str, **more: Any) -> Plane:
        places = tuple((one.level, getattr(one, read)) for one in its)
        dots = tuple(Point(*place, side) for place in places)
        return Plane(f"{key}-{name}", y.title, x, y, dots, ((side, places),), high=170,
                     cursors=tuple(levels), cursor=start, **more)  # fmt: skip

    area = tuple((one.level, one.low, one.high) for one in its if not isnan(one.low))
    gaps = [0.0, *finite_values(*(value for one in its for value in (one.gap, one.low, one.high)))]
    edited = [0.0, *(one.edited for one in its)]
    charts = [
        plane("gap", Axis.of(gaps, as_points, f"gap in {title_of(report.metric)}, points", most=5),
              "gap", "after", area=area, guides=(None, 0.0)),
        plane("edited", Axis.of(edited, as_percent, "per cent of the group edited", most=5),
              "edited", "third"),
    ]  # fmt: skip
    if report.outcome_known:
        accuracies = [one.accuracy for one in its]
        window = [min(accuracies) - 0.01, max(accuracies) + 0.01]  # noise must not fill it
        axis = Axis.of(window, as_percent, "accuracy, per cent", most=5)
        charts.append(plane("accuracy", axis, "accuracy", "fifth"))
    return charts


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
    Column("decisions flipped", "rate", "turned"),
)


def blindness(price: PriceOfBlindness) -> dict[str, Any]:
    """What closing the gap costs without the group, and what with it."""
    title = title_of(price.metric)
    caption = f"What closing the gap in {title} costs, without the group and with it"
    table = Table.of("blindness-table", f"{caption}: the people of the audit", _PRICE, price.points)
    dots, curves = [Point(price.gap, price.accuracy, "before", label="the model", large=True)], []
    for side, reads in (("after", False), ("fourth", True)):
        its = sorted((one for one in price.points if one.reads_group == reads),
                     key=lambda one: one.level)  # fmt: skip
        dots += [Point(one.gap, one.accuracy, side,
                       along=(one.accuracy_low, one.accuracy_high)) for one in its]  # fmt: skip
        places = [(price.gap, price.accuracy), *((one.gap, one.accuracy) for one in its)]
        curves.append((side, tuple(places)))
    heights = [value for dot in dots for value in (dot.y, *dot.along)]
    plane_chart = Plane(
        "blindness-chart",
        caption,
        Axis.of([0.0, *(dot.x for dot in dots)], as_points,
                f"gap in {title} that is left, in points"),
        Axis.of(finite_values(*heights), as_percent, "accuracy, per cent"),
        tuple(dots),
        tuple(curves),
        guides=(0.0, None),
        legend=(("after", "without the group"), ("fourth", "reads the group")),
        table=table,
    )  # fmt: skip
    return {
        "blindness": {
            "chart": plane_chart,
            "sentences": price.sentences,
            "trade_off": str(price.trade_off),
        }
    }
