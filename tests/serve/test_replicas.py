"""Replicas that share a log in PostgreSQL: killed under load, and any of them may be asked."""

import signal
import time

import pytest

import killing
import serving
from fairmend.serve.log import verify

pytestmark = pytest.mark.slow
BODY = {"instances": [{"age": 40, "dose": 0.5, "urban": 1, "group": "b", "id": 7}]}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory, artifact, vendor, postgresql):
    folder = tmp_path_factory.mktemp("fleet")
    fleet = killing.Fleet(folder, artifact, vendor, postgresql.database())
    fleet.log = fleet.replicas[0].log
    yield fleet
    fleet.stop()


def test_kills_lose_nothing_and_decide_nobody_twice(fleet, postgresql):
    """`experiments/kills.py` does the same a hundred times."""
    clients = killing.Clients(fleet.urls)
    try:
        done = killing.kill_again_and_again(fleet, clients, postgresql, 5)
    finally:
        clients.stop()
    found = killing.judged(clients, fleet.log, serving.log_key())
    assert found["lost"] == found["decided twice"] == found["answered otherwise"] == 0, found
    assert found["chain"] == "holds"
    assert found["acknowledged"] >= 100
    assert found["asked again"] > 5
    assert sum(done.values()) == 5


def test_a_retry_and_an_outcome_may_reach_any_replica(fleet):
    first, second = fleet.replicas
    before = serving.get(first.admin + "/figures")[1]
    key = {"Idempotency-Key": "one"}
    status, content, headers = serving.post(first.url + "/predict", BODY, key)
    assert status == 200
    status, again, headers_again = serving.post(second.url + "/predict", BODY, key)
    assert (status, again) == (200, content)
    assert headers_again["Fairmend-Decision"] == headers["Fairmend-Decision"]
    other = {"instances": [{**BODY["instances"][0], "age": 41}]}
    status, content, _ = serving.post(second.url + "/predict", other, key)
    assert (status, content["error"]["code"]) == (422, "key_reused")
    outcome = {"decision": headers["Fairmend-Decision"] + "/0", "y": 1}
    assert serving.post(second.url + "/outcomes", {"outcomes": [outcome]})[0] == 201
    for replica in fleet.replicas:
        figures = serving.get(replica.admin + "/figures")[1]
        for what in ("decisions", "labelled"):
            assert figures[what] == before[what] + 1


def test_a_database_that_is_away_is_like_a_full_disk(fleet, postgresql):
    replica = fleet.replicas[0]
    before = verify(fleet.log, serving.log_key()).rows["decisions"]
    key = {"Idempotency-Key": "before"}
    assert serving.post(replica.url + "/predict", BODY, key)[0] == 200
    postgresql.kill()
    for headers in ({}, key, {"Idempotency-Key": "new"}):
        status, content, answered = serving.post(replica.url + "/predict", BODY, headers)
        assert (status, content["error"]["code"]) == (503, "log_unavailable")
        assert answered["Retry-After"] == "5"
    assert serving.get(replica.admin + "/ready")[0] == 503
    outcome = {"outcomes": [{"decision": "1/0", "y": 1}]}
    assert serving.post(replica.url + "/outcomes", outcome)[0] == 503
    postgresql.start()
    deadline = time.monotonic() + 10
    while serving.get(replica.admin + "/ready")[0] != 200:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert serving.post(replica.url + "/predict", BODY)[0] == 200
    assert verify(fleet.log, serving.log_key()).rows["decisions"] == before + 2


def test_a_database_that_hangs_is_not_waited_for_for_ever(fleet, postgresql):
    replica = fleet.replicas[0]
    assert serving.post(replica.url + "/predict", BODY)[0] == 200
    postgresql.signal(signal.SIGSTOP)
    try:
        began = time.monotonic()
        status, content, _ = serving.post(replica.url + "/predict", BODY, timeout=60)
        assert (status, content["error"]["code"]) == (503, "log_unavailable")
        assert time.monotonic() - began < 15
    finally:
        postgresql.signal(signal.SIGCONT)
    deadline = time.monotonic() + 20
    while serving.post(replica.url + "/predict", BODY)[0] != 200:
        assert time.monotonic() < deadline
    assert verify(fleet.log, serving.log_key()).holds


def test_in_shadow_nobody_notices_that_the_database_is_away(tmp_path, artifact, vendor, postgresql):
    sidecar = serving.Sidecar(tmp_path, artifact, vendor.url, log=postgresql.database())
    postgresql.kill()
    try:
        for headers in ({}, {"Idempotency-Key": "one"}):
            status, content, answered = serving.post(sidecar.url + "/predict", BODY, headers)
            assert (status, content) == (200, {"predictions": [serving.chance([40, 0.5, 1])]})
            assert "Fairmend-Decision" not in answered
    finally:
        postgresql.start()
    assert sidecar.stop() == 0
