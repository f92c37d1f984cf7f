"""Continuous rows on two clusters of this machine: the part of scale.py behind --cluster."""

from __future__ import annotations

import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

NUMBERS = [f"v{j}" for j in range(10)]
WORDS = [f"c{j}" for j in range(4)]
INPUTS = [*NUMBERS, *WORDS]
SLOPES = np.linspace(0.6, -0.2, 10)
A_FILE = 500_000
AUDIT_BAR, FIT_BAR, ROWS_BAR, WORKER_MB = 3.0, 6.0, 0.01, 2048


def vendor(rows: Any) -> np.ndarray:
    """A score of amounts and of one category."""
    z = np.asarray(rows[NUMBERS], np.float64) @ SLOPES - 0.3
    z += 0.4 * (np.asarray(rows["c0"]) == "a")
    return 1 / (1 + np.exp(-z))


def generate(folder: Path, rows: int) -> None:
    """Files of half a million people: ten amounts, four categories, group, outcome, id."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for number, start in enumerate(range(0, rows, A_FILE)):
        n = min(A_FILE, rows - start)
        rng = np.random.default_rng([7, number])
        group = rng.integers(0, 2, n)
        X = rng.normal(size=(n, 10))
        X[:, :2] -= 0.25 * (group == 0)[:, None]
        words = {name: np.array(list("abcd"))[rng.integers(0, 4, n)] for name in WORDS}
        chance = 1 / (1 + np.exp(-(X @ SLOPES)))
        table = pa.table({
            **{name: X[:, j] for j, name in enumerate(NUMBERS)}, **words,
            "group": np.array(["f", "m"])[group], "y": (rng.random(n) < chance).astype(np.int64),
            "id": np.arange(start, start + n),
        })  # fmt: skip
        pq.write_table(table, folder / f"part-{number:04d}.parquet")


def counted(folder: Path) -> dict[tuple[str, int], tuple[int, int]]:
    """People and positive decisions by group and outcome, file by file: the truth, and its time."""
    import pandas as pd

    sums: dict[tuple[str, int], tuple[int, int]] = {}
    for file in sorted(folder.glob("part-*.parquet")):
        part = pd.read_parquet(file)
        part["decided"] = vendor(part) > 0.5
        for key, own in part.groupby(["group", "y"])["decided"]:
            people, positive = sums.get(key, (0, 0))
            sums[key] = people + len(own), positive + int(own.sum())
    return sums


def model_seconds(folder: Path, rows: int) -> float:
    """What querying the model about everybody takes, on two cores."""
    import pandas as pd

    part = pd.read_parquet(folder / "part-0000.parquet")
    started = time.perf_counter()
    vendor(part)
    return (time.perf_counter() - started) * rows / len(part) / 2


# -------------------------------------------------------------------- the clusters


@contextmanager
def dask_rows(folder: Path) -> Iterator[tuple[Any, Callable[[], float]]]:
    """A Dask frame on two workers of 2 GB, and a plain scan of it."""
    import dask.dataframe as dd
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, memory_limit="2GB",
                     dashboard_address=":0") as cluster,
        Client(cluster),
    ):  # fmt: skip
        frame = dd.read_parquet(str(folder / "part-*.parquet"))

        def scan() -> float:
            return float(frame[[*INPUTS, "group", "y"]].map_partitions(
                lambda part: part.memory_usage(deep=False).sum(), meta=("size", "f8")
            ).sum().compute())  # fmt: skip

        yield frame, scan


@contextmanager
def spark_rows(folder: Path) -> Iterator[tuple[Any, Callable[[], float]]]:
    """A Spark frame on two executors of 2 GB, and a plain scan of it."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as f

    session = (
        SparkSession.builder.master("local-cluster[2,1,2048]")
        .config("spark.ui.enabled", "false")
        .config("spark.executor.memory", "1g")
        .config("spark.sql.shuffle.partitions", "8")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    frame = session.read.parquet(str(folder))

    def scan() -> float:
        sums = [f.sum(name) for name in NUMBERS] + [f.max(name) for name in (*WORDS, "group")]
        return float(frame.agg(*sums, f.sum("y")).first()[0])

    try:
        yield frame, scan
    finally:
        session.stop()


PLACES = {"dask": dask_rows, "spark": spark_rows}


class Memory:
    """The peak of each process that this one started, looked at twice a second."""

    def __init__(self) -> None:
        self.peaks: dict[str, float] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        import psutil

        me = psutil.Process()
        while not self._stop.wait(0.5):
            for one in me.children(recursive=True):
                try:
                    name = f"{one.name()} {one.pid}"
                    size = one.memory_info().rss / 2**20
                except psutil.Error:
                    continue
                self.peaks[name] = max(size, self.peaks.get(name, 0.0))


def walk(engine: str, folder: Path) -> dict[str, Any]:
    """Scan, audit, fit and apply on one cluster; what travelled, and how much memory it took."""
    import fairmend
    from fairmend import engines
    from fairmend.engines import settle, summary

    warnings.simplefilter("ignore")
    travelled = {"rows": 0, "keys": 0}
    sampled, cut_by_group = summary.sampled, settle._cut_by_group

    def counting_rows(whole: Any, columns: Any) -> Any:
        travelled["rows"] = len(whole.sample)
        return sampled(whole, columns)

    def counting_keys(data: Any, every: Any, windows: Any, recounted: Any, settings: Any) -> Any:
        travelled["keys"] = len(recounted.near)
        return cut_by_group(data, every, windows, recounted, settings)

    summary.sampled, settle._cut_by_group = counting_rows, counting_keys
    seconds: dict[str, float] = {}

    def timed(name: str, work: Callable[[], Any]) -> Any:
        started = time.perf_counter()
        found = work()
        seconds[name] = time.perf_counter() - started
        return found

    with Memory() as memory, PLACES[engine](folder) as (frame, scan):
        scan()  # workers have started, and imported what they need
        timed("scan", scan)
        place = engines.source(frame, inputs=INPUTS)
        by = {"sensitive_features": "group"}
        audit = timed("audit", lambda: fairmend.audit(vendor, place, "y", **by))
        repaired = fairmend.RepairedClassifier(vendor, "fnr", random_state=0)
        timed("fit", lambda: repaired.fit(place, "y", **by))
        applied = engines.map_rows(repaired, frame, ids="id", **by)
        out = folder.parent / f"{folder.name}-{engine}"
        write = applied.to_parquet if engine == "dask" else applied.write.parquet
        timed("apply", lambda: write(str(out)))
    after = fairmend.audit("decision", str(out / "*.parquet"), "y", metrics=["fnr"], **by)
    outlook = repaired.plan_.outlook
    return {
        "seconds": seconds,
        "rates": {f"{metric} {group}": audit[metric, group].gap
                  for metric, group in (("fnr", "f"), ("sp", "f"))},
        "status": repaired.plan_.status.name,
        "gap_before": outlook.gap_before,
        "gap_after": outlook.gap_after,
        "tolerance": outlook.tolerance,
        "applied": max(after.gaps, key=lambda gap: gap.target == "f").gap,
        "travelled": travelled,
        "worker_mb": max(memory.peaks.values()),
    }  # fmt: skip


def lines_of(
    engine: str, said: dict[str, Any], rows: int, truth: dict[Any, Any], model: float
) -> list[tuple[bool, str]]:
    """Each figure beside its bar."""
    seconds, travelled = said["seconds"], said["travelled"]
    (n_f, one_f), (n_m, one_m) = truth["f", 1], truth["m", 1]
    fnr = (1 - one_f / n_f) - (1 - one_m / n_m)
    off = abs(said["rates"]["fnr f"] - fnr)
    audit = (seconds["audit"] - model) / seconds["scan"]
    fit = seconds["fit"] / seconds["scan"]
    share = (travelled["rows"] + travelled["keys"]) / rows
    left = 100 * said["gap_after"]
    found = [
        (off <= 1e-12, f"fnr gap {100 * fnr:+.6f} points, off by {off:.1e} (1e-12)"),
        (
            audit <= AUDIT_BAR,
            f"audit {seconds['audit']:.1f} s, less {model:.1f} s of the model {audit:.2f} of a "
            f"scan ({AUDIT_BAR})",
        ),
        (
            fit <= FIT_BAR,
            f"fit {seconds['fit']:.1f} s, {fit:.2f} of a scan ({FIT_BAR}); apply and write "
            f"{seconds['apply']:.1f} s",
        ),
        (
            share <= ROWS_BAR,
            f"{travelled['rows']:,} rows and {travelled['keys']:,} keys came here, {share:.2%} "
            f"of the rows ({ROWS_BAR:.0%})",
        ),
        (
            abs(said["gap_after"]) <= said["tolerance"] + 1e-12,
            f"{said['status']}: fnr gap on all rows {left:+.6f} points; as applied and counted "
            f"{100 * said['applied']:+.6f}",
        ),
        (
            said["worker_mb"] <= WORKER_MB,
            f"largest worker process {said['worker_mb']:.0f} MB ({WORKER_MB})",
        ),
    ]
    return [(fine, f"{engine}: {text}") for fine, text in found]
