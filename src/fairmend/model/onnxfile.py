"""A model in ONNX, run by onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from fairmend.errors import ModelError, foreign_code, in_a_line, listed, nearest, require

if TYPE_CHECKING:
    import polars as pl

# The first whole number that single precision cannot tell from its neighbour.
_SINGLE_LIMIT = 1 << 24


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
        with foreign_code(partial(broken_file, str(path), "onnxruntime")):
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

    def fail(must: str, got: str, fix: str) -> NoReturn:
        raise ModelError(f"model (ONNX) input {name!r}", must, got, fix)

    dtype = _TENSORS.get(kind)
    if dtype is None:
        fail("must be numbers, booleans or text", f"the graph reads {kind}", "Convert it.")
    if dtype is np.object_:
        return np.array(["" if v is None else str(v) for v in column], object)
    if not (column.dtype.is_numeric() or column.dtype == pl.Boolean):
        fail("must be a number", f"the file holds {column.dtype}", "Encode it as a number.")
    values = np.asarray(column.cast(pl.Float64).fill_null(float("nan")).to_numpy())
    if dtype in (np.float32, np.float64):
        beyond = np.abs(values) > _SINGLE_LIMIT
        if dtype is np.float32 and column.dtype.is_integer() and beyond.any():
            must = f"must be at most {_SINGLE_LIMIT:,} in single precision"
            fix = "Export the model in double precision, or scale the column."
            fail(must, f"got {int(values[beyond][0]):,}", fix)
        return values.astype(dtype)
    fix = "Export the model with float inputs."
    if column.null_count():
        fail(f"must be known, for {kind} has no missing value", "got missing ones", fix)
    fractions = values[values != np.floor(values)]
    if len(fractions):
        fail("must be whole numbers", f"got {fractions[0]:g}", fix)
    return np.asarray(column.to_numpy()).astype(dtype)


def broken_file(source: str, kind: str, error: BaseException) -> ModelError:
    """A file that its library cannot read."""
    must, got = f"must be a file that {kind} reads", f"it raised {in_a_line(error)}"
    fix = "Check that it is complete, and made by a version that fits."
    return ModelError(f"model {source!r}", must, got, fix)
