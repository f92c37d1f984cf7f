"""Single people whom a repair edits: what is edited, and the facts that say why.

Nothing is suppressed here, so a report has them only where its maker gives the ids.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairmend.apply.batch import Applied
from fairmend.data.columns import Frame, is_missing, scalar
from fairmend.data.rows import differing

__all__ = ["Change", "EditedPerson", "edited_people"]

MOST_PEOPLE = 500
"""People of a report, in the order of the rows; the others are counted."""
HALF = 0.5
"""Of a model whose decisions are chances: above it the likelier one is positive."""
NAN = float("nan")


@dataclass(frozen=True)
class Change:
    """One input of one person: as it is, and as the model sees it with the repair."""

    feature: str
    old: str
    new: str


@dataclass(frozen=True)
class EditedPerson:
    """One person whose inputs are edited; edits are no facts about the person."""

    id: str
    group: Hashable
    """None of a blind repair, which reads no group."""
    decision_before: str
    decision_after: str
    score_before: float
    """Of the model; nan where it gives none."""
    score_after: float
    cut: float
    """The score above which a decision is positive."""
    chance: float
    """The chance of this person to be edited."""
    changes: tuple[Change, ...]


def edited_people(applied: Applied, most: int = MOST_PEOPLE) -> tuple[list[EditedPerson], int]:
    """Whom a repair edits in a batch, by their own draws; and how many it leaves out."""
    repair = applied.repair
    found: dict[int, EditedPerson] = {}
    for law, picked in zip(applied.laws, applied.picked, strict=True):
        moved = np.flatnonzero(picked >= 0)
        if len(moved) == 0:
            continue
        place = int(applied.people.groups.place[law.members[0]])
        who, row, there = law.members[moved], law.place[moved], picked[moved]
        assert law.route.table is not None
        changes = _changes(applied.people.inputs.take(who), law.route.table.take(there))
        before, after = applied.answers.score, law.route.score
        for k, person in enumerate(who.tolist()):
            own = law.used[row[k]]
            decided = applied.answers.decision[own], applied.decision[person]
            old, new = (str(repair.classes[int(decision > HALF)]) for decision in decided)
            found[person] = EditedPerson(
                exact_text(applied.people.ids[person]),
                repair.data.groups[place] if repair.plan_of[place].reads_group else None,
                old,
                new,
                NAN if before is None else float(before[own]),
                NAN if after is None else float(after[there[k]]),
                float(repair.box.cut),
                float(law.route.moving[row[k]]),
                changes[k],
            )
    return [found[person] for person in sorted(found)[:most]], max(0, len(found) - most)


def exact_text(value: Any) -> str:
    """A value as it is, unlike the rounded ones of a report.

    >>> exact_text(55609.54), exact_text(7.0), exact_text("7"), exact_text(None)
    ('55609.54', '7', '7', 'missing')
    """
    plain = scalar(value)
    if is_missing(plain):
        return "missing"
    return f"{plain:.12g}" if isinstance(plain, float) else str(plain)


def _changes(here: Frame, there: Frame) -> list[tuple[Change, ...]]:
    """The inputs in which each row differs."""
    columns = list(zip(here.names, here.encoded, there.encoded, strict=True))
    texts = [
        [[exact_text(side.values[code]) for code in side.codes] for side in (old, new)]
        for _, old, new in columns
    ]
    return [
        tuple(
            Change(str(columns[j][0]), texts[j][0][i], texts[j][1][i]) for j in np.flatnonzero(row)
        )
        for i, row in enumerate(differing(here, there))
    ]
