"""The Open Inference Protocol between a client and a vendor that both speak it."""

import json
import sqlite3
import struct
import urllib.request

import pytest

import serving
from fairmend.model.protocols import protocol_named
from vending import vending

HEAD = "Inference-Header-Content-Length"
NAMES, TYPES = ("age", "dose", "urban"), {"age": "INT8", "dose": "FP32", "urban": "UINT8"}
FORMATS = {"INT8": "b", "FP32": "f", "UINT8": "B", "FP64": "d"}
ABOUT = {"name": "credit", "versions": ["3"], "platform": "onnx", "inputs": [], "outputs": []}


def parted(request):
    """The JSON of a request, and the cells of its tensors by name."""
    headers = {name.lower(): value for name, value in request.headers.items()}
    length = int(headers.get(HEAD.lower(), len(request.body)))
    head, tail = json.loads(request.body[:length]), request.body[length:]
    cells = {}
    for tensor in head["inputs"]:
        size = tensor.get("parameters", {}).get("binary_data_size")
        if size is None:
            cells[tensor["name"]] = tensor["data"]
        else:
            code = FORMATS[tensor["datatype"]]
            cells[tensor["name"]] = [
                cell for (cell,) in struct.iter_unpack("<" + code, tail[:size])
            ]
            tail = tail[size:]
    assert not tail
    return head, cells


def infer(request):
    """A strict server: it takes its own datatypes alone, and answers in binary if asked to."""
    if not request.body:
        return 200, {"Content-Type": "application/json"}, json.dumps(ABOUT).encode()
    head, cells = parted(request)
    types = {tensor["name"]: tensor["datatype"] for tensor in head["inputs"]}
    if types not in (TYPES, {"age": "INT64", "dose": "FP64", "urban": "INT64"}):
        return 400, {"Content-Type": "application/json"}, b'{"error": "datatype"}'
    chances = [serving.chance(row) for row in zip(*(cells[name] for name in NAMES), strict=True)]
    output = {"name": "score", "datatype": "FP64", "shape": [len(chances), 1]}
    own = {"model_name": "credit", "model_version": "3", "parameters": {"gpu": 1}}
    if "id" in head:
        own["id"] = head["id"]
    if head.get("parameters", {}).get("binary_data_output"):
        tail = struct.pack(f"<{len(chances)}d", *chances)
        output["parameters"] = {"binary_data_size": len(tail)}
        content = json.dumps({**own, "outputs": [output]}).encode()
        kind = {"Content-Type": "application/octet-stream", HEAD: str(len(content))}
        return 200, kind, content + tail
    content = json.dumps({**own, "outputs": [{**output, "data": chances}]}).encode()
    return 200, {"Content-Type": "application/json"}, content


def tensors(rows, *, binary):
    """A request as tritonclient makes one."""
    made, tail = [], b""
    for name, column in zip(NAMES, zip(*rows, strict=True), strict=True):
        tensor = {"name": name, "datatype": TYPES[name], "shape": [len(rows), 1]}
        if binary:
            part = struct.pack(f"<{len(rows)}{FORMATS[TYPES[name]]}", *column)
            tensor["parameters"] = {"binary_data_size": len(part)}
            tail += part
        else:
            tensor["data"] = list(column)
        made.append(tensor)
    parameters = {"binary_data_output": True} if binary else {}
    head = {"id": "r1", "inputs": made, "parameters": {**parameters, "group": "b"}}
    content = json.dumps(head).encode()
    kind = {"Content-Type": "application/octet-stream", HEAD: str(len(content))} if binary else {
        "Content-Type": "application/json"}  # fmt: skip
    return content + tail, kind


def post(url, body, headers):
    request = urllib.request.Request(url, body, headers)
    with urllib.request.urlopen(request, timeout=30) as response:
        content = response.read()
        length = int(response.headers.get(HEAD, len(content)))
    head, tail = json.loads(content[:length]), content[length:]
    [output] = head["outputs"]
    data = output.get("data") or [cell for (cell,) in struct.iter_unpack("<d", tail)]
    return head, data


