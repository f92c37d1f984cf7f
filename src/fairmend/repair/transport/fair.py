"""The cheapest coupling that treats similar people similarly: the paper's linear program."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairmend.data.columns import BoolArray, FloatArray, IntArray
from fairmend.errors import DataError, require
from fairmend.repair.transport.problem import MARGINALS, Coupling, CouplingStatus, TransportProblem

FAIRNESS = 1e-6
"""How far two laws may be further apart than their rows allow."""
# Programs with at most this many auxiliary variables go to HiGHS, which is exact; above, to PDLP.
_SMALL_PROGRAM = 25_000
PATIENCE_S = 120.0
"""How long a linear program may take; what is found by then is made to meet the constraints."""


def solve_individually_fair(problem: TransportProblem, distance: FloatArray) -> Coupling:
    """The cheapest coupling whose laws are no further apart than their rows, as in the paper.

        sum_j |T_ij - T_lj| / 2 <= distance[i, l]   for all sources i and l, T_ij = mass_ij / p_i.

    A linear program, made smaller without loss: rows at distance 0 share one law; a pair is left
    out if its distance is 1 or more, or if a detour over other rows is no longer than itself (the
    total variation is a metric, so the legs imply it). HiGHS solves small programs exactly, PDLP
    (extra ``lp``) large ones to a tolerance. Where no move is forbidden the answer is then made to
    meet the constraints to rounding: the marginals by moving the little that is amiss, the
    distances by mixing in the law Q that everybody could share. All constraints are measured on
    the result, and the status goes by that.

    >>> from fairmend.repair.transport import solve_exact
    >>> rows = np.array([0.0, 1.0, 2.0, 3.0])
    >>> gap = np.abs(np.subtract.outer(rows, rows))
    >>> problem = TransportProblem(np.ones(4), [1, 1, 1, 5], gap)
    >>> best = solve_individually_fair(problem, 0.3 * gap)
    >>> best.status.name, bool(best.unfairness < 1e-9)
    ('OPTIMAL', True)
    >>> round(solve_exact(problem).cost, 6), round(best.cost, 6)
    (0.75, 0.816667)
    """
    price = problem.prices.matrix()
    n, m = price.shape
    d = np.asarray(distance, np.float64)
    if d.shape != (n, n) or not (d >= 0).all():
        raise DataError(
            "distance",
            "must be a matrix of the sources' distances, none negative",
            f"got shape {d.shape} for {n} sources",
            "1 allows any two laws, 0 asks for the same one.",
        )
    p, q = problem.mass_from, problem.mass_to
    sources, sinks = np.flatnonzero(p), np.flatnonzero(q)
    d = _shortest(np.minimum(d, d.T)[np.ix_(sources, sources)])
    alike = _alike(d)
    first = np.unique(alike, return_index=True)[1]
    weight = np.bincount(alike, p[sources]).astype(np.float64)
    share = p[sources] / weight[alike]
    cost = np.zeros((len(first), len(sinks)))
    np.add.at(cost, alike, share[:, None] * price[np.ix_(sources, sinks)])
    between = d[np.ix_(first, first)]
    program = _FairProgram(weight, q[sinks], cost, between, *np.nonzero(_needed(between)))
    shared, status, solver = program.solve()
    if shared is None:
        nowhere = np.empty(0, np.int64)
        empty = np.empty(0)
        return Coupling(problem, nowhere, nowhere, empty, empty, status, solver, p.copy())
    free = bool(np.isfinite(cost).all())
    if free:
        shared = program.made_feasible(shared)
    law = np.zeros((len(sources), m))
    law[:, sinks] = shared[alike]
    here, column = np.nonzero(law)
    coupling = Coupling(
        problem, sources[here], column, p[sources[here]] * law[here, column],
        price[sources[here], column], status, solver, np.zeros(n), _most_unfair(law, d),
    )  # fmt: skip
    off = MARGINALS if free else FAIRNESS
    fine = coupling.unfairness <= FAIRNESS and coupling.marginal_error <= off
    return coupling if fine else replace(coupling, status=CouplingStatus.FAILED)


def _shortest(distance: FloatArray) -> FloatArray:
    """Every pair's shortest way over other rows: no law can be further apart than that."""
    shortest = np.minimum(distance, 1.0)
    np.fill_diagonal(shortest, 0.0)
    for k in range(len(shortest)):
        np.minimum(shortest, shortest[:, [k]] + shortest[[k], :], out=shortest)
    return shortest


