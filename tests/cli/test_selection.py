"""People whose outcome nobody knows, as of those whom a bank turned down."""

import csv
import json

import numpy as np
import polars as pl
import pytest

N = 2_000
NAMED = ("--group", "sex", "--predictions", "score", "--id", "no")


@pytest.fixture
def loans(tmp_path):
    """Women need a higher income; who is turned down never gets to repay."""
    rng = np.random.default_rng(0)
    sex, income = rng.choice(["f", "m"], N), rng.normal(0, 1, N).round(2)
    score = 1 / (1 + np.exp(0.6 * (sex == "f") - income - 0.4))
    repaid = np.where(rng.random(N) < 1 / (1 + np.exp(-income - 1)), "yes", "no")
    frame = pl.DataFrame({
        "no": np.arange(N), "income": income, "sex": sex, "score": score.round(4),
        "decision": np.where(score > 0.5, "approve", "decline"),
        "repaid": np.where(score > 0.5, repaid, ""),
    })  # fmt: skip
    frame.write_csv(tmp_path / "loans.csv")
    return frame


def test_rates_over_those_who_were_accepted_are_told(loans, call):
    done = call("audit", "loans.csv", *NAMED, "--ignore", "decision", "--label", "repaid",
                "--positive", "yes")  # fmt: skip
    assert done.code == 0, done.err
    turned_down = (loans["decision"] == "decline").sum()
    assert (
        f"note: {turned_down:,} people have no outcome, and 0.0 % of them a positive decision, "
        "against 100.0 % of those who have one: every rate here is over the latter alone; without "
        "--label the decisions of everybody are compared" in done.err
    )


@pytest.mark.parametrize("command", ["explain", "repair"])
def test_decisions_are_not_compared_among_the_accepted(command, loans, call, tmp_path):
    done = call(command, "loans.csv", *NAMED, "--ignore", "decision", "--label", "repaid",
                "--positive", "yes", "--metric", "sp")  # fmt: skip
    assert (done.code, done.out) == (3, "")
    assert "--label: must be left out here for sp" in done.err
    assert "Say --ignore repaid instead: sp needs no outcomes." in done.err
    assert {path.name for path in tmp_path.iterdir()} == {"loans.csv"}


@pytest.mark.parametrize("recorded", ["score", "decision"])
def test_without_a_label_everybody_is_audited_explained_and_mended(recorded, loans, call, tmp_path):
    other = "decision" if recorded == "score" else "score"
    word = ("--positive", "approve") if recorded == "decision" else ()
    named = ("--group", "sex", "--predictions", recorded, "--id", "no", "--ignore", "repaid",
             "--ignore", other, *word)  # fmt: skip
    found = json.loads(call("audit", "loans.csv", *named, "--json").out)
    accepted = dict(loans.group_by("sex").agg((pl.col("decision") == "approve").mean()).iter_rows())
    [gap] = found["gaps"]
    assert gap["gap"] == pytest.approx(accepted["m"] - accepted["f"], abs=1e-9)
    explained = call("explain", "loans.csv", *named, "--json")
    assert json.loads(explained.out)["before"] == pytest.approx(gap["gap"], abs=1e-9)
    call("key", "secret.key")
    done = call("repair", "loans.csv", *named, "--key-file", "secret.key", "-o", "repair", "--json")
    assert done.code == 0, done.err
    results = json.loads(done.out)["results"]
    assert results["accuracy_before"] is None
    [after] = results["after"]["gaps"]
    assert after["low"] < 0 < after["high"]
    assert "accuracy is not" in (tmp_path / "repair.html").read_text(encoding="utf-8")
    applied = call("apply", "repair", "loans.csv", "--id", "no", "--key-file", "secret.key",
                   "--emit", "decisions", "-o", "decided.csv")  # fmt: skip
    assert applied.code == 0, applied.err
    with (tmp_path / "decided.csv").open(newline="") as file:
        said = {int(row["no"]): row["decision"] for row in csv.DictReader(file)}
    positive = {"score": "1", "decision": "approve"}[recorded]
    decided = loans.with_columns(pl.Series("repair", [said[no] == positive for no in loans["no"]]))
    rates = dict(decided.group_by("sex").agg(pl.col("repair").mean()).iter_rows())
    assert rates["m"] == pytest.approx(accepted["m"], abs=1e-12)
    # two standard errors of the rate of a thousand people
    assert rates["f"] == pytest.approx(rates["m"], abs=0.04)
    reported = call("report", "repair", "loans.csv", "--not-holdout")
    assert reported.code == 0, reported.err
    assert "Accuracy" not in reported.out
    with_label = call("report", "repair", "loans.csv", "--label", "repaid")
    assert with_label.code != 0


def test_who_lacks_an_outcome_by_chance_is_left_out_and_counted(loans, call, tmp_path):
    rng = np.random.default_rng(1)
    repaid = rng.random(N) < 1 / (1 + np.exp(-loans["income"].to_numpy() - 1))
    told = pl.Series(np.where(rng.random(N) < 0.1, "", np.where(repaid, "yes", "no")))
    loans.with_columns(told.alias("repaid")).write_csv(tmp_path / "some.csv")
    done = call("repair", "some.csv", *NAMED, "--ignore", "decision", "--label", "repaid",
                "--positive", "yes", "-o", "repair")  # fmt: skip
    assert done.code == 0, done.err
    assert "people have no outcome, and" not in done.err
    page = (tmp_path / "repair.html").read_text(encoding="utf-8")
    assert f"{(told == '').sum()} people without an outcome or a group were left out." in page


def test_another_answer_is_no_input(loans, call):
    done = call("explain", "loans.csv", *NAMED, "--ignore", "repaid")
    assert (done.code, done.out) == (3, "")
    assert done.err == (
        "fairmend: column 'decision': must not be an input if it is another answer of the model; "
        "it tells people apart just where 'score' does. Say --ignore decision; if the model does "
        "read it, name all inputs with --input.\n"
    )
    named = call("explain", "loans.csv", *NAMED, "--input", "income", "--input", "decision")
    assert named.code == 0, named.err


def test_scores_that_run_against_the_outcome_are_told(loans, call):
    done = call("audit", "loans.csv", *NAMED, "--label", "repaid", "--positive", "no")
    assert "note: the model's scores run against the outcome (AUC 0." in done.err
    assert "does --positive no name the outcome that a high score foretells?" in done.err


def test_a_small_reference_is_told(loans, call, tmp_path):
    few = loans.with_columns(
        pl.when(pl.col("no") < 40).then(pl.lit("x")).otherwise("sex").alias("sex"),
        pl.when(pl.col("no") < 40).then(0.9).otherwise("score").alias("score"),
    )
    few.write_csv(tmp_path / "few.csv")
    named = (*NAMED, "--ignore", "decision", "--ignore", "repaid")
    said = "note: others are compared with 'x' (2.0 % of the people) as the best-off"
    assert said in call("audit", "few.csv", *named).err
    assert said in call("repair", "few.csv", *named, "-o", "few").err
    assert said not in call("audit", "few.csv", *named, "--reference", "m").err
