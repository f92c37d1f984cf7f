"""Columns and distinct rows against NumPy's own answer, whatever container they come in."""

import datetime as dt
import pickle
from decimal import Decimal

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fairmend import DataError
from fairmend.data.columns import Frame, as_numbers, distinct_rows, encode, is_missing, scalar
from fairmend.data.given import as_array, as_column

PLAIN_TYPES = st.sampled_from(
    [np.bool_, np.int8, np.uint8, np.int16, np.int64, np.uint64, np.float32, np.float64, "U2", "S2"]
)


def plain(values):
    """Values as Python's, missing ones as None: what a container adds is not compared."""
    return [None if is_missing(value) else scalar(value) for value in values]


def decoded(encoded):
    return plain(encoded.values[encoded.codes])


# -------------------------------------------------------------------- one column


@given(PLAIN_TYPES.flatmap(lambda dtype: hnp.arrays(dtype, st.integers(1, 50))))
def test_codes_are_those_of_unique(column):
    values, inverse = np.unique(column, return_inverse=True)
    encoded = encode(column)
    np.testing.assert_array_equal(encoded.values, values)
    np.testing.assert_array_equal(encoded.codes, inverse)


@given(st.lists(st.integers(-(2**70), 2**70) | st.text(max_size=3) | st.none() | st.floats()))
def test_python_objects_come_back_and_missing_ones_are_one_value_the_last(entries):
    column = np.empty(len(entries), object)
    column[:] = entries
    encoded = encode(column)
    assert decoded(encoded) == plain(entries)
    missing = [is_missing(entry) for entry in entries]
    assert encoded.has_missing == any(missing)
    assert encoded.missing.tolist() == missing
    assert len(encoded.values) == len(set(plain(entries)))


NA = None
COLUMNS = {
    "booleans": [True, False, True],
    "booleans and missing": [True, NA, False],
    "integers": [3, 1, 3, -5],
    "integers and missing": [3, NA, 3, -5],
    "integers no float can tell apart": [2**60, NA, 2**60 + 1, 2**60],
    "floats": [0.5, -1.0, 0.5, float("inf")],
    "floats and missing": [0.5, NA, 0.5],
    "texts": ["b", "a", "b", ""],
    "texts and missing": ["b", NA, "a", "b"],
    "many texts": [f"t{i % 40}" for i in range(100)],
    "many texts and missing": [f"t{i % 40}" if i % 7 else NA for i in range(100)],
    "dates": [dt.date(2024, 2, 29), dt.date(1900, 1, 1)],
    "times and missing": [dt.datetime(2024, 2, 29, 12), NA, dt.datetime(1970, 1, 1)],
    "decimals": [Decimal("1.5"), NA, Decimal("-2")],
    "bytes": [b"b", b"a", NA],
    "nothing": [NA, NA],
}


@pytest.mark.parametrize("entries", COLUMNS.values(), ids=COLUMNS)
def test_every_container_gives_the_same_codes(entries):
    expected = sorted({entry for entry in entries if entry is not NA})
    for make in (
        list,
        lambda e: np.array([*e, None], object)[:-1],
        lambda e: pd.Series(e, dtype=object),
        lambda e: pd.Series(pd.array(e)),
        lambda e: pl.Series(e, strict=False),
        pa.array,
        lambda e: pa.chunked_array([pa.array(e)]),
    ):
        encoded = encode(as_column(make(entries), "test"))
        assert decoded(encoded) == entries
        assert plain(encoded.values) == expected + [NA] * (NA in entries)


@pytest.mark.parametrize(
    "column",
    [
        pd.Series([3, NA, 3, -5], dtype="Int64"),
        pd.Series([3, NA, 3, -5], dtype="Float32"),
        pd.Series([3, NA, 3, -5], dtype="int64[pyarrow]"),
        pd.Series(pd.Categorical([3, NA, 3, -5], categories=[9, 3, -5])),
        pd.Series(pd.Categorical([3, NA, 3, -5], categories=[3, 0, -5], ordered=True)),
        pd.Categorical([3, NA, 3, -5]),
        pd.Index([3, NA, 3, -5]),
    ],
    ids=lambda column: str(column.dtype),
)
def test_pandas_types_of_numbers(column):
    encoded = encode(as_column(column, "test"))
    assert decoded(encoded) == [3, NA, 3, -5]
    assert plain(encoded.values) == [-5, 3, NA]


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(["b", NA, "a"], dtype="string[python]"),
        pd.Series(["b", NA, "a"], dtype="string[pyarrow]"),
        pd.Series(pd.Categorical(["b", NA, "a"], categories=["unused", "b", "a"])),
        pl.Series(["b", NA, "a"], dtype=pl.Categorical),
        pl.Series(["b", NA, "a"], dtype=pl.Enum(["unused", "b", "a"])),
        pa.array(["b", NA, "a"]).dictionary_encode(),
        pa.chunked_array([pa.array(["b", NA]), pa.array(["a"])]).dictionary_encode(),
    ],
    ids=lambda column: str(getattr(column, "dtype", None) or column.type),
)
def test_types_of_text(column):
    encoded = encode(as_column(column, "test"))
    assert decoded(encoded) == ["b", NA, "a"]
    assert plain(encoded.values) == ["a", "b", NA]


