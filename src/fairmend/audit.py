"""The audit: every gap of every group, and how sure we are of it.

The gap between two groups' rates is estimated from people, so it comes with a standard error: the
influence function gives it in closed form, Var(psi)/n per group, for hard and soft decisions and
for weighted people alike. Plain intervals of this kind are too short in small groups; one
pseudo-success and one pseudo-failure per group and rate mends that (Agresti and Caffo, 2000).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtr, ndtri

from fairmend.columns import FloatArray
from fairmend.data import AuditData, Population, tabulate
from fairmend.disparity import SP, Combination, Disparity, RateGap, as_disparity
from fairmend.errors import DataError, require
from fairmend.tables import TextTable, p_value, percent

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Audit", "Gap", "GroupSummary", "audit", "audit_data"]

METRICS = ("sp", "fnr", "fpr", "fdr")
PSEUDO = 1.0
"""Pseudo-successes and pseudo-failures added to each rate."""
TOO_FEW = 5
"""A rate over fewer people than this (effectively, if weighted) is not judged."""
FOUR_FIFTHS = 0.8


@dataclass(frozen=True)
class Gap:
    """One metric for one group against another: a row of the audit."""

    metric: str
    target: Hashable
    baseline: Hashable
    target_rate: float
    baseline_rate: float
    gap: float
    """Target's rate minus baseline's; positive: the target group fares worse."""
    low: float
    high: float
    p_value: float
    """Two-sided test of no gap, not corrected."""
    n_target: int
    n_baseline: int
    p_adjusted: float
    """Holm's correction over all rows of the audit."""
    given_target: int
    """People in the target group the rate is over (for fnr: those with a positive outcome)."""
    given_baseline: int
    note: str = ""

    @property
    def judged(self) -> bool:
        return not np.isnan(self.gap)


@dataclass(frozen=True)
class GroupSummary:
    """What is known of one group before any comparison."""

    group: Hashable
    n: int
    base_rate: float
    selection_rate: float
    impact_ratio: float
    """Selection rate over that of the group selected most often."""
    below_four_fifths: bool | None
    """Whether the impact ratio is below 0.8; None where the group is too small to say."""
    accuracy: float
    auc: float
    """Of the model's scores within the group; nan where it gives labels only."""


