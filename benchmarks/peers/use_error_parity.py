"""error-parity: RelaxedThresholdOptimizer at tolerance 0, over labels or probabilities."""

from __future__ import annotations

import contest
import numpy as np
from error_parity import RelaxedThresholdOptimizer

CONSTRAINTS = {
    "sp": "demographic_parity",
    "fnr": "false_negative_rate_parity",
    "fpr": "false_positive_rate_parity",
}


def threshold_optimizer(of: str) -> contest.Learner:
    """One variant: over the model's labels or its probabilities."""

    def learn(task: contest.Task) -> Decide:
        model = task.model
        mended = RelaxedThresholdOptimizer(
            predictor=model.probability if of == "scores" else Labels(model),
            constraint=CONSTRAINTS[task.aim],
            tolerance=0.0,
            seed=task.seed,
        )
        mended.fit(X=task.people.X, y=task.y, group=task.people.s)
        return Decide(mended)

    return learn


class Labels:
    """The decisions as scores of 0 and 1."""

    def __init__(self, model: contest.Model) -> None:
        self.model = model

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return self.model.labels(X).astype(np.float64)


class Decide:
    """A fitted optimiser, put to people; it tells its decisions and no law or score."""

    def __init__(self, mended: RelaxedThresholdOptimizer) -> None:
        self.mended = mended

    def __call__(self, people: contest.People) -> contest.Decided:
        return contest.Decided(np.asarray(self.mended(people.X, group=people.s)))


if __name__ == "__main__":
    contest.serve(
        {"labels": threshold_optimizer("labels"), "scores": threshold_optimizer("scores")}
    )
