"""Rows in the container and the types of fit, whatever they come in."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from fairmend.data.columns import Frame
from fairmend.data.containers import as_fitted, as_kind, from_cells, kind_of
from fairmend.errors import DataError

KNOWN = {"age": [31.5, 40.0, 52.0], "town": ["Ulm", "Jena", "Ulm"], "n": [1, 2, 3]}
KINDS = ("pandas", "polars", "pyarrow", "numpy")
NEW = pl.DataFrame({"n": [7, 8], "town": ["Bonn", "Ulm"], "age": [30, 31], "id": [1, 2]})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("source", KINDS)
def test_tables_change_containers_and_keep_their_values(source, kind):
    table = as_kind(pl.DataFrame({"x0": [1.5, 2.0], "x1": [3.0, 4.0]}), source)
    there = as_kind(table, kind)
    assert kind_of(there) == kind
    assert np.asarray(as_kind(there, "numpy")).tolist() == [[1.5, 3.0], [2.0, 4.0]]
    if kind != "numpy":
        assert list(Frame.read(there).names) == ["x0", "x1"]


def test_whole_numbers_too_large_for_floats_keep_their_digits_beside_missing_ones():
    large = (1 << 53) + 1
    frame = as_kind(pl.DataFrame({"n": [large, None]}), "pandas")
    assert frame["n"][0] == large


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("source", ["pandas", "polars", "pyarrow"])
def test_new_rows_come_as_in_fit(source, kind):
    known = Frame.read(as_kind(pl.DataFrame(KNOWN), kind))
    rows = as_fitted(as_kind(NEW, source), known, ["id"])
    assert kind_of(rows) == kind
    assert list(Frame.read(rows).names) == ["age", "town", "n", "id"]
    again = as_kind(rows, "polars")
    assert again["age"].dtype == pl.Float64
    assert again.rows() == [(30.0, "Bonn", 7, 1), (31.0, "Ulm", 8, 2)]


@pytest.mark.parametrize(
    ("dtype", "cells", "kept"),
    [
        ("f8", [3, 4], "f8"),
        ("f4", [3, 4], "f4"),
        ("i1", [3, 4], "i1"),
        ("i1", [3, 400], "i8"),
        ("i8", [3.0, 4.5], "f8"),
        ("O", [3, 4], "O"),
        ("O", ["a", "b"], "O"),
    ],
)
def test_arrays_keep_the_type_and_the_order_of_fit(dtype, cells, kept):
    known = Frame.read(np.zeros((1, 2), dtype))
    rows = as_fitted(pl.DataFrame({"x1": [1, 2], "x0": cells}), known)
    assert rows.dtype == np.dtype(kept)
    assert rows.tolist() == [[cells[0], 1], [cells[1], 2]]


def test_arrays_of_objects_have_columns_of_their_own_types():
    table = as_kind(np.array([[1, "a", True], [2.5, None, False]], object), "polars")
    assert table.dtypes == [pl.Float64, pl.String, pl.Boolean]
    assert table.rows() == [(1.0, "a", True), (2.5, None, False)]


def test_columns_may_be_named_by_numbers():
    known = Frame.read(pd.DataFrame({0: [1.5], 1: ["a"]}))
    rows = as_fitted(pd.DataFrame({0: [1], 1: ["b"]}), known)
    assert rows[0].tolist() == [1.0]
    assert rows[0].dtype == np.float64


@pytest.mark.parametrize("kind", ["polars", "pyarrow"])
def test_a_column_without_values_has_its_type_of_fit(kind):
    known = Frame.read(as_kind(pl.DataFrame(KNOWN), kind))
    rows = as_fitted(NEW.with_columns(n=pl.lit(None, pl.String)), known)
    assert as_kind(rows, "polars")["n"].to_list() == [None, None]
    assert as_kind(rows, "polars")["n"].dtype == pl.Int64


def test_a_column_that_is_missing_is_named():
    with pytest.raises(DataError, match="columns of fit; 'town' is missing"):
        as_fitted(NEW.drop("town"), Frame.read(pd.DataFrame(KNOWN)))


@pytest.mark.parametrize("ordered", [False, True])
def test_categories_of_fit_stay_in_place_and_new_ones_come_last(ordered):
    town = pd.Categorical(["Ulm", "Jena", "Ulm"], ["Ulm", "Köln", "Jena"], ordered=ordered)
    known = Frame.read(pd.DataFrame({"town": town}))
    rows = as_fitted(pd.DataFrame({"town": ["Jena", "Bonn", None]}), known)["town"]
    again = from_cells([("Jena",), ("Bonn",), (None,)], known).native["town"]
    for made in (rows, again):
        assert list(made.cat.categories) == ["Ulm", "Köln", "Jena", "Bonn"]
        assert made.cat.codes.tolist() == [2, 3, -1]
        assert made.cat.ordered is ordered
    other = pd.DataFrame({"town": pd.Categorical(["Ulm"], ["Jena", "Köln", "Ulm"])})
    assert as_fitted(other, known)["town"].cat.codes.tolist() == [0]


@pytest.mark.parametrize(
    ("dtype", "values", "kept"),
    [
        ("float32", [1, 2], "float32"),
        ("Int64", [1, None], "Int64"),
        ("Int64", [1.5, 2.0], "float64"),
        ("int64", [1.5, None], "float64"),
        ("int8", [1_000, 2], "int64"),
        ("int8", [100, 2], "int8"),
        ("boolean", [True, False], "boolean"),
        ("bool", [True, None], "object"),
        ("string[pyarrow]", ["a", None], "string"),
        ("object", ["a", "b"], "object"),
        ("float64", [None, None], "float64"),
        ("int64", [None, None], "object"),
        ("float64", ["a", "b"], "str"),
        ("datetime64[ns]", pd.to_datetime(["2020-01-01", None]).as_unit("us"), "datetime64[ns]"),
    ],
)
def test_types_of_pandas_are_those_of_fit_where_they_hold_the_values(dtype, values, kept):
    known = pd.DataFrame({"a": pd.Series([], dtype=dtype)})
    rows = as_fitted(pd.DataFrame({"a": values}), Frame(known, ("a",)))
    assert str(rows["a"].dtype) == kept
    assert [v for v in rows["a"] if not pd.isna(v)] == [v for v in values if not pd.isna(v)]


@pytest.mark.parametrize("kind", KINDS)
def test_cells_become_rows_of_the_known_types(kind):
    known = Frame.read(as_kind(pl.DataFrame(KNOWN), kind))
    made = from_cells([(1.0, "Bonn", 4), (None, "Ulm", 5)], known)
    assert kind_of(made.native) == kind
    assert made.names == known.names
    rows = as_kind(made.native, "polars").rows() if kind != "numpy" else made.native.tolist()
    assert [tuple(None if pd.isna(v) else v for v in row) for row in rows] == [
        (1.0, "Bonn", 4),
        (None, "Ulm", 5),
    ]


def test_missing_whole_numbers_need_a_type_that_has_them():
    known = Frame.read(pd.DataFrame({"n": [1, 2]}))
    assert from_cells([(None,), (3,)], known).native["n"].tolist() == [None, 3]
    assert from_cells([(None,), (3,)], Frame.read(np.array([[1]]))).native.dtype == object
    assert pa.types.is_int64(
        from_cells([(None,), (3,)], Frame.read(pa.table({"n": [1]}))).native["n"].type
    )
