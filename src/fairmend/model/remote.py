"""A model behind an address: rows out, answers back.

It is queried synchronously, in batches, by one of the protocols in `fairmend.model.protocols`.
Redirects are not followed, and no message repeats a row or the vendor's answer about one.
"""

from __future__ import annotations

import http.client
import ssl
import time
from collections.abc import Mapping
from typing import Any, NoReturn
from urllib.parse import SplitResult, urlsplit

import numpy as np
from numpy.typing import NDArray

from fairmend.data.columns import Frame, is_missing, object_array, scalar
from fairmend.data.plain import as_plain
from fairmend.errors import DataError, ModelError, check, check_between, check_whole
from fairmend.model.protocols import protocol_for, protocol_named

MOST_BYTES = 1 << 28
"""Longer answers are not read."""
_PAUSE = 0.2  # seconds before the first retry; doubled each time
_KINDS = {"b": "bool", "i": "int", "u": "int", "f": "float"}


class RemoteModel:
    """A model served over HTTP, to be called with rows.

    Parameters
    ----------
    url
        Where it is served: MLflow's ``.../invocations``, ``.../v2/models/NAME`` of the Open
        Inference Protocol, or any address that takes ``{"instances": [...]}``.
    protocol
        ``"mlflow"``, ``"v2"`` or ``"instances"``, where the address does not show it.
    timeout
        Seconds to wait for a connection, and for each part of an answer.
    retries
        How often to try again when no connection could be made. A request that was sent is never
        sent again.
    headers, token
        More headers; a bearer token.
    batch
        Rows per request.
    answer
        Which of several values per row to read: a name or a place. By default the second of two
        class probabilities.

    Examples
    --------
    >>> RemoteModel("http://localhost:8080/invocations", token="secret")
    RemoteModel('http://localhost:8080/invocations', protocol='mlflow')

    """

    def __init__(
        self,
        url: str,
        *,
        protocol: str | None = None,
        timeout: float = 30.0,
        retries: int = 2,
        headers: Mapping[str, str] | None = None,
        token: str | None = None,
        batch: int = 1_000,
        answer: str | int | None = None,
    ) -> None:
        self.url = url
        self.timeout, self.retries, self.batch, self.answer = timeout, retries, batch, answer
        self._place = read_address(url)
        output = answer if isinstance(answer, str) else None
        self.protocol = protocol_named(protocol or protocol_for(url), output=output)
        try:
            self._path = self.protocol.path(self._place.path)
        except ValueError as error:
            raise DataError("url", "must fit its protocol", str(error), "Check the path.") from None
        if self._place.query:
            self._path += f"?{self._place.query}"
        check_between("timeout", timeout, 0, fix="30 is the default.", open_ended=True)
        check_whole("retries", retries, 0)
        check_whole("batch", batch, 1)
        self._headers = {"Content-Type": "application/json", **(headers or {})}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"

    def __repr__(self) -> str:
        shown = f"{self._place.scheme}://{self._place.netloc}{self._place.path}"
        return f"RemoteModel({shown!r}, protocol={self.protocol.name!r})"

    def __call__(self, X: Any) -> NDArray[Any]:
        """One answer per row, as the vendor gives it: a label, a probability or a score."""
        frame = Frame.read(X)
        rows, of_kind = cells(frame), kinds(frame)
        names = None if frame.is_array else frame.names
        answers: list[Any] = []
        for start in range(0, len(rows), self.batch):
            part = rows[start : start + self.batch]
            answers += self._answers(self.protocol.encode(names, part, of_kind), len(part))
        return as_answers(answers)

    def _answers(self, body: bytes, n: int) -> list[Any]:
        from fairmend.model.wire import BadAnswer, per_row

        response = self._post(body)
        try:
            answers = per_row(self.protocol.decode(response), self.answer)
        except BadAnswer as error:
            self._fail(
                f"must answer in its protocol, {self.protocol.name}",
                f"got {error}",
                "Say protocol=... if it speaks another, answer=... which value to read.",
            )
        if len(answers) != n:
            got = f"got {len(answers):,} answers for {n:,} rows"
            self._fail("must give one answer per row", got, "Does it drop or add rows?")
        return answers

    def _post(self, body: bytes) -> bytes:
        connection = self._connect()
        try:
            connection.request("POST", self._path, body, self._headers)
            response = connection.getresponse()
            content = response.read(MOST_BYTES)
            if response.length:  # bytes announced that did not come
                raise http.client.IncompleteRead(content, response.length)
        except TimeoutError:
            fix = "Raise timeout=, or send fewer rows at a time with batch=."
            self._fail(f"must answer within {self.timeout:g} s", "it did not", fix)
        except http.client.IncompleteRead:
            self._fail("must send whole answers", "it broke off half-way", _LOOK)
        except (OSError, http.client.HTTPException) as error:
            self._fail("must answer", f"the connection broke: {type(error).__name__}", _LOOK)
        finally:
            connection.close()
        status = response.status
        if status != http.HTTPStatus.OK:
            fix = _FIXES.get(status // 100 if status < 400 else status, _LOOK)
            phrase = http.client.responses.get(status, "unknown")
            self._fail("must answer with status 200", f"got {status} ({phrase})", fix)
        return content

    def _connect(self) -> http.client.HTTPConnection:
        """An open connection; only this much is tried more than once."""
        host, port = self._place.hostname or "", self._place.port
        secure = self._place.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        for attempt in range(self.retries + 1):
            connection = kind(host, port, timeout=self.timeout)
            try:
                connection.connect()
                break
            except OSError as error:
                connection.close()
                if attempt == self.retries or isinstance(error, ssl.SSLError):
                    got = f"no connection: {error.strerror or type(error).__name__}"
                    fix = "Is the server running, and is the address right?"
                    self._fail("must be reachable", got, fix)
                time.sleep(_PAUSE * 2**attempt)
        return connection

    def _fail(self, must: str, got: str, fix: str) -> NoReturn:
        where = f"model at {self._place.scheme}://{self._place.netloc}{self._place.path}"
        raise ModelError(where, must, got, fix) from None


_LOOK = "Look at the log of its server: its answer is not repeated here."
_FIXES = {  # by status, or by its first digit
    3: "Redirects are not followed: give the address it redirects to.",
    401: "Pass token=... or headers=....",
    403: "Pass token=... or headers=....",
    404: "Check the path of the address and the protocol.",
    405: "Check the path of the address and the protocol.",
    429: "It limits requests: wait, or send more rows at a time with batch=.",
}


def read_address(url: str, what: str = "url") -> SplitResult:
    """An http or https address with a host; passwords in it are refused."""
    try:
        place = urlsplit(url)
        is_address = place.scheme in ("http", "https") and bool(place.hostname)
        is_address = is_address and all(letter.isprintable() and letter != " " for letter in url)
        _ = place.port  # a port that is no number raises
    except (ValueError, AttributeError, TypeError):
        is_address = False
    got = "got something else" if isinstance(url, str) else f"got {type(url).__name__}"
    if isinstance(url, str) and not set("@?#").intersection(url):  # no place for a secret
        got = f"got {url!r}"
    example = "For example http://localhost:8080/invocations."
    check(is_address, what, "must be an http or https address", got, example)
    secret = place.username is not None or place.password is not None
    fix = "Pass token=... or headers=... instead."
    check(not secret, what, "must not hold a password", "got one", fix)
    return place


def kinds(frame: Frame) -> list[str]:
    """What each column holds: bool, int, float or str.

    >>> kinds(Frame.read(np.array([[1, 0]])))
    ['int', 'int']
    """
    return [_kind(column.present) for column in frame.encoded]


def _kind(values: NDArray[Any]) -> str:
    if values.dtype.kind in _KINDS:
        return _KINDS[values.dtype.kind]
    types = {type(scalar(value)) for value in values}
    if types == {int, float}:
        return "float"
    return next((each.__name__ for each in (float, int, bool) if types <= {each}), "str")


def cells(frame: Frame) -> list[list[Any]]:
    """The rows as lists of plain values that JSON knows; None for a missing value.

    >>> cells(Frame.read(np.array([[1.5, np.nan]])))
    [[1.5, None]]
    """
    columns = []
    for column in frame.encoded:
        plain = [None if is_missing(value) else as_plain(value) for value in column.values]
        columns.append([plain[code] for code in column.codes])
    return [list(row) for row in zip(*columns, strict=True)]


def as_answers(values: list[Any]) -> NDArray[Any]:
    """Answers as numbers where they are, else as they came."""
    answers = np.array(values)
    plain = answers.ndim == 1 and answers.dtype.kind in "biuf"
    return answers if plain else object_array(values)
