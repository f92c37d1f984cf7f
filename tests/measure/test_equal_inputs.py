"""Do equal inputs get equal decisions? Against enumeration, exact tests, and in simulations."""

from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest, fisher_exact, norm

from fairmend import BlackBox, DataError, counterfactual, counterfactual_data, datasets
from fairmend.measure.equal_inputs import SharedRows


def compared(decision, x, s, *, soft=False, **settings):
    """The comparison for people with recorded decisions, one column of inputs x, and groups s."""
    y = np.arange(len(s)) % 2
    settings = {"target": "a", "baseline": "b"} | settings
    found = counterfactual(
        BlackBox(np.asarray(decision), soft=soft), np.asarray(x)[:, None], y,
        sensitive_features=s, disparity="sp", **settings,
    )  # fmt: skip
    return found.decision_difference


def people(rng, rows, n_a, n_b, difference, *, soft=False):
    """So many people of either group on each row; a's chance of a 1 is higher by the difference."""
    x = np.r_[np.repeat(np.arange(rows), n_a), np.repeat(np.arange(rows), n_b)]
    s = np.repeat(["a", "b"], [rows * n_a, rows * n_b])
    chance = rng.uniform(0.05, 0.65, rows)[x] + difference * (s == "a")
    if soft:
        return np.clip(chance + rng.normal(0, 0.04, len(x)), 0, 1), x, s
    return (rng.random(len(x)) < chance).astype(float), x, s


def loops(decision, x, s):
    """The common difference and the normal test's p-value, row by row, person by person."""
    weights = shifts = excess = variance = 0.0
    for value in sorted(set(x.tolist())):
        a = [h for h, r, g in zip(decision, x, s, strict=True) if r == value and g == "a"]
        b = [h for h, r, g in zip(decision, x, s, strict=True) if r == value and g == "b"]
        if a and b:
            n = len(a) + len(b)
            mean = (sum(a) + sum(b)) / n
            w = len(a) * len(b) / n
            weights, shifts = weights + w, shifts + w * (sum(a) / len(a) - sum(b) / len(b))
            excess += sum(a) - len(a) * mean
            variance += w / (n - 1) * sum((h - mean) ** 2 for h in a + b)
    return shifts / weights, 2 * norm.sf(abs(excess) / variance**0.5)


# -------------------------------------------------------------------- the test


@pytest.mark.parametrize("table", [[[3, 0], [1, 6]], [[2, 5], [4, 4]], [[1, 9], [0, 7]]])
def test_on_one_row_it_is_fishers_exact_test(table):
    (a1, a0), (b1, b0) = table
    decision = np.repeat([1, 0, 1, 0], [a1, a0, b1, b0])
    s = np.repeat(["a", "b"], [a1 + a0, b1 + b0])
    found = compared(decision, np.zeros(len(s)), s)
    assert found.p_value == pytest.approx(fisher_exact(table).pvalue, rel=1e-9)
    assert found.difference == pytest.approx(a1 / (a1 + a0) - b1 / (b1 + b0))


def test_on_pairs_it_is_mcnemars_exact_test():
    """26 rows with one person of each group: 9 favour a, 3 favour b."""
    a, b = np.repeat([1, 0, 1, 0], [9, 3, 8, 6]), np.repeat([0, 1, 1, 0], [9, 3, 8, 6])
    found = compared(np.r_[a, b], np.tile(np.arange(26), 2), np.repeat(["a", "b"], 26))
    assert found.p_value == pytest.approx(binomtest(9, 12).pvalue, rel=1e-9)
    assert found.difference == pytest.approx(6 / 26)
    assert found.differing == pytest.approx(12 / 26)


def test_on_several_rows_it_counts_all_ways_to_hand_out_the_decisions():
    """Every choice of who in a row belongs to a, all equally probable: 10 * 15 * 4 of them."""
    x = np.repeat([0, 1, 2], [5, 6, 4])
    s = np.array(list("aaabbaabbbbabbb"))
    decision = np.array([1, 1, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 0, 0, 0])
    ways = [
        [sum(decision[list(chosen)]) for chosen in combinations(np.flatnonzero(x == value), size)]
        for value, size in ((0, 3), (1, 2), (2, 1))
    ]
    sums = np.array([sum(way) for way in product(*ways)])
    law = np.bincount(sums) / len(sums)
    seen = law[decision[s == "a"].sum()]
    expected = law[law <= seen * (1 + 1e-9)].sum()
    assert compared(decision, x, s).p_value == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("soft", [False, True])
