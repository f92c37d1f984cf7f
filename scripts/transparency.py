"""What clients of the sidecar get, form by form and mode by mode, tried and printed as a table.

    python scripts/transparency.py [--write]

A vendor that answers nearly everything speaks MLflow's protocol; each request goes through the
sidecar in every mode, and what comes back is compared with the vendor's own bytes. ``--write``
puts the tables into docs/deploy.md.
"""

from __future__ import annotations

import asyncio
import csv
import gzip
import io
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from aiohttp import web

import fairmend
from fairmend.serve.app import make_app
from fairmend.serve.config import read_config
from fairmend.serve.sidecar import Sidecar

PAGE = Path(__file__).resolve().parent.parent / "docs" / "deploy.md"
BEGIN = "<!-- made by scripts/transparency.py --write -->"
END = "<!-- end of what is made -->"
MODES = ("off", "shadow", "repair")
ROW = {"age": 61, "dose": 1.5}
"""A woman who is turned down, and approved once her dose is edited."""
KEY = "07" * 32


def chance(row: dict[str, Any]) -> float:
    """The vendor's model; a cell that is empty counts as nothing."""
    age, dose = (float(row.get(name) or 0) for name in ROW)
    return round(age / 200 + dose / 10, 3)


def artifact(folder: Path) -> Path:
    """A repair of the vendor's model for women; the dose may be missing."""
    rng = np.random.default_rng(0)
    sex = rng.choice(["f", "m"], 2_000)
    age, dose = rng.integers(30, 81, 2_000), rng.integers(2, 9, 2_000) / 2 - (sex == "f")
    y = rng.random(2_000) < age / 200 + dose / 10 + 0.1 * (sex == "f")
    X = pd.DataFrame({"age": age, "dose": np.where(rng.random(2_000) < 0.01, np.nan, dose)})

    def vendor(rows: pd.DataFrame) -> list[float]:
        return [chance(row) for row in rows.fillna(0).to_dict("records")]

    repaired = fairmend.RepairedClassifier(vendor, "fnr", immutable=["age"], key=bytes.fromhex(KEY))
    path = folder / "repaired.fairmend"
    repaired.fit(X, y.astype(int), sensitive_features=sex).save(path)
    return path


# ------------------------------------------------------------------ the vendor


def as_rows(content_type: str, body: bytes) -> list[dict[str, Any]]:
    """The rows of a body, read as a lenient vendor reads them."""
    if content_type == "text/csv":
        return list(csv.DictReader(io.StringIO(body.decode())))
    if content_type == "application/vnd.apache.parquet":
        frame = pd.read_parquet(io.BytesIO(body))
        return [{str(name): cell for name, cell in row.items()} for row in frame.to_dict("records")]
    asked = json.loads(body)
    if "dataframe_split" in asked:
        split = asked["dataframe_split"]
        return [dict(zip(split["columns"], row, strict=True)) for row in split["data"]]
    rows = asked.get("dataframe_records") or asked["inputs"]
    return [row if isinstance(row, dict) else dict(zip(ROW, row, strict=False)) for row in rows]


async def vendor(how: dict[str, str]) -> tuple[web.AppRunner, int]:
    """A vendor that answers as it is told, and its port."""

    async def score(request: web.Request) -> web.StreamResponse:
        body = await request.read()
        if request.headers.get("Content-Encoding") == "gzip":
            body = body if body[:1] == b"{" else gzip.decompress(body)
        answers: list[Any] = [chance(row) for row in as_rows(request.content_type, body)]
        match how["says"]:
            case "400" | "500" as status:
                return web.json_response({"message": "not like this"}, status=int(status))
            case "429":
                wait = {"Retry-After": "7"}
                return web.json_response({"message": "wait"}, status=429, headers=wait)
            case "a redirect":
                return web.Response(status=307, headers={"Location": "/elsewhere"})
            case "no JSON":
                return web.Response(text="<html>", content_type="text/html")
            case "an odd answer":
                answers = ["perhaps" for _ in answers]
            case "a stream":
                response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
                await response.prepare(request)
                for part in (b"data: 1\n\n", b"data: 2\n\n"):
                    await response.write(part)
                return response
        return web.json_response({"predictions": answers, "model": "m1"})

    app = web.Application(client_max_size=1 << 26)
    app.add_routes([web.post("/invocations", score)])
    runner = web.AppRunner(app, access_log=None, auto_decompress=False)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    return runner, site._server.sockets[0].getsockname()[1]  # type: ignore[union-attr]


# ------------------------------------------------------------------ requests


