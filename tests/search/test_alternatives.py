"""The search: figures counted independently, honest choosing, and what can be done with it."""

import json
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression

import fairmend
from fairmend import BlackBox
from fairmend.errors import DataError, FairmendError, FairmendWarning
from fairmend.search import candidates, choice

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::fairmend.FairmendWarning")]


def applicants(n, seed=0):
    """A coarse income that one group has less of, a skill both have, and an irrelevant flag."""
    rng = np.random.default_rng(seed)
    sex = rng.choice(["f", "m"], n)
    income = rng.binomial(4, np.where(sex == "f", 0.4, 0.6), n)
    skill, flag = rng.binomial(3, 0.5, n), rng.binomial(1, np.where(sex == "f", 0.2, 0.7), n)
    X = pd.DataFrame({"income": income, "skill": skill, "flag": flag})
    y = (rng.random(n) < 1 / (1 + np.exp(-(0.9 * income + 0.9 * skill - 3.2)))).astype(int)
    return X, y, sex


def vendor(rows):
    """It weighs the flag, which says nothing of the outcome."""
    logit = 0.9 * rows["income"] + 0.9 * rows["skill"] + 0.8 * rows["flag"] - 3.6
    return 1 / (1 + np.exp(-logit.to_numpy()))


@pytest.fixture(scope="module")
def people():
    return applicants(6_000)


@pytest.fixture(scope="module")
def judges():
    return applicants(6_000, 1)


