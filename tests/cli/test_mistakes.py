"""What newcomers get wrong: the command line says so, before it does harm."""

import csv
import json
import re

import polars as pl
import pytest

from fairmend.cli.model import ModelOptions
from fairmend.cli.output import check_output, command_line
from fairmend.errors import DataError

from .conftest import IGNORED, NAMED

WITHOUT_ID = NAMED[:-2]
FIT = ("repair", "applicants.csv", *NAMED, *IGNORED)
PYTHON = re.compile(r"sensitive_features|pos_label|sample_weight|one_way|max_edits|two_sided|"
                    r"\bof X\b|\bX\b|\by\b|=True|method=|output=|threshold=")  # fmt: skip
"""Words of the library that nobody types on the command line."""


OTHER_WORDS = re.compile(r"people have no outcome|note:|may be edited:")


# -------------------------------------------------------------------- columns


@pytest.mark.parametrize("command", ["repair", "explain"])
def test_a_column_that_tells_who_somebody_is_must_be_named(command, workdir, call, tmp_path):
    output = ("-o", tmp_path / "m.fairmend") if command == "repair" else ()
    arguments = (command, "applicants.csv", *WITHOUT_ID, *IGNORED, "--metric", "fnr", *output)
    done = call(*arguments, cwd=workdir)
    assert (done.code, done.out) == (3, "")
    assert re.search(
        r"column 'customer no': must not be an input .* all its [\d,]+ values differ\. Say "
        r"--id 'customer no' or --ignore 'customer no'; .* --not-id 'customer no'\.\n$",
        done.err,
    )
    assert list(tmp_path.iterdir()) == []
    ignored = call("explain", "applicants.csv", *WITHOUT_ID, *IGNORED, "--ignore", "customer no",
                   cwd=workdir)  # fmt: skip
    assert ignored.code == 0, ignored.err


@pytest.mark.slow
def test_an_id_is_never_edited(workdir, call, tmp_path):
    insisted = call(*FIT[:2], *WITHOUT_ID, *IGNORED, "--metric", "fnr", "--not-id", "customer no",
                    "--allow-partial", "-o", tmp_path / "m.fairmend", cwd=workdir)  # fmt: skip
    assert insisted.code == 0, insisted.err
    done = call("apply", tmp_path / "m.fairmend", "new.csv", "--missing", "n/a", "--id",
                "customer no", "--key-file", "secret.key", "-o", tmp_path / "o",
                cwd=workdir)  # fmt: skip
    assert done.code == 3
    assert done.err.endswith(
        "fairmend: --id: must not be an input of the repair, which would edit it; 'customer no' is "
        "one. Make the repair again with --id 'customer no'.\n"
    )
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize(
    ("arguments", "flag", "other"),
    [
        (("--label", "approved?", "--group", "approved?", "--predictions", "score"),
         "--group", "--label"),
        (("--label", "approved?", "--group", "sex", "--predictions", "approved?"),
         "--predictions", "--label"),
        (("--label", "approved?", "--group", "sex", "--predictions", "score", "--input",
          "approved?"), "--input", "--label"),
        ((*NAMED, "--weight", "customer no"), "--id", "--weight"),
    ],
)  # fmt: skip
def test_a_column_is_one_thing(arguments, flag, other, workdir, call):
    done = call("audit", "new.csv", *arguments, cwd=workdir)
    assert (done.code, done.out) == (2, "")
    assert f"Invalid value for {flag}: must not be the column of {other}; got" in done.err


def test_two_columns_of_one_name_are_refused(workdir, call, tmp_path):
    raw = (workdir / "applicants.csv").read_bytes()
    (tmp_path / "twins.csv").write_bytes(raw.replace(b";zip;", b";approved?;", 1))
    done = call("audit", "twins.csv", *NAMED)
    assert (done.code, done.out) == (3, "")
    assert done.err == (
        "fairmend: column 'approved?': must be in the file once; got 2 of that name. Rename the "
        "others, or leave them out.\n"
    )


# -------------------------------------------------------------------- no label


@pytest.mark.parametrize("asked", [("--metric", "fnr"), ("--fail-on", "fnr>5%")])
def test_error_rates_need_a_label(asked, workdir, call):
    done = call("audit", "new.csv", *NAMED[4:], *asked, "--json", cwd=workdir)
    assert (done.code, done.out) == (2, "")
    assert "fairmend: --label: must hold what really happened for fnr" in done.err
    assert "'sp', which compares decisions alone" in done.err


