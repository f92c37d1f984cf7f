"""The page in a real browser without a network: quiet, usable, printable, and safe."""

import csv
import io
import json
import re
import unicodedata
import warnings
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from axe_playwright_python.sync_playwright import Axe
from pypdf import PdfReader

from fairmend import BlackBox, FairmendWarning, RepairedClassifier, audit
from fairmend.explain.drivers import JointProxy
from fairmend.report.templates import _inert
from narrow import cut_off

pytestmark = pytest.mark.slow

EVIL = "<script>alert(1)</script>"
WIDEST_FILE = 1_500_000
LEVELS = [0.0, 0.25, 0.5, 0.75, 1.0]


def people(n, seed):
    """Groups, columns and values whose names would like to be more than names."""
    rng = np.random.default_rng(seed)
    sex = rng.choice(["Female", EVIL], n)
    race = rng.choice(["A", "B", "unknown"], n, p=[0.6, 0.35, 0.05])
    income = np.round(rng.normal(3.0 - 0.8 * (sex == "Female"), 1.0, n), 1)
    X = pd.DataFrame(
        {
            "income": income,
            '"><img src=x onerror=alert(1)>': rng.choice(["</script>", "=1+1", "-2"], n),
            "member & <b>": rng.integers(0, 2, n),
        }
    )
    y = (rng.random(n) < 1 / (1 + np.exp(-(income - 2.5)))).astype(int)
    return X, y, pd.DataFrame({"sex": sex, "race": race})


def vendor(rows):
    return 1 / (1 + np.exp(-(rows["income"] + 0.7 * rows["member & <b>"] - 3.0))).to_numpy()


@pytest.fixture(scope="module")
def report():
    X, y, s = people(1_500, 0)
    kept = RepairedClassifier(vendor, "fnr", random_state=0).fit(
        X, y, sensitive_features=s["sex"].to_numpy()
    )
    new_X, new_y, new_s = people(1_200, 1)
    return kept.report(
        new_X, new_y, sensitive_features=new_s["sex"].to_numpy(), frontier=True, levels=LEVELS
    )


@pytest.fixture(scope="module")
def both():
    """An audit of an intersection with people whose race is not known."""
    X, y, s = people(3_000, 2)
    return audit(vendor, X, y, sensitive_features=s)


@pytest.fixture(scope="module")
def pages(report, both, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    (folder / "audit.html").write_text(both.to_html(), encoding="utf-8")
    return {
        "report": report.save_html(folder / "report.html"),
        "audit": folder / "audit.html",
    }


# -------------------------------------------------------------------- the file


@pytest.mark.parametrize("name", ["report", "audit"])
def test_one_small_file_that_never_gives_absolution(pages, name):
    html = pages[name].read_text(encoding="utf-8")
    assert len(html.encode()) < WIDEST_FILE
    assert "complian" not in html.lower()
    assert EVIL not in html
    assert "<img" not in html
    assert not re.search(r"""\s(style|on\w+|src)\s*=\s*["']""", html), "only hashes are allowed"
    links = set(re.findall(r'href="([^"]*)"', html))
    assert {link.split(":")[0] for link in links if not link.startswith("#")} <= {"data"}
    ids = re.findall(r'\sid="([^"]*)"', html)
    assert len(ids) == len(set(ids))
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)[1]
    assert policy.startswith("default-src &#39;none&#39;")
    assert "unsafe" not in policy


def test_a_file_is_not_overwritten_unasked(report, pages):
    from fairmend import DataError

    with pytest.raises(DataError, match="must not exist yet"):
        report.save_html(pages["report"])


def test_data_cannot_end_its_element():
    text = _inert({"a": "</script><!-- & \u2028"})
    assert not set("<>&") & set(text)
    assert json.loads(text) == {"a": "</script><!-- & \u2028"}


def test_the_pip_line_where_jinja_is_missing(report, monkeypatch):
    import importlib

    from fairmend import MissingExtra

    real = importlib.import_module

    def absent(name, *rest):
        if name == "jinja2":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *rest)

    monkeypatch.setattr(importlib, "import_module", absent)
    with pytest.raises(MissingExtra, match=r"pip install 'fairmend\[report\]'"):
        report.to_html()


# -------------------------------------------------------------------- in the browser


