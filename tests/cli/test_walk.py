"""From a person's file to a workdir one, by the commands alone."""

import csv
import io
import json

import numpy as np
import polars as pl
import pytest

import fairmend
import fairmend.data.tablefile

from .conftest import COLUMNS, IGNORED, NAMED, process

APPLY = ("--missing", "n/a", "--id", "customer no", "--key-file", "secret.key")


def cells(path):
    text = path.read_text(encoding="utf-8-sig")
    return list(csv.reader(io.StringIO(text, newline=""), delimiter=";"))


def test_the_audit_counts_as_the_file_says(workdir, call):
    done = call("audit", "applicants.csv", *NAMED, "--json", cwd=workdir)
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert found["schema"] == "fairmend.audit/1"
    header, *rows = cells(workdir / "applicants.csv")
    people = [dict(zip(header, row, strict=True)) for row in rows]
    known = [p for p in people if p["sex"] and p["approved?"]]
    assert found["left_out"] == len(people) - len(known) > 0
    assert f"{found['left_out']} of 1,500 people have no outcome or no group" in done.err
    missed = {
        sex: np.mean([
            float(p["score"]) <= 0.5
            for p in known
            if p["sex"] == sex and p["approved?"] == "yes"
        ])
        for sex in ("female", "male")
    }  # fmt: skip
    gap = next(g for g in found["gaps"] if g["metric"] == "fnr")
    np.testing.assert_allclose(gap["gap"], missed["female"] - missed["male"], atol=1e-12)


def test_without_a_label_the_decisions_are_compared(workdir, call):
    done = call("audit", "applicants.csv", *NAMED[4:], "--json", cwd=workdir)
    assert done.code == 0, done.err
    found = json.loads(done.out)
    header, *rows = cells(workdir / "applicants.csv")
    people = [dict(zip(header, row, strict=True)) for row in rows]
    known = [p for p in people if p["sex"]]
    selected = {
        sex: np.mean([float(p["score"]) > 0.5 for p in known if p["sex"] == sex])
        for sex in ("female", "male")
    }
    [gap] = found["gaps"]
    assert gap["metric"] == "sp"
    np.testing.assert_allclose(gap["gap"], selected["male"] - selected["female"], atol=1e-12)
    for group in found["groups"]:
        np.testing.assert_allclose(group["selection_rate"], selected[group["group"]], atol=1e-12)
        assert group["base_rate"] is group["accuracy"] is group["auc"] is None
    left_out = len(people) - len(known)
    assert found["left_out"] == left_out
    assert done.err == (
        f"fairmend: {left_out} of 1,500 people have no group: left out\n"
        "fairmend: no --label: only decisions are compared, not whether they were right\n"
    )


@pytest.fixture
def decided(tmp_path):
    """Who was approved, in words: 20 of 100 and 45 of 100."""
    words = ["approved"] * 20 + ["denied"] * 80 + ["approved"] * 45 + ["denied"] * 55
    people = pl.DataFrame({"sex": ["f"] * 100 + ["m"] * 100, "decision": words})
    people.write_csv(tmp_path / "decided.csv")
    return ("audit", "decided.csv", "--group", "sex", "--predictions", "decision")


@pytest.mark.parametrize(("word", "gap"), [("approved", 0.25), ("denied", -0.25)])
def test_decisions_in_words_need_no_label(decided, call, word, gap):
    """Against m, so that the sign tells which word was taken for the favourable one."""
    done = call(*decided, "--positive", word, "--reference", "m", "--json")
    assert done.code == 0, done.err
    [found] = json.loads(done.out)["gaps"]
    np.testing.assert_allclose(found["gap"], gap, atol=1e-12)


def test_a_limit_on_decisions_needs_no_label(decided, call):
    done = call(*decided, "--positive", "approved", "--fail-on", "sp>20%")
    assert done.code == 1
    assert "sp: the gap of f against m is +25 points, beyond 20 points" in done.err