@pytest.mark.parametrize(
    ("words", "options", "message"),
    [
        (["yes", "no"], (), "--positive: must say which value of 'said' is positive; it holds 'no' "
         "and 'yes'. Add --positive no or --positive yes.\n"),
        (["yes", "no"], ("--positive", "yess"), "--positive: must be a value of 'said'; got "
         "'yess'. Did you mean 'yes'?\n"),
        (["yes", "no", "later"], ("--positive", "yes"), "--predictions: must hold at most two "
         "words; got 3: 'later', 'no', 'yes'. Say in another column who was selected, and name "
         "that one.\n"),
    ],
)  # fmt: skip
def test_words_for_decisions_must_be_told_apart(words, options, message, call, tmp_path):
    people = pl.DataFrame({"said": words * 20, "sex": (["f", "m"] * len(words) * 10)})
    people.write_csv(tmp_path / "said.csv")
    done = call("audit", "said.csv", "--group", "sex", "--predictions", "said", *options)
    assert (done.code, done.out, done.err) == (3, "", f"fairmend: {message}")


def test_a_positive_value_of_nothing_is_refused(workdir, call):
    done = call("audit", "new.csv", *NAMED[4:], "--positive", "yes", cwd=workdir)
    assert (done.code, done.out) == (2, "")
    assert "--positive: needs --label, or --predictions that are words" in done.err


# -------------------------------------------------------------------- limits


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ("fnr>5", "must be at most 1, or 100%: no gap is larger; got 'fnr>5'. "
                  "Did you mean 'fnr>5%'?"),
        ("fnr>500%", "must be at most 1, or 100%: no gap is larger; got 'fnr>500%'."),
        ("tpr>0.9", "must begin with a metric; got 'tpr>0.9'. Say 'fnr': tpr is 1 - fnr, so"),
        ("fbr>0.9", "must begin with a metric; got 'fbr>0.9'. Did you mean 'f"),
        ("fnr>.", "must read METRIC>LIMIT; got 'fnr>.'."),
    ],
)  # fmt: skip
def test_limits_that_can_never_be_crossed(limit, message, workdir, call):
    done = call("audit", "new.csv", *NAMED, "--fail-on", limit, cwd=workdir)
    assert (done.code, done.out) == (2, "")
    assert f"Invalid value for --fail-on: {message}" in done.err


@pytest.mark.parametrize(("limit", "unit"), [("0.01", ""), ("1%", " points")])
def test_a_crossed_limit_is_told_in_the_unit_it_was_typed_in(limit, unit, workdir, call):
    done = call("audit", "new.csv", *NAMED, "--fail-on", f"fnr>{limit}", cwd=workdir)
    assert done.code == 1
    assert done.err.endswith(f"{unit}, beyond {limit.rstrip('%')}{unit}\n")
    gap = float(re.search(rf"the gap of female against male is \+([\d.]+){unit},", done.err)[1])
    audit = json.loads(call("audit", "new.csv", *NAMED, "--json", cwd=workdir).out)
    expected = next(g["gap"] for g in audit["gaps"] if g["metric"] == "fnr")
    assert gap == pytest.approx(expected * (100 if unit else 1), rel=1e-3)  # four digits are shown


# -------------------------------------------------------------------- a gap that stays


@pytest.fixture(scope="module")
def dated(workdir, tmp_path_factory):
    """The applicants with a column that hardly two of them share, and one that many do."""
    folder = tmp_path_factory.mktemp("dated")
    table = pl.read_csv(workdir / "applicants.csv", separator=";", null_values=["n/a"])
    day = pl.int_range(pl.len()) // 2
    table.with_columns(day.alias("day"), (day % 2).alias("branch")).write_csv(folder / "dated.csv")
    return folder


