"""The whole search for alternatives: 16,000 people with 16 inputs, and a million.

    python benchmarks/alternatives.py [--people 16000 1000000] [--out results/search.json]

The people are simulated: 16 inputs, continuous ones in the smaller table and ones of a few values
in the larger, where people share rows; the model is a logistic regression fitted on others. Each
search runs in this process, with the threads that the libraries take. Clock and processor seconds
are printed.

Exits with 1 if a bar is missed: by the clock 60 s for 16,000 people and 360 s for a million.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _results import write_json
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

import fairmend
from fairmend import FairmendWarning

INPUTS = 16
FEW, MANY = 16_000, 1_000_000
BARS = {FEW: 60.0, MANY: 360.0}
"""Seconds by the clock."""


def people(n: int, seed: int, *, continuous: bool) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Inputs, outcomes and groups: every second input differs between the groups."""
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b"], n)
    shift = np.where(group == "a", -0.2, 0.2)[:, None] * (np.arange(INPUTS) % 2)
    rows = rng.normal(size=(n, INPUTS)) + shift
    if not continuous:
        rows = (rows > 0).astype(np.int64)
    X = pd.DataFrame(rows, columns=[f"x{k}" for k in range(INPUTS)])
    strength = np.linspace(0.2, 0.6, INPUTS)
    y = (rng.random(n) < expit(rows @ strength - strength.sum() * rows.mean())).astype(int)
    return X, y, group


def timed(n: int) -> dict[str, Any]:
    """One search, by the clock and by processor time."""
    continuous = n <= FEW
    X, y, _ = people(20_000, 1, continuous=continuous)
    model = LogisticRegression(max_iter=1_000).fit(X, y)
    X, y, group = people(n, 0, continuous=continuous)
    clock, used = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairmendWarning)
        found = fairmend.alternatives(
            model, X, y, sensitive_features=group, margin=0.005, random_state=0
        )
    return {
        "people": n,
        "inputs": INPUTS,
        "rows": len(X.drop_duplicates()),
        "candidates": len(found.candidates),
        "seconds": time.perf_counter() - clock,
        "cpu_seconds": time.process_time() - used,
        "bar": BARS.get(n),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Search, print, write; 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--people", type=int, nargs="+", default=[FEW, MANY])
    parser.add_argument("--out", type=Path, default=Path("results/search.json"))
    options = parser.parse_args(arguments)
    lines = []
    for n in options.people:
        line = timed(n)
        lines.append(line)
        bar = "" if line["bar"] is None else f" (bar {line['bar']:.0f} s)"
        print(
            f"{n:,} people, {line['rows']:,} distinct rows of {INPUTS} inputs, "
            f"{line['candidates']} candidates: {line['seconds']:.1f} s by the clock{bar}, "
            f"{line['cpu_seconds']:.1f} s of processor time",
            flush=True,
        )
    write_json(options.out, {"cores": os.cpu_count(), "searches": lines})
    return int(any(line["bar"] is not None and line["seconds"] > line["bar"] for line in lines))


if __name__ == "__main__":
    sys.exit(main())
