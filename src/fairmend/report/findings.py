"""What a report holds beside gaps: the explanation, the plans, the frontier, and its origin.

Plain values only, so that a page, a file or a program can read them without the model or the data.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from importlib.metadata import version
from typing import Any

import numpy as np

from fairmend.data.columns import Encoded, FloatArray, Frame, as_numbers, is_missing, scalar
from fairmend.data.naming import shown
from fairmend.explain import drivers
from fairmend.explain.counterfactual import Counterfactual
from fairmend.explain.drivers import FeatureScore, JointProxy
from fairmend.explain.marginals import Marginal, marginals
from fairmend.explain.prototypes import prototypes
from fairmend.measure.disparity import Disparity
from fairmend.measure.population import AuditData, Population
from fairmend.measure.wording import PlanText, describe_plan
from fairmend.repair.plan import Outlook, Plan
from fairmend.status import PlanStatus, Status
from fairmend.tables import number

__all__ = [
    "Explanation",
    "FrontierPoint",
    "PlanSummary",
    "Provenance",
    "fingerprint",
    "heads",
    "now",
    "repair_fingerprint",
    "rounded",
    "value_text",
]

MOST_PAIRS = 10
"""Joint proxies that are kept, those that carry most beyond their parts."""
MOST_VALUES = 5
"""Values of a feature whose shares are kept, those that move most; of more than these
only what moves by `LEAST_SHIFT`."""
LEAST_SHIFT = 0.005
SMALLEST_CELL = 5
"""Rows and values that fewer people share are suppressed: counted and not shown."""


PROTOTYPE_FIGURES = ("role", "observed", "counterfactual", "change")
"""What a prototype has beside its features."""


@dataclass(frozen=True)
class Explanation:
    """What a counterfactual distribution shows, as values and words."""

    target_name: Hashable
    baseline_name: Hashable
    names: tuple[str, ...]
    """The gaps it closes."""
    before: float
    after: float
    modelled: bool
    """Whether outcomes behind these gaps are by P(Y=1 | x), and not those on record."""
    closed: bool
    irreconcilable: bool
    status: str
    certificate: str
    """Whether any distribution closes the gap, in words; empty where there is no certificate."""
    certain: bool
    """Whether that answer holds all over its interval and does not rest on a model."""
    kl: float
    outcomes_differ: str
    """Whether there is evidence that P(Y | X) differs between the groups, in words."""
    decisions_differ: str
    """Whether equal inputs get equal decisions in both groups, in words; empty where they must,
    because the model was queried and depends on nothing else."""
    marginals: tuple[Marginal, ...]
    prototypes: tuple[dict[str, Any], ...]
    feature_scores: tuple[FeatureScore, ...]
    joint_proxies: tuple[JointProxy, ...]
    """Those that add more than noise, at most `MOST_PAIRS`."""
    features_verdict: str
    """How many features explain more than noise does, in words."""
    pairs_verdict: str
    """The same of pairs; empty where there is one feature only."""
    smallest_cell: int = SMALLEST_CELL
    values_not_shown: int = 0
    """Values of features that fewer people have."""
    prototypes_not_shown: int = 0
    """Rows that stand for fewer people."""
    known_as: tuple[str, str] = ("", "")
    """What people read for the target and the reference group; empty: their labels."""

    @property
    def group_names(self) -> tuple[str, str]:
        """The target and the reference group as people read them."""
        return shown(self.known_as, self.target_name, self.baseline_name)

    @property
    def shares(self) -> list[Marginal]:
        """Shares of people with a value, those that move most first."""
        shares = (line for line in self.marginals if line.is_share)
        return sorted(shares, key=lambda line: -abs(line.shift))

    @property
    def numbers(self) -> list[Marginal]:
        """Means and quantiles of numbers."""
        return [line for line in self.marginals if not line.is_share]

    @property
    def binary_features(self) -> set[str]:
        """Features that are 0 or 1 in each prototype."""
        rows = self.prototypes
        return {
            name
            for name in (rows[0] if rows else ())
            if name not in PROTOTYPE_FIGURES and all(row[name] in (0, 1) for row in rows)
        }

    def prototype_inputs(self, row: Mapping[str, Any]) -> str:
        """A row in a line: yes-or-no features where they are 1, of others their value."""
        binary = self.binary_features
        parts = [
            name if name in binary else f"{name} = {value_text(value)}"
            for name, value in row.items()
            if name not in PROTOTYPE_FIGURES and (name not in binary or value == 1)
        ]
        return ", ".join(parts) or "all features 0"

    @classmethod
    def of(cls, result: Counterfactual, smallest_cell: int = SMALLEST_CELL) -> Explanation:
        lines, every = marginals(result), prototypes(result)
        shown = _known_to_many(result, lines, smallest_cell)
        rows = [row for row in every if _people_like(result, row) >= smallest_cell]
        scores, pairs = (
            drivers.feature_scores(result),
            drivers.joint_proxies(result),
        )
        return cls(
            **{name: getattr(result, name) for name in _COPIED},
            names=tuple(disparity.name for disparity in result.disparities),
            closed=result.status is Status.CLOSED,
            status=result.status.value,
            certificate="" if result.certificate is None else str(result.certificate),
            certain=result.certificate is None or result.certificate.certain,
            outcomes_differ=str(result.outcome_difference) if result.outcome_known else "",
            decisions_differ=str(result.decision_difference)
            if result.recorded or result.group_inputs
            else "",
            marginals=tuple(_largest(_coarse(result, shown, smallest_cell))),
            prototypes=tuple(rows),
            feature_scores=tuple(scores),
            joint_proxies=tuple([pair for pair in pairs if pair.more_than_noise][:MOST_PAIRS]),
            features_verdict=drivers.verdict_on_features(scores),
            pairs_verdict=drivers.verdict_on_pairs(pairs),
            smallest_cell=smallest_cell,
            values_not_shown=len(lines) - len(shown),
            prototypes_not_shown=len(every) - len(rows),
        )


_COPIED = (
    "target_name", "baseline_name", "before", "after", "modelled", "irreconcilable", "kl",
    "known_as",
)  # fmt: skip
"""What an explanation takes over from its result."""

# -------------------------------------------------------------------- nobody is recognised


def heads(population: Population) -> FloatArray:
    """How many people stand on each row; behind an exact distribution any number may."""
    if population.tally is None:
        return np.full(len(population), 1e9)
    return np.asarray(population.tally.people.sum(axis=1), np.float64)


def rounded(value: float, digits: int) -> float:
    """A number to so many significant digits.

    >>> rounded(20007.3, 2), rounded(-0.1234, 3), rounded(0.0, 2)
    (20000.0, -0.123, 0.0)
    """
    return float(f"{value:.{digits - 1}e}") + 0.0


def value_text(value: Any) -> str:
    """A value of a feature as people read it."""
    plain = scalar(value)
    if is_missing(plain):
        return "missing"
    return number(plain) if isinstance(plain, float) else str(plain)


def _known_to_many(
    result: Counterfactual, lines: Sequence[Marginal], smallest_cell: int
) -> list[Marginal]:
    """Numbers, and the values that enough people of the target group have."""
    counted = replace(result, source=result.source.reweighted(heads(result.source)))
    return [
        line
        for line, people in zip(lines, marginals(counted), strict=True)
        if not line.is_share or people.observed >= smallest_cell
    ]


def _coarse(
    result: Counterfactual, lines: Sequence[Marginal], smallest_cell: int
) -> list[Marginal]:
    """Quantiles that fewer people have exactly are rounded; means are nobody's own."""
    here, there = (
        _people_by_number(table, side)
        for table, side in (
            (result.table, result.source),
            (result.baseline_table, result.baseline),
        )
    )

    def shown(value: float, feature: str, people: dict[str, dict[float, float]]) -> float:
        few = people.get(feature, {}).get(value, 0.0) < smallest_cell
        return rounded(value, 3) if few and np.isfinite(value) else value

    return [
        line
        if line.is_share or line.statistic == "mean"
        else replace(
            line,
            observed=shown(line.observed, line.feature, here),
            counterfactual=shown(line.counterfactual, line.feature, here),
            baseline=shown(line.baseline, line.feature, there),
        )
        for line in lines
    ]


