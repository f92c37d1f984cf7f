"""Models of the outcome and of the group, y0(x) = P(Y=1 | x, target) and s(x) = P(baseline | x).

Both are fitted on distinct rows with weights, tuned by cross-validation, and cross-fitted: a row's
probability comes from a model that saw nobody with that row. Probabilities are clipped here, once,
so that nothing behind needs to fear the logarithm of 0.

By default the model is chosen: a logistic regression, unless products of inputs or gradient
boosting predict people held out better by more than chance.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, TypeAlias

import numpy as np

from fairmend.data.columns import FloatArray, Frame, IntArray
from fairmend.data.features import FeatureMap
from fairmend.data.limits import (
    MOST,
    Between,
    Chances,
    Coefficients,
    Count,
    Finite,
    Places,
    Positive,
    Share,
    alike,
    flat,
    inside,
)
from fairmend.data.stored import stored
from fairmend.errors import DataError, FairmendWarning
from fairmend.measure import special
from fairmend.measure.audit import auc
from fairmend.measure.population import Population, Tally
from fairmend.progress import progress

__all__ = [
    "FittedProbability",
    "Logistic",
    "PairLogistic",
    "check_estimator",
    "cross_fitted",
    "empirical",
    "fit_probability",
    "logistic_regression",
    "one_thread",
]

Loss: TypeAlias = Annotated[float, Between(0, MOST, nan=True)]

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
LEAST_GAIN = 0.02
"""A richer model replaces the logistic one if it cuts the log loss by more than this share."""
PAIR_PENALTIES = (0.01, 0.1, 1.0)
MOST_CELLS = 20_000_000
"""Products of inputs are tried up to this many numbers: rows times columns."""
SCREENING_FOLDS = 3
SCREENING_PEOPLE = 3_000
"""With more people than this, few folds are enough to choose a model on."""
SCREENING_ROWS = 20_000
"""... and a sample of this many distinct rows."""
REPEATED = 0.8
"""Where this share of people have the inputs of others, their outcomes bound any model's gain."""
LEAF_PEOPLE = 20
"""Gradient boosting makes no leaf of fewer people."""
BOOSTED_ROWS = 8
"""On fewer distinct rows than this there is nothing for gradient boosting to learn."""
FEW_ROWS = 50
"""With fewer distinct rows than this, folds split the people of each row instead of the rows."""
TOO_FAR_OFF = 0.1
"""A calibration error this much beyond chance is a reason for a warning."""


Fit = Callable[[FloatArray, FloatArray], Any]
"""From a matrix and weights by row and outcome to a fitted classifier."""


