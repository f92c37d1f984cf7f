"""Settings from files and the environment."""

import pytest

from fairmend.config import Option, find_settings, settle
from fairmend.errors import DataError

KNOWN = {
    "audit": {
        "label": Option("label", str),
        "group": Option("group", list[str]),
        "fail-on": Option("fail-on", list[str]),
        "json": Option("json", bool),
        "confidence": Option("confidence", float),
    },
    "repair": {
        "label": Option("label", str),
        "one-way": Option("one-way", list[str]),
        "level": Option("level", float),
    },
    "serve": {"group": Option("group", str)},
}


def test_a_shared_key_goes_where_it_fits():
    found = settle("f", {"group": ["sex", "age"], "label": "y"}, KNOWN, {})
    assert found == {"audit": {"group": ["sex", "age"], "label": "y"}, "repair": {"label": "y"},
                     "serve": {}}  # fmt: skip
    one = settle("f", {"group": "sex"}, KNOWN, {})
    assert (one["audit"], one["serve"]) == ({"group": ["sex"]}, {"group": "sex"})


def test_a_command_s_own_table_goes_first():
    found = settle("f", {"audit": {"label": "own"}, "label": "shared"}, KNOWN, {})
    assert (found["audit"]["label"], found["repair"]["label"]) == ("own", "shared")


def test_directions_as_a_table():
    found = settle("f", {"repair": {"one_way": {"age": "up"}}}, KNOWN, {})
    assert found["repair"] == {"one-way": ["age:up"]}


@pytest.mark.parametrize(
    ("variable", "text", "expected"),
    [
        ("FAIRMEND_GROUP", 'sex, "age, band"', {"group": ["sex", "age, band"]}),
        ("FAIRMEND_JSON", "yes", {"json": True}),
        ("FAIRMEND_CONFIDENCE", "0.9", {"confidence": "0.9"}),
        ("FAIRMEND_FAIL_ON", "sp>1%", {"fail-on": ["sp>1%"]}),
    ],
)
def test_variables(variable, text, expected):
    assert settle("f", {}, KNOWN, {variable: text})["audit"] == expected


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lable": "y"}, "f: must hold options of any command; got the unknown key 'lable'. "
                         "Did you mean 'label'?"),
        ({"audit": {"level": 1}}, "f [audit]: must hold options of fairmend audit; got the unknown "
                                  "key 'level'. Did you mean 'label'?"),
        ({"audti": {}}, "f: must hold options of any command; got the unknown key 'audti'. "
                        "Did you mean 'audit'?"),
        ({"audit": 3}, "f [audit]: must be a table; got 3. Write [audit]."),
        ({"level": "high"}, "f: level: must be a number; got 'high'. See fairmend COMMAND --help "
                            "for --level."),
        ({"json": "yes"}, "f: json: must be true or false; got 'yes'. See fairmend COMMAND --help "
                          "for --json."),
        ({"label": ["y"]}, "f: label: must be text; got ['y']. See fairmend COMMAND --help for "
                           "--label."),
    ],
)  # fmt: skip
def test_complaints(settings, message):
    with pytest.raises(DataError) as raised:
        settle("f", settings, KNOWN, {})
    assert str(raised.value) == message


def test_a_variable_that_is_neither_yes_nor_no():
    with pytest.raises(DataError, match="environment variable FAIRMEND_JSON: must be true or"):
        settle("f", {}, KNOWN, {"FAIRMEND_JSON": "maybe"})


def test_where_settings_are_found(tmp_path):
    assert find_settings(folder=tmp_path) == ("", {})
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\n')
    assert find_settings(folder=tmp_path) == ("", {})
    (tmp_path / "pyproject.toml").write_text('[tool.fairmend]\nlabel = "y"\n')
    assert find_settings(folder=tmp_path) == ("pyproject.toml", {"label": "y"})
    (tmp_path / "fairmend.toml").write_text('label = "z"\n')
    assert find_settings(folder=tmp_path) == ("fairmend.toml", {"label": "z"})


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(DataError, match="must be readable; it is not: No such file"):
        find_settings(str(tmp_path / "none.toml"))
    (tmp_path / "broken.toml").write_text("label = \n")
    with pytest.raises(DataError, match=r"must be TOML; it is not: .* \(at line 1"):
        find_settings(str(tmp_path / "broken.toml"))


def test_a_value_that_no_command_takes_is_told_with_its_place():
    def even(text):
        if int(text) % 2:
            raise DataError("option", "must be even", f"got {text}", "Add one.")

    known = {"a": {"n": Option("n", str, even)}, "b": {"n": Option("n", list[str], even)}}
    assert settle("f", {"n": "2"}, known, {"FAIRMEND_N": "4"}) == {
        "a": {"n": "4"},
        "b": {"n": ["4"]},
    }
    for settings, environment, place in (
        ({"n": "3"}, {}, "f: n"),
        ({"a": {"n": "3"}}, {}, r"f \[a\]: n"),
        ({}, {"FAIRMEND_N": "3"}, "environment variable FAIRMEND_N"),
    ):
        with pytest.raises(DataError, match=f"{place}: must be even; got 3"):
            settle("f", settings, known, environment)
