"""Many files: counted where they are, applied one by one, and gone on with after a kill."""

import gzip
import json
import re
import signal
import subprocess
import sys
import time

import numpy as np
import polars as pl
import pytest

from fairmend.apply.outputs import RECORD

from .conftest import environment, in_process

NAMED = ("--label", "repaid", "--group", "sex", "--predictions", "said")


def people(n, seed):
    rng = np.random.default_rng(seed)
    sex = rng.choice(["F", "M"], n)
    x = (rng.random((n, 5)) < [0.3, 0.4, 0.5, 0.6, 0.5]).astype(int)
    x[:, 4] |= (sex == "M") & (rng.random(n) < 0.4)
    repaid = (rng.random(n) < 0.2 + 0.15 * x[:, 2:].sum(axis=1)).astype(int)
    return pl.DataFrame(
        {
            **{f"x{j}": x[:, j] for j in range(5)},
            "said": (x[:, 2:].sum(axis=1) >= 2).astype(int),
            "repaid": repaid,
            "sex": sex,
            "id": np.arange(n) + 1_000_000 * seed,
        }
    )


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """Four files of people to audit, two held out, the same in one file each, and a repair."""
    place = tmp_path_factory.mktemp("lake")
    for folder, seeds in (("audit", range(4)), ("apart", range(4, 6))):
        (place / folder).mkdir()
        parts = [people(3_000, seed) for seed in seeds]
        for seed, part in zip(seeds, parts, strict=True):
            part.write_parquet(place / folder / f"part-{seed}.parquet")
        pl.concat(parts).write_parquet(place / f"{folder}.parquet")
    assert in_process("key", "secret.key", cwd=place).code == 0
    done = in_process(
        "repair", "audit.parquet", *NAMED, "--id", "id", "--key-file", "secret.key",
        "--holdout", "apart.parquet", "-o", "one.fairmend", cwd=place,
    )  # fmt: skip
    assert done.code == 0, done.err
    return place


@pytest.mark.parametrize("many", ["audit", "audit/part-*.parquet"])
def test_an_audit_of_many_files_is_that_of_all_their_people(lake, call, many):
    one, several = (
        call("audit", file, *NAMED, "--json", cwd=lake) for file in ("audit.parquet", many)
    )
    assert (one.code, several.code) == (0, 0), several.err
    assert json.loads(several.out) == json.loads(one.out)


def test_an_explanation_of_many_files_is_that_of_all_their_people(lake, call):
    one, several = (
        call("explain", file, *NAMED, "--id", "id", "--json", cwd=lake)
        for file in ("audit.parquet", "audit")
    )
    assert (one.code, several.code) == (0, 0), several.err
    a, b = json.loads(one.out), json.loads(several.out)
    # sums over the same cells in another order
    assert (b["before"], b["after"], b["kl"]) == pytest.approx((a["before"], a["after"], a["kl"]))


def test_a_repair_of_many_files_decides_as_one_of_all_their_people(lake, call, tmp_path):
    done = call(
        "repair", "audit", *NAMED, "--id", "id", "--key-file", "secret.key", "--holdout", "apart",
        "-o", tmp_path / "many.fairmend", "--json", cwd=lake,
    )  # fmt: skip
    assert done.code == 0, done.err
    said = json.loads(done.out)
    assert said["holdout"] == {"people": 6_000, "which": "apart"}
    answers = []
    for artifact in (lake / "one.fairmend", tmp_path / "many.fairmend"):
        out = tmp_path / f"{artifact.stem}.parquet"
        ran = call("apply", artifact, "apart.parquet", "-o", out, "--id", "id",
                   "--key-file", "secret.key", "--emit", "both", cwd=lake)  # fmt: skip
        assert ran.code == 0, ran.err
        answers.append(pl.read_parquet(out))
    assert answers[0].equals(answers[1])
    assert (answers[0]["decision"] != answers[0]["said"]).any()


def test_a_report_on_many_files_is_that_of_all_their_people(lake, call):
    one, several = (
        call("report", "one.fairmend", file, "--label=repaid", "--is-holdout", "--json", cwd=lake)
        for file in ("apart.parquet", "apart")
    )
    assert (one.code, several.code) == (0, 0), several.err
    a, b = json.loads(one.out), json.loads(several.out)
    assert b["provenance"]["report_data"] == a["provenance"]["report_data"]
    assert [b[part] for part in ("before", "after", "groups")] == [
        a[part] for part in ("before", "after", "groups")
    ]


def apply(call, lake, out, *more):
    return call("apply", "one.fairmend", "apart", "-o", out, "--id", "id",
                "--key-file", "secret.key", "--emit", "both", *more, cwd=lake)  # fmt: skip