def test_the_repair_tells_what_it_wrote_and_on_whom_it_reports(workdir):
    said = json.loads((workdir / "repair.json").read_text())
    assert said["schema"] == "fairmend.repair/1"
    assert (said["artifact"], said["report"]) == ("repaired.fairmend", "repaired.html")
    assert said["holdout"]["which"] == "30 % of applicants.csv, held out by seed 0"
    audited = said["results"]["provenance"]["audited"]
    np.testing.assert_allclose(
        said["holdout"]["people"] / (said["holdout"]["people"] + audited), 0.3, atol=0.002
    )  # rounding within four cells of a thousand people
    page = (workdir / "repaired.html").read_text()
    assert "held out by seed 0" in page
    assert "&lt;b&gt;Income&lt;/b&gt;" in page
    assert "<b>Income</b>" not in page


@pytest.mark.parametrize("emit", ["rows", "both"])
def test_only_edited_cells_change(workdir, call, tmp_path, emit):
    out = tmp_path / "out.csv"
    done = call(
        "apply", "repaired.fairmend", "new.csv", *APPLY, "-o", out, "--emit", emit, cwd=workdir
    )
    assert done.code == 0, done.err
    before, after = (workdir / "new.csv").read_bytes(), out.read_bytes()
    assert after.startswith(b"\xef\xbb\xbf")
    assert after.count(b"\r\n") == before.count(b"\r\n")
    old, new = cells(workdir / "new.csv"), cells(out)
    if emit == "both":
        assert [row[-1] for row in new][:1] == ["decision"]
        new = [row[:-1] for row in new]
    changed = [
        (i, COLUMNS[j])
        for i, (a, b) in enumerate(zip(old, new, strict=True))
        for j, (x, y) in enumerate(zip(a, b, strict=True))
        if x != y
    ]
    assert {name for _, name in changed} == {"<b>Income</b>", "Employment type"}
    assert {old[i][COLUMNS.index("sex")] for i, _ in changed} == {"female"}
    if emit == "rows":  # records that are not edited are the same bytes, quotes and all
        edited = {i for i, _ in changed}
        text = before.decode("utf-8-sig"), after.decode("utf-8-sig")
        lines = [t.replace("two\r\nlines", "two lines").split("\r\n") for t in text]
        assert all(i in edited for i, (a, b) in enumerate(zip(*lines, strict=True)) if a != b)


@pytest.mark.parametrize("emit", ["rows", "decisions", "both"])
def test_a_column_names_the_edited_inputs(workdir, call, tmp_path, emit):
    out = tmp_path / "out.csv"
    done = call("apply", "repaired.fairmend", "new.csv", *APPLY, "-o", out, "--emit", emit,
                "--edited", "what; was edited", "--json", cwd=workdir)  # fmt: skip
    assert done.code == 0, done.err
    said = json.loads(done.out)
    call("apply", "repaired.fairmend", "new.csv", *APPLY, "-o", tmp_path / "rows.csv", "--emit",
         "rows", cwd=workdir)  # fmt: skip
    (_, *old), (_, *new) = cells(workdir / "new.csv"), cells(tmp_path / "rows.csv")
    header, *rows = cells(out)
    assert header[-1] == "what; was edited"
    edited = [
        "; ".join(name for name, x, y in zip(COLUMNS, *pair, strict=True) if x != y)
        for pair in zip(old, new, strict=True)
    ]
    assert [row[-1] for row in rows] == edited
    lines = out.read_bytes().split(b"\r\n")  # where nothing was edited, nothing is written
    assert emit != "decisions" or sum(line.endswith(b";") for line in lines) == edited.count("")
    assert said["edited"] == sum(map(bool, edited)) > 0
    assert sum(said["cells"].values()) == sum(map(len, (one.split("; ") for one in edited if one)))
    assert (said["changed"] is None) == (emit == "rows")


