"""A coupling near the cheapest where the simplex would take too long: Sinkhorn's iterations.

They find the cheapest coupling with a price eps on how far it is from independence,

    mass_ij = p_i q_j exp((u_i + v_j - C_ij) / eps),

eps falling step by step to a share of the mean price. A pass goes once over all pairs, a slab at a
time, with PyTorch on a GPU where it sees one, else with NumPy. Each row's largest entries are
kept and scaled to the marginals; what is then amiss is moved, so that they hold exactly (after
Altschuler, Weed and Rigollet, 2017). The potentials bound the least cost from below.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from functools import partial
from typing import Any, Literal

import numpy as np

from fairmend.data.columns import FloatArray, IntArray
from fairmend.errors import DataError, require
from fairmend.repair.transport.prices import SLAB, PointPrices, Prices
from fairmend.repair.transport.problem import Coupling, TransportProblem
from fairmend.repair.transport.reduction import Component, Shipment, couple
from fairmend.repair.transport.simplex import along_both

Backend = Literal["numpy", "torch"]

BLUR = 0.01
"""The last eps, as a share of the mean price of random pairs."""
# Passes at each eps, and at most at the last.
_PASSES, _LAST_PASSES = 10, 100
_COOLING = 0.5
# How far, summed over all columns, the marginals may be off before they are made exact.
_CLOSE = 1e-3
# Entries kept of a row, and of a column.
_OF_ROW, _OF_COLUMN = 32, 8
_SCALINGS = 500
_GPU_SLAB = 50_000_000
"""Entries at once on a GPU, which smaller slabs would leave idle."""
_TINY = 1e-300


def solve_entropic(
    problem: TransportProblem, *, blur: float = BLUR, backend: Backend | None = None
) -> Coupling:
    """A coupling with exact marginals whose cost is near the least; its `gap` says how near.

    ``blur`` is the last eps, relative to the mean price: less is nearer and takes longer. The
    backend is PyTorch (extra ``gpu``) where it sees a GPU and prices are distances, else NumPy.
    Where moves are forbidden use `solve_exact`, which knows what cannot be carried.

    >>> rng = np.random.default_rng(0)
    >>> points = rng.normal(size=(60, 2))
    >>> prices = PointPrices(points, points, "l1")
    >>> problem = TransportProblem(rng.random(60), rng.random(60), prices, metric=True)
    >>> best = solve_entropic(problem, backend="numpy")
    >>> best.status.name, 0 <= best.gap < 0.1 * best.cost, best.marginal_error < 1e-12
    ('BOUNDED', True, True)
    """
    return couple(problem, partial(ship_entropically, blur=blur, backend=backend))


def ship_entropically(
    part: Component, *, blur: float = BLUR, backend: Backend | None = None
) -> Shipment:
    """Everything, at nearly the least cost."""
    if part.prices.forbids:
        raise DataError("cost", "must allow every move for the entropic solver", "some are not",
                        "Use solve_exact.")  # fmt: skip
    total = float(part.supply.sum())
    a, b = part.supply / total, part.demand / part.demand.sum()
    slabs = _slabs(part.prices, backend)
    v, eps, amiss = _sinkhorn(part.prices, slabs, a, b, blur)
    row, column, mass = _rounded(*_largest(slabs, a, b, v, eps), a, b)
    u, v = slabs.tight(v)
    solver = (
        f"entropic ({slabs.name}), eps {blur:g} of the mean price, marginals {amiss:.0e} off "
        "before they were made exact"
    )
    price = part.prices.at(row, column)
    return Shipment(row, column, mass * total, price, np.zeros(len(a)), u, v, solver=solver)


def _sinkhorn(
    prices: Prices, slabs: _Slabs, a: FloatArray, b: FloatArray, blur: float
) -> tuple[FloatArray, float, float]:
    """Potentials of the columns, the eps they belong to, and how far the marginals are off."""
    rng = np.random.default_rng(0)
    mean = float(prices.at(rng.choice(len(a), 10_000, p=a), rng.choice(len(b), 10_000, p=b)).mean())
    eps, last = mean or 1.0, blur * (mean or 1.0)
    v, amiss = np.zeros(len(b)), np.inf
    while True:
        for _ in range(_LAST_PASSES if eps == last else _PASSES):
            arrives = slabs.arrivals(a, np.log(b), v, eps)
            amiss = float(np.abs(arrives - b).sum())
            if amiss <= _CLOSE:
                break
            v = v + eps * np.log(b / np.maximum(arrives, _TINY))
        if eps == last:
            return v, eps, amiss
        eps = max(_COOLING * eps, last)


def _largest(
    slabs: _Slabs, a: FloatArray, b: FloatArray, v: FloatArray, eps: float
) -> tuple[IntArray, IntArray, FloatArray]:
    """The entropic coupling's largest entries of every row and column."""
    row, column, share = slabs.largest(v + eps * np.log(b), eps)
    arc, first = np.unique(row * len(b) + column, return_index=True)
    return arc // len(b), arc % len(b), (a[row] * share)[first]


