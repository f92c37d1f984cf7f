"""A blind repair by the commands alone: made with groups, applied to a file without them."""

import csv
import io
import json

import numpy as np
import polars as pl
import pytest

from .conftest import IGNORED, NAMED, write_applicants

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::fairmend.FairmendWarning")]

BLIND = ("--metric", "sp", "--blind", "--immutable", "Age (years)")
APPLY = ("--missing", "n/a", "--id", "customer no")


def cells(path):
    text = path.read_text(encoding="utf-8-sig")
    return list(csv.reader(io.StringIO(text, newline=""), delimiter=";"))


def without(path, name, out):
    """The same file without a column, as a spreadsheet would write it."""
    header, *rows = cells(path)
    at = header.index(name)
    with out.open("w", newline="", encoding="utf-8-sig") as file:
        writer = csv.writer(file, delimiter=";", lineterminator="\r\n")
        writer.writerows(row[:at] + row[at + 1 :] for row in (header, *rows))
    return out


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("blind")
    write_applicants(folder / "applicants.csv", 900)
    write_applicants(folder / "new.csv", 300, seed=1)
    without(folder / "new.csv", "sex", folder / "nameless.csv")
    return folder


@pytest.fixture
def made(folder, call):
    """The repair, made once."""
    if not (folder / "blind.fairmend").exists():
        done = call("repair", "applicants.csv", *NAMED, *IGNORED, *BLIND, "-o", "blind.fairmend",
                    "--json", cwd=folder)  # fmt: skip
        assert done.code == 0, done.err
        (folder / "repair.json").write_text(done.out)
    return folder


def test_the_repair_says_what_it_does_to_each_group(made):
    found = json.loads((made / "repair.json").read_text())
    plans = found["results"]["plans"]
    assert {plan["target"] for plan in plans} == {"female", "male"}
    assert found["results"]["provenance"]["settings"]["blind"] == "True"
    levels = [point["group"] for point in found["results"]["frontier"]]
    assert levels.count("female") == levels.count("male") == 11
    assert (made / "blind.html").exists()


def test_a_file_without_groups_gets_the_decisions_of_one_with_them(made, call, tmp_path):
    out = {}
    for name in ("new", "nameless"):
        done = call("apply", "blind.fairmend", f"{name}.csv", *APPLY, "--emit", "both", "-o",
                    tmp_path / f"{name}.csv", cwd=made)  # fmt: skip
        assert done.code == 0, done.err
        assert "300 rows" in done.err
        assert "without a group" not in done.err
        out[name] = cells(tmp_path / f"{name}.csv")
    at = out["new"][0].index("sex")
    assert [row[:at] + row[at + 1 :] for row in out["new"]] == out["nameless"]
    before = cells(made / "nameless.csv")
    assert [row[1] for row in before] == [row[1] for row in out["nameless"]]  # immutable
    decided = [row[-1] for row in out["nameless"]]
    assert len(set(decided[1:])) == 2


def test_a_folder_without_groups(made, call, tmp_path):
    (tmp_path / "in").mkdir()
    for number in range(2):
        content = (made / "nameless.csv").read_bytes()
        (tmp_path / "in" / f"{number}.csv").write_bytes(content)
    done = call("apply", "blind.fairmend", f"{tmp_path}/in/*.csv", *APPLY, "-o", tmp_path / "out",
                "--emit", "decisions", cwd=made)  # fmt: skip
    assert done.code == 0, done.err
    one, two = ((tmp_path / "out" / f"{k}.csv").read_bytes() for k in range(2))
    assert one == two


def test_parquet_without_groups(made, call, tmp_path):
    header, *rows = cells(made / "nameless.csv")
    table = pl.DataFrame(rows, schema=header, orient="row").with_columns(
        pl.col("<b>Income</b>").replace("n/a", None).cast(pl.Float64),
        pl.col("Age (years)").replace("", None).cast(pl.Int64),
        pl.col("Employment type").replace("", None),
        pl.col("score").cast(pl.Float64),
    )
    table.write_parquet(tmp_path / "in.parquet")
    done = call("apply", made / "blind.fairmend", tmp_path / "in.parquet", "--id", "customer no",
                "-o", tmp_path / "out.parquet")  # fmt: skip
    assert done.code == 0, done.err
    done = call("apply", "blind.fairmend", "nameless.csv", *APPLY, "-o", tmp_path / "out.csv",
                cwd=made)  # fmt: skip
    decided = [row[-1] for row in cells(tmp_path / "out.csv")[1:]]
    assert pl.read_parquet(tmp_path / "out.parquet")["decision"].cast(str).to_list() == decided


