"""The dossier: a search for alternatives as one page to file."""

from __future__ import annotations

from collections import Counter
from math import isnan
from typing import Any

from fairmend.data.naming import GroupNames
from fairmend.measure.disparity import title_of
from fairmend.measure.result import Gap, rates_in_words
from fairmend.measure.wording import share
from fairmend.report.chart import (
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
from fairmend.report.html import people
from fairmend.report.html.cards import Card
from fairmend.report.html.page import render
from fairmend.report.table import Column, Table
from fairmend.report.verdict import by_taking_away, takes_away
from fairmend.search.bound import Bound
from fairmend.search.result import Alternative, Alternatives
from fairmend.tables import number, points

__all__ = ["KINDS", "card", "dossier"]

QUESTION = (
    "Was there a less discriminatory alternative to this model, with equivalent performance and "
    "without retraining it?"
)
_PARTS = {
    "Answer": {"answer": "In short", "people": "Who gains and who loses"},
    "Evidence": {
        "model": "The model as it is",
        "candidates": "What was tried",
        "rejected": "Why the others were not chosen",
        "bound": "How far any alternative could go",
        "scenarios": "Bias scenarios",
    },
    "Method": {"method": "How it was done", "origin": "Limits and provenance"},
}
KINDS = {
    "current": ("before", "the model as it is"),
    "model": ("third", "another model"),
    "cut": ("fifth", "another cut for everybody"),
    "input held": ("plain", "an input held for everybody"),
    "blind": ("after", "one rule that reads no group"),
    "reads the group": ("fourth", "reads the group, for comparison"),
}
"""Sides of the charts and their words, by the kind of a candidate."""
_REASONS = {
    "passed": "Passed, but a later one with a smaller gap passed too.",
    "reads the group: for comparison": "It reads each person's group. It is here for comparison.",
    "not tested: one before it did not pass": "It was named, but one before it did not pass.",
    "not shown to be within the margin": "Its performance is not shown to be within the margin.",
    "gap not shown to be smaller": "Its gap is not shown to be smaller on the holdout.",
    "choosing: no smaller gap": "Its gap was not smaller on the people it was chosen on.",
    "choosing: beyond the margin": "On the people it was chosen on it lost more than the margin.",
    "choosing: others did better": "On the people it was chosen on, others did better.",
}
_LIMITS = (
    "This page does not prove that there is no better alternative. A search finds what it looks "
    "for: other candidates may exist.",
    "The figures are about people like those of the holdout. Outcomes are taken as recorded. If "
    "the record treats groups differently, so does every figure here.",
    "A holdout can be used once. A second search on the same people uses what the first one "
    "showed, and its figures are too good.",
    "Whether an alternative is lawful, necessary or proportionate is not a question of statistics. "
    "This page is no legal advice.",
)


def dossier(result: Alternatives, *, command: str | None) -> str:
    """The page, with everything it shows inside it."""
    audit, made = result.audit, result.provenance
    sections = {key: title for part in _PARTS.values() for key, title in part.items()}
    context = {
        "title": f"Alternatives: {result.title} by {audit.attribute}",
        "subtitle": f"Search for alternatives · {result.title} by {audit.attribute} · judged on "
        f"{made.reported:,} people, chosen on {made.audited:,} others · {made.made_at}",
        "data": {},
        "parts": _PARTS,
        "sections": sections,
        "question": QUESTION,
        "headline": _headline(result),
        "lead": _lead(result),
        "figures": _figures(result),
        "scatter": _scatter(result),
        "model_now": audit.verdict(),
        "gaps_now": people.gaps(audit.in_order(), (), audit, "gaps-now"),
        "groups_now": _groups_now(result),
        "about_candidates": _about_candidates(result),
        "tried": _tried(result),
        "every": _every(result),
        "about_people": _about_people(result),
        "who": _who(result),
        "rule_lines": _rule_lines(result.best),
        "rejected": _rejected(result),
        "bound": str(result.bound),
        "scenarios": _scenarios(result),
        "method": _method(result),
        "limits": _LIMITS,
        "made": made,
        "command": command or made.command,
    }
    return render("html/dossier.html.j2", "html/page.js", "img-src data:", context)


def card(result: Alternatives) -> Card:
    """What a notebook shows of it."""
    made = result.provenance
    return Card(
        f"Search for alternatives · {result.title} by {result.audit.attribute} · judged on "
        f"{made.reported:,} people",
        _headline(result),
        (_scatter(result),),
        tuple(_figures(result)),
        _lead(result)[0],
        "print() has the candidates, save_html() writes the dossier, plot() is this chart.",
    )


# -------------------------------------------------------------------- the answer


def _what(one: Alternative) -> str:
    """A candidate in words for somebody who has not read its name."""
    words = {
        "model": f"the model “{one.name}”",
        "cut": "another cut for everybody",
        "input held": "the same model with an input held for everybody",
        "blind": "one rule for everybody, which reads no group,",
    }
    return words[one.kind]


def _headline(result: Alternatives) -> str:
    best = result.best
    if best is None:
        tried = len(result.candidates) - 1
        some = "1 alternative" if tried == 1 else f"{tried} alternatives"
        return (f"None was shown: of {some}, none is shown to have a smaller gap and "
                "to perform as well.")  # fmt: skip
    now, then = (points(abs(one.gap)).removeprefix("+") for one in (result.current, best))
    after, how = best.judging, ""
    if after.lose > after.gain:
        how = f", {by_taking_away(after.gain)}"
    return (f"Yes: {_what(best)} cuts the gap from {now} to {then} points{how}. It performs as "
            "well, within the margin.")  # fmt: skip


def _lead(result: Alternatives) -> list[str]:
    """What happens to people now and then."""
    best, names, now = result.best, result.names, result.current.judging.gap
    if best is None:
        return [f"Now {_rates(now, names)}.", " ".join(result.sentences[1:])]
    then = best.judging.gap
    same = (now.metric, now.target, now.baseline) == (then.metric, then.target, then.baseline)
    other = "" if same else "the widest gap is another: "
    return [f"Now {_rates(now, names)}. With the alternative, {other}{_rates(then, names)}."]


def _rates(gap: Gap, names: GroupNames) -> str:
    if gap.judged and not isnan(gap.target_rate):
        return rates_in_words(gap, names)
    target, baseline = names.pair(gap.target, gap.baseline)
    size = f"is {points(gap.gap)} points" if gap.judged else "cannot be judged"
    return f"the gap in {title_of(gap.metric)} of {target} against {baseline} {size}"


def _figures(result: Alternatives) -> list[tuple[str, str, str]]:
    now, then = result.current.judging, (result.best or result.current).judging
    figures = [
        (
            f"gap in {result.title}, in points",
            points(now.gap.gap) if result.best is None
            else f"{points(now.gap.gap)} → {points(then.gap.gap)}",
            f"95 % interval {points(then.gap.low)} to {points(then.gap.high)}",
        )
    ]  # fmt: skip
    performance = then.performance
    if result.best is not None:
        low, high = performance.difference_low, performance.difference_high
        figures += [
            (
                result.measure,
                f"{result.measure_text(now.performance.value)} → "
                f"{result.measure_text(performance.value)}",
                f"change {result.measure_text(low, signed=True)} to "
                f"{result.measure_text(high, signed=True)}; margin {result.margin_text}",
            ),
            (
                "decisions that change",
                share(then.changed),
                f"{share(then.gain)} gain, {share(then.lose)} lose",
            ),
        ]
    else:
        value = result.measure_text(performance.value)
        meaning = "right decisions, wrong ones weighed; " if result.measure == "worth" else ""
        figures.append((result.measure, value, f"{meaning}the margin is {result.margin_text}"))
    least, why = "not known", "see “How far any alternative could go”"
    if isinstance(result.bound, Bound):
        least = f"{100 * result.bound.gap:.1f} points" if result.bound.gap > 0 else "no limit shown"
        why = f"within the margin, at {100 * result.bound.confidence:g} % confidence"
    figures.append(("how low any alternative could go", least, why))
    return figures


def _scatter(result: Alternatives) -> Plane:
    """Gap against measure, every candidate with its intervals, the margin as a band."""
    now = result.current
    points_shown = [
        one for one in result.candidates if one.judging.gap.judged and not _worse(one, now)
    ]
    table = Table.of(
        "scatter-table",
        "Candidates that no other beats in both",
        (
            Column("candidate", read="name"),
            Column("gap, points", "points", "gap"),
            Column("95 % interval", "spans", "judging.gap.low judging.gap.high"),
            Column(result.measure, _kind(result), "judging.performance.value"),
        ),
        result.frontier,
    )
    hidden = len(result.candidates) - len(points_shown)
    left_out = ""
    if hidden:
        left_out = f" {hidden} that are worse than the model in both are not shown in the chart."
    performance = now.judging.performance
    labels = {id(now): "the model as it is", id(result.best): "the best"}
    dots = tuple(
        Point(
            one.gap,
            one.judging.performance.value,
            KINDS[one.kind][0],
            (one.judging.gap.low, one.judging.gap.high),
            (performance.value + one.judging.performance.difference_low,
             performance.value + one.judging.performance.difference_high),
            labels.get(id(one), ""),
            below=one is now and result.best is not None,
            large=id(one) in labels,
        )
        for one in sorted(points_shown, key=lambda one: id(one) in labels)
    )  # fmt: skip
    band = performance.value - performance.margin, performance.value + performance.margin
    relative = result.relative_margin
    return Plane(
        "scatter",
        f"What each candidate leaves of the gap, and its {result.measure}",
        Axis.of([0.0, *finite_values(*(value for dot in dots for value in dot.across))], as_points,
                f"gap in {result.title} that is left, in points"),
        Axis.of([*band, *finite_values(*(value for dot in dots for value in dot.along))],
                number if relative else as_percent,
                result.measure if relative else f"{result.measure}, per cent"),
        dots,
        band=band,
        guides=(0.0, None),
        legend=tuple(KINDS[kind] for kind in KINDS if kind in {one.kind for one in points_shown}),
        beneath=f"Further left is a smaller gap, higher a better {result.measure}. The shaded band "
        f"is the margin. Lines are 95 % intervals.{left_out}",
        table=table,
        high=360,
    )  # fmt: skip


def _worse(one: Alternative, now: Alternative) -> bool:
    """Whether a candidate is worse than the model in gap and measure."""
    lower = one.judging.performance.value < now.judging.performance.value
    return one is not now and lower and abs(one.gap) >= abs(now.gap)


def _kind(result: Alternatives) -> str:
    return "number" if result.relative_margin else "rate"


# -------------------------------------------------------------------- tables


def _groups_now(result: Alternatives) -> Table:
    audit = result.audit
    return Table.of(
        "groups-now",
        "Groups, as the model decides about them",
        (
            Column("group", read=lambda one: audit.names(one.group)),
            Column("people", "count", "n"),
            Column("positive outcomes", "rate", "base_rate"),
            Column("positive decisions", "rate", "selection_rate"),
            Column("impact ratio", "ratio", "impact_ratio"),
            Column("accuracy", "rate"),
        ),
        audit.groups,
    )


def _about_candidates(result: Alternatives) -> str:
    kinds = Counter(one.kind for one in result.candidates[1:])
    by_kind = "; ".join(f"{KINDS[kind][1]}: {count}" for kind, count in kinds.items())
    return (
        f"{len(result.candidates) - 1} candidates were tried ({by_kind}). None of them retrains "
        f"the model. All figures are of the {result.provenance.reported:,} people of the holdout."
    )


def _tried(result: Alternatives) -> RowChart:
    """The gaps of those that were named to judge, and of the best that reads the group."""
    least = result.current.judging.performance.margin
    reading = [one for one in result.candidates if one.reads_group]
    within = [one for one in reading if one.judging.performance.difference >= -least]
    shown = [result.current, *result.named]
    shown += sorted(within or reading, key=lambda one: abs(one.gap))[:1]
    rows = []
    for one in sorted(shown, key=lambda one: -abs(one.gap)):
        gap, performance = one.judging.gap, one.judging.performance
        change = result.measure_text(performance.difference, signed=True)
        text = f"{points(gap.gap)} ({points(gap.low)} to {points(gap.high)})"
        mark = Mark(KINDS[one.kind][0], gap.gap, gap.low, gap.high, text=text)
        fate = "chosen" if one is result.best else "" if one is result.current else one.why
        says = "" if one is result.current else f"{result.measure} changes by {change}"
        rows.append(Row(one.name, (mark,), fate, says))
    return RowChart.of(
        "tried",
        "The candidates that were judged in turn, and the best that reads the group",
        rows,
        as_points,
        f"gap in {result.title} that is left, in points",
        at=[0.0],
        guide=0.0,
        beneath="Lines are 95 % intervals.",
    )


def _every(result: Alternatives) -> Table:
    kind = _kind(result)
    one, both = ("points", "spans") if kind == "rate" else ("change", "changes")
    performance = "judging.performance"
    return Table.of(
        "candidates-table",
        "Every candidate, on the people of the holdout",
        (
            Column("candidate", read="name"),
            Column("gap, points", "points", "gap"),
            Column("95 % interval", "spans", "judging.gap.low judging.gap.high"),
            Column(result.measure, kind, "judging.performance.value"),
            Column("change", one, "judging.performance.difference"),
            Column(
                "95 % interval", both, f"{performance}.difference_low {performance}.difference_high"
            ),
            Column("equivalent", read=lambda one: one.standing),
            Column("gain", "share", "judging.gain"),
            Column("lose", "share", "judging.lose"),
            Column("what became of it", read="why"),
        ),
        result.candidates,
        f"equivalent: two one-sided tests at a margin of {result.margin_text}, corrected for the "
        "number of candidates. no worse: shown not to lose the margin; it may be better by more.",
        "gain, lose: shares of all people whose decision becomes the one they want, or no longer "
        "is.",
    )


def _about_people(result: Alternatives) -> str:
    best = result.best
    if best is None:
        return "No alternative was chosen: nobody's decision would change."
    after = best.judging
    text = (f"Under “{best.name}”, {share(after.gain)} of all people gain the decision they want "
            f"and {share(after.lose)} lose it.")  # fmt: skip
    if after.lose > after.gain:
        taken = takes_away(after.gain)
        text += f" {taken} Whether that is wanted is for the people responsible to say."
    return text


def _who(result: Alternatives) -> RowChart | None:
    best = result.best
    if best is None:
        return None
    now = {one.group: one for one in result.current.judging.groups}
    rows = [
        Row(
            result.names(one.group),
            (
                Mark(
                    SIDES[0], now[one.group].selected, text=f"{share(now[one.group].selected)} now"
                ),
                Mark(SIDES[1], one.selected, text=f"{share(one.selected)} then"),
            ),
            f"{share(one.gain)} gain, {share(one.lose)} lose",
        )
        for one in best.judging.groups
    ]
    table = Table.of(
        "who-table",
        f"What “{best.name}” does to each group",
        (
            Column("group", read=lambda one: result.names(one.group)),
            Column("positive decisions now", "rate", lambda one: now[one.group].selected),
            Column("then", "rate", "selected"),
            Column("gain the decision they want", "share", "gain"),
            Column("lose it", "share", "lose"),
        ),
        best.judging.groups,
    )
    return RowChart.of(
        "who",
        "Positive decisions in each group, now and then",
        rows,
        as_percent,
        "per cent of the group",
        lines=SIDES,
        table=table,
        beneath="Beneath each group: the shares that gain and that lose the decision they want.",
    )


def _rule_lines(best: Alternative | None) -> list[str]:
    """The alternative itself in sentences, where it has a plan."""
    if best is None or not best.candidate.plans:
        return []
    plan = next(iter(best.candidate.plans.values()))
    return [_sentence(line) for line in (f"by {plan.way}", *plan.notes)]


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


def _rejected(result: Alternatives) -> Table:
    skipped = [one for one in result.candidates[1:] if one is not result.best]
    reasons = Counter(one.why for one in skipped)
    rows = [
        (why, count, "; ".join([one.name for one in skipped if one.why == why][:3]))
        for why, count in reasons.most_common()
    ]
    return Table.of(
        "rejected-table",
        "Why candidates were not chosen",
        (
            Column("reason", read=lambda row: _REASONS.get(row[0], row[0])),
            Column("candidates", "count", lambda row: row[1]),
            Column("for example", read=lambda row: row[2]),
        ),
        rows,
    )


def _scenarios(result: Alternatives) -> Table:
    """One line a gap: group, measure, value, threshold, mitigation, trigger."""
    audit, best = result.audit, result.best
    looked_at = {(result.current.judging.gap.metric, result.current.judging.gap.target)}

    def mitigation(gap: Any) -> str:
        if (gap.metric, gap.target) not in looked_at:
            return "not searched for here"
        return "none shown" if best is None else best.name

    return Table.of(
        "scenarios-table",
        "Bias scenarios (draft)",
        (
            Column("group", read=lambda gap: audit.names(gap.target)),
            Column("measure",
                   read=lambda gap: f"{title_of(gap.metric)} against {audit.names(gap.baseline)}"),
            Column("value, points", "points", "gap"),
            Column("95 % interval", "spans", "low high"),
            Column("threshold", read=lambda gap: "not set (0)"),
            Column("mitigation", read=mitigation),
            Column("trigger", read=lambda gap: (
                "crossed: the gap is significant (Holm-corrected)" if gap.survives(audit.confidence)
                else "not crossed: not significant (Holm-corrected)" if gap.judged
                else "cannot be judged")),
        ),
        audit.in_order(),
    )  # fmt: skip


def _method(result: Alternatives) -> list[tuple[str, str]]:
    made, named = result.provenance, result.named
    order = "; ".join(f"{one.place}. {one.name}: {one.why}" for one in named) or "nobody was named"
    worth = ""
    if result.measure == "worth":
        worth = f" Worth is the share of right decisions, wrong ones weighed: {result.trade_off}."
    return [
        (
            "What was compared?",
            f"The model as it is with {len(result.candidates) - 1} candidates that need no "
            f"retraining, by the gap in {title_of(result.metric)} and by {result.measure}.{worth}",
        ),
        (
            "Why two parts of the people?",
            f"Candidates were made and chosen on {made.audited:,} people and judged on "
            f"{made.reported:,} others. Among many candidates some look good by luck alone. People "
            "who had no part in the choice do not share that luck.",
        ),
        (
            "How was one chosen?",
            "Before judging, a few candidates were named, from the one most likely to pass to the "
            "most ambitious. They were tested in this order, each at 5 %, up to the first that "
            "failed. So the chance that a chosen candidate is in truth not equivalent, or has no "
            f"smaller gap, is at most 5 %. The order: {order}.",
        ),
        (
            "What does equivalent mean?",
            f"The margin is {result.margin_text}. A chosen alternative passed two tests: that it "
            "is not worse than the model by the margin, and that its gap is smaller. Both compare "
            "decisions about the same people. The column “equivalent” asks more: that it is not "
            "better by the margin either (two one-sided tests).",
        ),
        (
            "What do the intervals hold for?",
            "Each is a 95 % interval of one figure. Gaps use pseudo-counts (Agresti and Caffo), "
            "measures the influence function of each person. The alternative is chosen from the "
            "candidates named by what the same people say. So the measures of those named have "
            "wider intervals, by how many they are (Benjamini and Yekutieli, 2005).",
        ),
        (
            "Where does the bound come from?",
            "Take the best rule there is, whichever it is. On these people its gap and its measure "
            "differ from the truth by sampling errors only. The bound is the least gap of any rule "
            "whose measure here is within the margin plus such an error, less another such error. "
            "A linear program finds it.",
        ),
    ]