@pytest.mark.slow
def test_a_gap_that_stays_is_said_first_and_by_the_exit_code(dated, call):
    arguments = ("repair", "dated.csv", *NAMED, *IGNORED, "--metric", "fnr", "--do-no-harm",
                 "--force", "-o", "m.fairmend")  # fmt: skip
    rules = ("--immutable", "branch", "--immutable", "day")
    done = call(*arguments, *rules, cwd=dated)
    assert done.code == 1
    headline = "NOT CLOSED: on the audit data the gap in fnr of female against male was +"
    assert done.out.startswith(headline)
    assert f"fairmend: {headline}" in done.err
    said = " ".join(done.out.split())
    assert "With --predictions people can only be edited into rows that are in the file" in said
    assert "With --model the model itself is queried" in said
    assert {path.name for path in dated.iterdir()} == {"dated.csv", "m.fairmend", "m.html"}
    partial = call(*arguments, *rules, "--allow-partial", "--json", cwd=dated)
    assert partial.code == 0
    [short] = json.loads(partial.out)["not_closed"]
    assert (short["status"], short["target"]) == ("UNREACHABLE", "female")
    assert short["after"] > 0
    branch, day = short["trials"]
    assert (branch["rule"], day["rule"]) == ("--immutable branch", "--immutable day")
    # the day alone blocks as much as both, the branch next to nothing
    assert day["unreachable_alone"] == branch["unreachable_without"] > 0.1
    assert day["unreachable_without"] == branch["unreachable_alone"] < 0.01
    assert call(*arguments, "--immutable", "branch", cwd=dated).code == 0


# -------------------------------------------------------------------- places, keys, old answers


@pytest.mark.parametrize("command", ["repair", "apply", "report"])
def test_a_folder_that_is_not_there_is_noticed_first(command, workdir, call, tmp_path):
    output = tmp_path / "no such folder" / "out"
    arguments = {
        # files that cannot be read: nothing is looked at before the place is
        "repair": ("repair", "none.csv", *NAMED, "-o", output),
        "apply": ("apply", "none", "none.csv", "-o", output),
        "report": ("report", "none", "none.csv", "--label", "approved?", "-o", output),
    }[command]
    done = call(*arguments, cwd=workdir)
    assert (done.code, done.out) == (3, "")
    assert "must be in a folder that is there; there is no folder" in done.err
    folder = call(*arguments[:-1], tmp_path, cwd=workdir)
    assert "must be a file; it is a folder" in folder.err


@pytest.mark.slow
def test_the_key_of_the_repair_is_the_key_to_apply_it_with(workdir, call, tmp_path):
    assert call("key", tmp_path / "other.key").code == 0
    made = call(*FIT, "--key-file", "secret.key", "-o", tmp_path / "m.fairmend", cwd=workdir)
    assert (made.code, "without --key-file" in made.err) == (0, False)
    apply = ("apply", tmp_path / "m.fairmend", "new.csv", "--missing", "n/a", "--id", "customer no")
    wrong = call(*apply, "--key-file", tmp_path / "other.key", "-o", tmp_path / "o", cwd=workdir)
    assert wrong.code == 5
    [fingerprint] = re.findall(r"must be the one with fingerprint (\w+); ", wrong.err)
    none = call(*apply, "-o", tmp_path / "o", cwd=workdir)
    assert none.code == 3
    assert none.err.endswith(
        "got none, and FAIRMEND_KEY is not set. Give the key the repair was made with, of "
        f"fingerprint {fingerprint}: no other will do.\n"
    )
    right = call(*apply, "--key-file", "secret.key", "-o", tmp_path / "o", cwd=workdir)
    assert (right.code, "nobody can check" in right.err) == (0, False)


def test_few_are_not_none(workdir, call, tmp_path, monkeypatch):
    monkeypatch.setattr("fairmend.cli.model.randomised_share", lambda _: 0.0003)
    done = call("apply", "repaired.fairmend", "new.csv", "-o", tmp_path / "o", cwd=workdir)
    assert done.code == 3
    assert done.err == (
        "fairmend: --key-file: must be given: this repair leaves less than 0.1 % of a group to a "
        "draw; got none, and FAIRMEND_KEY is not set. Make a key once with fairmend key FILE, and "
        "keep it.\n"
    )


def test_without_a_key_it_is_said_that_none_can_be_checked(workdir, call, tmp_path):
    made = (workdir / "repaired.err").read_text()
    assert "note: without --key-file no artifact can tell later" in made
    applied = call("apply", "repaired.fairmend", "new.csv", "--missing", "n/a", "--id",
                   "customer no", "--key-file", "secret.key", "-o", tmp_path / "o",
                   cwd=workdir)  # fmt: skip
    assert applied.code == 0
    assert "nobody can check that this is the key people were drawn with" in applied.err


