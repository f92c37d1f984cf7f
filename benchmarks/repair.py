"""Mending a model of a million people, side by side with its peer in one run.

    python benchmarks/repair.py [--rows 1000000] [--repeats 5] [--out results/repair_speed.json]
    python benchmarks/repair.py --mixed [--repeats 3] [--data FOLDER]
    python benchmarks/repair.py --odd

The people: rows of Adult drawn with replacement, a few of their entries mistyped, and two noisy
columns more: 18 binary columns and some 11,000 distinct rows. The model is a logistic regression
fitted on 20,000 others. The peer is fairlearn's ThresholdOptimizer (demographic parity, prefit), on
the same arrays. What is timed is the CPU time of this process over all its threads, the best of
the repeats, in interleaved rounds; memory is the peak of a fresh process beyond what it held before
the call. A model that counts shows that ours is asked about distinct rows only.

Exits with 1 if a bar is missed: fit at most 0.4 of fairlearn's time with scores and 0.75 with
labels only, predict (the model's own time included) 0.8, extra memory 0.6; the blind fit with
labels only at most 1.5 of the time of the one that reads groups.

``--mixed``: raw Adult, 24,000 people to audit and 16,281 new ones, gradient boosting behind a
pipeline; every kind of repair beside fairlearn, the model's own time included on both sides. CPU
seconds on one thread, the median of the repeats. ``--odd``: fits of odd shape, in seconds.
"""

from __future__ import annotations

import argparse
import gc
import os
import platform
import subprocess
import sys
import time
import tracemalloc
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from _mixed import (
    DATA,
    IMMUTABLE,
    ONE_WAY,
    OddCase,
    Part,
    Parts,
    adult_or_alike,
    boosting,
    odd_cases,
)
from _results import write_json
from fairlearn.postprocessing import ThresholdOptimizer
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from fairmend import FairmendWarning, datasets
from fairmend.classifier import RepairedClassifier
from fairmend.tables import TextTable

MISTYPED = 0.005
LEARNT_FROM = 20_000
SMALL = 2_000
"""Rows of a call that comes before a measured one, so that imports are nobody's fault."""
ASKED_TWICE = 64
"""How many rows an audit may put to the model again, to see whether it stands by its answers."""
RSS_UNIT = 1024


class Pair(NamedTuple):
    """Two contestants and the most that ours may take of theirs."""

    what: str
    ours: str
    theirs: str
    bar: float
    memory_bar: float | None = 0.6


PAIRS = (
    Pair("fit, with scores", "fit scores", "fairlearn fit scores", 0.4),
    Pair("fit, labels only", "fit labels", "fairlearn fit labels", 0.75),
    Pair("blind fit, labels only, beside fit", "fit blind", "fit labels", 1.5, None),
    Pair("predict, scores, by id", "predict scores", "fairlearn predict scores", 0.8),
    Pair("predict, scores, no ids", "predict without ids", "fairlearn predict scores", 0.8),
    Pair("predict, labels, by id", "predict labels", "fairlearn predict labels", 0.8),
)


class People(NamedTuple):
    """Inputs, outcomes and groups."""

    X: np.ndarray
    y: np.ndarray
    s: np.ndarray

    def few(self) -> People:
        return People(*(part[:SMALL] for part in self))


class Seconds(NamedTuple):
    """What a call takes."""

    cpu: float
    wall: float


def people(rows: int, seed: int = 0) -> People:
    """As many as asked for; nobody's entries are quite free of typing errors."""
    adult = datasets.load_adult(backend="numpy")
    rng = np.random.default_rng(seed)
    who = rng.integers(len(adult.y), size=rows)
    y = adult.y[who].astype(np.int64)
    known = adult.X.shape[1]
    X = np.empty((rows, known + 2), np.int8)
    X[:, :known] = adult.X[who]
    X[:, known] = rng.random(rows) < 0.05 + 0.1 * y
    X[:, known + 1] = rng.random(rows) < 0.02 + 0.05 * X[:, 0]
    wrong = rng.binomial(rows * known, MISTYPED)
    X[rng.integers(rows, size=wrong), rng.integers(known, size=wrong)] ^= 1
    return People(X, y, adult.sensitive_features[who])


