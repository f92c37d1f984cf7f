"""The black box: what it is queried about, how often, and how its answers are read."""

import os

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from fairmend import BlackBox, DataError, FairmendWarning, ModelError, tabulate
from fairmend.data.columns import Frame
from fairmend.data.outcomes import Labels
from fairmend.model.blackbox import RECHECKED

RNG = np.random.default_rng(7)
N = 1_000
X = RNG.integers(0, 10, (N, 2))  # at most 100 distinct rows
Y = (X.sum(axis=1) + RNG.integers(-4, 5, N) > 9).astype(int)
S = np.where(RNG.integers(0, 2, N), "a", "b")
DISTINCT = len(np.unique(X, axis=0))
ROWS = Frame.read(np.array([[0.1], [0.5], [0.9]]))
ZERO_ONE = Labels(0, 1)


def ask(model, labels=ZERO_ONE, rows=ROWS):
    box = BlackBox.of(model)
    answers = box.query(rows, labels)
    return answers.decision.tolist(), None if answers.score is None else answers.score.tolist()


class Model:
    """Has the methods it is given and nothing else."""

    def __init__(self, **methods):
        self.__dict__ |= methods


def first(rows):
    return np.asarray(rows)[:, 0]


def two_columns(rows):
    return np.stack([1 - first(rows), first(rows)], axis=1)


# -------------------------------------------------------------------- what it is asked


class Vendor:
    """Counts what it is asked; whoever fits or copies it has broken the contract."""

    def __init__(self):
        self.batches = []

    def predict(self, rows):
        self.batches.append(np.array(rows))
        return (rows[:, 0] > 4).astype(int)

    def _forbidden(self, *_, **__):
        raise AssertionError("a black box is neither fitted nor copied")

    fit = get_params = set_params = __copy__ = __deepcopy__ = __reduce__ = _forbidden


def test_the_model_is_asked_once_per_distinct_row_and_about_a_few_again():
    vendor = Vendor()
    tabulate(vendor, X, Y, sensitive_features=S)
    once, again = vendor.batches
    np.testing.assert_array_equal(once, np.unique(X, axis=0))
    assert len(again) == RECHECKED
    assert {tuple(row) for row in again} <= {tuple(row) for row in once}


def test_a_random_model_is_not_asked_again():
    vendor = Vendor()
    tabulate(BlackBox(vendor, random=True), X, Y, sensitive_features=S)
    assert [len(batch) for batch in vendor.batches] == [DISTINCT]


@pytest.mark.parametrize("size", [1, 7, 10, DISTINCT, DISTINCT + 1])
def test_no_call_is_larger_than_a_batch(size):
    vendor = Vendor()
    data = tabulate(BlackBox(vendor, batch_size=size), X, Y, sensitive_features=S)
    sizes = [len(batch) for batch in vendor.batches]
    assert max(sizes) <= size
    assert sum(sizes) == DISTINCT + RECHECKED
    np.testing.assert_array_equal(np.concatenate(vendor.batches)[:DISTINCT], np.unique(X, axis=0))
    np.testing.assert_array_equal(data["a"].decision, first(data.table.native)[data["a"].rows] > 4)


def test_recorded_predictions_are_not_asked_for():
    vendor = Vendor()
    recorded = vendor.predict(X)
    tabulate(recorded, X, Y, sensitive_features=S)
    assert len(vendor.batches) == 1


def test_recorded_predictions_may_have_labels_of_their_own():
    # rows are told by their place: only the labels of X in another order are refused
    frame = pd.DataFrame(X, columns=["one", "two"], index=np.arange(N) + N)

    def recorded(index=None):  # decided by "one" alone, so it must be said that this is an input
        box = BlackBox(pd.Series(first(X) > 4, index), inputs=["one", "two"])
        return tabulate(box, frame, Y, sensitive_features=S)

    plain = recorded()
    for index in (np.arange(N), frame.index):
        data = recorded(index)
        np.testing.assert_array_equal(data["a"].decision, plain["a"].decision)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_the_model_gets_rows_in_the_container_they_came_in(make):
    frame, seen = make({"one": X[:, 0], "two": X[:, 1]}), []

    def model(rows):
        seen.append(type(rows))
        return (np.asarray(rows)[:, 0] > 4).astype(int)

    tabulate(model, frame, Y, sensitive_features=S)
    assert set(seen) == {type(frame)}


