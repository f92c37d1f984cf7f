"""Rows in an object store: a server of moto's on this machine, credentials in the environment."""

import json
import os
import signal
import subprocess
import sys
import time
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from lending import INPUTS, vendor
from typer.testing import CliRunner

import fairmend
from fairmend import engines
from fairmend.cli.main import app
from fairmend.data.addresses import state
from fairmend.data.files import writing
from fairmend.engines import paths
from fairmend.engines.packed import count_packed
from fairmend.errors import DataError, ModelError

SECRET = "a-secret-that-nobody-may-see"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]


@pytest.fixture(scope="module")
def endpoint():
    server = pytest.importorskip("moto.server", reason="an object store needs moto[server]")
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    running.start()
    yield "http://{}:{}".format(*running.get_host_and_port())
    running.stop()


@pytest.fixture
def bucket(endpoint, monkeypatch, people):
    """A bucket with people in three files, and the file system it is in."""
    s3fs = pytest.importorskip("s3fs", reason="addresses need fairmend[s3]")
    for name, value in {
        "AWS_ENDPOINT_URL": endpoint, "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    store = s3fs.S3FileSystem()
    store.mkdir("lake")
    for number, part in enumerate(np.array_split(np.arange(len(people)), 3)):
        with store.open(f"lake/people-{number}.parquet", "wb") as file:
            people.iloc[part].to_parquet(file, index=False)
    yield store
    store.rm("lake", recursive=True)
    s3fs.S3FileSystem.clear_instance_cache()


def test_an_audit_and_a_repair_are_those_in_memory(bucket, people, fitted):
    place = engines.source("s3://lake/people-*.parquet", inputs=INPUTS)
    found = fairmend.audit(vendor(), place, "repaid", sensitive_features="sex")
    expected = fairmend.audit(
        vendor(), people[INPUTS], people["repaid"], sensitive_features=people["sex"]
    )
    pd.testing.assert_frame_equal(found.to_frame(), expected.to_frame(), rtol=1e-12)
    repaired = fairmend.RepairedClassifier(vendor(), "sp", random_state=0)
    repaired.fit(place, "repaid", sensitive_features="sex")
    assert repaired.plan_.outlook == fitted.plan_.outlook


def test_few_values_are_counted_by_polars_own_reader(bucket, people, monkeypatch):
    counted = []

    def packed(files, domains):
        counted.append(files)
        return count_packed(files, domains)

    monkeypatch.setattr(paths, "count_packed", packed)
    cells = engines.tabulate("s3://lake/people-*.parquet", ["young", "sex", "repaid"])
    expected = engines.tabulate(people, ["young", "sex", "repaid"])
    pd.testing.assert_frame_equal(
        cells.frame.native, expected.frame.native.reset_index(drop=True), check_dtype=False
    )
    np.testing.assert_array_equal(cells.people, expected.people)
    assert engines.tabulate_into("s3://lake/cells.parquet", "s3://lake/people-*.parquet",
                                 ["young", "sex", "repaid"]) == len(cells.people)  # fmt: skip
    assert pd.read_parquet(bucket.open("lake/cells.parquet"))["__people"].sum() == len(people)
    assert counted == [tuple(f"s3://lake/people-{number}.parquet" for number in range(3))]


def apply(fitted, out, **more):
    return engines.map_rows(
        fitted, "s3://lake/people-*.parquet", sensitive_features="sex", ids="id", out=out, **more
    )


def test_a_changed_input_is_noticed_by_its_etag(bucket, people, fitted, tmp_path):
    first = apply(fitted, tmp_path / "out")
    assert (len(first.written), first.rows) == (3, len(people))
    written = [pd.read_parquet(name) for name in sorted((tmp_path / "out").glob("*.parquet"))]
    said = fitted.predict(people[INPUTS], sensitive_features=people["sex"], ids=people["id"])
    np.testing.assert_array_equal(pd.concat(written)["decision"], said)
    assert apply(fitted, tmp_path / "out").written == ()
    one = bucket.cat_file("lake/people-1.parquet")
    bucket.pipe_file("lake/people-1.parquet", one)  # written again, and the same
    assert apply(fitted, tmp_path / "out").written == ()
    bucket.pipe_file("lake/people-1.parquet", bucket.cat_file("lake/people-2.parquet"))
    with pytest.raises(DataError, match=r"people-1\.parquet"):
        apply(fitted, tmp_path / "out")
    again = apply(fitted, tmp_path / "out", overwrite=True)
    assert [name.name for name in map(type(tmp_path), again.written)] == ["people-1.parquet"]


OPTIONS = {"key": "somebody", "secret": SECRET}


def rows_by(engine):
    """The people in the bucket, by files or by an engine's own reader that is told the secret."""
    import dask.dataframe as dd
    import polars as pl

    where = "s3://lake/people-*.parquet"
    if engine == "polars":
        named = {f"aws_{'access_key_id' if name == 'key' else 'secret_access_key'}": value
                 for name, value in OPTIONS.items()}  # fmt: skip
        return pl.scan_parquet(where, storage_options=named)
    if engine == "dask frame":
        return dd.read_parquet(where, storage_options=OPTIONS)
    return where


@pytest.mark.parametrize("engine", ["files", "polars", "dask frame"])
def test_credentials_are_nowhere(engine, bucket, tmp_path, caplog, capfd):
    import cloudpickle
    import dask

    rows = rows_by(engine)
    if engine != "files":  # only the options say it
        assert SECRET.encode() in cloudpickle.dumps(rows)
    place, told = engines.source(rows, inputs=INPUTS), []
    repaired = fairmend.RepairedClassifier(vendor(), "sp", random_state=0)
    about = {"sensitive_features": "sex", "ids": "id"}

    def failing(rows):
        raise ConnectionError("gone")

    broken = fairmend.RepairedClassifier(failing, "sp")
    with (
        dask.config.set(scheduler="sync"),
        warnings.catch_warnings(record=True) as warned,
        caplog.at_level("INFO"),
    ):
        warnings.simplefilter("always")
        repaired.fit(place, "repaid", sensitive_features="sex")
        mistakes = [
            lambda: broken.fit(place, "repaid", sensitive_features="sex"),
            lambda: fairmend.audit("said", rows, "repayed", sensitive_features="sex"),
            lambda: engines.map_rows(repaired, rows, out="s3://nowhere/out.parquet", **about),
        ]
        if engine == "files":
            bucket.pipe_file("lake/damaged/one.parquet", b"PAR1 and no more")
            mistakes.append(lambda: fairmend.audit(
                "said", "s3://lake/damaged/one.parquet", "repaid", sensitive_features="sex"
            ))  # fmt: skip
        for mistake in mistakes:
            with pytest.raises((DataError, ModelError)) as refused:
                mistake()
            told.append(str(refused.value))
        if engine != "dask frame":
            done = engines.map_rows(repaired, rows, out="s3://lake/out", **about)
            assert done.rows == 3_000
            told += [repr(done), *map(repr, bucket.find("lake/out", detail=True).values())]
        repaired.report(place, "repaid", sensitive_features="sex").save_html(tmp_path / "it.html")
    repaired.save(tmp_path / "repair.fairmend")
    (tmp_path / "pickle").write_bytes(cloudpickle.dumps(repaired))
    for number, name in enumerate(bucket.find("lake/out")):
        (tmp_path / f"{number}.parquet").write_bytes(bucket.cat_file(name))
    told += [repr(place), repr(repaired), repr(repaired.plan_), repr(repaired.audit_)]
    told += [str(one.message) for one in warned] + [one.getMessage() for one in caplog.records]
    assert SECRET not in "".join([*told, *capfd.readouterr()])
    made = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(made) >= 3
    for path in made:
        assert SECRET.encode() not in path.read_bytes(), path
        if path.suffix == ".fairmend":
            with zipfile.ZipFile(path) as members:
                assert not [
                    one for one in members.namelist() if SECRET.encode() in members.read(one)
                ]
        if path.suffix == ".parquet":  # what a run goes on by
            assert SECRET not in str(pq.read_metadata(path).metadata)


@pytest.mark.parametrize(
    "address",
    [
        f"s3://somebody:{SECRET}@lake/people-0.parquet",
        f"https://lake.example/people.parquet?X-Amz-Signature={SECRET}",
    ],
    ids=["as its user", "as a signature"],
)
def test_an_address_that_holds_credentials_is_refused(address, bucket, fitted):
    about = {"sensitive_features": "sex"}
    for work in (
        lambda: fairmend.audit("said", address, "repaid", **about),
        lambda: engines.map_rows(
            fitted, "s3://lake/people-0.parquet", ids="id", out=address, **about
        ),
    ):
        with pytest.raises(DataError, match="without credentials") as refused:
            work()
        assert SECRET not in str(refused.value)


def test_what_is_not_there_or_cannot_be_written_is_told(bucket, fitted):
    with pytest.raises(DataError, match="nothing matches 's3://lake/nobody-"):
        engines.source("s3://lake/nobody-*.parquet")
    for work in (
        lambda: apply(fitted, "s3://nowhere/out"),
        lambda: fairmend.audit("said", "s3://nowhere/it.parquet", "said", sensitive_features="sex"),
    ):
        with pytest.raises(DataError, match=r"'s3://nowhere/.*: must be an address that can be re"):
            work()
    with pytest.raises(DataError, match="must be text where it is an address"):
        apply(fitted, Path("s3://lake/out"))
    with pytest.raises(DataError, match=r"'s3://lake/people-0.parquet' is there"):
        apply(fitted, "s3://lake")
    assert sorted(bucket.ls("lake")) == [f"lake/people-{number}.parquet" for number in range(3)]


def test_a_store_without_credentials_is_told(bucket, tmp_path, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    type(bucket).clear_instance_cache()
    for name in ("s3://lake/people-0.parquet", "s3://lake/people-*.parquet"):
        with pytest.raises(DataError, match="NoCredentialsError: Unable to locate credentials"):
            fairmend.audit("said", name, "said", sensitive_features="sex")


def test_the_command_line_counts_them_and_their_ids(bucket, people):
    """Its own looks at recorded decisions and ids are through the same file system."""
    call = ["audit", "s3://lake/people-*.parquet", "--label", "repaid", "--group", "sex",
            "--predictions", "said", "--id", "id", "--json"]  # fmt: skip
    done = CliRunner().invoke(app, call)
    assert done.exit_code == 0, done.stderr
    women, men = people.groupby("sex")["said"].mean()
    assert json.loads(done.stdout)["gaps"][0]["gap"] == pytest.approx(abs(women - men))


def test_a_store_without_etags_is_asked_for_whatever_tells_contents_apart(tmp_path):
    place = tmp_path / "it.parquet"
    place.write_bytes(b"one")
    before = state(place.as_uri())
    assert state(place.as_uri()) == before
    place.write_bytes(b"two")
    assert state(place.as_uri()) != before


def decisions(store, pattern):
    parts = [pd.read_parquet(store.open(name)) for name in store.glob(pattern)]
    return pd.concat(parts).sort_values("id")["decision"]


def test_results_are_written_there_and_a_run_goes_on(bucket, people, fitted):
    said = fitted.predict(people[INPUTS], sensitive_features=people["sex"], ids=people["id"])
    first = apply(fitted, "s3://lake/out")
    assert first.written == tuple(f"s3://lake/out/people-{number}.parquet" for number in range(3))
    np.testing.assert_array_equal(decisions(bucket, "lake/out/*"), said)
    bucket.rm("lake/out/people-1.parquet")
    again = apply(fitted, "s3://lake/out")
    assert again.written == ("s3://lake/out/people-1.parquet",)
    assert (len(again.skipped), again.rows) == (2, len(people))
    np.testing.assert_array_equal(decisions(bucket, "lake/out/*"), said)
    with pytest.raises(DataError, match="there is such a file, made otherwise"):
        apply(fitted, "s3://lake/out", column="decided")
    one = engines.map_rows(fitted, "s3://lake/people-0.parquet", sensitive_features="sex",
                           ids="id", out="s3://lake/one.parquet")  # fmt: skip
    assert one.written == ("s3://lake/one.parquet",)
    assert len(decisions(bucket, "lake/one.parquet")) == one.rows


@pytest.mark.parametrize("engine", ["polars", "duckdb"])
def test_relations_and_lazy_frames_are_written_there(engine, put, bucket, people, fitted):
    there = put(engine, people)
    about = {"sensitive_features": "sex", "ids": "id", "out": "s3://lake/all.parquet"}
    engines.map_rows(fitted, there, **about)
    said = fitted.predict(people[INPUTS], sensitive_features=people["sex"], ids=people["id"])
    np.testing.assert_array_equal(decisions(bucket, "lake/all.parquet"), said)
    with pytest.raises(DataError, match=r"output 's3://lake/all.parquet': must not exist yet"):
        engines.map_rows(fitted, there, **about)  # nobody can know whether it has changed


def test_nothing_is_there_where_the_model_fails(bucket, people, fitted):
    def failing(rows, scored=vendor()):  # noqa: B008
        if len(bucket.glob("lake/out/*")) == 1:
            raise ConnectionError("gone")
        return scored(rows)

    broken = fairmend.RepairedClassifier(failing, "sp", random_state=0)
    broken.fit(people[INPUTS], people["repaid"], sensitive_features=people["sex"])
    with pytest.raises(ModelError, match=r"people-1.*Nothing of it was written"):
        apply(broken, "s3://lake/out", retries=0, remember=False)
    assert bucket.glob("lake/out/*") == ["lake/out/people-0.parquet"]
    assert not bucket.call_s3("list_multipart_uploads", Bucket="lake").get("Uploads")


def test_what_is_uploaded_so_far_is_given_up(bucket):
    def uploads():
        return len(bucket.call_s3("list_multipart_uploads", Bucket="lake").get("Uploads", []))

    def write(error=None):
        with writing("s3://lake/half") as file:
            file.write(bytes(51 << 20))  # more than is kept back
            assert (uploads(), bucket.exists("lake/half")) == (1, False)
            if error is not None:
                raise error

    with pytest.raises(KeyboardInterrupt):
        write(KeyboardInterrupt())
    assert (uploads(), bucket.exists("lake/half")) == (0, False)
    write()
    assert (uploads(), bucket.size("lake/half")) == (0, 51 << 20)


def test_an_upload_that_cannot_be_completed_is_given_up(bucket, monkeypatch):
    def refused(self):
        raise PermissionError("Access Denied")

    monkeypatch.setattr("s3fs.core.S3File.commit", refused)
    with pytest.raises(DataError, match="Access Denied"), writing("s3://lake/half") as file:
        file.write(bytes(51 << 20))
    assert not bucket.call_s3("list_multipart_uploads", Bucket="lake").get("Uploads", [])


PATH = [os.path.dirname(__file__), os.path.dirname(os.path.dirname(fairmend.__file__))]
"""Where another process finds what is tested, and the vendor."""
KILLED = """
import sys, time
from pathlib import Path
sys.path[:0] = {path!r}
from lending import INPUTS, make_people, vendor
import fairmend
from fairmend import engines

people, scored, log = make_people(), vendor(), Path({log!r})

def waiting(rows):
    if log.exists():
        log.write_text("inside")
        time.sleep(60)
    return scored(rows)

repaired = fairmend.RepairedClassifier(waiting, "sp", random_state=0)
repaired.fit(people[INPUTS], people["repaid"], sensitive_features=people["sex"])
log.touch()
engines.map_rows(repaired, "s3://lake/people-0.parquet", sensitive_features="sex", ids="id",
                 out="s3://lake/out.parquet", remember=False)
"""


def test_nothing_is_there_where_the_process_is_killed(bucket, tmp_path):
    log = tmp_path / "log"
    code = KILLED.format(path=PATH, log=str(log))
    process = subprocess.Popen([sys.executable, "-c", code])
    until = time.monotonic() + 60
    while time.monotonic() < until and not (log.exists() and log.read_text()):
        assert process.poll() is None
        time.sleep(0.02)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert log.read_text() == "inside"
    assert not bucket.exists("lake/out.parquet")


def test_dask_reads_and_writes_there_itself(bucket, people, fitted):
    import dask
    import dask.dataframe as dd

    with dask.config.set(scheduler="sync"):
        frame = dd.read_parquet("s3://lake/people-*.parquet")
        mapped = engines.map_rows(fitted, frame, sensitive_features="sex", ids="id")
        mapped.to_parquet("s3://lake/decided")
        decided = dd.read_parquet("s3://lake/decided").compute()
    said = fitted.predict(people[INPUTS], sensitive_features=people["sex"], ids=people["id"])
    np.testing.assert_array_equal(decided.sort_values("id")["decision"], said)


# -------------------------------------------------------------------- Spark


@pytest.mark.parametrize("cluster", ["spark"])
def test_spark_without_a_connector_is_told_what_to_put_on_the_class_path(cluster, spark):
    hadoop = spark.sparkContext._jvm.org.apache.hadoop.util.VersionInfo.getVersion()
    for scheme in ("s3a", "s3"):
        lines = spark.sparkContext.textFile(f"{scheme}://lake/people.csv")  # read when asked for
        frame = lines.map(lambda line: (line, 1)).toDF("sex string, said int")
        for work in (
            lambda rows: fairmend.audit("said", rows, "said", sensitive_features="sex"),
            lambda rows: engines.tabulate(rows, ["sex"]),
        ):
            with pytest.raises(DataError, match="this session has no connector to S3") as refused:
                work(frame)
            assert f"org.apache.hadoop:hadoop-aws:{hadoop}" in str(refused.value)


ON_SPARK = """
import os, sys
sys.path[:0] = {path!r}
from pyspark.sql import SparkSession
from lending import INPUTS, make_people, vendor
import fairmend
from fairmend import engines

jars, on_s3 = os.environ["FAIRMEND_HADOOP_AWS"], "spark.hadoop.fs.s3a."
settings = {{
    "spark.jars": jars, "spark.driver.extraClassPath": jars.replace(",", os.pathsep),
    "spark.ui.enabled": "false", "spark.driver.bindAddress": "127.0.0.1",
    on_s3 + "endpoint": os.environ["AWS_ENDPOINT_URL"], on_s3 + "path.style.access": "true",
    on_s3 + "connection.ssl.enabled": "false",
    on_s3 + "aws.credentials.provider": "com.amazonaws.auth.EnvironmentVariableCredentialsProvider",
    # older connectors read plain numbers only
    on_s3 + "threads.keepalivetime": "60", on_s3 + "multipart.purge.age": "86400",
    on_s3 + "connection.timeout": "200000", on_s3 + "connection.establish.timeout": "5000",
    on_s3 + "connection.request.timeout": "0",
}}
session = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
frame = session.read.parquet("s3a://lake/people-*.parquet")
repaired = fairmend.RepairedClassifier(vendor(), "sp", random_state=0)
repaired.fit(engines.source(frame, inputs=INPUTS), "repaid", sensitive_features="sex")
mapped = engines.map_rows(repaired, frame, sensitive_features="sex", ids="id")
mapped.write.parquet("s3a://lake/decided")
session.stop()
"""


@pytest.mark.skipif(
    "FAIRMEND_HADOOP_AWS" not in os.environ,
    reason="Spark reads S3 by the jars of hadoop-aws, no package of PyPI: FAIRMEND_HADOOP_AWS",
)
def test_spark_reads_and_writes_there_itself(bucket, people, fitted, monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    code = ON_SPARK.format(path=PATH)
    subprocess.run([sys.executable, "-c", code], check=True, timeout=180)
    said = fitted.predict(people[INPUTS], sensitive_features=people["sex"], ids=people["id"])
    np.testing.assert_array_equal(decisions(bucket, "lake/decided/*.parquet"), said)
