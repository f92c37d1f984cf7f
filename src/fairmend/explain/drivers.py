"""What a counterfactual distribution says about the inputs.

Everything compares the target group as observed (P0) with its counterfactual (Q), row by row or
feature by feature. Functions here give plain rows of values; `Counterfactual`'s methods of the same
names give them as frames.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from fairmend.data.columns import (
    Encoded,
    FloatArray,
    Frame,
    IntArray,
    as_measure,
    as_numbers,
    is_missing,
    scalar,
)
from fairmend.data.features import FeatureMap
from fairmend.errors import DataError, require
from fairmend.measure import special
from fairmend.measure.population import Population

if TYPE_CHECKING:
    import pandas as pd

    from fairmend.explain.counterfactual import Counterfactual

__all__ = [
    "FeatureScore",
    "JointProxy",
    "Marginal",
    "feature_scores",
    "joint_proxies",
    "marginals",
    "prototypes",
    "row_influence",
    "verdict_on_features",
    "verdict_on_pairs",
]

BINS = 10
"""Numbers with more distinct values than this are compared by their tenths."""
MOST_SHOWN = 20
"""Of a category with more values than this, the others count as one."""
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
MOST_PAIRED = 30
"""Joint proxies are sought among this many features, those that carry most alone."""
CONFIDENCE = 0.95
"""That no interval of all features, or of all pairs, misses the truth."""
MOST_COMPARED = 500
"""Representatives are chosen among this many rows, those that gain most."""
MOST_EXCHANGES = 10


@dataclass(frozen=True)
class Marginal:
    """One line of the table of marginals: a share of people, or a mean or quantile of a number."""

    feature: str
    statistic: str
    """A value (the line is the share of people with it), or ``mean``, ``10 %``, ... ``90 %``."""
    observed: float
    baseline: float
    counterfactual: float
    is_share: bool
    """Whether the figures are shares of people."""

    @property
    def shift(self) -> float:
        return self.counterfactual - self.observed


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


def to_frame(rows: Sequence[Any], why: str) -> pd.DataFrame:
    """Rows of values as a pandas frame."""
    pandas = require("pandas", extra="pandas", why=why)
    plain = [row if isinstance(row, dict) else asdict(row) for row in rows]
    frame: pd.DataFrame = pandas.DataFrame(plain)
    return frame


def check_rows(n: int, fix: str) -> None:
    """So many rows can be asked for."""
    if not isinstance(n, Integral) or isinstance(n, bool) or n < 1:
        raise DataError("n", "must be a whole number of rows, at least 1", f"got {n!r}", fix)


def _table(found: Counterfactual) -> Frame:
    if found.table is None:
        raise DataError(
            "explanation",
            "needs the inputs",
            "only predictions were tabulated",
            "Pass X with the model's inputs.",
        )
    return found.table


# -------------------------------------------------------------------- marginals


def marginals(found: Counterfactual) -> list[Marginal]:
    """Each feature observed, in the baseline group, and under Q (the paper's second table).

    Yes-or-no features give the share of yes, categories the share of each value in either group,
    numbers their mean and quantiles, and any of them the share of missing where there are some.
    """
    table, other = _table(found), found.baseline_table
    there = [None] * len(table.names) if other is None else other.encoded
    lines = []
    for name, here, baseline in zip(table.names, table.encoded, there, strict=True):
        sides = ((here, found.source.mass), (baseline, found.baseline.mass), (here, found.mass))
        lines += _marginal(str(name), sides)
    return lines


Sides = tuple[tuple[Encoded | None, FloatArray], ...]
"""A feature and the masses to be put on it: observed, baseline, counterfactual."""


def _marginal(name: str, sides: Sides) -> list[Marginal]:
    """The lines of one feature."""
    values = [value for column, _ in sides if column is not None for value in column.values]
    distinct = dict.fromkeys(scalar(value) for value in values if not is_missing(value))
    numbers = as_numbers(np.array(list(distinct), object))
    shares: list[Any] = list(distinct)
    lines = []
    if numbers is not None and len(numbers) > 2:
        shares = []
        for statistic, q in (("mean", None), *((f"{100 * q:g} %", q) for q in QUANTILES)):
            observed, baseline, shifted = (_statistic(column, mass, q) for column, mass in sides)
            lines.append(Marginal(name, statistic, observed, baseline, shifted, is_share=False))
    elif numbers is not None and set(distinct) <= {0, 1}:
        shares = [1]
    if any(is_missing(value) for value in values):
        shares.append(None)
    of_value = [_shares(column, mass) for column, mass in sides]
    for value in shares:
        observed, baseline, shifted = (
            float("nan") if known is None else known.get(value, 0.0) for known in of_value
        )
        text = "missing" if value is None else str(value)
        lines.append(Marginal(name, text, observed, baseline, shifted, is_share=True))
    return lines


def _shares(column: Encoded | None, mass: FloatArray) -> dict[Any, float] | None:
    """The share of people with each value; None stands for missing."""
    if column is None:
        return None
    shares: dict[Any, float] = {}
    for value, share in zip(
        column.values, np.bincount(column.codes, mass, len(column.values)), strict=True
    ):
        key = None if is_missing(value) else scalar(value)
        shares[key] = shares.get(key, 0.0) + float(share)
    return shares


def _statistic(column: Encoded | None, mass: FloatArray, quantile: float | None) -> float:
    numbers = None if column is None else as_numbers(column.values)
    if column is None or numbers is None:
        return float("nan")
    weight = np.bincount(column.codes, mass, len(numbers))
    known = ~np.isnan(numbers) & (weight > 0)
    at, weight = numbers[known], weight[known]
    if len(at) == 0:
        return float("nan")
    if quantile is None:
        return float(weight @ at / weight.sum())
    # values are sorted: the first whose cumulated share reaches the quantile
    place = int(np.searchsorted(np.cumsum(weight) / weight.sum(), quantile - 1e-12))
    return float(at[min(place, len(at) - 1)])


# -------------------------------------------------------------------- rows


def row_influence(found: Counterfactual) -> list[dict[str, Any]]:
    """Every distinct row with its masses and its influence on the disparity, most harmful first."""
    order = np.argsort(-found.influence, kind="stable")
    return _describe(found, order, lambda i: {"influence": float(found.influence[i])})


def prototypes(found: Counterfactual, n: int = 5) -> list[dict[str, Any]]:
    """The n rows that gain most mass, the n that lose most, and n that stand for what gains.

    The last are chosen so that the gained mass lies near one of them.
    """
    check_rows(n, "5 is usual.")
    change = found.mass - found.source.mass
    gains = [i for i in np.argsort(-change, kind="stable")[:n] if change[i] > 0]
    loses = [i for i in np.argsort(change, kind="stable")[:n] if change[i] < 0]
    chosen = [("gains", gains), ("loses", loses), ("represents", _representatives(found, n))]
    return [
        row
        for role, rows in chosen
        for row in _describe(found, rows, lambda i, role=role: {"role": role})
    ]


def _describe(
    found: Counterfactual, rows: Sequence[int] | IntArray, more: Any
) -> list[dict[str, Any]]:
    """What is said of rows, then their features, under other names where these are taken."""
    table = _table(found)
    lines = []
    for i in rows:
        line: dict[str, Any] = {
            **more(i),
            "observed": float(found.source.mass[i]),
            "counterfactual": float(found.mass[i]),
            "change": float(found.mass[i] - found.source.mass[i]),
        }
        for name, column in zip(table.names, table.encoded, strict=True):
            line[_untaken(str(name), line)] = scalar(column.values[column.codes[i]])
        lines.append(line)
    return lines


def _untaken(name: str, taken: Container[str]) -> str:
    """A name as it is, or marked as a feature's.

    >>> _untaken("age", {"change"}), _untaken("change", {"change"})
    ('age', 'change (feature)')
    """
    while name in taken:
        name = f"{name} (feature)"
    return name


def _representatives(found: Counterfactual, n: int) -> list[int]:
    """Medoids of the gained mass under an L1 distance on scaled features.

    One after the other is added where it helps most, then exchanged while that helps.
    """
    from scipy.spatial.distance import cdist

    gain = np.maximum(found.mass - found.source.mass, 0.0)
    rows = np.argsort(-gain, kind="stable")[:MOST_COMPARED]
    rows = rows[gain[rows] > 0]
    if len(rows) == 0:
        return []
    table = _table(found).take(rows)
    matrix = FeatureMap.learn(table, gain[rows]).apply(table)
    distance = cdist(matrix, matrix, "cityblock")
    nobody = np.full(len(rows), distance.max() + 1.0)

    def best_beside(others: list[int]) -> int:
        """The row that, with the others, leaves the gained mass nearest to one of them."""
        nearest = np.min([nobody, *distance[others]], axis=0)
        total = gain[rows] @ np.minimum(nearest[:, None], distance)
        total[others] = np.inf
        return int(np.argmin(total))

    chosen: list[int] = []
    for _ in range(min(n, len(rows))):
        chosen.append(best_beside(chosen))
    for _ in range(MOST_EXCHANGES):
        before = list(chosen)
        for place in range(len(chosen)):
            chosen[place] = best_beside(chosen[:place] + chosen[place + 1 :])
        if chosen == before:
            break
    return [int(rows[i]) for i in chosen]


# -------------------------------------------------------------------- features


def feature_scores(found: Counterfactual) -> list[FeatureScore]:
    """How much of the disparity each feature carries; what is more than noise first, then most.

    Whatever is said of a person's value is estimated without that person (leave-one-out
    cross-fitting), so that noise explains nothing on average. The intervals hold for all features
    at once, at 95 %. An exact distribution has no noise, and no intervals.
    """
    people, psi, density = _People.of(found.source), _scaled_influence(found), found._density
    codes = _binned(found)
    nothing, same = np.zeros(len(psi)), np.ones(len(psi))
    scores = []
    for name, code in codes:
        mean = people.mean_of_others(code, psi, nothing)
        share = _gain(people, psi, mean, nothing, len(codes))
        moved = people.mean_of_others(code, density, same)
        shift = people.mass @ ((density - 1) * np.sign(moved - 1)) / 2
        scores.append(
            FeatureScore(
                feature=name,
                share_of_gap=_share_of_gap(found, moved),
                influence_share=share.value,
                shift=max(0.0, float(shift)),
                low=share.low,
                high=share.high,
                more_than_noise=share.more_than_noise,
            )
        )
    return sorted(scores, key=lambda score: (not score.more_than_noise, -score.influence_share))


def joint_proxies(found: Counterfactual) -> list[JointProxy]:
    """Pairs of features whose combination matters beyond either alone; what is sure first.

    For a pair, the influence function is averaged within each combination of their values; what
    that explains beyond the better single feature is the pair's excess. Means are those of the
    other people with the same values, as in `feature_scores`; whoever has a combination alone
    counts as for the better feature. The intervals hold at once for all pairs there are.
    """
    people, psi, density = _People.of(found.source), _scaled_influence(found), found._density
    codes = dict(_binned(found))
    nothing, same = np.zeros(len(psi)), np.ones(len(psi))
    alone = {name: people.mean_of_others(code, psi, nothing) for name, code in codes.items()}
    worth = {name: float(people.mass @ (psi * mean)) for name, mean in alone.items()}
    strongest = sorted(worth, key=lambda name: -worth[name])[:MOST_PAIRED]
    moved = {name: people.mean_of_others(codes[name], density, same) for name in strongest}
    compared = len(codes) * (len(codes) - 1) // 2
    pairs = []
    for better, worse in combinations(strongest, 2):
        code = codes[better] * (int(codes[worse].max()) + 1) + codes[worse]
        mean = people.mean_of_others(code, psi, alone[better])
        rivals = (alone[better], alone[worse], nothing)
        excess = _least([_gain(people, psi, mean, rival, compared) for rival in rivals])
        pairs.append(
            JointProxy(
                first=better,
                second=worse,
                excess=excess.value,
                influence_share=max(0.0, float(people.mass @ (psi * mean))),
                share_of_gap=_share_of_gap(
                    found, people.mean_of_others(code, density, moved[better])
                ),
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


def _binned(found: Counterfactual) -> list[tuple[str, IntArray]]:
    """Each feature as small codes: its values, or tenths of the target group for fine numbers.

    Of a category with many values the rare ones count as one.
    """
    table = _table(found)
    return [
        (str(name), _tenths(column, found.source.mass))
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


@dataclass(frozen=True, eq=False)
class _People:
    """The people of a group, row by row, and what is estimated from all of them but one."""

    mass: FloatArray
    one: FloatArray
    """The mass of a single person of the row; 0 where there are no people."""
    squared: FloatArray
    """The sum of the squared masses of the row's people."""

    @classmethod
    def of(cls, source: Population) -> _People:
        nobody = np.zeros(len(source))
        if source.tally is None:
            return cls(source.mass, nobody, nobody)
        people, squared = (
            table.sum(axis=1) for table in (source.tally.people, source.tally.squared)
        )
        one = np.divide(source.mass, people, out=nobody, where=people > 0)
        return cls(source.mass, one, squared / float(source.tally.weight.sum()) ** 2)

    @property
    def exact(self) -> bool:
        return not self.squared.any()

    def mean_of_others(
        self, code: IntArray, value: FloatArray, otherwise: FloatArray
    ) -> FloatArray:
        """For a person of each row, the mean over everybody else with the same code.

        Whoever has a code alone gets what is given ``otherwise``.
        """
        weight, total = np.bincount(code, self.mass), np.bincount(code, self.mass * value)
        others = weight[code] - self.one
        there = others > 1e-9 * weight[code]
        rest = total[code] - self.one * value
        return np.divide(rest, others, out=otherwise.astype(np.float64), where=there)

    def error(self, terms: FloatArray) -> float:
        """The standard error of a mean of terms around 0."""
        return float(np.sqrt(self.squared @ terms**2))


