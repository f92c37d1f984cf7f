"""The repaired classifier: thin glue between a frozen model, its plans and people's draws."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from fairmend.audit import audit_data
from fairmend.columns import FloatArray, Frame, IntArray
from fairmend.costs import Cost
from fairmend.counterfactual import Counterfactual, counterfactual_data
from fairmend.counterfactual import _read_disparities as read_disparities
from fairmend.data import AuditData, read_membership, tabulate, with_predictions
from fairmend.disparity import Disparity
from fairmend.draw import Drawer, content_ids, random_key
from fairmend.errors import DataError, FairmendWarning, RepairRefused, listed, nearest
from fairmend.model import Answers, BlackBox
from fairmend.order import order_preserving
from fairmend.plan import Plan, Route
from fairmend.repair import least_change
from fairmend.report import Report, make_report
from fairmend.rows import replaced

__all__ = ["RepairedClassifier"]

Method = Literal["least_change", "order", "transport", "paper"]
UnknownGroup = Literal["error", "keep"]

SIGNIFICANCE = 0.0455
"""Two standard errors: a gap with a larger p-value may be chance, and its sign wrong."""


class RepairedClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A black-box classifier with the inputs of the worse-off groups mended before it sees them.

    The model is never cloned or refitted. Only people of a group that fares worse than the
    reference are ever edited; everybody else gets the model's own answer.

    Parameters
    ----------
    model
        Anything `fairmend.BlackBox` takes.
    disparity
        What to close: a name (sp, fnr, fpr, fdr, da), a `Disparity`, or several to close together.
    method
        ``"least_change"`` (default), ``"order"``, ``"transport"`` or ``"paper"``.
    target
        The group to mend; by default every group that fares worse than the reference.
    reference
        The group to compare with; by default the best-off. ``"rest"``: all others together.
    immutable, one_way, cost
        Features that may not change; features that may only rise or fall (``{"age": "up"}``); and
        everything else about costs, a `Cost`.
    level
        How much of the gap to close, from 0 to 1.
    rank
        Who is edited first: by score, outcome or cost (see `least_change`).
    key
        The secret for people's draws, 32 bytes; by default made from ``random_state``, or at
        random in ``fit``.
    favorable_label
        The decision people want; by default the positive label of y.
    do_no_harm
        Refuse a repair that takes favourable decisions away from people of its target group.
    require_significant
        Refuse to repair a gap that may be chance, instead of warning.
    unknown_group
        What to do with people of a group that was not audited: ``"error"`` or ``"keep"`` the
        model's answer. A missing group is an opt-out and always keeps it.
    groups_from
        Where to find the group when ``sensitive_features`` is not passed: the name of a column of
        X, or a function of X. For pipelines that pass X alone.
    outcome_model
        How to estimate P(Y=1 | x), as in `fairmend.counterfactual`.
    pos_label
        Which value of y counts as positive, where that is not plain.
    method_options
        Further settings of the method, e.g. ``{"calibrate": "counterfactual"}`` for transport.
    random_state
        Seeds folds and, without ``key``, the draws.

    >>> from fairmend import datasets
    >>> X, y, s = datasets.toy_descent().sample(4_000, random_state=0)
    >>> vendor = datasets.toy_descent().decision
    >>> mended = RepairedClassifier(vendor, "fpr", favorable_label=0, random_state=0)
    >>> mended = mended.fit(X, y, sensitive_features=s)
    >>> bool(abs(mended.plan_.outlook.gap_after) < 0.001)
    True

    """

    # what metadata routing passes on: scikit-learn reads these class attributes
    __metadata_request__fit: ClassVar = {"sensitive_features": True}
    __metadata_request__predict: ClassVar = {"sensitive_features": True, "ids": True}
    __metadata_request__predict_proba: ClassVar = {"sensitive_features": True}
    __metadata_request__transform: ClassVar = {"sensitive_features": True, "ids": True}

    def __init__(
        self,
        model: Any = None,
        disparity: str | Disparity | Sequence[str | Disparity] = "sp",
        *,
        method: Method = "least_change",
        target: Hashable = None,
        reference: Hashable = "best",
        immutable: Sequence[str] = (),
        one_way: Mapping[str, str] | None = None,
        cost: Cost | Callable[[Any, Any], Any] | str | None = None,
        level: float = 1.0,
        rank: str | None = None,
        key: bytes | None = None,
        favorable_label: Hashable = None,
        do_no_harm: bool = False,
        require_significant: bool = False,
        unknown_group: UnknownGroup = "error",
        groups_from: str | Callable[[Any], Any] | None = None,
        outcome_model: Any = "logistic",
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
        self, X: Any, y: Any, *, sensitive_features: Any = None, sample_weight: Any = None
    ) -> RepairedClassifier:
        """Learn the plans on audit data: inputs, what really happened, and groups."""
        self._check_settings()
        box = BlackBox.of(self.model)
        data = tabulate(
            box,
            X,
            y,
            sensitive_features=self._groups(X, sensitive_features),
            sample_weight=sample_weight,
            pos_label=self.pos_label,
        )
        if data.table is None:
            raise DataError("X", "must hold the model's inputs", "got predictions alone",
                            "A repair edits inputs: pass them.")  # fmt: skip
        self.box_ = box
        self.data_ = data
        self.feature_names_ = data.table.names
        self.n_features_in_ = len(self.feature_names_)
        self.classes_ = np.array([data.labels.negative, data.labels.positive])
        self.audit_ = audit_data(data, reference=self.reference)
        self.plans_ = self._make_plans(data, self.level)
        self.key_ = self._make_key()
        self.__dict__.pop("counterfactual_", None)
        for plan in self.plans_.values():
            self._judge(plan)
        return self

    def _check_settings(self) -> None:
        if self.model is None:
            raise DataError("model", "must be given", "got None", "Pass the classifier to mend.")
        if self.method not in _METHODS:
            raise DataError(
                "method",
                f"must be one of {', '.join(_METHODS)}",
                f"got {self.method!r}",
                nearest(self.method, _METHODS),
            )
        if self.unknown_group not in ("error", "keep"):
            raise DataError(
                "unknown_group",
                "must be 'error' or 'keep'",
                f"got {self.unknown_group!r}",
                "'keep' gives people of unaudited groups the model's own answer.",
            )

    def _groups(self, X: Any, sensitive_features: Any) -> Any:
        if sensitive_features is not None:
            return sensitive_features
        if self.groups_from is None:
            raise DataError(
                "sensitive_features",
                "must be given",
                "got None",
                "Pass one label a person, or say groups_from=... where to find them in X.",
            )
        return self.groups_from(X) if callable(self.groups_from) else self.groups_from

    def _make_key(self) -> bytes:
        if self.key is not None:
            return Drawer(self.key).key  # type: ignore[return-value]  # checks it
        if self.random_state is None:
            return random_key()
        return blake2b(str(self.random_state).encode(), digest_size=32).digest()

    def _make_plans(self, data: AuditData, level: float) -> dict[Hashable, Plan]:
        disparities = read_disparities(self.disparity)
        gaps = audit_data(data, metrics=disparities[:1], reference=self.reference).gaps
        if self.target is not None:
            data.place(self.target, "target")
            gaps = tuple(gap for gap in gaps if gap.target == self.target) or gaps[:1]
        plans = {}
        for gap in gaps:
            worse_off = gap.judged and gap.gap > 0
            if self.target is None and not worse_off:
                continue
            if self.require_significant and worse_off and not gap.p_value < SIGNIFICANCE:
                raise RepairRefused(
                    f"the gap in {gap.metric} of {gap.target}",
                    "must be more than chance to be mended",
                    f"got p = {gap.p_value:.3f}",
                    "Audit more people, or leave require_significant out.",
                )
            target = gap.target if self.target is None else self.target
            baseline = gap.baseline if gap.baseline != target else None
            plans[target] = self._make_plan(data, target, baseline, level)
        return plans

    def _make_plan(
        self, data: AuditData, target: Hashable, baseline: Hashable, level: float
    ) -> Plan:
        return _METHODS[self.method](
            data,
            disparity=self.disparity,
            box=self.box_ if self.box_.can_be_asked else None,
            target=target,
            baseline=baseline,
            level=level,
            cost=self._cost(),
            rank=self.rank,
            outcome_model=self.outcome_model,
            random_state=self.random_state or 0,
            **dict(self.method_options or {}),
        )

    def _cost(self) -> Cost:
        given = self.cost if isinstance(self.cost, Cost) else Cost(kind=self.cost or "l1")  # type: ignore[arg-type]
        immutable = (self.immutable,) if isinstance(self.immutable, str) else self.immutable
        return replace(
            given,
            immutable=tuple(dict.fromkeys((*given.immutable, *immutable))),
            one_way={**given.one_way, **(self.one_way or {})},  # type: ignore[dict-item]
        )

    @property
    def _favours_positive(self) -> bool:
        label = self.favorable_label
        if label is None:
            return True
        if label not in (self.data_.labels.negative, self.data_.labels.positive):
            raise DataError(
                "favorable_label",
                "must be one of the values of y",
                f"got {label!r}",
                nearest(label, (self.data_.labels.negative, self.data_.labels.positive)),
            )
        return bool(label == self.data_.labels.positive)

    def _judge(self, plan: Plan) -> None:
        """Say loudly, or refuse, when people lose the decision they want."""
        o = plan.outlook
        loses = o.to_negative if self._favours_positive else o.to_positive
        if loses <= 0:
            return
        message = (
            f"This repair closes the gap in {plan.metric} by taking the favourable decision from "
            f"{100 * loses:.1f} % of {plan.target}."
        )
        if self.do_no_harm:
            raise RepairRefused(
                f"the repair of {plan.metric} for {plan.target}",
                "must not take favourable decisions away",
                f"it would take them from {100 * loses:.1f} % of the group",
                "Choose another disparity, or leave do_no_harm out.",
            )
        warnings.warn(message, FairmendWarning, stacklevel=3)

    @property
    def plan_(self) -> Plan:
        """The plan, where there is one; of several, that of the group with the largest gap."""
        check_is_fitted(self, "plans_")
        if not self.plans_:
            raise AttributeError("no group fares worse than the reference: there is no plan")
        return max(self.plans_.values(), key=lambda plan: plan.outlook.gap_before)

    @cached_property
    def counterfactual_(self) -> Counterfactual:
        """What the inputs of `plan_`'s group would look like without the gap, by projection."""
        return counterfactual_data(
            self.data_,
            disparity=self.disparity,
            target=self.plan_.target,
            baseline=self.plan_.baseline,
            outcome_model=self.outcome_model,
            random_state=self.random_state or 0,
        )

    # ---------------------------------------------------------------- use

    def predict(self, X: Any, *, sensitive_features: Any = None, ids: Any = None) -> NDArray[Any]:
        """The repaired decisions, in the labels of y; the same person gets the same answer.

        ``ids`` are the operator's own identifiers of people. Without them a draw is tied to the
        row's content: equal rows then share one draw.
        """
        people = self._read(X, sensitive_features)
        decision = people.drawn(people.answers.decision, _decisions, self._uniform(people, ids))
        labels: NDArray[Any] = self.classes_[(decision > 0.5).astype(np.int64)]
        return labels

    def predict_proba(self, X: Any, *, sensitive_features: Any = None) -> FloatArray:
        """The model's probability at the edited row, averaged over the law; columns as classes_.

        For a model that gives no probabilities, the chance of each decision itself.
        """
        people = self._read(X, sensitive_features)
        if people.answers.score is None or self.box_.output != "probability":
            positive = self._positive_chance(people)
        else:
            positive = people.expected(people.answers.score, _scores)
        return np.stack([1 - positive, positive], axis=1)

    def positive_chance(self, X: Any, *, sensitive_features: Any = None) -> FloatArray:
        """The exact law of `predict`: each person's chance of a positive decision."""
        return self._positive_chance(self._read(X, sensitive_features))

    @staticmethod
    def _positive_chance(people: _People) -> FloatArray:
        return people.expected(people.answers.decision, _decisions)

    def transform(self, X: Any, *, sensitive_features: Any = None, ids: Any = None) -> Any:
        """X with the inputs edited, in the container it came in; what the model should be fed."""
        people = self._read(X, sensitive_features)
        uniform = self._uniform(people, ids)
        edited = people.inputs
        for plan_route in people.routes:
            picked = plan_route.pick(people, uniform)
            moved = np.flatnonzero(picked >= 0)
            if len(moved) > 0:
                assert plan_route.route.table is not None
                there = plan_route.route.table.take(picked[moved])
                edited = replaced(edited, plan_route.members[moved], there)
        return edited.native

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

        said = self.predict(X, sensitive_features=sensitive_features, ids=ids)
        return float(accuracy_score(y, said, sample_weight=sample_weight))

    def report(self, X: Any, y: Any, *, sensitive_features: Any = None) -> Report:
        """What the repair does on data it was not fitted on, before and after."""
        check_is_fitted(self, "plans_")
        data = self._tabulate_new(X, y, sensitive_features)
        return make_report(data, self.plans_, self.data_, self.box_.output == "probability")

    def frontier(
        self,
        X: Any,
        y: Any,
        *,
        sensitive_features: Any = None,
        levels: Sequence[float] = tuple(np.linspace(0, 1, 11)),
    ) -> list[dict[str, Any]]:
        """Gap, accuracy, AUC, people edited and cost on new data as ``level`` grows."""
        check_is_fitted(self, "plans_")
        data = self._tabulate_new(X, y, sensitive_features)
        points = []
        for level in levels:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FairmendWarning)  # said once, in fit
                plans = self._make_plans(self.data_, float(level))
            report = make_report(data, plans, self.data_, self.box_.output == "probability")
            points += [{"level": float(level), **point} for point in report.points()]
        return points

    def _tabulate_new(self, X: Any, y: Any, sensitive_features: Any) -> AuditData:
        return tabulate(
            self.box_,
            X,
            y,
            sensitive_features=self._groups(X, sensitive_features),
            pos_label=self.data_.labels.positive,
        )

    # ---------------------------------------------------------------- reading new people

    def _read(self, X: Any, sensitive_features: Any) -> _People:
        check_is_fitted(self, "plans_")
        frame = Frame.read(X)
        inputs = self._inputs(frame)
        member, opted_out = read_membership(
            self._groups(X, sensitive_features), frame, self.data_.groups
        )
        strangers = (member < 0) & ~opted_out
        if strangers.any() and self.unknown_group == "error":
            raise DataError(
                "sensitive_features",
                f"must be among the audited groups, {listed(self.data_.groups)}, or missing",
                f"got another label in row {int(np.argmax(strangers)):,}",
                "Audit that group too, or say unknown_group='keep'.",
            )
        recorded = self.box_.recorded(frame, len(frame))
        if recorded is None:
            alike = inputs.distinct()
            rows = inputs.take(alike.first)
            answers = self.box_.ask(rows, self.data_.labels, trusted=True)
        else:
            alike = with_predictions(inputs, recorded)
            rows = inputs.take(alike.first)
            answers = self.box_.interpret(recorded, self.data_.labels)
            answers = answers.take(recorded.codes[alike.first])
        routes = []
        for group, plan in self.plans_.items():
            members = np.flatnonzero(member == self.data_.place(group))
            if len(members) > 0:
                used, place = np.unique(alike.inverse[members], return_inverse=True)
                route = plan.route(rows.take(used), answers.take(used))
                routes.append(_PlanRoute(route, members, place, used))
        return _People(inputs, alike.inverse, answers, tuple(routes))

    def _inputs(self, frame: Frame) -> Frame:
        """The model's inputs by name, whatever order they come in."""
        known = self.data_.table
        assert known is not None
        if frame.is_array != known.is_array or type(frame.native) is not type(known.native):
            raise DataError(
                "X",
                f"must come as in fit, in a {type(known.native).__name__}",
                f"got a {type(frame.native).__name__}",
                "Convert it first.",
            )
        missing = [name for name in known.names if name not in frame.names]
        if missing:
            raise DataError(
                "X",
                f"must have the {len(known.names)} columns of fit",
                f"{listed(missing)} is missing" if len(missing) == 1
                else f"{listed(missing)} are missing",
                "Pass the model's inputs under the same names.",
            )  # fmt: skip
        extra = [name for name in frame.names if name not in known.names]
        if extra and frame.is_array:
            raise DataError(
                "X",
                f"must have {len(known.names)} columns as in fit",
                f"got {len(frame.names)}",
                "Pass the model's inputs alone.",
            )
        return frame.select(known.names)

    def _uniform(self, people: _People, ids: Any) -> FloatArray:
        """One number a person where anything is left to chance; zeros where nothing is."""
        n = len(people.row)
        if ids is not None and len(ids) != n:
            raise DataError(
                "ids",
                "must have one entry a row of X",
                f"got {len(ids):,} for {n:,} rows",
                "Check that both come from the same filter.",
            )
        if not any(one.route.random.any() for one in people.routes):
            return np.zeros(n)
        who = content_ids(people.inputs) if ids is None else ids
        return Drawer(self.key_, "repair").uniform(who)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags


# -------------------------------------------------------------------- people and their routes


def _decisions(route: Route) -> FloatArray:
    return route.decision


def _scores(route: Route) -> FloatArray:
    assert route.score is not None or route.table is None
    return np.empty(0) if route.score is None else route.score


@dataclass(frozen=True, eq=False)
class _PlanRoute:
    """One plan's law for the people it is about."""

    route: Route
    members: IntArray
    """Their places among all people."""
    place: IntArray
    """Each member's row of the route."""
    used: IntArray
    """The route's rows among all distinct rows."""

    def pick(self, people: _People, uniform: FloatArray) -> IntArray:
        return self.route.pick(self.place, uniform[self.members])


@dataclass(frozen=True, eq=False)
class _People:
    """People to be decided about: their inputs, the model's answers, and what the plans say."""

    inputs: Frame
    row: IntArray
    """Each person's distinct row."""
    answers: Answers
    """The model's, per distinct row."""
    routes: tuple[_PlanRoute, ...]

    def drawn(self, own: FloatArray, there: _AtDestination, uniform: FloatArray) -> FloatArray:
        """Something each person has, or takes over from the destination they draw."""
        value = own[self.row]
        for one in self.routes:
            picked = one.pick(self, uniform)
            moved = picked >= 0
            value[one.members[moved]] = there(one.route)[picked[moved]]
        return value

    def expected(self, own: FloatArray, there: _AtDestination) -> FloatArray:
        """The same, averaged over the law."""
        value = own[self.row]
        for one in self.routes:
            value[one.members] = one.route.expected(own[one.used], there(one.route))[one.place]
        return value


_AtDestination = Callable[[Route], FloatArray]

_METHODS: dict[str, Callable[..., Plan]] = {
    "least_change": least_change,
    "order": order_preserving,
}
