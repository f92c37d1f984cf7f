"""People of many files, or of one too large: counted where they are, never all in memory."""

from __future__ import annotations

import os
import shlex
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from fairmend.cli.output import note
from fairmend.cli.people import (
    Columns,
    People,
    check_there,
    inputs_left,
    positive_of,
    same_value,
    words_of,
)

if TYPE_CHECKING:
    import polars as pl

    from fairmend.engines import Source
    from fairmend.measure.selection import Selection
    from fairmend.model.blackbox import BlackBox

__all__ = ["AnyPeople", "PeopleElsewhere", "find_people", "is_many", "refuse_repeated_ids"]


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
    from fairmend.engines import duck, source

    columns.refuse_two_roles(box.column)
    if columns.label is None:
        raise typer.BadParameter("must be given for many files", param_hint="--label")
    ids = () if columns.id is None else (columns.id,)
    place = source(file, spelling=columns.spelling, texts=ids)
    with duck.reading(place.data):
        return _counted(place, columns, columns.label, box, known)


def _counted(
    place: Source, columns: Columns, label: str, box: BlackBox, known: Sequence[str]
) -> PeopleElsewhere:
    import polars as pl

    from fairmend.data.columns import is_missing
    from fairmend.engines import duck, tabulate
    from fairmend.engines.verbs import refuse_identifiers
    from fairmend.model.blackbox import input_names

    names = place.names
    for flag, name in columns.named(box.column):
        check_there(names, flag, name)
    inputs = list(known or columns.inputs or input_names(box.model) or ())
    for name in inputs:
        check_there(names, "the files", name, "must have every input of the model as a column")
    told = bool(inputs)
    inputs = inputs or inputs_left(names, columns, box)
    place = replace(place, inputs=tuple(inputs), left_over=not told)
    numbers = [*inputs, label, box.column, columns.weight]
    place.use([name for name in numbers if name is not None], columns.group, note)
    about = [*columns.group, label]
    said = [box.column] if columns.positive_decision is not None and box.column else []
    cells = tabulate(place, [*about, *said])
    n = round(float(cells.people.sum()))
    connection = duck.connected(place)
    relation = duck.opened(connection, place.files)
    if columns.not_id is not None and not told:
        box.vouched = tuple(columns.not_id)
        refuse_identifiers(place, inputs, box, n)
    if box.column is not None:
        _refuse_blanks(relation, connection, place, box.column)
    values = {
        name: pl.Series(
            name, [v for v in cells.frame.column(name).unique().to_list() if not is_missing(v)]
        )
        for name in about
    }
    box.words = words_of(pl.DataFrame(cells.frame.native), columns, box)
    positive = positive_of(values[label], columns.positive)
    return PeopleElsewhere(place, columns, values, positive, n)


def refuse_repeated_ids(people: AnyPeople) -> None:
    """Complain about people with several rows in many files: their rows are not put together."""
    from fairmend.engines import duck
    from fairmend.errors import DataError

    if isinstance(people, People) or people.columns.id is None:
        return
    relation = duck.opened(duck.connected(people.place), people.place.files)
    name = duck.quoted(people.columns.id)
    counted = f"count({name}), count(DISTINCT {name})"
    with duck.reading(people.place.data):
        rows, different = relation.aggregate(counted).fetchall()[0]
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


def _refuse_blanks(relation: Any, connection: Any, place: Source, column: str) -> None:
    """Complain about people without a recorded prediction, with the first one's file and row."""
    from fairmend.apply.folder import naming_the_file
    from fairmend.data.tablefile import in_rows, refuse_blanks
    from fairmend.engines import duck
    from fairmend.engines.csvs import line_in

    name = duck.quoted(column)
    blank = f"{name} IS NULL"
    if _kinds(relation)[column] in ("DOUBLE", "FLOAT"):
        blank += f" OR isnan({name})"
    if not relation.filter(blank).limit(1).fetchall():
        return
    for file, copy in zip(place.data, place.files, strict=True):
        where = in_rows if place.typed is None else partial(line_in, file)
        with naming_the_file(file):
            cells = duck.opened(connection, [copy]).project(name).pl()
            refuse_blanks(cells, column, where=where)
