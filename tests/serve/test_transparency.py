"""In shadow and off the client gets what the vendor says, whatever it sends and whatever it is."""

import gzip
import importlib.util
import json
import socket
import sqlite3
import struct
import urllib.request
from pathlib import Path

import pytest

import serving
from vending import chance_of, json_answer, predictions, vending

ROOT = Path(__file__).resolve().parents[2]
PERSON = {"age": 40, "dose": 0.5, "urban": 1}
WHO = {"group": "b", "id": 7}


def rows(path, table="decisions"):
    with sqlite3.connect(path) as db:
        db.row_factory = sqlite3.Row
        return [dict(row) for row in db.execute(f"SELECT * FROM {table} ORDER BY seq")]


def reasons(path):
    return [json.loads(row["detail"])["reason"] for row in rows(path, "events")
            if row["kind"] in ("shadow_failed", "not_read")]  # fmt: skip


def raw_post(url, body, headers):
    """Status, body and headers, with nothing decoded."""
    request = urllib.request.Request(url, body, headers, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, response.read(), response.headers
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read(), error.headers


@pytest.fixture
def vendor_here():
    with vending() as vendor:
        yield vendor


def test_the_tables_on_the_page_are_what_happens():
    spec = importlib.util.spec_from_file_location(
        "transparency", ROOT / "scripts" / "transparency.py"
    )
    transparency = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(transparency)
    page = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    assert transparency.made() in page, "run scripts/transparency.py --write"


def test_in_off_bytes_go_through_untouched(start, vendor_here):
    """Any type, any encoding, both ways; the headers of one connection and ours stay here."""
    sidecar = start(mode="off", upstream=vendor_here.url)
    body = bytes(range(256)) * 10
    headers = {
        "Content-Type": "application/x-own", "X-Trace": "t1", "Accept-Encoding": "gzip",
        "Authorization": "Basic eDp5", "Fairmend-Group": "b", "Cookie": "a=b", "TE": "trailers",
    }  # fmt: skip
    answer = gzip.compress(b"own bytes", mtime=0)
    vendor_here.answer = lambda _: (
        203, {"Content-Type": "text/x-own", "Content-Encoding": "gzip", "X-Own": "1"}, answer
    )  # fmt: skip
    status, content, came = raw_post(sidecar.url + "/predict?a=1&b=%20", body, headers)
    assert (status, content) == (203, answer)
    assert (came["X-Own"], came["Content-Encoding"]) == ("1", "gzip")
    assert came["Content-Type"] == "text/x-own"
    assert vendor_here.last.body == body
    assert vendor_here.last.path == "/score?a=1&b=%20"
    sent = {name.lower(): value for name, value in vendor_here.last.headers.items()}
    for name in ("Content-Type", "X-Trace", "Accept-Encoding", "Authorization", "Cookie"):
        assert sent[name.lower()] == headers[name]
    assert not {"fairmend-group", "te"} & set(sent)


def test_group_and_id_are_taken_out_and_nothing_else(start, vendor_here):
    sidecar = start(mode="shadow", upstream=vendor_here.url)
    odd = {"age": "40", "dose": 1, "urban": True, "note": "x", **WHO}
    body = {"instances": [odd], "parameters": {"depth": 2, "id": 9}}
    del body["instances"][0]["id"]
    status, content, _ = serving.post(sidecar.url + "/predict", body)
    assert (status, content) == (200, {"predictions": [chance_of(odd)]})
    del odd["group"]
    assert json.loads(vendor_here.last.body) == {"instances": [odd], "parameters": {"depth": 2}}
    whole = json.dumps({"instances": [PERSON]}).encode().replace(b"0.5", b"5.0e-1")
    assert serving.post(sidecar.url + "/predict", whole, {"Fairmend-Group": "b"})[0] == 200
    bodies = [request.body for request in vendor_here.sent]
    assert whole in bodies, "without columns of who it is, byte for byte"


def test_a_stream_goes_through_as_it_comes(start, vendor_here):
    sidecar = start(mode="shadow", upstream=vendor_here.url)
    sent = []

    def parts(_):
        def flow():
            for i in range(3):
                sent.append(i)
                yield b"data: %d\n\n" % i
                while len(sent) == i + 1 and i not in got:
                    pass

        return 200, {"Content-Type": "text/event-stream"}, flow()

    got = set()
    vendor_here.answer = parts
    body = json.dumps({"instances": [PERSON]}).encode()
    request = urllib.request.Request(
        sidecar.url + "/predict", body, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=30) as response:
        for i in range(3):  # the vendor waits for each part to arrive
            assert response.readline() == b"data: %d\n" % i
            assert response.readline() == b"\n"
            got.add(i)
    assert [row["status"] for row in rows(sidecar.log)] == ["shadow_failed"]


def test_a_body_longer_than_is_read_reaches_the_vendor(start, vendor_here):
    sidecar = start(mode="shadow", upstream=vendor_here.url, most_bytes=1_000)
    body = json.dumps({"instances": [PERSON] * 200}).encode()
    status, content, _ = serving.post(sidecar.url + "/predict", body)
    assert (status, content) == (200, {"predictions": [chance_of([40, 0.5, 1])] * 200})
    assert vendor_here.last.body == body
    assert reasons(sidecar.log) == ["too_long"]


def test_one_odd_answer_is_that_requests_alone(start, tmp_path):
    """Labels: a single 2 at first breaks nothing for anybody after it."""
    import fairmend
    import vendors

    def decided(X):
        return [int(chance > 0.5) for chance in serving.decide(X)]

    X, y, group = vendors.people()
    repaired = fairmend.RepairedClassifier(
        decided, "fnr", immutable=["age"], key=bytes.fromhex(serving.KEY)
    )
    repaired.fit(X, y, sensitive_features=group)
    assert repaired.box_.output == "label", "settled in fit"
    path = tmp_path / "labels.zip"
    repaired.save(path)
    odd = {}

    def answer(request):
        asked = json.loads(request.body)["instances"]
        labels = [int(chance_of(row) > 0.5) for row in asked]
        if odd and len(asked) == 1:
            labels = [odd.pop("next")]
        return json_answer({"predictions": labels})

    with vending(answer) as vendor:
        for mode in ("repair", "shadow"):
            sidecar = start(mode=mode, upstream=vendor.url, artifact=path, log=f"{mode}.sqlite")
            for value in (2, "perhaps", 0.3, None, [1, 2, 3]):
                odd["next"] = value
                woman, man = ({"instances": [{**PERSON, "group": g, "id": 1}]} for g in "ba")
                status, content, _ = serving.post(sidecar.url + "/predict", woman)
                if mode == "shadow":
                    assert (status, content) == (200, {"predictions": [value]})
                else:
                    assert (status, content["error"]["code"]) == (502, "upstream_bad_answer")
                for person in (woman, man):
                    status, content, _ = serving.post(sidecar.url + "/predict", person)
                    assert status == 200, value
                    assert content["predictions"][0] in (0, 1)
                odd["next"] = value  # a man is not repaired: whatever he is answered is passed on
                assert serving.post(sidecar.url + "/predict", man)[1] == {"predictions": [value]}


def test_a_date_that_is_none_fails_nobody_in_shadow(start, tmp_path):
    """A column of dates: 'Jan 2 2016' and '' are no dates as the audit had them."""
    import pandas as pd

    import fairmend
    import vendors

    X, y, group = vendors.people(1_000)
    X["since"] = pd.to_datetime("2016-01-01") + pd.to_timedelta(X.age, unit="D")

    def decided(frame):
        return serving.decide(frame[["age", "dose", "urban"]])

    repaired = fairmend.RepairedClassifier(
        decided, "fnr", immutable=["age", "since"], key=bytes.fromhex(serving.KEY)
    )
    path = tmp_path / "dates.zip"
    repaired.fit(X, y, sensitive_features=group).save(path)
    with vending() as vendor:
        for mode in ("shadow", "repair"):
            sidecar = start(mode=mode, upstream=vendor.url, artifact=path, log=f"{mode}.sqlite")
            for since in ("Jan 2 2016", "", "2016-02-30"):
                person = {**PERSON, "since": since, **WHO}
                status, content, _ = serving.post(sidecar.url + "/predict", {"instances": [person]})
                if mode == "shadow":
                    assert (status, content) == (200, {"predictions": [chance_of(person)]})
                else:
                    assert status in (200, 422), content
                    assert status == 200 or content["error"]["code"] == "bad_type"


def test_in_repair_only_those_who_are_edited_must_be_understood(start, vendor_here):
    sidecar = start(mode="repair", upstream=vendor_here.url)
    url = sidecar.url + "/predict"
    odd = {"age": "40", "dose": 0.5, "urban": 1}
    status, content, _ = serving.post(url, {"instances": [{**odd, "group": "a", "id": 1}]})
    assert (status, content) == (200, {"predictions": [chance_of(odd)]})
    status, content, _ = serving.post(url, {"instances": [{**odd, "group": "b", "id": 1}]})
    assert (status, content["error"]["code"]) == (422, "bad_type")
    # somebody with an extra column is repaired unless there is something to edit
    fine = {"age": 55, "dose": 2.0, "urban": 1, "note": "x", "group": "b", "id": 1}
    assert serving.post(url, {"instances": [fine]})[:2] == (
        200, {"predictions": [chance_of(fine)]}
    )  # fmt: skip


def test_the_vendors_own_fields_stay_where_an_answer_is_replaced(start):
    """Also in the answers of others in the batch, digit by digit."""

    def answer(request):
        status, headers, content = predictions(request)
        return status, headers, content[:-1] + b', "model": {"v": 1.50}}'

    with vending(answer) as vendor:
        sidecar = start(mode="repair", upstream=vendor.url)
        people = [{"age": 40 + i % 3 * 5, "dose": 0.25 * i, "urban": 1, "group": "b", "id": i}
                  for i in range(9)]  # fmt: skip
        url = f"{sidecar.url}/predict"
        _, content, _ = raw_post(
            url, json.dumps({"instances": people, "parameters": {"depth": 1}}).encode(),
            {"Content-Type": "application/json"},
        )  # fmt: skip
        edited = [row["edited"] for row in rows(sidecar.log)]
        assert any(edited), "somebody is edited, or this shows nothing"
        assert content.endswith(b'"model":{"v": 1.50}}')
        for person, answer_, edit in zip(
            people, json.loads(content)["predictions"], edited, strict=True
        ):
            assert (answer_ == chance_of(person)) == (not edit)
        last = json.loads(vendor.last.body)
        assert last["parameters"] == {"depth": 1}, "the edited rows in the client's own form"


def test_h2c_offers_are_answered_on_a_connection_that_goes_on(start):
    """As Java's HttpClient sends its first request."""
    sidecar = start()
    body = json.dumps({"instances": [PERSON]}).encode()
    offer = (
        b"POST /predict HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\n"
        b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n"
        b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    )
    host, port = sidecar.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as client:
        file = client.makefile("rb")
        for part in (offer + body, offer + body, offer.replace(b"POST /predict", b"GET /ping")):
            client.sendall(part if b"POST" in part else part.replace(b"%d" % len(body), b"0"))
            assert file.readline().startswith(b"HTTP/1.1 200")
            length = 0
            while (line := file.readline()) != b"\r\n":
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            file.read(length)
        linger = struct.pack("ii", 1, 0)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)


