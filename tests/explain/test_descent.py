"""Algorithm 1: where it ends, what its trace says, and the paper's toy problem."""

import numpy as np
import pytest
from scipy.optimize import linprog

from fairmend import (
    FDR,
    FNR,
    FPR,
    SP,
    Alignment,
    DataError,
    Population,
    counterfactual,
    descend,
    project,
)
from fairmend.datasets import example_one, toy_descent
from fairmend.explain import descent as descent_module
from fairmend.status import Status


def toy():
    return toy_descent().tabulated().populations


def realised_fpr(target, mass, rows):
    """FPR when people keep their outcome and are moved to Q by the cheapest coupling.

    Squared L2 cost: sum_i p_i (1-y_i) sum_j T_ij h_j / sum_i p_i (1-y_i).
    """
    m = len(rows)
    cost = ((rows[:, None] - rows[None]) ** 2).sum(axis=2)
    coupling = linprog(
        cost.ravel(),
        A_eq=np.vstack([np.kron(np.eye(m), np.ones(m)), np.kron(np.ones(m), np.eye(m))[:-1]]),
        b_eq=np.r_[target.mass, mass[:-1]],
        method="highs",
    ).x.reshape(m, m)
    negative = 1 - target.outcome
    return float(negative @ coupling @ target.decision / (negative @ target.mass))


# -------------------------------------------------------------------- the paper's figure


def test_the_toy_figure():
    """From 28.5 points to a realised 4.05, the group's rate from 29.8 % to 5.3 %."""
    target, baseline = toy()
    mass, status, trace = descend(target, baseline, FPR)
    assert status is Status.CLOSED
    assert abs(FPR.value(target.reweighted(mass), baseline)) <= 1e-6
    assert 100 * trace.value[0] == pytest.approx(28.5, abs=0.05)
    after = realised_fpr(target, mass, toy_descent().rows)
    assert 100 * FPR.of(target) == pytest.approx(29.8, abs=0.05)
    assert 100 * after == pytest.approx(5.3, abs=0.05)
    assert 100 * (after - FPR.of(baseline)) == pytest.approx(4.05, abs=0.05)  # the paper: 4.1


def test_the_toy_figure_by_resampling():
    """400,000 people: the rate's sampling error is about 0.3 points, hence the tolerance."""
    population = toy_descent()
    X, y, s = population.sample(400_000, random_state=0)
    found = counterfactual(
        population.decision, X, y, sensitive_features=s, disparity="fpr", method="descent",
        resample=True, stop="never", step_size=0.3, max_iter=60,
    )  # fmt: skip
    assert found.target_name == "target"
    assert len(found.mass) == 8
    target, baseline = toy()
    values = found.trace.value
    assert 100 * values[0] == pytest.approx(28.5, abs=1)
    assert np.abs(values[40:]).max() < 0.01  # "converges after around 40 iterations"
    after = realised_fpr(target, found.mass, population.rows)
    assert 100 * (after - FPR.of(baseline)) == pytest.approx(4.05, abs=1)


def test_resampling_follows_its_seed():
    X, y, s = toy_descent().sample(5_000, random_state=0)

    def values(seed):
        return counterfactual(
            toy_descent().decision, X, y, sensitive_features=s, disparity="fpr", method="descent",
            resample=True, stop="never", max_iter=5, random_state=seed,
            outcome_model="empirical",
        ).trace.value  # fmt: skip

    assert values(1).tolist() == values(1).tolist()
    assert values(1).tolist() != values(2).tolist()


# -------------------------------------------------------------------- every metric


@pytest.mark.parametrize(
    "disparity",
    [SP, FNR, FPR, FDR, Alignment(), Alignment(0.1), 0.5 * FNR + 0.5 * FPR],
    ids=lambda d: d.name,
)
def test_exact_reweighting_closes_every_metric(disparity):
    population = toy_descent().tabulated(lambda x: 0.1 + 0.2 * x.sum(axis=1))
    target, baseline = population.populations
    mass, status, trace = descend(target, baseline, disparity)
    assert status is Status.CLOSED
    assert abs(disparity.value(target.reweighted(mass), baseline)) <= 1e-6
    assert mass.sum() == pytest.approx(1, abs=1e-12)
    distance = np.abs(trace.value)
    assert (np.diff(distance) < 0).all()  # no step overshoots so far that it does harm


def test_a_gap_below_zero_is_closed_from_below():
    target, baseline = toy()
    mass, status, trace = descend(baseline, target, FPR)
    assert trace.value[0] < -0.2
    assert status is Status.CLOSED
    assert abs(FPR.value(baseline.reweighted(mass), target)) <= 1e-6


def test_for_sp_one_small_step_points_where_the_projection_goes():
    """Both move mass along the same psi: they differ by the square of the moves only."""
    target = Population.of([0.5, 0.3, 0.2], [0.3, 0.5, 0.9], [0, 0, 0])
    baseline = Population.of([0.499, 0.3, 0.201], [0.3, 0.5, 0.9], [0, 0, 0])
    by_descent, _, _ = descend(target, baseline, SP)
    by_projection, _ = project(target, baseline, SP)
    np.testing.assert_allclose(by_descent, by_projection, atol=1e-5)  # the moves are 1e-3


def test_a_target_gap_is_met_and_named_partly():
    target, baseline = toy()
    mass, status, _ = descend(target, baseline, FPR, target_gap=0.1)
    assert status is Status.PARTLY
    assert FPR.value(target.reweighted(mass), baseline) == pytest.approx(0.1, abs=1e-6)


