"""fairlearn: ThresholdOptimizer over labels or probabilities, and retraining by reductions.

Both with their default settings.
"""

from __future__ import annotations

from typing import Any

import contest
import numpy as np
from fairlearn.metrics import (
    MetricFrame,
    false_negative_rate,
    false_positive_rate,
    selection_rate,
)
from fairlearn.postprocessing import ThresholdOptimizer
from fairlearn.reductions import (
    DemographicParity,
    ExponentiatedGradient,
    FalsePositiveRateParity,
    TruePositiveRateParity,
)
from sklearn.base import BaseEstimator, ClassifierMixin  # an estimator is what fairlearn takes
from sklearn.linear_model import LogisticRegression

CONSTRAINTS = {
    "sp": "demographic_parity",
    "fnr": "false_negative_rate_parity",
    "fpr": "false_positive_rate_parity",
}
MOMENTS = {
    "sp": DemographicParity,
    "fnr": TruePositiveRateParity,  # the difference is that in FNR
    "fpr": FalsePositiveRateParity,
}
BOOTSTRAP, REPLICATES = 100, 2


class Fitted(ClassifierMixin, BaseEstimator):
    """The model in the form that a prefit estimator must have."""

    def __init__(self, model: contest.Model | None = None) -> None:
        self.model = model
        self.classes_ = np.array([0, 1])

    def fit(self, X: Any, y: Any) -> Fitted:
        """Nothing to learn."""
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The model's decisions."""
        return self.model.labels(X)

    def predict_proba(self, X: Any) -> np.ndarray:
        """The model's probabilities."""
        return self.model.both(X)


def threshold_optimizer(method: str) -> contest.Learner:
    """One variant; ``method`` is what fairlearn may call of the model."""

    def learn(task: contest.Task) -> Any:
        mended = ThresholdOptimizer(
            estimator=Fitted(task.model),
            constraints=CONSTRAINTS[task.aim],
            objective="accuracy_score",
            prefit=True,
            predict_method=method,
        )
        mended.fit(task.people.X, task.y, sensitive_features=task.people.s)
        return Decide(mended, task.seed)

    return learn


class Decide:
    """A fitted optimiser, put to people; its law is asked for only after the decisions."""

    def __init__(self, mended: ThresholdOptimizer, seed: int) -> None:
        self.mended, self.seed = mended, seed

    def __call__(self, people: contest.People) -> contest.Decided:
        decision = self.mended.predict(
            people.X, sensitive_features=people.s, random_state=self.seed
        )
        return contest.Decided(np.asarray(decision), later=lambda: self.law(people))

    def law(self, people: contest.People) -> dict[str, np.ndarray]:
        """The probability of a positive decision: the final score as well."""
        chance = np.asarray(self.mended._pmf_predict(people.X, sensitive_features=people.s))[:, 1]
        return {"score": chance, "chance": chance}


def reductions(task: contest.Task) -> Retrained:
    """The model trained anew on its own training data, with parity as a constraint."""
    training = task.training
    assert training is not None
    mended = ExponentiatedGradient(
        LogisticRegression(C=100, max_iter=2_000), MOMENTS[task.aim](difference_bound=0.01)
    )
    mended.fit(training.X, training.y, sensitive_features=training.s)
    return Retrained(mended, task.seed)


class Retrained:
    """A mix of models, put to people without their groups."""

    def __init__(self, mended: ExponentiatedGradient, seed: int) -> None:
        self.mended, self.seed = mended, seed

    def __call__(self, people: contest.People) -> contest.Decided:
        decision = np.asarray(self.mended.predict(people.X, random_state=self.seed))

        def told() -> dict[str, np.ndarray]:
            chance = np.asarray(self.mended._pmf_predict(people.X))[:, 1]
            return {"score": chance, "chance": chance}

        return contest.Decided(decision.astype(np.int64), told)


def audit(s: np.ndarray, y: np.ndarray, decision: np.ndarray) -> dict[str, float]:
    """Three rates a group; with intervals by the bootstrap, timed on few replicates and scaled."""
    metrics = {"sp": selection_rate, "fnr": false_negative_rate, "fpr": false_positive_rate}

    def frame(**bootstrap: Any) -> MetricFrame:
        return MetricFrame(
            metrics=metrics, y_true=y, y_pred=decision, sensitive_features=s, **bootstrap
        )

    plain = contest.seconds(frame)[0]
    more = contest.seconds(
        lambda: frame(n_boot=REPLICATES, ci_quantiles=[0.025, 0.975], random_state=0)
    )[0]
    each = max(0.0, more - plain) / REPLICATES
    return {"plain": plain, "with intervals": plain + BOOTSTRAP * each}


if __name__ == "__main__":
    contest.serve(
        {
            "labels": threshold_optimizer("predict"),
            "scores": threshold_optimizer("predict_proba"),
            "reductions": reductions,
        },
        audit,
    )
