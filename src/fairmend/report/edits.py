"""Which features a repair edits, and how, as far as nobody can be recognised in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairmend.data.columns import (
    Encoded,
    FloatArray,
    Frame,
    IntArray,
    as_numbers,
)
from fairmend.data.rows import differing
from fairmend.measure.population import Population
from fairmend.repair.plan import Route
from fairmend.report.findings import heads, rounded, value_text
from fairmend.tables import number, percent

__all__ = ["Edit", "EditedFeature", "NumberChange", "edited_features"]

MOST_EDITS = 5
"""Edits of a feature that are named, those that most people get."""
MANY_VALUES = 10
"""Numbers with more values than this are described by their median change."""
SLACK = 1e-9
"""People under a law are sums of chances."""


@dataclass(frozen=True)
class Edit:
    """One value replaced by another."""

    old: str
    new: str
    share_of_edited: float


@dataclass(frozen=True)
class NumberChange:
    """How a number of many values is edited: medians over people, rounded to identify nobody."""

    share_of_edited: float
    median: float
    """Of the changes."""
    old_median: float
    new_median: float
    rises: float
    """The share of them whose number rises."""


@dataclass(frozen=True)
class EditedFeature:
    """How often one feature of a group's people is edited, and how."""

    feature: str
    share_of_edited: float
    how: str
    """The commonest edit, e.g. ``0 -> 1``, or the median change, if enough people have it."""
    edits: tuple[Edit, ...] = ()
    """The commonest few, with their shares of the edited people."""
    change: NumberChange | None = None
    """Instead of edits, for numbers of many values."""
    not_shown: int = 0
    """Edits suppressed because too few people have them."""


def edited_features(
    rows: Frame, population: Population, route: Route, smallest_cell: int
) -> tuple[list[EditedFeature], float]:
    """Which features change for the edited, most often first; and how many a person."""
    away = np.flatnonzero((route.destination >= 0) & (route.probability > 0))
    if len(away) == 0 or route.table is None:
        return [], 0.0
    here, there = rows.take(route.row[away]), route.table.take(route.destination[away])
    weight = population.mass[route.row[away]] * route.probability[away]
    people = heads(population)[route.row[away]] * route.probability[away]
    changed = differing(here, there)
    total = float(weight.sum())
    lines = []
    for j, name in enumerate(rows.names):
        at = np.flatnonzero(changed[:, j])
        if len(at) > 0:
            edits = _Edits(here.encoded[j], there.encoded[j], at, weight[at] / total, people[at])
            many = len(rows.encoded[j].values) > MANY_VALUES
            lines.append(edits.described(str(name), smallest_cell, many=many))
    lines.sort(key=lambda line: -round(line.share_of_edited, 12))  # equal sums stay in order
    return lines, float(weight @ changed.sum(axis=1)) / total


@dataclass(frozen=True, eq=False)
class _Edits:
    """The edits of one feature."""

    here: Encoded
    there: Encoded
    at: IntArray
    """Where the two differ."""
    share: FloatArray
    """Of the edited people, for each of these places."""
    people: FloatArray
    """How many stand behind each, as far as draws go in expectation."""

    def described(self, name: str, smallest_cell: int, *, many: bool) -> EditedFeature:
        """What may be shown of them; of numbers with many values their change."""
        columns = (self.here, self.there)
        codes = [column.codes[self.at] for column in columns]
        here, there = (as_numbers(column.values) for column in columns)
        change = None
        if here is not None and there is not None and many:
            old, new = here[codes[0]], there[codes[1]]
            change = self._change(old, new, smallest_cell)
            texts = [np.array(["a number", "missing"])] * 2
            codes = [np.isnan(old).astype(np.int64), np.isnan(new).astype(np.int64)]
        else:
            texts = [np.array([value_text(v) for v in c.values]) for c in columns]
        edits, not_shown = self._pairs(texts, codes, smallest_cell)
        if change is not None:
            edits = tuple(edit for edit in edits if (edit.old, edit.new) != ("a number",) * 2)
        how = _how(edits, change, not_shown, smallest_cell)
        return EditedFeature(name, float(self.share.sum()), how, edits, change, not_shown)

    def _change(self, old: FloatArray, new: FloatArray, smallest_cell: int) -> NumberChange | None:
        present = np.isfinite(old) & np.isfinite(new)
        if self.people[present].sum() < smallest_cell - SLACK:
            return None
        share, old, new = self.share[present], old[present], new[present]
        return NumberChange(
            share_of_edited=float(share.sum()),
            median=rounded(_median(new - old, share), 2),
            old_median=rounded(_median(old, share), 3),
            new_median=rounded(_median(new, share), 3),
            rises=float(share[new > old].sum() / share.sum()),
        )

    def _pairs(
        self, texts: Sequence[Any], codes: Sequence[Any], smallest_cell: int
    ) -> tuple[tuple[Edit, ...], int]:
        """From what to what, those that most people get first; and how many are suppressed."""
        width = len(texts[1])
        pairs, place = np.unique(codes[0].astype(np.int64) * width + codes[1], return_inverse=True)
        share, people = (np.bincount(place, each) for each in (self.share, self.people))
        shown = people >= smallest_cell - SLACK
        top = [i for i in np.argsort(-share, kind="stable") if shown[i]][:MOST_EDITS]
        edits = tuple(
            Edit(str(texts[0][pairs[i] // width]), str(texts[1][pairs[i] % width]), float(share[i]))
            for i in top
        )
        return edits, int((~shown).sum())


def _median(values: FloatArray, weight: FloatArray) -> float:
    order = np.argsort(values, kind="stable")
    cumulated = np.cumsum(weight[order])
    return float(values[order][np.searchsorted(cumulated, cumulated[-1] / 2)])


def _how(
    edits: Sequence[Edit], change: NumberChange | None, not_shown: int, smallest_cell: int
) -> str:
    if change is not None:
        way = "rise" if change.median > 0 else "fall"
        return (
            f"half {way} by about {number(abs(change.median))} or more; "
            f"the median was {number(change.old_median)} and is {number(change.new_median)}"
        )
    if not edits:
        return f"by fewer than {smallest_cell} people each"
    first = f"{edits[0].old} -> {edits[0].new}"
    if len(edits) == 1 and not_shown == 0:
        return first
    return f"most often {first} ({percent(edits[0].share_of_edited)})"
