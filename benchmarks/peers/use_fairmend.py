"""fairmend: least change with probabilities or labels alone, and the order-preserving repair."""

from __future__ import annotations

from typing import Any

import contest
import numpy as np

import fairmend
from fairmend import BlackBox, RepairedClassifier


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
        },
        audit,
    )
