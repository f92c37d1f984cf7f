"""What happens to a batch of rows when a repair is applied: the same on every engine.

A job is sent to where the rows are. It applies the repair to batches, and tries again when the
model fails.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from hashlib import blake2b
from typing import Any, Literal

import narwhals as nw

from fairmend.apply.batch import Applied, apply_batch, read_people
from fairmend.apply.draw import Drawer
from fairmend.apply.laws import FittedRepair, Laws
from fairmend.data.columns import IntArray
from fairmend.data.containers import as_kind, kind_of
from fairmend.errors import DataError, ModelError, in_a_line
from fairmend.model.answers import Answers
from fairmend.repair.problem import answers_of_all

Output = Literal["predict", "transform"]

FIRST_WAIT_S = 0.2
"""Before a batch is tried again; then twice as long, and so on."""


@dataclass(frozen=True, eq=False)
class Job:
    """Apply a fitted repair to batches of rows, in whatever container they come."""

    repair: FittedRepair
    what: Output
    groups: dict[str, str] | Callable[[Any], Any] | None
    """Names of sensitive columns, or a function of a batch; None for a blind repair."""
    ids: str | None
    column: str = "decision"
    """Where decisions go."""
    retries: int = 3
    """How often a batch is tried again when the model fails."""
    remember: bool = True
    """Whether the model's answers are remembered, those of the audit included."""

    audited: tuple[IntArray, Answers] | None = field(init=False, default=None)
    """The model's answers about rows of the audit; whose rows these are stays here."""

    def __post_init__(self) -> None:
        repair, data = self.repair, self.repair.data
        own = repair.fingerprint()  # computed here, and not on every worker
        if self.remember and repair.answers_stand:
            object.__setattr__(self, "audited", answers_of_all(data))
        slim = replace(repair, data=data.without_rows, fingerprint=partial(str, own))
        object.__setattr__(self, "repair", slim)

    @cached_property
    def laws(self) -> Laws:
        laws = Laws(self.repair, edits=self.what == "transform", most=None if self.remember else 0)
        if self.audited is not None:
            laws.remember(*self.audited)
        return laws

    @property
    def stamp(self) -> dict[str, Any]:
        """What tells results apart: the repair, the key of draws, and whom it takes for whom."""
        repair = self.repair
        key = None if repair.key is None else Drawer(repair.key).fingerprint
        groups = getattr(self.groups, "__qualname__", self.groups)
        about = (repair.fingerprint(), key, groups, self.ids, self.column, repair.unknown_group)
        content = repr((*about, repair.table.names)).encode()
        return {"repair": blake2b(content, digest_size=16).hexdigest(), "what": self.what}

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "laws"}

    def sent(self, dumps: Callable[[Job], bytes]) -> bytes:
        """The job as bytes, by the engine's own pickler."""
        try:
            return bytes(dumps(self))
        except Exception as error:
            raise DataError(
                "model",
                "must be something that can be sent to the workers",
                f"it cannot be pickled: {in_a_line(error)}",
                "Give its address or a function that connects where it is called, or apply the "
                "repair on one machine.",
            ) from None

    # ---------------------------------------------------------------- one batch

    def __call__(self, batch: Any, where: str = "") -> Any:
        """The batch with a column of decisions, or with its inputs edited, in its own container."""
        frame = nw.from_native(batch, eager_only=True)
        if self.what == "predict":
            return self._with_decisions(frame, where)
        if len(frame) == 0:
            return batch
        edited = self._patiently(lambda: self._applied(batch).edited, len(frame), where)
        columns = nw.from_native(edited.native, eager_only=True)
        return frame.with_columns(*(columns.get_column(name) for name in edited.names)).to_native()

    def _with_decisions(self, frame: nw.DataFrame[Any], where: str) -> Any:
        if self.column in frame.columns:
            raise DataError(
                f"column {self.column!r}",
                "must be free for the decisions",
                "X has such a column",
                "Choose another name with column=....",
            )
        decisions = self.repair.classes[:0]
        if len(frame) > 0:
            batch = frame.to_native()
            decided = self._patiently(lambda: self._applied(batch).decision, len(frame), where)
            decisions = self.repair.classes[decided]
        series = nw.new_series(self.column, decisions, backend=frame.implementation)
        if frame.implementation.is_pandas_like():
            series = nw.from_native(
                series.to_native().set_axis(frame.to_native().index), series_only=True
            )
        return frame.with_columns(series).to_native()

    def _applied(self, batch: Any) -> Applied:
        frame = nw.from_native(batch, eager_only=True)
        groups: Any = None
        if callable(self.groups):
            groups = self.groups(as_kind(batch, kind_of(self.repair.table.native)))
        elif self.groups is not None:
            groups = {name: frame.get_column(at).to_native() for name, at in self.groups.items()}
        people = read_people(self.repair, batch, groups, self.ids, cast=True)
        return apply_batch(self.repair, people, laws=self.laws)

    def _patiently(self, work: Callable[[], Any], rows: int, where: str) -> Any:
        """Try again, and again after a longer while; in the end say where it failed."""
        for attempt in range(self.retries + 1):
            try:
                return work()
            except ModelError as error:
                if attempt == self.retries:
                    raise error.but(
                        what=f"{error.what}, {where or 'a batch'} of {rows:,} rows",
                        got=f"{error.got} ({self.retries + 1} attempts)",
                        fix=f"Nothing of it was written. {error.fix}",
                    ) from error
                time.sleep(FIRST_WAIT_S * 2**attempt)
        raise AssertionError("a range of at least one")


# -------------------------------------------------------------------- on a worker

_here: dict[bytes, Any] = {}


def received(sent: bytes) -> Any:
    """What came, a job say, kept until something else comes: and with it what it remembers."""
    if sent not in _here:
        _here.clear()
        _here[sent] = pickle.loads(sent)
    return _here[sent]
