"""Progress of long work: on a terminal only, and only once it has become long."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress

# Work that ends sooner is left in peace.
PATIENCE_S = 1.0


@contextmanager
def progress(label: str, total: int) -> Iterator[Callable[[int], None]]:
    """Yield ``advance(steps)``; a bar appears on standard error after a second, and goes away.

    >>> with progress("counting", total=2) as advance:
    ...     advance(2)
    """
    started, done = time.monotonic(), 0
    bar: Progress | None = None

    def advance(steps: int) -> None:
        nonlocal bar, done
        done += steps
        if bar is None and time.monotonic() - started > PATIENCE_S and _on_terminal():
            bar = _shown_bar(label, total)
        if bar is not None:
            bar.update(bar.task_ids[0], completed=done)

    try:
        yield advance
    finally:
        if bar is not None:
            bar.stop()


def _on_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()  # None: a program without a console


def _shown_bar(label: str, total: int) -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    bar.add_task(label, total=total)
    bar.start()
    return bar
