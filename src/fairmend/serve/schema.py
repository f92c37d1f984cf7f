"""The model's inputs as the audit saw them: cells checked, typed, and made a frame again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from msgspec import UNSET

from fairmend.data.columns import Frame
from fairmend.data.containers import from_cells
from fairmend.model.protocols.wire import Asked, BadRequest
from fairmend.model.remote import cells, kinds

__all__ = ["Row", "Schema", "missing_column"]

Row = tuple[Any, ...]
_TYPES: dict[str, type] = {"bool": bool, "int": int, "float": float, "str": str}
_TRUTH = {"true": True, "1": True, "false": False, "0": False}
_EXACT = 2.0**53
_MOST_HEADERS = 1_000


@dataclass(frozen=True, eq=False)
class Schema:
    """Names and types of the columns, by which every cell from outside is read."""

    table: Frame
    """The audit's distinct rows."""
    names: tuple[str, ...]
    kinds: tuple[str, ...]
    optional: tuple[bool, ...]
    """Which columns may be empty: those that were so for somebody in the audit, and `personal`."""
    personal: frozenset[str]
    """Inputs that also say who somebody is; who does not say leaves them empty, or out."""
    _types: tuple[type, ...]
    _places: dict[Any, tuple[list[int | None] | None, dict[str, int]]] = field(default_factory=dict)

    @classmethod
    def of(cls, table: Frame, apart: Sequence[str] = ()) -> Schema:
        """The columns of a table; those among ``apart`` also say who somebody is."""
        found = tuple(kinds(table))
        personal = frozenset(apart).intersection(table.names)
        empty = tuple(
            column.has_missing or name in personal
            for name, column in zip(table.names, table.encoded, strict=True)
        )
        types = tuple(_TYPES[kind] for kind in found)
        return cls(table, table.names, found, empty, personal, types)

    @property
    def sent_names(self) -> tuple[str, ...] | None:
        """What the vendor's columns are called; None where it takes them by place."""
        return None if self.table.is_array else self.names

    def known_rows(self) -> dict[Row, int]:
        """The audit's rows, each with its place."""
        return {tuple(row): place for place, row in enumerate(cells(self.table))}

    # ---------------------------------------------------------------- from outside

    def read(self, asked: Asked, apart: Sequence[str]) -> tuple[list[Row], dict[str, list[Any]]]:
        """The model's inputs in their order and types, and the columns that are set apart."""
        if not asked.rows:
            raise BadRequest("no_rows", "there must be at least one row", 422)
        order, others = self._place(asked.names, tuple(apart))
        wide = len(self.names) if asked.names is None else len(asked.names)
        types, rows = self._types, []
        for row in asked.rows:
            if len(row) != wide:
                raise BadRequest("bad_row", "every row must have as many cells as columns", 422)
            mine = tuple(row if order is None else [None if j is None else row[j] for j in order])
            rows.append(
                mine if tuple(map(type, mine)) == types else self.typed(mine, text=asked.text)
            )
        columns = {
            name: [None if row[j] is UNSET else row[j] for row in asked.rows]
            for name, j in others.items()
        }
        return rows, columns

    def _place(
        self, names: tuple[str, ...] | None, apart: tuple[str, ...]
    ) -> tuple[list[int | None] | None, dict[str, int]]:
        """Where the model's inputs stand among the columns, and where what is set apart does."""
        if names is None:
            return None, {name: j for j, name in enumerate(self.names) if name in apart}
        found = self._places.get((names, apart))
        if found is None:
            spot = {name: j for j, name in enumerate(names)}
            if len(spot) != len(names):
                raise BadRequest("bad_columns", "column names must be distinct", 422)
            for name in self.names:
                if name not in spot and name not in self.personal:
                    raise missing_column(name)
            if any(name not in self.names and name not in apart for name in names):
                raise BadRequest("bad_columns", "there is a column that does not belong here", 422)
            order = None if names == self.names else [spot.get(name) for name in self.names]
            found = order, {name: spot[name] for name in apart if name in spot}
            if len(self._places) >= _MOST_HEADERS:
                self._places.clear()
            self._places[names, apart] = found
        return found

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
            return _TRUTH[cell.lower()] if kind == "bool" else _finite(_TYPES[kind](cell))
        if kind == "float" and type(cell) is int:
            return float(cell)
        if kind == "int" and type(cell) is float and cell.is_integer() and abs(cell) <= _EXACT:
            return int(cell)
        if type(cell) is _TYPES[kind]:
            return cell
    except (KeyError, ValueError, OverflowError):
        pass
    raise BadRequest("bad_type", f"the column {name!r} must hold {_WORDS[kind]}", 422)


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not np.isfinite(value):
        raise ValueError
    if isinstance(value, int) and abs(value) > 2**63 - 1:
        raise ValueError
    return value


_WORDS = {"bool": "true or false", "int": "whole numbers", "float": "numbers", "str": "text"}
