"""From files and column names to what the library takes: inputs, outcomes, groups.

One file is read into memory. The rows of many files stay where they are, and an engine counts them.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fairmend.cli import options as o
from fairmend.cli.output import note, say
from fairmend.data.spelling import MISSING, Spelling
from fairmend.errors import DataError, check, listed, nearest
from fairmend.progress import progress

if TYPE_CHECKING:
    import polars as pl

    from fairmend.data.tablefile import FileTable
    from fairmend.engines import Source
    from fairmend.measure.selection import Selection
    from fairmend.model.blackbox import BlackBox


@dataclass(frozen=True, kw_only=True)
class ColumnOptions:
    """Which column is what."""

    group: Annotated[
        list[str],
        o.column_option("The group of each person; repeat it for intersections.", "COLUMN"),
    ]
    label: o.Label = None
    positive: Annotated[
        str | None,
        o.column_option(
            "The value of the label that counts as positive; without a label, of the recorded "
            "decisions.",
            "VALUE",
        ),
    ] = None
    positive_decision: Annotated[
        str | None,
        o.column_option(
            "The recorded decision that counts as positive, if decisions have other words than the "
            "label: approve, for example, beside outcomes yes and no.",
            "WORD",
        ),
    ] = None
    weight: o.Weight = None
    id: o.Id = None
    inputs: Annotated[
        list[str],
        o.column_option(
            "An input of the model; may be repeated. By default the inputs that the model names, "
            "else every column without another role.",
            "COLUMN",
            "--input",
        ),
    ] = field(default_factory=list)
    ignore: Annotated[
        list[str], o.column_option("A column that is not an input; may be repeated.", "COLUMN")
    ] = field(default_factory=list)
    not_id: list[str] | None = field(default=None, init=False)
    """Inputs though no two people share a value; None where ids among the inputs do no harm."""

    @property
    def without_label(self) -> str:
        """What to say instead of --label, so that its column does not become an input."""
        return f"Say --ignore {shlex.quote(self.label or '')} instead"

    def named(self, predictions: str | None, words: Sequence[str]) -> list[tuple[str, str]]:
        """Every column that was named, with the option that names it."""
        single = {"--label": self.label, "--predictions": predictions, "--weight": self.weight,
                  "--id": self.id}  # fmt: skip
        several = {"--group": self.group, "--input": self.inputs, "--ignore": self.ignore,
                   "--not-id": self.not_id or (), "--words": words}  # fmt: skip
        return [
            *((flag, name) for flag, name in single.items() if name is not None),
            *((flag, name) for flag, names in several.items() for name in names),
        ]

    def refuse_two_roles(self, predictions: str | None) -> None:
        """A column that is two things at once makes figures that look right and mean nothing."""
        roles: dict[str, str] = {}
        for flag, name in self.named(predictions, ()):
            before = roles.get(name)
            if flag == "--input" and before in (None, "--group", "--predictions", "--input"):
                continue  # a model may read the group, and a score
            if flag in ("--ignore", "--not-id") or before is None:
                roles.setdefault(name, flag)
                continue
            raise typer.BadParameter(
                f"must not be the column of {before}; got {name!r} for both", param_hint=flag
            )


@dataclass(frozen=True, kw_only=True)
class InputOptions(ColumnOptions):
    """The same, where no input may tell who somebody is."""

    not_id: Annotated[
        list[str],
        o.column_option(
            "An input although it looks like an id, as no two people share a value; may be "
            "repeated.",
            "COLUMN",
        ),
    ] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class FilePeople:
    """The people of one file or of many."""

    call: dict[str, Any]
    """The arguments that audit, counterfactual and the rest have in common, but the model."""
    input_names: Sequence[str]
    columns: ColumnOptions
    values: Mapping[str, pl.Series]
    """Of the label and of each group the values there are."""
    positive: Hashable
    n: int
    ids: pl.Series | None = None
    """Who it is, where that was named; not of many files."""
    left_out: int = 0
    """How many had no outcome or no group."""
    selection: Selection | None = None
    """How those without an outcome differ, if they do."""

    def __len__(self) -> int:
        return self.n

    @property
    def outcome(self) -> pl.Series | None:
        """The label, or its values; None where it is not known what really happened."""
        return None if self.columns.label is None else self.values[self.columns.label]

    def take(self, rows: Any) -> FilePeople:
        """Some of the people of a file."""
        groups = {name: one[rows] for name, one in self.call["sensitive_features"].items()}
        call = {name: None if one is None else one[rows] for name, one in self.call.items()
                if name != "sensitive_features"}  # fmt: skip
        ids = None if self.ids is None else self.ids[rows]
        call = {**call, "sensitive_features": groups}
        return replace(self, call=call, n=len(rows), ids=ids, left_out=0)

    def as_group(self, text: str | None) -> Any:
        """A group typed on the command line; intersections are named as they print."""
        from fairmend.data.groups import RESERVED, GroupReader

        if text in (None, *RESERVED) or len(self.columns.group) != 1:
            return text
        groups = self.values[self.columns.group[0]].drop_nulls().unique(maintain_order=True)
        place = GroupReader(groups.to_list()).place([text])
        return groups[place] if place >= 0 else text


def is_many(name: str) -> bool:
    """Whether a name stands for several files: a folder, or a pattern that is no file's own name.

    >>> is_many("people-*.parquet"), is_many("people.parquet")
    (True, False)
    """
    return os.path.isdir(name) or (any(mark in name for mark in "*?[") and not os.path.exists(name))


@progress("reading the file")
def read_people(
    file: str,
    columns: ColumnOptions,
    box: BlackBox,
    spelling: Spelling,
    *,
    types: Mapping[str, Any] | None = None,
    many: bool = False,
    beside: Sequence[str] = (),
) -> FilePeople:
    """Read one file, or count many, and find the role of each column.

    ``types`` are the inputs and their types, where a repair or an earlier file knows them.
    ``many``: one file is read as many are. ``beside`` are columns of one file that come along
    with the inputs and are none.
    """
    columns.refuse_two_roles(box.column)
    if many or is_many(file):
        return _count_files(file, columns, box, spelling, types or {})
    return _read_file(file, columns, box, spelling, types or {}, beside)


# -------------------------------------------------------------------- which column is what


def _inputs(
    names: Sequence[str],
    columns: ColumnOptions,
    box: BlackBox,
    types: Mapping[str, Any],
    spelling: Spelling,
) -> tuple[list[str], bool]:
    """The inputs, and whether anybody named them; every column that was named must be there."""
    from fairmend.model.foreign import input_names

    for flag, name in columns.named(box.column, spelling.words):
        _check_there(names, flag, name, "must name a column of the file")
    inputs = list(types) or columns.inputs or list(input_names(box.model) or ())
    for name in inputs:
        must = "must have every input of the model as a column"
        _check_there(names, "the file", name, must)
    if not inputs and columns.not_id is not None:
        box.vouched = tuple(columns.not_id)
    return inputs or _inputs_left(names, columns, box), bool(inputs)


def _check_there(names: Sequence[str], what: str, name: str, must: str) -> None:
    if name not in names:
        raise DataError(what, must, f"{name!r} is not one", nearest(name, names))


def _inputs_left(names: Sequence[str], columns: ColumnOptions, box: BlackBox) -> list[str]:
    """Every column that is nothing else.

    A model on this machine may read the group, so it keeps its column. Beside recorded predictions
    a group's own column would only say that the group is the group; and to a stranger's address
    nobody's group is sent unless it is asked for by name.
    """
    from fairmend.model.remote import RemoteModel

    other = {columns.label, columns.weight, columns.id, box.column, *columns.ignore}
    remote = isinstance(box.model, RemoteModel)
    if box.column is not None or remote:
        other |= set(columns.group)
    left = [name for name in names if name and name not in other]
    if "" in names:
        note("the column without a name is no input; give it one if the model reads it")
    if remote:
        note(f"the model is sent {listed(left)}; --input NAME names its inputs one by one, "
             "--ignore NAME leaves some out")  # fmt: skip
    return left


# -------------------------------------------------------------------- one file


def _read_file(
    file: str,
    columns: ColumnOptions,
    box: BlackBox,
    spelling: Spelling,
    types: Mapping[str, Any],
    beside: Sequence[str],
) -> FilePeople:
    """Read a file; people without an outcome or a group are counted and left out."""
    import polars as pl

    from fairmend.data.tablefile import read_table

    text = {} if columns.id is None else {columns.id: pl.String}  # 007 and 7 are two people
    read = read_table(file, types={**text, **types}, spelling=spelling)
    table = read.frame
    for name in beside:
        _check_there(table.columns, "--models, --measure", name, "must name a column of the file")
    inputs, _ = _inputs(
        [name for name in table.columns if name not in beside], columns, box, types, spelling
    )
    answers = [box.column] if box.column is not None and box.column not in inputs else []
    label = [] if columns.label is None else [columns.label]
    weight = [] if columns.weight is None else [columns.weight]
    read.findings.use([*inputs, *answers, *weight, *label], columns.group, note)
    if columns.inputs:
        box.inputs = tuple(columns.inputs)
    needed = [*label, *columns.group]
    table = table.with_columns(
        pl.col(name).fill_nan(None) for name in needed if table.schema[name].is_float()
    )
    _refuse_odd_cells(read, table, box.column, columns, needed)
    kept = table.drop_nulls(needed)
    left_out = table.height - kept.height
    either, both = ("no outcome or ", "an outcome and ") if label else ("", "")
    if left_out:
        say(f"{left_out:,} of {table.height:,} people have {either}no group: left out")
    check(
        kept.height > 0,
        f"file {file!r}",
        f"must hold people with {both}a group",
        "got none",
        f"Look at the columns {', '.join(map(repr, needed))}.",
    )
    for name in columns.group:
        _note_alike(name, dict(kept.select(pl.col(name).cast(str)).group_by(name).len().rows()))
    box.words = _words(kept, columns, box)
    positive = selection = None
    if columns.label is not None:
        positive = _positive(kept[columns.label], columns.positive)
        grouped = table.drop_nulls([*columns.group, *answers])
        selection = _selected(box, grouped, [*inputs, *answers], columns.label, positive)
    call = {
        "X": kept.select([*inputs, *answers, *beside]),
        "y": kept[columns.label] if columns.label is not None else None,
        "sensitive_features": {name: kept[name] for name in columns.group},
        "sample_weight": None if columns.weight is None else kept[columns.weight],
    }
    return FilePeople(
        call,
        inputs,
        columns,
        {name: kept[name] for name in needed},
        positive,
        kept.height,
        None if columns.id is None else kept[columns.id],
        left_out,
        selection,
    )


def _selected(
    box: BlackBox, table: pl.DataFrame, names: Sequence[str], label: str, positive: Hashable
) -> Selection | None:
    """Whether those without an outcome are decided otherwise, which is reported at once."""
    from fairmend.data.outcomes import Labels
    from fairmend.measure.selection import find_selection

    values = table[label].drop_nulls().unique().sort().to_list()
    if len(values) != 2:  # an error that the library reports
        return None
    labels = Labels.of(values, positive)
    has_outcome = table[label].is_not_null().to_numpy()
    selection = find_selection(box, table.select(names), has_outcome, labels)
    if selection is not None:
        note(f"{selection}: every rate here is over the latter alone; without --label the "
             "decisions of everybody are compared")  # fmt: skip
    return selection


def _refuse_odd_cells(
    read: FileTable,
    table: pl.DataFrame,
    predictions: str | None,
    columns: ColumnOptions,
    needed: Sequence[str],
) -> None:
    """Refuse predictions, weights and ids that are none, with their place in the file."""
    from fairmend.data.ids import BadId, number_people
    from fairmend.data.tablefile import refuse_blanks, refuse_odd_weights

    if predictions is not None:
        refuse_blanks(table, predictions, among=needed, where=read.where)
    if columns.weight is not None:
        refuse_odd_weights(table, columns.weight, needed, read.where)
    if columns.id is not None:
        fix = "Give everybody an id, or leave --id out if each row is a person."
        refuse_blanks(table, columns.id, among=needed, where=read.where, hold="an id", fix=fix)
        rows = table.with_row_index("\0row").drop_nulls(needed)
        try:
            number_people(rows[columns.id])
        except BadId as error:
            raise error.at(read.where(int(rows["\0row"][error.row]))) from None


# -------------------------------------------------------------------- many files


def _count_files(
    file: str, columns: ColumnOptions, box: BlackBox, spelling: Spelling, types: Mapping[str, Any]
) -> FilePeople:
    """Count groups and outcomes; everything else is left to the engine."""
    import polars as pl

    from fairmend.data.columns import is_missing
    from fairmend.engines import duck, source, tabulate
    from fairmend.engines.verbs import refuse_identifiers

    if columns.label is None:
        raise typer.BadParameter("must be given for many files", param_hint="--label")
    texts = [name for name, kind in types.items() if kind in (pl.String, pl.Categorical, pl.Enum)]
    ids = [] if columns.id is None else [columns.id]
    place = source(file, spelling=spelling, texts=(*ids, *texts))
    with duck.reading(place.data):
        inputs, are_named = _inputs(place.names, columns, box, types, spelling)
        place = replace(place, inputs=tuple(inputs), left_over=not are_named)
        numbers = [*inputs, columns.label, box.column, columns.weight]
        place.use([name for name in numbers if name is not None], columns.group, note)
        about = [*columns.group, columns.label]
        decisions = [box.column] if columns.positive_decision is not None and box.column else []
        cells = tabulate(place, [*about, *decisions])
        n = round(float(cells.people.sum()))
        if columns.not_id is not None and not are_named:
            refuse_identifiers(place, inputs, box, n)
        if box.column is not None:
            _refuse_blanks(place, box.column)
        values = {
            name: pl.Series(
                name, [v for v in cells.frame.column(name).unique().to_list() if not is_missing(v)]
            )
            for name in about
        }
        counted = pl.DataFrame(cells.frame.native).with_columns(pl.Series("\0n", cells.people))
        for name in columns.group:
            _note_alike(name, dict(
                counted.drop_nulls(name).group_by(pl.col(name).cast(str)).agg(pl.sum("\0n")).rows()
            ))  # fmt: skip
        box.words = _words(counted, columns, box)
    call = {
        "X": place,
        "y": columns.label,
        "sensitive_features": columns.group,
        "sample_weight": columns.weight,
    }
    positive = _positive(values[columns.label], columns.positive)
    return FilePeople(call, inputs, columns, values, positive, n)


def refuse_repeated_ids(people: FilePeople) -> None:
    """Refuse people with several rows in many files: their rows are not put together."""
    from fairmend.engines import Source, duck

    place = people.call["X"]
    if not isinstance(place, Source) or people.columns.id is None:
        return
    relation = duck.relation(place)
    name = duck.quoted(people.columns.id)
    with duck.reading(place.data):
        [(rows, different)] = relation.aggregate(
            f"count({name}), count(DISTINCT {name})"
        ).fetchall()
    check(
        different == rows,
        "--id",
        "must be another in each row where FILE is many files",
        f"{rows:,} rows are {different:,} people",
        "Put them into one file, where intervals are by person; with --ignore "
        f"{shlex.quote(people.columns.id)} instead each row counts as a person of its own.",
    )


def _refuse_blanks(place: Source, column: str) -> None:
    """Refuse people without a recorded prediction, with the first one's file and row."""
    from fairmend.apply.files import naming_the_file
    from fairmend.data.tablefile import in_rows, refuse_blanks
    from fairmend.engines import duck
    from fairmend.engines.csvs import line_in

    connection = duck.connected(place)
    relation = duck.opened(connection, place.files)
    name = duck.quoted(column)
    kinds = dict(zip(relation.columns, map(str, relation.types), strict=True))
    nan = f" OR isnan({name})" if kinds[column] in ("DOUBLE", "FLOAT") else ""
    if not relation.filter(f"{name} IS NULL{nan}").limit(1).fetchall():
        return
    for file, copy in zip(place.data, place.files, strict=True):
        where = in_rows if place.typed is None else partial(line_in, file)
        with naming_the_file(file):
            cells = duck.opened(connection, [copy]).project(name).pl()
            refuse_blanks(cells, column, where=where)


