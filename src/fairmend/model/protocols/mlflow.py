"""MLflow's scoring protocol: ``/invocations`` with a frame by rows or by records, tensors or CSV.

https://mlflow.org/docs/latest/ml/deployment/deploy-model-locally/
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from fairmend.model.protocols.wire import (
    JSON,
    Asked,
    BadAnswer,
    BadRequest,
    Cell,
    Protocol,
    strict_json,
)

__all__ = ["MLflow"]


class _Split(msgspec.Struct, forbid_unknown_fields=True):
    columns: list[str]
    data: list[list[Cell]]
    index: list[Cell] | UnsetType = UNSET


class _Body(msgspec.Struct, forbid_unknown_fields=True):
    dataframe_split: _Split | UnsetType = UNSET
    dataframe_records: list[dict[str, Cell]] | UnsetType = UNSET
    instances: list[Cell | list[Cell] | dict[str, Cell]] | UnsetType = UNSET
    inputs: list[Cell | list[Cell]] | dict[str, list[Cell | list[Cell]]] | UnsetType = UNSET
    params: dict[str, Cell | list[Cell]] | UnsetType = UNSET


class _Predictions(msgspec.Struct):
    predictions: list[Any] | dict[str, list[Any]]


_request = msgspec.json.Decoder(_Body)
_response = msgspec.json.Decoder(_Predictions)
_json = msgspec.json.Encoder()
_MOST_CELLS = 4
"""To each one sent: records that share few keys would make a table of nearly nothing but gaps."""


class MLflow(Protocol):
    """A model behind ``mlflow models serve``, or anything that speaks as it does.

    >>> MLflow().encode(["age"], [[31]], ["int"])
    b'{"dataframe_split":{"columns":["age"],"data":[[31]]}}'
    >>> MLflow().decode(b'{"predictions": [1]}')
    [1]
    """

    name = "mlflow"

    def __init__(self) -> None:
        """Remember the head of the last body: its columns, and how it begins."""
        self._head: tuple[Sequence[str] | None, bytes] = None, b""

    def path(self, path: str) -> str:
        plain = path.rstrip("/")
        return plain if plain.endswith("/invocations") else f"{plain}/invocations"

    def encode(
        self, names: Sequence[str] | None, rows: Sequence[Sequence[Any]], kinds: Sequence[str]
    ) -> bytes:
        if names is None:
            return b'{"inputs":%b}' % _json.encode(rows)
        known, head = self._head
        if known is not names:  # the same columns again, as a rule
            head = b'{"dataframe_split":{"columns":%b,"data":' % _json.encode(names)
            self._head = names, head
        return head + _json.encode(rows) + b"}}"

    def decode(self, body: bytes) -> list[Any]:
        try:
            said = _response.decode(body).predictions
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise BadAnswer("no JSON with predictions") from None
        if isinstance(said, dict):  # a frame by columns
            names = list(said)
            return [
                dict(zip(names, row, strict=False)) for row in zip(*said.values(), strict=False)
            ]
        return said

    def read(self, body: bytes, content_type: str = JSON) -> Asked:
        kind = content_type.partition(";")[0].strip().lower()
        if kind == "text/csv":
            return _read_csv(body)
        if kind != JSON:
            raise BadRequest("bad_content_type", f"send {JSON} or text/csv", 415)
        sent = strict_json(body, _request, _keys)
        parameters = {} if sent.params is UNSET else sent.params
        if sent.dataframe_split is not UNSET:
            split = sent.dataframe_split
            asked = Asked(tuple(split.columns), split.data, "dataframe_split", parameters)
        elif sent.dataframe_records is not UNSET:
            asked = _by_records(sent.dataframe_records, "dataframe_records", parameters)
        elif sent.instances is not UNSET:
            asked = by_instances(sent.instances, parameters)
        elif sent.inputs is not UNSET:
            asked = _by_columns(sent.inputs, parameters)
        else:
            raise BadRequest("bad_request", "the JSON holds no rows", 422)
        if _forms(sent) > 1:
            raise BadRequest("bad_request", "the JSON must hold rows in one form, not in two", 422)
        return asked

    def write(
        self, asked: Asked, answers: list[Any], more: Mapping[str, Any] | None = None
    ) -> bytes:
        return _json.encode({"predictions": answers, **(more or {})})

    def error(self, code: str, message: str) -> bytes:
        return _json.encode({"error_code": code.upper(), "message": message})


def _forms(sent: _Body) -> int:
    forms = (sent.dataframe_split, sent.dataframe_records, sent.instances, sent.inputs)
    return sum(form is not UNSET for form in forms)


def _keys(sent: _Body) -> int:
    keys = _forms(sent)
    if sent.dataframe_split is not UNSET:
        keys += 2 + (sent.dataframe_split.index is not UNSET)
    if sent.dataframe_records is not UNSET:
        keys += sum(map(len, sent.dataframe_records))
    if sent.instances is not UNSET:
        keys += sum(len(row) for row in sent.instances if isinstance(row, dict))
    if isinstance(sent.inputs, dict):
        keys += len(sent.inputs)
    if sent.params is not UNSET:
        keys += 1 + len(sent.params)
    return keys


def by_instances(instances: list[Any], parameters: Mapping[str, Any]) -> Asked:
    """Rows as lists of cells, as records, or as single cells of one column."""
    kinds = set(map(type, instances))
    if kinds == {dict}:
        return _by_records(instances, "instances", parameters)
    if kinds == {list}:
        return Asked(None, instances, "instances", parameters)
    if kinds & {dict, list}:
        raise BadRequest("bad_request", "all instances must have the same form", 422)
    return Asked(None, [[cell] for cell in instances], "instances", parameters)


def _by_records(records: list[dict[str, Any]], form: str, parameters: Mapping[str, Any]) -> Asked:
    """Rows under all keys there are; a cell whose key a record lacks is UNSET."""
    names = tuple(dict.fromkeys(chain.from_iterable(records)))
    if len(names) * len(records) > _MOST_CELLS * sum(map(len, records)):
        raise BadRequest("bad_request", "all records must have the same keys", 422)
    rows = [
        list(record.values())
        if tuple(record) == names
        else [record.get(name, UNSET) for name in names]
        for record in records
    ]
    return Asked(names, rows, form, parameters)


def _by_columns(inputs: Any, parameters: Mapping[str, Any]) -> Asked:
    if isinstance(inputs, list):
        asked = by_instances(inputs, parameters)
        return Asked(None, asked.rows, "inputs", parameters)
    columns = [[_unnested(cell) for cell in column] for column in inputs.values()]
    if len(set(map(len, columns))) > 1:
        raise BadRequest("bad_request", "all columns must have the same length", 422)
    rows = [list(row) for row in zip(*columns, strict=True)]
    return Asked(tuple(inputs), rows, "inputs", parameters)


def _unnested(cell: Any) -> Any:
    """A cell of a column that came as an n by 1 tensor."""
    if isinstance(cell, list):
        if len(cell) != 1:
            raise BadRequest("bad_request", "a column must have one cell a row", 422)
        return cell[0]
    return cell


def _read_csv(body: bytes) -> Asked:
    try:
        text = body.decode("utf-8")
        lines = [line for line in csv.reader(io.StringIO(text, newline=""), strict=True) if line]
    except (UnicodeDecodeError, csv.Error):
        raise BadRequest("bad_csv", "the body must be CSV in UTF-8 with a line of names") from None
    if "\x00" in text:
        raise BadRequest("bad_csv", "the body must be CSV in UTF-8 with a line of names")
    names, *rows = lines or [[]]
    if any(len(row) != len(names) for row in rows):
        raise BadRequest("bad_csv", "all lines must have as many cells as the line of names")
    cells = [[cell if cell != "" else None for cell in row] for row in rows]
    return Asked(tuple(names), cells, "csv", text=True)
