"""``fairmend audit``: how the model treats the groups."""

from __future__ import annotations

import re
import sys
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairmend.cli import options as o
from fairmend.cli.endings import Code
from fairmend.cli.model import SoftModelOptions
from fairmend.cli.output import check_output, note, print_result, say
from fairmend.cli.people import ColumnOptions, read_people, refuse_repeated_ids
from fairmend.cli.streams import figures
from fairmend.data.files import writing
from fairmend.errors import DataError
from fairmend.measure.disparity import as_disparity, words_of
from fairmend.measure.metrics import default_metrics

if TYPE_CHECKING:
    from fairmend.measure.result import Audit

BACKWARDS = 0.4
"""An AUC below this says that high scores foretell the other outcome."""
SMALL = 0.05
"""A reference of fewer people than this share is worth a word."""


def audit(
    file: o.File,
    columns: ColumnOptions,
    cells: o.CellAndWordOptions,
    call: SoftModelOptions,
    metric: Annotated[
        list[str] | None,
        o.option(
            "{metrics}; may be repeated. By default "
            f"{', '.join(default_metrics(outcome_known=True))}, without a label "
            f"{', '.join(default_metrics(outcome_known=False))}.",
            "NAME",
            check=o.a_metric,
            show_default=False,
        ),
    ] = None,
    reference: o.Reference = "best",
    confidence: Annotated[float, o.option("Confidence level of the intervals.", "SHARE")] = 0.95,
    fail_on: o.FailOn = None,
    output: o.Page = None,
    force: o.Force = False,
    as_json: o.AsJson = False,
) -> None:
    """Compare how the model treats the groups, with confidence intervals."""
    from fairmend import audit as run

    limits = [read_limit(text) for text in fail_on or []]
    if output is not None:
        check_output("--output", output, file, force=force)
    box = call.box()
    people = read_people(file, columns, box, cells.spelling)
    refuse_repeated_ids(people)
    usual = default_metrics(outcome_known=columns.label is not None)
    wanted = [*(metric or usual), *(limit.metric for limit in limits)]
    result = run(
        box,
        **people.call,
        ids=people.ids,
        pos_label=people.positive,
        metrics=list(dict.fromkeys(wanted)),
        reference=people.as_group(reference),
        confidence=confidence,
    )
    if columns.label is None:
        say("no --label: only decisions are compared, not whether they were right")
    tell_backwards(result, people.positive)
    tell_small_reference(result, reference, {gap.baseline for gap in result.gaps})
    crossed = over_the_limit(result, limits)
    if output is not None:
        with writing(output, overwrite=force) as page:
            page.write(result.to_html().encode())
        say(f"wrote {output}")
    print_result(result, {"left_out": people.left_out, "crossed": crossed}, as_json=as_json)
    gate(crossed)


def tell_backwards(result: Audit, positive: Any) -> None:
    """Say that scores fall where outcomes rise: the other outcome may be the positive one."""
    ranked = [group for group in result.groups if group.auc == group.auc]
    people = sum(group.n for group in ranked)
    if people and (auc := sum(group.n * group.auc for group in ranked) / people) < BACKWARDS:
        option = "--positive" if positive is None else f"--positive {positive}"
        note(f"the model's scores run against the outcome (AUC {auc:.2f} within groups): does "
             f"{option} name the outcome that a high score foretells?")  # fmt: skip


def tell_small_reference(result: Audit, reference: str, chosen: Collection[Hashable]) -> None:
    """Say that the best-off group is a small one, which may be best by luck."""
    from fairmend.measure.wording import share

    everybody = sum(group.n for group in result.groups)
    small = [
        f"{result.names(group.group)!r} ({share(group.n / everybody)} of the people)"
        for group in result.groups
        if reference == "best" and group.group in chosen and group.n < SMALL * everybody
    ]
    if small:
        note(f"others are compared with {' and '.join(small)} as the best-off, which may be so by "
             "luck; --reference GROUP names another")  # fmt: skip


@dataclass(frozen=True)
class Limit:
    """The largest gap in a metric to accept, told in the unit it was typed in."""

    metric: str
    most: float
    in_points: bool

    def written(self, gap: float, sign: str = "") -> str:
        return f"{100 * gap:{sign}.4g} points" if self.in_points else f"{gap:{sign}.4g}"


def read_limit(text: str) -> Limit:
    """A metric and the largest gap to accept.

    >>> read_limit("fnr > 5%")
    Limit(metric='fnr', most=0.05, in_points=True)
    """

    def wrong(must: str, fix: str) -> typer.BadParameter:
        return typer.BadParameter(f"{must}; got {text!r}. {fix}", param_hint="--fail-on")

    parts = re.fullmatch(r"\s*(\w+)\s*>\s*(\d+\.?\d*|\.\d+)\s*(%?)\s*", text)
    if parts is None:
        raise wrong("must read METRIC>LIMIT", "Write e.g. 'fnr>0.05' or 'fnr>5%'.")
    metric, number, percent = parts[1].lower(), parts[2], parts[3]
    try:
        as_disparity(metric)
    except DataError as error:
        raise wrong("must begin with a metric", error.fix) from None
    most = float(number) / (100 if percent else 1)
    if most > 1 and words_of(metric).unit:  # others are divergences, and may be any number
        written = f"{metric}>{'100' if percent else number}%"
        raise wrong("must be at most 1, or 100%: no gap is larger", f"Did you mean '{written}'?")
    return Limit(metric, most, bool(percent))


def over_the_limit(result: Audit, limits: Sequence[Limit]) -> list[str]:
    """One line per gap beyond its limit, in either direction."""
    return [
        f"{gap.metric}: the gap of {result.names(gap.target)} against "
        f"{result.names(gap.baseline)} is {limit.written(gap.gap, '+')}, "
        f"beyond {limit.written(limit.most)}"
        for limit in limits
        for gap in result.in_order()
        if gap.metric == limit.metric and gap.judged and abs(gap.gap) > limit.most
    ]


def gate(lines: Sequence[str]) -> None:
    """End the run with its own code if there is something to complain about."""
    figures().flush()
    for line in lines:
        say(line)
    if lines:
        sys.exit(Code.GAP)