def test_decisions_are_those_of_the_library(workdir, call, tmp_path):
    out = tmp_path / "decisions.csv"
    done = call("apply", "repaired.fairmend", "new.csv", *APPLY, "-o", out, "--json", cwd=workdir)
    assert done.code == 0, done.err
    said = json.loads(done.out)
    assert (said["schema"], said["rows"]) == ("fairmend.apply/1", 1_000)
    assert (said["edited"], said["cells"]) == (None, None)  # cells were not looked at
    table = pl.read_csv(
        workdir / "new.csv", separator=";", null_values=["n/a"],
        schema_overrides={"customer no": pl.String},
    )  # fmt: skip
    key = fairmend.apply.draw.read_key(file=workdir / "secret.key")
    repaired = fairmend.load(workdir / "repaired.fairmend", key=key)
    expected = repaired.predict(table, sensitive_features="sex", ids=table["customer no"])
    header, *rows = cells(out)
    assert header == ["customer no", "decision"]
    assert rows == [[i, d] for i, d in zip(table["customer no"], expected, strict=True)]


def test_parquet_and_arrow_keep_their_types(workdir, call, tmp_path, monkeypatch):
    monkeypatch.setattr(fairmend.data.tablefile, "BATCH_ROWS", 300)
    table = pl.read_csv(workdir / "new.csv", separator=";", null_values=["n/a"])
    table = table.with_columns(pl.col("Employment type").cast(pl.Categorical))
    table.write_parquet(tmp_path / "new.parquet")
    table.write_ipc(tmp_path / "new.arrow")
    found = []
    for name, read in (("new.parquet", pl.read_parquet), ("new.arrow", pl.read_ipc)):
        out = tmp_path / f"out-{name}"
        done = call("apply", "repaired.fairmend", tmp_path / name, "-o", out, "--id", "customer no",
                    "--key-file", "secret.key", "--edited", "what", "--emit", "both",
                    cwd=workdir)  # fmt: skip
        assert done.code == 0, done.err
        after = read(out)
        assert dict(after.schema) == {**table.schema, "decision": pl.String, "what": pl.String}
        kept = [name for name in COLUMNS if name not in ("<b>Income</b>", "Employment type")]
        assert after.select(kept).equals(table.select(kept))
        assert not after.drop("decision", "what").equals(table)
        same = [
            after[name].eq_missing(table[name]) for name in ("<b>Income</b>", "Employment type")
        ]
        assert (after["what"] == "").equals(same[0] & same[1])
        found.append(after.with_columns(pl.col("Employment type").cast(pl.String)))
    assert found[0].equals(found[1])


@pytest.mark.slow
def test_standard_input_and_output(workdir):
    raw = (workdir / "new.csv").read_bytes()
    secret = (workdir / "secret.key").read_text().strip()
    arguments = ("apply", "repaired.fairmend", "-", "--missing", "n/a", "--id", "customer no")
    done = process(*arguments, "-o", "-", "--emit", "rows", cwd=workdir, stdin=raw,
                   FAIRMEND_KEY=secret)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split(b"\r\n")) == len(raw.split(b"\r\n"))
    assert b"1,000 rows" in done.stderr


@pytest.mark.slow
def test_the_report_of_a_repair_on_another_file(workdir, call, tmp_path):
    page = tmp_path / "report.html"
    done = call("report", "repaired.fairmend", "new.csv", "--label", "approved?", "--missing",
                "n/a", "-o", page, "--json", cwd=workdir)  # fmt: skip
    assert done.code == 0, done.err
    said = json.loads(done.out)
    assert said["schema"] == "fairmend.report/1"
    assert said["provenance"]["reported"] + said["left_out"] == 1_000
    assert page.read_text().startswith("<!doctype html>")
    assert said["provenance"]["holdout"] is None
    for flag, declared in (("--is-holdout", True), ("--not-holdout", False)):
        told = call("report", "repaired.fairmend", "new.csv", "--label", "approved?", "--missing",
                    "n/a", "--no-frontier", flag, "--json", cwd=workdir)  # fmt: skip
        assert json.loads(told.out)["provenance"]["holdout"] is declared
    crossed = call("report", "repaired.fairmend", "new.csv", "--label", "approved?", "--missing",
                   "n/a", "--no-frontier", "--fail-on", "fnr>0.01%", cwd=workdir)  # fmt: skip
    assert crossed.code == 1
    assert "fnr: the gap of female against male" in crossed.err


