"""Cross-fitting: models judged, and rows predicted, by people the model has not seen.

A logistic regression comes first. Products of inputs and gradient boosting are tried beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np

from fairmend.data.columns import BoolArray, FloatArray, Frame, IntArray
from fairmend.data.features import FeatureMap
from fairmend.data.threads import one_thread
from fairmend.errors import check
from fairmend.explain.logistic import (
    EXACTLY,
    ROUGHLY,
    WIDE,
    Logistic,
    LogisticFits,
    PairDesign,
    PairLogistic,
    Pairs,
    row_space,
    stacked,
)
from fairmend.explain.trees import BoostedTrees
from fairmend.measure.population import Tally
from fairmend.progress import progress

CLIP = 1e-6
"""No probability is nearer to 0 or 1 than this."""
FOLDS = 10
PENALTIES = (0.01, 0.1, 1.0, 10.0, 100.0)
"""Inverse strengths C of the l2 penalty to choose from."""
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


@dataclass(frozen=True, eq=False)
class _Fold:
    learn_from: FloatArray
    """Weights to learn from, by row and outcome."""
    scored: FloatArray
    """Which share of each row's people this fold's model speaks for."""

    @cached_property
    def rows(self) -> IntArray:
        """The rows this fold's model speaks for."""
        return np.flatnonzero(self.scored)

    @cached_property
    def events(self) -> FloatArray:
        """Its weights of non-events and events."""
        return np.array([self.learn_from[:, 0].sum(), self.learn_from[:, 1].sum()])


Products: TypeAlias = tuple[Pairs, PairDesign]
"""Pairs of columns, and the design with their products."""


class KnownRows:
    """Numbers of a table's rows, products of them and folds, for further fits on the same rows."""

    def __init__(self) -> None:
        self._of: tuple[Frame, FloatArray] | None = None
        self.products: Products | None = None
        self.fold: IntArray | None = None

    def numbers(self, table: Frame, weight: FloatArray) -> tuple[FeatureMap, FloatArray]:
        """A map learnt on rows of such weights, and the numbers it makes of them."""
        same = self._of is not None and self._of[0] is table
        if self._of is None or not same or not np.array_equal(self._of[1], weight):
            features = FeatureMap.learn(table, weight)
            self._of, self.products, self.fold = (table, weight), None, None
            self._numbers = features, features.apply(table)
        return self._numbers


@dataclass(frozen=True, eq=False)
class CrossFitData:
    """What a model is fitted on."""

    what: str
    features: FeatureMap
    matrix: FloatArray
    tally: Tally
    """With weights of mean 1 a person."""
    folds: Sequence[_Fold]
    parts: Sequence[IntArray] = ()
    """The rows of every fold, where folds split the rows."""
    known: KnownRows | None = None
    """Where products of all columns are kept."""

    @classmethod
    def of(
        cls,
        table: Frame,
        tally: Tally,
        what: str,
        random_state: int,
        known: KnownRows | None = None,
    ) -> CrossFitData:
        tally, known = _per_person(tally), known or KnownRows()
        _check_both_events(tally.weight.sum(axis=0), what)
        features, matrix = known.numbers(table, tally.weight.sum(axis=1))
        folds = _folds(tally, random_state, known)
        parts = [fold.rows for fold in folds]
        whole = sum(map(len, parts)) == len(tally.weight) >= FEW_ROWS
        return cls(what, features, matrix, tally, folds, parts if whole else (), known)

    @cached_property
    def fits(self) -> LogisticFits:
        """Logistic regressions without products."""
        return LogisticFits(self.matrix, parts=self.parts)

    @cached_property
    def two_valued(self) -> BoolArray:
        """Which columns have no more than two values."""
        lowest, highest = self.matrix.min(axis=0), self.matrix.max(axis=0)
        return np.asarray(((self.matrix == lowest) | (self.matrix == highest)).all(axis=0))

    def mean(self, held_out: Sequence[FloatArray]) -> FloatArray:
        """Each row's probability: the mean over its people, each held out."""
        probability = np.zeros(len(self.matrix))
        for fold, answer in zip(self.folds, held_out, strict=True):
            probability[fold.rows] += fold.scored[fold.rows] * answer
        return clipped(probability)

    def losses(self, held_out: Sequence[FloatArray]) -> tuple[FloatArray, FloatArray]:
        """The log loss of people held out, by fold, row and outcome; and what they weigh."""
        loss, weight = [], []
        for fold, answer in zip(self.folds, held_out, strict=True):
            loss.append(-np.log(np.stack([1 - answer, answer], axis=1)).ravel())
            weight.append((self.tally.weight - fold.learn_from)[fold.rows].ravel())
        return np.concatenate(loss), np.concatenate(weight)

    def only(self, rows: IntArray, folds: int) -> CrossFitData:
        """Some of the rows and the first few folds of them, to choose a model on."""
        tally = Tally(*(part[rows] for part in self.tally.sums))
        kept = [_Fold(fold.learn_from[rows], fold.scored[rows]) for fold in self.folds[:folds]]
        matrix = self.matrix[rows]
        return replace(self, matrix=matrix, tally=tally, folds=kept, parts=(), known=None)


