"""Tables as people's programs write them."""

import csv

import polars as pl
import pytest

from fairmend.errors import DataError
from fairmend.rowstream import open_rows
from fairmend.tablefile import (
    Dialect,
    kind_of,
    read_table,
    refuse_blanks,
    refuse_odd_weights,
    refuse_other_decimals,
    refuse_stray_words,
    stray_word,
)


def test_empty_cells_are_missing_in_quotes_too(tmp_path):
    (tmp_path / "t.csv").write_text('"a","b"\n"","1"\n"x",""\n"NA","NA"\n')
    table = read_table(tmp_path / "t.csv", missing=["NA"])
    assert table.rows() == [(None, 1), ("x", None), (None, None)]


def test_types_that_are_known(tmp_path):
    (tmp_path / "t.csv").write_text("zip,n\n007,1\n010,2\n")
    table = read_table(tmp_path / "t.csv", types={"zip": pl.String})
    assert table.rows() == [("007", 1), ("010", 2)]


@pytest.mark.parametrize(
    ("head", "separator"),
    [(b"a,b;c,d\n", ","), (b'"a,b";c;d\n', ";"), (b"a\tb,c\td\n", "\t"), (b"a|b|c\n", "|"),
     (b"a\n", ",")],
)  # fmt: skip
def test_the_first_line_tells_the_separator(head, separator):
    assert Dialect.of(head).separator == separator


def test_the_first_bytes_go_before_the_suffix():
    assert kind_of(b"PAR1....", "x.csv") == "parquet"
    assert kind_of(b"a,b\n1,2\n", "x.unknown") == "csv"
    with pytest.raises(DataError, match="must be text in UTF-8; got UTF-16"):
        kind_of(b"\xff\xfea\x00", "x.csv")


@pytest.mark.parametrize(
    ("head", "what"), [(b"\x1f\x8b\x08\x00", "gzip"), (b"PK\x03\x04", "a zip")]
)
def test_packed_files_are_called_so(head, what):
    with pytest.raises(DataError, match=f"must be CSV, Parquet or Arrow as it is; got {what}"):
        kind_of(head[:8], "x.csv.gz")


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ('a,"b\nc",a', "column 'a': must be in the file once; got 2 of that name"),
        ("a,,", "columns without a name: must be in the file once; got 2"),
    ],
)
def test_columns_of_one_name_are_refused(tmp_path, header, message):
    (tmp_path / "t.csv").write_text(f"{header}\n1,2,3\n")
    with pytest.raises(DataError, match=message):
        read_table(tmp_path / "t.csv")


def test_a_header_alone_is_no_table(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n")
    with pytest.raises(DataError, match="must hold at least one row; got none"):
        read_table(tmp_path / "t.csv")


# -------------------------------------------------------------------- decimal marks


def test_decimal_commas_are_read_where_they_are_said_to_be(tmp_path):
    (tmp_path / "t.csv").write_text(
        "income;share;n;day;code\n1.598,84;0,5;1;01.02.2024;a,b\n-950,1;,25;2;02.02.2024;1,5\n"
        "1 000 000;3;3;;2\n"
    )
    table = read_table(tmp_path / "t.csv", decimal=",")
    assert table.rows() == [
        (1598.84, 0.5, 1, "01.02.2024", "a,b"),
        (-950.1, 0.25, 2, "02.02.2024", "1,5"),
        (1e6, 3.0, 3, None, "2"),
    ]
    types = {"income": pl.Float64, "n": pl.Int64, "share": pl.String}
    known = read_table(tmp_path / "t.csv", decimal=",", types=types)
    assert known["income"].to_list() == table["income"].to_list()
    assert known["share"].to_list() == ["0,5", ",25", "3"]


@pytest.mark.parametrize(
    ("cells", "decimal", "refused"),
    [
        (["1598,84", "12", None, "-0,5"], None, "1598,84"),
        (["1.598,84", "1.000", "7"], None, "1.598,84"),
        (["1598,84"] * 97 + ["n/a"] * 3, None, "1598,84"),
        (["1598,84"] * 90 + ["n/a"] * 10, None, None),
        (["1598,84", "12"], ".", None),  # words: whoever says so has looked
        (["1,2,3", "4,5"], None, None),
        (["7", "12", "n/a"], None, None),
        (["a", "b, c"], None, None),
        (["0.53", "1"], ",", "0.53"),
        (["01.02.2024"], ",", None),
    ],
)
def test_numbers_with_another_decimal_mark_are_no_words(cells, decimal, refused):
    table = pl.DataFrame({"n": range(len(cells)), "income": cells})
    if refused is None:
        refuse_other_decimals(table, ["n", "income"], decimal)
        return
    refuse_other_decimals(table, ["n"], decimal)
    with pytest.raises(DataError) as raised:
        refuse_other_decimals(table, ["n", "income"], decimal)
    assert raised.value.what == "column 'income'"
    assert raised.value.got == f"got {refused!r} and the like"
    assert ("say --decimal ','" in raised.value.fix) == (decimal is None)


# -------------------------------------------------------------------- what is wrong, and where


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a;b\n1;x\n2;Müller\n".encode("latin-1"), "row 2: must be text in UTF-8; got bytes of "
         "another encoding. Save it as CSV UTF-8;"),
        ("größe;b\n1;x\n".encode("latin-1"), "its first line: must be text in UTF-8;"),
        (b"a,b\n1,2\n1,2,3\n", "row 2: must have no more cells than the first line, 2; got 3. Put "
         "cells that hold ',' in quotes."),
        (b"import os\n\ndef f(a, b):\n    pass\n", "row 2: must have no more cells than the first "
         "line, 1; got 2. Put cells that hold ',' in quotes. Or is the file no table?"),
        (b'a,b\n1,2\n"1,2\n3,4\n', "row 2: must be part of a table in CSV; a quote is never "
         "closed."),
    ],
)  # fmt: skip
def test_what_is_no_table_is_said_with_its_row(content, message, tmp_path):
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(DataError) as raised:
        read_table(tmp_path / "t.csv")
    assert f"t.csv', {message}" in str(raised.value)
    assert "ragged" not in str(raised.value)


