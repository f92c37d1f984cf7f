"""The audit against direct computation, textbook formulas, fairlearn and scikit-learn."""

import json
from dataclasses import replace
from datetime import date
from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from fairlearn.metrics import (
    MetricFrame,
    false_negative_rate,
    false_positive_rate,
    selection_rate,
)
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm
from sklearn.metrics import accuracy_score, roc_auc_score

from fairmend import FNR, SP, Alignment, BlackBox, DataError, Population, audit, audit_data
from fairmend.datasets import example_one
from fairmend.measure.audit import auc
from fairmend.measure.tabulate import tabulate

METRICS = ("sp", "fnr", "fpr", "fdr")
COLUMNS = [
    "metric", "target", "baseline", "target_rate", "baseline_rate", "gap", "low", "high",
    "p_value", "n_target", "n_baseline",
]  # fmt: skip
ROUNDING = 1e-12  # rates are short sums of counts


def people(n=900, seed=0):
    """Three groups, hard decisions that lean on the group, scores with ties, positive weights."""
    rng = np.random.default_rng(seed)
    s = rng.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2])
    y = (rng.random(n) < 0.4).astype(int)
    score = np.round(
        np.clip(0.3 + 0.25 * y - 0.1 * (s == "b") + 0.25 * rng.normal(size=n), 0, 1), 2
    )
    return score, (score > 0.5).astype(int), y, s, rng.lognormal(size=n)


def rate(metric, h, y, w):
    event, given_ = {
        "sp": (1 - h, np.ones_like(y)),
        "fnr": ((1 - h) * y, y),
        "fpr": (h * (1 - y), 1 - y),
        "fdr": (h * (1 - y), h),
    }[metric]
    return np.sum(w * event) / np.sum(w * given_)


# -------------------------------------------------------------------- point estimates


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("soft", [False, True])
def test_rates_and_gaps_are_what_numpy_says(weighted, soft):
    score, h, y, s, w = people()
    model = BlackBox(score, soft=True) if soft else h
    h = score if soft else h
    w = w if weighted else np.ones(len(y))
    audited = audit(model, None, y, sensitive_features=s, sample_weight=w if weighted else None)
    assert len(audited.gaps) == 8
    for gap in audited:
        target, baseline = (rate(gap.metric, h[s == g], y[s == g], w[s == g])
                            for g in (gap.target, gap.baseline))  # fmt: skip
        np.testing.assert_allclose(gap.target_rate, target, atol=ROUNDING)
        np.testing.assert_allclose(gap.baseline_rate, baseline, atol=ROUNDING)
        np.testing.assert_allclose(gap.gap, target - baseline, atol=ROUNDING)
        assert (gap.n_target, gap.n_baseline) == (
            (s == gap.target).sum(),
            (s == gap.baseline).sum(),
        )
        assert gap.low <= gap.gap <= gap.high


@pytest.mark.parametrize("weighted", [False, True])
def test_rates_are_fairlearns(weighted):
    _, h, y, s, w = people()
    metrics = {"sp": selection_rate, "fnr": false_negative_rate, "fpr": false_positive_rate}
    params = {"sample_weight": w} if weighted else {}
    theirs = MetricFrame(
        metrics=metrics, y_true=y, y_pred=h, sensitive_features=s,
        sample_params=dict.fromkeys(metrics, params),
    ).by_group  # fmt: skip
    ours = audit(h, None, y, sensitive_features=s, metrics=list(metrics), **params)
    for gap in ours:
        expected = theirs.loc[gap.target, gap.metric]
        expected = 1 - expected if gap.metric == "sp" else expected
        np.testing.assert_allclose(gap.target_rate, expected, atol=ROUNDING)
    for group in ours.groups:
        expected = theirs.loc[group.group, "sp"]
        np.testing.assert_allclose(group.selection_rate, expected, atol=ROUNDING)


@pytest.mark.parametrize("weighted", [False, True])
def test_group_summaries_are_scikit_learns(weighted):
    score, h, y, s, w = people()
    w = w if weighted else np.ones(len(y))
    audited = audit(score, None, y, sensitive_features=s, sample_weight=w if weighted else None)
    for group in audited.groups:
        mine = s == group.group
        arrays = y[mine], score[mine], h[mine], w[mine]
        auc = roc_auc_score(arrays[0], arrays[1], sample_weight=arrays[3])
        accuracy = accuracy_score(arrays[0], arrays[2], sample_weight=arrays[3])
        np.testing.assert_allclose(group.auc, auc, atol=ROUNDING)
        np.testing.assert_allclose(group.accuracy, accuracy, atol=ROUNDING)
        np.testing.assert_allclose(
            group.base_rate, np.average(y[mine], weights=w[mine]), atol=ROUNDING
        )
        assert group.n == mine.sum()


