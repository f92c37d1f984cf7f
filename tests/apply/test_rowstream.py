"""Blocks of rows: what is not edited comes out byte for byte, whatever the file looks like."""

import csv
import io

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmend.apply.rowstream import Edits, open_rows
from fairmend.data.spelling import Spelling
from fairmend.errors import DataError, FairmendWarning

PARTS = [*'ab0 7;,|\t"=é<', "\n", "\r\n"]
CELL = st.lists(st.sampled_from(PARTS), max_size=6).map("".join)


def written(rows, separator, newline, quoting, mark):
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=separator, lineterminator=newline, quoting=quoting).writerows(rows)
    return (b"\xef\xbb\xbf" if mark else b"") + text.getvalue().encode()


def through(path, out, *, edits=None, column="b", added=(), types=None, block_bytes=64):
    """Everything read and written again; ``edits`` are {row: text} of a column."""
    with open_rows(str(path), block_bytes=block_bytes) as stream, out.open("wb") as file:
        stream.start(file, added)
        count = 0
        for block in stream.blocks(types or {"a": pl.String, "b": pl.String}):
            at = [i - block.first for i in edits or {}
                  if block.first <= i < block.first + block.rows.height]  # fmt: skip
            values = pl.Series([edits[i + block.first] for i in at], dtype=pl.String)
            cells = {column: (np.array(at, np.int64), values)} if at else {}
            numbers = range(count, count + block.rows.height)
            new = {name: np.array([f"{name[0]}{i}" for i in numbers]) for name in added}
            stream.write(block, Edits(cells, new))
            count += block.rows.height
        stream.finish()
    return count


@settings(max_examples=150, deadline=None)
@given(
    rows=st.lists(st.tuples(CELL, CELL, CELL), min_size=1, max_size=30),
    separator=st.sampled_from(",;|\t"),
    newline=st.sampled_from(["\n", "\r\n"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    mark=st.booleans(),
    chosen=st.data(),
)
def test_any_csv(  # noqa: PLR0917
    tmp_path_factory, rows, separator, newline, quoting, mark, chosen
):
    folder = tmp_path_factory.mktemp("csv")
    raw = written([("a", "b", "c"), *rows], separator, newline, quoting, mark)
    (folder / "in.csv").write_bytes(raw)
    assert through(folder / "in.csv", folder / "same.csv") == len(rows)
    assert (folder / "same.csv").read_bytes() == raw
    # edited cells read as what they were set to, all others as before
    edits = chosen.draw(st.dictionaries(st.integers(0, len(rows) - 1), CELL, max_size=4))
    place = chosen.draw(st.integers(0, 2))
    how = {"edits": edits, "column": "abc"[place], "added": ("decision", "edited")}
    through(folder / "in.csv", folder / "out.csv", types=dict.fromkeys("abc", pl.String), **how)
    text = (folder / "out.csv").read_bytes().decode("utf-8-sig")
    found = list(csv.reader(io.StringIO(text, newline=""), delimiter=separator))
    expected = [[*row, f"d{i}", f"e{i}"] for i, row in enumerate(rows)]
    for i, text in edits.items():
        expected[i][place] = text
    assert found == [["a", "b", "c", "decision", "edited"], *expected]


def test_records_without_a_last_newline(tmp_path):
    (tmp_path / "in.csv").write_bytes(b"a,b,c\n1,2,3\n4,,\n5,6,7")
    through(tmp_path / "in.csv", tmp_path / "out.csv", edits={1: "x", 2: "y"})
    assert (tmp_path / "out.csv").read_bytes() == b"a,b,c\n1,2,3\n4,x,\n5,y,7"
    through(tmp_path / "in.csv", tmp_path / "both.csv", added=("decision",), edits={2: "y"})
    assert (tmp_path / "both.csv").read_bytes() == b"a,b,c,decision\n1,2,3,d0\n4,,,d1\n5,y,7,d2"


def test_numbers_as_in_the_fit(tmp_path):
    (tmp_path / "in.csv").write_bytes(b"a,b\n1,x\n2.5,y\n,z\n")
    with open_rows(str(tmp_path / "in.csv")) as stream:
        [block] = stream.blocks({"a": pl.Int64, "b": pl.String})
    assert block.rows["a"].to_list() == [1.0, 2.5, None]  # whole in the fit, but no longer


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a,b\n1,2\n1,2,3\n", "line 3: must have as many cells as the first line, 2; got 3"),
        (b"a,b\n1,2\nx,2\n", "column 'a', line 3: must be a number, as in the audit data; got 'x'"),
        (b"a,b\n1,\xff\n", "line 2: must be text in UTF-8; got bytes of another encoding"),
        (b'a,b\n1,"x\ny"\n1,2,3\n', "line 4: must have as many cells as the first line, 2"),
        (b"a,b\n1,2,\n3,4,\n", "line 2: must have as many cells as the first line, 2; got 3"),
        (b"a,b\n1\n1,3,515\n", "line 2: must have as many cells as the first line, 2; got 1"),
        (b"a,b\n1,2\n\n3,4\n", "line 3: must hold a person; the line is blank"),
        (b"a,b\n1,x\0\n", "line 2: must be text; got a NUL byte"),
        (b"a,b\r1,2\r", "line 1: must end with a line feed; got a carriage return alone"),
        (b"a,b\n1,2\r3,4\n", "line 2: must end with a line feed; got a carriage return alone"),
        (b'a,b\nx"1,y"z\n', "line 2: must have quotes around whole cells"),
        (b'a,b\n1,"x"y\n', "line 2: must have quotes around whole cells"),
        (b"\na,b\n1,2\n", "line 1: must hold the names of the columns; the line is blank"),
        (b'a,b\n1,"x\n', "line 2: must be part of a table in CSV; a quote is never closed"),
        (b"a,b\n1234567890123456789012345,2\n", "got '1234567890123456789012345'"),
        (b"x" * 140_000 + b",b\n1,2\n", "line 1: must hold names of columns"),
        (b"a,\xff\n1,2\n", "line 1: must be text in UTF-8; got bytes of another encoding"),
        (
            b"a;b\n1;2\n1,5;2\n",
            "got '1,5'. If that is a number, say --decimal ,",
        ),
    ],
)
def test_what_is_no_table_is_said_so(tmp_path, content, message):
    (tmp_path / "in.csv").write_bytes(content)
    with pytest.raises(DataError) as raised:
        through(tmp_path / "in.csv", tmp_path / "out.csv", types={"a": pl.Int64, "b": pl.String},
                block_bytes=1_000)  # fmt: skip
    assert message in str(raised.value)


