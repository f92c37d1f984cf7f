import pickle
import sys

import numpy as np
import pytest

import fairmend
from fairmend import DataError, FairmendError, MissingExtra, ModelError
from fairmend.errors import (
    InputError,
    check,
    check_between,
    check_choice,
    check_columns,
    check_given,
    check_length,
    check_names,
    check_whole,
    in_a_line,
    listed,
    nearest,
    plain_text,
    require,
    unreadable,
    without_secrets,
)


@pytest.mark.parametrize(
    ("kind", "also"),
    [(DataError, ValueError), (ModelError, RuntimeError), (MissingExtra, ImportError)],
)
def test_every_error_can_be_caught_by_both_its_names(kind, also):
    assert issubclass(kind, FairmendError)
    assert issubclass(kind, also)


def test_parts_are_kept_apart_and_survive_a_trip_to_another_process():
    error = DataError("y", "must be binary", "got 3 values", "Drop one.")
    again = pickle.loads(pickle.dumps(error))
    assert (again.what, again.must, again.got, again.fix) == error.args
    assert str(again) == str(error) == "y: must be binary; got 3 values. Drop one."


@pytest.mark.parametrize(
    ("name", "known", "said"),
    [
        ("incme", ["age", "income"], "Did you mean 'income'?"),
        ("SEX", ["sex", "age"], "Did you mean 'sex'?"),
        ("1", [0, 1], "Did you mean 1?"),
        (None, ["a", "b"], "Known: 'a', 'b'."),
        ("q", list("abcdefgh"), "Known: 'a', 'b', 'c', 'd', 'e', 'f' and 2 more."),
    ],
)
def test_nearest_suggests_or_lists(name, known, said):
    assert nearest(name, known) == said


def test_listed_counts_what_it_leaves_out():
    assert listed(range(2_000), limit=1) == "0 and 1,999 more"


def test_require_answers_with_the_pip_line():
    with pytest.raises(MissingExtra) as caught:
        require("no_such_package.inside", extra="plot", why="A chart")
    assert str(caught.value) == (
        "A chart: needs the optional package 'no_such_package'; it is not installed. "
        "Run: pip install 'fairmend[plot]'"
    )


def test_require_lets_a_broken_package_speak_for_itself(tmp_path, monkeypatch):
    (tmp_path / "half_installed.py").write_text("import its_missing_half\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="its_missing_half") as caught:
        require("half_installed", extra="plot", why="A chart")
    assert not isinstance(caught.value, MissingExtra)
    assert "half_installed" not in sys.modules


def test_foreign_text_moves_no_cursor_and_is_not_repeated_whole():
    text = "\x1b[31mred\x07\nnext\u202eright\ud800" + "x" * 10_000
    shown = plain_text(text, 100)
    assert shown.isprintable()
    assert shown.startswith(r"\x1b[31mred\x07\nnext\u202eright\ud800")
    assert len(shown) < 200
    assert plain_text("one\ntwo", lines=True) == "one\ntwo"
    assert len(listed(["y" * 1_000] * 10)) < 1_000


def test_an_error_that_cannot_say_itself_is_told_by_its_kind():
    class Mute(Exception):
        def __str__(self):
            raise RuntimeError

    assert in_a_line(Mute()) == "Mute: no message"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://host/score?token=abc#x", "https://host/score"),
        ("got 'HTTP://me:p@ss@host:80/a'", "got 'HTTP://host:80/a'"),
        ("no address: a?b@c", "no address: a?b@c"),
    ],
)
def test_secrets_of_addresses_are_not_shown(text, shown):
    assert without_secrets(text) == shown
    assert str(ModelError("model", "must answer", text, "Look.")).count("abc") == 0


def test_an_error_with_other_parts_keeps_its_kind_and_the_rest():
    error = InputError("X", "must be known", "got 3", "Look.", column="id", reason="name")
    other = error.but(what="--inputs", fix="")
    assert type(other) is InputError
    assert (other.what, other.must, other.got, other.fix) == (
        "--inputs",
        "must be known",
        "got 3",
        "",
    )
    assert other.column == "id"
    assert str(other) == "--inputs: must be known; got 3."
    assert error.what == "X"


@pytest.mark.parametrize(
    ("passes", "fails"),
    [
        (lambda: check(True, "a", "b", "c"), lambda: check([], "a", "b", "c")),
        (lambda: check_given("y", 0, ""), lambda: check_given("y", None, "")),
        (lambda: check_names("keep", ["a"]), lambda: check_names("keep", "a")),
        (lambda: check_length("ids", [1], 1), lambda: check_length("ids", [1], 2)),
        (
            lambda: check_columns("X", "ab", ["a"], "", of="fit"),
            lambda: check_columns("X", "b", ["a"], "", of="fit"),
        ),
    ],
)
def test_checks_pass_or_raise(passes, fails):
    passes()
    with pytest.raises(DataError):
        fails()


@pytest.mark.parametrize("value", [None, "c", ["a"], np.array(["a", "b"]), {"a"}, 1])
def test_what_is_no_choice_is_refused_whatever_its_type(value):
    check_choice("method", "a", {"a": 1, "b": 2})
    with pytest.raises(DataError, match="method: must be 'a' or 'b'; got"):
        check_choice("method", value, {"a": 1, "b": 2})


def test_a_choice_may_have_its_own_words():
    with pytest.raises(DataError) as caught:
        check_choice("y", "incme", ["income"], must="must name a column of X")
    assert caught.value.must == "must name a column of X"
    assert caught.value.fix == "Did you mean 'income'?"


@pytest.mark.parametrize("value", [0, 1, 0.5, np.float32(0.5), np.int64(1)])
def test_numbers_of_any_type_are_compared(value):
    check_between("level", value, 0, 1)


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan"), float("inf"), True, "0.5", None, 1j])
def test_what_is_no_number_in_between_is_refused(value):
    with pytest.raises(DataError, match="level: must lie between 0 and 1; got"):
        check_between("level", value, 0, 1)


def test_ends_can_be_left_out_and_bounds_too():
    with pytest.raises(DataError, match="between 0 and 1"):
        check_between("confidence", 1, 0, 1, open_ended=True)
    with pytest.raises(DataError, match="above 0"):
        check_between("timeout", 0, 0, open_ended=True)
    with pytest.raises(DataError, match="a finite number"):
        check_between("threshold", float("inf"))
    check_between("threshold", -1e300)


@pytest.mark.parametrize("value", [0, True, 1.0, "1", None])
def test_whole_numbers_are_integers_of_at_least_so_many(value):
    check_whole("n", np.int8(1), 1)
    with pytest.raises(DataError, match="n: must be a whole number of people, at least 1; got"):
        check_whole("n", value, 1, of="people")


def test_an_unreadable_file_is_told_by_the_reason_of_the_system():
    error = unreadable("file 'x'", PermissionError(13, "Permission denied"))
    assert (error.what, error.got) == ("file 'x'", "it is not: Permission denied")


def test_a_warning_from_a_cached_property_points_at_the_caller():
    inside = """
from functools import cached_property
from fairmend.errors import warn

class Finding:
    @cached_property
    def value(self):
        warn("mind this")
        return 1

def read():
    return Finding().value
"""
    module = {"__name__": "fairmend.imagined"}
    exec(inside, module)
    with pytest.warns(fairmend.FairmendWarning) as caught:
        module["read"]()
    assert caught[0].filename == __file__
