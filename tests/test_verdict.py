"""The report in words: every answer follows from the figures."""

from dataclasses import replace

import numpy as np
import pytest

from fairmend import RepairedClassifier, audit
from fairmend.audit import Gap
from fairmend.verdict import audit_verdict, in_words


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


def test_five_questions_answered_from_the_figures(report):
    answers = dict(report.verdict())
    assert len(answers) == 5
    old, new = report.before["sp", "b"], report.after["sp", "b"]
    group = report.groups[1]
    there = answers["Is there a gap?"]
    assert f"Yes: {100 * old.target_rate:.1f} % of b" in there
    assert f"a gap of {100 * old.gap:+.1f} points" in there
    sure = answers["How sure is that?"]
    assert f"{100 * old.low:+.1f} to {100 * old.high:+.1f} points" in sure
    assert "It is more than chance (p < .001" in sure
    assert answers["Can any distribution of inputs close it?"].startswith("The gap can be closed")
    done = answers["What does the repair do, and to whom?"]
    assert (
        f"Of {group.n:,} people in b it edits the inputs of {round(group.edited * group.n)}" in done
    )
    assert "nobody loses it" in done
    assert "No decision about a changes." in done
    left = answers["What is left?"]
    assert f"from {100 * old.gap:+.1f} to {round(100 * new.gap, 1) + 0.0:+.1f} points" in left
    assert f"The sp gap of b goes from {100 * old.gap:+.1f}" in left


def test_losses_draws_and_the_unreachable_are_named(report):
    worse = replace(report.groups[1], lost=0.25, randomised=0.5, unreachable=0.1)
    said = dict(replace(report, groups=(report.groups[0], worse)).verdict())
    done = said["What does the repair do, and to whom?"]
    n = worse.n
    assert f"{round(0.25 * n):,} (25.0 %) lose it" in done
    assert f"For {round(0.5 * n):,} (50.0 %) a draw keyed on the person decides." in done
    assert "no allowed edit reaches them" in done


def test_its_best_case_is_called_so():
    X, y, s = people(0)
    kept = RepairedClassifier(vendor, "sp", random_state=0).fit(X, y, sensitive_features=s)
    own = kept.report(X, y, sensitive_features=s)
    assert dict(own.verdict())["What is left?"].startswith("This is on the very people")


@pytest.mark.parametrize(
    ("apart", "words", "never"),
    [
        (True, "This is on 2,000 people the repair was not fitted on.", "audited too is not known"),
        (False, "This is on the very people the repair was fitted on", "not fitted on"),
        (None, "on the 2,000 people of this report; whether some of them were audited too is not "
         "known.", "not fitted on"),
    ],
)  # fmt: skip
def test_nobody_is_called_kept_apart_unless_the_caller_knows(apart, words, never):
    X, y, s = people(0)
    kept = RepairedClassifier(vendor, "sp", random_state=0).fit(X, y, sensitive_features=s)
    half = X.copy(), y.copy(), s.copy()
    half[0][1_000:], half[1][1_000:], half[2][1_000:] = (part[1_000:] for part in people(1))
    report = kept.report(half[0], half[1], sensitive_features=half[2], apart=apart)
    assert report.apart is report.to_dict()["provenance"]["apart"] is apart
    for told in (dict(report.verdict())["What is left?"], str(report), report.to_html()):
        assert words in told
        assert never not in told
    own = kept.report(X, y, sensitive_features=s, apart=apart)
    assert own.apart is False, "equal hashes: these are the very people, whatever was said"


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


def test_nobody_worse_off_means_nothing_done():
    X, y, _ = people(0, shift=0.0)
    s = np.tile(["a", "b"], 1_000)
    X[1::2], y[1::2] = X[::2], y[::2]
    kept = RepairedClassifier(vendor, "sp", random_state=0).fit(X, y, sensitive_features=s)
    report = kept.report(X, y, sensitive_features=s)
    assert report.explanation is None
    assert report.verdict()[-1][1].startswith("Nothing to anybody")
    assert "No group fared worse than the reference" in report.to_html()


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
        "positive decision, a gap of +10.0 points."
    )
    nan = float("nan")
    unknown = replace(GAP, gap=nan, note="too few people")
    assert in_words(unknown) == "The gap in fpr of a cannot be judged: too few people."
    aligned = replace(GAP, metric="da", target_rate=nan, gap=0.25)
    assert in_words(aligned) == "da of a against rest is 0.250."


def test_nobody_is_ever_absolved(report):
    assert "complian" not in str(report.to_dict()).lower()
