"""All groups meet at one rate, the one at which decisions are worth most."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from fairmend import BlackBox, DataError, FairmendWarning, RepairedClassifier, tabulate
from fairmend.errors import RepairRefused
from planning import meet

N = 4_000


def people(seed=0, groups=("a", "b")):
    """Everybody has a score of their own that is P(Y=1); groups differ in how high it is."""
    rng = np.random.default_rng(seed)
    group = rng.choice(groups, N)
    lift = np.array([0.15 * groups.index(g) for g in group])
    score = np.clip(rng.beta(2, 3, N) + lift, 0.01, 0.99)
    return score[:, None], (rng.random(N) < score).astype(int), group


def vendor():
    return BlackBox(lambda rows: rows[:, 0], output="probability")


@pytest.mark.parametrize("metric", ["sp", "fnr", "fpr"])
def test_the_rates_meet_where_thresholds_per_group_are_most_accurate(metric):
    """Truth: every pair of thresholds that equalises the rates, tried one by one."""
    X, y, s = people()
    data = tabulate(vendor(), X, y, sensitive_features=s)
    plans = meet(data, disparity=metric, reference="best", box=vendor())
    assert {plan.status.name for plan in plans.values()} == {"CLOSED"}
    repaired = {"sp": np.ones(N, bool), "fnr": y == 1, "fpr": y == 0}[metric]
    right = 0.0
    for group, plan in plans.items():
        own = data[group]
        h = plan.route(data.table.take(own.rows), own.answers).expected_decision(own.answers)
        right += (own.tally.weight * np.stack([1 - h, h], axis=1)).sum()
        assert abs(plan.outlook.gap_after) < 0.002  # small-sample correction: one person in 2,000

    def at(group, share):
        """The most who are right when so many of those the rate is over are accepted."""
        score = X[s == group, 0]
        over = np.sort(score[repaired[s == group]])[::-1]
        cut = over[min(int(share * len(over)), len(over) - 1)]
        return ((score > cut) == y[s == group]).sum()

    best = max(at("a", share) + at("b", share) for share in np.linspace(0, 1, 401))
    # a grid of 200 rates against one of 400: neighbours differ by a few people of 4,000
    assert right >= best - 8


def test_three_groups_come_to_one_rate():
    X, y, s = people(1, ("a", "b", "c"))
    repaired = RepairedClassifier(vendor(), "sp", two_sided=True, random_state=0)
    with pytest.warns(FairmendWarning, match="takes the favourable decision"):
        repaired.fit(X, y, sensitive_features=s)
    accepted = repaired.positive_chance(X, sensitive_features=s)
    rates = [accepted[s == group].mean() for group in "abc"]
    assert max(rates) - min(rates) < 0.003
    assert set(repaired.plans_) == {"a", "b", "c"}
    assert all(plan.metric == "sp" for plan in repaired.plans_.values())


@pytest.mark.filterwarnings("ignore::fairmend.FairmendWarning")
def test_it_is_at_least_as_accurate_as_one_side_alone():
    X, y, s = people(2)
    right = {}
    for two_sided in (False, True):
        repaired = RepairedClassifier(vendor(), "sp", two_sided=two_sided, random_state=0)
        repaired.fit(X, y, sensitive_features=s)
        chance = repaired.positive_chance(X, sensitive_features=s)
        right[two_sided] = np.where(y == 1, chance, 1 - chance).mean()
    assert right[True] >= right[False]


def test_half_the_level_leaves_half_the_gap():
    X, y, s = people(3)
    data = tabulate(vendor(), X, y, sensitive_features=s)
    plans = meet(data, disparity="sp", reference="best", level=0.5, box=vendor())
    for plan in plans.values():
        assert plan.status.name == "PARTLY"
        assert plan.outlook.gap_after == pytest.approx(plan.outlook.gap_before / 2, abs=0.002)


def test_level_0_turns_nobody():
    X, y, s = people(3)
    repaired = RepairedClassifier(vendor(), "fnr", two_sided=True, level=0, random_state=0)
    repaired.fit(X, y, sensitive_features=s)
    assert {group: plan.status.name for group, plan in repaired.plans_.items()} == {
        "a": "PARTLY",
        "b": "IDENTITY",
    }
    assert np.array_equal(repaired.transform(X, sensitive_features=s), X)


@pytest.mark.parametrize("favoured", ["a", "b"])
def test_a_gap_that_may_be_chance_is_said_or_refused_whichever_side_it_is_on(favoured):
    """Truth: two proportions of 60 people 10 points apart are 1.1 standard errors apart."""
    rates = {"a": 33, "b": 27}
    score = np.concatenate([np.repeat([0.9, 0.1], [rates[g], 60 - rates[g]]) for g in "ab"])
    s, y = np.repeat(["a", "b"], 60), np.tile([0, 1], 60)
    chosen = RepairedClassifier(vendor(), "sp", two_sided=True, reference=favoured, random_state=0)
    with pytest.warns(FairmendWarning, match=r"10\.0 points, is within 2 standard errors of 0"):
        chosen.fit(score[:, None], y, sensitive_features=s)
    with pytest.raises(RepairRefused, match="must be significant to be repaired"):
        chosen.set_params(require_significant=True).fit(score[:, None], y, sensitive_features=s)


def test_a_proven_gap_is_mended_without_a_word_about_chance():
    X, y, s = people()
    careful = RepairedClassifier(
        vendor(), "sp", two_sided=True, require_significant=True, random_state=0
    )
    with pytest.warns(FairmendWarning) as said:
        careful.fit(X, y, sensitive_features=s)
    assert not [one for one in said if "chance" in str(one.message)]


@pytest.mark.parametrize("third", [0.4, 0.6])
def test_groups_that_are_at_one_rate_already_stay(third):
    X = np.tile([[0.2], [third], [third + 0.01], [0.8]], (50, 1))
    s = np.repeat(["a", "b"], 100)
    y = np.tile([0, 1, 0, 1, 1], 40)
    settled = RepairedClassifier(vendor(), "sp", two_sided=True, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        settled.fit(X, y, sensitive_features=s)
    assert np.array_equal(settled.positive_chance(X, sensitive_features=s), X[:, 0] > 0.5)


def test_a_reference_of_hardly_anybody_is_said():
    X, y, s = people()
    s = np.r_[["c"] * 4, s[4:]]
    with pytest.warns(FairmendWarning, match="No gap in sp against c can be judged"):
        assert (
            meet(tabulate(vendor(), X, y, sensitive_features=s), disparity="sp", reference="c")
            == {}
        )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"disparity": ["fnr", "fpr"]}, "one gap of rates is to be closed; got fnr, fpr"),
        ({"disparity": "da"}, "one gap of rates is to be closed; got da"),
        ({"disparity": "fdr"}, "rates over decisions; got 'fdr'"),
        ({"method": "order"}, "method: must be 'least_change' for two_sided; got 'order'"),
        ({"target": "a"}, "target: must be None for two_sided; got 'a'"),
        ({"reference": "rest"}, "reference: must be a group, or 'best', for two_sided"),
        ({"level": 2}, "level: must lie between 0 and 1; got 2"),
    ],
)
def test_what_it_cannot_do_is_said(settings, message):
    X, y, s = people()
    with pytest.raises(DataError, match=message):
        RepairedClassifier(vendor(), **{"two_sided": True, **settings}).fit(
            X, y, sensitive_features=s
        )
