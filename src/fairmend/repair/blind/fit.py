"""Repair without the group: one rule for everybody, of the inputs and the model's answer.

Groups are needed once, in the audit data. A rule turns the decision at x with f(x), 0 or 1, and
every gap of rates is linear in f:

    gap(f) = gap(0) + sum_x m(x) f(x) (1 - 2 h(x)) g(x),
    g(x)   = sum_s,y c_sy P(Y=y | x) P(s | x, y),

where c_sy is what one more positive decision about somebody of group s and outcome y does to the
gap. The cheapest f that closes all gaps turns a decision where the gaps' prices outweigh what
turning it costs, so that only P(Y=1 | x) and P(s | x, y) are estimated, and the rule holds for rows
never seen. P(s | x, y) is fitted among people of that outcome: fitted among everybody it would
leave a gap. Both are cross-fitted, and the prices are moved until the gaps that the people of the
audit experience are closed.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from fairmend.data.columns import BoolArray, FloatArray
from fairmend.data.threads import one_thread
from fairmend.errors import check
from fairmend.explain.crossfit import KnownRows, ModelChoice, pair_model, tree_model
from fairmend.measure.audit import audit_data
from fairmend.measure.disparity import parts_of
from fairmend.measure.population import AuditData, Population, Tally, pooled
from fairmend.measure.result import Gap
from fairmend.model.answers import is_same
from fairmend.model.blackbox import BlackBox
from fairmend.repair.blind.gaps import Audited, Constraint, Gaps, as_rate
from fairmend.repair.blind.rule import (
    AnsweredOutcome,
    BlindPlan,
    BlindRule,
    GroupShare,
    flip_prices,
)
from fairmend.repair.blind.search import FlipSearch, Solved
from fairmend.repair.blind.word_search import WordSearch
from fairmend.repair.blind.words import WordRule
from fairmend.repair.destinations import Donors, RememberingDonors, forgetting
from fairmend.repair.plan import Plan, Route
from fairmend.repair.probabilities import RowProbabilities, pooled_tally
from fairmend.repair.problem import (
    RepairProblem,
    allow_for_rivals,
    edit_cost,
    judged,
)
from fairmend.repair.settings import RepairSettings
from fairmend.repair.telling import inputs_to_keep_out
from fairmend.repair.trade_off import TradeOff
from fairmend.status import PlanStatus

__all__ = ["BlindLevels", "plan_blindly", "storable"]

_SPREAD = 1.2
"""How much wider the gap of new people spreads than counting the people of the fit tells: without
it the interval covered .88 to .96 over six simulated worlds (see tests/theory)."""
_ANY_BETTER = ModelChoice((pair_model,))
"""Of models of who is of a group: whichever predicts people held out best. The rule is judged by
the people, so a model need not be better by more than chance."""
_FINER = ModelChoice((pair_model, tree_model))
"""Of models of the outcome, which say what a flip costs."""
_FEW = 20
"""Of fewer people nothing is learnt about who they are."""


# -------------------------------------------------------------------- fitting


def plan_blindly(data: AuditData, settings: RepairSettings, box: BlackBox) -> dict[Hashable, Plan]:
    """One rule for everybody; a plan for each group says what the rule does to it.

    There is no plan where no group is worse off.
    """
    return storable(BlindLevels(data, settings, box).at(settings.level))


def storable(plans: Mapping[Hashable, Plan]) -> dict[Hashable, Plan]:
    """The plans without what their rules remember while levels are compared."""
    rules = {plan.rule for plan in plans.values() if isinstance(plan, BlindPlan)}
    stored = {
        rule: replace(rule, donors=(forgetting(rule.donors[0]), forgetting(rule.donors[1])))
        for rule in rules
    }
    return {
        group: replace(plan, rule=stored[plan.rule]) if isinstance(plan, BlindPlan) else plan
        for group, plan in plans.items()
    }


class BlindLevels:
    """Blind repairs of one audit at any level: what they have in common is found once."""

    def __init__(
        self,
        data: AuditData,
        settings: RepairSettings,
        box: BlackBox,
        *,
        alike: BlindLevels | None = None,
    ) -> None:
        """``alike`` has other settings of do_no_harm and words alone: its models do here too."""
        for disparity in settings.disparities:
            for _, part in parts_of(disparity):
                as_rate(part)
        check(
            settings.target is None or settings.target != settings.reference,
            "reference",
            "must differ from the target",
            f"both are {settings.target!r}",
            "Name another group, or leave it out.",
        )
        self.data, self.settings, self.box, self._alike = data, settings, box, alike
        self._decided: dict[float, dict[Hashable, Plan]] = {}
        self._plans: dict[float, dict[Hashable, Plan]] = {}
        self._read: dict[float, dict[Hashable, RepairProblem]] = {}
        self._gaps = audit_data(
            data, metrics=settings.disparities[:1], reference=settings.reference
        ).gaps
        self._against = {
            gap.target: gap.baseline
            for gap in judged(self._gaps)
            if gap.gap > 0 and settings.target in (None, gap.target)
        }

    def at(self, level: float) -> dict[Hashable, Plan]:
        """The plans that close so much of the gaps."""
        if level not in self._plans:
            with one_thread():
                plans = self.decided(level)
                self._plans[level] = self._finished(plans, level) if level and plans else plans
        return self._plans[level]

    def decided(self, level: float) -> dict[Hashable, Plan]:
        """The same plans before edits are looked for: they decide, and have no figures."""
        if level not in self._decided:
            with one_thread():
                self._decided[level] = self._at(level)
        return self._decided[level]

    def _at(self, level: float) -> dict[Hashable, Plan]:
        if not self._against:
            return {}
        problems = self._problems(level)
        if level == 0:
            return {group: problem.identity() for group, problem in problems.items()}
        settings = replace(self.settings, level=level)
        rule, feasible = _solved(self._fit_inputs, settings, self._against)
        self._fit_inputs.models.forget()
        status = PlanStatus.REMAINS if feasible else PlanStatus.UNREACHABLE
        return {
            group: BlindPlan(**problem.common(status), rule=rule)
            for group, problem in problems.items()
        }

    def _finished(self, plans: Mapping[Hashable, Plan], level: float) -> dict[Hashable, Plan]:
        rivals = {gap.target: gap.rivals for gap in self._gaps}
        return _finished(self._fit_inputs.audited, plans, self._problems(level), rivals)

    def _problems(self, level: float) -> dict[Hashable, RepairProblem]:
        if level not in self._read:
            settings = replace(self.settings, level=level)
            self._read[level] = _problems(self.data, settings, self.box, self._gaps, self._against)
        return self._read[level]

    @cached_property
    def _fit_inputs(self) -> _FitInputs:
        """Models, donors and prices, which do not depend on the level."""
        if self._alike is not None:
            return self._alike._fit_inputs.priced(self.settings)
        audited = Audited.of(self.data)
        check(
            bool(np.isin(audited.answers.decision, (0.0, 1.0)).all()),
            "blind",
            "must be False for soft decisions",
            "the model's decisions are chances, for a draw to decide",
            "A blind rule gives equal inputs equal decisions, which a draw does not: set a "
            "threshold, BlackBox(model, threshold=0.5), and leave soft out.",
        )
        problems = self._problems(self.settings.level)
        for target in self._against:
            problems[target].warn_if_not_significant()
        return _FitInputs.fit(audited, self.settings, self.box, problems[next(iter(self._against))])


def _problems(
    data: AuditData,
    settings: RepairSettings,
    box: BlackBox,
    gaps: Sequence[Gap],
    against: Mapping[Hashable, Hashable],
) -> dict[Hashable, RepairProblem]:
    """Each group's gap: against the reference, and the reference's against the worst off.

    A rate may be over nobody of a group. The rule holds for it too, but it has no gap.
    """
    compared = {gap.target: gap.baseline for gap in gaps}
    worst = max((gap for gap in gaps if gap.target in against), key=lambda gap: gap.gap)
    problems = {}
    for group in data.groups:
        baseline = compared.get(group, worst.target)
        if group not in against and not _has_gaps(data, settings, group, baseline):
            continue
        problems[group] = RepairProblem.read(data, settings, box, target=group, baseline=baseline)
    return problems


def _has_gaps(
    data: AuditData, settings: RepairSettings, group: Hashable, baseline: Hashable
) -> bool:
    other = data.rest(group) if baseline == "rest" else data[baseline]
    return not any(np.isnan(one.value(data[group], other)) for one in settings.disparities)


def _routes(audited: Audited, plan: Plan) -> dict[Hashable, Route]:
    """What the rule does to each group; found for all together where a row has one answer."""
    data = audited.data
    assert data.table is not None
    place = {
        group: np.searchsorted(audited.rows, np.asarray(people.rows))
        for group, people in zip(data.groups, data.populations, strict=True)
    }
    if all((np.diff(at) > 0).all() for at in place.values()) and all(
        is_same(audited.answers.take(place[group]), data[group].answers).all() for group in place
    ):
        everybody = plan.route(audited.table, audited.answers)
        return {group: everybody.of(at) for group, at in place.items()}
    return {
        group: plan.route(data.table.take(np.asarray(people.rows)), people.answers)
        for group, people in zip(data.groups, data.populations, strict=True)
    }


def _finished(
    audited: Audited,
    plans: Mapping[Hashable, Plan],
    problems: Mapping[Hashable, RepairProblem],
    rivals: Mapping[Hashable, int],
) -> dict[Hashable, Plan]:
    """The plans with what the rule does to each group beside the other, as that is then decided."""
    data = audited.data
    now, routes = {}, _routes(audited, next(iter(plans.values())))
    for group, people in zip(data.groups, data.populations, strict=True):
        now[group] = replace(people, decision=routes[group].expected_decision(people.answers))
    finished: dict[Hashable, Plan] = {}
    for group, plan in plans.items():
        problem = problems[group]
        other = _as_decided(data, group, problem.baseline, now)
        met = replace(problem, other=other, gaps=tuple(gap.against(other) for gap in problem.gaps))
        done = met.finished(plan, route=routes[group])
        finished[group] = allow_for_rivals(_allow_for_the_fit(done), rivals.get(group, 1))
    return finished


def _allow_for_the_fit(plan: Plan) -> Plan:
    """The plan with a wider expectation: the rule was fitted on the people it is counted on.

    By how much new people's gap spreads more than the count tells was found by simulation.
    """
    outlook = plan.outlook
    centre = (outlook.expected_low + outlook.expected_high) / 2
    half = _SPREAD * (outlook.expected_high - outlook.expected_low) / 2
    low, high = max(-1.0, centre - half), min(1.0, centre + half)
    return replace(plan, outlook=replace(outlook, expected_low=low, expected_high=high))


def _as_decided(
    data: AuditData, group: Hashable, baseline: Hashable, now: Mapping[Hashable, Population]
) -> Population:
    if baseline != "rest":
        return now[baseline]
    return pooled([now[other] for other in data.groups if other != group])


@dataclass(frozen=True, eq=False)
class _FitInputs:
    """What a blind rule of any level rests on."""

    audited: Audited
    models: _Models
    outcome: AnsweredOutcome
    chance: FloatArray
    """P(Y=1 | x, answer) of each row."""
    trade_off: TradeOff
    by: str
    donors: tuple[Donors, Donors]
    price: FloatArray
    """What turning each row costs."""
    kept_out: tuple[str, ...]
    called: tuple[Hashable, Hashable]
    """The names of the two decisions: the model's own words, or else the labels of y."""

    @classmethod
    def fit(
        cls, audited: Audited, settings: RepairSettings, box: BlackBox, problem: RepairProblem
    ) -> _FitInputs:
        kept_out = inputs_to_keep_out(audited.data)
        models = _Models(audited, settings, kept_out)
        outcome = models.outcome(box)
        chance = outcome.of(models.visible, audited.answers)
        weight = audited.tally.by_row
        trade_off = _trade_off(settings, chance, audited.answers.decision, weight)
        donors = _donors(audited, settings, problem, kept_out)
        by = settings.rank if settings.rank in ("flips", "cost") else "worth"
        price = _prices_of_rows(
            audited, donors, settings, by=by, trade_off=trade_off, chance=chance
        )
        labels = audited.data.labels
        called = box.words or (labels.negative, labels.positive)
        return cls(audited, models, outcome, chance, trade_off, by, donors, price, kept_out, called)

    def priced(self, settings: RepairSettings) -> _FitInputs:
        """The same where other decisions may be taken."""
        price = _prices_of_rows(
            self.audited, self.donors, settings, by=self.by, trade_off=self.trade_off,
            chance=self.chance,
        )  # fmt: skip
        return replace(self, price=price)