@pytest.mark.parametrize(("separator", "quote"), [(";", ""), (",", '"')])
def test_decimal_commas_are_written_as_they_are_read(separator, quote, tmp_path):
    """Cells that are not edited keep even the dots between their thousands."""
    rows = [["x", "1.598,84"], ["y", "007,50"], ["z", "3"]]
    text = [[cell if cell.isalnum() else f"{quote}{cell}{quote}" for cell in row] for row in rows]
    lines = [separator.join(row) for row in [["a", "b"], *text]]
    (tmp_path / "in.csv").write_text("\n".join(lines) + "\n")
    with (
        open_rows(str(tmp_path / "in.csv"), spelling=Spelling(decimal=",")) as stream,
        (tmp_path / "out.csv").open("wb") as out,
    ):
        stream.start(out, ["decision"])
        [block] = stream.blocks({"a": pl.String, "b": pl.Float64})
        assert block.rows["b"].to_list() == [1598.84, 7.5, 3.0]
        new = pl.Series([2.25, 4.0])
        decisions = {"decision": np.array([0.5, 1.0, 1.0])}
        stream.write(block, Edits({"b": (np.array([1, 2]), new)}, decisions))
    with (tmp_path / "out.csv").open(newline="") as file:
        found = list(csv.reader(file, delimiter=separator))
    assert found[1:] == [["x", "1.598,84", "0,5"], ["y", "2,25", "1,0"], ["z", "4,0", "1,0"]]
    with (
        open_rows(str(tmp_path / "in.csv"), spelling=Spelling(decimal=",")) as stream,
        (tmp_path / "decisions.csv").open("wb") as out,
    ):
        stream.start(out, ["decision"], kept=["a"])
        [block] = stream.blocks({"a": pl.String})
        stream.write(block, Edits({}, decisions))
    with (tmp_path / "decisions.csv").open(newline="") as file:
        found = list(csv.reader(file, delimiter=separator))
    assert found[1:] == [["x", "0,5"], ["y", "1,0"], ["z", "1,0"]]


def test_a_column_that_is_there_twice(tmp_path):
    (tmp_path / "in.csv").write_bytes(b"a,b,a\n1,2,3\n")
    with open_rows(str(tmp_path / "in.csv")) as stream:
        stream.check(["b"], "--group")
        with pytest.raises(DataError, match="must be in the file once; got 2"):
            stream.check(["a"], "--group")
        with pytest.raises(DataError, match=r"there is no 'bb'\. Did you mean 'b'"):
            stream.check(["bb"], "--group")


