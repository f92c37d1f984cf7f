"""What decisions are worth to whoever makes them, and whether two sets of them are worth the same.

A measure of performance is estimated with its influence function, person by person. So the
difference between two sets of decisions about the same people has a standard error that accounts
for their being the same people, and needs no resampling.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairmend.data.columns import FloatArray, IntArray
from fairmend.errors import ModelError, check, foreign_code, in_a_line
from fairmend.measure import special
from fairmend.measure.intervals import normal_quantile
from fairmend.measure.population import ranked_above
from fairmend.model.answers import Answers

CONFIDENCE = 0.95
PSEUDO_PEOPLE = 2.0
"""Half a person in each cell of two decisions (Agresti and Min, 2005), so that a handful of changed
decisions does not look more certain than it is."""


@dataclass(frozen=True, eq=False)
class Outcomes:
    """What really happened to people, one entry a row of the data."""

    outcome: FloatArray
    """0 or 1."""
    weight: FloatArray
    person: IntArray | None = None
    """Whose row it is, where some people have several."""

    def __len__(self) -> int:
        return len(self.outcome)

    @property
    def share(self) -> FloatArray:
        return np.asarray(self.weight / self.weight.sum())

    def squared(self, each: FloatArray) -> float:
        """The sum of squares over people; a person's rows are added up first."""
        if self.person is not None:
            each = np.bincount(self.person, each).astype(np.float64)
        return float(each @ each)

    def variance(self, psi: FloatArray) -> float:
        """Of a mean whose influence function is ``psi``."""
        return self.squared(self.share * psi)

    @property
    def rows_of_person(self) -> FloatArray:
        """How many rows each row's person has."""
        if self.person is None:
            return np.ones(len(self))
        return np.bincount(self.person)[self.person].astype(np.float64)

    @property
    def effective(self) -> float:
        """How many equally weighted people these are worth."""
        return 1 / self.variance(np.ones(len(self)))


@dataclass(frozen=True, eq=False)
class Estimate:
    """A measure of some decisions, and the influence of each row on it."""

    value: float
    psi: FloatArray


class Performance(ABC):
    """A measure of decisions; more is better."""

    name: str
    relative = False
    """Whether a margin is a share of the measure of the current decisions."""

    @abstractmethod
    def of(self, people: Outcomes, answers: Answers) -> Estimate:
        """The measure of these decisions about these people."""

    def gains(self, people: Outcomes) -> FloatArray | None:
        """What each person adds if decided 0 and if decided 1; None if the measure is no mean."""
        return None

    def typical_step(self, people: Outcomes) -> float:
        """What one changed decision typically does to its person's part of the measure."""
        gains = self.gains(people)
        if gains is None:
            return 1.0
        return float(np.sqrt(people.share @ (gains[:, 1] - gains[:, 0]) ** 2))


@dataclass(frozen=True)
class Worth(Performance):
    """1 - 2 (k FP + (1-k) FN): wrong decisions weighed; accuracy at k = 1/2.

    >>> people = Outcomes(np.array([1.0, 0.0, 0.0, 1.0]), np.ones(4))
    >>> Worth("accuracy", 0.5).of(people, Answers(np.array([1.0, 0.0, 1.0, 1.0]), None)).value
    0.75
    """

    name: str = "accuracy"
    cut: float = 0.5

    def gains(self, people: Outcomes) -> FloatArray:
        y = people.outcome
        return np.stack([1 - 2 * (1 - self.cut) * y, 1 - 2 * self.cut * (1 - y)], axis=1)

    def of(self, people: Outcomes, answers: Answers) -> Estimate:
        return _mean(people, answers, self.gains(people))


@dataclass(frozen=True)
class BalancedAccuracy(Performance):
    """The mean of the two shares of right decisions, by outcome.

    >>> people = Outcomes(np.array([1.0, 0.0, 0.0, 0.0]), np.ones(4))
    >>> BalancedAccuracy().of(people, Answers(np.zeros(4), None)).value
    0.5
    """

    name: str = "balanced accuracy"

    def gains(self, people: Outcomes) -> FloatArray:
        y = people.outcome
        positive = _positive_share(people)
        return np.stack([(1 - y) / (2 * (1 - positive)), y / (2 * positive)], axis=1)

    def of(self, people: Outcomes, answers: Answers) -> Estimate:
        right = _mean(people, answers, self.gains(people))
        y, positive = people.outcome, _positive_share(people)
        true_positive = float(people.share @ (y * answers.decision)) / positive
        true_negative = 2 * right.value - true_positive
        psi = right.psi + right.value - true_positive * y / (2 * positive)
        return Estimate(right.value, psi - true_negative * (1 - y) / (2 * (1 - positive)))


