"""The pictures in the documentation, taken anew: `make screenshots`.

    python scripts/screenshots.py

Runs the demo, a month behind the sidecar and the command line on the embedded data, opens the
pages in a real browser, and writes pictures to docs/images/. Beside them stands made-from.json:
the text that each picture shows, the style, and a hash of each file. A test takes the pages'
text again and compares, words exactly and figures nearly, so that a picture that no longer shows
what fairmend does is noticed. Pixels are not compared: fonts differ between machines.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import json
import os
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
MADE_FROM = IMAGES / "made-from.json"
WIDE, NARROW, MARGIN = 1280, 390, 20
LEVEL = "0.8"
"""Where the slider of the frontier stands."""
COLOURS = 24
"""Of a picture: pages are mostly black on white."""

FIRST_DAY = 1_777_593_600.0  # 1 May 2026, so that the same days are shown whenever it is run
DAYS, A_DAY, DRIFT = 30, 2_000, 16
DAY = 86_400
GAP_CHART = "figure:has(#gap-0)"
AUDIT = (
    "fairmend", "audit", "applicants.csv", "--label", "over_50k", "--group", "sex",
    "--predictions", "score", "--id", "person",
)  # fmt: skip
NOTEBOOK = """<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>Notebook</title>
<style>main {{ columns: 34rem; column-gap: 1rem; }} main > * {{ break-inside: avoid; }}</style>
<main>{cards}</main>"""
"""Cards beside each other where there is room."""
TERMINAL = """\
<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font: {char_height}px/{line_height}px monospace; }}
.{unique_id}-title {{ font: bold 18px sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g>
</g>
</svg>
"""
"""As rich lays a terminal out, with the fonts of whoever looks: nothing is fetched."""


@dataclass(frozen=True)
class Shot:
    """One picture, and the text in it."""

    name: str
    text: tuple[str, ...]
    content: bytes


def main() -> None:
    """Take all pictures and write them, with what they were made from."""
    sys.path.insert(0, str(ROOT / "tests"))  # which know how to find a browser
    from playwright.sync_api import sync_playwright

    from conftest import FLAGS, find_browser

    path = find_browser()
    if path is None:
        sys.exit("no pictures without a browser: try `make browser`")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        shots = list(take_all(browser))
        browser.close()
    IMAGES.mkdir(exist_ok=True)
    for shot in shots:
        (IMAGES / shot.name).write_bytes(shot.content)
        print(f"docs/images/{shot.name}: {len(shot.content) / 1000:.0f} kB")
    made_from = {"style": style(), "pictures": {s.name: description(s) for s in shots}}
    MADE_FROM.write_text(json.dumps(made_from, indent=1, ensure_ascii=False) + "\n", "utf-8")


def take_all(browser: Any) -> Iterator[Shot]:
    """Every picture, in a folder that is gone afterwards."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        yield from report_shots(browser, folder)
        yield from notebook_shots(browser, folder)
        yield from dossier_shots(browser, folder)
        yield from monitor_shots(browser, folder)
        yield terminal_shot(folder)
        yield from studio_shots(browser, folder)


def description(shot: Shot) -> dict[str, Any]:
    """What is kept of a picture beside itself."""
    return {"sha256": hashlib.sha256(shot.content).hexdigest(), "text": list(shot.text)}


def style() -> str:
    """The style of pages and of cards, told by what it says and not by its layout."""
    from fairmend.report.html import cards, page

    said = " ".join(f"{page.style()} {cards.style()}".split())
    return hashlib.sha256(said.encode()).hexdigest()


# -------------------------------------------------------------------- the report


def report_shots(browser: Any, folder: Path) -> Iterator[Shot]:
    """The page that the demo writes: its first screen, its groups, its frontier with the slider."""
    from fairmend.cli import walk

    made = patch.dict(os.environ, SOURCE_DATE_EPOCH=str(int(FIRST_DAY)))
    with made, contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()):
        walk.main()
    address = (folder / walk.PAGE).as_uri()
    yield from on_each_screen(browser, "report", address, "header", "#verdict .figures")
    with opened(browser) as page:
        page.goto(address)
        yield shot(page, "report-groups.png", "#groups", "#groups")
        slider = page.get_by_role("slider")
        slider.focus()
        while page.locator("#level-now").text_content() != LEVEL:
            page.keyboard.press("ArrowLeft")
        slider.blur()
        yield shot(page, "report-frontier.png", "#frontier", "#frontier figure")


def notebook_shots(browser: Any, folder: Path) -> Iterator[Shot]:
    """What a notebook shows of an audit, a counterfactual, a fitted repair and its report."""
    from sklearn.linear_model import LogisticRegression

    import fairmend

    adult = fairmend.datasets.load_adult()
    model = LogisticRegression(C=100).fit(adult.X[::3], adult.y[::3])
    audited, new = ((adult.X[k::3], adult.y[k::3]) for k in (1, 2))
    sex, new_sex = (adult.sensitive_features[k::3] for k in (1, 2))
    repaired = fairmend.RepairedClassifier(model, "fnr", do_no_harm=True, random_state=0)
    repaired.fit(*audited, sensitive_features=sex)
    shown = (
        fairmend.audit(model, *audited, sensitive_features=sex),
        fairmend.counterfactual(model, *audited, sensitive_features=sex, disparity="fnr"),
        repaired,
        repaired.report(*new, sensitive_features=new_sex, holdout=True),
    )
    cards = "".join(one._repr_html_() for one in shown)
    page = folder / "notebook.html"
    page.write_text(NOTEBOOK.format(cards=cards), encoding="utf-8")
    yield from on_each_screen(browser, "notebook", page.as_uri(), "main", "main", margin=0)


def dossier_shots(browser: Any, folder: Path) -> Iterator[Shot]:
    """The first screen of the dossier that docs/alternatives.md makes."""
    from sklearn.linear_model import LogisticRegression

    import fairmend

    adult = fairmend.datasets.load_adult()
    model = LogisticRegression(C=100).fit(adult.X[::3], adult.y[::3])
    with patch.dict(os.environ, SOURCE_DATE_EPOCH=str(int(FIRST_DAY))):
        found = fairmend.alternatives(
            model, adult.X[1::3], adult.y[1::3], disparity="sp", measure="accuracy", margin=0.01,
            sensitive_features=adult.sensitive_features[1::3], random_state=0,
        )  # fmt: skip
    found.save_html(folder / "dossier.html")
    address = (folder / "dossier.html").as_uri()
    yield from on_each_screen(browser, "dossier", address, "header", "#answer figure")


# -------------------------------------------------------------------- the monitor


def monitor_shots(browser: Any, folder: Path) -> Iterator[Shot]:
    """The operators' page after a month in which one group's inputs have drifted."""
    from fairmend.report.html.monitor import monitor_page
    from fairmend.serve.monitor import look

    sidecar = a_month(folder / "decisions.sqlite")
    drawn = monitor_page(replace(look(sidecar), at=FIRST_DAY + DAYS * DAY))

    def answer(route: Any) -> None:
        route.fulfill(content_type="text/html; charset=utf-8", body=drawn)

    address = "http://localhost:8081/"
    yield from on_each_screen(
        browser, "monitor", address, "body", GAP_CHART, margin=0, answer=answer
    )


def a_month(path: Path) -> Any:
    """What the page reads of a sidecar: its repair, its settings, and a log of thirty days.

    From day `DRIFT` on the women's degrees and kinds of job are no longer filled in, and the model
    misses more of them than in the audit.
    """
    from sklearn.linear_model import LogisticRegression

    from fairmend import RepairedClassifier
    from fairmend.cli.walk import IMMUTABLE
    from fairmend.data.columns import Frame
    from fairmend.datasets import load_adult
    from fairmend.model.remote import cells
    from fairmend.serve.config import Config
    from fairmend.serve.log import TABLES, DecisionLog, Entry, LogKey
    from fairmend.serve.repairer import Repairer

    adult = load_adult("pandas")
    model = LogisticRegression(C=100, max_iter=1_000).fit(adult.X[::3], adult.y[::3])
    repaired = RepairedClassifier(model, "fnr", immutable=IMMUTABLE, do_no_harm=True, key=bytes(32))
    repaired.fit(adult.X[1::3], adult.y[1::3], sensitive_features=adult.sensitive_features[1::3])
    fingerprint = hashlib.sha256(b"an artifact").hexdigest()
    serving = Repairer(repaired, fingerprint, ("sex", "id"))

    rng = np.random.default_rng(0)
    n = DAYS * A_DAY
    came = 3 * rng.integers(0, len(adult.y) // 3, n) + 2
    X = adult.X.iloc[came].reset_index(drop=True)
    y, sex = adult.y[came], adult.sensitive_features.iloc[came].to_numpy(str)
    day = np.repeat(np.arange(DAYS), A_DAY)
    emptied = [name for name in X if name.startswith(("HighestDegree", "JobType"))]
    X.loc[(day >= DRIFT - 1) & (sex == "Female"), emptied] = 0
    edited = repaired.transform(X, sensitive_features=sex, ids=np.arange(n))
    before, after, moved = model.predict(X), model.predict(edited), (edited != X).to_numpy()
    at = (FIRST_DAY + DAY * np.arange(n) / A_DAY).tolist()
    known, names = rng.random(n) < 0.8, X.columns.to_numpy()
    places = [serving.cells.get(tuple(row), -1) for row in cells(Frame.read(X))]

    rows: list[Any] = []
    counted = []
    for i in range(n):
        values = {
            "decision": f"{i:06d}/0", "at": at[i], "grp": str(sex[i]), "artifact": fingerprint,
            "mode": "shadow", "original": int(before[i]), "repaired": int(after[i]),
            "edited": ",".join(names[moved[i]]), "status": "ok",
        }  # fmt: skip
        rows.append(("decisions", tuple(map(values.get, TABLES["decisions"]))))
        if known[i]:
            rows.append(("outcomes", (values["decision"], int(y[i]), at[i] + 3_600)))
        today = time.strftime("%Y-%m-%d", time.gmtime(at[i]))
        counted.append((today, fingerprint, values["grp"], places[i]))
    log = DecisionLog(path, LogKey(bytes(32)))
    log.put_and_wait(Entry(rows, counted))
    log.close()
    return SimpleNamespace(
        serving=serving,
        log=log,
        config=Config(
            artifact="repaired.zip", upstream="http://vendor", basis="Board decision of 4 May"
        ),
        ready=True,
        mode="repair",
        probes=SimpleNamespace(
            changed=0, at=FIRST_DAY + DAYS * DAY - 120, failed="", are_changed=False
        ),
        retention=SimpleNamespace(is_paused=False),
    )


# -------------------------------------------------------------------- the terminal


def terminal_shot(folder: Path) -> Shot:
    """What `fairmend audit` prints about the file of `fairmend demo --write`."""
    from rich.console import Console
    from rich.text import Text

    run(folder, "demo", "--write", "applicants.csv", "--new", "newcomers.csv")
    said = run(folder, *AUDIT[1:]).rstrip("\n")
    typed = f"{' '.join(AUDIT[:7])} \\\n    {' '.join(AUDIT[7:])}"
    width = max(map(len, said.splitlines()))
    console = Console(record=True, width=width, file=io.StringIO())
    console.print(Text.assemble(("$ ", "green"), (typed, "bold")))
    console.print(Text(said))
    drawing = console.export_svg(title="fairmend audit", code_format=TERMINAL, unique_id="audit")
    return Shot("terminal-audit.svg", lines(f"$ {typed}\n{said}"), drawing.encode())


def run(folder: Path, *arguments: str) -> str:
    """What a command prints."""
    done = subprocess.run(
        [sys.executable, "-m", "fairmend", *arguments],
        cwd=folder, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return done.stdout


# -------------------------------------------------------------------- the studio

SCREENS = {
    "data": "#roles",
    "measure": "main figure",
    "explain": "main figure",
    "repair": ".figures",
    "alternatives": "main figure",
    "file": ".box",
}
"""Each screen, and where its picture ends."""


def studio_shots(browser: Any, folder: Path) -> Iterator[Shot]:
    """Every screen of a project about the file of `fairmend demo --write`, with each step done."""
    from fairmend.studio.fixes import with_role
    from fairmend.studio.project import Project
    from fairmend.studio.screens import columns_of, guessed
    from fairmend.studio.settings import STEPS

    project = Project.at(folder / "applicants")
    (folder / "applicants.csv").replace(project.folder / "data" / "applicants.csv")
    project.open("data/applicants.csv")
    columns = columns_of(finished(project, "columns"))
    project.change(
        lambda old: replace(with_role(guessed(old, columns), "over_50k", "outcome"), **CHOSEN)
    )
    for step in STEPS:
        finished(project, step)
    command = ["fairmend", "studio", "--no-browser", "--project", str(project.folder)]
    studio = subprocess.Popen([sys.executable, "-m", *command], stderr=subprocess.PIPE, text=True)
    assert studio.stderr is not None
    try:
        address = next(line.split()[-1] for line in studio.stderr if " open http" in line)
        with opened(browser) as page:
            page.goto(address)
            page.wait_for_url("**/data")
            home, state = page.url.removesuffix("data"), page.context.storage_state()
        for name, end in SCREENS.items():
            with opened(browser, state=state) as page:
                page.goto(f"{home}{name}")
                yield shot(page, f"studio-{name}.png", "body", end)
        for name, width, theme in (("measure", NARROW, "dark"), ("repair", WIDE, "dark")):
            with opened(browser, width=width, theme=theme, state=state) as page:
                page.goto(f"{home}{name}")
                narrow = "" if width == WIDE else f"-{width}"
                yield shot(page, f"studio-{name}{narrow}-{theme}.png", "body", SCREENS[name])
    finally:
        studio.terminate()
        studio.wait(20)
        studio.stderr.close()


CHOSEN = {
    "metric": ["fnr"],
    "target": "Female",
    "do_no_harm": True,
    "immutable": ["Married", "Immigrant", "Age_leq_30"],
}


def finished(project: Any, step: str) -> Any:
    """The run of a step, once it has ended."""
    run = project.begin(step)
    while run.state == "running":
        time.sleep(0.05)
    if run.state != "done":
        sys.exit(f"{step}: {run.error}")
    return run


# -------------------------------------------------------------------- pages as pictures


@contextlib.contextmanager
def opened(
    browser: Any, *, width: int = WIDE, theme: str = "light", state: Any = None
) -> Iterator[Any]:
    """A tab as wide as the pictures; ``state`` has the cookies of another one."""
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=theme, reduced_motion="reduce",
        storage_state=state,
    )  # fmt: skip
    yield context.new_page()
    context.close()


def on_each_screen(
    browser: Any,
    name: str,
    address: str,
    start: str,
    end: str,
    *,
    margin: int = MARGIN,
    answer: Any = None,
) -> Iterator[Shot]:
    """A page on a wide screen and on a phone, in light and in dark: four pictures."""
    for width, of_width in ((WIDE, ""), (NARROW, f"-{NARROW}")):
        for theme, of_theme in (("light", ""), ("dark", "-dark")):
            with opened(browser, width=width, theme=theme) as tab:
                if answer is not None:
                    tab.route("**/*", answer)
                tab.goto(address)
                yield shot(tab, f"{name}{of_width}{of_theme}.png", start, end, margin=margin)


def shot(page: Any, name: str, start: str, end: str, *, margin: int = MARGIN) -> Shot:
    """A page from where one part of it starts to where one ends, and a little more."""
    page.evaluate("window.scrollTo(0, 0)")  # boxes are counted from the top of the window
    first, last = (page.locator(part).first.bounding_box() for part in (start, end))
    clip = {"x": 0, "y": first["y"], "width": page.viewport_size["width"],
            "height": last["y"] + last["height"] + margin - first["y"]}  # fmt: skip
    seen = page.evaluate(VISIBLE_TEXT, [clip["y"], clip["y"] + clip["height"]])
    taken = page.screenshot(full_page=True, clip=clip, animations="disabled")
    return Shot(name, lines(seen), in_few_colours(page, taken))


VISIBLE_TEXT = """([top, bottom]) => {
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), said = [];
  for (let node; (node = walk.nextNode()); ) {
    const range = document.createRange();
    range.selectNodeContents(node);
    const box = range.getBoundingClientRect();
    if (node.parentElement.checkVisibility() && box.width > 1 && box.left >= 0
        && box.top >= top && box.bottom <= bottom) {
      said.push(node.textContent);
    }
  }
  return said.join("\\n");
}"""
"""Every piece of text that can be seen between two heights, in the order of the page."""


def lines(text: str) -> tuple[str, ...]:
    """Without blank ones, and with single blanks."""
    return tuple(" ".join(line.split()) for line in text.splitlines() if line.strip())


PIXELS = """async (png) => {
  const image = new Image();
  image.src = "data:image/png;base64," + png;
  await image.decode();
  const canvas = Object.assign(document.createElement("canvas"),
                               { width: image.width, height: image.height });
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  const bytes = context.getImageData(0, 0, image.width, image.height).data;
  let text = "";
  for (let i = 0; i < bytes.length; i += 32768) {
    text += String.fromCharCode(...bytes.subarray(i, i + 32768));
  }
  return [image.height, image.width, btoa(text)];
}"""


def chosen(colours: Any, count: Any) -> Any:
    """The places of a palette: each time that whose pixels are worst off with those before it.

    So what is rare and unlike all else, such as a ring, keeps its colour.
    """
    palette, distance = [int(count.argmax())], np.full(len(colours), np.inf)
    while len(palette) < COLOURS:
        distance = np.minimum(distance, ((colours - colours[palette[-1]]) ** 2).sum(axis=1))
        if not distance.any():
            break
        palette.append(int((count * distance).argmax()))
    return np.sort(palette)


def in_few_colours(page: Any, png: bytes) -> bytes:
    """A picture with a palette: colours that many pixels need, the others as the nearest of them.

    The browser reads it; a picture of that kind is simple enough to be written here.
    """
    tab = page.context.new_page()  # the page itself may forbid it
    height, width, text = tab.evaluate(PIXELS, base64.b64encode(png).decode())
    tab.close()
    pixels = np.frombuffer(base64.b64decode(text), ">u4") >> 8  # without transparency
    numbers, place, count = np.unique(pixels, return_inverse=True, return_counts=True)
    colours = numbers.astype(">u4").view(np.uint8).reshape(-1, 4)[:, 1:]
    palette = colours[chosen(colours.astype(np.int64), count)]
    apart = colours[:, None].astype(np.int64) - palette[None]
    nearest = (apart**2).sum(axis=2).argmin(axis=1).astype(np.uint8)
    rows = nearest[place].reshape(height, width)
    unfiltered = np.pad(rows, ((0, 0), (1, 0)))  # each row begins with its filter, 0
    parts = {
        b"IHDR": struct.pack(">2I5B", width, height, 8, 3, 0, 0, 0),
        b"PLTE": palette.tobytes(),
        b"IDAT": zlib.compress(unfiltered.tobytes(), 9),
        b"IEND": b"",
    }
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(part)) + kind + part + struct.pack(">I", zlib.crc32(kind + part))
        for kind, part in parts.items()
    )


if __name__ == "__main__":
    main()