def test_many_people_are_compared_by_the_normal_law(soft):
    rng = np.random.default_rng(0)
    drawn = people(rng, 5, 2_000, 1_500, 0.01, soft=soft)
    found, (difference, p) = compared(*drawn, soft=soft), loops(*drawn)
    assert found.difference == pytest.approx(difference, rel=1e-9)
    assert found.p_value == pytest.approx(p, rel=1e-9)
    assert (found.low <= 0 <= found.high) == (p >= 0.05)


def test_the_exact_law_and_the_normal_one_agree_where_both_serve(monkeypatch):
    drawn = people(np.random.default_rng(3), 4, 120, 90, 0.05)
    assert compared(*drawn).p_value == pytest.approx(loops(*drawn)[1], rel=0.1)
    monkeypatch.setattr("fairmend.measure.equal_inputs.MOST_EXACT", 0)
    assert compared(*drawn).p_value == pytest.approx(loops(*drawn)[1], rel=1e-9)


def drawn_results(shape, difference, *, soft, times=400):
    """Difference, interval and p-value, many times over."""
    rng = np.random.default_rng(1)
    results = []
    for _ in range(times):
        decision, x, s = people(rng, *shape, difference, soft=soft)
        at = [x[s == group] for group in "ab"]
        found = SharedRows.of(at, [np.ones(len(r)) for r in at], [decision[s == g] for g in "ab"])
        results.append((found.difference, *found.interval(), found.p_value()))
    return np.array(results).T


@pytest.mark.parametrize(
    ("rows", "n_a", "n_b", "soft"),
    [(3, 6, 15, False), (150, 1, 1, False), (80, 1, 4, False), (3, 400, 900, False),
     (150, 1, 1, True), (3, 12, 40, True)],
)  # fmt: skip
def test_it_errs_as_often_as_it_says_and_finds_what_there_is(rows, n_a, n_b, soft):
    """400 times: at 5 % 20 +- 4.4 are expected; exact tests of few people err less often."""
    _, low, high, p = drawn_results((rows, n_a, n_b), 0.0, soft=soft)
    assert (p < 0.05).sum() <= 20 + 3 * 4.4
    if rows * n_a > 100:
        assert (p < 0.05).sum() >= 20 - 3 * 4.4
    assert ((low <= 0) & (high >= 0)).sum() >= 380 - 3 * 4.4
    difference, low, high, p = drawn_results((rows, n_a, n_b), 0.25, soft=soft)
    assert abs(difference.mean() - 0.25) < 4 * difference.std() / 20
    assert ((low <= 0.25) & (high >= 0.25)).sum() >= 380 - 3 * 4.4
    least = 0.3 if rows * n_a < 50 and not soft else 0.9
    assert (p < 0.05).mean() > least


def test_the_interval_ends_where_the_test_of_soft_decisions_begins_to_reject():
    decision, x, s = people(np.random.default_rng(0), 6, 9, 20, 0.1, soft=True)
    found = compared(decision, x, s, soft=True)
    for end in (found.low, found.high):
        assert loops(decision - end * (s == "a"), x, s)[1] == pytest.approx(0.05, rel=1e-9)


def test_the_interval_of_hard_decisions_is_satos_inverted():
    """At its ends (D - d)^2 = z^2 (d P + Q) / W^2, with P, Q and W as Sato (1989) writes them."""
    decision, x, s = people(np.random.default_rng(0), 6, 9, 20, 0.1)
    found = compared(decision, x, s)
    P = Q = W = 0.0
    for row in range(6):
        a, b = decision[(x == row) & (s == "a")], decision[(x == row) & (s == "b")]
        n, m, N = len(a), len(b), len(a) + len(b)
        P += (n**2 * b.sum() - m**2 * a.sum() + n * m * (m - n) / 2) / N**2
        Q += (a.sum() * (m - b.sum()) + b.sum() * (n - a.sum())) / (2 * N)
        W += n * m / N
    for end in (found.low, found.high):
        variance = (end * P + Q) / W**2
        assert abs(found.difference - end) / variance**0.5 == pytest.approx(norm.ppf(0.975))


