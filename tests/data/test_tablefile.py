"""Tables as people's programs write them."""

import csv
import io
import os
import re
import sys
import threading
import zipfile

import polars as pl
import pytest
import xlsxwriter

from fairmend.data.csvbytes import Dialect
from fairmend.data.filekind import file_kind
from fairmend.data.spelling import Spelling
from fairmend.data.tablefile import (
    open_rows,
    read_table,
    refuse_blanks,
    refuse_odd_weights,
)
from fairmend.errors import DataError, FairmendWarning, MissingExtra


def test_empty_cells_are_missing_in_quotes_too(tmp_path):
    (tmp_path / "t.csv").write_text('"a","b"\n"","1"\n"x",""\n"NA","NA"\n')
    table = read_table(tmp_path / "t.csv", spelling=Spelling(missing=("NA",))).frame
    assert table.rows() == [(None, 1), ("x", None), (None, None)]


def test_types_that_are_known(tmp_path):
    (tmp_path / "t.csv").write_text("zip,n\n007,1\n010,2\n")
    table = read_table(tmp_path / "t.csv", types={"zip": pl.String}).frame
    assert table.rows() == [("007", 1), ("010", 2)]


@pytest.mark.parametrize(
    ("head", "separator"),
    [(b"a,b;c,d\n", ","), (b'"a,b";c;d\n', ";"), (b"a\tb,c\td\n", "\t"), (b"a|b|c\n", "|"),
     (b"a\n", ",")],
)  # fmt: skip
def test_the_first_line_tells_the_separator(head, separator):
    assert Dialect.of(head).separator == separator


def test_the_first_bytes_go_before_the_suffix():
    assert file_kind(b"PAR1....", "x.csv") == "parquet"
    assert file_kind(b"a,b\n1,2\n", "x.unknown") == "csv"
    with pytest.raises(DataError, match="must be text in UTF-8; got UTF-16"):
        file_kind(b"\xff\xfea\x00", "x.csv")


@pytest.mark.parametrize(
    ("head", "what"),
    [
        (b"\x1f\x8b\x08\x00", "gzip"), (b"PK\x03\x04", "a zip"), (b"BZh91AY", "bzip2"),
        (b"\xfd7zXZ\x00\x00", "xz"), (b"\x89PNG\r\n", "a picture"), (b"%PDF-1.7", "a PDF"),
        (b'[{"a": 1}]', "JSON"), (b'{"a": 1}\n{"a": 2}\n', "JSON, an object a line"),
        (b"<!DOCTYPE html>", "a page"), (b"SQLite format 3\x00", "an SQLite"),
    ],
)  # fmt: skip
def test_packed_files_are_called_so(head, what):
    with pytest.raises(DataError, match=f"must be CSV, Parquet or Arrow as it is; got {what}"):
        file_kind(head, "x.csv.gz")


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-16", "utf-32"])
def test_text_in_wider_units_is_called_so(encoding):
    with pytest.raises(DataError, match="must be text in UTF-8; got UTF-"):
        file_kind("sex,score\nf,0.5\n".encode(encoding), "x.csv")


