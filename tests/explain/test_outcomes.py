"""Models of the outcome: held out, clipped, honest about being weak, with errors that are right."""

import os
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from fairmend import DataError, FairmendWarning
from fairmend.data.columns import Frame
from fairmend.explain import crossfit, logistic
from fairmend.explain.crossfit import (
    CLIP,
    CrossFitData,
    ModelChoice,
    logistic_model,
    pair_model,
    possible_gain,
    tree_model,
)
from fairmend.explain.logistic import LogisticFits
from fairmend.explain.outcomes import empirical, fit_probability
from fairmend.explain.trees import BoostedTrees
from fairmend.measure.population import Tally


def counted(X, y, weight=None):
    """Distinct rows and who was seen on them."""
    rows, row = np.unique(X, axis=0, return_inverse=True)
    tables = [np.zeros((len(rows), 2)) for _ in range(3)]
    weight = np.ones(len(y)) if weight is None else weight
    for table, values in zip(tables, (np.ones(len(y)), weight, weight**2), strict=True):
        np.add.at(table, (row.ravel(), y), values)
    return Frame.read(rows), Tally(*tables)


def logistic_people(n=4_000, seed=0, bits=6):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 2, (n, bits))
    p = expit(X @ np.linspace(-1.5, 1.5, bits) - 0.3)
    return X, (rng.random(n) < p).astype(int)


def truth(rows, bits=6):
    return expit(np.asarray(rows) @ np.linspace(-1.5, 1.5, bits) - 0.3)


def fit(X, y, estimator="logistic", weight=None, **settings):
    return fit_probability(
        *counted(X, y, weight), what="P(Y=1 | x)", estimator=estimator, **settings
    )


# -------------------------------------------------------------------- held out


class Remembers(KNeighborsClassifier):
    """Knows by heart what it has seen."""

    def __init__(self):
        super().__init__(n_neighbors=1)


@pytest.mark.filterwarnings("ignore::fairmend.FairmendWarning")
def test_nobody_is_judged_by_a_model_that_saw_their_row():
    """One nearest neighbour is perfect on what it saw and worthless on noise it did not."""
    rng = np.random.default_rng(0)
    X, y = np.arange(1_000)[:, None], rng.integers(0, 2, 1_000)
    fitted = fit(X, y, Remembers())
    assert abs(fitted.auc - 0.5) < 0.06  # 3 standard errors of an AUC of 1,000 people
    assert fitted.predict(Frame.read(X))[0] == pytest.approx(y[0], abs=2 * CLIP)  # it does know


@pytest.mark.filterwarnings("ignore::fairmend.FairmendWarning")
def test_a_category_of_noise_with_many_values_teaches_nothing():
    """In sample, a column a value would explain most of the outcomes."""
    rng = np.random.default_rng(0)
    names = np.array([f"person {i}" for i in range(90)])
    y = rng.integers(0, 2, 90)
    seen = np.eye(2)[y]
    table = Frame.read(pd.DataFrame({"name": names}))
    fitted = fit_probability(table, Tally(seen, seen, seen), what="P(Y=1 | x)")
    assert fitted.auc < 0.6
    assert not fitted.log_loss < fitted.base_log_loss


