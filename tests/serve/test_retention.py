"""Old decisions are deleted by a clock that may be wrong."""

import asyncio
import json
import sqlite3
import time

import pytest

import serving
from fairmend.serve.config import read_config
from fairmend.serve.log import DecisionLog, Entry, verify
from fairmend.serve.retention import DAY, Retention
from fairmend.serve.sidecar import Sidecar


def row(at):
    return ("decisions", (f"{at}/0", None, at, *[None] * 13))


@pytest.fixture
def clock(monkeypatch):
    """Both clocks, to be moved; the process's own only ever goes on."""
    real, steady, state = time.time, time.monotonic, {"wall": 0.0, "steady": 0.0}
    monkeypatch.setattr("fairmend.serve.retention.time.time", lambda: real() + state["wall"])
    monkeypatch.setattr(
        "fairmend.serve.retention.time.monotonic", lambda: steady() + state["steady"]
    )
    return state


def days_kept(path):
    with sqlite3.connect(path) as db:
        return [at for (at,) in db.execute("SELECT at FROM decisions ORDER BY seq")]


def test_a_start_a_year_ahead_deletes_nothing(tmp_path, artifact, vendor, monkeypatch, clock):
    monkeypatch.setenv("FAIRMEND_KEY", serving.KEY)
    path, now = tmp_path / "log.sqlite", time.time()
    old = DecisionLog(path, serving.log_key())
    for days in (9, 8, 7.5, 0.5):
        old.put_and_wait(Entry([row(now - DAY * days)]))
    old.close()
    clock["wall"] = 365 * DAY
    config = read_config(
        None, artifact=str(artifact), upstream=vendor.url, log=str(path), keep_days=7.0
    )

    async def run():
        sidecar = Sidecar(config)
        await sidecar.start()
        await sidecar.forget()
        assert len(days_kept(path)) == 4
        assert sidecar.retention.is_paused
        clock["steady"] = clock["wall"] = 1.1 * DAY  # it was a slip: a day later it is as it was
        await sidecar.forget()  # the clock moved again
        assert len(days_kept(path)) == 4
        clock["steady"] = clock["wall"] = 2.3 * DAY
        kept = []
        for _ in range(3):
            await sidecar.forget()
            kept.append(len(days_kept(path)))
        await sidecar.stop()
        return kept

    assert asyncio.run(run()) == [3, 1, 1], "a day's worth at most each time"
    with sqlite3.connect(path) as db:
        events = [(kind, json.loads(detail)) for kind, detail in db.execute(
            "SELECT kind, detail FROM events")]  # fmt: skip
    paused = [detail for kind, detail in events if kind == "retention paused"]
    assert [detail["reason"] for detail in paused] == ["clock", "clock"]
    assert verify(path, serving.log_key()).holds


def test_a_clock_that_runs_beside_the_process_jumps_nowhere(clock):
    retention = Retention(7.0)
    assert retention.begin(time.time() - 60) is None
    for hours in range(48):
        clock["wall"] = clock["steady"] = 3_600.0 * hours
        assert retention.look() is None
    oldest = time.time() - 30 * DAY
    assert retention.before(oldest) == oldest + DAY
    clock["wall"] += 2 * 3_600
    assert retention.look()["reason"] == "clock"
    assert retention.before(oldest) == 0.0
