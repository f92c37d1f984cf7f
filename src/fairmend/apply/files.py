"""A repair on files of any size and number: blocks in, edited cells out, in constant memory.

What becomes of a row depends on its inputs and its group alone, but for the few people whose edit
is randomised. So each distinct row is worked out once, and looked up from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import IO, TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fairmend.apply.batch import Applied, apply_batch, read_people
from fairmend.apply.laws import FittedRepair, Laws
from fairmend.apply.outputs import Outputs
from fairmend.apply.rowstream import Edits, RowStream, open_rows
from fairmend.apply.shared_draws import SharedDraws, SharedDrawsOfStream
from fairmend.data.columns import IntArray
from fairmend.data.containers import as_kind
from fairmend.data.files import writing
from fairmend.data.spelling import Spelling
from fairmend.data.tablefile import Block, refuse_blanks
from fairmend.data.threads import ahead
from fairmend.errors import FairmendError, check
from fairmend.progress import progress

if TYPE_CHECKING:
    import polars as pl

Cells: TypeAlias = "dict[str, tuple[IntArray, pl.Series]]"
"""Per edited column, which rows, and their new values."""


@dataclass(frozen=True)
class Wanted:
    """What is to be written about the rows."""

    emit: Literal["decisions", "rows", "both"] = "decisions"
    """Edited rows, decisions alone, or edited rows with a column of decisions."""
    decision: str = "decision"
    """What the column of decisions is called."""
    edited: str | None = None
    """What the column is called that names each row's edited inputs; without a name, no column."""

    @property
    def added(self) -> dict[str, str]:
        """The new columns by the option that names them."""
        named = {} if self.emit == "rows" else {"--decision": self.decision}
        return named if self.edited is None else named | {"--edited": self.edited}

    @property
    def edits(self) -> bool:
        """Whether the edits themselves are of interest, and not the decisions alone."""
        return self.emit != "decisions" or self.edited is not None


@dataclass
class ApplyCounts:
    """How many rows went through, and what became of them."""

    rows: int = 0
    edited: int = 0
    without_group: int = 0
    """People without a group, who keep the model's answer."""
    unknown_group: int = 0
    """People of a group that was not audited, who keep it too."""
    changed: int = 0
    """People whose decision is not the model's own; counted only where decisions are emitted."""
    randomised: int = 0
    """People whose answer was randomised, by their number."""
    cells: dict[str, int] = field(default_factory=dict)
    """Edited cells by column."""


