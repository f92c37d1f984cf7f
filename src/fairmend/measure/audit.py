"""The audit: every gap of every group, and how sure we are of it.

The gap between two groups' rates is estimated from people, so it comes with a standard error: the
influence function gives it in closed form, Var(psi)/n per group, for hard and soft decisions and
for weighted people alike. Plain intervals of this kind are too short in small groups; one
pseudo-success and one pseudo-failure per group and rate mends that (Agresti and Caffo, 2000).

Where people have several rows, as ids say, these are not independent: the influence is summed over
a person's rows before it is squared, and people are counted instead of rows. Somebody with rows in
both groups of a comparison counts with the sum of both.

An interval is that of one comparison settled beforehand. Looking at many, and letting the data
choose the group to compare with, is paid for in `Gap.p_adjusted`, on which the verdict rests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from html import escape
from numbers import Real
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray

from fairmend import doors
from fairmend.data.columns import FloatArray, Frame, IntArray
from fairmend.data.groups import RESERVED
from fairmend.data.limits import MOST, Between, Chance, Count, Figure, Label, Share
from fairmend.data.naming import GroupNames
from fairmend.data.outcomes import UNLABELLED, Labels, MissingOutcomes
from fairmend.data.stored import stored
from fairmend.errors import DataError, FairmendError, require
from fairmend.measure import special
from fairmend.measure.disparity import (
    FNR,
    FPR,
    SP,
    Alignment,
    Disparity,
    RateGap,
    as_disparity,
    check_outcomes_are_known,
    default_metrics,
    parts_of,
)
from fairmend.measure.selection import OneDecision, find_one_decision, find_selection
from fairmend.measure.tabulate import AuditData, Population, Tally, pooled, tabulate
from fairmend.model.blackbox import BlackBox
from fairmend.tables import UNKNOWN, TextTable, counted, p_value, percent

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Audit", "Gap", "GroupSummary", "audit", "audit_data"]

PSEUDO = 1.0
"""Pseudo-successes and pseudo-failures added to each rate."""
CLEARLY = 2.5
"""A group is clearly worse off than the best from so many standard errors on."""
TOO_FEW = 5
"""A rate over fewer people than this (effectively, if weighted) is not judged."""
FOUR_FIFTHS = 0.8
BY_PERSON = "Rates are over rows; intervals and tests are by person, and people are counted."
"""What is said where people have several rows."""


@stored("Gap")
@dataclass(frozen=True)
class Gap:
    """One metric for one group against another: a row of the audit."""

    metric: str
    target: Label
    baseline: Label
    target_rate: Share
    baseline_rate: Share
    gap: Figure
    """Target's rate minus baseline's; positive: the target group fares worse."""
    low: Figure
    high: Figure
    p_value: Share
    """Two-sided test of no gap between these two groups, not corrected; nan if there is none."""
    n_target: Count
    n_baseline: Count
    p_adjusted: Share
    """Holm's correction over all rows of the audit; where the group to compare with was chosen by
    its rate, over all the pairs it was chosen from."""
    given_target: Count
    """People in the target group the rate is over (for fnr: those with a positive outcome)."""
    given_baseline: Count
    note: str = ""
    rivals: Count = 1
    """From how many groups, the target left out, the baseline was chosen as the best off by chance
    or by right: those whose rate is not clearly above its own. Its rate is likely too low where
    there are several, so the lower end of the interval is that of so many comparisons."""

    @property
    def judged(self) -> bool:
        return not np.isnan(self.gap)

    @property
    def harm(self) -> float:
        """Points of the gap times the people its rate is over: who is worse off, and how many."""
        return self.gap * (self.given_target or 1)  # an exact distribution has no people

    def survives(self, confidence: float) -> bool:
        """Whether it is significant after Holm's correction; by its interval without a test."""
        if np.isnan(self.p_adjusted):
            return self.low > 0 or self.high < 0
        return self.p_adjusted <= 1 - confidence


@stored("GroupSummary")
@dataclass(frozen=True)
class GroupSummary:
    """What is known of one group before any comparison; nan where it is too small to say."""

    group: Label
    n: Count
    base_rate: Share
    selection_rate: Share
    impact_ratio: Share
    """Selection rate over that of the group selected most often."""
    below_four_fifths: bool | None
    """Whether the impact ratio is below 0.8; None where there is no ratio."""
    accuracy: Share
    auc: Share
    """Of the model's scores within the group; nan where it gives labels only, or where there are
    too few of either outcome."""
    weight: Annotated[Figure, Between(0, MOST, nan=True)] = float("nan")
    """The sum of its people's weights, their number where they have none."""