@dataclass(frozen=True, eq=False)
class CandidateModel:
    """A fitted model, and what it says of people it has not seen."""

    kind: str
    everybody: Callable[[], Any]
    """Fits it to everybody, which a rival that loses is spared."""
    held_out: Sequence[FloatArray]
    """For each fold the probabilities of the rows it speaks for."""
    further: Callable[[Sequence[_Fold]], Sequence[FloatArray]]
    """``held_out`` of further folds of the same rows."""
    again: Callable[[CrossFitData], CandidateModel]
    """The same model, with the same penalty, of other rows."""
    penalty: float | None = None

    @cached_property
    def estimator(self) -> Any:
        return self.everybody()


HeldOut = Callable[[_Fold], FloatArray]
"""What a model fitted to the others says of a fold's rows."""
Candidate = Callable[[CrossFitData], CandidateModel | None]
"""What makes a model of data; None where it is not for such data."""


def _folds(tally: Tally, random_state: int, known: KnownRows) -> list[_Fold]:
    """Split so that no model speaks for people it has seen.

    The rows are split, balanced by weight. A support of few rows would get holes that way; there
    the people of each row are split instead, and a row's probability is the mean over its people.
    """
    rng, rows = np.random.default_rng(random_state), len(tally.weight)
    if rows >= FEW_ROWS:
        if known.fold is None:
            shuffled = rng.permutation(rows)
            weight = tally.weight.sum(axis=1).round(9)  # the last bits must not break ties
            by_weight = shuffled[np.argsort(-weight[shuffled], kind="stable")]
            known.fold = np.empty(rows, np.int64)
            known.fold[by_weight] = np.arange(rows) % FOLDS
        there = tally.people.sum(axis=1) > 0
        return [
            _Fold(np.where(own[:, None], 0.0, tally.weight), (own & there).astype(np.float64))
            for own in known.fold == np.arange(FOLDS)[:, None]
        ]
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


def _per_person(tally: Tally) -> Tally:
    """Weights of mean 1 a person: only their ratios matter, and a penalty must not see more."""
    scale = tally.people.sum() / tally.weight.sum()
    return Tally(tally.people, tally.weight * scale, tally.squared * scale**2)


def clipped(probability: FloatArray) -> FloatArray:
    """Probabilities whose logarithm is finite."""
    return np.clip(np.asarray(probability, np.float64), CLIP, 1 - CLIP)


def fit_any(estimator: Any, matrix: FloatArray, weight: FloatArray) -> Any:
    """Fit a copy of somebody else's classifier; one without sample weights sees rows repeated."""
    from sklearn.base import clone
    from sklearn.utils.validation import has_fit_parameter

    inputs, event, sample_weight = stacked(matrix, weight)
    model = clone(estimator)
    if np.ptp(sample_weight) == 0:  # some take far longer with weights than without
        return model.fit(inputs, event)
    if has_fit_parameter(model, "sample_weight"):
        return model.fit(inputs, event, sample_weight=sample_weight)
    times = np.maximum(1, np.round(sample_weight)).astype(np.int64)
    return model.fit(np.repeat(inputs, times, axis=0), np.repeat(event, times))


def held_out_answers(held_out: HeldOut, what: str, folds: Sequence[_Fold]) -> list[FloatArray]:
    """For each fold what a model fitted on the others says of its rows."""
    answers = []
    with progress(f"fitting {what}", len(folds)) as advance:
        for fold in folds:
            _check_both_events(fold.events, what)
            answers.append(clipped(held_out(fold)) if len(fold.rows) > 0 else np.empty(0))
            advance(1)
    return answers


def _check_both_events(events: FloatArray, what: str) -> None:
    negative, positive = events
    check(
        min(negative, positive) > 0,
        what,
        "must see both outcomes to be learnt, in the data and in each fold of them",
        f"got {positive:g} positive and {negative:g} negative",
        "Choose sp, which needs no outcome model, or audit more people.",
    )


def _candidate(
    kind: str,
    held_out: HeldOut,
    data: CrossFitData,
    everybody: Callable[[], Any],
    *,
    again: Callable[[CrossFitData], CandidateModel],
    penalty: float | None = None,
) -> CandidateModel:
    """A model with its answers on the folds."""
    further = partial(held_out_answers, held_out, data.what)
    return CandidateModel(kind, everybody, further(data.folds), further, again, penalty)


