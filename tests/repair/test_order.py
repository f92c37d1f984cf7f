"""Order-preserving repair: no two people swap ranks, and no cheaper way keeps them."""

from itertools import combinations_with_replacement

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmend import BlackBox, DataError, tabulate
from fairmend.data.columns import Frame
from fairmend.data.outcomes import Labels
from fairmend.model.answers import Answers
from fairmend.repair.costs import Cost
from fairmend.repair.order import monotone_map, shifted
from fairmend.status import PlanStatus
from planning import order_preserving

LABELS = Labels(0, 1)


@given(
    st.integers(1, 5).flatmap(
        lambda rows: st.integers(1, 4).flatmap(
            lambda columns: st.lists(
                st.lists(st.integers(0, 9), min_size=columns, max_size=columns),
                min_size=rows, max_size=rows,
            )
        )
    )
)  # fmt: skip
@settings(max_examples=200, deadline=None)
def test_the_monotone_map_is_the_cheapest_by_brute_force(cost):
    cost = np.array(cost, float)
    rows, columns = cost.shape
    place = monotone_map(cost)
    assert (np.diff(place) >= 0).all()
    best = min(
        sum(cost[i, j] for i, j in enumerate(way))
        for way in combinations_with_replacement(range(columns), rows)
    )
    assert cost[np.arange(rows), place].sum() == best


def scores_after(route, answers):
    """Every score a row may end up with, and whether that may happen: lowest and highest."""
    low, high = np.full(route.n, np.inf), np.full(route.n, -np.inf)
    there = route.score[np.maximum(route.destination, 0)] if route.score is not None else np.nan
    value = np.where(route.destination < 0, answers.score[route.row], there)
    np.minimum.at(low, route.row, value)
    np.maximum.at(high, route.row, value)
    return low, high


def assert_no_swaps(before, low, high):
    """Whoever had a higher score never ends up with a lower one, whatever is drawn."""
    order = np.argsort(before, kind="stable")
    values, start = np.unique(before[order], return_index=True)
    highest = np.maximum.reduceat(high[order], start)
    lowest = np.minimum.reduceat(low[order], start)
    assert (lowest[1:] >= np.maximum.accumulate(highest)[:-1] - 1e-12).all(), len(values)


@pytest.mark.parametrize(
    ("metric", "target"),
    [
        ("sp", "white"),
        ("fnr", "white"),
        ("fdr", "white"),
        ("fpr", "non-white"),
        ("da", "non-white"),
    ],
)
def test_hard_decisions_keep_the_order_for_seen_and_unseen_rows(compas, metric, target):
    model, X, y, s = compas
    box = BlackBox(model)
    data = tabulate(box, X, y, sensitive_features=s)
    plan = order_preserving(data, disparity=metric, target=target, box=box)
    assert plan.status is PlanStatus.CLOSED
    if metric != "fdr":
        assert abs(plan.outlook.gap_after) < 1e-4  # the correction for small samples
    new = Frame.read(np.random.default_rng(1).integers(0, 2, (300, 17)))
    both = Frame.read(np.r_[data.table.native, new.native])
    answers = box.query(both, LABELS, trusted=True)
    route = plan.route(both, answers)
    low, high = scores_after(route, answers)
    moved = np.abs(high - answers.score) > 1e-9
    assert moved.any()
    # one row may be drawn: it keeps its rank among all others either way
    drawn = route.random
    assert_no_swaps(answers.score[~drawn], low[~drawn], high[~drawn])
    again = box.query(route.table, LABELS, trusted=True)
    np.testing.assert_allclose(again.score, route.score, atol=1e-12)  # other batches, last bits
    assert (again.decision == route.decision).all()


