"""Tables by name: DuckDB's default connection and Spark's active session are looked into."""

import numpy as np
import pandas as pd
import pytest

import fairmend
from fairmend import engines
from fairmend.errors import DataError
from mapped import fetched

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
]

INPUTS = ["a", "b"]


def vendor():
    def score(rows):
        return 1 / (1 + np.exp(1.3 - rows["a"] - rows["b"]))

    return score


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(2)
    n = 2_000
    sex = rng.choice(["f", "m"], n)
    frame = pd.DataFrame(
        {
            "id": np.arange(n),
            "a": rng.integers(0, 3, n),
            "b": (rng.random(n) < np.where(sex == "f", 0.3, 0.6)).astype(np.int64),
            "sex": sex,
        }
    )
    return frame.assign(repaid=(rng.random(n) < 0.2 + 0.2 * frame["a"]).astype(np.int64))


@pytest.fixture(params=["duckdb", "spark"])
def named(request, people):
    """The name of a table that holds the people, and who knows it by that."""
    if request.param == "spark":
        session = request.getfixturevalue("spark")
        session.createDataFrame(people).repartition(3).createOrReplaceTempView("applicants")
        yield "applicants", "Spark's active session"
        session.catalog.dropTempView("applicants")
        return
    import duckdb

    duckdb.register("given", people)
    duckdb.execute("CREATE SCHEMA lake")
    duckdb.execute("CREATE TABLE lake.applicants AS FROM given")
    duckdb.execute("CREATE VIEW applicants AS FROM lake.applicants")
    yield "applicants", "DuckDB's default connection"
    duckdb.execute("DROP VIEW applicants")
    duckdb.execute("DROP SCHEMA lake CASCADE")
    duckdb.unregister("given")


def test_audit_fit_and_map_of_a_named_table(named, people):
    X, y, sex = people[INPUTS], people["repaid"], people["sex"]
    name, _ = named
    place = engines.source(name, inputs=INPUTS)
    found = fairmend.audit(vendor(), place, "repaid", sensitive_features="sex")
    wanted = fairmend.audit(vendor(), X, y, sensitive_features=sex)
    pd.testing.assert_frame_equal(found.to_frame(), wanted.to_frame())

    repaired = fairmend.RepairedClassifier(vendor(), "sp", random_state=0)
    repaired.fit(place, "repaid", sensitive_features="sex")
    reference = fairmend.RepairedClassifier(vendor(), "sp", random_state=0)
    reference.fit(X, y, sensitive_features=sex)
    mapped = fetched(engines.map_rows(repaired, name, sensitive_features="sex", ids="id"))
    said = reference.predict(X, sensitive_features=sex, ids=people["id"])
    np.testing.assert_array_equal(mapped["decision"], said)
    assert (said != (vendor()(X) > 0.5)).any()


def test_duckdb_names_may_have_a_schema(people):
    import duckdb

    duckdb.register("given", people)
    duckdb.execute("CREATE SCHEMA lake")
    try:
        duckdb.execute("CREATE TABLE lake.applicants AS FROM given")
        cells = engines.tabulate("lake.applicants", ["sex"])
    finally:
        duckdb.execute("DROP SCHEMA lake CASCADE")
        duckdb.unregister("given")
    np.testing.assert_array_equal(cells.people, people["sex"].value_counts().sort_index())


def test_a_name_that_is_not_there_is_told_with_those_that_are(named):
    _, where = named
    calls = (
        lambda name: fairmend.audit(vendor(), name, "repaid", sensitive_features="sex"),
        lambda name: engines.tabulate(name, ["sex"]),
        engines.source,
    )
    for call in calls:
        with pytest.raises(DataError) as caught:
            call("aplicants")
        said = str(caught.value)
        assert f"got 'aplicants', which is none of these, and no table of {where}. " in said
        assert "Did you mean 'applicants'?" in said
        with pytest.raises(DataError, match=r"Known: .*'applicants'"):
            call("zzz")