def test_old_answers_beside_new_decisions_are_pointed_out(workdir, call, tmp_path):
    arguments = ("apply", "repaired.fairmend", "new.csv", "--missing", "n/a", "--id", "customer no",
                 "--key-file", "secret.key", "--force", "-o", tmp_path / "o")  # fmt: skip
    done = call(*arguments, "--emit", "both", cwd=workdir)
    assert done.err.endswith(
        "note: 'score' still holds the model's answers about the rows before the edits; the "
        "repaired decisions are in 'decision'\n"
    )
    for emit, stale in (("both", "score"), ("rows", "score"), ("decisions", None)):
        said = json.loads(call(*arguments, "--emit", emit, "--json", cwd=workdir).out)
        assert said["answers_before_edits"] == stale


@pytest.mark.slow
def test_people_are_called_unseen_only_if_they_are_a_holdout(workdir, call, tmp_path):
    kept = call(*FIT, "-o", tmp_path / "kept", cwd=workdir)
    assert "people the repair has not seen (30 % of applicants.csv" in kept.out
    for holdout, known in (
        ("applicants.csv", " the repair was fitted on"),
        ("new.csv", ", whom the repair should not have seen"),
    ):
        done = call(*FIT, "--holdout", holdout, "--force", "-o", tmp_path / "m", cwd=workdir)
        assert "has not seen" not in done.out
        assert re.search(rf"On [\d,]+ people{known} \({holdout}\):", done.out)


def test_an_explanation_says_what_its_figures_are(workdir, call):
    done = call("explain", "applicants.csv", *NAMED, *IGNORED, "--metric", "fnr", cwd=workdir)
    assert done.code == 0, done.err
    assert "The gaps are modelled: " in done.out
    legend = [line.partition(":")[0] for line in done.out.splitlines()]
    assert {"of the influence", "of the change", "shift"} <= set(legend)
    counted = call("explain", "applicants.csv", *NAMED, *IGNORED, "--metric", "sp", cwd=workdir)
    assert "modelled" not in counted.out


# -------------------------------------------------------------------- words and codes


@pytest.mark.parametrize(
    ("arguments", "code", "start"),
    [
        (("--metric", "sp", "--reference", "nobody"), 3, "--reference: must be one of the 2 groups "
                                                         "in --group; got 'nobody'."),
        (("--target", "nobody"), 3, "--target: must be one of the 2 groups in --group;"),
        (("--immutable", "Age"), 3, "--immutable: must name inputs of the model; got 'Age'."),
        (("--immutable", "sex"), 3, "--immutable: must name inputs of the model; got 'sex', which "
                                    "is a --group. Leave it out: groups are never edited."),
        (("--one-way", "sex:up"), 3, "--one-way: must name inputs of the model; got 'sex', which "),
        (("--one-way", "Age:up"), 3, "--one-way: must name inputs of the model; got 'Age'."),
        (("--favourable", "maybe"), 3, "--favourable: must be one of the values of --label;"),
        (("--level", "7"), 2, "--level: must lie between 0 and 1; got 7.0."),
        (("--max-edits", "0"), 2, "--max-edits: must be a whole number, at least 1; got 0."),
        (("--method", "magic"), 2, "--method: must be one of"),
        (("--metric", "magic"), 2, "--metric: must be one of sp, fnr, fpr, fdr, da;"),
        *((("--metric", said), 2, "--metric: must be one of sp, fnr, fpr, fdr, da; got "
                                  f"'{said}'. Say '{metric}'")
          for said, metric in (("tpr", "fnr"), ("recall", "fnr"), ("specificity", "fpr"),
                               ("precision", "fdr"), ("demographic_parity", "sp"))),
        (("--two-sided", "--method", "order"), 2, "--method: must be 'least_change' for "
                                                  "--two-sided; got 'order'. Leave it out"),
        (("--answers", "magic"), 2, "--answers: must be one of"),
        (("--soft", "--threshold", "0.5"), 2, "--soft: must be left out where there"),
    ],
)  # fmt: skip
def test_errors_speak_of_options(  # noqa: PLR0917
    arguments, code, start, workdir, call, tmp_path
):
    done = call("repair", "applicants.csv", *NAMED, *IGNORED, *arguments, "-o", tmp_path / "m",
                cwd=workdir)  # fmt: skip
    [said] = [line for line in done.err.splitlines() if not OTHER_WORDS.search(line)]
    assert (done.code, said[: len(start) + 10]) == (code, f"fairmend: {start}")
    assert not PYTHON.search(said)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("score", "fairmend: --predictions: must name a column of the file; there is no 'score'."),
        ("Age (years)", "fairmend: the file: must have every input of the repair as a column; "
                        "there is no 'Age (years)'."),
    ],
)  # fmt: skip
def test_a_column_that_apply_misses(column, message, workdir, call, tmp_path):
    with (workdir / "new.csv").open(encoding="utf-8-sig", newline="") as file:
        header, *rows = csv.reader(file, delimiter=";")
    header[header.index(column)] = "something else"
    with (tmp_path / "new.csv").open("w", newline="") as file:
        csv.writer(file, delimiter=";").writerows([header, *rows])
    done = call("apply", workdir / "repaired.fairmend", "new.csv", "--missing", "n/a", "--group",
                "sex", "--key-file", workdir / "secret.key", "-o", "out.csv")  # fmt: skip
    assert done.code == 3
    assert message in done.err
    assert not (tmp_path / "out.csv").exists()