def _alike(distance: FloatArray) -> IntArray:
    """Numbers rows such that those at distance 0 have one number."""
    first = np.argmax(distance == 0, axis=1)
    return np.unique(first, return_inverse=True)[1].astype(np.int64)


def _needed(distance: FloatArray) -> BoolArray:
    """Pairs i < k whose constraint no shorter ones imply."""
    needed = np.triu(distance < 1, 1)
    for i, k in zip(*np.nonzero(needed), strict=True):
        whole = distance[i, k]
        legs = distance[i], distance[:, k]
        shorter = (legs[0] < whole) & (legs[1] < whole)
        needed[i, k] = not (shorter & (legs[0] + legs[1] <= whole * (1 + 1e-12))).any()
    return needed


def _most_unfair(law: FloatArray, distance: FloatArray) -> float:
    """The largest total variation over what is allowed."""
    from scipy.spatial.distance import cdist

    return max(float((cdist(law, law, "cityblock") / 2 - distance).max()), 0.0)


@dataclass(frozen=True, eq=False)
class _FairProgram:
    """Variables: the laws T row by row, then for each pair and column u >= T_ij - T_lj, u >= 0.

    Both laws sum to 1, so sum_j max(T_ij - T_lj, 0) is their total variation.
    """

    weight: FloatArray
    demand: FloatArray
    cost: FloatArray
    distance: FloatArray
    one: IntArray
    other: IntArray

    @property
    def auxiliary(self) -> int:
        return len(self.one) * len(self.demand)

    def _matrices(self) -> tuple[Any, Any]:
        """Equalities (row sums, column sums) and inequalities (u against T, sums of u)."""
        from scipy.sparse import block_array, csr_array, eye_array, hstack, kron

        n, m = self.cost.shape
        pairs, k = len(self.one), np.arange(self.auxiliary)
        pair, column = k // m, k % m
        sums = block_array([
            [kron(eye_array(n), np.ones((1, m)))],
            [kron(self.weight[None, :], eye_array(m))],
        ])  # fmt: skip
        difference = csr_array(
            (
                np.repeat([1.0, -1.0], len(k)),
                (np.r_[k, k], np.r_[self.one[pair] * m + column, self.other[pair] * m + column]),
            ),
            shape=(len(k), n * m),
        )
        equal = hstack([sums, csr_array((n + m, len(k)))], format="csr")
        if pairs == 0:
            return equal, csr_array((0, n * m))
        at_most = block_array(
            [[difference, -eye_array(len(k))], [None, kron(eye_array(pairs), np.ones((1, m)))]],
            format="csr",
        )
        return equal, at_most

    def _bounds(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Objective, right sides of equalities and inequalities, and upper bounds."""
        allowed = np.isfinite(self.cost)
        price = np.where(allowed, self.weight[:, None] * np.where(allowed, self.cost, 0.0), 0.0)
        nothing = np.zeros(self.auxiliary)
        return (
            np.r_[price.ravel(), nothing],
            np.r_[np.ones(len(self.weight)), self.demand],
            np.r_[nothing, self.distance[self.one, self.other]],
            np.r_[np.where(allowed, 1.0, 0.0).ravel(), nothing + 1.0],
        )

    def solve(self) -> tuple[FloatArray | None, CouplingStatus, str]:
        """The laws, if any; what they are worth; and by which solver."""
        if self.auxiliary <= _SMALL_PROGRAM:
            laws, status = self._by_highs()
            if status is not CouplingStatus.FAILED:
                return laws, status, "HiGHS"
        return *self._by_pdlp(), "PDLP"

    def _by_highs(self) -> tuple[FloatArray | None, CouplingStatus]:
        from scipy.optimize import linprog

        equal, at_most = self._matrices()
        price, equals, bound, upper = self._bounds()
        bounds: Any = np.stack([np.zeros_like(upper), upper], axis=1)
        answer = linprog(
            price, A_eq=equal, b_eq=equals, A_ub=at_most, b_ub=bound, bounds=bounds,
            method="highs-ipm", options={"time_limit": PATIENCE_S},
        )  # fmt: skip
        if answer.status == 2:
            return None, CouplingStatus.INFEASIBLE
        if answer.status != 0:
            return None, CouplingStatus.FAILED
        return self._read(answer.x), CouplingStatus.OPTIMAL

    def _by_pdlp(self) -> tuple[FloatArray | None, CouplingStatus]:
        from scipy.sparse import vstack

        pdlp, solvers, logs = (
            require(f"ortools.pdlp.{module}", extra="lp", why="a large fair coupling")
            for module in ("python.pdlp", "solvers_pb2", "solve_log_pb2")
        )
        equal, at_most = self._matrices()
        price, equals, bound, upper = self._bounds()
        program = pdlp.QuadraticProgram()
        program.resize_and_initialize(len(price), len(equals) + len(bound))
        program.objective_vector = price
        program.constraint_matrix = vstack([equal, at_most], format="csc")
        program.constraint_lower_bounds = np.r_[equals, np.full(len(bound), -np.inf)]
        program.constraint_upper_bounds = np.r_[equals, bound]
        program.variable_lower_bounds = np.zeros_like(upper)
        program.variable_upper_bounds = upper
        settings = solvers.PrimalDualHybridGradientParams()
        close = settings.termination_criteria.simple_optimality_criteria
        # where moves are forbidden the answer cannot be made feasible afterwards: ask for more
        free = bool(np.isfinite(self.cost).all())
        close.eps_optimal_absolute = close.eps_optimal_relative = 1e-5 if free else 1e-8
        settings.num_threads = os.cpu_count() or 1
        settings.termination_criteria.time_sec_limit = PATIENCE_S
        answer = pdlp.primal_dual_hybrid_gradient(program, settings)
        reason = answer.solve_log.termination_reason
        if reason == logs.TERMINATION_REASON_OPTIMAL:
            return self._read(answer.primal_solution), CouplingStatus.NEAR_OPTIMAL
        if reason == logs.TERMINATION_REASON_TIME_LIMIT:
            return self._read(answer.primal_solution), CouplingStatus.FEASIBLE
        if reason == logs.TERMINATION_REASON_PRIMAL_INFEASIBLE:
            return None, CouplingStatus.INFEASIBLE
        return None, CouplingStatus.FAILED

    def _read(self, solution: Any) -> FloatArray:
        laws = np.asarray(solution, np.float64)[: self.cost.size].reshape(self.cost.shape)
        laws = np.where(np.isfinite(self.cost), np.maximum(laws, 0.0), 0.0)
        laws[laws < 1e-12] = 0.0
        return np.asarray(laws / laws.sum(axis=1, keepdims=True), np.float64)

    def made_feasible(self, laws: FloatArray) -> FloatArray:
        """Marginals to rounding, then distances: the law Q mixed into all brings them together."""
        reached = self.weight @ laws
        laws = laws * np.minimum(1.0, np.divide(self.demand, reached, where=reached > 0,
                                                out=np.ones_like(reached)))  # fmt: skip
        short, missing = 1 - laws.sum(axis=1), self.demand - self.weight @ laws
        if missing.sum() > 0:
            laws = laws + np.outer(np.maximum(short, 0.0), missing / missing.sum())
        variation = np.abs(laws[self.one] - laws[self.other]).sum(axis=1) / 2
        allowed = self.distance[self.one, self.other]
        shrink = float(np.min(allowed / np.maximum(variation, allowed), initial=1.0))
        return shrink * laws + (1 - shrink) * self.demand
