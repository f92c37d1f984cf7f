"""One request on its way: to the vendor, through the plans, onto disk, and back.

The client's own rows go to the vendor as they came, but for the columns that say who somebody is,
and come back as the vendor answers them. Only answers about people who are edited are replaced. In
shadow and off nothing that goes wrong here may fail a request that the vendor answers.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from fairmend.errors import FairmendError
from fairmend.model.protocols.v2 import HEAD_LENGTH
from fairmend.model.wire import JSON, BadAnswer, BadRequest, RequestFailed, media_type
from fairmend.serve.cap import Cap
from fairmend.serve.config import Config
from fairmend.serve.log import TABLES, Entry, Reply, day_of, event
from fairmend.serve.metrics import Metrics
from fairmend.serve.people import (
    Incoming,
    Person,
    Reading,
    concerns_nobody_repaired,
    plain_rows,
    read_people,
)
from fairmend.serve.repairer import Answer, Law, Repairer
from fairmend.serve.schema import Row
from fairmend.serve.upstream import (
    CLIENTS_OWN,
    Upstream,
    UpstreamError,
    VendorAnswer,
    follow_trace,
)

__all__ = ["Decided", "Exchange", "KeyRefused", "check_same"]

_json = msgspec.json.Encoder()
_REFUSED_FORM = (400, 415, 422)
"""Statuses of a vendor that does not take a form of rows."""
_LENGTH = HEAD_LENGTH.encode()


class KeyRefused(RequestFailed):
    """An Idempotency-Key that cannot be used."""


def check_same(first: bytes, digest: bytes) -> None:
    """A key stands for one request."""
    if first != digest:
        message = "this Idempotency-Key came with another request before"
        raise KeyRefused("key_reused", message, 422)


@dataclass(slots=True)
class Decided:
    """What a client is answered."""

    content: bytes
    decision: str
    """The id of the request's decisions: row i is ``decision/i``. Empty if none are on record."""
    status: int = 200
    headers: Sequence[tuple[bytes, bytes]] = ((b"content-type", JSON.encode()),)
    rest: AsyncIterator[bytes] | None = None
    """What follows the content, where it is passed on as it comes."""


class Around(Protocol):
    """What an exchange needs of the sidecar."""

    config: Config
    upstream: Upstream
    metrics: Metrics
    failures: Cap
    loop: asyncio.AbstractEventLoop

    @property
    def serving(self) -> Repairer: ...
    @property
    def mode(self) -> str: ...
    def deadline(self) -> float: ...
    def pseudonym(self, person: Any) -> str: ...
    def unforeseen(self, error: Exception) -> RequestFailed: ...
    async def commit(self, entry: Entry) -> None: ...


