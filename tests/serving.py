"""A sidecar and a stand-in vendor as real processes on loopback, for tests and benchmarks."""

import asyncio
import contextlib
import json
import math
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

KEY = "07" * 32
SERVE = "import typer; from fairmend.serve.command import serve; typer.run(serve)"
USED = ("fairmend.serve.command", "fairmend.serve.run", "fairmend.artifact", "pandas", "pyarrow",
        "sklearn.linear_model", "uvloop")  # fmt: skip
"""What a sidecar imports."""


def log_key():
    """That of the logs of sidecars with this key."""
    from fairmend.serve.log import LogKey

    return LogKey.derived(bytes.fromhex(KEY))


def chance(row):
    """The stand-in vendor's model: age, dose and urban as in `vendors.people`."""
    age, dose, urban = row
    score = age / 20 + 1.5 * dose + 0.5 * urban - 3.5
    return 1 / (1 + math.exp(-max(-700.0, min(700.0, score))))


def decide(X):
    """The same, called directly."""
    return [chance(row) for row in X.itertuples(index=False)]


# ------------------------------------------------------------------ people in every form


def bodies(X, group, ids):
    """The same people in every form, each with the path it goes to."""
    full = X.assign(group=group.to_numpy(), id=ids)
    records = full.to_dict("records")
    split = {"columns": list(full), "data": [list(record.values()) for record in records]}
    columns = {name: full[name].tolist() for name in full}
    kinds = {"age": "INT64", "dose": "FP64", "urban": "INT64", "group": "BYTES", "id": "INT64"}
    tensors = [
        {"name": name, "shape": [len(full), 1], "datatype": kinds[name], "data": columns[name]}
        for name in full
    ]
    bare = [list(record.values()) for record in X.to_dict("records")]
    beside = {"group": columns["group"], "id": columns["id"]}
    wide = {
        "name": "rows", "shape": list(X.shape), "datatype": "FP64",
        "data": [float(cell) for row in bare for cell in row],
    }  # fmt: skip
    yield "/invocations", {"dataframe_split": split}
    yield "/invocations", {"dataframe_records": records}
    yield "/invocations", {"instances": records}
    yield "/invocations", {"inputs": columns}
    yield "/invocations", {"inputs": bare, "params": beside}
    yield "/invocations", full.to_csv(index=False).encode()
    yield "/predict", {"instances": records}
    yield "/predict", {"instances": bare, "parameters": beside}
    yield "/v2/models/{model}/infer", {"inputs": tensors}
    yield "/v2/models/{model}/infer", {"inputs": [wide], "parameters": beside}


def answers(content):
    return content["predictions"] if "predictions" in content else content["outputs"][0]["data"]


# ------------------------------------------------------------------ the vendor


async def vend(port, delay):
    """Instances in, predictions out, after a while; misbehaves when told to at /behave."""
    from aiohttp import web

    told = {"calls": 0, "how": "well"}

    async def behave(request):
        told["how"] = (await request.json())["how"]
        return web.json_response(told)

    async def calls(_):
        return web.json_response(told)

    async def score(request):
        body = await request.read()
        told["calls"] += 1
        how = told["how"]
        if delay:
            await asyncio.sleep(delay)
        if how == "reset":
            request.transport.abort()
            return web.Response()
        if how == "half":
            response = web.StreamResponse(headers={"Content-Length": "1000"})
            await response.prepare(request)
            await response.write(b'{"predictions": [')
            request.transport.close()
            return response
        if how == "stall":
            await asyncio.sleep(10)
        if how == "bad json":
            return web.Response(text="<html>secret</html>")
        if how in ("500", "503", "429", "400"):
            wait = {"Retry-After": "7"} if how in ("503", "429") else {}
            sent = json.loads(body)["instances"][0]
            refused = {"refused": sent["dose"] if isinstance(sent, dict) else sent[1]}
            return web.json_response(refused, status=int(how), headers=wait)
        if how == "redirect":
            return web.Response(status=307, headers={"Location": "/elsewhere"})
        try:
            rows = [
                row if isinstance(row, list) else [row[name] for name in ("age", "dose", "urban")]
                for row in json.loads(body)["instances"]
            ]
            said = [chance(row) for row in rows]
        except (ArithmeticError, KeyError, RecursionError, TypeError, ValueError):
            return web.json_response({"refused": True}, status=400)
        if how == "inverted":
            said = [1 - value for value in said]
        if how == "short":
            said = said[:-1]
        return web.json_response({"predictions": said})

    app = web.Application(client_max_size=1 << 26)
    app.add_routes(
        [web.post("/score", score), web.post("/behave", behave), web.get("/calls", calls)]
    )
    runner = web.AppRunner(app, access_log=None, keepalive_timeout=3600)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    await site.start()
    print(json.dumps({"port": site._server.sockets[0].getsockname()[1]}), flush=True)
    await asyncio.Event().wait()


class Vendor:
    def __init__(self, delay=0.0, port=0):
        self.process = subprocess.Popen(
            [sys.executable, __file__, str(port), str(delay)], stdout=subprocess.PIPE, text=True
        )
        self.port = json.loads(self.process.stdout.readline())["port"]
        self.base = f"http://127.0.0.1:{self.port}"
        self.url = f"{self.base}/score"

    def behave(self, how):
        post(f"{self.base}/behave", {"how": how})

    @property
    def calls(self):
        with urllib.request.urlopen(f"{self.base}/calls", timeout=5) as response:
            return json.load(response)["calls"]

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


# ------------------------------------------------------------------ the sidecar