# -------------------------------------------------------------------- cells that mislead


def test_a_number_that_is_none_is_a_missing_group(call, tmp_path):
    """As an empty cell is; the rest are audited as if these people had not been there."""
    rows = [f"{i % 3},{i % 2}.0,{int(i % 5 > 1)},{int(i % 7 > 2)}" for i in range(120)]
    head, named = "x,g,said,y", ("--label", "y", "--group", "g", "--predictions", "said", "--json")
    (tmp_path / "known.csv").write_text("\n".join([head, *rows]))
    odd = ["0,NaN,1,1", "0,,0,1", "1,1.0,0,NaN"]
    (tmp_path / "odd.csv").write_text("\n".join([head, *odd, *rows]))
    pl.read_csv(tmp_path / "odd.csv").write_parquet(tmp_path / "odd.parquet")
    known = json.loads(call("audit", "known.csv", *named).out)
    for name in ("odd.csv", "odd.parquet"):
        done = call("audit", name, *named)
        assert done.code == 0, done.err
        assert done.err.endswith("3 of 123 people have no outcome or no group: left out\n")
        assert ("'y' is read as numbers; 'NaN' in 1 cell" in done.err) == (name == "odd.csv")
        assert json.loads(done.out)["gaps"] == known["gaps"]


def test_words_among_numbers_are_told_or_refused(workdir, call, tmp_path):
    whole = (workdir / "applicants.csv").read_bytes()
    named = [*NAMED, *IGNORED]
    named[named.index("n/a")] = "nothing"
    (tmp_path / "applicants.csv").write_bytes(whole)
    for command in ("audit", "explain"):
        done = call(command, "applicants.csv", *named)
        assert done.code == 0, done.err
        assert "'<b>Income</b>' is read as numbers; 'n/a' in 26 cells" in done.err
        told = call(command, "applicants.csv", *NAMED, *IGNORED)
        assert (told.out, "read as numbers" in told.err) == (done.out, False)
    (tmp_path / "applicants.csv").write_bytes(whole.replace(b"n/a", b"unknown"))
    done = call("explain", "applicants.csv", *named)
    assert (done.code, "column '<b>Income</b>', line " in done.err) == (3, True)
    assert "got 'unknown'" in done.err
    assert "--missing unknown" in done.err
    assert call("explain", "applicants.csv", *named, "--missing", "unknown").code == 0
    assert call("explain", "applicants.csv", *named, "--words", "<b>Income</b>").code == 0


def test_declaring_a_holdout_needs_a_holdout_file(workdir, call):
    done = call(*FIT, "--is-holdout", cwd=workdir)
    assert done.code == 2
    assert "is for --holdout FILE" in done.err


# -------------------------------------------------------------------- places and numbers


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*FIT, "-o", ""), "output '': must be a file; it is a folder."),
        ((*FIT, "-o", "x.html", "--force"),
         "--report: must be a file of its own; got 'x.html', which is another"),
        (("demo", "--write", "a.csv", "--new", "./a.csv"),
         "--new: must be a file of its own; got './a.csv', which is another"),
        (("key", "secret.key"), "Choose another name: a key is never overwritten."),
        (("audit", "no-*.such", *NAMED[:-4]), "files 'no-*.such': must be a path or a glob"),
        ((*FIT, "--holdout-share", "0.0001"), "people leaves all to fit."),
        ((*FIT, "--holdout-share", "0.9999"), "people leaves none to fit."),
    ],
)  # fmt: skip
def test_places_and_shares_that_cannot_be(workdir, call, arguments, message):
    before = sorted(path.name for path in workdir.iterdir())
    done = call(*arguments, cwd=workdir)
    assert (done.code, done.out) == (3, "")
    assert message in done.err
    assert sorted(path.name for path in workdir.iterdir()) == before


