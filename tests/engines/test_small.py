"""Cells of few people: none leaves, and what is said of kinds stays true."""

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fairmend
from fairmend import engines
from fairmend.engines import small
from fairmend.engines.cells import PEOPLE
from fairmend.engines.small import Suppression
from fairmend.errors import DataError

COLUMNS = ["a", "sex", "b", "y"]
KEEP = ("sex", "y")


def cells(*rows):
    return pd.DataFrame(rows, columns=[*COLUMNS, PEOPLE])


def told(counted):
    return sorted(counted.native[[*COLUMNS, PEOPLE]].itertuples(index=False, name=None))


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    people=st.dictionaries(
        st.tuples(
            st.integers(0, 3), st.sampled_from("fm"), st.sampled_from("xyz"), st.integers(0, 1)
        ),
        st.integers(1, 12),
        min_size=1,
    ),
    below=st.integers(2, 10),
    random=st.randoms(use_true_random=False),
)
def test_no_small_cell_leaves_and_kinds_stay_true(people, below, random):
    before = cells(*((*key, n) for key, n in people.items()))
    counted = Suppression(below, KEEP).of(before, COLUMNS)
    after = counted.native
    assert (after[PEOPLE] >= below).all()
    assert after[PEOPLE].sum() + counted.left_out == before[PEOPLE].sum()
    large = set(before[before[PEOPLE] >= below][["a", "b"]].itertuples(index=False, name=None))
    assert set(after[["a", "b"]].itertuples(index=False, name=None)) <= large
    kinds = before.groupby(["sex", "y"])[PEOPLE].sum()
    left = after.groupby(["sex", "y"])[PEOPLE].sum()
    pd.testing.assert_series_equal(
        left, kinds[kinds >= below] if large else kinds[:0], check_dtype=False
    )
    shuffled = list(people.items())
    random.shuffle(shuffled)
    again = Suppression(below, KEEP).of(cells(*((*key, n) for key, n in shuffled)), COLUMNS)
    assert told(again) == told(counted)


@pytest.mark.parametrize("pairs", [1, 1 << 20])
def test_the_nearest_then_the_largest_then_the_first_is_taken(monkeypatch, pairs):
    monkeypatch.setattr(small, "_PAIRS", pairs)
    before = cells(
        (0, "f", "x", 1, 20), (1, "f", "x", 1, 30), (2, "f", "z", 1, 30), (3, "f", "v", 1, 30),
        (0, "f", "y", 1, 1),  # shares a with the first
        (7, "f", "x", 1, 2),  # shares b with two: the larger
        (8, "f", "y", 1, 3),  # shares nothing with any: of the three largest the first
    )  # fmt: skip
    counted = Suppression(10, KEEP).of(before, COLUMNS)
    assert told(counted) == [
        (0, "f", "x", 1, 21), (1, "f", "x", 1, 35), (2, "f", "z", 1, 30), (3, "f", "v", 1, 30),
    ]  # fmt: skip
    assert (counted.left_out, counted.moved) == (0, 6)


@pytest.mark.parametrize("pairs", [1, 1 << 20])
def test_a_kind_without_a_large_cell_goes_to_one_row_that_leaves_anyway(monkeypatch, pairs):
    monkeypatch.setattr(small, "_PAIRS", pairs)
    before = cells(
        (0, "m", "x", 1, 90), (1, "m", "y", 1, 40),
        (1, "f", "z", 1, 3), (2, "f", "y", 1, 4), (0, "f", "w", 1, 9),  # 9 share with the first
        (0, "f", "x", 0, 9),  # a kind of nine people
    )  # fmt: skip
    counted = Suppression(10, KEEP).of(before, COLUMNS)
    assert told(counted) == [(0, "f", "x", 1, 16), (0, "m", "x", 1, 90), (1, "m", "y", 1, 40)]
    assert (counted.left_out, counted.moved) == (9, 16)


@pytest.mark.parametrize("kinds", [3, 200])
def test_merged_in_parts_is_merged_at_once(kinds):
    """Cells cut into parts and joined in a tree; of 200 kinds many have no large one."""
    rng = np.random.default_rng(kinds)
    rows = pd.DataFrame({
        "a": rng.integers(0, 6, 4_000), "b": rng.choice(["x", "y", None], 4_000),
        "c": rng.integers(0, 3, 4_000), "kind": (rng.random(4_000) ** 3 * kinds).astype(int),
    })  # fmt: skip
    columns, suppression = ["a", "b", "c", "kind"], Suppression(12, ("kind",))
    whole = engines.tabulate(rows, columns)
    native = whole.frame.native.assign(**{PEOPLE: whole.people})
    at_once = suppression.of(native, columns)
    large = suppression.large(native, columns)
    cut = np.array_split(rng.permutation(len(native)), 7)
    parts = [suppression.part(native.iloc[rows], large, columns) for rows in cut]
    some = suppression.joined(parts[:3], columns)
    assert len(some.placed) <= len(large), "what travels is no longer than what leaves"
    joined = suppression.joined([suppression.joined(parts[3:], columns), some], columns)
    found = suppression.finished(joined, large, columns)
    pd.testing.assert_frame_equal(found.native, at_once.native)
    assert (found.left_out, found.moved) == (at_once.left_out, at_once.moved)
    assert found.moved > 0
    assert (found.left_out > 0) == (kinds == 200)


