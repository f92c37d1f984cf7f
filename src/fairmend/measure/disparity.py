"""Disparities: how differently the model treats two groups, and what each row adds to it.

Four of the paper's five metrics are one formula. On the target group's distinct rows with masses p,
decisions h and outcome probabilities y,

    M(p) = R(p) - c,    R(p) = <r, p> / <t, p>,    psi = (r - R t) / <t, p>,

with r the rate's event, t its condition, c the baseline's rate and psi the influence function
(the paper's Definition 3 and Proposition 4). So a metric is two functions of (h, y), and its
influence is derived, never written beside it.

A metric with `MetricWords` is registered: it is known by its short name everywhere, and the audit,
the report, the monitor and the command line take their words about it from there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from fairmend.data.columns import FloatArray
from fairmend.data.limits import Finite
from fairmend.data.stored import stored
from fairmend.errors import DataError, check, in_a_line, nearest, warn
from fairmend.measure.population import Population

Term = Callable[[FloatArray, FloatArray], FloatArray]
_MIRRORED = "1-"


@dataclass(frozen=True)
class MetricWords:
    """What people read about a metric.

    >>> words = words_of("fnr")
    >>> words.title, words.condition, words.event
    ('false negative rate', 'of those with a positive outcome, ', 'get a negative decision')
    """

    title: str = ""
    """Its name: ``false negative rate``."""
    meaning: str = ""
    """What it counts: ``negative decisions among positive outcomes``."""
    event: str = ""
    """What happens to those it counts, after "30 % of women": ``get a negative decision``."""
    among: str = ""
    """Whom it is over, after "of those with": ``a positive outcome``; empty for everybody."""
    unit: str = "points"
    """The unit of its gap; empty for what is no difference of rates."""
    synonyms: tuple[str, ...] = ()
    """What others call it."""
    complements: tuple[str, ...] = ()
    """What others call 1 minus it."""

    @property
    def line(self) -> str:
        """Title and meaning, for a legend."""
        return ", ".join(filter(None, (self.title, self.meaning)))

    @property
    def condition(self) -> str:
        """The start of a sentence about those the metric is over."""
        return f"of those with {self.among}, " if self.among else ""


class Disparity(ABC):
    """A number that is 0 when the model treats both groups alike; positive: the target fares worse.

    Disparities add and multiply: ``0.5 * FNR + 0.5 * FPR`` is one (the paper's Proposition 3).
    """

    name: str
    words: MetricWords = MetricWords()

    @property
    def title(self) -> str:
        """What it measures, in words for a reader."""
        return self.words.line

    @property
    def uses_outcome(self) -> bool:
        """Whether it depends on outcomes; assumed where it is not known."""
        return True

    @abstractmethod
    def value(self, target: Population, baseline: Population) -> float:
        """M(target); the baseline enters as a constant."""

    @abstractmethod
    def influence(self, target: Population, baseline: Population) -> FloatArray:
        """psi(x) = d/de M((1-e) target + e delta_x) at e = 0, one entry per row of the target."""

    @abstractmethod
    def baseline_influence(self, target: Population, baseline: Population) -> FloatArray:
        """The same derivative in the baseline's distribution: its sampling error counts too."""

    def __add__(self, other: Disparity) -> Combination:
        return Combination(parts_of(self) + parts_of(other))

    def __mul__(self, factor: float) -> Combination:
        return Combination(tuple((factor * weight, part) for weight, part in parts_of(self)))

    __rmul__ = __mul__


def parts_of(disparity: Disparity) -> tuple[tuple[float, Disparity], ...]:
    """What a sum is made of, with weights; anything else is a sum of itself."""
    return disparity.parts if isinstance(disparity, Combination) else ((1.0, disparity),)


@stored("Combination")
@dataclass(frozen=True)
class Combination(Disparity):
    """A weighted sum of disparities; value and influence are the same sums of theirs.

    A signed sum of two gaps can be 0 while neither is: to close both, pass both as a list.

    >>> (0.5 * as_disparity("fnr") + 0.5 * as_disparity("fpr")).name
    '0.5 fnr + 0.5 fpr'
    """

    parts: tuple[tuple[Finite, Disparity], ...]

    @property
    def name(self) -> str:  # type: ignore[override]
        return " + ".join(f"{weight:g} {part.name}" for weight, part in self.parts)

    @property
    def uses_outcome(self) -> bool:
        return any(part.uses_outcome for _, part in self.parts)

    def value(self, target: Population, baseline: Population) -> float:
        return sum(weight * part.value(target, baseline) for weight, part in self.parts)

    def influence(self, target: Population, baseline: Population) -> FloatArray:
        return self._summed(part.influence(target, baseline) for _, part in self.parts)

    def baseline_influence(self, target: Population, baseline: Population) -> FloatArray:
        return self._summed(part.baseline_influence(target, baseline) for _, part in self.parts)

    def _summed(self, influences: Iterable[FloatArray]) -> FloatArray:
        weights = np.array([weight for weight, _ in self.parts])
        return np.asarray(weights @ np.stack(list(influences)), np.float64)


@dataclass(frozen=True)
class _Rest:
    """Those the rate is over that it does not count."""

    rate: Term
    given: Term

    def __call__(self, h: FloatArray, y: FloatArray) -> FloatArray:
        rest: FloatArray = self.given(h, y) - self.rate(h, y)
        return rest


@dataclass(frozen=True)
class RateGap(Disparity):
    """A difference of rates, E[event] / E[condition], between target and baseline.

    ``rate`` and ``given`` take arrays of decisions h and outcomes y. They must be linear in y, so
    that probabilities may stand in for outcomes, and 0 <= rate <= given <= 1, so that their ratio
    is a rate. By convention a higher rate is worse. With ``words`` that have a title it is
    registered, and known by its name from then on.

    The false omission rate P(Y=1 | decision 0), for example:

    >>> omission = RateGap("for", rate=lambda h, y: (1 - h) * y, given=lambda h, y: 1 - h)
    >>> target = Population.of(mass=[1, 1], decision=[0, 0], outcome=[0.5, 0.1])
    >>> baseline = Population.of(mass=[1, 1], decision=[0, 0], outcome=[0.1, 0.1])
    >>> round(omission.value(target, baseline), 9)
    0.2
    """

    name: str
    rate: Term
    given: Term
    words: MetricWords = field(default=MetricWords(), compare=False, repr=False)

    def __post_init__(self) -> None:
        """Check the two functions where h and y are 0, 1/2 and 1, and register it by its words."""
        h, y = (axis.ravel() for axis in np.meshgrid([0.0, 0.5, 1.0], [0.0, 0.5, 1.0]))
        what, (r, t) = f"RateGap {self.name!r}", self._at(h, y)
        must = "must have 0 <= rate <= given <= 1 for all decisions and outcomes in [0, 1]"
        fix = "Write rate as given and something more, e.g. (1 - h) * y given y."
        check(((r >= 0) & (r <= t) & (t <= 1)).all(), what, must, "it does not", fix)
        low, middle, high = np.stack([r, t]).reshape(2, 3, 3).swapaxes(0, 1)
        got = "at y = 0.5 it is not half-way between y = 0 and y = 1"
        fix = "Write it as a(h) + b(h) * y."
        check(np.allclose(middle, (low + high) / 2), what, "must be linear in y", got, fix)
        if self.words.title:
            register(self)

    def of(self, population: Population) -> float:
        """R = <r, p> / <t, p>; nan where nobody meets the condition."""
        r, t = self.terms(population)
        total = float(t @ population.mass)
        return float(r @ population.mass) / total if total > 0 else float("nan")

    def value(self, target: Population, baseline: Population) -> float:
        return self.of(target) - self.of(baseline)

    def influence(self, target: Population, baseline: Population) -> FloatArray:
        return self._influence_on_rate(target)

    def baseline_influence(self, target: Population, baseline: Population) -> FloatArray:
        return -self._influence_on_rate(baseline)

    def _influence_on_rate(self, population: Population) -> FloatArray:
        r, t = self.terms(population)
        total = float(t @ population.mass)
        must, got = "must have somebody its rate is over", "nobody in the group meets its condition"
        fix = "Choose another metric for this group."
        check(total > 0, f"disparity {self.name!r}", must, got, fix)
        return (r - self.of(population) * t) / total

    def terms(self, population: Population) -> tuple[FloatArray, FloatArray]:
        """The event r and the condition t at each row."""
        return self._at(population.decision, population.outcome)

    @property
    def mirror(self) -> RateGap:
        """The complement 1 - R, for those whose rate is to rise.

        >>> sp = as_disparity("sp")
        >>> sp.mirror.name, sp.mirror.mirror is not sp and sp.mirror.mirror == sp
        ('1-sp', True)
        """
        if isinstance(self.rate, _Rest):
            return RateGap(self.name.removeprefix(_MIRRORED), self.rate.rate, self.given)
        words = MetricWords(meaning=f"complement of {self.title or self.name}")
        rest = _Rest(self.rate, self.given)
        return RateGap(_MIRRORED + self.name, rest, self.given, words)

    @property
    def uses_outcome(self) -> bool:
        h = np.array([0.0, 0.5, 1.0])
        ends = [self._at(h, np.full(3, outcome)) for outcome in (0.0, 1.0)]
        return not np.array_equal(ends[0], ends[1])

    @property
    def decision(self) -> int | None:
        """The decision it counts; None where it depends on decisions in another way.

        >>> [as_disparity(name).decision for name in ("sp", "fnr", "fpr", "fdr")]
        [0, 0, 1, None]
        """
        outcomes = np.array([0.0, 1.0])
        (r0, t0), (r1, t1) = (self._at(np.full(2, h), outcomes) for h in (0.0, 1.0))
        if not np.array_equal(t0, t1) or r0.any() == r1.any():
            return None
        return int(r1.any())

    def _at(self, h: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        ones = np.ones_like(h)  # a constant condition may be written as a plain 1
        return self.rate(h, y) * ones, self.given(h, y) * ones


# -------------------------------------------------------------------- metrics by name

_REGISTRY: dict[str, Disparity] = {}
_BUILT_IN: set[str] = set()


def register(metric: Disparity, *, built_in: bool = False) -> None:
    """Make a metric known by its name; one of fairmend's own is never replaced."""
    name = metric.name.lower()
    is_new = name not in _BUILT_IN and not name.startswith(_MIRRORED)
    must, got = f"must be new and must not start with {_MIRRORED!r}", f"got {metric.name!r}"
    check(is_new, "metric name", must, got, "Choose another name: this one has a meaning already.")
    _REGISTRY[name] = metric
    if built_in:
        _BUILT_IN.add(name)


@cache
def _load_entry_points() -> None:
    """Import the metrics that installed packages declare as ``fairmend.metrics``."""
    from importlib.metadata import entry_points

    for entry in entry_points(group="fairmend.metrics"):
        try:
            entry.load()
        except Exception as error:  # code of others
            warn(f"metric {entry.name!r} could not be loaded: {in_a_line(error)}")


def metric_names() -> tuple[str, ...]:
    """The short names of the registered metrics; those without a title are internal."""
    _load_entry_points()
    return tuple(name for name, metric in _REGISTRY.items() if metric.words.title)


def metric_choices() -> str:
    """The registered metrics with their titles, for a help text.

    >>> metric_choices().split(", ")[:2]
    ['sp (statistical parity)', 'fnr (false negative rate)']
    """
    *most, last = (f"{name} ({words_of(name).title})" for name in metric_names())
    return f"{', '.join(most)} or {last}"


def find_metric(name: str) -> Disparity | None:
    """A registered metric, or the mirror of one after ``"1-"``; None if there is no such metric."""
    key = name.lower()
    if key.startswith(_MIRRORED):
        mirrored = find_metric(key.removeprefix(_MIRRORED))
        return mirrored.mirror if isinstance(mirrored, RateGap) else None
    if key not in _REGISTRY:
        _load_entry_points()
    return _REGISTRY.get(key)


def words_of(name: str) -> MetricWords:
    """The words about a metric, by its name; none where it is not registered.

    >>> words_of("fdr").title, words_of("da(0.5)").unit, words_of("mine").event
    ('false discovery rate', '', '')
    """
    metric = find_metric(name.split("(", maxsplit=1)[0])
    return MetricWords() if metric is None else metric.words


def title_of(name: str) -> str:
    """What a metric is called, by its short name; that name itself where it has no title."""
    return words_of(name).title or name


def as_disparity(given: str | Disparity) -> Disparity:
    """A disparity from its short name, or itself; ``"1-"`` before the name of a rate mirrors it.

    >>> as_disparity("1-fnr") == as_disparity("fnr").mirror
    True
    """
    if isinstance(given, Disparity):
        return given
    metric = find_metric(given) if isinstance(given, str) else None
    if metric is None or not metric.title:
        names = metric_names()
        must, fix = f"must be one of {', '.join(names)}, or a Disparity", _same_as(given)
        raise DataError("metric", must, f"got {given!r}", fix or nearest(given, names))
    return metric


def read_disparities(given: Any) -> tuple[Disparity, ...]:
    """One disparity or several, by name or as they are."""
    many = given if isinstance(given, list | tuple) else [given]
    check(len(many) > 0, "disparity", "must be at least one", "got none", "For example 'fnr'.")
    return tuple(as_disparity(one) for one in many)


_ODDS = ("equalized_odds", "equalised_odds", "eo")


def _same_as(given: object) -> str:
    """Which metric compares what a name from elsewhere does, for the end of a message.

    >>> _same_as("Recall")
    "Say 'fnr': recall is 1 - fnr, so their gaps are the same but for the sign."
    """
    name = str(given).lower().replace("-", "_").replace(" ", "_")
    if name in _ODDS:
        return "Equalized odds is 'fnr' and 'fpr' together, equal opportunity is 'fnr'."
    for key, metric in _REGISTRY.items():
        if name in metric.words.complements:
            return f"Say {key!r}: {name} is 1 - {key}, so their gaps are the same but for the sign."
        if name in metric.words.synonyms:
            return f"Say {key!r}."
    return ""