def test_a_value_the_probe_does_not_meet_is_still_found():
    for rare, common in (("rare", "common"), (7.5, 1.0)):
        entries = [rare if i == 3_001 else common for i in range(9_000)]
        for column in (np.array(entries), nw.from_native(pl.Series(entries), series_only=True)):
            assert decoded(encode(column)) == entries


def test_many_nans_are_one_value():
    column = np.array([np.nan, 1.0, -np.nan, 1.0])
    assert encode(column).codes.tolist() == [1, 0, 1, 0]
    assert encode(column.astype(object)).codes.tolist() == [1, 0, 1, 0]


def test_values_of_mixed_types_are_ordered_by_type():
    column = np.array(["b", 2, None, "a", 1.5, True, float("nan")], object)
    assert encode(column).values.tolist() == [True, 1.5, 2, "a", "b", None]


def test_values_without_an_order_are_ordered_somehow():
    values = np.array([(1, "a"), "b", (1, "a")], object)
    assert decoded(encode(values)) == values.tolist()


def test_complex_numbers_are_refused():
    with pytest.raises(DataError, match="Complex data not supported"):
        encode(np.array([2j, 1j]))


def test_nanoseconds_become_datetimes():
    stamp = np.datetime64("2024-02-29T12:00", "ns")
    assert scalar(stamp) == dt.datetime(2024, 2, 29, 12)
    assert scalar(np.timedelta64(1500, "ns")) == dt.timedelta(microseconds=1)
    assert scalar(np.datetime64("NaT", "ns")) is None


def test_numbers_among_texts_stay_numbers():
    assert as_array(["a", 1, float("nan")], "test").tolist()[:2] == ["a", 1]
    assert as_array([1, "a"], "test").tolist() == [1, "a"]
    assert Frame.read([[1, "a"], [2.5, "b"]]).native.tolist() == [[1, "a"], [2.5, "b"]]


def test_only_numbers_are_numbers():
    assert as_numbers(np.array([1, Decimal("0.5"), None, True], object)).tolist()[:2] == [1, 0.5]
    mixed = [Decimal("NaN"), 1.5, Decimal(1), Decimal("NaN"), 2]
    assert as_numbers(encode(np.array(mixed, object)).values)[:3].tolist() == [1, 1.5, 2]
    assert encode(np.array(mixed, object)).codes.tolist() == [3, 1, 0, 3, 2]  # one missing value
    huge = np.array([10**400, -(10**400)], object)
    assert as_numbers(huge).tolist() == [np.inf, -np.inf]
    for array in (["1"], [1j], [dt.date(2024, 2, 29)], np.ones(1, "m8[s]"), np.ones(1, "M8[s]")):
        assert as_numbers(np.asarray(array)) is None


# -------------------------------------------------------------------- distinct rows

INTEGERS = st.sampled_from([np.int8, np.uint8, np.int32, np.int64, np.uint64])


@st.composite
def integer_matrices(draw):
    """A few to many columns, from two values wide to the whole range of the type."""
    info = np.iinfo(draw(INTEGERS))
    reach = draw(st.sampled_from([1, 5, 1 << 20, 1 << 40, 1 << 70]))
    start = draw(st.integers(int(info.min), int(info.max)))
    entries = st.integers(start, min(start + reach, int(info.max)))
    shape = draw(st.tuples(st.integers(1, 25), st.integers(1, 9)))
    matrix = draw(hnp.arrays(info.dtype, shape, elements=entries))
    return matrix[
        draw(hnp.arrays(np.int64, 2 * len(matrix), elements=st.integers(0, len(matrix) - 1)))
    ]


def check_distinct(found, matrix):
    _, first, inverse = np.unique(matrix, axis=0, return_index=True, return_inverse=True)
    np.testing.assert_array_equal(found.first, first)
    np.testing.assert_array_equal(found.inverse, inverse.ravel())
    np.testing.assert_array_equal(matrix[found.first][found.inverse], matrix)


@given(integer_matrices())
def test_distinct_rows_of_integers(matrix):
    check_distinct(Frame.read(matrix).distinct(), matrix)
    check_distinct(distinct_rows([encode(column) for column in matrix.T]), matrix)


@given(integer_matrices())
def test_distinct_rows_are_the_same_from_every_container(matrix):
    names = [f"c{j}" for j in range(matrix.shape[1])]
    columns = dict(zip(names, matrix.T, strict=True))
    for frame in (pd.DataFrame(columns), pl.DataFrame(columns), pa.table(columns)):
        check_distinct(Frame.read(frame).distinct(), matrix)


