"""The pictures in the documentation: made by a script, and still what the pages show."""

import hashlib
import importlib.util
import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("screenshots", ROOT / "scripts" / "screenshots.py")
screenshots = importlib.util.module_from_spec(spec)
sys.modules["screenshots"] = screenshots  # dataclasses look their module up
spec.loader.exec_module(screenshots)

MOST_BYTES, MOST_BYTES_TOGETHER = 100_000, 1_300_000
NUMBER = re.compile(r"[-+−]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?|(?<= )\.\d+")
AGAIN = "the pictures are out of date: run make screenshots, and look at them"


@pytest.fixture(scope="module")
def kept():
    return json.loads(screenshots.MADE_FROM.read_text(encoding="utf-8"))


def words_and_numbers(lines):
    """The text with a # for every figure, and the figures."""
    text = "\n".join(lines)
    plain = (said.replace(",", "").replace("−", "-") for said in NUMBER.findall(text))
    return NUMBER.sub("#", text).splitlines(), [float(number) for number in plain]


def test_pictures_are_as_the_script_wrote_them(kept):
    files = {path.name: path.read_bytes() for path in screenshots.IMAGES.iterdir()}
    del files[screenshots.MADE_FROM.name]
    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    assert hashes == {name: one["sha256"] for name, one in kept["pictures"].items()}, AGAIN
    assert max(map(len, files.values())) < MOST_BYTES
    assert sum(map(len, files.values())) < MOST_BYTES_TOGETHER


def test_drawings_fetch_nothing(kept):
    for name in kept["pictures"]:
        if name.endswith(".svg"):
            drawing = (screenshots.IMAGES / name).read_text(encoding="utf-8")
            addresses = set(re.findall(r"(?:https?:)?//[^\s\"')]+", drawing))
            assert addresses == {"http://www.w3.org/2000/svg"}
            assert not re.search(r"@font-face|@import|<script|<image|href", drawing)


def test_every_picture_is_shown_with_words_for_those_who_do_not_see_it(kept):
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    shown = {}
    for page in pages:
        for alt, path in re.findall(r"!\[([^\]]*)\]\(([^)\s]+)\)", page.read_text("utf-8")):
            picture = (page.parent / path).resolve()
            if picture.parent == screenshots.IMAGES:
                shown.setdefault(picture.name, []).append(alt)
    assert sorted(shown) == sorted(kept["pictures"])
    assert min(len(alt) for alts in shown.values() for alt in alts) > 40


def test_pages_are_dressed_as_in_the_pictures(kept):
    assert screenshots.style() == kept["style"], AGAIN


def test_the_terminal_shows_the_command_of_the_page():
    page = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    assert f"\n{' '.join(screenshots.AUDIT)}\n" in page


@pytest.mark.slow
def test_pictures_show_what_the_pages_say_now(kept, browser, monkeypatch):
    """Words exactly; figures to a fiftieth, or two in the last place of a percentage."""
    drawn = screenshots.in_few_colours
    monkeypatch.setattr(screenshots, "in_few_colours", lambda _, png: png)  # seconds of a core
    shots = {shot.name: shot.text for shot in screenshots.take_all(browser)}
    with screenshots.opened(browser) as page:
        assert drawn(page, page.screenshot()).startswith(b"\x89PNG")
    assert shots.keys() == kept["pictures"].keys()
    for name, text in shots.items():
        words, numbers = words_and_numbers(text)
        kept_words, kept_numbers = words_and_numbers(kept["pictures"][name]["text"])
        assert words == kept_words, f"{name}: {AGAIN}"
        assert numbers == pytest.approx(kept_numbers, rel=0.02, abs=0.2), f"{name}: {AGAIN}"


def test_figures_are_told_from_words():
    words, numbers = words_and_numbers(["p < .001, 1,333 of Female", "−10 to +2.5 %, 8.46e-19"])
    assert words == ["p < #, # of Female", "# to # %, #"]
    assert numbers == [0.001, 1333.0, -10.0, 2.5, 8.46e-19]
