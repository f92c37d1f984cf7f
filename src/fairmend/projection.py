"""The distribution closest to the observed one that closes a gap, exactly.

A gap of rates is a ratio, but M(Q) = v is linear in Q: <r - (c + v) t, Q> = 0. So the Q nearest to
P in Kullback-Leibler divergence is an exponential tilt, Q ~ p exp(-G theta), with one scalar theta
per constraint found by Newton's method on a convex function. No step size, nothing random.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit, logsumexp, rel_entr

from fairmend.columns import FloatArray
from fairmend.data import Population
from fairmend.disparity import SP, Alignment, Combination, Disparity, RateGap
from fairmend.errors import DataError
from fairmend.status import Status

__all__ = ["Tilt", "closest", "project", "reachable", "tilt"]

# Constraints are scaled to at most 1 in absolute value; at this mean they hold to rounding.
_TOLERANCE = 1e-14
_MAX_NEWTON = 200


@dataclass(frozen=True, eq=False)
class Tilt:
    """Q ~ p exp(-G theta) on the rows where Q can have mass at all."""

    mass: FloatArray
    theta: FloatArray


def reachable(constraints: FloatArray) -> NDArray[np.bool_] | None:
    """The rows that can carry mass in a q >= 0 with G'q = 0, as a mask; None if there is no such q.

    One constraint: both signs, or zeros. Several: a linear program that makes as many entries of q
    positive as can be at once.

    >>> reachable(np.array([[1.0], [-2.0]])).tolist()
    [True, True]
    >>> reachable(np.array([[1.0], [2.0]])) is None
    True
    """
    if constraints.shape[1] == 1:
        g = constraints[:, 0]
        if (g > 0).any() and (g < 0).any():
            return np.ones(len(g), bool)
        return g == 0 if (g == 0).any() else None
    from scipy.optimize import linprog

    rows, count = constraints.shape
    # q = z + more with 0 <= z <= 1 and more >= 0: maximising sum z counts the rows with mass
    answer = linprog(
        np.r_[-np.ones(rows), np.zeros(rows)],
        A_eq=np.hstack([constraints.T, constraints.T]),
        b_eq=np.zeros(count),
        bounds=[(0, 1)] * rows + [(0, None)] * rows,
        method="highs",
    )
    mask = np.asarray(answer.x)[:rows] > 0.5
    return mask if mask.any() else None


def tilt(mass: FloatArray, constraints: FloatArray) -> Tilt | None:
    """The q closest to ``mass`` in KL with G'q = 0; None if there is none.

    Minimises the convex dual log sum p exp(-G theta), whose gradient is -E_q[G] and whose Hessian
    is Cov_q(G), by Newton steps that are halved until they help.

    >>> tilt(np.array([0.5, 0.5]), np.array([[1.0], [-3.0]])).mass.round(6).tolist()
    [0.75, 0.25]
    """
    kept = mass > 0
    possible = reachable(constraints[kept])
    if possible is None:
        return None
    kept[np.flatnonzero(kept)[~possible]] = False
    g, log_p = constraints[kept], np.log(mass[kept])
    scale = np.abs(g).max(axis=0)
    scale[scale == 0] = 1.0
    g = g / scale

    def tilted(theta: FloatArray) -> tuple[float, FloatArray]:
        exponent = log_p - g @ theta
        total = float(logsumexp(exponent))
        return total, np.exp(exponent - total)

    theta = np.zeros(g.shape[1])
    dual, q = tilted(theta)
    for _ in range(_MAX_NEWTON):
        mean = q @ g
        if np.abs(mean).max() <= _TOLERANCE:
            break
        hessian = (g * q[:, None]).T @ g - np.outer(mean, mean)
        step = np.linalg.lstsq(hessian, mean, rcond=1e-13)[0]
        gain, length = float(mean @ step), 1.0
        if gain <= 0:
            break  # rounding: the gradient is noise
        while True:
            candidate, q_new = tilted(theta + length * step)
            if candidate <= dual - 1e-4 * length * gain or length * gain < 1e-15:
                break
            length /= 2
        theta, dual, q = theta + length * step, candidate, q_new
    result = np.zeros(len(mass))
    result[kept] = q / q.sum()
    return Tilt(result, theta / scale)


def closest(mass: FloatArray, value: FloatArray) -> FloatArray:
    """All mass on the rows with the least value, shared as observed: a vertex of the simplex.

    >>> closest(np.array([0.2, 0.2, 0.6]), np.array([0.1, 0.1, 0.5])).tolist()
    [0.5, 0.5, 0.0]
    """
    best = np.where((value == value[mass > 0].min()) & (mass > 0), mass, 0.0)
    return np.asarray(best / best.sum(), np.float64)


def project(
    target: Population,
    baseline: Population,
    disparities: Disparity | Sequence[Disparity],
    *,
    level: float = 1.0,
) -> tuple[FloatArray, Status]:
    """The masses Q closest to the target's in KL whose disparities are (1 - level) of theirs.

    Several disparities are closed together. Where that cannot be done, Q is the closest reachable
    in the largest remaining gap and the status says so.

    >>> from fairmend.datasets import example_one
    >>> target, baseline = example_one().tabulated().populations
    >>> from fairmend import FPR
    >>> mass, status = project(target, baseline, FPR)
    >>> abs(FPR.value(target.reweighted(mass), baseline)) < 1e-10
    True
    """
    wanted = [disparities] if isinstance(disparities, Disparity) else list(disparities)
    aims = [(1 - level) * d.value(target, baseline) for d in wanted]
    if all(abs(d.value(target, baseline)) < 1e-12 for d in wanted):
        return target.mass, Status.NOTHING_TO_DO
    done = Status.CLOSED if level == 1 else Status.PARTLY
    if len(wanted) == 1:
        if isinstance(wanted[0], Alignment) and wanted[0].weight > 0:
            mass = _align(target, baseline, wanted[0], aims[0])
            reached = wanted[0].value(target.reweighted(mass), baseline) <= aims[0] + 1e-10
            return mass, done if reached else Status.IRRECONCILABLE
        if isinstance(wanted[0], Combination):
            return _project_combination(target, baseline, wanted[0], aims[0], done)
    constraints = np.stack(
        [_linear(d, target, baseline, aim) for d, aim in zip(wanted, aims, strict=True)], axis=1
    )
    found = tilt(target.mass, constraints)
    if found is not None:
        return found.mass, done
    if len(wanted) == 1:
        return _nearest_vertex(wanted[0], target, baseline), Status.IRRECONCILABLE
    return _nearest_to_all(wanted, aims, target, baseline).mass, Status.IRRECONCILABLE


def _linear(
    disparity: Disparity, target: Population, baseline: Population, aim: float
) -> FloatArray:
    """G with M(Q) = aim exactly when <g, Q> = 0."""
    if isinstance(disparity, RateGap):
        r, t = disparity.terms(target)
        return r - (disparity.of(baseline) + aim) * t
    if isinstance(disparity, Alignment) and disparity.weight == 0:
        return target.decision - _aligned_share(target, baseline, aim)
    raise DataError(
        "disparity",
        "must be a rate gap or Alignment() to be closed together with others",
        f"got {disparity.name!r}",
        "Ask for it alone, or use method='descent'.",
    )


def _aligned_share(target: Population, baseline: Population, aim: float) -> float:
    """The share of positive decisions between the target's and the baseline's with KL = aim."""
    from scipy.optimize import brentq

    mu0, mu1 = 1 - SP.of(target), 1 - SP.of(baseline)
    if aim <= 0:
        return mu1

    def excess(mu: float) -> float:
        return float(rel_entr(mu, mu1) + rel_entr(1 - mu, 1 - mu1)) - aim

    return float(brentq(excess, min(mu0, mu1), max(mu0, mu1), xtol=1e-15))


def _nearest_vertex(disparity: Disparity, target: Population, baseline: Population) -> FloatArray:
    rate_gap = disparity if isinstance(disparity, RateGap) else SP
    r, t = rate_gap.terms(target)
    rate = np.divide(r, t, out=np.full(len(r), np.inf), where=t > 0)
    return closest(target.mass, np.abs(rate - rate_gap.of(baseline)))


def _nearest_to_all(
    wanted: Sequence[Disparity], aims: Sequence[float], target: Population, baseline: Population
) -> Tilt:
    """Minimise the largest remaining gap: for a given bound it is a linear program, so bisect."""
    from scipy.optimize import linprog

    kept = np.flatnonzero(target.mass > 0)

    def within(bound: float) -> FloatArray | None:
        rows = []
        for d, aim in zip(wanted, aims, strict=True):
            rows.append(_linear(d, target, baseline, aim + bound)[kept])
            rows.append(-_linear(d, target, baseline, aim - bound)[kept])
        found = linprog(
            np.zeros(len(kept)), A_ub=np.array(rows), b_ub=np.zeros(len(rows)),
            A_eq=np.ones((1, len(kept))), b_eq=[1.0], method="highs",
        )  # fmt: skip
        return np.asarray(found.x) if found.status == 0 else None

    low, high, best = 0.0, 1.0, within(1.0)
    assert best is not None, "every gap of rates is within 1"
    while high - low > 1e-9:
        middle = (low + high) / 2
        answer = within(middle)
        if answer is None:
            low = middle
        else:
            high, best = middle, answer
    mass = np.zeros(len(target))
    mass[kept] = np.maximum(best, 0.0)
    return Tilt(mass / mass.sum(), np.full(len(wanted), np.nan))


def _align(
    target: Population, baseline: Population, disparity: Alignment, aim: float
) -> FloatArray:
    """Q for alignment with weight: a geometric path from P0 (a = 1) to P1 (a = 0).

    Stationarity gives Q ~ p^a P1^(1-a) exp(-k h) with k = (1-a)/weight (logit mu_Q - logit mu1),
    a scalar equation in k for each a, and DA falls as a does.
    """
    from scipy.optimize import brentq

    assert target.baseline_mass is not None
    kept = (target.mass > 0) & (target.baseline_mass > 0)
    if not kept.any():
        return target.mass
    log_p, log_p1 = np.log(target.mass[kept]), np.log(target.baseline_mass[kept])
    h, mu1 = target.decision[kept], 1 - SP.of(baseline)

    def at(a: float) -> FloatArray:
        base = a * log_p + (1 - a) * log_p1

        def tilted(k: float) -> FloatArray:
            exponent = base - k * h
            return np.exp(exponent - logsumexp(exponent))

        def excess(k: float) -> float:
            share = float(np.clip(tilted(k) @ h, 1e-300, 1 - 1e-16))
            return k - (1 - a) / disparity.weight * float(logit(share) - logit(mu1))

        reach = 1.0
        while excess(-reach) > 0 or excess(reach) < 0:
            reach *= 2
        mass = np.zeros(len(target))
        mass[kept] = tilted(float(brentq(excess, -reach, reach, xtol=1e-14)))
        return mass

    def remaining(a: float) -> float:
        return disparity.value(target.reweighted(at(a)), baseline) - aim

    if remaining(0.0) >= 0:
        return at(0.0)
    return at(float(brentq(remaining, 0.0, 1.0, xtol=1e-13)))


def _project_combination(
    target: Population, baseline: Population, disparity: Combination, aim: float, done: Status
) -> tuple[FloatArray, Status]:
    """A sum of ratios is not linear in Q: solve for its linearisation at Q until that is Q.

    At a fixed point M(Q) = aim and Q ~ p exp(-theta psi_Q), the condition for the closest Q.
    """
    if any(isinstance(part, Alignment) and part.weight > 0 for _, part in disparity.parts):
        raise DataError(
            "disparity",
            "must not hold Alignment with weight in a combination to be projected",
            f"got {disparity.name!r}",
            "Use method='descent'.",
        )
    current = target
    for _ in range(200):
        value = disparity.value(current, baseline)
        slope = disparity.influence(current, baseline) + value - aim
        found = tilt(target.mass, slope[:, None])
        if found is None:
            break
        moved = float(np.abs(found.mass - current.mass).sum())
        current = target.reweighted(found.mass)
        if moved < 1e-13:
            break
    reached = abs(disparity.value(current, baseline) - aim) <= 1e-10
    return current.mass, done if reached else Status.NOT_FOUND
