"""What every protocol is made of: rows and answers apart from the way they travel.

A protocol is one file with one class. As a client it turns rows into a request body and a response
into answers; as a server it does the reverse. Rows are lists of plain cells, answers whatever the
vendor gives for a row: a label, a number, a list of them or several by name.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypeVar

import msgspec

__all__ = [
    "JSON",
    "Asked",
    "BadAnswer",
    "BadRequest",
    "Cell",
    "Kind",
    "Protocol",
    "per_row",
    "strict_json",
]

JSON = "application/json"
_HIGH = 2**63 - 1
# Larger integers are no floats and no 64-bit integers: everybody downstream reads them otherwise.
Whole = Annotated[int, msgspec.Meta(ge=-_HIGH - 1, le=_HIGH)]
Cell = Whole | float | str | bool | None
Kind = str
"""What a column holds: bool, int, float or str."""

T = TypeVar("T")


class BadRequest(Exception):
    """What a client sent cannot be read; the words never repeat any of it."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.code, self.message, self.status = code, message, status


class BadAnswer(Exception):
    """What the vendor sent cannot be read; the words never repeat any of it."""


class Asked(msgspec.Struct, frozen=True):
    """A request for predictions, as read."""

    names: tuple[str, ...] | None
    """The columns; None where cells are told by their place alone."""
    rows: list[list[Any]]
    """Their cells; UNSET where a record lacks a key that others have."""
    form: str
    """Which of the protocol's forms it came in."""
    parameters: Mapping[str, Any] = {}
    """What came beside the rows: one value for all of them, or one a row."""
    id: str | None = None
    text: bool = False
    """Whether all cells are text, as in CSV, and their types are still to be told."""


class Protocol(ABC):
    """How rows travel to a model and answers travel back."""

    name: str

    # ---------------------------------------------------------------- as a client

    @abstractmethod
    def path(self, path: str) -> str:
        """Where on the vendor's server to send rows, from the path of the address given."""

    @abstractmethod
    def encode(
        self, names: Sequence[str] | None, rows: Sequence[Sequence[Any]], kinds: Sequence[Kind]
    ) -> bytes:
        """The request body for some rows."""

    @abstractmethod
    def decode(self, body: bytes) -> list[Any]:
        """The answers in a response body, one a row."""

    # ---------------------------------------------------------------- as a server

    @abstractmethod
    def read(self, body: bytes, content_type: str = JSON) -> Asked:
        """The rows in a request body."""

    @abstractmethod
    def write(
        self, asked: Asked, answers: list[Any], more: Mapping[str, Any] | None = None
    ) -> bytes:
        """The response body, with something said beside the answers where wanted."""

    @abstractmethod
    def error(self, code: str, message: str) -> bytes:
        """The response body of a request that failed, in the shape its clients expect."""


def strict_json(body: bytes, decoder: msgspec.json.Decoder[T], keys: Any) -> T:
    """JSON of a known shape: no NaN, no huge integers, nothing deep, no key twice, nothing else.

    ``keys`` counts the keys of what was read. There are at least as many colons as keys, so that
    equal numbers rule out a second copy of a key; otherwise the text is looked through.

    >>> decoder = msgspec.json.Decoder(dict[str, int])
    >>> strict_json(b'{"a": 1}', decoder, len)
    {'a': 1}
    >>> strict_json(b'{"a": 1, "a": 2}', decoder, len)
    Traceback (most recent call last):
    fairmend.model.protocols.wire.BadRequest: the JSON has a key twice
    """
    try:
        value = decoder.decode(body)
    except msgspec.ValidationError as error:
        raise BadRequest("bad_request", _told(error), 422) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise BadRequest("bad_json", "the body must be JSON, without NaN or infinities") from None
    if body.count(b":") != keys(value):
        _refuse_repeated(body)
    return value


def _told(error: msgspec.ValidationError) -> str:
    """Where it is wrong, but no word of what was there."""
    message = str(error)
    if "unknown field" in message:
        return "the JSON has a key that does not belong there"
    where = message.rpartition(" - at `")[2].rstrip("`") if " - at `" in message else "$"
    if any(letter in where for letter in "\"'") or not where.isascii():
        where = "$"
    return f"the JSON does not have the shape it must have, at {where}"


def _refuse_repeated(body: bytes) -> None:
    def distinct(pairs: list[tuple[str, Any]]) -> None:
        if len({key for key, _ in pairs}) != len(pairs):
            raise BadRequest("bad_json", "the JSON has a key twice")

    json.loads(body, object_pairs_hook=distinct, parse_int=len)


def per_row(answers: Any, pick: str | int | None = None) -> list[Any]:
    """One value a row out of whatever the vendor gives for one.

    Of a list of two, class probabilities, the second speaks for the positive label; of several
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
        raise BadAnswer("several values a row; say which to read")
    if isinstance(answer, list):
        if isinstance(pick, int) and -len(answer) <= pick < len(answer):
            return _one(answer[pick], None)
        if len(answer) in (1, 2):
            return _one(answer[-1], None)
        raise BadAnswer(f"{len(answer)} values a row; say which to read")
    return answer