@pytest.mark.parametrize(
    "frame", [X, pd.DataFrame(X, columns=["one", "two"])], ids=["array", "frame"]
)
def test_a_model_that_scribbles_on_its_rows_spoils_nothing(frame):
    def scribbler(rows):
        answer = np.array(rows)[:, 0] > 4
        rows[:] = -1
        return answer

    data = tabulate(scribbler, frame, Y, sensitive_features=S)
    np.testing.assert_array_equal(np.asarray(data.table.native), np.unique(X, axis=0))


def test_a_model_may_waver_in_the_last_bits_only():
    calls = []

    def wavering(by):
        def model(rows):
            calls.append(len(rows))
            return first(rows) + by * (len(calls) % 2)

        return model

    assert ask(BlackBox(wavering(1e-8), threshold=0.3))[0] == [0, 1, 1]
    assert ask(BlackBox(lambda rows: 1e9 * wavering(1e-8)(rows), threshold=3e8))[0] == [0, 1, 1]
    with pytest.raises(ModelError, match="must give the same answer"):
        ask(BlackBox(wavering(1e-4), threshold=0.3))
    assert ask(BlackBox(wavering(1e-4), threshold=0.3, random=True))[0] == [0, 1, 1]


def test_what_predict_says_is_compared_only_where_our_own_cut_is_used():
    lenient = Model(predict_proba=two_columns, predict=lambda rows: first(rows) > 0.2)
    assert ask(lenient)[0] == [0, 0, 1]  # 0.5 itself may go either way
    assert ask(BlackBox(lenient, threshold=0.2))[0] == [0, 1, 1]
    assert ask(BlackBox(lenient, output="label")) == ([0, 1, 1], None)
    assert ask(BlackBox(lenient, soft=True))[0] == [0.1, 0.5, 0.9]
    broken = Model(predict_proba=two_columns, predict=lambda rows: 1 / 0)
    assert ask(broken)[0] == [0, 0, 1]


def test_a_cut_that_nobody_told_is_found_and_said():
    rows = Frame.read(np.array([[0.1], [0.29], [0.31], [0.9]]))
    lenient = Model(predict_proba=two_columns, predict=lambda rows: first(rows) > 0.3)
    box = BlackBox(lenient)
    with pytest.warns(FairmendWarning, match=r"predict_proba > 0\.3 does, not > 0\.5"):
        assert box.query(rows, ZERO_ONE).decision.tolist() == [0, 0, 1, 1]
    assert box.threshold == 0.3
    assert box.query(rows, ZERO_ONE).decision.tolist() == [0, 0, 1, 1]  # and nothing more is said


def test_a_cut_near_ours_is_found_among_many_rows():
    rows = Frame.read(np.linspace(0, 1, 2_001)[:, None])
    strict = Model(predict_proba=two_columns, predict=lambda rows: first(rows) > 0.504)
    with pytest.warns(FairmendWarning, match=r"not > 0\.5"):
        decision = BlackBox(strict).query(rows, ZERO_ONE).decision
    np.testing.assert_array_equal(decision, first(rows.native) > 0.504)


@pytest.mark.parametrize("predict", [lambda r: abs(first(r) - 0.5) < 0.3, lambda r: first(r) * 0])
def test_decisions_that_no_cut_explains_are_an_error(predict):
    odd = Model(predict_proba=two_columns, predict=predict)
    with pytest.raises(ModelError, match="no other cut explains what it decides about all 4"):
        ask(odd, rows=Frame.read(np.array([[0.1], [0.3], [0.6], [0.9]])))


