"""Simulated populations whose truth is known: groups, inputs, P(Y=1 | x, group) and decisions.

Three kinds of inputs: ``table`` (36 possible rows, so that people share rows), ``fine`` (400 rows,
most of them seen by nobody in a small audit) and ``normal`` (three continuous numbers). The truth
about new people is a sum over all rows of a table, and over 4,096 quasi-random people of each group
where inputs are continuous. P(Y=1 | x) is not logistic. Nothing here uses the package.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import expit
from scipy.stats import norm, qmc

NAMES = ("a", "b", "c", "d", "e")
SHARES = {2: (0.35, 0.65), 3: (0.25, 0.3, 0.45), 5: (0.15, 0.2, 0.2, 0.2, 0.25)}
MISREAD = 0.1
"""Recorded decisions differ from the rule this often, so that equal rows have both."""
POINTS = 12
"""2 ** 12 quasi-random people stand for a group of continuous inputs."""


class People(NamedTuple):
    """Some people, or a whole population with y as a probability and w as a mass."""

    X: Any
    y: np.ndarray
    groups: np.ndarray
    w: np.ndarray
    own: np.ndarray
    """The model's own decision, or its probability where decisions are soft."""


@dataclass(frozen=True)
class World:
    """One population. Group a has the lowest inputs, the last group the highest."""

    kind: str
    groups: int = 2
    answers: str = "scores"
    """What the model gives: scores, labels, soft, or recorded decisions."""
    weighted: bool = False
    differs: bool = True
    """Whether P(Y=1 | x) differs between the groups."""
    shift: float = 0.8
    """How far apart the inputs of the first and the last group are; 0: all the same."""

    @property
    def names(self) -> tuple[str, ...]:
        return NAMES[: self.groups]

    @property
    def model(self) -> Any:
        """What the package is given."""
        from fairmend import BlackBox

        return {
            "scores": score,
            "labels": label,
            "soft": BlackBox(score, soft=True),
            "recorded": "decision",
        }[self.answers]

    def audit(self, n: int, seed: int) -> People:
        """People drawn at random, with drawn outcomes and weights."""
        rng = np.random.default_rng([seed, n])
        g = rng.choice(self.groups, n, p=SHARES[self.groups])
        if self.kind == "normal":
            x = rng.normal(size=(n, 3))
            x[:, 0] += self._shifts()[g]
        else:
            rows = _rows(self.kind)
            x = np.empty((n, rows.shape[1]))
            for k in range(self.groups):
                here = np.flatnonzero(g == k)
                x[here] = rows[rng.choice(len(rows), len(here), p=self._mass(k))]
        y = (rng.random(n) < self.chance(x, g)).astype(int)
        w = weight(x) * rng.uniform(0.5, 1.5, n) if self.weighted else np.ones(n)
        own = score(x) if self.answers == "soft" else label(x).astype(float)
        if self.answers == "recorded":
            own = np.where(rng.random(n) < MISREAD, 1 - own, own)
        return People(self._inputs(x, own), y, np.array(self.names)[g], w, own)

    @lru_cache  # noqa: B019  a handful of small tables
    def everybody(self) -> People:
        """The population itself, where w is the mass of each row."""
        parts = []
        for k in range(self.groups):
            if self.kind == "normal":
                unit = qmc.Sobol(3, rng=np.random.default_rng(k)).random_base2(POINTS)
                x = norm.ppf(np.clip(unit, 1e-9, 1 - 1e-9))
                x[:, 0] += self._shifts()[k]
                mass = np.full(len(x), 1 / len(x))
            else:
                x, mass = _rows(self.kind), self._mass(k)
            mass = mass * SHARES[self.groups][k] * (weight(x) if self.weighted else 1)
            parts.append((x, np.full(len(x), k), mass))
        x, g, mass = (np.concatenate(part) for part in zip(*parts, strict=True))
        own = score(x) if self.answers == "soft" else label(x).astype(float)
        if self.answers == "recorded":
            x, g = np.concatenate([x, x]), np.concatenate([g, g])
            mass = np.concatenate([(1 - MISREAD) * mass, MISREAD * mass])
            own = np.concatenate([own, 1 - own])
        names = np.array(self.names)[g]
        return People(self._inputs(x, own), self.chance(x, g), names, mass, own)

    def chance(self, x: np.ndarray, g: np.ndarray) -> np.ndarray:
        """P(Y=1 | x, group): not logistic."""
        last = max(1, self.groups - 1)
        z = 1.1 * x[:, 0] + 0.5 * x[:, 1] + 0.45 * (x[:, 0] ** 2 - 1)
        return 0.05 + 0.9 * expit(z - (0.7 * (1 - g / last) if self.differs else 0.0))

    def _shifts(self) -> np.ndarray:
        return np.linspace(-self.shift, 0, self.groups)

    def _mass(self, k: int) -> np.ndarray:
        rows = _rows(self.kind)
        mass = np.exp(-((rows[:, 0] - self._shifts()[k]) ** 2) / 2 - rows[:, 1] ** 2 / 2)
        return mass / mass.sum()

    def _inputs(self, x: np.ndarray, own: np.ndarray) -> Any:
        if self.answers != "recorded":
            return x
        columns = {f"x{j}": x[:, j] for j in range(x.shape[1])}
        return pd.DataFrame(columns | {"decision": own.astype(int)})


@lru_cache
def _rows(kind: str) -> np.ndarray:
    axes = {
        "table": ((-1.5, -0.5, 0.5, 1.5), (-1.0, 0.0, 1.0), (-1.0, 0.0, 1.0)),
        "fine": (np.linspace(-2.4, 2.4, 20), np.linspace(-2, 2, 20)),
    }[kind]
    return np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)


def score(x: Any) -> np.ndarray:
    """The model: a probability that sees the inputs, and judges them in its own way."""
    x = np.asarray(x, float)
    z = x[:, 0] + 0.6 * x[:, 1] - 0.13
    return expit(z + 0.35 * x[:, 2] if x.shape[1] > 2 else z)


def label(x: Any) -> np.ndarray:
    """The model where it gives labels only."""
    return (score(x) > 0.5).astype(int)


def weight(x: np.ndarray) -> np.ndarray:
    """The mean weight of people with these inputs."""
    return 0.6 + 0.8 * expit(2 * x[:, 0])
