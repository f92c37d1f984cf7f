"""The sidecar as a process: what it answers, and what it records before it does."""

import asyncio
import base64
import json
import socket
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import MISSING, fields
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import fairmend
import serving
import vendors
from fairmend import DataError
from fairmend.model.protocols import protocol_named
from fairmend.serve.admin import make_admin
from fairmend.serve.config import Config, read_config
from fairmend.serve.metrics import Metrics
from fairmend.serve.sidecar import Sidecar

pytestmark = pytest.mark.slow


def rows(path, table="decisions"):
    with sqlite3.connect(path) as db:
        db.row_factory = sqlite3.Row
        return [dict(row) for row in db.execute(f"SELECT * FROM {table} ORDER BY seq")]


def test_decisions_are_those_of_the_library_in_every_form(start, fitted):
    sidecar = start(mode="repair", explain=True)
    X, _, group = vendors.people(400, seed=5)
    ids = np.arange(400)
    expected = fitted.predict(X, sensitive_features=group, ids=ids)
    edited = fitted.transform(X, sensitive_features=group, ids=ids)
    scores = serving.decide(edited)
    for path, body in serving.bodies(X, group, ids):
        kind = "text/csv" if isinstance(body, bytes) else "application/json"
        url = sidecar.url + path.replace("{model}", "fairmend")
        status, content, headers = serving.post(url, body, content_type=kind)
        assert status == 200, content
        assert serving.answers(content) == scores, path
        more = content.get("fairmend") or content["parameters"]["fairmend"]
        assert more["repaired"] == expected.tolist(), path
        assert more["decision"] == headers["Fairmend-Decision"]
    logged = rows(sidecar.log)[:400]
    assert [row["repaired"] for row in logged] == expected.tolist()
    assert [row["decision"] for row in logged[:2]] == [
        f"{logged[0]['decision'][:-2]}/0", f"{logged[0]['decision'][:-2]}/1",
    ]  # fmt: skip
    changed = (edited != X).to_numpy()
    assert changed.any(), "somebody is edited, or this shows nothing"
    assert [row["edited"] for row in logged] == [
        ",".join(np.array(X.columns)[line]) for line in changed
    ]


ONE = {"columns": ["age", "dose", "urban", "group", "id"], "data": [[40, 1.0, 1, "b", 7]]}


def edited_person(fitted):
    """Somebody whose edit is certain, with their edited row."""
    X, _, group = vendors.people(400, seed=5)
    edited = fitted.transform(X, sensitive_features=group, ids=np.arange(400))
    at = int(np.flatnonzero((edited != X).to_numpy().any(axis=1))[0])
    return {**X.iloc[at].to_dict(), "group": "b", "id": at}, serving.decide(edited)[at]


def test_shadow_answers_as_the_vendor_and_records_what_a_repair_would_do(shadow, fitted):
    person, repaired = edited_person(fitted)
    own = serving.chance([person["age"], person["dose"], person["urban"]])
    person["age"], person["urban"] = int(person["age"]), int(person["urban"])
    status, content, _ = serving.post(shadow.url + "/predict", {"instances": [person]})
    assert (status, content) == (200, {"predictions": [own]})
    row = rows(shadow.log)[-1]
    assert (row["mode"], row["original"], row["repaired"]) == ("shadow", 0, 1)
    assert (row["original_score"], row["repaired_score"]) == (own, repaired)
    assert row["features"] is None
    assert str(person["id"]) not in row["person"].split()


def test_off_passes_on_and_records(start, vendor):
    sidecar = start(mode="off")
    before = vendor.calls
    status, content, _ = serving.post(sidecar.url + "/invocations", {"dataframe_split": ONE})
    assert (status, content) == (200, {"predictions": [serving.chance([40, 1.0, 1])]})
    assert vendor.calls == before + 1
    assert rows(sidecar.log)[0]["repaired"] is None


def test_groups_and_ids_in_headers_and_people_who_do_not_say(repair, fitted):
    person, repaired = edited_person(fitted)
    bare = [int(person["age"]), person["dose"], int(person["urban"])]
    url = repair.url + "/predict"
    named = {"Fairmend-Group": "b", "Fairmend-Id": str(person["id"])}
    assert serving.post(url, {"instances": [bare]}, named)[1] == {"predictions": [repaired]}
    assert serving.post(url, {"instances": [bare]})[1] == {"predictions": [serving.chance(bare)]}
    status, content, _ = serving.post(url, {"instances": [bare]}, {"Fairmend-Group": "secret"})
    assert (status, content["error"]["code"]) == (422, "unknown_group")
    assert "secret" not in str(content)


