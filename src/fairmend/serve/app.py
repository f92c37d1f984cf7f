"""The clients' port: the vendor's own addresses and protocols, and outcomes."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET, UnsetType
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from fairmend._version import __version__
from fairmend.data.ids import is_id
from fairmend.model.protocols import protocol_named, protocol_names
from fairmend.model.protocols.v2 import BINARY, HEAD_LENGTH
from fairmend.model.wire import JSON, BadRequest, Cell, Protocol, RequestFailed, strict_json
from fairmend.serve.exchange import Decided
from fairmend.serve.http import WHOLE, ErrorBody, Port, problem, receive_body, reply
from fairmend.serve.notes import note, where
from fairmend.serve.openapi import document
from fairmend.serve.sidecar import Sidecar

__all__ = ["make_app", "model_name"]


class _Outcome(msgspec.Struct, forbid_unknown_fields=True):
    y: Cell
    decision: str | UnsetType = UNSET
    person: int | str | UnsetType = UNSET


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
    usual: dict[str, _Predicting] = {}
    predictions = []
    for protocol in clients.protocols:
        predicting = _Predicting(clients, protocol)
        for path in clients.paths(protocol):
            predictions.append(Route(path, predicting, methods=["POST"]))
            usual.setdefault(path.replace("{model}", clients.model), predicting)
    app = _App(
        usual,
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
        exception_handlers={404: clients.not_found, 405: clients.other_method},
    )
    app.router.redirect_slashes = False  # a redirect would name whatever host was asked for
    return app


class _App(Starlette):
    """Predictions, most requests by far, need no search for a route and no other layers."""

    def __init__(self, usual: Mapping[str, ASGIApp], **settings: Any) -> None:
        super().__init__(**settings)
        self._usual = usual

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        usual = self._usual.get(scope["path"]) if scope.get("method") == "POST" else None
        await (usual or super().__call__)(scope, receive, send)


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
        self._by_path = {path.split("{")[0]: protocol for protocol in self.protocols
                         for path in protocol.paths}  # fmt: skip

    def paths(self, protocol: Protocol) -> list[str]:
        """Where predictions are requested; of the vendor's protocol also at its own path."""
        own = urlsplit(self.config.upstream).path
        speaks = protocol.name == self.sidecar.upstream.protocol.name
        more = [own] if speaks and own.strip("/") and "{" not in own else []
        return list(dict.fromkeys([*protocol.paths, *more]))

    def refusal(
        self, headers: Mapping[str, str], path_params: Mapping[str, Any]
    ) -> RequestFailed | None:
        refused = super().refusal(headers, path_params)
        if refused is None and path_params.get("model", self.model) != self.model:
            return RequestFailed("unknown_model", "there is no such model", 404)
        return refused

    def error_body(self, path: str) -> ErrorBody:
        if path.startswith("/v2"):
            return protocol_named("v2").error
        protocol = self._by_path.get(path)
        return super().error_body(path) if protocol is None else protocol.error

    def answered(self, response: Response) -> None:
        if self.sidecar.draining:
            response.headers["Connection"] = "close"

    async def outcomes(self, request: Request) -> Response:
        most, bytes_ = self.config.most_rows, self.config.most_bytes
        body, rest = await receive_body(
            request.receive, request.headers, bytes_, self.config.timeout
        )
        if rest is not None:
            raise BadRequest("too_long", f"a body has at most {bytes_} bytes", 413)
        outcomes = strict_json(body, _outcomes).outcomes
        if not 1 <= len(outcomes) <= most:
            raise BadRequest("bad_request", f"1 to {most} outcomes at a time", 422)
        labels = self.sidecar.serving.labels
        values = {labels.positive: 1, labels.negative: 0}
        types = (int, float, str, type(labels.positive))  # else true would pass for 1
        if any(type(each.y) not in types or each.y not in values for each in outcomes):
            raise BadRequest("bad_outcome", "y must be one of the two labels of the audit", 422)
        if any((each.decision is UNSET) == (each.person is UNSET) for each in outcomes):
            raise BadRequest("bad_outcome", "name either the decision or the person", 422)
        if not all(each.person is UNSET or is_id(each.person) for each in outcomes):
            raise BadRequest("bad_id", "ids are whole numbers or text that is not empty", 422)
        count = await self.sidecar.outcomes(
            [(each.decision, values[each.y]) for each in outcomes if each.decision is not UNSET],
            [(self.sidecar.pseudonym(each.person), values[each.y])
             for each in outcomes if each.person is not UNSET],
        )  # fmt: skip
        return reply({"recorded": count}, 201)

    async def ping(self, _: Request) -> Response:
        return PlainTextResponse("\n", 200 if self.sidecar.ready else 503)

    async def version(self, _: Request) -> Response:
        return PlainTextResponse(__version__)

    async def server(self, _: Request) -> Response:
        about = {"name": "fairmend", "version": __version__, "extensions": ["binary_tensor_data"]}
        return reply(about)

    async def about(self, _: Request) -> Response:
        """The vendor's own description of its model, or ours where it speaks another protocol."""
        own = await self.sidecar.upstream.about()
        if own is not None:
            return Response(own, media_type=JSON)
        return reply(self.sidecar.serving.metadata(self.model, self.output, self.config.version))

    async def openapi(self, _: Request) -> Response:
        return reply(document(self.model, self.sidecar.serving.schema, self.protocols, self.config))

    async def not_found(self, request: Request, _: Exception) -> Response:
        failed = RequestFailed(
            "not_found", "nothing is served at this path; see /openapi.json", 404
        )
        return problem(failed, self.error_body(request.scope["path"]))

    async def other_method(self, request: Request, error: Exception) -> Response:
        allow = (getattr(error, "headers", None) or {}).get("Allow", "")
        methods = ", ".join(sorted(allow.split(", ")))
        failed = RequestFailed("method_not_allowed", f"this path takes {methods}", 405)
        return problem(failed, self.error_body(request.scope["path"]), {"Allow": allow})