def _rounded(
    row: IntArray, column: IntArray, mass: FloatArray, a: FloatArray, b: FloatArray
) -> tuple[IntArray, IntArray, FloatArray]:
    """Entries scaled to the marginals; what is still amiss goes along both sides in order."""

    def of_row() -> FloatArray:
        return np.bincount(row, mass, len(a)).astype(np.float64)

    def of_column() -> FloatArray:
        return np.bincount(column, mass, len(b)).astype(np.float64)

    for _ in range(_SCALINGS):
        mass = mass * (b / np.maximum(of_column(), _TINY))[column]
        sums = of_row()
        if np.abs(sums - a).sum() <= 1e-6:
            break
        mass = mass * (a / np.maximum(sums, _TINY))[row]
    mass = mass * np.minimum(1.0, a / np.maximum(of_row(), _TINY))[row]
    mass = mass * np.minimum(1.0, b / np.maximum(of_column(), _TINY))[column]
    i, j, rest = along_both(np.maximum(a - of_row(), 0.0), np.maximum(b - of_column(), 0.0))
    row, column, mass = np.r_[row, i], np.r_[column, j], np.r_[mass, rest]
    there = mass > 0
    return row[there], column[there], mass[there]


def _slabs(prices: Prices, backend: Backend | None) -> _Slabs:
    """Where the passes run: PyTorch on request or where it sees a GPU, else NumPy."""
    points = isinstance(prices, PointPrices)
    if backend == "torch" and not points:
        raise DataError("backend", "must be 'numpy' where prices are no distances between points",
                        "got 'torch'", "Leave it out.")  # fmt: skip
    if backend is None and points and importlib.util.find_spec("torch") is not None:
        torch = require("torch", extra="gpu", why="transport on a GPU")
        backend = "torch" if torch.cuda.is_available() else None
    if backend == "torch":
        assert isinstance(prices, PointPrices)
        return _TorchSlabs(prices)
    return _Slabs(prices)


