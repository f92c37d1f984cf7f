"""Several gaps at once: the program's optimum, or the closest point there is."""

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from sklearn.linear_model import LogisticRegression

from fairmend import FNR, FPR, AuditData, BlackBox, Population, datasets, tabulate
from fairmend.data.columns import Frame
from fairmend.data.outcomes import Labels
from fairmend.repair import flip_program
from fairmend.repair.costs import Cost
from fairmend.repair.flip_program import FlipProgram
from fairmend.repair.joint import JointPlan
from fairmend.status import PlanStatus
from planning import least_change
from programs import full_program

BOTH = (FNR, FPR)


def exact(seed, m=8):
    rng = np.random.default_rng(seed)
    rows = np.column_stack([rng.permutation(m) * 1.3, rng.integers(0, 2, m), rng.normal(size=m)])
    decision = rng.permutation(np.arange(m) % 2).astype(float)
    groups = tuple(
        Population.of(rng.random(m) + 0.05, decision, rng.random(m), rows=np.arange(m))
        for _ in range(2)
    )
    return AuditData(("a", "b"), groups, Labels(0, 1), "g", table=Frame.read(rows))


@given(
    seed=st.integers(0, 10**6),
    cost=st.sampled_from([None, Cost(immutable=["x1"]), Cost(max_edits=2)]),
)
@settings(max_examples=40, deadline=None)
def test_both_gaps_are_closed_at_the_least_cost_or_it_says_that_they_cannot(seed, cost):
    data = exact(seed)
    plan = least_change(data, disparity=list(BOTH), target="a", baseline="b", cost=cost)
    least = full_program(data, BOTH, cost)
    assert plan.status is (PlanStatus.INFEASIBLE if least is None else PlanStatus.CLOSED)
    assert [name for name, *_ in plan.outlook.by_metric] == ["fnr", "fpr"]
    if least is not None:
        assert plan.outlook.cost * plan.outlook.edited == pytest.approx(least, abs=1e-8)
        assert max(abs(after) for *_, after in plan.outlook.by_metric) < 1e-9
        # at most one drawn row a constraint
        route = plan.route(data.table, data["a"].answers)
        assert route.random.sum() <= 2


@given(seed=st.integers(0, 10**6))
@settings(max_examples=15, deadline=None)
def test_what_cannot_be_closed_is_as_close_as_can_be(seed):
    # three rows: every chance of turning on a grid, next to the plan's own answer
    data = exact(seed, m=3)
    plan = least_change(data, disparity=list(BOTH), target="a", baseline="b")
    source, other = data["a"], data["b"]
    chances = np.array(list(product(np.linspace(0, 1, 41), repeat=3)))
    decided = source.decision + chances * (1 - 2 * source.decision)

    def rates(p, y, h):
        return np.stack([(1 - h) @ (p * y) / (p @ y), h @ (p * (1 - y)) / (p @ (1 - y))], axis=-1)

    wanted = rates(other.mass, other.outcome, other.decision)
    apart = np.abs(rates(source.mass, source.outcome, decided) - wanted).max(axis=1)
    found = max(abs(gap) for *_, gap in plan.outlook.by_metric)
    by_force = apart.min()
    assert found <= by_force + 1e-8
    # a grid point is near every point: a step of 1/80 moves a rate by at most that
    assert found >= by_force - 3 / 80 or plan.status is PlanStatus.CLOSED


@pytest.fixture(scope="module")
def adult():
    bunch = datasets.load_adult(backend="numpy")
    order = np.random.default_rng(0).permutation(len(bunch.y))
    train, audit = order[:8_000], order[8_000:20_000]
    box = BlackBox(LogisticRegression(C=100, max_iter=500).fit(bunch.X[train], bunch.y[train]))
    data = tabulate(
        box, bunch.X[audit], bunch.y[audit], sensitive_features=bunch.sensitive_features[audit]
    )
    return box, data


def test_equalized_odds_for_women_in_adult(adult):
    box, data = adult
    plan = least_change(data, disparity=["fnr", "fpr"], target="Female", box=box)
    assert plan.status is PlanStatus.CLOSED
    before = {name: gap for name, gap, _ in plan.outlook.by_metric}
    assert before["fnr"] > 0 > before["fpr"]
    assert max(abs(after) for *_, after in plan.outlook.by_metric) < 1e-6  # observed outcomes


def test_equalized_odds_for_men_in_adult_is_infeasible(adult):
    box, data = adult
    plan = least_change(data, disparity=["fpr", "fnr"], target="Male", box=box)
    assert plan.status is PlanStatus.INFEASIBLE
    assert "of the repairs tried" in plan.status.value
    before = max(abs(gap) for _, gap, _ in plan.outlook.by_metric)
    after = max(abs(gap) for *_, gap in plan.outlook.by_metric)
    assert after < before
    # the answer holds for new rows too: its prices speak for them
    assert (plan.prices != 0).any()