def test_labels_have_no_auc():
    _, h, y, s, _ = people()
    assert all(np.isnan(group.auc) for group in audit(h, None, y, sensitive_features=s).groups)


def test_impact_ratio_and_four_fifths():
    h = np.repeat([1, 0, 1, 0, 1, 0], [50, 50, 40, 60, 39, 61])
    s = np.repeat(["most", "at", "below"], 100)
    y = np.tile([0, 1], 150)
    groups = {group.group: group for group in audit(h, None, y, sensitive_features=s).groups}
    assert {name: group.impact_ratio for name, group in groups.items()} == {
        "most": 1.0, "at": 0.8, "below": 0.78,
    }  # fmt: skip
    assert [groups[g].below_four_fifths for g in ("most", "at", "below")] == [False, False, True]


def test_no_impact_ratio_where_nobody_is_selected():
    nobody = audit(np.zeros(40, int), None, [0, 1] * 20, sensitive_features=["a", "b"] * 20)
    for group in nobody.groups:
        assert group.selection_rate == 0
        assert np.isnan(group.impact_ratio)
        assert group.below_four_fifths is None


# -------------------------------------------------------------------- intervals and tests


def counted(target, baseline):
    """Recorded decisions in which x of n are negative, for the two groups."""
    h = np.concatenate([np.repeat([0, 1], [x, n - x]) for x, n in (target, baseline)])
    s = np.repeat(["t", "b"], [target[1], baseline[1]])
    return h, np.arange(len(h)) % 2, s


@given(
    st.tuples(st.integers(5, 60), st.floats(0, 1)),
    st.tuples(st.integers(5, 60), st.floats(0, 1)),
    st.sampled_from([0.9, 0.95, 0.99]),
)
def test_intervals_are_agresti_and_caffos(first, second, confidence):
    (n0, x0), (n1, x1) = ((n, round(share * n)) for n, share in (first, second))
    h, y, s = counted((x0, n0), (x1, n1))
    data = tabulate(h, None, y, sensitive_features=s)  # where all are alike audit() says nothing
    ours = audit_data(data, metrics=["sp"], reference="b", confidence=confidence)["sp", "t"]
    p0, p1 = (x0 + 1) / (n0 + 2), (x1 + 1) / (n1 + 2)  # the textbook's formula
    error = np.sqrt(p0 * (1 - p0) / (n0 + 2) + p1 * (1 - p1) / (n1 + 2))
    z = norm.ppf((1 + confidence) / 2)
    np.testing.assert_allclose(ours.low, max(-1, p0 - p1 - z * error), atol=ROUNDING)
    np.testing.assert_allclose(ours.high, min(1, p0 - p1 + z * error), atol=ROUNDING)
    np.testing.assert_allclose(ours.p_value, 2 * norm.sf(abs(p0 - p1) / error), atol=ROUNDING)
    assert ours.low <= ours.gap <= ours.high


def test_intervals_stay_within_what_is_possible():
    h, y, s = counted((6, 6), (0, 6))
    both = audit(h, None, y, sensitive_features=s, metrics=["sp", 0.5 * SP], reference="b")
    assert both["sp", "t"].high == 1
    assert both["0.5 sp", "t"].high == 0.5


def test_a_multiple_of_a_gap_is_judged_like_the_gap():
    _, h, y, s, w = people()
    both = audit(
        h, None, y, sensitive_features=s, sample_weight=w, metrics=[FNR, -3 * FNR], reference="a"
    )
    for group in ("b", "c"):
        one, other = both["fnr", group], both["-3 fnr", group]
        np.testing.assert_allclose(
            (other.low, other.high), (-3 * one.high, -3 * one.low), atol=ROUNDING
        )
        np.testing.assert_allclose(other.p_value, one.p_value, atol=ROUNDING)


def test_the_test_rejects_exactly_where_the_interval_leaves_out_zero():
    for seed in range(20):
        _, h, y, s, w = people(n=120, seed=seed)
        for gap in audit(h, None, y, sensitive_features=s, sample_weight=w, confidence=0.8,
                         reference="a"):  # fmt: skip
            if gap.judged:
                assert (gap.p_value < 0.2) == (gap.low > 0 or gap.high < 0)


