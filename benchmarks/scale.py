"""Data that outgrows memory: counted, audited, mended and applied, against the engine's own work.

    python benchmarks/scale.py [--rows 10000000] [--floats 2000000] [--continuous 0]
                               [--out results/scale.json]
    python benchmarks/scale.py --cluster 50000000 [--engine dask] [--keep rows]   # clusters alone

Rows are generated into Parquet: 18 yes-or-no columns, a group, an outcome and an id. Every step
runs in a process of its own, so that its peak memory is its own; what is compared takes turns. The
whole walk (audit, fit, apply) is measured at a hundredth, a tenth and all of the rows.

Exits with 1 if a bar is missed: counting the 18 columns takes at most 0.65 of the CPU time of a
Polars group-by over them, and 512 MB; applying a repair takes at most 3 times a bare Parquet copy
by the same engine (both from 10 million rows on; below, what is paid once weighs); the walk stays
under 2 GB and its time grows with an exponent of at most 1.05; as many distinct rows of floats as
--floats says are counted under 2 GB. With --continuous, so many people with 10 continuous features
are audited and mended under 2 GB: the gap on people kept apart must be within the noise, 95 % of
those to be edited must find a place to go to that the model confirms, and the search for it must
find 95 % of the nearest donors, compared with all of them. How much further that is than to the
nearest among all rows of the data, which no repair keeps, is shown.

With --cluster, so many people with 10 amounts and 4 categories in Parquet are audited, repaired and
decided about on Dask and on Spark, each with two workers of 2 GB. The audit must be exact to 12
digits and take at most 3 times a plain scan by the same engine plus the model's own time, the fit
at most 6 times; at most 1 % of the rows, or of keys, may come here; on all rows the gap must be
closed to within half a person; each worker with what it started, and the driver, stay under 2 GB.
--keep says where the rows are generated, and found by the next run.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import Any

import _cluster
import numpy as np

INPUTS = [f"x{j}" for j in range(18)]
CHUNK = 1_000_000
COUNT_BAR, COUNT_MB = 0.65, 512
COPY_BAR, WALK_MB, EXPONENT_BAR = 3.0, 2048, 1.05
ROUNDS = 3
JUDGED_FROM = 10_000_000
"""Below so many rows ratios are shown but not judged: what is paid once weighs."""


class Vendor:
    """A stand-in for a vendor's model, quick enough not to be what is measured."""

    def predict_proba(self, rows: Any) -> np.ndarray:
        """Two columns of class probabilities."""
        z = np.asarray(rows, np.float32) @ np.linspace(1.0, -0.3, 18, dtype=np.float32) - 1.6
        p = 1 / (1 + np.exp(-z))
        return np.stack([1 - p, p], axis=1)


# -------------------------------------------------------------------- data


def generate(path: Path, rows: int) -> None:
    """Write people into a Parquet file, a chunk at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer = None
    share = np.linspace(0.05, 0.5, 18, dtype=np.float32)
    for start in range(0, rows, CHUNK):
        n = min(CHUNK, rows - start)
        rng = np.random.default_rng(start)
        group = rng.integers(0, 2, n)
        bits = rng.random((n, 18), np.float32) < share * np.where(group == 0, 0.75, 1.0)[:, None]
        outcome = rng.random(n) < 0.2 + 0.03 * bits.sum(axis=1)
        columns = {name: bits[:, j].astype(np.uint8) for j, name in enumerate(INPUTS)}
        table = pa.table(
            {
                **columns,
                "group": np.array(["a", "b"])[group],
                "y": outcome.astype(np.uint8),
                "id": np.arange(start, start + n),
            }
        )
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table, row_group_size=250_000)
    assert writer is not None
    writer.close()


def generate_floats(path: Path, rows: int) -> None:
    """Write distinct rows of four floats."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer = None
    for start in range(0, rows, CHUNK):
        rng = np.random.default_rng(start)
        n = min(CHUNK, rows - start)
        table = pa.table({f"f{j}": rng.random(n) for j in range(4)})
        writer = writer or pq.ParquetWriter(path, table.schema, use_dictionary=False)
        writer.write_table(table)
    assert writer is not None
    writer.close()


CONTINUOUS = [f"v{j}" for j in range(10)]
SLOPES = np.linspace(0.6, -0.2, 10)


