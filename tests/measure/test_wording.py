"""No sentence contradicts the figures beside it, whatever status and figures meet."""

import re
from itertools import product
from math import isnan

import pytest

from fairmend.measure.wording import (
    Affected,
    became,
    describe_gap,
    describe_open_gap,
    describe_people,
    describe_plan,
    figures,
    people_of,
    share,
    span,
    verb,
)
from fairmend.repair.plan import IdentityPlan, Outlook
from fairmend.status import PlanStatus

NAN = float("nan")
BEFORE = {"large": 0.1634, "tiny": 0.0004, "none": 0.0, "negative": -0.093}
AFTER = {
    "none": lambda before, tolerance: 0 * before,
    "within": lambda before, tolerance: 0.9 * tolerance,
    "below, within": lambda before, tolerance: -0.9 * tolerance,
    "small": lambda before, tolerance: 0.0003,
    "hardly less": lambda before, tolerance: before - 0.00002,
    "equal": lambda before, tolerance: before,
    "as wide, reversed": lambda before, tolerance: -before,
    "wider": lambda before, tolerance: 1.5 * before + 0.02,
    "past 0": lambda before, tolerance: -0.4 * before - 0.0071,
    "unknown": lambda before, tolerance: NAN,
}
INTERVALS = {"around": (-0.031, 0.0004), "above": (0.0002, 0.04), "below": (-0.04, -0.0002),
             "unknown": (NAN, NAN)}  # fmt: skip
TOLERANCES = {"many": 1e-9, "hundreds": 0.0008, "few": 0.5 / 13}
LINE = re.compile(r"(\w+): (\S+)(?: points)? before, (\S+) after: (.+)")
EQUAL = 1e-6


def number(text):
    return NAN if text == "–" else float(text)


def check_line(line, metric, before, after, tolerance):
    """One line read again: its figures are right, and its words follow from them."""
    name, was, now, words = LINE.fullmatch(line).groups()
    assert name == metric
    if isnan(after):
        assert (now, words) == ("–", "not known")
        return
    was, now = number(was), number(now)
    assert was == pytest.approx(100 * before, abs=0.051)
    assert now == pytest.approx(100 * after, abs=0.051)
    within = abs(after) <= tolerance
    assert "closed" not in words or within
    assert ("wider" in words) == (abs(after) > abs(before) + EQUAL)
    assert ("wider" in words) == (abs(now) > abs(was)) or within
    smaller = abs(after) < abs(before) - EQUAL
    assert not smaller or "narrower" in words or "closed" in words
    assert "narrower" not in words or (smaller and abs(now) < abs(was))
    assert "closed" not in words or smaller
    if "unchanged" in words or "as wide" in words:
        assert abs(now) == abs(was)
    if "reversed" in words:
        assert was * now < 0
    if not within:
        assert now != 0, "what is not closed does not read as 0"
    if words == "closed":
        assert now == 0
    if "half a person" in words:
        assert tolerance > 1e-9


@pytest.mark.parametrize("status", PlanStatus)
@pytest.mark.parametrize("people", TOLERANCES)
def test_every_combination_of_a_plan(status, people):
    for before, after, interval in product(BEFORE, AFTER, INTERVALS):
        check_plan(status, before, after, interval, people)


def check_plan(status, before, after, interval, people):
    tolerance = TOLERANCES[people]
    was = BEFORE[before]
    now = AFTER[after](was, tolerance)
    low, high = INTERVALS[interval]
    outlook = Outlook(was, now, low, high, by_metric=(("fnr", was, now),), tolerance=tolerance)
    plan = IdentityPlan("b", "a", "fnr", "least_change", status, outlook)
    told = describe_plan(status, [("fnr", was, now)], interval=(low, high), tolerance=tolerance)
    assert str(told) in str(plan), "the plan's text has these sentences and no others"
    check_line(told.gaps[0], "fnr", was, now, tolerance)
    check_status(told.status, [(was, now)], tolerance)
    check_interval(told.interval, low, high)
    if not abs(now) <= tolerance:
        headline = describe_open_gap("fnr", ("b", "a"), was, now, tolerance)
        figures_ = re.search(r"fnr of b against a was (\S+) points and is (\S+) after", headline)
        words = headline.rpartition(": ")[2]
        line = f"fnr: {figures_[1]} points before, {figures_[2]} after: {words}"
        check_line(line, "fnr", was, now, tolerance)


def check_status(text, gaps, tolerance):
    within = all(abs(now) <= tolerance for _, now in gaps)
    wider = any(abs(now) > abs(was) + EQUAL for was, now in gaps)
    worse_off = any(was > tolerance for was, _ in gaps)
    same = all(abs(now - was) <= EQUAL for was, now in gaps)
    if "is closed on the audit data" in text:
        assert within
    if "not closed" in text or "cannot" in text:
        assert not within
    if "is wider than before" in text:
        assert wider
    if "to the level asked for" in text or "smallest" in text:
        assert not wider
    if "not worse off" in text:
        assert not worse_off
    if "nobody is edited" in text:
        assert same


