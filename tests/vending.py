"""A stand-in vendor that keeps what it was sent, and answers whatever it is told to."""

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import serving


class Vending:
    """``answer(request)`` returns status, headers and body; by default the model's own answer."""

    def __init__(self, answer=None):
        self.sent = []
        self.answer = answer or predictions
        vending = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self._body()
                request = SimpleNamespace(
                    path=self.path, headers=dict(self.headers.items()), body=body
                )
                vending.sent.append(request)
                status, headers, content = vending.answer(request)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                if isinstance(content, bytes):
                    self.send_header("Content-Length", str(len(content)))
                    self.end_headers()
                    self.wfile.write(content)
                    return
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                for part in content:
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))
                    self.wfile.flush()
                self.wfile.write(b"0\r\n\r\n")

            do_GET = do_POST

            def _body(self):
                if self.headers.get("Transfer-Encoding") != "chunked":
                    return self.rfile.read(int(self.headers.get("Content-Length", 0)))
                body = b""
                while size := int(self.rfile.readline(), 16):
                    body += self.rfile.read(size)
                    self.rfile.readline()
                self.rfile.readline()
                return body

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=[0.01], daemon=True).start()
        self.base = f"http://127.0.0.1:{self.server.server_port}"
        self.url = f"{self.base}/score"

    @property
    def last(self):
        return self.sent[-1]

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@contextlib.contextmanager
def vending(answer=None):
    vendor = Vending(answer)
    try:
        yield vendor
    finally:
        vendor.close()


def number(cell):
    """What a lenient vendor makes of a cell."""
    return 0.0 if cell is None else float(cell)


def chance_of(row):
    """A vendor's answer to a record or a list, however its cells are spelt."""
    cells = row if isinstance(row, list) else [row.get(n) for n in ("age", "dose", "urban")]
    return serving.chance([number(cell) for cell in cells[:3]])


def predictions(request):
    body = json.loads(request.body)
    rows = body.get("instances") or body.get("dataframe_records")
    if rows is None:
        split = body["dataframe_split"]
        rows = [dict(zip(split["columns"], row, strict=True)) for row in split["data"]]
    return json_answer({"predictions": [chance_of(row) for row in rows]})


def json_answer(content, status=200, **headers):
    return status, {"Content-Type": "application/json", **headers}, json.dumps(content).encode()


def in_this_process(scores, sent=None):
    """What stands for `Upstream.send`: a vendor in this process, and what it was sent."""
    import pandas as pd

    from fairmend.serve.upstream import VendorAnswer

    async def send(self, body, headers, deadline, *, own, query=""):
        asked = self.protocol.read(body)
        if sent is not None:
            sent.append(list(asked.rows))
        answers = scores(pd.DataFrame(asked.rows, columns=list(asked.names)))
        content = self.protocol.write(asked, answers)
        return VendorAnswer(200, [], content, "application/json", None)

    return send