def logistic_model(data: CrossFitData) -> CandidateModel:
    """A logistic regression with the penalty that predicts people held out best."""
    basis = row_space(data.matrix)
    if basis is None:
        return _tuned(PENALTIES, None, None, data)
    model = _tuned(PENALTIES, None, None, replace(data, matrix=data.matrix @ basis, known=None))
    estimator = Logistic(model.estimator.intercept, basis @ model.estimator.slope)
    return replace(model, everybody=lambda: estimator)


def _tuned(
    penalties: Sequence[float],
    pairs: Pairs | None,
    start: Logistic | None,
    data: CrossFitData,
    design: PairDesign | None = None,
) -> CandidateModel:
    """The penalty with the least log loss on people held out; folds start at everybody's fit."""
    if pairs is not None and design is None:
        design = PairDesign.of(data.matrix, pairs)
    fits = data.fits if design is None else LogisticFits(data.matrix, design, data.parts)
    models, losses, flat = [], [], EXACTLY if pairs is None else ROUGHLY
    kind = "l2 logistic regression" + ("" if pairs is None else " with pairs of inputs")
    for penalty in penalties:
        start = fits.fit(penalty, data.tally.weight, start=start, flat=flat)
        held_out = partial(_of_fold, fits, penalty, start)
        again = partial(_tuned, (penalty,), pairs, start)
        fitted = partial(_to_everybody, fits, penalty, data.tally.weight, pairs, start)
        models.append(_candidate(kind, held_out, data, fitted, again=again, penalty=penalty))
        losses.append(float(np.dot(*data.losses(models[-1].held_out))))
    return models[int(np.argmin(losses))]


def _of_fold(fits: LogisticFits, penalty: float, start: Logistic, fold: _Fold) -> FloatArray:
    return fits.held_out(penalty, fold.learn_from, fold.rows, start=start, flat=ROUGHLY)


def _to_everybody(
    fits: LogisticFits, penalty: float, weight: FloatArray, pairs: Pairs | None, start: Logistic
) -> Logistic | PairLogistic:
    """The rough fit at which the folds started, made exact."""
    model = fits.fit(penalty, weight, start=start)
    return model if pairs is None else PairLogistic(*pairs, model)


@dataclass(frozen=True)
class ModelChoice:
    """Which models are tried beside the logistic regression, and how much better they must be."""

    richer: tuple[Candidate, ...] | None = None
    """By default all of them."""
    least_gain: float = 0.0
    """The share by which one must cut the log loss of people held out."""
    errors: float = 0.0
    """... and in standard errors of the paired difference."""


LEAST_LOSS = ModelChoice()
"""Whichever of all models predicts people held out best."""


def best_model(data: CrossFitData, choice: ModelChoice = LEAST_LOSS) -> CandidateModel:
    """The logistic regression, or the best of the richer models if that beats it.

    Many people are chosen on by a few folds, and many rows by a sample; the winner is then fitted
    on everything.
    """
    rows, wanted = np.arange(len(data.matrix)), 0.0
    folds = SCREENING_FOLDS if data.tally.people.sum() > SCREENING_PEOPLE else len(data.folds)
    few = replace(data, folds=data.folds[:folds])
    sampled = len(rows) > SCREENING_ROWS
    if sampled:
        rows = np.sort(np.random.default_rng(0).choice(rows, SCREENING_ROWS, replace=False))
        few = data.only(rows, folds)
    # all of its folds are needed only for what any model could gain, and to be compared by rows
    logistic = logistic_model(data if sampled or choice.least_gain > 0 else few)
    rival: Sequence[FloatArray] = logistic.held_out[:folds]
    if choice.least_gain > 0:
        loss, weight = data.losses(logistic.held_out)
        wanted = choice.least_gain * float(loss @ weight / weight.sum())
        if possible_gain(data, logistic) < wanted:
            return logistic
    if sampled:
        rival = [
            answer[np.isin(fold.rows, rows)]
            for fold, answer in zip(data.folds[:folds], logistic.held_out, strict=False)
        ]
    loss, weight = few.losses(rival)
    best, least = logistic, 0.0
    richer = (pair_model, boosted_model) if choice.richer is None else choice.richer
    for candidate in filter(None, (model(few) for model in richer)):
        gain, error = mean_and_error(loss - few.losses(candidate.held_out)[0], weight)
        if gain > max(wanted, choice.errors * error, least):
            best, least = candidate, gain
    others = data.folds[len(best.held_out) :]
    if best is logistic:  # its penalty is chosen on all folds, which matters to small groups
        return logistic_model(data) if others else best
    if sampled:
        return best.again(data)
    if not others:
        return best
    return replace(best, held_out=[*best.held_out, *best.further(others)])


def mean_and_error(saved: FloatArray, weight: FloatArray) -> tuple[float, float]:
    """The mean of paired differences, and its standard error."""
    mean = float(weight @ saved / weight.sum())
    return mean, float(np.sqrt(weight @ (saved - mean) ** 2)) / float(weight.sum())