@dataclass(frozen=True)
class Audit:
    """The answer to: does the model treat my groups differently, where, and how sure are we?"""

    gaps: tuple[Gap, ...]
    groups: tuple[GroupSummary, ...]
    attribute: str
    confidence: float
    reference: str

    def __iter__(self) -> Iterator[Gap]:
        return iter(self.gaps)

    def __getitem__(self, key: tuple[str, Hashable]) -> Gap:
        """The gap of one metric and target group: ``audit["fnr", "Female"]``."""
        for gap in self.gaps:
            if (gap.metric, gap.target) == key:
                return gap
        known = ", ".join(f"({gap.metric!r}, {gap.target!r})" for gap in self.gaps)
        raise KeyError(f"{key} is not among the audited gaps: {known}")

    def to_frame(self) -> pd.DataFrame:
        """One row per metric and group, as a pandas frame."""
        pandas = require("pandas", extra="pandas", why="Audit.to_frame()")
        frame: pd.DataFrame = pandas.DataFrame(
            [asdict(gap) for gap in self.gaps], columns=[field.name for field in fields(Gap)]
        )
        return frame

    def groups_to_frame(self) -> pd.DataFrame:
        """One row per group: size, base rate, selection, impact ratio, accuracy, AUC."""
        pandas = require("pandas", extra="pandas", why="Audit.groups_to_frame()")
        frame: pd.DataFrame = pandas.DataFrame([asdict(group) for group in self.groups])
        return frame

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, ready for JSON; what is not known is None."""

        def plain(row: Gap | GroupSummary) -> dict[str, Any]:
            return {
                key: None if isinstance(value, float) and np.isnan(value) else value
                for key, value in asdict(row).items()
            }

        return {
            "schema": "fairmend.audit/1",
            "attribute": self.attribute,
            "confidence": self.confidence,
            "reference": self.reference,
            "gaps": [plain(gap) for gap in self.gaps],
            "groups": [plain(group) for group in self.groups],
        }

    def verdict(self) -> str:
        """The audit in a sentence or two."""
        alpha = 1 - self.confidence
        judged = [gap for gap in self.gaps if gap.judged]
        if not judged:
            return "Too few people to say anything about any gap."
        certain = [gap for gap in judged if gap.p_adjusted <= alpha]
        if not certain:
            return (
                f"None of the {len(judged)} gaps can be told from chance at {self.confidence:.0%} "
                "confidence (Holm-corrected). That is not proof that there is none."
            )
        worst = max(certain, key=lambda gap: abs(gap.gap))
        word = "higher" if worst.gap > 0 else "lower"
        return (
            f"{len(certain)} of {len(judged)} gaps are more than chance (Holm-corrected). The "
            f"largest: {worst.metric} is {percent(abs(worst.gap)).replace(' %', ' points')} {word} "
            f"for {worst.target} than for {worst.baseline}."
        )

    def _tables(self) -> tuple[TextTable, TextTable]:
        level = f"{100 * self.confidence:g} %"
        gaps = TextTable(
            f"Audit of {sum(group.n for group in self.groups):,} people in {len(self.groups)} "
            f"groups by {self.attribute}",
            ("<metric", "<group", "<against", "rate", "theirs", "gap", f"{level} interval",
             "p", "p Holm", "people", "over", "<"),
            [
                (
                    gap.metric,
                    str(gap.target),
                    str(gap.baseline),
                    percent(gap.target_rate),
                    percent(gap.baseline_rate),
                    percent(gap.gap, signed=True),
                    f"[{100 * gap.low:+.1f}, {100 * gap.high:+.1f}]" if gap.judged else "–",
                    p_value(gap.p_value),
                    p_value(gap.p_adjusted),
                    f"{gap.n_target:,}",
                    f"{gap.given_target:,}",
                    gap.note,
                )
                for gap in self.gaps
            ],
        )  # fmt: skip
        groups = TextTable(
            "",
            ("<group", "people", "base rate", "selected", "impact ratio", "<", "accuracy", "AUC"),
            [
                (
                    str(group.group),
                    f"{group.n:,}",
                    percent(group.base_rate),
                    percent(group.selection_rate),
                    "–" if np.isnan(group.impact_ratio) else f"{group.impact_ratio:.2f}",
                    "below 0.8" if group.below_four_fifths else "",
                    percent(group.accuracy),
                    "–" if np.isnan(group.auc) else f"{group.auc:.3f}",
                )
                for group in self.groups
            ],
        )
        return gaps, groups

    def __str__(self) -> str:
        gaps, groups = self._tables()
        return f"{gaps}\n\n{groups}\n\n{self.verdict()}"

    def _repr_html_(self) -> str:
        gaps, groups = self._tables()
        verdict = TextTable("", (), [], [self.verdict()]).html()
        return gaps.html() + groups.html() + verdict


def audit(
    model: Any,
    X: Any,
    y: Any,
    *,
    sensitive_features: Any,
    sample_weight: Any = None,
    confidence: float = 0.95,
    metrics: Sequence[str | Disparity] = METRICS,
    reference: Hashable = "best",
    pos_label: Hashable = None,
) -> Audit:
    """Compare every group with a reference on every metric.

    Parameters
    ----------
    model
        Anything `BlackBox` takes: an estimator, a callable, recorded predictions, or the name of a
        column of X that holds them. A `BlackBox` says how to read it (threshold, soft, ...).
    X
        The model's inputs: a NumPy array or a pandas, Polars or PyArrow frame. With recorded
        predictions given as an array it may be None.
    y
        What really happened: 0/1, -1/1, booleans, or two values with ``pos_label``; or a column
        name of X, which is then no input of the model.
    sensitive_features
        One label a person; several columns give intersections; names of columns of X will do, and
        those stay inputs of the model.
    sample_weight
        One weight a person, or a column name of X. Intervals account for unequal weights.
    confidence
        Of the intervals, and of the verdict.
    metrics
        Names (sp, fnr, fpr, fdr, da) or `Disparity` objects.
    reference
        ``"best"``: per metric the group with the lowest rate. A group's label: that group.
        ``"rest"``: each group against all others together.
    pos_label
        Which value of y counts as positive, where that is not plain.

    Returns
    -------
    Audit
        Print it, or see ``to_frame()`` and ``to_dict()``.

    >>> import numpy as np
    >>> sex = np.repeat(["Female", "Male"], 100)
    >>> offered = np.r_[np.repeat([1, 0], [20, 80]), np.repeat([1, 0], [45, 55])]
    >>> repaid = np.tile([1, 0], 100)
    >>> result = audit(offered, None, repaid, sensitive_features=sex, metrics=["sp"])
    >>> gap = result["sp", "Female"]
    >>> print(f"{gap.gap:.2f} [{gap.low:.3f}, {gap.high:.3f}] p = {gap.p_value:.4f}")
    0.25 [0.121, 0.370] p = 0.0001

    """
    data = tabulate(
        model,
        X,
        y,
        sensitive_features=sensitive_features,
        sample_weight=sample_weight,
        pos_label=pos_label,
        inputs=False,
    )
    return audit_data(data, confidence=confidence, metrics=metrics, reference=reference)


def audit_data(
    data: AuditData,
    *,
    confidence: float = 0.95,
    metrics: Sequence[str | Disparity] = METRICS,
    reference: Hashable = "best",
) -> Audit:
    """The audit of data that is already tabulated."""
    if not (isinstance(confidence, int | float) and 0 < confidence < 1):
        raise DataError(
            "confidence", "must lie between 0 and 1", f"got {confidence!r}", "Usual is 0.95."
        )
    if isinstance(metrics, str | Disparity) or not metrics:
        raise DataError(
            "metrics", "must be a list of at least one metric", f"got {metrics!r}",
            "For example ['sp', 'fnr'].",
        )  # fmt: skip
    if reference not in ("best", "rest"):
        data.place(reference, "reference")
    disparities = [as_disparity(metric) for metric in metrics]
    observed = [population.observed for population in data.populations]
    gaps = [
        gap
        for disparity in disparities
        for gap in _compare(disparity, data, observed, reference, confidence)
    ]
    return Audit(
        gaps=_holm(gaps),
        groups=_summaries(data, observed),
        attribute=data.attribute,
        confidence=float(confidence),
        reference=str(reference),
    )


# -------------------------------------------------------------------- one gap


@dataclass(frozen=True)
class _Side:
    """A disparity's estimate within one group, ready to be compared."""

    rate: float
    steadied: float
    """The rate with pseudo-counts."""
    variance: float
    people: int
    effective: float


