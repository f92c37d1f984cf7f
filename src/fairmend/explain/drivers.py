"""Which features, and which pairs of them, carry a disparity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from fairmend.data.columns import Encoded, FloatArray, IntArray, as_measure
from fairmend.explain.marginals import inputs_of
from fairmend.measure.leave_one_out import Explained, OtherPeople

if TYPE_CHECKING:
    from fairmend.explain.counterfactual import Counterfactual

BINS = 10
"""Numbers with more distinct values than this are compared by their tenths."""
MOST_SHOWN = 20
"""Of a category with more values than this, the others count as one."""
MOST_PAIRED = 30
"""Joint proxies are sought among this many features, those that carry most alone."""


@dataclass(frozen=True)
class FeatureScore:
    """How much of a disparity one feature carries."""

    feature: str
    share_of_gap: float
    """The part of the change that comes about if only this feature's marginal moves to Q's."""
    influence_share: float
    """Var(E[psi | feature]) / Var(psi): how much of the influence function it explains alone."""
    shift: float
    """Total variation distance between its marginals under P0 and Q."""
    low: float = float("nan")
    high: float = float("nan")
    """The 95 % interval of ``influence_share``, for all features at once; none if P0 is exact."""
    more_than_noise: bool = True
    """Whether it is more than 0 by a test, corrected for how many are looked at. The test is
    sharper than the interval, which may still begin at 0."""


@dataclass(frozen=True)
class JointProxy:
    """Two features that carry more together than the better of them does alone."""

    first: str
    second: str
    excess: float
    """What the pair explains of the influence function beyond the better single feature."""
    influence_share: float
    """Var(E[psi | both]) / Var(psi)."""
    share_of_gap: float
    """The part of the change that comes about if only the pair's joint marginal moves to Q's."""
    low: float = float("nan")
    high: float = float("nan")
    """The 95 % interval of ``excess``, for all pairs at once; none if P0 is exact."""
    more_than_noise: bool = True
    """Whether it is more than 0 by a test, corrected for how many are looked at. The test is
    sharper than the interval, which may still begin at 0."""


def feature_scores(result: Counterfactual) -> list[FeatureScore]:
    """How much of the disparity each feature carries; what is more than noise first, then most.

    Whatever is estimated for a person's value leaves that person out (leave-one-out
    cross-fitting), so that noise explains nothing on average. The intervals hold for all features
    at once, at 95 %. An exact distribution has no noise, and no intervals.
    """
    people, psi, density = (
        OtherPeople.of(result.source),
        _scaled_influence(result),
        result.density,
    )
    codes = _binned(result)
    nothing, same = np.zeros(len(psi)), np.ones(len(psi))
    scores = []
    for name, code in codes:
        mean = people.mean(code, psi, nothing)
        share = people.explained(psi, mean, nothing, len(codes))
        moved = people.mean(code, density, same)
        shift = people.mass @ ((density - 1) * np.sign(moved - 1)) / 2
        scores.append(
            FeatureScore(
                feature=name,
                share_of_gap=_share_of_gap(result, moved),
                influence_share=share.value,
                shift=max(0.0, float(shift)),
                low=share.low,
                high=share.high,
                more_than_noise=share.more_than_noise,
            )
        )
    return sorted(scores, key=lambda score: (not score.more_than_noise, -score.influence_share))


def joint_proxies(result: Counterfactual) -> list[JointProxy]:
    """Pairs of features whose combination matters beyond either alone; what is sure first.

    For a pair, the influence function is averaged within each combination of their values; what
    that explains beyond the better single feature is the pair's excess. Means are those of the
    other people with the same values, as in `feature_scores`; whoever has a combination alone
    counts as for the better feature. The intervals hold at once for all pairs there are.
    """
    people, psi, density = (
        OtherPeople.of(result.source),
        _scaled_influence(result),
        result.density,
    )
    codes = dict(_binned(result))
    nothing, same = np.zeros(len(psi)), np.ones(len(psi))
    alone = {name: people.mean(code, psi, nothing) for name, code in codes.items()}
    worth = {name: float(people.mass @ (psi * mean)) for name, mean in alone.items()}
    strongest = sorted(worth, key=lambda name: -worth[name])[:MOST_PAIRED]
    moved = {name: people.mean(codes[name], density, same) for name in strongest}
    compared = len(codes) * (len(codes) - 1) // 2
    pairs = []
    for better, worse in combinations(strongest, 2):
        code = codes[better] * (int(codes[worse].max()) + 1) + codes[worse]
        mean = people.mean(code, psi, alone[better])
        rivals = (alone[better], alone[worse], nothing)
        excess = Explained.least([people.explained(psi, mean, rival, compared) for rival in rivals])
        pairs.append(
            JointProxy(
                first=better,
                second=worse,
                excess=excess.value,
                influence_share=max(0.0, float(people.mass @ (psi * mean))),
                share_of_gap=_share_of_gap(result, people.mean(code, density, moved[better])),
                low=excess.low,
                high=excess.high,
                more_than_noise=excess.more_than_noise,
            )
        )
    return sorted(pairs, key=lambda pair: (not pair.more_than_noise, -pair.excess))


def verdict_on_features(scores: Sequence[FeatureScore]) -> str:
    """How many features explain more of a gap than noise does, in words."""
    sure = sum(score.more_than_noise for score in scores)
    if sure == 0:
        return "No feature explains more of the gap than noise does."
    return f"{sure:,} of {len(scores):,} features explain more of the gap than noise does."


def verdict_on_pairs(pairs: Sequence[JointProxy]) -> str:
    """How many pairs explain more than the better of the two alone; empty where there are none."""
    if not pairs:
        return ""
    sure = sum(pair.more_than_noise for pair in pairs)
    if sure == 0:
        return "No pair of features adds more than noise to what the better of the two explains."
    return (
        f"{sure:,} of {len(pairs):,} pairs of features add more than noise to what the better of "
        "the two explains."
    )


def _binned(result: Counterfactual) -> list[tuple[str, IntArray]]:
    """Each feature as small codes: its values, or tenths of the target group for fine numbers.

    Of a category with many values the rare ones count as one.
    """
    table = inputs_of(result)
    return [
        (str(name), _tenths(column, result.source.mass))
        for name, column in zip(table.names, table.encoded, strict=True)
    ]


def _tenths(column: Encoded, mass: FloatArray) -> IntArray:
    numbers, values = as_measure(column.values), len(column.values)
    weight = np.bincount(column.codes, mass, values)
    if values <= BINS or (numbers is None and values <= MOST_SHOWN):
        return column.codes.astype(np.int64)
    if numbers is None:
        rank = np.empty(values, np.int64)
        rank[np.argsort(-weight, kind="stable")] = np.arange(values)
        return np.asarray(np.minimum(rank, MOST_SHOWN)[column.codes], np.int64)
    middle = np.cumsum(weight) - weight / 2  # values are sorted, missing last: a bin of its own
    tenth = np.minimum(BINS - 1, BINS * middle).astype(np.int64)
    tenth[np.isnan(numbers)] = BINS
    return np.asarray(tenth[column.codes], np.int64)


def _scaled_influence(result: Counterfactual) -> FloatArray:
    """Psi at each row, with mean 0 and variance 1; 0 where it is 0 everywhere."""
    psi = result.influence
    size = float(np.sqrt(result.source.mass @ psi**2))
    return psi / size if size > 0 else psi


def _share_of_gap(result: Counterfactual, density: FloatArray) -> float:
    """(M(P0) - M(Q')) / (M(P0) - M(Q)), Q' = P0 with only some features' marginal moved to Q's.

    The density Q'/P0 is that of the features' values, from the other people.
    """
    mass = result.source.mass * density
    moved = result.source.reweighted(mass / mass.sum())
    changes = [
        (old - d.value(moved, result.baseline), old - new)
        for d, old, new in zip(
            result.disparities,
            result.gaps_before,
            result.gaps_after,
            strict=True,
        )
    ]
    partial, whole = max(changes, key=lambda pair: abs(pair[1]))
    return partial / whole if abs(whole) > 1e-15 else 0.0
