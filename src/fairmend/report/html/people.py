"""Figures, charts and tables about people as they are treated: groups, gaps, tables to file."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import isnan
from typing import Any, NamedTuple

from markupsafe import Markup

from fairmend.data.naming import JOINER
from fairmend.measure.disparity import words_of
from fairmend.measure.result import FOUR_FIFTHS, Audit, Gap, GroupSummary, is_below_four_fifths
from fairmend.report import plot
from fairmend.report.drawing import inline
from fairmend.report.filing import (
    ImpactLine,
    ImpactTable,
    PeopleCell,
    filed_tables,
    group_metrics,
    impact_tables,
)
from fairmend.report.html.page import Chart
from fairmend.report.table import Table

__all__ = ["filed", "gaps", "picture"]

Cells = Sequence[PeopleCell]
NAN = float("nan")


def picture(
    chart: Any, key: str, caption: str, description: str, table: Table, *, wide: bool = False
) -> Chart:
    """A chart drawn for the page, above its table."""
    drawn = inline(plot.for_page(chart), key, caption, description, wide=wide)
    return Chart(key, caption, Markup(drawn), table)


class Sides(NamedTuple):
    """What a row of a table shows before and after the repair."""

    name: str
    before: Any
    after: Any = None
    against: str = ""


def gaps(before: Sequence[Gap], after: Sequence[Gap], audit: Audit) -> dict[str, Any]:
    """Every gap as a chart and as rows."""
    names = audit.names
    return {
        "chart": plot.gaps(before, after, names),
        "rows": [
            Sides(names(old.target), old, new, names(old.baseline))
            for old, new in zip(before, after or (None,) * len(before), strict=True)
        ],
        "noted": any(gap.note for gap in before),
        "titles": [f"{name}: {title}." for name, title in audit.titles.items() if title],
        "significant": [
            f"{gap.metric} of {names(gap.target)}" for gap in before if gap.low > 0 or gap.high < 0
        ],
    }


# -------------------------------------------------------------------- groups and tables to file


def filed(before: Audit, cells: Cells, after: Audit | None, cells_after: Cells) -> dict[str, Any]:
    """Every category and intersection as charts, and the tables auditors file."""
    order = [str(group) for group in before.worst_first()]
    old, new = (
        sorted(each, key=lambda cell: order.index(JOINER.join(cell.labels)))
        for each in (cells, cells_after)
    )
    attribute, confidence = before.attribute, before.confidence
    shown = [impact_tables(attribute, each, confidence=confidence) for each in (old, new)]
    to_file = [filed_tables(attribute, each) for each in (old, new)]
    return {
        "impact_pairs": _paired(*shown),
        "filed_pairs": _paired(*to_file),
        "impact_note": _impact_note,
        "groups": _groups(before, after),
        "metrics": _metrics(before, after),
        "reading": lambda side: partial(_reading, side=side),
        "error_columns": [
            (words_of(name).title, "rate", f"before.{name}") for name in ("fnr", "fpr", "fdr")
        ],
    }


def _paired(old: Sequence[ImpactTable], new: Sequence[ImpactTable]) -> list[dict[str, Any]]:
    """Tables before and after, with their rows side by side."""
    pairs = []
    for before, after in zip(old, new or (None,) * len(old), strict=True):
        repaired = {line.category: line for line in after.lines} if after is not None else {}
        nobody = ImpactLine("", before.unknown, *(NAN,) * 6, "left out of rates and ratios")
        pairs.append(
            {
                "old": before,
                "new": after,
                "rows": [
                    Sides(before.names(line.category), line, repaired.get(line.category))
                    for line in before.lines
                ],
                "unknown": Sides("not known", nobody, nobody),
                "below": [
                    [one.names(line.category) for line in one.lines if line.below_four_fifths]
                    for one in (before, after or before)
                ],
            }
        )
    return pairs


def _impact_note(sides: Sides) -> str:
    """Notes, and on which side they hold where not on both: the highest rate may be another's."""
    before, after = sides.before, sides.after
    if after is None:
        notes = [before.note, f"below {FOUR_FIFTHS:g}" if before.below_four_fifths else ""]
        return "; ".join(filter(None, notes))
    if after.note == before.note:
        notes = [before.note]
    else:
        notes = [f"{when}: {one.note}" for when, one in (("before", before), ("after", after))
                 if one.note]  # fmt: skip
    low = [when for when, one in (("before", before), ("after", after)) if one.below_four_fifths]
    notes += [f"below {FOUR_FIFTHS:g} {' and '.join(low)}"] if low else []
    return "; ".join(filter(None, notes))


def _groups(before: Audit, after: Audit | None) -> list[Sides]:
    """What is known of each group, the worst-off first."""
    old = {one.group: one for one in before.groups}
    new = {} if after is None else {one.group: one for one in after.groups}
    return [
        Sides(before.names(group), old[group], new.get(group)) for group in before.worst_first()
    ]


def _reading(sides: Sides, side: str) -> str:
    """How a ratio reads by the four-fifths rule."""
    group: GroupSummary = getattr(sides, side)
    if isnan(group.impact_ratio):
        return "not judged"
    below = is_below_four_fifths(group.impact_ratio)
    return f"below {FOUR_FIFTHS:g}" if below else f"{FOUR_FIFTHS:g} or above"


def _metrics(before: Audit, after: Audit | None) -> list[Sides]:
    """The metrics of each group, for the model alone and with the repair."""
    rows = []
    for system, audit in (("model alone", before), ("repaired", after)):
        if audit is not None:
            labels = [group.group for group in audit.groups]
            lines = dict(zip(labels, group_metrics(audit), strict=True))
            rows += [Sides(before.names(one), lines[one], system) for one in before.worst_first()]
    return rows