def test_spreadsheets_need_their_reader(tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / "t.xlsx", "w") as file:
        file.writestr("[Content_Types].xml", "<Types/>")
        file.writestr("xl/workbook.xml", "<workbook/>")
    assert file_kind((tmp_path / "t.xlsx").read_bytes(), "t.xlsx") == "excel"
    assert file_kind(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1....", "t.xls") == "excel"
    monkeypatch.setitem(sys.modules, "fastexcel", None)
    with pytest.raises(MissingExtra, match=r"pip install 'fairmend\[excel\]'"):
        read_table(tmp_path / "t.xlsx")
    with (
        pytest.raises(DataError, match=r"got a spreadsheet. Save the sheet as CSV"),
        open_rows(str(tmp_path / "t.xlsx")),
    ):
        pass


def test_text_in_a_spreadsheet_is_read_as_in_a_csv(tmp_path):
    """Exports hold amounts as text; as words, each would be a category of its own."""
    texts = {"id": ["007", "8"], "amount": ["1.598,84", "k.A."], "job": ["k.A.", "clerk"]}
    table = pl.DataFrame(texts | {"age": [41, 17], "paid": [0.5, None]})
    table.write_excel(tmp_path / "t.xlsx")
    spelling = Spelling(missing=("k.A.",), decimal=",")
    read = read_table(tmp_path / "t.xlsx", spelling=spelling, types={"id": pl.String})
    rows = read.frame.with_columns(pl.col("age", "paid").cast(float)).rows()
    assert rows == [("007", 1598.84, None, 41, 0.5), ("8", None, "clerk", 17, None)]
    read = read_table(tmp_path / "t.xlsx", spelling=Spelling(missing=("k.A.",)))
    with pytest.raises(DataError, match=r"'amount', row 1: .* got '1.598,84'.*--decimal ,"):
        read.findings.use(["amount"])
    with pytest.raises(DataError, match="Save the sheet as CSV"), open_rows(tmp_path / "t.xlsx"):
        pass


def test_a_spreadsheet_of_several_sheets_is_refused(tmp_path):
    with xlsxwriter.Workbook(tmp_path / "t.xlsx") as book:
        pl.DataFrame({"about": ["export"]}).write_excel(book, "Readme")
        pl.DataFrame({"a": [1]}).write_excel(book, "People")
        book.add_worksheet("empty")
    with pytest.raises(DataError, match=r"must have one sheet; got 'Readme', 'People'\. Save"):
        read_table(tmp_path / "t.xlsx")


def test_devices_are_no_files():
    for device in ("/dev/zero", "/dev/null"):
        with pytest.raises(DataError, match="must be a file or a pipe; it is a device"):
            read_table(device)
        with pytest.raises(DataError, match="it is a device"), open_rows(device):
            pass


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_named_pipe_is_read(tmp_path, suffix):
    table = pl.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    content = io.BytesIO()
    table.write_csv(content) if suffix == "csv" else table.write_parquet(content)
    for read in (
        lambda path: read_table(path).frame,
        lambda path: _streamed(str(path)),
    ):
        pipe = tmp_path / f"pipe.{suffix}"
        os.mkfifo(pipe)
        writer = threading.Thread(target=pipe.write_bytes, args=(content.getvalue(),))
        writer.start()
        assert read(pipe).equals(table)
        writer.join()
        pipe.unlink()


def _streamed(path):
    with open_rows(path) as stream:
        return pl.concat(block.rows for block in stream.blocks({"a": None, "b": None}))


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
    spelling = Spelling(decimal=",")
    table = read_table(tmp_path / "t.csv", spelling=spelling).frame
    assert table.rows() == [
        (1598.84, 0.5, 1, "01.02.2024", "a,b"),
        (-950.1, 0.25, 2, "02.02.2024", "1,5"),
        (1e6, 3.0, 3, None, "2"),
    ]
    types = {"income": pl.Float64, "n": pl.Int64, "share": pl.String}
    known = read_table(tmp_path / "t.csv", spelling=spelling, types=types).frame
    assert known["income"].to_list() == table["income"].to_list()
    assert known["share"].to_list() == ["0,5", ",25", "3"]


def column(tmp_path, cells, **said):
    """Cells as the only column of a file, read as somebody said they are written."""
    with (tmp_path / "t.csv").open("w", newline="") as file:
        csv.writer(file, delimiter=";", lineterminator="\n").writerows([["x", "n"], *(
            [cell, i] for i, cell in enumerate(cells))])  # fmt: skip
    return read_table(tmp_path / "t.csv", spelling=Spelling(**said))


@pytest.mark.parametrize(
    ("cells", "said", "values"),
    [
        (["3,392.88", "12", "-1,000"], {"thousands": ","}, [3392.88, 12.0, -1000.0]),
        (["3,392", "12"], {"thousands": ","}, [3392, 12]),
        (["$3,392.88", "-$5", "$-5", "7"], {"thousands": ",", "currency": "$"},
         [3392.88, -5.0, -5.0, 7.0]),
        (["12 EUR", "EUR 13"], {"currency": "EUR"}, [12, 13]),
        (["3'392.88", "3’392"], {"thousands": "'"}, [3392.88, 3392.0]),
        (["3 392,5", "3\u202f392,5"], {"decimal": ",", "thousands": " "}, [3392.5, 3392.5]),
        (["12.5%", "7 %"], {"percent": True}, [0.125, 0.07]),
        ([" 1", "+2", "3 ", "−4"], {}, [1, 2, 3, -4]),
        (["1", "2", "3+", "4"], {"words": ("x",)}, ["1", "2", "3+", "4"]),
        (["1598,84", "12"], {"decimal": "."}, ["1598,84", "12"]),  # who says so has looked
        (["1,2,3", "4,5"], {}, ["1,2,3", "4,5"]),
        (["a", "b, c"], {}, ["a", "b, c"]),
        (["01.02.2024", "x"], {"decimal": ","}, ["01.02.2024", "x"]),
        (["true", "FALSE", "True"], {}, [True, False, True]),
    ],
)  # fmt: skip
def test_numbers_as_people_write_them(tmp_path, cells, said, values):
    table = column(tmp_path, cells, **said)
    table.findings.use(["x"])
    assert table.frame["x"].to_list() == values


@pytest.mark.parametrize(
    ("cells", "said", "row", "fix"),
    [
        (["7", "3,392.88"], {}, 1, "--thousands ,"),
        (["$3,392.88"], {}, 0, "--currency '$' --thousands ,"),
        (["3'392.88"], {}, 0, '--thousands "\'"'),
        (["7", "3,392"], {}, 1, "--thousands , if that is 3392, or --decimal , if it is 3.392"),
        (["12.5%"], {}, 0, "--percent"),
        (["12.5%", "7"], {"percent": True}, 1, "Write all of the column in one way"),
        (["1598,84", "12"], {}, 0, "--decimal ,"),
        (["1.598,84", "1.000", "7"], {}, 0, "--decimal ,"),
        (["0.53", "1"], {"decimal": ","}, 0, "Write all of the column in one way"),
        (["1", "2", "unknown"], {}, 2, "--missing unknown; if the column holds words, --words x"),
        (["1", "2", "3+"], {}, 2, "--words x"),
        (["1", "1234567890123456789012345"], {}, 1, "--words x"),
    ],
)
def test_mostly_numbers_are_no_words(tmp_path, cells, said, row, fix):
    table = column(tmp_path, cells, **said)
    table.findings.use(["n"])  # of a column that nobody needs, nothing is said
    with pytest.raises(DataError) as raised:
        table.findings.use(["n", "x"])
    assert raised.value.what == f"column 'x', line {row + 2}"
    assert raised.value.got == f"got {cells[row]!r}"
    assert fix in raised.value.fix


@pytest.mark.parametrize("token", ["NA", "n/a", "-", "?", ".", "NULL", "None", "NaN"])
def test_what_stands_for_a_missing_value_among_numbers_is_told(tmp_path, token):
    table = column(tmp_path, ["1.5", token, "3", token])
    said = re.escape(f"column 'x' is read as numbers; {token!r} in 2 cells")
    with pytest.warns(FairmendWarning, match=said):
        table.findings.use(["x"])
    assert table.frame["x"].to_list() == [1.5, None, 3.0, None]
    words = column(tmp_path, ["a", token, "b", "1"])
    words.findings.use(["x"])
    assert words.frame["x"].to_list() == ["a", token, "b", "1"]


# -------------------------------------------------------------------- what is wrong, and where


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a;b\n1;x\n2;Müller\n".encode("latin-1"), "line 3: must be text in UTF-8; got bytes of "
         "another encoding. Save it as CSV UTF-8;"),
        ("größe;b\n1;x\n".encode("latin-1"), "line 1: must be text in UTF-8;"),
        (b"a,b\n1,2\n1,2,3\n", "line 3: must have as many cells as the first line, 2; got 3. Put "
         "cells that hold ',' in quotes."),
        (b"import os\n\ndef f(a, b):\n    pass\n", "line 3: must have as many cells as the first "
         "line, 1; got 2. Put cells that hold ',' in quotes. Or is the file no table?"),
        (b'a,b\n1,2\n"1,2\n3,4\n', "line 3: must be part of a table in CSV; a quote is never "
         "closed."),
    ],
)  # fmt: skip
def test_what_is_no_table_is_said_with_its_line(content, message, tmp_path):
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(DataError) as raised:
        read_table(tmp_path / "t.csv")
    assert f"t.csv', {message}" in str(raised.value)
    assert "ragged" not in str(raised.value)