def test_a_report_prints_its_figures_and_names_people_by_their_ids(workdir, call, tmp_path):
    page, key = tmp_path / "report.html", ("--key-file", "secret.key")
    arguments = ("report", "repaired.fairmend", "new.csv", *NAMED[:2], *NAMED[8:10])
    done = call(*arguments, *NAMED[-2:], *key, "-o", page, cwd=workdir)
    assert "Gaps before and after the repair, in points" in done.out
    assert f"wrote {page}" in done.err
    data = json.loads(call(*arguments, *NAMED[-2:], *key, "--json", cwd=workdir).out)
    applied = tmp_path / "applied.csv"
    call("apply", "repaired.fairmend", "new.csv", *NAMED[-2:], "--missing", "n/a", *key,
         "--emit", "both", "--edited", "edits", "-o", applied, cwd=workdir)  # fmt: skip
    with applied.open(newline="", encoding="utf-8-sig") as file:
        edited = {row["customer no"] for row in csv.DictReader(file, delimiter=";") if row["edits"]}
    named = {one["id"] for one in data["people"]}
    assert named
    assert named <= edited, "those without an outcome are not in the report"
    assert "One person at a time" in page.read_text(encoding="utf-8")
    without = json.loads(call(*arguments, "--json", cwd=workdir).out)
    assert without["people"] == []


def test_an_audit_becomes_a_page(workdir, call, tmp_path):
    page = tmp_path / "audit.html"
    done = call("audit", "new.csv", *NAMED, "-o", page, cwd=workdir)
    assert done.out.startswith("Audit of ")
    assert "Fairness audit by sex" in page.read_text(encoding="utf-8")
    again = call("audit", "new.csv", *NAMED, "-o", page, cwd=workdir)
    assert again.code != 0
    assert "--force" in again.err


def test_inspect(workdir, call):
    said = json.loads(call("inspect", "repaired.fairmend", "--json", cwd=workdir).out)
    assert said["schema"].startswith("fairmend.")
    text = call("inspect", "repaired.fairmend", cwd=workdir).out
    assert "Repair of fnr by least_change, for groups of sex" in text
    assert "<b>Income</b>" in text


def test_explain_tells_numbers_by_their_means(call, tmp_path):
    """Under the counterfactual, whose weights the library gives."""
    rng = np.random.default_rng(0)
    table = pl.DataFrame({"x": rng.normal(2, 1, 400), "g": ["a", "b"] * 200})
    table = table.with_columns(
        (pl.col("x") + (pl.col("g") == "a") > 2.5).cast(int).alias("said"),
        y=rng.integers(0, 2, 400),
    )
    table.write_csv(tmp_path / "t.csv")
    named = ("--label", "y", "--group", "g", "--predictions", "said", "--not-id", "x")
    done = call("explain", "t.csv", *named)
    assert done.code == 0, done.err
    assert "Shares of people" not in done.out  # as there are none
    assert "Joint proxies" not in done.out  # of one input
    line = next(line for line in done.out.splitlines() if line.startswith("x  "))
    group = table.filter(pl.col("g") == "b")["x"].to_numpy()
    found = fairmend.counterfactual("said", table.select("x", "said"), table["y"],
                                    sensitive_features=table["g"], disparity="sp")  # fmt: skip
    told = [float(word) for word in line.split()[1:]]
    mean = found.mass @ found.table.column("x").to_numpy()
    np.testing.assert_allclose(told[0], group.mean(), rtol=1e-3)  # four digits are shown
    np.testing.assert_allclose(told[2], mean, rtol=1e-3)


