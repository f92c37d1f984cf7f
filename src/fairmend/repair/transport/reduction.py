"""Only what must move is shipped: the common mass stays, and parts are solved one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from fairmend.data.columns import FloatArray, IntArray
from fairmend.repair.transport.prices import Prices
from fairmend.repair.transport.problem import (
    MARGINALS,
    OPTIMAL,
    Coupling,
    CouplingStatus,
    TransportProblem,
)

DUST = 1e-15
"""Masses below this are rounding."""


@dataclass(frozen=True, eq=False)
class Component:
    """Sources and sinks that allowed moves connect."""

    sources: IntArray
    sinks: IntArray
    supply: FloatArray
    demand: FloatArray
    prices: Prices

    @property
    def pairs(self) -> int:
        return len(self.sources) * len(self.sinks)


@dataclass(frozen=True, eq=False)
class Shipment:
    """How a part is shipped, and potentials u, v with u_i + v_j <= C_ij."""

    row: IntArray
    column: IntArray
    mass: FloatArray
    price: FloatArray
    unmet: FloatArray
    potential_from: FloatArray
    potential_to: FloatArray
    finished: bool = True
    solver: str = "no allowed move"

    @property
    def cost(self) -> float:
        return float(self.mass @ self.price)

    def bound(self, part: Component) -> float:
        """What shipping the part costs at least, by the potentials."""
        return float(self.potential_from @ part.supply + self.potential_to @ part.demand)

    @classmethod
    def nothing(cls, part: Component) -> Shipment:
        """Of a part from which no move is allowed."""
        nowhere, none = np.empty(0, np.int64), np.empty(0)
        stay = np.zeros(len(part.supply))
        return cls(nowhere, nowhere, none, none, part.supply, stay, none)


def couple(problem: TransportProblem, ship: Callable[[Component], Shipment]) -> Coupling:
    """The coupling whose parts are shipped in a given way; its status goes by its certificate."""
    p, q = problem.mass_from, problem.mass_to
    kept = np.zeros(len(p))
    if problem.metric:
        kept = np.minimum(p, q)
        kept = np.where(p - kept <= DUST, p, kept)
    excess = p - kept
    deficit = np.maximum(q - kept, 0.0) if problem.metric else q
    sources, sinks = np.flatnonzero(excess), np.flatnonzero(deficit > DUST)
    stay = np.flatnonzero(kept)
    rows, columns, masses, prices = [stay], [stay], [kept[stay]], [np.zeros(len(stay))]
    unmet, finished, solvers = np.zeros(len(p)), True, dict[str, None]()
    u, v = np.full(len(p), np.nan), np.full(len(q), np.nan)
    between = problem.prices.take(sources, sinks)
    for here, there in _connected(between):
        part = Component(
            sources[here], sinks[there], excess[sources[here]], deficit[sinks[there]],
            between if len(here) * len(there) == np.prod(between.shape) else
            between.take(here, there),
        )  # fmt: skip
        shipped = ship(part) if len(there) > 0 else Shipment.nothing(part)
        finished &= shipped.finished
        solvers[shipped.solver] = None
        rows.append(part.sources[shipped.row])
        columns.append(part.sinks[shipped.column])
        masses.append(shipped.mass)
        prices.append(shipped.price)
        unmet[part.sources] += shipped.unmet
        u[part.sources], v[part.sinks] = shipped.potential_from, shipped.potential_to
    row, column = np.concatenate(rows), np.concatenate(columns)
    order = np.lexsort((column, row))
    form = "excess to deficit" if problem.metric else "full problem"
    coupling = Coupling(
        problem, row[order], column[order], np.concatenate(masses)[order],
        np.concatenate(prices)[order], CouplingStatus.BOUNDED,
        f"{', '.join(solvers) or 'nothing to move'}; {form}", unmet,
    )  # fmt: skip
    bound, potential = _proved(problem, excess, deficit, u, v)
    coupling = replace(coupling, bound=bound, potential_to=potential)
    return replace(coupling, status=_status(coupling) if finished else CouplingStatus.FAILED)


def _proved(
    problem: TransportProblem, excess: FloatArray, deficit: FloatArray, u: FloatArray, v: FloatArray
) -> tuple[float, FloatArray]:
    """The lower bound of the whole problem, by potentials of what is shipped.

    With a metric cost f(x) = min_j (C_xj - v_j) over the sinks rises by no more than C_xy from y to
    x, so u = f, v = -f is feasible for all rows, and worth as much, because staying is free.
    """
    shipped = np.flatnonzero(~np.isnan(u)), np.flatnonzero(~np.isnan(v))
    bound = float(u[shipped[0]] @ excess[shipped[0]] + v[shipped[1]] @ deficit[shipped[1]])
    v = v.copy()
    if problem.metric:
        v[shipped[0]] = -u[shipped[0]]
        rest = np.flatnonzero(np.isnan(v) & (problem.mass_to > 0))
        if len(rest) > 0 and len(shipped[1]) > 0:
            to = v[shipped[1]]
            for rows, price in problem.prices.take(rest, shipped[1]).slabs():
                v[rest[rows]] = -(price - to).min(axis=1)
            v[np.isinf(v)] = 0.0  # parts in which nothing moves
    return bound, np.where(np.isnan(v), 0.0, v)


def _status(coupling: Coupling) -> CouplingStatus:
    """By what is measured on the coupling, not by what its solver says."""
    if not np.isfinite(coupling.price).all():
        return CouplingStatus.FAILED
    if coupling.unmet.sum() > MARGINALS:
        return CouplingStatus.INFEASIBLE
    if coupling.marginal_error > MARGINALS:
        return CouplingStatus.FAILED
    # where next to nothing moves, what rounding leaves of masses times prices is no gap
    prices = (coupling.price, np.asarray(coupling.potential_to))
    rounding = 100 * DUST * max(float(np.abs(one).max(initial=0.0)) for one in prices)
    optimal = coupling.gap <= OPTIMAL * coupling.cost + rounding
    return CouplingStatus.OPTIMAL if optimal else CouplingStatus.BOUNDED


def _connected(prices: Prices) -> Iterator[tuple[IntArray, IntArray]]:
    """Sources and sinks in parts between which every move is forbidden."""
    n, m = prices.shape
    if n == 0:
        return
    if m == 0 or not prices.forbids:
        yield np.arange(n), np.arange(m)
        return
    labels = components(prices)
    here, there = labels[:n], labels[n:]
    for label in np.unique(here):
        yield np.flatnonzero(here == label), np.flatnonzero(there == label)


def components(prices: Prices) -> IntArray:
    """Which rows, then which columns, hang together by allowed moves."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    n, m = prices.shape
    label = np.arange(n + m)
    for rows, price in prices.slabs():
        i, j = np.nonzero(np.isfinite(price))
        ends = label[rows.start + i], label[n + j]
        graph = coo_array((np.ones(len(i), np.int8), ends), shape=(n + m, n + m))
        _, component = connected_components(graph, directed=False)
        label = np.asarray(component, np.int64)[label]
    return label
