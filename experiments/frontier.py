"""How much accuracy and how many edits each part of the gap costs: repairs to every level.

    python experiments/frontier.py [--splits 20] [--jobs 2]

Each row of the paper's table, mended to 0, 25, ..., 100 % of its gap; gap, accuracy and people
edited on the holdout, averaged over the repair's own draws and over at most ten splits. Prints
tables and writes results/frontier.json; about two minutes on two cores.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from _shared import Record, arguments_of, run_all, run_as_script, split, write_json

from fairmend.tables import TextTable
from repair import METHODS, ROWS, repaired

LEVELS = (0.0, 0.25, 0.5, 0.75, 1.0)
MOST_SPLITS = 10
OF = ("least_change", "order", "transport")
"""The paper's own method knows no levels."""
FIGURES = ("gap", "accuracy", "edited")


def one_split(data: str, seed: int) -> list[Record]:
    """The frontiers of every row on one split."""
    here = split(data, seed)
    holdout = here.holdout
    return [
        {"row": row.name, "experiment": experiment, "seed": seed, **point}
        for row in ROWS
        if row.data == data
        for experiment in OF
        for point in repaired(row, experiment, here).frontier(
            holdout.X, holdout.y, sensitive_features=holdout.s, levels=LEVELS
        )
    ]


def run(splits: int, jobs: int) -> Record:
    """The mean frontier of every row and method."""
    splits = min(splits, MOST_SPLITS)
    todo = [(one_split, (data, seed)) for data in ("adult", "compas") for seed in range(splits)]
    points: dict[tuple[str, str, float], list[Record]] = {}
    for line in run_all(todo, jobs):
        points.setdefault((line["row"], line["experiment"], line["level"]), []).append(line)
    return {
        "splits": splits,
        "points": [
            {
                **{"row": row, "experiment": experiment, "level": level},
                **{name: float(np.mean([line[name] for line in lines])) for name in FIGURES},
            }
            for (row, experiment, level), lines in points.items()
        ],
    }


def tables(found: Record) -> list[TextTable]:
    """A line for each row and method."""
    cells: dict[tuple[str, str], list[str]] = {}
    for one in found["points"]:
        text = f"{one['gap']:+.4f}, {one['accuracy']:.4f}, {100 * one['edited']:.1f} %"
        cells.setdefault((one["row"], METHODS[one["experiment"]]), []).append(text)
    return [
        TextTable(
            f"Gap, accuracy and people edited as the level grows, over {found['splits']} splits",
            ("<row", "<repaired by", *(f"{100 * level:.0f} %" for level in LEVELS)),
            [(*names, *texts) for names, texts in cells.items()],
        )
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line, run, print, write."""
    options = arguments_of(__doc__, arguments, "frontier.json")
    found = run(options.splits, options.jobs)
    write_json(options.out, found)
    print(*tables(found), f"written to {options.out}", sep="\n\n")
    return 0


if __name__ == "__main__":
    run_as_script(main)
