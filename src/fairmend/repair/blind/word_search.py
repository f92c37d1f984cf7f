"""The search for a blind rule in words.

For given prices of the gaps, turning the decision of row r is worth M(r) = prices . g(r) - c(r),
and a rule in words is worth the sum of M over the rows that meet its conditions. Rules are found
one after the other, each by a beam search over conjunctions of conditions, among the rows that
earlier rules leave. M is the modelled gain and cost with a little of what was observed: a search
among thousands of conjunctions would pick those that were lucky. The gaps are then closed as people
experience them, by moving one end of each rule, such that the sum of M stays largest: luck decides
as little as possible. This is done for several scales of the prices, and the cheapest list is kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from fairmend.data.columns import (
    BoolArray,
    Encoded,
    FloatArray,
    Frame,
    IntArray,
    as_measure,
    as_numbers,
    lookup_key,
)
from fairmend.data.limits import LARGE
from fairmend.model.answers import SAME_ANSWER
from fairmend.repair.blind.gaps import Audited, Constraint
from fairmend.repair.blind.words import (
    MOST_CONDITIONS,
    MOST_RULES,
    Condition,
    Mask,
    WordedRule,
)
from fairmend.repair.trade_off import TradeOff

__all__ = ["WordSearch"]

OBSERVED = 0.1
"""How much of what people experienced is in a row's gain and cost; the rest is modelled."""
_SCALES = tuple(np.geomspace(0.7, 2.0, 7))
"""Of the prices of the rule that need not be put in words."""
_BEAM = 6
_BINS = 32
"""Places where a number may be cut."""
_MOST_VALUES = 60
"""A category with more values is in no condition: dates as text, names of towns."""
_MOST_LISTED = 4
"""Values that a condition on a category may list."""
_LEAST_GAIN = 0.02
"""A further condition, or rule, must add this share of what the others are worth."""
_FEWEST = 1 / 400
"""A rule turns the decisions of at least this share of the people."""
_CUTS = 200
"""Ends that are tried for all rules together, so that the gaps close."""
_URGENT = 20.0
"""A gap that is left counts this many times its price."""
_FOR_CLOSING = 0.25
"""A list that closes the gaps may cost this share more than one that nearly does."""
_SWEEPS = 20
"""Over all pairs of rules, at most."""
_ROWS = 20_000
"""Conditions are sought among at most so many rows; gaps are closed on all of them."""


# -------------------------------------------------------------------- what conditions are on