def test_the_interval_is_not_empty_where_everybody_of_a_group_got_one_decision():
    """Klingenberg's: from -1 to -1 + z^2 / (2 w), with w = 10 * 10 / 20."""
    found = compared(np.repeat([0, 1], 10), np.zeros(20), np.repeat(["a", "b"], 10))
    assert (found.difference, found.low) == (-1, -1)
    assert found.high == pytest.approx(-1 + norm.ppf(0.975) ** 2 / 10)


def test_few_soft_decisions_are_not_tested():
    decision = np.array([0.2, 0.4, 0.3, 0.6, 0.1, 0.9])
    found = compared(decision, [0, 0, 0, 0, 1, 1], list("aabbab"), soft=True)
    assert np.isnan(found.p_value)
    assert found.low < found.difference < found.high
    assert "too few to test" in str(found)


# -------------------------------------------------------------------- who is compared


def test_a_model_that_is_asked_sees_nothing_but_its_inputs():
    X, y, s = datasets.example_one().sample(500, random_state=0)
    model = datasets.example_one().decision
    found = counterfactual(model, X, y, sensitive_features=s, disparity="sp").decision_difference
    assert (found.difference, found.low, found.high, found.differing) == (0, 0, 0, 0)
    assert np.isnan(found.p_value)
    assert str(found) == "Equal inputs get equal decisions: the model depends on nothing else"
    exact = counterfactual_data(datasets.example_one().tabulated(), disparity="sp")
    assert str(exact.decision_difference) == str(found)


def test_recorded_decisions_that_follow_the_inputs_are_not_tested():
    found = compared([0, 1, 1, 0, 1], [0, 1, 2, 0, 1], list("aaabb"))
    assert (found.difference, found.low, found.high) == (0, 0, 0)
    assert np.isnan(found.p_value)
    text = str(found)
    assert text.startswith("Equal inputs get equal decisions (")
    assert "66.7 % of the target group and 100.0 % of the reference group" in text


def test_a_few_shared_inputs_say_nothing_about_the_others():
    one_shared = np.r_[np.arange(50), 0, np.arange(50, 99)]
    found = compared(np.arange(100) % 2 * (one_shared > 0), one_shared, ["a"] * 50 + ["b"] * 50)
    assert found.differing == 0
    assert (found.target_share, found.baseline_share) == (0.02, 0.02)
    assert "too rare to judge" in str(found)


def test_where_nobody_has_anothers_inputs_it_cannot_be_told():
    found = compared([0, 1, 1, 0], [0.1, 0.2, 0.3, 0.4], list("aabb"))
    assert np.isnan(found.difference)
    assert (found.target_share, found.baseline_share) == (0, 0)
    assert str(found) == (
        "Whether equal inputs get equal decisions is not known: no inputs of one group occur in "
        "the other"
    )


def test_what_is_found_is_said():
    rng = np.random.default_rng(0)
    text = str(compared(*people(rng, 4, 200, 200, -0.2)))
    assert text.startswith("At equal inputs the target group gets a positive decision ")
    assert " points less often than the reference group ([-" in text
    assert text.endswith(
        ", p < .001; compared: 100.0 % of the target group and 100.0 % of the reference group, "
        "whose inputs both groups have)"
    )
    none = compared([0, 1, 1, 0, 1, 1], np.zeros(6), list("aaabbb"))
    assert str(none).startswith(
        "Equal inputs get different decisions for 100.0 % of the people compared, but are not "
        "shown to favour a group: the target group gets a positive decision 0.0 points less often"
    )


