"""What the first screen says is true of the people, counted here one by one, in odd cases too."""

import re
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from fairmend import FairmendWarning, RepairedClassifier
from fairmend.measure.wording import people_count, share
from fairmend.report import verdict
from fairmend.report.html import build
from fairmend.tables import points

NUMBER = r"[+-]?[\d,]+(?:\.\d+)?"
SHARE = r"(?:[<>] )?\d+\.\d %"
RATES = {
    "sp": lambda d, y: ((1 - d).sum(), len(d)),
    "fnr": lambda d, y: (((1 - d) * y).sum(), y.sum()),
    "fpr": lambda d, y: ((d * (1 - y)).sum(), (1 - y).sum()),
    "fdr": lambda d, y: ((d * (1 - y)).sum(), d.sum()),
}
STARTS = {
    "sp": "get a negative decision",
    "fnr": "of those with a positive outcome",
    "fpr": "of those with a negative outcome",
    "fdr": "of those with a positive decision",
}
"""What tells a sentence about one metric from that about another, sp last."""


@dataclass(frozen=True)
class World:
    """A report, and what was decided about everybody in it without and with the repair."""

    report: Any
    y: Any
    s: Any
    before: Any
    after: Any

    def rate(self, metric, group, *, repaired=False):
        own = self.s == group
        decisions = (self.after if repaired else self.before)[own]
        count, among = RATES[metric](decisions, self.y[own])
        return count / among

    def change(self, group):
        own = self.s == group
        change = (self.after - self.before)[own]
        change = change if self.report.favours_positive else -change
        return np.maximum(change, 0).sum(), np.maximum(-change, 0).sum()


def people(seed, groups="ab", shift=0.8, n=1_200):
    rng = np.random.default_rng(seed)
    s = rng.choice(list(groups), n)
    x = np.round(rng.normal(size=n) - shift * (s != "a"), 1)
    X = np.column_stack([x, rng.integers(0, 3, n)])
    return X, (rng.random(n) < 1 / (1 + np.exp(-x - 0.4 * X[:, 1]))).astype(int), s


def vendor(rows):
    return 1 / (1 + np.exp(0.8 - rows[:, 0] - 0.4 * rows[:, 1]))


def turned(X, y, s):
    return X, y, np.where(s == "a", "b", "a")


KINDS = {
    "closed": {"disparity": "sp"},
    "better off here, so wider": {"disparity": "sp", "new": turned},
    "several groups": {"disparity": "fnr", "groups": "abcd", "reference": "a"},
    "blind": {"disparity": "sp", "blind": True},
    "both sides": {"disparity": "sp", "two_sided": True},
    "out of reach": {"disparity": "fnr", "immutable": ["x0"]},
    "half way": {"disparity": ["fnr", "sp"], "level": 0.5},
    "nothing to repair": {"disparity": "sp", "reference": "b", "target": "a"},
    "people want no": {"disparity": "fpr", "favorable_label": 0, "new": turned},
    "people want no, and more of b get it": {"disparity": "sp", "favorable_label": 0},
    "takes decisions away": {"disparity": "fdr"},
    "few people": {"disparity": "fnr", "shift": 0.2, "n": 300},
}


@pytest.fixture(scope="module", params=KINDS)
def world(request):
    settings = dict(KINDS[request.param])
    who = {key: settings.pop(key) for key in ("groups", "shift", "n") if key in settings}
    new = settings.pop("new", lambda *people: people)
    X, y, s = people(0, **who)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairmendWarning)
        kept = RepairedClassifier(vendor, random_state=0, **settings)
        kept.fit(X, y, sensitive_features=s)
        X, y, s = new(*people(1, **who))
        report = kept.report(X, y, sensitive_features=s, explanation=False)
        after = kept.positive_chance(X, **({} if kept.blind else {"sensitive_features": s}))
    return World(report, y, s, (vendor(X) > 0.5).astype(float), after)


def test_the_headline(world):
    report = world.report
    plan = report.plans_in_order[0]
    told = "".join(text for _, text in verdict.headline(report, plan))
    figures = re.findall(SHARE, told)
    before = [world.rate(report.metric, group) for group in (plan.target, plan.baseline)]
    after = [world.rate(report.metric, group, repaired=True)
             for group in (plan.target, plan.baseline)]  # fmt: skip
    unchanged = sum(world.change(plan.baseline)) == 0
    nobody = all(sum(world.change(group.group)) == 0 for group in report.groups)
    assert told.endswith("With the repair no decision changes.") == nobody
    assert figures == list(map(share, before + after[: 0 if nobody else 1 if unchanged else 2]))
    assert (f"Nothing changes for {plan.baseline}." in told) == (unchanged and not nobody)


