"""The plain protocol: ``{"instances": [...]}`` in, ``{"predictions": [...]}`` out.

Spoken by TensorFlow Serving and KServe v1, and by many servers people write themselves. A row is a
list of cells, or an object where columns have names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, ClassVar

import msgspec
from msgspec import UNSET, UnsetType

from fairmend.model.wire import (
    JSON,
    BadAnswer,
    BadRequest,
    Cell,
    Protocol,
    Query,
    json_object,
    json_rows,
    strict_json,
)

RECORDS, LISTS, CELLS = "records", "lists", "cells"
"""The forms of instances."""
PARAMETERS = {
    "parameters": {
        "type": "object",
        "description": "Groups and ids, one for all rows or one per row; others go to the vendor.",
    }
}

_MOST_CELLS = 4
"""Per cell sent: records that share few keys would make a table of nearly nothing but gaps."""
_json = msgspec.json.Encoder()


class _Body(msgspec.Struct, forbid_unknown_fields=True):
    instances: list[Cell | list[Cell] | dict[str, Cell]]
    parameters: dict[str, Cell | list[Cell]] | UnsetType = UNSET


class _Predictions(msgspec.Struct):
    predictions: list[Any] | dict[str, list[Any]]


_request = msgspec.json.Decoder(_Body)
_response = msgspec.json.Decoder(_Predictions)
_whole = msgspec.json.Decoder(dict[str, msgspec.Raw])
_Given = list[msgspec.Raw] | dict[str, list[msgspec.Raw]]


class Instances(Protocol):
    """A model that takes instances.

    >>> Instances().encode(["age"], [[31]], ["int"])
    b'{"instances":[{"age":31}]}'
    >>> Instances().decode(b'{"predictions": [1]}')
    [1]
    """

    name = "instances"
    title = "Plain instances"
    records_key = "instances"
    paths: ClassVar[tuple[str, ...]] = ("/predict", "/v1/models/{model}:predict")

    def encode(
        self, names: Sequence[str] | None, rows: Sequence[Sequence[Any]], kinds: Sequence[str]
    ) -> bytes:
        if names is None:
            return _json.encode({"instances": rows})
        return _json.encode({"instances": [dict(zip(names, row, strict=True)) for row in rows]})

    def decode(self, body: bytes) -> list[Any]:
        try:
            predictions = _response.decode(body).predictions
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise BadAnswer("no JSON with predictions") from None
        if isinstance(predictions, dict):  # a frame by columns
            rows = zip(*predictions.values(), strict=False)
            return [dict(zip(predictions, row, strict=False)) for row in rows]
        return predictions

    def read(self, body: bytes, content_type: str = JSON) -> Query:
        self.check_content_type(content_type)
        sent = strict_json(body, _request)
        return by_instances(sent.instances, {} if sent.parameters is UNSET else sent.parameters)

    def write(
        self, query: Query, answers: list[Any], more: Mapping[str, Any] | None = None
    ) -> bytes:
        return _json.encode({"predictions": answers, **(more or {})})

    def again(
        self,
        query: Query,
        names: Sequence[str] | None,
        rows: Sequence[Sequence[Any]],
        parameters: Mapping[str, Any],
    ) -> tuple[bytes, str] | None:
        body: dict[str, Any] = {self.records_key: as_instances(query.form, names, rows)}
        if parameters:
            body["parameters"] = parameters
        return _json.encode(body), JSON

    def replace(
        self, body: bytes, content_type: str, answers: Mapping[int, Any], more: Mapping[str, Any]
    ) -> tuple[bytes, str] | None:
        try:
            whole = _whole.decode(body)
            predictions = msgspec.json.decode(whole[self.answers_key], type=_Given)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError):
            raise BadAnswer("no JSON with predictions") from None
        if isinstance(predictions, dict):  # a frame by columns
            for i, answer in answers.items():
                for name, column in predictions.items():
                    column[i] = msgspec.Raw(_json.encode(answer[name]))
        else:
            for i, answer in answers.items():
                predictions[i] = msgspec.Raw(_json.encode(answer))
        return _json.encode({**whole, self.answers_key: predictions, **more}), JSON

    def error(self, code: str, message: str) -> bytes:
        return _json.encode({"error": {"code": code, "message": message}})

    def request_schema(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        rows, records = json_rows(columns)
        return json_object({"instances": {"oneOf": [rows, records]}}, PARAMETERS)


def by_instances(instances: list[Any], parameters: Mapping[str, Any]) -> Query:
    """Rows as lists of cells, as records, or as single cells of one column."""
    types = set(map(type, instances))
    if types == {dict}:
        return by_records(instances, parameters)
    if types == {list}:
        return Query(None, instances, parameters, form=LISTS)
    if types & {dict, list}:
        raise BadRequest("bad_request", "all instances must have the same form", 422)
    return Query(None, [[cell] for cell in instances], parameters, form=CELLS)


def as_instances(
    form: str | None, names: Sequence[str] | None, rows: Sequence[Sequence[Any]]
) -> list[Any]:
    """Rows in the form they came in; a cell that is UNSET is left out of its record."""
    if form == CELLS and all(len(row) == 1 for row in rows):
        return [row[0] for row in rows]
    if form == LISTS or names is None:
        return list(rows)
    return [
        {name: cell for name, cell in zip(names, row, strict=True) if cell is not UNSET}
        for row in rows
    ]


def by_records(records: list[dict[str, Any]], parameters: Mapping[str, Any]) -> Query:
    """Rows under all keys there are; a cell whose key a record lacks is UNSET."""
    names = tuple(dict.fromkeys(chain.from_iterable(records)))
    if len(names) * len(records) > _MOST_CELLS * sum(map(len, records)):
        raise BadRequest("bad_request", "all records must have the same keys", 422)
    rows = [[record.get(name, UNSET) for name in names] for record in records]
    return Query(names, rows, parameters, form=RECORDS)
