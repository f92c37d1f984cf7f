"""The cells of the table of statements: which repair of which population, and how often.

``CORE`` has every metric with every method on one population each, often enough to judge how well
"expected on new data" covers. ``VARIED`` goes through groups, references, answers, weights and
inputs, a few repetitions a cell: it judges what is said about the audited people. ``CORNERS`` are
settings that few people combine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from _recount import parts_of
from _worlds import World

SIZES = (500, 2_000)
ODDS = "fnr, fpr"
METRICS = ("sp", "fnr", "fpr", "fdr", ODDS)
METHODS = ("least_change score", "least_change outcome", "least_change cost", "order", "transport",
           "paper", "two_sided")  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """One repair of one population."""

    metric: str
    method: str
    world: World
    reference: str = "named"
    target: str | None = None
    level: float = 1.0
    twist: str = ""
    """``missing``: some people have no group. ``zero``: some have weight 0. ``no y``: outcomes are
    not known."""
    options: tuple[tuple[str, Any], ...] = ()
    """Further settings of the repair."""
    sizes: tuple[int, ...] = (500,)
    repetitions: int = 6
    checks: tuple[str, ...] = ()
    """Further statements to check, in the first repetitions: report, frontier."""
    family: str = "varied"

    @property
    def name(self) -> str:
        world = self.world
        parts = [
            self.metric,
            self.method,
            f"{world.groups} groups",
            f"against {self.reference}",
            world.answers,
            world.kind,
            "weighted" if world.weighted else "",
            f"target {self.target}" if self.target else "",
            f"level {self.level:g}" if self.level != 1 else "",
            self.twist,
            *(f"{key}={value}" for key, value in self.options),
        ]
        return " | ".join(filter(None, parts))

    @property
    def named_reference(self) -> str:
        """The group that is best off in truth, where the reference is to be named."""
        return self.world.names[0 if self.metric == "fpr" else -1]

    @property
    def gaps(self) -> tuple[dict[str, float], ...]:
        """The gaps the repair is about, each a sum of rate gaps with weights."""
        if self.metric == "da":
            return ({"sp": 1.0},)
        return tuple(map(parts_of, self.metric.split(", ")))


def is_possible(metric: str, method: str, reference: str = "named") -> bool:
    """Whether the package offers the repair."""
    if metric == ODDS:
        return method == "least_change cost"
    return method != "two_sided" or (metric != "fdr" and reference != "rest")


# -------------------------------------------------------------------- the lists

_OFTEN = {
    "least_change score": 1_000, "least_change outcome": 200, "least_change cost": 200,
    "order": 300, "transport": 150, "paper": 150, "two_sided": 120,
}  # fmt: skip


def core() -> Iterator[Cell]:
    """Every metric by every method, two groups, at two sizes; continuous inputs where cheap.

    Repetitions go by what a repair takes: 10 to 300 milliseconds.
    """
    for metric in METRICS:
        for method in METHODS:
            if not is_possible(metric, method):
                continue
            slow = metric == ODDS or (metric, method) == ("fdr", "least_change cost")
            often = 120 if slow else _OFTEN[method]
            yield Cell(metric, method, World("fine"), sizes=SIZES, repetitions=often, family="core")
            if metric in ("sp", "fnr") and method in ("least_change score", "transport", "paper"):
                sizes = SIZES[:1] if method == "transport" else SIZES
                yield Cell(metric, method, World("normal"), sizes=sizes, repetitions=200,
                           family="core")  # fmt: skip


def blind() -> Iterator[Cell]:
    """One rule for everybody, without the group."""
    for metric in ("sp", "fnr", "fpr"):
        yield Cell(metric, "blind", World("fine"), sizes=SIZES, repetitions=60, family="core")
        yield Cell(metric, "blind", World("fine", 3), reference="best", checks=("report",))
        yield Cell(metric, "blind", World("table", 5, "labels"), reference="rest")
        yield Cell(metric, "blind", World("fine"), level=0.5, family="corner")
        yield Cell(metric, "blind", World("fine"), options=_HARMLESS[0], family="corner")
    yield Cell("sp", "blind", World("normal"), sizes=SIZES, repetitions=60, family="core")
    yield Cell(ODDS, "blind", World("fine"), family="corner")


_REFERENCES = ((2, "named"), (3, "named"), (3, "best"), (3, "rest"), (5, "named"), (5, "best"),
               (5, "rest"))  # fmt: skip
_READINGS = (
    ("scores", False, "normal"),
    ("labels", False, "table"),
    ("recorded", True, "table"),
    ("scores", True, "fine"),
    ("labels", True, "normal"),
    ("recorded", False, "fine"),
)


def varied() -> Iterator[Cell]:
    """Groups and references in full; answers, weights and inputs in turn."""
    turn = 0
    for metric in METRICS:
        for method in METHODS:
            for groups, reference in _REFERENCES:
                if not is_possible(metric, method, reference):
                    continue
                answers, weighted, kind = _READINGS[turn % len(_READINGS)]
                turn += 1
                if method in ("least_change score", "order") and answers != "scores":
                    answers = "scores"  # they rank by the model's score
                yield Cell(metric, method, World(kind, groups, answers, weighted),
                           reference=reference, checks=("report",))  # fmt: skip
        turn += 1  # another start for every metric


_FIXED = (("immutable", ("x0",)),)
"""The first input may not change, so that some gaps are out of reach."""
_HARMLESS = tuple((("do_no_harm", True), ("favorable_label", label)) for label in (1, 0))


def corners() -> Iterator[Cell]:
    """What few people combine."""
    two, three, five = World("fine"), World("fine", 3), World("table", 5)
    score, cost = "least_change score", "least_change cost"

    def corner(metric: str, method: str, world: World, **settings: Any) -> Cell:
        return Cell(metric, method, world, family="corner", **settings)

    for metric in ("sp", "fnr", "fpr", "fdr"):
        for method in METHODS:
            if method != "paper" and is_possible(metric, method):
                yield corner(metric, method, two, level=0.5, checks=("frontier",))
        yield corner(metric, score, three, reference="rest", level=0.5, checks=("frontier",))
        yield corner(metric, score, three, reference="rest", target="a")
        yield corner(metric, score, three, reference="best", twist="missing", checks=("report",))
        yield corner(metric, score, three, reference="best", twist="zero", checks=("report",))
        yield corner(metric, cost, World("table", 2, "soft"), checks=("frontier",))
        yield corner(metric, "transport", World("table", 2, "soft"))
        yield corner(metric, cost, World("table", 3, "soft"), reference="rest")
        yield corner(metric, cost, World("fine", 2, "soft", weighted=True))
        yield corner(metric, "transport", two, options=(("calibrate", "counterfactual"),))
        for method in METHODS:
            if method not in ("paper", "two_sided", "order"):
                yield corner(metric, method, World("fine", shift=1.4), options=_FIXED)
        for harmless in _HARMLESS:
            yield corner(metric, score, three, reference="best", options=harmless)
    for method in ("least_change outcome", cost, "order"):
        yield corner("fdr", method, World("normal"), options=_HARMLESS[0])
    for harmless in _HARMLESS:
        yield corner(ODDS, cost, World("normal"), options=harmless)
    yield corner("fnr, fdr", cost, two)
    yield corner("sp, fdr", cost, two)
    yield corner("sp, fnr, fpr", cost, World("table"))
    yield corner(ODDS, cost, three, reference="rest", level=0.5)
    yield corner(ODDS, cost, World("normal"), level=0.5)
    for world in (two, three):
        yield corner("da", score, world, reference="named")
        yield corner("da", "transport", world, reference="named")
        yield corner("0.5 fnr + 0.5 fpr", "transport", world, reference="named")
        yield corner("0.5 sp + 0.5 fnr", "transport", world, reference="named")
    for method in (score, "least_change outcome", cost, "order", "transport", "paper"):
        yield corner("sp", method, two, twist="no y", checks=("report",))
        yield corner("sp", method, three, reference="rest", twist="no y")
    for metric in ("sp", "fnr", "fpr"):
        yield corner(metric, "two_sided", five, reference="best", checks=("report", "frontier"))
        yield corner(metric, "two_sided", World("fine", 3, weighted=True), reference="named")
        yield corner(metric, "two_sided", three, reference="named", level=0.5)


def all_cells() -> dict[str, Cell]:
    """Every cell by its name."""
    return {cell.name: cell for cell in (*varied(), *corners(), *core(), *blind())}