def _compare(
    disparity: Disparity,
    data: AuditData,
    observed: Sequence[Population],
    reference: Hashable,
    confidence: float,
) -> Iterator[Gap]:
    """The gaps of one metric, in the order of the groups."""
    rates = _rate_parts(disparity)
    sides = [_side(rates, population) for population in observed] if rates else None
    if reference == "rest":
        pairs = [(place, -1) for place in range(len(observed))]
    else:
        best = data.place(reference) if reference != "best" else _best(sides, observed)
        pairs = [(place, best) for place in range(len(observed)) if place != best]
    for place, against in pairs:
        if against >= 0:
            baseline, name = observed[against], data.groups[against]
        else:
            baseline, name = data.rest(data.groups[place]).observed, "rest"
        target = observed[place]
        if sides is None:
            numbers = _delta_method(disparity, target, baseline, confidence)
        else:
            other = sides[against] if against >= 0 else _side(rates, baseline)
            numbers = _agresti_caffo(sides[place], other, confidence)
        yield Gap(
            metric=disparity.name,
            target=data.groups[place],
            baseline=name,
            n_target=target.n,
            n_baseline=baseline.n,
            p_adjusted=float("nan"),
            **numbers,
        )


def _rate_parts(disparity: Disparity) -> list[tuple[float, RateGap]]:
    """The rate gaps a disparity is a sum of; empty if it is made of anything else."""
    parts = disparity.parts if isinstance(disparity, Combination) else ((1.0, disparity),)
    rates = [(weight, part) for weight, part in parts if isinstance(part, RateGap)]
    return rates if len(rates) == len(parts) else []


