"""What a log says of one person, how it is erased, and what became of people, from a file."""

import json
import sqlite3
import stat
import time

import pytest
from typer.testing import CliRunner

import serving
from fairmend import DataError
from fairmend.apply.draw import Drawer
from fairmend.cli.endings import Code
from fairmend.cli.main import app
from fairmend.serve.log import DecisionLog, Entry, Reply, event, open_store, verify
from fairmend.serve.log.person import decisions_of, erase
from fairmend.serve.log.store import CONTRADICTED

KEY = serving.log_key()
DRAWER = Drawer(bytes.fromhex(serving.KEY), "person")


def decided(number, person, **other):
    values = {
        "decision": f"{number:04d}/0", "person": DRAWER.pseudonym(person), "at": time.time(),
        "grp": "b", "artifact": "a" * 64, "vendor": "Acme", "version": "2026.3", "mode": "repair",
        "original": 0, "repaired": 1, "original_score": 0.455, "repaired_score": 0.505,
        "edited": "dose", "latency_ms": 5.5, "status": "ok", "features": None, **other,
    }  # fmt: skip
    return ("decisions", tuple(values.values()))


@pytest.fixture
def log(where, monkeypatch):
    """Three decisions about one person and two about others."""
    monkeypatch.setenv("FAIRMEND_KEY", serving.KEY)
    log = DecisionLog(where, KEY, (0.25, 0.5))
    features = json.dumps({"given": {"age": 61, "dose": 1.5}, "edited": {"dose": 2.0}})
    start = event("start", {"mode": "repair", "basis": "Safety board, minutes 14.2"})
    reply = Reply(b"key", b"body", 200, b"the answer", "0003")
    log.put_and_wait(Entry([("events", start)]))
    log.put_and_wait(Entry([decided(1, 8812, features=features)]))
    log.put_and_wait(Entry([decided(2, 7), decided(3, "8812", mode="shadow")], reply=reply))
    log.put_and_wait(Entry([decided(4, 8812, edited="", repaired=0), decided(5, "ann")]))
    outcomes = [("outcomes", (f"{i:04d}/0", y, time.time())) for i, y in ((1, 1), (1, 0), (2, 1))]
    log.put_and_wait(Entry(outcomes))
    yield log
    log.close()


def run(*given):
    done = CliRunner().invoke(app, ["log", *map(str, given)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def test_a_person_is_told_what_was_decided_and_why(log):
    text = run("show", log.where, "--person", "8812").stdout
    first, second, third, end = text.strip().split("\n\n")
    assert "by Acme, version 2026.3 (decision 0001/0)" in first
    assert "The model's own decision: negative (score 0.455)." in first
    assert "queried again with another dose (2.0 instead of 1.5)" in first
    assert "which was given: positive (score 0.505)." in first
    assert "Basis: Safety board, minutes 14.2." in first
    assert "These contradict each other; the last one counts." in first
    assert "The repair was only watched: the model's own decision was given." in second
    assert "Nothing was edited: this decision was given." in third
    assert end == "3 decisions about this person are in the log."
    shown = json.loads(run("show", log.where, "--person", "8812", "--json").stdout)["decisions"]
    assert [each["decision"] for each in shown] == ["0001/0", "0003/0", "0004/0"]
    assert [each["y"] for each in shown[0]["outcomes"]] == [1, 0]
    assert shown[0]["features"]["given"]["dose"] == 1.5
    assert "0 decisions" in run("show", log.where, "--person", "nobody").stdout


def test_what_is_erased_is_gone_and_the_chain_holds(log):
    before = verify(log.where, KEY)
    noted = log.checkpoint()
    said = run("erase", log.where, "--person", "8812").stdout
    assert said == "3 decisions and 2 outcomes erased.\n"
    assert decisions_of(log.where, DRAWER.pseudonym(8812)) == []
    assert log.reply(b"key") is None
    with open_store(log.where) as store:
        assert store.totals().decisions == 2
        rows = list(store.rows("decisions"))
        emptied = [row for row in rows if row[-2] is not None]
        assert len(emptied) == 3
        assert {value for _, *values, _, _ in emptied for value in values} == {
            None, *(values[2] for _, *values, _, _ in emptied)
        }  # fmt: skip
    verdict = verify(log.where, KEY, checkpoints=[noted])
    assert verdict.holds, verdict.broken
    assert verdict.erased == 5
    assert verdict.rows["decisions"] == before.rows["decisions"]
    assert "5 rows without content" in run("verify", log.where).stdout
    # and the log goes on, retention too
    log.put_and_wait(Entry([decided(6, 8812)]))
    log.put_and_wait(Entry([], prune_before=time.time() + 1))
    assert verify(log.where, KEY).holds
    assert erase(log.where, KEY, DRAWER.pseudonym("nobody")) == {"decisions": 0, "outcomes": 0}


def test_what_is_erased_is_gone_from_the_files(tmp_path, monkeypatch):
    path = tmp_path / "log.sqlite"
    log = DecisionLog(path, KEY)
    log.put_and_wait(Entry([decided(1, 1, features='"of one"'), decided(2, 2, features='"of 2"')]))
    erase(path, KEY, DRAWER.pseudonym(1))  # beside the server
    content = b"".join(each.read_bytes() for each in tmp_path.iterdir())
    log.close()
    assert b"of 2" in content
    assert b"of one" not in content
    assert DRAWER.pseudonym(1).encode() not in content


def test_only_the_owner_reads_the_files(tmp_path):
    log = DecisionLog(tmp_path / "log.sqlite", KEY)
    log.put_and_wait(Entry([decided(1, 1)]))
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    log.close()
    assert modes.keys() >= {"log.sqlite", "log.sqlite-wal", "log.sqlite.lock"}
    assert set(modes.values()) == {0o600}


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660])
def test_a_key_that_others_can_read_is_refused(tmp_path, mode):
    from fairmend.apply.draw import read_key

    path = tmp_path / "fairmend.key"
    path.write_text("07" * 32)
    path.chmod(mode)
    with pytest.raises(DataError, match=f"its mode is {mode:04o}"):
        read_key(file=path)
    path.chmod(0o600)
    assert read_key(file=path) == bytes.fromhex(serving.KEY)