@dataclass(frozen=True)
class AreaUnderCurve(Performance):
    """The chance that somebody with a positive outcome is ranked above somebody without one.

    By scores where there are any, otherwise by the decisions. Its influence function is that of
    DeLong, DeLong and Clarke-Pearson (1988).

    >>> people = Outcomes(np.array([1.0, 0.0, 0.0, 1.0]), np.ones(4))
    >>> AreaUnderCurve().of(people, Answers(np.ones(4), np.array([0.9, 0.1, 0.5, 0.5]))).value
    0.875
    """

    name: str = "AUC"

    def of(self, people: Outcomes, answers: Answers) -> Estimate:
        rank = answers.decision if answers.score is None else answers.score
        y, share, positive = people.outcome, people.share, _positive_share(people)
        _, place = np.unique(rank, return_inverse=True)
        negatives = ranked_above(place, share * (1 - y)) / (1 - positive)
        positives = ranked_above(place, share * y) / positive
        placement = np.where(y == 1, negatives, 1 - positives)
        value = float(share @ (y * placement)) / positive
        own_side = np.where(y == 1, positive, 1 - positive)
        return Estimate(value, (placement - value) / own_side)


@dataclass(frozen=True, eq=False)
class Profit(Performance):
    """The mean of what a positive decision about each person brings; a negative one brings 0.

    >>> people = Outcomes(np.array([1.0, 0.0]), np.ones(2))
    >>> Profit("profit", np.array([30.0, -50.0])).of(people, Answers(np.ones(2), None)).value
    -10.0
    """

    name: str
    amount: FloatArray
    relative = True

    def gains(self, people: Outcomes) -> FloatArray:
        return np.stack([np.zeros(len(people)), self.amount], axis=1)

    def of(self, people: Outcomes, answers: Answers) -> Estimate:
        return _mean(people, answers, self.gains(people))


@dataclass(frozen=True)
class OwnMeasure(Performance):
    """A function of decisions and outcomes, both as arrays of 0 and 1.

    A decision and an outcome make four kinds of people, and the function is called with as many of
    each kind as there are: weighted people and those decided by a draw count with their shares.
    Leaving out one person of a kind gives what each of that kind adds: the jackknife, in at most
    five calls.

    >>> share_right = OwnMeasure(lambda decided, outcome: (decided == outcome).mean())
    >>> people = Outcomes(np.array([1.0, 0.0, 0.0, 1.0]), np.ones(4))
    >>> share_right.of(people, Answers(np.array([1.0, 0.0, 1.0, 1.0]), None)).value
    0.75
    """

    function: Callable[[Any, Any], float]

    @property
    def name(self) -> str:  # type: ignore[override]
        called = getattr(self.function, "__name__", "")
        return called if called.isidentifier() else "own measure"

    def of(self, people: Outcomes, answers: Answers) -> Estimate:
        y, n = people.outcome, len(people)
        members = np.stack([d * o for d in (1 - answers.decision, answers.decision)
                            for o in (1 - y, y)])  # fmt: skip
        counts = _whole(n * (members @ people.share))
        value, psi = self._called(counts), np.zeros(n)
        for place in np.flatnonzero(counts):
            without = counts - (np.arange(len(counts)) == place)
            psi += members[place] * (n - 1) * (value - self._called(without))
        return Estimate(value, psi - people.share @ psi)

    def _called(self, counts: IntArray) -> float:
        decided, outcome = np.repeat([0, 0, 1, 1], counts), np.repeat([0, 1, 0, 1], counts)

        def complain(error: BaseException) -> ModelError:
            must = "must take decisions and outcomes as arrays of 0 and 1"
            return ModelError("measure", must, f"it raised {in_a_line(error)}", "Call it by hand.")

        with foreign_code(complain):
            value = np.asarray(self.function(decided, outcome), np.float64)
        finite = value.ndim == 0 and np.isfinite(value)
        fix = "More must be better: return minus a loss."
        check(finite, "measure", "must return one finite number", f"got {value!r:.80}", fix)
        return float(value)


