"""The same repair by fairmend and by the packages people use instead, side by side in one run.

    python benchmarks/peers.py [--splits 10] [--slow-splits 2] [--blind-splits 50] [--no-large]
    python benchmarks/peers.py --blind-only     repairs that read no group at decision time, alone

Every package runs in a virtual environment of its own, with the versions pinned below, made under
results/peers/ on first use. All see the same splits of the embedded Adult and COMPAS, the same
frozen model and the same seed; the quality of what they decide is worked out here, from their
decisions alone. benchmarks/README.md says how to read the tables. Writes results/peers.json,
peers.md and peers.png; exits with 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from _published import PUBLISHED, from_the_raw_table, in_words
from _results import write_json, write_text
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from fairmend.data.columns import Frame
from fairmend.datasets import Bunch, load_adult, load_compas
from fairmend.explain.outcomes import fit_probability
from fairmend.measure.population import Tally
from fairmend.progress import progress
from fairmend.tables import UNKNOWN, TextTable, percent

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parent / "results"

AIMS = ("sp", "fnr", "fpr")
# The worse-off group by data set and aim, as in the paper.
TARGETS = {
    "adult": {"sp": "Female", "fnr": "Female", "fpr": "Male"},
    "compas": {"sp": "white", "fnr": "white", "fpr": "non-white"},
}
SIZES = (16_000, 100_000, 1_000_000)
LARGE = 10_000_000
RAW_SPLITS = 5
"""Of raw Adult, beside a published figure."""

# The bars.
DETERMINISTIC = 0.96
AUC_AHEAD = {"adult": 0.12, "compas": 0.04}
ONE_SIDED_BEHIND = 0.017
TWO_SIDED_APART = 0.002
REDUCTIONS_BEHIND = 0.006
GROWTH = 1.05


# -------------------------------------------------------------------- who takes part


@dataclass(frozen=True)
class Package:
    """A package, the script that drives it, and the exact versions it runs with."""

    name: str
    script: str
    pins: tuple[str, ...] = ()
    """Empty: this very environment."""


PACKAGES = {
    "fairlearn": Package(
        "fairlearn",
        "use_fairlearn.py",
        (
            "fairlearn==0.15.0",
            "numpy==2.4.6",
            "pandas==3.1.1",
            "scikit-learn==1.9.1",
            "scipy==1.17.1",
        ),
    ),
    "oxonfair": Package(
        "OxonFair",
        "use_oxonfair.py",
        (
            "oxonfair==0.3",
            "numpy==2.4.6",
            "pandas==3.1.1",
            "scikit-learn==1.9.1",
            "scipy==1.17.1",
        ),
    ),
    "error-parity": Package(
        "error-parity",
        "use_error_parity.py",
        (
            "error-parity==0.3.12",
            "cvxpy==1.3.4",
            "numpy==1.26.4",
            "pandas==3.0.6",
            "scikit-learn==1.9.1",
            "scipy==1.17.1",
        ),
    ),
    "aif360": Package(
        "AIF360",
        "use_aif360.py",
        (
            "aif360==0.6.1",
            "numpy==2.4.6",
            "pandas==3.1.1",
            "scikit-learn==1.9.1",
            "scipy==1.17.1",
        ),
    ),
    "equipy": Package(
        "EquiPy",
        "use_equipy.py",
        (
            "equipy==0.0.11a0.dev0",
            "numpy==2.4.6",
            "pandas==3.1.1",
            "scikit-learn==1.9.1",
            "scipy==1.17.1",
            "statsmodels==0.15.0",
        ),
    ),
    "fairmend": Package("fairmend", "use_fairmend.py"),
}


@dataclass(frozen=True)
class Contestant:
    """One way of using a package."""

    package: str
    variant: str
    title: str
    access: str
    """What it is given: the model's labels, its scores, or its labels and a surrogate score."""
    aims: tuple[str, ...] = AIMS
    slow: bool = False
    """Takes many seconds a fit: runs on few splits."""
    by: str = ""
    """The script's variant, where it is not named like this one."""

    @property
    def key(self) -> str:
        return f"{self.package}.{self.variant}"


CONTESTANTS = (
    Contestant("fairlearn", "labels", "fairlearn", "labels"),
    Contestant("error-parity", "labels", "error-parity", "labels"),
    Contestant("oxonfair", "labels", "OxonFair", "labels"),
    Contestant("equipy", "labels", "EquiPy", "labels", ("sp",)),
    Contestant("aif360", "eq_odds", "AIF360 EqOdds", "labels", ("fnr", "fpr")),
    Contestant("fairlearn", "surrogate", "fairlearn", "surrogate", by="scores"),
    Contestant("error-parity", "surrogate", "error-parity", "surrogate", by="scores"),
    Contestant("oxonfair", "surrogate", "OxonFair", "surrogate", by="scores"),
    Contestant("equipy", "surrogate", "EquiPy", "surrogate", ("sp",), by="scores"),
    Contestant(
        "aif360",
        "surrogate",
        "AIF360 RejectOption",
        "surrogate",
        ("sp", "fnr"),
        True,
        by="reject_option",
    ),
    Contestant("fairmend", "labels", "fairmend", "labels"),
    Contestant("fairlearn", "scores", "fairlearn", "scores"),
    Contestant("error-parity", "scores", "error-parity", "scores"),
    Contestant("oxonfair", "scores", "OxonFair", "scores"),
    Contestant("equipy", "scores", "EquiPy", "scores", ("sp",)),
    Contestant("aif360", "reject_option", "AIF360 RejectOption", "scores", ("sp", "fnr"), True),
    Contestant("fairmend", "scores", "fairmend", "scores"),
    Contestant("fairmend", "order", "fairmend, order", "scores"),
    Contestant("fairmend", "two_sided", "fairmend, two-sided", "scores"),
)
BLIND = (
    Contestant("oxonfair", "inferred", "OxonFair, inferred groups", "scores"),
    Contestant("fairlearn", "reductions", "fairlearn, reductions", "training"),
    Contestant("fairmend", "blind_labels", "fairmend, blind", "labels"),
    Contestant("fairmend", "blind", "fairmend, blind", "scores"),
    Contestant("fairmend", "blind_90", "fairmend, blind, level 90 %", "scores"),
    Contestant("fairmend", "blind_80", "fairmend, blind, level 80 %", "scores"),
    Contestant("fairmend", "blind_60", "fairmend, blind, level 60 %", "scores"),
)
"""Those whose decisions read no group; they have tables of their own."""
FRONTIER = ("fairmend.blind", "fairmend.blind_90", "fairmend.blind_80", "fairmend.blind_60")
"""One blind rule at several levels: what it costs to leave the gap that a peer leaves."""
ACCESS = {"labels": "labels", "surrogate": "labels + surrogate", "scores": "scores"}
BLIND_ACCESS = {**ACCESS, "training": "retrained"}
"""What is said of each access in tables."""
IN_THE_COST_RACE = ("fairlearn.labels", "fairlearn.scores", "fairmend.labels", "fairmend.scores")


