"""Doors to rooms on the right: what users expect on an object, and a later room does.

No other module imports to its right; `make lint` checks that.
"""

from __future__ import annotations

import os
from typing import Any

from fairmend.errors import require


def report_page(report: Any) -> str:
    """`Report.to_html`: the whole report as one page."""
    require("jinja2", extra="report", why="to_html()")
    from fairmend.report.html.build import of_report

    return of_report(report)


def audit_page(audit: Any) -> str:
    """`Audit.to_html`: an audit alone, without a repair."""
    require("jinja2", extra="report", why="to_html()")
    from fairmend.report.html.build import of_audit

    return of_audit(audit)


def dossier_page(alternatives: Any, command: str | None) -> str:
    """`Alternatives.to_html`: the dossier of a search as one page."""
    require("jinja2", extra="report", why="to_html()")
    from fairmend.search.dossier import dossier

    return dossier(alternatives, command=command)


def save(classifier: Any, path: str | os.PathLike[str], *, created: Any, overwrite: bool) -> None:
    """`RepairedClassifier.save`: a fitted repair as one file."""
    from fairmend.artifact import save as write

    write(classifier, path, created=created, overwrite=overwrite)
