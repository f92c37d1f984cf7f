"""The repair on real data it was not fitted on: gaps, ranking, accuracy, and who is changed how.

    python experiments/repair.py [--splits 20] [--only NAME ...] [--jobs 2]

Every figure is read off the last fifth of a random split 30/50/20: a logistic regression (l2,
C = 100) is fitted on the first part, mended on the second, judged on the third. Split k is
``np.random.default_rng(k).permutation``, k = 0, 1, 2, ...: never chosen. Decisions are hard unless
the row says soft; AUC is that of the model's probability at the edited row.

The experiments are least_change, order, labels (the model gives labels only), immutable (some
features may not change), odds (two constraints at once) and mixed (raw Adult, gradient boosting and
a random forest, all races as groups; needs the raw file). Prints tables and writes
results/repair.json. Twenty splits take about two minutes on two cores, mixed five more.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from fairmend import FNR, FPR, SP, BlackBox, FairmendWarning, RateGap, datasets
from fairmend.classifier import RepairedClassifier
from fairmend.plan import PlanStatus
from fairmend.progress import progress
from fairmend.tables import TextTable

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results" / "repair.json"
RAW_ADULT = ROOT.parent / "shared" / "data" / "adult.data"

EXPERIMENTS = ("least_change", "order", "labels", "immutable", "odds", "mixed")
METRICS = {metric.name: metric for metric in (SP, FNR, FPR)}
IMMUTABLE = {
    "adult": ("Married", "Immigrant", "Age_leq_30"),
    "compas": ("female", "age_leq_24", "age_25_to_45", "age_geq_46"),
}
FAVOURABLE = {"adult": 1, "compas": 0}
"""An income above 50,000 dollars is what people want to be believed of; a new arrest is not."""
ODDS = (("adult", "Female"), ("adult", "Male"), ("compas", "white"))

MIXED_SPLITS = 10
MIXED_IMMUTABLE = ("age", "sex", "race", "marital-status")
MIXED_REFERENCES = ("best", "White")
LARGE_GROUP = 300
"""Audit rows from which a group's gap is judged."""

MEAN_ABS = float(np.sqrt(2 / np.pi))
"""Mean absolute value of a normal variable, in standard deviations."""


# -------------------------------------------------------------------- what is asked


class Row(NamedTuple):
    """A line of the table: whose gap in what, by which reading of the model."""

    data: str
    metric: str
    target: str
    soft: bool = False

    @property
    def name(self) -> str:
        return f"{self.data} {self.metric}{' soft' if self.soft else ''}"


ROWS = (
    Row("adult", "sp", "Female"),
    Row("adult", "sp", "Female", soft=True),
    Row("adult", "fnr", "Female"),
    Row("adult", "fpr", "Male"),
    Row("compas", "sp", "white"),
    Row("compas", "sp", "white", soft=True),
    Row("compas", "fnr", "white"),
    Row("compas", "fpr", "non-white"),
)


class Bounds(NamedTuple):
    """What a row must show. Floors are those the bounds on the gap were made from."""

    gap_20: float
    """On the absolute mean signed gap over 20 splits; over 100 the next."""
    gap_100: float
    floor: float
    """Standard deviation over splits of a rule without a true gap."""
    auc_before: float
    """The model's own where the bounds on AUC were made: a few splits may start from less."""
    auc: float | None = None
    auc_order: float | None = None
    auc_labels: float | None = None
    accuracy: float | None = None


