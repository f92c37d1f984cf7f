"""What happens to a batch of rows when a repair is applied: the same on every engine.

A job is shipped to where the rows are. It asks the model in batches, tries again when that fails,
and asks nothing about rows whose answers the audit has seen, where it can remember those.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Literal

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from fairmend.apply.draw import Drawer
from fairmend.data.columns import Frame, IntArray
from fairmend.data.containers import as_fitted, as_kind, kind_of
from fairmend.data.ids import content_ids
from fairmend.data.rows import replaced
from fairmend.engines.memory import Known, Memory
from fairmend.errors import DataError, ModelError, in_a_line
from fairmend.repair.plan import Route
from fairmend.repair.problem import answers_of_all

if TYPE_CHECKING:
    from fairmend.classifier import RepairedClassifier

__all__ = ["Job", "unshipped"]

What = Literal["predict", "transform"]

# How long to wait before a batch is tried again; then twice as long, and so on.
FIRST_WAIT_S = 0.2
# Rows of the audit whose law is part of a repair's fingerprint.
_FINGERPRINTED = 1_000


@dataclass(frozen=True, eq=False)
class Job:
    """Apply a fitted repair to batches of rows, in whatever container they come."""

    classifier: RepairedClassifier
    what: What
    groups: Any
    """Names of sensitive columns, or a function of a batch."""
    ids: str | None
    column: str = "decision"
    """Where decisions go."""
    retries: int = 3
    """How often a batch is tried again when the model fails."""
    remember: bool = True
    """Whether rows that the audit has seen are answered as the audit saw them."""

    @classmethod
    def of(cls, classifier: RepairedClassifier, **settings: Any) -> Job:
        """A job with a classifier that carries nobody's rows along."""
        slim = classifier.silent_about_draws()
        slim.data_ = classifier.data_.counted
        slim._fingerprint = [classifier.fingerprint_]  # found here, not by every worker
        return cls(slim, **settings)

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        assert self.classifier.data_.table is not None
        return self.classifier.data_.table.names

    @cached_property
    def fingerprint(self) -> str:
        """Tells repairs apart: by their outlook and law for audited rows, and the key of draws."""
        classifier = self.classifier
        assert classifier.data_.table is not None
        rows, answers = answers_of_all(classifier.data_)
        some = np.unique(np.linspace(0, len(rows) - 1, _FINGERPRINTED).astype(np.int64))
        table = classifier.data_.table.take(rows[some])
        key = None if classifier.key_ is None else Drawer(classifier.key_).fingerprint
        groups = getattr(self.groups, "__qualname__", self.groups)
        who = (groups, self.ids, self.column, classifier.unknown_group)
        said = (key, *who, self.inputs, classifier.classes_.tolist(), classifier.data_.groups)
        digest = blake2b(repr(said).encode(), digest_size=16)
        digest.update(answers.decision.tobytes())
        for group, plan in classifier.plans_.items():
            digest.update(repr((group, plan.metric, plan.method, plan.outlook)).encode())
            route = plan.route(table, answers.take(some))
            for part in (route.row, route.destination, route.probability):
                digest.update(part.tobytes())
            if route.table is not None:
                digest.update("".join(content_ids(route.table)).encode())
        return digest.hexdigest()

    def shipped(self, dumps: Callable[[Job], bytes]) -> bytes:
        """The job as bytes, by the engine's own pickler, or why it cannot travel."""
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

    def __getstate__(self) -> dict[str, Any]:
        kept = dict(self.__dict__)
        for name in ("memory", "inputs"):
            kept.pop(name, None)
        return kept

    # ---------------------------------------------------------------- one batch

    def __call__(self, batch: Any, where: str = "") -> Any:
        """The batch with a column of decisions, or with its inputs edited, in its own container."""
        frame = nw.from_native(batch, eager_only=True)
        if self.what == "predict":
            if self.column in frame.columns:
                raise _taken(self.column)
            said = self._patiently(self.decisions, batch, where)
            series = nw.new_series(self.column, said, backend=frame.implementation)
            if frame.implementation.is_pandas_like():
                series = nw.from_native(
                    series.to_native().set_axis(frame.to_native().index), series_only=True
                )
            return frame.with_columns(series).to_native()
        edited = self._patiently(self.edited, batch, where)
        return frame.with_columns(
            *(edited.get_column(name).alias(name) for name in edited.columns)
        ).to_native()

    def decisions(self, batch: Any) -> NDArray[Any]:
        """The repaired decisions of a batch, in the labels of y."""
        classes: NDArray[Any] = self.classifier.classes_
        if len(batch) == 0:
            return classes[:0]
        known = self._known(batch)
        if known is None:
            return self._predicted(batch)
        code = known.own
        for route, rows in known.edited():
            picked = self._picked(batch, known, route, rows)
            moved = picked >= 0
            code[rows[moved]] = route.decision[picked[moved]]
        said = classes[code]
        if len(known.unseen) > 0:
            said[known.unseen] = self._predicted(_rows(batch, known.unseen))
        return said

    def _predicted(self, batch: Any) -> NDArray[Any]:
        return self.classifier.predict(
            self._inputs(batch), sensitive_features=self._groups(batch), ids=self._ids(batch)
        )

    def edited(self, batch: Any) -> nw.DataFrame[Any]:
        """The inputs of a batch after the edits, in the container of the batch."""
        frame: nw.DataFrame[Any] = nw.from_native(batch, eager_only=True)
        frame = frame.select(list(self.inputs))
        if len(frame) == 0:
            return frame
        known = self._known(batch)
        if known is None:
            return self._with_rows(frame, np.arange(len(frame)), self._transformed(batch))
        for route, rows in known.edited():
            picked = self._picked(batch, known, route, rows)
            moved = picked >= 0
            if moved.any():
                assert route.table is not None
                there = route.table.take(picked[moved]).native
                frame = self._with_rows(frame, rows[moved], there)
        if len(known.unseen) > 0:
            told = self._transformed(_rows(batch, known.unseen))
            frame = self._with_rows(frame, known.unseen, told)
        return frame

    def _transformed(self, batch: Any) -> Any:
        return self.classifier.transform(
            self._inputs(batch), sensitive_features=self._groups(batch), ids=self._ids(batch)
        )

    def _with_rows(self, frame: nw.DataFrame[Any], at: IntArray, told: Any) -> nw.DataFrame[Any]:
        """Some rows of a frame replaced by rows from the container of fit."""
        if isinstance(told, np.ndarray):
            columns = {name: told[:, j] for j, name in enumerate(self.inputs)}
            there = nw.from_dict(columns, backend=frame.implementation).to_native()
        else:
            there = as_kind(told, kind_of(frame.to_native()))
        edited = replaced(Frame(frame.to_native(), self.inputs), at, Frame(there, self.inputs))
        whole: nw.DataFrame[Any] = nw.from_native(edited.native, eager_only=True)
        return whole

    # ---------------------------------------------------------------- memory

    @cached_property
    def memory(self) -> Memory | None:
        return Memory.of(self.classifier) if self.remember else None

    def _known(self, batch: Any) -> Known | None:
        if self.memory is None or not isinstance(self.groups, dict):
            return None
        return self.memory.look_up(batch, self._groups(batch))

    def _picked(self, batch: Any, known: Known, route: Route, rows: IntArray) -> IntArray:
        """Where people on edited rows go, by their own draws; -1 to stay."""
        place = known.place[rows].astype(np.int64)
        uniform = np.zeros(len(rows))
        drawn = np.flatnonzero(route.random[place])
        if len(drawn) > 0:
            wanted = self.inputs if self.ids is None else (self.ids,)
            some = nw.from_native(batch, eager_only=True).select(list(wanted))[rows[drawn]]
            ids = self._ids(some.to_native())
            if ids is None:
                ids = content_ids(Frame(self._inputs(some.to_native()), self.inputs))
            uniform[drawn] = self.classifier.drawer("repair").uniform(ids)
        return route.pick(place, uniform)

    # ---------------------------------------------------------------- asking the classifier

    def _patiently(self, work: Any, batch: Any, where: str) -> Any:
        """Try again, and again after a longer while; in the end say where it failed."""
        for attempt in range(self.retries + 1):
            try:
                return work(batch)
            except ModelError as error:
                if attempt == self.retries:
                    raise ModelError(
                        f"{error.what}, {where or 'a batch'} of {len(batch):,} rows",
                        error.must,
                        f"{error.got} ({self.retries + 1} attempts)",
                        f"Nothing of it was written. {error.fix}",
                    ) from error
                time.sleep(FIRST_WAIT_S * 2**attempt)
        raise AssertionError("a range of at least one")

    def _inputs(self, rows: Any) -> Any:
        known = self.classifier.data_.table
        assert known is not None
        column = self.classifier.box_.column
        return as_fitted(rows, known, () if column is None else (column,))

    def _groups(self, rows: Any) -> Any:
        if not isinstance(self.groups, dict):
            return self.groups(as_kind(rows, kind_of(self.classifier.data_.table.native)))  # type: ignore[union-attr]
        frame = nw.from_native(rows, eager_only=True)
        return {name: frame.get_column(at).to_native() for name, at in self.groups.items()}

    def _ids(self, rows: Any) -> Any:
        if self.ids is None:
            return None
        return nw.from_native(rows, eager_only=True).get_column(self.ids).to_native()


# -------------------------------------------------------------------- on a worker

_here: dict[bytes, Job] = {}


def unshipped(shipped: bytes) -> Job:
    """The job that came, kept until another comes: and with it what it remembers."""
    if shipped not in _here:
        _here.clear()
        _here[shipped] = pickle.loads(shipped)
    return _here[shipped]


# -------------------------------------------------------------------- rows of a batch


def _rows(batch: Any, rows: IntArray) -> Any:
    return nw.from_native(batch, eager_only=True)[rows].to_native()


def _taken(column: str) -> DataError:
    return DataError(
        f"column {column!r}",
        "must be free for the decisions",
        "X has such a column",
        "Choose another name with column=....",
    )
