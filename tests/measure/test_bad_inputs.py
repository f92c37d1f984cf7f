"""What people get wrong, and what they read about it.

One row a mistake: what is called, the error's class, which argument or place is at fault, what
came, and the names and values that what must be and what to do next speak of. The words around
these may improve.
"""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import fairmend
from fairmend import Alignment, BlackBox, DataError, FairmendError, ModelError, Population

X = np.array([[0, 5], [1, 6], [2, 5], [3, 6]] * 2)
Y = np.array([0, 1] * 4)
TEXT = np.where(Y, "yes", "no")
S = np.array(["a"] * 4 + ["b"] * 4)
FRAME = pd.DataFrame(X, columns=["age", "income"])
ONES = np.ones(8)


def decide(rows):
    return (np.asarray(rows)[:, 0] > 1).astype(int)


def audit(model=decide, X=X, y=Y, s=S, **more):
    return fairmend.audit(model, X, y, sensitive_features=s, **more)


def with_one(values, place, value):
    """The same values as a list, one of them replaced."""
    return [value if i == place else v for i, v in enumerate(list(values))]


class Model:
    """Stands for a vendor's model: has the methods it is given and nothing else."""

    def __init__(self, **methods):
        self.__dict__ |= methods


def probabilities(rows):
    p = np.where(decide(rows), 0.8, 0.3)
    return np.stack([1 - p, p], axis=1)


class Fickle:
    """Answers 0 the first time it is called, and then 1."""

    answer = -1

    def predict(self, rows):
        self.answer = min(1, self.answer + 1)
        return np.full(len(rows), self.answer)


class Tensor:
    """Refuses to become an array, as a tensor that records gradients does."""

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("Can't call numpy() on Tensor that requires grad.")


def knows_red_and_blue():
    colours = np.array([["red"], ["blue"]] * 4, object)
    return make_pipeline(OneHotEncoder(), LogisticRegression()).fit(colours, Y)