@stored("Audit")
@dataclass(frozen=True)
class Audit:
    """Every gap between groups, with its interval and its test."""

    gaps: tuple[Gap, ...]
    groups: tuple[GroupSummary, ...]
    attribute: str
    confidence: Chance
    reference: str
    titles: dict[str, str] = field(default_factory=dict)
    """What each metric is, in words."""
    weighted: bool = False
    """Whether people came with weights; rates are then weighted, people still counted."""
    rows: Count | None = None
    """Where some people have several rows: how many rows there are; None if each is a person."""
    people: Count | None = None
    """How many people these rows are. Who has rows in several groups counts in each, here once."""
    note: str = ""
    """What to know about who was audited, such as that everybody has the same decision."""

    def agrees(self) -> bool:
        """Whether gaps are those of its groups."""
        known = {group.group for group in self.groups}
        return len(known) == len(self.groups) and all(
            gap.target in known and gap.baseline in {*known, "rest"} for gap in self.gaps
        )

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
            [asdict(gap) for gap in self.gaps], columns=[column.name for column in fields(Gap)]
        )
        return frame

    def groups_to_frame(self) -> pd.DataFrame:
        """One row per group: size, base rate, selection, impact ratio, accuracy, AUC."""
        pandas = require("pandas", extra="pandas", why="Audit.groups_to_frame()")
        frame: pd.DataFrame = pandas.DataFrame([asdict(group) for group in self.groups])
        return frame

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, ready for JSON; what is not known is None."""
        return {
            "schema": "fairmend.audit/1",
            "attribute": self.attribute,
            "confidence": self.confidence,
            "reference": self.reference,
            "weighted": self.weighted,
            "rows": self.rows,
            "people": self.people,
            "note": self.note,
            "metrics": dict(self.titles),
            "gaps": [_plain(gap) for gap in self.gaps],
            "groups": [_plain(group) for group in self.groups],
            "verdict": self.verdict(),
        }

    def to_html(self) -> str:
        """The audit as one page that needs no network."""
        return doors.audit_page(self)

    @property
    def exact(self) -> bool:
        """Whether the distribution itself was audited instead of a sample from it."""
        return all(group.n == 0 for group in self.groups)

    @property
    def names(self) -> GroupNames:
        """What people read for the groups."""
        return GroupNames(self.attribute, tuple(group.group for group in self.groups))

    def worst_first(self, metric: str | None = None) -> tuple[Hashable, ...]:
        """The groups by their largest harm, significant before others; the reference last.

        ``metric``: by the gaps in one metric; by default by all.
        """
        judged = [gap for gap in self.gaps if gap.judged and metric in (None, gap.metric)]
        rates = [gap for gap in judged if not np.isnan(gap.target_rate)]
        references = {gap.baseline for gap in judged}
        last = references if len(references) == 1 else set()
        worst: dict[Hashable, tuple[bool, float]] = {}
        for gap in rates or judged:
            found = (gap.gap > 0 and gap.survives(self.confidence), gap.harm)
            worst[gap.target] = max(found, worst.get(gap.target, found))
        nothing = (False, 0.0)

        def place(group: Hashable) -> tuple[bool, bool, float]:
            significant, harm = worst.get(group, nothing)
            return group in last, not significant, -harm

        return tuple(sorted((summary.group for summary in self.groups), key=place))

    def verdict(self) -> str:
        """The audit in a few sentences."""
        return f"{self._finding()} {self.note}".strip()

    def _finding(self) -> str:
        judged = [gap for gap in self.gaps if gap.judged]
        if not judged:
            return "No gap can be judged: see the notes for why."
        unsaid = len(self.gaps) - len(judged)
        others = "1 other gap" if unsaid == 1 else f"{unsaid} other gaps"
        more = f" {others} cannot be judged." if unsaid else ""
        if self.exact:
            return f"These are the gaps of the distribution itself. {self._worst(judged)}{more}"
        tested = [gap for gap in judged if not np.isnan(gap.p_value)]
        if not tested:
            return f"There is no test for these gaps. {self._worst(judged)}{more}"
        certain = [gap for gap in tested if gap.survives(self.confidence)]
        sure = f"at {_per_cent(self.confidence)} confidence (Holm-corrected)."
        if not certain:
            who = "The gap is not" if len(tested) == 1 else f"None of the {len(tested)} gaps is"
            hedge = "That is not proof that there is none."
            return f"{who} significant {sure} {hedge}{more}"
        who = "The gap" if len(tested) == 1 else f"{len(certain)} of {len(tested)} gaps"
        verb = "is" if len(certain) == 1 else "are"
        return f"{who} {verb} significant {sure} {self._worst(certain)}{more}"

    def _worst(self, gaps: Sequence[Gap]) -> str:
        """The gap with the largest harm in words; rates come before what has no points."""
        worst = max(
            gaps, key=lambda gap: (not np.isnan(gap.target_rate), gap.gap > 0, abs(gap.harm))
        )
        target, baseline = self.names(worst.target), self.names(worst.baseline)
        how = "" if self.exact else " by points times people"
        first = f"The worst{how}: " if len(gaps) > 1 else ""
        if np.isnan(worst.target_rate):
            return f"{first}{worst.metric} is {worst.gap:.3f} for {target} against {baseline}."
        over = "" if self.exact else f", over {counted(worst.given_target)}"
        return (
            f"{first}{worst.metric} is {100 * abs(worst.gap):.1f} points "
            f"{'higher' if worst.gap > 0 else 'lower'} for {target} than for {baseline}{over}."
        )

    def in_order(self) -> list[Gap]:
        """The gaps metric by metric, in each the worst-off group first."""
        metrics = list(dict.fromkeys(gap.metric for gap in self.gaps))
        groups = self.worst_first()
        return sorted(
            self.gaps, key=lambda gap: (metrics.index(gap.metric), groups.index(gap.target))
        )

    @property
    def who(self) -> str:
        """Whom it is about, in words."""
        if self.exact:
            return "an exact distribution"
        if self.rows is not None:
            return f"{self.rows:,} rows of {self.people:,} people"
        return f"{sum(group.n for group in self.groups):,} people"

    def _tables(self) -> tuple[TextTable, TextTable]:
        gaps = TextTable(
            f"Audit of {self.who} in {len(self.groups)} groups by {self.attribute}",
            ("<metric", "<group", "<against", "its rate", "other's", "gap",
             f"{_per_cent(self.confidence)} interval", "p", "p Holm", "people", "<"),
            [
                (
                    gap.metric,
                    self.names(gap.target),
                    self.names(gap.baseline),
                    percent(gap.target_rate),
                    percent(gap.baseline_rate),
                    f"{100 * gap.gap:+.1f}" if gap.judged else UNKNOWN,
                    f"{100 * gap.low:+.1f} to {100 * gap.high:+.1f}" if gap.judged else UNKNOWN,
                    p_value(gap.p_value),
                    p_value(gap.p_adjusted),
                    UNKNOWN if self.exact else f"{gap.given_target:,} : {gap.given_baseline:,}",
                    gap.note,
                )
                for gap in self.in_order()
            ],
            [
                *(f"{metric}: {title}" for metric, title in self.titles.items() if title),
                "gap: in percentage points; people: those the two rates are over",
                *(["Rates are weighted; people are counted."] if self.weighted else []),
                *([] if self.rows is None else [BY_PERSON]),
            ],
        )  # fmt: skip
        by_label = {group.group: group for group in self.groups}
        groups = TextTable(
            "",
            ("<group", "people", "positive outcomes", "positive decisions", "impact ratio", "<",
             "accuracy", "AUC"),
            [
                (
                    self.names(group.group),
                    UNKNOWN if self.exact else f"{group.n:,}",
                    percent(group.base_rate),
                    percent(group.selection_rate),
                    _decimal(group.impact_ratio, 2),
                    f"below {FOUR_FIFTHS:g}" if group.below_four_fifths else "",
                    percent(group.accuracy),
                    _decimal(group.auc, 3),
                )
                for group in map(by_label.__getitem__, self.worst_first())
            ],
        )  # fmt: skip
        return gaps, groups

    def __str__(self) -> str:
        gaps, groups = self._tables()
        return f"{gaps}\n\n{groups}\n\n{fill(self.verdict(), 100)}"

    def _repr_html_(self) -> str:
        gaps, groups = self._tables()
        return f"{gaps.html()}{groups.html()}<p>{escape(self.verdict())}</p>"


def _plain(row: Gap | GroupSummary) -> dict[str, Any]:
    """A row for JSON: labels that JSON does not know as text, nan as None."""

    def value(given: Any) -> Any:
        if isinstance(given, float) and np.isnan(given):
            return None
        return given if isinstance(given, str | int | float | None) else str(given)

    return {key: value(given) for key, given in asdict(row).items()}


def _per_cent(confidence: float) -> str:
    return f"{100 * confidence:.10g} %"


def _decimal(value: float, digits: int) -> str:
    return UNKNOWN if np.isnan(value) else f"{value:.{digits}f}"


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
        The model's inputs: a NumPy array or a pandas, Polars or PyArrow frame. Of a frame, the
        columns that the model names, or that `BlackBox` is told, are read alone. With recorded
        predictions given as an array it may be None.
    y
        What really happened: 0/1, -1/1, booleans, or two values with ``pos_label``; or a column
        name of X, which is then no input of the model. None where it is not known: decisions alone
        are compared then (sp and impact ratios).
    sensitive_features
        One label a person, but not "best" or "rest", which `reference` means otherwise; several
        columns give intersections; names of columns of X will do, and those stay inputs of a model
        that does not name its own. Beside recorded predictions they are no inputs.
    sample_weight
        One weight a person, or a column name of X. Intervals account for unequal weights; weight 0
        is the same as being left out.
    ids
        Who it is: one id a row, or a column name of X, which is then no input of the model. Needed
        where people have several rows: intervals and tests are then by person. Without it every
        row counts as a person of its own.
    confidence
        Of the intervals, and of the verdict.
    metrics
        Names of registered metrics (sp, fnr, fpr, fdr, da) or `Disparity` objects; by default the
        first four.
    reference
        ``"best"``: per metric the group with the lowest rate; which group that is, is itself a
        matter of chance: ``p_adjusted`` counts every pair it was chosen from, and the lower end of
        an interval the groups that may be the best off. A group's label: that group.
        ``"rest"``: each group against all others together.
    pos_label
        Which value of y counts as positive, where that is not plain.

    Returns
    -------
    Audit
        Print it, or see ``to_frame()`` and ``to_dict()``.

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
            model,
            X,
            y,
            sensitive_features=sensitive_features,
            sample_weight=sample_weight,
            ids=ids,
            pos_label=pos_label,
            inputs=False,
            unlabelled=UNLABELLED,
        )
    except MissingOutcomes as missing:
        apart = [name for name in (y, sample_weight, ids) if isinstance(name, str)]
        raise _with_selection(missing, model, X, apart, pos_label) from None
    return audit_data(
        data,
        confidence=confidence,
        metrics=metrics,
        reference=reference,
        one_decision=find_one_decision(data),
    )


def _with_selection(
    missing: MissingOutcomes, model: Any, X: Any, apart: Sequence[str], pos_label: Hashable
) -> DataError:
    """The error about missing outcomes, with how people without one were decided, if otherwise."""
    got = missing.got
    with suppress(FairmendError):  # what is wrong beside this is told when this is mended
        inputs = Frame.read(X).drop(apart).native if apart else X
        labels = Labels.of(missing.values, pos_label)
        selection = find_selection(BlackBox.of(model), inputs, missing.known, labels)
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
    may well be all the same, and are.
    """
    check_confidence(confidence)
    if metrics is None:
        metrics = default_metrics(outcome_known=data.outcome_known)
    if isinstance(metrics, str | Disparity) or not metrics:
        raise DataError(
            "metrics", "must be a list of at least one metric", f"got {metrics!r}",
            "For example ['sp', 'fnr'].",
        )  # fmt: skip
    if reference not in RESERVED:
        data.place(reference, "reference")
    cells = [_by_decision(population) for population in data.populations]
    rest = _rests(cells) if reference == "rest" else None
    disparities = [as_disparity(metric) for metric in metrics]
    _check_names_differ(disparities)
    check_outcomes_are_known(data, disparities)
    gaps: list[Gap] = []
    family = 0
    for disparity in disparities:
        settled = one_decision if one_decision and one_decision.settles(disparity) else None
        found, pairs = _compare(
            disparity,
            data,
            cells,
            rest,
            reference=reference,
            confidence=confidence,
            unsaid=settled.note if settled else "",
        )
        gaps += found
        family += pairs
    several = any(people.by_person is not None for people in data.populations)
    rows = data.n if several else None
    return Audit(
        gaps=_holm(gaps, family),
        groups=_summaries(data, cells, compared=one_decision is None or one_decision.share < 1),
        attribute=data.attribute,
        confidence=float(confidence),
        reference=str(reference),
        titles={disparity.name: disparity.title for disparity in disparities},
        weighted=any(
            people.tally is not None and bool((people.tally.weight != people.tally.people).any())
            for people in cells
        ),
        note="" if one_decision is None else str(one_decision),
        rows=rows,
        people=None if rows is None else data.people,
    )


