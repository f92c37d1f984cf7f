"""Rows in an object store: a server of moto's on this machine, credentials in the environment."""

import warnings

import numpy as np
import pandas as pd
import pytest
from lending import INPUTS, vendor

import fairmend
from fairmend import engines
from fairmend.errors import DataError

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


def test_credentials_are_nowhere(bucket, people, fitted, tmp_path):
    place = engines.source("s3://lake/people-*.parquet", inputs=INPUTS)
    repaired = fairmend.RepairedClassifier(vendor(), "sp", random_state=0)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        repaired.fit(place, "repaid", sensitive_features="sex")
    repaired.save(tmp_path / "repair.fairmend")
    apply(repaired, tmp_path / "out")
    repaired.report(place, "repaid", sensitive_features="sex").save_html(tmp_path / "report.html")
    made = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(made) >= 5
    for path in made:
        assert SECRET.encode() not in path.read_bytes(), path
    assert SECRET not in repr((place, repaired.plan_, [str(one.message) for one in said]))
    with pytest.raises(DataError, match="without credentials") as refused:
        fairmend.audit("said", f"s3://somebody:{SECRET}@lake/people-0.parquet", "repaid",
                       sensitive_features="sex")  # fmt: skip
    assert SECRET not in str(refused.value)


def test_what_is_not_there_or_cannot_be_written_is_told(bucket, fitted, tmp_path):
    with pytest.raises(DataError, match="nothing matches 's3://lake/nobody-"):
        engines.source("s3://lake/nobody-*.parquet")
    with pytest.raises(DataError, match="out: must be a path on this machine"):
        apply(fitted, "s3://lake/out")


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
