"""The counterfactual distribution: inputs for the target group under which the gap is closed.

``project`` finds the one closest to what is observed, exactly; ``descend`` is the paper's
Algorithm 1. Both keep the target group's distinct rows and give them new masses Q. Whether any such
Q exists is answered by a certificate (the paper's Proposition 1), not by a failed search.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Unpack, get_args

import numpy as np

from fairmend import doors
from fairmend.data.columns import FloatArray, Frame, IntArray
from fairmend.data.naming import shown
from fairmend.data.outcomes import UNLABELLED
from fairmend.errors import DataError, check, check_between, check_choice, check_whole, require
from fairmend.explain.certificate import Certificate, certify
from fairmend.explain.descent import DescentSettings, Trace, descend
from fairmend.explain.drivers import feature_scores, joint_proxies
from fairmend.explain.equal_outcomes import OutcomeDifference, outcome_difference
from fairmend.explain.marginals import marginals
from fairmend.explain.nuisance import NuisanceModels
from fairmend.explain.outcomes import FittedProbability
from fairmend.explain.projection import observed_gap, project
from fairmend.explain.prototypes import prototypes, row_influence
from fairmend.measure import special
from fairmend.measure.audit import check_confidence
from fairmend.measure.disparity import Disparity, RateGap, parts_of, read_disparities
from fairmend.measure.equal_inputs import (
    DecisionDifference,
    decision_difference,
    names_of_the_group,
)
from fairmend.measure.intervals import RateEstimate
from fairmend.measure.metrics import SP, check_outcomes_are_known
from fairmend.measure.population import AuditData, Population, pooled
from fairmend.measure.tabulate import tabulate
from fairmend.status import Status

if TYPE_CHECKING:
    import pandas as pd

Method = Literal["projection", "descent"]


@dataclass(frozen=True, eq=False, repr=False)
class Counterfactual(doors.Shown):
    """The target group's distinct rows under new masses, and how they were found."""

    source: Population
    """The target group as observed, its outcomes as modelled."""
    baseline: Population
    disparities: tuple[Disparity, ...]
    mass: FloatArray
    """Q, one entry per row of the source."""
    status: Status
    target_name: Hashable
    baseline_name: Hashable
    table: Frame | None
    """The distinct rows of the source, in the container they came in."""
    method: Method
    level: float
    certificate: Certificate | None
    outcome_model: FittedProbability | None
    group_model: FittedProbability | None = None
    trace: Trace | None = None
    """The course of the descent; None for a projection."""
    baseline_table: Frame | None = None
    person_row: IntArray | None = None
    """For each audited person the row of ``mass`` they stand on; -1 outside the target group, and
    for whoever has weight 0."""
    recorded: bool = False
    """Whether decisions are on record; otherwise the model was queried."""
    group_inputs: tuple[str, ...] = ()
    """Inputs that only say which group somebody is in."""
    outcome_known: bool = True
    """Whether outcomes were given."""
    known_as: tuple[str, str] = ("", "")
    """What people read for the target and the reference group; empty: their labels."""

    @property
    def group_names(self) -> tuple[str, str]:
        """The target and the reference group as people read them."""
        return shown(self.known_as, self.target_name, self.baseline_name)

    @cached_property
    def gaps_before(self) -> tuple[float, ...]:
        """Each disparity as observed, outcomes as modelled."""
        return tuple(d.value(self.source, self.baseline) for d in self.disparities)

    @cached_property
    def gaps_after(self) -> tuple[float, ...]:
        """Each disparity under Q."""
        return tuple(d.value(self.shifted, self.baseline) for d in self.disparities)

    @property
    def modelled(self) -> bool:
        """Whether a disparity needs outcomes, and they come from a model P(Y=1 | x)."""
        return self.outcome_model is not None

    @property
    def shifted(self) -> Population:
        """The target group under Q."""
        return self.source.reweighted(self.mass)

    @property
    def before(self) -> float:
        """The disparity as observed (outcomes as modelled); the largest of several."""
        return max(self.gaps_before, key=abs)

    @property
    def after(self) -> float:
        """The disparity under Q; the largest of several."""
        return max(self.gaps_after, key=abs)

    @property
    def irreconcilable(self) -> bool:
        """Whether no distribution over these inputs closes the gap, whatever the level."""
        certified = self.certificate is not None and self.certificate.irreconcilable
        return certified or self.status is Status.IRRECONCILABLE

    @cached_property
    def outcome_difference(self) -> OutcomeDifference:
        """A test of whether P(Y | X) differs between the two groups."""
        what, got = "outcome_difference", "they were not given"
        fix = "Pass y: what really happened."
        check(self.outcome_known, what, "needs outcomes to compare", got, fix)
        here, there = self._tables("outcome_difference")
        return outcome_difference(self.source, here, self.baseline, there)

    @cached_property
    def decision_difference(self) -> DecisionDifference:
        """Whether equal inputs get equal decisions in both groups.

        Where they do not, an explanation by inputs is misleading.
        """
        here, there = self._tables("decision_difference")
        return decision_difference(
            self.source,
            here,
            self.baseline,
            there,
            recorded=self.recorded,
            beside=self.group_inputs,
        )

    def _tables(self, what: str) -> tuple[Frame, Frame]:
        if self.table is None or self.baseline_table is None:
            got, fix = "only predictions were tabulated", "Pass X with the model's inputs."
            raise DataError(what, "needs the inputs", got, fix)
        return self.table, self.baseline_table

    @cached_property
    def influence(self) -> FloatArray:
        """Psi at each row of the source: what more of that row would add to the size of the gap."""
        parts = [
            np.sign(gap) * d.influence(self.source, self.baseline)
            for d, gap in zip(self.disparities, self.gaps_before, strict=True)
        ]
        return np.asarray(np.sum(parts, axis=0), np.float64)

    @property
    def kl(self) -> float:
        """KL(Q || P0): how far the counterfactual is from what is observed, in nats."""
        return float(special.rel_entr(self.mass, self.source.mass).sum())

    @property
    def chi_square(self) -> float:
        """Sum (Q - P0)^2 / P0."""
        kept = self.source.mass > 0
        return float(((self.mass - self.source.mass)[kept] ** 2 / self.source.mass[kept]).sum())

    @property
    def effective_sample_size(self) -> float:
        """How many equally weighted people the reweighted sample is worth, (sum w)^2 / sum w^2.

        For equal weights it is n / (1 + chi_square); nan if there are no people.
        """
        tally = self.source.tally
        if tally is None:
            return float("nan")
        squared = tally.squared_by_row @ self.density**2
        return float(tally.weight.sum()) ** 2 / float(squared)

    @property
    def density(self) -> FloatArray:
        """Q / P0 at each row, 0 where all weights are 0."""
        p = self.source.mass
        return np.divide(self.mass, p, out=np.zeros_like(self.mass), where=p > 0)

    def weights(self) -> FloatArray:
        """One weight per audited person, beside their own: Q/P0 in the target group, else 1."""
        if self.person_row is None:
            raise DataError(
                "weights()",
                "needs the audited people",
                "this counterfactual was made from tabulated data",
                "Call fairmend.counterfactual() on the data itself.",
            )
        return np.where(self.person_row >= 0, self.density[np.maximum(self.person_row, 0)], 1.0)

    def sample(self, n: int, random_state: int | np.random.Generator | None = None) -> Any:
        """Draw n rows from Q, in the container the inputs came in."""
        check_whole("n", n, 1, "For example sample(1000, random_state=0).", of="rows")
        table, _ = self._tables("sample()")
        rng = np.random.default_rng(random_state)
        return table.take(rng.choice(len(self.mass), size=n, p=self.mass)).native

    # ------------------------------------------------------------ explanation

    def marginals(self) -> pd.DataFrame:
        """Each feature's distribution: observed, baseline, counterfactual (the paper's Table 3)."""
        return _frame(marginals(self), "marginals")

    def prototypes(self, n: int = 5) -> pd.DataFrame:
        """The rows that gain and lose most mass, and a few that represent what gains."""
        return _frame(prototypes(self, n), "prototypes")

    def feature_scores(self) -> pd.DataFrame:
        """How much of the disparity each feature carries."""
        return _frame(feature_scores(self), "feature_scores")

    def joint_proxies(self) -> pd.DataFrame:
        """Pairs of features that carry more together than either does alone."""
        return _frame(joint_proxies(self), "joint_proxies")

    def row_influence(self) -> pd.DataFrame:
        """Every distinct row with its mass and its influence on the disparity."""
        return _frame(row_influence(self), "row_influence")

    def __str__(self) -> str:
        names = ", ".join(d.name for d in self.disparities)
        target, baseline = self.group_names
        lines = [
            f"Counterfactual distribution for {target} against {baseline}, {names}, "
            f"by {self.method}",
            self.status.value,
            *(
                f"{d.name}: {_points(before)} points "
                f"{'modelled' if self.modelled and d.uses_outcome else 'observed'}, "
                f"{_points(after)} under the counterfactual"
                for d, before, after in zip(
                    self.disparities, self.gaps_before, self.gaps_after, strict=True
                )
            ),
            f"{len(self.mass):,} distinct rows, KL {self.kl:.4f} from what is observed",
        ]
        if self.certificate is not None:
            lines.append(str(self.certificate))
        if self.table is not None and self.baseline_table is not None:
            lines.append(f"{self.decision_difference}.")
        lines += [
            str(model) for model in (self.outcome_model, self.group_model) if model is not None
        ]
        return "\n".join(lines)

    def __repr__(self) -> str:
        names = ", ".join(d.name for d in self.disparities)
        target, baseline = self.group_names
        ends = f"{_points(self.before)} to {_points(self.after)} points"
        return f"<Counterfactual: {names} of {target} against {baseline}, {ends}>"


