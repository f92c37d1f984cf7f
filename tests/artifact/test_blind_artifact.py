"""A blind repair in a file: what is saved comes back, and what was forged does not."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.tree import DecisionTreeClassifier

import fairmend
from fairmend import ArtifactError, RepairedClassifier
from fairmend.artifact import inspect, store
from fairmend.explain.trees import BoostedTrees

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))
pytestmark = pytest.mark.filterwarnings("ignore::fairmend.FairmendWarning")

KEY = bytes(range(32))


def people(n=300, seed=0):
    rng = np.random.default_rng(seed)
    place = rng.integers(0, 2, n)
    X = pd.DataFrame(
        {
            "income": np.round(rng.normal(3.0 - 0.8 * place, 1.0, n), 1),
            "age": np.round(rng.normal(place, 1.0, n), 1),
            "sex": np.array(["m", "f"])[place],
            "town": pd.Series(rng.choice(["Aix", "Bonn"], n), dtype="str").mask(
                rng.random(n) < 0.1
            ),
        }
    )
    y = (rng.random(n) < 1 / (1 + np.exp(2.5 - X.income))).astype(int).to_numpy()
    return X, y, np.array(["a", "b"])[place]


def vendor(rows):
    """It reads the first two columns, and the group where there is a column of it."""
    if isinstance(rows, np.ndarray):
        return 1 / (1 + np.exp(3.3 - rows[:, 0].astype(float) - 0.1 * rows[:, 1].astype(float)))
    table = rows if isinstance(rows, pd.DataFrame) else rows.to_pandas()
    score = table["income"] + 0.1 * table["age"] - 0.3 * (table["sex"] == "f")
    return 1 / (1 + np.exp(3.3 - score.to_numpy()))


CONTAINERS = {
    "pandas": lambda X: X,
    "polars": pl.from_pandas,
    "pyarrow": lambda X: pl.from_pandas(X).to_arrow(),
    "numpy": lambda X: X[["income", "age"]].to_numpy(),
}
SETTINGS = {
    "fnr": {},
    "joint": {"disparity": ["fnr", "fpr"], "rank": {"false_positive": 1, "false_negative": 2}},
    "no outcomes": {"disparity": "sp", "outcomes": False, "do_no_harm": True},
    "by cost": {"disparity": "sp", "rank": "cost", "immutable": ["town"]},
}


@pytest.mark.parametrize(
    ("kind", "how"), [*((kind, "fnr") for kind in CONTAINERS), *(("pandas", h) for h in SETTINGS)]
)
def test_what_is_saved_comes_back(kind, how, tmp_path):
    X, y, s = people()
    convert, settings = CONTAINERS[kind], {"disparity": "fnr", **SETTINGS[how]}
    y = y if settings.pop("outcomes", True) else None
    repaired = RepairedClassifier(vendor, blind=True, key=KEY, **settings)
    repaired.fit(convert(X), y, sensitive_features=s)
    assert repaired.plan_.rule.kept_out == (() if kind == "numpy" else ("sex",))
    repaired.save(tmp_path / "one")
    loaded = fairmend.load(tmp_path / "one", vendor, key=KEY)
    new = convert(people(200, seed=1)[0])
    np.testing.assert_array_equal(repaired.predict(new), loaded.predict(new))
    np.testing.assert_array_equal(repaired.predict_proba(new), loaded.predict_proba(new))
    edited, again = repaired.transform(new), loaded.transform(new)
    assert type(edited) is type(again)
    assert pd.DataFrame(np.asarray(edited)).equals(pd.DataFrame(np.asarray(again)))
    loaded.save(tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert str(loaded.plan_) == str(repaired.plan_)
    assert "one rule for everybody, without the group" in str(inspect(tmp_path / "one"))
    if y is not None:
        given = (convert(X), y)
        one, two = (r.report(*given, sensitive_features=s, explanation=False)
                    for r in (repaired, loaded))  # fmt: skip
        assert str(one.before) == str(two.before)
        assert str(one.after) == str(two.after)


def test_models_that_are_code_are_not_stored(tmp_path):
    X, y, s = people()
    repaired = RepairedClassifier(
        vendor, blind=True, key=KEY, outcome_model=DecisionTreeClassifier(max_depth=2)
    )
    repaired.fit(X, y, sensitive_features=s)
    with pytest.raises(ArtifactError, match="a blind rule asks its models"):
        repaired.save(tmp_path / "code")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["blind", "blind, joint"])
def test_forged_bytes_are_refused_or_harmless(kind, tmp_path):
    from _forged import Forger, fitted, model_of

    fitted(kind).save(tmp_path / "whole")
    forger = Forger(tmp_path / "whole", model_of(kind))
    assert forger.judged({}) == "sound"
    rng, found = np.random.default_rng(0), []
    for turn, name in enumerate(
        rng.choice([n for n in forger.members if n != "manifest.json"], 60)
    ):
        content = bytearray(forger.members[name])
        content[rng.integers(len(content))] ^= int(rng.choice([1, 0x10, 0x80, 0xFF]))
        found.append(forger.judged({name: bytes(content)}, turn))
    assert set(found) <= {"refused", "sound"}
    assert "refused" in found


FORGED = {
    "a rule that is not blind": lambda body: body["settings"].update(blind=False),
    "no exceptions' answers": lambda body: _rule(body).update(exception_answers=None),
    "a price too many": lambda body: (
        _rule(body)["prices"].append(1.0)
        if isinstance(_rule(body)["prices"], list)
        else _rule(body).update(prices=[1.0, 2.0, 3.0])
    ),
    "another price": lambda body: _rule(body).update(by="score"),
    "donors of one side": lambda body: _rule(body).update(donors=_twice(_rule(body)["donors"])),
    "no shares": lambda body: _rule(body).update(shares=[]),
    "an AUC of 2": lambda body: _rule(body).update(proxy_auc=2.0),
    "a cut of 2": lambda body: _rule(body)["trade_off"].update(cut=2.0),
}


def _twice(pair):
    """The first of two, as the body stores them, twice."""
    return {k: [v[0], v[0]] if isinstance(v, list) else v for k, v in pair.items()}


def _rule(body):
    def find(node):
        if isinstance(node, dict):
            if node.get("$") == "BlindRule":
                return node
            return next(filter(None, map(find, node.values())), None)
        if isinstance(node, list):
            return next(filter(None, map(find, node)), None)
        return None

    return find(body)


@pytest.mark.parametrize("what", FORGED)
def test_forged_fields_are_refused(what, tmp_path):
    import json

    from _forged import Forger, fitted, model_of

    fitted("blind").save(tmp_path / "whole")
    forger = Forger(tmp_path / "whole", model_of("blind"))
    body = json.loads(forger.members[store._BODY])
    assert _rule(body) is not None
    FORGED[what](body)
    assert forger.judged({store._BODY: json.dumps(body).encode()}) == "refused"


def test_boosted_trees_of_the_outcome_come_back(tmp_path):
    rng = np.random.default_rng(0)
    s = rng.integers(0, 2, 1_200)
    X = pd.DataFrame({"a": rng.normal(-0.5 * s).round(2), "b": rng.normal(0.5 * s).round(2)})
    y = (rng.random(len(s)) < np.where(np.sin(4 * X["a"]) > 0, 0.9, 0.1)).astype(int)

    def score(rows):
        return 1 / (1 + np.exp(-np.asarray(rows)[:, 0].astype(float)))

    groups = np.array(["p", "q"])[s]
    repaired = RepairedClassifier(score, blind=True, random_state=0)
    repaired.fit(X, y, sensitive_features=groups)
    assert isinstance(repaired.plan_.rule.outcome.inputs.fitted.estimator, BoostedTrees)
    repaired.save(tmp_path / "trees.fairmend")
    loaded = fairmend.load(tmp_path / "trees.fairmend", score)
    new = pd.DataFrame(rng.normal(size=(500, 2)), columns=["a", "b"])
    decisions = repaired.predict(new)
    assert (decisions != (score(new) > 0.5)).any()
    np.testing.assert_array_equal(loaded.predict(new), decisions)
