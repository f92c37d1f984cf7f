"""Repair without the group, against independent truths.

Recounts are plain sums over people. Optima are those of a linear program over cells whose
probabilities are known.
"""

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.special import expit

import fairmend
from fairmend import FDR, FNR, FPR, SP, BlackBox, DataError, FairmendWarning, RepairedClassifier
from fairmend.data.columns import Frame
from fairmend.measure.population import Population, Tally
from fairmend.model.answers import Answers
from fairmend.repair.blind.gaps import Audited, Gaps
from fairmend.repair.blind.rule import BlindPlan
from fairmend.repair.blind.search import best_of_all
from fairmend.repair.settings import RepairSettings
from fairmend.repair.telling import telling_inputs
from fairmend.repair.trade_off import TradeOff
from fairmend.status import PlanStatus

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::fairmend.FairmendWarning")]

# -------------------------------------------------------------------- people, and their recount


def people(n=700, seed=0, groups="ab"):
    """Later groups have lower first and higher second inputs, which tells them in part."""
    rng = np.random.default_rng(seed)
    place = rng.integers(0, len(groups), n)
    z = rng.normal(size=(n, 3)) + np.outer(place, [-0.7, 0.4, 0.0])
    X = pd.DataFrame(np.round(z, 1) + 0.0, columns=["income", "age", "tenure"])
    y = (rng.random(n) < expit(X.income + 0.5 * X.age)).astype(int)
    return X, y.to_numpy(), np.array(list(groups))[place]


def vendor(rows):
    rows = rows.to_numpy() if hasattr(rows, "to_numpy") else np.asarray(rows)
    return expit(rows[:, :3].astype(float) @ [1.0, 0.3, 0.4] + 0.013)


def labels(rows):
    return (vendor(rows) > 0.5).astype(int)


def fit(metric="sp", model=vendor, data=None, weight=None, **how):
    X, y, s = people() if data is None else data
    repaired = RepairedClassifier(model, metric, blind=True, random_state=0, **how)
    return repaired.fit(X, y, sensitive_features=s, sample_weight=weight)


RATES = {
    "sp": (lambda h, y: 1 - h, lambda h, y: np.ones(len(h))),
    "fnr": (lambda h, y: (1 - h) * y, lambda h, y: y),
    "fpr": (lambda h, y: h * (1 - y), lambda h, y: 1 - y),
    "fdr": (lambda h, y: h * (1 - y), lambda h, y: h),
}


def recount(metric, decided, y, s, target, other, weight=None):  # noqa: PLR0917
    """The gap, and half a person of the smaller of the two denominators."""
    w = np.ones(len(s)) if weight is None else np.asarray(weight)
    over_, among_ = RATES[metric]
    y = np.zeros(len(s)) if y is None else y
    frame = pd.DataFrame({"s": s, "w": w, "r": w * over_(decided, y), "t": w * among_(decided, y)})
    sides = [
        frame[frame.s == target],
        frame[frame.s != target if other == "rest" else frame.s == other],
    ]
    rates = [side.r.sum() / side.t.sum() for side in sides]
    half = max(0.5 * side.w.sum() / len(side) / side.t.sum() for side in sides)
    return rates[0] - rates[1], half


# -------------------------------------------------------------------- gaps are linear in flips


@pytest.mark.parametrize("metric", [SP, FNR, FPR, FNR + FPR, 0.5 * SP + 2 * FPR])
@pytest.mark.parametrize("reference", ["best", "rest"])
def test_a_constraint_is_the_gap_of_people_whose_decisions_are_turned(metric, reference):
    X, y, s = people(400, groups="abc")
    weight = np.random.default_rng(1).uniform(0.5, 2, len(y))
    data = fairmend.tabulate(vendor, X, y, sensitive_features=s, sample_weight=weight)
    audited = Audited.of(data)
    how = RepairSettings(disparity=metric, reference=reference, blind=True)
    against = {"c": "a" if reference == "best" else "rest"}
    [one] = Gaps(audited, how, against).constraints()
    rng = np.random.default_rng(2)
    for turned in (np.zeros(len(audited.rows)), rng.integers(0, 2, len(audited.rows))):
        now = np.abs(audited.answers.decision - turned)
        moved = (now - audited.answers.decision)[None, :, None] * audited.weight
        found = one.start + (moved * one.weights[:, None, :]).sum()
        decided = now[np.searchsorted(audited.rows, data.person_row)]
        parts = getattr(metric, "parts", None) or ((1.0, metric),)
        truth = sum(
            factor * recount(part.name, decided, y, s, "c", against["c"], weight)[0]
            for factor, part in parts
        )
        assert found == pytest.approx(truth, abs=1e-12)