def _best(sides: Sequence[_Side] | None, observed: Sequence[Population]) -> int:
    """The best-off group: lowest rate among those large enough to tell.

    A disparity without rates of its own (alignment) takes the group with most positive decisions.
    """
    sides = sides or [_side([(1.0, SP)], population) for population in observed]
    rates = [side.rate if side.effective >= TOO_FEW else np.inf for side in sides]
    return int(np.argmin(rates))


def _side(parts: Sequence[tuple[float, RateGap]], people: Population) -> _Side:
    """Estimate a weighted sum of rates within one group of observed people.

    Per rate with event r and condition t, W = sum w t and n = W^2 / sum w^2 t^2 effective people:

        steadied = (n R + k) / (n + 2k)
        variance = [n^2 sum w^2 (r - steadied t)^2 / W^2 + k (1-steadied)^2 + k steadied^2]
                   / (n + 2k)^2

    which for hard decisions and equal weights is steadied (1 - steadied) / (n + 2k). In a sum the
    rates' errors add person by person, and those of the pseudo-people at their worst.
    """
    tally = people.tally
    if tally is None:  # an exact distribution: no people, no error
        rate = sum(factor * part.of(people) for factor, part in parts)
        return _Side(rate, rate, 0.0, 0, float("nan") if np.isnan(rate) else float("inf"))
    weight, squared = tally.weight.sum(axis=1), tally.squared.sum(axis=1)
    count = tally.people.sum(axis=1)
    rate = steadied = pseudo_error = 0.0
    fewest, effective = float("inf"), float("inf")
    psi: FloatArray = np.zeros_like(weight)
    for factor, part in parts:
        r, t = part.terms(people)
        total = float(weight @ t)
        fewest = min(fewest, float(count[t > 0].sum()))
        if total <= 0:
            effective = 0.0
            continue
        n = total**2 / float(squared @ t**2)
        effective = min(effective, n)
        one_rate = float(weight @ r) / total
        one_steadied = (n * one_rate + PSEUDO) / (n + 2 * PSEUDO)
        rate += factor * one_rate
        steadied += factor * one_steadied
        psi = psi + factor * n / (n + 2 * PSEUDO) * (r - one_steadied * t) / total
        spread = PSEUDO * ((1 - one_steadied) ** 2 + one_steadied**2)
        pseudo_error += abs(factor) * float(np.sqrt(spread)) / (n + 2 * PSEUDO)
    variance = float(squared @ psi**2) + pseudo_error**2
    return _Side(rate, steadied, variance, round(fewest), effective)


def _agresti_caffo(target: _Side, baseline: _Side, confidence: float) -> dict[str, Any]:
    counts = {"given_target": target.people, "given_baseline": baseline.people}
    small = [side for side in (target, baseline) if not side.effective >= TOO_FEW]
    if small:
        whose = "here" if target in small else "there"
        least = min(side.effective for side in small)
        return _unknown(f"too few to say: {least:.3g} people {whose}", counts)
    centre = target.steadied - baseline.steadied
    error = float(np.sqrt(target.variance + baseline.variance))
    reach = float(ndtri(0.5 + confidence / 2)) * error
    return {
        "target_rate": target.rate,
        "baseline_rate": baseline.rate,
        "gap": target.rate - baseline.rate,
        "low": centre - reach,
        "high": centre + reach,
        "p_value": float(2 * ndtr(-abs(centre) / error)) if error > 0 else float("nan"),
        "note": "" if error > 0 else "exact",
        **counts,
    }


