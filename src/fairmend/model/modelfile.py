"""The model, from what people type: an import path, a file, or an address.

package.module:object     anything importable from here: a fitted estimator, a function
model.skops               a scikit-learn model saved with skops, only of types that are trusted
model.onnx                a model in ONNX, run by onnxruntime
https://...               a model that answers over HTTP
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from fairmend.data.containers import as_kind
from fairmend.errors import (
    MOST_OF_AN_ERROR,
    DataError,
    ModelError,
    foreign_code,
    in_a_line,
    listed,
    nearest,
    plain_text,
    require,
)
from fairmend.model.blackbox import cannot_be_looked_at, input_names

if TYPE_CHECKING:
    import polars as pl

__all__ = ["OnnxModel", "load_model", "model_kind"]

Container = Literal["pandas", "polars", "numpy"]

# The first whole number that single precision cannot tell from its neighbour.
_SINGLE_LIMIT = 1 << 24


def load_model(
    source: str,
    *,
    trust: Sequence[str] = (),
    container: Container | None = None,
    protocol: str | None = None,
) -> Any:
    """A model that `fairmend.BlackBox` takes.

    ``trust`` names types inside a skops file that may be made. ``container`` is what the model is
    handed its rows in: without it, pandas for an estimator that was fitted on named columns, NumPy
    for one that was not, and Polars for functions. ``protocol`` is how an address is queried where
    its path does not show it; ``FAIRMEND_UPSTREAM_TOKEN`` is sent along as a bearer token.
    """
    kind = model_kind(source)
    if kind == "address":
        from fairmend.model.remote import RemoteModel

        token = os.environ.get("FAIRMEND_UPSTREAM_TOKEN")
        try:
            return RemoteModel(source, protocol=protocol, token=token)
        except DataError as error:
            raise ModelError("--model", error.must, error.got, error.fix) from None
    if kind == "onnx":
        return OnnxModel(_existing(source))
    model = _from_skops(source, trust) if kind == "skops" else _imported(source)
    return _InContainer.around(model, container)


def model_kind(source: str) -> Literal["address", "onnx", "skops", "module"]:
    """What a model is named by.

    >>> model_kind("vendor:model"), model_kind("https://vendor.example/score?version=2")
    ('module', 'address')
    """
    if source.startswith(("http://", "https://")):
        return "address"
    if source.endswith(".onnx"):
        return "onnx"
    return "skops" if source.endswith(".skops") else "module"


# -------------------------------------------------------------------- Python


def _imported(path: str) -> Any:
    """An object by its import path; the current folder counts."""
    module, _, name = path.partition(":")
    if not name or "/" in module:
        _refuse(
            "must read package.module:object, or name a .skops or .onnx file or a URL",
            f"got {path!r}",
            "Example: --model vendor:model for the object model in vendor.py.",
        )

    def complain(error: BaseException) -> ModelError:
        plain = isinstance(error, ImportError | AttributeError)
        reason = plain_text(str(error), MOST_OF_AN_ERROR) if plain else in_a_line(error)
        fix = "Check the path, and run from the folder that holds the module."
        return ModelError("--model", "must be importable", f"{path!r} is not: {reason}", fix)

    here = os.getcwd()
    sys.path.insert(0, here)
    try:
        with foreign_code(complain):
            model: Any = importlib.import_module(module)
            for part in name.split("."):
                model = getattr(model, part)
    finally:
        if here in sys.path:  # a module may have changed it
            sys.path.remove(here)
    if isinstance(model, str):  # which would be read as the name of a column
        _refuse("must be a model", f"{path!r} is text", "Name the object that answers.")
    return model


def _refuse(must: str, got: str, fix: str) -> NoReturn:
    raise ModelError("--model", must, got, fix)


@dataclass(frozen=True)
class _InContainer:
    """Somebody's model, handed its rows in the container it expects."""

    model: Any
    container: Container

    @classmethod
    def around(cls, model: Any, container: Container | None) -> Any:
        with foreign_code(cannot_be_looked_at):
            estimator = hasattr(model, "predict")
        if container is None:
            named = input_names(model) is not None
            container = ("pandas" if named else "numpy") if estimator else "polars"
        if isinstance(model, type) or container == "polars":
            return model  # a class is refused by BlackBox, which says why
        if container == "pandas":
            require(
                "pandas", extra="pandas", why="calling a model that was fitted on named columns"
            )
        wrapped = cls(model, container)
        return wrapped if estimator else wrapped._call(model)

    def __getattr__(self, name: str) -> Any:
        """What the model has, this has; its methods get their rows converted."""
        if name.startswith("__"):
            raise AttributeError(name)
        attribute = getattr(self.model, name)
        return self._call(attribute) if name in _QUERIED else attribute

    def _call(self, ask: Callable[[Any], Any]) -> Callable[[pl.DataFrame], Any]:
        def asked(rows: pl.DataFrame) -> Any:
            return ask(as_kind(rows, self.container))

        return asked


