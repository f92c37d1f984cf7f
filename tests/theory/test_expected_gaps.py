"""Is the gap that a repair leaves on new people the one it expects?

Populations are known exactly, so the gap a rule really leaves is a sum. FAIRMEND_REPETITIONS=full
runs 500 repetitions; otherwise there are 80. Bounds are 3 standard errors of so many repetitions.
"""

import os
from dataclasses import replace

import numpy as np
import pytest

from fairmend import BlackBox, Population, tabulate
from fairmend.data.columns import Frame
from fairmend.measure.disparity import as_disparity
from fairmend.model.answers import Answers
from planning import least_change

REPETITIONS = 500 if os.environ.get("FAIRMEND_REPETITIONS") == "full" else 80
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::fairmend.FairmendWarning")]


def test_small_samples_are_not_biased():
    # ten people, a rate of about .8: c n would leave new people .027 short, c (n + 1) does not
    rng = np.random.default_rng(0)
    box = BlackBox(lambda rows: rows[:, 0], threshold=1.0)
    others = np.array([[0.0], [2.0]])
    left = []
    for _ in range(REPETITIONS):
        refused = int(rng.integers(750, 850))
        X = np.concatenate([rng.random((10, 1)), np.repeat(others, [refused, 1000 - refused], 0)])
        y = rng.integers(0, 2, len(X))
        s = np.repeat(["a", "b"], [10, 1000])
        plan = least_change(tabulate(box, X, y, sensitive_features=s), disparity="sp", target="a",
                            box=box)  # fmt: skip
        # a uniform key is its own distribution function: below the cut people stay refused
        left.append(min(plan.cut.first, 1.0) - refused / 1000)
    # one of ten people and their cut: a standard deviation of .11
    assert abs(np.mean(left)) < 3 * 0.11 / np.sqrt(REPETITIONS)


@pytest.mark.parametrize("metric", ["sp", "fnr"])
def test_the_expected_interval_covers_the_truth(metric):
    # scores on a grid with known densities and outcomes, so the gap a rule really leaves is known
    grid = (np.arange(400) + 0.5) / 400
    mass = {"a": grid * (1 - grid) ** 2.5, "b": grid**2 * (1 - grid) ** 1.5}
    outcome = {"a": 0.1 + 0.8 * grid, "b": 0.05 + 0.9 * grid}
    truth = {g: Population.of(mass[g], grid > 0.5, outcome[g]) for g in mass}
    box = BlackBox(lambda rows: rows[:, 0], output="probability")
    frame, said = Frame.read(grid[:, None]), Answers((grid > 0.5).astype(float), grid)
    rng, covered = np.random.default_rng(0), []
    for _ in range(REPETITIONS):
        size = {"a": 150, "b": 300}
        at = {g: rng.choice(400, size[g], p=truth[g].mass) for g in size}
        x = np.concatenate([grid[at[g]] for g in size])[:, None]
        y = np.concatenate([rng.random(size[g]) < outcome[g][at[g]] for g in size]).astype(int)
        data = tabulate(box, x, y, sensitive_features=np.repeat(["a", "b"], [150, 300]))
        plan = least_change(data, disparity=metric, target="a", baseline="b", box=box)
        after = plan.route(frame, said).expected_decision(said)
        left = as_disparity(metric).value(replace(truth["a"], decision=after), truth["b"])
        covered.append(plan.outlook.expected_low <= left <= plan.outlook.expected_high)
    error = np.sqrt(0.05 * 0.95 / REPETITIONS)
    assert abs(np.mean(covered) - 0.95) < 3 * error
