"""Tables as people read them."""

from fairmend.tables import TextTable, p_value, percent


def test_words_stand_left_and_numbers_right():
    table = TextTable(
        "Two people", ("<name", "age"), [("Ann", "9"), ("Bo", "101")], ["That is all."]
    )
    assert str(table).splitlines() == [
        "Two people",
        "name  age",
        "Ann     9",
        "Bo    101",
        "That is all.",
    ]


def test_no_line_ends_in_blanks():
    table = TextTable("", ("<a", "<"), [("x", ""), ("yy", "note")])
    assert str(table).splitlines() == ["a", "x", "yy  note"]


def test_a_table_without_rows_is_its_header():
    assert str(TextTable("", ("<group", "people"), [])) == "group  people"


def test_control_characters_cannot_break_up_a_table():
    table = TextTable("by\x1b[31m", ("<group",), [("a\nb",), ("\x1b[31mred",)])
    assert str(table).splitlines() == ["by [31m", "group", "a b", " [31mred"]


def test_html_escapes_everything():
    hostile = '<script>alert("x")</script>'
    html = TextTable(hostile, (hostile, hostile), [(hostile, hostile)], [hostile]).html()
    assert "<script>" not in html
    assert html.count("&lt;script&gt;") == 5 - 1  # a leading < in a header marks a column of words
    assert '"x"' not in html


def test_html_aligns_as_text_does():
    html = TextTable("", ("<name", "age"), [("Ann", "9")]).html()
    assert '<td style="text-align:left">Ann</td>' in html
    assert '<td style="text-align:right">9</td>' in html
    assert "<caption>" not in html


def test_rates_are_printed_with_one_decimal():
    assert percent(0.1786) == "17.9 %"
    assert percent(0.1786, signed=True) == "+17.9 %"
    assert percent(float("nan")) == "–"


def test_p_values_are_printed_with_three_decimals():
    assert [p_value(p) for p in (0.0004, 0.0006, 0.05, 1.0, float("nan"))] == [
        "< .001", ".001", ".050", "1.000", "–",
    ]  # fmt: skip
