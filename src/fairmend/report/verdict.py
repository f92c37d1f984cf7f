"""A report in words: a few questions, each answered from its figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fairmend.data.naming import GroupNames
from fairmend.measure.disparity import words_of
from fairmend.measure.result import FOUR_FIFTHS, Audit, Gap
from fairmend.measure.wording import EXACT, Affected, describe_people, figures, share, verb
from fairmend.tables import counted, p_said, percent

if TYPE_CHECKING:
    from fairmend.report.findings import PlanSummary
    from fairmend.report.report import GroupOutcome, Report

__all__ = [
    "after",
    "audit_verdict",
    "in_words",
    "metrics_of",
    "size",
    "unit",
    "verdict",
    "whose",
]


def verdict(report: Report) -> tuple[tuple[str, str], ...]:
    """Is there a gap, how sure, is it reconcilable, what does the repair do and to whom.

    Where several groups are repaired, an answer about them has a line for each.
    """
    if not report.plans:
        return (
            *audit_verdict(report.before),
            (
                "What does the repair do, and to whom?",
                "Nothing to anybody: no group fared worse than the reference where it was fitted.",
            ),
        )
    gaps = (
        _gap_and_repair(report, plan, metric)
        for plan in report.plans_in_order
        for metric in metrics_of(report, plan)
    )
    return (
        (
            "Is there a gap, how sure is that, and what becomes of it?",
            "\n".join(filter(None, gaps)),
        ),
        ("Can any distribution of inputs close it?", _reconcilable(report)),
        ("What does the repair do, and to whom?", _effects(report)),
        ("What is left?", _left(report)),
    )


def audit_verdict(audit: Audit) -> tuple[tuple[str, str], ...]:
    """Is there a gap and how sure, and which groups are below four fifths."""
    by_label = {group.group: group for group in audit.groups}
    ordered = [by_label[label] for label in audit.worst_first()]
    low = [group for group in ordered if group.below_four_fifths]
    judged = any(group.below_four_fifths is not None for group in audit.groups)
    if low:
        named = _listed(
            [f"{audit.names(group.group)} ({group.impact_ratio:.2f})" for group in low],
        )
        ratio = f"Impact ratio below {FOUR_FIFTHS:g}: {named}."
    else:
        ratio = f"No impact ratio is below {FOUR_FIFTHS:g}." if judged else "It cannot be judged."
    return (
        ("Is there a gap, and how sure is that?", audit.verdict()),
        ("Who is selected less than four fifths as often as the most selected group?", ratio),
    )


# -------------------------------------------------------------------- one gap


def in_words(gap: Gap, confidence: float = 0.95, names: GroupNames | None = None) -> str:
    """One gap, and whether it is significant, in one voice: "yes" is said of no other.

    >>> print(in_words(Gap("sp", "b", "a", 0.6, 0.4, 0.2, 0.1, 0.3, 0.01, 90, 80, 0.02, 90, 80)))
    Yes: 60.0 % of b and 40.0 % of a get a negative decision, a gap of +20.0 points (95 % \
interval +10.0 to +30.0, from 90 and 80 people). It is significant (p = .020, Holm-corrected).
    """
    named = names or GroupNames()
    target, baseline = named(gap.target), named(gap.baseline)
    if not gap.judged:
        return f"The gap in {gap.metric} of {target} cannot be judged: {gap.note}."
    interval = (
        ""
        if np.isnan(gap.low)
        else f" ({100 * confidence:g} % interval {_span(gap)}, from {gap.given_target:,} and "
        f"{gap.given_baseline:,} people)"
    )
    if np.isnan(gap.target_rate):
        return (
            f"{gap.metric} of {target} against {baseline} is {size(gap, gap.gap)}{interval}. "
            f"{_how_sure(gap, confidence)}"
        )
    if gap.survives(confidence):
        found = "Yes" if gap.gap > 0 else "No, the other way round"
    else:
        found = "Perhaps" if gap.gap > 0 else "Not on these people"
    words = words_of(gap.metric)
    return (
        f"{found}: {words.condition}{share(gap.target_rate)} of {target} and "
        f"{share(gap.baseline_rate)} of {baseline} {words.event}, a gap of "
        f"{size(gap, gap.gap)} points{interval}. "
        f"{_how_sure(gap, confidence)}"
    )


def metrics_of(report: Report, plan: PlanSummary) -> list[str]:
    """The gaps a plan is to close, the first one that of the report."""
    return list(dict.fromkeys((report.metric, *(name for name, *_ in plan.outlook.by_metric))))


def _gap_and_repair(report: Report, plan: PlanSummary, metric: str) -> str:
    """What is known of one gap of one group, and what the repair does to it; empty if nothing."""
    old, new = (report.gap(audit, plan.target, metric) for audit in (report.before, report.after))
    if old is None:
        return ""
    told = in_words(old, report.before.confidence, report.names)
    if len(metrics_of(report, plan)) > 1:
        told = f"{metric}. {told}"
    if new is None or not (old.judged and new.judged):
        return told
    takes = f"{verb(old.gap, new.gap)} {after(old, new)}{unit(new)}"
    if not np.isnan(new.low):
        takes = f"{takes} ({_span(new)}), which {_chance(new, report.after.confidence)}"
    elsewhere, audited = "", _audited(plan, metric)
    if old.gap <= 0 < audited:
        edited = any(one.people_edited > 0 for one in report.groups if one.group == plan.target)
        elsewhere = (
            f" Where the repair was fitted {report.names(plan.target)} was worse off, by "
            f"{size(old, audited)}{unit(old)}; here it is not"
            f"{', and is edited all the same' if edited else ''}."
        )
    return f"{told}{elsewhere} The repair {takes}."


def after(old: Gap, new: Gap) -> str:
    """The gap after, with as many decimals as tell it from that before."""
    return (
        size(new, new.gap)
        if np.isnan(new.target_rate)
        else figures(old.gap, new.gap, tolerance=EXACT)[1]
    )


def _audited(plan: PlanSummary, metric: str) -> float:
    """The gap where the plan was made."""
    gaps = {name: before for name, before, _ in plan.outlook.by_metric}
    return gaps.get(metric, plan.outlook.gap_before)


def _how_sure(gap: Gap, confidence: float) -> str:
    if np.isnan(gap.p_value):
        return "There is no test for it."
    found = gap.survives(confidence) or gap.low > 0 or gap.high < 0
    proof = "" if found else ", which is not proof that there is none"
    return f"It {_chance(gap, confidence)}{proof} ({p_said(gap.p_adjusted)}, Holm-corrected)."


def _chance(gap: Gap, confidence: float) -> str:
    """What can be said of a gap, where its own interval and Holm's correction differ too."""
    if gap.survives(confidence):
        return "is significant"
    if gap.low > 0 or gap.high < 0:
        return "is significant on its own, not after Holm's correction"
    return "is not significant"