def test_at_a_common_rate_excesses_vanish_where_the_rates_do():
    X, y, s = people(400)
    audited = Audited.of(fairmend.tabulate(vendor, X, y, sensitive_features=s))
    gaps = Gaps(audited, RepairSettings(disparity="fdr", blind=True), {"b": "a"})
    h = labels(X)
    rates = [y[(s == g) & (h == 1)].mean() for g in "ba"]
    for place, rate in enumerate(rates):
        both = gaps.constraints(1 - rate)
        assert both[place].start == pytest.approx(0.0, abs=1e-12)
    low, high = min(gaps.common_rates()), max(gaps.common_rates())
    assert (low, high) == pytest.approx((1 - max(rates), 1 - min(rates)))


# -------------------------------------------------------------------- the rule, by known cells


class Cells:
    """A population over 6 x 6 x 6 inputs whose probabilities are known."""

    def __init__(self, seed=0):
        rng = np.random.default_rng(seed)
        grid = np.stack(np.meshgrid(*3 * [np.arange(6.0)], indexing="ij"), axis=-1).reshape(-1, 3)
        self.x = grid - 2.5
        base = np.exp(-0.25 * (self.x**2).sum(axis=1))
        tilt = np.exp(self.x @ [-0.35, 0.3, 0.0])
        by_group = np.stack([base / base.sum(), base * tilt / (base * tilt).sum()])
        chance = expit(self.x @ [0.8, 0.4, 0.1] + np.array([0.1, -0.1])[:, None])
        share = np.array([0.6, 0.4])[:, None]
        joint = share * by_group
        self.p = np.stack([joint * (1 - chance), joint * chance], axis=2)  # group, cell, outcome
        self.h = (vendor(self.x) > 0.5).astype(float)
        self.rng = rng

    def sample(self, n):
        counts = self.rng.multinomial(n, self.p.ravel()).reshape(self.p.shape)
        group, cell, y = (
            np.repeat(i, counts.ravel()) for i in np.indices(self.p.shape).reshape(3, -1)
        )
        return self.x[cell], y, np.array(["a", "b"])[group]

    def gap(self, metric, h):
        over_, among_ = RATES[metric]
        rates = [
            sum((self.p[g, :, y] * over_(h, np.full(len(h), y))).sum() for y in (0, 1))
            / sum((self.p[g, :, y] * among_(h, np.full(len(h), y))).sum() for y in (0, 1))
            for g in (1, 0)
        ]
        return rates[0] - rates[1]

    def cost(self, turned, cut):
        """Worth lost, a person."""
        mass, positive = self.p.sum(axis=(0, 2)), self.p[:, :, 1].sum(axis=0)
        return ((2 * self.h - 1) * (positive - cut * mass)) @ turned

    def least(self, metrics, cut):
        """The optimum of a program on the true cells, a share of each cell turned."""
        nothing = np.zeros(len(self.h))
        effect = [
            [self.gap(m, np.abs(self.h - np.eye(len(self.h))[i])) - self.gap(m, self.h)
             for i in range(len(self.h))]
            for m in metrics
        ]  # fmt: skip
        price = [self.cost(row, cut) for row in np.eye(len(self.h))]
        start = [-self.gap(m, self.h) for m in metrics]
        answer = linprog(price, A_eq=effect, b_eq=start, bounds=(0, 1))
        assert answer.status == 0
        return answer.fun - self.cost(nothing, cut)


