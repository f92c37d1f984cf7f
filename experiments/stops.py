"""Whether stopping a sidecar under load resets anybody.

    python experiments/stops.py [--stops 15] [--clients 32] [--out FILE]

A sidecar before a stand-in vendor of 5 ms is told to stop, by SIGTERM, while half of the clients
keep their connections and half make one for each request. A request must be answered with 200, or
find nobody listening any longer. One that got in and was reset, cut short or refused counts as a
failure, and the script exits with 1; so does a decision in the log that nobody was told of.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import aiohttp
from _shared import RESULTS, run_as_script, write_json

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import fairmend
import serving
import vendors

UNTIL_STOP = 0.6
"""Seconds of load before it is told to stop."""


async def client(
    url: str, bodies: list[bytes], keep: bool, seen: Counter[str], told: set[str]
) -> None:
    """Ask until nobody listens."""
    connector = aiohttp.TCPConnector(force_close=not keep)
    headers = {"Content-Type": "application/json"}
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
        for body in bodies:
            try:
                async with session.post(url, data=body) as response:
                    await response.read()
                    seen[str(response.status)] += 1
                    if response.status == 200:
                        told.add(response.headers["Fairmend-Decision"])
            except aiohttp.ClientConnectorError:
                seen["nobody listens"] += 1
                return
            except aiohttp.ClientError as error:
                seen[type(error).__name__] += 1


async def load(
    sidecar: serving.Sidecar, clients: int, bodies: list[bytes]
) -> tuple[Counter[str], set[str]]:
    """Clients that ask while the sidecar is told to stop."""
    seen: Counter[str] = Counter()
    told: set[str] = set()
    url = sidecar.url + "/predict"
    asking = [
        asyncio.create_task(client(url, bodies[number:] + bodies, number % 2 == 0, seen, told))
        for number in range(clients)
    ]
    await asyncio.sleep(UNTIL_STOP)
    sidecar.process.send_signal(signal.SIGTERM)
    await asyncio.gather(*asking)
    return seen, told


def main() -> int:
    """Stop again and again; 1 if anybody was reset, or anything was decided in silence."""
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--stops", type=int, default=15)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--out", type=Path, default=RESULTS / "stops.json")
    given = parser.parse_args()
    X, y, group = vendors.people()
    records = X.assign(group=group.to_numpy(), id=range(len(X))).to_dict("records")
    bodies = [json.dumps({"instances": [record]}).encode() for record in records]
    repaired = fairmend.RepairedClassifier(
        serving.decide, "fnr", immutable=["age"], key=bytes.fromhex(serving.KEY)
    ).fit(X, y, sensitive_features=group)
    total: Counter[str] = Counter()
    silent, began = 0, time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        repaired.save(Path(name) / "repair.zip")
        vendor = serving.Vendor(0.005)
        for stop in range(given.stops):
            folder = Path(name) / str(stop)
            folder.mkdir()
            sidecar = serving.Sidecar(
                folder, Path(name) / "repair.zip", vendor.url, mode="repair",
                drain_seconds=0.5, concurrency=4 * given.clients,
            )  # fmt: skip
            seen, told = asyncio.run(load(sidecar, given.clients, bodies))
            seen[f"exit {sidecar.stop()}"] += 1
            with sqlite3.connect(sidecar.log) as db:
                logged = {
                    one.partition("/")[0] for (one,) in db.execute("SELECT decision FROM decisions")
                }
            silent += len(logged - told)
            total += seen
        vendor.close()
    fine = {"200", "nobody listens", "exit 0"}
    failed = {what: count for what, count in total.items() if what not in fine}
    print(f"{given.stops} stops under load of {given.clients} clients in "
          f"{time.perf_counter() - began:.0f} s: {total['200']:,} requests answered, "
          f"{sum(failed.values())} failed, {silent} decided that nobody was told of")  # fmt: skip
    for what, count in failed.items():
        print(f"  {what}: {count}")
    write_json(given.out, {"stops": given.stops, "seen": dict(total), "silent": silent})
    return int(bool(failed or silent))


if __name__ == "__main__":
    run_as_script(main)
