"""Every influence function against finite differences, the paper's closed forms, and its examples.

The populations are drawn by hypothesis: 2 to 12 rows, masses up to a thousandfold apart, hard and
soft decisions, outcomes that may be certain.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fairmend import FDR, FNR, FPR, SP, Alignment, DataError, Population, RateGap, audit_data
from fairmend.datasets import example_one
from fairmend.measure.disparity import as_disparity
from fairmend.measure.population import Tally

FOR = RateGap("for", rate=lambda h, y: (1 - h) * y, given=lambda h, y: 1 - h)
RATES = [SP, FNR, FPR, FDR, FOR]
DISPARITIES = [
    *RATES,
    Alignment(),
    Alignment(0.7),
    0.5 * FNR + 0.5 * FPR,
    0.3 * FDR + 2 * Alignment(0.2) + -1.5 * SP,
]

MASS = st.floats(1e-3, 1)
HARD = st.sampled_from([0.0, 1.0])
SOFT = HARD | st.floats(0.05, 0.95)


@st.composite
def pairs(draw):
    """A target and a baseline on the same rows, the target perhaps reweighted."""
    rows = draw(st.integers(2, 12))
    decision = draw(st.sampled_from([HARD, SOFT]))

    def column(values):
        return np.array(draw(st.lists(values, min_size=rows, max_size=rows)))

    h = column(decision)
    baseline = Population.of(column(MASS), h, column(SOFT))
    target = Population.of(column(MASS), h, column(SOFT), baseline_mass=baseline.mass)
    if draw(st.booleans()):
        mass = target.mass * column(st.floats(0.1, 1))
        target = target.reweighted(mass / mass.sum())
    for population in (target, baseline):  # every rate is over somebody, and decisions vary
        for rate in RATES:
            assume(rate.terms(population)[1].any())
        assume(0 < population.decision @ population.mass < 1 - 1e-9)
    return target, baseline


def derivative(function, population):
    """d/de function((1-e) P + e delta_x) at e = 0, for every row x.

    Central differences, extrapolated once (Richardson), so that the error is of fourth order in
    the step over the smallest denominator. Denominators are at least 0.05 of the smallest mass and
    the step is 1/1000 of that mass: about (1/50)^4 / 4 = 4e-8 of the derivative. Rounding adds
    1e-15 over the step, which is 1e-8 or more: 1e-7 at most.
    """
    step = population.mass.min() / 1000

    def moved(row, e):
        mass = (1 - e) * population.mass
        mass[row] += e
        return function(population.reweighted(mass))

    def slope(row, e):
        return (moved(row, e) - moved(row, -e)) / (2 * e)

    return np.array(
        [(4 * slope(row, step / 2) - slope(row, step)) / 3 for row in range(len(population))]
    )


def assert_same_influence(ours, differences, name):
    """Equal to 1e-6, in units of the largest influence where that is above 1."""
    atol = 1e-6 * max(1.0, np.abs(ours).max())
    np.testing.assert_allclose(ours, differences, rtol=0, atol=atol, err_msg=name)


@given(pair=pairs())
def test_influence_is_the_derivative_of_the_value(pair):
    target, baseline = pair
    for disparity in DISPARITIES:
        differences = derivative(lambda moved, d=disparity: d.value(moved, baseline), target)
        assert_same_influence(disparity.influence(target, baseline), differences, disparity.name)


@given(pair=pairs())
def test_baseline_influence_is_the_derivative_in_the_baseline(pair):
    target, baseline = pair
    for disparity in DISPARITIES:
        differences = derivative(lambda moved, d=disparity: d.value(target, moved), baseline)
        ours = disparity.baseline_influence(target, baseline)
        assert_same_influence(ours, differences, disparity.name)


@given(pair=pairs())
def test_influence_has_mean_zero(pair):
    target, baseline = pair
    for disparity in DISPARITIES:
        for psi, mass in (
            (disparity.influence(target, baseline), target.mass),
            (disparity.baseline_influence(target, baseline), baseline.mass),
        ):
            # Rounding of at most 12 terms, each at most max |psi|.
            atol = 1e-13 * max(1, np.abs(psi).max())
            np.testing.assert_allclose(psi @ mass, 0, atol=atol, err_msg=disparity.name)


@given(pair=pairs(), weights=st.tuples(st.floats(-2, 2), st.floats(-2, 2)))
def test_combination_is_linear(pair, weights):
    a, b = weights
    combined = a * FNR + b * Alignment(0.5)
    for of in ("value", "influence", "baseline_influence"):
        apart = a * getattr(FNR, of)(*pair) + b * getattr(Alignment(0.5), of)(*pair)
        np.testing.assert_allclose(getattr(combined, of)(*pair), apart, rtol=1e-12, atol=1e-12)


def test_combinations_of_combinations_are_flat():
    nested = 2 * (0.5 * FNR + SP) + FPR
    assert nested.parts == ((1.0, FNR), (2.0, SP), (1.0, FPR))
    assert nested.name == "1 fnr + 2 sp + 1 fpr"


@given(pair=pairs())
def test_closed_forms_of_proposition_4(pair):
    """The paper's formulas, written out from its text; s(x) is P(S=1 | x) for P(S=1) = 0.3."""
    target, baseline = pair
    p0, p1, h, y0 = target.mass, target.baseline_mass, target.decision, target.outcome

    def mean(values):
        return float(np.sum(p0 * values))

    mu, mu_hat, mu_hat1 = mean(y0), mean(h), float(np.sum(baseline.mass * h))
    gamma01, gamma10 = mean((1 - h) * y0) / mu, mean(h * (1 - y0)) / (1 - mu)
    nu01 = mean(h * (1 - y0)) / mu_hat
    s = 0.3 * p1 / (0.3 * p1 + 0.7 * p0)
    odds = np.log(mu_hat * (1 - mu_hat1) / ((1 - mu_hat) * mu_hat1))
    proxy = np.log((1 - s) / s)
    paper = {
        SP: -h + mu_hat,
        FDR: (h * (1 - y0) - nu01 * h) / mu_hat,
        FNR: ((1 - h) * y0 - gamma01 * y0) / mu,
        FPR: (h * (1 - y0) - gamma10 * (1 - y0)) / (1 - mu),
        Alignment(0.7): odds * h + 0.7 * proxy - mu_hat * odds - 0.7 * mean(proxy),
    }
    for disparity, psi in paper.items():
        # Two orders of the same sums differ by rounding; 1 - s near 0 costs some digits more.
        ours = disparity.influence(target, baseline)
        np.testing.assert_allclose(ours, psi, rtol=1e-8, atol=1e-8, err_msg=disparity.name)