def _people_by_number(table: Frame | None, side: Population) -> dict[str, dict[float, float]]:
    """Of each feature of numbers, how many people have each."""
    counts = {}
    people = heads(side)
    for name, column in () if table is None else zip(table.names, table.encoded, strict=True):
        numbers = as_numbers(column.values)
        if numbers is not None:
            count = np.bincount(column.codes, people, len(numbers))
            counts[str(name)] = dict(zip(numbers.tolist(), count.tolist(), strict=True))
    return counts


def _largest(lines: Sequence[Marginal]) -> list[Marginal]:
    """Of each feature's shares those that move most, in the order they came in."""
    kept: set[int] = set()
    shares: dict[str, list[int]] = {}
    for place, line in enumerate(lines):
        if line.is_share:
            shares.setdefault(line.feature, []).append(place)
        else:
            kept.add(place)
    for places in shares.values():
        least = LEAST_SHIFT if len(places) > MOST_VALUES else 0.0
        moving = [i for i in places if abs(lines[i].shift) >= least]
        kept |= set(sorted(moving, key=lambda i: -abs(lines[i].shift))[:MOST_VALUES])
    return [lines[place] for place in sorted(kept)]


def _people_like(result: Counterfactual, row: Mapping[str, Any]) -> float:
    """How many people stand on a prototype, or on the least of those with the same masses."""
    same = (result.source.mass == row["observed"]) & (result.mass == row["counterfactual"])
    return float(heads(result.source)[same].min())


