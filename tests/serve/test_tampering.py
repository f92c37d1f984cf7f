"""Whoever has the database and not the key cannot change the log unseen."""

import json
import sqlite3
import time
from contextlib import closing, contextmanager

import pytest
from typer.testing import CliRunner

import serving
from fairmend import DataError
from fairmend.cli.main import app
from fairmend.serve.log import (
    DecisionLog,
    Entry,
    LogKey,
    LogUnavailable,
    day_of,
    open_store,
    verify,
)
from fairmend.serve.log.person import erase

KEY, OTHER = serving.log_key(), LogKey(bytes(32))
DAY = 86_400.0


def row(number, at, person="p"):
    return (
        f"{number:04d}/0", person, at, "b", "a" * 64, "vendor", "1", "repair", 0, 1, 0.25, 0.75,
        "dose", 5.5, "ok", None,
    )  # fmt: skip


@contextmanager
def database(where):
    """As its administrator has it."""
    if "://" in str(where):
        import psycopg

        with psycopg.connect(where) as db:
            yield db
    else:
        with closing(sqlite3.connect(where)) as db:
            yield db
            db.commit()


@pytest.fixture
def log(where):
    """Twenty decisions, outcomes of ten, and the five oldest forgotten."""
    log, now = DecisionLog(where, KEY), time.time()
    rows = [row(number, now - 10 * DAY if number < 5 else now) for number in range(20)]
    cells = [(day_of(now), "a" * 64, "b", number % 3) for number in range(20)]
    log.put_and_wait(Entry([("decisions", each) for each in rows], cells))
    outcomes = [("outcomes", (f"{number:04d}/0", number % 2, now)) for number in range(5, 15)]
    log.put_and_wait(Entry(outcomes))
    log.put_and_wait(Entry([], prune_before=now - 5 * DAY))
    log.put_and_wait(Entry([("decisions", row(20, now))], [(day_of(now), "a" * 64, "b", 7)]))
    yield log
    log.close()


def rechained(db, table, start, key):
    """Every row's chain from one on, made anew with a key that one has."""
    columns = {"decisions": 16, "outcomes": 3, "events": 3}[table]
    rows = db.execute(f"SELECT * FROM {table} ORDER BY seq").fetchall()
    mark = "?" if isinstance(db, sqlite3.Connection) else "%s"
    before = None
    for seq, *values in rows:
        if seq >= start and before is not None:
            chain = key.link(before, key.digest(table, seq, values[:columns]))
            db.execute(f"UPDATE {table} SET chain = {mark} WHERE seq = {mark}", (chain, seq))
            before = chain
        else:
            before = bytes(values[-1])


