"""What a wrong decision costs, and so what it costs to turn one.

Whoever accepts people above P(Y=1 | x) = k weighs a false positive as k and a false negative as
1 - k: at k a decision is worth the same either way. Accuracy is k = 1/2. A vendor whose cut is
elsewhere has another trade-off, and a repair that is priced by accuracy would move it to one half.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fairmend.data.columns import FloatArray, is_number
from fairmend.data.limits import Chance
from fairmend.data.stored import stored
from fairmend.errors import check

ERRORS = ("false_positive", "false_negative")
"""The keys of a cost matrix."""


@stored("TradeOff")
@dataclass(frozen=True)
class TradeOff:
    """The weight of the two errors, as the probability at which they cost the same.

    >>> TradeOff.of_costs({"false_positive": 1, "false_negative": 3}).cut
    0.25
    """

    cut: Chance
    """k: a false positive costs k, a false negative 1 - k."""
    is_given: bool = False
    """Whether somebody said so; otherwise it is what the model's decisions imply."""

    @classmethod
    def of_costs(cls, costs: Mapping[str, float], what: str = "rank") -> TradeOff:
        """From the costs of the two errors, of which only the ratio matters.

        ``what`` is the argument that holds them, for the error about them.
        """
        check(
            isinstance(costs, Mapping)
            and set(costs) == set(ERRORS)
            and all(is_number(cost) and 0 < cost < np.inf for cost in costs.values()),
            what,
            "must give the costs of both errors, greater than 0",
            f"got {costs!r:.80}",
            "For example {'false_positive': 1, 'false_negative': 5}.",
        )
        positive, negative = (float(costs[name]) for name in ERRORS)
        return cls(positive / (positive + negative), is_given=True)

    @classmethod
    def implied(cls, outcome: FloatArray, decision: FloatArray, weight: FloatArray) -> TradeOff:
        """The cut on P(Y=1 | x) that explains most of the decisions.

        >>> TradeOff.implied(np.array([0.1, 0.5, 0.75]), np.array([0, 0, 1]), np.ones(3)).cut
        0.625
        """
        order = np.argsort(outcome, kind="stable")
        at, agreed = outcome[order], np.cumsum((weight * (1 - 2 * decision))[order])
        agreed = np.r_[0.0, agreed]  # with the cut below everybody, after one, after two, ...
        between = np.r_[True, np.diff(at) > 0, True]
        k = int(np.argmax(np.where(between, agreed, -np.inf)))
        ends = np.r_[0.0, at, 1.0]
        return cls(float((ends[k] + ends[k + 1]) / 2))

    def of_turning(self, outcome: FloatArray, decision: FloatArray) -> FloatArray:
        """What turning each decision is expected to cost; negative where it is expected to gain.

        >>> TradeOff(0.5).of_turning(np.array([0.9, 0.9]), np.array([1.0, 0.0])).round(9).tolist()
        [0.4, -0.4]
        """
        return np.asarray((2 * decision - 1) * (outcome - self.cut), np.float64)

    def worth(self, weight: FloatArray, decision: FloatArray) -> float:
        """1 - 2 (k FP + (1-k) FN), over people by row and outcome; accuracy at k = 1/2.

        >>> round(TradeOff(0.8).worth(np.array([[1.0, 3.0]]), np.array([1.0])), 9)
        0.6
        """
        false_positive = weight[:, 0] @ decision
        false_negative = weight[:, 1] @ (1 - decision)
        loss = self.cut * false_positive + (1 - self.cut) * false_negative
        return float(1 - 2 * loss / weight.sum())

    def __str__(self) -> str:
        whose = "as given" if self.is_given else "as the model's own decisions imply"
        costs = f"a false positive costs {self.cut:.2f}, a false negative {1 - self.cut:.2f}"
        return f"{costs}, {whose}"
