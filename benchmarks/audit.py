"""The audit of a million people, side by side with its peers in one run.

    python benchmarks/audit.py [--rows 1000000] [--repeats 7] [--out results/audit.json]

What is timed is the CPU time of this process over all its threads, the best of the repeats, in
interleaved rounds. The contestants see the same columns: 0/1 outcomes, 0/1 decisions and three
group names. Only fairmend's side gives intervals and tests; fairlearn's come from the bootstrap.

Exits with 1 if a bar is missed: at most 1/100 of fairlearn, 1/5000 of fairlearn with a bootstrap of
100, and no more than a plain Polars group-by that only counts.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
from _results import write_json
from fairlearn.metrics import (
    MetricFrame,
    false_negative_rate,
    false_positive_rate,
    selection_rate,
)

import fairmend
from fairmend.tables import TextTable

BOOTSTRAP = 100
MEASURED_REPLICATES = 2
IN_A_ROW = 3
"""Calls of a quick contestant in its turn, so that none is judged on cold caches alone."""

OURS = "fairmend: 4 metrics, intervals, tests (Polars in)"
FAIRLEARN = "fairlearn MetricFrame: 4 metrics"
BOOTSTRAPPED = f"fairlearn with a bootstrap of {BOOTSTRAP}"
GROUP_BY = "Polars group_by([s, y, h]).len()"
BARS = {FAIRLEARN: 1 / 100, BOOTSTRAPPED: 1 / 5000, GROUP_BY: 1.0}


class Seconds(NamedTuple):
    """What a call takes."""

    cpu: float
    wall: float


def people(rows: int) -> dict[str, np.ndarray]:
    """Outcomes, decisions, probabilities and group names; the groups differ a little."""
    rng = np.random.default_rng(0)
    group = rng.choice(3, rows, p=[0.2, 0.3, 0.5])
    y = (rng.random(rows) < np.array([0.3, 0.35, 0.4])[group]).astype(np.int64)
    probability = np.clip(0.35 + 0.2 * y + 0.02 * group + 0.2 * rng.normal(size=rows), 0, 1)
    return {
        "s": np.array(["Black", "Hispanic", "White"])[group],
        "y": y,
        "h": (probability > 0.5).astype(np.int64),
        "probability": probability,
    }


def false_discovery_rate(y_true: Any, y_pred: Any) -> float:
    """FDR, which fairlearn does not have."""
    y_true, y_pred = np.asarray(y_true), np.asarray(y_pred)
    return float(np.sum(y_pred * (1 - y_true)) / max(1, np.sum(y_pred)))


def fairlearn_audit(columns: dict[str, np.ndarray], **bootstrap: Any) -> MetricFrame:
    """Ask fairlearn for the same four rates."""
    return MetricFrame(
        metrics={
            "sp": selection_rate,
            "fnr": false_negative_rate,
            "fpr": false_positive_rate,
            "fdr": false_discovery_rate,
        },
        y_true=columns["y"],
        y_pred=columns["h"],
        sensitive_features=columns["s"],
        **bootstrap,
    )


def contestants(columns: dict[str, np.ndarray]) -> dict[str, Callable[[], Any]]:
    """The quick ones, which every round repeats."""
    arrays = [columns[name] for name in ("h", "y", "s")]
    texts = columns["s"].tolist()
    polars = [pl.Series("h", arrays[0]), pl.Series("y", arrays[1]), pl.Series("s", texts)]
    pandas = [pd.Series(arrays[0]), pd.Series(arrays[1]), pd.Series(texts)]
    probability = pl.Series("h", columns["probability"])
    frame = pl.DataFrame(polars)

    def ours(h: Any, y: Any, s: Any) -> Callable[[], Any]:
        return lambda: fairmend.audit(h, None, y, sensitive_features=s)

    return {
        GROUP_BY: lambda: frame.group_by(["s", "y", "h"]).len(),
        OURS: ours(*polars),
        "the same, NumPy in": ours(*arrays),
        "the same, pandas in": ours(*pandas),
        "the same, float probabilities (Polars in)": ours(probability, *polars[1:]),
    }


def seconds_of(call: Callable[[], Any]) -> Seconds:
    """CPU time over all threads, and time by the clock."""
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return Seconds(time.process_time() - cpu, time.perf_counter() - wall)


def check_same_answers(columns: dict[str, np.ndarray], theirs: MetricFrame) -> None:
    """A quicker wrong answer is no answer."""
    audited = fairmend.audit(columns["h"], None, columns["y"], sensitive_features=columns["s"])
    for gap in audited:
        expected = theirs.by_group.loc[gap.target, gap.metric]
        if gap.metric == "sp":
            expected = 1 - expected
        np.testing.assert_allclose(gap.target_rate, expected, atol=1e-9, err_msg=gap.metric)


def measure(rows: int, repeats: int) -> dict[str, Seconds]:
    """Seconds by contestant."""
    columns = people(rows)
    quick = contestants(columns)
    taken: dict[str, list[Seconds]] = {name: [] for name in (BOOTSTRAPPED, FAIRLEARN, *quick)}
    answers = []

    def bootstrapped() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            quantiles = {"n_boot": MEASURED_REPLICATES, "ci_quantiles": [0.025, 0.975]}
            fairlearn_audit(columns, random_state=0, **quantiles)

    for turn in range(repeats):
        for name, call in quick.items():
            taken[name] += [seconds_of(call) for _ in range(IN_A_ROW)]
        if turn == repeats // 2:  # half-way, and once: they take their time
            plain = seconds_of(lambda: answers.append(fairlearn_audit(columns)))
            more = seconds_of(bootstrapped)
            taken[FAIRLEARN].append(plain)
            replicate = [
                max(0.0, b - a) / MEASURED_REPLICATES for a, b in zip(plain, more, strict=True)
            ]
            scaled = (a + BOOTSTRAP * each for a, each in zip(plain, replicate, strict=True))
            taken[BOOTSTRAPPED].append(Seconds(*scaled))
    check_same_answers(columns, answers[0])
    return {name: Seconds(*map(min, zip(*times, strict=True))) for name, times in taken.items()}


def _ratio(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio > 0.1 else f"1/{1 / ratio:,.0f}"


def main() -> int:
    """Measure, print, write, and judge."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=7, help="rounds of the quick contestants")
    parser.add_argument("--out", type=Path, default=Path("results/audit.json"))
    options = parser.parse_args()
    if options.rows < 1_000 or options.repeats < 1:
        parser.error("needs at least 1,000 rows and 1 repeat")
    seconds = measure(options.rows, options.repeats)
    ratios = {name: seconds[OURS].cpu / seconds[name].cpu for name in BARS}
    missed = [name for name, bar in BARS.items() if ratios[name] > bar]

    def judged(name: str) -> tuple[str, str, str]:
        if name not in BARS:
            return "", "", ""
        return _ratio(ratios[name]), _ratio(BARS[name]), "missed" if name in missed else "met"

    table = TextTable(
        f"Audit of {options.rows:,} rows, seconds, best of {IN_A_ROW * options.repeats} "
        "(fairlearn: of 1)",
        ("<", "CPU", "wall", "ours / this", "bar", "<"),
        [
            (
                name,
                *(f"{each:.4f}" if each < 10 else f"{each:,.1f}" for each in times),
                *judged(name),
            )
            for name, times in seconds.items()
        ],
        [
            f"The bootstrap was timed with {MEASURED_REPLICATES} replicates and scaled to "
            f"{BOOTSTRAP}; rates were checked to be fairlearn's.",
        ],
    )
    print(table)
    write_json(
        options.out,
        {
            "rows": options.rows,
            "repeats": IN_A_ROW * options.repeats,
            "seconds": {name: times._asdict() for name, times in seconds.items()},
            "ours_over_theirs": ratios,
            "bars": BARS,
            "missed": missed,
            "replicates_timed": MEASURED_REPLICATES,
            "machine": {"cpus": os.cpu_count(), "platform": platform.platform()},
            "versions": {
                name: version(name)
                for name in ("fairmend", "fairlearn", "numpy", "pandas", "polars")
            },
        },
    )
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
