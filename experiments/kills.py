"""Kill replicas and their database under load, and count what was lost.

    python experiments/kills.py [--kills 100] [--log postgresql|sqlite] [--clients 8]
                                [--out results/kills.json]

Two sidecars share one log in a PostgreSQL that is started for this. Clients ask with an
Idempotency-Key each and ask again until they are answered; replicas, the database and both are
killed in turns, with SIGKILL, and started again. At the end every acknowledged decision must be in
the log, nobody may have been decided on twice, and the chain must hold. With SQLite there is one
sidecar, and it alone is killed. Exits with 1 if anything was lost, decided twice or broken.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import fairmend
import killing
import postgres
import serving
import vendors


def main() -> int:
    """Kill, judge, print, write; 1 if anything went wrong."""
    assert __doc__
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--log", choices=("postgresql", "sqlite"), default="postgresql")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--out", type=Path, default=Path("results/kills.json"))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        found = killed(Path(name), given.kills, given.log == "postgresql", given.clients)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(found, indent=1))
    print(json.dumps(found, indent=1))
    bad = found["lost"] or found["decided twice"] or found["answered otherwise"]
    return 1 if bad or found["chain"] != "holds" else 0


def killed(folder: Path, kills: int, shared: bool, clients: int) -> dict[str, object]:
    """What the log says after so many kills."""
    X, y, group = vendors.people()
    repaired = fairmend.RepairedClassifier(
        serving.decide, "fnr", immutable=["age"], key=bytes.fromhex(serving.KEY)
    )
    repaired.fit(X, y, sensitive_features=group).save(folder / "repair.zip")
    vendor, server = serving.Vendor(), postgres.Server() if shared else None
    began = time.monotonic()
    try:
        log = server.database() if server is not None else folder / "decisions.sqlite"
        fleet = killing.Fleet(folder, folder / "repair.zip", vendor, log, 2 if shared else 1)
        asking = killing.Clients(fleet.urls, clients)
        try:
            done = killing.kill_again_and_again(fleet, asking, server, kills, say=print)
        finally:
            asking.stop()
            fleet.stop()
        found = killing.judged(asking, log, serving.log_key())
    finally:
        vendor.close()
        if server is not None:
            server.close()
    return {"log": "postgresql" if shared else "sqlite", "kills": dict(done),
            "seconds": round(time.monotonic() - began), **found}  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
