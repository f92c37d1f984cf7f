"""The dossier in a real browser: quiet, accessible, within the page, and true to the figures."""

import csv
import re
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from axe_playwright_python.sync_playwright import Axe
from pypdf import PdfReader

import fairmend
from fairmend import FairmendWarning
from fairmend.measure.wording import share
from fairmend.search.dossier import _REASONS
from fairmend.tables import percent, points
from narrow import cut_off

EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def found():
    rng = np.random.default_rng(0)
    n = 4_000
    sex = rng.choice([EVIL, "m"], n)
    income = rng.binomial(4, np.where(sex == "m", 0.6, 0.4), n)
    flag = rng.binomial(1, np.where(sex == "m", 0.7, 0.2), n)
    X = pd.DataFrame({"income & more": income, '"><img src=x onerror=alert(1)>': flag})
    y = (rng.random(n) < 1 / (1 + np.exp(-(1.2 * income - 2.4)))).astype(int)

    def vendor(rows):
        a, b = rows.to_numpy().T
        return 1 / (1 + np.exp(-(1.2 * a + 1.0 * b - 3.0)))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FairmendWarning)
        return fairmend.alternatives(
            vendor, X, y, sensitive_features=sex, margin=0.02, measure="accuracy", random_state=0
        )


@pytest.fixture(scope="module")
def page(found, tmp_path_factory):
    path = tmp_path_factory.mktemp("dossier") / "dossier.html"
    found.save_html(path, command="fairmend alternatives people.csv")
    return path


def test_it_is_one_small_file_that_holds_everything(found, page):
    text = page.read_text(encoding="utf-8")
    assert len(text) < 1_500_000
    assert EVIL not in text
    assert "http://" not in text.replace("http://www.w3.org", "")
    for one in found.candidates[:5]:
        assert one.why in text
    assert found.provenance.report_data in text
    assert "fairmend alternatives people.csv" in text
    assert "no legal advice" in text
    with pytest.raises(fairmend.FairmendError):
        found.save_html(page)


@pytest.mark.parametrize("width", [1280, 390])
def test_it_is_quiet_accessible_and_within_the_page(open_page, page, width):
    opened = open_page(page, width=width)
    assert opened.errors == []
    assert [url for url in opened.requests if not url.startswith("file:")] == []
    assert Axe().run(opened.page).violations_count == 0
    assert cut_off(opened.page) == []


@pytest.mark.slow
@pytest.mark.parametrize("passed", [True, False])
def test_its_card_shows_its_figures_and_keeps_to_itself(found, browser, passed):
    _, result = answered(found, passed=passed)
    html = result._repr_html_()
    text = re.sub(r"<style>.*?</style>|<[^>]+>", " ", html, flags=re.DOTALL)
    told = " ".join(text.replace("\N{NO-BREAK SPACE}", " ").replace("\N{MINUS SIGN}", "-").split())
    assert EVIL not in html
    assert len(html) < 60_000
    assert ' id="' not in html, "another card may stand above"
    now, best = found.current.judging, result.best
    assert f"{share(now.gap.target_rate)} of" in told
    if best is not None:
        then = best.judging
        for wanted in (
            f"Yes: one rule for everybody, which reads no group, cuts the gap from "
            f"{100 * abs(now.gap.gap):.1f} to {100 * abs(then.gap.gap):.1f} points.",
            f"+{100 * now.gap.gap:.1f} → {points(then.gap.gap)}".replace("+0.0", "0.0"),
            f"{percent(now.performance.value)} → {percent(then.performance.value)}",
            f"{share(then.gain)} gain, {share(then.lose)} lose",
        ):
            assert wanted in told
    else:
        assert told.count("None was shown: ") == 1
        assert "→" not in told
    context = browser.new_context(viewport={"width": 390, "height": 800}, color_scheme="dark")
    tab = context.new_page()
    tab.set_content(f'<meta name="viewport" content="width=device-width">{html}')
    assert cut_off(tab) == []
    drawn = tab.locator(".plane .field circle").count()
    [plane] = result._card().charts
    legend = tab.locator(".legend circle").count()
    assert drawn == len(plane.points)
    assert legend == len(plane.legend)
    context.close()


