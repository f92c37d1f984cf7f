"""Reports of every kind become pages: whatever is missing is left out, and nothing breaks."""

import re
import warnings

import numpy as np
import pytest

from fairmend import BlackBox, Cost, FairmendWarning, RepairedClassifier, audit
from fairmend.datasets import toy_descent
from fairmend.measure.disparity import words_of


def people(seed, n=900, groups=("a", "b")):
    rng = np.random.default_rng(seed)
    s = rng.choice(groups, n)
    X = np.round(rng.normal(size=(n, 3)), 1)
    X[:, 0] -= 0.6 * (s != "a")
    y = (rng.random(n) < 1 / (1 + np.exp(-X[:, 0]))).astype(int)
    return X, y, s


def chance(rows):
    return 1 / (1 + np.exp(-rows[:, 0] - 0.5 * rows[:, 1]))


def labels(rows):
    return (chance(rows) > 0.5).astype(int)


KINDS = {
    "soft": (BlackBox(chance, soft=True), {"disparity": "sp"}, {}),
    "labels, two gaps": (labels, {"disparity": ["fnr", "sp"]}, {}),
    "alignment": (chance, {"disparity": "da"}, {}),
    "three groups, half way": (
        chance,
        {"disparity": "sp", "level": 0.5},
        {"groups": ("a", "b", "c")},
    ),
    "favourable is no": (chance, {"disparity": "sp", "favorable_label": 0}, {}),
    "both sides": (chance, {"disparity": "sp", "two_sided": True}, {}),
    "little may change": (
        chance,
        {"disparity": "fnr", "cost": Cost(immutable=["x0", "x1"])},
        {},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_report_has_its_page(kind):
    model, settings, who = KINDS[kind]
    X, y, s = people(0, **who)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairmendWarning)
        kept = RepairedClassifier(model, random_state=0, **settings)
        kept.fit(X, y, sensitive_features=s)
        new_X, new_y, new_s = people(1, **who)
        report = kept.report(
            new_X, new_y, sensitive_features=new_s, frontier=True, levels=[1.0, 0.0, 0.5]
        )
    html = report.to_html()
    assert html.count("<section") == 8
    assert not re.search(r"\bnan\b", html, re.IGNORECASE)
    for name in ("frontier", "explanation", "filing", "provenance", "plans", "verdict"):
        assert report.to_dict()[name]
    started = re.search(r'type="range"[^>]*value="(\d)"', html)[1]
    assert started == ("1" if settings.get("level") == 0.5 else "2")


def test_an_exact_distribution_has_no_people_to_file():
    data = toy_descent().tabulated()
    from fairmend import audit_data

    html = audit_data(data).to_html()
    assert "Tables to file" in html
    assert "ll144" not in html


def test_weights_are_said_and_their_intervals_left_out():
    X, y, s = people(0)
    found = audit(chance, X, y, sensitive_features=s, sample_weight=1.0 + (X[:, 1] > 0))
    html = found.to_html()
    assert "Rates are weighted; people are counted." in html
    assert re.search(r'class="number" data-order="">–</td>', html)


def test_groups_too_small_to_judge_still_have_a_page():
    found = audit([1, 0, 1, 0, 1, 1], None, [1, 0, 0, 1, 1, 0], sensitive_features=list("aaabbb"))
    html = found.to_html()
    assert "No gap can be judged" in html
    assert "fewer than 5 people: not judged" in html


def figures(report):
    """The labels and figures of the cards below the verdict."""
    pairs = r'<span class="label">([^<]*)</span> <strong>([^<]*)</strong>'
    return dict(re.findall(pairs, report.to_html()))


def reported(metric, groups, few):
    """A repair on one sample, reported on another that has ``few`` people of the last group."""
    X, y, s = people(0, groups=groups)
    new_X, new_y, new_s = people(1, groups=groups)
    kept = np.flatnonzero((new_s != groups[-1]) | (np.cumsum(new_s == groups[-1]) <= few))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairmendWarning)
        repaired = RepairedClassifier(chance, metric, random_state=0).fit(
            X, y, sensitive_features=s
        )
        return repaired.report(new_X[kept], new_y[kept], sensitive_features=new_s[kept])


def test_a_divergence_is_no_gap_in_points():
    report = reported("da", ("a", "b"), 900)
    [gap] = [gap for gap in report.before.gaps if gap.metric == "da"]
    title = words_of("da").title
    assert figures(report)[f"gap in {title}, b"].startswith(f"{gap.gap:.3f} → ")
    assert f"is {gap.gap:.3f} (95 % interval" in report.verdict()[0][1]


def test_a_gap_of_too_few_people_is_called_so():
    report = reported("fnr", ("a", "b", "c"), 3)
    shown = figures(report)
    assert "→" in shown["gap in false negative rate, b, points"]
    assert "–" not in shown.values()
    page = report.to_html()
    row = page[page.index('<div class="name">c') :]
    [gap] = [gap for gap in report.before.gaps if (gap.metric, gap.target) == ("fnr", "c")]
    assert gap.note
    assert gap.note in row[: row.index("</div>\n</div>")]
