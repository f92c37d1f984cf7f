"""Files: packed counting, results that are whole or not there, and going on after an end."""

import os

import numpy as np
import pandas as pd
import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

import fairmend
from fairmend import engines
from fairmend.data.spelling import Spelling
from fairmend.engines import job as job_module
from fairmend.engines.packed import count_packed, domains
from fairmend.engines.source import files, find
from fairmend.errors import DataError, ModelError

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")

INPUTS = ["a", "b", "c"]


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(job_module, "FIRST_WAIT_S", 0.001)


def make_people(n=4_000, seed=0):
    rng = np.random.default_rng(seed)
    group = rng.choice(["x", "y"], n)
    X = pd.DataFrame({name: rng.integers(0, 2, n) for name in INPUTS})
    X["a"] = (rng.random(n) < np.where(group == "x", 0.3, 0.6)).astype(np.int64)
    y = (rng.random(n) < 0.2 + 0.2 * X.sum(axis=1)).astype(np.int64)
    return X.assign(group=group, y=y, id=np.arange(n))


@pytest.fixture(scope="module")
def people():
    return make_people()


class Vendor:
    """A model that may fail: ``failures`` calls from now on raise."""

    def __init__(self, failures=0):
        self.failures, self.calls = failures, 0

    def __call__(self, rows):
        self.calls += 1
        if self.failures > 0:
            self.failures -= 1
            raise ConnectionError("503 service unavailable")
        return 1 / (1 + np.exp(-(np.asarray(rows[INPUTS], float) @ [1.5, 1.0, 0.5] - 1.6)))


@pytest.fixture
def fitted(people):
    vendor = Vendor()
    repaired = fairmend.RepairedClassifier(vendor, "sp", random_state=1)
    repaired.fit(people[INPUTS], people["y"], sensitive_features=people["group"])
    return repaired


@pytest.fixture
def lake(tmp_path, people):
    """Three Parquet files, one of them in a folder of its own."""
    places = [tmp_path / "in" / name for name in ("1.parquet", "2.parquet", "more/1.parquet")]
    (tmp_path / "in" / "more").mkdir(parents=True)
    for place, part in zip(places, np.array_split(np.arange(len(people)), 3), strict=True):
        people.iloc[part].to_parquet(place, index=False)
    return str(tmp_path / "in" / "**" / "*.parquet")


def apply(repaired, X, out=None, **more):
    return engines.map_rows(repaired, X, sensitive_features="group", ids="id", out=out, **more)


def decided(repaired, people):
    return repaired.predict(people[INPUTS], sensitive_features=people["group"], ids=people["id"])


def read(folder):
    return pl.read_parquet(f"{folder}/**/*.parquet").sort("id").to_pandas()


# -------------------------------------------------------------------- packed keys


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_packed_counts_are_a_group_by(tmp_path_factory, data):
    n = data.draw(st.integers(1, 60))
    columns = {
        "bit": st.integers(0, 1),
        "small": st.integers(-3, 4),
        "wide": st.integers(100, 700),
        "flag": st.booleans(),
        "word": st.sampled_from(["", "a", "ä", "long word"]),
    }
    frame = {
        name: data.draw(st.lists(st.none() | values if name != "bit" else values,
                                 min_size=n, max_size=n))
        for name, values in columns.items()
    }  # fmt: skip
    table = pl.DataFrame(
        frame,
        schema={
            "bit": pl.UInt8,
            "small": pl.Int8,
            "wide": pl.Int64,
            "flag": pl.Boolean,
            "word": pl.String,
        },
    )
    path = str(tmp_path_factory.mktemp("packed") / "rows.parquet")
    table.write_parquet(path, row_group_size=7)
    found = domains(find(path), list(columns))
    assert found is not None
    cells = count_packed([path], found).sort(list(columns))
    wanted = table.group_by(list(columns)).agg(pl.len()).sort(list(columns))
    assert cells.select(list(columns)).equals(wanted.select(list(columns)))
    assert cells["__people"].to_list() == wanted["len"].to_list()


