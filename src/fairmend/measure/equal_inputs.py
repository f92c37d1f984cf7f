"""Do equal inputs get equal decisions, whatever the group?

An explanation says which inputs a gap rests on. Where the decision itself depends on the group, it
blames the inputs for what the group does. That can be seen where people of both groups have the
same inputs: there, and only there, decisions are compared between the groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fairmend.data.columns import BoolArray, Encoded, FloatArray, Frame, IntArray
from fairmend.data.rows import codes_among, numbered
from fairmend.measure.intervals import normal_quantile
from fairmend.measure.population import Population
from fairmend.measure.significance import hypergeometric_sum_test, two_sided
from fairmend.tables import p_text, percent, points

CONFIDENCE = 0.95
MOST_EXACT = 2_000
"""Up to so many possible counts of positive decisions their law is worked out, not approximated."""
ENOUGH = 20
"""Soft decisions of fewer people than this, on rows where they differ, are not tested."""
RARE = 0.05
"""Equal inputs of a smaller share of a group than this say nothing about the others."""


@dataclass(frozen=True)
class DecisionDifference:
    """How decisions differ between two groups at equal inputs.

    It can come from the group, or from something that goes with it and is not among the inputs.
    """

    difference: float
    """The common difference, target less baseline, of the shares of positive decisions; nan where
    nobody in one group has the inputs of somebody in the other."""
    low: float
    high: float
    """The interval's ends; the difference itself where nothing is left to chance."""
    p_value: float
    """Of no difference; nan where nothing is tested."""
    target_share: float
    """The share of the target group's people who are compared: their inputs are ones that both
    groups have. All of them where a decision is a function of the inputs."""
    baseline_share: float
    differing: float
    """Of the people compared, the share with inputs that get more than one decision."""
    beside: tuple[str, ...] = ()
    """Inputs that only say which group somebody is in; they are left out of the comparison."""
    recorded: bool = False
    """Whether decisions are on record, so that equal inputs may have got several by chance, or by
    something that is not among them. A model that is queried sees nothing but its inputs."""

    def __str__(self) -> str:
        if not (self.recorded or self.beside):
            return "Equal inputs get equal decisions: the model depends on nothing else"
        group = ", ".join(self.beside)
        inputs = f"inputs beside {group}" if group else "inputs"
        if np.isnan(self.difference):
            return (
                f"Whether equal {inputs} get equal decisions is not known: no inputs of one "
                "group occur in the other"
            )
        seen = (
            f"compared: {percent(self.target_share)} of the target group and "
            f"{percent(self.baseline_share)} of the reference group, whose {inputs} "
            "both groups have"
        )
        if self.differing == 0:
            if min(self.target_share, self.baseline_share) < RARE:
                return (
                    f"Equal {inputs} get equal decisions where both groups have them, which is too "
                    f"rare to judge the others by ({seen})"
                )
            return f"Equal {inputs} get equal decisions ({seen})"
        way = "more" if self.difference > 0 else "less"
        gets = (
            f"the target group gets a positive decision {100 * abs(self.difference):.1f} points "
            f"{way} often than the reference group"
        )
        if not self.recorded:
            return (
                f"The model reads {' or '.join(self.beside)}, on which the decision depends for "
                f"{percent(self.differing)} of the people compared: at otherwise equal inputs "
                f"{gets} ({seen})"
            )
        tested = "too few to test" if np.isnan(self.p_value) else p_text(self.p_value)
        sure = f"[{points(self.low)}, {points(self.high)}], {tested}; {seen}"
        if self.p_value < 1 - CONFIDENCE:
            return f"At equal {inputs} {gets} ({sure})"
        return (
            f"Equal {inputs} get different decisions for {percent(self.differing)} of the people "
            f"compared, but are not shown to favour a group: {gets} ({sure})"
        )


def decision_difference(
    target: Population,
    target_table: Frame,
    baseline: Population,
    baseline_table: Frame,
    *,
    recorded: bool,
    beside: tuple[str, ...] = (),
) -> DecisionDifference:
    """Compare the groups' decisions at each row of inputs that both have (Mantel and Haenszel).

    With n people and a mean decision m in either group of a row, N in both, w = n0 n1 / N, the
    common difference is sum w (m0 - m1) / sum w. The test holds the decisions given on a row fixed
    and asks who got them: for hard decisions exactly (the law of the target group's positive ones
    is a sum of hypergeometric ones), or for many people by its mean and variance. Differences of
    opposite sign on different rows cancel.

    Nothing is tested where there is no chance in it: a model that was queried sees only its inputs,
    so that its decisions differ at otherwise equal ones only if it reads what names the group
    among them (``beside``), which is left out of the comparison.

    People count alike whatever their weight, which is right where weights depend on the inputs.
    """
    nan = float("nan")
    if not (recorded or beside):
        return DecisionDifference(0.0, 0.0, 0.0, nan, 1.0, 1.0, 0.0)
    columns = zip(target_table.names, target_table.encoded, baseline_table.encoded, strict=True)
    inputs = [(here, there) for name, here, there in columns if str(name) not in beside]
    row = np.zeros(len(target), np.int64), np.zeros(len(baseline), np.int64)
    if inputs:
        row = numbered(*zip(*inputs, strict=True))
    people = _people(target), _people(baseline)
    rows = SharedRows.of(row, people, (target.decision, baseline.decision))
    here, there = (float(rows.n[:, g].sum() / people[g].sum()) for g in (0, 1))
    if len(rows.n) == 0:
        return DecisionDifference(nan, nan, nan, nan, here, there, nan, beside, recorded)
    low = high = rows.difference
    p_value = nan
    if recorded and rows.varied.any():
        low, high = rows.interval()
        p_value = rows.p_value()
    differing = float(rows.n[rows.varied].sum() / rows.n.sum())
    return DecisionDifference(
        rows.difference, low, high, p_value, here, there, differing, beside, recorded
    )


