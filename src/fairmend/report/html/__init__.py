"""The report as a web page: one file, no network, readable without JavaScript."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from fairmend.errors import FairmendWarning, require

if TYPE_CHECKING:
    from fairmend.measure.audit import Audit
    from fairmend.report.report import Report

__all__ = ["audit_page", "report_page"]


def report_page(report: Report) -> str:
    """The whole report."""
    _require_all()
    from fairmend.report.html.build import of_report

    return of_report(report)


def audit_page(audit: Audit) -> str:
    """An audit alone: what is wrong and how sure we are, without a repair."""
    _require_all()
    from fairmend.report.html.build import of_audit

    return of_audit(audit)


def _require_all() -> None:
    for module in ("jinja2", "altair", "vl_convert"):
        require(module, extra="report", why="to_html()")
    from fairmend.report.plot import can_draw

    if not can_draw():
        warnings.warn(
            "report: the charts are left out, as the memory of this process is limited (ulimit "
            "-v); their tables are there",
            FairmendWarning,
            stacklevel=4,
        )
