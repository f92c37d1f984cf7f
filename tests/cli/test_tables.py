"""A bank's whole table: the command line refuses what the library refuses."""

import json

import polars as pl
import pytest
from tests.measure.test_inputs import READ, TABLE

NAMED = ("--label", "repaid", "--group", "over_40", "--metric", "sp")
VENDOR = """
import numpy as np


def decides(rows):
    income, age = np.asarray(rows["income"]), np.asarray(rows["age"])
    return ((income - 2800) / 700 + (age - 45) / 40 > 0).astype(int)
"""


@pytest.fixture
def folder(tmp_path):
    pl.from_pandas(TABLE).write_csv(tmp_path / "bank.csv")
    (tmp_path / "bank").mkdir()
    pl.from_pandas(TABLE).write_parquet(tmp_path / "bank" / "0.parquet")
    (tmp_path / "bank_vendor.py").write_text(VENDOR)
    return tmp_path


@pytest.mark.parametrize("file", ["bank.csv", "bank"])
@pytest.mark.parametrize(
    ("model", "ignored", "message"),
    [
        (("--predictions", "decision"), (), "column 'case': must not be an input if it only tells "
         "who somebody is; all its 800 values differ. Say --id case or --ignore case; if the model "
         "does read it, --not-id case."),
        (("--predictions", "decision"), ("case",), "column 'score': must not be an input if it is "
         "another answer of the model; it ranks no two people otherwise than 'decision' does. Say "
         "--ignore score; if the model does read it, name all inputs with --input."),
        (("--predictions", "score"), ("case",), "column 'decision': must not be an input if it is "
         "another answer of the model; it tells people apart just where 'score' does. Say "
         "--ignore decision; if the model does read it, name all inputs with --input."),
        (("--model", "bank_vendor:decides"), ("case",), "column 'score': must not be an input if "
         "it is another answer of the model; it ranks no two people otherwise than the model does, "
         "whose answers on 256 rows do not depend on it. Say --ignore score; if the model does "
         "read it, name all inputs with --input."),
    ],
)  # fmt: skip
def test_what_is_no_input_is_refused(  # noqa: PLR0917
    file, model, ignored, message, folder, call
):
    ignore = [part for name in ignored for part in ("--ignore", name)]
    for command, more in (("explain", ()), ("repair", ("--holdout", file, "-o", "m.fairmend"))):
        done = call(command, file, *NAMED, *model, *ignore, *more, cwd=folder)
        assert done.code == 3, done.err
        assert done.err.splitlines()[-1] == f"fairmend: {message}"
    assert not (folder / "m.fairmend").exists()


@pytest.mark.parametrize("file", ["bank.csv", "bank"])
def test_a_copy_of_the_label_is_refused(file, folder, call):
    copied = pl.from_pandas(TABLE).drop("case", "score").with_columns(
        closed=pl.col("repaid").replace_strict({0: "default", 1: "paid"})
    )  # fmt: skip
    copied.write_csv(folder / "bank.csv")
    copied.write_parquet(folder / "bank" / "0.parquet")
    done = call("explain", file, *NAMED, "--predictions", "decision", cwd=folder)
    assert (done.code, done.out) == (3, "")
    assert done.err.splitlines()[-1] == (
        "fairmend: column 'closed': must not be an input if it is the outcome itself; it tells "
        "people apart just where --label does. Say --ignore closed; if the model does read it, "
        "name all inputs with --input."
    )


def test_named_inputs_are_taken_at_their_word(folder, call):
    inputs = [part for name in (*READ, "score") for part in ("--input", name)]
    done = call("explain", "bank.csv", *NAMED, "--predictions", "decision", *inputs, "--json",
                cwd=folder)  # fmt: skip
    assert done.code == 0, done.err
    assert "score" in json.dumps(json.loads(done.out))
