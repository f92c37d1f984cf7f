"""The projection: exact, optimal, and right about what can be reached."""

import numpy as np
import pytest
from scipy.optimize import linprog, minimize
from scipy.special import rel_entr

from fairmend import FDR, FNR, FPR, SP, Alignment, DataError, Population, project
from fairmend.datasets import example_one, toy_descent
from fairmend.explain.projection import observed_gap, reachable, tilt
from fairmend.status import Status

RATES = [SP, FNR, FPR, FDR]


def random_pair(rng, rows=None, soft=None):
    """A target and a baseline on the same rows, with exact probabilities."""
    m = int(rows or rng.integers(3, 9))
    soft = bool(rng.integers(2)) if soft is None else soft
    h = rng.random(m) if soft else rng.permutation(np.arange(m) % 2).astype(float)
    baseline = Population.of(rng.dirichlet(np.ones(m)), h, rng.uniform(0.05, 0.95, m))
    target = Population.of(
        rng.dirichlet(np.ones(m)), h, rng.uniform(0.05, 0.95, m), baseline_mass=baseline.mass
    )
    return target, baseline


def kl(q, p):
    return float(rel_entr(q, p).sum())


def solved_by_slsqp(p, equalities):
    """min KL(q || p) subject to sum q = 1 and f(q) = 0 for each f, by a general solver."""
    one = {"type": "eq", "fun": lambda q: q.sum() - 1, "jac": np.ones_like}
    return minimize(
        lambda q: kl(q, p),
        p,
        jac=lambda q: np.log(np.maximum(q, 1e-300) / p) + 1,
        bounds=[(1e-13, 1)] * len(p),
        constraints=[one, *({"type": "eq", "fun": f} for f in equalities)],
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-14},
    )


# -------------------------------------------------------------------- the paper's examples


def test_example_one_is_closed_at_a_thirteenth_of_the_papers_distance():
    target, baseline = example_one().tabulated().populations
    mass, status = project(target, baseline, FPR)
    assert status is Status.CLOSED
    assert abs(FPR.value(target.reweighted(mass), baseline)) <= 1e-10
    assert kl(mass, target.mass) == pytest.approx(0.061, abs=5e-4)  # three decimals
    printed = np.array([0.50, 0.09, 0.41, 0.00])
    assert kl(printed, target.mass) == pytest.approx(0.82, abs=5e-3)


@pytest.mark.parametrize(
    "disparity", [*RATES, Alignment(), Alignment(0.1), Alignment(3.0)], ids=lambda d: d.name
)
@pytest.mark.parametrize("level", [1.0, 0.75, 0.3, 0.0])
def test_each_disparity_is_closed_to_exactly_the_level(disparity, level):
    target, baseline = toy_descent().tabulated(lambda x: 0.1 + 0.2 * x.sum(axis=1)).populations
    before = disparity.value(target, baseline)
    mass, status = project(target, baseline, disparity, level=level)
    after = disparity.value(target.reweighted(mass), baseline)
    assert abs(after - (1 - level) * before) <= 1e-10
    assert status is (Status.CLOSED if level == 1 else Status.PARTLY)


def test_a_gap_below_zero_is_closed_too():
    target, baseline = example_one().tabulated().populations
    mass, status = project(baseline, target, FPR)
    assert FPR.value(baseline, target) < -0.2
    assert status is Status.CLOSED
    assert abs(FPR.value(baseline.reweighted(mass), target)) <= 1e-10


def test_no_gap_leaves_everything_as_it_is():
    target, _ = example_one().tabulated().populations
    mass, status = project(target, target, [FPR, FNR])
    assert status is Status.NOTHING_TO_DO
    assert mass is target.mass


# -------------------------------------------------------------------- optimality