@dataclass(slots=True)
class Exchange:
    """What is known of a request while it is answered."""

    sidecar: Around
    incoming: Incoming
    idempotency: tuple[bytes, bytes] | None = None
    serving: Repairer = field(init=False)
    mode: str = field(init=False)
    decision: str = field(init=False)
    started: float = field(init=False)
    deadline: float = field(init=False)
    reading: Reading | None = None
    people: list[Person] = field(default_factory=list)
    problem: RequestFailed | None = None
    """Why the request as a whole cannot be repaired."""

    def __post_init__(self) -> None:
        self.serving, self.mode = self.sidecar.serving, self.sidecar.mode
        # ids in the order of time, so that the log's index grows at its end
        self.decision = f"{time.time_ns() // 1_000:014x}{next(_tokens)}"
        self.started, self.deadline = time.perf_counter(), self.sidecar.deadline()

    @property
    def repairs(self) -> bool:
        return self.mode == "repair"

    @property
    def is_translated(self) -> bool:
        """Whether client and vendor speak different protocols."""
        return self.incoming.protocol.name != self.sidecar.upstream.protocol.name

    async def run(self) -> Decided:
        """The answer, on disk before it is returned; a `RequestFailed` otherwise."""
        follow_trace(self.incoming.headers)
        try:
            self._read()
            given = await self._first()
            status = await self._decide(given)
            decided = self._answer(given)
        except RequestFailed as error:
            raise await self._failed(error) from None
        except Exception:
            await self._failed(RequestFailed("internal", "something went wrong here", 500))
            raise
        return await self._record(decided, given, status)

    # ---------------------------------------------------------------- reading

    def _read(self) -> None:
        """Rows and people as far as they can be read; in repair they must be."""
        incoming, config = self.incoming, self.sidecar.config
        try:
            if incoming.rest is not None:
                message = f"a body has at most {config.most_bytes} bytes"
                raise BadRequest("too_long", message, 413)
            if incoming.headers.get("content-encoding", "identity").lower() != "identity":
                message = "send the body as it is, not compressed"
                raise BadRequest("bad_encoding", message, 415)
            self.reading = Reading.of(config, self.serving.schema, incoming)
            if self.repairs and not self.is_translated:
                self.reading.ask(incoming.protocol)
            self.people = read_people(config, self.serving, self.reading, incoming.headers)
        except BadRequest as error:
            self.problem = error
        except Exception as error:
            if self.repairs:
                raise
            self.problem = self.sidecar.unforeseen(error)
        if self.repairs:
            if self.problem is not None and not self._keeps_answers():
                raise self.problem
            self._check_understood()

    def _keeps_answers(self) -> bool:
        """Whether everybody keeps the vendor's answer; by the header where rows cannot be read."""
        if self.reading is not None and self.problem is None:
            return all(each.place is None and each.unknown is None for each in self.people)
        config, headers = self.sidecar.config, self.incoming.headers
        return self.reading is None and concerns_nobody_repaired(config, self.serving, headers)

    # ---------------------------------------------------------------- the vendor's own answer

    async def _first(self) -> VendorAnswer:
        """The vendor's answer about the client's own rows."""
        if self.is_translated:
            if self.reading is None:
                assert self.problem is not None
                raise self.problem  # it cannot be translated either
            given = await self._send(self._translated(), JSON)
            if given.status != 200:
                raise given.failure(own=True)
            return given
        if not self.repairs:
            return await self._send(*self._own_body())
        is_plain, keeps_types = self._can_be_sent_plain(), self.incoming.protocol.has_types
        if is_plain and not keeps_types:
            given = await self._send(self._translated(), JSON)
        else:
            given = await self._send(*self._own_body())
            if is_plain and given.status in _REFUSED_FORM:
                given = await self._send(self._translated(), JSON)
        passes = given.status in (200, *CLIENTS_OWN) or self._keeps_answers()
        if not passes or given.status // 100 == 3:  # a redirected client would leave us behind
            raise given.failure(own=True)
        return given

    async def _send(self, body: bytes | AsyncIterator[bytes], kind: str | None) -> VendorAnswer:
        incoming, upstream = self.incoming, self.sidecar.upstream
        headers = upstream.headers_for(
            incoming.headers, kind, compressed=self.mode == "off" and kind is None
        )
        own = not self.repairs
        return await upstream.send(body, headers, self.deadline, own=own, query=incoming.query)

    def _own_body(self) -> tuple[bytes | AsyncIterator[bytes], str | None]:
        """The body as it came, without the columns that say who somebody is."""
        incoming, reading = self.incoming, self.reading
        if incoming.rest is not None:
            return _chained(incoming.body, incoming.rest), None
        if reading is None or reading.is_whole:
            return incoming.body, None
        rows = [reading.row(i) for i in range(len(reading.query.rows))]
        made = incoming.protocol.again(reading.query, reading.names, rows, reading.parameters)
        return made or (self._translated(), JSON)

    def _can_be_sent_plain(self) -> bool:
        """Whether the rows are all read in the audit's types, and nothing comes beside them."""
        reading = self.reading
        return reading is not None and not reading.parameters and None not in reading.each[0]

    def _translated(self) -> bytes:
        """The rows in the vendor's protocol: in the audit's types, or else as they came."""
        reading, schema = self.reading, self.serving.schema
        encode = self.sidecar.upstream.protocol.encode
        assert reading is not None
        if reading.parameters:
            raise BadRequest("bad_parameter", "a parameter does not belong here", 422)
        typed = [row for row in reading.each[0] if row is not None]
        if len(typed) == len(reading.query.rows):
            return encode(schema.sent_names, typed, schema.kinds)
        widths = set(map(len, reading.query.rows))
        if reading.query.names is not None:
            widths.add(len(reading.query.names))
        if len(widths) > 1:
            raise BadRequest("bad_row", "every row must have as many cells as columns", 422)
        rows, names = plain_rows(reading), reading.names
        if names is None and all(len(row) == len(schema.names) for row in rows):
            names = schema.sent_names
        return encode(names, rows, _kinds_of(rows))

    # ---------------------------------------------------------------- the repair

    async def _decide(self, given: VendorAnswer) -> str:
        """Read the answers, edit rows, and query the vendor about them; how that went."""
        if given.status != 200:
            self.people = []
            return given.code
        try:
            if self.problem is not None:
                raise self.problem
            await self._read_answers(given)
            if self.mode != "off":
                self._check_understood()
                await self._repair()
            return "ok"
        except Exception as error:
            failed = _as_failed(error)
            if self.repairs and not self._keeps_answers():
                if failed is None:
                    raise
                raise failed from None
            self.problem = failed or self.sidecar.unforeseen(error)
            self._undo()
        return "not_read" if self.mode == "off" or self.repairs else "shadow_failed"

    def _undo(self) -> None:
        for each in self.people:
            each.edited = each.edited_raw = each.edited_answer = None
        if any(each.answer is None for each in self.people):
            self.people = []  # there is nothing to record of them

    async def _read_answers(self, given: VendorAnswer) -> None:
        raw, values = await self._as_asked(given)
        answers = self.serving.read_each(values)
        for each, each_raw, answer in zip(self.people, raw, answers, strict=True):
            each.raw, each.answer = each_raw, answer

    def _check_understood(self) -> None:
        """Whoever may be edited must be understood."""
        for each in self.people:
            if each.unknown is not None:
                raise each.unknown
            if each.place is not None and each.row is None:
                assert each.problem is not None
                raise each.problem

    async def _as_asked(self, given: VendorAnswer) -> tuple[list[Any], list[Any]]:
        """The answers; where a client in shadow asks for other outputs, those of a second query."""
        schema, upstream = self.serving.schema, self.sidecar.upstream
        try:
            return upstream.read(given, len(self.people), own=True)
        except UpstreamError:
            rows = [each.row for each in self.people if each.row is not None]
            other = upstream.protocol.output is not None and len(rows) == len(self.people)
            if self.mode != "shadow" or not other:
                raise
        return await upstream.query(schema.sent_names, rows, schema.kinds, self.deadline)

    async def _repair(self) -> None:
        serving = self.serving
        if any(each.place is not None and each.answer is None for each in self.people):
            raise BadAnswer("an answer that is no decision as audited")
        laws = await self._laws()
        edited: dict[int, Person] = {}
        for i, (each, law) in enumerate(zip(self.people, laws, strict=True)):
            if law is None or each.row is None:
                continue
            each.edited = serving.destination(law, each.row, each.id)
            if each.edited is not None:
                edited[i] = each
            if each.problem is not None and (law.random or each.edited is not None):
                raise each.problem
        if edited:
            raw, values = await self._about(edited)
            answers = serving.read(values)
            for each, each_raw, answer in zip(edited.values(), raw, answers, strict=True):
                each.edited_raw, each.edited_answer = each_raw, answer

    async def _about(self, edited: dict[int, Person]) -> tuple[list[Any], list[Any]]:
        """The vendor's answers about edited rows, in the client's own form where that is possible.

        So datatypes, parameters and columns that are not edited stay as the vendor knows them.
        """
        incoming, reading, schema = self.incoming, self.reading, self.serving.schema
        upstream = self.sidecar.upstream
        assert reading is not None
        as_sent = self.is_translated or not (
            incoming.protocol.has_types or not self._can_be_sent_plain()
        )
        rows = None if as_sent else reading.edited_rows(schema, edited)
        if rows is not None:
            made = incoming.protocol.again(reading.query, reading.names, rows, reading.parameters)
            if made is not None:
                body, kind = made
                headers = upstream.headers_for(incoming.headers, kind)
                headers.pop("idempotency-key", None)  # these are other rows
                given = await upstream.send(
                    body, headers, self.deadline, own=False, query=incoming.query
                )
                if given.status not in _REFUSED_FORM:
                    return upstream.read(given, len(rows))
        typed = [each.edited for each in edited.values() if each.edited is not None]
        return await upstream.query(schema.sent_names, typed, schema.kinds, self.deadline)

    async def _laws(self) -> list[Law | None]:
        """Everybody's law, None for people of groups that are not repaired.

        Laws that are not cached are computed in a thread: that may query the vendor about mixtures.
        """
        serving = self.serving
        laws: dict[tuple[int, Row, Answer], Law] = {}
        missing: dict[int, dict[tuple[Row, Answer], None]] = {}
        keys: list[tuple[int, Row, Answer] | None] = []
        for each in self.people:
            if each.place is None or each.row is None or each.answer is None:
                keys.append(None)
                continue
            key = each.place, each.row, each.answer
            keys.append(key)
            law = serving.law(*key)
            if law is None:
                missing.setdefault(each.place, {})[each.row, each.answer] = None
            else:
                laws[key] = law
        for place, pairs in missing.items():
            rows, answers = zip(*pairs, strict=True)
            try:
                async with asyncio.timeout_at(self.deadline):
                    fresh = await asyncio.to_thread(serving.find_laws, place, rows, answers)
            except TimeoutError:
                message = "the vendor did not answer in time"
                raise UpstreamError("upstream_timeout", message, 504) from None
            for (row, answer), law in zip(pairs, fresh, strict=True):
                laws[place, row, answer] = law
        return [None if key is None else laws[key] for key in keys]

    # ---------------------------------------------------------------- the answer

    def _answer(self, given: VendorAnswer) -> Decided:
        """The vendor's response, with other answers for people who were edited."""
        protocol, config = self.incoming.protocol, self.sidecar.config
        edited = {i: each.edited_raw for i, each in enumerate(self.people)
                  if self.repairs and each.edited is not None}  # fmt: skip
        more = {"fairmend": self._explained()} if config.explain and self.people else {}
        headers, content = given.headers, given.content
        if self.is_translated or ((edited or more) and given.status == 200):
            made = None
            if not self.is_translated:
                made = protocol.replace(content, given.content_type, edited, more)
            if made is None:
                made = self._written(given, edited, more), JSON
            content, kind = made
            kind, _, length = kind.partition(f"; {HEAD_LENGTH}=")
            replaced = (b"content-type", _LENGTH, b"content-encoding")
            headers = [each for each in headers if each[0] not in replaced]
            headers.append((b"content-type", kind.encode()))
            if length:
                headers.append((_LENGTH, length.encode()))
        return Decided(content, self.decision, given.status, headers, given.rest)

    def _written(self, given: VendorAnswer, edited: dict[int, Any], more: dict[str, Any]) -> bytes:
        assert self.reading is not None
        raw = [each.raw for each in self.people]
        if not raw:  # the answers could not be read as decisions, but can be handed on
            n = len(self.reading.query.rows)
            raw, _ = self.sidecar.upstream.read(given, n, own=True)
        for i, answer in edited.items():
            raw[i] = answer
        return self.incoming.protocol.write(self.reading.query, raw, more)

    def _explained(self) -> dict[str, Any]:
        """Both decisions of everybody."""
        labels = self.serving.labels

        def label(each: Person, answer: Answer | None) -> Any:
            decision = self._decision(each, answer)
            if decision is None:
                return None
            return labels.positive if decision else labels.negative

        return {
            "mode": self.mode,
            "decision": self.decision,
            "original": [label(each, each.answer) for each in self.people],
            "repaired": [label(each, each.edited_answer or each.answer) for each in self.people],
        }

    def _decision(self, each: Person, answer: Answer | None) -> int | None:
        """The decision itself; None where there is none, or nothing to draw it by."""
        if answer is None or (each.row is None and each.id is None and answer.decision % 1):
            return None
        return self.serving.decide(answer, each.row or (), each.id)

    # ---------------------------------------------------------------- the log

    async def _record(self, decided: Decided, given: VendorAnswer, status: str) -> Decided:
        """Have it on disk; in shadow and off the answer is given even if that is impossible."""
        decided_somebody = self.people or (self.repairs and given.status == 200)
        if not decided_somebody and not self._may_be_logged():
            decided.decision = ""
            return decided
        entry = self._entry(status)
        is_json = decided.rest is None and media_type(given.content_type) in ("", JSON)
        if self.idempotency is not None and decided.status == 200 and is_json:
            entry.reply = Reply(*self.idempotency, 200, decided.content, self.decision)
        self.sidecar.loop.call_soon(self._count_rows)  # while it is written
        try:
            await self.sidecar.commit(entry)
        except RequestFailed:
            if self.repairs:
                if decided.rest is not None:
                    await decided.rest.aclose()  # type: ignore[attr-defined]
                raise
            self.sidecar.metrics.unrecorded.inc()
            decided.decision = ""
        if entry.earlier is not None:  # another replica was first, and its answer is on record
            check_same(entry.earlier.body, entry.reply.body)  # type: ignore[union-attr]
            return Decided(entry.earlier.content, entry.earlier.decision)
        return decided

    def _row(self, now: float, status: str, **values: Any) -> tuple[Any, ...]:
        """The values of a row in the table of decisions."""
        config = self.sidecar.config
        common = {
            "at": now, "artifact": self.serving.fingerprint, "vendor": config.vendor,
            "version": config.version, "mode": self.mode, "status": status,
            "latency_ms": 1000 * (time.perf_counter() - self.started), "decision": self.decision,
        }  # fmt: skip
        row = common | values
        return tuple(map(row.get, TABLES["decisions"]))

    def _entry(self, status: str) -> Entry:
        now = time.time()
        entry = Entry([])
        day = day_of(now)
        for i, each in enumerate(self.people):
            entry.rows.append(("decisions", self._person_row(i, each, now, status)))
            if each.row is not None:
                cell = self.serving.cells.get(each.row, -1)
                entry.cells.append((day, self.serving.fingerprint, each.group or "", cell))
        if not self.people:
            entry.rows.append(("decisions", self._row(now, status)))
        if status in ("shadow_failed", "not_read") and self.problem is not None:
            detail = {"decision": self.decision, "reason": self.problem.code}
            entry.rows.append(("events", event(status, detail)))
            self.sidecar.metrics.not_repaired.labels(self.problem.code).inc()
        return entry

    def _count_rows(self) -> None:
        for each in self.people:
            edited = "yes" if each.edited is not None else "no"
            self.sidecar.metrics.of_rows(each.group or "", edited).inc()

    def _person_row(self, i: int, each: Person, now: float, status: str) -> tuple[Any, ...]:
        repaired = self.mode != "off" and status == "ok"
        answer, then = each.answer, each.edited_answer or each.answer
        original = after = self._decision(each, answer)
        if then is not answer:
            after = self._decision(each, then)
        edited: dict[str, Any] = {}
        if each.edited is not None and each.row is not None:
            cells = zip(self.serving.schema.names, each.row, each.edited, strict=True)
            edited = {name: new for name, old, new in cells if old != new}
        features = None
        if self.sidecar.config.keep_features and each.row is not None:
            given = dict(zip(self.serving.schema.names, each.row, strict=True))
            features = _json.encode({"given": given, "edited": edited}).decode()
        has_score = answer is not None and answer.score is not None
        return self._row(
            now,
            status,
            decision=f"{self.decision}/{i}",
            person=None if each.id is None else self.sidecar.pseudonym(each.id),
            grp=each.group,
            original=original,
            repaired=after if repaired else None,
            original_score=float(answer.score) if has_score else None,  # type: ignore
            repaired_score=float(then.score) if has_score and repaired else None,  # type: ignore
            edited=",".join(edited),
            features=features,
        )

    async def _failed(self, error: RequestFailed) -> RequestFailed:
        """A failure, once it is on disk: that nobody was answered is part of the record."""
        if not self._may_be_logged():
            return error
        try:
            await self.sidecar.commit(Entry([("decisions", self._row(time.time(), error.code))]))
        except RequestFailed as worse:
            return worse if self.repairs else error
        return error

    def _may_be_logged(self) -> bool:
        """Whether one more row about a request that failed may be written now."""
        may = self.sidecar.failures.admits()
        if not may:
            self.sidecar.metrics.failures_not_logged.inc()
        return may


def _made_tokens() -> Iterator[str]:
    """Random names; asking the system for each would take longer than everything about it."""
    while True:
        some = secrets.token_hex(5 * 256)
        yield from (some[i : i + 10] for i in range(0, len(some), 10))


_tokens = _made_tokens()


async def _chained(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for part in rest:
        yield part


def _kinds_of(rows: Sequence[Sequence[Any]]) -> list[str]:
    """What the columns of rows hold, by their cells."""
    kinds = []
    for column in zip(*rows, strict=True):
        types = {type(cell).__name__ for cell in column if cell is not None}
        kinds.append("float" if types == {"int", "float"} else next(iter(types), "float"))
    return kinds


def _as_failed(error: Exception) -> RequestFailed | None:
    """What failed, as clients are told; None for what nobody foresaw."""
    if isinstance(error, RequestFailed):
        return error
    if isinstance(error, BadAnswer):
        return UpstreamError("upstream_bad_answer", "the vendor's answer cannot be read")
    if isinstance(error, FairmendError):  # while a plan queried the vendor
        if isinstance(error.__cause__, UpstreamError):
            return error.__cause__
        return UpstreamError("repair_failed", "the repair could not be made")
    return None
