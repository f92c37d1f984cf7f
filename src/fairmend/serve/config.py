"""What an operator says about a sidecar: one TOML file, every name checked."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from fairmend.config import Option, read_toml, unknown_key
from fairmend.data.limits import LARGE, Between, hints_of
from fairmend.errors import check, check_choice
from fairmend.model.protocols import protocol_names
from fairmend.model.remote import read_address

__all__ = ["Config", "read_config"]

Positive = Annotated[float, Between(1e-9, LARGE)]
Count = Annotated[int, Between(1, LARGE)]
Port = Annotated[int, Between(0, 65535)]
Mode = Literal["shadow", "repair", "off"]


@dataclass(frozen=True, kw_only=True)
class Config:
    """The settings, with defaults that are safe: nobody's decision changes, loopback only."""

    artifact: str
    upstream: str
    protocol: str | None = None
    """The vendor's protocol, where the address does not tell."""
    answer: str | int | None = None
    """Which of several values a row the vendor's decision is read from."""
    mode: Mode = "shadow"
    basis: str = ""
    """Why decisions may be changed: on what legal basis, approved by whom. Needed for repair."""
    group: str | Annotated[Sequence[str], len] = "group"
    """The column, or columns, that hold the group."""
    id: str = "id"
    """The column that holds the person's id."""
    vendor_changed: Literal["alert", "shadow", "refuse"] = "shadow"
    """What follows, in repair, where the vendor's model is no longer the one that was audited."""
    explain: bool = False
    """Whether answers also carry the original and the repaired decision."""
    vendor: str = "vendor"
    version: str = "unknown"

    log: str = "decisions.sqlite"
    keep_days: Positive | None = None
    """How long decisions are kept; for ever by default."""
    log_groups: bool = False
    """Whether the log of a blind repair keeps the group that comes along, so that gaps can be
    watched. Nobody's answer depends on it. Other repairs always log it."""
    keep_features: bool = False
    """Whether the log also keeps what the vendor was sent."""

    host: str = "127.0.0.1"
    port: Port = 8080
    admin_host: str = "127.0.0.1"
    admin_port: Port = 8081
    key_env: str = "FAIRMEND_KEY"
    key_file: str | None = None
    log_key_env: str = "FAIRMEND_LOG_KEY"
    """Where the log's own key is found; without one it is derived from the key for draws."""
    log_key_file: str | None = None
    token_env: str = "FAIRMEND_TOKEN"
    """Where the clients' bearer token is found; without it clients need none."""
    admin_token_env: str = "FAIRMEND_ADMIN_TOKEN"
    view_token_env: str = "FAIRMEND_VIEW_TOKEN"
    """Where the token is found by which operators may look and change nothing."""
    upstream_token_env: str = "FAIRMEND_UPSTREAM_TOKEN"
    upstream_headers: list[str] | None = None
    """Headers that the vendor is sent, each as its name and the variable that holds it."""
    upstream_ca: str | None = None
    """Who vouches for the vendor's certificate, as a PEM file, where that is nobody public."""
    tls_certificate: str | None = None
    """The certificate of both ports, with its chain, as a PEM file; without it no TLS."""
    tls_key: str | None = None

    timeout: Positive = 10.0
    """Seconds for a whole request, all queries of the vendor included."""
    retries: Annotated[int, Between(0, 10)] = 2
    breaker_failures: Count = 5
    breaker_seconds: Positive = 10.0
    concurrency: Count = 64
    most_bytes: Count = 4 << 20
    most_rows: Count = 10_000
    most_failed_rows: Count = 600
    """Rows a minute about requests that failed; more of them are counted only."""
    drain_seconds: Annotated[float, Between(0, LARGE)] = 10.0
    probe_seconds: Positive = 300.0
    """How often rows of the audit are put to the vendor again, to see whether it answers alike."""
    tolerance: Annotated[float, Between(0, 1)] = 0.05
    """The gap that is still all right, as a share: 0.05 is five points."""
    watch_seconds: Positive = 60.0
    """How often the log is read for the metrics and for the webhook."""
    webhook_env: str = "FAIRMEND_WEBHOOK"
    """Where the address is found that is told of alerts; it is often a secret itself."""
    webhook_token_env: str = "FAIRMEND_WEBHOOK_TOKEN"

    @property
    def groups(self) -> tuple[str, ...]:
        return (self.group,) if isinstance(self.group, str) else tuple(self.group)

    def check(self) -> Config:
        """Refuse what types alone cannot tell."""
        read_address(self.upstream, "config upstream")
        webhook = self.secret(self.webhook_env)
        check(
            webhook is None or urlsplit(webhook).scheme in ("http", "https"),
            f"the environment variable {self.webhook_env}",
            "must hold an address that begins with https:// or http://",
            "it does not",
            "Name where alerts are posted, or leave it out.",
        )
        if self.protocol is not None:
            fix = "Leave it out to tell by the address."
            check_choice("config protocol", self.protocol, protocol_names(), fix)
        check(
            len({*self.groups, self.id}) > len(self.groups),
            "config group and id",
            "must be different columns",
            "got one of them twice",
            "Name the columns that hold each.",
        )
        check(
            self.mode != "repair" or self.basis.strip(),
            "config basis",
            "must say why decisions may be changed, for mode 'repair'",
            "got nothing",
            'Say --basis TEXT, or basis = "TEXT" in the file of --config: the legal basis, and who '
            "approved it. It is recorded in the log.",
        )
        self._check_tokens()
        check(
            (self.tls_certificate is None) == (self.tls_key is None),
            "config tls_certificate and tls_key",
            "must be given together",
            "got one of them",
            "Name the PEM files of both.",
        )
        self.vendor_headers()
        return self

    def _check_tokens(self) -> None:
        for token in (self.token_env, self.admin_token_env, self.view_token_env):
            check(
                all(map(_can_be_sent, self.tokens(token))),
                f"the token in {token}",
                f"must have at least {_SHORTEST} printable characters of ASCII",
                "it has fewer, or others",
                "Make one with: python -c 'import secrets; print(secrets.token_urlsafe())'.",
            )
        check(
            self.secret(self.admin_token_env) or not self.tokens(self.view_token_env),
            f"the token in {self.view_token_env}",
            "must come beside one for those who operate",
            f"{self.admin_token_env} is not set",
            f"Set {self.admin_token_env} too: without it, everybody may operate.",
        )
        for name, host, who, token in (
            ("host", self.host, "clients", self.token_env),
            ("admin_host", self.admin_host, "administrators", self.admin_token_env),
        ):
            check(
                host in _LOOPBACK or self.secret(token),
                f"config {name}",
                f"must be a loopback address where {who} need no token",
                f"got {host!r}",
                f"Set a token in the environment variable {token}.",
            )

    def vendor_headers(self) -> dict[str, str]:
        """What `upstream_headers` stands for, by names in small letters."""
        headers = {}
        for entry in self.upstream_headers or ():
            name, _, variable = entry.partition(":")
            check(
                _HEADER.fullmatch(name) and name.lower() not in _NOT_STATIC,
                f"config upstream_headers: {name}",
                "must be a header that can be the same for all requests",
                "it is not",
                'For example upstream_headers = {X-Api-Key = "ACME_API_KEY"}.',
            )
            value = self.secret(variable) or ""
            check(
                value.isascii() and value.isprintable() and value.strip(),
                f"the environment variable {variable!r} of config upstream_headers: {name}",
                "must hold printable characters of ASCII",
                "it holds none, or others",
                "Set it before the start.",
            )
            headers[name.lower()] = value
        return headers

    @classmethod
    def tokens(cls, name: str) -> tuple[str, ...]:
        """The tokens that are valid: that of a variable, and a second one while they change."""
        return tuple(filter(None, (cls.secret(name), cls.secret(f"{name}_2"))))

    @staticmethod
    def secret(name: str) -> str | None:
        """What an environment variable holds; None for nothing."""
        return os.environ.get(name) or None


