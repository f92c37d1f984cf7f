"""Small tables for people: one description, printed as text, Markdown or HTML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isnan

UNKNOWN = "–"
"""Stands for what is not known."""


@dataclass(frozen=True)
class TextTable:
    """A title, headers and cells that are already text.

    A header that starts with ``<`` marks a column of words, which is set flush left.

    >>> print(TextTable("", ("<group", "people"), [("Female", "12"), ("Male", "1,003")]))
    group   people
    Female      12
    Male     1,003
    """

    title: str
    headers: Sequence[str]
    cells: Sequence[Sequence[str]]
    notes: Sequence[str] = ()

    def _heads(self) -> list[tuple[str, bool]]:
        return [(header.removeprefix("<"), header.startswith("<")) for header in self.headers]

    def __str__(self) -> str:
        heads = self._heads()
        rows = [[name for name, _ in heads], *self.cells]
        lines = [[_printable(cell) for cell in line] for line in rows]
        widths = [max(len(line[j]) for line in lines) for j in range(len(heads))]
        text = [
            "  ".join(
                cell.ljust(width) if flush_left else cell.rjust(width)
                for cell, width, (_, flush_left) in zip(line, widths, heads, strict=True)
            ).rstrip()
            for line in lines
        ]
        return "\n".join([*([_printable(self.title)] if self.title else []), *text, *self.notes])

    def markdown(self) -> str:
        r"""Headers and cells as a Markdown table.

        >>> print(TextTable("", ("<group", "people"), [("a|b", "12")]).markdown())
        | group | people |
        | --- | ---: |
        | a\|b | 12 |
        """

        def line(cells: Iterable[str]) -> str:
            return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

        heads = self._heads()
        marks = ("---" if flush_left else "---:" for _, flush_left in heads)
        return "\n".join([line(name for name, _ in heads), line(marks), *map(line, self.cells)])


def _printable(text: str) -> str:
    """A line break or control character in a label must not break up the table."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def percent(value: float, *, signed: bool = False) -> str:
    """A rate as per cent with one decimal; a dash for what is not known, no minus before zero.

    >>> percent(0.1786), percent(-0.004, signed=True), percent(-0.0004), percent(float("nan"))
    ('17.9 %', '-0.4 %', '0.0 %', '–')
    """
    sign = "+" if signed else ""
    return UNKNOWN if isnan(value) else f"{round(100 * value, 1) + 0.0:{sign}.1f} %"


def points(value: float) -> str:
    """A gap in signed percentage points; a dash for what is not known, and no minus before zero.

    >>> points(0.1786), points(-0.00004), points(float("nan"))
    ('+17.9', '+0.0', '–')
    """
    return percent(value, signed=True).removesuffix(" %")


def p_value(value: float) -> str:
    """A p-value as people print it.

    >>> p_value(0.00004), p_value(0.0312), p_value(float("nan"))
    ('< .001', '.031', '–')
    """
    if isnan(value):
        return UNKNOWN
    return "< .001" if value < 0.0005 else f"{value:.3f}".removeprefix("0")


def p_text(value: float) -> str:
    """A p-value in a sentence.

    >>> p_text(0.00004), p_text(0.0312)
    ('p < .001', 'p = .031')
    """
    text = p_value(value)
    return f"p {text}" if text.startswith("<") else f"p = {text}"


def number(value: float, *, signed: bool = False) -> str:
    """A number in as many digits as people read: four, or all before the point.

    >>> number(55609.54), number(0.123456), number(-12.0, signed=True), number(float("nan"))
    ('55,610', '0.1235', '-12', '–')
    """
    if isnan(value):
        return UNKNOWN
    sign = "+" if signed else ""
    return f"{value:{sign},.0f}" if abs(value) >= 1000 else f"{value + 0.0:{sign}.4g}"


def counted(n: float) -> str:
    """So many people.

    >>> counted(1), counted(1_200)
    ('1 person', '1,200 people')
    """
    return "1 person" if n == 1 else f"{n:,} people"
