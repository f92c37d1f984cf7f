"""The model's inputs as the audit saw them: cells checked, typed, and made a frame again."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType

from fairmend.data.columns import Frame
from fairmend.data.containers import from_cells
from fairmend.model.remote import cells, kinds
from fairmend.model.wire import BadRequest, Cell, Query, Whole

__all__ = ["Row", "Schema", "missing_column"]

Row = tuple[Any, ...]
_TYPES: dict[str, type] = {"bool": bool, "int": int, "float": float, "str": str}
_TRUTH = {"true": True, "1": True, "false": False, "0": False}
_EXACT = 2.0**53
# An integer of more than 64 bits is refused by the protocols: leave it to them.
_Moderate = Annotated[float, msgspec.Meta(ge=-(2.0**63), lt=2.0**63)]
_CELLS: dict[str, Any] = {"bool": bool, "int": Whole, "float": _Moderate, "str": str}
_cells = msgspec.structs.astuple
Read = tuple[list[Row], dict[str, list[Any]]]
ReadEach = tuple[list[Row | None], list[BadRequest | None], dict[str, list[Any]]]


@dataclass(frozen=True, eq=False)
class Schema:
    """Names and types of the columns, by which every cell from outside is read."""

    table: Frame
    """The audit's distinct rows."""
    kinds: tuple[str, ...]
    optional: tuple[bool, ...]
    """Which columns may be empty: those that were so for somebody in the audit, and `personal`."""
    person: tuple[str, ...]
    """Columns that say who somebody is: group and id."""
    personal: frozenset[str]
    """Inputs among them; people who opt out leave these empty, or out."""
    who: frozenset[str]
    """The others among them, which the vendor is not sent."""
    missing: frozenset[str]
    """Text that stands for a missing value, as in the file of the audit."""
    _types: tuple[type, ...]
    _decoders: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, table: Frame, person: Sequence[str] = (), missing: Collection[str] = ()) -> Schema:
        """The columns of a table, beside those that say who somebody is."""
        of_kind = tuple(kinds(table))
        personal = frozenset(person).intersection(table.names)
        optional = tuple(
            column.has_missing or name in personal
            for name, column in zip(table.names, table.encoded, strict=True)
        )
        types = tuple(_TYPES[kind] for kind in of_kind)
        who = frozenset(person) - personal
        marks = frozenset(missing)
        return cls(table, of_kind, optional, tuple(person), personal, who, marks, types)

    @property
    def names(self) -> tuple[str, ...]:
        return self.table.names

    @property
    def sent_names(self) -> tuple[str, ...] | None:
        """The names of the vendor's columns; None where it takes them by place."""
        return None if self.table.is_array else self.names

    def known_rows(self) -> dict[Row, int]:
        """The audit's rows, each with its place."""
        return {tuple(row): place for place, row in enumerate(cells(self.table))}

    # ---------------------------------------------------------------- from outside

    def read(self, query: Query) -> Read:
        """The model's inputs in their order and types, and the columns that say who is who."""
        rows, problems, columns = self.read_each(query)
        for problem in problems:
            if problem is not None:
                raise problem
        return [row for row in rows if row is not None], columns

    def read_each(self, query: Query) -> ReadEach:
        """As `read`, but what is wrong with a row is that row's: no row, or a problem beside it."""
        if not query.rows:
            raise BadRequest("no_rows", "there must be at least one row", 422)
        names = self.names if query.names is None else query.names
        spot = {name: j for j, name in enumerate(names)}
        if len(spot) != len(names):
            raise BadRequest("bad_columns", "column names must be distinct", 422)
        order = [spot.get(name) for name in self.names]
        wrong = self._wrong_columns(spot)
        rows: list[Row | None] = []
        problems: list[BadRequest | None] = []
        for row in query.rows:
            typed, problem = None, wrong
            try:
                if len(row) != len(names):
                    message = "every row must have as many cells as columns"
                    raise BadRequest("bad_row", message, 422)
                typed = self._typed_row(row, order, query.text)
            except BadRequest as error:
                problem = problem or error
            rows.append(typed)
            problems.append(problem)
        columns = {
            name: [None if len(row) <= j or row[j] is UNSET else row[j] for row in query.rows]
            for name, j in spot.items()
            if name in self.person
        }
        return rows, problems, columns

    def _wrong_columns(self, names: Collection[str]) -> BadRequest | None:
        for name in self.names:
            if name not in names and name not in self.personal:
                return missing_column(name)
        if any(name not in self.names and name not in self.person for name in names):
            message = "there is a column that does not belong here"
            return BadRequest("bad_columns", message, 422)
        return None

    def _typed_row(self, row: Sequence[Any], order: Sequence[int | None], text: bool) -> Row:
        inputs = tuple(
            (None if name in self.personal else UNSET) if j is None else row[j]
            for name, j in zip(self.names, order, strict=True)
        )
        inputs = self.unmarked(inputs)
        typed = tuple(map(type, inputs)) == self._types
        return inputs if typed else self.typed(inputs, text=text)

    def read_records(self, key: str, body: bytes) -> Read | None:
        """JSON records under a key, in the columns' own types; None for everything else.

        The usual request, in a third of the time that a protocol and `read` need for it.
        """
        decoder = self._decoders.get(key) or self._decoder(key)
        try:
            rows = list(map(_cells, decoder.decode(body).records))
            first, *others = rows
        except (msgspec.MsgspecError, ValueError, RecursionError, AttributeError):
            return None
        wide, columns = len(self.kinds), {}
        for j, name in enumerate(self.person, wide):
            if first[j] is not UNSET:
                columns[name] = column = [row[j] for row in rows] if others else [first[j]]
                if others and UNSET in column:
                    return None
        if body.count(b":") != 1 + len(rows) * (wide + len(columns)):
            return None  # a key came twice, or not in every record
        if self.missing:
            rows = list(map(self.unmarked, rows))
            if any(row[j] is None for row in rows for j in range(wide) if not self.optional[j]):
                return None
        return [row[:wide] for row in rows], columns

    def unmarked(self, cells: Sequence[Any]) -> Row:
        """Cells, with nothing where text stands for a missing value."""
        if not self.missing:
            return tuple(cells)
        return tuple(
            None if isinstance(cell, str) and cell in self.missing else cell for cell in cells
        )

    def _decoder(self, key: str) -> msgspec.json.Decoder[Any]:
        """Reads a body of records; nothing fits where names do not allow it."""
        named = (*self.names, *self.person)
        fields: list[Any] = [
            (f"f{j}", _CELLS[kind] | None if optional else _CELLS[kind])
            for j, (kind, optional) in enumerate(zip(self.kinds, self.optional, strict=True))
        ]
        fields += [(f"f{j}", Cell | UnsetType, UNSET) for j in range(len(fields), len(named))]
        renamed = {f"f{j}": name for j, name in enumerate(named)}
        strict = partial(msgspec.defstruct, forbid_unknown_fields=True, gc=False)
        body: Any = None
        with suppress(ValueError):  # an input that also says who is who; odd characters in a name
            row: Any = strict("Row", fields, rename=renamed)
            body = strict("Body", [("records", list[row])], rename={"records": key})
        decoder = self._decoders[key] = msgspec.json.Decoder(body)
        return decoder

    def typed(self, row: Row, *, text: bool = False) -> Row:
        """A row with each cell in its column's type, or an error that names the column."""
        columns = zip(self.names, self.kinds, self.optional, row, strict=True)
        return tuple(
            None if cell is UNSET and name in self.personal
            else _cell(name, kind, optional, cell, text)
            for name, kind, optional, cell in columns
        )  # fmt: skip

    # ---------------------------------------------------------------- back to a frame

    def frame(self, rows: Sequence[Row]) -> Frame:
        """Rows in the container and the types of the audit."""
        return from_cells(rows, self.table)