# -------------------------------------------------------------------- outcomes from a file


def test_outcomes_of_decisions_from_a_file(log, tmp_path):
    path = tmp_path / "outcomes.csv"
    path.write_text("decision,y\n0001/0,1\n0003/0,1\n0002/0,1\n9999/0,0\n0003/0,0\n")
    done = run("outcomes", log.where, path)
    assert done.stdout == (
        "3 outcomes recorded, 1 known already.\n"
        "2 contradict an earlier outcome: both are kept, and the later one counts.\n"
    )
    assert "1 are about nobody in the log, the first of them in line 5." in done.stderr
    with open_store(log.where) as store:
        assert [y for _, y in store.outcomes_named("0001/0")] == [1, 0, 1]
        assert [y for _, y in store.outcomes_named("0003/0")] == [1, 0]
        assert len(list(store.events_of([CONTRADICTED], 9))) == 3
        known = {key[4]: n for key, n in store.counts(86_400).items() if key[4] is not None}
        assert sum(known.values()) == 3
    assert verify(log.where, KEY).holds
    again = run("outcomes", log.where, path)
    assert again.stdout.startswith("2 outcomes recorded, 2 known already."), "of 0003/0 again"


def test_outcomes_of_people_are_of_their_last_decision(log, tmp_path):
    import polars as pl

    path = tmp_path / "outcomes.parquet"
    pl.DataFrame({"patient": ["8812", "ann"], "recovered": ["yes", "no"]}).write_parquet(path)
    more = ("--id", "patient", "--outcome", "recovered", "--positive", "yes")
    assert run("outcomes", log.where, path, *more).stdout.startswith("2 outcomes recorded")
    with open_store(log.where) as store:
        assert [y for _, y in store.outcomes_named("0004/0")] == [1]
        assert [y for _, y in store.outcomes_named("0005/0")] == [0]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("decision,y\n0001/0,maybe\n", "column 'y', line 2: must be 1 or 0, or true or false"),
        ("decision,y\n,1\n", "column 'decision', line 2: must not be empty"),
        ("decision,outcome\n0001/0,1\n", "must have a column 'y'"),
    ],
)
def test_a_file_that_is_none_of_outcomes_writes_nothing(tmp_path, monkeypatch, content, words):
    monkeypatch.setenv("FAIRMEND_KEY", serving.KEY)
    log = DecisionLog(tmp_path / "log.sqlite", KEY)
    log.put_and_wait(Entry([decided(1, 1)]))
    path = tmp_path / "outcomes.csv"
    path.write_text(content)
    done = run("outcomes", log.where, path)
    assert done.exit_code == Code.BAD_DATA
    assert words in done.output
    assert verify(log.where, KEY).rows["outcomes"] == 0
    log.close()


def test_a_log_that_is_not_there_is_not_made(tmp_path, monkeypatch):
    monkeypatch.setenv("FAIRMEND_KEY", serving.KEY)
    done = run("erase", tmp_path / "nothing.sqlite", "--person", "1")
    assert done.exit_code == Code.BAD_DATA
    assert "must be a decision log" in done.output
    assert list(tmp_path.iterdir()) == []


def test_a_running_sidecar_goes_on_while_its_log_is_amended(start):
    sidecar = start(mode="repair", keep_features=True)
    person = {"age": 40, "dose": 0.5, "urban": 1, "group": "b", "id": 8812}
    ask = {"instances": [person]}
    for _ in range(2):
        assert serving.post(sidecar.url + "/predict", ask)[0] == 200
    told = {"outcomes": [{"person": 8812, "y": 1}]}
    assert serving.post(sidecar.url + "/outcomes", told)[0] == 201
    assert serving.post(sidecar.url + "/outcomes", {"outcomes": [{"person": 9, "y": 1}]})[0] == 422
    both = {"outcomes": [{"person": 8812, "decision": "1/0", "y": 1}]}
    assert serving.post(sidecar.url + "/outcomes", both)[0] == 422
    told["outcomes"][0]["y"] = 0
    assert serving.post(sidecar.url + "/outcomes", told)[0] == 201
    [first, last] = decisions_of(sidecar.log, DRAWER.pseudonym(8812))
    assert [y for _, y in last.outcomes] == [1, 0]
    assert first.outcomes == ()
    [shown] = serving.get(sidecar.admin + "/figures")[1]["failures"]
    assert (shown["reason"], shown["count"]) == (CONTRADICTED, 1)
    assert shown["decision"] == last.row["decision"]
    assert "Basis: a test." in last.in_words
    erased = erase(sidecar.log, KEY, DRAWER.pseudonym(8812))
    assert erased == {"decisions": 2, "outcomes": 2}
    assert serving.post(sidecar.url + "/predict", ask)[0] == 200
    verdict = verify(sidecar.log, KEY)
    assert (verdict.holds, verdict.erased) == (True, 4)
    with sqlite3.connect(sidecar.log) as db:
        [(count,)] = db.execute("SELECT count(*) FROM decisions WHERE person IS NOT NULL")
    assert count == 1
