"""``fairmend reproduce``: the paper's tables and figures with our numbers beside them.

The experiments are no part of the installed package: they need its source, and take minutes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

from fairmend.cli import options as o
from fairmend.cli.output import print_json
from fairmend.errors import check

_CHECKOUT = Path(__file__).resolve().parents[3]


def reproduce(
    splits: Annotated[int, o.option("Random splits of the data.", "N")] = 20,
    jobs: Annotated[int, o.option("Processes at a time.", "N")] = 2,
    out: Annotated[str, o.option("Where the results go.", "FOLDER")] = "results",
    as_json: o.AsJson = False,
) -> None:
    """Run the paper's experiments and compare its numbers with ours; takes minutes.

    Needs a clone of fairmend's repository.
    """
    sys.stdout.flush()
    code = run_experiments(splits, jobs, out)
    if as_json:
        print_json("fairmend.reproduce/1", {"folder": out, "status": code})
    sys.exit(code)


def run_experiments(
    splits: int = 20,
    jobs: int = 2,
    out: str | os.PathLike[str] = "results",
    *,
    checkout: str | os.PathLike[str] = _CHECKOUT,
) -> int:
    """Run every experiment and write results.md, its charts and figures to the folder ``out``.

    Gives the exit status of the run, 0 if it came to its end, whether or not every bound held.
    """
    experiments = Path(checkout) / "experiments"
    check(
        (experiments / "__main__.py").is_file(),
        "reproduce",
        "needs a clone of fairmend's repository, where the experiments are",
        f"there is no folder {str(experiments)!r}",
        "Clone the repository and run `make reproduce` in it.",
    )
    command = [sys.executable, str(experiments), "--splits", str(splits), "--jobs", str(jobs)]
    command += ["--out", str(Path(out).resolve())]
    try:
        return subprocess.run(command, check=False).returncode
    except KeyboardInterrupt:  # the experiments were told as well, and have stopped
        return 130
