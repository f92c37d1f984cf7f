"""A report in words: a few questions, each answered from its figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fairmend.data.naming import GroupNames
from fairmend.measure.disparity import RateGap, find_metric, title_of
from fairmend.measure.result import FOUR_FIFTHS, Audit, Gap, rates_in_words
from fairmend.measure.wording import (
    CORRECTED,
    EXACT,
    Affected,
    around_rates,
    capital,
    describe_people,
    describe_size,
    figures,
    people_who,
    share,
    verb,
)
from fairmend.status import PlanStatus, Status
from fairmend.tables import counted, p_text, percent

if TYPE_CHECKING:
    from fairmend.report.findings import Explanation, PlanSummary
    from fairmend.report.persons import EditedPerson
    from fairmend.report.report import GroupOutcome, Report

__all__ = [
    "CLOSES",
    "NOBODY_EDITED",
    "NO_FACTS",
    "audit_headline",
    "audit_lead",
    "audit_verdict",
    "by_taking_away",
    "carried",
    "changes",
    "effects",
    "gains_and_losses",
    "headline",
    "in_words",
    "lead",
    "metrics_of",
    "ratios",
    "reconcilable",
    "remains",
    "significant",
    "size",
    "size_after",
    "takes_away",
    "unit",
    "verdict",
    "whose",
    "why_edited",
    "worst_of",
]
Pieces = list[tuple[str, str]]
"""A sentence in pieces, each with the side whose figure it is, or none."""
NOBODY_EDITED = (
    "Where the repair was fitted, no group was found to fare worse than the reference: nobody is "
    "edited."
)
"""What is said where there is no plan: no group was worse off, or none could be compared."""
MOST_GAPS = 4
"""Gaps that remain and are named on the first screen."""


def verdict(report: Report) -> tuple[tuple[str, str], ...]:
    """Is there a gap, how sure, is it reconcilable, what does the repair do and to whom.

    Where several groups are repaired, an answer about them has a line for each.
    """
    if not report.plans:
        return (
            *audit_verdict(report.before),
            (
                "What does the repair do, and to whom?",
                f"Nothing to anybody. {NOBODY_EDITED}",
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
        ("Can any distribution of inputs close it?", reconcilable(report)),
        ("What does the repair do, and to whom?", effects(report)),
        ("What is left?", _left(report)),
    )


def audit_verdict(audit: Audit) -> tuple[tuple[str, str], ...]:
    """Is there a gap and how sure, and which groups are below four fifths."""
    low = _below(audit)
    ratio = {
        "nobody": f"No impact ratio is below {FOUR_FIFTHS:g}.",
        "this cannot be judged": "It cannot be judged.",
    }.get(low, f"Impact ratio below {FOUR_FIFTHS:g}: {low}.")
    return (
        ("Is there a gap, and how sure is that?", audit.verdict()),
        ("Who is selected less than four fifths as often as the most selected group?", ratio),
    )


# -------------------------------------------------------------------- the first screen


def headline(report: Report, plan: PlanSummary) -> Pieces:
    """What happens to people of a group and of its reference, before and with the repair."""
    old, new = (report.gap(audit, plan.target) for audit in (report.before, report.after))
    names, reference = report.names, report.names(plan.baseline)
    if old is None or new is None or not (old.judged and new.judged):
        note = "it was not compared" if old is None or new is None else old.note or new.note
        return [
            ("", f"{_the_gap(report.metric)} of {names(plan.target)} cannot be judged: {note}.")
        ]
    if np.isnan(old.target_rate):
        was, now = size(old, old.gap), size_after(old, new)
        return [
            ("", f"{_the_gap(old.metric)} of {names(old.target)} against {reference} is "),
            ("before", was),
            ("", f"{unit(old)}. With the repair it is "),
            ("after", now),
            ("", "."),
        ]
    start, of, end = around_rates(old.metric)
    pieces = [
        ("", capital(start)),
        ("before", share(old.target_rate)),
        ("", f" {of} {names(old.target)} and {share(old.baseline_rate)} {of} {reference}{end}."),
    ]
    if _nobody(report.groups):
        return [*pieces, ("", " With the repair no decision changes.")]
    pieces += [("", " With the repair it is "), ("after", share(new.target_rate))]
    still = {one.group for one in report.groups if not one.repaired}
    if plan.baseline in still:
        return [*pieces, ("", f" {of} {names(old.target)}. Nothing changes for {reference}.")]
    other = f" {of} {names(old.target)} and {share(new.baseline_rate)} {of} {reference}."
    return [*pieces, ("", other)]


def audit_headline(audit: Audit) -> str:
    """The worst significant gap in plain words, or that there is none."""
    worst = worst_of(audit)
    return audit.verdict() if worst is None else capital(f"{rates_in_words(worst, audit.names)}.")


def worst_of(audit: Audit) -> Gap | None:
    """The significant gap in rates with the largest harm; None where no such gap is significant."""
    certain = [one for one in audit.gaps if one.judged and one.survives(audit.confidence)]
    rates = [one for one in certain if not np.isnan(one.target_rate)]
    return max(rates, key=lambda one: (one.gap > 0, abs(one.harm)), default=None)


def audit_lead(audit: Audit) -> list[str]:
    """How large the worst gap is and how sure that is; nothing where the headline says it all."""
    worst = worst_of(audit)
    if worst is None:
        return []
    higher = _direction(worst, audit.names, harm=False)
    gap = _size_and_sureness(worst, audit.confidence, higher)
    return [f"The gap is {gap} {significant(audit, None)} {audit.note}".strip()]


def lead(report: Report, plan: PlanSummary) -> list[str]:
    """How large the gaps of a group are, how sure that is, and what the repair makes of them."""
    lines = []
    metrics = metrics_of(report, plan)
    for old, new in _judged(report, plan):
        which = "The gap" if len(metrics) == 1 else _the_gap(old.metric)
        better = _direction(old, report.names, harm=_is_harm(report, old.metric))
        sure = _size_and_sureness(old, report.before.confidence, better)
        lines.append(f"{which} is {sure} {_becomes(report, plan, old, new)}")
    others = [report.names(one.target) for one in report.plans_in_order
              if one.target != plan.target and _judged(report, one)]  # fmt: skip
    return [*lines, *([f"Also repaired: {_listed(others)}."] if others and lines else [])]


def _judged(report: Report, plan: PlanSummary) -> list[tuple[Gap, Gap]]:
    """The gaps of a plan before and after, where both can be judged."""
    pairs = (
        tuple(report.gap(audit, plan.target, metric) for audit in (report.before, report.after))
        for metric in metrics_of(report, plan)
    )
    return [(old, new) for old, new in pairs if old and new and old.judged and new.judged]


def changes(report: Report) -> list[str]:
    """Who gains and who loses, a line for each repaired group, and the outcomes they had."""
    lines, plans = [], {plan.target: plan for plan in report.plans}
    shown = report.plans_in_order[0].target
    for group in report.groups_in_order:
        who = f"Of {counted(group.n)} in {report.names(group.group)}"
        plan = plans.get(group.group)
        pairs = _judged(report, plan) if plan and group.group != shown else []
        if group.repaired:
            in_short = "".join(_in_short(report, *pair) for pair in pairs)
            lines.append(f"{who}, {gains_and_losses([group])}.{in_short}")
    return [*lines, *_unchanged(report), *filter(None, [_given(report), _at_whose_cost(report)])]


def _at_whose_cost(report: Report) -> str:
    """That gaps are narrowed at the cost of those who lose, where more people lose than gain."""
    more = sum(one.people_lost - one.people_gained for one in report.groups)
    pairs = [pair for plan in report.plans for pair in _judged(report, plan)]
    narrower = bool(pairs) and all(abs(new.gap) < abs(old.gap) for old, new in pairs)
    gained = sum(one.people_gained for one in report.groups)
    return takes_away(gained) if narrower and more > EXACT else ""


def takes_away(gained: float) -> str:
    """Where more people lose the favourable decision than gain it."""
    return f"It narrows the gap {by_taking_away(gained)}."


def by_taking_away(gained: float) -> str:
    """The same within a sentence."""
    return f"{'mostly' if gained > EXACT else 'only'} by taking favourable decisions away"


def gains_and_losses(groups: Sequence[GroupOutcome]) -> str:
    """How many people in these groups gain the favourable decision, and how many lose it.

    >>> from types import SimpleNamespace as Group
    >>> gains_and_losses([Group(people_gained=2.0, people_lost=0.0)])
    '2 gain the favourable decision, nobody loses it'
    >>> gains_and_losses([Group(people_gained=0.0, people_lost=0.0)])
    'no decision changes'
    """
    if _nobody(groups):
        return "no decision changes"
    gain = sum(one.people_gained for one in groups)
    lose = sum(one.people_lost for one in groups)
    return f"{people_who(gain, 'gain')} the favourable decision, {people_who(lose, 'lose')} it"


def _nobody(groups: Sequence[GroupOutcome]) -> bool:
    """Whether no decision about anybody in these groups changes."""
    return all(max(one.people_gained, one.people_lost) <= EXACT for one in groups)


def _in_short(report: Report, old: Gap, new: Gap) -> str:
    """A gap before and with the repair, each with its interval and whether it is significant."""
    which = "" if old.metric == report.metric else f" in {title_of(old.metric)}"
    was, now = (
        f"{text}{unit(gap)}{'' if np.isnan(gap.low) else f' ({_span(gap)})'}, which "
        f"{_chance(gap, audit.confidence)}"
        for gap, text, audit in ((old, size(old, old.gap), report.before),
                                 (new, size_after(old, new), report.after))
    )  # fmt: skip
    return f" Its gap{which} is {was}; with the repair {now}."


def ratios(before: Audit, after: Audit | None) -> str:
    """Which groups are below four fifths, before and with the repair."""
    first, *then = (_below(audit) for audit in (before, after) if audit is not None)
    start = f"Selected less than four fifths as often as the most selected group: {first}"
    return f"{start}; with the repair, {then[0]}." if then else f"{start}."


def _below(audit: Audit) -> str:
    """The groups whose impact ratio is below four fifths, the worst-off first."""
    low = {one.group: one.impact_ratio for one in audit.groups if one.below_four_fifths}
    unknown = [one.group for one in audit.groups if one.below_four_fifths is None]
    if len(unknown) == len(audit.groups):
        return "this cannot be judged"
    order = [one for one in audit.worst_first() if one in low]
    said = _listed([f"{audit.names(one)} ({low[one]:.2f})" for one in order] or ["nobody"])
    return f"{said}; not judged: {_listed(list(map(audit.names, unknown)))}" if unknown else said


def significant(before: Audit, after: Audit | None) -> str:
    """How many of the gaps that can be judged are significant, before and with the repair."""
    k, *then = (
        sum(gap.judged and gap.survives(audit.confidence) for gap in audit)
        for audit in (before, after)
        if audit is not None
    )
    n = sum(gap.judged for gap in before)
    if n == 0:
        return "No gap can be judged."
    now = f"; with the repair, {then[0]}" if then else ""
    left = len(before.gaps) - n
    others = f" {left} other {'gap' if left == 1 else 'gaps'} cannot be judged." if left else ""
    are = "gap is" if n == 1 else "gaps are"
    return f"{k} of {n} {are} significant ({CORRECTED}){now}.{others}"


def carried(explanation: Explanation) -> str:
    """How much of the gap single features carry, and that the rest is carried jointly.

    Nothing where there is no gap.
    """
    if explanation.status == Status.NOTHING_TO_DO.value:
        return ""
    first = explanation.feature_scores[0]
    if not first.more_than_noise:
        return explanation.features_verdict
    total = sum(one.share_of_gap for one in explanation.feature_scores)
    most = max(explanation.feature_scores, key=lambda one: one.share_of_gap)
    what = "the gap" if explanation.closed else "what the counterfactual closes"
    if most.share_of_gap <= 0:
        return f"No feature that moves alone to the counterfactual closes a part of {what}."
    lead = (f"If one feature at a time moves to the counterfactual, {most.feature} alone closes "
            f"{share(most.share_of_gap)} of {what}")  # fmt: skip
    if len(explanation.feature_scores) == 1:
        return f"{lead}."
    if total >= 1:
        return f"{lead}. Features overlap: their parts add up to {percent(total)}."
    if total < most.share_of_gap:
        return f"{lead}; the others in sum widen it by {share(most.share_of_gap - total)}."
    return f"{lead}, all of them {share(total)} in sum; the rest is carried jointly."


# -------------------------------------------------------------------- one gap


def in_words(gap: Gap, confidence: float = 0.95, names: GroupNames | None = None) -> str:
    """One gap, and whether it is significant: the answer is "yes" of no other gap.

    >>> print(in_words(Gap("sp", "b", "a", 0.6, 0.4, 0.2, 0.1, 0.3, 0.01, 90, 80, 0.02, 90, 80)))
    Yes: 60.0 % of b and 40.0 % of a get a negative decision, a gap of +20.0 points (95 % \
interval +10.0 to +30.0, from 90 and 80 people). It is significant (p = .020, Holm-corrected for \
all gaps tested): chance alone seldom gives such a gap.
    """
    named = names or GroupNames()
    target, baseline = named(gap.target), named(gap.baseline)
    if not gap.judged:
        return f"{_the_gap(gap.metric)} of {target} cannot be judged: {gap.note}."
    end = _size_and_sureness(gap, confidence)
    if np.isnan(gap.target_rate):
        return f"{_the_gap(gap.metric)} of {target} against {baseline} is {end}"
    if gap.survives(confidence):
        answer = "Yes" if gap.gap > 0 else "No, the other way round"
    else:
        answer = "Perhaps" if gap.gap > 0 else "Not on these people"
    return f"{answer}: {rates_in_words(gap, named)}, a gap of {end}"


def _size_and_sureness(gap: Gap, confidence: float, better: str = "") -> str:
    """How large a gap is, which side fares better where that is to be said, and how sure it is."""
    within = f" ({100 * confidence:g} % interval {_span(gap)}, from {gap.given_target:,} and "
    interval = "" if np.isnan(gap.low) else f"{within}{gap.given_baseline:,} people)"
    size_of = f"{size(gap, gap.gap)}{unit(gap)}"
    return f"{size_of}{better and f': {better}'}{interval}. {_how_sure(gap, confidence)}"


def _direction(gap: Gap, names: GroupNames, *, harm: bool) -> str:
    """Which group fares worse, or has the higher rate where that is no harm by itself."""
    if np.isnan(gap.target_rate) or gap.gap == 0:
        return ""
    target, baseline = names.pair(gap.target, gap.baseline)
    worse = target if gap.gap > 0 else baseline
    return f"{worse} {'fares worse' if harm else 'has the higher rate'}"


def _is_harm(report: Report, metric: str) -> bool:
    """Whether a rate counts unfavourable decisions, and nothing else."""
    found = find_metric(metric)
    decision = found.decision if isinstance(found, RateGap) else None
    return decision is not None and decision != int(report.favours_positive)


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
        text = f"{capital(title_of(metric))}. {text}"
    if new is None or not (old.judged and new.judged):
        return text
    return f"{text} {_becomes(report, plan, old, new)}"


def _becomes(report: Report, plan: PlanSummary, old: Gap, new: Gap) -> str:
    """What the repair does to a gap, and whether the group was worse off where it was fitted."""
    takes = f"{verb(old.gap, new.gap)} {size_after(old, new)}{unit(new)}"
    if not np.isnan(new.low):
        takes = f"{takes} ({_span(new)}), which {_chance(new, report.after.confidence)}"
        if not _is_significant(new, report.after.confidence):
            takes += ": that is no proof that no gap is left"
    elsewhere = turned = ""
    if old.gap > 0 > new.gap and _is_significant(new, report.after.confidence):
        turned = f" {_direction(new, report.names, harm=_is_harm(report, new.metric))} then."
    audited = {name: before for name, before, _ in plan.outlook.by_metric}.get(
        old.metric, plan.outlook.gap_before
    )
    if old.gap <= 0 < audited:
        edited = any(one.people_edited > 0 for one in report.groups if one.group == plan.target)
        elsewhere = (
            f"Where the repair was fitted, the gap was {size(old, audited)}{unit(old)}; here "
            f"{report.names(plan.target)} has no gap to close"
            f"{', but is edited all the same' if edited else ''}. "
        )
    return f"{elsewhere}The repair {takes}.{turned}"


def _the_gap(metric: str) -> str:
    return f"The gap in {title_of(metric)}"


def size_after(old: Gap, new: Gap) -> str:
    """The gap after, with as many decimals as distinguish it from that before."""
    rates = figures(old.gap, new.gap, tolerance=EXACT)[1]
    return size(new, new.gap) if np.isnan(new.target_rate) else rates


def _how_sure(gap: Gap, confidence: float) -> str:
    if np.isnan(gap.p_value):
        return "There is no test for it."
    meaning = ": chance alone can give such a gap. That is not proof that there is none"
    if _is_significant(gap, confidence):
        meaning = ": chance alone seldom gives such a gap" if gap.survives(confidence) else ""
    test = f"({p_text(gap.p_adjusted)}, {CORRECTED})"
    return f"It {_chance(gap, confidence)} {test}{meaning}."


def _chance(gap: Gap, confidence: float) -> str:
    """What can be said of a gap, where its own interval and Holm's correction differ too."""
    if gap.survives(confidence):
        return "is significant"
    if _is_significant(gap, confidence):
        return "is significant on its own, not after Holm's correction"
    return "is not significant"


