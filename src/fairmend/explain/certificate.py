"""Can any distribution over these inputs close the gap? The paper's Proposition 1, certified."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairmend.data.columns import BoolArray, FloatArray, Frame
from fairmend.data.rows import numbered
from fairmend.explain.crossfit import CLIP
from fairmend.explain.outcomes import FittedProbability
from fairmend.explain.projection import NO_GAP
from fairmend.measure.disparity import Disparity, RateGap
from fairmend.measure.equal_inputs import have_several
from fairmend.measure.intervals import (
    SamplingError,
    clopper_pearson,
    normal_quantile,
    rate_interval,
)
from fairmend.measure.metrics import SP, Alignment
from fairmend.measure.population import Population
from fairmend.measure.wording import span
from fairmend.tables import points


@dataclass(frozen=True)
class Certificate:
    """Whether any distribution over these inputs closes the gap (the paper's Proposition 1).

    M attains its extremes on single rows, so a gap M(P0) > 0 can be lowered to
    min_i r_i / t_i - c and no further, and a gap below 0 up to the maximum. The bounds hold for all
    rows at once (Bonferroni) and include the error in the baseline's rate.
    """

    best_reachable: float
    """The furthest M can be moved towards 0 and past it; on this side of 0 the gap stays open."""
    low: float
    high: float
    confidence: float
    downwards: bool = True
    """Whether the gap is positive, so that closing it means bringing M down."""
    baseline_covered: float = 1.0
    """The share of the baseline's people whose inputs somebody in the target group has too."""
    by_outcome: bool = True
    """Whether the rate of a single row depends on its outcome, as that of fdr does."""
    several_decisions: bool = False
    """Whether equal inputs got different decisions, as those on record may have."""
    model: str = ""
    """The model of outcomes the figures rest on; empty where they rest on none."""
    calibration_error: float = 0.0
    """Of that model."""
    model_error: bool = True
    """Whether the interval includes the error of that model."""
    counted: tuple[float, float] | None = None
    """Bounds on the best reachable by the observed shares of single rows alone, without a model."""

    @property
    def irreconcilable(self) -> bool:
        return self.out_of_reach(0.0)

    def out_of_reach(self, gap: float) -> bool:
        """Whether no distribution over these inputs brings the disparity as far as this."""
        short = self.best_reachable - gap if self.downwards else gap - self.best_reachable
        return short > NO_GAP

    @property
    def certain(self) -> bool:
        """Whether the answer holds all over its interval, and does not rest on a model."""
        if self.model:
            return self._closes_by_counts is not None and self._agrees
        return (self.low > 0) == (self.high > 0)

    @property
    def _closes_by_counts(self) -> bool | None:
        """What the observed shares alone say; None where they leave it open, or are not known."""
        ends = self.counted or (-1.0, 1.0)
        closes = {end <= 0 if self.downwards else end >= 0 for end in ends}
        return closes.pop() if len(closes) == 1 else None

    @property
    def _agrees(self) -> bool:
        return self._closes_by_counts != self.irreconcilable

    def __str__(self) -> str:
        best = f"{points(self.best_reachable)} points ({100 * self.confidence:g} % interval "
        best += f"{span(self.low, self.high)})"
        if self.irreconcilable:
            text = (
                "No distribution over these inputs closes this gap; the nearest to 0 that any "
                f"takes it is {best}{self._reasons}."
            )
        else:
            text = (
                "The gap can be closed: some distribution over these inputs takes it to 0. The "
                f"furthest any takes it is {best}."
            )
            if self.several_decisions:
                text += " Equal inputs with different decisions count as different inputs."
        return f"{text}{self._how_sure}"

    @property
    def _reasons(self) -> str:
        reasons = [
            *(["P(Y|X) differs between the groups"] if self.by_outcome else []),
            *(["equal inputs get different decisions"] if self.several_decisions else []),
        ]
        if self.baseline_covered < 1 - 1e-9:
            reasons.append(
                "nobody in the target group has the inputs of "
                f"{100 * (1 - self.baseline_covered):.1f} % of the reference group"
            )
        word = "because" if self.certain else "perhaps because"
        return f", {word} {', or '.join(reasons)}" if reasons else ""

    @property
    def _how_sure(self) -> str:
        if not self.model:
            return "" if self.certain else " The data leave room for the other answer."
        under = (
            f" This is under the fitted model ({self.model}), whose calibration error is "
            f"{100 * self.calibration_error:.1f} points"
        )
        if not self.model_error:
            under += " and whose own error the interval leaves out"
        if self.counted is None:
            return f"{under}."
        counts = f"{span(*self.counted)} points"
        answer = "give the same answer" if self._agrees else "contradict it"
        if self._closes_by_counts is None:
            answer = "leave it open"
        return f"{under}. The observed shares alone {answer}: {counts}."


def certify(
    disparity: Disparity,
    target: Population,
    baseline: Population,
    outcome: FittedProbability | None,
    confidence: float,
    *,
    tables: tuple[Frame | None, Frame | None] = (None, None),
) -> Certificate | None:
    """How far single rows can take a rate, with bounds; None for what is no single rate gap."""
    if isinstance(disparity, Alignment) and disparity.weight == 0:
        disparity = SP
    if not isinstance(disparity, RateGap):
        return None
    downwards = disparity.value(target, baseline) >= 0
    ratio, usable = _ratios(disparity, target)
    slope = np.abs(_slope(disparity, target)[usable])
    error = np.zeros(len(slope))
    if outcome is not None and outcome.standard_error is not None:
        error = slope * outcome.standard_error[usable]
    observed = baseline.observed
    psi = disparity.influence(observed, observed)
    rate, rate_error = disparity.of(baseline), SamplingError.of_mean(observed, psi).variance ** 0.5
    uncertain = int((error > 0).sum())
    risk = (1 - confidence) / max(1, (uncertain > 0) + (rate_error > 0))
    margin = normal_quantile(1 - risk, max(1, uncertain)) * error
    rate_margin = normal_quantile(1 - risk) * rate_error
    extreme = np.min if downwards else np.max
    best, low, high = (
        float(extreme(ratio[usable] + sign * margin)) - rate + sign * rate_margin
        for sign in (0, -1, 1)
    )
    by_outcome = bool((slope > 1e-12).any())
    model, counted = outcome, None
    if outcome is not None:
        counted = _by_counts(disparity, target, baseline, confidence, downwards=downwards)
        if counted is not None and (not by_outcome or outcome.estimator is None):
            low, high = min(best, counted[0]), max(best, counted[1])
            model = counted = None  # the figures are those of the counts
    covered, several = _inputs_compared(target, baseline, *tables)
    return Certificate(
        best_reachable=best,
        low=low,
        high=high,
        confidence=confidence,
        downwards=downwards,
        baseline_covered=covered,
        by_outcome=by_outcome,
        several_decisions=several,
        model="" if model is None else model.kind,
        calibration_error=0.0 if model is None else model.calibration_error,
        model_error=model is None or model.standard_error is not None,
        counted=counted,
    )


def _ratios(disparity: RateGap, target: Population) -> tuple[FloatArray, BoolArray]:
    """The rate of each single row, and which rows have one."""
    r, t = disparity.terms(target)
    usable = (target.mass > 0) & (t > 0)
    return np.divide(r, t, out=np.zeros_like(r), where=usable), usable


def _by_counts(
    disparity: RateGap,
    target: Population,
    baseline: Population,
    confidence: float,
    *,
    downwards: bool,
) -> tuple[float, float] | None:
    """Bounds on the best reachable from how often each row had the outcome, without a model.

    Clopper-Pearson intervals of all rows at once (Bonferroni). A rate r/t is monotone in the
    outcome, so its ends are at the interval's. Rows that nobody was seen to count on (t = 0) may
    have any rate in theirs, and prove none. None where the observed gap has the other sign.
    """
    assert target.tally is not None
    total, squared = target.tally.by_row, target.tally.squared_by_row
    kept = (target.mass > 0) & (total > 0)
    share = target.tally.share(nobody=0.5)
    observed = target.with_outcome(share)
    if (disparity.value(observed, baseline) >= 0) != downwards:
        return None
    steep = np.abs(_slope(disparity, target)) > 1e-12
    risk = (1 - confidence) / max(1, int(steep.any()) + (baseline.tally is not None))
    # people who weigh unlike count as so many who weigh alike
    people = np.divide(total**2, squared, out=np.zeros_like(total), where=kept)
    ends = clopper_pearson(share * people, people, risk / max(1, int((kept & steep).sum())))
    rates = []
    for end in ends:
        ratio, usable = _ratios(disparity, target.with_outcome(end))
        inside, possible = _ratios(disparity, target.with_outcome(np.clip(end, CLIP, 1 - CLIP)))
        rates.append(np.where(usable, ratio, inside))
    possible, proven = kept & possible, kept & _ratios(disparity, observed)[1]
    if not proven.any():
        return None
    lowest, highest = np.minimum(*rates), np.maximum(*rates)
    if downwards:
        bounds = lowest[possible].min(), highest[proven].min()
    else:
        bounds = lowest[proven].max(), highest[possible].max()
    rate = rate_interval(disparity, baseline, risk)
    return float(bounds[0]) - rate[1], float(bounds[1]) - rate[0]


def _inputs_compared(
    target: Population, baseline: Population, here: Frame | None, there: Frame | None
) -> tuple[float, bool]:
    """Which share of the baseline has inputs of the target, and whether any got two decisions."""
    if here is None or there is None:
        return 1.0, False
    inputs, others = numbered(here.encoded, there.encoded)
    covered = float(baseline.mass[np.isin(others, inputs[target.mass > 0])].sum())
    several = have_several((inputs, others), (target.decision, baseline.decision))
    return covered, bool(several.any())


def _slope(disparity: RateGap, target: Population) -> FloatArray:
    """How r/t changes with the outcome y at each row, so that an error in y is one in r/t.

    r and t are linear in y, so their slopes are their differences between y = 1 and y = 0.
    """
    r, t = disparity.terms(target)
    ends = [disparity.terms(target.with_outcome(np.full(len(target), y))) for y in (0.0, 1.0)]
    r_slope, t_slope = ends[1][0] - ends[0][0], ends[1][1] - ends[0][1]
    return np.divide(r_slope * t - r * t_slope, t**2, out=np.zeros(len(target)), where=t > 0)
