"""What happens to a request: rows to the vendor, plans, draws, edited rows to the vendor, the log.

The order is what makes it safe. Nothing is answered before it is on disk; nothing is edited in
shadow; and a request sees one artifact from beginning to end, whatever is loaded meanwhile.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec
import numpy as np

from fairmend.apply.draw import Drawer, read_key
from fairmend.data.columns import Frame
from fairmend.data.ids import is_id
from fairmend.errors import DataError, FairmendError
from fairmend.model.protocols.wire import JSON, Asked, BadAnswer, BadRequest, Protocol
from fairmend.model.remote import cells, kinds
from fairmend.serve.config import Config
from fairmend.serve.fast import Read
from fairmend.serve.log import DecisionLog, Entry, LogUnavailable, Reply
from fairmend.serve.metrics import Metrics
from fairmend.serve.repairer import Law, Repairer, Said
from fairmend.serve.schema import Row, missing_column
from fairmend.serve.upstream import Upstream, UpstreamError

__all__ = ["Decided", "Failure", "Sidecar"]

PROBES = 64
_OF_PEOPLE = ("fairmend-group", "fairmend-id")
"""Headers that say who a row is about."""
_LOADS = 3
_json = msgspec.json.Encoder()
_FAST = Asked(None, [], "fast")
"""Stands for a request whose rows were read in one step."""


class Failure(Exception):
    """A request that is not answered, with what the client is told."""

    def __init__(self, code: str, message: str, status: int, retry_after: int = 0) -> None:
        super().__init__(message)
        self.code, self.message, self.status = code, message, status
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class Decided:
    """An answer that is on disk."""

    content: bytes
    decision: str
    """The id of the request's decisions: row i is ``decision/i``."""


@dataclass(slots=True)
class _Person:
    """One row on its way through."""

    row: Row
    group: str | None
    person: Any
    raw: Any = None
    said: Said | None = None
    sent: Row | None = None
    """The edited row; None where nothing is edited."""
    repaired_raw: Any = None
    repaired_said: Said | None = None


