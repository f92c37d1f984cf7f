"""The Open Inference Protocol, version 2: tensors with names, shapes and types.

https://github.com/kserve/open-inference-protocol. Spoken by MLServer, KServe, Triton and others. A
frame travels as one tensor a column, an array as one tensor of rows and columns.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

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
    strict_json,
)

DATATYPES = {"bool": "BOOL", "int": "INT64", "float": "FP64", "str": "BYTES"}
"""The datatype of each kind of column."""
# What cells of a tensor may be, by its datatype.
_TYPES = {"BOOL": (bool,), "BYTES": (str,), "INT": (int,), "UINT": (int,), "FP": (int, float)}

_Datatype = Literal[
    "BOOL", "BYTES", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64",
    "FP16", "FP32", "FP64",
]  # fmt: skip
_Parameters = dict[str, Cell | list[Cell]]


class _Tensor(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    shape: list[int]
    datatype: _Datatype
    data: list[Cell | list[Cell]]
    parameters: _Parameters | UnsetType = UNSET


class _Wanted(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    parameters: _Parameters | UnsetType = UNSET


class _Body(msgspec.Struct, forbid_unknown_fields=True):
    inputs: list[_Tensor]
    id: str | UnsetType = UNSET
    outputs: list[_Wanted] | UnsetType = UNSET
    parameters: _Parameters | UnsetType = UNSET


class _Output(msgspec.Struct):
    name: str
    shape: list[int]
    data: list[Any]


class _Response(msgspec.Struct):
    outputs: list[_Output]


_request = msgspec.json.Decoder(_Body)
_response = msgspec.json.Decoder(_Response)
_json = msgspec.json.Encoder()
_MODEL = re.compile(r"(.*/v2/models/[^/]+(?:/versions/[^/]+)?)(?:/infer)?/?")


class V2(Protocol):
    """A model behind the Open Inference Protocol.

    >>> V2().path("/v2/models/credit")
    '/v2/models/credit/infer'
    >>> V2().decode(b'{"outputs": [{"name": "predict", "shape": [2, 1], "data": [0, 1]}]}')
    [0, 1]
    """

    name = "v2"
    title = "Open Inference Protocol"
    paths = ("/v2/models/{model}/infer", "/v2/models/{model}/versions/{version}/infer")
    answers_key = "outputs"

    @staticmethod
    def fits(path: str) -> bool:
        return "/v2/models/" in path

    def path(self, path: str) -> str:
        model = _MODEL.fullmatch(path)
        if model is None:
            raise ValueError("an address of this protocol ends in /v2/models/NAME")
        return f"{model[1]}/infer"

    def encode(
        self, names: Sequence[str] | None, rows: Sequence[Sequence[Any]], kinds: Sequence[str]
    ) -> bytes:
        if names is None:
            wide = "str" if "str" in kinds else "float" if "float" in kinds else kinds[0]
            cells = [cell for row in rows for cell in row]
            inputs = [_tensor("input-0", [len(rows), len(kinds)], wide, cells)]
        else:
            columns = zip(*rows, strict=True)
            inputs = [
                _tensor(name, [len(rows), 1], kind, list(column))
                for name, kind, column in zip(names, kinds, columns, strict=True)
            ]
        # KServe wants an id; MLServer makes a frame of the tensors where content_type says so
        body: dict[str, Any] = {"id": "fairmend", "inputs": inputs}
        if names is not None:
            body["parameters"] = {"content_type": "pd"}
        if self.output is not None:
            body["outputs"] = [{"name": self.output}]
        return _json.encode(body)

    def decode(self, body: bytes) -> list[Any]:
        try:
            outputs = _response.decode(body).outputs
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise BadAnswer("no JSON with outputs") from None
        if self.output is not None:
            outputs = [each for each in outputs if each.name == self.output]
        if not outputs:
            raise BadAnswer("no output to read")
        by_name = {each.name: _rows_of(each) for each in outputs}
        if len(by_name) == 1:
            return next(iter(by_name.values()))
        if len(set(map(len, by_name.values()))) > 1:
            raise BadAnswer("outputs of different lengths")
        rows = zip(*by_name.values(), strict=True)
        return [dict(zip(by_name, row, strict=True)) for row in rows]

    def read(self, body: bytes, content_type: str = JSON) -> Query:
        self.check_content_type(content_type)
        sent = strict_json(body, _request)
        if sent.outputs is not UNSET and any(each.name != self.given for each in sent.outputs):
            raise BadRequest("unknown_output", f"the only output is {self.given}", 422)
        parameters = {} if sent.parameters is UNSET else sent.parameters
        parameters = {name: v for name, v in parameters.items() if name != "content_type"}
        names, rows = _table(sent.inputs)
        return Query(names, rows, parameters, None if sent.id is UNSET else sent.id)

    def write(
        self, query: Query, answers: list[Any], more: Mapping[str, Any] | None = None
    ) -> bytes:
        if answers and isinstance(answers[0], dict):
            outputs = [_given(name, [answer[name] for answer in answers]) for name in answers[0]]
        else:
            outputs = [_given(self.given, answers)]
        body: dict[str, Any] = {"model_name": self.model, "outputs": outputs}
        if query.id is not None:
            body["id"] = query.id
        if more:
            body["parameters"] = more
        return _json.encode(body)

    def error(self, code: str, message: str) -> bytes:
        return _json.encode({"error": f"{code}: {message}"})

    def request_schema(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        tensor = {
            "name": {"enum": list(columns)},
            "shape": {"type": "array", "items": {"type": "integer", "minimum": 1}},
            "datatype": {"enum": list(DATATYPES.values())},
            "data": {"type": "array"},
        }
        tensors = {"type": "array", "items": json_object(tensor), "minItems": 1}
        return json_object({"inputs": tensors})

    @property
    def given(self) -> str:
        return self.output or "predict"


def _tensor(name: str, shape: list[int], kind: str, data: list[Any]) -> dict[str, Any]:
    tensor = {"name": name, "shape": shape, "datatype": DATATYPES[kind], "data": data}
    return {**tensor, "parameters": {"content_type": "str"}} if kind == "str" else tensor


def _given(name: str, answers: list[Any]) -> dict[str, Any]:
    """Answers as an output: a column of them, or as many columns as each has values."""
    wide = len(answers[0]) if answers and isinstance(answers[0], list) else 1
    flat = [cell for row in answers for cell in row] if wide > 1 else answers
    types = set(map(type, flat))
    kind = "bool" if types <= {bool} else "int" if types <= {int} else "float"
    kind = "str" if str in types else kind
    shape = [len(answers), wide]
    return {"name": name, "shape": shape, "datatype": DATATYPES[kind], "data": flat}


def _rows_of(output: _Output) -> list[Any]:
    """One entry per row: a cell, or a list where the tensor has several columns."""
    shape, data = output.shape, output.data
    if not shape or len(shape) > 2:
        raise BadAnswer("a tensor that is no column or table")
    if len(data) == shape[0] and (len(shape) == 1 or shape[1] == 1 or isinstance(data[0], list)):
        return data
    if len(shape) == 2 and len(data) == shape[0] * shape[1]:
        wide = shape[1]
        return [data[i : i + wide] for i in range(0, len(data), wide)]
    raise BadAnswer("a tensor whose data do not fit its shape")


def _table(tensors: list[_Tensor]) -> tuple[tuple[str, ...] | None, list[list[Any]]]:
    """The rows of some tensors: named columns, or one table of cells known by their place."""
    if not tensors:
        raise BadRequest("bad_request", "there must be at least one tensor", 422)
    flat = [_cells(tensor) for tensor in tensors]
    wide = [tensor.shape[1] if len(tensor.shape) == 2 else 1 for tensor in tensors]
    if len(tensors) == 1 and wide[0] > 1:
        [cells], [k] = flat, wide
        return None, [cells[i : i + k] for i in range(0, len(cells), k)]
    if set(wide) != {1} or len({len(cells) for cells in flat}) != 1:
        raise BadRequest("bad_request", "columns must be tensors of one shape, n or n by 1", 422)
    rows = [list(row) for row in zip(*flat, strict=True)]
    return tuple(tensor.name for tensor in tensors), rows


def _cells(tensor: _Tensor) -> list[Any]:
    """A tensor's cells one after another, checked against its shape and its type."""
    shape, data = tensor.shape, tensor.data
    if not 1 <= len(shape) <= 2 or any(not 0 <= size < 1 << 31 for size in shape):
        raise BadRequest("bad_request", "a tensor must have one axis or two", 422)
    if data and isinstance(data[0], list):
        if len(shape) != 2 or len(data) != shape[0] or not all(_is_row(d, shape[1]) for d in data):
            raise BadRequest("bad_request", "a tensor's data must fit its shape", 422)
        data = [cell for row in data for cell in row]  # type: ignore[union-attr]
    if len(data) != shape[0] * (shape[1] if len(shape) == 2 else 1):
        raise BadRequest("bad_request", "a tensor's data must fit its shape", 422)
    allowed = _TYPES[tensor.datatype.rstrip("0123468")]
    if not all(cell is None or type(cell) in allowed for cell in data):
        raise BadRequest("bad_request", "a tensor's data must be of its datatype", 422)
    return data


def _is_row(value: Any, size: int) -> bool:
    return isinstance(value, list) and len(value) == size
