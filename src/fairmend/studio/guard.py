"""Who may come in: the browser that opened the address with its one-time token, and nobody else.

Loopback is open to every user of the machine, and to every page a browser shows. So each request
must carry the cookie that the token was exchanged for, name this address as its host, and, where
it changes something, come from a page of ours. All pages are in a folder whose name is secret: a
browser sends the cookie there alone, and not to what another user serves at another port.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from hmac import compare_digest

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; "
    "connect-src 'self'; img-src 'self' data:; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}
_ENTER = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>fairmend studio</title>'
    '<link rel="icon" href="data:,">'
    '<meta http-equiv="refresh" content="0; url={home}"><p><a href="{home}">Open the studio</a></p>'
)
_STAY_OUT = (
    "This studio is open to the browser that it was started for. Each address opens it once: the "
    "terminal in which the studio runs shows the next one.\n"
)


@dataclass
class Guard:
    """The door of a studio."""

    app: ASGIApp
    port: int
    used: Callable[[str], None]
    """Called with the next address once the last one was used."""
    _session: str = field(default_factory=secrets.token_urlsafe)
    _folder: str = field(default_factory=lambda: f"/{secrets.token_urlsafe()}")
    _token: str = field(default_factory=secrets.token_urlsafe)

    @property
    def address(self) -> str:
        """Where the studio opens, once."""
        return f"http://127.0.0.1:{self.port}/?token={self._token}"

    @property
    def _cookie(self) -> str:
        return f"fairmend-studio-{self.port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        refused = self._refused(HTTPConnection(scope))
        if refused is None:
            inside = {**scope, "path": scope["path"].removeprefix(self._folder)}
            await self.app(inside, receive, _with_headers(send, self._folder))
        else:
            await refused(scope, receive, _with_headers(send))

    def _refused(self, asked: HTTPConnection) -> Response | None:
        """The answer to whoever does not get in; None for those who do."""
        own = {f"{host}:{self.port}" for host in ("127.0.0.1", "localhost")}
        if asked.headers.get("host") not in own:
            return PlainTextResponse("This address has no studio.\n", 421)
        path, token = asked["path"], asked.query_params.get("token", "")
        if path == "/" and compare_digest(token.encode(), self._token.encode()):
            self._token = secrets.token_urlsafe()
            self.used(self.address)
            home = f"{self._folder}/"
            # not a redirect: a strict cookie would stay behind
            answer = HTMLResponse(_ENTER.format(home=home))
            answer.set_cookie(
                self._cookie, self._session, path=home, httponly=True, samesite="strict"
            )
            return answer
        within = path.encode()[: len(self._folder) + 1]
        shown = asked.cookies.get(self._cookie, "").encode()
        is_known = compare_digest(shown, self._session.encode())
        if not (compare_digest(within, f"{self._folder}/".encode()) and is_known):
            return PlainTextResponse(_STAY_OUT, 403)
        if asked["method"] not in ("GET", "HEAD"):
            origin = asked.headers.get("origin", "")
            if origin.removeprefix("http://") not in own:
                return PlainTextResponse("Only pages of this studio may change it.\n", 403)
        return None


def _with_headers(send: Send, folder: str = "") -> Send:
    """Headers of every answer; a redirect within the app stays in the folder."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
            if "location" in headers:
                headers["location"] = f"{folder}{headers['location']}"
        await send(message)

    return sending
