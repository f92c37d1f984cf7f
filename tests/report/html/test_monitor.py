"""The monitor's page: what it shows of its figures, safe and accessible."""

import re
from dataclasses import replace

import pytest
from axe_playwright_python.sync_playwright import Axe

from fairmend.measure.drift import InputWindow, Moved
from fairmend.measure.windows import GapWindow, RateWindow
from fairmend.report.html.monitor import POLICY, decision_page, monitor_page
from fairmend.report.monitoring import (
    Alert,
    Failure,
    LoggedDecision,
    LoggedEdit,
    Monitored,
    MonitorFigures,
    answer,
    find_alerts,
)
from fairmend.report.table import typeset
from fairmend.serve.log import TABLES
from narrow import cut_off

EVIL = "<script>alert(1)</script>"
DAY = 86_400
FIRST = 1_777_593_600  # 2026-05-01


def figures(windows=10, name=EVIL, *, late=(), beyond=True, **changes):
    """A group whose gap stays closed until the last window, and whose inputs drift with it.

    Outcomes of the windows in ``late`` are still to come.
    """
    gaps = tuple(
        GapWindow(
            FIRST + i * DAY, 200, 0 if i in late else 160,
            None if i in late else (0.2, 0.1, 0.3), None if i in late else (0.01 * i, -0.1, 0.1),
            None if i in late else (0.01 * i, 0.06, 0.2), beyond and i == windows - 1,
            (0.01 * i, -0.2, 0.2) if i in late else None,
        )
        for i in range(windows)
    )  # fmt: skip
    overall = GapWindow(
        FIRST, 2_000, 1_600, (0.2, 0.18, 0.22), (0.03, 0.01, 0.04), (0.03, 0.0, 0.06), False
    )
    rates = tuple(
        RateWindow(FIRST + i * DAY, 100, 80, *2 * [(0.3, 0.2, 0.4)], *2 * [(0.8, 0.7, 0.9)])
        for i in range(windows)
    )
    moved = Moved(name, name, 0.1, 0.4, 0.3, 0.001)
    inputs = tuple(
        InputWindow(f"2026-05-{i + 1:02d}", 90, 5, 0.1, moved, i > 7)
        for i in range(windows)
    )  # fmt: skip
    seen = changes.pop("overall", overall)
    group = Monitored(
        name, changes.pop("baseline", name), "fnr", name, gaps, seen, {name: rates},
        dict(zip([name], rates, strict=False)), inputs, 0.03,
    )  # fmt: skip
    alerts = [*find_alerts([group], 2, FIRST), *(Alert(FIRST, name, name) for _ in range(9))]
    edits = (LoggedEdit(FIRST, name, name, name, 0, 1),)
    told = MonitorFigures(
        FIRST, "repair", True, name, 0.05, DAY, 2_000, 5, 300, 1_500, 2, FIRST, (group,), edits,
        tuple(alerts), failures=(Failure(name, 3, FIRST, name),), vendor=name, version=name,
        basis=name, repair=name,
    )  # fmt: skip
    return replace(told, **changes)


def test_nothing_of_a_label_reaches_the_page_unescaped():
    text = monitor_page(figures())
    assert EVIL not in text
    assert text.count("<script>") == 1
    assert "src=" not in text
    assert not re.search(r"""\s(style|on\w+)\s*=\s*["']""", text)
    assert POLICY.startswith("default-src 'none'; style-src 'sha256-")
    assert POLICY.endswith("frame-ancestors 'none'")


@pytest.mark.parametrize(("width", "theme"), [(1440, "light"), (390, "light"), (390, "dark")])
def test_it_is_quiet_accessible_and_shows_its_figures(open_page, tmp_path, width, theme):
    path = tmp_path / "monitor.html"
    path.write_text(monitor_page(figures(late=range(6, 9))), encoding="utf-8")
    seen = open_page(path, width=width, theme=theme)
    violations = Axe().run(seen.page).response["violations"]
    serious = [one for one in violations if one["impact"] in ("serious", "critical")]
    assert [(one["id"], one["nodes"][0]["html"]) for one in serious] == []
    assert seen.errors == []
    assert cut_off(seen.page) == []
    shown = seen.page.locator(".only-wide" if width > 700 else ".only-narrow")
    gap = shown.first
    for curve, known in (("original", 7), ("repaired", 7), ("estimate", 3)):
        points = gap.locator(f"polyline[data-curve={curve}]").get_attribute("points")
        assert len(points.split()) == known
    assert "estimated" in seen.page.locator("#gap-section-0 .legend").inner_text()
    assert shown.locator("rect.alert").count() == 2
    size = "one => one.getBoundingClientRect().height"
    assert gap.locator("text").first.evaluate(size) > 9, "text is not made small with its chart"
    assert seen.page.locator(".alerts li").count() == 8
    assert "earlier ones" in seen.page.locator("#alerts").inner_text()
    assert seen.page.locator("#gap-0-table tbody tr").count() == 10