@pytest.mark.parametrize("metric", ["sp", "fnr"])
def test_soft_decisions_are_shifted_in_order(compas, metric):
    model, X, y, s = compas
    box = BlackBox(model, soft=True)
    data = tabulate(box, X, y, sensitive_features=s)
    plan = order_preserving(data, disparity=metric, target="white", box=box)
    assert plan.status is PlanStatus.CLOSED
    assert plan.outlook.gap_after == pytest.approx(0.0, abs=1e-9)
    both = Frame.read(np.r_[X[:300], np.random.default_rng(1).integers(0, 2, (300, 17))])
    answers = box.query(both, LABELS, trusted=True)
    for shift in (plan.low_shift, plan.high_shift):
        after = plan.support_score[shifted(answers.decision, plan.support_score, shift)]
        order = np.argsort(answers.decision, kind="stable")
        assert (np.diff(after[order]) >= 0).all()
        # upwards all of them, to the score nearest the shifted one: half a step lower at most
        gaps = np.diff(plan.support_score).max()
        assert (after >= answers.decision - gaps / 2 - 1e-12).all()


@pytest.mark.filterwarnings("ignore::fairmend.FairmendWarning")
@pytest.mark.parametrize("seed", range(6))
def test_where_a_shift_cannot_close_a_gap_it_goes_no_further_than_helps(seed):
    """Truth: the false discovery rate after every shift there is, by hand."""
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 2, 240)
    X = rng.normal(size=(240, 2)) + 0.6 * s[:, None]
    box = BlackBox(lambda rows: 1 / (1 + np.exp(0.3 - rows @ [1.0, 0.5])), soft=True)
    h = box.query(Frame.read(X), Labels(0, 1)).decision
    y = (rng.random(240) < 0.15 + 0.7 * h).astype(int)
    plan = order_preserving(tabulate(box, X, y, sensitive_features=s), disparity="fdr")
    mine = s == plan.target
    wanted = np.average(y[~mine] == 0, weights=h[~mine])
    steps = np.linspace(0, 30, 3_001)
    places = np.sort(h[mine])
    left = [
        np.average(y[mine] == 0, weights=places[shifted(h[mine], places, -by)]) - wanted
        for by in steps
    ]
    if min(left) <= 0:
        assert plan.outlook.gap_after == pytest.approx(0, abs=1e-9)
    else:
        short = plan.outlook.gap_after > plan.outlook.tolerance
        assert plan.status is (PlanStatus.UNREACHABLE if short else PlanStatus.CLOSED)
        # twelve shifts are tried, not three thousand
        assert min(left) <= plan.outlook.gap_after + 1e-9 <= min(left) + 0.02
    assert plan.outlook.gap_after <= plan.outlook.gap_before


def test_order_moves_those_whose_decision_stays_only_as_far_as_it_must():
    # 0.55 and 0.6 are decided 1 already; 0.45 joins them and may not pass them
    X = np.array([[0.45], [0.55], [0.6], [0.1], [0.2]])
    rows = np.repeat(np.r_[X, [[0.9]]], [30, 30, 30, 10, 10, 100], axis=0)
    s = np.repeat(["a", "b"], [110, 100])
    y = np.tile([1, 1, 0], 70)
    box = BlackBox(lambda rows: rows[:, 0], output="probability")
    data = tabulate(box, rows, y, sensitive_features=s)
    plan = order_preserving(data, disparity="sp", target="a", box=box, level=0.6)
    route = plan.route(Frame.read(X), Answers((X[:, 0] > 0.5).astype(float), X[:, 0]))
    low, high = scores_after(route, Answers(np.zeros(5), X[:, 0]))
    assert high[0] == 0.55
    assert low[1] == high[1] == 0.55
    assert low[2] == high[2] == 0.6


