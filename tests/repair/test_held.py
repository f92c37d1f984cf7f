"""An input held at one value for everybody."""

import numpy as np
import pandas as pd
import pytest

import fairmend
from fairmend.data.columns import Frame
from fairmend.data.outcomes import Labels
from fairmend.model.answers import Answers
from fairmend.model.blackbox import BlackBox
from fairmend.repair.held import HeldPlan, held_at
from fairmend.repair.plan import Outlook
from fairmend.status import PlanStatus


def vendor(rows):
    return ((rows["income"] > 2) & (rows["job"] != "none")).astype(int).to_numpy()


def plan(values, held):
    return HeldPlan(
        "a", "b", "sp", "least_change", PlanStatus.REMAINS, Outlook(),
        held=held, values=Frame.read(values), box=BlackBox(vendor, output="label"),
        labels=Labels(0, 1),
    )  # fmt: skip


def test_the_decision_is_the_models_at_the_held_value():
    rows = pd.DataFrame({"income": [1.0, 3.0, 3.0], "job": ["none", "none", "clerk"]})
    law = plan(rows.iloc[[2]], ("job",))
    frame = Frame.read(rows)
    answers = Answers(vendor(rows).astype(float), None)
    route = law.route(frame, answers)
    assert route.expected_decision(answers).tolist() == [0.0, 1.0, 1.0]
    assert route.moving.tolist() == [1.0, 1.0, 0.0]  # the last has that value anyway
    assert route.expected_cost().tolist() == [1.0, 1.0, 0.0]
    expected = vendor(rows.assign(job="clerk"))
    assert route.expected_decision(answers).tolist() == expected.tolist()


def test_nobody_moves_where_everybody_has_the_value():
    rows = pd.DataFrame({"income": [1.0, 3.0], "job": ["clerk", "clerk"]})
    law = plan(rows.iloc[[0]], ("job",))
    route = law.route(Frame.read(rows), Answers(np.array([0.0, 1.0]), None))
    assert not route.moving.any()


@pytest.mark.parametrize("kind", ["pandas", "polars", "numpy", "categories"])
def test_every_container(kind):
    import polars as pl

    frame = pd.DataFrame({"a": [1, 2, 3], "b": [4, 5, 6]})
    table = {"pandas": frame, "polars": pl.DataFrame(frame), "numpy": frame.to_numpy(),
             "categories": frame.astype({"a": "category"})}[kind]  # fmt: skip
    rows = Frame.read(table)
    first = rows.names[0]
    held = held_at(rows, rows.take(np.array([1])), (first,))
    assert [str(value) for value in held.encoded[0].values] == ["2"]
    assert held.encoded[1].codes.tolist() == [0, 1, 2]


def test_it_says_what_it_holds():
    rows = pd.DataFrame({"income": [1.0], "job": ["clerk"]})
    assert plan(rows, ("job",)).way == "job held at clerk for everybody"
    assert fairmend.RepairedClassifier is not None