def vendor() -> LogisticRegression:
    """The model to be mended."""
    learnt = people(LEARNT_FROM, seed=1)
    return LogisticRegression(C=100, max_iter=1_000).fit(learnt.X, learnt.y)


def mended(model: Any, data: People, *, blind: bool = False) -> RepairedClassifier:
    """Ours, statistical parity."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairmendWarning)
        repaired = RepairedClassifier(model, "sp", blind=blind, random_state=0)
        return repaired.fit(data.X, data.y, sensitive_features=data.s)


def optimised(model: Any, method: str, data: People) -> ThresholdOptimizer:
    """Theirs, demographic parity."""
    optimizer = ThresholdOptimizer(
        estimator=model, constraints="demographic_parity", prefit=True, predict_method=method
    )
    return optimizer.fit(data.X, data.y, sensitive_features=data.s)


def contestant(name: str, model: LogisticRegression, data: People) -> Callable[[People], Any]:
    """What is to be measured, as a function of people; what it needs is made ready before."""
    match name:
        case "fit scores":
            return lambda some: mended(model, some)
        case "fit labels":
            return lambda some: mended(model.predict, some)
        case "fit blind":
            return lambda some: mended(model.predict, some, blind=True)
        case "fairlearn fit scores":
            return lambda some: optimised(model, "predict_proba", some)
        case "fairlearn fit labels":
            return lambda some: optimised(model, "predict", some)
        case "predict scores" | "predict labels":
            ours = mended(model if name.endswith("scores") else model.predict, data)
            ids = np.arange(len(data.y))
            return lambda some: ours.predict(
                some.X, sensitive_features=some.s, ids=ids[: len(some.y)]
            )
        case "predict without ids":
            ours = mended(model, data)
            return lambda some: ours.predict(some.X, sensitive_features=some.s)
        case "fairlearn predict scores" | "fairlearn predict labels":
            method = "predict_proba" if name.endswith("scores") else "predict"
            theirs = optimised(model, method, data)
            return lambda some: theirs.predict(some.X, sensitive_features=some.s, random_state=0)
    raise ValueError(name)


def names() -> list[str]:
    """Every contestant once."""
    return list(dict.fromkeys(name for pair in PAIRS for name in (pair.ours, pair.theirs)))


def seconds_of(call: Callable[[], Any]) -> Seconds:
    """CPU time over all threads, and time by the clock."""
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return Seconds(time.process_time() - cpu, time.perf_counter() - wall)


def measure(data: People, model: LogisticRegression, repeats: int) -> dict[str, Seconds]:
    """Seconds by contestant, who take turns."""
    ready = {name: contestant(name, model, data) for name in names()}
    for call in ready.values():
        call(data.few())
    taken: dict[str, list[Seconds]] = {name: [] for name in ready}
    for _ in range(repeats):
        for name, call in ready.items():
            taken[name].append(seconds_of(lambda call=call: call(data)))
    return {name: Seconds(*map(min, zip(*times, strict=True))) for name, times in taken.items()}


# -------------------------------------------------------------------- memory


def extra_memory(name: str, rows: int) -> float:
    """Megabytes at the peak of one call, in a process of its own."""
    command = [sys.executable, __file__, "--rows", str(rows), "--memory-of", name]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout.split()[-1])


def peak_of(name: str, rows: int) -> float:
    """The same, in this process: resident memory on Linux, what Python was asked for elsewhere."""
    data, model = people(rows), vendor()
    call = contestant(name, model, data)
    call(data.few())
    gc.collect()
    reset, status = Path("/proc/self/clear_refs"), Path("/proc/self/status")
    if not (reset.exists() and status.exists()):
        tracemalloc.start()
        before, _ = tracemalloc.get_traced_memory()
        call(data)
        return (tracemalloc.get_traced_memory()[1] - before) / 1e6
    reset.write_text("5", encoding="ascii")  # the peak is now what is held at present
    before = _resident("VmHWM", status)
    call(data)
    return (_resident("VmHWM", status) - before) * RSS_UNIT / 1e6


def _resident(field: str, status: Path) -> int:
    lines = status.read_text(encoding="ascii", errors="replace").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


# -------------------------------------------------------------------- right answers


class Counting:
    """A model that counts the rows it is asked about."""

    def __init__(self, model: LogisticRegression) -> None:
        self.model, self.classes_ = model, model.classes_
        self.asked = 0

    def predict_proba(self, rows: np.ndarray) -> np.ndarray:
        """The model's own."""
        self.asked += len(rows)
        return self.model.predict_proba(rows)


