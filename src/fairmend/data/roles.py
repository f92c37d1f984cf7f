"""What each column of a file probably is: outcome, decision, group, id, or an input.

A guess by names and values, for people to confirm. Nothing is computed from a guess. Where names
and values leave it open, the guess says what else a column may be.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fairmend.data.tablefile import FileTable

if TYPE_CHECKING:
    import polars as pl

Role = Literal["outcome", "decision", "group", "id", "weight", "input", "ignore"]
_SINGLE: tuple[Role, ...] = ("outcome", "decision", "id", "weight")
"""Roles of at most one column."""
MOST_VALUES, MOST_EXAMPLES = 12, 3
"""A column with more values is no group; so many of them are shown."""
_ENOUGH, _SURE, _MOST_OFF = 1_000, 3.0, 23.2
"""People by whom a score is judged; standard errors; the 99 % quantile of chi-squared by tenths."""
_DATE = r"^\d{4}-\d{1,2}-\d{1,2}([T ].*)?$|^\d{1,2}[./]\d{1,2}[./]\d{4}$"
_NAMES: dict[str, re.Pattern[str]] = {
    role: re.compile(rf"(?<![a-z])(?:{words})", re.IGNORECASE)
    for role, words in {
        "id": r"id(?![a-z])|no\.?$|nr\.?$|number|uuid|ssn|reference|case|key$",
        "weight": r"(?:sample|survey|person|row|case|final)[ _-]?(?:weights?|wgt)$|fnlwgt$"
        r"|^(?:weights?|wgt|people|persons|count)$",
        "decision": r"decision|decided|predict|pred(?![a-z])|score|prob|approv|accept|offer"
        r"|select|vendor|model|answer|y_?(hat|pred)",
        "outcome": r"label|outcome|target|actual|tru(e|th)|re?paid|paid|default|result|hired"
        r"|success|recid|two_year|performed|y$",
        "group": r"sex|gender|race|ethnic|origin|national|religio|disab|marital|minorit|skin|migra"
        r"|age[ _-]?(group|band|class)|protected",
    }.items()
}  # fmt: skip
"""Words that a column's name begins with, or one of its parts."""
_CLEAR = re.compile(r"[a-z][ _-]?w", re.IGNORECASE)
"""In the name of a weight what says whose it is."""


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
    unsure: str = ""
    """What it may be as well."""
    problem: str = ""
    """Why it cannot be read as it is, and what to say."""
    note: str = ""


def guess_roles(table: FileTable) -> list[ColumnGuess]:
    """Every column of a file with its probable role; each of the single roles is given once."""
    guesses = list(_columns(table))
    for role in _SINGLE:
        guesses = _given_once(role, guesses)
    if any(one.role == "outcome" for one in guesses):
        return guesses
    return _with_outcome(guesses, table.frame)


def _given_once(role: Role, guesses: Sequence[ColumnGuess]) -> list[ColumnGuess]:
    """Of several columns with a role the one whose name says least besides it."""
    its = [one for one in guesses if one.role == role]
    if len(its) < 2:
        return list(guesses)

    def besides(one: ColumnGuess) -> int:
        match = _NAMES[role].search(one.name)
        return len(one.name) - (len(match.group()) if match else 0)

    best = min(its, key=lambda one: (bool(one.unsure), besides(one)))
    others = [one.name for one in its if one is not best]
    unsure = f"{' or '.join(others)} may be the {role} instead"
    why = f"another column may be the {role}"
    return [
        replace(one, unsure=unsure) if one is best
        else replace(one, role="ignore", why=why, unsure="") if one.name in others
        else one
        for one in guesses
    ]  # fmt: skip


