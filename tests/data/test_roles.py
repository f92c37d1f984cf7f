"""What columns probably are: a wrong guess is worse than none."""

import numpy as np
import polars as pl
import pytest

from fairmend.data.roles import guess_roles
from fairmend.data.tablefile import read_table


@pytest.fixture
def guessed(tmp_path):
    """The guesses for a file with these columns, by name."""

    def guess(**columns):
        pl.DataFrame(columns).write_parquet(tmp_path / "people.parquet")
        found = guess_roles(read_table(str(tmp_path / "people.parquet")))
        return {one.name: one for one in found}

    return guess


def world(seed=0, n=2_000):
    """A score that is the probability of what happens, and an input that moves it."""
    rng = np.random.default_rng(seed)
    remote = rng.integers(0, 2, n)
    score = 1 / (1 + np.exp(0.4 - 1.5 * remote - rng.normal(size=n)))
    return remote, score, (rng.random(n) < score).astype(int)


@pytest.mark.parametrize("words", [False, True])
def test_the_outcome_is_what_a_score_gives_the_probability_of(guessed, words):
    remote, score, good = world()
    found = guessed(remote=remote, score=score, good_hire=good if not words
                    else np.where(good, "yes", "no"))  # fmt: skip
    roles = {name: one.role for name, one in found.items()}
    assert roles == {"remote": "input", "score": "decision", "good_hire": "outcome"}
    assert found["good_hire"].why == "score gives its probability"


@pytest.mark.parametrize("shown", [200, 2_000])
def test_what_cannot_be_told_is_said_to_be_unsure(guessed, shown):
    """Without a score, or among few people, an input looks like an outcome."""
    remote, score, good = (column[:shown] for column in world())
    said = (score > 0.5).astype(int) if shown == 2_000 else score
    found = guessed(remote=remote, decision=said, good_hire=good)
    for name in ("remote", "good_hire"):
        assert found[name].role == "input"
        assert found[name].unsure == "it has two values and may be the outcome"


def test_an_input_that_moves_the_score_is_seldom_taken_for_the_outcome(guessed):
    taken = 0
    for seed in range(40):
        remote, score, _ = world(seed)
        taken += guessed(remote=remote, score=score)["remote"].role == "outcome"
    assert taken == 0


def test_of_several_that_may_be_the_one_it_says_so(guessed):
    remote, score, good = world()
    n = np.arange(len(good))
    found = guessed(
        default_history=remote, repaid=good, credit_score=score, decision=(score > 0.5) * 1,
        customer_id=n, income=np.random.default_rng(1).permutation(len(n)) * 17,
        weight=50 + n % 40, sample_weight=1 + n % 3, children_count=n % 5,
    )  # fmt: skip
    assert {name: one.role for name, one in found.items()} == {
        "default_history": "ignore", "repaid": "outcome", "credit_score": "ignore",
        "decision": "decision", "customer_id": "id", "income": "input", "weight": "ignore",
        "sample_weight": "weight", "children_count": "input",
    }  # fmt: skip
    assert found["repaid"].unsure == "default_history may be the outcome instead"
    assert found["decision"].unsure == "credit_score may be the decision instead"
    assert found["income"].unsure == "all its 2,000 values differ: it may be the id"


def test_a_weight_may_be_that_of_a_body(guessed):
    assert guessed(weight=50 + np.arange(60) % 40)["weight"].unsure == "it may be an input"
