"""The gaps of all groups, each linear in the decisions that people get."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fairmend.data.columns import FloatArray, Frame, IntArray
from fairmend.errors import DataError, check, listed
from fairmend.measure.disparity import Combination, Disparity, RateGap
from fairmend.measure.population import AuditData, Tally
from fairmend.measure.realised import half_a_person
from fairmend.model.answers import Answers
from fairmend.repair.problem import (
    answers_of_all,
)
from fairmend.repair.settings import RepairSettings

__all__ = ["Audited", "Constraint", "Gaps", "as_rate"]

_RATES = 15
"""Common rates that are tried where a rate is over decisions."""


# -------------------------------------------------------------------- the gaps to close


@dataclass(frozen=True, eq=False)
class Constraint:
    """One gap, or an excess over a common rate, linear in the decisions people get."""

    weights: FloatArray
    """What one more positive decision does to it, by group and outcome."""
    start: float
    """What is to be taken off."""
    tolerance: float
    over: FloatArray | None = None
    """For a rate over decisions: what one more positive decision adds to the people it is over, as
    a share of them, by group and outcome."""


@dataclass(frozen=True, eq=False)
class Audited:
    """Everybody on distinct rows: weights by group, row and outcome, and the model's answers."""

    data: AuditData
    rows: IntArray
    answers: Answers
    weight: FloatArray
    """Shape (groups, rows, outcomes)."""

    @classmethod
    def of(cls, data: AuditData) -> Audited:
        rows, answers = answers_of_all(data)
        weight = np.zeros((len(data.groups), len(rows), 2))
        for group, people in enumerate(data.populations):
            at = np.searchsorted(rows, np.asarray(people.rows))
            weight[group, at] = people.counts.weight
        return cls(data, rows, answers, weight)

    @cached_property
    def table(self) -> Frame:
        assert self.data.table is not None
        return self.data.table.take(self.rows)

    def visible(self, kept_out: Sequence[str]) -> Frame:
        """The inputs that a rule may look at."""
        if not kept_out:
            return self.table
        return self.table.select([name for name in self.table.names if name not in kept_out])

    def kinds(self, alike: IntArray) -> IntArray:
        """The same number for rows that are one to a rule: equal inputs with equal answers.

        ``alike`` is the same number for rows whose visible inputs are equal.
        """
        kind = alike
        if int(kind.max(initial=-1)) + 1 == len(kind):  # all differ
            return kind
        for answer in (self.answers.decision, self.answers.score):
            if answer is not None:
                values, place = np.unique(answer, return_inverse=True)
                kind = np.unique(kind * len(values) + place, return_inverse=True)[1]
        return kind

    @property
    def people(self) -> FloatArray:
        """How many people there are, by group, row and outcome."""
        people = np.zeros_like(self.weight)
        for group, population in enumerate(self.data.populations):
            at = np.searchsorted(self.rows, np.asarray(population.rows))
            people[group, at] = population.counts.people
        return people

    @cached_property
    def tally(self) -> Tally:
        """Everybody, whatever the group."""
        totals = [np.zeros((len(self.rows), 2)) for _ in range(3)]
        for people in self.data.populations:
            at = np.searchsorted(self.rows, np.asarray(people.rows))
            for total, part in zip(totals, people.counts.sums, strict=True):
                total[at] += part
        return Tally(*totals)

    def group_tally(self, groups: Sequence[int], outcomes: Sequence[int]) -> Tally:
        """Others and members of some groups among people with these outcomes, by row."""
        totals = [np.zeros((len(self.rows), 2)) for _ in range(3)]
        for place, people in enumerate(self.data.populations):
            at = np.searchsorted(self.rows, np.asarray(people.rows))
            for total, part in zip(totals, people.counts.sums, strict=True):
                total[at, int(place in groups)] += part[:, outcomes].sum(axis=1)
        return Tally(*totals)


_OUTCOMES = np.array([0.0, 1.0])


def _terms(rate: RateGap, decision: FloatArray, weight: FloatArray) -> tuple[float, float]:
    """The two sums of a rate, over rows by outcome."""
    h = np.repeat(np.asarray(decision, np.float64)[:, None], 2, axis=1)
    y = np.broadcast_to(_OUTCOMES, h.shape)
    return float((weight * rate.rate(h, y)).sum()), float((weight * rate.given(h, y)).sum())


def _slopes(rate: RateGap) -> tuple[FloatArray, FloatArray]:
    """What turning a decision from 0 to 1 adds to the two sums, by outcome."""
    one, none = np.ones(2), np.zeros(2)
    r = rate.rate(one, _OUTCOMES) - rate.rate(none, _OUTCOMES)
    t = rate.given(one, _OUTCOMES) - rate.given(none, _OUTCOMES)
    return r * np.ones(2), t * np.ones(2)