BOUNDS = {
    "adult sp": Bounds(0.007, 0.0035, 0.0118, 0.893, 0.860, 0.889, 0.860, 0.790),
    "adult sp soft": Bounds(0.005, 0.003, 0.0086, 0.893, None, 0.889),
    "adult fnr": Bounds(0.024, 0.012, 0.0417, 0.893, 0.884, 0.887, 0.882, 0.815),
    "adult fpr": Bounds(0.003, 0.0015, 0.0051, 0.832, 0.824, 0.829, 0.82, 0.797),
    "compas sp": Bounds(0.019, 0.009, 0.0327, 0.691, 0.681, 0.685, 0.678),
    "compas sp soft": Bounds(0.010, 0.005, 0.0172, 0.691, None, 0.685),
    "compas fnr": Bounds(0.030, 0.014, 0.0513, 0.691, 0.679, 0.685, 0.678),
    "compas fpr": Bounds(0.022, 0.010, 0.0385, 0.724, 0.715, 0.720, 0.705),
}
SPREAD = 1.15
"""The standard deviation over splits may exceed the floor by this factor."""
LABELS_SLACK = 1.5
"""With labels only the gap may be larger by this factor."""
MOST_DRAWN = 0.04
ODDS_BOUNDS = {"fnr": 0.035, "fpr": 0.012}
MOST_FEATURES = 2.5
ACCURACY_LOSS = 0.005


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

    def __str__(self) -> str:
        sign = "<" if self.at_least else ">"
        return f"{self.what} {self.value:.4f} {sign} {self.bound:.4f}{self.excuse}"


def gap_bound(bounds: Bounds, splits: int) -> float:
    """The bound for this many splits; fewer than 20 are allowed more, by the root of the number."""
    if splits >= 100:
        return bounds.gap_100
    return bounds.gap_20 * float(np.sqrt(max(1.0, 20 / splits)))


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


@lru_cache
def table(name: str) -> Part:
    """Everybody in one of the embedded tables."""
    loaded = {"adult": datasets.load_adult, "compas": datasets.load_compas}[name]()
    groups = loaded.sensitive_features.to_numpy().astype(object)
    return Part(loaded.X, np.asarray(loaded.y), groups, np.arange(len(loaded.y)))


def parts(people: Part, seed: int) -> list[Part]:
    """Three parts of 30, 50 and 20 per cent."""
    n = len(people.y)
    order = np.random.default_rng(seed).permutation(n)
    return [
        Part(people.X.iloc[at], people.y[at], people.s[at], people.ids[at])
        for at in np.split(order, [int(0.3 * n), int(0.8 * n)])
    ]


def split(name: str, seed: int) -> Split:
    """The paper's model on the first part of an embedded table."""
    train, audit, holdout = parts(table(name), seed)
    model = LogisticRegression(C=100, max_iter=1_000).fit(train.X, train.y)
    return Split(model, audit, holdout)


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

    value: float
    holdout_error: float
    """Squared standard error from the holdout's sampling alone."""
    audit_error: float
    """What the audit's sampling adds for a rule that was calibrated on it."""


def gap_between(
    metric: RateGap, h: np.ndarray, split: Split, *, target: Any, baseline: Any = None
) -> Gap:
    """Target minus baseline on the holdout; ``baseline=None`` is everybody else."""
    value, holdout_error, audit_error = 0.0, 0.0, 0.0
    for sign, group in ((1, target), (-1, baseline)):
        here, there = (members(part, group, target) for part in (split.holdout, split.audit))
        found, error = rate(metric, h[here], split.holdout.y[here])
        value += sign * found
        holdout_error += error
        audit_error += error * here.sum() / there.sum()
    return Gap(value, holdout_error, float(audit_error))


def members(people: Part, group: Any, target: Any) -> np.ndarray:
    """Who is of a group; of ``None``: who is not of the target group."""
    return people.s != target if group is None else people.s == group


def repaired(row: Row, experiment: str, split: Split) -> RepairedClassifier:
    """The classifier of one row under one experiment, fitted on the audit part."""
    labels_only = experiment == "labels"
    box = BlackBox(split.model.predict if labels_only else split.model, soft=row.soft)
    mended = RepairedClassifier(
        box,
        row.metric,
        method="order" if experiment == "order" else "least_change",
        target=row.target,
        immutable=IMMUTABLE[row.data] if experiment == "immutable" else (),
        favorable_label=FAVOURABLE[row.data],
        random_state=0,
    )
    return fitted(mended, split.audit)


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
    chance = mended.positive_chance(holdout.X, sensitive_features=holdout.s)[others]
    decision = before if soft else before > 0.5
    assert np.allclose(chance, decision[others], rtol=0, atol=1e-12), "others' chances changed"
    if not soft:  # soft decisions are drawn, so that nobody's is to be compared with another draw
        said = mended.predict(holdout.X, **people)
        assert (said[others] == (before[others] > 0.5)).all(), "somebody else's decision changed"
        assert (said == (after > 0.5)).all(), "predict and transform tell different stories"
    fixed = holdout.X.columns.isin(list(mended.immutable))
    assert not changed[:, fixed].any(), "an immutable feature was edited"
    return Seen(before, after, changed)


