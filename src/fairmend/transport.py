"""From a counterfactual distribution to a plan: couple who people are with who they would be.

A coupling of P0 and Q with the least cost says with which probability each row turns into which
(the paper's Section 4). A problem says what, a solver how, a `Coupling` keeps both and what it is
worth: `solve_exact` is plain optimal transport, `solve_individually_fair` also treats similar
people similarly. `transport` goes as far as closes the gap that people experience; `paper` is
Algorithm 1 and its coupling, to the letter.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from fairmend.columns import FloatArray, Frame, IntArray
from fairmend.costs import Cost, EditCost
from fairmend.counterfactual import Counterfactual, counterfactual_data
from fairmend.data import AuditData
from fairmend.descent import Stop, descend
from fairmend.disparity import Alignment, Combination, Disparity, RateGap, as_disparity
from fairmend.errors import DataError, FairmendError, require
from fairmend.model import Answers
from fairmend.plan import Outlook, Plan, PlanStatus, Route
from fairmend.projection import project
from fairmend.rows import find_rows
from fairmend.status import Status
from fairmend.task import RepairTask

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = [
    "Coupling",
    "CouplingPlan",
    "CouplingStatus",
    "TransportProblem",
    "paper",
    "solve_exact",
    "solve_individually_fair",
    "transport",
]

Ties = Literal["stay", "order"]
Law = Any
"""A sparse matrix T of probabilities, a row for a row; its rows sum to 1."""

MARGINALS = 1e-9
"""How far a coupling's marginals may be from the masses it couples."""
FAIRNESS = 1e-6
"""How far two laws may be further apart than their rows allow."""
MOST_ROWS = 10_000
"""Costs are a dense matrix of rows by rows: more than this do not fit."""
_DUST = 1e-15
# What decides ties may add this share of the dearest move to the cost.
_TIE_BREAK = 1e-5
_MOST_PIVOTS = 100_000_000
# Programs with at most this many auxiliary variables go to HiGHS, which is exact; above, to PDLP.
_SMALL_PROGRAM = 25_000
PATIENCE_S = 120.0
"""How long a linear program may take; what is found by then is made to meet the constraints."""


@dataclass(frozen=True, eq=False)
class TransportProblem:
    """Move ``mass_from`` onto ``mass_to``; ``cost[i, j]`` a unit, inf where that is forbidden.

    >>> TransportProblem(np.array([3, 1]), np.array([2, 2]), 1 - np.eye(2), metric=True).mass_to
    array([0.5, 0.5])
    """

    mass_from: FloatArray
    mass_to: FloatArray
    cost: FloatArray
    metric: bool = False
    """Both masses stand on the same rows in the same order, staying costs nothing and no detour is
    cheaper, C_ij <= C_ik + C_kj: then what both have in common may stay where it is."""

    def __post_init__(self) -> None:
        masses = [np.asarray(mass, np.float64) for mass in (self.mass_from, self.mass_to)]
        cost = np.asarray(self.cost, np.float64)
        if cost.shape != (len(masses[0]), len(masses[1])):
            raise DataError(
                "cost",
                "must have a row for each source and a column for each destination",
                f"got shape {cost.shape} for {len(masses[0])} and {len(masses[1])}",
                "cost[i, j] is what turning row i into row j costs.",
            )
        if not (cost >= 0).all():
            raise DataError("cost", "must not be negative, nor nan", f"got {np.min(cost)}",
                            "inf forbids a move.")  # fmt: skip
        for mass in masses:
            if not (np.isfinite(mass).all() and (mass >= 0).all() and mass.sum() > 0):
                raise DataError("mass", "must be finite and not negative, not all 0",
                                "it is not", "Counts or weights will do.")  # fmt: skip
        if self.metric and (len(masses[0]) != len(masses[1]) or np.diagonal(cost).any()):
            raise DataError(
                "metric",
                "needs the same rows on both sides and costs of 0 for staying",
                f"got shape {cost.shape}, diagonal up to {np.diagonal(cost).max():g}",
                "Leave it out: the full problem is exact for every cost.",
            )
        for name, array in (
            ("mass_from", masses[0] / masses[0].sum()),
            ("mass_to", masses[1] / masses[1].sum()),
            ("cost", cost),
        ):
            object.__setattr__(self, name, array)


