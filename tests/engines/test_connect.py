"""Spark Connect: the same answers through a server as in memory."""

import json
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import narwhals as nw
import numpy as np
import pandas as pd
import pytest
from lending import INPUTS, vendor

import fairmend
from fairmend import engines

WALK = Path(__file__).with_name("connect_walk.py")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def walked(tmp_path_factory, people):
    """The folder of the walk, and what it said."""
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java, which is not installed")
    for name in ("grpc", "grpc_status", "zstandard"):
        pytest.importorskip(name, reason="Spark Connect needs pyspark[connect]")
    folder = tmp_path_factory.mktemp("connect")
    people.to_parquet(folder / "people.parquet", index=False)
    command = [sys.executable, str(WALK), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-5_000:]
    return folder, json.loads((folder / "said.json").read_text())


def mapped(folder):
    return pd.read_parquet(folder).sort_values("id", ignore_index=True)


def test_it_is_a_frame_of_connect(walked):
    assert walked[1]["frame"] == "pyspark.sql.connect.dataframe.DataFrame"


def test_cells_are_those_in_memory(walked, people):
    columns = [*INPUTS, "sex", "repaid"]
    _, said = walked
    assert said["people"] == engines.tabulate(people, columns).people.tolist()
    place = engines.source(people, inputs=INPUTS, suppress_below=30, small_cells="merge")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fairmend.FairmendWarning)
        cells = engines.tabulate(place, columns)
    rows = nw.from_native(cells.frame.native, eager_only=True).to_pandas()
    assert said["merged"] == [rows.to_csv(index=False), cells.people.tolist()]
    assert said["by_name"] == people["sex"].value_counts().sort_index().tolist()


def test_the_audit_is_that_in_memory(walked, people):
    found = fairmend.audit(
        vendor(), people[INPUTS], people["repaid"], sensitive_features=people["sex"],
        sample_weight=people["w"],
    )  # fmt: skip
    # weights are eighths, so that their sums are exact: what is told is the same to the last digit
    assert walked[1]["audit"] == json.loads(json.dumps(found.to_dict()))


def test_repaired_decisions_are_those_in_memory(walked, people, fitted):
    said = fitted.predict(people[INPUTS], sensitive_features=people["sex"], ids=people["id"])
    found = mapped(walked[0] / "mapped.parquet")
    np.testing.assert_array_equal(found["decision"], said)
    assert (said != (vendor()(people) > 0.5)).any()
    assert list(found.columns) == [*people.columns, "decision"]


def test_edits_are_those_in_memory(walked, people, fitted):
    edited = fitted.transform(people[INPUTS], sensitive_features=people["sex"], ids=people["id"])
    found = mapped(walked[0] / "edited.parquet")
    for name in INPUTS:
        for one, other in zip(found[name], edited[name], strict=True):
            assert one == other or (pd.isna(one) and pd.isna(other)), name
    assert not edited.equals(people[INPUTS])


def test_mistakes_and_failures_are_told(walked):
    _, said = walked
    assert "no table of Spark's active session. Did you mean 'applicants'?" in said["no_name"]
    assert "'sayd' is not one" in said["no_column"]
    assert "503 service unavailable (2 attempts)" in said["failing"]
    assert "partition " in said["failing"]
