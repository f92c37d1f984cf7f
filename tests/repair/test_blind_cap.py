"""No blind rule costs as much as one decision for everybody, which has no gap either."""

from types import SimpleNamespace

import numpy as np

from fairmend.repair.blind.gaps import Constraint
from fairmend.repair.blind.search import FlipSearch

ROWS = 240


def searched(can_tell):
    """Three groups, one person a row; the third has few, and inputs tell of it if ``can_tell``.

    Returns the search, and the gaps that a choice of rows to flip leaves.
    """
    rng = np.random.default_rng(0)
    group = np.repeat([0, 1, 2], [120, 110, 10])
    merit = rng.random(ROWS) - np.array([0.0, 0.15, 0.0])[group]
    decision = (merit > 0.5).astype(float)
    decision[group == 2] = 0.0
    weight = np.zeros((3, ROWS, 2))
    weight[group, np.arange(ROWS), 1] = 1.0
    guess = np.eye(3)[group] if can_tell else 1e-4 * rng.random((ROWS, 3))
    guess[:, :2] = 0.7 * np.eye(3)[group][:, :2] + 0.15
    size = np.bincount(group)
    constraints, effects = [], []
    for target in (1, 2):
        each = np.zeros((3, 2))
        each[target], each[0] = -1 / size[target], 1 / size[0]
        rates = [1 - decision[group == one].mean() for one in (target, 0)]
        constraints.append(Constraint(each, rates[0] - rates[1], 0.5 / size[target]))
        effects.append(each[:, 1] @ guess.T)
    audited = SimpleNamespace(weight=weight, answers=SimpleNamespace(decision=decision))
    price = np.maximum(1e-3, np.abs(merit - 0.5))
    search = FlipSearch(audited, constraints, np.stack(effects), price, np.arange(ROWS))

    def left(turned):
        now = np.where(turned, 1 - decision, decision)
        return np.array([now[group == 0].mean() - now[group == one].mean() for one in (1, 2)])

    return search, left


def most(search):
    """What the cheaper decision for everybody costs, counted here."""
    price, way = search._price, search._way
    return min(price[way == side].sum() for side in (1, -1)) / ROWS


def test_where_a_small_group_cannot_be_told_its_gap_stays_and_the_others_close():
    search, left = searched(can_tell=False)
    solved = search.solved()
    before, after = np.abs(left(np.zeros(ROWS, bool))), np.abs(left(solved.turned))
    assert solved.capped
    assert not solved.feasible
    assert solved.cost <= most(search) / 2 + 1e-12
    assert (after <= before + 1e-9).all()
    assert after[0] < before[0] / 2


def test_where_it_can_be_told_all_gaps_close_and_nothing_is_capped():
    search, left = searched(can_tell=True)
    solved = search.solved()
    assert not solved.capped
    assert solved.feasible
    assert (np.abs(left(solved.turned)) <= 0.5 / np.array([110, 10]) + 1e-9).all()
