"""People with several rows: intervals and tests by person, against a loop over people."""

import warnings
from collections import defaultdict

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import norm

import fairmend
from fairmend import FNR, FPR, SP, Alignment, BlackBox, DataError, RepairedClassifier, audit

ROUNDING = 1e-12  # sums of a few thousand terms of size 1 / n
Z = norm.ppf(0.975)


def visits(people=300, seed=0, *, moving=0.2):
    """People with 1 to 6 rows, alike within a person; some change their group between rows."""
    rng = np.random.default_rng(seed)
    times = rng.integers(1, 7, people)
    who = rng.permutation(np.repeat(np.arange(people), times))
    taste, usual = rng.normal(size=people), rng.choice(["a", "b", "c"], people)
    elsewhere = rng.choice(["a", "b", "c"], len(who))
    s = np.where(rng.random(len(who)) < moving, elsewhere, usual[who])
    score = np.round(norm.cdf(taste[who] + 0.4 * (s == "b") + 0.5 * rng.normal(size=len(who))), 2)
    y = (taste[who] + rng.normal(size=len(who)) > 0).astype(int)
    return who, score, y, s, rng.lognormal(sigma=0.5, size=len(who))


TERMS = {
    "sp": lambda h, y: (1 - h, 1.0),
    "fnr": lambda h, y: ((1 - h) * y, y),
    "fpr": lambda h, y: (h * (1 - y), 1 - y),
    "fdr": lambda h, y: (h * (1 - y), h),
}


def one_side(parts, who, h, y, w):
    """A sum of rates among some rows, person by person: rate, centre, shares, pseudo-error, n."""
    rate = centre = pseudo = 0.0
    shares, fewest = defaultdict(float), np.inf
    for factor, metric in parts:
        total, event, condition, own = 0.0, 0.0, defaultdict(float), []
        for person, hi, yi, wi in zip(who, h, y, w, strict=True):
            r, t = TERMS[metric](hi, yi)
            total, event = total + wi * t, event + wi * r
            condition[person] += wi * t
            own.append((person, wi * r, wi * t))
        n = total**2 / sum(value**2 for value in condition.values())
        fewest = min(fewest, n)
        steadied = (n * event / total + 1) / (n + 2)
        rate, centre = rate + factor * event / total, centre + factor * steadied
        for person, wr, wt in own:
            shares[person] += factor * n / (n + 2) * (wr - steadied * wt) / total
        pseudo += abs(factor) * np.sqrt((1 - steadied) ** 2 + steadied**2) / (n + 2)
    return rate, centre, shares, pseudo, fewest


def compared(parts, target, baseline):
    """Gap, interval and p-value of two sides; somebody in both is one person."""
    here, there = one_side(parts, *target), one_side(parts, *baseline)
    everybody = set(here[2]) | set(there[2])
    variance = sum((here[2].get(p, 0.0) - there[2].get(p, 0.0)) ** 2 for p in everybody)
    error = np.sqrt(variance + here[3] ** 2 + there[3] ** 2)
    centre = here[1] - there[1]
    return (
        here[0] - there[0],
        centre - Z * error,
        centre + Z * error,
        2 * norm.sf(abs(centre) / error),
    )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("reference", ["best", "c", "rest"])
def test_every_interval_is_that_of_a_loop_over_people(reference, soft, weighted):
    who, score, y, s, w = visits()
    h = score if soft else (score > 0.5).astype(float)
    w = w if weighted else np.ones(len(y))
    both = 0.5 * FNR + 0.5 * FPR
    audited = audit(
        BlackBox(score, soft=soft), None, y, sensitive_features=s, ids=who,
        sample_weight=w if weighted else None, metrics=[*TERMS, both], reference=reference,
    )  # fmt: skip
    assert len(audited.gaps) == 5 * (3 if reference == "rest" else 2)
    for gap in audited:
        parts = [(1.0, gap.metric)] if gap.metric in TERMS else [(0.5, "fnr"), (0.5, "fpr")]
        sides = (s == gap.target, s != gap.target if reference == "rest" else s == gap.baseline)
        expected = compared(parts, *([a[mine] for a in (who, h, y, w)] for mine in sides))
        if reference == "best":  # the lower end allows for the choice among rivals
            assert gap.rivals >= 1
            wider = norm.isf(0.025 / gap.rivals) / norm.isf(0.025)
            centre = (expected[1] + expected[2]) / 2
            low = centre - wider * (centre - expected[1])
            expected = (expected[0], low, *expected[2:])
        found = (gap.gap, gap.low, gap.high, gap.p_value)
        np.testing.assert_allclose(found, expected, rtol=0, atol=ROUNDING)
        assert gap.n_target == len(set(who[sides[0]]))
        over = [TERMS[m](hi, yi)[1] > 0 for _, m in parts[:1] for hi, yi in zip(h, y, strict=True)]
        if len(parts) == 1:
            assert gap.given_target == len(set(who[sides[0] & over]))
    for group in audited.groups:
        assert group.n == len(set(who[s == group.group]))


