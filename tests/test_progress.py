import io
import sys

import pytest

import fairmend.progress
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