class FileRepairer:
    """A repair on one file after the other; laws found in one are remembered for the next.

    ``groups`` are the columns that hold people's groups, or a function of a file's columns that
    finds them. The column ``id_`` says who somebody is.
    """

    def __init__(
        self,
        repair: FittedRepair,
        groups: Sequence[str] | Callable[[Sequence[str]], Sequence[str]],
        id_: str | None,
        wanted: Wanted,
        spelling: Spelling | None = None,
    ) -> None:
        self.repair, self.id_, self.wanted = repair, id_, wanted
        self.spelling = spelling or Spelling()
        self.counts = ApplyCounts()
        self._groups = groups
        self._laws = Laws(repair, edits=wanted.edits)
        self._shared = SharedDrawsOfStream(repair.data.groups)

    @property
    def shared_draws(self) -> SharedDraws | None:
        """What it does to a group's rate that equal rows share one draw, where that is much."""
        return None if self.id_ is not None else self._shared.worst

    # ---------------------------------------------------------------- files

    def file(self, file: str, out: IO[bytes]) -> None:
        """One file onto another."""
        with open_rows(file, spelling=self.spelling) as stream:
            self.stream(stream, out)

    def folder(self, files: Sequence[str], outputs: Outputs) -> int:
        """Many files into a folder; how many of them an earlier run had done."""
        places = outputs.places(files)
        waiting = [file for file in files if not outputs.is_done(file, places[file])]
        for file in waiting:
            before = self.counts.rows
            with naming_the_file(file), writing(places[file], overwrite=True) as out:
                self.file(file, out)
            outputs.record(file, places[file], self.counts.rows - before)
        return len(files) - len(waiting)

    def stream(self, stream: RowStream, out: IO[bytes]) -> None:
        """Everything in a stream, edited, onto a file."""
        groups: list[str] = []
        if not self.repair.blind:
            groups = list(self._groups(stream.names) if callable(self._groups) else self._groups)
        self._check(stream, groups)
        kept = None if self.wanted.emit != "decisions" else [] if self.id_ is None else [self.id_]
        self._check_new(stream.names if kept is None else kept)
        stream.start(out, list(self.wanted.added.values()), kept)
        recorded = self.repair.box.column
        with progress("applying the repair", stream.size or 1) as advance:
            read, blocks = 0, stream.blocks(self._types(groups))
            # a pipe is not read ahead: whoever interrupts would wait for it
            for block in blocks if stream.size is None else ahead(blocks):
                if recorded is not None:
                    refuse_blanks(block.rows, recorded, where=block.where)
                edits = self._edits(block, groups) if block.rows.height else self._no_edits()
                stream.write(block, edits)
                if stream.size is not None:  # nobody knows the length of a pipe
                    advance(block.read - read)
                read = block.read
        stream.finish()

    def _check(self, stream: RowStream, groups: Sequence[str]) -> None:
        """The columns that are needed are there."""
        recorded = self.repair.box.column
        stream.check(groups, "--group")
        stream.check([] if self.id_ is None else [self.id_], "--id")
        stream.check([] if recorded is None else [recorded], "--predictions")
        stream.check(self._inputs, "the file", "must have every input of the repair as a column")
        check(
            self.id_ not in self._inputs,
            "--id",
            "must not be an input of the repair, which would edit it",
            f"{self.id_!r} is one",
            f"Make the repair again with --id {self.id_!r}.",
        )

    def _check_new(self, names: Sequence[str]) -> None:
        """New columns are called unlike those that are there, and unlike each other."""
        for option, name in self.wanted.added.items():
            check(
                name not in names,
                option,
                "must name a new column",
                f"there is one called {name!r} already",
                f"Choose another name, e.g. {option} fairmend_{option[2:]}.",
            )
            names = [*names, name]

    @cached_property
    def _inputs(self) -> list[str]:
        """The model's inputs, and its recorded answers where it is no more than these."""
        recorded = self.repair.box.column
        names = list(map(str, self.repair.table.names))
        return names if recorded is None or recorded in names else [*names, recorded]

    @cached_property
    def _words(self) -> NDArray[Any]:
        """What decisions are called: in the model's own words, or else in those of the label."""
        own = self.repair.box.words
        classes: NDArray[Any] = self.repair.classes
        return classes if own is None else np.array(own, object)

    def _types(self, groups: Sequence[str]) -> dict[str, Any]:
        """The columns that are needed, with the types they had when the repair was fitted."""
        import polars as pl

        types: dict[str, Any] = dict.fromkeys([*self._inputs, *groups])
        types |= as_kind(self.repair.table.native, "polars").schema
        column, output = self.repair.box.column, self.repair.box.output
        if column is not None and types[column] is None and output in ("probability", "score"):
            types[column] = pl.Float64  # labels are as the file has them
        if len(groups) == 1 and types[groups[0]] is None:
            kinds = {type(group) for group in self.repair.data.groups}
            of_group = {str: pl.String, bool: pl.Boolean, int: pl.Int64, float: pl.Float64}
            types[groups[0]] = of_group.get(kinds.pop()) if len(kinds) == 1 else None
        if self.id_ is not None and self.id_ not in types:
            types[self.id_] = pl.String  # 007 and 7 are two people
        return types

    # ---------------------------------------------------------------- a block

    def _edits(self, block: Block, groups: Sequence[str]) -> Edits:
        rows, wanted = block.rows, self.wanted
        of_group = None if self.repair.blind else {name: rows[name] for name in groups}
        people = read_people(self.repair, rows, of_group, self.id_, cast=True)
        applied = apply_batch(self.repair, people, laws=self._laws, where=block.where)
        cells: Cells = {}
        if wanted.edits:
            for who, there in applied.moved:
                cells = _joined(cells, _changed(rows, who, there.native))
        added: dict[str, NDArray[Any]] = {}
        if wanted.emit != "rows":
            added[wanted.decision] = self._words[applied.decision]
        if wanted.edited is not None:
            added[wanted.edited] = self._names_of(cells, rows.height)
        edits = Edits(cells, added)
        self._count(applied, edits)
        return edits

    def _count(self, applied: Applied, edits: Edits) -> None:
        counts, members = self.counts, applied.people.groups
        counts.rows += len(applied.row)
        counts.edited += edits.edited
        chance = applied.chance_after_edits
        counts.randomised += int((applied.randomised | ((chance > 0) & (chance < 1))).sum())
        counts.without_group += int(members.opted_out.sum())
        counts.unknown_group += int(members.unknown.sum())
        for name, (places, _) in edits.cells.items():
            counts.cells[name] = counts.cells.get(name, 0) + len(places)
        if self.wanted.emit != "rows":
            own = applied.answers.decision[applied.row]  # a chance is nobody's decision
            counts.changed += int((np.isin(own, (0, 1)) & (own != applied.decision)).sum())
        if self.id_ is None:
            by_edits = self.wanted.emit == "rows"
            variance = applied.variance_edited if by_edits else applied.variance_decided
            own = applied.answers.decision
            self._shared.add(applied.rows, applied.row, members.place, own, variance)

    def _no_edits(self) -> Edits:
        """The new columns of a file without rows, in the types they have in others."""
        none = {"--decision": np.array(self._words.tolist())[:0], "--edited": np.array([""])[:0]}
        return Edits({}, {name: none[option] for option, name in self.wanted.added.items()})

    def _names_of(self, cells: Cells, rows: int) -> NDArray[Any]:
        """Each row's edited inputs in words, with semicolons; nothing where there is none."""
        names = [name for name in self._inputs if name in cells]
        edited = np.zeros((rows, len(names)), bool)
        for column, name in enumerate(names):
            edited[cells[name][0], column] = True
        kinds, kind = np.unique(edited, axis=0, return_inverse=True)
        words = ["; ".join(np.compress(row, names)) for row in kinds] if names else [""]
        return np.array(words, object)[kind.ravel()]


