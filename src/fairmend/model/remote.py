"""A model behind an address: rows out, answers back, every failure in clear words.

It is asked synchronously, in batches, by one of the protocols in `fairmend.model.protocols`.
Redirects are not followed, and no message repeats a row or what the vendor's server said about one.
"""

from __future__ import annotations

import http.client
import ssl
import time
from collections.abc import Mapping
from numbers import Real
from typing import Any, NoReturn
from urllib.parse import SplitResult, urlsplit

import numpy as np
from numpy.typing import NDArray

from fairmend.data.columns import Frame, is_missing, scalar
from fairmend.errors import DataError, ModelError
from fairmend.model.protocols import protocol_for, protocol_named

__all__ = ["RemoteModel", "cells", "kinds", "read_address"]

MOST_BYTES = 1 << 28
"""More than this is no answer."""
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
        ``"mlflow"``, ``"v2"`` or ``"instances"``, where the address does not tell.
    timeout
        Seconds to wait for a connection, and for each part of an answer.
    retries
        How often to try again when no connection could be made. A request that was sent is never
        sent again.
    headers, token
        More headers; a bearer token.
    batch
        Rows a request.
    answer
        Which of several values a row to read: a name or a place. Of two class probabilities the
        second is read unless told otherwise.

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
        self._check_settings()
        self._headers = {"Content-Type": "application/json", **(headers or {})}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"

    def _check_settings(self) -> None:
        if not (isinstance(self.timeout, Real) and 0 < self.timeout < float("inf")):
            raise DataError("timeout", "must be a positive number of seconds",
                            f"got {self.timeout!r}", "30 is the default.")  # fmt: skip
        for name, value, least in (("retries", self.retries, 0), ("batch", self.batch, 1)):
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise DataError(name, f"must be a whole number, at least {least}",
                                f"got {value!r}", "Leave it out for the default.")  # fmt: skip

    def __repr__(self) -> str:
        shown = f"{self._place.scheme}://{self._place.netloc}{self._place.path}"
        return f"RemoteModel({shown!r}, protocol={self.protocol.name!r})"

    def __call__(self, X: Any) -> NDArray[Any]:
        """One answer a row, whatever the vendor says: labels, probabilities or scores."""
        frame = Frame.read(X)
        rows, of_kind = cells(frame), kinds(frame)
        names = None if frame.is_array else frame.names
        said: list[Any] = []
        for start in range(0, len(rows), self.batch):
            part = rows[start : start + self.batch]
            said += self._answers(self.protocol.encode(names, part, of_kind), len(part))
        answers = np.array(said)
        return answers if answers.ndim == 1 and answers.dtype.kind in "biuf" else _objects(said)

    def _answers(self, body: bytes, n: int) -> list[Any]:
        from fairmend.model.wire import BadAnswer, per_row

        response = self._post(body)
        try:
            said = per_row(self.protocol.decode(response), self.answer)
        except BadAnswer as error:
            self._fail(
                f"must answer in its protocol, {self.protocol.name}",
                f"got {error}",
                "Say protocol=... if it speaks another, answer=... which value to read.",
            )
        if len(said) != n:
            self._fail("must give one answer a row", f"got {len(said):,} answers for {n:,} rows",
                       "Does it drop or add rows?")  # fmt: skip
        return said

    def _post(self, body: bytes) -> bytes:
        connection = self._connect()
        try:
            connection.request("POST", self._path, body, self._headers)
            response = connection.getresponse()
            content = response.read(MOST_BYTES)
            if response.length:  # bytes announced that did not come
                raise http.client.IncompleteRead(content, response.length)
        except TimeoutError:
            self._fail(
                f"must answer within {self.timeout:g} s",
                "it did not",
                "Raise timeout=, or ask about fewer rows at a time with batch=.",
            )
        except http.client.IncompleteRead:
            self._fail("must send whole answers", "it broke off half-way", "Look at its log.")
        except (OSError, http.client.HTTPException) as error:
            self._fail(
                "must answer",
                f"the connection broke: {type(error).__name__}",
                "Look at the log of its server.",
            )
        finally:
            connection.close()
        if response.status != http.HTTPStatus.OK:
            self._fail_on_status(response.status)
        return content

    def _connect(self) -> http.client.HTTPConnection:
        """An open connection; only this much is tried more than once."""
        host, port = self._place.hostname or "", self._place.port
        for attempt in range(self.retries + 1):
            connection: http.client.HTTPConnection
            if self._place.scheme == "https":
                connection = http.client.HTTPSConnection(
                    host, port, timeout=self.timeout, context=ssl.create_default_context()
                )
            else:
                connection = http.client.HTTPConnection(host, port, timeout=self.timeout)
            try:
                connection.connect()
            except OSError as error:
                connection.close()
                if attempt == self.retries or isinstance(error, ssl.SSLError):
                    self._fail(
                        "must be reachable",
                        f"no connection: {error.strerror or type(error).__name__}",
                        "Is the server running, and is the address right?",
                    )
                time.sleep(_PAUSE * 2**attempt)
            else:
                break
        return connection

    def _fail_on_status(self, status: int) -> NoReturn:
        phrase = http.client.responses.get(status, "unknown")
        fix = "Look at the log of its server: what it said is not repeated here."
        if 300 <= status < 400:
            fix = "Redirects are not followed: give the address it redirects to."
        elif status in (401, 403):
            fix = "Pass token=... or headers=...."
        elif status in (404, 405):
            fix = "Check the path of the address and the protocol."
        elif status == 429:
            fix = "It wants fewer requests: wait, or ask about more rows at a time with batch=."
        self._fail("must answer with status 200", f"got {status} ({phrase})", fix)

    def _fail(self, must: str, got: str, fix: str) -> NoReturn:
        where = f"model at {self._place.scheme}://{self._place.netloc}{self._place.path}"
        raise ModelError(where, must, got, fix) from None