@pytest.mark.parametrize("width", [1180, 360])
@pytest.mark.parametrize("name", ["report", "audit"])
def test_it_is_quiet_and_accessible(open_page, pages, name, width):
    seen = open_page(pages[name], width=width)
    found = Axe().run(seen.page).response["violations"]
    serious = [one for one in found if one["impact"] in ("serious", "critical")]
    assert [(one["id"], one["nodes"][0]["html"]) for one in serious] == []
    assert seen.errors == []
    assert seen.requests == [pages[name].as_uri()]
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_slider_moves_figures_drawings_and_rows_together(open_page, pages, report):
    page = open_page(pages["report"]).page
    slider = page.get_by_role("slider")
    slider.focus()
    gap = page.locator("[data-figure='0']")
    cursor = "#frontier-0-gap line.cursor[opacity='1']"

    def place():
        return page.locator(cursor).evaluate_all("lines => lines.map(l => +l.dataset.level)")

    for key, level in (("ArrowLeft", 3), ("ArrowLeft", 2), ("ArrowRight", 3), ("Home", 0)):
        page.keyboard.press(key)
        point = report.frontier[level]
        shown = f"{round(100 * point.gap, 1) + 0.0:+.1f}".replace("-", "−")
        assert gap.text_content() == shown
        assert page.locator("#level-now").text_content() == f"{LEVELS[level]:g}"
        assert slider.get_attribute("aria-valuetext").startswith(f"{LEVELS[level]:g}. Female")
        assert place() == [level]
        chosen = page.locator("#frontier-0-table tr.chosen")
        assert chosen.count() == 1
        assert chosen.locator("th").text_content() == f"{LEVELS[level]:.2f}"


def test_tables_sort_by_mouse_and_keyboard(open_page, pages, report):
    page = open_page(pages["report"]).page
    page.locator("#frontier-0-details summary").click()
    head = page.locator("#frontier-0-table thead th").nth(1)
    assert head.get_attribute("aria-sort") == "none"
    head.get_by_role("button").click()
    assert head.get_attribute("aria-sort") == "ascending"

    def column():
        return [
            float(text)
            for text in page.locator("#frontier-0-table tbody tr td:nth-child(2)").evaluate_all(
                "cells => cells.map(cell => cell.dataset.order)"
            )
        ]

    gaps = [point.gap for point in report.frontier]
    assert gaps != sorted(gaps)
    assert column() == pytest.approx(sorted(gaps), abs=1e-12)
    head.get_by_role("button").focus()
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    assert column() == pytest.approx(sorted(gaps, reverse=True), abs=1e-12)


def test_without_javascript_everything_can_be_read(open_page, pages):
    seen = open_page(pages["report"], script=False)
    assert seen.page.locator("#level-control").is_hidden()
    assert seen.page.locator("#frontier-0-table tbody tr").count() == len(LEVELS)
    assert seen.page.locator("section").count() == 8
    while (folded := seen.page.locator("details:not([open]) > summary:visible")).count():
        folded.first.click()
    for table in seen.page.locator("table").all():
        assert table.locator("caption").count() == 1
        assert table.is_visible()
    for drawing in seen.page.locator("figure").all():
        assert drawing.locator("figcaption").text_content()
    # what a drawing shows is text beside it, or it has a name
    unnamed = "main svg:not([aria-hidden], [aria-hidden] svg, [role=img][aria-label], svg svg)"
    assert seen.page.locator(unnamed).count() == 0
    # one line of the frontier's cursor can be seen, at the level that is in force
    assert seen.page.locator("#frontier-0-gap line.cursor[opacity='1']").count() == 1


def test_the_skip_link_and_headings_lead_through(open_page, pages):
    page = open_page(pages["report"]).page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    ranks = page.locator("h1, h2, h3").evaluate_all("all => all.map(h => +h.tagName[1])")
    assert ranks[0] == 1
    assert ranks.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(ranks))


@pytest.mark.parametrize("name", ["report", "audit"])
def test_print_shows_everything(open_page, pages, name):
    page = open_page(pages[name]).page
    titles = page.locator("h2").all_text_contents()
    captions = page.locator("figcaption").all_text_contents()
    rows = page.locator("table tbody tr:not(.again tr)").evaluate_all(
        "all => all.map(row => row.cells[row.cells.length - 1].textContent)"
    )
    rows += page.locator(".says").all_text_contents()
    printed = PdfReader(io.BytesIO(page.pdf(format="A4")))
    text = _words(" ".join(sheet.extract_text() for sheet in printed.pages))
    for wanted in [*titles, *captions, *rows]:
        assert _words(wanted) in text, wanted
    assert _words(EVIL) in text, "names are shown as they are"
    assert _words("Level: how much of the gap to close") not in text
    assert _words("The same as a table") not in text, "a chart takes the place of its table"