def test_no_redirect_follows_the_host_header(start):
    sidecar = start()
    status, content, headers = serving.post(
        sidecar.url + "/predict/", {"instances": []}, {"Host": "evil.example"}
    )
    assert (status, headers.get("Location")) == (404, None)
    status, content, _ = serving.post(sidecar.url + "/v2/models/other/infer", {})
    assert (status, isinstance(content["error"], str)) == (404, True), "as that protocol has it"
    host, port = sidecar.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as client:
        client.sendall(b"nonsense\r\n\r\n")
        head, _, body = client.makefile("rb").read().partition(b"\r\n\r\n")
    assert b"400" in head
    assert json.loads(body)["error"]["code"] == "bad_http"
    assert b"application/json" in head


def test_header_and_column_must_not_contradict(start, vendor_here):
    sidecar = start(mode="repair", upstream=vendor_here.url)
    url = sidecar.url + "/predict"
    for headers, code in (
        ({"Fairmend-Group": "a"}, "contradicting_group"),
        ({"Fairmend-Id": "8"}, "contradicting_id"),
    ):
        status, content, _ = serving.post(url, {"instances": [{**PERSON, **WHO}]}, headers)
        assert (status, content["error"]["code"]) == (422, code)
    same = {"Fairmend-Group": "b", "Fairmend-Id": "7"}
    assert serving.post(url, {"instances": [{**PERSON, **WHO}]}, same)[0] == 200
