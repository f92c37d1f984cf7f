"""The decision log: its chain, its memory of keys, what it forgets, and how it is handed on."""

import stat
import sys
import threading
import time

import pyarrow.parquet as pq
import pytest

import serving
from fairmend import DataError
from fairmend.errors import MissingExtra
from fairmend.serve import log as logs
from fairmend.serve.log import Entry, Reply, export, open_store
from vendors import free_port

KEY = serving.log_key()


def DecisionLog(where, key=KEY):
    return logs.DecisionLog(where, key)


def verify(where, **more):
    return logs.verify(where, KEY, **more)


def row(number, at=None):
    return (
        f"{number:04d}/0", "p", time.time() if at is None else at, "b", "a" * 64, "vendor", "1",
        "shadow", 0, 1, 0.25, 0.75, "dose", 5.5, "ok", None,
    )  # fmt: skip


def cells(log):
    with open_store(log.where) as store:
        return [cell for (cell,) in store.execute("SELECT cell FROM cells")]


@pytest.fixture
def log(where):
    log = DecisionLog(where)
    yield log
    log.close()


def test_many_writers_make_one_chain(log):
    def write(start):
        for number in range(start, start + 50):
            log.put_and_wait(Entry([("decisions", row(number))], [("d", "a", "b", number % 3)]))

    threads = [threading.Thread(target=write, args=(1_000 * i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    verdict = verify(log.where)
    assert verdict.holds
    assert verdict.rows["decisions"] == 400
    assert verify(log.where, head=verdict.heads["decisions"]).holds
    assert "cut" in verify(log.where, head="0" * 64).broken


def test_the_chain_goes_on_after_a_restart(where):
    for number in range(3):
        log = DecisionLog(where)
        log.put_and_wait(Entry([("decisions", row(number))]))
        log.close()
    verdict = verify(where)
    assert verdict.holds
    assert verdict.rows["decisions"] == 3


def test_what_is_forgotten_leaves_a_chain_that_holds(log):
    now = time.time()
    for number in range(10):
        log.put_and_wait(Entry([("decisions", row(number, now - 1_000 + 100 * number))]))
    log.put_and_wait(Entry([], prune_before=now - 450))
    verdict = verify(log.where)
    assert verdict.holds, verdict.broken
    assert verdict.rows == {"decisions": 4, "outcomes": 0, "events": 1}
    log.put_and_wait(Entry([], prune_before=now + 1))
    log.put_and_wait(Entry([("decisions", row(99))]))
    verdict = verify(log.where)
    assert verdict.holds, verdict.broken
    assert verdict.rows["decisions"] == 1


def test_a_key_is_remembered_with_its_answer(log):
    reply = Reply(b"key", b"body", 200, b"{}", "0001")
    log.put_and_wait(Entry([("decisions", row(1))], reply=reply))
    assert log.reply(b"key") == reply
    assert log.reply(b"other") is None
    assert log.logged_of(["0001/0", "0002/0"]).keys() == {"0001/0"}


def test_one_server_only_of_a_file(tmp_path):
    log = DecisionLog(tmp_path / "log.sqlite")
    with pytest.raises(DataError, match="one writer"):
        DecisionLog(log.where)
    log.close()


def test_parquet_holds_what_the_log_holds(log, tmp_path):
    for number in range(5):
        log.put_and_wait(Entry([("decisions", row(number))]))
    to = tmp_path / "log.parquet"
    assert export(log.where, to) == 5
    table = pq.read_table(to)
    assert table["decision"].to_pylist() == [f"{number:04d}/0" for number in range(5)]
    assert table["repaired_score"].to_pylist() == [0.75] * 5
    assert stat.S_IMODE(to.stat().st_mode) == 0o600
    with pytest.raises(DataError, match="must not exist"):
        export(log.where, to)
    assert export(log.where, to, table="events", overwrite=True) == 0
    with pytest.raises(DataError, match="'decisions', 'outcomes' or 'events'"):
        export(log.where, to, table="cells")


@pytest.mark.parametrize("name", ["log.csv", "log", "log.parquet.gz"])
def test_parquet_is_not_written_under_another_name(log, tmp_path, name):
    with pytest.raises(DataError, match=r"ends in \.parquet"):
        export(log.where, tmp_path / name)
    assert not (tmp_path / name).exists()


def test_what_is_no_log_is_said_to_be_none(tmp_path):
    with pytest.raises(DataError, match="must be a decision log; there is no such file"):
        verify(tmp_path / "nothing.sqlite")
    (tmp_path / "text").write_text("no database")
    with pytest.raises(DataError, match="must be a log that can be written"):
        DecisionLog(tmp_path / "text")


@pytest.mark.slow
def test_the_write_ahead_log_begins_anew_while_it_is_written(tmp_path, monkeypatch):
    """Each commit writes some pages: left alone, they would all still be there."""
    monkeypatch.setattr("fairmend.serve.log.stores.sqlite._CHECKPOINT_SECONDS", 0.02)
    monkeypatch.setattr("fairmend.serve.log.stores.sqlite._LONG", 50)
    log = DecisionLog(tmp_path / "log.sqlite")
    for number in range(1_000):
        log.put_and_wait(Entry([("decisions", row(number))], [("d", "a", "b", number)]))
    pages = (tmp_path / "log.sqlite-wal").stat().st_size / 4_096
    log.close()
    assert pages < 1_000, "at least three pages a commit are written"
    assert verify(log.where).rows["decisions"] == 1_000


def test_what_is_forgotten_is_gone_from_the_file(tmp_path):
    log = DecisionLog(tmp_path / "log.sqlite")
    old, new = time.time() - 9 * 86_400, time.time()
    for at, number in ((old, 1), (new, 2)):
        day = time.strftime("%Y-%m-%d", time.gmtime(at))
        decision = (*row(number, at)[:-1], f"features of {number}")
        log.put_and_wait(Entry([("decisions", decision)], [(day, "a", "b", number)]))
    log.put_and_wait(Entry([], prune_before=new - 5 * 86_400))
    assert cells(log) == [2]
    log.put_and_wait(Entry([], prune_before=0.0))
    assert cells(log) == [2]
    log.close()
    kept = (tmp_path / "log.sqlite").read_bytes()
    assert b"features of 2" in kept
    assert b"features of 1" not in kept


def test_a_log_may_have_any_name(tmp_path):
    path = tmp_path / "half 50%41 #1?.sqlite"
    log = DecisionLog(path)
    log.put_and_wait(Entry([("decisions", row(1))]))
    assert log.logged_of(["0001/0"]).keys() == {"0001/0"}
    assert verify(path).holds
    log.close()
    assert [file.name for file in tmp_path.iterdir() if file.suffix == ".sqlite"] == [path.name]


def test_tallies_grow_coarser_with_age_and_stay_right(log):
    now = time.time()
    ages = [40, 20, 20, 10, 5, 2, 1, 0]
    rows = [("decisions", row(i, now - 86_400 * age)) for i, age in enumerate(ages)]
    log.put_and_wait(Entry(rows))
    with open_store(log.where) as store:
        before = store.counts(86_400), store.totals()
    log.put_and_wait(Entry([], prune_before=0.0))  # as every hour, though nothing is deleted
    with open_store(log.where) as store:
        assert store.counts(86_400) == before[0]
        assert store.totals()[2:] == before[1][2:]
        starts = [start for (start,) in store.execute("SELECT start FROM tallies")]
    assert sum(start % 86_400 == 0 for start in starts) >= 2
    assert sum(start % 3_600 == 0 for start in starts) >= 4
    outcomes = [("outcomes", (f"{i:04d}/0", 1, now)) for i in (0, 3, 7)]  # of each age
    log.put_and_wait(Entry(outcomes))
    with open_store(log.where) as store:
        assert sum(n for (*_, y, _), n in store.counts(86_400).items() if y == 1) == 3
    assert verify(log.where).broken == ""
    log.put_and_wait(Entry([], prune_before=now - 15 * 86_400))
    assert verify(log.where).broken == ""
    assert verify(log.where).rows["decisions"] == 5


def test_a_database_that_is_not_there_is_said_to_be_away():
    pytest.importorskip("psycopg")
    with pytest.raises(DataError, match="must be a database that answers") as raised:
        DecisionLog(f"postgresql://me:secret@127.0.0.1:{free_port()}/decisions")
    assert "secret" not in str(raised.value)


def test_without_its_driver_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtra, match=r"fairmend\[postgres\]"):
        DecisionLog("postgresql://127.0.0.1/decisions")