def _is_significant(gap: Gap, confidence: float) -> bool:
    """Whether it is, by Holm's correction or by its own interval."""
    return gap.survives(confidence) or gap.low > 0 or gap.high < 0


def size(gap: Gap, value: float) -> str:
    """In points where the gap is one of rates, as a plain number otherwise."""
    return f"{value:.3f}" if np.isnan(gap.target_rate) else figures(value)[0]


def unit(gap: Gap) -> str:
    """What comes behind the size."""
    return "" if np.isnan(gap.target_rate) else " points"


def _span(gap: Gap) -> str:
    return f"{size(gap, gap.low)} to {size(gap, gap.high)}"


# -------------------------------------------------------------------- the repair


CLOSES = "The counterfactual distribution closes the gap."
"""What is known where there is no certificate."""


def reconcilable(report: Report) -> str:
    """Whether some distribution of inputs closes the gap, and how it ended."""
    explanation = report.explanation
    if explanation is None:
        why = "" if report.provenance is None else report.provenance.unexplained
        return f"This is not known: {why}." if why else "This was not computed."
    closed = "" if explanation.certificate else CLOSES
    ended = closed if explanation.closed else explanation.status
    text = " ".join(
        part if part.endswith(".") else f"{part}."
        for part in (explanation.certificate, ended, explanation.decisions_differ)
        if part
    )
    largest = f"This is about {report.names(explanation.target_name)}, whose gap was the largest. "
    return f"{largest}{text}" if len(report.plans) > 1 else text


