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


def test_rates_are_printed_with_one_decimal():
    assert percent(0.1786) == "17.9 %"
    assert percent(0.1786, signed=True) == "+17.9 %"
    assert percent(float("nan")) == "–"


def test_p_values_are_printed_with_three_decimals():
    assert [p_value(p) for p in (0.0004, 0.0006, 0.05, 1.0, float("nan"))] == [
        "< .001", ".001", ".050", "1.000", "–",
    ]  # fmt: skip
