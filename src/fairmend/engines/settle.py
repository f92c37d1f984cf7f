"""A repair fitted to a sample of rows on a cluster, settled on all of them.

A sample places the cut of a ranking only so well. So workers apply the plans to every row: those
ranked clearly above the cut are counted as flipped, and of the few near it the keys come here,
which are numbers and no inputs. With these the cut is placed where the gap that all people
experience is closed, and the plans say exactly what is then left. Plans without such a cut keep
their law, and are told what they leave.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairmend.data.columns import BoolArray, FloatArray, Frame, IntArray
from fairmend.data.containers import as_fitted
from fairmend.engines.continuous import Reader, audit_answers
from fairmend.engines.summary import COUNTS, added
from fairmend.measure.audit import audit_data
from fairmend.measure.disparity import Disparity, RateGap, parts_of
from fairmend.measure.realised import RealisedGap
from fairmend.model.answers import Answers
from fairmend.repair.blind.rule import BlindPlan, flip_prices
from fairmend.repair.least_change import Cut, FlipPlan, calibrate
from fairmend.repair.plan import HarmlessPlan, Plan
from fairmend.status import PlanStatus

if TYPE_CHECKING:
    import pandas as pd

    from fairmend.data.people import Records
    from fairmend.engines.source import Source
    from fairmend.measure.population import AuditData
    from fairmend.repair.settings import RepairSettings

_KIND, _BEFORE, _AFTER = "__kind", "__before", "__after"
DEVIATIONS = 5
"""How far from the sample's cut its true place is sought, in standard errors of its rank."""


@dataclass(frozen=True, eq=False)
class GivenRows:
    """Rows as they came; those that are asked for come as the fit saw them."""

    table: Frame
    template: Frame

    def take(self, at: IntArray) -> Frame:
        some = self.table.take(at).select(self.template.names).native
        return Frame(as_fitted(some, self.template), self.template.names)


@dataclass(frozen=True, eq=False)
class Lever:
    """A plan that flips the rows whose key passes a cut; below it nobody, above it all."""

    plan: FlipPlan | BlindPlan

    @classmethod
    def of(cls, plan: Plan) -> Lever | None:
        """The cut of a plan, if it goes by one."""
        inner = plan.plan if isinstance(plan, HarmlessPlan) else plan
        if isinstance(inner, FlipPlan) and np.isfinite(inner.cut.first):
            return cls(inner)
        if isinstance(inner, BlindPlan) and inner.rule.words is None and len(
            inner.rule.prices) == 1 and inner.rule.by != "cost":  # fmt: skip
            return cls(inner)
        return None

    @property
    def cut(self) -> float:
        if isinstance(self.plan, FlipPlan):
            return self.plan.cut.first
        price = float(self.plan.rule.prices[0])
        return 1 / price if price != 0 else np.inf

    def keys(self, rows: GivenRows, answers: Answers, at: IntArray) -> FloatArray:
        """Two keys for each row at some places, as a `Ranking` has them; -inf: never flipped."""
        if isinstance(self.plan, BlindPlan):
            return self._blind_keys(rows.take(at), answers.take(at))
        ranking, keys = self.plan.ranking, np.full((len(at), 2), -np.inf)
        mine = np.flatnonzero(answers.decision[at] == ranking.turned)
        if len(mine) > 0:
            own = at[mine]
            # to rank by score takes no rows: one stands for them
            some = rows.take(own[:1] if ranking.rank == "score" else own)
            cost = self.plan.donors.nearest(some).cost if ranking.rank == "cost" else None
            keys[mine] = ranking.keys(some, answers.take(own), cost)
        return keys

    def _blind_keys(self, rows: Frame, answers: Answers) -> FloatArray:
        assert isinstance(self.plan, BlindPlan)
        rule, own = self.plan.rule, answers.decision
        inputs = rule.visible(rows)
        outcome = rule.outcome.of(inputs, answers)
        effect = np.sum([one.effect(inputs, outcome) for one in rule.shares], axis=0)[0]
        price = flip_prices(rule.by, rule.trade_off, outcome, own)
        key = np.sign(self.cut) * effect * (1 - 2 * own) / price
        if rule.protected is not None:
            key = np.where(own == rule.protected, -np.inf, key)
        # the last digits of a product depend on the rows beside it: equal rows must have equal keys
        return np.stack([key.astype(np.float32), np.zeros(len(key))], axis=1)

    def reach(self, rows: Frame, answers: Answers) -> BoolArray:
        """Which rows have an allowed edit."""
        if isinstance(self.plan, FlipPlan):
            return self.plan.donors.reach(rows)
        reached = np.zeros(len(rows), bool)
        for decision, donors in enumerate(self.plan.rule.donors):
            own = np.flatnonzero(answers.decision == decision)
            if len(own) > 0:
                reached[own] = donors.reach(rows.take(own))
        return reached

    def moved(self, plan: Plan, cut: Cut) -> Plan:
        """``plan`` with its cut elsewhere."""
        if isinstance(plan, HarmlessPlan):
            return replace(plan, plan=self.moved(plan.plan, cut))
        if isinstance(plan, FlipPlan):
            return replace(plan, cut=cut)
        assert isinstance(plan, BlindPlan)
        # a rule has no draws: whoever is at the cut goes with the nearer side, up to half a digit
        with np.errstate(over="ignore"):  # of a cut below which nobody is
            key = np.float32(cut.first)
        beside = np.nextafter(key, np.float32(-np.inf if cut.chance > 0.5 else np.inf))
        prices = np.sign(self.cut) / np.array([float(key) / 2 + float(beside) / 2])
        rule = replace(plan.rule, prices=prices, exceptions=None, exception_answers=None,
                       turned=None)  # fmt: skip
        return replace(plan, rule=rule)


