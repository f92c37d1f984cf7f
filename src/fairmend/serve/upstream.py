"""The vendor, queried from an event loop: deadlines, few retries, a circuit breaker, error codes.

Only what never reached the vendor is sent again: a connection that could not be made, or one kept
open that turns out to be closed. What the vendor says in an error is never passed on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

import aiohttp

from fairmend.model.protocols import protocol_for, protocol_named
from fairmend.model.remote import MOST_BYTES, read_address
from fairmend.model.wire import BadAnswer, Protocol, RequestFailed, per_row
from fairmend.serve.config import Config
from fairmend.serve.metrics import Metrics

__all__ = ["Breaker", "Upstream", "UpstreamError"]

_PAUSE = 0.05  # seconds before the first retry; doubled each time
_reused: ContextVar[bool] = ContextVar("reused", default=False)
"""Whether the current request was sent over a connection that had been used before."""


async def _note_reuse(*_: object) -> None:
    _reused.set(True)


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


class Upstream:
    """The vendor's server."""

    def __init__(self, config: Config, metrics: Metrics) -> None:
        self.config, self.metrics = config, metrics
        output = config.answer if isinstance(config.answer, str) else None
        self.protocol: Protocol = protocol_named(
            config.protocol or protocol_for(config.upstream), output=output
        )
        place = read_address(config.upstream)
        self._url = place._replace(path=self.protocol.path(place.path)).geturl()
        self.breaker = Breaker(config.breaker_failures, config.breaker_seconds)
        self._session: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        token = self.config.secret(self.config.upstream_token_env)
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        trace = aiohttp.TraceConfig()
        trace.on_connection_reuseconn.append(_note_reuse)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self.config.concurrency, keepalive_timeout=15),
            trace_configs=[trace],
            headers=headers,
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),  # deadlines are the request's own
        )

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def query(
        self,
        names: Sequence[str] | None,
        rows: Sequence[Sequence[Any]],
        kinds: Sequence[str],
        deadline: float,
    ) -> tuple[list[Any], list[Any]]:
        """The vendor's answers, and the one value of each that the decision is read from."""
        self.breaker.enter()
        started = time.perf_counter()
        code = "internal"
        try:
            body = self.protocol.encode(names, rows, kinds)
            async with asyncio.timeout_at(deadline):
                content = await self._send(body)
            answers = self.protocol.decode(content)
            values = per_row(answers, self.config.answer)
            if len(values) != len(rows):
                message = "the vendor gave another number of answers than rows"
                raise UpstreamError("upstream_row_count", message)
            code = "ok"
        except TimeoutError:
            code = "upstream_timeout"
            raise UpstreamError(code, "the vendor did not answer in time", 504) from None
        except BadAnswer:
            code = "upstream_bad_answer"
            raise UpstreamError(code, "the vendor's answer cannot be read") from None
        except UpstreamError as error:
            code = error.code
            raise
        except asyncio.CancelledError:
            code = "cancelled"
            raise
        finally:
            self._note(code)
            self.metrics.upstream_calls.labels(code).inc()
            self.metrics.upstream_seconds.observe(time.perf_counter() - started)
        return answers, values

    def _note(self, code: str) -> None:
        if code == "ok":
            self.breaker.succeeded()
        elif code in ("cancelled", "internal", "upstream_rejected"):  # not its fault
            self.breaker.gave_up()
        else:
            self.breaker.failed()

    async def _send(self, body: bytes) -> bytes:
        for attempt in range(self.config.retries + 1):
            _reused.set(False)
            try:
                return await self._post(body)
            except aiohttp.ClientConnectorError:
                code, message = "upstream_refused", "no connection to the vendor could be made"
                again = True
            except aiohttp.ClientPayloadError:
                code, message = "upstream_incomplete", "the vendor's answer broke off"
                again = False
            except (aiohttp.ClientError, OSError):
                code, message = "upstream_reset", "the vendor closed the connection"
                again = _reused.get()
            if not again or attempt == self.config.retries:
                raise UpstreamError(code, message)
            await asyncio.sleep(_PAUSE * 2**attempt)
        raise AssertionError("unreachable")

    async def _post(self, body: bytes) -> bytes:
        assert self._session is not None
        async with self._session.post(self._url, data=body, allow_redirects=False) as response:
            status = response.status
            if status == 200:
                _reused.set(False)  # it answers: from here on nothing is sent again
                content = await response.content.read(MOST_BYTES)
                while not response.content.at_eof():
                    content += await response.content.read(MOST_BYTES)
                    if len(content) > MOST_BYTES:
                        message = "the vendor's answer is too long"
                        raise UpstreamError("upstream_bad_answer", message)
                return content
        if status == 429:
            raise UpstreamError("upstream_busy", "the vendor limits requests", 503, 1)
        code, message = {
            3: ("upstream_redirect", "redirects of the vendor are not followed"),
            4: ("upstream_rejected", "the vendor does not take these rows"),
        }.get(status // 100, ("upstream_error", "the vendor failed"))
        raise UpstreamError(code, message)
