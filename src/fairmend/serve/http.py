"""What both ports share: who may ask, how much may be sent, and how errors look."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import sys
import time
from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope

from fairmend.model.protocols.wire import BadRequest
from fairmend.serve.metrics import Metrics

__all__ = [
    "allowed",
    "flush",
    "headers_of",
    "live",
    "note",
    "problem",
    "read_body",
    "readiness",
    "reply",
    "unauthorized",
    "where",
]

_json = msgspec.json.Encoder()


def reply(content: bytes, status: int = 200, **headers: str) -> Response:
    """JSON that is already encoded; a header's name is written with underscores."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(content, status, named, "application/json")


def problem(code: str, message: str, status: int, **headers: str) -> Response:
    """An error as every path without a protocol of its own tells it."""
    content = _json.encode({"error": {"code": code, "message": message}})
    return reply(content, status, **headers)


async def live(_: Request) -> Response:
    """It runs."""
    return reply(b'{"live":true}')


def readiness(ready: bool) -> Response:
    """Whether requests may be sent here."""
    return reply(_json.encode({"ready": ready}), 200 if ready else 503)


def headers_of(scope: Scope) -> dict[str, str]:
    """A request's headers by their names in small letters; of several the first counts."""
    return {
        name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"][::-1]
    }


def allowed(headers: Mapping[str, str], token: str | None) -> bool:
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


def unauthorized(metrics: Metrics, port: str, challenge: str) -> Response:
    """Refuse somebody without the right token: counted and noted, but for what they sent."""
    metrics.count("fairmend_unauthorized_total", port=port)
    note("request", "warning", port=port, code="unauthorized", status=401)
    return problem("unauthorized", "a token is needed", 401, WWW_Authenticate=challenge)


async def read_body(
    headers: Mapping[str, str], receive: Receive, most: int, seconds: float
) -> bytes:
    """The body, if it is not too long and does not dawdle."""
    length = headers.get("content-length", "0")
    if length.isdigit() and int(length) > most:
        raise _too_long(most)
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise BadRequest("bad_encoding", "send the body as it is, not compressed", 415)
    parts, total, more = [], 0, True
    try:
        async with asyncio.timeout(seconds):
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise BadRequest("hung_up", "the client hung up", 400)
                part = message.get("body", b"")
                total += len(part)
                if total > most:
                    raise _too_long(most)
                parts.append(part)
                more = message.get("more_body", False)
    except TimeoutError:
        raise BadRequest("slow_body", "the body took too long to arrive", 408) from None
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _too_long(most: int) -> BadRequest:
    return BadRequest("too_long", f"a body has at most {most} bytes", 413)


def note(event: str, level: str = "info", **detail: Any) -> None:
    """One line of JSON on standard error; never any applicant's data.

    Lines about requests are written together, a few times a second: see `flush`.
    """
    line = {"at": round(time.time(), 3), "level": level, "event": event, **detail}
    _unwritten.append(_json.encode(line) + b"\n")
    if event != "request":
        flush()


_unwritten: list[bytes] = []
"""Kept here, for where Python is told not to buffer every line would be a call to the system."""


def flush() -> None:
    """Write the lines noted so far."""
    lines = b"".join(_unwritten)
    _unwritten.clear()
    sys.stderr.buffer.write(lines)
    sys.stderr.buffer.flush()


def where(error: BaseException) -> str:
    """The place an unforeseen error came from, without its words, which may hold data."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = "" if trace is None else f" at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
    return f"{type(error).__name__}{place}"