def missing_column(name: str) -> BadRequest:
    """An input of the model that did not come."""
    return BadRequest("bad_columns", f"the column {name!r} is missing", 422)


def _cell(name: str, kind: str, optional: bool, cell: Any, text: bool) -> Any:
    """One cell in its column's type, or an error that names the column and nothing else."""
    if cell is None and optional:
        return None
    if cell is UNSET:
        raise missing_column(name)
    try:
        if text and isinstance(cell, str):
            return _from_text(cell, kind)
        if kind == "float" and type(cell) is int:
            return float(cell)
        if kind == "int" and type(cell) is float and cell.is_integer() and abs(cell) <= _EXACT:
            return int(cell)
        if type(cell) is _TYPES[kind]:
            return cell
    except (KeyError, ValueError, OverflowError):
        pass
    raise BadRequest("bad_type", f"the column {name!r} must hold {_WORDS[kind]}", 422)


def _from_text(cell: str, kind: str) -> Any:
    """A cell of CSV, where a whole number may be written as 61.0."""
    if kind == "bool":
        return _TRUTH[cell.lower()]
    if kind == "int" and "." in cell:
        number = float(cell)
        if not number.is_integer() or abs(number) > _EXACT:
            raise ValueError
        return int(number)
    return _finite(_TYPES[kind](cell))


def _finite(value: Any) -> Any:
    if isinstance(value, int | float) and not abs(value) <= _LARGEST[type(value)]:
        raise ValueError
    return value


_LARGEST = {int: 2**63 - 1, float: sys.float_info.max}
_WORDS = {"bool": "true or false", "int": "whole numbers", "float": "numbers", "str": "text"}
