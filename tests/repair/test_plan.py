"""A route is a law; picking from it follows the law."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmend.data.columns import Frame
from fairmend.model.answers import Answers
from fairmend.repair.destinations import Destinations
from fairmend.repair.plan import IdentityPlan, Outlook, Route
from fairmend.status import PlanStatus

PLACES = Frame.read(np.arange(6).reshape(-1, 1))


@st.composite
def routes(draw):
    n = draw(st.integers(1, 6))
    row, place, chance = [], [], []
    for i in range(n):
        parts = draw(st.lists(st.integers(0, 4), max_size=3, unique=True))
        total = draw(st.sampled_from([1.0, 0.5, 0.25]))
        weights = draw(st.lists(st.integers(1, 9), min_size=len(parts), max_size=len(parts)))
        row += [i] * len(parts)
        place += parts
        chance += [total * w / sum(weights) for w in weights]
    order = draw(st.permutations(range(len(row))))
    row, place, chance = (np.array([values[k] for k in order]) for values in (row, place, chance))
    return Route.moves(
        n, row.astype(int), chance.astype(float), place=place.astype(int),
        cost=place.astype(float) + 1, table=PLACES, decision=np.linspace(0, 1, 6), score=None,
    )  # fmt: skip


@given(routes())
@settings(max_examples=150, deadline=None)
def test_a_route_is_a_law(route):
    assert (np.diff(route.row) >= 0).all(), "entries are grouped by row"
    assert (route.probability > 0).all()
    total = np.bincount(route.row, route.probability, route.n)
    np.testing.assert_allclose(total, 1.0, atol=1e-12)  # a handful of floats summed
    stay = np.bincount(route.row, route.probability * (route.destination < 0), route.n)
    np.testing.assert_allclose(route.moving, 1 - stay, atol=1e-12)
    entries = np.bincount(route.row, minlength=route.n)
    assert route.random.tolist() == (entries > 1).tolist()
    by_hand = np.zeros(route.n)
    for i, to, p, cost in zip(
        route.row, route.destination, route.probability, route.cost, strict=True
    ):
        assert cost == (0 if to < 0 else to + 1)
        by_hand[i] += p * cost
    np.testing.assert_allclose(route.expected_cost(), by_hand, atol=1e-12)


@given(routes(), st.integers(0, 2**32))
@settings(max_examples=100, deadline=None)
def test_picking_follows_the_law(route, seed):
    # every number of a fine grid once: frequencies are the law up to one step a boundary
    steps = 720
    grid = (np.arange(steps) + 0.5) / steps
    people = np.repeat(np.arange(route.n), steps)
    order = np.random.default_rng(seed).permutation(len(people))
    picked = np.empty(len(people), np.int64)
    picked[order] = route.pick(people[order], np.tile(grid, route.n)[order])
    for i in range(route.n):
        mine = picked[people == i]
        law = {
            int(to): p
            for j, to, p in zip(route.row, route.destination, route.probability, strict=True)
            if j == i
        }
        assert set(mine.tolist()) <= set(law)
        for to, p in law.items():
            assert abs((mine == to).mean() - p) <= 2 / steps


@given(routes())
@settings(max_examples=60, deadline=None)
def test_the_ends_of_the_unit_interval(route):
    rows = np.arange(route.n)
    first, last = (
        route.pick(rows, np.zeros(route.n)),
        route.pick(rows, np.full(route.n, 1 - 2**-53)),
    )
    for i in range(route.n):
        mine = route.destination[route.row == i]
        assert first[i] == mine[0]
        assert last[i] == mine[-1]


def test_a_person_s_number_decides_alone_among_many_rows():
    # rows are told apart by row + chance: a million rows leave 33 bits to the chance
    n, half = 1_000_000, np.array([0.5])
    route = Route.moves(
        n, np.array([n - 1]), half, place=np.array([0]), cost=half, table=PLACES,
        decision=np.ones(6), score=None,
    )  # fmt: skip
    numbers = np.array([0.0, 0.4999999, 0.5, 0.9999999])
    assert route.pick(np.full(4, n - 1), numbers).tolist() == [-1, -1, 0, 0]


def test_expected_and_decisions():
    route = Route.moves(
        3, np.array([1, 1, 2]), np.array([0.25, 0.5, 1.0]), place=np.array([0, 5, 5]),
        cost=np.array([1.0, 2.0, 4.0]), table=PLACES, decision=np.linspace(0, 1, 6),
        score=np.arange(6.0),
    )  # fmt: skip
    assert route.expected(np.array([7.0, 8.0, 9.0]), np.arange(6.0)).tolist() == [7.0, 4.5, 5.0]
    own = Answers(np.array([0.0, 0.0, 0.0]), None)
    assert route.expected_decision(own).tolist() == [0.0, 0.5, 1.0]
    assert route.expected_cost().tolist() == [0.0, 1.25, 4.0]


def test_flips_leave_out_whom_nothing_reaches():
    found = Destinations(
        PLACES.take(np.array([1, 2, 3])), np.array([1.0, np.inf, 2.0]), np.ones(3), None
    )
    route = Route.flips(5, np.array([4, 2, 0]), np.array([1.0, 1.0, 0.5]), found)
    assert route.moving.tolist() == [0.5, 0.0, 0.0, 0.0, 1.0]
    assert route.unreachable.tolist() == [False, False, True, False, False]
    assert route.table.native[route.pick(np.array([0, 4]), np.array([0.9, 0.9]))].tolist() == [
        [3],
        [1],
    ]


def test_identity_and_what_a_plan_says():
    plan = IdentityPlan(
        target="a", baseline="b", metric="fnr", method="least_change",
        status=PlanStatus.IDENTITY,
        outlook=Outlook(gap_before=-0.1, gap_after=-0.1, expected_low=-0.15, expected_high=-0.05,
                        by_metric=(("fnr", -0.1, -0.1),)),
    )  # fmt: skip
    route = plan.route(PLACES, Answers(np.ones(6), None))
    assert route.moving.sum() == 0
    assert str(plan) == (
        "Plan for a against b: fnr by least_change\n"
        "The target group is not worse off in the audit data: nobody is edited.\n"
        "fnr: -10.0 points before, -10.0 after: unchanged\n"
        "expected on new data -15.0 to -5.0, below 0\n"
        "0.0 % of the group edited (mean cost 0.00), 0.0 % randomised, 0.0 % unreachable\n"
        "decisions flipped to positive for 0.0 %, to negative for 0.0 %"
    )


@pytest.mark.parametrize(("status", "closed"), [
    (PlanStatus.CLOSED, True), (PlanStatus.PARTLY, True), (PlanStatus.IDENTITY, False),
    (PlanStatus.REMAINS, False), (PlanStatus.WIDER, False), (PlanStatus.UNREACHABLE, False),
    (PlanStatus.INFEASIBLE, False),
])  # fmt: skip
def test_which_statuses_are_closed(status, closed):
    assert status.closed is closed


@settings(deadline=None)
@given(
    chances=st.lists(st.floats(0.01, 1), min_size=1, max_size=6),
    u=st.floats(0, 1, exclude_max=True),
    place=st.integers(0, 100_000),
)
def test_a_draw_is_the_same_wherever_in_a_batch_a_row_stands(chances, u, place):
    law = np.array(chances) / sum(chances)
    k, n = len(law), place + 1

    def route(at, n):  # rows before and after are certain, this one is drawn
        before, after = np.arange(at), np.arange(at + 1, n)
        row = np.concatenate([before, np.full(k, at), after])
        probability = np.concatenate([np.ones(at), law, np.ones(n - at - 1)])
        destination = np.concatenate([np.full(at, -1), np.arange(k), np.full(n - at - 1, -1)])
        zeros = np.zeros(len(row))
        return Route(n, row, destination, probability, None, zeros, None, zeros)

    alone = route(0, 1).pick(np.array([0]), np.array([u]))
    among = route(place, n).pick(np.array([place]), np.array([u]))
    assert alone.tolist() == among.tolist()
    ends, total = [], 0.0
    for chance in law.tolist():
        total += chance
        ends.append(total)
    assert alone[0] == min(sum(end <= u for end in ends), k - 1)
