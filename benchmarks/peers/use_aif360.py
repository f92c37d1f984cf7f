"""AIF360: equalized odds over labels, reject option over probabilities, in their default settings.

Both know a privileged and an unprivileged group: the target is the unprivileged one, and 1 the
favourable label. Equalised odds closes FNR and FPR together; the reject option closes SP or FNR to
within .05 and maximises balanced accuracy, not accuracy.
"""

from __future__ import annotations

from typing import Any

import contest
import numpy as np
import pandas as pd  # AIF360's data sets are made from its frames
from aif360.algorithms.postprocessing import EqOddsPostprocessing, RejectOptionClassification
from aif360.datasets import BinaryLabelDataset

GROUPS: dict[str, Any] = {"unprivileged_groups": [{"s": 1}], "privileged_groups": [{"s": 0}]}
METRICS = {"sp": "Statistical parity difference", "fnr": "Equal opportunity difference"}


def dataset(
    people: contest.People, labels: np.ndarray, scores: np.ndarray | None = None
) -> BinaryLabelDataset:
    """Labels, groups and scores in AIF360's form; the inputs play no part in these methods."""
    made = BinaryLabelDataset(
        df=pd.DataFrame({"s": people.s.astype(float), "label": labels.astype(float)}),
        label_names=["label"],
        protected_attribute_names=["s"],
    )
    if scores is not None:
        made.scores = scores.reshape(-1, 1)
    return made


def predicted(people: contest.People, model: contest.Model) -> BinaryLabelDataset:
    """What the model says about people."""
    return dataset(people, model.labels(people.X), model.probability(people.X))


def learn_eq_odds(task: contest.Task) -> Decide:
    """Mix labels at random so that both error rates agree."""
    mended = EqOddsPostprocessing(**GROUPS, seed=task.seed)
    mended.fit(dataset(task.people, task.y), predicted(task.people, task.model))
    return Decide(mended, task.model)


def learn_reject_option(task: contest.Task) -> Decide:
    """Favour the target near the cut, and the other group not."""
    if task.aim not in METRICS:
        raise contest.NotOffered(f"a reject option for {task.aim}")
    mended = RejectOptionClassification(**GROUPS, metric_name=METRICS[task.aim])
    mended.fit(dataset(task.people, task.y), predicted(task.people, task.model))
    return Decide(mended, task.model)


class Decide:
    """A fitted transformer, put to people; it tells its decisions and no law or score."""

    def __init__(self, mended: Any, model: contest.Model) -> None:
        self.mended, self.model = mended, model

    def __call__(self, people: contest.People) -> contest.Decided:
        decided = self.mended.predict(predicted(people, self.model))
        return contest.Decided(np.asarray(decided.labels).ravel())


if __name__ == "__main__":
    contest.serve({"eq_odds": learn_eq_odds, "reject_option": learn_reject_option})
