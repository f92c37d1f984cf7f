"""A blind rule in words: the list that is printed is the rule."""

import json
import re
import sys
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import fairmend
from fairmend import BlackBox, DataError, FairmendWarning, RepairedClassifier
from fairmend.artifact import inspect
from fairmend.cli.main import main
from fairmend.data.columns import Frame
from fairmend.data.limits import fault
from fairmend.model.answers import Answers
from fairmend.repair.blind.word_search import cut_between
from fairmend.repair.blind.words import Condition, WordedRule

INPUTS = ["age", "income", "job", "married", "insured"]


# -------------------------------------------------------------------- people and a model


class Vendor:
    """A model of all kinds of inputs, with a probability or a label for answer."""

    def __init__(self, names=INPUTS, reads_sex=False):
        self.feature_names_in_, self.reads_sex = np.array(names), reads_sex
        self.classes_ = np.array([0, 1])

    def predict_proba(self, X):
        job = X["job"].map({"clerk": 0.3, "nurse": -0.4, "driver": 0.0, "smith": 0.4})
        merit = (X["income"] - 30) / 10 + X["age"].fillna(40) / 30 + job.fillna(-0.2) - 1.4
        merit = merit + 0.5 * X["married"]
        if self.reads_sex:
            merit = merit + 0.4 * (X["sex"] == "m")
        chance = 1 / (1 + np.exp(-np.asarray(merit, float)))
        return np.stack([1 - chance, chance], axis=1)

    def predict(self, X):
        return (self.predict_proba(X)[:, 1] > 0.5).astype(int)


def people(n, seed=0):
    """Jobs, marriage and income tell much of the group; some ages and jobs are missing."""
    rng = np.random.default_rng(seed)
    woman = rng.random(n) < 0.5
    job = np.where(
        rng.random(n) < 0.7,
        np.where(woman, rng.choice(["nurse", "clerk"], n), rng.choice(["driver", "smith"], n)),
        rng.choice(["nurse", "clerk", "driver", "smith"], n),
    ).astype(object)
    job[rng.random(n) < 0.03] = None
    age = rng.integers(18, 70, n).astype(float)
    age[rng.random(n) < 0.03] = np.nan
    X = pd.DataFrame(
        {
            "age": age,
            "income": np.round(rng.normal(31 - 4 * woman, 8, n), 1),
            "job": job,
            "married": (rng.random(n) < 0.65 - 0.3 * woman).astype(int),
            "insured": rng.random(n) < 0.6,
        }
    )
    chance = Vendor().predict_proba(X)[:, 1]
    y = (rng.random(n) < 0.8 * chance + 0.1).astype(int)
    return X, y, np.where(woman, "f", "m").astype(object)


def fitted(metric="sp", *, model=None, X=None, y=None, s=None, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairmendWarning)
        repaired = RepairedClassifier(
            model or Vendor(), metric, blind=True, words=True, random_state=0, **settings
        )
        return repaired.fit(X, y, sensitive_features=s)


@pytest.fixture(scope="module")
def audit():
    return people(4_000)


@pytest.fixture(scope="module")
def new():
    return people(4_000, seed=1)


@pytest.fixture(scope="module")
def repaired(audit):
    X, y, s = audit
    return fitted(X=X, y=y, s=s)


@pytest.fixture(scope="module")
def of_labels(audit):
    X, y, s = audit
    return fitted(model=BlackBox(Vendor().predict), X=X, y=y, s=s)


# -------------------------------------------------------------------- read the text again

LINE = re.compile(r"^  \d\. (?P<told>.+): decide (?P<new>[01]) instead of (?P<old>[01])$")


