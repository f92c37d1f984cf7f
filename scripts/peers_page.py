"""The tables of docs/peers.md and README.md, from the figures that benchmarks/peers.py wrote.

    python scripts/peers_page.py --from results/peers.json   # keep its figures, and make the tables
    python scripts/peers_page.py                             # make them from what is kept

What is kept is docs/peers.json: means over the splits, verdicts and versions, no single record. A
``note`` in the figures, on how they came about where that was not one run, is shown above them.
What a run without the cost race could not judge is kept from before, and the note says so. A run of
the rules without the group alone renews their table and keeps the others.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from fairmend.data.files import writing

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "docs" / "peers.json"
PAGE = ROOT / "docs" / "peers.md"
README = ROOT / "README.md"
START, END = "<!-- made by scripts/peers_page.py -->", "<!-- end of what is made -->"
DIGITS = 6
"""More than any table shows, so that nothing is rounded twice."""
IN_SHORT = {"fnr": "women's FNR", "fpr": "men's FPR"}
"""The README's gaps of Adult, and what their columns are called."""
EARLIER = "The bars on speed are of an earlier run."


def benchmark() -> ModuleType:
    """The benchmark, whose tables these are."""
    spec = importlib.util.spec_from_file_location("peers", ROOT / "benchmarks" / "peers.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["peers"] = module  # dataclasses look their module up
    sys.path.insert(0, str(ROOT / "benchmarks"))  # as a script has it
    spec.loader.exec_module(module)
    return module


def kept_of(found: dict[str, Any], before: dict[str, Any] | None = None) -> dict[str, Any]:
    """The means, the verdicts and the packages' own versions; ``before``: what was kept last."""
    blind = {
        "blind": [_rounded(row) for row in found.get("blind", [])],
        "beside_published": _rounded(found.get("beside_published") or {}) or None,
        "blind_note": found.get("blind_note", ""),
    }
    if before and blind["blind"] and not found["summary"]:
        return {**before, **blind}
    known = {bar["promise"]: bar for bar in before["bars"]} if before else {}
    bars = [bar if bar["measured"] else known.get(bar["promise"], bar) for bar in found["bars"]]
    note = found.get("note", "")
    if bars != found["bars"]:
        note = f"{note} {EARLIER}".strip()
    return {
        "splits": found["splits"],
        "slow_splits": found["slow_splits"],
        "note": note,
        "versions": [pins[0] for pins in found["pins"].values() if pins],
        "bars": bars,
        "summary": [_rounded(row) for row in found["summary"]],
        **blind,
    }


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name: round(value, DIGITS) if isinstance(value, float) else value
        for name, value in row.items()
    }


def made(kept: dict[str, Any]) -> str:
    """The part of the page that holds figures."""
    peers = benchmark()
    told = peers.tables({**kept, "cost": [], "did_not_run": {}})
    versions = ", ".join(pin.replace("==", " ") for pin in kept["versions"])
    return "\n".join(
        [
            START,
            "",
            f"Means over {kept['splits']} splits, {kept['slow_splits']} for the slowest package.",
            f"{versions}.",
            "",
            *([kept["note"], ""] if kept["note"] else []),
            *(peers.section(table).replace("## ", "### ", 1).rstrip() + "\n" for table in told),
            END,
        ]
    )


def in_short(kept: dict[str, Any]) -> str:
    """The README's table: two gaps of Adult, closed without the model's scores."""
    peers = benchmark()
    given = {one.key: one.access for one in peers.CONTESTANTS}
    rows: dict[str, dict[str, str]] = {}
    for row in kept["summary"]:
        key, aim = row["contestant"], row["aim"]
        if row["data"] == "adult" and aim in IN_SHORT and given.get(key) != "scores":
            rows.setdefault(key, {})[aim] = (
                f"{100 * row['gap']:+.1f} | {100 * row['accuracy']:.1f} % "
                f"| {100 * row['other_changed']:.1f} %"
            )
    heads = (f"{name}: gap | accuracy | others changed" for name in IN_SHORT.values())
    lines = [f"| | {' | '.join(heads)} |", "|---|" + "---:|" * (3 * len(IN_SHORT))]
    for key, cells in rows.items():
        shown = (cells.get(aim, "– | – | –") for aim in IN_SHORT)
        lines.append(f"| {peers.title_of(key)} | {' | '.join(shown)} |")
    return "\n".join([START, "", *lines, "", END])


def page_with(part: str, page: str) -> str:
    """The page with that part in its place."""
    before, _, rest = page.partition(START)
    _, _, after = rest.partition(END)
    return before + part + after


def main() -> None:
    """Keep figures if told to, and make the tables anew."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--from", dest="found", type=Path, help="results/peers.json of a run")
    found = parser.parse_args().found
    if found is not None:
        before = json.loads(KEPT.read_text(encoding="utf-8"))
        kept = kept_of(json.loads(found.read_text(encoding="utf-8")), before)
        _write(KEPT, json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
    kept = json.loads(KEPT.read_text(encoding="utf-8"))
    _write(PAGE, page_with(made(kept), PAGE.read_text(encoding="utf-8")))
    _write(README, page_with(in_short(kept), README.read_text(encoding="utf-8")))


def _write(path: Path, text: str) -> None:
    with writing(path, overwrite=True) as file:
        file.write(text.encode())


if __name__ == "__main__":
    main()