class Sidecar:
    """The repaired model behind a server, apart from any HTTP of its own."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.metrics = Metrics()
        self.upstream = Upstream(config, self.metrics)
        self.key = _key(config)
        self.apart = (*config.groups, config.id)
        self.log: DecisionLog
        """Open once there is something to serve: a failed start leaves no log behind."""
        self.draining = False
        self.changed_probes: list[int] = []
        """Probes that the vendor decided otherwise when last asked."""
        self.probed_at = 0.0
        self.current: Repairer | None = None
        self.in_flight = 0
        self._people = Drawer(self.key, "person")
        self._private = blake2b(b"requests", key=self.key, digest_size=32).digest()
        self._ended: deque[tuple[asyncio.Future[None], Exception | None]] = deque()
        self._pending: dict[bytes, tuple[bytes, asyncio.Future[Decided]]] = {}

    # ---------------------------------------------------------------- life

    async def start(self) -> None:
        self.loop = asyncio.get_running_loop()
        async with AsyncExitStack() as undone:  # where one step fails, those before it
            await self.upstream.start()
            undone.push_async_callback(self.upstream.close)
            current = await asyncio.to_thread(self._load)
            self.log = DecisionLog(self.config.log)
            undone.callback(self.log.close)
            await self._record_start(current.fingerprint)
            undone.pop_all()
        self.current = current

    async def _record_start(self, artifact: str) -> None:
        try:
            await self.record(
                "start",
                mode=self.config.mode,
                basis=self.config.basis,
                artifact=artifact,
                upstream_protocol=self.upstream.protocol.name,
                vendor=self.config.vendor,
                version=self.config.version,
                key=self._people.fingerprint,
            )
        except Failure:
            raise DataError(
                f"log {self.config.log!r}",
                "must be writable",
                "its next row could not be written",
                "Make room on its disk, or choose another place.",
            ) from None

    async def stop(self) -> None:
        with suppress(Failure):  # a full disk must not keep it from ending
            await self.record("stop")
        await self.upstream.close()
        await asyncio.to_thread(self.log.close)

    @property
    def ready(self) -> bool:
        return not self.draining and self.current is not None and self.log.healthy

    async def reload(self) -> str:
        """Load the artifact anew; if it is no good, the old one stays and the reason is raised."""
        try:
            fresh = await asyncio.to_thread(self._load)
        except FairmendError:
            self.metrics.count("fairmend_reloads_total", result="refused")
            await self.record("reload refused", kept=self.serving.fingerprint)
            raise
        await self.record("reload", artifact=fresh.fingerprint)  # or it is not served
        self.current = fresh
        self.changed_probes, self.probed_at = [], 0.0  # those were the old one's
        self.metrics.count("fairmend_reloads_total", result="ok")
        return fresh.fingerprint

    @property
    def serving(self) -> Repairer:
        assert self.current is not None
        return self.current

    def _load(self) -> Repairer:
        """The artifact beside a model that asks the vendor through the event loop."""
        from fairmend.artifact import load

        path = Path(self.config.artifact)
        for _ in range(_LOADS):
            before = _fingerprint(path)
            classifier = load(path, model=self._ask_from_thread, key=self.key, check_model=False)
            if _fingerprint(path) == before:  # else it was replaced while it was read
                return Repairer(classifier, before, self.apart)
        raise DataError(
            f"artifact {str(path)!r}",
            "must stay as it is while it is read",
            "it changed each time",
            "Load it again once it is in its place.",
        )

    def _ask_from_thread(self, native: Any) -> Any:
        """What plans ask when they need the vendor's word about mixtures of rows."""
        frame = Frame.read(native)
        rows, of_kind = cells(frame), kinds(frame)
        names = None if frame.is_array else frame.names
        deadline = self.loop.time() + self.config.timeout
        asked = self.upstream.ask(names, rows, of_kind, deadline)
        _, values = asyncio.run_coroutine_threadsafe(asked, self.loop).result()
        answers = np.empty(len(values), object)
        answers[:] = values
        numbers = np.array(values)
        return numbers if numbers.dtype.kind in "biuf" else answers

    async def record(self, kind: str, **detail: Any) -> None:
        await self._committed(self.log.event(kind, **detail))

    async def probe(self) -> None:
        """Put rows of the audit to the vendor again: does it still decide as it did?"""
        serving = self.serving
        rows, then = serving.probes(PROBES)
        _, values = await self.upstream.ask(
            serving.schema.sent_names, rows, serving.schema.kinds, self._deadline()
        )
        now = [said.decision for said in serving.read(values)]
        changed = [i for i, pair in enumerate(zip(now, then, strict=True)) if pair[0] != pair[1]]
        if changed != self.changed_probes:
            await self.record("probe", changed=len(changed), asked=len(rows))
        self.changed_probes, self.probed_at = changed, time.time()
        self.metrics.set("fairmend_probe_changed", len(changed))

    # ---------------------------------------------------------------- a request

    async def answer(
        self,
        protocol: Protocol,
        body: bytes,
        content_type: str,
        headers: Mapping[str, str],
        path: str,
    ) -> Decided:
        """A request's answer, on disk before it is returned; a `Failure` otherwise."""
        token = headers.get("idempotency-key")
        if token is None:
            return await self._decide(protocol, body, content_type, headers, None)
        if not 1 <= len(token) <= 255:
            raise Failure("bad_key", "an Idempotency-Key has 1 to 255 characters", 400)
        key = self._hash(token.encode())
        beside = [path, content_type, *(headers.get(name, "") for name in _OF_PEOPLE)]
        digest = self._hash("\0".join(beside).encode() + b"\0" + body)
        if key in self._pending:
            known, future = self._pending[key]
            _same(known, digest)
            return await asyncio.shield(future)
        before = self.log.reply(key)
        if before is not None:
            _same(before.body, digest)
            return Decided(before.content, before.decision)
        future = self.loop.create_future()
        self._pending[key] = digest, future
        try:
            decided = await self._decide(protocol, body, content_type, headers, (key, digest))
        except BaseException as error:
            told = error if isinstance(error, Failure) else Failure(
                "interrupted", "the first request with this key was interrupted", 503, 1
            )  # fmt: skip
            future.set_exception(told)
            future.exception()  # nobody else may be waiting
            raise
        else:
            future.set_result(decided)
            return decided
        finally:
            del self._pending[key]

    def _hash(self, content: bytes) -> bytes:
        """Keyed: a request has so few possible contents that a plain hash could be guessed."""
        return blake2b(content, key=self._private, digest_size=32).digest()

    def _deadline(self) -> float:
        return self.loop.time() + self.config.timeout

    async def _decide(
        self,
        protocol: Protocol,
        body: bytes,
        content_type: str,
        headers: Mapping[str, str],
        once: tuple[bytes, bytes] | None,
    ) -> Decided:
        started, deadline = time.perf_counter(), self._deadline()
        serving = self.serving
        # in the order of time, so that the log's index grows at its end
        decision = f"{time.time_ns() // 1_000:014x}{secrets.token_hex(5)}"
        people: list[_Person] = []
        status = "ok"
        try:
            asked, read = self._read(serving, protocol, body, content_type)
            people = self._people_of(serving, asked, read, headers)
            await self._ask(serving, people, deadline)
            if self.config.mode != "off":
                status = await self._repair(serving, people, deadline)
            reply = self._content(protocol, asked, serving, people, decision)
        except BadRequest as error:
            failure = Failure(error.code, error.message, error.status)
            raise await self._failed(failure, serving, decision, started) from None
        except UpstreamError as error:
            failure = Failure(error.code, error.message, error.status, error.retry_after)
            raise await self._failed(failure, serving, decision, started) from None
        except BadAnswer:
            failure = Failure("upstream_bad_answer", "the vendor's answer cannot be read", 502)
            raise await self._failed(failure, serving, decision, started) from None
        except Exception:
            failure = Failure("internal", "something went wrong here", 500)
            await self._failed(failure, serving, decision, started)
            raise
        entry = self._entry(serving, people, decision, started, status)
        if once is not None:
            entry.reply = Reply(*once, 200, reply, decision)
        await self._committed(entry)
        return Decided(reply, decision)

    async def _failed(
        self, failure: Failure, serving: Repairer, decision: str, started: float
    ) -> Failure:
        """A failure, once it is on disk: that nobody was answered is part of the record."""
        values = (
            decision, None, time.time(), None, serving.fingerprint, self.config.vendor,
            self.config.version, self.config.mode, None, None, None, None, None,
            1000 * (time.perf_counter() - started), failure.code, None,
        )  # fmt: skip
        try:
            await self._committed(Entry([("decisions", values)]))
        except Failure as worse:
            return worse
        return failure

    async def _committed(self, entry: Entry) -> None:
        written = self.loop.create_future()
        entry.done = partial(self._heard, written)
        self.log.put(entry)
        try:
            await written
        except LogUnavailable:
            raise Failure(
                "log_unavailable", "decisions cannot be recorded, so none are made", 503, 5
            ) from None

    def _heard(self, written: asyncio.Future[None], error: Exception | None) -> None:
        """From the log's thread: what shared a commit is told in one go, so it wakes us once."""
        self._ended.append((written, error))
        if len(self._ended) == 1:  # else we were woken, and have not come to these yet
            self.loop.call_soon_threadsafe(self._tell)

    def _tell(self) -> None:
        while self._ended:
            written, error = self._ended.popleft()
            if written.done():  # nobody waits any longer
                continue
            if error is None:
                written.set_result(None)
            else:
                written.set_exception(error)

    # ---------------------------------------------------------------- its steps

    def _read(
        self, serving: Repairer, protocol: Protocol, body: bytes, content_type: str
    ) -> tuple[Asked, Read]:
        """A request and its rows, the usual forms in one step."""
        fast = serving.fast.read(protocol.name, body) if content_type == JSON else None
        asked = protocol.read(body, content_type) if fast is None else _FAST
        most = self.config.most_rows
        if len(asked.rows if fast is None else fast[0]) > most:
            raise BadRequest("too_many_rows", f"at most {most} rows", 413)
        return asked, serving.schema.read(asked, self.apart) if fast is None else fast

    def _people_of(
        self, serving: Repairer, asked: Asked, read: Read, headers: Mapping[str, str]
    ) -> list[_Person]:
        rows, columns = read
        n, came = len(rows), set(columns)
        for name, value in asked.parameters.items():
            if name not in self.apart or name in came:
                raise BadRequest("bad_parameter", "a parameter does not belong here", 422)
            columns[name] = _spread(value, n)
        if _OF_PEOPLE[0] in headers and self.config.groups[0] not in columns:
            labels = [_from_header(label) for label in headers[_OF_PEOPLE[0]].split("&")]
            if len(labels) != len(self.config.groups):
                raise BadRequest("bad_group", "Fairmend-Group has one label an attribute", 422)
            for name, label in zip(self.config.groups, labels, strict=True):
                columns[name] = [label.strip()] * n
        if _OF_PEOPLE[1] in headers and self.config.id not in columns:
            if n != 1:
                raise BadRequest("bad_id", "Fairmend-Id is for one row; use a column", 422)
            columns[self.config.id] = [_from_header(headers[_OF_PEOPLE[1]])]
        for name in columns.keys() - came:
            if name in serving.schema.personal:  # said beside the rows, but the vendor reads it
                raise missing_column(name)
        groups = [columns.get(name) for name in self.config.groups]
        ids = columns.get(self.config.id)
        found = []
        for i, row in enumerate(rows):
            own = [None if column is None else column[i] for column in groups]
            person = None if ids is None else ids[i]
            if person is not None and not is_id(person):
                raise BadRequest("bad_id", "ids are whole numbers or text that is not empty", 422)
            found.append(_Person(row, serving.group(own), person))
        return found

    async def _ask(self, serving: Repairer, people: list[_Person], deadline: float) -> None:
        schema = serving.schema
        rows = [each.row for each in people]
        raw, values = await self.upstream.ask(schema.sent_names, rows, schema.kinds, deadline)
        for each, answer, said in zip(people, raw, serving.read(values), strict=True):
            each.raw, each.said = answer, said

    async def _repair(self, serving: Repairer, people: list[_Person], deadline: float) -> str:
        """Find who is edited, and ask about the edited rows; in shadow a failure is only noted."""
        try:
            laws = await self._laws(serving, people, deadline)
            for each, law in zip(people, laws, strict=True):
                if law is not None:
                    each.sent = serving.destination(law, each.row, each.person)
            edited = [each for each in people if each.sent is not None]
            if edited:
                schema = serving.schema
                rows: list[Row] = [each.sent for each in edited]  # type: ignore[misc]
                raw, values = await self.upstream.ask(
                    schema.sent_names, rows, schema.kinds, deadline
                )
                for each, answer, said in zip(edited, raw, serving.read(values), strict=True):
                    each.repaired_raw, each.repaired_said = answer, said
        except (UpstreamError, BadAnswer, FairmendError) as error:
            if self.config.mode == "repair":
                raise _as_upstream(error) from None
            for each in people:
                each.sent = each.repaired_raw = each.repaired_said = None
            return "shadow_failed"
        return "ok"

    async def _laws(
        self, serving: Repairer, people: list[_Person], deadline: float
    ) -> list[Law | None]:
        """Everybody's law, None for people of groups that are not mended.

        Those not found before are found in a thread: that may ask the vendor about mixtures.
        """
        found: dict[tuple[str, Row, Said], Law] = {}
        wanted: dict[str, dict[tuple[Row, Said], None]] = {}
        keys: list[tuple[str, Row, Said] | None] = []
        for each in people:
            group, said = each.group, each.said
            if group is None or said is None or not serving.mends(group):
                keys.append(None)
                continue
            keys.append((group, each.row, said))
            law = serving.law(group, each.row, said)
            if law is None:
                wanted.setdefault(group, {})[each.row, said] = None
            else:
                found[group, each.row, said] = law
        for group, pairs in wanted.items():
            rows, answers = zip(*pairs, strict=True)
            try:
                async with asyncio.timeout_at(deadline):
                    laws = await asyncio.to_thread(serving.find_laws, group, rows, answers)
            except TimeoutError:
                raise UpstreamError(
                    "upstream_timeout", "the vendor did not answer in time", 504
                ) from None
            for (row, said), law in zip(pairs, laws, strict=True):
                found[group, row, said] = law
        return [None if key is None else found[key] for key in keys]

    def _content(
        self,
        protocol: Protocol,
        asked: Asked,
        serving: Repairer,
        people: list[_Person],
        decision: str,
    ) -> bytes:
        repairs = self.config.mode == "repair"
        answers = [
            each.repaired_raw if repairs and each.sent is not None else each.raw for each in people
        ]
        more = None
        if self.config.explain:
            more = {
                "fairmend": {
                    "mode": self.config.mode,
                    "decision": decision,
                    "original": [_label(serving, each, each.said) for each in people],
                    "repaired": [
                        _label(serving, each, each.repaired_said or each.said) for each in people
                    ],
                }
            }
        return protocol.write(asked, answers, more)

    def _entry(
        self,
        serving: Repairer,
        people: list[_Person],
        decision: str,
        started: float,
        status: str,
    ) -> Entry:
        now, names = time.time(), serving.schema.names
        latency = 1000 * (time.perf_counter() - started)
        day = _day(int(now // 86_400))
        config, rows, counted = self.config, [], []
        for i, each in enumerate(people):
            said, then = each.said, each.repaired_said or each.said
            assert said is not None
            assert then is not None
            changed = ""
            if each.sent is not None:
                pairs = zip(names, each.row, each.sent, strict=True)
                changed = ",".join(name for name, old, new in pairs if old != new)
            features = None
            if config.keep_features:
                features = _json.encode([each.row, each.sent]).decode()
            values = (
                f"{decision}/{i}",
                None if each.person is None else self._people.pseudonym(each.person),
                now, each.group, serving.fingerprint, config.vendor, config.version, config.mode,
                serving.decide(said, each.row, each.person),
                serving.decide(then, each.row, each.person) if config.mode != "off" else None,
                None if said.score is None else float(said.score),
                None if then.score is None or config.mode == "off" else float(then.score),
                changed, latency, status, features,
            )  # fmt: skip
            rows.append(("decisions", values))
            cell = serving.cells.get(each.row, -1)
            counted.append((day, serving.fingerprint, each.group or "", cell))
            self.metrics.count(
                "fairmend_rows_total",
                group=each.group or "",
                edited="yes" if each.sent is not None else "no",
            )
        return Entry(rows, counted)

    # ---------------------------------------------------------------- outcomes

    async def outcomes(self, told: Sequence[tuple[str, int]]) -> int:
        """Record what became of decisions; those not in the log are refused together."""
        known = await asyncio.to_thread(self._known, [decision for decision, _ in told])
        if not all(decision in known for decision, _ in told):
            raise Failure("unknown_decision", "a decision is not in the log", 422)
        now = time.time()
        rows: list[tuple[str, tuple[Any, ...]]] = [
            ("outcomes", (decision, y, now)) for decision, y in told
        ]
        await self._committed(Entry(rows))
        return len(rows)

    def _known(self, decisions: list[str]) -> set[str]:
        known: set[str] = set()
        for start in range(0, len(decisions), 500):
            known |= self.log.knows(decisions[start : start + 500])
        return known

    async def forget(self) -> None:
        """Drop what is older than the operator wants to keep."""
        days = self.config.keep_days
        before = 0.0 if days is None else time.time() - 86_400 * days
        entry = Entry([], prune_before=before)
        await self._committed(entry)


def _fingerprint(path: Path) -> str:
    try:
        return sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise DataError(
            f"artifact {str(path)!r}",
            "must be readable",
            f"it is not: {error.strerror}",
            "Check its name.",
        ) from None


@lru_cache(maxsize=4)
def _day(number: int) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(86_400 * number))


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


def _same(known: bytes, digest: bytes) -> None:
    if known != digest:
        raise Failure("key_reused", "this Idempotency-Key came with another request before", 422)


def _spread(value: Any, n: int) -> list[Any]:
    """A parameter for every row: one value for all of them, or one each."""
    if not isinstance(value, list):
        return [value] * n
    if len(value) != n:
        raise BadRequest("bad_parameter", "a parameter must have one value, or one a row", 422)
    return value


def _from_header(text: str) -> str:
    """Headers are Latin letters; anything else comes percent-encoded."""
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise BadRequest("bad_header", "headers are percent-encoded UTF-8", 400) from None


def _as_upstream(error: Exception) -> Exception:
    """What went wrong while a plan asked about mixtures, told as if it were asked directly."""
    if not isinstance(error, FairmendError):
        return error
    if isinstance(error.__cause__, UpstreamError):
        return error.__cause__
    return UpstreamError("repair_failed", "the repair could not be made")


def _label(serving: Repairer, each: _Person, said: Said | None) -> Any:
    assert said is not None
    positive = serving.decide(said, each.row, each.person)
    return serving.labels.positive if positive else serving.labels.negative
