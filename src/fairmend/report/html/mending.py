"""The sections about the explanation, the repair, the frontier, and where it all comes from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairmend.data.columns import is_missing
from fairmend.explain.drivers import Marginal
from fairmend.measure.wording import share, tell
from fairmend.report.findings import (
    LEAST_SHIFT,
    MOST_VALUES,
    Explanation,
    FrontierPoint,
    PlanSummary,
    Provenance,
)
from fairmend.report.html import charts
from fairmend.report.html.blocks import (
    MOST_OPEN,
    Block,
    Chart,
    Facts,
    Figures,
    Fold,
    Heading,
    Section,
    Slider,
    TableBlock,
    Text,
)
from fairmend.report.html.svg import drawn
from fairmend.report.html.table import Column, Kind, Table, typeset
from fairmend.report.plot import MOST_BARS
from fairmend.report.report import NAN, EditedFeature, GroupOutcome, Report
from fairmend.status import PlanStatus
from fairmend.tables import counted, number, percent, points

__all__ = ["explanation", "frontier", "origin", "repair"]

# -------------------------------------------------------------------- the counterfactual

_INTERVALS = (
    "Low and high are a 95 % interval that holds for all {} at once; everybody's part is "
    "explained by the values of other people."
)


def explanation(found: Explanation) -> Section:
    """On which inputs the gap rests."""
    target, baseline = found.group_names
    modelled = (
        "Outcomes are modelled here, so that they follow the inputs: the modelled gap"
        if found.modelled
        else "The gap"
    )
    blocks: list[Block] = [
        Text(
            f"Among all distributions of the inputs of {target} under which the gap would be "
            "closed, this is the one closest to what is observed "
            f"(KL {found.kl:.4f}). It is a finding, not a repair: it shows on which inputs the gap "
            f"rests. {modelled} is {points(found.before)} points under the inputs as they are, "
            f"{points(found.after)} under the counterfactual."
        ),
    ]
    if not found.closed:
        blocks.append(Text(found.status))
    if found.outcomes_differ:
        blocks.append(Text(f"{found.outcomes_differ}."))
    blocks += [*_marginals(found, target, baseline), _scores(found, target)]
    if found.joint_proxies:
        blocks.append(_proxies(found))
    elif found.pairs_verdict:
        blocks.append(Text(f"Joint proxies: {found.pairs_verdict}"))
    hidden = not_shown("row", found.prototypes_not_shown, found.smallest_cell)
    if found.prototypes:
        blocks.append(_prototypes(found, hidden))
    elif hidden:
        blocks.append(Text(f"Prototypes, the rows that gain and lose most: {hidden[0]}"))
    return Section("counterfactual", "The counterfactual distribution", tuple(blocks))


def _marginals(found: Explanation, target: str, baseline: str) -> list[Block]:
    """Shares of people as a chart with its table; means and quantiles of numbers as a table."""
    columns = (f"{baseline}, observed", f"{target}, observed", f"{target}, counterfactual", "shift")
    caption = f"Inputs of {target}: observed and counterfactual, beside {baseline}"
    moving = sorted(
        (line for line in found.marginals if line.is_share), key=lambda line: -abs(line.shift)
    )

    def table(
        key: str, caption: str, kinds: tuple[Kind, Kind], lines: list[Marginal], *notes: str
    ) -> Table:
        *sides, shift = columns
        return Table(
            key,
            caption,
            (
                Column("feature"),
                Column("value" if kinds[0] == "rate" else "statistic"),
                *(Column(name, kinds[0]) for name in sides),
                Column(shift, kinds[1]),
            ),
            tuple(
                (line.feature, line.statistic, line.baseline, line.observed, line.counterfactual,
                 line.shift)
                for line in lines
            ),
            notes,
        )  # fmt: skip

    blocks: list[Block] = []
    chart = charts.marginals(found)
    if chart is not None:
        most = moving[0]
        told = f"The share that moves most is {most.feature}, by {points(most.shift)} points."
        picture = drawn(chart, "marginals", caption, told)
        notes = (
            f"The shift is in points. Of a feature with many values at most {MOST_VALUES} are "
            f"listed, those that move most, by {100 * LEAST_SHIFT:g} points or more.",
            *not_shown("value", found.values_not_shown, found.smallest_cell),
        )
        shown = moving[:MOST_BARS]
        shares = table("marginals-table", caption, ("rate", "points"), shown, *notes)
        blocks.append(Chart("marginals", caption, picture, shares))
    numbers = [line for line in found.marginals if not line.is_share]
    if numbers:
        note = (
            f"A quantile that fewer than {found.smallest_cell} people have exactly is rounded to 3 "
            "digits."
        )
        caption = f"Numbers of {target}"
        blocks.append(TableBlock(table("numbers", caption, ("number", "change"), numbers, note)))
    return blocks


def not_shown(what: str, n: int, smallest_cell: int) -> tuple[str, ...]:
    """What is left out, because it would tell of single people.

    >>> not_shown("row", 1, 5)
    ('1 row that stands for fewer than 5 people is not shown.',)
    """
    if n == 0:
        return ()
    some = f"1 {what} that stands for" if n == 1 else f"{n:,} {what}s that stand for"
    few = f"fewer than {counted(smallest_cell)} {'is' if n == 1 else 'are'} not shown."
    return (f"{some} {few}",)


def _scores(found: Explanation, target: str) -> Chart:
    caption = f"How much of the gap of {target} each input carries"
    table = Table(
        "scores-table",
        caption,
        (
            Column("feature"),
            Column("of the gap", "rate"),
            Column("of the influence", "rate"),
            Column("low", "rate"),
            Column("high", "rate"),
            Column("shift", "rate"),
        ),
        tuple(
            (
                score.feature,
                score.share_of_gap,
                score.influence_share,
                score.low,
                score.high,
                score.shift,
            )
            for score in found.feature_scores
        ),
        (
            f"{found.features_verdict} {_INTERVALS.format('features')}",
            "Of the gap: what closes if this feature's distribution alone moves to the "
            "counterfactual's.",
            "Of the influence: how much of each row's part in the gap the feature explains alone.",
            "Shift: the share of people whose value would have to differ.",
        ),
    )
    first = found.feature_scores[0]
    told = (
        f"{first.feature} explains most alone, {percent(first.influence_share)}."
        if first.more_than_noise
        else found.features_verdict
    )
    picture = drawn(charts.feature_scores(found), "scores", caption, told)
    return Chart("scores", caption, picture, table)


def _proxies(found: Explanation) -> TableBlock:
    return TableBlock(
        Table(
            "proxies",
            "Joint proxies: pairs that carry more together than the better of them alone",
            (
                Column("first"),
                Column("second"),
                Column("of the gap", "rate"),
                Column("of the influence", "rate"),
                Column("more than alone", "rate"),
                Column("low", "rate"),
                Column("high", "rate"),
            ),
            tuple(
                (
                    pair.first,
                    pair.second,
                    pair.share_of_gap,
                    pair.influence_share,
                    pair.excess,
                    pair.low,
                    pair.high,
                )
                for pair in found.joint_proxies
            ),
            (f"{found.pairs_verdict} {_INTERVALS.format('pairs')}",),
        )
    )


def _prototypes(found: Explanation, hidden: tuple[str, ...]) -> TableBlock:
    """The rows in a line each: yes-or-no features where they are 1, of others their value."""
    own = ("role", "observed", "counterfactual", "change")
    features = [name for name in found.prototypes[0] if name not in own]
    plain = {name for name in features if all(row[name] in (0, 1) for row in found.prototypes)}

    def inputs(row: dict[str, Any]) -> str:
        said = [
            name if name in plain else f"{name} = {_text(row[name])}"
            for name in features
            if name not in plain or row[name] == 1
        ]
        return ", ".join(said) or "all features 0"

    return TableBlock(
        Table(
            "prototypes",
            "Prototypes: rows that gain and lose most, and rows that represent what gains",
            (
                Column("role"),
                Column("observed", "rate"),
                Column("counterfactual", "rate"),
                Column("inputs"),
            ),
            tuple(
                (row["role"], row["observed"], row["counterfactual"], inputs(row))
                for row in found.prototypes
            ),
            (*(("Yes-or-no features are named where they are 1.",) if plain else ()), *hidden),
        )
    )


def _text(value: object) -> str:
    if is_missing(value):
        return "missing"
    return number(value) if isinstance(value, float) else str(value)


# -------------------------------------------------------------------- the repair


def repair(report: Report) -> Section:
    """What is edited, and what happens to whom."""
    mended = [group for group in report.groups_in_order if group.repaired]
    made = report.provenance
    blocks: list[Block] = []
    if mended and made is not None and made.recorded:
        blocks.append(
            Text(
                f"The model was not asked: its answers are {made.model}. People move to inputs "
                "that somebody in the audit had, and get the decision that was given there. If "
                "the model looks at more than these inputs, an edit is no more than a name for "
                "that other decision.",
                aside=True,
            )
        )
    plans = {plan.target: plan for plan in report.plans}
    for place, group in enumerate(mended):
        its = (Text(_planned(plans[group.group], report)), *_of_group(report, group, place))
        if len(mended) > 1:
            blocks.append(Fold(report.names(group.group), its, place < MOST_OPEN))
        else:
            blocks += its
    if not blocks:
        blocks = [Text("No group fared worse than the reference: nobody is edited.")]
    return Section("repair", "The repair", tuple(blocks))


def _planned(plan: PlanSummary, report: Report) -> str:
    """The plan's own text about the people it was fitted on."""
    outlook = plan.outlook
    told = tell(
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


def _of_group(report: Report, group: GroupOutcome, place: int) -> list[Block]:
    said = report.favourable
    name = report.names(group.group)
    caption = f"Decisions about {name} before (left) and after (right)"
    flow = charts.flow(group, favours_positive=report.favours_positive)
    told = f"{share(group.gained)} gain the favourable decision and {share(group.lost)} lose it."
    blocks: list[Block] = [
        _who(group, weighted=report.before.weighted),
        Chart(
            f"flow-{place}",
            f"{caption}; favourable is {said}",
            drawn(flow, f"flow-{place}", caption, told),
            _flow_table(report, group, f"flow-{place}-table", caption),
        ),
    ]
    if group.features:
        caption = f"Features edited, as a share of the edited people of {name}"
        key = f"edits-{place}"
        first = group.features[0]
        told = f"{first.feature} is edited most, for {share(first.share_of_edited)} of them."
        picture = drawn(charts.edits(group.features), key, caption, told)
        table = _edit_table(group, f"{key}-table", caption, report.smallest_cell)
        blocks.append(Chart(key, caption, picture, table))
    return blocks


def _who(group: GroupOutcome, *, weighted: bool) -> Figures:
    """People counted, and shares of people counted, also where rates are weighted."""

    def item(label: str, people: float, meaning: str) -> tuple[str, str, str]:
        few = round(people) == 0 and people > 0
        count = "fewer than 1 person" if few else counted(round(people))
        return label, share(people / group.n), f"{count}: {meaning}"

    mean = "weighted mean" if weighted else "mean"
    each = (
        f"{group.edits_per_person:.1f} features each, {mean}" if group.people_edited else "inputs"
    )
    return Figures(
        (
            item("edited", group.people_edited, each),
            item("gain", group.people_gained, "decision flips to the favourable one"),
            item("lose", group.people_lost, "decision flips from the favourable one"),
            item("randomised", group.people_randomised, "a draw keyed on the person decides"),
            item("unreachable", group.people_unreachable, "no allowed edit helps"),
            item("unseen", group.people_unseen, "inputs the audit did not have; the rule applies"),
        )
    )


def _flow_table(report: Report, group: GroupOutcome, key: str, caption: str) -> Table:
    start = group.selected_before if report.favours_positive else 1 - group.selected_before
    had, gained, lost = group.people_favourable_before, group.people_gained, group.people_lost
    rows = (
        ("favourable", "favourable", start - group.lost, had - lost),
        ("unfavourable", "favourable", group.gained, gained),
        ("favourable", "unfavourable", group.lost, lost),
        ("unfavourable", "unfavourable", 1 - start - group.gained, group.n - had - gained),
    )
    weighted = ", weighted" if report.before.weighted else ""
    return Table(
        key,
        caption,
        (
            Column("before"),
            Column("after"),
            Column(f"share of the group{weighted}", "rate"),
            Column("people, expected", "count"),
        ),
        tuple((before, after, part, round(people)) for before, after, part, people in rows),
    )


_MEDIANS = (
    ", of numbers with many values medians, rounded; the median change is not the change of the "
    "medians"
)


def _edit_table(group: GroupOutcome, key: str, caption: str, smallest_cell: int) -> Table:
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
        for line in _lines(one)
    ]
    return Table(
        key,
        caption,
        tuple(columns),
        tuple(rows),
        (
            "Shares of the edited people; of a feature with many edits the commonest are listed"
            f"{_MEDIANS if numbers else ''}.",
            *not_shown("edit", sum(one.not_shown for one in group.features), smallest_cell),
        ),
    )


