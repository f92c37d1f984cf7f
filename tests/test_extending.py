"""What others add from outside the package works end to end by its name."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest
from typer.testing import CliRunner

import fairmend
from fairmend import MetricWords, RateGap
from fairmend.data.limits import Chance
from fairmend.data.stored import stored
from fairmend.errors import ArtifactError, DataError
from fairmend.measure import disparity
from fairmend.repair import methods
from fairmend.repair.destinations import Donors
from fairmend.repair.plan import Plan, Route


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


# -------------------------------------------------------------------- a repair method


@stored("tests.Lottery")
@dataclass(frozen=True, eq=False)
class Lottery(Plan):
    """Everybody who was refused has the same chance of the nearest row that was not."""

    chance: Chance
    donors: Donors

    def route(self, rows, answers):
        refused = np.flatnonzero(answers.decision == 0)
        found = self.donors.nearest(rows.take(refused))
        return Route.flips(len(rows), refused, np.full(len(refused), self.chance), found)


@dataclass(frozen=True)
class LotteryOptions:
    most: float = 1.0


def lottery(problem):
    gap, decision = problem.gaps[0], problem.source.decision
    excess, all_accepted = gap.excess(decision), gap.excess(np.ones_like(decision))
    chance = min(excess / (excess - all_accepted), problem.options(LotteryOptions).most)
    return Lottery(**problem.common(), chance=chance, donors=problem.donors(1.0))


@pytest.fixture(scope="module")
def unequal(people):
    """People of whom those in a have higher scores."""
    X, y, group = people
    return np.c_[X[:, 0] + (group == "a"), np.arange(len(X)) % 3], y, group


@pytest.fixture
def registered(monkeypatch):
    """The method by its name, for one test."""
    monkeypatch.setattr(methods, "_REGISTERED", dict(methods.methods()))
    methods.repair_method(
        "lottery", help="one chance for all", uses=("level", "cost"), options=LotteryOptions
    )(lottery)


def test_a_method_is_one_function(registered, unequal, tmp_path):
    X, y, group = unequal
    repaired = fairmend.RepairedClassifier(
        by_score, "sp", method="lottery", immutable=["x1"], key=bytes(32)
    ).fit(X, y, sensitive_features=group)
    plan, data = repaired.plan_, repaired.data_
    assert (plan.method, plan.status.name) == ("lottery", "CLOSED")
    assert str(plan).startswith("Plan for b against a: sp by lottery")
    law = plan.route(data.table.take(data["b"].rows), data["b"].answers)
    np.testing.assert_allclose(np.bincount(law.row, law.probability), 1)
    np.testing.assert_allclose(
        data["b"].mass @ law.expected_decision(data["b"].answers),
        data["a"].mass @ data["a"].decision,
    )
    ids = np.arange(len(X))
    assert np.array_equal(repaired.transform(X, sensitive_features=group, ids=ids)[:, 1], X[:, 1])
    report = repaired.report(X, y, sensitive_features=group)
    assert "lottery" in str(report.provenance.settings)

    repaired.save(tmp_path / "one.fairmend")
    loaded = fairmend.load(tmp_path / "one.fairmend", by_score, key=bytes(32))
    before, after = (
        one.predict(X, sensitive_features=group, ids=ids) for one in (repaired, loaded)
    )
    assert np.array_equal(before, after)


def test_a_method_says_which_settings_and_options_it_has(registered, unequal):
    X, y, group = unequal
    base = {"method": "lottery", "key": bytes(32)}
    capped = fairmend.RepairedClassifier(by_score, method_options={"most": 0.01}, **base)
    assert capped.fit(X, y, sensitive_features=group).plan_.status.name == "REMAINS"
    for wrong in ({"rank": "cost"}, {"method_options": {"least": 0.01}}):
        with pytest.raises(DataError, match="lottery"):
            fairmend.RepairedClassifier(by_score, **base, **wrong).fit(
                X, y, sensitive_features=group
            )


def test_a_function_that_is_not_registered_is_a_method_too(unequal):
    X, y, group = unequal
    repaired = fairmend.RepairedClassifier(by_score, method=lottery, key=bytes(32))
    assert repaired.fit(X, y, sensitive_features=group).plan_.status.name == "CLOSED"


def test_the_command_line_offers_a_method(registered):
    from fairmend.cli import main

    found = CliRunner().invoke(main.app, ["repair", "--help"])
    assert "lottery" in found.output


# -------------------------------------------------------------------- a cost


def twice_the_distance(rows, others):
    return 2 * np.abs(rows[:, None, 0] - others[None, :, 0])


def test_a_cost_is_one_function(unequal, tmp_path):
    X, y, group = unequal
    usual = fairmend.RepairedClassifier(by_score, key=bytes(32)).fit(X, y, sensitive_features=group)
    repaired = fairmend.RepairedClassifier(by_score, cost=twice_the_distance, key=bytes(32))
    repaired.fit(X, y, sensitive_features=group)
    assert repaired.plan_.status.name == "CLOSED"
    assert repaired.plan_.outlook.edited == pytest.approx(usual.plan_.outlook.edited)
    assert repaired.plan_.outlook.cost >= 2
    costs = twice_the_distance(X[:50], X[:50])
    assert (costs >= 0).all()
    assert (np.diagonal(costs) == 0).all()
    assert "mean cost" in str(repaired.plan_)
    assert repaired.report(X, y, sensitive_features=group).after["sp", "b"].gap < 0.02
    with pytest.raises(ArtifactError, match="twice_the_distance"):  # an artifact holds no code
        repaired.save(tmp_path / "one.fairmend")