@pytest.mark.parametrize("metrics", [["sp"], ["fnr"], ["fpr"], ["fnr", "fpr"]], ids="+".join)
def test_the_rule_is_near_the_optimum_over_known_cells(metrics):
    cells = Cells()
    X, y, s = cells.sample(60_000)
    costs = {"false_positive": 0.5, "false_negative": 0.5}
    repaired = fit(metrics if len(metrics) > 1 else metrics[0], data=(X, y, s), rank=costs)
    decided = repaired.predict(cells.x)
    for metric in metrics:
        assert abs(cells.gap(metric, decided)) < 0.015
    cost = cells.cost(np.abs(decided - cells.h), 0.5)
    assert cost == pytest.approx(cells.least(metrics, 0.5), abs=0.006)


# -------------------------------------------------------------------- what the statuses say

CASES = {
    "sp": {},
    "fnr": {},
    "fpr": {},
    "sum": {"metric": FNR + FPR},
    "both": {"metric": ["fnr", "fpr"]},
    "three groups": {"data": people(900, groups="abc")},
    "three groups, fnr": {"metric": "fnr", "data": people(900, groups="abc")},
    "rest": {"data": people(900, groups="abc"), "reference": "rest"},
    "named": {"data": people(900, groups="abc"), "reference": "a", "target": "b"},
    "half": {"metric": "fnr", "level": 0.5},
    "weights": {"metric": "fnr", "weight": np.random.default_rng(3).uniform(0.2, 3, 700)},
    "labels only": {"metric": "fnr", "model": labels},
    "scores": {"metric": "fnr", "model": BlackBox(lambda X: 9 * vendor(X) - 3, threshold=1.9)},
    "flips": {"metric": "fnr", "rank": "flips"},
    "cost": {"metric": "fnr", "rank": "cost", "data": people(400)},
    "costs": {"metric": "fnr", "rank": {"false_positive": 1, "false_negative": 3}},
    "no outcomes": {"data": (people()[0], None, people()[2])},
    "do no harm": {"do_no_harm": True},
    "one way": {"one_way": {"income": "up"}},
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_status_is_true_by_recount(name):
    how = dict(CASES[name])
    X, y, s = how.setdefault("data", people())
    metric = how.setdefault("metric", name if name in RATES else "sp")
    repaired = fit(**how)
    decided, level = repaired.predict(X), how.get("level", 1.0)
    own = repaired.box_.query(Frame.read(X), repaired.data_.labels).decision
    assert (decided != own).any()
    assert set(repaired.plans_) == set(np.unique(s))
    names = [metric] if isinstance(metric, str) else metric
    parts = (
        [(1.0, n) for n in names]
        if isinstance(names, list)
        else [(w, p.name) for w, p in metric.parts]
    )
    for group, plan in repaired.plans_.items():
        assert isinstance(plan, BlindPlan)
        after, before, half = [], [], []
        for factor, part in parts:
            sides = (y, s, group, plan.baseline, how.get("weight"))
            gap, tolerance = recount(part, decided, *sides)
            after.append(factor * gap)
            before.append(factor * recount(part, own, *sides)[0])
            half.append(abs(factor) * tolerance)
        if name == "sum":
            after, before, half = ([sum(one)] for one in (after, before, half))
        closed = all(
            abs(a - (1 - level) * b) <= h + 1e-9
            for a, b, h in zip(after, before, half, strict=True)
        )
        done = PlanStatus.CLOSED if level == 1 else PlanStatus.PARTLY
        assert (plan.status is done) == closed, (group, plan.status, after)
        shown = {n: (b, a) for n, b, a in plan.outlook.by_metric}
        for (_, part), b, a in zip(parts, before, after, strict=False):
            if name != "sum":
                assert shown[part] == pytest.approx((b, a), abs=1e-9)
    wanted = (
        [repaired.target]
        if repaired.target
        else [g for g, p in repaired.plans_.items() if p.outlook.gap_before > 0]
    )
    assert all(repaired.plans_[group].status.closed for group in wanted)


def test_fdr_is_closed_at_a_common_rate():
    X, y, s = people(400, seed=1)
    X = X.round()
    repaired = fit("fdr", data=(X, y, s))
    decided = repaired.predict(X)
    for group, plan in repaired.plans_.items():
        gap, half = recount("fdr", decided, y, s, group, plan.baseline)
        assert plan.outlook.gap_after == pytest.approx(gap, abs=1e-9)
        assert (plan.status is PlanStatus.CLOSED) == (abs(gap) <= half + 1e-9)


def test_groups_by_two_attributes():
    X, y, s = people(900)
    old = np.where(np.arange(len(y)) % 3 == 0, "old", "young")
    repaired = fit(data=(X, y, {"sex": s, "age": old}))
    assert set(repaired.plans_) == {"a & old", "a & young", "b & old", "b & young"}
    decided, both = repaired.predict(X), np.char.add(np.char.add(s, " & "), old)
    for group, plan in repaired.plans_.items():
        gap, half = recount("sp", decided, y, both, group, plan.baseline)
        assert (plan.status is PlanStatus.CLOSED) == (abs(gap) <= half + 1e-9)
    assert all(p.status.closed for p in repaired.plans_.values() if p.outlook.gap_before > 0)


def test_a_group_that_a_rate_is_over_nobody_of_follows_the_rule_and_has_no_plan():
    X, y, s = people()
    s, y = s.astype(object), y.copy()
    s[:3], y[:3] = "c", 0
    repaired = fit("fnr", data=(X, y, s))
    assert set(repaired.plans_) == {"a", "b"}
    report = repaired.report(X, y, sensitive_features=s, explanation=False)
    decided = repaired.predict(X)
    outcome = {one.group: one for one in report.groups}
    assert all(one.repaired for one in report.groups)
    for group in "abc":
        assert outcome[group].selected_after == pytest.approx(decided[s == group].mean())


def test_a_report_follows_the_rule_for_groups_that_were_never_audited():
    repaired = fit()
    X, y, s = people(300, seed=5, groups="abz")
    report = repaired.report(X, y, sensitive_features=s, explanation=False)
    decided = repaired.predict(X)
    for one in report.groups:
        assert one.selected_after == pytest.approx(decided[s == one.group].mean())


def test_the_frontier_has_a_point_of_each_group_at_each_level():
    repaired = fit("fnr", data=people(300))
    X, y, s = people(300, seed=5)
    points = repaired.frontier(X, y, sensitive_features=s, levels=[0.0, 0.5, 1.0])
    assert [(one["level"], one["group"]) for one in points] == [
        (level, group) for level in (0.0, 0.5, 1.0) for group in "ab"
    ]
    assert all(one["edited"] == 0 for one in points[:2])
    own = {group: recount("fnr", labels(X), y, s, group, "a")[0] for group in "ab"}
    assert points[1]["gap"] == pytest.approx(own["b"])
    report = repaired.report(X, y, sensitive_features=s, frontier=True, explanation=False)
    assert report.to_html().startswith("<!doctype html>")


def test_what_cannot_be_closed_is_unreachable():
    X, y, s = people()
    repaired = fit(
        immutable=["income", "age", "tenure"], data=(X.assign(idle=np.arange(700) % 2), y, s)
    )
    assert {plan.status for plan in repaired.plans_.values()} == {PlanStatus.UNREACHABLE}
    np.testing.assert_array_equal(repaired.predict(X.assign(idle=0)), labels(X))
    # nobody may lose it, and only those who would lose it could be edited
    one_way = {"income": "down", "age": "down", "tenure": "down"}
    repaired = fit(do_no_harm=True, one_way=one_way)
    assert {plan.status for plan in repaired.plans_.values()} == {PlanStatus.UNREACHABLE}


# -------------------------------------------------------------------- what is kept to


@pytest.mark.parametrize(("metric", "favourable"), [("sp", 1), ("fnr", 1), ("fpr", 0)])
def test_do_no_harm_holds_for_rows_seen_and_unseen(metric, favourable):
    repaired = fit(metric, do_no_harm=True, favorable_label=favourable)
    for X in (people()[0], people(2_000, seed=8)[0]):
        own, decided = labels(X), repaired.predict(X)
        assert (decided != own).any()
        assert (decided[own == favourable] == favourable).all()


def test_immutable_and_one_way_inputs_are_kept_and_edits_get_the_decisions():
    repaired = fit("fnr", immutable=["age"], one_way={"income": "up"})
    X = people(800, seed=8)[0]
    edited, decided = repaired.transform(X), repaired.predict(X)
    assert (edited.age == X.age).all()
    assert (edited.income >= X.income).all()
    np.testing.assert_array_equal(labels(edited), decided)
    same = (edited == X).all(axis=1)
    np.testing.assert_array_equal(decided[same], labels(X)[same])


@pytest.mark.parametrize("rank", ["worth", "flips", "cost"])
def test_edits_get_the_decisions_whatever_the_price(rank):
    repaired = fit("fnr", rank=rank, data=people(400))
    X = people(300, seed=8)[0]
    np.testing.assert_array_equal(labels(repaired.transform(X)), repaired.predict(X))
    chance = repaired.positive_chance(X)
    np.testing.assert_array_equal(chance, repaired.predict(X))  # nothing is drawn


def test_fewest_flips_are_fewer_and_worth_costs_less():
    X, y, _ = people()
    flipped, worth = {}, {}
    for rank in ("worth", "flips"):
        repaired = fit("sp", rank=rank)
        decided = repaired.predict(X)
        flipped[rank] = (decided != labels(X)).mean()
        cut = repaired.plan_.rule.trade_off.cut
        worth[rank] = 1 - 2 * (
            cut * (decided * (1 - y)).mean() + (1 - cut) * ((1 - decided) * y).mean()
        )
    assert flipped["flips"] < flipped["worth"]
    assert worth["flips"] < worth["worth"]


def test_only_ratios_of_weights_matter():
    weight = np.random.default_rng(3).uniform(0.2, 3, 700)
    X = people(500, seed=9)[0]
    one, small, large = (fit("fnr", weight=weight * by).predict(X) for by in (1.0, 1e-3, 1e4))
    np.testing.assert_array_equal(one, small)
    np.testing.assert_array_equal(one, large)


def test_the_order_of_people_and_the_names_of_groups_do_not_matter():
    X, y, s = people()
    new, order = people(500, seed=9)[0], np.random.default_rng(0).permutation(700)
    one = fit("fnr").predict(new)
    named = np.where(s == "a", "zz", "aa")
    again = fit("fnr", data=(X.iloc[order], y[order], named[order])).predict(new)
    assert (one != again).mean() < 0.01  # sums in another order, at most a row at the margin


# -------------------------------------------------------------------- containers and answers


def mixed(n, seed):
    """Text, whole numbers, truth values and categories, with missing values."""
    X, y, s = people(n, seed)
    rng = np.random.default_rng(seed + 50)
    hole = rng.random(n) < 0.1
    X = X.assign(
        age=X.age.mask(hole),
        town=pd.Series(rng.choice(["Aix", "Bonn"], n), dtype=object).mask(
            rng.random(n) < 0.1, None
        ),
        cars=rng.integers(0, 3, n),
        owns=rng.random(n) < 0.5,
    )
    return X, y, s


def mixed_vendor(rows):
    table = rows if isinstance(rows, pd.DataFrame) else rows.to_pandas()
    town = table["town"].map({"Aix": 0.3}).astype(float).fillna(0.0)
    score = (
        table["income"] + 0.3 * table["age"].astype(float).fillna(0.0) + town + 0.2 * table["cars"]
    )
    return expit(score.to_numpy(float) - 0.21)


def test_pandas_and_polars_get_the_same_decisions():
    X, y, s = mixed(600, 0)
    new = mixed(400, 1)[0]
    decided = fit("fnr", mixed_vendor, (X, y, s)).predict(new)
    again = fit("fnr", mixed_vendor, (pl.from_pandas(X), y, s)).predict(pl.from_pandas(new))
    assert (decided != (mixed_vendor(new) > 0.5)).any()
    np.testing.assert_array_equal(decided, again)


def test_numpy_gets_the_decisions_of_pandas():
    X, y, s = people()
    new = people(400, seed=1)[0]
    decided = fit("fnr").predict(new)
    np.testing.assert_array_equal(
        decided, fit("fnr", data=(X.to_numpy(), y, s)).predict(new.to_numpy())
    )


def test_recorded_answers_of_people_are_turned_by_inputs_and_answer():
    X, y, s = people()
    rng = np.random.default_rng(0)
    X = X.round()  # equal inputs come again, some with other answers
    said = np.round(np.clip(vendor(X) + rng.normal(0, 0.1, len(y)), 0.01, 0.99), 2)
    repaired = fit("fnr", "said", (X.assign(said=said), y, s))
    assert repaired.plan_.status is PlanStatus.CLOSED
    decided = pd.DataFrame({"d": repaired.predict(X.assign(said=said)), "said": said}).join(X)
    assert (decided.groupby(["income", "age", "tenure", "said"]).d.nunique() == 1).all()
    gap, half = recount("fnr", decided.d.to_numpy(), y, s, "b", "a")
    assert abs(gap) <= half + 1e-9


def test_an_exception_is_of_its_own_answer():
    """Somebody with the inputs of a row decided singly and another answer is none."""
    found = 0
    for seed in range(6):
        X, y, s = people(500, seed)
        X = X.round()
        repaired = fit("sp", data=(X, y, s))
        rule = repaired.plan_.rule
        if rule.exceptions is None:
            continue
        found += 1
        answers = rule.exception_answers
        other = Answers(answers.decision, answers.score * 0.9 + 0.001)
        by_prices = rule.margin(rule.exceptions, other) > 0
        np.testing.assert_array_equal(rule.turns(rule.exceptions, other), by_prices)
        np.testing.assert_array_equal(rule.turns(rule.exceptions, answers), rule.turned > 0)
    assert found > 0


# -------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"model": BlackBox(vendor, soft=True)}, "set a threshold"),
        ({"rank": {"false_positive": 1}}, "the costs of both errors"),
        ({"rank": {"false_positive": 1, "false_negative": -1}}, "the costs of both errors"),
        ({"rank": {"false_positive": 1, "false_negative": np.nan}}, "the costs of both errors"),
        ({"rank": "score"}, "with blind"),
        ({"two_sided": True}, "for blind"),
        ({"method": "transport"}, "for blind"),
        ({"method": "order"}, "for blind"),
        ({"outcome_model": "empirical"}, "speaks of new rows"),
        ({"metric": FNR + FDR}, "sum of rates over outcomes"),
        ({"metric": fairmend.Alignment()}, "must be a rate gap"),
        ({"metric": FNR + fairmend.Alignment(0.5)}, "must be a rate gap"),
        ({"target": "a", "reference": "a"}, "must differ"),
        ({"metric": "fnr", "data": (people()[0], None, people()[2])}, "y"),
    ],
)  # fmt: skip
def test_what_a_blind_repair_cannot_do_is_refused(how, words):
    with pytest.raises(DataError, match=words):
        fit(**how)