@dataclass(frozen=True, eq=False)
class Window:
    """Keys between which the cut is sought; outside, the sample is sure enough."""

    lever: Lever
    low: float
    high: float

    @classmethod
    def of(cls, lever: Lever, groups: Sequence[Any], table: Frame) -> Window:
        """From the sample: so many standard errors of the cut's rank on either side."""
        keys = np.concatenate([
            lever.keys(GivenRows(table.take(np.asarray(group.rows)), table), group.answers,
                       np.arange(len(group)))[:, 0] for group in groups
        ])  # fmt: skip
        keys = np.sort(keys[keys > -np.inf])
        cut, n = abs(lever.cut) if isinstance(lever.plan, BlindPlan) else lever.cut, len(keys)
        rank = int(np.searchsorted(keys, cut))
        off = int(DEVIATIONS * np.sqrt(rank * (n - rank) / max(1, n))) + DEVIATIONS
        low = keys[rank - off] if rank >= off else -np.finfo(float).max
        high = keys[rank + off] if rank + off < n else np.inf
        return cls(lever, float(low), float(high))

    def cut(self, keys: FloatArray, gain: FloatArray, need: float) -> Cut:
        """Where the gains of those in the window add up to what is needed; at its end at worst."""
        if need <= 0:
            return Cut(self.high, np.inf, 0.0)
        cut = calibrate(keys, gain, need)
        return cut if cut.enough else Cut(self.low, -np.inf, 1.0, enough=False)


# -------------------------------------------------------------------- on a worker