def test_the_tables_come_out_as_csv(open_page, page, found):
    opened = open_page(page)
    opened.page.get_by_text("Every candidate").first.click()
    with opened.page.expect_download() as download:
        opened.page.click("a[download='fairmend-candidates-table.csv']")
    with open(download.value.path(), encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(found.candidates)
    assert [float(row["gap, points"]) for row in rows] == [one.gap for one in found.candidates]


def test_on_paper(open_page, page, tmp_path):
    opened = open_page(page)
    opened.page.pdf(path=tmp_path / "dossier.pdf", format="A4")
    sheets = [sheet.extract_text() for sheet in PdfReader(tmp_path / "dossier.pdf").pages]
    assert 3 <= len(sheets) <= 10
    assert all(len(text) > 100 for text in sheets)


def test_a_blind_candidate_can_be_stored(found, tmp_path):
    blind = next(one for one in found.candidates if one.kind == "blind")
    path = tmp_path / "alternative.fairmend"
    found.classifier(blind).save(path)
    assert fairmend.load(path).blind is True


def answered(found, *, passed, lose=None):
    """The search as if a blind candidate had passed, or not; with what it does to people."""
    one = next(c for c in found.candidates if c.kind == "blind" and c.gap < found.current.gap)
    after = one.judging if lose is None else replace(one.judging, lose=lose)
    changed = replace(one, place=1, reached=True, passed=passed, judging=after)
    others = tuple(replace(c, place=None, passed=False) for c in found.candidates
                   if c is not one and c.kind != "current")  # fmt: skip
    answer = replace(found, candidates=(found.current, changed, *others))
    assert (answer.best is changed) is passed
    return after, answer


def test_the_first_screen_says_what_the_figures_say(found, page, open_page):
    """Of an answer yes, of an answer no, and of one that takes decisions away."""
    for passed, share_that_loses in ((True, None), (True, 1.0), (False, None)):
        after, answer = answered(found, passed=passed, lose=share_that_loses)
        lose = after.lose
        html = answer.to_html()
        head = re.sub(r"<[^>]+>", "", html[html.index("<h1>") : html.index("</figure>")])
        head = head.replace("\N{NO-BREAK SPACE}", " ")
        now = found.current.judging.gap
        assert f"{share(now.target_rate)} of" in head
        assert (f"from {100 * abs(now.gap):.1f} to {100 * abs(after.gap.gap):.1f} points"
                in head) is passed  # fmt: skip
        assert ("None was shown" in head) is (not passed)
        assert ("That is not proof that there is none." in head) is (not passed)
        assert (f"{share(after.gain)} gain, {share(lose)} lose" in head) is passed
        assert ("taking favourable decisions away" in head) is (passed and lose > after.gain)


def test_every_candidate_that_was_not_chosen_has_a_reason_in_plain_words(found):
    html = found.to_html()
    skipped = [one for one in found.candidates[1:] if one is not found.best]
    table = html[html.index('id="rejected-table"') :]
    table = table[: table.index("</table>")]
    counts = [int(n) for n in re.findall(r'data-order="(\d+)\.0"', table)]
    assert sum(counts) == len(skipped)
    for one in skipped:
        assert _REASONS[one.why] in table.replace("&#39;", "'")


def test_every_mark_stands_where_its_value_is(found, page, open_page):
    """The points of the scatter, read back from the page in its own axes."""
    opened = open_page(page, width=1280).page
    field = opened.locator("#scatter .field")
    box = field.bounding_box()
    ticks = opened.locator("#scatter .below text").evaluate_all(
        "all => all.map(one => [one.textContent, one.getBBox().x + one.getBBox().width / 2])"
    )
    (low, x0), *_, (high, x1) = [(float(text.replace("−", "-")), x) for text, x in ticks]
    centres = field.locator("circle").evaluate_all(
        """all => all.map(one => { const box = one.getBoundingClientRect();
                                    return box.x + box.width / 2; })"""
    )
    gaps = [low + (x - box["x"] - x0) * (high - low) / (x1 - x0) for x in centres]
    drawn = [100 * one.gap for one in found.candidates]
    assert len(gaps) > 10
    for gap in gaps:
        assert min(abs(gap - one) for one in drawn) < 0.05 * (high - low) / 10
    assert min(abs(gap - 100 * found.current.gap) for gap in gaps) < 0.005 * (high - low)