@pytest.mark.parametrize("kind", [np.int64, np.float64], ids=["integers", "floats"])
def test_distinct_rows_of_more_columns_than_one_key_can_hold(kind):
    rng = np.random.default_rng(0)
    matrix = rng.integers(-500, 500, (600, 40)).astype(kind)  # 1000^40 possible rows
    check_distinct(Frame.read(matrix).distinct(), matrix)
    doubled = np.concatenate([matrix, matrix[::-1]])
    check_distinct(Frame.read(doubled).distinct(), doubled)


def test_missing_entries_are_one_more_distinct_value():
    matrix = np.array([[np.nan, 1], [0, 1], [np.nan, 1], [0, np.nan]])
    expected = [2, 0, 2, 1]
    assert Frame.read(matrix).distinct().inverse.tolist() == expected
    for frame in (
        pd.DataFrame(matrix),
        pd.DataFrame(matrix).astype("Int64"),
        pl.DataFrame(matrix),
        pl.DataFrame({"a": [None, 0, None, 0], "b": [1, 1, 1, None]}),
        pa.table({"a": [None, "0", None, "0"], "b": ["1", "1", "1", None]}),
    ):
        assert Frame.read(frame).distinct().inverse.tolist() == expected


# -------------------------------------------------------------------- frames

TABLE = {"age": [30, 40, 50], "job": ["cook", None, "nurse"], "paid": [True, False, True]}
FRAMES = [pd.DataFrame(TABLE, index=[7, 7, 3]), pl.DataFrame(TABLE), pa.table(TABLE)]


@pytest.mark.parametrize("native", FRAMES, ids=lambda f: type(f).__module__.split(".")[0])
def test_rows_and_columns_are_cut_in_their_own_container(native):
    frame = Frame.read(native)
    assert (len(frame), frame.names) == (3, ("age", "job", "paid"))
    cut = frame.take(np.array([2, 0]))
    assert type(cut.native) is type(native)
    assert [decoded(column) for column in cut.encoded] == [[50, 30], ["nurse", "cook"], [True] * 2]
    assert decoded(encode(frame.slice(1, 9).column("job"))) == [None, "nurse"]
    assert frame.drop(["job"]).names == ("age", "paid")
    assert frame.drop([]) is frame
    before, after = nw.from_native(native).schema, nw.from_native(cut.native).schema
    assert before == after


def test_an_array_has_numbered_columns():
    frame = Frame.read(np.array([[1, 2], [3, 4]]))
    assert frame.names == ("x0", "x1")
    assert frame.column("x1").tolist() == [2, 4]
    assert frame.drop(["x0"]).native.tolist() == [[2], [4]]


def test_columns_may_be_named_by_numbers():
    frame = Frame.read(pd.DataFrame([[1, 2], [3, 4]]))
    assert frame.names == (0, 1)
    assert frame.distinct().inverse.tolist() == [0, 1]


def test_a_narwhals_frame_is_read_as_what_it_wraps():
    assert isinstance(Frame.read(nw.from_native(pl.DataFrame(TABLE))).native, pl.DataFrame)


def test_integers_of_128_bits_stay_what_they_are():
    """NumPy has none; a file read by Polars may."""
    entries = [68888888888888888888888888888888888, 0, 68888888888888888888888888888888888]
    series = nw.from_native(pl.Series(entries, dtype=pl.Int128), series_only=True)
    assert decoded(encode(series)) == entries
    some = nw.from_native(pl.Series([*entries, None], dtype=pl.Int128), series_only=True)
    assert decoded(encode(some)) == [*entries, None]


@given(st.integers(0, 10_000))
def test_rows_taken_from_a_coded_table_have_the_codes_they_would_get(seed):
    rng = np.random.default_rng(seed)
    n = 30
    native = pd.DataFrame(
        {
            "word": rng.choice(["b", "a", "c"], n),
            "whole": rng.integers(0, 5, n),
            "number": np.where(rng.random(n) < 0.2, np.nan, rng.integers(0, 4, n) / 2),
        }
    )
    whole, rows = Frame.read(native), rng.integers(0, n, 8)
    assert len(whole.encoded) == 3
    taken = whole.take(np.arange(n)).take(rows)
    for here, anew in zip(taken.encoded, Frame.read(native.iloc[rows]).encoded, strict=True):
        assert here.codes.tolist() == anew.codes.tolist()
        np.testing.assert_array_equal(here.values, anew.values)


def test_of_equal_values_rows_that_are_taken_show_their_own():
    column = np.array([True, 1, 0], object).reshape(-1, 1)
    whole = Frame.read(column)
    assert whole.encoded[0].values.tolist() == [0, True]
    [taken] = whole.take(np.array([1, 2])).encoded
    assert [type(value) for value in taken.values] == [int, int]


def test_a_pickle_holds_the_rows_and_not_what_they_were_taken_from():
    whole = Frame.read(np.arange(200_000).reshape(-1, 2))
    assert len(whole.encoded) == 2
    taken = pickle.dumps(whole.take(np.array([0])))
    assert len(taken) < 1_000
    assert pickle.loads(taken).encoded[1].values.tolist() == [1]
