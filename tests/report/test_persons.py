"""Single people in a report: those that transform edits, with the same inputs, and no others."""

import numpy as np
import pandas as pd
import pytest
from axe_playwright_python.sync_playwright import Axe

from fairmend import DataError, FairmendWarning, RepairedClassifier, audit
from fairmend.report import persons
from fairmend.report.verdict import NO_FACTS, why_edited
from narrow import cut_off

EVIL = "<img src=x onerror=alert(1)>"


def people(seed, n=1_500):
    rng = np.random.default_rng(seed)
    group = rng.choice(["a", "b"], n)
    income = np.round(np.exp(rng.normal(10 - 0.4 * (group == "b"), 0.5, n)), 2)
    X = pd.DataFrame({"income": income, "job": rng.choice([EVIL, "clerk", None], n)})
    X["id"] = [f"{EVIL}{i:05d}" for i in range(n)]
    y = (rng.random(n) < 1 / (1 + np.exp(-2 * (np.log(income) - 10)))).astype(int)
    return X, y, group


def vendor(rows):
    score = 1 / (1 + np.exp(-2 * (np.log(rows["income"]) - 10.1)))
    return (
        np.round(score.to_numpy(), 1) * 0.98 + 0.01
    )  # many people share a score, so some are drawn


@pytest.fixture(scope="module")
def fitted():
    X, y, group = people(0)
    repair = RepairedClassifier(vendor, "fnr", random_state=0)
    return repair.fit(X[["income", "job"]], y, sensitive_features=group)


@pytest.fixture(scope="module")
def report(fitted):
    X, y, group = people(1)
    return fitted.report(X, y, sensitive_features=group, ids="id", explanation=False)


def test_people_are_those_that_transform_edits(fitted, report):
    X, _, group = people(1)
    inputs = X[["income", "job"]]
    edited = fitted.transform(inputs, sensitive_features=group, ids=X["id"])
    decided = fitted.predict(inputs, sensitive_features=group, ids=X["id"])
    moved = (edited["income"] != inputs["income"]) | (
        edited["job"].fillna("missing") != inputs["job"].fillna("missing")
    )
    assert [one.id for one in report.people] == X["id"][moved].tolist()
    places = np.flatnonzero(moved)
    assert len(places) > 20
    for place, one in zip(places, report.people, strict=True):
        changes = {change.feature: (change.old, change.new) for change in one.changes}
        for name in ("income", "job"):
            old, new = (persons.exact_text(rows[name].iloc[place]) for rows in (inputs, edited))
            assert changes.get(name, (old, old)) == (old, new)
        assert one.group == group[place] == "b"
        assert one.decision_after == str(decided[place]) == "1"
        assert one.score_before == vendor(inputs.iloc[[place]])[0]


def test_only_people_whose_edit_is_drawn_are_told_of_a_draw(fitted, report):
    X, _, group = people(1)
    law = fitted.positive_chance(X[["income", "job"]], sensitive_features=group)
    chance = dict(zip(X["id"], law, strict=True))
    drawn = [one for one in report.people if one.chance < 1]
    assert drawn
    for one in report.people:
        assert one.chance == pytest.approx(chance[one.id], abs=1e-9)
        told = " ".join(why_edited(report, one))
        assert ("The chance was" in told) is (one.chance < 1)
        assert f"(score {one.score_before:.3g}, cut 0.5)" in told
        assert "those nearest to the model's cut first" in told


@pytest.mark.filterwarnings("ignore::fairmend.FairmendWarning")
@pytest.mark.parametrize("settings", [{"two_sided": True}, {"level": 0.5}], ids=str)
def test_why_somebody_is_edited_states_the_gap_of_their_own_group(settings):
    """The group that fares better is edited too from both sides: it does not fare worse."""
    X, y, group = people(0)
    inputs = X[["income", "job"]]
    repair = RepairedClassifier(vendor, "sp", random_state=0, **settings)
    repair.fit(inputs, y, sensitive_features=group)
    report = repair.report(X, y, sensitive_features=group, ids="id", explanation=False)
    refused = 1 - (vendor(inputs) > 0.5)
    rate = {name: refused[group == name].mean() for name in ("a", "b")}
    told = {one.group: why_edited(report, one)[1] for one in report.people}
    assert ("a" if "two_sided" in settings else "b") in told
    for name, said in told.items():
        other = "ab".replace(name, "")
        gap = 100 * (rate[name] - rate[other])
        assert said.startswith(
            f"Where the repair was fitted, the gap in statistical parity of {name} against "
            f"{other} was {gap:+.1f} points. To narrow it, "
        )


def test_without_ids_nobody_is_named(fitted):
    X, y, group = people(1)
    report = fitted.report(X, y, sensitive_features=group, explanation=False)
    assert report.people == ()
    assert "One person at a time" not in report.to_html()


def test_more_people_than_are_shown_are_counted(fitted, report, monkeypatch):
    X, _, group = people(1)
    applied = fitted._apply(X[["income", "job"]], group, X["id"])
    some, left = persons.edited_people(applied, most=5)
    assert [one.id for one in some] == [one.id for one in report.people[:5]]
    assert left == len(report.people) - 5


def test_a_blind_repair_names_no_group():
    X, y, group = people(0)
    repair = RepairedClassifier(vendor, "sp", blind=True, random_state=0)
    with pytest.warns(FairmendWarning, match="takes the favourable decision"):
        repair.fit(X[["income", "job"]], y, sensitive_features=group)
    report = repair.report(X, y, sensitive_features=group, ids="id", explanation=False)
    assert report.people
    assert {one.group for one in report.people} == {None}
    assert "one rule for everybody" in " ".join(why_edited(report, report.people[0]))


def test_people_elsewhere_cannot_be_shown_one_by_one(fitted, tmp_path):
    X, y, group = people(1)
    pl = pytest.importorskip("polars")
    lazy = pl.from_pandas(X.assign(y=y, group=group)).lazy()
    with pytest.raises(DataError, match="ids: need people in memory"):
        fitted.report(lazy, "y", sensitive_features="group", ids="id")


@pytest.mark.slow
def test_a_choice_shows_another_person(report, open_page, tmp_path):
    report.save_html(tmp_path / "report.html")
    opened = open_page(tmp_path / "report.html", width=390)
    page = opened.page
    section = page.locator("#persons")
    assert NO_FACTS in section.inner_text()
    assert section.locator("h3").inner_text() == f"{report.people[0].id}, b"
    for place in (0, 7, len(report.people) - 1):
        one = report.people[place]
        page.get_by_label("Person", exact=True).select_option(index=place)
        assert section.locator("h3").inner_text() == f"{one.id}, b"
        rows = section.locator("tbody tr").all()
        shown = [tuple(row.locator("th, td").all_text_contents()) for row in rows]
        assert shown == [(change.feature, change.old, change.new) for change in one.changes]
    assert cut_off(page) == []
    found = Axe().run(page, context="#persons")
    assert found.violations_count == 0, found.generate_report()
    page.emulate_media(media="print")
    assert not section.is_visible(), "paper is handed on"
    assert opened.errors == []
    assert len(report.to_html()) < 1_500_000


def test_an_audit_has_nobody_in_it(fitted):
    X, y, group = people(1)
    page = audit(vendor, X[["income", "job"]], y, sensitive_features=group).to_html()
    assert "One person at a time" not in page