# -------------------------------------------------------------------- values as they were typed


def _note_alike(column: str, people: Mapping[str, int]) -> None:
    """Say which groups are perhaps one group in two spellings: each counts as its own."""
    from fairmend.data.groups import alike

    if pairs := alike(people):
        each = ", ".join(
            f"{rarer!r} ({people[rarer]:,.0f} people) and {usual!r}" for rarer, usual in pairs
        )
        note(f"column {column!r}: {each} count as groups of their own; if they are one group, "
             "write it in one way in the file")  # fmt: skip


def _words(
    table: pl.DataFrame, columns: ColumnOptions, box: BlackBox
) -> tuple[Hashable, Hashable] | None:
    """The words of recorded decisions, negative and positive; None where the label's will do."""
    flag, text = "--positive-decision", columns.positive_decision
    if columns.label is None and text is None:
        flag, text = "--positive", columns.positive
    in_words = str(table.schema.get(box.column or "", "")) == "String"
    if not in_words:
        if text is not None:
            need = "--predictions that are words"
            need = need if flag == "--positive-decision" else f"--label, or {need}"
            raise typer.BadParameter(f"needs {need}", param_hint=flag)
        return box.words
    if text is None and (columns.label is not None or box.words is not None):
        return box.words
    assert box.column is not None
    decisions = table[box.column].drop_nulls()
    words = decisions.unique().sort().to_list()
    _refuse_marks(words, "--predictions")
    check(
        len(words) <= 2,
        "--predictions",
        "must hold at most two words",
        f"got {len(words):,}: {listed(words)}",
        "Say in another column who was selected, and name that one.",
    )
    if len(words) < 2 and text is None:
        return None  # nothing to tell apart: the library asks for words it knows
    positive = str(_positive(decisions, text, flag))
    return next((word for word in words if word != positive), f"not {positive}"), positive


