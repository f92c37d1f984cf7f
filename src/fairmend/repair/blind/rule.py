"""A blind rule: whose decision to turn, by the inputs and the model's answer alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, TypeAlias

import numpy as np

from fairmend.data.columns import BoolArray, FloatArray, Frame
from fairmend.data.limits import (
    LARGE,
    Between,
    Chances,
    Coefficients,
    Finite,
    Positive,
    Side,
    alike,
)
from fairmend.data.stored import stored
from fairmend.errors import listed
from fairmend.explain.crossfit import clipped
from fairmend.explain.logistic import Logistic, LogisticFits
from fairmend.measure import special
from fairmend.measure.population import Tally
from fairmend.model.answers import Answers, find_seen, is_same
from fairmend.model.blackbox import BlackBox
from fairmend.repair.blind.words import WordRule
from fairmend.repair.destinations import Donors, join
from fairmend.repair.plan import Plan, Route
from fairmend.repair.probabilities import RowProbabilities
from fairmend.repair.trade_off import TradeOff

__all__ = ["AnsweredOutcome", "BlindPlan", "BlindRule", "GroupShare", "flip_prices"]

_LEAST = 1e-3
"""The least that turning a decision costs: nobody's is turned for nothing."""
Weights: TypeAlias = Annotated[FloatArray, Between(-LARGE, LARGE)]


# -------------------------------------------------------------------- what is known of a row


@stored("AnsweredOutcome")
@dataclass(frozen=True, eq=False)
class AnsweredOutcome:
    """P(Y=1 | x, the model's answer): what the inputs say, and what the answer adds to it."""

    inputs: RowProbabilities
    weights: Logistic | None
    """Of the inputs' log odds and of the answer; None where outcomes are not known."""
    centre: Finite
    scale: Positive
    probability: bool
    """Whether scores are probabilities, whose log odds are taken."""

    def of(self, rows: Frame, answers: Answers) -> FloatArray:
        """One probability per row."""
        inputs = self.inputs.of(rows)
        if self.weights is None:
            return inputs
        return clipped(self.weights.predict_proba(self._columns(inputs, answers))[:, 1])

    def _columns(self, inputs: FloatArray, answers: Answers) -> FloatArray:
        answer = answers.decision if answers.score is None else answers.score
        if self.probability:
            answer = special.logit(clipped(answer))
        return np.stack([special.logit(inputs), (answer - self.centre) / self.scale], axis=1)

    @classmethod
    def fit(
        cls, inputs: RowProbabilities, rows: Frame, answers: Answers, tally: Tally, box: BlackBox
    ) -> AnsweredOutcome:
        """Weigh the cross-fitted probability and the answer, which the inputs may not explain."""
        probability = answers.score is not None and box.output == "probability"
        plain = cls(inputs, None, 0.0, 1.0, probability)
        columns = plain._columns(inputs.of(rows), answers)
        answer = columns[:, 1]
        centre, scale = float(np.mean(answer)), float(np.std(answer)) or 1.0
        scaled = replace(plain, centre=centre, scale=scale)
        columns[:, 1] = (answer - centre) / scale
        weight = tally.weight * tally.people.sum() / tally.weight.sum()
        by_inputs = Logistic(0.0, np.array([1.0, 0.0]))
        return replace(scaled, weights=LogisticFits(columns).fit(100.0, weight, start=by_inputs))


@stored("GroupShare")
@dataclass(frozen=True, eq=False)
class GroupShare:
    """P(s | x) among people with certain outcomes, and what a flip does through them."""

    outcomes: tuple[int, ...]
    """(0, 1) for everybody."""
    chances: tuple[RowProbabilities, ...]
    """Of each group; of two groups, of the first."""
    weights: Weights
    """What one more positive decision about such a person does to each gap, by gap and group."""

    def agrees(self) -> bool:
        groups = self.weights.shape[1] if self.weights.ndim == 2 else 0
        of_outcomes = self.outcomes in ((0, 1), (0,), (1,))
        return of_outcomes and groups >= 2 and len(self.chances) == (1 if groups == 2 else groups)

    def of(self, rows: Frame) -> FloatArray:
        """P(s | x, outcomes), shape (groups, rows)."""
        each = np.stack([one.of(rows) for one in self.chances])
        if len(each) == 1:
            return np.concatenate([each, 1 - each])
        return np.asarray(each / each.sum(axis=0))

    def effect(self, rows: Frame, outcome: FloatArray) -> FloatArray:
        """By gap and row, given P(Y=1 | x)."""
        chance = outcome if 1 in self.outcomes else 1 - outcome
        if len(self.outcomes) == 2:
            chance = np.ones(len(outcome))
        return np.asarray(self.weights @ self.of(rows) * chance)


