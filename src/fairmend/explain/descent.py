"""Distributional descent, the paper's Algorithm 1, with resampling or exact reweighting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from fairmend.data.columns import FloatArray, IntArray
from fairmend.errors import DataError
from fairmend.explain.projection import observed_gap
from fairmend.measure.disparity import Disparity
from fairmend.measure.population import Population
from fairmend.progress import progress
from fairmend.status import Status

__all__ = ["Trace", "descend"]

Stop = Literal["tolerance", "paper", "never"]


@dataclass(frozen=True, eq=False)
class Trace:
    """The course of a descent, one entry per iteration, the start included."""

    value: FloatArray
    """The disparity on the audit data."""
    holdout_value: FloatArray | None
    """The same on holdout data reweighted by the same factors."""
    step: FloatArray
    """The step size used to get there; 0 for the start."""
    clipped: IntArray
    """Rows whose factor 1 - step psi would have been negative and was cut at 0."""


def descend(
    target: Population,
    baseline: Population,
    disparity: Disparity,
    *,
    step_size: float = 0.1,
    resample: bool = False,
    stop: Stop = "tolerance",
    tolerance: float = 1e-6,
    max_iter: int = 2_000,
    target_gap: float = 0.0,
    holdout: tuple[Population, Population] | None = None,
    random_state: int | np.random.Generator | None = 0,
) -> tuple[FloatArray, Status, Trace]:
    """Distributional descent, the paper's Algorithm 1: w <- (1 - step psi) w, again and again.

    The settings:

    step_size
        The paper's epsilon. With ``stop="tolerance"`` no step is longer than what closes the gap
        to first order, so that the descent settles instead of swinging about 0.
    resample
        Draw people anew at every iteration and measure on them, as the paper does; otherwise the
        masses are reweighted exactly.
    stop
        ``"tolerance"``: when the disparity is within ``tolerance`` of ``target_gap``.
        ``"paper"``: when it no longer comes nearer (with resampling, noise alone can end it early).
        ``"never"``: run all ``max_iter`` iterations.
    holdout
        Target and baseline populations to follow along, reweighted by the same factors.

    Returns the best masses met (the last ones for ``"paper"``), a status and the trace.

    >>> from fairmend.datasets import toy_descent
    >>> from fairmend import FPR
    >>> target, baseline = toy_descent().tabulated().populations
    >>> mass, status, trace = descend(target, baseline, FPR)
    >>> status.name, round(float(trace.value[0]), 4), bool(abs(trace.value[-1]) < 1e-6)
    ('CLOSED', 0.2853, True)

    """
    _check(
        "step_size", bool(np.isfinite(step_size)) and step_size > 0,
        "must be a positive number", step_size, "0.1 is a careful start.",
    )  # fmt: skip
    _check(
        "stop", stop in ("tolerance", "paper", "never"),
        "must be 'tolerance', 'paper' or 'never'", stop,
        "The paper's rule stops when the disparity no longer comes nearer.",
    )  # fmt: skip
    _check(
        "tolerance", bool(np.isfinite(tolerance)) and tolerance >= 0,
        "must be a number of rate points, not negative", tolerance, "1e-6 is usual.",
    )  # fmt: skip
    _check("max_iter", max_iter >= 1, "must be at least 1", max_iter, "2000 is the default.")
    _check(
        "resample", not (resample and target.tally is None),
        "must be False for an exact distribution", resample, "There are no people to resample.",
    )  # fmt: skip
    rng = np.random.default_rng(random_state)
    current, ghost = target, None if holdout is None else holdout[0]
    value = observed_gap(disparity, target.observed if resample else target, baseline)
    best = weight = target.mass
    distance = best_distance = abs(value - target_gap)
    values, held, steps, cuts = [value], [_held_value(disparity, ghost, holdout)], [0.0], [0]
    with progress("descending", max_iter) as advance:
        for _ in range(max_iter):
            if stop == "tolerance" and best_distance <= tolerance:
                break
            psi, ghost_psi = _influence_with_holdout(disparity, current, baseline, ghost)
            direction = 1.0 if value >= target_gap else -1.0
            step = step_size
            if stop == "tolerance":
                variance = float(current.mass @ psi**2)
                if variance <= 1e-30:
                    break  # flat: nowhere to go
                step = min(step, distance / variance)
            factor = 1 - step * direction * psi
            weight = weight * np.maximum(factor, 0.0)
            weight = weight / weight.sum()
            if ghost is not None and ghost_psi is not None:
                moved = ghost.mass * np.maximum(1 - step * direction * ghost_psi, 0.0)
                ghost = ghost.reweighted(moved / moved.sum())
            current = measured = target.reweighted(weight)
            if resample:
                mass, outcome = _resampled(target, weight, rng)
                current = target.reweighted(mass)
                measured = current.with_outcome(outcome)
            value = disparity.value(measured, baseline)
            previous, distance = distance, abs(value - target_gap)
            values.append(value)
            held.append(_held_value(disparity, ghost, holdout))
            steps.append(step)
            cuts.append(int((factor < 0).sum()))
            if stop == "paper" or distance < best_distance:
                best, best_distance = weight, distance
            advance(1)
            if stop == "paper" and distance >= previous:
                break
    trace = Trace(
        np.array(values),
        None if holdout is None else np.array(held),
        np.array(steps),
        np.array(cuts, np.int64),
    )
    return best, _status(best_distance <= tolerance, len(values) > 1, target_gap), trace


def _status(reached: bool, moved: bool, target_gap: float) -> Status:
    if not reached:
        return Status.STOPPED
    if target_gap != 0:
        return Status.PARTLY
    return Status.CLOSED if moved else Status.NOTHING_TO_DO


def _check(what: str, holds: bool, must: str, got: object, fix: str) -> None:
    if not holds:
        raise DataError(what, must, f"got {got!r}", fix)


# The holdout rides along with this weight, so that the influence function's constants stay those of
# the audit data.
_GHOST = 1e-200


def _influence_with_holdout(
    disparity: Disparity, current: Population, baseline: Population, ghost: Population | None
) -> tuple[FloatArray, FloatArray | None]:
    if ghost is None:
        return disparity.influence(current, baseline), None

    def joined(field: str, scale: float = 1.0) -> Any:
        here, there = getattr(current, field), getattr(ghost, field)
        return None if here is None or there is None else np.concatenate([here, scale * there])

    both = Population(
        mass=joined("mass", _GHOST),
        decision=joined("decision"),
        outcome=joined("outcome"),
        baseline_mass=joined("baseline_mass", _GHOST),
    )
    psi = disparity.influence(both, baseline)
    return psi[: len(current)], psi[len(current) :]


def _held_value(
    disparity: Disparity, ghost: Population | None, holdout: tuple[Population, Population] | None
) -> float:
    if ghost is None or holdout is None:
        return float("nan")
    return disparity.value(ghost, holdout[1])


def _resampled(
    target: Population, weight: FloatArray, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Draw as many people as there are with the weights, the paper's RESAMPLE.

    The masses of the rows drawn, and the share of positive outcomes among the people drawn there.
    """
    assert target.tally is not None
    per_row = target.tally.weight.sum(axis=1, keepdims=True)
    cells = weight[:, None] * target.tally.weight / per_row
    drawn = rng.multinomial(target.n, (cells / cells.sum()).ravel()).reshape(cells.shape)
    total = drawn.sum(axis=1)
    share = np.divide(drawn[:, 1], total, out=np.zeros(len(total)), where=total > 0)
    return total / total.sum(), share