def test_an_arrow_stream_stays_one(tmp_path):
    table = pl.DataFrame({"a": ["x", None], "b": ["1", "2"], "c": [1.5, 2.5]})
    table.write_ipc_stream(tmp_path / "in.arrows")
    through(tmp_path / "in.arrows", tmp_path / "out.arrows", edits={1: "9"})
    found = pl.read_ipc_stream(tmp_path / "out.arrows")
    assert found.equals(table.with_columns(b=pl.Series(["1", "9"])))


def test_blank_lines_at_the_end_stay_there(tmp_path):
    for end in (b"\n\n", b"\r\n\r\n", b"\n"):
        (tmp_path / "in.csv").write_bytes(b"a,b\n1,2\n3,4\n" + end)
        for size in (2, 1_000):
            count = through(tmp_path / "in.csv", tmp_path / "out.csv", added=("d",),
                            block_bytes=size)  # fmt: skip
            assert count == 2
            assert (tmp_path / "out.csv").read_bytes() == b"a,b,d\n1,2,d0\n3,4,d1\n" + end
    (tmp_path / "in.csv").write_bytes(b"a,b\n1,2\n\n3,4\n")
    with pytest.raises(DataError, match="line 3: must hold a person; the line is blank"):
        through(tmp_path / "in.csv", tmp_path / "out.csv", block_bytes=9)


def test_what_is_missing_among_numbers_is_told_once(tmp_path):
    (tmp_path / "in.csv").write_bytes(b"a,b\n1,x\nNA,NA\n-,y\nNA,z\n")
    with pytest.warns(FairmendWarning, match="'NA' in 2, '-' in 1 cells") as told:
        through(tmp_path / "in.csv", tmp_path / "out.csv", types={"a": pl.Int64, "b": pl.String},
                block_bytes=6)  # fmt: skip
    assert len(told) == 1
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "in.csv").read_bytes()


def test_percentages_are_written_as_percentages(tmp_path):
    (tmp_path / "in.csv").write_bytes(b"a,b\n7%,x\n12.5 %,y\n,z\n")
    with (
        open_rows(str(tmp_path / "in.csv"), spelling=Spelling(percent=True)) as stream,
        (tmp_path / "out.csv").open("wb") as out,
    ):
        stream.start(out)
        [block] = stream.blocks({"a": pl.Float64})
        assert block.rows["a"].to_list() == [0.07, 0.125, None]
        stream.write(block, Edits({"a": (np.array([1, 2]), pl.Series([0.07, 1 / 3]))}))
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert lines[1:3] == ["7%,x", "7.00%,y"]
    with open_rows(str(tmp_path / "out.csv"), spelling=Spelling(percent=True)) as stream:
        [block] = stream.blocks({"a": pl.Float64})
    assert block.rows["a"].to_list() == [0.07, 0.07, 1 / 3]
    (tmp_path / "in.csv").write_bytes(b"a,b\n7%,x\n12.5,y\n")
    with (
        open_rows(str(tmp_path / "in.csv"), spelling=Spelling(percent=True)) as stream,
        pytest.raises(DataError, match=r"line 3: must be a number.* got '12.5'"),
    ):
        list(stream.blocks({"a": pl.Float64}))


@pytest.mark.parametrize("kind", ["parquet", "arrow", "arrows"])
def test_a_file_without_rows_stays_one(tmp_path, kind):
    table = pl.DataFrame({"a": pl.Series([], dtype=pl.Int64)})
    write = {"parquet": table.write_parquet, "arrow": table.write_ipc,
             "arrows": table.write_ipc_stream}  # fmt: skip
    write[kind](tmp_path / f"in.{kind}")
    with open_rows(str(tmp_path / f"in.{kind}")) as stream, (tmp_path / "out").open("wb") as out:
        stream.start(out, ["d"])
        [block] = stream.blocks({"a": None})
        stream.write(block, Edits({}, {"d": np.array(["yes"])[:0]}))
        stream.finish()
    with open_rows(str(tmp_path / "out")) as stream:
        assert stream.names == ("a", "d")
        assert [block.rows.schema["d"] for block in stream.blocks({"d": None})] == [pl.String]


def test_damage_inside_a_file_is_said_with_its_name(tmp_path):
    pl.DataFrame({"a": range(10_000)}).write_parquet(tmp_path / "in.parquet")
    content = bytearray((tmp_path / "in.parquet").read_bytes())
    content[4:200] = b"\xaa" * 196
    (tmp_path / "in.parquet").write_bytes(content)
    with (
        open_rows(str(tmp_path / "in.parquet")) as stream,
        pytest.raises(DataError, match=r"in.parquet': must be a table in PARQUET"),
    ):
        list(stream.blocks({"a": None}))