def _lines(one: EditedFeature) -> list[tuple[str, str, float, str | None]]:
    """From what, to what, for how many, and the change of a number."""
    lines: list[tuple[str, str, float, str | None]] = [
        (edit.old, edit.new, edit.share_of_edited, None) for edit in one.edits
    ]
    change = one.change
    if change is not None:
        old, new = (f"median {number(at)}" for at in (change.old_median, change.new_median))
        said = f"{number(change.median, signed=True)}, {_direction(change.rises)}"
        lines.insert(0, (old, new, change.share_of_edited, typeset(said)))
    return lines or [("not shown", "not shown", NAN, None)]


def _direction(rises: float) -> str:
    """Which way a number goes, and for how many of them."""
    if rises in (0.0, 1.0):
        return "always up" if rises else "always down"
    return f"up for {share(rises)}"


# -------------------------------------------------------------------- the frontier

_FIGURES = (
    Column("gap, points", "points"),
    Column("interval", "spans"),
    Column("impact ratio", "ratio"),
    Column("accuracy of everybody", "rate"),
    Column("AUC in the group", "decimal"),
    Column("edited", "rate"),
    Column("gain", "rate"),
    Column("lose", "rate"),
    Column("randomised", "rate"),
)


def frontier(report: Report) -> Section:
    """How much of the gap to close: a choice, with what each costs."""
    metric, found = report.metric, sorted(report.frontier, key=lambda point: point.level)
    levels = sorted({point.level for point in found})
    in_force = 1.0 if report.provenance is None else report.provenance.level
    start = min(range(len(levels)), key=lambda place: abs(levels[place] - in_force))
    present = {point.group for point in found}
    by_group = {
        report.names(group): [point for point in found if point.group == group]
        for group in report.order
        if group in present
    }
    pictures, groups = [], []
    for place, (name, its) in enumerate(by_group.items()):
        key, caption = f"frontier-{place}", f"{name}: what closing more of the {metric} gap does"
        first, last = its[0], its[-1]
        told = (
            f"From level {first.level:g} to {last.level:g} the gap goes from {points(first.gap)} "
            f"to {points(last.gap)} points, the edited from {share(first.edited)} to "
            f"{share(last.edited)}"
        )
        if report.outcome_known:
            told += f" and accuracy from {percent(first.accuracy)} to {percent(last.accuracy)}"
        picture = drawn(charts.frontier(its, metric, levels[start]), key, caption, f"{told}.")
        table = _frontier_table(its, f"{key}-table", f"{name}: figures at each level")
        pictures.append(Chart(key, caption, picture, table))
        groups.append((name, tuple(tuple(cell.text for cell in row[1:]) for row in table.cells())))
    texts = tuple(f"{level:g}" for level in levels)
    labels = tuple(column.header for column in _FIGURES)
    slider = Slider(
        "level",
        texts,
        start,
        labels,
        tuple(groups),
        tuple(pictures),
        {"levels": texts, "labels": labels, "groups": groups},
    )
    intro = Text(
        "The level is how much of the gap the repair closes, from 0 (nothing) to 1 (all of it). "
        "What to choose is a decision of the people responsible; these are its consequences for "
        "the people of this report. The shaded band is the interval of the gap."
        f"{' Rates and shares are weighted.' if report.before.weighted else ''}"
    )
    return Section("frontier", "The frontier", (intro, slider))


