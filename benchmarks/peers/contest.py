"""What the parent and a contestant say to each other; NumPy and the standard library only.

The parent writes one .npz with an audit part and a holdout; a contestant's script learns on the
first, decides about the second twice (the second time with the people in another order), and writes
another .npz. Every script of this folder runs in the virtual environment of its own package.

A script is a table of variants, each a function that takes a `Task` and returns what it learnt, a
function from `People` to `Decided`.
"""

from __future__ import annotations

import copy
import json
import resource
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

MAXRSS_PER_MB = 1024 if sys.platform != "darwin" else 1024 * 1024  # bytes on macOS


PATIENCE_S = 5.0
"""What takes longer to learn is not learnt again for a better time."""


class NotOffered(Exception):
    """Not in this version of the package; the message says what."""


@dataclass(frozen=True)
class Model:
    """The classifier to be mended: a logistic regression, by its coefficients."""

    coefficients: np.ndarray
    intercept: float

    def probability(self, X: Any) -> np.ndarray:
        """P(1 | x), shape (n,)."""
        return 1 / (1 + np.exp(-(np.asarray(X) @ self.coefficients + self.intercept)))

    def labels(self, X: Any) -> np.ndarray:
        """The decisions, 0 or 1."""
        return (self.probability(X) > 0.5).astype(np.int64)

    def both(self, X: Any) -> np.ndarray:
        """P(0 | x) and P(1 | x), as scikit-learn's ``predict_proba`` gives them."""
        p = self.probability(X)
        return np.stack([1 - p, p], axis=1)


class Given:
    """A score that somebody else worked out: it is the only input there is."""

    def probability(self, X: Any) -> np.ndarray:
        """The score itself, shape (n,)."""
        return np.asarray(X)[:, 0]

    def labels(self, X: Any) -> np.ndarray:
        """The score cut at one half."""
        return (self.probability(X) > 0.5).astype(np.int64)

    def both(self, X: Any) -> np.ndarray:
        """One minus the score, and the score."""
        p = self.probability(X)
        return np.stack([1 - p, p], axis=1)


@dataclass(frozen=True)
class People:
    """Those who are decided about: inputs, groups (1 is the target) and their numbers."""

    X: np.ndarray
    s: np.ndarray
    ids: np.ndarray

    def take(self, places: np.ndarray) -> People:
        """Some of them, or all in another order."""
        return People(self.X[places], self.s[places], self.ids[places])


@dataclass(frozen=True)
class Task:
    """What to learn from: people with their outcomes, the model, the gap to close, a seed."""

    people: People
    y: np.ndarray
    model: Model | Given
    aim: str
    """sp, fnr or fpr."""
    seed: int
    training: Training | None = None
    """What the model was fitted on, for those who retrain it."""


@dataclass(frozen=True)
class Training:
    """Inputs, outcomes and groups (1 is the target)."""

    X: np.ndarray
    y: np.ndarray
    s: np.ndarray


@dataclass(frozen=True)
class Decided:
    """The decisions, and what else there is to tell about them."""

    decision: np.ndarray
    later: Callable[[], Mapping[str, np.ndarray]] | None = None
    """Told once the clock has stopped: ``score``, what the package finally ranks people by;
    ``chance``, the exact probability of each positive decision; ``rows``, the inputs the model was
    fed where the package edits them."""


Learner = Callable[[Task], Callable[[People], Decided]]


