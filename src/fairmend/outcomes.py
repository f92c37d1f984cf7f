"""Models of the outcome and of the group, y0(x) = P(Y=1 | x, target) and s(x) = P(baseline | x).

Both are fitted on distinct rows with weights, tuned by cross-validation, and cross-fitted: a row's
probability comes from a model that saw nobody with that row. Probabilities are clipped here, once,
so that nothing behind needs to fear the logarithm of 0.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from fairmend import special
from fairmend.audit import auc
from fairmend.columns import FloatArray, Frame, IntArray
from fairmend.data import Population, Tally
from fairmend.errors import DataError, FairmendWarning
from fairmend.features import FeatureMap
from fairmend.progress import progress

__all__ = [
    "FittedProbability",
    "Logistic",
    "empirical",
    "fit_probability",
    "logistic_regression",
    "one_thread",
]

CLIP = 1e-6
"""No probability is nearer to 0 or 1 than this."""
FOLDS = 10
PENALTIES = (0.01, 0.1, 1.0, 10.0, 100.0)
"""Inverse strengths C of the l2 penalty to choose from."""
WIDE = 300
"""With more columns of numbers than this the logistic regression is left to scikit-learn."""
_NEWTON_STEPS = 100
_NEAR = 1e-3
"""A step that gains less than this, a unit of weight, is in the bowl: no need to check it."""
FEW_ROWS = 50
"""With fewer distinct rows than this, folds split the people of each row instead of the rows."""
TOO_FAR_OFF = 0.1
"""A calibration error this much beyond chance is a reason for a warning."""


@dataclass(frozen=True, eq=False)
class FittedProbability:
    """P(event | row), as used and as checked.

    ``probability`` has one entry per distinct row it was fitted on: cross-fitted, or for observed
    shares the shares themselves.
    """

    what: str
    probability: FloatArray
    auc: float
    """Of ``probability``, as are the log loss and the calibration."""
    log_loss: float
    base_log_loss: float
    """Log loss of always saying the base rate."""
    calibration: tuple[tuple[float, float, float], ...]
    """Tenths of the people by probability: mean probability, observed share, share of people."""
    kind: str
    people: int
    """How many it was fitted on."""
    features: FeatureMap | None = None
    estimator: Any = None
    penalty: float | None = None
    standard_error: FloatArray | None = None
    """Of each row's probability, where a closed form is known."""

    @property
    def calibration_error(self) -> float:
        """Mean distance between predicted and observed shares over the tenths."""
        return sum(share * abs(said - seen) for said, seen, share in self.calibration)

    @property
    def expected_calibration_error(self) -> float:
        """What the calibration error would be by chance were every probability right."""
        said, _, share = np.array(self.calibration).T
        chance = np.sqrt(2 / np.pi * said * (1 - said) / np.maximum(1.0, share * self.people))
        return float(share @ chance)

    @property
    def weak(self) -> str:
        """Why not to lean on it; empty if there is no reason."""
        if not self.log_loss < self.base_log_loss:
            return "it predicts no better than the base rate does"
        if self.calibration_error > TOO_FAR_OFF + self.expected_calibration_error:
            return (
                f"its probabilities are off by {100 * self.calibration_error:.0f} points on average"
            )
        return ""

    def predict(self, table: Frame) -> FloatArray:
        """P(event | row) for any rows, from the model fitted on everybody."""
        if self.features is None or self.estimator is None:
            raise DataError(
                self.what,
                "must be a fitted model to speak of new rows",
                "got observed shares",
                "Use the logistic model, or any scikit-learn classifier.",
            )
        return _clipped(self.estimator.predict_proba(self.features.apply(table))[:, 1])

    def __str__(self) -> str:
        checked = "in-sample" if self.estimator is None else "cross-fitted"
        text = (
            f"{self.what}: {self.kind}, {checked} AUC {self.auc:.3f}, log loss "
            f"{self.log_loss:.4f} (base rate alone {self.base_log_loss:.4f}), "
            f"calibration error {100 * self.calibration_error:.1f} points"
        )
        return f"{text}. Too weak to lean on: {self.weak}." if self.weak else text