def test_whole_numbers_are_typed_as_such(call, tmp_path):
    """Outcomes with gaps come out of pandas as 1.0 and 2.0."""
    n = 200
    table = pl.DataFrame(
        {
            "x": [i % 5 for i in range(n)],
            "g": [float(i % 2) for i in range(n)],
            "said": [i % 2 * (i % 3 > 0) for i in range(n)],
            "y": [1.0 + (i % 7 > 2) for i in range(n)],
        }
    )
    table.write_parquet(tmp_path / "t.parquet")
    named = ("--label", "y", "--group", "g", "--predictions", "said", "--metric", "fnr", "--json",
             "--answers", "probability")  # fmt: skip
    done = call("audit", "t.parquet", *named, "--positive", "2", "--reference", "1")
    assert done.code == 0, done.err
    [gap] = json.loads(done.out)["gaps"]
    missed = table.filter(pl.col("y") == 2).group_by("g").agg((pl.col("said") == 0).mean())
    rates = dict(missed.iter_rows())
    assert gap["gap"] == pytest.approx(rates[0.0] - rates[1.0])
    wrong = call("audit", "t.parquet", *named, "--positive", "3")
    assert (wrong.code, "got '3'. Known: 1.0, 2.0." in wrong.err) == (3, True)


# -------------------------------------------------------------------- values that are none


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--unknown-group", "kepp"),
            "--unknown-group: must be error or keep; got 'kepp'. Did",
        ),
        (("--emit", "row"), "--emit: must be one of decisions, rows, both; got 'row'. Did"),
        (("--answers", "foo"), "--answers: must be one of label, probability, score, auto; got"),
        (("--rows", "foo"), "--rows: must be one of pandas, polars, numpy; got 'foo'"),
        (("--protocol", "foo"), "--protocol: must be one of instances, mlflow, v2; got 'foo'"),
        (("--decimal", ";"), "--decimal: must be . or ,; got ';'"),
        (("--threshold", "900"), "--threshold: must be 0.5, as in the repair"),
        (("--threshold", "nan"), "--threshold: must be 0.5, as in the repair"),
        (("--answers", "label"), "--answers: must be probability, as in the repair; got 'label'"),
        (("--predictions", "score", "--threshold", "0.7"), "--threshold: must be 0.5, as in the"),
        (("--rows", "pandas"), "has no effect without --model package.module:object"),
    ],
)
def test_apply_takes_no_option_that_it_would_ignore(options, message, workdir, call, tmp_path):
    done = call("apply", "repaired.fairmend", "new.csv", "--missing", "n/a", "--key-file",
                "secret.key", "--id", "customer no", "-o", tmp_path / "o.csv", *options,
                cwd=workdir)  # fmt: skip
    assert done.code == 2, done.err
    assert message in done.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*FIT, "-o", "-"), "output '-': must be a file"),
        ((*FIT, "-o", "applicants.csv", "--force"), "--output: must be a file of its own"),
        ((*FIT, "--one-way", "zip:up", "--one-way", "zip:down"),
         "--one-way: must name each once; got up and down for 'zip'. A column that must"),
        ((*FIT, "--cost", "zip=cheap"), "--cost: must read COLUMN=NUMBER; got 'zip=cheap'"),
        ((*FIT, "--cost", "zip=0"), "--cost: must read COLUMN=NUMBER; got 'zip=0'"),
        ((*FIT, "--cost", "zap=2"), "--cost: must name inputs of the model; got 'zap'"),
        (("apply", "repaired.fairmend", "new.csv", "-o", "./new.csv", "--force"),
         "--output: must be a file of its own"),
        (("apply", "repaired.fairmend", "new.csv", "-o", "repaired.fairmend", "--force"),
         "--output: must be a file of its own"),
        (("apply", "repaired.fairmend", "new.csv", "-o", "o", "--decision", ""),
         "--decision: must be a name"),
    ],
)  # fmt: skip
def test_nothing_is_written_over_what_is_read(arguments, message, workdir, call):
    before = {path: path.read_bytes() for path in workdir.iterdir() if path.is_file()}
    done = call(*arguments, cwd=workdir)
    assert done.code in (2, 3)
    assert message in done.err
    assert {path: path.read_bytes() for path in workdir.iterdir() if path.is_file()} == before


