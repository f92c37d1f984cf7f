"""Odd calls of the library: containers, types, indexes, values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from _odd_people import Case, people

ROWS = people()
X = np.array([[float(row[1]), float(row[2])] for row in ROWS])
JOB = np.array([row[3] for row in ROWS])
SEX = np.array([row[4] for row in ROWS])
PAID = np.array([row[5] for row in ROWS])
Y = (PAID == "yes").astype(int)
SCORE = np.array([float(row[6]) for row in ROWS])
H = (SCORE > 0.5).astype(int)
TURNED = np.arange(len(ROWS))[::-1]


def _frame() -> Any:
    import pandas as pd

    return pd.DataFrame({"age": X[:, 0], "income": X[:, 1], "job": JOB})


def model(rows: Any) -> np.ndarray:
    """The vendor, from rows in any container."""
    names = getattr(rows, "columns", None)
    if names is None:
        rows = np.asarray(rows, float)
        age, income = rows[:, 0], rows[:, 1]
    else:
        age, income = (np.asarray(rows[name], float) for name in ("age", "income"))
    return np.round(1 / (1 + np.exp(-((income - 2800) / 700 + (age - 45) / 40))), 3)


def audited(*arguments: Any, **settings: Any) -> Callable[[], Any]:
    """The audit's figures as plain values."""

    def call() -> Any:
        import fairmend

        return fairmend.audit(*arguments, **{"reference": "m", **settings}).to_dict()

    return call


def repaired(*, predict: dict[str, Any] | None = None, **changed: Any) -> Callable[[], Any]:
    """A repair fitted and asked; its figures before are the audit's."""

    def call() -> Any:
        import fairmend

        arguments = _made({"X": X, "y": Y, "sensitive_features": SEX, **changed.pop("fit", {})})
        settings = {"reference": "m", "random_state": 0, **changed}
        repair = fairmend.RepairedClassifier(settings.pop("model", model), "sp", **settings)
        repair.fit(**arguments)
        asked = _made({"X": X, "sensitive_features": SEX, **(predict or {})})
        decided = np.asarray(repair.predict(**asked))
        chance = np.asarray(repair.predict_proba(**{k: v for k, v in asked.items() if k != "ids"}))
        assert len(decided) == len(asked["X"])
        assert np.isfinite(chance).all()
        assert (chance >= 0).all()
        assert (chance <= 1).all()
        return repair.report(arguments["X"], Y, sensitive_features=SEX).to_dict()

    return call


def _made(arguments: dict[str, Any]) -> dict[str, Any]:
    """What a library with threads must make is made in the child."""
    return {name: value() if callable(value) else value for name, value in arguments.items()}


def containers() -> Iterator[tuple[str, Callable[[], Any], str]]:
    """The same people in many shapes; decisions, outcomes and groups of an audit."""
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    import scipy.sparse as sp

    shapes: dict[str, Callable[[np.ndarray], Any]] = {
        "an array": lambda v: v,
        "a list": lambda v: v.tolist(),
        "a tuple": lambda v: tuple(v.tolist()),
        "objects": lambda v: v.astype(object),
        "a pandas series": pd.Series,
        "a series of strings": lambda v: pd.Series(v.astype(str)),
        "a pandas category": lambda v: pd.Series(v).astype("category"),
        "a nullable series": lambda v: pd.Series(v).convert_dtypes(),
        "a polars series": pl.Series,
        "an Arrow array": pa.array,
        "an Arrow chunked array": lambda v: pa.chunked_array([pa.array(v[:50]), pa.array(v[50:])]),
        "a column (n, 1)": lambda v: v[:, None],
        "a pandas frame of one column": lambda v: pd.DataFrame({"v": v}),
        "a read-only array": _read_only,
        "an array backwards in memory": lambda v: v[::-1][::-1],
        "an iterator": iter,
        "a generator": lambda v: (e for e in v),
        "a set": lambda v: set(v.tolist()),
        "a dictionary": lambda v: dict(enumerate(v.tolist())),
        "text": lambda v: "yes",
        "None in the middle": lambda v: [*v[:5].tolist(), None, *v[6:].tolist()],
        "NaN in the middle": lambda v: [*v[:5].tolist(), float("nan"), *v[6:].tolist()],
        "one too few": lambda v: v[:-1],
        "one too many": lambda v: np.append(v, v[:1]),
        "nobody": lambda v: v[:0],
        "three dimensions": lambda v: v[:, None, None],
        "a series in another order": lambda v: pd.Series(v, index=TURNED),
        "a series of another index": lambda v: pd.Series(v, index=np.arange(len(v)) + 80),
        "a series with one index twice": lambda v: pd.Series(v, index=[0, *range(len(v) - 1)]),
        "a masked array": lambda v: np.ma.array(v, mask=False),
        "a masked value": lambda v: np.ma.array(v, mask=np.arange(len(v)) == 5),
        "a sparse column": lambda v: sp.csr_matrix(v[:, None]) if v.dtype.kind in "if" else v,
    }
    refused = {"a set", "a dictionary", "text", "one too few", "one too many", "nobody",
               "three dimensions"}  # fmt: skip
    for name, shape in shapes.items():
        must = "refused" if name in refused else "either"
        yield (
            f"decisions as {name}",
            _late(
                shape,
                H,
                lambda v: audited(v, None, pd.Series(Y), sensitive_features=pd.Series(SEX)),
            ),
            must,
        )
        yield (
            f"outcomes as {name}",
            _late(
                shape,
                Y,
                lambda v: audited(pd.Series(H), None, v, sensitive_features=pd.Series(SEX)),
            ),
            must,
        )
        yield (
            f"groups as {name}",
            _late(
                shape,
                SEX,
                lambda v: audited(pd.Series(H), None, pd.Series(Y), sensitive_features=v),
            ),
            ("either" if name == "a dictionary" else must),
        )