def _frontier_table(found: Sequence[FrontierPoint], key: str, caption: str) -> Table:
    return Table(
        key,
        caption,
        (Column("level", "ratio"), *_FIGURES),
        tuple(
            (
                point.level, point.gap, (point.low, point.high), point.impact_ratio, point.accuracy,
                point.auc, point.edited, point.gained, point.lost, point.randomised,
            )
            for point in found
        ),
    )  # fmt: skip


# -------------------------------------------------------------------- limits and origin

LIMITS = (
    "Figures describe the people in the data. Of others they tell as much as those resemble them.",
    "Intervals are for one comparison settled beforehand; Holm's correction covers all of them.",
    "Outcomes are taken as recorded. If the record itself treats groups differently, so do they.",
    "Some gaps exclude each other: closing one may widen another. The tables show all of them.",
    "The repair uses each person's group on purpose. Whether that is lawful depends on place and "
    "use, and is for lawyers to say.",
    "An edit is of the model's inputs only. It advises nobody to change anything about themselves.",
)


def origin(report: Report | None) -> Section:
    """What the figures cannot tell, and what it takes to make them again."""
    repaired = report is not None and report.plans
    limits = LIMITS if repaired else LIMITS[:4]
    blocks: list[Block] = [Text(text, aside=True) for text in limits]
    if report is not None and report.explanation is not None and not report.explanation.certain:
        blocks.append(
            Text(
                "Whether the gap can be closed is itself not certain: see the verdict.", aside=True
            )
        )
    made = None if report is None else report.provenance
    if made is not None:
        facts = [
            ("made", made.made_at),
            ("by", made.command),
            ("model", made.model),
            ("seed", _seed(made)),
            ("people fitted on", f"{made.audited:,}"),
            ("SHA-256 of their tabulated data", made.audit_data),
            ("people reported on", f"{made.reported:,}"),
            ("of these, fitted on too", _OVERLAP[made.is_holdout]),
            ("SHA-256 of their tabulated data", made.report_data),
            ("people left out, without outcome or group", f"{made.left_out:,}"),
            *((f"setting {name}", value) for name, value in made.settings.items()),
            *((f"version of {name}", value) for name, value in made.versions.items()),
        ]
        blocks += [Heading("Provenance"), Facts(tuple(facts))]
    return Section("origin", "Limits and provenance", tuple(blocks))


_OVERLAP = {True: "nobody, as the caller says", False: "everybody", None: "not known"}


def _seed(made: Provenance) -> str:
    if made.seed is not None:
        return str(made.seed)
    return "not stored in the artifact" if made.seed_left_out else "none"