def test_numbers_keep_their_types_on_the_way(repair):
    """Of somebody who may be edited; anybody else's row is the vendor's matter alone."""
    url, group = repair.url + "/predict", {"Fairmend-Group": "b"}
    assert serving.post(url, {"instances": [[40.0, 1, 1]]}, group)[0] == 200
    for wrong in ([40.5, 1, 1], ["40", 1, 1], [True, 1, 1], [None, 1, 1], [40, 1], [40, 1, 1, 1]):
        status, content, _ = serving.post(url, {"instances": [wrong]}, group)
        assert status == 422, (wrong, content)


def test_the_same_person_gets_the_same_answer_from_every_process(start, repair):
    X, _, group = vendors.people(400, seed=6)
    body = {"instances": X.assign(group=group.to_numpy(), id=range(400)).to_dict("records")}
    before = serving.post(repair.url + "/predict", body)[1]
    second = start(mode="repair")
    assert serving.post(second.url + "/predict", body)[1] == before


FAULTS = {  # in repair: the status, and a code of ours or what the vendor said
    "reset": (502, "upstream_reset"),
    "half": (502, "upstream_incomplete"),
    "bad json": (502, "upstream_bad_answer"),
    "short": (502, "upstream_row_count"),
    "500": (502, "upstream_error"),
    "503": (503, "upstream_busy"),
    "429": (429, "upstream_busy"),
    "400": (400, "upstream_rejected"),
    "redirect": (502, "upstream_redirect"),
    "stall": (504, "upstream_timeout"),
}
PASSED_ON = {"bad json": 200, "short": 200, "500": 500, "503": 503, "429": 429, "400": 400,
             "redirect": 307}  # fmt: skip
PERSON = {"age": 40, "dose": 0.123456, "urban": 1, "group": "b", "id": 1}


def test_every_fault_of_the_vendor_has_its_code(repair, vendor):
    url = repair.url + "/predict"
    for how, (expected, code) in FAULTS.items():
        vendor.behave(how)
        began = time.perf_counter()
        status, content, headers = serving.post(url, {"instances": [PERSON]})
        assert time.perf_counter() - began < 1.2, how
        assert status == expected, how
        if how in ("400", "429"):  # what the client sent is refused: these are the vendor's words
            assert content == {"refused": 0.123456}
        else:
            assert content["error"]["code"] == code
        assert headers.get("Retry-After") == ("7" if how in ("503", "429") else None)
    vendor.behave("well")
    assert serving.post(url, {"instances": [PERSON]})[0] == 200
    logged = [row["status"] for row in rows(repair.log)][-len(FAULTS) - 1 :]
    assert logged == [code for _, code in FAULTS.values()] + ["ok"]
    assert "0.123456" not in (repair.folder / "serve.log").read_text()


def test_in_shadow_the_vendors_failures_are_its_own(shadow, vendor):
    """Bytes and status as it gives them; an error of ours only where it gives nothing."""
    bare = {name: PERSON[name] for name in ("age", "dose", "urban")}
    for how, (expected, code) in FAULTS.items():
        vendor.behave(how)
        straight = serving.post(vendor.url, {"instances": [bare]}) if how in PASSED_ON else None
        status, content, headers = serving.post(shadow.url + "/predict", {"instances": [PERSON]})
        if straight is None:
            assert (status, content["error"]["code"]) == (expected, code)
        else:
            assert (status, content) == (PASSED_ON[how], straight[1]), how
            for name in ("Content-Type", "Retry-After", "Location"):
                assert headers.get(name) == straight[2].get(name)
    logged = [row["status"] for row in rows(shadow.log)][-len(FAULTS) :]
    unread = {"bad json": "shadow_failed", "short": "shadow_failed"}
    assert logged == [unread.get(how, code) for how, (_, code) in FAULTS.items()]


