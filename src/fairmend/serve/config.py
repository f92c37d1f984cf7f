"""What an operator says about a sidecar: one TOML file, every name checked."""

from __future__ import annotations

import os
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from fairmend.config import LONGEST
from fairmend.data.files import read_small
from fairmend.errors import DataError
from fairmend.model.protocols import NAMES
from fairmend.model.remote import read_address

__all__ = ["Config", "read_config"]

Positive = Annotated[float, Meta(gt=0)]
Count = Annotated[int, Meta(ge=1)]
Mode = Literal["shadow", "repair", "off"]


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
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
    group: str | Annotated[tuple[str, ...], Meta(min_length=1)] = "group"
    """The column, or columns, that hold the group."""
    id: str = "id"
    """The column that holds the person's id."""
    explain: bool = False
    """Whether answers also carry the original and the repaired decision."""
    vendor: str = "vendor"
    version: str = "unknown"

    log: str = "decisions.sqlite"
    keep_days: Positive | None = None
    """How long decisions are kept; for ever by default."""
    keep_features: bool = False
    """Whether the log also keeps what the vendor was sent."""

    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535)] = 8080
    admin_host: str = "127.0.0.1"
    admin_port: Annotated[int, Meta(ge=0, le=65535)] = 8081
    key_env: str = "FAIRMEND_KEY"
    key_file: str | None = None
    token_env: str = "FAIRMEND_TOKEN"
    """Where the clients' bearer token is found; without it clients need none."""
    admin_token_env: str = "FAIRMEND_ADMIN_TOKEN"
    upstream_token_env: str = "FAIRMEND_UPSTREAM_TOKEN"

    timeout: Positive = 10.0
    """Seconds for a whole request, everything asked of the vendor included."""
    retries: Annotated[int, Meta(ge=0, le=10)] = 2
    breaker_failures: Count = 5
    breaker_seconds: Positive = 10.0
    concurrency: Count = 64
    most_bytes: Count = 4 << 20
    most_rows: Count = 10_000
    drain_seconds: Annotated[float, Meta(ge=0)] = 1.0
    probe_seconds: Positive = 300.0
    """How often rows of the audit are put to the vendor again, to see whether it answers alike."""
    tolerance: Annotated[float, Meta(ge=0, le=1)] = 0.05
    """The gap that is still all right, as a share: 0.05 is five points."""

    @property
    def groups(self) -> tuple[str, ...]:
        return (self.group,) if isinstance(self.group, str) else self.group

    def check(self) -> Config:
        """What types alone cannot tell."""
        read_address(self.upstream)
        if self.protocol is not None and self.protocol not in NAMES:
            raise DataError(
                "config protocol",
                f"must be one of {', '.join(NAMES)}",
                f"got {self.protocol!r}",
                "Leave it out to tell by the address.",
            )
        if len({*self.groups, self.id}) <= len(self.groups):
            raise DataError(
                "config group and id",
                "must be different columns",
                "got one of them twice",
                "Name the columns that hold each.",
            )
        if self.mode == "repair" and not self.basis.strip():
            raise DataError(
                "config basis",
                "must say why decisions may be changed, for mode 'repair'",
                "got nothing",
                'Say --basis TEXT, or basis = "TEXT" in the file of --config: the legal basis, and '
                "who approved it. It is recorded in the log.",
            )
        if self.host not in _LOOPBACK and not self.secret(self.token_env):
            raise DataError(
                "config host",
                "must be a loopback address where clients need no token",
                f"got {self.host!r}",
                f"Set a token in the environment variable {self.token_env}.",
            )
        if self.admin_host not in _LOOPBACK and not self.secret(self.admin_token_env):
            raise DataError(
                "config admin_host",
                "must be a loopback address where administrators need no token",
                f"got {self.admin_host!r}",
                f"Set a token in the environment variable {self.admin_token_env}.",
            )
        return self

    @staticmethod
    def secret(name: str) -> str | None:
        """What an environment variable holds; None for nothing."""
        return os.environ.get(name) or None


_REQUIRED = {
    "artifact": 'Name it, fairmend serve FILE, or say artifact = "FILE" in the file of --config.',
    "upstream": 'Say --upstream URL, or upstream = "URL" in the file of --config.',
}
"""How to give the settings that have no default."""
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


def read_config(path: str | os.PathLike[str] | None, **said: Any) -> Config:
    """The settings of a file, with what is said on the command line in their place.

    >>> read_config(None, artifact="mended.zip", upstream="http://localhost/score").mode
    'shadow'
    """
    settings: dict[str, Any] = {}
    try:
        if path is not None:
            settings = msgspec.toml.decode(read_small(path, LONGEST, f"config {str(path)!r}"))
        settings |= {name: value for name, value in said.items() if value is not None}
        for name, how in _REQUIRED.items():
            if name not in settings:
                raise DataError(f"config {name}", "must be given", "got nothing", how)
        config = msgspec.convert(settings, Config, strict=False)
    except OSError as error:
        raise DataError(f"config file {str(path)!r}", "must be readable",
                        f"it is not: {error.strerror}", "Check its name.") from None  # fmt: skip
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DataError("config", "must hold known settings of the right types", f"got {error}",
                        "docs/deploy.md lists them.") from None  # fmt: skip
    return config.check()
