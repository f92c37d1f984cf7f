"""At most so many of a thing in a minute."""

from __future__ import annotations

import time

__all__ = ["Cap"]


class Cap:
    """Admits so many a minute, and counts those left out.

    >>> cap = Cap(1)
    >>> cap.admits(), cap.admits(), cap.left_out
    (True, False, 1)
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.left_out = 0
        self._minute, self._admitted = -1, 0

    def admits(self) -> bool:
        """Whether one more may pass now."""
        if _minute() != self._minute:
            self._minute, self._admitted = _minute(), 0
        is_room = self._admitted < self.most
        self._admitted += is_room
        self.left_out += not is_room
        return is_room

    def take_left_out(self) -> int:
        """How many were left out, once their minute is over; they are then forgotten."""
        if _minute() == self._minute:
            return 0
        count, self.left_out = self.left_out, 0
        return count


def _minute() -> int:
    return int(time.monotonic() // 60)