def test_equal_weights_change_nothing():
    _, h, y, s, _ = people()
    plain = audit(h, None, y, sensitive_features=s).to_frame()
    for weight in (2.0, 0.1):
        weighted = audit(h, None, y, sensitive_features=s, sample_weight=np.full(len(y), weight))
        pd.testing.assert_frame_equal(weighted.to_frame(), plain, rtol=1e-10)


def test_five_people_are_enough_whatever_they_weigh_alike():
    h, y, s = counted((2, 5), (50, 100))
    tenth = audit(h, None, y, sensitive_features=s, sample_weight=np.full(105, 0.1), metrics=["sp"])
    assert tenth.gaps[0].judged


def test_integer_weights_have_the_rates_of_duplicates_but_not_their_number():
    _, h, y, s, _ = people()
    times = np.random.default_rng(1).integers(1, 4, len(y))
    weighted = audit(h, None, y, sensitive_features=s, sample_weight=times)
    repeated = audit(
        np.repeat(h, times), None, np.repeat(y, times), sensitive_features=np.repeat(s, times)
    )
    for one, many in zip(weighted, repeated, strict=True):
        assert (one.metric, one.target, one.baseline) == (many.metric, many.target, many.baseline)
        np.testing.assert_allclose(one.target_rate, many.target_rate, atol=ROUNDING)
        np.testing.assert_allclose(one.gap, many.gap, atol=ROUNDING)
        assert one.n_target == (s == one.target).sum() < many.n_target
        assert one.high - one.low > many.high - many.low  # copies are no new evidence


def test_people_of_weight_zero_do_not_count_in_rates():
    _, h, y, s, _ = people()
    kept = np.random.default_rng(2).random(len(y)) < 0.5
    with_zeros = audit(h, None, y, sensitive_features=s, sample_weight=kept.astype(float))
    without = audit(h[kept], None, y[kept], sensitive_features=s[kept])
    for one, other in zip(with_zeros, without, strict=True):
        for name in ("target_rate", "gap", "low", "high", "p_value"):
            np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=ROUNDING)


def closed_testing(p_values):
    """Holm by definition: p adjusted is the largest Bonferroni p of any subset it is part of."""
    m = len(p_values)
    subsets = [c for size in range(1, m + 1) for c in combinations(range(m), size)]
    return [
        max(min(1, len(c) * min(p_values[i] for i in c)) for c in subsets if j in c)
        for j in range(m)
    ]


@pytest.mark.parametrize("reference", ["a", "rest"])
def test_holm_is_closed_bonferroni_testing(reference):
    _, h, y, s, _ = people()
    gaps = audit(h, None, y, sensitive_features=s, reference=reference).gaps
    expected = closed_testing([gap.p_value for gap in gaps])
    np.testing.assert_allclose([gap.p_adjusted for gap in gaps], expected, atol=ROUNDING)


def test_two_groups_pay_nothing_for_finding_the_better_one():
    _, h, y, s, _ = people()
    two = s != "c"
    gaps = audit(h[two], None, y[two], sensitive_features=s[two]).gaps
    expected = closed_testing([gap.p_value for gap in gaps])
    np.testing.assert_allclose([gap.p_adjusted for gap in gaps], expected, atol=ROUNDING)


def test_choosing_the_best_group_counts_every_pair():
    """Never more lenient than Holm over all pairs of groups, and equal for the smallest p."""
    _, h, y, s, _ = people()
    audited = audit(h, None, y, sensitive_features=s, metrics=["sp"])
    every = {}
    for reference in "abc":
        for gap in audit(h, None, y, sensitive_features=s, metrics=["sp"], reference=reference):
            every[frozenset((gap.target, gap.baseline))] = gap.p_value
    adjusted = dict(zip(every, closed_testing(list(every.values())), strict=True))
    smallest = min(audited, key=lambda gap: gap.p_value)
    for gap in audited:
        assert gap.p_adjusted >= adjusted[frozenset((gap.target, gap.baseline))] - ROUNDING
    assert smallest.p_adjusted == pytest.approx(3 * smallest.p_value, abs=ROUNDING)


def test_an_interval_allows_for_the_choice_of_the_best_group():
    """Five equal groups: every true gap is 0, and the lowest of five rates is low by luck."""
    rng, s, y = np.random.default_rng(0), np.repeat(list("abcde"), 100), np.arange(500) % 2
    covered, had_it_been_named = [], []
    for _ in range(150):
        h = (rng.random(500) < 0.4).astype(int)
        for gap in audit(h, None, y, sensitive_features=s, metrics=["sp"]):
            named = audit(h, None, y, sensitive_features=s, metrics=["sp"], reference=gap.baseline)
            plain = named["sp", gap.target]
            assert (plain.gap, plain.high) == (gap.gap, gap.high)
            assert 1 < gap.rivals <= 4
            assert gap.low < plain.low
            covered.append(gap.low <= 0 <= gap.high)
            had_it_been_named.append(plain.low <= 0 <= plain.high)
    assert np.mean(had_it_been_named) < 0.92 < np.mean(covered) < 0.99


