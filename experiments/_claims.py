"""Statements that are not about a repair: intervals, tests, certificates, proxies.

Each function answers for one audit of n people: one True or False a statement made, where True is
what the bounds of its `Claim` are about (covered, or wrong).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from _recount import Count
from _worlds import World

import fairmend

LEVEL = 0.05


@dataclass(frozen=True)
class Claim:
    """One kind of statement, and how often it may be so."""

    name: str
    once: Callable[[int, int], list[bool]]
    """From a number of people and a seed."""
    low: float
    high: float
    sizes: tuple[int, ...] = (500, 2_000)
    repetitions: int = 1_000

    @property
    def family(self) -> str:
        return "claim"


# -------------------------------------------------------------------- the audit


def interval_covers(n: int, seed: int, *, world: World, metric: str, reference: str) -> list[bool]:
    """Whether each group's interval holds the true gap."""
    people, truth = world.audit(n, seed), world.everybody()
    counted = Count(truth.y, truth.groups, truth.w)
    audit = fairmend.audit(
        world.model, people.X, people.y, sensitive_features=people.groups, metrics=[metric],
        reference=reference, sample_weight=people.w if world.weighted else None,
    )  # fmt: skip
    return [
        gap.low <= counted.gap(metric, truth.own, gap.target, gap.baseline) <= gap.high
        for gap in audit.gaps
        if gap.judged
    ]


def finds_a_gap(n: int, seed: int, *, world: World, reference: str) -> list[bool]:
    """Whether the audit finds any gap; to be used where there is none."""
    people = world.audit(n, seed)
    audit = fairmend.audit(
        world.model, people.X, people.y, sensitive_features=people.groups, reference=reference,
        sample_weight=people.w if world.weighted else None,
    )  # fmt: skip
    return [any(gap.p_adjusted <= LEVEL for gap in audit.gaps)]


# -------------------------------------------------------------------- the explanation


def certain_and_wrong(n: int, seed: int, *, row_14: float, metric: str = "fdr") -> list[bool]:
    """Whether a certificate that calls itself certain says what is not so.

    One input of 20 values, positive from 10 on; target outcomes are right half the time there, but
    on row 14, and the baseline's four times in five.
    """
    rng = np.random.default_rng([seed, n])
    x, in_b = rng.integers(0, 20, n), rng.random(n) < 0.5
    chance = np.where(x < 10, 0.2, 0.5)
    chance[x == 14] = row_14
    y = (rng.random(n) < np.where(in_b, np.where(x < 10, 0.3, 0.8), chance)).astype(int)
    found = fairmend.counterfactual(
        _from_ten, x.reshape(-1, 1), y, sensitive_features=np.where(in_b, "b", "a"),
        disparity=metric, target="a", baseline="b",
    )  # fmt: skip
    certificate = found.certificate
    if not certificate.downwards:
        return []
    best = 0.2 if metric == "fdr" else 0.0
    seen = np.unique(x[(x >= 10) & ~in_b])
    truth = min(1 - (row_14 if row == 14 else 0.5) for row in seen) - best
    return [bool(certificate.certain and certificate.irreconcilable != (truth > 0))]


def _from_ten(x: Any) -> np.ndarray:
    return (np.asarray(x)[:, 0] >= 10).astype(int)


def outcomes_differ(n: int, seed: int, *, world: World) -> list[bool]:
    """Whether P(Y|X) is found to differ between the two groups."""
    people = world.audit(n, seed)
    found = fairmend.counterfactual(
        world.model, people.X, people.y, sensitive_features=people.groups, disparity="sp",
        target="a", baseline="b",
    )  # fmt: skip
    return [bool(found.outcome_difference.p_value < LEVEL)]


def pairs_of_noise(n: int, seed: int, *, features: int) -> list[bool]:
    """Whether a pair of features is said to add something where only x0 is decided by."""
    rng = np.random.default_rng([seed, n])
    x, in_a = rng.normal(size=(n, features)), rng.random(n) < 0.5
    x[in_a, 0] -= 0.6
    found = fairmend.counterfactual(
        _by_the_first, pd.DataFrame(x, columns=[f"x{j}" for j in range(features)]),
        rng.integers(0, 2, n), sensitive_features=np.where(in_a, "a", "b"), disparity="sp",
        target="a", baseline="b",
    )  # fmt: skip
    return [bool(found.joint_proxies()["more_than_noise"].any())]


def _by_the_first(x: Any) -> np.ndarray:
    return (np.asarray(x)[:, 0] > 0).astype(int)


# -------------------------------------------------------------------- the list


def claims() -> list[Claim]:
    """Every kind of statement, on several populations."""
    listed = []
    for metric in ("sp", "fnr", "fpr", "fdr"):
        for world, reference in ((World("fine", 3), "c"), (World("table", 2, weighted=True), "b"),
                                 (World("table", 2, "soft"), "b"),
                                 (World("fine", 5), "best")):  # fmt: skip
            words = (f"{world.groups} groups against {reference}, {world.answers}"
                     f"{', weighted' * world.weighted}")  # fmt: skip
            once = partial(interval_covers, world=world, metric=metric, reference=reference)
            listed.append(Claim(f"audit interval of {metric} covers | {words}", once, 0.92, 0.99,
                                repetitions=500))  # fmt: skip
    for groups, reference in ((2, "best"), (3, "best"), (5, "best"), (5, "rest"), (5, "e")):
        world = World("table", groups, differs=False, shift=0.0, weighted=groups == 5)
        listed.append(Claim(f"audit finds a gap where there is none | {groups} groups against "
                            f"{reference}", partial(finds_a_gap, world=world, reference=reference),
                            0.0, LEVEL))  # fmt: skip
    for row_14, words in ((0.95, "one row closes the gap"), (0.5, "no row closes it"),
                          (0.75, "one row nearly closes it")):  # fmt: skip
        listed.append(Claim(f"certificate is certain and wrong | {words}",
                            partial(certain_and_wrong, row_14=row_14), 0.0, LEVEL,
                            sizes=(500, 2_000, 4_000), repetitions=100))  # fmt: skip
    for kind in ("table", "fine", "normal"):
        for answers in ("scores", "recorded"):
            world = World(kind, answers=answers, differs=False)
            listed.append(Claim(f"P(Y|X) differs where it does not | {kind}, {answers}",
                                partial(outcomes_differ, world=world), 0.0, LEVEL,
                                repetitions=40))  # fmt: skip
        listed.append(Claim(f"P(Y|X) differs where it does | {kind}",
                            partial(outcomes_differ, world=World(kind)), 0.0, 1.0,
                            repetitions=20))  # fmt: skip
    listed.append(Claim("joint proxies name a pair that adds nothing | 30 features",
                        partial(pairs_of_noise, features=30), 0.0, LEVEL, sizes=(400,),
                        repetitions=50))  # fmt: skip
    listed.append(Claim("joint proxies name a pair that adds nothing | 6 features",
                        partial(pairs_of_noise, features=6), 0.0, LEVEL,
                        repetitions=100))  # fmt: skip
    return listed


def all_claims() -> dict[str, Claim]:
    """Every claim by its name."""
    return {claim.name: claim for claim in claims()}


def tried(claim: Claim, n: int, seed: int) -> list[bool]:
    """One repetition, without the warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return claim.once(n, seed)
