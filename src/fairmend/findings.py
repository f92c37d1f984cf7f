"""What a report tells beside gaps: the explanation, the plans, the frontier, and its origin.

Plain values only, so that a page, a file or a program can read them without the model or the data.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from importlib.metadata import version
from typing import Any

import numpy as np

from fairmend import explain
from fairmend.counterfactual import Counterfactual
from fairmend.data import AuditData
from fairmend.disparity import Disparity
from fairmend.explain import FeatureScore, JointProxy, Marginal
from fairmend.plan import Outlook, Plan
from fairmend.status import Status

__all__ = ["Explanation", "FrontierPoint", "PlanSummary", "Provenance", "fingerprint"]

MOST_PAIRS = 10
"""Joint proxies that are kept, those that carry most beyond their parts."""


@dataclass(frozen=True)
class Explanation:
    """A counterfactual distribution, told."""

    target_name: Hashable
    baseline_name: Hashable
    names: tuple[str, ...]
    """The gaps it closes."""
    before: float
    after: float
    closed: bool
    irreconcilable: bool
    status: str
    certificate: str
    """Whether any distribution closes the gap, in words; empty where there is no certificate."""
    certain: bool
    """Whether that answer is the same at both ends of its interval."""
    kl: float
    outcomes_differ: str
    """The test of whether P(Y | X) differs between the groups, in words."""
    marginals: tuple[Marginal, ...]
    prototypes: tuple[dict[str, Any], ...]
    feature_scores: tuple[FeatureScore, ...]
    joint_proxies: tuple[JointProxy, ...]

    @classmethod
    def of(cls, found: Counterfactual) -> Explanation:
        return cls(
            target_name=found.target_name,
            baseline_name=found.baseline_name,
            names=tuple(disparity.name for disparity in found.disparities),
            before=found.before,
            after=found.after,
            closed=found.status is Status.CLOSED,
            irreconcilable=found.irreconcilable,
            status=found.status.value,
            certificate="" if found.certificate is None else str(found.certificate),
            certain=found.certificate is None or found.certificate.certain,
            kl=found.kl,
            outcomes_differ=str(found.outcome_difference),
            marginals=tuple(explain.marginals(found)),
            prototypes=tuple(explain.prototypes(found)),
            feature_scores=tuple(explain.feature_scores(found)),
            joint_proxies=tuple(explain.joint_proxies(found)[:MOST_PAIRS]),
        )


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

    @classmethod
    def of(cls, plan: Plan) -> PlanSummary:
        return cls(
            target=plan.target,
            baseline=plan.baseline,
            metric=plan.metric,
            method=plan.method,
            status=plan.status.name,
            message=plan.status.value,
            outlook=plan.outlook,
        )


@dataclass(frozen=True)
class FrontierPoint:
    """What closing a part of the gap does to one group of the holdout."""

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

    @classmethod
    def of(
        cls,
        audited: AuditData,
        reported: AuditData,
        *,
        model: Any,
        settings: Mapping[str, Any],
        command: str | None = None,
    ) -> Provenance:
        """``settings`` are those of the repair that are not its defaults, without its key."""
        said = {name: _said(value) for name, value in settings.items()}
        call = ", ".join(["model", *(f"{name}={value}" for name, value in said.items())])
        return cls(
            made_at=_now(),
            command=command or f"fairmend.RepairedClassifier({call}).fit(...).report(...)",
            seed=settings.get("random_state"),
            model=_name(model),
            level=float(settings.get("level", 1.0)),
            settings=said,
            versions={"Python": platform.python_version(), **{p: version(p) for p in _PACKAGES}},
            audit_data=fingerprint(audited),
            report_data=fingerprint(reported),
            audited=audited.n,
            reported=reported.n,
        )


def _said(value: Any) -> str:
    """A setting as one would write it; functions and metrics by name, not by address."""
    if isinstance(value, Disparity):
        return repr(value.name)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_said, value))}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key!r}: {_said(entry)}' for key, entry in value.items())}}}"
    return _name(value) if callable(value) else repr(value)


def _name(value: Any) -> str:
    """A function by its name, a column by its own, anything else by its type."""
    if isinstance(value, str):
        return f"recorded in column {value!r}"
    return str(getattr(value, "__name__", type(value).__name__))


def _now() -> str:
    """The time in UTC; SOURCE_DATE_EPOCH stands in for it, as in reproducible builds."""
    given = os.environ.get("SOURCE_DATE_EPOCH", "")
    when = datetime.fromtimestamp(int(given), UTC) if given.isdigit() else datetime.now(UTC)
    return when.strftime("%Y-%m-%d %H:%M UTC")


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
    columns = [] if data.table is None else data.table.encoded
    names = () if data.table is None else data.table.names
    for name, column in zip(names, columns, strict=True):
        digest.update(repr((str(name), [str(value) for value in column.values])).encode())
    by_name = dict(zip(map(str, data.groups), data.populations, strict=True))
    for group in sorted(by_name):
        people = by_name[group]
        parts = [people.mass, people.decision, people.outcome]
        parts += [] if people.score is None else [people.score]
        if people.tally is not None:
            parts += [*people.tally.people.T, *people.tally.weight.T]
        rows = [] if people.rows is None else [column.codes[people.rows] for column in columns]
        # values are sorted, so codes do not depend on the order of people; sums may, in their
        # last digits, hence the rounding
        table = np.column_stack([*rows, *(np.round(part, 12) for part in parts)]) + 0.0
        order = np.lexsort(table.T[::-1])
        digest.update(repr((group, table.shape)).encode())
        digest.update(np.ascontiguousarray(table[order]).tobytes())
    return digest.hexdigest()
