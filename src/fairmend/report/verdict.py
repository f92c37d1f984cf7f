"""A report in words: a few questions, each answered from its figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fairmend.data.naming import GroupNames
from fairmend.measure.disparity import words_of
from fairmend.measure.result import FOUR_FIFTHS, Audit, Gap
from fairmend.measure.wording import EXACT, Affected, describe_people, figures, share, verb
from fairmend.tables import counted, p_text, percent

if TYPE_CHECKING:
    from fairmend.report.findings import PlanSummary
    from fairmend.report.report import GroupOutcome, Report

__all__ = [
    "audit_verdict",
    "in_words",
    "metrics_of",
    "size",
    "size_after",
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
    ratios = {group.group: group.impact_ratio for group in audit.groups if group.below_four_fifths}
    low = [
        f"{audit.names(one)} ({ratios[one]:.2f})" for one in audit.worst_first() if one in ratios
    ]
    if low:
        ratio = f"Impact ratio below {FOUR_FIFTHS:g}: {_listed(low)}."
    elif any(group.below_four_fifths is not None for group in audit.groups):
        ratio = f"No impact ratio is below {FOUR_FIFTHS:g}."
    else:
        ratio = "It cannot be judged."
    return (
        ("Is there a gap, and how sure is that?", audit.verdict()),
        ("Who is selected less than four fifths as often as the most selected group?", ratio),
    )


# -------------------------------------------------------------------- one gap


def in_words(gap: Gap, confidence: float = 0.95, names: GroupNames | None = None) -> str:
    """One gap, and whether it is significant: the answer is "yes" of no other gap.

    >>> print(in_words(Gap("sp", "b", "a", 0.6, 0.4, 0.2, 0.1, 0.3, 0.01, 90, 80, 0.02, 90, 80)))
    Yes: 60.0 % of b and 40.0 % of a get a negative decision, a gap of +20.0 points (95 % \
interval +10.0 to +30.0, from 90 and 80 people). It is significant (p = .020, Holm-corrected).
    """
    named = names or GroupNames()
    target, baseline = named(gap.target), named(gap.baseline)
    if not gap.judged:
        return f"The gap in {gap.metric} of {target} cannot be judged: {gap.note}."
    known = f" ({100 * confidence:g} % interval {_span(gap)}, from {gap.given_target:,} and "
    interval = "" if np.isnan(gap.low) else f"{known}{gap.given_baseline:,} people)"
    end = f"{size(gap, gap.gap)}{unit(gap)}{interval}. {_how_sure(gap, confidence)}"
    if np.isnan(gap.target_rate):
        return f"{gap.metric} of {target} against {baseline} is {end}"
    if gap.survives(confidence):
        answer = "Yes" if gap.gap > 0 else "No, the other way round"
    else:
        answer = "Perhaps" if gap.gap > 0 else "Not on these people"
    words = words_of(gap.metric)
    return (
        f"{answer}: {words.condition}{share(gap.target_rate)} of {target} and "
        f"{share(gap.baseline_rate)} of {baseline} {words.event}, a gap of {end}"
    )


def metrics_of(report: Report, plan: PlanSummary) -> list[str]:
    """The gaps a plan is to close, the first one that of the report."""
    return list(dict.fromkeys((report.metric, *(name for name, *_ in plan.outlook.by_metric))))


def _gap_and_repair(report: Report, plan: PlanSummary, metric: str) -> str:
    """What is known of one gap of one group, and what the repair does to it; empty if nothing."""
    old, new = (report.gap(audit, plan.target, metric) for audit in (report.before, report.after))
    if old is None:
        return ""
    text = in_words(old, report.before.confidence, report.names)
    if len(metrics_of(report, plan)) > 1:
        text = f"{metric}. {text}"
    if new is None or not (old.judged and new.judged):
        return text
    takes = f"{verb(old.gap, new.gap)} {size_after(old, new)}{unit(new)}"
    if not np.isnan(new.low):
        takes = f"{takes} ({_span(new)}), which {_chance(new, report.after.confidence)}"
    elsewhere = ""
    audited = {name: before for name, before, _ in plan.outlook.by_metric}.get(
        metric, plan.outlook.gap_before
    )
    if old.gap <= 0 < audited:
        edited = any(one.people_edited > 0 for one in report.groups if one.group == plan.target)
        elsewhere = (
            f" Where the repair was fitted {report.names(plan.target)} was worse off, by "
            f"{size(old, audited)}{unit(old)}; here it is not"
            f"{', and is edited all the same' if edited else ''}."
        )
    return f"{text}{elsewhere} The repair {takes}."


def size_after(old: Gap, new: Gap) -> str:
    """The gap after, with as many decimals as distinguish it from that before."""
    rates = figures(old.gap, new.gap, tolerance=EXACT)[1]
    return size(new, new.gap) if np.isnan(new.target_rate) else rates


def _how_sure(gap: Gap, confidence: float) -> str:
    if np.isnan(gap.p_value):
        return "There is no test for it."
    significant = gap.survives(confidence) or gap.low > 0 or gap.high < 0
    proof = "" if significant else ", which is not proof that there is none"
    return f"It {_chance(gap, confidence)}{proof} ({p_text(gap.p_adjusted)}, Holm-corrected)."


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
    explanation = report.explanation
    if explanation is None:
        why = "" if report.provenance is None else report.provenance.unexplained
        return f"This is not known: {why}." if why else "This was not computed."
    ended = "" if explanation.closed and explanation.certificate else explanation.status
    text = " ".join(
        part if part.endswith(".") else f"{part}."
        for part in (explanation.certificate, ended, explanation.decisions_differ)
        if part
    )
    largest = f"This is about {report.names(explanation.target_name)}, whose gap was the largest. "
    return f"{largest}{text}" if len(report.plans) > 1 else text


def _effects(report: Report) -> str:
    sentences = [_effect(report, group) for group in report.groups_in_order if group.repaired]
    others = [report.names(one.group) for one in report.groups_in_order if not one.repaired]
    if others:
        sentences.append(f"No decision about {_listed(others)} changes.")
    return ("\n" if len(report.plans) > 1 else " ").join(sentences)


def _effect(report: Report, group: GroupOutcome) -> str:
    """Who is edited, gains and loses: people counted, and shares of people counted."""
    names = ("edited", "gained", "lost", "randomised", "unreachable")
    people = Affected(group.n, *(getattr(group, f"people_{name}") for name in names))
    mean = "weighted average" if report.before.weighted else "average"
    each = f"{group.edits_per_person:.1f} features each on {mean}"
    return describe_people(report.names(group.group), people, each)


def whose(report: Report) -> str:
    """Whether the people of the report were audited too, as far as that is known."""
    people = counted(report.n)
    if report.holdout is None:
        return (
            f"This is on the {people} of this report; whether some of them were audited too is not "
            "known."
        )
    if report.holdout:
        return f"This is on {people} the repair was not fitted on."
    return "This is on the very people the repair was fitted on, which is its best case."


def _left(report: Report) -> str:
    repaired = {name for plan in report.plans for name in metrics_of(report, plan)}
    people = 0 if report.provenance is None else report.provenance.left_out
    sentences = [
        whose(report),
        f"{counted(people)} without an outcome or a group were left out." if people else "",
        _given(report),
        f"{'Weighted accuracy' if report.before.weighted else 'Accuracy'} over everybody goes from "
        f"{percent(report.accuracy_before)} to {percent(report.accuracy_after)}."
        if report.outcome_known
        else "Outcomes are not known: whether decisions are right is not judged.",
    ]
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
    """Names in a sentence.

    >>> _listed(["a"]), _listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