@st.composite
def tallies(draw):
    """Two groups of people, weighted or not, as they are tabulated."""
    rows = draw(st.integers(1, 8))
    h = np.array(draw(st.lists(SOFT, min_size=rows, max_size=rows)))

    def population():
        people = np.array(
            draw(st.lists(st.integers(0, 9), min_size=2 * rows, max_size=2 * rows)), float
        ).reshape(rows, 2)
        assume((people.sum(axis=1) > 0).all())
        weight = people * draw(st.sampled_from([1.0, 0.25, 3.0]))
        if draw(st.booleans()):
            weight = weight * np.linspace(0.5, 2, 2 * rows).reshape(rows, 2)
        total = weight.sum(axis=1)
        tally = Tally(people, weight, weight**2)
        return Population(total / total.sum(), h, weight[:, 1] / total, tally=tally)

    return population(), population()


@pytest.mark.parametrize(
    "disparity", [*RATES, Alignment(), 0.5 * FNR + 2 * SP], ids=lambda d: d.name
)
@given(pair=tallies())
def test_observed_people_have_the_value_and_mean_influence_of_their_rows(disparity, pair):
    target, baseline = pair
    seen, seen_baseline = target.observed, baseline.observed
    assume(np.isfinite(disparity.value(target, baseline)))
    np.testing.assert_allclose(
        disparity.value(seen, seen_baseline), disparity.value(target, baseline), atol=1e-12
    )
    assert set(seen.outcome) <= {0.0, 1.0}
    row = np.repeat(np.arange(len(target)), (target.tally.people > 0).sum(axis=1))
    psi = disparity.influence(seen, seen_baseline) * seen.mass
    by_row = np.bincount(row, psi) / target.mass
    ours = disparity.influence(target, baseline)
    np.testing.assert_allclose(by_row, ours, atol=1e-12 * max(1, np.abs(ours).max()))


