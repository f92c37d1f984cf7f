"""The walk of test_connect.py: run in a process of its own, against a Spark Connect server.

A session of Connect and a classic one cannot live in one process. What the engine said about
people.parquet goes to said.json, and the mapped rows to mapped.parquet and edited.parquet.
"""

import json
import os
import sys
import warnings
from pathlib import Path

import narwhals as nw
from lending import INPUTS, vendor

import fairmend
from fairmend import engines


def failing():
    def score(rows):
        raise ConnectionError("503 service unavailable")

    return score


def walk(folder):
    """Tabulate, audit, fit, map and merge, from a frame of Connect and from a table by name."""
    from pyspark.sql import SparkSession

    sys.path.append(str(Path(__file__).parents[1]))
    from sparks import QUICK

    session = SparkSession.builder.remote("local[2]").config(map=QUICK).getOrCreate()
    frame = session.read.parquet(str(folder / "people.parquet")).repartition(3, "id")
    place = engines.source(frame, inputs=INPUTS)
    said = {"frame": f"{type(frame).__module__}.{type(frame).__name__}"}
    columns = [*INPUTS, "sex", "repaid"]
    said["people"] = engines.tabulate(frame, columns, sample_weight="w").people.tolist()
    few = engines.source(frame, inputs=INPUTS, suppress_below=30, small_cells="merge")
    merged = engines.tabulate(few, columns)
    rows = nw.from_native(merged.frame.native, eager_only=True).to_pandas()
    said["merged"] = [rows.to_csv(index=False), merged.people.tolist()]
    audit = fairmend.audit(vendor(), place, "repaid", sensitive_features="sex", sample_weight="w")
    said["audit"] = audit.to_dict()
    repaired = fairmend.RepairedClassifier(vendor(), "sp", random_state=0)
    repaired.fit(place, "repaid", sensitive_features="sex")
    about = {"sensitive_features": "sex", "ids": "id"}
    engines.map_rows(repaired, frame, **about).write.parquet(str(folder / "mapped.parquet"))
    edited = engines.map_rows(repaired, frame, what="transform", **about)
    edited.write.parquet(str(folder / "edited.parquet"))
    frame.createOrReplaceTempView("applicants")
    said["by_name"] = engines.tabulate("applicants", ["sex"]).people.tolist()
    for key, call in {
        "no_name": lambda: engines.tabulate("aplicants", ["sex"]),
        "no_column": lambda: fairmend.audit("sayd", place, "repaid", sensitive_features="sex"),
        "failing": lambda: _failing(repaired, frame, about),
    }.items():
        try:
            call()
        except Exception as error:
            said[key] = str(error)
    (folder / "said.json").write_text(json.dumps(said))
    session.stop()


def _failing(repaired, frame, about):
    repaired.box_ = fairmend.BlackBox(failing())
    engines.map_rows(repaired, frame, remember=False, retries=1, **about).count()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    walk(Path(sys.argv[1]))
