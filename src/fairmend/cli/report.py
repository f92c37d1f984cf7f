"""``fairmend report``: what a repair does to the people of a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from fairmend.cli import options as o
from fairmend.cli.audit import gate, over_the_limit, read_limit
from fairmend.cli.elsewhere import AnyPeople, find_people, is_many
from fairmend.cli.loading import group_columns, load_repair
from fairmend.cli.output import (
    print_json,
    refuse_one_place_for_two,
    refuse_unwritable,
    say,
    show,
)
from fairmend.cli.people import Columns, ModelCall, read_people
from fairmend.cli.repair import command_line
from fairmend.measure.selection import refuse_selected

Output = Annotated[
    str | None,
    typer.Option(
        "--output", "-o", help="Write the page here, in HTML.", metavar="FILE",
        rich_help_panel=o.OUTPUT,
    ),
]  # fmt: skip
Frontier = Annotated[
    bool,
    typer.Option(help="Also show what closing less of the gap would do.", rich_help_panel=o.OUTPUT),
]


def report(
    artifact: o.Artifact,
    file: o.File,
    label: o.Label = None,
    group: o.KnownGroup = None,
    weight: o.Weight = None,
    missing: o.Missing = None,
    decimal: o.Decimal = None,
    thousands: o.Thousands = None,
    currency: o.Currency = None,
    percent: o.Percent = False,
    words: o.Words = None,
    predictions: o.Predictions = None,
    model: o.Model = None,
    threshold: o.Threshold = None,
    answers: o.Answers = "auto",
    trust: o.Trust = None,
    rows: o.Rows = None,
    protocol: o.Protocol = None,
    output: Output = None,
    frontier: Frontier = True,
    holdout: o.IsHoldout = None,
    fail_on: o.FailOn = None,
    force: o.Force = False,
    as_json: o.AsJson = False,
) -> None:
    """Show what a repair does to the people of FILE, before and after."""
    from fairmend.data.containers import as_fitted, as_kind
    from fairmend.explain.counterfactual import read_disparities

    limits = [read_limit(text) for text in fail_on or []]
    if output is not None:
        refuse_one_place_for_two("--output", output, file, artifact)
        refuse_unwritable(output, force=force)
    call = ModelCall(
        predictions, model, threshold, answers, trust=trust or (), rows=rows, protocol=protocol
    )
    mended = load_repair(artifact, call)
    table = mended.data_.table
    assert table is not None
    if not group and (file == "-" or Path(file).is_fifo()):
        raise typer.BadParameter("must be given with standard input", param_hint="--group")
    columns = Columns(
        group or group_columns(mended, _names(file)),
        label,
        None if label is None else str(mended.data_.labels.positive),
        weight,
        spelling=o.spelling(missing, decimal, thousands, currency, percent=percent, words=words),
    )  # fmt: skip
    people: AnyPeople
    if is_many(file):
        people = find_people(file, columns, mended.box_, known=table.names)
        said = people.call
    else:
        people = read_people(file, columns, mended.box_, like=as_kind(table.native, "polars"))
        said = people.call | {"X": as_fitted(people.inputs, table, people.inputs.columns)}
    names = [one.name for one in read_disparities(mended.disparity)]
    refuse_selected(people.selection, names, "Leave it out")
    result = mended.report(
        **said, frontier=frontier, command=command_line(), holdout=holdout, left_out=people.left_out
    )
    crossed = over_the_limit(result.after, limits)
    if output is not None:
        result.save_html(output, overwrite=force)
        say(f"wrote {output}")
    if as_json:
        content = result.to_dict() | {"left_out": people.left_out, "crossed": crossed}
        print_json(content.pop("schema"), content)
    elif output is None:
        show(result)
    gate(crossed)


def _names(file: str) -> Sequence[str]:
    from fairmend.apply.rowstream import open_rows
    from fairmend.engines import source

    if is_many(file):
        return source(file).names
    with open_rows(file) as stream:
        return stream.names