def check_answers(data: People, model: LogisticRegression) -> dict[str, Any]:
    """A quicker wrong answer is no answer: gaps, the other group, queries of the model."""
    counting = Counting(model)
    ours = mended(counting, data)
    asked_in_fit, counting.asked = counting.asked, 0
    said = ours.predict(data.X, sensitive_features=data.s, ids=np.arange(len(data.y)))
    asked_in_predict = counting.asked
    theirs = optimised(model, "predict_proba", data)
    theirs_said = theirs.predict(data.X, sensitive_features=data.s, random_state=0)
    own = data.s == ours.plan_.target
    before = model.predict(data.X)

    def gap(decisions: np.ndarray) -> float:
        return float(decisions[~own].mean() - decisions[own].mean())

    distinct = len(np.unique(data.X @ (1 << np.arange(data.X.shape[1]))))
    found = {
        "distinct_rows": distinct,
        "asked_in_fit": asked_in_fit,
        "asked_in_predict": asked_in_predict,
        "gap_before": gap(before),
        "gap_after": gap(said),
        "gap_after_fairlearn": gap(theirs_said),
        "baseline_moved": float((said != before)[~own].mean()),
        "baseline_moved_fairlearn": float((theirs_said != before)[~own].mean()),
    }
    assert distinct <= asked_in_fit <= distinct + ASKED_TWICE, "fit asked about more than that"
    assert asked_in_predict == distinct, "predict asked about more than distinct rows"
    assert found["baseline_moved"] == 0.0, "the other group was touched"
    assert abs(found["gap_after"]) < 0.01, "the gap is not closed"
    return found


# -------------------------------------------------------------------- printing


def judged(
    seconds: dict[str, Seconds], megabytes: dict[str, float]
) -> tuple[TextTable, dict[str, dict[str, Any]]]:
    """The table, and every ratio with its bar."""
    cells, ratios = [], {}
    for pair in PAIRS:
        lines = [("CPU seconds", {k: v.cpu for k, v in seconds.items()}, pair.bar, "{:.3f}")]
        if megabytes:
            lines.append(("extra memory, MB", megabytes, pair.memory_bar, "{:,.0f}"))
        for unit, taken, bar, form in lines:
            ours, theirs = taken[pair.ours], taken[pair.theirs]
            ratio = ours / theirs
            met = bar is None or ratio <= bar
            ratios[f"{pair.what}: {unit}"] = {"ratio": ratio, "bar": bar, "met": met}
            cells.append(
                (
                    pair.what,
                    unit,
                    form.format(ours),
                    form.format(theirs),
                    f"{ratio:.2f}",
                    "" if bar is None else f"{bar:.2f}",
                    "met" if met else "missed",
                )
            )
    table = TextTable("", ("<", "<", "ours", "beside", "ratio", "bar", "<"), cells)
    return table, ratios


# -------------------------------------------------------------------- mixed types


class Setting(NamedTuple):
    """A way to repair, the constraint of fairlearn it is measured against, and its bars."""

    name: str
    ours: dict[str, Any]
    constraints: str
    fit: float
    predict: float | None = 2.0


SETTINGS = (
    Setting("sp", {"disparity": "sp"}, "demographic_parity", 1.0),
    Setting(
        "sp, immutable and one-way",
        {"disparity": "sp", "immutable": IMMUTABLE, "one_way": ONE_WAY},
        "demographic_parity",
        1.5,
    ),
    Setting("equalized odds", {"disparity": ["fnr", "fpr"]}, "equalized_odds", 4.0),
    Setting(
        "sp, transport",
        {"disparity": "sp", "method": "transport"},
        "demographic_parity",
        30.0,
        None,
    ),
)


class Timed(NamedTuple):
    """One setting, fitted and asked, ours and theirs."""

    ours_fit: float
    theirs_fit: float
    ours_predict: float
    theirs_predict: float


def repaired_mixed(setting: Setting, model: Any, audited: Part) -> RepairedClassifier:
    """Ours."""
    repaired = RepairedClassifier(model, random_state=0, **setting.ours)
    return repaired.fit(audited.X, audited.y, sensitive_features=audited.s)


