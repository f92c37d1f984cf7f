import pickle
import sys

import pytest

from fairmend import DataError, FairmendError, MissingExtra, ModelError
from fairmend.errors import in_a_line, listed, nearest, plain_text, require, without_secrets


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
