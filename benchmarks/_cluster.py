"""Continuous rows on two clusters of this machine: the part of scale.py behind --cluster."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

NUMBERS = [f"v{j}" for j in range(10)]
WORDS = [f"c{j}" for j in range(4)]
INPUTS = [*NUMBERS, *WORDS]
SLOPES = np.linspace(0.6, -0.2, 10)
A_FILE = 500_000
WARM = 4
"""Files that are audited before anything is timed, so that workers have imported what they need."""
AUDIT_BAR, FIT_BAR, ROWS_BAR, WORKER_MB = 3.0, 6.0, 0.01, 2048

# As docs/scale.md says: Dask's workers give memory back so eagerly that arrays cost twice the time.
MALLOC = {"MALLOC_TRIM_THRESHOLD_": 256 << 20, "MALLOC_MMAP_THRESHOLD_": 32 << 20}


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


Counts = dict[str, tuple[int, int]]


def generated(folder: Path, rows: int) -> Counts:
    """The truth about the rows in a folder, which are made if they are not there."""
    told = folder.with_suffix(".json")
    if not told.exists():
        folder.mkdir(parents=True, exist_ok=True)
        generate(folder, rows)
        told.write_text(json.dumps(counted(folder)))
    return {key: tuple(both) for key, both in json.loads(told.read_text()).items()}


def counted(folder: Path) -> Counts:
    """People and positive decisions by group and outcome, file by file, in pandas."""
    import pandas as pd

    sums: Counts = {}
    for file in sorted(folder.glob("part-*.parquet")):
        part = pd.read_parquet(file)
        part["decided"] = vendor(part) > 0.5
        for (group, y), own in part.groupby(["group", "y"])["decided"]:
            people, positive = sums.get(f"{group}{y}", (0, 0))
            sums[f"{group}{y}"] = people + len(own), positive + int(own.sum())
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
def dask_rows(folder: Path) -> Iterator[tuple[Any, Any, Callable[[], float]]]:
    """A Dask frame on two workers of 2 GB, its first files, and a plain scan of it."""
    import dask
    import dask.dataframe as dd
    from distributed import Client, LocalCluster

    dask.config.set({f"distributed.nanny.pre-spawn-environ.{name}": value
                     for name, value in MALLOC.items()})  # fmt: skip
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, memory_limit="2GB",
                     dashboard_address=":0") as cluster,
        Client(cluster),
    ):  # fmt: skip
        frame = dd.read_parquet(str(folder / "part-*.parquet"))

        def scan() -> float:
            now = time.perf_counter()  # a new number, or Dask remembers what it said
            sizes = frame[[*INPUTS, "group", "y"]].map_partitions(
                lambda part, _: part.memory_usage(deep=False).sum(), now, meta=("size", "f8")
            )
            return float(sizes.sum().compute())

        yield frame, frame.partitions[:WARM], scan


@contextmanager
def spark_rows(folder: Path) -> Iterator[tuple[Any, Any, Callable[[], float]]]:
    """A Spark frame on two executors of 2 GB, its first files, and a plain scan of it."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as f

    session = (
        SparkSession.builder.master("local-cluster[2,1,2048]")
        .config("spark.ui.enabled", "false")
        .config("spark.executor.memory", "1g")
        .config("spark.executorEnv.PYTHONPATH", os.pathsep.join(sys.path))
        .config("spark.sql.shuffle.partitions", "8")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    frame = session.read.parquet(str(folder))

    def scan() -> float:
        sums = [f.sum(name) for name in NUMBERS] + [f.max(name) for name in (*WORDS, "group")]
        return float(frame.agg(*sums, f.sum("y")).first()[0])

    first = session.read.parquet(*map(str, sorted(folder.glob("part-*.parquet"))[:WARM]))
    try:
        yield frame, first, scan
    finally:
        session.stop()


PLACES = {"dask": dask_rows, "spark": spark_rows}


class Memory:
    """The peak of each executor with all it started, and of everything else, twice a second."""

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

    @property
    def worker(self) -> float:
        """Of the largest worker, in MB."""
        return max(mb for name, mb in self.peaks.items() if name != "here")

    def _watch(self) -> None:
        import psutil

        me = psutil.Process()
        while not self._stop.wait(0.5):
            now: dict[str, float] = {}
            with suppress(psutil.Error):
                self._add(now, me, "here")
            for name, mb in now.items():
                self.peaks[name] = max(mb, self.peaks.get(name, 0.0))

    def _add(self, now: dict[str, float], process: Any, name: str) -> None:
        """Workers are known by what they run, and what they start is theirs."""
        import psutil

        with suppress(psutil.Error):
            told = " ".join(process.cmdline())
            if "CoarseGrainedExecutorBackend" in told or "multiprocessing.spawn" in told:
                name = f"worker {process.pid}"
            usage = process.memory_full_info().pss if name != "here" else process.memory_info().rss
            now[name] = now.get(name, 0.0) + usage / 2**20
            for child in process.children():
                self._add(now, child, name)


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

    with Memory() as memory, PLACES[engine](folder) as (frame, first, scan):
        by = {"sensitive_features": "group"}
        scan()
        fairmend.audit(vendor, engines.source(first, inputs=INPUTS), "y", **by)
        timed("scan", scan)
        place = engines.source(frame, inputs=INPUTS)
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
        "worker_mb": memory.worker,
        "here_mb": memory.peaks["here"],
    }  # fmt: skip


def lines_of(
    engine: str, said: dict[str, Any], rows: int, truth: Counts, model: float
) -> list[tuple[bool, str]]:
    """Each figure beside its bar."""
    seconds, travelled = said["seconds"], said["travelled"]
    (n_f, one_f), (n_m, one_m) = truth["f1"], truth["m1"]
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
            f"largest worker {said['worker_mb']:.0f} MB ({WORKER_MB})",
        ),
        (
            said["here_mb"] <= WORKER_MB,
            f"driver, with what it started beside workers, {said['here_mb']:.0f} MB ({WORKER_MB})",
        ),
    ]
    return [(fine, f"{engine}: {text}") for fine, text in found]