class Gaps:
    """The gaps of all groups to be closed, as constraints of the program."""

    def __init__(
        self, audited: Audited, settings: RepairSettings, against: Mapping[Hashable, Hashable]
    ) -> None:
        self.audited, self.settings, self.against = audited, settings, against
        self._groups = {group: k for k, group in enumerate(audited.data.groups)}

    def constraints(self, rate_at: float | None = None) -> list[Constraint]:
        """One a gap; of rates over decisions one a group, all at a common rate."""
        constraints: list[Constraint] = []
        for disparity in self.settings.disparities:
            parts = [(1.0, disparity)]
            if isinstance(disparity, Combination):
                parts = list(disparity.parts)
            for target, baseline in self.against.items():
                constraints += self._of(parts, target, baseline, rate_at)
        return constraints

    def _of(
        self,
        parts: Sequence[tuple[float, Disparity]],
        target: Hashable,
        baseline: Hashable,
        rate_at: float | None,
    ) -> list[Constraint]:
        sides = (self._members(target, target), self._members(baseline, target))
        weights = np.zeros((len(self._groups), 2))
        now = tolerance = 0.0
        for factor, disparity in parts:
            rate = as_rate(disparity)
            if _over_decisions(rate):
                check(
                    len(parts) == 1,
                    "disparity",
                    "must be a sum of rates over outcomes for blind=True",
                    f"got {rate.name!r} in a sum",
                    "Give the parts of the sum as a list, to close each.",
                )
                return self._at_common_rate(rate, target, sides, rate_at)
            for sign, members in zip((1, -1), sides, strict=True):
                r, t = self._sums(rate, members)
                weights[members] += factor * sign * _slopes(rate)[0] / t
                now += factor * sign * r / t
            tolerance += abs(factor) * self._tolerance(rate, target, baseline)
        level = self.settings.level
        return [Constraint(weights, now - (1 - level) * now, tolerance)]

    def _at_common_rate(
        self, rate: RateGap, target: Hashable, sides: Any, rate_at: float | None
    ) -> list[Constraint]:
        """Each side's excess over the common rate; of the target over what may remain as well."""
        assert rate_at is not None
        constraints = []
        rates = [r / t for r, t in (self._sums(rate, members) for members in sides)]
        may_remain = (1 - self.settings.level) * (rates[0] - rates[1])
        for members, aim in zip(sides, (rate_at + may_remain, rate_at), strict=True):
            r, t = self._sums(rate, members)
            slope_r, slope_t = _slopes(rate)
            weights = np.zeros((len(self._groups), 2))
            weights[members] = (slope_r - aim * slope_t) / t
            tolerance = max(half_a_person(rate, self.audited.data.populations[m]) for m in members)
            over = np.zeros_like(weights)
            over[members] = slope_t / t
            constraints.append(Constraint(weights, (r - aim * t) / t, tolerance, over))
        return constraints

    def _members(self, group: Hashable, target: Hashable) -> list[int]:
        if group != "rest":
            return [self._groups[group]]
        return [place for other, place in self._groups.items() if other != target]

    def _sums(self, rate: RateGap, members: Sequence[int]) -> tuple[float, float]:
        weight = self.audited.weight[members].sum(axis=0)
        return _terms(rate, self.audited.answers.decision, weight)

    def _tolerance(self, rate: RateGap, target: Hashable, baseline: Hashable) -> float:
        data = self.audited.data
        other = data.rest(target) if baseline == "rest" else data[baseline]
        return max(1e-9, half_a_person(rate, data[target]), half_a_person(rate, other))

    def common_rates(self) -> list[float | None]:
        """Rates to try where a rate is over decisions; [None] where none is."""
        over_decisions = [
            one
            for one in self.settings.disparities
            if isinstance(one, RateGap) and _over_decisions(one)
        ]
        if not over_decisions:
            return [None]
        check(
            len(over_decisions) == 1,
            "disparity",
            "must hold one rate over decisions at most for blind=True",
            f"got {listed([one.name for one in over_decisions])}",
            "Close one of them, or leave blind out.",
        )
        every = {*self.against, *self.against.values()}
        sums = [self._sums(over_decisions[0], self._members(group, group)) for group in every]
        rates = [r / t for r, t in sums]
        return list(np.linspace(min(rates), max(rates), _RATES))


def as_rate(disparity: Disparity) -> RateGap:
    """A gap of rates; anything else cannot be closed by turning decisions."""
    if not isinstance(disparity, RateGap):
        raise DataError(
            "disparity",
            "must be a rate gap, or a sum of rate gaps, for blind=True",
            f"got {disparity.name!r}",
            "Name sp, fnr, fpr or fdr.",
        )
    return disparity


def _over_decisions(rate: RateGap) -> bool:
    return bool(np.abs(_slopes(rate)[1]).max() > 0)
