"""What makes a log tamper-evident: a key, a chain for each table, and a sealed state.

Each row carries

    chain = HMAC(key, chain of the row before | HMAC(key, table, number and values of the row)),

so that without the key no row can be changed, removed, inserted or chained anew. The state holds
where each chain begins and ends, so that a log cut short shows; and a sum over the counts of
inputs, which are added to and cannot be a chain:

    sum of HMAC(key, count's own key) x n    modulo 2^256.

The state is sealed by an HMAC too. Whoever puts back a whole earlier copy of a log is found by a
checkpoint that was kept elsewhere: the heads of the chains, signed with Ed25519.
"""

from __future__ import annotations

import hmac
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from fairmend.apply.draw import find_key
from fairmend.errors import DataError, check

__all__ = ["TABLES", "Head", "LogBroken", "LogKey", "State", "day_of", "event"]

TABLES: dict[str, dict[str, type]] = {
    "decisions": {
        "decision": str, "person": str, "at": float, "grp": str, "artifact": str, "vendor": str,
        "version": str, "mode": str, "original": int, "repaired": int, "original_score": float,
        "repaired_score": float, "edited": str, "latency_ms": float, "status": str,
        "features": str,
    },
    "outcomes": {"decision": str, "y": int, "at": float},
    "events": {"at": float, "kind": str, "detail": str},
}  # fmt: skip
"""The chained tables and their columns. Before them is the row's number ``seq``; behind them
``erased``, what the chain needs of a row whose content was erased, and ``chain``."""
_START = bytes(32)
_WRAP = 1 << 256
_json = msgspec.json.Encoder()

Head = tuple[int, bytes]
"""Number and chain of a row."""


class LogBroken(Exception):
    """The state of a log is not as it was written."""


@dataclass(frozen=True, slots=True)
class State:
    """Where the chains of a log stand."""

    heads: dict[str, Head] = field(default_factory=lambda: dict.fromkeys(TABLES, (0, _START)))
    """The last row of each table."""
    begins: dict[str, Head] = field(default_factory=lambda: dict.fromkeys(TABLES, (0, _START)))
    """The last row of each that was deleted: where the chain of those kept begins."""
    counts: int = 0
    """The sum over the counts of inputs."""
    rolled: tuple[int, int] = (0, 0)
    """Tallies from before the first time are by the day, from before the second by the hour, and
    later ones by the minute."""
    bands: tuple[float, ...] = ()
    """The scores at which a new band of scores begins, by which decisions are tallied."""