class CouplingStatus(Enum):
    """What a solver can vouch for; the value is what to tell people."""

    OPTIMAL = "No coupling of these masses is cheaper."
    NEAR_OPTIMAL = "All constraints hold; the cost is within the solver's tolerance of the least."
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
    """How much mass goes from which row to which, and what that is worth."""

    problem: TransportProblem
    row: IntArray
    column: IntArray
    mass: FloatArray
    status: CouplingStatus
    solver: str
    """How it was solved."""
    unmet: FloatArray
    """Mass of each source row that no allowed move could carry."""
    unfairness: float = 0.0
    """The most by which two laws are further apart than their rows allow."""

    @property
    def cost(self) -> float:
        return float(self.mass @ self.problem.cost[self.row, self.column])

    @property
    def marginal_error(self) -> float:
        """The largest difference between the coupling's marginals and the masses coupled."""
        sides = (
            (self.row, self.problem.mass_from),
            (self.column, self.problem.mass_to),
        )
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


# -------------------------------------------------------------------- plain transport


def solve_exact(problem: TransportProblem) -> Coupling:
    """The cheapest coupling, by the network simplex of POT.

    With a metric cost the common mass min(p, q) stays in place and only the excess is shipped to
    the deficit: the same cost, a smaller problem, and as few people moved as can be. Parts that no
    allowed move connects are solved apart. Forbidden moves are priced out of reach and then taken
    out: where some remain the problem is infeasible, as little as possible is left undone, and
    `Coupling.unmet` says whose.

    >>> line = np.abs(np.subtract.outer([0.0, 1.0, 2.0], [0.0, 1.0, 2.0]))
    >>> found = solve_exact(TransportProblem([2, 1, 0], [1, 1, 1], line, metric=True))
    >>> found.status.name, round(found.cost, 9), found.row.tolist(), found.column.tolist()
    ('OPTIMAL', 0.666666667, [0, 0, 1], [0, 2, 1])
    """
    p, q = problem.mass_from, problem.mass_to
    kept = np.zeros(len(p))
    if problem.metric:
        kept = np.minimum(p, q)
        kept = np.where(p - kept <= _DUST, p, kept)
    excess = p - kept
    deficit = np.maximum(q - kept, 0.0) if problem.metric else q
    sources, sinks = np.flatnonzero(excess), np.flatnonzero(deficit > _DUST)
    rows, columns, masses = [np.flatnonzero(kept)], [np.flatnonzero(kept)], [kept[kept > 0]]
    unmet, finished = np.zeros(len(p)), True
    price = problem.cost[np.ix_(sources, sinks)]
    for here, there in _connected(price):
        part = _ship(excess[sources[here]], deficit[sinks[there]], price[np.ix_(here, there)])
        finished &= part.finished
        rows.append(sources[here[part.row]])
        columns.append(sinks[there[part.column]])
        masses.append(part.mass)
        unmet[sources[here]] += part.unmet
    row, column, mass = np.concatenate(rows), np.concatenate(columns), np.concatenate(masses)
    order = np.lexsort((column, row))
    form = "excess to deficit" if problem.metric else "full problem"
    found = Coupling(
        problem, row[order], column[order], mass[order], CouplingStatus.OPTIMAL,
        f"network simplex (POT), {form}", unmet,
    )  # fmt: skip
    return _with_status(found, finished)


def _with_status(found: Coupling, finished: bool) -> Coupling:
    allowed = bool(np.isfinite(found.problem.cost[found.row, found.column]).all())
    if not finished or not allowed:
        return replace(found, status=CouplingStatus.FAILED)
    if found.unmet.sum() > MARGINALS:
        return replace(found, status=CouplingStatus.INFEASIBLE)
    if found.marginal_error > MARGINALS:
        return replace(found, status=CouplingStatus.FAILED)
    return found


def _connected(cost: FloatArray) -> list[tuple[IntArray, IntArray]]:
    """Sources and sinks in parts between which every move is forbidden."""
    allowed = np.isfinite(cost)
    if cost.size == 0:
        return [(np.arange(cost.shape[0]), np.arange(cost.shape[1]))] if cost.shape[0] else []
    if allowed.all():
        return [(np.arange(cost.shape[0]), np.arange(cost.shape[1]))]
    labels = _components(allowed)
    here, there = labels[: cost.shape[0]], labels[cost.shape[0] :]
    return [
        (np.flatnonzero(here == label), np.flatnonzero(there == label)) for label in np.unique(here)
    ]


