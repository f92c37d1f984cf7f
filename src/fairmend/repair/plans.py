"""The plans of a repair: one for each group that is worse off, or for all groups."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import fields

from fairmend.data.outcomes import Labels
from fairmend.errors import RepairRefused, check, warn
from fairmend.measure.audit import audit_data
from fairmend.measure.disparity import title_of
from fairmend.measure.population import AuditData, Population
from fairmend.measure.wording import share
from fairmend.model.blackbox import BlackBox
from fairmend.repair.blind.fit import plan_blindly
from fairmend.repair.plan import HarmlessPlan, Plan
from fairmend.repair.problem import RepairProblem, allow_for_rivals, judged
from fairmend.repair.settings import RepairSettings
from fairmend.repair.together import plans_against_the_rest
from fairmend.repair.two_sided import meet


def make_plans(data: AuditData, settings: RepairSettings, box: BlackBox) -> dict[Hashable, Plan]:
    """A plan for the named group, or for every group that is worse off; with blind for all."""
    if settings.blind:
        return plan_blindly(data, settings, box)
    if settings.two_sided:
        protected = settings.protected(data.labels)
        plans = meet(data, settings, box)
        return {group: _harmless(plan, protected) for group, plan in plans.items()}
    gaps = audit_data(data, metrics=settings.disparities[:1], reference=settings.reference).gaps
    against = {gap.target: gap.baseline for gap in gaps}
    targets = [settings.target]
    if settings.target is None:
        targets = [gap.target for gap in judged(gaps) if gap.gap > 0]
    check(
        settings.target != settings.reference,
        "reference",
        "must differ from the target",
        f"both are {settings.target!r}",
        "Name another group, or leave it out.",
    )

    def read(target: Hashable, other: Population | None = None) -> RepairProblem:
        return RepairProblem.read(
            data, settings, box, target=target, baseline=against.get(target), other=other
        )

    if settings.reference == "rest" and targets:
        return plans_against_the_rest(data, targets, read, make_plan)
    rivals = {gap.target: gap.rivals for gap in gaps}
    return {
        target: allow_for_rivals(make_plan(read(target)), rivals.get(target, 1))
        for target in targets
    }


def make_plan(problem: RepairProblem) -> Plan:
    """The plan of the method that the settings name."""
    if problem.nothing_to_close:
        return problem.identity()
    problem.warn_if_not_significant()
    method = problem.settings.chosen_method
    plan = method.make(problem)
    if method.is_foreign:  # what it says of its own plan is not taken on trust
        plan = problem.again(plan)
    return _harmless(plan, problem.protected)


def _harmless(plan: Plan, protected: float | None) -> Plan:
    """The plan, bound to the promise of ``do_no_harm`` for rows it never saw."""
    if protected is None or not plan.may_take(protected):
        return plan
    common = {one.name: getattr(plan, one.name) for one in fields(Plan)}
    return HarmlessPlan(**common, plan=plan, protected=protected)


def check_harm(plan: Plan, settings: RepairSettings, labels: Labels) -> None:
    """Warn, or refuse with ``do_no_harm``, where people lose the decision they want."""
    outlook = plan.outlook
    loses = outlook.to_negative if settings.favours_positive(labels) else outlook.to_positive
    if loses <= 0:
        return
    if settings.do_no_harm:
        raise RepairRefused(
            f"the repair of {plan.metric} for {plan.group_names[0]}",
            "must not take favourable decisions away",
            f"it would take them from {share(loses)} of the group",
            "Choose another disparity, or leave do_no_harm out.",
        )
    given = settings.blind or settings.favorable_label is not None
    hint = f" If people want {labels.negative}, say favorable_label={labels.negative!r}."
    titles = " and ".join(title_of(name) for name, *_ in plan.by_metric)
    warn(
        f"For the gap in {titles} this repair takes the favourable decision from {share(loses)} of "
        f"{plan.group_names[0]}.{'' if given else hint}"
    )
