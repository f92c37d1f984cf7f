"""Protocols that models are served by: a file each, called as the protocol is."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from fairmend.errors import check, require
from fairmend.model.registry import PROTOCOLS

if TYPE_CHECKING:
    from fairmend.model.wire import Protocol

protocol_names = PROTOCOLS.names


def protocol_named(name: str, *, output: str | None = None, model: str = "fairmend") -> Protocol:
    """A protocol by its name; ``output`` is the one to request where a model has several.

    >>> protocol_named("mlflow").name
    'mlflow'
    """
    require("msgspec", extra="remote", why="a model behind an address")
    protocol: Protocol = PROTOCOLS[name](output, model)
    return protocol


def protocol_for(url: str) -> str:
    """The protocol that the path of an address belongs to.

    >>> protocol_for("http://localhost:8080/invocations")
    'mlflow'
    >>> protocol_for("https://models.example/v2/models/credit/infer")
    'v2'
    >>> protocol_for("https://models.example/score")
    'instances'
    """
    path = urlsplit(url).path
    must = "must show the protocol by its path, or protocol= must name it"
    fix = "Give the whole address, e.g. ending in /invocations or /v2/models/NAME."
    check(path.strip("/"), "url", must, "got an address without a path", fix)
    require("msgspec", extra="remote", why="a model behind an address")
    return next((name for name in protocol_names() if PROTOCOLS[name].fits(path)), "instances")
