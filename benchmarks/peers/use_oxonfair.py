"""OxonFair: a threshold a group, the most accurate within a hundredth of parity.

With inferred groups a logistic regression of the group on the inputs of the audit part stands in
for the group when it decides.
"""

from __future__ import annotations

import contest
import numpy as np
from oxonfair import FairPredictor
from oxonfair import group_metrics as gm
from sklearn.linear_model import LogisticRegression

CONSTRAINTS = {
    "sp": gm.demographic_parity,
    "fnr": gm.equal_opportunity,  # the difference in recall is that in FNR
    "fpr": gm.false_pos_rate.diff,
}
WITHIN = 0.01
"""How near to parity; its guide uses .01 and .02, and searches a grid that rarely meets 0."""

UNCERTAIN = 2 / 3
"""Its default: nobody is inferred to be of a group with less. It fails where that leaves a group
empty, as on COMPAS, and is then told to do without (its threshold of 0)."""


def fair_predictor(of: str) -> contest.Learner:
    """One variant: over the model's labels or its two columns of probabilities."""

    def learn(task: contest.Task) -> Decide:
        predictor = task.model.both if of == "scores" else task.model.labels
        people = task.people
        mended = FairPredictor(predictor, {"data": people.X, "target": task.y, "groups": people.s})
        mended.fit(gm.accuracy, CONSTRAINTS[task.aim], WITHIN)
        return Decide(mended)

    return learn


def inferred(task: contest.Task) -> Blind:
    """Thresholds by the group that the inputs suggest."""
    people = task.people
    groups = LogisticRegression(max_iter=2_000).fit(people.X, people.s)
    guessed = groups.predict_proba(people.X).max(axis=1) >= UNCERTAIN
    unsure = len(np.unique(groups.predict(people.X)[guessed])) < len(groups.classes_)
    mended = FairPredictor(
        task.model.both,
        {"data": people.X, "target": task.y, "groups": people.s},
        inferred_groups=groups,
        threshold=0 if unsure else UNCERTAIN,
    )
    mended.fit(gm.accuracy, CONSTRAINTS[task.aim], WITHIN)
    return Blind(mended)


class Blind:
    """A fitted predictor, put to people without their groups."""

    def __init__(self, mended: FairPredictor) -> None:
        self.mended = mended

    def __call__(self, people: contest.People) -> contest.Decided:
        decision = np.asarray(self.mended.predict({"data": people.X}))
        return contest.Decided(decision, lambda: {"chance": decision.astype(np.float64)})


class Decide:
    """A fitted predictor, put to people."""

    def __init__(self, mended: FairPredictor) -> None:
        self.mended = mended

    def __call__(self, people: contest.People) -> contest.Decided:
        # it wants a target, and does not look at it
        data = {"data": people.X, "groups": people.s, "target": np.zeros(len(people.s))}
        decision = np.asarray(self.mended.predict(data))

        def told() -> dict[str, np.ndarray]:
            scores = np.asarray(self.mended.predict_proba(data))
            return {"score": scores[:, 1] - scores[:, 0], "chance": decision.astype(np.float64)}

        return contest.Decided(decision, told)


if __name__ == "__main__":
    contest.serve(
        {
            "labels": fair_predictor("labels"),
            "scores": fair_predictor("scores"),
            "inferred": inferred,
        }
    )