def check_confidence(confidence: float) -> None:
    """It is a share of all samples, neither none nor all of them."""
    if not (isinstance(confidence, Real) and 0 < confidence < 1):
        raise DataError(
            "confidence", "must lie between 0 and 1", f"got {confidence!r}", "Usual is 0.95."
        )


def _check_names_differ(disparities: Sequence[Disparity]) -> None:
    names = Counter(disparity.name for disparity in disparities)
    name, times = names.most_common(1)[0]
    if times > 1:
        raise DataError(
            "metrics",
            "must have different names",
            f"got {name!r} {times} times",
            "Ask for it once: the correction for many tests counts every row.",
        )


def _by_decision(population: Population) -> Population:
    """The people by decision and outcome, which is all that rates ask about: a few cells."""
    if population.tally is None:
        return population.observed
    h, tally = population.decision, population.tally
    if np.isin(h, (0, 1)).all():
        values, member = np.array([0.0, 1.0]), np.stack([1 - h, h])
        place: IntArray = h.astype(np.int64)
        sums = [member @ part for part in (tally.people, tally.weight, tally.squared)]
    else:
        values, place = np.unique(h, return_inverse=True)
        sums = [
            np.stack([np.bincount(place, part[:, y], len(values)) for y in (0, 1)], axis=1)
            for part in (tally.people, tally.weight, tally.squared)
        ]
    total = sums[1].sum(axis=1)
    share = np.divide(sums[1][:, 1], total, out=np.zeros_like(total), where=total > 0)
    by_person = tally.by_person
    if by_person is not None:
        by_person = by_person.into((2 * place[:, None] + np.arange(2)).ravel())
    summed = Tally(*sums, by_person=by_person)
    return Population(total / total.sum(), values, share, tally=summed).observed


