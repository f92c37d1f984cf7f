"""What is read by distinct cells, or as whole columns, is read as one cell after the other is."""

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from fairmend.data import spelling
from fairmend.data.ids import number_people
from fairmend.data.spelling import Findings, Spelling

IDS = st.one_of(
    st.integers(-(10**19), 10**19).map(str),
    st.sampled_from(["7", "07", "7.0", "-7", "-0", "0", "+7", "7e0", "x", "é", "e\u0301", "７"]),
)
CELLS = st.sampled_from(
    ["1", "2.5", "1,5", "1.234,5", "-3", "n/a", "-", "NA", "true", "a", "b", "12 %", "7 EUR", None]
)
SPELLINGS = st.sampled_from(
    [Spelling(), Spelling(decimal=","), Spelling(percent=True), Spelling(currency="EUR")]
)


@given(st.lists(IDS, min_size=1, max_size=30))
def test_ids_of_a_column_of_text_are_numbered_as_a_list_is(ids):
    assert number_people(pl.Series(ids)).tolist() == number_people(ids).tolist()


@given(st.lists(st.integers(-50, 50).map(str), min_size=1, max_size=200))
def test_ids_that_are_all_numbers_are_numbered_as_they_come(ids):
    assert number_people(pl.Series(ids)).tolist() == number_people(ids).tolist()


@given(st.lists(CELLS, min_size=1, max_size=40), SPELLINGS)
def test_distinct_cells_tell_what_all_cells_tell(cells, how):
    def found():
        found = Findings.of(rows.lazy(), ["c"], how, lambda name, row: f"{name} {row}")
        doubt = found.doubts.get("c")
        values = rows.with_columns(**found.expressions)["c"]
        return values.to_list(), values.dtype, found.notes, doubt and str(doubt())

    rows = pl.DataFrame({"c": cells}, schema={"c": pl.String})
    by_distinct = found()
    before, spelling.FEW_DISTINCT = spelling.FEW_DISTINCT, 0
    try:
        assert found() == by_distinct
    finally:
        spelling.FEW_DISTINCT = before