class Fork:
    """A process of its own that finds everything imported, which saves more than a second.

    It is a copy of a process that has imported what a sidecar uses and done nothing else; its
    arguments, environment, streams, signals and end are its own.
    """

    def __init__(self, arguments, environment, stderr):
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(list(USED))
        self._process = context.Process(
            target=_serve, args=(arguments, environment, stderr), daemon=True
        )
        self._process.start()
        self.pid = self._process.pid

    def poll(self):
        return self._process.exitcode

    def wait(self, seconds=None):
        self._process.join(seconds)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("the sidecar", seconds)
        return self._process.exitcode

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)


def _serve(arguments, environment, stderr):
    import typer

    from fairmend.serve.command import serve

    for path, number in ((os.devnull, 0), (os.devnull, 1), (stderr, 2)):
        os.dup2(os.open(path, os.O_RDWR | os.O_APPEND), number)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["fairmend", *arguments]
    typer.run(serve)


class Sidecar:
    """A running sidecar; what it wrote to standard error is in ``folder/serve.log``."""

    forked = False
    """Whether to begin as a `Fork`: for those who do not measure memory or lines covered."""

    def __init__(self, folder, artifact, upstream, *, env=None, wrapper=(), **settings):
        self.folder = Path(folder)
        self.log = settings.pop("log", "decisions.sqlite")
        if "://" not in str(self.log):
            self.log = self.folder / self.log
        port, admin_port = settings.pop("port", 0), settings.pop("admin_port", 0)
        config = {
            "artifact": str(artifact), "upstream": upstream, "log": str(self.log), "port": port,
            "admin_port": admin_port, "drain_seconds": 0.1, **settings,
        }  # fmt: skip
        if config.get("mode") == "repair":
            config.setdefault("basis", "a test")
        path = self.folder / "serve.toml"
        path.write_text("".join(f"{name} = {toml(value)}\n" for name, value in config.items()))
        self.stderr = (self.folder / "serve.log").open("a+b")
        self.stderr.seek(0, os.SEEK_END)
        self._from = self.stderr.tell()
        arguments = ["--config", str(path)]
        environment = {**os.environ, "FAIRMEND_KEY": KEY, **(env or {})}
        if self.forked and not wrapper:
            self.process = Fork(arguments, environment, str(self.folder / "serve.log"))
        else:
            self.process = subprocess.Popen(
                [*wrapper, sys.executable, "-c", SERVE, *arguments],
                stderr=self.stderr, stdout=subprocess.DEVNULL, env=environment,
            )  # fmt: skip
        try:
            started = self.wait_for("listening")
            self.wait_for("probed", "probe failed")
        except AssertionError:
            self.stop(signal.SIGKILL)
            raise
        self.url = f"http://127.0.0.1:{started['clients']}"
        self.admin = f"http://127.0.0.1:{started['admin']}"
        self.artifact = started["artifact"]

    def lines(self):
        """What it has said so far, line by line; a last line may still be in the making."""
        with open(self.folder / "serve.log", "rb") as file:
            file.seek(self._from)
            for line in file.read().split(b"\n")[:-1]:
                with contextlib.suppress(ValueError):
                    yield json.loads(line)

    def wait_for(self, *events, seconds=60):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for line in self.lines():
                if line["event"] in events:
                    return line
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        raise AssertionError(f"no {events}: {(self.folder / 'serve.log').read_text()[-2000:]}")

    def stop(self, number=signal.SIGTERM, seconds=30):
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(seconds)
        self.stderr.close()
        return code


def toml(value):
    return json.dumps(value)


def post(url, body, headers=None, *, content_type="application/json", timeout=30):
    """Status, JSON and headers of an answer, whatever it is."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(
        url, content, {"Content-Type": content_type, **(headers or {})}, method="POST"
    )
    return _opened(request, timeout)


def get(url, headers=None, *, timeout=30):
    return _opened(urllib.request.Request(url, headers=headers or {}), timeout)


def _opened(request, timeout):
    try:
        with urllib.request.urlopen(request, timeout=timeout) as response:
            return response.status, _read(response.read()), response.headers
    except urllib.error.HTTPError as error:
        with error:
            return error.code, _read(error.read()), error.headers


def _read(content):
    try:
        return json.loads(content)
    except ValueError:
        return content.decode()


async def load(url, bodies, seconds, clients, answered, *, per_second=None, over=None):
    """Clients that ask one after another over connections they keep, for some time.

    It ends sooner once the event ``over`` is set.
    They ask as fast as they are answered, or all together so many times a second. Each answer is
    handed to ``answered(index of the body, status, headers, content, ms)``.
    """
    import aiohttp

    async def client(session, number):
        rng = random.Random(number)
        began = due = time.monotonic() + rng.random() * (clients / per_second if per_second else 0)
        while (now := time.monotonic()) < began + seconds and not (over and over.is_set()):
            if per_second is not None:
                due += clients / per_second
                await asyncio.sleep(max(0.0, due - now))
            index = rng.randrange(len(bodies))
            started = time.perf_counter()
            try:
                async with session.post(url, data=bodies[index]) as response:
                    content = await response.read()
                    status, headers = response.status, response.headers
            except aiohttp.ClientError as error:
                status, headers, content = type(error).__name__, {}, b""
                await asyncio.sleep(0.05)  # nobody is there: no need to burn a processor
            answered(index, status, headers, content, 1000 * (time.perf_counter() - started))

    connector = aiohttp.TCPConnector(limit=clients)
    json_headers = {"Content-Type": "application/json"}
    async with aiohttp.ClientSession(connector=connector, headers=json_headers) as session:
        await asyncio.gather(*(client(session, number) for number in range(clients)))


if __name__ == "__main__":
    asyncio.run(vend(int(sys.argv[1]), float(sys.argv[2])))