def _rests(cells: Sequence[Population]) -> list[Population]:
    """Everybody but one group, for each group."""
    if len(cells) > 2 and any(people.tally is None for people in cells):
        raise DataError(
            "reference",
            "must be 'best' or a group where distributions are exact",
            "got 'rest', but what has no people cannot be pooled",
            "Name the group to compare with.",
        )
    return [pooled([*cells[:place], *cells[place + 1 :]]) for place in range(len(cells))]


# -------------------------------------------------------------------- one gap


@dataclass(frozen=True, eq=False)
class _Error:
    """The sampling error of a mean of psi over one group's people."""

    variance: float
    people: IntArray | None = None
    """Where some people have several rows: everybody's number, sorted."""
    shares: FloatArray | None = None
    """What each of these people adds to the error."""

    @classmethod
    def of(cls, people: Population, psi: FloatArray) -> _Error:
        """Of observed people: sum w^2 psi^2, over people with several rows sum (sum w psi)^2."""
        if people.tally is None:  # an exact distribution
            return cls(0.0)
        if people.by_person is None:
            return cls(float((people.tally.squared[:, 0] + people.tally.squared[:, 1]) @ psi**2))
        shares = people.by_person.sums(np.repeat(psi, 2))
        return cls(float(shares @ shares), people.by_person.people, shares)

    def with_(self, other: _Error) -> float:
        """The covariance: people of one group who are in the other too."""
        if self.people is None or other.people is None:
            return 0.0
        both, here, there = np.intersect1d(
            self.people, other.people, assume_unique=True, return_indices=True
        )
        return float(self.shares[here] @ other.shares[there]) if len(both) else 0.0  # type: ignore[index]


