"""A repair on a stream of rows: what `fairmend apply` does, block by block.

What becomes of a row depends on its inputs and its group alone, but for the few people who are
drawn. So it is worked out once per distinct row of the whole file and looked up from then on: the
model is asked about each once, as in the audit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import IO, TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fairmend.apply.rowstream import Block, Edits, RowStream
from fairmend.apply.shared_draws import SharedDraws, worst
from fairmend.data.columns import FloatArray, Frame, IntArray
from fairmend.data.containers import as_fitted, as_kind
from fairmend.data.groups import read_membership
from fairmend.data.ids import BadId
from fairmend.data.tablefile import refuse_blanks
from fairmend.errors import DataError, listed
from fairmend.progress import progress

if TYPE_CHECKING:
    import polars as pl

    from fairmend.classifier import RepairedClassifier

__all__ = ["Mender", "Tally", "Wanted"]

MOST_KNOWN = 100_000
"""Distinct rows remembered; more than these are forgotten, so that memory stays what it is."""
Cells: TypeAlias = "dict[str, tuple[IntArray, pl.Series]]"
"""Per edited column, which rows, and their new values."""
_LAW = "\0law"
"""A column beside those of the file: no file has one of that name."""


@dataclass(frozen=True)
class Wanted:
    """What is to be written about the rows."""

    emit: Literal["rows", "decisions", "both"] = "both"
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


@dataclass
class Tally:
    """How many rows went through, and what became of them."""

    rows: int = 0
    edited: int = 0
    without_group: int = 0
    """People without a group, who keep the model's answer."""
    unknown_group: int = 0
    """People of a group that was not audited, who keep it too."""
    changed: int = 0
    """People whose decision is not the model's own; known only where decisions are asked for."""
    drawn: int = 0
    """People whose answer was left to chance, by their number."""
    cells: dict[str, int] = field(default_factory=dict)
    """Edited cells by column."""


@dataclass(frozen=True, eq=False)
class _Laws:
    """What becomes of some distinct rows; entry by entry."""

    rows: pl.DataFrame
    """Inputs and groups."""
    destinations: pl.DataFrame
    destination: IntArray
    """The place of the edited row among the destinations; -1 to stay."""
    decision: FloatArray
    own: FloatArray
    """What the model decides of the row as it is."""
    drawn: NDArray[np.bool_]
    """Whose answer is left to chance, person by person."""
    variance: FloatArray
    """Of the decision, as it is drawn."""
    group: IntArray
    """The place among the audited groups; -1 for none of them."""
    absent: NDArray[np.bool_]
    stranger: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.destination)

    def followed_by(self, more: _Laws) -> _Laws:
        import polars as pl

        def both(name: str) -> Any:
            return np.concatenate([getattr(self, name), getattr(more, name)])

        shift = np.where(more.destination >= 0, more.destination + self.destinations.height, -1)
        return _Laws(
            pl.concat([self.rows, more.rows], how="vertical_relaxed"),
            pl.concat([self.destinations, more.destinations], how="vertical_relaxed"),
            np.concatenate([self.destination, shift]),
            *map(both, ("decision", "own", "drawn", "variance", "group", "absent", "stranger")),
        )


