"""The bound on what any rule could reach: its program against an independent one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from fairmend.search.bound import Bound, _Program


@given(st.integers(0, 300), st.floats(-1.0, 1.0))
def test_one_price_solves_the_linear_program(seed, asked):
    rng = np.random.default_rng(seed)
    effect, worth = rng.normal(size=(2, 12)).round(3)
    most = worth[worth > 0].sum()
    at_least = min(asked * np.abs(worth).sum(), most - 1e-9)
    program = _Program(effect, worth, 0.3)
    decided = program.least(at_least)
    known = linprog(effect, A_ub=[-worth], b_ub=[-at_least], bounds=[(0, 1)] * 12)
    assert known.status == 0
    assert program.gap(decided) == pytest.approx(0.3 + known.fun, abs=1e-7)
    assert worth @ decided >= at_least - 1e-7
    assert ((decided >= 0) & (decided <= 1)).all()


def test_it_says_what_it_excludes_and_what_not():
    both = Bound("sp", 0.95, 0.011, 0.059, 0.08)
    assert both.gap == 0.011
    assert "below 1.1 points" in str(both)
    assert "below 5.9 points" in str(both)
    nothing = Bound("fnr", 0.95, 0.0, None, 0.0)
    assert "nothing can be excluded" in str(nothing)
    modelled = Bound("fnr", 0.95, None, 0.02, 0.03)
    assert modelled.gap == 0.02
    assert "rules of any kind are not bounded" in str(modelled)