def test_somebody_in_both_groups_is_one_person():
    """Everybody has a row in each group and the same decision there: the gap is 0, and certain."""
    rng = np.random.default_rng(1)
    h = (rng.random(500) < 0.3).astype(int)
    who, s, both = np.tile(np.arange(500), 2), np.repeat(["a", "b"], 500), np.tile(h, 2)
    by_person, by_row = (
        audit(both, None, None, sensitive_features=s, ids=ids, reference="a")["sp", "b"]
        for ids in (who, None)
    )
    assert by_person.gap == by_row.gap == 0
    # what is left is the error of the pseudo-people, 1 / n
    assert by_person.high - by_person.low < 2 * Z * np.sqrt(2) / 500
    assert by_row.high - by_row.low > 10 * (by_person.high - by_person.low)


def test_rows_given_four_times_are_worth_one():
    who, score, y, s, w = visits(moving=0.0)
    alone = np.unique(who, return_index=True)[1]
    score, y, s, w = (values[alone] for values in (score, y, s, w))
    metrics = [*TERMS, "da", 0.5 * FNR + 0.5 * FPR]
    for weight in (None, w):
        once, again = (
            audit(score[rows], None, y[rows], sensitive_features=s[rows], metrics=metrics,
                  sample_weight=None if weight is None else weight[rows], ids=rows)
            for rows in (np.arange(len(y)), np.repeat(np.arange(len(y)), 4))
        )  # fmt: skip
        assert once.rows is once.people is None
        assert (again.rows, again.people) == (4 * len(y), len(y))
        assert f"{4 * len(y):,} rows of {len(y):,} people in 3 groups" in str(again)
        numbers = [
            [(g.gap, g.low, g.high, g.p_value, g.p_adjusted, g.n_target, g.given_target)
             for g in each] for each in (once, again)
        ]  # fmt: skip
        np.testing.assert_allclose(*numbers, rtol=0, atol=ROUNDING)


def test_without_ids_or_with_one_row_a_person_nothing_changes():
    who, score, y, s, w = visits()
    more = {"sensitive_features": s, "sample_weight": w, "metrics": [*TERMS, "da"]}
    plain, own = (audit(score, None, y, ids=ids, **more) for ids in (None, np.arange(len(y))))
    assert plain.to_dict() == own.to_dict()
    assert str(plain) == str(own)
    assert plain.rows is None
    assert len(set(who)) < len(who)


def test_too_few_are_people_and_not_rows():
    h = np.r_[np.tile([0, 1], 8), np.tile([0, 1], 50)]
    who, s = np.r_[np.repeat(np.arange(4), 4), np.arange(4, 104)], np.repeat(["a", "b"], [16, 100])
    gap = audit(h, None, None, sensitive_features=s, ids=who, reference="b")["sp", "a"]
    assert (gap.judged, gap.note) == (False, "too few to say")
    assert (gap.n_target, gap.given_target) == (4, 4)
    assert audit(h, None, None, sensitive_features=s, reference="b")["sp", "a"].judged
    # six people, one of whom has nearly all rows
    who[:16] = [0, 1, 2, 3, 4, *[5] * 11]
    gap = audit(h, None, None, sensitive_features=s, ids=who, reference="b")["sp", "a"]
    assert gap.note == "too few to say: 6 people worth 2.0"


