"""The engines under test, each as a way to put one pandas frame into its kind of place."""

import os
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fairmend

sys.path.insert(0, os.path.dirname(__file__))  # for lending.py


def cut(frame, at=(0, 0, 3, 40)):
    """Parts of very different sizes; two of them are empty."""
    ends = [*at, len(frame)]
    rows = frame if isinstance(frame, pa.Table) else frame.iloc
    return [rows[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)] + [rows[:0]]


def as_table(frame):
    return (
        frame if isinstance(frame, pa.Table) else pa.Table.from_pandas(frame, preserve_index=False)
    )


def as_pandas(frame):
    return frame.to_pandas() if isinstance(frame, pa.Table) else frame


@pytest.fixture(scope="session")
def people():
    from lending import make_people

    return make_people()


@pytest.fixture
def fitted(people):
    from lending import INPUTS, vendor

    repaired = fairmend.RepairedClassifier(vendor(), "sp", random_state=0)
    return repaired.fit(people[INPUTS], people["repaid"], sensitive_features=people["sex"])


@pytest.fixture
def put(request, tmp_path):
    """A function that puts a pandas frame or a PyArrow table where an engine reads it."""

    def parquet(frame):
        folder = tmp_path / "rows"
        folder.mkdir()
        for number, part in enumerate(cut(frame)):
            pq.write_table(as_table(part), folder / f"part-{number}.parquet")
        return str(folder / "*.parquet")

    def csv(frame):
        as_pandas(frame).to_csv(tmp_path / "rows.csv", index=False)
        return tmp_path / "rows.csv"

    def polars(frame):
        import polars as pl

        parts = [pl.from_arrow(as_table(part)) for part in cut(frame)]
        return pl.concat(parts, how="vertical_relaxed").lazy()

    def duckdb(frame):
        import duckdb

        connection = duckdb.connect()
        connection.register("given", as_table(frame))
        connection.execute("CREATE TABLE people AS SELECT * FROM given")
        return connection.table("people")

    def dask(frame):
        request.getfixturevalue("dask_client")
        import dask.dataframe as dd
        from dask.delayed import delayed

        frame = as_pandas(frame)
        return dd.from_delayed([delayed(part) for part in cut(frame)], meta=frame.iloc[:0])

    def spark(frame):
        session = request.getfixturevalue("spark")
        return session.createDataFrame(as_table(frame)).repartition(3, "id")

    by_name = {
        "pandas": as_pandas,
        "parquet": parquet,
        "csv": csv,
        "polars": polars,
        "duckdb": duckdb,
        "dask": dask,
        "spark": spark,
    }

    def put(engine, frame):
        return by_name[engine](frame)

    return put
