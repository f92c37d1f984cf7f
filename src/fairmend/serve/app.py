"""The clients' port: the vendor's own addresses and protocols, and outcomes."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from fairmend import __version__
from fairmend.protocols import protocol_named
from fairmend.protocols.v2 import DATATYPES, V2
from fairmend.protocols.wire import JSON, BadRequest, Cell, Protocol, strict_json
from fairmend.serve.http import (
    allowed,
    live,
    note,
    problem,
    read_body,
    readiness,
    reply,
    where,
)
from fairmend.serve.openapi import document
from fairmend.serve.sidecar import Failure, Sidecar

__all__ = ["make_app", "model_name"]

_json = msgspec.json.Encoder()
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


def make_app(sidecar: Sidecar) -> Starlette:
    """The application on the clients' port."""
    clients = _Clients(sidecar)
    mlflow, plain = protocol_named("mlflow"), protocol_named("instances")

    def get(path: str, handler: Handler) -> Route:
        return Route(path, clients.guarded(handler), methods=["GET"])

    def post(path: str, handler: Handler) -> Route:
        return Route(path, clients.guarded(handler), methods=["POST"])

    return Starlette(
        routes=[
            # looked through in this order: those with a fixed name first
            post("/invocations", clients.predicting(mlflow)),
            post("/predict", clients.predicting(plain)),
            post("/v2/models/{model}/infer", clients.predicting(clients.v2)),
            post("/v2/models/{model}/versions/{version}/infer", clients.predicting(clients.v2)),
            post("/v1/models/{model}:predict", clients.predicting(plain)),
            post("/outcomes", clients.outcomes),
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


class _Clients:
    """What clients may ask."""

    def __init__(self, sidecar: Sidecar) -> None:
        self.sidecar, self.config = sidecar, sidecar.config
        self.token = self.config.secret(self.config.token_env)
        self.name = model_name(self.config.upstream)
        self.v2 = V2(self.config.answer if isinstance(self.config.answer, str) else None)
        self.v2.model = self.name

    def guarded(self, handler: Handler) -> Handler:
        """Nobody gets past here without the token, and nothing unforeseen gets out."""

        async def guard(request: Request) -> Response:
            if not allowed(request, self.token):
                return problem("unauthorized", "a bearer token is needed", 401,
                               WWW_Authenticate="Bearer")  # fmt: skip
            if request.path_params.get("model", self.name) != self.name:
                return problem("unknown_model", "there is no such model", 404)
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

    def predicting(self, protocol: Protocol) -> Handler:
        """Answers requests for predictions, counts them and says so."""

        async def predict(request: Request) -> Response:
            started = time.perf_counter()
            told = _Told()
            try:
                return await self._predict(protocol, request, told)
            except (Failure, BadRequest) as error:
                told.code, told.status = error.code, error.status
                content = protocol.error(error.code, error.message)
                return reply(content, error.status, **_more(error))
            except Exception as error:
                told.code, told.status = "internal", 500
                note("error", "error", error=where(error))
                return reply(protocol.error("internal", "something went wrong here"), 500)
            finally:
                seconds = time.perf_counter() - started
                # soon, not now: the answer goes out first
                self.sidecar.loop.call_soon(self._noted, protocol.name, told, seconds)

        return predict

    def _noted(self, protocol: str, told: _Told, seconds: float) -> None:
        metrics = self.sidecar.metrics
        metrics.count("fairmend_requests_total", protocol=protocol, code=told.code)
        metrics.time("fairmend_request_seconds", seconds)
        note("request", protocol=protocol, code=told.code, status=told.status,
             ms=round(1000 * seconds, 2), decision=told.decision)  # fmt: skip

    async def _predict(self, protocol: Protocol, request: Request, told: _Told) -> Response:
        sidecar, config = self.sidecar, self.config
        if sidecar.in_flight >= config.concurrency:
            raise Failure("too_many_requests", "too many requests at once", 429, 1)
        sidecar.in_flight += 1
        try:
            body = await read_body(request, config.most_bytes, config.timeout)
            kind = request.headers.get("content-type", JSON)
            path = request.scope["path"]
            decided = await sidecar.answer(protocol, body, kind, request.headers, path)
        finally:
            sidecar.in_flight -= 1
        told.decision = decided.decision
        return reply(decided.content, Fairmend_Decision=decided.decision)

    async def outcomes(self, request: Request) -> Response:
        most = self.config.most_rows
        body = await read_body(request, self.config.most_bytes, self.config.timeout)
        told = strict_json(body, _told, lambda sent: 1 + 2 * len(sent.outcomes)).outcomes
        if not 1 <= len(told) <= most:
            raise BadRequest("bad_request", f"1 to {most} outcomes at a time", 422)
        labels = self.sidecar.serving.labels
        values = {labels.positive: 1, labels.negative: 0}
        if any(type(each.y) is bool or each.y not in values for each in told):
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


@dataclass(slots=True)
class _Told:
    """How a request ended, for the log line."""

    code: str = "ok"
    status: int = 200
    decision: str = ""


def _more(error: Failure | BadRequest) -> dict[str, str]:
    """Headers of an error: when to come back, and no waiting for a body that is not wanted."""
    if error.status in (408, 413):
        return {"Connection": "close"}
    wait = getattr(error, "retry_after", 0)
    return {"Retry_After": str(wait)} if wait else {}


async def _lost(_: Request, __: Exception) -> Response:
    return problem("not_found", "there is nothing here", 404)


async def _other_method(_: Request, error: Exception) -> Response:
    allow = (getattr(error, "headers", None) or {}).get("Allow", "")
    return problem("method_not_allowed", "another method is needed", 405, Allow=allow)
