"""The report, held against applying the repair to people and counting."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import accuracy_score, roc_auc_score

from fairmend import FNR, DataError, FairmendWarning, RateGap
from fairmend.classifier import RepairedClassifier
from fairmend.data.columns import Frame
from fairmend.model.answers import Answers
from fairmend.repair.costs import Cost
from fairmend.report.edits import EditedFeature
from fairmend.report.report import Report

NAMES = ["income", "member", "town"]
BARE = {"explanation": False}
"""Of a report whose explanation, which takes most of the time, is not looked at."""


def people(n, seed):
    rng = np.random.default_rng(seed)
    group = np.where(rng.random(n) < 0.5, "a", "b")
    income = np.round(rng.normal(3.0 - 0.8 * (group == "b"), 1.0, n), 1)
    X = pd.DataFrame(
        {"income": income, "member": rng.integers(0, 2, n), "town": rng.choice(["U", "J", "R"], n)}
    )
    y = (rng.random(n) < 1 / (1 + np.exp(-(income - 2.5)))).astype(int)
    return X, y, group


def vendor(rows):
    p = 1 / (1 + np.exp(-(rows["income"] + 0.7 * rows["member"] + (rows["town"] == "U") - 3.4)))
    return p.to_numpy()


def fitted(disparity="fnr", **how):
    X, y, s = people(900, 0)
    return RepairedClassifier(vendor, disparity, random_state=0, **how).fit(
        X, y, sensitive_features=s
    )


@pytest.fixture(scope="module")
def kept():
    return fitted()


@pytest.fixture(scope="module")
def holdout():
    return people(700, 1)


@pytest.fixture(scope="module")
def report(kept, holdout):
    X, y, s = holdout
    return kept.report(X, y, sensitive_features=s)


def rates(decision, y):
    return {
        "sp": 1 - decision.mean(),
        "fnr": 1 - decision[y == 1].mean(),
        "fpr": decision[y == 0].mean(),
        "fdr": (decision * (1 - y)).sum() / decision.sum(),
    }


def test_gaps_are_those_of_the_repaired_people(kept, holdout, report):
    X, y, s = holdout
    law = kept.positive_chance(X, sensitive_features=s)
    own = (vendor(X) > 0.5).astype(float)
    for audit, decision in ((report.before, own), (report.after, law)):
        mine, theirs = (rates(decision[s == g], y[s == g]) for g in "ba")
        for metric in ("sp", "fnr", "fpr", "fdr"):
            gap = audit[metric, "b"]
            assert gap.baseline == "a"
            assert gap.gap == pytest.approx(mine[metric] - theirs[metric], abs=1e-12)
            assert gap.low < gap.gap < gap.high


def test_people_are_counted_one_by_one(kept, holdout, report):
    X, y, s = holdout
    ids = np.arange(len(y))
    law = kept.positive_chance(X, sensitive_features=s)
    score = kept.predict_proba(X, sensitive_features=s)[:, 1]
    own = (vendor(X) > 0.5).astype(int)
    for group in report.groups:
        at = s == group.group
        assert group.n == at.sum()
        assert group.accuracy_before == pytest.approx(accuracy_score(y[at], own[at]), abs=1e-12)
        right = np.where(y == 1, law, 1 - law)[at].mean()
        assert group.accuracy_after == pytest.approx(right, abs=1e-12)
        assert group.auc_before == pytest.approx(roc_auc_score(y[at], vendor(X)[at]), abs=1e-12)
        assert group.auc_after == pytest.approx(roc_auc_score(y[at], score[at]), abs=1e-12)
        assert group.selected_before == pytest.approx(own[at].mean(), abs=1e-12)
        assert group.selected_after == pytest.approx(law[at].mean(), abs=1e-12)
        assert group.gained == pytest.approx(np.maximum(law - own, 0)[at].mean(), abs=1e-12)
        assert group.lost == 0
    mine, theirs = report.groups[1], report.groups[0]
    assert (mine.repaired, theirs.repaired) == (True, False)
    assert theirs.edited == theirs.to_positive == theirs.unseen == 0
    edited = kept.transform(X, sensitive_features=s, ids=ids)
    # people are few whose edit is drawn: the draw is within their number of the law
    share = (edited != X).any(axis=1)[s == "b"].mean()
    assert mine.edited == pytest.approx(share, abs=mine.randomised + 1e-12)
    assert report.accuracy_after == pytest.approx(np.where(y == 1, law, 1 - law).mean(), abs=1e-12)


def test_edited_features_are_counted(holdout):
    X, y, s = holdout
    kept = fitted(level=0.999999)  # nobody on the cut exactly: what is drawn is hardly anybody
    ids = np.arange(len(y))
    report = kept.report(X, y, sensitive_features=s, **BARE)
    edited = kept.transform(X, sensitive_features=s, ids=ids)
    mine = report.groups[1]
    law = kept.positive_chance(X, sensitive_features=s)
    sure = (s == "b") & ((law == 0) | (law == 1))
    changed = (edited != X)[sure]
    moved = changed.any(axis=1)
    shares = changed[moved].mean()
    found = {one.feature: one.share_of_edited for one in mine.features}
    for name in NAMES:
        assert found.get(name, 0.0) == pytest.approx(shares[name], abs=0.02)  # the drawn ones
    assert mine.edits_per_person == pytest.approx(changed[moved].sum(axis=1).mean(), abs=0.03)
    assert [one.share_of_edited for one in mine.features] == sorted(found.values(), reverse=True)
    town = next((one for one in mine.features if one.feature == "town"), None)
    if town is not None:
        assert town.how.endswith("-> U")


def test_unseen_rows_are_counted(kept, report, holdout):
    X, _, s = holdout
    audit, _, group = people(900, 0)
    seen = set(map(tuple, audit[group == "b"].to_numpy().tolist()))
    new = [tuple(row) not in seen for row in X[s == "b"].to_numpy().tolist()]
    assert report.groups[1].unseen == pytest.approx(np.mean(new), abs=1e-12)
    assert 0 < np.mean(new) < 1


def test_unreachable_people_are_counted(holdout):
    X, y, s = holdout
    kept = fitted("sp", cost=Cost(immutable=["income", "member"]))
    report = kept.report(X, y, sensitive_features=s, **BARE)
    group = report.groups[1]
    # only the town may change, and only U speaks for people: who is left below the cut even there?
    helped = vendor(X.assign(town="U")) > 0.5
    assert group.unreachable == pytest.approx((~helped & (s == "b")).sum() / (s == "b").sum())


def test_the_counterfactual_reading(kept, holdout, report):
    """M(Q) by hand: outcomes from the group's own model at the row somebody ends up on."""
    X, y, s = holdout
    group = report.groups[1]
    [(metric, before, after)] = group.counterfactual
    assert metric == "fnr"
    model = kept._outcome("b")
    from fairmend.data.columns import Frame

    mine = X[s == "b"].reset_index(drop=True)
    other = FNR.of(kept._tabulate_new(X, y, s, None)["a"])
    outcome = model.of(Frame.read(mine))
    own = vendor(mine) > 0.5
    assert before == pytest.approx((outcome * ~own).sum() / outcome.sum() - other, abs=1e-12)
    # what is left to chance is averaged by drawing for many
    copies = 60
    people = pd.concat([mine] * copies, ignore_index=True)
    edited = kept.transform(
        people, sensitive_features=np.full(len(people), "b"), ids=np.arange(len(people))
    )
    there, decided = model.of(Frame.read(edited)), vendor(edited) > 0.5
    by_hand = (there * ~decided).sum() / there.sum() - other
    assert after == pytest.approx(by_hand, abs=0.002)
    assert after < report.after["fnr", "b"].gap, "edits change outcomes in this reading alone"


