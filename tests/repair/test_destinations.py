"""Where edits lead: verified by the model, within the rules, and no further than need be."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from fairmend import BlackBox
from fairmend.data.columns import Frame
from fairmend.data.outcomes import Labels
from fairmend.data.rows import differing, find_rows, mixed
from fairmend.model.answers import Answers
from fairmend.repair.costs import Cost, EditCost
from fairmend.repair.destinations import (
    NEAREST,
    Donors,
    RememberingDonors,
    _smallest,
    forgetting,
)

LABELS = Labels(0, 1)


def people(n, seed):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 80, n),
            "income": np.where(rng.random(n) < 0.1, np.nan, rng.lognormal(3, 0.5, n).round(1)),
            "town": rng.choice(["Ulm", "Jena", "Rom"], n),
            "member": rng.integers(0, 2, n),
            "debt": rng.normal(0, 1, n).round(2),
        }
    )


@pytest.fixture(scope="module")
def forest():
    X = people(600, 0)
    signal = X.income.fillna(20) / 20 + (X.town == "Ulm") + X.member - X.debt + X.age / 60
    y = (signal + np.random.default_rng(1).normal(0, 0.5, 600) > 3.3).astype(int)
    towns = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["town"]), remainder="passthrough"
    )
    model = make_pipeline(towns, RandomForestClassifier(15, max_depth=6, random_state=0))
    return BlackBox(model.fit(X, y))


def donors_for(box, cost, wanted=1.0, *, n=250, seed=2, asked=True):
    table = Frame.read(people(n, seed))
    answers = box.query(table, LABELS, trusted=True)
    kept = np.flatnonzero(answers.decision == wanted)
    learnt = EditCost.learn(table, np.full(n, 1 / n), cost)
    said = answers.take(kept)
    return Donors.choose(
        table.take(kept), said, np.abs(said.score - 0.5), learnt,
        box=box if asked else None, labels=LABELS,
    )  # fmt: skip


def others(box, wanted=1.0, n=40, seed=3):
    """Rows never seen, with the other decision; one has a town nobody has."""
    table = people(n, seed)
    table.loc[0, "town"] = "Oslo"
    frame = Frame.read(table)
    said = box.query(frame, LABELS, trusted=True)
    return frame.take(np.flatnonzero(said.decision != wanted))


RULES = st.fixed_dictionaries(
    {
        "immutable": st.lists(st.sampled_from(["age", "town", "member"]), unique=True, max_size=2),
        "one_way": st.dictionaries(
            st.sampled_from(["age", "debt", "income"]), st.sampled_from(["up", "down"]), max_size=2
        ),
        "max_edits": st.sampled_from([None, 1, 2]),
        "kind": st.sampled_from(["l1", "l2", "squared_l2"]),
        "forbidden": st.sampled_from([None, "leave Ulm"]),
    }
)


def leaves_ulm(a, b):
    return (a["town"].to_numpy()[:, None] == "Ulm") & (b["town"].to_numpy()[None, :] != "Ulm")


def broken_rules(cost, before, after):
    """Every rule that single edits break, each looked at on its own."""
    broken = []
    for a, b in zip(before.to_dict("records"), after.to_dict("records"), strict=True):
        changed = [
            name
            for name in a
            if a[name] != b[name] and not (a[name] != a[name] and b[name] != b[name])
        ]
        broken += [name for name in changed if name in cost.immutable]
        broken += [
            name for name in changed if name in cost.one_way
            and not (b[name] > a[name] if cost.one_way[name] == "up" else b[name] < a[name])
        ]  # fmt: skip
        if cost.max_edits is not None and len(changed) > cost.max_edits:
            broken.append(f"{len(changed)} edits")
        if cost.forbidden is not None and a["town"] == "Ulm" and b["town"] != "Ulm":
            broken.append("left Ulm")
    return broken


ULM = {"immutable": [], "one_way": {}, "max_edits": None, "kind": "l1", "forbidden": "leave Ulm"}


@pytest.mark.slow
@example(rules=ULM, wanted=0.0)
@example(rules={**ULM, "immutable": ["member"], "max_edits": 1}, wanted=0.0)
@given(rules=RULES, wanted=st.sampled_from([0.0, 1.0]))
@settings(max_examples=8, deadline=None)
def test_destinations_are_verified_allowed_and_minimal(forest, rules, wanted):
    cost = Cost(**{**rules, "forbidden": leaves_ulm if rules["forbidden"] else None})
    donors, rows = donors_for(forest, cost, wanted), others(forest, wanted)
    found = donors.nearest(rows)
    assert np.array_equal(donors.reach(rows), found.reached)
    reached = np.flatnonzero(found.reached)
    stuck = np.flatnonzero(~found.reached)
    assert not differing(rows.take(stuck), found.table.take(stuck)).any() if len(stuck) else True
    if len(reached) == 0:
        return
    mine, there, settled = rows.take(reached), found.table.take(reached), found.take(reached)
    said = forest.query(there, LABELS, trusted=True)
    assert (said.decision == wanted).all(), "the model really gives the wanted decision"
    np.testing.assert_allclose(settled.score, said.score, atol=1e-12)  # a forest's mean of votes
    assert broken_rules(cost, mine.native, there.native) == []
    learnt = donors.cost
    price = learnt.total(learnt.steps(learnt.place(mine), learnt.place(there)))
    np.testing.assert_allclose(settled.cost, price, rtol=1e-9)  # cdist squares, steps subtract
    assert (settled.cost > 0).all()
    # giving any single feature back turns the decision again, or breaks a rule of the caller's
    changed = differing(mine, there)
    for i, edits in enumerate(changed):
        for name in np.flatnonzero(edits) if edits.sum() > 1 else []:
            less = edits.copy()
            less[name] = False
            one = mine.take(np.array([i]))
            tried = mixed(one, there.take(np.array([i])), less[None, :])
            turned = forest.query(tried, LABELS, trusted=True).decision[0] != wanted
            assert turned or learnt.forbids(one, tried)[0]


def test_without_rules_every_row_is_reached_by_few_edits(forest):
    donors, rows = donors_for(forest, Cost()), others(forest)
    found = donors.nearest(rows)
    assert found.reached.all()
    assert differing(rows, found.table).sum(axis=1).mean() < 2.5  # 5 before giving back
    whole = donors.cost.matrix(rows, donors.table).min(axis=1)
    assert (found.cost <= whole + 1e-9).all(), "never dearer than the nearest donor"


def test_a_forbidden_move_is_gone_round():
    # either will do: to leave Ulm, which is near, or much debt, which is far
    rows = pd.DataFrame({"town": ["Jena", "Ulm", "Jena"], "debt": [0.0, 9.0, 9.0], "x": [1, 2, 3]})
    table = Frame.read(rows)
    box = BlackBox(lambda X: (X["town"] == "Jena") | (X["debt"] > 5), output="label")
    asked = Frame.read(pd.DataFrame({"town": ["Ulm"], "debt": [0.0], "x": [5]}))
    for forbidden, expected in ((None, ["Jena", 0.0, 5]), (leaves_ulm, ["Ulm", 9.0, 5])):
        cost = Cost(weights={"debt": 3.0}, forbidden=forbidden)
        learnt = EditCost.learn(table, np.full(3, 1 / 3), cost)
        donors = Donors.choose(
            table, Answers(np.ones(3), None), np.zeros(3), learnt, box=box, labels=LABELS
        )
        assert donors.nearest(asked).table.native.iloc[0].tolist() == expected


def test_max_edits_is_met_by_giving_back_not_by_luck(forest):
    loose, tight = donors_for(forest, Cost()), donors_for(forest, Cost(max_edits=1))
    rows = others(forest)
    free, limited = loose.nearest(rows), tight.nearest(rows)
    observed = np.isfinite(tight.cost.matrix(rows, tight.table)).any(axis=1)
    assert observed.sum() == 0, "no donor differs in one feature alone"
    assert limited.reached.mean() > 0.5
    single = differing(rows, limited.table)[limited.reached].sum(axis=1)
    assert (single == 1).all()
    assert free.reached.sum() >= limited.reached.sum()


def test_rows_are_independent_of_their_batch(forest):
    donors, rows = donors_for(forest, Cost(immutable=["age"])), others(forest)
    together = donors.nearest(rows)
    alone = [donors.nearest(rows.take(np.array([i]))) for i in range(len(rows))]
    np.testing.assert_array_equal(together.cost, [one.cost[0] for one in alone])
    for i, one in enumerate(alone):
        assert not differing(together.table.take(np.array([i])), one.table).any()


# -------------------------------------------------------------------- recorded predictions


@given(
    immutable=st.lists(st.sampled_from(["town", "member"]), unique=True, max_size=2),
    max_edits=st.sampled_from([None, 3]),
)
@settings(max_examples=10, deadline=None)
def test_recorded_predictions_lead_to_observed_rows(forest, immutable, max_edits):
    cost = Cost(immutable=immutable, max_edits=max_edits)
    donors, rows = donors_for(forest, cost, asked=False), others(forest)
    found = donors.nearest(rows)
    reached = np.flatnonzero(found.reached)
    assert len(reached) > 0
    there = found.table.take(reached)
    assert (find_rows(donors.table, there) >= 0).all()
    assert broken_rules(cost, rows.take(reached).native, there.native) == []
    best = donors.cost.matrix(rows, donors.table).min(axis=1)
    np.testing.assert_array_equal(found.cost, best)


def test_the_same_inputs_with_another_answer_on_record_are_no_edit():
    table = Frame.read(np.array([[1.0, 5.0], [2.0, 5.0]]))
    cost = EditCost.learn(table, np.full(2, 0.5), Cost())
    said = Answers(np.ones(2), None)
    donors = Donors.choose(table, said, np.zeros(2), cost, box=None, labels=LABELS)
    found = donors.nearest(Frame.read(np.array([[1.0, 5.0]])))
    assert found.table.native.tolist() == [[2.0, 5.0]]
    lone = Donors.choose(
        table.take(np.array([0])), said.take(np.array([0])), np.zeros(1), cost, box=None,
        labels=LABELS,
    )  # fmt: skip
    assert not lone.nearest(Frame.read(np.array([[1.0, 5.0]]))).reached.any()


def test_a_callable_cost_leads_to_whole_observed_rows(forest):
    def by_town(a, b):
        return 1.0 + (a["town"].to_numpy()[:, None] != b["town"].to_numpy()[None, :])

    donors, rows = donors_for(forest, Cost(kind=by_town, immutable=["member"])), others(forest)
    found = donors.nearest(rows)
    assert found.reached.all()
    assert (find_rows(donors.table, found.table) >= 0).all()
    assert not differing(rows, found.table)[:, 3].any()
    assert set(found.cost) <= {1.0, 2.0}


# -------------------------------------------------------------------- yes-or-no data


def binary(seed, n=40, d=6):
    rng = np.random.default_rng(seed)
    table = Frame.read(np.unique(rng.integers(0, 2, (n, d)), axis=0))
    weights = rng.normal(size=d)
    return table, BlackBox(lambda rows: rows @ weights, threshold=float(weights.sum() / 2))


@given(st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_own_immutables_and_a_donor_s_rest_by_brute_force(seed):
    table, box = binary(seed)
    answers = box.query(table, LABELS, trusted=True)
    fixed = [0, 3]
    at = np.flatnonzero(answers.decision == 1)
    if len(at) in (0, len(table)):
        return
    cost = EditCost.learn(table, np.full(len(table), 1 / len(table)), Cost(immutable=["x0", "x3"]))
    said = answers.take(at)
    donors = Donors.choose(
        table.take(at), said, np.abs(said.score - box.cut), cost, box=box, labels=LABELS
    )
    rows = table.take(np.flatnonzero(answers.decision == 0))
    found = donors.nearest(rows)
    assert len(donors.varied) <= NEAREST, "all are tried, so nothing can be missed"
    for i, row in enumerate(rows.native):
        mixtures = table.native[at].copy()
        mixtures[:, fixed] = row[fixed]
        good = box.query(Frame.read(mixtures), LABELS, trusted=True).decision == 1
        edits = (mixtures != row).sum(axis=1)
        best = edits[good].min() if good.any() else np.inf
        assert found.cost[i] == best


def test_donors_alike_but_for_immutables_are_tried_once():
    # 30 donors share one editable part, which is of no use; the 31st has the one that is
    rows = [[i, 0, 1] for i in range(30)] + [[99, 1, 3]]
    table = Frame.read(np.array(rows, float))
    box = BlackBox(lambda X: (X[:, 1] == 1) | (X[:, 0] < 60), output="label")
    cost = EditCost.learn(table, np.full(31, 1 / 31), Cost(immutable=["x0"]))
    donors = Donors.choose(
        table, Answers(np.ones(31), None), np.arange(31.0), cost, box=box, labels=LABELS
    )
    assert len(donors.varied) == 2
    found = donors.nearest(Frame.read(np.array([[70.0, 0.0, 2.0]])))
    assert found.reached.all()
    assert found.table.native[0, :2].tolist() == [70.0, 1.0]


@given(st.lists(st.integers(0, 3), min_size=2, max_size=30), st.integers(1, 6))
@settings(max_examples=60, deadline=None)
def test_the_cheapest_in_order_with_ties_to_the_first(costs, k):
    k = min(k, len(costs))
    found = _smallest(np.array([costs], float), k)[0]
    assert found.tolist() == sorted(range(len(costs)), key=lambda j: (costs[j], j))[:k]


def test_ties_go_to_the_donor_nearest_the_cut():
    table = Frame.read(np.array(list(combinations_of_ones(4, 2))))
    score = np.array([0.9, 0.6, 0.8, 0.7, 0.55, 0.95])
    cost = EditCost.learn(table, np.full(6, 1 / 6), Cost())
    donors = Donors.choose(
        table, Answers(np.ones(6), score), np.abs(score - 0.5), cost, box=None, labels=LABELS
    )
    found = donors.nearest(Frame.read(np.zeros((1, 4), int)))
    assert found.score.tolist() == [0.55]


def combinations_of_ones(d, k):
    for places in combinations(range(d), k):
        row = np.zeros(d, int)
        row[list(places)] = 1
        yield row


@given(st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_whoever_can_become_a_donor_altogether_is_reached(seed):
    """The nearest donors owe their decision to what must stay; others, far away, do not."""
    rng = np.random.default_rng(seed)
    n = 400
    fixed, free = rng.integers(0, 2, n), rng.integers(0, 100, n)
    X = np.stack([fixed, free, rng.integers(0, 2, n)], axis=1)
    wanted = rng.integers(80, 97)

    def decide(rows):
        return ((rows[:, 0] == 1) | (rows[:, 1] > wanted)).astype(int)

    box = BlackBox(decide, output="label")
    table = Frame.read(X)
    said = decide(X)
    cost = EditCost.learn(table, np.ones(n), Cost(immutable=("x0",)))
    at = np.flatnonzero(said == 1)
    donors = Donors.choose(
        table.take(at), Answers(said[at].astype(float), None), np.zeros(len(at)), cost,
        box=box, labels=Labels(0, 1),
    )  # fmt: skip
    rows = np.flatnonzero(said == 0)
    possible = ((fixed == 0) & (free > wanted)).any()
    found = donors.nearest(table.take(rows))
    assert (found.reached == possible).all()
    assert (decide(found.table.native[found.reached]) == 1).all()
    assert (found.table.native[:, 0] == X[rows, 0]).all()


# ------------------------------------------------------------------ how often the model is queried


class Asked:
    """A model that counts calls and rows."""

    def __init__(self, decide):
        self.decide, self.calls, self.rows = decide, 0, 0

    def __call__(self, rows):
        self.calls += 1
        self.rows += len(rows)
        return self.decide(np.asarray(rows, float))


def numbers(n, d, seed, cost=None, slope=None):
    """Donors and others for a linear model of labels on rows of numbers."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)).round(2)
    slope = rng.normal(size=d) if slope is None else slope
    asked = Asked(lambda rows: (rows @ slope > 0).astype(int))
    said, table = asked.decide(X), Frame.read(X)
    learnt = EditCost.learn(table, np.full(n, 1 / n), cost or Cost())
    at = np.flatnonzero(said == 1)
    donors = Donors.choose(
        table.take(at), Answers(said[at].astype(float), None), np.zeros(len(at)), learnt,
        box=BlackBox(asked, output="label"), labels=LABELS,
    )  # fmt: skip
    return donors, table.take(np.flatnonzero(said == 0)), asked


