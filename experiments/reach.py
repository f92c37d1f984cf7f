"""How far a blind rule can go: what the certificate says, against the truth.

    python experiments/reach.py [--splits 200] [--jobs 2]

In worlds with known probabilities the furthest gap that any rule on the inputs reaches is a linear
program over everybody. Beside it stand the estimate and the 95 % interval of
`RepairedClassifier.price_of_blindness`, from one sample an audit; ``--splits`` is how many. *Raise
only* may turn no favourable decision. Twelve minutes on two cores.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from _search_worlds import WORLDS, World
from _shared import Check, Record, Task, arguments_of, run_all, run_as_script, verdict, write_json
from scipy.optimize import linprog

from fairmend import BlackBox, FairmendWarning, RepairedClassifier
from fairmend.tables import TextTable

CHOSEN = ("few kinds of rows", "continuous rows", "weights", "a rare group")
SIDES = {"sp": ("g0", "g1"), "fnr": ("g0", "g1"), "fpr": ("g1", "g0")}
"""The group that is worse off in these worlds, and the other."""
NEAR, LARGE_GROUP = 0.01, 500
"""How far the mean estimate may lie from the truth, where the group has so many people: of fewer
the estimate itself is uncertain by many times as much."""
COVERAGE = (0.93, 0.99)
CHUNK = 10


@lru_cache
def world_of(name: str) -> World:
    """One world, made once a process."""
    return WORLDS[name]()


def truth(world: World, metric: str, *, raise_only: bool) -> float:
    """The least gap of all rules, by a linear program over the decisions."""
    people = world.mass * world.group * {
        "sp": np.ones_like(world.outcome), "fnr": world.outcome, "fpr": 1 - world.outcome,
    }[metric]  # fmt: skip
    share = people / people.sum(axis=1, keepdims=True)
    target, other = (share[int(side[1:])] for side in SIDES[metric])
    step = target - other if metric == "fpr" else other - target  # of a positive decision
    low = world.now if raise_only else np.zeros_like(world.now)
    found = linprog(step, bounds=np.stack([low, np.ones_like(low)], axis=1), method="highs")
    assert found.status == 0
    return float(found.fun)


def one_audit(name: str, metric: str, raise_only: bool, seeds: Sequence[int]) -> list[Record]:
    """What some audits of one world say."""
    world, (target, other) = world_of(name), SIDES[metric]
    least, lines = truth(world, metric, raise_only=raise_only), []
    for seed in seeds:
        started = time.process_time()
        repaired = RepairedClassifier(
            BlackBox(world.model, output="probability"), metric, blind=True, target=target,
            reference=other, do_no_harm=raise_only, random_state=seed,
        )  # fmt: skip
        people = world.sample(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FairmendWarning)
            price = repaired.price_of_blindness(**people, levels=())
        if price is None or price.furthest is None:
            continue
        gap, low, high = price.furthest
        lines.append({
            "world": name, "metric": metric, "raise_only": raise_only, "seed": seed,
            "people": int((people["sensitive_features"] == target).sum()),
            "truth": least, "estimate": gap, "covered": low <= least <= high,
            "below": least < low, "width": high - low, "cpu": time.process_time() - started,
        })  # fmt: skip
    return lines


def summary(lines: Sequence[Record]) -> list[Record]:
    """A row a world, metric and kind of rule."""
    rows: dict[tuple[str, str, bool], list[Record]] = {}
    for line in lines:
        rows.setdefault((line["world"], line["metric"], line["raise_only"]), []).append(line)
    return [
        {
            "world": world, "metric": metric, "raise_only": raise_only, "audits": len(some),
            **{name: float(np.mean([line[name] for line in some]))
               for name in ("truth", "estimate", "covered", "below", "width", "people", "cpu")},
            "off": float(np.mean([line["estimate"] - line["truth"] for line in some])),
            "spread": float(np.std([line["estimate"] for line in some])),
        }
        for (world, metric, raise_only), some in rows.items()
    ]  # fmt: skip


def name_of(one: Record) -> str:
    """A row, where bounds are listed."""
    return f"{one['world']}, {one['metric']}, {_rule(one)}"


def _rule(one: Record) -> str:
    return "raise only" if one["raise_only"] else "both ways"


def judge(one: Record) -> list[Check]:
    """The bounds of a row; coverage give or take two Monte Carlo errors."""
    slack = [2 * (share * (1 - share) / one["audits"]) ** 0.5 for share in COVERAGE]
    checks = [
        Check("covered", one["covered"], COVERAGE[0] - slack[0], at_least=True),
        Check("covered too often", one["covered"], COVERAGE[1] + slack[1]),
    ]
    if one["people"] >= LARGE_GROUP:
        checks.append(Check("off on average", abs(one["off"]), NEAR))
    return checks


def table(rows: Sequence[Record]) -> TextTable:
    """All rows."""
    return TextTable(
        "The furthest gap of any blind rule, estimated and true",
        ("<simulated data", "<metric", "<rule", "audits", "truth", "estimate", "off", "sd",
         "covered", "truth below", "width", "<bounds"),
        [
            (
                one["world"], one["metric"], _rule(one),
                f"{one['audits']}", f"{one['truth']:+.4f}", f"{one['estimate']:+.4f}",
                f"{one['off']:+.4f}", f"{one['spread']:.4f}", f"{one['covered']:.3f}",
                f"{one['below']:.3f}", f"{one['width']:.4f}", verdict(judge(one)),
            )
            for one in rows
        ],
    )  # fmt: skip


def run(audits: int, jobs: int) -> list[Record]:
    """Every cell."""
    todo: list[Task] = [
        (one_audit, (name, metric, raise_only, range(first, min(first + CHUNK, audits))))
        for name in CHOSEN for metric in SIDES for raise_only in (False, True)
        for first in range(0, audits, CHUNK)
    ]  # fmt: skip
    return summary(run_all(todo, jobs))


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line, run, print, write."""
    options = arguments_of(__doc__, arguments, "reach.json", splits=200)
    found = run(options.splits, options.jobs)
    write_json(options.out, {"splits": options.splits, "rows": found})
    print(table(found))
    return 0


if __name__ == "__main__":
    run_as_script(main)
