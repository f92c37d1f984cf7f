"""``fairmend reproduce``: the paper's numbers beside ours."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from fairmend.cli import options as o
from fairmend.cli.output import print_json


def reproduce(
    splits: Annotated[int, typer.Option(help="Random splits of the data.", metavar="N")] = 20,
    jobs: Annotated[int, typer.Option(help="Processes at a time.", metavar="N")] = 2,
    out: Annotated[str, typer.Option(help="Where the results go.", metavar="FOLDER")] = "results",
    as_json: o.AsJson = False,
) -> None:
    """Run the paper's experiments and set its numbers beside ours; takes minutes.

    Needs a checkout of fairmend's source.
    """
    from fairmend.cli.experiments import reproduce as run

    sys.stdout.flush()
    code = run(splits, jobs, out)
    if as_json:
        print_json("fairmend.reproduce/1", {"folder": out, "status": code})
    sys.exit(code)