# -------------------------------------------------------------------- the paper's Example 1


def test_example_one_audit_is_the_papers():
    audited = audit_data(example_one().tabulated())["fpr", "target"]
    assert f"{100 * audited.gap:.1f}" == "25.1"
    assert (audited.low, audited.high) == (audited.gap, audited.gap)
    assert audited.note == "exact"


def test_example_one_gets_worse_with_the_baselines_inputs():
    data = example_one().tabulated()
    moved = data["target"].reweighted(data["baseline"].mass)
    audited = audit_data(replace(data, populations=(moved, data["baseline"])))["fpr", "target"]
    assert f"{100 * audited.gap:.1f}" == "43.6"


# -------------------------------------------------------------------- edges


@pytest.mark.parametrize("always", [0.0, 1.0])
def test_alignment_where_everybody_gets_one_decision(always):
    target = Population.of([13, 25], [always, always], [0.2, 0.8])
    baseline = Population.of([0.1, 0.2, 0.3], [always] * 3, [0.2, 0.8, 0.5])
    assert Alignment().value(target, baseline) == 0  # the masses as summed are not quite 1
    assert not Alignment().influence(target, baseline).any()
    assert not Alignment().baseline_influence(target, baseline).any()


def test_alignment_where_only_the_baseline_gets_one_decision_is_infinite():
    mixed = Population.of([1, 1], [0, 1], [0, 1])
    never = Population.of([1, 1], [0, 0], [0, 1])
    assert Alignment().value(mixed, never) == np.inf
    assert Alignment().value(never, mixed) == pytest.approx(np.log(2), abs=1e-15)


def test_alignment_of_inputs_needs_the_baselines_mass():
    one = Population.of([1, 1], [0, 1], [0, 1])
    with pytest.raises(DataError, match="baseline_mass"):
        Alignment(0.5).value(one, one)


@pytest.mark.parametrize("weight", [-1, np.nan, np.inf])
def test_alignment_weight_is_checked(weight):
    with pytest.raises(DataError, match="at least 0"):
        Alignment(weight)


def test_rate_over_nobody_is_unknown_and_has_no_influence():
    nobody_positive = Population.of([1, 1], [0, 1], [0, 0])
    assert np.isnan(FNR.of(nobody_positive))
    with pytest.raises(DataError, match="nobody in the group"):
        FNR.influence(nobody_positive, nobody_positive)


def test_condition_may_be_a_plain_one():
    errors = RateGap("errors", lambda h, y: h * (1 - y) + (1 - h) * y, lambda h, y: 1)
    population = Population.of([1, 3], [0, 1], [0.5, 0.8])
    assert errors.of(population) == pytest.approx((0.5 + 3 * 0.2) / 4, abs=1e-15)


@pytest.mark.parametrize(
    ("rate", "given", "complaint"),
    [
        (lambda h, y: h, lambda h, y: y, "rate <= given"),
        (lambda h, y: -h, lambda h, y: 1, "rate <= given"),
        (lambda h, y: h, lambda h, y: 2, "given <= 1"),
        (lambda h, y: h * y**2, lambda h, y: 1, "linear in y"),
    ],
)
def test_what_is_no_rate_is_refused_when_it_is_defined(rate, given, complaint):
    with pytest.raises(DataError, match=complaint):
        RateGap("odd", rate, given)


def test_names_are_known_whatever_their_case():
    assert as_disparity("FPR") is FPR
    assert as_disparity(FOR) is FOR
    with pytest.raises(DataError, match="Did you mean 'fnr'"):
        as_disparity("fnrr")
    with pytest.raises(DataError, match="must be one of"):
        as_disparity(3)


ODDS = "Equalized odds is 'fnr' and 'fpr' together, equal opportunity is 'fnr'."


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        (
            "equalized_odds",
            ODDS,
        ),
        ("EO", ODDS),
        ("equal opportunity", "Say 'fnr'."),
        ("disparate-impact", "Say 'sp'."),
        ("predictive_equality", "Say 'fpr'."),
        ("predictive_parity", "Say 'fdr'."),
    ],
)
def test_names_from_elsewhere_are_translated(name, hint):
    with pytest.raises(DataError) as error:
        as_disparity(name)
    assert str(error.value).endswith(f"; got {name!r}. {hint}")
