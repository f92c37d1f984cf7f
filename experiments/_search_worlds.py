"""Worlds in which the truth about every alternative is known, for experiments/alternatives.py.

A world lists all its people, or so many that they stand for all: their inputs, how many there are
of each, the chance of each group and, by group, of a positive outcome. Samples are drawn from it,
and a rule's gap and accuracy are sums over it. So is what the best rule of all reaches: a linear
program over the people, solved here by a general solver.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import linprog
from scipy.special import expit
from scipy.stats import binom, norm


@dataclass(frozen=True, eq=False)
class World:
    """Everybody, one entry a kind of person; tables of group by kind."""

    X: pd.DataFrame
    mass: np.ndarray
    group: np.ndarray
    """P(group | inputs), a row for each group."""
    outcome: np.ndarray
    """P(Y=1 | inputs, group), a row for each group."""
    model: Callable[[Any], np.ndarray]
    n: int
    margin: float = 0.01
    weight: np.ndarray | None = None
    """What somebody of each kind weighs; the sample has as many fewer of them."""
    draw: Callable[[np.random.Generator, int], np.ndarray] | None = None
    """Inputs of new people, where those listed only stand for all."""
    chances: Callable[[pd.DataFrame], tuple[np.ndarray, np.ndarray]] | None = None
    """Groups and outcomes of any inputs, where there is ``draw``."""

    def sample(self, seed: int) -> dict[str, Any]:
        """People of an audit."""
        rng = np.random.default_rng(seed)
        if self.draw is not None:
            assert self.chances is not None
            X = pd.DataFrame(self.draw(rng, self.n), columns=self.X.columns)
            group, outcome = self.chances(X)
            kind = np.arange(self.n)
        else:
            often = self.mass if self.weight is None else self.mass / self.weight
            kind = rng.choice(len(self.mass), self.n, p=often / often.sum())
            X, group, outcome = self.X.iloc[kind].reset_index(drop=True), self.group, self.outcome
        upto = np.cumsum(group[:, kind], axis=0)
        s = (rng.random(self.n) > upto).sum(axis=0).clip(max=len(group) - 1)
        y = (rng.random(self.n) < outcome[s, kind]).astype(int)
        people = {"X": X, "y": y, "sensitive_features": np.array([f"g{k}" for k in s])}
        return people if self.weight is None else people | {"sample_weight": self.weight[kind]}

    def accuracy(self, decided: np.ndarray) -> float:
        """Of decisions about each kind, which may be chances."""
        whole = self.mass * self.group
        right = decided * self.outcome + (1 - decided) * (1 - self.outcome)
        return float((whole * right).sum() / whole.sum())

    def rate(self, decided: np.ndarray, group: str) -> float:
        """Of negative decisions."""
        own = self.mass * self.group[int(group[1:])]
        return float(own @ (1 - decided) / own.sum())

    def gap(self, decided: np.ndarray, target: str, baseline: str) -> float:
        """In sp: how much more often a group's decision is negative."""
        return self.rate(decided, target) - self.rate(decided, baseline)

    def widest(self, decided: np.ndarray) -> float:
        """The gap of the current worst group against the current best, either way, of all pairs."""
        now = self.now
        groups = [f"g{k}" for k in range(len(self.group))]
        best = min(groups, key=lambda group: self.rate(now, group))
        return max(abs(self.gap(decided, one, best)) for one in groups if one != best)

    @property
    def now(self) -> np.ndarray:
        """The model's decisions."""
        return (self.model(self.X) > 0.5).astype(float)

    @lru_cache  # noqa: B019 -- there are few worlds, and they live as long as the run
    def least(self) -> float:
        """The least that the widest gap of any rule can be, at an accuracy within the margin."""
        groups, now = range(len(self.group)), self.now
        own = self.mass * self.group
        rates = own / own.sum(axis=1, keepdims=True)  # of positive decisions
        step = (own * (2 * self.outcome - 1)).sum(axis=0) / own.sum()
        best = max(groups, key=lambda k: rates[k] @ now)
        above, below = [], []
        for k in groups:
            if k == best:
                continue
            for sign in (1, -1):
                above.append(np.append(sign * (rates[best] - rates[k]), -1.0))
                below.append(0.0)
        above.append(np.append(-step, 0.0))
        below.append(-(step @ now - self.margin))
        found = linprog(
            np.append(np.zeros(len(now)), 1.0), A_ub=np.array(above), b_ub=below,
            bounds=[(0, 1)] * len(now) + [(0, None)], method="highs",
        )  # fmt: skip
        assert found.status == 0
        return float(found.fun)