def names_of_the_group(
    target_table: Frame, baseline_table: Frame, sizes: Sequence[int]
) -> tuple[str, ...]:
    """Inputs that only say which group somebody is in: one value in each group, not one in all.

    ``sizes`` are the rows of the groups that the baseline is made of.
    """
    ends = np.cumsum(sizes)[:-1]

    def only_names(here: Encoded, there: Encoded) -> bool:
        if len(here.values) > 1:
            return False
        groups = np.split(there.codes, ends)
        return all((codes == codes[0]).all() for codes in groups) and bool(
            (codes_among(here, there) < 0).any()
        )

    columns = zip(target_table.names, target_table.encoded, baseline_table.encoded, strict=True)
    return tuple(str(name) for name, here, there in columns if only_names(here, there))


def have_several(row: Sequence[IntArray], decision: Sequence[FloatArray]) -> BoolArray:
    """For each number of a row, from 0 on, whether it got more than one decision."""
    at, h = np.concatenate(row), np.concatenate(decision)
    at, h = at[at >= 0], h[at >= 0]
    lowest, highest = np.full(at.max() + 1, np.inf), np.full(at.max() + 1, -np.inf)
    np.minimum.at(lowest, at, h)
    np.maximum.at(highest, at, h)
    return np.asarray(highest > lowest)


def _people(group: Population) -> FloatArray:
    return group.mass if group.tally is None else group.tally.people.sum(axis=1)


@dataclass(frozen=True, eq=False)
class SharedRows:
    """The rows that both groups have; the target group comes first on the second axis."""

    n: FloatArray
    """People."""
    total: FloatArray
    """The sum of their decisions."""
    squared: FloatArray
    """... and of the squares of these."""
    varied: BoolArray
    """Which rows get more than one decision."""

    @classmethod
    def of(
        cls, row: Sequence[IntArray], people: Sequence[FloatArray], decision: Sequence[FloatArray]
    ) -> SharedRows:
        """Sum over equal rows and keep those of both groups."""
        varied = have_several(row, decision)
        size, numbered_rows = len(varied), [numbers >= 0 for numbers in row]

        def summed(power: int) -> FloatArray:
            return np.stack([
                np.bincount(at[kept], (n * h**power)[kept], size)
                for at, n, h, kept in zip(row, people, decision, numbered_rows, strict=True)
            ], axis=1)  # fmt: skip

        n = summed(0)
        both = (n > 0).all(axis=1)
        return cls(n[both], summed(1)[both], summed(2)[both], varied[both])

    @property
    def weight(self) -> FloatArray:
        return np.asarray(self.n.prod(axis=1) / self.n.sum(axis=1), np.float64)

    @property
    def by_row(self) -> FloatArray:
        mean = self.total / self.n
        return np.asarray(mean[:, 0] - mean[:, 1], np.float64)

    @property
    def difference(self) -> float:
        return float(self.weight @ self.by_row / self.weight.sum())

    @property
    def hard(self) -> bool:
        return np.array_equal(self.total, self.squared)

    def interval(self) -> tuple[float, float]:
        """All d that are not rejected: (difference - d)^2 <= z^2 Var(d), a quadratic in d.

        Hard decisions: Var(d) by Sato (1989), inverted as by Klingenberg (2014), which serves few
        people on each of many rows as well as many on each of few. Soft ones: the variance of the
        test below once d is taken off the target group's decisions.
        """
        z2 = normal_quantile(CONFIDENCE) ** 2
        w, d, everybody = self.weight, self.by_row, self.n.sum(axis=1)
        if self.hard:
            (n0, n1), (k0, k1) = self.n.T, self.total.T
            slope = n0**2 * k1 - n1**2 * k0 + n0 * n1 * (n1 - n0) / 2
            constant = float(((k0 * (n1 - k1) + k1 * (n0 - k0)) / (2 * everybody)).sum())
            linear, square = float((slope / everybody**2).sum()), 0.0
        else:
            within = (self.squared - self.total**2 / self.n).sum(axis=1)
            constant = float((w / (everybody - 1) * (within + w * d**2)).sum())
            linear = float(-2 * (w**2 * d / (everybody - 1)).sum())
            square = float((w**2 / (everybody - 1)).sum())
        total = float(w.sum())
        a = total**2 - z2 * square
        if a <= 0:  # too few to rule anything out
            return -1.0, 1.0
        middle = (total**2 * self.difference + z2 * linear / 2) / a
        reach2 = middle**2 - (total**2 * self.difference**2 - z2 * constant) / a
        reach = float(np.sqrt(max(0.0, reach2)))
        return max(-1.0, middle - reach), min(1.0, middle + reach)

    def p_value(self) -> float:
        """Two-sided, of decisions that owe nothing to the group; nan where too few can tell."""
        n, total = self.n[self.varied], self.total[self.varied]
        n0, everybody, decided = n[:, 0], n.sum(axis=1), total.sum(axis=1)
        if self.hard:
            most, least = np.minimum(n0, decided), np.maximum(0, decided - n[:, 1])
            if (most - least).sum() <= MOST_EXACT:
                return hypergeometric_sum_test(total[:, 0].sum(), n0, decided, everybody)
        elif n.sum(axis=0).min() < ENOUGH:
            return float("nan")
        spread = self.squared[self.varied].sum(axis=1) / everybody - (decided / everybody) ** 2
        variance = float((n.prod(axis=1) / (everybody - 1) * spread).sum())
        excess = float((total[:, 0] - n0 * decided / everybody).sum())
        return two_sided(excess / np.sqrt(variance))
