"""One law of a row: the same people get the same decisions and edits, whichever way they come in.

2,000 people of binary and mixed inputs, with missing values, go through predict and transform, a
CSV, a Parquet file, a folder, DuckDB, Polars, Dask, Spark, and the sidecar in each protocol. Their
groups are text, booleans, whole numbers, whole numbers that come as floats, or two attributes; some
are missing, and some were not audited.
"""

import asyncio
import json

import numpy as np
import pandas as pd
import polars as pl
import pytest

import fairmend
import vending
from fairmend import engines
from fairmend.apply.files import FileRepairer, Wanted
from fairmend.apply.outputs import Outputs
from fairmend.model.protocols import protocol_named
from fairmend.serve.config import read_config
from fairmend.serve.sidecar import Sidecar
from fairmend.serve.upstream import Upstream
from mapped import assert_same, fetched, plain

N = 2_000
INPUTS = ["member", "urban", "income", "trade"]
KEY = bytes(range(32))

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
]


def make_vendor():
    """A model that shows in its score who has which inputs.

    A closure, so that it travels to workers by value.
    """
    import numpy as np

    def score(rows):
        income = rows["income"].astype(float).fillna(1.5)
        trade = rows["trade"].map({"baker": 0.4, "smith": -0.3}).astype(float).fillna(0.0)
        score = 1.2 * rows["member"] - 0.7 * rows["urban"] + 0.8 * income + trade - 1.6
        return 1 / (1 + np.exp(-score))

    return score


vendor = make_vendor()


def make_people(n, seed):
    rng = np.random.default_rng(seed)
    worse = rng.random(n) < 0.45
    income = rng.integers(0, 7, n) / 2 - 0.5 * worse
    table = pd.DataFrame(
        {
            "member": (rng.random(n) < np.where(worse, 0.3, 0.6)).astype(np.int64),
            "urban": rng.integers(0, 2, n),
            "income": np.where(rng.random(n) < 0.1, np.nan, income),
            "trade": rng.choice(["baker", "smith", "other", None], n, p=[0.3, 0.3, 0.3, 0.1]),
        }
    )
    return table.assign(y=(rng.random(n) < 0.3 + 0.3 * table["member"]).astype(int)), worse


# Each kind of group: the two labels audited, and one that was not.
KINDS = {
    "text": ("F", "M", "X"),
    "bool": (True, False, None),  # there is no third
    "int": (1, 0, 7),
    "float": (1, 0, 7),  # whole numbers that a missing one among them made floats
    "tuple": (("F", True), ("M", True), ("F", "?")),
}


def grouped(table, worse, kind, *, new):
    """The table with columns of groups; among new people some are missing, some not audited."""
    rng = np.random.default_rng(9)
    labels = np.empty(len(table), object)
    labels[:] = [KINDS[kind][0] if one else KINDS[kind][1] for one in worse]
    if new:
        strange = KINDS[kind][2]
        for i in np.flatnonzero(rng.random(len(table)) < 0.04):
            labels[i] = strange
        for i in np.flatnonzero(rng.random(len(table)) < 0.04):
            labels[i] = (None, True) if kind == "tuple" else None
    if kind == "tuple":
        sexes, olds = zip(*labels, strict=True)
        return table.assign(sex=sexes, old=[str(old) for old in olds]), ["sex", "old"]
    column = pd.Series(list(labels), dtype=object)
    if kind == "float" and new:
        column = column.astype(float)
    elif not new:
        column = column.infer_objects()
    elif kind == "int":
        column = column.astype("Int64")
    elif kind == "bool":
        column = column.astype("boolean")
    return table.assign(sex=column), ["sex"]


class Case:
    """A repair, new people, and what predict and transform make of them."""

    def __init__(self, kind, folder):
        audited, names = grouped(*make_people(3_000, 0), kind, new=False)
        repaired = fairmend.RepairedClassifier(
            make_vendor(), "sp", key=KEY, unknown_group="keep", immutable=["urban"]
        )
        self.repaired = repaired.fit(
            audited[INPUTS], audited["y"], sensitive_features=audited[names]
        )
        self.names = names
        people, _ = grouped(*make_people(N, 1), kind, new=True)
        self.people = people.assign(id=np.arange(N) + 10_000)
        about = {"sensitive_features": self.people[names], "ids": self.people["id"]}
        self.decision = self.repaired.predict(self.people[INPUTS], **about)
        self.edited = self.repaired.transform(self.people[INPUTS], **about)
        self.kind, self.folder = kind, folder

    def check(self, decision, edited=None):
        """The same decisions, and the same edited cells."""
        assert_same((decision, edited), (self.decision, self.edited), INPUTS)


