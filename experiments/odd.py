"""Odd files, models, options, artifacts and calls: what becomes of each.

    python experiments/odd.py [--cases PATTERN] [--every N] [--jobs 2] [--write]

Each case has a process and a folder of its own. Either fairmend understands it, and then its
figures must be those counted by hand from the people meant, or it refuses with a sentence and an
exit code. A traceback, an abort, a hang, a half-written file or another figure is a finding: it is
listed, and the script exits with 1. `scripts/fuzz.py` and `experiments/forged.py` try single bytes.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import _odd_artifacts
import _odd_files
import _odd_library
import _odd_models
import _odd_options
from _odd_people import SCORED, Case, people
from _odd_run import judged
from _shared import RESULTS, run_all, run_as_script, write_json, write_text

from fairmend.tables import TextTable

PAGE = Path(__file__).resolve().parent.parent / "docs" / "quality.md"
MARKS = ("<!-- odd: made by experiments/odd.py --write -->", "<!-- odd: end -->")
BATCH = 20
FINE = ("same", "refused", "done")
Record = dict[str, Any]


def base() -> dict[str, Any]:
    """A repair of the plain file, its key, and what it decides about everybody."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "people.csv").write_text(_odd_files.PLAIN)
        for arguments in (
            ("key", "base.key"),
            ("repair", "people.csv", *SCORED, "--metric", "sp", "--key-file", "base.key",
             "--allow-partial", "-o", "base.fairmend"),
            ("apply", "base.fairmend", "people.csv", "--id", "no", "--key-file", "base.key", "-o",
             "out.csv"),
        ):  # fmt: skip
            subprocess.run([sys.executable, "-m", "fairmend", *arguments], cwd=folder, check=True,
                           capture_output=True)  # fmt: skip
        decided = [line.rsplit(",", 1)[1] for line in (folder / "out.csv").read_text().split()[1:]]
        expected = {row[0]: word for row, word in zip(people(), decided, strict=True)}
        return {
            "base.fairmend": (folder / "base.fairmend").read_bytes(),
            "base.key": (folder / "base.key").read_bytes(),
            "expected.json": json.dumps(expected).encode(),
        }


@lru_cache(maxsize=1)
def _listed(packed: tuple[tuple[str, bytes], ...]) -> tuple[Case, ...]:
    return all_cases(dict(packed))


def all_cases(made: dict[str, bytes]) -> tuple[Case, ...]:
    """Every case, beside the repair of the plain file."""
    parts = (_odd_files.cases, _odd_files.folders, _odd_models.cases, _odd_options.cases,
             _odd_artifacts.cases, _odd_library.cases)  # fmt: skip
    return tuple(case for part in parts for case in part(made))


def run_some(packed: tuple[tuple[str, bytes], ...], numbers: Sequence[int]) -> list[Record]:
    """Some cases, each in a process of its own."""
    import duckdb  # noqa: F401  what the children need, once
    import pandas  # noqa: F401
    import polars  # noqa: F401
    import sklearn.linear_model  # noqa: F401

    import fairmend.cli.main
    import fairmend.report.html  # noqa: F401

    every = _listed(packed)
    return [judged(every[number]) for number in numbers]


def run(pattern: str, jobs: int, every_nth: int = 1) -> list[Record]:
    """All cases whose kind and name match, or every so manieth of them."""
    packed = tuple(base().items())
    every = _listed(packed)
    wanted = [k for k, case in enumerate(every) if re.search(pattern, f"{case.kind} | {case.name}")]
    wanted = wanted[::every_nth]
    parts = [wanted[k : k + BATCH] for k in range(0, len(wanted), BATCH)]
    return run_all([(run_some, (packed, part)) for part in parts], jobs)


def table(found: Sequence[Record]) -> TextTable:
    """What happened, by kind."""
    kinds = dict.fromkeys(one["kind"] for one in found)
    lines = []
    for kind in (*kinds, "all"):
        outcomes = Counter(one["outcome"] for one in found if kind in (one["kind"], "all"))
        findings = sum(n for outcome, n in outcomes.items() if outcome not in FINE)
        counts = (sum(outcomes.values()), outcomes["same"] + outcomes["done"],
                  outcomes["refused"], findings)  # fmt: skip
        lines.append((kind, *(f"{count:,}" for count in counts)))
    return TextTable("Odd inputs", ("<kind", "tried", "understood", "refused", "findings"), lines)


def findings(found: Sequence[Record]) -> TextTable:
    """What should not have happened."""
    lines = [(one["kind"], one["name"], one["outcome"], one["code"])
             for one in found if one["outcome"] not in FINE]  # fmt: skip
    return TextTable("Findings", ("<kind", "<case", "<what happened", "code"),
                     [tuple(map(str, line)) for line in lines])  # fmt: skip


def forged_line(path: Path) -> str:
    """What the last sweep of forged bytes found; empty if there was none."""
    if not path.exists():
        return ""
    swept = json.loads(path.read_text(encoding="utf-8"))
    counts = (swept[name] for name in ("tried", "refused", "loaded and sound", "anything else"))
    tried, refused, sound, other = (f"{count:,}" for count in counts)
    return (
        f"Forged bytes: {tried} changes of single bytes of {len(swept['kinds'])} kinds of "
        f"artifacts, with hashes that fit (`python experiments/forged.py`): {refused} refused, "
        f"{sound} loaded and sound, {other} anything else."
    )


NOTES = """\
understood: the figures, or everybody's decisions, equal those counted by hand. refused: one
sentence on standard error, its exit code, and no output file. findings: anything else, such as a
traceback, an abort, more than a minute, a wrong figure, a half-written file."""


def write_section(found: Sequence[Record], page: Path = PAGE) -> None:
    """Put the table between its marks."""
    text = page.read_text(encoding="utf-8")
    start, end = (text.index(mark) for mark in MARKS)
    shown = [table(found)] + ([findings(found)] if findings(found).cells else [])
    forged = forged_line(RESULTS / "forged.json")
    body = "\n\n".join(filter(None, [*(one.markdown() for one in shown), NOTES, forged]))
    write_text(page, f"{text[:start]}{MARKS[0]}\n\n{body}\n\n{text[end:]}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line, try, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--cases", default="", metavar="PATTERN", help="kinds and names, a regex")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only every Nth case")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--write", action="store_true", help="renew docs/quality.md")
    parser.add_argument("--out", type=Path, default=RESULTS / "odd.json")
    options = parser.parse_args(arguments)
    if options.write and (options.cases or options.every > 1):
        parser.error("--write needs the whole run")
    found = run(options.cases, options.jobs, options.every)
    write_json(options.out, {"cases": found})
    wrong = findings(found)
    print(table(found), *([wrong] if wrong.cells else []), NOTES, sep="\n\n")
    if options.write:
        write_section(found)
    return 1 if wrong.cells else 0


if __name__ == "__main__":
    run_as_script(main)
