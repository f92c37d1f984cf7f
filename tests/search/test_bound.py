"""The bound on what any rule could reach: its program against an independent one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from fairmend import SP
from fairmend.measure.intervals import normal_quantile
from fairmend.measure.performance import Outcomes
from fairmend.search.bound import Bound, _of_pair, _People, _Program
from fairmend.search.judge import Pair


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
    assert "not every rule is bounded" in str(modelled)


@pytest.mark.parametrize("seed", range(8))
def test_no_rule_that_may_be_the_best_is_below_the_bound(seed):
    """Every rule of 8 cells is listed; those that may be within the margin are above the bound."""
    rng = np.random.default_rng(seed)
    n, margin, z = 600, 0.02, (normal_quantile(0.95), normal_quantile(0.95, 2))
    cells, group = rng.integers(0, 8, n), rng.integers(0, 2, n)
    outcome = (rng.random(n) < (cells + 2 * group) / 10).astype(float)
    now = (cells + group > 3.5).astype(float)
    weight = rng.uniform(0.5, 2.0, n)
    people = _People(group, (0, 1), Outcomes(outcome, weight), now, 2 * outcome - 1,
                     1 - outcome, np.ones(n))  # fmt: skip
    limit, least = _of_pair(people, Pair(SP, 0, 1), cells, margin=margin, relative=False, z=z)
    share, own = weight / weight.sum(), []
    for side in (0, 1):
        own.append(np.where(group == side, weight, 0) / weight[group == side].sum())
    spread = np.sqrt(sum((side**2).sum() for side in own)) / 2  # of a rate of one half
    gaps, within = [], []
    for rule in np.array(np.meshgrid(*[[0, 0.5, 1]] * 8)).reshape(8, -1).T:
        decided = rule[cells]
        each = share * (2 * outcome - 1) * (decided - now)
        gap = own[1] @ decided - own[0] @ decided
        if each.sum() >= -margin - z[0] * np.sqrt((each**2).sum()):
            gaps.append(gap)
        if each.sum() >= -margin:
            within.append(gap)
    assert limit <= max(0.0, min(gaps) - z[1] * spread) + 1e-9
    assert least <= max(0.0, min(within)) + 1e-9
    assert least >= limit


def test_rows_of_one_person_widen_the_bound():
    rng = np.random.default_rng(3)
    n = 4_000
    group = rng.integers(0, 2, n)
    cells = rng.binomial(1, 0.25 + 0.5 * group)
    outcome = (rng.random(n) < 0.1 + 0.8 * cells).astype(float)
    now = cells.astype(float)
    limits = []
    for rows in (1.0, 2.0):
        people = _People(group, (0, 1), Outcomes(outcome, np.ones(n)), now, 2 * outcome - 1,
                         1 - outcome, np.full(n, rows))  # fmt: skip
        limits.append(_of_pair(people, Pair(SP, 0, 1), cells, margin=0.01, relative=False,
                               z=(1.96, 1.96))[0])  # fmt: skip
    assert 0 < limits[1] < limits[0]
