"""How far the inputs of new people are from those of the audit."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmend.data.columns import Encoded, FloatArray, Frame, IntArray, scalar
from fairmend.measure.population import AuditData, Population
from fairmend.measure.significance import fisher_by_bin

DRIFT_DISTANCE = 0.1
"""Inputs count as drifted where a change is significant and concerns a tenth of people."""
_TENTHS = 10


@dataclass(frozen=True)
class Moved:
    """How one column of a day's people differs from the audit."""

    column: str
    value: str
    """The value, or range of values, whose share changed most."""
    before: float
    """Its share in the audit."""
    now: float
    distance: float
    """Total variation: the share of people who would have to have another value."""
    p_value: float
    """Of this column, corrected for all that were looked at."""


@dataclass(frozen=True)
class InputWindow:
    """The target group's inputs on one day, against the audit."""

    day: str
    people: int
    cells: int
    """Distinct rows of the audit that came."""
    unseen: float
    """Share of people whose row was not in the audit."""
    moved: Moved
    """The column that moved most; of those that moved significantly, if any did."""
    alert: bool


class AuditedInputs:
    """The audited inputs of a group, column by column in few bins, to compare a day's with.

    Only rows of the audit are counted one by one, and whoever is alone on theirs, of all groups,
    would have come on a row not in it, had they not been audited (Good and Turing). So a day's
    people on rows of the audit are compared with those audited who were not alone, and the share of
    people on other rows with the share of the alone.
    """

    @classmethod
    def of(cls, data: AuditData, table: Frame, group: Hashable) -> AuditedInputs:
        """Those of one group of an audit, whose rows are rows of the table."""

        def on_rows(population: Population) -> FloatArray:
            assert population.tally is not None
            people = np.zeros(len(table))
            people[population.rows] = np.rint(population.tally.people.sum(axis=1))
            return people

        return cls(table, on_rows(data[group]), np.sum([*map(on_rows, data.populations)], axis=0))

    def __init__(self, table: Frame, people: FloatArray, everybody: FloatArray) -> None:
        binned = [_binned(column, people) for column in table.encoded]
        labels = [*(labels for _, labels in binned), ["in the audit", "not in the audit"]]
        sizes = np.array(list(map(len, labels)))
        self._names = (*table.names, "row")
        self._labels = [label for each in labels for label in each]
        self._column = np.repeat(np.arange(len(sizes)), sizes)
        """The column of each bin; bins of all columns stand in one line."""
        first = np.cumsum(sizes) - sizes
        self._bins = [bins + start for (bins, _), start in zip(binned, first[:-1], strict=True)]
        self._rows = len(people)
        alone = (people == 1) & (everybody == 1)
        self.alone = float(alone.sum() / people.sum())
        """The share of people on rows not in the audit to expect if nothing changes."""
        self._before = self._counts(np.where(alone, 0.0, people), int(alone.sum()))

    def _counts(self, people: FloatArray, unseen: int) -> FloatArray:
        """How many there are in each bin, from those on each row and those on others."""
        counts = np.zeros(len(self._labels))
        for bins in self._bins:
            counts += np.bincount(bins, people, len(counts))
        counts[-2:] = people.sum(), unseen
        return counts

    def window(self, day: str, cells: Iterable[tuple[int, int]], risk: float) -> InputWindow:
        """A day's people against the audit: how many came on each row, -1 for rows not in it.

        ``risk`` is the chance of a false alert.
        """
        here, unseen = np.zeros(self._rows), 0
        for cell, n in cells:
            if cell < 0:
                unseen += n
            else:
                here[cell] += n
        people = int(here.sum()) + unseen
        moved, alert = self.most_moved(here, unseen, risk)
        return InputWindow(day, people, int((here > 0).sum()), unseen / people, moved, alert)

    def most_moved(self, here: FloatArray, unseen: int, risk: float) -> tuple[Moved, bool]:
        """The column that moved most, and whether that is drift; columns that drifted come first.

        ``here`` counts a day's people on each row. Each bin's share is tested exactly (Fisher); a
        column's p value is the smallest of its bins', times the number of bins and of columns
        (Bonferroni).
        """
        before, now, column = self._before, self._counts(here, unseen), self._column
        all_before, all_now = (np.bincount(column, counts)[column] for counts in (before, now))
        least = np.ones(len(self._names))
        np.minimum.at(least, column, fisher_by_bin(before, now, column))
        p_value = np.minimum(1.0, least * np.bincount(column) * len(self._names))

        was, is_now = before / np.maximum(all_before, 1), now / np.maximum(all_now, 1)
        change = np.where((all_before > 0) & (all_now > 0), np.abs(is_now - was), 0.0)
        distance = np.bincount(column, change) / 2
        drifted = (p_value < risk) & (distance > DRIFT_DISTANCE)
        most = int(np.lexsort((distance, drifted))[-1])
        bin_ = int(np.argmax(np.where(column == most, change, -1.0)))
        moved = Moved(
            column=self._names[most],
            value=self._labels[bin_],
            before=float(was[bin_]),
            now=float(is_now[bin_]),
            distance=float(distance[most]),
            p_value=float(p_value[most]),
        )
        return moved, bool(drifted[most])


def _binned(column: Encoded, people: FloatArray) -> tuple[IntArray, list[str]]:
    """The bin of each row, and what bins are called: values, or tenths of the audited people.

    What is missing has a bin of its own, and a value that many have begins one.
    """
    codes, values = np.asarray(column.codes, np.int64), column.present
    starts = list(range(len(values)))
    if len(values) > _TENTHS:
        having = np.bincount(codes, people, len(column.values))[: len(values)]
        below = np.cumsum(having) - having
        tenth = _TENTHS * below // max(1.0, having.sum())
        starts = np.unique(tenth, return_index=True)[1].tolist()
    bin_of = np.searchsorted(starts, np.arange(len(column.values)), side="right") - 1
    stops = [*starts[1:], len(values)]
    labels = [_range(values, *ends) for ends in zip(starts, stops, strict=True)]
    if column.has_missing:
        bin_of[-1] = len(labels)
        labels.append("missing")
    return bin_of[codes], labels


def _range(values: NDArray[Any], start: int, stop: int) -> str:
    """Some of a column's values in words; its least and its greatest may be one person's alone."""
    first, last = (
        f"{value:.6g}" if isinstance(value, float) else str(value)
        for value in (scalar(values[start]), scalar(values[stop - 1]))
    )
    if stop - start == 1:
        return first
    if start == 0:
        return f"up to {last}"
    return f"from {first}" if stop == len(values) else f"{first} to {last}"