def _late(
    shape: Callable[[Any], Any], values: Any, call: Callable[[Any], Any]
) -> Callable[[], Any]:
    """Put into shape in the child: an iterator can be read only once."""

    def shaped() -> Any:
        return call(shape(values))()

    return shaped


def _read_only(values: np.ndarray) -> np.ndarray:
    copy = values.copy()
    copy.setflags(write=False)
    return copy


def inputs() -> Iterator[tuple[str, Callable[[], Any], str]]:
    """The inputs in many shapes, fitted and predicted."""
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    import scipy.sparse as sp

    frame = _frame()

    def fitted(rows: Any, must: str = "either", **settings: Any) -> tuple[Any, str]:
        return repaired(fit={"X": rows}, predict={"X": rows}, **settings), must

    for name, (call, must) in {
        "an array": fitted(X, "same"),
        "a list of lists": fitted(X.tolist()),
        "objects": fitted(X.astype(object)),
        "32-bit numbers": fitted(X.astype(np.float32)),
        "text numbers": fitted(X.astype(str)),
        "in another memory order": fitted(np.asfortranarray(X), "same"),
        "a pandas frame": fitted(frame),
        "a pandas frame, index turned": fitted(frame.set_axis(TURNED)),
        "a pandas frame, numbers as names": fitted(pd.DataFrame(X)),
        "a pandas frame, one name twice": fitted(pd.DataFrame(X, columns=["a", "a"]), "refused"),
        "a frame with two levels of names": fitted(
            pd.DataFrame(X, columns=pd.MultiIndex.from_tuples([("a", 1), ("b", 2)]))
        ),
        "a frame with a date": fitted(frame.assign(day=pd.Timestamp("2026-01-02"))),
        "a frame with lists": fitted(frame.assign(job=[[1]] * len(frame)), "refused"),
        "a frame with a category": fitted(frame.astype({"job": "category"})),
        "a frame with missing numbers": fitted(
            frame.mask(np.tile(np.arange(len(frame))[:, None] % 9 == 0, 3))
        ),
        "an infinite number": fitted(_with(X, np.inf)),
        "a NaN": fitted(_with(X, np.nan)),
        "1e308": fitted(_with(X, 1e308)),
        "a polars frame": fitted(lambda: pl.from_pandas(frame)),
        "an Arrow table": fitted(lambda: pa.Table.from_pandas(frame)),
        "a sparse matrix": fitted(sp.csr_matrix(X)),
        "one dimension": fitted(X[:, 0], "refused"),
        "three dimensions": fitted(X[:, :, None], "refused"),
        "no columns": fitted(X[:, :0], "refused"),
        "no rows": fitted(X[:0], "refused"),
        "one row": fitted(X[:1], "refused"),
        "None": fitted(None, "refused"),
        "a number": fitted(7, "refused"),
        "text": fitted("people.csv", "refused"),
        "the outcome among them": fitted(np.column_stack([X, Y]), "any"),
        "the group among them": fitted(np.column_stack([X, SEX == "f"])),
        "complex numbers": fitted(X + 0j),
        "a constant column": fitted(np.column_stack([X, np.ones(len(X))])),
        "300 columns of noise": fitted(
            np.column_stack([X, np.random.default_rng(0).normal(size=(len(X), 300))])
        ),
    }.items():
        yield f"inputs are {name}", call, must
    turned = frame[["job", "income", "age"]]
    for name, asked, must in (
        ("columns in another order", {"X": turned}, "either"),
        ("a column too many", {"X": frame.assign(more=1)}, "either"),
        ("a column too few", {"X": frame[["age", "income"]]}, "refused"),
        ("a column of another name", {"X": frame.rename(columns={"age": "Age"})}, "refused"),
        ("a number as text", {"X": frame.astype({"age": str})}, "either"),
        ("a polars frame", {"X": lambda: pl.from_pandas(frame)}, "either"),
        ("an array", {"X": X}, "refused"),
        ("a new word", {"X": frame.assign(job="new")}, "either"),
        ("nobody", {"X": frame[:0], "sensitive_features": SEX[:0]}, "either"),
        ("one person", {"X": frame[:1], "sensitive_features": SEX[:1]}, "either"),
        ("no groups", {"sensitive_features": None}, "refused"),
        ("unknown groups", {"X": frame, "sensitive_features": np.full(len(X), "x")}, "refused"),
        ("missing groups", {"X": frame, "sensitive_features": np.full(len(X), None)}, "either"),
        ("groups too short", {"X": frame, "sensitive_features": SEX[:-1]}, "refused"),
        ("ids too short", {"X": frame, "ids": np.arange(3)}, "refused"),
        ("ids missing", {"X": frame, "ids": [None] * len(X)}, "refused"),
        ("ids by a column", {"X": frame.assign(no=np.arange(len(X))), "ids": "no"}, "either"),
        ("ids by no column", {"X": frame, "ids": "nowhere"}, "refused"),
        ("ids twice", {"X": frame, "ids": np.zeros(len(X), int)}, "either"),
        ("ids of 25 digits", {"X": frame, "ids": [10**25 + k for k in range(len(X))]}, "either"),
        ("ids as floats", {"X": frame, "ids": np.arange(len(X)) + 0.5}, "either"),
        ("ids NaN", {"X": frame, "ids": np.full(len(X), np.nan)}, "refused"),
    ):
        yield f"asked with {name}", repaired(fit={"X": frame}, predict={"X": frame, **asked}), must