def one_run(row: Row, experiment: str, seed: int, split: Split) -> dict[str, Any]:
    """One row, one experiment, one split."""
    started = time.perf_counter()
    mended = repaired(row, experiment, split)
    seconds = time.perf_counter() - started
    holdout, plan = split.holdout, mended.plan_
    seen = look(mended, split, soft=row.soft)
    report = mended.report(holdout.X, holdout.y, sensitive_features=holdout.s)
    group = next(one for one in report.groups if one.group == row.target)
    by_law = next(
        gap.gap for gap in report.after if (gap.metric, gap.target) == (row.metric, row.target)
    )
    metric, own = METRICS[row.metric], members(holdout, row.target, None)
    h_before, h_after = (
        p if row.soft else (p > 0.5).astype(float) for p in (seen.before, seen.after)
    )
    before, after = (gap_between(metric, h, split, target=row.target) for h in (h_before, h_after))
    right_before, right_after = ((p > 0.5) == holdout.y for p in (seen.before, seen.after))
    turned = (seen.after > 0.5).astype(int) - (seen.before > 0.5)
    edited = seen.changed[own].any(axis=1)
    return {
        "experiment": experiment,
        "row": row.name,
        "seed": seed,
        "status": plan.status.name,
        "gap_before": before.value,
        "gap_after": after.value,
        "gap_by_law": by_law,
        "gap_on_audit": plan.outlook.gap_after,
        "holdout_error": after.holdout_error,
        "audit_error": after.audit_error,
        "auc_before": float(roc_auc_score(holdout.y[own], seen.before[own])),
        "auc_after": float(roc_auc_score(holdout.y[own], seen.after[own])),
        "accuracy_before": float(right_before.mean()),
        "accuracy_after": float(right_after.mean()),
        "target_accuracy_before": float(right_before[own].mean()),
        "target_accuracy_after": float(right_after[own].mean()),
        "baseline_accuracy": float(right_after[~own].mean()),
        "edited": float(edited.mean()),
        "features": float(seen.changed[own][edited].sum(axis=1).mean()) if edited.any() else 0.0,
        "cost": group.cost,
        "to_positive": float((turned[own] > 0).mean()),
        "to_negative": float((turned[own] < 0).mean()),
        "drawn": group.randomised,
        "drawn_of_all": group.randomised * float(own.mean()),
        "unreachable": plan.outlook.unreachable,
        "unseen": group.unseen,
        "fit_seconds": seconds,
    }


def odds_run(data: str, target: str, seed: int, split: Split) -> dict[str, Any]:
    """Equalized odds for one group on one split: both gaps at once, or the closest point."""
    started = time.perf_counter()
    mended = fitted(
        RepairedClassifier(
            split.model,
            ["fnr", "fpr"],
            target=target,
            favorable_label=FAVOURABLE[data],
            random_state=0,
        ),
        split.audit,
    )
    seconds = time.perf_counter() - started
    seen = look(mended, split)
    holdout, own = split.holdout, members(split.holdout, target, None)
    report = mended.report(holdout.X, holdout.y, sensitive_features=holdout.s)
    group = next(one for one in report.groups if one.group == target)
    result = {
        "experiment": "odds",
        "row": f"{data} fnr and fpr, {target}",
        "seed": seed,
        "status": mended.plan_.status.name,
        "accuracy_before": float(((seen.before > 0.5) == holdout.y).mean()),
        "accuracy_after": float(((seen.after > 0.5) == holdout.y).mean()),
        "edited": float(seen.changed[own].any(axis=1).mean()),
        "drawn": group.randomised,
        "fit_seconds": seconds,
    }
    on_audit = {name: after for name, _, after in mended.plan_.outlook.by_metric}
    for name in ("fnr", "fpr"):
        for when, p in (("before", seen.before), ("after", seen.after)):
            found = gap_between(METRICS[name], p > 0.5, split, target=target)
            result[f"{name}_{when}"] = found.value
            result[f"{name}_error"] = found.holdout_error
        result[f"{name}_on_audit"] = on_audit[name]
    return result