def test_the_two_readings_agree_for_sp(holdout):
    X, y, s = holdout
    report = fitted("sp").report(X, y, sensitive_features=s, **BARE)
    [(_, before, after)] = report.groups[1].counterfactual
    assert before == pytest.approx(report.before["sp", "b"].gap, abs=1e-12)
    assert after == pytest.approx(report.after["sp", "b"].gap, abs=1e-12)


def test_favourable_is_what_people_want(holdout):
    X, y, s = holdout
    turned = np.where(s == "a", "b", "a")
    audit, truth, group = people(900, 0)
    kept = RepairedClassifier(vendor, "fpr", favorable_label=0, random_state=0)
    kept.fit(audit, truth, sensitive_features=np.where(group == "a", "b", "a"))
    report = kept.report(X, y, sensitive_features=turned, **BARE)
    mine = report.groups[1]
    assert mine.to_negative == mine.gained > 0
    assert mine.to_positive == mine.lost == 0


def test_weights_and_names_of_columns(kept, holdout):
    X, y, s = holdout
    weight = np.where(X["member"] == 1, 2.0, 1.0)
    table = X.assign(truth=y, w=weight, who=s, note="x")
    named = kept.report(table, "truth", sensitive_features="who", sample_weight="w", **BARE)
    given = kept.report(X, y, sensitive_features=s, sample_weight=weight, **BARE)
    assert named.to_dict()["groups"] == given.to_dict()["groups"]
    law = kept.positive_chance(X, sensitive_features=s)
    right = np.where(y == 1, law, 1 - law)
    assert given.accuracy_after == pytest.approx(np.average(right, weights=weight), abs=1e-12)


