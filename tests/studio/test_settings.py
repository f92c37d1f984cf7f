"""Settings: what is written is read, what is typed is an option, a fix changes one thing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairmend.cli.main import COMMANDS, options_of
from fairmend.data.roles import ColumnGuess
from fairmend.errors import DataError
from fairmend.studio.fixes import Fix, apply_fix, fixes_in, role_of, with_role
from fairmend.studio.project import Outdated, Project
from fairmend.studio.screens import questions
from fairmend.studio.settings import STEPS, Settings, options

NAMES = st.text(min_size=1, max_size=8).filter(lambda text: "\ud800" not in text)
KINDS = {
    str | None: st.none() | NAMES,
    bool: st.booleans(),
    float: st.floats(0, 1),
    int: st.integers(0, 9),
    list[str]: st.lists(NAMES, max_size=3),
    dict[str, str]: st.dictionaries(NAMES, st.sampled_from(["up", "down"]), max_size=3),
    dict[str, float]: st.dictionaries(NAMES, st.floats(0.5, 2), max_size=3),
}
SETTINGS = st.builds(Settings, **{name: KINDS[kind] for name, (kind, _) in options().items()})


@given(SETTINGS)
def test_what_is_written_is_read(settings):
    assert Settings.from_toml(settings.to_toml(), "studio.toml") == settings


def test_every_setting_is_an_option_of_the_commands_that_take_it():
    for name, (_, option) in options().items():
        for step in option.steps:
            flag = option.flag.removeprefix("--")
            assert flag in options_of(COMMANDS[step]), (name, step)


def test_columns_takes_how_cells_are_read():
    cells = {o.flag.removeprefix("--") for _, o in options().values() if "columns" in o.steps}
    assert cells <= set(options_of(COMMANDS["columns"]))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[data]\nfile = 3\n", "file: must be a text; got 3"),
        ("[data]\ngroup = [1]\n", "group: must be a list of texts"),
        ("[data]\ncolour = 'red'\n", "colour: must be a setting of the studio"),
        ("[cells]\nlabel = 'y'\n", r"\[cells\] label: must be a setting"),
        ("file = 'a'\n", "must be a setting of the studio"),
        ("[data\n", "must be TOML"),
    ],
)
def test_a_settings_file_that_is_none_is_an_error_with_its_place(text, message):
    with pytest.raises(DataError, match=message):
        Settings.from_toml(text, "studio.toml")


def test_a_group_that_is_not_looked_at_is_no_input():
    settings = Settings(file="a.csv", groups=["sex", "race"], group=["sex"], predictions="d")
    assert settings.arguments("audit") == [
        "audit", "a.csv", "--group", "sex", "--predictions", "d", "--ignore", "race",
    ]  # fmt: skip


def test_without_outcomes_the_word_of_decisions_is_the_positive_one():
    settings = Settings(file="a.csv", group=["sex"], predictions="d", positive_decision="accept")
    assert settings.arguments("audit")[-2:] == ["--positive", "accept"]


def test_pairs_and_numbers_are_typed_as_the_command_line_reads_them():
    settings = Settings(
        file="a.csv", group=["g"], predictions="d", metric=["fnr"], level=0.5, blind=True,
        one_way={"age": "up"}, cost={"a b": 0.25},
    )  # fmt: skip
    typed = settings.arguments("repair")
    assert typed[typed.index("--one-way") + 1] == "age:up"
    assert typed[typed.index("--cost") + 1] == "a b=0.25"
    assert typed[typed.index("--level") + 1] == "0.5"
    assert "--blind" in typed


# -------------------------------------------------------------------- fixes

MESSAGES = {
    "If that is a number, say --decimal ,; if the column holds words, --words 'a b'.": [
        (("--decimal", ","),), (("--words", "a b"),)],
    "Say --currency '$' --thousands , if that is 1234, or --currency '$' --decimal , if it is "
    "1.234.": [
        (("--currency", "$"), ("--thousands", ",")), (("--currency", "$"), ("--decimal", ","))],
    "Add --positive no or --positive yes.": [(("--positive", "no"),), (("--positive", "yes"),)],
    "Say --id 'case no' or --ignore 'case no'; if the model does read it, --not-id 'case no'.": [
        (("--id", "case no"),), (("--ignore", "case no"),), (("--not-id", "case no"),)],
    "If that stands for a missing value, say --missing '?!'.": [(("--missing", "?!"),)],
    "If that is a number, say --percent.": [(("--percent", ""),)],
    "If 1 means 2, say --answers probability.": [(("--answers", "probability"),)],
    "Say --thousands \"'\" --decimal .": [(("--thousands", "'"), ("--decimal", "."))],
    "Say --group: it must be given. See --help.": [],
}  # fmt: skip


@pytest.mark.parametrize(("message", "wanted"), MESSAGES.items())
def test_the_ways_out_that_a_message_names_are_buttons(message, wanted):
    assert fixes_in(message) == [Fix(options) for options in wanted]


def test_a_fix_changes_one_thing():
    before = Settings(file="a.csv", label="y", groups=["g"], group=["g"], predictions="d")
    assert apply_fix(before, (("--decimal", ","),)).decimal == ","
    assert apply_fix(before, (("--missing", "?"),)).missing == ["?"]
    assert apply_fix(before, (("--percent", ""),)).percent is True
    assert apply_fix(before, (("--id", "no"),)).id == "no"


ROLES = ("outcome", "decision", "group", "id", "weight", "input", "ignore")


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(ROLES)), max_size=12))
def test_a_column_has_the_role_it_was_given_last_and_no_other_of_single_roles(steps):
    settings = Settings(file="a.csv")
    for name, role in steps:
        settings = with_role(settings, name, role)
        assert role_of(settings, name) == role
    roles = [role_of(settings, name) for name in "abcd"]
    for single in ("outcome", "decision", "id", "weight"):
        assert roles.count(single) <= 1
    assert set(settings.group) <= set(settings.groups)
    assert bool(settings.group) == bool(settings.groups)


# -------------------------------------------------------------------- two windows


def test_a_page_that_is_out_of_date_changes_nothing(tmp_path):
    project = Project.at(tmp_path / "project")
    shown = project.read()[1]
    project.change(lambda old: with_role(old, "a", "outcome"), shown)
    with pytest.raises(Outdated):
        project.change(lambda old: with_role(old, "b", "outcome"), shown)
    assert project.settings().label == "a"


def test_every_step_has_a_command():
    assert set(STEPS) <= set(COMMANDS)


def test_a_column_that_can_be_read_by_now_is_offered_first_as_the_decision():
    """Decimal commas hide at first that a column holds scores."""
    score = ColumnGuess("score", "numbers", 0, 700, (), (), "decision", "from 0 to 1")
    paid = ColumnGuess("paid", "words", 0, 2, ("no", "yes"), ("no", "yes"), "input", "")
    settings = Settings(file="f.csv", groups=["g"], group=["g"], proposed=True)
    group = ColumnGuess("g", "words", 0, 2, ("a", "b"), ("a", "b"), "group", "")
    [asked] = questions(settings, [paid, score, group])
    assert [fix.options for fix in asked.fixes] == [
        (("--predictions", "score"),), (("--predictions", "paid"),),
    ]  # fmt: skip
