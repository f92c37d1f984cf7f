"""The page beside other packages: its figures are those that are kept, never typed."""

import importlib.util
import json
from pathlib import Path

SCRIPT = Path(__file__).resolve().parent.parent / "scripts" / "peers_page.py"
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
    ours = next(line for line in readme.splitlines() if line.startswith("| fairmend, labels"))
    row = next(
        row for row in kept["summary"]
        if (row["data"], row["aim"], row["contestant"]) == ("adult", "fnr", "fairmend.labels")
    )  # fmt: skip
    assert f"| {100 * row['gap']:+.1f} |" in ours


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


def test_figures_that_are_not_of_one_run_say_so():
    found = {"splits": 1, "slow_splits": 1, "pins": {}, "bars": [], "summary": []}
    assert "Two runs." in peers_page.made(peers_page.kept_of({**found, "note": "Two runs."}))
