"""What a report tells beside gaps, and the hashes that tell one data set from another."""

import json

import numpy as np
import pandas as pd
import pytest

from fairmend import FNR, RepairedClassifier, counterfactual, load, tabulate
from fairmend.explain import drivers
from fairmend.explain.marginals import marginals
from fairmend.explain.prototypes import prototypes
from fairmend.report.findings import LEAST_SHIFT, MOST_VALUES, Explanation, Provenance, fingerprint


def people(n=1_000, seed=0):
    rng = np.random.default_rng(seed)
    s = rng.choice(["a", "b"], n)
    X = pd.DataFrame(
        {"x": np.round(rng.normal(size=n) - (s == "b"), 1), "c": rng.choice(["u", "v"], n)}
    )
    return X, (rng.random(n) < 1 / (1 + np.exp(-2 * X["x"]))).to_numpy().astype(int), s


def vendor(rows):
    return (rows["x"] > 0).to_numpy().astype(int)


def hashed(X, y, s, model=vendor):
    return fingerprint(tabulate(model, X, y, sensitive_features=s))


def test_the_order_of_people_does_not_matter():
    X, y, s = people()
    order = np.random.default_rng(1).permutation(len(y))
    assert hashed(X, y, s) == hashed(X.iloc[order], y[order], s[order])
    assert len(hashed(X, y, s)) == 64


@pytest.mark.parametrize("what", ["value", "outcome", "group", "answer", "name", "person"])
def test_everything_else_does(what):
    X, y, s = people()
    first = hashed(X, y, s)
    X, y, s, model = X.copy(), y.copy(), s.copy(), vendor
    match what:
        case "value":
            X.loc[0, "c"] = "v" if X.loc[0, "c"] == "u" else "u"
        case "outcome":
            y[0] = 1 - y[0]
        case "group":
            s[0] = "b" if s[0] == "a" else "a"
        case "answer":
            model = lambda rows: (rows["x"] > 0.5).to_numpy().astype(int)  # noqa: E731
        case "name":
            X = X.rename(columns={"c": "d"})
            model = lambda rows: (rows["x"] > 0).to_numpy().astype(int)  # noqa: E731
        case "person":
            X, y, s = X[1:], y[1:], s[1:]
    assert hashed(X, y, s, model) != first


def test_an_explanation_is_the_counterfactual_told():
    X, y, s = people()
    found = counterfactual(vendor, X, y, sensitive_features=s, disparity="sp", target="b")
    told = Explanation.of(found)
    assert (told.before, told.after, told.kl) == (found.before, found.after, found.kl)
    assert told.names == ("sp",)
    # x has tenths, which many people share: nothing of it needs to be rounded
    assert list(told.marginals) == marginals(found)
    assert list(told.feature_scores) == drivers.feature_scores(found)
    assert list(Explanation.of(found, 1).prototypes) == prototypes(found)
    assert told.certificate == str(found.certificate)
    assert told.closed
    assert not told.irreconcilable


def test_an_explanation_names_no_pair_that_may_be_noise():
    """Two causes of which neither adds to the other where the model looks at x alone."""
    X, y, s = people()
    rng = np.random.default_rng(2)
    X = X.assign(**{f"noise {j}": rng.normal(size=len(y)).round(1) for j in range(6)})
    of_x = counterfactual(vendor, X, y, sensitive_features=s, disparity="sp", target="b")
    told = Explanation.of(of_x)
    assert told.joint_proxies == ()
    assert told.features_verdict == "1 of 8 features explain more of the gap than noise does."
    assert told.pairs_verdict.startswith("No pair of features adds more than noise")

    both = counterfactual(
        lambda rows: ((rows["x"] > -1) == (rows["noise 0"] > 0)).to_numpy().astype(int),
        X, y, sensitive_features=s, disparity="sp", target="b",
    )  # fmt: skip
    told = Explanation.of(both)
    assert [{pair.first, pair.second} for pair in told.joint_proxies] == [{"x", "noise 0"}]
    assert told.pairs_verdict.startswith("1 of 28 pairs of features add more than noise")


def test_an_explanation_says_whether_equal_inputs_get_equal_decisions():
    X, y, s = people()
    said = vendor(X) | (s == "a")  # the model on record reads the group
    asked, recorded = (
        counterfactual(model, X, y, sensitive_features=s, disparity="sp", target="b")
        for model in (vendor, said)
    )
    assert Explanation.of(asked).decisions_differ == "", "it sees nothing else"
    told = Explanation.of(recorded).decisions_differ
    assert told == str(recorded.decision_difference)
    assert told.startswith("At equal inputs the target group gets a positive decision ")
    assert " points less often than the reference group " in told
    named = X.assign(group=s)
    reads_it = counterfactual(
        lambda rows: vendor(rows) | (rows["group"] == "a").to_numpy(),
        named, y, sensitive_features=s, disparity="sp", target="b",
    )  # fmt: skip
    assert Explanation.of(reads_it).decisions_differ.startswith("The model reads group, on which ")


