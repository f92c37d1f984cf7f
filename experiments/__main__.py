"""Everything the paper shows, its numbers beside ours: what `make reproduce` runs.

    python experiments [--splits 20] [--jobs 2] [--out results] [--docs]

Runs the experiments one after the other, prints every row and, at the end, how many bounds hold
and which fall short: that is a finding, and the status is 0 all the same. In ``--out`` it leaves
results.md with its charts (SVG), and results.json with all figures. ``--docs`` renews the page in
docs/ as well. About twenty minutes on two cores.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import blind
import counterfactuals
import frontier
import mixed
from _page import blind_failures, failures, write_page
from _shared import RESULTS, ROOT, Record, add_settings, checked, rounded, run_as_script, write_json

import repair
from fairmend.errors import require

NEEDED = {"altair": "plot", "vl_convert": "plot", "ot": "transport"}
PACKAGES = ("fairmend", "numpy", "pandas", "scikit-learn", "scipy")
RUN_ALONE = ("alternatives", "reach")
"""Experiments that take an hour: their last figures stay on the page."""
SCRIPTS = {script.__name__: script for script in (counterfactuals, repair, frontier, mixed, blind)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print, write; what is short of its bound is said and does not fail the run."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    add_settings(parser)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--docs", action="store_true", help="renew docs/results.md too")
    options = checked(parser, arguments)
    for module, extra in NEEDED.items():  # said now, not after minutes of work
        require(module, extra=extra, why="reproduce")
    started = time.perf_counter()
    results: Record = {}
    for name, script in SCRIPTS.items():
        print(f"\n== {name}", flush=True)
        results[name] = rounded(script.run(options.splits, options.jobs))
        write_json(options.out / f"{name}.json", results[name])  # what is found is kept
        for table in script.tables(results[name]):
            print(f"\n{table}", flush=True)
    print(f"\n{repair.NOTES}\n\n{blind.NOTES}")
    results["run"] = {
        "splits": options.splits,
        "jobs": options.jobs,
        "seconds": round(time.perf_counter() - started, 1),
        "cpu_seconds": round(cpu_seconds(), 1),
        "versions": {name: version(name) for name in PACKAGES},
    }
    before = json.loads((ROOT / "docs" / "results" / "results.json").read_text(encoding="utf-8"))
    results |= {name: before[name] for name in RUN_ALONE if name in before}
    places = [options.out] + ([ROOT / "docs"] if options.docs else [])
    for place in places:
        write_page(results, place / "results.md", place / "results")
    print(f"\n{failures(results)}\n\nWithout the group: {blind_failures(results)}")
    run = results["run"]
    print(f"\n{run['seconds']:.0f} s, {run['cpu_seconds']:.0f} s of processor time; written to "
          f"{', '.join(str(place / 'results.md') for place in places)}")  # fmt: skip
    return 0


def cpu_seconds() -> float:
    """Of this process and those it has ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


if __name__ == "__main__":
    run_as_script(main)