@pytest.fixture(scope="module")
def found(people, judges):
    X, y, sex = people
    holdout = dict(zip(("X", "y", "sensitive_features"), judges, strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairmendWarning)
        return fairmend.alternatives(
            BlackBox(vendor, output="probability"), X, y, sensitive_features=sex, margin=0.01,
            measure="accuracy", holdout=holdout, models={"older": older}, random_state=0,
        )  # fmt: skip


def older(rows):
    return (rows["income"] + rows["skill"] > 4).astype(int).to_numpy()


# -------------------------------------------------------------------- figures


def decisions_of(found, name, X):
    return found.classifier(name).predict(X)


@pytest.mark.parametrize(
    "kind", ["current", "model", "cut", "input held", "blind", "reads the group"]
)
def test_each_kind_is_there_and_its_figures_are_counted(found, judges, kind):
    X, y, sex = judges
    some = [one for one in found.candidates if one.kind == kind]
    assert some
    one = some[-1]
    if one.reads_group:
        repaired = found.classifier(one)
        decided = repaired.positive_chance(X, sensitive_features=sex)
    else:
        decided = decisions_of(found, one.name, X).astype(float)
    now = (vendor(X) > 0.5).astype(float)
    gap = (1 - decided[sex == "f"]).mean() - (1 - decided[sex == "m"]).mean()
    assert one.gap == pytest.approx(gap, abs=1e-9)
    right = (decided * y + (1 - decided) * (1 - y)).mean()
    assert one.judging.performance.value == pytest.approx(right, abs=1e-9)
    assert one.judging.changed == pytest.approx(np.abs(decided - now).mean(), abs=1e-9)
    assert one.judging.gain == pytest.approx(np.maximum(decided - now, 0).mean(), abs=1e-9)
    assert one.judging.lose == pytest.approx(np.maximum(now - decided, 0).mean(), abs=1e-9)
    for group in one.judging.groups:
        assert group.selected == pytest.approx(decided[sex == group.group].mean(), abs=1e-9)
    assert one.reads_group == (kind == "reads the group")


def test_the_gap_and_its_interval_are_those_of_the_audit(found, judges):
    X, y, sex = judges
    audited = fairmend.audit(
        BlackBox(vendor, output="probability"), X, y, sensitive_features=sex, metrics=["sp"]
    )["sp", "f"]
    mine = found.current.judging.gap
    assert (mine.gap, mine.low, mine.high) == (audited.gap, audited.low, audited.high)


def test_what_the_model_should_not_look_at_is_found(found):
    """The flag tells the group and nothing of the outcome: without it the model does as well."""
    best = found.best
    assert best is not None
    assert not best.reads_group
    assert abs(best.gap) < abs(found.current.gap) - 0.03
    assert best.judging.performance.difference > -0.01
    held = found["flag held at 1"]
    assert held.equivalent or held.judging.performance.difference > 0


# -------------------------------------------------------------------- choosing


def test_the_order_is_named_on_other_people_and_kept(found):
    named = found.named
    assert [one.place for one in named] == list(range(1, len(named) + 1))
    widths = [abs(one.choosing.gap.gap) for one in named]
    assert widths == sorted(widths, reverse=True)
    passed = [one.passed for one in named]
    assert passed == sorted(passed, reverse=True)  # up to the first that fails
    assert found.best is [one for one in named if one.passed][-1]
    assert all(choice.passes(one.judging) for one in named if one.passed)
    assert all(one.choosing.part == "choosing" and one.judging.part == "judging"
               for one in found.candidates)  # fmt: skip


def test_levels_are_halved_where_a_blind_repair_stops_to_be_about_as_good(found):
    level = {one.name: one.candidate.settings.level for one in found.candidates}
    blind = [one for one in found.candidates if re.fullmatch(r"blind, [\d.]+ %", one.name)]
    assert sorted(level[one.name] for one in blind) == [level[one.name] for one in blind]
    within = [level[one.name] for one in blind if one.choosing.performance.difference >= -0.01]
    beyond = [level[one.name] for one in blind if level[one.name] > max(within)]
    low = max(one for one in candidates.LEVELS if one <= max(within))
    high = min(one for one in candidates.LEVELS if one > low)
    # closer than 2 ** HALVINGS of the gap between two levels; equal decisions are listed once
    assert 0 < min(beyond) - max(within) <= 2 * (high - low) / 2**candidates.HALVINGS


def test_the_measures_of_those_named_have_wider_intervals(found, judges):
    def half(one):
        performance = one.judging.performance
        return (performance.high - performance.low) / 2

    named = next(one for one in found.candidates if one.place and one.kind == "blind")
    other = next(one for one in found.candidates if not one.place and one.kind == "blind")
    X, y, _ = judges
    for one, confidence in ((named, 1 - 0.05 / len(found.named)), (other, 0.95)):
        right = decisions_of(found, one.name, X) == y
        error = np.sqrt(np.mean(right) * (1 - np.mean(right)) / len(y))
        # pseudo-people widen it by less than a hundredth
        assert half(one) == pytest.approx(norm.ppf((1 + confidence) / 2) * error, rel=0.01)


def test_the_frontier_is_what_nothing_beats(found):
    blind = [one for one in found.candidates if not one.reads_group]
    kept = set(found.frontier)
    for one in blind:
        beaten = any(
            abs(other.gap) < abs(one.gap)
            and other.judging.performance.value > one.judging.performance.value
            for other in blind
        )
        assert not (beaten and one in kept)


def test_the_same_call_gives_the_same_figures_and_says_that_the_judges_are_spent(people):
    X, y, sex = people
    few = slice(0, 1_500)
    call = {"sensitive_features": sex[few], "margin": 0.02, "random_state": 3}
    first = fairmend.alternatives(vendor, X[few], y[few], **call)
    with pytest.warns(FairmendWarning, match="have judged a search before"):
        again = fairmend.alternatives(vendor, X[few], y[few], **call)
    pd.testing.assert_frame_equal(first.to_frame(), again.to_frame())


def test_a_split_keeps_a_persons_rows_together_and_every_cell_in_proportion(people):
    from fairmend.search.people import Given, split

    X, y, sex = (part[:2_000] for part in people)
    ids = np.repeat(np.arange(1_000), 2)
    box = BlackBox(vendor, output="probability")
    one, other = split(box, Given(X, y, sex, ids=ids), {}, 0.3, 0)
    parts = [np.asarray(part.given.ids) for part in (one, other)]
    assert not set(parts[0]) & set(parts[1])
    assert len(one) + len(other) == 2_000
    assert len(other) == pytest.approx(600, abs=8)


# -------------------------------------------------------------------- other models and measures


def test_labels_only_and_recorded_answers(people):
    X, y, sex = (part[:1_000] for part in people)
    labels = (vendor(X) > 0.5).astype(int)
    kinds = {one.kind for one in fairmend.alternatives(
        labels, X, y, sensitive_features=sex, random_state=0).candidates}  # fmt: skip
    assert "cut" not in kinds  # no scores
    assert "input held" not in kinds  # nobody to ask
    assert {"current", "blind", "reads the group"} <= kinds


def test_another_model_may_be_recorded_in_a_column(people):
    X, y, sex = (part[:1_000] for part in people)
    table = X.assign(v2=older(X))
    found = fairmend.alternatives(
        vendor, table, y, sensitive_features=sex, models={"v2": "v2", "v3": older(X)},
        random_state=0,
    )  # fmt: skip
    assert found["v2"].gap == found["v3"].gap
    assert "v2" not in found.choosing.table.names
    with pytest.raises(DataError, match="names that no other candidate has"):
        fairmend.alternatives(vendor, X, y, sensitive_features=sex,
                              models={"the model as it is": older})  # fmt: skip


@pytest.mark.parametrize("measure", [
    "worth", "balanced_accuracy", "auc", {"false_positive": 1, "false_negative": 3}, "profit",
    lambda decided, outcome: (decided == outcome).mean(),
])  # fmt: skip
def test_every_measure(people, measure):
    X, y, sex = (part[:1_500] for part in people)
    amount = np.where(y == 1, 10.0, -25.0)
    table = X.assign(profit=amount) if measure == "profit" else X
    found = fairmend.alternatives(
        vendor, table, y, sensitive_features=sex, measure=measure, margin=0.02, random_state=1
    )
    frame = found.to_frame()
    assert (frame["measure_low"] <= frame["measure"]).all()
    assert (frame["measure"] <= frame["measure_high"]).all()
    assert str(found)
    if measure == "profit":
        part = found.provenance.reported
        assert found.relative_margin
        assert part == 750
    if callable(measure) or measure == "auc":
        assert "no mean over people" in str(found.bound)


def test_profit_is_what_positive_decisions_bring(people):
    X, y, sex = (part[:1_000] for part in people)
    amount = np.where(y == 1, 10.0, -25.0)
    others = applicants(1_000, 9)
    holdout = {"X": others[0].assign(profit=7.0), "y": others[1], "sensitive_features": others[2]}
    found = fairmend.alternatives(
        vendor, X.assign(profit=amount), y, sensitive_features=sex, measure="profit",
        margin=0.05, holdout=holdout, random_state=0,
    )  # fmt: skip
    accepted = (vendor(others[0]) > 0.5).mean()
    assert found.current.judging.performance.value == pytest.approx(7.0 * accepted)


def test_weights_and_several_groups_and_several_gaps(people):
    X, y, sex = (part[:1_200] for part in people)
    rng = np.random.default_rng(2)
    group = np.where(rng.random(1_200) < 0.3, "x", sex)
    found = fairmend.alternatives(
        vendor, X, y, sensitive_features=group, sample_weight=rng.uniform(0.5, 1.5, 1_200),
        disparity=["sp", "fnr"], margin=0.02, random_state=0,
    )  # fmt: skip
    assert found.metric == "sp, fnr"
    assert found.to_frame()["gap"].notna().all()


def test_continuous_inputs_have_a_bound_by_the_models_alone():
    rng = np.random.default_rng(4)
    n = 1_500
    sex = rng.choice(["f", "m"], n)
    x = rng.normal(np.where(sex == "f", -0.4, 0.4), 1.0)
    z = rng.normal(size=n)
    y = (rng.random(n) < 1 / (1 + np.exp(-(x + z)))).astype(int)
    X = pd.DataFrame({"x": x, "z": z})
    model = LogisticRegression().fit(X, y)
    found = fairmend.alternatives(model, X, y, sensitive_features=sex, random_state=0)
    assert found.bound.any_rule is None
    assert 0 <= found.bound.modelled <= abs(found.current.gap)


# -------------------------------------------------------------------- to deploy and to tell


@pytest.mark.parametrize("kind", ["current", "model", "cut", "input held", "blind"])
def test_a_candidate_can_be_stored_and_reads_no_group(found, judges, tmp_path, kind):
    X, y, sex = judges
    one = next(one for one in found.candidates if one.kind == kind)
    repaired = found.classifier(one.name)
    decided = repaired.predict(X)
    with pytest.raises(FairmendError):
        repaired.predict(X, sensitive_features=sex)
    repaired.save(tmp_path / "a.fairmend")
    model = older if kind == "model" else vendor
    again = fairmend.load(tmp_path / "a.fairmend", model, key=repaired.key_)
    assert (again.predict(X) == decided).all()
    report = again.report(X, y, sensitive_features=sex, explanation=False)
    assert report.accuracy_after == pytest.approx((decided == y).mean())


def test_a_held_input_is_counted_against_the_rest_as_these_are_then_decided():
    X, y, _ = applicants(3_000)
    town = np.random.default_rng(3).choice(["a", "b", "c"], len(y))
    held = dict(zip(("X", "y", "sensitive_features"), (X, y, town), strict=True))
    found = fairmend.alternatives(
        BlackBox(vendor, output="probability"), X, y, sensitive_features=town, holdout=held,
        reference="rest", margin=0.01, measure="accuracy", random_state=0,
    )  # fmt: skip
    one = next(one for one in found.candidates if one.kind == "input held")
    repaired = found.classifier(one)
    refused = repaired.predict(X) == 0
    assert "rest" in {plan.baseline for plan in repaired.plans_.values()}
    for group, plan in repaired.plans_.items():
        others = town != group if plan.baseline == "rest" else town == plan.baseline
        gap = refused[town == group].mean() - refused[others].mean()
        assert plan.outlook.gap_after == pytest.approx(gap, abs=1e-12)


def test_the_frame_has_what_a_dossier_needs(found):
    frame = found.to_frame()
    wanted = {"candidate", "kind", "reads_group", "measure", "measure_low", "measure_high",
              "equivalent", "gap", "low", "high", "changed", "gain", "lose"}  # fmt: skip
    assert wanted <= set(frame.columns)
    assert json.loads(json.dumps(found.to_dict()))["best"] == found.best.name
    assert found.best.name in repr(found)


def test_every_figure_of_the_verdict_is_one_of_the_result(found):
    text, best = found.verdict(), found.best.judging
    said = [float(one) for one in re.findall(r"[+-]\d+\.\d", text)]
    known = [found.current.gap, best.gap.gap, best.gap.low, best.gap.high,
             best.performance.difference, best.performance.difference_low,
             best.performance.difference_high]  # fmt: skip
    assert said == [round(100 * one, 1) + 0.0 for one in known]
    assert ("mostly by taking favourable decisions away" in text) == (best.lose > best.gain)


def test_where_nothing_passes_it_is_not_called_proof():
    """The model knows P(Y=1 | x) and cuts where most are right: every other decision is worse."""
    X, y, sex = applicants(3_000, 5)
    found = fairmend.alternatives(
        lambda rows: 1 / (1 + np.exp(3.2 - 0.9 * (rows["income"] + rows["skill"]))),
        X, y, sensitive_features=sex, measure="accuracy", margin=0.0001, random_state=0,
    )  # fmt: skip
    assert found.best is None
    assert "That is not proof that there is none." in found.verdict()
    assert found.verdict().startswith("No alternative is shown to be better.")
    decided = (X["income"] + X["skill"] > 3).astype(int)
    assert found.classifier().predict(X).tolist() == decided.tolist()


@pytest.mark.parametrize(("change", "told"), [
    ({"measure": "acuracy"}, "accuracy"),
    ({"margin": 0}, "margin"),
    ({"margin": "x"}, "margin"),
    ({"models": ["v2"]}, "models"),
    ({"holdout": 1.5}, "holdout"),
    ({"holdout": {"X": 1}}, "holdout"),
    ({"disparity": "da"}, "disparity"),
    ({"disparity": "xyz"}, "xyz"),
    ({"immutable": ["salary"]}, "salary"),
    ({"y": None}, "y"),
    ({"X": "people.parquet"}, "X"),
    ({"model": BlackBox(vendor, soft=True)}, "model"),
    ({"reference": "x"}, "reference"),
    ({"measure": {"false_positive": 1}}, "measure: must give the costs"),
])  # fmt: skip
def test_mistakes_are_told_by_name(people, change, told):
    X, y, sex = (part[:500] for part in people)
    call = {"model": vendor, "X": X, "y": y, "sensitive_features": sex} | change
    with pytest.raises(FairmendError) as error:
        fairmend.alternatives(
            call.pop("model"), call.pop("X"), call.pop("y"), **call, random_state=0
        )
    assert told in str(error.value)


def test_too_few_people_is_not_called_no_gap():
    X, y, sex = applicants(16, 7)
    with pytest.raises(DataError, match="enough people to compare"):
        fairmend.alternatives(vendor, X, y, sensitive_features=sex, random_state=0)


def test_there_is_nothing_to_search_where_nobody_is_worse_off():
    X, y, sex = applicants(500, 7)
    with pytest.raises(DataError, match="worse off"):
        fairmend.alternatives(lambda rows: np.ones(len(rows), int), X, y, sensitive_features=sex)


def test_an_unknown_candidate_gets_the_nearest_name(found):
    with pytest.raises(DataError, match="flag held at 1"):
        found["flag held at l"]


def test_a_best_that_is_better_is_called_no_worse_and_not_unequal(found):
    best = found.best
    assert best is not None
    shown = {one.name: one.standing for one in found.candidates}
    assert shown[best.name] in ("yes", "no worse")
    assert shown[found.current.name] == "yes"
    for one in found.candidates:
        assert (shown[one.name] == "yes") == one.equivalent
        assert one.passed or shown[one.name] != "no worse"


def test_inputs_that_tell_the_group_are_named(people):
    X, y, sex = people
    told = X.assign(man=(sex == "m").astype(int))
    found = fairmend.alternatives(
        BlackBox(vendor, output="probability"), told, y, sensitive_features=sex, margin=0.01,
        measure="accuracy", random_state=0,
    )  # fmt: skip
    if found.best is not None:
        assert "beside the inputs that tell it to the model: 'man'" in found.verdict()
    assert found._what_it_reads().endswith("'man'.")