def test_a_group_that_is_clearly_the_best_has_no_rivals():
    h, y, s = crowd(("a", 500, 100), ("b", 500, 200), ("c", 500, 300))
    best = audit(h, None, y, sensitive_features=s, metrics=["sp"])
    assert [gap.rivals for gap in best] == [1, 1]
    named = audit(h, None, y, sensitive_features=s, metrics=["sp"], reference="a")
    assert [(gap.low, gap.high) for gap in best] == [(gap.low, gap.high) for gap in named]


# -------------------------------------------------------------------- whom to compare


def test_best_is_the_lowest_rate_of_each_metric():
    _, h, y, s, _ = people()
    audited = audit(h, None, y, sensitive_features=s)
    for metric in METRICS:
        rates = {g: rate(metric, h[s == g], y[s == g], 1.0) for g in "abc"}
        best = min(rates, key=rates.get)
        rows = [gap for gap in audited if gap.metric == metric]
        assert {gap.baseline for gap in rows} == {best}
        assert [gap.target for gap in rows] == sorted(set("abc") - {best})
        assert all(gap.gap >= 0 for gap in rows)


def test_best_is_never_a_group_too_small_to_tell():
    h = np.r_[[1, 1, 1], np.tile([0, 1], 50)]
    s = np.repeat(["few", "many", "more"], [3, 50, 50])
    audited = audit(h, None, np.arange(103) % 2, sensitive_features=s, metrics=["sp"])
    assert {gap.baseline for gap in audited} <= {"many", "more"}


def test_named_reference():
    _, h, y, s, _ = people()
    audited = audit(h, None, y, sensitive_features=s, reference="b")
    assert [(gap.target, gap.baseline) for gap in audited] == [("a", "b"), ("c", "b")] * 4
    assert audited.reference == "b"
    with pytest.raises(DataError, match="reference"):
        audit(h, None, y, sensitive_features=s, reference="d")


def test_rest_is_everybody_else():
    _, h, y, s, w = people()
    audited = audit(h, None, y, sensitive_features=s, sample_weight=w, reference="rest")
    assert [gap.target for gap in audited] == list("abc") * 4
    for gap in audited:
        other = s != gap.target
        assert gap.baseline == "rest"
        assert gap.n_baseline == other.sum()
        expected = rate(gap.metric, h[other], y[other], w[other])
        np.testing.assert_allclose(gap.baseline_rate, expected, atol=ROUNDING)
    h, y, s = counted((80, 100), (20, 100))
    assert (
        audit(h, None, y, sensitive_features=s, reference="rest")
        .verdict()
        .endswith(
            "80.0 % of t and 20.0 % of the rest get a negative decision, a gap of +60.0 points "
            "over 100 people."
        )
    )


def test_intersections():
    _, h, y, s, _ = people()
    t = np.where(np.arange(len(y)) % 2 == 0, "old", "young")
    audited = audit(h, None, y, sensitive_features=pd.DataFrame({"s": s, "t": t}), reference="rest")
    assert audited.attribute == "s & t"
    assert {gap.target for gap in audited} == {
        f"{a} & {b}" for a, b in product("abc", ("old", "young"))
    }
    gap = audited["fpr", "b & old"]
    mine = (s == "b") & (t == "old")
    np.testing.assert_allclose(gap.target_rate, rate("fpr", h[mine], y[mine], 1.0), atol=ROUNDING)


def test_swapped_groups_mirror():
    _, h, y, s, w = people()
    there, back = (
        audit(h, None, y, sensitive_features=s, sample_weight=w, reference=reference)
        for reference in ("a", "b")
    )
    for metric in METRICS:
        one, other = there[metric, "b"], back[metric, "a"]
        expected = (-other.gap, -other.high, -other.low, other.p_value, other.n_baseline)
        found = (one.gap, one.low, one.high, one.p_value, one.n_target)
        np.testing.assert_allclose(found, expected, atol=ROUNDING)


def test_the_order_of_people_does_not_matter():
    score, _, y, s, w = people()
    order = np.random.default_rng(3).permutation(len(y))
    one = audit(score, None, y, sensitive_features=s, sample_weight=w)
    other = audit(score[order], None, y[order], sensitive_features=s[order], sample_weight=w[order])
    pd.testing.assert_frame_equal(one.to_frame(), other.to_frame(), rtol=1e-10)
    pd.testing.assert_frame_equal(one.groups_to_frame(), other.groups_to_frame(), rtol=1e-10)


