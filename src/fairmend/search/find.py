"""Was there a less discriminatory alternative? A search that need not retrain the model."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from fairmend.data.columns import FloatArray, Frame, as_numbers
from fairmend.data.given import as_column
from fairmend.errors import DataError, check, check_between, nearest, warn
from fairmend.measure.audit import audit_data
from fairmend.measure.disparity import Disparity, title_of
from fairmend.measure.performance import (
    AreaUnderCurve,
    BalancedAccuracy,
    OwnMeasure,
    Performance,
    Profit,
    Worth,
)
from fairmend.measure.significance import holm
from fairmend.model.blackbox import BlackBox
from fairmend.progress import progress
from fairmend.repair.blind.gaps import as_rate
from fairmend.repair.blind.rule import BlindPlan
from fairmend.repair.probabilities import RowProbabilities, pooled_tally
from fairmend.repair.settings import RepairSettings
from fairmend.repair.trade_off import TradeOff
from fairmend.report.findings import Provenance, fingerprint
from fairmend.search.bound import find_bound
from fairmend.search.candidates import Candidate, all_candidates
from fairmend.search.choice import named_in_order, tested_in_order
from fairmend.search.judge import RISK, Figures, Judge, any_judged, pairs_to_judge
from fairmend.search.people import Given, Part, split
from fairmend.search.result import Alternative, Alternatives

__all__ = ["alternatives"]

AMOUNT = "measure"
"""What a column of amounts is called beside the inputs."""
MEASURES = ("worth", "accuracy", "balanced_accuracy", "auc")
_spent: set[str] = set()
"""The people who have judged a search of this process."""


def alternatives(
    model: Any,
    X: Any,
    y: Any,
    *,
    sensitive_features: Any,
    disparity: str | Disparity | Sequence[str | Disparity] = "sp",
    measure: str | Mapping[str, float] | Callable[[Any, Any], float] | Any = "worth",
    margin: float = 0.005,
    models: Mapping[str, Any] | None = None,
    immutable: Sequence[Any] = (),
    holdout: Any = None,
    sample_weight: Any = None,
    ids: Any = None,
    reference: Hashable = "best",
    favorable_label: Hashable = None,
    pos_label: Hashable = None,
    random_state: int | None = None,
) -> Alternatives:
    """Search for alternatives of equivalent performance and a smaller gap, without retraining.

    Candidates are made and chosen on one part of the people and judged once on the other, so that
    the choice does not bias the figures of the chosen candidate. See `Alternatives` for the result.

    Parameters
    ----------
    model, X, y, sensitive_features, sample_weight, ids, reference, pos_label
        As in `fairmend.audit`; X holds the model's inputs and is in memory.
    disparity
        The gap to narrow: a metric, or several, of which the widest gap counts.
    measure
        The performance to keep: "worth" (wrong decisions, weighed as the model's own decisions
        imply; this is accuracy if its cut is one half), "accuracy", "balanced_accuracy", "auc", the
        costs of both errors such as {"false_positive": 1, "false_negative": 5}, a column of X (or
        values) with the profit of a positive decision about each person, or a function of decisions
        and outcomes, both arrays of 0 and 1. Higher is better.
    margin
        An alternative is equivalent if its measure is within this of the model's own: in the unit
        of the measure, for a column of profit as a share of the profit.
    models
        Other models that the vendor offers, by name; anything `BlackBox` takes.
    immutable
        Inputs that no alternative may change.
    holdout
        The people who judge: their share (default one half), or a dict with the X, y and
        sensitive_features of other people. People can judge only once: the stated error rates hold
        for the first search on them.
    favorable_label
        The decision that people want; by default the positive label of y.
    random_state
        Seeds the split and the folds.

    Examples
    --------
    >>> from fairmend import datasets
    >>> X, y, s = datasets.toy_descent().sample(4_000, random_state=0)
    >>> found = alternatives(
    ...     datasets.toy_descent().decision, X, y, sensitive_features=s, disparity="sp",
    ...     margin=0.02, random_state=0,
    ... )
    >>> found.current.kind, found.metric
    ('current', 'sp')

    """
    with progress("searching alternatives"):
        box = BlackBox.of(model)
        settings = RepairSettings(
            disparity=disparity, immutable=tuple(immutable), reference=reference, blind=True,
            favorable_label=favorable_label, pos_label=pos_label, random_state=random_state,
        )  # fmt: skip
        _check_settings(settings, margin)
        given = Given(X, y, sensitive_features, sample_weight, ids, pos_label)
        _check_measure(measure, X)
        others = _check_models(models)
        beside = {name: one for name, one in others.items() if not BlackBox.of(one).can_query}
        if _is_amount(measure):
            beside[AMOUNT] = measure
        choosing, judging = split(box, given, beside, holdout, settings.seed)
        settings.check_data(choosing.data)
        return _search(choosing, judging, settings, measure=measure, margin=margin, models=others)


def _check_settings(settings: RepairSettings, margin: float) -> None:
    settings.check()
    for one in settings.disparities:
        for part in getattr(one, "parts", [(1.0, one)]):
            as_rate(part[1])
    check_between("margin", margin, 0, 1, "0.005 is half a point.", open_ended=True)


def _is_amount(measure: Any) -> bool:
    """Whether a measure is a column of amounts, or its name."""
    return not (callable(measure) or isinstance(measure, Mapping) or (
        isinstance(measure, str) and measure in MEASURES))  # fmt: skip


def _check_measure(measure: Any, X: Any) -> None:
    if isinstance(measure, Mapping):
        TradeOff.of_costs(measure, "measure")
    if isinstance(measure, str) and measure not in MEASURES:
        names = Frame.read(X).names
        check(
            measure in names,
            "measure",
            f"must be {', '.join(MEASURES)}, a column of X, the costs of both errors or a function",
            f"got {measure!r}",
            nearest(measure, [*MEASURES, *names]),
        )


def _check_models(models: Any) -> Mapping[str, Any]:
    check(
        models is None or isinstance(models, Mapping),
        "models",
        "must be a dict of names and models",
        f"got {type(models).__name__}",
        "For example {'v2': vendor_v2}.",
    )
    return models or {}


def _search(
    choosing: Part,
    judging: Part,
    settings: RepairSettings,
    *,
    measure: Any,
    margin: float,
    models: Mapping[str, Any],
) -> Alternatives:
    check(
        bool(np.isin(choosing.answers.decision, (0.0, 1.0)).all()),
        "model",
        "must decide 0 or 1 for a search of alternatives",
        "it decides by chance",
        "Set a threshold instead of soft=True.",
    )
    pairs = pairs_to_judge(choosing, settings.disparities, settings.reference)
    if not pairs and not any_judged(choosing, settings.disparities, settings.reference):
        raise DataError(
            "sensitive_features",
            "must have two groups with enough people to compare",
            f"too few among the {len(choosing):,} who choose",
            "Use more people, or leave small groups out.",
        )
    if not pairs:
        raise DataError(
            "disparity",
            "must have a group that is worse off",
            f"no group is, in {', '.join(one.name for one in settings.disparities)}",
            "There is no gap to narrow: name another metric or reference.",
        )
    trade_off = _trade_off(choosing, settings, measure)
    measures = [read_measure(measure, part, trade_off) for part in (choosing, judging)]
    favours = settings.favours_positive(choosing.data.labels)
    judges = [
        Judge(part, pairs, one, margin, favours_positive=favours)
        for part, one in zip((choosing, judging), measures, strict=True)
    ]
    with progress("making candidates", 7) as advance:
        candidates = all_candidates(
            choosing, judges[0], settings, models, judges=len(judging), advance=lambda _: advance(1)
        )
    _warn_if_spent(judging)
    chosen_on, judged_on = (
        _judged(candidates, judge, what)
        for judge, what in zip(judges, ("choosing", "judging"), strict=True)
    )
    order = named_in_order(candidates, chosen_on, len(choosing), len(judging))
    rule = next((plan.rule for one in candidates for plan in one.plans.values()
                 if isinstance(plan, BlindPlan) and plan.rule.words is None), None)  # fmt: skip
    return Alternatives(
        candidates=_tested(candidates, chosen_on, judged_on, order),
        metric=", ".join(one.name for one in settings.disparities),
        title=title_of(settings.disparities[0].name),
        measure=measures[0].name,
        margin=margin,
        relative_margin=measures[0].relative,
        trade_off=trade_off,
        bound=find_bound((choosing, judging), pairs, measures, margin=margin, rule=rule,
                         reference=settings.reference),
        provenance=provenance(choosing, judging, settings, measure, margin),
        audit=audit_data(judging.data, reference=settings.reference),
        names=choosing.data.names,
        favours_positive=favours,
        choosing=choosing,
        settings=settings,
    )  # fmt: skip


def _judged(candidates: Sequence[Candidate], judge: Judge, what: str) -> list[Figures]:
    judged = []
    with progress(f"{what} candidates", len(candidates)) as advance:
        for one in candidates:
            judged.append(judge.figures_of(one))
            advance(1)
    return judged


def _tested(
    candidates: Sequence[Candidate],
    chosen_on: Sequence[Figures],
    judged_on: Sequence[Figures],
    order: Sequence[int],
) -> tuple[Alternative, ...]:
    """Each candidate with its figures, its place in the order, and what the tests say of it.

    Equivalence has two families of tests: the few named in order, and all others (Holm). One of
    those named is chosen, by what the same people say: so their intervals are wider, by how many
    they are (Benjamini and Yekutieli, 2005).
    """
    tested = tested_in_order(order, judged_on)
    judged_on = [
        replace(one, performance=one.performance.at(1 - RISK / len(order))) if k in order else one
        for k, one in enumerate(judged_on)
    ]
    others = [k for k in range(1, len(candidates)) if k not in order]
    p_values = [judged_on[k].performance.p_value for k in others]
    adjusted = dict(zip(others, holm(p_values, len(others)), strict=True))
    return tuple(
        Alternative(
            candidate,
            before,
            after,
            place=order.index(k) + 1 if k in order else None,
            reached=k in tested.reached,
            passed=k in tested.passed,
            equivalent=k == 0 or k in tested.equivalent or adjusted.get(k, 1.0) <= RISK,
        )
        for k, (candidate, before, after) in enumerate(
            zip(candidates, chosen_on, judged_on, strict=True)
        )
    )


def _warn_if_spent(part: Part) -> None:
    """The same people cannot judge twice without being chosen for."""
    key = fingerprint(part.data)
    if key in _spent:
        warn(
            "These people have judged a search before: whoever changes the search by what they "
            "said chooses on them, and the 5 % holds for the first search only. Judge on others."
        )
    _spent.add(key)


def provenance(
    choosing: Part, judging: Part, settings: RepairSettings, measure: Any, margin: float
) -> Provenance:
    """What it takes to make the same search again."""
    how = settings.changed() | {"margin": margin}
    if isinstance(measure, str | Mapping):
        how["measure"] = measure
    call = ", ".join(f"{name}={value!r}" for name, value in how.items())
    return Provenance.of(
        choosing.data,
        judging.data,
        model=choosing.box.model,
        settings=how,
        command=f"fairmend.alternatives(model, X, y, {call})",
        holdout=True,
        recorded=not choosing.box.can_query,
    )


# -------------------------------------------------------------------- the measure


def read_measure(given: Any, part: Part, trade_off: TradeOff) -> Performance:
    """The measure that must stay, for the people of a part."""
    if isinstance(given, Mapping):
        return Worth("worth", trade_off.cut)
    if callable(given):
        return OwnMeasure(given)
    if AMOUNT in part.given.beside:
        amount = _amounts(as_column(part.given.beside[AMOUNT], "measure"))
        return Profit(given if isinstance(given, str) else "profit", amount[part.kept])
    return {
        "worth": Worth("worth", trade_off.cut),
        "accuracy": Worth("accuracy", 0.5),
        "balanced_accuracy": BalancedAccuracy(),
        "auc": AreaUnderCurve(),
    }[given]


def _amounts(column: Any) -> FloatArray:
    array = column.to_numpy() if hasattr(column, "to_numpy") else np.asarray(column)
    amount = as_numbers(array)
    check(
        amount is not None and bool(np.isfinite(amount).all()),
        "measure",
        "must hold a finite number for everybody",
        "got something else" if amount is None else "got a missing or infinite amount",
        "It is what a positive decision about each person brings.",
    )
    assert amount is not None
    return amount


def _trade_off(part: Part, settings: RepairSettings, measure: Any) -> TradeOff:
    """What wrong decisions cost: as given, or as the model's own decisions imply."""
    if isinstance(measure, Mapping):
        return TradeOff.of_costs(measure, "measure")
    tally = pooled_tally(part.data)
    outcome = RowProbabilities.fit_event(part.table, tally, settings, "P(Y=1 | x)")
    chance = outcome.of(part.table)
    return TradeOff.implied(chance, part.answers.decision, tally.by_row)
