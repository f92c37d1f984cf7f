"""The dossier: a search for alternatives as one page to file."""

from __future__ import annotations

from collections import Counter
from typing import Any

from fairmend.measure.wording import share
from fairmend.report import plot
from fairmend.report.html.page import render
from fairmend.report.html.people import picture
from fairmend.report.table import Column, Table
from fairmend.search.bound import Bound
from fairmend.search.result import Alternative, Alternatives
from fairmend.tables import points

__all__ = ["dossier"]

_SECTIONS = {
    "answer": "Was there a less discriminatory alternative?",
    "model": "The model as it is",
    "candidates": "Every candidate",
    "people": "Who gains and who loses",
    "rejected": "Why the others were not chosen",
    "bound": "How far any alternative could go",
    "scenarios": "Bias scenarios",
    "method": "How it was done",
    "origin": "Limits and provenance",
}
_LIMITS = (
    "An alternative that is not shown to be better is not shown to be worse. A search finds what "
    "it looks for: other candidates may exist.",
    "Figures are about people like those who judged. Outcomes are taken as recorded; if the record "
    "treats groups differently, so does every figure here.",
    "People who judged once have been used. A second search on the same people is a choice by what "
    "they said, and its figures are too good.",
    "Whether an alternative is lawful, necessary or proportionate is not a question of statistics. "
    "This page is no legal advice.",
)


def dossier(found: Alternatives, *, command: str | None = None) -> str:
    """The page, with everything it shows inside it."""
    audit, made = found.audit, found.provenance
    title = f"Alternatives: {found.title} by {audit.attribute}"
    context = {
        "title": title,
        "subtitle": f"{made.reported:,} people who judged, {made.audited:,} others on whom "
        f"candidates were made and chosen; made {made.made_at}",
        "data": {},
        "sections": _SECTIONS,
        "headline": _headline(found),
        "beneath": _beneath(found),
        "figures": _figures(found),
        "scatter": _scatter(found),
        "model_now": audit.verdict(),
        "gaps_now": _gaps_now(found),
        "groups_now": _groups_now(found),
        "about_candidates": _about_candidates(found),
        "every": _every(found),
        "about_people": _about_people(found),
        "who": _who(found),
        "rule_lines": _rule_lines(found.best),
        "rejected": _rejected(found),
        "bound": str(found.bound),
        "scenarios": _scenarios(found),
        "method": _method(found),
        "limits": _LIMITS,
        "made": made,
        "command": command or made.command,
    }
    return render("html/dossier.html.j2", "html/page.js", "img-src data:", context)


# -------------------------------------------------------------------- the answer


def _headline(found: Alternatives) -> str:
    best = found.best
    if best is None:
        return "No. The search shows no alternative that performs as well and has a lesser gap."
    now, then = (points(abs(one.gap)).removeprefix("+") for one in (found.current, best))
    return (f"Yes. “{best.name}” leaves a gap of {then} points where the model leaves {now}, "
            "and performs as well.")  # fmt: skip


def _beneath(found: Alternatives) -> str:
    told = list(found.sentences)
    if found.measure == "worth":
        told.append(
            f"Worth is the share of right decisions, wrong ones weighed: {found.trade_off}."
        )
    return " ".join(told)


def _figures(found: Alternatives) -> list[tuple[str, str, str]]:
    now, then = found.current.judging, (found.best or found.current).judging
    metric = now.gap.metric
    performance = then.performance
    low, high = performance.difference_low, performance.difference_high
    changed = f"{share(then.gain)} gain, {share(then.lose)} lose"
    least = f"{100 * found.bound.gap:.1f} points" if isinstance(found.bound, Bound) else "not known"
    return [
        (
            f"{metric} gap, in points",
            f"{points(now.gap.gap)} → {points(then.gap.gap)}",
            f"interval now {points(then.gap.low)} to {points(then.gap.high)}",
        ),
        (
            found.measure,
            f"{found.measure_text(now.performance.value)} → "
            f"{found.measure_text(performance.value)}",
            f"change {found.measure_text(low, signed=True)} to "
            f"{found.measure_text(high, signed=True)}; margin {found.margin_text}",
        ),
        ("decisions that change", share(then.changed), changed),
        (
            "no alternative of any kind below",
            least,
            "at a measure within the margin, by rules on these inputs",
        ),
    ]  # fmt: skip


