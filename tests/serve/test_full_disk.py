"""The sidecar with its log on a file system that is really full, and has room again."""

import os
import shutil
import sys
import time

import pytest
from sklearn.base import clone

import serving
import vendors
from disks import small_disk

BODY = {"instances": [{"age": 40, "dose": 0.5, "urban": 1, "group": "b", "id": 7}]}
MOST = 5_000
"""More requests than a small disk has room for."""
READ = """
import sqlite3, sys
db = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True)
print(*[decision for decision, in db.execute("SELECT decision FROM decisions ORDER BY seq")])
"""


@pytest.fixture
def disk(tmp_path):
    with small_disk(tmp_path / "small") as disk:
        yield disk


@pytest.fixture
def serve(tmp_path, artifact, vendor, disk):
    """Start sidecars that write their log onto the small disk."""
    running = []

    def serve(artifact=artifact, **settings):
        settings = {"mode": "repair", **settings}
        running.append(
            serving.Sidecar(
                tmp_path, artifact, vendor.url, wrapper=disk.wrapper, probe_seconds=3600,
                log=disk.place / "log.sqlite", **settings,
            )
        )  # fmt: skip
        return running[-1]

    yield serve
    for sidecar in running:
        sidecar.process.kill()
        sidecar.stop()


def ask(sidecar):
    return serving.post(sidecar.url + "/predict", BODY)


def until_refused(sidecar):
    """The decisions acknowledged until a request is not answered, and how it is refused."""
    acknowledged = []
    for _ in range(MOST):
        status, content, headers = ask(sidecar)
        if status != 200:
            return acknowledged, (status, content["error"]["code"], headers["Retry-After"])
        acknowledged.append(headers["Fairmend-Decision"])
    raise AssertionError("the disk never got full")


REFUSED = (503, "log_unavailable", "5")


def logged(disk, sidecar):
    """The decisions in the log of a chain that holds, read by somebody who has the file."""
    done = disk.run(sys.executable, "-m", "fairmend", "log", "verify", sidecar.log,
                    env={**os.environ, "FAIRMEND_KEY": serving.KEY})  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(b"The chain holds.\n")
    done = disk.run(sys.executable, "-c", READ, sidecar.log)
    assert done.returncode == 0, done.stderr
    return [decision.removesuffix("/0") for decision in done.stdout.decode().split()]


@pytest.mark.slow
def test_on_a_full_disk_it_decides_nothing_until_there_is_room(disk, serve):
    sidecar = serve()
    acknowledged = [ask(sidecar)[2]["Fairmend-Decision"] for _ in range(5)]
    disk.fill()
    more, refused = until_refused(sidecar)  # room taken before may still serve some
    acknowledged += more
    assert refused == REFUSED
    assert until_refused(sidecar) == ([], REFUSED), "not this time, nor the next"
    assert serving.get(sidecar.admin + "/ready")[0] == 503
    assert serving.get(sidecar.admin + "/live")[0] == 200
    assert logged(disk, sidecar) == acknowledged, "every answer has its row, and nothing else has"
    disk.make_room()
    status, _, headers = ask(sidecar)
    assert status == 200
    assert serving.get(sidecar.admin + "/ready")[0] == 200
    assert logged(disk, sidecar) == [*acknowledged, headers["Fairmend-Decision"]]
    assert sidecar.stop() == 0


def test_readiness_comes_back_by_itself(disk, serve):
    """No request is needed; the load balancer sends none to a server that is not ready."""
    sidecar = serve()
    disk.fill()
    until_refused(sidecar)
    assert serving.get(sidecar.admin + "/ready")[0] == 503
    disk.make_room()
    deadline = time.monotonic() + 10
    while serving.get(sidecar.admin + "/ready")[0] != 200:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert ask(sidecar)[0] == 200


@pytest.mark.parametrize("mode", ["shadow", "off"])
def test_in_shadow_and_off_clients_do_not_notice_a_full_disk(disk, serve, mode):
    sidecar = serve(mode=mode)
    disk.fill()
    for _ in range(MOST):
        status, content, headers = ask(sidecar)
        assert (status, content) == (200, {"predictions": [serving.chance([40, 0.5, 1])]})
        if "Fairmend-Decision" not in headers:
            break
    else:
        raise AssertionError("the disk never got full")
    assert serving.get(sidecar.admin + "/ready")[0] == 200, "clients are still answered"
    text = serving.get(sidecar.admin + "/metrics")[1]
    assert "fairmend_unrecorded_total 1" in text


def test_the_log_itself_fills_the_disk(disk, serve):
    """Nobody else takes the room that is left: the log grows until it ends."""
    sidecar = serve(keep_features=True)
    disk.fill(leave=600_000)
    acknowledged, refused = until_refused(sidecar)
    assert refused == REFUSED
    assert len(acknowledged) > 10
    assert logged(disk, sidecar) == acknowledged


@pytest.mark.slow
def test_killed_and_started_on_a_full_disk(disk, serve):
    sidecar = serve()
    acknowledged = [ask(sidecar)[2]["Fairmend-Decision"] for _ in range(5)]
    disk.fill()
    acknowledged += until_refused(sidecar)[0]
    sidecar.process.kill()
    sidecar.process.wait()
    assert logged(disk, sidecar) == acknowledged
    again = disk.run(
        sys.executable, "-m", "fairmend", "serve", "--config", sidecar.folder / "serve.toml",
        env={"FAIRMEND_KEY": serving.KEY, "COLUMNS": "300"},
    )  # fmt: skip
    assert again.returncode == 3, again.stderr
    said = again.stderr.decode()
    assert f"log '{sidecar.log}': must be writable; its next row could not be written" in said
    assert "room on its disk" in said
    disk.make_room()
    sidecar = serve()
    status, _, headers = ask(sidecar)
    assert status == 200
    assert logged(disk, sidecar) == [*acknowledged, headers["Fairmend-Decision"]]


def test_a_reload_that_cannot_be_recorded_is_not_served(disk, serve, artifact, fitted, tmp_path):
    place = tmp_path / "served.zip"
    shutil.copy(artifact, place)
    sidecar = serve(artifact=place)
    X, y, group = vendors.people(seed=3)
    clone(fitted).fit(X, y, sensitive_features=group).save(place, overwrite=True)
    disk.fill()
    until_refused(sidecar)
    status, content, _ = serving.post(sidecar.admin + "/reload", b"", {"Fairmend-Admin": "1"})
    assert (status, content["error"]["code"]) == (503, "log_unavailable")
    assert serving.get(sidecar.admin + "/figures")[1]["artifact"] == sidecar.artifact
    disk.make_room()
    status, content, _ = serving.post(sidecar.admin + "/reload", b"", {"Fairmend-Admin": "1"})
    assert status == 200
    assert content["artifact"] != sidecar.artifact