def rows(*, groups: tuple[float, ...] = (0.5, 0.5), n: int = 3_000, weighted: bool = False,
         honest: bool = False, margin: float = 0.01) -> World:  # fmt: skip
    """Few kinds of rows: an income that groups differ in, a skill, and a flag of the group.

    The model weighs the flag, which says nothing of the outcome; an honest one does not.
    """
    kinds = np.array(list(product(range(5), range(4), range(2))))
    income, skill, flag = kinds.T
    share = np.array(groups)[:, None]
    place = np.linspace(0, 1, len(groups))[:, None]  # the first group has least
    likely = (
        binom.pmf(income, 4, 0.4 + 0.2 * place) * binom.pmf(skill, 3, 0.5)
        * np.where(flag == 1, 0.2 + 0.5 * place, 0.8 - 0.5 * place)
    )  # fmt: skip
    joint = share * likely
    mass = joint.sum(axis=0)
    outcome = np.tile(expit(0.9 * income + 0.9 * skill - 3.2), (len(groups), 1))
    extra = 0.0 if honest else 0.8
    X = pd.DataFrame(kinds, columns=["income", "skill", "flag"])

    def model(X: Any) -> np.ndarray:
        flagged = extra * (X["flag"] - 0.5)
        return expit(0.9 * X["income"] + 0.9 * X["skill"] + flagged - 3.2).to_numpy()

    weight = np.where(flag == 1, 3.0, 1.0) if weighted else None
    return World(X, mass / mass.sum(), joint / mass, outcome, model, n, margin, weight)


def numbers(*, n: int = 3_000, margin: float = 0.01, people: int = 40_000) -> World:
    """Continuous inputs: one that groups differ in, one that they do not, and a proxy."""
    centres = np.array([-0.4, 0.4])

    def draw(rng: np.random.Generator, count: int) -> np.ndarray:
        group = rng.integers(0, 2, count)
        shifted = rng.normal(size=(count, 3))
        shifted[:, 0] += centres[group]
        shifted[:, 2] += 2 * centres[group]
        return shifted

    def chances(X: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        a, b, proxy = X.to_numpy().T
        density = np.stack([norm.pdf(a - c) * norm.pdf(proxy - 2 * c) for c in centres])
        outcome = expit(1.5 * a + 1.5 * b)
        return density / density.sum(axis=0), np.tile(outcome, (2, 1))

    def model(X: Any) -> np.ndarray:
        return expit(1.5 * X["a"] + 1.5 * X["b"]).to_numpy()

    X = pd.DataFrame(draw(np.random.default_rng(0), people), columns=["a", "b", "proxy"])
    group, outcome = chances(X)
    return World(X, np.full(people, 1 / people), group, outcome, model, n, margin,
                 draw=draw, chances=chances)  # fmt: skip


WORLDS: dict[str, Callable[[], World]] = {
    "a proxy that helps nobody": rows,
    "few kinds of rows": lambda: rows(honest=True),
    "continuous rows": numbers,
    "four groups": lambda: rows(groups=(0.2, 0.3, 0.2, 0.3), n=5_000, honest=True),
    "weights": lambda: rows(weighted=True, honest=True),
    "hardly anything better": lambda: rows(honest=True, margin=0.0005, n=4_000),
    "a rare group": lambda: rows(groups=(0.04, 0.96), n=3_000, honest=True),
}