def test_flipped_classes_swap_fnr_and_fpr():
    _, h, y, s, w = people()
    kwargs = {"sensitive_features": s, "sample_weight": w, "reference": "a"}
    one, other = audit(h, None, y, **kwargs), audit(1 - h, None, 1 - y, **kwargs)
    for metric, flipped in (("fnr", "fpr"), ("fpr", "fnr")):
        for group in "bc":
            for name in ("target_rate", "gap", "low", "high", "p_value"):
                np.testing.assert_allclose(
                    getattr(one[metric, group], name),
                    getattr(other[flipped, group], name),
                    atol=ROUNDING,
                )


# -------------------------------------------------------------------- too few to say


@pytest.mark.parametrize("positives", [0, 1])
def test_a_group_with_hardly_a_positive_has_no_false_negative_rate(positives):
    _, h, y, s, _ = people()
    y = y.copy()
    y[s == "b"] = 0
    y[np.flatnonzero(s == "b")[:positives]] = 1
    audited = audit(h, None, y, sensitive_features=s, reference="a")
    unknown = audited["fnr", "b"]
    assert not unknown.judged
    assert unknown.note.startswith("too few to say")
    assert unknown.given_target == positives
    assert np.isnan([unknown.target_rate, unknown.low, unknown.p_value, unknown.p_adjusted]).all()
    others = [gap for gap in audited if (gap.metric, gap.target) != ("fnr", "b")]
    assert len(others) == 7
    tested = [gap.p_value for gap in others if gap.judged]
    assert not np.isnan(tested).any()
    expected = closed_testing(tested)
    np.testing.assert_allclose([g.p_adjusted for g in others if g.judged], expected, atol=ROUNDING)


def test_a_small_group_shows_no_rates_anywhere():
    score, _, y, s, _ = people()
    s = s.astype(object)
    s[:4] = "few"
    audited = audit(score, None, y, sensitive_features=s)
    few = next(group for group in audited.groups if group.group == "few")
    assert few.n == 4
    assert few.below_four_fifths is None
    shown = [few.base_rate, few.selection_rate, few.impact_ratio, few.accuracy, few.auc]
    assert np.isnan(shown).all()
    assert all(not gap.judged for gap in audited if gap.target == "few")
    assert audited["fnr", "few"].note == "too few to say"
    assert audited.verdict().endswith(" 4 other gaps cannot be judged.")


def test_auc_needs_both_outcomes():
    score, _, y, s, _ = people()
    y = np.where((s == "b") & (np.cumsum(s == "b") > 4), 0, 1 - (score > 0.3))
    groups = {group.group: group for group in audit(score, None, y, sensitive_features=s).groups}
    assert np.isnan(groups["b"].auc)
    assert not np.isnan(groups["b"].accuracy)
    assert not np.isnan(groups["a"].auc)


def test_few_people_who_weigh_much_are_few():
    h, y, s = counted((15, 30), (50, 100))
    weight = np.ones(130)
    weight[:2] = 1_000.0
    audited = audit(
        h, None, y, sensitive_features=s, sample_weight=weight, metrics=["sp"], reference="b"
    )
    assert audited.gaps[0].note == "too few to say: 30 people worth 2.1"


def test_nothing_at_all_to_say():
    audited = audit([0, 1, 1, 0], None, [0, 1, 0, 1], sensitive_features=list("aabb"))
    assert audited.verdict() == "No gap can be judged: see the notes for why."
    assert not any(gap.judged for gap in audited)


# -------------------------------------------------------------------- other disparities


def test_alignment_is_tested_as_its_decisions_are():
    _, h, y, s, _ = people()
    audited = audit(h, None, y, sensitive_features=s, metrics=["sp", "da"], reference="a")
    for group in "bc":
        aligned = audited["da", group]
        assert aligned.p_value == audited["sp", group].p_value
        assert 0 <= aligned.low <= aligned.gap <= aligned.high
        assert (aligned.low > 0) == (aligned.p_value < 0.05)
        mu0, mu1 = h[s == group].mean(), h[s == "a"].mean()
        expected = mu0 * np.log(mu0 / mu1) + (1 - mu0) * np.log((1 - mu0) / (1 - mu1))
        np.testing.assert_allclose(aligned.gap, expected, atol=ROUNDING)


