"""The monitor after a simulated month with a drift in the middle, in a real browser."""

import json
import time

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, fisher_exact

import serving
import vendors
from fairmend.data.columns import Frame
from fairmend.measure.audit import Gap
from fairmend.measure.disparity import SP
from fairmend.model.remote import cells
from fairmend.serve import monitor
from fairmend.serve.log import DecisionLog, Entry

DAYS, A_DAY = 30, 400
DRIFT = 15


@pytest.fixture(scope="module")
def month(tmp_path_factory, mended, artifact, vendor):
    """A log of thirty days; from the fifteenth on one group's inputs and outcomes are others."""
    import hashlib

    folder = tmp_path_factory.mktemp("month")
    name = hashlib.sha256(artifact.read_bytes()).hexdigest()
    rng = np.random.default_rng(0)
    known = {tuple(row): place for place, row in enumerate(cells(mended.data_.table))}
    log = DecisionLog(folder / "decisions.sqlite")
    first = (time.time() // 86_400 - DAYS) * 86_400
    for day in range(DAYS):
        X, y, group = vendors.people(A_DAY, seed=100 + day)
        if day >= DRIFT:
            moved = (group == "b").to_numpy()
            X.loc[moved, "dose"] = np.maximum(X.loc[moved, "dose"] - 0.75, -0.5)
        original = (np.array(serving.decide(X)) > 0.5).astype(int)
        edited = mended.transform(X, sensitive_features=group, ids=np.arange(A_DAY))
        repaired = (np.array(serving.decide(edited)) > 0.5).astype(int)
        entries, places = [], cells(Frame.read(X))
        for i in range(A_DAY):
            at = first + 86_400 * day + 200 * i
            columns = ",".join(c for c in X if X[c].iloc[i] != edited[c].iloc[i])
            decision = f"{day:02d}{i:04d}"
            values = (
                decision, "p", at, group.iloc[i], name, "vendor", "1", "shadow", int(original[i]),
                int(repaired[i]), 0.5, 0.5, columns, 6.0, "ok", None,
            )  # fmt: skip
            entries.append(("decisions", values))
            if rng.random() < 0.8:
                entries.append(("outcomes", (decision, int(y[i]), at + 3_600)))
        today = time.strftime("%Y-%m-%d", time.gmtime(first + 86_400 * day))
        counted = [
            (today, name, label, known.get(tuple(row), -1))
            for row, label in zip(places, group, strict=True)
        ]
        log.put_and_wait(Entry(entries, counted))
    log.close()
    sidecar = serving.Sidecar(folder, artifact, vendor.url)
    yield sidecar
    assert sidecar.stop() == 0


@pytest.mark.slow
def test_the_figures_are_those_of_an_audit(month):
    """One window's gap against the audit of the same people, given one by one."""
    import sqlite3

    import fairmend

    status, figures, _ = serving.get(month.admin + "/figures")
    assert status == 200
    [one] = figures["monitored"]
    assert (one["metric"], one["target"], one["baseline"]) == ("fnr", "b", "a")
    assert len(one["windows"]) == DAYS
    window = one["windows"][20]
    with sqlite3.connect(month.log) as db:
        rows = db.execute(
            "SELECT grp, original, repaired, y FROM decisions JOIN outcomes USING (decision) "
            "WHERE decisions.at >= ? AND decisions.at < ? + 86400",
            (window["start"], window["start"]),
        ).fetchall()
    group, original, repaired, y = map(list, zip(*rows, strict=True))
    assert window["labelled"] == len(rows)
    for name, said in (("original", original), ("repaired", repaired)):
        audit = fairmend.audit(
            said, None, y, sensitive_features=group, metrics=["fnr"], reference="a"
        )
        gap = audit.gaps[0]
        np.testing.assert_allclose(window[name], [gap.gap, gap.low, gap.high], atol=1e-12)
    assert figures["labelled"] == sum(w["labelled"] for w in one["windows"])


@pytest.mark.slow
def test_the_alert_comes_with_the_drift(month):
    _, figures, _ = serving.get(month.admin + "/figures")
    [one] = figures["monitored"]
    quiet = [w["alert"] for w in one["inputs"][:DRIFT]]
    after = [w["alert"] for w in one["inputs"][DRIFT:]]
    assert not any(quiet)
    assert all(after)
    assert {w["moved"]["column"] for w in one["inputs"][DRIFT:]} == {"dose"}
    [said] = [alert["text"] for alert in figures["alerts"] if alert["kind"] == "inputs"]
    assert f"since {one['inputs'][DRIFT]['day']}, most of all dose" in said
    gaps = np.array([w["repaired"][0] for w in one["windows"]])
    assert gaps[DRIFT:].mean() > gaps[:DRIFT].mean() + 0.05, "the drift opens the gap again"
    assert any(w["alert"] for w in one["windows"][DRIFT:])
    assert not any(w["alert"] for w in one["windows"][:DRIFT])


@pytest.mark.slow
def test_a_changed_model_is_noticed(start, vendor):
    vendor.behave("inverted")
    sidecar = start(probe_seconds=0.3)
    _, figures, _ = serving.get(sidecar.admin + "/figures")
    assert figures["probes_changed"] > 0
    assert any(alert["kind"] == "model" for alert in figures["alerts"])
    vendor.behave("well")
    deadline = time.monotonic() + 20
    while serving.get(sidecar.admin + "/figures")[1]["probes_changed"]:
        assert time.monotonic() < deadline
        time.sleep(0.2)


@pytest.mark.slow
def test_the_page_in_a_browser(month, browser, tmp_path):
    context = browser.new_context(viewport={"width": 1180, "height": 900})
    page = context.new_page()
    errors, asked = [], []
    page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(month.admin + "/")
    assert page.locator("li[data-kind=inputs]").count() >= 1
    for curve in ("original", "repaired"):
        drawn = page.locator(f"polyline[data-curve={curve}]").get_attribute("points")
        assert len(drawn.split()) == DAYS
    page.screenshot(path=tmp_path / "monitor.png", full_page=True)
    # by keyboard alone: skip link, pause, a table
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "pause"
    page.keyboard.press("Enter")
    assert page.locator("#pause").get_attribute("aria-pressed") == "true"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
    page.keyboard.press("Enter")
    assert page.locator("#gap-0").get_attribute("open") is not None
    # it refreshes by itself, and what was open stays open
    before = page.locator("main > p").first.inner_text()
    page.wait_for_function("text => document.querySelector('main > p').innerText !== text",
                           arg=before, timeout=15_000)  # fmt: skip
    assert page.locator("#gap-0").get_attribute("open") is not None
    assert page.locator("#state").inner_text() == "live"
    assert errors == []
    assert all(url.startswith(month.admin) for url in asked), asked
    context.close()


def test_nothing_of_a_label_reaches_the_page_unescaped():
    from fairmend.measure.drift import Moved
    from fairmend.report.html.monitor import monitor_page
    from fairmend.report.monitoring import (
        Alert,
        InputWindow,
        LoggedEdit,
        Monitored,
        MonitorFigures,
    )

    evil = "<script>alert(1)</script>"
    moved = Moved(evil, evil, 0.1, 0.4, 0.3, 0.001)
    one = Monitored(
        evil,
        evil,
        evil,
        evil,
        (),
        None,
        False,
        (InputWindow("2026-01-01", 9, 5, 0.0, moved, True),),
        0.0,
    )
    figures = MonitorFigures(
        0, "shadow", True, evil, 0.05, 60, 0, 0, 0, 0, 0, 0.0, (one,),
        (LoggedEdit(0, evil, evil, evil, 0, 1),), (Alert(0, evil, evil),),
    )  # fmt: skip
    text = monitor_page(figures)
    assert evil not in text
    assert json.dumps(text).count("<script src=") == 1


# ------------------------------------------------------------------ how often it cries wolf

TOLERANCE = 0.05


def a_gap(n, seen, m, others):
    """What an audit says of two rates."""
    return Gap("sp", "b", "a", seen / n, others / m, seen / n - others / m, -1, 1, 1, n, m, 1, n, m)


def at_most(pages):
    """How many pages with a false alert are still no sign that more than one in twenty has one."""
    return int(binom.ppf(0.999, pages, monitor.FALSE_ALERTS))


@pytest.mark.parametrize(("n", "m"), [(5, 5), (5, 60), (20, 20), (20, 120), (50, 50)])
@pytest.mark.parametrize("tolerance", [0.0, TOLERANCE, 0.3])
def test_no_window_strays_more_often_than_said(n, m, tolerance):
    """Every outcome of two groups, weighed by its chance, where the gap is as wide as may be."""
    chance = monitor.FALSE_ALERTS / 47
    beyond = np.zeros((n + 1, m + 1))
    for x in range(n + 1):
        for y in range(m + 1):
            _, low, high = monitor.mean_gap([a_gap(n, x, m, y)], chance)
            beyond[x, y] = low > tolerance or high < -tolerance
    for q in np.linspace(0, 1 - tolerance, 41):
        for rates in ((q + tolerance, q), (q, q + tolerance)):
            p, r = (
                binom.pmf(np.arange(k + 1), k, rate) for k, rate in zip((n, m), rates, strict=True)
            )
            assert p @ beyond @ r <= chance


def test_at_most_one_page_in_twenty_shows_a_gap_that_is_none():
    """Gaps as wide as may be in 46 small windows, whose base rates and group shares change."""
    rng = np.random.default_rng(0)
    compared = monitor._Compared("b", "a", SP, TOLERANCE, monitor.FALSE_ALERTS)
    pages, shown, strayed = 40, 0, 0
    for _ in range(pages):
        counts = {}
        for window in range(46):
            rate = rng.uniform(0.02, 0.9)
            for group, chance in (("a", rate), ("b", rate + TOLERANCE)):
                n = rng.integers(5, 80)
                negative = int(rng.binomial(n, chance))
                counts[window, group, 0, 0, None] = negative
                counts[window, group, 1, 1, None] = int(n) - negative
        windows, overall = compared.windows(counts)
        shown += any(w.alert for w in windows) or compared.beyond(overall)
        strayed += any(w.repaired[1] > TOLERANCE for w in windows)
    assert shown <= at_most(pages)
    assert strayed > pages / 2, "intervals judged one by one stray on most pages"


def test_a_small_gap_that_lasts_is_found_over_all_windows():
    rng = np.random.default_rng(1)
    compared = monitor._Compared("b", "a", SP, TOLERANCE, monitor.FALSE_ALERTS)
    counts = {}
    for window in range(40):
        for group, chance in (("a", 0.3), ("b", 0.4)):
            negative = int(rng.binomial(100, chance))
            counts[window, group, 0, 0, None] = negative
            counts[window, group, 1, 1, None] = 100 - negative
    windows, overall = compared.windows(counts)
    assert not any(w.alert for w in windows)
    assert compared.beyond(overall)
    assert abs(overall[0] - 0.1) < 4 * np.sqrt((0.3 * 0.7 + 0.4 * 0.6) / 4_000)


def test_a_mean_of_no_gaps_is_none():
    """Rates that change with the groups' shares: added up, the counts would show a gap of 40."""
    gaps = [a_gap(900, 810, 100, 90), a_gap(100, 10, 900, 90)]
    gap, low, high = monitor.mean_gap(gaps, 0.05)
    assert abs(gap) < 1e-12
    assert low < 0 < high


# ------------------------------------------------------------------ drift


def sparse(rng, n):
    """Rows many of which are met once: the more so, the larger the first number."""
    return np.stack([rng.exponential(30, n) // 1, rng.integers(0, 3, n), rng.integers(0, 3, n)], 1)


def rare(rng, n):
    return np.stack([rng.choice(10, n, p=[0.955] + [0.005] * 9), rng.integers(0, 8, n)], 1)


@pytest.mark.parametrize("people", [sparse, rare])
def test_at_most_one_page_in_twenty_shows_a_drift_that_is_none(people):
    rng = np.random.default_rng(0)
    pages, shown = 40, 0
    for _ in range(pages):
        both = np.concatenate([people(rng, 500), people(rng, 300)])  # a group, and another
        rows, place = np.unique(both, axis=0, return_inverse=True)
        known = {tuple(row): at for at, row in enumerate(rows)}
        group, everybody = (
            np.bincount(part, minlength=len(rows)).astype(float)
            for part in (place.ravel()[:500], place.ravel())
        )
        audited = monitor.Audited(Frame.read(rows), group, everybody)
        alerts = []
        for _ in range(monitor.MOST_DAYS):
            places = np.array([known.get(tuple(row), -1) for row in people(rng, 60)])
            here = np.bincount(places[places >= 0], minlength=len(rows)).astype(float)
            chance = monitor.FALSE_ALERTS / monitor.MOST_DAYS
            alerts.append(audited.most_moved(here, int((places < 0).sum()), chance)[1])
        shown += any(alerts)
    assert shown <= at_most(pages)


def test_distance_and_p_value_are_those_of_the_column_named():
    """One value is too frequent for chance, but few have it; the other column strays by chance."""
    kinds, places = np.meshgrid([0, 1], np.arange(8), indexing="ij")
    table = pd.DataFrame({"kind": kinds.ravel(), "place": places.ravel()})
    people = np.where(table.kind == 0, 996.0, 4.0)
    audited = monitor.Audited(Frame.read(table), people, people)
    here = np.array([12, 4, 9, 5, 11, 6, 2, 8, 3, 0, 0, 0, 0, 0, 0, 0], float)
    moved, alert = audited.most_moved(here, 0, monitor.FALSE_ALERTS / 45)
    assert (moved.column, moved.value, alert) == ("place", "0", False)
    by_place = here.reshape(2, 8).sum(0)
    np.testing.assert_allclose(moved.distance, np.abs(by_place / 60 - 1 / 8).sum() / 2)
    np.testing.assert_allclose([moved.before, moved.now], [1 / 8, 15 / 60])
    exact = min(
        fisher_exact([[k, 60 - k], [1000, 7000]], alternative=side).pvalue
        for k in by_place
        for side in ("less", "greater")
    )
    np.testing.assert_allclose(moved.p_value, min(1.0, 2 * exact * 8 * 3), rtol=1e-9)

    here[:8] = [30, 2, 3, 2, 2, 3, 2, 2]
    moved, alert = audited.most_moved(here, 0, monitor.FALSE_ALERTS / 45)
    assert (moved.column, moved.value, alert) == ("place", "0", True)
    here[8:] = 10
    moved, alert = audited.most_moved(here, 0, monitor.FALSE_ALERTS / 45)
    assert (moved.column, alert) == ("kind", True)
    moved, alert = audited.most_moved(here // 10, 200, monitor.FALSE_ALERTS / 45)
    assert (moved.column, alert) == ("row", True)


def test_bins_are_tenths_of_people_and_what_is_missing_is_one():
    column = pd.Series([0.0] * 60 + [*range(1, 31)] + [None] * 10, name="gain")
    encoded = Frame.read(column.drop_duplicates().to_frame()).encoded[0]
    people = np.array([60.0] + [1.0] * 30 + [10.0])
    bins, labels = monitor._binned(encoded, people)
    assert labels == ["0", "1 to 3", "4 to 12", "13 to 21", "from 22", "missing"]
    assert np.bincount(bins, people).tolist() == [60, 3, 9, 9, 9, 10]
    numbers = Frame.read(pd.DataFrame({"age": np.arange(20)})).encoded[0]
    labels = monitor._binned(numbers, np.ones(20))[1]
    assert (labels[0], labels[1], labels[-1]) == ("up to 1", "2 to 3", "from 18")


def test_a_page_never_has_more_windows_than_its_alerts_are_judged_for():
    rng = np.random.default_rng(0)
    for span in 10 ** rng.uniform(1, 9.5, 300):
        first = rng.uniform(0, 1e9)
        width = monitor._width(span)
        windows = (first + span) // width - first // width + 1
        assert windows <= monitor._MOST_WINDOWS
