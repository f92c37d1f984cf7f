"""Distributional descent, the paper's Algorithm 1, with resampling or exact reweighting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypedDict, get_args

import numpy as np

from fairmend.data.columns import FloatArray, IntArray
from fairmend.errors import check, check_between, check_choice, check_whole
from fairmend.explain.projection import observed_gap
from fairmend.measure.disparity import Disparity
from fairmend.measure.population import Population, Tally
from fairmend.progress import progress
from fairmend.status import Status

Stop = Literal["tolerance", "paper", "never"]


class DescentSettings(TypedDict, total=False):
    """The settings of `descend`, as keywords of other functions."""

    step_size: float
    resample: bool
    stop: Stop
    tolerance: float
    max_iter: int
    target_gap: float
    holdout: Any
    """Populations of target and baseline, or data to make them of."""


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
        The paper's epsilon. With ``stop="tolerance"`` no step is longer than what closes the gap to
        first order, so that the descent converges and does not oscillate around 0.
    resample
        Draw people again at every iteration and measure on them, as the paper does; otherwise the
        masses are reweighted exactly.
    stop
        ``"tolerance"``: when the disparity is within ``tolerance`` of ``target_gap``.
        ``"paper"``: when it no longer comes nearer (with resampling, noise alone can end it early).
        ``"never"``: run all ``max_iter`` iterations.
    holdout
        Target and baseline populations that are reweighted by the same factors and traced.

    Returns the best masses found (the last ones for ``"paper"``), a status and the trace.

    >>> from fairmend.datasets import toy_descent
    >>> from fairmend import FPR
    >>> target, baseline = toy_descent().tabulated().populations
    >>> mass, status, trace = descend(target, baseline, FPR)
    >>> status.name, round(float(trace.value[0]), 4), bool(abs(trace.value[-1]) < 1e-6)
    ('CLOSED', 0.2853, True)

    """
    _check_settings(step_size, stop, tolerance, max_iter)
    _check_resample(resample, target)
    rng = np.random.default_rng(random_state)
    current = target
    held, other = (None, baseline) if holdout is None else holdout
    value = observed_gap(disparity, target.observed if resample else target, baseline)
    best = weight = target.mass
    distance = best_distance = abs(value - target_gap)
    course = [(value, _value(disparity, held, other), 0.0, 0)]
    with progress("descending", max_iter) as advance:
        for _ in range(max_iter):
            if stop == "tolerance" and best_distance <= tolerance:
                break
            psi, held_psi = _influence_with_holdout(disparity, current, baseline, held)
            step = step_size
            if stop == "tolerance":
                variance = float(current.mass @ psi**2)
                if variance <= 1e-30:
                    break  # flat: nowhere to go
                step = min(step, distance / variance)
            signed = step if value >= target_gap else -step
            weight = _stepped(weight, signed * psi)
            if held is not None:
                held = held.reweighted(_stepped(held.mass, signed * held_psi))
            current = measured = target.reweighted(weight)
            if resample:
                current, measured = _resampled(target, weight, rng)
            value = disparity.value(measured, baseline)
            previous, distance = distance, abs(value - target_gap)
            clipped = int((signed * psi > 1).sum())
            course.append((value, _value(disparity, held, other), step, clipped))
            if stop == "paper" or distance < best_distance:
                best, best_distance = weight, distance
            advance(1)
            if stop == "paper" and distance >= previous:
                break
    values, held_values, steps, cut = map(np.array, zip(*course, strict=True))
    trace = Trace(values, None if holdout is None else held_values, steps, cut)
    return best, _status(best_distance <= tolerance, len(course) > 1, target_gap), trace


def _check_settings(step_size: float, stop: str, tolerance: float, max_iter: int) -> None:
    check_between("step_size", step_size, 0, fix="0.1 is a careful start.", open_ended=True)
    fix = "The paper's rule stops when the disparity no longer comes nearer."
    check_choice("stop", stop, get_args(Stop), fix)
    check_between("tolerance", tolerance, 0, fix="It is in points of a rate; 1e-6 is usual.")
    check_whole("max_iter", max_iter, 1, "2000 is the default.")


def _check_resample(resample: bool, target: Population) -> None:
    fix = "There are no people to resample."
    must = "must be False for an exact distribution"
    check(not resample or target.tally is not None, "resample", must, f"got {resample!r}", fix)


def _stepped(mass: FloatArray, step: FloatArray) -> FloatArray:
    """Masses after a step; what would be negative is cut at 0."""
    moved = mass * np.maximum(1 - step, 0.0)
    return np.asarray(moved / moved.sum(), np.float64)


def _status(reached: bool, moved: bool, target_gap: float) -> Status:
    if not reached:
        return Status.STOPPED
    if target_gap != 0:
        return Status.PARTLY
    return Status.CLOSED if moved else Status.NOTHING_TO_DO


# The holdout has this weight beside the audit data, whose constants the influence function keeps.
_NEXT_TO_NOTHING = 1e-200


def _influence_with_holdout(
    disparity: Disparity, current: Population, baseline: Population, held: Population | None
) -> tuple[FloatArray, FloatArray]:
    """Psi at the rows of the audit data, and at those of the holdout."""
    if held is None:
        return disparity.influence(current, baseline), np.empty(0)

    def joined(field: str, scale: float = 1.0) -> Any:
        here, there = getattr(current, field), getattr(held, field)
        return None if here is None or there is None else np.concatenate([here, scale * there])

    both = Population(
        mass=joined("mass", _NEXT_TO_NOTHING),
        decision=joined("decision"),
        outcome=joined("outcome"),
        baseline_mass=joined("baseline_mass", _NEXT_TO_NOTHING),
    )
    psi = disparity.influence(both, baseline)
    return psi[: len(current)], psi[len(current) :]


def _value(disparity: Disparity, held: Population | None, other: Population) -> float:
    return float("nan") if held is None else disparity.value(held, other)


def _resampled(
    target: Population, weight: FloatArray, rng: np.random.Generator
) -> tuple[Population, Population]:
    """Draw as many people as there are with the weights, the paper's RESAMPLE.

    The rows drawn with their modelled outcomes, and with the outcomes of the people drawn there.
    """
    assert target.tally is not None
    cells = weight[:, None] * target.tally.weight / target.tally.by_row[:, None]
    drawn_cells = rng.multinomial(target.n, (cells / cells.sum()).ravel())
    people = drawn_cells.reshape(cells.shape).astype(np.float64)
    resample = Tally(people, people, people)
    current = target.reweighted(resample.by_row / resample.by_row.sum())
    return current, current.with_outcome(resample.share())