def generate_continuous(path: Path, rows: int, seed: int) -> None:
    """Write people with ten continuous features, nearly all of them distinct."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer = None
    for start in range(0, rows, CHUNK):
        n = min(CHUNK, rows - start)
        rng = np.random.default_rng([seed, start])
        group = rng.integers(0, 2, n)
        X = rng.normal(size=(n, 10))
        X[:, :2] -= 0.25 * (group == 0)[:, None]
        outcome = rng.random(n) < 1 / (1 + np.exp(-(X @ SLOPES)))
        columns = {name: X[:, j] for j, name in enumerate(CONTINUOUS)}
        table = pa.table(
            {
                **columns,
                "group": np.array(["a", "b"])[group],
                "y": outcome.astype(np.int8),
                "id": np.arange(start, start + n),
            }
        )
        writer = writer or pq.ParquetWriter(path, table.schema, use_dictionary=["group"])
        writer.write_table(table, row_group_size=250_000)
    assert writer is not None
    writer.close()


def continuous_vendor(rows: Any) -> np.ndarray:
    """A score for rows of continuous features."""
    return 1 / (1 + np.exp(0.3 - np.asarray(rows, np.float64) @ SLOPES))


# -------------------------------------------------------------------- steps, each in its process


def count(path: str) -> dict[str, Any]:
    """Count the 18 columns."""
    from fairmend import engines

    return {"cells": len(engines.tabulate(path, INPUTS).people)}


def group_by(path: str) -> dict[str, Any]:
    """The same by Polars alone."""
    import polars as pl

    cells = pl.scan_parquet(path).group_by(INPUTS).agg(pl.len()).collect(engine="streaming")
    return {"cells": len(cells)}


def copy(path: str) -> dict[str, Any]:
    """A bare copy by the engine that applies repairs."""
    import polars as pl

    pl.scan_parquet(path).sink_parquet(f"{path}.copy")
    os.remove(f"{path}.copy")
    return {}


def walk(path: str) -> dict[str, Any]:
    """Audit, fit and apply."""
    import fairmend
    from fairmend import engines

    place = engines.source(path, inputs=INPUTS)
    seconds = {}

    def timed(name: str, work: Callable[[], Any]) -> Any:
        started = time.perf_counter()
        result = work()
        seconds[name] = time.perf_counter() - started
        return result

    audit = timed("audit", lambda: fairmend.audit(Vendor(), place, "y", sensitive_features="group"))
    mended = fairmend.RepairedClassifier(Vendor(), "sp", random_state=0)
    timed("fit", lambda: mended.fit(place, "y", sensitive_features="group"))
    out = Path(f"{path}.applied.parquet")
    cpu = time.process_time()
    done = timed(
        "apply",
        lambda: engines.map_rows(mended, path, sensitive_features="group", ids="id", out=out),
    )
    cpu = time.process_time() - cpu
    after = fairmend.audit(
        fairmend.BlackBox("decision"), out, "y", sensitive_features="group", metrics=["sp"]
    )
    os.remove(out)
    return {
        "steps": seconds,
        "apply_cpu": cpu,
        "rows": done.rows,
        "gap_before": audit["sp", "a"].gap,
        "gap_after": abs(after.gaps[0].gap),
    }


def floats(path: str) -> dict[str, Any]:
    """Count distinct rows of floats under a limit, spilling what exceeds it."""
    from fairmend import engines

    folder = Path(path).parent
    place = engines.source(path, memory_limit="1GB", temp_directory=folder / "spill")
    out = folder / "cells.parquet"
    cells = engines.tabulate_into(out, place, [f"f{j}" for j in range(4)])
    os.remove(out)
    return {"cells": cells}


def continuous(path: str) -> dict[str, Any]:
    """Audit and mend rows that are all distinct, and decide about people kept apart."""
    import fairmend
    from fairmend import engines

    place = engines.source(path, inputs=CONTINUOUS)
    audit = fairmend.audit(continuous_vendor, place, "y", sensitive_features="group")
    mended = fairmend.RepairedClassifier(continuous_vendor, "fnr", random_state=0)
    mended.fit(place, "y", sensitive_features="group")
    out = Path(f"{path}.applied.parquet")
    settings = {"sensitive_features": "group", "ids": "id"}
    engines.map_rows(mended, f"{path}.holdout.parquet", out=out, **settings)
    after = fairmend.audit("decision", out, "y", sensitive_features="group", metrics=["fnr"]).gaps[
        0
    ]
    os.remove(out)
    outlook = mended.plan_.outlook
    recall, longer = near_donors(mended.plan_, path)
    return {
        "people": sum(group.n for group in audit.groups),
        "gap_before": audit["fnr", "a"].gap,
        "gap_after": after.gap,
        "low": after.low,
        "high": after.high,
        "reached": outlook.edited / (outlook.edited + outlook.unreachable),
        "donors": mended.plan_.donors.search.donors,
        "recall": recall,
        "longer": longer,
    }


def near_donors(plan: Any, path: str, people: int = 300) -> tuple[float, float]:
    """Of people kept apart: how many get the nearest donor, and how far it is beyond all rows.

    Both by comparing with everybody; the first with the donors, the second with all rows of the
    target group that have the wanted decision.
    """
    import polars as pl
    from scipy.spatial.distance import cdist

    from fairmend.data.columns import Frame

    def scored(file: str, wanted: bool) -> pl.LazyFrame:
        score = sum(pl.col(name) * slope for name, slope in zip(CONTINUOUS, SLOPES, strict=True))
        rows = pl.scan_parquet(file).filter(pl.col("group") == plan.target)
        return rows.filter((score > 0.3) == wanted).select(CONTINUOUS)

    donors = plan.donors
    asking = Frame.read(scored(f"{path}.holdout.parquet", wanted=False).head(people).collect())
    here, there = donors.cost.place(asking), donors.cost.place(donors.table)
    found = donors._nearest_donor(asking).cost
    nearest = cdist(here, there, "cityblock").min(axis=1)
    best = np.full(len(here), np.inf)
    everybody = scored(path, wanted=True).collect(engine="streaming")
    for start in range(0, len(everybody), 20_000):
        part = donors.cost.place(Frame.read(everybody[start : start + 20_000]))
        best = np.minimum(best, cdist(here, part, "cityblock").min(axis=1))
    return float((found <= nearest + 1e-9).mean()), float(found.mean() / best.mean() - 1)


def dask(path: str) -> dict[str, Any]:
    """The walk on a Dask cluster."""
    return _cluster.walk("dask", Path(path))


def spark(path: str) -> dict[str, Any]:
    """The walk on a Spark cluster."""
    return _cluster.walk("spark", Path(path))


STEPS = {
    step.__name__: step for step in (count, group_by, copy, walk, floats, continuous, dask, spark)
}


def run(step: str, path: Path) -> dict[str, Any]:
    """A step in a fresh process: what it says, its seconds, CPU seconds and peak memory."""
    command = [sys.executable, __file__, "--step", step, "--file", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"step {step} failed:\n{done.stderr}")
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return said


def run_here(step: str, path: str) -> None:
    """The inside of that process; imports are not timed."""
    for package in ("duckdb", "pandas", "polars", "pyarrow.parquet", "fairmend.engines.paths"):
        importlib.import_module(package)

    warnings.simplefilter("ignore")
    started, cpu = time.perf_counter(), time.process_time()
    said = STEPS[step](path)
    said |= {
        "wall": time.perf_counter() - started,
        "cpu": time.process_time() - cpu,
        "peak_mb": peak_mb(),
    }
    print(json.dumps(said))


def peak_mb() -> float:
    """The most memory this process has had; getrusage would count what started it, too."""
    status = Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in status if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


# -------------------------------------------------------------------- the report


def exponent(rows: list[int], seconds: list[float]) -> float:
    """The slope of the logarithm of CPU seconds over that of rows."""
    return float(np.polyfit(np.log(rows), np.log(seconds), 1)[0])


def main() -> int:
    """Run everything and compare with the bars."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--floats", type=int, default=2_000_000)
    parser.add_argument("--continuous", type=int, default=0)
    parser.add_argument("--cluster", type=int, help="rows on Dask and Spark; nothing else is run")
    parser.add_argument("--engine", choices=_cluster.PLACES, help="with --cluster: this one alone")
    parser.add_argument("--keep", type=Path, help="with --cluster: where its rows are and stay")
    parser.add_argument("--folder", type=Path, help="where to put the data; a temporary one")
    parser.add_argument("--out", type=Path, default=Path("results/scale.json"))
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    parser.add_argument("--file", help=argparse.SUPPRESS)
    told = parser.parse_args()
    if told.step:
        run_here(told.step, told.file)
        return 0
    if told.cluster:
        chosen = [told.engine] if told.engine else list(_cluster.PLACES)
        with kept_or_temporary(told.keep) as name:
            result = clusters(Path(name), told.cluster, chosen)
    else:
        with tempfile.TemporaryDirectory(dir=told.folder) as name:
            result = measured(Path(name), told.rows, told.floats)
            if told.continuous:
                add_continuous(result, Path(name), told.continuous)
    from _results import write_json  # not at the top: steps measure their own memory

    write_json(told.out, result)
    for line in result["lines"]:
        print(line)
    return 0 if all(line.startswith("ok") for line in result["lines"]) else 1


