"""The vendor, called from an event loop: deadlines, few retries, a circuit breaker, error codes.

Only what never reached the vendor is sent again: a connection that could not be made, or one kept
open that turns out to be closed.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any
from weakref import WeakSet

import aiohttp
from yarl import URL

from fairmend.model.protocols import protocol_for, protocol_named
from fairmend.model.protocols.v2 import BINARY, HEAD_LENGTH
from fairmend.model.remote import MOST_BYTES, read_address
from fairmend.model.wire import JSON, BadAnswer, Protocol, RequestFailed, media_type, per_row
from fairmend.serve.config import Config
from fairmend.serve.metrics import Metrics
from fairmend.serve.tls import trusting

__all__ = ["CLIENTS_OWN", "Breaker", "Upstream", "UpstreamError", "VendorAnswer"]

_PAUSE = 0.05  # seconds before the first retry; doubled each time
_reused: ContextVar[bool] = ContextVar("reused", default=False)
"""Whether the current request was sent over a connection that had been used before."""

_trace: ContextVar[Mapping[str, str]] = ContextVar("trace", default=MappingProxyType({}))
"""The W3C trace context of the current request."""


def follow_trace(headers: Mapping[str, str]) -> None:
    """Pass a request's trace context on with the queries of the vendor that it causes."""
    _trace.set({name: headers[name] for name in ("traceparent", "tracestate") if name in headers})


class _Connector(aiohttp.TCPConnector):
    """Notes whether a connection was used before: tracing tells it too, but slows every request."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._seen: WeakSet[Any] = WeakSet()

    async def connect(self, *about: Any, **more: Any) -> Any:
        connection = await super().connect(*about, **more)
        if connection.protocol in self._seen:
            _reused.set(True)
        else:
            self._seen.add(connection.protocol)
        return connection


class UpstreamError(RequestFailed):
    """The vendor could not be queried."""

    def __init__(self, code: str, message: str, status: int = 502, retry_after: int = 0) -> None:
        super().__init__(code, message, status, retry_after)


class Breaker:
    """A circuit breaker: open after repeated failures; one request may try when time is up.

    >>> breaker = Breaker(failures=1, seconds=60)
    >>> breaker.failed()
    >>> breaker.open
    True
    """

    def __init__(self, failures: int, seconds: float) -> None:
        self.failures, self.seconds = failures, seconds
        self._in_a_row, self._until, self._trying = 0, 0.0, False

    @property
    def open(self) -> bool:
        return self._in_a_row >= self.failures

    def enter(self) -> None:
        """Refuse while open; once the time is up, one may try."""
        if not self.open:
            return
        left = self._until - time.monotonic()
        if left > 0 or self._trying:
            message = "circuit breaker open after repeated failures of the vendor"
            raise UpstreamError("upstream_open", message, 503, max(1, round(left + 0.5)))
        self._trying = True

    def succeeded(self) -> None:
        self._in_a_row, self._trying = 0, False

    def failed(self) -> None:
        self._in_a_row, self._trying = self._in_a_row + 1, False
        self._until = time.monotonic() + self.seconds

    def gave_up(self) -> None:
        """The request ended for a reason that says nothing about the vendor."""
        self._trying = False


@dataclass(slots=True)
class VendorAnswer:
    """What the vendor gave."""

    status: int
    headers: list[tuple[bytes, bytes]]
    """As they came, but for those that concern one connection."""
    content: bytes
    content_type: str
    rest: AsyncIterator[bytes] | None
    """What is passed on without being read: another type, an encoding, or more than is read."""

    @property
    def code(self) -> str:
        """What its status says."""
        if self.status in (429, 503):
            return "upstream_busy"
        return _CODES.get(self.status // 100, "upstream_error")

    @property
    def retry_after(self) -> str:
        """Its own Retry-After."""
        return next((v.decode("latin-1") for n, v in self.headers if n == b"retry-after"), "")

    def failure(self, *, own: bool) -> UpstreamError:
        """Its failure as an error of ours; ``own`` if the rows were those of the client."""
        message = _MESSAGES.get(self.code, "the vendor failed")
        status = 503 if self.status in (429, 503) else 502
        if own and self.status in CLIENTS_OWN:
            status = self.status
        wait = int(self.retry_after) if self.retry_after.isdecimal() else 1
        return UpstreamError(self.code, message, status, wait if status in (429, 503) else 0)


CLIENTS_OWN = (400, 413, 415, 422, 429)
"""Statuses by which the vendor refuses what a client sent."""
_CODES = {2: "ok", 3: "upstream_redirect", 4: "upstream_rejected"}
_MESSAGES = {
    "upstream_busy": "the vendor limits requests",
    "upstream_redirect": "redirects of the vendor are not followed",
    "upstream_rejected": "the vendor does not take these rows",
}
_JSON_HEADERS = {"Content-Type": JSON, "Accept-Encoding": "identity"}
_NOT_PASSED_ON = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer "
    b"transfer-encoding upgrade http2-settings content-length host expect date".split()
)
"""Headers that concern one connection alone."""
_CLIENTS_ALONE = frozenset(name.decode() for name in _NOT_PASSED_ON)
_READ = ("", "application/json", "text/plain", "text/html", "text/json", BINARY)
_AUTO = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")


def passed_on(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Headers that go from end to end; names are in small letters."""
    kept = [(name.lower(), value) for name, value in headers]
    named = {each.strip().lower() for name, value in kept if name == b"connection"
             for each in value.split(b",")}  # fmt: skip
    return [each for each in kept if each[0] not in _NOT_PASSED_ON and each[0] not in named]


