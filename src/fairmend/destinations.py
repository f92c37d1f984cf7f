"""Where an edited row goes: the cheapest nearby row that gets the other decision.

Donors are rows seen in the target group that get the wanted decision. Without rules a row becomes
its nearest donor. With rules it takes of a near donor what it may take and keeps the rest of
itself; whether that mixture really gets the wanted decision is asked of the model, never assumed.
On mixed data what was taken is then given back, feature by feature, the dearest first, for as long
as the decision stays. Where the model cannot be asked, or the cost compares whole rows, they are
donors as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fairmend.columns import FloatArray, Frame, IntArray
from fairmend.costs import EditCost
from fairmend.model import Answers, BlackBox, Labels
from fairmend.rows import differing, find_rows, mixed, stacked

__all__ = ["Destinations", "Donors", "join"]

NEAREST = 20
"""How many of the nearest donors are tried one after the other."""
_GROWTH = 1.25
"""Beyond them donors are tried at ranks that grow so fast."""
_SUREST = 8
"""Donors furthest from the model's cut, tried before a row counts as unreachable."""
MOST_DONORS = 4_000
"""Of more donors than this, those nearest the model's cut are kept."""
_CHUNK = 2_000
_IN_TURN = ((0, 1), (1, 4), (4, NEAREST))  # few calls: the nearest, then some more, then the rest


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
    answers: Answers
    cost: EditCost
    box: BlackBox | None
    """None where edits lead to whole donors: the model cannot be asked, or need not be."""
    labels: Labels
    varied: IntArray
    """Donors that differ in what can be taken from them: of those that do not, one will do."""

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
        asked = None if cost.compares_whole_rows else box
        kept = np.argsort(closeness, kind="stable")[:MOST_DONORS]
        table, answers = table.take(kept), answers.take(kept)
        varied = np.arange(len(kept))
        if asked is not None and cost.cost.immutable:
            editable = [name for name, free in zip(table.names, cost.editable, strict=True) if free]
            varied = np.sort(table.select(editable).distinct().first)
        return cls(table, answers, cost, asked, labels, varied)

    def __len__(self) -> int:
        return len(self.table)

    def nearest(self, rows: Frame) -> Destinations:
        """The cheapest verified destination of each row."""
        parts = []
        for start in range(0, len(rows), _CHUNK):
            part = rows.slice(start, start + _CHUNK)
            edits = self._found(part)
            if self._gives_back:
                self._give_back(part, edits, np.flatnonzero(np.isfinite(edits.cost)))
            parts.append(self._made(part, edits))
        return join(parts)

    def reach(self, rows: Frame) -> NDArray[np.bool_]:
        """Which rows have a destination at all: less work than finding the cheapest."""
        starts = range(0, len(rows), _CHUNK)
        costs = [self._found(rows.slice(start, start + _CHUNK)).cost for start in starts]
        return np.isfinite(np.concatenate(costs))

    def _found(self, rows: Frame) -> _Edits:
        return self._nearest_mixture(rows) if self._mixes else self._nearest_donor(rows)

    @property
    def _mixes(self) -> bool:
        return self.box is not None and self.cost.has_rules

    @property
    def _gives_back(self) -> bool:
        """Whether features are given back: not on yes-or-no data, where donors are near enough.

        Nor once more where the number of edits is limited: there it is part of the search.
        """
        limited = self.cost.cost.max_edits is not None
        return self.box is not None and not limited and not self.cost.all_binary

    def _nearest_donor(self, rows: Frame) -> _Edits:
        cost = self.cost.matrix(rows, self.table)
        if self.box is None:  # the same inputs with another answer on record are no edit
            alike = self.table.distinct()
            mine = find_rows(self.table.take(alike.first), rows)
            cost = np.where(mine[:, None] == alike.inverse[None, :], np.inf, cost)
        edits = _Edits.none(rows)
        edits.donor[:] = np.argmin(cost, axis=1)
        edits.cost[:] = cost[np.arange(len(rows)), edits.donor]
        edits.taken[np.isfinite(edits.cost)] = True
        if self.answers.score is not None:
            edits.score[:] = self.answers.score[edits.donor]
        return edits

    def _nearest_mixture(self, rows: Frame) -> _Edits:
        """What may be taken of a donor, the rest one's own: the first that the model confirms.

        The nearest donors may all owe their decision to what cannot be taken from them, so those
        who find nothing near look further and further away.
        """
        here, there = self.cost.place(rows), self.cost.place(self.table)
        search = _Search(rows, here, there, self.cost.mixture(here, there), _Edits.none(rows))
        near = self.varied[_smallest(search.price[:, self.varied], min(NEAREST, len(self.varied)))]
        limited = self.cost.cost.max_edits is not None
        for first, last in [(k, k + 1) for k in range(NEAREST)] if limited else _IN_TURN:
            waiting = search.waiting
            self._try(search, waiting, near[waiting, first:last])
        self._look_further(search, width=1 if limited else _SUREST)
        return search.edits

    def _look_further(self, search: _Search, width: int) -> None:
        """For those who found nothing near: donors one can become altogether, then all the rest.

        A donor who differs in nothing that must stay needs no luck. Whether somebody nearer does
        as well is tried at growing ranks, with the surest donors, and between the ranks tried.
        """
        rows = search.waiting
        if len(rows) == 0:
            return
        whole = self.cost.matrix(search.rows.take(rows), self.table)
        self._try(search, rows, np.argmin(whole, axis=1)[:, None])
        order = self.varied[np.argsort(search.price[np.ix_(rows, self.varied)], kind="stable")]
        ranks = _growing(NEAREST, len(self.varied))
        surest = self.varied[::-1][:_SUREST]
        surest = np.broadcast_to(surest, (len(rows), len(surest)))
        tries = np.concatenate([order[:, ranks], surest], axis=1)
        for start in range(0, tries.shape[1], width):
            self._try(search, rows, tries[:, start : start + width])
        found = np.flatnonzero(np.isfinite(search.edits.cost[rows]))
        if width == 1 or len(found) == 0 or len(ranks) == 0:
            return
        dearer = search.price[rows[found, None], order[found][:, ranks]]
        rank = (dearer < search.edits.cost[rows[found], None]).sum(axis=1)  # tried and failed
        low, high = np.r_[NEAREST, ranks][rank], np.r_[ranks, len(self.varied) - 1][rank]
        between = np.linspace(low, high, _SUREST).T.round().astype(np.int64)
        self._try(search, rows[found], np.take_along_axis(order[found], between, axis=1))

    def _try(self, search: _Search, rows: IntArray, donors: IntArray) -> None:
        """Give each row the first of its donors that the model confirms and that is cheaper."""
        edits = search.edits
        at, donor = np.repeat(rows, donors.shape[1]), donors.ravel()
        possible = np.flatnonzero(search.price[at, donor] < edits.cost[at])
        at, donor = at[possible], donor[possible]
        if len(at) == 0:
            return
        taken = self.cost.may_take(search.here[at], search.there[donor])
        good, said = self._confirmed(search.rows.take(at), donor, taken)
        good = good[np.unique(at[good], return_index=True)[1]]  # each row's first
        at, donor = at[good], donor[good]
        edits.donor[at], edits.taken[at] = donor, taken[good]
        edits.cost[at] = search.price[at, donor]
        if said.score is not None:
            edits.score[at] = said.score[good]
        limit = self.cost.cost.max_edits
        if limit is not None and len(at) > 0:
            self._give_back(search.rows, edits, at)
            many = at[edits.taken[at].sum(axis=1) > limit]
            edits.taken[many], edits.cost[many] = False, np.inf

    def _confirmed(
        self, rows: Frame, donor: IntArray, taken: NDArray[np.bool_]
    ) -> tuple[IntArray, Answers]:
        """Which edited rows really get the wanted decision and break no rule of the caller's."""
        assert self.box is not None
        tried = mixed(rows, self.table.take(donor), taken)
        said = self.box.ask(tried, self.labels, trusted=True)
        good = (said.decision == self.answers.decision[0]) & ~self.cost.forbids(rows, tried)
        return np.flatnonzero(good), said

    def _give_back(self, rows: Frame, edits: _Edits, asked: IntArray) -> None:
        """Give values back, the dearest edit first, while the model's decision stays.

        Repeated until nothing more can be given back: what would have turned the decision at
        first may do no harm once others are back.
        """
        if len(asked) == 0:
            return
        mine, theirs = rows.take(asked), self.table.take(edits.donor[asked])
        steps = self.cost.steps(self.cost.place(mine), self.cost.place(theirs))
        taken, score = edits.taken[asked] & differing(mine, theirs), edits.score[asked]
        waiting = np.arange(len(asked))
        while len(waiting) > 0:
            shrunk = np.zeros(len(asked), bool)
            dearest = np.argsort(-np.where(taken, steps, -1.0), axis=1, kind="stable")
            for rank in range(int(taken[waiting].sum(axis=1).max())):
                at = waiting[taken[waiting, dearest[waiting, rank]]]
                at = at[taken[at].sum(axis=1) > 1]  # one edit at least must stay
                if len(at) == 0:
                    continue
                trial = taken[at]
                trial[np.arange(len(at)), dearest[at, rank]] = False
                good, said = self._confirmed(mine.take(at), edits.donor[asked[at]], trial)
                taken[at[good]] = trial[good]
                shrunk[at[good]] = True
                if said.score is not None:
                    score[at[good]] = said.score[good]
            waiting = np.flatnonzero(shrunk & (taken.sum(axis=1) > 1))
        edits.taken[asked], edits.score[asked] = taken, score
        edits.cost[asked] = self.cost.total(steps * taken)

    def _made(self, rows: Frame, edits: _Edits) -> Destinations:
        return Destinations(
            mixed(rows, self.table.take(edits.donor), edits.taken),
            edits.cost,
            np.full(len(rows), self.answers.decision[0]),
            None if self.answers.score is None else edits.score,
        )


