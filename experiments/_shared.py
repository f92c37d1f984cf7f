"""What the experiments have in common: splits, what is measured on them, bounds, processes, files.

A split is 30 % to fit a model on, 50 % to mend it on and 20 % to judge it by. Everybody is judged
equally often: splits 0 to 4 hold out a fifth of the people each, as a random order of seed 0 has
them, splits 5 to 9 as one of seed 1 has them, and so on. So a mean over splits speaks of all the
people, not of those who happened to be held out more often. Seeds are never chosen.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from fairmend import FNR, FPR, SP, FairmendWarning, RateGap, datasets
from fairmend.classifier import RepairedClassifier
from fairmend.data.files import writing
from fairmend.progress import progress

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results"
METRICS = {metric.name: metric for metric in (SP, FNR, FPR)}

MEAN_ABS = float(np.sqrt(2 / np.pi))
"""Mean absolute value of a normal variable, in standard deviations."""

Record = dict[str, Any]


# -------------------------------------------------------------------- data


class Part(NamedTuple):
    """Some of the people, with their row numbers for ids."""

    X: pd.DataFrame
    y: np.ndarray
    s: np.ndarray
    ids: np.ndarray


class Split(NamedTuple):
    """A model and the people it has not seen: to mend it on, and to judge it by."""

    model: Any
    audit: Part
    holdout: Part
    seed: int = 0
    """What a repair draws with, another in each split: one for all would be one draw's luck."""


@lru_cache
def table(name: str) -> Part:
    """Everybody in one of the embedded tables."""
    loaded = {"adult": datasets.load_adult, "compas": datasets.load_compas}[name]()
    groups = loaded.sensitive_features.to_numpy().astype(object)
    return Part(loaded.X, np.asarray(loaded.y), groups, np.arange(len(loaded.y)))


FOLDS = 5


def parts(people: Part, seed: int) -> list[Part]:
    """Three parts of 30, 50 and 20 per cent; five seeds in a row hold everybody out once."""
    n = len(people.y)
    turn, fold = divmod(seed, FOLDS)
    folds = np.array_split(np.random.default_rng(turn).permutation(n), FOLDS)
    rest = np.concatenate([*folds[:fold], *folds[fold + 1 :]])
    train, audit = np.split(np.random.default_rng((turn, fold)).permutation(rest), [int(0.3 * n)])
    return [
        Part(people.X.iloc[at], people.y[at], people.s[at], people.ids[at])
        for at in (train, audit, folds[fold])
    ]


def split(name: str, seed: int) -> Split:
    """The paper's model, an l2 logistic regression, on the first part of an embedded table."""
    train, audit, holdout = parts(table(name), seed)
    model = LogisticRegression(C=100, max_iter=1_000).fit(train.X, train.y)
    return Split(model, audit, holdout, seed)


def members(people: Part, group: Any, target: Any) -> np.ndarray:
    """Who is of a group; of ``None``: who is not of the target group."""
    return people.s != target if group is None else people.s == group


# -------------------------------------------------------------------- measuring