def _components(allowed: NDArray[np.bool_]) -> IntArray:
    """Which rows, then which columns, hang together by allowed moves."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    n, m = allowed.shape
    i, j = np.nonzero(allowed)
    graph = coo_array((np.ones(len(i), np.int8), (i, n + j)), shape=(n + m, n + m))
    _, labels = connected_components(graph, directed=False)
    return np.asarray(labels, np.int64)


@dataclass(frozen=True, eq=False)
class _Shipment:
    row: IntArray
    column: IntArray
    mass: FloatArray
    unmet: FloatArray
    finished: bool


def _ship(supply: FloatArray, demand: FloatArray, cost: FloatArray) -> _Shipment:
    """As much as can be carried along allowed arcs, and that as cheaply as can be."""
    n, m = cost.shape
    nothing = np.empty(0, np.int64)
    if m == 0:
        return _Shipment(nothing, nothing, np.empty(0), supply, finished=True)
    ot = require("ot", extra="transport", why="optimal transport")
    allowed = np.isfinite(cost)
    dearest = float(cost[allowed].max(initial=0.0)) or 1.0
    # no cycle of allowed arcs saves this much, so forbidden arcs carry only what nothing else can
    out_of_reach = (n + m + 2) * dearest
    price = np.where(allowed, cost, out_of_reach)
    surplus = float(supply.sum() - demand.sum())
    a, b = supply, demand
    if surplus > n * _DUST:  # a dummy takes what is too much
        b, price = np.r_[b, surplus], np.c_[price, np.full(n, out_of_reach)]
    elif surplus < -m * _DUST:
        a, price = np.r_[a, -surplus], np.r_[price, np.full((1, m), out_of_reach)]
    with warnings.catch_warnings():  # its status is read from the log
        warnings.simplefilter("ignore")
        flow, log = ot.emd(a, b * (a.sum() / b.sum()), price, numItermax=_MOST_PIVOTS, log=True)
    carried = np.where(allowed, flow[:n, :m], 0.0)
    row, column = np.nonzero(carried)
    unmet = supply - carried.sum(axis=1)
    unmet[unmet <= 10 * _DUST * max(n, m)] = 0.0
    return _Shipment(row, column, carried[row, column], unmet, finished=log["warning"] is None)


# -------------------------------------------------------------------- similar people, similar laws


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

    >>> rows = np.array([0.0, 1.0, 2.0, 3.0])
    >>> gap = np.abs(np.subtract.outer(rows, rows))
    >>> problem = TransportProblem(np.ones(4), [1, 1, 1, 5], gap)
    >>> found = solve_individually_fair(problem, 0.3 * gap)
    >>> found.status.name, bool(found.unfairness < 1e-9)
    ('OPTIMAL', True)
    >>> round(solve_exact(problem).cost, 6), round(found.cost, 6)
    (0.75, 0.816667)
    """
    n, m = problem.cost.shape
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
    np.add.at(cost, alike, share[:, None] * problem.cost[np.ix_(sources, sinks)])
    between = d[np.ix_(first, first)]
    program = _FairProgram(weight, q[sinks], cost, between, *np.nonzero(_needed(between)))
    shared, status, solver = program.solve()
    if shared is None:
        nowhere = np.empty(0, np.int64)
        return Coupling(problem, nowhere, nowhere, np.empty(0), status, solver, p.copy())
    free = bool(np.isfinite(cost).all())
    if free:
        shared = program.made_feasible(shared)
    law = np.zeros((len(sources), m))
    law[:, sinks] = shared[alike]
    here, column = np.nonzero(law)
    found = Coupling(
        problem, sources[here], column, p[sources[here]] * law[here, column],
        status, solver, np.zeros(n), _most_unfair(law, d),
    )  # fmt: skip
    off = MARGINALS if free else FAIRNESS
    fine = found.unfairness <= FAIRNESS and found.marginal_error <= off
    return found if fine else replace(found, status=CouplingStatus.FAILED)


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


def _needed(distance: FloatArray) -> NDArray[np.bool_]:
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


# -------------------------------------------------------------------- the plan