def effects(report: Report) -> str:
    """What happens to whom, a line for each group where there are several."""
    sentences = [_effect(report, group) for group in report.groups_in_order if group.repaired]
    others = _unchanged(report)
    return ("\n" if len(report.plans) > 1 else " ").join([*sentences, *others])


def _unchanged(report: Report) -> list[str]:
    """That nothing changes for groups that are not repaired; nothing where all are."""
    still = [report.names(one.group) for one in report.groups_in_order if not one.repaired]
    return [f"No decision about {_listed(still, 'or')} changes."] if still else []


def _effect(report: Report, group: GroupOutcome) -> str:
    """Who is edited, gains and loses: people counted, and shares of people counted."""
    names = ("edited", "gained", "lost", "randomised", "unreachable")
    people = Affected(group.n, *(getattr(group, f"people_{name}") for name in names))
    mean = "weighted average" if report.before.weighted else "average"
    each = f"{group.edits_per_person:.1f} features each on {mean}"
    return describe_people(report.names(group.group), people, each)


NO_FACTS = (
    "Edits are of what the model reads. They are no facts about the person: never store them as "
    "such, and give nobody's edited inputs to another system. Who may see the data of these people "
    "may see this, and nobody else."
)
"""What stands before the view of single people."""


def why_edited(report: Report, person: EditedPerson) -> list[str]:
    """Why a person is edited, a sentence each."""
    whose = [plan for plan in report.plans_in_order if plan.target == person.group]
    plan = (whose or report.plans_in_order)[0]
    score = after = ""
    if not np.isnan(person.score_before):
        score = f" (score {person.score_before:.3g}, cut {person.cut:.3g})"
    if not np.isnan(person.score_after):
        after = f" (score {person.score_after:.3g})"
    first = f", {plan.order}" if plan.order else ""
    closed = plan.outlook.by_metric or ((plan.metric, plan.outlook.gap_before, np.nan),)
    if person.group is None:
        why = ("The repair is one rule for everybody. It is for the gap in "
               f"{_listed([title_of(name) for name, *_ in closed])}.")  # fmt: skip
    else:
        pair = f"of {report.names(plan.target)} against {report.names(plan.baseline)} was"
        gaps = [f"the gap in {title_of(name)} {pair} {describe_size(name, gap)}"
                for name, gap, _ in closed]  # fmt: skip
        why = (f"Where the repair was fitted, {_listed(gaps)}. To narrow "
               f"{'it' if len(gaps) == 1 else 'them'}, the repair edits people of that "
               f"group{first}.")  # fmt: skip
    lines = [
        f"At this person's own inputs the model's decision is {person.decision_before}{score}.",
        why,
        f"At the edited inputs it is {person.decision_after}{after}.",
    ]
    if person.chance < 1 - EXACT:
        lines.append("A draw keyed on the person's id decided that this person is edited. The "
                     f"chance was {share(person.chance)}.")  # fmt: skip
    return lines


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
    sentences = [
        whose(report),
        _left_out(report),
        _given(report),
        f"{'Weighted accuracy' if report.before.weighted else 'Accuracy'} over everybody goes from "
        f"{percent(report.accuracy_before)} to {percent(report.accuracy_after)}."
        if report.outcome_known
        else "Outcomes are not known: whether decisions are right is not judged.",
    ]
    others = [
        f"{title_of(gap.metric)} of {report.names(gap.target)} ({size(gap, gap.gap)}{unit(gap)})"
        for gap in _others(report)
    ]
    if others:
        sentences.append(f"With the repair other gaps are significant: {_listed(others)}.")
    return " ".join(filter(None, sentences))