_QUERIED = ("predict", "predict_proba", "decision_function")


# -------------------------------------------------------------------- skops


def _existing(source: str) -> Path:
    path = Path(source)
    if not path.is_file():
        _refuse("must be a file that exists", f"there is no {source!r}", "Check the name.")
    return path


def _from_skops(source: str, trust: Sequence[str]) -> Any:
    """A skops file may name any type: those that skops does not know are only made if trusted."""
    path = _existing(source)
    skops = require("skops.io", extra="skops", why="a model in a .skops file")
    broken = partial(_broken, source, "skops")
    with foreign_code(broken):
        foreign = skops.get_untrusted_types(file=path)
    refused = [name for name in foreign if name not in trust]
    if refused:
        fix = f"If you trust its source: {' '.join(f'--trust {name}' for name in refused)}."
        got = f"it also holds {listed(refused)}"
        raise ModelError(f"model {source!r}", "must hold only types that are trusted", got, fix)
    with foreign_code(broken):
        return skops.load(path, trusted=list(foreign))


def _broken(source: str, kind: str, error: BaseException) -> ModelError:
    return ModelError(
        f"model {source!r}",
        f"must be a file that {kind} reads",
        f"it raised {in_a_line(error)}",
        "Check that it is complete, and made by a version that fits.",
    )


# -------------------------------------------------------------------- ONNX


class OnnxModel:
    """A binary classifier in ONNX, fed by column names or with one matrix.

    A graph with one input of several columns gets all columns of X in their order; otherwise each
    input gets the column of its name. Most graphs read single precision: numbers are rounded to
    about seven digits before the model sees them, so an answer right at a split may differ from
    that of the model it was made of. Whole numbers that would run into each other are refused.

    Of the outputs, probabilities are read where there are some, else scores or labels. Which column
    speaks for which class is learnt from the labels the graph gives beside them; where it gives
    none, the second column is the positive class.
    """

    def __init__(self, path: str | Path) -> None:
        runtime = require("onnxruntime", extra="onnx", why="a model in an .onnx file")
        options = runtime.SessionOptions()
        options.log_severity_level = 3  # its warnings are for those who made the graph
        with foreign_code(partial(_broken, str(path), "onnxruntime")):
            self._session = runtime.InferenceSession(
                str(path), options, providers=["CPUExecutionProvider"]
            )
        self._inputs = {one.name: one for one in self._session.get_inputs()}
        only = next(iter(self._inputs.values()))
        self._is_matrix = len(self._inputs) == 1 and not _is_one_column(only.shape)
        if not self._is_matrix:
            self.feature_names_in_ = np.array(list(self._inputs), object)
        self.classes_: list[Any] | None = None
        outputs = self._session.get_outputs()
        graded = [one.name for one in outputs if one.type.startswith(_GRADED)]
        labels = [one.name for one in outputs if not one.type.startswith(_GRADED)]
        self._wanted = [*graded[:1], *labels[:1]]
        if graded:
            self.predict_proba = self._probabilities
        else:
            self.predict = self._labels

    def _labels(self, rows: pl.DataFrame) -> NDArray[Any]:
        return np.asarray(self._session.run(self._wanted, self._fed(rows))[0])

    def _probabilities(self, rows: pl.DataFrame) -> NDArray[Any]:
        """A column a class, or one for the positive class."""
        answers, *labels = self._session.run(self._wanted, self._fed(rows))
        if isinstance(answers, list):  # a map per row, from class to probability
            self.classes_ = list(answers[0])
            return np.array([list(entry.values()) for entry in answers], np.float64)
        table = np.asarray(answers)
        if labels and table.ndim == 2 and table.shape[1] == 2 and self.classes_ is None:
            self.classes_ = _classes(table, np.asarray(labels[0]).reshape(-1))
        return table

    def _fed(self, rows: pl.DataFrame) -> dict[str, NDArray[Any]]:
        if self._is_matrix:
            name, one = next(iter(self._inputs.items()))
            columns = [_as_tensor(rows[column], one.type, column) for column in rows.columns]
            return {name: np.stack(columns, axis=1)}
        missing = [name for name in self._inputs if name not in rows.columns]
        if missing:
            fix, got = nearest(missing[0], rows.columns), f"there is no {listed(missing)}"
            raise ModelError("model (ONNX)", "must find its inputs among the columns", got, fix)
        return {
            name: _as_tensor(rows[name], one.type, name).reshape(-1, *[1] * (len(one.shape) - 1))
            for name, one in self._inputs.items()
        }