def _whole(parts: FloatArray) -> IntArray:
    """Whole numbers of the same sum, each less than 1 off.

    >>> _whole(np.array([0.6, 1.6, 1.8])).tolist()
    [1, 1, 2]
    """
    upto = np.rint(np.cumsum(parts)).astype(np.int64)
    return np.diff(upto, prepend=0)


def _mean(people: Outcomes, answers: Answers, gains: FloatArray) -> Estimate:
    each = gains[:, 0] + answers.decision * (gains[:, 1] - gains[:, 0])
    value = float(people.share @ each)
    return Estimate(value, each - value)


def _positive_share(people: Outcomes) -> float:
    positive = float(people.share @ people.outcome)
    must = "must have both outcomes among the people judged, for this measure"
    fix = "Use measure='accuracy', or judge on more people."
    check(0 < positive < 1, "y", must, "everybody has the same", fix)
    return positive


# -------------------------------------------------------------------- two sets of decisions


@dataclass(frozen=True)
class Equivalence:
    """The measure of other decisions about the same people, beside that of the current ones."""

    value: float
    low: float
    high: float
    """With its interval at `CONFIDENCE`."""
    difference: float
    """From the measure of the current decisions."""
    difference_low: float
    difference_high: float
    margin: float
    """In the unit of the measure."""
    error: float
    """The standard error of the difference plus the margin."""
    p_worse: float
    """Of the one-sided test that the measure is worse by the margin or more."""
    p_better: float
    """Of the one-sided test that it is better by the margin or more."""

    @property
    def p_value(self) -> float:
        """Of the two one-sided tests together: the larger of both."""
        return max(self.p_worse, self.p_better)

    def at(self, confidence: float) -> Equivalence:
        """The same with intervals at another confidence."""
        wider = normal_quantile(confidence) / normal_quantile(CONFIDENCE)

        def sides(low: float, high: float) -> tuple[float, float]:
            middle, half = (low + high) / 2, wider * (high - low) / 2
            return middle - half, middle + half

        low, high = sides(self.low, self.high)
        lower, upper = sides(self.difference_low, self.difference_high)
        return replace(self, low=low, high=high, difference_low=lower, difference_high=upper)


def compare(
    measure: Performance, people: Outcomes, current: Answers, other: Answers, *, margin: float
) -> Equivalence:
    """Two one-sided tests at a margin (Schuirmann, 1987), on pairs of decisions.

    >>> rng = np.random.default_rng(0)
    >>> people = Outcomes((rng.random(4_000) < 0.4).astype(float), np.ones(4_000))
    >>> now = Answers((rng.random(4_000) < 0.5).astype(float), None)
    >>> same = compare(Worth(), people, now, now, margin=0.005)
    >>> same.difference, same.p_value < 0.001
    (0.0, True)
    """
    here, there = measure.of(people, current), measure.of(people, other)
    n = people.effective
    shrunk = n / (n + PSEUDO_PEOPLE)
    step = measure.typical_step(people)
    whole = abs(here.value) * margin if measure.relative else margin
    # a margin that is a share of the measure is estimated on the same people
    whose = np.sign(here.value) * margin * here.psi if measure.relative else np.zeros(len(people))

    def error_of(psi: FloatArray) -> float:
        return float(np.hypot(shrunk * np.sqrt(people.variance(psi)), step / (n + PSEUDO_PEOPLE)))

    psi = there.psi - here.psi
    error, above = error_of(psi + whose), error_of(psi - whose)
    own, plain = error_of(there.psi), error_of(psi)
    z, difference = normal_quantile(CONFIDENCE), there.value - here.value

    def p_value_of(beyond: float, error: float) -> float:
        """Of the test that this is 0.

        If it were, more changes than were seen would be for the worse. A test that leaves these
        out of its error rejects too often (Tango, 1998).
        """
        missing = step * max(beyond, 0.0) / n
        return float(special.ndtr(-beyond / np.sqrt(error**2 + missing)))

    return Equivalence(
        value=there.value,
        low=there.value - z * own,
        high=there.value + z * own,
        difference=difference,
        difference_low=shrunk * difference - z * plain,
        difference_high=shrunk * difference + z * plain,
        margin=whole,
        error=error,
        p_worse=p_value_of(shrunk * difference + whole, error),
        p_better=p_value_of(whole - shrunk * difference, above),
    )