@pytest.mark.parametrize("seed", range(12))
def test_one_constraint_is_as_close_as_a_general_solver_gets(seed):
    rng = np.random.default_rng(seed)
    for disparity in RATES:
        target, baseline = random_pair(rng)
        mass, status = project(target, baseline, disparity)
        if status is not Status.CLOSED:
            continue
        r, t = disparity.terms(target)
        g = r - disparity.of(baseline) * t
        other = solved_by_slsqp(target.mass, [lambda q, g=g: g @ q])
        assert abs(g @ mass) <= 1e-12
        # SLSQP stops within about 1e-9 of the optimum; it may not be better than exact
        assert kl(mass, target.mass) <= other.fun + 1e-9
        assert other.fun == pytest.approx(kl(mass, target.mass), abs=1e-6)


@pytest.mark.parametrize("seed", range(12))
def test_two_constraints_are_as_close_as_a_general_solver_gets(seed):
    rng = np.random.default_rng(100 + seed)
    closed = 0
    for _ in range(4):
        target, baseline = random_pair(rng, rows=8)
        mass, status = project(target, baseline, [FNR, FPR])
        if status is not Status.CLOSED:
            continue
        closed += 1
        rows = [r - d.of(baseline) * t for d in (FNR, FPR) for r, t in [d.terms(target)]]
        other = solved_by_slsqp(target.mass, [lambda q, g=g: g @ q for g in rows])
        for d in (FNR, FPR):
            assert abs(d.value(target.reweighted(mass), baseline)) <= 1e-10
        assert kl(mass, target.mass) <= other.fun + 1e-9
        if other.success:
            assert other.fun == pytest.approx(kl(mass, target.mass), abs=1e-5)
    assert closed > 0


@pytest.mark.parametrize("level", [1.0, 0.5])
def test_alignment_with_weight_is_as_close_as_a_general_solver_gets(level):
    disparity = Alignment(0.5)
    for seed in range(6):
        target, baseline = random_pair(np.random.default_rng(seed), rows=5, soft=True)
        aim = (1 - level) * disparity.value(target, baseline)
        mass, status = project(target, baseline, disparity, level=level)
        assert status.closed
        if level == 1:  # only P1 has no divergence from P1
            np.testing.assert_allclose(mass, baseline.mass, atol=1e-9)
            continue

        def excess(q, target=target, baseline=baseline, aim=aim):
            return disparity.value(target.reweighted(q / q.sum()), baseline) - aim

        other = solved_by_slsqp(target.mass, [excess])
        assert kl(mass, target.mass) <= other.fun + 1e-7  # derivatives by differences


def test_combinations_are_closed_as_closely_as_a_general_solver_gets():
    """A sum of ratios is not convex in Q, so a few may stay unfound; they must say so."""
    disparity = 0.4 * FNR + 0.6 * FPR
    found = []
    for seed in range(16):
        target, baseline = random_pair(np.random.default_rng(seed), rows=7, soft=True)
        mass, status = project(target, baseline, disparity)
        found.append(status)
        if status is Status.NOT_FOUND:
            continue
        assert abs(disparity.value(target.reweighted(mass), baseline)) <= 1e-10

        def gap(q, target=target, baseline=baseline):
            return disparity.value(target.reweighted(q / q.sum()), baseline)

        other = solved_by_slsqp(target.mass, [gap])
        if other.success:
            assert kl(mass, target.mass) <= other.fun + 1e-6  # derivatives by differences
    assert found.count(Status.CLOSED) >= 13


# -------------------------------------------------------------------- feasibility


def feasible_by_lp(target, baseline, disparities):
    """Is there a q >= 0 with every gap 0 and somebody in every condition?"""
    terms = [d.terms(target) for d in disparities]
    g = np.array([r - d.of(baseline) * t for d, (r, t) in zip(disparities, terms, strict=True)])
    over = -np.array([t for _, t in terms])
    answer = linprog(
        np.zeros(len(target)),
        A_eq=g,
        b_eq=np.zeros(len(g)),
        A_ub=over,
        b_ub=-np.ones(len(over)),
        method="highs",
    )
    return answer.status == 0