def _delta_method(
    disparity: Disparity, target: Population, baseline: Population, confidence: float
) -> dict[str, Any]:
    """For disparities that are no sums of rates: plain influence-function intervals.

    Alignment is 0 at equality with zero slope, so its test of no gap is that of sp.
    """
    counts = {"given_target": target.n, "given_baseline": baseline.n}
    value = disparity.value(target, baseline)
    if not np.isfinite(value):
        return _unknown("not finite: one group gets one decision only", counts)
    variance = 0.0
    for people, psi in (
        (target, disparity.influence(target, baseline)),
        (baseline, disparity.baseline_influence(target, baseline)),
    ):
        if people.tally is not None:
            squared, weight = people.tally.squared.sum(axis=1), people.tally.weight.sum()
            variance += float(squared @ psi**2) / float(weight) ** 2
    reach = float(ndtri(0.5 + confidence / 2) * np.sqrt(variance))
    test = _agresti_caffo(_side([(1.0, SP)], target), _side([(1.0, SP)], baseline), confidence)
    return {
        "target_rate": float("nan"),
        "baseline_rate": float("nan"),
        "gap": value,
        "low": max(0.0, value - reach),
        "high": value + reach,
        "p_value": test["p_value"],
        "note": "delta method",
        **counts,
    }


def _unknown(note: str, counts: dict[str, int]) -> dict[str, Any]:
    nan = float("nan")
    rates = dict.fromkeys(("target_rate", "baseline_rate", "gap", "low", "high", "p_value"), nan)
    return {**rates, **counts, "note": note}


def _holm(gaps: Sequence[Gap]) -> tuple[Gap, ...]:
    """Holm's step-down correction: the k-th smallest p times the number not yet rejected."""
    judged = sorted((i for i, gap in enumerate(gaps) if gap.judged), key=lambda i: gaps[i].p_value)
    adjusted = [float("nan")] * len(gaps)
    highest = 0.0
    for rank, i in enumerate(judged):
        highest = max(highest, min(1.0, gaps[i].p_value * (len(judged) - rank)))
        adjusted[i] = highest
    return tuple(
        Gap(**{**asdict(gap), "p_adjusted": p}) for gap, p in zip(gaps, adjusted, strict=True)
    )


# -------------------------------------------------------------------- one group


def _summaries(data: AuditData, observed: Sequence[Population]) -> tuple[GroupSummary, ...]:
    selected = [float(people.mass @ people.decision) for people in observed]
    enough = [_side([(1.0, SP)], people).effective >= TOO_FEW for people in observed]
    most = max((rate for rate, known in zip(selected, enough, strict=True) if known), default=0.0)
    summaries = []
    for group, people, rate, known in zip(data.groups, observed, selected, enough, strict=True):
        ratio = rate / most if most > 0 and known else float("nan")
        right = people.outcome * people.decision + (1 - people.outcome) * (1 - people.decision)
        summaries.append(
            GroupSummary(
                group=group,
                n=people.n,
                base_rate=float(people.mass @ people.outcome),
                selection_rate=rate,
                impact_ratio=ratio,
                below_four_fifths=None if np.isnan(ratio) else ratio < FOUR_FIFTHS,
                accuracy=float(people.mass @ right),
                auc=auc(people),
            )
        )
    return tuple(summaries)


def auc(people: Population) -> float:
    """P(score of a positive > score of a negative) + half the ties; nan without scores.

    >>> ranked = Population.of([1, 1, 1], [0, 0, 1], [0, 1, 1], score=np.array([0.1, 0.4, 0.8]))
    >>> auc(ranked)
    1.0
    """
    if people.score is None:
        return float("nan")
    _, place = np.unique(people.score, return_inverse=True)
    positive = np.bincount(place, people.mass * people.outcome)
    negative = np.bincount(place, people.mass * (1 - people.outcome))
    total = float(positive.sum() * negative.sum())
    below = np.cumsum(negative) - negative / 2
    return float(positive @ below) / total if total > 0 else float("nan")
