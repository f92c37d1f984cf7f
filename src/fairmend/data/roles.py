"""What each column of a file probably is: outcome, decision, group, id, or an input.

A guess by names and values, for people to confirm. Nothing is computed from a guess.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from fairmend.data.tablefile import FileTable

if TYPE_CHECKING:
    import polars as pl

Role = Literal["outcome", "decision", "group", "id", "weight", "input", "ignore"]
MOST_VALUES, MOST_EXAMPLES = 12, 3
"""A column with more values is no group; so many of them are shown."""
_DATE = r"^\d{4}-\d{1,2}-\d{1,2}([T ].*)?$|^\d{1,2}[./]\d{1,2}[./]\d{4}$"
_NAMES: dict[str, re.Pattern[str]] = {
    role: re.compile(rf"(?<![a-z])(?:{words})", re.IGNORECASE)
    for role, words in {
        "id": r"id(?![a-z])|no\.?$|nr\.?$|number|uuid|ssn|reference|case|key$",
        "weight": r"weight|wgt|people$|count$",
        "decision": r"decision|decided|predict|pred(?![a-z])|score|prob|approv|accept|offer"
        r"|select|vendor|model|answer|y_?(hat|pred)",
        "outcome": r"label|outcome|target|actual|tru(e|th)|re?paid|paid|default|result|hired"
        r"|success|recid|two_year|performed|y$",
        "group": r"sex|gender|race|ethnic|origin|national|religio|disab|marital|minorit|skin|migra"
        r"|age[ _-]?(group|band|class)|protected",
    }.items()
}  # fmt: skip
"""Words that a column's name begins with, or one of its parts."""


_POSITIVE = frozenset(
    [
        "yes",
        "true",
        "1",
        "y",
        "t",
        "positive",
        "good",
        "accept",
        "accepted",
        "approve",
        "approved",
        "grant",
        "granted",
        "select",
        "selected",
        "hire",
        "hired",
        "invite",
        "invited",
        "offer",
        "offered",
        "pass",
        "passed",
        "paid",
        "repaid",
        "success",
    ]
)


def guess_positive(values: Sequence[str]) -> str | None:
    """Which of two values is the positive one, if its word says so.

    >>> guess_positive(["refuse", "accept"]), guess_positive(["a", "b"])
    ('accept', None)
    """
    known = [value for value in values if value.strip().lower() in _POSITIVE]
    return known[0] if len(values) == 2 and len(known) == 1 else None


@dataclass(frozen=True)
class ColumnGuess:
    """A column: what is in it, and what it probably is."""

    name: str
    kind: str
    missing: int
    distinct: int
    examples: tuple[str, ...]
    """The most frequent values."""
    values: tuple[str, ...]
    """All values, where there are few."""
    role: Role
    why: str
    problem: str = ""
    """Why it cannot be read as it is, and what to say."""
    note: str = ""


def guess_roles(table: FileTable) -> list[ColumnGuess]:
    """Every column of a file with its probable role; each of the single roles is given once."""
    taken: set[Role] = set()
    guesses = []
    for one in _columns(table):
        role, why = one.role, one.why
        if role in taken and role not in ("group", "input", "ignore"):
            role, why = "ignore", f"another column may be the {role}"
        taken.add(role)
        guesses.append(replace(one, role=role, why=why))
    return guesses


def _columns(table: FileTable) -> Iterator[ColumnGuess]:
    frame = table.frame
    for name in frame.columns:
        column = frame[name]
        filled = column.drop_nulls()
        distinct = int(filled.n_unique())
        kind = _kind(filled)
        doubt = table.findings.doubts.get(name)
        few = distinct <= MOST_VALUES
        values = tuple(map(_text, filled.unique().sort().to_list())) if few else ()
        role, why = _role(name, kind, distinct, filled, values)
        yield ColumnGuess(
            name,
            kind if doubt is None else "numbers, not all readable",
            int(column.null_count()),
            distinct,
            _examples(filled, distinct),
            values,
            role if doubt is None or role != "id" else "input",
            why,
            "" if doubt is None else str(doubt()),
            table.findings.notes.get(name, ""),
        )


def _kind(filled: pl.Series) -> str:
    import polars as pl

    if filled.dtype == pl.Boolean:
        return "true or false"
    if filled.dtype.is_integer():
        return "whole numbers"
    if filled.dtype.is_numeric():
        return "numbers"
    if filled.dtype.is_temporal():
        return "dates"
    if filled.dtype == pl.String and len(filled) and filled.str.contains(_DATE).all():
        return "dates"
    return "words" if len(filled) else "empty"


def _role(
    name: str, kind: str, distinct: int, filled: pl.Series, values: Sequence[str]
) -> tuple[Role, str]:
    def named(role: str) -> bool:
        return bool(_NAMES[role].search(name))

    n = len(filled)
    whole = kind in ("whole numbers", "words")
    if n == 0 or not name:
        return "ignore", "it has no name" if n else "it is empty"
    if distinct == n > MOST_VALUES and whole:
        return "id", f"all its {n:,} values differ"
    if kind == "dates":
        return "ignore", "dates are seldom inputs of a model"
    if named("id") and whole and distinct > 0.5 * n > MOST_VALUES:
        return "id", "its name, and nearly all values differ"
    score = kind == "numbers" and 0 <= float(filled.min()) <= float(filled.max()) <= 1  # type: ignore[arg-type]
    if named("decision") and (distinct == 2 or score):
        return "decision", "its name" + (", and two values" if distinct == 2 else ", from 0 to 1")
    if named("outcome") and distinct == 2:
        return "outcome", "its name, and two values"
    if named("group") and 2 <= distinct <= MOST_VALUES:
        return "group", "its name"
    if named("weight") and kind in ("whole numbers", "numbers") and distinct > 2:
        return "weight", "its name"
    return "input", "" if distinct > 1 else "one value only"


def _examples(filled: pl.Series, distinct: int) -> tuple[str, ...]:
    if distinct > 0.9 * len(filled):
        return tuple(map(_text, filled.head(MOST_EXAMPLES).to_list()))
    often = filled.value_counts(sort=True).head(MOST_EXAMPLES)
    return tuple(map(_text, often[filled.name].to_list()))


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
