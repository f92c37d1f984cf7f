"""The distribution closest to the observed one that closes a gap, exactly.

A gap of rates is a ratio, but M(Q) = v is linear in Q: <r - (c + v) t, Q> = 0. So the Q nearest to
P in Kullback-Leibler divergence is an exponential tilt, Q ~ p exp(-G theta), with one scalar theta
per constraint solution by Newton's method on a convex function. No step size, nothing random.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fairmend.data.columns import BoolArray, FloatArray
from fairmend.errors import DataError
from fairmend.measure import special
from fairmend.measure.disparity import Combination, Disparity, RateGap, as_disparity
from fairmend.measure.metrics import SP, Alignment
from fairmend.measure.population import Population
from fairmend.status import Status

NO_GAP = 1e-12
"""A gap below this is rounding."""
# Constraints are scaled to at most 1 in absolute value; at this mean they hold to rounding.
_TOLERANCE = 1e-14
_MAX_NEWTON = 200
# A Newton step is no longer than this at first: where nearly all mass is on one row the curvature
# is next to nothing and the full step would be astronomic.
_LONGEST_STEP = 30.0
_MAX_LINEARISATIONS = 200


def project(
    target: Population,
    baseline: Population,
    disparities: str | Disparity | Sequence[str | Disparity],
    *,
    level: float = 1.0,
) -> tuple[FloatArray, Status]:
    """The masses Q closest to the target's in KL whose disparities are (1 - level) of theirs.

    Several disparities are closed together. Where that cannot be done, Q is one whose largest
    remaining gap is as small as can be, and the status says so.

    >>> from fairmend.datasets import example_one
    >>> target, baseline = example_one().tabulated().populations
    >>> from fairmend import FPR
    >>> mass, status = project(target, baseline, FPR)
    >>> abs(FPR.value(target.reweighted(mass), baseline)) < 1e-10
    True
    """
    given = [disparities] if isinstance(disparities, str | Disparity) else disparities
    wanted = [as_disparity(one) for one in given]
    gaps = [observed_gap(d, target, baseline) for d in wanted]
    if all(abs(gap) < NO_GAP for gap in gaps):
        return target.mass, Status.NOTHING_TO_DO
    if level == 0:
        return target.mass, Status.PARTLY
    aims = [_aim(d, gap, level) for d, gap in zip(wanted, gaps, strict=True)]
    done = Status.CLOSED if level == 1 else Status.PARTLY
    if len(wanted) == 1:
        if isinstance(wanted[0], Alignment) and wanted[0].weight > 0:
            aligned = _align(target, baseline, wanted[0], aims[0])
            reached = wanted[0].value(target.reweighted(aligned), baseline) <= aims[0] + 1e-10
            return aligned, done if reached else Status.IRRECONCILABLE
        if isinstance(wanted[0], Combination):
            return _project_combination(target, baseline, wanted[0], aims[0], done)
    pairs = [_linear(d, target, baseline, aim) for d, aim in zip(wanted, aims, strict=True)]
    constraints, conditions = (np.stack(side, axis=1) for side in zip(*pairs, strict=True))
    mass = tilt(target.mass, constraints)
    # a rate over nobody, 0 / 0, meets the constraint too, and is no rate
    if mass is not None and (mass @ conditions > 0).all():
        return mass, done
    if len(wanted) == 1:
        vertex = _nearest_vertex(wanted[0], target, baseline)
        remaining = wanted[0].value(target.reweighted(vertex), baseline) - aims[0]
        return vertex, done if abs(remaining) < NO_GAP else Status.IRRECONCILABLE
    return _nearest_to_all(wanted, aims, target, baseline), Status.IRRECONCILABLE


def observed_gap(disparity: Disparity, target: Population, baseline: Population) -> float:
    """M(P0); an error where it cannot be measured. Alignment may be infinite."""
    gap = disparity.value(target, baseline)
    if np.isnan(gap):
        raise DataError(
            f"disparity {disparity.name!r}",
            "must be measurable in both groups",
            "in one of them nobody meets its condition",
            "Choose another disparity, or other groups.",
        )
    return gap


def _aim(disparity: Disparity, gap: float, level: float) -> float:
    if level == 1:
        return 0.0
    if np.isinf(gap):
        raise DataError(
            "level",
            "must be 1 where the disparity is infinite",
            f"got {level!r} and {disparity.name!r} without bound",
            "Close all of it, or use sp, which is finite.",
        )
    return (1 - level) * gap


# -------------------------------------------------------------------- linear constraints


def reachable(constraints: FloatArray) -> BoolArray | None:
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
    # only a row's direction matters, so that small entries are as visible to the solver as large
    g = constraints / _largest(constraints, axis=0)
    g = g / _largest(g, axis=1)
    # q = z + more with 0 <= z <= 1 and more >= 0: maximising sum z counts the rows with mass
    answer = linprog(
        np.r_[-np.ones(rows), np.zeros(rows)],
        A_eq=np.hstack([g.T, g.T]),
        b_eq=np.zeros(count),
        bounds=[(0, 1)] * rows + [(0, None)] * rows,
        method="highs",
    )
    mask = np.asarray(answer.x)[:rows] > 0.5
    return mask if mask.any() else None


def _largest(array: FloatArray, axis: int) -> FloatArray:
    """The largest absolute value along an axis, 1 where all are 0: something to divide by."""
    size = np.abs(array).max(axis=axis, keepdims=True)
    return np.where(size > 0, size, 1.0)


def tilt(mass: FloatArray, constraints: FloatArray) -> FloatArray | None:
    """The q closest to ``mass`` in KL with G'q = 0; None if there is none.

    Minimises the convex dual log sum p exp(-G theta), whose gradient is -E_q[G] and whose Hessian
    is Cov_q(G), by Newton steps that are halved until they help.

    >>> tilt(np.array([0.5, 0.5]), np.array([[1.0], [-3.0]])).round(6).tolist()
    [0.75, 0.25]
    """
    kept = mass > 0
    possible = reachable(constraints[kept])
    if possible is None:
        return None
    kept[kept] = possible
    g, log_p = constraints[kept], np.log(mass[kept])
    g = g / _largest(g, axis=0)

    def tilted(theta: FloatArray) -> tuple[float, FloatArray]:
        exponent = log_p - g @ theta
        total = float(special.logsumexp(exponent))
        return total, np.exp(exponent - total)

    theta, longest = np.zeros(g.shape[1]), _LONGEST_STEP
    dual, q = tilted(theta)
    for _ in range(_MAX_NEWTON):
        mean = q @ g
        if np.abs(mean).max() <= _TOLERANCE:
            break
        centred = g - mean
        spread, axes = np.linalg.eigh((centred * q[:, None]).T @ centred)
        along = axes.T @ mean
        along[np.abs(along) <= _TOLERANCE / 10] = 0.0
        shortest = np.maximum(np.abs(along), _TOLERANCE) / longest
        step = axes @ (along / np.maximum(spread, shortest))
        gain, length = float(mean @ step), 1.0
        while True:
            candidate, q_new = tilted(theta + length * step)
            if candidate <= dual - 1e-4 * length * gain or length * gain < 1e-15:
                break
            length /= 2
        if length == 1 and (spread < shortest).any():
            longest *= 2
        theta, dual, q = theta + length * step, candidate, q_new
    result = np.zeros(len(mass))
    result[kept] = q / q.sum()
    return result


def _linear(
    disparity: Disparity, target: Population, baseline: Population, aim: float
) -> tuple[FloatArray, FloatArray]:
    """G and t with M(Q) = aim exactly when <g, Q> = 0 and <t, Q> > 0."""
    r, t, low, high = _rates_within(disparity, target, baseline, aim)
    rate = high if r @ target.mass > high * (t @ target.mass) else low
    return r - rate * t, t


def _rates_within(
    disparity: Disparity, target: Population, baseline: Population, aim: float, bound: float = 0.0
) -> tuple[FloatArray, FloatArray, float, float]:
    """R, t and the ends between which <r, Q> / <t, Q> has a disparity within bound of the aim."""
    if isinstance(disparity, RateGap):
        rate = disparity.of(baseline) + aim
        return *disparity.terms(target), rate - bound, rate + bound
    if isinstance(disparity, Alignment) and disparity.weight == 0:
        mu1 = 1 - SP.of(baseline)
        low, high = (_aligned_share(mu1, aim + bound, end) for end in (0.0, 1.0))
        return target.decision, np.ones(len(target)), low, high
    raise DataError(
        "disparity",
        "must be a rate gap or Alignment() to be closed together with others",
        f"got {disparity.name!r}",
        "Ask for it alone, or use method='descent'.",
    )


def _aligned_share(mu1: float, divergence: float, end: float) -> float:
    """The share of positive decisions at this KL from mu1, between mu1 and the end, 0 or 1."""
    from scipy.optimize import brentq

    def excess(mu: float) -> float:
        return float(special.rel_entr(mu, mu1) + special.rel_entr(1 - mu, 1 - mu1)) - divergence

    if divergence <= 0 or mu1 in (0.0, 1.0):
        return mu1
    if excess(end) <= 0:
        return end
    return float(brentq(excess, min(mu1, end), max(mu1, end), xtol=1e-15))


# -------------------------------------------------------------------- where it cannot be closed


def closest(mass: FloatArray, value: FloatArray) -> FloatArray:
    """All mass on the rows with the least value, shared as observed: a vertex of the simplex.

    >>> closest(np.array([0.2, 0.2, 0.6]), np.array([0.1, 0.1, 0.5])).tolist()
    [0.5, 0.5, 0.0]
    """
    best = np.where((value == value[mass > 0].min()) & (mass > 0), mass, 0.0)
    return np.asarray(best / best.sum(), np.float64)


def _nearest_vertex(disparity: Disparity, target: Population, baseline: Population) -> FloatArray:
    rate_gap = disparity if isinstance(disparity, RateGap) else SP
    r, t = rate_gap.terms(target)
    rate = np.divide(r, t, out=np.full(len(r), np.inf), where=t > 0)
    return closest(target.mass, np.abs(rate - rate_gap.of(baseline)))


def _nearest_to_all(
    wanted: Sequence[Disparity], aims: Sequence[float], target: Population, baseline: Population
) -> FloatArray:
    """Minimise the largest remaining gap: for a given bound it is a linear program, so bisect."""
    from scipy.optimize import linprog

    kept = np.flatnonzero(target.mass > 0)

    def within(bound: float) -> FloatArray | None:
        at_most_0, at_least_1 = [], []
        for d, aim in zip(wanted, aims, strict=True):
            r, t, low, high = _rates_within(d, target, baseline, aim, bound)
            at_most_0 += [(r - high * t)[kept], (low * t - r)[kept]]
            at_least_1.append(t[kept])  # somebody must meet the condition, or there is no rate
        solution = linprog(
            np.zeros(len(kept)),
            A_ub=np.stack([*at_most_0, *(-t for t in at_least_1)]),
            b_ub=np.r_[np.zeros(len(at_most_0)), -np.ones(len(at_least_1))],
            method="highs",
        )
        return np.asarray(solution.x) if solution.status == 0 else None

    gaps = [abs(d.value(target, baseline) - a) for d, a in zip(wanted, aims, strict=True)]
    low, high = 0.0, max([1.0, *(gap for gap in gaps if np.isfinite(gap))])
    best = within(high)
    if best is None:
        return target.mass
    while high - low > 1e-9:
        middle = (low + high) / 2
        answer = within(middle)
        if answer is None:
            low = middle
        else:
            high, best = middle, answer
    mass = np.zeros(len(target))
    mass[kept] = np.maximum(best, 0.0) / np.maximum(best, 0.0).sum()
    return mass


# -------------------------------------------------------------------- what is not linear


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
    mu1 = 1 - SP.of(baseline)
    if mu1 in (0.0, 1.0):  # any other decision would be infinitely far
        kept &= target.decision == mu1
    if not kept.any():
        return target.mass
    log_p, log_p1 = np.log(target.mass[kept]), np.log(target.baseline_mass[kept])
    h = target.decision[kept]

    def at(a: float) -> FloatArray:
        path = a * log_p + (1 - a) * log_p1

        def excess(k: float) -> float:
            odds = float(
                special.logsumexp(path - k * h, b=h) - special.logsumexp(path - k * h, b=1 - h)
            )
            return k - (1 - a) / disparity.weight * (odds - float(special.logit(mu1)))

        k = 0.0
        if h.min() < h.max():
            reach = 1.0
            while excess(-reach) > 0 or excess(reach) < 0:
                reach *= 2
            k = float(brentq(excess, -reach, reach, xtol=1e-14))
        mass = np.zeros(len(target))
        mass[kept] = np.exp(path - k * h - special.logsumexp(path - k * h))
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
    current, pace, last_move = target, 1.0, np.inf
    for _ in range(_MAX_LINEARISATIONS):
        value = disparity.value(current, baseline)
        slope = disparity.influence(current, baseline)
        mass, stride = None, 1.0
        while mass is None and stride > 1e-3:  # a tangent may not reach the aim where the sum does
            mass = tilt(target.mass, (slope + stride * (value - aim))[:, None])
            stride /= 2
        if mass is None:
            break
        move = float(np.abs(mass - current.mass).sum())
        if move >= last_move:
            pace = max(pace / 2, 1e-3)  # going round in circles: go slower
        last_move = move
        current = target.reweighted((1 - pace) * current.mass + pace * mass)
        if move < 1e-13:
            break
    reached = abs(disparity.value(current, baseline) - aim) <= 1e-10
    return current.mass, done if reached else Status.NOT_FOUND