@pytest.fixture
def applicants():
    """Everybody with at least two points, but women with at least three."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({
        "points": rng.integers(0, 5, 400),
        "sex": pd.Categorical(rng.choice(["Female", "Male"], 400)),
        "married": rng.integers(0, 2, 400),
    })  # fmt: skip
    return X, rng.integers(0, 2, 400)


def accepts(rows):
    return (rows["points"] >= np.where(rows["sex"] == "Female", 3, 2)).astype(int)


@pytest.mark.parametrize("named", [True, False])
def test_a_model_that_reads_the_group_is_found_out(applicants, named):
    """Those with two points are decided by sex, the others alike."""
    X, y = applicants
    found = counterfactual(
        accepts, X, y, sensitive_features="sex" if named else list(X["sex"]), disparity="sp"
    ).decision_difference
    rows = 10 * X["points"] + X["married"]
    difference, _ = loops(accepts(X), rows, np.where(X["sex"] == "Female", "a", "b"))
    assert found.beside == ("sex",)
    assert found.difference == pytest.approx(difference, rel=1e-9)
    assert found.low == found.high == found.difference  # no chance is in it, so nothing is tested
    assert np.isnan(found.p_value)
    assert found.differing == pytest.approx((X["points"] == 2).mean())
    text = str(found)
    assert text.startswith("The model reads sex, on which the decision depends for ")
    assert f"{100 * found.differing:.1f} % of the people compared" in text
    assert f"{-100 * difference:.1f} points less often than the reference group" in text
    assert "inputs beside sex" in text


def test_intersections_are_compared_beside_all_that_names_them(applicants):
    X, y = applicants
    found = counterfactual(
        accepts, X, y, sensitive_features=["sex", "married"], disparity="sp",
        target="Female & 1", baseline="Male & 0",
    ).decision_difference  # fmt: skip
    us, them = (
        (X["sex"] == sex) & (X["married"] == married)
        for sex, married in (("Female", 1), ("Male", 0))
    )
    difference, _ = loops(accepts(X), X["points"], np.where(us, "a", np.where(them, "b", "c")))
    assert found.beside == ("sex", "married")
    assert found.difference == pytest.approx(difference, rel=1e-9)


@pytest.mark.parametrize("s", ["sex", ["sex", "married"]])
def test_the_group_is_known_among_the_inputs_where_others_are_taken_together(applicants, s):
    X, y = applicants
    X = X.assign(sex=np.where(np.arange(len(X)) % 3, X["sex"], "Other"))
    found = counterfactual(
        accepts, X, y, sensitive_features=s, disparity="sp", baseline="rest",
        target="Female" if s == "sex" else "Female & 1",
    ).decision_difference  # fmt: skip
    assert found.beside == ((s,) if isinstance(s, str) else tuple(s))
    assert found.target_share == 1
    assert found.difference < 0


def test_what_one_person_alone_has_is_not_taken_for_the_group():
    X = np.random.default_rng(0).normal(size=(40, 2))
    found = counterfactual(
        lambda rows: rows[:, 0] > 0, X, np.arange(40) % 2, disparity="sp",
        sensitive_features=np.where(np.arange(40) == 7, "a", "b"),
    )  # fmt: skip
    assert found.decision_difference.beside == ()


def test_a_model_that_is_given_the_group_and_does_not_use_it_is_not_accused(applicants):
    X, y = applicants
    found = counterfactual(
        lambda rows: (rows["points"] > 1).astype(int), X, y, sensitive_features="sex",
        disparity="sp", target="Female",
    ).decision_difference  # fmt: skip
    assert found.differing == 0
    assert str(found).startswith("Equal inputs beside sex get equal decisions (compared: ")


def test_the_group_may_be_the_only_input():
    X = np.array([[0], [0], [1], [1]])
    found = counterfactual(
        lambda rows: rows[:, 0], X, [0, 1, 0, 1], sensitive_features=list("aabb"), disparity="sp"
    ).decision_difference
    assert (found.difference, found.beside) == (-1, ("x0",))


def test_everybody_else_together_and_weights():
    """Two groups as the rest are as one group; people count alike whatever they weigh."""
    decision, x, s = people(np.random.default_rng(0), 4, 30, 60, 0.1)
    three = np.where(s == "a", "a", np.where(np.arange(len(s)) % 2, "b", "c"))
    merged = compared(decision, x, s)
    assert compared(decision, x, three, baseline="rest") == merged
    assert compared(decision, x, s, sample_weight=np.full(len(s), 7.0)) == merged


def test_it_needs_the_inputs():
    found = counterfactual(
        [0, 1, 1, 0], None, [0, 1, 0, 1], sensitive_features=list("aabb"), disparity="sp"
    )
    assert "equal decisions" not in str(found)
    with pytest.raises(DataError) as error:
        _ = found.decision_difference
    assert str(error.value) == (
        "decision_difference: needs the inputs; only predictions were tabulated. "
        "Pass X with the model's inputs."
    )