class _Slabs:
    """The prices slab by slab as arrays of NumPy, and what passes over them give."""

    name = "NumPy"
    xp: Any = np
    """The module whose functions the arrays obey."""

    def __init__(self, prices: Prices) -> None:
        self._prices, self._shape = prices, prices.shape

    def _all(self) -> Iterator[tuple[slice, Any]]:
        """Slabs, each an array that may be changed."""
        return self._prices.slabs()

    def _put(self, array: FloatArray) -> Any:
        """An array where the slabs are."""
        return array

    def _get(self, array: Any) -> Any:
        """An array of NumPy."""
        return array

    def _top(self, entries: Any, k: int) -> IntArray:
        """Where each row's k largest are."""
        return np.asarray(np.argpartition(-entries, k - 1, axis=1)[:, :k], np.int64)

    def arrivals(self, a: FloatArray, log_b: FloatArray, v: FloatArray, eps: float) -> FloatArray:
        """What arrives at each column once the rows' potentials fit the columns'."""
        weight, lift = self._put(a), self._put(v / eps + log_b)
        arrives = self._put(np.zeros(self._shape[1]))
        for rows, price in self._all():
            entries, sums = self._row_shares(price, lift, eps)
            arrives += (weight[rows] / sums) @ entries
        return np.asarray(self._get(arrives), np.float64)

    def _row_shares(self, price: Any, lift: Any, eps: float) -> tuple[Any, Any]:
        """exp(lift_j - C_ij / eps) up to a factor for each row, and its sums over the row."""
        price *= -1 / eps
        price += lift
        price -= self.xp.amax(price, 1)[:, None]
        entries = self.xp.exp(price)
        return entries, entries.sum(1)

    def largest(self, lift: FloatArray, eps: float) -> tuple[IntArray, IntArray, FloatArray]:
        """Rows, columns and shares of their row: of each row the largest, and of each column."""
        n, m = self._shape
        up = self._put(lift / eps)
        most, at = np.zeros((_OF_COLUMN, m)), np.zeros((_OF_COLUMN, m), np.int64)
        entries_kept = []
        for rows, price in self._all():
            entries, sums = self._row_shares(price, up, eps)
            entries /= sums[:, None]
            here = np.arange(rows.start, rows.stop)
            column = self._top(entries, min(_OF_ROW, m))
            local = np.repeat(np.arange(len(here)), column.shape[1])
            flat = column.ravel()
            entries_kept.append((rows.start + local, flat, self._get(entries[local, flat])))
            best = self._get(entries.argmax(0))
            value = self._get(entries[best, np.arange(m)])
            group = rows.start * _OF_COLUMN // n
            better = value > most[group]
            most[group, better], at[group, better] = value[better], rows.start + best[better]
        group, column = np.nonzero(most)
        entries_kept.append((at[group, column], column, most[group, column]))
        row, column, share = (np.concatenate(parts) for parts in zip(*entries_kept, strict=True))
        return row, column, share

    def tight(self, v: FloatArray) -> tuple[FloatArray, FloatArray]:
        """u_i = min_j (C_ij - v_j), then v_j = min_i (C_ij - u_i): feasible, and none can rise."""
        there, u = self._put(v), []
        for _, price in self._all():
            u.append(self._get(self.xp.amin(price - there, 1)))
        potential = np.concatenate(u)
        here, least = self._put(potential), self._put(np.full(self._shape[1], np.inf))
        for rows, price in self._all():
            least = self.xp.minimum(least, self.xp.amin(price - here[rows, None], 0))
        return potential, np.asarray(self._get(least), np.float64)


class _TorchSlabs(_Slabs):
    """The same as arrays of PyTorch, on a GPU where it sees one."""

    def __init__(self, prices: PointPrices) -> None:
        super().__init__(prices)
        self.xp = require("torch", extra="gpu", why="transport with PyTorch")
        self._device = "cuda" if self.xp.cuda.is_available() else "cpu"
        self.name = f"PyTorch on {self._device}"
        self._kind = prices.kind
        self._here, self._there = self._put(prices.here), self._put(prices.there)

    def _all(self) -> Iterator[tuple[slice, Any]]:
        n, m = self._shape
        height = max(1, (_GPU_SLAB if self._device == "cuda" else SLAB) // m)
        for start in range(0, n, height):
            rows = slice(start, min(start + height, n))
            yield rows, self._distances(self._here[rows])

    def _distances(self, here: Any) -> Any:
        """Feature by feature: `cdist` takes ten times as long, and products are coarse near 0."""
        total = self.xp.zeros((len(here), len(self._there)), dtype=here.dtype, device=self._device)
        for one, other in zip(here.T, self._there.T, strict=True):
            step = one[:, None] - other
            total += step.abs_() if self._kind == "l1" else step.square_()
        return total.sqrt_() if self._kind == "l2" else total

    def _put(self, array: FloatArray) -> Any:
        return self.xp.from_numpy(np.ascontiguousarray(array)).to(self._device, copy=True)

    def _get(self, array: Any) -> Any:
        return array.cpu().numpy()

    def _top(self, entries: Any, k: int) -> IntArray:
        return np.asarray(self._get(entries.topk(k, 1).indices), np.int64)
