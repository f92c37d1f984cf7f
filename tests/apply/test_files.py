"""A stream through a repair gives what the repair gives for the whole table at once."""

import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest

import fairmend
from fairmend import FairmendWarning
from fairmend.apply import batch, laws, shared_draws
from fairmend.apply.files import FileRepairer, Wanted, _in_type
from fairmend.apply.rowstream import open_rows
from fairmend.classifier import RepairedClassifier
from fairmend.cli.main import main
from fairmend.datasets import load_adult


@pytest.fixture(scope="module")
def people():
    adult = load_adult()
    table = pl.DataFrame({name: adult.X[name].to_numpy()[:4_000] for name in adult.X.columns})
    table = table.with_columns(
        sex=pl.Series(adult.sensitive_features[:4_000].to_list()),
        y=pl.Series(adult.y[:4_000]),
        id=pl.Series([f"{i:05d}" for i in range(4_000)]),
    )
    return table.with_columns(
        sex=pl.when(pl.col("id").str.ends_with("77")).then(None).otherwise(pl.col("sex"))
    )


def vendor(rows):
    weights = np.linspace(-1.5, 1.5, 16)
    return 1 / (1 + np.exp(1 - np.asarray(rows)[:, :16].astype(float) @ weights))


def fitted(people, container, **settings):
    known = people.filter(pl.col("sex").is_not_null())
    X = container(known.select(people.columns[:16]))
    return RepairedClassifier(vendor, "sp", random_state=0, **settings).fit(
        X, known["y"], sensitive_features={"sex": known["sex"]}
    )


def streamed(repaired, people, tmp_path, emit, edited=None, **options):
    people.write_csv(tmp_path / "in.csv")
    work = FileRepairer(repaired.fitted_repair, ["sex"], "id", Wanted(emit, edited=edited))
    reading = open_rows(str(tmp_path / "in.csv"), **options)
    with reading as stream, (tmp_path / "out.csv").open("wb") as out:
        work.stream(stream, out)
    types = {**people.schema, "decision": pl.Int64}
    return pl.read_csv(tmp_path / "out.csv", schema_overrides=types), work.counts


CONTAINERS = {
    "polars": lambda table: table,
    "pandas": pl.DataFrame.to_pandas,
    "numpy": pl.DataFrame.to_numpy,
}


@pytest.mark.parametrize("container", CONTAINERS.values(), ids=CONTAINERS)
@pytest.mark.parametrize("known", [100_000, 40], ids=["remembers", "forgets"])
def test_equals_the_whole_table(people, container, known, tmp_path, monkeypatch):
    monkeypatch.setattr(laws, "MOST_LAWS", known)
    if container(people).__class__ is np.ndarray:
        people = people.rename({name: f"x{j}" for j, name in enumerate(people.columns[:16])})
    repaired = fitted(people, container)
    found, tally = streamed(repaired, people, tmp_path, "both", "what", block_bytes=20_000)
    X = container(people.select(people.columns[:16]))
    said = {"sensitive_features": {"sex": people["sex"]}, "ids": people["id"]}
    edited = repaired.transform(X, **said)
    np.testing.assert_array_equal(found.select(people.columns[:16]).to_numpy(), np.asarray(edited))
    np.testing.assert_array_equal(found["decision"], repaired.predict(X, **said))
    assert found.select(people.columns[16:]).equals(people.select(people.columns[16:]))
    changed = np.asarray(edited) != np.asarray(X)
    assert (tally.rows, tally.edited) == (4_000, changed.any(axis=1).sum())
    names = [{people.columns[j] for j in np.flatnonzero(row)} for row in changed]
    assert [
        set(said.split("; ")) if said else set() for said in found["what"].fill_null("")
    ] == names
    assert tally.without_group == people["sex"].null_count() == 40
    assert tally.randomised > 0


def test_the_model_is_asked_once_about_each_row(people, tmp_path):
    asked = []

    def counting(rows):
        asked.append(len(rows))
        return vendor(rows)

    repaired = fitted(people, lambda x: x)
    repaired.box_ = fairmend.BlackBox(counting, output="probability")
    streamed(repaired, people, tmp_path, "decisions", block_bytes=20_000)
    distinct = people.select(people.columns[:16]).n_unique()
    assert sum(asked) == distinct < 4_000


def test_soft_decisions_are_drawn(people, tmp_path):
    known = people.filter(pl.col("sex").is_not_null())
    X, groups = known.select(people.columns[:16]), {"sex": known["sex"]}
    repaired = RepairedClassifier(fairmend.BlackBox(vendor, soft=True), "sp", random_state=0)
    repaired.fit(X, known["y"], sensitive_features=groups)
    found, tally = streamed(repaired, known, tmp_path, "decisions")
    expected = repaired.predict(X, sensitive_features=groups, ids=known["id"])
    np.testing.assert_array_equal(found["decision"], expected)
    assert tally.randomised == known.height


def test_whole_numbers_that_become_others_on_the_way(people, tmp_path):
    repaired = fitted(people, lambda x: x)
    people.write_csv(tmp_path / "in.csv")
    header, first, *rest = (tmp_path / "in.csv").read_bytes().splitlines(keepends=True)
    pieces = [header, first, *rest[:2_000], b"0.5" + first[1:], *rest[2_000:]]
    (tmp_path / "in.csv").write_bytes(b"".join(pieces))
    reading = open_rows(str(tmp_path / "in.csv"), block_bytes=20_000)
    with reading as stream, (tmp_path / "out.csv").open("wb") as out:
        work = FileRepairer(repaired.fitted_repair, ["sex"], "id", Wanted("rows"))
        work.stream(stream, out)
    after = (tmp_path / "out.csv").read_bytes().splitlines(keepends=True)
    assert sum(a != b for a, b in zip(pieces, after, strict=True)) == work.counts.edited > 0
    cells = {cell for line in after[1:] for cell in line.split(b",")[:16]}
    assert cells - {b"0.5"} <= {b"0", b"1", b"0.0", b"1.0"}