class Upstream:
    """The vendor's server."""

    def __init__(self, config: Config, metrics: Metrics) -> None:
        self.config, self.metrics = config, metrics
        output = config.answer if isinstance(config.answer, str) else None
        self.protocol: Protocol = protocol_named(
            config.protocol or protocol_for(config.upstream), output=output
        )
        place = read_address(config.upstream)
        where = place._replace(path=self.protocol.path(place.path)).geturl()
        self._url = URL(where, encoded=True)
        self.breaker = Breaker(config.breaker_failures, config.breaker_seconds)
        token = config.secret(config.upstream_token_env)
        self._static = {} if token is None else {"authorization": f"Bearer {token}"}
        self._static |= config.vendor_headers()
        self._takes_authorization = config.secret(config.token_env) is None
        self._session: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        authorities = self.config.upstream_ca
        self._session = aiohttp.ClientSession(
            connector=_Connector(
                limit=self.config.concurrency,
                keepalive_timeout=15,
                ssl=True if authorities is None else trusting(authorities),
            ),
            skip_auto_headers=_AUTO,
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),  # deadlines are the request's own
        )

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    # ---------------------------------------------------------------- rows of ours

    async def query(
        self,
        names: Sequence[str] | None,
        rows: Sequence[Sequence[Any]],
        kinds: Sequence[str],
        deadline: float,
    ) -> tuple[list[Any], list[Any]]:
        """The vendor's answers, and the one value of each that the decision is read from."""
        body = self.protocol.encode(names, rows, kinds)
        headers = {**_JSON_HEADERS, **_trace.get()}
        return self.read(await self.send(body, headers, deadline, own=False), len(rows))

    def read(
        self, given: VendorAnswer, n: int, *, own: bool = False
    ) -> tuple[list[Any], list[Any]]:
        """What a response says about so many rows; an `UpstreamError` if it cannot be read."""
        if given.status != 200:
            raise given.failure(own=own)
        try:
            if given.rest is not None:
                raise BadAnswer("an answer of another kind")
            answers = self.protocol.answers(given.content, given.content_type)
            values = per_row(answers, self.config.answer)
        except BadAnswer:
            self.breaker.failed()
            message = "the vendor's answer cannot be read"
            raise UpstreamError("upstream_bad_answer", message) from None
        if len(values) != n:
            self.breaker.failed()
            message = "the vendor gave another number of answers than rows"
            raise UpstreamError("upstream_row_count", message)
        self.breaker.succeeded()
        return answers, values

    async def about(self) -> bytes | None:
        """The vendor's description of its model, where its protocol has one."""
        if self.protocol.name != "v2":
            return None
        assert self._session is not None
        url = self._url.with_path(self._url.path.removesuffix("/infer"))
        try:
            async with (
                asyncio.timeout(self.config.timeout),
                self._session.get(url, headers=self._static, allow_redirects=False) as response,
            ):
                return await response.read() if response.status == 200 else None
        except (aiohttp.ClientError, OSError, TimeoutError):
            return None

    # ---------------------------------------------------------------- any body

    def headers_for(
        self, headers: Mapping[str, str], content_type: str | None, *, compressed: bool = False
    ) -> dict[str, str]:
        """A client's headers as the vendor gets them; ``content_type`` is that of another body."""
        sent = {
            name: value
            for name, value in headers.items()
            if name not in _CLIENTS_ALONE and not name.startswith("fairmend-")
        }
        for name in headers["connection"].lower().split(",") if "connection" in headers else ():
            sent.pop(name.strip(), None)
        if not self._takes_authorization:
            sent.pop("authorization", None)
        if not compressed:  # what is compressed cannot be read
            sent["accept-encoding"] = "identity"
        if content_type is not None:
            sent["content-type"], _, length = content_type.partition(f"; {HEAD_LENGTH}=")
            sent.pop("content-encoding", None)
            sent.pop(HEAD_LENGTH, None)
            if length:
                sent[HEAD_LENGTH] = length
        return sent

    async def send(
        self,
        body: bytes | AsyncIterator[bytes],
        headers: Mapping[str, str],
        deadline: float,
        *,
        own: bool,
        query: str = "",
    ) -> VendorAnswer:
        """Post a body. What is sent of the client's ``own`` is not held back by the breaker."""
        if not own:
            self.breaker.enter()
        started = time.perf_counter()
        code = "internal"
        if self._static:
            headers = {**headers, **self._static}
        url = self._url
        if query:
            url = URL(f"{url}{'&' if url.query_string else '?'}{query}", encoded=True)
        try:
            async with asyncio.timeout_at(deadline):
                given = await self._send(url, body, headers)
            code = given.code
        except TimeoutError:
            code = "upstream_timeout"
            raise UpstreamError(code, "the vendor did not answer in time", 504) from None
        except UpstreamError as error:
            code = error.code
            raise
        except asyncio.CancelledError:
            code = "cancelled"
            raise
        finally:
            self._note(code)
            seconds = time.perf_counter() - started
            asyncio.get_running_loop().call_soon(self._count, code, seconds)
        return given

    def _count(self, code: str, seconds: float) -> None:
        self.metrics.of_upstream_calls(code).inc()
        self.metrics.upstream_seconds.observe(seconds)

    def _note(self, code: str) -> None:
        if code in ("ok", "cancelled", "internal", "upstream_rejected"):  # `read` decides on "ok"
            self.breaker.gave_up()
        else:
            self.breaker.failed()

    async def _send(
        self, url: URL, body: bytes | AsyncIterator[bytes], headers: Mapping[str, str]
    ) -> VendorAnswer:
        attempts = self.config.retries + 1 if isinstance(body, bytes) else 1
        for attempt in range(attempts):
            _reused.set(False)
            try:
                return await self._post(url, body, headers)
            except aiohttp.ClientSSLError:
                code, message = "upstream_untrusted", "the vendor's certificate is not trusted"
                again = False
            except aiohttp.ClientConnectorError:
                code, message = "upstream_refused", "no connection to the vendor could be made"
                again = True
            except aiohttp.ClientPayloadError:
                code, message = "upstream_incomplete", "the vendor's answer broke off"
                again = False
            except (aiohttp.ClientError, OSError):
                code, message = "upstream_reset", "the vendor closed the connection"
                again = _reused.get()
            if not again or attempt + 1 == attempts:
                raise UpstreamError(code, message)
            await asyncio.sleep(_PAUSE * 2**attempt)
        raise AssertionError("unreachable")

    async def _post(
        self, url: URL, body: bytes | AsyncIterator[bytes], headers: Mapping[str, str]
    ) -> VendorAnswer:
        assert self._session is not None
        response = await self._session.post(url, data=body, headers=headers, allow_redirects=False)
        _reused.set(False)  # it answers: from here on nothing is sent again
        try:
            kind = response.headers.get("content-type", "")
            length = response.headers.get(HEAD_LENGTH)
            given = VendorAnswer(response.status, passed_on(response.raw_headers), b"", kind, None)
            if length is not None:
                given.content_type = f"{BINARY}; {HEAD_LENGTH}={length}"
            if media_type(kind) in _READ and "content-encoding" not in response.headers:
                content = await response.content.read(MOST_BYTES)
                while not response.content.at_eof() and len(content) < MOST_BYTES:
                    content += await response.content.read(MOST_BYTES)
                given.content = content
            if not response.content.at_eof():
                given.rest = _rest(response)
        except BaseException:
            response.close()
            raise
        return given


async def _rest(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    try:
        async for part in response.content.iter_any():
            yield part
    finally:
        response.close()
