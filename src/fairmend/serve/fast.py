"""Requests in their usual forms, read in one step by decoders made for the model's columns.

Names, types and the absence of anything else are checked by msgspec while it decodes. Whatever does
not fit is left to the protocols, which convert what can be converted and say what is wrong.
"""

from __future__ import annotations

from contextlib import suppress
from operator import itemgetter
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType

from fairmend.model.protocols.wire import Cell, Whole
from fairmend.serve.schema import Row, Schema

__all__ = ["FastReader", "Read"]

# An integer of more than 64 bits is refused where numbers are told apart: leave such to that.
_Moderate = Annotated[float, msgspec.Meta(ge=-(2.0**63), lt=2.0**63)]
_CELLS: dict[str, Any] = {"bool": bool, "int": Whole, "float": _Moderate, "str": str}
_MOST_HEADERS = 1_000
_cells = msgspec.structs.astuple
Read = tuple[list[Row], dict[str, list[Any]]]


class _Split(msgspec.Struct, forbid_unknown_fields=True):
    columns: tuple[str, ...]
    data: msgspec.Raw


class FastReader:
    """Reads records and split frames of one schema; None for what is written otherwise."""

    def __init__(self, schema: Schema, apart: tuple[str, ...]) -> None:
        self.schema, self._wide = schema, len(schema.names)
        self._types = {
            name: _CELLS[kind] | None if optional else _CELLS[kind]
            for name, kind, optional in zip(
                schema.names, schema.kinds, schema.optional, strict=True
            )
        }
        self._apart = tuple(name for name in apart if name not in self._types)
        self._both = len(self._apart) == len(apart)  # else a column is an input and set apart too
        self._spots = list(enumerate(self._apart, self._wide))
        self._frames: dict[tuple[str, ...], Any] = {}
        records = self._records()
        self._decoders = {
            "instances": _decoder(records, "instances", UnsetType),
            "mlflow": _decoder(records, "dataframe_records", _Split | UnsetType),
        }

    def _records(self) -> Any:
        """The type of the model's records; one that nothing fits where they have none."""
        named = [*self._types, *self._apart]
        fields: list[tuple[str, Any] | tuple[str, Any, Any]] = [
            (f"f{j}", cell) for j, cell in enumerate(self._types.values())
        ]
        for j in range(len(fields), len(named)):
            fields.append((f"f{j}", Cell | UnsetType, UNSET))
        if self._both:
            with suppress(ValueError):  # a name with quotes or control characters
                row = msgspec.defstruct(
                    "Row", fields, forbid_unknown_fields=True, gc=False,
                    rename={f"f{j}": name for j, name in enumerate(named)},
                )  # fmt: skip
                return list[row] | UnsetType  # type: ignore[valid-type]
        return UnsetType

    def read(self, protocol: str, body: bytes) -> Read | None:
        """The model's inputs and the columns set apart."""
        decoder = self._decoders.get(protocol)
        if decoder is None:
            return None
        try:
            sent = decoder.decode(body)
            found = sent.records
            if found is UNSET:
                return self._by_rows(sent.split, body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        if len(found) != 1:
            return self._many(found, body)
        cells, columns = _cells(found[0]), {}  # most requests have one row
        for j, name in self._spots:
            if (cell := cells[j]) is not UNSET:
                columns[name] = [cell]
        k = self._wide
        # as many colons as keys: no key came twice, and there is no frame beside the records
        return ([cells[:k]], columns) if body.count(b":") == 1 + k + len(columns) else None

    def _many(self, found: list[Any], body: bytes) -> Read | None:
        if not found:
            return None
        every, k = list(map(_cells, found)), self._wide
        columns = {
            name: [cells[j] for cells in every]
            for j, name in self._spots
            if every[0][j] is not UNSET
        }
        if any(UNSET in column for column in columns.values()):
            return None
        # and no row has a key that others lack
        keys = 1 + len(every) * (k + len(columns))
        return ([cells[:k] for cells in every], columns) if body.count(b":") == keys else None

    def _by_rows(self, split: _Split | UnsetType, body: bytes) -> Read | None:
        if split is UNSET or body.count(b":") != 3:
            return None
        header = split.columns
        frame = self._frames.get(header)
        if frame is None:
            frame = self._frame(header)
            if frame is None:
                return None
        decoder, inputs, apart = frame
        cells = decoder.decode(split.data)
        if not cells:
            return None
        columns = {name: [row[j] for row in cells] for name, j in apart}
        return (cells if inputs is None else list(map(inputs, cells))), columns

    def _frame(self, header: tuple[str, ...]) -> Any:
        """How to read rows under some columns; None where they are not the model's."""
        spot = {name: j for j, name in enumerate(header)}
        known = all(name in spot for name in self._types) and self._both
        if not known or len(spot) != len(header) or not set(spot) <= {*self._types, *self._apart}:
            return None
        types = tuple(self._types.get(name, Cell) for name in header)
        order = [spot[name] for name in self._types]
        inputs: Any = None
        if order != list(range(len(header))):
            inputs = itemgetter(*order) if len(order) > 1 else lambda row: (row[order[0]],)
        decoder = msgspec.json.Decoder(list[tuple[types]])  # type: ignore[valid-type]
        apart = [(name, spot[name]) for name in self._apart if name in spot]
        if len(self._frames) >= _MOST_HEADERS:
            self._frames.clear()
        self._frames[header] = decoder, inputs, apart
        return self._frames[header]


def _decoder(records: Any, key: str, split: Any) -> msgspec.json.Decoder[Any]:
    """Reads bodies that hold records under a key, or a split frame."""
    body = msgspec.defstruct(
        "Body", [("records", records, UNSET), ("split", split, UNSET)],
        rename={"records": key, "split": "dataframe_split"}, forbid_unknown_fields=True, gc=False,
    )  # fmt: skip
    return msgspec.json.Decoder(body)
