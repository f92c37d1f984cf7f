"""`fairmend apply` on a large CSV, side by side with copying the file by the same library.

    python benchmarks/apply.py [--size 150] [--repeats 3] [--out results/apply.json]

``--size`` is in megabytes; 5000 is the five gigabytes of the promise. The file is a vendor's scored
file made of the embedded Adult table: sixteen inputs, a score, a group, an id, and columns nobody
asks about. The repair edits every sixth row. The peer is Polars, with which apply reads as well:
``scan_csv(...).sink_csv(...)`` without an edit, once with the types it infers and once with every
column as text, which is what it takes to keep cells such as 007 as they are. Each runs in a process
of its own, in turns; what is compared is the time from opening the file to having written it, the
best of the repeats.

Exits with 1 if a bar is missed: edited rows come at least 60 % as fast as the plain copy, in less
than 500 MB of memory, and four times the file takes no more than a tenth more of it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
from _results import write_json

from fairmend.classifier import RepairedClassifier
from fairmend.datasets import load_adult
from fairmend.tables import TextTable

SPEED, MEMORY_MB, GROWTH = 0.6, 500, 1.1
LEAST_EDITED = 0.1
"""The share of rows that must be edited, or it would be no more than a copy."""
BLOCK_ROWS = 50_000
COPY = """
import sys, time
import polars as pl
started = time.perf_counter()
pl.scan_csv(sys.argv[1], infer_schema=sys.argv[3] == "typed").sink_csv(sys.argv[2])
print(time.perf_counter() - started)
"""


def people(rows: int) -> pl.DataFrame:
    """A scored file: inputs, answers, outcomes and groups of Adult, and columns that only pass."""
    adult = load_adult()
    rng = np.random.default_rng(0)
    chosen = rng.integers(0, len(adult.y), rows)
    inputs = {name: adult.X[name].to_numpy()[chosen] for name in adult.X.columns}
    merit = np.column_stack(list(inputs.values())) @ np.linspace(-1.2, 1.2, len(inputs))
    return pl.DataFrame(
        {
            **inputs,
            "id": [f"@@@@@@{i:06d}" for i in range(rows)],
            "sex": np.asarray(adult.sensitive_features)[chosen].tolist(),
            "score": (1 / (1 + np.exp(1 - merit))).round(3),
            "outcome": adult.y[chosen],
            "zip": [f"{i % 99_999:05d}" for i in range(rows)],
            "remark": rng.choice(["ok", "see file", "paid late twice"], rows).tolist(),
            "amount": (rng.random(rows) * 1e5).round(2),
        }
    )


def write(path: Path, megabytes: int) -> None:
    """The same people again and again, under ever new ids."""
    header, _, rows = people(BLOCK_ROWS).write_csv().encode().partition(b"\n")
    with path.open("wb") as file:
        file.write(header + b"\n")
        block = 0
        while file.tell() < megabytes * 1e6:
            file.write(rows.replace(b"@@@@@@", b"%06d" % block))
            block += 1


def save_repair(path: Path) -> None:
    """Of the recorded scores, on the people of one block."""
    table = people(BLOCK_ROWS // 2)
    names = table.columns[:16]
    mended = RepairedClassifier("score", "fnr", immutable=names[:2], target="Male", random_state=0)
    groups = {"sex": table["sex"]}
    mended.fit(table.select([*names, "score"]), table["outcome"], sensitive_features=groups)
    mended.save(path)


def measured(command: list[str]) -> tuple[str, float]:
    """What a process prints, and the most memory it held, in MB."""
    with tempfile.TemporaryFile() as out:
        running = subprocess.Popen(
            command, stdout=out, env={**os.environ, "FAIRMEND_KEY": "00" * 32}
        )
        _, status, usage = os.wait4(running.pid, 0)
        running.returncode = os.waitstatus_to_exitcode(status)
        if running.returncode:
            raise SystemExit(f"{command[:4]} ended with {running.returncode}")
        out.seek(0)
        return out.read().decode(), usage.ru_maxrss / 1024


def apply(folder: Path, file: Path, emit: str) -> tuple[float, float]:
    """Seconds and megabytes."""
    arguments = ["apply", str(folder / "repair"), str(file), "--emit", emit, "--id", "id"]
    arguments += ["-o", str(folder / "out.csv"), "--force", "--json"]
    said, memory = measured([sys.executable, "-m", "fairmend", *arguments])
    counts = json.loads(said)
    if emit != "decisions" and counts["edited"] < LEAST_EDITED * counts["rows"]:
        raise SystemExit(f"{counts['edited']:,} of {counts['rows']:,} rows are edited: too few")
    return counts["seconds"], memory


def copy(folder: Path, file: Path, kind: str) -> tuple[float, float]:
    """The same, of Polars alone."""
    command = [sys.executable, "-c", COPY, str(file), str(folder / "out.csv"), kind]
    said, memory = measured(command)
    return float(said), memory


def run(size: int, repeats: int, folder: Path) -> dict[str, tuple[float, float]]:
    """Best seconds and most megabytes by contestant."""
    save_repair(folder / "repair")
    files = {part: folder / f"{part}.csv" for part in (size // 4, size)}
    for part, path in files.items():
        write(path, part)
    large, small = files[size], files[size // 4]
    contestants = {
        "Polars copies, types inferred": lambda: copy(folder, large, "typed"),
        "Polars copies, all as text": lambda: copy(folder, large, "text"),
        "apply: edited rows": lambda: apply(folder, large, "rows"),
        "apply: decisions": lambda: apply(folder, large, "decisions"),
        "apply: both": lambda: apply(folder, large, "both"),
        "apply: edited rows, a quarter of the file": lambda: apply(folder, small, "rows"),
    }
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in contestants}
    for _ in range(repeats):
        for name, contestant in contestants.items():
            taken[name].append(contestant())
    return {
        name: (min(s for s, _ in rounds), max(m for _, m in rounds))
        for name, rounds in taken.items()
    }


def main() -> int:
    """Measure, show, and compare with the bars."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", type=int, default=150, help="megabytes of the CSV")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where the files are made")
    parser.add_argument("--out", type=Path, default=Path("results/apply.json"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        found = run(options.size, options.repeats, Path(folder))
    plain = found["Polars copies, types inferred"][0]
    print(
        TextTable(
            f"A CSV of {options.size:,} MB",
            ("<what", "seconds", "MB/s", "speed of the copy", "memory, MB"),
            [
                (
                    name,
                    f"{seconds:.2f}",
                    f"{options.size / (4 if 'quarter' in name else 1) / seconds:.0f}",
                    "" if "quarter" in name else f"{plain / seconds:.0%}",
                    f"{memory:.0f}",
                )
                for name, (seconds, memory) in found.items()
            ],
        )
    )
    seconds, memory = found["apply: edited rows"]
    least = found["apply: edited rows, a quarter of the file"][1]
    bars = {
        f"edited rows at least {SPEED:.0%} as fast as the copy": plain / seconds >= SPEED,
        f"in less than {MEMORY_MB} MB": memory < MEMORY_MB,
        f"and at most {GROWTH - 1:.0%} more for four times the file": memory <= GROWTH * least,
    }
    for bar, met in bars.items():
        print(f"{'met   ' if met else 'MISSED'}  {bar}")
    write_json(options.out, {"size_mb": options.size, "figures": found})
    return 0 if all(bars.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