class _Predicting:
    """Answers requests for predictions in one protocol, counts them and notes them."""

    def __init__(self, clients: _Clients, protocol: Protocol) -> None:
        self._clients, self._protocol = clients, protocol
        self._sidecar, self._config = clients.sidecar, clients.config

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        headers = _headers_of(scope)
        refused = self._clients.refusal(headers, scope.get("path_params", {}))
        if refused is not None:
            await self._clients.refused(refused, scope["path"])(scope, receive, send)
            return
        try:
            decided, code = await self._decided(scope, headers, receive), "ok"
            if decided.status != 200:
                code = f"vendor_{decided.status}"
        except RequestFailed as error:
            decided, code = self._problem(error), error.code
            if scope.get("unread"):  # nobody waits for the rest of the body
                decided.headers = [*decided.headers, (b"connection", b"close")]
        except Exception as error:
            note("error", "error", error=where(error))
            failed = RequestFailed("internal", "something went wrong here", 500)
            decided, code = self._problem(failed), failed.code
        await self._send(decided, send)
        self._note(code, decided, time.perf_counter() - started, _trace_of(headers))

    async def _decided(self, scope: Scope, headers: Mapping[str, str], receive: Receive) -> Decided:
        sidecar, config = self._sidecar, self._config
        if sidecar.in_flight >= config.concurrency:
            raise RequestFailed("too_many_requests", "too many requests at once", 429, 1)
        sidecar.in_flight += 1
        try:
            body, rest = await receive_body(
                receive, headers, config.most_bytes, config.timeout, is_whole=WHOLE in scope
            )
            scope["unread"] = rest is not None
            kind = headers.get("content-type", JSON)
            if HEAD_LENGTH in headers:
                kind = f"{BINARY}; {HEAD_LENGTH}={headers[HEAD_LENGTH]}"
            query = scope.get("query_string", b"").decode("latin-1")
            return await sidecar.answer(
                self._protocol, body, kind, headers, scope["path"], query, rest
            )
        finally:
            sidecar.in_flight -= 1

    def _problem(self, error: RequestFailed) -> Decided:
        response = problem(error, self._protocol.error)
        return Decided(bytes(response.body), "", error.status, response.raw_headers)

    async def _send(self, decided: Decided, send: Send) -> None:
        headers = [each for each in decided.headers if each[0] != b"content-length"]
        if decided.decision:
            headers.append((b"fairmend-decision", decided.decision.encode()))
        if self._sidecar.draining:
            headers.append((b"connection", b"close"))
        if decided.rest is None:
            headers.append((b"content-length", b"%d" % len(decided.content)))
        start = {"type": "http.response.start", "status": decided.status, "headers": headers}
        await send(start)
        if decided.rest is not None:
            await send({"type": "http.response.body", "body": decided.content, "more_body": True})
            async for part in decided.rest:
                await send({"type": "http.response.body", "body": part, "more_body": True})
        body = decided.content if decided.rest is None else b""
        await send({"type": "http.response.body", "body": body})

    def _note(self, code: str, decided: Decided, seconds: float, trace: dict[str, str]) -> None:
        counts, protocol = self._sidecar.metrics, self._protocol.name
        counts.of_requests(protocol, code).inc()
        counts.request_seconds.observe(seconds)
        note("request", protocol=protocol, code=code, status=decided.status,
             ms=round(1000 * seconds, 2), decision=decided.decision, **trace)  # fmt: skip


def _trace_of(headers: Mapping[str, str]) -> dict[str, str]:
    """The trace that a request belongs to, by its W3C trace context, if it has one."""
    if "traceparent" not in headers:
        return {}
    trace = re.fullmatch(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}.*",
                         headers["traceparent"])  # fmt: skip
    return {"trace": trace[1]} if trace else {}


def _headers_of(scope: Scope) -> dict[str, str]:
    """A request's headers by their names in small letters; several of a name are one list."""
    headers: dict[str, str] = {}
    for name, value in scope["headers"]:
        key, text = name.decode("latin-1"), value.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return headers
