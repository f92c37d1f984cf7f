"""The settings of a repair: each name, type, default and meaning is written here, once.

`RepairedClassifier` takes them as arguments and checks them in `fit`. The command line reads its
defaults and help from here, an artifact stores them, and `load` checks them as `fit` does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping, Sequence, Set
from dataclasses import dataclass, fields, replace
from functools import cached_property
from inspect import cleandoc
from typing import Any, Literal, get_args

from fairmend.data.columns import Name, scalar
from fairmend.data.groups import RESERVED
from fairmend.data.outcomes import Labels
from fairmend.errors import check, check_choice, check_names, check_whole
from fairmend.explain.counterfactual import check_level
from fairmend.explain.outcomes import check_estimator
from fairmend.measure.disparity import Disparity, read_disparities
from fairmend.measure.population import AuditData
from fairmend.repair.costs import Cost, check_rules
from fairmend.repair.methods import Method, method_of
from fairmend.repair.trade_off import TradeOff

Rank = Literal["score", "outcome", "cost", "worth", "flips"]
UnknownGroup = Literal["error", "keep"]
SECRET = "key"
"""The setting that is never stored or shown."""


@dataclass(frozen=True, kw_only=True, eq=False)
class RepairSettings:
    """How to repair a model; everything that `RepairedClassifier` takes beside the model.

    Parameters
    ----------
    disparity
        The gap to close: the name of a metric, a `Disparity`, or several to close together. The
        first one decides which groups are worse off.
    method
        How to find the edits: the name of a repair method, or a function from a `RepairProblem` to
        a `Plan`.
    target
        The group to repair; by default every group that is worse off than the reference.
    reference
        The group to compare with: its label, "best" for the best-off group, or "rest" for all other
        groups together.
    immutable
        Features that must not change.
    one_way
        Features that may only rise or fall, for example {"age": "up"}.
    cost
        What edits cost: "l1", "l2", "squared_l2", a function of two tables, or a `Cost` with
        weights and further rules.
    level
        How much of the gap to close, from 0 to 1.
    blind
        Repair without the group: one rule for everybody, which reads the inputs and the answer of
        the model and never a group. Equal inputs get equal decisions.
    words
        With blind: make the rule a short list of conditions on inputs and score that people can
        read, at most 8 rules of at most 4 conditions. The plan says what that costs.
    two_sided
        Repair the reference group too: all groups come to one common rate, at which decisions are
        worth most, wrong ones weighed as the model's own decisions imply. This takes favourable
        decisions from people whom the gap did not harm.
    rank
        Who is edited first: "score" (nearest to the threshold of the model; the default where it
        gives scores), "outcome" (by P(Y=1 | x); the default for a model of labels only) or "cost"
        (most effect for the cost of the edit). With blind, what a flip costs: "worth" (wrong
        decisions, weighed as the model's own decisions imply; the default), the costs of both
        errors such as {"false_positive": 1, "false_negative": 5}, "flips" (people) or "cost".
    key
        The secret for the random draws, 32 bytes. By default it is made from random_state, or at
        random in fit.
    favorable_label
        The decision that people want; by default the positive label of y.
    do_no_harm
        Refuse a repair that takes favourable decisions away from people of its target group. With
        blind, find a rule that takes them from nobody.
    require_significant
        Refuse to repair a gap that is not significant, instead of warning.
    unknown_group
        What to do with people of a group that was not audited: "error", or "keep" the decision of
        the model. People whose group is missing have opted out and always keep it.
    groups_from
        Where to find the groups if sensitive_features is not passed: the name of a column of X, or
        a function of X. For pipelines that pass X alone.
    outcome_model
        How to estimate P(Y=1 | x), as in `fairmend.counterfactual`. With "auto" a repair chooses
        among models that can be stored as numbers.
    pos_label
        The value of y that counts as positive, where that is not obvious.
    method_options
        Further options of the method, for example {"ties": "order"} for transport.
    random_state
        Seeds cross-fitting and, without a key, the random draws.

    Examples
    --------
    >>> RepairSettings(disparity="fnr", level=0.5).changed()
    {'disparity': 'fnr', 'level': 0.5}
    >>> RepairSettings.help("level")
    'How much of the gap to close, from 0 to 1.'

    """

    disparity: str | Disparity | Sequence[str | Disparity] = "sp"
    method: str | Callable[..., Any] = "least_change"
    target: Hashable = None
    reference: Hashable = "best"
    immutable: Sequence[Name] = ()
    one_way: Mapping[Name, str] | None = None
    cost: Cost | Callable[[Any, Any], Any] | str | None = None
    level: float = 1.0
    blind: bool = False
    words: bool = False
    two_sided: bool = False
    rank: Rank | Mapping[str, float] | None = None
    key: bytes | None = None
    favorable_label: Hashable = None
    do_no_harm: bool = False
    require_significant: bool = False
    unknown_group: UnknownGroup = "error"
    groups_from: str | Callable[[Any], Any] | None = None
    outcome_model: Any = "auto"
    pos_label: Hashable = None
    method_options: Mapping[str, Any] | None = None
    random_state: int | None = None

    # ---------------------------------------------------------------- the list itself

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """All names, in the order of the constructor."""
        return tuple(one.name for one in fields(cls))

    @classmethod
    def default(cls, name: str) -> Any:
        """The default of one setting."""
        return cls.__dataclass_fields__[name].default

    @classmethod
    def parameters(cls) -> str:
        """The entries of the docstring above, for that of the estimator."""
        return cleandoc(cls.__doc__ or "----------\n").split("----------\n")[1].split("\n\n")[0]

    @classmethod
    def help(cls, name: str) -> str:
        """The meaning of one setting, in a sentence or two: its entry in the docstring above."""
        entries = re.findall(r"^(\w+)\n((?: {4}.+\n)+)", cls.parameters() + "\n", re.MULTILINE)
        return " ".join(dict(entries).get(name, "").split())

    @classmethod
    def from_estimator(cls, estimator: Any) -> RepairSettings:
        """The settings that an estimator stores as attributes."""
        return cls(**{name: getattr(estimator, name) for name in cls.names()})

    # ---------------------------------------------------------------- to store and to show

    def to_dict(self) -> dict[str, Any]:
        """All settings but the secret key, as plain values to compare, show and store."""
        values = {name: scalar(getattr(self, name)) for name in self.names() if name != SECRET}
        return {**values, "immutable": _as_names(self.immutable)}

    def changed(self) -> dict[str, Any]:
        """The settings of `to_dict` that are not the default."""
        return {
            name: value for name, value in self.to_dict().items() if value != self.default(name)
        }

    # ---------------------------------------------------------------- what they come to

    @cached_property
    def disparities(self) -> tuple[Disparity, ...]:
        """The gaps to close."""
        return read_disparities(self.disparity)

    @property
    def chosen_method(self) -> Method:
        return method_of(self.method)

    @property
    def method_name(self) -> str:
        return str(getattr(self.method, "__name__", self.method))

    @property
    def seed(self) -> int:
        return int(self.random_state or 0)

    @cached_property
    def edit_cost(self) -> Cost:
        """``cost``, ``immutable`` and ``one_way`` as one `Cost`."""
        given = self.cost if isinstance(self.cost, Cost) else Cost(kind=self.cost or "l1")  # type: ignore[arg-type]
        for what, names in (("immutable", self.immutable), ("one_way", self.one_way)):
            check_names(what, names)
        return replace(
            given,
            immutable=tuple(dict.fromkeys((*given.immutable, *_as_names(self.immutable)))),
            one_way={**given.one_way, **(self.one_way or {})},  # type: ignore[dict-item]
        )

    def favours_positive(self, labels: Labels) -> bool:
        """Whether the positive decision is the one that people want."""
        return self.favorable_label is None or bool(self.favorable_label == labels.positive)

    def protected(self, labels: Labels) -> float | None:
        """The decision nobody may lose, 0 or 1; None without ``do_no_harm``."""
        return float(self.favours_positive(labels)) if self.do_no_harm else None

    # ---------------------------------------------------------------- checks

    def check(self) -> None:
        """Refuse what is wrong whatever the data is."""
        method = self.chosen_method
        method.check_options(self.method_options or {})
        self._check_use(method)
        check_estimator(self.outcome_model)
        check_level(self.level)
        keep = "'keep' gives people of unaudited groups the model's own answer."
        check(
            self.blind or not self.words,
            "blind",
            "must be True for a rule in words",
            "got False",
            "Add blind=True: only one rule for everybody can be put in words.",
        )
        check_choice("unknown_group", self.unknown_group, get_args(UnknownGroup), keep)
        self._check_rank()
        if self.random_state is not None:
            check_whole("random_state", self.random_state, 0, "It seeds folds and random draws.")

    def _check_rank(self) -> None:
        if isinstance(self.rank, Mapping):
            TradeOff.of_costs(self.rank)
        elif self.rank is not None:
            check_choice("rank", self.rank, get_args(Rank), "It says who is edited first.")
        blind_alone = isinstance(self.rank, Mapping) or self.rank in ("worth", "flips")
        of_groups = not isinstance(self.rank, Mapping) and self.rank in ("score", "outcome")
        wrong = of_groups if self.blind else blind_alone
        check(
            not wrong,
            "rank",
            "must be 'worth', 'flips', 'cost' or the costs of both errors with blind"
            if self.blind
            else "must be 'score', 'outcome' or 'cost' without blind",
            f"got {self.rank!r}",
            "Leave it out for the usual.",
        )

    def _check_use(self, method: Method) -> None:
        """Refuse settings that the method, ``blind`` or ``two_sided`` cannot follow."""
        for name, (value, default) in {
            "level": (self.level, self.default("level")),
            "immutable, one_way and cost": (self.edit_cost, Cost()),
            "rank": (self.rank, self.default("rank")),
        }.items():
            check(
                value == default or name.split()[-1] in method.uses,
                f"method={method.name!r}",
                f"must do without {name}",
                f"got {value!r}",
                "Leave it out, or use method='least_change'.",
            )
        not_with = {
            "two_sided": ("method", "target", "method_options"),
            "blind": ("method", "two_sided", "method_options"),
        }
        for setting, names in not_with.items():
            for name in names if getattr(self, setting) else ():
                value, default = getattr(self, name), self.default(name)
                check(
                    value in (default, {}),
                    name,
                    f"must be {default!r} for {setting}",
                    f"got {value!r}",
                    f"Leave it out, or leave {setting} out.",
                )

        check(
            not self.blind or self.outcome_model != "empirical",
            "outcome_model",
            "must be a model that speaks of new rows for blind",
            "got 'empirical'",
            "Observed shares would also say the group of whoever is alone on a row. Use 'auto'.",
        )

    def check_data(self, data: AuditData) -> None:
        """Refuse groups, labels and features that the audit data does not have."""
        for what, group in (("target", self.target), ("reference", self.reference)):
            if group is not None and group not in RESERVED:
                data.place(group, what)
        if self.favorable_label is not None:
            labels = (data.labels.negative, data.labels.positive)
            must = "must be one of the values of y"
            check_choice("favorable_label", self.favorable_label, labels, must=must)
        check(
            data.table is not None,
            "X",
            "must hold the model's inputs",
            "got predictions alone",
            "A repair edits inputs: pass them.",
        )
        assert data.table is not None
        check_rules(self.edit_cost, data.table.names)


def _as_names(names: Any) -> Any:
    """Names as a list or tuple, where they come in some other container."""
    if isinstance(names, list | tuple):
        return names
    return tuple(map(scalar, sorted(names, key=str) if isinstance(names, Set) else names))
