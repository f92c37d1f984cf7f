"""What a notebook shows of a result: a compact card with the chart that matters.

The chart is drawn as on the pages; `plot()` on the same result gives it for Altair. The colours
are those of the notebook's theme where it tells one, else of the reader's system.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, singledispatch
from typing import Any

from markupsafe import Markup

from fairmend.explain.counterfactual import Counterfactual
from fairmend.measure.disparity import title_of, words_of
from fairmend.measure.result import Audit
from fairmend.measure.wording import EXACT, figures, share
from fairmend.repair.plan import Plan
from fairmend.report import verdict
from fairmend.report.chart import NAN, SIDES, Mark, Plane, Row, RowChart, as_points
from fairmend.report.findings import Explanation
from fairmend.report.html import build, people, repair
from fairmend.report.report import Report
from fairmend.report.templates import template
from fairmend.status import Status

__all__ = ["Card", "card_of", "of_plans", "style"]

MOST_ROWS = 8
"""Rows of a card's chart; `print()` and `plot()` have all."""
MOST_CHARTS = 3
MOST_FIGURES = 4
MOST_TICKS = 6
"""Of a card's chart, which has little room; of more every second one stays, 0 among them."""


@dataclass(frozen=True)
class Card:
    """A result in short."""

    over: str
    """What it is about, in small print."""
    headline: str
    charts: tuple[RowChart | Plane, ...]
    """All there are to draw; a card shows the first few."""
    figures: tuple[tuple[str, str, str], ...] = ()
    """A label, a value and what stands beside it."""
    lead: str = ""
    more: str = ""
    """Where the rest is."""

    def html(self) -> str:
        """The card, with its style; all in one element, without a script."""
        shown = [_short(chart) for chart in self.charts[:MOST_CHARTS]]
        sides = [side for chart in shown for side, _ in chart.legend]
        heights = {20, *(chart.high for chart in shown), *((14,) if sides else ())}
        return template("html/card.html.j2").render(
            card=self, charts=shown, style=Markup(style()), heights=sorted(heights)
        )


@cache
def style() -> str:
    """The style of every card, for nothing outside it."""
    return template("html/card.css.j2").render()


def _short(chart: RowChart | Plane) -> RowChart | Plane:
    """Without its table, and of many rows the first ones; nothing else may have its name."""
    if isinstance(chart, Plane):
        return replace(chart, key="", table=None)
    left = len(chart.rows) - MOST_ROWS
    beneath = chart.beneath
    if left > 0:
        beneath = f"{beneath} {left} more rows are left out here.".strip()
    ticks = chart.axis.ticks
    if len(ticks) > MOST_TICKS:
        zero = next((place for place, (value, _) in enumerate(ticks) if value == 0), 0)
        ticks = ticks[zero % 2 :: 2]
    axis = replace(chart.axis, ticks=ticks)
    return replace(
        chart, key="", table=None, axis=axis, rows=chart.rows[:MOST_ROWS], beneath=beneath
    )


# -------------------------------------------------------------------- of each result


@singledispatch
def card_of(result: Any) -> Card:
    """The card of a result; rooms to the right register their own."""
    raise TypeError(f"there is no card of {type(result).__name__}")


@card_of.register
def _(audit: Audit) -> Card:
    return Card(
        f"Audit by {audit.attribute} · {audit.who} in {len(audit.groups)} groups",
        verdict.audit_headline(audit),
        (people.gaps(audit.in_order(), (), audit),),
        more="print() has the tables, to_html() the page, plot() this chart.",
    )


@card_of.register
def _(result: Counterfactual) -> Card:
    target, baseline = result.group_names
    names = ", ".join(one.name for one in result.disparities)
    over = f"Counterfactual distribution · {names} of {target} against {baseline}"
    seen = "modelled" if result.modelled else "observed"
    gaps = tuple(
        (f"gap in {title_of(one.name)}", " → ".join(figures(*ends, tolerance=EXACT)),
         f"{seen}, and under the counterfactual")
        for one, *ends in zip(
            result.disparities, result.gaps_before, result.gaps_after, strict=True
        )
    )  # fmt: skip
    ended = verdict.CLOSES if result.status is Status.CLOSED else result.status.value
    headline = str(result.certificate or ended)
    if result.table is None:
        return Card(over, headline, (), gaps, more="print() has all of it.")
    explained = Explanation.of(result, smallest_cell=1)
    return Card(
        over,
        headline,
        repair.moves(explained),
        gaps,
        verdict.carried(explained),
        "print() has all of it, marginals() the figures, plot() these charts.",
    )


@card_of.register
def _(plan: Plan) -> Card:
    target, baseline = plan.group_names
    return of_plans(
        [plan],
        f"Plan for {target} against {baseline} · {plan.metric} by {plan.way}",
        "print() has it in sentences, plot() this chart.",
    )


@card_of.register
def _(report: Report) -> Card:
    plans = report.plans_in_order
    headline = verdict.headline(report, plans[0]) if plans else []
    return Card(
        build.subtitle(report),
        "".join(text for _, text in headline) or verdict.audit_headline(report.before),
        tuple(build.pictures(report)),
        tuple(build.tiles(report)),
        more="print() has the tables, save_html() writes the page, plot() is this chart.",
    )


def of_plans(plans: Sequence[Plan], over: str, more: str) -> Card:
    """What a repair does to the gaps of the people it was fitted on, and whom it edits."""
    if not plans:
        return Card(over, verdict.NOBODY_EDITED, ())
    edited = tuple(
        (
            f"inputs edited, {plan.group_names[0]}",
            share(plan.outlook.edited),
            f"{share(plan.outlook.randomised)} decided by a draw",
        )
        for plan in plans[:MOST_FIGURES]
    )
    headline = " ".join(dict.fromkeys(str(plan.in_words.status) for plan in plans))
    return Card(over, headline, (_gaps_of(plans),), edited, more=more)


def _gaps_of(plans: Sequence[Plan]) -> RowChart:
    """Each gap on the people of the audit, before and after, and where it is expected."""
    rows = []
    for plan in plans:
        outlook, (target, baseline) = plan.outlook, plan.group_names
        for metric, *ends in plan.by_metric:
            unit = words_of(metric).unit
            texts = figures(*ends, tolerance=outlook.tolerance)
            before, after = ends if unit else (NAN, NAN)
            own = metric == (outlook.metric or plan.metric) and bool(unit)
            expected = (outlook.expected_low, outlook.expected_high) if own else (NAN, NAN)
            marks = (Mark(SIDES[0], before, base=0.0, text=texts[0]),
                     Mark(SIDES[1], after, *expected, 0.0, text=texts[1]))  # fmt: skip
            rows.append(Row(title_of(metric), marks, f"{target} against {baseline}"))
    return RowChart.of(
        "plans",
        "Gaps of the people it was fitted on",
        rows,
        as_points,
        "gap in percentage points",
        at=[0.0],
        legend=people.LEGEND,
        lines=SIDES,
        guide=0.0,
        beneath="The line is the 95 % interval of the gap that is expected on new people.",
    )