@dataclass(frozen=True, eq=False)
class Recounted:
    """People by kind, decision before and after; and those near a cut, one by one."""

    counts: pd.DataFrame
    near: pd.DataFrame
    """Kind, own decision, both keys and weight of rows in a window; counted as not flipped."""

    def of(self, group: int) -> Recounted:
        """The people of one group."""
        return Recounted(*(part[part[_KIND] // 2 == group] for part in (self.counts, self.near)))

    @property
    def keys(self) -> FloatArray:
        return self.near[["first", "second"]].to_numpy(np.float64)

    @property
    def outcome(self) -> FloatArray:
        return self.near[_KIND].to_numpy(np.float64) % 2

    @property
    def sign(self) -> FloatArray:
        """1 where a decision flips to positive, else -1."""
        return 1 - 2 * self.near[_BEFORE].to_numpy(np.float64)

    @property
    def weight(self) -> FloatArray:
        return self.near["weight"].to_numpy(np.float64)

    def decided(self, chance: FloatArray) -> pd.DataFrame:
        """What flipping the people near the cut with these chances adds to the counts."""
        import pandas as pd

        sums = np.stack([np.ones(len(chance)), self.weight, self.weight**2])
        cells = self.near[[_KIND, _BEFORE]]
        own = self.near[_BEFORE].to_numpy(np.float64)
        parts = [
            cells.assign(**{_AFTER: after}, **dict(zip(COUNTS, sign * sums, strict=True)))
            for after, sign in ((own, -1.0), (own + chance * self.sign, 1.0))
        ]
        return pd.concat(parts, ignore_index=True)


@dataclass(frozen=True, eq=False)
class Recount:
    """What a worker does with its rows: apply the plans."""

    reader: Reader
    template: Frame
    """A row of the fit: rows come in its container and types."""
    plans: Mapping[int, Plan]
    """By the place of the group; a blind plan stands at every place."""
    windows: Mapping[int, Window] = field(default_factory=dict)

    @property
    def reads(self) -> list[str]:
        return list(dict.fromkeys([*self.reader.columns, *map(str, self.template.names)]))

    def __call__(self, table: Any) -> Recounted:
        import pandas as pd

        names = [_KIND, _BEFORE, "first", "second", "weight"]
        if len(table) == 0:
            return Recounted(
                pd.DataFrame({name: np.empty(0) for name in (_KIND, _BEFORE, _AFTER, *COUNTS)}),
                pd.DataFrame({name: np.empty(0) for name in names}),
            )
        batch = self.reader.read(table)
        rows = GivenRows(Frame.read(table), self.template)
        own = batch.answers.decision
        after, near = own.copy(), []
        weight = np.ones(len(own)) if batch.weight is None else batch.weight
        for place, plan in self.plans.items():
            at = np.flatnonzero(batch.kind // 2 == place)
            if len(at) == 0:
                continue
            after[at], inside, keys = self._applied(place, plan, rows, batch.answers, at)
            whose = at[inside]
            near.append(
                np.stack([batch.kind[whose], own[whose], *keys[inside].T, weight[whose]], axis=1)
            )
        answers = _by_answer(batch.kind, own, after, batch.weight)
        border_rows = np.concatenate(near) if near else np.empty((0, len(names)))
        return Recounted(answers, pd.DataFrame(border_rows, columns=names))

    def _applied(
        self, place: int, plan: Plan, rows: GivenRows, answers: Answers, at: IntArray
    ) -> tuple[FloatArray, BoolArray, FloatArray]:
        """For rows at some places expected decisions, who is in the window, and all their keys."""
        window, own = self.windows.get(place), answers.take(at)
        if window is None:
            route = plan.decisions(rows.take(at), own)
            return route.expected_decision(own), np.zeros(len(at), bool), np.zeros((0, 2))
        keys, after = window.lever.keys(rows, answers, at), own.decision.copy()
        asked = np.flatnonzero(keys[:, 0] >= window.low)
        reached = np.zeros(len(at), bool)
        if len(asked) > 0:
            reached[asked] = window.lever.reach(rows.take(at[asked]), own.take(asked))
        above = keys[:, 0] > window.high
        after[above & reached] = 1 - after[above & reached]
        return after, reached & ~above, keys

    def merge(self, parts: Sequence[Recounted]) -> Recounted:
        import pandas as pd

        near = [part.near for part in parts if len(part.near) > 0] or [parts[0].near]
        return Recounted(
            added([part.counts for part in parts], [_KIND, _BEFORE, _AFTER]),
            pd.concat(near, ignore_index=True),
        )


def _by_answer(
    kind: NDArray[Any], before: FloatArray, after: FloatArray, weight: FloatArray | None
) -> pd.DataFrame:
    """People of weight by kind and by decision before and after."""
    import pandas as pd

    there = kind >= 0
    values, place = _decisions_of(after)
    cell = (kind.astype(np.int64) * 2 + before.astype(np.int64)) * len(values) + place
    cell, own = cell[there], None if weight is None else weight[there]
    sums = [np.bincount(cell, each) for each in (None, own, None if own is None else own**2)]
    at = np.flatnonzero(sums[0])
    first, last = at // len(values), at % len(values)
    return pd.DataFrame({
        _KIND: first // 2, _BEFORE: (first % 2).astype(np.float64), _AFTER: values[last],
        **{name: each[at].astype(np.float64) for name, each in zip(COUNTS, sums, strict=True)},
    })  # fmt: skip


def _decisions_of(after: FloatArray) -> tuple[FloatArray, IntArray]:
    """The values among expected decisions, mostly 0 and 1, and the place of each."""
    if ((after == 0) | (after == 1)).all():
        return np.array([0.0, 1.0]), after.astype(np.int64)
    return np.unique(after, return_inverse=True)


# -------------------------------------------------------------------- what is made of it


@dataclass(frozen=True, eq=False)
class Settler:
    """All the rows of which a repair saw a sample."""

    place: Source
    reader: Reader
    records: Records

    def __call__(
        self, data: AuditData, plans: Mapping[Hashable, Plan], settings: RepairSettings
    ) -> dict[Hashable, Plan]:
        """The plans with their cuts where all rows want them, and with what they leave."""
        assert data.table is not None
        every = {data.groups.index(group): plan for group, plan in plans.items()}
        windows = _windows(data, every, settings.disparities)
        work = Recount(self.reader, data.table.take(np.arange(1)), every, windows)
        recounted = self.place.engine.fold(self.place, work)
        counts = recounted.counts
        if windows:
            blind = isinstance(next(iter(windows.values())).lever.plan, BlindPlan)
            place_cuts = _one_cut if blind else _cut_by_group
            every, near = place_cuts(data, every, windows, recounted, settings)
            counts = added([counts, near], [_KIND, _BEFORE, _AFTER])
        after = audit_answers(
            self.records,
            counts[_KIND].to_numpy(np.int64),
            counts[_AFTER].to_numpy(np.float64),
            None,
            **{name.strip("_"): counts[name].to_numpy(np.float64) for name in COUNTS},
        )
        return {
            group: _with_what_is_left(every[data.groups.index(group)], data, after, settings)
            for group in plans
        }


def _windows(
    data: AuditData, every: Mapping[int, Plan], disparities: Sequence[Disparity]
) -> dict[int, Window]:
    """Where the cuts of plans are sought: of one gap over people whom decisions do not change."""
    assert data.table is not None
    levers = {k: lever for k, plan in every.items() if (lever := Lever.of(plan)) is not None}
    first = data.populations[0]
    over_decisions = len(disparities) > 1 or not isinstance(disparities[0], RateGap) or (
        RealisedGap(disparities[0], np.zeros((1, 2)), 0.0, 0.0).over_decisions)  # fmt: skip
    if over_decisions or len(levers) < len(every) or first.rows is None:
        return {}
    if isinstance(next(iter(levers.values())).plan, BlindPlan):
        window = Window.of(next(iter(levers.values())), data.populations, data.table)
        return dict.fromkeys(every, window)
    return {k: Window.of(lever, [data.populations[k]], data.table) for k, lever in levers.items()}


def _cut_by_group(
    data: AuditData,
    every: Mapping[int, Plan],
    windows: Mapping[int, Window],
    recounted: Recounted,
    settings: RepairSettings,
) -> tuple[dict[int, Plan], pd.DataFrame]:
    """Each group's cut where its gap closes, and how people near it are then decided."""
    (metric,) = settings.disparities
    assert isinstance(metric, RateGap)
    moved, near = {}, []
    for k, plan in every.items():
        own = recounted.of(k)
        other = data.against(plan.target, plan.baseline)
        counts = own.counts
        weight = np.zeros((len(counts), 2))
        weight[np.arange(len(counts)), counts[_KIND].to_numpy(np.int64) % 2] = counts[COUNTS[1]]
        gap = RealisedGap(metric, weight, metric.of(other), 0.0)
        gap = replace(gap, aim=(1 - settings.level) * gap.gap(counts[_BEFORE].to_numpy()))
        gain = -gap.slope(own.outcome) * own.sign * own.weight
        cut = windows[k].cut(own.keys, gain, gap.excess(counts[_AFTER].to_numpy()))
        moved[k] = windows[k].lever.moved(plan, cut)
        near.append(own.decided(cut.chances(own.keys)))
    return moved, added(near, [_KIND, _BEFORE, _AFTER])


def _one_cut(
    data: AuditData,
    every: Mapping[int, Plan],
    windows: Mapping[int, Window],
    recounted: Recounted,
    settings: RepairSettings,
) -> tuple[dict[int, Plan], pd.DataFrame]:
    """The one cut for everybody at which the gap of two groups closes."""
    (metric,) = settings.disparities
    assert isinstance(metric, RateGap)
    target = max(every, key=lambda k: every[k].widest_before)
    rates, gain = [], np.zeros(len(recounted.near))
    for k in every:
        own, sign = recounted.of(k), 1.0 if k == target else -1.0
        y = own.counts[_KIND].to_numpy(np.int64) % 2
        weight = own.counts[COUNTS[1]].to_numpy()
        over = float(weight @ (metric.given(own.counts[_BEFORE].to_numpy(), y) + 0.0 * y))
        rates.append([
            sign * float(weight @ metric.rate(own.counts[state].to_numpy(np.float64), y)) / over
            for state in (_BEFORE, _AFTER)
        ])  # fmt: skip
        at = recounted.near[_KIND].to_numpy() // 2 == k
        slope = metric.rate(np.ones(len(own.outcome)), own.outcome) - metric.rate(
            np.zeros(len(own.outcome)), own.outcome)  # fmt: skip
        gain[at] = -sign * slope * own.sign * own.weight / over
    before, base = np.sum(rates, axis=0)
    window = windows[target]
    cut = window.cut(recounted.keys, gain, float(base - (1 - settings.level) * before))
    if np.isfinite(cut.first):  # a rule has no draws: who is at the cut goes with the nearer side
        cut = replace(cut, chance=float(cut.chance > 0.5))
    moved = {k: window.lever.moved(plan, cut) for k, plan in every.items()}
    return moved, recounted.decided(cut.chances(recounted.keys))


def _with_what_is_left(
    plan: Plan, before: AuditData, after: AuditData, settings: RepairSettings
) -> Plan:
    """The plan with the gaps that all rows experience under it, and with the status of these."""
    metrics = {one.name: one for each in settings.disparities
               for one in (each, *(part for _, part in parts_of(each)))}  # fmt: skip
    outlook = plan.outlook
    gaps = {
        name: tuple(
            audit_data(_pair(data, plan), metrics=[metrics[name]], reference=plan.baseline,
                       confidence=1 - 0.05 / max(1, len(settings.disparities))).gaps[0]
            for data in (before, after)
        )
        for name, _, _ in plan.by_metric
    }  # fmt: skip
    aims = {name: (1 - settings.level) * now.gap for name, (now, _) in gaps.items()}
    widest = max(gaps, key=lambda name: abs(gaps[name][1].gap - aims[name]))
    shown = outlook.metric or plan.metric
    first = gaps.get(shown, gaps[widest])
    left = max(abs(gaps[name][1].gap - aims[name]) for name in gaps if name in
               {one.name for one in settings.disparities})  # fmt: skip
    status = plan.status
    if status is not PlanStatus.IDENTITY:
        if left <= outlook.tolerance:
            status = PlanStatus.CLOSED if settings.level == 1 else PlanStatus.PARTLY
        elif max(abs(gap.gap) for _, gap in gaps.values()) > max(
            abs(gap.gap) for gap, _ in gaps.values()) + outlook.tolerance:  # fmt: skip
            status = PlanStatus.WIDER
        elif status.closed or status is PlanStatus.WIDER:
            status = PlanStatus.REMAINS
    outlook = replace(
        outlook,
        gap_before=first[0].gap,
        gap_after=first[1].gap,
        expected_low=max(-1.0, first[1].low),
        expected_high=min(1.0, first[1].high),
        by_metric=tuple((name, now.gap, then.gap) for name, (now, then) in gaps.items())
        if outlook.by_metric
        else (),
    )
    return replace(plan, status=status, outlook=outlook)


def _pair(data: AuditData, plan: Plan) -> AuditData:
    other = data.against(plan.target, plan.baseline)
    return replace(
        data,
        groups=(plan.target, plan.baseline),
        populations=(data[plan.target], other),
        table=None,
        person_row=None,
        person_group=None,
    )
