"""Made-up applicants for the tests of engines, and a vendor's model that decides about them."""

import narwhals as nw
import numpy as np
import pandas as pd

from fairmend.engines import continuous, summary

INPUTS = ["young", "grade", "income"]


def vendor():
    """A model that reads any container; a closure, so that it travels to workers by value."""

    def score(rows):
        frame = nw.from_native(rows, eager_only=True)
        grade = np.array([{"a": 2.0, "b": 0.5, "ü": -1.0}.get(g, 0.0) for g in frame["grade"]])
        income = np.nan_to_num(frame["income"].cast(nw.Float64).to_numpy(), nan=1.0)
        z = grade + income - 1.5 * frame["young"].cast(nw.Int64).to_numpy() - 1.2
        return 1 / (1 + np.exp(-z))

    return score


def make_people():
    """Strings, missing values, weights, two sensitive attributes and ids."""
    rng = np.random.default_rng(5)
    n = 3_000
    sex = rng.choice(["f", "m"], n, p=[0.4, 0.6])
    frame = pd.DataFrame(
        {
            "id": np.arange(n) * 7 + 1,
            "young": rng.random(n) < np.where(sex == "f", 0.6, 0.3),
            "grade": rng.choice(["a", "b", "ü"], n, p=[0.3, 0.4, 0.3]).astype(object),
            "income": rng.integers(0, 3, n).astype(float),
            "sex": sex,
            "region": rng.choice(["north", "south"], n),
            "w": rng.integers(1, 9, n) / 8,
        }
    )
    frame.loc[rng.random(n) < 0.1, "income"] = np.nan
    frame.loc[rng.random(n) < 0.1, "grade"] = None
    chance = vendor()(frame) * 0.8 + 0.1
    frame["repaid"] = (rng.random(n) < chance).astype(np.int64)
    frame["said"] = (vendor()(frame) > 0.5).astype(np.int64)
    return frame


AMOUNTS = ["amount", "income", "age", "grade"]


def lender():
    """A model of amounts and a grade, for any container."""

    def score(rows):
        frame = nw.from_native(rows, eager_only=True)
        amount, income, age = (
            np.nan_to_num(frame[name].cast(nw.Float64).to_numpy(), nan=0.0)
            for name in ("amount", "income", "age")
        )
        grade = np.array([{"a": 0.8, "b": 0.1}.get(each, -0.4) for each in frame["grade"]])
        return 1 / (1 + np.exp(-(1.2 * income - amount + 0.02 * (age - 40) + grade)))

    return score


def lower_limits(patch):
    """Tables of a few thousand rows are large."""
    patch.setattr(continuous, "EXACT_ROWS", 5_000)
    patch.setattr(continuous, "_PROBE", 2_000)
    patch.setattr(continuous, "NEAR", 500)
    patch.setattr(continuous, "FAR", 2_000)
    patch.setattr(summary, "SAMPLE", 4_000)


def make_lending(n, seed=3):
    """Amounts with missing values, whole years, a grade, weights; women earn less."""
    rng = np.random.default_rng(seed)
    sex = rng.choice(["f", "m"], n, p=[0.45, 0.55])
    frame = pd.DataFrame(
        {
            "id": np.arange(n) * 3 + 2,
            "amount": rng.gamma(2.0, 0.5, n),
            "income": rng.normal(np.where(sex == "m", 1.2, 0.9), 0.5),
            "age": rng.integers(18, 80, n),
            "grade": rng.choice(["a", "b", "ü"], n).astype(object),
            "sex": sex,
            "w": rng.integers(1, 9, n) / 8,
        }
    )
    frame.loc[rng.random(n) < 0.05, "income"] = np.nan
    frame.loc[rng.random(n) < 0.05, "grade"] = None
    frame["repaid"] = (rng.random(n) < 0.15 + 0.7 * lender()(frame)).astype(np.int64)
    frame["decided"] = (lender()(frame) > 0.5).astype(np.int64)
    return frame
