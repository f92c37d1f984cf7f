"""The audit: every gap of every group, and how sure we are of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from fairmend.data.columns import Frame
from fairmend.data.groups import RESERVED
from fairmend.data.outcomes import UNLABELLED, Labels, MissingOutcomes
from fairmend.errors import DataError, FairmendError, check, check_between
from fairmend.measure.disparity import Disparity, RateGap, as_disparity, parts_of
from fairmend.measure.intervals import GapEstimate, RateEstimate, Reach
from fairmend.measure.metrics import (
    FNR,
    FPR,
    SP,
    Alignment,
    check_outcomes_are_known,
    default_metrics,
)
from fairmend.measure.population import AuditData, Population, pooled, ranked_above
from fairmend.measure.result import Audit, Gap, GroupSummary, is_below_four_fifths
from fairmend.measure.selection import OneDecision, find_one_decision, find_selection
from fairmend.measure.significance import holm
from fairmend.measure.tabulate import tabulate
from fairmend.model.blackbox import BlackBox

CLEARLY = 2.5
"""A group is clearly worse off than the best from so many standard errors on."""


def audit(
    model: Any,
    X: Any,
    y: Any,
    *,
    sensitive_features: Any,
    sample_weight: Any = None,
    ids: Any = None,
    confidence: float = 0.95,
    metrics: Sequence[str | Disparity] | None = None,
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
        The model's inputs: a NumPy array or a pandas, Polars or PyArrow frame. Of a frame, only the
        columns that the model names, or that are given to `BlackBox`, are read. With recorded
        predictions given as an array it may be None.
    y
        The outcome, what really happened: 0/1, -1/1, booleans, or two values with ``pos_label``; or
        a column name of X, which is then not an input of the model. None if it is not known: then
        only decisions are compared (sp and impact ratios).
    sensitive_features
        One label per person, but not "best" or "rest", which have another meaning in `reference`.
        Several columns give intersections. Names of columns of X are also accepted; these columns
        are then also inputs of a model that does not name its inputs. With recorded predictions
        they are not inputs.
    sample_weight
        One weight per person, or a column name of X. Intervals account for unequal weights; a
        weight of 0 is the same as being left out.
    ids
        The person's id: one per row, or a column name of X, which is then not an input of the
        model. Needed if people have several rows: intervals and tests are then by person. Without
        ids every row counts as a person.
    confidence
        The confidence level of the intervals and the verdict.
    metrics
        Names of registered metrics (sp, fnr, fpr, fdr, da) or `Disparity` objects; by default the
        first four.
    reference
        ``"best"``: for each metric the group with the lowest rate. Chance has a part in which group
        that is: ``p_adjusted`` counts every pair that it was chosen from, and the lower end of an
        interval allows for all groups that may be the best off. A group's label: that group.
        ``"rest"``: each group against all others together.
    pos_label
        Which value of y counts as positive, if that is not obvious.

    Examples
    --------
    >>> import numpy as np
    >>> sex = np.repeat(["Female", "Male"], 100)
    >>> offered = np.r_[np.repeat([1, 0], [20, 80]), np.repeat([1, 0], [45, 55])]
    >>> repaid = np.tile([1, 0], 100)
    >>> result = audit(offered, None, repaid, sensitive_features=sex, metrics=["sp"])
    >>> gap = result["sp", "Female"]
    >>> print(f"{gap.gap:.2f} [{gap.low:.3f}, {gap.high:.3f}] p = {gap.p_value:.4f}")
    0.25 [0.121, 0.370] p = 0.0001

    """
    try:
        data = tabulate(
            model, X, y, sensitive_features=sensitive_features, sample_weight=sample_weight,
            ids=ids, pos_label=pos_label, inputs=False, unlabelled=UNLABELLED,
        )  # fmt: skip
    except MissingOutcomes as missing:
        other = [name for name in (y, sample_weight, ids) if isinstance(name, str)]
        raise _with_selection(missing, model, X, other, pos_label) from None
    return audit_data(
        data, confidence=confidence, metrics=metrics, reference=reference,
        one_decision=find_one_decision(data),
    )  # fmt: skip


def _with_selection(
    missing: MissingOutcomes, model: Any, X: Any, other: Sequence[str], pos_label: Hashable
) -> DataError:
    """The error about missing outcomes, with how people without one are decided, if differently."""
    got = missing.got
    with suppress(FairmendError):  # other errors come up once this one is fixed
        inputs = Frame.read(X).drop(other).native if other else X
        labels = Labels.of(missing.values, pos_label)
        selection = find_selection(BlackBox.of(model), inputs, missing.outcome_known, labels)
        if selection is not None:
            got += f"; {selection}"
    return DataError(missing.what, missing.must, got, missing.fix)