# -------------------------------------------------------------------- their environments


class CannotRun(Exception):
    """Why a package does not take part."""


def python_of(package: Package, folder: Path) -> Path:
    """The interpreter a package runs in; its environment is made if it is not there yet."""
    if not package.pins:
        return Path(sys.executable)
    place = folder / package.script.removeprefix("use_").removesuffix(".py")
    python, stamp = place / "bin" / "python", place / "pins.txt"
    wanted = "\n".join((platform.python_version(), *package.pins))
    if stamp.exists() and python.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return python
    shutil.rmtree(place, ignore_errors=True)
    _ask([sys.executable, "-m", "venv", str(place)], "its environment could not be made")
    install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _ask([str(python), *install, *package.pins], "it could not be installed")
    stamp.write_text(wanted, encoding="utf-8")
    return python


def frozen(python: Path) -> list[str]:
    """Everything installed beside a package, with versions."""
    done = subprocess.run(
        [str(python), "-m", "pip", "list", "--format=freeze", "--disable-pip-version-check"],
        capture_output=True,
        text=True,
        check=False,
    )
    return sorted(line for line in done.stdout.split() if "==" in line)


def _ask(command: Sequence[str], otherwise: str, **settings: Any) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, **settings)
    if done.returncode != 0:
        raise CannotRun(f"{otherwise}: {_reason(done.stderr)}")


def _reason(stderr: str) -> str:
    """The line that says why, without the addresses and paths of one machine."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    line = (errors or lines or ["it gave no reason"])[-1]
    line = re.sub(r"\w+://\S+", "…", line)
    return re.sub(r"(?<![\w.])/\S+", "…", line)[:200]


# -------------------------------------------------------------------- splits


@dataclass(frozen=True)
class Part:
    """Some people of a data set."""

    X: np.ndarray
    y: np.ndarray
    s: np.ndarray

    @classmethod
    def of(cls, data: Bunch, places: np.ndarray) -> Part:
        return cls(data.X[places], data.y[places], np.asarray(data.sensitive_features)[places])


@dataclass(frozen=True)
class Surrogate:
    """P(Y=1 | x) as fairmend fits it from labels alone, for packages that cannot do without scores.

    An l2 logistic regression of the outcomes on the inputs of everybody in the audit part,
    cross-fitted there. It knows nothing of the model.
    """

    audit: np.ndarray
    """A value for each person, from a fit that did not see their row."""
    holdout: np.ndarray
    """From the fit on the whole audit part."""
    seconds: float
    """CPU seconds of the fit; part of every contestant's own that uses it."""

    @classmethod
    def fit(cls, audit: Part, holdout: Part, seed: int) -> Surrogate:
        rows, place = np.unique(audit.X, axis=0, return_inverse=True)
        place = place.ravel()
        counts = np.zeros((len(rows), 2))
        np.add.at(counts, (place, audit.y.astype(int)), 1)
        started = time.process_time()
        fitted = fit_probability(
            Frame.read(rows), Tally(counts, counts, counts), what="P(Y=1 | x)", random_state=seed
        )
        seconds = time.process_time() - started
        return cls(fitted.probability[place], fitted.predict(Frame.read(holdout.X)), seconds)


@dataclass(frozen=True)
class Split:
    """A model trained on 30 % of a data set, 50 % to audit and mend on, 20 % to judge by."""

    data: str
    seed: int
    model: LogisticRegression
    audit: Part
    holdout: Part
    train: Part | None = None
    """What the model was fitted on, for those who retrain it."""

    @classmethod
    def make(cls, data: Bunch, seed: int) -> Split:
        order = np.random.default_rng(seed).permutation(len(data.y))
        first, second = (round(share * len(order)) for share in (0.3, 0.8))
        train, audit, holdout = (
            Part.of(data, places) for places in np.split(order, [first, second])
        )
        model = LogisticRegression(C=100, max_iter=2_000).fit(train.X, train.y)
        return cls(data.name, seed, model, audit, holdout, train)

    def probability(self, X: np.ndarray) -> np.ndarray:
        """The model's own P(1 | x)."""
        return self.model.predict_proba(X)[:, 1]

    @cached_property
    def surrogate(self) -> Surrogate:
        """A score for those who are given labels alone."""
        return Surrogate.fit(self.audit, self.holdout, self.seed)

    def as_arrays(self, jobs: list[dict[str, Any]], **asked: Any) -> dict[str, np.ndarray]:
        """What a contestant is told; never the outcomes of the holdout."""
        targets = TARGETS[self.data]
        scores = {}
        if any(job["surrogate"] for job in jobs):
            scores["surrogate_audit"] = self.surrogate.audit
            scores["surrogate_holdout"] = self.surrogate.holdout
        training = {}
        if self.train is not None and any(job["training"] for job in jobs):
            training = {
                "X_train": self.train.X, "y_train": self.train.y, "s_train": self.train.s
            }  # fmt: skip
        return {
            **scores,
            **training,
            "X_audit": self.audit.X,
            "y_audit": self.audit.y,
            "s_audit": self.audit.s,
            "X_holdout": self.holdout.X,
            "s_holdout": self.holdout.s,
            "coefficients": self.model.coef_[0],
            "intercept": self.model.intercept_[0],
            **{f"target_{aim}": np.array(group) for aim, group in targets.items()},
            "asked": np.array(json.dumps({"jobs": jobs, "seed": self.seed, **asked})),
        }


