"""Charts hold what the Counterfactual holds, and become files whole or not at all."""

import importlib
import json
import re

import numpy as np
import pandas as pd
import pytest

from fairmend import DataError, MissingExtra, counterfactual, counterfactual_data
from fairmend.datasets import toy_descent
from fairmend.report import plot
from fairmend.report.findings import Explanation
from fairmend.report.html import repair
from fairmend.report.vega import chart_spec


@pytest.fixture(scope="module")
def descended():
    audit, held = (toy_descent().sample(3_000, random_state=seed) for seed in (0, 1))
    X, y, s = audit
    return counterfactual(
        toy_descent().decision, X, y, sensitive_features=s, disparity="fpr", method="descent",
        target="target", holdout=held,
    )  # fmt: skip


@pytest.fixture(scope="module")
def mixed():
    rng = np.random.default_rng(0)
    s = rng.choice(["a", "b"], 500)
    X = pd.DataFrame({"age": rng.integers(18, 80, 500), "city": rng.choice(["Ulm", "Bonn"], 500)})
    X["member"] = (rng.random(500) < np.where(s == "a", 0.3, 0.6)).astype(int)
    return counterfactual(
        lambda rows: rows["member"], X, rng.integers(0, 2, 500), sensitive_features=s,
        disparity="sp", target="a",
    )  # fmt: skip


def values(chart, layer):
    return pd.DataFrame(chart.to_dict()["layer"][layer]["data"]["values"])


def drawn_points(part):
    """The points of a chart of rows: names, sides and values."""
    layers = [one for one in part["layer"] if one["mark"]["type"] in ("point", "tick")]
    return pd.DataFrame([entry for one in layers for entry in one["data"]["values"]])


def test_the_trace_draws_both_curves(descended):
    chart = plot.trace(descended)
    drawn = values(chart, 1)
    for name, curve in (
        ("audit data", descended.trace.value),
        ("holdout data", descended.trace.holdout_value),
    ):
        line = drawn[drawn["data"] == name]
        assert line["iteration"].tolist() == list(range(len(curve)))
        np.testing.assert_allclose(line["disparity"], curve, atol=0)
    spec = chart.to_dict()
    assert spec["title"]["text"] == "FPR gap of target against baseline during the descent"
    assert "%" in spec["layer"][1]["encoding"]["y"]["axis"]["format"]
    assert " modelled, " in spec["title"]["subtitle"][0]


def test_without_holdout_there_is_one_curve_and_no_legend():
    found = counterfactual_data(toy_descent().tabulated(), disparity="fpr", method="descent")
    chart = plot.trace(found)
    assert set(values(chart, 1)["data"]) == {"audit data"}
    assert chart.to_dict()["layer"][1]["encoding"]["color"]["legend"] is None


def test_a_projection_has_no_trace(mixed):
    with pytest.raises(DataError) as error:
        plot.trace(mixed)
    assert str(error.value) == (
        "plot.trace(): needs the course of a descent; got a projection, which has none. "
        "Use method='descent'."
    )


def test_inputs_are_drawn_as_they_are_tabled(mixed):
    shares, *numbers = plot.marginals(mixed).to_dict()["vconcat"]
    sides = {"a, observed": "observed", "b, observed": "baseline",
             "a, counterfactual": "counterfactual"}  # fmt: skip
    table = mixed.marginals().assign(
        name=lambda t: np.where(t.statistic == "1", t.feature, t.feature + " = " + t.statistic)
    )
    points = drawn_points(shares).pivot(index="name", columns="of", values="value")
    moving = table[table.is_share & (abs(table.counterfactual - table.observed) >= 0.01)]
    assert set(points.index) == set(moving.name)
    for side, column in sides.items():
        expected = moving.set_index("name")[column].loc[points.index]
        np.testing.assert_allclose(points[side], expected, atol=0)
    assert shares["title"]["text"] == "Inputs of a: observed and counterfactual, beside b"
    assert [part["title"]["text"] for part in numbers] == ["age"]
    medians = drawn_points(numbers[0]).set_index("name")["value"]
    for side, column in sides.items():
        [median] = table[(table.feature == "age") & (table.statistic == "50 %")][column]
        assert medians[side] == median


