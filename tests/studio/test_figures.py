"""The command lines and the Python that a project shows give its figures, to the last digit."""

import json
import os
import shlex
import warnings

import numpy as np
import polars as pl
import pytest
from tests.cli.conftest import in_process
from tests.studio.conftest import finish

from fairmend import FairmendWarning
from fairmend.data.plain import as_plain
from fairmend.data.roles import guess_roles
from fairmend.data.tablefile import read_table
from fairmend.report.findings import Explanation
from fairmend.studio.code import commands, python_code
from fairmend.studio.filing import COMMANDS, PYTHON, file_project, filed
from fairmend.studio.project import Project
from fairmend.studio.screens import columns_of
from fairmend.studio.settings import STEPS, Settings

pytestmark = pytest.mark.slow
SAYS_WHEN = ("made_at", "command", "created")


def figures(result):
    """A result without when and how it was made."""
    if isinstance(result, dict):
        return {key: figures(value) for key, value in result.items()
                if key not in (*SAYS_WHEN, "artifact", "report", "dossier")}  # fmt: skip
    return [figures(one) for one in result] if isinstance(result, list) else result


def write_scores(path):
    """Groups in numbers, outcomes 1 and 2, scores, weights; no id."""
    rng = np.random.default_rng(3)
    n = 900
    group = rng.integers(1, 3, n)
    points = rng.normal(group, 1.0).round(2)
    score = 1 / (1 + np.exp(1.5 - points - rng.normal(0, 0.3, n)))
    pl.DataFrame(
        {
            "gender": group, "points": points, "kind": rng.choice(["a", "b", "c"], n),
            "weight": rng.integers(1, 4, n),
            "result": 1 + (rng.random(n) < 1 / (1 + np.exp(1.5 - points))).astype(int),
            "score": score.round(4),
        }
    ).write_parquet(path)  # fmt: skip
    return path


MODEL = """
def decide(X):
    return [int(have > 1.6 + 0.5 * (group == 1)) for have, group in zip(X["points"], X["gender"])]
"""


def query(folder, file):
    """A project about a model that is queried, and reads the group."""
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / "vendor.py").write_text(MODEL)
    chosen = {
        "positive": "2", "metric": ["fnr"], "target": "1", "reference": "2", "ignore": ["score"],
        "model": "vendor:decide", "answers": "probability", "predictions": None,
    }  # fmt: skip
    finish(folder, file, {}, chosen, ("audit", "explain", "repair"))


@pytest.fixture(params=["loans", "scores", "queried"])
def project(request, once):
    """Projects that have little in common, with their steps done."""
    if request.param == "loans":
        return request.getfixturevalue("finished")
    if request.param == "queried":
        file = once("scores.parquet", write_scores)
        return Project.at(once("queried", lambda at: query(at, file)))
    decisions = {"positive": "2", "metric": ["sp"], "blind": True, "level": 0.5}
    file = once("scores.parquet", write_scores)
    return Project.at(once("scored", lambda at: finish(at, file, {}, decisions, STEPS[:3])))


@pytest.mark.filterwarnings("ignore::fairmend.FairmendWarning")  # the studio shows them as notes
def test_every_command_shown_gives_the_figures_shown(project):
    lines = commands(project, project.settings()).replace("\\\n", " ").splitlines()
    assert lines[0] == f"cd {shlex.quote(str(project.folder))}"
    assert len(lines) == 1 + sum(project.run(step).state == "done" for step in STEPS)
    for line in lines[1:]:
        words = shlex.split(line)
        shown = project.run(words[1]).result
        printed = in_process(*words[1:], "--json", cwd=project.folder)
        assert printed.code in (0, 1), printed.err
        assert figures(json.loads(printed.out)) == figures(shown), words[1]


def test_the_python_shown_gives_the_figures_shown(project, monkeypatch):
    settings = project.settings()
    code = python_code(project, settings, columns_of(project.run("columns", settings)))
    space = {"shown": []}
    monkeypatch.chdir(project.folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairmendWarning)  # the studio shows them as notes
        exec(compile(code.replace("print(", "shown.append("), "figures.py", "exec"), space)
    done = [step for step in STEPS if project.run(step).state == "done"]
    mine = dict(zip(done, space["shown"], strict=True))  # one for each step, in their order
    results = {step: project.run(step).result for step in done}
    assert mine["audit"].to_dict()["gaps"] == results["audit"]["gaps"]
    explained = as_plain(Explanation.of(mine["explain"]))
    assert explained == results["explain"]["explanation"]
    report = mine["repair"].to_dict()
    for part in ("before", "after", "groups", "accuracy_after"):
        assert report[part] == results["repair"]["results"][part], part
    if "alternatives" in done:
        found = as_plain(mine["alternatives"].to_dict())
        assert found["candidates"] == results["alternatives"]["candidates"]
        assert found["verdict"] == results["alternatives"]["verdict"]


def test_what_is_filed_is_whole_and_says_what_it_is(project):
    place = file_project(project)
    [latest, *_] = filed(project)
    assert latest.name == place.name
    assert {"audit.html", "repair.html", "repair.fairmend", COMMANDS, PYTHON} <= set(latest.files)
    assert set(latest.files) == {one.name for one in place.iterdir()}
    assert "key.txt" not in os.listdir(place)
    settings = Settings.from_toml((place / "studio.toml").read_text("utf-8"), "studio.toml")
    assert settings == project.settings()


def test_roles_are_guessed_by_names_and_values(project):
    settings = project.settings()
    if settings.model is not None:
        assert (settings.label, settings.groups, settings.weight) == (
            "result",
            ["gender"],
            "weight",
        )
    elif settings.label == "paid back":
        assert settings.predictions == "vendor decision"
        assert settings.positive == "yes"
        assert settings.positive_decision == "accept"
        assert settings.groups == ["sex", "origin"]
        assert settings.id == "applicant no"
        assert settings.ignore == ["applied on"]
    else:
        assert (settings.label, settings.predictions) == ("result", "score")
        assert (settings.groups, settings.weight, settings.id) == (["gender"], "weight", None)


def test_a_guess_tells_a_column_that_cannot_be_read(loans):
    by_name = {one.name: one for one in guess_roles(read_table(loans))}
    assert "say --decimal ," in by_name["monthly income"].problem
    assert by_name["hours"].problem == ""
    assert by_name["applied on"].kind == "dates"
    assert by_name["applicant no"].distinct == 900