@pytest.mark.parametrize(
    "column",
    [np.linspace(0, 1, 300), np.arange(300) * 10**6, [f"id {i}" for i in range(300)]],
    ids=["floats", "far apart", "many texts"],
)
def test_what_cannot_be_packed_is_counted_all_the_same(tmp_path, column):
    frame = pd.DataFrame({"c": column, "k": np.arange(300) % 2})
    both = pd.concat([frame, frame])
    both.to_parquet(tmp_path / "x.parquet", index=False)
    path = str(tmp_path / "x.parquet")
    assert domains(find(path), ["c"]) is None
    cells = engines.tabulate(path, ["c", "k"])
    assert len(cells.frame) == 300
    np.testing.assert_array_equal(cells.people, 2)


def test_more_cells_than_memory_go_into_a_file(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.random((200_000, 3)), columns=list("abc"))
    pd.concat([frame, frame.head(10)]).to_parquet(tmp_path / "x.parquet", index=False)
    # 200,000 rows of three floats, hashes and counts are 10 MB and more: it spills
    place = engines.source(tmp_path / "x.parquet", memory_limit="40MB", temp_directory=tmp_path)
    assert engines.tabulate_into(tmp_path / "cells.parquet", place, list("abc")) == 200_000
    cells = pd.read_parquet(tmp_path / "cells.parquet")
    assert sorted(cells["__people"].unique()) == [1, 2]
    assert (cells["__people"] == 2).sum() == 10
    with pytest.raises(DataError, match="must be files or a DuckDB relation"):
        engines.tabulate_into(tmp_path / "other.parquet", frame, ["a"])


# -------------------------------------------------------------------- which files, and how


@pytest.mark.parametrize("value", [1, 1.5], ids=["packed", "DuckDB"])
def test_brackets_and_stars_in_names_are_part_of_them(tmp_path, value):
    folder = tmp_path / "lake [2024]*"
    folder.mkdir()
    for name, n in {"part[1].parquet": 10, "part1.parquet": 3}.items():
        pd.DataFrame({"x": [value] * n}).to_parquet(folder / name)
    pd.DataFrame({"x": [value] * 4}).to_csv(folder / "part[1].csv", index=False)
    assert engines.tabulate(folder / "part[1].parquet", ["x"]).people.tolist() == [10]
    assert engines.tabulate(str(folder / "part1.parquet"), ["x"]).people.tolist() == [3]
    assert engines.tabulate(folder / "part[1].csv", ["x"]).people.tolist() == [4]
    (folder / "part[1].csv").unlink()
    assert engines.tabulate(folder, ["x"]).people.tolist() == [13]


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_files_are_put_together_by_the_names_of_their_columns(tmp_path, suffix):
    frames = {
        1: pd.DataFrame({"x": [1, 2], "word": ["a", "b"]}),
        2: pd.DataFrame({"word": ["a", "b"], "x": [1.5, 2.0], "more": [0, 0]}),
    }

    def save(number, frame):
        path = tmp_path / f"{number}.{suffix}"
        frame.to_parquet(path) if suffix == "parquet" else frame.to_csv(path, index=False)

    for number, frame in frames.items():
        save(number, frame)
    cells = engines.tabulate(tmp_path, ["x", "word"])
    rows = list(cells.frame.native.itertuples(index=False, name=None))
    assert rows == [(1, "a"), (1.5, "a"), (2, "b")]  # 1.5 is not made 1 or 2
    assert cells.people.tolist() == [1, 1, 2]
    save(2, frames[2].drop(columns="x"))
    with pytest.raises(
        DataError, match=rf"2\.{suffix}': must have the 2 columns of .*'x' is missing"
    ):
        engines.tabulate(tmp_path, ["x", "word"])


def test_a_folder_that_looks_like_a_column_is_none(tmp_path, people, fitted):
    folder = tmp_path / "group=x"
    folder.mkdir()
    people.to_parquet(folder / "1.parquet", index=False)
    assert engines.tabulate(folder, ["group"]).people.tolist() == (
        people["group"].value_counts().sort_index().tolist()
    )
    assert apply(fitted, folder).read_all().column_names == [*people.columns, "decision"]