# -------------------------------------------------------------------- mixed data


class Remembering:
    """A model that answers rows it has answered before from memory; only its time is saved."""

    def __init__(self, model: Any) -> None:
        self.model, self.classes_ = model, model.classes_
        self._known: dict[int, float] = {}

    def predict_proba(self, rows: pd.DataFrame) -> np.ndarray:
        """Both classes' probabilities."""
        keys = pd.util.hash_pandas_object(rows, index=False).to_numpy()
        new = np.flatnonzero([key not in self._known for key in keys.tolist()])
        if len(new) > 0:
            said = self.model.predict_proba(rows.iloc[new])[:, 1]
            self._known.update(zip(keys[new].tolist(), said.tolist(), strict=True))
        positive = np.array([self._known[key] for key in keys.tolist()])
        return np.stack([1 - positive, positive], axis=1)


@lru_cache
def raw_adult(path: Path) -> Part:
    """UCI's table with its 13 columns of mixed types; groups are races."""
    loaded = datasets.load_adult_raw(path)
    X = loaded.X.drop(columns=["fnlwgt"])
    words = [name for name in X if not pd.api.types.is_numeric_dtype(X[name])]
    X[words] = X[words].astype(object).where(X[words].notna(), "?").astype(str)
    return Part(X, np.asarray(loaded.y), X["race"].to_numpy().astype(object), np.arange(len(X)))


def vendor(kind: str, train: Part) -> Remembering:
    """A black box that reads the table as it is."""
    from sklearn.compose import make_column_transformer
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    words = [name for name in train.X if not pd.api.types.is_numeric_dtype(train.X[name])]
    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    if kind == "boosting":
        model: Any = HistGradientBoostingClassifier(random_state=0)
    else:
        model = RandomForestClassifier(100, min_samples_leaf=5, random_state=0, n_jobs=1)
    columns = make_column_transformer((encoder, words), remainder="passthrough")
    return Remembering(make_pipeline(columns, model).fit(train.X, train.y))


def mixed_split(kind: str, seed: int, path: Path) -> list[dict[str, Any]]:
    """One model and split of raw Adult: two metrics, two ways to choose the reference."""
    train, audit, holdout = parts(raw_adult(path), seed)
    here = Split(vendor(kind, train), audit, holdout)
    return [
        line
        for reference in MIXED_REFERENCES
        for metric in ("sp", "fnr")
        for line in mixed_run(kind, metric, reference, seed, here)
    ]


def mixed_run(
    kind: str, metric: str, reference: str, seed: int, split: Split
) -> list[dict[str, Any]]:
    """One line per large group that was mended."""
    audit, holdout = split.audit, split.holdout
    started = time.perf_counter()
    mended = fitted(
        RepairedClassifier(
            split.model, metric, reference=reference, immutable=MIXED_IMMUTABLE, random_state=0
        ),
        audit,
    )
    seconds = time.perf_counter() - started
    seen = look(mended, split)
    report = mended.report(holdout.X, holdout.y, sensitive_features=holdout.s)
    edited = seen.changed.any(axis=1)
    lines = []
    for target, plan in mended.plans_.items():
        if mended.data_[target].n < LARGE_GROUP:
            continue
        group = next(one for one in report.groups if one.group == target)
        before, after = (
            gap_between(METRICS[metric], p > 0.5, split, target=target, baseline=plan.baseline)
            for p in (seen.before, seen.after)
        )
        own = members(holdout, target, None)
        lines.append(
            {
                "experiment": "mixed",
                "row": f"{kind} {metric}, {target} against {reference}",
                "model": kind,
                "metric": metric,
                "reference": reference,
                "target": target,
                "baseline": plan.baseline,
                "seed": seed,
                "status": plan.status.name,
                "gap_before": before.value,
                "gap_after": after.value,
                "gap_on_audit": plan.outlook.gap_after,
                "holdout_error": after.holdout_error,
                "audit_error": after.audit_error,
                "auc_before": float(roc_auc_score(holdout.y[own], seen.before[own])),
                "auc_after": float(roc_auc_score(holdout.y[own], seen.after[own])),
                "accuracy_before": float(((seen.before > 0.5) == holdout.y).mean()),
                "accuracy_after": float(((seen.after > 0.5) == holdout.y).mean()),
                "target_accuracy_before": group.accuracy_before,
                "target_accuracy_after": group.accuracy_after,
                "edited": float(edited[own].mean()),
                "features": group.edits_per_person,
                "most_features": int(seen.changed[own].sum(axis=1).max()),
                "drawn": group.randomised,
                "unreachable": plan.outlook.unreachable,
                "fit_seconds": seconds,
            }
        )
    return lines