@pytest.mark.parametrize("rank", ["worth", "flips", {"false_positive": 1, "false_negative": 1}])
def test_prices_of_a_blind_rule_are_refused_without_blind(rank):
    X, y, s = people(200)
    with pytest.raises(DataError, match="without blind"):
        RepairedClassifier(vendor, rank=rank).fit(X, y, sensitive_features=s)


@pytest.mark.parametrize("use", ["predict", "transform", "predict_proba", "positive_chance"])
def test_groups_are_refused_where_decisions_are_made(use):
    X, _, s = people()
    with pytest.raises(DataError, match="this repair is blind"):
        getattr(fit("fnr", data=people(200)), use)(X, sensitive_features=s)


def test_fit_transform_is_fit_and_transform():
    X, y, s = people()
    repaired = RepairedClassifier(vendor, "sp", blind=True, random_state=0)
    edited = repaired.fit_transform(X, y, sensitive_features=s)
    pd.testing.assert_frame_equal(edited, repaired.transform(X))


# -------------------------------------------------------------------- the group among the inputs


def with_the_group(seed):
    X, y, s = people(500, seed)
    return X.round().assign(sex=(s == "b").astype(int)), y, s


def reads_the_group(rows):
    return expit(rows["income"] + 0.3 * rows["age"] - 0.6 * rows["sex"] + 0.05).to_numpy()