def load(name: str) -> Bunch:
    """An embedded data set, as arrays."""
    return {"adult": load_adult, "compas": load_compas}[name](backend="numpy")


# -------------------------------------------------------------------- running them


@dataclass(frozen=True)
class Answer:
    """What a script wrote."""

    found: dict[str, dict[str, Any]]
    arrays: dict[str, np.ndarray] = field(default_factory=dict)

    def of(self, name: str) -> dict[str, np.ndarray]:
        """The arrays of one job."""
        return {
            key.removeprefix(f"{name}/"): value
            for key, value in self.arrays.items()
            if key.startswith(f"{name}/")
        }


def ask(package: Package, python: Path, arrays: dict[str, np.ndarray]) -> Answer:
    """Put one input to a package's script, and read what it answers."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "input.npz"), Path(folder, "output.npz")
        np.savez(source, **arrays)  # type: ignore[arg-type]
        one_thread = dict.fromkeys(
            ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"
        )
        command = [str(python), str(HERE / "peers" / package.script), str(source), str(target)]
        _ask(command, "its script failed", env={**os.environ, **one_thread})
        with np.load(target) as stored:
            content = {name: stored[name] for name in stored.files}
    found = json.loads(str(content.pop("found")))
    return Answer(found, content)


def jobs_of(
    package: str, split: int, slow_splits: int, contestants: Sequence[Contestant] = CONTESTANTS
) -> list[dict[str, Any]]:
    """What a package is asked to do on one split."""
    return [
        _job(one, aim, f"{one.key}.{aim}")
        for one in contestants
        if one.package == package and (not one.slow or split < slow_splits)
        for aim in one.aims
    ]


def _job(one: Contestant, aim: str, name: str) -> dict[str, Any]:
    variant, surrogate = one.by or one.variant, one.access == "surrogate"
    training = one.access == "training"
    return {
        "name": name, "variant": variant, "aim": aim, "surrogate": surrogate, "training": training
    }  # fmt: skip


def run_quality(
    pythons: dict[str, Path],
    data: Sequence[str],
    splits: int,
    slow_splits: int,
    workers: int,
    *,
    contestants: Sequence[Contestant] = CONTESTANTS,
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """One record per data set, aim, contestant and split; and what went wrong, and where."""
    made = [Split.make(load(name), seed) for name in data for seed in range(splits)]
    taking_part = {one.package for one in contestants}
    asked = [(split, package) for split in made for package in pythons if package in taking_part]
    # the long ones first, or the last of them is waited for alone
    asked.sort(key=lambda one: (PACKAGES[one[1]].name != "AIF360", one[0].seed))
    records = [_judge(split, "model", aim, {}, {}) for split in made for aim in AIMS]
    failures: dict[str, str] = {}

    def one(job: tuple[Split, str]) -> tuple[Split, str, Answer | CannotRun]:
        split, package = job
        jobs = jobs_of(package, split.seed, slow_splits, contestants)
        arrays = split.as_arrays(jobs, repeats=2, shuffle=True)
        try:
            return split, package, ask(PACKAGES[package], pythons[package], arrays)
        except CannotRun as reason:
            return split, package, reason

    with (
        progress("the packages at work", len(asked)) as advance,
        ThreadPoolExecutor(workers) as pool,
    ):
        for split, package, answer in pool.map(one, asked):
            advance(1)
            for job in jobs_of(package, split.seed, slow_splits, contestants):
                key, aim = job["name"].rsplit(".", 1)
                where = f"{key}, {split.data} {aim}, split {split.seed}"
                if isinstance(answer, CannotRun):
                    failures[where] = str(answer)
                elif "failed" in answer.found[job["name"]]:
                    failures[where] = _reason(answer.found[job["name"]]["failed"])
                else:
                    told, measured = answer.of(job["name"]), answer.found[job["name"]]
                    if job["surrogate"]:
                        measured["fit"] += split.surrogate.seconds
                    records.append(_judge(split, key, aim, told, measured))
    return records, failures


# -------------------------------------------------------------------- judging


def _judge(
    split: Split, key: str, aim: str, told: dict[str, np.ndarray], measured: dict[str, float]
) -> dict[str, Any]:
    """Everything about one contestant's decisions on one holdout; "model" is the model itself."""
    part = split.holdout
    p = split.probability(part.X)
    own = (p > 0.5).astype(np.int8)
    decision = told.get("decision", own)
    target = part.s == TARGETS[split.data][aim]
    score = p if key == "model" else final_score(split, told)
    record = {
        "data": split.data,
        "aim": aim,
        "contestant": key,
        "split": split.seed,
        "gap": gap(aim, part.y, decision, target),
        "accuracy": np.mean(decision == part.y),
        "accuracy_target": np.mean((decision == part.y)[target]),
        "accuracy_other": np.mean((decision == part.y)[~target]),
        "accepted_target": np.mean(decision[target]),
        "accepted_other": np.mean(decision[~target]),
        "other_changed": np.mean((decision != own)[~target]),
        "target_changed": np.mean((decision != own)[target]),
        "mixed": mixed(part.X, target, decision),
        "reordered": np.mean(decision != told.get("again", own)),
        "auc_target": roc_auc_score(part.y[target], score[target]),
        "auc_decisions_target": roc_auc_score(part.y[target], decision[target]),
        "randomised": _randomised(told.get("chance"), slice(None)),
        "randomised_target": _randomised(told.get("chance"), target),
        "fit": measured.get("fit"),
        "predict": measured.get("predict"),
        "extra_mb": measured.get("extra_mb"),
    }
    return {
        name: float(value) if isinstance(value, np.floating) else value
        for name, value in record.items()
    }