# -------------------------------------------------------------------- running


def binary_split(data: str, seed: int, experiments: Sequence[str]) -> list[dict[str, Any]]:
    """Every run on one split of an embedded table."""
    here = split(data, seed)
    lines = [
        one_run(row, experiment, seed, here)
        for experiment in experiments
        for row in rows_of(experiment)
        if row.data == data
    ]
    if "odds" in experiments:
        lines += [odds_run(data, target, seed, here) for name, target in ODDS if name == data]
    return lines


def rows_of(experiment: str) -> tuple[Row, ...]:
    """The rows an experiment is about."""
    if experiment in ("least_change", "order"):
        return ROWS
    if experiment in ("labels", "immutable"):
        return tuple(row for row in ROWS if not row.soft)
    return ()


Task = tuple[Callable[..., list[dict[str, Any]]], tuple[Any, ...]]


def tasks(experiments: Sequence[str], splits: int, raw: Path) -> list[Task]:
    """Everything to do, the longest first."""
    todo: list[Task] = []
    if "mixed" in experiments and raw.exists():
        todo += [
            (mixed_split, (kind, seed, raw))
            for kind in ("forest", "boosting")
            for seed in range(min(splits, MIXED_SPLITS))
        ]
    binary = tuple(name for name in experiments if name != "mixed")
    if binary:
        todo += [
            (binary_split, (data, seed, binary))
            for data in ("adult", "compas")
            for seed in range(splits)
        ]
    return todo


def run_all(todo: Sequence[Task], jobs: int) -> list[dict[str, Any]]:
    """Every line, in an order that does not depend on who was first."""
    lines: list[dict[str, Any]] = []
    with progress("splits", len(todo)) as advance:
        for done in _results(todo, jobs):
            lines += done
            advance(1)
    place = {name: i for i, name in enumerate(row.name for row in ROWS)}
    return sorted(
        lines,
        key=lambda line: (
            EXPERIMENTS.index(line["experiment"]),
            place.get(line["row"], len(place)),
            line["row"],
            line["seed"],
        ),
    )


def _results(todo: Sequence[Task], jobs: int) -> Iterator[list[dict[str, Any]]]:
    if jobs == 1:
        for function, arguments in todo:
            yield function(*arguments)
        return
    # spawned, as a forked child of a process with threads may wait for a lock for ever
    with ProcessPoolExecutor(jobs, get_context("spawn"), initializer=one_thread) as pool:
        waiting = [pool.submit(function, *arguments) for function, arguments in todo]
        try:
            for future in as_completed(waiting):
                yield future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def one_thread() -> None:
    """Each process has one core to itself."""
    from threadpoolctl import threadpool_limits

    threadpool_limits(1)


# -------------------------------------------------------------------- judging


def summary(lines: Sequence[dict[str, Any]]) -> dict[str, Any]:
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
    result: dict[str, Any] = {
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
            "sd": float(gaps.std(ddof=1)) if len(gaps) > 1 else 0.0,
            "mean_abs": float(np.abs(gaps).mean()),
            "floor_sd": float(np.sqrt(errors[:, 0].mean())),
            "floor_abs": float(MEAN_ABS * np.sqrt(errors[:, 0]).mean()),
            "floor_with_audit": float(np.sqrt(errors.sum(axis=1).mean())),
            "gaps": [round(float(gap), 6) for gap in gaps],
        }
    return result


