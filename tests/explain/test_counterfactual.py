"""The front door: real data, groups, settings, and what a Counterfactual says of itself."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chisquare
from sklearn.linear_model import LogisticRegression

from fairmend import (
    FNR,
    FPR,
    SP,
    Alignment,
    BlackBox,
    DataError,
    audit,
    counterfactual,
    counterfactual_data,
    datasets,
    tabulate,
)
from fairmend.datasets import example_one, toy_descent
from fairmend.status import Status

DISPARITIES = ["sp", "fnr", "fpr", "fdr", Alignment(), Alignment(0.1)]


@pytest.fixture(scope="module", params=["adult", "compas"])
def split(request):
    """A model fitted on 30 % and the 50 % to audit it on."""
    bunch = getattr(datasets, f"load_{request.param}")("numpy")
    order = np.random.default_rng(0).permutation(len(bunch.y))
    train, audited = np.split(order, [int(0.3 * len(order)), int(0.8 * len(order))])[:2]
    model = LogisticRegression(C=100, max_iter=1_000).fit(bunch.X[train], bunch.y[train])
    return model, bunch.X[audited], bunch.y[audited], bunch.sensitive_features[audited]


@pytest.mark.parametrize("disparity", DISPARITIES, ids=str)
@pytest.mark.parametrize("soft", [False, True], ids=["hard", "soft"])
def test_the_embedded_data_are_closed_exactly_and_by_descent(split, disparity, soft):
    model, X, y, s = split
    box = BlackBox(model, soft=soft)
    projected = counterfactual(box, X, y, sensitive_features=s, disparity=disparity)
    assert projected.status is Status.CLOSED
    assert projected.before > 0.01
    assert abs(projected.after) <= 1e-10
    assert not projected.irreconcilable
    descended = counterfactual(
        box, X, y, sensitive_features=s, disparity=disparity, method="descent"
    )
    assert descended.status is Status.CLOSED
    assert abs(descended.after) <= 1e-6
    # nothing that closes the gap is closer than the projection; the descent leaves up to 1e-6 of
    # it, which for alignment, quadratic in the shift, may be 1 % of the way
    assert projected.kl <= descended.kl * 1.001 or isinstance(disparity, Alignment)
    assert descended.kl >= 0.98 * projected.kl


@pytest.mark.parametrize("disparity", DISPARITIES, ids=str)
@pytest.mark.parametrize("level", [0.25, 0.8])
def test_part_of_a_gap_is_closed_exactly(split, disparity, level):
    model, X, y, s = split
    settings = {
        "sensitive_features": s, "disparity": disparity, "level": level,
        "outcome_model": "empirical", "group_model": "empirical",
    }  # fmt: skip
    found = counterfactual(model, X, y, **settings)
    assert abs(found.after - (1 - level) * found.before) <= 1e-10
    assert found.status is Status.PARTLY
    by_descent = counterfactual(model, X, y, **settings, method="descent")
    assert abs(by_descent.after - (1 - level) * found.before) <= 1e-6
    assert by_descent.status is Status.PARTLY


def test_equalised_odds_are_two_constraints(split):
    model, X, y, s = split
    found = counterfactual(model, X, y, sensitive_features=s, disparity=["fnr", "fpr"])
    assert found.status is Status.CLOSED
    for disparity in (FNR, FPR):
        assert abs(disparity.value(found.shifted, found.baseline)) <= 1e-10
    assert found.certificate is None
    assert "fnr, fpr, by projection" in str(found)


def test_sp_before_is_the_audits_gap(split):
    model, X, y, s = split
    found = counterfactual(model, X, y, sensitive_features=s, disparity="sp")
    row = audit(model, X, y, sensitive_features=s)["sp", found.target_name]
    assert found.before == pytest.approx(row.gap, abs=1e-12)


# -------------------------------------------------------------------- the measures


def test_distances_against_their_formulas():
    found = counterfactual_data(example_one().tabulated(), disparity=FPR)
    p, q = found.source.mass, found.mass
    assert found.kl == pytest.approx(float((q * np.log(q / p)).sum()), abs=1e-15)
    assert found.chi_square == pytest.approx(float(((q - p) ** 2 / p).sum()), abs=1e-15)
    assert np.isnan(found.effective_sample_size)  # an exact distribution has no people


def people(n=5_000, seed=0):
    X, y, s = example_one().sample(n, random_state=seed)
    return {"X": X, "y": y, "sensitive_features": s}


def found_for(disparity="fpr", **settings):
    return counterfactual(example_one().decision, **people(), disparity=disparity, **settings)


def test_the_effective_sample_size_is_kishs():
    found = found_for()
    ratio = found.mass / found.source.mass
    weights = np.repeat(ratio, found.source.tally.people.sum(axis=1).astype(int))
    assert found.effective_sample_size == pytest.approx(
        weights.sum() ** 2 / (weights**2).sum(), rel=1e-12
    )
    assert found.effective_sample_size == pytest.approx(
        found.source.n / (1 + found.chi_square), rel=1e-12
    )


def test_the_effective_sample_size_counts_unequal_weights():
    data = people()
    weight = np.random.default_rng(0).uniform(0.5, 3, len(data["y"]))
    found = counterfactual(
        example_one().decision, **data, disparity="fpr", sample_weight=weight,
        outcome_model="empirical",
    )  # fmt: skip
    row = data["X"] @ [2, 1]
    target = data["sensitive_features"] == found.target_name
    ratio = found.mass / found.source.mass
    w = weight[target] * ratio[row[target]]
    assert found.effective_sample_size == pytest.approx(w.sum() ** 2 / (w**2).sum(), rel=1e-9)


def test_a_sample_is_drawn_from_q():
    found = found_for()
    drawn = found.sample(40_000, random_state=0)
    assert drawn.shape == (40_000, 2)
    counts = np.bincount(drawn @ [2, 1], minlength=4)
    assert chisquare(counts, 40_000 * found.mass).pvalue > 1e-4
    assert (found.sample(50, random_state=1) == found.sample(50, random_state=1)).all()
    one = found.sample(3, random_state=np.random.default_rng(5))
    assert one.shape == (3, 2)


def test_a_sample_comes_in_the_container_of_the_inputs():
    data = people()
    data["X"] = pd.DataFrame(data["X"], columns=["p", "q"])
    found = counterfactual(
        lambda rows: (rows["q"] == 1).astype(int), **data, disparity="sp", target="target"
    )
    assert found.sample(5, random_state=0).columns.tolist() == ["p", "q"]


def test_it_says_what_it_is():
    found = found_for()
    lines = str(found).splitlines()
    assert lines[:2] == [
        "Counterfactual distribution for target against baseline, fpr, by projection",
        "The gap is closed.",
    ]
    assert lines[2].startswith("fpr: +2")
    assert lines[2].endswith(" points modelled, 0.00 under the counterfactual")
    assert lines[3].startswith("4 distinct rows, KL 0.0")
    assert lines[4].startswith(
        "The gap can be closed: some distribution over these inputs takes it"
    )
    assert lines[5] == "Equal inputs get equal decisions: the model depends on nothing else."
    assert lines[6].startswith("P(Y=1 | x, target): l2 logistic regression, cross-fitted AUC 0.")


def test_gaps_are_called_modelled_where_they_ask_for_outcomes_that_are():
    first, second = (line.split(",")[0] for line in str(found_for(["sp", "fpr"])).splitlines()[2:4])
    assert first.startswith("sp: ")
    assert first.endswith(" points observed")
    assert second.startswith("fpr: ")
    assert second.endswith(" points modelled")
    exact = counterfactual_data(example_one().tabulated(), disparity="fpr")
    assert " points observed, " in str(exact), "an exact distribution is taken as it is"


# -------------------------------------------------------------------- groups


def three_groups():
    rng = np.random.default_rng(0)
    s = np.repeat(["low", "mid", "high"], 300)
    X = (rng.random(900) < np.repeat([0.2, 0.5, 0.8], 300)).astype(int)[:, None]
    return X, rng.integers(0, 2, 900), s


def test_the_worst_and_the_best_off_are_compared_unless_named():
    X, y, s = three_groups()

    def pair(**named):
        found = counterfactual(
            lambda rows: rows[:, 0], X, y, sensitive_features=s, disparity="sp", **named
        )
        return found.target_name, found.baseline_name

    assert pair() == ("low", "high")
    assert pair(target="mid") == ("mid", "high")
    assert pair(baseline="mid") == ("low", "mid")
    assert pair(target="high") == ("high", "mid")
    assert pair(target="high", baseline="low") == ("high", "low")
    assert pair(baseline="rest") == ("low", "rest")


def test_the_rest_is_everybody_else():
    X, y, s = three_groups()
    found = counterfactual(
        lambda rows: rows[:, 0], X, y, sensitive_features=s, disparity=[SP], baseline="rest"
    )
    expected = X[s != "low"].mean() - X[s == "low"].mean()
    assert found.before == pytest.approx(expected, abs=1e-12)
    assert abs(found.after) <= 1e-10
    aligned = counterfactual(
        lambda rows: 0.2 + 0.5 * rows[:, 0], X, y, sensitive_features=s,
        disparity=Alignment(0.5), baseline="rest",
    )  # fmt: skip
    assert abs(aligned.after) <= 1e-10


def test_alignment_estimates_the_baselines_masses():
    """On a support of four rows s(x) is all but saturated: P1 comes back to sampling error."""
    X, y, s = example_one().sample(100_000, random_state=0)
    found = counterfactual(
        lambda rows: 0.2 + 0.5 * rows[:, 1], X, y, sensitive_features=s,
        disparity=Alignment(1.0), target="target", group_model="empirical",
    )  # fmt: skip
    np.testing.assert_allclose(found.mass, found.baseline.mass, atol=1e-5)
    assert found.group_model.kind == "observed shares"
    assert found.outcome_model is None


# -------------------------------------------------------------------- models of the outcome


def test_the_outcome_model_is_fitted_only_where_it_is_used():
    assert found_for("sp").outcome_model is None
    assert found_for("da").outcome_model is None
    assert found_for("fnr").outcome_model is not None
    assert found_for(0.5 * SP + 0.5 * FNR).outcome_model is not None


def test_the_target_is_modelled_and_the_baseline_observed():
    found = found_for(outcome_model="empirical")
    data = tabulate(example_one().decision, **people())
    np.testing.assert_allclose(found.source.outcome, data["target"].outcome, atol=1e-12)
    assert found.baseline.outcome.tolist() == data["baseline"].outcome.tolist()


def test_weights_turn_the_observed_people_into_the_counterfactual():
    arguments = people()
    found = found_for()
    weights, X, s = found.weights(), arguments["X"], arguments["sensitive_features"]
    assert set(weights[s == "baseline"]) == {1.0}
    table = found.table.native
    for row, mass in zip(table, found.mass, strict=True):
        here = (s == "target") & (row == X).all(axis=1)
        share = weights[here].sum() / (s == "target").sum()
        np.testing.assert_allclose(share, mass, atol=1e-12)  # sums of a few thousand floats


def test_who_has_weight_0_is_left_out_and_keeps_a_place_among_the_people():
    arguments = people()
    absent = np.arange(len(arguments["y"])) % 3 == 0
    more = {"disparity": "fpr", "outcome_model": "empirical"}
    found = counterfactual(example_one().decision, **arguments, sample_weight=1.0 - absent, **more)
    present = counterfactual(
        example_one().decision, **{name: part[~absent] for name, part in arguments.items()}, **more
    )
    assert found.source.n == present.source.n
    assert found.effective_sample_size == present.effective_sample_size
    np.testing.assert_array_equal(found.mass, present.mass)
    np.testing.assert_array_equal(found.weights()[~absent], present.weights())
    assert set(found.weights()[absent]) == {1.0}


def test_weights_need_the_people():
    found = counterfactual_data(example_one().tabulated(), disparity="fpr")
    with pytest.raises(DataError) as error:
        found.weights()
    assert str(error.value) == (
        "weights(): needs the audited people; this counterfactual was made from tabulated data. "
        "Call fairmend.counterfactual() on the data itself."
    )


# -------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("settings", "what", "got"),
    [
        ({"method": "guess"}, "method", "got 'guess'"),
        ({"level": 1.5}, "level", "got 1.5"),
        ({"level": "half"}, "level", "got 'half'"),
        ({"step_size": 0.1, "resample": True}, "method='projection'", "got resample, step_size"),
        ({"method": "descent", "stepsize": 0.1}, "settings of the descent", "got 'stepsize'"),
        ({"disparity": ["fnr", "fpr"], "method": "descent"}, "disparity", "got 2"),
        ({"disparity": []}, "disparity", "got none"),
        ({"target": "target", "baseline": "target"}, "baseline", "both are 'target'"),
        ({"target": "Target"}, "target", "got 'Target'"),
        ({"method": "descent", "holdout": 3}, "holdout", "got int"),
    ],
)
def test_settings_that_make_no_sense(settings, what, got):
    with pytest.raises(DataError) as error:
        found_for(**settings)
    assert (error.value.what, error.value.got) == (what, got)
    assert error.value.must.startswith(("must", "has no"))
    assert error.value.fix


@pytest.mark.parametrize("n", [0, -3, 2.5, "ten", True])
def test_a_sample_of_no_rows_is_refused(n):
    with pytest.raises(DataError) as error:
        found_for("sp").sample(n)
    assert str(error.value) == (
        f"n: must be a whole number of rows, at least 1; got {n!r}. "
        "For example sample(1000, random_state=0)."
    )


def test_a_rate_nobody_in_the_baseline_has_is_refused():
    X = np.array([[0], [1], [0], [0]] * 20)
    with pytest.raises(DataError) as error:
        counterfactual(
            lambda rows: rows[:, 0], X, [0, 1, 1, 0] * 20, sensitive_features=list("aabb") * 20,
            disparity="fdr", target="a", baseline="b", outcome_model="empirical",
        )  # fmt: skip
    assert str(error.value) == (
        "disparity 'fdr': must be measurable in both groups; in one of them nobody meets its "
        "condition. Choose another disparity, or other groups."
    )
    with pytest.raises(DataError, match="must have two groups in which fdr can be measured"):
        counterfactual(
            lambda rows: rows[:, 0], X, [0, 1, 1, 0] * 20, sensitive_features=list("aabb") * 20,
            disparity="fdr",
        )  # fmt: skip


@pytest.mark.parametrize(("target", "pair"), [(None, ("b", "a")), ("few", ("few", "a"))])
def test_a_group_too_small_to_be_compared_is_neither_worst_nor_best_unless_named(target, pair):
    """As in an audit: four people, all refused, are not the worst-off by chance."""
    X = np.r_[np.tile([[0], [1]], (100, 1)), np.tile([[0], [0], [1]], (100, 1)), np.zeros((4, 1))]
    s = np.repeat(["a", "b", "few"], [200, 300, 4])
    y = np.arange(len(X)) % 2
    found = counterfactual(lambda rows: rows[:, 0], X, y, sensitive_features=s, disparity="sp",
                           target=target)  # fmt: skip
    assert (found.target_name, found.baseline_name) == pair


@pytest.mark.parametrize("disparity", ["fnr", Alignment(0.1)], ids=str)
def test_recorded_predictions_without_inputs_are_refused_where_inputs_are_needed(disparity):
    with pytest.raises(DataError, match=r"^X: must hold the model's inputs; only predictions"):
        counterfactual(
            np.array([0, 1, 0, 1, 1, 1]), None, [0, 1, 0, 1, 0, 1],
            sensitive_features=list("aaabbb"), disparity=disparity, target="a",
        )  # fmt: skip


def test_without_inputs_sp_can_still_be_closed_but_not_sampled():
    found = counterfactual(
        np.array([0, 1, 0, 1, 1, 0]), None, [0, 1, 0, 1, 0, 1],
        sensitive_features=list("aaabbb"), disparity="sp",
    )  # fmt: skip
    assert abs(found.after) <= 1e-10
    with pytest.raises(DataError, match=r"^sample\(\): needs the inputs"):
        found.sample(3)


def test_the_papers_example_by_both_methods():
    data = toy_descent().tabulated()
    projected = counterfactual_data(data, disparity="fpr", target="target")
    descended = counterfactual_data(data, disparity="fpr", target="target", method="descent")
    assert projected.trace is None
    assert len(descended.trace.value) > 2
    assert projected.kl < descended.kl