def test_alignment_of_groups_exactly_alike():
    h, y, s = counted((20, 40), (20, 40))
    gap = audit(h, None, y, sensitive_features=s, metrics=["da"]).gaps[0]
    assert gap.gap == gap.low == 0
    assert 0 < gap.high < 0.2
    assert gap.p_value == pytest.approx(1, abs=1e-9)


def test_alignment_without_variation():
    one_for_all = tabulate(np.ones(40, int), None, [0, 1] * 20, sensitive_features=["a", "b"] * 20)
    [gap] = audit_data(one_for_all, metrics=["da"]).gaps
    assert gap.gap == gap.low == 0
    assert 0 < gap.high < 1
    h, y, s = counted((10, 20), (20, 20))
    never = audit(h, None, y, sensitive_features=s, metrics=["da", "sp"], reference="b")
    assert never["da", "t"].note.startswith("not finite")
    assert never["sp", "t"].p_adjusted == never["sp", "t"].p_value


def test_small_groups_are_not_aligned():
    h, y, s = counted((2, 4), (50, 100))
    audited = audit(h, None, y, sensitive_features=s, metrics=["da", SP + Alignment()])
    assert not any(gap.judged for gap in audited)


def test_mixed_disparities_have_intervals_but_no_test():
    _, h, y, s, _ = people()
    mixed = -1 * SP + 0.1 * Alignment()
    audited = audit(h, None, y, sensitive_features=s, metrics=[mixed, "sp"], reference="a")
    gap = audited[mixed.name, "b"]
    assert gap.low < gap.gap < gap.high
    assert gap.low < 0
    assert np.isnan(gap.p_value)
    assert np.isnan(gap.p_adjusted)
    expected = closed_testing([audited["sp", g].p_value for g in "bc"])
    np.testing.assert_allclose([audited["sp", g].p_adjusted for g in "bc"], expected, atol=ROUNDING)


def test_exact_distributions_are_audited_without_doubt():
    audited = audit_data(example_one().tabulated(), metrics=["sp", "fpr", "da", Alignment(0.5)])
    for gap in audited:
        assert gap.low == gap.gap == gap.high
        assert np.isnan(gap.p_value)
        assert gap.note == "exact"
    assert audited.exact
    assert audited.verdict().startswith("These are the gaps of the distribution itself.")
    assert "0 people" not in str(audited)


def test_exact_groups_cannot_be_pooled():
    two = example_one().tabulated()
    three = replace(two, groups=("a", "b", "c"), populations=(*two.populations, two.populations[0]))
    with pytest.raises(DataError, match="rest"):
        audit_data(three, reference="rest")
    gap = audit_data(two, reference="rest", metrics=["fpr"])["fpr", "target"]
    assert gap.gap == audit_data(two, metrics=["fpr"])["fpr", "target"].gap


# -------------------------------------------------------------------- what people see


def test_frame_starts_with_the_agreed_columns():
    _, h, y, s, _ = people()
    frame = audit(h, None, y, sensitive_features=s).to_frame()
    assert list(frame.columns[:11]) == COLUMNS
    assert len(frame) == 8
    assert frame["gap"].dtype == float
    assert list(audit(h, None, y, sensitive_features=s).groups_to_frame()["group"]) == list("abc")


def test_to_dict_is_json():
    score, _, y, s, w = people()
    labels = {"a": date(2020, 1, 1), "b": date(2021, 1, 1), "c": date(2022, 1, 1)}
    s = np.array([labels[g] for g in s], object)
    s[:3] = date(1999, 1, 1)
    audited = audit(score, None, y, sensitive_features=s, sample_weight=w, metrics=[*METRICS, "da"])
    back = json.loads(json.dumps(audited.to_dict(), allow_nan=False))
    assert back["schema"] == "fairmend.audit/1"
    assert back["weighted"] is True
    assert back["gaps"][0]["target"] == "1999-01-01"
    assert back["gaps"][0]["gap"] is None
    assert back["groups"][1]["auc"] == audited.groups[1].auc
    assert set(back["metrics"]) == {*METRICS, "da"}
    assert [gap["p_value"] for gap in back["gaps"][1:3]] == [g.p_value for g in audited.gaps[1:3]]


def test_html_escapes_groups():
    _, h, y, s, _ = people()
    s = np.where(s == "c", "<script>alert(1)</script>", s)
    h = np.where(s == "a", 1, h)  # so that the verdict names it too
    html = audit(h, None, y, sensitive_features=s, metrics=["sp"])._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html