def test_a_metric_of_one_s_own_is_reported_too(holdout):
    X, y, s = holdout
    omission = RateGap("for", rate=lambda h, y: (1 - h) * y, given=lambda h, y: 1 - h)
    kept = fitted(omission, target="a")
    report = kept.report(X, y, sensitive_features=s)
    assert report.metric == "for"
    assert not np.isnan(report.after["for", "a"].gap)
    [point] = kept.frontier(X, y, sensitive_features=s, levels=[1.0])
    assert point["gap"] == report.after["for", "a"].gap


def test_alignment_is_reported_as_such(holdout):
    X, y, s = holdout
    report = fitted("da").report(X, y, sensitive_features=s)
    assert report.before["da", "b"].gap > 10 * report.after["da", "b"].gap > 0
    assert report.groups[1].counterfactual == ()


def test_the_frontier_is_data(kept, holdout):
    X, y, s = holdout
    points = kept.frontier(X, y, sensitive_features=s, levels=[0.0, 0.5, 1.0])
    assert [point["level"] for point in points] == [0.0, 0.5, 1.0]
    assert set(points[0]) == {"level", "group", "gap", "accuracy", "auc", "edited", "gained",
                              "lost", "cost"}  # fmt: skip
    gaps, edited = ([point[name] for point in points] for name in ("gap", "edited"))
    assert gaps == sorted(gaps, reverse=True)
    assert edited == sorted(edited)
    last = kept.report(X, y, sensitive_features=s, **BARE)
    assert points[-1]["gap"] == pytest.approx(last.after["fnr", "b"].gap, abs=1e-12)
    assert points[-1]["accuracy"] == pytest.approx(last.accuracy_after, abs=1e-12)


RULES = {
    "score": {},
    "rules": {"immutable": ["member"], "one_way": {"income": "up"}},
    "outcome": {"rank": "outcome"},
    "cost": {"rank": "cost"},
    "fdr": {"disparity": "fdr", "target": "a"},
    "two gaps": {"disparity": ["sp", "fnr"]},
    "order": {"method": "order"},
}


@pytest.mark.parametrize("rules", RULES)
def test_a_point_of_the_frontier_is_the_repair_of_that_level(holdout, rules):
    """Plans cut elsewhere do what plans fitted for that level do."""
    X, y, s = holdout
    how = {"disparity": "fnr", **RULES[rules]}
    levels = [0.3, 1.0, 0.0, 0.7]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairmendWarning)
        points = fitted(**how).frontier(X, y, sensitive_features=s, levels=levels)
        assert [point["level"] for point in points] == levels
        for point in points:
            apart = fitted(**how, level=point["level"])
            [group] = [
                g for g in apart.report(X, y, sensitive_features=s, **BARE).groups if g.repaired
            ]
            for name in ("edited", "gained", "lost", "cost"):
                assert point[name] == pytest.approx(getattr(group, name), abs=1e-12)
            assert point["auc"] == pytest.approx(group.auc_after, abs=1e-12)


