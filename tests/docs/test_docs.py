"""The Markdown files: their examples run, print what they say, and their links lead somewhere.

Every ```python block is executed, all blocks of a file in one namespace and in order, in an empty
folder. Where a ```text block follows, it is what was printed; ``...`` in it stands for anything.

    python tests/test_docs.py       writes what the examples print now into the files
"""

import contextlib
import doctest
import io
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from fairmend.measure import disparity
from fairmend.repair import methods

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md")])
PACKAGE = ROOT / "src" / "fairmend"

FENCE = re.compile(r"^```(\w*)\s*$")
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    language: str
    line: int
    """The first line of its code, counted from 1."""
    text: str


@dataclass(frozen=True)
class Example:
    code: Block
    output: Block | None


@pytest.fixture(autouse=True)
def registries():
    """What a page registers, a metric or a method, is gone after it."""
    kept = dict(disparity._REGISTRY), dict(methods.methods())
    yield
    for registry, before in zip((disparity._REGISTRY, methods._REGISTERED), kept, strict=True):
        registry.clear()
        registry.update(before)


def blocks(text):
    """The fenced blocks of a page, and in between the lines that are not blank, as ''."""
    found, opened = [], None
    for number, line in enumerate(text.splitlines(), start=1):
        fence = FENCE.match(line)
        if opened is None and fence:
            opened = (fence[1], number + 1, [])
        elif opened is not None and line == "```":
            language, start, lines = opened
            found.append(Block(language, start, "".join(f"{each}\n" for each in lines)))
            opened = None
        elif opened is not None:
            opened[2].append(line)
        elif line.strip():
            found.append(Block("", number, line))
    assert opened is None, f"the block that starts in line {opened[1]} is never closed"
    return found


def examples(text):
    parts = blocks(text)
    nothing = Block("", 0, "")
    return [
        Example(part, after if after.language == "text" else None)
        for part, after in pairwise([*parts, nothing])
        if part.language == "python"
    ]


def run(page, folder):
    """Each example of a page with what it printed."""
    namespace = {"__name__": "__main__"}
    for example in examples(page.read_text(encoding="utf-8")):
        # blank lines before it, so that a traceback shows the page's own line
        source = "\n" * (example.code.line - 1) + example.code.text
        code = compile(source, str(page), "exec")
        with contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(code, namespace)
        yield example, printed.getvalue()


def name(path):
    return path.relative_to(ROOT).as_posix()


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=name)
def test_examples_print_what_the_page_says(page, tmp_path):
    same = doctest.OutputChecker()
    for example, printed in run(page, tmp_path):
        if example.output is None:
            continue
        where = f"{name(page)}, line {example.output.line}"
        if not same.check_output(example.output.text, printed, doctest.ELLIPSIS):
            pytest.fail(f"{where} says\n{example.output.text}\nbut printed was\n{printed}")


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_text_block_belongs_to_an_example(page):
    text = page.read_text(encoding="utf-8")
    checked = {example.output for example in examples(text)}
    shown = [block for block in blocks(text) if block.language == "text"]
    assert [block.line for block in shown if block not in checked] == []


def anchor(heading):
    """A heading as GitHub writes it in an address."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    prose = "\n".join(block.text for block in blocks(text) if not block.language)
    lost = []
    for link in LINK.findall(prose):
        if re.match(r"[a-z]+:", link):
            continue  # another site's address: not ours to try
        path, _, fragment = link.partition("#")
        goal = page.parent / path if path else page
        if not goal.exists():
            lost.append(link)
        elif fragment:
            headings = HEADING.findall(goal.read_text(encoding="utf-8"))
            if fragment not in map(anchor, headings):
                lost.append(link)
    assert lost == []


def modules():
    return sorted(
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if path.name != "__init__.py" or path.parent == PACKAGE
    )


def test_the_architecture_page_names_every_room_and_only_files_that_exist():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rooms = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert rooms <= set(re.findall(r"^\| `(\w+)/` \|", text, re.MULTILINE))
    text += (ROOT / "docs" / "extend.md").read_text(encoding="utf-8").partition("## Written by")[2]
    named = set(re.findall(r"`(\w[\w/]*\.py)`", text)) - {"tests/test_extending.py"}
    assert sorted(named - set(modules())) == [], "named, but not in src/fairmend"


def test_a_typical_change_touches_at_most_two_files():
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = text.partition("| to | touch |")[2].partition("\n\n")[0].splitlines()[2:]
    assert len(rows) >= 10
    assert all(1 <= len(re.findall(r"`[\w/]+(?:\.py|/)`", row)) <= 2 for row in rows)


def test_the_index_leads_to_every_page():
    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    linked = {(ROOT / "docs" / link.partition("#")[0]).resolve() for link in LINK.findall(text)}
    pages = {page for page in PAGES if page.parent.name == "docs" and page.name != "index.md"}
    assert sorted(name(page) for page in pages - linked) == []


def test_the_checks_notice_what_is_wrong(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(6 * 7)\n```\n\n```text\n41\n```\n", encoding="utf-8")
    [(example, printed)] = run(page, tmp_path)
    assert (example.output.text, printed) == ("41\n", "42\n")
    assert os.getcwd() != str(tmp_path)


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "-d", str(tmp_path)],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
    pages = {page.stem for page in tmp_path.glob("*.html")}
    assert {"index", "start", "reference", "repair"} <= pages
    fetched = re.findall(r'(?:src|href)="(https?://[^"]+)"[^>]*(?:rel="stylesheet"|></script>)',
                         (tmp_path / "index.html").read_text(encoding="utf-8"))  # fmt: skip
    assert fetched == []


def rewrite(page):
    """Put what the examples print now into the page; blocks with ``...`` that still fit stay."""
    lines = page.read_text(encoding="utf-8").splitlines(keepends=True)
    with tempfile.TemporaryDirectory() as folder:
        done = list(run(page, folder))
    same = doctest.OutputChecker()
    for example, printed in reversed(done):
        block = example.output
        if block is None or same.check_output(block.text, printed, doctest.ELLIPSIS):
            continue
        first = block.line - 1
        lines[first : first + block.text.count("\n")] = [printed]
        print(f"{name(page)}, line {block.line}: rewritten")
    page.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    for each in PAGES:
        rewrite(each)