def _solved(
    inputs: _FitInputs, settings: RepairSettings, against: Mapping[Hashable, Hashable]
) -> tuple[BlindRule, bool]:
    """The cheapest rule, and whether one closes all gaps by the outcomes expected of people."""
    data, trade_off, price = inputs.audited.data, inputs.trade_off, inputs.price
    gaps = Gaps(inputs.audited, settings, against)
    kind = inputs.audited.kinds(inputs.models.alike.inverse)
    solved = []
    for rate in gaps.common_rates():
        constraints = gaps.constraints(rate)
        shares = inputs.models.shares(constraints)
        effect = np.sum(
            [one.effect(inputs.models.visible, inputs.chance) for one in shares], axis=0
        )
        flips = FlipSearch(inputs.audited, constraints, effect, price, kind).solved()
        solved.append((flips, constraints, shares, effect))
    best, constraints, shares, effect = min(solved, key=lambda one: one[0].order)
    rule = BlindRule(
        outcome=inputs.outcome,
        shares=shares,
        prices=best.prices,
        trade_off=trade_off,
        by=inputs.by,
        donors=inputs.donors,
        kept_out=inputs.kept_out,
        proxy_auc=inputs.models.proxy_auc(),
        protected=settings.protected(data.labels),
        capped=best.capped,
    )
    if settings.words:
        search = WordSearch(
            inputs.audited,
            inputs.models.visible,
            constraints,
            effect=effect,
            price=price,
            prices=best.prices,
            trade_off=trade_off if inputs.by == "worth" and data.outcome_known else None,
        )
        words = _in_words(inputs, search, trade_off, best, np.isfinite(price))
        return replace(rule, words=words), best.feasible
    if len(best.exceptions) == 0:
        return rule, best.feasible
    return replace(
        rule,
        exceptions=inputs.models.visible.take(best.exceptions),
        exception_answers=inputs.audited.answers.take(best.exceptions),
        turned=best.turned[best.exceptions].astype(np.float64),
    ), best.feasible