@stored("FittedProbability")
@dataclass(frozen=True, eq=False)
class FittedProbability:
    """P(event | row), as used and as checked.

    ``probability`` has one entry per distinct row it was fitted on: cross-fitted, or for observed
    shares the shares themselves.
    """

    what: str
    probability: Chances
    auc: Share
    """Of ``probability``, as are the log loss and the calibration."""
    log_loss: Loss
    base_log_loss: Loss
    """Log loss of always saying the base rate."""
    calibration: tuple[tuple[Share, Share, Share], ...]
    """Tenths of the people by probability: mean probability, observed share, share of people."""
    kind: str
    people: Count
    """How many it was fitted on."""
    features: FeatureMap | None = None
    estimator: Any = None
    penalty: Positive | None = None
    standard_error: Annotated[FloatArray, flat, Between(0, MOST, nan=True)] | None = None
    """Of each row's probability, where a closed form is known."""

    def agrees(self) -> bool:
        """Whether the model is of the features there are."""
        if self.features is None or self.estimator is None:
            return self.features is self.estimator is None
        width = sum(feature.width for feature in self.features.features)
        model = self.estimator
        if isinstance(model, PairLogistic):
            within = inside(model.first, width) and inside(model.second, width)
            return within and len(model.model.slope) == width + len(model.first)
        if isinstance(model, Logistic):
            return len(model.slope) == width
        return hasattr(model, "predict_proba")

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
    estimator: Any = "auto",
    boosting: bool = True,
    random_state: int = 0,
) -> FittedProbability:
    """Fit P(event | row) on distinct rows; the tally's second axis counts non-events and events.

    ``estimator`` is ``"logistic"`` (l2, tuned by 10-fold cross-validation), ``"auto"`` (the same,
    unless products of inputs or gradient boosting have a log loss on people held out that is lower
    by more than one standard error and by more than `LEAST_GAIN`), ``"empirical"`` (the observed
    share of each row, for small finite supports) or any scikit-learn classifier. Without
    ``boosting`` the choice is among models that can be stored as numbers.

    >>> table = Frame.read(np.arange(100).reshape(-1, 1))
    >>> seen = np.stack([100 - np.arange(100), np.arange(100)], axis=1).astype(float)
    >>> fitted = fit_probability(table, Tally(seen, seen, seen), what="P(Y=1 | x)")
    >>> bool(abs(fitted.probability - np.arange(100) / 100).max() < 0.1)
    True
    """
    check_estimator(estimator, what)
    if isinstance(estimator, str) and estimator == "empirical":
        return empirical(tally, what=what)
    data = _Data.of(table, tally, what, random_state)
    if isinstance(estimator, str):
        with one_thread():
            model = _logistic(data)
            if estimator == "auto":
                richer = _richer(data, model, boosting=boosting, least_gain=LEAST_GAIN, errors=1)
                model = model if richer is None else richer
    else:
        fit = partial(_any, estimator)
        held_out = _held_out(data, fit)
        fitted = fit(data.matrix, data.tally.weight)
        model = _Model(type(estimator).__name__, held_out, fitted, fit)
    result = _described(what, model.kind, data.mean(model.held_out), data.tally)
    if result.weak:
        message = f"{what} is too weak to lean on: {result.weak}."
        warnings.warn(message, FairmendWarning, stacklevel=3)
    return replace(
        result,
        features=data.features,
        estimator=model.estimator,
        penalty=model.penalty,
        standard_error=_standard_error(data, model),
    )


def cross_fitted(
    table: Frame, tally: Tally, *, what: str, random_state: int = 0
) -> list[FloatArray]:
    """P(event | row) by every model that predicts people held out as well as the best.

    That is, whose log loss is not higher by more than one standard error of the paired difference.
    Of many people or rows only the best model is fitted throughout.
    """
    data = _Data.of(table, tally, what, random_state)
    with one_thread():
        model = _logistic(data)
        if data.tally.people.sum() > SCREENING_PEOPLE or len(data.matrix) > SCREENING_ROWS:
            richer = _richer(data, model, boosting=True, least_gain=0.0, errors=0)
            return [data.mean((model if richer is None else richer).held_out)]
        models = [model, *filter(None, (_with_pairs(data), _boosted(data)))]
    losses, weight = zip(*(data.losses(one.held_out) for one in models), strict=True)
    best = min(losses, key=lambda loss: float(loss @ weight[0]))
    worse = [_mean_and_error(loss - best, weight[0]) for loss in losses]
    return [
        data.mean(one.held_out)
        for one, (by, error) in zip(models, worse, strict=True)
        if by <= error
    ]