def forms() -> Iterator[tuple[str, str, bytes, dict[str, str]]]:
    """What is sent: in words, its content type, the body, further headers."""

    def records(*rows: dict[str, Any], **more: Any) -> bytes:
        return json.dumps({"dataframe_records": list(rows), **more}).encode()

    def parquet() -> bytes:
        file = io.BytesIO()
        pd.DataFrame([ROW]).to_parquet(file)
        return file.getvalue()

    who = {"sex": "{group}", "id": 7}
    usual = json.dumps({"dataframe_split": {"columns": [*ROW, *who],
                                            "data": [[*ROW.values(), *who.values()]]}})  # fmt: skip
    head = {"fairmend-group": "{group}"}
    as_json = "application/json"
    yield "as audited, group and id as columns", as_json, usual.encode(), {}
    yield "as audited, group in a header", as_json, records(ROW), head
    yield "rows by place", as_json, json.dumps({"inputs": [list(ROW.values())]}).encode(), head
    yield "`params` of the vendor's own", as_json, records(ROW, params={"depth": 2}), head
    yield "an extra column", as_json, records({**ROW, "note": "x"}), head
    yield "an optional column left out", as_json, records({"age": 61}), head
    yield "null where the audit had none", as_json, records({**ROW, "age": None}), head
    yield '`"61"` for a whole number', as_json, records({**ROW, "age": "61"}), head
    yield "`true` for a whole number", as_json, records({**ROW, "age": True}), head
    yield "CSV with `61.0` for a whole number", "text/csv", b"age,dose\n61.0,1.5\n", head
    yield "a Parquet body", "application/vnd.apache.parquet", parquet(), head
    compressed = gzip.compress(records(ROW), mtime=0)
    yield "a compressed body", as_json, compressed, {**head, "content-encoding": "gzip"}
    yield "a body longer than `most_bytes`", as_json, records(*[ROW] * 2_000), head
    yield "a group nobody audited", as_json, records({**ROW, "sex": "x"}), {}
    yield "no group at all", as_json, records(ROW), {}
    contradicting = records({**ROW, "sex": "f"})
    yield "header and column contradict", as_json, contradicting, {"fairmend-group": "m"}


async def post(app: Any, kind: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
    """Status and body of an answer of an ASGI application."""
    named = {"content-type": kind, "content-length": str(len(body)), **headers}
    scope = {
        "type": "http", "method": "POST", "path": "/invocations", "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in named.items()],
    }  # fmt: skip
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])


def told(own: tuple[int, bytes], came: tuple[int, bytes]) -> str:
    """What the client got, in words."""
    if came == own:
        return "the vendor's bytes"
    status, content = came
    if status == 200:
        return "repaired"
    body = json.loads(content)
    code = body.get("error_code", body.get("message", "")).lower()
    return f"{status} `{code}`"


# ------------------------------------------------------------------ the tables


async def straight(url: str, kind: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
    """The vendor's own status and body."""
    import aiohttp

    async with (
        aiohttp.ClientSession(auto_decompress=False) as session,
        session.post(
            url, data=body, headers={"Content-Type": kind, **headers}, allow_redirects=False
        ) as response,
    ):
        return response.status, await response.read()


def without_who(body: bytes) -> bytes:
    """The body without the columns that the vendor is not sent."""
    if not body.startswith(b"{"):
        return body
    asked = json.loads(body)
    for row in asked.get("dataframe_records", []):
        row.pop("sex", None)
    if "dataframe_split" in asked:
        split = asked["dataframe_split"]
        split["columns"] = split["columns"][: len(ROW)]
        split["data"] = [row[: len(ROW)] for row in split["data"]]
    return json.dumps(asked).encode()


async def tables() -> str:
    """Both tables, as Markdown."""
    how = {"says": "200"}
    runner, port = await vendor(how)
    url = f"http://127.0.0.1:{port}/invocations"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path, key, sidecars = artifact(folder), folder / "key", {}
        key.touch(0o600)
        key.write_text(KEY)
        for mode in MODES:
            config = read_config(
                None, artifact=str(path), upstream=url, mode=mode, basis="a trial", group="sex",
                key_file=str(key),
                log=str(folder / f"{mode}.sqlite"), most_bytes=10_000, breaker_failures=100,
            )  # fmt: skip
            sidecars[mode] = Sidecar(config)
            await sidecars[mode].start()
        apps = {mode: make_app(sidecar) for mode, sidecar in sidecars.items()}

        async def row(
            kind: str, body: bytes, headers: dict[str, str], groups: str = "fm"
        ) -> list[str]:
            cells = []
            for mode, group in (("off", "f"), ("shadow", "f"), *(("repair", g) for g in groups)):
                asked = body.replace(b"{group}", group.encode())
                more = {name: value.replace("{group}", group) for name, value in headers.items()}
                passed = {n: v for n, v in more.items() if not n.startswith("fairmend-")}
                own = await straight(url, kind, without_who(asked), passed)
                cells.append(told(own, await post(apps[mode], kind, asked, more)))
            return cells

        by_form = [[name, *await row(*rest)] for name, *rest in forms()]
        by_answer = []
        _, kind, usual, headers = next(forms())
        for says in ("400", "429", "500", "a redirect", "no JSON", "an odd answer", "a stream"):
            how["says"] = says
            by_answer.append([says, *await row(kind, usual, headers)])
        how["says"] = "200"
        for sidecar in sidecars.values():
            await sidecar.stop()
    await runner.cleanup()
    columns = ("off", "shadow", "repair, somebody repaired", "repair, anybody else")
    parts = [_markdown(("the client sends", *columns), by_form),
             _markdown(("the vendor answers", *columns), by_answer)]  # fmt: skip
    return "\n\n".join(parts)


def _markdown(head: tuple[str, ...], cells: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def made() -> str:
    """What stands on the page."""
    return f"{BEGIN}\n\n{asyncio.run(tables())}\n\n{END}"


if __name__ == "__main__":
    text = made()
    print(text)
    if "--write" in sys.argv:
        page = PAGE.read_text(encoding="utf-8")
        before, after = page.split(BEGIN)[0], page.split(END)[1]
        PAGE.write_text(before + text + after, encoding="utf-8")
