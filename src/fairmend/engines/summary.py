"""Rows of a cluster that are nearly all distinct: counted and sampled on the workers.

An audit needs how many people there are of each group, outcome and decision, and their weights.
Workers count these, and their counts are merged in a tree: nothing per row travels. What speaks of
inputs (a counterfactual, a repair) gets a sample: of each group and outcome the rows for which a
hash of all their values is lowest. So it is the same sample however rows are cut into parts, and on
every engine. The people of a sample are weighed so that each group, outcome and decision has its
exact total.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fairmend.data.columns import FloatArray, Frame, as_numbers
from fairmend.data.containers import as_kind
from fairmend.engines.cells import Cells
from fairmend.engines.continuous import Reader, audit_answers
from fairmend.errors import FairmendWarning

if TYPE_CHECKING:
    import pandas as pd

    from fairmend.data.people import Records
    from fairmend.measure.population import AuditData

SAMPLE = 200_000
"""People in the sample, about; as many of each group and outcome."""
FEW = 200
"""Of each group, outcome and decision at least so many, if there are."""
SCORE_BITS = 12
"""Scores are counted to so many binary digits, one in 4,096: enough for an AUC."""
_KIND, _DECISION, _SCORE, _HASH = "__kind", "__decision", "__score", "__hash"
COUNTS = ["__people", "__weight", "__squared"]


@dataclass(frozen=True, eq=False)
class Summary:
    """What the workers say of some rows: counts of answers, and their part of the sample."""

    counts: pd.DataFrame
    sample: pd.DataFrame | None

    @classmethod
    def merged(cls, parts: Sequence[Summary], share: FloatArray) -> Summary:
        """Of several parts; ``share`` of each kind is sampled."""
        import pandas as pd

        counts = added([part.counts for part in parts], [_KIND, _DECISION, _SCORE])
        samples = [part.sample for part in parts if part.sample is not None]
        if not samples:
            return cls(counts, None)
        filled = [sample for sample in samples if len(sample) > 0] or samples[:1]
        return cls(counts, _lowest(pd.concat(filled, ignore_index=True), share))


@dataclass(frozen=True, eq=False)
class Summarise:
    """What a worker does with its rows."""

    reader: Reader
    columns: tuple[str, ...]
    """Of the sample; none: only counts are wanted."""
    share: FloatArray
    """Of each kind, the share of people that is sampled."""

    @property
    def reads(self) -> list[str]:
        return list(dict.fromkeys([*self.reader.columns, *self.columns]))

    def __call__(self, table: Any) -> Summary:
        import pandas as pd

        if len(table) == 0:
            empty = (_KIND, _DECISION, _SCORE, *COUNTS)
            return Summary(pd.DataFrame({name: np.empty(0) for name in empty}), None)
        batch = self.reader.read(table)
        counted = batch.kind >= 0
        weight = np.ones(len(counted)) if batch.weight is None else batch.weight
        score = batch.answers.score
        answers = pd.DataFrame(
            {
                _KIND: batch.kind,
                _DECISION: batch.answers.decision,
                _SCORE: np.nan if score is None else coarse(score),
                **dict(zip(COUNTS, (np.ones(len(weight)), weight, weight**2), strict=True)),
            }
        )[counted]
        alone = Summary(answers, None)
        if self.columns:
            names = list(self.columns)
            rows = as_kind(Frame.read(table).select(names).native, "pandas")
            rows = rows.reset_index(drop=True).assign(
                **{
                    _KIND: batch.kind,
                    _DECISION: batch.answers.decision,
                    COUNTS[1]: weight,
                    _HASH: hashes(rows),
                }
            )
            alone = Summary(answers, rows[counted])
        return Summary.merged([alone], self.share)

    def merge(self, parts: Sequence[Summary]) -> Summary:
        return Summary.merged(parts, self.share)


def added(counts: Sequence[pd.DataFrame], keys: list[str]) -> pd.DataFrame:
    """Counts of several parts, with cells of equal keys as one."""
    import pandas as pd

    whole = pd.concat(counts, ignore_index=True)
    summed: pd.DataFrame = whole.groupby(keys, dropna=False, as_index=False)[COUNTS].sum()
    return summed


def coarse(score: FloatArray) -> FloatArray:
    """Scores to some binary digits; their order is kept, but for ties.

    >>> coarse(np.array([0.3, 0.30001, 0.5, -2.0])).round(4).tolist()
    [0.3, 0.3, 0.5, -2.0]
    """
    bits = np.ascontiguousarray(score, np.float64).view(np.uint64)
    kept = ~np.uint64((1 << (52 - SCORE_BITS)) - 1)
    return (bits & kept).view(np.float64)


def hashes(rows: pd.DataFrame) -> FloatArray:
    """A number in [0, 1) for each row that depends on all its values and on nothing else.

    >>> import pandas as pd
    >>> whole, real = pd.DataFrame({"a": [1, 2]}), pd.DataFrame({"a": [2.0, 1.0]})
    >>> bool((hashes(whole) == hashes(real)[::-1]).all())
    True
    """
    import pandas as pd

    columns = {}
    for name in rows.columns:
        column = rows[name]
        numbers = as_numbers(column.to_numpy()) if pd.api.types.is_numeric_dtype(column) else None
        values = column.astype(object).where(column.notna(), None) if numbers is None else numbers
        columns[str(name)] = values
    plain = pd.DataFrame(columns)
    return pd.util.hash_pandas_object(plain, index=False).to_numpy(np.uint64) / 2.0**64


def _lowest(rows: pd.DataFrame, share: FloatArray) -> pd.DataFrame:
    """The rows of the sample: a share of each kind, and a few of each of its decisions."""
    rank = rows.groupby([_KIND, _DECISION])[_HASH].rank(method="min")
    chosen = (rows[_HASH].to_numpy() < share[rows[_KIND].to_numpy()]) | (rank.to_numpy() <= FEW)
    kept: pd.DataFrame = rows[chosen]
    return kept


# -------------------------------------------------------------------- what is made of it


def shares(people: NDArray[Any], kinds: NDArray[Any]) -> FloatArray:
    """The share of each kind that makes a sample of the size wanted; kinds that are rare go whole.

    >>> shares(np.array([1e6, 50.0]), np.array([0, 3])).tolist()
    [0.1, 0.0, 0.0, 1.0]
    """
    total = np.bincount(kinds, people)
    wanted = SAMPLE / np.count_nonzero(total)
    return np.minimum(1.0, wanted / np.maximum(total, 1.0)) * (total > 0)


def audited(records: Records, whole: Summary) -> AuditData:
    """The groups by the model's answer: exact, but that scores are coarse."""
    counts = whole.counts
    people, weight, squared = (counts[name].to_numpy(np.float64) for name in COUNTS)
    score = counts[_SCORE].to_numpy(np.float64)
    return audit_answers(
        records,
        counts[_KIND].to_numpy(np.int64),
        counts[_DECISION].to_numpy(np.float64),
        None if np.isnan(score).all() else score,
        people=people,
        weight=weight,
        squared=squared,
    )


