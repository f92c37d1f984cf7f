"""What fairmend says, against simulated truth: every statement of every repair, and of the audit.

    python experiments/truth.py [--cells PATTERN] [--repetitions N] [--quick] [--jobs 2] [--write]

Populations are simulated, so that what is true of new people is known: P(Y=1 | x) is a formula, and
the gap a repair leaves is a sum over all possible people. For every cell, a metric repaired by a
method in one population, it counts

    false     statements about the audited people that a recount of them does not bear out
    covered   how often "expected on new data" holds the gap that new people have
    gap left  the mean gap that new people have, which is the bias of the repair

and, besides, how often intervals cover, tests reject what is so, and certificates are wrong. All
plans of a repair are in force at once wherever a gap is counted. ``--write`` renews the section of
docs/quality.md. Seeds are 0, 1, 2, ...; ``--cells 'fdr.*order'`` runs the cells whose name has a
match. Expect 25 minutes on two idle cores.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from _cells import Cell, all_cells
from _claims import all_claims, tried
from _recount import Count, parts_of
from _shared import RESULTS, ROOT, Record, run_all, run_as_script, write_json, write_text
from _statements import Judge, about_the_repair, chances, fit, harmed, people_of

from fairmend.errors import FairmendError
from fairmend.tables import UNKNOWN, TextTable

PAGE = ROOT / "docs" / "quality.md"
MARKS = ("<!-- truth: made by experiments/truth.py --write -->", "<!-- /truth -->")
COVERED = (0.92, 0.99)
"""What "expected on new data" must cover."""
BATCH = 50
"""Repetitions a task."""
REPORTED = 2
"""Reports and frontiers are checked in the first repetitions of a cell."""
CLOSER = 1
"""Other levels are tried for this many repairs a task that say that the gap cannot be closed."""
QUICK = (
    "sp | least_change score | 2 groups | against named | scores | fine",
    "sp | paper | 2 groups | against named | scores | fine",
    "fdr | least_change score | 2 groups | against named | scores | fine",
    "sp | least_change score | 3 groups | against rest | scores | fine | target a",
    "audit finds a gap where there is none | 2 groups against best",
)


# -------------------------------------------------------------------- a cell


def run_cell(name: str, n: int, first: int, last: int) -> list[Record]:
    """The counts of some repetitions of a repair."""
    cell = all_cells()[name]
    truth = cell.world.everybody()
    new = Count(truth.y, truth.groups, truth.w)
    found = _empty(cell, n, last - first)
    tries, started = CLOSER, time.process_time()
    for seed in range(first, last):
        people = people_of(cell, n, seed)
        try:
            repair = fit(cell, people)
        except FairmendError as error:
            found["refused"][f"{type(error).__name__}: {error.what} {error.must}"] += 1
            continue
        judge, after = Judge(cell, people, repair), chances(repair, truth)
        false = about_the_repair(judge) if seed < REPORTED else []
        if dict(cell.options).get("do_no_harm") and (
            harmed(cell, people.own, judge.after) or harmed(cell, truth.own, after)
        ):
            false.append("do_no_harm, but somebody loses a favourable decision")
        for plan in repair.plans_.values():
            stuck = plan.status.name in ("UNREACHABLE", "INFEASIBLE")
            false += judge.false_statements(plan, other_levels=tries > 0)
            if plan.status.name == "INFEASIBLE" and tries > 0:
                found["tried_again"] += 1
                found["lower_is_better"] += judge.another_level_leaves_less(plan)
            tries -= stuck
            found["plans"] += 1
            found["statuses"][plan.status.name] += 1
            found["wider"] += bool(judge.wider(plan))
            _expected(found, cell, plan, new=new, own=truth.own, after=after)
        found["false_repairs"] += bool(false)
        for what in dict.fromkeys(false):
            found["false"][what] += 1
            found["seed"].setdefault(what, seed)
    found["seconds"] = time.process_time() - started
    return [found]


def _empty(cell: Cell, n: int, repetitions: int) -> Record:
    return {
        "cell": cell.name, "n": n, "repetitions": repetitions, "plans": 0, "statuses": Counter(),
        "false": Counter(), "false_repairs": 0, "seed": {}, "wider": 0, "refused": Counter(),
        "covered": 0, "before": [], "left": [], "seconds": 0.0, "tried_again": 0,
        "lower_is_better": 0,
    }  # fmt: skip


def _expected(
    found: Record, cell: Cell, plan: Any, *, new: Count, own: np.ndarray, after: np.ndarray
) -> None:
    """Whether new people's gap is where it is expected: of several gaps, the one that is named."""
    outlook, target, baseline = plan.outlook, plan.target, plan.baseline
    one = cell.gaps[0] if outlook.metric.startswith("da") else parts_of(outlook.metric)
    left = new.summed(one, after, target, baseline)
    side = -1.0 if outlook.gap_before < 0 else 1.0  # two-sided, the better off have a plan too
    found["before"].append(side * new.summed(one, own, target, baseline))
    found["left"].append(side * left)
    found["covered"] += bool(outlook.expected_low <= left <= outlook.expected_high)


