"""The result of an audit: every gap of every group, what is known of each group, and a verdict.

An interval is that of one comparison settled beforehand. Looking at many, and letting the data
choose the group to compare with, is paid for in `Gap.p_adjusted`, on which the verdict rests.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from fairmend import doors
from fairmend.data.limits import MOST, Between, Chance, Count, Figure, Label, Share
from fairmend.data.naming import GroupNames
from fairmend.data.plain import as_plain, from_plain
from fairmend.data.stored import stored
from fairmend.errors import require
from fairmend.measure.disparity import title_of, words_of
from fairmend.measure.wording import CORRECTED, around_rates, capital, figures, share
from fairmend.tables import UNKNOWN, TextTable, counted, p_value, percent, points

if TYPE_CHECKING:
    import pandas as pd

FOUR_FIFTHS = 0.8
BY_PERSON = "Rates are over rows; intervals and tests are by person, and people are counted."
"""The note where people have several rows."""


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
@dataclass(frozen=True, repr=False)
class Audit(doors.Shown):
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
        labels = {group.group for group in self.groups}
        return len(labels) == len(self.groups) and all(
            gap.target in labels and gap.baseline in {*labels, "rest"} for gap in self.gaps
        )

    def __iter__(self) -> Iterator[Gap]:
        return iter(self.gaps)

    def __getitem__(self, key: tuple[str, Hashable]) -> Gap:
        """The gap of one metric and target group: ``audit["fnr", "Female"]``."""
        for gap in self.gaps:
            if (gap.metric, gap.target) == key:
                return gap
        audited = ", ".join(f"({gap.metric!r}, {gap.target!r})" for gap in self.gaps)
        raise KeyError(f"{key} is not among the audited gaps: {audited}")

    def to_frame(self) -> pd.DataFrame:
        """One row per metric and group, as a pandas frame."""
        return _as_frame(self.gaps, Gap, "Audit.to_frame()")

    def groups_to_frame(self) -> pd.DataFrame:
        """One row per group: size, base rate, selection, impact ratio, accuracy, AUC."""
        return _as_frame(self.groups, GroupSummary, "Audit.groups_to_frame()")

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Audit:
        """What `to_dict` has made, or the command line has printed as JSON."""
        audit: Audit = from_plain(cls, {**content, "titles": content["metrics"]})
        return audit

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, ready for JSON; what is not known is None."""
        plain = ("attribute", "confidence", "reference", "weighted", "rows", "people", "note")
        return {
            "schema": "fairmend.audit/1",
            **{name: getattr(self, name) for name in plain},
            "metrics": dict(self.titles),
            "gaps": as_plain(self.gaps),
            "groups": as_plain(self.groups),
            "verdict": self.verdict(),
        }

    def to_html(self) -> str:
        """The audit as one page that needs no network."""
        return doors.audit_page(self)

    @property
    def exact(self) -> bool:
        """Whether the distribution itself was audited, not a sample from it."""
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
            harm = (gap.gap > 0 and gap.survives(self.confidence), gap.harm)
            worst[gap.target] = max(harm, worst.get(gap.target, harm))
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
        unjudged = len(self.gaps) - len(judged)
        others = "1 other gap" if unjudged == 1 else f"{unjudged} other gaps"
        more = f" {others} cannot be judged." if unjudged else ""
        if self.exact:
            return f"These are the gaps of the distribution itself. {self._worst(judged)}{more}"
        tested = [gap for gap in judged if not np.isnan(gap.p_value)]
        if not tested:
            return f"There is no test for these gaps. {self._worst(judged)}{more}"
        certain = [gap for gap in tested if gap.survives(self.confidence)]
        sure = f"at {_per_cent(self.confidence)} confidence ({CORRECTED})."
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
        how = "" if self.exact else " by points times people"
        first = f"The worst{how}: " if len(gaps) > 1 else ""
        if np.isnan(worst.target_rate):
            target, baseline = self.names.pair(worst.target, worst.baseline)
            text = f"{title_of(worst.metric)} is {worst.gap:.3f} for {target} against {baseline}"
        else:
            over = "" if self.exact else f" over {counted(worst.given_target)}"
            rates = rates_in_words(worst, self.names)
            text = f"{rates}, a gap of {figures(worst.gap)[0]} points{over}"
        return f"{first}{text if first else capital(text)}."

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

    @property
    def _unit(self) -> str:
        """In what the gaps are."""
        units = {words_of(gap.metric).unit for gap in self.gaps}
        if "" not in units:
            return "in percentage points"
        return "in percentage points, or as said above" if len(units) > 1 else "as said above"

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
                    points(gap.gap),
                    f"{points(gap.low)} to {points(gap.high)}" if gap.judged else UNKNOWN,
                    p_value(gap.p_value),
                    p_value(gap.p_adjusted),
                    UNKNOWN if self.exact else f"{gap.given_target:,} : {gap.given_baseline:,}",
                    gap.note,
                )
                for gap in self.in_order()
            ],
            [
                *(f"{metric}: {title}" for metric, title in self.titles.items() if title),
                f"gap: {self._unit}; people: those the two rates are over",
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

    def __repr__(self) -> str:
        certain = sum(gap.judged and gap.survives(self.confidence) for gap in self.gaps)
        return (
            f"<Audit: {self.who} in {len(self.groups)} groups by {self.attribute}; {certain} of "
            f"{len(self.gaps)} gaps significant>"
        )


def _as_frame(rows: Sequence[Any], kind: type, why: str) -> pd.DataFrame:
    pandas = require("pandas", extra="pandas", why=why)
    columns = [column.name for column in fields(kind)]
    frame: pd.DataFrame = pandas.DataFrame([asdict(row) for row in rows], columns=columns)
    return frame


def _per_cent(confidence: float) -> str:
    return f"{100 * confidence:.10g} %"


def _decimal(value: float, digits: int) -> str:
    return UNKNOWN if np.isnan(value) else f"{value:.{digits}f}"


def rates_in_words(gap: Gap, names: GroupNames) -> str:
    """What happens to people of both groups, in plain words.

    >>> gap = Gap("fnr", "b", "a", 0.6, 0.4, 0.2, 0.1, 0.3, 0.01, 90, 80, 0.02, 90, 80)
    >>> print(rates_in_words(gap, GroupNames()))
    of those with a positive outcome, 60.0 % of b and 40.0 % of a get a negative decision
    """
    (start, of, end), (target, baseline) = (
        around_rates(gap.metric),
        names.pair(gap.target, gap.baseline),
    )
    return (
        f"{start}{share(gap.target_rate)} {of} {target} and "
        f"{share(gap.baseline_rate)} {of} {baseline}{end}"
    )


def is_below_four_fifths(impact_ratio: float) -> bool:
    """Whether a ratio of rates is below 0.8, and not just by its rounding.

    >>> 0.6 / 0.75 < 0.8, is_below_four_fifths(0.6 / 0.75)
    (True, False)
    """
    return impact_ratio < FOUR_FIFTHS - 1e-9