@dataclass(frozen=True)
class PlanSummary:
    """A plan without its law: what it aims at, how it ended, what it is expected to do."""

    target: Hashable
    baseline: Hashable
    metric: str
    method: str
    status: str
    message: str
    outlook: Outlook
    search: str = ""
    """Where destinations are sought and how many of the nearest are found."""
    notes: tuple[str, ...] = ()
    """Further sentences about the plan, among them a rule in words."""
    order: str = ""
    """Who is edited first; empty where there is no such order."""

    @property
    def in_words(self) -> PlanText:
        """What it does on the people it was fitted on; its status where the figures bear it out."""
        outlook = self.outlook
        return describe_plan(
            PlanStatus[self.status],
            outlook.by_metric,
            interval=(outlook.expected_low, outlook.expected_high),
            tolerance=outlook.tolerance,
        )

    @classmethod
    def of(cls, plan: Plan) -> PlanSummary:
        aim, status = (plan.target, plan.baseline, plan.metric, plan.method), plan.status
        return cls(*aim, status.name, status.value, plan.outlook, plan.search, plan.notes,
                   plan.order)  # fmt: skip


@dataclass(frozen=True)
class FrontierPoint:
    """What closing a part of the gap does to one group of the people reported on."""

    level: float
    group: Hashable
    gap: float
    low: float
    high: float
    impact_ratio: float
    accuracy: float
    """Of everybody."""
    auc: float
    """Within the group."""
    edited: float
    gained: float
    lost: float
    randomised: float
    cost: float


# -------------------------------------------------------------------- where it comes from

_PACKAGES = ("fairmend", "numpy", "scipy", "scikit-learn", "narwhals")


@dataclass(frozen=True)
class Provenance:
    """What it takes to make the same report again, and to see that it is the same."""

    made_at: str
    command: str
    """The command or call that made it."""
    seed: int | None
    model: str
    level: float
    """How much of the gap the repair closes."""
    settings: dict[str, str]
    """Of the repair, where they are not its defaults."""
    versions: dict[str, str]
    audit_data: str
    """SHA-256 of the tabulated people the repair was fitted on, and the model's answers."""
    report_data: str
    """... of those it is reported on."""
    audited: int
    reported: int
    holdout: bool | None = None
    """Whether the caller declared these people a holdout; None where nothing was declared."""
    seed_left_out: bool = False
    """Whether the repair comes from an artifact without its seed: the key was made from it."""
    recorded: bool = False
    """Whether there are answers on record only, and the model cannot be queried."""
    unexplained: str = ""
    """Why the report has no explanation; empty where nothing prevents it."""
    left_out: int = 0
    """People who could not take part, as their outcome or group is not known."""

    @property
    def is_holdout(self) -> bool | None:
        """Whether they are one, as far as is known; False for the people of `fit` themselves."""
        return False if self.audit_data == self.report_data else self.holdout

    @classmethod
    def of(
        cls,
        audited: AuditData,
        reported: AuditData,
        *,
        model: Any,
        settings: Mapping[str, Any],
        command: str | None = None,
        holdout: bool | None = None,
        loaded: bool = False,
        recorded: bool = False,
        unexplained: str = "",
        left_out: int = 0,
    ) -> Provenance:
        """``settings`` are those of the repair that are not its defaults, without its key."""
        texts = {name: _setting_text(value) for name, value in settings.items()}
        call = ", ".join(["model", *(f"{name}={text}" for name, text in texts.items())])
        return cls(
            made_at=f"{now():%Y-%m-%d %H:%M} UTC",
            recorded=recorded,
            unexplained=unexplained,
            left_out=left_out,
            command=command or f"fairmend.RepairedClassifier({call}).fit(...).report(...)",
            seed=settings.get("random_state"),
            model=_name(model),
            level=float(settings.get("level", 1.0)),
            settings=texts,
            versions={"Python": platform.python_version(), **{p: version(p) for p in _PACKAGES}},
            audit_data=fingerprint(audited),
            report_data=fingerprint(reported),
            audited=audited.n,
            reported=reported.n,
            holdout=holdout,
            seed_left_out=loaded and settings.get("random_state") is None,
        )


