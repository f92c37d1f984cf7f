"""A report in words: a few questions, each answered from its figures."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fairmend.audit import FOUR_FIFTHS, Audit, Gap
from fairmend.tables import counted, p_said, percent, points

if TYPE_CHECKING:
    from fairmend.findings import PlanSummary
    from fairmend.report import GroupOutcome, Report

__all__ = ["audit_verdict", "in_words", "size", "unit", "verdict", "whose"]

_SAID = {
    "sp": ("", "get a negative decision"),
    "fnr": ("of those with a positive outcome, ", "get a negative decision"),
    "fpr": ("of those with a negative outcome, ", "get a positive decision"),
    "fdr": ("of those with a positive decision, ", "turn out to have a negative outcome"),
}


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
    gaps = (_gap_and_repair(report, plan) for plan in report.plans)
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
    low = [group for group in audit.groups if group.below_four_fifths]
    judged = any(group.below_four_fifths is not None for group in audit.groups)
    if low:
        named = _listed(
            [f"{_name(group.group)} ({group.impact_ratio:.2f})" for group in low],
        )
        ratio = f"Impact ratio below {FOUR_FIFTHS:g}: {named}."
    else:
        ratio = f"No impact ratio is below {FOUR_FIFTHS:g}." if judged else "It cannot be judged."
    return (
        ("Is there a gap, and how sure is that?", audit.verdict()),
        ("Who is selected less than four fifths as often as the most selected group?", ratio),
    )


# -------------------------------------------------------------------- one gap


def in_words(gap: Gap, confidence: float = 0.95) -> str:
    """One gap, and whether it is more than chance, in one voice: "yes" is said of no other.

    >>> print(in_words(Gap("sp", "b", "a", 0.6, 0.4, 0.2, 0.1, 0.3, 0.01, 90, 80, 0.02, 90, 80)))
    Yes: 60.0 % of b and 40.0 % of a get a negative decision, a gap of +20.0 points (95 % \
interval +10.0 to +30.0, from 90 and 80 people). It is more than chance (p = .020, Holm-corrected).
    """
    target, baseline = _name(gap.target), _name(gap.baseline)
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
    if _sure(gap, confidence):
        found = "Yes" if gap.gap > 0 else "No, the other way round"
    else:
        found = "Perhaps" if gap.gap > 0 else "Not on these people"
    given, what = _SAID.get(gap.metric, ("", f"count for {gap.metric}"))
    return (
        f"{found}: {given}{percent(gap.target_rate)} of {target} and {percent(gap.baseline_rate)} "
        f"of {baseline} {what}, a gap of {points(gap.gap)} points{interval}. "
        f"{_how_sure(gap, confidence)}"
    )


def _gap_and_repair(report: Report, plan: PlanSummary) -> str:
    """What is known of the gap of one group, and what the repair does to it; empty if nothing."""
    old, new = (report.gap(audit, plan.target) for audit in (report.before, report.after))
    if old is None:
        return ""
    said = in_words(old, report.before.confidence)
    if new is None or not (old.judged and new.judged):
        return said
    takes = f"takes it to {size(new, new.gap)}{unit(new)}"
    if not np.isnan(new.low):
        takes = f"{takes} ({_span(new)}), which {_chance(new, report.after.confidence)}"
        if new.gap < 0 and _sure(new, report.after.confidence):
            takes += ", the other way round"
    elsewhere, audited = "", _audited(plan, report.metric)
    if old.gap <= 0 < audited:
        elsewhere = (
            f" Where the repair was fitted {_name(plan.target)} was worse off, by "
            f"{size(old, audited)}{unit(old)}; here it is not, and is edited all the same."
        )
    return f"{said}{elsewhere} The repair {takes}."


def _audited(plan: PlanSummary, metric: str) -> float:
    """The gap where the plan was made."""
    gaps = {name: before for name, before, _ in plan.outlook.by_metric}
    return gaps.get(metric, plan.outlook.gap_before)


def _how_sure(gap: Gap, confidence: float) -> str:
    if np.isnan(gap.p_value):
        return "There is no test for it."
    proof = "" if _sure(gap, confidence) else ", which is not proof that there is none"
    return f"It {_chance(gap, confidence)}{proof} ({p_said(gap.p_adjusted)}, Holm-corrected)."


def _chance(gap: Gap, confidence: float) -> str:
    """What can be said of a gap, where its own interval and Holm's correction differ too."""
    if _sure(gap, confidence):
        return "is more than chance"
    if gap.low > 0 or gap.high < 0:
        return (
            "would be more than chance alone, but among all gaps looked at cannot be told from it"
        )
    return "cannot be told from chance"


