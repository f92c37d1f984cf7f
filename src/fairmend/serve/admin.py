"""The operators' port: the monitor page, metrics, health, reload."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from fairmend.errors import FairmendError
from fairmend.model.wire import RequestFailed
from fairmend.report.html.monitor import POLICY, decision_page, monitor_page
from fairmend.report.monitoring import MonitorFigures
from fairmend.serve.http import Port, is_allowed, reply
from fairmend.serve.log import EVER, Period
from fairmend.serve.monitor import look, look_up
from fairmend.serve.sidecar import Sidecar

__all__ = ["make_admin"]

PAGE_HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_LOCAL = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d+)?", re.ASCII)


def make_admin(sidecar: Sidecar) -> Starlette:
    """The application on the operators' port."""
    operators = _Operators(sidecar)
    app = Starlette(
        routes=[
            operators.route("/", operators.monitor),
            operators.route("/figures", operators.figures),
            operators.route("/decision", operators.decision),
            operators.route("/metrics", operators.metrics),
            operators.route("/live", operators.live),
            operators.route("/ready", operators.ready),
            operators.route("/livez", operators.live, is_open=True),
            operators.route("/readyz", operators.ready, is_open=True),
            operators.route("/reload", operators.reload, method="POST"),
        ]
    )
    app.router.redirect_slashes = False  # a redirect would name whatever host was asked for
    return app


class _Operators(Port):
    """What operators may request."""

    def __init__(self, sidecar: Sidecar) -> None:
        config = sidecar.config
        super().__init__("admin", sidecar, config.admin_token_env, 'Basic realm="fairmend"')
        self._may_operate = self.tokens
        self.tokens += config.tokens(config.view_token_env)
        self._reading: asyncio.Task[MonitorFigures] | None = None
        self._of_periods = asyncio.Lock()

    def refusal(
        self, headers: Mapping[str, str], path_params: Mapping[str, Any]
    ) -> RequestFailed | None:
        host = headers.get("host", "")
        if not self.tokens and not _LOCAL.fullmatch(host):  # a foreign name may point here
            return RequestFailed("bad_host", "use the local address", 421)
        return super().refusal(headers, path_params)

    async def _figures(self, request: Request) -> MonitorFigures:
        """The log is read once at a time, for all who wait: plans need the other threads."""
        period = _period(request.query_params)
        if period != EVER:
            async with self._of_periods:
                return await asyncio.to_thread(look, self.sidecar, period)
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(asyncio.to_thread(look, self.sidecar))
        return await asyncio.shield(self._reading)

    async def monitor(self, request: Request) -> Response:
        text = await asyncio.to_thread(monitor_page, await self._figures(request))
        return HTMLResponse(text, headers=PAGE_HEADERS)

    async def figures(self, request: Request) -> Response:
        return reply(await self._figures(request))

    async def decision(self, request: Request) -> Response:
        name = request.query_params.get("id", "").strip()
        decisions = await asyncio.to_thread(look_up, self.sidecar, name)
        text = await asyncio.to_thread(decision_page, name, decisions)
        return HTMLResponse(text, 200 if decisions else 404, headers=PAGE_HEADERS)

    async def metrics(self, _: Request) -> Response:
        self.counts.in_flight.set(self.sidecar.in_flight)
        self.counts.ready.set(self.sidecar.ready)
        self.counts.repairing.set(self.sidecar.mode == "repair" and not self.sidecar.refuses)
        return PlainTextResponse(self.counts.text(), media_type="text/plain; version=0.0.4")

    async def reload(self, request: Request) -> Response:
        if not is_allowed(request.headers, self._may_operate):
            raise RequestFailed("forbidden", "with this token one may look, not operate", 403)
        if "fairmend-admin" not in request.headers:  # which no page elsewhere can add
            raise RequestFailed("bad_request", "send the header Fairmend-Admin", 400)
        try:
            return reply({"artifact": await self.sidecar.reload()})
        except FairmendError as error:
            raise RequestFailed("bad_artifact", str(error), 422) from None


def _period(params: Mapping[str, str]) -> Period:
    """From the beginning of a day to the end of another, in UTC."""
    first, last = (params.get(name, "").strip() for name in ("from", "to"))
    return (
        _midnight(first) if first else EVER[0],
        _midnight(last, 1) if last else EVER[1],
    )


def _midnight(day: str, later: int = 0) -> float:
    try:
        moment = datetime.combine(date.fromisoformat(day) + timedelta(later), time(), UTC)
        return max(0.0, moment.timestamp())
    except (ValueError, OverflowError):
        raise RequestFailed("bad_period", "from and to are days, as 2026-05-31", 422) from None