def check_interval(text, low, high):
    if isnan(low):
        assert text == ""
        return
    ends = [float(end) for end in re.findall(r"[+-][\d.e-]+", text)]
    assert ends == pytest.approx([100 * low, 100 * high], abs=0.051)
    assert ("above 0" in text) == (low > 0) == (ends[0] > 0)
    assert ("below 0" in text) == (high < 0) == (ends[1] < 0)


@pytest.mark.parametrize("status", PlanStatus)
def test_several_metrics_have_a_line_each_with_their_own_figures(status):
    for one, other in product(AFTER, repeat=2):
        check_two(status, one, other)


def check_two(status, one, other):
    tolerance = 0.0008
    gaps = [
        ("sp", 0.093, AFTER[one](0.093, tolerance)),
        ("fnr", 0.03, AFTER[other](0.03, tolerance)),
    ]
    told = describe_plan(status, gaps, interval=(0.01, 0.02), tolerance=tolerance)
    assert len(told.gaps) == 2
    for line, gap in zip(told.gaps, gaps, strict=True):
        check_line(line, *gap, tolerance)
    check_status(told.status, [gap[1:] for gap in gaps], tolerance)
    left = {name: float("inf") if isnan(now) else abs(now) for name, _, now in gaps}
    assert left[told.interval.split()[0]] == max(left.values())


def test_a_gap_left_in_another_metric_is_not_set_beside_the_first():
    """Was: "was +7.3 points and is +0.3", the first of sp and the second of fnr."""
    told = describe_plan(PlanStatus.INFEASIBLE, [("sp", 0.073, 0.0), ("fnr", 0.01, 0.003)])
    assert told.gaps == (
        "sp: +7.3 points before, +0.0 after: closed",
        "fnr: +1.0 points before, +0.3 after: narrower",
    )


@pytest.mark.parametrize(("before", "after"), [
    (BEFORE[before], AFTER[after](BEFORE[before], 1e-9)) for before, after in product(BEFORE, AFTER)
])  # fmt: skip
def test_the_verb_of_a_repair_agrees_with_its_figures(before, after):
    said = verb(before, after)
    was, now = map(number, figures(before, after, tolerance=1e-9))
    if isnan(after):
        assert said == "leaves it at"
        return
    assert ("closes" in said) == (abs(after) <= 1e-9 < abs(before))
    assert ("widens" in said) == (abs(now) > abs(was) and before * after >= 0)
    assert ("past 0" in said) == (was * now < 0)
    assert ("leaves" in said) == (was == now)


# -------------------------------------------------------------------- people

COUNTS = [0.0, 0.2, 1.0, 2.4, 7.0, 40.0, 4_999.7, 5_000.0]


@pytest.mark.parametrize("n", [40, 5_000, 100_000])
@pytest.mark.parametrize("count", COUNTS)
def test_nobody_is_zero_and_everybody_is_all(count, n):
    if count > n:
        return
    told = people_of(count, n)
    assert ("0.0 %" in told.replace("100.0 %", "").replace("10.0 %", "")) == (count == 0)
    assert ("100.0 %" in told) == (count == n)
    assert told.startswith("0 ") == (count == 0)
    assert told.startswith("fewer than 1") == (0 < count < 0.5)


SOME = ([0.0, 0.2, 300.0], [0.0, 0.2, 299.0], [0.0, 0.3, 5.0], [0.0, 0.2, 7.0], [0.0, 0.1, 50.0])


def test_every_combination_of_people():
    for counts in product(*SOME):
        check_people(*counts)


def check_people(edited, gained, lost, randomised, unreachable):
    told = describe_people(
        "b", Affected(5_000, edited, gained, lost, randomised, unreachable), "each"
    )
    assert ("nobody's inputs" in told) == (edited == 0)
    assert "(0.0 %)" not in told, "nobody is called nobody"
    assert (people_of(unreachable, 5_000).capitalize() in told) or unreachable == 0
    if edited:
        assert ("Nobody gains" in told) == (gained == 0)
        assert ("nobody loses" in told) == (lost == 0)
        assert ("No edit is randomised" in told) == (randomised == 0)


def test_shares_at_the_ends():
    assert [share(x) for x in (0, 1e-12, 0.0004, 0.0005, 0.5, 0.9995, 0.9996, 1.0)] == [
        "0.0 %", "0.0 %", "< 0.1 %", "0.1 %", "50.0 %", "> 99.9 %", "> 99.9 %", "100.0 %",
    ]  # fmt: skip
    assert span(0.0002, 0.03) == "+0.02 to +3.0"
    assert describe_gap("da", 0.1, 0.05) == "da: +10.0 before, +5.0 after: narrower"
    assert became(NAN, 0.1) == "not known"
