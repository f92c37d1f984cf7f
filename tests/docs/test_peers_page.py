"""The page beside other packages: its figures are those that are kept, never typed."""

import importlib.util
import json
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "peers_page.py"
spec = importlib.util.spec_from_file_location("peers_page", SCRIPT)
peers_page = importlib.util.module_from_spec(spec)
spec.loader.exec_module(peers_page)


def test_the_tables_are_made_from_what_is_kept():
    kept = json.loads(peers_page.KEPT.read_text(encoding="utf-8"))
    page = peers_page.PAGE.read_text(encoding="utf-8")
    assert peers_page.made(kept) in page, "run scripts/peers_page.py"
    assert page.count(peers_page.START) == page.count(peers_page.END) == 1


def test_the_readme_shows_what_is_kept():
    kept = json.loads(peers_page.KEPT.read_text(encoding="utf-8"))
    readme = peers_page.README.read_text(encoding="utf-8")
    assert peers_page.in_short(kept) in readme, "run scripts/peers_page.py"
    (ours,) = [line for line in readme.splitlines() if line.startswith("| fairmend, labels")]
    for aim in peers_page.IN_SHORT:
        row = row_of(kept, aim, "fairmend.labels")
        assert f"| {100 * row['gap']:+.1f} | {100 * row['accuracy']:.1f} % |" in ours


def row_of(kept, aim, contestant):
    return next(
        row for row in kept["summary"]
        if (row["data"], row["aim"], row["contestant"]) == ("adult", aim, contestant)
    )  # fmt: skip


def test_the_readme_shows_where_fairmend_leads_and_where_it_does_not():
    kept = json.loads(peers_page.KEPT.read_text(encoding="utf-8"))
    lead, behind = peers_page.IN_SHORT
    for aim, leads in ((lead, True), (behind, False)):
        rows = [
            row for row in kept["summary"]
            if (row["data"], row["aim"]) == ("adult", aim) and row["contestant"] != "model"
            and row["contestant"].endswith((".labels", ".eq_odds"))
        ]  # fmt: skip
        for figure in ("auc_decisions_target", "accuracy"):
            best = max(rows, key=lambda row: row[figure])
            assert (best["contestant"] == "fairmend.labels") == leads, (aim, figure)


def test_every_labels_only_peer_has_a_row_with_the_surrogate():
    kept = json.loads(peers_page.KEPT.read_text(encoding="utf-8"))
    rows = {(row["data"], row["aim"], row["contestant"]) for row in kept["summary"]}
    wanted = [
        row for row in rows if row[2].endswith(".labels") and not row[2].startswith("fairmend")
    ]
    assert wanted
    for data, aim, key in wanted:
        assert (data, aim, key.replace(".labels", ".surrogate")) in rows


def test_no_other_part_of_the_page_holds_a_decimal_figure():
    page = peers_page.PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(peers_page.START)
    typed = before + rest.partition(peers_page.END)[2]
    assert not any(f".{digit}" in typed for digit in range(10))


def test_what_is_kept_is_compact_and_says_the_same():
    row = {"contestant": "model", "gap": 0.1234567891, "splits": 10, "fit": None}
    pins = {"fairlearn": ["fairlearn==1.0", "numpy==2.0"], "fairmend": []}
    kept = peers_page.kept_of(
        {"splits": 10, "slow_splits": 2, "pins": pins, "bars": [], "summary": [row], "records": [1]}
    )
    assert kept["summary"] == [{**row, "gap": 0.123457}]
    assert kept["versions"] == ["fairlearn==1.0"]
    assert kept["note"] == ""
    assert "records" not in kept


def test_what_a_run_could_not_judge_is_kept_from_before_and_said():
    def bar(promise, measured):
        return {"promise": promise, "measured": measured, "verdict": "met"}

    found = {"splits": 1, "slow_splits": 1, "pins": {}, "summary": [],
             "bars": [bar("quality", "new"), bar("speed", "")]}  # fmt: skip
    kept = peers_page.kept_of(found, {"bars": [bar("quality", "old"), bar("speed", "old")]})
    assert kept["bars"] == [bar("quality", "new"), bar("speed", "old")]
    assert kept["note"] == peers_page.EARLIER


def test_figures_that_are_not_of_one_run_say_so():
    found = {"splits": 1, "slow_splits": 1, "pins": {}, "bars": [], "summary": []}
    assert "Two runs." in peers_page.made(peers_page.kept_of({**found, "note": "Two runs."}))


def test_a_run_of_blind_rules_alone_keeps_the_other_tables():
    before = json.loads(peers_page.KEPT.read_text(encoding="utf-8"))
    row = {"data": "adult", "aim": "sp", "contestant": "fairmend.blind", "gap": 0.00123456789}
    found = {"summary": [], "bars": [], "blind": [row], "beside_published": None}
    kept = peers_page.kept_of(found, before)
    assert kept["blind"] == [{**row, "gap": 0.001235}]
    renewed = dict.fromkeys(["blind", "beside_published", "blind_note"])
    assert {**kept, **renewed} == {**before, **renewed}