@pytest.mark.parametrize("decisions", ["hard", "soft"])
def test_alignment_by_person(decisions):
    """Against numerical derivatives of the signed root and of the divergence, person by person."""
    who, score, _, s, _ = visits()
    h = (score > 0.5).astype(float) if decisions == "hard" else score
    model = BlackBox(score, soft=decisions == "soft")
    gap = audit(model, None, None, sensitive_features=s, ids=who, metrics=["da"],
                reference="c")["da", "b"]  # fmt: skip
    sides = [one_side([(1.0, "sp")], *(a[s == g] for a in (who, h, h, np.ones(len(h)))))
             for g in ("b", "c")]  # fmt: skip

    def root(a, b):
        divergence = a * np.log(a / b) + (1 - a) * np.log((1 - a) / (1 - b))
        return np.sign(a - b) * np.sqrt(2 * divergence)

    (a, b), step = (side[1] for side in sides), 1e-6
    slopes = [(root(a + step, b) - root(a - step, b)) / (2 * step),
              (root(a, b + step) - root(a, b - step)) / (2 * step)]  # fmt: skip
    shares = [
        slopes[0] * sides[0][2].get(person, 0) + slopes[1] * sides[1][2].get(person, 0)
        for person in set(sides[0][2]) | set(sides[1][2])
    ]
    pseudo = [slope * side[3] for slope, side in zip(slopes, sides, strict=True)]
    variance = np.sum(np.square(shares)) + np.sum(np.square(pseudo))
    reach = Z * np.sqrt(variance)
    expected = max(0.0, abs(root(a, b)) - reach) ** 2 / 2, (abs(root(a, b)) + reach) ** 2 / 2
    np.testing.assert_allclose((gap.low, gap.high), expected, rtol=1e-6)


def test_a_disparity_of_ones_own_goes_by_person():
    """The delta method: the influence summed over a person's rows, in both groups."""
    who, score, y, s, _ = visits()
    h = (score > 0.5).astype(float)
    own = 1.0 * SP + 1.0 * Alignment()
    gap = audit(h, None, y, sensitive_features=s, ids=who, metrics=[own], reference="c")[
        own.name, "b"
    ]
    mu0, mu1 = h[s == "b"].mean(), h[s == "c"].mean()
    slope0 = -1 + np.log(mu0 * (1 - mu1) / (mu1 * (1 - mu0)))
    slope1 = 1 - (mu0 - mu1) / (mu1 * (1 - mu1))
    shares = defaultdict(float)
    for group, mu, slope in (("b", mu0, slope0), ("c", mu1, slope1)):
        for person, hi in zip(who[s == group], h[s == group], strict=True):
            shares[person] += slope * (hi - mu) / (s == group).sum()
    reach = Z * np.sqrt(sum(share**2 for share in shares.values()))
    np.testing.assert_allclose(gap.high - gap.gap, reach, rtol=0, atol=ROUNDING)


# -------------------------------------------------------------------- what ids may be


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_a_column_of_ids_is_no_input(kind):
    who, score, y, s, _ = visits()
    frame = pd.DataFrame({"score": score, "person": who, "y": y, "s": s})
    frame = frame if kind == "pandas" else pl.from_pandas(frame)

    def model(rows):
        assert list(rows.columns) == ["score", "s"]
        return np.asarray(rows["score"])

    named = audit(model, frame, "y", sensitive_features="s", ids="person")
    given = audit(score, None, y, sensitive_features={"s": s}, ids=who)
    assert named.to_dict() == given.to_dict()


def test_the_same_ids_are_the_same_people_as_in_a_repair():
    who, score, y, s, _ = visits()
    texts = [str(person) if row % 2 else int(person) for row, person in enumerate(who)]
    numbers, mixed, padded = (
        [(gap.n_target, gap.low, gap.high)
         for gap in audit(score, None, y, sensitive_features=s, ids=ids)]
        for ids in (who, texts, [f"{person:04d}" for person in who])
    )  # fmt: skip
    np.testing.assert_allclose(numbers, mixed, rtol=0, atol=ROUNDING)
    np.testing.assert_allclose(numbers, padded, rtol=0, atol=ROUNDING)


