"""Models of the outcome and of the group, y0(x) = P(Y=1 | x, target) and s(x) = P(baseline | x).

Both are fitted on distinct rows with weights, tuned by cross-validation, and cross-fitted: a row's
probability comes from a model that saw nobody with that row. Probabilities are clipped here, once,
so that nothing behind needs to fear the logarithm of 0.

By default the model is chosen: a logistic regression, unless products of inputs or gradient
boosting predict people held out better by more than chance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, TypeAlias

import numpy as np

from fairmend.data.columns import FloatArray, Frame
from fairmend.data.features import FeatureMap
from fairmend.data.limits import MOST, Between, Chances, Count, Positive, Share, flat, inside
from fairmend.data.stored import stored
from fairmend.data.threads import all_threads
from fairmend.errors import DataError, check, check_choice, warn
from fairmend.explain.crossfit import (
    LEAST_GAIN,
    SCREENING_PEOPLE,
    SCREENING_ROWS,
    CrossFitData,
    KnownRows,
    ModelChoice,
    best_model,
    boosted_model,
    clipped,
    foreign_model,
    logistic_model,
    mean_and_error,
    pair_model,
)
from fairmend.explain.logistic import Logistic, PairLogistic, solving, standard_error
from fairmend.explain.trees import BoostedTrees
from fairmend.measure import special
from fairmend.measure.audit import auc
from fairmend.measure.population import Population, Tally

Loss: TypeAlias = Annotated[float, Between(0, MOST, nan=True)]
CAREFUL = ModelChoice(least_gain=LEAST_GAIN, errors=1)
"""A richer model must be better by more than chance."""
TOO_FAR_OFF = 0.1
"""A calibration error this much beyond chance is a reason for a warning."""


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
        if isinstance(model, BoostedTrees):
            return model.fits(width)
        if isinstance(model, PairLogistic):
            within = inside(model.first, width) and inside(model.second, width)
            return within and len(model.model.slope) == width + len(model.first)
        if isinstance(model, Logistic):
            return len(model.slope) == width
        return hasattr(model, "predict_proba")

    @property
    def calibration_error(self) -> float:
        """Mean distance between predicted and observed shares over the tenths."""
        return sum(share * abs(mean - seen) for mean, seen, share in self.calibration)

    @property
    def expected_calibration_error(self) -> float:
        """What the calibration error would be by chance were every probability right."""
        mean, _, share = np.array(self.calibration).T
        chance = np.sqrt(2 / np.pi * mean * (1 - mean) / np.maximum(1.0, share * self.people))
        return float(share @ chance)

    @property
    def weak(self) -> str:
        """Why not to rely on it; empty if there is no reason."""
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
        return clipped(self.estimator.predict_proba(self.features.apply(table))[:, 1])

    def __str__(self) -> str:
        checked = "in-sample" if self.estimator is None else "cross-fitted"
        text = (
            f"{self.what}: {self.kind}, {checked} AUC {self.auc:.3f}, log loss "
            f"{self.log_loss:.4f} (base rate alone {self.base_log_loss:.4f}), "
            f"calibration error {100 * self.calibration_error:.1f} points"
        )
        return f"{text}. Too weak to rely on: {self.weak}." if self.weak else text


def fit_probability(
    table: Frame,
    tally: Tally,
    *,
    what: str,
    estimator: Any = "auto",
    choice: ModelChoice = CAREFUL,
    errors: bool = True,
    random_state: int = 0,
    known: KnownRows | None = None,
) -> FittedProbability:
    """Fit P(event | row) on distinct rows; the tally's second axis counts non-events and events.

    ``estimator`` is ``"logistic"`` (l2, tuned by 10-fold cross-validation), ``"auto"`` (the same,
    unless a richer model of the ``choice`` predicts people held out better by as much as that
    asks), ``"empirical"`` (the observed share of each row, for small finite supports) or any
    scikit-learn classifier. Without ``errors`` the standard errors are left out. ``known`` is what
    other fits on the same rows have found out about them.

    >>> table = Frame.read(np.arange(100).reshape(-1, 1))
    >>> seen = np.stack([100 - np.arange(100), np.arange(100)], axis=1).astype(float)
    >>> fitted = fit_probability(table, Tally(seen, seen, seen), what="P(Y=1 | x)")
    >>> bool(abs(fitted.probability - np.arange(100) / 100).max() < 0.1)
    True
    """
    check_estimator(estimator, what)
    if isinstance(estimator, str) and estimator == "empirical":
        return empirical(tally, what=what)
    data = CrossFitData.of(table, tally, what, random_state, known)
    if estimator == "auto":
        with solving():
            model = best_model(data, choice)
            _ = model.estimator  # fitted here, on one thread
    elif estimator == "logistic":
        with solving():
            model = logistic_model(data)
    else:
        with all_threads():
            model = foreign_model(estimator, type(estimator).__name__, None, data)
            _ = model.estimator
    result = _described(what, model.kind, data.mean(model.held_out), data.tally)
    if result.weak:
        warn(f"{what} is too weak to rely on: {result.weak}.")
    return replace(
        result,
        features=data.features,
        estimator=model.estimator,
        penalty=model.penalty,
        standard_error=None
        if model.penalty is None or not errors
        else standard_error(model.estimator, data.matrix, data.tally, model.penalty),
    )


def cross_fitted(
    table: Frame, tally: Tally, *, what: str, random_state: int = 0
) -> list[FloatArray]:
    """P(event | row) by every model that predicts people held out as well as the best.

    That is, whose log loss is not higher by more than one standard error of the paired difference.
    Of many people or rows only the best model is fitted throughout.
    """
    data = CrossFitData.of(table, tally, what, random_state)
    with solving():
        if data.tally.people.sum() > SCREENING_PEOPLE or len(data.matrix) > SCREENING_ROWS:
            return [data.mean(best_model(data).held_out)]
        models = [
            logistic_model(data),
            *filter(None, (pair_model(data), boosted_model(data))),
        ]
    losses, weight = zip(*(data.losses(one.held_out) for one in models), strict=True)
    best = min(losses, key=lambda loss: float(loss @ weight[0]))
    worse = [mean_and_error(loss - best, weight[0]) for loss in losses]
    return [
        data.mean(one.held_out)
        for one, (by, error) in zip(models, worse, strict=True)
        if by <= error
    ]


def check_estimator(estimator: Any, what: str = "outcome_model") -> None:
    """Complain about what cannot model a probability."""
    fix = "For example HistGradientBoostingClassifier()."
    if isinstance(estimator, str):
        must = "must be fitted by 'auto', 'logistic', 'empirical' or a scikit-learn classifier"
        check_choice(what, estimator, ("auto", "logistic", "empirical"), fix, must=must)
    else:
        must = "must be fitted by a scikit-learn classifier with predict_proba"
        got = f"got {type(estimator).__name__}"
        check(hasattr(estimator, "predict_proba"), what, must, got, fix)


def empirical(tally: Tally, *, what: str) -> FittedProbability:
    """The observed share of events at each row: exact on a finite support, overfitted on a large.

    >>> seen = np.array([[3.0, 1.0]])
    >>> empirical(Tally(seen, seen, seen), what="P(Y=1 | x)").probability.tolist()
    [0.25]
    """
    share = tally.share(nobody=0.5)
    # one pseudo-event and one pseudo-non-event keep the error of a lone observation above 0
    people = tally.people.sum(axis=1)
    steadied = (people * share + 1) / (people + 2)
    error = np.sqrt(steadied * (1 - steadied) / (people + 2))
    described = _described(what, "observed shares", clipped(share), tally)
    return replace(described, standard_error=error)


def _log_loss(probability: FloatArray, weight: FloatArray) -> float:
    loss = -(
        special.xlogy(weight[:, 1], probability) + special.xlogy(weight[:, 0], 1 - probability)
    )
    return float(loss.sum() / weight.sum())


def _described(what: str, kind: str, probability: FloatArray, tally: Tally) -> FittedProbability:
    weight, total = tally.weight, tally.by_row
    people = Population.counted(tally, np.zeros(len(total)), score=probability)
    base = np.full(len(total), weight[:, 1].sum() / weight.sum())
    order = np.argsort(probability, kind="stable")
    middle = np.cumsum(total[order]) - total[order] / 2
    tenth = np.empty(len(total), np.int64)
    tenth[order] = np.minimum(9, 10 * middle / total.sum()).astype(np.int64)
    there, expected, events = (
        np.bincount(tenth, part, 10) for part in (total, total * probability, weight[:, 1])
    )
    calibration = tuple(
        (float(mean / people), float(seen / people), float(people / total.sum()))
        for people, mean, seen in zip(there, expected, events, strict=True)
        if people > 0
    )
    return FittedProbability(
        what=what,
        probability=probability,
        auc=auc(people),
        log_loss=_log_loss(probability, weight),
        base_log_loss=_log_loss(clipped(base), weight),
        calibration=calibration,
        kind=kind,
        people=round(float(tally.people.sum())),
    )