CHANGES = {
    "a decision": (
        ["UPDATE decisions SET repaired = 0 WHERE seq = 8"], "decisions: row 8 was changed"),
    "a row of another table": (
        ["UPDATE outcomes SET y = 1 - y WHERE seq = 4"], "outcomes: row 4 was changed"),
    "an event": (
        ["UPDATE events SET at = at + 1 WHERE seq = 1"], "events: row 1 was changed"),
    "a row taken out": (
        ["DELETE FROM decisions WHERE seq = 9"], "decisions: row 9 is missing"),
    "a row taken out, and numbers moved up": (
        ["DELETE FROM decisions WHERE seq = 9",
         *(f"UPDATE decisions SET seq = {i - 1} WHERE seq = {i}" for i in range(10, 22))],
        "decisions: row 9 was changed"),
    "the end cut off": (
        ["DELETE FROM decisions WHERE seq > 15"], "decisions: it was cut after row 15"),
    "the beginning cut off": (
        ["DELETE FROM decisions WHERE seq < 9"], "decisions: row 6 is missing"),
    "content emptied": (
        ["UPDATE decisions SET person = NULL, erased = chain WHERE seq = 9"],
        "decisions: row 9 was emptied, and no event says so"),
    "a count of inputs": (
        ["UPDATE cells SET n = n + 1 WHERE cell = 1"], "cells: the counts of inputs"),
    "counts of inputs taken out": (["DELETE FROM cells WHERE cell = 2"], "cells: the counts"),
    "a count moved to another day": (
        ["UPDATE cells SET day = '2099-11-02' WHERE cell = 7"], "cells: the counts"),
    "the state": (["DELETE FROM state"], "the state of the log is gone"),
    "a tally": (["UPDATE tallies SET n = n + 1"], "tallies: they are not those"),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_found(log, change):
    statements, words = CHANGES[change]
    assert verify(log.where, KEY).broken == ""
    with database(log.where) as db:
        for statement in statements:
            db.execute(statement)
    assert verify(log.where, KEY).broken.startswith(words)


def test_a_chain_made_anew_with_another_key_is_found(log):
    with database(log.where) as db:
        db.execute("UPDATE decisions SET repaired = 0 WHERE seq = 8")
        rechained(db, "decisions", 8, OTHER)
    assert verify(log.where, KEY).broken == "decisions: row 8 was changed"


def test_a_forged_retention_is_found(log):
    """Rows deleted, and an event that says that this was retention."""
    with database(log.where) as db:
        [(chain,)] = db.execute("SELECT chain FROM decisions WHERE seq = 9").fetchall()
        detail = json.dumps({"table": "decisions", "through": 9, "chain": bytes(chain).hex()})
        last, before = db.execute("SELECT seq, chain FROM events ORDER BY seq DESC").fetchone()
        values = (time.time(), "retention", detail)
        forged = OTHER.link(bytes(before), OTHER.digest("events", last + 1, values))
        marks = "?, ?, ?, ?, ?, ?" if isinstance(db, sqlite3.Connection) else ", ".join(["%s"] * 6)
        db.execute(f"INSERT INTO events VALUES ({marks})", (last + 1, *values, None, forged))
        db.execute("DELETE FROM decisions WHERE seq <= 9")
    assert verify(log.where, KEY).broken == f"events: row {last + 1} was changed"
    with database(log.where) as db:  # and without the event
        db.execute(f"DELETE FROM events WHERE seq = {last + 1}")
    assert verify(log.where, KEY).broken == "decisions: row 6 is missing"


def test_a_forged_state_is_found_and_nothing_more_is_decided(log):
    content, seal = OTHER.sealed(open_state(log))
    mark = "?" if is_sqlite(log) else "%s"
    with database(log.where) as db:
        db.execute(f"UPDATE state SET content = {mark}, seal = {mark}", (content, seal))
    assert "another key" in verify(log.where, KEY).broken
    with pytest.raises(LogUnavailable):
        log.put_and_wait(Entry([("decisions", row(21, time.time()))]))
    with database(log.where) as db:
        changed = content.replace(OTHER.fingerprint.encode(), KEY.fingerprint.encode())
        db.execute(f"UPDATE state SET content = {mark}", (changed,))
    assert verify(log.where, KEY).broken == "the state of the log was changed"


def open_state(log):
    with open_store(log.where) as store:
        return store.state(KEY)


def is_sqlite(log):
    return "://" not in str(log.where)


def test_a_whole_earlier_copy_is_found_by_a_checkpoint(tmp_path):
    """The copy is sound in itself: only what was noted elsewhere tells."""
    path = tmp_path / "log.sqlite"
    log = DecisionLog(path, KEY)
    log.put_and_wait(Entry([("decisions", row(1, time.time()))]))
    with closing(sqlite3.connect(path)) as db, closing(sqlite3.connect(tmp_path / "old")) as old:
        db.backup(old)
    log.put_and_wait(Entry([("decisions", row(2, time.time()))]))
    noted = log.checkpoint()
    log.close()
    assert verify(path, KEY, checkpoints=[noted]).holds
    assert verify(tmp_path / "old", KEY).holds
    broken = verify(tmp_path / "old", KEY, checkpoints=[noted]).broken
    assert broken == "decisions: it was cut after row 1; checkpoint 1 has row 2"


def test_checkpoints_are_signed_and_kept_elsewhere(log, tmp_path, monkeypatch):
    monkeypatch.setenv("FAIRMEND_KEY", serving.KEY)
    run = CliRunner().invoke
    noted = tmp_path / "noted.jsonl"
    noted.write_text("other lines\n" + run(app, ["log", "checkpoint", str(log.where)]).stdout)
    log.put_and_wait(Entry([], prune_before=time.time() + 1))  # what it names may be forgotten
    done = run(app, ["log", "verify", str(log.where), "--checkpoint", str(noted)])
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (0, "The chain holds.")
    forged = json.loads(noted.read_text().splitlines()[1])
    forged["heads"]["decisions"][1] = "00" * 32
    noted.write_text(json.dumps(forged))
    done = run(app, ["log", "verify", str(log.where), "--checkpoint", str(noted)])
    assert "must be a checkpoint signed with this log's key" in done.output


def test_another_key_is_said_to_be_another(log, tmp_path, monkeypatch):
    verdict = verify(log.where, OTHER)
    assert verdict.broken.startswith("the log has another key")
    log.close()
    with pytest.raises(DataError, match="another key"):
        DecisionLog(log.where, OTHER)
    own = tmp_path / "own.key"
    own.write_text("11" * 32)
    own.chmod(0o600)
    monkeypatch.setenv("FAIRMEND_LOG_KEY", "22" * 32)
    done = CliRunner().invoke(app, ["log", "verify", str(log.where), "--log-key-file", str(own)])
    assert done.exit_code == 1


def test_a_value_of_another_type_is_found(tmp_path):
    path = tmp_path / "log.sqlite"
    log = DecisionLog(path, KEY)
    log.put_and_wait(Entry([("decisions", row(1, time.time()))]))
    log.close()
    with database(path) as db:
        db.execute("UPDATE decisions SET chain = 'text'")
    assert verify(path, KEY).broken == "a value is of another type than a log's"


def test_an_erased_row_cannot_be_filled_again(log):
    erase(log.where, KEY, "p")
    assert verify(log.where, KEY).erased == 26
    with database(log.where) as db:
        db.execute("UPDATE decisions SET person = 'q' WHERE seq = 9")
    assert verify(log.where, KEY).broken == "decisions: row 9 was erased, and has content again"
