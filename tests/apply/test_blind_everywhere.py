"""A blind repair reads nobody's group: whoever comes in, whichever way, gets the same bytes.

The same people come with their groups, with permuted ones, with labels that nobody audited, and
without any.
"""

import asyncio
import json
import pickle
import sqlite3
from dataclasses import fields, is_dataclass

import cloudpickle
import numpy as np
import pandas as pd
import polars as pl
import pytest

import fairmend
import vending
from fairmend import DataError, engines
from fairmend.apply.files import FileRepairer, Wanted
from fairmend.apply.outputs import Outputs
from fairmend.artifact import inspect
from fairmend.engines.job import Job
from fairmend.model.blackbox import BlackBox
from fairmend.model.protocols import protocol_named
from fairmend.serve import monitor
from fairmend.serve.config import read_config
from fairmend.serve.sidecar import Sidecar
from fairmend.serve.upstream import Upstream
from mapped import assert_same, fetched, plain

N = 600
INPUTS = ["member", "urban", "income", "trade"]
KEY = bytes(range(32))
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::fairmend.FairmendWarning"),
]


def make_vendor():
    """A closure, so that it travels to workers by value."""
    import numpy as np

    def score(rows):
        income = rows["income"].astype(float).fillna(1.5)
        trade = rows["trade"].map({"baker": 0.4, "smith": -0.3}).astype(float).fillna(0.0)
        score = 1.2 * rows["member"] - 0.7 * rows["urban"] + 0.8 * income + trade - 1.6
        return 1 / (1 + np.exp(-score))

    return score


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
    y = (rng.random(n) < 0.3 + 0.3 * table["member"]).astype(int)
    return table.assign(y=y), np.where(worse, "F", "M")


def versions(table, sex):
    """The same people: with groups, permuted ones, invented ones, missing ones, and none at all."""
    rng = np.random.default_rng(3)
    yield "their own", table.assign(sex=sex)
    yield "permuted", table.assign(sex=rng.permutation(sex))
    yield "invented", table.assign(sex=rng.choice(["x", "?", "F & M", "1"], len(table)))
    yield "missing", table.assign(sex=None)
    yield "none", table


class Case:
    def __init__(self, folder):
        audited, sex = make_people(1_500, 0)
        repaired = fairmend.RepairedClassifier(make_vendor(), "fnr", blind=True, key=KEY)
        self.audited, self.sex = audited, sex
        self.repaired = repaired.fit(audited[INPUTS], audited["y"], sensitive_features=sex)
        self.artifact = folder / "blind.fairmend"
        self.repaired.save(self.artifact)
        self.loaded = fairmend.load(self.artifact, make_vendor(), key=KEY)
        people, self.groups = make_people(N, 1)
        self.people = people[INPUTS].assign(id=np.arange(N) + 10_000)
        self.decision = self.repaired.predict(self.people[INPUTS])
        self.edited = self.repaired.transform(self.people[INPUTS])
        self.folder = folder

    def versions(self):
        return versions(self.people, self.groups)

    def check(self, decision, edited=None):
        assert_same((decision, edited), (self.decision, self.edited), INPUTS)


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    return Case(tmp_path_factory.mktemp("blind"))


def test_the_case_is_one(case):
    """Decisions are turned in both groups, and nobody's is drawn."""
    own = (make_vendor()(case.people[INPUTS]) > 0.5).astype(int)
    for group in "FM":
        assert (case.decision != own)[case.groups == group].any()
    assert case.repaired.plan_.outlook.randomised == 0


def test_equal_inputs_get_equal_decisions(case):
    rows = [repr(list(map(plain, row))) for row in case.people[INPUTS].itertuples(index=False)]
    together = pd.DataFrame({"row": rows, "decision": case.decision})
    assert (together.groupby("row").decision.nunique() == 1).all()
    assert together.row.duplicated().any()