def test_each_file_gets_its_own_output(lake, call, tmp_path):
    done = apply(call, lake, tmp_path / "out")
    assert done.code == 0, done.err
    assert "6,000 rows" in done.err
    whole = call("apply", "one.fairmend", "apart.parquet", "-o", tmp_path / "whole.parquet",
                 "--id", "id", "--key-file", "secret.key", "--emit", "both",
                 cwd=lake)  # fmt: skip
    assert whole.code == 0
    parts = sorted((tmp_path / "out").glob("*.parquet"))
    assert [part.name for part in parts] == ["part-4.parquet", "part-5.parquet"]
    together = pl.concat([pl.read_parquet(part) for part in parts])
    assert together.equals(pl.read_parquet(tmp_path / "whole.parquet"))
    # and nobody is counted by engines that read the folder
    assert call("audit", tmp_path / "out", "--label", "repaid", "--group", "sex",
                "--predictions", "decision", cwd=lake).code == 0  # fmt: skip


def test_what_is_done_is_not_done_again(lake, call, tmp_path):
    out = tmp_path / "out"
    assert apply(call, lake, out).code == 0
    before = {path.name: path.stat().st_mtime_ns for path in out.glob("*.parquet")}
    (out / "part-5.parquet").unlink()
    done = apply(call, lake, out)
    assert done.code == 0
    assert "done before: 1 of 2 files" in done.err
    assert "3,000 rows" in done.err
    after = {path.name: path.stat().st_mtime_ns for path in out.glob("*.parquet")}
    assert after["part-4.parquet"] == before["part-4.parquet"]
    assert after["part-5.parquet"] > before["part-5.parquet"]
    again = apply(call, lake, out, "--force")
    assert "6,000 rows" in again.err


@pytest.mark.slow
def test_killed_in_the_middle_it_goes_on(lake, call, tmp_path):
    big = tmp_path / "big"
    big.mkdir()
    for seed in range(6):
        people(250_000, 10 + seed).write_csv(big / f"part-{seed}.csv")
    command = ["apply", lake / "one.fairmend", big, "--id", "id", "--key-file", lake / "secret.key",
               "--emit", "both"]  # fmt: skip
    out = tmp_path / "out"
    running = subprocess.Popen(
        [sys.executable, "-m", "fairmend", *map(str, command), "-o", str(out)],
        env=environment(), stderr=subprocess.DEVNULL,
    )  # fmt: skip
    end = time.monotonic() + 120
    while not (out / RECORD).exists():
        assert time.monotonic() < end
        assert running.poll() is None, "it ended before it could be killed"
        time.sleep(0.01)
    running.kill()
    assert running.wait(30) == -signal.SIGKILL
    finished = {path.name for path in out.glob("*.csv")}
    assert 0 < len(finished) < 6
    assert call(*command, "-o", out).code == 0
    assert call(*command, "-o", tmp_path / "never").code == 0
    for seed in range(6):
        name = f"part-{seed}.csv"
        assert (out / name).read_bytes() == (tmp_path / "never" / name).read_bytes()
    assert {path.name for path in out.iterdir()} == {RECORD, *(f"part-{s}.csv" for s in range(6))}


# -------------------------------------------------------------------- mistakes


def test_other_settings_have_no_business_in_the_folder(lake, call, tmp_path):
    out = tmp_path / "out"
    assert apply(call, lake, out).code == 0
    done = apply(call, lake, out, "--emit", "rows")
    assert done.code == 3
    assert "those in it differ in 'emit'. Name another folder, or use --force" in done.err


def test_a_file_that_has_changed_is_told(lake, call, tmp_path):
    mine = tmp_path / "mine"
    mine.mkdir()
    people(500, 90).write_parquet(mine / "a.parquet")
    command = ("apply", lake / "one.fairmend", mine, "-o", tmp_path / "out", "--id", "id",
               "--key-file", lake / "secret.key")  # fmt: skip
    assert call(*command).code == 0
    people(501, 91).write_parquet(mine / "a.parquet")
    done = call(*command)
    assert done.code == 3
    assert "must be as it was when its output was made; it has changed since" in done.err


def test_a_file_that_is_there_already_is_kept(lake, call, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "part-4.parquet").write_bytes(b"mine")
    done = apply(call, lake, tmp_path / "out")
    assert done.code == 3
    assert "must not be there already; it is, and not on record" in done.err
    assert (tmp_path / "out" / "part-4.parquet").read_bytes() == b"mine"


