"""The plain protocol: ``{"instances": [...]}`` in, ``{"predictions": [...]}`` out.

Spoken by TensorFlow Serving and KServe v1, and by many servers people write themselves. A row is a
list of cells, or an object where columns have names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from fairmend.model.protocols.mlflow import MLflow, by_instances
from fairmend.model.protocols.wire import JSON, Asked, BadRequest, Cell, strict_json

__all__ = ["Instances"]


class _Body(msgspec.Struct, forbid_unknown_fields=True):
    instances: list[Cell | list[Cell] | dict[str, Cell]]
    parameters: dict[str, Cell | list[Cell]] | UnsetType = UNSET


_request = msgspec.json.Decoder(_Body)
_json = msgspec.json.Encoder()


class Instances(MLflow):
    """A model that takes instances; its answers look as MLflow's do.

    >>> Instances().encode(["age"], [[31]], ["int"])
    b'{"instances":[{"age":31}]}'
    """

    name = "instances"

    def __init__(self) -> None:
        """Remember how rows of the last body's columns are made objects."""
        super().__init__()
        self._made: tuple[Sequence[str] | None, Callable[..., Any]] = None, dict

    def path(self, path: str) -> str:
        return path

    def encode(
        self, names: Sequence[str] | None, rows: Sequence[Sequence[Any]], kinds: Sequence[str]
    ) -> bytes:
        if names is None:
            return _json.encode({"instances": rows})
        known, record = self._made
        if known is not names:  # the same columns again, as a rule
            record = _record(tuple(names))
            self._made = names, record
        return b'{"instances":%b}' % _json.encode([record(*row) for row in rows])

    def read(self, body: bytes, content_type: str = JSON) -> Asked:
        if content_type.partition(";")[0].strip().lower() != JSON:
            raise BadRequest("bad_content_type", f"send {JSON}", 415)
        sent = strict_json(body, _request, _keys)
        return by_instances(sent.instances, {} if sent.parameters is UNSET else sent.parameters)

    def error(self, code: str, message: str) -> bytes:
        return _json.encode({"error": {"code": code, "message": message}})


@lru_cache(maxsize=256)
def _record(names: tuple[str, ...]) -> Callable[..., Any]:
    """A row as an object; much faster to make than a dictionary."""
    fields = [(f"f{j}", Any) for j in range(len(names))]
    renamed = {f"f{j}": name for j, name in enumerate(names)}
    try:
        return msgspec.defstruct("Record", fields, rename=renamed, gc=False)
    except ValueError:  # a name with quotes or control characters
        return lambda *row: dict(zip(names, row, strict=True))


def _keys(sent: _Body) -> int:
    keys = 1 + sum(len(row) for row in sent.instances if isinstance(row, dict))
    return keys + (0 if sent.parameters is UNSET else 1 + len(sent.parameters))