def test_names_that_differ_in_capitals_only_are_told(tmp_path):
    pd.DataFrame({"Sex": [1], "sex": [2]}).to_parquet(tmp_path / "x.parquet")
    with pytest.raises(DataError, match="differ by more than capitals; got 'Sex', 'sex'"):
        engines.tabulate(tmp_path / "x.parquet", ["sex"])


def test_an_array_has_no_names_to_count_by():
    with pytest.raises(DataError, match=r"must have named columns.*got a ndarray"):
        engines.tabulate(np.ones((2, 2)), ["x0"])


def test_a_frame_without_rows_is_told():
    with pytest.raises(DataError, match="must have at least one row"):
        engines.tabulate(pd.DataFrame({"x": [1]})[:0], ["x"])


def test_large_numbers_with_gaps_are_not_run_together(tmp_path):
    """2**53 and 2**53 + 1 are one float; a column with missing entries is floats to pandas."""
    numbers = pl.DataFrame({"x": [2**53, 2**53 + 1, None, 2**53 + 1]})
    numbers.write_parquet(tmp_path / "x.parquet")
    cells = engines.tabulate(tmp_path / "x.parquet", ["x"])
    assert cells.frame.native["x"].tolist()[:2] == [2**53, 2**53 + 1]
    assert cells.people.tolist() == [1, 2, 1]
    numbers.select(pl.col("x") - 2**53).write_parquet(tmp_path / "x.parquet")
    assert engines.tabulate(tmp_path / "x.parquet", ["x"]).frame.native["x"].dtype == float


# -------------------------------------------------------------------- results in files


def test_one_file_gives_one_file(tmp_path, people, fitted):
    people.to_parquet(tmp_path / "in.parquet", index=False)
    done = apply(fitted, tmp_path / "in.parquet", tmp_path / "out.parquet")
    assert (done.written, done.skipped) == ((str(tmp_path / "out.parquet"),), ())
    assert done.rows == len(people)
    got = pd.read_parquet(tmp_path / "out.parquet")
    pd.testing.assert_frame_equal(got[people.columns], people, check_dtype=False)
    np.testing.assert_array_equal(got["decision"], decided(fitted, people))


def test_csv_becomes_parquet(tmp_path, people, fitted):
    people.to_csv(tmp_path / "in.csv", index=False)
    apply(fitted, tmp_path / "in.csv", tmp_path / "out", what="transform")
    got = pd.read_parquet(tmp_path / "out" / "in.parquet")
    edited = fitted.transform(people[INPUTS], sensitive_features=people["group"], ids=people["id"])
    pd.testing.assert_frame_equal(got[INPUTS], edited, check_dtype=False)
    assert not got[INPUTS].equals(people[INPUTS])


def test_relations_and_lazy_frames_are_written_too(tmp_path, people, fitted):
    import duckdb

    people.to_parquet(tmp_path / "in.parquet", index=False)
    relation = duckdb.connect().read_parquet(str(tmp_path / "in.parquet"))
    apply(fitted, relation, tmp_path / "relation.parquet")
    apply(fitted, pl.scan_parquet(tmp_path / "in.parquet"), tmp_path / "lazy.parquet")
    for name in ("relation", "lazy"):
        got = pd.read_parquet(tmp_path / f"{name}.parquet")
        np.testing.assert_array_equal(got["decision"], decided(fitted, people))


def test_a_relation_or_lazy_frame_may_have_changed_and_is_never_taken_for_finished(
    tmp_path, people, fitted
):
    import duckdb

    connection = duckdb.connect()
    connection.register("given", people)
    connection.execute("CREATE TABLE people AS FROM given")

    def places(frame):
        connection.execute(f"DELETE FROM people WHERE id >= {len(frame)}")
        return {"relation": connection.table("people"), "lazy": pl.from_pandas(frame).lazy()}

    for name, place in places(people).items():
        apply(fitted, place, tmp_path / f"{name}.parquet")
    for name, place in places(people[:100]).items():
        out = tmp_path / f"{name}.parquet"
        with pytest.raises(DataError, match="made otherwise"):
            apply(fitted, place, out)
        assert apply(fitted, place, out, overwrite=True).rows == 100
        assert len(pd.read_parquet(out)) == 100