def test_a_record_that_is_none_is_told(lake, call, tmp_path):
    (tmp_path / "out").mkdir()
    for content in ("", "[]", '{"made_by": {}, "done": {"a": {}}}', '{"made_by": {}, "done": 1}'):
        (tmp_path / "out" / RECORD).write_text(content)
        done = apply(call, lake, tmp_path / "out")
        assert done.code == 3
        assert "must be the record of an earlier run; it cannot be read" in done.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("apply", "one.fairmend", "apart", "-o", "-"), "must be a folder for many files"),
        (("apply", "one.fairmend", "apart", "-o", "one.fairmend"), "there is a file of that name"),
        (("apply", "one.fairmend", "apart", "-o", "apart"), "must not be the file it is made from"),
        (("apply", "one.fairmend", "*/nothing-*", "-o", "out"), "there is no such file"),
        (("audit", "audit", *NAMED[2:]), "must be given for many files"),
        (("audit", "audit", *NAMED[2:], "--label", "repayed"), "Did you mean 'repaid'?"),
        (("repair", "audit", *NAMED), "must name a holdout"),
        (("explain", "audit", *NAMED), "all its 12,000 values differ. Say --id id"),
    ],
)
def test_mistakes(lake, call, arguments, message):
    more = ("--id", "id", "--key-file", "secret.key") if arguments[0] == "apply" else ()
    done = call(*arguments, *more, cwd=lake)
    assert done.code in (2, 3)
    assert message in " ".join(done.err.replace("│", " ").split())


@pytest.mark.parametrize("write", ["write_parquet", "write_csv"])
@pytest.mark.parametrize("said", [0.5, 1, "yes"])
def test_people_without_a_prediction_are_one_error_everywhere(call, tmp_path, write, said):
    """One file or many, whatever the answers are and whichever command reads them."""
    files = tmp_path / "files"
    files.mkdir()
    for place, name in enumerate("ab"):
        answers = [said] * 60
        answers[40] = None if place else said
        table = people(60, place).drop("id").with_columns(pl.Series("said", answers))
        getattr(table, write)(files / f"{name}.{write.removeprefix('write_')}")
    file = max(files.iterdir())
    commands = [("audit", *NAMED), ("explain", *NAMED), ("repair", *NAMED, "--holdout", files)]
    for command, *named in commands:
        place = "row 41" if write == "write_parquet" else "line 42"
        for each, where in ((file, ""), (files, f", in file '{file}'")):
            done = call(command, each, *named)
            assert (done.code, done.out) == (3, "")
            assert done.err.startswith(
                "fairmend: column 'said': must hold a prediction for everybody; it is empty in "
                f"{place}{where}. "
            )


@pytest.mark.parametrize("write", ["write_parquet", "write_csv"])
@pytest.mark.parametrize(("column", "what"), [("sex", "column 'sex'"), ("repaid", "--label")])
def test_people_without_a_group_or_an_outcome_are_counted(call, tmp_path, write, column, what):
    files = tmp_path / "files"
    files.mkdir()
    words = pl.col("repaid").replace_strict({0: "no", 1: "yes"})
    odd = pl.when(pl.int_range(pl.len()) % 20 > 0).then(pl.col(column)).alias(column)
    table = people(60, 1).drop("id").with_columns(words).with_columns(odd)
    getattr(table, write)(files / f"a.{write.removeprefix('write_')}")
    done = call("audit", files, *NAMED, "--positive", "yes", "--answers", "probability")
    assert (done.code, done.out) == (3, "")
    assert f"fairmend: {what}: must be known for every person; got 3 missing" in done.err


def test_an_error_in_one_of_many_files_says_in_which(lake, call, tmp_path):
    files = tmp_path / "files"
    files.mkdir()
    for seed in (1, 2):
        people(50, seed).write_csv(files / f"{seed}.csv")
    (files / "2.csv").write_text((files / "2.csv").read_text().replace(",M,", ",D,", 1))
    done = call("apply", lake / "one.fairmend", files, "-o", tmp_path / "out", "--id", "id",
                "--key-file", lake / "secret.key")  # fmt: skip
    assert done.code == 3
    assert f", in file '{files / '2.csv'}'. " in done.err
    assert (tmp_path / "out" / "1.csv").exists()
    assert not (tmp_path / "out" / "2.csv").exists()