def audit_data(
    data: AuditData,
    *,
    confidence: float = 0.95,
    metrics: Sequence[str | Disparity] | None = None,
    reference: Hashable = "best",
    one_decision: OneDecision | None = None,
) -> Audit:
    """The audit of data that is already tabulated.

    ``one_decision`` is what `find_one_decision` says of people as a model decided about them: where
    all have the same decision, what compares decisions is then not judged. Decisions of a repair
    may well be all the same, and are judged.
    """
    check_confidence(confidence)
    if metrics is None:
        metrics = default_metrics(outcome_known=data.outcome_known)
    several = metrics and not isinstance(metrics, str | Disparity)
    must, fix = "must be a list of at least one metric", "For example ['sp', 'fnr']."
    check(several, "metrics", must, f"got {metrics!r}", fix)
    if reference not in RESERVED:
        data.place(reference, "reference")
    disparities = [as_disparity(metric) for metric in metrics]
    _check_names_differ(disparities)
    check_outcomes_are_known(data, disparities)
    groups = _Groups.of(data, reference, confidence)
    gaps: list[Gap] = []
    family = 0
    for disparity in disparities:
        settled = one_decision if one_decision and one_decision.settles(disparity) else None
        compared, pairs = groups.compare(disparity, unjudged=settled.note if settled else "")
        gaps += compared
        family += pairs
    adjusted = holm([gap.p_value for gap in gaps], family)
    return Audit(
        gaps=tuple(replace(gap, p_adjusted=p) for gap, p in zip(gaps, adjusted, strict=True)),
        groups=_summaries(
            data, groups.cells, compared=one_decision is None or not one_decision.is_everybody
        ),
        attribute=data.attribute,
        confidence=float(confidence),
        reference=str(reference),
        titles={disparity.name: disparity.title for disparity in disparities},
        weighted=any(
            people.tally is not None and bool((people.tally.weight != people.tally.people).any())
            for people in groups.cells
        ),
        note="" if one_decision is None else str(one_decision),
        rows=data.n if data.by_person else None,
        people=data.people if data.by_person else None,
    )


def check_confidence(confidence: float) -> None:
    """It is a share of all samples, neither none nor all of them."""
    check_between("confidence", confidence, 0, 1, "Usual is 0.95.", open_ended=True)


def _check_names_differ(disparities: Sequence[Disparity]) -> None:
    name, times = Counter(disparity.name for disparity in disparities).most_common(1)[0]
    fix = "Ask for it once: the correction for many tests counts every row."
    check(times == 1, "metrics", "must have different names", f"got {name!r} {times} times", fix)


# -------------------------------------------------------------------- comparisons


class _Side(NamedTuple):
    """One side of a comparison: a group, or all others."""

    label: Hashable
    people: Population
    rate: RateEstimate