def test_numbers_alone_are_drawn_too():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 1)).round(2)
    found = counterfactual(
        lambda rows: (rows[:, 0] > 0).astype(int), X, rng.integers(0, 2, 200),
        sensitive_features=np.arange(200) % 2, disparity="sp",
    )  # fmt: skip
    assert plot.marginals(found).to_dict() == found.plot().to_dict()
    assert drawn_points(found.plot().to_dict())["value"].notna().all()


def test_feature_scores_are_drawn_as_they_are_tabled(mixed):
    table = mixed.feature_scores().set_index("feature")
    chart = plot.feature_scores(mixed).to_dict()
    points = drawn_points(chart).set_index("name")
    bars = pd.DataFrame(chart["layer"][1]["data"]["values"]).set_index("name")
    np.testing.assert_allclose(points["value"], table["influence_share"][points.index], atol=0)
    np.testing.assert_allclose(bars["end"], table["share_of_gap"][bars.index], atol=0)


def test_a_mark_is_drawn_where_its_axis_says(mixed):
    """Ticks, their texts and the ends of the axis are those of the page."""
    chart = repair.scores(Explanation.of(mixed))
    x = next(layer["encoding"]["x"] for layer in chart_spec(chart)["layer"] if
             layer["encoding"]["x"]["field"] == "value")  # fmt: skip
    assert x["axis"]["values"] == [tick for tick, _ in chart.axis.ticks]
    assert x["scale"]["domain"] == [chart.axis.low, chart.axis.high]
    assert json.dumps([text for _, text in chart.axis.ticks]) in x["axis"]["labelExpr"]


# -------------------------------------------------------------------- files


def test_png_and_svg_are_written_by_their_ending(descended, tmp_path):
    chart = plot.trace(descended)
    png = plot.save(chart, tmp_path / "a.PNG").read_bytes()
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    assert plot.save(chart, str(tmp_path / "a.svg")).read_text(encoding="utf-8").startswith("<svg")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.PNG", "a.svg"]


@pytest.mark.slow
def test_html_carries_everything_it_needs(descended, tmp_path):
    html = plot.save(plot.trace(descended), tmp_path / "a.html").read_text(encoding="utf-8")
    assert "FPR gap of target against baseline" in html
    assert not re.search(r"<script[^>]+src=", html)  # nothing is fetched when it is opened


def test_a_failure_leaves_what_was_there(tmp_path):
    path = tmp_path / "a.svg"
    path.write_text("the old one")

    class Broken:
        def save(self, stream, **_):
            stream.write("<svg")
            raise OSError("full")

    with pytest.raises(OSError, match="full"):
        plot.save(Broken(), path)
    assert path.read_text() == "the old one"
    assert [p.name for p in tmp_path.iterdir()] == ["a.svg"]


def test_other_endings_are_refused(descended, tmp_path):
    with pytest.raises(DataError) as error:
        plot.save(plot.trace(descended), tmp_path / "a.pdf")
    assert str(error.value) == (
        "path: must end in .png, .svg, .html; got 'a.pdf'. "
        "The ending says which kind of file it is."
    )


@pytest.mark.parametrize("absent", ["altair", "vl_convert"])
def test_absent_packages_answer_with_the_pip_line(descended, tmp_path, monkeypatch, absent):
    chart = plot.trace(descended)
    real = importlib.import_module

    def without(name, *rest):
        if name == absent:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *rest)

    monkeypatch.setattr(importlib, "import_module", without)
    calls = {
        "altair": lambda: plot.trace(descended),
        "vl_convert": lambda: plot.save(chart, tmp_path / "a.png"),
    }
    with pytest.raises(MissingExtra) as error:
        calls[absent]()
    assert str(error.value).endswith(
        f"needs the optional package {absent!r}; it is not installed. "
        "Run: pip install 'fairmend[plot]'"
    )


def test_importing_the_module_does_not_import_altair():
    import subprocess
    import sys

    code = "import sys, fairmend.report.plot; sys.exit('altair' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
