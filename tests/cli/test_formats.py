"""One audit from every format and every way to name a model."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from fairmend.datasets import load_adult

SCORED = ("--label", "income", "--positive", "high", "--group", "sex")


@pytest.fixture(scope="module")
def table():
    adult = load_adult()
    model = LogisticRegression(C=100, max_iter=1_000).fit(adult.X[:10_000], adult.y[:10_000])
    part = adult.X[10_000:13_000].copy()
    part["score"] = model.predict_proba(part)[:, 1]
    part["sex"] = adult.sensitive_features[10_000:13_000]
    part["income"] = np.where(adult.y[10_000:13_000] == 1, "high", "low")
    return part


@pytest.fixture(scope="module")
def files(table, tmp_path_factory):
    folder = tmp_path_factory.mktemp("scored")
    table.to_csv(folder / "semicolons.csv", index=False, sep=";", encoding="utf-8-sig")
    table.to_csv(folder / "tabs.tsv", index=False, sep="\t")
    table.to_csv(folder / "commas.csv", index=False)
    table.to_parquet(folder / "scored.parquet")
    table.to_feather(folder / "scored.arrow")
    (folder / "broken.parquet").write_bytes(b"PAR1 and then nothing of the kind")
    (folder / "vendor.py").write_text("def cut(rows):\n    return rows['score'].to_numpy()\n")
    return folder


@pytest.mark.parametrize(
    "name", ["semicolons.csv", "tabs.tsv", "commas.csv", "scored.parquet", "scored.arrow"]
)
def test_every_format_gives_the_same_audit(name, files, table, call):
    done = call("audit", name, *SCORED, "--predictions", "score", "--json", cwd=files)
    assert done.code == 0, done.err
    gaps = {(g["metric"], g["target"]): g["gap"] for g in json.loads(done.out)["gaps"]}
    decided = table["score"] > 0.5
    missed = [
        (~decided)[(table["sex"] == sex) & (table["income"] == "high")].mean()
        for sex in ("Female", "Male")
    ]
    np.testing.assert_allclose(gaps["fnr", "Female"], missed[0] - missed[1], atol=1e-12)


def test_a_crossed_limit_fails_the_run(files, call):
    arguments = ("audit", "commas.csv", *SCORED, "--predictions", "score", "--fail-on")
    done = call(*arguments, "fnr>10%", cwd=files)
    assert done.code == 1
    assert done.err.startswith("fairmend: fnr: the gap of Female against Male is +")
    kept = call(*arguments, "fnr>0.9", cwd=files)
    assert (kept.code, kept.err) == (0, "")


def test_intersections(files, call):
    done = call("audit", "commas.csv", *SCORED, "--group", "Immigrant", "--predictions", "score",
                "--metric", "sp", "--json", cwd=files)  # fmt: skip
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert {gap["target"] for gap in found["gaps"]} <= {
        f"{sex} & {born}" for sex in ("Female", "Male") for born in (0, 1)
    }


def test_a_model_from_a_module(files, call):
    by_model = call("audit", "commas.csv", *SCORED, "--model", "vendor:cut", "--json", cwd=files)
    recorded = call("audit", "commas.csv", *SCORED, "--predictions", "score", "--json", cwd=files)
    assert by_model.code == 0, by_model.err
    assert json.loads(by_model.out)["gaps"] == json.loads(recorded.out)["gaps"]


def test_a_repair_of_a_model_is_applied_by_asking_it(files, call, tmp_path, table):
    ask = ("--model", "vendor:cut", "--threshold", "0.5")
    inputs = ("--input", "score", "--input", "Married")
    done = call("repair", "commas.csv", *SCORED, *ask, *inputs, "--immutable", "Married",
                "--metric", "sp", "-o", tmp_path / "m.fairmend", cwd=files)  # fmt: skip
    assert done.code == 0, done.err
    unnamed = call("apply", tmp_path / "m.fairmend", "commas.csv", "-o", tmp_path / "o", cwd=files)
    assert (unnamed.code, "name it with --model" in " ".join(unnamed.err.split())) == (2, True)
    out = tmp_path / "out.csv"
    assert call("key", tmp_path / "secret.key").code == 0
    applied = call("apply", tmp_path / "m.fairmend", "commas.csv", "--model", "vendor:cut",
                   "--key-file", tmp_path / "secret.key",
                   "-o", out, cwd=files)  # fmt: skip
    assert applied.code == 0, applied.err
    after = pd.read_csv(out)
    # the decision is the model's own, about the edited row
    np.testing.assert_array_equal(after["decision"] == "high", after["score"] > 0.5)
    rates = after.groupby("sex")["decision"].apply(lambda said: (said == "high").mean())
    assert abs(rates["Female"] - rates["Male"]) < 0.05  # 0.17 before; 7 of 10 took part in the fit
    assert (after.loc[after["sex"] == "Male", "score"] == table["score"].to_numpy()[
        (table["sex"] == "Male").to_numpy()]).all()  # fmt: skip
    other = files / "other.py"
    other.write_text("def cut(rows):\n    return 1 - rows['score'].to_numpy()\n")
    refused = call("apply", tmp_path / "m.fairmend", "commas.csv", "--model", "other:cut",
                   "-o", tmp_path / "o", cwd=files)  # fmt: skip
    assert refused.code == 5
    assert "must be loaded with the model it was fitted for" in refused.err


def test_a_model_that_cannot_be_reached(files, call):
    done = call("audit", "commas.csv", *SCORED, "--model", "http://127.0.0.1:9/invocations",
                cwd=files)  # fmt: skip
    assert done.code == 4
    assert done.err.startswith("fairmend: ")


def test_a_file_that_is_no_table(files, call):
    done = call("audit", "vendor.py", *SCORED, "--predictions", "score", cwd=files)
    assert done.code == 3
    assert done.err.startswith("fairmend: --label: must name a column of the file; ")
    (files / "script.py").write_text("import os\nprint(os.name, os.sep)\n")
    done = call("audit", "script.py", *SCORED, "--predictions", "score", cwd=files)
    assert (done.code, done.err) == (3, (
        "fairmend: file 'script.py', row 1: must have no more cells than the first line, 1; got 2. "
        "Put cells that hold ',' in quotes. Or is the file no table?\n"
    ))  # fmt: skip
    done = call("audit", "broken.parquet", *SCORED, "--predictions", "score", cwd=files)
    assert done.code == 3
    assert done.err.startswith("fairmend: file 'broken.parquet': must be a table in PARQUET; ")
