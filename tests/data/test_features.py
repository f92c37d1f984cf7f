"""Mixed columns as numbers: what is learnt, and what happens to values never seen."""

import numpy as np
import pandas as pd
import pytest

from fairmend.data import features
from fairmend.data.columns import Frame
from fairmend.data.features import FeatureMap


def mapped(learnt_from, applied_to=None, mass=None):
    learnt = Frame.read(learnt_from)
    mass = np.ones(len(learnt)) if mass is None else np.asarray(mass, float)
    applied = learnt if applied_to is None else Frame.read(applied_to)
    return FeatureMap.learn(learnt, mass).apply(applied)


def test_numbers_are_centred_and_scaled_by_the_people():
    """Mass 3 on the value 0 and 1 on the value 4: mean 1, variance 3."""
    got = mapped(pd.DataFrame({"a": [0.0, 4.0, 5.0]}), mass=[3, 1, 0])
    np.testing.assert_allclose(got[:, 0], (np.array([0, 4, 5]) - 1) / np.sqrt(3), atol=1e-15)


def test_yes_or_no_columns_stay_as_they_are():
    for values in ([0, 1, 1], [False, True, True], [0.0, 1.0, 1.0]):
        assert mapped(pd.DataFrame({"a": values})).tolist() == [[0], [1], [1]]


def test_categories_become_one_column_a_value():
    got = mapped(pd.DataFrame({"a": ["x", "y", "x", "z"]}))
    assert got.tolist() == [[1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 0, 1]]


def test_missing_numbers_are_flagged_and_stand_at_the_mean():
    got = mapped(pd.DataFrame({"a": [1.0, 3.0, np.nan]}))
    np.testing.assert_allclose(got, [[-1, 0], [1, 0], [0, 1]], atol=1e-15)
    got = mapped(pd.DataFrame({"a": pd.array([1, 0, None], dtype="Int64")}))
    assert got.tolist() == [[1, 0], [0, 0], [0, 1]]


def test_a_missing_category_is_a_value_of_its_own():
    got = mapped(pd.DataFrame({"a": ["x", None, "y"]}))
    assert got.tolist() == [[1, 0, 0], [0, 0, 1], [0, 1, 0]]
    assert mapped(
        pd.DataFrame({"a": ["x", None]}), pd.DataFrame({"a": [np.nan, "x"]}, dtype=object)
    ).tolist() == [[0, 1], [1, 0]]


def test_values_never_seen_are_none_of_the_known_ones():
    known = pd.DataFrame({"city": ["Ulm", "Bonn"], "age": [20.0, 40.0]})
    new = pd.DataFrame({"city": ["Rome", "Ulm"], "age": [30.0, np.nan]})
    assert mapped(known, new).tolist() == [[0, 0, 0], [0, 1, 0]]


def test_text_where_numbers_were_is_not_known():
    known = pd.DataFrame({"a": [20.0, 40.0, np.nan]})
    assert mapped(known, pd.DataFrame({"a": ["old"]})).tolist() == [[0, 1]]


def test_a_constant_and_an_unweighted_number_do_no_harm():
    assert mapped(pd.DataFrame({"a": [7.0, 7.0]})).tolist() == [[0], [0]]
    got = mapped(pd.DataFrame({"a": [5.0, 6.0, np.nan]}), mass=[0, 0, 1])
    assert np.isfinite(got).all()
    assert mapped(pd.DataFrame({"a": [np.nan, np.nan]})).tolist() == [[0, 1], [0, 1]]


def test_mixed_columns_stand_side_by_side():
    got = mapped(pd.DataFrame({"a": [1.0, 3.0], "b": ["x", "y"], "c": [True, False], "d": [0, 0]}))
    assert got.tolist() == [[-1, 1, 0, 1, 0], [1, 0, 1, 0, 0]]


@pytest.mark.parametrize("backend", ["pandas", "polars", "pyarrow", "numpy"])
def test_every_container_gives_the_same_numbers(backend):
    import polars as pl
    import pyarrow as pa

    columns = {"a": [1.0, 3.0, 5.0], "b": [0.0, 1.0, 1.0]}
    tables = {
        "pandas": pd.DataFrame(columns),
        "polars": pl.DataFrame(columns),
        "pyarrow": pa.table(columns),
        "numpy": np.array(list(columns.values())).T,
    }
    np.testing.assert_allclose(
        mapped(tables[backend]), [[-(1.5**0.5), 0], [0, 1], [1.5**0.5, 1]], atol=1e-15
    )


def test_only_the_most_common_values_of_a_large_category_get_a_column(monkeypatch):
    monkeypatch.setattr(features, "MOST_VALUES", 2)
    got = mapped(pd.DataFrame({"a": ["p", "q", "r"]}), mass=[1, 5, 3])
    assert got.tolist() == [[0, 0], [1, 0], [0, 1]]
