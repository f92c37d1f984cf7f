"""Protocols that models are served by; each is one file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from fairmend.errors import DataError, nearest, require

if TYPE_CHECKING:
    from fairmend.model.protocols.wire import Protocol

__all__ = ["NAMES", "protocol_for", "protocol_named"]

NAMES = ("mlflow", "v2", "instances")


def protocol_named(name: str, *, output: str | None = None) -> Protocol:
    """A protocol by its name; ``output`` is the one to ask for where a model gives several.

    >>> protocol_named("mlflow").name
    'mlflow'
    """
    require("msgspec", extra="remote", why="a model behind an address")
    if name not in NAMES:
        raise DataError(
            "protocol",
            f"must be one of {', '.join(NAMES)}",
            f"got {name!r}",
            nearest(name, NAMES),
        )
    if name == "mlflow":
        from fairmend.model.protocols.mlflow import MLflow

        return MLflow()
    if name == "v2":
        from fairmend.model.protocols.v2 import V2

        return V2(output)
    from fairmend.model.protocols.instances import Instances

    return Instances()


def protocol_for(url: str) -> str:
    """The protocol an address tells by its shape.

    >>> protocol_for("http://localhost:8080/invocations")
    'mlflow'
    >>> protocol_for("https://models.example/v2/models/credit/infer")
    'v2'
    >>> protocol_for("https://models.example/score")
    'instances'
    """
    path = urlsplit(url).path
    if path.rstrip("/").endswith("/invocations"):
        return "mlflow"
    if re.search(r"/v2/models/[^/]+", path):
        return "v2"
    if path.strip("/") == "":
        raise DataError(
            "url",
            "must tell the protocol by its path, or protocol= must",
            "got an address without a path",
            "Give the whole address, e.g. ending in /invocations or /v2/models/NAME.",
        )
    return "instances"