def judge(found: dict[str, Any]) -> list[Check]:
    """The bounds of a row and what came."""
    match found["experiment"]:
        case "odds":
            return _judge_odds(found)
        case "mixed":
            return _judge_mixed(found)
    experiment, bounds = found["experiment"], BOUNDS[found["row"]]
    slack = LABELS_SLACK if experiment == "labels" else 1.0
    checks = [
        Check("gap", abs(found["gap_after"]), slack * gap_bound(bounds, found["splits"])),
        Check("drawn", found["drawn_of_all"], MOST_DRAWN),
    ]
    if experiment in ("least_change", "order"):
        error = 1 / np.sqrt(2 * max(1, found["splits"] - 1))
        excuse = f" (itself +-{100 * error:.0f} %)"
        checks.append(Check("sd", found["sd"], SPREAD * bounds.floor, excuse=excuse))
        if bounds.accuracy is not None:
            checks.append(Check("accuracy", found["accuracy_after"], bounds.accuracy, True))
    auc = {"order": bounds.auc_order, "labels": bounds.auc_labels, "least_change": bounds.auc}
    if (least := auc.get(experiment)) is not None:
        loss, may_lose = found["auc_before"] - found["auc_after"], bounds.auc_before - least
        word = "within" if loss <= may_lose else "beyond"
        excuse = f" (loss {loss:.4f}, {word} the {may_lose:.4f} that the bound allows)"
        checks.append(Check("AUC", found["auc_after"], least, True, excuse))
    return checks


def _judge_odds(found: dict[str, Any]) -> list[Check]:
    if found["row"].startswith("adult") and found["row"].endswith("Female"):
        return [
            Check(name, abs(found[f"{name}_after"]), most) for name, most in ODDS_BOUNDS.items()
        ]
    infeasible = found["status"].get(PlanStatus.INFEASIBLE.name, 0) / found["splits"]
    return [Check("infeasible", infeasible, 1.0, True)]


def _judge_mixed(found: dict[str, Any]) -> list[Check]:
    times = f" (mended in {found['splits']} of {found['of']} splits)"
    checks = [
        Check("mean abs. gap", found["mean_abs"], 2 * found["floor_abs"], excuse=times),
        Check("features", found["features"], MOST_FEATURES),
    ]
    if " fnr," in found["row"]:
        lost = found["accuracy_before"] - found["accuracy_after"]
        checks.append(Check("accuracy lost", lost, ACCURACY_LOSS, excuse=times))
    return checks


def verdict(checks: Iterable[Check]) -> str:
    """PASS, or what is short."""
    return "; ".join(f"short: {check}" for check in checks if not check.met) or "PASS"


# -------------------------------------------------------------------- printing

TITLES = {
    "least_change": "least_change, with the model's scores",
    "order": "order: nobody overtakes anybody",
    "labels": "least_change, labels only",
    "immutable": "least_change, Married, Immigrant, Age (Adult), sex, age (COMPAS) immutable",
}


def _bound(value: float | None, digits: int = 3) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def gap_table(experiment: str, found: Sequence[dict[str, Any]]) -> TextTable:
    """Gaps and ranking."""
    cells = []
    for one in found:
        bounds, checks = BOUNDS[one["row"]], judge(one)
        by_name = {check.what: check.bound for check in checks}
        cells.append(
            (
                one["row"],
                f"{one['gap_before']:+.3f}",
                f"{one['gap_after']:+.4f}",
                f"{by_name['gap']:.4f}",
                f"{one['gap_by_law']:+.4f}",
                f"{one['sd']:.4f}",
                f"{SPREAD * bounds.floor:.4f}",
                f"{one['floor_sd']:.4f}",
                f"{one['floor_with_audit']:.4f}",
                f"{one['mean_abs']:.4f}",
                f"{one['floor_abs']:.4f}",
                f"{one['auc_before']:.4f}",
                f"{one['auc_after']:.4f}",
                _bound(by_name.get("AUC")),
                verdict(checks),
            )
        )
    return TextTable(
        f"{TITLES[experiment]}: gaps on the holdout over {found[0]['splits']} splits",
        (
            "<row", "before", "after", "bound", "by law", "sd", "bound", "floor", "+audit",
            "mean abs", "floor", "AUC", "after", "bound", "<",
        ),
        cells,
    )  # fmt: skip