def test_how_large_how_sure_and_who_fares_worse(world):
    report = world.report
    plan = report.plans_in_order[0]
    lines = verdict.lead(report, plan)
    if others := [one.target for one in report.plans_in_order[1:] if one.target != "a"]:
        named = ", ".join(others[:-1]) + f" and {others[-1]}"
        assert lines.pop() == f"Also repaired: {named}."
    for line, metric in zip(lines, verdict.metrics_of(report, plan), strict=True):
        mine, theirs = (world.rate(metric, group) for group in (plan.target, plan.baseline))
        found = re.match(
            rf"The gap(?: in [\w ]+)? is ({NUMBER}) points: (\w) (fares worse|has the higher rate) "
            rf"\(95 % interval ({NUMBER}) to ({NUMBER}), from ({NUMBER}) and ({NUMBER}) people\)\. "
            r"It is (not )?significant",
            line,
        )
        size, who, how, low, high, *_, unsure = found.groups()
        assert size == points(mine - theirs)
        assert who == (plan.target if mine > theirs else plan.baseline)
        unwanted = {"sp": 0, "fnr": 0, "fpr": 1}.get(metric)
        is_harm = unwanted is not None and unwanted != report.favours_positive
        assert (how == "fares worse") == is_harm
        assert bool(unsure) == (float(low) <= 0 <= float(high))
        mine, theirs = (world.rate(metric, group, repaired=True)
                        for group in (plan.target, plan.baseline))  # fmt: skip
        assert f" {points(mine - theirs)} points (" in line[found.end() :]
        worse_then = re.search(rf"{plan.baseline} (fares worse|has the higher rate) then\.", line)
        assert not worse_then or mine < theirs
        fitted = plan.outlook.gap_before
        if report.before[metric, plan.target].gap > 0:
            verbs = {1: "narrows it to", 0: "closes it, to", -1: "takes it past 0, to"}
            assert verbs[np.sign(round(mine - theirs, 9))] in line
        elif fitted > 0:
            assert "has no gap to close, but is edited all the same. The repair widens it" in line
        else:
            assert "The repair leaves it at" in line


def test_what_changes_and_for_whom(world):
    report = world.report
    lines = verdict.changes(report)
    for group in report.groups:
        gain, lose = world.change(group.group)
        if gain == lose == 0:
            assert any(re.search(rf"\b{group.group}\b.* changes\.", line) for line in lines)
            continue
        n = f"{(world.s == group.group).sum():,}"
        [line] = [one for one in lines if one.startswith(f"Of {n} people in {group.group}, ")]
        for people, verb in ((gain, "gain"), (lose, "lose")):
            some = f"{people_count(people)} {verb}" if people > 1e-9 else f"nobody {verb}s"
            assert some in line
    tile = {label: beside for label, _, beside in build.tiles(report)}
    beside = tile["people whose inputs are edited"]
    sums = np.sum([world.change(group.group) for group in report.groups], axis=0)
    for people, verb in zip(sums, ("gain", "lose"), strict=True):
        assert (f"{people_count(people)} {verb}" in beside) == (people > 1e-9)
    more = round(sums[0] - sums[1])
    repaired = {(name, plan.target) for plan in report.plans
                for name in verdict.metrics_of(report, plan)}  # fmt: skip
    narrower = all(
        abs(world.rate(gap.metric, gap.target, repaired=True)
            - world.rate(gap.metric, gap.baseline, repaired=True)) < abs(gap.gap)
        for gap in report.before if (gap.metric, gap.target) in repaired
    )  # fmt: skip
    taken = lines.pop() if lines[-1].endswith("by taking favourable decisions away.") else ""
    assert bool(taken) == (narrower and sums[1] - sums[0] > 1e-9)
    assert not taken or ("only" in taken) == (sums[0] <= 1e-9)
    if more:
        assert lines[-1].startswith(f"In all {abs(more):,} {'more' if more > 0 else 'fewer'} ")


def test_what_remains(world):
    report = world.report
    repaired = {name for plan in report.plans for name in verdict.metrics_of(report, plan)}
    significant = [
        gap for gap in report.after
        if gap.judged and (gap.survives(0.95)
                           or (gap.metric in repaired and (gap.low > 0 or gap.high < 0)))
    ]  # fmt: skip
    lines = verdict.remains(report)
    told = [line for line in lines if "(gap " in line]
    [*_, more] = [0, *(int(line.split()[0]) for line in lines if "more significant" in line)]
    assert len(told) + more == len(significant)
    for line in told:
        metric = next((m for m in ("fnr", "fpr", "fdr") if STARTS[m] in line), "sp")
        assert STARTS["sp" if metric == "sp" else metric] in line
        (mine, target), (theirs, baseline) = re.findall(rf"({SHARE}) of (\w)\b", line)
        rates = [world.rate(metric, group, repaired=True) for group in (target, baseline)]
        assert [mine, theirs] == list(map(share, rates))
        assert f"(gap {points(rates[0] - rates[1])} points)" in line
        before = [world.rate(metric, group) for group in (target, baseline)]
        if line.startswith("Still"):
            assert (rates[0] - rates[1]) * (before[0] - before[1]) > 0


def test_what_cannot_be_closed_is_said(world):
    report = world.report
    blocked = {plan.target for plan in report.plans if plan.status == "UNREACHABLE"}
    lines = [line for line in verdict.remains(report) if "the allowed edits cannot close" in line]
    assert {line.split(",")[0] for line in lines} == {f"For {target}" for target in blocked}
    assert bool(blocked) == (report.provenance.settings.get("immutable") == "['x0']")
    half = [line for line in verdict.remains(report) if "closed to the level asked for" in line]
    assert bool(half) == (report.provenance.level == 0.5)


def test_no_sentence_is_odd(world):
    told = re.sub(r"<(style|script|svg)\b.*?</\1>", "", build.of_report(world.report), flags=re.S)
    told = re.sub(r"<[^>]+>", " ", told)
    told = re.sub(r"\s+", " ", told)
    for odd in (r"\bnan\b", r"\bNone\b", r"(?<![\d,])1 people", r"\b0 (gain|lose)", r"\w\.\.(?!\.)",
                r"\d ,", r"\+-", r"\.:", r": [A-Z]\w+ [a-z]+ .*\bis\.$"):  # fmt: skip
        assert not re.search(odd, told), odd