def test_explain(workdir, call):
    done = call("explain", "applicants.csv", *NAMED, *IGNORED, "--metric", "fnr", cwd=workdir)
    assert done.code == 0, done.err
    assert "Counterfactual distribution for female against male, fnr" in done.out
    assert "Employment type" in done.out
    said = json.loads(
        call("explain", "applicants.csv", *NAMED, *IGNORED, "--metric", "fnr", "--json",
             cwd=workdir).out
    )  # fmt: skip
    assert (said["schema"], said["status"]) == ("fairmend.explanation/1", "CLOSED")
    assert abs(said["after"]) <= 1e-10
    sure = sum(pair["more_than_noise"] for pair in said["joint_proxies"])
    proxies = done.out[done.out.index("Joint proxies") :]
    assert f"{sure} of " in proxies if sure else proxies.startswith("Joint proxies. No pair")
    assert {"low", "high", "more_than_noise"} <= set(said["feature_scores"][0])


def test_people_are_told_apart_by_their_id_and_the_key(workdir, call, tmp_path):
    assert (workdir / "secret.key").stat().st_mode & 0o077 == 0
    outs = []
    for name in ("one", "two"):
        out = tmp_path / name
        done = call("apply", "repaired.fairmend", "new.csv", "--missing", "n/a", "--id",
                    "customer no", "--key-file", "secret.key", "-o", out, cwd=workdir)  # fmt: skip
        assert done.code == 0, done.err
        outs.append(out.read_bytes())
    assert outs[0] == outs[1]
    without = call("apply", "repaired.fairmend", "new.csv", "-o", tmp_path / "none", cwd=workdir)
    assert (without.code, without.out) == (3, "")
    assert without.err.startswith("fairmend: --key-file: must be given: this repair leaves")


def test_an_unknown_group_is_an_error_unless_told_otherwise(workdir, call, tmp_path):
    strange = tmp_path / "strange.csv"
    strange.write_bytes((workdir / "new.csv").read_bytes().replace(b";male;", b";other;", 1))
    refused = call("apply", "repaired.fairmend", strange, *APPLY, "-o", tmp_path / "o", cwd=workdir)
    assert refused.code == 3
    assert "got 'other' in line" in refused.err
    assert "--unknown-group keep" in refused.err
    kept = call("apply", "repaired.fairmend", strange, *APPLY, "-o", tmp_path / "o", "--json",
                "--unknown-group", "keep", cwd=workdir)  # fmt: skip
    assert kept.code == 0, kept.err
    assert json.loads(kept.out)["unknown_group"] == 1


@pytest.mark.slow
def test_a_holdout_of_its_own_and_rules_for_edits(workdir, call, tmp_path):
    done = call(
        "repair", "applicants.csv", *NAMED, *IGNORED, "--metric", "fnr", "--holdout", "new.csv",
        "--one-way", "<b>Income</b>:up", "--immutable", "Employment type", "--max-edits", "1",
        "--level", "0.5", "--is-holdout", "--report", tmp_path / "page.html",
        "--cost", "<b>Income</b>=0.25",
        "-o", tmp_path / "half", "--json", cwd=workdir,
    )  # fmt: skip
    assert done.code == 0, done.err
    said = json.loads(done.out)
    assert said["holdout"]["which"] == "new.csv"
    assert said["results"]["provenance"]["holdout"] is True
    assert said["results"]["provenance"]["audited"] + said["left_out"] == 1_500
    listed = "may be edited: Age (years), <b>Income</b> (up only) (cost 0.25); --immutable"
    assert listed in done.err
    assert done.err.index(listed) < done.err.index("wrote")
    repaired = fairmend.load(tmp_path / "half")
    assert repaired.cost == fairmend.Cost(weights={"<b>Income</b>": 0.25}, max_edits=1)
    out = tmp_path / "out.csv"
    applied = call("apply", tmp_path / "half", "new.csv", *APPLY, "-o", out, "--emit", "rows",
                   cwd=workdir)  # fmt: skip
    assert applied.code == 0, applied.err
    old, new = cells(workdir / "new.csv"), cells(out)
    changes = [
        {COLUMNS[j]: (x, y) for j, (x, y) in enumerate(zip(a, b, strict=True)) if x != y}
        for a, b in zip(old, new, strict=True)
    ]
    edited = [change for change in changes if change]
    assert edited
    assert all(set(change) <= {"<b>Income</b>", "Age (years)"} for change in edited)
    assert max(map(len, edited)) == 1
    rises = [change["<b>Income</b>"] for change in edited if "<b>Income</b>" in change]
    assert all(float(after) > float(before) for before, after in rises)