_REQUIRED = {
    "artifact": 'Name it, fairmend serve FILE, or say artifact = "FILE" in the file of --config.',
    "upstream": 'Say --upstream URL, or upstream = "URL" in the file of --config.',
}
"""How to give the settings that have no default."""
_SHORTEST = 6
"""Characters of a token."""
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NOT_STATIC = ("connection", "content-length", "content-type", "content-encoding", "host",
               "transfer-encoding", "upgrade")  # fmt: skip
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


def _can_be_sent(secret: str) -> bool:
    """Whether a token can stand in a header, and is more than a slip."""
    return secret.isascii() and secret.isprintable() and len(secret.strip()) >= _SHORTEST


def read_config(path: str | os.PathLike[str] | None, **given: Any) -> Config:
    """The settings of a file; what is given on the command line goes before.

    >>> read_config(None, artifact="repair.zip", upstream="http://localhost/score").mode
    'shadow'
    """
    settings = {} if path is None else read_toml(path)
    settings |= {name: value for name, value in given.items() if value is not None}
    config: type = Config
    hints = hints_of(config)
    for name in settings:
        if name not in hints:
            raise unknown_key("config", "a sidecar", name, hints)
    for name, how in _REQUIRED.items():
        check(name in settings, f"config {name}", "must be given", "got nothing", how)
    options = {name: Option(name, hint, see="docs/deploy.md lists the settings.")
               for name, hint in hints.items()}  # fmt: skip
    read = {name: options[name].read(f"config {name}", one) for name, one in settings.items()}
    return Config(**read).check()