def final_score(split: Split, told: dict[str, np.ndarray]) -> np.ndarray:
    """What people are ranked by in the end.

    The model's own probability at the edited row, where inputs are edited; else the score the
    package gives; else its decisions.
    """
    if "rows" in told:
        return split.probability(told["rows"])
    return told.get("score", told["decision"])


def gap(aim: str, y: np.ndarray, decision: np.ndarray, target: np.ndarray) -> float:
    """The target's rate minus the other group's: refusals, or errors among those concerned."""
    bad = decision == 0 if aim in ("sp", "fnr") else decision == 1
    concerned = {"sp": np.ones(len(y), bool), "fnr": y == 1, "fpr": y == 0}[aim]
    return float(np.mean(bad[concerned & target]) - np.mean(bad[concerned & ~target]))


def mixed(X: np.ndarray, target: np.ndarray, decision: np.ndarray) -> float:
    """Share of people in a cell of identical inputs and group that gets both answers."""
    _, cell = np.unique(np.column_stack([X, target]), axis=0, return_inverse=True)
    cell = cell.ravel()
    share = np.bincount(cell, decision) / np.bincount(cell)
    return float(np.mean((share[cell] > 0) & (share[cell] < 1)))


def _randomised(chance: np.ndarray | None, who: Any) -> float | None:
    if chance is None:
        return None
    return float(np.mean((chance[who] > 0) & (chance[who] < 1)))