# -------------------------------------------------------------------- the rule


@stored("BlindRule")
@dataclass(frozen=True, eq=False)
class BlindRule:
    """Whose decision is turned: a function of inputs and answer alone."""

    outcome: AnsweredOutcome
    shares: tuple[GroupShare, ...]
    prices: Coefficients
    """What closing a unit of each gap is worth."""
    trade_off: TradeOff
    by: str
    """What turning a decision costs: "worth", "flips" or "cost"."""
    donors: tuple[Donors, Donors]
    """Where rows decided 0 go, and where rows decided 1 go."""
    kept_out: tuple[str, ...]
    """Inputs that say which group somebody is of."""
    proxy_auc: Annotated[float, Between(0, 1, nan=True)]
    """How well the inputs tell the first group from the others, cross-fitted."""
    exceptions: Frame | None = None
    """Rows at the margin of the rule that are decided one by one, so that the gaps close; without
    what is kept out."""
    exception_answers: Answers | None = None
    turned: Chances | None = None
    """1 for each exception whose decision is turned, 0 for the others."""
    protected: Side | None = None
    """The decision nobody may lose, 0 or 1; None if either may be turned."""
    words: WordRule | None = None
    """The rule as a list of conditions, which then decides alone."""
    capped: bool = False
    """Whether gaps are left because of what closing all would cost; see `FlipSearch`."""

    def agrees(self) -> bool:
        gaps = {len(one.weights) for one in self.shares}
        return (
            gaps == {len(self.prices)}
            and self.by in ("worth", "flips", "cost")
            and [donors.answers.decision[0] for donors in self.donors] == [1, 0]
            and self._exceptions_agree()
            and (self.words is None or not self.words.inputs & set(self.kept_out))
        )

    def _exceptions_agree(self) -> bool:
        parts = (self.exceptions, self.exception_answers, self.turned)
        if any(part is None for part in parts):
            return all(part is None for part in parts)
        assert self.exception_answers is not None
        return alike(self.exceptions, self.exception_answers.decision, self.turned)

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be known about the rule, in sentences."""
        price = {"flips": "every flip costs the same", "cost": "a flip costs what its edit costs"}
        auc = "not known" if np.isnan(self.proxy_auc) else f"{self.proxy_auc:.2f}"
        notes = [
            "equal inputs get equal decisions, whoever asks: the rule reads no group",
            f"AUC of the inputs for telling the groups: {auc} (0.50: not at all)",
            price.get(self.by, str(self.trade_off)),
        ]
        if self.kept_out:
            notes.append(f"the model reads {listed(self.kept_out)}, which tells the group; the "
                         "rule does not look at it")  # fmt: skip
        if self.capped:
            notes.append("closing every gap would cost too much beside one decision for everybody, "
                         "which leaves no gap either: this rule costs less, and leaves the least "
                         "that was found for that")  # fmt: skip
        return (*notes, *(() if self.words is None else self.words.lines))

    def margin(self, rows: Frame, answers: Answers, cost: FloatArray | None = None) -> FloatArray:
        """By how much the prices outweigh what turning each row's decision costs."""
        outcome = self.outcome.of(self.visible(rows), answers)
        effect = np.sum([one.effect(self.visible(rows), outcome) for one in self.shares], axis=0)
        gain = self.prices @ effect * (1 - 2 * answers.decision)
        price = flip_prices(self.by, self.trade_off, outcome, answers.decision, cost)
        return np.asarray(gain - price, np.float64)

    def turns(self, rows: Frame, answers: Answers, cost: FloatArray | None = None) -> Any:
        """Whose decision is turned."""
        if self.words is not None:
            turned = self.words.turns(rows, answers)
        else:
            turned = self._outweighed(rows, answers, cost)
        if self.protected is not None:
            turned &= answers.decision != self.protected
        return turned

    def _outweighed(self, rows: Frame, answers: Answers, cost: FloatArray | None) -> Any:
        """Where the prices outweigh the cost of turning, but for the exceptions."""
        turned = self.margin(rows, answers, cost) > 0
        if self.exceptions is not None and self.exception_answers is not None:
            assert self.turned is not None
            place = find_seen(self.exceptions, self.exception_answers, self.visible(rows), answers)
            at = np.maximum(place, 0)
            seen = (place >= 0) & is_same(answers, self.exception_answers.take(at))
            turned = np.where(seen, self.turned[at] > 0, turned)
        return turned

    def reached(self, rows: Frame, answers: Answers) -> BoolArray:
        """Which rows an edit gets the other decision for."""
        reached = np.zeros(len(rows), bool)
        for decision, donors in enumerate(self.donors):
            own = np.flatnonzero(answers.decision == decision)
            if len(own) > 0:
                reached[own] = donors.reach(rows.take(own))
        return reached

    def visible(self, rows: Frame) -> Frame:
        """The inputs that the rule may look at."""
        if not self.kept_out:
            return rows
        return rows.select([name for name in rows.names if name not in self.kept_out])


