"""A gap that stays: the true reason first, and no advice that does not help."""

import json
import re

import numpy as np
import polars as pl
import pytest

from fairmend.tables import points

pytestmark = pytest.mark.slow
NAMED = ("--label", "y", "--group", "s", "--predictions", "said")


def write_people(folder, n=2_000):
    """Group b has the better x; a day is shared by two people at most."""
    rng = np.random.default_rng(3)
    s = rng.choice(["a", "b"], n)
    x, c = rng.integers(0, 6, n) + (s == "b"), rng.integers(0, 3, n)
    y = (rng.random(n) < 1 / (1 + np.exp(3 - x))).astype(int)
    said = (x + 0.5 * c + 0.3 * rng.normal(size=n) > 3).astype(int)
    table = pl.DataFrame({"x": x, "c": c, "day": np.arange(n) // 2, "y": y, "s": s, "said": said})
    table.write_csv(folder / "people.csv")


def repair(call, folder, *more):
    write_people(folder)
    return call("repair", "people.csv", *NAMED, *more, "--force", "-o", "m.fairmend", cwd=folder)


@pytest.mark.filterwarnings("ignore::fairmend.FairmendWarning")
def test_where_the_constraints_conflict_no_rule_is_blamed(call, tmp_path):
    metrics = ("--metric", "sp", "--metric", "fnr", "--metric", "fpr")
    both = ("--ignore", "day", *metrics, "--immutable", "x")
    done = repair(call, tmp_path, *both)
    assert done.code == 1, done.err
    said = " ".join(done.out.split())
    headlines = re.findall(r"NOT CLOSED: .*? the gap in (\w+) of a .*? after the repair: ", said)
    assert headlines == ["sp", "fnr", "fpr"], "a line for each metric, with its own figures"
    assert "These gaps cannot all be closed at once" in said
    [short] = json.loads(repair(call, tmp_path, *both, "--json").out)["not_closed"]
    [trial] = short["trials"]
    assert (short["status"], trial["gap_without"]) == ("INFEASIBLE", short["after"])
    left = max(short["gaps"], key=lambda gap: abs(gap["after"]))
    assert (short["before"], short["after"]) == (left["before"], left["after"])
    assert "Without --immutable x" not in said, "its own table shows that this does not help"
    assert "drop a rule" not in said


def test_the_rule_that_is_in_the_way_is_named_with_what_it_leaves(call, tmp_path):
    rules = ("--metric", "sp", "--immutable", "c", "--immutable", "day")
    done = repair(call, tmp_path, *rules)
    assert done.code == 1
    said = " ".join(done.out.split())
    [short] = json.loads(repair(call, tmp_path, *rules, "--json").out)["not_closed"]
    c, day = short["trials"]
    assert day["gap_without"] < short["after"] - 0.01
    assert c["gap_without"] > day["gap_without"]
    assert "for " in said.partition("With --predictions people can only be edited into rows")[2]
    assert f"Without --immutable day the gap would be {points(day['gap_without'])} points." in said


def test_a_coded_group_has_its_name_on_the_command_line(call, tmp_path):
    write_people(tmp_path)
    table = pl.read_csv(tmp_path / "people.csv")
    coded = table["s"].replace_strict({"a": "yes", "b": "no"}).alias("afam")
    table.drop("s").with_columns(coded).write_csv(tmp_path / "coded.csv")
    named = ("coded.csv", "--label", "y", "--group", "afam", "--predictions", "said")
    audited = call("audit", *named, "--fail-on", "sp>0.01", cwd=tmp_path)
    assert "sp: the gap of afam = yes against afam = no is +" in audited.err
    rules = ("--immutable", "c", "--immutable", "day", "--force", "-o", "m.fairmend")
    done = call("repair", *named, *rules, cwd=tmp_path)
    assert done.out.startswith("NOT CLOSED: on the audit data the gap in sp of afam = yes against")
    assert "Plan for afam = yes against afam = no: sp by least_change" in done.out
    found = json.loads(call("repair", *named, *rules, "--json", cwd=tmp_path).out)
    assert [(short["target"], short["baseline"]) for short in found["not_closed"]] == [
        ("yes", "no")
    ]
    assert "afam = yes" in call("inspect", "m.fairmend", cwd=tmp_path).out
