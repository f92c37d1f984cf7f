"""Inputs that say which group somebody is of: the group itself, or a column that decides it.

A column need not tell all groups apart. One of several yes-or-no columns tells who is of one group,
and of groups by sex and age the sex tells half.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairmend.data.columns import BoolArray, Encoded, FloatArray, IntArray, as_numbers
from fairmend.data.naming import JOINER
from fairmend.errors import check, listed, warn
from fairmend.measure.population import AuditData

ROWS_A_VALUE, MANY = 10, 1_000
"""Of numbers with many values and fewer rows for each, so many neighbours are taken together."""
TELLING = 0.01
"""An input tells who is of a group if it leaves less than this share of the doubt about it."""


def telling_inputs(data: AuditData) -> tuple[str, ...]:
    """Inputs by which it is known of almost everybody whether they are of some group, or not.

    Each person is guessed to be as most other people with the same value, so that a value of one
    person tells nothing. The doubt is how often the more frequent guess is wrong. Where values are
    many and most stand in one row, which may stand for many people, near numbers go together.

    >>> from fairmend.datasets import example_one
    >>> telling_inputs(example_one().tabulated())
    ()
    """
    assert data.table is not None
    people = np.stack([_people_by_row(data, k) for k in range(len(data.groups))])
    questions = _questions(data)
    return tuple(
        name
        for name, column in zip(data.table.names, data.table.encoded, strict=True)
        if (values := _values(column)) is not None
        and _tells(np.stack([np.bincount(values, part) for part in people]), questions)
    )


def inputs_to_keep_out(data: AuditData) -> tuple[str, ...]:
    """The telling inputs, which a blind rule does not look at; a warning names them."""
    names = telling_inputs(data)
    if not names:
        return names
    assert data.table is not None
    check(
        len(names) < len(data.table.names),
        "X",
        "must hold an input that does not say which group somebody is of",
        f"got {listed(names)} alone",
        "A blind rule looks at the other inputs: pass them.",
    )
    warn(
        f"The model itself reads who is of which group, by {listed(names)}. The rule does not look "
        f"at {'it' if len(names) == 1 else 'these'}, but the decisions that it starts from do."
    )
    return names


def _values(column: Encoded) -> IntArray | None:
    """A number for each row's value, or for a few values next to each other; None: all differ."""
    if len(column.values) <= max(MANY, len(column.codes) // ROWS_A_VALUE):
        return np.asarray(column.codes, np.int64)
    numbers = as_numbers(column.values)
    if numbers is None:
        return None
    rank = np.empty(len(numbers), np.int64)
    rank[np.argsort(numbers, kind="stable")] = np.arange(len(numbers))
    rows = np.bincount(rank[column.codes], minlength=len(numbers))
    before = np.cumsum(rows) - rows  # rows with lower values
    return np.asarray((before // ROWS_A_VALUE)[rank[column.codes]])


def _questions(data: AuditData) -> list[BoolArray]:
    """Who is of a group; of several attributes, who has a value of one of them."""
    groups, attributes = data.groups, data.attribute.split(JOINER)
    asked = [[group == one for group in groups] for one in groups]
    labels = [str(group).split(JOINER) for group in groups]
    if len(attributes) > 1 and all(len(parts) == len(attributes) for parts in labels):
        for values in zip(*labels, strict=True):
            asked += [[value == one for value in values] for one in dict.fromkeys(values)]
    # who is of some groups and who is of the others is one question
    once = dict.fromkeys(tuple(one == members[0] for one in members) for members in asked)
    return [np.array(members) for members in once if not all(members)]


def _tells(people: FloatArray, questions: Sequence[BoolArray]) -> bool:
    """Whether an input tells the answer to some question, by people of each group and value."""
    for members in questions:
        both = np.stack([people[members].sum(axis=0), people[~members].sum(axis=0)])
        wrong = both[both - 1 <= both[::-1]].sum()  # not as most others with their value
        if wrong < TELLING * both.sum(axis=1).min():
            return True
    return False


def _people_by_row(data: AuditData, group: int) -> FloatArray:
    assert data.table is not None
    population = data.populations[group]
    people = np.zeros(len(data.table))
    tally = population.tally
    people[population.rows] = 1e6 * population.mass if tally is None else tally.people.sum(axis=1)
    return people
