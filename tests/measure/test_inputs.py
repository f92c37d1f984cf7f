"""Whole tables: what is no input of a model does not become one."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fairmend
from fairmend import BlackBox, DataError, FairmendWarning, RepairedClassifier
from fairmend.data.columns import Frame
from fairmend.errors import InputError
from fairmend.measure.inputs import ranks_alike
from fairmend.model.foreign import input_names

READ = ["age", "income"]


def merit(age, income):
    return (np.asarray(income) - 2800) / 700 + (np.asarray(age) - 45) / 40


def bank(n=800, seed=0):
    """A bank's table, as it comes out of its books."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 80, n)
    income = rng.normal(2900 + 4 * age, 700).round(-1)
    worth = merit(age, income)
    return pd.DataFrame(
        {
            "case": 10_000 + rng.permutation(n),
            "age": age,
            "income": income,
            "over_40": np.where(age > 40, "yes", "no"),
            "score": (1 / (1 + np.exp(-worth))).round(3),
            "decision": (worth > 0).astype(int),
            "repaid": (rng.random(n) < 1 / (1 + np.exp(-worth - 0.3))).astype(int),
        }
    )


TABLE = bank()
CONTAINERS = {
    "pandas": lambda table: table,
    "polars": pl.from_pandas,
    "pyarrow": lambda table: pa.Table.from_pandas(table, preserve_index=False),
}
containers = pytest.mark.parametrize("container", CONTAINERS)


def decides(rows):
    """The vendor as a function: reads two columns, whatever else it is handed."""
    return (merit(rows["age"], rows["income"]) > 0).astype(int)


def fit(model, X, y="repaid", s="over_40", **more):
    settings = {"disparity": "sp", "random_state": 0} | more
    return RepairedClassifier(model, **settings).fit(X, y, sensitive_features=s)


def names(X):
    return list(X.column_names if isinstance(X, pa.Table) else X.columns)


def without(*columns):
    return TABLE.drop(columns=list(columns))


# -------------------------------------------------------------------- refused


@containers
def test_the_whole_table_of_a_bank_is_refused_with_what_to_write_instead(container):
    table = CONTAINERS[container](TABLE)
    with pytest.raises(InputError) as caught:
        fit("decision", table, table["repaid"])
    assert str(caught.value) == (
        "X column 'case': must not be an input if it only tells who somebody is; all its 800 "
        "values differ. Leave it out of X, or name what the model reads: BlackBox('decision', "
        "inputs=['age', 'income'])."
    )
    kept = fit(BlackBox("decision", inputs=READ), table, table["repaid"])
    assert kept.get_feature_names_out().tolist() == READ


@containers
@pytest.mark.parametrize(
    ("model", "left_out", "column", "message"),
    [
        ("decision", ["case", "score"], "repaid", "is the outcome itself; it tells people apart "
         "just where y does"),
        ("decision", ["case", "repaid"], "score", "is another answer of the model; it ranks no two "
         "people otherwise than 'decision' does"),
        ("score", ["case", "repaid"], "decision", "is another answer of the model; it tells people "
         "apart just where 'score' does"),
    ],
)  # fmt: skip
def test_each_column_that_is_no_input(container, model, left_out, column, message):
    table = CONTAINERS[container](without(*left_out))
    with pytest.raises(InputError, match=f"X column '{column}'") as caught:
        fit(model, table, CONTAINERS[container](TABLE)["repaid"])
    assert f"must not be an input if it {message}." in str(caught.value)
    assert (caught.value.column, isinstance(caught.value, DataError)) == (column, True)


@containers
def test_a_group_given_as_values_is_no_input_beside_recorded_predictions(container):
    table = CONTAINERS[container](without("case", "score"))
    with pytest.raises(InputError, match=r"X column 'over_40': .* is the group itself"):
        fit("decision", table, s=table["over_40"])
    assert fit("decision", table).get_feature_names_out().tolist() == READ
    both = {"old": "over_40"}
    assert fit("decision", table, s=both).get_feature_names_out().tolist() == READ


def test_predictions_given_as_values_are_no_input():
    with pytest.raises(InputError, match=r"'decision': .* just where the recorded prediction does"):
        fit(TABLE["decision"], without("case", "score"))


@pytest.mark.parametrize("words", [{0: "default", 1: "paid"}, {0: 1, 1: 0}, {0: False, 1: True}])
@pytest.mark.parametrize("model", [decides, "decision"])
def test_a_copy_of_the_label_is_noticed_in_other_words(model, words):
    table = without("case", "score").assign(closed=TABLE["repaid"].map(words))
    table = table if model == "decision" else table.drop(columns="decision")
    with pytest.raises(InputError, match=r"X column 'closed': .* is the outcome itself"):
        fit(model, table)
    with pytest.raises(InputError, match="X column 'closed'"):
        fairmend.counterfactual(
            model, table, "repaid", sensitive_features="over_40", disparity="sp"
        )