def run_claim(name: str, n: int, first: int, last: int) -> list[Record]:
    """How often a statement was made, and how often it was so."""
    claim, started = all_claims()[name], time.process_time()
    said = [one for seed in range(first, last) for one in tried(claim, n, seed)]
    return [{"claim": name, "n": n, "repetitions": last - first, "said": len(said),
             "true": sum(said), "seconds": time.process_time() - started}]  # fmt: skip


def merged(lines: Iterable[Record]) -> list[Record]:
    """One record a cell and size, from those of its batches."""
    by_key: dict[tuple[str, int], Record] = {}
    for line in lines:
        key = (line.get("cell") or line["claim"], line["n"])
        if key not in by_key:
            by_key[key] = dict(line)
            continue
        known = by_key[key]
        for field, value in line.items():
            if field == "seed":
                known[field] = value | known[field]
            elif field not in ("cell", "claim", "n"):
                known[field] = known[field] + value
    return list(by_key.values())


# -------------------------------------------------------------------- judging


def margin(share: float, repetitions: int) -> float:
    """Two Monte Carlo standard errors of a share, at the bound it is held to."""
    return 2 * float(np.sqrt(share * (1 - share) / max(1, repetitions)))


def within(share: float, bounds: tuple[float, float], repetitions: int) -> bool:
    """Whether a share may be within its bounds, as far as so many repetitions can tell."""
    low, high = bounds
    return low - margin(low, repetitions) <= share <= high + margin(high, repetitions)


def fitted(one: Record) -> int:
    """Repetitions that ended in a repair."""
    return int(one["repetitions"] - sum(one["refused"].values()))


def coverage_of(records: Sequence[Record]) -> str:
    """The share covered, marked where it is outside its bounds; plans of one repair are not many.

    Fewer than 100 repairs tell next to nothing of a share so near 1.
    """
    plans, repairs = (sum(map(count, records)) for count in (lambda one: one["plans"], fitted))
    if plans == 0:
        return UNKNOWN
    share = sum(one["covered"] for one in records) / plans
    return marked(share, COVERED, repairs) if repairs >= 100 else f"({share:.2f})"


def marked(share: float, bounds: tuple[float, float], repetitions: int) -> str:
    """A share, marked where it is outside its bounds."""
    return f"{'' if within(share, bounds, repetitions) else 'short: '}{share:.3f}"


# -------------------------------------------------------------------- tables


def core_table(found: Sequence[Record]) -> TextTable:
    """New people: what is expected, and what comes."""
    cells = all_cells()
    lines = []
    for one in found:
        cell = cells.get(one.get("cell", ""))
        if cell is None or cell.family != "core" or one["plans"] == 0:
            continue
        left = np.array(one["left"])
        left = left[~np.isnan(left)]
        error = 200 * left.std() / np.sqrt(len(left))
        lines.append(
            (cell.metric, cell.method, cell.world.kind, f"{one['n']:,}", f"{one['plans']:,}",
             f"{100 * np.nanmean(one['before']):+.1f}", f"{100 * left.mean():+.2f} ± {error:.2f}",
             coverage_of([one]))
        )  # fmt: skip
    return TextTable(
        "New people: the mean gap before and left (points), and how often it is as expected",
        ("<metric", "<method", "<inputs", "n", "repairs", "before", "left", "covered"),
        lines,
    )


