"""L2 logistic regression on weighted distinct rows, with products of inputs, and its errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fairmend.data.columns import FloatArray, IntArray
from fairmend.data.limits import Coefficients, Finite, Places, alike
from fairmend.data.stored import stored
from fairmend.data.threads import one_thread
from fairmend.measure import special
from fairmend.measure.population import Tally

Pairs: TypeAlias = tuple[IntArray, IntArray]
"""Columns to be multiplied: the first ones, and the second ones."""
WIDE = 300
"""With more columns of numbers than this the logistic regression is left to scikit-learn."""
_NEWTON_STEPS = 100
_CELLS_AT_ONCE = 200_000
_NEAR = 1e-3
"""A step that gains less than this, a unit of weight, is in the bowl: no need to check it."""
EXACTLY = 1e-9
"""The gradient at which a fit ends, a unit of weight."""
ROUGHLY = 1e-6
"""Up to this gradient, a unit of weight, numbers of half the length will do."""
_MOST_ROUGHLY = 2e6
"""The same in a Hessian, up to so many people: its error must stay below the ridge."""
_LIFTS = (0.0, 1e-10, 1e-8, 1e-6, 1e-4)
_SLOW = 0.8
"""A step that leaves more than this of the gradient calls for a new Hessian."""


@contextmanager
def solving() -> Iterator[None]:
    """One thread while models are fitted, for the solver too, which is loaded when it is needed."""
    import scipy.linalg  # noqa: F401

    with one_thread():
        yield


def stacked(matrix: FloatArray, weight: FloatArray) -> tuple[FloatArray, IntArray, FloatArray]:
    """Each row once per outcome it was seen with, with that weight."""
    row, event = np.nonzero(weight > 0)
    return matrix[row], event, weight[row, event]


@stored("Logistic")
@dataclass(frozen=True, eq=False)
class Logistic:
    """P(event) = 1 / (1 + exp(-(intercept + x slope)))."""

    intercept: Finite
    slope: Coefficients

    def decision_function(self, matrix: FloatArray) -> FloatArray:
        return np.asarray(self.intercept + matrix @ self.slope, np.float64)

    @property
    def coefficients(self) -> FloatArray:
        """The intercept, then the slopes."""
        return np.asarray(np.r_[self.intercept, self.slope], np.float64)

    def predict_proba(self, matrix: FloatArray) -> FloatArray:
        return _both_chances(self.decision_function(matrix))


def _both_chances(margin: FloatArray) -> FloatArray:
    positive = special.expit(margin)
    return np.stack([1 - positive, positive], axis=1)


class PairDesign(NamedTuple):
    """An intercept, columns and products of them, as they are and for rough sums."""

    fine: FloatArray
    rough: NDArray[Any]
    """The same numbers in half the memory, where that can be."""

    @classmethod
    def of(cls, matrix: FloatArray, pairs: Pairs) -> PairDesign:
        fine = design_of(matrix, pairs)
        yes_or_no = ((matrix == 0) | (matrix == 1)).all()
        return cls(fine, fine.astype(np.float32) if yes_or_no else fine)


class LogisticFits:
    """L2 logistic regressions on the same rows, with other penalties or people.

    The rows are distinct, each with its weights; a penalty is scikit-learn's C.

    Newton's method on the rows' counts. A Hessian costs as much as very many gradients, so it is
    corrected on the way (BFGS), and a new one is made only where that is slow. Later fits start
    with the Hessian where the first one ended. A fold's is that less the rows that it leaves out,
    and its fit starts as far from everybody's as with the penalty before: two or three steps.

    >>> seen = np.array([[3.0, 1.0], [1.0, 3.0]])
    >>> fitted = LogisticFits(np.array([[0.0], [1.0]])).fit(1e6, seen)
    >>> fitted.predict_proba(np.array([[0.0], [1.0]]))[:, 1].round(4).tolist()
    [0.25, 0.75]
    """

    def __init__(
        self,
        matrix: FloatArray,
        design: PairDesign | None = None,
        parts: Sequence[IntArray] = (),
    ) -> None:
        """``design`` has an intercept and products of columns besides.

        ``parts`` are rows that fits will leave out, if these are all rows together and each once.
        """
        self._matrix = matrix
        self._wide = design is None and matrix.shape[1] > WIDE
        if design is not None:
            self._design, self._rough = design
        elif not self._wide:
            self._design = self._rough = design_of(matrix, None)
        self._parts = parts
        self._first: _Hessian | None = None
        self._solutions: list[tuple[Logistic, _Solution]] = []
        """Of everybody, one with each penalty."""
        self._folds: dict[int, _FoldFit] = {}
        """By the identity of their weights, which are kept there."""

    def fit(
        self,
        penalty: float,
        weight: FloatArray,
        *,
        start: Logistic | None = None,
        flat: float = EXACTLY,
    ) -> Logistic:
        """One of them, products last; it ends at a gradient, a unit of weight, below ``flat``."""
        if self._wide:
            return _by_scikit_learn(penalty, self._matrix, weight)
        solution, halves = self._solution(start), self._rough is not self._design
        for rough in (True, False) if halves and flat < ROUGHLY else (halves,):
            curvature = None if self._first is None else self._first.of(weight)
            enough = max(flat, ROUGHLY) if rough else flat
            solution = self._solved(penalty, weight, solution, curvature, enough, rough=rough)
            if rough:
                solution = _Solution(solution.beta, self._design @ solution.beta)
        fitted = Logistic(float(solution.beta[0]), solution.beta[1:])
        self._solutions.append((fitted, solution))
        return fitted

    def held_out(
        self, penalty: float, weight: FloatArray, rows: IntArray, *, start: Logistic, flat: float
    ) -> FloatArray:
        """What the fit to a fold's weights says of rows; ``start`` is everybody's fit."""
        if self._wide:
            fitted = _by_scikit_learn(penalty, self._matrix, weight)
            return fitted.predict_proba(self._matrix[rows])[:, 1]
        begin = everybody = self._solution(start)
        before = self._folds.get(id(weight))
        if before is not None:
            begin, curvature = before.solution.moved(before.everybody, everybody), before.curvature
        else:
            curvature = None if self._first is None else self._first.of(weight)
        solution = self._solved(penalty, weight, begin, curvature, flat, rough=True)
        self._folds[id(weight)] = _FoldFit(weight, curvature, everybody, solution)
        return np.asarray(special.expit(solution.log_odds[rows]), np.float64)

    def _solution(self, model: Logistic | None) -> _Solution:
        """A model with its log odds of the rows; without one that to start from."""
        if model is None:
            rows, columns = self._design.shape
            return _Solution(np.zeros(columns), np.zeros(rows))
        known = (solution for fitted, solution in self._solutions if fitted is model)
        return next(known, None) or _Solution(model.coefficients, self._design @ model.coefficients)

    def _solved(
        self,
        penalty: float,
        weight: FloatArray,
        start: _Solution,
        curvature: FloatArray | None,
        flat: float,
        *,
        rough: bool = False,
    ) -> _Solution:
        design = self._rough if rough else self._design
        kind: Any = design.dtype
        ridge = np.r_[0.0, np.full(design.shape[1] - 1, 1 / penalty)]
        total, events = weight[:, 0] + weight[:, 1], weight[:, 1].copy()
        people = float(total.sum())
        curved = self._rough if people <= _MOST_ROUGHLY else self._design

        def loss(at: FloatArray, log_odds: FloatArray) -> float:
            softplus = np.log1p(np.exp(-np.abs(log_odds))) + np.maximum(log_odds, 0.0)
            return float(total @ softplus - events @ log_odds + ridge @ at**2 / 2)

        beta, log_odds = start.beta, start.log_odds
        inverse, last = None if curvature is None else _Inverse(curvature, ridge), np.inf
        step = gradient = np.zeros(len(ridge))
        for _ in range(_NEWTON_STEPS):
            p = 0.5 + 0.5 * np.tanh(log_odds / 2)  # expit, only quicker
            missed = (total * p - events).astype(kind, copy=False)
            before, gradient = gradient, design.T @ missed + ridge * beta
            if np.abs(gradient).max() <= flat * people:
                break
            if inverse is not None and np.isfinite(last):
                inverse.correct(step, gradient - before)
            size = np.inf
            if inverse is not None:
                step = -inverse.times(gradient)
                size = -float(gradient @ step)
            if inverse is None or size > _SLOW**2 * last:
                inverse = _Inverse(_crossed(curved, total * p * (1 - p)), ridge)
                step = -inverse.times(gradient)
            last, change = size, design @ step.astype(kind, copy=False)
            if -gradient @ step > _NEAR * people:
                now = loss(beta, log_odds)
                while loss(beta + step, log_odds + change) > now and np.abs(step).max() > 1e-10:
                    step, change = step / 2, change / 2
            beta, log_odds = beta + step, log_odds + change
        if self._first is None:
            self._first = _Hessian(curved, total, p * (1 - p), self._parts)
        return _Solution(beta, log_odds)


@dataclass(frozen=True, eq=False)
class _Solution:
    """Coefficients, and the log odds of all rows."""

    beta: FloatArray
    log_odds: FloatArray

    def moved(self, before: _Solution, after: _Solution) -> _Solution:
        """By as much as another solution moved."""
        beta, log_odds = (
            getattr(self, name) + getattr(after, name) - getattr(before, name)
            for name in ("beta", "log_odds")
        )
        return _Solution(beta, log_odds)


@dataclass(frozen=True, eq=False)
class _FoldFit:
    """The last fit of a fold, beside that of everybody."""

    weight: FloatArray
    curvature: FloatArray | None
    everybody: _Solution
    solution: _Solution


@dataclass(frozen=True, eq=False)
class _Hessian:
    """X' diag(weight p (1-p)) X where a fit ended, for whichever of its people."""

    design: NDArray[Any]
    total: FloatArray
    """The weight of each row."""
    variance: FloatArray
    """p (1-p) of each row."""
    parts: Sequence[IntArray] = ()

    @cached_property
    def _of_parts(self) -> list[FloatArray]:
        weight = self.total * self.variance
        return [_crossed(self.design[rows], weight[rows]) for rows in self.parts]

    @cached_property
    def _of_all(self) -> FloatArray:
        if self.parts:
            return np.asarray(sum(self._of_parts), np.float64)
        return _crossed(self.design, self.total * self.variance)

    def of(self, weight: FloatArray) -> FloatArray | None:
        """Without the rows that some people lack; None if that takes as long as anew."""
        left_out = self.total - weight[:, 0] - weight[:, 1]
        at = np.flatnonzero(left_out)
        if 2 * len(at) > len(left_out) or (left_out < 0).any():
            return None
        if len(at) == 0:
            return self._of_all
        for rows, own in zip(self.parts, self._of_parts, strict=True):
            if np.array_equal(rows, at) and (weight[at] == 0).all():
                return self._of_all - own
        return self._of_all - _crossed(self.design[at], (left_out * self.variance)[at])


