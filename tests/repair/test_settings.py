"""The settings of a repair: written once, and the same everywhere."""

import re
from inspect import signature

import numpy as np
import pytest
from sklearn.base import clone

from fairmend import Cost, RepairedClassifier
from fairmend.errors import DataError
from fairmend.repair.methods import methods
from fairmend.repair.settings import RepairSettings


def test_the_estimator_takes_just_these_settings():
    taken = list(signature(RepairedClassifier).parameters.values())[1:]
    assert [(one.name, one.default) for one in taken] == [
        (name, RepairSettings.default(name)) for name in RepairSettings.names()
    ]


@pytest.mark.parametrize("name", RepairSettings.names())
def test_each_setting_has_a_meaning_and_the_estimator_shows_it(name):
    meaning = RepairSettings.help(name)
    assert meaning.endswith(".")
    shown = re.sub(r"\s+", " ", RepairedClassifier.__doc__)
    assert meaning in shown


def test_the_key_is_neither_stored_nor_shown():
    settings = RepairSettings(key=bytes(range(32)), level=0.5)
    assert settings.to_dict().keys() == set(RepairSettings.names()) - {"key"}
    assert settings.changed() == {"level": 0.5}


def test_settings_of_a_clone_are_the_same():
    repaired = RepairedClassifier(
        lambda rows: rows, "fnr", immutable=["sex"], cost=Cost(max_edits=2), level=np.float64(0.5)
    )
    assert clone(repaired).settings.to_dict() == repaired.settings.to_dict()


def test_rules_of_the_cost_and_of_the_settings_are_one():
    both = RepairSettings(cost=Cost(immutable=["a"], one_way={"b": "up"}), immutable=["c", "a"])
    assert tuple(both.edit_cost.immutable) == ("a", "c")
    assert both.edit_cost.one_way == {"b": "up"}


def test_every_method_says_what_it_is():
    own = [name for name, method in methods().items() if not method.is_foreign]
    assert own == ["least_change", "order", "transport", "paper"]
    assert all(method.help for method in methods().values())


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"method": "paper", "level": 0.5}, "method='paper'"),
        ({"method": "order", "rank": "cost"}, "method='order'"),
        ({"method_options": {"ties": "order"}}, "method_options"),
        ({"two_sided": True, "method": "order"}, "method"),
        ({"two_sided": True, "target": "a"}, "target"),
        ({"immutable": "sex"}, "immutable"),
        ({"random_state": 1.5}, "random_state"),
    ],
)
def test_settings_that_cannot_be_followed_are_refused_before_there_is_data(settings, what):
    with pytest.raises(DataError) as error:
        RepairSettings(**settings).check()
    assert error.value.what == what
