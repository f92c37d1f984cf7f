"""Is this the model that was audited? Rows of the audit with their answers, queried again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol

import numpy as np

from fairmend.data.columns import BoolArray, FloatArray, Frame, IntArray
from fairmend.data.ids import content_ids
from fairmend.data.limits import alike
from fairmend.data.rows import spread
from fairmend.data.stored import stored
from fairmend.model.answers import Answers, differ


class _Answered(Protocol):
    """Some rows of a table with the model's answers; populations of an audit are such."""

    @property
    def rows(self) -> IntArray | None: ...
    @property
    def decision(self) -> FloatArray: ...
    @property
    def score(self) -> FloatArray | None: ...


@stored("Probe")
@dataclass(frozen=True, eq=False)
class Probe:
    """Rows of the audit data with the model's answers about them."""

    rows: Frame
    answers: Answers

    def agrees(self) -> bool:
        return len(self.rows) > 0 and alike(self.rows, self.answers.decision)

    @classmethod
    def choose(cls, table: Frame, populations: Sequence[_Answered], most: int = 256) -> Probe:
        """At most so many rows, spread over groups and decisions, and over the rows of each."""
        decision = np.zeros(len(table))
        score = None if populations[0].score is None else np.zeros(len(table))
        strata: list[IntArray] = []
        for population in populations:
            rows, positive = np.asarray(population.rows), population.decision > 0.5
            decision[rows] = population.decision
            if score is not None:
                score[rows] = population.score
            strata += [rows[side] for side in (positive, ~positive) if side.any()]
        each = max(1, most // len(strata))
        chosen = np.concatenate([rows[spread(len(rows), each)] for rows in strata])
        chosen = np.unique(chosen)[:most]
        return cls(table, Answers(decision, score)).take(chosen)

    def take(self, places: IntArray) -> Probe:
        """Some of the rows."""
        return Probe(self.rows.take(places), self.answers.take(places))

    @property
    def sha256(self) -> str:
        """Of the rows' content and the answers, whatever container they are in."""
        digest = sha256("\n".join(content_ids(self.rows)).encode())
        for array in (self.answers.decision, self.answers.score):
            digest.update(b"none" if array is None else array.astype("<f8").tobytes())
        return digest.hexdigest()

    def changed(self, answers: Answers, cut: float) -> BoolArray:
        """Which rows are answered otherwise now: another score, or another decision.

        A row whose score is at the cut may fall to either side.
        """
        flipped = differ(answers.decision, self.answers.decision)
        now, then = answers.score, self.answers.score
        if now is not None and then is not None:
            return (flipped & differ(then, cut)) | differ(now, then)
        return flipped if now is then else np.ones_like(flipped)