def test_results_do_not_replace_each_other_or_their_input(tmp_path, people, fitted):
    folder = tmp_path / "in"
    folder.mkdir()
    people[:100].to_csv(folder / "a.csv", index=False)
    people[100:].to_csv(folder / "a.tsv", index=False, sep="\t")
    with pytest.raises(DataError, match=r"a\.parquet': must be a place .*a\.csv' goes there too"):
        apply(fitted, folder, tmp_path / "out", overwrite=True)
    assert not (tmp_path / "out").exists()
    people.to_parquet(tmp_path / "b.parquet", index=False)
    for out in (tmp_path, tmp_path / "b.parquet"):
        with pytest.raises(DataError, match="must be a place for the result of"):
            apply(fitted, tmp_path / "b.parquet", out, overwrite=True)
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "b.parquet"), people)


def test_finished_files_are_not_done_again(tmp_path, people, fitted, lake):
    first = apply(fitted, lake, tmp_path / "out")
    assert len(first.written) == 3
    times = {name: os.stat(name).st_mtime_ns for name in first.written}
    os.remove(first.written[1])
    again = apply(fitted, lake, tmp_path / "out")
    assert again.written == (first.written[1],)
    assert set(again.skipped) == set(first.written) - {first.written[1]}
    assert again.rows == len(people)
    assert all(os.stat(name).st_mtime_ns == times[name] for name in again.skipped)
    np.testing.assert_array_equal(read(tmp_path / "out")["decision"], decided(fitted, people))


def test_another_input_or_another_repair_is_not_taken_for_finished(tmp_path, people, fitted, lake):
    apply(fitted, lake, tmp_path / "out")
    other = fairmend.RepairedClassifier(Vendor(), "sp", random_state=2)
    other.fit(people[INPUTS], people["y"], sensitive_features=people["group"])
    with pytest.raises(DataError, match="made otherwise"):
        apply(other, lake, tmp_path / "out")
    changed = files(lake)[0]
    pd.read_parquet(changed).head(100).to_parquet(changed, index=False)
    with pytest.raises(DataError, match="made otherwise"):
        apply(fitted, lake, tmp_path / "out")
    done = apply(fitted, lake, tmp_path / "out", overwrite=True)
    assert len(done.written) == 1
    assert len(done.skipped) == 2


def test_a_run_that_ends_early_leaves_whole_files_and_goes_on(tmp_path, people, lake):
    first = tmp_path / "out" / "1.parquet"

    class Stopped(Vendor):
        stopping = True

        def __call__(self, rows):
            if self.stopping and first.exists():
                raise KeyboardInterrupt
            return super().__call__(rows)

    repaired = fairmend.RepairedClassifier(Stopped(), "sp", random_state=1)
    repaired.fit(people[INPUTS], people["y"], sensitive_features=people["group"])
    with pytest.raises(KeyboardInterrupt):
        apply(repaired, lake, tmp_path / "out", remember=False)
    assert list((tmp_path / "out").rglob("*")) == [first]  # whole, and nothing half-written
    repaired.model.stopping = False
    done = apply(repaired, lake, tmp_path / "out", remember=False)
    assert done.skipped == (str(first),)
    assert len(done.written) == 2
    np.testing.assert_array_equal(read(tmp_path / "out")["decision"], decided(repaired, people))


def test_several_files_need_a_folder_and_one_format(tmp_path, people, fitted, lake):
    with pytest.raises(DataError, match="must be a folder for 3 files"):
        apply(fitted, lake, tmp_path / "out.parquet")
    people.to_csv(tmp_path / "in" / "4.csv", index=False)
    with pytest.raises(DataError, match="Parquet and CSV together"):
        engines.tabulate(tmp_path / "in", ["a"])
    with pytest.raises(DataError, match="got a path"):
        apply(fitted, people, tmp_path / "out.parquet")


