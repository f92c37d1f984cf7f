"""Tables of raw values: shown as text, sorted by value, saved as CSV."""

from __future__ import annotations

import base64
import csv
import io
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import isfinite
from operator import attrgetter
from typing import Any

from fairmend.measure.wording import share
from fairmend.tables import UNKNOWN, TextTable, number, p_value, percent, points

__all__ = ["Cell", "Column", "Table", "csv_text", "typeset"]

_FORMATS: dict[str, Callable[[Any], str]] = {
    "text": lambda value: "" if value is None else str(value),
    "decision": str,
    "count": "{:,}".format,
    "people": "{:,.0f}".format,
    "rate": percent,
    "share": share,
    "points": points,
    "ratio": "{:.2f}".format,
    "decimal": "{:.3f}".format,
    "mean": "{:.1f}".format,
    "number": number,
    "change": lambda value: number(value, signed=True),
    "p": p_value,
    "rates": lambda ends: f"{100 * ends[0]:.1f} to {100 * ends[1]:.1f} %",
    "spans": lambda ends: f"{points(ends[0])} to {points(ends[1])}",
    "changes": lambda ends: " to ".join(number(end, signed=True) for end in ends),
    "ratios": "{0[0]:.2f} to {0[1]:.2f}".format,
    "bracket": lambda ends: f"[{100 * ends[0]:+.1f}, {100 * ends[1]:+.1f}]",
}
"""How a value is shown, by the kind of its column."""
_TEXTS = ("text", "decision")
"""Kinds that are words; a decision's id is a link on the monitor's page."""
_INTERVALS = ("rates", "spans", "changes", "ratios", "bracket")
"""Kinds with two ends: intervals of rates, of gaps in points, of ratios."""
_RISKY = ("=", "+", "-", "@", "\t", "\r", "\n")
"""A spreadsheet may take a text that begins like this for a formula."""
_MINUS = re.compile(r"(?<![^\s(\[])-(?=[\d.])")
_ZERO = re.compile(r"(?<![^\s(\[])\+(?=0(?:\.0+)?(?![\d.]*\d))")


@dataclass(frozen=True)
class Column:
    """What stands above a column, how its values are shown, and where a record has them."""

    header: str
    kind: str = "text"
    read: str | Callable[[Any], Any] = ""
    """Attributes of a record, one or the two ends of an interval; by default the header."""

    @property
    def numeric(self) -> bool:
        return self.kind not in _TEXTS

    @property
    def interval(self) -> bool:
        return self.kind in _INTERVALS

    def value(self, record: Any) -> Any:
        read = self.read or self.header
        return read(record) if callable(read) else attrgetter(*read.split())(record)


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

    @classmethod
    def of(
        cls, key: str, caption: str, columns: Iterable[Column], records: Iterable[Any], *notes: str
    ) -> Table:
        """One row a record."""
        columns = tuple(columns)
        rows = tuple(tuple(column.value(record) for column in columns) for record in records)
        return cls(key, caption, columns, rows, notes)

    def cells(self) -> list[list[Cell]]:
        return [
            [_cell(value, column.kind) for value, column in zip(row, self.columns, strict=True)]
            for row in self.rows
        ]

    def text(self) -> TextTable:
        """The same for a terminal."""
        return TextTable(
            self.caption,
            [f"{'' if column.numeric else '<'}{column.header}" for column in self.columns],
            [
                [_text(value, column.kind) for value, column in zip(row, self.columns, strict=True)]
                for row in self.rows
            ],
            self.notes,
        )

    @property
    def file_name(self) -> str:
        return f"fairmend-{self.key}.csv"

    @property
    def data_link(self) -> str:
        """The table as a file inside a link, which needs no script to be saved."""
        encoded = base64.b64encode(csv_text(self).encode("utf-8-sig")).decode()
        return f"data:text/csv;charset=utf-8;base64,{encoded}"


def _text(value: Any, kind: str) -> str:
    first = value[0] if kind in _INTERVALS else value
    unknown = kind not in _TEXTS and (first is None or not isfinite(first))
    return UNKNOWN if unknown else _FORMATS[kind](value)


def _cell(value: Any, kind: str) -> Cell:
    text = _text(value, kind)
    if kind in _TEXTS:
        return Cell(text, text)
    first = value[0] if kind in _INTERVALS else value
    return Cell(text, "") if text == UNKNOWN else Cell(typeset(text), repr(float(first)))


def typeset(text: str) -> str:
    """Figures as the axes of charts show them: a true minus, and no sign before zero.

    A number stays on one line with its per cent, and "<" with its p-value.

    >>> typeset("from +0.0 to -4.5 points (-11.1 to +0.01) for 18-30")
    'from 0.0 to −4.5 points (−11.1 to +0.01) for 18-30'
    """
    signed = _ZERO.sub("", _MINUS.sub("\N{MINUS SIGN}", text))
    return signed.replace(" %", "\N{NO-BREAK SPACE}%").replace("< .", "<\N{NO-BREAK SPACE}.")


def csv_text(table: Table) -> str:
    """The raw values; an interval takes two columns, and unknown values are empty.

    A text that a spreadsheet would take for a formula gets an apostrophe in front; numbers stay.

    >>> columns = (Column("name"), Column("gap", "points"), Column("interval", "spans"))
    >>> csv_text(Table("t", "", columns, (("=1+1", -0.5, (-0.6, -0.4)),))).splitlines()
    ['name,gap,interval low,interval high', "'=1+1,-0.5,-0.6,-0.4"]
    """
    header = [
        column.header + end
        for column in table.columns
        for end in ((" low", " high") if column.interval else ("",))
    ]
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
    writer.writerows([_safe(entry) for entry in line] for line in (header, *lines))
    return text.getvalue()


def _safe(entry: Any) -> str:
    if isinstance(entry, bool) or not isinstance(entry, int | float):
        text = "" if entry is None else str(entry)
        return f"'{text}" if text.lstrip(" ").startswith(_RISKY) else text
    return repr(entry) if isfinite(entry) else ""