def met(text, X, score):
    """One printed condition, by pandas alone."""
    if one := re.fullmatch(r"(\w+) is (not |none of |one of |)(.+)", text):
        name, how, values = one.groups()
        listed = [None if value == "missing" else value for value in values.split(", ")]
        inside = X[name].isin([v for v in listed if v is not None])
        inside |= X[name].isna() & (None in listed)
        return ~inside if how in ("not ", "none of ") else inside
    words = text.split()
    if text in X.columns or words[0] == "not":
        return X[words[-1]] == (words[0] != "not")
    numbers = score if words[0] == "score" else X[words[0]]
    if words[2:3] == ["to"]:
        return (numbers > float(words[1])) & (numbers <= float(words[3]))
    low = re.search(r"above (\S+)", text)
    high = re.search(r"at most (\S+)", text)
    inside = numbers.notna() if hasattr(numbers, "notna") else np.ones(len(X), bool)
    if low:
        inside = inside & (numbers > float(low[1]))
    if high:
        inside = inside & (numbers <= float(high[1]))
    return inside


def by_the_text(plan, X):
    """The decisions that a reader of the plan arrives at, and the length of each rule."""
    rules = [one for one in map(LINE.match, str(plan).splitlines()) if one]
    score = Vendor().predict_proba(X)[:, 1]
    own = Vendor().predict(X)
    after, lengths = own.copy(), []
    names = "|".join([*X.columns, "score"])
    for rule in rules:
        texts = re.split(rf", (?=(?:not )?(?:{names})\b)", rule["told"])
        at = own == int(rule["old"])
        for text in texts:
            at &= np.asarray(met(text, X, score), bool)
        after[at] = int(rule["new"])
        lengths.append(len(texts))
    return after, lengths


@pytest.mark.parametrize("metric", ["sp", "fnr", "fpr"])
def test_the_list_printed_is_the_rule(metric, audit, new):
    X, y, s = audit
    one = fitted(metric, X=X, y=y, s=s)
    plan = next(iter(one.plans_.values()))
    for table in (X, new[0]):
        decided, lengths = by_the_text(plan, table)
        assert 1 <= len(lengths) <= 8
        assert max(lengths) <= 4
        np.testing.assert_array_equal(one.predict(table), decided)
    assert (decided != Vendor().predict(new[0])).mean() > 0.005


def test_labels_alone_are_put_in_words_without_a_score(of_labels, new):
    plan = next(iter(of_labels.plans_.values()))
    decided, lengths = by_the_text(plan, new[0])
    assert lengths
    assert "score" not in "\n".join(plan.rule.words.lines)
    np.testing.assert_array_equal(of_labels.predict(new[0]), decided)


def test_equal_data_give_the_equal_list(audit, repaired):
    X, y, s = audit
    order = np.random.default_rng(3).permutation(len(y))
    again = fitted(X=X.iloc[order], y=y[order], s=s[order])
    assert again.plan_.rule.words == repaired.plan_.rule.words


# -------------------------------------------------------------------- what it closes and costs


def gap(decided, s):
    return float((decided[s == "m"] == 1).mean() - (decided[s == "f"] == 1).mean())


def test_the_gap_on_the_audit_people_is_what_the_plan_says(audit, repaired):
    X, _, s = audit
    outlook = repaired.plans_["f"].outlook
    assert outlook.gap_before == pytest.approx(gap(Vendor().predict(X), s), abs=1e-12)
    assert outlook.gap_after == pytest.approx(gap(repaired.predict(X), s), abs=1e-12)
    assert outlook.gap_before > 0.1
    assert abs(outlook.gap_after) < 0.005


@pytest.mark.parametrize("which", ["repaired", "of_labels"])
def test_the_gap_on_new_people_is_near(which, new, request):
    decided = request.getfixturevalue(which).predict(new[0])
    # four standard errors of a gap between two halves of 4,000, audited and new
    assert abs(gap(decided, new[2])) < 4 * np.sqrt(2) * 0.5 * np.sqrt(2 / 2_000)


def test_the_cost_of_words_is_that_of_the_audit_people(audit, repaired):
    X, y, s = audit
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairmendWarning)
        free = RepairedClassifier(Vendor(), "sp", blind=True, random_state=0)
        free.fit(X, y, sensitive_features=s)
    accuracy = [float((one.predict(X) == y).mean()) for one in (repaired, free)]
    words = repaired.plan_.rule.words
    assert words.accuracy == pytest.approx(accuracy, abs=1e-12)
    assert accuracy[1] - accuracy[0] < 0.02
    note = "accuracy {:.3f} in words, {:.3f} without".format(*words.accuracy)
    assert note in str(repaired.plan_)