def test_a_function_is_not_fed_the_answers_of_the_vendor():
    for column, words in (("score", "ranks no two people otherwise than the model"),
                          ("decision", "tells people apart just where the model")):  # fmt: skip
        table = TABLE[[*READ, "over_40", column, "repaid"]]
        with pytest.raises(InputError, match=f"X column '{column}': .* it {words} does, whose "
                           "answers on 256 rows do not depend on it"):  # fmt: skip
            fit(decides, table)
    with pytest.raises(InputError, match="X column 'case'"):
        fit(decides, without("score", "decision"))


def test_what_the_answers_of_a_function_rest_on_is_an_input():
    kept = fit(lambda rows: (rows["score"] > 0.5).astype(int), without("case", "decision"))
    assert "score" in kept.get_feature_names_out()


# -------------------------------------------------------------------- not refused


@pytest.mark.parametrize("model", [decides, "decision"])
def test_few_people_and_measured_numbers_are_not_taken_for_something_else(model):
    few = without("score", "repaid")[:19].assign(y=[0, 1] * 9 + [0])
    few = few if model == "decision" else few.drop(columns="decision")
    assert "case" in fairmend.tabulate(model, few, "y", sensitive_features="over_40").table.names
    measured = TABLE[[*READ, "over_40", "decision", "repaid"]].assign(
        weight=np.random.default_rng(0).normal(size=len(TABLE))
    )
    measured = measured if model == "decision" else measured.drop(columns="decision")
    found = fairmend.tabulate(model, measured, "repaid", sensitive_features="over_40")
    assert "weight" in found.table.names


def test_a_model_may_read_the_group():
    table = TABLE[[*READ, "over_40", "repaid"]]

    def reads_it(rows):
        return (rows["income"] > np.where(rows["over_40"] == "yes", 2800, 3100)).astype(int)

    kept = fit(reads_it, table)
    assert "over_40" in kept.get_feature_names_out()
    edited = kept.transform(table, sensitive_features="over_40")
    assert (edited["over_40"] == table["over_40"]).all()


def test_an_audit_edits_nothing_and_minds_only_what_the_model_reads():
    told = {"sensitive_features": "over_40"}
    recorded = fairmend.audit("decision", TABLE, TABLE["repaid"], **told)
    asked = fairmend.audit(decides, TABLE, TABLE["repaid"], **told)
    assert recorded.to_dict() == asked.to_dict()
    with pytest.raises(InputError, match=r"X column 'repaid': .* is the outcome itself"):
        fairmend.audit(lambda rows: rows["repaid"], TABLE, TABLE["repaid"], **told)


def test_an_array_is_taken_as_the_inputs_but_a_copy_of_the_label_is_told():
    X = TABLE[[*READ, "repaid"]].to_numpy()
    with pytest.warns(FairmendWarning, match=r"X column 'x2': .* is the outcome itself"):
        fairmend.audit(lambda rows: rows[:, 2], X, TABLE["repaid"],
                       sensitive_features=TABLE["over_40"])  # fmt: skip
    case = TABLE[["case", "age"]].to_numpy()
    kept = fit(lambda rows: rows[:, 1] > 45, case, TABLE["repaid"], TABLE["over_40"])
    assert kept.n_features_in_ == 2


# -------------------------------------------------------------------- models that name their inputs


@pytest.fixture(scope="module")
def pipeline():
    trained = bank(seed=1)
    return make_pipeline(StandardScaler(), LogisticRegression()).fit(trained[READ], trained.repaid)


@pytest.mark.parametrize("ask", [lambda model: model, lambda model: model.predict])
def test_a_model_that_names_its_inputs_is_asked_for_these_alone(pipeline, ask):
    kept = fit(ask(pipeline), TABLE, TABLE["repaid"])
    assert kept.get_feature_names_out().tolist() == READ
    narrow = fit(ask(pipeline), TABLE[READ], TABLE["repaid"], TABLE["over_40"])
    said = {"sensitive_features": TABLE["over_40"], "ids": TABLE["case"]}
    np.testing.assert_array_equal(kept.predict(TABLE, **said), narrow.predict(TABLE[READ], **said))
    audits = [
        fairmend.audit(ask(pipeline), X, TABLE["repaid"], sensitive_features=TABLE["over_40"])
        for X in (TABLE, TABLE[READ[::-1]])
    ]
    assert audits[0].to_dict() == audits[1].to_dict()
    with pytest.raises(DataError, match="every input of the model as a column; there is no 'inco"):
        fit(ask(pipeline), without("income"))


def test_a_model_that_reads_a_copy_of_the_label_is_the_authority():
    table = TABLE[READ].assign(closed=TABLE["repaid"])
    model = LogisticRegression().fit(table, TABLE["repaid"])
    with pytest.warns(FairmendWarning, match="'closed': .* is told the outcome"):
        kept = fit(model, table, TABLE["repaid"], TABLE["over_40"])
    assert "closed" in kept.feature_names_in_


