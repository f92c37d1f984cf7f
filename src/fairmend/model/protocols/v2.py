"""The Open Inference Protocol, version 2: tensors with names, shapes and types.

https://github.com/kserve/open-inference-protocol. Spoken by MLServer, KServe, Triton and others. A
frame travels as one tensor a column, an array as one tensor of rows and columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, UnsetType

from fairmend.model.protocols.instances import PARAMETERS
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

BINARY = "application/octet-stream"
HEAD_LENGTH = "inference-header-content-length"
"""The header that says how much of a body is JSON, where tensors follow it as bytes. Here it is a
parameter of the content type, so that both travel together."""

DATATYPES = {"bool": "BOOL", "int": "INT64", "float": "FP64", "str": "BYTES"}
"""The datatype of each kind of column."""
_NUMPY = {"BOOL": "?", "FP16": "<f2", "FP32": "<f4", "FP64": "<f8"} | {
    f"{sign}INT{8 * size}": f"<{code}{size}"
    for sign, code in (("", "i"), ("U", "u"))
    for size in (1, 2, 4, 8)
}
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
    data: list[Cell | list[Cell]] | UnsetType = UNSET
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
    datatype: str = ""
    data: list[Any] | UnsetType = UNSET
    parameters: dict[str, Any] | UnsetType = UNSET


@dataclass(frozen=True)
class _Form:
    """What a request says beside its cells."""

    tensors: tuple[_Tensor, ...]
    outputs: list[_Wanted] | UnsetType
    id: str | UnsetType
    parameters: Mapping[str, Any]
    """Those of `_OF_FORM`."""
    wide: bool
    """Whether it is one tensor of rows and columns."""


class _Response(msgspec.Struct):
    outputs: list[_Output]


_OF_FORM = ("content_type", "binary_data_output")
"""Parameters that say how tensors travel."""
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
    has_types = True
    content_types: ClassVar[tuple[str, ...]] = (JSON, BINARY)

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
        rows = self.answers(body, JSON)
        several = self.output is not None and bool(rows) and isinstance(rows[0], dict)
        return [row[self.output] for row in rows] if several else rows

    def answers(self, body: bytes, content_type: str) -> list[Any]:
        head, tail = _parted(body, content_type)
        try:
            outputs = _response.decode(head).outputs
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise BadAnswer("no JSON with outputs") from None
        try:
            for output, data in zip(outputs, _data_of(outputs, tail), strict=True):
                output.data = data
        except BadRequest:
            raise BadAnswer("tensors that do not fit their bytes") from None
        if not outputs or (self.output and all(each.name != self.output for each in outputs)):
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
        head, tail = _parted(body, content_type)
        sent = strict_json(head, _request)
        parameters = {} if sent.parameters is UNSET else dict(sent.parameters)
        form_of = {name: parameters.pop(name) for name in _OF_FORM if name in parameters}
        for tensor, data in zip(sent.inputs, _data_of(sent.inputs, tail), strict=True):
            tensor.data = data
        names, rows = _table(sent.inputs)
        tensors = tuple(sent.inputs)
        form = _Form(tensors, sent.outputs, sent.id, form_of, names is None)
        identity = None if sent.id is UNSET else sent.id
        return Query(names, rows, parameters, identity, form=form)

    def again(
        self,
        query: Query,
        names: Sequence[str] | None,
        rows: Sequence[Sequence[Any]],
        parameters: Mapping[str, Any],
    ) -> tuple[bytes, str] | None:
        form: _Form = query.form
        columns = [[c for row in rows for c in row]] if form.wide else list(zip(*rows, strict=True))
        templates = {tensor.name: tensor for tensor in form.tensors}
        if not form.wide and not templates.keys() >= set(names or ()):
            return None  # a column that did not come has no datatype
        chosen = form.tensors if names is None else [templates[name] for name in names]
        inputs, tail = [], b""
        for tensor, cells in zip(chosen, columns, strict=True):
            shape = [len(rows), *tensor.shape[1:]]
            made, more = _written(tensor.name, shape, tensor.datatype, list(cells), tensor)
            inputs.append(made)
            tail += more
        body: dict[str, Any] = {"inputs": inputs}
        if form.id is not UNSET:
            body["id"] = form.id
        if form.outputs is not UNSET:
            body["outputs"] = form.outputs
        if parameters or form.parameters:
            body["parameters"] = {**form.parameters, **parameters}
        return _joined(body, tail)

    def with_output(self, query: Query) -> Query:
        form: _Form = query.form
        named = [] if form.outputs is UNSET else form.outputs
        if self.output is None or any(each.name == self.output for each in named):
            return query
        more = replace(form, outputs=[*named, _Wanted(self.output)])
        return msgspec.structs.replace(query, form=more)

    def replace(
        self, body: bytes, content_type: str, answers: Mapping[int, Any], more: Mapping[str, Any]
    ) -> tuple[bytes, str] | None:
        head, tail = _parted(body, content_type)
        whole = msgspec.json.decode(head)
        outputs = _response.decode(head).outputs
        written, rest = [], b""
        datas = _data_of(outputs, tail)
        for output, entry, data in zip(outputs, whole["outputs"], datas, strict=True):
            output.data = data
            rows = _rows_of(output)
            for i, answer in answers.items():
                rows[i] = answer[output.name] if len(outputs) > 1 else answer
            flat = [c for row in rows for c in (row if isinstance(row, list) else [row])]
            made, binary = _written(output.name, output.shape, output.datatype, flat, output)
            written.append({**entry, **made})
            rest += binary
        whole["outputs"] = written
        if more:
            whole["parameters"] = {**(whole.get("parameters") or {}), **more}
        return _joined(whole, rest)

    def write(
        self, query: Query, answers: list[Any], more: Mapping[str, Any] | None = None
    ) -> bytes:
        wanted = query.form.outputs if isinstance(query.form, _Form) else UNSET
        names = list(answers[0]) if answers and isinstance(answers[0], dict) else [self.given]
        if wanted is not UNSET and any(each.name not in names for each in wanted):
            raise BadRequest("unknown_output", f"there is no output but {' and '.join(names)}", 422)
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
            "name": {"type": "string", "examples": list(columns)},
            "shape": {"type": "array", "items": {"type": "integer", "minimum": 1}},
            "datatype": {"enum": [*sorted(_NUMPY), "BYTES"]},
        }
        more = {"data": {"type": "array"}, "parameters": {"type": "object"}}
        tensors = {"type": "array", "items": json_object(tensor, more), "minItems": 1}
        beside = {
            "id": {"type": "string"},
            "outputs": {"type": "array", "items": {"type": "object"}},
            **PARAMETERS,
        }
        return json_object({"inputs": tensors}, beside)

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
    assert data is not UNSET
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
    assert data is not UNSET
    if data and isinstance(data[0], list):
        if len(shape) != 2 or len(data) != shape[0] or not all(_is_row(d, shape[1]) for d in data):
            raise BadRequest("bad_request", "a tensor's data must fit its shape", 422)
        data = [cell for row in data for cell in row]  # type: ignore[union-attr]
    if len(data) != _size(shape):
        raise BadRequest("bad_request", "a tensor's data must fit its shape", 422)
    allowed = _TYPES[tensor.datatype.rstrip("0123468")]
    if not all(cell is None or type(cell) in allowed for cell in data):
        raise BadRequest("bad_request", "a tensor's data must be of its datatype", 422)
    return data


def _is_row(value: Any, size: int) -> bool:
    return isinstance(value, list) and len(value) == size


# -------------------------------------------------------------------- tensors as bytes


def _parted(body: bytes, content_type: str) -> tuple[bytes, bytes]:
    """The JSON of a body, and the tensors behind it."""
    _, _, length = content_type.partition(f"{HEAD_LENGTH}=")
    if not length:
        return body, b""
    if not length.isdecimal() or int(length) > len(body):
        raise BadRequest("bad_request", "the body is shorter than its header says", 400)
    return body[: int(length)], body[int(length) :]


def _joined(head: Mapping[str, Any], tail: bytes) -> tuple[bytes, str]:
    content = _json.encode(head)
    if not tail:
        return content, JSON
    return content + tail, f"{BINARY}; {HEAD_LENGTH}={len(content)}"


def _data_of(tensors: Sequence[_Tensor | _Output], tail: bytes) -> Iterator[list[Any]]:
    """The data of each tensor, in the JSON or in the bytes behind it, one after another."""
    start = 0
    for tensor in tensors:
        size = _binary_size(tensor)
        if size is None:
            if tensor.data is UNSET:
                raise BadRequest("bad_request", "a tensor must have data", 422)
            yield tensor.data
            continue
        part = tail[start : start + size]
        start += size
        if len(part) != size or tensor.data is not UNSET:
            raise BadRequest("bad_request", "a tensor's bytes must be as many as it says", 422)
        yield _from_bytes(part, tensor.datatype, _size(tensor.shape))
    if start != len(tail):
        raise BadRequest("bad_request", "there are bytes of no tensor", 422)


def _binary_size(tensor: _Tensor | _Output) -> int | None:
    size = None if tensor.parameters is UNSET else tensor.parameters.get("binary_data_size")
    if size is not None and (type(size) is not int or size < 0):
        raise BadRequest("bad_request", "binary_data_size must be a number of bytes", 422)
    return size


def _size(shape: Sequence[int]) -> int:
    """Cells of one axis or two."""
    return shape[0] * (shape[1] if len(shape) == 2 else 1) if shape else 0


def _from_bytes(part: bytes, datatype: str, n: int) -> list[Any]:
    """The cells of a tensor: numbers in a row, or texts each behind its length.

    >>> _from_bytes(bytes([1, 0, 0, 0, 97]), "BYTES", 1)
    ['a']
    """
    import numpy as np

    if datatype in _NUMPY and len(part) == n * np.dtype(_NUMPY[datatype]).itemsize:
        return list(np.frombuffer(part, _NUMPY[datatype]).tolist())
    cells, start = [], 0
    try:
        while datatype == "BYTES" and start + 4 <= len(part):
            end = start + 4 + int.from_bytes(part[start : start + 4], "little")
            cells.append(part[start + 4 : end].decode("utf-8"))
            start = end
    except UnicodeDecodeError:
        start = -1
    if start != len(part) or len(cells) != n:
        raise BadRequest("bad_request", "a tensor's bytes must fit its shape and datatype", 422)
    return cells


def _written(
    name: str, shape: list[int], datatype: str, cells: list[Any], like: _Tensor | _Output
) -> tuple[dict[str, Any], bytes]:
    """A tensor like another, with these cells: its JSON, and its bytes where that one had some."""
    import numpy as np

    made = {"name": name, "shape": shape, "datatype": datatype}
    parameters = {} if like.parameters is UNSET else dict(like.parameters)
    if _binary_size(like) is None:
        more = {"parameters": parameters} if parameters else {}
        return {**made, **more, "data": cells}, b""
    if datatype == "BYTES":
        texts = [str(cell).encode() for cell in cells]
        content = b"".join(len(text).to_bytes(4, "little") + text for text in texts)
    else:
        content = np.array(cells, _NUMPY[datatype]).tobytes()
    return {**made, "parameters": {**parameters, "binary_data_size": len(content)}}, content