def possible_gain(data: CrossFitData, model: CandidateModel) -> float:
    """What any model of these inputs could cut the log loss by at most, two standard errors up.

    Of two people with equal inputs the product of residuals has the mean (q - p)^2, where q is the
    truth and p the model's; (q - p)^2 / 2p(1-p) is what q saves. Infinite where too few people
    have the inputs of others.
    """
    p, weight, squared = data.mean(model.held_out), data.tally.weight, data.tally.squared
    total, people = data.tally.by_row, data.tally.people.sum(axis=1)
    pairs = total**2 - data.tally.squared_by_row
    several = (people > 1) & (pairs > 0)
    if total[several].sum() < REPEATED * total.sum():
        return float("inf")
    residual = weight[:, 1] * (1 - p) - weight[:, 0] * p
    own = squared[:, 1] * (1 - p) ** 2 + squared[:, 0] * p**2
    share = np.divide(total, pairs, out=np.zeros_like(total), where=several)
    saved = (residual**2 - own) * share / (2 * p * (1 - p))
    error = np.sqrt((total * share)[several].sum() / 2)
    return float((saved[several].sum() + 2 * error) / total[several].sum())


def pair_model(data: CrossFitData) -> CandidateModel | None:
    """Logistic regression with products of inputs, squares of numbers among them."""
    products = None if data.known is None else data.known.products
    if products is None:
        products = _products(data.matrix, data.two_valued)
        if data.known is not None:
            data.known.products = products
    if products is None:
        return None
    pairs, design = products
    plain = data.fits.fit(PAIR_PENALTIES[0], data.tally.weight, flat=1e-4)
    start = Logistic(plain.intercept, np.r_[plain.slope, np.zeros(len(pairs[0]))])
    return _tuned(PAIR_PENALTIES, pairs, start, data, design)


def _products(matrix: FloatArray, two_valued: BoolArray) -> Products | None:
    """Products of columns that vary; None where they are too many, or none."""
    if matrix.shape[1] * (matrix.shape[1] + 3) / 2 > WIDE:
        return None
    first, second = np.triu_indices(matrix.shape[1])
    told = (first != second) | ~two_valued[first]  # the square of two values says nothing new
    if len(matrix) * (matrix.shape[1] + np.count_nonzero(told)) > MOST_CELLS:
        return None
    first, second = first[told], second[told]
    design = PairDesign.of(matrix, (first, second))
    varied = np.ptp(design.rough[:, 1 + matrix.shape[1] :], axis=0) > 0
    if not varied.any():
        return None
    if not varied.all():
        first, second = first[varied], second[varied]
        design = PairDesign.of(matrix, (first, second))
    return (first, second), design


def boosted_model(data: CrossFitData) -> CandidateModel | None:
    """Gradient boosting; a leaf's least size is in people, not in distinct rows."""
    return _boosted(data, max_leaf_nodes=8, max_bins=64)


def tree_model(data: CrossFitData) -> CandidateModel | None:
    """Gradient boosting that can be stored as numbers, where an input has more than two values.

    It cuts numbers as finely as scikit-learn can: one amount may decide alone.
    """
    if data.two_valued.all():
        return None
    return _boosted(data, max_leaf_nodes=12, learning_rate=0.2, read=BoostedTrees.read)


def _boosted(
    data: CrossFitData, *, read: Callable[[Any], Any] | None = None, **settings: Any
) -> CandidateModel | None:
    from sklearn.ensemble import HistGradientBoostingClassifier

    if len(data.matrix) < BOOSTED_ROWS:
        return None
    cells = int((data.tally.weight > 0).sum())
    leaf = max(1, round(LEAF_PEOPLE * cells / float(data.tally.people.sum())))
    estimator = HistGradientBoostingClassifier(
        min_samples_leaf=leaf, l2_regularization=1.0, max_iter=60, early_stopping=False,
        random_state=0, **settings,
    )  # fmt: skip
    with one_thread():  # now that scikit-learn is loaded: a limit holds for what is there by then
        return foreign_model(estimator, "gradient boosting", read, data)


def foreign_model(
    estimator: Any, kind: str, read: Callable[[Any], Any] | None, data: CrossFitData
) -> CandidateModel:
    """Somebody else's classifier; ``read`` makes of a fitted one what is kept of it."""

    def fit(weight: FloatArray) -> Any:
        fitted = fit_any(estimator, data.matrix, weight)
        return fitted if read is None else read(fitted)

    def held_out(fold: _Fold) -> FloatArray:
        answer: FloatArray = fit(fold.learn_from).predict_proba(data.matrix[fold.rows])[:, 1]
        return answer

    again = partial(foreign_model, estimator, kind, read)
    return _candidate(kind, held_out, data, partial(fit, data.tally.weight), again=again)