def test_on_paper_the_level_is_that_in_force(open_page, pages):
    page = open_page(pages["report"]).page
    page.locator("#level").fill("1")
    assert page.locator("#level-now").text_content() == "0.25"
    text = _words(" ".join(
        sheet.extract_text() for sheet in PdfReader(io.BytesIO(page.pdf(format="A4"))).pages
    ))  # fmt: skip
    assert _words("On paper everything is at level 1, which is in force.") in text
    assert _words("Female at level 1") in text
    assert page.locator("#level-now").text_content() == "0.25", "the reader's choice comes back"


def _words(text):
    """Printing breaks lines where it likes, and joins letters."""
    return re.sub(r"\s+", "", unicodedata.normalize("NFKC", text))


def test_csv_files_come_out_of_the_page(open_page, pages, both):
    seen = open_page(pages["audit"])
    links = seen.page.locator("#filing a[download]")
    seen.page.locator("#filing summary").nth(1).click()
    with seen.page.expect_download() as download:
        links.nth(1).click()
    assert download.value.suggested_filename == "fairmend-ll144-selection-1-table.csv"
    with open(download.value.path(), encoding="utf-8-sig", newline="") as file:
        lines = list(csv.DictReader(file))
    assert [line["race"] for line in lines] == ["A", "B", "not known"]
    n = sum(g.n for g in both.groups if str(g.group).endswith("& unknown"))
    assert int(lines[-1]["people"]) == n > 0
    assert lines[-1]["impact ratio"] == ""
    assert seen.errors == []


def test_a_group_called_unknown_is_a_group_but_where_the_rule_leaves_it_out(open_page, pages, both):
    page = open_page(pages["audit"]).page
    people = sum(g.n for g in both.groups if str(g.group).endswith("& unknown"))

    def rows(table):
        return {
            row[0]: row[1:]
            for row in page.locator(f"#{table} tbody tr").evaluate_all(
                "all => all.map(row => [...row.cells].map(cell => cell.textContent))"
            )
        }

    shown, filed = rows("impact-1-table"), rows("ll144-selection-1-table")
    assert list(shown) == ["A", "B", "unknown"]
    assert shown["unknown"][0] == filed["not known"][0] == f"{people:,}"
    assert "%" in shown["unknown"][1]
    assert list(filed) == ["A", "B", "not known"]
    assert filed["not known"][-1] == "left out of rates and ratios"
    notes = page.get_by_text("elsewhere in this report they are a group like any other")
    assert notes.count() == 2, "by race and by both; everybody's sex is known"


# -------------------------------------------------------------------- people of many kinds


def applicants(n, seed):
    """Incomes and days of their own for nearly everybody, three groups, something missing."""
    rng = np.random.default_rng(seed)
    s = rng.choice(["North", "South", "East & West"], n)
    income = np.round(np.exp(rng.normal(10.3 - 0.25 * (s == "South"), 0.5, n)), 2)
    day = pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 300, n), unit="D")
    X = pd.DataFrame(
        {
            "annual income": income,
            "tenure": np.where(rng.random(n) < 0.05, np.nan, np.round(rng.gamma(2, 3, n), 1)),
            "applied": day,
            "housing": rng.choice(["own", "rent", "family"], n),
        }
    )
    chance = 1 / (1 + np.exp(-(1.4 * (np.log(income) - 10.2) + 0.5 * (X["housing"] == "own"))))
    return X, (rng.random(n) < chance).astype(int), s


def lender(rows):
    z = 1.4 * (np.log(rows["annual income"]) - 10.2) + 0.2 * (rows["tenure"].fillna(5) - 5)
    return (1 / (1 + np.exp(-z))).to_numpy()


