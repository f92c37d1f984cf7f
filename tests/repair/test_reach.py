"""How far a blind rule can go, against sums over cells with known people."""

import numpy as np
import pandas as pd
import pytest

from fairmend import BlackBox, RepairedClassifier

SIDES = {"sp": ("a", "b"), "fnr": ("a", "b"), "fpr": ("b", "a")}


def people(n, *, seed=0, tells=False):
    """Eight cells; group a has less of the first input, which the model and outcomes follow."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 2, n)
    first = (rng.random(n) < np.where(group == 1, 0.7, 0.4)).astype(int)
    X = pd.DataFrame({"first": first, "b": rng.integers(0, 2, n), "c": rng.integers(0, 2, n)})
    y = (rng.random(n) < 0.2 + 0.4 * first + 0.2 * X["b"]).astype(int).to_numpy()
    if tells:
        X["sex"] = group
    return X, y, np.array(["a", "b"])[group]


def model(X):
    return 0.3 + 0.3 * X["first"] + 0.1 * X["b"] + 0.05 * X["c"]


def furthest(metric, X, y, s, **settings):
    target, reference = SIDES[metric]
    repaired = RepairedClassifier(
        BlackBox(model, output="probability"), metric, target=target, reference=reference,
        random_state=0, **settings,
    )  # fmt: skip
    return repaired.price_of_blindness(X, y, sensitive_features=s, levels=()).furthest


def least(metric, X, y, s, *, raise_only=False):
    """The gap after every cell's decision is set to what is best for it, among these people."""
    some = {"sp": np.ones(len(y), bool), "fnr": y == 1, "fpr": y == 0}[metric]
    cell = X[["first", "b", "c"]].to_numpy() @ [4, 2, 1]
    target, reference = (
        np.bincount(cell[some & (s == side)], minlength=8) / (some & (s == side)).sum()
        for side in SIDES[metric]
    )
    more = target - reference if metric == "fpr" else reference - target  # of positive decisions
    now = np.zeros(8)
    now[cell] = model(X) > 0.5
    low = now if raise_only else np.zeros(8)
    return float(np.where(more < 0, 1.0, low) @ more)


@pytest.mark.parametrize("metric", list(SIDES))
@pytest.mark.parametrize("raise_only", [False, True])
def test_the_furthest_gap_is_that_of_the_best_decision_for_every_cell(metric, raise_only):
    X, y, s = people(4_000)
    gap, low, high = furthest(metric, X, y, s, do_no_harm=raise_only)
    truth = least(metric, X, y, s, raise_only=raise_only)
    # the estimate allows for having chosen the cells on the same people: less far, by a few of them
    assert truth - 1e-9 <= gap <= truth + 0.01
    assert low <= truth <= high


def test_an_input_that_tells_the_group_does_not_bring_a_blind_rule_further():
    X, y, s = people(4_000, tells=True)
    with pytest.warns(UserWarning, match="sex"):
        gap, _, _ = furthest("sp", X, y, s)
    assert gap == pytest.approx(furthest("sp", X.drop(columns="sex"), y, s)[0], abs=1e-9)


def test_the_interval_reaches_from_people_who_chose_to_people_held_out():
    X, y, s = people(150, seed=1)
    gap, low, high = furthest("sp", X, y, s)
    assert low < least("sp", X, y, s) <= gap < high
