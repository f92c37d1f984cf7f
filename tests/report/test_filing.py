"""The tables auditors file, held against published examples, other packages and counting."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, norm

from fairmend import DataError, audit, tabulate
from fairmend.report.filing import (
    PeopleCell,
    cells_of_audit,
    cells_of_data,
    group_metrics,
    impact_tables,
    local_law_144,
)


def cell(label, people, selected):
    return PeopleCell((label,), people, people, people, selected)


def published_scores():
    """Scores with the published rates: 50 of 92 men and 34 of 76 women above the median."""
    sex = np.repeat(["Male", "Male", "Female", "Female"], [50, 42, 34, 42])
    score = np.r_[np.arange(100, 150), np.arange(42), np.arange(150, 184), np.arange(42, 84)]
    return sex, score


def test_the_published_example_by_sex():
    sex, score = published_scores()
    by_sex, _, _ = local_law_144(sex=sex, race=np.full(len(sex), "any"), score=score)
    male, female = by_sex.lines
    assert (male.category, male.people, f"{male.rate:.1%}") == ("Male", 92, "54.3%")
    assert (female.category, female.people, f"{female.rate:.1%}") == ("Female", 76, "44.7%")
    assert [f"{line.ratio:.2f}" for line in by_sex.lines] == ["1.00", "0.82"]


def test_the_published_example_by_race():
    # 41.7 % is 5 of 12, 64.2 % is 34 of 53; the others keep the median where it is
    cells = [cell("Asian", 12, 5), cell("White", 53, 34), cell("Other", 103, 45)]
    [table] = impact_tables("race", cells)
    asian, white, _ = table.lines
    assert [f"{line.rate:.1%}" for line in (asian, white)] == ["41.7%", "64.2%"]
    assert [f"{line.ratio:.2f}" for line in (asian, white)] == ["0.65", "1.00"]
    assert asian.below_four_fifths
    assert not white.below_four_fifths


def test_exactly_four_fifths_is_not_below():
    # 6/10 over 15/20 is 4/5, and 0.6 / 0.75 a little less in floating point
    [table] = impact_tables("g", [cell("a", 10, 6), cell("b", 20, 15)])
    assert table.lines[0].ratio < 0.8
    assert not table.lines[0].below_four_fifths
    [table] = impact_tables("g", [cell("a", 1_000, 599), cell("b", 20, 15)])
    assert table.lines[0].below_four_fifths


def test_sex_race_and_both_are_counted_apart():
    rng = np.random.default_rng(0)
    people = pd.DataFrame(
        {
            "sex": rng.choice(["F", "M", None], 2_000, p=[0.4, 0.5, 0.1]),
            "race": rng.choice(["A", "B", "Unknown"], 2_000, p=[0.5, 0.4, 0.1]),
            "got": rng.integers(0, 2, 2_000),
        }
    )
    tables = local_law_144(sex=people["sex"], race=people["race"], selected=people["got"])
    assert [table.by for table in tables] == ["sex", "race", "sex & race"]
    known_sex, known_race = people["sex"].notna(), people["race"] != "Unknown"
    wanted = {
        "sex": people[known_sex].groupby("sex")["got"],
        "race": people[known_race].groupby("race")["got"],
        "sex & race": people[known_sex & known_race].groupby(["sex", "race"])["got"],
    }
    for table in tables:
        groups = {
            " & ".join(key) if isinstance(key, tuple) else key: values
            for key, values in wanted[table.by]
        }
        top = max(values.mean() for values in groups.values())
        assert {line.category for line in table.lines} == set(groups)
        assert table.unknown == 2_000 - sum(map(len, groups.values()))
        for line in table.lines:
            values = groups[line.category]
            assert line.people == len(values)
            assert line.rate == pytest.approx(values.mean(), abs=1e-12)
            assert line.ratio == pytest.approx(values.mean() / top, abs=1e-12)


def test_small_categories_are_listed_and_left_out_of_the_ratios():
    cells = [cell("small", 19, 19), cell("a", 500, 250), cell("b", 481, 120)]
    [table] = impact_tables("race", cells, filed=True)
    small, a, b = table.lines
    assert small.rate == 1
    assert np.isnan(small.ratio)
    assert small.note == "under 2 % of the people: left out of the ratios"
    assert (a.ratio, b.ratio) == (1.0, pytest.approx(120 / 481 / 0.5))
    [everybody] = impact_tables("race", cells)
    assert everybody.lines[0].ratio == 1


def test_too_few_people_are_not_judged_and_nobody_selected_has_no_ratio():
    [few] = impact_tables("g", [cell("a", 4, 4), cell("b", 50, 5)])
    assert np.isnan(few.lines[0].ratio)
    assert few.lines[1].ratio == 1
    [none] = impact_tables("g", [cell("a", 40, 0), cell("b", 50, 0)])
    assert all(np.isnan(line.ratio) for line in none.lines)
    assert impact_tables("g", []) == ()


@given(st.integers(5, 500), st.data())
def test_rates_have_wilsons_interval(n, data):
    got = data.draw(st.integers(0, n))
    [table] = impact_tables("g", [cell("a", n, got), cell("b", n, n)])
    truth = binomtest(got, n).proportion_ci(0.95, method="wilson")
    line = table.lines[0]
    # the same formula, in another order of operations
    assert (line.low, line.high) == (
        pytest.approx(truth.low, abs=1e-9),
        pytest.approx(truth.high, abs=1e-9),
    )


def test_the_interval_of_a_ratio_covers():
    """Katz and Walter's interval covers in small and large groups, by simulation."""
    rng = np.random.default_rng(0)
    repetitions = 3_000
    for n, p, m, q in ((40, 0.2, 60, 0.5), (400, 0.1, 300, 0.4)):
        x, y = rng.binomial(n, p, repetitions), rng.binomial(m, q, repetitions)
        covered = 0
        for i in range(repetitions):
            [table] = impact_tables("g", [cell("a", n, x[i]), cell("b", m, y[i])])
            line = table.lines[0]
            # by chance the other one may come out on top: then its ratio has no interval
            covered += np.isnan(line.ratio_low) or line.ratio_low <= p / q <= line.ratio_high
        # 95 % within four standard errors of a simulated share, and Walter's errs on the safe side
        assert 0.95 - 4 * np.sqrt(0.05 * 0.95 / repetitions) < covered / repetitions < 0.985