def test_print_is_a_readable_table():
    h = np.repeat([1, 0, 1, 0, 1], [20, 80, 45, 55, 3])
    sex = np.repeat(["Female", "Male", "X"], [100, 100, 3])
    y = np.arange(203) % 2
    s = pd.Series(sex, name="sex")
    expected = """\
Audit of 203 people in 3 groups by sex
metric  group   against  its rate  other's    gap   95 % interval       p  p Holm     people
sp      Female  Male       80.0 %   55.0 %  +25.0  +12.1 to +37.0  < .001  < .001  100 : 100
sp      X       Male            –        –      –               –       –       –    3 : 100  too few to say
fnr     Female  Male       80.0 %   56.0 %  +24.0   +5.6 to +40.6    .010    .010    50 : 50
fnr     X       Male            –        –      –               –       –       –     1 : 50  too few to say
sp: statistical parity, the share of negative decisions
fnr: false negative rate, negative decisions among positive outcomes
gap: in percentage points; people: those the two rates are over

group   people  positive outcomes  positive decisions  impact ratio             accuracy  AUC
Female     100             50.0 %              20.0 %          0.44  below 0.8    50.0 %    –
X            3                  –                   –             –                    –    –
Male       100             50.0 %              45.0 %          1.00               49.0 %    –

2 of 2 gaps are significant at 95 % confidence (Holm-corrected for all gaps tested). The worst by
points times people: 80.0 % of Female and 55.0 % of Male get a negative decision, a gap of +25.0
points over 100 people. 2 other gaps cannot be judged."""  # noqa: E501
    assert str(audit(h, None, y, sensitive_features=s, metrics=["sp", "fnr"])) == expected


def crowd(*groups):
    """Groups of (label, people, of these decided negatively), every outcome negative in turn."""
    s, h = [], []
    for label, n, refused in groups:
        s += [label] * n
        h += [0] * refused + [1] * (n - refused)
    return np.array(h), np.arange(len(h)) % 2, np.array(s)


def test_the_headline_is_the_worst_by_people_and_points():
    """The widest gap is that of 20 people, the worst that of 2,000."""
    h, y, s = crowd(("z small", 20, 16), ("b large", 2_000, 800), ("a best", 2_000, 400))
    found = audit(h, None, y, sensitive_features=s, metrics=["sp"])
    assert max(found.gaps, key=lambda gap: gap.gap).target == "z small"
    assert all(gap.survives(0.95) for gap in found.gaps)
    assert found.verdict().endswith(
        "The worst by points times people: 40.0 % of b large and 20.0 % of a best get a negative "
        "decision, a gap of +20.0 points over 2,000 people."
    )
    assert found.worst_first() == ("b large", "z small", "a best")


def test_what_is_not_significant_is_no_headline_and_comes_later():
    h, y, s = crowd(("b", 300, 160), ("c", 1_000, 330), ("a", 1_000, 300), ("d", 1_000, 303))
    found = audit(h, None, y, sensitive_features=s, metrics=["sp"], reference="a")
    harms = {gap.target: gap.harm for gap in found.gaps}
    assert harms["b"] == pytest.approx(70)
    assert " of b and 30.0 % of a get a negative decision" in found.verdict()
    assert found.worst_first() == ("b", "c", "d", "a"), "the reference last"
    shown = [line.split()[1] for line in str(found).splitlines() if line.startswith("sp  ")]
    assert shown == ["b", "c", "d"]
    assert found.to_frame()["target"].tolist() == ["b", "c", "d"]


def test_a_better_off_group_is_no_headline_while_another_is_worse_off():
    h, y, s = crowd(("better", 4_000, 400), ("worse", 200, 140), ("reference", 1_000, 500))
    found = audit(h, None, y, sensitive_features=s, metrics=["sp"], reference="reference")
    assert "70.0 % of worse and 50.0 % of reference get a negative decision" in found.verdict()
    assert found.worst_first() == ("worse", "better", "reference")


def test_verdict_of_a_fair_model():
    h, y, s = counted((50, 100), (51, 100))
    fair = audit(h, None, y, sensitive_features=s, confidence=0.999)
    assert fair.verdict() == (
        "None of the 4 gaps is significant at 99.9 % confidence (Holm-corrected for all gaps "
        "tested). That is not proof that there is none."
    )
    one = audit(h, None, y, sensitive_features=s, metrics=["sp"])
    assert one.verdict().startswith("The gap is not significant")
    untested = audit(h, None, y, sensitive_features=s, metrics=[SP + Alignment()])
    assert untested.verdict().startswith("There is no test for these gaps.")


def test_weighted_audits_say_so():
    _, h, y, s, w = people()
    said = "Rates are weighted; people are counted."
    assert said in str(audit(h, None, y, sensitive_features=s, sample_weight=w))
    assert said not in str(audit(h, None, y, sensitive_features=s))
    assert "Audit of 900 people" in str(audit(h, None, y, sensitive_features=s, sample_weight=w))