def _positive(outcome: pl.Series, text: str | None, flag: str = "--positive") -> Hashable:
    """The positive value; None leaves it to the library, which knows 0/1 and -1/1."""
    values = outcome.unique().sort().to_list()
    _refuse_marks(values, "--label")
    if text is not None and not any(_is_typed(value, text) for value in values):
        must = f"must be a value of {outcome.name!r}"
        raise DataError(flag, must, f"got {text!r}", nearest(text, values))
    if text is None and len(values) == 2 and set(values) not in ({0, 1}, {-1, 1}):
        raise DataError(
            flag,
            f"must say which value of {outcome.name!r} is positive",
            f"it holds {values[0]!r} and {values[1]!r}",
            f"Add {' or '.join(f'{flag} {shlex.quote(str(value))}' for value in values)}.",
        )
    positive: Hashable = same_value(outcome, text)
    return positive


def _refuse_marks(values: Sequence[Any], flag: str) -> None:
    """Refuse a third value that usually stands for a missing one."""
    marks = [value for value in values if isinstance(value, str) and value.strip() in MISSING]
    if not 0 < len(values) - len(marks) <= 2 < len(values):
        return
    missing = " ".join(f"--missing {shlex.quote(mark.strip())}" for mark in marks)
    got = f"got {len(values):,}: {listed(values)}"
    fix = f"If {listed(marks)} stands for a missing value, say {missing}."
    raise DataError(flag, "must have two values", got, fix)


def same_value(column: pl.Series, text: str | None) -> Any:
    """A value typed on the command line, as the column holds it."""
    if text is None:
        return None
    return next((value for value in column.unique().to_list() if _is_typed(value, text)), text)


def _is_typed(value: Any, text: str) -> bool:
    """Whether somebody who typed this means that value; the file may spell it otherwise than we.

    >>> _is_typed(1.0, "1"), _is_typed("1.0", "1"), _is_typed(True, "TRUE")
    (True, False, True)
    """
    if str(value) == text:
        return True
    if isinstance(value, bool):
        return text.lower() == str(value).lower()
    try:
        return isinstance(value, int | float) and float(text) == value
    except ValueError:
        return False