def test_the_ratio_interval_by_hand():
    [table] = impact_tables("g", [cell("a", 50, 10), cell("b", 80, 40)], confidence=0.9)
    middle = np.log((10.5 / 50.5) / (40.5 / 80.5))
    error = np.sqrt(1 / 10.5 - 1 / 50.5 + 1 / 40.5 - 1 / 80.5)
    low, high = np.exp(middle + np.array([-1, 1]) * norm.ppf(0.95) * error)
    assert table.lines[0].ratio_low == pytest.approx(low, rel=1e-12)
    assert table.lines[0].ratio_high == pytest.approx(high, rel=1e-12)


# -------------------------------------------------------------------- from audits and data


def scored(n=800, weight=None):
    rng = np.random.default_rng(3)
    X = np.round(rng.normal(size=(n, 1)), 1)
    groups = pd.DataFrame({"sex": rng.choice(["F", "M"], n), "race": rng.choice(["A", "B"], n)})
    data = tabulate(
        lambda rows: 1 / (1 + np.exp(-rows[:, 0])), X, rng.integers(0, 2, n),
        sensitive_features=groups, sample_weight=weight,
    )  # fmt: skip
    return X[:, 0], groups, data


@pytest.mark.parametrize("n", [800, 801])
def test_scores_above_the_median_of_everybody(n):
    x, groups, data = scored(n)
    score = 1 / (1 + np.exp(-x))
    direct = local_law_144(sex=groups["sex"], race=groups["race"], score=score)
    tabled = impact_tables("sex & race", cells_of_data(data), kind="scoring")
    for one, other in zip(direct, tabled, strict=True):
        rates = {line.category: line.rate for line in one.lines}
        assert {line.category: line.rate for line in other.lines} == pytest.approx(rates, abs=1e-12)
    rate = (score > np.median(score))[groups["sex"] == "F"].mean()
    assert {line.category: line.rate for line in tabled[0].lines}["F"] == pytest.approx(rate)