def test_without_outcomes_no_accuracy_is_told(audit):
    X, _, s = audit
    one = fitted(X=X, y=None, s=s)
    assert one.plan_.rule.words.rules
    assert "what words cost" not in str(one.plan_)


def test_nobody_loses_what_is_protected(audit, new):
    X, y, s = audit
    one = fitted(X=X, y=y, s=s, do_no_harm=True)
    rules = one.plan_.rule.words.rules
    assert {rule.decision for rule in rules} == {1.0}
    assert (one.predict(new[0]) >= Vendor().predict(new[0])).all()


def test_two_gaps_at_once(audit):
    X, y, s = audit
    one = fitted(["fnr", "fpr"], X=X, y=y, s=s)
    free = one.plans_["f"]
    assert 0 < len(free.rule.words.rules) <= 8
    for _, before, after in free.by_metric:
        assert abs(after) <= max(0.02, abs(before))


# -------------------------------------------------------------------- what it may look at


def test_inputs_that_tell_the_group_are_in_no_condition(audit):
    X, y, s = audit
    told = X.assign(sex=s)
    one = fitted(model=Vendor([*INPUTS, "sex"], reads_sex=True), X=told, y=y, s=s)
    rule = one.plan_.rule
    assert rule.kept_out == ("sex",)
    assert rule.words.inputs <= set(INPUTS)
    spoilt = WordedRule((Condition("sex", values=("f",)),), 1.0)
    assert fault(replace(rule, words=replace(rule.words, rules=(spoilt,)))) is not None


@pytest.mark.parametrize(("values", "listed"), [(60, True), (61, False)])
def test_a_category_of_many_values_is_in_no_condition(audit, values, listed):
    X, y, s = audit
    rng = np.random.default_rng(0)
    first = (s == "f") == (rng.random(len(X)) < 0.9)
    place = np.where(first, rng.integers(0, 3, len(X)), rng.integers(3, values, len(X)))
    day = pd.date_range("2024-01-01", periods=values).strftime("%d.%m.%Y").to_numpy()[place]
    one = fitted(model=Vendor([*INPUTS, "day"]), X=X.assign(day=day), y=y, s=s)
    assert ("day" in one.plan_.rule.words.inputs) == listed


def test_the_rule_calls_decisions_by_the_words_of_the_model(audit):
    X, y, s = audit
    box = BlackBox(
        lambda rows: np.where(Vendor().predict(rows), "invite", "reject"),
        words=("reject", "invite"),
    )
    rules = fitted(model=box, X=X, y=y, s=s).plan_.rule.words.lines[1:-1]
    assert all(re.search(r"decide (invite instead of reject|reject instead of invite)$", rule)
               for rule in rules)  # fmt: skip


def test_an_input_called_score_is_not_taken_for_the_model_s(audit):
    X, y, s = audit
    named = X.rename(columns={"insured": "score"})

    class Renamed(Vendor):
        def predict_proba(self, X):
            return super().predict_proba(X.rename(columns={"score": "insured"}))

    one = fitted(model=Renamed(["age", "income", "job", "married", "score"]), X=named, y=y, s=s)
    assert "the model's score" in str(one.plan_)


def test_words_need_blind():
    with pytest.raises(DataError, match="blind: must be True for a rule in words"):
        RepairedClassifier(Vendor(), words=True).fit(*people(50)[:2], sensitive_features="job")


# -------------------------------------------------------------------- conditions


ROWS = Frame.read(pd.DataFrame({"n": [1.0, 2.0, np.nan], "c": ["a", None, "b"]}))
ANSWERS = Answers(np.zeros(3), np.array([0.1, 0.2, 0.3]))


