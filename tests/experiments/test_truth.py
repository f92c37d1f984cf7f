"""The table of statements finds what is false, and finds nothing where all is as said."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from scripts import FOLDER, loaded

ROOT = Path(__file__).parents[2]

NAMES = ("_worlds", "_recount", "_cells", "_claims", "_statements", "_shared", "truth")


@pytest.fixture(scope="module")
def scripts():
    with loaded(*NAMES) as found:
        yield found


@pytest.fixture(scope="module")
def closed(scripts):
    """A repair that does what it says, and its judge."""
    cell = scripts.cells.all_cells()[scripts.truth.QUICK[0]]
    people = scripts.statements.people_of(cell, 500, 0)
    return scripts.statements.Judge(cell, people, scripts.statements.fit(cell, people))


def saying(plan, status):
    """The same plan with another status."""
    return replace(plan, status=type(plan.status)[status])


def test_what_is_as_said_is_not_called_false(closed):
    assert closed.repair.plan_.status.name == "CLOSED"
    assert closed.false_statements(closed.repair.plan_) == []


@pytest.mark.parametrize(
    ("status", "found"),
    [
        ("IDENTITY", "IDENTITY, but people are edited"),
        ("REMAINS", "REMAINS, but every gap is at its aim"),
        ("UNREACHABLE", "UNREACHABLE, but every gap is at its aim"),
        ("PARTLY", "PARTLY, but the whole gap was asked for"),
    ],
)
def test_a_planted_status_is_found(closed, status, found):
    assert found in closed.false_statements(saying(closed.repair.plan_, status))


def test_a_gap_that_is_not_closed_is_found(scripts, closed):
    # the plan says closed, and is not in force
    judge = scripts.statements.Judge(closed.cell, closed.people, closed.repair)
    judge.after = judge.people.own
    assert judge.false_statements(closed.repair.plan_) == [
        "CLOSED, but the gap is not at its aim",
        "outlook, after: not the counted gap",
        "outlook, to_positive: not the counted share",
    ]
    here = judge.people.groups == closed.repair.plan_.target
    judge.after = np.where(here, 0.0, judge.people.own)
    stuck = saying(closed.repair.plan_, "UNREACHABLE")
    said = judge.false_statements(stuck)
    assert "UNREACHABLE, but the gap is wider than before" in said
    assert "UNREACHABLE, but to edit nobody leaves less" in said
    assert "UNREACHABLE, but another level leaves less" in said


def test_planted_figures_are_found(closed):
    plan = closed.repair.plan_
    ((name, before, after),) = plan.outlook.by_metric
    planted = replace(plan.outlook, by_metric=((name, before + 1e-6, after),), to_positive=0.0)
    assert closed.false_statements(replace(plan, outlook=planted)) == [
        "outlook, before: not the counted gap",
        "outlook, to_positive: not the counted share",
    ]


def test_harm_is_found(scripts, closed):
    own = np.array([1.0, 0.0, 1.0])
    harmed = scripts.statements.harmed
    assert not harmed(closed.cell, own, np.array([1.0, 0.5, 1.0]))
    assert harmed(closed.cell, own, np.array([1.0, 1.0, 0.9]))
    mirrored = replace(closed.cell, options=(("favorable_label", 0),))
    assert harmed(mirrored, own, np.array([1.0, 0.5, 1.0]))


def test_the_recount_is_by_hand(scripts):
    count = scripts.recount.Count(
        np.array([1.0, 1.0, 0.0, 1.0, 0.0]), np.array(list("aabbc")), np.array([1.0, 3, 1, 1, 2])
    )
    h = np.array([1.0, 0.5, 1.0, 0.0, 1.0])
    assert count.gap("sp", h, "a", "b") == pytest.approx(1.5 / 4 - 1 / 2)
    assert count.gap("fnr", h, "a", "rest") == pytest.approx(1.5 / 4 - 1)
    assert count.gap("fpr", h, "b", "c") == 0
    assert count.gap("fdr", h, "b", "rest") == pytest.approx(1 - 2 / 4.5)
    # three people of weight 4 / 3 the rate is over in the rest: half of one is a sixth
    assert count.half_a_person("sp", h, "a", "rest") == pytest.approx(max(1 / 4, 1 / 6))


@pytest.mark.parametrize("kind", ["table", "fine", "normal"])
def test_large_samples_come_to_the_truth(scripts, kind):
    for answers in ("scores", "recorded"):
        world = scripts.worlds.World(kind, 3, answers, weighted=True)
        truth, people = world.everybody(), world.audit(100_000, 0)
        for metric in ("sp", "fnr", "fpr", "fdr"):
            gaps = [
                scripts.recount.Count(some.y, some.groups, some.w).gap(
                    metric, some.own, "a", "rest"
                )
                for some in (truth, people)
            ]
            # 25,000 people in the group know a rate to .003, of those a rate is over to .006
            assert gaps[0] == pytest.approx(gaps[1], abs=0.02)


def test_shares_are_judged_with_their_monte_carlo_error(scripts):
    within = scripts.truth.within
    assert within(0.95, (0.92, 0.99), 200)
    assert within(0.89, (0.92, 0.99), 200)
    assert not within(0.89, (0.92, 0.99), 1_000)
    assert not within(1.0, (0.92, 0.99), 2_000)
    assert not within(float("nan"), (0.92, 0.99), 0)


@pytest.mark.slow
def test_every_metric_and_method_has_cells(scripts):
    cells = scripts.cells.all_cells()
    assert {*scripts.truth.QUICK} <= {*cells, *scripts.claims.all_claims()}
    for family in ("core", "varied"):
        some = {(c.metric, c.method) for c in cells.values() if c.family == family}
        assert some == {
            (metric, method)
            for metric in scripts.cells.METRICS
            for method in scripts.cells.METHODS
            if scripts.cells.is_possible(metric, method)
        } | {(metric, "blind") for metric in ("sp", "fnr", "fpr")}
    claims = scripts.claims.all_claims()
    assert all(0 <= claim.low <= claim.high <= 1 for claim in claims.values())
    some = [claim for name, claim in claims.items() if "30 features" not in name]
    assert all(scripts.claims.tried(claim, 300, 0) is not None for claim in some)


@pytest.mark.slow
def test_the_quick_run(tmp_path):
    out = tmp_path / "truth.json"
    run = subprocess.run(
        [sys.executable, str(FOLDER / "truth.py"), "--quick", "--out", str(out)],
        capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    assert "New people: the mean gap before and left" in run.stdout
    rows = json.loads(out.read_text(encoding="utf-8"))["rows"]
    assert [row["repetitions"] for row in rows] == [4] * len(rows)
    assert {"cell", "claim"} == {next(iter(row)) for row in rows}


def test_the_page_is_renewed_between_its_marks(scripts, tmp_path):
    page = tmp_path / "quality.md"
    first, last = scripts.truth.MARKS
    page.write_text(f"before\n{first}\nold\n{last}\nafter\n")
    found = {"rows": scripts.truth.run_cell(scripts.truth.QUICK[0], 500, 0, 2)}
    scripts.truth.write_section(found, page)
    text = page.read_text()
    assert text.startswith(f"before\n{first}\n")
    assert text.endswith(f"{last}\nafter\n")
    assert "old" not in text
    assert "| sp by least_change score |" in text