def test_a_report_holds_its_frontier(kept, holdout):
    X, y, s = holdout
    report = kept.report(X, y, sensitive_features=s, frontier=True, levels=[0.0, 1.0], **BARE)
    apart = kept.frontier(X, y, sensitive_features=s, levels=[0.0, 1.0])
    for point, line in zip(report.frontier, apart, strict=True):
        assert {name: getattr(point, name) for name in line} == line
    none, all_ = report.frontier
    before = report.before["fnr", "b"]
    # the correction for small samples may edit half a person where nothing is to be closed
    half = 0.5 / before.given_target
    assert none.gap == pytest.approx(before.gap, abs=half)
    assert (all_.gap, all_.high) == (report.after["fnr", "b"].gap, report.after["fnr", "b"].high)
    ratios = {group.group: group.impact_ratio for group in report.after.groups}
    assert all_.impact_ratio == ratios["b"]
    assert none.edited < half < all_.edited


def test_filed_tables_count_the_repaired_people(kept, holdout, report):
    X, _, s = holdout
    law = kept.positive_chance(X, sensitive_features=s)
    filed = report.to_dict()["filing"]["local_law_144"]["after"]
    assert [table["kind"] for table in filed] == ["selection", "scoring"]
    rates = {line["category"]: line["rate"] for line in filed[0]["lines"]}
    assert rates == pytest.approx({g: law[s == g].mean() for g in "ab"}, abs=1e-12)


def moved(kept, holdout, feature):
    """One by one, who of the repaired group is edited in a feature: from what and to what."""
    X, y, s = holdout
    edited = kept.transform(X, sensitive_features=s, ids=np.arange(len(y)))
    at = (s == "b") & (edited[feature] != X[feature]).to_numpy()
    return X[feature][at], edited[feature][at]


def test_numbers_are_told_by_their_median_change(holdout):
    kept = fitted(level=0.999999)  # hardly anybody is drawn
    X, y, s = holdout
    report = kept.report(X, y, sensitive_features=s, **BARE)
    income = next(one for one in report.groups[1].features if one.feature == "income")
    old, new = moved(kept, holdout, "income")
    assert len(old) > 20
    change = income.change
    # one person who is drawn may shift a median by one of the tenths that incomes come in
    assert change.median == pytest.approx((new - old).median(), abs=0.1)
    assert change.old_median == pytest.approx(old.median(), abs=0.1)
    assert change.new_median == pytest.approx(new.median(), abs=0.1)
    assert change.rises == pytest.approx((new > old).mean(), abs=0.05)
    assert change.share_of_edited == pytest.approx(income.share_of_edited, abs=1e-12)
    assert income.edits == ()
    assert change.median > 0
    assert income.how == (
        f"half rise by about {change.median:g} or more; "
        f"the median was {change.old_median:g} and is {change.new_median:g}"
    )
    assert (new - old >= change.median - 0.1).mean() >= 0.5


@pytest.mark.parametrize("smallest_cell", [1, 5, 40])
def test_edits_of_few_people_are_counted_and_not_told(holdout, smallest_cell):
    kept = fitted(immutable=["income"], level=0.999999)
    X, y, s = holdout
    report = kept.report(X, y, sensitive_features=s, smallest_cell=smallest_cell, **BARE)
    drawn = report.groups[1].randomised * report.groups[1].n
    for one in report.groups[1].features:
        old, new = moved(kept, holdout, one.feature)
        pairs = (old.astype(str) + " -> " + new.astype(str)).value_counts()
        for edit in one.edits:
            assert pairs[f"{edit.old} -> {edit.new}"] >= smallest_cell - drawn
        few = (pairs < smallest_cell).sum()
        assert abs(one.not_shown - few) <= (drawn > 0)
        if one.edits:
            assert f"{one.edits[0].old} -> {one.edits[0].new}" in one.how
            only = len(one.edits) == 1 and one.not_shown == 0
            assert one.how.startswith("most often ") is not only
        else:
            assert one.how == f"by fewer than {smallest_cell} people each"
        shares = [edit.share_of_edited for edit in one.edits]
        assert shares == sorted(shares, reverse=True)
        assert sum(shares) <= one.share_of_edited + 1e-12