def _points(gap: float) -> str:
    """A gap in hundredths, signed unless it rounds to 0.

    >>> _points(-0.1234), _points(-1e-17)
    ('-12.34', '0.00')
    """
    return f"{100 * gap:+.2f}" if abs(gap) >= 5e-5 else "0.00"


def _frame(rows: Sequence[Any], method: str) -> pd.DataFrame:
    """Rows of values as a pandas frame."""
    pandas = require("pandas", extra="pandas", why=f"Counterfactual.{method}()")
    plain = [row if isinstance(row, dict) else asdict(row) for row in rows]
    frame: pd.DataFrame = pandas.DataFrame(plain)
    return frame


# -------------------------------------------------------------------- the front door


def counterfactual(
    model: Any,
    X: Any,
    y: Any,
    *,
    sensitive_features: Any,
    disparity: str | Disparity | Sequence[str | Disparity],
    method: Method = "projection",
    target: Hashable = None,
    baseline: Hashable = None,
    level: float = 1.0,
    outcome_model: Any = "auto",
    group_model: Any = "logistic",
    sample_weight: Any = None,
    pos_label: Hashable = None,
    confidence: float = 0.95,
    random_state: int = 0,
    **descent: Unpack[DescentSettings],
) -> Counterfactual:
    """Find the distribution of inputs under which the model would treat both groups alike.

    Parameters
    ----------
    model, X, y, sensitive_features, sample_weight, pos_label
        As in `fairmend.audit`; a gap in sp needs no outcomes, and y may be None.
    disparity
        A name (sp, fnr, fpr, fdr, da or a registered one), a `Disparity`, or several of them to be
        closed together.
    method
        ``"projection"``: the closest one in KL, exact. ``"descent"``: the paper's Algorithm 1; its
        settings (step_size, resample, stop, tolerance, max_iter, target_gap, holdout) are those of
        `descend`, with ``holdout=(X, y, sensitive_features)``.
    target, baseline
        The group to explain and the one to compare with; by default the worst-off and the best-off
        on the first disparity. ``baseline="rest"`` compares with everybody else.
    level
        How much of the gap to close, from 0 to 1.
    outcome_model
        How to estimate P(Y=1 | x) in the target group: ``"auto"`` (logistic regression, unless
        products of inputs or gradient boosting predict people held out clearly better),
        ``"logistic"``, ``"empirical"`` (observed shares, for small finite supports) or a
        scikit-learn classifier.
    group_model
        The same for P(baseline | x), which only ``Alignment(weight > 0)`` needs.
    confidence
        The confidence level of the certificate's interval.
    random_state
        Seeds the folds of the cross-fitting, and the descent's resampling.
    **descent
        The settings of `descend`.

    Examples
    --------
    >>> from fairmend import datasets
    >>> X, y, s = datasets.example_one().sample(20_000, random_state=0)
    >>> model = datasets.example_one().decision
    >>> result = counterfactual(model, X, y, sensitive_features=s, disparity="fpr")
    >>> result.target_name, result.status.name, bool(abs(result.after) < 1e-10)
    ('target', 'CLOSED', True)

    """
    data = tabulate(
        model, X, y, sensitive_features=sensitive_features, sample_weight=sample_weight,
        pos_label=pos_label, unlabelled=UNLABELLED,
    )  # fmt: skip
    if descent.get("holdout") is not None:
        descent["holdout"] = _tabulate_holdout(model, descent["holdout"], pos_label)
    return counterfactual_data(
        data, disparity=disparity, method=method, target=target, baseline=baseline, level=level,
        outcome_model=outcome_model, group_model=group_model, confidence=confidence,
        random_state=random_state, **descent,
    )  # fmt: skip