@dataclass(frozen=True, eq=False)
class _Axis:
    """An input, or the score, in bins: a condition keeps some of them."""

    name: Any
    codes: IntArray
    """The bin of each row; the last bin is of rows about which no condition holds."""
    size: int
    """The number of bins."""
    ends: tuple[tuple[float, float], ...] = ()
    """Of a number: the smallest and the largest value of each bin."""
    values: tuple[Any, ...] = ()
    """Of a category: the value of each bin that can be listed."""
    flag: bool = False
    of_score: bool = False

    @classmethod
    def of_numbers(
        cls,
        name: Any,
        numbers: FloatArray,
        weight: FloatArray,
        *,
        flag: bool = False,
        of_score: bool = False,
    ) -> _Axis:
        finite = np.abs(numbers) <= LARGE
        values, place = np.unique(numbers[finite], return_inverse=True)
        near = SAME_ANSWER if of_score else 0.0
        starts = np.diff(values, prepend=-np.inf) > near
        share = np.cumsum(np.bincount(place, weight[finite], len(values)))
        if np.count_nonzero(starts) > _BINS:
            step = np.floor(_BINS * (share - 1e-9) / max(share[-1], 1e-300))
            starts &= np.diff(step, prepend=-1) > 0
        number = np.cumsum(starts) - 1
        first = np.flatnonzero(starts)
        last = np.r_[first[1:], len(values)] - 1
        codes = np.full(len(numbers), len(first))
        codes[finite] = number[place]
        ends = tuple(zip(values[first].tolist(), values[last].tolist(), strict=True))
        return cls(name, codes, len(first) + 1, ends, flag=flag, of_score=of_score)

    @classmethod
    def of_values(cls, name: Any, column: Encoded, weight: FloatArray) -> _Axis:
        """Values of few people have no bin of their own."""
        each = np.bincount(column.codes, weight, len(column.values))
        kept = np.flatnonzero(each >= _FEWEST * weight.sum())
        place = np.full(len(column.values), len(kept))
        place[kept] = np.arange(len(kept))
        values = tuple(lookup_key(column.values[k]) for k in kept)
        return cls(name, place[column.codes], len(kept) + 1, values=values)

    def take(self, rows: IntArray) -> _Axis:
        return replace(self, codes=self.codes[rows])

    def best(self, sums: FloatArray) -> tuple[float, Mask] | None:
        """The bins to keep, so that they sum to most; None if it is best to keep all."""
        kept = self._listed(sums) if self.values else self._interval(sums)
        if kept[: len(self.ends) or None].all():
            return None
        return float(sums[kept].sum()), kept

    def _interval(self, sums: FloatArray) -> Mask:
        total = np.r_[0.0, np.cumsum(sums[:-1])]
        end = int(np.argmax(total[1:] - np.minimum.accumulate(total[:-1])))
        start = int(np.argmin(total[: end + 1]))
        kept = np.zeros(len(sums), bool)
        kept[start : end + 1] = True
        return kept

    def _listed(self, sums: FloatArray) -> Mask:
        """One of a few values, or none of them."""
        own = sums[:-1]
        order = np.argsort(-own, kind="stable")
        some, others = np.zeros(len(sums), bool), np.ones(len(sums), bool)
        some[[k for k in order[:_MOST_LISTED] if own[k] > 0] or [order[0]]] = True
        others[[k for k in order[::-1][:_MOST_LISTED] if own[k] < 0]] = False
        worth_listing = sums[some].sum() >= sums[others].sum() - 1e-9 * np.abs(sums).sum()
        return some if worth_listing else others

    def condition(self, kept: Mask) -> Condition:
        """The bins in words."""
        if self.values:
            own = kept[:-1]
            negated = bool(kept[-1])
            listed = np.flatnonzero(own != negated)
            return Condition(
                self.name, values=tuple(self.values[k] for k in listed), negated=negated
            )
        place = np.flatnonzero(kept)
        first, last = int(place[0]), int(place[-1])
        low = self._between(first - 1) if first > 0 else None
        high = self._between(last) if last < len(self.ends) - 1 else None
        return Condition(self.name, low, high, flag=self.flag, of_score=self.of_score)

    def _between(self, place: int) -> float:
        return cut_between(self.ends[place][1], self.ends[place + 1][0], strict=self.of_score)


def cut_between(low: float, high: float, *, strict: bool = False) -> float:
    """The shortest decimal number that is below ``high`` and not below ``low``.

    With ``strict`` it is above ``low``: a score may differ in its last digit another time.

    >>> cut_between(37, 38), cut_between(0.3812, 0.3941), cut_between(48_123, 53_999)
    (37.0, 0.39, 50000.0)
    >>> cut_between(25.8, 25.9), cut_between(25.8, 25.9, strict=True)
    (25.8, 25.81)
    """
    for digits in range(-12, 18):
        step = 10.0**-digits
        if abs(low / step) > LARGE:
            break
        least = math.floor(low / step) + 1 if strict else math.ceil(low / step)
        for cut in (round(least * step, digits), round((least - 1) * step, digits)):
            if low <= cut < high and (low < cut or not strict):
                return cut + 0.0
    return float(low)


def _axes(table: Frame, score: FloatArray | None, weight: FloatArray) -> list[_Axis]:
    """Inputs with more than one value, and the score; no dates, and no category of many values."""
    axes = []
    for name, column in zip(table.names, table.encoded, strict=True):
        numbers = as_numbers(column.values)
        if numbers is not None:
            flag = set(numbers[np.isfinite(numbers)].tolist()) <= {0.0, 1.0}
            axes.append(_Axis.of_numbers(name, numbers[column.codes], weight, flag=flag))
        elif as_measure(column.values) is None and len(column.values) <= _MOST_VALUES:
            axes.append(_Axis.of_values(name, column, weight))
    if score is not None:
        called = "the model's score" if "score" in table.names else "score"
        axes.append(_Axis.of_numbers(called, score, weight, of_score=True))
    return [axis for axis in axes if len(axis.ends) > 1 or axis.values]