DIMENSIONS = {
    "metric and method": lambda cell: f"{cell.metric} by {cell.method}",
    "groups and reference": lambda cell: f"{cell.world.groups} groups against {cell.reference}",
    "answers": lambda cell: cell.world.answers,
    "inputs": lambda cell: cell.world.kind,
    "weights": lambda cell: "weighted" if cell.world.weighted else "not weighted",
    "settings": lambda cell: (
        "; ".join(
            filter(
                None,
                (
                    f"level {cell.level:g}" if cell.level != 1 else "",
                    "target named" if cell.target else "",
                    cell.twist,
                    *(f"{key}={value}" for key, value in cell.options),
                ),
            )
        )
        or "usual"
    ),
}


def statement_tables(found: Sequence[Record]) -> list[TextTable]:
    """The audited people: false statements, by one side of the cells at a time."""
    cells = all_cells()
    tables = []
    for dimension, side in DIMENSIONS.items():
        by_side: dict[str, list[Record]] = {}
        for one in found:
            if "cell" in one:
                by_side.setdefault(side(cells[one["cell"]]), []).append(one)
        lines = []
        for value, records in by_side.items():
            statuses = sum((Counter(one["statuses"]) for one in records), Counter())
            false = sum(one["false_repairs"] for one in records)
            lines.append(
                (
                    value,
                    f"{len({one['cell'] for one in records})}",
                    f"{sum(map(fitted, records)):,}",
                    ", ".join(f"{name.lower()} {k:,}" for name, k in statuses.most_common()),
                    f"{sum(sum(one['refused'].values()) for one in records):,}",
                    f"{sum(one['wider'] for one in records):,}",
                    f"short: {false:,}" if false else "0",
                    coverage_of(records),
                )
            )
        tables.append(
            TextTable(
                f"Audited people, by {dimension}",
                (
                    f"<{dimension}",
                    "cells",
                    "repairs",
                    "<statuses",
                    "refused",
                    "wider",
                    "false",
                    "covered",
                ),
                lines,
            )
        )
    return tables


def false_table(found: Sequence[Record]) -> TextTable:
    """Every kind of false statement, where it is most frequent, and a seed that shows it."""
    kinds: dict[str, list[Record]] = {}
    for one in found:
        for what in one.get("false", ()):
            kinds.setdefault(what, []).append(one)
    lines = []
    for what, records in sorted(kinds.items()):
        worst = max(records, key=lambda one: one["false"][what] / one["repetitions"])
        lines.append(
            (what, f"{sum(one['false'][what] for one in records):,}", f"{len(records)}",
             worst["cell"], f"{worst['n']:,}",
             f"{worst['false'][what]} of {worst['repetitions']}", f"{worst['seed'][what]}")
        )  # fmt: skip
    return TextTable(
        "False statements about the audited people",
        ("<statement", "repairs", "cells", "<most often in", "n", "there", "seed"),
        lines,
    )


def infeasible_line(found: Sequence[Record]) -> str:
    """How often a lower level would have left less of gaps that cannot all be closed."""
    tried, better = (sum(one.get(name, 0) for one in found) for name in
                     ("tried_again", "lower_is_better"))  # fmt: skip
    return (
        f"Of {tried:,} plans for several gaps that cannot all be closed, {better:,} leave more "
        "than the same repair at another level: such a plan says that it is the best of those "
        "tried, not of all."
    )


def claims_table(found: Sequence[Record]) -> TextTable:
    """Intervals, tests, certificates, proxies."""
    known = all_claims()
    lines = []
    for one in found:
        if "claim" in one:
            claim = known[one["claim"]]
            what, _, where = claim.name.partition(" | ")
            share = one["true"] / one["said"] if one["said"] else float("nan")
            bounds = f"{claim.low:g} to {claim.high:g}"
            lines.append((what, where, f"{one['n']:,}", f"{one['said']:,}", bounds,
                          marked(share, (claim.low, claim.high), one["repetitions"])))  # fmt: skip
    return TextTable(
        "Audits and explanations",
        ("<statement", "<population", "n", "said", "bounds", "share"),
        lines,
    )


