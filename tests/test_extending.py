"""What others add from outside the package works end to end by its name."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import fairmend
from fairmend import MetricWords, RateGap
from fairmend.errors import ArtifactError, DataError
from fairmend.measure import disparity


def _omitted(h, y):
    return (1 - h) * y


def _declined(h, y):
    return 1 - h


def by_score(rows):
    return np.asarray(rows)[:, 0] > 2


@pytest.fixture
def omission(monkeypatch):
    """A metric that fairmend does not know, registered for one test."""
    monkeypatch.setattr(disparity, "_REGISTRY", dict(disparity._REGISTRY))
    return RateGap(
        "for",
        rate=_omitted,
        given=_declined,
        words=MetricWords(
            "false omission rate",
            "positive outcomes among negative decisions",
            event="turn out to have a positive outcome",
            among="a negative decision",
            complements=("npv",),
        ),
    )


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    n = 4_000
    group = np.where(rng.random(n) < 0.5, "a", "b")
    score = rng.integers(0, 6, n)
    chance = np.where(group == "b", 0.5, 0.2) + 0.06 * score
    return score[:, None].astype(float), (rng.random(n) < chance).astype(int), group


def test_a_metric_is_one_declaration(omission, people, tmp_path):
    X, y, group = people
    audit = fairmend.audit(by_score, X, y, sensitive_features=group, metrics=["sp", "FOR"])
    line = "for: false omission rate, positive outcomes among negative decisions"
    assert line in str(audit)
    assert audit["for", "b"].gap > 0.2
    assert audit.to_dict()["metrics"]["for"] == omission.title

    with pytest.raises(DataError, match=r"one of sp, .*, for, .*'for': npv is 1 - for"):
        fairmend.audit(by_score, X, y, sensitive_features=group, metrics=["npv"])

    repaired = fairmend.RepairedClassifier(by_score, "for", key=bytes(32)).fit(
        X, y, sensitive_features=group
    )
    report = repaired.report(X, y, sensitive_features=group)
    verdict = " ".join(answer for _, answer in report.verdict())
    assert re.search(
        r"of those with a negative decision, .* of b and .* turn out to have a positive outcome",
        verdict,
    )
    assert "false omission rate" in report.to_html()

    repaired.save(tmp_path / "one.fairmend")
    loaded = fairmend.load(tmp_path / "one.fairmend", by_score, key=bytes(32))
    assert loaded.disparity == "for"
    ids = np.arange(len(X))
    before, after = (
        one.predict(X, sensitive_features=group, ids=ids) for one in (repaired, loaded)
    )
    assert np.array_equal(before, after)


def test_an_artifact_names_the_metric_that_is_not_registered(omission, people, tmp_path):
    X, y, group = people
    fairmend.RepairedClassifier(by_score, "for", key=bytes(32)).fit(
        X, y, sensitive_features=group
    ).save(tmp_path / "one.fairmend")
    del disparity._REGISTRY["for"]
    with pytest.raises(ArtifactError, match="registered"):
        fairmend.load(tmp_path / "one.fairmend", by_score, key=bytes(32))


def test_a_metric_of_fairmend_cannot_be_replaced(omission):
    with pytest.raises(DataError, match="'fnr'"):
        RateGap("fnr", rate=_omitted, given=_declined, words=omission.words)


def test_the_command_line_takes_a_metric(omission, people, tmp_path):
    from fairmend.cli import main

    X, y, group = people
    file = tmp_path / "people.csv"
    lines = [f"{s:g},{o},{g},{int(s > 2)}" for s, o, g in zip(X[:, 0], y, group, strict=True)]
    file.write_text("\n".join(["score,repaid,town,offered", *lines]))
    found = CliRunner().invoke(
        main.app,
        ["audit", str(file), "--group", "town", "--label", "repaid", "--predictions", "offered",
         "--metric", "for", "--json"],
    )  # fmt: skip
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["metrics"]["for"] == omission.title


def test_a_package_declares_a_metric_and_the_help_shows_it(tmp_path):
    (tmp_path / "omissions.py").write_text(
        "import fairmend\n"
        "FOR = fairmend.RateGap('for', lambda h, y: (1 - h) * y, lambda h, y: 1 - h,\n"
        "                       fairmend.MetricWords('false omission rate'))\n"
    )
    about = tmp_path / "omissions-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: omissions\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[fairmend.metrics]\nfor = omissions:FOR\n")
    asked = subprocess.run(
        [sys.executable, "-m", "fairmend", "audit", "--help"],
        env={**os.environ, "PYTHONPATH": str(tmp_path), "COLUMNS": "300", "TERM": "dumb"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "for (false omission rate)" in " ".join(asked.stdout.split())