@pytest.mark.parametrize(
    ("disparities", "problems"),
    [
        pytest.param([FDR], 500, id="fdr"),
        pytest.param([FPR, FNR], 60, id="fpr and fnr"),
        pytest.param([FDR, FPR], 60, id="fdr and fpr"),
    ],
)
def test_feasibility_agrees_with_a_linear_program(disparities, problems):
    rng = np.random.default_rng(7)
    answers = []
    for _ in range(problems):
        target, baseline = random_pair(rng, rows=4)
        _, status = project(target, baseline, disparities)
        answers.append(status.closed)
        assert status.closed == feasible_by_lp(target, baseline, disparities)
    assert 0.1 <= np.mean(answers) <= 0.9  # both answers were really asked for


def test_a_rate_over_nobody_does_not_count_as_closed():
    """All mass on rows without positive decisions makes FDR 0 / 0, which is not a closed gap."""
    target = Population.of([0.5, 0.3, 0.2], [0, 1, 1], [0.5, 0.4, 0.3])
    baseline = Population.of([0.5, 0.5], [0, 1], [0.5, 0.9])
    mass, status = project(target, baseline, FDR)
    assert status is Status.IRRECONCILABLE
    assert mass.tolist() == [0, 1, 0]  # the row with the least FDR, 0.6 against 0.1
    assert FDR.value(target.reweighted(mass), baseline) == pytest.approx(0.5)


def test_the_infeasible_pair_ends_at_the_least_largest_gap():
    """Against brute force over a simplex grid of step 1/100 on three rows."""
    target = Population.of([0.4, 0.3, 0.3], [0.2, 0.3, 0.4], [0.2, 0.6, 0.5])
    baseline = Population.of([0.5, 0.5], [0.9, 0.8], [0.5, 0.7])
    mass, status = project(target, baseline, [FNR, FPR])
    assert status is Status.IRRECONCILABLE

    def largest(q):
        return max(abs(d.value(target.reweighted(q), baseline)) for d in (FNR, FPR))

    grid = [np.array([i, j, 100 - i - j]) / 100 for i in range(101) for j in range(101 - i)]
    brute = min(map(largest, grid))
    assert largest(mass) <= brute + 1e-6  # the bisection's and the solver's tolerance
    assert largest(mass) >= brute - 0.01  # the grid's own coarseness


def test_the_minimax_point_is_right_for_alignment_in_the_list():
    target = Population.of([0.4, 0.3, 0.3], [0.2, 0.3, 0.4], [0.2, 0.6, 0.5])
    baseline = Population.of([0.5, 0.5], [0.9, 0.8], [0.5, 0.7])
    mass, status = project(target, baseline, [FNR, Alignment()])
    assert status is Status.IRRECONCILABLE

    def largest(q):
        return max(abs(d.value(target.reweighted(q), baseline)) for d in (FNR, Alignment()))

    grid = [np.array([i, j, 100 - i - j]) / 100 for i in range(101) for j in range(101 - i)]
    assert largest(mass) <= min(map(largest, grid)) + 1e-6


@pytest.mark.parametrize("seed", range(3))
def test_reachable_finds_the_largest_support(seed):
    """A row is reachable exactly when a linear program can put mass on it."""
    rng = np.random.default_rng(seed)
    both = 0
    for _ in range(30):
        g = np.round(rng.normal(size=(5, 2)), 1) * 10.0 ** rng.integers(-8, 1, size=(5, 1))
        mask = reachable(g)
        direction = g / np.maximum(np.abs(g).max(axis=1, keepdims=True), 1e-300)
        for row in range(5):
            wanted = np.zeros(5)
            wanted[row] = 1
            alone = linprog(-wanted, A_eq=direction.T, b_eq=[0, 0], bounds=(0, 1))
            assert (mask is not None and mask[row]) == (alone.fun < -1e-9)
        both += mask is not None
    assert 0 < both < 30


# -------------------------------------------------------------------- numbers at their limits


