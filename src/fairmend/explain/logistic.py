"""L2 logistic regression on weighted distinct rows, with products of inputs, and its errors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairmend.data.columns import FloatArray, IntArray
from fairmend.data.limits import Coefficients, Finite, Places, alike
from fairmend.data.stored import stored
from fairmend.measure import special
from fairmend.measure.population import Tally

WIDE = 300
"""With more columns of numbers than this the logistic regression is left to scikit-learn."""
_NEWTON_STEPS = 100
_NEAR = 1e-3
"""A step that gains less than this, a unit of weight, is in the bowl: no need to check it."""


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

    def predict_proba(self, matrix: FloatArray) -> FloatArray:
        positive = special.expit(self.decision_function(matrix))
        return np.stack([1 - positive, positive], axis=1)


def logistic_regression(
    penalty: float,
    matrix: FloatArray,
    weight: FloatArray,
    *,
    start: Logistic | None = None,
    flat: float = 1e-9,
) -> Logistic:
    """The l2 logistic regression on weighted distinct rows; ``penalty`` is scikit-learn's C.

    Newton's method on the rows' counts: a fold's fit that starts at everybody's takes two or three
    steps, which is what makes tuning on thousands of rows quick. It ends where the gradient, a unit
    of weight, is below ``flat``.

    >>> seen = np.array([[3.0, 1.0], [1.0, 3.0]])
    >>> fitted = logistic_regression(1e6, np.array([[0.0], [1.0]]), seen)
    >>> fitted.predict_proba(np.array([[0.0], [1.0]]))[:, 1].round(4).tolist()
    [0.25, 0.75]
    """
    if matrix.shape[1] > WIDE:
        return _by_scikit_learn(penalty, matrix, weight)
    design = np.column_stack([np.ones(len(matrix)), matrix])
    ridge = np.r_[0.0, np.full(matrix.shape[1], 1 / penalty)]
    total, events = weight.sum(axis=1), weight[:, 1]

    def loss(at: FloatArray) -> float:
        linear = design @ at
        return float(total @ np.logaddexp(0.0, linear) - events @ linear + ridge @ at**2 / 2)

    beta = np.zeros(design.shape[1]) if start is None else np.r_[start.intercept, start.slope]
    last = 0.0
    for _ in range(_NEWTON_STEPS):
        p = special.expit(design @ beta)
        gradient = design.T @ (total * p - events) + ridge * beta
        size = float(np.abs(gradient).max())
        if size <= flat * total.sum():
            break
        if size > 0.1 * last:  # near the minimum the last Hessian does as well as a new one
            weighted = design * (total * p * (1 - p))[:, None]
            inverse = np.linalg.inv(weighted.T @ design + np.diag(ridge + 1e-10))
        last = size
        step, length = inverse @ gradient, 1.0
        if gradient @ step > _NEAR * total.sum():
            now = loss(beta)
            while loss(beta - length * step) > now and length > 1e-10:
                length /= 2
        beta = beta - length * step
    return Logistic(float(beta[0]), beta[1:])


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

    def predict_proba(self, matrix: FloatArray) -> FloatArray:
        return self.model.predict_proba(_with_products(matrix, self.first, self.second))


def _with_products(matrix: FloatArray, first: IntArray, second: IntArray) -> FloatArray:
    return np.concatenate([matrix, matrix[:, first] * matrix[:, second]], axis=1)


def pair_regression(
    first: IntArray,
    second: IntArray,
    penalty: float,
    matrix: FloatArray,
    weight: FloatArray,
    *,
    start: PairLogistic | None = None,
    flat: float = 1e-9,
) -> PairLogistic:
    """`logistic_regression` on columns and the products of ``first`` and ``second`` ones."""
    columns = _with_products(matrix, first, second)
    begin = None if start is None else start.model
    return PairLogistic(
        first, second, logistic_regression(penalty, columns, weight, start=begin, flat=flat)
    )


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
    if isinstance(model, PairLogistic):
        matrix, model = _with_products(matrix, model.first, model.second), model.model
    p = special.expit(model.decision_function(matrix))
    basis = row_space(matrix)
    if basis is not None:
        matrix = matrix @ basis
    design = np.column_stack([np.ones(len(matrix)), matrix])
    ridge = np.r_[0.0, np.full(matrix.shape[1], 1 / penalty)]
    slope = p * (1 - p)

    def spread(weight: FloatArray) -> FloatArray:
        weighted = design * (weight.sum(axis=1) * slope)[:, None]
        return np.asarray(weighted.T @ design, np.float64)

    hessian = spread(tally.weight) + np.diag(ridge + 1e-12)
    solved = np.linalg.solve(hessian, design.T)
    variance = np.einsum("ji,jk,ki->i", solved, spread(tally.squared), solved, optimize=True)
    return np.asarray(slope * np.sqrt(np.maximum(0.0, variance)), np.float64)
