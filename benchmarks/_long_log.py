"""A log of very many decisions, made by the database itself, and how long its page takes."""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Any

import serving
from fairmend.artifact import load
from fairmend.measure.late import score_bands
from fairmend.serve.log import DecisionLog, LogStore
from fairmend.serve.log.chain import State, day_of
from fairmend.serve.log.store import DAY, HOUR, store_at

YEAR = 365 * DAY
SERIES = {
    "sqlite": "(WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < {n}) "
    "SELECT i, (random() / 18446744073709551616.0 + 0.5) AS a, "
    "(random() / 18446744073709551616.0 + 0.5) AS b FROM s)",
    "postgresql": "(SELECT i, random() AS a, random() AS b FROM generate_series(1, {n}) i)",
}
NAMES = {
    "sqlite": "printf('%014x%010x/0', {0}, i)",
    "postgresql": "lpad(to_hex(({0})::bigint), 14, '0') || lpad(to_hex(i), 10, '0') || '/0'",
}
ZEROS = {"sqlite": "zeroblob(32)", "postgresql": "decode(repeat('00', 32), 'hex')"}


def fill(where: str | Path, artifact: Path, n: int) -> None:
    """A year of decisions, outcomes of four in five, edits of one in fifty.

    The chains are not made: no page reads them.
    """
    classifier = load(artifact, model=serving.decide, key=bytes.fromhex(serving.KEY))
    bands = score_bands(classifier.data_)
    DecisionLog(where, serving.log_key(), bands).close()
    store = store_at(where, read_only=False)
    now = time.time()
    rolled = (int((now - 12 * DAY) // DAY) * DAY, int((now - 2 * DAY) // HOUR) * HOUR)
    heads = {"decisions": (n, bytes(32)), "outcomes": (n, bytes(32)), "events": (0, bytes(32))}
    state = State(heads, rolled=rolled, bands=bands)
    for name in ("decided", "decided_on", "edited_rows", "failed_rows", "became"):
        store.execute(f"DROP INDEX {name}")
    _write(store, n, now - YEAR, serving_name(artifact))
    for statement in store.schema():
        store.execute(statement)
    with store.transaction():
        store.insert("tallies", list(store.tallied(state)))
        days = [day_of(now - DAY * day) for day in range(365)]
        cells = [(serving_name(artifact), group, day, cell, 1 + n // 100_000)
                 for group in "ab" for day in days for cell in range(-1, 120)]  # fmt: skip
        store.insert("cells", cells)
        store.keep(state, serving.log_key())
    if store.scheme == "postgresql":
        store.execute("ANALYZE")
    store.close()


def serving_name(artifact: Path) -> str:
    """What the log calls an artifact."""
    from hashlib import sha256

    return sha256(artifact.read_bytes()).hexdigest()


def _write(store: LogStore, n: int, first: float, artifact: str) -> None:
    at = f"{first} + {YEAR}.0 * i / {n}"
    name = NAMES[store.scheme].format(store.floor(f"({at}) * 1000000"))
    series, zeros = SERIES[store.scheme].format(n=n), ZEROS[store.scheme]
    edited = "a < 0.02"
    with store.transaction():
        store.execute(
            f"INSERT INTO decisions SELECT i, {name}, NULL, {at}, "
            f"CASE WHEN b < 0.5 THEN 'a' ELSE 'b' END, '{artifact}', 'vendor', '1', 'repair', "
            "CASE WHEN a > 0.6 THEN 1 ELSE 0 END, "
            f"CASE WHEN a > 0.6 OR {edited} THEN 1 ELSE 0 END, a, a, "
            f"CASE WHEN {edited} THEN 'dose' ELSE '' END, 5.5, "
            f"CASE WHEN b > 0.999 THEN 'shadow_failed' ELSE 'ok' END, NULL, NULL, {zeros} "
            f"FROM {series} s"
        )
        store.execute(
            f"INSERT INTO outcomes SELECT seq, decision, CASE WHEN original_score > 0.5 THEN 1 "
            f"ELSE 0 END, at + 3600, NULL, {zeros} FROM decisions WHERE seq % 5 > 0"
        )


def page(folder: Path, artifact: Path, upstream: str, log: Any, looks: int = 5) -> dict[str, float]:
    """Seconds to make the monitor page, the first time and usually."""
    sidecar = serving.Sidecar(folder, artifact, upstream, log=log, mode="repair")
    try:
        times = []
        for _ in range(looks):
            began = time.perf_counter()
            status, text, _ = serving.get(sidecar.admin + "/", timeout=300)
            times.append(time.perf_counter() - began)
            assert status == 200, text
            assert "decisions" in text
        figures = serving.get(sidecar.admin + "/figures", timeout=300)[1]
    finally:
        sidecar.stop()
    return {"decisions": figures["decisions"], "first": times[0],
            "usual": statistics.median(times[1:])}  # fmt: skip