def people_table(found: Sequence[dict[str, Any]]) -> TextTable:
    """Accuracy, and what happens to whom."""
    return TextTable(
        "",
        (
            "<row", "accuracy", "after", "bound", "target's", "after", "others'", "edited",
            "features", "to 1", "to 0", "drawn", "of all", "unreachable", "unseen", "fit s",
            "<status",
        ),
        [
            (
                one["row"],
                f"{one['accuracy_before']:.4f}",
                f"{one['accuracy_after']:.4f}",
                _bound(BOUNDS[one["row"]].accuracy),
                f"{one['target_accuracy_before']:.4f}",
                f"{one['target_accuracy_after']:.4f}",
                f"{one['baseline_accuracy']:.4f}",
                *(f"{100 * one['edited']:.1f} %", f"{one['features']:.2f}"),
                *(f"{100 * one[name]:.1f} %" for name in ("to_positive", "to_negative")),
                *(f"{100 * one[name]:.2f} %" for name in ("drawn", "drawn_of_all")),
                *(f"{100 * one[name]:.1f} %" for name in ("unreachable", "unseen")),
                f"{one['fit_seconds']:.3f}",
                _statuses(one),
            )
            for one in found
        ],
    )  # fmt: skip


def odds_table(found: Sequence[dict[str, Any]]) -> TextTable:
    """Both gaps of equalized odds; for what is infeasible the closest point on the audit data."""
    return TextTable(
        f"Equalized odds over {found[0]['splits']} splits",
        (
            "<row", "fnr", "after", "audit", "bound", "fpr", "after", "audit", "bound", "accuracy",
            "after", "edited", "drawn", "fit s", "<status", "<",
        ),
        [
            (
                one["row"],
                *(
                    text
                    for name in ("fnr", "fpr")
                    for text in (
                        f"{one[f'{name}_before']:+.3f}",
                        f"{one[f'{name}_after']:+.4f}",
                        f"{one[f'{name}_on_audit']:+.4f}",
                        _bound(ODDS_BOUNDS[name]) if one["row"].endswith("Female") else "",
                    )
                ),
                f"{one['accuracy_before']:.4f}",
                f"{one['accuracy_after']:.4f}",
                f"{100 * one['edited']:.1f} %",
                f"{100 * one['drawn']:.1f} %",
                f"{one['fit_seconds']:.3f}",
                _statuses(one),
                verdict(judge(one)),
            )
            for one in found
        ],
    )  # fmt: skip


def mixed_table(found: Sequence[dict[str, Any]]) -> TextTable:
    """Raw Adult."""
    return TextTable(
        f"Raw Adult by race, groups of at least {LARGE_GROUP} audit rows; immutable: "
        f"{', '.join(MIXED_IMMUTABLE)}",
        (
            "<model, metric, group, reference", "mended in", "before", "after", "sd", "mean abs",
            "floor", "x 2", "+audit", "features", "most", "AUC", "after", "accuracy", "after",
            "target's", "after", "edited", "drawn", "unreachable", "fit s", "<status", "<",
        ),
        [
            (
                one["row"],
                f"{one['splits']} of {one['of']}",
                f"{one['gap_before']:+.4f}",
                f"{one['gap_after']:+.4f}",
                f"{one['sd']:.4f}",
                f"{one['mean_abs']:.4f}",
                f"{one['floor_abs']:.4f}",
                f"{2 * one['floor_abs']:.4f}",
                f"{MEAN_ABS * one['floor_with_audit']:.4f}",
                f"{one['features']:.2f}",
                f"{one['most_features']:.1f}",
                f"{one['auc_before']:.4f}",
                f"{one['auc_after']:.4f}",
                f"{one['accuracy_before']:.4f}",
                f"{one['accuracy_after']:.4f}",
                f"{one['target_accuracy_before']:.4f}",
                f"{one['target_accuracy_after']:.4f}",
                f"{100 * one['edited']:.1f} %",
                f"{100 * one['drawn']:.2f} %",
                f"{100 * one['unreachable']:.1f} %",
                f"{one['fit_seconds']:.2f}",
                _statuses(one),
                f"{_against(one)}; {verdict(judge(one))}",
            )
            for one in found
        ],
        [
            "best: the group that fares best in the audit, named with how often; a small one may "
            "be best by luck. A group is mended",
            "where the audit shows it worse off, and all figures are over those splits: one mended "
            "in few of them was worse off by luck.",
        ],
    )  # fmt: skip