def test_naming_a_group_is_an_error_that_says_why(made, call, tmp_path):
    done = call("apply", "blind.fairmend", "new.csv", *APPLY, "--group", "sex", "-o",
                tmp_path / "out.csv", cwd=made)  # fmt: skip
    assert done.code != 0
    assert "--group: must be left out: this repair is blind" in done.err
    assert "equal inputs get equal decisions" in done.err
    assert not (tmp_path / "out.csv").exists()


def test_the_report_on_other_people(made, call, tmp_path):
    done = call("report", "blind.fairmend", "new.csv", *NAMED[:2], *NAMED[4:6], *NAMED[8:10], "-o",
                tmp_path / "page.html", "--json", cwd=made)  # fmt: skip
    assert done.code == 0, done.err
    found = json.loads(done.out)
    groups = {one["group"]: one for one in found["groups"]}
    assert set(groups) == {"female", "male"}
    assert (tmp_path / "page.html").exists()
    assert "what closing less of the gap would do is left out" in done.err
    assert found["frontier"] == []


def test_inspect_says_that_it_is_blind(made, call):
    done = call("inspect", "blind.fairmend", cwd=made)
    assert done.code == 0, done.err
    assert "one rule for everybody, without the group" in done.out
    settings = json.loads(call("inspect", "blind.fairmend", "--json", cwd=made).out)["settings"]
    assert settings["blind"] is True


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--two-sided"], "--two-sided: must be False for blind"),
        (["--method", "transport"], "--method: must be 'least_change' for blind"),
        (["--soft"], "must be False for soft decisions"),
    ],
)
def test_what_does_not_go_with_blind_is_one_clear_sentence(folder, call, tmp_path, more, words):
    done = call("repair", "applicants.csv", *NAMED, *IGNORED, *BLIND, *more, "-o",
                tmp_path / "x.fairmend", cwd=folder)  # fmt: skip
    assert done.code not in (0, 1)
    assert "Traceback" not in done.err
    assert words in done.err
    assert len([line for line in done.err.splitlines() if "must be" in line]) == 1
    assert not (tmp_path / "x.fairmend").exists()


def test_the_gap_of_a_file_is_closed_by_recount(made, call, tmp_path):
    """Those the repair was made on, less those held out, are not told apart here: all of them."""
    done = call("apply", "blind.fairmend", "applicants.csv", *APPLY, "-o", tmp_path / "all.csv",
                "--emit", "both", cwd=made)  # fmt: skip
    assert done.code == 0, done.err
    header, *rows = cells(tmp_path / "all.csv")
    people = [dict(zip(header, row, strict=True)) for row in rows]
    known = [p for p in people if p["sex"]]

    def gap(missed):
        rates = [
            np.mean([missed(p) for p in known if p["sex"] == sex]) for sex in ("female", "male")
        ]
        return rates[0] - rates[1]

    before = gap(lambda p: float(p["score"]) <= 0.5)
    after = gap(lambda p: p["decision"] == "no")
    assert abs(after) < abs(before) / 2


@pytest.mark.parametrize(
    "text", ["false_positive=1", "false_positive=1,false_negative=none", "false_positive=0,"
             "false_negative=1", "fp=1,fn=2"]
)  # fmt: skip
def test_costs_of_errors_that_do_not_read_so_are_refused(folder, call, text):
    done = call("repair", "applicants.csv", *NAMED, *IGNORED, *BLIND, "--rank", text,
                "-o", "never.fairmend", cwd=folder)  # fmt: skip
    assert done.code == 2
    assert "--rank" in done.err
    assert "false_positive=NUMBER,false_negative=NUMBER" in " ".join(done.err.split())
    assert not (folder / "never.fairmend").exists()


def test_the_costs_of_errors_are_those_of_the_library(folder, call):
    done = call("repair", "applicants.csv", *NAMED, *IGNORED, *BLIND, "--level", "0",
                "--rank", "false_positive=1,false_negative=3", "-o", "ranked.fairmend",
                "--json", cwd=folder)  # fmt: skip
    settings = json.loads(done.out)["results"]["provenance"]["settings"]
    assert settings["rank"] == str({"false_positive": 1.0, "false_negative": 3.0})