def remains(report: Report) -> list[str]:
    """What the repair leaves, a sentence each: the gaps that are significant with it."""
    others = _others(report)
    repaired = [gap for plan in report.plans_in_order for _, gap in _judged(report, plan)
                if _is_significant(gap, report.after.confidence)]  # fmt: skip
    left = [*repaired, *others]
    shown = [gap for gap in left if not np.isnan(gap.target_rate)][:MOST_GAPS]
    lines = [
        f"{_since_when(report, gap)}, {rates_in_words(gap, report.names)} (gap "
        f"{size(gap, gap.gap)} points)."
        for gap in shown
    ]
    if more := len(left) - len(shown):
        are = "gap is" if more == 1 else "gaps are"
        lines.append(f"{more} more significant {are} under “Every gap”.")
    if not any(gap.judged for gap in report.after):
        lines.append("With the repair no gap can be judged.")
    elif not left:
        lines.append("With the repair no gap that was compared is significant.")
    elif not others:
        lines.append("No other gap that was compared is significant.")
    return [*lines, *_unfinished(report), *filter(None, [_left_out(report)])]


def _unfinished(report: Report) -> list[str]:
    """What kept a plan from closing its gap, on the people it was fitted on."""
    return [
        f"For {report.names(plan.target)}, where the repair was fitted: "
        f"{text[:1].lower()}{text[1:]}"
        for plan in report.plans_in_order
        if (text := plan.in_words.status)
        not in (PlanStatus.CLOSED.value, PlanStatus.IDENTITY.value)
    ]