def _tabulate_holdout(model: Any, holdout: Any, pos_label: Hashable) -> AuditData:
    check(
        isinstance(holdout, tuple) and len(holdout) == 3,
        "holdout",
        "must be the three (X, y, sensitive_features)",
        f"got {type(holdout).__name__}",
        "Pass data that was not used to fit anything.",
    )
    X, y, s = holdout
    return tabulate(model, X, y, sensitive_features=s, pos_label=pos_label, unlabelled=UNLABELLED)


def counterfactual_data(
    data: AuditData,
    *,
    disparity: str | Disparity | Sequence[str | Disparity],
    method: Method = "projection",
    target: Hashable = None,
    baseline: Hashable = None,
    level: float = 1.0,
    outcome_model: Any = "auto",
    group_model: Any = "logistic",
    confidence: float = 0.95,
    random_state: int = 0,
    **descent: Unpack[DescentSettings],
) -> Counterfactual:
    """The counterfactual of data already tabulated; exact distributions are taken as they are."""
    disparities = read_disparities(disparity)
    _check_settings(method, level, len(disparities), descent)
    check_confidence(confidence)
    check_outcomes_are_known(data, disparities)
    target, baseline = choose_groups(data, disparities[0], target, baseline)
    others = [data[g] for g in data.groups if g == baseline or (baseline == "rest" and g != target)]
    models = NuisanceModels.fit(
        data, target, pooled(others), disparities, outcome_model=outcome_model,
        group_model=group_model, random_state=random_state,
    )  # fmt: skip
    source, other = models.source, models.baseline
    for one in disparities:
        observed_gap(one, source, other)
    here, there = data.table_of(source), data.table_of(other)
    certificate = None
    if len(disparities) == 1:
        certificate = certify(
            disparities[0], source, other, models.outcome, confidence, tables=(here, there)
        )
    trace = None
    if method == "projection":
        mass, status = project(source, other, disparities, level=level)
    else:
        if descent.get("holdout") is not None:
            descent["holdout"] = models.on_holdout(descent["holdout"], target, baseline)
        if level < 1:
            descent.setdefault("target_gap", (1 - level) * disparities[0].value(source, other))
        mass, status, trace = descend(
            source, other, disparities[0], random_state=random_state, **descent
        )
        aim = descent.get("target_gap", 0.0)
        if status is Status.STOPPED and certificate is not None and certificate.out_of_reach(aim):
            status = Status.IRRECONCILABLE  # more iterations would not help
    group_inputs: tuple[str, ...] = ()
    if here is not None and there is not None:
        group_inputs = names_of_the_group(here, there, [len(group) for group in others])
    return Counterfactual(
        source=source,
        baseline=other,
        disparities=disparities,
        mass=mass,
        status=status,
        target_name=target,
        baseline_name=baseline,
        table=here,
        method=method,
        level=level,
        certificate=certificate,
        outcome_model=models.outcome,
        group_model=models.group,
        trace=trace,
        baseline_table=there,
        person_row=data.rows_of_people(target),
        recorded=data.recorded,
        group_inputs=group_inputs,
        outcome_known=data.outcome_known,
        known_as=data.names.pair(target, baseline),
    )