@pytest.mark.parametrize("which", ["repaired", "loaded"])
def test_nothing_that_goes_to_workers_says_whose_group_a_row_is_of(case, which, monkeypatch):
    """And a model that stands by its answers is still not asked again about the audit's rows."""
    asked, query = [], BlackBox.query
    monkeypatch.setattr(
        BlackBox,
        "query",
        lambda box, rows, *a, **k: asked.append(len(rows)) or query(box, rows, *a, **k),
    )
    repair = getattr(case, which).fitted_repair
    job = Job(repair, what="predict", groups=None, ids=None)
    here = pickle.loads(cloudpickle.dumps(job))
    assert all(one.rows is None for one in here.repair.data.populations)
    assert all(one.tally.by_person is None for one in here.repair.data.populations)
    assert here.repair.data.person_group is here.repair.data.person_row is None
    expected = case.repaired.predict(case.audited[INPUTS])
    asked.clear()
    decided = job(case.audited[INPUTS])["decision"].to_numpy()
    np.testing.assert_array_equal(decided, expected)
    assert sum(asked) == (0 if which == "repaired" else len(case.audited[INPUTS].drop_duplicates()))


@pytest.mark.parametrize("which", ["repaired", "loaded"])
def test_predict_and_transform_look_at_inputs_alone(case, which):
    repaired = getattr(case, which)
    for _, table in case.versions():
        case.check(repaired.predict(table, ids="id"), repaired.transform(table))
    order = np.random.default_rng(0).permutation(N)
    np.testing.assert_array_equal(repaired.predict(case.people.iloc[order]), case.decision[order])
    for start in (0, 200, 599):
        assert repaired.predict(case.people.iloc[start : start + 1]) == case.decision[start]


@pytest.mark.parametrize("use", ["predict", "transform", "positive_chance", "score"])
def test_groups_are_an_error_that_says_why(case, use):
    about = {"sensitive_features": case.groups}
    given = [case.people[INPUTS], case.decision] if use == "score" else [case.people[INPUTS]]
    with pytest.raises(DataError, match=r"blind.*equal inputs get equal decisions"):
        getattr(case.loaded, use)(*given, **about)


# -------------------------------------------------------------------- files


def written(case, table, suffix, folder):
    """Bytes in, bytes out; the cells of the group are left out of the comparison."""
    source, out = folder / f"in.{suffix}", folder / f"out.{suffix}"
    frame = pl.from_pandas(table).with_columns(pl.col("^sex$").cast(pl.String))
    getattr(frame, f"write_{suffix}")(source)
    work = FileRepairer(case.loaded.fitted_repair, ["no such column"], "id", Wanted("both"))
    with out.open("wb") as file:
        work.file(str(source), file)
    assert work.counts.rows == N
    assert work.counts.without_group == work.counts.unknown_group == 0
    return out


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_files_with_groups_and_without(case, suffix, tmp_path):
    found = []
    for _, table in case.versions():
        out = written(case, table, suffix, tmp_path)
        result = getattr(pl, f"read_{suffix}")(out)
        case.check(result["decision"], result.to_pandas())
        found.append(result.drop("sex", strict=False).write_csv())
    assert len(set(found)) == 1


def test_the_bytes_of_a_csv_do_not_depend_on_whose_group_is_which(case, tmp_path):
    """Labels of one length, swapped: the files differ in these cells alone."""
    other = np.where(case.groups == "F", "M", "F")
    one, two = (
        written(case, case.people.assign(sex=sex), "csv", tmp_path).read_bytes().split(b"\n")
        for sex in (case.groups, other)
    )
    at = one[0].decode().split(",").index("sex")
    for lines in zip(one, two, strict=True):
        a, b = (line.split(b",") for line in lines)
        assert a[:at] + a[at + 1 :] == b[:at] + b[at + 1 :]


