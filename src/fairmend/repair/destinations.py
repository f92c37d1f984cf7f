"""Where an edited row goes: the cheapest nearby row that gets the other decision.

Donors are rows seen in the target group that get the wanted decision. Without rules a row becomes
its nearest donor. With rules it takes of a near donor what it may take and keeps the rest of
itself; whether that mixture really gets the wanted decision is a query of the model, never assumed.
On mixed data what was taken is then given back, feature by feature, the dearest first, for as long
as the decision stays. Where the model cannot be queried, or the cost compares whole rows, they are
donors as they are. A row is compared with all donors, or, where these are numbers and many, with
those that a search finds near it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Annotated, Any

import numpy as np

from fairmend.data.columns import BoolArray, FloatArray, Frame, IntArray
from fairmend.data.limits import Places, alike, inside, rising
from fairmend.data.outcomes import Labels
from fairmend.data.rows import differing, find_rows, mixed, stacked
from fairmend.data.stored import stored
from fairmend.model.answers import Answers
from fairmend.model.blackbox import BlackBox
from fairmend.progress import progress
from fairmend.repair.costs import EditCost
from fairmend.repair.neighbours import Neighbours, Search

NEAREST = 20
"""How many of the nearest donors are tried one after the other."""
_GROWTH = 1.25
"""Beyond them donors are tried at ranks that grow so fast."""
_SUREST = 8
"""Donors furthest from the model's cut, tried before a row counts as unreachable."""
MOST_DONORS = 4_000
"""Of more donors than this, those nearest the model's cut are kept, and compared with every row."""
MOST_SEARCHED = 40_000
"""The same where near donors are searched for."""
_TIES = 4
"""Whole donors looked at where they are searched for: of those as near, one nearest the cut."""
_CHUNK = 2_000
_PAIRS_AT_ONCE = 8_000_000
_ONE_BY_ONE = 512
"""Of more values than this the dearest are given back several at a time at first."""
_COURSES = (32, 128)
"""Into how many blocks they are cut then: each is tried, and the cheaper edit kept."""
_ASKED_AT_ONCE, _CELLS_ASKED_AT_ONCE = 128, 20_000
"""Queries of the model in one call, and their values, where few rows are left to ask about."""
_CELLS_AT_ONCE = 4_000_000
"""Values of rows that are looked at together."""
_IN_TURN = ((0, 1), (1, 4), (4, 10), (10, NEAREST))  # few calls: the nearest, then ever more


@dataclass(frozen=True, eq=False)
class Destinations:
    """One destination per row asked about."""

    table: Frame
    cost: FloatArray
    """What the edit costs; inf where no donor helps and the row stays as it is."""
    decision: FloatArray
    score: FloatArray | None

    @property
    def reached(self) -> BoolArray:
        return np.isfinite(self.cost)

    def take(self, rows: IntArray) -> Destinations:
        """The destinations of some of the rows."""
        score = None if self.score is None else self.score[rows]
        return Destinations(self.table.take(rows), self.cost[rows], self.decision[rows], score)


