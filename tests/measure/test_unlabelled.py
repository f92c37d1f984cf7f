"""Repairs of sp where nobody knows what really happened, as of those whom a bank turned down."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import fairmend
from fairmend import BlackBox, DataError, RepairedClassifier, datasets

ADULT = datasets.load_adult()
VENDOR = LogisticRegression(C=100).fit(ADULT.X[8_000:], ADULT.y[8_000:])


@pytest.fixture
def people():
    """Inputs, outcomes and groups."""
    return (
        ADULT.X[:8_000],
        np.asarray(ADULT.y)[:8_000],
        np.asarray(ADULT.sensitive_features)[:8_000],
    )


def model(X):
    return VENDOR.predict_proba(X)[:, 1]


def decide(X):
    return VENDOR.predict(X)


@pytest.mark.parametrize("settings", [
    {}, {"method": "order"}, {"method": "transport"}, {"rank": "cost"}, {"level": 0.5},
])  # fmt: skip
def test_with_scores_outcomes_change_nothing_but_what_is_said_of_accuracy(people, settings):
    X, y, sex = (part[:3_000] for part in people)
    half = len(X) // 2
    found = []
    for outcome in (y, None):
        repaired = RepairedClassifier(model, "sp", random_state=0, **settings)
        repaired.fit(X[:half], None if outcome is None else y[:half], sensitive_features=sex[:half])
        report = repaired.report(
            X[half:], None if outcome is None else y[half:], sensitive_features=sex[half:],
            frontier=settings == {},
        )  # fmt: skip
        found.append((repaired.predict(X, sensitive_features=sex, ids=X.index), report))
    (with_y, known), (without_y, unknown) = found
    assert (with_y == without_y).all()
    assert unknown.after["sp", known.plans[0].target].gap == pytest.approx(
        known.after["sp", known.plans[0].target].gap, abs=1e-12
    )
    assert {gap.metric for gap in unknown.before.gaps} == {"sp"}
    assert not unknown.outcome_known
    for group in unknown.groups:
        figures = (group.accuracy_before, group.accuracy_after, group.auc_before, group.auc_after)
        assert np.isnan(figures).all()
        assert group.counterfactual == ()
    assert all(np.isnan((point.accuracy, point.auc)).all() for point in unknown.frontier)
    said = " ".join(answer for _, answer in unknown.verdict())
    assert "Outcomes are not known" in said
    assert "Accuracy" not in said + str(unknown)
    assert "P(Y|X)" not in said


def test_with_labels_alone_the_gap_is_closed_and_hardly_anybody_drawn(people):
    X, _, sex = people
    repaired = RepairedClassifier(decide, "sp", random_state=0).fit(X, None, sensitive_features=sex)
    outlook = repaired.plan_.outlook
    assert outlook.gap_before > 0.01
    # the rank c (n + 1) of the small-sample correction leaves up to half a person
    assert abs(outlook.gap_after) < 1 / (sex == repaired.plan_.target).sum()
    assert outlook.randomised < 0.04
    # those nearest the cut go first, though no score says who they are
    own = X[(sex == repaired.plan_.target) & (decide(X) == 0)]
    turned = repaired.predict(
        own, sensitive_features=np.full(len(own), repaired.plan_.target), ids=own.index
    ).astype(bool)
    score = model(own)
    above = (score[turned][:, None] > score[~turned][None, :]).mean()
    assert above > 0.9


def test_a_repair_without_outcomes_survives_its_artifact(people, tmp_path):
    X, _, sex = people
    key = b"k" * 32
    repaired = RepairedClassifier(model, "sp", key=key).fit(X, None, sensitive_features=sex)
    repaired.save(tmp_path / "repaired")
    again = fairmend.load(tmp_path / "repaired", model, key=key)
    assert not again.data_.outcome_known
    before, after = (
        one.predict(X, sensitive_features=sex, ids=X.index) for one in (repaired, again)
    )
    assert (before == after).all()
    report = again.report(X, None, sensitive_features=sex)
    assert report.to_dict()["accuracy_before"] is None
    page = report.to_html()
    assert "Outcomes are not known" in page


def test_the_explanation_needs_no_outcomes(people):
    X, y, sex = people
    known, unknown = (
        fairmend.counterfactual(model, X, outcome, sensitive_features=sex, disparity="sp")
        for outcome in (y, None)
    )
    np.testing.assert_allclose(known.mass, unknown.mass, rtol=0, atol=1e-15)
    assert str(known) == str(unknown)
    with pytest.raises(DataError, match="outcome_difference: needs outcomes to compare"):
        _ = unknown.outcome_difference


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"disparity": "fnr"}, "y: must hold what really happened for fnr; got None"),
        ({"disparity": ["sp", "fpr"]}, "y: must hold what really happened for fpr; got None"),
        ({"two_sided": True}, "y: must hold what really happened for two_sided; got None"),
        ({"pos_label": "good"}, "pos_label: must be left out where y is None; got 'good'"),
    ],
)
def test_what_does_need_outcomes_says_so(people, settings, message):
    X, _, sex = people
    repaired = RepairedClassifier(model, **{"disparity": "sp", **settings})
    with pytest.raises(DataError, match=message):
        repaired.fit(X, None, sensitive_features=sex)


def test_words_of_the_model_are_read_without_outcomes(people):
    X, _, sex = people

    def say(rows):
        return np.where(decide(rows), "approve", "decline")

    box = BlackBox(say, words=("decline", "approve"))
    repaired = RepairedClassifier(box, "sp", random_state=0).fit(X, None, sensitive_features=sex)
    plain = RepairedClassifier(decide, "sp", random_state=0).fit(X, None, sensitive_features=sex)
    assert repaired.plan_.outlook == plain.plan_.outlook
