"""What edits cost, held against the formulas written out for one pair of rows at a time."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmend import DataError
from fairmend.data.columns import Frame
from fairmend.repair.costs import Cost, EditCost

# half of the people on the first row: the quantiles are those of people, not of rows
PEOPLE = pd.DataFrame(
    {
        "income": [10.0, 20.0, 30.0, 110.0, 60.0],
        "member": [0, 1, 1, 0, 1],
        "town": ["Ulm", "Jena", "Ulm", "Rom", "Jena"],
    }
)
MASS = np.array([0.5, 0.2, 0.2, 0.07, 0.03])
TABLE = Frame.read(PEOPLE)


def learn(cost=None, table=TABLE, mass=MASS):
    return EditCost.learn(table, mass, cost or Cost())


def by_hand(a, b, kind="l1", weights=None, scale=100.0):
    """income by q95 - q5 = 110 - 10, the others by mismatch."""
    weights = {"income": 1.0, "member": 1.0, "town": 1.0, **(weights or {})}
    steps = [
        weights["income"] * abs(a.income - b.income) / scale,
        weights["member"] * abs(a.member - b.member),
        weights["town"] * float(a.town != b.town),
    ]
    squares = sum(step**2 for step in steps)
    return {"l1": sum(steps), "l2": squares**0.5, "squared_l2": squares}[kind]


@pytest.mark.parametrize("kind", ["l1", "l2", "squared_l2"])
@pytest.mark.parametrize("weights", [{}, {"income": 0.5, "town": 3.0}])
def test_cost_is_the_formula(kind, weights):
    found = learn(Cost(kind=kind, weights=weights)).matrix(TABLE, TABLE)
    rows = list(PEOPLE.itertuples())
    expected = [[by_hand(a, b, kind, weights) for b in rows] for a in rows]
    np.testing.assert_allclose(found, expected, atol=1e-12)  # sums of a few floats near 1


def test_scale_falls_back_to_the_standard_deviation_then_to_one():
    mass = np.array([0.96, 0.04])
    almost_all_alike = Frame.read(np.array([[5.0, 7.0], [9.0, 7.0]]))
    cost = learn(table=almost_all_alike, mass=mass)
    deviation = 4 * np.sqrt(0.96 * 0.04)
    np.testing.assert_allclose(
        cost.matrix(almost_all_alike, almost_all_alike)[0, 1], 4 / deviation, rtol=1e-12
    )
    other = Frame.read(np.array([[5.0, 10.0]]))  # nobody differs in the second column: scale 1
    np.testing.assert_allclose(cost.matrix(almost_all_alike.take([0]), other), [[3.0]], rtol=1e-12)


def test_scale_is_that_of_the_people_who_are_moved():
    table = Frame.read(np.array([[0.0], [10.0], [1000.0]]))
    cost = learn(table=table, mass=np.array([0.5, 0.5, 0.0]))
    np.testing.assert_allclose(cost.matrix(table, table)[0], [0.0, 1.0, 100.0], rtol=1e-12)
    nobody = learn(table=table, mass=np.zeros(3))
    np.testing.assert_allclose(nobody.matrix(table, table)[0], [0.0, 0.01, 1.0], rtol=1e-12)


def test_missing_values():
    table = Frame.read(
        pd.DataFrame(
            {
                "x": [0.0, 4.0, 10.0, None, None],
                "yes": [0.0, 1.0, None, None, 1.0],
                "town": ["Ulm", None, "Ulm", None, "Rom"],
            }
        )
    )
    cost = learn(Cost(weights={"x": 2.0}), table, np.full(5, 0.2)).matrix(table, table)
    # x: scale 10 - 0, missing stands at the median 4 and costs one step more; yes, town: 1
    assert cost[0, 3] == pytest.approx(2 * (4 / 10 + 1) + 1 + 1, abs=1e-12)
    assert cost[1, 3] == pytest.approx(2 * 1 + 1, abs=1e-12)
    assert cost[3, 4] == pytest.approx(1 + 1, abs=1e-12)
    assert cost[0, 1] == pytest.approx(2 * 0.4 + 1 + 1, abs=1e-12)
    np.testing.assert_allclose(cost, cost.T, atol=1e-12)
    assert not np.diagonal(cost).any(), "a missing value is like itself"


def test_values_the_audit_did_not_see():
    cost = learn()
    new = Frame.read(pd.DataFrame({"income": [500.0], "member": [1], "town": ["Oslo"]}))
    expected = [
        [abs(500 - row.income) / 100 + (row.member != 1) + 1 for row in PEOPLE.itertuples()]
    ]
    np.testing.assert_allclose(cost.matrix(new, TABLE), expected, rtol=1e-12)


def test_text_where_numbers_were():
    new = Frame.read(PEOPLE.assign(income="much"))
    message = (
        "X column 'income': must hold numbers as in the audit data; got 'much'. "
        "Pass X as the model reads it."
    )
    with pytest.raises(DataError) as error:
        learn().matrix(new, TABLE)
    assert str(error.value) == message


numbers = st.floats(-50, 50).map(lambda v: round(v, 2)) | st.none()
rows = st.lists(
    st.tuples(numbers, st.sampled_from([0.0, 1.0, None]), st.sampled_from(["a", "b", "c", None])),
    min_size=2, max_size=8,
)  # fmt: skip


def frame(drawn):
    return Frame.read(pd.DataFrame(drawn, columns=["x", "yes", "town"]))


@given(rows, st.sampled_from(["l1", "l2", "squared_l2"]), st.floats(0.1, 5))
@settings(max_examples=80, deadline=None)
def test_costs_are_costs(drawn, kind, weight):
    table = frame(drawn)
    mass = np.full(len(table), 1 / len(table))
    cost = learn(Cost(kind=kind, weights={"x": weight}), table, mass)
    matrix = cost.matrix(table, table)
    assert matrix.shape == (len(table), len(table))
    assert (matrix >= 0).all()
    assert not np.diagonal(matrix).any()
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-9)  # cdist's squares of |x| up to 50 / .01
    if kind != "squared_l2":
        detour = (matrix[:, :, None] + matrix[None, :, :]).min(axis=1)
        assert (matrix <= detour * (1 + 1e-9) + 1e-9).all()
    # row by row is the same as all pairs
    here = cost.place(table)
    order = np.arange(len(table))[::-1]
    pairs = cost.total(cost.steps(here, here[order]))
    np.testing.assert_allclose(pairs, matrix[np.arange(len(table)), order], atol=1e-9)


def test_a_callable_sees_the_container_and_its_matrix_is_the_cost():
    def by_town(a, b):
        assert isinstance(a, pd.DataFrame)
        assert list(a.columns) == ["income", "member", "town"]
        return 7.0 * (a["town"].to_numpy()[:, None] != b["town"].to_numpy()[None, :])

    found = learn(Cost(kind=by_town)).matrix(TABLE, TABLE)
    towns = PEOPLE["town"].to_numpy()
    assert np.array_equal(found, 7.0 * (towns[:, None] != towns[None, :]))


# -------------------------------------------------------------------- rules


def allowed(cost, table=TABLE):
    return np.isfinite(learn(cost, table, np.full(len(table), 1 / len(table))).matrix(table, table))


def test_immutable_features_must_be_equal():
    towns = PEOPLE["town"].to_numpy()
    assert np.array_equal(allowed(Cost(immutable=["town"])), towns[:, None] == towns[None, :])


@pytest.mark.parametrize(("direction", "fits"), [("up", np.less_equal), ("down", np.greater_equal)])
def test_one_way_features(direction, fits):
    income = PEOPLE["income"].to_numpy()
    rule = allowed(Cost(one_way={"income": direction}))
    assert np.array_equal(rule, fits.outer(income, income))


def test_a_missing_one_way_feature_may_not_change():
    table = Frame.read(pd.DataFrame({"age": [20.0, None, 50.0], "x": [1, 2, 3]}))
    assert allowed(Cost(one_way={"age": "up"}), table).tolist() == [
        [True, False, True], [False, True, False], [False, False, True],
    ]  # fmt: skip


def test_max_edits_counts_features():
    rows = PEOPLE.to_numpy()
    differing = (rows[:, None, :] != rows[None, :, :]).sum(axis=2)
    for most in (1, 2, 3):
        assert np.array_equal(allowed(Cost(max_edits=most)), differing <= most)


def test_forbidden_moves():
    def poorer(a, b):
        return a["income"].to_numpy()[:, None] > b["income"].to_numpy()[None, :]

    income = PEOPLE["income"].to_numpy()
    assert np.array_equal(allowed(Cost(forbidden=poorer)), np.less_equal.outer(income, income))
    cost = learn(Cost(forbidden=poorer))
    many = Frame.read(pd.concat([PEOPLE] * 40, ignore_index=True))  # more than one block
    assert np.array_equal(
        cost.forbids(many, many.take(np.arange(200)[::-1])),
        np.tile(income, 40) > np.tile(income, 40)[::-1],
    )


def test_rules_work_on_polars_too():
    table = Frame.read(pl.from_pandas(PEOPLE))
    assert np.array_equal(
        allowed(Cost(immutable=["town"]), table), allowed(Cost(immutable=["town"]))
    )


@given(rows, st.sampled_from(["up", "down"]), st.sampled_from(["l1", "l2"]))
@settings(max_examples=60, deadline=None)
def test_a_mixture_takes_what_it_may_and_costs_what_it_takes(drawn, direction, kind):
    table = frame(drawn)
    rules = Cost(kind=kind, immutable=["town"], one_way={"x": direction})
    cost = learn(rules, table, np.full(len(table), 1 / len(table)))
    place = cost.place(table)
    price = cost.mixture(place, place)
    for i in range(len(table)):
        here, there = place[[i] * len(table)], place
        taken = cost.may_take(here, there)
        for j, (x, _, _) in enumerate(drawn):
            own = drawn[i][0]
            known = x is not None and own is not None
            assert taken[j].tolist() == [
                known and (x > own if direction == "up" else x < own), True, False,
            ]  # fmt: skip
        steps = cost.steps(here, there) * taken
        total = cost.total(steps)
        np.testing.assert_allclose(price[i], np.where(total > 0, total, np.inf), atol=1e-9)


# -------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("cost", "what", "got"),
    [
        (Cost(immutable="town"), "immutable", "got the text 'town'"),
        (Cost(immutable=["towm"]), "immutable", "got 'towm'"),
        (Cost(immutable=["income", "member", "town"]), "immutable", "got every feature"),
        (Cost(one_way={"incom": "up"}), "one_way", "got 'incom'"),
        (Cost(one_way={"income": "higher"}), "one_way", "got 'higher' for 'income'"),
        (Cost(one_way=["income"]), "one_way", "got ['income']"),
        (Cost(one_way={"town": "up"}), "one_way", "'town' is a category"),
        (Cost(weights={"tow": 2.0}), "cost weights", "got 'tow'"),
        (Cost(weights={"town": 0.0}), "cost weights", "got 0.0 for 'town'"),
        (Cost(weights={"town": "dear"}), "cost weights", "got 'dear' for 'town'"),
        (Cost(max_edits=0), "max_edits", "got 0"),
        (Cost(max_edits=1.5), "max_edits", "got 1.5"),
        (Cost(forbidden="sex"), "forbidden", "got 'sex'"),
        (Cost(kind="l3"), "cost", "got 'l3'"),
        (Cost(kind=lambda a, b: np.zeros(3)), "cost", "got shape (3,) for 5 and 5 rows"),
        (Cost(kind=lambda a, b: np.full((len(a), len(b)), -1.0)), "cost", "got -1"),
        (Cost(kind=lambda a, b: np.full((len(a), len(b)), np.nan)), "cost", "got nan"),
    ],
)
def test_mistakes_are_named(cost, what, got):
    with pytest.raises(DataError) as error:
        learn(cost).matrix(TABLE, TABLE)
    assert (error.value.what, error.value.got) == (what, got)


def test_an_empty_table_has_a_place_too():
    table = Frame.read(pd.DataFrame({"a": [1.0, 2.0], "town": ["x", "y"]}))
    cost = EditCost.learn(table, np.full(2, 0.5), Cost())
    nobody = table.take(np.empty(0, np.int64))
    assert cost.matrix(nobody, table).shape == (0, 2)


BIG = 2**60


@pytest.mark.parametrize(
    "values",
    [[BIG, BIG + 1, BIG + 2, BIG + 3], [np.inf, -np.inf, np.nan, 1.0]],
    ids=["integers that floats cannot tell apart", "what is not finite"],
)
def test_immutable_values_that_look_the_same_are_told_apart(values):
    table = Frame.read(pd.DataFrame({"fixed": values, "free": [0.0, 1.0, 2.0, 3.0]}))
    cost = EditCost.learn(table, np.full(4, 0.25), Cost(immutable=["fixed"]))
    allowed = np.isfinite(cost.matrix(table, table))
    np.testing.assert_array_equal(allowed, np.eye(4, dtype=bool))
    with pytest.raises(DataError, match="holds numbers that 64 bits cannot tell apart"):
        EditCost.learn(table, np.full(4, 0.25), Cost(one_way={"fixed": "up"}))


@pytest.mark.parametrize("kind", ["l1", "squared_l2", "l2"])
def test_yes_or_no_rows_are_as_far_apart_as_they_differ(kind):
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 2, (30, 6))
    rows[:, 2] = 1  # what everybody has makes nobody nearer
    table, others = Frame.read(rows), Frame.read(rows[:7])
    differ = (rows[:, None] != rows[None, :7]).sum(axis=2)
    cost = EditCost.learn(table, np.full(30, 1 / 30), Cost(kind)).matrix(table, others)
    np.testing.assert_array_equal(cost, np.sqrt(differ) if kind == "l2" else differ)


@pytest.mark.parametrize("weights", [{}, {"x0": 3.0}])
@pytest.mark.parametrize("kind", ["l1", "l2"])
@pytest.mark.parametrize("yes_or_no", [True, False])
def test_nearest_is_the_first_of_the_cheapest_of_all_pairs(weights, kind, yes_or_no):
    rng = np.random.default_rng(0)
    rows, there = (
        Frame.read(rng.integers(2 if yes_or_no else 4, size=(n, 5)).astype(float), ["x0", *"abcd"])
        for n in (700, 900)  # more pairs than are looked at together
    )
    cost = EditCost.learn(rows, np.full(700, 1 / 700), Cost(kind=kind, weights=weights))
    place, price = cost.nearest(cost.place(rows), cost.place(there))
    every = cost.matrix(rows, there)
    assert (place == np.argmin(every, axis=1)).all()
    assert price == pytest.approx(every.min(axis=1), abs=1e-12)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint8, np.int16, np.int32])
def test_whole_numbers_of_any_width_stand_where_floats_do(dtype):
    rows = (np.random.default_rng(0).integers(0, 6, (40, 3)) * [1, 1, 0] > 2).astype(dtype)
    if dtype is not bool:
        rows[:, 1] += 3
    floats = Frame.read(rows.astype(np.float64))
    learnt = learn(Cost(weights={"x0": 2.5}), floats, np.full(40, 1 / 40))
    np.testing.assert_array_equal(learnt.place(Frame.read(rows)), learnt.place(floats))
