"""What both ports share: who may come in, how much may be sent, how errors look."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive

from fairmend.model.wire import JSON, BadRequest, RequestFailed
from fairmend.serve.notes import note, where
from fairmend.serve.sidecar import Sidecar

__all__ = ["WHOLE", "Port", "problem", "receive_body", "reply"]

WHOLE = "fairmend.whole"
"""In the scope of a request whose body is all there."""
ErrorBody = Callable[[str, str], bytes]
Handler = Callable[[Request], Awaitable[Response]]
_json = msgspec.json.Encoder()


def reply(content: Any, status: int = 200) -> Response:
    """A value as JSON."""
    return Response(_json.encode(content), status, media_type=JSON)


def _error(code: str, message: str) -> bytes:
    return _json.encode({"error": {"code": code, "message": message}})


def problem(
    error: RequestFailed, body: ErrorBody, headers: Mapping[str, str] | None = None
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
        self.tokens = sidecar.config.tokens(token_env)
        self.counts = sidecar.metrics

    def refusal(
        self, headers: Mapping[str, str], path_params: Mapping[str, Any]
    ) -> RequestFailed | None:
        """Why somebody may not come in."""
        if is_allowed(headers, self.tokens):
            return None
        self.counts.unauthorized.labels(self.name).inc()
        note("request", "warning", port=self.name, code="unauthorized", status=401)
        return RequestFailed("unauthorized", "a token is needed", 401)

    def refused(self, error: RequestFailed, path: str) -> Response:
        """The answer to somebody who may not come in."""
        challenge = {"WWW-Authenticate": self.challenge} if error.status == 401 else None
        return problem(error, self.error_body(path), challenge)

    def error_body(self, path: str) -> ErrorBody:
        """The shape of errors that the clients of a path expect."""
        return _error

    async def live(self, _: Request) -> Response:
        return reply({"live": True})

    async def ready(self, _: Request) -> Response:
        return reply({"ready": self.sidecar.ready}, 200 if self.sidecar.ready else 503)

    def answered(self, response: Response) -> None:
        """What to do with a response before it is sent."""

    def route(
        self, path: str, handler: Handler, *, method: str = "GET", is_open: bool = False
    ) -> Route:
        """A guarded route; one that ``is_open`` needs no token."""

        async def guarded(request: Request) -> Response:
            refused = None
            if not is_open:
                refused = self.refusal(request.headers, request.path_params)
            if refused is not None:
                return self.refused(refused, request.scope["path"])
            try:
                response = await handler(request)
            except RequestFailed as error:
                response = problem(error, self.error_body(request.scope["path"]))
            except Exception as error:
                note("error", "error", error=where(error))
                failed = RequestFailed("internal", "something went wrong here", 500)
                response = problem(failed, self.error_body(request.scope["path"]))
            self.answered(response)
            return response

        return Route(path, guarded, methods=[method])


def is_allowed(headers: Mapping[str, str], tokens: Sequence[str]) -> bool:
    """Whether the bearer token is right, in time that does not depend on how right it is.

    Browsers can send it as the password of basic authentication.
    """
    if not tokens:
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
    same = [hmac.compare_digest(secret, token.encode()) for token in tokens]
    return any(same)


async def receive_body(
    receive: Receive,
    headers: Mapping[str, str],
    most: int,
    seconds: float,
    *,
    is_whole: bool = False,
) -> tuple[bytes, AsyncIterator[bytes] | None]:
    """The body; of one longer than ``most`` the beginning, and the rest as it arrives.

    One that ``is_whole`` is there already: no clock needs to be set.
    """
    length = headers.get("content-length", "")
    if length.isdecimal() and int(length) > most:
        return b"", _rest_of(receive, seconds)
    if is_whole:
        body, _ = await _part(receive)
        return body, _rest_of(receive, seconds, more=False) if len(body) > most else None
    body, more = b"", True
    try:
        async with asyncio.timeout(seconds):
            while more and len(body) <= most:
                part, more = await _part(receive)
                body = body + part if body else part
    except TimeoutError:
        raise BadRequest("slow_body", "the body took too long to arrive", 408) from None
    return body, _rest_of(receive, seconds, more=more) if len(body) > most else None


async def _rest_of(receive: Receive, seconds: float, *, more: bool = True) -> AsyncIterator[bytes]:
    while more:
        try:
            async with asyncio.timeout(seconds):
                part, more = await _part(receive)
        except TimeoutError:
            raise BadRequest("slow_body", "the body took too long to arrive", 408) from None
        yield part


async def _part(receive: Receive) -> tuple[bytes, bool]:
    message = await receive()
    if message["type"] == "http.disconnect":
        raise BadRequest("hung_up", "the client hung up", 400)
    return message.get("body", b""), message.get("more_body", False)