@pytest.fixture(scope="module", params=KINDS)
def case(request, tmp_path_factory):
    return Case(request.param, tmp_path_factory.mktemp(request.param))


def test_the_case_is_one(case):
    """Some are edited, some randomised, some opt out, and some are of no audited group."""
    changed = case.people[INPUTS].compare(case.edited)
    assert 20 < len(changed) < N / 2
    assert case.repaired.plan_.outlook.randomised > 0
    first = case.people[case.names[0]]
    assert first.isna().sum() > 20
    members = case.repaired.fitted_repair.groups.read(
        {name: case.people[name] for name in case.names}, _frame(case.people)
    )
    assert members.opted_out.sum() >= first.isna().sum()
    if case.people["sex"].dtype != "boolean":
        assert members.unknown.sum() > 20


def _frame(table):
    from fairmend.data.columns import Frame

    return Frame.read(table[INPUTS])


def test_one_by_one_and_in_another_order(case):
    """Whoever else is in the batch makes no difference."""
    some = case.people.sample(60, random_state=0)
    for person in np.array_split(np.arange(60), 30):
        rows = some.iloc[person]
        about = {"sensitive_features": rows[case.names], "ids": rows["id"]}
        decision = case.repaired.predict(rows[INPUTS], **about)
        np.testing.assert_array_equal(decision, case.decision[rows.index])
        edited = case.repaired.transform(rows[INPUTS], **about)
        pd.testing.assert_frame_equal(edited, case.edited.loc[rows.index])


# -------------------------------------------------------------------- files


def through_files(case, paths, out):
    work = FileRepairer(case.repaired.fitted_repair, case.names, "id", Wanted("both"))
    if isinstance(paths, list):
        work.folder([str(path) for path in paths], Outputs.open(out, {}, overwrite=False))
    else:
        with out.open("wb") as file:
            work.file(str(paths), file)
    return work.counts


def test_a_csv_and_a_parquet_file(case):
    table = pl.from_pandas(case.people)
    table.write_csv(case.folder / "in.csv")
    table.write_parquet(case.folder / "in.parquet")
    for suffix, read in (("csv", pl.read_csv), ("parquet", pl.read_parquet)):
        out = case.folder / f"out.{suffix}"
        counts = through_files(case, case.folder / f"in.{suffix}", out)
        found = read(out).to_pandas()
        case.check(found["decision"], found)
        assert counts.rows == N
        assert counts.edited == len(case.people[INPUTS].compare(case.edited))
        assert found["id"].tolist() == case.people["id"].tolist()


def test_a_folder_gone_on_with(case):
    folder = case.folder / "in"
    folder.mkdir()
    paths = []
    for number, part in enumerate(np.array_split(np.arange(N), 4)):
        paths.append(folder / f"{number}.csv")
        pl.from_pandas(case.people.iloc[part]).write_csv(paths[-1])
    through_files(case, paths[:2], case.folder / "out")  # an earlier run ended here
    through_files(case, paths, case.folder / "out")
    found = pd.concat([pd.read_csv(case.folder / "out" / path.name) for path in paths])
    case.check(found["decision"], found)


# -------------------------------------------------------------------- engines


def in_parquet(case, request):
    path = case.folder / "engine.parquet"
    pl.from_pandas(case.people).write_parquet(path, row_group_size=300)
    return str(path)


def in_csv(case, request):
    path = case.folder / "engine.csv"
    pl.from_pandas(case.people).write_csv(path)
    return str(path)


def in_polars(case, request):
    return pl.from_pandas(case.people).lazy()


def in_duckdb(case, request):
    import duckdb

    connection = duckdb.connect()
    connection.register("given", pl.from_pandas(case.people).to_arrow())
    connection.execute("CREATE TABLE people AS SELECT * FROM given")
    return connection.table("people")


def in_dask(case, request):
    request.getfixturevalue("dask_client")
    import dask.dataframe as dd

    return dd.from_pandas(case.people, npartitions=3)


def in_spark(case, request):
    spark = request.getfixturevalue("spark")
    return spark.createDataFrame(pl.from_pandas(case.people).to_arrow()).repartition(3, "id")