def _with(values: np.ndarray, odd: float) -> np.ndarray:
    changed = values.copy()
    changed[3, 0] = odd
    return changed


def settings() -> Iterator[tuple[str, Callable[[], Any], str]]:
    """Wrong arguments of the estimator and the audit."""
    for name, wrong in {
        "an unknown method": {"method": "magic"},
        "a level of 2": {"level": 2},
        "a level of NaN": {"level": float("nan")},
        "a level of True": {"level": True},
        "a level in words": {"level": "half"},
        "an unknown rank": {"rank": "luck"},
        "an unknown reference": {"reference": "x"},
        "an unknown target": {"target": "x"},
        "the reference as target": {"target": "m"},
        "an unknown immutable": {"immutable": ["x"]},
        "a wrong way": {"one_way": {0: "sideways"}},
        "a cost that is a number": {"cost": 7},
        "a seed of -1": {"random_state": -1},
        "a seed in words": {"random_state": "x"},
        "an unknown policy": {"unknown_group": "kepp"},
        "an unknown outcome model": {"outcome_model": "oracle"},
        "an unknown option of the method": {"method_options": {"speed": 9}},
        "a key too short": {"key": b"short"},
        "a key that is a number": {"key": 7},
        "no model": {"model": None},
        "a model that is a number": {"model": 7},
        "a model that is a column not there": {"model": "nowhere"},
    }.items():
        yield f"repair with {name}", repaired(**wrong), "refused"
    for name, wrong in {
        "no metrics": {"metrics": []},
        "an unknown metric": {"metrics": ["sq"]},
        "a metric twice": {"metrics": ["sp", "sp"]},
        "confidence 1": {"confidence": 1.0},
        "confidence 95": {"confidence": 95},
        "an unknown reference": {"reference": "x"},
        "an unknown positive label": {"pos_label": 7},
        "weights too short": {"sample_weight": np.ones(3)},
        "negative weights": {"sample_weight": -np.ones(len(Y))},
        "weights NaN": {"sample_weight": np.full(len(Y), np.nan)},
        "weights all 0": {"sample_weight": np.zeros(len(Y))},
        "weights infinite": {"sample_weight": np.full(len(Y), np.inf)},
        "weights in words": {"sample_weight": JOB},
        "ids too short": {"ids": np.arange(3)},
    }.items():
        yield f"audit with {name}", audited(H, None, Y, sensitive_features=SEX, **wrong), "refused"
    for name, odd in {
        "weights of 1": {"sample_weight": np.ones(len(Y))},
        "weights of 1e-9": {"sample_weight": np.full(len(Y), 1e-9)},
        "weights of 1e9": {"sample_weight": np.full(len(Y), 1e9)},
        "ids": {"ids": np.arange(len(Y))},
    }.items():
        yield f"audit with {name}", audited(H, None, Y, sensitive_features=SEX, **odd), "same"


def cases(base: dict[str, bytes]) -> Iterator[Case]:
    """Every call; what is not one of the package's errors is a fault."""
    del base
    for kind, listed in (
        ("containers", containers()),
        ("inputs", inputs()),
        ("settings", settings()),
    ):
        for name, call, must in listed:
            yield Case(f"library, {kind}", name, call, {}, None if must == "refused" else (), must,
                       (3,))  # fmt: skip