class _Inverse:
    """The inverse of a Hessian with its ridge, corrected for what steps changed (BFGS).

    It is only ever multiplied with gradients, which a Cholesky factor and the steps do sooner.
    """

    def __init__(self, curvature: FloatArray, ridge: FloatArray) -> None:
        from scipy.linalg.lapack import dpotrf

        hessian = curvature + np.diag(ridge + 1e-10)
        for lift in _LIFTS:  # rounding may leave it short of positive
            lifted = hessian if lift == 0 else hessian + np.diag(lift * np.diag(hessian))
            self._factor, failed = dpotrf(lifted, lower=True)
            if not failed:
                break
        self._corrections: list[tuple[FloatArray, FloatArray, float]] = []

    def correct(self, step: FloatArray, change: FloatArray) -> None:
        """Take in by how much a step changed the gradient."""
        along = float(step @ change)
        if along > 0:
            self._corrections.append((step, change, along))

    def times(self, gradient: FloatArray) -> FloatArray:
        """The product with a gradient, by the recursion of Nocedal."""
        from scipy.linalg.lapack import dpotrs

        product, shares = gradient, []
        for step, change, along in reversed(self._corrections):
            shares.append(float(step @ product) / along)
            product = product - shares[-1] * change
        product = dpotrs(self._factor, product, lower=True)[0]
        for step, change, along in self._corrections:
            product = product + (shares.pop() - float(change @ product) / along) * step
        return np.asarray(product, np.float64)