@pytest.mark.parametrize(
    ("mass", "g"),
    [
        ([1, 1e-300], [1, -1]),
        ([1, 1e-300, 1e-200], [1, -1e-8, -1e-3]),
        ([0.3, 0.3, 0.4], [1, 1e-9, -2e-9]),
        ([0.5, 0.5, 1e-12], [1e-12, 1, -1e-12]),
    ],
)
def test_a_tilt_holds_where_masses_nearly_vanish(mass, g):
    p, constraint = np.array(mass) / np.sum(mass), np.array(g, float)[:, None]
    q = tilt(p, constraint)
    assert abs(float(q @ constraint[:, 0])) <= 1e-14 * np.abs(g).max()
    theta = np.polyfit(constraint[q > 0, 0], np.log(p[q > 0] / q[q > 0]), 1)
    np.testing.assert_allclose(  # log(p/q) is linear in g: it is an exponential tilt
        np.polyval(theta, constraint[q > 0, 0]), np.log(p[q > 0] / q[q > 0]), atol=1e-6, rtol=1e-9
    )


def test_tilts_by_two_constraints_hold_over_250_orders_of_magnitude():
    rng = np.random.default_rng(0)
    solved = 0
    for _ in range(60):
        m = int(rng.integers(3, 30))
        g = rng.normal(size=(m, 2)) * 10.0 ** rng.uniform(-6, 0, size=(m, 1))
        p = 10.0 ** rng.uniform(-250, 0, m)
        q = tilt(p / p.sum(), g)
        if q is not None:
            solved += 1
            assert np.abs(q @ g / np.abs(g).max(axis=0)).max() <= 1e-13
    assert solved > 20


def test_rows_without_mass_stay_without():
    q = tilt(np.array([0.5, 0.0, 0.5]), np.array([[1.0], [-5.0], [-1.0]]))
    assert q.tolist() == [0.5, 0.0, 0.5]
    assert tilt(np.array([0.5, 0.0, 0.5]), np.array([[1.0], [-5.0], [1.0]])) is None


def test_alignment_closes_where_the_baseline_always_says_yes():
    """KL is infinite until no mass is left on the other decision."""
    target = Population.of(
        [0.5, 0.3, 0.2], [0, 1, 1], [0, 1, 1], baseline_mass=np.array([0, 1, 1]) / 2
    )
    baseline = Population.of([1, 1], [1, 1], [1, 1])
    for disparity in (Alignment(), Alignment(0.2)):
        assert observed_gap(disparity, target, baseline) == np.inf
        mass, status = project(target, baseline, disparity)
        assert status is Status.CLOSED
        assert disparity.value(target.reweighted(mass), baseline) == pytest.approx(0, abs=1e-12)
    with pytest.raises(DataError) as error:
        project(target, baseline, Alignment(), level=0.5)
    assert str(error.value) == (
        "level: must be 1 where the disparity is infinite; got 0.5 and 'da' without bound. "
        "Close all of it, or use sp, which is finite."
    )


# -------------------------------------------------------------------- what is refused


def test_a_rate_nobody_has_is_refused_by_name():
    target = Population.of([1, 1], [0, 1], [0.5, 0.5])
    never = Population.of([1, 1], [0, 0], [0.5, 0.5])
    for pair in ((target, never), (never, target)):
        with pytest.raises(DataError) as error:
            project(*pair, FDR)
        assert str(error.value) == (
            "disparity 'fdr': must be measurable in both groups; in one of them nobody meets its "
            "condition. Choose another disparity, or other groups."
        )


def test_what_cannot_be_closed_together_is_refused():
    target, baseline = example_one().tabulated().populations
    with pytest.raises(DataError) as error:
        project(target, baseline, [FPR, Alignment(0.5)])
    assert str(error.value) == (
        "disparity: must be a rate gap or Alignment() to be closed together with others; "
        "got 'da(0.5)'. Ask for it alone, or use method='descent'."
    )
    with pytest.raises(DataError) as error:
        project(target, baseline, FPR + Alignment(0.5))
    assert str(error.value) == (
        "disparity: must not hold Alignment with weight in a combination to be projected; "
        "got '1 fpr + 1 da(0.5)'. Use method='descent'."
    )


def test_disparities_go_by_their_names():
    target, baseline = example_one().tabulated().populations
    by_name, _ = project(target, baseline, "fpr")
    np.testing.assert_array_equal(by_name, project(target, baseline, FPR)[0])