@pytest.mark.parametrize(
    ("cell", "decimal", "fix"),
    [
        ("forty", ".", "If that stands for a missing value, say --missing forty."),
        ("40,5", ".", "If that is a number, say --decimal ,."),
        ("40.5", ",", "Write all of the column in one way."),
    ],
)
@pytest.mark.parametrize("kind", [pl.Int64, pl.Float64])
def test_a_cell_that_is_not_of_its_known_type(cell, decimal, fix, kind, tmp_path):
    (tmp_path / "t.csv").write_text(f'age;b\n31;x\n;"y\ny"\n{cell};z\n')
    with pytest.raises(DataError) as raised:
        read_table(tmp_path / "t.csv", types={"age": kind}, spelling=Spelling(decimal=decimal))
    assert str(raised.value) == (
        f"column 'age', line 5: must be a number, as in the audit data; got {cell!r}. {fix}"
    )


def test_a_prediction_that_is_missing_is_said_with_its_row():
    table = pl.DataFrame(
        {"score": [0.5, None, float("nan"), 0.1], "sex": ["f", None, "m", "f"], "n": [1, 2, 3, 4]}
    )
    refuse_blanks(table, "n")
    with pytest.raises(DataError, match="it is empty in row 2, and in 1 more"):
        refuse_blanks(table, "score")
    with pytest.raises(DataError, match="it is empty in row 103"):
        refuse_blanks(table, "score", among=["sex"], where=lambda row: f"row {row + 101}")