class Mender:
    """Puts blocks of rows through a repair; people are told apart by the column ``id_``."""

    def __init__(
        self, mended: RepairedClassifier, groups: Sequence[str], id_: str | None, wanted: Wanted
    ) -> None:
        self.mended = mended.silent_about_draws()
        self.groups, self.id_, self.wanted = list(groups), id_, wanted
        self.tally = Tally()
        self._laws: _Laws | None = None
        self._people: FloatArray = np.zeros(0)  # for each of the laws
        self._shared = np.zeros((3, len(mended.data_.groups)))

    def through(self, stream: RowStream, out: IO[bytes]) -> Tally:
        """Everything in the stream, edited, onto a file."""
        stream.check(self.groups, "--group")
        stream.check([] if self.id_ is None else [self.id_], "--id")
        if self.mended.box_.column is not None:
            stream.check([self.mended.box_.column], "--predictions")
        stream.check(self._inputs, "the file", "must have every input of the repair as a column")
        if self.id_ in self._inputs:
            raise DataError(
                "--id",
                "must not be an input of the repair, which would edit it",
                f"{self.id_!r} is one",
                f"Make the repair again with --id {self.id_!r}.",
            )
        kept = self._kept
        self._check_new(stream.names if kept is None else kept)
        stream.start(out, list(self.wanted.added.values()), kept)
        with progress("applying the repair", stream.size or 1) as advance:
            read = 0
            for block in stream.blocks(self._types()):
                if self.mended.box_.column is not None:
                    refuse_blanks(block.rows, self.mended.box_.column, where=block.where)
                stream.write(block, self._edits(block) if block.rows.height else self._no_edits())
                if stream.size is not None:  # nobody knows the length of a pipe
                    advance(block.read - read)
                read = block.read
        stream.finish()
        return self.tally

    @property
    def _kept(self) -> list[str] | None:
        """Which of the file's columns are written; None for all."""
        if self.wanted.emit != "decisions":
            return None
        return [] if self.id_ is None else [self.id_]

    def _check_new(self, names: Sequence[str]) -> None:
        """New columns are called unlike those that are there, and unlike each other."""
        for option, name in self.wanted.added.items():
            if name in names:
                raise DataError(
                    option,
                    "must name a new column",
                    f"there is one called {name!r} already",
                    f"Call it otherwise, e.g. {option} fairmend_{option[2:]}.",
                )
            names = [*names, name]

    # ---------------------------------------------------------------- what is read

    @cached_property
    def _known(self) -> Frame:
        """The table the repair was fitted on."""
        table = self.mended.data_.table
        assert table is not None
        return table

    @cached_property
    def _inputs(self) -> list[str]:
        """The model's inputs, and its recorded answers where it is no more than these."""
        names = [str(name) for name in self.mended.get_feature_names_out()]
        column = self.mended.box_.column
        return names if column is None or column in names else [*names, column]

    @cached_property
    def _words(self) -> NDArray[Any]:
        """What decisions are called: in the model's own words, or else in those of the label."""
        own = self.mended.box_.words
        return self.mended.classes_ if own is None else np.array(own, object)

    @cached_property
    def _key(self) -> list[str]:
        return list(dict.fromkeys([*self._inputs, *self.groups]))

    def _types(self) -> dict[str, Any]:
        """The columns that are needed, with the types they had when the repair was fitted."""
        import polars as pl

        types: dict[str, Any] = dict.fromkeys(self._key)
        types |= as_kind(self._known.native, "polars").schema
        column, output = self.mended.box_.column, self.mended.box_.output
        if column is not None and types[column] is None and output in ("probability", "score"):
            types[column] = pl.Float64  # labels are as the file has them
        if len(self.groups) == 1 and types[self.groups[0]] is None:
            types[self.groups[0]] = self._type_of_groups()
        if self.id_ is not None and self.id_ not in types:
            types[self.id_] = pl.String  # 007 and 7 are two people
        return types

    def _type_of_groups(self) -> Any:
        import polars as pl

        kinds = {type(group) for group in self.mended.data_.groups}
        known = {str: pl.String, bool: pl.Boolean, int: pl.Int64, float: pl.Float64}
        return known.get(kinds.pop()) if len(kinds) == 1 else None

    # ---------------------------------------------------------------- what becomes of it

    def _edits(self, block: Block) -> Edits:
        rows, tally = block.rows, self.tally
        law = self._look_up(block)
        laws = self._laws
        assert laws is not None
        before = np.pad(self._people, (0, len(laws) - len(self._people)))
        self._people = before + np.bincount(law, minlength=len(laws))
        destination, drawn = laws.destination[law], np.flatnonzero(laws.drawn[law])
        destination[drawn] = -1
        cells: Cells = {}
        if self.wanted.emit != "decisions" or self.wanted.edited is not None:
            moved = np.flatnonzero(destination >= 0)
            cells = _changed(rows, moved, laws.destinations[destination[moved]])
            if len(drawn):
                cells = _joined(cells, _changed(rows, drawn, self._ask("transform", block, drawn)))
        added: dict[str, NDArray[Any]] = {}
        if self.wanted.emit != "rows":
            positive = laws.decision[law] > 0  # those in between are drawn
            if len(drawn):
                said = self._ask("predict", block, drawn)
                positive[drawn] = said == self.mended.classes_[1]
            own = laws.own[law]  # a chance is nobody's decision
            tally.changed += int((((own == 0) & positive) | ((own == 1) & ~positive)).sum())
            added[self.wanted.decision] = self._words[positive.astype(np.int64)]
        if self.wanted.edited is not None:
            added[self.wanted.edited] = self._names_of(cells, rows.height)
        edits = Edits(cells, added)
        tally.rows += rows.height
        tally.edited += len(edits.edited)
        tally.drawn += len(drawn)
        tally.without_group += int(laws.absent[law].sum())
        tally.unknown_group += int(laws.stranger[law].sum())
        for name, (places, _) in cells.items():
            tally.cells[name] = tally.cells.get(name, 0) + len(places)
        return edits

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

    def _look_up(self, block: Block) -> IntArray:
        """Each row's place among the laws; those of rows not met before are worked out."""
        rows = block.rows.select(self._key)
        if self._laws is not None and self._laws.rows.schema != rows.schema:
            self._forget()  # whole numbers have become others, or the reverse
        if self._laws is not None:
            law = self._places(rows)
            new = rows.filter(law.is_null())
            if new.height == 0:
                return law.to_numpy().astype(np.int64)
            new = new.unique(maintain_order=True)
            if len(self._laws) + new.height > MOST_KNOWN:
                self._forget()
                new = rows.unique(maintain_order=True)
        else:
            new = rows.unique(maintain_order=True)
        found = self._work_out(new, block)
        self._laws = found if self._laws is None else self._laws.followed_by(found)
        return self._places(rows).to_numpy().astype(np.int64)

    def _forget(self) -> None:
        """Drop the laws, but for what they did to the rates of the groups."""
        self._shared, self._people, self._laws = self._spread(), np.zeros(0), None

    def _spread(self) -> FloatArray:
        """Per group: people; the spread of decisions if equal rows share a draw; else the variance.

        Spreads are added up over laws that were forgotten: the same rows may have come again.
        """
        if self._laws is None:
            return self._shared
        laws, n, groups = self._laws, self._people, self._shared.shape[1]

        def summed(values: FloatArray) -> FloatArray:
            return np.bincount(laws.group + 1, values, groups + 1)[1:].astype(np.float64)

        shared = np.sqrt(summed(n**2 * laws.variance))
        more = np.stack([summed(n), shared, summed(n * laws.variance)])
        return np.asarray(self._shared + more, np.float64)

    @property
    def shared_draws(self) -> SharedDraws | None:
        """What it does to a group's rate that equal rows share one draw, where that is much."""
        if self.id_ is not None:
            return None
        people, shared, own = self._spread()
        n = np.maximum(1.0, people)
        groups = self.mended.data_.groups
        return worst(map(SharedDraws, groups, shared / n, np.sqrt(own) / n))

    def _places(self, rows: pl.DataFrame) -> pl.Series:
        assert self._laws is not None
        known = self._laws.rows.with_row_index(_LAW)
        joined = rows.join(known, on=self._key, how="left", nulls_equal=True, maintain_order="left")
        return joined[_LAW]

    def _work_out(self, new: pl.DataFrame, block: Block) -> _Laws:
        """The law of distinct rows: where to, which decision, or that it is left to chance."""
        groups = {name: new[name] for name in self.groups}
        member, absent = read_membership(groups, Frame.read(new), self.mended.data_.groups)
        stranger = (member < 0) & ~absent
        if stranger.any() and self.mended.unknown_group == "error":
            self._refuse(block, new[int(np.argmax(stranger))])
        people = self.mended._read(as_fitted(new, self._known, self._inputs), groups)
        chance = np.zeros(new.height)
        decision = people.drawn(people.answers.decision, lambda route: route.decision, chance)
        own = people.answers.decision[people.row]
        drawn = (decision > 0) & (decision < 1)
        destination = np.full(new.height, -1)
        tables = [as_kind(people.inputs.native, "polars").clear()]
        for one in people.routes:
            drawn[one.members] |= one.route.random[one.place]
            picked = one.pick(chance)
            if one.route.table is not None:
                size = sum(table.height for table in tables)
                destination[one.members] = np.where(picked >= 0, picked + size, -1)
                tables.append(as_kind(one.route.table.native, "polars"))
        by_edits = self.wanted.emit == "rows"
        variance = people.variance_edited() if by_edits else people.variance_decided()
        return _Laws(
            new, _stacked(tables), destination, decision, own, drawn, variance, member, absent,
            stranger,
        )  # fmt: skip

    def _refuse(self, block: Block, group_of: pl.DataFrame) -> NoReturn:
        """Somebody of a group that was not audited."""
        import polars as pl

        same = [pl.col(name).eq_missing(pl.lit(group_of[name][0])) for name in self.groups]
        at = block.rows.select(pl.all_horizontal(same).arg_max()).item()
        raise DataError(
            "--group",
            f"must be among the audited groups, {listed(self.mended.data_.groups)}, or missing",
            f"got {' & '.join(str(group_of[name][0]) for name in self.groups)!r} "
            f"in {block.where(at)}",
            "Audit that group too, or say --unknown-group keep.",
        )

    def _ask(self, what: str, block: Block, who: IntArray) -> Any:
        """Some people's edited rows or decisions, one by one, by their numbers."""
        people = block.rows[who]
        try:
            answer = getattr(self.mended, what)(
                as_fitted(people, self._known, self._inputs),
                sensitive_features={name: people[name] for name in self.groups},
                ids=None if self.id_ is None else people[self.id_],
            )
        except BadId as error:
            raise error.at(block.where(int(who[error.row]))) from None
        return as_kind(answer, "polars") if what == "transform" else answer


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
    """Values in the type of their column, unless that would change a number."""
    if values.dtype == kind:
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
            before, known = both[name]
            # of two types, one of them has a fraction
            kind = known.dtype if known.dtype == values.dtype else float
            together = known.cast(kind).append(values.cast(kind))
            both[name] = (np.concatenate([before, rows]), together)
        else:
            both[name] = (rows, values)
    return both


def _stacked(tables: list[pl.DataFrame]) -> pl.DataFrame:
    import polars as pl

    return pl.concat(tables, how="vertical_relaxed")
