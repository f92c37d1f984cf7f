"""The clients' port: the vendor's own addresses and protocols, and outcomes."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from fairmend._version import __version__
from fairmend.model.protocols import protocol_named
from fairmend.model.protocols.v2 import DATATYPES, V2
from fairmend.model.protocols.wire import JSON, BadRequest, Cell, Protocol, strict_json
from fairmend.serve.http import (
    allowed,
    headers_of,
    live,
    note,
    problem,
    read_body,
    readiness,
    reply,
    unauthorized,
    where,
)
from fairmend.serve.openapi import document
from fairmend.serve.sidecar import Decided, Failure, Sidecar

__all__ = ["make_app", "model_name"]

_json = msgspec.json.Encoder()
_IS_JSON = (b"content-type", b"application/json")
Handler = Callable[[Request], Awaitable[Response]]


class _Outcome(msgspec.Struct, forbid_unknown_fields=True):
    decision: str
    y: Cell


class _Outcomes(msgspec.Struct, forbid_unknown_fields=True):
    outcomes: list[_Outcome]


_told = msgspec.json.Decoder(_Outcomes)


def model_name(upstream: str) -> str:
    """What the model is called in addresses: as the vendor calls it, or fairmend.

    >>> model_name("http://localhost:8080/v2/models/credit/infer")
    'credit'
    """
    named = re.search(r"/v[12]/models/([^/:]+)", urlsplit(upstream).path)
    return named[1] if named else "fairmend"


def make_app(sidecar: Sidecar) -> ASGIApp:
    """The application on the clients' port."""
    clients = _Clients(sidecar)
    mlflow = _Predicting(clients, protocol_named("mlflow"))
    plain = _Predicting(clients, protocol_named("instances"))
    v2 = _Predicting(clients, clients.v2)

    def get(path: str, handler: Handler) -> Route:
        return Route(path, clients.guarded(handler), methods=["GET"])

    def post(path: str, answering: ASGIApp | Handler) -> Route:
        return Route(path, answering, methods=["POST"])

    whole = Starlette(
        routes=[
            post("/invocations", mlflow),
            post("/predict", plain),
            post("/v2/models/{model}/infer", v2),
            post("/v2/models/{model}/versions/{version}/infer", v2),
            post("/v1/models/{model}:predict", plain),
            post("/outcomes", clients.guarded(clients.outcomes)),
            get("/ping", clients.ping),
            get("/health", clients.ping),
            get("/version", clients.version),
            get("/v2", clients.server),
            get("/v2/health/live", live),
            get("/v2/health/ready", clients.ready),
            get("/v2/models/{model}", clients.model),
            get("/v2/models/{model}/ready", clients.ready),
            get("/openapi.json", clients.openapi),
        ],
        exception_handlers={404: _lost, 405: _other_method},
    )
    usual = {
        "/invocations": mlflow,
        "/predict": plain,
        f"/v2/models/{clients.name}/infer": v2,
        f"/v1/models/{clients.name}:predict": plain,
    }

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        # most requests by far: no need to look for their route, nor to pass other layers
        found = usual.get(scope["path"]) if scope.get("method") == "POST" else None
        await (found or whole)(scope, receive, send)

    return app