def test_who_has_weight_0_is_left_out_with_their_id():
    who, score, y, s, w = visits()
    w[who < 40] = 0.0
    kept = who >= 40
    whole = audit(score, None, y, sensitive_features=s, ids=who, sample_weight=w)
    left = audit(score[kept], None, y[kept], sensitive_features=s[kept], ids=who[kept],
                 sample_weight=w[kept])  # fmt: skip
    assert whole.to_dict() == left.to_dict()


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([1, 2], "ids: must have the same length as y; got 2 entries, expected 40"),
        ([None, *range(39)], "ids: must be whole numbers or text that is not empty; got None in"),
        ("who", "ids: must hold one value per person; got the name 'who' without an X"),
    ],
)
def test_what_is_no_id_is_told(ids, message):
    h, s = np.tile([0, 1], 20), np.repeat(["a", "b"], 20)
    with pytest.raises(DataError, match="ids") as raised:
        audit(h, None, None, sensitive_features=s, ids=ids)
    assert str(raised.value).startswith(message)


def test_rows_elsewhere_take_no_ids(tmp_path):
    who, score, y, s, _ = visits()
    pl.DataFrame({"score": score, "who": who, "y": y, "s": s}).write_parquet(tmp_path / "a.parquet")
    with pytest.raises(DataError, match="ids: must be left out where X is not in memory"):
        audit("score", str(tmp_path / "a.parquet"), "y", sensitive_features="s", ids="who")


# -------------------------------------------------------------------- repairs


def loans(people=250, times=4, seed=7):
    """Everybody's row several times; women need more to be accepted."""
    rng = np.random.default_rng(seed)
    sex, income = rng.choice(["f", "m"], people), rng.normal(size=people).round(2)
    y = (income + rng.normal(size=people) > 0).astype(int)
    rows = np.repeat(np.arange(people), times)
    X = pd.DataFrame({"income": income, "woman": (sex == "f").astype(int)})
    return X.iloc[rows].reset_index(drop=True), y[rows], sex[rows], rows


def lender(X):
    return 1 / (1 + np.exp(0.2 * X["woman"] - X["income"]))


def test_a_plan_s_outlook_is_by_person():
    """Rows given four times promise what they promise once, and without ids twice as much."""
    once_X, once_y, once_s, _ = loans(times=1)
    X, y, sex, who = loans()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fairmend.FairmendWarning)
        once = RepairedClassifier(lender, "sp", random_state=0).fit(
            once_X, once_y, sensitive_features=once_s
        )
        told, untold = (
            RepairedClassifier(lender, "sp", random_state=0).fit(
                X, y, sensitive_features=sex, ids=ids
            )
            for ids in (who, None)
        )
    widths = [
        each.plan_.outlook.expected_high - each.plan_.outlook.expected_low
        for each in (once, told, untold)
    ]
    assert widths[1] == pytest.approx(widths[0], rel=0.02)
    assert widths[2] == pytest.approx(widths[0] / 2, rel=0.05)
    assert told.audit_["sp", "f"].p_value == pytest.approx(once.audit_["sp", "f"].p_value, rel=1e-9)


def test_significance_is_judged_by_person():
    X, y, sex, who = loans()
    settings = {"require_significant": True, "random_state": 0}
    RepairedClassifier(lender, "sp", **settings).fit(X, y, sensitive_features=sex)
    with pytest.raises(fairmend.RepairRefused, match="must be significant"):
        RepairedClassifier(lender, "sp", **settings).fit(X, y, sensitive_features=sex, ids=who)


def test_an_artifact_holds_no_row_of_a_person(tmp_path):
    X, y, sex, who = loans()
    key = bytes(32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fairmend.FairmendWarning)
        repaired = RepairedClassifier(lender, "sp", key=key).fit(
            X, y, sensitive_features=sex, ids=who
        )
    repaired.save(tmp_path / "repair")
    again = fairmend.load(tmp_path / "repair", lender, key=key)
    assert all(people.by_person is None for people in again.data_.populations)
    assert again.audit_.to_dict() == repaired.audit_.to_dict()
    assert again.audit_.rows == 1000
    ids = np.arange(len(X))
    assert (
        again.predict(X, sensitive_features=sex, ids=ids)
        == repaired.predict(X, sensitive_features=sex, ids=ids)
    ).all()