# Outputs that grade: tensors of floats, or a map from class to probability per row.
_GRADED = ("tensor(float)", "tensor(double)", "seq(map(")


def _classes(table: NDArray[Any], labels: NDArray[Any]) -> list[Any] | None:
    """The labels of the two columns, from rows where one is larger; None until both were seen."""
    columns = [labels[table[:, j] > table[:, 1 - j]] for j in (0, 1)]
    return [column[0] for column in columns] if all(map(len, columns)) else None


def _is_one_column(shape: Sequence[Any]) -> bool:
    return len(shape) < 2 or shape[1] == 1


_TENSORS = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(bool)": np.bool_,
    "tensor(string)": np.object_,
}


def _as_tensor(column: pl.Series, kind: str, name: str) -> NDArray[Any]:
    """A column in the type the graph reads; values that would change are refused."""
    import polars as pl

    def check(holds: bool, must: str, got: str, fix: str) -> None:
        if not holds:
            raise ModelError(f"model (ONNX) input {name!r}", must, got, fix)

    dtype = _TENSORS.get(kind)
    check(dtype is not None, "must be numbers, booleans or text", f"the graph reads {kind}",
          "Convert it.")  # fmt: skip
    if dtype is np.object_:
        return np.array(["" if v is None else str(v) for v in column], object)
    is_number = column.dtype.is_numeric() or column.dtype == pl.Boolean
    got = f"the file holds {column.dtype}"
    check(is_number, "must be a number", got, "Encode it as a number.")
    values = np.asarray(column.cast(pl.Float64).fill_null(float("nan")).to_numpy())
    if dtype in (np.float32, np.float64):
        beyond = np.abs(values) > _SINGLE_LIMIT
        if dtype is np.float32 and column.dtype.is_integer() and beyond.any():
            got = f"got {int(values[np.argmax(beyond)]):,}"
            fix = "Export the model in double precision, or scale the column."
            check(False, f"must be at most {_SINGLE_LIMIT:,} in single precision", got, fix)
        return values.astype(dtype)
    fix = "Export the model with float inputs."
    check(
        not column.null_count(),
        f"must be known, for {kind} has no missing value",
        "got missing ones",
        fix,
    )
    fractions = values[values != np.floor(values)]
    if len(fractions):
        check(False, "must be whole numbers", f"got {fractions[0]:g}", fix)
    return np.asarray(column.to_numpy()).astype(dtype)