def check_estimator(estimator: Any, what: str = "outcome_model") -> None:
    """Complain about what cannot model a probability."""
    if isinstance(estimator, str) and estimator not in ("auto", "logistic", "empirical"):
        raise DataError(
            what,
            "must be fitted by 'auto', 'logistic', 'empirical' or a scikit-learn classifier",
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


def _parts(tally: Tally) -> tuple[FloatArray, FloatArray, FloatArray]:
    return tally.people, tally.weight, tally.squared


@dataclass(frozen=True, eq=False)
class _Fold:
    learn_from: FloatArray
    """Weights to learn from, by row and outcome."""
    scored: FloatArray
    """Which share of each row's people this fold's model speaks for."""

    @property
    def rows(self) -> IntArray:
        """The rows this fold's model speaks for."""
        return np.flatnonzero(self.scored)


@dataclass(frozen=True, eq=False)
class _Data:
    """What a model is fitted on."""

    what: str
    features: FeatureMap
    matrix: FloatArray
    tally: Tally
    """With weights of mean 1 a person."""
    folds: Sequence[_Fold]

    @classmethod
    def of(cls, table: Frame, tally: Tally, what: str, random_state: int) -> _Data:
        tally = _per_person(tally)
        _check_both_events(tally.weight, what)
        features = FeatureMap.learn(table, tally.weight.sum(axis=1))
        return cls(what, features, features.apply(table), tally, _folds(tally, random_state))

    def mean(self, held_out: Sequence[FloatArray]) -> FloatArray:
        """Each row's probability: the mean over its people, each held out."""
        probability = np.zeros(len(self.matrix))
        for fold, said in zip(self.folds, held_out, strict=True):
            probability[fold.rows] += fold.scored[fold.rows] * said
        return _clipped(probability)

    def losses(self, held_out: Sequence[FloatArray]) -> tuple[FloatArray, FloatArray]:
        """The log loss of people held out, by fold, row and outcome; and what they weigh."""
        loss, weight = [], []
        for fold, said in zip(self.folds, held_out, strict=True):
            loss.append(-np.log(np.stack([1 - said, said], axis=1)).ravel())
            weight.append((self.tally.weight - fold.learn_from)[fold.rows].ravel())
        return np.concatenate(loss), np.concatenate(weight)

    def only(self, rows: IntArray, folds: int) -> _Data:
        """Some of the rows and the first few folds of them, to choose a model on."""
        tally = Tally(*(part[rows] for part in _parts(self.tally)))
        kept = [_Fold(fold.learn_from[rows], fold.scored[rows]) for fold in self.folds[:folds]]
        return replace(self, matrix=self.matrix[rows], tally=tally, folds=kept)


@dataclass(frozen=True, eq=False)
class _Model:
    """A fitted model, and what it says of people it has not seen."""

    kind: str
    held_out: Sequence[FloatArray]
    """For each fold the probabilities of the rows it speaks for."""
    estimator: Any
    fit: Fit
    penalty: float | None = None


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
    """The same for very many columns, where a Hessian would be dear."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=penalty, solver="lbfgs", max_iter=1_000)
    fitted = model.fit(*_stacked(matrix, weight))
    return Logistic(float(fitted.intercept_[0]), np.asarray(fitted.coef_[0], np.float64))


def one_thread() -> Any:
    """The data are small: threads would spend more time waiting for each other than working."""
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1)


def _any(estimator: Any, matrix: FloatArray, weight: FloatArray) -> Any:
    """Fit a copy of somebody else's classifier; one without sample weights sees rows repeated."""
    from sklearn.base import clone
    from sklearn.utils.validation import has_fit_parameter

    inputs, event, sample_weight = _stacked(matrix, weight)
    model = clone(estimator)
    if np.ptp(sample_weight) == 0:  # some take far longer with weights than without
        return model.fit(inputs, event)
    if has_fit_parameter(model, "sample_weight"):
        return model.fit(inputs, event, sample_weight=sample_weight)
    times = np.maximum(1, np.round(sample_weight)).astype(np.int64)
    return model.fit(np.repeat(inputs, times, axis=0), np.repeat(event, times))


def _held_out(data: _Data, fit: Fit) -> list[FloatArray]:
    """For each fold what a model fitted on the others says of its rows."""
    said = []
    with progress(f"fitting {data.what}", len(data.folds)) as advance:
        for fold in data.folds:
            _check_both_events(fold.learn_from, data.what)
            model = fit(data.matrix, fold.learn_from) if len(fold.rows) > 0 else None
            at = data.matrix[fold.rows]
            said.append(np.empty(0) if model is None else _clipped(model.predict_proba(at)[:, 1]))
            advance(1)
    return said


def _check_both_events(weight: FloatArray, what: str) -> None:
    negative, positive = weight.sum(axis=0)
    if min(negative, positive) <= 0:
        raise DataError(
            what,
            "must see both outcomes to be learnt, in the data and in each fold of them",
            f"got {positive:g} positive and {negative:g} negative",
            "Choose sp, which needs no outcome model, or audit more people.",
        )


def _logistic(data: _Data) -> _Model:
    kind, basis = "l2 logistic regression", _basis(data.matrix)
    if basis is None:
        return _tuned(data, kind, PENALTIES, logistic_regression)
    model = _tuned(replace(data, matrix=data.matrix @ basis), kind, PENALTIES, logistic_regression)
    estimator = Logistic(model.estimator.intercept, basis @ model.estimator.slope)
    return replace(model, estimator=estimator)


def _basis(matrix: FloatArray) -> FloatArray | None:
    """Directions that the rows span, where they are fewer than many columns; otherwise None.

    With an l2 penalty a slope never leaves them: the fit is the same, over as many numbers as there
    are rows.
    """
    if matrix.shape[1] <= max(WIDE, 4 * matrix.shape[0]):
        return None
    return np.asarray(np.linalg.qr(matrix.T)[0], np.float64)


def _tuned(
    data: _Data, kind: str, penalties: Sequence[float], regression: Callable[..., Any]
) -> _Model:
    """The penalty with the least log loss on people held out; folds start at everybody's fit."""
    models: list[_Model] = []
    losses = []
    for penalty in penalties:
        start = models[-1].estimator if models else None
        fitted = regression(penalty, data.matrix, data.tally.weight, start=start)
        fit = partial(regression, penalty, start=fitted, flat=1e-6)
        models.append(_Model(kind, _held_out(data, fit), fitted, fit, penalty))
        losses.append(float(np.dot(*data.losses(models[-1].held_out))))
    return models[int(np.argmin(losses))]


# -------------------------------------------------------------------- richer models


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


def _pair_regression(
    first: IntArray, second: IntArray, penalty: float, matrix: FloatArray, weight: FloatArray,
    *, start: PairLogistic | None = None, flat: float = 1e-9,
) -> PairLogistic:  # fmt: skip
    columns = _with_products(matrix, first, second)
    begin = None if start is None else start.model
    return PairLogistic(
        first, second, logistic_regression(penalty, columns, weight, start=begin, flat=flat)
    )


def _richer(
    data: _Data, logistic: _Model, *, boosting: bool, least_gain: float, errors: float
) -> _Model | None:
    """The best of the richer models if it beats the logistic one, None otherwise.

    It must cut the log loss of people held out by the share ``least_gain`` and by so many standard
    ``errors`` of the paired difference. Many people are chosen on by a few folds, and many rows by
    a sample; the winner is then fitted on everything.
    """
    loss, weight = data.losses(logistic.held_out)
    wanted = least_gain * float(loss @ weight / weight.sum())
    if least_gain > 0 and _possible_gain(data, logistic) < wanted:
        return None
    rows = np.arange(len(data.matrix))
    if len(rows) > SCREENING_ROWS:
        rows = np.sort(np.random.default_rng(0).choice(rows, SCREENING_ROWS, replace=False))
    folds = SCREENING_FOLDS if data.tally.people.sum() > SCREENING_PEOPLE else len(data.folds)
    few = data.only(rows, folds)
    rival = [
        said[np.isin(fold.rows, rows)]
        for fold, said in zip(data.folds[:folds], logistic.held_out, strict=False)
    ]
    loss, weight = few.losses(rival)
    best, least = None, 0.0
    for candidate in filter(None, (_with_pairs(few), _boosted(few) if boosting else None)):
        gain, error = _mean_and_error(loss - few.losses(candidate.held_out)[0], weight)
        if gain > max(wanted, errors * error, least):
            best, least = candidate, gain
    if best is None or (len(rows) == len(data.matrix) and folds == len(data.folds)):
        return best
    everybody = best.fit(data.matrix, data.tally.weight)
    return replace(best, held_out=_held_out(data, best.fit), estimator=everybody)


def _mean_and_error(saved: FloatArray, weight: FloatArray) -> tuple[float, float]:
    """The mean of paired differences, and its standard error."""
    mean = float(weight @ saved / weight.sum())
    return mean, float(np.sqrt(weight @ (saved - mean) ** 2)) / float(weight.sum())


def _possible_gain(data: _Data, model: _Model) -> float:
    """What any model of these inputs could cut the log loss by at most, two standard errors up.

    Of two people with equal inputs the product of residuals has the mean (q - p)^2, where q is the
    truth and p the model's; (q - p)^2 / 2p(1-p) is what q saves. Infinite where too few people
    have the inputs of others.
    """
    p, weight, squared = data.mean(model.held_out), data.tally.weight, data.tally.squared
    total, people = weight.sum(axis=1), data.tally.people.sum(axis=1)
    pairs = total**2 - squared.sum(axis=1)
    several = (people > 1) & (pairs > 0)
    if total[several].sum() < REPEATED * total.sum():
        return float("inf")
    residual = weight[:, 1] * (1 - p) - weight[:, 0] * p
    own = squared[:, 1] * (1 - p) ** 2 + squared[:, 0] * p**2
    share = np.divide(total, pairs, out=np.zeros_like(total), where=several)
    saved = (residual**2 - own) * share / (2 * p * (1 - p))
    error = np.sqrt((total * share)[several].sum() / 2)
    return float((saved[several].sum() + 2 * error) / total[several].sum())


def _with_pairs(data: _Data) -> _Model | None:
    """Logistic regression with products of inputs, squares of numbers among them."""
    matrix = data.matrix
    if matrix.shape[1] * (matrix.shape[1] + 3) / 2 > WIDE:
        return None
    lowest, highest = matrix.min(axis=0), matrix.max(axis=0)
    two_valued = ((matrix == lowest) | (matrix == highest)).all(axis=0)
    first, second = np.triu_indices(matrix.shape[1])
    products = matrix[:, first] * matrix[:, second]
    kept = (np.ptp(products, axis=0) > 0) & ~((first == second) & two_valued[first])
    first, second = first[kept], second[kept]
    if len(first) == 0 or len(matrix) * (matrix.shape[1] + len(first)) > MOST_CELLS:
        return None
    kind = "l2 logistic regression with pairs of inputs"
    return _tuned(data, kind, PAIR_PENALTIES, partial(_pair_regression, first, second))


def _boosted(data: _Data) -> _Model | None:
    """Gradient boosting; a leaf's least size is in people, not in distinct rows."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    if len(data.matrix) < BOOSTED_ROWS:
        return None
    cells = int((data.tally.weight > 0).sum())
    leaf = max(1, round(LEAF_PEOPLE * cells / float(data.tally.people.sum())))
    estimator = HistGradientBoostingClassifier(
        max_leaf_nodes=8, min_samples_leaf=leaf, l2_regularization=1.0, max_bins=64,
        max_iter=60, early_stopping=False, random_state=0,
    )  # fmt: skip
    fit = partial(_any, estimator)
    everybody = fit(data.matrix, data.tally.weight)
    return _Model("gradient boosting", _held_out(data, fit), everybody, fit)


# -------------------------------------------------------------------- errors


def _standard_error(data: _Data, model: _Model) -> FloatArray | None:
    """Of each row's probability where a closed form is known: of logistic regressions."""
    if model.penalty is None:
        return None
    if isinstance(model.estimator, PairLogistic):
        pairs = model.estimator
        columns = _with_products(data.matrix, pairs.first, pairs.second)
        return _logistic_error(pairs.model, columns, data.tally, model.penalty)
    return _logistic_error(model.estimator, data.matrix, data.tally, model.penalty)


def _logistic_error(
    model: Logistic, matrix: FloatArray, tally: Tally, penalty: float
) -> FloatArray:
    """Delta-method standard error of each row's probability, p (1-p) sqrt(x' H^-1 V H^-1 x).

    H is the Hessian of the penalised likelihood at the fit, V the variance of its gradient: people
    who weigh double make four times the noise.
    """
    p = special.expit(model.decision_function(matrix))
    basis = _basis(matrix)
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