def test_an_explanation_says_whether_outcomes_are_modelled():
    X, y, s = people()
    for metric, modelled in (("sp", False), ("fnr", True)):
        found = counterfactual(vendor, X, y, sensitive_features=s, disparity=metric, target="b")
        assert Explanation.of(found).modelled is modelled


def test_an_explanation_of_features_called_like_its_own_figures():
    X, y, s = people()
    X["change"] = X["observed"] = X["c"]
    found = counterfactual(vendor, X, y, sensitive_features=s, disparity="sp", target="b")
    told = Explanation.of(found, 1)
    assert list(told.prototypes) == prototypes(found)
    for row in told.prototypes:
        assert row["observed"] in found.source.mass
        assert row["observed (feature)"] == row["change (feature)"] == row["c"]


def test_provenance_names_what_made_it_and_keeps_the_key_secret(monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    X, y, s = people()
    key = bytes(range(32))
    kept = RepairedClassifier(vendor, FNR, key=key, immutable=["c"], random_state=7)
    report = kept.fit(X, y, sensitive_features=s).report(X, y, sensitive_features=s)
    made = report.provenance
    assert made.made_at == "1970-01-02 00:00 UTC"
    assert made.command == (
        "fairmend.RepairedClassifier(model, disparity='fnr', immutable=['c'], random_state=7)"
        ".fit(...).report(...)"
    )
    assert (made.seed, made.model) == (7, "vendor")
    assert made.audit_data == made.report_data == hashed(X, y, s)
    assert report.holdout is made.is_holdout is False
    assert made.holdout is None
    assert set(made.versions) >= {"Python", "fairmend", "numpy", "scikit-learn"}
    plain = json.dumps(report.to_dict())
    assert key.hex() not in plain
    assert repr(key) not in plain
    given = kept.report(X, y, sensitive_features=s, command="fairmend report x.csv")
    assert given.provenance.command == "fairmend report x.csv"


def test_a_recorded_column_is_named():
    X, y, s = people()
    data = tabulate(vendor, X, y, sensitive_features=s)
    made = Provenance.of(data, data, model="answer", settings={}, command="c")
    assert made.model == "recorded in column 'answer'"


def fine_people(n=300, seed=0):
    """An income of their own for everybody, two towns, and a day that hardly anybody shares."""
    rng = np.random.default_rng(seed)
    X, y, s = people(n, seed)
    X["income"] = np.round(np.exp(rng.normal(10, 0.5, n)), 2)
    X["day"] = [f"2024-{day // 30 + 1:02d}-{day % 30 + 1:02d}" for day in rng.integers(0, 50, n)]
    return X, y, s


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_and_values_of_few_people_are_not_told(weighted):
    X, y, s = fine_people()
    weight = np.where(np.arange(len(y)) % 7 == 0, 50.0, 1.0) if weighted else None
    found = counterfactual(
        vendor, X, y, sensitive_features=s, disparity="sp", target="b", sample_weight=weight
    )
    told = Explanation.of(found)
    assert told.prototypes == ()
    assert told.prototypes_not_shown == len(prototypes(found))
    days = X["day"][s == "b"].value_counts()
    shown = {line.statistic for line in told.marginals if line.feature == "day"}
    assert 0 < len(shown) <= MOST_VALUES
    assert all(days[day] >= 5 for day in shown)
    hidden = set(days.index[days < 5]) | set(X["day"][s == "a"]) - set(days.index)
    assert told.values_not_shown == len(hidden)
    moves = {
        line.statistic: abs(line.shift)
        for line in marginals(found)
        if line.feature == "day" and line.statistic not in hidden
    }
    most = sorted(moves, key=lambda day: -moves[day])[:MOST_VALUES]
    assert shown == {day for day in most if moves[day] >= LEAST_SHIFT}
    incomes = set(X["income"])
    for line in told.marginals:
        if line.feature == "income" and line.statistic != "mean":
            for value in (line.observed, line.baseline, line.counterfactual):
                assert value not in incomes
                assert value == float(f"{value:.2e}"), "three digits name nobody"
    assert len(Explanation.of(found, 1).prototypes) == told.prototypes_not_shown


def test_a_loaded_repair_keeps_no_seed_that_its_key_was_made_from(tmp_path):
    X, y, s = people()
    kept = RepairedClassifier(vendor, "sp", random_state=7).fit(X, y, sensitive_features=s)
    kept.save(tmp_path / "it.fairmend")
    loaded = load(tmp_path / "it.fairmend", vendor)
    report = loaded.report(X, y, sensitive_features=s)
    assert (report.provenance.seed, report.provenance.seed_left_out) == (None, True)
    assert "not stored in the artifact" in report.to_html()
    again = loaded.fit(X, y, sensitive_features=s).report(X, y, sensitive_features=s)
    assert not again.provenance.seed_left_out
    assert "not stored in the artifact" not in again.to_html()
