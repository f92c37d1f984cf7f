"""Clusters where things go wrong: models that fail or cannot travel, workers that die."""

import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import fairmend
from fairmend import engines
from fairmend.errors import DataError, ModelError

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
]

INPUTS = ["a", "b", "number"]


@pytest.fixture(scope="module")
def people():
    """``number`` tells partitions apart, and with it the batches the model is queried about."""
    rng = np.random.default_rng(0)
    n = 600
    group = rng.choice(["x", "y"], n)
    a = (rng.random(n) < np.where(group == "x", 0.3, 0.6)).astype(np.int64)
    X = pd.DataFrame({"a": a, "b": rng.integers(0, 2, n), "number": np.arange(n) // 200})
    y = (rng.random(n) < 0.2 + 0.3 * X["a"]).astype(np.int64)
    return X.assign(group=group, y=y, id=np.arange(n))


def endpoint(log, failures=0, failing=(0, 1, 2), seconds=0.0):
    """An endpoint that fails at first, on some batches; it writes down each call about one.

    A closure, so that it travels to workers by value; files, because workers are processes.
    """

    def score(rows):
        number = int(rows["number"].iloc[0])
        if rows["number"].nunique() == 1 and log.exists():  # a batch of a map, and not a fit
            time.sleep(seconds)
            with (log / f"batch-{number}").open("a") as calls:
                calls.write(".")
            made = (log / f"batch-{number}").stat().st_size
            if number in failing and made <= failures:
                raise ConnectionError("503 service unavailable")
        return 1 / (1 + np.exp(1.6 - 1.5 * rows["a"] - rows["b"]))

    return score


def fit(people, model):
    repaired = fairmend.RepairedClassifier(model, "sp", random_state=1)
    return repaired.fit(people[INPUTS], people["y"], sensitive_features=people["group"])


def decided(people):
    repaired = fit(people, endpoint(Path("nowhere")))
    return repaired.predict(people[INPUTS], sensitive_features=people["group"], ids=people["id"])


def apply(repaired, frame, **more):
    return engines.map_rows(
        repaired, frame, sensitive_features="group", ids="id", remember=False, **more
    )


@pytest.fixture(params=["dask", "spark"])
def spread(request, people):
    """The people in three partitions, and a function that writes a mapped frame to a folder."""
    parts = [people[people["number"] == number] for number in range(3)]
    if request.param == "dask":
        request.getfixturevalue("dask_client")
        import dask.dataframe as dd
        from dask.delayed import delayed

        frame = dd.from_delayed([delayed(part) for part in parts], meta=people.iloc[:0])
        return frame, lambda mapped, out: mapped.to_parquet(str(out))
    session = request.getfixturevalue("spark")
    frame = session.createDataFrame(people).repartitionByRange(3, "number")
    return frame, lambda mapped, out: mapped.write.parquet(str(out))


def rows_in(folder):
    """What is in the folder's Parquet files; each must be whole."""
    found = [pq.read_table(path).to_pandas() for path in sorted(folder.rglob("*.parquet"))]
    return pd.concat(found).sort_values("id") if found else pd.DataFrame({"number": []})


def test_failing_batches_are_retried_within_a_budget(tmp_path, people, spread):
    frame, write = spread
    log = tmp_path / "log"
    repaired = fit(people, endpoint(log, failures=2))
    mapped = apply(repaired, frame, retries=2)
    log.mkdir()
    write(mapped, tmp_path / "out")
    np.testing.assert_array_equal(rows_in(tmp_path / "out")["decision"], decided(people))
    for number in range(3):  # two that failed, and those that were answered
        assert (log / f"batch-{number}").stat().st_size >= 3


def test_beyond_the_budget_the_partition_is_named_and_nothing_of_it_written(
    tmp_path, people, spread
):
    frame, write = spread
    log = tmp_path / "log"
    repaired = fit(people, endpoint(log, failures=10**6, failing=(1,)))
    mapped = apply(repaired, frame, retries=1)
    log.mkdir()
    told = r"(?s)partition 1 of 200 rows.*503 service unavailable.*\(2 attempts\).*Nothing of it"
    with pytest.raises(Exception, match=told) as caught:
        write(mapped, tmp_path / "out")
    written = rows_in(tmp_path / "out")
    assert 1 not in set(written["number"])
    assert (log / "batch-1").stat().st_size % 2 == 0  # the budget, as often as the engine tries
    if type(frame).__module__.startswith("pyspark"):  # which commits all or nothing
        assert len(written) == 0
        assert not (tmp_path / "out" / "_SUCCESS").exists()
    else:
        assert isinstance(caught.value, ModelError)
        assert (log / "batch-1").stat().st_size == 2


def test_a_model_that_cannot_travel_is_told(people, spread):
    frame, _ = spread
    repaired = fit(people, endpoint(Path("nowhere")))
    lock = threading.Lock()
    repaired.box_.model.__kwdefaults__ = {"lock": lock}
    with pytest.raises(DataError, match="must be something that can be sent to the workers"):
        apply(repaired, frame)


# -------------------------------------------------------------------- Dask: a worker dies


@pytest.fixture
def doomed(tmp_path):
    """A cluster of its own, and a function that kills one of its workers."""
    from distributed import Client, LocalCluster

    cluster = LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=":0", local_directory=str(tmp_path)
    )
    with cluster, Client(cluster) as client:

        def kill_one():
            pids = client.run(os.getpid)
            os.kill(next(iter(pids.values())), signal.SIGKILL)

        yield client, kill_one


@pytest.mark.slow
def test_a_worker_killed_while_a_repair_is_applied_changes_nothing(tmp_path, people, doomed):
    import dask.dataframe as dd

    client, kill_one = doomed
    log = tmp_path / "log"
    repaired = fit(people, endpoint(log, seconds=0.3))
    frame = dd.from_pandas(people, npartitions=12)
    mapped = apply(repaired, frame)
    log.mkdir()
    future = client.compute(mapped)
    while not any(log.iterdir()) and not future.done():
        time.sleep(0.05)
    kill_one()
    assert not future.done()
    result = future.result(timeout=120)
    np.testing.assert_array_equal(result.sort_values("id")["decision"], decided(people))


@pytest.mark.slow
def test_a_worker_killed_while_people_are_counted_changes_nothing(people, doomed):
    import dask.dataframe as dd
    from dask.delayed import delayed

    _, kill_one = doomed

    def slow(part):
        time.sleep(0.3)
        return part

    parts = np.array_split(np.arange(len(people)), 12)
    frame = dd.from_delayed(
        [delayed(slow)(people.iloc[rows]) for rows in parts], meta=people.iloc[:0]
    )
    killing = threading.Timer(1.0, kill_one)
    killing.start()
    cells = engines.tabulate(frame, ["a", "group", "y"])
    assert not killing.is_alive()  # 12 parts of 0.3 s on two workers: it was killed meanwhile
    np.testing.assert_array_equal(cells.people, people.groupby(["a", "group", "y"]).size())
