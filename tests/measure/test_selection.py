"""Audits of people who were picked by the decision: what is missing is said, and not judged."""

import numpy as np
import pandas as pd
import pytest

import fairmend
from fairmend import DataError, RateGap, audit

ACCEPTED = (
    "Everybody here has a positive decision: anybody who was turned down is missing, and what "
    "compares decisions cannot be judged."
)


def bank(n=2_000, seed=0):
    """Women need a higher income; who is turned down never gets to repay."""
    rng = np.random.default_rng(seed)
    sex, income = rng.choice(["f", "m"], n), rng.normal(size=n)
    approved = (income > np.where(sex == "f", 0.6, 0.0)).astype(int)
    repaid = (rng.random(n) < 1 / (1 + np.exp(-income))).astype(float)
    return sex, approved, np.where(approved == 1, repaid, np.nan)


def test_among_the_accepted_decisions_are_not_compared():
    """The bank's gap is some 20 points; among those it accepted there is none to see."""
    sex, approved, repaid = bank()
    whole = audit(approved, None, None, sensitive_features=sex)
    women, men = (1 - approved[sex == g].mean() for g in "fm")
    assert women - men > 0.15
    assert whole["sp", "f"].gap == pytest.approx(women - men)
    known = ~np.isnan(repaid)
    accepted = audit(approved[known], None, repaid[known], sensitive_features=sex[known],
                     metrics=["sp", "fnr", "fpr", "fdr", "da"])  # fmt: skip
    for gap in accepted:
        if gap.metric != "fdr":  # fnr is 0 and fpr 1 in every group, whoever is accepted
            assert not gap.judged
            assert gap.note == "everybody here has a positive decision"
    fdr = accepted["fdr", next(gap.target for gap in accepted if gap.metric == "fdr")]
    mine, other = (1 - repaid[known & (sex == g)].mean() for g in (fdr.target, fdr.baseline))
    assert fdr.gap == pytest.approx(mine - other)
    assert fdr.p_adjusted == fdr.p_value  # nothing else was tested
    assert all(np.isnan(group.impact_ratio) for group in accepted.groups)
    assert all(group.below_four_fifths is None for group in accepted.groups)
    assert all(group.selection_rate == 1 for group in accepted.groups)
    assert accepted.verdict().endswith(f" 4 other gaps cannot be judged. {ACCEPTED}")
    assert accepted.to_dict()["note"] == ACCEPTED
    assert " 1.00" not in str(accepted)
    assert "+0.0 " not in str(accepted)


def test_sp_alone_among_the_accepted_says_why_there_is_nothing():
    sex, approved, _ = bank()
    kept = approved == 1
    alone = audit(approved[kept], None, None, sensitive_features=sex[kept])
    assert alone.verdict() == f"No gap can be judged: see the notes for why. {ACCEPTED}"


def test_the_turned_down_alone_are_told_too():
    sex, approved, _ = bank()
    kept = approved == 0
    alone = audit(approved[kept], None, None, sensitive_features=sex[kept])
    assert not alone["sp", "m"].judged
    assert "negative decision: anybody who was accepted is missing" in alone.verdict()


def test_all_but_a_sliver_is_told_and_judged():
    """A payment filter lets nearly everybody through: its gap is real, so it stays."""
    sex = np.repeat(["f", "m"], 20_000)
    h = np.ones(40_000, int)
    h[:180], h[20_000:20_060] = 0, 0
    audited = audit(h, None, None, sensitive_features=sex)
    assert audited["sp", "f"].gap == pytest.approx(0.006)
    assert audited.verdict().endswith(
        "99.4 % of these people have a positive decision: if people who were turned down are "
        "missing, what compares decisions says nothing of them."
    )
    h[:400] = 0  # 2 %
    assert audit(h, None, None, sensitive_features=sex).note == ""


def test_a_rate_of_ones_own_is_judged_where_outcomes_can_move_it():
    sex, approved, repaid = bank()
    known = ~np.isnan(repaid)
    prevalence = RateGap("bad", rate=lambda h, y: 1 - y, given=lambda h, y: 1)
    found = audit(approved[known], None, repaid[known], sensitive_features=sex[known],
                  metrics=[prevalence, 0.5 * fairmend.FDR + 0.5 * fairmend.FNR])  # fmt: skip
    assert [gap.judged for gap in found] == [True, False]


def test_a_repair_that_ends_with_one_decision_is_judged():
    """Everybody is accepted after it because it closed the gap, not because others are missing."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"income": rng.integers(0, 4, 800), "woman": np.arange(800) % 2})
    sex = np.where(X["woman"] == 1, "f", "m")

    def lender(rows):
        return ((rows["income"] > 0) | (rows["woman"] == 0)).astype(int)

    repaired = fairmend.RepairedClassifier(lender, "sp", random_state=0).fit(
        X, None, sensitive_features=sex
    )
    report = repaired.report(X, None, sensitive_features=sex)
    after = report.after["sp", "f"]
    assert after.judged
    assert after.target_rate == 0
    assert report.after.note == ""


# -------------------------------------------------------------------- outcomes of some people


MISSING = (
    "For sp pass y=None, which compares the decisions of everybody; for error rates leave these "
    "people out: the rates are then over people whose outcome is known."
)


@pytest.mark.parametrize("named", [False, True])
def test_missing_outcomes_of_those_turned_down_are_told_with_the_figures(named):
    sex, approved, repaid = bank()
    turned_down = int((approved == 0).sum())
    first = int(np.argmin(approved))
    frame = pd.DataFrame({"said": approved, "sex": sex, "repaid": repaid, "w": 1.0})
    model, X, y, more = approved, None, repaid, {"sensitive_features": sex}
    if named:
        model, X, y = "said", frame, "repaid"
        more = {"sensitive_features": "sex", "sample_weight": "w"}
    with pytest.raises(DataError, match="must be known") as raised:
        audit(model, X, y, **more)
    assert str(raised.value) == (
        f"y: must be known for every person; got {turned_down:,} missing, first in row {first}; "
        f"{turned_down:,} people have no outcome, and 0.0 % of them a positive decision, against "
        f"100.0 % of those who have one. {MISSING}"
    )


def test_outcomes_missing_by_chance_are_told_without():
    sex, approved, _ = bank()
    rng = np.random.default_rng(1)
    y = np.where(rng.random(len(sex)) < 0.1, np.nan, rng.integers(0, 2, len(sex)))
    with pytest.raises(DataError, match="must be known") as raised:
        audit(approved, None, y, sensitive_features=sex)
    assert "people have no outcome" not in str(raised.value)
    assert str(raised.value).endswith(MISSING)


def test_a_model_is_asked_about_everybody_for_that():
    sex, approved, repaid = bank()
    X = pd.DataFrame({"approved": approved, "repaid": repaid})

    def model(rows):
        assert list(rows.columns) == ["approved"]
        return rows["approved"].to_numpy()

    with pytest.raises(DataError, match=r"and 0\.0 % of them a positive decision"):
        audit(model, X, "repaid", sensitive_features=sex)


def test_what_else_is_wrong_does_not_hide_missing_outcomes():
    sex, _, repaid = bank()
    with pytest.raises(DataError, match="y: must be known for every person"):
        audit(np.full(len(sex), "perhaps"), None, repaid, sensitive_features=sex)