def read_address(url: str) -> SplitResult:
    """An http or https address with a host; passwords in it are refused."""
    try:
        place = urlsplit(url)
        plain = place.scheme in ("http", "https") and bool(place.hostname)
        _ = place.port  # a port that is no number raises
    except (ValueError, AttributeError):
        plain = False
    if not plain or any(not letter.isprintable() or letter == " " for letter in url):
        raise DataError("url", "must be an http or https address", f"got {type(url).__name__}"
                        if not isinstance(url, str) else "got something else",
                        "For example http://localhost:8080/invocations.")  # fmt: skip
    if place.username is not None or place.password is not None:
        raise DataError(
            "url", "must not hold a password", "got one", "Pass token=... or headers=... instead."
        )
    return place


def kinds(frame: Frame) -> list[str]:
    """What each column holds: bool, int, float or str.

    >>> kinds(Frame.read(np.array([[1, 0]])))
    ['int', 'int']
    """
    found = []
    for column in frame.encoded:
        known = column.values[:-1] if column.has_missing else column.values
        kind = _KINDS.get(known.dtype.kind)
        if kind is None:
            types = {type(scalar(value)) for value in known}
            kind = "str"
            for type_ in (bool, int, float):
                if types <= {type_}:
                    kind = type_.__name__
            if types == {int, float}:
                kind = "float"
        found.append(kind)
    return found


def cells(frame: Frame) -> list[list[Any]]:
    """The rows as lists of plain values that JSON knows; what is missing is None.

    >>> cells(Frame.read(np.array([[1.5, np.nan]])))
    [[1.5, None]]
    """
    columns = []
    for column in frame.encoded:
        plain = [_plain(value) for value in column.values]
        columns.append([plain[code] for code in column.codes])
    return [list(row) for row in zip(*columns, strict=True)]


def _plain(value: Any) -> Any:
    if is_missing(value):
        return None
    known: Any = scalar(value)
    return known if isinstance(known, bool | int | float | str) else str(known)


def _objects(said: list[Any]) -> NDArray[Any]:
    answers = np.empty(len(said), object)
    answers[:] = said
    return answers
