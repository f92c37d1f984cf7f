"""The operators' port: the monitor page, metrics, health, reload."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from fairmend.errors import FairmendError
from fairmend.report.html.monitor import POLICY, monitor_page
from fairmend.report.monitoring import MonitorFigures
from fairmend.serve.http import (
    allowed,
    live,
    note,
    problem,
    readiness,
    reply,
    unauthorized,
    where,
)
from fairmend.serve.monitor import look
from fairmend.serve.sidecar import Failure, Sidecar

__all__ = ["make_admin"]

_json = msgspec.json.Encoder()
Handler = Callable[[Request], Awaitable[Response]]
PAGE_HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_LOCAL = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d+)?", re.ASCII)


def make_admin(sidecar: Sidecar) -> Starlette:
    """The application on the operators' port."""
    config = sidecar.config
    token = config.secret(config.admin_token_env)

    def guarded(handler: Handler) -> Handler:
        async def guard(request: Request) -> Response:
            host = request.headers.get("host", "")
            if token is None and not _LOCAL.fullmatch(host):  # a foreign name may point here
                return problem("bad_host", "ask by the local address", 421)
            if not allowed(request.headers, token):
                return unauthorized(sidecar.metrics, "admin", 'Basic realm="fairmend"')
            try:
                return await handler(request)
            except Failure as error:
                return problem(error.code, error.message, error.status)
            except Exception as error:
                note("error", "error", error=where(error))
                return problem("internal", "something went wrong here", 500)

        return guard

    looking: asyncio.Task[MonitorFigures] | None = None

    async def looked() -> MonitorFigures:
        """One look at a time, shared by all who ask: plans need the other threads."""
        nonlocal looking
        if looking is None or looking.done():
            looking = asyncio.create_task(asyncio.to_thread(look, sidecar))
        return await asyncio.shield(looking)

    async def monitor(_: Request) -> Response:
        text = await asyncio.to_thread(monitor_page, await looked())
        return HTMLResponse(text, headers=PAGE_HEADERS)

    async def figures(_: Request) -> Response:
        return reply(_json.encode(await looked()))

    async def metrics(_: Request) -> Response:
        sidecar.metrics.set("fairmend_in_flight", sidecar.in_flight)
        sidecar.metrics.set("fairmend_ready", sidecar.ready)
        text = sidecar.metrics.text()
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    async def ready(_: Request) -> Response:
        return readiness(sidecar.ready)

    async def reload(request: Request) -> Response:
        if "fairmend-admin" not in request.headers:  # which no page elsewhere can add
            return problem("bad_request", "send the header Fairmend-Admin", 400)
        try:
            return reply(_json.encode({"artifact": await sidecar.reload()}))
        except FairmendError as error:
            return problem("bad_artifact", str(error), 422)

    return Starlette(
        routes=[
            Route("/", guarded(monitor), methods=["GET"]),
            Route("/figures", guarded(figures), methods=["GET"]),
            Route("/metrics", guarded(metrics), methods=["GET"]),
            Route("/live", guarded(live), methods=["GET"]),
            Route("/ready", guarded(ready), methods=["GET"]),
            Route("/reload", guarded(reload), methods=["POST"]),
        ]
    )