def test_a_vendor_that_is_gone_and_comes_back(start, artifact, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    sidecar = start(
        upstream=f"http://127.0.0.1:{port}/score", breaker_failures=3, breaker_seconds=0.5,
        retries=1, probe_seconds=3600, mode="repair",
    )  # fmt: skip
    # the probe that failed was the first of three
    url = sidecar.url + "/invocations"
    codes = [serving.post(url, {"dataframe_split": ONE}) for _ in range(3)]
    assert [content["error_code"] for _, content, _ in codes] == [
        "UPSTREAM_REFUSED", "UPSTREAM_REFUSED", "UPSTREAM_OPEN",
    ]  # fmt: skip
    status, _, headers = codes[-1]
    assert (status, headers["Retry-After"]) == (503, "1")
    late = serving.Vendor(port=port)
    try:
        time.sleep(0.6)
        assert serving.post(url, {"dataframe_split": ONE})[0] == 200
        assert serving.post(url, {"dataframe_split": ONE})[0] == 200
    finally:
        late.close()
    assert [row["status"] for row in rows(sidecar.log)] == [
        "upstream_refused", "upstream_refused", "upstream_open", "ok", "ok",
    ]  # fmt: skip


def test_a_key_sent_a_hundred_times_at_once_asks_once(start, vendor):
    sidecar = start(mode="repair", concurrency=200)
    url = sidecar.url + "/invocations"
    before = vendor.calls

    def ask(number):
        return serving.post(url, {"dataframe_split": ONE}, {"Idempotency-Key": "once"})

    with ThreadPoolExecutor(100) as pool:
        got = list(pool.map(ask, range(100)))
    assert {status for status, _, _ in got} == {200}
    assert len({json.dumps(content) for _, content, _ in got}) == 1
    assert len({headers["Fairmend-Decision"] for _, _, headers in got}) == 1
    assert len(rows(sidecar.log)) == 1
    calls = vendor.calls - before
    assert calls == 1 + bool(rows(sidecar.log)[0]["edited"])
    other = {"dataframe_split": ONE | {"data": [[41, 1.0, 1, "b", 7]]}}
    status, content, _ = serving.post(url, other, {"Idempotency-Key": "once"})
    assert (status, content["error_code"]) == (422, "KEY_REUSED")
    status, _, _ = serving.post(
        url, {"dataframe_split": ONE}, {"Idempotency-Key": "once", "Fairmend-Group": "a"}
    )
    assert status == 422, "who it is about is part of the request"
    assert sidecar.stop() == 0
    again = start(mode="repair")
    status, content, _ = serving.post(
        again.url + "/invocations", {"dataframe_split": ONE}, {"Idempotency-Key": "once"}
    )
    assert json.dumps(content) == json.dumps(got[0][1])
    assert len(rows(again.log)) == 1


def test_a_failed_request_can_be_sent_again_with_its_key(shadow, vendor):
    url = shadow.url + "/invocations"
    vendor.behave("500")
    assert serving.post(url, {"dataframe_split": ONE}, {"Idempotency-Key": "k"})[0] == 502
    vendor.behave("well")
    assert serving.post(url, {"dataframe_split": ONE}, {"Idempotency-Key": "k"})[0] == 200


def test_tokens(start):
    env = {"FAIRMEND_TOKEN": "let me in", "FAIRMEND_ADMIN_TOKEN": "me too"}
    sidecar = start(env=env)
    url = sidecar.url + "/invocations"
    body = {"dataframe_split": ONE}
    for wrong in ({}, {"Authorization": "Bearer let me"}, {"Authorization": "let me in"}):
        assert serving.post(url, body, wrong)[0] == 401
    assert serving.post(sidecar.url + "/outcomes", {})[0] == 401
    assert serving.post(url, body, {"Authorization": "Bearer let me in"})[0] == 200
    assert serving.get(sidecar.admin + "/metrics")[0] == 401
    status, text, _ = serving.get(sidecar.admin + "/metrics", {"Authorization": "Bearer me too"})
    assert status == 200
    assert 'fairmend_unauthorized_total{port="clients"} 4' in text
    assert 'fairmend_unauthorized_total{port="admin"} 1' in text
    password = base64.b64encode(b"any:me too").decode()
    assert serving.get(sidecar.admin + "/ready", {"Authorization": f"Basic {password}"})[0] == 200
    assert sidecar.stop() == 0
    refused = [line for line in sidecar.lines() if line.get("code") == "unauthorized"]
    assert [line["port"] for line in refused] == ["clients"] * 4 + ["admin"]
    assert {line["level"] for line in refused} == {"warning"}
    assert "let me" not in (sidecar.folder / "serve.log").read_text()


def test_two_tokens_are_valid_while_they_change_and_health_needs_none(start):
    env = {
        "FAIRMEND_TOKEN": "the old one", "FAIRMEND_TOKEN_2": "the new one",
        "FAIRMEND_ADMIN_TOKEN": "theirs",
    }  # fmt: skip
    sidecar = start(env=env)
    for token, status in (("the old one", 200), ("the new one", 200), ("another one", 401)):
        headers = {"Authorization": f"Bearer {token}"}
        assert serving.get(sidecar.url + "/ping", headers)[0] == status
    for path, key in (("/livez", "live"), ("/readyz", "ready")):
        assert serving.get(sidecar.admin + path)[:2] == (200, {key: True})
        assert serving.get(sidecar.admin + path, {"Host": "10.0.0.7:8081"})[0] == 200
    assert serving.get(sidecar.admin + "/ready")[0] == 401


@pytest.mark.parametrize("token", ["x", "pässwort", "line\nbreak", "      "])
def test_a_token_that_cannot_be_sent_or_is_a_slip_is_refused(monkeypatch, artifact, token):
    for name in ("FAIRMEND_TOKEN", "FAIRMEND_ADMIN_TOKEN", "FAIRMEND_TOKEN_2"):
        monkeypatch.setenv(name, token)
        with pytest.raises(DataError, match="6 printable characters"):
            read_config(None, artifact=str(artifact), upstream="http://h/score")
        monkeypatch.delenv(name)


def test_operators_ask_by_the_local_address(start):
    sidecar = start()
    port = sidecar.admin.rpartition(":")[2]
    for host in ("localhost", "127.0.0.1", "[::1]", f"[::1]:{port}", f"localhost:{port}"):
        assert serving.get(sidecar.admin + "/ready", {"Host": host})[0] == 200, host
    for host in ("evil.example", f"evil.example:{port}", "[::1", "::1", "localhost:x", "a@[::1]"):
        assert serving.get(sidecar.admin + "/ready", {"Host": host})[0] in (400, 421), host


def test_a_vendor_that_decides_otherwise_is_warned_of(start, vendor):
    assert start().wait_for("probed").items() >= {"level": "info", "changed": 0}.items()
    vendor.behave("inverted")
    found = start(log="second.sqlite").wait_for("probed")
    assert found["level"] == "warning"
    assert found["changed"] > 0


def test_health_metadata_and_metrics(start):
    sidecar = start(concurrency=3)
    for path in ("/ping", "/health", "/v2/health/live", "/v2/health/ready", "/v2"):
        assert serving.get(sidecar.url + path)[0] == 200, path
    assert serving.get(sidecar.url + "/version")[1]
    status, about, _ = serving.get(sidecar.url + "/v2/models/fairmend")
    assert [tensor["datatype"] for tensor in about["inputs"]] == ["INT64", "FP64", "INT64"]
    assert serving.get(sidecar.url + "/v2/models/other")[0] == 404
    serving.post(sidecar.url + "/invocations", {"dataframe_split": ONE})
    status, text, _ = serving.get(sidecar.admin + "/metrics")
    assert status == 200
    assert 'fairmend_requests_total{code="ok",protocol="mlflow"} 1' in text
    assert 'fairmend_request_seconds_bucket{le="+Inf"} 1' in text
    assert serving.get(sidecar.admin + "/live")[0] == 200


def test_too_many_at_once_are_told_to_wait(start, vendor):
    sidecar = start(concurrency=2, timeout=1.0)
    vendor.behave("stall")
    with ThreadPoolExecutor(8) as pool:
        ask = partial(serving.post, sidecar.url + "/invocations", {"dataframe_split": ONE})
        got = [each.result() for each in [pool.submit(ask) for _ in range(8)]]
    busy = [headers for status, _, headers in got if status == 429]
    assert len(busy) == 6
    assert all(headers["Retry-After"] == "1" for headers in busy)


def test_outcomes_arrive_later(shadow):
    _, _, headers = serving.post(shadow.url + "/invocations", {"dataframe_split": ONE})
    known = f"{headers['Fairmend-Decision']}/0"
    url = shadow.url + "/outcomes"
    told = {"outcomes": [{"decision": known, "y": 1}]}
    assert serving.post(url, told)[:2] == (201, {"recorded": 1})
    for wrong, code in [
        ({"outcomes": [{"decision": "secret/0", "y": 1}]}, "unknown_decision"),
        ({"outcomes": [{"decision": known, "y": 2}]}, "bad_outcome"),
        ({"outcomes": [{"decision": known, "y": True}]}, "bad_outcome"),
        ({"outcomes": []}, "bad_request"),
    ]:
        status, content, _ = serving.post(url, wrong)
        assert (status, content["error"]["code"]) == (422, code)
        assert "secret" not in str(content)
    told = [(row["decision"], row["y"]) for row in rows(shadow.log, "outcomes")]
    assert told == [(known, 1)]


def test_repair_needs_a_basis(tmp_path, artifact):
    said = {"artifact": str(artifact), "upstream": "http://h/score"}
    with pytest.raises(DataError, match="why decisions may be changed"):
        read_config(None, **said, mode="repair")
    with pytest.raises(DataError, match="loopback"):
        read_config(None, **said, host="0.0.0.0")
    with pytest.raises(DataError, match=r"unknown key .colour."):
        read_config(None, **said, colour="red")
    assert read_config(None, **said, mode="repair", basis="approved").basis == "approved"
    for columns in ({"group": []}, {"group": "id"}, {"group": ["sex", "sex"]}, {"id": "group"}):
        with pytest.raises(DataError, match="config"):
            read_config(None, **said, **columns)
    assert read_config(None, **said, group=["sex", "age"]).groups == ("sex", "age")


def test_what_must_be_given_is_named_with_how_to_give_it(monkeypatch, tmp_path, artifact):
    said = {"artifact": str(artifact), "upstream": "http://h/score"}
    for name, ways in [
        ("artifact", ["fairmend serve FILE", "artifact ="]),
        ("upstream", ["--upstream URL", "upstream ="]),
    ]:
        with pytest.raises(DataError) as told:
            read_config(None, **{**said, name: None})
        assert [way for way in ways if way not in str(told.value)] == []
    monkeypatch.delenv("FAIRMEND_KEY", raising=False)
    with pytest.raises(DataError) as told:
        Sidecar(read_config(None, **said, log=str(tmp_path / "log.sqlite")))
    for way in ("--key-file FILE", "key_file =", "FAIRMEND_KEY"):
        assert way in str(told.value)
    required = {field.name for field in fields(Config) if field.default is MISSING}
    assert required == {"artifact", "upstream"}


def test_a_failed_start_leaves_nothing_behind(tmp_path, artifact, vendor, monkeypatch):
    monkeypatch.setenv("FAIRMEND_KEY", serving.KEY)
    log = tmp_path / "log.sqlite"
    said = {"upstream": vendor.url, "log": str(log)}

    async def start(place):
        sidecar = Sidecar(read_config(None, artifact=str(place), **said))
        await sidecar.start()
        await sidecar.stop()

    with pytest.raises(DataError, match=r"none\.zip"):
        asyncio.run(start(tmp_path / "none.zip"))
    assert list(tmp_path.iterdir()) == []
    asyncio.run(start(artifact))
    assert [row["kind"] for row in rows(log, "events")] == ["start", "stop"]


def test_the_basis_is_on_record(start):
    sidecar = start(mode="repair", basis="Article 6, approved by the board")
    [event] = rows(sidecar.log, "events")
    detail = json.loads(event["detail"])
    assert (event["kind"], detail["basis"]) == ("start", "Article 6, approved by the board")
    assert detail["artifact"] == sidecar.artifact


def test_the_page_on_deployment_lists_every_setting_and_code():
    page = (Path(__file__).resolve().parents[2] / "docs" / "deploy.md").read_text()
    assert [name for name in Config.__dataclass_fields__ if f"`{name}`" not in page] == []
    assert [code for _, code in FAULTS.values() if f"`{code}`" not in page] == []


def test_all_who_look_at_the_page_share_one_look(monkeypatch):
    """Each reads the whole log: many at once would take the threads that plans need."""
    looks = []

    def look(_):
        looks.append(time.sleep(0.2))
        return {"look": len(looks)}

    monkeypatch.setattr("fairmend.serve.admin.look", look)
    config = read_config(None, artifact="repair.zip", upstream="http://h/score")
    admin = make_admin(SimpleNamespace(config=config, metrics=Metrics()))
    scope = {
        "type": "http", "method": "GET", "path": "/figures", "query_string": b"",
        "headers": [(b"host", b"localhost:8081")],
    }  # fmt: skip

    async def ask():
        sent = []

        async def send(message):
            sent.append(message)

        await admin(dict(scope), None, send)
        return sent[-1]["body"]

    async def several():
        return [await asyncio.gather(*(ask() for _ in range(5))) for _ in range(2)]

    assert asyncio.run(several()) == [[b'{"look":1}'] * 5, [b'{"look":2}'] * 5]


def test_a_label_in_a_header_may_hold_what_joins_labels(repair):
    bare = {"age": 40, "dose": 1.0, "urban": 1}
    for label, code in (("a%26b", "unknown_group"), ("a&b", "bad_group")):
        status, content, _ = serving.post(
            repair.url + "/predict", {"instances": [bare]}, {"Fairmend-Group": label}
        )
        assert (status, content["error"]["code"]) == (422, code)


@pytest.mark.slow
def test_outcomes_may_be_true_and_false_where_the_audits_were(start, tmp_path):
    X, y, group = vendors.people(1_000)
    fitted = fairmend.RepairedClassifier(serving.decide, "fnr", key=bytes.fromhex(serving.KEY))
    fitted.fit(X, y.astype(bool), sensitive_features=group).save(tmp_path / "true.zip")
    sidecar = start(artifact=tmp_path / "true.zip")
    _, _, headers = serving.post(sidecar.url + "/invocations", {"dataframe_split": ONE})
    told = [{"decision": headers["Fairmend-Decision"] + "/0", "y": y} for y in (True, False)]
    status, content, _ = serving.post(sidecar.url + "/outcomes", {"outcomes": told})
    assert (status, content) == (201, {"recorded": 2})
    assert [row["y"] for row in rows(sidecar.log, "outcomes")] == [1, 0]


@pytest.mark.parametrize("mode", ["repair", "shadow"])
def test_what_nobody_foresaw_is_recorded_too(tmp_path, artifact, vendor, monkeypatch, mode):
    """In shadow the client gets the vendor's answer all the same."""
    monkeypatch.setenv("FAIRMEND_KEY", serving.KEY)
    log = tmp_path / "log.sqlite"
    config = read_config(
        None, artifact=str(artifact), upstream=vendor.url, log=str(log), mode=mode, basis="a test"
    )
    person = {"age": 40, "dose": 1.0, "urban": 1}
    body = json.dumps({"instances": [person]}).encode()

    async def ask():
        sidecar = Sidecar(config)
        await sidecar.start()
        monkeypatch.setattr(sidecar.serving, "read_each", lambda *_: 1 / 0)
        asked = sidecar.answer(
            protocol_named("instances"),
            body,
            "application/json",
            {"fairmend-group": "b"},
            "/predict",
        )
        try:
            if mode == "repair":
                with pytest.raises(ZeroDivisionError):
                    await asked
            else:
                return (await asked).content
        finally:
            await sidecar.stop()

    content = asyncio.run(ask())
    if mode == "repair":
        assert [row["status"] for row in rows(log)] == ["internal"]
    else:
        assert json.loads(content) == {"predictions": [serving.chance(person.values())]}
        assert [row["status"] for row in rows(log)] == ["shadow_failed"]
        [why] = [row for row in rows(log, "events") if row["kind"] == "shadow_failed"]
        assert json.loads(why["detail"])["reason"] == "internal"


def test_slips_in_the_settings_are_told_first_and_with_what_came(tmp_path):
    slip = tmp_path / "serve.toml"
    slip.write_text('artifact = "r.zip"\nupstrem = "http://h/score"\n')
    with pytest.raises(DataError, match=r"unknown key 'upstrem'. Did you mean 'upstream'\?"):
        read_config(slip)
    with pytest.raises(DataError, match=r"config upstream: .* address; got '127.0.0.1:9000'"):
        read_config(None, artifact="r.zip", upstream="127.0.0.1:9000")
    with pytest.raises(DataError, match=r"config upstream: .* got something else") as raised:
        read_config(None, artifact="r.zip", upstream="ftp://h/?token=hidden")
    assert "hidden" not in str(raised.value)


def test_requests_elsewhere_or_misshapen_are_told_where_to_look(start):
    sidecar = start()
    for path, body, says in (
        ("/nothere", {}, "nothing is served at this path; see /openapi.json"),
        ("/invocations", [], "does not have the shape it must have, at $; see /openapi.json"),
        ("/invocations", {"rows": []}, "a key that does not belong there; see /openapi.json"),
        ("/ping", {}, "this path takes GET"),
    ):
        status, content, _ = serving.post(sidecar.url + path, body)
        assert status in (404, 405, 422)
        assert says in json.dumps(content)