def given_back_one_by_one(donors, rows, decide):
    """The rule in its plainest form: round and round, the dearest value first."""
    price = donors.cost.matrix(rows, donors.table)
    costs = []
    for i, j in enumerate(np.argmin(price, axis=1)):
        mine, theirs = rows.native[i], donors.table.native[j]
        one, other = rows.take(np.array([i])), donors.table.take(np.array([j]))
        steps = donors.cost.steps(donors.cost.place(one), donors.cost.place(other))[0]
        taken, shrunk = mine != theirs, True
        while shrunk:
            shrunk = False
            for f in np.argsort(-steps, kind="stable"):
                trial = taken & (np.arange(len(mine)) != f)
                if taken[f] and trial.any() and decide(np.where(trial, theirs, mine)[None])[0] == 1:
                    taken, shrunk = trial, True
        costs.append((steps * taken).sum())
    return np.array(costs)


@pytest.mark.parametrize("seed", range(5))
def test_values_are_given_back_as_if_asked_about_one_by_one(seed):
    donors, rows, asked = numbers(60, 7, seed)
    found = donors.nearest(rows)
    assert found.cost == pytest.approx(given_back_one_by_one(donors, rows, asked.decide))


def test_of_very_many_columns_most_are_given_back_together():
    slope = np.r_[np.ones(20), np.full(780, 0.01)]
    donors, rows, asked = numbers(60, 800, 0, slope=slope)
    found = donors.nearest(rows)
    assert asked.calls < 400  # one after the other it would be more than 800
    assert (asked.decide(found.table.native) == 1).all()
    assert found.cost.mean() <= given_back_one_by_one(donors, rows, asked.decide).mean()