def kept_or_temporary(folder: Path | None) -> AbstractContextManager[Any]:
    """A folder that stays, or one that goes."""
    return tempfile.TemporaryDirectory() if folder is None else nullcontext(folder)


def clusters(folder: Path, rows: int, chosen: list[str]) -> dict[str, Any]:
    """The chosen clusters over the same files, which are made where they are not there."""
    files = folder / f"rows-{rows}"
    truth = _cluster.generated(files, rows)
    model = _cluster.model_seconds(files, rows)
    result: dict[str, Any] = {"rows": rows, "cores": os.cpu_count(), "lines": []}
    for engine in chosen:
        said = result[engine] = run(engine, files)
        result["lines"] += [
            line(fine, text) for fine, text in _cluster.lines_of(engine, said, rows, truth, model)
        ]
    return result


def add_continuous(result: dict[str, Any], folder: Path, rows: int) -> None:
    """The same for rows that are all distinct."""
    path = folder / "continuous.parquet"
    generate_continuous(path, rows, 0)
    generate_continuous(Path(f"{path}.holdout.parquet"), max(1, rows // 20), 1)
    said = run("continuous", path)
    fine = said["low"] <= 0 <= said["high"] and said["reached"] >= 0.95
    fine = fine and said["recall"] >= 0.95
    result["continuous"] = said
    result["lines"].append(
        line(
            fine and said["people"] == rows and said["peak_mb"] <= WALK_MB,
            f"{rows:,} rows of continuous features in {said['wall']:.0f} s, peak "
            f"{said['peak_mb']:.0f} MB ({WALK_MB}); fnr gap {100 * said['gap_before']:.2f} points, "
            f"on people kept apart {100 * said['gap_after']:+.2f} [{100 * said['low']:+.2f}, "
            f"{100 * said['high']:+.2f}]; {said['reached']:.1%} find a destination (95 %), "
            f"{said['recall']:.1%} the nearest of {said['donors']:,} donors (95 %), "
            f"{said['longer']:.1%} beyond the nearest of all rows",
        )
    )


def line(fine: bool, text: str) -> str:
    """A figure beside its bar."""
    return f"{'ok  ' if fine else 'MISS'} {text}"


def measured(folder: Path, rows: int, distinct_floats: int) -> dict[str, Any]:
    """All figures, and a line per bar."""
    sizes = [max(1, rows // 100), max(1, rows // 10), rows]
    walks = {}
    for size in sizes:
        path = folder / f"people-{size}.parquet"
        generate(path, size)
        walks[size] = run("walk", path)
    path = folder / f"people-{rows}.parquet"
    best: dict[str, dict[str, Any]] = {}
    for _ in range(ROUNDS if rows >= JUDGED_FROM else 1):
        for step in ("count", "group_by", "copy"):
            said = run(step, path)
            if step not in best or said["cpu"] < best[step]["cpu"]:
                best[step] = said
    path.unlink()
    floats_path = folder / "floats.parquet"
    generate_floats(floats_path, distinct_floats)
    counted = run("floats", floats_path)

    whole = walks[rows]
    totals = [walks[size]["cpu"] for size in sizes]
    count_ratio = best["count"]["cpu"] / best["group_by"]["cpu"]
    copy_ratio = whole["apply_cpu"] / best["copy"]["cpu"]
    slope = exponent(sizes, totals)
    peak = max(walk["peak_mb"] for walk in walks.values())

    assert best["count"]["cells"] == best["group_by"]["cells"]
    per_row = ", ".join(
        f"{size:,} rows {1e9 * total / size:,.0f} ns"
        for size, total in zip(sizes, totals, strict=True)
    )
    lines = [
        line(
            (count_ratio <= COUNT_BAR or rows < JUDGED_FROM)
            and best["count"]["peak_mb"] <= COUNT_MB,
            f"count 18 columns: {best['count']['cpu']:.2f} s, {count_ratio:.2f} of a Polars "
            f"group-by ({COUNT_BAR}); {best['count']['peak_mb']:.0f} MB ({COUNT_MB})",
        ),
        line(
            copy_ratio <= COPY_BAR or rows < JUDGED_FROM,
            f"apply: {whole['apply_cpu']:.2f} s, {copy_ratio:.2f} of a bare copy ({COPY_BAR})",
        ),
        line(peak <= WALK_MB, f"audit, fit, apply: peak {peak:.0f} MB ({WALK_MB})"),
        line(slope <= EXPONENT_BAR, f"exponent {slope:.2f} ({EXPONENT_BAR}); {per_row}"),
        line(
            counted["cells"] == distinct_floats and counted["peak_mb"] <= WALK_MB,
            f"{counted['cells']:,} distinct rows of floats in {counted['wall']:.0f} s, "
            f"peak {counted['peak_mb']:.0f} MB ({WALK_MB})",
        ),
        line(
            whole["gap_after"] < 0.1 * whole["gap_before"],
            f"sp gap {100 * whole['gap_before']:.2f} points, {100 * whole['gap_after']:.2f} after",
        ),
    ]
    return {
        "rows": rows,
        "floats": distinct_floats,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in ("duckdb", "polars", "pyarrow")},
        "walks": {str(size): walk for size, walk in walks.items()},
        "best": best,
        "counted_floats": counted,
        "exponent": slope,
        "lines": lines,
    }


if __name__ == "__main__":
    sys.exit(main())