@dataclass(frozen=True, eq=False)
class _Edits:
    """Destinations in the making, filled in as they are found."""

    donor: IntArray
    """Whom each row takes from."""
    taken: NDArray[np.bool_]
    """Which features, shape (rows, features)."""
    cost: FloatArray
    score: FloatArray

    @classmethod
    def none(cls, rows: Frame) -> _Edits:
        """Nobody has found anything yet."""
        n = len(rows)
        return cls(
            donor=np.zeros(n, np.int64),
            taken=np.zeros((n, len(rows.names)), bool),
            cost=np.full(n, np.inf),
            score=np.full(n, np.nan),
        )


@dataclass(frozen=True, eq=False)
class _Search:
    """Rows that look for a donor, and what each donor would cost them."""

    rows: Frame
    here: FloatArray
    there: FloatArray
    price: FloatArray
    edits: _Edits

    @property
    def waiting(self) -> IntArray:
        return np.flatnonzero(~np.isfinite(self.edits.cost))


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
    # a column's place breaks ties, so that the partition cannot shuffle them
    cost = cost + 1e-12 * np.arange(cost.shape[1])
    near = np.argpartition(cost, k - 1, axis=1)[:, :k]
    rank = np.argsort(np.take_along_axis(cost, near, axis=1), axis=1, kind="stable")
    return np.take_along_axis(near, rank, axis=1)


def _growing(first: int, last: int) -> IntArray:
    """Ranks from one to below another, each a quarter larger than the one before.

    >>> _growing(20, 50).tolist()
    [20, 25, 31, 39, 48]
    """
    steps = int(np.log(last / first) / np.log(_GROWTH)) + 2
    ranks = np.unique(np.floor(first * _GROWTH ** np.arange(steps)).astype(np.int64))
    return ranks[ranks < last]