def test_an_input_that_tells_the_group_is_kept_out_of_the_rule():
    exceptions = 0
    for seed in range(5):
        X, y, s = with_the_group(seed)
        with pytest.warns(
            FairmendWarning, match="The model itself reads who is of which group, by 'sex'"
        ):
            repaired = fit("sp", reads_the_group, (X, y, s))
        rule = repaired.plan_.rule
        assert rule.kept_out == ("sex",)
        assert "'sex', which tells the group" in " ".join(rule.notes)
        exceptions += rule.exceptions is not None
        table = repaired.data_.table
        answers = repaired.box_.query(table, repaired.data_.labels)
        turned = rule.turns(table, answers)
        assert turned.any()
        rng = np.random.default_rng(0)
        for sex in (1 - table.native.sex, 0, 1, rng.permutation(table.native.sex)):
            rows = Frame.read(table.native.assign(sex=sex))
            np.testing.assert_array_equal(rule.turns(rows, answers), turned)
        assert (repaired.transform(X).sex == X.sex).all()
    assert exceptions > 0  # these too


def test_a_model_of_nothing_but_the_group_is_refused():
    _, y, s = people()
    X = pd.DataFrame({"sex": (s == "b").astype(int)})
    with pytest.raises(DataError, match="an input that does not say which group"):
        fit("sp", lambda rows: 0.7 - 0.4 * rows["sex"].to_numpy(), (X, y, s))