@dataclass(frozen=True, eq=False)
class _Side:
    """A sum of rates within one group, ready to be compared."""

    rate: float
    steadied: float
    """The rate with pseudo-counts."""
    error: _Error
    """Of the people; that of the pseudo-people comes on top."""
    variance: float
    people: int
    effective: float

    @property
    def enough(self) -> bool:
        return self.effective >= TOO_FEW - 1e-9  # five people of weight 0.1 are five people

    def variance_of(self, other: _Side, here: float = 1.0, there: float = -1.0) -> float:
        """Of ``here`` times this plus ``there`` times the other; by default of the difference."""
        covariance = 2 * here * there * self.error.with_(other.error)
        return here**2 * self.variance + there**2 * other.variance + covariance


def _compare(
    disparity: Disparity,
    data: AuditData,
    cells: Sequence[Population],
    rest: Sequence[Population] | None,
    *,
    reference: Hashable,
    confidence: float,
    unsaid: str,
) -> tuple[list[Gap], int]:
    """The gaps of one metric in the order of the groups, and how many pairs they stand for.

    ``unsaid`` is why none of them is judged, if none is.
    """
    parts = _rate_parts(disparity)
    rates = parts or [(1.0, SP)]  # what is no rate is judged by its decisions
    sides = [_side(rates, people) for people in cells]
    pairs, rivals = 0, set[int]()
    compared: list[tuple[int, Population, _Side, Hashable]]
    if rest is not None:
        compared = [
            (place, people, _side(rates, people), "rest") for place, people in enumerate(rest)
        ]
    else:
        if reference == "best":
            best, known = _best(sides), sum(side.enough for side in sides)
            pairs = known * (known - 1) // 2
            rivals = _rivals(sides, best)
        else:
            best = data.place(reference)
        compared = [
            (place, cells[best], sides[best], data.groups[best])
            for place in range(len(cells))
            if place != best
        ]
    gaps = []
    for place, baseline, other, name in compared:
        target, side = cells[place], sides[place]
        among = max(1, len(rivals - {place}))
        if unsaid:
            numbers = _unknown(unsaid)
        elif not (side.enough and other.enough):
            numbers = _too_few(side, other)
        elif parts:
            numbers = _agresti_caffo(side, other, confidence, sum(abs(w) for w, _ in parts), among)
        elif isinstance(disparity, Alignment) and disparity.weight == 0:
            value = disparity.value(target, baseline)
            numbers = _signed_root(value, side, other, confidence, among)
        else:
            group = data.groups[place]
            full = data.rest(group) if rest is not None else data[name]
            numbers = _delta_method(
                disparity, data[group].observed, full.observed, confidence, among
            )
        gaps.append(
            Gap(
                metric=disparity.name,
                target=data.groups[place],
                baseline=name,
                n_target=_people_in(target),
                n_baseline=_people_in(baseline),
                p_adjusted=float("nan"),
                given_target=side.people,
                given_baseline=other.people,
                rivals=among,
                **numbers,
            )
        )
    tested = sum(not np.isnan(gap.p_value) for gap in gaps)
    return gaps, max(pairs, tested) if tested else 0