def test_the_file_to_try_with(call, tmp_path):
    done = call("demo", "--write", "people.csv", "--json")
    assert done.code == 0, done.err
    table = pl.read_csv(tmp_path / "people.csv")
    assert json.loads(done.out) == {
        "schema": "fairmend.demo/1", "file": "people.csv", "people": table.height,
    }  # fmt: skip
    assert table["person"].n_unique() == table.height
    assert set(table["sex"]) == {"Female", "Male"}


def test_the_file_to_try_with_and_those_to_come(call, tmp_path):
    assert call("demo", "--write", "all.csv").code == 0
    done = call("demo", "--write", "people.csv", "--new", "new.csv", "--json")
    assert done.code == 0, done.err
    everybody, people, new = (
        pl.read_csv(tmp_path / name) for name in ("all.csv", "people.csv", "new.csv")
    )
    said = json.loads(done.out)
    assert (said["people"], said["new_people"]) == (people.height, new.height)
    assert not set(people["person"]) & set(new["person"])
    assert pl.concat([people, new]).sort("person").equals(everybody)


GERMAN = ("--label", "paid", "--positive", "yes", "--group", "sex", "--predictions", "score")
KEY = ("--key-file", "k")
SPELT = ("--decimal", ",", "--missing", "k.A.")


def test_new_files_are_read_as_the_file_of_the_repair(call, tmp_path):
    rng = np.random.default_rng(0)
    lines = ["income;job;score;sex;paid"]
    for i in range(600):
        sex, income = "fm"[i % 2], rng.normal(2_000 + 900 * (i % 2), 600)
        paid = "yes" if rng.random() < income / 4_000 + 0.2 * (i % 2 == 0) else "no"
        job = ("clerk", "k.A.", "nurse")[i % 3]
        sex = "k.A." if i % 50 == 0 else sex
        numbers = [
            f"{x:.3f}".replace(".", ",")
            for x in (income, np.clip(income / 5_000 + rng.normal(0, 0.1), 0, 1))
        ]
        lines.append(";".join([numbers[0], job, numbers[1], sex, paid]))
    (tmp_path / "people.csv").write_text("\n".join(lines), encoding="utf-8")
    assert call("key", "k").code == 0
    made = call(
        "repair", "people.csv", *GERMAN, *SPELT, "-o", "r.fairmend", "--allow-partial", *KEY
    )
    assert made.code == 0, made.err
    shown = json.loads(call("inspect", "r.fairmend", "--json").out)["spelling"]
    assert (shown["decimal"], shown["missing"]) == (",", ["k.A."])
    out = {}
    for name, options in (("kept", ()), ("said", SPELT)):
        done = call("apply", "r.fairmend", "people.csv", "-o", f"{name}.csv", *KEY, *options)
        assert done.code == 0, done.err
        assert "600 rows" in done.err
        assert "12 without a group" in done.err
        note = "cells are read as in the file of the repair: --decimal , --missing k.A."
        assert (note in done.err) == (name == "kept")
        out[name] = (tmp_path / f"{name}.csv").read_bytes()
    assert out["kept"] == out["said"]
    report = call("report", "r.fairmend", "people.csv", "--label", "paid")
    assert (report.code, "12 of 600 people" in report.err) == (0, True), report.err
    other = call("apply", "r.fairmend", "people.csv", "-o", "o.csv", "--missing", "none", *KEY)
    assert (other.code, (tmp_path / "o.csv").exists()) == (3, False)
    assert "was read with --missing k.A.; this one with --missing none alone" in other.err
    assert "'k.A.'" in other.err.splitlines()[-1]  # no group of the audit
