"""fairmend columns: what is in a file, and a first audit that can be typed as it is."""

import json
import shlex

import pytest

from fairmend.data.roles import guess_positive

TABLE = """person;sex;spent;bought on;label;score
a1;f;1,50;03.02.2026;0;0,9
b2;m;2,50;04.02.2026;1;0,2
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "shop.csv"
    path.write_text(TABLE + "".join(
        f"c{i};{'fm'[i % 2]};{i},5;05.02.2026;{i // 3 % 2};0,{i % 10}\n" for i in range(60)
    ))  # fmt: skip
    return path


def test_the_columns_are_listed_with_what_they_probably_are(call, file):
    done = call("columns", str(file))
    assert done.code == 0
    for words in ("62 rows", "person", "all its 62 values differ", "dates are seldom inputs"):
        assert words in done.out
    assert "say --decimal ," in done.err


def test_json_has_every_column(call, file):
    content = json.loads(call("columns", str(file), "--decimal", ",", "--json").out)
    assert content["rows"] == 62
    roles = {one["name"]: one["role"] for one in content["columns"]}
    assert roles == {
        "person": "id", "sex": "group", "spent": "input", "bought on": "ignore",
        "label": "outcome", "score": "decision",
    }  # fmt: skip
    [spent] = [one for one in content["columns"] if one["name"] == "spent"]
    assert spent["kind"] == "numbers"
    assert spent["problem"] == ""


def test_the_first_audit_it_names_runs(call, file):
    said = call("columns", str(file), "--decimal", ",").err
    [line] = [one for one in said.splitlines() if "a first audit:" in one]
    words = shlex.split(line.split("a first audit: fairmend ")[1])
    assert words[:2] == ["audit", str(file)]
    assert words[-2:] == ["--decimal", ","]  # read as it was here
    done = call(*words)
    assert done.code == 0, done.err
    assert "Audit of 62 people in 2 groups by sex" in done.out


def test_the_first_audit_says_which_words_are_positive(call, tmp_path):
    path = tmp_path / "words.csv"
    rows = [f"p{i},{'fm'[i % 2]},{('accept', 'refuse')[i // 2 % 2]},{('yes', 'no')[i // 3 % 2]}"
            for i in range(60)]  # fmt: skip
    path.write_text("\n".join(["person,sex,decision,outcome", *rows]) + "\n")
    said = call("columns", str(path)).err
    assert "--positive yes --positive-decision accept" in said
    [line] = [one for one in said.splitlines() if "a first audit:" in one]
    done = call(*shlex.split(line.split("a first audit: fairmend ")[1]))
    assert done.code == 0, done.err


def test_where_no_column_is_surely_the_outcome_it_says_so(call, tmp_path):
    path = tmp_path / "hires.csv"
    rows = [f"{'fm'[i % 2]},{i % 7},{i // 2 % 2},{i // 3 % 2},{i // 5 % 2}" for i in range(60)]
    path.write_text("\n".join(["sex,years,remote,good_hire,decision", *rows]) + "\n")
    said = call("columns", str(path)).err
    assert "unsure about remote, good_hire: it has two values and may be the outcome" in said
    assert "no column is surely the outcome" in said
    assert "--label" not in said.split("a first audit:")[1]


def test_a_file_that_is_none_is_an_error_in_a_line(call, tmp_path):
    done = call("columns", str(tmp_path / "no.csv"))
    assert done.code == 3
    assert "must be readable" in done.err


@pytest.mark.parametrize(
    ("values", "positive"),
    [(("no", "yes"), "yes"), (("0", "1"), "1"), (("False", "True"), "True"),
     (("approved", "declined"), "approved"), (("good", "yes"), None), (("a", "b"), None)],
)  # fmt: skip
def test_a_positive_value_is_guessed_where_one_word_says_so(values, positive):
    assert guess_positive(values) == positive