def _against(one: dict[str, Any]) -> str:
    """Which groups were the reference, and how often."""
    names = one["baselines"]
    return ", ".join(f"{name} {names.count(name)}" for name in dict.fromkeys(names))


def _statuses(one: dict[str, Any]) -> str:
    return ", ".join(f"{name.lower()} {times}" for name, times in one["status"].items())


NOTES = """\
Gaps are target minus everybody else, on the holdout. after: mean signed gap of the decisions people
draw; by law: the same averaged over the draws. floor: the standard deviation (mean absolute gap) a
rule without a true gap shows from the holdout's sampling alone; +audit: from the audit's as well,
which a rule calibrated there cannot help. to 1, to 0: decisions turned, as shares of the target
group. drawn: share of the target group whose edit is left to chance; of all: of everybody.
In every split the other group's inputs and decisions came out as they went in."""


def print_all(found: Sequence[dict[str, Any]]) -> None:
    """Every table that has rows."""
    by_experiment = {
        name: [one for one in found if one["experiment"] == name] for name in EXPERIMENTS
    }
    for name in TITLES:
        if by_experiment[name]:
            print(f"\n{gap_table(name, by_experiment[name])}")
            print(f"\n{people_table(by_experiment[name])}")
    if by_experiment["odds"]:
        print(f"\n{odds_table(by_experiment['odds'])}")
    if by_experiment["mixed"]:
        print(f"\n{mixed_table(by_experiment['mixed'])}")
    print(f"\n{NOTES}")
    checks = [check for one in found for check in judge(one)]
    print(f"\n{sum(check.met for check in checks)} of {len(checks)} bounds met.")


def report(experiments: Sequence[str], splits: int, jobs: int, raw: Path) -> list[dict[str, Any]]:
    """Run, summarise and print."""
    lines = run_all(tasks(experiments, splits, raw), jobs)
    by_row: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for line in lines:
        by_row.setdefault((line["experiment"], line["row"]), []).append(line)
    found = [summary(group) for group in by_row.values()]
    for one, group in zip(found, by_row.values(), strict=True):
        if one["experiment"] == "mixed":
            one["of"] = min(splits, MIXED_SPLITS)
            one["baselines"] = [line["baseline"] for line in group]
        one["checks"] = [{**check._asdict(), "met": check.met} for check in judge(one)]
    print_all(found)
    return found


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write beside it and rename, so that nobody ever reads half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            json.dump(content, stream, indent=1)
            stream.write("\n")
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line, run, write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--only", nargs="+", choices=EXPERIMENTS, default=EXPERIMENTS)
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--raw", type=Path, default=RAW_ADULT, help="adult.data as UCI has it")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    if options.splits < 2 or options.jobs < 1:
        parser.error("needs at least 2 splits and 1 job")
    if "mixed" in options.only and not options.raw.exists():
        print(f"mixed is left out: there is no {options.raw.name} at {options.raw.parent}")
    started = time.perf_counter()
    found = report(options.only, options.splits, options.jobs, options.raw)
    seconds = round(time.perf_counter() - started, 1)
    names = ("fairmend", "numpy", "pandas", "scikit-learn", "scipy")
    write_json(
        options.out,
        {
            "splits": options.splits,
            "rows": found,
            "seconds": seconds,
            "versions": {name: version(name) for name in names},
        },
    )
    print(f"{seconds} s; written to {options.out}")
    return 0


if __name__ == "__main__":
    # told to stop, it takes its processes along
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