@dataclass(frozen=True, eq=False)
class _Groups:
    """The groups of an audit, and which of them is compared with which."""

    data: AuditData
    reference: Hashable
    confidence: float
    cells: list[Population]
    """The people of each group by decision and outcome."""
    rest: list[Population]
    """Everybody but one group, for each group; empty unless that is the reference."""

    @classmethod
    def of(cls, data: AuditData, reference: Hashable, confidence: float) -> _Groups:
        cells = [population.by_decision for population in data.populations]
        rest: list[Population] = []
        if reference == "rest":
            counted = len(cells) == 2 or all(people.tally is not None for people in cells)
            must = "must be 'best' or a group where distributions are exact"
            got = "got 'rest', but what has no people cannot be pooled"
            check(counted, "reference", must, got, "Name the group to compare with.")
            rest = [pooled([*cells[:i], *cells[i + 1 :]]) for i in range(len(cells))]
        return cls(data, reference, confidence, cells, rest)

    def compare(self, disparity: Disparity, unjudged: str) -> tuple[list[Gap], int]:
        """The gaps of one metric in the order of the groups, and how many pairs they stand for.

        ``unjudged`` is why none of them is judged, if none is.
        """
        rates = _rate_parts(disparity) or [(1.0, SP)]  # what is no rate is judged by its decisions

        def side(label: Hashable, people: Population) -> _Side:
            return _Side(label, people, RateEstimate.of(rates, people))

        sides = [*map(side, self.data.groups, self.cells)]
        others = [side("rest", people) for people in self.rest]
        pairs, rivals = 0, set[int]()
        if self.reference == "best":
            estimates = [one.rate for one in sides]
            best, large = _best(estimates), sum(one.enough for one in estimates)
            pairs, rivals = large * (large - 1) // 2, _rivals(estimates, best)
            others = [sides[best]] * len(sides)
        elif not others:
            others = [sides[self.data.place(self.reference)]] * len(sides)
        gaps = [
            self._gap(disparity, here, there, max(1, len(rivals - {place})), unjudged)
            for place, (here, there) in enumerate(zip(sides, others, strict=True))
            if here is not there
        ]
        tested = sum(not np.isnan(gap.p_value) for gap in gaps)
        return gaps, max(pairs, tested) if tested else 0

    def _gap(
        self, disparity: Disparity, here: _Side, there: _Side, rivals: int, unjudged: str
    ) -> Gap:
        """One comparison; the other side was chosen from so many rivals."""
        if unjudged:
            estimate = GapEstimate(note=unjudged)
        elif not (here.rate.enough and there.rate.enough):
            estimate = GapEstimate.too_few(here.rate, there.rate)
        else:
            reach = Reach.of(self.confidence, rivals)
            estimate = self._estimate(disparity, here, there, reach)
        return Gap(
            metric=disparity.name,
            target=here.label,
            baseline=there.label,
            n_target=here.people.people,
            n_baseline=there.people.people,
            p_adjusted=float("nan"),
            given_target=here.rate.people,
            given_baseline=there.rate.people,
            rivals=rivals,
            **estimate._asdict(),
        )

    def _estimate(
        self, disparity: Disparity, here: _Side, there: _Side, reach: Reach
    ) -> GapEstimate:
        if rates := _rate_parts(disparity):
            bound = sum(abs(weight) for weight, _ in rates)
            return GapEstimate.agresti_caffo(here.rate, there.rate, reach, bound)
        if isinstance(disparity, Alignment) and disparity.weight == 0:
            value = disparity.value(here.people, there.people)
            return GapEstimate.signed_root(value, here.rate, there.rate, reach)
        target = self.data[here.label]
        baseline = self.data.rest(here.label) if self.rest else self.data[there.label]
        return GapEstimate.delta_method(disparity, target.observed, baseline.observed, reach)


def _rate_parts(disparity: Disparity) -> list[tuple[float, RateGap]]:
    """The rate gaps a disparity is a sum of; empty if it is made of anything else."""
    parts = parts_of(disparity)
    rates = [(weight, part) for weight, part in parts if isinstance(part, RateGap)]
    return rates if len(rates) == len(parts) else []


def _best(sides: Sequence[RateEstimate]) -> int:
    """The best-off group: lowest rate among those large enough to tell."""
    return int(np.argmin([side.rate if side.enough else np.inf for side in sides]))


def _rivals(sides: Sequence[RateEstimate], best: int) -> set[int]:
    """The groups that may be the best off: not clearly above the one with the lowest rate."""
    lowest = sides[best]
    return {best} | {
        place
        for place, side in enumerate(sides)
        if place != best
        and side.enough
        and side.steadied - lowest.steadied <= CLEARLY * np.sqrt(max(0.0, side.variance_of(lowest)))
    }


# -------------------------------------------------------------------- one group


def _summaries(
    data: AuditData, cells: Sequence[Population], *, compared: bool
) -> tuple[GroupSummary, ...]:
    """What is known of each group; a group too small to be compared shows no rates either.

    There are impact ratios where decisions can be ``compared``.
    """

    def enough(people: Population, rate: RateGap) -> bool:
        return RateEstimate.of([(1.0, rate)], people).enough

    nan = float("nan")
    large = [enough(people, SP) for people in cells]
    selected = [
        float(people.mass @ people.decision) if seen else nan
        for people, seen in zip(cells, large, strict=True)
    ]
    most = max((rate for rate in selected if rate > 0), default=nan)
    summaries = []
    for group, people, rate, seen in zip(data.groups, cells, selected, large, strict=True):
        ratio = rate / most if compared else nan
        right = people.outcome * people.decision + (1 - people.outcome) * (1 - people.decision)
        judged = seen and data.outcome_known
        ranked = judged and enough(people, FNR) and enough(people, FPR)
        summaries.append(
            GroupSummary(
                group=group,
                n=people.people,
                base_rate=float(people.mass @ people.outcome) if judged else nan,
                selection_rate=rate,
                impact_ratio=ratio,
                below_four_fifths=None if np.isnan(ratio) else is_below_four_fifths(ratio),
                accuracy=float(people.mass @ right) if judged else nan,
                auc=auc(data[group]) if ranked else nan,
                weight=nan if people.tally is None else float(people.tally.weight.sum()),
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
    positive, negative = people.mass * people.outcome, people.mass * (1 - people.outcome)
    total = float(positive.sum() * negative.sum())
    above = float(positive @ ranked_above(place, negative))
    return min(1.0, above / total) if total > 0 else float("nan")