def _in_words(
    inputs: _FitInputs,
    search: WordSearch,
    trade_off: TradeOff,
    free: Solved,
    reached: BoolArray,
) -> WordRule:
    """The rule in words, and what it and the unrestricted rule are worth to the audit people."""
    audited = inputs.audited
    own, unknown = audited.answers.decision, (float("nan"), float("nan"))
    words = WordRule(search.best(), inputs.called, unknown, unknown)
    if not audited.data.outcome_known:
        return words
    turned = words.turns(audited.table, audited.answers) & reached
    weight = audited.weight.sum(axis=0)
    mine, theirs = (np.where(flips, 1 - own, own) for flips in (turned, free.turned))
    accuracy, worth = (
        (by.worth(weight, mine), by.worth(weight, theirs)) for by in (TradeOff(0.5), trade_off)
    )
    return replace(words, accuracy=accuracy, worth=worth)


def _trade_off(
    settings: RepairSettings, chance: FloatArray, decision: FloatArray, weight: FloatArray
) -> TradeOff:
    if isinstance(settings.rank, Mapping):
        return TradeOff.of_costs(settings.rank)
    return TradeOff.implied(chance, decision, weight)


class _Models:
    """The models of outcomes and groups, on the inputs that do not tell the group."""

    def __init__(self, audited: Audited, settings: RepairSettings, kept_out: Sequence[str]) -> None:
        self.audited, self.settings = audited, settings
        self.visible = audited.visible(kept_out)
        self.alike = self.visible.distinct()
        self._known = KnownRows()
        self._shares: dict[tuple[tuple[int, ...], tuple[int, ...]], RowProbabilities] = {}

    def outcome(self, box: BlackBox) -> AnsweredOutcome:
        """P(Y=1 | x, answer), cross-fitted."""
        data = self.audited.data
        tally = self.audited.tally
        if not data.outcome_known:
            tally = Tally(*(part[self.audited.rows] for part in pooled_tally(data).sums))
        inputs = self._fit(tally, "P(Y=1 | x)", _FINER)
        if not data.outcome_known:
            return AnsweredOutcome(inputs, None, 0.0, 1.0, probability=False)
        return AnsweredOutcome.fit(inputs, self.visible, self.audited.answers, tally, box)

    def shares(self, constraints: Sequence[Constraint]) -> tuple[GroupShare, ...]:
        """P(s | x) among the people by way of whom decisions move the gaps."""
        weights = np.stack([one.weights for one in constraints])  # (gaps, groups, outcomes)
        alike = (weights[:, :, 0] == weights[:, :, 1]).all(axis=1)
        shares = []
        for outcomes, some in (((0, 1), alike), ((0,), ~alike), ((1,), ~alike)):
            part = np.where(some[:, None], weights[:, :, outcomes[0]], 0.0)
            if np.abs(part).max(initial=0.0) > 0:
                sets = self._sets(part, outcomes)
                every = sets[:1] if len(sets) == 2 else sets
                chances = tuple(self._share(groups, outcomes) for groups in every)
                shares.append(GroupShare(outcomes, chances, part[:, [one[0] for one in sets]]))
        return tuple(shares)

    def _sets(self, part: FloatArray, outcomes: tuple[int, ...]) -> list[tuple[int, ...]]:
        """The groups that the gaps are of, and all others together unless they are too few."""
        groups = range(part.shape[1])
        sets: list[tuple[int, ...]] = [(k,) for k in groups if np.abs(part[:, k]).max() > 0]
        others = tuple(group for group in range(part.shape[1]) if (group,) not in sets)
        populations = [self.audited.data.populations[group] for group in others]
        if sum(one.counts.people[:, outcomes].sum() for one in populations) >= _FEW:
            sets.append(others)
        return sets

    def _share(self, groups: tuple[int, ...], outcomes: tuple[int, ...]) -> RowProbabilities:
        if (groups, outcomes) not in self._shares:
            data = self.audited.data
            name = " or ".join(data.names(data.groups[group]) for group in groups)
            given = "" if len(outcomes) == 2 else f", Y={outcomes[0]}"
            tally = self.audited.group_tally(groups, outcomes)
            self._shares[groups, outcomes] = self._fit(tally, f"P({name} | x{given})")
        return self._shares[groups, outcomes]

    def proxy_auc(self) -> float:
        """How well the inputs tell the first group, cross-fitted."""
        fitted = self._share((0,), (0, 1)).fitted
        return float("nan") if fitted is None else fitted.auc

    def _fit(self, tally: Tally, what: str, choice: ModelChoice = _ANY_BETTER) -> RowProbabilities:
        """On the distinct rows of what the rule may look at, as far as anybody is there."""
        first, inverse = self.alike.first, self.alike.inverse
        if len(first) < len(inverse):
            sums = [
                np.stack(
                    [np.bincount(inverse, part[:, y], len(first)) for y in (0, 1)], axis=1
                ).astype(np.float64)
                for part in tally.sums
            ]
            tally = Tally(*sums)
        there = np.flatnonzero(tally.by_row > 0)
        some = Tally(*(part[there] for part in tally.sums))
        rows = self.visible  # itself, if it can be: its rows need not be found in a copy
        if not np.array_equal(first[there], np.arange(len(rows))):
            rows = rows.take(first[there])
        return RowProbabilities.fit_event(
            rows, some, self.settings, what, choice=choice, known=self._known
        )

    def forget(self) -> None:
        """Let go of numbers that further fits would have used."""
        self._known = KnownRows()


