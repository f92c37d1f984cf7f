"""The cheapest coupling by the network simplex, over all moves or over few of them with a proof.

Few rows: POT's solver on the whole matrix. Many: on some arcs, those between neighbours at first.
The potentials of that answer price all other arcs, a slab at a time; arcs that would pay join, and
so on until none would. The answer is then the whole problem's, and its potentials prove it.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from fairmend.data.columns import FloatArray, IntArray
from fairmend.errors import require
from fairmend.repair.transport.problem import Coupling, TransportProblem
from fairmend.repair.transport.reduction import DUST, Component, Shipment, couple

DENSE_PAIRS = 250_000
"""Up to so many pairs of sources and sinks the whole matrix is quicker."""
_MOST_PIVOTS = 100_000_000
_MOST_ROUNDS = 100
# Each row and each column starts with an arc to the nearest in each of this many groups.
_GROUPS_AT_FIRST = 16
_GROUPS = 8
# Arcs that nearly pay join as well: they would be next. A share of the mean price.
_NEARLY = 0.02
# Of the cost: far below what is promised, far above what rounding adds up to.
_PROVEN = 1e-11


class ArcMemory:
    """Arcs that mattered before, for problems over the same rows with other masses.

    They only save time: what they leave out is priced like any other arc.
    """

    def __init__(self) -> None:
        self._row = self._column = np.empty(0, np.int64)

    def between(self, part: Component) -> tuple[IntArray, IntArray]:
        """Those between a part's sources and sinks, numbered as there."""
        ends = []
        for arc, mine in ((self._row, part.sources), (self._column, part.sinks)):
            place = np.full(max(int(arc.max(initial=0)), int(mine.max())) + 1, -1)
            place[mine] = np.arange(len(mine))
            ends.append(place[arc])
        inside = (ends[0] >= 0) & (ends[1] >= 0)
        return ends[0][inside], ends[1][inside]

    def learn(self, part: Component, row: IntArray, column: IntArray) -> None:
        """Replace what is remembered between a part's rows."""
        outside = ~(np.isin(self._row, part.sources) & np.isin(self._column, part.sinks))
        self._row = np.r_[self._row[outside], part.sources[row]]
        self._column = np.r_[self._column[outside], part.sinks[column]]


def solve_exact(problem: TransportProblem, memory: ArcMemory | None = None) -> Coupling:
    """The cheapest coupling, with a certificate.

    With a metric cost the common mass min(p, q) stays in place and only the excess is shipped to
    the deficit: the same cost, a smaller problem, and as few people moved as can be. Parts that no
    allowed move connects are solved one by one. Forbidden moves are priced out of reach and then
    taken out: where some remain the problem is infeasible, as little as possible is left undone,
    and `Coupling.unmet` says whose. Up to 250,000 pairs of rows are solved as one matrix, more by
    sparse arcs, in memory that grows with the rows and not with their pairs.

    >>> line = np.abs(np.subtract.outer([0.0, 1.0, 2.0], [0.0, 1.0, 2.0]))
    >>> best = solve_exact(TransportProblem([2, 1, 0], [1, 1, 1], line, metric=True))
    >>> best.status.name, round(best.cost, 9), best.row.tolist(), best.column.tolist()
    ('OPTIMAL', 0.666666667, [0, 0, 1], [0, 2, 1])
    >>> abs(best.gap) < 1e-12
    True
    """
    return couple(problem, partial(ship_exactly, memory=memory or ArcMemory()))


def ship_exactly(part: Component, memory: ArcMemory) -> Shipment:
    """As much as can be carried along allowed arcs, and that as cheaply as can be."""
    network = _Network.of(part)
    if part.pairs > DENSE_PAIRS:
        return _by_sparse_arcs(part, network, memory)
    price = np.minimum(part.prices.matrix(), network.out_of_reach)
    flow = network.over_all(price)
    u = (price - flow.potential_to).min(axis=1)
    return replace(flow, potential_from=u, solver="network simplex (POT) on all arcs")