def test_many_partitions_are_merged_in_buckets(people):
    """On Dask, in this process: as many partitions as make four buckets."""
    import dask
    import dask.dataframe as dd

    people = people.assign(x=(people["x"] ** 2 * 8).round(), z=(people["x"] * 97 % 1 > 0.5))
    columns, merging = ["x", "z", "sex", "y"], {"suppress_below": 12, "small_cells": "merge"}
    with dask.config.set(scheduler="sync"), warnings.catch_warnings():
        warnings.simplefilter("ignore", fairmend.FairmendWarning)
        found, there = (
            engines.tabulate(engines.source(each, inputs=["x", "z"], **merging), columns)
            for each in (dd.from_pandas(people, npartitions=33), people)
        )
    pd.testing.assert_frame_equal(found.frame.native, there.frame.native, check_dtype=False)
    np.testing.assert_array_equal(found.people, there.people)


def test_agreement_is_counted_beyond_a_byte():
    """Of 300 inputs a small cell shares 299 with one large cell, and 43 with a larger one."""
    names = [f"x{j}" for j in range(300)]
    near, far = np.ones(300, np.int64), np.ones(300, np.int64)
    near[0], far[:257] = 7, 7
    rows = pd.DataFrame([np.ones(300, np.int64), near, far], columns=names)
    counted = Suppression(10, ()).of(rows.assign(**{PEOPLE: [2.0, 20.0, 90.0]}), names)
    after = dict(zip(counted.native["x1"], counted.native[PEOPLE], strict=True))
    assert after == {1: 22, 7: 90}


def test_what_is_not_known_is_one_value():
    """Engines may tell None from nan; to people both mean not known."""
    rows = pd.DataFrame({"a": [np.nan] * 30 + [1.0] * 3, "sex": ["f"] * 33})
    split = pd.DataFrame(
        {"a": np.array([None, float("nan"), 1.0], object), "sex": "f", PEOPLE: [4.0, 26.0, 3.0]}
    )
    whole = engines.tabulate(rows, ["a", "sex"])
    assert whole.people.tolist() == [3, 30]
    counted = Suppression(10, ("sex",)).of(split, ["a", "sex"])
    assert counted.native[PEOPLE].tolist() == [33]
    assert counted.native["a"].isna().all()


@pytest.fixture
def people():
    rng = np.random.default_rng(0)
    n = 500
    return pd.DataFrame(
        {"x": rng.random(n), "sex": rng.choice(["f", "m"], n), "y": rng.integers(0, 2, n)}
    )


def test_a_column_that_is_input_and_group_is_not_changed(tmp_path, people):
    people = people.assign(x=people["x"].round(1), z=people["y"])
    people.to_parquet(tmp_path / "people.parquet", index=False)
    place = engines.source(
        tmp_path / "people.parquet", inputs=["x", "sex"], suppress_below=20, small_cells="merge"
    )

    def model(rows):
        return (rows["sex"] == "f").astype(float)

    with pytest.warns(fairmend.FairmendWarning, match="inputs of a larger cell"):
        found = fairmend.audit(model, place, "y", sensitive_features="sex")
    whole = fairmend.audit(
        model, people[["x", "sex"]], people["y"], sensitive_features=people["sex"]
    )
    pd.testing.assert_frame_equal(found.to_frame(), whole.to_frame())


def test_mistakes_are_told(tmp_path, people):
    with pytest.raises(DataError, match="small_cells: must be 'drop' or 'merge'; got 'blur'"):
        engines.source(people, suppress_below=5, small_cells="blur")
    place = engines.source(people, suppress_below=5, small_cells="merge")
    with pytest.raises(DataError, match="keep: must name the columns that stay true"):
        engines.tabulate(place, ["x", "sex"])
    with pytest.raises(DataError, match="keep: must name a column of X; 'sexx' is not one"):
        engines.tabulate(place, ["x", "sex"], keep=["sexx"])
    people.to_parquet(tmp_path / "people.parquet", index=False)
    place = engines.source(tmp_path / "people.parquet", suppress_below=5, small_cells="merge")
    with pytest.raises(DataError, match="must be 'drop' where cells are counted into a file"):
        engines.tabulate_into(tmp_path / "cells.parquet", place, ["x"])