def test_what_is_missing_is_called_so():
    X, y, s = people(900, 0)
    X.loc[X.index % 3 == 0, "income"] = np.nan

    def strict(rows):
        return (rows["income"].fillna(-9.0) > 2.5).to_numpy().astype(int)

    kept = RepairedClassifier(strict, "sp", random_state=0).fit(X, y, sensitive_features=s)
    report = kept.report(X, y, sensitive_features=s)
    html, plain = report.to_html(), json.dumps(report.to_dict())
    income = next(one for one in report.groups[1].features if one.feature == "income")
    assert [(edit.old, edit.new) for edit in income.edits] in ([], [("missing", "a number")])
    assert "nan" not in plain.lower().split()
    assert ">nan<" not in html


@pytest.mark.parametrize("smallest_cell", [0, 2.5, True, "5"])
def test_a_smallest_cell_is_a_number_of_people(kept, holdout, smallest_cell):
    X, y, s = holdout
    with pytest.raises(DataError, match="smallest_cell: must be a whole number of people"):
        kept.report(X, y, sensitive_features=s, smallest_cell=smallest_cell)


def test_it_reads_as_json_text_and_html(report):
    plain = json.loads(json.dumps(report.to_dict()))
    assert plain["schema"] == "fairmend.report/1"
    assert plain["groups"][1]["features"][0]["feature"] in NAMES
    text = str(report)
    for words in ("Gaps before and after the repair, in points", "gain", "lose",
                  "if outcomes followed the edited inputs", "Features edited",
                  "Accuracy overall"):  # fmt: skip
        assert words in text
    assert isinstance(report, Report)
    assert isinstance(report.groups[1].features[0], EditedFeature)


def test_an_outcome_model_of_shares_knows_no_new_rows(holdout):
    X, y, s = holdout
    report = fitted(outcome_model="empirical").report(X, y, sensitive_features=s)
    assert report.groups[1].counterfactual == ()


def test_a_group_the_holdout_lacks_is_left_out():
    X, y, s = people(900, 0)
    third = np.where(np.arange(900) % 3 == 0, "c", s)
    X.loc[third == "c", "income"] -= 1.0
    kept = RepairedClassifier(vendor, "sp", random_state=0).fit(X, y, sensitive_features=third)
    here = third != "c"
    report = kept.report(X[here], y[here], sensitive_features=third[here], **BARE)
    assert [group.group for group in report.groups] == ["a", "b"]


NAMED = {
    "array": np.array(["member", "town"]),
    "index": pd.Index(["member", "town"]),
    "set": {"town", "member"},
}


@pytest.fixture(scope="module")
def plain(holdout):
    X, y, s = holdout
    return fitted(immutable=("member", "town")).report(X, y, sensitive_features=s, **BARE)


@pytest.mark.parametrize("kind", NAMED)
def test_immutable_features_may_come_in_any_container(holdout, kind, plain):
    X, y, s = holdout
    report = fitted(immutable=NAMED[kind]).report(X, y, sensitive_features=s, **BARE)
    assert report.groups == plain.groups
    assert report.provenance.settings["immutable"] == "['member', 'town']"


@pytest.mark.parametrize("positives", [0, 1])
def test_a_group_of_one_outcome_has_no_counterfactual_reading(positives):
    X, y, s = people(900, 0)
    theirs = np.flatnonzero((s == "b") & (y == 1))
    y[theirs[positives:]] = 0
    kept = RepairedClassifier(vendor, "sp", random_state=0).fit(X, y, sensitive_features=s)
    report = kept.report(X, y, sensitive_features=s)
    assert [group.repaired for group in report.groups] == [False, True]
    assert report.groups[1].counterfactual == ()
    assert abs(report.after["sp", "b"].gap) < 0.01  # as everybody is judged by their decisions