def sampled(whole: Summary, columns: Sequence[str]) -> Cells:
    """The sample as cells: each row stands for the people of its group, outcome and decision."""
    assert whole.sample is not None
    sample = whole.sample.sort_values(_HASH, kind="stable", ignore_index=True)
    keys = [_KIND, _DECISION]
    totals = whole.counts.groupby(keys)[COUNTS].sum()
    weight = sample[COUNTS[1]].to_numpy(np.float64)
    own = sample[keys].assign(**dict(zip(COUNTS, (np.ones(len(weight)), weight, weight**2),
                                         strict=True)))  # fmt: skip
    there = own.groupby(keys)[COUNTS].sum()
    factor = (totals / there).reindex(list(zip(sample[_KIND], sample[_DECISION], strict=True)))
    people, each, squared = (own[name].to_numpy() * factor[name].to_numpy() for name in COUNTS)
    everybody, least = float(totals[COUNTS[0]].sum()), float(there[COUNTS[0]].min())
    warnings.warn(
        f"X has {everybody:,.0f} rows, most of them distinct. Gaps are exact; inputs are "
        f"represented by a sample of {len(sample):,} rows, the same however the rows are cut. A "
        f"rate at another cut is off by at most {100 * 1.96 * (0.25 / least) ** 0.5:.2g} points, "
        "at 95 % confidence, in the smallest group of outcome and decision.",
        FairmendWarning,
        stacklevel=6,
    )
    frame = Frame(sample[list(columns)], tuple(columns))
    return Cells(frame, people, each, squared)
