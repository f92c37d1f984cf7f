"""People with several rows, named by --id."""

import json

import numpy as np
import polars as pl
import pytest

import fairmend

N = 300
NAMED = ("--group", "sex", "--predictions", "score", "--label", "repaid")


@pytest.fixture
def visits(tmp_path):
    """Each person's row four times; ids that only text tells apart."""
    rng = np.random.default_rng(0)
    sex, income = rng.choice(["f", "m"], N), rng.normal(0, 1, N).round(2)
    score = 1 / (1 + np.exp(0.6 * (sex == "f") - income))
    frame = pl.DataFrame({
        "no": [f"{'0' * (i % 2)}{i // 2}" for i in range(N)], "income": income, "sex": sex,
        "score": score.round(4), "repaid": (rng.random(N) < score).astype(int),
    })  # fmt: skip
    assert frame["no"].n_unique() == N
    frame.write_csv(tmp_path / "once.csv")
    pl.concat([frame] * 4).write_csv(tmp_path / "visits.csv")
    return frame


def test_an_audit_by_id_is_that_of_the_people(visits, call, tmp_path):
    once, again = (
        json.loads(call("audit", file, *NAMED, "--id", "no", "--json").out)
        for file in ("once.csv", "visits.csv")
    )
    assert (once["rows"], once["people"]) == (None, None)
    assert (again["rows"], again["people"]) == (4 * N, N)
    for one, other in zip(once["gaps"], again["gaps"], strict=True):
        assert other == pytest.approx(one, abs=1e-12)
    table = pl.read_csv(tmp_path / "visits.csv", schema_overrides={"no": pl.String})
    own = fairmend.audit("score", table, "repaid", sensitive_features="sex", ids="no")
    assert own["sp", "f"].high == pytest.approx(again["gaps"][0]["high"], abs=1e-12)
    printed = call("audit", "visits.csv", *NAMED, "--id", "no").out
    assert printed.startswith("Audit of 1,200 rows of 300 people in 2 groups by sex\n")
    assert "intervals and tests are by person" in printed


def test_a_repair_keeps_a_person_on_one_side(visits, call, tmp_path, monkeypatch):
    seen = []
    fit = fairmend.RepairedClassifier.fit

    def watched(self, *args, **more):
        seen.append(more["ids"])
        return fit(self, *args, **more)

    monkeypatch.setattr(fairmend.RepairedClassifier, "fit", watched)
    done = call("repair", "visits.csv", *NAMED, "--id", "no", "-o", "out", "--json")
    assert done.code in (0, 1), done.err
    assert "people: tests and the plan's interval are by person" in done.err
    assert set(seen[0].value_counts()["count"]) == {4}  # all rows of everybody who was fitted on
    assert json.loads(done.out)["holdout"]["people"] == 4 * (N - seen[0].n_unique())


def test_a_row_without_an_id_is_an_error(visits, call, tmp_path):
    visits.with_columns(
        pl.when(pl.int_range(N) == 6).then(None).otherwise("no").alias("no")
    ).write_csv(tmp_path / "blank.csv")
    done = call("audit", "blank.csv", *NAMED, "--id", "no")
    assert (done.code, done.out) == (3, "")
    assert done.err == (
        "fairmend: column 'no': must hold an id for everybody; it is empty in line 8. Give "
        "everybody an id, or leave --id out if each row is a person.\n"
    )


def test_many_files_take_no_ids_that_repeat(visits, call, tmp_path):
    (tmp_path / "lake").mkdir()
    for part in range(2):
        visits.with_columns(pl.int_range(N).alias("no")).write_csv(tmp_path / f"lake/{part}.csv")
    done = call("audit", "lake", *NAMED, "--id", "no")
    assert (done.code, done.out) == (3, "")
    assert done.err == (
        "fairmend: --id: must be another in each row where FILE is many files; 600 rows are 300 "
        "people. Put them into one file, where intervals are by person; with --ignore no instead "
        "each row counts as a person of its own.\n"
    )
    assert call("audit", "lake", *NAMED, "--ignore", "no").code == 0
    assert call("audit", "lake/0.*", *NAMED, "--id", "no").code == 0


def test_an_audit_of_the_accepted_says_so(visits, call, tmp_path):
    visits.filter(pl.col("score") > 0.5).write_csv(tmp_path / "accepted.csv")
    done = call("audit", "accepted.csv", *NAMED)
    assert done.code == 0, done.err
    words = " ".join(done.out.split())
    assert "Everybody here has a positive decision: anybody who was turned down is missing" in words
    assert "1.00" not in done.out


def test_groups_in_two_spellings_are_pointed_out(call, tmp_path):
    sexes = ["female"] * 300 + ["male"] * 300 + ["Female"] * 40 + ["femlae"] * 9
    ages = ["18-24", "25-30"] * 324 + ["25-31"]
    rows = [
        f"{s},{a},{i % 2},{i // 2 % 2}" for i, (s, a) in enumerate(zip(sexes, ages, strict=True))
    ]
    (tmp_path / "p.csv").write_text("\n".join(["sex,age,said,paid", *rows]))
    done = call("audit", "p.csv", "--group", "sex", "--group", "age", "--label", "paid",
                "--predictions", "said")  # fmt: skip
    assert done.code == 0, done.err
    told = [line for line in done.err.splitlines() if "groups of their own" in line]
    assert told == [
        "fairmend: note: column 'sex': 'Female' (40 people) and 'female', 'femlae' (9 people) and "
        "'female' count as groups of their own; if they are one group, write it in one way in the "
        "file"
    ]
