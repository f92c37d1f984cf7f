"""Rows that say most about a counterfactual: those that gain, lose and represent mass."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fairmend.data.columns import IntArray, scalar
from fairmend.data.features import FeatureMap
from fairmend.errors import check_whole
from fairmend.explain.marginals import inputs_of

if TYPE_CHECKING:
    from fairmend.explain.counterfactual import Counterfactual

MOST_COMPARED = 500
"""Representatives are chosen among this many rows, those that gain most."""
MOST_EXCHANGES = 10


def row_influence(result: Counterfactual) -> list[dict[str, Any]]:
    """Every distinct row with its masses and its influence on the disparity, most harmful first."""
    order = np.argsort(-result.influence, kind="stable")
    return _describe(result, order, lambda i: {"influence": float(result.influence[i])})


def prototypes(result: Counterfactual, n: int = 5) -> list[dict[str, Any]]:
    """The n rows that gain most mass, the n that lose most, and n that stand for what gains.

    The last are chosen so that the gained mass lies near one of them.
    """
    check_whole("n", n, 1, "5 is usual.", of="rows")
    change = result.mass - result.source.mass
    gains = [i for i in np.argsort(-change, kind="stable")[:n] if change[i] > 0]
    loses = [i for i in np.argsort(change, kind="stable")[:n] if change[i] < 0]
    chosen = [
        ("gains", gains),
        ("loses", loses),
        ("represents", _representatives(result, n)),
    ]
    return [
        row
        for role, rows in chosen
        for row in _describe(result, rows, lambda i, role=role: {"role": role})
    ]


def _describe(
    result: Counterfactual, rows: Sequence[int] | IntArray, more: Any
) -> list[dict[str, Any]]:
    """Masses of rows, then their features, renamed where a name is taken."""
    table = inputs_of(result)
    lines = []
    for i in rows:
        line: dict[str, Any] = {
            **more(i),
            "observed": float(result.source.mass[i]),
            "counterfactual": float(result.mass[i]),
            "change": float(result.mass[i] - result.source.mass[i]),
        }
        for name, column in zip(table.names, table.encoded, strict=True):
            line[_untaken(str(name), line)] = scalar(column.values[column.codes[i]])
        lines.append(line)
    return lines


def _untaken(name: str, taken: Container[str]) -> str:
    """A name as it is, or marked as a feature's.

    >>> _untaken("age", {"change"}), _untaken("change", {"change"})
    ('age', 'change (feature)')
    """
    while name in taken:
        name = f"{name} (feature)"
    return name


def _representatives(result: Counterfactual, n: int) -> list[int]:
    """Medoids of the gained mass under an L1 distance on scaled features.

    One after the other is added where it helps most, then exchanged while that helps.
    """
    from scipy.spatial.distance import cdist

    gain = np.maximum(result.mass - result.source.mass, 0.0)
    rows = np.argsort(-gain, kind="stable")[:MOST_COMPARED]
    rows = rows[gain[rows] > 0]
    if len(rows) == 0:
        return []
    table = inputs_of(result).take(rows)
    matrix = FeatureMap.learn(table, gain[rows]).apply(table)
    distance = cdist(matrix, matrix, "cityblock")
    nobody = np.full(len(rows), distance.max() + 1.0)

    def best_beside(others: list[int]) -> int:
        """The row that, with the others, leaves the gained mass nearest to one of them."""
        nearest = np.min([nobody, *distance[others]], axis=0)
        total = gain[rows] @ np.minimum(nearest[:, None], distance)
        total[others] = np.inf
        return int(np.argmin(total))

    chosen: list[int] = []
    for _ in range(min(n, len(rows))):
        chosen.append(best_beside(chosen))
    for _ in range(MOST_EXCHANGES):
        before = list(chosen)
        for place in range(len(chosen)):
            chosen[place] = best_beside(chosen[:place] + chosen[place + 1 :])
        if chosen == before:
            break
    return [int(rows[i]) for i in chosen]