def serve(variants: Mapping[str, Learner], audit: Callable[..., Any] | None = None) -> None:
    """Answer the parent: ``script.py input.npz output.npz``."""
    source, target = map(Path, sys.argv[1:3])
    with np.load(source) as stored:
        given = {name: stored[name] for name in stored.files}
    asked = json.loads(str(given["asked"]))
    model = Model(given["coefficients"], float(given["intercept"]))
    audited = People(given["X_audit"], given["s_audit"], np.arange(len(given["s_audit"])))
    holdout = People(given["X_holdout"], given["s_holdout"], np.arange(len(given["s_holdout"])))
    found: dict[str, Any] = {}
    arrays: dict[str, np.ndarray] = {}
    for job in asked["jobs"]:
        name, variant, aim = job["name"], job["variant"], job["aim"]
        is_target = given[f"target_{aim}"]
        seen, inputs = model, (audited.X, holdout.X)
        if job["surrogate"]:
            seen = Given()
            inputs = tuple(given[f"surrogate_{part}"][:, None] for part in ("audit", "holdout"))
        task = Task(
            People(inputs[0], (audited.s == is_target).astype(np.int64), audited.ids),
            given["y_audit"].astype(np.int64),
            seen,
            aim,
            asked["seed"],
            _training(given, is_target),
        )
        people = People(inputs[1], (holdout.s == is_target).astype(np.int64), holdout.ids)
        try:
            measured, decided = _run(variants[variant], task, people, asked)
        except NotOffered as missing:
            found[name] = {"failed": f"not offered: {missing}"}
        except Exception as error:
            found[name] = {"failed": f"{type(error).__name__}: {error}"}
        else:
            found[name] = measured
            for field, value in decided.items():
                arrays[f"{name}/{field}"] = value
    if asked.get("audit") and audit is not None:
        s = (audited.s == given["target_sp"]).astype(np.int64)
        found["audit"] = audit(s, given["y_audit"].astype(np.int64), model.labels(audited.X))
    np.savez(target, found=np.array(json.dumps(found)), **arrays)  # type: ignore[arg-type]


def _training(given: Mapping[str, np.ndarray], target: Any) -> Training | None:
    if "X_train" not in given:
        return None
    s = (given["s_train"] == target).astype(np.int64)
    return Training(given["X_train"], given["y_train"].astype(np.int64), s)


def _run(
    learner: Learner, task: Task, people: People, asked: Mapping[str, Any]
) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """Learn, decide, shuffle, decide again; CPU seconds are the best of the repeats."""
    before = start_memory()
    fits, predicts = [], []
    for _ in range(asked["repeats"]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit, learnt = seconds(lambda: learner(task))
            # packages with a generator of their own start the second time where they did the first
            fresh = copy.deepcopy(learnt) if asked["shuffle"] else None
            predict, decided = seconds(lambda learnt=learnt: learnt(people))
        fits.append(fit)
        predicts.append(predict)
        if fit > PATIENCE_S:
            break
    measured = {
        "fit": min(fits),
        "predict": min(predicts),
        "extra_mb": max(0.0, peak_memory() - before),
    }
    if not asked["shuffle"]:
        return measured, {}
    order = np.random.default_rng(task.seed).permutation(len(people.s))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shuffled = fresh(people.take(order))
    again = np.empty(len(order), np.int8)
    again[order] = np.asarray(shuffled.decision)
    kept = {"decision": np.asarray(decided.decision).astype(np.int8), "again": again}
    told = decided.later() if decided.later is not None else {}
    return measured, kept | {field: np.asarray(value) for field, value in told.items()}


def seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds of this process over all its threads, and what the call returned."""
    start = time.process_time()
    result = call()
    return time.process_time() - start, result


def best_of(repeats: int, calls: Iterable[tuple[str, Callable[[], Any]]]) -> dict[str, float]:
    """The least CPU seconds of each call, taken in turns."""
    calls = list(calls)
    rounds = [{name: seconds(call)[0] for name, call in calls} for _ in range(repeats)]
    return {name: min(one[name] for one in rounds) for name, _ in calls}


def start_memory() -> float:
    """The memory held now, in MB; the peak is counted from here on where the system allows it."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        return _status("VmRSS")
    except OSError:
        return peak_memory()


def peak_memory() -> float:
    """The most memory held, in MB."""
    try:
        return _status("VmHWM")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / MAXRSS_PER_MB


def _status(name: str) -> float:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / 1024
    raise OSError(f"there is no {name} here")