def rate(metric: RateGap, h: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """A rate among people and its squared standard error."""
    h, y = h.astype(np.float64), y.astype(np.float64)
    r, t = (np.broadcast_to(part(h, y), h.shape) for part in (metric.rate, metric.given))
    value = r.sum() / t.sum()
    return float(value), float((((r - value * t) / t.mean()) ** 2).mean() / len(h))


@dataclass(frozen=True)
class Gap:
    """A gap between two groups of the holdout, and how far chance alone would take it."""

    target_rate: float
    baseline_rate: float
    holdout_error: float
    """Squared standard error from the holdout's sampling alone."""
    audit_error: float
    """What the audit's sampling adds for a rule that was calibrated on it."""

    @property
    def value(self) -> float:
        return self.target_rate - self.baseline_rate


def gap_between(
    metric: RateGap, h: np.ndarray, split: Split, *, target: Any, baseline: Any = None
) -> Gap:
    """Target minus baseline on the holdout; ``baseline=None`` is everybody else."""
    rates, holdout_error, audit_error = [], 0.0, 0.0
    for group in (target, baseline):
        here, there = (members(part, group, target) for part in (split.holdout, split.audit))
        found, error = rate(metric, h[here], split.holdout.y[here])
        rates.append(found)
        holdout_error += error
        audit_error += error * here.sum() / there.sum()
    return Gap(*rates, holdout_error, float(audit_error))


def fitted(mended: RepairedClassifier, audit: Part) -> RepairedClassifier:
    """Fit without the warnings: who loses a decision is a column of the tables."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairmendWarning)
        return mended.fit(audit.X, audit.y, sensitive_features=audit.s)


class Seen(NamedTuple):
    """The holdout's people before and after."""

    before: np.ndarray
    """The model's probability at their own row."""
    after: np.ndarray
    """At the row they are edited into."""
    changed: np.ndarray
    """Which of their features were edited."""


def look(mended: RepairedClassifier, split: Split, *, soft: bool = False) -> Seen:
    """Put the holdout through the repair, and hold it to what it promises everybody."""
    holdout = split.holdout
    people = {"sensitive_features": holdout.s, "ids": holdout.ids}
    edited = mended.transform(holdout.X, **people)
    before, after = (split.model.predict_proba(X)[:, 1] for X in (holdout.X, edited))
    changed = edited.to_numpy() != holdout.X.to_numpy()
    others = ~np.isin(holdout.s, list(mended.plans_))
    assert not changed[others].any(), "somebody outside the target groups was edited"
    chance = mended.positive_chance(holdout.X[others], sensitive_features=holdout.s[others])
    decision = before if soft else before > 0.5
    assert np.allclose(chance, decision[others], rtol=0, atol=1e-12), "others' chances changed"
    if not soft:  # soft decisions are drawn, so that nobody's is to be compared with another draw
        said = mended.predict(holdout.X[others], sensitive_features=holdout.s[others],
                              ids=holdout.ids[others])  # fmt: skip
        assert (said == (before[others] > 0.5)).all(), "somebody else's decision changed"
        # of one in ten: each is worked out anew, which is most of the time on mixed data
        some = np.arange(0, len(holdout.y), 10)
        ids, groups = holdout.ids[some], holdout.s[some]
        said = mended.predict(holdout.X.iloc[some], sensitive_features=groups, ids=ids)
        assert (said == (after[some] > 0.5)).all(), "predict and transform tell different stories"
    fixed = holdout.X.columns.isin(list(mended.immutable))
    assert not changed[:, fixed].any(), "an immutable feature was edited"
    return Seen(before, after, changed)


SPREAD_OF = ("gap_before", "auc_before", "auc_after", "baseline_rate", "target_rate_before",
             "target_rate_after")  # fmt: skip
"""Figures whose standard deviation over splits is kept, beside that of the gap itself."""


def summary(lines: Sequence[Record]) -> Record:
    """One row over all its splits: means, and what chance alone would show."""
    numbers = {
        name: float(np.mean([line[name] for line in lines]))
        for name, value in lines[0].items()
        if isinstance(value, int | float) and name != "seed"
    }
    if "features" in numbers:  # of the edited, however many a split has
        edited = np.array([line["edited"] for line in lines])
        features = np.array([line["features"] for line in lines])
        numbers["features"] = float(edited @ features / edited.sum()) if edited.any() else 0.0
    statuses = [line["status"] for line in lines]
    result: Record = {
        "experiment": lines[0]["experiment"],
        "row": lines[0]["row"],
        "splits": len(lines),
        **numbers,
        "status": {name: statuses.count(name) for name in dict.fromkeys(statuses)},
    }
    if "gap_after" in numbers:
        gaps = np.array([line["gap_after"] for line in lines])
        errors = np.array([(line["holdout_error"], line["audit_error"]) for line in lines])
        result |= {
            "sd": _sd(gaps),
            "mean_abs": float(np.abs(gaps).mean()),
            "floor_sd": float(np.sqrt(errors[:, 0].mean())),
            "floor_abs": float(MEAN_ABS * np.sqrt(errors[:, 0]).mean()),
            "floor_with_audit": float(np.sqrt(errors.sum(axis=1).mean())),
            "gaps": gaps.tolist(),
            "sds": {
                name: _sd([line[name] for line in lines]) for name in SPREAD_OF if name in numbers
            },
        }
    return result


def _sd(values: Sequence[float] | np.ndarray) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def summaries(lines: Iterable[Record]) -> list[Record]:
    """A summary for each experiment and row, in the order they come."""
    by_row: dict[tuple[str, str], list[Record]] = {}
    for line in lines:
        by_row.setdefault((line["experiment"], line["row"]), []).append(line)
    return [summary(group) for group in by_row.values()]


# -------------------------------------------------------------------- bounds


class Check(NamedTuple):
    """One bound and what came."""

    what: str
    value: float
    bound: float
    at_least: bool = False
    excuse: str = ""
    """What else to know where it is short."""

    @property
    def met(self) -> bool:
        return self.value >= self.bound if self.at_least else self.value <= self.bound

    @property
    def figure(self) -> tuple[str, float, float]:
        """What is printed: the same figure under the same bound is one, however often it comes."""
        return self.what, round(self.value, 6), round(self.bound, 6)

    def __str__(self) -> str:
        sign = "<" if self.at_least else ">"
        return f"{self.what} {self.value:.4f} {sign} {self.bound:.4f}{self.excuse}"


def verdict(checks: Sequence[Check]) -> str:
    """How many hold, or what is short."""
    short = "; ".join(f"short: {check}" for check in checks if not check.met)
    return short or ("holds" if checks else "")


def statuses(one: Record) -> str:
    """How the repair ended, and how often."""
    return ", ".join(f"{name.lower()} {times}" for name, times in one["status"].items())


# -------------------------------------------------------------------- running

Task = tuple[Callable[..., list[Record]], tuple[Any, ...]]


def run_all(todo: Sequence[Task], jobs: int) -> list[Record]:
    """Every task's lines, in the order of the tasks, whoever was first; one thread a process."""
    found: dict[int, list[Record]] = {}
    with progress("splits", len(todo)) as advance:
        for place, lines in _results(todo, jobs):
            found[place] = lines
            advance(1)
    return [line for place in range(len(todo)) for line in found[place]]


def _results(todo: Sequence[Task], jobs: int) -> Iterator[tuple[int, list[Record]]]:
    if jobs == 1:
        with threadpool_limits(1):
            for place, (function, arguments) in enumerate(todo):
                yield place, function(*arguments)
        return
    # spawned, as a forked child of a process with threads may wait for a lock for ever
    with ProcessPoolExecutor(jobs, get_context("spawn"), initializer=one_thread) as pool:
        waiting = {
            pool.submit(function, *arguments): place
            for place, (function, arguments) in enumerate(todo)
        }
        try:
            for future in as_completed(waiting):
                yield waiting[future], future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def one_thread() -> None:
    """Limit this process to one thread of the mathematical libraries.

    Of those that are loaded: a process started for this function alone has loaded this module's.
    """
    threadpool_limits(1)


# -------------------------------------------------------------------- command line and files


def arguments_of(
    doc: str, arguments: Sequence[str] | None, out: str, splits: int = 20
) -> argparse.Namespace:
    """The settings that all scripts share; ``doc`` is the script's own."""
    parser = argparse.ArgumentParser(description=doc.split("\n", maxsplit=1)[0])
    add_settings(parser, splits)
    parser.add_argument("--out", type=Path, default=RESULTS / out)
    return checked(parser, arguments)


def add_settings(parser: argparse.ArgumentParser, splits: int = 20) -> None:
    """How many splits, on how many processes."""
    parser.add_argument("--splits", type=int, default=splits)
    parser.add_argument("--jobs", type=int, default=2, help="processes, one thread each")


def checked(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> argparse.Namespace:
    """The settings, once they make sense."""
    options = parser.parse_args(arguments)
    if options.splits < 2 or options.jobs < 1:
        parser.error("needs at least 2 splits and 1 job")
    return options


def write_json(path: Path, content: Record) -> None:
    """Numbers to six decimals: more would be noise."""
    write_text(path, json.dumps(rounded(content), ensure_ascii=False) + "\n")


def write_text(path: Path, text: str) -> None:
    """A file in a folder that need not be there yet, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with writing(path, overwrite=True) as file:
        file.write(text.encode())


def rounded(value: Any, digits: int = 6) -> Any:
    """Plain values of the same shape with their numbers rounded."""
    match value:
        case bool() | int() | str() | None:
            return value
        case dict():
            return {str(key): rounded(entry, digits) for key, entry in value.items()}
        case list() | tuple():
            return [rounded(entry, digits) for entry in value]
        case _:
            return round(float(value), digits) + 0.0  # no -0.0


def run_as_script(main: Callable[[], int]) -> None:
    """Run a script; told to stop, it takes its processes along."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