def size(gap: Gap, value: float) -> str:
    """In points where the gap is one of rates, as a plain number otherwise."""
    return f"{value:.3f}" if np.isnan(gap.target_rate) else figures(value)[0]


def unit(gap: Gap) -> str:
    """What comes behind the size."""
    return "" if np.isnan(gap.target_rate) else " points"


def _span(gap: Gap) -> str:
    return f"{size(gap, gap.low)} to {size(gap, gap.high)}"


# -------------------------------------------------------------------- the repair


def _reconcilable(report: Report) -> str:
    found = report.explanation
    if found is None:
        why = "" if report.provenance is None else report.provenance.unexplained
        return f"This cannot be told: {why}." if why else "This was not asked."
    ended = "" if found.closed and found.certificate else found.status
    said = " ".join(
        part if part.endswith(".") else f"{part}."
        for part in (found.certificate, ended, found.decisions_differ)
        if part
    )
    target = report.names(found.target_name)
    whose_gap = f"This was asked for {target}, whose gap was the largest. "
    return f"{whose_gap}{said}" if len(report.plans) > 1 else said


def _effects(report: Report) -> str:
    sentences = [_effect(report, group) for group in report.groups_in_order if group.repaired]
    others = [report.names(one.group) for one in report.groups_in_order if not one.repaired]
    if others:
        sentences.append(f"No decision about {_listed(others)} changes.")
    return ("\n" if len(report.plans) > 1 else " ").join(sentences)


