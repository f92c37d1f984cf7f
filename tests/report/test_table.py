"""Tables of a page: what is shown, what is sorted by, and what a spreadsheet gets."""

import base64
import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairmend.report.table import Column, Table, csv_text, typeset

NAN = float("nan")


def shown(kind, value):
    [[cell]] = Table("t", "", (Column("x", kind),), ((value,),)).cells()
    return cell.text.replace("\N{NO-BREAK SPACE}", " "), cell.order


@pytest.mark.parametrize(
    ("kind", "value", "text", "order"),
    [
        ("text", "a", "a", "a"),
        ("text", None, "", ""),
        ("count", 12_345, "12,345", "12345.0"),
        ("rate", 0.1234, "12.3 %", "0.1234"),
        ("points", -0.05, "−5.0", "-0.05"),
        ("points", 0.0, "0.0", "0.0"),
        ("ratio", 0.8, "0.80", "0.8"),
        ("decimal", 0.12345, "0.123", "0.12345"),
        ("number", 55609.54, "55,610", "55609.54"),
        ("number", 0.123456, "0.1235", "0.123456"),
        ("change", 1234.5, "+1,234", "1234.5"),
        ("change", -0.25, "−0.25", "-0.25"),
        ("number", NAN, "–", ""),
        ("p", 0.0001, "< .001", "0.0001"),
        ("rates", (0.1, 0.2), "10.0 to 20.0 %", "0.1"),
        ("spans", (-0.1, 0.2), "−10.0 to +20.0", "-0.1"),
        ("ratios", (0.5, 1.25), "0.50 to 1.25", "0.5"),
        ("rate", NAN, "–", ""),
        ("spans", (NAN, NAN), "–", ""),
    ],
)
def test_values_are_shown_by_kind(kind, value, text, order):
    assert shown(kind, value) == (text, order)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("-4.5", "−4.5"),
        ("from +0.0 to -0.3 [-1, +0].", "from 0.0 to −0.3 [−1, 0]."),
        ("+0.04, +10.0, 1e-5", "+0.04, +10.0, 1e-5"),
        ("male & 18-30, a-1, --seed 0", "male & 18-30, a-1, --seed 0"),
        ("5.0 %", "5.0\N{NO-BREAK SPACE}%"),
        ("p < .001", "p <\N{NO-BREAK SPACE}.001"),
    ],
)
def test_only_signs_of_figures_are_typeset(text, shown):
    assert typeset(text) == shown


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "  =", "\n"])
def test_no_text_is_a_formula(start):
    table = Table("t", "", (Column("name"), Column("gap", "points")), ((f"{start}1", -0.5),))
    [_, line] = csv.reader(io.StringIO(csv_text(table), newline=""))
    assert line == [f"'{start}1", "-0.5"]


def test_headers_are_as_harmless_as_cells():
    assert csv_text(Table("t", "", (Column("=1+1"),), (("a",),))) == "'=1+1\r\na\r\n"


@given(
    st.lists(
        st.tuples(st.text(max_size=8), st.floats(allow_infinity=False)), min_size=1, max_size=4
    )
)
def test_numbers_come_back_exactly(rows):
    table = Table("t", "", (Column("name"), Column("x", "decimal")), tuple(rows))
    encoded = table.data_link.removeprefix("data:text/csv;charset=utf-8;base64,")
    text = base64.b64decode(encoded).decode("utf-8-sig")
    assert text == csv_text(table)
    lines = list(csv.reader(io.StringIO(text, newline="")))[1:]
    for (name, x), line in zip(rows, lines, strict=True):
        assert line[0] in (name, f"'{name}")
        assert line[1] == "" if x != x else float(line[1]) == x  # noqa: PLR0124
