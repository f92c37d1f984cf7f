"""What both ports share: who may come in, how much may be sent, how errors look, the event log."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from fairmend.model.wire import JSON, BadRequest, RequestFailed
from fairmend.serve.sidecar import Sidecar

__all__ = ["Port", "flush", "note", "problem", "read_body", "reply", "where"]

Handler = Callable[[Request], Awaitable[Response]]
_json = msgspec.json.Encoder()


def reply(content: Any, status: int = 200) -> Response:
    """A value as JSON."""
    return Response(_json.encode(content), status, media_type=JSON)


def _error(code: str, message: str) -> bytes:
    return _json.encode({"error": {"code": code, "message": message}})


def problem(
    error: RequestFailed,
    body: Callable[[str, str], bytes] = _error,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """An error, in the shape that the clients of a path expect."""
    headers = dict(headers or {})
    if error.status in (408, 413):  # nobody waits for the rest of the body
        headers["Connection"] = "close"
    elif error.retry_after:
        headers["Retry-After"] = str(error.retry_after)
    return Response(body(error.code, error.message), error.status, headers, JSON)


class Port:
    """The routes of one port; only those with the token get in, nothing unforeseen gets out."""

    def __init__(self, name: str, sidecar: Sidecar, token_env: str, challenge: str) -> None:
        self.name, self.sidecar, self.challenge = name, sidecar, challenge
        self.token = sidecar.config.secret(token_env)
        self.counts = sidecar.metrics

    def refusal(self, request: Request) -> Response | None:
        """The answer to somebody who may not come in."""
        if is_allowed(request.headers, self.token):
            return None
        self.counts.unauthorized.labels(self.name).inc()
        note("request", "warning", port=self.name, code="unauthorized", status=401)
        failed = RequestFailed("unauthorized", "a token is needed", 401)
        return problem(failed, headers={"WWW-Authenticate": self.challenge})

    async def live(self, _: Request) -> Response:
        return reply({"live": True})

    async def ready(self, _: Request) -> Response:
        return reply({"ready": self.sidecar.ready}, 200 if self.sidecar.ready else 503)

    def answered(self, request: Request, response: Response, code: str, seconds: float) -> None:
        """What to do with a response before it is sent."""

    def route(
        self,
        path: str,
        handler: Handler,
        *,
        method: str = "GET",
        error_body: Callable[[str, str], bytes] = _error,
    ) -> Route:
        """A guarded route; errors have the shape of ``error_body``."""

        async def guarded(request: Request) -> Response:
            started = time.perf_counter()
            refused = self.refusal(request)
            if refused is not None:
                return refused
            code = "ok"
            try:
                response = await handler(request)
            except RequestFailed as error:
                code, response = error.code, problem(error, error_body)
            except Exception as error:
                note("error", "error", error=where(error))
                failed = RequestFailed("internal", "something went wrong here", 500)
                code, response = failed.code, problem(failed, error_body)
            self.answered(request, response, code, time.perf_counter() - started)
            return response

        return Route(path, guarded, methods=[method])


def is_allowed(headers: Mapping[str, str], token: str | None) -> bool:
    """Whether the bearer token is right, in time that does not depend on how right it is.

    Browsers can send it as the password of basic authentication.
    """
    if token is None:
        return True
    scheme, _, given = headers.get("authorization", "").partition(" ")
    secret = given.strip().encode()
    if scheme.lower() == "basic":
        try:
            secret = base64.b64decode(secret, validate=True).partition(b":")[2]
        except binascii.Error:
            return False
    elif scheme.lower() != "bearer":
        return False
    return hmac.compare_digest(secret, token.encode())


async def read_body(request: Request, most: int, seconds: float) -> bytes:
    """The body, unless it is too long or takes too long."""
    too_long = BadRequest("too_long", f"a body has at most {most} bytes", 413)
    length = request.headers.get("content-length", "0")
    if length.isdigit() and int(length) > most:
        raise too_long
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise BadRequest("bad_encoding", "send the body as it is, not compressed", 415)
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for part in request.stream():
                body += part
                if len(body) > most:
                    raise too_long
    except ClientDisconnect:
        raise BadRequest("hung_up", "the client hung up", 400) from None
    except TimeoutError:
        raise BadRequest("slow_body", "the body took too long to arrive", 408) from None
    return bytes(body)


# -------------------------------------------------------------------- the event log

_unwritten: list[bytes] = []
"""Lines about requests are written together: one system call per line would cost too much."""


def note(event: str, level: str = "info", **detail: Any) -> None:
    """One line of JSON on standard error; never any applicant's data."""
    line = {"at": round(time.time(), 3), "level": level, "event": event, **detail}
    _unwritten.append(_json.encode(line) + b"\n")
    if event != "request":
        flush()


def flush() -> None:
    """Write the lines noted so far."""
    lines = b"".join(_unwritten)
    _unwritten.clear()
    sys.stderr.buffer.write(lines)
    sys.stderr.buffer.flush()


def where(error: BaseException) -> str:
    """Type and place of an unforeseen error, without its message, which may hold data."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = "" if trace is None else f" at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
    return f"{type(error).__name__}{place}"