@dataclass(frozen=True, eq=False)
class CouplingPlan(Plan):
    """A coupling in use: each row goes to other rows of the audit data by its law.

    Rows of the audit data follow their own law. A row never seen takes the law of the nearest seen
    row, by cost, among those it may be turned into and that get its decision (or, if there is none,
    any decision); ties go to the nearest score. Where that row would stay, so does this one, as it
    is; a move that would be forbidden for it is not made. ``unseen="stay"`` leaves unseen rows as
    they are, as the paper does. What the model says at a destination is what it said in the audit.
    """

    table: Frame
    """The distinct rows of the audit data: where people come from and where they go."""
    cost: EditCost
    decision: FloatArray
    score: FloatArray | None
    start: IntArray
    """Row i's entries are ``start[i]:start[i + 1]`` of the next three."""
    place: IntArray
    probability: FloatArray
    price: FloatArray
    unseen: Literal["nearest", "stay"] = "nearest"

    def route(self, rows: Frame, answers: Answers) -> Route:
        """Every row's law, its own or that of the nearest row seen."""
        place = self._seen(rows, answers)
        new = np.flatnonzero(place < 0)
        seen = place.copy()
        if self.unseen == "nearest" and len(new) > 0:
            place[new] = self._nearest(rows.take(new), answers.take(new))
        followed = np.flatnonzero(place >= 0)
        length = np.diff(self.start)[place[followed]]
        row = np.repeat(followed, length)
        offset = np.arange(len(row)) - np.repeat(np.cumsum(length) - length, length)
        entry = self.start[place[row]] + offset
        there, chance, price = self.place[entry], self.probability[entry], self.price[entry].copy()
        away = there != place[row]
        borrowed = np.flatnonzero(away & (seen[row] < 0))
        for at in np.array_split(borrowed, max(1, -(-len(borrowed) // 2_000))):
            price[at] = self._prices(rows, row[at], there[at])
        away &= np.isfinite(price)
        row, chance = row[away], chance[away]
        leaving = np.bincount(row, chance, len(rows))
        whole = np.where(leaving > 1 - 1e-12, leaving, 1.0)  # nobody stays by a rounding error
        return Route.moves(
            len(rows),
            row,
            chance / whole[row],
            place=there[away],
            cost=price[away],
            table=self.table,
            decision=self.decision,
            score=self.score,
        )

    def _prices(self, rows: Frame, row: IntArray, there: IntArray) -> FloatArray:
        """What single moves cost, row by row."""
        mine, at = np.unique(row, return_inverse=True)
        theirs, to = np.unique(there, return_inverse=True)
        return self.cost.matrix(rows.take(mine), self.table.take(theirs))[at, to]

    def _seen(self, rows: Frame, answers: Answers) -> IntArray:
        """Each row's place in the table; of equal rows with other predictions, the most alike."""
        alike = self.table.distinct()
        if len(alike.first) == len(self.table):
            return find_rows(self.table, rows)
        group = find_rows(self.table.take(alike.first), rows)
        best, gap = np.full(len(rows), -1), np.full(len(rows), np.inf)
        order = np.argsort(alike.inverse, kind="stable")
        ends = np.searchsorted(alike.inverse[order], np.arange(len(alike.first) + 1))
        for rank in range(int(np.diff(ends).max())):
            has = np.flatnonzero(group >= 0)
            has = has[ends[group[has]] + rank < ends[group[has] + 1]]
            candidate = order[ends[group[has]] + rank]
            distance = np.abs(self._signal(answers)[has] - self._signal(self)[candidate])
            closer = distance < gap[has]
            best[has[closer]], gap[has[closer]] = candidate[closer], distance[closer]
        return best

    def _signal(self, said: Answers | CouplingPlan) -> FloatArray:
        """What answers are compared by: the decision, and the score within it."""
        if self.score is None or said.score is None:
            return said.decision
        low, high = float(self.score.min()), float(self.score.max())
        return said.decision + 1e-3 * (said.score - low) / ((high - low) or 1.0)

    def _nearest(self, rows: Frame, answers: Answers) -> IntArray:
        found = []
        for start in range(0, len(rows), 1_000):
            at = np.arange(start, min(start + 1_000, len(rows)))
            cost = self.cost.matrix(rows.take(at), self.table)
            said = answers.take(at)
            same = (said.decision > 0.5)[:, None] == (self.decision > 0.5)[None, :]
            possible = np.isfinite(cost)
            preferred = possible & same
            among = np.where(preferred.any(axis=1)[:, None], preferred, possible)
            cost = np.where(among, cost, np.inf)
            tied = cost <= cost.min(axis=1, keepdims=True) + 1e-12
            apart = np.abs(self._signal(said)[:, None] - self._signal(self)[None, :])
            best = np.argmin(np.where(tied, apart, np.inf), axis=1)
            found.append(np.where(possible.any(axis=1), best, -1))
        return np.concatenate(found)


# -------------------------------------------------------------------- repair by transport


def transport(
    data: AuditData,
    *,
    disparity: str | Disparity,
    target: Hashable = None,
    baseline: Hashable = None,
    level: float = 1.0,
    cost: Cost | None = None,
    calibrate: Literal["realised", "counterfactual"] = "realised",
    counterfactual_method: Literal["projection", "descent"] = "projection",
    individual_fairness: Callable[[Any, Any], Any] | None = None,
    ties: Ties = "stay",
    outcome_model: Any = "logistic",
    random_state: int = 0,
) -> Plan:
    """Turn the target group's inputs into a counterfactual distribution at the least cost.

    Parameters
    ----------
    data
        The tabulated audit data, with inputs.
    disparity, target, baseline, level
        As in `fairmend.counterfactual`.
    cost
        What edits cost and which are forbidden. Parts of the group that no allowed edit connects
        keep their sizes: Q is tilted within each. Within a part (one-way features, a limit on
        edits) what no allowed edit can carry stays as it is and counts as unreachable, so the way
        may end before the gap is closed where `least_change` would still find edits.
    calibrate
        ``"realised"``: go as far (beyond M(Q) = 0, or less far) as closes the gap among people who
        keep their own outcomes. The gap is met exactly: where the cheapest coupling jumps from one
        to another on the way, the two are mixed. ``"counterfactual"``: M(Q) as asked, and whatever
        realised gap that leaves.
    counterfactual_method
        Where Q comes from: the projection, or the paper's descent by exact reweighting.
    individual_fairness
        A distance between people, a callable that takes two tables of rows and gives a matrix: no
        two laws are further apart in total variation than their rows are by it.
    ties
        Many couplings cost the same. ``"stay"`` takes one that edits as few people as can be;
        ``"order"`` one that moves scores least (squared), which keeps people's order by score far
        better, by many small edits instead of a few large ones, at next to the same cost.
    outcome_model, random_state
        As in `fairmend.counterfactual`.

    >>> from fairmend.datasets import example_one
    >>> plan = transport(example_one().tabulated(), disparity="fpr")
    >>> plan.status.name, round(plan.outlook.gap_before, 4), abs(plan.outlook.gap_after) < 1e-9
    ('CLOSED', 0.2514, True)

    """
    if calibrate not in ("realised", "counterfactual"):
        raise DataError("calibrate", "must be 'realised' or 'counterfactual'", f"got {calibrate!r}",
                        "'realised' closes the gap that people experience.")  # fmt: skip
    if ties not in ("stay", "order"):
        raise DataError("ties", "must be 'stay' or 'order'", f"got {ties!r}",
                        "'stay' edits the fewest people.")  # fmt: skip
    wanted = as_disparity(disparity)
    task = _task(
        data, wanted, method="transport", target=target, baseline=baseline, level=level,
        cost=cost, outcome_model=outcome_model, random_state=random_state,
    )  # fmt: skip
    if task.nothing_to_close:
        return task.identity()
    task.warn_if_not_significant()
    found = counterfactual_data(
        data, disparity=wanted, method=counterfactual_method, target=task.target,
        baseline=task.baseline, level=level, outcome_model=outcome_model,
        random_state=random_state,
    )  # fmt: skip
    coupler = _Coupler.of(task, individual_fairness, ties)
    walk = _Walk(task, wanted, _Path(task, wanted, found, coupler.classes), coupler)
    if calibrate == "counterfactual" or not walk.path.can_go_on:
        step = walk.to((1 - level) * walk.path.start) or walk.with_mass(found.mass)
    else:
        step = walk.until_closed()
    return _finished(task, step, coupler)


def _task(data: AuditData, wanted: Disparity, **settings: Any) -> RepairTask:
    """What a repair needs to know; a sum of gaps is reported part by part."""
    parts: list[Disparity] = [wanted]
    if isinstance(wanted, Combination):
        parts = [part for _, part in wanted.parts]
    task = RepairTask.read(data, disparity=parts, **settings)
    if len(task.table) > MOST_ROWS:
        raise DataError(
            "X",
            f"must have at most {MOST_ROWS:,} distinct rows in the target group for transport",
            f"got {len(task.table):,}",
            "Round or bin its numbers, or use method='least_change'.",
        )
    return task


@dataclass(frozen=True, eq=False)
class _Path:
    """Masses on the way from P0, M(Q) = start, to ever smaller M(Q)."""

    task: RepairTask
    disparity: Disparity
    found: Counterfactual
    classes: IntArray

    @property
    def rate_gap(self) -> RateGap | None:
        """The gap of rates that is linear in Q; None for what is not one."""
        if isinstance(self.disparity, RateGap):
            return self.disparity
        if isinstance(self.disparity, Alignment) and self.disparity.weight == 0:
            return self.task.gaps[0].disparity
        return None

    @property
    def can_go_on(self) -> bool:
        """Whether there is a beyond: alignment of inputs ends at the baseline's own."""
        return self.rate_gap is not None or isinstance(self.disparity, Combination)

    @property
    def start(self) -> float:
        measure = self.rate_gap or self.disparity
        return measure.value(self.found.source, self.found.baseline)

    def at(self, aim: float) -> FloatArray | None:
        """Q with M(Q) = aim, the parts of the group keeping their sizes; None if there is none."""
        source, baseline = self.found.source, self.found.baseline
        if self.found.method == "descent":
            measure = self.rate_gap or self.disparity
            mass, status, _ = descend(source, baseline, measure, target_gap=aim, tolerance=1e-8)
            return None if status is Status.STOPPED else _within(mass, source.mass, self.classes)
        if self.rate_gap is not None:
            r, t = self.rate_gap.terms(source)
            slope = r - (self.rate_gap.of(baseline) + aim) * t
            return _tilt_within(source.mass, slope, self.classes)
        level = 1 - aim / self.start
        mass, status = project(source, baseline, self.disparity, level=level)
        return _within(mass, source.mass, self.classes) if status.closed else None

    def end(self, edge: float) -> FloatArray | None:
        """Where the path leads to, but never arrives: in each part the rows that do best."""
        if self.rate_gap is None or self.found.method == "descent":
            return None
        source = self.found.source
        r, t = self.rate_gap.terms(source)
        slope = r - (self.rate_gap.of(self.found.baseline) + edge) * t
        lowest = np.full(int(self.classes.max()) + 1, np.inf)
        peopled = source.mass > 0
        np.minimum.at(lowest, self.classes[peopled], slope[peopled])
        best = slope <= lowest[self.classes] + 1e-12
        return _within(np.where(best, source.mass, 0.0), source.mass, self.classes)


def _within(mass: FloatArray, source: FloatArray, classes: IntArray) -> FloatArray:
    """Masses scaled so that every class keeps its size; as it was where nothing is left of it."""
    size, left = np.bincount(classes, source), np.bincount(classes, mass)
    scale = np.divide(size, left, out=np.zeros_like(size), where=left > 0)
    return np.where(left[classes] > 0, mass * scale[classes], source)


def _tilt_within(mass: FloatArray, slope: FloatArray, classes: IntArray) -> FloatArray | None:
    """The q closest to ``mass`` in KL with <slope, q> = 0 and every class as large as it is.

    In each class q ~ p exp(-theta slope), one theta for all; None if there is no such q.
    """
    from scipy.optimize import brentq

    kept = np.flatnonzero(mass > 0)
    p, g, label = mass[kept], slope[kept], np.unique(classes[kept], return_inverse=True)[1]
    g = g / (np.abs(g).max() or 1.0)
    size = np.bincount(label, p)
    if p @ g < 0:
        g = -g
    lowest = np.full(len(size), np.inf)
    np.minimum.at(lowest, label, g)
    if size @ lowest >= 0 and p @ g > 0:
        return None

    def tilted(theta: float) -> FloatArray:
        # relative to the lowest of its class, so that nothing overflows and something remains
        weight = p * np.exp(-theta * (g - lowest[label]))
        return np.asarray(weight * (size / np.bincount(label, weight))[label], np.float64)

    def remaining(theta: float) -> float:
        return float(tilted(theta) @ g)

    theta, reach = 0.0, 1.0
    if remaining(0.0) > 0:
        while remaining(reach) > 0:
            reach *= 2
            if reach > 1e12:
                return None
        theta = float(brentq(remaining, 0.0, reach, xtol=1e-15, rtol=1e-15 * 4))
    q = np.zeros(len(mass))
    q[kept] = tilted(theta)
    return q


@dataclass(frozen=True, eq=False)
class _Coupler:
    """Couples the target group with masses on its own rows."""

    mass: FloatArray
    cost: FloatArray
    metric: bool
    ties: FloatArray | None
    """What is added to the cost to decide between couplings that cost the same."""
    distance: FloatArray | None
    classes: IntArray
    """Rows that allowed moves connect have one number."""

    @classmethod
    def of(
        cls,
        task: RepairTask,
        fairness: Callable[[Any, Any], Any] | None,
        ties: Ties | Literal["any"],
    ) -> _Coupler:
        cost = task.cost.matrix(task.table, task.table)
        alike = task.table.distinct().inverse
        equal = (alike[:, None] == alike) & ~np.eye(len(alike), dtype=bool)
        cost = np.where(equal, np.inf, cost)  # another prediction for the same inputs is no edit
        distance = None
        if fairness is not None:
            distance = np.asarray(fairness(task.table.native, task.table.native), np.float64)
        allowed = np.isfinite(cost)
        classes = np.zeros(len(cost), np.int64)
        if not allowed.all():
            classes = _components(allowed)[: len(cost)]
        metric = ties == "stay" and _is_metric(task) and not equal.any()
        by_score = _score_moves(task, cost) if ties == "order" else None
        return cls(task.source.mass, cost, metric, by_score, distance, classes)

    def couple(self, mass: FloatArray) -> Coupling:
        cost = self.cost if self.ties is None else self.cost + self.ties
        problem = TransportProblem(self.mass, mass, cost, metric=self.metric)
        if self.distance is None:
            coupling = solve_exact(problem)
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


def _score_moves(task: RepairTask, cost: FloatArray) -> FloatArray:
    """Squared changes of score, on a scale too small to outweigh a difference of costs."""
    score = task.source.score
    if score is None:
        raise DataError(
            "ties",
            "must be 'stay' for a model of labels only",
            "got 'order'",
            "It gives no scores to keep in order.",
        )
    apart = np.subtract.outer(score, score) ** 2
    dearest = float(cost[np.isfinite(cost)].max())
    return np.asarray(apart * (_TIE_BREAK * dearest / (apart.max() or 1.0)), np.float64)


def _is_metric(task: RepairTask) -> bool:
    """Whether no detour is cheaper, and allowed: C_ij <= C_ik + C_kj.

    Immutable and one-way features keep that (a forbidden move has no allowed detour); a limit on
    edits does not, nor does a callable vouch for it. Squared L2 is a weighted L1 where every
    coordinate has two values.
    """
    cost = task.cost.cost
    if cost.max_edits is not None or cost.forbidden is not None:
        return False
    if cost.kind == "squared_l2":
        places = task.cost.place(task.table)
        return all(len(np.unique(coordinate)) <= 2 for coordinate in places.T)
    return cost.kind in ("l1", "l2")


@dataclass(frozen=True, eq=False)
class _Step:
    """Where the path is at M(Q) = aim, and what people experience there."""

    aim: float
    law: Law
    excess: float
    """The realised disparity less what may remain of it."""
    unmet: float = 0.0
    feasible: bool = True

    @property
    def closed(self) -> bool:
        return self.feasible and abs(self.excess) <= MARGINALS


@dataclass(frozen=True, eq=False)
class _Walk:
    """Goes along a path of masses and couples each with the group as it is."""

    task: RepairTask
    disparity: Disparity
    path: _Path
    coupler: _Coupler

    def realised(self, law: Law | None) -> float:
        """The disparity of people who keep their outcomes; of the group as it is without a law."""
        decision = self.task.source.decision
        gaps = [gap.gap(decision if law is None else law @ decision) for gap in self.task.gaps]
        if isinstance(self.disparity, Combination):
            return float(np.dot([weight for weight, _ in self.disparity.parts], gaps))
        return gaps[0]

    def excess(self, law: Law) -> float:
        return self.realised(law) - (1 - self.task.level) * self.realised(None)

    def to(self, aim: float) -> _Step | None:
        """The step to M(Q) = aim; None if nothing that may be reached is there."""
        mass = self.path.at(aim)
        step = None if mass is None else self.with_mass(mass, aim)
        return step if step is None or step.feasible else None

    def with_mass(self, mass: FloatArray, aim: float = 0.0) -> _Step:
        """The step to some masses, the parts of the group keeping their sizes."""
        kept = _within(mass, self.coupler.mass, self.coupler.classes)
        coupling = self.coupler.couple(kept)
        law = coupling.law()
        feasible = coupling.status.solved or self.coupler.distance is None
        return _Step(aim, law, self.excess(law), float(coupling.unmet.sum()), feasible)

    def until_closed(self) -> _Step:
        """Go on until the excess is 0; if it never is, as far as there is a way."""
        near = self._start()
        if not near.feasible or near.excess == 0:
            return near
        sign, stride, edge, best = np.sign(near.excess), abs(near.excess), None, near
        for _ in range(60):
            aim = self.path.start - sign * stride if edge is None else (near.aim + edge) / 2
            step = self.to(aim)
            if step is None:
                edge = aim
            elif sign * step.excess <= 0:
                return self._between(near, step)
            else:
                near, stride = step, 1.5 * stride
                best = min(best, near, key=lambda one: abs(one.excess))
            if edge is not None and abs(near.aim - edge) < 1e-9:
                break
        end = None if edge is None else self.path.end(edge)
        if end is None or edge is None:
            return best
        step = self.with_mass(end, edge)
        if step.feasible and sign * step.excess <= 0:
            return self._between(near, step)
        return min(best, step, key=lambda one: abs(one.excess) if one.feasible else np.inf)

    def _start(self) -> _Step:
        """Everybody as they are, or as near to it as fairness among them allows."""
        from scipy.sparse import eye_array

        if self.coupler.distance is not None:
            return self.with_mass(self.coupler.mass, self.path.start)
        law = eye_array(len(self.coupler.mass), format="csr")
        return _Step(self.path.start, law, self.excess(law))

    def _between(self, near: _Step, far: _Step) -> _Step:
        """Narrow down where the excess changes sign, then mix the two ends so that it is 0.

        The mixture couples the group with the mixture of the ends' masses. Couplings change in
        jumps, so no single one need have an excess of 0.
        """
        from scipy.optimize import brentq

        # a fair coupling takes seconds; any mixture of two is fair, so few will do
        rounds = 40 if self.coupler.distance is None else 2
        weight_near = weight_far = 1.0
        for _ in range(rounds):
            if abs(near.aim - far.aim) <= 1e-7 or far.excess == 0:
                break
            # false position, an end that stays counting half as much each time (Illinois)
            a, b = weight_near * near.excess, weight_far * far.excess
            share = min(max(a / (a - b), 0.02), 0.98)
            step = self.to(near.aim + share * (far.aim - near.aim))
            if step is None:
                break
            if step.excess * near.excess > 0:
                near, weight_near, weight_far = step, 1.0, weight_far / 2
            else:
                far, weight_far, weight_near = step, 1.0, weight_near / 2
        if far.excess == 0:
            return far

        def mixed(share: float) -> Law:
            return (1 - share) * near.law + share * far.law

        share = float(brentq(lambda part: self.excess(mixed(part)), 0.0, 1.0, xtol=1e-15))
        law = mixed(share)
        unmet = (1 - share) * near.unmet + share * far.unmet
        return _Step(near.aim + share * (far.aim - near.aim), law, self.excess(law), unmet)


def _finished(
    task: RepairTask,
    step: _Step,
    coupler: _Coupler,
    *,
    unseen: Literal["nearest", "stay"] = "nearest",
) -> Plan:
    """The plan that follows a law between the task's own rows."""
    status = task.done if step.closed else PlanStatus.REMAINS
    if not step.feasible:
        status = PlanStatus.INFEASIBLE
    law = step.law.tocsr()
    law.sort_indices()
    start, place = law.indptr.astype(np.int64), law.indices.astype(np.int64)
    row = np.repeat(np.arange(len(task.table)), np.diff(start))
    plan = CouplingPlan(
        **task.common(status, Outlook()),
        table=task.table,
        cost=task.cost,
        decision=task.source.decision,
        score=task.source.score,
        start=start,
        place=place,
        probability=law.data,
        price=coupler.cost[row, place],
        unseen=unseen,
    )
    return task.finished(plan, status, step.unmet)


# -------------------------------------------------------------------- to the letter


def paper(
    data: AuditData,
    *,
    disparity: str | Disparity,
    target: Hashable = None,
    baseline: Hashable = None,
    step_size: float = 0.1,
    stop: Stop = "tolerance",
    tolerance: float = 1e-3,
    max_iter: int = 500,
    outcome_model: Any = "logistic",
    random_state: int = 0,
) -> Plan:
    """The paper's repair: Algorithm 1 with resampling, then optimal transport by squared L2.

    Q is what the paper estimates it by: a dataset as large as the group's, drawn with the weights
    the descent ends with. Rows that the audit data lacks stay as they are. The gap aimed at is
    M(Q), and what remains for people who keep their outcomes is in the plan's outlook.

    The paper's own stopping rule, ``stop="paper"``, ends when the gap no longer falls, which noise
    can bring about in the first steps; by default the descent ends once it is within
    ``tolerance``, and its best weights are kept.

    >>> from fairmend import datasets, tabulate
    >>> X, y, s = datasets.example_one().sample(20_000, random_state=0)
    >>> audited = tabulate(datasets.example_one().decision, X, y, sensitive_features=s)
    >>> plan = paper(audited, disparity="sp")
    >>> plan.method, abs(plan.outlook.gap_after) < 0.02
    ('paper', True)
    """
    wanted = as_disparity(disparity)
    task = _task(
        data, wanted, method="paper", target=target, baseline=baseline,
        cost=Cost(kind="squared_l2"), outcome_model=outcome_model, random_state=random_state,
    )  # fmt: skip
    if task.nothing_to_close:
        return task.identity()
    task.warn_if_not_significant()
    found = counterfactual_data(
        data, disparity=wanted, method="descent", target=task.target, baseline=task.baseline,
        outcome_model=outcome_model, random_state=random_state, resample=True,
        step_size=step_size, stop=stop, tolerance=tolerance, max_iter=max_iter,
    )  # fmt: skip
    rng = np.random.default_rng(random_state)
    drawn = rng.multinomial(task.source.n, found.mass / found.mass.sum())
    coupler = _Coupler.of(task, None, ties="any")
    walk = _Walk(task, wanted, _Path(task, wanted, found, coupler.classes), coupler)
    return _finished(task, walk.with_mass(drawn / drawn.sum()), coupler, unseen="stay")
