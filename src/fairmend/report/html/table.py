"""Tables of a page: raw values with a kind each, shown as text, sorted by value, saved as CSV."""

from __future__ import annotations

import base64
import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal

from fairmend.tables import UNKNOWN, number, p_value, percent, points

__all__ = ["Cell", "Column", "Kind", "Table", "csv_text", "typeset"]

Kind = Literal[
    "text",
    "count",
    "rate",
    "points",
    "ratio",
    "decimal",
    "number",
    "change",
    "p",
    "rates",
    "spans",
    "ratios",
]
"""How a value is shown. The last three are intervals: of rates, of gaps in points, of ratios."""
_INTERVALS = ("rates", "spans", "ratios")
_RISKY = ("=", "+", "-", "@", "\t", "\r", "\n")
"""A spreadsheet takes a text that begins so for a formula, or may."""
_MINUS = re.compile(r"(?<![^\s(\[])-(?=[\d.])")
_ZERO = re.compile(r"(?<![^\s(\[])\+(?=0(?:\.0+)?(?![\d.]*\d))")


@dataclass(frozen=True)
class Column:
    """What stands above a column, and how its values are shown."""

    header: str
    kind: Kind = "text"

    @property
    def numeric(self) -> bool:
        return self.kind != "text"

    @property
    def interval(self) -> bool:
        return self.kind in _INTERVALS


@dataclass(frozen=True)
class Cell:
    """A value ready for the page."""

    text: str
    order: str
    """What to sort by; empty where nothing is known."""


@dataclass(frozen=True)
class Table:
    """A caption, columns and rows of raw values; the first column names the row."""

    key: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...]
    notes: tuple[str, ...] = ()

    def cells(self) -> list[list[Cell]]:
        return [
            [_cell(value, column.kind) for value, column in zip(row, self.columns, strict=True)]
            for row in self.rows
        ]

    @property
    def file_name(self) -> str:
        return f"fairmend-{self.key}.csv"

    @property
    def data_link(self) -> str:
        """The table as a file inside a link, which needs no script to be saved."""
        encoded = base64.b64encode(csv_text(self).encode("utf-8-sig")).decode()
        return f"data:text/csv;charset=utf-8;base64,{encoded}"


def _cell(value: Any, kind: Kind) -> Cell:
    first = value[0] if kind in _INTERVALS else value
    known = not (isinstance(first, float) and not isfinite(first)) and first is not None
    if kind == "text":
        return Cell("" if value is None else str(value), "" if value is None else str(value))
    if not known:
        return Cell(UNKNOWN, "")
    return Cell(typeset(_shown(value, kind)), repr(float(first)))


def typeset(text: str) -> str:
    """Figures as the charts' axes have them: a true minus, and no sign before zero.

    A number and its per cent share a line, and so does a p-value below what is told.

    >>> typeset("from +0.0 to -4.5 points (-11.1 to +0.01) for 18-30")
    'from 0.0 to −4.5 points (−11.1 to +0.01) for 18-30'
    """
    signed = _ZERO.sub("", _MINUS.sub("\N{MINUS SIGN}", text))
    return signed.replace(" %", "\N{NO-BREAK SPACE}%").replace("< .", "<\N{NO-BREAK SPACE}.")


def _shown(value: Any, kind: Kind) -> str:
    match kind:
        case "count":
            return f"{value:,}"
        case "rate":
            return percent(value)
        case "points":
            return points(value)
        case "ratio":
            return f"{value:.2f}"
        case "decimal":
            return f"{value:.3f}"
        case "number":
            return number(value)
        case "change":
            return number(value, signed=True)
        case "p":
            return p_value(value)
        case "rates":
            return f"{100 * value[0]:.1f} to {100 * value[1]:.1f} %"
        case "spans":
            return f"{points(value[0])} to {points(value[1])}"
        case _:
            return f"{value[0]:.2f} to {value[1]:.2f}"


# -------------------------------------------------------------------- CSV


def csv_text(table: Table) -> str:
    """The raw values; an interval takes two columns, and what is not known is empty.

    A text that a spreadsheet would take for a formula gets an apostrophe in front; numbers stay.

    >>> columns = (Column("name"), Column("gap", "points"), Column("interval", "spans"))
    >>> csv_text(Table("t", "", columns, (("=1+1", -0.5, (-0.6, -0.4)),))).splitlines()
    ['name,gap,interval low,interval high', "'=1+1,-0.5,-0.6,-0.4"]
    """
    head: list[str] = []
    for column in table.columns:
        ends = (" low", " high") if column.interval else ("",)
        head += [column.header + end for end in ends]
    lines = [
        [
            entry
            for value, column in zip(row, table.columns, strict=True)
            for entry in (value if column.interval else (value,))
        ]
        for row in table.rows
    ]
    text = io.StringIO(newline="")
    writer = csv.writer(text)  # ends lines with CR LF, and so quotes texts that hold either
    writer.writerows([_safe(head), *map(_safe, lines)])
    return text.getvalue()


def _safe(line: Sequence[Any]) -> list[str]:
    return [_plain(entry) for entry in line]


def _plain(entry: Any) -> str:
    if isinstance(entry, bool) or not isinstance(entry, int | float):
        text = "" if entry is None else str(entry)
        return f"'{text}" if text.lstrip(" ").startswith(_RISKY) else text
    return repr(entry) if isfinite(entry) else ""
