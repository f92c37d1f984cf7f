"""An artifact of another model, a vendor that changes, and a vendor that is away."""

import asyncio
import json
import shutil
import sqlite3
import time

import pytest

import fairmend
import serving
from fairmend import DataError
from fairmend.serve.config import read_config
from fairmend.serve.sidecar import Sidecar
from vending import chance_of, json_answer, predictions, vending

PERSON = {"age": 40, "dose": 0.5, "urban": 1, "group": "b", "id": 7}


def inverted(request):
    rows = json.loads(request.body)["instances"]
    return json_answer({"predictions": [1 - chance_of(row) for row in rows]})


def wait_until(happens, seconds=20):
    deadline = time.monotonic() + seconds
    while not happens():
        assert time.monotonic() < deadline
        time.sleep(0.05)


async def started(artifact, upstream, folder, **settings):
    """Start and stop a sidecar in this process."""
    log = str(folder / "log.sqlite")
    config = read_config(None, artifact=str(artifact), upstream=upstream, log=log, **settings)
    sidecar = Sidecar(config)
    await sidecar.start()
    await sidecar.stop()


def test_an_artifact_of_another_model_does_not_start(tmp_path, artifact, monkeypatch):
    monkeypatch.setenv("FAIRMEND_KEY", serving.KEY)
    for answer in (
        lambda _: json_answer({"error": "no such columns"}, 400),
        lambda _: json_answer({"predictions": ["yes", "no"] * 32}),
        lambda _: json_answer({"predictions": [0.5]}),
    ):
        with vending(answer) as vendor:
            with pytest.raises(DataError, match="must be of the model that the vendor serves"):
                asyncio.run(started(artifact, vendor.url, tmp_path, mode="shadow"))
            asyncio.run(started(artifact, vendor.url, tmp_path, mode="off"))


def test_a_reload_of_another_models_artifact_keeps_the_old_one(start, artifact, tmp_path):
    import vendors

    place = tmp_path / "served.zip"
    shutil.copy(artifact, place)
    with vending() as vendor:
        sidecar = start(artifact=place, upstream=vendor.url, mode="repair")
        X, y, group = vendors.people(1_000)
        other = fairmend.RepairedClassifier(
            lambda X: (1 - X.dose / 4).clip(0, 1), "fnr", key=bytes.fromhex(serving.KEY)
        )
        other.fit(X, y, sensitive_features=group).save(place, overwrite=True)
        status, content, _ = serving.post(sidecar.admin + "/reload", b"", {"Fairmend-Admin": "1"})
        assert (status, content["error"]["code"]) == (422, "bad_artifact")
        assert "otherwise than in the audit" in content["error"]["message"]
        body = {"instances": [PERSON]}
        assert serving.post(sidecar.url + "/predict", body)[0] == 200
        assert serving.get(sidecar.admin + "/figures")[1]["artifact"] == sidecar.artifact


def test_what_follows_a_changed_vendor_is_the_operators_policy(start):
    with vending() as vendor:
        for policy, (status, code, mode) in {
            "shadow": (200, None, "shadow"),
            "alert": (200, None, "repair"),
            "refuse": (503, "vendor_changed", "repair"),
        }.items():
            vendor.answer = predictions
            settings = {} if policy == "shadow" else {"vendor_changed": policy}
            sidecar = start(
                mode="repair", upstream=vendor.url, probe_seconds=0.2, log=f"{policy}.sqlite",
                **settings,
            )  # fmt: skip
            url = sidecar.url + "/predict"
            before = serving.post(url, {"instances": [PERSON]})[1]["predictions"][0]
            assert before > 0.5 > chance_of(PERSON), "she is edited, or this shows nothing"

            def figures(sidecar=sidecar):
                return serving.get(sidecar.admin + "/figures")[1]

            vendor.answer = inverted
            wait_until(lambda: figures()["probes_changed"] > 32)
            got, content, _ = serving.post(url, {"instances": [PERSON]})
            assert got == status
            if code:
                assert content["error"]["code"] == code
                assert serving.get(sidecar.admin + "/ready")[0] == 503
            else:
                with sqlite3.connect(sidecar.log) as db:
                    [last] = db.execute("SELECT mode FROM decisions ORDER BY seq DESC LIMIT 1")
                assert last == (mode,)
            assert figures()["mode"] == mode
            [alert] = [each for each in figures()["alerts"] if each["kind"] == "model"]
            assert {"shadow": "Nobody is repaired", "refuse": "refused", "alert": "all the same"}[
                policy
            ] in alert["text"]
            vendor.answer = predictions  # the old version is back
            wait_until(lambda: figures()["probes_changed"] == 0)
            assert serving.post(url, {"instances": [PERSON]})[1]["predictions"][0] == before


def test_probes_that_fail_are_alerted(start):
    with vending() as vendor:
        sidecar = start(upstream=vendor.url, probe_seconds=0.2)
        vendor.answer = lambda _: json_answer({}, 500)

        def kinds():
            figures = serving.get(sidecar.admin + "/figures")[1]
            return [alert["kind"] for alert in figures["alerts"]]

        wait_until(lambda: kinds() == ["probe"])
        assert "fairmend_probe_failed 1.0" in serving.get(sidecar.admin + "/metrics")[1]
        vendor.answer = predictions
        wait_until(lambda: kinds() == [])
