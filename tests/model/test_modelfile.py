"""Models from import paths, skops and ONNX files, and addresses."""

import numpy as np
import polars as pl
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from fairmend.data.columns import Frame
from fairmend.data.outcomes import Labels
from fairmend.errors import ModelError
from fairmend.model.blackbox import BlackBox
from fairmend.model.foreign import input_names
from fairmend.model.modelfile import load_model
from fairmend.model.onnxfile import OnnxModel
from fairmend.model.remote import RemoteModel


def shifted(X):
    return X + 1


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    n = 400
    frame = pl.DataFrame({
        "age": rng.integers(18, 80, n),
        "income": rng.normal(3_000, 900, n),
        "job": rng.choice(["temp", "permanent"], n),
    })  # fmt: skip
    y = (frame["income"].to_numpy() / 1_000 + (frame["job"] == "temp").to_numpy() > 3).astype(int)
    return frame, y


def asked(model, rows, labels=Labels(0, 1)):  # noqa: B008
    return BlackBox(model).query(Frame.read(rows), labels)


# -------------------------------------------------------------------- Python


def test_an_import_path(tmp_path, monkeypatch):
    (tmp_path / "vendor_a.py").write_text(
        "class Box:\n    @staticmethod\n    def cut(rows):\n        return rows['age'] > 40\n"
    )
    monkeypatch.chdir(tmp_path)
    cut = load_model("vendor_a:Box.cut")
    assert cut(pl.DataFrame({"age": [30, 50]})).to_list() == [False, True]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("vendor", "must read package.module:object"),
        ("no_such_package:x", "No module named 'no_such_package'"),
        ("json:nothing", "module 'json' has no attribute 'nothing'"),
        ("json:__name__", "--model: must be a model; 'json:__name__' is text"),
        ("http://host:no/", "--model: must be an http or https address"),
        ("vendor_b:x", "ValueError: no licence"),
        ("model.skops", "there is no 'model.skops'"),
        ("model.onnx", "there is no 'model.onnx'"),
    ],
)
def test_what_cannot_be_loaded(source, message, tmp_path, monkeypatch):
    (tmp_path / "vendor_b.py").write_text("raise ValueError('no licence')")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError) as raised:
        load_model(source)
    assert message in str(raised.value)


def test_an_address():
    model = load_model("http://localhost:1/invocations")
    assert isinstance(model, RemoteModel)
    assert "instances" in repr(load_model("http://localhost:1/score", protocol="instances"))


# -------------------------------------------------------------------- skops


@pytest.fixture(scope="module")
def pipeline(table):
    frame, y = table
    encode = make_column_transformer((OneHotEncoder(), ["job"]), remainder="passthrough")
    return make_pipeline(encode, LogisticRegression(max_iter=2_000)).fit(frame.to_pandas(), y)


def test_skops_answers_as_the_model_it_was_made_of(pipeline, table, tmp_path):
    skops = pytest.importorskip("skops.io")
    frame, _ = table
    skops.dump(pipeline, tmp_path / "m.skops")
    model = load_model(str(tmp_path / "m.skops"))
    assert input_names(model) == ("age", "income", "job")
    expected = pipeline.predict_proba(frame.to_pandas())[:, 1]
    np.testing.assert_array_equal(asked(model, frame).score, expected)


def test_types_that_skops_does_not_trust_are_named_and_refused(table, tmp_path):
    skops = pytest.importorskip("skops.io")
    frame, y = table
    numbers = frame.select("age", "income").to_numpy()
    model = make_pipeline(FunctionTransformer(shifted), LogisticRegression(max_iter=2_000))
    skops.dump(model.fit(numbers, y), tmp_path / "m.skops")
    foreign = skops.get_untrusted_types(file=tmp_path / "m.skops")
    assert foreign
    with pytest.raises(ModelError) as raised:
        load_model(str(tmp_path / "m.skops"))
    assert f"--trust {foreign[0]}" in str(raised.value)
    trusted = load_model(str(tmp_path / "m.skops"), trust=foreign)
    rows = frame.select("age", "income")
    np.testing.assert_array_equal(asked(trusted, rows).score, model.predict_proba(numbers)[:, 1])
    (tmp_path / "broken.skops").write_bytes(b"PK and nothing else")
    with pytest.raises(ModelError, match="must be a file that skops reads"):
        load_model(str(tmp_path / "broken.skops"))


# -------------------------------------------------------------------- ONNX


def graph(path, nodes, inputs, outputs, constants=()):
    onnx = pytest.importorskip("onnx")
    made = onnx.helper.make_model(
        onnx.helper.make_graph(
            nodes,
            "test",
            [onnx.helper.make_tensor_value_info(*one) for one in inputs],
            [onnx.helper.make_tensor_value_info(*one) for one in outputs],
            [onnx.numpy_helper.from_array(np.asarray(a), name) for name, a in constants],
        ),
        opset_imports=[onnx.helper.make_opsetid("", 17)],
        ir_version=9,
    )
    onnx.save(made, path)
    return OnnxModel(path)


