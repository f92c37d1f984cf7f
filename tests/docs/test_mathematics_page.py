"""The page on the mathematics names tests and modules: they are there."""

import ast
import functools
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "mathematics.md").read_text(encoding="utf-8")


@functools.cache
def functions_of(path):
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_every_test_it_names_exists():
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", TEXT)
    assert len(named) == TEXT.count("`tests/")
    assert [f"{path}::{name}" for path, name in named if name not in functions_of(path)] == []


def test_every_section_with_a_formula_names_what_computes_and_what_checks_it():
    for section in re.split(r"^## ", TEXT, flags=re.MULTILINE)[1:]:
        title, _, text = section.partition("\n")
        if re.search(r"^    \S", text, flags=re.MULTILINE):
            assert "*Computed in* `" in text, title
            assert "*Checked by*" in text, title


def test_every_module_it_names_exists():
    """A module, or a package with its slash."""
    named = set(re.findall(r"`(?!tests/)([\w/]+(?:\.py|/))`", TEXT))
    assert named
    assert [name for name in named if not (ROOT / "src" / "fairmend" / name).exists()] == []
