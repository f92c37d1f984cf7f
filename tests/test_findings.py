"""What a report tells beside gaps, and the hashes that tell one data set from another."""

import json

import numpy as np
import pandas as pd
import pytest

from fairmend import FNR, RepairedClassifier, counterfactual, explain, tabulate
from fairmend.findings import Explanation, Provenance, fingerprint


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
    assert list(told.marginals) == explain.marginals(found)
    assert list(told.feature_scores) == explain.feature_scores(found)
    assert list(told.prototypes) == explain.prototypes(found)
    assert told.certificate == str(found.certificate)
    assert told.closed
    assert not told.irreconcilable


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
    assert report.on_its_own_data
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