@dataclass(frozen=True)
class _Estimate:
    """A share with its interval, which is not a number behind an exact distribution."""

    value: float
    low: float
    high: float
    more_than_noise: bool


def _gain(
    people: _People, psi: FloatArray, mean: FloatArray, rival: FloatArray, looked_at: int
) -> _Estimate:
    """What conditional means explain of psi, of variance 1, beyond rival means.

    Where means are those of others, the mean of psi * mean estimates the variance they explain
    without bias. The test is of that mean; its variance is doubled, as two people who speak for
    each other make one observation. The interval is from the influence function, 2 psi mean -
    mean^2, and a little wider for what none of n people showed. Both are Bonferroni-corrected.
    """
    gains = psi * (mean - rival)
    value = float(people.mass @ gains)
    if people.exact:
        return _Estimate(max(0.0, value), float("nan"), float("nan"), value > 1e-12)
    alpha = (1 - CONFIDENCE) / (2 * looked_at)
    quantile = special.ndtri(1 - alpha)
    terms = (mean - rival) * (2 * psi - mean - rival) - value * psi**2
    unseen = -np.log(alpha) * people.squared.sum()
    margin = quantile * people.error(terms - people.mass @ terms) + unseen
    low, estimate, high = np.clip([value - margin, value, value + margin], 0, 1).tolist()
    sure = value > quantile * np.sqrt(2) * people.error(gains)
    return _Estimate(estimate, low, high, bool(sure))


def _least(estimates: Sequence[_Estimate]) -> _Estimate:
    """The least of several figures: it is sure where all are."""
    return _Estimate(
        min(one.value for one in estimates),
        min(one.low for one in estimates),
        min(one.high for one in estimates),
        all(one.more_than_noise for one in estimates),
    )


def _scaled_influence(found: Counterfactual) -> FloatArray:
    """Psi at each row, with mean 0 and variance 1; 0 where it is 0 everywhere."""
    psi = found.influence
    size = float(np.sqrt(found.source.mass @ psi**2))
    return psi / size if size > 0 else psi


def _share_of_gap(found: Counterfactual, density: FloatArray) -> float:
    """(M(P0) - M(Q')) / (M(P0) - M(Q)), Q' = P0 with only some features' marginal moved to Q's.

    The density Q'/P0 is that of the features' values, from the other people.
    """
    mass = found.source.mass * density
    moved = found.source.reweighted(mass / mass.sum())
    changes = [
        (old - d.value(moved, found.baseline), old - new)
        for d, old, new in zip(found.disparities, found.gaps_before, found.gaps_after, strict=True)
    ]
    partial, whole = max(changes, key=lambda pair: abs(pair[1]))
    return partial / whole if abs(whole) > 1e-15 else 0.0