@pytest.mark.parametrize("name", ['12" pipe, "new"', '"', 'two\n"lines"', "plain"])
def test_quotes_in_names_of_columns(tmp_path, name):
    """As Python's own module writes them; types are known by the true name."""
    with (tmp_path / "t.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["a", name, "b"], [1, "007", "x"]])
    assert read_table(tmp_path / "t.csv").frame.to_dicts() == [{"a": 1, name: 7, "b": "x"}]
    typed = read_table(tmp_path / "t.csv", types={name: pl.String}).frame
    assert typed.to_dicts() == [{"a": 1, name: "007", "b": "x"}]
    with open_rows(str(tmp_path / "t.csv")) as stream:
        assert [block.rows.rows() for block in stream.blocks({name: pl.String})] == [[("007",)]]


def test_an_empty_file_is_called_so(tmp_path):
    for content in ("", " \n\n"):
        (tmp_path / "t.csv").write_text(content)
        with pytest.raises(DataError, match="must hold a header and rows; it is empty"):
            read_table(tmp_path / "t.csv")


@pytest.mark.parametrize("odd", [None, float("nan"), float("inf"), -0.1])
def test_weights_that_are_none(odd):
    table = pl.DataFrame({"w": [0.0, 1.0, odd, odd], "sex": ["f", "m", None, "f"]})
    with pytest.raises(DataError, match=r"column 'w', row 4: must be a weight: a number, 0 or mor"):
        refuse_odd_weights(table, "w", among=["sex"])
    refuse_odd_weights(table[:3], "w", among=["sex"])