def test_on_a_small_support_the_people_of_a_row_are_split():
    """Four rows of 500 people: every row's own people inform it, but not about themselves."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, 2_000)[:, None]
    y = (rng.random(2_000) < np.array([0.1, 0.8, 0.3, 0.6])[X[:, 0]]).astype(int)
    fitted = fit(X, y, DecisionTreeClassifier())
    np.testing.assert_allclose(fitted.probability, [0.1, 0.8, 0.3, 0.6], atol=0.08)


@pytest.mark.filterwarnings("ignore::fairmend.FairmendWarning")
def test_a_lone_person_does_not_inform_their_own_row():
    """Row 1 has one person with y = 1, the others y = 0: memory would say 1, the rest say 0."""
    X = np.r_[np.zeros(200, int), 1][:, None]
    y = np.r_[np.arange(200) % 10 == 0, True].astype(int)
    fitted = fit(X, y, Remembers())
    assert fitted.probability[1] < 0.5
    assert fitted.predict(Frame.read(np.array([[1]])))[0] == 1 - CLIP


# -------------------------------------------------------------------- good models


@pytest.mark.parametrize(
    "estimator",
    [
        "logistic",
        LogisticRegression(C=100),
        GradientBoostingClassifier(n_estimators=60),
        LinearDiscriminantAnalysis(),  # knows no sample_weight
    ],
    ids=["logistic", "LogisticRegression", "boosting", "discriminant"],
)
def test_any_classifier_finds_the_law(estimator):
    X, y = logistic_people()
    fitted = fit(X, y, estimator)
    rows = np.unique(X, axis=0)
    assert np.abs(fitted.probability - truth(rows)).mean() < 0.08  # 62 people a row: s.e. 0.06
    assert fitted.log_loss < fitted.base_log_loss - 0.05
    assert fitted.auc > 0.75
    assert fitted.weak == ""
    assert np.abs(fitted.predict(Frame.read(rows)) - truth(rows)).mean() < 0.08
    assert "cross-fitted AUC 0." in str(fitted)
    if not isinstance(estimator, str):
        assert not hasattr(estimator, "classes_")  # the caller's own object is left alone


def test_weights_count_with_and_without_support_for_them():
    """Doubling everybody with y = 1 turns odds of p into odds of 2 p."""
    X, y = logistic_people(20_000)
    weight = np.where(y == 1, 2.0, 1.0)
    rows = np.unique(X, axis=0)
    odds = 2 * truth(rows) / (1 - truth(rows))
    for estimator in ("logistic", LinearDiscriminantAnalysis()):
        fitted = fit(X, y, estimator, weight)
        assert np.abs(fitted.probability - odds / (1 + odds)).mean() < 0.05


def test_only_ratios_of_weights_matter():
    X, y = logistic_people()
    one, thousand = (fit(X, y, weight=np.full(len(y), weight)) for weight in (1.0, 1e3))
    np.testing.assert_allclose(one.probability, thousand.probability, atol=1e-8)
    np.testing.assert_allclose(one.standard_error, thousand.standard_error, rtol=1e-6)
    assert one.penalty == thousand.penalty


def test_heavy_weights_do_not_repeat_people_without_end():
    """A classifier that knows no weights sees about as many rows as there are people."""
    sizes = []

    class Counting(KNeighborsClassifier):
        def fit(self, X, y):
            sizes.append(len(X))
            return super().fit(X, y)

    X, y = logistic_people(500)
    weight = np.random.default_rng(0).uniform(1, 1e6, 500)
    fit(X, y, Counting(n_neighbors=50), weight)
    assert max(sizes) <= 2 * 500


def test_the_penalty_is_the_one_with_the_least_held_out_loss():
    X, y = logistic_people(300, bits=12)
    fitted = fit(X, y)
    assert fitted.penalty in (0.01, 0.1, 1.0, 10.0, 100.0)
    strong = fit(X, y, LogisticRegression(C=1e4, max_iter=1_000))
    assert fitted.log_loss <= strong.log_loss


def test_the_folds_follow_their_seed():
    X, y = logistic_people(500)
    first, again, other = (fit(X, y, random_state=seed).probability for seed in (0, 0, 1))
    assert first.tolist() == again.tolist()
    assert first.tolist() != other.tolist()


# -------------------------------------------------------------------- the model that is chosen


def people_of(law, n, seed=0):
    """Two numbers, and outcomes by a law of them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)).round(2)
    return X, (rng.random(n) < law(X)).astype(int)


LAWS = {
    "l2 logistic regression": lambda X: expit(X[:, 0] - 0.5 * X[:, 1]),
    "l2 logistic regression with pairs of inputs": lambda X: expit(2 * X[:, 0] * X[:, 1]),
    "gradient boosting": lambda X: np.where(np.sin(4 * X[:, 0]) > 0, 0.9, 0.1),
}


