"""Plans by one method, from data and settings: what several rooms of tests ask for."""

from fairmend.repair.methods import methods
from fairmend.repair.plans import make_plan
from fairmend.repair.problem import RepairProblem
from fairmend.repair.settings import RepairSettings
from fairmend.repair.two_sided import meet as meet_by_settings


def problem_of(data, *, method="least_change", baseline=None, box=None, other=None, **settings):
    """A problem; what is no setting is an option of the method."""
    settings["reference"] = "best" if baseline is None else baseline
    known = RepairSettings.names()
    options = {name: settings.pop(name) for name in list(settings) if name not in known}
    methods()[method].check_options(options)
    checked = RepairSettings(method=method, method_options=options or None, **settings)
    checked.check()
    return RepairProblem.read(data, checked, box, other=other)


def least_change(data, **settings):
    return make_plan(problem_of(data, **settings))


def order_preserving(data, **settings):
    return make_plan(problem_of(data, method="order", **settings))


def transport(data, **settings):
    return make_plan(problem_of(data, method="transport", **settings))


def paper(data, **settings):
    return make_plan(problem_of(data, method="paper", **settings))


def meet(data, *, box=None, **settings):
    return meet_by_settings(data, RepairSettings(two_sided=True, **settings), box)
