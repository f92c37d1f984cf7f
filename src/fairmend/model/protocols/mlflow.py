"""MLflow's scoring protocol: ``/invocations`` with a frame by rows or by records, tensors or CSV.

https://mlflow.org/docs/latest/ml/deployment/deploy-model-locally/
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from fairmend.model.protocols.instances import (
    LISTS,
    PARAMETERS,
    RECORDS,
    Instances,
    as_instances,
    by_instances,
    by_records,
)
from fairmend.model.wire import JSON, BadRequest, Cell, Query, json_object, json_rows, strict_json

_COLUMNS = "columns"
"""The form of ``inputs`` that hold a list per column."""
_json = msgspec.json.Encoder()


class _Split(msgspec.Struct, forbid_unknown_fields=True):
    columns: tuple[str, ...]
    data: list[list[Cell]]
    index: list[Cell] | UnsetType = UNSET


class _Body(msgspec.Struct, forbid_unknown_fields=True):
    dataframe_split: _Split | UnsetType = UNSET
    dataframe_records: list[dict[str, Cell]] | UnsetType = UNSET
    instances: list[Cell | list[Cell] | dict[str, Cell]] | UnsetType = UNSET
    inputs: list[Cell | list[Cell]] | dict[str, list[Cell | list[Cell]]] | UnsetType = UNSET
    params: dict[str, Cell | list[Cell]] | UnsetType = UNSET


_request = msgspec.json.Decoder(_Body)


class MLflow(Instances):
    """A model behind ``mlflow models serve``; its answers look as those of plain instances do.

    >>> MLflow().encode(["age"], [[31]], ["int"])
    b'{"dataframe_split":{"columns":["age"],"data":[[31]]}}'
    """

    name = "mlflow"
    title = "MLflow scoring"
    records_key = "dataframe_records"
    paths = ("/invocations",)
    content_types = (JSON, "text/csv")

    @staticmethod
    def fits(path: str) -> bool:
        return path.rstrip("/").endswith("/invocations")

    def path(self, path: str) -> str:
        plain = path.rstrip("/")
        return plain if self.fits(plain) else f"{plain}/invocations"

    def encode(
        self, names: Sequence[str] | None, rows: Sequence[Sequence[Any]], kinds: Sequence[str]
    ) -> bytes:
        if names is None:
            return _json.encode({"inputs": rows})
        return _head(tuple(names)) + _json.encode(rows) + b"}}"

    def read(self, body: bytes, content_type: str = JSON) -> Query:
        if self.check_content_type(content_type) != JSON:
            return _read_csv(body)
        sent = strict_json(body, _request)
        parameters = {} if sent.params is UNSET else sent.params
        forms = (sent.dataframe_split, sent.dataframe_records, sent.instances, sent.inputs)
        if forms.count(UNSET) != len(forms) - 1:
            raise BadRequest("bad_request", "the JSON must hold rows, in one form alone", 422)
        if sent.dataframe_records is not UNSET:
            return by_records(sent.dataframe_records, parameters)  # as this protocol's own form
        if sent.dataframe_split is not UNSET:
            split = sent.dataframe_split
            return Query(split.columns, split.data, parameters, form=("dataframe_split", LISTS))
        if sent.instances is not UNSET:
            read, key = by_instances(sent.instances, parameters), "instances"
        elif isinstance(sent.inputs, list):
            read, key = by_instances(sent.inputs, parameters), "inputs"
        else:
            assert sent.inputs is not UNSET
            read, key = _by_columns(sent.inputs, parameters), "inputs"
        return msgspec.structs.replace(read, form=(key, read.form))

    def again(
        self,
        query: Query,
        names: Sequence[str] | None,
        rows: Sequence[Sequence[Any]],
        parameters: Mapping[str, Any],
    ) -> tuple[bytes, str] | None:
        if query.text:
            return _csv_of(names or (), rows), "text/csv"
        key, form = query.form if isinstance(query.form, tuple) else (self.records_key, RECORDS)
        body: dict[str, Any] = {key: as_instances(form, names, rows)}
        if key == "dataframe_split":
            body = {key: {"columns": names, "data": body[key]}}
        elif form == _COLUMNS:
            columns = zip(*rows, strict=True)
            body = {key: dict(zip(names or (), map(list, columns), strict=True))}
        if parameters:
            body["params"] = parameters
        return _json.encode(body), JSON

    def error(self, code: str, message: str) -> bytes:
        return _json.encode({"error_code": code.upper(), "message": message})

    def request_schema(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        rows, records = json_rows(columns)
        names = {"type": "array", "items": {"enum": list(columns)}, "uniqueItems": True}
        cells = {"type": "array", "items": {"type": "array"}, "minItems": 1}
        lists = {name: {"type": "array"} for name in columns}
        needed = {name: lists[name] for name, c in columns.items() if not c.get("optional")}
        forms = {
            "dataframe_split": json_object(
                {"columns": names, "data": cells}, {"index": {"type": "array"}}
            ),
            "dataframe_records": records,
            "instances": {"oneOf": [rows, records]},
            "inputs": {"oneOf": [rows, json_object(needed, lists)]},
        }
        params = {"params": PARAMETERS["parameters"]}
        return {"oneOf": [json_object({form: schema}, params) for form, schema in forms.items()]}


@lru_cache(maxsize=16)
def _head(names: tuple[str, ...]) -> bytes:
    return b'{"dataframe_split":{"columns":%b,"data":' % _json.encode(names)


def _by_columns(inputs: dict[str, list[Any]], parameters: Mapping[str, Any]) -> Query:
    columns = [[_unnested(cell) for cell in column] for column in inputs.values()]
    if len(set(map(len, columns))) > 1:
        raise BadRequest("bad_request", "all columns must have the same length", 422)
    rows = [list(row) for row in zip(*columns, strict=True)]
    return Query(tuple(inputs), rows, parameters, form=_COLUMNS)


def _unnested(cell: Any) -> Any:
    """A cell of a column that came as an n by 1 tensor."""
    if isinstance(cell, list):
        if len(cell) != 1:
            raise BadRequest("bad_request", "a column must have one cell per row", 422)
        return cell[0]
    return cell


def _read_csv(body: bytes) -> Query:
    try:
        text = body.decode("utf-8")
        lines = [line for line in csv.reader(io.StringIO(text, newline=""), strict=True) if line]
        if "\x00" in text:
            raise csv.Error
    except (UnicodeDecodeError, csv.Error):
        raise BadRequest("bad_csv", "the body must be CSV in UTF-8 with a line of names") from None
    names, *rows = lines or [[]]
    if any(len(row) != len(names) for row in rows):
        raise BadRequest("bad_csv", "all lines must have as many cells as the line of names")
    cells = [[cell if cell != "" else None for cell in row] for row in rows]
    return Query(tuple(names), cells, text=True)


def _csv_of(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(["" if cell is None else cell for cell in row] for row in rows)
    return text.getvalue().encode()