def fit_probability(
    table: Frame,
    tally: Tally,
    *,
    what: str,
    estimator: Any = "logistic",
    random_state: int = 0,
) -> FittedProbability:
    """Fit P(event | row) on distinct rows; the tally's second axis counts non-events and events.

    ``estimator`` is ``"logistic"`` (l2, tuned by 10-fold cross-validation), ``"empirical"`` (the
    observed share of each row, for small finite supports) or any scikit-learn classifier.

    >>> table = Frame.read(np.arange(100).reshape(-1, 1))
    >>> seen = np.stack([100 - np.arange(100), np.arange(100)], axis=1).astype(float)
    >>> fitted = fit_probability(table, Tally(seen, seen, seen), what="P(Y=1 | x)")
    >>> bool(abs(fitted.probability - np.arange(100) / 100).max() < 0.1)
    True
    """
    if isinstance(estimator, str) and estimator == "empirical":
        return empirical(tally, what=what)
    if isinstance(estimator, str) and estimator != "logistic":
        raise DataError(
            what,
            "must be fitted by 'logistic', 'empirical' or a scikit-learn classifier",
            f"got {estimator!r}",
            "For example HistGradientBoostingClassifier().",
        )
    if not isinstance(estimator, str) and not hasattr(estimator, "predict_proba"):
        raise DataError(
            what,
            "must be fitted by a scikit-learn classifier with predict_proba",
            f"got {type(estimator).__name__}",
            "For example HistGradientBoostingClassifier().",
        )
    tally = _per_person(tally)
    _check_both_events(tally.weight, what)
    features = FeatureMap.learn(table, tally.weight.sum(axis=1))
    matrix = features.apply(table)
    folds = _folds(tally, random_state)
    if isinstance(estimator, str):
        with one_thread():
            penalty, cross_fitted, fitted = _tune(matrix, tally.weight, folds, what)
            result = replace(
                _described(what, "l2 logistic regression", cross_fitted, tally),
                penalty=penalty,
                standard_error=_logistic_error(fitted, matrix, tally, penalty),
            )
    else:
        fit = partial(_any, estimator)
        cross_fitted = _cross_fit(matrix, folds, what, fit)
        fitted = fit(matrix, tally.weight)
        result = _described(what, type(estimator).__name__, cross_fitted, tally)
    if result.weak:
        message = f"{what} is too weak to lean on: {result.weak}."
        warnings.warn(message, FairmendWarning, stacklevel=3)
    return replace(result, features=features, estimator=fitted)


def empirical(tally: Tally, *, what: str) -> FittedProbability:
    """The observed share of events at each row: exact on a finite support, overfitted on a large.

    >>> seen = np.array([[3.0, 1.0]])
    >>> empirical(Tally(seen, seen, seen), what="P(Y=1 | x)").probability.tolist()
    [0.25]
    """
    total = tally.weight.sum(axis=1)
    share = np.divide(tally.weight[:, 1], total, out=np.full(len(total), 0.5), where=total > 0)
    # one pseudo-event and one pseudo-non-event keep the error of a lone observation above 0
    people = tally.people.sum(axis=1)
    steadied = (people * share + 1) / (people + 2)
    error = np.sqrt(steadied * (1 - steadied) / (people + 2))
    described = _described(what, "observed shares", _clipped(share), tally)
    return replace(described, standard_error=error)


# -------------------------------------------------------------------- fitting


def _per_person(tally: Tally) -> Tally:
    """Weights of mean 1 a person: only their ratios matter, and a penalty must not see more."""
    scale = tally.people.sum() / tally.weight.sum()
    return Tally(tally.people, tally.weight * scale, tally.squared * scale**2)


