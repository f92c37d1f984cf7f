"""Rows put together, rows found again: the same in every container."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmend.data.columns import Frame
from fairmend.data.rows import differing, find_rows, mixed, replaced, stacked

MIXED = {
    "age": [31.0, None, 52.5, 31.0],
    "town": ["Ulm", "Jena", None, "Ulm"],
    "children": [0, 2, 1, 0],
    "member": [True, False, True, True],
}
MAKERS = {
    "numpy": lambda columns: np.array(list(zip(*columns.values(), strict=True)), object),
    "pandas": pd.DataFrame,
    "pandas-odd-index": lambda columns: pd.DataFrame(
        columns, index=[9, 9, 3, 1][: _length(columns)]
    ),
    "pandas-category": lambda columns: pd.DataFrame(columns).astype({"town": "category"}),
    "polars": lambda columns: pl.DataFrame(columns, strict=False),
    "polars-category": lambda columns: pl.DataFrame(columns, strict=False).with_columns(
        pl.col("town").cast(pl.Categorical)
    ),
    "pyarrow": pa.table,
    "pyarrow-dictionary": lambda columns: pa.table(
        {**columns, "town": pa.array(columns["town"]).dictionary_encode()}
    ),
}


def _length(columns):
    return len(next(iter(columns.values())))


def plain(frame):
    """Rows of Python values; every kind of missing is None."""
    native = frame.native
    if isinstance(native, np.ndarray):
        rows = native.tolist()
    elif isinstance(native, pa.Table):
        rows = [list(row.values()) for row in native.to_pylist()]
    elif isinstance(native, pl.DataFrame):
        rows = [list(row) for row in native.rows()]
    else:
        rows = native.astype(object).to_numpy().tolist()
    missing = lambda v: v is None or v is pd.NA or (isinstance(v, float) and v != v)  # noqa: E731, PLR0124
    return [[None if missing(v) else v for v in row] for row in rows]


@pytest.fixture(params=MAKERS)
def make(request):
    return lambda columns: Frame.read(MAKERS[request.param](columns))


WHOLE = [[31.0, "Ulm", 0, True], [None, "Jena", 2, False], [52.5, None, 1, True]]


def test_mixed_takes_single_values_and_keeps_the_container(make):
    mine = make(MIXED)
    theirs = mine.take(np.array([2, 0, 1, 2]))
    take = np.array([[1, 0, 0, 0], [0, 1, 0, 1], [0, 0, 0, 0], [1, 1, 1, 1]], bool)
    edited = mixed(mine, theirs, take)
    assert type(edited.native) is type(mine.native)
    assert plain(edited) == [
        [52.5, "Ulm", 0, True], [None, "Ulm", 2, True], WHOLE[2], WHOLE[2],
    ]  # fmt: skip
    assert plain(mine) == [*WHOLE, WHOLE[0]], "the original is left alone"


def test_replaced_and_stacked(make):
    table = make(MIXED)
    edited = replaced(table, np.array([3, 1]), table.take(np.array([2, 0])))
    assert plain(edited) == [WHOLE[0], WHOLE[0], WHOLE[2], WHOLE[2]]
    assert plain(replaced(table, np.array([], int), table)) == plain(table)
    assert plain(stacked([table, table.take(np.array([1]))])) == [*plain(table), WHOLE[1]]


def test_differing_knows_missing_from_missing(make):
    table = make(MIXED)
    other = table.take(np.array([3, 1, 0, 2]))
    assert differing(table, table).sum() == 0
    assert differing(table, other).tolist() == [
        [False] * 4, [False] * 4, [True, True, True, False], [True, True, True, False],
    ]  # fmt: skip


def test_found_rows(make):
    table = make({name: values[:3] for name, values in MIXED.items()})
    asked = make(
        {
            "age": [None, 31.0, 31.0, 52.5],
            "town": ["Jena", "Ulm", "Rom", None],
            "children": [2, 0, 0, 1],
            "member": [False, True, True, True],
        }
    )
    assert find_rows(table, asked).tolist() == [1, 0, -1, 2]


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
def test_types_that_differ_between_fit_and_use_still_mean_the_same(kind):
    make = MAKERS[kind]
    whole, real = Frame.read(make({"a": [1, 2]})), Frame.read(make({"a": [2.0, 2.5]}))
    assert find_rows(whole, real).tolist() == [1, -1]
    assert differing(whole, real).ravel().tolist() == [True, True]
    assert plain(mixed(whole, real, np.array([[False], [True]]))) == [[1], [2.5]]
    assert plain(mixed(real, whole, np.array([[True], [False]]))) == [[1], [2.5]]
    narrow = Frame.read(make({"a": np.array([1, 2], np.int8)}))
    wide = Frame.read(make({"a": np.array([300, 4], np.int64)}))
    assert plain(mixed(narrow, wide, np.array([[True], [False]]))) == [[300], [2]]


def test_pandas_categories_grow_by_what_the_other_side_knows():
    mine = Frame.read(pd.DataFrame({"town": pd.Categorical(["Ulm", "Rom"])}))
    theirs = Frame.read(pd.DataFrame({"town": pd.Categorical(["Jena", "Ulm"])}))
    edited = mixed(mine, theirs, np.array([[True], [False]])).native["town"]
    assert edited.tolist() == ["Jena", "Rom"]
    assert edited.cat.categories.tolist() == ["Rom", "Ulm", "Jena"]
    assert find_rows(mine, theirs).tolist() == [-1, 0]


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_finding_rows_equals_looking_for_them_one_by_one(data):
    value = st.sampled_from([0.0, 1.0, 2.5, float("nan"), -3.0])
    row = st.tuples(value, value, st.sampled_from(["a", "b", None]))
    rows = data.draw(st.lists(row, min_size=1, max_size=12))
    asked = data.draw(st.lists(row, min_size=1, max_size=12))
    key = lambda one: tuple(None if v != v else v for v in one)  # noqa: E731, PLR0124
    distinct = list({key(one): one for one in rows}.values())
    names = ("x", "y", "z")
    table, queries = (Frame.read(pd.DataFrame(part, columns=names)) for part in (distinct, asked))
    known = [key(one) for one in distinct]
    expected = [known.index(key(one)) if key(one) in known else -1 for one in asked]
    assert find_rows(table, queries).tolist() == expected


def test_integers_beyond_float_precision_stay_apart():
    big = 2**60
    table = Frame.read(np.array([[big], [big + 1]]))
    assert find_rows(table, Frame.read(np.array([[big + 1], [big + 2]]))).tolist() == [1, -1]


def test_many_columns_of_many_values_do_not_run_together():
    # 20 columns of 50 values: their product overflows 64 bits
    rng = np.random.default_rng(0)
    matrix = rng.integers(0, 50, (300, 20))
    table = Frame.read(matrix[:200])
    assert find_rows(table, Frame.read(matrix)).tolist() == [*range(200), *[-1] * 100]


def ordered(values, categories=None):
    return pd.DataFrame({"a": pd.Categorical(values, categories, ordered=True)})


def test_ordered_categories_that_one_side_lacks_are_kept():
    # each batch makes its own categories; those of the other come behind
    mine, theirs = Frame.read(ordered(["z", "z"])), Frame.read(ordered(["x", "y"]))
    found = mixed(mine, theirs, np.array([[True], [False]])).native["a"]
    assert found.tolist() == ["x", "z"]
    assert found.cat.ordered
    assert found.cat.categories.tolist() == ["z", "x", "y"]


def test_enumerations_are_widened():
    mine = Frame.read(pl.DataFrame({"a": pl.Series(["z", "z"], dtype=pl.Enum(["z"]))}))
    theirs = Frame.read(pl.DataFrame({"a": pl.Series(["x", None], dtype=pl.Enum(["x", "y"]))}))
    found = mixed(mine, theirs, np.array([[True], [True]])).native["a"]
    assert found.to_list() == ["x", None]
    assert found.dtype == pl.Enum(["z", "x", "y"])
    same = mixed(mine, mine, np.array([[True], [False]])).native["a"]
    assert same.dtype == pl.Enum(["z"])


def test_objects_keep_what_they_are_though_one_side_is_all_missing():
    own = Frame.read(pd.DataFrame({"told": pd.Series([None, None], dtype=object)}))
    there = Frame.read(pd.DataFrame({"told": pd.Series([True, 3.0], dtype=object)}))
    edited = replaced(own, np.array([0]), there.take(np.array([0])))
    assert edited.native["told"].tolist() == [True, None]


def test_columns_of_all_types_are_mixed_with_their_types_and_index():
    def table(words, index):
        return pd.DataFrame(
            {
                "word": pd.Series(words, dtype="str"),
                "kind": pd.Categorical(words, categories=["x", "y"]),
                "whole": pd.array([1, None], dtype="Int64"),
                "a": np.array([1, 2]),
                "b": np.array([3, 4]),
                "c": np.array([0.5, np.nan]),
                7: np.array([True, False]),
            }
        ).set_axis(index)

    mine, theirs = table(["x", "y"], [5, 9]), table(["y", "x"], [0, 1])
    theirs[["a", "b"]] += 10
    take = np.array([[True] * 4 + [False] * 3, [False] * 7])
    found = mixed(Frame.read(mine), Frame.read(theirs), take).native
    assert found.index.tolist() == [5, 9]
    assert found.dtypes.tolist() == mine.dtypes.tolist()
    assert found.columns.tolist() == mine.columns.tolist()
    assert found["word"].tolist() == ["y", "y"]
    assert found["kind"].tolist() == ["y", "y"]
    assert found["a"].tolist() == [11, 2]
    assert found["b"].tolist() == [3, 4]
    assert mine["a"].tolist() == [1, 2]  # nobody's own rows are touched
