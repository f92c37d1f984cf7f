"""Where the time goes between people and an explanation, and two bars it must keep.

    python benchmarks/counterfactual.py

CPU seconds, the median of several runs, on Adult: 16,280 people to audit, and 1,000,000 drawn from
them with replacement. The bars: the projection with all of its explanation costs less than fitting
the outcome model once; at a million people tabulation dominates it; and nothing behind tabulation
grows with the number of people. Exits with 1 where a bar is missed.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from fairmend import AuditData, Counterfactual, counterfactual_data, datasets, project, tabulate
from fairmend.explain.outcomes import fit_probability
from fairmend.measure.metrics import FNR

REPETITIONS = 7
MILLION = 1_000_000


def cpu(work: Callable[[], Any]) -> float:
    """Median CPU seconds of a piece of work, the first run left out."""
    work()
    times = []
    for _ in range(REPETITIONS):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return statistics.median(times)


def stages(model: LogisticRegression, X: Any, y: Any, s: Any) -> dict[str, float]:
    """CPU seconds of each stage of `fairmend.counterfactual`, FNR of women, and its explanation."""
    data: AuditData = tabulate(model, X, y, sensitive_features=s)
    women = data["Female"]
    assert data.table is not None
    assert women.rows is not None
    assert women.tally is not None
    table, tally = data.table.take(women.rows), women.tally
    found = counterfactual_data(data, disparity=FNR, target="Female")

    def explain(found: Counterfactual) -> None:
        found.marginals()
        found.prototypes()
        found.feature_scores()
        found.joint_proxies()

    return {
        "tabulation": cpu(lambda: tabulate(model, X, y, sensitive_features=s)),
        "outcome model": cpu(lambda: fit_probability(table, tally, what="P(Y=1 | x)")),
        "projection": cpu(lambda: project(found.source, found.baseline, FNR)),
        "explanation": cpu(lambda: explain(found)),
    }


def _counterfactual(seconds: dict[str, float]) -> float:
    return seconds["projection"] + seconds["explanation"]


def _behind_tabulation(seconds: dict[str, float]) -> float:
    return seconds["outcome model"] + _counterfactual(seconds)


def main() -> int:
    """Print the table; 0 if all bars are kept."""
    adult = datasets.load_adult("numpy")
    rng = np.random.default_rng(0)
    order = rng.permutation(len(adult.y))
    train, audit = np.split(order, [int(0.3 * len(order)), int(0.8 * len(order))])[:2]
    model = LogisticRegression(C=100, max_iter=1_000).fit(adult.X[train], adult.y[train])
    found = {}
    for people in (audit, rng.choice(audit, MILLION)):
        X, y, s = adult.X[people], adult.y[people], adult.sensitive_features[people]
        found[len(people)] = stages(model, X, y, s)
    small, large = found.values()
    print(f"{'CPU seconds':16}" + "".join(f"{n:>14,} people" for n in found))
    for stage in small:
        cells = "".join(
            f"{seconds[stage]:12.4f} {seconds[stage] / sum(seconds.values()):7.0%}"
            for seconds in found.values()
        )
        print(f"{stage:16}{cells}")
    ratio = _counterfactual(small) / small["outcome model"]
    share = large["tabulation"] / (large["tabulation"] + _counterfactual(large))
    growth = _behind_tabulation(large) / _behind_tabulation(small)
    bars = [
        (f"projection and explanation / outcome model = {ratio:.2f}, must be below 1", ratio < 1),
        (f"tabulation / tabulation, projection and explanation of a million people = {share:.0%}, "
         "must be above 50 %", share > 0.5),
        (f"a million people / {len(audit):,} people behind tabulation = {growth:.2f}, "
         "must be below 1.5", growth < 1.5),
    ]  # fmt: skip
    for text, kept in bars:
        print(f"{'kept  ' if kept else 'MISSED'}  {text}")
    return 0 if all(kept for _, kept in bars) else 1


if __name__ == "__main__":
    sys.exit(main())
