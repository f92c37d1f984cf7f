"""The clients' port as an OpenAPI document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fairmend._version import __version__
from fairmend.model.wire import Protocol, json_object
from fairmend.serve.config import Config
from fairmend.serve.schema import Schema

__all__ = ["document"]

_TYPES = {"bool": "boolean", "int": "integer", "float": "number", "str": "string"}
_PERSON = ["string", "integer", "number", "boolean", "null"]
_STATUSES = (400, 401, 404, 405, 408, 413, 415, 422, 429, 500, 502, 503, 504)
_ERRORS = {
    str(status): {"description": "an error", "content": {"application/json": {}}}
    for status in _STATUSES
}
_TEXT = {"description": "text", "content": {"text/plain": {}}}
_GET = {  # path: the statuses of a JSON answer
    "/v2": ["200"],
    "/v2/models/{model}": ["200"],
    "/v2/health/live": ["200"],
    "/openapi.json": ["200"],
    "/v2/health/ready": ["200", "503"],
    "/v2/models/{model}/ready": ["200", "503"],
}


def document(
    model: str, schema: Schema, protocols: Sequence[Protocol], config: Config
) -> dict[str, Any]:
    """An OpenAPI 3.1 document about this model's inputs, and who a request is about."""
    columns = {
        name: {
            "type": [_TYPES[kind], "null"] if optional else _TYPES[kind],
            "optional": name in schema.personal,
        }
        for name, kind, optional in zip(schema.names, schema.kinds, schema.optional, strict=True)
    }
    columns |= {
        name: {"type": _PERSON, "optional": True, "beside": True}
        for name in (*config.groups, config.id)
        if name not in columns
    }
    who = _who(config)
    outcome = json_object(
        {"decision": {"type": "string"}, "y": {"type": ["integer", "string", "boolean"]}}
    )
    outcomes = json_object({"outcomes": {"type": "array", "items": outcome, "minItems": 1}})
    paths = {"/outcomes": _post("Outcomes of decisions", outcomes, {"type": "object"}, "201")}
    for protocol in protocols:
        request = protocol.request_schema(columns)
        answer = {"type": "object", "required": [protocol.answers_key]}
        texts = [kind for kind in protocol.content_types if kind != "application/json"]
        for path in protocol.paths:
            if "{version}" not in path:
                made = _post(protocol.title, request, answer, "200", texts)
                made["post"]["parameters"] = who
                paths[path.replace("{model}", model)] = made
    for path, statuses in _GET.items():
        answers = {status: _json({"type": "object"}) for status in statuses}
        paths[path.replace("{model}", model)] = {"get": {"responses": {**_ERRORS, **answers}}}
    for path in ("/ping", "/health", "/version"):
        paths[path] = {"get": {"responses": {**_ERRORS, "200": _TEXT, "503": _TEXT}}}
    about: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "fairmend", "version": __version__},
        "paths": paths,
    }
    if config.tokens(config.token_env):
        about["components"] = {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}}
        about["security"] = [{"token": []}]
    return about


def _who(config: Config) -> list[dict[str, Any]]:
    """The headers that say who a request is about."""
    groups = " & ".join(config.groups)
    about = {
        "Fairmend-Group": f"The group, {groups}, percent-encoded; instead of columns of that name.",
        "Fairmend-Id": f"The person's id, {config.id}, percent-encoded; for one row.",
        "Idempotency-Key": "The same key and request get the same answer, for a day.",
    }
    return [
        {"name": name, "in": "header", "required": False, "description": text,
         "schema": {"type": "string"}}
        for name, text in about.items()
    ]  # fmt: skip


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": "JSON", "content": {"application/json": {"schema": schema}}}


def _post(
    summary: str,
    request: dict[str, Any],
    answer: dict[str, Any],
    status: str,
    texts: Sequence[str] = (),
) -> dict[str, Any]:
    content: dict[str, Any] = {"application/json": {"schema": request}}
    content |= {kind: {"schema": {"type": "string"}} for kind in texts}
    return {
        "post": {
            "summary": summary,
            "requestBody": {"required": True, "content": content},
            "responses": {**_ERRORS, status: _json(answer)},
        }
    }