def test_outputs_bear_the_names_of_their_inputs_so_these_differ(lake, call, tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        people(100, 1).write_parquet(tmp_path / folder / "same.parquet")
    done = call("apply", lake / "one.fairmend", tmp_path / "*" / "same.parquet", "-o", "out",
                "--id", "id", "--key-file", lake / "secret.key")  # fmt: skip
    assert done.code == 3
    assert "'same.parquet' is there twice" in done.err


# -------------------------------------------------------------------- CSV in folders


def csv_folder(place, **odd):
    """Two files of people as CSV; of some files the text is changed."""
    place.mkdir()
    for seed in (1, 2):
        text = people(60, seed).drop("id").write_csv()
        (place / f"{seed}.csv").write_bytes(odd.get(f"f{seed}", lambda t: t.encode())(text))
    return place


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.replace("M", "Männer", 1).encode("latin-1"), "must be text in UTF-8"),
        (lambda t: t.encode("utf-16"), "got UTF-16"),
        (lambda t: bytes(range(256)) * 20, "got a NUL byte"),
        (lambda t: t.replace("\n", ",\n").replace(",\n", "\n", 1).encode(),
         "line 2: must have as many cells as the first line, 8; got 9"),
        (lambda t: t.replace("\n", "\r").encode(), "got a carriage return alone"),
        (lambda t: t.replace("x0,", "other,", 1).encode(), "'x0' is missing"),
        (lambda t: b"", "it is empty"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("command", ["audit", "apply"])
def test_an_odd_file_among_many_is_named(  # noqa: PLR0917
    call, tmp_path, lake, command, change, message
):
    folder = csv_folder(tmp_path / "files", f2=change)
    arguments = {
        "audit": ("audit", folder, *NAMED),
        "apply": ("apply", lake / "one.fairmend", folder, "-o", tmp_path / "out", "--key-file",
                  lake / "secret.key"),
    }  # fmt: skip
    done = call(*arguments[command])
    assert (done.code, done.out) == (3, "")
    if command == "audit" or "is missing" not in message:
        assert message in done.err
    assert f"'{folder / '2.csv'}'" in done.err
    assert "Traceback" not in done.err


def test_a_folder_is_read_as_a_file_is(call, tmp_path):
    """Marks between thousands, words for missing values, true and false."""
    rows = people(200, 3).drop("id").with_columns(
        amount=pl.Series([f"{(i % 7) * 1000:,}" if i % 5 else "n/a" for i in range(200)]),
        sure=pl.Series(["TRUE", "False"] * 100),
        code=pl.Series(["007", "08"] * 100),
    )  # fmt: skip
    (tmp_path / "files").mkdir()
    rows[:90].write_csv(tmp_path / "files" / "a.csv")
    rows[90:].write_csv(tmp_path / "files" / "b.csv")
    rows.write_csv(tmp_path / "one.csv")
    named = (*NAMED, "--metric", "sp", "--json")
    refused = [call("explain", name, *named) for name in ("one.csv", "files")]
    for done in refused:
        assert done.code == 3
        assert "column 'amount', line 3: must be a number" in done.err
        assert "--thousands ," in done.err
    one, many = (call("explain", name, *named, "--thousands", ",") for name in ("one.csv", "files"))
    assert (one.code, many.code) == (0, 0), many.err
    assert all("'amount' is read as numbers; 'n/a' in 40 cells" in d.err for d in (one, many))
    a, b = json.loads(one.out), json.loads(many.out)
    assert [line["statistic"] for line in a["marginals"]] == [
        line["statistic"] for line in b["marginals"]
    ]
    assert b["before"] == pytest.approx(a["before"])


@pytest.mark.parametrize(
    ("cells", "options"),
    [
        (["12", "7", "unknown"], ("--missing", "unknown")),
        (["1.598,84", "7"], ("--decimal", ",")),
        (["$3,392", "$7"], ("--thousands", ",", "--currency", "$")),
        (["12.5%", "7 %"], ("--percent",)),
        (["1", "2", "3+"], ("--words", "amount")),
    ],
)
def test_a_folder_is_read_with_the_options_of_a_file(cells, options, call, tmp_path):
    n = 60
    amounts = pl.Series([cells[i % len(cells)] for i in range(n)])
    rows = people(n, 3).drop("id").with_columns(amount=amounts)
    (tmp_path / "files").mkdir()
    rows[:30].write_csv(tmp_path / "files" / "a.csv")
    rows[30:].write_csv(tmp_path / "files" / "b.csv")
    rows.write_csv(tmp_path / "one.csv")
    named = (*NAMED, "--metric", "sp", "--json")
    for each in ("one.csv", "files"):
        done = call("explain", each, *named)
        assert done.code == 3
        assert "column 'amount', line" in done.err
    one, many = (call("explain", each, *named, *options) for each in ("one.csv", "files"))
    assert (one.code, many.code) == (0, 0), many.err
    a, b = (json.loads(done.out)["marginals"] for done in (one, many))
    for mine, other in zip(a, b, strict=True):  # whole numbers beside missing ones are floats there
        assert mine | {"statistic": ""} == other | {"statistic": ""}


def test_packed_csv_and_files_that_are_not_what_their_suffix_says(call, tmp_path):
    folder = csv_folder(tmp_path / "files")
    plain = call("audit", folder, *NAMED, "--json")
    packed = tmp_path / "packed"
    packed.mkdir()
    for file in folder.iterdir():
        (packed / f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
    done = call("audit", packed, *NAMED, "--json")
    assert (done.code, done.out) == (0, plain.out)
    people(60, 5).write_parquet(folder / "3.csv")
    done = call("audit", folder, *NAMED)
    assert (done.code, "3.csv': must be a CSV, by its suffix; got parquet" in done.err) == (
        3, True)  # fmt: skip


@pytest.mark.parametrize("write", ["write_csv", "write_parquet"])
def test_files_without_rows(call, lake, tmp_path, write):
    """To apply a repair to nobody is fine; there is nothing to audit."""
    suffix = write.removeprefix("write_")
    (tmp_path / "files").mkdir()
    none = people(3, 1).clear()
    getattr(none, write)(tmp_path / "files" / f"a.{suffix}")
    getattr(none, write)(tmp_path / f"one.{suffix}")
    for name, out in ((f"one.{suffix}", f"out.{suffix}"), ("files", "out")):
        assert call("audit", name, *NAMED).code == 3
        done = call("apply", lake / "one.fairmend", name, "-o", out, "--id", "id", "--key-file",
                    lake / "secret.key", "--emit", "both")  # fmt: skip
        assert done.code == 0, done.err
        assert "has no rows" in done.err
    for out in (tmp_path / f"out.{suffix}", tmp_path / "out" / f"a.{suffix}"):
        found = pl.read_csv(out) if suffix == "csv" else pl.read_parquet(out)
        assert found.columns == [*none.columns, "decision"]
        assert found.height == 0


def test_damage_inside_one_of_many_parquet_files_is_named(call, tmp_path):
    folder = tmp_path / "files"
    folder.mkdir()
    for seed in (1, 2):
        people(600, seed).write_parquet(folder / f"{seed}.parquet")
    content = bytearray((folder / "2.parquet").read_bytes())
    end = len(content) - 8 - int.from_bytes(content[-8:-4], "little")  # the footer stays whole
    content[4:end] = b"\xaa" * (end - 4)
    (folder / "2.parquet").write_bytes(content)
    for named in (NAMED, (*NAMED, "--id", "id")):
        done = call("audit", folder, *named)
        assert done.code == 3
        assert f"file '{folder / '2.parquet'}': must be a Parquet or CSV file" in done.err


def test_a_folder_without_files_says_how_to_reach_those_inside(call, tmp_path):
    (tmp_path / "outer" / "inner").mkdir(parents=True)
    people(60, 1).write_csv(tmp_path / "outer" / "inner" / "a.csv")
    done = call("audit", "outer", *NAMED)
    assert (done.code, "the folder holds none" in done.err) == (3, True)
    assert call("audit", "outer/**/*.csv", *NAMED).code == 0


def test_ids_in_folders_are_text(call, tmp_path):
    """007 and 7 are two people, whatever a number would make of them."""
    (tmp_path / "files").mkdir()
    for place, width in enumerate((3, 1)):
        ids = pl.Series("id", [f"{i:0{width}}" for i in range(1, 10)] * 1)
        people(9, place).with_columns(ids).write_csv(tmp_path / "files" / f"{place}.csv")
    assert "are 9 people" not in call("audit", "files", *NAMED, "--id", "id").err


def test_a_bad_id_is_said_with_its_row_in_the_file(lake, call, tmp_path):
    """Not with its place among the few people who are drawn."""
    rows = pl.read_parquet(lake / "apart.parquet")
    rows.with_columns(pl.col("id") + 0.5).write_parquet(tmp_path / "odd.parquet")
    done = call("apply", lake / "one.fairmend", "odd.parquet", "--key-file", lake / "secret.key",
                "--id", "id", "-o", "out.parquet")  # fmt: skip
    assert done.code == 3, done.err
    value, row = re.search(r"got ([\d.]+) in row ([\d,]+)", done.err).groups()
    assert float(value) == rows["id"][int(row.replace(",", "")) - 1] + 0.5
    audited = call("audit", "odd.parquet", *NAMED, "--id", "id")
    assert (audited.code, f"got {rows['id'][0] + 0.5} in row 1" in audited.err) == (3, True)
