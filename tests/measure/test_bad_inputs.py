"""What people get wrong, and the exact sentence they read.

One row a mistake: what is called, the error's class, and its whole message. A message that changes
must be changed here too, so that somebody reads it as its reader will.
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
        "y: must hold what really happened for fnr; got None. Pass it, or ask for 'sp', "
        "which compares decisions alone.",
    ),
    "y missing where it is needed": (
        lambda: fairmend.counterfactual(decide, X, None, sensitive_features=S, disparity="fnr"),
        DataError,
        "y: must hold what really happened for fnr; got None. Pass it, or ask for 'sp', "
        "which compares decisions alone.",
    ),
    "y a single number": (
        lambda: audit(y=1),
        DataError,
        "y: must hold one value a person; got a single int. Pass a list, an array, a "
        "series or the name of a column of X.",
    ),
    "y empty, X None": (
        lambda: audit(Y, None, []),
        DataError,
        "y: must have at least one entry; got none. Check the filter that made it.",
    ),
    "y too short": (
        lambda: audit(y=Y[:-1]),
        DataError,
        "y: must have the same length as X; got 7 entries, expected 8. Check that both "
        "come from the same filter.",
    ),
    "y two columns": (
        lambda: audit(y=np.stack([Y, Y], axis=1)),
        DataError,
        "y: must be one column; got ndarray of shape (8, 2). Pass one value a person.",
    ),
    "y a frame of two columns": (
        lambda: audit(y=pd.DataFrame({"y": Y, "z": Y})),
        DataError,
        "y: must be one column; got DataFrame of shape (8, 2). Pass one value a person.",
    ),
    "y ragged": (
        lambda: audit(y=[[0], [1, 1]] * 4),
        DataError,
        "y: must hold one value a person; got a list of entries of different lengths. "
        "Make all entries single values.",
    ),
    "y a tensor": (
        lambda: audit(y=Tensor()),
        DataError,
        "y: must hold one value a person; got a Tensor whose reading raised RuntimeError:"
        " Can't call numpy() on Tensor that requires grad. Pass a NumPy array.",
    ),
    "y of lists": (
        lambda: audit(y=pd.Series([[0], [1]] * 4)),
        DataError,
        "y: must hold numbers, booleans, text, dates or missing values; got a list in row"
        " 0. Turn such entries into text or numbers first.",
    ),
    "y with nan": (
        lambda: audit(y=with_one(Y, 3, np.nan)),
        DataError,
        "y: must be known for every person; got 1 missing, first in row 3. For sp "
        "pass y=None, which compares the decisions of everybody; for error rates leave these "
        "people out: the rates are then over people whose outcome is known.",
    ),
    "y with None": (
        lambda: audit(y=with_one(Y, 3, None)),
        DataError,
        "y: must be known for every person; got 1 missing, first in row 3. For sp "
        "pass y=None, which compares the decisions of everybody; for error rates leave these "
        "people out: the rates are then over people whose outcome is known.",
    ),
    "y nullable with NA": (
        lambda: audit(y=pd.Series(with_one(Y, 3, pd.NA), dtype="boolean")),
        DataError,
        "y: must be known for every person; got 1 missing, first in row 3. For sp "
        "pass y=None, which compares the decisions of everybody; for error rates leave these "
        "people out: the rates are then over people whose outcome is known.",
    ),
    "y masked": (
        lambda: audit(y=np.ma.masked_equal(Y, 1)),
        DataError,
        "y: must be a plain array; got a masked array, whose mask would be lost. Fill it "
        "first, e.g. with .filled(...), or leave the masked people out.",
    ),
    "y names no column": (
        lambda: audit(X=FRAME, y="incone"),
        DataError,
        "y: must name a column of X; got 'incone'. Did you mean 'income'?",
    ),
    "y a name without X": (
        lambda: audit(Y, None, "repaid"),
        DataError,
        "y: must hold one value a person; got the name 'repaid' without an X to look in. "
        "Pass X, or the values themselves.",
    ),
    "y one class": (
        lambda: audit(y=np.zeros(8)),
        DataError,
        "y: must have two values; got one class: everybody has 0.0. Error rates need both "
        "outcomes in the data.",
    ),
    "y three classes": (
        lambda: audit(y=np.arange(8) % 3),
        DataError,
        "y: must have two values; got 3: 0, 1, 2. Only binary classification is supported. "
        "Make it binary first, e.g. y == 2.",
    ),
    "y text without pos_label": (
        lambda: audit(y=TEXT),
        DataError,
        "pos_label: must say which value of y counts as positive when they are not 0/1 or"
        " -1/1; y holds 'no', 'yes'. Pass pos_label='yes' or pos_label='no'.",
    ),
    "y of 1 and its text": (
        lambda: audit(y=[1, "1"] * 4),
        DataError,
        "pos_label: must say which value of y counts as positive when they are not 0/1 or"
        " -1/1; y holds 1, '1'. Pass pos_label='1' or pos_label=1.",
    ),
    "pos_label not in y": (
        lambda: audit(y=TEXT, pos_label="Yes"),
        DataError,
        "pos_label: must be the value of y that counts as positive; got 'Yes' where y "
        "holds 'no', 'yes'. Did you mean 'yes'?",
    ),
    "pos_label unhashable": (
        lambda: audit(pos_label=np.array([1])),
        DataError,
        "pos_label: must be the value of y that counts as positive; got array([1]) where "
        "y holds 0, 1. Known: 0, 1.",
    ),
    "s missing": (
        lambda: audit(s=None),
        DataError,
        "sensitive_features: must hold one value a person; got None. Pass a list, an "
        "array, a series or the name of a column of X.",
    ),
    "s an empty dict": (
        lambda: audit(s={}),
        DataError,
        "sensitive_features: must have at least one column; got none. Pass one label a person.",
    ),
    "s an empty list": (
        lambda: audit(s=[]),
        DataError,
        "sensitive_features 'group': must have the same length as y; got 0 "
        "entries, expected 8. Check that both come from the same filter.",
    ),
    "s a single number": (
        lambda: audit(s=0),
        DataError,
        "sensitive_features: must hold one value a person; got a single int. Pass a list,"
        " an array, a series or the name of a column of X.",
    ),
    "s too short": (
        lambda: audit(s=S[:-1]),
        DataError,
        "sensitive_features 'group': must have the same length as y; got 7 "
        "entries, expected 8. Check that both come from the same filter.",
    ),
    "s a short list of texts": (
        lambda: audit(X=FRAME, s=list("aabb")),
        DataError,
        "sensitive_features 'group': must have the same length as y; got 4 "
        "entries, expected 8. Check that both come from the same filter.",
    ),
    "s ragged": (
        lambda: audit(s=[["a"], ["a", "b"]] * 4),
        DataError,
        "sensitive_features: must hold one value a person; got a list of entries of "
        "different lengths. Make all entries single values.",
    ),
    "s of lists": (
        lambda: audit(s=pl.Series("region", [["a"], ["b"]] * 4)),
        DataError,
        "sensitive_features 'region': must hold numbers, booleans, text, dates or missing"
        " values; got entries of type List(String). Turn such entries into text or "
        "numbers first.",
    ),
    "s three-dimensional": (
        lambda: audit(s=np.zeros((8, 2, 2))),
        DataError,
        "sensitive_features: must be one column; got ndarray of shape (8, 2, 2). Pass one"
        " value a person.",
    ),
    "s with nan": (
        lambda: audit(s=with_one(ONES, 2, np.nan)),
        DataError,
        "sensitive_features 'group': must be known for every person; got 1 missing, first"
        " in row 2. Leave these people out, or name them, e.g. 'unknown'.",
    ),
    "s with None": (
        lambda: audit(s=pd.Series(with_one(S, 2, None), name="sex")),
        DataError,
        "sensitive_features 'sex': must be known for every person; got 1 missing, first "
        "in row 2. Leave these people out, or name them, e.g. 'unknown'.",
    ),
    "s text with nan": (
        lambda: audit(s=with_one(S, 2, float("nan"))),
        DataError,
        "sensitive_features 'group': must be known for every person; got 1 missing, first"
        " in row 2. Leave these people out, or name them, e.g. 'unknown'.",
    ),
    "s an Arrow dictionary with null": (
        lambda: audit(s=pa.array(with_one(S, 2, None)).dictionary_encode()),
        DataError,
        "sensitive_features 'group': must be known for every person; got 1 missing, first"
        " in row 2. Leave these people out, or name them, e.g. 'unknown'.",
    ),
    "s names no column": (
        lambda: audit(X=FRAME, s="Age"),
        DataError,
        "sensitive_features: must name a column of X; got 'Age'. Did you mean 'age'?",
    ),
    "s names one good and one bad column": (
        lambda: audit(X=FRAME, s=["age", "incom"]),
        DataError,
        "sensitive_features: must name a column of X; got 'incom'. Did you mean 'income'?",
    ),
    "s a name without X": (
        lambda: audit(Y, None, s="sex"),
        DataError,
        "sensitive_features: must hold one value a person; got the name 'sex' without an "
        "X to look in. Pass X, or the values themselves.",
    ),
    "s one group": (
        lambda: audit(s=["a"] * 8),
        DataError,
        "sensitive_features: must name at least two groups; everybody is 'a'. A gap needs"
        " two groups: audit both together.",
    ),
    "s with 10,000 values": (
        lambda: audit(np.tile(Y, 1250), None, np.tile(Y, 1250), np.arange(10_000)),
        DataError,
        "sensitive_features: must name 2 to 500 groups; got 10,000 distinct values. Is it"
        " an id or a number? Bin it, or merge small groups.",
    ),
    "s with 1 and its text": (
        lambda: audit(s=[1, "1"] * 4),
        DataError,
        "sensitive_features: must have labels that read differently; among 1, '1' two "
        "print the same. Use one type for all labels, or rename them.",
    ),
    "s with two of one name": (
        lambda: audit(s=pd.DataFrame([["a", "b"]] * 8, columns=["sex", "sex"])),
        DataError,
        "sensitive_features: must have distinct column names; got more than one 'sex'. "
        "Rename or drop the copies.",
    ),
    "s with a group called rest": (
        lambda: audit(s=["DE", "TR", "rest", "TR"] * 2, reference="rest"),
        DataError,
        "sensitive_features: must not call a group 'best' or 'rest'; got 'rest'. These mean "
        "the best-off group and all others together: rename it.",
    ),
    "s with a group called best": (
        lambda: audit(s=["best", "mid"] * 4),
        DataError,
        "sensitive_features: must not call a group 'best' or 'rest'; got 'best'. These mean "
        "the best-off group and all others together: rename it.",
    ),
    "s combinations that read alike": (
        lambda: audit(s={"p": ["a & b", "a"] * 4, "q": ["c", "b & c"] * 4}),
        DataError,
        "sensitive_features: must have labels that read differently; among 'a & b & c', "
        "'a & b & c' two print the same. Use one type for all labels, or rename them.",
    ),
    "weights too short": (
        lambda: audit(sample_weight=ONES[:-1]),
        DataError,
        "sample_weight: must have the same length as y; got 7 entries, expected 8. "
        "Check that both come from the same filter.",
    ),
    "weights negative": (
        lambda: audit(sample_weight=with_one(ONES, 5, -0.5)),
        DataError,
        "sample_weight: must be finite and not negative; got -0.5 in row 5. Somebody who "
        "should not count has weight 0.",
    ),
    "weights with nan": (
        lambda: audit(sample_weight=with_one(ONES, 5, np.nan)),
        DataError,
        "sample_weight: must be finite and not negative; got nan in row 5. Somebody who "
        "should not count has weight 0.",
    ),
    "weights with null": (
        lambda: audit(sample_weight=pl.Series(with_one(ONES, 5, None))),
        DataError,
        "sample_weight: must be finite and not negative; got nan in row 5. Somebody who "
        "should not count has weight 0.",
    ),
    "weights infinite": (
        lambda: audit(sample_weight=ONES * np.inf),
        DataError,
        "sample_weight: must be finite and not negative; got inf in row 0. Somebody who "
        "should not count has weight 0.",
    ),
    "weights too large to square": (
        lambda: audit(sample_weight=ONES * 1e200),
        DataError,
        "sample_weight: must be 0 or from 1e-100 to 1e+100; got 1e+200 in row 0. Only "
        "ratios matter: divide all by the same number.",
    ),
    "weights too small to square": (
        lambda: audit(sample_weight=ONES * 1e-200),
        DataError,
        "sample_weight: must be 0 or from 1e-100 to 1e+100; got 1e-200 in row 0. Only "
        "ratios matter: divide all by the same number.",
    ),
    "weights all zero": (
        lambda: audit(sample_weight=ONES * 0),
        DataError,
        "sample_weight: must be positive for somebody in every group; all weights are zero. "
        "Give them weight, or leave the group out.",
    ),
    "weights zero for one group": (
        lambda: audit(sample_weight=(S == "a") * 1.0),
        DataError,
        "sample_weight: must be positive for somebody in every group; all weights of "
        "group 'b' are zero. Give them weight, or leave the group out.",
    ),
    "weights text": (
        lambda: audit(sample_weight=with_one(ONES, 1, "heavy")),
        DataError,
        "sample_weight: must hold numbers; got 'heavy' in row 1. Pass one number a person.",
    ),
    "weights dates": (
        lambda: audit(sample_weight=np.full(8, np.datetime64("2024-02-29"))),
        DataError,
        "sample_weight: must hold numbers; got datetime.date(2024, 2, 29) in row 0. Pass "
        "one number a person.",
    ),
    "weights complex": (
        lambda: audit(sample_weight=ONES * 1j),
        DataError,
        "sample_weight: must hold numbers; got 1j in row 0. Pass one number a person.",
    ),
    "weights two columns": (
        lambda: audit(sample_weight=np.ones((8, 2))),
        DataError,
        "sample_weight: must be one column; got ndarray of shape (8, 2). Pass one value a person.",
    ),
    "weights name no column": (
        lambda: audit(X=FRAME, sample_weight="ages"),
        DataError,
        "sample_weight: must name a column of X; got 'ages'. Did you mean 'age'?",
    ),
    "X missing for a callable": (
        lambda: audit(X=None),
        DataError,
        "X: must hold the model's inputs; got None. Pass the table the model reads.",
    ),
    "X nothing but y": (
        lambda: audit(X=pd.DataFrame({"repaid": Y}), y="repaid"),
        DataError,
        "X: must hold the model's inputs; got no columns but 'repaid'. Pass the table the"
        " model reads.",
    ),
    "X one-dimensional": (
        lambda: audit(X=X[:, 0]),
        DataError,
        "X: must be a table: a 2-D array, or a pandas, Polars or PyArrow frame; got "
        "ndarray of shape (8,). Reshape your data: numpy.reshape(X, (-1, 1)) for one column, "
        "[X] for one row.",
    ),
    "X three-dimensional": (
        lambda: audit(X=np.zeros((8, 2, 2))),
        DataError,
        "X: must be a table: a 2-D array, or a pandas, Polars or PyArrow frame; got "
        "ndarray of shape (8, 2, 2). Pass one row a person, one column a feature.",
    ),
    "X a series": (
        lambda: audit(X=FRAME["age"]),
        DataError,
        "X: must be a table: a 2-D array, or a pandas, Polars or PyArrow frame; got "
        "Series. One column? Pass X.to_frame().",
    ),
    "X ragged": (
        lambda: audit(X=[[1, 2], [3]] * 4),
        DataError,
        "X: must be a table: a 2-D array, or a pandas, Polars or PyArrow frame; got rows "
        "of different lengths. Give every row the same columns.",
    ),
    "X sparse": (
        lambda: audit(X=scipy.sparse.csr_array(X)),
        DataError,
        "X: must be a dense table; got a sparse matrix. Pass X.toarray().",
    ),
    "X masked": (
        lambda: audit(X=np.ma.masked_equal(X, 5)),
        DataError,
        "X: must be a plain array; got a masked array, whose mask would be lost. Fill it "
        "first, e.g. with .filled(...), or leave the masked people out.",
    ),
    "X lazy, y not its column": (
        lambda: audit(X=pl.LazyFrame({"age": X[:, 0]})),
        DataError,
        "y: must name a column of X where X is not in memory; got a ndarray. Write it into the "
        "table, and pass the column's name.",
    ),
    "X a file that is not there": (
        lambda: audit(X="people.csv"),
        DataError,
        "X 'people.csv': must be a path or a glob of Parquet or CSV files; there is no such file. "
        "Check the name, and from where it is seen.",
    ),
    "X a name nobody knows": (
        lambda: audit(X="people"),
        DataError,
        "X: must be a table: a 2-D array, a frame, a path or glob of Parquet or CSV files, or the "
        "name of a table that DuckDB or Spark knows; got 'people', which is none of these. For a "
        "table of a DuckDB connection of yours pass connection.table(name).",
    ),
    "X a dict": (
        lambda: audit(X={"age": X[:, 0]}),
        DataError,
        "X: must be a table: a 2-D array, or a pandas, Polars or PyArrow frame; got dict."
        " Pass pandas.DataFrame(X).",
    ),
    "X a list of dicts": (
        lambda: audit(X=[{"age": 1}] * 8),
        DataError,
        "X: must be a table: a 2-D array, or a pandas, Polars or PyArrow frame; got list."
        " Pass pandas.DataFrame(X).",
    ),
    "X a structured array": (
        lambda: audit(X=np.array([(1, 2.0)] * 8, [("age", int), ("income", float)])),
        DataError,
        "X: must be a table: a 2-D array, or a pandas, Polars or PyArrow frame; got "
        "ndarray. Pass pandas.DataFrame(X).",
    ),
    "X a record batch": (
        lambda: audit(X=pa.RecordBatch.from_pandas(FRAME)),
        DataError,
        "X: must be a table: a 2-D array, or a pandas, Polars or PyArrow frame; got "
        "RecordBatch. Pass pyarrow.table(X).",
    ),
    "X without rows": (
        lambda: audit(X=FRAME[:0]),
        DataError,
        "X: must have at least one row; got none. Check the filter that made it.",
    ),
    "X an empty list": (
        lambda: audit(X=[]),
        DataError,
        "X: must have at least one row; got none. Check the filter that made it.",
    ),
    "X without columns": (
        lambda: audit(X=FRAME[[]]),
        DataError,
        "X: must have at least one column; got 0 feature(s) (shape=(8, 0)) while a minimum of 1 is "
        "required. Pass the model's inputs.",
    ),
    "X with two columns of one name": (
        lambda: audit(X=FRAME.set_axis(["age", "age"], axis=1)),
        DataError,
        "X: must have distinct column names; got more than one 'age'. Rename or drop the copies.",
    ),
    "X an Arrow table with two of one name": (
        lambda: audit(X=pa.table([Y, Y], names=["age", "age"])),
        DataError,
        "X: must have distinct column names; got more than one 'age'. Rename or drop the copies.",
    ),
    "X with a list in a cell": (
        lambda: audit(X=FRAME.assign(jobs=[["cook"]] * 8)),
        DataError,
        "X column 'jobs': must hold numbers, booleans, text, dates or missing values; got"
        " a list in row 0. Turn such entries into text or numbers first.",
    ),
    "X with structs": (
        lambda: audit(X=pl.DataFrame({"job": [{"title": "cook"}] * 8})),
        DataError,
        "X column 'job': must hold numbers, booleans, text, dates or missing values; got "
        "entries of type Struct({'title': String}). Turn such entries into text or "
        "numbers first.",
    ),
    "model None": (
        lambda: audit(None),
        DataError,
        "model: must have predict_proba, decision_function or predict, be callable, name "
        "a column of predictions, or be the predictions; got None. Wrap the vendor's call"
        " in a function that takes rows and returns answers.",
    ),
    "model a number": (
        lambda: audit(0.5),
        DataError,
        "model: must have predict_proba, decision_function or predict, be callable, name "
        "a column of predictions, or be the predictions; got float. Wrap the vendor's "
        "call in a function that takes rows and returns answers.",
    ),
    "model a class": (
        lambda: audit(LogisticRegression),
        DataError,
        "model: must be a fitted model; got the class LogisticRegression. Pass a fitted instance.",
    ),
    "model not fitted": (
        lambda: audit(LogisticRegression()),
        ModelError,
        "model (predict_proba): must answer 4 rows given as numpy ndarray; it raised "
        "NotFittedError: This LogisticRegression instance is not fitted yet. Call 'fit' "
        "with appropriate arguments before using this estimator. Call it on a few rows"
        " by hand: it must take them as they are passed here.",
    ),
    "model names no column": (
        lambda: audit("prediction", FRAME.assign(predictions=Y)),
        DataError,
        "model: must name a column of X; got 'prediction'. Did you mean 'predictions'?",
    ),
    "model a name without X": (
        lambda: audit("prediction", None),
        DataError,
        "model: must name a column of X; got the name 'prediction' and X=None. Pass the table.",
    ),
    "model raises": (
        lambda: audit(lambda rows: 1 / 0),
        ModelError,
        "model (call): must answer 4 rows given as numpy ndarray; it raised ZeroDivisionError: "
        "division by zero. Call it on a few rows by hand: it must take them as they are "
        "passed here.",
    ),
    "model misses an input": (
        lambda: audit(LogisticRegression().fit(FRAME, Y), FRAME[["age"]]),
        DataError,
        "X: must have every input of the model as a column; there is no 'income'. Known: 'age'.",
    ),
    "model raises several lines": (
        lambda: audit(LogisticRegression().fit(FRAME, Y), FRAME.set_axis(["a", "b"], axis=1)),
        ModelError,
        "model (predict_proba): must answer 4 rows given as pandas DataFrame; it raised "
        "ValueError: The feature names should match those that were passed during fit. "
        "Feature names unseen at fit time: - a - b Feature names seen at fit time, yet now "
        "missing: - age - income. Call it on a few rows by hand: it must take them as they are "
        "passed here.",
    ),
    "inputs one name": (
        lambda: BlackBox(decide, inputs="age"),
        DataError,
        "inputs: must be a list of columns of X, each once; got 'age'. For example "
        "inputs=['age', 'income'].",
    ),
    "inputs that are not there": (
        lambda: audit(BlackBox(decide, inputs=["agee"]), FRAME),
        DataError,
        "inputs: must name columns of X; there is no 'agee'. Did you mean 'age'?",
    ),
    "y an input of the model": (
        lambda: audit(BlackBox(decide, inputs=["age", "y"]), FRAME.assign(y=Y), "y"),
        DataError,
        "y: must not be an input of the model; 'y' is one. Name another column; if the model "
        "does read what really happened, pass y as values.",
    ),
    "model meets an unseen category": (
        lambda: audit(knows_red_and_blue(), np.array([["red"], ["green"]] * 4, object)),
        ModelError,
        "model (predict_proba): must answer 2 rows given as numpy ndarray; it raised "
        "ValueError: Found unknown categories ['green'] in column 0 during transform. "
        "Call it on a few rows by hand: it must take them as they are passed here.",
    ),
    "model returns None": (
        lambda: audit(lambda rows: None),
        ModelError,
        "model (call): must return one answer per row; got None. Return an array or a list.",
    ),
    "model returns one number": (
        lambda: audit(lambda rows: 1),
        ModelError,
        "model (call): must return one answer per row; got a single int. Return an array or a "
        "list.",
    ),
    "model returns a generator": (
        lambda: audit(lambda rows: (1 for _ in rows)),
        ModelError,
        "model (call): must return one answer per row; got a single generator. Return an array "
        "or a list.",
    ),
    "model returns ragged lists": (
        lambda: audit(lambda rows: [[1], [1, 0]]),
        ModelError,
        "model (call): must return one answer per row; got a list of entries of different "
        "lengths. Return an array or a list.",
    ),
    "model returns lists in cells": (
        lambda: audit(lambda rows: pd.Series([[1]] * len(rows))),
        ModelError,
        "model (call): must hold numbers, booleans, text, dates or missing values; got a "
        "list in row 0. Turn such entries into text or numbers first.",
    ),
    "model returns a lazy frame": (
        lambda: audit(lambda rows: pl.LazyFrame({"p": [1]})),
        ModelError,
        "model (call): must return one answer per row; got a lazy frame (LazyFrame). Return an "
        "array or a list.",
    ),
    "model returns what is no array": (
        lambda: audit(lambda rows: Tensor()),
        ModelError,
        "model (call): must return one answer per row; got a Tensor whose reading raised "
        "RuntimeError: Can't call numpy() on Tensor that requires grad. Return an array or a "
        "list.",
    ),
    "model returns too few": (
        lambda: audit(lambda rows: decide(rows)[1:]),
        ModelError,
        "model (call): must give one answer per row; got 3 answers for 4 rows. Does it drop or "
        "add rows?",
    ),
    "model returns two columns": (
        lambda: audit(lambda rows: np.zeros((len(rows), 2))),
        ModelError,
        "model (call): must give one answer per row, or two class probabilities from "
        "predict_proba; got answers of shape (4, 2) for 4 rows. fairmend repairs binary "
        "classifiers: pass a function that returns P(positive).",
    ),
    "model returns three columns": (
        lambda: audit(Model(predict_proba=lambda rows: np.full((len(rows), 3), 1 / 3))),
        ModelError,
        "model (predict_proba): must give one answer per row, or two class probabilities from "
        "predict_proba; got answers of shape (4, 3) for 4 rows. fairmend repairs binary "
        "classifiers: pass a function that returns P(positive).",
    ),
    "model returns nan": (
        lambda: audit(lambda rows: np.where(decide(rows), 0.5, np.nan)),
        ModelError,
        "model (call): must answer every row; got nan for 2 of 4 distinct rows. Are "
        "values missing that it cannot take? Leave out rows it has no answer for.",
    ),
    "model returns None for somebody": (
        lambda: audit(lambda rows: [None, *decide(rows)[1:].tolist()]),
        ModelError,
        "model (call): must answer every row; got None for 1 of 4 distinct rows. Are "
        "values missing that it cannot take? Leave out rows it has no answer for.",
    ),
    "model returns infinity": (
        lambda: audit(lambda rows: np.where(decide(rows), 0.5, np.inf)),
        ModelError,
        "model (call): must answer with finite numbers; got inf for 2 of 4 distinct rows."
        " Look at the inputs of those rows, or bound its answers.",
    ),
    "model returns scores": (
        lambda: audit(lambda rows: np.asarray(rows)[:, 0] * 10.0),
        ModelError,
        "model (call): must come with a threshold when it gives scores; got scores from 0"
        " to 30. Say BlackBox(model, threshold=...): above it the decision is positive.",
    ),
    "model returns unknown text": (
        lambda: audit(lambda rows: ["accept"] * len(rows)),
        ModelError,
        "model (call): must answer with the labels of y, 0 and 1; got 'accept'. If"
        " these are its words, say BlackBox(model, words=(negative, positive)).",
    ),
    "model returns unknown text for labels": (
        lambda: audit(BlackBox(lambda rows: ["ok"] * len(rows), output="label")),
        ModelError,
        "model (call): must answer with the labels of y, 0 and 1; got 'ok'. If these are"
        " its words, say BlackBox(model, words=(negative, positive)).",
    ),
    "model returns unknown text for text": (
        lambda: audit(lambda rows: ["accept"] * len(rows), y=TEXT, pos_label="yes"),
        ModelError,
        "model (call): must answer with the labels of y, 'no' and 'yes', or with 0 and 1;"
        " got 'accept'. If these are its words, say BlackBox(model, words=(negative, "
        "positive)).",
    ),
    "model returns 0 and 1 for y in 1 and 2": (
        lambda: audit(y=Y + 1, pos_label=2),
        ModelError,
        "model (call): must answer with the labels of y, 1 and 2; got 0, 1. If 1 means 2,"
        " say BlackBox(model, output='probability').",
    ),
    "model returns dates": (
        lambda: audit(lambda rows: np.full(len(rows), np.datetime64("2024-02-29"))),
        ModelError,
        "model (call): must answer with the labels of y, 0 and 1; got datetime.date(2024,"
        " 2, 29). If these are its words, say BlackBox(model, words=(negative, positive)).",
    ),
    "model returns complex numbers": (
        lambda: audit(lambda rows: decide(rows) + 0.5j),
        ModelError,
        "model (call): must hold real numbers, text or dates; got complex128 numbers. "
        "Complex data not supported: pass real and imaginary parts as two columns.",
    ),
    "model changes its answer": (
        lambda: audit(Fickle()),
        ModelError,
        "model (predict): must give the same answer when queried about the same row again; it "
        "changed 4 of 4, one from 0 to 1. If it is random on purpose, say BlackBox(model, "
        "random=True).",
    ),
    "probabilities with nan": (
        lambda: audit(Model(predict_proba=lambda rows: probabilities(rows) * np.nan)),
        ModelError,
        "model (predict_proba): must answer every row; got nan for 4 of 4 distinct rows. "
        "Are values missing that it cannot take? Leave out rows it has no answer for.",
    ),
    "probabilities above 1": (
        lambda: audit(Model(predict_proba=lambda rows: probabilities(rows) * 2)),
        ModelError,
        "model (predict_proba): must give probabilities between 0 and 1; got 1.6 for 2 of"
        " 4 distinct rows. If these are scores, say BlackBox(model, output='score', "
        "threshold=...).",
    ),
    "classes_ of another language": (
        lambda: audit(Model(predict_proba=probabilities, classes_=["a", "b"])),
        ModelError,
        "model (predict_proba): must tell 0 from 1, the labels of y; its classes_ are "
        "'a', 'b'. Give y in the model's own labels, or pass a function that returns "
        "P(positive).",
    ),
    "classes_ 0 and 1 for y in 1 and 2": (
        lambda: audit(Model(predict_proba=probabilities, classes_=[0, 1]), y=Y + 1, pos_label=1),
        ModelError,
        "model (predict_proba): must tell 2 from 1, the labels of y; its classes_ are 0, "
        "1. Give y in the model's own labels, or pass a function that returns "
        "P(positive).",
    ),
    "one class only": (
        lambda: audit(
            Model(predict_proba=lambda rows: np.ones((len(rows), 1)), classes_=np.array([0]))
        ),
        ModelError,
        "model (predict_proba): must tell 0 from 1, the labels of y; its classes_ are 0. "
        "Give y in the model's own labels, or pass a function that returns P(positive).",
    ),
    "predict disagrees": (
        lambda: audit(Model(predict_proba=probabilities, predict=lambda rows: decide(rows) * 0)),
        ModelError,
        "model (predict): must decide as predict_proba > 0.5 does, or the cut must be given; it"
        " differs on 2 of 4 rows, and no other cut explains what it decides about all 4. Say "
        "BlackBox(model, threshold=...), or output='label' to use what predict says.",
    ),
    "predict disagrees with decision_function": (
        lambda: audit(
            Model(
                decision_function=lambda rows: decide(rows) - 0.5,
                predict=lambda rows: decide(rows) * 0,
            )
        ),
        ModelError,
        "model (predict): must decide as decision_function > 0 does, or the cut must be given; "
        "it differs on 2 of 4 rows, and no other cut explains what it decides about all 4. Say "
        "BlackBox(model, threshold=...), or output='label' to use what predict says.",
    ),
    "recorded too short": (
        lambda: audit(Y[:-1], None),
        DataError,
        "model (recorded predictions): must have the same length as y; got 7 entries, expected "
        "8. Check that both come from the same filter.",
    ),
    "recorded two columns": (
        lambda: audit(np.stack([Y, Y], axis=1), None),
        DataError,
        "model (recorded predictions): must be one column; got ndarray of shape (8, 2). "
        "Pass one value a person.",
    ),
    "recorded ragged": (
        lambda: audit([[1], [1, 0]] * 4, None),
        DataError,
        "model (recorded predictions): must hold one value a person; got a list of "
        "entries of different lengths. Make all entries single values.",
    ),
    "recorded with nan": (
        lambda: audit(with_one(Y, 0, np.nan), None),
        DataError,
        "model (recorded predictions): must hold a prediction for everybody; got nan for 1 of 8"
        " entries. Correct it, or leave out people whom the model did not answer.",
    ),
    "recorded with null": (
        lambda: audit("p", pl.DataFrame({"p": with_one(Y, 0, None)})),
        DataError,
        "model (column 'p'): must hold a prediction for everybody; got None for 1 of 8 entries."
        " Correct it, or leave out people whom the model did not answer.",
    ),
    "recorded text unknown to y": (
        lambda: audit(TEXT, None),
        DataError,
        "model (recorded predictions): must answer with the labels of y, 0 and 1; got "
        "'no', 'yes'. If these are its words, say BlackBox(model, words=(negative, "
        "positive)).",
    ),
    "recorded scores": (
        lambda: audit(Y * 3.5, None),
        DataError,
        "model (recorded predictions): must come with a threshold when it gives scores; "
        "got scores from 0 to 3.5. Say BlackBox(model, threshold=...): above it the "
        "decision is positive.",
    ),
    "recorded probabilities but one": (
        lambda: audit(with_one(Y * 0.6, 5, 1.2), None),
        DataError,
        "model (recorded predictions): must come with a threshold when it gives scores; "
        "got scores from 0 to 1.2, 1 of 8 entries outside 0 to 1. Say BlackBox(model, "
        "threshold=...): above it the decision is positive.",
    ),
    "recorded probabilities above 1": (
        lambda: audit(BlackBox(with_one(Y * 0.6, 5, 1.2), output="probability"), None),
        DataError,
        "model (recorded predictions): must give probabilities between 0 and 1; got 1.2 for 1 "
        "of 8 entries. If these are scores, say BlackBox(model, output='score', threshold=...).",
    ),
    "recorded in another order than X": (
        lambda: audit(pd.Series(Y, FRAME.index[::-1]), FRAME),
        DataError,
        "model (recorded predictions): must come in the order of X; it holds the row labels of X "
        "in another order. Pass it as values.loc[X.index].",
    ),
    "recorded lists": (
        lambda: audit(pd.Series([[1]] * 8), None),
        DataError,
        "model (recorded predictions): must hold numbers, booleans, text, dates or "
        "missing values; got a list in row 0. Turn such entries into text or numbers "
        "first.",
    ),
    "output unknown": (
        lambda: BlackBox(decide, output="logit"),
        DataError,
        "output: must be 'auto', 'label', 'probability' or 'score'; got 'logit'. Leave it out "
        "to tell by the values.",
    ),
    "threshold nan": (
        lambda: BlackBox(decide, threshold=np.nan),
        DataError,
        "threshold: must be a finite number; got nan. A decision is positive where the "
        "answer is greater than it.",
    ),
    "threshold text": (
        lambda: BlackBox(decide, threshold="half"),
        DataError,
        "threshold: must be a finite number; got 'half'. A decision is positive where the"
        " answer is greater than it.",
    ),
    "threshold beyond probabilities": (
        lambda: BlackBox(Model(predict_proba=probabilities), threshold=50),
        DataError,
        "threshold: must lie between 0 and 1; got 50. If the answers are scores, say "
        "output='score'.",
    ),
    "threshold for labels": (
        lambda: BlackBox(decide, output="label", threshold=0.5),
        DataError,
        "threshold: must be left out where the answers are labels; got output='label' and"
        " threshold=0.5. Leave one of them out.",
    ),
    "threshold for text": (
        lambda: audit(BlackBox(lambda rows: ["yes"] * len(rows), threshold=0.5)),
        ModelError,
        "model (call): must answer with numbers; got 'yes'. If these are labels, leave "
        "output= and threshold= out.",
    ),
    "batch_size 0": (
        lambda: BlackBox(decide, batch_size=0),
        DataError,
        "batch_size: must be a whole number, at least 1; got 0. It is the number of rows per call.",
    ),
    "batch_size 2.5": (
        lambda: BlackBox(decide, batch_size=2.5),
        DataError,
        "batch_size: must be a whole number, at least 1; got 2.5. It is the number of "
        "rows per call.",
    ),
    "soft with a threshold": (
        lambda: BlackBox(decide, soft=True, threshold=0.5),
        DataError,
        "soft: must be left out where there is a threshold; got soft=True and threshold=0.5. Leave"
        " one of them out.",
    ),
    "soft labels": (
        lambda: BlackBox(decide, soft=True, output="label"),
        DataError,
        "soft: must be left out unless the answers are probabilities; got soft=True and labels "
        "from call. Leave soft=True out.",
    ),
    "soft with decision_function": (
        lambda: BlackBox(Model(decision_function=decide), soft=True),
        DataError,
        "soft: must be left out unless the answers are probabilities; got soft=True and scores "
        "from decision_function. Leave soft=True out.",
    ),
    "soft scores": (
        lambda: audit(BlackBox(lambda rows: decide(rows) * 7.0, soft=True)),
        ModelError,
        "model (call): must give probabilities between 0 and 1; got 7 for 2 of 4 distinct"
        " rows. If these are scores, say BlackBox(model, output='score', threshold=...).",
    ),
    "a score without threshold": (
        lambda: audit(BlackBox(lambda rows: decide(rows) * 0.7, output="score")),
        ModelError,
        "model (call): must come with a threshold when it gives scores; got scores from 0"
        " to 0.7. Say BlackBox(model, threshold=...): above it the decision is positive.",
    ),
    "labels that are probabilities": (
        lambda: audit(BlackBox(lambda rows: probabilities(rows)[:, 1], output="label")),
        ModelError,
        "model (call): must answer with the labels of y, 0 and 1; got 0.3, 0.8. If these "
        "are probabilities or scores, leave output='label' out.",
    ),
    "BlackBox in a BlackBox": (
        lambda: BlackBox(BlackBox(decide)),
        DataError,
        "model: must be the model itself; got a BlackBox in a BlackBox.",
    ),
    "metric unknown": (
        lambda: audit(metrics=["fnrr"]),
        DataError,
        "metric: must be one of sp, fnr, fpr, fdr, da, or a Disparity; got 'fnrr'. Did "
        "you mean 'fnr'?",
    ),
    "metrics empty": (
        lambda: audit(metrics=[]),
        DataError,
        "metrics: must be a list of at least one metric; got []. For example ['sp', 'fnr'].",
    ),
    "metrics a text": (
        lambda: audit(metrics="sp"),
        DataError,
        "metrics: must be a list of at least one metric; got 'sp'. For example ['sp', 'fnr'].",
    ),
    "metrics repeated": (
        lambda: audit(metrics=["sp", "fnr", "sp"]),
        DataError,
        "metrics: must have different names; got 'sp' 2 times. Ask for it once: the "
        "correction for many tests counts every row.",
    ),
    "weight beyond all floats": (
        lambda: audit(sample_weight=[10**400] * 8),
        DataError,
        "sample_weight: must be finite and not negative; got inf in row 0. Somebody who "
        "should not count has weight 0.",
    ),
    "confidence of a counterfactual 95": (
        lambda: fairmend.counterfactual(
            decide, X, Y, sensitive_features=S, disparity="sp", confidence=95
        ),
        DataError,
        "confidence: must lie between 0 and 1; got 95. Usual is 0.95.",
    ),
    "confidence 0": (
        lambda: audit(confidence=0),
        DataError,
        "confidence: must lie between 0 and 1; got 0. Usual is 0.95.",
    ),
    "confidence 1": (
        lambda: audit(confidence=1),
        DataError,
        "confidence: must lie between 0 and 1; got 1. Usual is 0.95.",
    ),
    "confidence 95": (
        lambda: audit(confidence=95),
        DataError,
        "confidence: must lie between 0 and 1; got 95. Usual is 0.95.",
    ),
    "confidence in words": (
        lambda: audit(confidence="high"),
        DataError,
        "confidence: must lie between 0 and 1; got 'high'. Usual is 0.95.",
    ),
    "reference unknown": (
        lambda: audit(s=np.repeat(["Female", "Male"], 4), reference="female"),
        DataError,
        "reference: must be one of the 2 groups in sensitive_features; got 'female'. Did "
        "you mean 'Female'?",
    ),
    "alignment weight negative": (
        lambda: Alignment(-1),
        DataError,
        "Alignment weight: must be a finite number of at least 0; got -1. 0 compares decisions "
        "alone.",
    ),
    "Population of two lengths": (
        lambda: Population.of([1, 1], [0, 1], [0.5]),
        DataError,
        "Population: must have one mass, decision and outcome a row; got shapes (2,), "
        "(2,) and (1,). Pass three lists of the same length.",
    ),
    "Population without mass": (
        lambda: Population.of([0, 0], [0, 1], [0.5, 0.5]),
        DataError,
        "Population: must have finite masses, none negative, not all 0; got 0.0, 0.0. "
        "They are normalised: counts or weights will do.",
    ),
    "Population with an outcome of 2": (
        lambda: Population.of([1, 1], [0, 1], [0.5, 2]),
        DataError,
        "Population: must have outcomes between 0 and 1; got 2. They are probabilities of"
        " a positive decision and a positive outcome.",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_told_exactly(name):
    call, kind, message = BAD[name]
    with pytest.raises(FairmendError) as caught:
        call()
    assert type(caught.value) is kind
    assert str(caught.value) == message


def test_there_are_enough_mistakes():
    assert len(BAD) >= 55
    assert len({message for _, _, message in BAD.values()}) >= 55