def tabulated(groups, **columns):
    X = pd.DataFrame(columns)
    box = BlackBox(lambda rows: (rows.iloc[:, 0] == X.iloc[0, 0]).astype(int), inputs=list(X))
    return fairmend.tabulate(box, X, np.arange(len(X)) % 2, sensitive_features=groups)


def test_which_inputs_tell_the_group():
    rng = np.random.default_rng(0)
    n = 3_000
    s = rng.integers(0, 2, n)

    def off(share):
        return np.where(rng.random(n) < share, 1 - s, s)

    found = telling_inputs(
        tabulated(
            np.array(["f", "m"])[s],
            unique=np.arange(n),
            twice=np.arange(n) // 2,
            measured=rng.normal(size=n),
            copy=s,
            text=np.array(["Frau", "Mann"])[s],
            inverse=1 - s,
            finer=10 * s + rng.integers(0, 10, n),
            near=off(0.001),
            noisy=off(0.05),
            constant=np.zeros(n),
            coin=rng.integers(0, 2, n),
        )
    )
    assert found == ("copy", "text", "inverse", "finer", "near")


def test_one_of_several_yes_or_no_columns_tells_who_is_of_one_group():
    s = np.random.default_rng(0).integers(0, 3, 2_000)
    columns = {f"is_{k}": (s == k).astype(int) for k in range(3)}
    data = tabulated(np.array(list("abc"))[s], **columns, other=np.arange(2_000) % 7)
    assert telling_inputs(data) == ("is_0", "is_1", "is_2")


