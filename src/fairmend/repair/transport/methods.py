"""Repair by transport: to a counterfactual distribution, or to the letter of the paper."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from fairmend.errors import check, check_choice
from fairmend.explain.counterfactual import counterfactual_data
from fairmend.explain.descent import Stop
from fairmend.measure.disparity import Disparity
from fairmend.repair.costs import Cost
from fairmend.repair.methods import repair_method
from fairmend.repair.plan import Plan
from fairmend.repair.problem import RepairProblem
from fairmend.repair.transport.coupler import Coupler, Ties
from fairmend.repair.transport.path import Step, Walk
from fairmend.repair.transport.plan import CouplingPlan
from fairmend.status import PlanStatus

MOST_ROWS = 100_000
"""Every pair of rows is priced, several times over: more would take hours."""


@dataclass(frozen=True)
class TransportOptions:
    """Options of ``method="transport"``.

    ``calibrate="realised"`` goes as far (beyond M(Q) = 0, or less far) as closes the gap among
    people who keep their own outcomes. The gap is met exactly: where the cheapest coupling jumps
    from one to another on the way, the two are mixed. ``"counterfactual"`` takes M(Q) as asked, and
    whatever realised gap that leaves.

    ``counterfactual_method`` is where Q comes from: the projection, or the paper's descent by exact
    reweighting. ``individual_fairness`` is a distance between people, a callable that takes two
    tables of rows and gives a matrix: no two laws are further apart in total variation than their
    rows are by it.

    Many couplings cost the same. ``ties="stay"`` takes one that edits as few people as can be;
    ``"order"`` one that changes scores least (squared), which keeps people's order by score far
    better, by many small edits instead of a few large ones, at next to the same cost.
    """

    calibrate: Literal["realised", "counterfactual"] = "realised"
    counterfactual_method: Literal["projection", "descent"] = "projection"
    individual_fairness: Callable[[Any, Any], Any] | None = None
    ties: Ties = "stay"

    def __post_init__(self) -> None:
        check_choice("calibrate", self.calibrate, ("realised", "counterfactual"),
                     "'realised' closes the gap that people experience.")  # fmt: skip
        check_choice("ties", self.ties, ("stay", "order"), "'stay' edits the fewest people.")


@repair_method(
    "transport",
    help="the cheapest way to the counterfactual distribution",
    uses=("level", "cost"),
    options=TransportOptions,
)
def transport(problem: RepairProblem) -> Plan:
    """Turn the target group's inputs into a counterfactual distribution at the least cost.

    Parts of the group that no allowed edit connects keep their sizes: Q is tilted within each.
    Within a part (one-way features, a limit on edits) what no allowed edit can carry stays as it is
    and counts as unreachable, so the way may end before the gap is closed where `least_change`
    would still find edits.

    >>> from fairmend.datasets import example_one
    >>> from fairmend.repair.settings import RepairSettings
    >>> settings = RepairSettings(disparity="fpr", method="transport")
    >>> plan = transport(RepairProblem.read(example_one().tabulated(), settings))
    >>> plan.status.name, round(plan.outlook.gap_before, 4), abs(plan.outlook.gap_after) < 1e-9
    ('CLOSED', 0.2514, True)
    """
    options = problem.options(TransportOptions)
    disparity = _single(problem)
    walk = Walk(
        problem,
        disparity,
        counterfactual_data(
            problem.data,
            disparity=disparity,
            method=options.counterfactual_method,
            level=problem.level,
            **_as_in(problem),
        ),
        Coupler.of(problem, options.individual_fairness, options.ties),
    )
    if options.calibrate == "counterfactual" or not walk.can_go_on:
        aim = (1 - problem.level) * walk.start
        step = walk.to(aim) or walk.with_mass(walk.counterfactual.mass)
    else:
        step = walk.until_closed()
    return _finished(problem, step, walk.coupler)


@dataclass(frozen=True)
class PaperOptions:
    """Options of ``method="paper"``: those of the descent.

    The paper's own stopping rule, ``stop="paper"``, ends when the gap no longer falls, which noise
    can bring about in the first steps; by default the descent ends once it is within ``tolerance``,
    and its best weights are kept.
    """

    step_size: float = 0.1
    stop: Stop = "tolerance"
    tolerance: float = 1e-3
    max_iter: int = 500


@repair_method("paper", help="the repair of the paper", uses=(), options=PaperOptions)
def paper(problem: RepairProblem) -> Plan:
    """The paper's repair: Algorithm 1 with resampling, then optimal transport by squared L2.

    Q is what the paper estimates it by: a dataset as large as the group's, drawn with the weights
    the descent ends with. Rows that the audit data lacks stay as they are. The gap aimed at is
    M(Q), and what remains for people who keep their outcomes is in the plan's outlook.

    >>> from fairmend import datasets, tabulate
    >>> from fairmend.repair.settings import RepairSettings
    >>> X, y, s = datasets.example_one().sample(20_000, random_state=0)
    >>> audited = tabulate(datasets.example_one().decision, X, y, sensitive_features=s)
    >>> plan = paper(RepairProblem.read(audited, RepairSettings(method="paper")))
    >>> plan.method, abs(plan.outlook.gap_after) < 0.02
    ('paper', True)
    """
    problem = replace(problem, cost=replace(problem.cost, cost=Cost(kind="squared_l2")))
    disparity = _single(problem)
    counterfactual = counterfactual_data(
        problem.data,
        disparity=disparity,
        method="descent",
        resample=True,
        **_as_in(problem),
        **asdict(problem.options(PaperOptions)),
    )
    rng = np.random.default_rng(problem.settings.seed)
    counts = rng.multinomial(problem.source.n, counterfactual.mass / counterfactual.mass.sum())
    walk = Walk(problem, disparity, counterfactual, Coupler.of(problem, None, ties="any"))
    step = walk.with_mass(counts / counts.sum())
    return _finished(problem, step, walk.coupler, unseen="stay")


def _single(problem: RepairProblem) -> Disparity:
    """The one disparity, which may be a sum; refuses more than transport can do."""
    wanted = problem.settings.disparities
    check(
        len(wanted) == 1,
        "disparity",
        f"must be a single one for method={problem.settings.method_name!r}",
        f"got {len(wanted)}",
        "Combine them (0.5 * FNR + 0.5 * FPR), or use method='least_change'.",
    )
    check(
        len(problem.table) <= MOST_ROWS,
        "X",
        f"must have at most {MOST_ROWS:,} distinct rows in the target group for transport",
        f"got {len(problem.table):,}",
        "Round or bin its numbers, or use method='least_change'.",
    )
    return wanted[0]


def _as_in(problem: RepairProblem) -> dict[str, Any]:
    """What a counterfactual has in common with the problem."""
    return {
        "target": problem.target,
        "baseline": problem.baseline,
        "outcome_model": problem.settings.outcome_model,
        "random_state": problem.settings.seed,
    }


def _finished(
    problem: RepairProblem,
    step: Step,
    coupler: Coupler,
    *,
    unseen: Literal["nearest", "stay"] = "nearest",
) -> Plan:
    """The plan that follows a law between the problem's own rows.

    Whoever is alone on a row stands for people whose rows were not seen: for what is expected on
    new data they are decided as if their row were not in the audit (Good and Turing's estimate).
    """
    law = step.law.tocsr()
    law.sort_indices()
    start, place = law.indptr.astype(np.int64), law.indices.astype(np.int64)
    row = np.repeat(np.arange(len(problem.table)), np.diff(start))
    plan = CouplingPlan(
        **problem.common(PlanStatus.REMAINS if step.feasible else PlanStatus.INFEASIBLE),
        table=problem.table,
        cost=problem.cost,
        decision=problem.source.decision,
        score=problem.source.score,
        start=start,
        place=place,
        probability=law.data,
        price=coupler.prices.at(row, place),
        unseen=unseen,
        solver=step.solver,
        guarantee=step.guarantee,
    )
    if problem.source.tally is None:
        return problem.finished(plan, unreachable=step.unmet)
    people = problem.source.tally.people.sum(axis=1)
    alone = np.flatnonzero(people == 1)
    route = plan.route(problem.table, problem.source.answers)
    held_out = plan.route_without(alone).expected_decision(problem.source.answers)
    return problem.finished(
        plan,
        route=route,
        unreachable=step.unmet,
        optimism=problem.optimism(route, held_out),
        unseen=float(people[alone].sum() / people.sum()),
    )
