"""Boosted trees as numbers: scikit-learn's own answers, and nothing that a file could twist."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

from fairmend.data.limits import fault
from fairmend.explain import trees
from fairmend.explain.trees import BoostedTrees


def people(n=400, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)).round(1)
    X[:, 3] = X[:, 3] > 1
    return X, (rng.random(n) < 1 / (1 + np.exp(-X[:, 0] * X[:, 1] - X[:, 3]))).astype(int)


@pytest.fixture(scope="module", params=[{}, {"max_iter": 1}, {"max_leaf_nodes": 2}])
def both(request):
    X, y = people()
    model = HistGradientBoostingClassifier(early_stopping=False, **request.param).fit(X, y)
    return model, BoostedTrees.read(model)


def test_its_answers_are_those_of_scikit_learn(both, monkeypatch):
    model, numbers = both
    X, _ = people(300, seed=1)
    edges = np.concatenate([X, np.full((1, 4), 1e9), np.full((1, 4), -1e9)])
    for cells in (1 << 22, 7):  # in one piece, and in many
        monkeypatch.setattr(trees, "_CELLS", cells)
        # sums of the same leaves in another order
        np.testing.assert_allclose(
            numbers.predict_proba(edges), model.predict_proba(edges), rtol=0, atol=1e-12
        )
    assert numbers.predict_proba(X[:0]).shape == (0, 2)


def test_a_tree_that_never_splits_says_the_base_rate():
    X, y = people(30)
    model = HistGradientBoostingClassifier(min_samples_leaf=30, early_stopping=False).fit(X, y)
    answers = BoostedTrees.read(model).predict_proba(X)[:, 1]
    assert answers == pytest.approx(np.full(30, y.mean()), abs=1e-9)


def test_what_does_not_fit_together_is_a_fault(both):
    _, numbers = both
    assert fault(numbers) is None
    beyond = np.full(len(numbers.left), len(numbers.left))
    for wrong in (
        {"left": beyond},
        {"right": beyond},
        {"roots": beyond[:1]},
        {"value": numbers.value[:-1]},
        {"steps": 10**6},
        {"threshold": np.full(len(numbers.left), np.nan)},
    ):
        assert fault(replace(numbers, **wrong)) is not None, wrong
    assert numbers.fits(4)
    assert not numbers.fits(int(numbers.feature.max()))