def test_a_continuous_score_with_thousands_of_values(monkeypatch):
    # more values than places: the step function has fewer steps, and still no swaps
    monkeypatch.setattr("fairmend.repair.order.MOST_PLACES", 50)
    rng = np.random.default_rng(0)
    X = rng.random((600, 2))
    y = (rng.random(600) < X[:, 0]).astype(int)
    s = np.where(rng.random(600) < 0.5, "a", "b")
    X[s == "a", 0] *= 0.8
    box = BlackBox(lambda rows: rows[:, 0], output="probability")
    data = tabulate(box, X, y, sensitive_features=s)
    plan = order_preserving(data, disparity="sp", target="a", box=box)
    assert len(plan.knots) == 50
    new = Frame.read(rng.random((500, 2)))
    answers = box.query(new, LABELS, trusted=True)
    low, high = scores_after(plan.route(new, answers), answers)
    assert_no_swaps(answers.score, low, high)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"output": "label"},
         "method: must not be 'order' for a model of labels only; it gives no scores to keep in "
         "order. Use method='least_change'."),
        ({"cost": Cost(immutable=["x0"])},
         "method='order': must be free to place everybody; got forbidden edits. "
         "Use method='least_change', which respects them."),
        ({"disparity": ["fnr", "fpr"]},
         "disparity: must be a single one for method='order'; got 2. Use method='least_change'."),
    ],
)  # fmt: skip
def test_mistakes_are_named(compas, change, message):
    model, X, y, s = compas
    box = BlackBox(model, output=change.pop("output", "auto"))
    data = tabulate(box, X, y, sensitive_features=s)
    with pytest.raises(DataError) as error:
        order_preserving(data, **{"disparity": "fnr", "box": box, **change})
    assert str(error.value) == message


def test_the_better_off_group_is_left_alone(compas):
    model, X, y, s = compas
    data = tabulate(BlackBox(model), X, y, sensitive_features=s)
    plan = order_preserving(data, disparity="fnr", target="non-white", baseline="white")
    assert plan.status is PlanStatus.IDENTITY


def test_without_anybody_to_resemble_nobody_is_edited():
    """All who are accepted differ from the group in the very column that tells it."""
    rng, n = np.random.default_rng(0), 400
    group, merit = rng.integers(0, 2, n), rng.normal(size=n).round(1)
    rows = np.stack([group, merit], axis=1)
    vendor = BlackBox(lambda x: x[:, 1] - 100 * (x[:, 0] == 0), threshold=0.0)
    data = tabulate(vendor, rows, rng.integers(0, 2, n), sensitive_features=group)
    plan = order_preserving(data, disparity="sp", target=0)
    assert plan.status is PlanStatus.UNREACHABLE
    assert plan.outlook.edited == 0
    # as many as the other group accepts, but for whoever shares the last one's score
    assert plan.outlook.unreachable == pytest.approx((merit[group == 1] > 0).mean(), abs=0.05)


@pytest.mark.parametrize("group_is_an_input", [True, False])
def test_rows_of_others_are_places_unless_they_hold_a_value_the_group_never_has(group_is_an_input):
    rng, n = np.random.default_rng(0), 3_000
    group, merit = rng.integers(0, 2, n), rng.normal(size=n).round(2)
    told = group if group_is_an_input else np.zeros(n)
    rows = np.stack([told, merit + 0.8 * group, rng.integers(0, 3, n)], axis=1)
    rows = np.concatenate([rows, rows[group == 1] * [0, 1, 1]])  # the group knows these values
    group = np.r_[group, np.zeros(len(rows) - n, int)]
    keep = np.r_[np.ones(n, bool), rng.random(len(rows) - n) < 0.3]
    rows, group = rows[keep], group[keep]
    vendor = BlackBox(lambda x: x[:, 1] + 0.01 * x[:, 2], threshold=0.7)
    y = rng.integers(0, 2, len(rows))
    data = tabulate(vendor, rows, y, sensitive_features=group)
    plan = order_preserving(data, disparity="sp", target=0)
    table = data.table.take(np.asarray(data[0].rows))
    route = plan.route(table, data[0].answers)
    assert route.moving.sum() > 0
    seen = {tuple(row) for row in table.native}
    strangers = [row for row in route.table.native if tuple(row) not in seen]
    assert (len(strangers) > 0) is not group_is_an_input
    assert set(route.table.native[:, 0]) == {0}