@dataclass(frozen=True, eq=False)
class _Fold:
    learn_from: FloatArray
    """Weights to learn from, by row and outcome."""
    scored: FloatArray
    """Which share of each row's people this fold's model speaks for."""


def _folds(tally: Tally, random_state: int) -> list[_Fold]:
    """Split so that no model speaks for people it has seen.

    The rows are split, balanced by weight. A support of few rows would get holes that way; there
    the people of each row are split instead, and a row's probability is the mean over its people.
    """
    rng, rows = np.random.default_rng(random_state), len(tally.weight)
    if rows >= FEW_ROWS:
        shuffled = rng.permutation(rows)
        weight = tally.weight.sum(axis=1).round(9)  # the last bits must not break ties
        by_weight = shuffled[np.argsort(-weight[shuffled], kind="stable")]
        fold = np.empty(rows, np.int64)
        fold[by_weight] = np.arange(rows) % FOLDS
        held_out = np.repeat((fold == np.arange(FOLDS)[:, None])[:, :, None], 2, axis=2)
        share = held_out.astype(np.float64)
    else:
        people = tally.people.astype(np.int64)
        start = rng.integers(FOLDS, size=people.shape)  # whose turn it is for the remainder
        turn = (np.arange(FOLDS)[:, None, None] - start) % FOLDS
        seats = people // FOLDS + (turn < people % FOLDS)
        share = seats / np.maximum(people, 1)
    total = np.maximum(tally.people.sum(axis=1), 1)
    return [
        _Fold(tally.weight * (1 - part), (tally.people * part).sum(axis=1) / total)
        for part in share
    ]


def _clipped(probability: FloatArray) -> FloatArray:
    return np.clip(np.asarray(probability, np.float64), CLIP, 1 - CLIP)


def _stacked(matrix: FloatArray, weight: FloatArray) -> tuple[FloatArray, IntArray, FloatArray]:
    """Each row once per outcome it was seen with, with that weight."""
    row, event = np.nonzero(weight > 0)
    return matrix[row], event, weight[row, event]


@dataclass(frozen=True, eq=False)
class Logistic:
    """P(event) = 1 / (1 + exp(-(intercept + x slope)))."""

    intercept: float
    slope: FloatArray

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
    """The same for very many columns, where a Hessian would be dear."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=penalty, solver="lbfgs", max_iter=1_000)
    fitted = model.fit(*_stacked(matrix, weight))
    return Logistic(float(fitted.intercept_[0]), np.asarray(fitted.coef_[0], np.float64))


def one_thread() -> Any:
    """The matrices are small: threads would spend more time waiting for each other than working."""
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1, user_api="blas")


def _any(estimator: Any, matrix: FloatArray, weight: FloatArray) -> Any:
    """Fit a copy of somebody else's classifier; one without sample weights sees rows repeated."""
    from sklearn.base import clone
    from sklearn.utils.validation import has_fit_parameter

    inputs, event, sample_weight = _stacked(matrix, weight)
    model = clone(estimator)
    if has_fit_parameter(model, "sample_weight"):
        return model.fit(inputs, event, sample_weight=sample_weight)
    times = np.maximum(1, np.round(sample_weight)).astype(np.int64)
    return model.fit(np.repeat(inputs, times, axis=0), np.repeat(event, times))


def _cross_fit(
    matrix: FloatArray,
    folds: Sequence[_Fold],
    what: str,
    fit: Callable[[FloatArray, FloatArray], Any],
) -> FloatArray:
    probability = np.zeros(len(matrix))
    with progress(f"fitting {what}", len(folds)) as advance:
        for fold in folds:
            _check_both_events(fold.learn_from, what)
            scored = np.flatnonzero(fold.scored)
            if len(scored) > 0:
                said = fit(matrix, fold.learn_from).predict_proba(matrix[scored])[:, 1]
                probability[scored] += fold.scored[scored] * said
            advance(1)
    return _clipped(probability)


