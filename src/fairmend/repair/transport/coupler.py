"""Couples the target group with masses on its own rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import numpy as np

from fairmend.data.columns import FloatArray, IntArray
from fairmend.errors import DataError, FairmendError, check
from fairmend.repair.problem import RepairProblem
from fairmend.repair.transport.entropic import ship_entropically
from fairmend.repair.transport.fair import solve_individually_fair
from fairmend.repair.transport.prices import (
    MatrixPrices,
    PointPrices,
    Prices,
    ScorePrices,
    edit_prices,
)
from fairmend.repair.transport.problem import Coupling, CouplingStatus, TransportProblem
from fairmend.repair.transport.reduction import Component, Shipment, components, couple
from fairmend.repair.transport.simplex import ArcMemory, ship_exactly

Ties = Literal["stay", "order"]

# What decides ties may add this share of the dearest move to the cost.
_TIE_BREAK = 1e-5
_MATRIX_ROWS = 2_000
"""Up to so many rows all prices are kept."""
_RULED_ROWS = 10_000
"""The same where rules or a caller's function make prices slow to ask for again, and the most that
a fair coupling can have."""
EXACT_PAIRS = 400_000_000
"""Pairs of sources and sinks, some 20,000 by 20,000, up to which minutes suffice to be exact."""


def solve(problem: TransportProblem, memory: ArcMemory | None = None) -> Coupling:
    """The coupling by whatever suits its size; `Coupling.solver` and `guarantee` say what and how.

    Up to 400 million pairs of sources and sinks, and wherever moves are forbidden: `solve_exact`.
    Above, `solve_entropic`, whose cost is within a stated gap of the least.

    >>> best = solve(TransportProblem([2, 1, 0], [1, 1, 1], 1 - np.eye(3), metric=True))
    >>> best.solver
    'network simplex (POT) on all arcs; excess to deficit'
    >>> best.guarantee
    'No coupling of these masses is cheaper. The certificate leaves a gap of 0e+00.'
    """
    return couple(problem, partial(_ship, memory=memory or ArcMemory()))


def _ship(part: Component, memory: ArcMemory) -> Shipment:
    if part.pairs > EXACT_PAIRS and not part.prices.forbids:
        return ship_entropically(part)
    return ship_exactly(part, memory)


@dataclass(frozen=True, eq=False)
class Coupler:
    """Couples the target group with masses on its own rows."""

    mass: FloatArray
    prices: Prices
    """What edits cost."""
    aim: Prices
    """What is made least: the cost, and what decides between couplings that cost the same."""
    metric: bool
    distance: FloatArray | None
    classes: IntArray
    """Rows that allowed moves connect have one number."""
    memory: ArcMemory = field(default_factory=ArcMemory)

    @classmethod
    def of(
        cls,
        problem: RepairProblem,
        fairness: Callable[[Any, Any], Any] | None,
        ties: Ties | Literal["any"],
    ) -> Coupler:
        table = problem.table
        prices = edit_prices(problem.cost, table)
        equals = len(table.distinct().first) < len(table)
        if len(table) <= (_MATRIX_ROWS if isinstance(prices, PointPrices) else _RULED_ROWS):
            prices = MatrixPrices(prices.matrix())
        distance = None
        if fairness is not None:
            check(
                len(table) <= _RULED_ROWS,
                "X",
                f"must have at most {_RULED_ROWS:,} distinct rows in the target group to be fair "
                "between them",
                f"got {len(table):,}",
                "Round or bin its numbers, or leave individual_fairness out.",
            )
            distance = np.asarray(fairness(table.native, table.native), np.float64)
        classes = np.zeros(len(table), np.int64)
        if prices.forbids:
            classes = components(prices)[: len(table)]
        metric = ties == "stay" and _is_metric(problem) and not equals
        aim = _with_scores(problem, prices) if ties == "order" else prices
        return cls(problem.source.mass, prices, aim, metric, distance, classes)

    def couple(self, mass: FloatArray) -> Coupling:
        problem = TransportProblem(self.mass, mass, self.aim, metric=self.metric)
        if self.distance is None:
            coupling = solve(problem, self.memory)
        else:
            coupling = solve_individually_fair(problem, self.distance)
        if coupling.status is CouplingStatus.FAILED:
            raise FairmendError(
                "optimal transport",
                "must be solved to the end",
                f"{coupling.solver} stopped early",
                "Use fewer distinct rows, or method='least_change'.",
            )
        return coupling


def _with_scores(problem: RepairProblem, prices: Prices) -> Prices:
    """Squared changes of score on top, on a scale too small to outweigh a difference of costs."""
    score = problem.source.score
    if score is None:
        raise DataError(
            "ties",
            "must be 'stay' for a model of labels only",
            "got 'order'",
            "It gives no scores to keep in order.",
        )
    largest = float(np.ptp(score)) ** 2
    return ScorePrices(prices, score, score, _TIE_BREAK * prices.dearest() / (largest or 1.0))


def _is_metric(problem: RepairProblem) -> bool:
    """Whether no detour is cheaper, and allowed: C_ij <= C_ik + C_kj.

    Immutable and one-way features keep that (a forbidden move has no allowed detour); a limit on
    edits does not, nor does a callable vouch for it. Squared L2 is a weighted L1 where every
    coordinate has two values.
    """
    cost = problem.cost.cost
    if cost.max_edits is not None or cost.forbidden is not None:
        return False
    if cost.kind == "squared_l2":
        places = problem.cost.place(problem.table)
        return all(len(np.unique(coordinate)) <= 2 for coordinate in places.T)
    return cost.kind in ("l1", "l2")
