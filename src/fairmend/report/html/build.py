"""A report or an audit becomes a page: what its templates show, section by section."""

from __future__ import annotations

from typing import Any

from fairmend.measure.disparity import title_of
from fairmend.measure.result import BY_PERSON, FOUR_FIFTHS, Audit
from fairmend.measure.wording import people_count
from fairmend.report import verdict
from fairmend.report.chart import RowChart
from fairmend.report.filing import SMALL, cells_of_audit
from fairmend.report.html import page, people, repair
from fairmend.report.report import Report
from fairmend.tables import counted, percent

__all__ = ["of_audit", "of_report", "pictures", "subtitle", "tiles"]

_PARTS = {
    "Report": {"verdict": "In short"},
    "For the regulator": {
        "groups": "Who is selected less often",
        "holdout": "Every gap",
        "filing": "Tables to file",
    },
    "For the data scientist": {
        "counterfactual": "Why the gap exists",
        "repair": "What the repair does",
        "frontier": "How much to close",
        "blindness": "The price of blindness",
    },
    "For the case worker": {"persons": "One person at a time"},
    "Reference": {"origin": "Limits and provenance"},
}
MOST_RATES = 3
"""Metrics of a repair whose rates are drawn on the first screen."""


def of_report(report: Report) -> str:
    """Every part that the report has; it may lack an explanation, a frontier, an origin."""
    audit, made = report.before, report.provenance
    absent = {"counterfactual"} if report.explanation is None else set()
    absent |= set() if report.frontier else {"frontier"}
    absent |= {"blindness"} if report.blindness is None else set()
    absent |= set() if report.people else {"persons"}
    before, after = zip(*report.gaps_in_order, strict=True) if report.gaps_in_order else ((), ())
    plans = report.plans_in_order
    title = title_of(report.metric)
    context: dict[str, Any] = {
        "title": f"Fairness report: {title} by {audit.attribute}",
        "subtitle": f"{subtitle(report)}{f' · {made.made_at}' if made else ''}",
        "report": report,
        "headline": [
            verdict.headline(report, plans[0]) if plans else [("", verdict.audit_headline(audit))],
            *([] if plans else [[("", verdict.NOBODY_EDITED)]]),
        ],
        "lead": verdict.lead(report, plans[0]) if plans else verdict.audit_lead(audit),
        "nobody_edited": verdict.NOBODY_EDITED,
        "pictures": pictures(report),
        "tiles": tiles(report),
        "below": {
            "What changes, and for whom": verdict.changes(report),
            "What remains": verdict.remains(report),
        } if plans else {},
        "reconcilable": verdict.reconcilable(report),
        "effects": verdict.effects(report).split("\n"),
        "who": repair.who(report),
        "gaps": people.gaps(before, after, audit),
        "whose": verdict.whose(report),
        "group_name": lambda one: report.names(one.group),
        "followed": report.counterfactual_gaps(),
        "repaired": repair.groups(report),
    }  # fmt: skip
    context["data"] = {}
    if report.frontier:
        context |= repair.frontier(report)
    if report.people:
        shown = repair.persons(report)
        context |= {"persons": shown, "data": {**context["data"], "people": shown["people"]}}
    if report.blindness is not None:
        context |= repair.blindness(report.blindness)
    if report.explanation is not None:
        context["explained"] = repair.explained(report.explanation)
        context["carried"] = verdict.carried(report.explanation)
    cells = report.cells_before, report.cells_after
    context |= people.filed(audit, cells[0], report.after, cells[1])
    return _render(context, audit, report.after, absent)


def subtitle(report: Report) -> str:
    """What a report is about, and on whom."""
    title = title_of(report.metric)
    which = {True: " the repair was not fitted on", False: " the repair was fitted on", None: ""}[
        report.holdout
    ]
    return f"Fairness report · {title} by {report.before.attribute} · {counted(report.n)}{which}"


