import io
import sys
import threading
import time

import pytest

import fairmend.progress
from fairmend import RepairedClassifier, datasets
from fairmend.progress import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def on(screen, monkeypatch, patience=None):
    """Make ``screen`` standard error; within the test, as pytest puts its own there before it."""
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    if patience is not None:
        monkeypatch.setattr(fairmend.progress, "PATIENCE_S", patience)
    return screen


def walk(steps=3, stumble=False):
    with progress("walking", steps) as advance:
        for _ in range(steps):
            advance(1)
        if stumble:
            raise KeyError


def test_short_work_leaves_the_terminal_in_peace(monkeypatch):
    screen = on(Terminal(), monkeypatch)
    walk()
    assert screen.getvalue() == ""


def test_long_work_shows_a_bar_and_wipes_it(monkeypatch):
    screen = on(Terminal(), monkeypatch, patience=0.0)
    walk()
    assert "walking" in screen.getvalue()
    assert screen.getvalue().endswith("\x1b[2K")  # the line is erased in the end


def test_the_bar_waits_for_its_second(monkeypatch):
    screen, now = on(Terminal(), monkeypatch), [100.0]
    monkeypatch.setattr(fairmend.progress.time, "monotonic", lambda: now[0])
    with progress("walking", 2) as advance:
        now[0] += 0.9
        advance(1)
        assert screen.getvalue() == ""
        now[0] += 0.2
        advance(1)
        assert "walking" in screen.getvalue()


def test_nothing_is_written_to_a_file(monkeypatch):
    log = on(io.StringIO(), monkeypatch, patience=0.0)
    walk()
    assert log.getvalue() == ""


def test_a_program_without_a_console_has_no_stderr(monkeypatch):
    assert on(None, monkeypatch, patience=0.0) is None
    walk()  # and does not stumble over it
    assert sys.stderr is None


def test_an_error_takes_the_bar_down(monkeypatch):
    screen = on(Terminal(), monkeypatch, patience=0.0)
    with pytest.raises(KeyError):
        walk(stumble=True)
    assert screen.getvalue().count("\x1b[?25h") == 1  # the cursor is back


def test_work_within_work_is_its_stage_with_its_share(monkeypatch):
    screen = on(Terminal(), monkeypatch, patience=0.0)
    with progress("repairing"), progress("searching", 4) as advance:
        advance(1)
        assert screen.getvalue().count("\x1b[?25l") == 1  # one line, not two
        time.sleep(0.3)
    assert "repairing: searching" in screen.getvalue()
    assert "25%" in screen.getvalue()


def test_silent_work_shows_itself(monkeypatch):
    screen = on(Terminal(), monkeypatch, patience=0.05)
    with progress("repairing"):
        time.sleep(0.5)
    assert "repairing" in screen.getvalue()
    assert screen.getvalue().count("\x1b[?25h") == 1


def test_threads_have_lines_of_their_own(monkeypatch):
    screen, lines = on(Terminal(), monkeypatch, patience=0.0), []

    def elsewhere():
        lines.append(fairmend.progress._own.line)
        walk()

    with progress("here", 1) as advance:
        mine = fairmend.progress._own.line
        other = threading.Thread(target=elsewhere)
        other.start()
        other.join()
        assert lines == [None]
        assert fairmend.progress._own.line is mine
        advance(1)
    assert "here" in screen.getvalue()


@pytest.mark.filterwarnings("ignore::fairmend.FairmendWarning")
def test_a_fit_says_what_it_is_at(monkeypatch):
    screen = on(Terminal(), monkeypatch, patience=0.0)
    X, y, s = datasets.toy_descent().sample(400, random_state=0)
    decide = datasets.toy_descent().decision

    def slow(rows):
        time.sleep(0.2)
        return decide(rows)

    RepairedClassifier(slow, "sp", random_state=0).fit(X, y, sensitive_features=s)
    assert "repairing: querying the model" in screen.getvalue()