def design_of(matrix: FloatArray, pairs: Pairs | None) -> FloatArray:
    """An intercept, the columns, and the products of pairs of them, column by column."""
    rows, width = matrix.shape
    products = [] if pairs is None else list(zip(*pairs, strict=True))
    design = np.empty((1 + width + len(products), rows))
    design[0], design[1 : 1 + width] = 1.0, matrix.T
    columns = design[1 : 1 + width]
    for place, (first, second) in enumerate(products, start=1 + width):
        np.multiply(columns[first], columns[second], out=design[place])
    return design.T


def _crossed(design: NDArray[Any], weight: FloatArray) -> FloatArray:
    """X' diag(weight) X, a few rows at a time, so that these stay in the processor's cache."""
    rows, columns = design.shape
    root, total = np.sqrt(weight).astype(design.dtype)[:, None], np.zeros((columns, columns))
    for start in range(0, rows, step := max(1, _CELLS_AT_ONCE // columns)):
        part = design[start : start + step] * root[start : start + step]
        total += part.T @ part
    return total


def _by_scikit_learn(penalty: float, matrix: FloatArray, weight: FloatArray) -> Logistic:
    """The same for very many columns, where a Hessian would be expensive."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=penalty, solver="lbfgs", max_iter=1_000)
    fitted = model.fit(*stacked(matrix, weight))
    return Logistic(float(fitted.intercept_[0]), np.asarray(fitted.coef_[0], np.float64))


@stored("PairLogistic")
@dataclass(frozen=True, eq=False)
class PairLogistic:
    """A logistic regression on columns and on products of two of them."""

    first: Places
    second: Places
    model: Logistic

    def agrees(self) -> bool:
        return alike(self.first, self.second)

    def decision_function(self, matrix: FloatArray) -> FloatArray:
        design = design_of(matrix, (self.first, self.second))
        return np.asarray(design @ self.model.coefficients, np.float64)

    def predict_proba(self, matrix: FloatArray) -> FloatArray:
        return _both_chances(self.decision_function(matrix))


def row_space(matrix: FloatArray) -> FloatArray | None:
    """Directions that the rows span, where they are fewer than many columns; otherwise None.

    With an l2 penalty a slope never leaves them: the fit is the same, over as many numbers as there
    are rows.
    """
    if matrix.shape[1] <= max(WIDE, 4 * matrix.shape[0]):
        return None
    return np.asarray(np.linalg.qr(matrix.T)[0], np.float64)


def standard_error(
    model: Logistic | PairLogistic, matrix: FloatArray, tally: Tally, penalty: float
) -> FloatArray:
    """Delta-method standard error of each row's probability, p (1-p) sqrt(x' H^-1 V H^-1 x).

    H is the Hessian of the penalised likelihood at the fit, V the variance of its gradient: people
    who weigh double make four times the noise.
    """
    p = special.expit(model.decision_function(matrix))
    basis = row_space(matrix)
    if basis is not None:
        matrix = matrix @ basis
    design = design_of(
        matrix, (model.first, model.second) if isinstance(model, PairLogistic) else None
    )
    ridge = np.r_[0.0, np.full(design.shape[1] - 1, 1 / penalty)]
    slope = p * (1 - p)
    hessian = _crossed(design, tally.by_row * slope) + np.diag(ridge + 1e-12)
    solved = np.linalg.solve(hessian, design.T)
    spread = _crossed(design, tally.squared_by_row * slope)
    variance = np.einsum("ji,jk,ki->i", solved, spread, solved, optimize=True)
    return np.asarray(slope * np.sqrt(np.maximum(0.0, variance)), np.float64)
