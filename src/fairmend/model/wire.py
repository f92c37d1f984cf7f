"""Rows and answers apart from the way they travel, and strict JSON.

A protocol is one class in one file of `fairmend.model.protocols`. As a client it turns rows into a
request body and a response into answers; as a server it does the reverse. Rows are lists of plain
cells; an answer is whatever the vendor gives for a row: a label, a number, a list or a mapping.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, TypeVar

import msgspec
from msgspec import UNSET, Struct

from fairmend.model.registry import PROTOCOLS

JSON = "application/json"
# Larger integers fit neither a float nor 64 bits: readers downstream would disagree about them.
Whole = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Cell = Whole | float | str | bool | None

T = TypeVar("T")


class RequestFailed(Exception):
    """A request that is not answered: a code for programs, a message for people, a status."""

    def __init__(self, code: str, message: str, status: int = 400, retry_after: int = 0) -> None:
        super().__init__(message)
        self.code, self.message, self.status = code, message, status
        self.retry_after = retry_after


class BadRequest(RequestFailed):
    """A client's request cannot be read; the message never repeats any of it."""


class BadAnswer(Exception):
    """The vendor's answer cannot be read; the message never repeats any of it."""


class Query(Struct, frozen=True):
    """A request for predictions, as read."""

    names: tuple[str, ...] | None
    """The columns; None where cells are known by their place alone."""
    rows: Sequence[Sequence[Any]]
    """Their cells; UNSET where a record lacks a key that others have."""
    parameters: Mapping[str, Any] = {}
    """What came beside the rows: one value for all of them, or one per row."""
    id: str | None = None
    text: bool = False
    """Whether all cells are text, as in CSV, and have no types yet."""
    form: Any = None
    """How its protocol wrote the rows, for `Protocol.again`."""


