"""Can the gap be closed at all? Against linear programs, and in simulations."""

import numpy as np
import pytest
from scipy.optimize import linprog

from fairmend import (
    FDR,
    FNR,
    FPR,
    SP,
    Alignment,
    BlackBox,
    Population,
    audit_data,
    counterfactual,
    tabulate,
)
from fairmend.explain.certificate import Certificate, certify
from fairmend.explain.outcomes import empirical
from fairmend.measure.population import Tally
from fairmend.status import Status


def random_pair(rng, rows=5):
    h = rng.permutation(np.arange(rows) % 2).astype(float) if rng.integers(2) else rng.random(rows)
    draw = [(rng.dirichlet(np.ones(rows)), rng.uniform(0.05, 0.95, rows)) for _ in range(2)]
    return tuple(Population.of(mass, h, outcome) for mass, outcome in draw)


def extreme_by_lp(disparity, target, baseline, sign):
    """Min of sign * M(Q), a linear-fractional program: with q scaled so that <t, q> = 1."""
    r, t = disparity.terms(target)
    answer = linprog(sign * r, A_eq=t[None], b_eq=[1.0], method="highs")
    return sign * answer.fun - disparity.of(baseline)


# -------------------------------------------------------------------- the closed form


@pytest.mark.parametrize("disparity", [SP, FNR, FPR, FDR], ids=lambda d: d.name)
def test_the_closed_form_is_the_optimum_of_the_linear_fractional_program(disparity):
    rng = np.random.default_rng(0)
    answers = set()
    for _ in range(50):
        target, baseline = random_pair(rng)
        found = certify(disparity, target, baseline, None, 0.95)
        sign = 1 if disparity.value(target, baseline) >= 0 else -1
        best = extreme_by_lp(disparity, target, baseline, sign)
        assert found.best_reachable == pytest.approx(best, abs=1e-9)  # the solver's precision
        assert found.irreconcilable == (sign * best > 0)
        assert found.downwards == (sign > 0)
        assert found.low == found.best_reachable == found.high  # nothing is estimated
        assert found.certain
        answers.add((found.irreconcilable, found.downwards))
    if disparity is FDR:  # all four answers came up: either can be in either direction
        assert len(answers) == 4


def test_alignment_of_decisions_is_certified_as_statistical_parity():
    target, baseline = random_pair(np.random.default_rng(0))
    assert certify(Alignment(), target, baseline, None, 0.95) == certify(
        SP, target, baseline, None, 0.95
    )
    for no_rate in (Alignment(0.1), FNR + FPR):
        assert certify(no_rate, target, baseline, None, 0.95) is None


# -------------------------------------------------------------------- a gap that cannot be closed


