"""The monitor after a simulated month with a drift in the middle, in a real browser."""

import time

import numpy as np
import pytest

import serving
import vendors
from fairmend.data.columns import Frame
from fairmend.measure.windows import MOST_WINDOWS
from fairmend.model.remote import cells
from fairmend.serve import monitor
from fairmend.serve.log import DecisionLog, Entry

DAYS, A_DAY = 30, 400
DRIFT = 15


@pytest.fixture(scope="module")
def month(tmp_path_factory, fitted, artifact, vendor):
    """A log of thirty days; from the fifteenth on one group's inputs and outcomes are others."""
    import hashlib

    folder = tmp_path_factory.mktemp("month")
    name = hashlib.sha256(artifact.read_bytes()).hexdigest()
    rng = np.random.default_rng(0)
    known = {tuple(row): place for place, row in enumerate(cells(fitted.data_.table))}
    log = DecisionLog(folder / "decisions.sqlite")
    first = (time.time() // 86_400 - DAYS) * 86_400
    for day in range(DAYS):
        X, y, group = vendors.people(A_DAY, seed=100 + day)
        if day >= DRIFT:
            moved = (group == "b").to_numpy()
            X.loc[moved, "dose"] = np.maximum(X.loc[moved, "dose"] - 0.75, -0.5)
        original = (np.array(serving.decide(X)) > 0.5).astype(int)
        edited = fitted.transform(X, sensitive_features=group, ids=np.arange(A_DAY))
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
    assert page.evaluate("document.activeElement.className") == "scroller", "a chart can scroll"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
    page.keyboard.press("Enter")
    assert page.locator("#gap-0-details").get_attribute("open") is not None
    # it refreshes by itself, and what was open stays open
    before = page.locator("main p").first.inner_text()
    page.wait_for_function("text => document.querySelector('main p').innerText !== text",
                           arg=before, timeout=15_000)  # fmt: skip
    assert page.locator("#gap-0-details").get_attribute("open") is not None
    assert page.locator("#state").inner_text() == "live"
    assert errors == []
    assert all(url.startswith(month.admin) for url in asked), asked
    context.close()


def test_a_page_never_has_more_windows_than_its_alerts_are_judged_for():
    rng = np.random.default_rng(0)
    for span in 10 ** rng.uniform(1, 9.5, 300):
        first = rng.uniform(0, 1e9)
        width = monitor._width(span)
        windows = (first + span) // width - first // width + 1
        assert windows <= MOST_WINDOWS