def test_of_two_attributes_each_is_told_by_itself():
    rng = np.random.default_rng(0)
    sex, old = rng.integers(0, 2, 2_000), rng.integers(0, 2, 2_000)
    data = tabulated({"sex": sex, "old": old}, sex=sex, senior=1 - old, other=np.arange(2_000) % 7)
    assert telling_inputs(data) == ("sex", "senior")


def test_a_rare_group_is_told_only_by_what_tells_it():
    rng = np.random.default_rng(0)
    s = np.where(np.arange(3_000) < 20, "rare", "usual")
    data = tabulated(s, copy=(s == "rare").astype(int), half=rng.integers(0, 2, 3_000),
                     constant=np.zeros(3_000))  # fmt: skip
    assert telling_inputs(data) == ("copy",)


# -------------------------------------------------------------------- the trade-off


@given(st.integers(0, 10**6), st.integers(1, 12), st.booleans())
@settings(max_examples=150, deadline=None)
def test_the_implied_cut_explains_most_decisions(seed, n, ties):
    rng = np.random.default_rng(seed)
    chance = rng.integers(1, 5, n) / 5 if ties else rng.random(n)
    decision, weight = rng.integers(0, 2, n).astype(float), rng.integers(1, 9, n).astype(float)

    def agreed(cut):
        return weight @ ((chance > cut) == decision)

    cut = TradeOff.implied(chance, decision, weight).cut
    every = np.unique(chance)
    best = max(agreed(one) for one in np.r_[0.0, (every[1:] + every[:-1]) / 2, 1.0])
    assert agreed(cut) == best
    assert 0 <= cut <= 1


