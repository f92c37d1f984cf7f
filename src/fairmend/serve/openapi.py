"""The clients' port in OpenAPI's words."""

from __future__ import annotations

from typing import Any

from fairmend._version import __version__
from fairmend.model.protocols.v2 import DATATYPES
from fairmend.serve.schema import Schema

__all__ = ["document"]

_TYPES = {"bool": "boolean", "int": "integer", "float": "number", "str": "string"}


def document(model: str, schema: Schema, token: bool) -> dict[str, Any]:
    """An OpenAPI 3.1 document about this model's inputs."""
    cells = {
        name: {"type": [_TYPES[kind], "null"] if optional else _TYPES[kind]}
        for name, kind, optional in zip(schema.names, schema.kinds, schema.optional, strict=True)
    }
    required = [name for name in cells if name not in schema.personal]
    record = {"type": "object", "properties": cells, "required": required}
    row = {"type": "array", "prefixItems": list(cells.values()), "minItems": len(cells),
           "maxItems": len(cells)}  # fmt: skip
    rows = {"type": "array", "items": row, "minItems": 1}
    records = {"type": "array", "items": record, "minItems": 1}
    names = {"type": "array", "items": {"enum": list(cells)}, "minItems": len(cells),
             "maxItems": len(cells), "uniqueItems": True}  # fmt: skip
    split = _object({"columns": names, "data": rows})
    mlflow = {
        "oneOf": [
            _object({"dataframe_split": split}),
            _object({"dataframe_records": records}),
            _object({"instances": {"oneOf": [rows, records]}}),
            _object({"inputs": rows}),
        ]
    }
    tensor = _object(
        {
            "name": {"enum": list(cells)},
            "shape": {"type": "array", "items": {"type": "integer", "minimum": 1}},
            "datatype": {"enum": list(DATATYPES.values())},
            "data": {"type": "array"},
        }
    )
    tensors = _object({"inputs": {"type": "array", "items": tensor, "minItems": 1}})
    instances = _object({"instances": {"oneOf": [rows, records]}})
    outcome = _object(
        {"decision": {"type": "string"}, "y": {"type": ["integer", "string", "boolean"]}}
    )
    outcomes = _object({"outcomes": {"type": "array", "items": outcome, "minItems": 1}})
    predictions = {"type": "object", "required": ["predictions"]}
    paths: dict[str, Any] = {
        "/invocations": _post("MLflow scoring", mlflow, predictions, csv=True),
        f"/v2/models/{model}/infer": _post(
            "Open Inference Protocol", tensors, {"type": "object", "required": ["outputs"]}
        ),
        f"/v1/models/{model}:predict": _post("Plain instances", instances, predictions),
        "/predict": _post("Plain instances", instances, predictions),
        "/outcomes": _post("What became of decisions", outcomes, {"type": "object"}, status="201"),
    }
    for path in ("/v2", f"/v2/models/{model}", "/v2/health/live", "/openapi.json"):
        paths[path] = {"get": {"responses": {"200": _json({"type": "object"}), **_ERRORS}}}
    for path in ("/v2/health/ready", f"/v2/models/{model}/ready"):
        answers = {"200": _json({"type": "object"}), "503": _json({"type": "object"})}
        paths[path] = {"get": {"responses": {**answers, **_ERRORS}}}
    for path in ("/ping", "/health", "/version"):
        text = {"description": "text", "content": {"text/plain": {}}}
        paths[path] = {"get": {"responses": {"200": text, "503": text, **_ERRORS}}}
    about: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "fairmend", "version": __version__},
        "paths": paths,
    }
    if token:
        about["components"] = {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}}
        about["security"] = [{"token": []}]
    return about


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties),
            "additionalProperties": False}  # fmt: skip


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": "JSON", "content": {"application/json": {"schema": schema}}}


_ERRORS = {
    code: {"description": "an error", "content": {"application/json": {}}}
    for code in ("400", "401", "404", "405", "408", "413", "415", "422", "429", "500", "502",
                 "503", "504")
}  # fmt: skip


def _post(
    summary: str,
    request: dict[str, Any],
    answer: dict[str, Any],
    *,
    csv: bool = False,
    status: str = "200",
) -> dict[str, Any]:
    content: dict[str, Any] = {"application/json": {"schema": request}}
    if csv:
        content["text/csv"] = {"schema": {"type": "string"}}
    return {
        "post": {
            "summary": summary,
            "requestBody": {"required": True, "content": content},
            "responses": {status: _json(answer), **_ERRORS},
        }
    }
