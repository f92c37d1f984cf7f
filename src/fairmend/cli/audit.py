"""``fairmend audit``: how the model treats the groups."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from fairmend.cli import options as o
from fairmend.cli.output import Code, print_json, say
from fairmend.cli.people import Columns, ModelCall, read_people

if TYPE_CHECKING:
    from fairmend.audit import Audit

Metric = Annotated[
    list[str] | None,
    typer.Option(
        help="sp, fnr, fpr, fdr or da; may be repeated. By default the first four.",
        metavar="NAME",
        show_default=False,
    ),
]
Reference = Annotated[
    str,
    typer.Option(help="Compare with: best, rest, or the name of a group.", metavar="GROUP"),
]
Confidence = Annotated[float, typer.Option(help="Of the intervals.", metavar="SHARE")]


def audit(
    file: o.File,
    label: o.Label,
    group: o.Group,
    predictions: o.Predictions = None,
    model: o.Model = None,
    threshold: o.Threshold = None,
    answers: o.Answers = "auto",
    soft: o.Soft = False,
    trust: o.Trust = None,
    rows: o.Rows = None,
    protocol: o.Protocol = None,
    positive: o.Positive = None,
    weight: o.Weight = None,
    id_: o.Id = None,
    input_: o.Input = None,
    ignore: o.Ignore = None,
    missing: o.Missing = None,
    metric: Metric = None,
    reference: Reference = "best",
    confidence: Confidence = 0.95,
    fail_on: o.FailOn = None,
    as_json: o.AsJson = False,
) -> None:
    """Compare how the model treats the groups, with confidence intervals."""
    from fairmend import audit as run

    limits = [read_limit(text) for text in fail_on or []]
    box = ModelCall(predictions, model, threshold, answers, soft, trust or (), rows, protocol).box()
    columns = Columns(
        group, label, positive, weight, id_, input_ or (), ignore or (), missing or ()
    )
    people = read_people(file, columns, box)
    wanted = [*(metric or ("sp", "fnr", "fpr", "fdr")), *(name for name, _ in limits)]
    result = run(
        box,
        **people.call,
        pos_label=people.positive,
        metrics=list(dict.fromkeys(wanted)),
        reference=people.as_group(reference),
        confidence=confidence,
    )
    crossed = over_the_limit(result, limits)
    if as_json:
        content = result.to_dict() | {"left_out": people.left_out, "crossed": crossed}
        print_json(content.pop("schema"), content)
    else:
        print(result)
    gate(crossed)


def read_limit(text: str) -> tuple[str, float]:
    """A metric and the largest gap to accept.

    >>> read_limit("fnr > 5%")
    ('fnr', 0.05)
    """
    parts = re.fullmatch(r"\s*(\w+)\s*>\s*([0-9.]+)\s*(%?)\s*", text)
    try:
        assert parts is not None
        return parts[1].lower(), float(parts[2]) / (100 if parts[3] else 1)
    except (AssertionError, ValueError):
        raise typer.BadParameter(
            f"must read METRIC>LIMIT, e.g. 'fnr>0.05'; got {text!r}", param_hint="--fail-on"
        ) from None


def over_the_limit(result: Audit, limits: Sequence[tuple[str, float]]) -> list[str]:
    """One line per gap beyond its limit, in either direction."""
    return [
        f"{gap.metric}: the gap of {gap.target} against {gap.baseline} is "
        f"{100 * gap.gap:+.1f} points, beyond {100 * limit:g}"
        for metric, limit in limits
        for gap in result.gaps
        if gap.metric == metric and gap.judged and abs(gap.gap) > limit
    ]


def gate(crossed: Sequence[str]) -> None:
    """End the run with its own code if a limit was crossed."""
    sys.stdout.flush()
    for line in crossed:
        say(line)
    if crossed:
        sys.exit(Code.CROSSED)