ENGINES = {
    "pandas": lambda case, request: case.people,
    "parquet": in_parquet,
    "csv": in_csv,
    "polars": in_polars,
    "duckdb": in_duckdb,
    "dask": in_dask,
    "spark": in_spark,
}


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine(case, engine, request):
    if engine == "spark" and case.kind not in ("float", "tuple"):
        pytest.skip("Spark takes long, and reads groups by the same reader")
    place = ENGINES[engine](case, request)
    about = {"sensitive_features": case.names, "ids": "id"}
    decided = fetched(engines.map_rows(case.repaired, place, **about))
    edited = fetched(engines.map_rows(case.repaired, place, what="transform", **about))
    case.check(decided["decision"], edited)
    assert list(decided.columns) == [*case.people.columns, "decision"]
    assert list(edited.columns) == list(case.people.columns)


# -------------------------------------------------------------------- the sidecar


def cells(table):
    """Rows of plain values, what is not known as None."""
    columns = [
        [None if pd.isna(v) else v.item() if hasattr(v, "item") else v for v in table[name]]
        for name in table
    ]
    return [list(row) for row in zip(*columns, strict=True)]


def bodies(case):
    """The same people in each form a protocol has, and who they are."""
    full = case.people[[*INPUTS, *case.names, "id"]]
    everyone = np.arange(N)
    names, rows = list(full), cells(full)
    records = [dict(zip(names, row, strict=True)) for row in rows]
    columns = {name: [row[j] for row in rows] for j, name in enumerate(names)}
    beside = {name: columns[name] for name in (*case.names, "id")}
    bare = [row[: len(INPUTS)] for row in rows]
    objects = {name: full[name].astype(object) for name in case.names}
    yield "mlflow", {"dataframe_split": {"columns": names, "data": rows}}, everyone
    yield "mlflow", {"dataframe_records": records}, everyone
    yield "mlflow", {"inputs": bare, "params": beside}, everyone
    yield "mlflow", full.assign(**objects).to_csv(index=False), everyone
    yield "instances", {"instances": records}, everyone
    yield "instances", {"instances": bare, "parameters": beside}, everyone
    complete = np.flatnonzero(full[INPUTS].notna().all(axis=1))  # tensors have no missing values
    kinds = {int: "INT64", float: "FP64", str: "BYTES"}
    tensors = [
        {"name": name, "shape": [len(complete), 1], "datatype": kinds[type(columns[name][0])],
         "data": [columns[name][i] for i in complete]}
        for name in INPUTS
    ]  # fmt: skip
    some = {name: [column[i] for i in complete] for name, column in beside.items()}
    yield "v2", {"inputs": tensors, "parameters": some}, complete


@pytest.fixture
def sidecar(case, monkeypatch):
    """A sidecar in this process, whose vendor is the model itself; what was sent is kept."""
    sent = []

    def scores(table):
        return vendor(table.astype({"income": float})).tolist()

    monkeypatch.setattr(Upstream, "send", vending.in_this_process(scores, sent))
    monkeypatch.setenv("FAIRMEND_KEY", KEY.hex())
    artifact = case.folder / "repair.fairmend"
    if not artifact.exists():
        case.repaired.save(artifact)
    (case.folder / "log.sqlite").unlink(missing_ok=True)
    config = read_config(
        None, artifact=str(artifact), upstream="http://127.0.0.1:9/score", mode="repair",
        basis="a test", group=case.names, log=str(case.folder / "log.sqlite"),
    )  # fmt: skip
    return Sidecar(config), sent


def test_the_sidecar_in_each_protocol(case, sidecar):
    running, sent = sidecar
    own, there = cells(case.people[INPUTS]), cells(case.edited)

    async def compare():
        await running.start()
        try:
            for name, body, who in bodies(case):
                sent.clear()
                text = isinstance(body, str)
                content = body.encode() if text else json.dumps(body).encode()
                kind = "text/csv" if text else "application/json"
                decided = await running.answer(protocol_named(name), content, kind, {}, "/")
                reply = json.loads(decided.content)
                scores = reply["predictions"] if "predictions" in reply else _tensor(reply)
                decision = (np.array(scores) > 0.5).astype(int)
                np.testing.assert_array_equal(decision, case.decision[who])
                edited = [there[i] for i in who if there[i] != own[i]]
                assert [list(map(plain, row)) for row in sent[-1]] == [
                    list(map(plain, row)) for row in edited
                ], name
        finally:
            await running.stop()

    asyncio.run(compare())


def _tensor(reply):
    return reply["outputs"][0]["data"]