@pytest.mark.parametrize(
    ("condition", "text", "holds"),
    [
        (Condition("n", low=1.0), "n above 1", [0, 1, 0]),
        (Condition("n", high=1.0), "n at most 1", [1, 0, 0]),
        (Condition("n", low=0.5, high=1.5), "n above 0.5 and at most 1.5", [1, 0, 0]),
        (Condition("n", low=0.0, flag=True), "n", [1, 1, 0]),
        (Condition("n", high=0.0, flag=True), "not n", [0, 0, 0]),
        (Condition("c", values=("a", None)), "c is one of a, missing", [1, 1, 0]),
        (Condition("c", values=("a",), negated=True), "c is not a", [0, 1, 1]),
        (Condition("c", low=0.0), "c above 0", [0, 0, 0]),
        (Condition("score", low=0.1, high=0.2, of_score=True), "score 0.1 to 0.2", [0, 1, 0]),
    ],
)
def test_a_condition_says_what_it_holds_for(condition, text, holds):
    assert fault(condition) is None
    assert str(condition) == text
    assert condition.holds(ROWS, ANSWERS).astype(int).tolist() == holds


@pytest.mark.parametrize(
    "wrong",
    [
        Condition("n"),
        Condition("n", low=2.0, high=1.0),
        Condition("n", low=2.0, values=("a",)),
        Condition("n", low=float("inf")),
        Condition("n", low=1.0, negated=True),
        WordedRule((Condition("n", low=1.0),) * 5, 1.0),
        WordedRule((), 0.5),
    ],
)
def test_conditions_that_mean_nothing_are_faults(wrong):
    assert fault(wrong) is not None


@pytest.mark.parametrize(
    ("low", "high"),
    [(0.1, 0.1 + 1e-15), (-3, -2), (-0.5, 0.2), (1e9, 1e9 + 1), (37, 38), (9e99, 1e100)],
)
def test_a_cut_separates_its_neighbours_as_printed(low, high):
    cut = float(f"{cut_between(low, high):.15g}")
    assert low <= cut < high or high - low < 1e-14


# -------------------------------------------------------------------- ways out


@pytest.mark.parametrize("which", ["repaired", "of_labels"])
def test_an_artifact_decides_as_the_repair_that_it_is_of(which, new, request, tmp_path):
    one = request.getfixturevalue(which)
    path = tmp_path / "r.fairmend"
    one.save(path)
    loaded = fairmend.load(path, model=one.model)
    np.testing.assert_array_equal(loaded.predict(new[0]), one.predict(new[0]))
    assert loaded.plan_.rule.words == one.plan_.rule.words
    assert str(loaded.plan_) == str(one.plan_)
    manifest = inspect(path)
    assert "\n".join(one.plan_.rule.words.lines) in str(manifest)
    assert len(manifest.to_dict()["words"]["rules"]) == len(one.plan_.rule.words.rules)


def test_the_report_has_the_rule(repaired, new):
    X, y, s = new
    report = repaired.report(X, y, sensitive_features=s, explanation=False)
    line = repaired.plan_.rule.words.lines[1]
    assert str(report).count(line) == 1
    assert line in report.to_dict()["plans"][0]["notes"]
    assert line.strip() in report.to_html()


@pytest.mark.slow
@pytest.mark.filterwarnings("default::fairmend.FairmendWarning")
def test_the_command_line_prints_it(tmp_path, monkeypatch, capsys):
    X, y, s = people(1_000)
    score = Vendor().predict_proba(X)[:, 1]
    X.assign(sex=s, paid=y, p=score).to_csv(tmp_path / "people.csv", index=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["fairmend", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return ended.value.code or 0, out, err

    named = ("--label", "paid", "--group", "sex", "--predictions", "p", "--allow-partial")
    code, out, err = call(
        "repair", "people.csv", *named, "--blind", "--in-words", "-o", "r.fairmend"
    )
    assert code == 0, err
    lines = [line for line in out.splitlines() if LINE.match(line)]
    assert len(lines) == len(set(lines)) > 0  # once for all plans and the report
    assert out.count("equal inputs get equal decisions") == 1
    code, shown, err = call("inspect", "r.fairmend")
    assert code == 0, err
    assert [line for line in shown.splitlines() if LINE.match(line)] == lines
    code, shown, err = call("inspect", "r.fairmend", "--json")
    assert len(json.loads(shown)["words"]["rules"]) == len(lines)
    code, _, err = call("repair", "people.csv", *named, "--in-words", "-o", "other.fairmend")
    assert code == 3
    assert "--blind: must be True for a rule in words; got False. Add --blind:" in err
