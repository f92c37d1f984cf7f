"""The webhook is told of each alert once, and in the end."""

import http.server
import json
import threading
import time

import pytest

import serving
from fairmend.errors import DataError
from fairmend.serve.config import Config

pytestmark = pytest.mark.slow


@pytest.fixture
def hook():
    """A server that alerts are posted to: it answers with what is in ``statuses``, then 204."""

    class Hook(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            content = self.rfile.read(int(self.headers["Content-Length"]))
            status = server.statuses.pop(0) if server.statuses else 204
            server.came.append((status, json.loads(content), dict(self.headers)))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    server.came, server.statuses = [], []
    server.url = f"http://127.0.0.1:{server.server_port}/hook"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def wait_for(server, count, seconds=20):
    deadline = time.monotonic() + seconds
    while len(server.came) < count:
        assert time.monotonic() < deadline, server.came
        time.sleep(0.05)


def test_an_alert_is_told_once_with_retries_and_not_again_after_a_restart(start, vendor, hook):
    env = {"FAIRMEND_WEBHOOK": hook.url, "FAIRMEND_WEBHOOK_TOKEN": "a secret word"}
    settings = {"env": env, "watch_seconds": 0.1, "probe_seconds": 0.2, "vendor": "Acme"}
    hook.statuses = [503]
    vendor.behave("inverted")
    sidecar = start(**settings)
    wait_for(hook, 2)
    time.sleep(0.5)
    assert [status for status, *_ in hook.came] == [503, 204], "told until taken, then no more"
    _, said, headers = hook.came[-1]
    assert said["kind"] == "model"
    assert "the model has changed" in said["text"]
    assert (said["vendor"], said["mode"], said["artifact"]) == ("Acme", "shadow", sidecar.artifact)
    assert len({each["id"] for _, each, _ in hook.came}) == 1
    assert headers["Authorization"] == "Bearer a secret word"
    assert sidecar.stop() == 0
    sidecar = start(**settings)
    time.sleep(1.0)
    assert len(hook.came) == 2, "a restart repeats nothing"
    vendor.behave("well")
    deadline = time.monotonic() + 20
    while serving.get(sidecar.admin + "/figures")[1]["alerts"]:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    time.sleep(0.3)
    vendor.behave("inverted")
    wait_for(hook, 3)
    said = (sidecar.folder / "serve.log").read_text()
    assert hook.url not in said
    assert "a secret word" not in said


def test_nobody_at_the_webhook_disturbs_nothing(start, vendor, hook):
    hook.statuses = [404] * 100
    vendor.behave("inverted")
    sidecar = start(env={"FAIRMEND_WEBHOOK": hook.url}, watch_seconds=0.2)
    wait_for(hook, 2)
    row = {"instances": [{"age": 61, "dose": 1, "urban": 1, "group": "b"}]}
    assert serving.post(sidecar.url + "/predict", row)[0] == 200
    metrics = serving.get(sidecar.admin + "/metrics")[1]
    assert 'fairmend_webhook_total{result="failed"}' in metrics
    assert sidecar.wait_for("webhook failed")["result"] == "404"


def test_what_is_no_address_is_refused(monkeypatch, artifact):
    monkeypatch.setenv("FAIRMEND_WEBHOOK", "alerts.example/secret")
    with pytest.raises(DataError, match="must hold an address that begins with https://") as error:
        Config(artifact=str(artifact), upstream="http://localhost/score").check()
    assert "secret" not in str(error.value)