@pytest.fixture
def helper():
    pytest.importorskip("onnxruntime")
    return pytest.importorskip("onnx").helper


def test_one_matrix_in_single_precision(helper, tmp_path):
    """sigmoid(x w) from two columns, given as two class probabilities and no labels."""
    single = 1  # TensorProto.FLOAT
    weights = np.array([[-0.5, 0.5], [-0.25, 0.25]], np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["z"]),
        helper.make_node("Softmax", ["z"], ["p"], axis=1),
    ]
    model = graph(tmp_path / "m.onnx", nodes, [("x", single, [None, 2])],
                  [("p", single, [None, 2])], [("w", weights)])  # fmt: skip
    rows = pl.DataFrame({"a": [1.0, -2.0, None], "b": [0, 3, 1]})
    score = model.predict_proba(rows)[:2, 1]
    exact = 1 / (1 + np.exp(-np.array([1.0, -2 + 1.5])))
    np.testing.assert_allclose(score, exact, rtol=1e-6)  # single precision has seven digits
    assert np.isnan(model.predict_proba(rows)[2]).all()
    with pytest.raises(ModelError, match="must be at most 16,777,216 in single precision"):
        model.predict_proba(pl.DataFrame({"a": [1.0], "b": [16_777_217]}))
    with pytest.raises(ModelError, match="must be a number; the file holds String"):
        model.predict_proba(pl.DataFrame({"a": [1.0], "b": ["x"]}))


def test_inputs_by_name_and_labels(helper, tmp_path):
    """A graph with a text and a whole number as inputs, and labels as its only answer."""
    whole, text = 7, 8  # TensorProto.INT64, STRING
    nodes = [
        helper.make_node("Greater", ["age", "cut"], ["old"]),
        helper.make_node("Cast", ["old"], ["answer"], to=whole),
        helper.make_node("Identity", ["job"], ["echo"]),
    ]
    model = graph(tmp_path / "m.onnx", nodes, [("job", text, [None, 1]), ("age", whole, [None, 1])],
                  [("answer", whole, [None, 1]), ("echo", text, [None, 1])],
                  [("cut", np.array([40]))])  # fmt: skip
    assert input_names(model) == ("job", "age")
    rows = pl.DataFrame({"other": [0, 0], "age": [30, 50], "job": ["temp", None]})
    assert asked(model, rows).decision.tolist() == [0.0, 1.0]
    with pytest.raises(ModelError, match="must find its inputs among the columns; there is no 'ag"):
        model.predict(rows.drop("age"))
    with pytest.raises(ModelError, match="has no missing value; got missing ones"):
        model.predict(rows.with_columns(age=pl.Series([None, 3])))
    with pytest.raises(ModelError, match=r"must be whole numbers; got 0\.5"):
        model.predict(rows.with_columns(age=pl.Series([0.5, 3.0])))


def test_the_columns_of_probabilities_are_learnt_from_the_labels(helper, tmp_path):
    """P(good) stands first; labels beside it tell, so that it is read by the right column."""
    double, text = 11, 8  # TensorProto.DOUBLE, STRING
    nodes = [
        helper.make_node("Sub", ["one", "x"], ["rest"]),
        helper.make_node("Concat", ["x", "rest"], ["p"], axis=1),
        helper.make_node("Greater", ["x", "rest"], ["is_good"]),
        helper.make_node("Where", ["is_good", "good", "bad"], ["label"]),
    ]
    model = graph(
        tmp_path / "m.onnx", nodes, [("x", double, [None, 1])],
        [("label", text, [None, 1]), ("p", double, [None, 2])],
        [("one", np.array([1.0])), ("good", np.array(["good"], object)),
         ("bad", np.array(["bad"], object))],
    )  # fmt: skip
    rows = pl.DataFrame({"x": [0.9, 0.2]})
    said = asked(model, rows, Labels("bad", "good"))
    assert said.decision.tolist() == [1.0, 0.0]
    np.testing.assert_array_equal(said.score, [0.9, 0.2])  # double precision: exact
    assert asked(model, rows, Labels("good", "bad")).decision.tolist() == [0.0, 1.0]


def test_a_file_that_is_no_graph(tmp_path):
    pytest.importorskip("onnxruntime")
    (tmp_path / "m.onnx").write_bytes(b"nothing of the kind")
    with pytest.raises(ModelError, match="must be a file that onnxruntime reads"):
        load_model(str(tmp_path / "m.onnx"))