def test_labels_that_are_also_names_of_columns_are_labels():
    X, y, s = people(900, 0)
    X = X.assign(a=(s == "a").astype(int), b=(s == "b").astype(int))
    kept = RepairedClassifier(vendor, "sp", random_state=0)
    kept.fit(X, y, sensitive_features=s.tolist())
    told, plain = (kept.report(X, y, sensitive_features=one, **BARE) for one in (s.tolist(), s))
    assert told.groups == plain.groups
    points = [kept.frontier(X, y, sensitive_features=one, levels=[1]) for one in (s.tolist(), s)]
    assert points[0] == points[1]


# -------------------------------------------------------------------- people are counted


@pytest.mark.parametrize("metric", ["sp", "fnr", "fpr", "fdr"])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.filterwarnings("ignore::fairmend.FairmendWarning")
def test_people_are_counted_one_by_one_whatever_they_weigh(metric, seed):
    rng = np.random.default_rng(seed)
    n = 1_500
    s = np.where(rng.random(n) < 0.4, "a", "b")
    X = (rng.random((n, 4)) < np.where(s == "a", 0.4, 0.6)[:, None]).astype(int)
    y = (rng.random(n) < 1 / (1 + np.exp(2.5 - X.sum(axis=1)))).astype(int)

    def model(rows):
        return 1 / (1 + np.exp(2.4 - np.asarray(rows).sum(axis=1)))

    kept = RepairedClassifier(model, metric, random_state=0)
    kept.fit(X, y, sensitive_features=s)
    weight = rng.uniform(0.5, 6.0, n) * np.where(y == 1, 1.0, 4.0)
    new = rng.permutation(n)[:1_000]
    X, y, s, weight = X[new], y[new], s[new], weight[new]
    report = kept.report(X, y, sensitive_features=s, sample_weight=weight, **BARE)
    change = kept.positive_chance(X, sensitive_features=s) - (model(X) > 0.5)
    for group in report.groups:
        own = s == group.group
        gains, loses = np.maximum(change, 0) * own, np.maximum(-change, 0) * own
        for outcome, word in ((1, "positive"), (0, "negative")):
            at = y == outcome
            assert getattr(group, f"people_gained_{word}") == pytest.approx(gains[at].sum())
            assert getattr(group, f"people_lost_{word}") == pytest.approx(loses[at].sum())
        assert group.people_gained == pytest.approx(gains.sum())
        assert group.people_lost == pytest.approx(loses.sum())
        assert group.people_favourable_before == ((model(X) > 0.5) & own).sum()
        assert group.people_unseen == 0
        if not group.repaired:
            assert group.people_edited == group.people_randomised == 0
            continue
        rows = Frame.read(X[own])
        answers = Answers((model(X[own]) > 0.5).astype(float), model(X[own]))
        route = kept.plans_[group.group].route(rows, answers)
        assert group.people_edited == pytest.approx(route.moving.sum())
        assert group.people_randomised == route.random.sum()
        blocked = 0 if route.unreachable is None else route.unreachable.sum()
        assert group.people_unreachable == blocked
    more = sum(group.people_gained - group.people_lost for group in report.groups)
    if abs(more) > 1:
        assert f"In all {abs(round(more)):,} " in report.verdict()[-1][1]
    assert "weighted" in str(report)
    assert "share of the group, weighted" in report.to_html()


def test_without_weights_counts_and_shares_agree(report):
    for group in report.groups:
        for name in ("edited", "gained", "lost", "randomised", "unreachable", "unseen"):
            assert getattr(group, f"people_{name}") == pytest.approx(getattr(group, name) * group.n)
    assert "weighted" not in str(report).lower()


def test_a_report_is_read_back_from_its_json(report):
    """All but the tables to file, whose cells are not in it."""
    plain = json.loads(json.dumps(report.to_dict()))
    back = Report.from_dict(plain).to_dict()
    assert {key for key in plain if plain[key] != json.loads(json.dumps(back[key]))} <= {"filing"}