# -------------------------------------------------------------------- one conjunction


@dataclass(frozen=True, eq=False)
class _Conjunction:
    """Axes with the bins that are kept of each, and what the rows that meet them are worth."""

    parts: tuple[tuple[int, Mask], ...] = ()
    value: float = -np.inf

    @cached_property
    def key(self) -> tuple[Any, ...]:
        return tuple(sorted((place, kept.tobytes()) for place, kept in self.parts))

    def matches(self, axes: Sequence[_Axis], but: int | None = None) -> Mask:
        """The rows that meet all parts, or all but the one on an axis."""
        met = np.ones(len(axes[0].codes), bool)
        for place, kept in self.parts:
            if place != but:
                met &= kept[axes[place].codes]
        return met


@dataclass(frozen=True, eq=False)
class _Beam:
    """The search for the conjunction that is worth most among rows that are free."""

    axes: Sequence[_Axis]
    worth: FloatArray
    """Of each row; 0 for rows that are not free."""

    def best(self) -> _Conjunction:
        """A further condition is kept if it adds enough."""
        best_so_far = _Conjunction(value=float(self.worth.sum()))
        beam = [best_so_far]
        for _ in range(MOST_CONDITIONS):
            longer = {one.key: one for start in beam for one in self._extended(start)}
            ranked = sorted(longer.values(), key=lambda one: (-round(one.value, 12), one.key))
            beam = [self._polished(one) for one in ranked[:_BEAM]]
            if not beam:
                break
            best = max(beam, key=lambda one: one.value)
            if best.value <= best_so_far.value + _LEAST_GAIN * abs(best_so_far.value):
                break
            best_so_far = best
        return best_so_far

    def _sums(self, axis: _Axis, met: Any) -> FloatArray:
        """What the rows of each bin are worth, of those that meet the other conditions."""
        return np.bincount(axis.codes[met], self.worth[met], axis.size).astype(np.float64)

    def _extended(self, start: _Conjunction) -> Iterator[_Conjunction]:
        used = {place for place, _ in start.parts}
        inputs = sum(not self.axes[place].of_score for place in used)
        scored = any(axis.of_score for axis in self.axes)
        met = np.flatnonzero(start.matches(self.axes))
        for place, axis in enumerate(self.axes):
            # one condition is left for the score, by which a rule is cut
            if place in used or (not axis.of_score and inputs >= MOST_CONDITIONS - scored):
                continue
            best = axis.best(self._sums(axis, met))
            if best is not None:
                yield _Conjunction((*start.parts, (place, best[1])), best[0])

    def _polished(self, one: _Conjunction) -> _Conjunction:
        """Each condition anew, given the others; one that is not needed is dropped."""
        for _ in range(3 if len(one.parts) > 1 else 0):
            before = one.key
            for place in [place for place, _ in one.parts]:
                axis, met = self.axes[place], one.matches(self.axes, but=place)
                best = axis.best(self._sums(axis, met))
                others = tuple(part for part in one.parts if part[0] != place)
                value = float(self.worth[met].sum())
                if best is None or best[0] <= value:
                    one = _Conjunction(others, value)
                else:
                    one = _Conjunction((*others, (place, best[1])), best[0])
            if one.key == before:
                break
        return one


# -------------------------------------------------------------------- the list


@dataclass(frozen=True, eq=False)
class _Variant:
    """One end of a rule: whose decision it turns; no conditions if the rule is left out."""

    rule: int
    conditions: tuple[Condition, ...] | None
    rows: IntArray
    decision: float


@dataclass(frozen=True, eq=False)
class _Side:
    """The rows that the model decides one way and that can be turned."""

    decision: float
    rows: IntArray
    axes: list[_Axis] = field(default_factory=list)