class _Clients:
    """What clients may ask."""

    def __init__(self, sidecar: Sidecar) -> None:
        self.sidecar, self.config = sidecar, sidecar.config
        self.token = self.config.secret(self.config.token_env)
        self.name = model_name(self.config.upstream)
        self.v2 = V2(self.config.answer if isinstance(self.config.answer, str) else None)
        self.v2.model = self.name

    def refused(self, headers: Mapping[str, str], named: Mapping[str, str]) -> Response | None:
        """Nobody gets past here without the token, nor with another model's name."""
        if not allowed(headers, self.token):
            return unauthorized(self.sidecar.metrics, "clients", "Bearer")
        if named.get("model", self.name) != self.name:
            return problem("unknown_model", "there is no such model", 404)
        return None

    def guarded(self, handler: Handler) -> Handler:
        """Only those who may ask get in, and nothing unforeseen gets out."""

        async def guard(request: Request) -> Response:
            response = self.refused(request.headers, request.path_params)
            if response is not None:
                return response
            try:
                response = await handler(request)
            except (Failure, BadRequest) as error:
                response = problem(error.code, error.message, error.status, **_more(error))
            except Exception as error:
                note("error", "error", error=where(error))
                response = problem("internal", "something went wrong here", 500)
            if self.sidecar.draining:
                response.headers["Connection"] = "close"
            return response

        return guard

    async def outcomes(self, request: Request) -> Response:
        most = self.config.most_rows
        body = await read_body(
            request.headers, request.receive, self.config.most_bytes, self.config.timeout
        )
        told = strict_json(body, _told, lambda sent: 1 + 2 * len(sent.outcomes)).outcomes
        if not 1 <= len(told) <= most:
            raise BadRequest("bad_request", f"1 to {most} outcomes at a time", 422)
        labels = self.sidecar.serving.labels
        values = {labels.positive: 1, labels.negative: 0}
        known = (int, float, str, type(labels.positive))  # else true would pass for 1
        if any(type(each.y) not in known or each.y not in values for each in told):
            raise BadRequest("bad_outcome", "y must be one of the two labels of the audit", 422)
        count = await self.sidecar.outcomes([(each.decision, values[each.y]) for each in told])
        return reply(_json.encode({"recorded": count}), 201)

    async def ready(self, _: Request) -> Response:
        return readiness(self.sidecar.ready)

    async def ping(self, _: Request) -> Response:
        return PlainTextResponse("\n", 200 if self.sidecar.ready else 503)

    async def version(self, _: Request) -> Response:
        return PlainTextResponse(__version__)

    async def server(self, _: Request) -> Response:
        about = {"name": "fairmend", "version": __version__, "extensions": []}
        return reply(_json.encode(about))

    async def model(self, _: Request) -> Response:
        schema = self.sidecar.serving.schema
        about: dict[str, Any] = {
            "name": self.name,
            "versions": [self.config.version],
            "platform": "fairmend",
            "inputs": [
                {"name": column, "datatype": DATATYPES[kind], "shape": [-1, 1]}
                for column, kind in zip(schema.names, schema.kinds, strict=True)
            ],
            "outputs": [{"name": self.v2.given, "datatype": "FP64", "shape": [-1, 1]}],
        }
        return reply(_json.encode(about))

    async def openapi(self, _: Request) -> Response:
        about = document(self.name, self.sidecar.serving.schema, self.token is not None)
        return reply(_json.encode(about))


class _Predicting:
    """Answers requests for predictions in one protocol, counts them and says so."""

    def __init__(self, clients: _Clients, protocol: Protocol) -> None:
        self._clients, self._protocol = clients, protocol
        self._sidecar, self._config = clients.sidecar, clients.config

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        headers = headers_of(scope)
        refusal = self._clients.refused(headers, scope.get("path_params", {}))
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        code, status, decision = "ok", 200, ""
        try:
            decided = await self._decided(scope["path"], headers, receive)
            content, decision = decided.content, decided.decision
            more = {"Fairmend-Decision": decision}
        except (Failure, BadRequest) as error:
            code, status, more = error.code, error.status, _more(error)
            content = self._protocol.error(error.code, error.message)
        except Exception as error:
            code, status, more = "internal", 500, {}
            note("error", "error", error=where(error))
            content = self._protocol.error(code, "something went wrong here")
        if self._sidecar.draining:
            more["Connection"] = "close"
        beside = [(name.lower().encode(), value.encode()) for name, value in more.items()]
        beside += [_IS_JSON, (b"content-length", b"%d" % len(content))]
        await send({"type": "http.response.start", "status": status, "headers": beside})
        await send({"type": "http.response.body", "body": content})
        self._note(code, status, time.perf_counter() - started, decision)

    async def _decided(self, path: str, headers: Mapping[str, str], receive: Receive) -> Decided:
        sidecar, config = self._sidecar, self._config
        if sidecar.in_flight >= config.concurrency:
            raise Failure("too_many_requests", "too many requests at once", 429, 1)
        sidecar.in_flight += 1
        try:
            body = await read_body(headers, receive, config.most_bytes, config.timeout)
            kind = headers.get("content-type", JSON)
            return await sidecar.answer(self._protocol, body, kind, headers, path)
        finally:
            sidecar.in_flight -= 1

    def _note(self, code: str, status: int, seconds: float, decision: str) -> None:
        metrics, protocol = self._sidecar.metrics, self._protocol.name
        metrics.count("fairmend_requests_total", protocol=protocol, code=code)
        metrics.time("fairmend_request_seconds", seconds)
        note("request", protocol=protocol, code=code, status=status,
             ms=round(1000 * seconds, 2), decision=decision)  # fmt: skip


def _more(error: Failure | BadRequest) -> dict[str, str]:
    """Headers of an error: when to come back, and no waiting for a body that is not wanted."""
    if error.status in (408, 413):
        return {"Connection": "close"}
    wait = getattr(error, "retry_after", 0)
    return {"Retry-After": str(wait)} if wait else {}


async def _lost(_: Request, __: Exception) -> Response:
    return problem("not_found", "there is nothing here", 404)


async def _other_method(_: Request, error: Exception) -> Response:
    allow = (getattr(error, "headers", None) or {}).get("Allow", "")
    return problem("method_not_allowed", "another method is needed", 405, Allow=allow)