def test_a_vendor_with_a_high_cut_is_not_moved_to_one_half():
    """Most succeed, and the vendor takes only those who succeed with .8 or more."""
    rng = np.random.default_rng(0)
    n = 4_000
    s = rng.integers(0, 2, n)
    X = pd.DataFrame(
        np.round(rng.normal(size=(n, 2)) - np.outer(s, [0.8, -0.3]), 1), columns=["x", "z"]
    )
    chance = expit(1.6 + X.x + 0.3 * X.z).to_numpy()
    y = (rng.random(n) < chance).astype(int)

    def school(rows):
        return expit(1.6 + rows["x"] + 0.3 * rows["z"]).to_numpy()

    box = BlackBox(school, threshold=0.8)
    data = (X, y, np.array(["a", "b"])[s])
    repaired = fit("sp", box, data)
    even = fit("sp", box, data, rank={"false_positive": 1, "false_negative": 1})
    assert repaired.plan_.rule.trade_off.cut == pytest.approx(0.8, abs=0.03)

    def worth(decided):
        return 1 - 2 * (0.8 * decided * (1 - chance) + 0.2 * (1 - decided) * chance).mean()

    own = (school(X) > 0.8).astype(int)
    assert worth(own) - 0.06 < worth(repaired.predict(X)) <= worth(own)
    assert worth(even.predict(X)) < worth(repaired.predict(X)) - 0.08
    assert even.predict(X).mean() > repaired.predict(X).mean() + 0.2


def test_amounts_of_rows_that_stand_for_many_do_not_tell_the_group():
    rng = np.random.default_rng(0)
    n = 4_000
    sex = rng.choice(["f", "m"], n)
    shifted = rng.normal(size=n) + (sex == "m")
    X = pd.DataFrame({"shifted": shifted, "coded": shifted % 1 + 9 * (sex == "m")})
    alone = fairmend.tabulate(rounded, X, (shifted > 0).astype(int), sensitive_features=sex)
    populations = tuple(
        Population.counted(Tally(*(50 * part for part in one.tally.sums)), one.decision,
                           rows=one.rows)
        for one in alone.populations
    )  # fmt: skip
    assert telling_inputs(replace(alone, populations=populations)) == ("coded",)
    assert telling_inputs(alone) == ("coded",)


def rounded(rows):
    return (rows["shifted"] > 0).astype(int)


@given(seed=st.integers(0, 10**6), kinds=st.integers(1, 10), gaps=st.integers(1, 3))
@settings(max_examples=30)
def test_the_last_step_tries_all_choices(seed, kinds, gaps):
    rng = np.random.default_rng(seed)
    against, effect = rng.random(kinds) / 50, rng.normal(size=(gaps, kinds)) / 10
    offset, tolerance = rng.normal(size=gaps) / 10, 0.01 + rng.random(gaps) / 10
    chosen = best_of_all(against, effect, offset, tolerance)

    def worth(some):
        beyond = np.abs(offset + effect @ some) / tolerance - 0.999
        return against @ some + max(0.0, beyond.max())

    every = (np.array(some) for some in product((0, 1), repeat=kinds))
    assert worth(chosen) == pytest.approx(min(map(worth, every)), abs=1e-12)
