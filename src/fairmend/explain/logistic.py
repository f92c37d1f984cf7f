"""L2 logistic regression on weighted distinct rows, with products of inputs, and its errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from fairmend.data.columns import FloatArray, IntArray
from fairmend.data.limits import Coefficients, Finite, Places, alike
from fairmend.data.stored import stored
from fairmend.measure import special
from fairmend.measure.population import Tally

Pairs: TypeAlias = tuple[IntArray, IntArray]
"""Columns to be multiplied: the first ones, and the second ones."""
WIDE = 300
"""With more columns of numbers than this the logistic regression is left to scikit-learn."""
_NEWTON_STEPS = 100
_NEAR = 1e-3
"""A step that gains less than this, a unit of weight, is in the bowl: no need to check it."""
_SLOW = 0.8
"""A step that leaves more than this of the gradient calls for a new Hessian."""


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


def logistic_regression(
    penalty: float, matrix: FloatArray, weight: FloatArray, *, flat: float = 1e-9
) -> Logistic:
    """The l2 logistic regression on weighted distinct rows; ``penalty`` is scikit-learn's C.

    >>> seen = np.array([[3.0, 1.0], [1.0, 3.0]])
    >>> fitted = logistic_regression(1e6, np.array([[0.0], [1.0]]), seen)
    >>> fitted.predict_proba(np.array([[0.0], [1.0]]))[:, 1].round(4).tolist()
    [0.25, 0.75]
    """
    return LogisticFits(matrix).fit(penalty, weight, flat=flat)


class LogisticFits:
    """L2 logistic regressions on the same rows, with other penalties or people.

    Newton's method on the rows' counts. A Hessian costs as much as very many gradients, so each fit
    starts with that of the fit before and corrects it on the way (BFGS); a new one is made only
    where that is slow. A fold's fit that starts at everybody's needs none.
    """

    def __init__(self, matrix: FloatArray, pairs: Pairs | None = None) -> None:
        """With products of ``pairs`` of columns besides."""
        self._matrix = matrix
        columns = matrix.shape[1] + (0 if pairs is None else len(pairs[0]))
        self._wide = columns > WIDE
        if not self._wide:
            self._design = _design(matrix, pairs)
        self._curvature: FloatArray | None = None
        """X' diag(p (1-p)) X a unit of weight, as it was when last computed."""
        self._inverses: dict[float, FloatArray] = {}
        """By penalty the inverse of the Hessian a unit of weight, where its first fit ended."""

    def fit(
        self,
        penalty: float,
        weight: FloatArray,
        *,
        start: Logistic | None = None,
        flat: float = 1e-9,
    ) -> Logistic:
        """One of them, products last; it ends at a gradient, a unit of weight, below ``flat``."""
        if self._wide:
            return _by_scikit_learn(penalty, self._matrix, weight)
        beta = self._solved(penalty, weight, None if start is None else start.coefficients, flat)
        return Logistic(float(beta[0]), beta[1:])

    def _solved(
        self, penalty: float, weight: FloatArray, start: FloatArray | None, flat: float
    ) -> FloatArray:
        design = self._design
        ridge = np.r_[0.0, np.full(design.shape[1] - 1, 1 / penalty)]
        total, events = weight.sum(axis=1), weight[:, 1]
        people = float(total.sum())

        def loss(at: FloatArray) -> float:
            linear = design @ at
            return float(total @ np.logaddexp(0.0, linear) - events @ linear + ridge @ at**2 / 2)

        beta = np.zeros(len(ridge)) if start is None else start
        inverse, last = self._inverse(penalty, ridge, people), np.inf
        step = gradient = np.zeros(len(ridge))
        for _ in range(_NEWTON_STEPS):
            p = special.expit(design @ beta)
            before, gradient = gradient, design.T @ (total * p - events) + ridge * beta
            size = float(np.abs(gradient).max())
            if size <= flat * people:
                break
            if inverse is None or size > _SLOW * last:
                self._curvature = _crossed(design, total * p * (1 - p) / people)
                inverse = _inverted(self._curvature, ridge, people)
            elif np.isfinite(last):
                inverse = _corrected(inverse, step, gradient - before)
            last, step = size, -inverse @ gradient
            if -gradient @ step > _NEAR * people:
                now = loss(beta)
                while loss(beta + step) > now and np.abs(step).max() > 1e-10:
                    step = step / 2
            beta = beta + step
        if inverse is not None:
            self._inverses.setdefault(penalty, inverse * people)
        return beta

    def _inverse(self, penalty: float, ridge: FloatArray, people: float) -> FloatArray | None:
        """Of the Hessian, as far as one is at hand."""
        if penalty in self._inverses:
            return self._inverses[penalty] / people
        if self._curvature is None:
            return None
        return _inverted(self._curvature, ridge, people)


def _inverted(curvature: FloatArray, ridge: FloatArray, people: float) -> FloatArray:
    return np.asarray(np.linalg.inv(people * curvature + np.diag(ridge + 1e-10)), np.float64)


def _design(matrix: FloatArray, pairs: Pairs | None) -> FloatArray:
    """An intercept, the columns, and the products of pairs of them, column by column."""
    parts = [np.ones((1, len(matrix))), matrix.T]
    if pairs is not None:
        columns = np.ascontiguousarray(matrix.T)
        parts.append(columns[pairs[0]] * columns[pairs[1]])
    return np.concatenate(parts).T


def _crossed(design: FloatArray, weight: FloatArray) -> FloatArray:
    """X' diag(weight) X."""
    rooted = design * np.sqrt(weight)[:, None]
    return np.asarray(rooted.T @ rooted, np.float64)


def _corrected(inverse: FloatArray, step: FloatArray, change: FloatArray) -> FloatArray:
    """The inverse of a Hessian, corrected for what a step changed in the gradient (BFGS)."""
    along = float(step @ change)
    if along <= 0:
        return inverse
    turned = inverse @ change
    crossed = np.outer(step, turned)
    own = np.outer(step, step) * (1 + change @ turned / along)
    return np.asarray(inverse + (own - crossed - crossed.T) / along, np.float64)


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
        design = _design(matrix, (self.first, self.second))
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
    design = _design(
        matrix, (model.first, model.second) if isinstance(model, PairLogistic) else None
    )
    ridge = np.r_[0.0, np.full(design.shape[1] - 1, 1 / penalty)]
    slope = p * (1 - p)
    hessian = _crossed(design, tally.by_row * slope) + np.diag(ridge + 1e-12)
    solved = np.linalg.solve(hessian, design.T)
    spread = _crossed(design, tally.squared_by_row * slope)
    variance = np.einsum("ji,jk,ki->i", solved, spread, solved, optimize=True)
    return np.asarray(slope * np.sqrt(np.maximum(0.0, variance)), np.float64)
