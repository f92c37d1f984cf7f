"""Judging in a named order: who is tested, who passes, and a gap that is narrower than another."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from fairmend import SP, BlackBox
from fairmend.measure.performance import Worth
from fairmend.model.answers import Answers
from fairmend.search import choice
from fairmend.search.judge import Judge, Pair
from fairmend.search.people import Given, Part


def figures(p_worse, p_better, p_wider):
    performance = SimpleNamespace(p_worse=p_worse, p_value=max(p_worse, p_better))
    return SimpleNamespace(performance=performance, p_wider=p_wider)


def test_the_first_that_fails_ends_the_sequence():
    judged = [figures(0.01, 0.01, 0.01), figures(0.2, 0.01, 0.01), figures(0.0, 0.0, 0.0)]
    done = choice.tested_in_order([0, 1, 2], judged)
    assert (done.reached, done.passed, done.equivalent) == ({0, 1}, {0}, {0})
    assert choice.tested_in_order([], judged).passed == set()


def test_the_better_one_passes_and_ends_what_is_said_of_equivalence():
    """Better by more than the margin is not equivalent; after it nothing is called so."""
    judged = [figures(0.0, 0.5, 0.01), figures(0.0, 0.0, 0.01)]
    done = choice.tested_in_order([0, 1], judged)
    assert (done.passed, done.equivalent) == ({0, 1}, set())


def people(groups, n=1_200, seed=0):
    rng = np.random.default_rng(seed)
    s = rng.choice(groups, n)
    X = pd.DataFrame({"x": rng.integers(0, 10, n)})
    now = (X["x"].to_numpy() + 2 * (s != groups[0]) < 6).astype(int)
    y = rng.integers(0, 2, n)
    return Part.read("judging", BlackBox(now), Given(X, y, s)), now, s


@pytest.mark.parametrize("groups", [("a", "b"), ("a", "b", "c")])
def test_the_error_of_a_narrower_gap_is_that_of_resampled_people(groups):
    part, now, s = people(groups)
    rng = np.random.default_rng(1)
    then = np.where((s == "b") & (rng.random(len(now)) < 0.2), 1 - now, now).astype(float)
    pairs = [Pair(SP, one, "a") for one in groups[1:]]
    judge = Judge(part, pairs, Worth(), 0.01, favours_positive=True)
    seen = judge.figures(Answers(then, None))
    draws = []
    for _ in range(600):
        some = rng.integers(0, len(s), len(s))
        own, h, g = s[some], now[some], then[some]
        before = h[own == "a"].mean() - h[own == pairs[0].target].mean()
        after = max(abs(g[own == "a"].mean() - g[own == one.target].mean()) for one in pairs)
        draws.append(before - after)
    # 600 resamples know a standard deviation to 2.9 %; four such errors
    assert seen.reduction_error == pytest.approx(np.std(draws), rel=0.12)
    assert seen.reduction == pytest.approx(np.mean(draws), abs=0.25 * np.std(draws))


def test_every_gap_must_be_narrower():
    """One pair is closed and the other is as wide as the widest was: nothing is shown."""
    part, now, s = people(("a", "b", "c"))
    then = now.astype(float)
    then[s == "b"] = (part.given.X["x"].to_numpy() < 6)[s == "b"]
    judge = Judge(part, [Pair(SP, "b", "a"), Pair(SP, "c", "a")], Worth(), 0.01,
                  favours_positive=True)  # fmt: skip
    assert judge.figures(Answers(then, None)).p_wider > 0.05
    then[s == "c"] = (part.given.X["x"].to_numpy() < 6)[s == "c"]
    assert judge.figures(Answers(then, None)).p_wider < 0.05


def test_a_handful_of_flips_in_a_small_group_shows_nothing():
    """Three of thirty: McNemar's exact one-sided test has p = 1/8; without care it is .04."""
    s = np.repeat(["a", "b"], [30, 2_000])
    now = np.r_[np.zeros(30), np.ones(2_000)].astype(int)
    part = Part.read("judging", BlackBox(now), Given(
        pd.DataFrame({"x": np.arange(2_030) % 7}), np.tile([0, 1], 1_015), s))  # fmt: skip
    then = now.astype(float)
    then[:3] = 1
    judge = Judge(part, [Pair(SP, "a", "b")], Worth(), 0.01, favours_positive=True)
    assert 0.05 < judge.figures(Answers(then, None)).p_wider < 0.125
