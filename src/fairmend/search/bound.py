"""How far any rule on these inputs could go: a gap below which no alternative of this kind gets.

The best rule d*, whichever it is, is one fixed rule. On a sample its gap and its performance are
off by their sampling errors alone. So it is among the rules that on this sample lose no more than
the margin plus z errors, and the least gap of these, less z errors, is below the gap of d*. With
V(d) = sum (share x step)^2 |d - now|, which is linear in d, the error of its performance is

    sqrt(V(d)) <= (V(d) / t + t) / 2    for every t > 0,

so that for every t a linear program over the distinct rows gives a lower limit, whichever rule is
the best; the largest counts. Where most people have a row of their own, such a program decides
about every person singly and excludes nothing. A second bound is for rules on what a row tells of
outcome and group, by the models of the blind repair, in steps: the models and the steps are of the
people who choose, and the rules are counted on the people who judge.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fairmend.data.columns import BoolArray, FloatArray, IntArray
from fairmend.data.rows import stacked
from fairmend.measure.disparity import RateGap, parts_of, title_of
from fairmend.measure.intervals import normal_quantile
from fairmend.measure.performance import Outcomes, Performance
from fairmend.repair.blind.rule import BlindRule
from fairmend.search.judge import Pair
from fairmend.search.people import Part

CONFIDENCE = 0.95
PEOPLE_A_ROW = 5
"""With fewer people a row on average, rows are reduced to what they tell."""
MOST_STEPS = 20
PEOPLE_A_CELL = 10
"""Of so many people who judge on average, or more, are the cells of a reduced row."""
_HALVINGS = 200
_TANGENTS = 12
"""Values of t that are tried, each the error of the rule before it."""


@dataclass(frozen=True)
class Bound:
    """No rule of a kind has a gap below this at a measure within the margin."""

    metric: str
    confidence: float
    any_rule: float | None
    """For any rule on these inputs; None where most people have a row of their own."""
    modelled: float | None
    """For any rule on the probabilities of outcome and group, as the models fitted here give them,
    in steps of equally many people."""
    least: float
    """The least gap of such a rule on these very people."""
    steps: int = MOST_STEPS
    """Of each thing that the inputs tell, for the modelled bound."""

    @property
    def gap(self) -> float:
        """The bound that needs no model where there is one; 0: nothing can be excluded."""
        return self.any_rule if self.any_rule is not None else self.modelled or 0.0

    def __str__(self) -> str:
        sure = f"at {100 * self.confidence:g} % confidence"
        sentences = []
        kinds = (
            (self.any_rule, "all rules on these inputs"),
            (self.modelled, "rules on the probabilities of outcome and group, as the models fitted "
             f"here give them, in {self.steps} steps"),
        )  # fmt: skip
        for gap, kind in kinds:
            if gap is None:
                continue
            if gap <= 0:
                sentences.append(f"For {kind}, nothing can be excluded: one may close the gap.")
            else:
                sentences.append(
                    f"For {kind}: none has a gap in {title_of(self.metric)} below "
                    f"{100 * gap:.1f} points at a measure within the margin, {sure}."
                )
        if self.any_rule is None:
            sentences.append(
                "Most people have a row of their own, so that not every rule is bounded."
            )
        return " ".join([*sentences, "Retrained models are not of these kinds."])


def find_bound(
    parts: Sequence[Part],
    pairs: Sequence[Pair],
    measures: Sequence[Performance],
    *,
    margin: float,
    rule: BlindRule | None,
    reference: Hashable,
) -> Bound | str:
    """The bound from the people who choose and judge, or in a sentence why there is none.

    ``measures`` are those of the parts: a column of profit has one entry a person. The pairs were
    chosen on the people who choose: where these count, all that could have been chosen do.
    """
    gains = [one.gains(part.outcomes) for one, part in zip(measures, parts, strict=True)]
    bounded = [each for each in gains if each is not None]
    if len(bounded) < len(gains):
        return f"There is no bound for {measures[0].name}: it is no mean over people."
    for pair in pairs:
        for _, rate in parts_of(pair.disparity):
            if not isinstance(rate, RateGap) or _over_decisions(rate):
                return (f"There is no bound for {pair.disparity.name}: its rate is over people "
                        "whom the decisions choose.")  # fmt: skip
    groups = len(parts[0].data.groups)
    metrics = len({pair.disparity.name for pair in pairs})
    every = metrics * (groups - 1) * (groups if reference == "best" else 1)
    reduced, steps = _reduced(parts, rule)
    kinds = (
        (_rows(parts), _People.pooled(parts, bounded), every),
        (reduced, _People.pooled(parts[1:], bounded[1:]), len(pairs)),
    )
    limits: list[list[tuple[float, float]] | None] = []
    for cells, people, comparisons in kinds:
        z = [normal_quantile(CONFIDENCE, one) for one in (1, comparisons)]  # half the risk each
        limits.append(None if cells is None else [
            _of_pair(people, pair, cells, margin=margin, relative=measures[0].relative, z=z)
            for pair in pairs
        ])  # fmt: skip
    shown = next((each for each in limits if each is not None), None)
    if shown is None:
        return ("There is no bound: most people have a row of their own, and there is no blind "
                "repair.")  # fmt: skip
    widest = max(range(len(pairs)), key=lambda k: shown[k][0])
    any_rule, modelled = (None if one is None else max(gap for gap, _ in one) for one in limits)
    return Bound(
        pairs[widest].disparity.name, CONFIDENCE, any_rule, modelled, shown[widest][1], steps
    )


@dataclass(frozen=True, eq=False)
class _People:
    """People with what their decisions add, one entry a row of the data."""

    group: IntArray
    groups: tuple[object, ...]
    outcomes: Outcomes
    decision: FloatArray
    step: FloatArray
    """What a positive decision adds to the measure, beside a negative one."""
    base: FloatArray
    """What each person adds if decided 0."""
    rows: FloatArray
    """How many rows the person has: squares of sums are at most so many times sums of squares."""

    @classmethod
    def pooled(cls, parts: Sequence[Part], gains: Sequence[FloatArray]) -> _People:
        joined = [np.concatenate(each) for each in zip(*(
            (part.group, part.outcomes.outcome, part.outcomes.weight, part.current.decision,
             each[:, 1] - each[:, 0], each[:, 0], part.outcomes.rows_of_person)
            for part, each in zip(parts, gains, strict=True)
        ), strict=True)]  # fmt: skip
        group, outcome, weight, *others = joined
        return cls(group, parts[0].data.groups, Outcomes(outcome, weight), *others)


def _of_pair(
    people: _People,
    pair: Pair,
    cells: IntArray,
    *,
    margin: float,
    relative: bool,
    z: Sequence[float],
) -> tuple[float, float]:
    """The bound for one gap, and the least gap on these people."""
    share, now = people.outcomes.share, people.decision
    effect, start = _effects(people, pair)
    worth = share * people.step
    if relative:
        each = people.base + people.step * now
        value = float(share @ each)
        error = np.sqrt(people.rows @ (share * (each - value)) ** 2)
        margin *= abs(value) + z[0] * float(error)

    def least(slack: float, spread: FloatArray) -> tuple[FloatArray, float]:
        """Decisions whose measure, plus ``spread`` where they differ from now, is high enough."""
        more = worth + spread * (1 - 2 * now)
        program = _Program(_summed(cells, effect), _summed(cells, more), start)
        decided = program.least(float(worth @ now) - margin - slack - float(spread @ now))
        return decided, program.gap(decided)

    squares = people.rows * worth**2
    _, best = least(0.0, np.zeros_like(worth))
    limit, t = -np.inf, float(np.sqrt(squares.sum()))
    for _ in range(_TANGENTS):
        decided, gap = least(z[0] * t / 2, z[0] * squares / (2 * t))
        limit = max(limit, gap)
        t = max(float(np.sqrt(squares @ np.abs(decided[cells] - now))), 1e-9 * t)
    return max(0.0, limit - z[1] * _gap_error(people, pair)), max(0.0, best)


def _summed(cells: IntArray, each: FloatArray) -> FloatArray:
    return np.bincount(cells, each).astype(np.float64)


def _effects(people: _People, pair: Pair) -> tuple[FloatArray, float]:
    """What a positive decision about each person does to the gap, and the gap if all are 0."""
    effect, start = np.zeros(len(people.group)), 0.0
    for factor, rate, members, share in _sides(people, pair):
        y = people.outcomes.outcome[members]
        none, one = (rate.rate(np.full(len(y), h), y) for h in (0.0, 1.0))
        effect[members] += factor * share * (one - none)
        start += factor * float(share @ none)
    return effect, start


def _gap_error(people: _People, pair: Pair) -> float:
    """The standard error of a gap, at most: no rate varies more than that of one half."""
    squares: dict[str, float] = {}
    for factor, rate, members, share in _sides(people, pair):
        own = factor**2 * float(people.rows[members] @ share**2) / 4
        squares[rate.name] = squares.get(rate.name, 0.0) + own
    return float(np.sum(np.sqrt(list(squares.values()))))


def _sides(people: _People, pair: Pair) -> Iterator[tuple[float, RateGap, BoolArray, FloatArray]]:
    """Each rate of a gap in each of its groups: its factor, and each member's share of it."""
    target = people.group == people.groups.index(pair.target)
    other = ~target
    if pair.baseline != "rest":
        other = people.group == people.groups.index(pair.baseline)
    for factor, rate in parts_of(pair.disparity):
        assert isinstance(rate, RateGap)
        for sign, members in ((1.0, target), (-1.0, other)):
            y, weight = people.outcomes.outcome[members], people.outcomes.weight[members]
            given = weight * rate.given(np.zeros(len(y)), y)
            yield sign * factor, rate, members, given / given.sum()


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


def _reduced(parts: Sequence[Part], rule: BlindRule | None) -> tuple[IntArray | None, int]:
    """The cell of outcome, effect on the gaps and decision of each person who judges, as modelled.

    And in how many steps: each holds equally many of the people who choose.
    """
    if rule is None:
        return None, MOST_STEPS
    keys = []
    for part in parts:
        inputs = rule.visible(part.table)
        outcome = rule.outcome.of(inputs, part.answers)
        effect = np.sum([one.effect(inputs, outcome) for one in rule.shares], axis=0)
        keys.append(np.stack([outcome, *effect, part.answers.decision])[:, part.row])
    cells = len(parts[1]) / PEOPLE_A_CELL / 2  # of either decision
    count = int(np.clip(cells ** (1 / (len(keys[0]) - 1)), 2, MOST_STEPS))
    ends = np.linspace(0, 1, count + 1)[1:-1]
    places = [np.searchsorted(np.quantile(before, ends), after)
              for before, after in zip(keys[0][:-1], keys[1][:-1], strict=True)]  # fmt: skip
    _, cell = np.unique(np.stack([*places, keys[1][-1]]), axis=1, return_inverse=True)
    return np.asarray(cell).ravel(), count