def _rate_parts(disparity: Disparity) -> list[tuple[float, RateGap]]:
    """The rate gaps a disparity is a sum of; empty if it is made of anything else."""
    parts = parts_of(disparity)
    rates = [(weight, part) for weight, part in parts if isinstance(part, RateGap)]
    return rates if len(rates) == len(parts) else []


def _best(sides: Sequence[_Side]) -> int:
    """The best-off group: lowest rate among those large enough to tell."""
    return int(np.argmin([side.rate if side.enough else np.inf for side in sides]))


def _rivals(sides: Sequence[_Side], best: int) -> set[int]:
    """The groups that may be the best off: not clearly above the one with the lowest rate."""
    lowest = sides[best]
    return {
        place
        for place, side in enumerate(sides)
        if side.enough
        and side.steadied - lowest.steadied
        <= CLEARLY * np.sqrt(max(0.0, side.variance_of(lowest) if place != best else 0.0))
    } | {best}


def lower_reach(confidence: float, rivals: int) -> float:
    """How many standard errors the lower end of an interval is away.

    Where the baseline was the lowest of several rates its own is likely too low, and the gap too
    large: the lower end holds for each of these rivals at once (Bonferroni).
    """
    return -float(special.ndtri((1 - confidence) / 2 / rivals))


def _people_in(population: Population) -> int:
    """How many different people there are; 0 for an exact distribution."""
    by_person = population.by_person
    return population.n if by_person is None else len(by_person.people)


