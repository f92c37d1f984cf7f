"""Cards of results in a notebook: short, true, in the theme of the reader, safe beside others."""

import re
from html import unescape
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import fairmend
from fairmend.errors import MissingExtra
from fairmend.report.chart import RowChart
from fairmend.report.html.cards import MOST_ROWS
from narrow import cut_off

EVIL = "<script>alert(1)</script>"
PAGE = """<!doctype html><html><head><style>
.jp-RenderedHTMLCommon svg { max-width: 100%; height: auto; }
.jp-RenderedHTMLCommon p { margin-bottom: 40px; }
</style></head><body {theme}><p class="name">beside</p>
<div class="jp-RenderedHTMLCommon">{card}</div></body></html>"""


@pytest.fixture(scope="module")
def results():
    """One of each, of a table with numbers, about groups whose name would like to be more."""
    rng = np.random.default_rng(0)
    n = 1_200
    group = rng.choice(["Female", EVIL], n)
    X = pd.DataFrame({"income": np.round(rng.normal(3 - 0.8 * (group == "Female"), 1, n), 1),
                      "member": rng.integers(0, 2, n)})  # fmt: skip
    y = (rng.random(n) < 1 / (1 + np.exp(2.5 - X["income"]))).astype(int)
    model = LogisticRegression().fit(X[:400], y[:400])
    fitted = fairmend.RepairedClassifier(model, "sp", random_state=0)
    fitted.fit(X[400:800], y[400:800], sensitive_features=group[400:800])
    given = X[800:], y[800:]
    return SimpleNamespace(
        audit=fairmend.audit(model, *given, sensitive_features=group[800:]),
        counterfactual=fairmend.counterfactual(
            model, *given, sensitive_features=group[800:], disparity="sp"
        ),
        plan=fitted.plan_,
        report=fitted.report(*given, sensitive_features=group[800:], holdout=True),
        fitted=fitted,
    )


KINDS = ("audit", "counterfactual", "plan", "report", "fitted")


def words(html):
    """The text of a card, without its style."""
    text = re.sub(r"<style>.*?</style>", "", html, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", text)).split())


@pytest.mark.parametrize("kind", KINDS)
def test_a_card_is_small_and_escapes_what_it_is_given(results, kind):
    html = getattr(results, kind)._repr_html_()
    assert "<script" not in html
    assert len(html) < 20_000
    assert ' id="' not in html  # another card may stand above


@pytest.mark.parametrize("kind", KINDS)
def test_a_repr_is_short(results, kind):
    assert len(repr(getattr(results, kind))) < 200 + 2 * len(EVIL)


def test_cards_show_the_figures_of_their_results(results):
    gap = results.audit["sp", "Female"]
    assert f"+{100 * gap.gap:.1f}" in words(results.audit._repr_html_())
    tile = words(results.report._repr_html_())
    old, new = (audit["sp", "Female"] for audit in (results.report.before, results.report.after))
    assert f"+{100 * old.gap:.1f} →" in tile
    assert f"{100 * new.target_rate:.1f}" in tile
    plan = words(results.plan._repr_html_())
    assert f"+{100 * results.plan.outlook.gap_before:.1f}" in plan
    assert plan.split("points")[1:] == words(results.fitted._repr_html_()).split("points")[1:] or (
        "inputs edited, Female" in plan
    )
    median = results.counterfactual.marginals().query("feature == 'income' & statistic == '50 %'")
    for figure in median[["observed", "counterfactual", "baseline"]].to_numpy()[0]:
        assert f"{figure:.4g}" in words(results.counterfactual._repr_html_())


@pytest.mark.parametrize("kind", KINDS)
def test_a_plot_holds_the_chart_of_the_card(results, kind):
    result = getattr(results, kind)
    [chart, *others] = result._card().charts
    spec = result.plot().to_dict()
    first = spec["vconcat"][0] if others else spec
    assert first["title"]["text"] == chart.caption
    values = {
        entry["value"] for layer in first["layer"] for entry in layer["data"]["values"]
        if "value" in entry and layer["mark"]["type"] != "rule"
    }  # fmt: skip
    assert isinstance(chart, RowChart)
    assert values == {mark.value for row in chart.rows for mark in row.marks if mark.is_known}


def test_many_groups_are_cut_and_counted():
    rng = np.random.default_rng(0)
    group, decision = rng.integers(0, 20, 4_000), rng.integers(0, 2, 4_000)
    audit = fairmend.audit(decision, None, None, sensitive_features=group, metrics=["sp"])
    html = audit._repr_html_()
    assert html.count('class="row"') == MOST_ROWS
    assert f"{19 - MOST_ROWS} more rows are left out here." in html
    assert len(audit._card().charts[0].rows) == 19


@pytest.mark.slow
def test_the_labels_of_a_narrow_axis_keep_their_distance(results, browser):
    tab = browser.new_page(viewport={"width": 1280, "height": 900})  # columns, not one of a phone
    for kind in KINDS:
        tab.set_content(f'<div style="width: 34rem">{getattr(results, kind)._repr_html_()}</div>')
        axes = tab.locator(".axis .track svg").evaluate_all(
            """all => all.map(one => [...one.querySelectorAll("text")].map(
                 text => text.getBoundingClientRect()).map(box => [box.left, box.right]))"""
        )
        assert axes
        for boxes in axes:
            assert all(left > right + 2 for (_, right), (left, _) in pairwise(boxes)), kind
    tab.close()


def test_before_it_is_fitted_a_classifier_shows_its_settings(results):
    unfitted = fairmend.RepairedClassifier(results.fitted.model)
    assert "fairmend-card" not in unfitted._repr_html_()
    assert "sk-top-container" in unfitted._repr_mimebundle_()["text/html"]
    bundle = results.fitted._repr_mimebundle_()
    assert bundle["text/html"] == results.fitted._repr_html_()
    assert bundle["text/plain"].startswith("RepairedClassifier(")


def test_without_templates_there_is_the_text(results, monkeypatch):
    def missing(*_, **__):
        raise MissingExtra("a card", "needs jinja2", "it is not installed", "Install it.")

    monkeypatch.setattr("fairmend.doors.require", missing)
    html = results.audit._repr_html_()
    assert html.startswith("<pre>Audit of 400 people")
    assert "<script" not in html


@pytest.mark.slow
@pytest.mark.parametrize(
    ("theme", "system", "paper"),
    [
        ("", "light", "rgb(255, 255, 255)"),
        ("", "dark", "rgb(18, 22, 27)"),
        ('data-jp-theme-light="true"', "dark", "rgb(255, 255, 255)"),
        ('data-jp-theme-light="false"', "light", "rgb(18, 22, 27)"),
        ('class="vscode-dark"', "light", "rgb(18, 22, 27)"),
    ],
)
def test_a_card_follows_the_theme_and_keeps_to_itself(results, browser, theme, system, paper):
    context = browser.new_context(color_scheme=system, viewport={"width": 390, "height": 800})
    tab = context.new_page()
    tab.set_content(PAGE.replace("{theme}", theme).replace("{card}", results.report._repr_html_()))
    card = tab.locator(".fairmend-card")
    assert card.evaluate("one => getComputedStyle(one).backgroundColor") == paper
    assert cut_off(tab) == []
    tall = tab.locator(".track svg:not(.back)").first.evaluate("one => one.clientHeight")
    assert tall == results.report._card().charts[0].high
    beside = tab.locator("body > p.name")  # a notebook's own element with a name of ours
    assert beside.evaluate("one => getComputedStyle(one).alignSelf") == "auto"
    context.close()
