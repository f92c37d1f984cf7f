"""People who do not say their group, where the vendor reads it too: they keep its own answer."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pandas as pd
import pytest

import fairmend
import serving
import vendors
from fairmend.data.columns import Frame
from fairmend.data.ids import content_ids
from fairmend.serve.schema import Schema

KINDS = {"age": "INT64", "dose": "FP64", "urban": "INT64", "group": "BYTES", "id": "INT64"}
INPUTS = ["age", "dose", "urban", "group"]


def decide(X):
    return serving.decide(X[["age", "dose", "urban"]])


@pytest.fixture(scope="module")
def fitted():
    X, y, group = vendors.people()
    repaired = fairmend.RepairedClassifier(
        decide, "fnr", immutable=["age", "group"], key=bytes.fromhex(serving.KEY)
    )
    return repaired.fit(X.assign(group=group), y, sensitive_features=group)


@pytest.fixture(scope="module")
def upstream():
    """A vendor that keeps what it was sent."""
    sent = []

    class Vendor(BaseHTTPRequestHandler):
        def do_POST(self):
            rows = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["instances"]
            sent.append(rows)
            said = [serving.chance([row["age"], row["dose"], row["urban"]]) for row in rows]
            content = json.dumps({"predictions": said}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Vendor)
    threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/score", sent
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def sidecar(fitted, upstream, tmp_path_factory):
    folder = tmp_path_factory.mktemp("opting-out")
    fitted.save(folder / "repair.zip")
    running = serving.Sidecar(folder, folder / "repair.zip", upstream[0], mode="repair")
    yield running
    assert running.stop() == 0


def some_people():
    """Records of 200 people, every third without a group."""
    X, _, group = vendors.people(200, seed=5)
    said = [None if i % 3 == 0 else label for i, label in enumerate(group)]
    records = X.assign(group=pd.Series(said, dtype=object), id=range(200)).to_dict("records")
    return [{**record, "group": label} for record, label in zip(records, said, strict=True)]


def forms(records):
    """The same people in every form that can say that something is not said."""
    names = list(records[0])
    columns = {name: [record[name] for record in records] for name in names}
    lines = [",".join("" if c is None else str(c) for c in r.values()) for r in records]
    lacking = [{k: v for k, v in r.items() if k != "group" or v is not None} for r in records]
    split = {"columns": names, "data": [list(record.values()) for record in records]}
    tensors = [
        {"name": name, "shape": [len(records), 1], "datatype": KINDS[name], "data": columns[name]}
        for name in names
    ]
    bare = [[record[name] for name in INPUTS] for record in records]
    yield "/invocations", {"dataframe_split": split}
    yield "/invocations", {"dataframe_records": records}
    yield "/invocations", {"dataframe_records": lacking}
    yield "/invocations", {"inputs": columns}
    yield "/invocations", "\n".join([",".join(names), *lines]).encode()
    yield "/predict", {"instances": records}
    yield "/predict", {"instances": lacking}
    yield "/predict", {"instances": bare, "parameters": {"id": columns["id"]}}
    yield "/v2/models/fairmend/infer", {"inputs": tensors}


def test_in_every_form_as_in_the_library(sidecar, fitted, upstream):
    records = some_people()
    X = pd.DataFrame(records)[INPUTS].astype({"group": object})
    X["group"] = X["group"].where(X["group"].notna(), None)
    edited = fitted.transform(X, sensitive_features=X["group"], ids=np.arange(200))
    expected, own = decide(edited), decide(X)
    without = [i for i, record in enumerate(records) if record["group"] is None]
    assert [expected[i] for i in without] == [own[i] for i in without]
    assert expected != own, "somebody is edited, or this shows nothing"
    wanted = [{name: record[name] for name in INPUTS} for record in records]
    for path, body in forms(records):
        upstream[1].clear()
        kind = "text/csv" if isinstance(body, bytes) else "application/json"
        status, content, _ = serving.post(sidecar.url + path, body, content_type=kind)
        assert status == 200, content
        assert serving.answers(content) == expected, (path, list(body)[:1])
        assert upstream[1][0] == wanted, "what is not said is null to the vendor"


def test_nobody_says_it(sidecar, upstream):
    """The column is left out altogether: by its name, or as a tensor."""
    row = {"age": 40, "dose": 1.0, "urban": 1}
    split = {"columns": list(row), "data": [list(row.values())]}
    tensors = [
        {"name": name, "shape": [1], "datatype": KINDS[name], "data": [cell]}
        for name, cell in row.items()
    ]
    for path, body in [
        ("/invocations", {"dataframe_split": split}),
        ("/predict", {"instances": [row]}),
        ("/v2/models/fairmend/infer", {"inputs": tensors}),
    ]:
        status, content, _ = serving.post(sidecar.url + path, body)
        assert (status, serving.answers(content)) == (200, [serving.chance(row.values())])
        assert upstream[1][-1] == [{**row, "group": None}]


def test_other_inputs_must_come(sidecar):
    row = {"age": 40, "dose": 1.0, "urban": 1, "group": "b"}
    lacking = {name: row[name] for name in ("age", "urban", "group")}
    for records in ([lacking], [row, lacking], [{**row, "dose": None}]):
        status, content, _ = serving.post(sidecar.url + "/predict", {"instances": records})
        assert status == 422
        assert "'dose'" in content["error"]["message"]


def test_a_group_beside_the_rows_is_no_input(sidecar):
    """Who says it there must send it to the vendor as well: it was audited with it."""
    row = {"age": 40, "dose": 1.0, "urban": 1}
    named = serving.post(sidecar.url + "/predict", {"instances": [row]}, {"Fairmend-Group": "b"})
    told = {"instances": [row], "parameters": {"group": "b"}}
    for status, content, _ in (named, serving.post(sidecar.url + "/predict", told)):
        assert (status, content["error"]["code"]) == (422, "bad_columns")
        assert "'group' is missing" in content["error"]["message"]


def test_the_openapi_document_says_so(sidecar):
    about = serving.get(sidecar.url + "/openapi.json")[1]
    body = about["paths"]["/predict"]["post"]["requestBody"]["content"]["application/json"]
    record = body["schema"]["properties"]["instances"]["oneOf"][1]["items"]
    assert record["required"] == ["age", "dose", "urban"]
    assert record["properties"]["group"]["type"] == ["string", "null"]
    assert record["properties"]["age"]["type"] == "integer"


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"age": [40, 41], "sex": [0, 1]}),
        pd.DataFrame({"age": [40, 41], "sex": [False, True]}),
        pd.DataFrame({"age": [40, 41], "sex": [0.0, 1.0]}),
        np.array([[40, 0], [41, 1]]),
    ],
    ids=["int", "bool", "float", "array"],
)
def test_a_row_without_a_group_is_drawn_by_its_content(table):
    """A column of whole numbers cannot hold that one is missing: 0 must not stand for it."""
    frame = Frame.read(table)
    schema = Schema.of(frame, [frame.names[1], "id"])
    made = content_ids(schema.frame([(40, None), (40, False)])).tolist()
    missing = content_ids(Frame.read(pd.DataFrame({"age": [40], "sex": [np.nan]})))
    zero = content_ids(Frame.read(pd.DataFrame({"age": [40], "sex": [0]})))
    assert made == [missing[0], zero[0]]
    assert missing[0] != zero[0]
