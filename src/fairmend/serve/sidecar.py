"""The sidecar: an artifact, a vendor, a log, and what happens to each.

The order is what makes it safe. Nothing is repaired before it is on disk; nothing is edited in
shadow mode; and a request sees one artifact from beginning to end, whatever is loaded meanwhile.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from hashlib import blake2b, sha256
from pathlib import Path
from typing import Any, TypeVar

from fairmend.apply.draw import Drawer, find_key
from fairmend.data.columns import Frame
from fairmend.errors import DataError, FairmendError, unreadable
from fairmend.measure.late import score_bands
from fairmend.model.remote import as_answers, cells, kinds
from fairmend.model.wire import Protocol, RequestFailed
from fairmend.serve.cap import Cap
from fairmend.serve.config import Config
from fairmend.serve.exchange import Decided, Exchange, KeyRefused, check_same
from fairmend.serve.log import DecisionLog, Entry, LogKey, LogUnavailable, event
from fairmend.serve.metrics import Metrics
from fairmend.serve.notes import note, where
from fairmend.serve.people import GROUP_HEADER, ID_HEADER, Incoming
from fairmend.serve.probes import Probes
from fairmend.serve.repairer import Repairer
from fairmend.serve.retention import Retention
from fairmend.serve.upstream import Upstream

__all__ = ["Decided", "Sidecar"]

_LOADS = 3
T = TypeVar("T")


class Sidecar:
    """The repaired model behind a server, apart from any HTTP of its own."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.metrics = Metrics()
        self.upstream = Upstream(config, self.metrics)
        self.key = _key(config)
        self.log_key = LogKey.own(config.log_key_env, config.log_key_file) or LogKey.derived(
            self.key
        )
        self.log: DecisionLog
        """Open once there is something to serve: a failed start leaves no log behind."""
        self.draining = False
        self.probes = Probes(config, self.upstream, self.metrics)
        self.retention = Retention(config.keep_days)
        self.failures = Cap(config.most_failed_rows)
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
            await self.probes.check_start(current)
            bands = score_bands(current.repair.data)
            self.log = await asyncio.to_thread(DecisionLog, self.config.log, self.log_key, bands)
            undo.callback(self.log.close)
            paused = self.retention.begin(self.log.last())
            await self._record_start(current.fingerprint)
            undo.pop_all()
        self.current = current
        if paused:
            await self.record("retention paused", **paused)

    async def _record_start(self, artifact: str) -> None:
        config = self.config
        try:
            await self.record(
                "start", mode=config.mode, basis=config.basis, artifact=artifact,
                upstream_protocol=self.upstream.protocol.name, vendor=config.vendor,
                version=config.version, key=self._pseudonyms.fingerprint,
                log_key=self.log_key.fingerprint,
            )  # fmt: skip
        except RequestFailed:
            got = "its next row could not be written"
            fix = "Make room on its disk, or choose another place."
            raise DataError(f"log {config.log!r}", "must be writable", got, fix) from None

    async def stop(self) -> None:
        with suppress(RequestFailed):  # a full disk must not keep it from ending
            await self.record("stop")
            await self._checkpoint()
        await self.upstream.close()
        await asyncio.to_thread(self.log.close)

    @property
    def ready(self) -> bool:
        """Whether requests may be sent here; without its log only the vendor's own answers."""
        can_answer = self.config.mode != "repair" or (self.log.healthy and not self.refuses)
        return not self.draining and self.current is not None and can_answer

    @property
    def mode(self) -> str:
        """The mode in force: repair becomes shadow where the vendor's model has changed."""
        if self.config.mode == "repair" and self.probes.are_changed:
            return "shadow" if self.config.vendor_changed == "shadow" else "repair"
        return self.config.mode

    @property
    def refuses(self) -> bool:
        """Whether nothing is answered, because the vendor's model has changed."""
        repairs, policy = self.config.mode == "repair", self.config.vendor_changed
        return repairs and policy == "refuse" and self.probes.are_changed

    @property
    def serving(self) -> Repairer:
        assert self.current is not None
        return self.current

    async def reload(self) -> str:
        """Load the artifact anew; if that fails, the old one stays and the reason is raised."""
        try:
            fresh = await asyncio.to_thread(self._load)
            checked = await self.probes.check_reload(fresh)
        except FairmendError:
            self.metrics.reloads.labels("refused").inc()
            await self.record("reload refused", kept=self.serving.fingerprint)
            raise
        await self.record("reload", artifact=fresh.fingerprint)  # or it is not served
        self.current = fresh
        self.probes.keep(checked)
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
        query = self.upstream.query(names, cells(frame), kinds(frame), self.deadline())
        _, values = asyncio.run_coroutine_threadsafe(query, self.loop).result()
        return as_answers(values)

    async def probe(self) -> None:
        """Query the vendor about rows of the audit: does it still answer as it did?"""
        before = self.probes.changed, self.mode, self.refuses
        await self.probes.look(self.serving)
        if before != (self.probes.changed, self.mode, self.refuses):
            await self.record(
                "probe", changed=self.probes.changed, asked=self.probes.asked, mode=self.mode,
                policy=self.config.vendor_changed,
            )  # fmt: skip

    async def try_log(self) -> None:
        """Write again after a failure, so that readiness comes back without a request."""
        if not self.log.healthy:
            note("log unavailable", "error", why=self.log.trouble)
            with suppress(RequestFailed):
                await self.record("log available again")
        elif count := self.failures.take_left_out():
            with suppress(RequestFailed):
                await self.record("failures not logged", count=count)

    # ---------------------------------------------------------------- a request

    async def answer(
        self,
        protocol: Protocol,
        body: bytes,
        content_type: str,
        headers: Mapping[str, str],
        path: str,
        query: str = "",
        rest: AsyncIterator[bytes] | None = None,
    ) -> Decided:
        """A request's answer, on disk before it is returned; a `RequestFailed` otherwise."""
        incoming = Incoming(protocol, body, content_type, headers, path, query, rest)
        if self.refuses:
            message = "the vendor's model is not the one that was audited"
            raise RequestFailed("vendor_changed", message, 503, 60)
        token = headers.get("idempotency-key")
        if token is None or self.mode == "off" or rest is not None:
            return await Exchange(self, incoming).run()
        try:
            return await self._once(token, incoming)
        except KeyRefused:
            if self.mode == "repair":
                raise
            return await Exchange(self, incoming).run()

    async def _once(self, token: str, incoming: Incoming) -> Decided:
        """The answer to the first request with a key is that to all."""
        if not 1 <= len(token) <= 255:
            raise KeyRefused("bad_key", "an Idempotency-Key has 1 to 255 characters", 400)
        key, headers = self._hash(token.encode()), incoming.headers
        beside = [incoming.path, incoming.content_type,
                  headers.get(GROUP_HEADER, ""), headers.get(ID_HEADER, "")]  # fmt: skip
        digest = self._hash("\0".join(beside).encode() + b"\0" + incoming.body)
        if key in self._pending:
            first, future = self._pending[key]
            check_same(first, digest)
            decided = await asyncio.shield(future)
            if decided.rest is not None:
                message = "the answer to the first request with this key is still on its way"
                raise KeyRefused("interrupted", message, 503, 1)
            return decided
        future = self.loop.create_future()
        self._pending[key] = digest, future
        try:
            earlier = await self._earlier(key, digest)
            decided = earlier or await Exchange(self, incoming, (key, digest)).run()
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

    async def _earlier(self, key: bytes, digest: bytes) -> Decided | None:
        """The answer that was given under this key before, by whichever replica."""
        try:
            before = await self._of_log(self.log.reply, key)
        except RequestFailed:
            if self.mode == "repair":
                raise
            return None
        if before is None:
            return None
        check_same(before.body, digest)
        return Decided(before.content, before.decision)

    def _hash(self, content: bytes) -> bytes:
        """Keyed: a request has so few possible contents that a plain hash could be guessed."""
        return blake2b(content, key=self._hash_key, digest_size=32).digest()

    def deadline(self) -> float:
        return self.loop.time() + self.config.timeout

    def pseudonym(self, person: Any) -> str:
        """What stands for a person in the log."""
        return self._pseudonyms.pseudonym(person)

    def unforeseen(self, error: Exception) -> RequestFailed:
        """An error of ours that must not fail the request; where it happened is noted."""
        note("error", "error", error=where(error))
        return RequestFailed("internal", "something went wrong here", 500)

    # ---------------------------------------------------------------- the log

    async def record(self, kind: str, **detail: Any) -> None:
        """Log something that is no decision."""
        await self.commit(Entry([("events", event(kind, detail))]))

    async def outcomes(
        self, decisions: Sequence[tuple[str, int]], people: Sequence[tuple[str, int]]
    ) -> int:
        """Log the outcomes of decisions, and of people by their pseudonyms.

        One that is not in the log refuses them all.
        """
        meant = await self._of_log(self.log.logged_of, [name for name, _ in decisions])
        meant |= await self._of_log(self.log.last_decisions_of, [name for name, _ in people])
        told = [*decisions, *people]
        if not meant.keys() >= {name for name, _ in told}:
            raise RequestFailed("unknown_decision", "a decision is not in the log", 422)
        now = time.time()
        await self.commit(Entry([("outcomes", (meant[name], y, now)) for name, y in told]))
        return len(told)

    async def forget(self) -> None:
        """Delete what is older than the operator wants to keep, a day's worth at most."""
        paused = self.retention.look()
        if paused:
            await self.record("retention paused", **paused)
        oldest, pruned = await self._of_log(self.log.oldest), await self._of_log(self.log.pruned)
        before = self.retention.before(oldest, pruned)
        await self.commit(Entry([], prune_before=before))
        self.retention.done()
        await self._checkpoint()
        if oldest is not None and oldest < before:
            note("retention", deleted_before=round(before))

    async def _checkpoint(self) -> None:
        """Where the chains of the log stand, signed, to wherever these lines are kept."""
        note("checkpoint", checkpoint=await self._of_log(self.log.checkpoint))

    async def _of_log(self, read: Callable[..., T], *given: Any) -> T:
        """What is read of the log, beside the event loop."""
        try:
            return await asyncio.to_thread(read, *given)
        except LogUnavailable:
            raise log_unavailable() from None

    async def commit(self, entry: Entry) -> None:
        written = self.loop.create_future()
        entry.done = partial(self._wake, written)
        self.log.put(entry)
        try:
            await written
        except LogUnavailable:
            raise log_unavailable() from None

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
    key = find_key(config.key_env, config.key_file)
    if key is None:
        raise DataError(
            "key",
            "must be given, as the one that the repair was fitted with",
            f"got none, and {config.key_env} is not set",
            'Say --key-file FILE, or key_file = "FILE" in the file of --config, or set '
            f"{config.key_env}; fairmend key FILE makes one.",
        )
    return key


def log_unavailable() -> RequestFailed:
    message = "decisions cannot be recorded, so none are made"
    return RequestFailed("log_unavailable", message, 503, 5)
