"""A sidecar as a process: two ports, signals, probes, and an orderly end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
import socket
from collections.abc import Iterator
from functools import partial

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from fairmend.errors import DataError, FairmendError
from fairmend.serve.admin import make_admin
from fairmend.serve.app import make_app
from fairmend.serve.config import Config
from fairmend.serve.http import flush, note, where
from fairmend.serve.sidecar import Failure, Sidecar
from fairmend.serve.upstream import UpstreamError

__all__ = ["run"]

HEAD_BYTES, HEAD_SECONDS = 1 << 16, 10.0
"""How long the head of a request may be, and may take."""
_FORGET_SECONDS = 3_600.0
_LET_IN_SECONDS = 0.2
"""How long after the door is shut those inside may still begin to speak."""
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""To stop, to stop, and to load the artifact again."""


def run(config: Config) -> None:
    """Serve until told to stop; returns once everything is answered and on disk."""
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
    try:
        import uvloop
    except ImportError:  # not on every system
        asyncio.run(_serve(config))
    else:
        uvloop.run(_serve(config))


class _Server(uvicorn.Server):
    """A server whose signals are handled by us: there are two of them in one process."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Bounded(HttpToolsProtocol):
    """Heads of requests that are too long, or take too long, are not waited for."""

    _received = 0
    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._wait()

    def on_headers_complete(self) -> None:
        self._received = 0
        self._stop_waiting()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        super().data_received(data)
        if self._waiting is None:  # the head is complete: what comes is counted as body
            self._received = 0
        elif self._received > HEAD_BYTES:
            self.transport.close()

    def _wait(self) -> None:
        if self._waiting is None:
            self._waiting = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None


def _server(app: ASGIApp) -> _Server:
    return _Server(
        uvicorn.Config(
            app, log_config=None, access_log=False, server_header=False, lifespan="off",
            http=_Bounded, timeout_keep_alive=75, proxy_headers=False, ws="none",
        )
    )  # fmt: skip


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(2048)
    except OSError as error:
        listening.close()
        raise DataError(
            f"{host}:{port}",
            "must be free to listen at",
            f"it is not: {error.strerror}",
            "Choose another port.",
        ) from None
    return listening


async def _serve(config: Config) -> None:
    public = _bound(config.host, config.port)
    private = _bound(config.admin_host, config.admin_port)
    sidecar = Sidecar(config)
    await sidecar.start()
    loop = asyncio.get_running_loop()
    stop, again = asyncio.Event(), asyncio.Event()
    for number in _SIGNALS:  # not by the loop, which would forget them when it ends
        told = again if number == signal.SIGHUP else stop
        signal.signal(number, partial(_tell, loop, told))
    clients = _server(make_app(sidecar))
    admin = _server(make_admin(sidecar))
    serving = [
        asyncio.create_task(clients.serve(sockets=[public])),
        asyncio.create_task(admin.serve(sockets=[private])),
    ]
    gc.collect()
    gc.freeze()  # what is loaded stays: looking through it again would hold requests up
    chores = [
        asyncio.create_task(_flush_now_and_then()),
        asyncio.create_task(_reload_when_told(sidecar, again)),
        asyncio.create_task(_probe_now_and_then(sidecar)),
        asyncio.create_task(_forget_now_and_then(sidecar)),
    ]
    note(
        "listening",
        clients=public.getsockname()[1],
        admin=private.getsockname()[1],
        mode=config.mode,
        artifact=sidecar.serving.fingerprint,
    )
    await stop.wait()
    sidecar.draining = True  # readiness goes first, so that nobody new is sent here
    note("draining")
    await asyncio.sleep(config.drain_seconds)
    for listening in clients.servers:
        listening.close()
    await asyncio.sleep(_LET_IN_SECONDS)  # whoever was let in last has yet to be heard
    clients.should_exit = True
    await serving[0]
    admin.should_exit = True
    await serving[1]
    for chore in chores:
        chore.cancel()
    await asyncio.gather(*chores, return_exceptions=True)
    await sidecar.stop()
    note("stopped")
    for number in _SIGNALS:  # told again on its last steps, it still ends as one that was done
        signal.signal(number, signal.SIG_IGN)


def _tell(loop: asyncio.AbstractEventLoop, told: asyncio.Event, *_: object) -> None:
    """What a signal does, wherever it interrupts."""
    loop.call_soon_threadsafe(told.set)


async def _reload_when_told(sidecar: Sidecar, again: asyncio.Event) -> None:
    while True:
        await again.wait()
        again.clear()
        try:
            note("reload", artifact=await sidecar.reload())
        except (FairmendError, Failure) as error:
            note("reload refused", "error", error=type(error).__name__)


async def _probe_now_and_then(sidecar: Sidecar) -> None:
    while True:
        try:
            await sidecar.probe()
            changed = len(sidecar.changed_probes)
            note("probed", "warning" if changed else "info", changed=changed)
        except (UpstreamError, Failure, FairmendError) as error:
            note("probe failed", "warning", code=getattr(error, "code", type(error).__name__))
        except Exception as error:
            note("probe failed", "error", error=where(error))
        await asyncio.sleep(sidecar.config.probe_seconds)


async def _flush_now_and_then() -> None:
    while True:
        await asyncio.sleep(0.2)
        flush()


async def _forget_now_and_then(sidecar: Sidecar) -> None:
    while True:
        with contextlib.suppress(Failure):
            await sidecar.forget()
        await asyncio.sleep(_FORGET_SECONDS)