def test_a_file_that_is_no_table_is_told(tmp_path):
    (tmp_path / "x.parquet").write_bytes(b"not a table")
    with pytest.raises(DataError, match="must be a Parquet or CSV file"):
        engines.tabulate(tmp_path / "x.parquet", ["a"])
    pd.DataFrame({"a": [1]}).to_parquet(tmp_path / "w.parquet")  # the first is one
    with pytest.raises(DataError, match=r"x\.parquet': must be a Parquet or CSV file"):
        engines.tabulate(tmp_path, ["a"])


# -------------------------------------------------------------------- a model that fails


def test_failures_are_retried_within_a_budget(tmp_path, people, fitted, lake):
    fitted.model.failures = 3
    apply(fitted, lake, tmp_path / "out", remember=False)
    np.testing.assert_array_equal(read(tmp_path / "out")["decision"], decided(fitted, people))


def test_beyond_the_budget_the_file_is_named_and_nothing_written(tmp_path, fitted, lake):
    fitted.model.failures = 10**6
    calls = fitted.model.calls
    with pytest.raises(ModelError, match=r"file '.*1\.parquet' of .* rows.*503.*3 attempts"):
        apply(fitted, lake, tmp_path / "out", remember=False, retries=2)
    assert [path for path in (tmp_path / "out").rglob("*") if path.is_file()] == []
    tried = fitted.model.calls - calls  # three times a batch; each core has one in hand
    assert 3 <= tried <= 3 * (os.cpu_count() or 1)


def test_remembered_rows_are_not_asked_about(people, fitted):
    job = job_module.Job(fitted.fitted_repair, what="predict", groups={"group": "group"}, ids="id")
    calls = fitted.model.calls
    job(people)
    assert fitted.model.calls == calls


# -------------------------------------------------------------------- memory


@pytest.mark.parametrize("what", ["predict", "transform"])
@pytest.mark.parametrize("ids", ["id", None])
def test_memory_changes_nothing(people, what, ids):
    repaired = fairmend.RepairedClassifier(Vendor(), "fnr", random_state=3)
    seen = people[~((people["a"] == 1) & (people["b"] == 1) & (people["c"] == 0))]
    repaired.fit(seen[INPUTS], seen["y"], sensitive_features=seen["group"])
    new = make_people(2_000, seed=9)
    new.loc[::50, "c"] = 7  # a value that fit did not see
    new.loc[::70, "group"] = None
    by_memory, by_asking = (
        engines.map_rows(
            repaired, new, sensitive_features="group", ids=ids, what=what, remember=remember
        )
        for remember in (True, False)
    )
    pd.testing.assert_frame_equal(by_memory, by_asking)
    name = "decision" if what == "predict" else "a"
    own = (Vendor()(new) > 0.5) if what == "predict" else new["a"]
    assert (by_memory[name] != own).any()


def test_unknown_groups_are_an_error_or_kept(people, fitted):
    strange = people.assign(group=people["group"].where(people["id"] > 0, "z"))
    with pytest.raises(DataError, match="must be among the audited groups"):
        apply(fitted, strange)
    fitted.set_params(unknown_group="keep")
    kept = apply(fitted, strange)
    assert kept["decision"][0] == int(Vendor()(strange.head(1))[0] > 0.5)


# -------------------------------------------------------------------- other containers


def test_a_classifier_fitted_on_an_array_reads_columns_by_its_names(tmp_path, people):
    matrix = people[INPUTS].to_numpy()
    model = LogisticRegression().fit(matrix, people["y"])
    repaired = fairmend.RepairedClassifier(model, "sp", random_state=0)
    repaired.fit(matrix, people["y"], sensitive_features=people["group"])
    named = people.rename(columns=dict(zip(INPUTS, ("x0", "x1", "x2"), strict=True)))
    named.to_parquet(tmp_path / "in.parquet", index=False)
    said = repaired.predict(matrix, sensitive_features=people["group"], ids=people["id"])
    for remember in (True, False):
        found = apply(repaired, tmp_path / "in.parquet", remember=remember).read_all()
        np.testing.assert_array_equal(found.column("decision").to_numpy(), said)
    with pytest.raises(DataError, match="'x0' is not one"):
        apply(repaired, people)


