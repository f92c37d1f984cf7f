"""Repair by transport: to a counterfactual distribution, or to the letter of the paper."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from fairmend.errors import DataError
from fairmend.explain.counterfactual import counterfactual_data
from fairmend.explain.descent import Stop
from fairmend.measure.disparity import Disparity, as_disparity
from fairmend.measure.population import AuditData, Population
from fairmend.repair.costs import Cost
from fairmend.repair.methods import repair_method
from fairmend.repair.plan import Outlook, Plan
from fairmend.repair.problem import RepairTask
from fairmend.repair.transport.coupler import Coupler, Ties
from fairmend.repair.transport.path import Path, Step, Walk
from fairmend.repair.transport.plan import CouplingPlan
from fairmend.status import PlanStatus

__all__ = ["paper", "transport"]

MOST_ROWS = 100_000
"""Every pair of rows is priced, several times over: more would take hours."""


@repair_method(
    "transport", help="the cheapest coupling with the counterfactual", uses=("level", "cost")
)
def transport(
    data: AuditData,
    *,
    disparity: str | Disparity,
    target: Hashable = None,
    baseline: Hashable = None,
    level: float = 1.0,
    cost: Cost | None = None,
    calibrate: Literal["realised", "counterfactual"] = "realised",
    counterfactual_method: Literal["projection", "descent"] = "projection",
    individual_fairness: Callable[[Any, Any], Any] | None = None,
    ties: Ties = "stay",
    outcome_model: Any = "auto",
    random_state: int = 0,
    other: Population | None = None,
) -> Plan:
    """Turn the target group's inputs into a counterfactual distribution at the least cost.

    Parameters
    ----------
    data
        The tabulated audit data, with inputs.
    disparity, target, baseline, level
        As in `fairmend.counterfactual`.
    cost
        What edits cost and which are forbidden. Parts of the group that no allowed edit connects
        keep their sizes: Q is tilted within each. Within a part (one-way features, a limit on
        edits) what no allowed edit can carry stays as it is and counts as unreachable, so the way
        may end before the gap is closed where `least_change` would still find edits.
    calibrate
        ``"realised"``: go as far (beyond M(Q) = 0, or less far) as closes the gap among people who
        keep their own outcomes. The gap is met exactly: where the cheapest coupling jumps from one
        to another on the way, the two are mixed. ``"counterfactual"``: M(Q) as asked, and whatever
        realised gap that leaves.
    counterfactual_method
        Where Q comes from: the projection, or the paper's descent by exact reweighting.
    individual_fairness
        A distance between people, a callable that takes two tables of rows and gives a matrix: no
        two laws are further apart in total variation than their rows are by it.
    ties
        Many couplings cost the same. ``"stay"`` takes one that edits as few people as can be;
        ``"order"`` one that moves scores least (squared), which keeps people's order by score far
        better, by many small edits instead of a few large ones, at next to the same cost.
    outcome_model, random_state
        As in `fairmend.counterfactual`.
    other
        The reference group as it will be, where other plans change it; by default as audited.

    >>> from fairmend.datasets import example_one
    >>> plan = transport(example_one().tabulated(), disparity="fpr")
    >>> plan.status.name, round(plan.outlook.gap_before, 4), abs(plan.outlook.gap_after) < 1e-9
    ('CLOSED', 0.2514, True)

    """
    if calibrate not in ("realised", "counterfactual"):
        raise DataError("calibrate", "must be 'realised' or 'counterfactual'", f"got {calibrate!r}",
                        "'realised' closes the gap that people experience.")  # fmt: skip
    if ties not in ("stay", "order"):
        raise DataError("ties", "must be 'stay' or 'order'", f"got {ties!r}",
                        "'stay' edits the fewest people.")  # fmt: skip
    wanted = as_disparity(disparity)
    task = _task(
        data, wanted, method="transport", target=target, baseline=baseline, level=level,
        cost=cost, outcome_model=outcome_model, random_state=random_state, other=other,
    )  # fmt: skip
    if task.nothing_to_close:
        return task.identity()
    task.warn_if_not_significant()
    found = counterfactual_data(
        data, disparity=wanted, method=counterfactual_method, target=task.target,
        baseline=task.baseline, level=level, outcome_model=outcome_model,
        random_state=random_state,
    )  # fmt: skip
    coupler = Coupler.of(task, individual_fairness, ties)
    walk = Walk(task, wanted, Path(task, wanted, found, coupler.classes), coupler)
    if calibrate == "counterfactual" or not walk.path.can_go_on:
        step = walk.to((1 - level) * walk.path.start) or walk.with_mass(found.mass)
    else:
        step = walk.until_closed()
    return _finished(task, step, coupler)


def _task(data: AuditData, wanted: Disparity, **settings: Any) -> RepairTask:
    """What a repair needs to know; a sum of gaps is reported part by part."""
    task = RepairTask.read_sum(data, wanted, **settings)
    if len(task.table) > MOST_ROWS:
        raise DataError(
            "X",
            f"must have at most {MOST_ROWS:,} distinct rows in the target group for transport",
            f"got {len(task.table):,}",
            "Round or bin its numbers, or use method='least_change'.",
        )
    return task


def _finished(
    task: RepairTask,
    step: Step,
    coupler: Coupler,
    *,
    unseen: Literal["nearest", "stay"] = "nearest",
) -> Plan:
    """The plan that follows a law between the task's own rows.

    Whoever is alone on a row stands for people whose rows were not seen: for what is expected on
    new data they are decided as if their row were not in the audit (Good and Turing's estimate).
    """
    otherwise = PlanStatus.REMAINS if step.feasible else PlanStatus.INFEASIBLE
    law = step.law.tocsr()
    law.sort_indices()
    start, place = law.indptr.astype(np.int64), law.indices.astype(np.int64)
    row = np.repeat(np.arange(len(task.table)), np.diff(start))
    plan = CouplingPlan(
        **task.common(task.done, Outlook()),
        table=task.table,
        cost=task.cost,
        decision=task.source.decision,
        score=task.source.score,
        start=start,
        place=place,
        probability=law.data,
        price=coupler.prices.at(row, place),
        unseen=unseen,
        solver=step.solver,
        guarantee=step.guarantee,
    )
    held_out, unseen_share = None, 0.0
    if task.source.tally is not None:
        people = task.source.tally.people.sum(axis=1)
        alone = np.flatnonzero(people == 1)
        unseen_share = float(people[alone].sum() / people.sum())
        held_out = plan.route_without(alone).expected_decision(task.source.answers)
    finished = task.finished(plan, otherwise, step.unmet, held_out=held_out)
    return replace(finished, outlook=replace(finished.outlook, unseen=unseen_share))


@repair_method("paper", help="the repair of the paper, to the letter", uses=())
def paper(
    data: AuditData,
    *,
    disparity: str | Disparity,
    target: Hashable = None,
    baseline: Hashable = None,
    step_size: float = 0.1,
    stop: Stop = "tolerance",
    tolerance: float = 1e-3,
    max_iter: int = 500,
    outcome_model: Any = "auto",
    random_state: int = 0,
    other: Population | None = None,
) -> Plan:
    """The paper's repair: Algorithm 1 with resampling, then optimal transport by squared L2.

    Q is what the paper estimates it by: a dataset as large as the group's, drawn with the weights
    the descent ends with. Rows that the audit data lacks stay as they are. The gap aimed at is
    M(Q), and what remains for people who keep their outcomes is in the plan's outlook.

    The paper's own stopping rule, ``stop="paper"``, ends when the gap no longer falls, which noise
    can bring about in the first steps; by default the descent ends once it is within
    ``tolerance``, and its best weights are kept.

    >>> from fairmend import datasets, tabulate
    >>> X, y, s = datasets.example_one().sample(20_000, random_state=0)
    >>> audited = tabulate(datasets.example_one().decision, X, y, sensitive_features=s)
    >>> plan = paper(audited, disparity="sp")
    >>> plan.method, abs(plan.outlook.gap_after) < 0.02
    ('paper', True)
    """
    wanted = as_disparity(disparity)
    task = _task(
        data, wanted, method="paper", target=target, baseline=baseline,
        cost=Cost(kind="squared_l2"), outcome_model=outcome_model, random_state=random_state,
        other=other,
    )  # fmt: skip
    if task.nothing_to_close:
        return task.identity()
    task.warn_if_not_significant()
    found = counterfactual_data(
        data, disparity=wanted, method="descent", target=task.target, baseline=task.baseline,
        outcome_model=outcome_model, random_state=random_state, resample=True,
        step_size=step_size, stop=stop, tolerance=tolerance, max_iter=max_iter,
    )  # fmt: skip
    rng = np.random.default_rng(random_state)
    drawn = rng.multinomial(task.source.n, found.mass / found.mass.sum())
    coupler = Coupler.of(task, None, ties="any")
    walk = Walk(task, wanted, Path(task, wanted, found, coupler.classes), coupler)
    return _finished(task, walk.with_mass(drawn / drawn.sum()), coupler, unseen="stay")