@pytest.mark.parametrize("binary", [False, True])
def test_what_a_request_says_beside_its_cells_stays(start, binary):
    """Datatypes, id, parameters, version: to the vendor and back, edited or not."""
    people = [[40 + i % 3 * 5, 0.25 * i, 1] for i in range(9)]
    with vending(infer) as vendor:
        url = f"{vendor.base}/v2/models/credit"
        for mode in ("shadow", "repair"):
            sidecar = start(mode=mode, upstream=url, log=f"{mode}.sqlite")
            head, data = post(
                f"{sidecar.url}/v2/models/credit/infer", *tensors(people, binary=binary)
            )
            with sqlite3.connect(sidecar.log) as db:
                edited = [bool(edit) for (edit,) in db.execute("SELECT edited FROM decisions")]
            assert any(edited), "somebody is edited, or this shows nothing"
            own = [serving.chance(row) for row in people]
            assert [a != b for a, b in zip(data, own, strict=True)] == (
                edited if mode == "repair" else [False] * 9
            )
            assert (head["id"], head["model_version"]) == ("r1", "3")
            assert head["parameters"] == {"gpu": 1}
            asked = [parted(request)[0] for request in vendor.sent if b"r1" in request.body]
            assert len(asked) == 2, "everybody, and those who are edited"
            for each in asked:
                assert {t["name"]: t["datatype"] for t in each["inputs"]} == TYPES
                assert "group" not in each.get("parameters", {})
            about = serving.get(f"{sidecar.url}/v2/models/credit")[1]
            assert about == ABOUT, "the vendor's own description"
            vendor.sent.clear()


def test_our_own_metadata_is_true(start):
    sidecar = start(version="7")
    about = serving.get(f"{sidecar.url}/v2/models/fairmend")[1]
    assert about["versions"] == ["7"]
    assert [(t["name"], t["datatype"]) for t in about["inputs"]] == [
        ("age", "INT64"), ("dose", "FP64"), ("urban", "INT64"),
    ]  # fmt: skip
    assert about["outputs"] == [{"name": "predict", "datatype": "FP64", "shape": [-1, 1]}]
    assert "binary_tensor_data" in serving.get(f"{sidecar.url}/v2")[1]["extensions"]
    status, content, _ = serving.post(f"{sidecar.url}/v2/models/fairmend/infer", b"no")
    assert status == 400
    assert isinstance(content["error"], str)


def test_the_openapi_document_says_who_a_request_is_about(start):
    about = serving.get(start().url + "/openapi.json")[1]
    asked = about["paths"]["/predict"]["post"]
    assert {"Fairmend-Group", "Fairmend-Id", "Idempotency-Key"} <= {
        each["name"] for each in asked["parameters"]
    }
    body = asked["requestBody"]["content"]["application/json"]["schema"]
    assert "parameters" in body["properties"]
    record = body["properties"]["instances"]["oneOf"][1]["items"]
    assert {"group", "id"} <= record["properties"].keys()
    assert not {"group", "id"} & set(record["required"])


@pytest.mark.parametrize(
    ("datatype", "cells"),
    [("INT8", [-1, 7]), ("UINT64", [2**63, 0]), ("FP16", [0.5, -2.0]), ("FP64", [0.1, 1e300]),
     ("BOOL", [True, False]), ("BYTES", ["é", ""])],
)  # fmt: skip
def test_binary_tensors_there_and_back(datatype, cells):
    from fairmend.model.protocols.v2 import HEAD_LENGTH, _from_bytes, _Tensor, _written

    like = _Tensor("x", [2, 1], datatype, parameters={"binary_data_size": 0})
    made, content = _written("x", [2, 1], datatype, cells, like)
    assert made["parameters"]["binary_data_size"] == len(content)
    assert _from_bytes(content, datatype, 2) == cells
    head = json.dumps({"inputs": [made]}).encode()
    kind = f"application/octet-stream; {HEAD_LENGTH}={len(head)}"
    if datatype != "UINT64":
        query = protocol_named("v2").read(head + content, kind)
        assert query.rows == [[cell] for cell in cells]
        again, kind = protocol_named("v2").again(query, query.names, query.rows, {})
        assert protocol_named("v2").read(again, kind).rows == query.rows
