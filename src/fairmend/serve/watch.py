"""What is watched without anybody looking: figures for the metrics, alerts for the webhook.

An alert is told once. That it was told is an event in the log, so that a restart does not repeat
it; one that could not be delivered is told again at the next look.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from contextlib import suppress
from hashlib import blake2b
from typing import Any

import aiohttp
import msgspec

from fairmend.model.wire import RequestFailed
from fairmend.report.monitoring import Alert, MonitorFigures
from fairmend.serve.log import open_store
from fairmend.serve.monitor import look
from fairmend.serve.notes import note
from fairmend.serve.sidecar import Sidecar

__all__ = ["Watch"]

ATTEMPTS, PAUSE, TIMEOUT = 4, 1.0, 10.0
"""How often an alert is posted at one look, the seconds before the second time (doubled each
time), and for one answer."""
MOST_TOLD = 1_000
SHARE = 20
"""Reading a long log takes at most one in so many seconds."""
_json = msgspec.json.Encoder()


class Watch:
    """Reads the log again and again."""

    def __init__(self, sidecar: Sidecar) -> None:
        self._sidecar, config = sidecar, sidecar.config
        self._url = config.secret(config.webhook_env)
        token = config.secret(config.webhook_token_env)
        self._headers = {"Content-Type": "application/json"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._told: dict[tuple[str, str], float] | None = None
        """When what was last told began, by its kind and what it is about."""

    async def look(self) -> float:
        """Look once; returns after how many seconds to look again."""
        began = time.monotonic()
        figures = await asyncio.to_thread(look, self._sidecar)
        took = time.monotonic() - began
        self._sidecar.metrics.show(figures)
        await self._tell(figures)
        return max(self._sidecar.config.watch_seconds, SHARE * took)

    async def _tell(self, figures: MonitorFigures) -> None:
        if self._told is None:
            self._told = await asyncio.to_thread(self._told_before)
        latest: dict[tuple[str, str], Alert] = {}
        for alert in figures.alerts:
            key = alert.kind, alert.about
            if key not in latest or alert.since > latest[key].since:
                latest[key] = alert
        self._told = {key: since for key, since in self._told.items() if key in latest}
        for key, alert in latest.items():
            if alert.since > self._told.get(key, -1.0):
                note("alert", "warning", kind=alert.kind, about=alert.about)
                if self._url is None or await self._deliver(self._url, alert, figures):
                    self._told[key] = alert.since
                    await self._record(alert)

    def _told_before(self) -> dict[tuple[str, str], float]:
        """What the log says was told; what has no beginning may have ended since, but for a day."""
        with open_store(self._sidecar.log.where) as store:
            events: Iterable[tuple[float, str, str]] = store.events_of(["alert"], MOST_TOLD)
            said = [(at, msgspec.json.decode(detail)) for at, _, detail in events]
        yesterday = time.time() - 86_400
        return {
            (each["of"], each["about"]): each["since"]
            for at, each in reversed(said)
            if each["since"] or at > yesterday
        }

    async def _record(self, alert: Alert) -> None:
        with suppress(RequestFailed):  # on a full disk: it is told once more after a restart
            await self._sidecar.record(
                "alert", of=alert.kind, about=alert.about, since=alert.since, text=alert.text
            )

    async def _deliver(self, url: str, alert: Alert, figures: MonitorFigures) -> bool:
        """Post an alert; whether somebody took it."""
        content = _json.encode(message(alert, figures))
        result = ""
        async with aiohttp.ClientSession(
            headers=self._headers, timeout=aiohttp.ClientTimeout(total=TIMEOUT)
        ) as session:
            for attempt in range(ATTEMPTS):
                if attempt:
                    await asyncio.sleep(PAUSE * 2 ** (attempt - 1))
                try:
                    async with session.post(url, data=content, allow_redirects=False) as response:
                        result = str(response.status)
                        if response.ok and response.status < 300:
                            self._sidecar.metrics.webhook.labels("ok").inc()
                            return True
                        if response.status < 500 and response.status not in (408, 429):
                            break  # it will say the same again
                except (aiohttp.ClientError, OSError, TimeoutError) as error:
                    result = type(error).__name__
        self._sidecar.metrics.webhook.labels("failed").inc()
        note("webhook failed", "error", result=result, kind=alert.kind)
        return False


def message(alert: Alert, figures: MonitorFigures) -> dict[str, Any]:
    """What the webhook is sent: ``text`` alone is what chat services show."""
    name = "\0".join((figures.artifact, alert.kind, alert.about, str(alert.since)))
    return {
        "id": blake2b(name.encode(), digest_size=16).hexdigest(),
        "text": alert.text,
        "kind": alert.kind,
        "about": alert.about,
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(alert.at)),
        "vendor": figures.vendor,
        "version": figures.version,
        "artifact": figures.artifact,
        "mode": figures.mode,
    }
