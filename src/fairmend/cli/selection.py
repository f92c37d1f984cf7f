"""People whose outcome is not known: were they decided like the others?

A bank learns who repays only of those it lends to. Rates over people with an outcome are then rates
over the accepted, and say nothing of who was turned down.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairmend.errors import DataError

if TYPE_CHECKING:
    import polars as pl

    from fairmend.model import BlackBox, Labels

__all__ = ["Selection", "find_selection", "refuse_selected"]

FEWEST = 20
"""Fewer people without an outcome say nothing about how such people are decided."""
SURE = 0.001
"""The chance of a difference like that, or larger, if there is none."""


@dataclass(frozen=True)
class Selection:
    """Positive decisions among people without an outcome, and among those with one."""

    people: int
    without: float
    with_one: float

    def __str__(self) -> str:
        from fairmend.tables import percent

        return (
            f"{self.people:,} people have no outcome, and {percent(self.without)} of them a "
            f"positive decision, against {percent(self.with_one)} of those who have one"
        )


def find_selection(
    box: BlackBox, inputs: pl.DataFrame, known: pl.Series, labels: Labels
) -> Selection | None:
    """What sets people without an outcome apart; None if nothing does beyond chance."""
    from fairmend.audit import audit_data
    from fairmend.data import tabulate

    people = len(known) - int(known.sum())
    if people < FEWEST:
        return None
    data = tabulate(
        box,
        inputs,
        None,
        sensitive_features={"outcome": known.replace_strict({True: "known", False: "not known"})},
        inputs=False,
        unlabelled=labels,
    )
    [gap] = audit_data(data, metrics=["sp"], reference="known").gaps
    if not gap.p_value < SURE:
        return None
    return Selection(people, 1 - gap.target_rate, 1 - gap.baseline_rate)


def refuse_selected(selection: Selection | None, metrics: Sequence[str], instead: str) -> None:
    """Refuse to compare decisions among people who were picked by them."""
    if selection is not None and all(metric.lower() == "sp" for metric in metrics):
        raise DataError(
            "--label",
            "must be left out here for sp, which compares the decisions of everybody",
            f"{selection}; these alone would be compared",
            f"{instead}: sp asks for no outcomes.",
        )
