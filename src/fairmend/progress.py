"""Progress of long work: on a terminal, and only once it has become long.

There is one line, whoever works: work within other work is shown as its stage. A program that runs
the command line can follow it in the file that `FAIRMEND_PROGRESS` names.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

PATIENCE_S = 1.0
"""Shorter work shows no progress."""
VARIABLE = "FAIRMEND_PROGRESS"
"""Names a file in which another program looks for our progress, as JSON."""
_OFTEN_S = 0.2


@contextmanager
def progress(label: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """Yield ``advance(steps)``; a bar appears on standard error after a second, and goes away.

    Without a total it only shows that work goes on. Begun within another one, it is its stage:
    ``repairing: searching edits``.

    >>> with progress("counting", total=2) as advance:
    ...     advance(2)
    """
    line = _own.line = _own.line or _Line()
    stage = _Stage(label, total, time.monotonic())
    line.begin(stage)
    try:
        yield partial(line.advance, stage)
    finally:
        line.end(stage)
        if not line.stages:
            _own.line = None


@dataclass(eq=False)
class _Stage:
    label: str
    total: int | None
    started: float
    done: int = 0

    @property
    def is_long(self) -> bool:
        return time.monotonic() - self.started > PATIENCE_S


class _Line:
    """What a thread's work shows: its outermost stage and one within it."""

    def __init__(self) -> None:
        self.stages: list[_Stage] = []
        self._bar: Progress | None = None
        self._lock = threading.RLock()
        self._timer: threading.Timer | None = None
        self._told = 0.0

    def begin(self, stage: _Stage) -> None:
        with self._lock:
            self.stages.append(stage)
            if len(self.stages) == 1 and _on_terminal():  # work may be silent for long
                self._timer = threading.Timer(PATIENCE_S, self._show)
                self._timer.daemon = True
                self._timer.start()
            self._refresh()

    def advance(self, stage: _Stage, steps: int) -> None:
        with self._lock:
            stage.done += steps
            if self.stages and self.stages[0].is_long and _on_terminal():
                self._show()
            self._refresh()

    def end(self, stage: _Stage) -> None:
        """With the outermost stage those within it end too."""
        with self._lock:
            if stage not in self.stages[:1]:
                self.stages = [one for one in self.stages if one is not stage]
                self._refresh()
                return
            self.stages = []
            if self._timer is not None:
                self._timer.cancel()
            if self._bar is not None:
                self._bar.stop()
                self._bar = None

    def _show(self) -> None:
        with self._lock:
            if self._bar is None and self.stages:
                self._bar = _shown_bar(*self._state())

    def _refresh(self) -> None:
        if VARIABLE in os.environ and self.stages:
            self._tell(os.environ[VARIABLE])
        if self._bar is not None and self.stages:
            label, total, done = self._state()
            self._bar.update(self._bar.task_ids[0], description=label, total=total, completed=done)

    def _tell(self, path: str) -> None:
        """For another program; work does not fail because nobody can be told."""
        label, total, done = self._state()
        if time.monotonic() - self._told < _OFTEN_S:
            return
        self._told = time.monotonic()
        with suppress(OSError), open(path, "w", encoding="utf-8") as file:
            file.write(json.dumps({"label": label, "total": total, "done": done}))

    def _state(self) -> tuple[str, int | None, int]:
        first, *within = self.stages
        # a stage of a stage is shown once it has become long itself
        inner = within[:1] + [stage for stage in within[1:] if stage.is_long]
        shown = inner[-1] if inner else first
        label = f"{first.label}: {shown.label}" if inner else first.label
        return label, shown.total, shown.done


class _Own(threading.local):
    line: _Line | None = None


_own = _Own()


def _on_terminal() -> bool:
    stream = sys.stderr
    return stream is not None and not stream.closed and stream.isatty()  # None: no console


def _shown_bar(label: str, total: int | None, done: int) -> Progress:
    from rich import progress as rich
    from rich.console import Console

    text, passed = rich.TextColumn("{task.description}"), rich.TimeElapsedColumn()
    columns = text, rich.BarColumn(), rich.TaskProgressColumn(), passed
    bar = rich.Progress(*columns, console=Console(stderr=True), transient=True)
    bar.add_task(label, total=total, completed=done)
    bar.start()
    return bar