def summarise(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Means over the splits, and the standard deviation of the gap."""
    rows = []
    order = ["model", *(one.key for one in (*CONTESTANTS, *BLIND))]
    for data in TARGETS:
        for aim in AIMS:
            for key in order:
                chosen = [
                    one
                    for one in records
                    if (one["data"], one["aim"], one["contestant"]) == (data, aim, key)
                ]
                if chosen:
                    rows.append({"data": data, "aim": aim, "contestant": key, **_mean(chosen)})
    return rows


def _mean(chosen: list[dict[str, Any]]) -> dict[str, Any]:
    names = [name for name in chosen[0] if name not in ("data", "aim", "contestant", "split")]
    mean = {
        name: None if chosen[0][name] is None else float(np.mean([one[name] for one in chosen]))
        for name in names
    }
    return {
        "splits": len(chosen),
        **mean,
        "gap_sd": float(np.std([one["gap"] for one in chosen], ddof=1)) if len(chosen) > 1 else 0.0,
    }


# -------------------------------------------------------------------- cost


def run_cost(
    pythons: dict[str, Path], sizes: Sequence[int], repeats: int
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """CPU seconds and memory by size: packages take turns, each time in a fresh process."""
    racing = [one for one in CONTESTANTS if one.key in IN_THE_COST_RACE and one.package in pythons]
    turns = [(rows, turn) for rows in sizes for turn in range(repeats)]
    taken: dict[tuple[str, int], list[dict[str, float]]] = {}
    audits: dict[tuple[str, int], list[dict[str, float]]] = {}
    failures: dict[str, str] = {}
    with progress("the cost race", len(turns)) as advance:
        for rows, turn in turns:
            split = _resampled(rows)
            for one in racing:
                jobs = [_job(one, "sp", one.key)]
                again = 3 if rows <= 100_000 else 2  # in a row, so that nobody is judged cold
                asked = {
                    "repeats": again,
                    "shuffle": False,
                    # once a package; at more rows fairlearn's takes many minutes
                    "audit": turn == 0 and one.variant == "scores" and rows <= SIZES[-1],
                }
                where = f"{one.key}, {rows:,} rows"
                try:
                    arrays = split.as_arrays(jobs, **asked)
                    answer = ask(PACKAGES[one.package], pythons[one.package], arrays)
                except CannotRun as reason:
                    failures[where] = str(reason)
                    continue
                found = answer.found[one.key]
                if "failed" in found:
                    failures[where] = _reason(found["failed"])
                else:
                    taken.setdefault((one.key, rows), []).append(found)
                if "audit" in answer.found:
                    audits.setdefault((one.package, rows), []).append(answer.found["audit"])
            advance(1)
    best = [
        {
            "contestant": key,
            "rows": rows,
            "fit": min(one["fit"] for one in found),
            "predict": min(one["predict"] for one in found),
            "extra_mb": min(one["extra_mb"] for one in found),
        }
        for (key, rows), found in taken.items()
    ]
    seen = [
        {
            "contestant": f"{package}.audit",
            "rows": rows,
            "fit": min(one["with intervals"] for one in found),
            "predict": 0.0,
            "extra_mb": None,
        }
        for (package, rows), found in audits.items()
    ]
    return [{**one, "total": one["fit"] + one["predict"]} for one in (*best, *seen)], failures


def _resampled(rows: int) -> Split:
    """Adult drawn with replacement to any size: to mend on, and as many again to decide about."""
    split = Split.make(load("adult"), 0)
    rng = np.random.default_rng(rows)

    def more(part: Part) -> Part:
        places = rng.integers(len(part.y), size=rows)
        return Part(part.X[places], part.y[places], part.s[places])

    return Split("adult", 0, split.model, more(split.audit), more(split.holdout))


def seconds(cost: Iterable[dict[str, Any]], key: str, rows: int) -> float | None:
    """Fit and predict together; None where it did not run."""
    found = [one["total"] for one in cost if (one["contestant"], one["rows"]) == (key, rows)]
    return found[0] if found else None


def exponent(cost: list[dict[str, Any]], key: str, low: int, high: int) -> float | None:
    """The e in time ~ n^e between two sizes."""
    first, last = seconds(cost, key, low), seconds(cost, key, high)
    if first is None or last is None or min(first, last) <= 0:
        return None
    return float(np.log(last / first) / np.log(high / low))


# -------------------------------------------------------------------- the bars


@dataclass(frozen=True)
class Bar:
    """A promise, what was measured, and whether it is kept; None: not judged in this run."""

    promise: str
    measured: str
    met: bool | None

    @property
    def verdict(self) -> str:
        return {True: "met", False: "missed", None: "not judged"}[self.met]


def bars(records: list[dict[str, Any]], cost: list[dict[str, Any]]) -> list[Bar]:
    """Every bar of the comparison; rows are compared over the splits that both sides have."""
    return [
        *_labels_only(records),
        _behind(
            records,
            "fairmend.scores",
            "with scores, one group repaired: "
            f"accuracy at most {ONE_SIDED_BEHIND} below fairlearn's",
            ONE_SIDED_BEHIND,
        ),
        _behind(
            records,
            "fairmend.two_sided",
            f"with scores, both groups repaired: accuracy within {TWO_SIDED_APART} of fairlearn's",
            TWO_SIDED_APART,
        ),
        *_speed(cost),
    ]


def ahead(
    records: list[dict[str, Any]], data: str, aim: str, *, measure: str, ours: str, theirs: str
) -> float | None:
    """Our mean minus theirs over the splits that both have; None if there is none."""
    by_split: dict[str, dict[int, float]] = {ours: {}, theirs: {}}
    for one in records:
        if (one["data"], one["aim"]) == (data, aim) and one["contestant"] in by_split:
            by_split[one["contestant"]][one["split"]] = one[measure]
    common = by_split[ours].keys() & by_split[theirs].keys()
    if not common:
        return None
    return float(np.mean([by_split[ours][split] - by_split[theirs][split] for split in common]))


def blind_bars(rows: list[dict[str, Any]]) -> list[Bar]:
    """The bars of rules that read no group: the gap, and accuracy at the gap that a peer leaves.

    The gaps are means over splits, so that two of them differ by their sampling errors too.
    """
    cells: dict[str, dict[str, dict[str, Any]]] = {}
    for row in rows:
        cells.setdefault(f"{row['data']} {row['aim']}", {})[row["contestant"]] = row
    bars = []
    for rival, least in (("oxonfair.inferred", 0.0), ("fairlearn.reductions", -REDUCTIONS_BEHIND)):
        wider, ahead_by = [], []
        for where, here in cells.items():
            same = accuracy_at(here, here[rival]["gap"]) if rival in here else None
            if same is None:
                continue
            ours, theirs = (abs(here[key]["gap"]) for key in (FRONTIER[0], rival))
            wider.append((ours - theirs, f"{where}, {ours:.3f} beside {theirs:.3f}"))
            ahead_by.append((same - here[rival]["accuracy"], where))
        name = title_of(rival).rsplit(",", 1)[0]
        gap, accuracy = max(wider, default=None), min(ahead_by, default=None)
        bars += [
            Bar(
                f"without the group: in no row a wider gap than {name}",
                f"{gap[0]:+.3f} in the worst row ({gap[1]})" if gap else "",
                gap[0] <= 0 if gap else None,
            ),
            Bar(
                f"without the group: accuracy at the gap of {name} "
                + ("above its own" if least == 0 else f"at most {-least} below its own"),
                f"{accuracy[0]:+.3f} in the worst row ({accuracy[1]})" if accuracy else "",
                accuracy[0] >= least if accuracy else None,
            ),
        ]
    return bars


def _labels_only(records: list[dict[str, Any]]) -> Iterator[Bar]:
    ours = [row for row in summarise(records) if row["contestant"] == "fairmend.labels"]
    drawn = max(
        ((row["randomised_target"], f"{row['data']} {row['aim']}") for row in ours), default=None
    )
    yield Bar(
        f"labels only: at least {DETERMINISTIC:.0%} of the repaired group decided without a draw",
        "" if drawn is None else f"{1 - drawn[0]:.1%} in the worst row ({drawn[1]})",
        None if drawn is None else 1 - drawn[0] >= DETERMINISTIC,
    )
    most = max((row["other_changed"] for row in ours), default=None)
    yield Bar(
        "labels only: the other group is not changed",
        "" if most is None else f"{most:.1%} changed in the worst row",
        None if most is None else most == 0,
    )
    for data, least in AUC_AHEAD.items():
        lead = least_lead(records, data, "auc_decisions_target", "labels")
        yield Bar(
            "labels only: AUC of the decisions about the target above every labels-only peer's by "
            f"{least} on {data}",
            _at_the_least(lead),
            None if lead is None else lead[0] >= least,
        )
    for data in AUC_AHEAD:
        for measure, access, words in (
            ("auc_decisions_target", "surrogate", "AUC of the decisions about the target beside "
             "every peer's that is given the surrogate"),
            ("auc_target", "labels", "the target's AUC by the final ranking, which for fairmend is "
             "the model's own score, beside every labels-only peer's"),
        ):  # fmt: skip
            lead = least_lead(records, data, measure, access)
            yield Bar(f"labels only: {words} on {data} (shown, no bar)", _at_the_least(lead), None)


def least_lead(
    records: list[dict[str, Any]], data: str, measure: str, access: str
) -> tuple[float, str] | None:
    """By how much fairmend with labels is ahead where it is least; negative: behind."""
    sides = {"measure": measure, "ours": "fairmend.labels"}
    leads = [
        (lead, f"{aim}, against {one.title}")
        for aim in AIMS
        for one in CONTESTANTS
        if one.access == access and one.package != "fairmend"
        if (lead := ahead(records, data, aim, theirs=one.key, **sides)) is not None
    ]
    return min(leads, default=None)


def _at_the_least(lead: tuple[float, str] | None) -> str:
    return "" if lead is None else f"{lead[0]:+.3f} in the worst row ({lead[1]})"


def _behind(records: list[dict[str, Any]], key: str, promise: str, most: float) -> Bar:
    sides = {"measure": "accuracy", "ours": key, "theirs": "fairlearn.scores"}
    behind = [
        (-lead, f"{data} {aim}")
        for data in TARGETS
        for aim in AIMS
        if (lead := ahead(records, data, aim, **sides)) is not None
    ]
    if not behind:
        return Bar(promise, "", None)
    worst, where = max(behind)
    return Bar(promise, f"{worst:+.4f} below in the worst row ({where})", worst <= most)


def _speed(cost: list[dict[str, Any]]) -> Iterator[Bar]:
    theirs = seconds(cost, "fairlearn.scores", 100_000)
    for key in ("fairmend.scores", "fairmend.labels"):
        ours = seconds(cost, key, 100_000)
        known = ours is not None and theirs is not None
        judged = key == "fairmend.scores"  # like with like; the other is shown, whatever it is
        yield Bar(
            f"{title_of(key)}: no slower than fairlearn with scores at 100,000 rows"
            + ("" if judged else " (shown, no bar)"),
            f"{ours / theirs:.2f} of its time" if known else "",
            ours <= theirs if known and judged else None,
        )
    largest = max((one["rows"] for one in cost), default=0)
    for key in ("fairmend.scores", "fairmend.labels"):
        growth = exponent(cost, key, 100_000, largest) if largest > 100_000 else None
        promise = f"{title_of(key)}: time grows no faster than n^{GROWTH} from 100,000 to {LARGE:,}"
        if growth is None:
            yield Bar(promise, "", None)
            continue
        whole = largest >= LARGE
        measured = f"n^{growth:.2f} to {largest:,}" + ("" if whole else "; judged with --large")
        yield Bar(promise, measured, growth <= GROWTH if whole or growth > GROWTH else None)


# -------------------------------------------------------------------- telling


def title_of(key: str) -> str:
    """What a contestant is called in tables."""
    if key == "model":
        return "the model as it is"
    package, variant = key.split(".")
    if variant == "audit":
        return f"{PACKAGES[package].name}, audit with intervals"
    one = next(one for one in (*CONTESTANTS, *BLIND) if one.key == key)
    return f"{one.title}, {BLIND_ACCESS[one.access]}"


def _three(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.3f}".replace("0.", ".", 1)


def quality_table(rows: list[dict[str, Any]], data: str, aim: str) -> TextTable:
    """One row a contestant."""
    cells = [
        (
            title_of(row["contestant"]),
            f"{row['splits']}",
            f"{row['gap']:+.3f} ± {row['gap_sd']:.3f}",
            f"{_three(row['accuracy'])}",
            f"{_three(row['accuracy_target'])} / {_three(row['accuracy_other'])}",
            f"{percent(row['accepted_target'])} / {percent(row['accepted_other'])}",
            percent(row["other_changed"]),
            percent(row["mixed"]),
            percent(row["reordered"]),
            _three(row["auc_decisions_target"]),
            _three(row["auc_target"]),
            UNKNOWN if row["fit"] is None else f"{row['fit']:.3f}",
            UNKNOWN if row["predict"] is None else f"{row['predict']:.3f}",
        )
        for row in rows
        if (row["data"], row["aim"]) == (data, aim)
    ]
    return TextTable(
        f"{data}, {aim}: the gap of {TARGETS[data][aim]}",
        (
            "<",
            "splits",
            "gap after",
            "accuracy",
            "target / other",
            "accepted",
            "other changed",
            "mixed",
            "reordered",
            "AUC of decisions",
            "AUC of ranking",
            "fit s",
            "predict s",
        ),
        cells,
    )


def blind_table(
    rows: list[dict[str, Any]],
    did_not_run: dict[str, str],
    published: dict[str, float] | None = None,
    note: str = "",
) -> TextTable:
    """Decisions without the group, all data sets and aims; levels are in their own column."""
    shown = [one for one in BLIND if one.key not in FRONTIER[1:]]
    cells = []
    for data, aim in dict.fromkeys((row["data"], row["aim"]) for row in rows):
        here = {row["contestant"]: row for row in rows if (row["data"], row["aim"]) == (data, aim)}
        for key in ("model", *(one.key for one in shown)):
            name = (f"{data} {aim}", title_of(key))
            if key not in here:
                cells.append((*name, "0", _why_not(key, did_not_run), *(8 * [UNKNOWN])))
                continue
            row = here[key]
            theirs = key != "model" and not key.startswith("fairmend")
            same = accuracy_at(here, row["gap"]) if theirs else None
            cells.append(
                (
                    *name,
                    f"{row['splits']}",
                    f"{row['gap']:+.3f} ± {row['gap_sd']:.3f}",
                    _three(row["accuracy"]),
                    _three(same),
                    f"{percent(row['accepted_target'])} / {percent(row['accepted_other'])}",
                    percent(row["target_changed"]),
                    percent(row["other_changed"]),
                    percent(row["mixed"]),
                    percent(row["reordered"]),
                    UNKNOWN if row["fit"] is None else f"{row['fit']:.2f}",
                )
            )
    return TextTable(
        "Without the group when deciding",
        (
            "<", "<", "splits", "gap after", "accuracy", "fairmend at that gap", "accepted",
            "target changed", "other changed", "mixed", "reordered", "fit s",
        ),
        cells,
        [
            "Groups are known only in the audit part. fairmend at that gap: accuracy of its rule "
            "with scores at the gap that the other package leaves, interpolated between levels of "
            "60 to 100 %; at a level of 100 % where the other package overshoots. Reductions "
            "retrain the model on its own 30 % and choose at random among the models they mix.",
            f"{PUBLISHED} {in_words(published)}",
            *([note] if note else []),
        ],
    )  # fmt: skip


def _why_not(key: str, did_not_run: dict[str, str]) -> str:
    reasons = [why for where, why in did_not_run.items() if where.split(",")[0] == key]
    return f"did not run: {reasons[0]}" if reasons else "did not run"


def accuracy_at(here: dict[str, dict[str, Any]], gap: float) -> float | None:
    """Of our blind rule at the level that leaves this gap; None where it did not run."""
    levels = [here[key] for key in FRONTIER if key in here]
    if len(levels) < len(FRONTIER):
        return None
    points = sorted((row["gap"], row["accuracy"]) for row in levels)
    return float(np.interp(gap, [at for at, _ in points], [right for _, right in points]))


def cost_table(cost: list[dict[str, Any]]) -> TextTable:
    """Seconds, ratios to fairlearn's and growth, by size."""
    sizes = sorted({one["rows"] for one in cost})
    keys = list(dict.fromkeys(one["contestant"] for one in cost))
    cells = []
    for key in keys:
        rival = "fairlearn.audit" if key.endswith(".audit") else "fairlearn.scores"
        for rows in sizes:
            one = next((c for c in cost if (c["contestant"], c["rows"]) == (key, rows)), None)
            if one is None:
                continue
            theirs = seconds(cost, rival, rows)
            smaller = max((size for size in sizes if size < rows), default=None)
            growth = None if smaller is None else exponent(cost, key, smaller, rows)
            cells.append(
                (
                    title_of(key),
                    f"{rows:,}",
                    f"{one['fit']:.3f}",
                    f"{one['predict']:.3f}",
                    UNKNOWN if theirs is None else _ratio(one["total"] / theirs),
                    UNKNOWN if growth is None else f"n^{growth:.2f}",
                    UNKNOWN if one["extra_mb"] is None else f"{one['extra_mb']:,.0f}",
                )
            )
    return TextTable(
        "Cost, CPU seconds, best of several",
        ("<", "rows", "fit s", "predict s", "of fairlearn's", "growth", "extra MB"),
        cells,
        ["Ratios: to fairlearn with scores, audits to fairlearn's audit with a bootstrap of 100."],
    )


def _ratio(value: float) -> str:
    return f"{value:.2f}" if value > 0.1 else f"1/{1 / value:,.0f}"


def bars_table(judged: list[Bar]) -> TextTable:
    """Promises and verdicts."""
    return TextTable(
        "Bars",
        ("<promise", "<measured", "<verdict"),
        [(bar.promise, bar.measured or UNKNOWN, bar.verdict) for bar in judged],
    )


def absent_table(failures: dict[str, str]) -> TextTable:
    """Who did not run, why, and how often."""
    times: dict[tuple[str, str], list[str]] = {}
    for where, reason in failures.items():
        key, _, rest = where.partition(", ")
        times.setdefault((key, reason), []).append(rest)
    return TextTable(
        "Did not run",
        ("<contestant", "times", "<reason"),
        [
            (title_of(key), "all" if places == [""] else f"{len(places)}", reason)
            for (key, reason), places in times.items()
        ],
    )


def offers_table() -> TextTable:
    """Which gaps each can close."""
    return TextTable(
        "Gaps each can close",
        ("<contestant", "<aims"),
        [(title_of(one.key), ", ".join(one.aims)) for one in CONTESTANTS],
    )


def section(table: TextTable) -> str:
    """A table as part of a page."""
    return "\n".join([f"## {table.title}", "", table.markdown(), "", *table.notes])


def chart(rows: list[dict[str, Any]]) -> Any:
    """The gap left against accuracy, one panel a data set and aim."""
    import altair as alt

    from fairmend.report.plot import GREY, INK

    # Okabe and Ito's colours, told apart with any kind of colour vision
    colours = {
        "the model as it is": "#000000",
        "fairmend": "#0072B2",
        "fairlearn": "#D55E00",
        "OxonFair": "#009E73",
        "error-parity": "#E69F00",
        "AIF360": "#CC79A7",
        "EquiPy": "#56B4E9",
    }
    access = {one.key: ACCESS[one.access] for one in CONTESTANTS}
    points = [
        {
            "panel": row["aim"],
            "data": row["data"],
            "package": "the model as it is"
            if row["contestant"] == "model"
            else PACKAGES[row["contestant"].split(".")[0]].name,
            "sees": {"model": "the model as it is"}.get(
                row["contestant"], access.get(row["contestant"], "")
            ),
            "gap": row["gap"],
            "accuracy": row["accuracy"],
            "auc": row["auc_decisions_target"],
        }
        for row in sorted(rows, key=lambda row: access.get(row["contestant"]) == "labels")
    ]
    shown = [name for name in colours if any(point["package"] == name for point in points)]

    def panel(data: str, aim: str, measure: str, title: str) -> Any:
        chosen = [one for one in points if one["data"] == data and one["panel"] == aim]
        base = alt.Chart(alt.Data(values=chosen)).encode(
            x=alt.X(
                "gap:Q",
                title="gap left",
                scale=alt.Scale(padding=14),
                axis=alt.Axis(format="+.2f", tickCount=5),
            ),
            y=alt.Y(
                f"{measure}:Q",
                title=title,
                scale=alt.Scale(zero=False, padding=14),
                axis=alt.Axis(format=".2f", tickCount=5),
            ),
            color=alt.Color(
                "package:N",
                scale=alt.Scale(domain=shown, range=[colours[name] for name in shown]),
                legend=alt.Legend(title="package", symbolType="square", symbolStrokeWidth=0),
            ),
            shape=alt.Shape(
                "sees:N",
                scale=alt.Scale(
                    domain=[*ACCESS.values(), "the model as it is"],
                    range=["triangle-up", "square", "circle", "cross"],
                ),
                legend=alt.Legend(title="what it is given", symbolFillColor=INK),
            ),
        )
        zero = alt.Chart(alt.Data(values=[{"zero": 0}])).mark_rule(color=GREY, strokeDash=[4, 3])
        marks = base.mark_point(filled=True, size=110, opacity=0.85)
        return (zero.encode(x="zero:Q") + marks).properties(
            width=230, height=170, title=f"{data}, {aim} of {TARGETS[data][aim]}"
        )

    present = [data for data in TARGETS if any(one["data"] == data for one in points)]
    lines = [
        alt.hconcat(*(panel(data, aim, measure, title) for aim in AIMS))
        for data in present
        for measure, title in (("accuracy", "accuracy"), ("auc", "AUC of decisions"))
    ]
    return (
        alt.vconcat(*lines)
        .properties(
            title={
                "text": "Gap left, accuracy, and AUC of the decisions about the target, means",
                "subtitle": "up is better, and nearer to the dashed line",
                "anchor": "start",
            }
        )
        .configure_view(stroke=None)
        .configure_axis(labelFontSize=11, titleFontSize=11, labelColor=INK, titleColor=INK)
    )


# -------------------------------------------------------------------- the whole


def prepare(names: Sequence[str], folder: Path) -> tuple[dict[str, Path], dict[str, str]]:
    """An interpreter for every package, and why some have none."""
    pythons: dict[str, Path] = {}
    failures: dict[str, str] = {}
    for name in names:
        try:
            pythons[name] = python_of(PACKAGES[name], folder)
        except CannotRun as reason:
            everywhere = (one for one in (*CONTESTANTS, *BLIND) if one.package == name)
            failures |= {one.key: str(reason) for one in everywhere}
    return pythons, failures


def compare(
    pythons: dict[str, Path],
    *,
    data: Sequence[str] = tuple(TARGETS),
    splits: int = 10,
    slow_splits: int = 2,
    blind_splits: int = 50,
    workers: int = 2,
    sizes: Sequence[int] = SIZES,
    repeats: int = 3,
    blind_only: bool = False,
    raw_splits: int = 0,
) -> dict[str, Any]:
    """Run everything; the result is what the JSON file holds."""
    started = time.perf_counter()
    records: list[dict[str, Any]] = []
    failures: dict[str, str] = {}
    if not blind_only:
        records, failures = run_quality(pythons, data, splits, slow_splits, workers)
    rows = summarise(records)
    blind, more = run_quality(pythons, data, blind_splits, slow_splits, workers, contestants=BLIND)
    failures |= more
    cost, too_dear = run_cost(pythons, sizes, repeats) if sizes else ([], {})
    judged = bars(records, cost)
    return {
        "splits": splits,
        "slow_splits": slow_splits,
        "summary": rows,
        "records": records,
        "blind": summarise(blind),
        "blind_records": blind,
        "beside_published": from_the_raw_table(raw_splits) if raw_splits else None,
        "cost": cost,
        "bars": [
            {"promise": bar.promise, "measured": bar.measured, "verdict": bar.verdict}
            for bar in judged
        ],
        "did_not_run": failures | too_dear,
        "pins": {name: PACKAGES[name].pins for name in pythons},
        "installed": {name: frozen(python) for name, python in pythons.items()},
        "machine": {"cpus": os.cpu_count(), "platform": platform.platform()},
        "seconds": round(time.perf_counter() - started, 1),
    }


def tables(found: dict[str, Any]) -> list[TextTable]:
    """Everything for people."""
    rows = found["summary"]
    present = dict.fromkeys((row["data"], row["aim"]) for row in rows)
    judged = [
        Bar(bar["promise"], bar["measured"], {"met": True, "missed": False}.get(bar["verdict"]))
        for bar in found["bars"]
        if rows
    ]
    blind = []
    if found.get("blind"):
        beside = found.get("beside_published")
        note = found.get("blind_note", "")
        blind = [blind_table(found["blind"], found["did_not_run"], beside, note)]
        judged += blind_bars(found["blind"])
    return [
        *(quality_table(rows, data, aim) for data, aim in present),
        *blind,
        *([cost_table(found["cost"])] if found["cost"] else []),
        *([bars_table(judged)] if judged else []),
        *([offers_table()] if rows else []),
        *([absent_table(found["did_not_run"])] if found["did_not_run"] else []),
    ]


def main() -> int:
    """Prepare, run, print, write, and judge."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument(
        "--slow-splits", type=int, default=2, help="for what takes many seconds a fit"
    )
    parser.add_argument(
        "--blind-splits", type=int, default=50, help="splits of the rules without the group"
    )
    parser.add_argument("--only", nargs="+", choices=list(PACKAGES), default=list(PACKAGES))
    parser.add_argument("--workers", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--repeats", type=int, default=3, help="rounds of the cost race")
    parser.add_argument("--no-cost", action="store_true", help="leave the cost race out")
    parser.add_argument(
        "--blind-only", action="store_true", help="repairs without the group alone, no cost race"
    )
    parser.add_argument(
        "--large", action=argparse.BooleanOptionalAction, default=True,
        help=f"race at {LARGE:,} rows too",
    )  # fmt: skip
    parser.add_argument("--out", type=Path, default=RESULTS / "peers.json")
    options = parser.parse_args()
    if (
        min(options.splits, options.blind_splits, options.workers, options.repeats) < 1
        or options.slow_splits < 0
    ):
        parser.error(
            "splits, blind-splits, workers and repeats must be at least 1, slow-splits 0 or more"
        )
    no_cost = options.no_cost or options.blind_only
    sizes = () if no_cost else (*SIZES, LARGE) if options.large else SIZES
    pythons, not_installed = prepare(options.only, RESULTS / "peers")
    found = compare(
        pythons,
        splits=options.splits,
        slow_splits=options.slow_splits,
        blind_splits=options.blind_splits,
        workers=options.workers,
        sizes=sizes,
        repeats=options.repeats,
        blind_only=options.blind_only,
        raw_splits=min(options.splits, RAW_SPLITS),
    )
    found["did_not_run"] = {**not_installed, **found["did_not_run"]}
    told = tables(found)
    print(*told, sep="\n\n")
    write_json(options.out, found)
    picture = options.out.with_suffix(".png")
    page = [
        "# Side by side with the peers",
        f"Means over {found['splits']} splits ({found['slow_splits']} for the slowest). "
        "How to read this: benchmarks/README.md.",
        *([f"![The gap left against accuracy and AUC]({picture.name})"] * bool(found["summary"])),
        *map(section, told),
    ]
    write_text(options.out.with_suffix(".md"), "\n\n".join(page) + "\n")
    if found["summary"]:
        from fairmend.report.plot import save

        save(chart(found["summary"]), picture)
    print(f"\n{found['seconds']} s; written to {options.out.name}, .md and .png")
    missed = [bar["verdict"] == "missed" for bar in found["bars"]]
    return 1 if any(missed) or any(bar.met is False for bar in blind_bars(found["blind"])) else 0


if __name__ == "__main__":
    sys.exit(main())