def _scatter(found: Alternatives) -> Any:
    """Gap against measure, every candidate with its intervals, the margin as a band."""
    caption = f"What each candidate leaves of the gap, and its {found.measure}"
    table = Table.of(
        "scatter-table",
        f"{caption}: candidates that no other beats in both",
        (
            Column("candidate", read="name"),
            Column("gap, points", "points", "gap"),
            Column("95 % interval", "spans", "judging.gap.low judging.gap.high"),
            Column(found.measure, _kind(found), "judging.performance.value"),
        ),
        found.frontier,
    )
    hidden = len(found.candidates) - len(plot.drawn_alternatives(found))
    if hidden:
        caption += f" ({hidden} that are worse in both are not drawn)"
    description = (
        f"Points further left have a lesser gap, points higher a higher {found.measure}. The band "
        "is the margin around the model as it is."
    )
    return picture(plot.alternatives(found), "scatter", caption, description, table, wide=True)


def _kind(found: Alternatives) -> str:
    return "number" if found.relative_margin else "rate"


# -------------------------------------------------------------------- tables


def _gaps_now(found: Alternatives) -> Table:
    audit = found.audit
    return Table.of(
        "gaps-now",
        "Gaps of the model as it is, on the people who judged",
        (
            Column("metric"),
            Column("group", read=lambda gap: audit.names(gap.target)),
            Column("against", read=lambda gap: audit.names(gap.baseline)),
            Column("its rate", "rate", "target_rate"),
            Column("other's rate", "rate", "baseline_rate"),
            Column("gap, points", "points", "gap"),
            Column("95 % interval", "spans", "low high"),
            Column("p, Holm", "p", "p_adjusted"),
        ),
        audit.in_order(),
    )


def _groups_now(found: Alternatives) -> Table:
    audit = found.audit
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


def _about_candidates(found: Alternatives) -> str:
    kinds = Counter(one.kind for one in found.candidates[1:])
    told = ", ".join(f"{count} of kind “{kind}”" for kind, count in kinds.items())
    return (
        f"{len(found.candidates) - 1} candidates: {told}. None of them retrains the model. All "
        f"figures are of the {found.provenance.reported:,} people who judged. Candidates that read "
        "the group are here for comparison and are never chosen."
    )


def _every(found: Alternatives) -> Table:
    kind = _kind(found)
    one, both = ("points", "spans") if kind == "rate" else ("change", "changes")
    performance = "judging.performance"
    return Table.of(
        "candidates-table",
        "Every candidate, on the people who judged",
        (
            Column("candidate", read="name"),
            Column("kind"),
            Column("gap, points", "points", "gap"),
            Column("95 % interval", "spans", "judging.gap.low judging.gap.high"),
            Column(found.measure, kind, "judging.performance.value"),
            Column("change", one, "judging.performance.difference"),
            Column(
                "95 % interval", both, f"{performance}.difference_low {performance}.difference_high"
            ),
            Column("equivalent", read=lambda one: "yes" if one.equivalent else "no"),
            Column("changed", "share", "judging.changed"),
            Column("gain", "share", "judging.gain"),
            Column("lose", "share", "judging.lose"),
            Column("what became of it", read="why"),
        ),
        found.candidates,
        f"equivalent: two one-sided tests at a margin of {found.margin_text}, corrected for the "
        "number of candidates.",
        "changed, gain, lose: shares of all people; gain and lose the decision they want.",
    )


def _about_people(found: Alternatives) -> str:
    best = found.best
    if best is None:
        return "No alternative was chosen: nobody's decision would change."
    after = best.judging
    told = (f"Under “{best.name}”, {share(after.gain)} of all people gain the decision they want "
            f"and {share(after.lose)} lose it.")  # fmt: skip
    if after.lose > after.gain:
        told += (" It narrows the gap mostly by taking favourable decisions away. Whether that is "
                 "wanted is for the people responsible to say.")  # fmt: skip
    return told


