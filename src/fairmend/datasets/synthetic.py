"""The paper's synthetic populations, with exact probabilities instead of samples.

Each has a handful of rows, so every rate can be computed without sampling noise. In the paper's
notation the target group is S = 0 and the baseline is S = 1; arrays keep that order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fairmend.data.columns import Frame
from fairmend.data.outcomes import Labels
from fairmend.errors import DataError, check, check_choice
from fairmend.measure.population import AuditData, Population

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
Decision = Callable[[NDArray[Any]], NDArray[np.int64]]


@dataclass(frozen=True, eq=False)
class FinitePopulation:
    """Two groups on the same m rows, with everything about them known exactly.

    The fields:
        name: where it comes from.
        feature_names: d names.
        rows: the distinct rows, shape (m, d).
        mass: P(X=x | S=g), shape (2, m); ``mass[0]`` is the target group's.
        outcome: P(Y=1 | X=x, S=g), shape (2, m).
        group_names: how ``s`` writes S = 0 and S = 1.
        decision: the model the paper audits, rows -> {0, 1}, where it is a fixed rule.

    A rate is a sum over rows; the false positive rate of group g under decisions h is
    sum_x mass[g] (1 - outcome[g]) h / sum_x mass[g] (1 - outcome[g]).

    >>> one = example_one()
    >>> h, negative = one.decision(one.rows), one.mass * (1 - one.outcome)
    >>> fpr = negative @ h / negative.sum(axis=1)
    >>> round(float(100 * (fpr[0] - fpr[1])), 2)
    25.14
    """

    name: str
    feature_names: tuple[str, ...]
    rows: Rows
    mass: Floats
    outcome: Floats
    group_names: tuple[str, str] = ("target", "baseline")
    decision: Decision | None = None

    def __post_init__(self) -> None:
        dtypes: dict[str, type] = {"rows": np.int64, "mass": np.float64, "outcome": np.float64}
        for field, dtype in dtypes.items():
            array: NDArray[Any] = np.array(getattr(self, field), dtype=dtype)
            array.flags.writeable = False
            object.__setattr__(self, field, array)
        shape = (2, len(self.rows))
        totals_one = self.mass.shape == shape and np.allclose(self.mass.sum(axis=1), 1, atol=1e-12)
        must = f"must be non-negative, of shape {shape}, every group summing to 1"
        got = f"got shape {self.mass.shape} and sum(s) {self.mass.sum(axis=-1)}"
        fix = "Give one row of probabilities a group, the target group first."
        check(totals_one and self.mass.min() >= 0, f"mass of {self.name!r}", must, got, fix)
        y, fix = self.outcome, "Give P(Y=1 | row, group), the target group first."
        must, got = f"must be probabilities of shape {shape}", f"got shape {y.shape}"
        are_chances = y.shape == shape and y.min() >= 0 and y.max() <= 1
        check(are_chances, f"outcome of {self.name!r}", must, got, fix)

    def sample(
        self, n: int, random_state: int | np.random.Generator | None = None, p_target: float = 0.5
    ) -> tuple[Rows, NDArray[np.int8], NDArray[np.str_]]:
        """Draw n people independently: P(g) mass[g, x], then y with P(Y=1) = outcome[g, x].

        ``p_target`` is P(S = 0), the share of the target group; ``random_state`` a seed, a
        generator, or nothing for a fresh one. What comes back is X of shape (n, d), y in {0, 1}
        and the group names s, both of shape (n,).

        >>> X, y, s = example_one().sample(4, random_state=0)
        >>> X.shape, y.shape, sorted(set(s.tolist())) <= ["baseline", "target"]
        ((4, 2), (4,), True)
        """
        rng = np.random.default_rng(random_state)
        share = np.array([[p_target], [1 - p_target]])
        cell = rng.choice(self.mass.size, size=n, p=(share * self.mass).ravel())
        group, row = np.divmod(cell, len(self.rows))
        y = (rng.random(n) < self.outcome[group, row]).astype(np.int8)
        return self.rows[row], y, np.array(self.group_names)[group]

    def tabulated(self, decision: Callable[[NDArray[Any]], ArrayLike] | None = None) -> AuditData:
        """Both groups as exact `Population`s under a model: the paper's, or the one given.

        >>> from fairmend import FPR, audit_data
        >>> round(audit_data(example_one().tabulated(), metrics=[FPR])["fpr", "target"].gap, 4)
        0.2514
        """
        model = self.decision if decision is None else decision
        if model is None:
            must = "must be given where the population has no rule of its own"
            fix = "Pass a function from rows to decisions."
            raise DataError(f"decision for {self.name!r}", must, "got None", fix)
        h = np.asarray(model(self.rows), np.float64)
        target, baseline = (
            Population.of(mass, h, outcome, rows=np.arange(len(self.rows)), baseline_mass=other)
            for mass, outcome, other in zip(self.mass, self.outcome, self.mass[::-1], strict=True)
        )
        return AuditData(
            self.group_names, (target, baseline), Labels(0, 1), "group", Frame.read(self.rows)
        )

    def weighted(self) -> tuple[Rows, NDArray[np.int8], NDArray[np.str_], Floats]:
        """List every possible (group, row, outcome) with its exact probability as weight.

        The weight is 1/2 mass[g, x] P(Y=y | x, g); cells of probability zero are left out. An
        audit with these weights sees the distribution itself, as a sample of endless size would.
        What comes back is X, y and s as in `sample`, and their weights, which sum to 1.

        >>> X, y, s, weight = example_one().weighted()
        >>> len(X), round(float(weight.sum()), 12)
        (16, 1.0)
        """
        likelihood = np.stack([1 - self.outcome, self.outcome], axis=-1)
        weight = 0.5 * self.mass[:, :, None] * likelihood
        group, row, y = np.nonzero(weight)
        return (
            self.rows[row],
            y.astype(np.int8),
            np.array(self.group_names)[group],
            weight[group, row, y],
        )


def example_one() -> FinitePopulation:
    """Build Example 1: giving the target the baseline's inputs makes its disparity worse.

    X1 and X2 are independent bits, P(X=1|S=0) = (0.9, 0.2) and P(X=1|S=1) = (0.1, 0.5);
    P(Y=1|x,S=0) = logistic(2 x1 - 2 x2), P(Y=1|x,S=1) = logistic(2 x1 + 4 x2 - 3);
    h(x) = 1[x2 = 1]. The gap in false positive rates is 25.14 %, and 43.63 % under P0 <- P1.

    >>> one = example_one()
    >>> one.rows.tolist()
    [[0, 0], [0, 1], [1, 0], [1, 1]]
    >>> one.mass[0].round(2).tolist()
    [0.08, 0.02, 0.72, 0.18]
    """
    rows = _bits(2)
    x1, x2 = rows.T
    return FinitePopulation(
        name="Example 1",
        feature_names=("x1", "x2"),
        rows=rows,
        mass=np.stack([_independent(rows, (0.9, 0.2)), _independent(rows, (0.1, 0.5))]),
        outcome=np.stack([_logistic(2 * x1 - 2 * x2), _logistic(2 * x1 + 4 * x2 - 3)]),
        decision=lambda inputs: (np.asarray(inputs)[:, 1] == 1).astype(np.int64),
    )


def toy_descent() -> FinitePopulation:
    """Build the appendix's toy problem for the descent procedure (Figure 2).

    X1, X2, X3 are independent bits, P(X=1|S=0) = (0.9, 0.2, 0.2), P(X=1|S=1) = (0.1, 0.5, 0.5);
    P(Y=1|x) = logistic(5 x1 - 2 x2 - 2 x3) in both groups. The paper's logistic regression is
    well specified, so with enough data its decision 1[p > 1/2] is 1[5 x1 - 2 x2 - 2 x3 > 0], which
    is 1[x1 = 1]: a false positive rate of 29.78 % for the target, 1.25 % for the baseline.

    Mind row (0, 0, 0), where p is exactly 1/2: a model fitted to a sample may decide it either way.

    >>> toy = toy_descent()
    >>> h, negative = toy.decision(toy.rows), toy.mass * (1 - toy.outcome)
    >>> (100 * negative @ h / negative.sum(axis=1)).round(2).tolist()
    [29.78, 1.25]
    """
    rows = _bits(3)
    x1, x2, x3 = rows.T
    outcome = _logistic(5 * x1 - 2 * x2 - 2 * x3)
    return FinitePopulation(
        name="toy descent",
        feature_names=("x1", "x2", "x3"),
        rows=rows,
        mass=np.stack([_independent(rows, (0.9, 0.2, 0.2)), _independent(rows, (0.1, 0.5, 0.5))]),
        outcome=np.stack([outcome, outcome]),
        decision=lambda inputs: (np.asarray(inputs) @ [5, -2, -2] > 0).astype(np.int64),
    )


def joint_proxies(coding: Literal["reproduces", "text"] = "reproduces") -> FinitePopulation:
    """Build the appendix's joint proxies: removing one of two proxy variables makes it worse.

    The pair (X1, X2) has the joint distributions

        P0 = [[0.60, 0.00], [0.25, 0.15]]        P1 = [[0.05, 0.00], [0.20, 0.75]]

    with X1 down and X2 across, -1 before +1. X3 is +1 with probability 0.3, independently of
    them, and P(Y=1|x) = logistic(6 x1 x2 + x3) with x in {-1, +1}, in both groups.

    ``coding`` says which numbers a model is given. ``"text"`` gives -1 and +1, as the paper
    writes. ``"reproduces"`` gives 0 and 1 instead, with Y still drawn from -1 and +1.

    The paper fits a logistic regression and reports DA_0 = KL(P(Yhat|S=0) || P(Yhat|S=1)), soft
    predictions, nats: 14.0 %, and 24.8 % without X1. In the limit of endless data that comes out
    as 14.05 % and 24.99 % when 0 and 1 are given to a regression without intercept. The text's
    coding gives 0.72 % and 20.98 % with an intercept, 2.28 % and 9.41 % without.

    There is no fixed decision: the model is to be fitted, with and without X1.

    >>> joint_proxies().rows.min(), joint_proxies("text").rows.min()
    (np.int64(0), np.int64(-1))
    """
    fix = "Use 'reproduces' for the paper's figures."
    check_choice("joint_proxies(coding=...)", coding, ("reproduces", "text"), fix)
    bits = _bits(3)
    signs = 2 * bits - 1
    pairs = np.array([[[0.60, 0.00], [0.25, 0.15]], [[0.05, 0.00], [0.20, 0.75]]])
    outcome = _logistic(6 * signs[:, 0] * signs[:, 1] + signs[:, 2])
    return FinitePopulation(
        name="joint proxies",
        feature_names=("x1", "x2", "x3"),
        rows=bits if coding == "reproduces" else signs,
        mass=pairs[:, bits[:, 0], bits[:, 1]] * np.where(bits[:, 2] == 1, 0.3, 0.7),
        outcome=np.stack([outcome, outcome]),
    )


def _bits(d: int) -> Rows:
    """List {0, 1}^d, the last variable changing fastest."""
    return np.array(list(product((0, 1), repeat=d)), dtype=np.int64)


def _independent(rows: Rows, p_one: Sequence[float]) -> Floats:
    """Multiply out P(x) = prod_j p_j^x_j (1 - p_j)^(1 - x_j)."""
    p = np.asarray(p_one)
    mass: Floats = np.where(rows == 1, p, 1 - p).prod(axis=1)
    return mass


def _logistic(logit: ArrayLike) -> Floats:
    from scipy.special import expit

    return np.asarray(expit(np.asarray(logit, dtype=np.float64)))
