"""EquiPy: scores moved to the groups' barycentre, then cut at one half; it knows parity alone."""

from __future__ import annotations

import contest
import numpy as np
from equipy.fairness import FairWasserstein


def wasserstein(of: str) -> contest.Learner:
    """One variant: over the model's labels, taken as scores of 0 and 1, or its probabilities."""

    def learn(task: contest.Task) -> Decide:
        if task.aim != "sp":
            raise contest.NotOffered(f"{task.aim}; EquiPy aims at demographic parity alone")
        mended = FairWasserstein(seed=task.seed)
        scores = Scores(task.model, of)
        mended.fit(scores(task.people.X), task.people.s)
        return Decide(mended, scores)

    return learn


class Scores:
    """What EquiPy is shown of the model."""

    def __init__(self, model: contest.Model, of: str) -> None:
        self.model, self.of = model, of

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return self.model.probability(X) if self.of == "scores" else self.model.labels(X) + 0.0


class Decide:
    """A fitted barycentre, put to people."""

    def __init__(self, mended: FairWasserstein, scores: Scores) -> None:
        self.mended, self.scores = mended, scores

    def __call__(self, people: contest.People) -> contest.Decided:
        fair = np.asarray(self.mended.transform(self.scores(people.X), people.s))
        return contest.Decided((fair > 0.5).astype(np.int64), lambda: {"score": fair})


if __name__ == "__main__":
    contest.serve({"labels": wasserstein("labels"), "scores": wasserstein("scores")})
