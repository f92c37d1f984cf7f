"""One thread for sums of ours, all for somebody's model."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_info, threadpool_limits

from fairmend import FairmendWarning
from fairmend.classifier import RepairedClassifier
from fairmend.data.threads import all_threads, one_thread
from fairmend.datasets import load_adult


def threads():
    return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}


def test_a_limit_is_lifted_for_others_and_ends():
    with threadpool_limits(3):
        with one_thread():
            assert threads() == {1}
            with all_threads():
                assert threads() == {3}
                with one_thread():
                    assert threads() == {1}
                assert threads() == {3}
            assert threads() == {1}
        assert threads() == {3}
        with all_threads():
            assert threads() == {3}


def test_a_limit_ends_with_an_error():
    with threadpool_limits(3):
        with pytest.raises(ZeroDivisionError), one_thread(), all_threads():
            raise ZeroDivisionError
        assert threads() == {3}


@pytest.mark.parametrize("blind", [True, False])
def test_a_model_asked_in_a_fit_has_all_threads(blind):
    adult = load_adult(backend="numpy")
    X, y, s = adult.X[:4_000], adult.y[:4_000], adult.sensitive_features[:4_000]
    model, seen = LogisticRegression(C=100).fit(X, y), []

    def decides(rows):
        seen.append(threads())
        return model.predict(rows)

    with threadpool_limits(3):
        fitted = RepairedClassifier(decides, "sp", blind=blind, random_state=0)
        if blind:
            with pytest.warns(FairmendWarning, match="takes the favourable decision"):
                fitted.fit(X, y, sensitive_features=s)
        else:
            fitted.fit(X, y, sensitive_features=s)
        assert threads() == {3}
    assert seen
    assert all(one == {3} for one in seen)
    assert np.isfinite(fitted.plan_.outlook.gap_after)
