"""The clients' port: the vendor's own addresses and protocols, and outcomes."""

from __future__ import annotations

import re
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from fairmend._version import __version__
from fairmend.model.protocols import protocol_named, protocol_names
from fairmend.model.protocols.v2 import DATATYPES
from fairmend.model.wire import JSON, BadRequest, Cell, Protocol, RequestFailed, strict_json
from fairmend.serve.http import Port, note, problem, read_body, reply
from fairmend.serve.openapi import document
from fairmend.serve.sidecar import Sidecar

__all__ = ["make_app", "model_name"]


class _Outcome(msgspec.Struct, forbid_unknown_fields=True):
    decision: str
    y: Cell


class _Outcomes(msgspec.Struct, forbid_unknown_fields=True):
    outcomes: list[_Outcome]


_outcomes = msgspec.json.Decoder(_Outcomes)


def model_name(upstream: str) -> str:
    """The model's name in addresses: that of the vendor's address, or fairmend.

    >>> model_name("http://localhost:8080/v2/models/credit/infer")
    'credit'
    """
    named = re.search(r"/v[12]/models/([^/:]+)", urlsplit(upstream).path)
    return named[1] if named else "fairmend"


def make_app(sidecar: Sidecar) -> Starlette:
    """The application on the clients' port."""
    clients = _Clients(sidecar)
    predictions = [
        clients.route(
            path, partial(clients.predict, protocol), method="POST", error_body=protocol.error
        )
        for protocol in clients.protocols
        for path in protocol.paths
    ]
    return Starlette(
        routes=[
            *predictions,
            clients.route("/outcomes", clients.outcomes, method="POST"),
            clients.route("/ping", clients.ping),
            clients.route("/health", clients.ping),
            clients.route("/version", clients.version),
            clients.route("/v2", clients.server),
            clients.route("/v2/health/live", clients.live),
            clients.route("/v2/health/ready", clients.ready),
            clients.route("/v2/models/{model}", clients.about),
            clients.route("/v2/models/{model}/ready", clients.ready),
            clients.route("/openapi.json", clients.openapi),
        ],
        exception_handlers={404: _not_found, 405: _other_method},
    )


class _Clients(Port):
    """What clients may request."""

    def __init__(self, sidecar: Sidecar) -> None:
        self.config = sidecar.config
        super().__init__("clients", sidecar, self.config.token_env, "Bearer")
        self.model = model_name(self.config.upstream)
        output = self.config.answer if isinstance(self.config.answer, str) else None
        self.output = output or "predict"
        self.protocols = [
            protocol_named(name, output=output, model=self.model) for name in protocol_names()
        ]

    def refusal(self, request: Request) -> Response | None:
        refused = super().refusal(request)
        if refused is None and request.path_params.get("model", self.model) != self.model:
            return problem(RequestFailed("unknown_model", "there is no such model", 404))
        return refused

    def answered(self, request: Request, response: Response, code: str, seconds: float) -> None:
        if self.sidecar.draining:
            response.headers["Connection"] = "close"
        protocol = getattr(request.state, "protocol", None)
        if protocol is None:
            return
        self.counts.requests.labels(protocol, code).inc()
        self.counts.request_seconds.observe(seconds)
        note("request", protocol=protocol, code=code, status=response.status_code,
             ms=round(1000 * seconds, 2),
             decision=response.headers.get("Fairmend-Decision", ""))  # fmt: skip

    async def predict(self, protocol: Protocol, request: Request) -> Response:
        request.state.protocol = protocol.name
        sidecar, config = self.sidecar, self.config
        if sidecar.in_flight >= config.concurrency:
            raise RequestFailed("too_many_requests", "too many requests at once", 429, 1)
        sidecar.in_flight += 1
        try:
            body = await read_body(request, config.most_bytes, config.timeout)
            kind = request.headers.get("content-type", JSON)
            decided = await sidecar.answer(
                protocol, body, kind, request.headers, request.scope["path"]
            )
        finally:
            sidecar.in_flight -= 1
        return Response(
            decided.content, headers={"Fairmend-Decision": decided.decision}, media_type=JSON
        )

    async def outcomes(self, request: Request) -> Response:
        most = self.config.most_rows
        body = await read_body(request, self.config.most_bytes, self.config.timeout)
        outcomes = strict_json(body, _outcomes).outcomes
        if not 1 <= len(outcomes) <= most:
            raise BadRequest("bad_request", f"1 to {most} outcomes at a time", 422)
        labels = self.sidecar.serving.labels
        values = {labels.positive: 1, labels.negative: 0}
        types = (int, float, str, type(labels.positive))  # else true would pass for 1
        if any(type(each.y) not in types or each.y not in values for each in outcomes):
            raise BadRequest("bad_outcome", "y must be one of the two labels of the audit", 422)
        count = await self.sidecar.outcomes([(each.decision, values[each.y]) for each in outcomes])
        return reply({"recorded": count}, 201)

    async def ping(self, _: Request) -> Response:
        return PlainTextResponse("\n", 200 if self.sidecar.ready else 503)

    async def version(self, _: Request) -> Response:
        return PlainTextResponse(__version__)

    async def server(self, _: Request) -> Response:
        return reply({"name": "fairmend", "version": __version__, "extensions": []})

    async def about(self, _: Request) -> Response:
        schema = self.sidecar.serving.schema
        about: dict[str, Any] = {
            "name": self.model,
            "versions": [self.config.version],
            "platform": "fairmend",
            "inputs": [
                {"name": column, "datatype": DATATYPES[kind], "shape": [-1, 1]}
                for column, kind in zip(schema.names, schema.kinds, strict=True)
            ],
            "outputs": [{"name": self.output, "datatype": "FP64", "shape": [-1, 1]}],
        }
        return reply(about)

    async def openapi(self, _: Request) -> Response:
        schema = self.sidecar.serving.schema
        return reply(document(self.model, schema, self.protocols, token=self.token is not None))


async def _not_found(_: Request, __: Exception) -> Response:
    return problem(RequestFailed("not_found", "there is nothing here", 404))


async def _other_method(_: Request, error: Exception) -> Response:
    allow = (getattr(error, "headers", None) or {}).get("Allow", "")
    failed = RequestFailed("method_not_allowed", "another method is needed", 405)
    return problem(failed, headers={"Allow": allow})
