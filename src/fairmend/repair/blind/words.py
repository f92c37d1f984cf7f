"""A blind rule in words: a short list of conditions on named inputs and the score.

The list is the rule, not a description of another one: `WordRule.turns` evaluates what
`WordRule.lines` prints.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from fairmend.data.columns import BoolArray, Frame, as_numbers, lookup_key
from fairmend.data.limits import LARGE, Figure, Finite, Label, Side, Value
from fairmend.data.stored import stored
from fairmend.model.answers import Answers

__all__ = ["MOST_CONDITIONS", "MOST_RULES", "Condition", "WordRule", "WordedRule"]

MOST_RULES = 8
MOST_CONDITIONS = 4
Mask = BoolArray


def _at_most(size: int) -> Callable[[Any], bool]:
    return lambda entries: len(entries) <= size


@stored("Condition")
@dataclass(frozen=True)
class Condition:
    """A condition on one input, or on the model's score.

    >>> str(Condition("age", low=37.0)), str(Condition("Married", high=0.0, flag=True))
    ('age above 37', 'not Married')
    >>> str(Condition("score", low=0.38, high=0.5, of_score=True))
    'score 0.38 to 0.5'
    >>> str(Condition("job", values=("a", "b"), negated=True))
    'job is none of a, b'
    """

    name: Value
    low: Finite | None = None
    """The number is above this."""
    high: Finite | None = None
    """The number is at most this."""
    values: tuple[Value, ...] = ()
    """The category is one of these."""
    negated: bool = False
    """Whether it is none of ``values`` instead."""
    flag: bool = False
    """Whether the input is 0 or 1, so that its name says it."""
    of_score: bool = False

    def agrees(self) -> bool:
        bounds = [bound for bound in (self.low, self.high) if bound is not None]
        if self.values:
            return not (bounds or self.flag or self.of_score)
        ordered = len(bounds) < 2 or bounds[0] < bounds[1]
        return ordered and bool(bounds) and not self.negated and not (self.flag and self.of_score)

    def holds(self, rows: Frame, answers: Answers) -> Mask:
        """Where it is met; where a number is missing, or no number, it is not."""
        if self.of_score:
            if answers.score is None:
                return np.zeros(len(rows), bool)
            return self._within(answers.score)
        column = rows.encoded[rows.names.index(self.name)]
        if self.values:
            listed = [lookup_key(value) in self.values for value in column.values]
            met = np.array(listed, bool) != self.negated
        else:
            numbers = as_numbers(column.values)
            met = self._within(np.full(len(column.values), np.nan) if numbers is None else numbers)
        return np.asarray(met[column.codes], bool)

    def _within(self, numbers: Any) -> Mask:
        """What is no finite number, or one beyond all limits, meets nothing."""
        met = np.abs(numbers) <= LARGE
        if self.low is not None:
            met &= numbers > self.low
        if self.high is not None:
            met &= numbers <= self.high
        return np.asarray(met, bool)

    def __str__(self) -> str:
        if self.values:
            names = ", ".join("missing" if one is None else str(one) for one in self.values)
            if len(self.values) == 1:
                return f"{self.name} is {'not ' if self.negated else ''}{names}"
            return f"{self.name} is {'none' if self.negated else 'one'} of {names}"
        if self.flag:
            return f"{self.name}" if self.high is None else f"not {self.name}"
        low, high = (None if bound is None else f"{bound:.15g}" for bound in (self.low, self.high))
        if low is None or high is None:
            return f"{self.name} at most {high}" if low is None else f"{self.name} above {low}"
        if self.of_score:
            return f"{self.name} {low} to {high}"
        return f"{self.name} above {low} and at most {high}"


@stored("WordedRule")
@dataclass(frozen=True)
class WordedRule:
    """Who has the other decision and meets all conditions is given this one."""

    conditions: Annotated[tuple[Condition, ...], _at_most(MOST_CONDITIONS)]
    decision: Side

    def matches(self, rows: Frame, answers: Answers) -> Mask:
        """Whose decision it turns."""
        met = np.asarray(answers.decision == 1 - self.decision, bool)
        for condition in self.conditions:
            met &= condition.holds(rows, answers)
        return met


@stored("WordRule")
@dataclass(frozen=True)
class WordRule:
    """A decision is turned where one of the rules says so; otherwise the model's stands."""

    rules: Annotated[tuple[WordedRule, ...], _at_most(MOST_RULES)]
    labels: tuple[Label, Label]
    """What the two decisions are called, negative and positive."""
    accuracy: tuple[Figure, Figure]
    """On the audit people: of this rule, and of the rule that need not be put in words."""
    worth: tuple[Figure, Figure]
    """The same with wrong decisions weighed by the trade-off; see `TradeOff.worth`."""

    @property
    def inputs(self) -> frozenset[Any]:
        """The names of the inputs that the conditions are on."""
        every = (condition for rule in self.rules for condition in rule.conditions)
        return frozenset(condition.name for condition in every if not condition.of_score)

    def turns(self, rows: Frame, answers: Answers) -> Mask:
        """Whose decision is turned."""
        turned = np.zeros(len(rows), bool)
        for rule in self.rules:
            turned |= rule.matches(rows, answers)
        return turned

    @property
    def lines(self) -> tuple[str, ...]:
        """The rule, one line each, and what its legibility costs."""
        if not self.rules:
            return ("the rule in words: every decision of the model stands",)
        lines = ["the rule in words; every other decision of the model stands:"]
        for place, rule in enumerate(self.rules, 1):
            conditions = ", ".join(map(str, rule.conditions)) or "everybody"
            new, old = self.labels[int(rule.decision)], self.labels[1 - int(rule.decision)]
            lines.append(f"  {place}. {conditions}: decide {new} instead of {old}")
        return (*lines, *self._legibility())

    def _legibility(self) -> tuple[str, ...]:
        if np.isnan(self.accuracy[0]):
            return ()
        parts = [f"accuracy {_compared(self.accuracy)}"]
        if abs(self.worth[0] - self.accuracy[0]) > 0.01:
            parts.append(f"worth, with the two errors weighed, {_compared(self.worth)}")
        return (f"what words cost, on the audit people: {'; '.join(parts)}",)


def _compared(figures: tuple[float, float]) -> str:
    """Two figures, and which is how much less.

    >>> _compared((0.772, 0.7761))
    '0.772 in words, 0.776 without (0.4 points less)'
    """
    worded, free = figures
    less = 100 * (free - worded)
    by = f"{abs(less):.1f} points {'less' if less >= 0 else 'more'}"
    return f"{worded:.3f} in words, {free:.3f} without ({by})"