@pytest.mark.parametrize("kind", LAWS)
def test_the_model_is_chosen_by_how_well_it_predicts_people_held_out(kind):
    X, y = people_of(LAWS[kind], 1_200)
    fitted = fit(X, y, "auto")
    assert fitted.kind == kind
    truth = LAWS[kind](np.unique(X, axis=0))
    assert np.abs(fitted.probability - truth).mean() < 0.1
    new, _ = people_of(LAWS[kind], 500, seed=1)
    assert np.abs(fitted.predict(Frame.read(new)) - LAWS[kind](new)).mean() < 0.1
    if kind == "l2 logistic regression":  # nothing changes where the logistic model is right
        np.testing.assert_array_equal(fitted.probability, fit(X, y, "logistic").probability)


def test_only_the_models_of_a_choice_are_tried():
    X, y = people_of(LAWS["gradient boosting"], 800)
    pairs, trees = ModelChoice((pair_model,)), ModelChoice((pair_model, tree_model))
    assert fit(X, y, "auto", choice=pairs).kind != "gradient boosting"
    fitted = fit(X, y, "auto", choice=trees)
    assert fitted.kind == "gradient boosting"
    assert isinstance(fitted.estimator, BoostedTrees)


def test_yes_or_no_inputs_leave_trees_nothing_to_cut():
    X, y = logistic_people(500)
    assert tree_model(CrossFitData.of(*counted(X, y), "P(Y=1 | x)", 0)) is None