class LogKey:
    """The secret of a log, which the database does not know."""

    def __init__(self, key: bytes) -> None:
        def derived(purpose: str) -> bytes:
            return hmac.digest(key, f"fairmend log {purpose}".encode(), "sha256")

        self._rows, self._links, self._seal = derived("rows"), derived("links"), derived("seal")
        self._counts, self._signing = derived("counts"), derived("signing")
        self.fingerprint = derived("fingerprint")[:8].hex()
        """Distinguishes keys and reveals nothing about them."""

    @classmethod
    def derived(cls, key: bytes) -> LogKey:
        """That of a log without a secret of its own, by the secret for draws."""
        return cls(hmac.digest(key, b"fairmend log", "sha256"))

    @classmethod
    def own(cls, env: str, file: str | Path | None) -> LogKey | None:
        """That of a file or an environment variable; None where neither is given."""
        secret = find_key(env, file)
        return None if secret is None else cls(secret)

    # ---------------------------------------------------------------- rows

    def digest(self, table: str, seq: int, values: Sequence[Any]) -> bytes:
        """What stands for a row in its chain."""
        return hmac.digest(self._rows, _json.encode([table, seq, *values]), "sha256")

    def link(self, before: bytes, digest: bytes) -> bytes:
        """A row's chain, by that of the row before."""
        return hmac.digest(self._links, before + digest, "sha256")

    def counted(self, total: int, cell: Sequence[Any], n: int) -> int:
        """The sum over the counts of inputs, with n more of one of them."""
        digest = hmac.digest(self._counts, _json.encode(cell), "sha256")
        return (total + n * int.from_bytes(digest)) % _WRAP

    # ---------------------------------------------------------------- the state

    def sealed(self, state: State) -> tuple[bytes, bytes]:
        """A state as it is kept, and its seal."""
        content = _json.encode({"key": self.fingerprint, "rolled": state.rolled,
                                "bands": state.bands, **_told(state)})  # fmt: skip
        return content, hmac.digest(self._seal, content, "sha256")

    def opened(self, content: bytes, seal: bytes) -> State:
        """A state that is kept; `LogBroken` where it was changed, or is of another key."""
        if not hmac.compare_digest(hmac.digest(self._seal, content, "sha256"), seal):
            raise LogBroken(self._why(content))
        said = msgspec.json.decode(content)
        heads, begins = (
            {table: (seq, bytes.fromhex(chain)) for table, (seq, chain) in said[name].items()}
            for name in ("heads", "begins")
        )
        rolled, bands = tuple(said["rolled"]), tuple(said["bands"])
        return State(heads, begins, int(said["counts"], 16), rolled, bands)

    def _why(self, content: bytes) -> str:
        try:
            key = msgspec.json.decode(content)["key"]
        except (msgspec.DecodeError, KeyError, TypeError):
            key = self.fingerprint
        if key == self.fingerprint:
            return "the state of the log was changed"
        return f"the log has another key: {key}, and this one is {self.fingerprint}"

    # ---------------------------------------------------------------- checkpoints

    def checkpoint(self, state: State) -> dict[str, Any]:
        """Where the chains stand now, signed: to be kept where nobody can reach it."""
        signer = self._signer()
        said = {"at": time.time(), "key": self.fingerprint, **_told(state),
                "public": signer.public_key().public_bytes_raw().hex()}  # fmt: skip
        return {**said, "signature": signer.sign(_canonical(said)).hex()}

    def check_signed(self, checkpoint: Mapping[str, Any], where: str) -> dict[str, Head]:
        """The heads of a checkpoint; a `DataError` where this key did not sign it."""
        from cryptography.exceptions import InvalidSignature

        said = {name: value for name, value in checkpoint.items() if name != "signature"}
        try:
            signature = bytes.fromhex(checkpoint["signature"])
            self._signer().public_key().verify(signature, _canonical(said))
            return {table: (seq, bytes.fromhex(chain))
                    for table, (seq, chain) in said["heads"].items()}  # fmt: skip
        except (InvalidSignature, KeyError, TypeError, ValueError, AttributeError):
            raise DataError(
                where, "must be a checkpoint signed with this log's key", "it is not",
                "Compare the key with the one that the log was written with.",
            ) from None  # fmt: skip

    def _signer(self) -> Any:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return Ed25519PrivateKey.from_private_bytes(self._signing)


def _told(state: State) -> dict[str, Any]:
    def heads(each: Mapping[str, Head]) -> dict[str, Any]:
        return {table: (seq, chain.hex()) for table, (seq, chain) in each.items()}

    return {"heads": heads(state.heads), "begins": heads(state.begins),
            "counts": f"{state.counts:064x}"}  # fmt: skip


def _canonical(said: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode(said, order="deterministic")


def read_checkpoints(content: bytes, where: str) -> list[dict[str, Any]]:
    """The checkpoints of a file, one a line; other lines of a sidecar's output are passed over."""
    found = []
    for line in content.splitlines():
        try:
            said = msgspec.json.decode(line)
        except msgspec.DecodeError:
            continue
        said = said.get("checkpoint", said) if isinstance(said, dict) else {}
        if "signature" in said:
            found.append(said)
    check(found, where, "must hold checkpoints", "there is none",
          "Write one with `fairmend log checkpoint`.")  # fmt: skip
    return found


@lru_cache(maxsize=4)
def _day(number: int) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(86_400 * number))


def day_of(at: float) -> str:
    """The day of a time, in UTC."""
    return _day(int(at // 86_400))


def event(kind: str, detail: dict[str, Any]) -> tuple[float, str, str]:
    """The values of an event that happens now."""
    return time.time(), kind, _json.encode(detail).decode()
