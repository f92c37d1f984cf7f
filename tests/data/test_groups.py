"""One reader of groups: columns and single people are read by the same rules."""

from datetime import date

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from fairmend.data.columns import Frame
from fairmend.data.groups import (
    OPTED_OUT,
    UNKNOWN,
    GroupReader,
    as_label,
    group_of,
    named_groups,
    read_groups,
)
from fairmend.errors import DataError, FairmendWarning

INTEGERS, BOOLEANS, TEXTS = (0, 1), (False, True), ("F", "Zoé")
BOTH = ("F & 0", "F & 1", "Zoé & 0")


@pytest.mark.parametrize(
    ("groups", "labels", "place"),
    [
        (TEXTS, ["F"], 0),
        (TEXTS, [" F\t"], 0),
        (TEXTS, [np.str_("F")], 0),
        (TEXTS, ["Zoe\u0301 "], 1),
        (TEXTS, ["f"], UNKNOWN),
        (TEXTS, ["M"], UNKNOWN),
        (TEXTS, [1], UNKNOWN),
        (TEXTS, [None], OPTED_OUT),
        (TEXTS, [float("nan")], OPTED_OUT),
        (TEXTS, [pd.NA], OPTED_OUT),
        (TEXTS, [""], OPTED_OUT),
        (("", "F"), [""], 0),
        (INTEGERS, [1], 1),
        (INTEGERS, [1.0], 1),
        (INTEGERS, [True], 1),
        (INTEGERS, ["1"], 1),
        (INTEGERS, [" 1 "], 1),
        (INTEGERS, [np.int8(1)], 1),
        (INTEGERS, [np.float32(1)], 1),
        (INTEGERS, ["1.0"], 1),
        (INTEGERS, ["01"], UNKNOWN),
        (INTEGERS, [1.5], UNKNOWN),
        (INTEGERS, [2], UNKNOWN),
        (INTEGERS, [float("inf")], UNKNOWN),
        (BOOLEANS, [True], 1),
        (BOOLEANS, [np.True_], 1),
        (BOOLEANS, [1], 1),
        (BOOLEANS, [0.0], 0),
        (BOOLEANS, ["True"], 1),
        (BOOLEANS, ["TRUE"], 1),
        (BOOLEANS, ["false "], 0),
        (("true", "x"), ["TRUE"], UNKNOWN),
        ((0.0, 1.0), [1], 1),
        ((0.0, 1.0), ["1"], 1),
        ((0.0, 1.0), ["1.0"], 1),
        (("0", "1"), [1], 1),
        (("0", "1"), [1.0], 1),
        ((0.5, 1.5), [1.5], 1),
        ((date(2020, 1, 1), date(2021, 1, 1)), [date(2021, 1, 1)], 1),
        (BOTH, ["F", 1], 1),
        (BOTH, ["F", 1.0], 1),
        (BOTH, ["F", True], 1),
        (BOTH, ["F", np.False_], 0),
        (BOTH, ["F ", "1"], 1),
        (BOTH, ["F", "true"], 1),
        (BOTH, ["Zoe\u0301", 0], 2),
        (BOTH, ["Zoé", 1], UNKNOWN),
        (BOTH, ["F & 1"], 1),
        (BOTH, ["F", None], OPTED_OUT),
        (BOTH, [None, 1], OPTED_OUT),
        (BOTH, ["", 1], OPTED_OUT),
        (("F", "F "), ["F "], 1),
        (("F", "F "), [" F"], 0),
    ],
)
def test_a_label_has_one_place_in_a_column_and_alone(groups, labels, place):
    assert GroupReader(groups).place(labels) == place
    columns = {f"s{j}": pd.Series([label, None], dtype=object) for j, label in enumerate(labels)}
    member = GroupReader(groups).read(columns, Frame.read(np.zeros((2, 1))))
    assert member.place.tolist() == [max(place, UNKNOWN), UNKNOWN]
    assert member.opted_out.tolist() == [place == OPTED_OUT, True]
    assert member.unknown.tolist() == [place == UNKNOWN, False]


@pytest.mark.parametrize("label", [[], {}, ["F"], {"a": 1}])
def test_what_no_column_can_hold_is_of_no_group(label):
    assert GroupReader(TEXTS).place([label]) == UNKNOWN


@pytest.mark.parametrize(
    "make",
    [
        lambda a, b: np.array([a, b], object).T,
        lambda a, b: list(zip(a, b, strict=True)),
        lambda a, b: pd.DataFrame({"a": a, "b": b}),
        lambda a, b: pl.DataFrame({"a": a, "b": b}),
        lambda a, b: pa.table({"a": a, "b": b}),
        lambda a, b: {"a": a, "b": np.array(b, float)},
        lambda a, b: {"a": pd.Categorical(a), "b": np.array(b, int)},
    ],
)
def test_intersections_are_read_from_every_container(make):
    given = make(["F", "Zoé", "F"], [True, False, False])
    frame = Frame.read(np.zeros((3, 1)))
    assert GroupReader(BOTH).read(given, frame).place.tolist() == [1, 2, 0]
    member, groups, _ = read_groups(given, frame, 3)
    assert [groups[i] for i in member] == ["F & 1", "Zoé & 0", "F & 0"]


def test_numbers_with_missing_ones_are_still_the_audited_numbers():
    frame = Frame.read(np.zeros((3, 1)))
    member = GroupReader(INTEGERS).read(pd.Series([1, None, 0]), frame)
    assert member.place.tolist() == [1, -1, 0]
    assert member.opted_out.tolist() == [False, True, False]


def test_columns_of_x_can_be_named():
    frame = Frame.read(pd.DataFrame({"sex": ["F", "M", "F"], "old": [1, 0, 1]}))
    for given, named, attribute in [
        ("sex", ["sex"], "sex"),
        (["sex", "old"], ["sex", "old"], "sex & old"),
        ({"gender": "sex"}, ["sex"], "gender"),
        (["a", "b", "a"], [], "group"),
    ]:
        assert named_groups(given, frame) == named
        assert read_groups(given, frame, 3)[2] == attribute


def test_spellings_of_a_label_are_merged_with_a_warning():
    with pytest.warns(FairmendWarning, match="do not make another group"):
        member, groups, _ = read_groups(["F", "F ", "M"], None, 3)
    assert groups == ("F", "M")
    assert member.tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    ("given", "must"),
    [
        (["a", "a"], "at least two groups"),
        (["a", "rest"], "'best' or 'rest'"),
        (["1", 1], "read differently"),
        (["a", None], "known for every person"),
        (["a", "b", "c"], "same length"),
        ([], "same length"),
        ({}, "at least one column"),
        (range(501), "2 to 500"),
    ],
)
def test_groups_that_cannot_be_compared_are_refused(given, must):
    n = 501 if isinstance(given, range) else 2
    with pytest.raises(DataError, match=must):
        read_groups(given, None, n)


def test_labels_and_their_groups():
    assert [as_label(value) for value in ("F ", 1, " ", "e\u0301")] == ["F", 1, " ", "é"]
    assert group_of([True]) is True