def test_the_models_own_names_say_which_columns_are_inputs(tmp_path, people):
    model = LogisticRegression().fit(people[INPUTS], people["y"])
    people.to_parquet(tmp_path / "in.parquet", index=False)
    found = fairmend.audit(model, tmp_path / "in.parquet", "y", sensitive_features="group")
    wanted = fairmend.audit(model, people[INPUTS], people["y"], sensitive_features=people["group"])
    pd.testing.assert_frame_equal(found.to_frame(), wanted.to_frame())


def test_categories_stay_categories(tmp_path, people):
    frame = people.assign(c=people["c"].map({0: "no", 1: "yes"}).astype("category"))

    def model(rows):
        assert isinstance(rows["c"].dtype, pd.CategoricalDtype)
        return 0.2 + 0.3 * rows["a"] + 0.2 * (rows["c"] == "yes")

    repaired = fairmend.RepairedClassifier(model, "sp", random_state=0)
    repaired.fit(frame[INPUTS], frame["y"], sensitive_features=frame["group"])
    frame.assign(c=frame["c"].astype(str)).to_parquet(tmp_path / "in.parquet", index=False)
    found = apply(repaired, tmp_path / "in.parquet", remember=False).read_all()
    np.testing.assert_array_equal(found.column("decision").to_numpy(), decided(repaired, frame))


def test_outputs_say_what_made_them(tmp_path, people, fitted):
    people.to_parquet(tmp_path / "in.parquet", index=False)
    apply(fitted, tmp_path / "in.parquet", tmp_path / "out.parquet")
    said = pq.read_metadata(tmp_path / "out.parquet").metadata[b"fairmend.apply"].decode()
    assert '"input": "in.parquet"' in said
    assert str(os.stat(tmp_path / "in.parquet").st_size) in said


def test_words_that_look_like_truth_stay_words(tmp_path):
    (tmp_path / "a.csv").write_text("said,true,both\nyes,true,True\nno,false,no\n,,\n")
    from fairmend import engines

    cells = engines.tabulate(tmp_path / "a.csv", ["said", "true", "both"])
    found = {
        name: set(cells.frame.column(name).drop_nulls().to_list()) for name in cells.frame.names
    }
    assert found == {"said": {"yes", "no"}, "true": {True, False}, "both": {"True", "no"}}


def test_new_files_are_read_as_those_of_the_fit(tmp_path):
    """Decimal commas, and a word for a missing group, are said once."""
    people = make_people(600)
    text = people.assign(
        a=[f"{one / 2:.1f}".replace(".", ",") for one in people["a"]],
        group=np.where(people["id"] < 9, "k.A.", people["group"]),
    )
    text[9:].to_csv(tmp_path / "old.csv", sep=";", index=False)
    text.to_csv(tmp_path / "new.csv", sep=";", index=False)
    spelling = Spelling(missing=("k.A.",), decimal=",")
    old = engines.source(tmp_path / "old.csv", inputs=INPUTS, spelling=spelling)
    repaired = fairmend.RepairedClassifier(Vendor(), "sp", random_state=0)
    repaired.fit(old, "y", sensitive_features="group").save(tmp_path / "r.fairmend")
    loaded = fairmend.load(tmp_path / "r.fairmend", Vendor(), key=repaired.key_)
    new = engines.source(tmp_path / "new.csv", inputs=INPUTS, spelling=spelling)
    decided = [
        engines.map_rows(one, X, sensitive_features="group", ids="id").read_all()["decision"]
        for one, X in ((repaired, new), (loaded, tmp_path / "new.csv"))
    ]
    assert decided[0] == decided[1]
    assert len(decided[0]) == 600
    frame = people.assign(spelling=people["a"])[[*INPUTS, "spelling"]]  # a column of that name
    of_frame = fairmend.RepairedClassifier(Vendor(), "sp", random_state=0)
    of_frame.fit(frame, people["y"], sensitive_features=people["group"])
    assert of_frame.spelling_ == Spelling()
