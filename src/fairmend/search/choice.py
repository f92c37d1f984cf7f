"""Which candidates are judged, and in which order, so that choosing does not spoil the judging.

On the people it was made on, a search names a few candidates, from the one most likely to pass to
the most ambitious. On the other people they are tested in this order, each at 5 %, up to the first
that fails (a fixed sequence; Maurer, Hothorn and Lehmacher, 1995). So the chance to call any
candidate equivalent and less discriminatory that is not is at most 5 %, however many were tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fairmend.search.candidates import Candidate
from fairmend.search.judge import RISK, Figures, passing_chance, width

CHANCES = (0.95, 0.85, 0.7, 0.5, 0.3)
"""For each of these chances to pass, the candidate with the least gap that has it is named."""


def named_in_order(
    candidates: Sequence[Candidate], figures: Sequence[Figures], people: int, judges: int
) -> list[int]:
    """The candidates to judge, those most likely to pass first, each with a smaller gap."""
    chance = {
        place: passing_chance(one, people, judges)
        for place, (made, one) in enumerate(zip(candidates, figures, strict=True))
        if made.kind != "current" and not made.reads_group and one.reduction > 0
    }
    named: list[int] = []
    for least in CHANCES:
        able = [place for place, value in chance.items() if value >= least]
        if not able:
            continue
        best = min(able, key=lambda place: (width(figures[place].gap), -chance[place]))
        if not named or width(figures[best].gap) < width(figures[named[-1]].gap):
            named.append(best)
    if not named and chance:
        named.append(max(chance, key=lambda place: chance[place]))
    return named


def passes(figures: Figures) -> bool:
    """Whether a candidate is shown to be no worse than the margin allows, and less of a gap."""
    return figures.performance.p_worse <= RISK and figures.p_wider <= RISK


@dataclass(frozen=True)
class Tested:
    """What became of the candidates that were named, by their places."""

    reached: frozenset[int]
    passed: frozenset[int]
    equivalent: frozenset[int]


def tested_in_order(order: Sequence[int], figures: Sequence[Figures]) -> Tested:
    """Each candidate is tested if all before it passed; equivalence is a sequence of its own."""
    reached: list[int] = []
    passed: list[int] = []
    equivalent: list[int] = []
    for k in order:
        reached.append(k)
        if len(equivalent) == len(passed) and figures[k].performance.p_value <= RISK:
            equivalent.append(k)
        if not passes(figures[k]):
            break
        passed.append(k)
    return Tested(*map(frozenset, (reached, passed, equivalent)))
