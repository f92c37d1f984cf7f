"""The paper's tables and figures with our numbers beside them: runs the experiments of a checkout.

They are no part of the installed package: they need its source, and take minutes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from fairmend.errors import DataError

__all__ = ["reproduce"]

_CHECKOUT = Path(__file__).resolve().parents[3]


def reproduce(
    splits: int = 20,
    jobs: int = 2,
    out: str | os.PathLike[str] = "results",
    *,
    checkout: str | os.PathLike[str] = _CHECKOUT,
) -> int:
    """Run every experiment, print its tables, and write results.md, its charts and figures.

    ``splits`` random splits on ``jobs`` processes; the files go to the folder ``out``. Gives the
    exit status of the run, 0 if it came to its end, whether or not every bound held.
    """
    experiments = Path(checkout) / "experiments"
    if not (experiments / "__main__.py").is_file():
        raise DataError(
            "reproduce",
            "needs a checkout of fairmend's source, where the experiments are",
            f"there is no folder {str(experiments)!r}",
            "Clone the repository and run `make reproduce` in it.",
        )
    command = [sys.executable, str(experiments), "--splits", str(splits), "--jobs", str(jobs)]
    command += ["--out", str(Path(out).resolve())]
    try:
        return subprocess.run(command, check=False).returncode
    except KeyboardInterrupt:  # the experiments were told as well, and have stopped
        return 130
