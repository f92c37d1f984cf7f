"""The model's answers as decisions and scores, and rows found again by their answers.

Recorded predictions can differ for equal inputs. A law for such rows belongs to inputs and answer
together: a person with the same inputs follows the row with the nearest answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fairmend.data.columns import BoolArray, FloatArray, Frame, IntArray
from fairmend.data.limits import Chances, Scores, alike
from fairmend.data.rows import find_rows
from fairmend.data.stored import stored

SAME_ANSWER = 1e-6
"""The composition of a batch may change the last bits of a float; another model changes more."""


@stored("Answers")
@dataclass(frozen=True, eq=False)
class Answers:
    """The model's answers, one entry each."""

    decision: Chances
    """h(x): 0 or 1, or the probability of deciding 1 where decisions are soft."""
    score: Scores | None
    """What it ranks by; None for a model that gives labels only."""

    def agrees(self) -> bool:
        return alike(self.decision, self.score)

    def take(self, entries: NDArray[Any]) -> Answers:
        """The same for other entries, given by their places among these."""
        return Answers(self.decision[entries], None if self.score is None else self.score[entries])


def differ(one: FloatArray, other: FloatArray | float) -> BoolArray:
    """Where answers differ by more than the composition of a batch explains."""
    return ~np.isclose(one, other, rtol=SAME_ANSWER, atol=SAME_ANSWER)


def is_same(one: Answers, other: Answers) -> BoolArray:
    """Where both are the same answer: decision, and score if there is one."""
    changed = differ(one.decision, other.decision)
    if one.score is not None and other.score is not None:
        changed |= differ(one.score, other.score)
    return ~changed


def find_seen(table: Frame, audited: Answers, rows: Frame, answers: Answers) -> IntArray:
    """Each row's place in the table, -1 for none; of equal rows there the with the nearest answer.

    >>> table = Frame.read(np.array([[1], [1], [2]]))
    >>> audited = Answers(np.array([0.0, 1.0, 1.0]), None)
    >>> rows = Frame.read(np.array([[1], [1], [3]]))
    >>> find_seen(table, audited, rows, Answers(np.array([1.0, 0.0, 1.0]), None)).tolist()
    [1, 0, -1]
    """
    alike = table.distinct()
    if len(alike.first) == len(table):
        return find_rows(table, rows)
    group = find_rows(table.take(alike.first), rows)
    mine, theirs = signal(answers, audited), signal(audited, audited)
    best, gap = np.full(len(rows), -1), np.full(len(rows), np.inf)
    order = np.argsort(alike.inverse, kind="stable")
    ends = np.searchsorted(alike.inverse[order], np.arange(len(alike.first) + 1))
    for rank in range(int(np.diff(ends).max())):
        has = np.flatnonzero(group >= 0)
        has = has[ends[group[has]] + rank < ends[group[has] + 1]]
        candidate = order[ends[group[has]] + rank]
        distance = np.abs(mine[has] - theirs[candidate])
        closer = distance < gap[has]
        best[has[closer]], gap[has[closer]] = candidate[closer], distance[closer]
    return best


def signal(answers: Answers, among: Answers) -> FloatArray:
    """A number to compare answers by: the decision, and the score within it."""
    if among.score is None or answers.score is None:
        return answers.decision
    low, high = float(among.score.min()), float(among.score.max())
    return answers.decision + 1e-3 * (answers.score - low) / ((high - low) or 1.0)
