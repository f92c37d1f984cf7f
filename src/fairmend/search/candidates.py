"""The candidates of a search: everything that can be done about a model without retraining it.

Each is a model with a cut, and plans in front of it. So each can be judged on any people, fitted
into a `RepairedClassifier`, stored and deployed like every other repair.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import combinations
from typing import Any, Literal

import numpy as np

from fairmend.data.columns import Frame, as_numbers, encode, scalar
from fairmend.data.given import as_column
from fairmend.errors import FairmendError, FairmendWarning, check, listed
from fairmend.model.answers import Answers
from fairmend.model.blackbox import BlackBox
from fairmend.model.cut import cut_between
from fairmend.repair.blind.fit import BlindLevels
from fairmend.repair.frontier import plans_by_level
from fairmend.repair.held import HeldPlan, held_at
from fairmend.repair.plan import Plan
from fairmend.repair.plans import make_plans
from fairmend.repair.problem import RepairProblem
from fairmend.repair.settings import RepairSettings
from fairmend.search.judge import Figures, Judge, passing_chance, width
from fairmend.search.people import Part
from fairmend.status import PlanStatus
from fairmend.tables import number

__all__ = ["Candidate", "Kind", "all_candidates"]

Kind = Literal["current", "model", "cut", "input held", "blind", "reads the group"]

LEVELS = (0.05, 0.1, 0.2, 0.3, 0.45, 0.65, 0.8, 1.0)
"""Shares of the gap that blind repairs close; between two of them it is halved where a repair stops
to be about as good, and where it stops to have a fair chance to pass."""
HALVINGS = 3
FAIR_CHANCE = 0.7
FEW_LEVELS = (0.25, 0.5, 0.75, 1.0)
"""The same for raise-only and worded rules, and for repairs that read the group."""
CUTS = 40
"""Other cuts that are looked at; those kept are the best of each ``CUTS_KEPT``-th part."""
CUTS_KEPT = 6
VALUES = 3
"""Values that an input is held at, one after the other; the best is kept."""
PAIRS_OF = 4
"""The inputs whose pairs are tried."""
PAIRS_KEPT = 3
PlansAt = Callable[[float], Mapping[Hashable, Plan]]


@dataclass(frozen=True, eq=False)
class Candidate:
    """One thing that could be done: a model, its cut, and the plans in front of it."""

    name: str
    kind: Kind
    box: BlackBox
    settings: RepairSettings
    """Of the repair that it is; of a model without a repair the defaults."""
    plans: Mapping[Hashable, Plan] = field(default_factory=dict)
    source: Any = None
    """The other model, where it is one."""
    finish: Callable[[], Mapping[Hashable, Plan]] | None = None
    """The same plans with their figures, where those above only decide."""

    @property
    def reads_group(self) -> bool:
        return self.kind == "reads the group"

    def answers(self, part: Part, *, scores: bool = False) -> Answers:
        """What it decides about each person; ``scores`` as well, at the edited inputs."""
        if self.kind == "model":
            return self._of_other_model(part)
        now = part.answers
        if self.kind == "cut":
            assert now.score is not None
            return Answers((now.score > self.box.cut).astype(np.float64), now.score).take(part.row)
        if not self.plans:
            return part.current
        decision, score = now.decision[part.row], None
        if now.score is not None:
            score = now.score[part.row]
        for members, plan in self._laws(part):
            rows, inverse = np.unique(part.row[members], return_inverse=True)
            everybody = len(rows) == len(part.table)
            answers = now if everybody else now.take(rows)
            law = plan.route if scores else plan.decisions
            route = law(part.table if everybody else part.table.take(rows), answers)
            decision[members] = route.expected_decision(answers)[inverse]
            if scores and score is not None and route.score is not None:
                assert answers.score is not None
                score[members] = route.expected(answers.score, route.score)[inverse]
        return Answers(decision, score)

    def _laws(self, part: Part) -> Iterator[tuple[Any, Plan]]:
        """Whose law is which; a law that reads no group is one for everybody."""
        if not self.reads_group:
            yield np.arange(len(part)), next(iter(self.plans.values()))
            return
        for group, plan in self.plans.items():
            yield np.flatnonzero(part.group == part.data.groups.index(group)), plan

    def _of_other_model(self, part: Part) -> Answers:
        if self.name in part.given.beside:
            recorded = encode(as_column(part.given.beside[self.name], self.name), self.name)
            answers = self.box.interpret(recorded, part.data.labels).take(recorded.codes)
            return answers.take(part.kept)
        frame = Frame.read(part.given.X)
        names = self.box.inputs_among(frame.names, named=not frame.is_array) or part.table.names
        inputs = frame.select(names).take(part.kept)
        alike = inputs.distinct()
        return self.box.query(inputs.take(alike.first), part.data.labels).take(alike.inverse)


class Candidates:
    """Makes the candidates of one search on the people it may choose on."""

    def __init__(self, part: Part, judge: Judge, settings: RepairSettings, judges: int) -> None:
        """``judges`` is how many people will judge."""
        self.part, self.judge, self.settings, self.judges = part, judge, settings, judges

    def current(self) -> Candidate:
        """The model as it is."""
        return Candidate("the model as it is", "current", self.part.box, self.settings)

    def models(self, others: Mapping[str, Any]) -> Iterator[Candidate]:
        """Other models that the vendor offers."""
        for name, model in others.items():
            yield Candidate(str(name), "model", BlackBox.of(model), self.settings, source=model)

    # ---------------------------------------------------------------- one other cut

    def cuts(self) -> Iterator[Candidate]:
        """One other cut for everybody: a few along the way, each the best near it."""
        answers = self.part.current
        if answers.score is None or not np.isin(answers.decision, (0.0, 1.0)).all():
            return
        order = np.argsort(answers.score, kind="stable")
        upto = np.cumsum(self.part.outcomes.share[order])
        accepted = float(self.part.outcomes.share @ answers.decision)
        rates = np.linspace(0.5 * accepted, accepted + 0.3 * (1 - accepted), CUTS)
        lowest = np.unique(answers.score[order][np.searchsorted(upto, 1 - rates)])
        tried = []
        for score in lowest:
            cut = cut_between(answers.score, (answers.score >= score).astype(np.float64))
            if cut is None or np.array_equal(answers.score > cut[0], answers.decision == 1):
                continue
            box = copy(self.part.box)
            box.threshold = cut[0]
            made = Candidate(f"cut at {number(cut[0])}", "cut", box, self.settings)
            tried.append((made, self.judge.figures_of(made)))
        for some in np.array_split(np.arange(len(tried)), CUTS_KEPT):
            if len(some) > 0:
                yield min((tried[k] for k in some), key=lambda one: _order(one[1]))[0]

    # ---------------------------------------------------------------- an input held

    def held(self) -> Iterator[Candidate]:
        """An input held at one value for everybody, one at a time and the best pairs."""
        if not self.part.box.can_query:
            return
        singles = [
            best
            for name in self.part.table.names
            if name not in self.settings.edit_cost.immutable
            and (best := self._best_of(self._values_of(name))) is not None
        ]
        yield from (made for made, _ in singles)
        nearest = sorted(singles, key=lambda one: _order(one[1]))[:PAIRS_OF]
        pairs = []
        for (one, _), (other, _) in combinations(nearest, 2):
            both = self._held(_held_inputs(one) | _held_inputs(other))
            pair = self._best_of([both])
            pairs += [] if pair is None else [pair]
        yield from (made for made, _ in sorted(pairs, key=lambda one: _order(one[1]))[:PAIRS_KEPT])

    def _best_of(self, candidates: Sequence[Candidate]) -> tuple[Candidate, Figures] | None:
        """That with the least gap among those about as good; none where nothing changes."""
        judged = []
        for made in candidates:
            try:
                figures = self.judge.figures_of(made)
            except FairmendError:  # the model does not take that value with every other input
                continue
            if figures.changed > 0:
                judged.append((made, figures))
        return min(judged, key=lambda one: _order(one[1]), default=None)

    def _values_of(self, name: Any) -> list[Candidate]:
        """The input held at its most frequent values, or at the quartiles of a number."""
        column = self.part.table.encoded[self.part.table.names.index(name)]
        if len(column.values) < 2:
            return []
        share = np.bincount(
            column.codes[self.part.row], self.part.outcomes.share, len(column.values)
        )
        codes = np.argsort(-share, kind="stable")[:VALUES]
        numbers = as_numbers(column.values)
        if numbers is not None and len(column.values) > 2 * VALUES:
            upto = np.cumsum(share)
            codes = np.unique(np.searchsorted(upto, (0.25, 0.5, 0.75)))
        rows = [int(np.argmax(column.codes == code)) for code in codes]
        return [self._held({name: row}) for row in rows]

    def _held(self, rows: Mapping[Any, int]) -> Candidate:
        """Inputs held at their values in some rows of the table."""
        table, names = self.part.table, tuple(rows)
        values = table.take(np.array([rows[names[0]]]))
        for name in names[1:]:
            values = held_at(values, table.take(np.array([rows[name]])), (name,))
        label = ", ".join(
            f"{name} held at {_shown(table, name, row)}" for name, row in rows.items()
        )
        settings = self.settings
        plans: dict[Hashable, Plan] = {}
        for group, baseline in self._compared().items():
            problem = RepairProblem.read(
                self.part.data, settings, self.part.box, target=group, baseline=baseline
            )
            plan = HeldPlan(
                **problem.common(PlanStatus.REMAINS),
                held=names,
                values=values,
                box=self.part.box,
                labels=self.part.data.labels,
            )
            plans[group] = plan
        return Candidate(label, "input held", self.part.box, settings, plans, source=dict(rows))

    def _compared(self) -> dict[Hashable, Hashable]:
        """Each group, and the one it is compared with."""
        worst = self.judge.pairs[0]
        against = {pair.target: pair.baseline for pair in self.judge.pairs}
        return {
            group: against.get(group, worst.target if group != worst.target else worst.baseline)
            for group in self.part.data.groups
        }

    # ---------------------------------------------------------------- repairs

    def blind(self) -> Iterator[Candidate]:
        """Repairs that read no group: both ways, raise-only, and in words."""
        ways: tuple[tuple[str, dict[str, Any]], ...] = (
            ("blind", {}),
            ("blind, raise only", {"do_no_harm": True}),
            ("blind, in words", {"words": True}),
        )
        alike = None
        for name, more in ways:
            settings = replace(self.settings, **more)
            made = BlindLevels(self.part.data, settings, self.part.box, alike=alike)
            alike = alike or made
            repairs = _Repairs(self, name, "blind", settings, made.decided, finished_at=made.at)
            yield from repairs.at_levels(FEW_LEVELS) if more else repairs.sought()

    def aware(self) -> Iterator[Candidate]:
        """Repairs that read the group, for comparison."""
        settings = replace(self.settings, blind=False, rank=None)
        plans = make_plans(self.part.data, settings, self.part.box)
        at = plans_by_level(plans, self.part.data, settings, self.part.box)
        repairs = _Repairs(self, "reads the group", "reads the group", settings, at)
        yield from repairs.at_levels(FEW_LEVELS)


class _Repairs:
    """Repairs of one kind at any level, and what each does to the people who choose."""

    def __init__(
        self,
        search: Candidates,
        name: str,
        kind: Kind,
        settings: RepairSettings,
        at: PlansAt,
        *,
        finished_at: PlansAt | None = None,
    ) -> None:
        """``finished_at`` gives the figures of plans that ``at`` gives without."""
        self.search, self.name, self.kind, self.settings = search, name, kind, settings
        self._at, self._finished_at = at, finished_at
        self._made: dict[float, Candidate] = {}

    def made(self, level: float) -> Candidate:
        """The repair that closes so much of the gap."""
        if level not in self._made:
            settings = replace(self.settings, level=level)
            label = f"{self.name}, {number(100 * level)} %"
            box, plans = self.search.part.box, self._at(level)
            finish = None if self._finished_at is None else partial(self._finished_at, level)
            self._made[level] = Candidate(label, self.kind, box, settings, plans, finish=finish)
        return self._made[level]

    def at_levels(self, levels: Sequence[float]) -> Iterator[Candidate]:
        """The repairs at these levels, each that decides otherwise than those before it."""
        seen: set[Figures] = set()
        for level in levels:
            made = self.made(level)
            figures = self.search.judge.figures_of(made)
            if figures not in seen:
                seen.add(figures)
                yield made

    def sought(self) -> Iterator[Candidate]:
        """Repairs at `LEVELS`, and where they stop to be good enough."""
        figures = {level: self._figures(level) for level in LEVELS}
        for is_enough in (_is_within_margin, self._may_pass):
            low = max((one for one, its in figures.items() if is_enough(its)), default=0.0)
            high = min((one for one in figures if one > low), default=low)
            for _ in range(HALVINGS if high > low else 0):
                between = (low + high) / 2
                figures[between] = self._figures(between)
                low, high = (between, high) if is_enough(figures[between]) else (low, between)
        return self.at_levels(sorted(figures))

    def _figures(self, level: float) -> Figures:
        return self.search.judge.figures_of(self.made(level))

    def _may_pass(self, figures: Figures) -> bool:
        people = len(self.search.part)
        return passing_chance(figures, people, self.search.judges) >= FAIR_CHANCE


def _is_within_margin(figures: Figures) -> bool:
    return figures.performance.difference >= -figures.performance.margin


def _held_inputs(made: Candidate) -> dict[Any, int]:
    return dict(made.source)


def _shown(table: Frame, name: Any, row: int) -> str:
    column = table.encoded[table.names.index(name)]
    value = scalar(column.values[column.codes[row]])
    return number(value) if isinstance(value, float) else str(value)


def _order(figures: Figures) -> tuple[float, float]:
    """Those within the margin by their gap, then the others by what they lose."""
    short = max(0.0, -figures.performance.margin - figures.performance.difference)
    return short, width(figures.gap)


def all_candidates(
    part: Part,
    judge: Judge,
    settings: RepairSettings,
    others: Mapping[str, Any],
    *,
    judges: int,
    advance: Callable[[str], None],
) -> list[Candidate]:
    """Every candidate, the current one first; ``advance`` is told what is being made."""
    make = Candidates(part, judge, settings, judges)
    candidates = [make.current()]
    steps: dict[str, Callable[[], Iterator[Candidate]]] = {
        "other models": lambda: make.models(others),
        "other cuts": make.cuts,
        "inputs held at one value": make.held,
        "blind repairs": make.blind,
        "repairs that read the group": make.aware,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairmendWarning)  # of single repairs, for single repairs
        for what, step in steps.items():
            advance(what)
            candidates += step()
    twice = [name for name, times in Counter(one.name for one in candidates).items() if times > 1]
    check(
        not twice,
        "models",
        "must have names that no other candidate has",
        f"got {listed(twice)} twice",
        "Name it otherwise.",
    )
    return candidates