def _donors(
    audited: Audited, settings: RepairSettings, problem: RepairProblem, kept_out: Sequence[str]
) -> tuple[Donors, Donors]:
    """Rows of everybody that get the wanted decision; nobody is edited into another group."""
    data, answers = audited.data, audited.answers
    everybody = Population.counted(
        audited.tally, answers.decision, score=answers.score, rows=audited.rows
    )
    assert data.table is not None
    rules = replace(settings, immutable=(*settings.edit_cost.immutable, *kept_out)).edit_cost
    cost = edit_cost(data.table, everybody, rules)
    pool = replace(problem, source=everybody, table=audited.table, cost=cost)
    return RememberingDonors.of(pool.donors(1.0)), RememberingDonors.of(pool.donors(0.0))


def _prices_of_rows(
    audited: Audited,
    donors: tuple[Donors, Donors],
    settings: RepairSettings,
    *,
    by: str,
    trade_off: TradeOff,
    chance: FloatArray,
) -> FloatArray:
    """What turning each row costs; infinite where no edit does it, or nobody may lose it."""
    own, cost = audited.answers.decision, np.full(len(chance), np.inf)
    for decision, there in enumerate(donors):
        at = np.flatnonzero(own == decision)
        if len(at) == 0 or settings.protected(audited.data.labels) == decision:
            continue
        rows = audited.table.take(at)
        if by == "cost":
            cost[at] = there.nearest(rows).cost
        else:
            cost[at] = np.where(there.reach(rows), 0.0, np.inf)
    return np.where(np.isfinite(cost), flip_prices(by, trade_off, chance, own, cost), np.inf)
