"""What each screen shows: the settings, what was found, and what is wrong with either."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from operator import itemgetter
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from fairmend.data.plain import from_plain
from fairmend.data.roles import MOST_VALUES, ColumnGuess, guess_positive
from fairmend.measure.disparity import metric_names, title_of, words_of
from fairmend.measure.result import Audit, Gap
from fairmend.measure.wording import capital
from fairmend.report import verdict
from fairmend.report.chart import (
    Axis,
    Plane,
    Point,
    Row,
    as_percent,
    as_points,
    finite_values,
)
from fairmend.report.findings import Explanation
from fairmend.report.html import build, people, repair
from fairmend.report.report import Report
from fairmend.report.table import Column, Table
from fairmend.search.dossier import KINDS
from fairmend.status import Status
from fairmend.studio.fixes import (
    Fix,
    apply_fix,
    fixes_in,
    in_words,
    names_in,
    role_of,
    with_role,
    without_options,
)
from fairmend.studio.project import Project
from fairmend.studio.runs import Run
from fairmend.studio.settings import Settings

SCREENS = {
    "data": "Data", "measure": "Measure", "explain": "Explain", "repair": "Repair",
    "alternatives": "Alternatives", "file": "File",
}  # fmt: skip
STEP_OF = {"data": "columns", "measure": "audit", "explain": "explain", "repair": "repair",
           "alternatives": "alternatives"}  # fmt: skip
ROLES = {
    "input": "input of the model", "outcome": "outcome: what really happened",
    "decision": "decision or score of the model", "group": "group", "id": "person's id",
    "weight": "people a row stands for", "ignore": "none of these",
}  # fmt: skip
MOST_COMPARED, MOST_WAYS = 12, 12
"""Repairs side by side; buttons of a problem."""


@dataclass(frozen=True)
class Problem:
    """Something that is wrong, and what can be done about it."""

    text: str
    fixes: Sequence[Fix] = ()


def problem_of(message: str) -> Problem:
    """An error of the command line: what it says, and what it says to do as buttons."""
    fixes = fixes_in(message)
    return Problem(in_words(without_options(message) if fixes else message), fixes)


def note_of(message: str) -> str:
    """A note of the command line as a sentence, without what it says of options.

    >>> note_of("others are compared with 'a'; --reference GROUP names another")
    "Others are compared with 'a'"
    """
    parts = [one for one in message.split("; ") if " --" not in f" {one}"]
    text = "; ".join(parts) or message
    return text[:1].upper() + text[1:]


def columns_of(run: Run) -> list[ColumnGuess]:
    """What is known of the columns; nothing before they were read."""
    result = run.result if run.state == "done" else None
    return [] if result is None else [from_plain(ColumnGuess, one) for one in result["columns"]]


def guessed(settings: Settings, columns: Sequence[ColumnGuess]) -> Settings:
    """Settings with the roles that columns probably have."""
    if settings.model is None and not names_in(replace(settings, words=[])):
        for one in columns:
            settings = with_role(settings, one.name, one.role)
    for role, flag in (("outcome", "--positive"), ("decision", "--positive-decision")):
        for one in columns:
            word = guess_positive(one.values) if one.kind == "words" else None
            if role_of(settings, one.name) == role and word is not None:
                settings = apply_fix(settings, ((flag, word),))
    return replace(settings, proposed=True)


# -------------------------------------------------------------------- data


def questions(settings: Settings, columns: Sequence[ColumnGuess]) -> list[Problem]:
    """What must be settled before people are counted."""
    return list(_problems(settings, columns)) if columns else []


def _in_role(settings: Settings, columns: Sequence[ColumnGuess], *roles: str) -> list[ColumnGuess]:
    return [one for one in columns if role_of(settings, one.name) in roles]


def data(settings: Settings, run: Run) -> dict[str, Any]:
    """The columns with their roles, and what is wrong with them."""
    columns = columns_of(run)
    choices = []
    for role, attribute, question in (
        ("outcome", "positive", "Which outcome is the positive one?"),
        ("decision", "positive_decision", "Which decision is the positive one?"),
    ):
        for one in _in_role(settings, columns, role):
            if len(one.values) == 2 and (one.kind == "words" or role == "outcome"):
                chosen = getattr(settings, attribute) or _usual(one.values)
                choices.append((attribute, question, one, chosen))
    result = run.result or {}
    return {
        "columns": [(one, role_of(settings, one.name)) for one in columns],
        "rows": result.get("rows", 0),
        "roles": ROLES,
        "choices": choices,
        "problems": questions(settings, columns),
    }


def _usual(values: Sequence[str]) -> str | None:
    """The positive one of two values where nobody says which."""
    usual: dict[tuple[str, ...], str] = {("0", "1"): "1", ("False", "True"): "True"}
    return usual.get(tuple(values))


def _problems(settings: Settings, columns: Sequence[ColumnGuess]) -> Iterator[Problem]:
    gone = sorted(names_in(settings).difference(one.name for one in columns))
    if gone:
        named = ", ".join(f"“{name}”" for name in gone)
        fix = Fix(tuple(("--forget", name) for name in gone))
        yield Problem(f"The settings name columns that the file does not have: {named}.", [fix])
    for one in columns:
        if one.problem and role_of(settings, one.name) not in ("ignore", "id", "group"):
            yield problem_of(one.problem)
    free = _in_role(settings, columns, "input", "ignore")
    outcomes = _in_role(settings, columns, "outcome")
    for one in outcomes:
        if one.distinct != 2:
            others = [other for other in free if other.distinct == 2]
            yield Problem(
                f"“{one.name}” is the outcome and has {one.distinct:,} values. An outcome has "
                "two: what was hoped for happened, or it did not.",
                [Fix((("--label", other.name),)) for other in others[:MOST_WAYS]],
            )
        elif settings.positive is None and _usual(one.values) is None:
            yield Problem(
                f"“{one.name}” is {one.values[0]} or {one.values[1]}. Which is the positive "
                "outcome?",
                [Fix((("--positive", value),)) for value in one.values],
            )
    words_of_outcomes = {value for one in outcomes for value in one.values}
    for one in _in_role(settings, columns, "decision"):
        words = one.kind == "words" and one.distinct == 2
        if words and settings.positive_decision is None and set(one.values) != words_of_outcomes:
            yield Problem(
                f"“{one.name}” is {one.values[0]} or {one.values[1]}. Which is the positive "
                "decision?",
                [Fix((("--positive-decision", value),)) for value in one.values],
            )
    if settings.lacks is not None:
        has_decisions = settings.predictions or settings.model
        flag = "--group" if has_decisions else "--predictions"
        most = MOST_VALUES if has_decisions else 2
        likely = "group" if has_decisions else "decision"  # perhaps it can be read by now alone
        few = [one for one in free if one.role == likely]
        few += [one for one in free if one.role != likely and 2 <= one.distinct <= most]
        yield Problem(settings.lacks, [Fix(((flag, one.name),)) for one in few[:MOST_WAYS]])


# -------------------------------------------------------------------- measure


def measure(settings: Settings, result: dict[str, Any]) -> dict[str, Any]:
    """Every gap with its interval; a click goes on to one."""
    audit = Audit.from_dict(result)
    gaps = audit.in_order()
    chart = people.gaps(gaps, (), audit)
    rows = tuple(
        _link(row, gap) if gap.judged else row for row, gap in zip(chart.rows, gaps, strict=True)
    )
    return {
        "audit": audit,
        "headline": verdict.audit_headline(audit),
        "sentence": " ".join(verdict.audit_lead(audit)),
        "picture_of_gaps": replace(chart, rows=rows),
        "beyond": [
            (f"{title_of(gap.metric)}, {audit.names(gap.target)}", gap)
            for gap in gaps
            if gap.judged and gap.gap > settings.attention and gap.survives(audit.confidence)
        ],
        "groups": Table.of(
            "groups-table", "The groups",
            (Column("group", read=lambda one: audit.names(one.group)),
             Column("people", "count", "n"),
             Column("positive outcomes", "rate", "base_rate"),
             Column("positive decisions", "rate", "selection_rate"),
             Column("accuracy", "rate"), Column("AUC", "decimal", "auc")),
            audit.groups,
        ),
        "attention": 100 * settings.attention,
        "left_out": result.get("left_out", 0),
    }  # fmt: skip


def _link(row: Row, gap: Gap) -> Row:
    button = Markup('<button form="choose" name="gap" value="{}|{}|{}" class="plain">{}</button>')
    groups = quote(str(gap.target)), quote(str(gap.baseline))
    return replace(row, name=button.format(gap.metric, *groups, row.name))


# -------------------------------------------------------------------- explain


def explain(_: Settings, result: dict[str, Any]) -> dict[str, Any]:
    """Whether the gap can be closed, and what moves."""
    found = from_plain(Explanation, result["explanation"])
    return {
        "found": found,
        "headline": _can_it_be_closed(found),
        "certificate": found.status if _no_gap(found) else found.certificate or found.status,
        "carried": verdict.carried(found),
        "explained": repair.explained(found),
        "beside": [line for line in (found.outcomes_differ, found.decisions_differ) if line],
        "pairs": Table.of(
            "pairs", "Pairs of inputs that carry more together than the better of the two",
            (Column("first"), Column("second"), Column("more than alone", "rate", "excess"),
             Column("95 % interval", "rates", "low high")),
            found.joint_proxies,
        ),
    }  # fmt: skip


def _no_gap(found: Explanation) -> bool:
    return found.status == Status.NOTHING_TO_DO.value


def _can_it_be_closed(found: Explanation) -> str:
    """The gap and whether it can be closed, for people who read nothing else."""
    target, baseline = found.group_names
    title = " and ".join(map(title_of, found.names))
    unit = " points" if words_of(found.names[0]).unit else ""
    size = f"{100 * found.before:+.1f}" if unit else f"{found.before:.3f}"
    by_model = "By the fitted model of outcomes, " if found.modelled else ""
    if _no_gap(found):
        return capital(f"{by_model}there is no gap in {title} of {target} against {baseline}.")
    gap = f"{by_model}the gap in {title} of {target} against {baseline} is {size}{unit}."
    gap = capital(gap)
    if found.irreconcilable:
        sure = "" if found.certain else ", by this estimate; the data leave room for the opposite"
        return f"{gap} No other values of these inputs close it{sure}."
    if not found.closed:
        return f"{gap} The search found no other values of these inputs that close it."
    return f"{gap} Other values of these inputs close it."


# -------------------------------------------------------------------- repair


def repair_form(project: Project, settings: Settings, run: Run) -> dict[str, Any]:
    """What can be chosen before a repair."""
    inputs = _in_role(settings, columns_of(run), "input")
    metrics = [name for name in metric_names() if words_of(name).title]
    if settings.label is None:
        metrics = [name for name in metrics if name == "sp"]
    return {
        "inputs": inputs,
        "metrics": [(name, words_of(name).title) for name in metrics],
        "compared": list(_compared(project)),
    }


def repaired(_: Settings, result: dict[str, Any]) -> dict[str, Any]:
    """What the repair does to people it was not fitted on."""
    report = Report.from_dict(result["results"])
    plans = report.plans_in_order
    context = {
        "report": report,
        "audit": report.before,
        "headline": verdict.headline(report, plans[0]) if plans else [("", verdict.NOBODY_EDITED)],
        "lead": verdict.lead(report, plans[0]) if plans else [],
        "pictures": build.pictures(report),
        "tiles": build.tiles(report),
        "who": repair.who(report),
        "remains": verdict.remains(report) if plans else [],
        "not_closed": [line for one in result["not_closed"] for line in one.get("headlines", [])],
        "rule": list(dict.fromkeys(note for plan in plans for note in plan.notes)),
        "data": {},
    }
    if report.frontier:
        context |= repair.frontier(report)
    return context


def _compared(project: Project) -> Iterator[dict[str, Any]]:
    """The repairs that were tried on this file, beside each other."""
    now = project.run("repair")
    done = (run for run in project.runs() if run.step == "repair"
            and run.about_file == now.about_file and run.state == "done")  # fmt: skip
    for run in islice(done, MOST_COMPARED):
        result = run.result
        if result is None:
            continue
        its, report = project.settings_of(run), Report.from_dict(result["results"])
        plan = next(iter(report.plans_in_order), None)
        after = None if plan is None else report.gap(report.after, plan.target)
        yield {
            "run": run,
            "is_shown": run.name == now.name,
            "name": _described(its),
            "gap": math.nan if after is None else after.gap,
            "span": (math.nan, math.nan) if after is None else (after.low, after.high),
            "edited": sum(one.people_edited for one in report.groups),
            "gained": sum(one.people_gained for one in report.groups),
            "lost": sum(one.people_lost for one in report.groups),
            "accuracy": report.accuracy_after,
        }


def _described(settings: Settings) -> str:
    """A repair in a few words."""
    parts = [", ".join(settings.metric or ["sp"])]
    parts += [f"by {', '.join(settings.group)}"] if len(settings.groups) > 1 else []
    parts.append("blind" if settings.blind else "reads the group")
    parts += ["in words"] if settings.in_words else []
    parts += ["both groups may be edited"] if settings.two_sided else []
    parts += ["nobody loses"] if settings.do_no_harm else []
    parts += [f"{100 * settings.level:g} % of the gap"] if settings.level < 1 else []
    parts += [f"{', '.join(settings.immutable)} kept"] if settings.immutable else []
    parts += [f"{name} {way} only" for name, way in settings.one_way.items()]
    parts += [f"cost of {name} {cost:g}" for name, cost in settings.cost.items()]
    return " · ".join(parts)


# -------------------------------------------------------------------- alternatives


def alternatives(_: Settings, result: dict[str, Any]) -> dict[str, Any]:
    """Every candidate by its gap and its measure."""
    candidates = [_with_nan(one) for one in result["candidates"]]
    drawn = [one for one in candidates if not math.isnan(one["gap"])]
    current = next(one for one in drawn if one["kind"] == "current")
    points = tuple(
        Point(one["gap"], one["measure"], KINDS[one["kind"]][0],
              (one["low"], one["high"]),
              label="the model as it is" if one is current else "", below=True,
              large=one is current)
        for one in drawn
    )  # fmt: skip
    kinds = list(dict.fromkeys(one["kind"] for one in drawn))
    margin = math.nan if result["margin_is_share"] else result["margin"]
    band = current["measure"] - margin, current["measure"] + margin
    values = finite_values(*(one["measure"] for one in drawn), *band)
    return {
        "headline": _was_there_one(result),
        "verdict": result["verdict"],
        "bound": result["bound_text"],
        "picture_of_candidates": Plane(
            "scatter",
            "What each candidate leaves of the gap, and how well it performs",
            Axis.of([0.0, *finite_values(*(x for one in points for x in (one.x, *one.across)))],
                    as_points, f"gap in {title_of(result['metric'])} that is left, in points"),
            Axis.of(values, as_percent, f"{result['measure']}, per cent"),
            points,
            guides=(0.0, None),
            band=None if math.isnan(margin) else band,
            legend=tuple(KINDS[kind] for kind in kinds),
            beneath="Further left is a smaller gap, higher performs better. The shaded band "
            "is the margin. Lines are 95 % intervals.",
            table=_candidates(candidates),
            high=340,
        ),
    }  # fmt: skip


def _was_there_one(result: dict[str, Any]) -> str:
    if result["best"] is None:
        return "No less discriminatory alternative was shown to perform as well."
    return f"There is a less discriminatory alternative: {result['best']}."


def _with_nan(one: dict[str, Any]) -> dict[str, Any]:
    figures = {name: one[name] for name in ("gap", "low", "high", "measure")}
    return one | {name: math.nan if value is None else value for name, value in figures.items()}


def _candidates(candidates: Sequence[dict[str, Any]]) -> Table:
    columns = (
        Column("candidate", read=itemgetter("candidate")),
        Column("gap, points", "points", itemgetter("gap")),
        Column("95 % interval", "spans", itemgetter("low", "high")),
        Column("performance", "rate", itemgetter("measure")),
        Column("equivalent", read=lambda one: "yes" if one["equivalent"] else "no"),
        Column("why", read=itemgetter("why")),
    )
    return Table.of("candidates", "Every candidate", columns, candidates)


RESULTS = {
    "measure": measure, "explain": explain, "repair": repaired, "alternatives": alternatives,
}  # fmt: skip
"""What a screen makes of the result of its step."""