def _setting_text(value: Any) -> str:
    """A setting as in code; functions and metrics by name, not by address."""
    if isinstance(value, Disparity):
        return repr(value.name)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_setting_text, value))}]"
    if isinstance(value, Mapping):
        return (
            f"{{{', '.join(f'{key!r}: {_setting_text(entry)}' for key, entry in value.items())}}}"
        )
    return _name(value) if callable(value) else repr(value)


def _name(value: Any) -> str:
    """A function by its name, a column by its own, anything else by its type."""
    if isinstance(value, str):
        return f"recorded in column {value!r}"
    return str(getattr(value, "__name__", type(value).__name__))


def now() -> datetime:
    """The time in UTC; SOURCE_DATE_EPOCH stands in for it, as in reproducible builds."""
    given = os.environ.get("SOURCE_DATE_EPOCH", "")
    moment = datetime.fromtimestamp(int(given), UTC) if given.isdigit() else datetime.now(UTC)
    return moment.replace(microsecond=0)


def fingerprint(data: AuditData) -> str:
    """SHA-256 of tabulated people and answers, whatever the order they came in.

    >>> from fairmend import tabulate
    >>> X, y, s = [[1, 0], [0, 0], [1, 1]], [0, 1, 1], ["a", "b", "a"]
    >>> one, other = (
    ...     tabulate(lambda rows: rows[:, 0], X[::way], y[::way], sensitive_features=s[::way])
    ...     for way in (1, -1)
    ... )
    >>> fingerprint(one) == fingerprint(other)
    True
    """
    digest = sha256()
    names = () if data.table is None else data.table.names
    for name, column in zip(names, _columns(data), strict=True):
        values = [str(v + 0.0 if isinstance(v, float) else v) for v in column.values]  # -0.0 is 0.0
        digest.update(repr((str(name), values)).encode())
    _count_in(digest, data, outcomes=True)
    return digest.hexdigest()


def _columns(data: AuditData) -> list[Encoded]:
    return [] if data.table is None else list(data.table.encoded)


def _count_in(digest: Any, data: AuditData, *, outcomes: bool) -> None:
    """People and answers by row, rows by the order of their values, whatever these are called."""
    columns = _columns(data)
    by_name = dict(zip(map(str, data.groups), data.populations, strict=True))
    for group in sorted(by_name):
        people = by_name[group]
        parts = [people.mass, people.decision, *([people.outcome] if outcomes else [])]
        parts += [] if people.score is None else [people.score]
        if people.tally is not None and outcomes:
            parts += [*people.tally.people.T, *people.tally.weight.T]
        rows = [] if people.rows is None else [column.codes[people.rows] for column in columns]
        # values are sorted, so codes do not depend on the order of people; sums may, in their
        # last digits, hence the rounding
        table = np.column_stack([*rows, *(np.round(part, 12) for part in parts)]) + 0.0
        order = np.lexsort(table.T[::-1])
        digest.update(repr((group, table.shape)).encode())
        digest.update(np.ascontiguousarray(table[order]).tobytes())


def repair_fingerprint(data: AuditData, plans: Mapping[Hashable, Plan]) -> str:
    """SHA-256 of the people a repair was fitted on and of what its plans do to them.

    It is the same for the same people in any container, and with or without outcomes that no plan
    rests on. No setting is in it: from a seed it would let others find the key.
    """
    digest = sha256()
    _count_in(digest, data, outcomes=False)
    for group, plan in plans.items():
        o = plan.outlook
        figures = (o.gap_before, o.gap_after, o.edited, o.randomised, o.unreachable, o.cost,
                   o.to_positive, o.to_negative)  # fmt: skip
        rounded_figures = [round(float(figure), 9) + 0.0 for figure in figures]
        law = str(group), str(plan.baseline), plan.metric, plan.method, rounded_figures
        digest.update(repr(law).encode())
    return digest.hexdigest()