def test_seen_rows_by_the_program_new_rows_by_its_prices(adult):
    box, data = adult
    plan = least_change(data, disparity=["fnr", "fpr"], target="Female", box=box)
    source = data["Female"]
    table = data.table.take(source.rows)
    route = plan.route(table, source.answers)
    np.testing.assert_allclose(route.moving, plan.chance, atol=1e-12)  # 1 - (1 - chance)
    # by its prices alone a seen row gets the program's answer, drawn rows aside
    sure = np.flatnonzero((plan.chance == 0) | (plan.chance == 1))[:400]
    outcome = plan.outcome.of(table)
    turned = 1 - 2 * source.decision
    worth = plan.prices @ (np.stack([gap.slope(outcome) for gap in plan.gaps]) * turned)
    cost = np.empty(len(source))
    for decision in (0, 1):
        at = np.flatnonzero(source.decision == decision)
        cost[at] = plan.donors[decision].nearest(table.take(at)).cost
    surplus = worth[sure] - cost[sure]
    agrees = (surplus > 0) == (plan.chance[sure] == 1)
    assert (agrees | (np.abs(surplus) < 1e-6)).all()


def test_nobody_is_turned_where_nothing_is_wrong():
    rng = np.random.default_rng(0)
    rows = np.arange(6.0)[:, None]
    one = Population.of(rng.random(6), [0, 1] * 3, rng.random(6), rows=np.arange(6))
    data = AuditData(("a", "b"), (one, one), Labels(0, 1), "g", table=Frame.read(rows))
    plan = least_change(data, disparity=["fnr", "fpr"], target="a", baseline="b")
    assert plan.outlook.edited == 0


@pytest.mark.filterwarnings("ignore::fairmend.FairmendWarning")
@pytest.mark.parametrize("seed", range(6))
def test_equal_inputs_with_both_decisions_on_record_follow_their_own_chances(seed):
    """What is applied is what the program answered, though rows of the table look alike."""
    rng = np.random.default_rng(seed)
    n = 1_400
    s, x, c = rng.choice(["a", "b"], n), rng.integers(0, 3, n), rng.integers(0, 3, n)
    y = (rng.random(n) < 0.2 + 0.2 * x).astype(int)
    said = (rng.random(n) < 0.15 + 0.2 * x + 0.1 * c - 0.08 * (s == "a")).astype(int)
    X = pd.DataFrame({"x": x, "c": c, "said": said})
    data = tabulate("said", X, y, sensitive_features=s)
    plan = least_change(data, disparity=["fnr", "fpr"], target="a")
    assert isinstance(plan, JointPlan)
    own = data["a"].decision
    assert len(own) > len(plan.seen.distinct().first)  # some inputs got both
    decided = own + plan.chance * (1 - 2 * own)
    for gap, (_, _, after) in zip(plan.gaps, plan.outlook.by_metric, strict=True):
        assert after == pytest.approx(gap.gap(decided), abs=1e-12)


@pytest.fixture(scope="module")
def many():
    """A program over two thousand rows."""
    rng = np.random.default_rng(0)
    n = 2_000
    mass = rng.random(n) + 0.1
    cost = np.where(rng.random(n) < 0.05, np.inf, rng.random(n))
    effect = -(mass / mass.sum()) * rng.random((2, n)) * np.where(rng.random(n) < 0.5, 1, -1)
    return mass / mass.sum(), cost, effect, np.empty((0, n)), np.empty(0)


def test_a_program_solved_over_the_rows_in_doubt_is_solved(many):
    program = FlipProgram(*many)
    excess = np.array([0.05, 0.04])
    assert program.cheapest(excess) is not None
    for part in (0.9, 0.91, 0.85):
        quickly = program._sifted(part * excess, program.last[-1])
        assert quickly is not None
        whole = FlipProgram(*many).cheapest(part * excess)
        for found in (quickly, whole):
            assert many[2] @ found[0] == pytest.approx(-part * excess, abs=1e-8)
            assert (found[0][~np.isfinite(many[1])] == 0).all()
        price = np.where(np.isfinite(many[1]), many[1], 0.0) * many[0]
        assert price @ quickly[0] == pytest.approx(price @ whole[0], abs=1e-8)
        assert quickly[1] == pytest.approx(whole[1], abs=1e-6)