class Protocol(ABC):
    """How rows travel to a model and answers travel back."""

    name: ClassVar[str]
    title: ClassVar[str] = ""
    paths: ClassVar[tuple[str, ...]] = ()
    """Where a server takes requests; ``{model}`` stands for the model's name."""
    records_key: ClassVar[str] = ""
    """The only key of a JSON body whose rows are records, where the protocol has such bodies."""
    answers_key: ClassVar[str] = "predictions"
    """The key of a response that holds the answers."""
    content_types: ClassVar[tuple[str, ...]] = (JSON,)
    has_types: ClassVar[bool] = False
    """Whether requests say the type of each column, so that the vendor must get it as it came."""

    def __init_subclass__(cls) -> None:
        if "name" in cls.__dict__:
            PROTOCOLS.add(cls.name, cls)

    def __init__(self, output: str | None = None, model: str = "fairmend") -> None:
        """``output`` is the one to request where a model has several."""
        self.output, self.model = output, model

    @staticmethod
    def fits(path: str) -> bool:
        return False

    # ---------------------------------------------------------------- as a client

    def path(self, path: str) -> str:
        """Where on the vendor's server to send rows, from the path of the address given."""
        return path

    @abstractmethod
    def encode(
        self, names: Sequence[str] | None, rows: Sequence[Sequence[Any]], kinds: Sequence[str]
    ) -> bytes:
        """The request body for some rows; kinds are bool, int, float or str."""

    @abstractmethod
    def decode(self, body: bytes) -> list[Any]:
        """The answers in a response body, one per row."""

    # ---------------------------------------------------------------- between client and vendor

    def again(
        self,
        query: Query,
        names: Sequence[str] | None,
        rows: Sequence[Sequence[Any]],
        parameters: Mapping[str, Any],
    ) -> tuple[bytes, str] | None:
        """A body and its content type in the form of a request read before, about these rows.

        None where the protocol cannot do this: then `encode` is used.
        """
        return None

    def with_output(self, query: Query) -> Query:
        """A request that also asks for the output that decisions are read from."""
        return query

    def answers(self, body: bytes, content_type: str) -> list[Any]:
        """The answers in a vendor's response, one per row."""
        return self.decode(body)

    def replace(
        self, body: bytes, content_type: str, answers: Mapping[int, Any], more: Mapping[str, Any]
    ) -> tuple[bytes, str] | None:
        """A vendor's response with other answers for some rows and further fields, else unchanged.

        None where the protocol cannot do this: then `write` is used.
        """
        return None

    # ---------------------------------------------------------------- as a server

    @abstractmethod
    def read(self, body: bytes, content_type: str = JSON) -> Query:
        """The rows in a request body."""

    @abstractmethod
    def write(
        self, query: Query, answers: list[Any], more: Mapping[str, Any] | None = None
    ) -> bytes:
        """The response body, with further fields where there are some."""

    @abstractmethod
    def error(self, code: str, message: str) -> bytes:
        """The response body of a request that failed, in the shape its clients expect."""

    def request_schema(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        """The JSON schema of a request body, from those of the columns."""
        return {}

    def check_content_type(self, content_type: str) -> str:
        kind = media_type(content_type)
        if kind not in self.content_types:
            allowed = " or ".join(self.content_types)
            raise BadRequest("bad_content_type", f"send {allowed}", 415)
        return kind


def media_type(content_type: str) -> str:
    """A content type without its parameters.

    >>> media_type("application/json; charset=utf-8")
    'application/json'
    """
    return content_type.partition(";")[0].strip().lower()


# -------------------------------------------------------------------- strict JSON


def strict_json(body: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """JSON of a known shape: no NaN, no huge integers, no deep nesting, no repeated key.

    >>> decoder = msgspec.json.Decoder(dict[str, int])
    >>> strict_json(b'{"a": 1}', decoder)
    {'a': 1}
    >>> strict_json(b'{"a": 1, "a": 2}', decoder)
    Traceback (most recent call last):
    fairmend.model.wire.BadRequest: the JSON has a key twice
    """
    try:
        value = decoder.decode(body)
    except msgspec.ValidationError as error:
        raise _misshapen(str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BadRequest("bad_json", "the body must be JSON, without NaN or infinities") from None
    if body.count(b":") != _keys(value):  # more colons than keys: in texts, or a repeated key
        json.loads(body, object_pairs_hook=_refuse_repeated, parse_int=len)
    return value


def _misshapen(message: str) -> BadRequest:
    """Where the JSON is wrong, without a word of its content."""
    where = message.rpartition(" - at `")[2].rstrip("`") if " - at `" in message else "$"
    if "unknown field" in message:
        return BadRequest(
            "bad_request", "the JSON has a key that does not belong there; see /openapi.json", 422
        )
    if any(letter in where for letter in "\"'") or not where.isascii():
        where = "$"
    message = f"the JSON does not have the shape it must have, at {where}; see /openapi.json"
    return BadRequest("bad_request", message, 422)


def _keys(value: Any) -> int:
    """How many keys a decoded value has; mappings hold cells alone. Never too many."""
    if isinstance(value, dict):
        return len(value)
    if isinstance(value, Struct):
        fields = msgspec.structs.astuple(value)
        return sum(1 + _keys(each) for each in fields if each is not UNSET)
    if isinstance(value, list) and value and isinstance(value[0], dict | Struct):
        return sum(map(_keys, value))
    return 0


def _refuse_repeated(pairs: list[tuple[str, Any]]) -> None:
    if len({key for key, _ in pairs}) != len(pairs):
        raise BadRequest("bad_json", "the JSON has a key twice")


# -------------------------------------------------------------------- JSON schemas


def json_object(
    properties: Mapping[str, Any], optional: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The schema of an object with these keys, and perhaps some others."""
    return {
        "type": "object",
        "properties": {**properties, **(optional or {})},
        "required": list(properties),
        "additionalProperties": False,
    }


def json_rows(columns: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The schemas of rows as lists of cells, and as records; ``optional`` keys may be left out.

    Columns that come ``beside`` the inputs are known by their names alone.
    """
    by_place = [{"type": c["type"]} for c in columns.values() if not c.get("beside")]
    n = len(by_place)
    cells = {name: {"type": column["type"]} for name, column in columns.items()}
    needed = [name for name, column in columns.items() if not column.get("optional")]
    row = {"type": "array", "prefixItems": by_place, "minItems": n, "maxItems": n}
    record = {"type": "object", "properties": cells, "required": needed}
    return (
        {"type": "array", "items": row, "minItems": 1},
        {"type": "array", "items": record, "minItems": 1},
    )


# -------------------------------------------------------------------- answers


def per_row(answers: Any, pick: str | int | None = None) -> list[Any]:
    """One value per row out of whatever the vendor gives for one.

    Of a list of two, class probabilities, the second is that of the positive label; of several
    by name, ``pick`` says which.

    >>> per_row([0, [0.3], [0.2, 0.8], {"score": 0.4}])
    [0, 0.3, 0.8, 0.4]
    """
    return [_one(answer, pick) for answer in answers]


def _one(answer: Any, pick: str | int | None) -> Any:
    if isinstance(answer, Mapping):
        if pick in answer:
            return _one(answer[pick], None)
        if len(answer) == 1:
            return _one(next(iter(answer.values())), pick)
        if set(answer) == {"0", "1"}:  # class probabilities as a frame
            return _one(answer["1"], None)
        raise BadAnswer("several values per row; say which to read")
    if isinstance(answer, list):
        if isinstance(pick, int) and -len(answer) <= pick < len(answer):
            return _one(answer[pick], None)
        if len(answer) in (1, 2):
            return _one(answer[-1], None)
        raise BadAnswer(f"{len(answer)} values per row; say which to read")
    return answer
