"""The command line as people meet it: real processes, real files, exit codes."""

import json
import subprocess
import sys

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from fairmend.datasets import load_adult


def fairmend(*arguments, cwd=None, stdin=None):
    return subprocess.run(
        [sys.executable, "-m", "fairmend", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        input=stdin,
        check=False,
        env={"NO_COLOR": "1", "COLUMNS": "100", "PATH": ""},
    )


@pytest.fixture(scope="module")
def table():
    adult = load_adult()
    model = LogisticRegression(C=100, max_iter=1_000).fit(adult.X[:10_000], adult.y[:10_000])
    part = adult.X[10_000:16_000].copy()
    part["score"] = model.predict_proba(part)[:, 1]
    part["sex"] = adult.sensitive_features[10_000:16_000]
    part["income"] = np.where(adult.y[10_000:16_000] == 1, "high", "low")
    return part


@pytest.fixture(scope="module")
def files(table, tmp_path_factory):
    folder = tmp_path_factory.mktemp("scored")
    table.to_csv(folder / "semicolons.csv", index=False, sep=";", encoding="utf-8-sig")
    table.to_csv(folder / "commas.csv", index=False)
    table.to_parquet(folder / "scored.parquet")
    table.to_feather(folder / "scored.arrow")
    return folder


SCORED = ("--label", "income", "--positive", "high", "--group", "sex", "--predictions", "score")


@pytest.mark.parametrize("name", ["semicolons.csv", "commas.csv", "scored.parquet", "scored.arrow"])
def test_every_format_gives_the_same_audit(name, files, table):
    done = fairmend("audit", name, *SCORED, "--json", cwd=files)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["schema"] == "fairmend.audit/1"
    gaps = {(gap["metric"], gap["target"]): gap["gap"] for gap in found["gaps"]}
    decided = table["score"] > 0.5
    missed = [
        (~decided)[(table["sex"] == sex) & (table["income"] == "high")].mean()
        for sex in ("Female", "Male")
    ]
    np.testing.assert_allclose(gaps["fnr", "Female"], missed[0] - missed[1], atol=1e-12)


def test_standard_input(files):
    text = (files / "commas.csv").read_text()
    done = fairmend("audit", "-", *SCORED, stdin=text)
    assert done.returncode == 0
    assert done.stdout.startswith("Audit of 6,000 people in 2 groups by sex")


def test_a_crossed_limit_fails_the_run(files):
    done = fairmend("audit", "commas.csv", *SCORED, "--fail-on", "fnr>10%", cwd=files)
    assert done.returncode == 1
    assert done.stderr.startswith("fnr: the gap of Female against Male is +")
    kept = fairmend("audit", "commas.csv", *SCORED, "--fail-on", "fnr>0.9", cwd=files)
    assert (kept.returncode, kept.stderr) == (0, "")


def test_a_model_from_a_module(files, table):
    (files / "vendor.py").write_text("def cut(rows):\n    return rows['score'].to_numpy()\n")
    by_model = fairmend(
        "audit", "commas.csv", "--label", "income", "--positive", "high", "--group", "sex",
        "--model", "vendor:cut", "--json", cwd=files,
    )  # fmt: skip
    recorded = fairmend("audit", "commas.csv", *SCORED, "--json", cwd=files)
    assert by_model.returncode == 0, by_model.stderr
    assert json.loads(by_model.stdout)["gaps"] == json.loads(recorded.stdout)["gaps"]


def test_explain(files):
    done = fairmend("explain", "commas.csv", *SCORED, "--disparity", "fnr", cwd=files)
    assert done.returncode == 0, done.stderr
    assert "Counterfactual distribution for Female against Male, fnr" in done.stdout
    assert "Married" in done.stdout
    plain = fairmend("explain", "commas.csv", *SCORED, "--disparity", "fnr", "--json", cwd=files)
    found = json.loads(plain.stdout)
    assert found["status"] == "CLOSED"
    assert abs(found["after"]) <= 1e-10


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (
            ("audit", "nothing.csv", *SCORED),
            3,
            "fairmend: file 'nothing.csv': must be readable; it is not: No such file or "
            "directory. Check the name and the permissions.\n",
        ),
        (
            ("audit", "commas.csv", "--label", "incom", "--group", "sex", "--predictions", "score"),
            3,
            "fairmend: y: must name a column of X; 'incom' is not one. Did you mean 'income'?\n",
        ),
        (
            ("audit", "commas.csv", *SCORED, "--metric", "fnrr"),
            3,
            "fairmend: metric: must be one of sp, fnr, fpr, fdr, da, or a Disparity; got 'fnrr'. "
            "Did you mean 'fnr'?\n",
        ),
        (
            ("audit", "commas.csv", "--label", "income", "--positive", "high", "--group", "sex",
             "--model", "no_such_module:model"),
            4,
            "fairmend: --model: must be importable; 'no_such_module:model' is not: No module named "
            "'no_such_module'. Check the path, and run from the folder that holds the module.\n",
        ),
    ],
)  # fmt: skip
def test_failures_are_one_line_and_a_code(arguments, code, message, files):
    done = fairmend(*arguments, cwd=files)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", message)


@pytest.mark.parametrize(
    "arguments",
    [
        ("audit", "commas.csv", "--label", "income", "--group", "sex"),
        ("audit", "commas.csv", *SCORED, "--fail-on", "fnr"),
        ("audit", "commas.csv", *SCORED, "--no-such-option"),
        ("no-such-command",),
    ],
)
def test_wrong_usage_exits_2_without_a_traceback(arguments, files):
    done = fairmend(*arguments, cwd=files)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_a_file_that_is_no_table(tmp_path):
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and then nothing of the kind")
    done = fairmend("audit", "broken.parquet", *SCORED, cwd=tmp_path)
    assert done.returncode == 3
    assert done.stderr.startswith("fairmend: file 'broken.parquet': must be a table in PARQUET; ")


def test_help_needs_no_heavy_package():
    code = (
        "import sys; sys.argv = ['fairmend', '--help']\n"
        "from fairmend.__main__ import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print([m for m in ('sklearn', 'pandas', 'polars', 'altair', 'ot') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("[]")
