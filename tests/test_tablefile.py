"""Tables as people's programs write them."""

import polars as pl
import pytest

from fairmend.errors import DataError
from fairmend.tablefile import Dialect, kind_of, read_table


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