def test_a_folder_without_groups(case, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    paths = []
    for number, part in enumerate(np.array_split(np.arange(N), 3)):
        paths.append(str(folder / f"{number}.parquet"))
        pl.from_pandas(case.people.iloc[part]).write_parquet(paths[-1])
    work = FileRepairer(case.loaded.fitted_repair, [], "id", Wanted("both"))
    work.folder(paths, Outputs.open(tmp_path / "out", {}, overwrite=False))
    found = pd.concat([pd.read_parquet(tmp_path / "out" / f"{k}.parquet") for k in range(3)])
    case.check(found["decision"], found)


# -------------------------------------------------------------------- engines


def in_parquet(table, folder):
    path = folder / "engine.parquet"
    pl.from_pandas(table).write_parquet(path, row_group_size=300)
    return str(path)


def in_duckdb(table, folder):
    import duckdb

    connection = duckdb.connect()
    connection.register("given", pl.from_pandas(table).to_arrow())
    connection.execute("CREATE TABLE people AS SELECT * FROM given")
    return connection.table("people")


def in_dask(table, folder):
    import dask.dataframe as dd

    return dd.from_pandas(table, npartitions=2)


ENGINES = {
    "pandas": lambda table, folder: table,
    "parquet": in_parquet,
    "polars": lambda table, folder: pl.from_pandas(table).lazy(),
    "duckdb": in_duckdb,
    "dask": in_dask,
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("which", ["repaired", "loaded"])
def test_engines(case, engine, which, tmp_path, request):
    if engine == "dask":
        request.getfixturevalue("dask_client")
    repaired = getattr(case, which)
    for name, table in case.versions():
        if name == "permuted" or (engine == "dask" and name != "none"):
            continue
        place = ENGINES[engine](table, tmp_path)
        decided = fetched(engines.map_rows(repaired, place, ids="id"))
        edited = fetched(engines.map_rows(repaired, place, what="transform"))
        case.check(decided["decision"], edited)
    with pytest.raises(DataError, match="this repair is blind"):
        engines.map_rows(repaired, place, sensitive_features="sex")


# -------------------------------------------------------------------- the sidecar


@pytest.fixture
def start(case, monkeypatch, tmp_path):
    vendor = make_vendor()

    def scores(table):
        return vendor(table.astype({"income": float})).tolist()

    monkeypatch.setattr(Upstream, "send", vending.in_this_process(scores))
    monkeypatch.setenv("FAIRMEND_KEY", KEY.hex())

    def start(**more):
        config = read_config(
            None, artifact=str(case.artifact), upstream="http://127.0.0.1:9/score", mode="repair",
            basis="a test", group=["sex"], log=str(tmp_path / "log.sqlite"), **more,
        )  # fmt: skip
        return Sidecar(config)

    return start


def body(table):
    records = [
        {k: None if pd.isna(v) else v for k, v in record.items()}
        for record in table.astype(object).to_dict("records")
    ]
    return json.dumps({"instances": records}).encode()


def served(sidecar, tables, after=None):
    async def run():
        await sidecar.start()
        try:
            answered = [
                await sidecar.answer(
                    protocol_named("instances"), body(table), "application/json", {}, "/"
                )
                for table in tables
            ]
            return [one.content for one in answered], after and after(sidecar)
        finally:
            await sidecar.stop()

    return asyncio.run(run())


def logged(path, column):
    with sqlite3.connect(path) as db:
        return [value for (value,) in db.execute(f"SELECT {column} FROM decisions")]


def test_the_sidecar_gives_the_same_bytes_to_everybody(case, start, tmp_path):
    tables = [table for _, table in case.versions()]
    contents, figures = served(start(), tables, monitor.look)
    assert len(set(contents)) == 1
    scores = json.loads(contents[0])["predictions"]
    case.check((np.array(scores) > 0.5).astype(int))
    assert set(logged(tmp_path / "log.sqlite", "grp")) == {None}
    assert figures.decisions == 5 * N
    assert figures.monitored == ()
    content = (tmp_path / "log.sqlite").read_bytes()
    assert b"F & M" not in content


def test_groups_are_logged_and_watched_if_wanted(case, start, tmp_path):
    tables = [table for _, table in case.versions()]
    contents, figures = served(start(log_groups=True), tables, monitor.look)
    assert len(set(contents)) == 1
    found = pd.Series(logged(tmp_path / "log.sqlite", "grp"), dtype=object)
    own = pd.Series(case.groups).value_counts()
    assert found.value_counts().to_dict() == (2 * own).to_dict()  # theirs, and permuted
    assert {one.target for one in figures.monitored} == {"F", "M"}
    assert all(one.inputs == () for one in figures.monitored)


def test_a_header_with_a_group_changes_nothing(case, start):
    sidecar = start()

    async def run():
        await sidecar.start()
        try:
            return [
                (await sidecar.answer(protocol_named("instances"), body(case.people.head(50)),
                                      "application/json", headers, "/")).content
                for headers in ({}, {"fairmend-group": "F"}, {"fairmend-group": "no such"})
            ]  # fmt: skip
        finally:
            await sidecar.stop()

    assert len(set(asyncio.run(run()))) == 1


# -------------------------------------------------------------------- the artifact


def test_the_artifact_is_the_same_for_other_people_of_equal_inputs_and_outcomes(case, tmp_path):
    """Who of those on one row, with one outcome, is of which group makes no difference."""
    rng = np.random.default_rng(0)
    table = case.audited.assign(sex=case.sex)
    shuffled = table.groupby([*INPUTS, "y"], dropna=False).sex.transform(rng.permutation)
    assert (shuffled != table.sex).sum() > 50
    again = fairmend.RepairedClassifier(make_vendor(), "fnr", blind=True, key=KEY)
    again.fit(table[INPUTS], table["y"], sensitive_features=shuffled.to_numpy())
    again.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == case.artifact.read_bytes()


def test_the_artifact_does_not_say_who_is_of_which_group(case):
    """No array with an entry a row tells the groups of rows whose people are all of one."""
    loaded = case.loaded
    assert all(people.rows is None for people in loaded.data_.populations)
    assert all(len(people) <= 4 for people in loaded.data_.populations)
    groups = pd.DataFrame({"g": case.sex == "F"}).groupby(case.repaired.data_.person_row).g
    of_one = groups.nunique() == 1
    truth, at = groups.first()[of_one].to_numpy(), np.flatnonzero(of_one)
    assert len(truth) > 30
    compared = 0
    for array in arrays([*loaded.plans_.values(), loaded.data_, loaded.audit_], set()):
        if array.shape[-1] == len(of_one):
            for line in array.reshape(-1, len(of_one)):
                compared += 1
                for told in (line[at] > 0, line[at] > 0.5, line[at] > np.median(line)):
                    assert 0.05 < (told == truth).mean() < 0.95
    assert compared > 3


def test_the_probe_is_not_chosen_by_group(case, tmp_path):
    """Groups that are permuted among everybody leave the probe's rows as they are."""
    again = fairmend.RepairedClassifier(make_vendor(), "fnr", blind=True, key=KEY)
    rare = np.where(np.arange(1_500) < 60, "rare", case.sex)
    again.fit(case.audited[INPUTS], case.audited["y"], sensitive_features=rare)
    again.save(tmp_path / "again")
    one, two = (inspect(path).about.answers_sha256 for path in (case.artifact, tmp_path / "again"))
    assert one == two


def arrays(node, seen):
    """All arrays of numbers within an object."""
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, np.ndarray):
        if node.dtype.kind in "fiub" and node.ndim > 0:
            yield node
    elif isinstance(node, list | tuple):
        for one in node:
            yield from arrays(one, seen)
    elif is_dataclass(node):
        for field in fields(node):
            yield from arrays(getattr(node, field.name), seen)


def test_a_loaded_repair_reports_and_says_what_it_cannot(case):
    people, sex = make_people(400, 5)
    given = (people[INPUTS], people["y"])
    one = case.repaired.report(*given, sensitive_features=sex, explanation=False)
    two = case.loaded.report(*given, sensitive_features=sex)
    assert [g.selected_after for g in one.groups] == [g.selected_after for g in two.groups]
    assert "blind" in two.provenance.unexplained
    with pytest.raises(DataError, match="blind and was loaded"):
        case.loaded.frontier(*given, sensitive_features=sex)
    assert "one rule for everybody, without the group" in str(inspect(case.artifact))