def test_nothing_known_yet_is_said():
    text = monitor_page(figures(0, "b", overall=None))
    assert text.count("Nothing is known yet") == 5
    assert "<svg" not in text
    assert "Not known yet: there is no decision about b" in text


def about(people, labelled, gap, estimate=None, *, alert=False):
    return GapWindow(FIRST, people, labelled, gap, gap, gap, alert, estimate)


GAP = "the gap in false negative rate of b against a"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"overall": about(900, 900, (0.01, -0.02, 0.04))},
         f"Yes: with the repair {GAP} is +1.0 points (-2.0 to +4.0), within the tolerance of "
         "5 points."),
        ({"overall": about(900, 900, (0.01, -0.02, 0.04)), "mode": "shadow"},
         f"Yes: in shadow nothing is repaired; with the repair {GAP} would be +1.0 points "
         "(-2.0 to +4.0), within the tolerance of 5 points."),
        ({"overall": about(90, 90, (0.01, -0.2, 0.4))},
         f"Not yet clear: with the repair {GAP} is +1.0 points (-20.0 to +40.0); the "
         "tolerance is 5 points."),
        ({"overall": about(900, 900, (0.09, 0.07, 0.11), alert=True)},
         f"No: with the repair {GAP} is +9.0 points (+7.0 to +11.0). It is shown to be beyond the "
         "tolerance of 5 points over all windows together."),
        ({"overall": about(900, 900, (0.01, -0.02, 0.04)), "beyond": True},
         f"No: with the repair {GAP} is +1.0 points (-2.0 to +4.0). It is shown to be beyond the "
         "tolerance of 5 points in 1 of 10 single windows, the last on 10 May 2026."),
        ({"overall": about(900, 0, None, (0.01, -0.02, 0.04))},
         f"Not known yet: outcomes are known of 0 of 900 people; estimated from people alike, with "
         f"the repair {GAP} is +1.0 points (-2.0 to +4.0)."),
        ({"monitored": (), "blind": True},
         "Not watched: the repair is blind and nobody's group is logged; log_groups = true would "
         "watch the gap."),
    ],
)  # fmt: skip
def test_the_page_opens_with_the_answer(changes, sentence):
    changes = {"beyond": False, "name": "b", "baseline": "a", **changes}
    said = figures(**changes)
    said = replace(said, monitored=tuple(
        replace(one, title="false negative rate, negative decisions among positive outcomes")
        for one in said.monitored
    ))  # fmt: skip
    assert answer(said) == sentence
    assert f"<h1>{typeset(sentence)}</h1>".replace("'", "&#39;") in monitor_page(said)


def test_what_is_not_known_of_another_group_is_not_called_better():
    """One group is beyond the tolerance, two are not known: these may be worse or better."""
    said = figures(name="b", baseline="a")
    [bad] = said.monitored
    unknown, fine = replace(bad, overall=None), replace(bad, windows=())
    text = answer(replace(said, monitored=(unknown, bad, unknown)))
    assert text.startswith("No: ")
    assert text.endswith(". Other groups: 2 not known yet.")
    text = answer(replace(said, monitored=(fine, unknown, bad, bad)))
    assert text.endswith(
        ". Other groups: 1 beyond the tolerance, 1 not known yet, 1 within the tolerance."
    )
    assert "Other groups" not in answer(replace(said, monitored=(fine,)))


def test_a_decision_is_told_with_what_became_of_it():
    row = dict.fromkeys(TABLES["decisions"]) | {
        "decision": "17/0", "at": FIRST, "status": "shadow_failed", "edited": "", "original": 0,
        "grp": EVIL,
    }  # fmt: skip
    logged = LoggedDecision(row, ((FIRST, 0), (FIRST + 60, 1)), ("bad_type",))
    text = decision_page("17/0", [logged])
    for said in (
        "shadow_failed",
        "bad_type",
        "0, recorded 2026-05-01 00:00:00",
        "1, recorded 2026-05-01",
    ):
        assert said in text
    assert EVIL not in text
    assert "is not in the log" in decision_page(EVIL, [])
    assert EVIL not in decision_page(EVIL, [])
