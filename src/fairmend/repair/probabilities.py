"""Probabilities of rows where a repair needs them: to rank people, and to expect what edits do."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace

import numpy as np

from fairmend.data.columns import FloatArray, Frame
from fairmend.data.limits import Chances, alike
from fairmend.data.rows import find_rows
from fairmend.data.stored import stored
from fairmend.errors import check
from fairmend.explain.crossfit import KnownRows, ModelChoice, pair_model
from fairmend.explain.outcomes import CAREFUL, FittedProbability, fit_probability
from fairmend.measure.population import AuditData, Population, Tally
from fairmend.repair.settings import RepairSettings

CAREFUL_AND_STORED = replace(CAREFUL, richer=(pair_model,))
"""A repair is stored as numbers, so no model that is code."""


@stored("KnownOutcome")
@dataclass(frozen=True, eq=False)
class RowProbabilities:
    """P(event | x) for any row: as cross-fitted for rows of the audit, as predicted for new ones.

    The event is an outcome, P(Y=1 | x), or a group.

    Keeping the cross-fitted figure puts the fit and the use of a threshold on one scale.
    """

    table: Frame
    probability: Chances
    fitted: FittedProbability | None
    """None where the outcomes are known exactly."""

    def agrees(self) -> bool:
        return len(self.table) > 0 and alike(self.table, self.probability)

    def of(self, rows: Frame) -> FloatArray:
        """One probability per row."""
        if rows is self.table:
            return self.probability.copy()
        place = find_rows(self.table, rows)
        probability = self.probability[np.maximum(place, 0)]
        new = np.flatnonzero(place < 0)
        if len(new) > 0:
            check(
                self.fitted is not None,
                "rows",
                "must be among those of the exact distribution",
                f"{len(new):,} are not",
                "Nothing is known about the outcome there.",
            )
            assert self.fitted is not None
            probability[new] = self.fitted.predict(rows.take(new))
        return probability

    @classmethod
    def fit(
        cls, data: AuditData, target: Hashable, settings: RepairSettings, *, pooled: bool
    ) -> RowProbabilities:
        """Cross-fitted on everybody, or on the target group alone.

        Where outcomes are not known the model's decisions stand in for them: as a ranking it is
        then the nearest thing to the score that the model does not give.
        """
        source = data[target]
        assert data.table is not None
        own = data.table.take(np.asarray(source.rows))
        if source.tally is None:
            return cls(own, source.outcome, None)
        if pooled:
            return cls.fit_event(data.table, pooled_tally(data), settings, "P(Y=1 | x)")
        return cls.fit_event(own, _counted(data, source), settings, f"P(Y=1 | x, {target})")

    @classmethod
    def fit_event(
        cls,
        table: Frame,
        tally: Tally,
        settings: RepairSettings,
        what: str,
        *,
        choice: ModelChoice = CAREFUL_AND_STORED,
        known: KnownRows | None = None,
    ) -> RowProbabilities:
        """Cross-fitted on distinct rows; the tally counts non-events and events."""
        fitted = fit_probability(
            table,
            tally,
            what=what,
            estimator=settings.outcome_model,
            choice=choice,
            errors=False,
            random_state=settings.seed,
            known=known,
        )
        return cls(table, fitted.probability, fitted)


def _counted(data: AuditData, people: Population) -> Tally:
    """People by row and outcome; by decision where outcomes are not known.

    A decision counts for nine tenths of its kind: were it certain, all who are far from the cut
    would have the same probability, 0 or 1.
    """
    tally = people.tally
    assert tally is not None
    if data.outcome_known:
        return tally
    h = 0.1 + 0.8 * people.decision
    counts = (part.sum(axis=1) for part in (tally.people, tally.weight, tally.squared))
    return Tally(*(np.stack([n * (1 - h), n * h], axis=1) for n in counts))


def pooled_tally(data: AuditData) -> Tally:
    """Everybody, whatever the group, by row of the table and outcome."""
    assert data.table is not None
    totals = [np.zeros((len(data.table), 2)) for _ in range(3)]
    for people in data.populations:
        tally = _counted(data, people)
        for total, part in zip(totals, (tally.people, tally.weight, tally.squared), strict=True):
            np.add.at(total, np.asarray(people.rows), part)
    return Tally(*totals)
