"""Measures of decisions: against scikit-learn, their influence against finite differences."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

from fairmend.errors import FairmendError
from fairmend.measure.performance import (
    AreaUnderCurve,
    BalancedAccuracy,
    Outcomes,
    OwnMeasure,
    Profit,
    Worth,
    compare,
)
from fairmend.model.answers import Answers

STEP = 1e-6


def people(n=60, seed=0, *, weighted=True):
    rng = np.random.default_rng(seed)
    weight = rng.uniform(0.5, 2.0, n) if weighted else np.ones(n)
    outcomes = Outcomes((rng.random(n) < 0.4).astype(float), weight)
    score = np.round(rng.random(n) + 0.3 * outcomes.outcome, 1)  # with ties
    return outcomes, Answers((score > 0.6).astype(float), score)


def measures(n, seed=0):
    amount = np.random.default_rng(seed + 1).normal(5, 20, n)
    return [Worth("worth", 0.8), Worth(), BalancedAccuracy(), AreaUnderCurve(),
            Profit("profit", amount)]  # fmt: skip


@pytest.mark.parametrize("place", range(5))
def test_the_influence_is_the_derivative_by_a_weight(place):
    outcomes, answers = people()
    measure = measures(60)[place]
    estimate = measure.of(outcomes, answers)
    for i in range(0, 60, 7):
        weight = outcomes.weight.copy()
        weight[i] += STEP
        there = measure.of(Outcomes(outcomes.outcome, weight), answers).value
        slope = (there - estimate.value) / STEP * outcomes.weight.sum()
        # forward difference: the error is of the order of the step times the second derivative
        assert slope == pytest.approx(estimate.psi[i], abs=1e-4 * (1 + abs(estimate.psi[i])))
    assert outcomes.share @ estimate.psi == pytest.approx(0, abs=1e-9)


def test_the_values_are_those_of_scikit_learn():
    outcomes, answers = people()
    y, w = outcomes.outcome, outcomes.weight
    balanced = BalancedAccuracy().of(outcomes, answers).value
    assert balanced == pytest.approx(balanced_accuracy_score(y, answers.decision, sample_weight=w))
    area = AreaUnderCurve().of(outcomes, answers).value
    assert area == pytest.approx(roc_auc_score(y, answers.score, sample_weight=w))
    by_decision = AreaUnderCurve().of(outcomes, Answers(answers.decision, None)).value
    assert by_decision == pytest.approx(balanced)  # known: one cut has this area
    right = Worth().of(outcomes, answers).value
    assert right == pytest.approx(np.average(answers.decision == y, weights=w))


@given(st.floats(0.05, 0.95), st.integers(0, 50))
def test_worth_counts_both_errors_at_their_weight(cut, seed):
    outcomes, answers = people(40, seed, weighted=False)
    y, d = outcomes.outcome, answers.decision
    wrong = cut * ((d == 1) & (y == 0)).sum() + (1 - cut) * ((d == 0) & (y == 1)).sum()
    assert Worth("worth", cut).of(outcomes, answers).value == pytest.approx(1 - 2 * wrong / 40)


def test_a_function_of_ones_own_has_the_error_of_the_measure_it_is():
    outcomes, now = people(400, 3, weighted=False)
    other = Answers(np.where(np.arange(400) % 9 == 0, 1 - now.decision, now.decision), None)
    own = OwnMeasure(lambda decided, outcome: float((decided == outcome).mean()))
    mine, known = (compare(one, outcomes, now, other, margin=0.01) for one in (own, Worth()))
    assert mine.value == pytest.approx(known.value)
    assert mine.error == pytest.approx(known.error, rel=1e-6)


def test_a_function_of_ones_own_counts_weights_and_draws_with_their_shares():
    outcomes, now = people(400, 3)
    drawn = Answers(np.where(np.arange(400) % 9 == 0, 0.3, now.decision), None)
    own = OwnMeasure(lambda decided, outcome: float((decided == outcome).mean()))
    mine, known = (one.of(outcomes, drawn) for one in (own, Worth()))
    assert mine.value == pytest.approx(known.value, abs=1 / 400)  # whole people
    assert mine.psi == pytest.approx(known.psi, abs=0.01)  # 1 / 400, twice, and its mean


def test_the_error_of_a_difference_is_that_of_resampled_people():
    outcomes, now = people(2_000, 5, weighted=False)
    rng = np.random.default_rng(6)
    other = Answers(np.where(rng.random(2_000) < 0.1, 1 - now.decision, now.decision), now.score)
    for measure in (Worth("worth", 0.7), BalancedAccuracy()):
        found = compare(measure, outcomes, now, other, margin=0.01)
        draws = []
        for _ in range(400):
            some = rng.integers(0, 2_000, 2_000)
            sample = Outcomes(outcomes.outcome[some], np.ones(2_000))
            draws.append(measure.of(sample, other.take(some)).value
                         - measure.of(sample, now.take(some)).value)  # fmt: skip
        # 400 resamples know a standard deviation to 3.5 %; four such errors
        assert found.error == pytest.approx(np.std(draws), rel=0.14)


def test_rows_of_one_person_count_as_one():
    outcomes, now = people(300, 7, weighted=False)
    other = Answers(np.where(np.arange(300) % 5 == 0, 1 - now.decision, now.decision), None)
    twice = Outcomes(*(np.repeat(part, 2) for part in (outcomes.outcome, outcomes.weight)),
                     np.repeat(np.arange(300), 2))  # fmt: skip
    one = compare(Worth(), outcomes, now, other, margin=0.01)
    both = compare(Worth(), twice, now.take(np.repeat(np.arange(300), 2)),
                   other.take(np.repeat(np.arange(300), 2)), margin=0.01)  # fmt: skip
    assert both.error == pytest.approx(one.error)
    assert both.p_worse == pytest.approx(one.p_worse)


def test_two_one_sided_tests_reject_as_often_as_they_say():
    """At the margin itself a test at 5 % calls 5 % of samples equivalent, or fewer."""
    rng, n, margin, called = np.random.default_rng(8), 4_000, 0.02, 0
    for _ in range(400):
        outcomes = Outcomes((rng.random(n) < 0.5).astype(float), np.ones(n))
        now = outcomes.outcome.copy()  # always right
        wrong = rng.random(n) < margin  # truly worse by just the margin
        other = np.where(wrong, 1 - now, now)
        found = compare(Worth(), outcomes, Answers(now, None), Answers(other, None), margin=margin)
        called += found.p_value <= 0.05
    assert called / 400 <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 400)


@pytest.mark.parametrize(("lost", "passes"), [(30, False), (29, True)])
def test_few_losses_are_not_more_certain_than_the_margin_makes_them(lost, passes):
    """At a margin of 40 of 4,000 losses the chance of 30 or fewer is .062, of 29 or fewer .046."""
    outcomes, now = Outcomes(np.ones(4_000), np.ones(4_000)), np.ones(4_000)
    other = np.where(np.arange(4_000) < lost, 0.0, 1.0)
    found = compare(Worth(), outcomes, Answers(now, None), Answers(other, None), margin=0.01)
    assert (found.p_worse <= 0.05) == passes


def test_what_cannot_be_measured_is_said():
    outcomes, now = people(50, 1)
    same = Outcomes(np.ones(50), np.ones(50))
    with pytest.raises(FairmendError, match="both outcomes"):
        BalancedAccuracy().of(same, now)
    plain = Outcomes(outcomes.outcome, np.ones(50))
    with pytest.raises(FairmendError, match="one finite number"):
        OwnMeasure(lambda d, y: float("nan")).of(plain, now)
    with pytest.raises(FairmendError, match="it raised ZeroDivisionError"):
        OwnMeasure(lambda d, y: 1 / 0).of(plain, now)
