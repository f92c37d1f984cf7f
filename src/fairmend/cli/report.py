"""``fairmend report``: what a repair does to the people of a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from fairmend.cli import options as o
from fairmend.cli.audit import gate, over_the_limit, read_limit
from fairmend.cli.model import ModelOptions, check_draws, find_key, group_columns, load_repair
from fairmend.cli.output import check_output, command_line, note, print_result, say
from fairmend.cli.people import ColumnOptions, is_many, read_people
from fairmend.measure.selection import refuse_selected


def report(
    artifact: o.Artifact,
    file: o.File,
    *,
    label: o.Label = None,
    group: o.KnownGroup = None,
    weight: o.Weight = None,
    id_: Annotated[
        str | None,
        o.column_option(
            "The person's id. With it the page shows single people who are edited: what is edited "
            "and why. Such a page is as confidential as the file.",
            "COLUMN",
            "--id",
        ),
    ] = None,
    cells: o.CellAndWordOptions,
    call: ModelOptions,
    output: o.Page = None,
    frontier: Annotated[
        bool, o.output_option("Also show what closing less of the gap would do.")
    ] = True,
    holdout: o.IsHoldout = None,
    key_file: o.KeyFile = None,
    fail_on: o.FailOn = None,
    force: o.Force = False,
    as_json: o.AsJson = False,
) -> None:
    """Show what a repair does to the people of FILE, before and after."""
    from fairmend.data.containers import as_fitted, as_kind
    from fairmend.measure.disparity import read_disparities

    limits = [read_limit(text) for text in fail_on or []]
    if output is not None:
        check_output("--output", output, file, artifact, key_file, force=force)
    if id_ is not None and is_many(file):
        raise typer.BadParameter("must be left out where there are many files", param_hint="--id")
    repaired = load_repair(artifact, call, find_key(key_file))
    if id_ is not None:
        check_draws(artifact, repaired, id_)
    if frontier and repaired.blind:
        note("what closing less of the gap would do is left out: the artifact of a blind repair "
             "does not say who is of which group")  # fmt: skip
    table = repaired.data_.table
    assert table is not None
    if not group and (file == "-" or Path(file).is_fifo()):
        raise typer.BadParameter("must be given with standard input", param_hint="--group")
    columns = ColumnOptions(
        group=group or group_columns(repaired, _names(file)),
        label=label,
        positive=None if label is None else str(repaired.data_.labels.positive),
        weight=weight,
        id=id_,
    )
    types = dict(as_kind(table.native, "polars").schema)
    people = read_people(file, columns, repaired.box_, cells.over(repaired.spelling_), types=types)
    arguments = people.call
    if not is_many(file):
        arguments = {**arguments, "X": as_fitted(arguments["X"], table, arguments["X"].columns)}
    names = [one.name for one in read_disparities(repaired.disparity)]
    refuse_selected(people.selection, names, "Leave it out")
    result = repaired.report(
        **arguments,
        frontier=frontier and not repaired.blind,
        command=command_line(),
        holdout=holdout,
        left_out=people.left_out,
        ids=None if id_ is None else people.ids,
    )
    crossed = over_the_limit(result.after, limits)
    if output is not None:
        result.save_html(output, overwrite=force)
        say(f"wrote {output}")
    print_result(result, {"left_out": people.left_out, "crossed": crossed}, as_json=as_json)
    gate(crossed)


def _names(file: str) -> Sequence[str]:
    from fairmend.apply.rowstream import open_rows
    from fairmend.engines import source

    if is_many(file):
        return source(file).names
    with open_rows(file) as stream:
        return stream.names