@pytest.fixture(scope="module")
def lending(tmp_path_factory):
    X, y, s = applicants(1_500, 0)
    kept = RepairedClassifier(lender, "fnr", immutable=["applied", "housing"], random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairmendWarning)
        kept.fit(X, y, sensitive_features=s)
    new_X, new_y, new_s = applicants(900, 1)
    report = kept.report(new_X, new_y, sensitive_features=new_s, frontier=True, levels=LEVELS)
    folder = tmp_path_factory.mktemp("lending")
    return report, report.save_html(folder / "report.html"), (X, new_X)


def test_no_single_person_stands_in_a_page(lending):
    report, path, tables = lending
    html, plain = path.read_text(encoding="utf-8"), json.dumps(report.to_dict())
    told = set(map(float, re.findall(r"(?<![\w.-])\d+\.?\d*(?![\w.])", plain)))
    shown = set(re.findall(r">([^<>]+)<", html))
    assert len(told) > 100
    for X in tables:
        assert not told & set(X["annual income"])
        assert not shown & {f"{income:,.2f}".rstrip("0") for income in X["annual income"]}
    assert "15 rows that stand for fewer than 5 people are suppressed." in html
    assert re.search(r"\d values that stand for fewer than 5 people are suppressed\.", html)
    assert "always up" in html
    assert "the median change is not the change of the medians." in html
    assert html.count("applied = ") <= 5
    assert not re.search(r">\s*(nan|None|NaT)\s*<", html)


def test_numbers_stand_in_order_and_can_be_read(lending, open_page):
    page = open_page(lending[1]).page
    rows = page.locator("#numbers tbody tr").evaluate_all(
        "all => all.map(row => [...row.cells].map(cell => cell.textContent))"
    )
    order = ["mean", "10 %", "25 %", "50 %", "75 %", "90 %"]
    assert [row[:2] for row in rows] == [
        [name, statistic] for name in ("annual income", "tenure") for statistic in order
    ]
    for row in rows[:6]:
        for cell in row[2:5]:
            assert re.fullmatch(r"\d{1,3},\d{3}", cell), cell


@pytest.mark.parametrize("width", [1100, 360])
def test_tables_stay_within_the_page(lending, open_page, width):
    page = open_page(lending[1], width=width).page
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    wide = page.locator(".scroller").evaluate_all(
        "all => all.filter(one => one.scrollWidth > one.clientWidth)"
        ".map(one => [one.getAttribute('aria-label'), getComputedStyle(one).overflowX])"
    )
    assert {overflow for _, overflow in wide} <= {"auto"}, "what is wider scrolls within itself"
    if width == 1100:
        assert wide == []


def test_no_axis_says_the_same_twice(lending):
    html = lending[1].read_text(encoding="utf-8")
    axes = re.findall(r"<svg[^>]*>((?:<text[^>]*>[^<]*</text>){2,})</svg>", html)
    assert len(axes) > 10
    for axis in axes:
        labels = re.findall(r"<text[^>]*>([^<]*)</text>", axis)
        assert len(labels) == len(set(labels)), labels
        assert not any("e+" in label for label in labels)


# -------------------------------------------------------------------- real people


@pytest.mark.slow
def test_the_page_of_real_people(tmp_path, open_page):
    from sklearn.linear_model import LogisticRegression

    from fairmend.datasets import load_adult

    adult = load_adult()
    model = LogisticRegression(C=100, max_iter=1_000).fit(adult.X[::3], adult.y[::3])
    kept = RepairedClassifier(model, "sp", random_state=0).fit(
        adult.X[1::3], adult.y[1::3], sensitive_features=adult.sensitive_features[1::3]
    )
    report = kept.report(
        adult.X[2::3], adult.y[2::3], sensitive_features=adult.sensitive_features[2::3],
        frontier=True,
    )  # fmt: skip
    path = report.save_html(tmp_path / "adult.html")
    assert path.stat().st_size < WIDEST_FILE
    seen = open_page(path, width=360)
    assert seen.errors == []
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= 360


# -------------------------------------------------------------------- several groups

