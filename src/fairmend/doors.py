"""Doors to rooms on the right: what users expect on an object, and a later room does.

No other module imports to its right; `make lint` checks that.
"""

from __future__ import annotations

import os
from html import escape
from typing import TYPE_CHECKING, Any

from fairmend.errors import MissingExtra, require

if TYPE_CHECKING:
    import altair as alt

    from fairmend.report.html.cards import Card


class Shown:
    """What notebooks show of a result: a card with the chart that matters, and that chart."""

    def _card(self) -> Card:
        require("jinja2", extra="report", why="a card")
        from fairmend.report.html.cards import card_of

        return card_of(self)

    def _repr_html_(self) -> str:
        try:
            return self._card().html()
        except MissingExtra:
            return f"<pre>{escape(str(self))}</pre>"

    def plot(self) -> alt.TopLevelMixin:
        """The chart of the card for Altair, with all its rows."""
        from fairmend.report.plot import drawn

        return drawn(self._card().charts, type(self).__name__)


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


def alternatives_card(alternatives: Any) -> Card:
    """The card of a search for alternatives."""
    require("jinja2", extra="report", why="a card")
    from fairmend.search.dossier import card

    return card(alternatives)


def dossier_page(alternatives: Any, command: str | None) -> str:
    """`Alternatives.to_html`: the dossier of a search as one page."""
    require("jinja2", extra="report", why="to_html()")
    from fairmend.search.dossier import dossier

    return dossier(alternatives, command=command)


def save(classifier: Any, path: str | os.PathLike[str], *, created: Any, overwrite: bool) -> None:
    """`RepairedClassifier.save`: a fitted repair as one file."""
    from fairmend.artifact import save as write

    write(classifier, path, created=created, overwrite=overwrite)