def _sure(gap: Gap, confidence: float) -> bool:
    """Whether it is more than chance among all gaps looked at; by its interval without a test."""
    if np.isnan(gap.p_adjusted):
        return gap.low > 0 or gap.high < 0
    return gap.p_adjusted <= 1 - confidence


def size(gap: Gap, value: float) -> str:
    """In points where the gap is one of rates, as a plain number otherwise."""
    return f"{value:.3f}" if np.isnan(gap.target_rate) else points(value)


def unit(gap: Gap) -> str:
    """What comes behind the size."""
    return "" if np.isnan(gap.target_rate) else " points"


def _span(gap: Gap) -> str:
    return f"{size(gap, gap.low)} to {size(gap, gap.high)}"


def _name(group: Hashable) -> str:
    """A group in a sentence: "rest" is no name, and an answer's lines are not a name's to break."""
    return "the rest" if group == "rest" else " ".join(str(group).splitlines())


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
    whose_gap = f"This was asked for {_name(found.target_name)}, whose gap was the largest. "
    return f"{whose_gap}{said}" if len(report.plans) > 1 else said


def _effects(report: Report) -> str:
    sentences = [_effect(group) for group in report.groups if group.repaired]
    others = [_name(group.group) for group in report.groups if not group.repaired]
    if others:
        sentences.append(f"No decision about {_listed(others)} changes.")
    return ("\n" if len(report.plans) > 1 else " ").join(sentences)


def _effect(group: GroupOutcome) -> str:
    def people(share: float) -> str:
        return f"{round(share * group.n):,} ({percent(share)})"

    lose = "nobody loses it" if group.lost == 0 else f"{people(group.lost)} lose it"
    chance = (
        " No edit is drawn by chance."
        if group.randomised == 0
        else f" For {people(group.randomised)} a draw keyed on the person decides."
    )
    blocked = (
        ""
        if group.unreachable == 0
        else f" {people(group.unreachable)} should be helped but no allowed edit reaches them."
    )
    return (
        f"Of {counted(group.n)} in {_name(group.group)} it edits the inputs of "
        f"{people(group.edited)}, {group.edits_per_person:.1f} features each on average. "
        f"{people(group.gained)} gain the favourable decision, {lose}.{chance}{blocked}"
    )


def whose(report: Report) -> str:
    """Whether the people of the report were audited too, as far as that is known."""
    if report.apart is None:
        return (
            f"This is on the {counted(report.n)} of this report; whether some of them were audited "
            "too is not known."
        )
    if report.apart:
        return f"This is on {counted(report.n)} the repair was not fitted on."
    return "This is on the very people the repair was fitted on, which is its best case."


def _left_out(report: Report) -> str:
    people = 0 if report.provenance is None else report.provenance.left_out
    return f"{counted(people)} without an outcome or a group were left out." if people else ""


def _left(report: Report) -> str:
    sentences = [whose(report), _left_out(report), _given(report)]
    sentences.append(
        f"Accuracy over everybody goes from {percent(report.accuracy_before)} to "
        f"{percent(report.accuracy_after)}."
        if report.outcome_known
        else "Outcomes are not known: whether decisions are right is not judged."
    )
    others = [
        f"{gap.metric} of {_name(gap.target)} ({size(gap, gap.gap)})"
        for gap in report.after.gaps
        if gap.judged and gap.metric != report.metric and _sure(gap, report.after.confidence)
    ]
    if others:
        sentences.append(f"Other gaps that are more than chance remain: {_listed(others)}.")
    return " ".join(filter(None, sentences))


def _given(report: Report) -> str:
    """How many more favourable decisions, and how many of them to people with the other outcome.

    Each favourable decision that is added either meets the outcome on record or does not, so that
    the number of those that do not is half of what the decisions rise by and accuracy does not.
    """
    more = wrong = lost = 0.0
    for group in report.groups:
        added = group.n * (group.gained - group.lost)
        more += added
        wrong += (added - group.n * (group.accuracy_after - group.accuracy_before)) / 2
        lost += group.n * group.lost
    if round(more) == 0 and round(lost) == 0:
        return ""
    side = "negative" if report.favours_positive else "positive"
    decisions = "Favourable decisions" + (f" ({report.favourable})" if report.favourable else "")
    if np.isnan(wrong):
        return f"{decisions}: {_change(more)}."
    people = f"people with a {side} outcome on record"
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
