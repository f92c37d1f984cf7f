"""From a file and column names to what the library takes: inputs, outcomes, groups, a model."""

from __future__ import annotations

import shlex
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import typer

from fairmend.cli.output import note, say
from fairmend.data.spelling import Spelling
from fairmend.errors import DataError, listed, nearest, without_secrets
from fairmend.model.modelfile import model_kind

if TYPE_CHECKING:
    import polars as pl

    from fairmend.data.tablefile import Table
    from fairmend.measure.selection import Selection
    from fairmend.model.blackbox import BlackBox

__all__ = [
    "Columns",
    "ModelCall",
    "People",
    "check_there",
    "inputs_left",
    "positive_of",
    "read_people",
    "same_value",
    "words_of",
]


@dataclass(frozen=True)
class ModelCall:
    """The model as it was named on the command line."""

    predictions: str | None = None
    model: str | None = None
    threshold: float | None = None
    answers: str = "auto"
    soft: bool = False
    trust: Sequence[str] = ()
    rows: str | None = None
    protocol: str | None = None

    @property
    def given(self) -> bool:
        return self.predictions is not None or self.model is not None

    @property
    def name(self) -> str | None:
        """The model or the column, for a record of what was done: without secrets."""
        if self.model is None:
            return self.predictions
        shown = without_secrets(self.model)
        if shown == self.model:
            return shown
        return f"{shown} ({sha256(self.model.encode()).hexdigest()[:12]})"

    def refuse_idle(self) -> None:
        """Refuse options that would change nothing: whoever gives them expects otherwise."""
        kind = None if self.model is None else model_kind(self.model)
        python = ("module", "skops")
        for flag, given, has_effect, need in (
            ("--rows", self.rows, kind in python, "--model package.module:object or FILE.skops"),
            ("--trust", self.trust, kind == "skops", "--model FILE.skops"),
            ("--protocol", self.protocol, kind == "address", "--model URL"),
        ):
            if given and not has_effect:
                raise typer.BadParameter(
                    f"has no effect without {need}. Add that, or leave {flag} out",
                    param_hint=flag,
                )

    def source(self) -> Any:
        """The model itself, or the name of the column with its answers."""
        from fairmend.model.modelfile import load_model

        if (self.predictions is None) == (self.model is None):
            raise typer.BadParameter("give either --predictions COLUMN or --model MODEL")
        self.refuse_idle()
        if self.model is None:
            return self.predictions
        return load_model(
            self.model,
            trust=self.trust,
            container=self.rows,  # type: ignore[arg-type]
            protocol=self.protocol,
        )

    def box(self) -> BlackBox:
        """The black box, ready to be asked or read."""
        from fairmend.model.blackbox import BlackBox

        return BlackBox(
            self.source(),
            threshold=self.threshold,
            output=self.answers,  # type: ignore[arg-type]
            soft=self.soft,
        )


@dataclass(frozen=True)
class Columns:
    """Which column is what."""

    group: Sequence[str]
    label: str | None = None
    positive: str | None = None
    weight: str | None = None
    id: str | None = None
    inputs: Sequence[str] = ()
    ignore: Sequence[str] = ()
    spelling: Spelling = field(default_factory=Spelling)
    """How cells are written, as far as anybody said so."""
    positive_decision: str | None = None
    """The word of recorded decisions that means positive."""
    not_id: Sequence[str] | None = None
    """Inputs though no two people share a value; None where nobody minds ids among the inputs."""

    @property
    def without_label(self) -> str:
        """What to say instead of --label, so that its column does not become an input."""
        return f"Say --ignore {shlex.quote(self.label or '')} instead"

    def named(self, predictions: str | None) -> list[tuple[str, str]]:
        """Every column that was named, with the option that names it."""
        single = [
            ("--label", self.label), ("--weight", self.weight), ("--id", self.id),
            ("--predictions", predictions),
        ]  # fmt: skip
        several = {"--group": self.group, "--input": self.inputs, "--ignore": self.ignore,
                   "--not-id": self.not_id or (), "--words": self.spelling.words}  # fmt: skip
        return [
            *((flag, name) for flag, name in single if name is not None),
            *((flag, name) for flag, names in several.items() for name in names),
        ]

    def refuse_two_roles(self, predictions: str | None) -> None:
        """A column that is two things at once makes figures that look right and mean nothing."""
        named = [
            ("--label", self.label), ("--predictions", predictions), ("--weight", self.weight),
            ("--id", self.id), *(("--group", name) for name in self.group),
        ]  # fmt: skip
        roles: dict[str, str] = {}
        for flag, name in named:
            if name is None:
                continue
            if name in roles:
                raise _two_roles(flag, roles[name], name)
            roles[name] = flag
        for name in self.inputs:  # a model may read the group, and a score
            if roles.get(name, "--group") not in ("--group", "--predictions"):
                raise _two_roles("--input", roles[name], name)


