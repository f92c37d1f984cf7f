"""What happens to a request: the vendor is queried, plans are applied, decisions are logged.

The order is what makes it safe. Nothing is answered before it is on disk; nothing is edited in
shadow mode; and a request sees one artifact from beginning to end, whatever is loaded meanwhile.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any

import msgspec

from fairmend.apply.draw import Drawer, read_key
from fairmend.data.columns import Frame
from fairmend.errors import DataError, FairmendError, unreadable
from fairmend.model.probe import Probe
from fairmend.model.remote import as_answers, cells, kinds
from fairmend.model.wire import BadAnswer, Protocol, Query, RequestFailed
from fairmend.serve.config import Config
from fairmend.serve.log import TABLES, DecisionLog, Entry, LogUnavailable, Reply, day_of, event
from fairmend.serve.metrics import Metrics
from fairmend.serve.people import GROUP_HEADER, ID_HEADER, Person, read_people
from fairmend.serve.repairer import Answer, Law, Repairer, as_arrays
from fairmend.serve.schema import Row
from fairmend.serve.upstream import Upstream, UpstreamError

__all__ = ["Decided", "Sidecar"]

PROBES = 64
"""Rows of the audit that the vendor is queried about now and then."""
_LOADS = 3
_json = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class Decided:
    """An answer that is on disk."""

    content: bytes
    decision: str
    """The id of the request's decisions: row i is ``decision/i``."""


@dataclass(frozen=True, slots=True)
class _Request:
    """What stays the same while a request is answered."""

    serving: Repairer
    decision: str
    started: float
    deadline: float

    @property
    def latency(self) -> float:
        return 1000 * (time.perf_counter() - self.started)


