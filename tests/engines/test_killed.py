"""Continuous rows on Dask and Spark, of which a worker is killed: the same to the byte.

The kill happens while a worker is inside the model, which says so in a file, so that it always
comes in the middle of the work: when the rows are sampled, when the repair is settled on all of
them, and when it is applied.
"""

import os
import shutil
import signal
import sys
import threading
import time
from contextlib import ExitStack, contextmanager

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lending import AMOUNTS, lender, lower_limits, make_lending

import fairmend
from fairmend import engines
from fairmend.engines import settle
from sparks import QUICK

ROWS, PARTS = 8_000, 8

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
    pytest.mark.filterwarnings("ignore:X has 8,000 rows", "ignore:For the gap in"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """People in eight files, a partition each."""
    folder = tmp_path_factory.mktemp("people")
    people = make_lending(ROWS)
    size = ROWS // PARTS
    for number in range(PARTS):
        part = people.iloc[number * size : (number + 1) * size]
        pq.write_table(
            pa.Table.from_pandas(part, preserve_index=False), folder / f"{number}.parquet"
        )
    return folder


@pytest.fixture(autouse=True)
def small_limits(monkeypatch):
    lower_limits(monkeypatch)


def slow_lender(log, scored=lender()):  # noqa: B008  the model travels inside
    """Each process that is queried about many rows writes down that it is, and takes its time."""

    def score(rows):
        if len(rows) > 100 and os.path.exists(log):
            with open(os.path.join(log, str(os.getpid())), "a") as calls:
                calls.write(".")
            time.sleep(0.2)
        return scored(rows)

    return score


class Killer(threading.Thread):
    """Kills a process that is inside the model, once so many calls were made on workers."""

    def __init__(self, log, after, victim_of):
        super().__init__(daemon=True)
        self.log, self.after, self.victim_of, self.killed = log, after, victim_of, None

    def run(self):
        until = time.monotonic() + 60
        while time.monotonic() < until and self.killed is None:
            here = str(os.getpid())  # which queries the model too, and is not to be killed
            calls = [path for path in self.log.iterdir() if path.name != here]
            if sum(path.stat().st_size for path in calls) >= self.after:
                last = max(calls, key=lambda path: path.stat().st_mtime)
                self.killed = self.victim_of(int(last.name))
                os.kill(self.killed, signal.SIGKILL)
            time.sleep(0.01)


@contextmanager
def killing(log, victim_of, after=3):
    """While this lasts, a process is killed after so many calls of the model."""
    log.mkdir()
    killer = Killer(log, after, victim_of)
    killer.start()
    yield
    killer.join(1)
    made = {path.name: path.stat().st_size for path in log.iterdir()}
    assert killer.killed is not None, f"calls were {made}"
    shutil.rmtree(log)


def fit(frame, log):
    repaired = fairmend.RepairedClassifier(slow_lender(log), "fnr", key=bytes(32), random_state=0)
    place = engines.source(frame, inputs=AMOUNTS)
    return repaired.fit(place, "repaid", sensitive_features="sex")


def saved(repaired, folder):
    repaired.save(folder / "repair.fairmend")
    return (folder / "repair.fairmend").read_bytes()


def decisions(folder):
    rows = pd.concat([pq.read_table(path).to_pandas() for path in folder.glob("*.parquet")])
    return rows.set_index("id")["decision"].sort_index()


@pytest.fixture(scope="module")
def undisturbed(folder, tmp_path_factory):
    """The repair as bytes, and all decisions, where nobody is killed: without a cluster."""
    import dask
    import dask.dataframe as dd

    out = tmp_path_factory.mktemp("undisturbed")
    with dask.config.set(scheduler="sync"), pytest.MonkeyPatch.context() as patch:
        lower_limits(patch)
        frame = dd.read_parquet(str(folder / "*.parquet"))
        repaired = fit(frame, log_of(folder))
        mapped = engines.map_rows(repaired, frame, sensitive_features="sex", ids="id")
        mapped.to_parquet(str(out / "rows"))
    return saved(repaired, out), decisions(out / "rows")


def log_of(folder):
    """Where calls are written: one place, or the model is another one."""
    return folder.with_name("calls")


def walk(frame, write, *, victim_of, log, tmp_path, undisturbed, monkeypatch):
    """Fit and apply, and kill in both passes of the one and in the other."""
    repair, decided = undisturbed
    settled, first_pass = settle.Settler.__call__, ExitStack()

    def settle_while_killing(*given):
        first_pass.close()
        with killing(log, victim_of):
            return settled(*given)

    monkeypatch.setattr(settle.Settler, "__call__", settle_while_killing)
    first_pass.enter_context(killing(log, victim_of))
    repaired = fit(frame, log)
    assert saved(repaired, tmp_path) == repair, "the same to the byte"
    mapped = engines.map_rows(repaired, frame, sensitive_features="sex", ids="id", remember=False)
    with killing(log, victim_of):
        write(mapped, str(tmp_path / "out"))
    there = decisions(tmp_path / "out")
    assert there.index.is_unique
    assert there.index.equals(decided.index)
    assert there.to_numpy().tobytes() == decided.to_numpy().tobytes()


def test_a_dask_worker_killed_changes_nothing(folder, tmp_path, undisturbed, monkeypatch):
    import dask.dataframe as dd
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0",
                     local_directory=str(tmp_path)) as cluster,
        Client(cluster),
    ):  # fmt: skip
        frame = dd.read_parquet(str(folder / "*.parquet"))

        def write(rows, out):
            rows.to_parquet(out)

        walk(frame, write, victim_of=lambda pid: pid, log=log_of(folder), tmp_path=tmp_path,
             undisturbed=undisturbed, monkeypatch=monkeypatch)  # fmt: skip


@pytest.fixture
def spark_cluster(monkeypatch):
    """Executors that are processes; what other tests use is one."""
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java, which is not installed")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local-cluster[2,1,1024]")
        .config(map=QUICK)
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.executor.memory", "512m")
        .config("spark.executor.extraJavaOptions", QUICK["spark.driver.extraJavaOptions"])
        .config("spark.executorEnv.PYTHONPATH", os.pathsep.join(sys.path))
        .config("spark.sql.files.maxPartitionBytes", "1000000")
        .config("spark.sql.files.openCostInBytes", "1000000")  # a file each, as on Dask
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


def test_a_spark_executor_killed_changes_nothing(
    spark_cluster, folder, tmp_path, undisturbed, monkeypatch
):
    import psutil

    def executor_of(pid):
        """Python's workers are started by one of them, which the executor starts."""
        executor = psutil.Process(pid).parent().parent()
        assert any("ExecutorBackend" in word for word in executor.cmdline())
        return executor.pid

    def write(rows, out):
        rows.write.parquet(out)

    frame = spark_cluster.read.parquet(str(folder))
    walk(frame, write, victim_of=executor_of, log=log_of(folder), tmp_path=tmp_path,
         undisturbed=undisturbed, monkeypatch=monkeypatch)  # fmt: skip