def flip_prices(
    by: str,
    trade_off: TradeOff,
    outcome: FloatArray,
    decision: FloatArray,
    cost: FloatArray | None = None,
) -> FloatArray:
    """What turning each row's decision costs."""
    if by == "cost":
        assert cost is not None
        return np.maximum(_LEAST, cost)
    if by == "flips":
        return np.ones(len(outcome))
    return np.maximum(_LEAST, trade_off.of_turning(outcome, decision))


@stored("BlindPlan")
@dataclass(frozen=True, eq=False)
class BlindPlan(Plan):
    """The rule for everybody, with what it does to one group."""

    rule: BlindRule

    @property
    def reads_group(self) -> bool:
        return False

    def may_take(self, decision: float) -> bool:
        return self.rule.protected != decision

    @property
    def way(self) -> str:
        return "one rule for everybody, without the group"

    @property
    def notes(self) -> tuple[str, ...]:
        return self.rule.notes

    @property
    def search(self) -> str:
        return ", and ".join(dict.fromkeys(donors.words for donors in self.rule.donors))

    def route(self, rows: Frame, answers: Answers) -> Route:
        """Turn decisions as the rule says; who has no allowed edit keeps the model's."""
        sides = [
            (at, donors)
            for decision, donors in enumerate(self.rule.donors)
            if len(at := np.flatnonzero(answers.decision == decision)) > 0
        ]
        nearest = [donors.nearest(rows.take(at)) for at, donors in sides if self.rule.by == "cost"]
        cost = None
        if nearest:
            cost = np.empty(len(rows))
            for (at, _), there in zip(sides, nearest, strict=True):
                cost[at] = there.cost
        turned = self.rule.turns(rows, answers, cost)
        parts = []
        for place, (at, donors) in enumerate(sides):
            kept = np.flatnonzero(turned[at])
            if len(kept) > 0:
                there = (
                    nearest[place].take(kept) if nearest else donors.nearest(rows.take(at[kept]))
                )
                parts.append((at[kept], there))
        if not parts:
            return Route.stay(len(rows))
        at = np.concatenate([one for one, _ in parts])
        return Route.flips(len(rows), at, np.ones(len(at)), join([there for _, there in parts]))

    def decisions(self, rows: Frame, answers: Answers) -> Route:
        """The same without edits; whoever has one need not find the cheapest."""
        if self.rule.by == "cost":
            return self.route(rows, answers)
        at = np.flatnonzero(self.rule.turns(rows, answers))
        reached = self.rule.reached(rows.take(at), answers.take(at))
        return Route.decided(len(rows), at, np.ones(len(at)), answers.decision[at], reached)
