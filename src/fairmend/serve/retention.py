"""How long decisions are kept, by a clock that is not trusted blindly."""

from __future__ import annotations

import time
from typing import Any

__all__ = ["Retention"]

DAY = 86_400.0
_START_JUMP, _JUMP = DAY, 3_600.0
"""A start so long after the last row, or a clock that moves so far beside the process's own, is
taken for a clock that is wrong."""
_PAUSE = DAY
_BETWEEN = 3_000.0
"""Replicas of one log look every hour, each of them; one run an hour is enough."""


class Retention:
    """Which decisions may be deleted.

    A clock a year ahead would make everything old. So nothing is deleted for a day after the clock
    jumped, or after a start long after the last row; and a run deletes one day of decisions at
    most.

    >>> Retention(None).before(0.0)
    0.0
    """

    def __init__(self, keep_days: float | None) -> None:
        self.keep_days = keep_days
        self._offset = time.time() - time.monotonic()
        self._paused_until = 0.0
        self._done = 0.0

    @property
    def is_paused(self) -> bool:
        return self.keep_days is not None and time.monotonic() < self._paused_until

    def begin(self, last: float | None) -> dict[str, Any] | None:
        """Start after a last row; what to record if deletion waits."""
        now = time.time()
        if last is None or -_JUMP < now - last < _START_JUMP:
            return None
        return self._pause(last, now)

    def look(self) -> dict[str, Any] | None:
        """Compare the clock with the process's own; what to record if it jumped."""
        now, steady = time.time(), time.monotonic()
        expected = self._offset + steady
        self._offset = now - steady
        return None if abs(now - expected) < _JUMP else self._pause(expected, now)

    def _pause(self, expected: float, now: float) -> dict[str, Any] | None:
        self._paused_until = time.monotonic() + _PAUSE
        if self.keep_days is None:
            return None
        return {"reason": "clock", "expected": round(expected), "now": round(now)}

    def done(self) -> None:
        """A run of this process is over."""
        self._done = time.time()

    def before(self, oldest: float | None, pruned: float | None = None) -> float:
        """Decisions before this time may be deleted now; some were last ``pruned`` then."""
        if self.keep_days is None or oldest is None or self.is_paused:
            return 0.0
        if pruned is not None and pruned > self._done and abs(time.time() - pruned) < _BETWEEN:
            return 0.0  # by another replica
        return min(time.time() - DAY * self.keep_days, oldest + DAY)
