"""The monitor's page: what it shows of its figures, safe and accessible."""

import re

import pytest
from axe_playwright_python.sync_playwright import Axe

from fairmend.measure.drift import InputWindow, Moved
from fairmend.measure.windows import GapWindow
from fairmend.report.html.monitor import POLICY, monitor_page
from fairmend.report.monitoring import Alert, LoggedEdit, Monitored, MonitorFigures, find_alerts

EVIL = "<script>alert(1)</script>"
DAY = 86_400
FIRST = 1_777_593_600  # 2026-05-01


def figures(windows=10, name=EVIL):
    """A group whose gap stays closed until the last window, and whose inputs drift with it."""
    gaps = tuple(
        GapWindow(
            FIRST + i * DAY, 200, 160, (0.2, 0.1, 0.3), (0.01 * i, -0.1, 0.1),
            (0.01 * i, 0.06, 0.2), i == windows - 1,
        )
        for i in range(windows)
    )  # fmt: skip
    moved = Moved(name, name, 0.1, 0.4, 0.3, 0.001)
    inputs = tuple(
        InputWindow(f"2026-05-{i + 1:02d}", 90, 5, 0.1, moved, i > 7)
        for i in range(windows)
    )  # fmt: skip
    group = Monitored(name, name, "fnr", name, gaps, (0.05, 0.01, 0.09), False, inputs, 0.03)
    alerts = [*find_alerts([group], 2, FIRST), *(Alert(FIRST, name, name) for _ in range(9))]
    edits = (LoggedEdit(FIRST, name, name, name, 0, 1),)
    return MonitorFigures(
        FIRST, "shadow", True, name, 0.05, DAY, 2_000, 5, 300, 1_500, 2, FIRST, (group,), edits,
        tuple(alerts),
    )  # fmt: skip


def test_nothing_of_a_label_reaches_the_page_unescaped():
    text = monitor_page(figures())
    assert EVIL not in text
    assert text.count("<script>") == 1
    assert "src=" not in text
    assert not re.search(r"""\s(style|on\w+)\s*=\s*["']""", text)
    assert POLICY.startswith("default-src 'none'; style-src 'sha256-")
    assert POLICY.endswith("frame-ancestors 'none'")


@pytest.mark.parametrize("width", [1180, 360])
def test_it_is_quiet_accessible_and_shows_its_figures(open_page, tmp_path, width):
    path = tmp_path / "monitor.html"
    path.write_text(monitor_page(figures()), encoding="utf-8")
    seen = open_page(path, width=width)
    violations = Axe().run(seen.page).response["violations"]
    serious = [one for one in violations if one["impact"] in ("serious", "critical")]
    assert [(one["id"], one["nodes"][0]["html"]) for one in serious] == []
    assert seen.errors == []
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
    for curve in ("original", "repaired"):
        drawn = seen.page.locator(f"polyline[data-curve={curve}]").get_attribute("points")
        assert len(drawn.split()) == 10
    assert seen.page.locator("rect.alert").count() == 2
    assert seen.page.locator(".alerts li").count() == 8
    assert "earlier ones" in seen.page.locator("#alerts").inner_text()
    assert seen.page.locator("#gap-0-table tbody tr").count() == 10


def test_nothing_known_yet_is_said():
    text = monitor_page(figures(0, "b"))
    assert text.count("Nothing is known yet") == 3
    assert "<svg" not in text
