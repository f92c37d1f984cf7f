"""How far any rule on these inputs could go: a gap below which no alternative of this kind gets.

The best rule d*, whichever it is, is one fixed rule. On a sample its gap and its performance are
off by their sampling errors alone. So it is among the rules that on this sample lose no more than
the margin plus such an error, and the least gap of these, less another such error, is below the
gap of d*: a linear program over the distinct rows gives a lower limit without any model. Where
nearly every row is of its own, that program would decide about every person singly and exclude
nothing. A second bound is for rules on what a row tells of outcome and group, by the models of the
blind repair: if these tell all there is, the best rule is one of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairmend.data.columns import FloatArray, IntArray
from fairmend.data.rows import stacked
from fairmend.measure.disparity import RateGap, parts_of
from fairmend.measure.intervals import normal_quantile
from fairmend.measure.performance import Performance
from fairmend.repair.blind.rule import BlindRule
from fairmend.search.judge import Pair
from fairmend.search.people import Part

PEOPLE_A_ROW = 5
"""With fewer people a row on average, rows are reduced to what they tell."""
BINS = 20
_HALVINGS = 200


@dataclass(frozen=True)
class Bound:
    """No rule of a kind has a gap below this at a measure within the margin."""

    metric: str
    confidence: float
    any_rule: float | None
    """For any rule on these inputs, whatever it is; None where nearly every row is of its own."""
    modelled: float | None
    """For any rule on what the inputs tell of outcome and group, by the models fitted here."""
    least: float
    """The least gap of such a rule on these very people."""

    @property
    def gap(self) -> float:
        """The bound that needs no model where there is one; 0: nothing can be excluded."""
        return self.any_rule if self.any_rule is not None else self.modelled or 0.0

    def __str__(self) -> str:
        sure = f"at {100 * self.confidence:g} % confidence"
        told = []
        kinds = (
            (self.any_rule, "any rule on these inputs"),
            (self.modelled, "any rule on what the inputs tell of outcome and group, by the models "
             "fitted here"),
        )  # fmt: skip
        for gap, kind in kinds:
            if gap is None:
                continue
            if gap <= 0:
                told.append(f"For {kind}, nothing can be excluded: it might close the gap.")
            else:
                told.append(
                    f"For {kind}: no alternative has a gap in {self.metric} below "
                    f"{100 * gap:.1f} points at a measure within the margin, {sure}."
                )
        if self.any_rule is None:
            told.append(
                "Nearly every row is of its own, so that rules of any kind are not bounded."
            )
        return " ".join([*told, "Models trained anew are not of these kinds."])


def find_bound(
    parts: Sequence[Part],
    pairs: Sequence[Pair],
    measures: Sequence[Performance],
    *,
    margin: float,
    rule: BlindRule | None,
    confidence: float = 0.95,
) -> Bound | str:
    """The bound from all people, or in a sentence why there is none.

    ``measures`` are those of the parts: a column of profit has one entry a person.
    """
    gains = [one.gains(part.outcomes) for one, part in zip(measures, parts, strict=True)]
    known = [each for each in gains if each is not None]
    if len(known) < len(gains):
        return f"There is no bound for {measures[0].name}: it is no mean over people."
    for pair in pairs:
        for _, rate in parts_of(pair.disparity):
            if not isinstance(rate, RateGap) or _over_decisions(rate):
                return (f"There is no bound for {pair.disparity.name}: decisions change whom it is "
                        "over.")  # fmt: skip
    people = _People.pooled(parts, known)
    relative = measures[0].relative
    z = normal_quantile(confidence, len(pairs))  # half of the risk for each of two errors
    found: list[list[tuple[float, float]] | None] = [
        None
        if cells is None
        else [
            _of_pair(people, pair, cells, margin=margin, relative=relative, z=z) for pair in pairs
        ]
        for cells in (_rows(parts), _reduced(parts, rule))
    ]
    shown = next((each for each in found if each is not None), None)
    if shown is None:
        return "There is no bound: nearly every row is of its own, and there is no blind repair."
    widest = max(range(len(pairs)), key=lambda k: shown[k][0])
    any_rule, modelled = (None if one is None else max(gap for gap, _ in one) for one in found)
    return Bound(pairs[widest].disparity.name, confidence, any_rule, modelled, shown[widest][1])


@dataclass(frozen=True, eq=False)
class _People:
    """Everybody, one entry a person."""

    group: IntArray
    groups: tuple[object, ...]
    outcome: FloatArray
    weight: FloatArray
    decision: FloatArray
    step: FloatArray
    """What a positive decision adds to the measure, beside a negative one."""
    base: FloatArray
    """What each person adds if decided 0."""

    @classmethod
    def pooled(cls, parts: Sequence[Part], gains: Sequence[FloatArray]) -> _People:
        joined = [np.concatenate(each) for each in zip(*(
            (part.group, part.outcomes.outcome, part.outcomes.weight, part.current.decision,
             each[:, 1] - each[:, 0], each[:, 0])
            for part, each in zip(parts, gains, strict=True)
        ), strict=True)]  # fmt: skip
        return cls(joined[0], parts[0].data.groups, *joined[1:])


def _of_pair(
    people: _People, pair: Pair, cells: IntArray, *, margin: float, relative: bool, z: float
) -> tuple[float, float]:
    """The bound for one gap, and the least gap on these people."""
    share = people.weight / people.weight.sum()
    effect, start = _effects(people, pair)
    by_cell = _Program(_summed(cells, effect), _summed(cells, share * people.step), start)
    now = float(share @ (people.step * people.decision))
    if relative:
        margin *= abs(now + float(share @ people.base))
    best = by_cell.least(now - margin)
    error = _error(share * people.step * (best[cells] - people.decision))
    worse = by_cell.least(now - margin - z * error)
    off = max(_gap_error(people, pair, decided) for decided in (best[cells], people.decision))
    return max(0.0, by_cell.gap(worse) - z * off), max(0.0, by_cell.gap(best))


def _summed(cells: IntArray, each: FloatArray) -> FloatArray:
    return np.bincount(cells, each).astype(np.float64)


def _error(each: FloatArray) -> float:
    return float(np.sqrt(each @ each))


def _effects(people: _People, pair: Pair) -> tuple[FloatArray, float]:
    """What a positive decision about each person does to the gap, and the gap if all are 0."""
    effect, start = np.zeros(len(people.group)), 0.0
    for factor, rate, sign, members, over in _sides(people, pair):
        y = people.outcome[members]
        none, one = (rate.rate(np.full(len(y), h), y) for h in (0.0, 1.0))
        effect[members] += sign * factor * people.weight[members] * (one - none) / over
        start += sign * factor * float(people.weight[members] @ none) / over
    return effect, start


def _gap_error(people: _People, pair: Pair, decision: FloatArray) -> float:
    each = np.zeros(len(people.group))
    for factor, rate, sign, members, over in _sides(people, pair):
        y, weight = people.outcome[members], people.weight[members]
        r, t = rate.rate(decision[members], y), rate.given(decision[members], y) * np.ones(len(y))
        value = float(weight @ r) / over
        each[members] += sign * factor * weight * (r - value * t) / over
    return _error(each)


def _sides(
    people: _People, pair: Pair
) -> Iterator[tuple[float, RateGap, float, NDArray[np.bool_], float]]:
    """Each rate of a gap in each of its two groups, with the weight it is over."""
    target = people.group == people.groups.index(pair.target)
    other = ~target
    if pair.baseline != "rest":
        other = people.group == people.groups.index(pair.baseline)
    for factor, rate in parts_of(pair.disparity):
        assert isinstance(rate, RateGap)
        for sign, members in ((1.0, target), (-1.0, other)):
            y = people.outcome[members]
            given = rate.given(np.zeros(len(y)), y) * np.ones(len(y))
            yield factor, rate, sign, members, float(people.weight[members] @ given)


def _over_decisions(rate: RateGap) -> bool:
    y = np.array([0.0, 1.0])
    none, one = (rate.given(np.full(2, h), y) * np.ones(2) for h in (0.0, 1.0))
    return not np.array_equal(none, one)


@dataclass(frozen=True, eq=False)
class _Program:
    """The least gap of decisions by cell whose measure is at least so much: one price solves it.

    >>> program = _Program(np.array([-0.5, -0.3, 0.4]), np.array([-0.2, -0.1, 0.3]), 0.4)
    >>> decided = program.least(0.2)
    >>> decided.round(6).tolist(), round(program.gap(decided), 6)
    ([0.0, 1.0, 1.0], 0.5)
    """

    effect: FloatArray
    worth: FloatArray
    start: float

    def gap(self, decided: FloatArray) -> float:
        return self.start + float(self.effect @ decided)

    def least(self, at_least: float) -> FloatArray:
        """Decisions in [0, 1] by cell; the price of the measure is found by halving."""
        free = self._at(0.0)
        if self.worth @ free >= at_least:
            return free
        low, high = 0.0, 1.0
        while self.worth @ self._at(high) < at_least and high < 1e12:
            low, high = high, 2 * high
        for _ in range(_HALVINGS):
            price = (low + high) / 2
            if self.worth @ self._at(price) >= at_least:
                high = price
            else:
                low = price
        short, enough = self._at(low), self._at(high)
        have, more = float(self.worth @ short), float(self.worth @ enough)
        mix = 1.0 if more <= have else min(1.0, (at_least - have) / (more - have))
        return np.asarray((1 - mix) * short + mix * enough)

    def _at(self, price: float) -> FloatArray:
        return (self.effect - price * self.worth < 0).astype(np.float64)


def _rows(parts: Sequence[Part]) -> IntArray | None:
    """Each person's distinct row, over all parts; None where most have one of their own."""
    inverse = stacked([part.table for part in parts]).distinct().inverse
    ends = np.cumsum([len(part.table) for part in parts])[:-1]
    rows = [each[part.row] for each, part in zip(np.split(inverse, ends), parts, strict=True)]
    row = np.concatenate(rows)
    return row if len(row) >= PEOPLE_A_ROW * (int(row.max()) + 1) else None


def _reduced(parts: Sequence[Part], rule: BlindRule | None) -> IntArray | None:
    """Each person's cell of outcome, effect on the gaps and decision, as the models tell them."""
    if rule is None:
        return None
    keys = []
    for part in parts:
        told = rule.told(part.table)
        outcome = rule.outcome.of(told, part.answers)
        effect = np.sum([one.effect(told, outcome) for one in rule.shares], axis=0)
        keys.append(np.stack([outcome, *effect, part.answers.decision])[:, part.row])
    *columns, decision = np.concatenate(keys, axis=1)
    steps = np.linspace(0, 1, BINS + 1)[1:-1]
    bins = [np.searchsorted(np.quantile(each, steps), each) for each in columns]
    _, cell = np.unique(np.stack([*bins, decision]), axis=1, return_inverse=True)
    return np.asarray(cell).ravel()