BAD = {
    "y missing": (
        lambda: audit(y=None, metrics=["sp", "fnr"]),
        DataError,
        ("y", "got None", ["fnr", "'sp'"]),
    ),
    "y missing where it is needed": (
        lambda: fairmend.counterfactual(decide, X, None, sensitive_features=S, disparity="fnr"),
        DataError,
        ("y", "got None", ["fnr", "'sp'"]),
    ),
    "y a single number": (lambda: audit(y=1), DataError, ("y", "got a single int", [])),
    "y empty, X None": (lambda: audit(Y, None, []), DataError, ("y", "got none", [])),
    "y too short": (lambda: audit(y=Y[:-1]), DataError, ("y", "got 7 entries, expected 8", [])),
    "y two columns": (
        lambda: audit(y=np.stack([Y, Y], axis=1)),
        DataError,
        ("y", "got ndarray of shape (8, 2)", []),
    ),
    "y a frame of two columns": (
        lambda: audit(y=pd.DataFrame({"y": Y, "z": Y})),
        DataError,
        ("y", "got DataFrame of shape (8, 2)", []),
    ),
    "y ragged": (
        lambda: audit(y=[[0], [1, 1]] * 4),
        DataError,
        ("y", "got a list of entries of different lengths", []),
    ),
    "y a tensor": (
        lambda: audit(y=Tensor()),
        DataError,
        (
            "y",
            "got a Tensor whose reading raised RuntimeError: Can't call numpy() on "
            "Tensor that requires grad",
            ["NumPy"],
        ),
    ),
    "y of lists": (
        lambda: audit(y=pd.Series([[0], [1]] * 4)),
        DataError,
        ("y", "got a list in row 0", []),
    ),
    "y with nan": (
        lambda: audit(y=with_one(Y, 3, np.nan)),
        DataError,
        ("y", "got 1 missing, first in row 3", ["sp", "y=None"]),
    ),
    "y with None": (
        lambda: audit(y=with_one(Y, 3, None)),
        DataError,
        ("y", "got 1 missing, first in row 3", ["sp", "y=None"]),
    ),
    "y nullable with NA": (
        lambda: audit(y=pd.Series(with_one(Y, 3, pd.NA), dtype="boolean")),
        DataError,
        ("y", "got 1 missing, first in row 3", ["sp", "y=None"]),
    ),
    "y masked": (
        lambda: audit(y=np.ma.masked_equal(Y, 1)),
        DataError,
        ("y", "got a masked array, whose mask would be lost", []),
    ),
    "y names no column": (
        lambda: audit(X=FRAME, y="incone"),
        DataError,
        ("y", "got 'incone'", ["'income'"]),
    ),
    "y a name without X": (
        lambda: audit(Y, None, "repaid"),
        DataError,
        ("y", "got the name 'repaid' without an X to look in", []),
    ),
    "y one class": (
        lambda: audit(y=np.zeros(8)),
        DataError,
        ("y", "got one class: everybody has 0.0", []),
    ),
    "y three classes": (
        lambda: audit(y=np.arange(8) % 3),
        DataError,
        ("y", "got 3: 0, 1, 2", ["2"]),
    ),
    "y text without pos_label": (
        lambda: audit(y=TEXT),
        DataError,
        ("pos_label", "y holds 'no', 'yes'", ["0", "1", "-1", "pos_label=", "'yes'", "'no'"]),
    ),
    "y of 1 and its text": (
        lambda: audit(y=[1, "1"] * 4),
        DataError,
        ("pos_label", "y holds 1, '1'", ["0", "1", "-1", "pos_label=", "'1'", "pos_label=1"]),
    ),
    "pos_label not in y": (
        lambda: audit(y=TEXT, pos_label="Yes"),
        DataError,
        ("pos_label", "got 'Yes' where y holds 'no', 'yes'", ["'yes'"]),
    ),
    "pos_label unhashable": (
        lambda: audit(pos_label=np.array([1])),
        DataError,
        ("pos_label", "got array([1]) where y holds 0, 1", ["0", "1"]),
    ),
    "s missing": (lambda: audit(s=None), DataError, ("sensitive_features", "got None", [])),
    "s an empty dict": (lambda: audit(s={}), DataError, ("sensitive_features", "got none", [])),
    "s an empty list": (
        lambda: audit(s=[]),
        DataError,
        ("sensitive_features 'group'", "got 0 entries, expected 8", []),
    ),
    "s a single number": (
        lambda: audit(s=0),
        DataError,
        ("sensitive_features", "got a single int", []),
    ),
    "s too short": (
        lambda: audit(s=S[:-1]),
        DataError,
        ("sensitive_features 'group'", "got 7 entries, expected 8", []),
    ),
    "s a short list of texts": (
        lambda: audit(X=FRAME, s=list("aabb")),
        DataError,
        ("sensitive_features 'group'", "got 4 entries, expected 8", []),
    ),
    "s ragged": (
        lambda: audit(s=[["a"], ["a", "b"]] * 4),
        DataError,
        ("sensitive_features", "got a list of entries of different lengths", []),
    ),
    "s of lists": (
        lambda: audit(s=pl.Series("region", [["a"], ["b"]] * 4)),
        DataError,
        ("sensitive_features 'region'", "got entries of type List(String)", []),
    ),
    "s three-dimensional": (
        lambda: audit(s=np.zeros((8, 2, 2))),
        DataError,
        ("sensitive_features", "got ndarray of shape (8, 2, 2)", []),
    ),
    "s with nan": (
        lambda: audit(s=with_one(ONES, 2, np.nan)),
        DataError,
        ("sensitive_features 'group'", "got 1 missing, first in row 2", ["'unknown'"]),
    ),
    "s with None": (
        lambda: audit(s=pd.Series(with_one(S, 2, None), name="sex")),
        DataError,
        ("sensitive_features 'sex'", "got 1 missing, first in row 2", ["'unknown'"]),
    ),
    "s text with nan": (
        lambda: audit(s=with_one(S, 2, float("nan"))),
        DataError,
        ("sensitive_features 'group'", "got 1 missing, first in row 2", ["'unknown'"]),
    ),
    "s an Arrow dictionary with null": (
        lambda: audit(s=pa.array(with_one(S, 2, None)).dictionary_encode()),
        DataError,
        ("sensitive_features 'group'", "got 1 missing, first in row 2", ["'unknown'"]),
    ),
    "s names no column": (
        lambda: audit(X=FRAME, s="Age"),
        DataError,
        ("sensitive_features", "got 'Age'", ["'age'"]),
    ),
    "s names one good and one bad column": (
        lambda: audit(X=FRAME, s=["age", "incom"]),
        DataError,
        ("sensitive_features", "got 'incom'", ["'income'"]),
    ),
    "s a name without X": (
        lambda: audit(Y, None, s="sex"),
        DataError,
        ("sensitive_features", "got the name 'sex' without an X to look in", []),
    ),
    "s one group": (
        lambda: audit(s=["a"] * 8),
        DataError,
        ("sensitive_features", "everybody is 'a'", []),
    ),
    "s with 10,000 values": (
        lambda: audit(np.tile(Y, 1250), None, np.tile(Y, 1250), np.arange(10_000)),
        DataError,
        ("sensitive_features", "got 10,000 distinct values", ["2", "500"]),
    ),
    "s with 1 and its text": (
        lambda: audit(s=[1, "1"] * 4),
        DataError,
        ("sensitive_features", "among 1, '1' two print the same", []),
    ),
    "s with two of one name": (
        lambda: audit(s=pd.DataFrame([["a", "b"]] * 8, columns=["sex", "sex"])),
        DataError,
        ("sensitive_features", "got more than one 'sex'", []),
    ),
    "s with a group called rest": (
        lambda: audit(s=["DE", "TR", "rest", "TR"] * 2, reference="rest"),
        DataError,
        ("sensitive_features", "got 'rest'", ["'best'", "'rest'"]),
    ),
    "s with a group called best": (
        lambda: audit(s=["best", "mid"] * 4),
        DataError,
        ("sensitive_features", "got 'best'", ["'best'", "'rest'"]),
    ),
    "s combinations that read alike": (
        lambda: audit(s={"p": ["a & b", "a"] * 4, "q": ["c", "b & c"] * 4}),
        DataError,
        ("sensitive_features", "among 'a & b & c', 'a & b & c' two print the same", []),
    ),
    "weights too short": (
        lambda: audit(sample_weight=ONES[:-1]),
        DataError,
        ("sample_weight", "got 7 entries, expected 8", []),
    ),
    "weights negative": (
        lambda: audit(sample_weight=with_one(ONES, 5, -0.5)),
        DataError,
        ("sample_weight", "got -0.5 in row 5", ["0"]),
    ),
    "weights with nan": (
        lambda: audit(sample_weight=with_one(ONES, 5, np.nan)),
        DataError,
        ("sample_weight", "got nan in row 5", ["0"]),
    ),
    "weights with null": (
        lambda: audit(sample_weight=pl.Series(with_one(ONES, 5, None))),
        DataError,
        ("sample_weight", "got nan in row 5", ["0"]),
    ),
    "weights infinite": (
        lambda: audit(sample_weight=ONES * np.inf),
        DataError,
        ("sample_weight", "got inf in row 0", ["0"]),
    ),
    "weights too large to square": (
        lambda: audit(sample_weight=ONES * 1e200),
        DataError,
        ("sample_weight", "got 1e+200 in row 0", ["0", "100"]),
    ),
    "weights too small to square": (
        lambda: audit(sample_weight=ONES * 1e-200),
        DataError,
        ("sample_weight", "got 1e-200 in row 0", ["0", "100"]),
    ),
    "weights all zero": (
        lambda: audit(sample_weight=ONES * 0),
        DataError,
        ("sample_weight", "all weights are zero", []),
    ),
    "weights zero for one group": (
        lambda: audit(sample_weight=(S == "a") * 1.0),
        DataError,
        ("sample_weight", "all weights of group 'b' are zero", []),
    ),
    "weights text": (
        lambda: audit(sample_weight=with_one(ONES, 1, "heavy")),
        DataError,
        ("sample_weight", "got 'heavy' in row 1", []),
    ),
    "weights dates": (
        lambda: audit(sample_weight=np.full(8, np.datetime64("2024-02-29"))),
        DataError,
        ("sample_weight", "got datetime.date(2024, 2, 29) in row 0", []),
    ),
    "weights complex": (
        lambda: audit(sample_weight=ONES * 1j),
        DataError,
        ("sample_weight", "got 1j in row 0", []),
    ),
    "weights two columns": (
        lambda: audit(sample_weight=np.ones((8, 2))),
        DataError,
        ("sample_weight", "got ndarray of shape (8, 2)", []),
    ),
    "weights name no column": (
        lambda: audit(X=FRAME, sample_weight="ages"),
        DataError,
        ("sample_weight", "got 'ages'", ["'age'"]),
    ),
    "X missing for a callable": (lambda: audit(X=None), DataError, ("X", "got None", [])),
    "X nothing but y": (
        lambda: audit(X=pd.DataFrame({"repaid": Y}), y="repaid"),
        DataError,
        ("X", "got no columns but 'repaid'", []),
    ),
    "X one-dimensional": (
        lambda: audit(X=X[:, 0]),
        DataError,
        ("X", "got ndarray of shape (8,)", ["2", "PyArrow", "numpy.reshape(", "-1", "1"]),
    ),
    "X three-dimensional": (
        lambda: audit(X=np.zeros((8, 2, 2))),
        DataError,
        ("X", "got ndarray of shape (8, 2, 2)", ["2", "PyArrow"]),
    ),
    "X a series": (
        lambda: audit(X=FRAME["age"]),
        DataError,
        ("X", "got Series", ["2", "PyArrow", "X.to_frame("]),
    ),
    "X ragged": (
        lambda: audit(X=[[1, 2], [3]] * 4),
        DataError,
        ("X", "got rows of different lengths", ["2", "PyArrow"]),
    ),
    "X sparse": (
        lambda: audit(X=scipy.sparse.csr_array(X)),
        DataError,
        ("X", "got a sparse matrix", ["X.toarray("]),
    ),
    "X masked": (
        lambda: audit(X=np.ma.masked_equal(X, 5)),
        DataError,
        ("X", "got a masked array, whose mask would be lost", []),
    ),
    "X lazy, y not its column": (
        lambda: audit(X=pl.LazyFrame({"age": X[:, 0]})),
        DataError,
        ("y", "got a ndarray", []),
    ),
    "X a file that is not there": (
        lambda: audit(X="people.csv"),
        DataError,
        ("X 'people.csv'", "there is no such file", []),
    ),
    "X a name nobody knows": (
        lambda: audit(X="people"),
        DataError,
        ("X", "got 'people', which is none of these", ["2", "DuckDB", "connection.table("]),
    ),
    "X a dict": (
        lambda: audit(X={"age": X[:, 0]}),
        DataError,
        ("X", "got dict", ["2", "PyArrow", "pandas.DataFrame("]),
    ),
    "X a list of dicts": (
        lambda: audit(X=[{"age": 1}] * 8),
        DataError,
        ("X", "got list", ["2", "PyArrow", "pandas.DataFrame("]),
    ),
    "X a structured array": (
        lambda: audit(X=np.array([(1, 2.0)] * 8, [("age", int), ("income", float)])),
        DataError,
        ("X", "got ndarray", ["2", "PyArrow", "pandas.DataFrame("]),
    ),
    "X a record batch": (
        lambda: audit(X=pa.RecordBatch.from_pandas(FRAME)),
        DataError,
        ("X", "got RecordBatch", ["2", "PyArrow", "pyarrow.table("]),
    ),
    "X without rows": (lambda: audit(X=FRAME[:0]), DataError, ("X", "got none", [])),
    "X an empty list": (lambda: audit(X=[]), DataError, ("X", "got none", [])),
    "X without columns": (
        lambda: audit(X=FRAME[[]]),
        DataError,
        ("X", "got 0 feature(s) (shape=(8, 0)) while a minimum of 1 is required", []),
    ),
    "X with two columns of one name": (
        lambda: audit(X=FRAME.set_axis(["age", "age"], axis=1)),
        DataError,
        ("X", "got more than one 'age'", []),
    ),
    "X an Arrow table with two of one name": (
        lambda: audit(X=pa.table([Y, Y], names=["age", "age"])),
        DataError,
        ("X", "got more than one 'age'", []),
    ),
    "X with a list in a cell": (
        lambda: audit(X=FRAME.assign(jobs=[["cook"]] * 8)),
        DataError,
        ("X column 'jobs'", "got a list in row 0", []),
    ),
    "X with structs": (
        lambda: audit(X=pl.DataFrame({"job": [{"title": "cook"}] * 8})),
        DataError,
        ("X column 'job'", "got entries of type Struct({'title': String})", []),
    ),
    "model None": (
        lambda: audit(None),
        DataError,
        ("model", "got None", ["predict_proba", "decision_function"]),
    ),
    "model a number": (
        lambda: audit(0.5),
        DataError,
        ("model", "got float", ["predict_proba", "decision_function"]),
    ),
    "model a class": (
        lambda: audit(LogisticRegression),
        DataError,
        ("model", "got the class LogisticRegression", []),
    ),
    "model not fitted": (
        lambda: audit(LogisticRegression()),
        ModelError,
        (
            "model (predict_proba)",
            "it raised NotFittedError: This LogisticRegression instance is not "
            "fitted yet. Call 'fit' with appropriate arguments before using this "
            "estimator",
            ["4"],
        ),
    ),
    "model names no column": (
        lambda: audit("prediction", FRAME.assign(predictions=Y)),
        DataError,
        ("model", "got 'prediction'", ["'predictions'"]),
    ),
    "model a name without X": (
        lambda: audit("prediction", None),
        DataError,
        ("model", "got the name 'prediction' and X=None", []),
    ),
    "model raises": (
        lambda: audit(lambda rows: 1 / 0),
        ModelError,
        ("model (call)", "it raised ZeroDivisionError: division by zero", ["4"]),
    ),
    "model misses an input": (
        lambda: audit(LogisticRegression().fit(FRAME, Y), FRAME[["age"]]),
        DataError,
        ("X", "there is no 'income'", ["'age'"]),
    ),
    "model raises several lines": (
        lambda: audit(LogisticRegression().fit(FRAME, Y), FRAME.set_axis(["a", "b"], axis=1)),
        ModelError,
        (
            "model (predict_proba)",
            "it raised ValueError: The feature names should match those that were "
            "passed during fit. Feature names unseen at fit time: - a - b Feature "
            "names seen at fit time, yet now missing: - age - income",
            ["4", "DataFrame"],
        ),
    ),
    "inputs one name": (
        lambda: BlackBox(decide, inputs="age"),
        DataError,
        ("inputs", "got 'age'", ["inputs=", "'age'", "'income'"]),
    ),
    "inputs that are not there": (
        lambda: audit(BlackBox(decide, inputs=["agee"]), FRAME),
        DataError,
        ("inputs", "there is no 'agee'", ["'age'"]),
    ),
    "y an input of the model": (
        lambda: audit(BlackBox(decide, inputs=["age", "y"]), FRAME.assign(y=Y), "y"),
        DataError,
        ("y", "'y' is one", []),
    ),
    "model meets an unseen category": (
        lambda: audit(knows_red_and_blue(), np.array([["red"], ["green"]] * 4, object)),
        ModelError,
        (
            "model (predict_proba)",
            "it raised ValueError: Found unknown categories ['green'] in column 0 during transform",
            ["2"],
        ),
    ),
    "model returns None": (
        lambda: audit(lambda rows: None),
        ModelError,
        ("model (call)", "got None", []),
    ),
    "model returns one number": (
        lambda: audit(lambda rows: 1),
        ModelError,
        ("model (call)", "got a single int", []),
    ),
    "model returns a generator": (
        lambda: audit(lambda rows: (1 for _ in rows)),
        ModelError,
        ("model (call)", "got a single generator", []),
    ),
    "model returns ragged lists": (
        lambda: audit(lambda rows: [[1], [1, 0]]),
        ModelError,
        ("model (call)", "got a list of entries of different lengths", []),
    ),
    "model returns lists in cells": (
        lambda: audit(lambda rows: pd.Series([[1]] * len(rows))),
        ModelError,
        ("model (call)", "got a list in row 0", []),
    ),
    "model returns a lazy frame": (
        lambda: audit(lambda rows: pl.LazyFrame({"p": [1]})),
        ModelError,
        ("model (call)", "got a lazy frame (LazyFrame)", []),
    ),
    "model returns what is no array": (
        lambda: audit(lambda rows: Tensor()),
        ModelError,
        (
            "model (call)",
            "got a Tensor whose reading raised RuntimeError: Can't call numpy() on "
            "Tensor that requires grad",
            [],
        ),
    ),
    "model returns too few": (
        lambda: audit(lambda rows: decide(rows)[1:]),
        ModelError,
        ("model (call)", "got 3 answers for 4 rows", []),
    ),
    "model returns two columns": (
        lambda: audit(lambda rows: np.zeros((len(rows), 2))),
        ModelError,
        ("model (call)", "got answers of shape (4, 2) for 4 rows", ["predict_proba"]),
    ),
    "model returns three columns": (
        lambda: audit(Model(predict_proba=lambda rows: np.full((len(rows), 3), 1 / 3))),
        ModelError,
        ("model (predict_proba)", "got answers of shape (4, 3) for 4 rows", ["predict_proba"]),
    ),
    "model returns nan": (
        lambda: audit(lambda rows: np.where(decide(rows), 0.5, np.nan)),
        ModelError,
        ("model (call)", "got nan for 2 of 4 distinct rows", []),
    ),
    "model returns None for somebody": (
        lambda: audit(lambda rows: [None, *decide(rows)[1:].tolist()]),
        ModelError,
        ("model (call)", "got None for 1 of 4 distinct rows", []),
    ),
    "model returns infinity": (
        lambda: audit(lambda rows: np.where(decide(rows), 0.5, np.inf)),
        ModelError,
        ("model (call)", "got inf for 2 of 4 distinct rows", []),
    ),
    "model returns scores": (
        lambda: audit(lambda rows: np.asarray(rows)[:, 0] * 10.0),
        ModelError,
        ("model (call)", "got scores from 0 to 30", ["BlackBox", "threshold="]),
    ),
    "model returns unknown text": (
        lambda: audit(lambda rows: ["accept"] * len(rows)),
        ModelError,
        ("model (call)", "got 'accept'", ["0", "1", "BlackBox", "words="]),
    ),
    "model returns unknown text for labels": (
        lambda: audit(BlackBox(lambda rows: ["ok"] * len(rows), output="label")),
        ModelError,
        ("model (call)", "got 'ok'", ["0", "1", "BlackBox", "words="]),
    ),
    "model returns unknown text for text": (
        lambda: audit(lambda rows: ["accept"] * len(rows), y=TEXT, pos_label="yes"),
        ModelError,
        ("model (call)", "got 'accept'", ["'no'", "'yes'", "0", "1", "BlackBox", "words="]),
    ),
    "model returns 0 and 1 for y in 1 and 2": (
        lambda: audit(y=Y + 1, pos_label=2),
        ModelError,
        ("model (call)", "got 0, 1", ["1", "2", "BlackBox", "output=", "'probability'"]),
    ),
    "model returns dates": (
        lambda: audit(lambda rows: np.full(len(rows), np.datetime64("2024-02-29"))),
        ModelError,
        ("model (call)", "got datetime.date(2024, 2, 29)", ["0", "1", "BlackBox", "words="]),
    ),
    "model returns complex numbers": (
        lambda: audit(lambda rows: decide(rows) + 0.5j),
        ModelError,
        ("model (call)", "got complex128 numbers", []),
    ),
    "model changes its answer": (
        lambda: audit(Fickle()),
        ModelError,
        ("model (predict)", "it changed 4 of 4, one from 0 to 1", ["BlackBox", "random=True"]),
    ),
    "probabilities with nan": (
        lambda: audit(Model(predict_proba=lambda rows: probabilities(rows) * np.nan)),
        ModelError,
        ("model (predict_proba)", "got nan for 4 of 4 distinct rows", []),
    ),
    "probabilities above 1": (
        lambda: audit(Model(predict_proba=lambda rows: probabilities(rows) * 2)),
        ModelError,
        (
            "model (predict_proba)",
            "got 1.6 for 2 of 4 distinct rows",
            ["0", "1", "BlackBox", "output=", "'score'", "threshold="],
        ),
    ),
    "classes_ of another language": (
        lambda: audit(Model(predict_proba=probabilities, classes_=["a", "b"])),
        ModelError,
        ("model (predict_proba)", "its classes_ are 'a', 'b'", ["0", "1"]),
    ),
    "classes_ 0 and 1 for y in 1 and 2": (
        lambda: audit(Model(predict_proba=probabilities, classes_=[0, 1]), y=Y + 1, pos_label=1),
        ModelError,
        ("model (predict_proba)", "its classes_ are 0, 1", ["2", "1"]),
    ),
    "one class only": (
        lambda: audit(
            Model(predict_proba=lambda rows: np.ones((len(rows), 1)), classes_=np.array([0]))
        ),
        ModelError,
        ("model (predict_proba)", "its classes_ are 0", ["0", "1"]),
    ),
    "predict disagrees": (
        lambda: audit(Model(predict_proba=probabilities, predict=lambda rows: decide(rows) * 0)),
        ModelError,
        (
            "model (predict)",
            "it differs on 2 of 4 rows, and no other cut explains what it decides about all 4",
            ["predict_proba", "0.5", "BlackBox", "threshold=", "output=", "'label'"],
        ),
    ),
    "predict disagrees with decision_function": (
        lambda: audit(
            Model(
                decision_function=lambda rows: decide(rows) - 0.5,
                predict=lambda rows: decide(rows) * 0,
            )
        ),
        ModelError,
        (
            "model (predict)",
            "it differs on 2 of 4 rows, and no other cut explains what it decides about all 4",
            ["decision_function", "0", "BlackBox", "threshold=", "output=", "'label'"],
        ),
    ),
    "recorded too short": (
        lambda: audit(Y[:-1], None),
        DataError,
        ("model (recorded predictions)", "got 7 entries, expected 8", []),
    ),
    "recorded two columns": (
        lambda: audit(np.stack([Y, Y], axis=1), None),
        DataError,
        ("model (recorded predictions)", "got ndarray of shape (8, 2)", []),
    ),
    "recorded ragged": (
        lambda: audit([[1], [1, 0]] * 4, None),
        DataError,
        ("model (recorded predictions)", "got a list of entries of different lengths", []),
    ),
    "recorded with nan": (
        lambda: audit(with_one(Y, 0, np.nan), None),
        DataError,
        ("model (recorded predictions)", "got nan for 1 of 8 entries", []),
    ),
    "recorded with null": (
        lambda: audit("p", pl.DataFrame({"p": with_one(Y, 0, None)})),
        DataError,
        ("model (column 'p')", "got None for 1 of 8 entries", []),
    ),
    "recorded text unknown to y": (
        lambda: audit(TEXT, None),
        DataError,
        ("model (recorded predictions)", "got 'no', 'yes'", ["0", "1", "BlackBox", "words="]),
    ),
    "recorded scores": (
        lambda: audit(Y * 3.5, None),
        DataError,
        ("model (recorded predictions)", "got scores from 0 to 3.5", ["BlackBox", "threshold="]),
    ),
    "recorded probabilities but one": (
        lambda: audit(with_one(Y * 0.6, 5, 1.2), None),
        DataError,
        (
            "model (recorded predictions)",
            "got scores from 0 to 1.2, 1 of 8 entries outside 0 to 1",
            ["BlackBox", "threshold="],
        ),
    ),
    "recorded probabilities above 1": (
        lambda: audit(BlackBox(with_one(Y * 0.6, 5, 1.2), output="probability"), None),
        DataError,
        (
            "model (recorded predictions)",
            "got 1.2 for 1 of 8 entries",
            ["0", "1", "BlackBox", "output=", "'score'", "threshold="],
        ),
    ),
    "recorded in another order than X": (
        lambda: audit(pd.Series(Y, FRAME.index[::-1]), FRAME),
        DataError,
        ("model (recorded predictions)", "it holds the row labels of X in another order", []),
    ),
    "recorded lists": (
        lambda: audit(pd.Series([[1]] * 8), None),
        DataError,
        ("model (recorded predictions)", "got a list in row 0", []),
    ),
    "output unknown": (
        lambda: BlackBox(decide, output="logit"),
        DataError,
        ("output", "got 'logit'", ["'auto'", "'label'", "'probability'", "'score'"]),
    ),
    "threshold nan": (
        lambda: BlackBox(decide, threshold=np.nan),
        DataError,
        ("threshold", "got nan", []),
    ),
    "threshold text": (
        lambda: BlackBox(decide, threshold="half"),
        DataError,
        ("threshold", "got 'half'", []),
    ),
    "threshold beyond probabilities": (
        lambda: BlackBox(Model(predict_proba=probabilities), threshold=50),
        DataError,
        ("threshold", "got 50", ["0", "1", "output=", "'score'"]),
    ),
    "threshold for labels": (
        lambda: BlackBox(decide, output="label", threshold=0.5),
        DataError,
        ("threshold", "got output='label' and threshold=0.5", []),
    ),
    "threshold for text": (
        lambda: audit(BlackBox(lambda rows: ["yes"] * len(rows), threshold=0.5)),
        ModelError,
        ("model (call)", "got 'yes'", ["output=", "threshold="]),
    ),
    "batch_size 0": (
        lambda: BlackBox(decide, batch_size=0),
        DataError,
        ("batch_size", "got 0", ["1"]),
    ),
    "batch_size 2.5": (
        lambda: BlackBox(decide, batch_size=2.5),
        DataError,
        ("batch_size", "got 2.5", ["1"]),
    ),
    "soft with a threshold": (
        lambda: BlackBox(decide, soft=True, threshold=0.5),
        DataError,
        ("soft", "got soft=True and threshold=0.5", []),
    ),
    "soft labels": (
        lambda: BlackBox(decide, soft=True, output="label"),
        DataError,
        ("soft", "got soft=True and labels from call", ["soft=True"]),
    ),
    "soft with decision_function": (
        lambda: BlackBox(Model(decision_function=decide), soft=True),
        DataError,
        ("soft", "got soft=True and scores from decision_function", ["soft=True"]),
    ),
    "soft scores": (
        lambda: audit(BlackBox(lambda rows: decide(rows) * 7.0, soft=True)),
        ModelError,
        (
            "model (call)",
            "got 7 for 2 of 4 distinct rows",
            ["0", "1", "BlackBox", "output=", "'score'", "threshold="],
        ),
    ),
    "a score without threshold": (
        lambda: audit(BlackBox(lambda rows: decide(rows) * 0.7, output="score")),
        ModelError,
        ("model (call)", "got scores from 0 to 0.7", ["BlackBox", "threshold="]),
    ),
    "labels that are probabilities": (
        lambda: audit(BlackBox(lambda rows: probabilities(rows)[:, 1], output="label")),
        ModelError,
        ("model (call)", "got 0.3, 0.8", ["0", "1", "output=", "'label'"]),
    ),
    "BlackBox in a BlackBox": (
        lambda: BlackBox(BlackBox(decide)),
        DataError,
        ("model", "got a BlackBox in a BlackBox", []),
    ),
    "metric unknown": (
        lambda: audit(metrics=["fnrr"]),
        DataError,
        ("metric", "got 'fnrr'", ["sp", "fnr", "fpr", "fdr", "da", "'fnr'"]),
    ),
    "metrics empty": (
        lambda: audit(metrics=[]),
        DataError,
        ("metrics", "got []", ["'sp'", "'fnr'"]),
    ),
    "metrics a text": (
        lambda: audit(metrics="sp"),
        DataError,
        ("metrics", "got 'sp'", ["'sp'", "'fnr'"]),
    ),
    "metrics repeated": (
        lambda: audit(metrics=["sp", "fnr", "sp"]),
        DataError,
        ("metrics", "got 'sp' 2 times", []),
    ),
    "weight beyond all floats": (
        lambda: audit(sample_weight=[10**400] * 8),
        DataError,
        ("sample_weight", "got inf in row 0", ["0"]),
    ),
    "confidence of a counterfactual 95": (
        lambda: fairmend.counterfactual(
            decide, X, Y, sensitive_features=S, disparity="sp", confidence=95
        ),
        DataError,
        ("confidence", "got 95", ["0", "1", "0.95"]),
    ),
    "confidence 0": (
        lambda: audit(confidence=0),
        DataError,
        ("confidence", "got 0", ["0", "1", "0.95"]),
    ),
    "confidence 1": (
        lambda: audit(confidence=1),
        DataError,
        ("confidence", "got 1", ["0", "1", "0.95"]),
    ),
    "confidence 95": (
        lambda: audit(confidence=95),
        DataError,
        ("confidence", "got 95", ["0", "1", "0.95"]),
    ),
    "confidence in words": (
        lambda: audit(confidence="high"),
        DataError,
        ("confidence", "got 'high'", ["0", "1", "0.95"]),
    ),
    "reference unknown": (
        lambda: audit(s=np.repeat(["Female", "Male"], 4), reference="female"),
        DataError,
        ("reference", "got 'female'", ["2", "sensitive_features", "'Female'"]),
    ),
    "alignment weight negative": (
        lambda: Alignment(-1),
        DataError,
        ("Alignment weight", "got -1", ["0"]),
    ),
    "Population of two lengths": (
        lambda: Population.of([1, 1], [0, 1], [0.5]),
        DataError,
        ("Population", "got shapes (2,), (2,) and (1,)", []),
    ),
    "Population without mass": (
        lambda: Population.of([0, 0], [0, 1], [0.5, 0.5]),
        DataError,
        ("Population", "got 0.0, 0.0", ["0"]),
    ),
    "Population with an outcome of 2": (
        lambda: Population.of([1, 1], [0, 1], [0.5, 2]),
        DataError,
        ("Population", "got 2", ["0", "1"]),
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_told(name):
    call, kind, (what, got, words) = BAD[name]
    with pytest.raises(FairmendError) as caught:
        call()
    error = caught.value
    assert (type(error), error.what, error.got) == (kind, what, got)
    assert error.must.startswith("must ")
    assert error.fix.endswith((".", "?")) or not error.fix
    assert [word for word in words if word not in f"{error.must} {error.fix}"] == []


def test_there_are_enough_mistakes():
    assert len(BAD) >= 160
    assert len({(what, got, *words) for _, _, (what, got, words) in BAD.values()}) >= 120