def test_weighted_people_count_by_weight_and_are_worth_fewer():
    weight = np.where(np.arange(800) % 4 == 0, 5.0, 1.0)
    x, groups, data = scored(weight=weight)
    [by_sex, *_] = impact_tables("sex & race", cells_of_data(data))
    at = (groups["sex"] == "F").to_numpy()
    line = next(line for line in by_sex.lines if line.category == "F")
    rate = np.average(x[at] > 0, weights=weight[at])
    worth = weight[at].sum() ** 2 / (weight[at] ** 2).sum()
    assert line.rate == pytest.approx(rate, abs=1e-12)
    assert line.people == at.sum()
    z = norm.ppf(0.975)
    reach = z / (1 + z**2 / worth) * np.sqrt(rate * (1 - rate) / worth + z**2 / 4 / worth**2)
    assert (line.high - line.low) / 2 == pytest.approx(reach, abs=1e-12)


def test_an_audit_gives_the_same_rates_as_its_data():
    x, groups, data = scored()
    y = np.random.default_rng(4).integers(0, 2, len(x))
    found = audit((x > 0).astype(int), None, y, sensitive_features=groups)
    ours = impact_tables("sex & race", cells_of_audit(found))
    theirs = impact_tables("sex & race", cells_of_data(data))
    for one, other in zip(ours, theirs, strict=True):
        assert [line.rate for line in one.lines] == pytest.approx(
            [line.rate for line in other.lines], abs=1e-12
        )
    weighted = audit(
        (x > 0).astype(int), None, y, sensitive_features=groups, sample_weight=1.0 + (x > 0)
    )
    assert all(np.isnan(line.low) for t in _tables(weighted) for line in t.lines)


def _tables(found):
    return impact_tables(found.attribute, cells_of_audit(found))


def test_labels_that_cannot_be_told_apart_stay_whole():
    cells = [PeopleCell(("a & b & c",), 20, 20, 20, 10), PeopleCell(("x", "y"), 20, 20, 20, 5)]
    [table] = impact_tables("sex & race", cells)
    assert table.by == "sex & race"
    assert [line.category for line in table.lines] == ["a & b & c", "x & y"]


def test_metrics_of_every_group_by_counting():
    rng = np.random.default_rng(5)
    s, h, y = rng.choice(["a", "b", "c"], 900), rng.integers(0, 2, 900), rng.integers(0, 2, 900)
    for reference in ("best", "rest", "b"):
        found = audit(h, None, y, sensitive_features=s, reference=reference)
        for line in group_metrics(found):
            at = s == line.group
            assert line.people == at.sum()
            assert line.accuracy == pytest.approx((h == y)[at].mean(), abs=1e-12)
            assert line.fnr == pytest.approx(1 - h[at & (y == 1)].mean(), abs=1e-12)
            assert line.fpr == pytest.approx(h[at & (y == 0)].mean(), abs=1e-12)
            assert line.fdr == pytest.approx(1 - y[at & (h == 1)].mean(), abs=1e-12)
            counts = line.true_positives, line.false_positives
            counts += line.false_negatives, line.true_negatives
            people = [(at & (h == d) & (y == o)).sum() for d, o in ((1, 1), (1, 0), (0, 1), (0, 0))]
            assert counts == pytest.approx(people, abs=1e-9)
            truth = binomtest(int((h == y)[at].sum()), int(at.sum())).proportion_ci(
                0.95, method="wilson"
            )
            assert line.accuracy_low == pytest.approx(truth.low, abs=1e-9)