def pictures(report: Report) -> list[RowChart]:
    """The rates of each group for each metric that is repaired; its gaps where it has no rates."""
    metrics = dict.fromkeys(
        name for plan in report.plans for name in verdict.metrics_of(report, plan)
    ) or {report.metric: None}
    charts: list[RowChart] = []
    for place, metric in enumerate(list(metrics)[:MOST_RATES]):
        chart = people.rates(report.before, report.after, metric, f"rates-{place}")
        pairs = [pair for pair in report.gaps_in_order if pair[0].metric == metric]
        if chart is None and pairs:
            old, new = zip(*pairs, strict=True)
            chart = people.gaps(old, new, report.before, f"rates-{place}")
        charts += [] if chart is None else [chart]
    return charts


def tiles(report: Report) -> list[tuple[str, str, str]]:
    """Three numbers: the gaps of the worst-off group, people edited, accuracy."""
    audit, weighted = report.before, ", weighted" if report.before.weighted else ""
    shown = []
    for plan in report.plans_in_order[:1]:
        for metric in verdict.metrics_of(report, plan):
            old, new = (report.gap(each, plan.target, metric) for each in (audit, report.after))
            label = f"gap in {title_of(metric)}, {report.names(plan.target)}"
            if old and new and old.judged and new.judged:
                shown.append((
                    f"{label}, points" if verdict.unit(new) else label,
                    f"{verdict.size(old, old.gap)} → {verdict.size_after(old, new)}",
                    f"then {verdict.size(new, new.low)} to {verdict.size(new, new.high)} "
                    f"({100 * audit.confidence:g} % interval)",
                ))  # fmt: skip
            elif old and new:
                shown.append((label, "not judged", old.note or new.note))
    edited = people_count(sum(one.people_edited for one in report.groups))
    shown.append((
        "people whose inputs are edited",
        f"{edited} of {report.n:,}",
        verdict.gains_and_losses(report.groups),
    ))  # fmt: skip
    accuracy, right = "not known", "outcomes are not known"
    if report.outcome_known:
        was, then = (percent(each) for each in (report.accuracy_before, report.accuracy_after))
        accuracy = f"{was} → {then}"
        where = {
            True: "on people it was not fitted on",
            False: "on the people it was fitted on",
            None: "on the people of this report",
        }[report.holdout]
        right = f"decisions that match the outcome, {where}"
    shown.append((f"accuracy of everybody{weighted}", accuracy, right))
    return shown


def of_audit(audit: Audit) -> str:
    """What there is without a repair."""
    worst = verdict.worst_of(audit) or next(iter(audit.gaps), None)
    chart = None if worst is None else people.rates(audit, None, worst.metric, "rates-0")
    context: dict[str, Any] = {
        "title": f"Fairness audit by {audit.attribute}",
        "subtitle": f"Fairness audit by {audit.attribute} · {audit.who} in {len(audit.groups)} "
        "groups",
        "report": None,
        "headline": [[("", verdict.audit_headline(audit))]],
        "lead": verdict.audit_lead(audit),
        "pictures": [] if chart is None else [chart],
        "tiles": [],
        "below": {},
        "gaps": people.gaps(audit.in_order(), (), audit),
    }
    absent = {"counterfactual", "repair", "frontier", "blindness", "persons"}
    context |= people.filed(audit, cells_of_audit(audit), None, ())
    return _render(context, audit, None, absent)


def _render(context: dict[str, Any], audit: Audit, after: Audit | None, absent: set[str]) -> str:
    parts = {
        part: {key: title for key, title in sections.items() if key not in absent}
        for part, sections in _PARTS.items()
    }
    general = {
        "data": {},
        "parts": {part: sections for part, sections in parts.items() if sections},
        "audit": audit,
        "ratios": verdict.ratios(audit, after),
        "significant": verdict.significant(audit, after),
        "confidence": f"{100 * audit.confidence:g}",
        "four_fifths": f"{FOUR_FIFTHS:g}",
        "smallest_share": f"{100 * SMALL:g}",
        "by_person": BY_PERSON,
        "suppressed": repair.suppressed,
        "impact_chart": people.impact,
    }
    return page.render("html/report.html.j2", "html/page.js", "img-src data:", general | context)
