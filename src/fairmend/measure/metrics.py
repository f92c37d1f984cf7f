"""The metrics that come with fairmend: four rate gaps and distribution alignment.

Each is registered here, with everything people read about it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from fairmend.data.columns import FloatArray
from fairmend.data.stored import stored
from fairmend.errors import DataError, check, check_between
from fairmend.measure import special
from fairmend.measure.disparity import Disparity, MetricWords, RateGap, as_disparity, register
from fairmend.measure.population import AuditData, Population

METRICS = ("sp", "fnr", "fpr", "fdr")
"""The default of an audit."""

# Named functions and no lambdas, so that what holds a metric can be pickled to other processes.


def _everybody(h: FloatArray, y: FloatArray) -> FloatArray:
    return np.ones_like(h)


def _positive_decision(h: FloatArray, y: FloatArray) -> FloatArray:
    return h


def _negative_decision(h: FloatArray, y: FloatArray) -> FloatArray:
    return 1 - h


def _positive_outcome(h: FloatArray, y: FloatArray) -> FloatArray:
    return y


def _negative_outcome(h: FloatArray, y: FloatArray) -> FloatArray:
    return 1 - y


def _false_negative(h: FloatArray, y: FloatArray) -> FloatArray:
    return (1 - h) * y


def _false_positive(h: FloatArray, y: FloatArray) -> FloatArray:
    return h * (1 - y)


SP = RateGap(
    "sp",
    _negative_decision,
    _everybody,
    MetricWords(
        "statistical parity",
        "the share of negative decisions",
        event="get a negative decision",
        synonyms=("dp", "demographic_parity", "statistical_parity", "disparate_impact"),
        complements=("selection", "selection_rate"),
    ),
)
"""Statistical parity: P(decision 0)."""
FNR = RateGap(
    "fnr",
    _false_negative,
    _positive_outcome,
    MetricWords(
        "false negative rate",
        "negative decisions among positive outcomes",
        event="get a negative decision",
        among="a positive outcome",
        synonyms=("equal_opportunity", "miss_rate"),
        complements=("tpr", "recall", "sensitivity"),
    ),
)
"""False negative rate: P(decision 0 | Y=1)."""
FPR = RateGap(
    "fpr",
    _false_positive,
    _negative_outcome,
    MetricWords(
        "false positive rate",
        "positive decisions among negative outcomes",
        event="get a positive decision",
        among="a negative outcome",
        synonyms=("predictive_equality",),
        complements=("tnr", "specificity"),
    ),
)
"""False positive rate: P(decision 1 | Y=0)."""
FDR = RateGap(
    "fdr",
    _false_positive,
    _positive_decision,
    MetricWords(
        "false discovery rate",
        "negative outcomes among positive decisions",
        event="turn out to have a negative outcome",
        among="a positive decision",
        synonyms=("predictive_parity",),
        complements=("ppv", "precision"),
    ),
)
"""False discovery rate: P(Y=0 | decision 1)."""
SELECTION = RateGap("selection", _positive_decision, _everybody)
"""P(decision 1): what alignment closes where the target group has more positive decisions."""


@stored("Alignment")
@dataclass(frozen=True)
class Alignment(Disparity):
    """Distribution alignment, DA = KL(decisions) + weight KL(inputs), target against baseline.

    With mu the share of positive decisions and P1 the baseline's mass at the target's rows
    (`Population.baseline_mass`),

        DA  = KL(mu0 || mu1) + weight * sum_x p log(p / P1)
        psi = (logit mu0 - logit mu1) (h - mu0) + weight * (L - E[L]),   L = log(p / P1).

    L uses the masses as they stand, so it stays right once they have been reweighted.

    >>> target = Population.of(mass=[1, 1], decision=[0, 1], outcome=[0, 1])
    >>> baseline = Population.of(mass=[1, 3], decision=[0, 1], outcome=[0, 1])
    >>> round(Alignment().value(target, baseline), 6)
    0.143841
    """

    weight: float = 0.0
    words = MetricWords("distribution alignment", "a divergence in hundredths of a nat", unit="")

    def __post_init__(self) -> None:
        check_between("Alignment weight", self.weight, 0, fix="0 compares decisions alone.")

    @property
    def name(self) -> str:  # type: ignore[override]
        return "da" if self.weight == 0 else f"da({self.weight:g})"

    @property
    def uses_outcome(self) -> bool:
        return False

    def value(self, target: Population, baseline: Population) -> float:
        mu0, mu1 = _positive_share(target), _positive_share(baseline)
        decisions = float(special.rel_entr(mu0, mu1) + special.rel_entr(1 - mu0, 1 - mu1))
        if self.weight == 0:
            return decisions
        return decisions + self.weight * float(target.mass @ self._log_ratio(target))

    def influence(self, target: Population, baseline: Population) -> FloatArray:
        mu0, mu1 = _positive_share(target), _positive_share(baseline)
        with np.errstate(invalid="ignore"):  # both groups always get the same decision
            psi = _times(special.logit(mu0) - special.logit(mu1), target.decision - mu0)
        if self.weight > 0:
            log_ratio = self._log_ratio(target)
            psi = psi + self.weight * (log_ratio - target.mass @ log_ratio)
        return np.asarray(psi, np.float64)

    def baseline_influence(self, target: Population, baseline: Population) -> FloatArray:
        """Through mu1 alone: what the inputs term owes to P1's sampling is not counted."""
        mu0, mu1 = _positive_share(target), _positive_share(baseline)
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = np.divide(mu1 - mu0, mu1 * (1 - mu1))
        return _times(slope, baseline.decision - mu1)

    @staticmethod
    def _log_ratio(target: Population) -> FloatArray:
        if target.baseline_mass is None:
            must, got = "needs the baseline's mass at the target's rows", "the population has none"
            fix = "Give Population.baseline_mass, or use weight=0."
            raise DataError("Alignment with weight > 0", must, got, fix)
        kept = target.mass > 0
        ratio = np.zeros_like(target.mass)
        with np.errstate(divide="ignore"):
            ratio[kept] = np.log(target.mass[kept]) - np.log(target.baseline_mass[kept])
        return ratio


def _times(slope: float, change: FloatArray) -> FloatArray:
    """Slope times change, and 0 where nothing changes, however steep it would be."""
    return np.multiply(slope, change, out=np.zeros_like(change), where=change != 0)


def _positive_share(population: Population) -> float:
    """P(decision 1); exactly 0 or 1 where everybody gets one decision, whatever the rounding."""
    positive = float(population.decision @ population.mass)
    return positive / (positive + float((1 - population.decision) @ population.mass))


for _metric in (SP, FNR, FPR, FDR, SELECTION, Alignment()):
    register(_metric, built_in=True)


def default_metrics(*, outcome_known: bool) -> tuple[str, ...]:
    """The metrics of an audit by default; without outcomes, those that need none.

    >>> default_metrics(outcome_known=False)
    ('sp',)
    """
    return tuple(name for name in METRICS if outcome_known or not as_disparity(name).uses_outcome)


def check_outcomes_are_known(data: AuditData, disparities: Iterable[Disparity]) -> None:
    """Refuse metrics that need outcomes where there are none."""
    for disparity in disparities:
        must = f"must hold what really happened for {disparity.name}"
        fix = "Pass it, or ask for 'sp', which compares decisions alone."
        check(data.outcome_known or not disparity.uses_outcome, "y", must, "got None", fix)