def test_no_gap_is_nothing_to_do():
    target, _ = toy()
    mass, status, trace = descend(target, target, FPR)
    assert status is Status.NOTHING_TO_DO
    assert mass is target.mass
    assert trace.value.tolist() == [0.0]


def test_where_nothing_moves_the_gap_it_stops_at_once():
    target = Population.of([1, 1], [0.5, 0.5], [0.2, 0.3])
    baseline = Population.of([1], [0.9], [0.2])
    mass, status, trace = descend(target, baseline, SP)
    assert status is Status.STOPPED
    assert len(trace.value) == 1
    assert mass.tolist() == [0.5, 0.5]


# -------------------------------------------------------------------- stopping and the trace


def test_the_papers_rule_stops_when_the_gap_no_longer_shrinks_and_keeps_the_last():
    target, baseline = toy()
    mass, status, trace = descend(target, baseline, FPR, stop="paper", step_size=2.0)
    distance = np.abs(trace.value)
    assert distance[-1] >= distance[-2]
    assert (np.diff(distance[:-1]) < 0).all()
    assert FPR.value(target.reweighted(mass), baseline) == pytest.approx(trace.value[-1], abs=1e-15)
    assert status is Status.STOPPED


def test_the_best_so_far_is_kept_not_the_last():
    """A step far too long swings about 0 without settling."""
    target, baseline = toy()
    mass, _, trace = descend(target, baseline, FPR, stop="never", step_size=2.0, max_iter=30)
    best = np.abs(trace.value).argmin()
    assert best > 0
    kept = FPR.value(target.reweighted(mass), baseline)
    assert kept == pytest.approx(trace.value[best], abs=1e-15)
    assert len(trace.value) == 31


def test_the_trace_counts_the_rows_whose_factor_was_cut():
    target, baseline = toy()
    psi = FPR.influence(target, baseline)
    for step in (0.5, 1.0, 5.0):
        _, _, trace = descend(target, baseline, FPR, stop="never", step_size=step, max_iter=1)
        assert trace.clipped.tolist() == [0, int((1 - step * psi < 0).sum())]
        assert trace.step.tolist() == [0.0, step]
    assert trace.clipped[1] > 0
    _, _, gentle = descend(target, baseline, FPR)
    assert gentle.clipped.sum() == 0
    assert gentle.step.max() <= 0.1


def test_one_step_is_the_papers_update():
    target, baseline = toy()
    mass, _, _ = descend(target, baseline, FPR, stop="never", max_iter=1, step_size=0.05)
    expected = target.mass * (1 - 0.05 * FPR.influence(target, baseline))
    np.testing.assert_allclose(mass, expected / expected.sum(), atol=1e-15)


@pytest.mark.parametrize("disparity", [FPR, Alignment(0.1)], ids=lambda d: d.name)
def test_holdout_that_is_the_audit_data_takes_the_same_course(disparity):
    target, baseline = toy()
    _, _, alone = descend(target, baseline, disparity, max_iter=20)
    _, _, trace = descend(target, baseline, disparity, max_iter=20, holdout=(target, baseline))
    np.testing.assert_allclose(trace.holdout_value, trace.value, atol=1e-12)
    np.testing.assert_allclose(trace.value, alone.value, atol=1e-14)  # watching changes nothing


def test_holdout_data_close_with_the_audit_data():
    audit, held = (toy_descent().sample(50_000, random_state=seed) for seed in (0, 1))
    X, y, s = audit
    for disparity in ("fpr", Alignment(0.1)):
        found = counterfactual(
            toy_descent().decision, X, y, sensitive_features=s, disparity=disparity,
            method="descent", holdout=held, target="target", step_size=0.5,
        )  # fmt: skip
        curve = found.trace.holdout_value
        assert len(curve) == len(found.trace.value)
        assert abs(curve[0] - found.trace.value[0]) < 0.05
        assert abs(curve[-1]) < 0.1 * curve[0]


def test_progress_is_told_of_every_iteration(monkeypatch):
    from contextlib import contextmanager

    told = []

    @contextmanager
    def listening(label, total):
        told.append((label, total))
        yield told.append

    monkeypatch.setattr(descent_module, "progress", listening)
    target, baseline = toy()
    descend(target, baseline, FPR, stop="never", max_iter=3)
    assert told == [("descending", 3), 1, 1, 1]


# -------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("setting", "must", "got"),
    [
        ({"step_size": -1}, "above 0", "got -1"),
        ({"stop": "later"}, "'tolerance', 'paper' or 'never'", "got 'later'"),
        ({"tolerance": -1e-9}, "at least 0", "got -1e-09"),
        ({"max_iter": 0}, "at least 1", "got 0"),
        ({"resample": True}, "False for an exact distribution", "got True"),
    ],
)
def test_settings_that_make_no_sense(setting, must, got):
    with pytest.raises(DataError) as error:
        descend(*example_one().tabulated().populations, FPR, **setting)
    [name] = setting
    assert error.value.what == name
    assert must in error.value.must
    assert error.value.got == got
    assert error.value.fix


def test_a_rate_nobody_has_is_refused():
    target = Population.of([1, 1], [0, 1], [0.5, 0.5])
    never = Population.of([1, 1], [0, 0], [0.5, 0.5])
    with pytest.raises(DataError, match="must be measurable in both groups"):
        descend(target, never, FDR)
