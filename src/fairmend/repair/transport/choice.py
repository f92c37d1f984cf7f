"""Which solver, by size and by what moves are allowed."""

from __future__ import annotations

from functools import partial

from fairmend.repair.transport.entropic import ship_entropically
from fairmend.repair.transport.problem import Coupling, TransportProblem
from fairmend.repair.transport.reduction import Part, Shipment, couple
from fairmend.repair.transport.simplex import KnownArcs, ship_exactly

__all__ = ["solve"]

EXACT_PAIRS = 400_000_000
"""Pairs of sources and sinks, some 20,000 by 20,000, up to which minutes suffice to be exact."""


def solve(problem: TransportProblem, known: KnownArcs | None = None) -> Coupling:
    """The coupling by whatever suits its size; `Coupling.solver` and `guarantee` say what and how.

    Up to 400 million pairs of sources and sinks, and wherever moves are forbidden: `solve_exact`.
    Above, `solve_entropic`, whose cost is within a stated gap of the least.

    >>> import numpy as np
    >>> found = solve(TransportProblem([2, 1, 0], [1, 1, 1], 1 - np.eye(3), metric=True))
    >>> found.solver
    'network simplex (POT) on all arcs; excess to deficit'
    >>> found.guarantee
    'No coupling of these masses is cheaper. The certificate leaves a gap of 0e+00.'
    """
    return couple(problem, partial(_ship, known=known or KnownArcs()))


def _ship(part: Part, known: KnownArcs) -> Shipment:
    if part.pairs > EXACT_PAIRS and not part.prices.forbids:
        return ship_entropically(part)
    return ship_exactly(part, known)