REPAIRED = [f"{EVIL} & {i}" for i in range(3)]


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    """Three groups are repaired to a fourth, by answers that are no more than recorded."""

    def half(seed):
        rng = np.random.default_rng(seed)
        s = rng.choice(["best-off", *REPAIRED], 2_000)
        income = np.round(rng.normal(3.0 - 0.7 * (s != "best-off"), 1.0), 1)
        X = pd.DataFrame({"income": income, "years": rng.integers(0, 4, 2_000)})
        X["score"] = 1 / (1 + np.exp(2.5 - income))
        return X, (rng.random(2_000) < X["score"]).astype(int), s

    X, y, s = half(0)
    box = BlackBox("score", inputs=["income", "years"])  # or income is taken for an answer too
    kept = RepairedClassifier(box, "sp", reference="best-off", random_state=0)
    kept.fit(X, y, sensitive_features=s)
    X, y, s = half(1)
    report = kept.report(X, y, sensitive_features=s, ids=np.arange(len(y)), frontier=True,
                         levels=[0.0, 1.0])  # fmt: skip
    return report, report.save_html(tmp_path_factory.mktemp("several") / "report.html")


def test_further_groups_are_folded_and_open_by_keyboard(open_page, several):
    seen = open_page(several[1])
    page = seen.page
    worst_first = [group for group in several[0].order if group in REPAIRED]
    assert sorted(worst_first) == sorted(REPAIRED)
    found = Axe().run(page).response["violations"]
    assert [one["id"] for one in found if one["impact"] in ("serious", "critical")] == []
    for section in ("repair", "frontier"):
        folds = page.locator(f"#{section} details:not(.again)")
        titles = folds.locator("summary h3").all_text_contents()
        assert [title.split(" at level")[0] for title in map(str.strip, titles)] == worst_first
        assert folds.evaluate_all("all => all.map(one => one.open)") == [True, True, False]
        figure = folds.nth(2).locator("figure").first
        assert not figure.is_visible()
        folds.nth(2).locator("summary").first.focus()
        page.keyboard.press("Enter")
        assert figure.is_visible()
    assert seen.errors == []


@pytest.mark.parametrize("script", [True, False])
def test_what_is_folded_is_printed(open_page, several, script):
    page = open_page(several[1], script=script).page
    captions = page.locator("figcaption").all_text_contents()
    printed = PdfReader(io.BytesIO(page.pdf(format="A4")))
    text = _words(" ".join(sheet.extract_text() for sheet in printed.pages))
    assert sum(REPAIRED[2] in caption for caption in captions) == 2, "its edits and its levels"
    for wanted in captions:
        assert _words(wanted) in text, wanted


def test_every_figure_has_one_sign_and_each_group_a_line(open_page, several):
    report, path = several
    page = open_page(path).page
    first, *others = report.plans_in_order
    assert str(first.target) in page.locator("h1").text_content()
    lines = page.locator("#verdict ul.points").first.locator("li").all_text_contents()
    repaired = [str(plan.target) for plan in report.plans_in_order]
    assert [
        re.match(r"Of [\d,]+ people in (.*?), ", line)[1] for line in lines[: len(repaired)]
    ] == repaired
    assert ["Its gap is " in line for line in lines[: len(repaired)]] == [
        False,
        *(True for _ in others),
    ]
    figures = page.locator(".figures strong, td.number, #verdict p, #verdict li, svg text, .says")
    texts = figures.all_text_contents()
    assert any("−" in text for text in texts)
    for text in texts:
        assert not re.search(r"(^|[\s(\[])(-\d|\+0(\.0+)?(?![\d.]))", text), text


def test_a_model_that_was_not_queried_is_named_once(several, report):
    assert several[1].read_text(encoding="utf-8").count("The model was not queried") == 1
    assert "The model was not queried" not in report.to_html()


@pytest.fixture(scope="module")
def eight(tmp_path_factory):
    """Eight groups with inputs of several kinds, and all that a report may hold."""

    def half(seed):
        rng = np.random.default_rng(seed)
        place = rng.integers(0, 8, 4_000)
        X = pd.DataFrame({"income": np.round(rng.normal(3 - 0.12 * place, 1), 1),
                          "years at this address": rng.integers(0, 4, 4_000),
                          "housing": rng.choice(["own", "rent", "family"], 4_000),
                          **{f"m {k}": rng.integers(0, 2, 4_000) for k in range(6)}})  # fmt: skip
        chance = 1 / (1 + np.exp(2.4 - X["income"] - 0.3 * X["m 0"]))
        return X, (rng.random(4_000) < chance).astype(int), np.array(list("ABCDEFGH"))[place]

    def model(rows):
        told = rows["income"] + 0.3 * rows["m 0"] + 0.2 * (rows["housing"] == "own")
        return 1 / (1 + np.exp(2.5 - told.to_numpy()))

    X, y, s = half(0)
    kept = RepairedClassifier(model, "fnr", reference="A", random_state=0)
    kept.fit(X, y, sensitive_features=s)
    X, y, s = half(1)
    report = kept.report(X, y, sensitive_features=s, frontier=True)
    assert len(report.plans) == 7
    return report, report.save_html(tmp_path_factory.mktemp("eight") / "report.html")