def optimised_mixed(constraints: str, model: Any, audited: Part) -> ThresholdOptimizer:
    """Theirs."""
    optimizer = ThresholdOptimizer(
        estimator=model, constraints=constraints, prefit=True, predict_method="predict_proba"
    )
    return optimizer.fit(audited.X, audited.y, sensitive_features=audited.s)


def timed_once(setting: Setting, model: Any, people: Parts) -> tuple[Timed, RepairedClassifier]:
    """Both sides fit on the same people and decide about the same new ones."""
    audited, new, made = people.audited, people.new, {}
    fits = [
        seconds_of(lambda side=side, make=make: made.update({side: make()})).cpu
        for side, make in (
            ("ours", lambda: repaired_mixed(setting, model, audited)),
            ("theirs", lambda: optimised_mixed(setting.constraints, model, audited)),
        )
    ]
    ids = np.arange(len(new.y))
    asked = [
        seconds_of(lambda: made["ours"].predict(new.X, sensitive_features=new.s, ids=ids)).cpu,
        seconds_of(
            lambda: made["theirs"].predict(new.X, sensitive_features=new.s, random_state=0)
        ).cpu,
    ]
    return Timed(*fits, *asked), made["ours"]


def measure_mixed(
    people: Parts, repeats: int, only: str | None
) -> tuple[TextTable, dict[str, dict[str, Any]]]:
    """The table, and every ratio with its bar."""
    model = boosting(people.learnt)
    first = np.arange(SMALL)
    few = people._replace(audited=people.audited.take(first), new=people.new.take(first))
    cells, ratios = [], {}
    for setting in SETTINGS:
        if only is not None and setting.name != only:
            continue
        timed_once(setting, model, few)
        rounds = [timed_once(setting, model, people) for _ in range(repeats)]
        times = Timed(*np.median([one for one, _ in rounds], axis=0).tolist())
        plans = rounds[-1][1].plans_.values()
        note = "; ".join(
            f"{plan.status.name.lower()}, {100 * plan.outlook.randomised:.2f} % randomised"
            for plan in plans
        )
        for what, ours, theirs, bar in (
            ("fit", times.ours_fit, times.theirs_fit, setting.fit),
            ("predict", times.ours_predict, times.theirs_predict, setting.predict),
        ):
            ratio, name = float(ours / theirs), f"{what}: {setting.name}"
            met = bar is None or ratio <= bar
            ratios[name] = {
                "cpu": ours, "cpu_fairlearn": theirs, "ratio": ratio, "bar": bar, "met": met,
                "note": note,
            }  # fmt: skip
            told = "" if bar is None else f"{bar:.1f}"
            verdict = "no bar" if bar is None else "met" if met else "SHORT"
            line = (name, f"{ours:.3f}", f"{theirs:.3f}", f"{ratio:.2f}", told, verdict, note)
            cells.append(line)
    heads = ("<setting", "ours, CPU s", "fairlearn", "ratio", "bar", "<", "<plan")
    return TextTable("", heads, cells), ratios


def run_mixed(folder: Path, repeats: int, out: Path, only: str | None) -> int:
    """Raw Adult, every kind of repair."""
    people = adult_or_alike(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairmendWarning)
        table, ratios = measure_mixed(people, repeats, only)
    print(
        f"{people.origin}: {len(people.audited.y):,} people audited, {len(people.new.y):,} new; "
        f"gradient boosting behind a pipeline; median of {repeats}\n{table}"
    )
    write_json(out, {"origin": people.origin, "repeats": repeats, "ours_over_theirs": ratios})
    return 0 if all(one["met"] for one in ratios.values()) else 1


# -------------------------------------------------------------------- odd shapes


def fit_odd(case: OddCase) -> tuple[Seconds, int, int, RepairedClassifier]:
    """Seconds, calls of the model, rows it was queried about, and the repair."""
    asked = []

    def model(rows: Any) -> np.ndarray:
        asked.append(len(rows))
        return case.model(rows)

    repaired = RepairedClassifier(model, random_state=0, **case.settings)
    people = case.people
    taken = seconds_of(lambda: repaired.fit(people.X, people.y, sensitive_features=people.s))
    return taken, len(asked), sum(asked), repaired