def test_the_cut_of_the_repair_may_be_repeated(workdir, call, tmp_path):
    done = call("apply", "repaired.fairmend", "new.csv", "--missing", "n/a", "--key-file",
                "secret.key", "--id", "customer no", "-o", tmp_path / "o.csv", "--predictions",
                "score", "--threshold", "0.5", "--answers", "probability", cwd=workdir)  # fmt: skip
    assert done.code == 0, done.err


def test_secrets_are_not_repeated(workdir, call, tmp_path, monkeypatch):
    key = "0123456789abcdef" * 4
    done = call("apply", "repaired.fairmend", "new.csv", "-o", tmp_path / "o.csv", "--key-file",
                key, cwd=workdir)  # fmt: skip
    assert done.code == 3
    assert key not in done.err
    address = "http://127.0.0.1:9/score?token=t0p"
    for model in (address, address.replace("http", "ftp"), address.replace("//", "//me:t0p@")):
        done = call("audit", "applicants.csv", *NAMED[:6], "--model", model, cwd=workdir)
        assert done.code in (3, 4)
        assert "t0p" not in done.err
    monkeypatch.setattr(
        "sys.argv", ["fairmend", "repair", "--model", address, f"--model={address}"]
    )
    assert command_line() == (
        "fairmend repair --model http://127.0.0.1:9/score --model=http://127.0.0.1:9/score"
    )
    assert "t0p" not in ModelOptions(model=address).name
    other = ModelOptions(model=address.replace("t0p", "t1p"))
    assert other.name != ModelOptions(model=address).name  # a record tells them apart all the same


def test_names_in_a_file_move_no_cursor(call, tmp_path):
    groups = ("M", "F\x1b[31m")
    rows = [f"{groups[i % 2]},{i % 3 % 2},{i % 5 % 2}" for i in range(200)]
    (tmp_path / "f.csv").write_text("sex,y,p\n" + "\n".join(rows) + "\n")
    done = call("audit", "f.csv", "--group", "sex", "--label", "y", "--predictions", "p")
    assert done.code == 0
    assert r"F\x1b[31m" in done.out
    assert "\x1b" not in done.out + done.err


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (("--thousands", ";"), "got ';'"),
        (("--thousands", "."), "must be another mark than that of decimals"),
        (("--currency", "5"), "must be the sign of a currency"),
    ],
)
def test_marks_that_are_none(workdir, call, option, message):
    done = call("audit", "applicants.csv", *NAMED, *option, cwd=workdir)
    assert (done.code, message in done.err) == (2, True)


def test_a_link_to_itself_is_another_place_and_no_traceback(tmp_path):
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    check_output("-o", str(tmp_path / "out"), str(loop), force=False)
    with pytest.raises(DataError, match="must be a file of its own"):
        check_output("-o", str(loop), str(loop), force=False)


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("inspect", "empty"), 5, "artifact 'empty': must begin as a zip does; it is empty"),
        (("audit", "applicants.csv", "--group", "sex"), 2, "got neither. fairmend columns FILE"),
        ((*FIT, "--holdout-share", "30", "-o", "o"), 2, "must lie between 0 and 1; got 30"),
        (("alternatives", *FIT[1:], "--margin", "2"), 3, "--margin: must lie between 0 and 1; got"),
        (("alternatives", *FIT[1:], "--measure", "foo"), 3, "--models, --measure: must name a col"),
        (("explain", *FIT[1:], "--target", "male", "--reference", "male"), 3,
         "--reference: must differ from the target; both are 'male'"),
        (("studio", "nothere.csv", "--no-browser"), 3, "nothere.csv': must be readable; it is not"),
        (("apply", "repaired.fairmend", "new.csv", "--key-file", "k", "-o", "o"), 3,
         "Check its name. Make a key once with fairmend key FILE"),
    ],
)  # fmt: skip
def test_a_slip_is_told_with_what_came_and_what_to_do(arguments, code, says, workdir, call):
    (workdir / "empty").touch()
    before = set(workdir.iterdir())
    done = call(*arguments, cwd=workdir)
    assert (done.code, done.out) == (code, "")
    text = " ".join(re.sub(r"[│╭╮╰╯─]", " ", done.err).split())
    assert says in text
    assert set(workdir.iterdir()) == before  # no folder for a project without a file