def test_the_leaves_of_a_tree_hold_people_and_not_rows():
    """Twenty rows of 100 people: one of them is unlike its neighbours, and that is found."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 20, 2_000)[:, None]
    p = np.where(X[:, 0] == 14, 0.95, np.where(X[:, 0] < 10, 0.2, 0.5))
    fitted = fit(X, (rng.random(2_000) < p).astype(int), "auto")
    assert fitted.kind == "gradient boosting"
    assert fitted.probability[14] == pytest.approx(0.95, abs=0.07)


def test_where_repeated_people_show_that_nothing_can_be_gained_nothing_is_tried(monkeypatch):
    monkeypatch.setattr("fairmend.explain.crossfit.pair_model", lambda data: 1 / 0)
    X, y = logistic_people(20_000)
    fit(X, y, "auto")
    with pytest.raises(ZeroDivisionError):
        fit(X, X[:, 0] ^ X[:, 1] ^ (np.arange(20_000) % 10 == 0), "auto")


def test_the_possible_gain_is_the_divergence_from_the_truth():
    """A logistic model of pure interaction says about a half; the truth is .3 or .7.

    Models of the other rows lean a little to the wrong side, which adds to it.
    """
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (40_000, 6))
    p = np.where(X[:, 0] == X[:, 1], 0.7, 0.3)
    table, tally = counted(X, (rng.random(40_000) < p).astype(int))
    data = CrossFitData.of(table, tally, "P", 0)
    gain = possible_gain(data, logistic_model(data))
    assert 1 <= gain / (0.2**2 / (2 * 0.25)) < 1.4


# -------------------------------------------------------------------- weak models


@pytest.mark.parametrize("seed", range(5))
def test_pure_noise_is_called_too_weak_to_lean_on(seed):
    rng = np.random.default_rng(seed)
    X, y = rng.integers(0, 2, (1_000, 8)), rng.integers(0, 2, 1_000)
    with pytest.warns(FairmendWarning) as caught:
        fitted = fit(X, y)
    message = "P(Y=1 | x) is too weak to rely on: it predicts no better than the base rate does."
    assert str(caught[0].message) == message
    assert str(fitted).endswith(
        "Too weak to rely on: it predicts no better than the base rate does."
    )


def test_overconfidence_is_called_too_weak():
    class Overconfident(LogisticRegression):
        def predict_proba(self, X):
            p = super().predict_proba(X)[:, 1]
            p = np.clip(np.where(p > 0.5, p + 0.15, p - 0.15), 0.02, 0.98)
            return np.stack([1 - p, p], axis=1)

    X, y = logistic_people(20_000)
    with pytest.warns(FairmendWarning, match=r"off by \d+ points on average"):
        fit(X, y, Overconfident())


def test_few_people_are_not_called_uncalibrated_for_being_few():
    """Tenths of 6 people are off by 15 points on average by chance alone."""
    X, y = logistic_people(60, bits=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = fit(X, y, "empirical")
    assert fitted.expected_calibration_error > 0.05
    assert fitted.weak == ""


def test_the_calibration_table_is_what_was_said_and_what_was_seen():
    X, y = logistic_people(20_000)
    fitted = fit(X, y)
    said, seen, share = np.array(fitted.calibration).T
    assert share.sum() == pytest.approx(1)
    assert (np.diff(said) > 0).all()
    assert share @ seen == pytest.approx(y.mean())
    np.testing.assert_allclose(said, seen, atol=0.04)  # 2,000 people a tenth: s.e. 0.011
    assert fitted.calibration_error == pytest.approx(share @ np.abs(said - seen))


# -------------------------------------------------------------------- observed shares


def test_observed_shares_are_the_shares():
    seen = np.array([[3.0, 1.0], [0.0, 5.0], [2.0, 0.0]])
    fitted = empirical(Tally(seen, seen, seen), what="P(Y=1 | x)")
    assert fitted.probability.tolist() == [0.25, 1 - CLIP, CLIP]
    assert (fitted.standard_error > 0).all()  # five out of five does not mean always
    assert str(fitted).startswith("P(Y=1 | x): observed shares, in-sample AUC ")
    with pytest.raises(DataError) as error:
        fitted.predict(Frame.read(np.zeros((1, 1))))
    assert str(error.value) == (
        "P(Y=1 | x): must be a fitted model to speak of new rows; got observed shares. "
        "Use the logistic model, or any scikit-learn classifier."
    )


def test_a_row_that_weighs_nothing_is_undecided():
    people, weight = np.array([[1.0, 0.0], [1.0, 1.0]]), np.array([[0.0, 0.0], [1.0, 1.0]])
    assert empirical(Tally(people, weight, weight), what="P").probability.tolist() == [0.5, 0.5]


# -------------------------------------------------------------------- errors and bounds


def test_standard_errors_are_the_bootstraps():
    """200 resamples leave each bootstrap error 5 % uncertain, their ratios' mean less."""
    X, y = logistic_people(3_000, bits=4)
    fitted = fit(X, y)
    rows = Frame.read(np.unique(X, axis=0))
    _, tally = counted(X, y)
    drawn = []
    for counts in np.random.default_rng(0).multinomial(len(y), tally.people.ravel() / len(y), 200):
        weight = counts.reshape(-1, 2).astype(float)
        model = LogisticFits(rows.native.astype(float)).fit(fitted.penalty, weight)
        drawn.append(model.predict_proba(rows.native)[:, 1])
    ratio = fitted.standard_error / np.std(drawn, axis=0)
    assert ratio.mean() == pytest.approx(1, abs=0.08)
    assert ratio.min() > 0.7
    assert ratio.max() < 1.4


def test_standard_errors_of_unequal_weights_are_larger():
    X, y = logistic_people(3_000, bits=4)
    weight = np.random.default_rng(0).choice([0.1, 10.0], len(y))
    ratio = fit(X, y, weight=weight).standard_error / fit(X, y).standard_error
    # half the people weigh next to nothing: about sqrt(2) times the error
    assert 1.2 < ratio.mean() < 1.6