def test_a_column_of_decisions_must_be_new(people, tmp_path):
    repaired = fitted(people, lambda x: x)
    with pytest.raises(fairmend.DataError, match="--decision: must name a new column"):
        streamed(repaired, people.rename({"y": "decision"}), tmp_path, "both")
    for emit, name in (("rows", "y"), ("decisions", "id"), ("both", "decision")):
        with pytest.raises(fairmend.DataError, match=f"there is one called '{name}' already"):
            streamed(repaired, people, tmp_path, emit, name)


def test_a_model_that_changes_its_mind_gets_another_law():
    """Laws belong to rows with their answers: none is remembered for another answer."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.integers(0, 4, 400)})
    groups = np.where(rng.random(400) < 0.2 + 0.2 * X["x"], "a", "b")
    shift = [0.0]
    box = fairmend.BlackBox(lambda rows: rows["x"] / 4 + shift[0], output="score", threshold=0.4,
                            random=True)  # fmt: skip
    repaired = RepairedClassifier(box, "sp", random_state=0)
    repaired.fit(X, (X["x"] > 1).astype(int), sensitive_features=groups)
    repair = repaired.fitted_repair
    remembered = laws.Laws(repair)
    applied = []
    for shift[0] in (0.0, 1.0):
        people_ = batch.read_people(repair, X, groups, np.arange(400))
        applied.append(batch.apply_batch(repair, people_, laws=remembered))
    assert applied[0].moved
    assert (applied[1].answers.decision == 1).all()
    assert (applied[1].decision == 1).all()
    assert not applied[1].moved


# -------------------------------------------------------------------- people without ids


def few_rows(n=4_000, seed=0):
    """Three rows, decided by a number on record; the middle one is left to a draw."""
    rng = np.random.default_rng(seed)
    sex = rng.choice(["f", "m"], n)
    level = rng.choice(3, n, p=[0.4, 0.2, 0.4]) - (sex == "f") * rng.integers(0, 2, n)
    return pl.DataFrame(
        {"level": level.clip(0, 2), "score": level.clip(0, 2) / 4 + 0.1, "sex": sex}
    )


def of_few_rows(people):
    kept = RepairedClassifier("score", "sp", key=bytes(32))
    return kept.fit(
        people.select("level", "score"), None, sensitive_features={"sex": people["sex"]}
    )


@pytest.mark.parametrize("most", [100_000, 2])
def test_without_ids_a_stream_says_how_far_a_rate_may_be_off(tmp_path, monkeypatch, most):
    people = few_rows()
    repaired = of_few_rows(people)
    law = repaired.positive_chance(
        people.select("level", "score"), sensitive_features={"sex": people["sex"]}
    )
    drawn = (law > 0) & (law < 1)
    assert people["level"].to_numpy()[drawn].std() == 0, "one row is drawn for"
    women = (people["sex"] == "f").to_numpy()
    p = law[drawn][0]
    truth = drawn.sum() / women.sum() * np.sqrt(p * (1 - p))
    assert truth > 0.05

    monkeypatch.setattr(laws, "MOST_LAWS", most)
    monkeypatch.setattr(shared_draws, "MOST_ROWS", most)
    people.write_csv(tmp_path / "in.csv")
    work = FileRepairer(repaired.fitted_repair, ["sex"], None, Wanted())
    reading = open_rows(str(tmp_path / "in.csv"), block_bytes=5_000)
    with reading as stream, (tmp_path / "out.csv").open("wb") as out:
        work.stream(stream, out)
    found = work.shared_draws
    assert found.group == "f"
    assert found.shared == pytest.approx(truth)
    assert found.own == pytest.approx(truth / np.sqrt(drawn.sum()))
    with pytest.warns(FairmendWarning, match=f"off its law by {100 * truth:.1f} points"):
        repaired.predict(people.select("level", "score"), sensitive_features={"sex": people["sex"]})
    assert FileRepairer(repaired.fitted_repair, ["sex"], "id", Wanted()).shared_draws is None


def test_the_command_line_and_engines_say_it_too(tmp_path, capsys, monkeypatch):
    people = few_rows()
    repaired = of_few_rows(people)
    repaired.save(tmp_path / "few.fairmend")
    (tmp_path / "key").write_text(bytes(32).hex())
    (tmp_path / "key").chmod(0o600)
    people.with_columns(id=pl.int_range(pl.len())).write_csv(tmp_path / "in.csv")
    said = []
    for more in ([], ["--id", "id"]):
        line = ["apply", "few.fairmend", "in.csv", "--key-file", "key", "--force", "-o", "out.csv"]
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["fairmend", *line, *more])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 0
        said.append(capsys.readouterr().err)
    assert "note: Equal rows share one draw: the rate of positive decisions among f" in said[0]
    assert "Equal rows" not in said[1]

    people.write_parquet(tmp_path / "in.parquet")
    for _ in range(2):
        with pytest.warns(FairmendWarning, match="For the people audited") as told:
            repaired.predict(str(tmp_path / "in.parquet"), sensitive_features="sex")
        assert len(told) == 1
        repaired = fairmend.load(tmp_path / "few.fairmend", key=bytes(32))


def test_an_edit_of_a_column_without_a_type_keeps_its_own():
    """Such a column has no room for the edit; the writer refuses it and names the column."""
    values = pl.Series("age", [33, 41])
    assert _in_type(values, pl.Null).dtype == pl.Int64
    assert _in_type(values, pl.Float64).dtype == pl.Float64
