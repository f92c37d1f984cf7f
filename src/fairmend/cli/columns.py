"""``fairmend columns``: what is in a file, and what each column probably is."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from fairmend.cli import options as o
from fairmend.cli.output import note, print_json, say, show
from fairmend.data.roles import ColumnGuess, guess_positive, guess_roles
from fairmend.progress import progress
from fairmend.tables import TextTable


def columns(file: o.File, cells: o.CellAndWordOptions, as_json: o.AsJson = False) -> None:
    """List the columns of FILE and what each probably is, with a first audit to type.

    The roles are guessed by names and values. Nothing else in fairmend relies on a guess.
    """
    from fairmend.data.tablefile import read_table

    with progress("reading the file"):
        guesses = guess_roles(table := read_table(file, spelling=cells.spelling))
    if as_json:
        content = {"rows": table.frame.height, "columns": [asdict(one) for one in guesses]}
        print_json("fairmend.columns/1", content)
        return
    show(TextTable(
        f"{table.frame.height:,} rows",
        ("<column", "<holds", "missing", "distinct", "<for example", "<probably", "<because of"),
        [(one.name, one.kind, f"{one.missing:,}", f"{one.distinct:,}", ", ".join(one.examples),
          one.role, one.why) for one in guesses],
    ))  # fmt: skip
    for one in guesses:
        for text in filter(None, (one.problem, one.note)):
            note(text)
    unsure: dict[str, list[str]] = {}
    for one in guesses:
        if one.unsure:
            unsure.setdefault(one.unsure, []).append(one.name)
    for what, names in unsure.items():
        note(f"unsure about {', '.join(names)}: {what}")
    if not any(one.role == "outcome" for one in guesses):
        note("no column is surely the outcome, and without one only decisions are compared; "
             "--label COLUMN names it")  # fmt: skip
    typed = [*_options(guesses), *(flag for flag, _ in cells.spelling.options())]
    say(" ".join(["a first audit:", "fairmend audit", shlex.quote(file), *typed]))


def _options(guesses: Sequence[ColumnGuess]) -> Iterator[str]:
    """The options of an audit by the guesses; what was not found is named as what it must be."""
    by_role: dict[str, list[ColumnGuess]] = {}
    for one in guesses:
        by_role.setdefault(one.role, []).append(one)
    for role, flag, must in (
        ("group", "--group", "COLUMN"),
        ("decision", "--predictions", "COLUMN"),
        ("outcome", "--label", ""),
        ("id", "--id", ""),
        ("weight", "--weight", ""),
        ("ignore", "--ignore", ""),
    ):
        found = [shlex.quote(one.name) for one in by_role.get(role, ())]
        for name in found or filter(None, [must]):
            yield f"{flag} {name}"
    outcome, decision = (by_role.get(role, [None])[0] for role in ("outcome", "decision"))
    yield from _positive("--positive", outcome or decision)
    if outcome and decision and decision.values != outcome.values:
        yield from _positive("--positive-decision", decision)


def _positive(flag: str, column: ColumnGuess | None) -> Iterator[str]:
    """The value that counts as positive, where two words say which it is."""
    if column is not None and column.kind == "words":
        value = guess_positive(column.values)
        if value is not None:
            yield f"{flag} {shlex.quote(value)}"