def _since_when(report: Report, gap: Gap) -> str:
    """Whether a gap with the repair was there before it, as wide or narrower or not at all."""
    old = report.gap(report.before, gap.target, gap.metric)
    was_there = old is not None and old.judged and old.survives(report.before.confidence)
    if was_there and old is not None and old.gap * gap.gap > 0:
        return "Still"
    return "With the repair"


def _others(report: Report) -> list[Gap]:
    """Significant gaps with the repair, in metrics that it does not repair."""
    repaired = {name for plan in report.plans for name in metrics_of(report, plan)}
    return [
        gap
        for _, gap in report.gaps_in_order
        if gap.judged and gap.metric not in repaired and gap.survives(report.after.confidence)
    ]


def _left_out(report: Report) -> str:
    people = 0 if report.provenance is None else report.provenance.left_out
    return f"{counted(people)} without an outcome or a group were left out." if people else ""


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
    decision = "the favourable decision" + (f" ({report.favourable})" if report.favourable else "")
    sentence = f"{_change(more, people=True)} {decision}"
    if np.isnan(wrong):
        return f"In all {sentence}."
    if round(lost) == 0:
        right = round(more) - round(wrong)
        had = "positive" if other == "negative" else "negative"
        return (f"In all {sentence}: {right:,} had a {had} outcome on record, {round(wrong):,} a "
                f"{other} one.")  # fmt: skip
    return f"In all {sentence}. Of those with a {other} outcome on record, {_change(wrong)} it."


def _change(change: float, *, people: bool = False) -> str:
    """So many more or fewer get something; its name comes behind.

    >>> _change(1_200.4, people=True), _change(1.0, people=True), _change(-3.0), _change(0.2)
    ('1,200 more people get', '1 more person gets', '3 fewer get', 'as many get')
    """
    n = round(change)
    one = abs(n) == 1
    who = (" person" if one else " people") if people else ""
    if n == 0:
        return f"as many{who} get"
    return f"{abs(n):,} {'more' if n > 0 else 'fewer'}{who} {'gets' if one else 'get'}"


def _listed(names: Sequence[str], word: str = "and") -> str:
    """Names in a sentence.

    >>> _listed(["a"]), _listed(["a", "b", "c"], "or")
    ('a', 'a, b or c')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} {word} {names[-1]}"
