"""Where an edited row goes: the cheapest nearby row that gets the other decision.

Donors are rows seen in the target group that get the wanted decision. A row takes the editable
features of a near donor and keeps its own immutable ones; whether that mixture really gets the
wanted decision is asked of the model, never assumed. On mixed data what was copied is then given
back, feature by feature, the dearest first, as long as the decision stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairmend.columns import FloatArray, Frame, IntArray
from fairmend.costs import EditCost
from fairmend.model import Answers, BlackBox, Labels
from fairmend.rows import differing, mixed, stacked

__all__ = ["Destinations", "Donors", "join"]

NEAREST = 20
"""How many of the nearest donors are tried before a row counts as unreachable."""
MOST_DONORS = 4_000
"""Of more donors than this, those nearest the model's cut are kept."""
_CHUNK = 2_000


@dataclass(frozen=True, eq=False)
class Destinations:
    """One destination per row asked about."""

    table: Frame
    cost: FloatArray
    """What the edit costs; inf where no donor helps and the row stays as it is."""
    decision: FloatArray
    score: FloatArray | None

    @property
    def reached(self) -> NDArray[np.bool_]:
        return np.isfinite(self.cost)

    def take(self, rows: IntArray) -> Destinations:
        """The destinations of some of the rows."""
        score = None if self.score is None else self.score[rows]
        return Destinations(self.table.take(rows), self.cost[rows], self.decision[rows], score)