def _two_roles(flag: str, other: str, name: str) -> typer.BadParameter:
    return typer.BadParameter(
        f"must not be the column of {other}; got {name!r} for both", param_hint=flag
    )


@dataclass(frozen=True, eq=False)
class People:
    """The people of a file; ``inputs`` also has the column of recorded predictions, if any."""

    inputs: pl.DataFrame
    groups: dict[str, pl.Series]
    outcome: pl.Series | None
    """None where it is not known what really happened."""
    positive: Hashable
    weight: pl.Series | None
    ids: pl.Series | None
    """Who it is, where that was named."""
    left_out: int
    """How many had no outcome or no group."""
    selection: Selection | None = None
    """What sets those without an outcome apart, if anything does."""

    def __len__(self) -> int:
        return self.inputs.height

    @property
    def input_names(self) -> Sequence[str]:
        return self.inputs.columns

    @property
    def call(self) -> dict[str, Any]:
        """The arguments that audit, counterfactual and the rest have in common, but the model."""
        return {
            "X": self.inputs,
            "y": self.outcome,
            "sensitive_features": self.groups,
            "sample_weight": self.weight,
        }

    def take(self, rows: Any) -> People:
        """Some of them."""
        return replace(
            self,
            inputs=self.inputs[rows],
            groups={name: column[rows] for name, column in self.groups.items()},
            outcome=None if self.outcome is None else self.outcome[rows],
            weight=None if self.weight is None else self.weight[rows],
            ids=None if self.ids is None else self.ids[rows],
            left_out=0,
        )

    def as_group(self, text: str | None) -> Any:
        """A group typed on the command line; intersections are named as they print."""
        if text in (None, "best", "rest") or len(self.groups) != 1:
            return text
        return same_value(next(iter(self.groups.values())), text)


def read_people(
    file: str, columns: Columns, box: BlackBox, *, like: pl.DataFrame | None = None
) -> People:
    """Read the file and tell the columns apart; ``like`` are inputs read before, of these types.

    People without an outcome or a group cannot be audited; they are counted and left out.
    """
    import polars as pl

    from fairmend.data.tablefile import read_table
    from fairmend.model.blackbox import input_names

    columns.refuse_two_roles(box.column)
    types = {} if like is None else dict(like.schema)
    text = {} if columns.id is None else {columns.id: pl.String}  # 007 and 7 are two people
    read = read_table(file, types=text | types, spelling=columns.spelling)
    table = read.frame
    for flag, name in columns.named(box.column):
        check_there(table.columns, flag, name)
    inputs = columns.inputs or input_names(box.model)
    known = list(types) or list(inputs or ())
    for name in known:
        check_there(
            table.columns, "the file", name, "must have every input of the model as a column"
        )
    told = bool(known)
    known = known or inputs_left(table.columns, columns, box)
    apart = [box.column] if box.column is not None and box.column not in known else []
    needed = [*([] if columns.label is None else [columns.label]), *columns.group]
    labels = [name for name in (columns.weight, columns.label) if name is not None]
    read.findings.use([*known, *apart, *labels], columns.group, note)
    if columns.inputs:
        box.inputs = tuple(columns.inputs)
    elif not told and columns.not_id is not None:
        box.vouched = tuple(columns.not_id)
        _refuse_doubtful(table, known, box)
    table = table.with_columns(
        pl.col(name).fill_nan(None) for name in needed if table.schema[name].is_float()
    )
    _refuse_odd_cells(read, table, box.column, columns, needed)
    kept = table.drop_nulls(needed)
    left_out = table.height - kept.height
    either, both = ("", "") if columns.label is None else ("no outcome or ", "an outcome and ")
    if left_out:
        say(f"{left_out:,} of {table.height:,} people have {either}no group: left out")
    if kept.height == 0:
        raise DataError(
            f"file {file!r}",
            f"must hold people with {both}a group",
            "got none",
            f"Look at the columns {', '.join(map(repr, needed))}.",
        )
    outcome = positive = selection = None
    box.words = words_of(kept, columns, box)
    if columns.label is not None:
        outcome = kept[columns.label]
        positive = positive_of(outcome, columns.positive)
        grouped = table.drop_nulls([*columns.group, *apart])
        selection = _selected(box, grouped, [*known, *apart], columns.label, positive)
    return People(
        inputs=kept.select([*known, *apart]),
        groups={name: kept[name] for name in columns.group},
        outcome=outcome,
        positive=positive,
        weight=None if columns.weight is None else kept[columns.weight],
        ids=None if columns.id is None else kept[columns.id],
        left_out=left_out,
        selection=selection,
    )


