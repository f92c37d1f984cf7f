"""How far to go: masses on the way to the counterfactual, and the coupling that closes the gap."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairmend.data.columns import FloatArray, IntArray
from fairmend.explain.counterfactual import Counterfactual
from fairmend.explain.descent import descend
from fairmend.explain.projection import project
from fairmend.measure.disparity import Combination, Disparity, RateGap
from fairmend.measure.metrics import Alignment
from fairmend.progress import progress
from fairmend.repair.problem import RepairProblem
from fairmend.repair.transport.coupler import Coupler
from fairmend.repair.transport.problem import MARGINALS
from fairmend.status import Status

Law = Any
"""A sparse matrix T of probabilities, a row for a row; its rows sum to 1."""


def _within(mass: FloatArray, source: FloatArray, classes: IntArray) -> FloatArray:
    """Masses scaled so that every class keeps its size; as it was where nothing is left of it."""
    size, left = np.bincount(classes, source), np.bincount(classes, mass)
    scale = np.divide(size, left, out=np.zeros_like(size), where=left > 0)
    return np.where(left[classes] > 0, mass * scale[classes], source)


def _tilt_within(mass: FloatArray, slope: FloatArray, classes: IntArray) -> FloatArray | None:
    """The q closest to ``mass`` in KL with <slope, q> = 0 and every class as large as it is.

    In each class q ~ p exp(-theta slope), one theta for all; None if there is no such q.
    """
    from scipy.optimize import brentq

    kept = np.flatnonzero(mass > 0)
    p, g, label = mass[kept], slope[kept], np.unique(classes[kept], return_inverse=True)[1]
    g = g / (np.abs(g).max() or 1.0)
    size = np.bincount(label, p)
    if p @ g < 0:
        g = -g
    lowest = np.full(len(size), np.inf)
    np.minimum.at(lowest, label, g)
    if size @ lowest >= 0 and p @ g > 0:
        return None

    def tilted(theta: float) -> FloatArray:
        # relative to the lowest of its class, so that nothing overflows and something remains
        weight = p * np.exp(-theta * (g - lowest[label]))
        return np.asarray(weight * (size / np.bincount(label, weight))[label], np.float64)

    def remaining(theta: float) -> float:
        return float(tilted(theta) @ g)

    theta, reach = 0.0, 1.0
    if remaining(0.0) > 0:
        while remaining(reach) > 0:
            reach *= 2
            if reach > 1e12:
                return None
        theta = float(brentq(remaining, 0.0, reach, xtol=1e-15, rtol=1e-15 * 4))
    q = np.zeros(len(mass))
    q[kept] = tilted(theta)
    return q


@dataclass(frozen=True, eq=False)
class Step:
    """Where the path is at M(Q) = aim, and what people experience there."""

    aim: float
    law: Law
    excess: float
    """The realised disparity less what may remain of it."""
    unmet: float = 0.0
    feasible: bool = True
    solver: str = ""
    guarantee: str = ""

    @property
    def closed(self) -> bool:
        return self.feasible and abs(self.excess) <= MARGINALS


@dataclass(frozen=True, eq=False)
class Walk:
    """Goes from P0, M(Q) = start, to ever smaller M(Q), and couples each Q with the group."""

    problem: RepairProblem
    disparity: Disparity
    counterfactual: Counterfactual
    coupler: Coupler

    @property
    def rate_gap(self) -> RateGap | None:
        """The gap of rates that is linear in Q; None for what is not one."""
        if isinstance(self.disparity, RateGap):
            return self.disparity
        if isinstance(self.disparity, Alignment) and self.disparity.weight == 0:
            return self.problem.gaps[0].disparity
        return None

    @property
    def can_go_on(self) -> bool:
        """Whether there is a beyond: alignment of inputs ends at the baseline's own."""
        return self.rate_gap is not None or isinstance(self.disparity, Combination)

    @property
    def start(self) -> float:
        """M at the group as it is."""
        measure = self.rate_gap or self.disparity
        return measure.value(self.counterfactual.source, self.counterfactual.baseline)

    def mass_at(self, aim: float) -> FloatArray | None:
        """Q with M(Q) = aim, the parts of the group keeping their sizes; None if there is none."""
        source, baseline = self.counterfactual.source, self.counterfactual.baseline
        if self.counterfactual.method == "descent":
            measure = self.rate_gap or self.disparity
            mass, status, _ = descend(source, baseline, measure, target_gap=aim, tolerance=1e-8)
            return (
                None
                if status is Status.STOPPED
                else _within(mass, source.mass, self.coupler.classes)
            )
        if self.rate_gap is not None:
            r, t = self.rate_gap.terms(source)
            slope = r - (self.rate_gap.of(baseline) + aim) * t
            return _tilt_within(source.mass, slope, self.coupler.classes)
        level = 1 - aim / self.start
        mass, status = project(source, baseline, self.disparity, level=level)
        return _within(mass, source.mass, self.coupler.classes) if status.closed else None

    def mass_at_end(self, edge: float) -> FloatArray | None:
        """Where the path leads to, but never arrives: in each part the rows that do best."""
        if self.rate_gap is None or self.counterfactual.method == "descent":
            return None
        source = self.counterfactual.source
        r, t = self.rate_gap.terms(source)
        slope = r - (self.rate_gap.of(self.counterfactual.baseline) + edge) * t
        lowest = np.full(int(self.coupler.classes.max()) + 1, np.inf)
        peopled = source.mass > 0
        np.minimum.at(lowest, self.coupler.classes[peopled], slope[peopled])
        best = slope <= lowest[self.coupler.classes] + 1e-12
        return _within(np.where(best, source.mass, 0.0), source.mass, self.coupler.classes)

    def realised(self, law: Law | None) -> float:
        """The disparity of people who keep their outcomes; of the group as it is without a law."""
        decision = self.problem.source.decision
        gaps = [gap.gap(decision if law is None else law @ decision) for gap in self.problem.gaps]
        if isinstance(self.disparity, Combination):
            return float(np.dot([weight for weight, _ in self.disparity.parts], gaps))
        return gaps[0]

    def excess(self, law: Law) -> float:
        return self.realised(law) - (1 - self.problem.level) * self.realised(None)

    def to(self, aim: float) -> Step | None:
        """The step to M(Q) = aim; None if nothing that may be reached is there."""
        mass = self.mass_at(aim)
        step = None if mass is None else self.with_mass(mass, aim)
        return step if step is None or step.feasible else None

    def with_mass(self, mass: FloatArray, aim: float = 0.0) -> Step:
        """The step to some masses, the parts of the group keeping their sizes."""
        kept = _within(mass, self.coupler.mass, self.coupler.classes)
        with progress("coupling inputs"):
            coupling = self.coupler.couple(kept)
        law = coupling.law()
        feasible = coupling.status.solved or self.coupler.distance is None
        return Step(
            aim, law, self.excess(law), float(coupling.unmet.sum()), feasible,
            coupling.solver, coupling.guarantee,
        )  # fmt: skip

    def until_closed(self) -> Step:
        """Go on until the excess is 0; if it never is, as far as there is a way."""
        near = self._start()
        if not near.feasible or near.excess == 0:
            return near
        sign, stride, edge, best = np.sign(near.excess), abs(near.excess), None, near
        if self.problem.gaps[0].over_decisions:  # it may fall at first, and rise again further on
            stride /= 8
        for _ in range(60):
            aim = self.start - sign * stride if edge is None else (near.aim + edge) / 2
            step = self.to(aim)
            if step is None:
                edge = aim
            elif sign * step.excess <= 0:
                return self._between(near, step)
            else:
                near, stride = step, 1.5 * stride
                best = min(best, near, key=lambda one: abs(one.excess))
            if edge is not None and abs(near.aim - edge) < 1e-9:
                break
        end = None if edge is None else self.mass_at_end(edge)
        if end is None or edge is None:
            return best
        step = self.with_mass(end, edge)
        if step.feasible and sign * step.excess <= 0:
            return self._between(near, step)
        return min(best, step, key=lambda one: abs(one.excess) if one.feasible else np.inf)

    def _start(self) -> Step:
        """Everybody as they are, or as near to it as fairness among them allows."""
        from scipy.sparse import eye_array

        if self.coupler.distance is not None:
            return self.with_mass(self.coupler.mass, self.start)
        law = eye_array(len(self.coupler.mass), format="csr")
        return Step(self.start, law, self.excess(law))

    def _between(self, near: Step, far: Step) -> Step:
        """Narrow down where the excess changes sign, then mix the two ends so that it is 0.

        The mixture couples the group with the mixture of the ends' masses. Couplings change in
        jumps, so no single one need have an excess of 0.
        """
        from scipy.optimize import brentq

        # a fair coupling takes seconds; any mixture of two is fair, so few will do
        rounds = 40 if self.coupler.distance is None else 2
        weight_near = weight_far = 1.0
        for _ in range(rounds):
            if abs(near.aim - far.aim) <= 1e-7 or far.excess == 0:
                break
            # false position, an end that stays counting half as much each time (Illinois)
            a, b = weight_near * near.excess, weight_far * far.excess
            share = min(max(a / (a - b), 0.02), 0.98)
            step = self.to(near.aim + share * (far.aim - near.aim))
            if step is None:
                break
            if step.excess * near.excess > 0:
                near, weight_near, weight_far = step, 1.0, weight_far / 2
            else:
                far, weight_far, weight_near = step, 1.0, weight_near / 2
        if far.excess == 0:
            return far

        def mixed(share: float) -> Law:
            return (1 - share) * near.law + share * far.law

        share = float(brentq(lambda part: self.excess(mixed(part)), 0.0, 1.0, xtol=1e-15))
        law = mixed(share)
        unmet = (1 - share) * near.unmet + share * far.unmet
        aim = near.aim + share * (far.aim - near.aim)
        return replace(far, aim=aim, law=law, excess=self.excess(law), unmet=unmet)