def fdr_people(n, seed):
    """Among accepted people the outcome is 0.5 to 0.6 in one group and 0.9 in the other."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 4, n)
    s = rng.integers(0, 2, n)
    p = np.where(s == 0, np.array([0.2, 0.3, 0.5, 0.6])[x], np.array([0.2, 0.3, 0.9, 0.9])[x])
    return x[:, None], (rng.random(n) < p).astype(int), np.where(s == 0, "a", "b")


def accepted(rows):
    return (rows[:, 0] >= 2).astype(int)


def test_an_irreconcilable_fdr_is_said_to_be_one():
    X, y, s = fdr_people(20_000, 0)
    found = counterfactual(
        accepted, X, y, sensitive_features=s, disparity="fdr", outcome_model="empirical"
    )
    assert found.target_name == "a"
    assert found.irreconcilable
    assert found.status is Status.IRRECONCILABLE
    assert found.status.value == (
        "No distribution over these inputs, with outcomes as estimated, closes the gap: this one "
        "narrows it. Possible reasons: P(Y | X) differs between the groups, the target group lacks "
        "inputs that the reference group has, or equal inputs get different decisions. More or "
        "other inputs may help."
    )
    assert found.certificate.certain
    assert found.certificate.low < 0.3 < found.certificate.high  # 0.4 - 0.1
    assert found.mass.tolist() == [0, 0, 0, 1]
    assert found.after == pytest.approx(found.certificate.best_reachable, abs=1e-12)
    assert (
        "No distribution over these inputs closes this gap; the nearest to 0 that any takes it is +"
        in str(found)
    )
    assert "because P(Y|X) differs between the groups." in str(found)


def test_what_can_be_closed_in_part_is_closed_and_still_irreconcilable():
    X, y, s = fdr_people(20_000, 0)
    found = counterfactual(
        accepted, X, y, sensitive_features=s, disparity="fdr", outcome_model="empirical", level=0.05
    )
    assert found.status is Status.PARTLY
    assert found.after == pytest.approx(0.95 * found.before, abs=1e-10)
    assert found.irreconcilable


def test_a_descent_that_cannot_arrive_says_why():
    X, y, s = fdr_people(5_000, 0)
    found = counterfactual(
        accepted, X, y, sensitive_features=s, disparity="fdr", outcome_model="empirical",
        method="descent", max_iter=50,
    )  # fmt: skip
    assert found.status is Status.IRRECONCILABLE
    assert found.irreconcilable
    hasty = counterfactual(
        accepted, X, y, sensitive_features=s, disparity="fdr", outcome_model="empirical",
        method="descent", max_iter=1, level=0.05, step_size=1e-6,
    )  # fmt: skip
    assert hasty.status is Status.STOPPED  # that much could be reached
    assert hasty.irreconcilable


def test_a_gap_that_can_be_closed_says_how_far():
    text = str(Certificate(-0.2, -0.25, -0.15, 0.95))
    closes = "The gap can be closed: some distribution over these inputs takes it to 0. "
    assert text == (
        f"{closes}The furthest any takes it is -20.0 points (95 % interval -25.0 to -15.0)."
    )
    text = str(Certificate(0.2, -0.01, 0.25, 0.9, downwards=False))
    assert text == (
        f"{closes}The furthest any takes it is +20.0 points (90 % interval -1.0 to +25.0). "
        "The data leave room for the other answer."
    )


def test_inputs_the_target_group_lacks_are_named_as_a_reason():
    """With sp nothing but missing inputs can stand in the way."""
    X = np.array([[0], [0], [1], [1]])
    found = counterfactual(
        lambda rows: rows[:, 0], X, [0, 1, 0, 1], sensitive_features=list("aabb"), disparity="sp"
    )
    assert found.irreconcilable
    assert found.certificate.baseline_covered == 0
    assert str(found.certificate) == (
        "No distribution over these inputs closes this gap; the nearest to 0 that any takes it is "
        "+100.0 points (95 % interval +100.0 to +100.0), because nobody in the target group has "
        "the inputs of 100.0 % of the reference group."
    )


def test_with_recorded_decisions_it_may_be_the_decisions_and_not_the_inputs():
    """Both groups have the same inputs: what differs is how they were decided about."""
    X, s = np.array([[0], [1], [0], [1]]), list("aabb")
    found = counterfactual([0, 0, 1, 1], X, [0, 1, 0, 1], sensitive_features=s, disparity="sp")
    assert found.irreconcilable
    assert found.certificate.baseline_covered == 1
    assert str(found.certificate).endswith(
        "+100.0 points (95 % interval +100.0 to +100.0), because equal inputs get different "
        "decisions."
    )
    narrower = counterfactual([0, 1, 1, 1], X, [0, 1, 0, 1], sensitive_features=s, disparity="sp")
    assert str(narrower.certificate).endswith(
        "). Equal inputs with different decisions count as different inputs."
    )


@pytest.mark.parametrize(("disparity", "by_outcome"), [(SP, 0), (FNR, 0), (FPR, 0), (FDR, 1)])
def test_outcomes_are_blamed_only_where_the_rate_of_a_row_depends_on_them(disparity, by_outcome):
    """Where the target group has all of the baseline's inputs, sp, fnr and fpr can be closed.

    Their rate at a row is 1 - h or h, so the baseline's rate lies between the target's rows' rates.
    """
    rng = np.random.default_rng(1)
    for _ in range(50):
        found = certify(disparity, *random_pair(rng), None, 0.95)
        assert found.by_outcome == by_outcome
        assert by_outcome or not found.irreconcilable


@pytest.mark.parametrize("lower", [1.0, 0.5])
def test_rounding_does_not_make_a_gap_irreconcilable(lower):
    """The whole baseline gets one probability, and a row of the target group gets it too.

    So all mass on that row closes the gap, if there is one, whatever the weights sum up to.
    """
    rng = np.random.default_rng(0)
    for _ in range(100):
        p = round(rng.uniform(), 2)
        X = np.r_[[0, 0, 1], rng.integers(1, 6, 9)][:, None]
        found = counterfactual(
            BlackBox(lambda rows, p=p: np.where(rows[:, 0] == 0, lower * p, p), soft=True),
            X, np.arange(12) % 2, sensitive_features=list("aaabbbbbbbbb"), disparity="sp",
            target="a", sample_weight=rng.uniform(0.1, 1, 12),
        )  # fmt: skip
        assert found.status in (Status.CLOSED, Status.NOTHING_TO_DO)
        assert not found.irreconcilable
        assert found.after == pytest.approx(0, abs=1e-12)


# -------------------------------------------------------------------- uncertainty


def test_the_interval_covers_the_truth():
    """The best reachable FDR gap is 0.4 - 0.1 = 0.3; Bonferroni makes the interval conservative."""
    covered = []
    for seed in range(200):
        data = tabulate(
            accepted, *fdr_people(600, seed)[:2], sensitive_features=fdr_people(600, seed)[2]
        )
        fitted = empirical(data["a"].tally, what="P(Y=1 | x, a)")
        found = certify(FDR, data["a"], data["b"], fitted, 0.95)
        covered.append(found.low <= 0.3 <= found.high)
        assert found.low <= found.best_reachable <= found.high
    assert np.mean(covered) >= 0.95


def test_few_people_leave_room_for_the_other_answer():
    X, y, s = fdr_people(60, 3)
    found = counterfactual(
        accepted, X, y, sensitive_features=s, disparity="fdr", outcome_model="empirical", target="a"
    )
    assert not found.certificate.certain
    assert "The data leave room for the other answer." in str(found.certificate)


@pytest.mark.parametrize("disparity", [FNR, FPR], ids=lambda d: d.name)
def test_rates_that_owe_nothing_to_the_outcome_at_a_row_have_no_error_there(disparity):
    """(1-h) y / y is 1-h whatever y is; but somebody must have been seen with that outcome."""

    def found_for(seen):
        target = Population.of(
            [1, 1], [0.2, 0.7], seen[:, 1] / 1_000, tally=Tally(seen, seen, seen)
        )
        fitted = empirical(target.tally, what="P(Y=1 | x)")
        exact = Population.of([1, 1], [0.3, 0.6], [0.5, 0.5])
        return certify(disparity, target.with_outcome(fitted.probability), exact, fitted, 0.95)

    found = found_for(np.array([[999.0, 1.0], [500.0, 500.0]]))
    assert found.low == found.best_reachable == found.high
    assert found.certain
    nobody = found_for(np.array([[1000.0, 0.0], [500.0, 500.0]]))
    if disparity is FNR:  # whether that row has a rate at all is not known
        assert not nobody.certain


def test_the_baselines_own_error_is_the_audits():
    """With the target's rates exact, the interval is the baseline rate's own."""
    X, y, s = fdr_people(2_000, 1)
    data = tabulate(accepted, X, y, sensitive_features=s)
    found = certify(SP, data["a"], data["b"], None, 0.95)
    n, rate = data["b"].n, SP.of(data["b"])
    error = np.sqrt(rate * (1 - rate) / n)
    assert found.high - found.best_reachable == pytest.approx(1.959964 * error, rel=1e-6)
    assert audit_data(data)["sp", "a"].n_baseline == n


# -------------------------------------------------------------------- no certainty from a model


def spiked_people(seed, n=4_000, spike=0.95):
    """D: accepted people of "a" have P(Y=1) = .5, but on x = 14; those of "b" .8 everywhere.

    So all mass on x = 14 brings the gap in fdr from .3 - .45/10 to (1 - spike) - .2.
    """
    rng = np.random.default_rng(seed)
    x, b = rng.integers(0, 20, n), rng.random(n) < 0.5
    p = np.where(b, np.where(x < 10, 0.3, 0.8), np.where(x < 10, 0.2, 0.5))
    p[(x == 14) & ~b] = spike
    return x[:, None], (rng.random(n) < p).astype(int), np.where(b, "b", "a")


def certified(X, y, s, **settings):
    found = counterfactual(
        lambda rows: (rows[:, 0] >= 10).astype(int), X, y, sensitive_features=s, disparity="fdr",
        target="a", baseline="b", **settings,
    )  # fmt: skip
    return found.certificate


@pytest.mark.parametrize("seed", range(4))
def test_a_gap_that_can_be_closed_is_not_certified_as_irreconcilable(seed):
    found = certified(*spiked_people(seed))
    assert found.model == "gradient boosting"
    assert not found.irreconcilable
    assert found.best_reachable == pytest.approx(-0.15, abs=0.06)
    assert found.counted[0] <= -0.15 <= found.counted[1]


def test_a_model_that_the_observed_shares_contradict_is_not_certain():
    found = certified(*spiked_people(0), outcome_model="logistic")
    assert found.irreconcilable  # under the logistic model, which is wrong
    assert not found.certain
    assert "perhaps because P(Y|X) differs between the groups. This is under the fitted model " in (
        str(found)
    )
    assert "(l2 logistic regression), whose calibration error is " in str(found)
    assert "The observed shares alone contradict it: " in str(found)


def test_observed_shares_make_an_answer_certain_whatever_the_model():
    found = certified(*spiked_people(0), outcome_model="auto")
    assert found.certain
    assert found.counted[1] < 0
    assert "This is under the fitted model (gradient boosting), whose calibration" in str(found)
    assert "The observed shares alone give the same answer: " in str(found)
    never = certified(*spiked_people(0, n=8_000, spike=0.5), outcome_model="logistic")
    assert never.irreconcilable
    assert never.certain
    assert ", because P(Y|X) differs between the groups. This is under" in str(never)


def test_few_people_on_a_row_leave_it_open():
    found = certified(*spiked_people(0, n=400))
    assert not found.certain
    assert "The observed shares alone leave it open: " in str(found)


def test_the_intervals_by_counts_cover_the_truth():
    """The truth is -.15; all rows and the baseline's rate are covered at once."""
    covered = [
        found.low <= -0.15 <= found.high
        for seed in range(100)
        for found in [certified(*spiked_people(seed, n=2_000), outcome_model="empirical")]
    ]
    assert np.mean(covered) >= 0.95


def test_continuous_inputs_give_no_certainty():
    """Every row is one person: observed shares say nothing, whatever the model says."""
    rng = np.random.default_rng(0)
    x, b = rng.uniform(0, 20, 1_000), rng.random(1_000) < 0.5
    p = np.where(b, 0.9, 0.3 + 0.015 * x)
    y, s = (rng.random(1_000) < p).astype(int), np.where(b, "b", "a")
    found = certified(x[:, None], y, s, outcome_model="logistic")
    assert found.irreconcilable
    assert found.low > 0  # under the model it would be beyond doubt
    assert not found.certain


@pytest.mark.parametrize("metric", ["sp", "fnr", "fpr"])
def test_rates_that_rest_on_no_model_are_certain(metric):
    X, y, s = spiked_people(0)
    found = counterfactual(
        lambda rows: (rows[:, 0] >= np.where(rows[:, 0] % 2, 10, 5)).astype(int),
        X, y, sensitive_features=s, disparity=metric,
    )  # fmt: skip
    assert found.certificate.model == ""
    assert found.certificate.certain
    assert "fitted model" not in str(found.certificate)
