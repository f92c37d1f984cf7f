"""A report or an audit becomes one page: sections, style, script and a policy that allows no more.

The page may run its own script and style, known by their hashes, and nothing else: no network, no
frames, no forms.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup

from fairmend.measure.disparity import words_of
from fairmend.measure.result import Audit
from fairmend.report.html import mending, people
from fairmend.report.html.blocks import MOST_OPEN, Section, Slider
from fairmend.report.html.table import typeset
from fairmend.report.report import Report
from fairmend.tables import counted

__all__ = ["of_audit", "of_report"]


def of_report(report: Report) -> str:
    """Every part that the report has; it may lack an explanation, a frontier, an origin."""
    sections = [people.words(report), people.groups(report)]
    if report.explanation is not None:
        sections.append(mending.explanation(report.explanation))
    sections.append(mending.repair(report))
    if report.frontier:
        sections.append(mending.frontier(report))
    sections += [people.holdout(report), people.filing(report), mending.origin(report)]
    made = "" if report.provenance is None else f", made {report.provenance.made_at}"
    by = report.before.attribute
    title = words_of(report.metric).title or report.metric
    return _render(
        f"Fairness report: {title} by {by}",
        f"{counted(report.n)} in {len(report.groups)} groups by {by}{made}",
        sections,
    )


def of_audit(audit: Audit) -> str:
    """What there is without a repair."""
    return _render(
        f"Fairness audit by {audit.attribute}",
        f"{audit.who} in {len(audit.groups)} groups by {audit.attribute}",
        [
            people.audit_words(audit),
            people.audit_groups(audit),
            people.audit_filing(audit),
            mending.origin(None),
        ],
    )


def _render(title: str, subtitle: str, sections: Sequence[Section]) -> str:
    from fairmend._version import __version__

    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=jinja2.FunctionLoader(_file),
    )
    environment.filters["typeset"] = typeset
    style, script = _file("page.css"), _file("page.js")
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    data = {b.key: b.data for s in sections for b in s.blocks if isinstance(b, Slider)}
    return environment.get_template("page.html.j2").render(
        title=title,
        subtitle=subtitle,
        sections=sections,
        most_open=MOST_OPEN,
        version=__version__,
        policy=policy,
        style=Markup(style),
        script=Markup(script),
        data=Markup(_inert(data)),
    )


@cache
def _file(name: str) -> str:
    return files("fairmend.report.html").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(sha256(text.encode()).digest()).decode()}'"


def _inert(data: Any) -> str:
    r"""JSON that cannot end the element it stands in.

    >>> print(_inert("</script>"))
    "\u003c/script\u003e"
    """
    text = json.dumps(data)
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text
