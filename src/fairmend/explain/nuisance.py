"""The models behind a counterfactual: of the outcome, and of the group where alignment needs it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairmend.data.columns import FloatArray, IntArray
from fairmend.errors import DataError
from fairmend.explain.outcomes import FittedProbability, fit_probability
from fairmend.explain.projection import tilt
from fairmend.measure.disparity import Disparity, parts_of
from fairmend.measure.metrics import SP, Alignment
from fairmend.measure.population import AuditData, Population, Tally


@dataclass(frozen=True, eq=False)
class NuisanceModels:
    """The two groups with what is modelled of them, and the fitted models."""

    source: Population
    """The target group, its outcomes as modelled, with the baseline's mass if that is needed."""
    baseline: Population
    outcome: FittedProbability | None
    group: FittedProbability | None

    @classmethod
    def fit(
        cls,
        data: AuditData,
        target: Hashable,
        baseline: Population,
        disparities: Sequence[Disparity],
        *,
        outcome_model: Any,
        group_model: Any,
        random_state: int,
    ) -> NuisanceModels:
        """Fit what the disparities need and an exact distribution does not have."""
        source, outcome, group = data[target], None, None
        if source.tally is not None and any(one.uses_outcome for one in disparities):
            table = data.table_of(source)
            if table is None:
                raise _no_inputs("A counterfactual speaks of inputs: pass them.")
            what = f"P(Y=1 | x, {target})"
            outcome = fit_probability(
                table, source.tally, what=what, estimator=outcome_model, random_state=random_state
            )
            source = source.with_outcome(outcome.probability)
        parts = [part for disparity in disparities for _, part in parts_of(disparity)]
        aligns = any(isinstance(part, Alignment) and part.weight > 0 for part in parts)
        if aligns and source.baseline_mass is None:
            if data.table is None or source.rows is None or baseline.rows is None:
                raise _no_inputs("Alignment of inputs needs them: pass X, or use weight=0.")
            seen = np.union1d(source.rows, baseline.rows)
            group = fit_probability(
                data.table.take(seen),
                _by_group(source, baseline, seen),
                what="P(baseline | x)",
                estimator=group_model,
                random_state=random_state,
            )
            s = group.probability[np.searchsorted(seen, source.rows)]
            source = _with_baseline_mass(source, s, baseline)
        return cls(source, baseline, outcome, group)

    def on_holdout(
        self, held: AuditData, target: Hashable, baseline: Hashable
    ) -> tuple[Population, Population]:
        """The two groups of holdout data under the models fitted on the audit data."""
        population = held[target]
        other = held.against(target, baseline)
        rows = held.table_of(population)
        assert rows is not None
        if self.outcome is not None and self.outcome.estimator is not None:
            population = population.with_outcome(self.outcome.predict(rows))
        if self.group is not None:
            population = _with_baseline_mass(population, self.group.predict(rows), other)
        return population, other


def _no_inputs(fix: str) -> DataError:
    return DataError("X", "must hold the model's inputs", "only predictions were tabulated", fix)


def _with_baseline_mass(source: Population, s: FloatArray, baseline: Population) -> Population:
    """P1 at the source's rows from s(x): P1 ~ P0 s / (1-s) (the paper's Section 3.2).

    The share of positive decisions under P1 is not estimated but known, so the estimate is tilted
    to have it: then Q = P1 closes the alignment, as it must.
    """
    implied = source.mass * s / (1 - s)
    implied = implied / implied.sum()
    tilted = tilt(implied, (source.decision - (1 - SP.of(baseline)))[:, None])
    return replace(source, baseline_mass=implied if tilted is None else tilted)


def _by_group(target: Population, baseline: Population, seen: IntArray) -> Tally:
    """Who is in which group at each row seen in either: target first, baseline second.

    With recorded decisions a row may come repeatedly.
    """

    def both(part: int) -> FloatArray:
        summed = np.zeros((len(seen), 2))
        for column, group in enumerate((target, baseline)):
            assert group.tally is not None
            rows = np.searchsorted(seen, np.asarray(group.rows))
            np.add.at(summed[:, column], rows, group.tally.sums[part].sum(axis=1))
        return summed

    return Tally(both(0), both(1), both(2))