def test_a_limit_on_edits_is_searched_for_with_few_calls():
    donors, rows, asked = numbers(150, 20, 0, cost=Cost(max_edits=2, one_way={"x0": "up"}))
    found = donors.nearest(rows)
    assert asked.calls < 400  # donor by donor it takes more than a thousand
    edits = (found.table.native != rows.native).sum(axis=1)
    assert found.reached.any()
    assert edits.max() <= 2
    assert (asked.decide(found.table.native[found.reached]) == 1).all()


@pytest.mark.parametrize("kind", ["l1", "l2"])
def test_below_a_limit_an_edit_is_found_wherever_the_cheapest_costs_less(kind):
    donors, rows, asked = numbers(200, 8, 1, cost=Cost(kind=kind))
    cheapest = donors.nearest(rows).cost
    below = np.full(len(rows), float(np.median(cheapest)))
    found = donors.nearest(rows, below)
    cheap = found.cost < below
    assert (cheap >= (cheapest < below)).all()
    assert not cheap.all()
    assert (asked.decide(found.table.native[cheap]) == 1).all()


def test_donors_that_remember_give_the_same_and_ask_once(forest, monkeypatch):
    donors = donors_for(forest, Cost(immutable=("town",)))
    remembering = RememberingDonors.of(donors)
    rows = others(forest)
    first, second = rows.take(np.arange(15)), rows.take(np.arange(8, len(rows)))
    for some in (first, second, first):
        np.testing.assert_array_equal(donors.reach(some), remembering.reach(some))
        plain, again = donors.nearest(some), remembering.nearest(some)
        np.testing.assert_array_equal(plain.cost, again.cost)
        pd.testing.assert_frame_equal(
            plain.table.native.reset_index(drop=True), again.table.native.reset_index(drop=True)
        )
    monkeypatch.setattr(BlackBox, "query", None)  # the model is queried no more
    assert len(remembering.nearest(rows).cost) == len(remembering.reach(rows)) == len(rows)
    assert type(forgetting(remembering)) is Donors
