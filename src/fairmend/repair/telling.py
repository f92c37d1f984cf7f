"""Inputs that say which group somebody is of: the group itself, or a column that decides it."""

from __future__ import annotations

import numpy as np

from fairmend.data.columns import Encoded, FloatArray
from fairmend.measure.population import AuditData

__all__ = ["telling_inputs"]

TELLING = 0.01
"""An input tells the group if it leaves less than this share of the doubt about it."""


def telling_inputs(data: AuditData) -> tuple[str, ...]:
    """Inputs by which almost everybody's group is known.

    Each person's group is guessed as that of most other people with the same value, so that a value
    of one person tells nothing. The doubt is how often the largest group is the wrong guess.

    >>> from fairmend.datasets import example_one
    >>> telling_inputs(example_one().tabulated())
    ()
    """
    assert data.table is not None
    people = np.stack([_people_by_row(data, k) for k in range(len(data.groups))])
    each = people.sum(axis=1)
    doubt = 1 - each.max() / each.sum()
    return tuple(
        name
        for name, column in zip(data.table.names, data.table.encoded, strict=True)
        if _wrong(column, people) < TELLING * doubt
    )


def _people_by_row(data: AuditData, group: int) -> FloatArray:
    assert data.table is not None
    population = data.populations[group]
    people = np.zeros(len(data.table))
    tally = population.tally
    people[population.rows] = 1e6 * population.mass if tally is None else tally.people.sum(axis=1)
    return people


def _wrong(column: Encoded, people: FloatArray) -> float:
    """The share of people whose group is not that of most others with their value."""
    size = len(column.values)
    by_value = np.stack([np.bincount(column.codes, part, size) for part in people])
    wrong = 0.0
    for group in range(len(people)):
        others = np.delete(by_value, group, axis=0).max(axis=0)
        wrong += by_value[group][by_value[group] - 1 <= others].sum()
    return float(wrong / people.sum())