def run_odd(out: Path) -> int:
    """Each odd fit once."""
    cells, found = [], {}
    for case in odd_cases():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FairmendWarning)
            taken, calls, rows, repaired = fit_odd(case)
        plan = repaired.plan_
        met = taken.cpu <= case.bar
        found[case.what] = {
            "cpu": taken.cpu, "wall": taken.wall, "bar": case.bar, "met": met, "calls": calls,
            "rows_asked": rows, "status": plan.status.name, "cost": plan.outlook.cost,
            "edited": plan.outlook.edited, "gaps": plan.by_metric,
        }  # fmt: skip
        left = ", ".join(
            f"{name} {before:+.3f} to {now:+.3f}" for name, before, now in plan.by_metric
        )
        cells.append(
            (
                case.what,
                f"{taken.cpu:.1f}",
                f"{case.bar:.0f}",
                "met" if met else "SHORT",
                f"{calls:,}",
                f"{rows:,}",
                plan.status.name.lower(),
                f"{plan.outlook.cost:.3f}",
                left,
            )
        )
    heads = ("<fit", "CPU s", "bar", "<", "calls", "rows asked", "<status", "cost", "<gaps")
    print(TextTable("", heads, cells))
    write_json(out, found)
    return 0 if all(one["met"] for one in found.values()) else 1


def main() -> int:
    """Measure, print, write, and judge."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, help="rounds of all contestants (5; mixed: 3)")
    parser.add_argument("--out", type=Path)
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--mixed", action="store_true", help="raw Adult, every kind of repair")
    kinds.add_argument("--odd", action="store_true", help="fits of odd shape, in seconds")
    parser.add_argument("--data", type=Path, default=DATA, help="folder of adult.data for --mixed")
    parser.add_argument(
        "--only", choices=[one.name for one in SETTINGS], help="one setting of --mixed"
    )
    parser.add_argument("--memory-of", choices=names(), help=argparse.SUPPRESS)
    options = parser.parse_args()
    kind = "mixed" if options.mixed else "odd" if options.odd else "repair"
    options.out = options.out or Path(f"results/{kind}_speed.json")
    options.repeats = options.repeats if options.repeats is not None else 3 if options.mixed else 5
    if options.rows < SMALL or options.repeats < 1:
        parser.error(f"needs at least {SMALL:,} rows and 1 repeat")
    if options.memory_of:
        print(peak_of(options.memory_of, options.rows))
        return 0
    if options.mixed or options.odd:
        with threadpool_limits(1):
            if options.odd:
                return run_odd(options.out)
            return run_mixed(options.data, options.repeats, options.out, options.only)
    data, model = people(options.rows), vendor()
    answers = check_answers(data, model)
    seconds = measure(data, model, options.repeats)
    del data
    megabytes = {name: extra_memory(name, options.rows) for name in names()}
    table, ratios = judged(seconds, megabytes)
    print(
        f"Statistical parity on {options.rows:,} rows of 18 binary columns, "
        f"{answers['distinct_rows']:,} of them distinct; best of {options.repeats}\n{table}"
    )
    print(
        f"The model was queried about {answers['asked_in_fit']:,} rows in fit and "
        f"{answers['asked_in_predict']:,} in predict.\nGap {100 * answers['gap_before']:.1f} points"
        f" before, {100 * answers['gap_after']:+.2f} after "
        f"(fairlearn {100 * answers['gap_after_fairlearn']:+.2f}); decisions changed in the other "
        f"group: {100 * answers['baseline_moved']:.1f} % "
        f"(fairlearn {100 * answers['baseline_moved_fairlearn']:.1f} %)."
    )
    write_json(
        options.out,
        {
            "rows": options.rows,
            "repeats": options.repeats,
            "seconds": {name: times._asdict() for name, times in seconds.items()},
            "megabytes": megabytes,
            "ours_over_theirs": ratios,
            "answers": answers,
            "machine": {"cpus": os.cpu_count(), "platform": platform.platform()},
            "versions": {
                name: version(name) for name in ("fairmend", "fairlearn", "numpy", "scikit-learn")
            },
        },
    )
    return 0 if all(one["met"] for one in ratios.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
