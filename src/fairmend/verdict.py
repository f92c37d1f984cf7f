"""A report in words: a few questions, each answered from its figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fairmend.audit import FOUR_FIFTHS, Audit, Gap
from fairmend.tables import counted, p_value, percent, points

if TYPE_CHECKING:
    from fairmend.report import GroupOutcome, Report

__all__ = ["audit_verdict", "in_words", "verdict", "whose"]

_SAID = {
    "sp": ("", "get a negative decision"),
    "fnr": ("of those with a positive outcome, ", "get a negative decision"),
    "fpr": ("of those with a negative outcome, ", "get a positive decision"),
    "fdr": ("of those with a positive decision, ", "turn out to have a negative outcome"),
}


def verdict(report: Report) -> tuple[tuple[str, str], ...]:
    """Is there a gap, how sure, is it reconcilable, what does the repair do and to whom."""
    before = [
        gap for plan in report.plans if (gap := report.gap(report.before, plan.target)) is not None
    ]
    if not report.plans:
        return (
            *audit_verdict(report.before),
            (
                "What does the repair do, and to whom?",
                "Nothing to anybody: no group fared worse than the reference where it was fitted.",
            ),
        )
    return (
        ("Is there a gap?", " ".join(in_words(gap) for gap in before)),
        ("How sure is that?", " ".join(_how_sure(gap, report.before) for gap in before)),
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
            [f"{group.group} ({group.impact_ratio:.2f})" for group in low],
        )
        ratio = f"Impact ratio below {FOUR_FIFTHS:g}: {named}."
    else:
        ratio = f"No impact ratio is below {FOUR_FIFTHS:g}." if judged else "It cannot be judged."
    return (
        ("Is there a gap, and how sure is that?", audit.verdict()),
        ("Who is selected less than four fifths as often as the most selected group?", ratio),
    )


def in_words(gap: Gap) -> str:
    """One gap as a sentence.

    >>> in_words(Gap("fnr", "Female", "Male", 0.6, 0.4, 0.2, 0.1, 0.3, 0.01, 9, 9, 0.02, 5, 5))
    'Yes: of those with a positive outcome, 60.0 % of Female and 40.0 % of Male get a negative \
decision, a gap of +20.0 points.'
    """
    if not gap.judged:
        return f"The gap in {gap.metric} of {gap.target} cannot be judged: {gap.note}."
    if np.isnan(gap.target_rate):
        return f"{gap.metric} of {gap.target} against {gap.baseline} is {gap.gap:.3f}."
    found = "Yes" if gap.low > 0 or gap.high < 0 else "Perhaps"
    baseline = "the rest" if gap.baseline == "rest" else str(gap.baseline)
    given, what = _SAID.get(gap.metric, ("", f"count for {gap.metric}"))
    return (
        f"{found}: {given}{percent(gap.target_rate)} of {gap.target} and "
        f"{percent(gap.baseline_rate)} of {baseline} {what}, a gap of {points(gap.gap)} points."
    )


def _how_sure(gap: Gap, audit: Audit) -> str:
    if not gap.judged or np.isnan(gap.p_value):
        return f"There is no test for {gap.metric} of {gap.target}."
    chance = (
        "It is more than chance"
        if gap.p_adjusted <= 1 - audit.confidence
        else "It cannot be told from chance, which is not proof that there is none"
    )
    return (
        f"The {100 * audit.confidence:g} % interval of the gap of {gap.target} is "
        f"{points(gap.low)} to {points(gap.high)} points, from {gap.given_target:,} and "
        f"{gap.given_baseline:,} people. {chance} (p {_equals(p_value(gap.p_adjusted))} after "
        "Holm's correction for all gaps of the audit)."
    )


def _equals(p: str) -> str:
    return p if p.startswith("<") else f"= {p}"


def _reconcilable(report: Report) -> str:
    found = report.explanation
    if found is None:
        return "This was not asked."
    ended = "" if found.closed and found.certificate else found.status
    return " ".join(
        part if part.endswith(".") else f"{part}."
        for part in (found.certificate, ended, f"A direct test: {found.outcomes_differ}")
        if part
    )


def _effects(report: Report) -> str:
    sentences = [_effect(group) for group in report.groups if group.repaired]
    others = [str(group.group) for group in report.groups if not group.repaired]
    if others:
        sentences.append(f"No decision about {_listed(others)} changes.")
    return " ".join(sentences)


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
        f"Of {counted(group.n)} in {group.group} it edits the inputs of {people(group.edited)}"
        f", {group.edits_per_person:.1f} features each on average. {people(group.gained)} gain the "
        f"favourable decision, {lose}.{chance}{blocked}"
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


def _left(report: Report) -> str:
    sentences = [whose(report)]
    for plan in report.plans:
        old, new = (report.gap(audit, plan.target) for audit in (report.before, report.after))
        if old is None or new is None or not (old.judged and new.judged):
            continue
        zero = "includes" if new.low <= 0 <= new.high else "does not include"
        sentences.append(
            f"The {new.metric} gap of {plan.target} goes from {points(old.gap)} to "
            f"{points(new.gap)} points; its interval, {points(new.low)} to {points(new.high)}, "
            f"{zero} 0."
        )
    sentences.append(
        f"Accuracy over everybody goes from {percent(report.accuracy_before)} to "
        f"{percent(report.accuracy_after)}."
    )
    others = [
        f"{gap.metric} of {gap.target} ({points(gap.gap)})"
        for gap in report.after.gaps
        if gap.judged and gap.metric != report.metric and abs(gap.gap) > 0 and _sure(gap)
    ]
    if others:
        sentences.append(f"Other gaps whose interval excludes 0 remain: {_listed(others)}.")
    return " ".join(sentences)


def _sure(gap: Gap) -> bool:
    return gap.low > 0 or gap.high < 0


def _listed(names: Sequence[str]) -> str:
    """Names as one says them.

    >>> _listed(["a"]), _listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
