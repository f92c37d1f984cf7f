"""How far a rule that reads no group can go at all.

The furthest rule turns every decision that moves the gap the right way. What it leaves is

    gap(0) + sum_x min(0, what turning x adds to the gap).

Of many rows a model that has not seen people says which way theirs moves it. Of few rows people say
so themselves. The same people would then choose the rows and say what turning them does, which
promises too much. People held out promise too little, as the luck of others chose their rows. Where
the effects of the rows are spread wider than their sampling error, the two errors are of one size:
the estimate is the mean of both, and its interval reaches from the one to the other.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace

import numpy as np

from fairmend.data.columns import BoolArray, FloatArray
from fairmend.explain.crossfit import FEW_ROWS, FOLDS
from fairmend.measure.population import AuditData
from fairmend.measure.result import Gap
from fairmend.repair.blind.gaps import Audited, Gaps
from fairmend.repair.blind.rule import BlindPlan, BlindRule
from fairmend.repair.plan import Plan
from fairmend.repair.settings import RepairSettings

__all__ = ["furthest"]

_SPLITS = 50
"""How often people are split into tenths anew: the mean depends little on chance then."""
_EVERYTHING = 1e12
"""A price that outweighs all costs."""


def furthest(
    data: AuditData,
    settings: RepairSettings,
    plans: Mapping[Hashable, Plan],
    target: Hashable,
    measured: Callable[[AuditData], Gap],
) -> tuple[float, float, float]:
    """The gap under the rule that does all it can, with its interval.

    ``plans`` are those of a blind rule for the gap of ``target``; ``measured`` gives that gap.
    """
    plan = plans[target]
    assert isinstance(plan, BlindPlan)
    audited = Audited.of(data)
    kind = audited.kinds(audited.visible(plan.rule.kept_out).distinct().inverse)
    if kind.max(initial=0) + 1 >= FEW_ROWS:
        gap = measured(_decided(audited, _by_models(plan.rule, audited)))
        return gap.gap, gap.low, gap.high
    of_people = _OfPeople(audited, settings, plan, kind)
    gap, optimism = measured(_decided(audited, of_people.chosen)), of_people.optimism
    return gap.gap + optimism / 2, gap.low, gap.high + optimism


def _by_models(rule: BlindRule, audited: Audited) -> BoolArray:
    """Whose decision is turned where nothing has a price."""
    most = replace(
        rule,
        prices=_EVERYTHING * rule.prices,
        exceptions=None,
        exception_answers=None,
        turned=None,
        words=None,
    )
    turned: BoolArray = most.turns(audited.table, audited.answers)
    return turned & rule.reached(audited.table, audited.answers)


class _OfPeople:
    """The rows of few that people's own outcomes choose."""

    def __init__(
        self, audited: Audited, settings: RepairSettings, plan: BlindPlan, kind: np.ndarray
    ) -> None:
        sides = {plan.target: plan.baseline}
        [gap] = Gaps(audited, replace(settings, level=1.0), sides).constraints()
        answers, rule = audited.answers, plan.rule
        free = rule.reached(audited.table, answers)
        if rule.protected is not None:
            free &= answers.decision != rule.protected
        way = np.where(free, 1 - 2 * answers.decision, 0.0)
        self._kind, self._people = kind, audited.people
        self._effect = gap.weights[:, None] * audited.weight * way[:, None]
        self._each = self._by_kind(self._effect)

    def _by_kind(self, effect: FloatArray) -> FloatArray:
        """What turning all rows of a kind adds to the gap."""
        return np.bincount(self._kind, effect.sum(axis=(0, 2))).astype(np.float64)

    @property
    def chosen(self) -> BoolArray:
        """Rows whose people say that turning them moves the gap the right way."""
        return np.asarray((self._each < 0)[self._kind], bool)

    @property
    def optimism(self) -> float:
        """How much less far the rule goes among people it was not chosen on."""
        people, rng = np.rint(self._people).astype(np.int64), np.random.default_rng(0)
        held_out = 0.0
        for _ in range(_SPLITS):
            tenths = rng.multinomial(people, np.full(FOLDS, 1 / FOLDS))
            for tenth in np.moveaxis(tenths, -1, 0):
                part = self._by_kind(self._effect * (tenth / np.maximum(1, people)))
                held_out += float(part[self._each - part < 0].sum()) / _SPLITS
        return held_out - float(np.minimum(self._each, 0.0).sum())


def _decided(audited: Audited, turned: BoolArray) -> AuditData:
    """Everybody with these rows' decisions turned."""
    data, own = audited.data, audited.answers.decision
    decision = np.where(turned, 1 - own, own)
    return replace(
        data,
        populations=tuple(
            replace(
                people, decision=decision[np.searchsorted(audited.rows, np.asarray(people.rows))]
            )
            for people in data.populations
        ),
    )