def test_a_group_too_small_to_judge_hides_nobody_elses_rates():
    rng = np.random.default_rng(6)
    s, h, y = rng.choice(["b", "c"], 900), rng.integers(0, 2, 900), rng.integers(0, 2, 900)
    s[:3] = "a"  # its gaps come first, and are not judged
    tiny, *others = group_metrics(audit(h, None, y, sensitive_features=s))
    assert np.isnan([tiny.fnr, tiny.fpr, tiny.fdr, tiny.true_positives]).all()
    for line in others:
        at = s == line.group
        assert line.fnr == pytest.approx(1 - h[at & (y == 1)].mean(), abs=1e-12)
        assert line.fpr == pytest.approx(h[at & (y == 0)].mean(), abs=1e-12)
        assert line.fdr == pytest.approx(1 - y[at & (h == 1)].mean(), abs=1e-12)


def test_none_is_a_category_and_unknown_is_not():
    """Whoever has no disability is the very group the others are compared with."""
    cells = [cell("none", 800, 400), cell("some", 200, 50), cell("Unknown", 100, 90)]
    [table] = impact_tables("disability", cells, filed=True)
    assert [(line.category, line.ratio) for line in table.lines] == [("none", 1.0), ("some", 0.5)]
    assert (table.people, table.unknown) == (1_000, 100)


def test_outside_the_tables_to_file_unknown_is_a_group_as_in_the_audit():
    s = np.repeat(["a", "b", "unknown"], 100)
    h = (np.arange(300) % 100 < np.repeat([60, 40, 90], 100)).astype(int)
    found = audit(h, None, np.tile([0, 1], 150), sensitive_features=s)
    [table] = impact_tables(found.attribute, cells_of_audit(found))
    assert (table.people, table.unknown) == (300, 0)
    assert {line.category: (line.people, line.rate, line.ratio) for line in table.lines} == {
        group.group: (group.n, group.selection_rate, group.impact_ratio) for group in found.groups
    }


def test_messages():
    with pytest.raises(DataError, match="must be one of the two; got neither"):
        local_law_144(sex=["F"], race=["A"])
    with pytest.raises(DataError, match="must be one of the two; got both"):
        local_law_144(sex=["F"], race=["A"], selected=[1], score=[1])
    with pytest.raises(DataError, match="got 1 and 2 for 2 people"):
        local_law_144(sex=["F"], race=["A", "B"], selected=[1, 0])
    for said in ([1, None], [1, np.nan], [1, 2], ["yes", "no"]):
        with pytest.raises(DataError, match="selected: must be 0 or 1 for every person"):
            local_law_144(sex=["F", "M"], race=["A", "B"], selected=said)
    with pytest.raises(DataError, match="score: must be a number for every person"):
        local_law_144(sex=["F", "M"], race=["A", "B"], score=[0.5, np.nan])


def test_an_audit_of_weighted_people_pools_by_weight():
    """A category of an intersection is worth what its people weigh, not how many they are."""
    rng = np.random.default_rng(0)
    n = 1_000
    sex, race = rng.choice(["F", "M"], n), rng.choice(["A", "B"], n)
    said = (rng.random(n) < np.where(race == "A", 0.7, 0.2)).astype(int)
    weight = np.where(race == "A", 5.0, 1.0) * rng.uniform(0.5, 2, n)
    found = audit(
        said, None, rng.integers(0, 2, n), sample_weight=weight,
        sensitive_features={"sex": sex, "race": race},
    )  # fmt: skip
    assert all(np.isnan(line.true_positives) for line in group_metrics(found))
    assert "Decisions and outcomes of each group" not in found.to_html(), "nobody is counted"
    tables = impact_tables(found.attribute, cells_of_audit(found))
    for table, labels in zip(tables, (sex, race), strict=False):
        for line in table.lines:
            own = labels == line.category
            assert line.people == own.sum()
            assert line.rate == pytest.approx(np.average(said[own], weights=weight[own]))