def _with_outcome(guesses: Sequence[ColumnGuess], frame: pl.DataFrame) -> list[ColumnGuess]:
    """No name says what the outcome is: it is what a score foretells, or any of two values."""
    maybe = [one for one in guesses if one.role == "input" and one.distinct == 2]
    scores = [one.name for one in guesses if one.role == "decision" and one.distinct > 2]
    foretold = [one for one in maybe if scores and _foretells(frame, scores[0], one.name)]
    if len(foretold) == 1:
        why, unsure = f"{scores[0]} gives its probability", "it may be an input"
        return [replace(one, role="outcome", why=why, unsure=unsure) if one is foretold[0] else one
                for one in guesses]  # fmt: skip
    unsure = "it has two values and may be the outcome"
    return [replace(one, unsure=unsure) if one in maybe else one for one in guesses]


def _foretells(frame: pl.DataFrame, score: str, name: str) -> bool:
    """Whether a score is the probability of one of two values: in each tenth of people, by it.

    It must also foretell them better than their share among all does, by more than chance. Among
    few people an input may look so too: nothing is said of them.
    """
    both = frame.select(score, name).drop_nulls()
    if len(both) < _ENOUGH:
        return False
    s = np.clip(both[score].to_numpy().astype(np.float64), 1e-6, 1 - 1e-6)
    first = both[name].to_numpy() == both[name].min()
    for y in (first, ~first):
        share = y.mean()
        gain = np.where(y, np.log(s / share), np.log((1 - s) / (1 - share)))
        tenths = np.array_split(np.argsort(s, kind="stable"), 10)
        off = [(y - s)[at].sum() ** 2 / (s * (1 - s))[at].sum() for at in tenths]
        if sum(off) < _MOST_OFF and gain.mean() > _SURE * gain.std() / np.sqrt(len(gain)):
            return True
    return False


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
        role, why, unsure = _role(name, kind, distinct, filled)
        yield ColumnGuess(
            name,
            kind if doubt is None else "numbers, not all readable",
            int(column.null_count()),
            distinct,
            _examples(filled, distinct),
            values,
            role if doubt is None or role != "id" else "input",
            why,
            unsure,
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


def _role(name: str, kind: str, distinct: int, filled: pl.Series) -> tuple[Role, str, str]:
    """What a column probably is, why, and what it may be as well."""

    def named(role: str) -> bool:
        return bool(_NAMES[role].search(name))

    n = len(filled)
    whole = kind in ("whole numbers", "words")
    if n == 0 or not name:
        return "ignore", "it has no name" if n else "it is empty", ""
    if distinct == n > MOST_VALUES and whole:
        why = f"all its {n:,} values differ"
        if kind == "words" or named("id") or int(filled.max()) - int(filled.min()) < 2 * n:  # type: ignore[arg-type]
            return "id", why, ""
        return "input", "", f"{why}: it may be the id"
    if kind == "dates":
        return "ignore", "dates are seldom inputs of a model", ""
    if named("id") and whole and distinct > 0.5 * n > MOST_VALUES:
        return "id", "its name, and nearly all values differ", ""
    score = kind == "numbers" and 0 <= float(filled.min()) <= float(filled.max()) <= 1  # type: ignore[arg-type]
    if named("decision") and (distinct == 2 or score):
        values = "two values" if distinct == 2 else "values from 0 to 1"
        return "decision", f"its name, and {values}", ""
    if named("outcome") and distinct == 2:
        return "outcome", "its name, and two values", ""
    if named("group") and 2 <= distinct <= MOST_VALUES:
        return "group", "its name", ""
    if named("weight") and kind in ("whole numbers", "numbers") and distinct > 2:
        return "weight", "its name", "" if _CLEAR.search(name) else "it may be an input"
    return "input", "" if distinct > 1 else "one value only", ""


def _examples(filled: pl.Series, distinct: int) -> tuple[str, ...]:
    if distinct > 0.9 * len(filled):
        return tuple(map(_text, filled.head(MOST_EXAMPLES).to_list()))
    often = filled.value_counts(sort=True).head(MOST_EXAMPLES)
    return tuple(map(_text, often[filled.name].to_list()))


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