@pytest.mark.parametrize("words", [{0: "default", 1: "paid"}, {0: 0.0, 1: 1.0}])
def test_a_named_input_that_is_the_label_is_told_of(words):
    table = TABLE[READ].assign(closed=TABLE["repaid"].map(words))

    def reads(rows):
        return (rows["closed"] == words[1]).astype(int)

    box = fairmend.BlackBox(reads, inputs=[*READ, "closed"])
    people = {"y": TABLE["repaid"], "sensitive_features": TABLE["over_40"]}
    for ask in (
        lambda: fairmend.audit(box, table, **people),
        lambda: fairmend.counterfactual(box, table, disparity="sp", **people),
        lambda: fit(box, table, TABLE["repaid"], TABLE["over_40"]),
    ):
        with pytest.warns(FairmendWarning, match="'closed': .* is told the outcome"):
            ask()
    recorded = fairmend.BlackBox(TABLE["decision"], inputs=[*READ, "closed"])
    with pytest.warns(FairmendWarning, match="'closed': .* is told the outcome"):
        fit(recorded, table, TABLE["repaid"], TABLE["over_40"])


def test_columns_that_a_model_numbers_are_told_by_their_place():
    class Numbers:
        feature_names_in_ = ("Column_0", "Column_1")

        def predict(self, rows):
            return decides(rows)

    people = (TABLE[READ], TABLE["repaid"])
    numbered, plain = (
        fairmend.audit(model, *people, sensitive_features=TABLE["over_40"])
        for model in (Numbers(), decides)
    )
    assert numbered.gaps == plain.gaps


def test_the_signature_of_an_mlflow_model_names_its_inputs():
    class Part:
        def __init__(self, **parts):
            self.__dict__ |= parts

    def logged(columns):
        schema = Part(input_names=lambda: columns)
        return Part(metadata=Part(signature=Part(inputs=schema)), predict=decides)

    assert input_names(logged(READ)) == tuple(READ)
    assert input_names(logged([0, 1])) is None
    assert input_names(Part(metadata=Part(signature=None))) is None
    assert fit(logged(READ), TABLE).get_feature_names_out().tolist() == READ


# -------------------------------------------------------------------- use


@containers
@pytest.mark.parametrize("method", ["least_change", "transport"])
def test_transform_changes_nothing_but_inputs(container, method):
    convert = CONTAINERS[container]
    kept = fit(BlackBox("decision", inputs=READ), convert(TABLE), method=method)
    new = convert(bank(300, seed=2))
    edited = kept.transform(new, sensitive_features="over_40", ids=new["case"])
    assert names(edited) == READ
    changed = [
        name for name in READ if np.asarray(edited[name]).tolist() != np.asarray(new[name]).tolist()
    ]
    assert changed
    report = kept.report(new, "repaid", sensitive_features="over_40")
    assert {one.feature for group in report.groups for one in group.features} <= set(READ)


def test_the_rule_holds_for_rows_elsewhere(tmp_path):
    path = tmp_path / "bank.parquet"
    TABLE.to_parquet(path)
    for model in ("decision", decides):
        with pytest.raises(InputError, match=r"X column 'case': .* all its 800 values differ"):
            fit(model, path)
    without("case").to_parquet(path)
    for model in ("decision", decides):
        with pytest.raises(InputError, match=r"X column 'score': .* is another answer"):
            fit(model, path)
    without("case", "score").assign(closed=TABLE["repaid"] == 1).to_parquet(path)
    with pytest.raises(InputError, match=r"X column 'closed': .* is the outcome itself"):
        fit("decision", path)
    assert fit(BlackBox("decision", inputs=READ), path).feature_names_in_.tolist() == READ
    without("case", "score").to_parquet(path)
    assert fit("decision", path).feature_names_in_.tolist() == READ


def test_many_different_rows_elsewhere_are_looked_at_too(tmp_path, monkeypatch):
    monkeypatch.setattr("fairmend.engines.continuous.EXACT_ROWS", 100)
    monkeypatch.setattr("fairmend.engines.continuous._PROBE", 100)
    TABLE.to_parquet(tmp_path / "bank.parquet")
    with pytest.raises(InputError, match=r"X column 'case': .* all its 800 values differ"):
        fit("score", tmp_path / "bank.parquet")


@pytest.mark.parametrize(("rare", "said"), [(12, False), (400, True)])
def test_a_rare_value_that_goes_with_the_highest_answers_is_an_input(rare, said):
    """Whoever has it is answered 10 because the model reads it; a decision is not that rare."""
    rng = np.random.default_rng(0)
    n = 4_000
    decile = np.sort(rng.integers(1, 11, n))
    flag = (np.arange(n) >= n - rare).astype(np.int64)
    column = Frame.read(flag[:, None]).encoded[0]
    assert ranks_alike(column, decile) is said
