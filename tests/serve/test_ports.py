"""The two ports as operators run them: TLS, roles, headers for the vendor, traces, few rows of
failures, and the proxy that the documentation puts before them."""

import asyncio
import contextlib
import json
import os
import re
import shutil
import socket
import sqlite3
import ssl
import subprocess
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import aiohttp
import pytest

import serving
from certificates import Authority
from fairmend.errors import DataError
from fairmend.serve.cap import Cap
from fairmend.serve.config import read_config
from fairmend.serve.tls import renew, served_by, trusting
from vendors import free_port

ONE = {"instances": [{"age": 20, "dose": 1.0, "urban": 0, "group": "b", "id": 1}]}
MANY = {"instances": [{"age": age, "dose": dose / 4, "urban": 1, "group": "b", "id": 9 * age + dose}
                      for age in range(20, 60, 5) for dose in range(7)]}  # fmt: skip
"""Some of them are edited."""
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
DEPLOY = Path(__file__).resolve().parents[2] / "docs" / "deploy.md"


class Keeping(BaseHTTPRequestHandler):
    """A vendor that keeps the headers it is sent, and does what its server says."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        rows = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["instances"]
        self.server.headers.append({name.lower(): value for name, value in self.headers.items()})
        names = ("age", "dose", "urban")
        chances = [serving.chance([row[name] for name in names]) for row in rows]
        content = json.dumps({"predictions": chances}).encode()
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


@pytest.fixture
def keeping():
    """Start vendors in this process, with TLS where there is a certificate."""
    running = []

    def keeping(certificate=None, key=None):
        server = ThreadingHTTPServer(("127.0.0.1", 0), Keeping)
        server.headers, server.status, scheme = [], 200, "http"
        if certificate is not None:
            server.socket = served_by(certificate, key).wrap_socket(server.socket, True)
            scheme = "https"
        server.url = f"{scheme}://127.0.0.1:{server.server_port}/score"
        threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
        running.append(server)
        return server

    yield keeping
    for server in running:
        server.shutdown()
        server.server_close()


def over_tls(url, authority, body=None, certificate=None, headers=None):
    """Status and content of an answer; a client that trusts one authority alone."""
    context = trusting(authority.path)
    if certificate is not None:
        context.load_cert_chain(*certificate)
    content = None if body is None else json.dumps(body).encode()
    sent = {"Content-Type": "application/json", **(headers or {})}
    request = urllib.request.Request(url.replace("http:", "https:"), content, sent)
    try:
        with urllib.request.urlopen(request, timeout=30, context=context) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def serial_of(port):
    return ssl.get_server_certificate(("127.0.0.1", port))


def test_tls_on_both_ports_and_towards_the_vendor(tmp_path, start, keeping):
    ours, theirs = Authority(tmp_path), Authority(tmp_path, "their-ca")
    certificate, key = ours.sign("sidecar")
    vendor = keeping(*theirs.sign("vendor"))
    sidecar = start(
        upstream=vendor.url, upstream_ca=theirs.path, tls_certificate=certificate, tls_key=key
    )
    status, content = over_tls(sidecar.url + "/predict", ours, ONE)
    assert (status, json.loads(content)) == (200, {"predictions": [serving.chance([20, 1.0, 0])]})
    assert over_tls(sidecar.admin + "/readyz", ours) == (200, b'{"ready":true}')
    for port in (sidecar.url, sidecar.admin):
        with pytest.raises(OSError, match=r"(?i)refused|reset|closed|disconnected"):
            serving.get(port + "/livez")  # nothing is said without TLS
        with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
            over_tls(port + "/livez", theirs)
    assert sidecar.stop() == 0


def test_a_vendor_that_nobody_vouches_for_is_not_sent_people(tmp_path, start, keeping):
    vendor = keeping(*Authority(tmp_path).sign("vendor"))
    with pytest.raises(AssertionError, match="upstream_untrusted"):
        start(upstream=vendor.url)
    sidecar = start(upstream=vendor.url, mode="off")
    status, content, _ = serving.post(sidecar.url + "/predict", ONE)
    assert (status, content["error"]["code"]) == (502, "upstream_untrusted")
    assert vendor.headers == []


def test_a_new_certificate_is_taken_over_only_when_both_files_are_there(tmp_path):
    authority = Authority(tmp_path)
    certificate, key = authority.sign("first")
    context = served_by(certificate, key)
    listener = socket.create_server(("127.0.0.1", 0))

    def answer():
        while True:
            try:
                with context.wrap_socket(listener.accept()[0], True):
                    pass
            except OSError:
                if listener.fileno() < 0:
                    return

    threading.Thread(target=answer, daemon=True).start()
    port = listener.getsockname()[1]
    first = serial_of(port)
    new_certificate, new_key = authority.sign("second")
    Path(certificate).write_bytes(Path(new_certificate).read_bytes())
    renew(context, certificate, key)  # the key is still the old one
    assert serial_of(port) == first
    Path(key).write_bytes(Path(new_key).read_bytes())
    renew(context, certificate, key)
    assert serial_of(port) == Path(new_certificate).read_text() != first
    listener.close()


def test_files_that_are_no_certificates_are_refused_with_their_names(tmp_path):
    authority = Authority(tmp_path)
    certificate, _ = authority.sign("one")
    _, other = authority.sign("other")
    with pytest.raises(DataError, match=r"one\.pem.*other\.key.*must be PEM files"):
        served_by(certificate, other)
    with pytest.raises(DataError, match=r"none\.pem.*must be a PEM file"):
        trusting(str(tmp_path / "none.pem"))
    Path(other).chmod(0o644)
    with pytest.raises(DataError, match=r"tls_key.*other\.key.*readable by nobody.*0644"):
        served_by(certificate, other)
    needed = {"artifact": "a.zip", "upstream": "http://h/"}
    with pytest.raises(DataError, match=r"tls_certificate and tls_key.*must be given together"):
        read_config(None, **needed, tls_certificate=certificate)


def test_some_operators_may_only_look(start):
    env = {"FAIRMEND_ADMIN_TOKEN": "operate-1", "FAIRMEND_VIEW_TOKEN": "looking-1",
           "FAIRMEND_VIEW_TOKEN_2": "looking-2"}  # fmt: skip
    sidecar = start(env=env)

    def reached(token, path, **more):
        headers = {"Authorization": f"Bearer {token}", "Fairmend-Admin": "1"}
        ask = serving.post if more else serving.get
        return ask(sidecar.admin + path, *more.values(), headers=headers)[0]

    for token in ("operate-1", "looking-1", "looking-2"):
        assert [reached(token, path) for path in ("/", "/figures", "/metrics")] == [200] * 3
    assert reached("looking-1", "/reload", body=b"") == 403
    assert reached("looking-3", "/reload", body=b"") == 401
    assert reached("operate-1", "/reload", body=b"") == 200
    assert serving.get(sidecar.admin + "/")[0] == 401


def test_a_token_to_look_needs_one_to_operate(monkeypatch):
    monkeypatch.setenv("FAIRMEND_VIEW_TOKEN", "looking-1")
    with pytest.raises(DataError, match="FAIRMEND_ADMIN_TOKEN is not set"):
        read_config(None, artifact="a.zip", upstream="http://h/")


def test_headers_for_the_vendor_come_from_the_environment_and_are_never_shown(
    start, keeping, artifact
):
    vendor = keeping()
    sidecar = start(
        upstream=vendor.url, mode="repair", upstream_headers=["X-Api-Key:ACME"], version="2",
        env={"ACME": "hush-0123", "FAIRMEND_UPSTREAM_TOKEN": "hush-4567"},
    )  # fmt: skip
    vendor.headers.clear()
    trace = {"traceparent": TRACE, "tracestate": "bank=1", "X-Api-Key": "the client's"}
    status, _, headers = serving.post(sidecar.url + "/predict", MANY, trace)
    assert status == 200
    assert len(vendor.headers) >= 2, "their own rows, and the edited ones"
    for sent in vendor.headers:  # whatever is asked because of a request belongs to its trace
        assert (sent["x-api-key"], sent["authorization"]) == ("hush-0123", "Bearer hush-4567")
        assert (sent["traceparent"], sent["tracestate"]) == (TRACE, "bank=1")
    vendor.status = 500
    serving.post(sidecar.url + "/predict", ONE)
    shown = [serving.get(sidecar.admin + path)[1] for path in ("/", "/figures", "/metrics")]
    shown += [str(headers), serving.get(sidecar.url + "/openapi.json")[1]]
    assert "hush" not in "".join(map(str, shown))
    assert sidecar.stop() == 0
    requests = [line for line in sidecar.lines() if line["event"] == "request"]
    assert [line.get("trace") for line in requests] == [TRACE[3:35], None]
    for file in sidecar.folder.iterdir():
        assert b"hush" not in file.read_bytes(), file


@pytest.mark.parametrize(
    ("headers", "env", "message"),
    [
        ({"X-Key": "ACME"}, "", "'ACME' of config upstream_headers: X-Key: must hold printable"),
        ({"X-Key": "ACME"}, "two\nlines", "must hold printable characters"),
        ({"Content-Length": "ACME"}, "1", "must be a header that can be the same"),
        ({"a header": "ACME"}, "1", "must be a header that can be the same"),
    ],
)
def test_a_header_that_cannot_be_sent_is_refused(monkeypatch, tmp_path, headers, env, message):
    monkeypatch.setenv("ACME", env)
    settings = tmp_path / "serve.toml"
    table = "".join(f'"{name}" = "{variable}"\n' for name, variable in headers.items())
    settings.write_text(f'artifact = "a.zip"\nupstream = "http://h/"\n[upstream_headers]\n{table}')
    with pytest.raises(DataError, match=message) as refused:
        read_config(settings)
    assert "lines" not in str(refused.value)


def test_failures_fill_no_log(start, keeping):
    vendor = keeping()
    sidecar = start(upstream=vendor.url, mode="repair", most_failed_rows=3)
    bad = [serving.post(sidecar.url + "/predict", b"{")[0] for _ in range(5)]
    vendor.status = 400
    passed_on = [serving.post(sidecar.url + "/predict", ONE) for _ in range(3)]
    assert (bad, [status for status, *_ in passed_on]) == ([400] * 5, [400] * 3)
    vendor.status = 200
    assert serving.post(sidecar.url + "/predict", ONE)[2]["Fairmend-Decision"], "decisions are"
    with sqlite3.connect(sidecar.log) as db:
        statuses = [status for (status,) in db.execute("SELECT status FROM decisions")]
    kept = statuses.count("bad_json") + statuses.count("upstream_rejected")
    assert kept in (3, 6), "where a minute ended meanwhile, its number begins anew"
    assert statuses[-1] == "ok"
    if kept == 3:
        counts = serving.get(sidecar.admin + "/metrics")[1]
        assert "fairmend_failures_not_logged_total 5.0" in counts
        assert all("Fairmend-Decision" not in headers for *_, headers in passed_on)


def test_a_cap_begins_anew_with_each_minute(monkeypatch):
    now = [30.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    cap = Cap(2)
    assert [cap.admits() for _ in range(5)] == [True, True, False, False, False]
    assert cap.take_left_out() == 0, "its minute is not over"
    now[0] = 61.0
    assert (cap.take_left_out(), cap.take_left_out()) == (3, 0)
    assert cap.admits()


# -------------------------------------------------------------------- behind a proxy


@pytest.fixture
def proxy(tmp_path):
    """Start nginx with the configuration of the page, in a folder of its own."""
    nginx = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:" + os.environ["PATH"])
    if nginx is None:
        pytest.skip("nginx is not installed")
    [text] = re.findall(r"```nginx\n(.*?)```", DEPLOY.read_text(encoding="utf-8"), re.DOTALL)
    running = []

    def proxy(sidecar):
        port = free_port()
        kept = "".join(f"{what}_temp_path temporary;\n" for what in
                       ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))  # fmt: skip
        settings = (
            text.replace("127.0.0.1:8080", sidecar.url.removeprefix("http://"))
            .replace("rate=200r/s", "rate=20r/s")  # a slow machine sends no more than that
            .replace("listen 443", f"listen 127.0.0.1:{port}")
            .replace("http {", f"http {{\n{kept}access_log off;", 1)
        )
        (tmp_path / "nginx.conf").write_text("daemon off; pid nginx.pid;\n" + settings)
        command = [nginx, "-p", tmp_path, "-c", "nginx.conf", "-e", tmp_path / "error.log"]
        subprocess.run([*command, "-t"], check=True, capture_output=True)
        running.append(subprocess.Popen(command))
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                return f"https://127.0.0.1:{port}"
        raise AssertionError((tmp_path / "error.log").read_text())

    yield proxy
    for process in running:
        process.terminate()
        process.wait(20)


@pytest.mark.slow
def test_the_proxy_of_the_page_asks_for_certificates_and_limits_rates(tmp_path, start, proxy):
    ours, clients = Authority(tmp_path), Authority(tmp_path, "clients-ca")
    for made, name in zip(ours.sign("sidecar"), ("server.pem", "server.key"), strict=True):
        shutil.copy(made, tmp_path / name)
    sidecar = start(concurrency=1_000)
    url = proxy(sidecar) + "/predict"
    assert over_tls(url, ours, ONE)[0] == 400, "no certificate"
    known, strange = clients.sign("client"), Authority(tmp_path, "strangers").sign("stranger")
    assert over_tls(url, ours, ONE, strange)[0] == 400
    own = serving.post(sidecar.url + "/predict", ONE)[1]
    status, content = over_tls(url, ours, ONE, known)
    assert (status, json.loads(content)) == (200, own)
    context = trusting(ours.path)
    context.load_cert_chain(*known)
    context.set_alpn_protocols(["h2", "http/1.1"])
    host, _, port = url.removeprefix("https://").partition("/")[0].partition(":")
    raw = socket.create_connection((host, int(port)))
    with raw, context.wrap_socket(raw, server_hostname=host) as spoken:
        assert spoken.selected_alpn_protocol() == "h2"

    async def flood():
        connector = aiohttp.TCPConnector(ssl=context)
        async with aiohttp.ClientSession(connector=connector) as session:

            async def ask(_):
                async with session.post(url, json=ONE) as response:
                    return response.status

            return await asyncio.gather(*map(ask, range(400)))

    context.set_alpn_protocols(["http/1.1"])
    statuses = asyncio.run(flood())
    assert set(statuses) == {200, 429}, "a client alone cannot take the sidecar for itself"
