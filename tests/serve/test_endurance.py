"""The sidecar under load while things go wrong: killed, stopped, reloaded, out of disk."""

import asyncio
import json
import os
import random
import shutil
import signal
import sqlite3
import threading
import time

import pytest

import serving
import vendors
from fairmend.serve.log import verify

pytestmark = pytest.mark.slow


def some_bodies():
    X, _, group = vendors.people(300, seed=8)
    records = X.assign(group=group.to_numpy(), id=range(len(X))).to_dict("records")
    return [json.dumps({"instances": [record]}).encode() for record in records]


BODIES = some_bodies()


class Load:
    """Clients in a thread, and what they were answered."""

    def __init__(self, sidecar, seconds, clients=16):
        self.answers = []

        def answered(_, status, headers, content, ms):
            self.answers.append((status, headers.get("Fairmend-Decision"), content, ms))

        self.over = threading.Event()
        asked = serving.load(
            sidecar.url + "/predict", BODIES, seconds, clients, answered, over=self.over
        )
        self.thread = threading.Thread(target=lambda: asyncio.run(asked))
        self.thread.start()

    def done(self, *, now=False):
        """The answers, once all have asked for as long as they should, or for as long as now."""
        if now:
            self.over.set()
        self.thread.join()
        return self.answers

    @property
    def acknowledged(self):
        return [decision for status, decision, _, _ in self.answers if status == 200]


def logged(path, column="decision"):
    with sqlite3.connect(path) as db:
        return [value for (value,) in db.execute(f"SELECT {column} FROM decisions ORDER BY seq")]


def test_ten_kills_lose_no_acknowledged_decision(tmp_path, artifact, vendor):
    rng = random.Random(0)
    acknowledged = []
    for _ in range(10):
        sidecar = serving.Sidecar(tmp_path, artifact, vendor.url, mode="repair")
        # a first answer takes longest, and on a busy machine longer than the load lasts
        status, _, headers = serving.post(sidecar.url + "/predict", BODIES[0])
        assert status == 200
        acknowledged.append(headers["Fairmend-Decision"])
        load = Load(sidecar, 1.2)
        while not load.acknowledged and load.thread.is_alive():
            time.sleep(0.01)
        time.sleep(rng.uniform(0.1, 0.6))
        sidecar.process.kill()
        sidecar.stop()
        load.done(now=True)
        assert load.acknowledged
        acknowledged += load.acknowledged
    kept = {decision.partition("/")[0] for decision in logged(sidecar.log)}
    lost = [decision for decision in acknowledged if decision not in kept]
    assert lost == []
    assert len(acknowledged) > 500
    verdict = verify(sidecar.log, serving.log_key())
    assert verdict.holds, verdict.broken
    assert verdict.rows["decisions"] >= len(acknowledged)
    # and a change, a loss or a cut afterwards would show
    copy = tmp_path / "copy.sqlite"
    for change, words in (
        ("UPDATE decisions SET repaired = 1 - repaired WHERE seq = 7", "row 7 was changed"),
        ("DELETE FROM decisions WHERE seq = 9", "row 9 is missing"),
        ("DELETE FROM decisions WHERE seq > 11", "cut"),
    ):
        with sqlite3.connect(sidecar.log) as source, sqlite3.connect(copy) as target:
            source.backup(target)
            target.execute(change)
            target.commit()
        assert words in verify(copy, serving.log_key(), head=verdict.heads["decisions"]).broken


def test_told_to_stop_it_answers_what_it_has_begun(tmp_path, artifact, vendor):
    sidecar = serving.Sidecar(tmp_path, artifact, vendor.url, mode="repair", drain_seconds=0.5)
    load = Load(sidecar, 1.2)
    time.sleep(0.4)
    sidecar.process.send_signal(signal.SIGTERM)
    time.sleep(0.1)
    status, content, _ = serving.get(sidecar.admin + "/ready")
    assert (status, content) == (503, {"ready": False})
    load.done()
    assert sidecar.stop() == 0
    statuses = {status for status, _, _, _ in load.answers}
    # once the port is closed nobody new gets in, and nobody who was let in is reset
    assert statuses <= {200, "ClientConnectorError"}, statuses
    # and whoever was let in was answered: nothing was decided that no client heard of
    kept = {decision.partition("/")[0] for decision in logged(sidecar.log)}
    assert set(load.acknowledged) == kept
    assert verify(sidecar.log, serving.log_key()).holds


def test_told_to_stop_again_and_again_it_ends_as_it_should(tmp_path, artifact, vendor):
    sidecar = serving.Sidecar(tmp_path, artifact, vendor.url, mode="repair", drain_seconds=0.1)
    while sidecar.process.poll() is None:  # to its very end, when its loop is gone already
        sidecar.process.send_signal(signal.SIGTERM)
        time.sleep(0.001)
    assert sidecar.stop() == 0
    assert verify(sidecar.log, serving.log_key()).holds


def test_twenty_reloads_drop_nobody(tmp_path, artifact, fitted, vendor):
    from sklearn.base import clone

    other = clone(fitted)
    X, y, group = vendors.people(seed=3)
    other.fit(X, y, sensitive_features=group).save(tmp_path / "other.zip")
    place = tmp_path / "served.zip"
    shutil.copy(artifact, place)
    sidecar = serving.Sidecar(tmp_path, place, vendor.url, mode="repair")
    load = Load(sidecar, 60, clients=8)
    served = {sidecar.artifact}
    for i in range(20):
        fresh = tmp_path / "fresh.zip"
        shutil.copy([tmp_path / "other.zip", artifact][i % 2], fresh)
        fresh.replace(place)
        if i % 5 == 4:
            os.kill(sidecar.process.pid, signal.SIGHUP)
        else:
            status, content, _ = serving.post(
                sidecar.admin + "/reload", b"", {"Fairmend-Admin": "1"}
            )
            assert status == 200, content
            served.add(content["artifact"])
    place.write_bytes(b"no artifact")
    status, content, _ = serving.post(sidecar.admin + "/reload", b"", {"Fairmend-Admin": "1"})
    assert (status, content["error"]["code"]) == (422, "bad_artifact")
    answers = load.done(now=True)
    assert {status for status, _, _, _ in answers} == {200}
    assert len(served) == 2
    assert set(logged(sidecar.log, "artifact")) <= served
    assert serving.post(sidecar.admin + "/reload", b"")[0] == 400, "a foreign page cannot reload"
    assert sidecar.stop() == 0


def test_out_of_disk_it_fails_closed(tmp_path, artifact, vendor):
    """A limit on the size of files stands in for a full disk; the log is what grows."""
    limit = 3 << 18

    wrapper = ["prlimit", f"--fsize={limit}"]
    if shutil.which(wrapper[0]) is None:
        pytest.skip("there is no prlimit to limit the size of files with")
    sidecar = serving.Sidecar(
        tmp_path, artifact, vendor.url, wrapper=wrapper, keep_features=True, probe_seconds=3600,
        mode="repair",
    )  # fmt: skip
    codes = []
    big = {"instances": [json.loads(body)["instances"][0] for body in BODIES]}
    for _ in range(60):
        status, content, headers = serving.post(sidecar.url + "/predict", big)
        codes.append(status)
        if status != 200:
            break
    assert codes[-1] == 503, codes
    assert content["error"]["code"] == "log_unavailable"
    assert headers["Retry-After"] == "5"
    assert serving.get(sidecar.admin + "/ready")[0] == 503
    assert len(logged(sidecar.log)) == 300 * (len(codes) - 1)
    assert verify(sidecar.log, serving.log_key()).holds
    sidecar.process.kill()
    sidecar.stop()
