"""People of many files, or of one too large: counted where they are, never all in memory."""

from __future__ import annotations

import os
import shlex
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import typer

from fairmend.cli.people import (
    Columns,
    People,
    check_there,
    inputs_left,
    positive_of,
    same_value,
    tell_stray_words,
    words_of,
)

if TYPE_CHECKING:
    import polars as pl

    from fairmend.engines import Source
    from fairmend.model import BlackBox
    from fairmend.selection import Selection

__all__ = ["AnyPeople", "PeopleElsewhere", "find_people", "is_many", "refuse_repeated_ids"]

LOOKED_AT = 10_000
"""Rows that tell whether words are numbers with another decimal mark."""


def is_many(name: str) -> bool:
    """Whether a name stands for several files: a folder, or a pattern that is no file's own name.

    >>> is_many("people-*.parquet"), is_many("people.parquet")
    (True, False)
    """
    return os.path.isdir(name) or (any(mark in name for mark in "*?[") and not os.path.exists(name))


@dataclass(frozen=True, eq=False)
class PeopleElsewhere:
    """What `fairmend.cli.people.People` is for a file, for people who stay where they are."""

    place: Source
    columns: Columns
    values: dict[str, pl.Series]
    """Of the label and of each group, the values there are, but for missing ones."""
    positive: Hashable
    n: int
    left_out: int = 0
    ids: None = None
    """Are not read: see `refuse_repeated_ids`."""
    selection: Selection | None = None
    """Is not looked for here."""

    def __len__(self) -> int:
        return self.n

    @property
    def input_names(self) -> Sequence[str]:
        return self.place.inputs or ()

    @property
    def outcome(self) -> pl.Series:
        assert self.columns.label is not None
        return self.values[self.columns.label]

    @property
    def call(self) -> dict[str, Any]:
        """The arguments that audit, counterfactual and the rest have in common, but the model."""
        return {
            "X": self.place,
            "y": self.columns.label,
            "sensitive_features": list(self.columns.group),
            "sample_weight": self.columns.weight,
        }

    def as_group(self, text: str | None) -> Any:
        """A group typed on the command line; intersections are named as they print."""
        if text in (None, "best", "rest") or len(self.columns.group) != 1:
            return text
        return same_value(self.values[self.columns.group[0]], text)


AnyPeople = People | PeopleElsewhere


def find_people(
    file: str, columns: Columns, box: BlackBox, *, known: Sequence[str] = ()
) -> PeopleElsewhere:
    """Tell the columns apart and count groups and outcomes; the rest is left to the engine.

    ``known`` are the inputs where a repair knows them.
    """
    import polars as pl

    from fairmend.columns import is_missing
    from fairmend.engines import duck, source, tabulate
    from fairmend.engines.verbs import refuse_identifiers
    from fairmend.model import input_names

    columns.refuse_two_roles(box.column)
    for flag, given in (("--missing", columns.missing), ("--decimal", columns.decimal)):
        if given:
            raise typer.BadParameter(
                "is for a single file; many files are read as their engine reads them",
                param_hint=flag,
            )
    if columns.label is None:
        raise typer.BadParameter("must be given for many files", param_hint="--label")
    names = source(file).names
    for flag, name in columns.named(box.column):
        check_there(names, flag, name)
    inputs = list(known or columns.inputs or input_names(box.model) or ())
    for name in inputs:
        check_there(names, "the files", name, "must have every input of the model as a column")
    told = bool(inputs)
    inputs = inputs or inputs_left(names, columns, box)
    place = replace(source(file, inputs=inputs), left_over=not told)
    about = [*columns.group, columns.label]
    said = [box.column] if columns.positive_decision is not None and box.column else []
    cells = tabulate(place, [*about, *said])
    n = round(float(cells.people.sum()))
    connection = duck.connected(place)
    relation = duck.opened(connection, place.data)
    if columns.not_id is not None and not told:
        box.vouched = tuple(columns.not_id)
        refuse_identifiers(place, inputs, box, n)
    _look_at_words(relation, inputs, silent=columns.not_id is None and box.column is not None)
    if box.column is not None:
        _refuse_blanks(relation, connection, place.data, box.column)
    values = {
        name: pl.Series(
            name, [v for v in cells.frame.column(name).unique().to_list() if not is_missing(v)]
        )
        for name in about
    }
    box.words = words_of(pl.DataFrame(cells.frame.native), columns, box)
    positive = positive_of(values[columns.label], columns.positive)
    return PeopleElsewhere(place, columns, values, positive, n)


def refuse_repeated_ids(people: AnyPeople) -> None:
    """Complain about people with several rows in many files: their rows are not put together."""
    from fairmend.engines import duck
    from fairmend.errors import DataError

    if isinstance(people, People) or people.columns.id is None:
        return
    relation = duck.opened(duck.connected(people.place), people.place.data)
    name = duck.quoted(people.columns.id)
    rows, different = relation.aggregate(f"count({name}), count(DISTINCT {name})").fetchall()[0]
    if different < rows:
        typed = shlex.quote(people.columns.id)
        raise DataError(
            "--id",
            "must be another in each row where FILE is many files",
            f"{rows:,} rows are {different:,} people",
            "Put them into one file, where intervals are by person; with "
            f"--ignore {typed} instead each row counts as a person of its own.",
        )


def _kinds(relation: Any) -> dict[str, str]:
    return dict(zip(relation.columns, map(str, relation.types), strict=True))


def _refuse_blanks(relation: Any, connection: Any, files: Sequence[str], column: str) -> None:
    """Complain about people without a recorded prediction, with the first one's file and row."""
    from fairmend.engines import duck
    from fairmend.folder import naming_the_file
    from fairmend.tablefile import refuse_blanks

    name = duck.quoted(column)
    blank = f"{name} IS NULL"
    if _kinds(relation)[column] in ("DOUBLE", "FLOAT"):
        blank += f" OR isnan({name})"
    if not relation.filter(blank).limit(1).fetchall():
        return
    for file in files:
        with naming_the_file(file):
            refuse_blanks(duck.opened(connection, [file]).project(name).pl(), column)


def _look_at_words(relation: Any, inputs: Sequence[str], *, silent: bool) -> None:
    """Complain about numbers that were read as words, by the first rows."""
    from fairmend.engines import duck
    from fairmend.tablefile import refuse_other_decimals

    kinds = _kinds(relation)
    words = [name for name in inputs if kinds[name] == "VARCHAR"]
    if words:
        chosen = ", ".join(map(duck.quoted, words))
        table = relation.project(chosen).limit(LOOKED_AT).pl()
        refuse_other_decimals(table, words)
        if not silent:
            tell_stray_words(table, words)