@pytest.mark.parametrize(("cut", "side"), [(2, "at most 2"), (-1, "greater than -1")])
def test_a_threshold_that_tells_nobody_apart_is_told(cut, side):
    score = np.linspace(0, 1, N)
    with pytest.warns(FairmendWarning, match=f"{side}, .* from 0 to 1"):
        tabulate(BlackBox(score, threshold=cut), None, Y, sensitive_features=S)


# -------------------------------------------------------------------- code that is not ours


@pytest.mark.parametrize("raised", [SystemExit(0), SystemExit("boom"), GeneratorExit(),
                                    StopIteration(), MemoryError()])  # fmt: skip
def test_whatever_ends_a_model_is_its_failure(raised):
    def ends(_):
        raise raised

    with pytest.raises(ModelError, match=type(raised).__name__):
        ask(ends)

    class Property:
        @property
        def predict(self):
            raise raised

    with pytest.raises(ModelError, match=type(raised).__name__):
        ask(Property())


def test_a_model_that_changes_the_folder_leaves_us_where_we_were(tmp_path):
    here = os.getcwd()

    def walks(rows):
        os.chdir(tmp_path)
        return first(rows)

    ask(walks)
    assert os.getcwd() == here


def test_a_request_to_stop_is_no_failure_of_the_model():
    def interrupted(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ask(interrupted)


def test_a_vendors_error_is_short_and_plain():
    def raises(_):
        raise ValueError("\x1b[31mred\n" + "x" * 100_000)

    with pytest.raises(ModelError) as caught:
        ask(raises)
    assert len(str(caught.value)) < 1_000
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize("rows", [np.array([[0.1], [0.5], [0.9]]),
                                  pd.DataFrame({"x": [0.1, 0.5, 0.9]})])  # fmt: skip
def test_answers_that_say_they_are_in_another_order_are_refused(rows):
    def sorts(given):
        return pd.Series(np.asarray(given)[:, 0]).sort_values(ascending=False)

    with pytest.raises(ModelError, match="must answer in the order of the rows"):
        ask(sorts, rows=Frame.read(rows))


# -------------------------------------------------------------------- how answers are read


@pytest.mark.parametrize(
    ("labels", "words", "positive"),
    [
        ((0, 1), {0, 1}, 1),
        ((1, 0), {0, 1}, 0),
        ((0, 1), {False, True}, 1),
        ((False, True), {0.0}, 1),
        ((0, 1), {-1, 1}, 1),
        ((1, 0), {-1, 1}, -1),
        ((-1, 1), {0, 1}, 1),
        ((1, -1), {0, 1}, 0),
        ((1, -1), {1}, -1),
        (("no", "yes"), {"no"}, "yes"),
        (("yes", "no"), {"no", "yes"}, "no"),
        (("no", "yes"), {0, 1}, 1),
        (("yes", "no"), {-1, 1}, 1),
        ((1, 2), {1, 2}, 2),
        ((1, 2), {0, 1}, None),
        ((0, 5), {-1, 1}, 1),
        ((0, 5), {0, 1}, None),
        (("no", "yes"), {"maybe"}, None),
        (("0", "1"), {0, 1}, 1),
        ((0, 1), {"0", "1"}, None),
    ],
)
def test_the_word_for_positive(labels, words, positive):
    assert Labels(*labels).positive_among(words) == positive


RAW = [0, 0, 1]


@pytest.mark.parametrize(
    "wrap",
    [
        list, np.array, tuple,
        lambda raw: np.array(raw)[:, None],
        lambda raw: np.array(raw, np.float32),
        lambda raw: np.array(raw, bool),
        lambda raw: np.array(raw, object),
        lambda raw: pd.Series(raw, index=[5, 5, 1]),
        lambda raw: pd.Series(raw, dtype="Int64"),
        lambda raw: pd.DataFrame({"p": raw}),
        pl.Series, pa.array,
        lambda raw: pa.chunked_array([raw]),
        lambda raw: type("Tensor", (), {"__array__": lambda *_, **__: np.array(raw)})(),
    ],
)  # fmt: skip
def test_answers_may_come_in_any_container(wrap):
    assert ask(lambda rows: wrap(RAW[::-1] if first(rows)[0] == 0.9 else RAW)) == (RAW, None)


@pytest.mark.parametrize(
    "wrap",
    [
        list, np.array,
        lambda raw: np.array(raw, object),
        lambda raw: pd.Series(raw, dtype="category"),
        lambda raw: pl.Series(raw, dtype=pl.Categorical),
        lambda raw: pa.array(raw).dictionary_encode(),
    ],
)  # fmt: skip
def test_texts_may_come_in_any_container(wrap):
    model = lambda rows: wrap(["yes" if value > 0.6 else "no" for value in first(rows)])  # noqa: E731
    assert ask(model, Labels("no", "yes")) == ([0, 0, 1], None)
    assert ask(model, Labels("yes", "no")) == ([1, 1, 0], None)


def test_numbers_between_0_and_1_are_probabilities_and_others_need_a_threshold():
    assert ask(first) == ([0, 0, 1], [0.1, 0.5, 0.9])
    assert ask(BlackBox(first, threshold=0.05))[0] == [1, 1, 1]
    assert ask(BlackBox(first, soft=True)) == ([0.1, 0.5, 0.9], [0.1, 0.5, 0.9])
    scores = lambda rows: 10 * first(rows)  # noqa: E731
    assert ask(BlackBox(scores, threshold=4)) == ([0, 1, 1], [1, 5, 9])
    assert ask(BlackBox(first, output="score", threshold=0.5)) == ([0, 0, 1], [0.1, 0.5, 0.9])


def test_what_was_a_probability_once_stays_one():
    certain, bad_is_positive = Frame.read(np.array([[0.0], [1.0]])), Labels(1, 0)
    assert ask(first, bad_is_positive, certain) == ([1, 0], None)  # on their own, labels of y
    box = BlackBox(first)
    assert ask(box, bad_is_positive) == ([0, 0, 1], [0.1, 0.5, 0.9])
    assert ask(box, bad_is_positive, certain) == ([0, 1], [0, 1])


def test_rounding_may_carry_a_probability_over_the_edge():
    hair_over = lambda rows: np.where(first(rows) > 0.5, 1 + 1e-7, -1e-7)  # noqa: E731
    assert ask(Model(predict_proba=hair_over)) == ([0, 0, 1], [0, 0, 1])


@pytest.mark.parametrize(
    ("classes", "labels", "score"),
    [
        (None, (0, 1), [0.1, 0.5, 0.9]),
        ([0, 1], (0, 1), [0.1, 0.5, 0.9]),
        ([0, 1], (1, 0), [0.9, 0.5, 0.1]),
        ([1, 0], (0, 1), [0.9, 0.5, 0.1]),
        ([0, 1], (-1, 1), [0.1, 0.5, 0.9]),
        ([0, 1], (1, -1), [0.9, 0.5, 0.1]),
        ([-1, 1], (1, 0), [0.9, 0.5, 0.1]),
        ([False, True], (0, 1), [0.1, 0.5, 0.9]),
        (["no", "yes"], ("no", "yes"), [0.1, 0.5, 0.9]),
        (["no", "yes"], ("yes", "no"), [0.9, 0.5, 0.1]),
        (["yes", "no"], ("yes", "no"), [0.1, 0.5, 0.9]),
    ],
)
def test_classes_tell_which_probability_and_which_sign(classes, labels, score):
    known = {} if classes is None else {"classes_": np.array(classes)}
    labels = Labels(*labels)
    first_class_is_positive = score[0] > score[-1]  # and wins a tie
    decision = [float(p > 0.5 or (p == 0.5 and first_class_is_positive)) for p in score]
    for proba in (two_columns, first):  # one column is about the second class
        answered = ask(Model(predict_proba=proba, **known), labels)
        assert answered[0] == decision
        np.testing.assert_allclose(answered[1], score, atol=1e-15)
    signed = Model(decision_function=lambda rows: first(rows) - 0.5, **known)
    assert ask(signed, labels)[0] == decision


@pytest.mark.parametrize(
    "model",
    [LogisticRegression(), LinearSVC(), DecisionTreeClassifier()],
    ids=lambda m: type(m).__name__,
)
@pytest.mark.parametrize("words", [(0, 1), (-1, 1), ("no", "yes"), (False, True)])
@pytest.mark.parametrize("positive", [0, 1])
def test_decisions_are_those_of_predict(model, words, positive):
    y = np.array(words)[Y]
    model.fit(X, y)
    data = tabulate(model, X, y, sensitive_features=S, pos_label=words[positive])
    said = model.predict(data.table.native) == words[positive]
    for group in data.groups:
        np.testing.assert_array_equal(data[group].decision, said[data[group].rows])
        assert data[group].score is not None


def test_a_model_that_knows_one_outcome_only_is_not_taken_for_certain():
    constant = DummyClassifier().fit(X, np.zeros(N, int))
    with pytest.raises(ModelError, match="its classes_ are 0"):
        tabulate(constant, X, Y, sensitive_features=S)


def test_recorded_texts_and_wrapped_boxes():
    words = np.where(Y, "yes", "no")
    data = tabulate(words, None, words, sensitive_features=S, pos_label="yes")
    assert data["a"].decision.tolist() == data["a"].outcome.tolist() == [0, 1]
    box = BlackBox(Y)
    assert BlackBox.of(box) is box
    assert repr(box) == "BlackBox(ndarray, answers by recorded predictions)"
    assert repr(BlackBox("p")) == "BlackBox(str, answers by column 'p')"
    assert (
        repr(BlackBox(LogisticRegression()))
        == "BlackBox(LogisticRegression, answers by predict_proba)"
    )


# -------------------------------------------------------------------- words of its own


def test_a_model_may_have_words_of_its_own():
    said = ["approve", "decline", "approve"]
    box = BlackBox(lambda rows: said[: len(rows)], words=("decline", "approve"), random=True)
    answers = box.query(Frame.read(np.zeros((3, 1))), Labels("no", "yes"))
    assert answers.decision.tolist() == [1.0, 0.0, 1.0]
    assert answers.score is None
    only = BlackBox(lambda rows: ["decline"] * len(rows), words=("decline", "approve"))
    assert only.query(Frame.read(np.zeros((2, 1))), Labels(0, 1)).decision.tolist() == [0.0, 0.0]


def test_words_of_its_own_are_all_it_may_say():
    box = BlackBox(lambda rows: ["maybe"] * len(rows), words=("decline", "approve"))
    with pytest.raises(ModelError, match="must answer with 'decline' or 'approve', its words"):
        box.query(Frame.read(np.zeros((2, 1))), Labels("no", "yes"))


def test_classes_may_be_words_of_its_own():
    class Vendor:
        classes_ = np.array(["approve", "decline"])

        def predict_proba(self, rows):
            return np.tile([0.9, 0.1], (len(rows), 1))

    box = BlackBox(Vendor(), words=("decline", "approve"))
    answers = box.query(Frame.read(np.zeros((2, 1))), Labels("no", "yes"))
    assert (answers.decision.tolist(), answers.score.tolist()) == ([1.0, 1.0], [0.9, 0.9])


@pytest.mark.parametrize("words", ["approve", ("yes",), ("yes", "yes"), ("a", "b", "c")])
def test_words_are_two(words):
    with pytest.raises(DataError, match="words: must be the model's two answers, negative and pos"):
        BlackBox("said", words=words)


def test_words_and_numbers_exclude_each_other():
    with pytest.raises(DataError, match="words: must be left out where the answers are numbers"):
        BlackBox("said", words=("a", "b"), threshold=0.5)