def test_probabilities_keep_off_0_and_1():
    X = np.repeat(np.arange(100), 5)[:, None]
    y = (X[:, 0] >= 50).astype(int)
    for estimator in ("logistic", Remembers(), "empirical"):
        fitted = fit(X, y, estimator)
        assert fitted.probability.min() >= CLIP
        assert fitted.probability.max() <= 1 - CLIP
    assert fitted.probability.min() == CLIP


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (
            "logit",
            "P(Y=1 | x): must be fitted by 'auto', 'logistic', 'empirical' or a scikit-learn "
            "classifier; got 'logit'. For example HistGradientBoostingClassifier().",
        ),
        (
            3,
            "P(Y=1 | x): must be fitted by a scikit-learn classifier with predict_proba; "
            "got int. For example HistGradientBoostingClassifier().",
        ),
    ],
)
def test_what_cannot_fit_is_refused(estimator, message):
    with pytest.raises(DataError) as error:
        fit(np.zeros((2, 1)), np.array([0, 1]), estimator)
    assert str(error.value) == message


def test_one_outcome_alone_cannot_be_learnt():
    with pytest.raises(DataError) as error:
        fit(np.arange(60)[:, None], np.zeros(60, int))
    assert str(error.value) == (
        "P(Y=1 | x): must see both outcomes to be learnt, in the data and in each fold of them; "
        "got 0 positive and 60 negative. "
        "Choose sp, which needs no outcome model, or audit more people."
    )


def test_the_unit_of_weights_does_not_matter():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    table = Frame.read(X)
    people = np.eye(2)[(rng.random(400) < 1 / (1 + np.exp(-X[:, 0]))).astype(int)]
    weight = people * rng.choice([0.1, 0.3, 0.7], 400)[:, None]
    fitted = [
        fit_probability(
            table, Tally(people, weight * unit, weight**2 * unit**2), what="P(Y=1 | x)"
        ).probability
        for unit in (1.0, 7.3)
    ]
    # what the last bits of the sums leave after the fits converged to 1e-9
    np.testing.assert_allclose(fitted[0], fitted[1], rtol=0, atol=1e-7)


def test_more_columns_than_rows_give_the_fit_they_would(monkeypatch):
    """Over the directions the rows span, an l2 logistic regression is the same."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 320))
    y = (rng.random(60) < 1 / (1 + np.exp(-X[:, 0]))).astype(int)
    seen = np.stack([1.0 - y, y], axis=1)
    table, tally = Frame.read(X), Tally(seen, seen, seen)

    def fitted():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FairmendWarning)
            return fit_probability(table, tally, what="P(Y=1 | x)", estimator="logistic")

    quickly = fitted()
    monkeypatch.setattr(crossfit, "row_space", lambda matrix: None)
    monkeypatch.setattr(logistic, "row_space", lambda matrix: None)
    monkeypatch.setattr(logistic, "WIDE", 1_000)
    plainly = fitted()
    assert quickly.penalty == plainly.penalty
    assert quickly.probability == pytest.approx(plainly.probability, abs=1e-5)
    assert quickly.predict(table) == pytest.approx(plainly.predict(table), abs=1e-5)
    assert quickly.standard_error == pytest.approx(plainly.standard_error, rel=1e-3)


@pytest.mark.slow
def test_boosting_keeps_to_one_thread_in_a_new_process():
    """A limit of threads holds for libraries already loaded, and scikit-learn is loaded late."""
    code = (
        "import numpy as np\n"
        "from fairmend.data.columns import Frame\n"
        "from fairmend.explain import crossfit\n"
        "from fairmend.explain.outcomes import fit_probability\n"
        "from fairmend.measure.population import Tally\n"
        "def fit_any(*arguments, inner=crossfit.fit_any):\n"
        "    fitted = inner(*arguments)\n"
        "    from threadpoolctl import threadpool_info\n"
        "    print([i['num_threads'] for i in threadpool_info() if i['user_api'] == 'openmp'])\n"
        "    return fitted\n"
        "crossfit.fit_any = fit_any\n"
        "x = np.random.default_rng(0).normal(size=(1_000, 2))\n"
        "seen = np.stack([x[:, 0] > 0, x[:, 0] <= 0], axis=1).astype(float)\n"
        "fit_probability(Frame.read(x), Tally(seen, seen, seen), what='P(Y=1 | x)')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True,
        env=os.environ | {"OMP_NUM_THREADS": "2"},
    )  # fmt: skip
    assert set(done.stdout.splitlines()) == {"[1]"}
