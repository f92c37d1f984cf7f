"""An input held at one value for everybody: what the model cannot see, it cannot use."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairmend.data.columns import Frame
from fairmend.data.limits import Value
from fairmend.data.outcomes import Labels
from fairmend.data.rows import differing, mixed
from fairmend.data.stored import stored
from fairmend.model.answers import Answers
from fairmend.model.blackbox import BlackBox
from fairmend.repair.plan import Plan, Route


def held_at(rows: Frame, values: Frame, names: tuple[Value, ...]) -> Frame:
    """The rows with some inputs as in the one row of ``values``.

    >>> rows, mode = Frame.read(np.array([[1, 2], [3, 4]])), Frame.read(np.array([[9, 9]]))
    >>> held_at(rows, mode, ("x1",)).native.tolist()
    [[1, 9], [3, 9]]
    """
    taken = np.tile([name in names for name in rows.names], (len(rows), 1))
    return mixed(rows, values.take(np.zeros(len(rows), np.int64)), taken)


@stored("HeldPlan")
@dataclass(frozen=True, eq=False)
class HeldPlan(Plan):
    """Everybody of the group is decided as if some inputs had one value.

    An edit costs 1 for each input that it changes.
    """

    held: tuple[Value, ...]
    values: Frame
    """One row; of it the inputs that are held count."""
    box: BlackBox
    labels: Labels

    def agrees(self) -> bool:
        return len(self.values) == 1 and set(self.held) <= set(self.values.names)

    @property
    def reads_group(self) -> bool:
        return False

    @property
    def way(self) -> str:
        at = self.values.encoded
        parts = (f"{name} held at {at[self.values.names.index(name)].values[0]}"
                for name in self.held)  # fmt: skip
        return f"{', '.join(parts)} for everybody"

    def route(self, rows: Frame, answers: Answers) -> Route:
        held = held_at(rows, self.values, self.held)
        changed = differing(rows, held)
        at = np.flatnonzero(changed.any(axis=1))
        if len(at) == 0:
            return Route.stay(len(rows))
        alike = held.take(at).distinct()
        table = held.take(at[alike.first])
        there = self.box.query(table, self.labels, trusted=True)
        return Route.moves(
            len(rows),
            at,
            np.ones(len(at)),
            place=alike.inverse,
            cost=changed[at].sum(axis=1).astype(np.float64),
            decision=there.decision,
            table=table,
            score=there.score,
        )
