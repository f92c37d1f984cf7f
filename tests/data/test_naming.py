"""Groups have names that a reader can understand, and labels that a program can use."""

import numpy as np
import pandas as pd
import pytest

from fairmend import RepairedClassifier, audit, counterfactual
from fairmend.data.naming import GroupNames


@pytest.mark.parametrize(
    ("groups", "named"),
    [
        (("no", "yes"), ("afam = no", "afam = yes")),
        ((0, 1), ("afam = 0", "afam = 1")),
        ((False, True), ("afam = False", "afam = True")),
        (("N", "Y"), ("afam = N", "afam = Y")),
        (("t", "f"), ("afam = t", "afam = f")),
        (("yes", "no", "unknown"), ("afam = yes", "afam = no", "afam = unknown")),
        ((0, 1, 2), ("afam = 0", "afam = 1", "afam = 2")),
        (("F", "M"), ("F", "M")),
        (("White", "Black"), ("White", "Black")),
        (("N", "S"), ("N", "S")),
    ],
)
def test_codes_are_shown_with_their_attribute(groups, named):
    names = GroupNames("afam", groups)
    assert tuple(map(names, groups)) == named
    assert names("rest") == "the rest"


def test_intersections_name_every_attribute_where_one_is_coded():
    both = GroupNames("afam & sex", ("no & F", "no & M", "yes & F", "yes & M"))
    assert both("yes & F") == "afam = yes, sex = F"
    plain = GroupNames("race & sex", ("White & F", "Black & M"))
    assert plain("White & F") == "White & F"
    assert GroupNames("a & b", ("x & y & 1", "x & y & 0"))("x & y & 1") == "x & y & 1"


def coded(seed=0, n=3_000):
    rng = np.random.default_rng(seed)
    afam = rng.choice(["no", "yes"], n)
    x = rng.integers(0, 6, n) - (afam == "yes")
    y = (rng.random(n) < 1 / (1 + np.exp(2 - x))).astype(int)
    return pd.DataFrame({"x": x, "c": rng.integers(0, 2, n)}), y, pd.Series(afam, name="afam")


def vendor(rows):
    return 1 / (1 + np.exp(2.5 - rows["x"]))


def test_a_coded_group_has_its_name_in_every_text_and_its_label_in_every_table():
    X, y, afam = coded()
    found = audit(vendor, X, y, sensitive_features=afam)
    kept = RepairedClassifier(vendor, "fnr", random_state=0).fit(X, y, sensitive_features=afam)
    report = kept.report(X, y, sensitive_features=afam)
    closer = counterfactual(vendor, X, y, sensitive_features=afam, disparity="fnr")
    words = "\n".join(answer for _, answer in report.verdict())
    page = report.to_html()
    for text in (str(found), found.verdict(), str(kept.plan_), str(report), words, page,
                 found.to_html(), str(closer)):  # fmt: skip
        assert "afam = yes" in text
    for text in (found.verdict(), words, str(kept.plan_)):
        bare = text.replace("afam = yes", "").replace("afam = no", "").lower()
        assert " yes " not in bare
        assert " for no " not in bare
    assert set(found.to_frame()["target"]) <= {"no", "yes"}
    told = report.to_dict()
    assert {group["group"] for group in told["groups"]} == {"no", "yes"}
    assert told["plans"][0]["target"] == "yes"
    assert {line["category"] for line in told["filing"]["impact"]["before"][0]["lines"]} == {
        "no", "yes",
    }  # fmt: skip
    assert kept.plan_.target == "yes"