class Sidecar:
    """The repaired model behind a server, apart from any HTTP of its own."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.metrics = Metrics()
        self.upstream = Upstream(config, self.metrics)
        self.key = _key(config)
        self.log: DecisionLog
        """Open once there is something to serve: a failed start leaves no log behind."""
        self.draining = False
        self.probes_changed = 0
        """Probes that the vendor answered unlike in the audit when last queried."""
        self.probed_at = 0.0
        self.current: Repairer | None = None
        self.in_flight = 0
        self._pseudonyms = Drawer(self.key, "person")
        self._hash_key = blake2b(b"requests", key=self.key, digest_size=32).digest()
        self._committed: deque[tuple[asyncio.Future[None], Exception | None]] = deque()
        self._pending: dict[bytes, tuple[bytes, asyncio.Future[Decided]]] = {}

    # ---------------------------------------------------------------- start, reload, stop

    async def start(self) -> None:
        self.loop = asyncio.get_running_loop()
        async with AsyncExitStack() as undo:  # where one step fails, those before it
            await self.upstream.start()
            undo.push_async_callback(self.upstream.close)
            current = await asyncio.to_thread(self._load)
            self.log = DecisionLog(self.config.log)
            undo.callback(self.log.close)
            await self._record_start(current.fingerprint)
            undo.pop_all()
        self.current = current

    async def _record_start(self, artifact: str) -> None:
        config = self.config
        try:
            await self.record(
                "start", mode=config.mode, basis=config.basis, artifact=artifact,
                upstream_protocol=self.upstream.protocol.name, vendor=config.vendor,
                version=config.version, key=self._pseudonyms.fingerprint,
            )  # fmt: skip
        except RequestFailed:
            got = "its next row could not be written"
            fix = "Make room on its disk, or choose another place."
            raise DataError(f"log {config.log!r}", "must be writable", got, fix) from None

    async def stop(self) -> None:
        with suppress(RequestFailed):  # a full disk must not keep it from ending
            await self.record("stop")
        await self.upstream.close()
        await asyncio.to_thread(self.log.close)

    @property
    def ready(self) -> bool:
        return not self.draining and self.current is not None and self.log.healthy

    @property
    def serving(self) -> Repairer:
        assert self.current is not None
        return self.current

    async def reload(self) -> str:
        """Load the artifact anew; if that fails, the old one stays and the reason is raised."""
        try:
            fresh = await asyncio.to_thread(self._load)
        except FairmendError:
            self.metrics.reloads.labels("refused").inc()
            await self.record("reload refused", kept=self.serving.fingerprint)
            raise
        await self.record("reload", artifact=fresh.fingerprint)  # or it is not served
        self.current = fresh
        self.probes_changed, self.probed_at = 0, 0.0  # those were the old one's
        self.metrics.reloads.labels("ok").inc()
        return fresh.fingerprint

    def _load(self) -> Repairer:
        """The artifact beside a model that queries the vendor through the event loop."""
        from fairmend.artifact import load

        path = Path(self.config.artifact)
        for _ in range(_LOADS):
            before = _fingerprint(path)
            classifier = load(path, model=self._query_from_thread, key=self.key, check_model=False)
            if _fingerprint(path) == before:  # else it was replaced while it was read
                personal = (*self.config.groups, self.config.id)
                log_groups = self.config.log_groups
                return Repairer(classifier, before, personal, log_groups=log_groups)
        must, got = "must stay as it is while it is read", "it changed each time"
        fix = "Load it again once it is in its place."
        raise DataError(f"artifact {str(path)!r}", must, got, fix)

    def _query_from_thread(self, native: Any) -> Any:
        """The model that plans query about mixtures of rows."""
        frame = Frame.read(native)
        names = None if frame.is_array else frame.names
        query = self.upstream.query(names, cells(frame), kinds(frame), self._deadline())
        _, values = asyncio.run_coroutine_threadsafe(query, self.loop).result()
        return as_answers(values)

    async def probe(self) -> None:
        """Query the vendor about rows of the audit: does it still answer as it did?"""
        serving = self.serving
        data, box = serving.classifier.data_, serving.classifier.box_
        if box.random:
            return
        probe = Probe.choose(serving.schema.table, data.populations, PROBES)
        rows = [serving.schema.typed(tuple(row)) for row in cells(probe.rows)]
        _, answers = await self._query(serving, rows, self._deadline())
        changed = int(probe.changed(as_arrays(answers), box.cut).sum())
        if changed != self.probes_changed:
            await self.record("probe", changed=changed, asked=len(rows))
        self.probes_changed, self.probed_at = changed, time.time()
        self.metrics.probe_changed.set(changed)

    # ---------------------------------------------------------------- a request

    async def answer(
        self,
        protocol: Protocol,
        body: bytes,
        content_type: str,
        headers: Mapping[str, str],
        path: str,
    ) -> Decided:
        """A request's answer, on disk before it is returned; a `RequestFailed` otherwise."""
        token = headers.get("idempotency-key")
        if token is None:
            return await self._decide(protocol, body, content_type, headers)
        if not 1 <= len(token) <= 255:
            raise RequestFailed("bad_key", "an Idempotency-Key has 1 to 255 characters", 400)
        key = self._hash(token.encode())
        beside = [path, content_type, headers.get(GROUP_HEADER, ""), headers.get(ID_HEADER, "")]
        digest = self._hash("\0".join(beside).encode() + b"\0" + body)
        if key in self._pending:
            first, future = self._pending[key]
            _check_same(first, digest)
            return await asyncio.shield(future)
        before = self.log.reply(key)
        if before is not None:
            _check_same(before.body, digest)
            return Decided(before.content, before.decision)
        future = self.loop.create_future()
        self._pending[key] = digest, future
        try:
            decided = await self._decide(protocol, body, content_type, headers, (key, digest))
            future.set_result(decided)
            return decided
        except BaseException as error:
            message = "the first request with this key was interrupted"
            interrupted = RequestFailed("interrupted", message, 503, 1)
            future.set_exception(error if isinstance(error, RequestFailed) else interrupted)
            future.exception()  # nobody else may be waiting
            raise
        finally:
            del self._pending[key]

    def _hash(self, content: bytes) -> bytes:
        """Keyed: a request has so few possible contents that a plain hash could be guessed."""
        return blake2b(content, key=self._hash_key, digest_size=32).digest()

    def _deadline(self) -> float:
        return self.loop.time() + self.config.timeout

    async def _decide(
        self,
        protocol: Protocol,
        body: bytes,
        content_type: str,
        headers: Mapping[str, str],
        idempotency: tuple[bytes, bytes] | None = None,
    ) -> Decided:
        # ids in the order of time, so that the log's index grows at its end
        decision = f"{time.time_ns() // 1_000:014x}{secrets.token_hex(5)}"
        request = _Request(self.serving, decision, time.perf_counter(), self._deadline())
        try:
            query, people = read_people(
                self.config, request.serving, protocol, body, content_type, headers
            )
            await self._query_people(request, people)
            status = "ok"
            if self.config.mode != "off":
                status = await self._repair(request, people)
            content = self._content(protocol, query, request, people)
        except RequestFailed as error:
            raise await self._failed(error, request) from None
        except BadAnswer:
            bad = UpstreamError("upstream_bad_answer", "the vendor's answer cannot be read")
            raise await self._failed(bad, request) from None
        except Exception:
            await self._failed(RequestFailed("internal", "something went wrong here", 500), request)
            raise
        entry = self._entry(request, people, status)
        if idempotency is not None:
            entry.reply = Reply(*idempotency, 200, content, decision)
        await self._commit(entry)
        return Decided(content, decision)

    # ---------------------------------------------------------------- its steps

    async def _query(
        self, serving: Repairer, rows: list[Row], deadline: float
    ) -> tuple[list[Any], list[Answer]]:
        """The vendor's answers, as they come and as they are read."""
        schema = serving.schema
        raw, values = await self.upstream.query(schema.sent_names, rows, schema.kinds, deadline)
        return raw, serving.read(values)

    async def _query_people(self, request: _Request, people: list[Person]) -> None:
        rows = [each.row for each in people]
        raw, answers = await self._query(request.serving, rows, request.deadline)
        for each, each_raw, answer in zip(people, raw, answers, strict=True):
            each.raw, each.answer = each_raw, answer

    async def _repair(self, request: _Request, people: list[Person]) -> str:
        """Edit rows and query the vendor about them; in shadow mode a failure is only noted."""
        serving = request.serving
        try:
            laws = await self._laws(request, people)
            for each, law in zip(people, laws, strict=True):
                if law is not None:
                    each.edited = serving.destination(law, each.row, each.id)
            edited = [each for each in people if each.edited is not None]
            if edited:
                rows: list[Row] = [each.edited for each in edited]  # type: ignore[misc]
                raw, answers = await self._query(serving, rows, request.deadline)
                for each, each_raw, answer in zip(edited, raw, answers, strict=True):
                    each.edited_raw, each.edited_answer = each_raw, answer
        except (UpstreamError, BadAnswer, FairmendError) as error:
            if self.config.mode == "repair":
                raise _as_upstream(error) from None
            for each in people:
                each.edited = each.edited_raw = each.edited_answer = None
            return "shadow_failed"
        return "ok"

    async def _laws(self, request: _Request, people: list[Person]) -> list[Law | None]:
        """Everybody's law, None for people of groups that are not repaired.

        Laws that are not cached are computed in a thread: that may query the vendor about mixtures.
        """
        serving = request.serving
        laws: dict[tuple[int, Row, Answer], Law] = {}
        missing: dict[int, dict[tuple[Row, Answer], None]] = {}
        keys: list[tuple[int, Row, Answer] | None] = []
        for each in people:
            place, answer = serving.plan_place(each.group), each.answer
            if place is None or answer is None:
                keys.append(None)
                continue
            key = place, each.row, answer
            keys.append(key)
            law = serving.law(*key)
            if law is None:
                missing.setdefault(place, {})[each.row, answer] = None
            else:
                laws[key] = law
        for place, pairs in missing.items():
            rows, answers = zip(*pairs, strict=True)
            try:
                async with asyncio.timeout_at(request.deadline):
                    fresh = await asyncio.to_thread(serving.find_laws, place, rows, answers)
            except TimeoutError:
                message = "the vendor did not answer in time"
                raise UpstreamError("upstream_timeout", message, 504) from None
            for (row, answer), law in zip(pairs, fresh, strict=True):
                laws[place, row, answer] = law
        return [None if key is None else laws[key] for key in keys]

    def _content(
        self, protocol: Protocol, query: Query, request: _Request, people: list[Person]
    ) -> bytes:
        config, labels = self.config, request.serving.labels
        repairs = config.mode == "repair"
        raw = [each.edited_raw if repairs and each.edited is not None else each.raw
               for each in people]  # fmt: skip
        if not config.explain:
            return protocol.write(query, raw)

        def label(each: Person, answer: Answer | None) -> Any:
            assert answer is not None
            positive = request.serving.decide(answer, each.row, each.id)
            return labels.positive if positive else labels.negative

        explained = {
            "mode": config.mode,
            "decision": request.decision,
            "original": [label(each, each.answer) for each in people],
            "repaired": [label(each, each.edited_answer or each.answer) for each in people],
        }
        return protocol.write(query, raw, {"fairmend": explained})

    # ---------------------------------------------------------------- the log

    def _row(self, request: _Request, now: float, status: str, **values: Any) -> tuple[Any, ...]:
        """The values of a row in the table of decisions."""
        config = self.config
        common = {
            "at": now, "artifact": request.serving.fingerprint, "vendor": config.vendor,
            "version": config.version, "mode": config.mode, "latency_ms": request.latency,
            "status": status, "decision": request.decision,
        }  # fmt: skip
        row = common | values
        return tuple(map(row.get, TABLES["decisions"]))

    def _entry(self, request: _Request, people: list[Person], status: str) -> Entry:
        serving, config, now = request.serving, self.config, time.time()
        day, off = day_of(now), config.mode == "off"
        entry = Entry([])
        for i, each in enumerate(people):
            answer, then = each.answer, each.edited_answer or each.answer
            assert answer is not None
            assert then is not None
            pairs = zip(serving.schema.names, each.row, each.edited or each.row, strict=True)
            features = None
            if config.keep_features:
                features = _json.encode([each.row, each.edited]).decode()
            values = self._row(
                request,
                now,
                status,
                decision=f"{request.decision}/{i}",
                person=None if each.id is None else self._pseudonyms.pseudonym(each.id),
                grp=each.group,
                original=serving.decide(answer, each.row, each.id),
                repaired=None if off else serving.decide(then, each.row, each.id),
                original_score=None if answer.score is None else float(answer.score),
                repaired_score=None if off or then.score is None else float(then.score),
                edited=",".join(name for name, old, new in pairs if old != new),
                features=features,
            )
            entry.rows.append(("decisions", values))
            cell = serving.cells.get(each.row, -1)
            entry.cells.append((day, serving.fingerprint, each.group or "", cell))
            edited = "yes" if each.edited is not None else "no"
            self.metrics.rows.labels(each.group or "", edited).inc()
        return entry

    async def _failed(self, error: RequestFailed, request: _Request) -> RequestFailed:
        """A failure, once it is on disk: that nobody was answered is part of the record."""
        try:
            row = self._row(request, time.time(), error.code)
            await self._commit(Entry([("decisions", row)]))
        except RequestFailed as worse:
            return worse
        return error

    async def record(self, kind: str, **detail: Any) -> None:
        """Log something that is no decision."""
        await self._commit(Entry([("events", event(kind, detail))]))

    async def outcomes(self, outcomes: Sequence[tuple[str, int]]) -> int:
        """Log the outcomes of decisions; one that is not in the log refuses them all."""
        decisions = [decision for decision, _ in outcomes]
        logged = await asyncio.to_thread(self.log.known, decisions)
        if not logged.issuperset(decisions):
            raise RequestFailed("unknown_decision", "a decision is not in the log", 422)
        now = time.time()
        await self._commit(Entry([("outcomes", (decision, y, now)) for decision, y in outcomes]))
        return len(outcomes)

    async def forget(self) -> None:
        """Delete what is older than the operator wants to keep."""
        days = self.config.keep_days
        before = 0.0 if days is None else time.time() - 86_400 * days
        await self._commit(Entry([], prune_before=before))

    async def _commit(self, entry: Entry) -> None:
        written = self.loop.create_future()
        entry.done = partial(self._wake, written)
        self.log.put(entry)
        try:
            await written
        except LogUnavailable:
            message = "decisions cannot be recorded, so none are made"
            raise RequestFailed("log_unavailable", message, 503, 5) from None

    def _wake(self, written: asyncio.Future[None], error: Exception | None) -> None:
        """From the log's thread: entries of one commit wake the event loop once."""
        self._committed.append((written, error))
        if len(self._committed) == 1:  # else it was woken, and has not come to these yet
            self.loop.call_soon_threadsafe(self._resolve)

    def _resolve(self) -> None:
        while self._committed:
            written, error = self._committed.popleft()
            if written.done():  # nobody waits any longer
                continue
            if error is None:
                written.set_result(None)
            else:
                written.set_exception(error)


def _fingerprint(path: Path) -> str:
    try:
        return sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise unreadable(f"artifact {str(path)!r}", error, "Check its name.") from None


def _key(config: Config) -> bytes:
    if config.key_file is not None:
        return read_key(file=config.key_file)
    if not config.secret(config.key_env):
        raise DataError(
            "key",
            "must be given, as the one that the repair was fitted with",
            f"got none, and {config.key_env} is not set",
            'Say --key-file FILE, or key_file = "FILE" in the file of --config, or set '
            f"{config.key_env}; fairmend key FILE makes one.",
        )
    return read_key(env=config.key_env)


def _check_same(first: bytes, digest: bytes) -> None:
    if first != digest:
        message = "this Idempotency-Key came with another request before"
        raise RequestFailed("key_reused", message, 422)


def _as_upstream(error: Exception) -> Exception:
    """What failed while a plan queried the vendor, as if the vendor were queried directly."""
    if not isinstance(error, FairmendError):
        return error
    if isinstance(error.__cause__, UpstreamError):
        return error.__cause__
    return UpstreamError("repair_failed", "the repair could not be made")