def _effect(report: Report, group: GroupOutcome) -> str:
    """Who is edited, gains and loses: people counted, and shares of people counted."""
    people = Affected(
        group.n,
        edited=group.people_edited,
        gained=group.people_gained,
        lost=group.people_lost,
        randomised=group.people_randomised,
        unreachable=group.people_unreachable,
    )
    mean = "weighted average" if report.before.weighted else "average"
    each = f"{group.edits_per_person:.1f} features each on {mean}"
    return describe_people(report.names(group.group), people, each)


def whose(report: Report) -> str:
    """Whether the people of the report were audited too, as far as that is known."""
    if report.holdout is None:
        return (
            f"This is on the {counted(report.n)} of this report; whether some of them were audited "
            "too is not known."
        )
    if report.holdout:
        return f"This is on {counted(report.n)} the repair was not fitted on."
    return "This is on the very people the repair was fitted on, which is its best case."


def _left_out(report: Report) -> str:
    people = 0 if report.provenance is None else report.provenance.left_out
    return f"{counted(people)} without an outcome or a group were left out." if people else ""


def _left(report: Report) -> str:
    repaired = {name for plan in report.plans for name in metrics_of(report, plan)}
    sentences = [whose(report), _left_out(report), _given(report)]
    sentences.append(
        f"{'Weighted accuracy' if report.before.weighted else 'Accuracy'} over everybody goes from "
        f"{percent(report.accuracy_before)} to {percent(report.accuracy_after)}."
        if report.outcome_known
        else "Outcomes are not known: whether decisions are right is not judged."
    )
    others = [
        f"{gap.metric} of {report.names(gap.target)} ({size(gap, gap.gap)}{unit(gap)})"
        for _, gap in report.gaps_in_order
        if gap.judged and gap.metric not in repaired and gap.survives(report.after.confidence)
    ]
    if others:
        sentences.append(f"Other significant gaps remain: {_listed(others)}.")
    return " ".join(filter(None, sentences))


def _given(report: Report) -> str:
    """How many more favourable decisions, and how many of them to people with the other outcome."""
    other = "negative" if report.favours_positive else "positive"
    more = wrong = lost = 0.0
    for group in report.groups:
        more += group.people_gained - group.people_lost
        wrong += getattr(group, f"people_gained_{other}") - getattr(group, f"people_lost_{other}")
        lost += group.people_lost
    if round(more) == 0 and round(lost) == 0:
        return ""
    decisions = "Favourable decisions" + (f" ({report.favourable})" if report.favourable else "")
    if np.isnan(wrong):
        return f"{decisions}: {_change(more)}."
    people = f"people with a {other} outcome on record"
    if round(lost) == 0:
        return f"{decisions}: {round(more):,} more, {round(wrong):,} of them about {people}."
    return f"{decisions}: {_change(more)}; those about {people}: {_change(wrong)}."


def _change(people: float) -> str:
    """So many more or fewer.

    >>> _change(1_200.4), _change(-3.0), _change(0.2)
    ('1,200 more', '3 fewer', 'as many as before')
    """
    n = round(people)
    return f"{abs(n):,} {'more' if n > 0 else 'fewer'}" if n else "as many as before"


def _listed(names: Sequence[str]) -> str:
    """Names as one says them.

    >>> _listed(["a"]), _listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