@contextmanager
def naming_the_file(file: str) -> Iterator[None]:
    """Errors about one of many files say about which."""
    try:
        yield
    except FairmendError as error:
        if file in error.what:
            raise
        raise error.but(got=f"{error.got}, in file {file!r}") from None


# -------------------------------------------------------------------- edited cells


def _changed(rows: pl.DataFrame, who: IntArray, edited: pl.DataFrame) -> Cells:
    """The cells in which some rows differ from what they become."""
    cells = {}
    own = rows.select(edited.columns)[who]
    for name in edited.columns:
        old, new = own[name], _in_type(edited[name], own[name].dtype)
        changed = np.flatnonzero(old.ne_missing(new).to_numpy())
        if len(changed):
            cells[name] = (who[changed], new[changed])
    return cells


def _in_type(values: pl.Series, kind: Any) -> pl.Series:
    """Values in the type of their column, unless that would change a number.

    A column of missing values alone has no type to bring them to: who writes it refuses the edit.
    """
    import polars as pl

    if kind in (values.dtype, pl.Null):
        return values
    if values.dtype.is_numeric() and kind.is_integer():
        fraction = values.cast(float) % 1 != 0
        return values if fraction.any() else values.cast(kind)
    return values.cast(kind)


def _joined(one: Cells, other: Cells) -> Cells:
    """The cells of both; no row is in both."""
    both = dict(one)
    for name, (rows, values) in other.items():
        if name in both:
            before, first = both[name]
            # of two types, one of them has a fraction
            kind = first.dtype if first.dtype == values.dtype else float
            together = first.cast(kind).append(values.cast(kind))
            both[name] = (np.concatenate([before, rows]), together)
        else:
            both[name] = (rows, values)
    return both
