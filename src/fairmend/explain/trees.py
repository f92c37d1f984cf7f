"""Boosted trees as plain numbers: fitted by scikit-learn, stored and evaluated without it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from fairmend.data.columns import FloatArray, IntArray
from fairmend.data.limits import LARGE, Between, Coefficients, Finite, Places, alike, inside
from fairmend.data.stored import stored
from fairmend.measure import special

_MOST_STEPS = 64
"""No path from a root to a leaf is longer than this."""
_CELLS = 1 << 22
"""Rows times trees that are followed at once."""


@stored("BoostedTrees")
@dataclass(frozen=True, eq=False)
class BoostedTrees:
    """P(event) = 1 / (1 + exp(-(intercept + the sum of the leaves that a row ends in))).

    The nodes of all trees stand in one list. A leaf is its own child, so that every row may take
    as many steps as the longest path has.
    """

    intercept: Finite
    roots: Places
    feature: Places
    """What each node looks at."""
    threshold: Annotated[FloatArray, Between(-LARGE, LARGE)]
    left: Places
    """Where to go at most the threshold."""
    right: Places
    value: Coefficients
    """What a leaf adds to the log odds."""
    steps: Annotated[int, Between(0, _MOST_STEPS)]

    def agrees(self) -> bool:
        nodes = len(self.value)
        one_a_node = alike(self.feature, self.threshold, self.left, self.right, self.value)
        return one_a_node and all(
            inside(places, nodes) for places in (self.roots, self.left, self.right)
        )

    def fits(self, width: int) -> bool:
        """Whether all that it looks at are columns of a matrix so wide."""
        return inside(self.feature, width)

    def predict_proba(self, matrix: FloatArray) -> FloatArray:
        """P(no event) and P(event) of each row."""
        some = max(1, _CELLS // max(1, len(self.roots)))
        parts = [self._log_odds(matrix[at : at + some]) for at in range(0, len(matrix), some)]
        positive = special.expit(np.concatenate(parts) if parts else np.empty(0))
        return np.stack([1 - positive, positive], axis=1)

    def _log_odds(self, matrix: FloatArray) -> FloatArray:
        rows = np.arange(len(matrix))[:, None]
        node = np.repeat(self.roots[None, :], len(matrix), axis=0)
        for _ in range(self.steps):
            low = matrix[rows, self.feature[node]] <= self.threshold[node]
            node = np.where(low, self.left[node], self.right[node])
        return np.asarray(self.intercept + self.value[node].sum(axis=1), np.float64)

    @classmethod
    def read(cls, model: Any) -> BoostedTrees:
        """The trees of a HistGradientBoostingClassifier of two classes.

        scikit-learn has no public way to them; a test holds their answers against its own.
        """
        trees = [tree.nodes for [tree] in model._predictors]
        starts = np.cumsum([0, *(len(tree) for tree in trees)])
        roots, nodes = starts[:-1], np.concatenate(trees)
        leaf, own = nodes["is_leaf"].astype(bool), np.arange(len(nodes))
        first = np.repeat(roots, np.diff(starts))

        def child(side: str) -> IntArray:
            return np.where(leaf, own, first + nodes[side].astype(np.int64))

        return cls(
            intercept=float(np.ravel(model._baseline_prediction)[0]),
            roots=roots,
            feature=np.where(leaf, 0, nodes["feature_idx"].astype(np.int64)),
            threshold=np.where(leaf, 0.0, np.clip(nodes["num_threshold"], -LARGE, LARGE)),
            left=child("left"),
            right=child("right"),
            value=np.where(leaf, nodes["value"], 0.0),
            steps=int(nodes["depth"].max(initial=0)),
        )
