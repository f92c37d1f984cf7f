"""What is to be coupled, and a coupling with what vouches for it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from fairmend.data.columns import FloatArray, IntArray
from fairmend.errors import check
from fairmend.repair.transport.prices import MatrixPrices, Prices

if TYPE_CHECKING:
    from scipy.sparse import csr_array

MARGINALS = 1e-9
"""How far a coupling's marginals may be from the masses it couples."""
OPTIMAL = 1e-9
"""How far, relative to itself, an optimal coupling's cost may be above its lower bound."""


@dataclass(frozen=True, eq=False)
class TransportProblem:
    """Move ``mass_from`` onto ``mass_to``; ``cost[i, j]`` a unit, inf where that is forbidden.

    The cost is a matrix, or `Prices` where that would not fit into memory.

    >>> TransportProblem(np.array([3, 1]), np.array([2, 2]), 1 - np.eye(2), metric=True).mass_to
    array([0.5, 0.5])
    """

    mass_from: FloatArray
    mass_to: FloatArray
    cost: FloatArray | Prices
    metric: bool = False
    """Both masses stand on the same rows in the same order, staying costs nothing and no detour is
    cheaper, C_ij <= C_ik + C_kj: then what both have in common may stay where it is."""

    def __post_init__(self) -> None:
        masses = [np.asarray(mass, np.float64) for mass in (self.mass_from, self.mass_to)]
        cost = self.cost if isinstance(self.cost, Prices) else np.asarray(self.cost, np.float64)
        shape = (len(masses[0]), len(masses[1]))
        rule = "cost[i, j] is what turning row i into row j costs."
        must = "must have a row for each source and a column for each destination"
        check(cost.shape == shape, "cost", must, f"got shape {cost.shape} for {shape}", rule)
        if isinstance(cost, np.ndarray):
            fine = (cost >= 0).all()
            check(fine, "cost", "must not be negative, nor nan", "it is", "inf forbids a move.")
        for mass in masses:
            fine = np.isfinite(mass).all() and (mass >= 0).all() and mass.sum() > 0
            must = "must be finite and not negative, not all 0"
            check(fine, "mass", must, "it is not", "Counts or weights will do.")
        object.__setattr__(self, "mass_from", masses[0] / masses[0].sum())
        object.__setattr__(self, "mass_to", masses[1] / masses[1].sum())
        object.__setattr__(self, "cost", cost)
        if self.metric:
            shared = np.arange(min(shape))
            staying = self.prices.at(shared, shared)
            check(
                shape[0] == shape[1] and not staying.any(),
                "metric",
                "needs the same rows on both sides and costs of 0 for staying",
                f"got shape {shape}, diagonal up to {staying.max():g}",
                "Leave it out: the full problem is exact for every cost.",
            )

    @property
    def prices(self) -> Prices:
        return self.cost if isinstance(self.cost, Prices) else MatrixPrices(self.cost)


class CouplingStatus(Enum):
    """What a solver can vouch for; the value is what to tell people."""

    OPTIMAL = "No coupling of these masses is cheaper."
    NEAR_OPTIMAL = "All constraints hold; the cost is within the solver's tolerance of the least."
    BOUNDED = "All constraints hold; the certificate says how far the cost may be from the least."
    FEASIBLE = "All constraints hold; time ran out before the cost was known to be the least."
    INFEASIBLE = (
        "The moves that are allowed cannot turn one distribution into the other: this carries as "
        "much as they can."
    )
    FAILED = "The solver stopped before it was done: do not use this."

    @property
    def solved(self) -> bool:
        """Whether all constraints hold."""
        return self not in (CouplingStatus.INFEASIBLE, CouplingStatus.FAILED)


@dataclass(frozen=True, eq=False)
class Coupling:
    """How much mass goes from which row to which, and what that is worth.

    Potentials with u_i + v_j <= C_ij over all moves prove that no coupling costs less than
    sum u_i p_i + sum v_j q_j. `lower_bound` computes that anew from v alone.
    """

    problem: TransportProblem
    row: IntArray
    column: IntArray
    mass: FloatArray
    price: FloatArray
    """What a unit of each move costs."""
    status: CouplingStatus
    solver: str
    """How it was solved."""
    unmet: FloatArray
    """Mass of each source row that no allowed move could carry."""
    unfairness: float = 0.0
    """The most by which two laws are further apart than their rows allow."""
    bound: float = np.nan
    """No coupling costs less; nan where that was not proved."""
    potential_to: FloatArray | None = None
    """v; of no account where no mass arrives."""

    @property
    def cost(self) -> float:
        return float(self.mass @ self.price)

    @property
    def gap(self) -> float:
        """How much cheaper a coupling could at most be; nan where that is not known."""
        return self.cost - self.bound

    @property
    def guarantee(self) -> str:
        """What is known of the cost, in words."""
        if np.isnan(self.bound) or not self.status.solved:
            return self.status.value
        if self.status is CouplingStatus.OPTIMAL:
            return f"{self.status.value} The certificate leaves a gap of {max(self.gap, 0.0):.0e}."
        share = 100 * self.gap / self.cost if self.cost > 0 else 0.0
        return f"All constraints hold; the cost is at most {share:.2g} % above the least."

    @property
    def marginal_error(self) -> float:
        """The largest difference between the coupling's marginals and the masses coupled."""
        sides = ((self.row, self.problem.mass_from), (self.column, self.problem.mass_to))
        return max(
            float(np.abs(np.bincount(at, self.mass, len(mass)) - mass).max()) for at, mass in sides
        )

    def law(self) -> csr_array:
        """T_ij = mass_ij / sum_j mass_ij. What could not be carried stays, where rows are shared.

        A row without mass, too, stays as it is.
        """
        from scipy.sparse import csr_array, diags_array

        shape = self.problem.cost.shape
        moved = csr_array((self.mass, (self.row, self.column)), shape=shape)
        if shape[0] == shape[1]:
            total = moved.sum(axis=1) + self.unmet
            moved = moved + diags_array(np.where(total > 0, self.unmet, 1.0))
        total = moved.sum(axis=1)
        law = csr_array(diags_array(1 / np.where(total > 0, total, 1.0)) @ moved)
        law.sum_duplicates()
        law.eliminate_zeros()
        return law


def lower_bound(problem: TransportProblem, potential_to: FloatArray) -> float:
    """What every coupling costs at least, by any v: sum_j v_j q_j + sum_i p_i min_j (C_ij - v_j).

    All moves are priced, a slab at a time.

    >>> line = np.abs(np.subtract.outer([0.0, 1.0, 2.0], [0.0, 1.0, 2.0]))
    >>> problem = TransportProblem([2, 1, 0], [1, 1, 1], line)
    >>> lower_bound(problem, np.zeros(3)), round(lower_bound(problem, np.array([0, 1, 2])), 9)
    (0.0, 0.666666667)
    """
    there, here = np.flatnonzero(problem.mass_to), np.flatnonzero(problem.mass_from)
    v = np.asarray(potential_to, np.float64)[there]
    total = float(v @ problem.mass_to[there])
    mass = problem.mass_from[here]
    for rows, price in problem.prices.take(here, there).slabs():
        total += float(mass[rows] @ (price - v).min(axis=1))
    return total