def _selected(
    box: BlackBox, table: pl.DataFrame, names: Sequence[str], label: str, positive: Hashable
) -> Selection | None:
    """Whether those without an outcome are decided otherwise, which is said at once."""
    from fairmend.data.outcomes import Labels
    from fairmend.measure.selection import find_selection

    values = table[label].drop_nulls().unique().sort().to_list()
    if len(values) != 2:  # an error that is told elsewhere
        return None
    labels = Labels.of(values, positive)
    known = table[label].is_not_null().to_numpy()
    selection = find_selection(box, table.select(names), known, labels)
    if selection is not None:
        say(f"note: {selection}: every rate here is over the latter alone; without --label the "
            "decisions of everybody are compared")  # fmt: skip
    return selection


def _refuse_odd_cells(
    read: Table,
    table: pl.DataFrame,
    predictions: str | None,
    columns: Columns,
    needed: Sequence[str],
) -> None:
    """Complain about predictions, weights and ids that are none, with their place in the file."""
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


def words_of(
    table: pl.DataFrame, columns: Columns, box: BlackBox
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
    said = table[box.column].drop_nulls()
    words = said.unique().sort().to_list()
    if len(words) > 2:
        raise DataError(
            "--predictions",
            "must hold at most two words",
            f"got {len(words):,}: {listed(words)}",
            "Say in another column who was selected, and name that one.",
        )
    if len(words) < 2 and text is None:
        return None  # nothing to tell apart: the library asks for words it knows
    positive = str(positive_of(said, text, flag))
    return next((word for word in words if word != positive), f"not {positive}"), positive


def inputs_left(names: Sequence[str], columns: Columns, box: BlackBox) -> list[str]:
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
    found = [name for name in names if name and name not in other]
    if "" in names:
        say("note: the column without a name is no input; give it one if the model reads it")
    if remote:
        say(f"note: the model is sent {listed(found)}; --input NAME names its inputs one by one, "
            "--ignore NAME leaves some out")  # fmt: skip
    return found


def _refuse_doubtful(table: pl.DataFrame, names: Sequence[str], box: BlackBox) -> None:
    """Complain about inputs that tell who somebody is, or what the predictions say.

    These are looked for among everybody, whether or not an outcome is known.
    """
    from fairmend.data.columns import Frame, encode
    from fairmend.measure.inputs import (
        Doubt,
        answer,
        identifier,
        is_identifier,
        ranks_alike,
        refuse,
    )

    inputs = Frame.read(table.select(names))
    said = None if box.column is None else encode(table[box.column])

    def doubts() -> Iterator[Doubt]:
        for name, column in zip(inputs.names, inputs.encoded, strict=True):
            if name in box.vouched:
                continue
            if is_identifier(column):
                yield identifier(name, table.height)
            elif said is not None and not said.has_missing and ranks_alike(column, said.codes):
                yield answer(name, column, repr(box.column))

    refuse(doubts(), names, box)


def check_there(
    names: Sequence[str], what: str, name: str, must: str = "must name a column of the file"
) -> None:
    """Refuse a name that is no column, with the nearest that is."""
    if name not in names:
        raise DataError(what, must, f"{name!r} is not one", nearest(name, names))


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
    if isinstance(value, int | float):
        try:
            return float(text) == value
        except ValueError:
            return False
    return False


def positive_of(outcome: pl.Series, text: str | None, flag: str = "--positive") -> Hashable:
    """The positive value; None leaves it to the library, which knows 0/1 and -1/1."""
    values = outcome.unique().sort().to_list()
    if text is not None and not any(_is_typed(value, text) for value in values):
        raise DataError(
            flag,
            f"must be a value of {outcome.name!r}",
            f"got {text!r}",
            nearest(text, values),
        )
    if text is None and len(values) == 2 and set(values) not in ({0, 1}, {-1, 1}):
        raise DataError(
            flag,
            f"must say which value of {outcome.name!r} is positive",
            f"it holds {values[0]!r} and {values[1]!r}",
            f"Add {' or '.join(f'{flag} {shlex.quote(str(value))}' for value in values)}.",
        )
    found: Hashable = same_value(outcome, text)
    return found
