"""The search for alternatives by the command alone."""

import json

import polars as pl
import pytest

import fairmend

from .conftest import IGNORED, NAMED, write_applicants

pytestmark = pytest.mark.filterwarnings("ignore::fairmend.FairmendWarning")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alternatives")
    write_applicants(folder / "applicants.csv", 600)
    write_applicants(folder / "judges.csv", 400, seed=1)
    return folder


@pytest.mark.slow
def test_the_search_its_dossier_and_its_artifact(call, folder):
    done = call("alternatives", "applicants.csv", *NAMED, *IGNORED, "--margin", "0.05", "-o",
                "dossier.html", "--save", "best.fairmend", "--fail-if-better", "--json",
                cwd=folder)  # fmt: skip
    found = json.loads(done.out)
    assert found["schema"] == "fairmend.alternatives/1"
    assert done.code == (1 if found["best"] else 0)
    assert (folder / "dossier.html").exists()
    assert (folder / "best.fairmend").exists() == bool(found["best"])
    names = [one["candidate"] for one in found["candidates"]]
    assert names[0] == "the model as it is"
    assert found["people"]["choosing"] + found["people"]["judging"] == 600 - found["left_out"]
    text = (folder / "dossier.html").read_text(encoding="utf-8")
    assert "fairmend alternatives applicants.csv" in text
    if found["best"]:
        repaired = fairmend.load(folder / "best.fairmend")
        assert repaired.blind


@pytest.mark.slow
def test_other_people_judge_and_a_column_is_another_model(call, folder):
    for name in ("applicants", "judges"):
        table = pl.read_csv(folder / f"{name}.csv", separator=";", infer_schema=False)
        table = table.with_columns(pl.col("score").alias("score v2"), pl.lit("3").alias("profit"))
        table.write_csv(folder / f"{name}-2.csv")
    done = call("alternatives", "applicants-2.csv", *NAMED, *IGNORED, "--models", "v2=score v2",
                "--measure", "profit", "--margin", "0.05", "--holdout", "judges-2.csv", "--json",
                cwd=folder)  # fmt: skip
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert found["margin_is_share"] is True
    by_name = {one["candidate"]: one for one in found["candidates"]}
    assert by_name["v2"]["gap"] == by_name["the model as it is"]["gap"]
    assert by_name["v2"]["kind"] == "model"


@pytest.mark.parametrize(("more", "told"), [
    (["--measure", "acuracy"], "acuracy"),
    (["--measure", "false_positive=x"], "--measure"),
    (["--models", "v2"], "--models"),
    (["--models", "v2=nothing"], "nothing"),
    (["--models", "v2=score"], "--predictions"),
    (["--measure", "false_positive=1"], "measure"),
    (["--margin", "0"], "margin"),
    (["--metric", "xyz"], "xyz"),
    (["--holdout-share", "2"], "holdout"),
    (["-o", "applicants.csv"], "--output"),
    (["--holdout", "missing.csv"], "missing.csv"),
])  # fmt: skip
def test_mistakes(call, folder, more, told):
    done = call("alternatives", "applicants.csv", *NAMED, *IGNORED, *more, cwd=folder)
    assert done.code in (2, 3)
    assert told in done.err
    assert "Traceback" not in done.err


def test_outcomes_are_needed(call, folder):
    done = call("alternatives", "applicants.csv", "--group", "sex", "--predictions", "score",
                cwd=folder)  # fmt: skip
    assert done.code == 2
    assert "--label" in done.err
