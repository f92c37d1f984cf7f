"""People with numbers and words in their rows: raw Adult, and odd shapes of generated data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fairmend import datasets
from fairmend.repair.costs import Cost

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
"""Where UCI's files are looked for by default."""
AUDITED, NEW = 24_000, 16_281
IMMUTABLE = ("age", "sex", "race", "marital-status")
ONE_WAY = {"education-num": "up"}


class Part(NamedTuple):
    """Inputs, outcomes and groups."""

    X: pd.DataFrame
    y: np.ndarray
    s: np.ndarray

    def take(self, rows: np.ndarray) -> Part:
        return Part(self.X.iloc[rows].reset_index(drop=True), self.y[rows], self.s[rows])


class Parts(NamedTuple):
    """Whom the vendor learnt from, whom the audit is of, and who comes afterwards."""

    learnt: Part
    audited: Part
    new: Part
    origin: str


def adult_or_alike(folder: Path = DATA) -> Parts:
    """Raw Adult by sex; where its files are not there, generated people of the same shape."""
    files = folder / "adult.data", folder / "adult.test"
    if all(file.exists() for file in files):
        known, new = (raw_adult(file) for file in files)
        origin = "raw Adult"
    else:
        everybody = _alike(32_561 + NEW)
        known = everybody.take(np.arange(32_561))
        new = everybody.take(np.arange(32_561, 32_561 + NEW))
        origin = f"GENERATED data in the shape of Adult (no adult.data and adult.test in {folder})"
    order = np.random.default_rng(0).permutation(len(known.y))
    return Parts(known.take(order[AUDITED:]), known.take(order[:AUDITED]), new, origin)


def raw_adult(file: Path) -> Part:
    """UCI's table without the census weight; a missing word is a word."""
    loaded = datasets.load_adult_raw(file)
    X = loaded.X.drop(columns=["fnlwgt"])
    words = words_of(X)
    X[words] = X[words].astype(object).where(X[words].notna(), "?").astype(str)
    return Part(X, np.asarray(loaded.y), np.asarray(X["sex"], object))


def _alike(rows: int, seed: int = 0) -> Part:
    """The columns of Adult, about as many values each, and a gap between the sexes."""
    rng = np.random.default_rng(seed)
    woman = rng.random(rows) < 0.33

    def word(name: str, count: int) -> np.ndarray:
        share = 1 / np.arange(1, count + 1)
        names = np.array([f"{name} {k}" for k in range(count)], object)
        return names[rng.choice(count, rows, p=share / share.sum())]

    schooling = np.clip(rng.normal(10, 2.5, rows).round(), 1, 16).astype(int)
    X = pd.DataFrame(
        {
            "age": np.clip(rng.gamma(8, 4.8, rows).round(), 17, 90).astype(int),
            "workclass": word("work", 9),
            "education": np.array([f"school {k}" for k in range(17)], object)[schooling],
            "education-num": schooling,
            "marital-status": word("status", 7),
            "occupation": word("job", 15),
            "relationship": word("relation", 6),
            "race": word("race", 5),
            "sex": np.where(woman, "Female", "Male").astype(object),
            "capital-gain": np.where(rng.random(rows) < 0.08, rng.integers(1, 100, rows) * 150, 0),
            "capital-loss": np.where(rng.random(rows) < 0.05, rng.integers(1, 90, rows) * 25, 0),
            "hours-per-week": np.clip(rng.normal(40, 12, rows).round(), 1, 99).astype(int),
            "native-country": word("country", 42),
        }
    )
    pull = (
        0.35 * (X["education-num"] - 10) + 0.03 * (X["age"] - 38) - 0.9 * woman - 1.5
        + 0.03 * (X["hours-per-week"] - 40) + 0.0004 * X["capital-gain"]
    )  # fmt: skip
    y = (rng.random(rows) < 1 / (1 + np.exp(-pull.to_numpy()))).astype(int)
    return Part(X, y, np.asarray(X["sex"], object))


def words_of(X: pd.DataFrame) -> list[str]:
    return [name for name in X if not pd.api.types.is_numeric_dtype(X[name])]


def boosting(learnt: Part) -> Any:
    """Gradient boosting behind a pipeline that reads the table as it is."""
    from sklearn.compose import make_column_transformer
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    columns = make_column_transformer((encoder, words_of(learnt.X)), remainder="passthrough")
    model = HistGradientBoostingClassifier(random_state=0)
    return make_pipeline(columns, model).fit(learnt.X, learnt.y)


# -------------------------------------------------------------------- odd shapes


@dataclass
class OddCase:
    """A fit that few people need and that must not take minutes."""

    what: str
    people: Part
    model: Callable[[pd.DataFrame], np.ndarray]
    settings: dict[str, Any]
    bar: float
    """Seconds."""


def odd_cases() -> list[OddCase]:
    """Rules that cut most edits off before a slow function, and more columns than people."""
    narrow, by_row = _narrow(330)
    wide, at_once = _wide(299, 5_000)
    return [
        OddCase(
            "330 people, equalized odds, two edits at most, one way, a function row by row",
            narrow,
            by_row,
            {
                "disparity": ["fnr", "fpr"],
                "one_way": {"tenure": "up"},
                "cost": Cost(max_edits=2),
            },
            15.0,
        ),
        OddCase(
            "299 people, 5,000 columns, sp, a function of labels",
            wide,
            at_once,
            {"disparity": "sp"},
            20.0,
        ),
    ]


def _narrow(rows: int) -> tuple[Part, Callable[[pd.DataFrame], np.ndarray]]:
    """24 numbers and 6 words; the function looks at one row after the other."""
    rng = np.random.default_rng(0)
    behind = rng.random(rows) < 0.45
    numbers = rng.normal(size=(rows, 24)).round(2)
    numbers[:, :12] -= 0.3 * behind[:, None]
    names = ["tenure", *(f"number {k}" for k in range(1, 24))]
    X = pd.DataFrame(numbers, columns=names)
    for k in range(6):
        X[f"word {k}"] = rng.choice(["low", "middle", "high"], rows).astype(object)

    def score(row: dict[str, Any]) -> float:
        total = sum(0.5 * row[name] for name in names[:12])
        return float(total + sum(0.4 * (row[f"word {k}"] == "high") for k in range(3)))

    def model(asked: pd.DataFrame) -> np.ndarray:
        return np.array([int(score(row) > 0.4) for row in asked.to_dict("records")])

    chance = np.array([1 / (1 + np.exp(0.4 - score(row))) for row in X.to_dict("records")])
    y = (rng.random(rows) < chance).astype(int)
    return Part(X, y, np.where(behind, "b", "a")), model


def _wide(rows: int, columns: int) -> tuple[Part, Callable[[pd.DataFrame], np.ndarray]]:
    """Far more columns than people; a few of them matter much, all of them a little."""
    rng = np.random.default_rng(0)
    behind = rng.random(rows) < 0.5
    numbers = rng.normal(size=(rows, columns)).round(3)
    numbers[:, :20] -= 0.4 * behind[:, None]
    slope = np.r_[np.full(20, 0.4), 0.02 * rng.normal(size=columns - 20)]
    X = pd.DataFrame(numbers, columns=[f"column {k}" for k in range(columns)])
    y = (rng.random(rows) < 1 / (1 + np.exp(-(numbers @ slope)))).astype(int)

    def model(asked: pd.DataFrame) -> np.ndarray:
        return (asked.to_numpy(float) @ slope > 0).astype(int)

    return Part(X, y, np.where(behind, "b", "a")), model
