"""A model behind an address: what it is sent, how it is read, and how each failure is told."""

import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pandas as pd
import polars as pl
import pytest

from fairmend import BlackBox, DataError, ModelError
from fairmend.data.columns import Frame
from fairmend.data.outcomes import Labels
from fairmend.model.remote import RemoteModel, cells, kinds

ROWS = pd.DataFrame({"age": [31, 44], "name": ["secret one", None], "dose": [0.5, np.nan]})


class Stub(BaseHTTPRequestHandler):
    """Answers as it is told, and remembers what it was sent."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append((self.path, dict(self.headers), body))
        self.server.behave(self, body)

    def answer(self, body, status=200, headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def stub():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Stub)
    server.seen = []
    server.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def sums(handler, body):
    """The sum of each instance's numbers."""
    rows = json.loads(body)["instances"]
    said = [sum(v for v in row.values() if isinstance(v, int | float)) for row in rows]
    handler.answer(json.dumps({"predictions": said}).encode())


def test_rows_travel_in_their_types_and_batches_come_back_in_order(stub):
    stub.behave = sums
    X = pd.DataFrame({"a": range(10), "b": np.arange(10) / 4})
    remote = RemoteModel(
        f"{stub.url}/score?version=2", batch=3, token="t", headers={"X-Tenant": "h"}
    )
    assert remote(X).tolist() == (X.a + X.b).tolist()
    assert [len(json.loads(body)["instances"]) for _, _, body in stub.seen] == [3, 3, 3, 1]
    path, headers, body = stub.seen[0]
    assert path == "/score?version=2"
    assert headers["Authorization"] == "Bearer t"
    assert headers["X-Tenant"] == "h"
    assert body.startswith(b'{"instances":[{"a":0,"b":0.0}')


def test_a_black_box_reads_the_address_and_the_answers(stub):
    stub.behave = lambda handler, _: handler.answer(b'{"predictions": [[0.2, 0.8], [0.6, 0.4]]}')
    box = BlackBox(f"{stub.url}/invocations", random=True)
    answers = box.query(Frame.read(ROWS), Labels(0, 1))
    assert answers.decision.tolist() == [1, 0]
    assert answers.score.tolist() == [0.8, 0.4]
    sent = json.loads(stub.seen[0][2])["dataframe_split"]
    assert sent == {
        "columns": ["age", "name", "dose"], "data": [[31, "secret one", 0.5], [44, None, None]],
    }  # fmt: skip


def test_labels_are_answers_too(stub):
    stub.behave = lambda handler, _: handler.answer(b'{"predictions": ["yes", "no"]}')
    assert RemoteModel(f"{stub.url}/score")(ROWS).tolist() == ["yes", "no"]


def half(handler, _):
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"predictions"')
    handler.close_connection = True


def hang_up(handler, _):
    handler.connection.shutdown(socket.SHUT_RDWR)
    handler.close_connection = True


FAULTS = {
    "broke off half-way": half,
    "connection broke": hang_up,
    "500": lambda handler, body: handler.answer(body, 500),
    "429": lambda handler, body: handler.answer(body, 429),
    "401": lambda handler, body: handler.answer(body, 401),
    "Redirects are not followed": lambda handler, body: handler.answer(
        body, 307, [("Location", "/elsewhere")]
    ),
    "no JSON with predictions": lambda handler, _: handler.answer(b"<html>secret one</html>"),
    "1 answers for 2 rows": lambda handler, _: handler.answer(b'{"predictions": [1]}'),
    "3 values per row": lambda handler, _: handler.answer(
        b'{"predictions": [[1, 2, 3], [1, 2, 3]]}'
    ),
}


@pytest.mark.parametrize("words", FAULTS)
def test_failures_are_told_in_clear_words_without_rows(stub, words):
    stub.behave = FAULTS[words]
    with pytest.raises(ModelError, match=words) as told:
        BlackBox(RemoteModel(f"{stub.url}/score")).query(Frame.read(ROWS), Labels(0, 1))
    assert "secret" not in str(told.value)
    assert len(stub.seen) == 1, "a request that was sent is never sent again"


def test_a_stall_ends_at_the_timeout(stub):
    release = threading.Event()
    stub.behave = lambda handler, _: release.wait(10)
    with pytest.raises(ModelError, match=r"within 0\.3 s"):
        RemoteModel(f"{stub.url}/score", timeout=0.3)(ROWS)
    release.set()


def test_nobody_there():
    with socket.socket() as taken:  # bound, but nobody listens
        taken.bind(("127.0.0.1", 0))
        with pytest.raises(ModelError, match="no connection: Connection refused"):
            RemoteModel(f"http://127.0.0.1:{taken.getsockname()[1]}/score", retries=1)(ROWS)


@pytest.mark.parametrize(
    ("url", "more", "words"),
    [
        ("ftp://x/score", {}, "http or https"),
        ("http://", {}, "http or https"),
        ("http://x:port/score", {}, "http or https"),
        ("http://user:pw@x/score", {}, "must not hold a password"),
        ("http://x", {}, "without a path"),
        ("http://x/score", {"protocol": "grpc"}, "'instances', 'mlflow' or 'v2'"),
        ("http://x/score", {"protocol": "v2"}, "must fit its protocol"),
        ("http://x/score", {"timeout": 0}, "a finite number above 0"),
        ("http://x/score", {"retries": -1}, "at least 0"),
        ("http://x/score", {"batch": 0}, "at least 1"),
    ],
)
def test_settings_that_cannot_be(url, more, words):
    with pytest.raises(DataError, match=words) as told:
        RemoteModel(url, **more)
    assert "pw" not in str(told.value)


def test_it_does_not_show_its_token():
    assert "secret" not in repr(RemoteModel("http://x/score?key=secret", token="secret"))


@pytest.mark.parametrize("frame", [ROWS, pl.from_pandas(ROWS)], ids=["pandas", "polars"])
def test_cells_and_kinds_of_frames(frame):
    read = Frame.read(frame)
    assert cells(read) == [[31, "secret one", 0.5], [44, None, None]]
    assert kinds(read) == ["int", "str", "float"]
    nullable = pl.DataFrame({"a": [1, None], "b": [True, None]})
    assert kinds(Frame.read(nullable)) == ["int", "bool"]
    assert cells(Frame.read(nullable)) == [[1, True], [None, None]]
