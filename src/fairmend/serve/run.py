"""A sidecar as a process: two ports, signals, probes, and an orderly end."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import json
import logging
import re
import signal
import socket
import struct
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from fairmend.errors import DataError, FairmendError
from fairmend.model.wire import RequestFailed
from fairmend.serve.admin import make_admin
from fairmend.serve.app import make_app
from fairmend.serve.config import Config
from fairmend.serve.http import WHOLE
from fairmend.serve.notes import flush, note, where
from fairmend.serve.sidecar import Sidecar
from fairmend.serve.tls import renew, served_by
from fairmend.serve.watch import Watch

__all__ = ["run"]

HEAD_BYTES, HEAD_SECONDS = 1 << 16, 10.0
"""Limits for the headers of a request."""
_FLUSH_SECONDS, _LOG_SECONDS, _RENEW_SECONDS, _FORGET_SECONDS = 0.2, 1.0, 60.0, 3_600.0
_COLLECT = (20_000, 10, 10)
"""When garbage is collected: a request makes hardly any, and the default looks once a request."""
_AGAIN_SECONDS = 30.0
"""When the vendor is looked at again after that failed."""
_GRACE_SECONDS = 0.2
"""Grace period for connections accepted before the listener closed."""
_OFFER = re.compile(rb"(?<=\r\n)upgrade:[^\r\n]*\r\n", re.IGNORECASE)
"""An offer of another protocol, h2c by Java's clients: unless it is dropped, the parser takes what
follows the head for that protocol."""
_ATTACH_FILTER = 26  # SO_ATTACH_FILTER of Linux, for which Python has no name
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""To stop, to stop, and to reload the artifact."""


def run(config: Config) -> None:
    """Serve until a signal to stop; returns once everything is answered and on disk."""
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
    """Closes connections whose headers are too long, or take too long."""

    _received = 0
    _in_body = _in_head = False
    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True

    def on_headers_complete(self) -> None:
        self._received, self._in_body, self._in_head = 0, True, False
        self._stop_waiting()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._in_body = False
        self.scope[WHOLE] = True  # type: ignore[literal-required]
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self._in_body and b"h2c" in data:
            end = data.find(b"\r\n\r\n") + 2 or len(data)
            data = _OFFER.sub(b"", data[:end]) + data[end:]
        self._received += len(data)
        super().data_received(data)
        if self._in_head:  # most heads come in one piece, and no clock needs to be set
            self._wait()
        if self._waiting is None:  # the head is complete: what comes is counted as body
            self._received = 0
        elif self._received > HEAD_BYTES:
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        content = json.dumps({"error": {"code": "bad_http", "message": msg}}).encode()
        head = "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n"
        head += f"content-length: {len(content)}\r\nconnection: close\r\n\r\n"
        self.transport.write(head.encode() + content)
        self.transport.close()

    def _wait(self) -> None:
        if self._waiting is None:
            self._waiting = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None


def _server(app: ASGIApp, config: Config) -> _Server:
    if config.tls_certificate is not None and config.tls_key is not None:
        served_by(config.tls_certificate, config.tls_key)  # or the error would come too late
    return _Server(
        uvicorn.Config(
            app, log_config=None, access_log=False, server_header=False, lifespan="off",
            http=_Bounded, timeout_keep_alive=75, proxy_headers=False, ws="none",
            ssl_certfile=config.tls_certificate, ssl_keyfile=config.tls_key,
        )
    )  # fmt: skip


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        got = f"it is not: {error.strerror}"
        raise DataError(
            f"{host}:{port}", "must be free to listen at", got, "Choose another port."
        ) from None


