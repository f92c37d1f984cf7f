"""The people behind every odd input: a small scored file whose gaps are counted here by hand.

An odd file, model or call either means these people, and then the figures must be theirs, or it
must be refused. Nothing here uses the package.
"""

from __future__ import annotations

import csv
import io
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

COLUMNS = ("no", "age", "income", "job", "sex", "paid", "score")
PEOPLE = 160
Row = tuple[str, ...]


def people() -> list[Row]:
    """Rows as a CSV has them: id, three inputs, group, outcome, and the model's score."""
    rng, rows = random.Random(1), []
    for number in range(PEOPLE):
        sex = rng.choice("fm")
        age, income = rng.randint(18, 79), round(rng.gauss(2_600 if sex == "f" else 3_000, 800), 2)
        merit = (income - 2_800) / 700 + (age - 45) / 40
        chance = 1 / (1 + math.exp(-merit))
        rows.append(
            (
                f"{number:04d}",
                f"{age}",
                f"{income:.2f}",
                rng.choice(["permanent", "temp", "none"]),
                sex,
                "yes" if rng.random() < chance else "no",
                f"{chance:.3f}",
            )
        )
    return rows


def score_of(age: float, income: float) -> float:
    """The vendor's formula, for odd models; the file has it rounded."""
    return 1 / (1 + math.exp(-((income - 2_800) / 700 + (age - 45) / 40)))


def gaps(rows: Sequence[Row]) -> dict[str, float]:
    """What sex f has more of than sex m, counted."""
    found = {}
    for metric, event, condition in (
        ("sp", lambda h, y: not h, lambda h, y: True),
        ("fnr", lambda h, y: not h, lambda h, y: y),
        ("fpr", lambda h, y: h, lambda h, y: not y),
        ("fdr", lambda h, y: not y, lambda h, y: h),
    ):
        rates = []
        for sex in "fm":
            pairs = [(float(r[6]) > 0.5, r[5] == "yes") for r in rows if r[4] == sex]
            over = [(h, y) for h, y in pairs if condition(h, y)]
            rates.append(sum(event(h, y) for h, y in over) / len(over))
        found[metric] = rates[0] - rates[1]
    return found


def as_csv(
    rows: Sequence[Row], *, separator: str = ",", newline: str = "\n", quoting: int = 0
) -> str:
    """Plain text, with a header."""
    out = io.StringIO()
    writer = csv.writer(out, delimiter=separator, lineterminator=newline, quoting=quoting)
    writer.writerow(COLUMNS)
    writer.writerows(rows)
    return out.getvalue()


def with_cells(column: str, change: Callable[[str], str], every: int = 1) -> list[Row]:
    """These people with every so manieth cell of a column written otherwise."""
    place = COLUMNS.index(column)
    return [
        (*row[:place], change(row[place]), *row[place + 1 :]) if k % every == 0 else row
        for k, row in enumerate(people())
    ]


def without(every: int) -> list[Row]:
    """These people but for every so manieth."""
    return [row for k, row in enumerate(people()) if k % every != 0]


NAMED = ("--label", "paid", "--positive", "yes", "--group", "sex", "--id", "no")
SCORED = (*NAMED, "--predictions", "score")


@dataclass(frozen=True)
class Case:
    """One odd thing: what is prepared, what is called, and what may come of it."""

    kind: str
    name: str
    call: Any
    """Arguments of the command line, or a function of the library."""
    files: dict[str, Any] = field(default_factory=dict)
    """What lies in the folder: text, bytes, or a function that makes it."""
    means: Sequence[Row] | None = ()
    """The people it means; empty: those of `people`. None: it means nobody, and must be refused."""
    must: str = "either"
    """``same``: it is to be understood. ``refused``: it is not. ``either``: right, or a clear no.
    ``done``: to end without an error, whatever it prints. ``any``: no figure is right."""
    codes: tuple[int, ...] = (2, 3, 4, 5)
    """The exit codes that are a refusal."""
    output: str | None = None
    """A file that is there if and only if the call succeeded."""
    stdin: bytes = b""
    environment: dict[str, str] = field(default_factory=dict)
