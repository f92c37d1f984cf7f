"""Worlds with a known truth: what they say of themselves is what their samples show."""

import numpy as np
import pytest

from scripts import loaded


@pytest.fixture(scope="module")
def scripts():
    with loaded("_shared", "mixed", "blind", "_search_worlds", "alternatives") as found:
        yield found


@pytest.mark.parametrize("name", ["few kinds of rows", "four groups", "weights"])
def test_samples_have_the_rates_of_their_world(scripts, name):
    world = scripts.search_worlds.WORLDS[name]()
    people = world.__class__(**{**vars(world), "n": 100_000}).sample(0)
    s, y = people["sensitive_features"], people["y"]
    decided = (world.model(people["X"]) > 0.5).astype(float)
    weight = people.get("sample_weight", np.ones(len(y)))
    error = 4 * np.sqrt(0.25 / 10_000)  # the smallest group has 20,000, weighted by 1 or 3
    for group in np.unique(s):
        own = s == group
        rate = np.average(1 - decided[own], weights=weight[own])
        assert rate == pytest.approx(world.rate(world.now, group), abs=error)
    accuracy = np.average(decided == y, weights=weight)
    assert accuracy == pytest.approx(world.accuracy(world.now), abs=error)


def test_no_rule_of_a_small_world_reaches_below_its_least_gap(scripts):
    world = scripts.search_worlds.rows(honest=True, margin=0.03)
    least, now = world.least(), world.accuracy(world.now)
    rng, reached = np.random.default_rng(0), []
    for _ in range(3_000):
        change = rng.random(len(now_of := world.now)) < rng.uniform(0, 0.2)
        decided = np.where(change, rng.random(len(now_of)), now_of)
        if world.accuracy(decided) >= now - world.margin:
            reached.append(world.widest(decided))
    assert least <= min(reached) + 1e-9
    assert least < world.widest(world.now)


def test_an_offered_model_loses_the_margin_and_narrows_the_gap(scripts):
    lines = scripts.alternatives.offered_models(range(5))
    assert {line["row"] for line in lines} == {scripts.alternatives.OFFERED}
    one = scripts.alternatives.over_runs(lines)
    assert one["worse"] == one["chosen"]
    [check, *_] = scripts.alternatives.judge_simulated({**one, "worse": [6, 100], "runs": 100})
    assert not check.met
    [check, *_] = scripts.alternatives.judge_simulated({**one, "worse": [5, 100], "runs": 100})
    assert check.met


def test_a_retrained_model_reads_its_inputs_and_has_its_cut(scripts):
    train = scripts.shared.parts(scripts.shared.table("compas"), 0)[0]
    rng = np.random.default_rng(0)
    model = scripts.alternatives.retrained(scripts.alternatives.logistic, train, rng)
    assert set(model.names) <= set(train.X.columns)
    chance = model.model.predict_proba(train.X[model.names])[:, 1]
    assert (model(train.X) == (chance > model.cut)).all()
