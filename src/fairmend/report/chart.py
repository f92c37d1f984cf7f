"""Charts of a page: values become places, in per cent of a drawing as wide as the reader's screen.

The templates draw them with the colours of the page. So a chart needs no renderer, is not cut on a
small screen, and is the same in light, in dark and on paper. What a row shows stands beside it as
text: nobody has to read a value off an axis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import ceil, floor, isfinite, isnan, log10
from typing import Any

from fairmend.report.table import Table, typeset
from fairmend.tables import number

__all__ = [
    "NAN", "SIDES", "Axis", "Mark", "Plane", "Point", "Row", "RowChart", "as_percent", "as_points",
    "finite_values",
]  # fmt: skip

NAN = float("nan")
SIDES = ("before", "after")
"""The model alone and the repair, as the style sheet calls them."""
LANE = 19
"""Pixels from one line of marks in a row to the next."""
MOST_TICKS = 6


@dataclass(frozen=True)
class Axis:
    """A stretch of values with its ticks."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    title: str = ""

    @classmethod
    def of(
        cls,
        values: Iterable[float],
        text: Callable[[float], str] = number,
        title: str = "",
        *,
        most: int = MOST_TICKS,
    ) -> Axis:
        """Over all values, from one round value to another.

        >>> axis = Axis.of([0.12, 0.48], as_percent)
        >>> [label for _, label in axis.ticks], axis.at(0.3)
        (['10', '20', '30', '40', '50'], '50.0%')
        """
        finite = [value for value in values if isfinite(value)] or [0.0]
        low, high = min(finite), max(finite)
        if high - low < 1e-9:
            low, high = low - (abs(low) / 10 or 0.1), high + (abs(high) / 10 or 0.1)
        step = _step(high - low, most)
        first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
        marks = [step * place + 0.0 for place in range(first, last + 1)]
        ticks = tuple((mark, typeset(text(mark))) for mark in marks)
        return cls(marks[0], marks[-1], ticks, title)

    def share(self, value: float) -> float:
        """How far along a value is, from 0 to 100."""
        return round(100 * (value - self.low) / (self.high - self.low), 2)

    def at(self, value: float) -> str:
        return f"{self.share(value)}%"

    def up(self, value: float) -> str:
        """The place of a value from the top."""
        return f"{round(100 - self.share(value), 2)}%"

    def across(self, one: float, other: float) -> str:
        """How far it is from one value to another."""
        return f"{abs(round(self.share(other) - self.share(one), 2))}%"


def _step(width: float, most: int) -> float:
    """The least of 1, 2 and 5 times a power of ten that needs at most so many steps."""
    power = 10.0 ** floor(log10(width / most))
    return next(power * k for k in (1, 2, 5, 10) if power * k * most >= width * (1 - 1e-9))


def as_percent(value: float) -> str:
    """A tick of an axis of rates."""
    return f"{100 * value:.4g}"


def as_points(value: float) -> str:
    """A tick of an axis of gaps."""
    return f"{100 * value:+.4g}"


# -------------------------------------------------------------------- a chart of rows


@dataclass(frozen=True)
class Mark:
    """A value in a row, on the line of its side; what is not known is not drawn."""

    side: str
    """Which colour and shape it has: see the style sheet."""
    value: float
    low: float = NAN
    high: float = NAN
    base: float = NAN
    """A band is drawn from here to the value."""
    middle: tuple[float, float] | None = None
    """The half of the people in the middle."""
    text: str = ""
    """What stands beside the row; empty: nothing."""

    @property
    def is_known(self) -> bool:
        return not isnan(self.value)

    @property
    def spans(self) -> bool:
        return isfinite(self.low) and isfinite(self.high)

    @property
    def filled(self) -> bool:
        return self.is_known and not isnan(self.base)


@dataclass(frozen=True)
class Row:
    """One line of a chart: a name, marks, and words."""

    name: str
    marks: tuple[Mark, ...]
    beneath: str = ""
    """Under the name."""
    says: str = ""
    """Beside the marks, after what they say themselves."""


@dataclass(frozen=True)
class RowChart:
    """Rows of marks over one axis."""

    key: str
    caption: str
    rows: tuple[Row, ...]
    axis: Axis
    legend: tuple[tuple[str, str], ...] = ()
    """Sides and their words."""
    lines: tuple[str, ...] = ()
    """The sides that have a line of their own, from above; without any all are on one."""
    guide: float | None = None
    beneath: str = ""
    table: Table | None = None
    kind: str = "rows"

    @classmethod
    def of(
        cls,
        key: str,
        caption: str,
        rows: Iterable[Row],
        text: Callable[[float], str],
        title: str = "",
        *,
        at: Sequence[float] = (),
        **more: Any,
    ) -> RowChart:
        """Over an axis that holds every mark, and the values in ``at``."""
        rows = tuple(rows)
        values = (value for row in rows for mark in row.marks
                  for value in (mark.value, mark.low, mark.high, mark.base))  # fmt: skip
        return cls(key, caption, rows, Axis.of([*at, *finite_values(*values)], text, title), **more)

    @property
    def high(self) -> int:
        return 6 + LANE * max(1, len(self.lines))

    def y(self, mark: Mark) -> int:
        if mark.side not in self.lines:
            return self.high // 2
        return 3 + LANE // 2 + LANE * self.lines.index(mark.side)


# -------------------------------------------------------------------- a chart of points


@dataclass(frozen=True)
class Point:
    """A point with its intervals, and a label where it has one."""

    x: float
    y: float
    side: str
    across: tuple[float, float] = (NAN, NAN)
    along: tuple[float, float] = (NAN, NAN)
    label: str = ""
    below: bool = False
    """Whether the label stands below the point."""
    large: bool = False


@dataclass(frozen=True)
class Plane:
    """Points, curves and bands over two axes."""

    key: str
    caption: str
    x: Axis
    y: Axis
    points: tuple[Point, ...] = ()
    curves: tuple[tuple[str, tuple[tuple[float, float], ...]], ...] = ()
    """Sides, and the places along each curve."""
    area: tuple[tuple[float, float, float], ...] = ()
    """A band along the first axis: place, low, high."""
    band: tuple[float, float] | None = None
    """A band across the whole drawing, over the second axis."""
    guides: tuple[float | None, float | None] = (None, None)
    """A dashed line at a value of the first and of the second axis."""
    cursors: tuple[float, ...] = ()
    """Places along the first axis of which a slider shows one."""
    cursor: int = 0
    legend: tuple[tuple[str, str], ...] = ()
    beneath: str = ""
    table: Table | None = None
    high: int = 300
    kind: str = "plane"

    def path(self, places: Sequence[tuple[float, float]]) -> str:
        """Places for a drawing of 100 by 100 that is stretched over the plane."""
        return " ".join(f"{self.x.share(x)},{round(100 - self.y.share(y), 2)}" for x, y in places)

    @property
    def outline(self) -> str:
        """The band along the first axis as a polygon."""
        above = [(x, high) for x, _, high in self.area]
        return self.path([*above, *((x, low) for x, low, _ in reversed(self.area))])


def finite_values(*values: Any) -> list[float]:
    """The finite values among them."""
    return [float(value) for value in values if isfinite(value)]
