"""Rows of a cluster that are nearly all distinct: counted and sampled on the workers.

An audit needs how many people there are of each group, outcome and decision, and their weights.
Workers count these, and their counts are merged in a tree: nothing per row travels. What speaks of
inputs (a counterfactual, a repair) gets a sample: of each group and outcome the rows for which a
hash of their inputs is lowest. So it is the same sample however rows are cut into parts, and on
every engine. The people of a sample are weighed so that each group, outcome and decision has its
exact total.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from fairmend.data.columns import (
    FloatArray,
    Frame,
    IntArray,
    as_numbers,
    encode,
    lookup_key,
    series_array,
)
from fairmend.data.containers import as_kind
from fairmend.engines.cells import Cells, in_own_text
from fairmend.engines.continuous import Reader, audit_answers
from fairmend.errors import warn

if TYPE_CHECKING:
    import pandas as pd

    from fairmend.data.people import Records
    from fairmend.measure.population import AuditData
    from fairmend.model.answers import Answers

SAMPLE = 200_000
"""People in the sample, about; as many of each group and outcome."""
FEW = 200
"""Of each group, outcome and decision at least so many, if there are."""
SCORE_BITS = 12
"""Scores are counted to so many binary digits, one in 4,096: enough for an AUC."""
_SCORE_PLACES = 12 + SCORE_BITS  # with sign and exponent
_BLOCK = 8_192  # rows hashed at a time: they stay in the processor's cache
_KIND, _DECISION, _HASH = "__kind", "__decision", "__hash"
_KEY = "__key"  # kind, decision and score in one number
COUNTS = ["__people", "__weight", "__squared"]


@dataclass(frozen=True, eq=False)
class Summary:
    """What the workers say of some rows: counts of answers, and their part of the sample."""

    counts: pd.DataFrame
    """Sums of `COUNTS` by key."""
    sample: pd.DataFrame | None

    @classmethod
    def merged(cls, parts: Sequence[Summary], share: FloatArray) -> Summary:
        """Of several parts; ``share`` of each kind is sampled."""
        import pandas as pd

        counts = added([part.counts for part in parts], [_KEY])
        samples = [part.sample for part in parts if part.sample is not None]
        if not samples:
            return cls(counts, None)
        filled = [sample for sample in samples if len(sample) > 0] or samples[:1]
        sample = pd.concat(filled, ignore_index=True)
        kind, decision, rank = (sample[name].to_numpy() for name in (_KIND, _DECISION, _HASH))
        return cls(counts, sample.iloc[_lowest(kind, decision, rank, share)])


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
            none = {_KEY: np.empty(0, np.int64), **{name: np.empty(0) for name in COUNTS}}
            return Summary(pd.DataFrame(none), None)
        batch = self.reader.read(table)
        counts = _counted(batch.kind, batch.answers, batch.weight)
        if not self.columns:
            return Summary(counts, None)
        rows = Frame.read(table).select(self.columns)
        rank = hashes(rows.drop(self.reader.about.names))  # these are of the kind
        lowest = _lowest(batch.kind, batch.answers.decision, rank, self.share)
        weight = 1.0 if batch.weight is None else batch.weight[lowest]
        sample = as_kind(rows.take(lowest).native, "pandas").reset_index(drop=True)
        return Summary(counts, sample.assign(**{
            _KIND: batch.kind[lowest], _DECISION: batch.answers.decision[lowest],
            COUNTS[1]: weight, _HASH: rank[lowest],
        }))  # fmt: skip

    def merge(self, parts: Sequence[Summary]) -> Summary:
        return Summary.merged(parts, self.share)


def added(counts: Sequence[pd.DataFrame], keys: list[str]) -> pd.DataFrame:
    """Counts of several parts, with cells of equal keys as one."""
    import pandas as pd

    whole = pd.concat(counts, ignore_index=True)
    summed: pd.DataFrame = whole.groupby(keys, as_index=False)[COUNTS].sum()
    return summed


def _counted(kind: IntArray, answers: Answers, weight: FloatArray | None) -> pd.DataFrame:
    """People of weight by kind, decision and score to some digits: one number a row, counted."""
    import pandas as pd

    score = answers.score
    key = (kind.astype(np.int64) * 2 + answers.decision.astype(np.int64)) << _SCORE_PLACES
    if score is not None:
        key |= (_bits(score) >> np.uint64(64 - _SCORE_PLACES)).astype(np.int64)
    there = kind >= 0
    if not there.all():
        key, weight = key[there], None if weight is None else weight[there]
    code, distinct = pd.factorize(key)
    people = np.bincount(code, minlength=len(distinct)).astype(np.float64)
    sums = (
        (people, people, people)
        if weight is None
        else (people, np.bincount(code, weight), np.bincount(code, weight**2))
    )
    return pd.DataFrame({_KEY: distinct, **dict(zip(COUNTS, sums, strict=True))})


def _bits(numbers: FloatArray) -> NDArray[np.uint64]:
    return np.ascontiguousarray(numbers, np.float64).view(np.uint64)


def hashes(rows: Frame) -> FloatArray:
    """A number in [0, 1) for each row that depends on all its values and on nothing else.

    >>> whole, real = np.array([[1, 2], [2, 3]]), np.array([[2.0, 3.0], [1.0, 2.0]])
    >>> bool((hashes(Frame.read(whole)) == hashes(Frame.read(real))[::-1]).all())
    True
    """
    columns = [_value_bits(rows.column(name)) for name in rows.names]
    total = np.zeros(len(rows), np.uint64)
    for start in range(0, len(rows), _BLOCK):
        block = total[start : start + _BLOCK]
        for bits, code in columns:
            part = slice(start, start + _BLOCK)
            block ^= _plain(bits[part]) if code is None else bits[code[part]]
            _stir(block)
        _stir(block)
    return total / 2.0**64


def _value_bits(column: Any) -> tuple[NDArray[np.uint64], NDArray[Any] | None]:
    """Sixty-four bits for each entry, or for each code; the same for equal values of any type."""
    import pandas as pd

    if isinstance(column, nw.Series) and (column.dtype.is_numeric() or column.dtype == nw.Boolean):
        column = series_array(column)
    if isinstance(column, np.ndarray) and (numbers := as_numbers(column)) is not None:
        return _bits(numbers), None
    coded = encode(column)
    numbers = as_numbers(coded.values)
    if numbers is not None:
        return _plain(_bits(numbers)), coded.codes
    words = np.array([str(lookup_key(value)) for value in coded.values], object)
    return pd.util.hash_array(words, categorize=False), coded.codes


def _plain(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The bits of numbers, with one zero and one nan."""
    numbers = bits.view(np.float64)
    return _bits(np.where(np.isnan(numbers), np.nan, numbers + 0.0))