@pytest.mark.parametrize("many", [2, 4, 8])
def test_paper_is_short_light_and_has_no_heading_at_the_end_of_a_sheet(
    open_page, pages, several, eight, many
):
    path, most = {2: (pages["report"], 8), 4: (several[1], 10), 8: (eight[1], 14)}[many]
    page = open_page(path, theme="dark").page
    titles = {_words(title) for title in page.locator("h2, h3, figcaption").all_text_contents()}
    sheets = PdfReader(io.BytesIO(page.pdf(format="A4"))).pages
    assert len(sheets) <= most
    for sheet in sheets:
        lines = [line for line in sheet.extract_text().splitlines() if line.strip()]
        assert _words(lines[-1]) not in titles
    page.emulate_media(media="print", color_scheme="dark")
    colours = page.evaluate("[getComputedStyle(document.body).color, "
                            "getComputedStyle(document.body).backgroundColor]")  # fmt: skip
    assert colours == ["rgb(23, 32, 42)", "rgb(255, 255, 255)"]
    assert path.stat().st_size < WIDEST_FILE


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nothing_is_cut_in_either_theme(open_page, several, width, theme):
    """With everything unfolded: no sideways scrolling, no drawing beyond its card, axe-clean."""
    seen = open_page(several[1], width=width)
    seen.page.emulate_media(color_scheme=theme)
    assert cut_off(seen.page) == []
    found = Axe().run(seen.page).response["violations"]
    assert [one["id"] for one in found if one["impact"] in ("serious", "critical")] == []


def test_on_paper_figures_stay_in_one_line_and_tables_within_the_sheet(open_page, several):
    page = open_page(several[1], width=690).page  # A4 but for its margins
    page.emulate_media(media="print")
    assert page.evaluate("document.documentElement.scrollWidth") <= 690
    heights = page.locator("#frontier tbody tr").evaluate_all(
        "all => all.map(row => row.getBoundingClientRect().height)"
    )
    assert max(heights) < 2 * 16.5  # two lines of 8 points, 1.55 apart


def test_tables_keep_their_distance(open_page, pages):
    """From another table, or from what is said of it."""
    gaps = open_page(pages["report"]).page.locator("#filing details + details").evaluate_all(
        """all => all.map(one => one.getBoundingClientRect().top
                               - one.previousElementSibling.getBoundingClientRect().bottom)"""
    )  # fmt: skip
    assert len(gaps) > 0
    assert min(gaps) > 12


def test_joint_proxies_are_a_table_or_a_sentence(report):
    found = report.explanation
    pair = JointProxy("income", "member & <b>", 0.2, 0.6, 0.5, 0.1, 0.3)
    for pairs, table in (((), False), ((pair,), True)):
        shown = replace(report, explanation=replace(found, joint_proxies=pairs)).to_html()
        assert ('id="proxies"' in shown) is table
        assert ("<p>Joint proxies: " in shown) is not table


def test_the_modelled_gap_is_called_so(report):
    html = report.to_html()
    assert "the modelled gap is" in html
    assert "points observed" not in html


def test_a_gap_that_asks_for_no_outcome_is_not_called_modelled(several):
    assert "modelled" not in several[0].to_html()


def test_the_highest_rate_is_named_on_its_side(open_page, several):
    report, path = several
    notes = dict(
        open_page(path).page.locator("#impact-0-table tbody tr").evaluate_all(
            "all => all.map(row => [row.cells[0].textContent, row.cells[9].textContent])"
        )
    )  # fmt: skip
    said = "highest rate, the reference for the others"
    before, after = (
        max(audit.groups, key=lambda group: group.selection_rate).group
        for audit in (report.before, report.after)
    )
    assert before == "best-off" != after
    assert f"before: {said}" in notes[before]
    assert f"after: {said}" in notes[after]
    assert sum(said in note for note in notes.values()) == 2
