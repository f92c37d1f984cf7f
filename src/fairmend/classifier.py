"""The repaired classifier: thin glue between a frozen model, its plans and people's draws."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from hashlib import blake2b
from inspect import cleandoc
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted

from fairmend import doors
from fairmend.apply.batch import Applied, apply_batch, fitted_inputs, read_people
from fairmend.apply.draw import Drawer, random_key
from fairmend.apply.laws import FittedRepair
from fairmend.apply.shared_draws import SharedDraws, shared_draws_as_audited
from fairmend.data.columns import FloatArray, Frame, Name
from fairmend.data.groups import are_names
from fairmend.data.limits import faults
from fairmend.data.outcomes import UNLABELLED
from fairmend.data.spelling import Spelling
from fairmend.data.threads import one_thread
from fairmend.errors import (
    ArtifactError,
    DataError,
    FairmendWarning,
    check,
    check_given,
    check_whole,
    require,
    warn,
)
from fairmend.explain.counterfactual import Counterfactual, counterfactual_data
from fairmend.measure.audit import audit_data
from fairmend.measure.disparity import Disparity
from fairmend.measure.elsewhere import Settle, engines, is_elsewhere
from fairmend.measure.metrics import check_outcomes_are_known
from fairmend.measure.population import AuditData
from fairmend.measure.result import Audit
from fairmend.measure.selection import find_one_decision
from fairmend.measure.tabulate import tabulate, tabulate_to_repair
from fairmend.model.blackbox import BlackBox
from fairmend.model.probe import Probe
from fairmend.progress import progress
from fairmend.repair.blind.fit import BlindLevels, storable
from fairmend.repair.costs import Cost
from fairmend.repair.frontier import PlansAt, plans_by_level
from fairmend.repair.plan import Plan
from fairmend.repair.plans import check_harm, make_plans
from fairmend.repair.price_of_blindness import LEVELS as PRICE_LEVELS
from fairmend.repair.price_of_blindness import PriceOfBlindness, price_of_blindness
from fairmend.repair.probabilities import RowProbabilities
from fairmend.repair.problem import RepairProblem
from fairmend.repair.settings import Rank, RepairSettings, UnknownGroup
from fairmend.report.findings import (
    SMALLEST_CELL,
    Explanation,
    FrontierPoint,
    Provenance,
    repair_fingerprint,
)
from fairmend.report.outcomes import frontier_points, make_report
from fairmend.report.persons import EditedPerson, edited_people
from fairmend.report.report import Report
from fairmend.tables import counted

if TYPE_CHECKING:
    from fairmend.report.html.cards import Card

_PASS_IDS = "Pass ids=..., or read positive_chance()."
LEVELS = tuple(float(level) for level in np.linspace(0, 1, 11))
"""Of the frontier: nothing of the gap closed, a tenth of it, ... all of it."""


class RepairedClassifier(doors.Shown, ClassifierMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A black-box classifier with the inputs of the worse-off groups repaired before it sees them.

    The model is never cloned or refitted. Only people of a group that is worse off than the
    reference group are ever edited; everybody else gets the model's own decision.

    Parameters
    ----------
    model
        Anything `fairmend.BlackBox` takes.

    All other parameters are settings of the repair: see `fairmend.repair.settings.RepairSettings`.

    Examples
    --------
    >>> from fairmend import datasets
    >>> X, y, s = datasets.toy_descent().sample(4_000, random_state=0)
    >>> vendor = datasets.toy_descent().decision
    >>> repaired = RepairedClassifier(vendor, "fpr", favorable_label=0, random_state=0)
    >>> repaired = repaired.fit(X, y, sensitive_features=s)
    >>> bool(abs(repaired.plan_.outlook.gap_after) < 0.001)
    True

    """

    # what metadata routing passes on: scikit-learn reads these class attributes
    __metadata_request__fit: ClassVar = {"sensitive_features": True, "ids": True}
    __metadata_request__predict: ClassVar = {"sensitive_features": True, "ids": True}
    __metadata_request__predict_proba: ClassVar = {"sensitive_features": True, "ids": True}
    __metadata_request__transform: ClassVar = {"sensitive_features": True, "ids": True}
    __metadata_request__score: ClassVar = {"sensitive_features": True, "ids": True}

    def __init__(
        self,
        model: Any = None,
        disparity: str | Disparity | Sequence[str | Disparity] = "sp",
        *,
        method: str | Callable[[RepairProblem], Plan] = "least_change",
        target: Hashable = None,
        reference: Hashable = "best",
        immutable: Sequence[Name] = (),
        one_way: Mapping[Name, str] | None = None,
        cost: Cost | Callable[[Any, Any], Any] | str | None = None,
        level: float = 1.0,
        blind: bool = False,
        words: bool = False,
        two_sided: bool = False,
        rank: Rank | Mapping[str, float] | None = None,
        key: bytes | None = None,
        favorable_label: Hashable = None,
        do_no_harm: bool = False,
        require_significant: bool = False,
        unknown_group: UnknownGroup = "error",
        groups_from: str | Callable[[Any], Any] | None = None,
        outcome_model: Any = "auto",
        pos_label: Hashable = None,
        method_options: Mapping[str, Any] | None = None,
        random_state: int | None = None,
    ) -> None:
        self.model = model
        self.disparity = disparity
        self.method = method
        self.target = target
        self.reference = reference
        self.immutable = immutable
        self.one_way = one_way
        self.cost = cost
        self.level = level
        self.blind = blind
        self.words = words
        self.two_sided = two_sided
        self.rank = rank
        self.key = key
        self.favorable_label = favorable_label
        self.do_no_harm = do_no_harm
        self.require_significant = require_significant
        self.unknown_group = unknown_group
        self.groups_from = groups_from
        self.outcome_model = outcome_model
        self.pos_label = pos_label
        self.method_options = method_options
        self.random_state = random_state

    # ---------------------------------------------------------------- fit

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any = None,
        sample_weight: Any = None,
        ids: Any = None,
    ) -> RepairedClassifier:
        """Learn the plans on audit data: inputs, outcomes and groups.

        X may be a whole table if the model names its inputs, or if `BlackBox(inputs=...)` does.
        Otherwise every column without another role is an input, and a column that looks like
        something else (an identifier, the outcome, the group, another answer of the vendor) is an
        error.

        A repair of sp compares only decisions: y may be None if outcomes are not known, of
        everybody or of those who were refused. ``ids`` are as in `fairmend.audit`: if people have
        several rows, tests and the plans' expected intervals are by person.
        """
        check_given("model", self.model, "Pass the classifier to repair.")
        settings = self.settings
        with progress("repairing"):
            settings.check()
            box = BlackBox.of(self.model)
            with one_thread():
                data, settle = self._tabulated(
                    box, X, y, sensitive_features, sample_weight=sample_weight, ids=ids
                )
                box = box.settled()
                one_decision = find_one_decision(data)
                audited = audit_data(data, reference=self.reference, one_decision=one_decision)
            levels = BlindLevels(data, settings, box) if settings.blind else None
            if levels is None:
                plans = make_plans(data, settings, box)
            else:
                plans = storable(levels.at(settings.level))
            if settle is not None:
                plans = settle(data, plans, settings)
            for wrong in faults(data, audited, *plans.values()):
                raise DataError(
                    f"method={settings.method_name!r}",
                    "must give figures that make sense",
                    f"got {wrong}",
                    "Look at the method if it is your own; otherwise please report this.",
                )
            for plan in plans.values():
                check_harm(plan, settings, data.labels)
            # nothing is kept of a repair that was refused
            self.key_: bytes | None = self._make_key()
            self._keep(box, data, audited, plans, levels)
            if isinstance(spelling := getattr(X, "spelling", None), Spelling):  # rows of files
                self.spelling_ = spelling
        return self

    def __getstate__(self) -> dict[str, Any]:
        """Without what is quickly worked out again."""
        return {**super().__getstate__(), "_blind_levels": None}

    def keep_plans(self, box: BlackBox, data: AuditData, plans: dict[Hashable, Plan]) -> None:
        """Be fitted with plans that were made elsewhere, on these people and for these settings."""
        self.key_ = self._make_key()
        self._keep(box, data, audit_data(data, reference=self.reference), plans)

    def _tabulated(
        self,
        box: BlackBox,
        X: Any,
        y: Any,
        sensitive_features: Any,
        *,
        sample_weight: Any,
        ids: Any = None,
    ) -> tuple[AuditData, Settle | None]:
        """The people of an audit, counted, if the settings are for such people.

        Where rows are elsewhere and a sample of them was read: what settles plans on all of them.
        """
        data, settle = tabulate_to_repair(
            box,
            X,
            y,
            sensitive_features=self._groups(X, sensitive_features),
            sample_weight=sample_weight,
            ids=ids,
            pos_label=self.pos_label,
            unlabelled=UNLABELLED,
        )
        check_outcomes_are_known(data, self.settings.disparities)
        self.settings.check_data(data)
        return data, settle

    def price_of_blindness(
        self,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any = None,
        sample_weight: Any = None,
        levels: Sequence[float] = PRICE_LEVELS,
    ) -> PriceOfBlindness | None:
        """The cost of closing the gap without the group and with it, at each of ``levels``.

        It changes nothing in this classifier: look at it before you choose ``blind``. All figures
        are on the people given; None if no group is worse off.
        """
        box = BlackBox.of(self.model)
        data, _ = self._tabulated(box, X, y, sensitive_features, sample_weight=sample_weight)
        return price_of_blindness(data, self.settings, box, levels)

    @property
    def settings(self) -> RepairSettings:
        """Everything but the model, as one value that can be checked, shown and stored."""
        return RepairSettings.from_estimator(self)

    def _keep(
        self,
        box: BlackBox,
        data: AuditData,
        audited: Audit,
        plans: dict[Hashable, Plan],
        blind_levels: BlindLevels | None = None,
    ) -> None:
        """What was learnt, or has been loaded."""
        assert data.table is not None
        self.box_, self.data_, self.audit_, self.plans_ = box, data, audited, plans
        self.classes_ = np.array([data.labels.negative, data.labels.positive])
        self.n_features_in_ = len(data.table.names)
        self.__dict__.pop("feature_names_in_", None)
        if not data.table.is_array:
            self.feature_names_in_ = np.array(data.table.names, object)
        self.__dict__.pop("counterfactual_", None)
        self._outcomes: dict[Hashable, RowProbabilities | None] = {}
        self._blind_levels = blind_levels
        self._fingerprint: list[str] = []
        self._warned: set[str] = set()
        self._loaded = False
        self._probe: Probe | None = None
        self.spelling_ = Spelling()
        """How the cells of the file of the repair were written; set by who reads the file."""

    def fit_transform(
        self,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any = None,
        sample_weight: Any = None,
        ids: Any = None,
    ) -> Any:
        """Learn the plans on audit data, and edit it."""
        self.fit(X, y, sensitive_features=sensitive_features, sample_weight=sample_weight, ids=ids)
        groups = None if self.blind else sensitive_features
        return self.transform(X, sensitive_features=groups, ids=ids)

    def _groups(self, X: Any, sensitive_features: Any) -> Any:
        if sensitive_features is not None:
            return sensitive_features
        where = "Pass one label per person, or say groups_from=... where to find them in X."
        check_given("sensitive_features", self.groups_from, where)
        return self.groups_from(X) if callable(self.groups_from) else self.groups_from

    def _make_key(self) -> bytes:
        if self.key is None and self.random_state is not None:
            return blake2b(str(int(self.random_state)).encode(), digest_size=32).digest()
        key = Drawer(random_key() if self.key is None else self.key).key  # checks it
        assert key is not None
        return key

    @property
    def plan_(self) -> Plan:
        """The plan, where there is one; of several, that of the group with the largest gap."""
        check_is_fitted(self, "plans_")
        if not self.plans_:
            raise AttributeError("no group is worse off than the reference: there is no plan")
        return max(self.plans_.values(), key=lambda plan: plan.widest_before)

    @cached_property
    def counterfactual_(self) -> Counterfactual:
        """What the inputs of `plan_`'s group would look like without the gap, by projection."""
        return counterfactual_data(
            self._audited_rows,
            disparity=self.disparity,
            target=self.plan_.target,
            baseline=self.plan_.baseline,
            outcome_model=self.outcome_model,
            random_state=self.settings.seed,
        )

    @property
    def _audited_rows(self) -> AuditData:
        """The audit with the groups of its rows, which the artifact of a blind repair lacks."""
        check(
            self.data_.populations[0].rows is not None,
            "this repair",
            "must be as fitted for that",
            "it is blind and was loaded: an artifact of it does not say who is of which group",
            "Fit it again, or leave explanation and frontier out.",
        )
        return self.data_

    @property
    def fingerprint_(self) -> str:
        """Identifies this repair; draws depend on it. Computed when first needed."""
        check_is_fitted(self, "plans_")
        if not self._fingerprint:
            self._fingerprint.append(repair_fingerprint(self.data_, self.plans_))
        return self._fingerprint[0]

    # ---------------------------------------------------------------- use

    def predict(self, X: Any, *, sensitive_features: Any = None, ids: Any = None) -> NDArray[Any]:
        """The repaired decisions, in the labels of y; the same person gets the same answer.

        ``ids`` are your own identifiers of people, or the name of their column in X. Without them a
        draw depends on the row's content: equal rows then share one draw, and a warning says once
        if that may change a group's rate by a point or more. With soft decisions the decision is
        drawn too, with another number of the same person.

        X may be elsewhere (see `fairmend.engines`), with groups and ids given as names of columns:
        for files and DuckDB the decisions come in the order of the rows, for lazy, Dask and Spark
        frames as a column ``decision`` of the same kind of frame.
        """
        if is_elsewhere(X):
            decisions: NDArray[Any] = engines().predict_elsewhere(self, X, sensitive_features, ids)
            return decisions
        applied = self._apply(X, sensitive_features, ids, edits=False)
        if ids is None:
            self._warn_of_shared_draws(applied, applied.variance_decided)
        labels: NDArray[Any] = self.classes_[applied.decision]
        return labels

    def predict_proba(
        self, X: Any, *, sensitive_features: Any = None, ids: Any = None
    ) -> FloatArray:
        """The model's probability at the edited row, averaged over the law; columns as classes_.

        For a model that gives no probabilities, the probability of each decision. It depends on the
        row only: ``ids`` are checked and change nothing.
        """
        applied = self._apply(X, sensitive_features, ids)
        positive = applied.expected_score if self.box_.output == "probability" else None
        positive = applied.chance if positive is None else positive
        return np.stack([1 - positive, positive], axis=1)

    def positive_chance(
        self, X: Any, *, sensitive_features: Any = None, ids: Any = None
    ) -> FloatArray:
        """The exact law of `predict`: each person's probability of a positive decision.

        It depends on the row only: ``ids`` are checked and change nothing.
        """
        return self._apply(X, sensitive_features, ids, edits=False).chance

    def transform(self, X: Any, *, sensitive_features: Any = None, ids: Any = None) -> Any:
        """X with edited inputs, in the container it came in, as input for the model.

        For files and DuckDB the edited inputs come as in fit; lazy, Dask and Spark frames keep
        their other columns.
        """
        if is_elsewhere(X):
            return engines().transform_elsewhere(self, X, sensitive_features, ids)
        applied = self._apply(X, sensitive_features, ids)
        if ids is None and applied.randomised.any():
            with suppress(ArtifactError):  # loaded without the model, which knows the decisions
                self._warn_of_shared_draws(applied, applied.variance_edited)
        return applied.edited.native

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """The names of the columns `transform` gives: those of the model's inputs."""
        check_is_fitted(self, "plans_")
        assert self.data_.table is not None
        return np.array(self.data_.table.names, object)

    def score(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        sensitive_features: Any = None,
        ids: Any = None,
    ) -> float:
        """Accuracy of the repaired decisions."""
        from sklearn.metrics import accuracy_score

        decided = self.predict(X, sensitive_features=sensitive_features, ids=ids)
        return float(accuracy_score(y, decided, sample_weight=sample_weight))

    @progress("reporting")
    def report(
        self,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any = None,
        sample_weight: Any = None,
        explanation: bool = True,
        frontier: bool = False,
        levels: Sequence[float] = LEVELS,
        command: str | None = None,
        holdout: bool | None = None,
        left_out: int = 0,
        smallest_cell: int = SMALLEST_CELL,
        ids: Any = None,
        apart: bool | None = None,
    ) -> Report:
        """What the repair does to people, before and after.

        ``explanation=False`` leaves out the explanation, which takes most of the time on large
        audits. ``frontier`` adds what closing less of the gap would do, at each of ``levels``, and
        for a blind repair what the same costs if the group may be read. ``command`` is what the
        report states as its origin; by default the calls that made it.

        ``holdout=True`` declares that these people were not used for fitting, False that they were,
        None that it is not known; fairmend cannot check this. ``apart`` is its former name.
        ``left_out`` is the number of people you could not pass, because their outcome or group is
        not known. Rows and values that fewer than ``smallest_cell`` people share are suppressed.

        ``ids`` (entries, or the name of a column of X) add a view of single people: for each edited
        person it shows what is edited and why. Such a report is as confidential as the data.
        """
        check_whole("smallest_cell", smallest_cell, 1, "1 shows everything.", of="people")
        memory = ids is None or not is_elsewhere(X)
        check(memory, "ids", "need people in memory", "got X elsewhere", "Leave ids out.")
        data = self._tabulate_new(X, y, sensitive_features, sample_weight)
        people, others = self._edited_people(X, sensitive_features, ids)
        explained, why_not = self._explained(int(smallest_cell)) if explanation else (None, "")
        plans_at = self._plans_at() if frontier else None
        report = make_report(
            data,
            self.plans_,
            self.data_,
            disparities=self.settings.disparities,
            outcomes={group: self._outcome(group) for group in self.plans_},
            scores_are_probabilities=self.box_.output == "probability",
            favours_positive=self.settings.favours_positive(self.data_.labels),
            smallest_cell=int(smallest_cell),
            reference=self.reference,
        )
        return replace(
            report,
            explanation=explained,
            people=tuple(people),
            people_not_shown=others,
            frontier=() if plans_at is None else tuple(self._frontier(data, levels, plans_at)),
            blindness=price_of_blindness(
                self._audited_rows, self.settings, self.box_, blind_at=plans_at
            )
            if plans_at is not None and self.blind
            else None,
            provenance=Provenance.of(
                self.data_,
                data,
                model=self.box_.model,
                settings=self.settings.changed(),
                command=command,
                holdout=apart if holdout is None else holdout,
                loaded=self._loaded,
                recorded=not self.box_.can_query,
                unexplained=why_not,
                left_out=left_out,
            ),
        )

    def _edited_people(
        self, X: Any, sensitive_features: Any, ids: Any
    ) -> tuple[list[EditedPerson], int]:
        """Single people who are edited, and how many more there are; none without ids."""
        if ids is None:
            return [], 0
        return edited_people(self._apply(X, None if self.blind else sensitive_features, ids))

    def _explained(self, smallest_cell: int) -> tuple[Explanation | None, str]:
        """What the gap rests on, or why that is not known.

        It may need P(Y=1 | x) where the repair does not, of a group that has one outcome only.
        """
        if not self.plans_:
            return None, ""
        try:
            return Explanation.of(self.counterfactual_, smallest_cell), ""
        except DataError as error:
            return None, f"{error.what} {error.must}; {error.got}"

    def frontier(
        self,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any = None,
        sample_weight: Any = None,
        levels: Sequence[float] = LEVELS,
    ) -> list[dict[str, Any]]:
        """Gap, accuracy, AUC, people edited and cost on new data as ``level`` grows."""
        data = self._tabulate_new(X, y, sensitive_features, sample_weight)
        names = ("level", "group", "gap", "accuracy", "auc", "edited", "gained", "lost", "cost")
        points = self._frontier(data, levels, self._plans_at())
        return [{name: getattr(point, name) for name in names} for point in points]

    def _plans_at(self) -> PlansAt:
        """The plans of any level; what they have in common is worked out once."""
        if self._blind_levels is not None:
            return self._blind_levels.at
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FairmendWarning)  # given once, in fit
            return plans_by_level(self.plans_, self._audited_rows, self.settings, self.box_)

    def _frontier(
        self, data: AuditData, levels: Sequence[float], plans_at: PlansAt
    ) -> list[FrontierPoint]:
        points: dict[float, list[FrontierPoint]] = {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FairmendWarning)
            # those who are edited at some level are edited at every higher one: found first
            for level in sorted({float(level) for level in levels}, reverse=True):
                points[level] = frontier_points(
                    data,
                    plans_at(level),
                    level,
                    disparity=self.settings.disparities[0],
                    scores_are_probabilities=self.box_.output == "probability",
                    favours_positive=self.settings.favours_positive(self.data_.labels),
                )
        return [point for level in levels for point in points[float(level)]]

    def save(
        self,
        path: str | PathLike[str],
        *,
        created: datetime | str | None = None,
        overwrite: bool = False,
    ) -> None:
        """Write the fitted repair as one file, which `fairmend.load` reads together with the model.

        Neither the model nor the secret for draws is inside: keep ``key_`` elsewhere. The same fit
        gives the same bytes, so the time is not taken from the clock: give ``created``, or none.
        """
        doors.save(self, path, created=created, overwrite=overwrite)

    def _outcome(self, group: Hashable) -> RowProbabilities | None:
        """The group's own P(Y=1 | x), fitted when first needed.

        None if it knows no new rows, or cannot be fitted: no repair rests on it here.
        """
        empirical = isinstance(self.outcome_model, str) and self.outcome_model == "empirical"
        if empirical or self.blind or not self.data_.outcome_known:
            return None
        if group not in self._outcomes:
            outcome = None
            with suppress(DataError):  # of a group with hardly any of one outcome
                outcome = RowProbabilities.fit(self.data_, group, self.settings, pooled=False)
            self._outcomes[group] = outcome
        return self._outcomes[group]

    def _tabulate_new(
        self, X: Any, y: Any, sensitive_features: Any, sample_weight: Any
    ) -> AuditData:
        """New people over the model's inputs; columns that fit did not know are left out."""
        check_is_fitted(self, "plans_")
        groups = self._groups(X, sensitive_features)
        if not is_elsewhere(X):
            frame = Frame.read(X)
            inputs = fitted_inputs(self.fitted_repair, frame)
            if self.box_.column is not None:
                inputs = frame.select([*inputs.names, self.box_.column])
            X = inputs.native
            if isinstance(groups, str):
                groups = [groups]
            if isinstance(groups, list | tuple) and are_names(groups, frame):
                groups = {name: frame.column(name, "sensitive_features") for name in groups}
            if isinstance(y, str):
                y = frame.column(y, "y")
            if isinstance(sample_weight, str):
                sample_weight = frame.column(sample_weight, "sample_weight")
        return tabulate(
            self.box_,
            X,
            y,
            sensitive_features=groups,
            sample_weight=sample_weight,
            pos_label=self.data_.labels.positive,
            template=self.data_.table,
            unlabelled=self.data_.labels,
        )

    # ---------------------------------------------------------------- reading new people

    @property
    def fitted_repair(self) -> FittedRepair:
        """What applying this repair needs: for files, engines and servers."""
        check_is_fitted(self, "plans_")
        return FittedRepair(
            self.plans_,
            self.box_,
            self.data_,
            self.key_,
            lambda: self.fingerprint_,
            self.unknown_group,
            self.blind,
        )

    def _apply(
        self, X: Any, sensitive_features: Any, ids: Any = None, *, edits: bool = True
    ) -> Applied:
        """New people and their laws; without ``edits`` as far as decisions go."""
        repair = self.fitted_repair
        groups = sensitive_features if self.blind else self._groups(X, sensitive_features)
        return apply_batch(repair, read_people(repair, X, groups, ids), edits=edits)

    def _warn_of_shared_draws(self, applied: Applied, variance: FloatArray) -> None:
        """Say once how far a rate may be from its law, where no ids are given."""
        if "shared draws" not in self._warned and variance.any():
            self._warn_once(applied.shared_draws(variance), "")

    def warn_of_shared_draws_as_audited(self) -> None:
        """The same for people who are not in memory, as if they were those of the audit."""
        if "shared draws" not in self._warned:
            self._warn_once(shared_draws_as_audited(self.fitted_repair), " For the people audited.")

    def _warn_once(self, shared: SharedDraws | None, of_whom: str) -> None:
        if shared is not None:
            self._warned.add("shared draws")
            warn(f"{shared}{of_whom} {_PASS_IDS}")

    def drawer(self, purpose: str) -> Drawer:
        """Draws for people, for ``"repair"`` or ``"decision"``; needs the key of the repair."""
        return self.fitted_repair.drawer(purpose)

    # ---------------------------------------------------------------- in a notebook

    def _card(self) -> Card:
        check_is_fitted(self, "plans_")
        require("jinja2", extra="report", why="a card")
        from fairmend.report.html.cards import of_plans

        settings = self.settings
        names = ", ".join(disparity.name for disparity in settings.disparities)
        rule = "one rule for everybody" if self.blind else settings.method_name
        over = f"Repaired classifier · {names} by {rule} · fitted on {counted(self.data_.n)}"
        return of_plans(
            list(self.plans_.values()),
            over,
            "print(plan_) has a plan in sentences, report() what it does to new people, plot() "
            "this chart.",
        )

    def _repr_html_(self) -> str:
        """What the repair does; before it is fitted scikit-learn's picture of the settings."""
        fitted = hasattr(self, "plans_")
        html: str = super()._repr_html_() if fitted else BaseEstimator._repr_html_inner(self)
        return html

    def _repr_mimebundle_(self, **wanted: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**wanted)
        return bundle | ({"text/html": self._repr_html_()} if "text/html" in bundle else {})

    def __sklearn_clone__(self) -> RepairedClassifier:
        """An unfitted copy of the same settings; the model is the vendor's, and stays itself."""
        settings = self.get_params(deep=False)
        model = settings.pop("model")
        copies = {name: clone(value, safe=False) for name, value in settings.items()}
        unfitted = type(self)(model, **copies)
        for name in ("_metadata_request", "_sklearn_output_config"):
            if hasattr(self, name):
                setattr(unfitted, name, deepcopy(getattr(self, name)))
        return unfitted

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags


if RepairedClassifier.__doc__ is not None:  # python -OO leaves docstrings out
    RepairedClassifier.__doc__ = cleandoc(RepairedClassifier.__doc__).replace(
        "\nAll other parameters are settings of the repair: see "
        "`fairmend.repair.settings.RepairSettings`.",
        RepairSettings.parameters(),
    )
