"""Gaps that a repair could not close, and which of the rules for edits stand in the way."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from textwrap import fill
from typing import TYPE_CHECKING, Any

from fairmend.errors import FairmendWarning

if TYPE_CHECKING:
    from fairmend.classifier import RepairedClassifier
    from fairmend.cli.people import FilePeople
    from fairmend.repair.plan import Plan

MOST_RULES, MOST_PEOPLE = 6, 20_000
"""Beyond these it takes long to try what each rule does."""
LEAST_HELP = 0.0005
"""Less than this is not seen in points with one decimal."""
WIDTH = 100
_GAP = ("metric", "before", "after", "closed")


@dataclass(frozen=True)
class Rule:
    """One thing that edits must keep to, as it was typed."""

    flag: str
    value: Any

    def __str__(self) -> str:
        text = ":".join(self.value) if isinstance(self.value, tuple) else str(self.value)
        return f"{self.flag} {shlex.quote(text)}"


def settings_of(
    rules: Sequence[Rule], always: Sequence[str] = (), weights: Mapping[str, float] | None = None
) -> dict[str, Any]:
    """The rules as the classifier takes them; what is ``always`` immutable is nobody's rule.

    ``weights`` say how dear edits of an input are.

    >>> settings_of([Rule("--immutable", "age"), Rule("--one-way", ("income", "up"))])
    {'immutable': ('age',), 'one_way': {'income': 'up'}, 'cost': None}
    """
    from fairmend.repair.costs import Cost

    values: dict[str, list[Any]] = {"--immutable": [], "--one-way": [], "--max-edits": []}
    for rule in rules:
        values[rule.flag].append(rule.value)
    most = values["--max-edits"]
    return {
        "immutable": (*values["--immutable"], *always),
        "one_way": dict(values["--one-way"]) or None,
        "cost": Cost(weights=weights or {}, max_edits=next(iter(most), None))
        if most or weights
        else None,
    }


@dataclass(frozen=True)
class Trial:
    """What the repair would leave without one of the rules, and with that rule alone."""

    rule: str
    gap_without: float
    unreachable_without: float
    gap_alone: float
    unreachable_alone: float


@dataclass(frozen=True)
class Shortfall:
    """A gap that is still there on the people the repair was fitted on."""

    metric: str
    target: str
    baseline: str
    status: str
    before: float
    after: float
    """Of the metric of which most is left, both."""
    edited: float
    unreachable: float
    """Share of the group that the rule would edit but no allowed edit helps."""
    why: str
    trials: tuple[Trial, ...] = ()
    gaps: tuple[dict[str, Any], ...] = ()
    """Each metric with its gap before and after, and whether it is closed."""
    headlines: tuple[str, ...] = ()
    """One for each metric whose gap is not closed."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        parts = [fill(f"{line}.", WIDTH) for line in self.headlines[:-1]]
        parts.append(fill(f"{self.headlines[-1]}. {self.why}", WIDTH))
        if self.trials:
            parts.append(str(self._table()))
        return "\n\n".join(parts)

    def _table(self) -> Any:
        from fairmend.measure.wording import share
        from fairmend.tables import TextTable, points

        cells = [
            (one.rule, points(one.gap_without), share(one.unreachable_without),
             points(one.gap_alone), share(one.unreachable_alone))
            for one in self.trials
        ]  # fmt: skip
        headers = ("<rule", "gap without it", "unreachable", "gap with it alone", "unreachable")
        return TextTable("What each rule costs", headers, cells)