@pytest.mark.parametrize(
    ("cell", "decimal", "fix"),
    [
        ("forty", ".", "Mend the cell, or name what stands for a missing value with --missing."),
        ("40,5", ".", "If that is a number with a decimal comma, say --decimal ','."),
        ("40.5", ",", "If that is a number with a decimal point, write the whole file with one "
                      "mark."),
    ],
)  # fmt: skip
def test_a_cell_that_is_not_of_its_known_type(cell, decimal, fix, tmp_path):
    (tmp_path / "t.csv").write_text(f"age;b\n31;x\n;y\n{cell};z\n")
    with pytest.raises(DataError) as raised:
        read_table(tmp_path / "t.csv", types={"age": pl.Int64}, decimal=decimal)
    assert str(raised.value) == (
        f"column 'age', row 3: must be a number, as in the audit data; got {cell!r}. {fix}"
    )


def test_a_prediction_that_is_missing_is_said_with_its_row():
    table = pl.DataFrame(
        {"score": [0.5, None, float("nan"), 0.1], "sex": ["f", None, "m", "f"], "n": [1, 2, 3, 4]}
    )
    refuse_blanks(table, "n")
    with pytest.raises(DataError, match="it is empty in row 2, and in 1 more"):
        refuse_blanks(table, "score")
    with pytest.raises(DataError, match="it is empty in row 103"):
        refuse_blanks(table, "score", among=["sex"], first=100)


@pytest.mark.parametrize("name", ['12" pipe, "new"', '"', 'two\n"lines"', "plain"])
def test_quotes_in_names_of_columns(tmp_path, name):
    """As Python's own module writes them; types are known by the true name."""
    with (tmp_path / "t.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["a", name, "b"], [1, "007", "x"]])
    assert read_table(tmp_path / "t.csv").to_dicts() == [{"a": 1, name: 7, "b": "x"}]
    typed = read_table(tmp_path / "t.csv", types={name: pl.String})
    assert typed.to_dicts() == [{"a": 1, name: "007", "b": "x"}]
    with open_rows(str(tmp_path / "t.csv")) as stream:
        assert [block.rows.rows() for block in stream.blocks({name: pl.String})] == [[("007",)]]


def test_an_empty_file_is_called_so(tmp_path):
    for content in ("", " \n\n"):
        (tmp_path / "t.csv").write_text(content)
        with pytest.raises(DataError, match="must hold a header and rows; it is empty"):
            read_table(tmp_path / "t.csv")


@pytest.mark.parametrize(
    ("cells", "row"),
    [
        (["1", "2.5", "-3e2"] * 10, None),
        (["a", "b"] * 10, None),
        ([1, 2], None),
        (["1"] * 38 + [None, "x", "y"], 39),  # two of forty
        (["1"] * 37 + ["x", "y"], None),  # two of fewer: words, for all one knows
    ],
)
def test_words_among_numbers(cells, row):
    column = pl.Series("score", cells)
    assert stray_word(column) == row
    if row is not None:
        with pytest.raises(DataError, match=f"column 'score', row {row + 1}: must be a number"):
            refuse_stray_words(column.to_frame(), "score")


@pytest.mark.parametrize("odd", [None, float("nan"), float("inf"), -0.1])
def test_weights_that_are_none(odd):
    table = pl.DataFrame({"w": [0.0, 1.0, odd, odd], "sex": ["f", "m", None, "f"]})
    with pytest.raises(DataError, match=r"column 'w', row 4: must be a weight: a number, 0 or mor"):
        refuse_odd_weights(table, "w", among=["sex"])
    refuse_odd_weights(table[:3], "w", among=["sex"])
