"""The report in words: every answer follows from the figures."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from fairmend import RepairedClassifier, audit, counterfactual
from fairmend.data.naming import GroupNames
from fairmend.measure.metrics import FNR, FPR, SP
from fairmend.measure.result import Gap, rates_in_words
from fairmend.measure.wording import share
from fairmend.report.verdict import (
    CLOSES,
    audit_headline,
    audit_lead,
    audit_verdict,
    carried,
    changes,
    headline,
    in_words,
    lead,
    ratios,
    reconcilable,
    remains,
    significant,
    worst_of,
)
from fairmend.tables import points


def people(seed, n=2_000, shift=0.8):
    rng = np.random.default_rng(seed)
    s = rng.choice(["a", "b"], n)
    x = np.round(rng.normal(size=n) - shift * (s == "b"), 1)
    return x[:, None], (rng.random(n) < 1 / (1 + np.exp(-x))).astype(int), s


def vendor(rows):
    return 1 / (1 + np.exp(-rows[:, 0]))


@pytest.fixture(scope="module")
def report():
    X, y, s = people(0)
    kept = RepairedClassifier(vendor, "sp", random_state=0).fit(X, y, sensitive_features=s)
    X, y, s = people(1)
    return kept.report(X, y, sensitive_features=s)


GAPS = "Is there a gap, how sure is that, and what becomes of it?"


def test_four_questions_answered_from_the_figures(report):
    answers = dict(report.verdict())
    assert len(answers) == 4
    assert not any("\n" in answer for answer in answers.values()), "one group, no lists"
    old, new = report.before["sp", "b"], report.after["sp", "b"]
    group = report.groups[1]
    there = answers[GAPS]
    assert f"Yes: {100 * old.target_rate:.1f} % of b" in there
    assert f"a gap of {100 * old.gap:+.1f} points" in there
    assert f"(95 % interval {100 * old.low:+.1f} to {100 * old.high:+.1f}, from" in there
    assert "It is significant (p < .001, Holm-corrected for all gaps tested)" in there
    assert re.search(rf"The repair .* {re.escape(points(new.gap))} points \(", there)
    assert there.endswith("which is not significant: that is no proof that no gap is left.")
    assert answers["Can any distribution of inputs close it?"].startswith("The gap can be closed")
    done = answers["What does the repair do, and to whom?"]
    assert f"Of {group.n:,} people in b it edits the inputs of {round(group.people_edited)}" in done
    assert "nobody loses it" in done
    assert "No decision about a changes." in done


def test_losses_draws_and_the_unreachable_are_named(report):
    n = report.groups[1].n
    worse = replace(
        report.groups[1],
        people_lost=0.25 * n,
        people_randomised=0.5 * n,
        people_unreachable=0.1 * n,
    )
    said = dict(replace(report, groups=(report.groups[0], worse)).verdict())
    done = said["What does the repair do, and to whom?"]
    assert f"{round(0.25 * n):,} (25.0 %) lose it" in done
    assert f"For {round(0.5 * n):,} (50.0 %) a draw keyed on the person decides." in done
    assert f"{round(0.1 * n):,} (10.0 %) should be edited but no allowed edit helps." in done


def test_its_best_case_is_called_so():
    X, y, s = people(0)
    kept = RepairedClassifier(vendor, "sp", random_state=0).fit(X, y, sensitive_features=s)
    own = kept.report(X, y, sensitive_features=s)
    assert dict(own.verdict())["What is left?"].startswith("This is on the very people")


@pytest.mark.parametrize(
    ("holdout", "words", "never"),
    [
        (True, "This is on 2,000 people the repair was not fitted on.", "audited too is not known"),
        (False, "This is on the very people the repair was fitted on", "not fitted on"),
        (None, "on the 2,000 people of this report; whether some of them were audited too is not "
         "known.", "not fitted on"),
    ],
)  # fmt: skip
def test_nobody_is_called_a_holdout_unless_the_caller_declares_it(holdout, words, never):
    X, y, s = people(0)
    kept = RepairedClassifier(vendor, "sp", random_state=0).fit(X, y, sensitive_features=s)
    half = X.copy(), y.copy(), s.copy()
    half[0][1_000:], half[1][1_000:], half[2][1_000:] = (part[1_000:] for part in people(1))
    report = kept.report(half[0], half[1], sensitive_features=half[2], holdout=holdout)
    assert report.holdout is report.to_dict()["provenance"]["holdout"] is holdout
    for told in (dict(report.verdict())["What is left?"], str(report), report.to_html()):
        assert words in told
        assert never not in told
    own = kept.report(X, y, sensitive_features=s, apart=holdout)  # its former name
    assert own.provenance.holdout is holdout
    assert own.holdout is False, "equal hashes: these are the very people, whatever was said"


def test_one_person_is_no_people():
    X, y, s = people(0)
    kept = RepairedClassifier(vendor, "sp", random_state=0).fit(X, y, sensitive_features=s)
    at = np.r_[np.flatnonzero(s == "a")[:50], np.flatnonzero(s == "b")[:1]]
    report = kept.report(X[at], y[at], sensitive_features=s[at])
    assert (
        "Of 1 person in b it edits"
        in dict(report.verdict())["What does the repair do, and to whom?"]
    )
    assert " 1 people" not in report.to_html()


@pytest.mark.parametrize("disparity", [FNR + FPR, 0.5 * SP, SP.mirror], ids=lambda one: one.name)
def test_a_sum_of_rates_is_no_share_of_people(disparity):
    """Of nobody is it said that 103 % of them do something."""
    rng = np.random.default_rng(0)
    s = np.repeat(["a", "b"], 500)
    h = (rng.random(1_000) < np.where(s == "a", 0.3, 0.7)).astype(int)
    y = rng.integers(0, 2, 1_000)
    [gap] = audit(h, None, y, sensitive_features=s, metrics=[disparity], reference="b")
    rates = f"{disparity.name} is {100 * gap.target_rate:.1f} % for a and "
    rates += f"{100 * gap.baseline_rate:.1f} % for b"
    assert rates in in_words(gap)
    assert rates_in_words(gap, GroupNames()) == rates


def test_nobody_worse_off_means_nothing_done():
    X, y, _ = people(0, shift=0.0)
    s = np.tile(["a", "b"], 1_000)
    X[1::2], y[1::2] = X[::2], y[::2]
    kept = RepairedClassifier(vendor, "sp", random_state=0).fit(X, y, sensitive_features=s)
    report = kept.report(X, y, sensitive_features=s)
    assert report.explanation is None
    assert report.verdict()[-1][1].startswith("Nothing to anybody")
    html = report.to_html()
    assert "no group was found to fare worse than the reference" in html
    assert report.before.verdict().endswith("That is not proof that there is none.")
    assert html.count("That is not proof") == 1, "the headline, and nothing says it again"


QUESTION = "Can any distribution of inputs close it?"


def test_a_group_with_one_outcome_has_a_report_without_an_explanation():
    X, y, s = people(0)
    low = np.argsort(X[:, 0])[:40]
    X, y, s = np.r_[X, X[low]], np.r_[y, np.ones(40, int)], np.r_[s, ["d"] * 40]
    kept = RepairedClassifier(vendor, "fnr", random_state=0).fit(X, y, sensitive_features=s)
    assert kept.plan_.target == "d"
    report = kept.report(X, y, sensitive_features=s)
    assert report.explanation is None
    assert dict(report.verdict())[QUESTION] == (
        "This is not known: P(Y=1 | x, d) must see both outcomes to be learnt, in the data and "
        "in each fold of them; got 40 positive and 0 negative."
    )
    assert "This is not known: P(Y=1 | x, d)" in report.to_html()
    short = kept.report(X, y, sensitive_features=s, explanation=False)
    assert dict(short.verdict())[QUESTION] == "This was not computed."


def test_decisions_that_differ_at_equal_inputs_are_told_where_they_can():
    X, y, s = people(0)
    said = X[:, 0] > np.where(s == "a", -0.5, 0)  # the model on record reads the group
    table = pd.DataFrame({"x": X[:, 0], "said": said.astype(int)})
    kept = RepairedClassifier("said", "sp", random_state=0).fit(table, y, sensitive_features=s)
    told = dict(kept.report(table, y, sensitive_features=s).verdict())[QUESTION]
    assert told.endswith(f"{kept.counterfactual_.decision_difference}.")
    assert " points less often than the reference group " in told
    asked = RepairedClassifier(vendor, "sp", random_state=0).fit(X, y, sensitive_features=s)
    told = dict(asked.report(X, y, sensitive_features=s).verdict())[QUESTION]
    assert "qual inputs" not in told, "the model sees nothing else: that is no news"


def test_an_audit_names_who_is_below_four_fifths():
    s = np.repeat(["a", "b"], 100)
    h = np.r_[np.repeat([1, 0], [60, 40]), np.repeat([1, 0], [20, 80])]
    found = audit(h, None, np.tile([0, 1], 100), sensitive_features=s)
    (_, there), (_, low) = audit_verdict(found)
    assert there == found.verdict()
    assert low == "Impact ratio below 0.8: b (0.33)."
    even = audit(np.tile([0, 1], 100), None, np.tile([0, 1], 100), sensitive_features=s)
    assert audit_verdict(even)[1][1] == "No impact ratio is below 0.8."


GAP = Gap("fpr", "a", "rest", 0.5, 0.4, 0.1, -0.1, 0.3, 0.2, 9, 9, 0.2, 5, 5)


def test_gaps_in_words():
    assert in_words(GAP) == (
        "Perhaps: of those with a negative outcome, 50.0 % of a and 40.0 % of the rest get a "
        "positive decision, a gap of +10.0 points (95 % interval -10.0 to +30.0, from 5 and 5 "
        "people). It is not significant (p = .200, Holm-corrected for all gaps tested): "
        "chance alone can give such a gap. That is not proof that there is none."
    )
    nan = float("nan")
    unknown = replace(GAP, gap=nan, note="too few people")
    assert (
        in_words(unknown) == "The gap in false positive rate of a cannot be judged: too few people."
    )
    aligned = replace(GAP, metric="da", target_rate=nan, gap=0.25)
    assert in_words(replace(aligned, low=nan, high=nan, p_value=nan, p_adjusted=nan)) == (
        "The gap in distribution alignment of a against the rest is 0.250. There is no test for it."
    )
    assert "is 0.250 (95 % interval -0.100 to 0.300, from 5 and 5 people)" in in_words(aligned)


@pytest.mark.parametrize(
    ("gap", "interval", "p", "first", "sure"),
    [
        (0.1, (0.02, 0.18), 0.04, "Yes:", "It is significant (p = .040"),
        (0.1, (0.02, 0.18), 0.126, "Perhaps:", "It is significant on its own, not after Holm's"),
        (0.1, (-0.02, 0.22), 0.3, "Perhaps:", "It is not significant"),
        (-0.1, (-0.22, 0.02), 0.3, "Not on these people:", "It is not significant"),
        (-0.1, (-0.18, -0.02), 0.04, "No, the other way round:", "It is significant"),
    ],
)
def test_the_first_word_and_the_test_agree(gap, interval, p, first, sure):
    low, high = interval
    said = in_words(replace(GAP, gap=gap, low=low, high=high, p_adjusted=p))
    assert said.startswith(first)
    assert sure in said
    assert in_words(replace(GAP, p_adjusted=0.04), confidence=0.99).startswith("Perhaps:")


# -------------------------------------------------------------------- several groups


def crowd(seed, shift):
    """Three groups of equal size whose third is shifted by so much."""
    rng = np.random.default_rng(seed)
    s = np.repeat(["a", "b", "c\nc"], 1_000)
    x = np.round(rng.normal(size=3_000) - np.repeat([0, 0.8, shift], 1_000), 1)
    return x[:, None], (rng.random(3_000) < 1 / (1 + np.exp(-x))).astype(int), s


@pytest.fixture(scope="module")
def several():
    """A repair of two groups, of which one fares better than the reference here."""
    X, y, s = crowd(0, 0.4)
    kept = RepairedClassifier(vendor, "sp", reference="a", random_state=0)
    kept.fit(X, y, sensitive_features=s)
    audited = kept.audit_["sp", "c\nc"].gap
    X, y, s = crowd(1, -0.4)
    return kept.report(X, y, sensitive_features=s), audited


def test_each_of_several_groups_has_a_line(several):
    report, audited = several
    answers = dict(report.verdict())
    b, c = answers[GAPS].split("\n")
    assert b.startswith("Yes: ")
    assert "of b and" in b
    assert "where the repair was fitted" not in b.lower()
    assert c.startswith("No, the other way round: ")
    old, new = report.before["sp", "c\nc"], report.after["sp", "c\nc"]
    assert audited > 0 > old.gap > new.gap
    assert (
        f"Where the repair was fitted, the gap was {100 * audited:+.1f} points; here c c has no "
        f"gap to close, but is edited all the same. The repair widens it to {100 * new.gap:+.1f} "
        f"points ({100 * new.low:+.1f} to {100 * new.high:+.1f}), which is significant."
    ) in c
    done = answers["What does the repair do, and to whom?"].split("\n")
    assert [line[:22] for line in done] == [
        "Of 1,000 people in b i", "Of 1,000 people in c c", "No decision about a ch",
    ]  # fmt: skip
    can = answers["Can any distribution of inputs close it?"]
    assert can.startswith("This is about b, whose gap was the largest. The gap can be closed")


# -------------------------------------------------------------------- decisions and outcomes


def counted(group, before, after, *, favours_positive=True):
    """An outcome of 100 people from their (tp, fp, fn, tn), decisions turning one way only."""
    side = 1 if favours_positive else -1
    flipped = {
        "positive": side * (after[0] - before[0]), "negative": side * (after[1] - before[1]),
    }  # fmt: skip
    gained, lost = ({k: max(way * n, 0) for k, n in flipped.items()} for way in (1, -1))
    return replace(
        group, n=100, people_gained=sum(gained.values()), people_lost=sum(lost.values()),
        **{f"people_gained_{k}": n for k, n in gained.items()},
        **{f"people_lost_{k}": n for k, n in lost.items()},
    )  # fmt: skip


def test_more_favourable_decisions_and_the_outcomes_on_record(report):
    same = counted(report.groups[0], (40, 10, 10, 40), (40, 10, 10, 40))

    def left(*groups, **how):
        return dict(replace(report, groups=groups, **how).verdict())["What is left?"]

    given = counted(report.groups[1], (20, 10, 40, 30), (35, 15, 25, 25))
    assert (
        "In all 20 more people get the favourable decision (1): 15 had a positive outcome on "
        "record, 5 a negative one." in left(same, given)
    )
    freed = counted(same, (20, 10, 40, 30), (17, 2, 43, 38), favours_positive=False)
    assert (
        "In all 11 more people get the favourable decision (0): 8 had a negative outcome on "
        "record, 3 a positive one." in left(freed, favours_positive=False, favourable="0")
    )
    taken = counted(same, (40, 10, 10, 40), (33, 9, 17, 41))
    assert (
        "In all 12 more people get the favourable decision (1). Of those with a negative outcome "
        "on record, 4 more get it." in left(taken, given)
    )
    unknown = replace(given, people_gained_negative=float("nan"))
    assert "In all 20 more people get the favourable decision (1). " in left(same, unknown)
    assert "the favourable decision" not in left(same)


def test_nobody_is_ever_absolved(report):
    assert "complian" not in str(report.to_dict()).lower()


# -------------------------------------------------------------------- the first screen


def sentence(report):
    return "".join(text for _, text in headline(report, report.plans_in_order[0]))


def test_the_headline_says_who_is_treated_how_and_what_changes(report):
    old, new = report.before["sp", "b"], report.after["sp", "b"]
    assert sentence(report) == (
        f"{share(old.target_rate)} of b and {share(old.baseline_rate)} of a get a negative "
        f"decision. With the repair it is {share(new.target_rate)} of b. Nothing changes for a."
    )
    a = next(one for one in report.groups if one.group == "a")
    assert a.people_edited == a.gained == a.lost == 0
    assert dict(headline(report, report.plans[0]))["before"] == share(old.target_rate)
    # where the reference is repaired too its new rate is told, whatever it is
    both = replace(report, groups=tuple(replace(one, repaired=True) for one in report.groups))
    assert sentence(both).endswith(
        f"{share(new.target_rate)} of b and {share(new.baseline_rate)} of a."
    )
    [line] = lead(report, report.plans[0])
    assert line.startswith(f"The gap is {points(old.gap)} points: b fares worse (95 % interval")
    same = line.replace(": b fares worse", "").replace("The gap is", "a gap of")
    assert same in dict(report.verdict())[GAPS]


def test_what_cannot_be_judged_has_no_rates_in_the_headline(report):
    nothing = replace(report.before["sp", "b"], gap=np.nan, note="fewer than 5 people")
    unjudged = replace(
        report, before=replace(report.before, gaps=(nothing, *report.before.gaps[1:]))
    )
    assert sentence(unjudged) == (
        "The gap in statistical parity of b cannot be judged: fewer than 5 people."
    )


def test_what_remains_was_there_before_only_where_it_was(report):
    left = report.after["fnr", "b"]
    sure = replace(left, gap=0.2, low=0.1, high=0.3, p_adjusted=0.001)
    for gap, p, word in ((0.3, 0.001, "Still"), (0.3, 0.5, "With the repair"),
                         (-0.3, 0.001, "With the repair")):  # fmt: skip
        old = replace(report.before["fnr", "b"], gap=gap, p_adjusted=p)
        gaps = [tuple(new if one.metric == "fnr" else one for one in audit.gaps)
                for audit, new in ((report.before, old), (report.after, sure))]  # fmt: skip
        changed = replace(report, before=replace(report.before, gaps=gaps[0]),
                          after=replace(report.after, gaps=gaps[1]))  # fmt: skip
        [line] = [one for one in remains(changed) if "(gap +20.0 points)" in one]
        assert line.startswith(f"{word}, of those with a positive outcome, ")
        assert f"{share(sure.target_rate)} of b" in line
    none = tuple(replace(one, p_adjusted=0.9) for one in report.after.gaps)
    quiet = remains(replace(report, after=replace(report.after, gaps=none)))
    assert quiet == ["With the repair no gap that was compared is significant."]


def test_counts_and_ratios_are_those_of_the_audits(report):
    before, after = report.before, report.after
    counts = [sum(gap.survives(0.95) for gap in one if gap.judged) for one in (before, after)]
    assert significant(before, after) == (
        f"{counts[0]} of {len(before.gaps)} gaps are significant (Holm-corrected for all gaps "
        f"tested); with the repair, {counts[1]}."
    )
    first, *others = before.gaps
    unknown = replace(first, gap=float("nan"), note="too few people")
    sure = sum(gap.survives(0.95) for gap in others if gap.judged)
    assert significant(replace(before, gaps=(unknown, *others)), None) == (
        f"{sure} of {len(others)} gaps are significant (Holm-corrected for all gaps tested). 1 "
        "other gap cannot be judged."
    )
    assert significant(replace(before, gaps=(unknown,)), None) == "No gap can be judged."
    low = before.groups[1]
    assert low.below_four_fifths
    assert ratios(before, None).endswith(f"the most selected group: b ({low.impact_ratio:.2f}).")
    assert ratios(before, after).endswith("; with the repair, nobody.")
    worst = max((gap for gap in before if gap.survives(0.95)), key=lambda gap: gap.harm)
    assert share(worst.target_rate) in audit_headline(before)
    assert worst_of(before) == worst
    [line] = audit_lead(before)
    assert line.startswith(
        f"The gap is {points(worst.gap)} points: b has the higher rate (95 % interval "
        f"{points(worst.low)} to {points(worst.high)}, from {worst.given_target:,} and "
        f"{worst.given_baseline:,} people). It is significant ("
    )
    assert line.endswith(significant(before, None))
    nobody = replace(before, gaps=tuple(replace(one, p_adjusted=0.9) for one in before.gaps))
    assert audit_headline(nobody) == nobody.verdict()
    assert audit_lead(nobody) == [], "the headline says it"


def test_without_a_certificate_the_counterfactual_is_the_answer(report):
    for closed, status, said in ((True, "The gap is closed.", CLOSES),
                                 (False, "It is not.", "It is not.")):  # fmt: skip
        explanation = replace(report.explanation, certificate="", closed=closed, status=status)
        told = reconcilable(replace(report, explanation=explanation))
        assert told.startswith(said)
        assert "The gap is closed" not in told, "nobody's gap is: it is a finding"
    X, y, s = people(0)
    both = counterfactual(vendor, X, y, sensitive_features=s, disparity=["sp", "fnr"])
    assert both.certificate is None
    assert both._card().headline == CLOSES


def test_what_single_features_do_not_carry_is_carried_jointly(report):
    found = report.explanation
    first = replace(found.feature_scores[0], more_than_noise=True)

    def told(*shares, closed=True):
        scores = tuple(replace(first, feature=f"x{i}", share_of_gap=one)
                       for i, one in enumerate(shares))  # fmt: skip
        return carried(replace(found, feature_scores=scores, closed=closed))

    assert told(0.1, 0.3) == (
        "If one feature at a time moves to the counterfactual, x1 alone closes 30.0 % of the gap, "
        "all of them 40.0 % in sum; the rest is carried jointly."
    )
    assert told(0.9, 0.3).endswith("Features overlap: their parts add up to 120.0 %.")
    assert told(0.3) == (
        "If one feature at a time moves to the counterfactual, x0 alone closes 30.0 % of the gap."
    )
    assert told(0.3, -0.1).endswith("30.0 % of the gap; the others in sum widen it by 10.0 %.")
    assert told(-0.1, -0.2) == (
        "No feature that moves alone to the counterfactual closes a part of the gap."
    )
    assert "of what the counterfactual closes" in told(0.1, closed=False)
    noise = replace(found, feature_scores=(replace(first, more_than_noise=False),))
    assert carried(noise) == found.features_verdict


def test_what_cannot_be_judged_is_not_counted_among_the_others():
    """Four people of another group: their gaps are neither significant nor not."""
    s = np.repeat(["a", "b", "few"], [200, 200, 4])
    h = np.r_[np.tile([1, 1, 0, 0], 50), np.tile([1, 0, 0, 0, 0], 40), np.zeros(4, int)]
    y = np.arange(404) % 2
    found = audit(h, None, y, sensitive_features=s)
    judged = [gap for gap in found if gap.judged]
    k = sum(gap.survives(0.95) for gap in judged)
    assert (len(judged), len(found.gaps)) == (4, 8)
    said = f"{k} of 4 gaps are significant (Holm-corrected for all gaps tested)"
    assert significant(found, None) == f"{said}. 4 other gaps cannot be judged."
    assert ratios(found, None).endswith("selected group: b (0.40); not judged: few.")
    even = audit(np.r_[h[:200], h[:200], h[400:]], None, y, sensitive_features=s)
    assert audit_verdict(even)[1][1] == "Impact ratio below 0.8: nobody; not judged: few."


def test_what_cannot_be_judged_is_said_neither_to_narrow_nor_to_be_gone(report):
    """The people of a report may be too few, whatever became of those of the fit."""
    unknown = {
        side: replace(audit, gaps=tuple(
            replace(gap, gap=np.nan, target_rate=np.nan, note="too few to say")
            for gap in audit.gaps))
        for side, audit in (("before", report.before), ("after", report.after))
    }  # fmt: skip
    worse = tuple(replace(one, people_lost=9.0, people_gained=0.0) for one in report.groups)
    few = replace(report, groups=worse, **unknown)
    assert not any("narrows" in line for line in changes(few))
    assert remains(few)[0] == "With the repair no gap can be judged."


def test_a_gap_that_the_repair_brought_about_does_not_remain(report):
    [new] = [gap for gap in report.after.gaps if gap.metric == "fdr"]
    certain = replace(new, gap=0.2, low=0.1, high=0.3, p_adjusted=0.001)
    after = replace(
        report.after, gaps=tuple(certain if one is new else one for one in report.after)
    )
    said = dict(replace(report, after=after).verdict())["What is left?"]
    assert report.before["fdr", new.target].p_adjusted > 0.05
    assert "With the repair other gaps are significant: " in said
    assert "false discovery rate of b (+20.0 points)" in said
    assert "remain" not in said