def find_shortfalls(
    repaired: RepairedClassifier, rules: Sequence[Rule], always: Sequence[str], people: FilePeople
) -> list[Shortfall]:
    """The worst-off group first, with what each rule does to that one where it is cheap to try."""
    from fairmend.measure.wording import describe_open_gap, widest
    from fairmend.status import PlanStatus

    short = [
        plan
        for plan in worst_first(repaired)
        if not plan.status.closed and plan.status is not PlanStatus.IDENTITY and _is_left(plan)
    ]
    recorded = repaired.box_.column is not None
    cheap = recorded and len(rules) <= MOST_RULES and len(people) <= MOST_PEOPLE
    shortfalls = []
    for place, plan in enumerate(short):
        trials = _tried(repaired, rules, always, people, plan) if cheap and place == 0 else ()
        outlook = plan.outlook
        _, before, after = widest(plan.by_metric)
        gaps = [(*gap, abs(gap[2]) <= outlook.tolerance) for gap in plan.by_metric]
        headlines = [
            describe_open_gap(gap[0], plan.group_names, *gap[1:3], outlook.tolerance)
            for gap in gaps
            if not gap[3]
        ]
        shortfall = Shortfall(
            plan.metric,
            str(plan.target),
            str(plan.baseline),
            plan.status.name,
            before,
            after,
            outlook.edited,
            outlook.unreachable,
            _why(plan, trials, recorded=recorded, ruled=bool(rules)),
            trials,
            tuple(dict(zip(_GAP, gap, strict=True)) for gap in gaps),
            tuple(headlines),
        )
        shortfalls.append(shortfall)
    return shortfalls


def worst_first(repaired: RepairedClassifier) -> list[Plan]:
    """The plans, that of the worst-off group first, as in the report."""
    from fairmend.measure.disparity import read_disparities

    order = repaired.audit_.worst_first(read_disparities(repaired.disparity)[0].name)
    return sorted(repaired.plans_.values(), key=lambda plan: order.index(plan.target))


def _is_left(plan: Plan) -> bool:
    return any(abs(after) > plan.outlook.tolerance for _, _, after in plan.by_metric)


def _why(plan: Plan, trials: Sequence[Trial], *, recorded: bool, ruled: bool) -> str:
    """What is in the way, the first thing first, and what would help."""
    from fairmend.measure.wording import share
    from fairmend.status import PlanStatus

    blocked = recorded and plan.outlook.unreachable > 0
    sentences = [] if blocked and plan.status is PlanStatus.UNREACHABLE else [plan.in_words.status]
    if blocked:
        kept = " that keeps to the rules for edits" if ruled else ""
        sentences.append(
            "With --predictions people can only be edited into rows that are in the file: for "
            f"{share(plan.outlook.unreachable)} of {plan.group_names[0]}, whom the repair would "
            f"edit, there is none with the other decision{kept}. With --model the model itself is "
            "queried about further rows."
        )
    sentences += _worth_dropping(plan, trials)
    return " ".join(sentences)


def _worth_dropping(plan: Plan, trials: Sequence[Trial]) -> list[str]:
    """The rule without which least of the gap is left, if that is less than now."""
    from fairmend.measure.wording import widest
    from fairmend.tables import points

    best = min(trials, key=lambda trial: abs(trial.gap_without), default=None)
    if best is None or abs(best.gap_without) > abs(widest(plan.by_metric)[2]) - LEAST_HELP:
        return []
    which = "the gap" if len(plan.by_metric) == 1 else "the widest gap left"
    return [f"Without {best.rule} {which} would be {points(best.gap_without)} points."]


def _tried(
    repaired: RepairedClassifier,
    rules: Sequence[Rule],
    always: Sequence[str],
    people: FilePeople,
    plan: Plan,
) -> tuple[Trial, ...]:
    weights = getattr(repaired.cost, "weights", None)

    def left_by(kept: Sequence[Rule]) -> tuple[float, float]:
        settings = repaired.get_params(deep=False) | settings_of(kept, always, weights)
        relaxed = {"do_no_harm": False, "require_significant": False}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FairmendWarning)  # the repair itself has warned
            again = type(repaired)(**settings | relaxed).fit(**people.call)
        other = again.plans_.get(plan.target)
        return (0.0, 0.0) if other is None else (other.outlook.gap_after, other.outlook.unreachable)

    return tuple(
        Trial(str(rule), *left_by([r for r in rules if r is not rule]), *left_by([rule]))
        for rule in rules
    )