@stored("Donors")
@dataclass(frozen=True, eq=False)
class Donors:
    """Rows with the wanted decision, those nearest the cut first: so ties go to them."""

    table: Frame
    answers: Answers
    cost: EditCost
    box: BlackBox | None
    """None where edits lead to whole donors: the model cannot be queried, or need not be."""
    labels: Labels
    varied: Annotated[Places, rising]
    """Donors that differ in what can be taken from them: of those that do not, one will do."""
    search: Search | None = None
    """How near donors are found; None where each row is compared with all."""

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
        asking: Frame | None = None,
    ) -> Donors:
        """Keep donors in the order of their closeness to the model's cut, closest first.

        ``asking`` are rows that will look for a donor, on which a search is tuned.
        """
        asked = None if cost.compares_whole_rows else box
        many = asking is not None and len(asking) > 0 and len(table) > MOST_DONORS
        searched = many and asked is not None and Search.serves(cost)
        order = np.argsort(closeness, kind="stable")

        def first(most: int) -> Donors:
            kept = order[:most]
            near, varied = table.take(kept), np.arange(len(kept))
            if asked is not None and cost.cost.immutable:
                free = [name for name, ok in zip(near.names, cost.editable, strict=True) if ok]
                varied = np.sort(near.select(free).distinct().first)
            return cls(near, answers.take(kept), cost, asked, labels, varied)

        if searched:
            donors = first(MOST_SEARCHED)
            if len(donors.varied) > MOST_DONORS:
                assert asking is not None
                places = cost.place(asking)
                search = Search.tune(donors._neighbours, places, donors._looked_at)
                return replace(donors, search=search)
        return first(MOST_DONORS)

    def agrees(self) -> bool:
        """Whether all have one decision and what the cost is of, and the search is of them."""
        search = self.search
        searched = search is None or (
            self.box is not None and Search.serves(self.cost) and search.donors == len(self.varied)
        )
        return (
            searched
            and 0 < len(self.varied) <= len(self)
            and alike(self.table, self.answers.decision)
            and inside(self.varied, len(self))
            and len(self.cost.axes) == len(self.table.names)
            and bool((self.answers.decision == self.answers.decision[0]).all())
        )

    @cached_property
    def _points(self) -> FloatArray:
        return self.cost.place(self.table)

    @cached_property
    def _neighbours(self) -> Neighbours:
        return Neighbours(self._points[self.varied], self.cost)

    @property
    def _looked_at(self) -> int:
        """How many near donors are looked at first."""
        return NEAREST if self._mixes else _TIES

    @property
    def words(self) -> str:
        """Where destinations are sought."""
        if self.search is not None:
            return self.search.words
        return f"searched among {len(self):,} rows, all of them compared"

    def __len__(self) -> int:
        return len(self.table)

    def nearest(self, rows: Frame, below: FloatArray | None = None) -> Destinations:
        """The cheapest verified destination of each row.

        With ``below``, what an edit may cost less than, one that costs more is left at that: it is
        known for too dear as soon as the values that cost less each do not do.
        """
        parts = []
        for at in self._parts(rows):
            part = rows.take(at)
            edits = self._first_edits(part)
            if self._gives_back:
                reached = np.flatnonzero(np.isfinite(edits.cost))
                if below is not None:
                    dear = edits.cost[reached] >= below[at[reached]]
                    cheap = self._without_dear(part, edits, reached[dear], below[at])
                    reached = np.sort(np.r_[reached[~dear], cheap])
                self._give_back(part, edits, reached)
            parts.append(self._made(part, edits))
        return join(parts)

    def reach(self, rows: Frame) -> BoolArray:
        """Which rows have a destination at all: less work than finding the cheapest."""
        if self.box is not None and not self.cost.has_rules:  # anybody may become any donor
            return np.ones(len(rows), bool)
        costs = [self._first_edits(rows.take(at)).cost for at in self._parts(rows)]
        return np.isfinite(np.concatenate(costs))

    def _parts(self, rows: Frame) -> Iterator[IntArray]:
        """As many rows at a time as there is room for: every call of the model has its price."""
        step = max(_CHUNK, _CELLS_AT_ONCE // len(rows.names))
        for start in range(0, len(rows), step):
            yield np.arange(start, min(start + step, len(rows)))

    def _first_edits(self, rows: Frame) -> _Edits:
        """Compared with all donors, a chunk of rows at a time."""
        find = self._nearest_mixture if self._mixes else self._nearest_donor
        parts = []
        with progress("searching edits", len(rows)) as advance:
            for start in range(0, len(rows), _CHUNK):
                part = rows if len(rows) <= _CHUNK else rows.slice(start, start + _CHUNK)
                parts.append(find(part, advance))
        return _Edits.joined(parts)

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

    def _near(self, points: FloatArray) -> IntArray:
        """Donors near rows, by the search."""
        assert self.search is not None
        k = min(self._looked_at, len(self.varied))
        neighbours = self._neighbours
        near = neighbours.nearest(neighbours.free(points), k, self.search.slack)
        return np.asarray(self.varied[near])

    def _nearest_donor(self, rows: Frame, advance: Callable[[int], None]) -> _Edits:
        advance(len(rows))
        if self.search is not None:
            return self._nearest_searched(rows)
        if self.box is not None:  # without rules, or donors would be mixed
            return self._whole(rows, *self.cost.nearest(self.cost.place(rows), self._points))
        cost = self.cost.matrix(rows, self.table)
        alike = self.table.distinct()  # the same inputs with another answer on record are no edit
        mine = find_rows(self.table.take(alike.first), rows)
        cost = np.where(mine[:, None] == alike.inverse[None, :], np.inf, cost)
        donor = np.argmin(cost, axis=1)
        return self._whole(rows, donor, cost[np.arange(len(rows)), donor])

    def _nearest_searched(self, rows: Frame) -> _Edits:
        here = self.cost.place(rows)
        near = np.sort(self._near(here), axis=1)  # of those as near, the one nearest the cut
        at = np.repeat(np.arange(len(rows)), near.shape[1])
        cost = self.cost.total(self.cost.steps(here[at], self._points[near.ravel()]))
        best = np.argmin(cost.reshape(near.shape), axis=1)
        each = np.arange(len(rows))
        return self._whole(rows, near[each, best], cost.reshape(near.shape)[each, best])

    def _whole(self, rows: Frame, donor: IntArray, cost: FloatArray) -> _Edits:
        """Rows that become donors altogether."""
        edits = _Edits.none(rows)
        edits.donor[:], edits.cost[:] = donor, cost
        edits.taken[np.isfinite(cost)] = True
        if self.answers.score is not None:
            edits.score[:] = self.answers.score[donor]
        return edits

    def _nearest_mixture(self, rows: Frame, advance: Callable[[int], None]) -> _Edits:
        """What may be taken of a donor, the rest one's own: the first that the model confirms.

        The nearest donors may all owe their decision to what cannot be taken from them, so those
        who find nothing near look further and further away.
        """
        here, there = self.cost.place(rows), self._points
        price = self.cost.mixture(here, there) if self.search is None else None
        looking = _Looking(rows, here, there, price, _Edits.none(rows))
        if price is None:
            near = self._near(here)
        else:
            k = min(NEAREST, len(self.varied))
            near = self.varied[_smallest(price[:, self.varied], k)]
        for first, last in _IN_TURN:
            waiting = looking.waiting
            self._try(looking, waiting, near[waiting, first:last])
            advance(len(waiting) - len(looking.waiting))
        waiting = looking.waiting
        for start in range(0, len(waiting), step := max(1, _PAIRS_AT_ONCE // len(self))):
            part = waiting[start : start + step]
            self._look_further(looking, part)
            advance(len(part))
        return looking.edits

    def _look_further(self, looking: _Looking, rows: IntArray) -> None:
        """For those who found nothing near: donors one can become altogether, then all the rest.

        A donor who differs in nothing that must stay needs no luck. Whether somebody nearer does
        as well is tried at growing ranks, with the surest donors, and between the ranks tried.
        """
        whole = self.cost.matrix(looking.rows.take(rows), self.table)
        self._try(looking, rows, np.argmin(whole, axis=1)[:, None])
        price = looking.prices(self.cost, rows)
        order = self.varied[np.argsort(price[:, self.varied], kind="stable")]
        ranks = _growing(NEAREST, len(self.varied))
        surest = self.varied[::-1][:_SUREST]
        surest = np.broadcast_to(surest, (len(rows), len(surest)))
        tries = np.concatenate([order[:, ranks], surest], axis=1)
        for start in range(0, tries.shape[1], _SUREST):
            self._try(looking, rows, tries[:, start : start + _SUREST])
        reached = np.flatnonzero(np.isfinite(looking.edits.cost[rows]))
        if self.cost.cost.max_edits is not None or len(reached) == 0 or len(ranks) == 0:
            return
        dearer = price[reached[:, None], order[reached][:, ranks]]
        rank = (dearer < looking.edits.cost[rows[reached], None]).sum(axis=1)  # tried and failed
        low, high = np.r_[NEAREST, ranks][rank], np.r_[ranks, len(self.varied) - 1][rank]
        between = np.linspace(low, high, _SUREST).T.round().astype(np.int64)
        self._try(looking, rows[reached], np.take_along_axis(order[reached], between, axis=1))

    def _try(self, looking: _Looking, rows: IntArray, donors: IntArray) -> None:
        """Give each row the first of its donors that the model confirms and that is cheaper.

        Where the number of edits is limited, that is known once all that can be is given back:
        the cheapest is then taken of those that keep to it.
        """
        edits, limit = looking.edits, self.cost.cost.max_edits
        at, donor = np.repeat(rows, donors.shape[1]), donors.ravel()
        price = looking.price_of(self.cost, at, donor)
        possible = np.flatnonzero(price < edits.cost[at])
        at, donor, price = at[possible], donor[possible], price[possible]
        if len(at) == 0:
            return
        taken = self.cost.may_take(looking.here[at], looking.there[donor])
        good, score = self._confirmed(looking.rows.take(at), donor, taken)
        at, tried = at[good], _Edits(donor[good], taken[good], price[good], score[good])
        if limit is not None:
            self._give_back(looking.rows.take(at), tried, np.arange(len(at)))
            kept = np.flatnonzero(tried.taken.sum(axis=1) <= limit)
            kept = kept[np.argsort(tried.cost[kept], kind="stable")]
            at, tried = at[kept], tried.take(kept)
        first = np.unique(at, return_index=True)[1]
        edits.put(at[first], tried.take(first))

    def _confirmed(
        self, rows: Frame, donor: IntArray, taken: BoolArray
    ) -> tuple[IntArray, FloatArray]:
        """Which edited rows really get the wanted decision and break no rule; all scores."""
        assert self.box is not None
        tried = mixed(rows, self.table.take(donor), taken)
        answers = self.box.query(tried, self.labels, trusted=True)
        good = (answers.decision == self.answers.decision[0]) & ~self.cost.forbids(rows, tried)
        score = np.full(len(donor), np.nan) if answers.score is None else answers.score
        return np.flatnonzero(good), score

    def _without_dear(
        self, rows: Frame, edits: _Edits, asked: IntArray, below: FloatArray
    ) -> IntArray:
        """Give back at once every value that alone costs too much; the rows for which that does.

        Where it does not, one of the others may stand in the way: it is tried without each.
        """
        if len(asked) == 0:
            return asked
        mine, theirs = rows.take(asked), self.table.take(edits.donor[asked])
        steps = self.cost.steps(self.cost.place(mine), self.cost.place(theirs))
        alone = self.cost.total(steps.reshape(-1, 1)).reshape(steps.shape)
        taken = edits.taken[asked] & differing(mine, theirs) & (alone < below[asked, None])
        done = np.zeros(len(asked), bool)

        def ask(row: IntArray, trial: BoolArray) -> None:
            if len(row) == 0:
                return
            good, score = self._confirmed(mine.take(row), edits.donor[asked[row]], trial)
            good = good[np.unique(row[good], return_index=True)[1]]  # each row's first
            at, row, trial = asked[row[good]], row[good], trial[good]
            cost = self.cost.total(steps[row] * trial)
            done[row] = True
            edits.put(at, _Edits(edits.donor[at], trial, cost, score[good]))

        some = np.flatnonzero(taken.any(axis=1))
        ask(some, taken[some])
        row, feature = np.nonzero(taken & ~done[:, None] & (taken.sum(axis=1) > 1)[:, None])
        trial = taken[row]
        trial[np.arange(len(row)), feature] = False
        ask(row, trial)
        return asked[done]

    def _give_back(self, rows: Frame, edits: _Edits, asked: IntArray) -> None:
        """Give values back, the dearest edit first, while the model's decision stays.

        Until nothing more can be given back: what would have turned the decision at first may do
        no harm once others are back. Of very many values the dearest are first given back some at
        a time.
        """
        if len(asked) == 0:
            return
        mine, theirs = rows.take(asked), self.table.take(edits.donor[asked])
        steps = self.cost.steps(self.cost.place(mine), self.cost.place(theirs))
        taken = edits.taken[asked] & differing(mine, theirs)
        most, donor, score = int(taken.sum(axis=1).max()), edits.donor[asked], edits.score[asked]
        edits.cost[asked] = np.inf
        for blocks in _COURSES if most > _ONE_BY_ONE else (most,):
            back = _GivingBack(mine, donor, taken.copy(), score.copy(), steps)
            size = most // max(1, blocks)
            while size > 1:
                self._shrink(back, size)
                size //= 4
            self._shrink(back, 1)
            cost = self.cost.total(steps * back.taken)
            better = np.flatnonzero(cost < edits.cost[asked])
            edits.put(asked[better], _Edits(donor, back.taken, cost, back.score).take(better))

    def _shrink(self, back: _GivingBack, size: int) -> None:
        """Give back so many values together, from the dearest on, again and again if it is one.

        A value that was refused is tried again only once another is back. Where few rows are left
        the next few values of each are tried at once; the first that works is given back, as if
        they had been tried one after the other.
        """
        back.begin(size)
        most = min(_ASKED_AT_ONCE, _CELLS_ASKED_AT_ONCE // back.taken.shape[1])
        with progress("shortening edits", len(back.waiting)) as advance:
            while (waiting := len(back.waiting)) > 0:
                who, unit = back.next(max(1, most // waiting))
                trial = back.without(who, unit)
                good, score = self._confirmed(back.rows.take(who), back.donor[who], trial)
                first = good[np.unique(who[good], return_index=True)[1]]
                back.taken[who[first]], back.score[who[first]] = trial[first], score[first]
                back.record(who, unit, first)
                advance(waiting - len(back.waiting))

    def _made(self, rows: Frame, edits: _Edits) -> Destinations:
        return Destinations(
            mixed(rows, self.table.take(edits.donor), edits.taken),
            edits.cost,
            np.full(len(rows), self.answers.decision[0]),
            None if self.answers.score is None else edits.score,
        )


def forgetting(donors: Donors) -> Donors:
    """The donors without what they remember, as they are stored."""
    return Donors(**_fields_of(donors))


def _fields_of(donors: Donors) -> dict[str, Any]:
    return {one.name: getattr(donors, one.name) for one in fields(Donors)}


class RememberingDonors(Donors):
    """Donors that look for a row's destination once, for as long as they are in use."""

    @classmethod
    def of(cls, donors: Donors) -> RememberingDonors:
        return cls(**_fields_of(donors))

    @cached_property
    def _nearest_edits(self) -> _Memory:
        return _Memory(super().nearest, join)

    @cached_property
    def _whole_edits(self) -> _Memory:
        return _Memory(super()._first_edits, _Edits.joined)

    def nearest(self, rows: Frame, below: FloatArray | None = None) -> Destinations:
        if below is not None:
            return super().nearest(rows, below)
        nearest: Destinations = self._nearest_edits.of(rows)
        return nearest

    def _first_edits(self, rows: Frame) -> _Edits:
        edits: _Edits = self._whole_edits.of(rows)
        return edits


class _Memory:
    """Answers about rows, each looked for once."""

    def __init__(self, ask: Callable[[Frame], Any], joined: Callable[[list[Any]], Any]) -> None:
        self._ask, self._joined = ask, joined
        self._rows: Frame | None = None

    def of(self, rows: Frame) -> Any:
        if self._rows is None:
            self._rows, self._answers = rows, self._ask(rows)
            return self._answers
        place = find_rows(self._rows, rows)
        if (place < 0).any():
            new = rows.take(np.flatnonzero(place < 0))
            self._rows = stacked([self._rows, new])
            self._answers = self._joined([self._answers, self._ask(new)])
            place = find_rows(self._rows, rows)
        return self._answers.take(place)


@dataclass(frozen=True, eq=False)
class _Edits:
    """Destinations in the making, filled in as they are found."""

    donor: IntArray
    """Whom each row takes from."""
    taken: BoolArray
    """Which features, shape (rows, features)."""
    cost: FloatArray
    score: FloatArray

    def take(self, rows: IntArray) -> _Edits:
        """The edits of some of the rows."""
        return _Edits(self.donor[rows], self.taken[rows], self.cost[rows], self.score[rows])

    def put(self, rows: IntArray, other: _Edits) -> None:
        """Replace the edits of some of the rows."""
        self.donor[rows], self.taken[rows] = other.donor, other.taken
        self.cost[rows], self.score[rows] = other.cost, other.score

    @classmethod
    def joined(cls, parts: Sequence[_Edits]) -> _Edits:
        """Of several tables, one below the other."""
        names = ("donor", "taken", "cost", "score")
        columns = ([getattr(part, name) for part in parts] for name in names)
        return cls(*map(np.concatenate, columns))

    @classmethod
    def none(cls, rows: Frame) -> _Edits:
        """Nobody has found anything yet."""
        n, taken = len(rows), np.zeros((len(rows), len(rows.names)), bool)
        return cls(np.zeros(n, np.int64), taken, np.full(n, np.inf), np.full(n, np.nan))


class _GivingBack:
    """Rows that took values from a donor and give them back, the dearest first, round and round."""

    def __init__(
        self,
        rows: Frame,
        donor: IntArray,
        taken: BoolArray,
        score: FloatArray,
        steps: FloatArray,
    ) -> None:
        """``steps`` are what the values cost; ``taken`` and ``score`` change as some are back."""
        self.rows, self.donor, self.taken, self.score = rows, donor, taken, score
        self._steps = steps

    def begin(self, size: int) -> None:
        """Start with so many values at a time, a unit."""
        most = max(1, int(self.taken.sum(axis=1).max(initial=0)))
        dearest = np.argsort(-np.where(self.taken, self._steps, -1.0), axis=1, kind="stable")
        self._size, self._order = size, dearest[:, :most]
        # units that cannot be given back as things stand, and the one each row goes on with
        self._refused = np.zeros((len(self.taken), -(-most // size)), bool)
        self._start = np.zeros(len(self.taken), np.int64)
        self.waiting: IntArray = np.arange(len(self.taken))
        self._look()

    def _look(self) -> None:
        """Find the units that may be tried, and leave out rows that have none any more.

        One value at least must stay.
        """
        held = np.take_along_axis(self.taken[self.waiting], self._order[self.waiting], axis=1)
        edges = np.arange(0, held.shape[1], self._size)
        count = np.add.reduceat(held.astype(np.int64), edges, axis=1)
        left = count.sum(axis=1, keepdims=True) - count
        open_ = (count > 0) & (left > 0) & ~self._refused[self.waiting]
        some = open_.any(axis=1)
        self.waiting, self._open = self.waiting[some], open_[some]

    def next(self, at_once: int) -> tuple[IntArray, IntArray]:
        """The next units of each row that waits: rows and units, in the order of their turn."""
        units = self._refused.shape[1]
        turn = (self._start[self.waiting, None] + np.arange(units)) % units
        open_ = np.take_along_axis(self._open, turn, axis=1)
        place, at = np.nonzero(open_ & (np.cumsum(open_, axis=1) <= at_once))
        return self.waiting[place], turn[place, at]

    def without(self, who: IntArray, unit: IntArray) -> BoolArray:
        """What rows have taken, less a unit each."""
        place = unit[:, None] * self._size + np.arange(self._size)
        place = np.minimum(place, self._order.shape[1] - 1)
        taken = self.taken[who]
        np.put_along_axis(taken, self._order[who[:, None], place], values=False, axis=1)
        return taken

    def record(self, who: IntArray, unit: IntArray, first: IntArray) -> None:
        """What was tried, and the places in it of what was given back, one a row at most."""
        until = np.full(len(self._refused), len(who))
        until[who[first]] = first
        failed = np.arange(len(who)) < until[who]
        self._refused[who[failed], unit[failed]] = True
        if self._size == 1:  # with one value less another may be given back
            self._refused[who[first]] = False
        self._start[who[first]] = (unit[first] + 1) % self._refused.shape[1]
        self._look()


@dataclass(frozen=True, eq=False)
class _Looking:
    """Rows that look for a donor, and what each donor would cost them."""

    rows: Frame
    here: FloatArray
    there: FloatArray
    price: FloatArray | None
    """Of each row to each donor; None where only near donors are looked at."""
    edits: _Edits

    def prices(self, cost: EditCost, rows: IntArray) -> FloatArray:
        """What each donor would cost some of the rows."""
        if self.price is not None:
            return np.asarray(self.price[rows])
        return cost.mixture(self.here[rows], self.there)

    def price_of(self, cost: EditCost, rows: IntArray, donors: IntArray) -> FloatArray:
        """What some donors would cost, one for each row named."""
        if self.price is not None:
            return np.asarray(self.price[rows, donors])
        return cost.mixtures(self.here[rows], self.there[donors])

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