def check_level(level: Any) -> None:
    """Refuse what is no share of a gap."""
    check_between("level", level, 0, 1, "1 closes the whole gap, 0.5 half of it.")


def _check_settings(
    method: str, level: float, disparities: int, descent: Mapping[str, Any]
) -> None:
    fix = "The projection is exact; the descent is the paper's algorithm."
    check_choice("method", method, get_args(Method), fix)
    check_level(level)
    check(
        method == "descent" or not descent,
        "method='projection'",
        "has no settings of its own",
        f"got {', '.join(sorted(descent))}",
        "They belong to method='descent'.",
    )
    check(
        method == "projection" or disparities == 1,
        "disparity",
        "must be a single one for method='descent'",
        f"got {disparities}",
        "Combine them (0.5 * FNR + 0.5 * FPR), or use method='projection'.",
    )
    for name in descent:
        check_choice("settings of the descent", name, DescentSettings.__annotations__)


def choose_groups(
    data: AuditData, disparity: Disparity, target: Hashable, baseline: Hashable
) -> tuple[Hashable, Hashable]:
    """Named groups as named; otherwise the worst-off and the best-off by the disparity's rates.

    As in an audit, groups too small to be compared are neither, unless there are no others.
    """
    if target is not None:
        data.place(target, "target")
    if baseline is not None and baseline != "rest":
        data.place(baseline, "baseline")
    check(
        target is None or target != baseline,
        "baseline",
        "must differ from the target",
        f"both are {target!r}",
        "Name another group, or leave it out.",
    )
    rates = {group: _rate_for_ranking(disparity, data[group]) for group in data.groups}
    measurable = [group for group in data.groups if rates[group].effective > 0]
    large = [group for group in measurable if rates[group].enough]
    ranked = sorted(large if len(large) >= 2 else measurable, key=lambda group: rates[group].rate)
    check(
        len(ranked) >= 2 or (target is not None and baseline is not None),
        "sensitive_features",
        f"must have two groups in which {disparity.name} can be measured",
        f"got {len(ranked)}",
        "Choose another disparity, or audit more people.",
    )
    if target is None:
        target = next(group for group in reversed(ranked) if group != baseline)
    if baseline is None:
        baseline = next(group for group in ranked if group != target)
    return target, baseline


def _rate_for_ranking(disparity: Disparity, people: Population) -> RateEstimate:
    """Alignment has no rate of its own: fewer positive decisions is worse off."""
    rates = [(weight, part) for weight, part in parts_of(disparity) if isinstance(part, RateGap)]
    return RateEstimate.of(rates or [(1.0, SP)], people.by_decision)
