"""fairmend: least change with scores or labels alone, order, two-sided, and blind repairs."""

from __future__ import annotations

from typing import Any

import contest
import numpy as np

import fairmend
from fairmend import BlackBox, RepairedClassifier

LEVELS = (60, 80, 90)
"""Per cent of the gap that a blind repair closes, beside all of it."""


def repaired(of: str, **settings: Any) -> contest.Learner:
    """One variant: over the model's labels or its probabilities."""

    def learn(task: contest.Task) -> Decide:
        box = (
            BlackBox(task.model.probability, output="probability", threshold=0.5)
            if of == "scores"
            else BlackBox(task.model.labels, output="label")
        )
        target = None if "two_sided" in settings else 1
        mended = RepairedClassifier(
            box, task.aim, target=target, random_state=task.seed, **settings
        )
        return Decide(mended.fit(task.people.X, task.y, sensitive_features=task.people.s))

    return learn


def blind(of: str, level: float = 1.0) -> contest.Learner:
    """One rule for everybody, closing as much of the gap as asked."""

    def learn(task: contest.Task) -> Blind:
        learnt = repaired(of, blind=True, level=level)(task)
        return Blind(learnt.mended)

    return learn


class Blind:
    """A blind repair, put to people without their groups."""

    def __init__(self, mended: RepairedClassifier) -> None:
        self.mended = mended

    def __call__(self, people: contest.People) -> contest.Decided:
        decision = np.asarray(self.mended.predict(people.X))
        return contest.Decided(decision, lambda: {"chance": decision.astype(np.float64)})


class Decide:
    """A repair, put to people; draws are keyed on the people's numbers."""

    def __init__(self, mended: RepairedClassifier) -> None:
        self.mended = mended

    def __call__(self, people: contest.People) -> contest.Decided:
        decision = self.mended.predict(people.X, sensitive_features=people.s, ids=people.ids)
        return contest.Decided(np.asarray(decision), lambda: self.told(people))

    def told(self, people: contest.People) -> dict[str, np.ndarray]:
        """The law, and the rows that the model was fed in place of people's own."""
        group = {"sensitive_features": people.s}
        return {
            "chance": self.mended.positive_chance(people.X, **group),
            "rows": np.asarray(self.mended.transform(people.X, **group, ids=people.ids)),
        }


def audit(s: np.ndarray, y: np.ndarray, decision: np.ndarray) -> dict[str, float]:
    """Four rates a group, always with intervals and tests."""

    def call() -> None:
        fairmend.audit(decision, None, y, sensitive_features=s)

    return contest.best_of(3, [("with intervals", call)])


if __name__ == "__main__":
    contest.serve(
        {
            "labels": repaired("labels"),
            "scores": repaired("scores"),
            "order": repaired("scores", method="order"),
            "two_sided": repaired("scores", two_sided=True),
            "blind": blind("scores"),
            "blind_labels": blind("labels"),
            **{f"blind_{level}": blind("scores", level / 100) for level in LEVELS},
        },
        audit,
    )
