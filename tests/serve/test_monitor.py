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
    log = DecisionLog(folder / "decisions.sqlite", serving.log_key())
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
        drawn = page.locator(f"#gap-0 polyline[data-curve={curve}]").get_attribute("points")
        assert len(drawn.split()) == DAYS
    page.screenshot(path=tmp_path / "monitor.png", full_page=True)
    # by keyboard alone: skip link, pause, a table
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    tab_to(page, "document.activeElement.id === 'pause'")
    page.keyboard.press("Enter")
    assert page.locator("#pause").get_attribute("aria-pressed") == "true"
    page.keyboard.press("Enter")
    tab_to(page, "document.activeElement.tagName === 'SUMMARY'")
    page.keyboard.press("Enter")
    assert page.locator("#gap-0-details").get_attribute("open") is not None
    # it refreshes by itself, and what was open stays open
    before = page.locator("main p").first.inner_text()
    page.wait_for_function("text => document.querySelector('main p').innerText !== text",
                           arg=before, timeout=15_000)  # fmt: skip
    assert page.locator("#gap-0-details").get_attribute("open") is not None
    assert page.locator("#state").inner_text() == "live"
    # another period, and from an edit to its decision
    day = time.strftime("%Y-%m-%d", time.gmtime(time.time() - 5 * 86_400))
    for name in ("from", "to"):
        page.locator(f"input[name={name}]").fill(day)
    page.get_by_role("button", name="Show").click()
    assert page.locator("input[name=from]").input_value() == day
    assert page.locator("#now .figures strong").first.inner_text() == f"{A_DAY:,}"
    page.locator("#edits-table a").first.click()
    assert page.locator("h1").inner_text().startswith("Decision 25")
    assert "urban" in page.locator("dl").inner_text() or "dose" in page.locator("dl").inner_text()
    assert errors == []
    assert all(url.startswith(month.admin) for url in asked), asked
    context.close()


def tab_to(page, what):
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate(what):
            return
    raise AssertionError(f"no {what} is reached by the keyboard")


@pytest.mark.slow
def test_the_metrics_are_the_figures_of_the_page(month):
    from prometheus_client.parser import text_string_to_metric_families

    def samples():
        text = serving.get(month.admin + "/metrics")[1]
        return {
            (sample.name, *sorted(sample.labels.values())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    deadline = time.monotonic() + 20
    while not (seen := samples()).get(("fairmend_decisions",)):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    _, figures, _ = serving.get(month.admin + "/figures")
    [one] = figures["monitored"]
    for window, found in (("latest", one["windows"][-1]), ("all", one["overall"])):
        for decisions, name in (("vendor", "original"), ("repair", "repaired")):
            for end, value in zip(("value", "low", "high"), found[name], strict=True):
                key = sorted(("fnr", "b", "a", window, decisions, end))
                assert seen["fairmend_gap", *key] == pytest.approx(value)
    for group in "ab":
        for metric, name in (("selection_rate", "selected"), ("accuracy", "right")):
            rates = one["overall_rates"][group]
            key = sorted((group, "repair"))
            assert seen[f"fairmend_{metric}", *key] == pytest.approx(rates[name][0])
            key = sorted((group, "vendor"))
            assert seen[f"fairmend_{metric}", *key] == pytest.approx(rates[f"{name}_alone"][0])
    assert seen["fairmend_input_drift", *sorted(("b", "dose"))] > 0.1
    assert seen["fairmend_alerts", "inputs"] == 1
    assert seen["fairmend_alerts", "model"] == 0
    assert seen["fairmend_edited",] == figures["edited"]
    assert seen["fairmend_probe_rows",] == 64


@pytest.mark.slow
def test_a_period_has_its_own_figures(month):
    def day(ago):
        return time.strftime("%Y-%m-%d", time.gmtime((time.time() // 86_400 - ago) * 86_400))

    _, everything, _ = serving.get(month.admin + "/figures")
    _, early, _ = serving.get(f"{month.admin}/figures?to={day(DAYS - DRIFT + 1)}")
    _, late, _ = serving.get(f"{month.admin}/figures?from={day(DAYS - DRIFT)}")
    assert early["decisions"] == DRIFT * A_DAY
    assert late["decisions"] == (DAYS - DRIFT) * A_DAY
    for name in ("edited", "labelled"):
        assert early[name] + late[name] == everything[name]
    assert not any(alert["kind"] == "inputs" for alert in early["alerts"])
    assert [len(each["monitored"][0]["inputs"]) for each in (early, late)] == [DRIFT, DAYS - DRIFT]
    assert serving.get(f"{month.admin}/figures?from=yesterday")[0] == 422
    assert serving.get(f"{month.admin}/decision?id=nobody")[0] == 404


@pytest.mark.slow
def test_reasons_of_failures_lead_to_their_decisions(start, vendor):
    sidecar = start(mode="shadow")
    odd = {"instances": [{"age": 61, "dose": 1, "urban": 1, "group": "nobody's", "id": 1}]}
    _, _, headers = serving.post(sidecar.url + "/predict", odd)
    vendor.behave("500")
    serving.post(sidecar.url + "/predict", {"instances": [{"age": 61, "dose": 1, "urban": 1}]})
    _, figures, _ = serving.get(sidecar.admin + "/figures")
    reasons = {each["reason"]: each["count"] for each in figures["failures"]}
    assert reasons == {"shadow_failed: unknown_group": 1, "upstream_error": 1}
    [odd] = [each for each in figures["failures"] if each["reason"].startswith("shadow")]
    assert odd["decision"] == headers["Fairmend-Decision"]
    status, page, _ = serving.get(f"{sidecar.admin}/decision?id={odd['decision']}")
    assert status == 200
    assert "unknown_group" in page


def test_a_page_never_has_more_windows_than_its_alerts_are_judged_for():
    rng = np.random.default_rng(0)
    for span in 10 ** rng.uniform(1, 9.5, 300):
        first = rng.uniform(0, 1e9)
        width = monitor._width(span)
        windows = (first + span) // width - first // width + 1
        assert windows <= MOST_WINDOWS