def _who(found: Alternatives) -> Table | None:
    best = found.best
    if best is None:
        return None
    now = {one.group: one for one in found.current.judging.groups}
    return Table.of(
        "who-table",
        f"What “{best.name}” does to each group",
        (
            Column("group", read=lambda one: found.names(one.group)),
            Column("positive decisions now", "rate", lambda one: now[one.group].selected),
            Column("then", "rate", "selected"),
            Column("gain the decision they want", "share", "gain"),
            Column("lose it", "share", "lose"),
        ),
        best.judging.groups,
    )


def _rule_lines(best: Alternative | None) -> list[str]:
    """The alternative itself in sentences, where it has a plan."""
    if best is None or not best.candidate.plans:
        return []
    plan = next(iter(best.candidate.plans.values()))
    return [f"By {plan.way}.", *plan.notes]


def _rejected(found: Alternatives) -> Table:
    skipped = [one for one in found.candidates[1:] if one is not found.best]
    reasons = Counter(one.why for one in skipped)
    rows = [
        (why, count, ", ".join([one.name for one in skipped if one.why == why][:3]))
        for why, count in reasons.most_common()
    ]
    return Table.of(
        "rejected-table",
        "Why candidates were not chosen",
        (
            Column("reason", read=lambda row: _reason(row[0])),
            Column("candidates", "count", lambda row: row[1]),
            Column("for example", read=lambda row: row[2]),
        ),
        rows,
    )


def _reason(why: str) -> str:
    return "passed, but a later one with a lesser gap passed too" if why == "passed" else why


def _scenarios(found: Alternatives) -> Table:
    """One line a gap: group, measure, value, threshold, mitigation, trigger."""
    audit, best = found.audit, found.best
    looked_at = {(found.current.judging.gap.metric, found.current.judging.gap.target)}

    def mitigation(gap: Any) -> str:
        if (gap.metric, gap.target) not in looked_at:
            return "not searched for here"
        return "none shown" if best is None else best.name

    return Table.of(
        "scenarios-table",
        "Bias scenarios (draft)",
        (
            Column("group", read=lambda gap: audit.names(gap.target)),
            Column("measure", read=lambda gap: f"{gap.metric} against {audit.names(gap.baseline)}"),
            Column("value, points", "points", "gap"),
            Column("95 % interval", "spans", "low high"),
            Column("threshold", read=lambda gap: "0, until the deployer sets one"),
            Column("mitigation", read=mitigation),
            Column("trigger", read=lambda gap: (
                "crossed: the gap is significant (Holm)" if gap.survives(audit.confidence)
                else "not crossed: not significant (Holm)" if gap.judged else "cannot be judged")),
        ),
        audit.in_order(),
    )  # fmt: skip


def _method(found: Alternatives) -> list[tuple[str, str]]:
    made, named = found.provenance, found.named
    order = "; ".join(f"{one.place}. {one.name}: {one.why}" for one in named) or "nobody was named"
    return [
        (
            "What was compared?",
            f"The model as it is with {len(found.candidates) - 1} candidates that need no "
            f"retraining, by the gap in {found.metric} and by {found.measure}.",
        ),
        (
            "Why two parts of the people?",
            f"Candidates were made and chosen on {made.audited:,} people and judged on "
            f"{made.reported:,} others. Whoever looks at many candidates finds one that looks good "
            "by luck; on people who had no part in the choice that luck is gone.",
        ),
        (
            "How was one chosen?",
            "Before judging, a few candidates were named, from the one most likely to pass to the "
            "most ambitious. They were tested in this order, each at 5 %, up to the first that "
            "failed. The chance to call any candidate equivalent and less discriminatory that is "
            f"not is at most 5 %. The order: {order}.",
        ),
        (
            "What does equivalent mean?",
            f"Two one-sided tests at a margin of {found.margin_text}, on pairs of decisions about "
            "the same people. A chosen alternative passed the test that it is not worse by the "
            "margin, and the test that its gap is lesser.",
        ),
        (
            "What do the intervals hold for?",
            "Each is a 95 % interval of one figure. Gaps use pseudo-counts (Agresti and Caffo), "
            "measures the influence function of each person.",
        ),
        (
            "Where does the bound come from?",
            "The best rule there is, whichever it is, is one fixed rule, so that on these people "
            "its gap and measure are off by sampling errors alone. The least gap of any rule whose "
            "measure on these people is within the margin plus such an error, less another such "
            "error, is a lower limit. A linear program finds it.",
        ),
    ]