def test_a_gap_is_found_by_metric_and_group():
    _, h, y, s, _ = people()
    audited = audit(h, None, y, sensitive_features=s, reference="a")
    assert audited["fnr", "b"].metric == "fnr"
    with pytest.raises(KeyError, match="fnr"):
        audited["fnr", "a"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"confidence": 1}, "confidence"),
        ({"confidence": 95}, "between 0 and 1"),
        ({"metrics": "sp"}, "must be a list"),
        ({"metrics": []}, "at least one metric"),
        ({"metrics": ["tpr"]}, "must be one of"),
        ({"reference": "Z"}, "reference"),
    ],
)
def test_arguments_are_checked(arguments, complaint):
    with pytest.raises(DataError, match=complaint):
        audit([0, 1, 0, 1], None, [0, 1, 1, 0], sensitive_features=list("aabb"), **arguments)


def test_auc_of_all_ties_is_a_half():
    tied = Population.of([1, 2, 3], [1, 1, 1], [0.2, 0.5, 0.9], score=np.full(3, 0.7))
    assert auc(tied) == pytest.approx(0.5, abs=ROUNDING)


def test_without_outcomes_decisions_alone_are_compared():
    """As in Local Law 144: who is selected is known, who would have done well is not."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 2))
    s = rng.choice(["a", "b"], 500)
    y = rng.integers(0, 2, 500)
    known = audit(lambda rows: rows[:, 0] > 0.3, X, y, sensitive_features=s, metrics=["sp"])
    for found in (
        audit(lambda rows: rows[:, 0] > 0.3, X, None, sensitive_features=s),
        audit(X[:, 0] > 0.3, None, None, sensitive_features=s),
    ):
        assert [(g.metric, g.gap, g.low, g.high, g.p_value) for g in found.gaps] == [
            (g.metric, g.gap, g.low, g.high, g.p_value) for g in known.gaps
        ]
        for told, true in zip(found.groups, known.groups, strict=True):
            assert (told.impact_ratio, told.selection_rate) == (
                true.impact_ratio, true.selection_rate,
            )  # fmt: skip
            assert np.isnan([told.base_rate, told.accuracy, told.auc]).all()
        assert "nan" not in str(found)


@pytest.mark.parametrize(("a", "n", "k", "m"), [(6, 10, 15, 20), (2, 25, 1, 10), (6, 25, 3, 10)])
def test_four_fifths_are_not_below_four_fifths(a, n, k, m):
    """a of n is exactly 4/5 of k of m, and one person less is not."""
    assert 5 * a * m == 4 * k * n
    for selected, below in ((a, False), (a - 1, True)):
        h = np.repeat([1, 0, 1, 0], [selected, n - selected, k, m - k])
        found = audit(h, None, None, sensitive_features=np.repeat(["a", "b"], [n, m]))
        assert found.groups[0].below_four_fifths is below


def test_alignment_of_decisions_needs_no_outcomes():
    rng = np.random.default_rng(0)
    h, y, s = rng.integers(0, 2, 300), rng.integers(0, 2, 300), rng.choice(["a", "b"], 300)
    known, unknown = (
        audit(h, None, outcome, sensitive_features=s, metrics=["da", 0.5 * SP]).gaps
        for outcome in (y, None)
    )
    for one, other in zip(known, unknown, strict=True):
        assert (one.gap, one.low, one.high, one.p_value) == pytest.approx(
            (other.gap, other.low, other.high, other.p_value), abs=ROUNDING
        )


@pytest.mark.parametrize("y", [[None] * 4, [float("nan")] * 4])
def test_outcomes_that_nobody_has_are_said_to_be_missing(y):
    with pytest.raises(DataError, match="y: must be known for every person; got 4 missing"):
        audit(np.array([1, 0, 1, 0]), None, y, sensitive_features=["a", "b", "a", "b"])


@pytest.mark.parametrize(
    ("metrics", "unit"),
    [(["sp"], "in percentage points"), (["da"], "as said above"),
     (["sp", "da"], "in percentage points, or as said above"),
     ([0.5 * SP], "in percentage points")],
)  # fmt: skip
def test_the_legend_says_in_what_the_gaps_are(metrics, unit):
    """Distribution alignment is a divergence, no difference of rates."""
    h, y, s = crowd(("b", 300, 160), ("a", 300, 100))
    assert f"gap: {unit}; people" in str(audit(h, None, y, sensitive_features=s, metrics=metrics))
