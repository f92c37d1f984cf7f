"""``fairmend apply``: files of any size and number through a repair, in constant memory."""

from __future__ import annotations

import time
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fairmend.cli import options as o
from fairmend.cli.model import ModelOptions, check_draws, find_key, group_columns, load_repair
from fairmend.cli.output import check_output, note, print_json, say
from fairmend.cli.people import is_many
from fairmend.cli.streams import figures

if TYPE_CHECKING:
    from fairmend.apply.files import ApplyCounts, FileRepairer


def apply(
    artifact: o.Artifact,
    file: o.File,
    output: Annotated[
        str,
        o.output_option(
            "Where to write, in the format of FILE; - is standard output. For many files a folder, "
            "which gets one output per file; the same command again finishes a run that ended "
            "early.",
            "FILE",
            "--output",
            "-o",
        ),
    ],
    *,
    emit: Annotated[
        str,
        o.output_option(
            "decisions: the repaired decisions alone, with the ids. rows: the file with inputs "
            "edited, to be fed to the model and never stored as facts. both: edited rows with a "
            "column of decisions. Recorded predictions stay as they were: they are about the rows "
            "before the edits.",
            "WHAT",
            check=o.one_of("decisions", "rows", "both"),
        ),
    ] = "decisions",
    decision: Annotated[
        str, o.output_option("The name of the column of decisions.", "NAME", check=o.a_name)
    ] = "decision",
    edited: Annotated[
        str | None,
        o.output_option(
            "Add a column of this name with the edited inputs of each row, separated by "
            "semicolons; empty if none was edited.",
            "NAME",
            check=o.a_name,
        ),
    ] = None,
    group: o.KnownGroup = None,
    id_: o.Id = None,
    cells: o.CellOptions,
    call: ModelOptions,
    key_file: o.KeyFile = None,
    unknown_group: o.UnknownGroup = "error",
    force: o.Force = False,
    as_json: o.AsJson = False,
) -> None:
    """Apply a repair to files of any size and number: decisions, edited rows, or both.

    Cells that are not edited are copied unchanged. The same person, known by --id and the key,
    always gets the same answer.
    """
    from fairmend.apply.batch import refuse_groups
    from fairmend.apply.draw import Drawer
    from fairmend.apply.files import FileRepairer, Wanted
    from fairmend.apply.outputs import Outputs
    from fairmend.data.files import writing
    from fairmend.engines.source import files

    many = is_many(file)
    if output == "-" and as_json:
        raise typer.BadParameter("with --json, standard output is taken", param_hint="--output")
    if output == "-" and many:
        raise typer.BadParameter("must be a folder for many files", param_hint="--output")
    if output != "-" and not many:
        check_output("--output", output, file, artifact, key_file, force=force)
    repaired = load_repair(artifact, call, find_key(key_file))
    repaired.set_params(unknown_group=unknown_group)
    check_draws(artifact, repaired, id_)
    spelling = cells.over(repaired.spelling_)
    if repaired.blind:
        refuse_groups(group, "--group")
    started = time.perf_counter()
    work = FileRepairer(
        repaired.fitted_repair,
        lambda names: group or group_columns(repaired, names),
        id_,
        Wanted(emit, decision, edited),  # type: ignore[arg-type]
        spelling,
    )
    if many:
        made_by = {
            "artifact": sha256(Path(artifact).read_bytes()).hexdigest(),
            "key": None if repaired.key_ is None else Drawer(repaired.key_).fingerprint,
            "answers": call.name, "emit": emit, "decision": decision,
            "edited": edited, "id": id_,
            "group": group, **asdict(spelling), "unknown_group": unknown_group,
        }  # fmt: skip
        paths = files(file)
        done = work.folder(paths, Outputs.open(output, made_by, overwrite=force))
        if done:
            say(f"done before: {done:,} of {len(paths):,} files")
    elif output == "-":
        work.file(file, figures().buffer)
    else:
        with writing(output, overwrite=force) as out:
            work.file(file, out)
    counts = work.counts
    _note_what_misleads(work, file)
    seconds = time.perf_counter() - started
    counted = emit != "decisions" or edited is not None
    stale = repaired.box_.column if emit != "decisions" else None
    if as_json:
        content: dict[str, object] = {
            "artifact": artifact, "file": file, "output": output, "emit": emit,
            "answers_before_edits": stale, **asdict(counts), "seconds": round(seconds, 3),
        }  # fmt: skip
        if not counted:  # nobody's cells were looked at
            content |= {"edited": None, "cells": None}
        if emit == "rows":
            content |= {"changed": None}
        print_json("fairmend.apply/1", content)
        return
    _show_counts(counts, seconds, emit, counted=counted)
    if stale is not None:
        now = f"; the repaired decisions are in {decision!r}" if emit == "both" else ""
        note(f"{stale!r} still holds the model's answers about the rows before the edits{now}")


def _note_what_misleads(work: FileRepairer, file: str) -> None:
    if work.counts.rows == 0:
        note(f"{file} has no rows")
    if (shared := work.shared_draws) is not None:
        note(f"{shared} Name the column of ids with --id.")
    if work.id_ is None and work.wanted.emit == "decisions":
        note("decisions are in the order of the rows; --id puts ids beside them, --emit both the "
             "edited rows")  # fmt: skip


def _show_counts(counts: ApplyCounts, seconds: float, emit: str, *, counted: bool) -> None:
    parts = (
        (True, f"{counts.rows:,} rows in {seconds:.1f} s"),
        (counted, f"{counts.edited:,} edited"),
        (emit != "rows", f"{counts.changed:,} decisions differ from the model's own"),
        (counts.randomised, f"{counts.randomised:,} by a draw"),
        (counts.without_group, f"{counts.without_group:,} without a group"),
        (counts.unknown_group, f"{counts.unknown_group:,} of groups that were not audited"),
    )
    say(", ".join(text for is_shown, text in parts if is_shown))