@dataclass(frozen=True, eq=False)
class Donors:
    """Rows with the wanted decision, those nearest the cut first: so ties go to them."""

    table: Frame
    decision: FloatArray
    score: FloatArray | None
    cost: EditCost
    box: BlackBox | None
    """None where only recorded predictions exist: then destinations are whole donors."""
    labels: Labels
    sparsify: bool

    @classmethod
    def choose(
        cls,
        table: Frame,
        answers: Answers,
        closeness: FloatArray,
        cost: EditCost,
        *,
        box: BlackBox | None,
        labels: Labels,
    ) -> Donors:
        """Keep donors in the order of their closeness to the model's cut, closest first."""
        order = np.argsort(closeness, kind="stable")[:MOST_DONORS]
        kept = answers.take(order)
        mixed_types = any(axis.values or axis.scale != 1.0 for axis in cost.axes)
        sparsify = box is not None and mixed_types and not callable(cost.cost.kind)
        return cls(table.take(order), kept.decision, kept.score, cost, box, labels, sparsify)

    def __len__(self) -> int:
        return len(self.decision)

    def nearest(self, rows: Frame) -> Destinations:
        """The cheapest verified destination of each row."""
        return join(
            [
                self._nearest(rows.slice(start, start + _CHUNK))
                for start in range(0, len(rows), _CHUNK)
            ]
        )

    def _nearest(self, rows: Frame) -> Destinations:
        if self._must_mix:
            found = self._nearest_mixture(rows)
        else:
            cost = self.cost.matrix(rows, self.table)
            best = np.argmin(cost, axis=1)
            found = Destinations(
                self.table.take(best),
                cost[np.arange(len(rows)), best],
                self.decision[best],
                None if self.score is None else self.score[best],
            )
        return self._sparsified(rows, found) if self.sparsify else found

    @property
    def _must_mix(self) -> bool:
        return self.box is not None and bool(self.cost.cost.immutable)

    def _nearest_mixture(self, rows: Frame) -> Destinations:
        """Own immutables, a donor's rest: the first of the nearest that the model confirms."""
        assert self.box is not None
        fixed = np.array([name in self.cost.cost.immutable for name in map(str, rows.names)])
        here, there = self.cost.place(rows), self.cost.place(self.table)
        editable = np.repeat(~fixed, [axis.width for axis in self.cost.axes])
        price = self.cost.between(here * editable, there * editable)
        price[~self.cost.allowed(here * editable, there * editable)] = np.inf
        near = _smallest(price, min(NEAREST, len(self)))
        wanted = self.decision[0]
        cost = np.full(len(rows), np.inf)
        decision, score = np.full(len(rows), np.nan), np.full(len(rows), np.nan)
        donor = np.zeros(len(rows), np.int64)
        open_rows = np.arange(len(rows))
        for rank in range(near.shape[1]):
            candidate = near[open_rows, rank]
            possible = np.isfinite(price[open_rows, candidate])
            open_rows, candidate = open_rows[possible], candidate[possible]
            if len(open_rows) == 0:
                break
            tried = mixed(
                rows.take(open_rows),
                self.table.take(candidate),
                np.broadcast_to(~fixed, (len(open_rows), len(fixed))),
            )
            answers = self.box.ask(tried, self.labels, trusted=True)
            good = answers.decision == wanted
            at = open_rows[good]
            donor[at], cost[at] = candidate[good], price[at, candidate[good]]
            decision[at] = wanted
            if answers.score is not None:
                score[at] = answers.score[good]
            open_rows = open_rows[~good]
        reached = np.isfinite(cost)
        table = mixed(rows, self.table.take(donor), reached[:, None] & ~fixed[None, :])
        return Destinations(table, cost, decision, None if self.score is None else score)

    def _sparsified(self, rows: Frame, found: Destinations) -> Destinations:
        """Give values back, the dearest edit first, while the model's decision stays."""
        assert self.box is not None
        edited = differing(rows, found.table) & found.reached[:, None]
        if not edited.any():
            return found
        here, there = self.cost.place(rows), self.cost.place(found.table)
        ends = np.cumsum([axis.width for axis in self.cost.axes])
        step = np.abs(here - there)
        price = np.stack([part.sum(axis=1) for part in np.split(step, ends[:-1], axis=1)], axis=1)
        order = np.argsort(-np.where(edited, price, -1.0), axis=1, kind="stable")
        decision = found.decision.copy()
        score = None if found.score is None else found.score.copy()
        for rank in range(int(edited.sum(axis=1).max())):
            at = np.flatnonzero(edited.sum(axis=1) > 1)  # one edit at least must stay
            at = at[edited[at, order[at, rank]]]
            if len(at) == 0:
                continue
            trial = edited[at].copy()
            trial[np.arange(len(at)), order[at, rank]] = False
            tried = mixed(rows.take(at), found.table.take(at), trial)
            answers = self.box.ask(tried, self.labels, trusted=True)
            good = answers.decision == decision[at]
            edited[at[good]] = trial[good]
            if score is not None and answers.score is not None:
                score[at[good]] = answers.score[good]
        table = mixed(rows, found.table, edited)
        cost = np.where(found.reached, (price * edited).sum(axis=1), np.inf)
        return Destinations(table, cost, decision, score)


def join(parts: Sequence[Destinations]) -> Destinations:
    """Destinations of several tables, one below the other."""
    if len(parts) == 1:
        return parts[0]
    scores = [part.score for part in parts if part.score is not None]
    return Destinations(
        stacked([part.table for part in parts]),
        np.concatenate([part.cost for part in parts]),
        np.concatenate([part.decision for part in parts]),
        np.concatenate(scores) if len(scores) == len(parts) else None,
    )


def _smallest(cost: FloatArray, k: int) -> IntArray:
    """The k cheapest columns of each row in order; ties to the first."""
    if k == cost.shape[1]:
        return np.argsort(cost, axis=1, kind="stable")
    # the donor's own place breaks ties, so that the partition cannot shuffle them
    slack = np.arange(cost.shape[1]) * 1e-9
    near = np.argpartition(cost + slack, k - 1, axis=1)[:, :k]
    rank = np.argsort(np.take_along_axis(cost + slack, near, axis=1), axis=1, kind="stable")
    return np.take_along_axis(near, rank, axis=1)