def _by_sparse_arcs(part: Component, network: _Network, memory: ArcMemory) -> Shipment:
    n, m = part.prices.shape

    def priced(arcs: IntArray) -> FloatArray:
        return np.minimum(part.prices.at(arcs // m, arcs % m), network.out_of_reach)

    row, column = memory.between(part)
    if len(row) < n + m:
        row, column, _, _ = _paying(network, np.zeros(n), np.zeros(m), _GROUPS_AT_FIRST, np.inf)
    i, j, _ = along_both(part.supply, part.demand)  # so that there is a way for all of it
    arcs = np.unique(np.r_[row * m + column, i * m + j])
    price = priced(arcs)
    rounds = 0
    while rounds < _MOST_ROUNDS:
        rounds += 1
        flow = network.over_some(arcs // m, arcs % m, price)
        u, v = flow.potential_from, flow.potential_to
        nearly = _NEARLY * flow.cost / float(part.supply.sum())
        row, column, of_row, _ = _paying(network, u, v, _GROUPS, nearly)
        flow = replace(flow, potential_from=u + of_row)  # now feasible: they give a bound
        new = _not_among(row * m + column, arcs)
        proven = flow.cost - flow.bound(part) <= _PROVEN * flow.cost
        if proven or len(new) == 0 or not flow.finished:
            break
        order = np.argsort(np.r_[arcs, new], kind="stable")
        arcs, price = np.r_[arcs, new][order], np.r_[price, priced(new)][order]
    memory.learn(part, arcs // m, arcs % m)
    # each column's potential as high as it goes, so that they prove the same of the whole problem
    _, _, _, of_column = _paying(network, flow.potential_from, v, 1, -np.inf)
    how = f"network simplex (POT) on {len(arcs):,} of {n * m:,} arcs, all priced, rounds: {rounds}"
    return replace(flow, potential_to=v + of_column, solver=how)


def _not_among(some: IntArray, memory: IntArray) -> IntArray:
    """The distinct ones that are not among others, which are sorted.

    >>> _not_among(np.array([4, 1, 4, 2]), np.array([1, 3])).tolist()
    [2, 4]
    """
    some = np.sort(some)
    place = np.minimum(np.searchsorted(memory, some), len(memory) - 1)
    return np.asarray(some[(memory[place] != some) & np.r_[True, some[1:] != some[:-1]]], np.int64)


def _paying(
    network: _Network, u: FloatArray, v: FloatArray, groups: int, below: float
) -> tuple[IntArray, IntArray, FloatArray, FloatArray]:
    """Arcs with C_ij - u_i - v_j below a bound, and the least of that in each row and column.

    Of a row the best in each group of columns is taken, of a column the best of all rows.
    """
    prices = network.part.prices
    n, m = prices.shape
    edges = np.linspace(0, m, min(groups, m) + 1).astype(np.int64)
    of_row, of_column, best = np.empty(n), np.full(m, np.inf), np.zeros(m, np.int64)
    rows, columns = [], []
    for some, price in prices.slabs():
        reduced = np.minimum(price, network.out_of_reach, out=price) if prices.forbids else price
        np.subtract(reduced, v, out=reduced)
        np.subtract(reduced, u[some, None], out=reduced)
        here, least = np.arange(len(reduced)), np.full(len(reduced), np.inf)
        for start, stop in pairwise(edges):
            column = start + reduced[:, start:stop].argmin(axis=1)
            value = reduced[here, column]
            least = np.minimum(least, value)
            pays = np.flatnonzero(value < below)
            rows.append(some.start + pays)
            columns.append(column[pays])
        of_row[some] = least
        least = reduced.min(axis=0)
        better = np.flatnonzero((least < of_column) & (least < below))
        best[better] = some.start + reduced[:, better].argmin(axis=0)
        of_column = np.minimum(of_column, least)
    pays = np.flatnonzero(of_column < below)
    return np.concatenate([*rows, best[pays]]), np.concatenate([*columns, pays]), of_row, of_column


def along_both(supply: FloatArray, demand: FloatArray) -> tuple[IntArray, IntArray, FloatArray]:
    """Everything shipped, both sides in order: rows, columns and masses, at most n + m - 1.

    >>> along_both(np.array([2.0, 1.0]), np.array([1.0, 1.0, 1.0]))
    (array([0, 0, 1]), array([0, 1, 2]), array([1., 1., 1.]))
    """
    total = float(supply.sum())
    if total == 0 or demand.sum() == 0:
        nowhere = np.empty(0, np.int64)
        return nowhere, nowhere, np.empty(0)
    ends = [np.cumsum(side) * (total / side.sum()) for side in (supply, demand)]
    start = np.unique(np.r_[0.0, ends[0][:-1], ends[1][:-1]])
    row, column = (
        np.minimum(np.searchsorted(end, start, side="right"), len(end) - 1) for end in ends
    )
    return row, column, np.diff(np.r_[start, total])


_Solved = tuple[FloatArray, FloatArray, bool]
"""Potentials of both sides, and whether the solver came to its end."""


@dataclass(frozen=True, eq=False)
class _Network:
    """A part's sources and sinks, and a dummy for what one side has too much."""

    part: Component
    supply: FloatArray
    demand: FloatArray
    dummy_row: IntArray
    dummy_column: IntArray
    out_of_reach: float
    """No cycle of allowed arcs saves as much, so what costs this carries only what nothing else
    can; inf where everything is allowed and can be shipped."""

    @classmethod
    def of(cls, part: Component) -> _Network:
        n, m = part.prices.shape
        a, b = part.supply, part.demand
        row = column = np.empty(0, np.int64)
        surplus = float(a.sum() - b.sum())
        if surplus > n * DUST:
            b, row, column = np.r_[b, surplus], np.arange(n), np.full(n, m)
        elif surplus < -m * DUST:
            a, row, column = np.r_[a, -surplus], np.full(m, n), np.arange(m)
        out_of_reach = np.inf
        if part.prices.forbids or len(row) > 0:
            out_of_reach = (n + m + 2) * (part.prices.dearest() or 1.0)
        return cls(part, a, b * (a.sum() / b.sum()), row, column, out_of_reach)

    def over_all(self, price: FloatArray) -> Shipment:
        """The cheapest flow over the arcs of a whole matrix."""
        n, m = price.shape
        if len(self.dummy_row) > 0:
            larger = np.full((len(self.supply), len(self.demand)), self.out_of_reach)
            larger[:n, :m] = price
            price = larger
        flow, solved = self._solved(price)
        row, column = np.nonzero(flow)
        return self._shipment(row, column, flow[row, column], price[row, column], solved)

    def over_some(self, row: IntArray, column: IntArray, price: FloatArray) -> Shipment:
        """The cheapest flow over some arcs."""
        from scipy.sparse import coo_array

        row, column = np.r_[row, self.dummy_row], np.r_[column, self.dummy_column]
        price = np.r_[price, np.full(len(self.dummy_row), self.out_of_reach)]
        shape = (len(self.supply), len(self.demand))
        flow, solved = self._solved(coo_array((price, (row, column)), shape=shape))
        used = np.flatnonzero(flow.data)
        i, j = flow.row[used].astype(np.int64), flow.col[used].astype(np.int64)
        arc = row * shape[1] + column
        order = np.argsort(arc)
        paid = price[order[np.searchsorted(arc[order], i * shape[1] + j)]]
        return self._shipment(i, j, flow.data[used], paid, solved)

    def _solved(self, price: Any) -> tuple[Any, _Solved]:
        ot = require("ot", extra="transport", why="optimal transport")
        with warnings.catch_warnings():  # its status is read from the log
            warnings.simplefilter("ignore")
            flow, log = ot.emd(
                self.supply, self.demand, price,
                numItermax=_MOST_PIVOTS, log=True, center_dual=False,
            )  # fmt: skip
        n, m = self.part.prices.shape
        return flow, (log["u"][:n], log["v"][:m], log["warning"] is None)

    def _shipment(
        self, row: IntArray, column: IntArray, mass: FloatArray, price: FloatArray, solved: _Solved
    ) -> Shipment:
        """The flow along allowed arcs; what went another way was not carried."""
        n, m = self.part.prices.shape
        kept = np.flatnonzero(price < self.out_of_reach)
        row, column, mass = row[kept], column[kept], mass[kept]
        unmet = self.part.supply - np.bincount(row, mass, n)
        unmet[unmet <= 10 * DUST * max(n, m)] = 0.0
        return Shipment(row, column, mass, price[kept], unmet, *solved)