def test_what_the_steps_leave_is_closed_by_few_rows(many):
    program, excess = FlipProgram(*many), np.array([0.05, 0.04])
    solved = program.cheapest(excess)
    observed = many[2] * np.random.default_rng(1).integers(0, 3, many[0].shape)
    start = 1e-4 - observed @ solved[0]
    chance, prices = program.settled(solved, start, observed)
    assert observed @ chance == pytest.approx(-start, abs=1e-9)
    assert 0 < (chance != solved[0]).sum() <= 128
    assert prices is solved[1]


@pytest.mark.filterwarnings("ignore::fairmend.FairmendWarning")
def test_edits_are_searched_for_once():
    """The costs that the program needs are those of the edits that are then made."""
    asked = []

    def model(rows):
        asked.append(rows.copy())
        return (rows @ [1.0, -1.0, 0.5, 0.2] > 0).astype(int)

    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4)).round(2)
    s = rng.choice(["a", "b"], 400)
    X[s == "b", 0] -= 0.7
    y = (X @ [1.0, -1.0, 0.5, 0.2] + rng.logistic(size=400) > 0).astype(int)
    box = BlackBox(model, output="label")
    data = tabulate(box, X, y, sensitive_features=s)
    asked.clear()
    plan = least_change(data, disparity=["fnr", "fpr"], box=box, target="b", baseline="a")
    in_fit = sum(map(len, asked))
    asked.clear()
    source = data["b"]
    table = data.table.take(source.rows)
    for decision, donors in enumerate(plan.donors):
        donors.nearest(table.take(np.flatnonzero(source.decision == decision)))
    assert in_fit == sum(map(len, asked)) > 0
    route = plan.route(table, source.answers)
    assert route.moving @ source.mass == pytest.approx(plan.outlook.edited)
    cost = float(source.mass @ route.expected_cost()) / plan.outlook.edited
    assert cost == pytest.approx(plan.outlook.cost)


def test_the_nearest_point_is_found_where_the_solver_needs_more_room(monkeypatch):
    """Of many rows the smallest excess is known to the solver's tolerance only."""
    solve, asked = flip_program._simplex, []

    def strict(*arguments, **constraints):
        answer = solve(*arguments, **constraints)
        asked.append(constraints["b_ub"])
        if len(asked) == 2:  # the first with the smallest excess as a limit
            answer.status, answer.x = 2, None
        return answer

    monkeypatch.setattr(flip_program, "_simplex", strict)
    nothing = np.zeros((0, 2)), np.zeros(0)
    effect = np.array([[-0.1, -0.2], [-0.1, -0.2]])
    program = FlipProgram(np.full(2, 0.5), np.ones(2), effect, *nothing)
    chance, prices = program.nearest(np.array([0.5, 0.5]))  # all there is takes off 0.3
    np.testing.assert_allclose(chance, 1.0, atol=1e-5, err_msg="the room that was added")
    assert np.isfinite(prices).all()
    assert len(asked) == 3


@pytest.mark.parametrize("seed", range(40))
def test_one_gap_alone_is_the_program_s_optimum_without_a_solver(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(5, 200))
    mass = rng.random(n)
    mass /= mass.sum()
    cost = np.where(rng.random(n) < 0.1, np.inf, rng.random(n))
    effect = (rng.normal(size=n) * mass)[None]
    program = FlipProgram(mass, cost, effect, np.zeros((0, n)), np.zeros(0))
    excess = rng.normal(size=1) * 0.3 * np.abs(program.effect).sum()
    solved = program.cheapest(excess)
    free = np.isfinite(cost)
    answer = linprog(
        mass * np.where(free, cost, 0.0), A_eq=effect, b_eq=-excess,
        bounds=np.stack([np.zeros(n), free], axis=1), method="highs",
    )  # fmt: skip
    assert (solved is None) == (answer.status == 2)
    if solved is not None:  # the solver's own tolerance is 1e-7
        np.testing.assert_allclose(solved[0], answer.x, atol=1e-6)
        np.testing.assert_allclose(solved[1], answer.eqlin.marginals, atol=1e-6)
        np.testing.assert_allclose(program.effect @ solved[0], -excess, atol=1e-12)
    twice = replace(program, effect=np.concatenate([effect, effect]))  # which a solver solves
    nearest, prices = program.nearest(excess)
    np.testing.assert_allclose(nearest, twice.nearest(np.repeat(excess, 2))[0], atol=1e-4)
    if solved is None:
        takes_off = free & (np.sign(excess) * effect[0] < 0)
        np.testing.assert_array_equal(nearest, takes_off)
        worth = prices @ effect  # that of the dearest row is what it costs
        np.testing.assert_array_less((mass * cost - worth)[takes_off], 1e-12)