class WordSearch:
    """The cheapest rule in words that closes the gaps, as people turned out."""

    def __init__(
        self,
        audited: Audited,
        table: Frame,
        constraints: Sequence[Constraint],
        *,
        effect: FloatArray,
        price: FloatArray,
        prices: FloatArray,
        trade_off: TradeOff | None,
    ) -> None:
        """``table`` holds the inputs that conditions may be on; the rest is as in `FlipSearch`.

        ``prices`` are those of the rule that need not be put in words. With a ``trade_off`` the
        observed cost is known beside the modelled one.
        """
        weight = audited.weight.sum(axis=(0, 2))
        self._total = float(weight.sum())
        self._weight, self._score = weight, audited.answers.score
        way = 1 - 2 * audited.answers.decision
        each = np.stack([one.weights for one in constraints])
        self._start = np.array([one.start for one in constraints])
        self._tolerance = np.array([one.tolerance for one in constraints])
        self._observed = np.einsum("ksy,sry->kr", each, audited.weight) * way
        self._prices = prices / self._total
        turnable = np.isfinite(price)
        cost = np.where(turnable, price, 0.0) * weight / self._total
        if trade_off is not None:
            base_worth = audited.weight.sum(axis=0) @ (trade_off.cut - np.array([0.0, 1.0]))
            cost = (1 - OBSERVED) * cost + OBSERVED * base_worth * way / self._total
        self._cost = cost
        self._gain = (1 - OBSERVED) * effect * weight * way + OBSERVED * self._observed
        self._sides = []
        for decision in (0.0, 1.0):
            rows = np.flatnonzero(turnable & (audited.answers.decision == decision))
            if len(rows) > 0:
                score = None if self._score is None else self._score[rows]
                axes = _axes(table.take(rows), score, weight[rows])
                self._sides.append(_Side(decision, rows, axes))

    def best(self) -> tuple[WordedRule, ...]:
        """The rules of the list, those that turn most people first."""
        lists: list[list[_Variant]] = [[]]
        for scale in _SCALES:
            worth = scale * self._prices @ self._gain - self._cost
            rules = list(self._rules(worth))
            if rules:
                lists.append(self._closed(rules, worth))
        figures = [self._figures(one) for one in lists]
        losses = [cost + self._urgency * beyond for cost, beyond in figures]
        most = (1 + _FOR_CLOSING) * max(0.0, min(losses))
        open_ = [beyond > 0 or cost > most for cost, beyond in figures]
        place = min(range(len(lists)), key=lambda k: (open_[k], losses[k]))
        chosen = sorted(lists[place], key=lambda one: -self._weight[one.rows].sum())
        return tuple(WordedRule(one.conditions or (), 1 - one.decision) for one in chosen)

    def _figures(self, chosen: Sequence[_Variant]) -> tuple[float, float]:
        """What the rules cost, and what they leave of the gaps beyond the tolerance."""
        turned = np.zeros(len(self._weight), bool)
        for one in chosen:
            turned[one.rows] = True
        left = np.abs(self._start + self._observed[:, turned].sum(axis=1))
        beyond = np.maximum(0.0, left - self._tolerance)
        return float(self._cost[turned].sum()), float(beyond.sum())

    @cached_property
    def _urgency(self) -> float:
        return _URGENT * max(float(np.abs(self._prices).max()), 1e-6)

    def _rules(self, worth: FloatArray) -> Iterator[tuple[_Side, _Conjunction]]:
        """One conjunction after the other, each among the rows that earlier ones leave."""
        free = {side.decision: worth[side.rows] for side in self._sides}
        next_of: dict[float, _Conjunction] = {}
        total = 0.0
        for _ in range(MOST_RULES if self._sides else 0):
            for side in self._sides:
                if side.decision not in next_of:
                    next_of[side.decision] = _sought(side, free[side.decision])
            side = max(self._sides, key=lambda one: next_of[one.decision].value)
            one = next_of.pop(side.decision)
            met = one.matches(side.axes) & (free[side.decision] != 0)
            people = self._weight[side.rows[met]].sum()
            if one.value <= max(1e-12, _LEAST_GAIN * total) or people < _FEWEST * self._total:
                return
            total += one.value
            free[side.decision] = np.where(met, 0.0, free[side.decision])
            yield side, one

    # ---------------------------------------------------------------- closing the gaps

    def _closed(
        self, rules: Sequence[tuple[_Side, _Conjunction]], worth: FloatArray
    ) -> list[_Variant]:
        """One variant of each rule, so that least is left of the gaps, and most is worth most."""
        variants = [
            one
            for place, (side, rule) in enumerate(rules)
            for one in self._variants(place, side, rule, worth, _CUTS // len(rules))
        ]
        covers = np.zeros((len(self._weight), len(variants)), bool)
        for k, one in enumerate(variants):
            covers[one.rows, k] = True
        packed = np.ascontiguousarray(np.packbits(covers, axis=1))
        as_one = packed.view(np.dtype((np.void, packed.shape[1]))).ravel()
        _, first, inverse = np.unique(as_one, return_index=True, return_inverse=True)
        kinds = covers[first]
        figures = [np.bincount(inverse, one, len(kinds)) for one in (*self._observed, worth)]
        choice = _Choice(
            kinds.astype(np.float64),
            np.array([one.rule for one in variants]),
            np.stack(figures).astype(np.float64),
            self._start,
            self._tolerance,
            self._urgency,
        )
        picked = choice.best()
        return [variants[k] for k in picked if variants[k].conditions is not None]

    def _variants(
        self, place: int, side: _Side, rule: _Conjunction, worth: FloatArray, most: int
    ) -> list[_Variant]:
        """The rule as found, with one end moved, and left out."""
        rows = side.rows[rule.matches(side.axes)]
        parts = sorted(rule.parts, key=lambda part: part[0])
        conditions = tuple(side.axes[at].condition(kept) for at, kept in parts)
        nobody = _Variant(place, None, rows[:0], side.decision)
        whole = _Variant(place, conditions, rows, side.decision)
        scored = self._score is not None
        more = self._cut(whole, most) if scored else self._narrowed(whole, side, rule, worth)[:most]
        fewest = _FEWEST * self._total
        return [nobody, whole, *(one for one in more if self._weight[one.rows].sum() >= fewest)]

    def _cut(self, whole: _Variant, most: int) -> list[_Variant]:
        """Only those nearest to the model's cut."""
        assert self._score is not None
        scores = self._score[whole.rows]
        values = np.unique(scores)
        values = values[np.diff(values, prepend=-np.inf) > SAME_ANSWER]
        names = [one.name for one in whole.conditions or () if one.of_score]
        called = names[0] if names else self._called
        variants = []
        for place in np.unique(np.linspace(1, len(values) - 1, most).round().astype(int)):
            if not 0 < place < len(values):
                continue
            end = cut_between(scores[scores < values[place]].max(), values[place], strict=True)
            above = whole.decision == 0
            kept = whole.rows[(scores > end) == above]
            low, high = (end, None) if above else (None, end)
            cut = Condition(called, low, high, of_score=True)
            conditions = _joined(whole.conditions or (), cut)
            variants.append(replace(whole, conditions=conditions, rows=kept))
        return variants

    @cached_property
    def _called(self) -> Any:
        axes = [axis for side in self._sides for axis in side.axes if axis.of_score]
        return axes[0].name if axes else "score"

    def _narrowed(
        self, whole: _Variant, side: _Side, rule: _Conjunction, worth: FloatArray
    ) -> list[_Variant]:
        """With one more condition, where there is no score to cut by."""
        if len(rule.parts) >= MOST_CONDITIONS:
            return []
        used = {place for place, _ in rule.parts}
        met, narrowed = rule.matches(side.axes), []
        for place, axis in enumerate(side.axes):
            for kept in _single(axis) if place not in used else ():
                rows = side.rows[met & kept[axis.codes]]
                if 0 < len(rows) < len(whole.rows):
                    conditions = (*(whole.conditions or ()), axis.condition(kept))
                    narrowed.append(replace(whole, conditions=conditions, rows=rows))
        return sorted(narrowed, key=lambda one: -round(float(worth[one.rows].sum()), 12))


def _sought(side: _Side, worth: FloatArray) -> _Conjunction:
    """The best conjunction, sought among some of the rows where there are very many."""
    if len(worth) <= _ROWS:
        return _Beam(side.axes, worth).best()
    some = np.sort(np.random.default_rng(0).choice(len(worth), _ROWS, replace=False))
    scale = len(worth) / _ROWS
    return _Beam([axis.take(some) for axis in side.axes], scale * worth[some]).best()


def _joined(conditions: Sequence[Condition], cut: Condition) -> tuple[Condition, ...]:
    """Conditions with another one on the score, which may have one already."""
    others = tuple(one for one in conditions if not one.of_score)
    for one in conditions:
        if one.of_score:
            low = cut.low if cut.low is not None else one.low
            high = cut.high if cut.high is not None else one.high
            cut = replace(cut, low=low, high=high)
    return (*others, cut)


def _single(axis: _Axis) -> Iterator[BoolArray]:
    """The simplest conditions on an axis: from or up to a bin; one value, or any other."""
    bins = np.arange(axis.size)
    if axis.values:
        for place in range(len(axis.values)):
            yield bins == place
            yield bins != place
        return
    for place in range(1, len(axis.ends)):
        yield bins < place
        yield (bins >= place) & (bins < len(axis.ends))


@dataclass(frozen=True, eq=False)
class _Choice:
    """Which variant of each rule to use, so that the gaps are within tolerance at most worth.

    A row is turned if a chosen variant of any rule turns it. Two rules at a time get the best
    pair of their variants, until no pair is better. That needs no program over whole numbers, and
    among hundreds of pairs there is nearly always one that closes a gap.
    """

    covers: FloatArray
    """Whether each kind of row (one that the same variants turn) is turned by each variant."""
    rule_of: IntArray
    figures: FloatArray
    """Of each kind of row: what turning it does to each gap, and last what it is worth."""
    start: FloatArray
    tolerance: FloatArray
    urgency: float

    def best(self) -> list[int]:
        """A variant for each rule; the second of each is the rule as found."""
        rules = range(int(self.rule_of.max()) + 1)
        of_rule = [np.flatnonzero(self.rule_of == rule) for rule in rules]
        chosen = [int(own[1]) for own in of_rule]
        least = np.inf
        pairs = [*combinations(rules, 2)] or [(0, 0)]
        for _ in range(_SWEEPS):
            before = least
            for one, other in pairs:
                loss = self._losses(chosen, (one, other), of_rule[one], of_rule[other])
                place = np.unravel_index(int(np.argmin(loss)), loss.shape)
                if loss[place] < least - 1e-12:
                    least = float(loss[place])
                    chosen[one] = int(of_rule[one][place[0]])
                    chosen[other] = int(of_rule[other][place[1]])
            if least >= before:
                break
        return chosen

    def _losses(
        self, chosen: Sequence[int], pair: tuple[int, int], one: IntArray, other: IntArray
    ) -> FloatArray:
        """For each variant of one rule and each of another, the other rules as they are."""
        kept = [variant for rule, variant in enumerate(chosen) if rule not in pair]
        left = 1 - self.covers[:, kept].max(axis=1, initial=0.0)
        by_one = (1 - self.covers[:, one]).T
        by_other = (1 - self.covers[:, other]) * left[:, None]
        if pair[0] == pair[1]:
            by_other = left[:, None]
        totals = [
            figure.sum() - (by_one * figure) @ by_other  # less those that neither turns
            for figure in self.figures
        ]
        gaps = np.abs(np.stack(totals[:-1]) + self.start[:, None, None])
        beyond = np.maximum(0.0, gaps - 0.999 * self.tolerance[:, None, None])
        return np.asarray(self.urgency * beyond.sum(axis=0) - totals[-1], np.float64)
