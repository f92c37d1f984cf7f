"""Several gaps closed at once, as equalized odds wants: a linear program with a few constraints.

Each row's decision is turned with probability u_i in [0, 1]. With outcomes expected from
P(Y=1 | x),

    minimise sum w_i C_i u_i   subject to   excess_k + sum_i w_i b_ki u_i = 0 for every gap k.

An optimal u has at most one drawn row per constraint, and the constraints' prices make it a rule
for new rows: turn where the prices outweigh the cost. Where no u meets all constraints the answer
is that, with the point that leaves the smallest largest gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairmend.columns import FloatArray, Frame
from fairmend.destinations import Donors, join
from fairmend.errors import DataError
from fairmend.model import Answers
from fairmend.plan import Outlook, Plan, PlanStatus, Route
from fairmend.realised import RealisedGap
from fairmend.rows import find_rows
from fairmend.task import KnownOutcome, RepairTask

__all__ = ["JointPlan", "close_jointly"]

_ROUNDS = 30
_CLOSE = 1e-9


@dataclass(frozen=True, eq=False)
class JointPlan(Plan):
    """Turn decisions where the constraints' prices outweigh the cost of the edit."""

    gaps: tuple[RealisedGap, ...]
    prices: FloatArray
    outcome: KnownOutcome
    donors: tuple[Donors, Donors]
    """Where rows decided 0 go, and where rows decided 1 go."""
    seen: Frame
    chance: FloatArray
    """Of turning, for each row of ``seen``: the program's own answer."""

    def route(self, rows: Frame, answers: Answers) -> Route:
        """Rows of the audit by the program's answer, new rows by its prices."""
        place = find_rows(self.seen, rows)
        chance = self.chance[np.maximum(place, 0)]
        chance[place < 0] = 1.0  # to be judged below, once their cost is known
        parts = []
        for decision in (0.0, 1.0):
            at = np.flatnonzero((answers.decision == decision) & (chance > 0))
            if len(at) > 0:
                found = self.donors[int(decision)].nearest(rows.take(at))
                keep = found.reached.copy()
                new = np.flatnonzero((place[at] < 0) & keep)
                if len(new) > 0:
                    asked = rows.take(at[new])
                    worth = self.worth(self.outcome.of(asked), decision)
                    keep[new] = worth > found.cost[new]
                kept = np.flatnonzero(keep)
                parts.append((at[kept], found.take(kept)))
        if not any(len(at) for at, _ in parts):
            return Route.stay(len(rows))
        at = np.concatenate([one for one, _ in parts])
        return Route.flips(len(rows), at, chance[at], join([found for _, found in parts]))

    def worth(self, outcome: FloatArray, decision: float) -> FloatArray:
        """What turning such people's decision is worth at the constraints' prices."""
        return np.asarray(
            self.prices @ _turning(self.gaps, outcome, np.full(len(outcome), decision))
        )


def _turning(gaps: Sequence[RealisedGap], outcome: FloatArray, decision: FloatArray) -> FloatArray:
    """What turning each decision adds to each gap's excess, shape (gaps, rows)."""
    return np.stack([gap.slope(outcome) for gap in gaps]) * (1 - 2 * decision)


def close_jointly(task: RepairTask) -> Plan:
    """Solve the program, and move its right-hand side until the observed outcomes agree."""
    if task.is_soft:
        raise DataError(
            "disparity",
            "must be a single one where decisions are soft",
            f"got {len(task.gaps)}",
            "Make decisions hard with a threshold, or use method='transport'.",
        )
    source, gaps = task.source, task.gaps
    outcome = task.outcome(pooled=False)
    donors = (task.donors(1.0), task.donors(0.0))
    cost = np.empty(len(source))
    for decision in (0, 1):
        at = np.flatnonzero(source.decision == decision)
        cost[at] = donors[decision].nearest(task.table.take(at)).cost
    weight = gaps[0].weight.sum(axis=1)
    effect = weight * _turning(gaps, outcome.of(task.table), source.decision)
    scale = np.array([abs(gap.excess(np.zeros(len(source)))) + abs(gap.excess(np.ones(len(source))))
                      for gap in gaps])  # fmt: skip
    start = np.array([gap.excess(source.decision) for gap in gaps])
    offset = np.zeros(len(gaps))
    status, chance, prices = task.done, np.zeros(len(source)), np.zeros(len(gaps))
    for _ in range(_ROUNDS):
        solved = _solve(weight, cost, effect, start + offset)
        if solved is None:
            chance, prices = _nearest(weight, cost, effect, start + offset, scale)
            status = PlanStatus.INFEASIBLE
            break
        chance, prices = solved
        decided = source.decision + chance * (1 - 2 * source.decision)
        missed = np.array([gap.excess(decided) for gap in gaps])
        if np.abs(missed / scale).max() <= _CLOSE:
            break
        offset = offset + missed
    plan = JointPlan(
        **task.common(status, Outlook()),
        gaps=gaps,
        prices=prices,
        outcome=outcome,
        donors=donors,
        seen=task.table,
        chance=chance,
    )
    unreachable = float(source.mass[~np.isfinite(cost)].sum())
    return task.finished(plan, status, unreachable)


def _solve(
    weight: FloatArray, cost: FloatArray, effect: FloatArray, excess: FloatArray
) -> tuple[FloatArray, FloatArray] | None:
    """The cheapest u with effect u = -excess and the constraints' prices; None if there is none."""
    from scipy.optimize import linprog

    free = np.isfinite(cost)
    answer = linprog(
        np.where(free, weight * np.where(free, cost, 0.0), 0.0),
        A_eq=effect,
        b_eq=-excess,
        bounds=[(0.0, 1.0 if allowed else 0.0) for allowed in free],
        method="highs",
    )
    if answer.status != 0:
        return None
    return np.clip(np.asarray(answer.x), 0.0, 1.0), np.asarray(answer.eqlin.marginals)


def _nearest(
    weight: FloatArray, cost: FloatArray, effect: FloatArray, excess: FloatArray, scale: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Minimise the largest |excess_k| / scale_k instead, then nothing else."""
    from scipy.optimize import linprog

    free = np.isfinite(cost)
    rows, count = effect.shape[1], len(excess)
    effect, excess = effect / scale[:, None], excess / scale
    answer = linprog(
        np.r_[np.zeros(rows), 1.0],
        A_ub=np.block([[effect, -np.ones((count, 1))], [-effect, -np.ones((count, 1))]]),
        b_ub=np.r_[-excess, excess],
        bounds=[*((0.0, 1.0 if allowed else 0.0) for allowed in free), (0.0, None)],
        method="highs",
    )
    # an infeasible program has no prices for new rows: those stay as they are
    return np.clip(np.asarray(answer.x)[:rows], 0.0, 1.0), np.zeros(count)