async def _serve(config: Config) -> None:
    sockets = [
        _bound(config.host, config.port),
        _bound(config.admin_host, config.admin_port),
    ]
    sidecar = Sidecar(config)
    servers = [_server(make(sidecar), config) for make in (make_app, make_admin)]
    await sidecar.start()
    stop, again = _on_signals()
    serving = [
        asyncio.create_task(server.serve(sockets=[listening]))
        for server, listening in zip(servers, sockets, strict=True)
    ]
    gc.collect()
    gc.freeze()  # what is loaded stays: collecting it again would delay requests
    gc.set_threshold(*_COLLECT)
    chores = [
        asyncio.create_task(chore)
        for chore in (
            _repeat(_FLUSH_SECONDS, _flush),
            _probe(sidecar),
            _watch(sidecar),
            _repeat(_LOG_SECONDS, sidecar.try_log),
            _repeat(_FORGET_SECONDS, partial(_forget, sidecar)),
            _repeat(0, partial(_reload, sidecar, again)),
            _repeat(_RENEW_SECONDS, partial(_renew, servers, config)),
        )
    ]
    ports = dict(
        zip(("clients", "admin"), (each.getsockname()[1] for each in sockets), strict=True)
    )
    note("listening", **ports, mode=config.mode, artifact=sidecar.serving.fingerprint)
    await stop.wait()
    sidecar.draining = True  # readiness goes first, so that no new requests are sent here
    note("draining")
    await asyncio.sleep(config.drain_seconds)
    _take_no_more(sockets[0])
    await asyncio.sleep(_GRACE_SECONDS)  # those who were let in before are still served
    for listener in servers[0].servers:
        listener.close()
    for server, ended in zip(servers, serving, strict=True):
        server.should_exit = True
        await ended
    for chore in chores:
        chore.cancel()
    await asyncio.gather(*chores, return_exceptions=True)
    await sidecar.stop()
    note("stopped")
    for number in _SIGNALS:  # a signal on its last steps must not change how it ended
        signal.signal(number, signal.SIG_IGN)


def _take_no_more(listening: socket.socket) -> None:
    """Let nobody new in, while those who are in the queue are served.

    Closing the listener would reset connections that the system has accepted and this process has
    not. So a filter first drops the first packet of new ones, SYN without ACK: clients try again,
    and are refused once the listener is closed.
    """
    steps = [(0x30, 0, 0, 13), (0x54, 0, 0, 0x12), (0x15, 0, 1, 0x02), (0x06, 0, 0, 0),
             (0x06, 0, 0, 0xFFFF)]  # fmt: skip
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = struct.pack("HL", len(steps), ctypes.addressof(code))
    with contextlib.suppress(OSError):  # not on every system
        listening.setsockopt(socket.SOL_SOCKET, _ATTACH_FILTER, program)


def _on_signals() -> tuple[asyncio.Event, asyncio.Event]:
    """Events for the signals to stop, and to reload."""
    loop = asyncio.get_running_loop()
    stop, again = asyncio.Event(), asyncio.Event()

    def handle(number: int, _: object) -> None:
        event = again if number == signal.SIGHUP else stop
        loop.call_soon_threadsafe(event.set)

    for number in _SIGNALS:  # not by the loop, which would forget them when it ends
        signal.signal(number, handle)
    return stop, again


# -------------------------------------------------------------------- chores


async def _repeat(seconds: float, chore: Callable[[], Awaitable[None]]) -> None:
    while True:
        await chore()
        await asyncio.sleep(seconds)


async def _renew(servers: Sequence[_Server], config: Config) -> None:
    """Certificates are replaced while we run: new connections get those in the files."""
    if config.tls_certificate is not None and config.tls_key is not None:
        for server in servers:
            if server.config.ssl is not None:  # it serves already
                renew(server.config.ssl, config.tls_certificate, config.tls_key)


async def _flush() -> None:
    flush()


async def _reload(sidecar: Sidecar, again: asyncio.Event) -> None:
    await again.wait()
    again.clear()
    try:
        note("reload", artifact=await sidecar.reload())
    except (FairmendError, RequestFailed) as error:
        note("reload refused", "error", error=type(error).__name__)


async def _probe(sidecar: Sidecar) -> None:
    """Look at the vendor again and again; sooner where the last look failed."""
    while True:
        seconds = sidecar.config.probe_seconds
        await asyncio.sleep(min(seconds, _AGAIN_SECONDS) if sidecar.probes.failed else seconds)
        try:
            await sidecar.probe()
        except (RequestFailed, FairmendError) as error:
            note("probe failed", "warning", code=getattr(error, "code", type(error).__name__))
        except Exception as error:
            note("probe failed", "error", error=where(error))


async def _watch(sidecar: Sidecar) -> None:
    """Read the log again and again, for the metrics and the webhook."""
    watch, seconds = Watch(sidecar), sidecar.config.watch_seconds
    while True:
        try:
            seconds = await watch.look()
        except Exception as error:  # a log that cannot be read now may be read later
            note("watch failed", "error", error=where(error))
        await asyncio.sleep(seconds)


async def _forget(sidecar: Sidecar) -> None:
    with contextlib.suppress(RequestFailed):
        await sidecar.forget()