def _side(parts: Sequence[tuple[float, RateGap]], people: Population) -> _Side:
    """Estimate a weighted sum of rates within one group of observed people.

    Per rate with event r and condition t, W = sum w t and n = W^2 / sum w^2 t^2 effective people:

        steadied = (n R + k) / (n + 2k)
        variance = [n^2 sum w^2 (r - steadied t)^2 / W^2 + k (1-steadied)^2 + k steadied^2]
                   / (n + 2k)^2

    which for hard decisions and equal weights is steadied (1 - steadied) / (n + 2k). In a sum the
    rates' errors add person by person, and those of the pseudo-people at their worst. Where people
    have several rows, w t and w (r - steadied t) are summed over a person's rows before they are
    squared, so that n is a number of people.
    """
    tally = people.tally
    if tally is None:  # an exact distribution: no people, no error
        rate = sum(factor * part.of(people) for factor, part in parts)
        effective = float("nan") if np.isnan(rate) else float("inf")
        return _Side(rate, rate, _Error(0.0), 0.0, 0, effective)
    weight = tally.weight[:, 0] + tally.weight[:, 1]  # sum(axis=1) is slow over just two
    rate = steadied = pseudo_error = 0.0
    fewest, effective = float("inf"), float("inf")
    psi: FloatArray = np.zeros_like(weight)
    for factor, part in parts:
        r, t = part.terms(people)
        total = float(weight @ t)
        fewest = min(fewest, _people_with(people, t > 0))
        if total <= 0:
            effective = 0.0
            continue
        n = total**2 / _Error.of(people, t).variance
        effective = min(effective, n)
        one_rate = float(weight @ r) / total
        one_steadied = (n * one_rate + PSEUDO) / (n + 2 * PSEUDO)
        rate += factor * one_rate
        steadied += factor * one_steadied
        psi = psi + factor * n / (n + 2 * PSEUDO) * (r - one_steadied * t) / total
        spread = PSEUDO * ((1 - one_steadied) ** 2 + one_steadied**2)
        pseudo_error += abs(factor) * float(np.sqrt(spread)) / (n + 2 * PSEUDO)
    error = _Error.of(people, psi)
    variance = error.variance + pseudo_error**2
    return _Side(rate, steadied, error, variance, round(fewest), effective)


def _people_with(people: Population, wanted: NDArray[np.bool_]) -> float:
    """How many of the observed people are in one of the wanted cells."""
    assert people.tally is not None
    if people.by_person is not None:
        return float(np.count_nonzero(people.by_person.sums(np.repeat(wanted, 2).astype(float))))
    return float((people.tally.people[:, 0] + people.tally.people[:, 1])[wanted].sum())


def _agresti_caffo(
    target: _Side, baseline: _Side, confidence: float, bound: float, rivals: int = 1
) -> dict[str, Any]:
    """The gap of two sums of rates, which cannot leave [-bound, bound]."""
    centre = target.steadied - baseline.steadied
    error = float(np.sqrt(target.variance_of(baseline)))
    reach = float(special.ndtri(0.5 + confidence / 2)) * error
    below = lower_reach(confidence, rivals) * error
    return {
        "target_rate": target.rate,
        "baseline_rate": baseline.rate,
        "gap": target.rate - baseline.rate,
        "low": max(-bound, centre - below),
        "high": min(bound, centre + reach),
        "p_value": float(2 * special.ndtr(-abs(centre) / error)) if error > 0 else float("nan"),
        "note": "" if error > 0 else "exact",
    }


def _signed_root(
    value: float, target: _Side, baseline: _Side, confidence: float, rivals: int
) -> dict[str, Any]:
    """Alignment of decisions, from the two groups' shares of negative decisions.

    KL(a || b) has slope 0 where a = b, so an interval of its own would fail there. Its signed root
    g = sign(a - b) sqrt(2 KL(a || b)) has a slope everywhere: the interval is g's, squared. The
    test of no gap is that of sp.
    """
    if not np.isfinite(value):
        return _unknown("not finite: only one group ever gets one of the decisions")
    test = _agresti_caffo(target, baseline, confidence, 1.0)
    if target.variance + baseline.variance == 0:
        low = high = value
    else:
        a, b = target.steadied, baseline.steadied
        divergence = max(0.0, a * np.log(a / b) + (1 - a) * np.log((1 - a) / (1 - b)))
        root = float(np.sign(a - b) * np.sqrt(2 * divergence))
        if abs(a - b) < 1e-6 * b * (1 - b):  # the limit, where both slopes read 0 / 0
            by_target = 1 / np.sqrt(b * (1 - b))
            by_baseline = -by_target
        else:
            by_target = (special.logit(a) - special.logit(b)) / root
            by_baseline = -(a - b) / (b * (1 - b)) / root
        error = np.sqrt(target.variance_of(baseline, by_target, by_baseline))
        reach = float(special.ndtri(0.5 + confidence / 2) * error)
        low = max(0.0, abs(root) - lower_reach(confidence, rivals) * error) ** 2 / 2
        high = (abs(root) + reach) ** 2 / 2
    return {**test, "target_rate": np.nan, "baseline_rate": np.nan, "gap": value,
            "low": low, "high": high}  # fmt: skip


