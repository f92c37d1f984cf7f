"""A report or an audit becomes a page: what its templates show, section by section."""

from __future__ import annotations

from typing import Any

from fairmend.measure.disparity import words_of
from fairmend.measure.result import BY_PERSON, FOUR_FIFTHS, Audit
from fairmend.report import plot
from fairmend.report.filing import SMALL, cells_of_audit
from fairmend.report.findings import LEAST_SHIFT, MOST_VALUES
from fairmend.report.html import page, people, repair
from fairmend.report.report import Report
from fairmend.report.verdict import audit_verdict, metrics_of, size, size_after, unit, whose
from fairmend.tables import counted

__all__ = ["of_audit", "of_report"]

_SECTIONS = {
    "verdict": "Verdict",
    "groups": "Groups and intersections",
    "counterfactual": "The counterfactual distribution",
    "repair": "The repair",
    "frontier": "The frontier",
    "blindness": "The price of blindness",
    "holdout": "Before and after",
    "filing": "Tables to file",
    "origin": "Limits and provenance",
}


def of_report(report: Report) -> str:
    """Every part that the report has; it may lack an explanation, a frontier, an origin."""
    audit, made = report.before, report.provenance
    absent = {"counterfactual"} if report.explanation is None else set()
    absent |= set() if report.frontier else {"frontier"}
    absent |= {"blindness"} if report.blindness is None else set()
    before, after = zip(*report.gaps_in_order, strict=True) if report.gaps_in_order else ((), ())
    context: dict[str, Any] = {
        "title": f"Fairness report: {words_of(report.metric).title or report.metric} by "
        f"{audit.attribute}",
        "subtitle": f"{counted(report.n)} in {len(report.groups)} groups by {audit.attribute}"
        f"{f', made {made.made_at}' if made else ''}",
        "report": report,
        "verdict": report.verdict(),
        "gaps": people.gaps(before, after, audit),
        "whose": whose(report),
        "group_name": lambda one: report.names(one.group),
        "followed": report.counterfactual_gaps(),
        "repaired": repair.groups(report),
    }
    if report.frontier:
        context |= repair.frontier(report)
    if report.blindness is not None:
        context |= repair.blindness(report.blindness)
    cells = report.cells_before, report.cells_after
    return _render(context | people.filed(audit, cells[0], report.after, cells[1]), audit, absent)


def of_audit(audit: Audit) -> str:
    """What there is without a repair."""
    context = {
        "title": f"Fairness audit by {audit.attribute}",
        "subtitle": f"{audit.who} in {len(audit.groups)} groups by {audit.attribute}",
        "report": None,
        "verdict": audit_verdict(audit),
        "gaps": people.gaps(audit.in_order(), (), audit),
    }
    absent = {"counterfactual", "repair", "frontier", "blindness", "holdout"}
    return _render(context | people.filed(audit, cells_of_audit(audit), None, ()), audit, absent)


def _render(context: dict[str, Any], audit: Audit, absent: set[str]) -> str:
    general = {
        "data": {},
        "sections": {key: title for key, title in _SECTIONS.items() if key not in absent},
        "audit": audit,
        "confidence": f"{100 * audit.confidence:g}",
        "four_fifths": f"{FOUR_FIFTHS:g}",
        "smallest_share": f"{100 * SMALL:g}",
        "by_person": BY_PERSON,
        "most_values": MOST_VALUES,
        "least_shift": f"{100 * LEAST_SHIFT:g}",
        "plot": plot,
        "draw": people.picture,
        "suppressed": repair.suppressed,
        "metrics_of": metrics_of,
        "size": size,
        "size_after": size_after,
        "unit": unit,
    }
    return page.render("html/page.html.j2", "html/page.js", "img-src data:", general | context)