def _check_both_events(weight: FloatArray, what: str) -> None:
    negative, positive = weight.sum(axis=0)
    if min(negative, positive) <= 0:
        raise DataError(
            what,
            "must see both outcomes to be learnt, in the data and in each fold of them",
            f"got {positive:g} positive and {negative:g} negative",
            "Choose sp, which needs no outcome model, or audit more people.",
        )


def _tune(
    matrix: FloatArray, weight: FloatArray, folds: Sequence[_Fold], what: str
) -> tuple[float, FloatArray, Logistic]:
    """The penalty with the least cross-validated log loss, its cross-fit, and everybody's fit."""
    fitted: list[FloatArray] = []
    everybody: list[Logistic] = []
    for penalty in PENALTIES:
        start = everybody[-1] if everybody else None
        everybody.append(logistic_regression(penalty, matrix, weight, start=start))
        fit = partial(logistic_regression, penalty, start=everybody[-1], flat=1e-6)
        fitted.append(_cross_fit(matrix, folds, what, fit))
    best = int(np.argmin([_log_loss(probability, weight) for probability in fitted]))
    return PENALTIES[best], fitted[best], everybody[best]


def _logistic_error(
    model: Logistic, matrix: FloatArray, tally: Tally, penalty: float
) -> FloatArray:
    """Delta-method standard error of each row's probability, p (1-p) sqrt(x' H^-1 V H^-1 x).

    H is the Hessian of the penalised likelihood at the fit, V the variance of its gradient: people
    who weigh double make four times the noise.
    """
    design = np.column_stack([np.ones(len(matrix)), matrix])
    p = special.expit(model.decision_function(matrix))
    ridge = np.r_[0.0, np.full(matrix.shape[1], 1 / penalty)]
    slope = p * (1 - p)

    def spread(weight: FloatArray) -> FloatArray:
        weighted = design * (weight.sum(axis=1) * slope)[:, None]
        return np.asarray(weighted.T @ design, np.float64)

    hessian = spread(tally.weight) + np.diag(ridge + 1e-12)
    solved = np.linalg.solve(hessian, design.T)
    variance = np.einsum("ji,jk,ki->i", solved, spread(tally.squared), solved, optimize=True)
    return np.asarray(slope * np.sqrt(np.maximum(0.0, variance)), np.float64)


# -------------------------------------------------------------------- judging


def _log_loss(probability: FloatArray, weight: FloatArray) -> float:
    loss = -(
        special.xlogy(weight[:, 1], probability) + special.xlogy(weight[:, 0], 1 - probability)
    )
    return float(loss.sum() / weight.sum())


def _described(what: str, kind: str, probability: FloatArray, tally: Tally) -> FittedProbability:
    weight = tally.weight
    total = weight.sum(axis=1)
    share = np.divide(weight[:, 1], total, out=np.zeros(len(total)), where=total > 0)
    people = Population.of(total, np.zeros(len(total)), share, score=probability)
    base = np.full(len(total), weight[:, 1].sum() / weight.sum())
    order = np.argsort(probability, kind="stable")
    middle = np.cumsum(total[order]) - total[order] / 2
    tenth = np.empty(len(total), np.int64)
    tenth[order] = np.minimum(9, 10 * middle / total.sum()).astype(np.int64)
    calibration = tuple(
        (
            float(total[at] @ probability[at] / total[at].sum()),
            float(weight[at, 1].sum() / total[at].sum()),
            float(total[at].sum() / total.sum()),
        )
        for at in (tenth == k for k in range(10))
        if total[at].sum() > 0
    )
    return FittedProbability(
        what=what,
        probability=probability,
        auc=auc(people),
        log_loss=_log_loss(probability, weight),
        base_log_loss=_log_loss(_clipped(base), weight),
        calibration=calibration,
        kind=kind,
        people=round(float(tally.people.sum())),
    )