def _stir(total: NDArray[np.uint64]) -> None:
    """The finaliser of MurmurHash3, in place: every bit moves every bit of the result."""
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        total ^= total >> np.uint64(33)
        total *= np.uint64(factor)
    total ^= total >> np.uint64(33)


def _lowest(kind: IntArray, decision: FloatArray, rank: FloatArray, share: FloatArray) -> IntArray:
    """The rows of the sample: a share of each kind, and a few of each of its decisions."""
    cell = np.where(kind >= 0, kind.astype(np.int64) * 2 + (decision > 0), 0)
    chosen = (rank < share[cell // 2]) & (kind >= 0)
    enough = np.bincount(cell[chosen], minlength=2 * len(share)) >= FEW
    for each in np.flatnonzero(~enough):
        at = np.flatnonzero((cell == each) & (kind >= 0))
        own = rank[at]
        few = np.partition(own, FEW - 1)[FEW - 1] if len(at) > FEW else 1.0
        chosen[at[own <= few]] = True
    return np.flatnonzero(chosen)


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
    people, weight, squared = (whole.counts[name].to_numpy(np.float64) for name in COUNTS)
    key = whole.counts[_KEY].to_numpy(np.int64)
    kind, decision = _cell_of(key)
    score = (key << (64 - _SCORE_PLACES)).view(np.float64)
    return audit_answers(
        records,
        kind,
        decision.astype(np.float64),
        score if score.any() else None,
        people=people,
        weight=weight,
        squared=squared,
    )


def _cell_of(key: IntArray) -> tuple[IntArray, IntArray]:
    """Kind and decision."""
    return key >> (_SCORE_PLACES + 1), (key >> _SCORE_PLACES) & 1


def sampled(whole: Summary, columns: Sequence[str]) -> Cells:
    """The sample as cells: each row stands for the people of its group, outcome and decision."""
    assert whole.sample is not None
    sample = whole.sample.sort_values(_HASH, kind="stable", ignore_index=True)
    keys = [_KIND, _DECISION]
    kind, decision = _cell_of(whole.counts[_KEY].to_numpy(np.int64))
    totals = whole.counts.groupby([kind, decision.astype(np.float64)])[COUNTS].sum()
    weight = sample[COUNTS[1]].to_numpy(np.float64)
    own = sample[keys].assign(**dict(zip(COUNTS, (np.ones(len(weight)), weight, weight**2),
                                         strict=True)))  # fmt: skip
    there = own.groupby(keys)[COUNTS].sum()
    factor = (totals / there).reindex(list(zip(sample[_KIND], sample[_DECISION], strict=True)))
    people, each, squared = (own[name].to_numpy() * factor[name].to_numpy() for name in COUNTS)
    everybody, least = float(totals[COUNTS[0]].sum()), float(there[COUNTS[0]].min())
    warn(
        f"X has {everybody:,.0f} rows, most of them distinct. Gaps are exact; inputs are "
        f"represented by a sample of {len(sample):,} rows, the same however the rows are cut. A "
        f"rate at another cut is off by at most {100 * 1.96 * (0.25 / least) ** 0.5:.2g} points, "
        "at 95 % confidence, in the smallest group of outcome and decision."
    )
    frame = Frame(in_own_text(sample[list(columns)]), tuple(columns))
    return Cells(frame, people, each, squared)