def _delta_method(
    disparity: Disparity, target: Population, baseline: Population, confidence: float, rivals: int
) -> dict[str, Any]:
    """For any other disparity: the plain influence-function interval, and no test.

    Whether its slope vanishes where there is no gap, as that of alignment does, is not known.
    """
    value = disparity.value(target, baseline)
    if not np.isfinite(value):
        return _unknown("not finite")
    here, there = (
        _Error.of(people, psi / (1.0 if people.tally is None else float(people.tally.weight.sum())))
        for people, psi in (
            (target, disparity.influence(target, baseline)),
            (baseline, disparity.baseline_influence(target, baseline)),
        )
    )
    variance = here.variance + there.variance + 2 * here.with_(there)
    error = float(np.sqrt(variance))
    reach = float(special.ndtri(0.5 + confidence / 2)) * error
    least = 0.0 if isinstance(disparity, Alignment) else -np.inf
    return {
        "target_rate": float("nan"),
        "baseline_rate": float("nan"),
        "gap": value,
        "low": max(least, value - lower_reach(confidence, rivals) * error),
        "high": value + reach,
        "p_value": float("nan"),
        "note": "delta method, no test" if variance > 0 else "exact",
    }


def _too_few(target: _Side, baseline: _Side) -> dict[str, Any]:
    side = baseline if target.enough else target
    worth = f": {side.people:,} people worth {side.effective:.1f}"
    counts_less = round(side.effective, 1) < side.people
    return _unknown(f"too few to say{worth if counts_less else ''}")


def _unknown(note: str) -> dict[str, Any]:
    names = ("target_rate", "baseline_rate", "gap", "low", "high", "p_value")
    return {**dict.fromkeys(names, float("nan")), "note": note}


def _holm(gaps: Sequence[Gap], family: int) -> tuple[Gap, ...]:
    """Holm's step-down correction: the k-th smallest p times the number not yet rejected.

    ``family`` counts the comparisons the rows were chosen from, the rows themselves or more. Among
    all of them the k-th smallest p of a row stands k-th or later, so the factor errs on the safe
    side.
    """
    tested = [i for i, gap in enumerate(gaps) if not np.isnan(gap.p_value)]
    adjusted = [float("nan")] * len(gaps)
    highest = 0.0
    for rank, i in enumerate(sorted(tested, key=lambda i: gaps[i].p_value)):
        highest = max(highest, min(1.0, gaps[i].p_value * (family - rank)))
        adjusted[i] = highest
    return tuple(replace(gap, p_adjusted=p) for gap, p in zip(gaps, adjusted, strict=True))


# -------------------------------------------------------------------- one group


def _summaries(
    data: AuditData, cells: Sequence[Population], *, compared: bool
) -> tuple[GroupSummary, ...]:
    """What is known of each group; a group too small to be compared shows no rates either.

    There are impact ratios where decisions can be ``compared``.
    """

    def enough(people: Population, rate: RateGap) -> bool:
        return _side([(1.0, rate)], people).enough

    nan = float("nan")
    known = [enough(people, SP) for people in cells]
    selected = [
        float(people.mass @ people.decision) if seen else nan
        for people, seen in zip(cells, known, strict=True)
    ]
    most = max((rate for rate in selected if rate > 0), default=nan)
    summaries = []
    for group, people, rate, seen in zip(data.groups, cells, selected, known, strict=True):
        ratio = rate / most if compared else nan
        right = people.outcome * people.decision + (1 - people.outcome) * (1 - people.decision)
        judged = seen and data.outcome_known
        ranked = judged and enough(people, FNR) and enough(people, FPR)
        summaries.append(
            GroupSummary(
                group=group,
                n=_people_in(people),
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


def is_below_four_fifths(impact_ratio: float) -> bool:
    """Whether a ratio of rates is below 0.8, and not just by its rounding.

    >>> 0.6 / 0.75 < 0.8, is_below_four_fifths(0.6 / 0.75)
    (True, False)
    """
    return impact_ratio < FOUR_FIFTHS - 1e-9


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
    return min(1.0, float(positive @ below) / total) if total > 0 else float("nan")