def refusals_table(found: Sequence[Record]) -> TextTable:
    """What was refused, which is no statement about people; do_no_harm refuses on purpose."""
    every: Counter[str] = Counter()
    for one in found:
        every.update(one.get("refused", {}))
    return TextTable(
        "Refused", ("<error", "repairs"), [(what, f"{k:,}") for what, k in every.most_common()]
    )


def tables(found: Record) -> list[TextTable]:
    """All that there is to show; a table without lines is left out."""
    rows = found["rows"]
    every = [core_table(rows), *statement_tables(rows), false_table(rows), claims_table(rows),
             refusals_table(rows)]  # fmt: skip
    return [table for table in every if table.cells]


def shortfalls(found: Record) -> int:
    """How many lines of the tables are short."""
    texts = (cell for table in tables(found)[:-1] for line in table.cells for cell in line)
    return sum(text.startswith("short:") for text in texts)


NOTES = """\
before, left: gaps in points, mean over repetitions with two standard errors; of several gaps the
one that the plan names. covered: how often the gap among new people is in "expected on new data";
it must be in .92 to .99, plus or minus two Monte Carlo standard errors; in brackets: fewer than 100
repairs, not judged. false: repairs with a statement that a recount contradicts. A gap is closed if
it is within half a person of the smaller denominator. wider: plans that leave a wider gap than
before, and must say so. refused: no repair, with an error. short: outside its bounds."""


# -------------------------------------------------------------------- running


def run(pattern: str, repetitions: int | None, jobs: int, *, quick: bool = False) -> Record:
    """All cells and claims whose name has a match."""
    todo = []
    for runner, listed in ((run_cell, all_cells()), (run_claim, all_claims())):
        for name, one in listed.items():
            if (quick and name not in QUICK) or not re.search(pattern, name):
                continue
            for n in one.sizes[:1] if quick else one.sizes:
                often = (4 if quick else repetitions) or one.repetitions
                todo += [(runner, (name, n, first, min(first + BATCH, often)))
                         for first in range(0, often, BATCH)]  # fmt: skip
    started = time.perf_counter()
    rows = merged(run_all(todo, jobs))
    return {"rows": rows, "seconds": time.perf_counter() - started}


def write_section(found: Record, page: Path = PAGE) -> None:
    """Put the tables between their marks."""
    text = page.read_text(encoding="utf-8")
    start, end = (text.index(mark) for mark in MARKS)
    parts = [f"**{table.title}**\n\n{table.markdown()}" for table in tables(found)]
    repetitions = sum(one["repetitions"] for one in found["rows"])
    said = f"{repetitions:,} simulated audits; {shortfalls(found)} lines are short."
    body = "\n\n".join([said, *parts, infeasible_line(found["rows"]), NOTES])
    write_text(page, f"{text[:start]}{MARKS[0]}\n\n{body}\n\n{text[end:]}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line, run, print, write; what is short does not fail the run."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--cells", default="", metavar="PATTERN", help="names to run, a regex")
    parser.add_argument("--repetitions", type=int, help="of every cell; by default its own")
    parser.add_argument("--quick", action="store_true", help="a few cells, four repetitions")
    parser.add_argument("--jobs", type=int, default=2, help="processes, one thread each")
    parser.add_argument("--write", action="store_true", help="renew docs/quality.md")
    parser.add_argument("--out", type=Path, default=RESULTS / "truth.json")
    options = parser.parse_args(arguments)
    if options.write and (options.cells or options.quick or options.repetitions):
        parser.error("--write needs the whole run")
    found = run(options.cells, options.repetitions, 1 if options.quick else options.jobs,
                quick=options.quick)  # fmt: skip
    write_json(options.out, found)
    print(*tables(found), infeasible_line(found["rows"]), NOTES, sep="\n\n")
    print(f"\n{shortfalls(found)} lines are short; {found['seconds']:.0f} s")
    if options.write:
        write_section(found)
    return 0


def load(path: Path) -> Record:
    """The figures of an earlier run."""
    found: Record = json.loads(path.read_text(encoding="utf-8"))
    return found


if __name__ == "__main__":
    run_as_script(main)
