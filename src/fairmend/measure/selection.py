"""Who is missing from an audit: people whose outcome is not known, and people turned down.

A bank learns who repays only of those it lends to. Rates over people with an outcome are then rates
over the accepted, and say nothing of who was turned down.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fairmend.data.columns import BoolArray
from fairmend.errors import check
from fairmend.measure.disparity import Disparity, RateGap, as_disparity, parts_of
from fairmend.measure.intervals import GapEstimate, RateEstimate, Reach
from fairmend.measure.metrics import SP, Alignment
from fairmend.measure.population import AuditData, Population
from fairmend.measure.tabulate import tabulate
from fairmend.tables import percent

if TYPE_CHECKING:
    from fairmend.data.outcomes import Labels
    from fairmend.model.blackbox import BlackBox

FEWEST = 20
"""Fewer people without an outcome say nothing about how such people are decided."""
SURE = 0.001
"""The chance of a difference like that, or larger, if there is none."""
SLIVER = 0.01
"""Where no group has more negative decisions than this share, those turned down may be missing."""


@dataclass(frozen=True)
class Selection:
    """Positive decisions among people without an outcome, and among those with one."""

    people: int
    without: float
    with_one: float

    def __str__(self) -> str:
        return (
            f"{self.people:,} people have no outcome, and {percent(self.without)} of them a "
            f"positive decision, against {percent(self.with_one)} of those who have one"
        )


def find_selection(
    box: BlackBox, inputs: Any, outcome_known: BoolArray, labels: Labels
) -> Selection | None:
    """How people without an outcome are decided; None where no difference is significant.

    ``outcome_known`` has an entry a person, in the order of ``inputs``.
    """
    people = int((~outcome_known).sum())
    if people < FEWEST or not outcome_known.any():
        return None
    groups = {"outcome": np.where(outcome_known, "known", "not known")}
    data = tabulate(box, inputs, None, sensitive_features=groups, inputs=False, unlabelled=labels)
    without, with_one = (
        RateEstimate.of([(1.0, SP)], data[group].by_decision) for group in ("not known", "known")
    )
    if not (without.enough and with_one.enough):
        return None
    gap = GapEstimate.agresti_caffo(without, with_one, Reach.of(0.95))
    return Selection(people, 1 - without.rate, 1 - with_one.rate) if gap.p_value < SURE else None


def refuse_selected(selection: Selection | None, metrics: Sequence[str], instead: str) -> None:
    """Refuse to compare decisions among people who were picked by them."""
    names = ", ".join(metrics).lower()
    fine = selection is None or any(as_disparity(metric).uses_outcome for metric in metrics)
    must = f"must be left out here for {names}, which compares the decisions of everybody"
    fix = f"{instead}: {names} needs no outcomes."
    check(fine, "y", must, f"{selection}; these alone would be compared", fix)


@dataclass(frozen=True)
class OneDecision:
    """Everybody in every group has the same decision, or nearly everybody the positive one."""

    positive: bool
    share: float
    """Of people with that decision; 1 where it is everybody."""

    @property
    def is_everybody(self) -> bool:
        return self.share == 1

    @property
    def note(self) -> str:
        return f"everybody here has a {'positive' if self.positive else 'negative'} decision"

    def __str__(self) -> str:
        if not self.is_everybody:
            return (
                f"{percent(self.share)} of these people have a positive decision: if people who "
                "were turned down are missing, what compares decisions says nothing of them."
            )
        other = "turned down" if self.positive else "accepted"
        return (
            f"{self.note[0].upper()}{self.note[1:]}: anybody who was {other} is missing, and what "
            "compares decisions cannot be judged."
        )

    def settles(self, disparity: Disparity) -> bool:
        """Whether a part of it is the same in all groups because everybody has this decision.

        >>> from fairmend.measure.metrics import FDR, FNR, SP
        >>> accepted = OneDecision(positive=True, share=1.0)
        >>> [accepted.settles(one) for one in (SP, FNR, FDR)]
        [True, True, False]
        """
        return self.is_everybody and any(self._settles(part) for _, part in parts_of(disparity))

    def _settles(self, part: Disparity) -> bool:
        if not isinstance(part, RateGap):
            return isinstance(part, Alignment) and part.weight == 0
        decided = np.full(2, float(self.positive))
        event, given = part.terms(Population.of(np.ones(2), decided, np.array([0.0, 1.0])))
        rates = event[given > 0] / given[given > 0]
        return len(np.unique(rates)) == 1


def find_one_decision(data: AuditData) -> OneDecision | None:
    """The decision of everybody, or nearly everybody; None where there are both.

    It is the mark of an audit of accepted people alone.
    """
    for decision in (1.0, 0.0):
        if all((people.decision == decision).all() for people in data.populations):
            return OneDecision(positive=decision == 1, share=1.0)
    shares = np.array([people.mass @ people.decision for people in data.populations])
    if shares.min() < 1 - SLIVER:
        return None
    sizes = [1.0 if p.tally is None else float(p.tally.weight.sum()) for p in data.populations]
    return OneDecision(positive=True, share=float(np.average(shares, weights=sizes)))
